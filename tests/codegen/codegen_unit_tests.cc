// Generated code: beside the evaluator of the loop IR bit for bit, and beside the reference kernels.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "anfora/error.h"
#include "both_ways.h"
#include "codegen/epilogue.h"
#include "codegen/generated_kernels.h"
#include "codegen/group.h"
#include "codegen/product.h"
#include "kernels/generated/product.h"
#include "kernels/generated/product_layout.h"
#include "kernels/generated/registry.h"
#include "prepared.h"

namespace anfora::codegen {
namespace {

using namespace kernels::generated;

TEST(Codegen, ProductsAreThoseOfTheEvaluator) {
  for (Isa isa : isas_here()) {
    const Tile tile = product_tile(isa, 768);
    for (int rows : {1, 2, 3, tile.rows}) {
      for (int64_t depth : {int64_t{1}, int64_t{7}, 2 * kStepsOfFetch + 3}) {
        for (bool has_edge : {false, true}) {
          for (auto [activation, weights] : {std::pair(Activation::None, DType::F32), std::pair(Activation::Gelu, DType::F32),
                                             std::pair(Activation::None, DType::F16), std::pair(Activation::None, DType::BF16)}) {
            if (!kernels::generated::reads_weights(isa, weights)) continue;
            SCOPED_TRACE(fmt::format("{} {} rows, depth {}, edge {}, weights {}", kernels::generated::describe(isa).name, rows,
                                     depth, has_edge, name(weights)));
            ProductCode code{.isa = isa,
                             .tile = tile,
                             .depth = depth,
                             .block = depth,
                             .a_stride = depth + 2,
                             .has_packed_rows = has_edge,
                             .has_edge = has_edge,
                             .weights = weights,
                             .epilogue = {},
                             .fetches_ahead = depth > kStepsOfFetch};
            code.epilogue = {.scale = 0.5f, .addends = {Addend::Row, Addend::Tile}, .activation = activation};
            const int at_once = code.panels_at_once(rows);
            const int64_t width = code.panel_columns(), panels = at_once + 1,
                          columns = panels * width - (has_edge ? width - 3 : 0);
            const Tensor a = random_tensor({rows, depth + 2}, 1), b = random_tensor({panels, depth, width}, 2, weights);
            const Tensor c = random_tensor({columns}, 3), z = random_tensor({rows, columns}, 4);
            Tensor y = random_tensor({rows, columns}, 5);
            std::vector<int64_t> arguments(kProductArguments);
            arguments[kA] = address(a), arguments[kB] = address(b);
            arguments[kYStride] = arguments[kAddend1Stride] = arguments[kColumns] = columns;
            arguments[kGroups] = panels / at_once, arguments[kRest] = panels % at_once;
            arguments[kAddend0] = address(c), arguments[kAddend1] = address(z);
            arguments[kAhead] = address(b), arguments[kLinesOfFetch] = 2;
            BothWays both{product_function(code, rows), isa, {}};
            for (const Tensor* tensor : {&a, &b, &c, &z})
              both.regions.push_back({static_cast<const float*>(tensor->raw()), static_cast<int64_t>(tensor->bytes() / sizeof(float))});
            both.expect_equal(arguments, kY, y);
          }
        }
      }
    }
  }
}

// So layers of one model, and models, have it compiled once.
TEST(Codegen, ProductsOfOpenSizesShareTheirCode) {
  for (const bool has_windows : {false, true}) {
    auto function = [&](int64_t depth, int64_t block) {
      const ProductCode code{.isa = Isa::Avx2, .tile = {6, 2}, .depth = depth, .block = block, .a_stride = depth, .has_open_sizes = true, .has_windows = has_windows, .epilogue = {}, .fetches_ahead = true};
      return encoded(product_function(code, 6));
    };
    EXPECT_EQ(function(64, 64), function(147, 147));
    EXPECT_EQ(function(2304, 768), function(4608, 1536));
    EXPECT_NE(function(64, 64), function(4608, 1536));
  }
}

TEST(Codegen, IntegerProductsAreThoseOfTheEvaluator) {
  for (Isa isa : isas_here()) {
    for (Factors factors : {Factors::Halves, Factors::Bytes}) {
      if (factors == Factors::Bytes && !has_byte_dots(isa)) continue;
      for (Scale scale : {Scale::None, Scale::One, Scale::Columns}) {
        for (bool has_zeros : {false, true}) {
          SCOPED_TRACE(fmt::format("{}, factors {}, scale {}, zeros {}", kernels::generated::describe(isa).name,
                                   static_cast<int>(factors), static_cast<int>(scale), has_zeros));
          constexpr int64_t kDepth = 9, kStride = 10, kRows = 3;
          const Tile tile = product_tile(isa, 768);
          ProductCode code{.isa = isa,
                           .tile = tile,
                           .depth = kDepth,
                           .block = kDepth,
                           .a_stride = kStride,
                           .has_edge = true,
                           .factors = factors,
                           .has_column_zeros = has_zeros,
                           .scale = scale,
                           .epilogue = {}};
          code.epilogue.addends = {Addend::Row, Addend::None};
          const int64_t width = code.panel_columns(), columns = width - 1;
          // Any bits are words.
          const Tensor a = random_tensor({kRows, kStride}, 1), b = random_tensor({kDepth, width}, 2);
          const Tensor terms = random_tensor({2, width}, 3), rows = random_tensor({kRows}, 4);
          const Tensor scales = random_tensor({columns}, 5), c = random_tensor({columns}, 6);
          Tensor y = random_tensor({kRows, columns}, 7);
          std::vector<int64_t> arguments(kProductArguments);
          arguments[kA] = address(a), arguments[kB] = address(b), arguments[kAddend0] = address(c);
          arguments[kYStride] = arguments[kColumns] = columns;
          arguments[kGroups] = 0, arguments[kRest] = 1;
          arguments[kSteps] = kDepth, arguments[kAStride] = kStride, arguments[kPanelStride] = kDepth * width;
          if (code.panels_at_once(kRows) == 1) std::swap(arguments[kGroups], arguments[kRest]);
          arguments[kColumnTerms] = address(terms), arguments[kColumnZeros] = address(terms) + width * 4;
          arguments[kRowTerms] = address(rows), arguments[kScale] = address(scales);
          BothWays both{product_function(code, kRows), isa, {}};
          for (const Tensor* tensor : {&a, &b, &terms, &rows, &scales, &c})
            both.regions.push_back({tensor->data<float>().data(), tensor->size()});
          both.expect_equal(arguments, kY, y);
        }
      }
    }
  }
}

// Every activation over all magnitudes: as the evaluator has it, and near the exact value.
class Activations : public testing::TestWithParam<Activation> {};

double exact(const Epilogue& e, double x) {
  const double alpha = e.alpha, beta = e.beta;
  switch (e.activation) {
    case Activation::None: return x;
    case Activation::Relu: return std::max(0.0, x);
    case Activation::LeakyRelu: return x < 0 ? alpha * x : x;
    case Activation::Elu: return x < 0 ? alpha * std::expm1(x) : x;
    case Activation::Clip: return std::clamp(x, alpha, beta);
    case Activation::Sigmoid: return 1 / (1 + std::exp(-x));
    case Activation::Tanh: return std::tanh(x);
    case Activation::HardSigmoid: return std::clamp(alpha * x + beta, 0.0, 1.0);
    case Activation::HardSwish: return x * std::clamp(alpha * x + beta, 0.0, 1.0);
    case Activation::Swish: return x / (1 + std::exp(-alpha * x));
    case Activation::Gelu: return 0.5 * x * std::erfc(-x * std::sqrt(0.5));
    case Activation::GeluTanh: return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case Activation::Abs: return std::fabs(x);
    case Activation::Softplus: return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
  }
  return 0;
}

Epilogue epilogue_of(Activation activation) {
  Epilogue epilogue{.activation = activation, .alpha = 1};
  if (activation == Activation::Clip) epilogue.alpha = -0.5f, epilogue.beta = 6;
  if (activation == Activation::HardSigmoid) epilogue.alpha = 0.2f, epilogue.beta = 0.5f;
  if (activation == Activation::HardSwish) epilogue.alpha = 1.0f / 6, epilogue.beta = 0.5f;
  if (activation == Activation::LeakyRelu) epilogue.alpha = 0.01f;
  return epilogue;
}

// y[i] = f(x[i]), vector by vector.
Function map_function(const IsaDescription& isa, const Epilogue& epilogue) {
  Builder b("map");
  const Value x = b.parameter("x", Element::Pointer), y = b.parameter("y", Element::Pointer),
              count = b.parameter("count", Element::Index);
  b.loop(0, count, [&](Value i) {
    const Value at = b.multiply(i, b.integer(isa.lanes));
    const Value loaded = b.load({Element::F32, 1, 1, isa.lanes}, b.offset(x, at), b.integer(0));
    b.store(b.offset(y, at), b.integer(0), activate(b, isa, epilogue, loaded));
  });
  return b.finish();
}

Tensor all_magnitudes() {
  std::vector<float> values{0.0f, -0.0f, INFINITY, -INFINITY, NAN};
  for (float step : {0x1p-4f, 0x1p-12f})
    for (float x = 0x1p-30f; x < 128; x += std::max(x * step * 16, 0x1p-140f))
      values.push_back(x), values.push_back(-x);
  while (values.size() % 16 != 0) values.push_back(1);
  return Tensor::from<float>(Shape{std::ssize(values)}, values);
}

TEST_P(Activations, AreThoseOfTheEvaluatorAndExact) {
  const Epilogue epilogue = epilogue_of(GetParam());
  const Tensor x = all_magnitudes();
  for (Isa isa : isas_here()) {
    const IsaDescription& description = kernels::generated::describe(isa);
    SCOPED_TRACE(fmt::format("{} {}", to_string(epilogue), description.name));
    Tensor y = Tensor::zeros(DType::F32, x.shape());
    BothWays both{map_function(description, epilogue), isa, {{x.data<float>().data(), x.size()}}};
    both.expect_equal({address(x), 0, x.size() / description.lanes}, 1, y);
    for (int64_t i = 0; i < x.size(); ++i) {
      const float at = x.data<float>()[i], got = y.data<float>()[i];
      if (std::isnan(at)) {
        EXPECT_TRUE(std::isnan(got)) << got;
        continue;
      }
      if (std::isinf(at)) continue;  // where 0 times infinity stands for 0
      const double expected = exact(epilogue, at);
      // Where terms cancel the error is relative to what they are: of Gelu and its like, to x below 0; of the hard ones without FMA, to
      // the sum's second term.
      const bool cancels = at < 0 && GetParam() >= Activation::Swish && GetParam() <= Activation::GeluTanh;
      double size = cancels ? at : expected;
      if (!description.has_fma && GetParam() == Activation::HardSigmoid) size = epilogue.beta;
      if (!description.has_fma && GetParam() == Activation::HardSwish) size = at * epilogue.beta;
      const double unit = std::ldexp(1.0, std::max(size == 0 ? -126 : std::ilogb(size), -126) - 23);
      ASSERT_LE(std::fabs(got - expected), (description.has_fma ? 2.5 : 4.5) * unit)
          << "of " << at << ": " << got << ", not " << expected;
    }
  }
}
// Where the polynomials have come to their bounds.
TEST(Codegen, GeluOfLargeNumbersIsExact) {
  for (Isa isa : isas_here()) {
    for (Activation activation : {Activation::Gelu, Activation::GeluTanh}) {
      const IsaDescription& description = kernels::generated::describe(isa);
      const Tensor x = Tensor::from<float>(Shape{16}, std::vector<float>{6, 7, 8, 10, 20, 100, 1e4f, 1e30f, -15, -16, -17, -20, -40, -100, -1e4f, -1e30f});
      Tensor y = Tensor::zeros(DType::F32, x.shape());
      BothWays both{map_function(description, epilogue_of(activation)), isa, {{x.data<float>().data(), x.size()}}};
      both.expect_equal({address(x), 0, x.size() / description.lanes}, 1, y);
      for (int64_t i = 0; i < x.size(); ++i)
        EXPECT_EQ(y.data<float>()[i], std::max(x.data<float>()[i], 0.0f)) << "of " << x.data<float>()[i];
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, Activations,
                         testing::Values(Activation::None, Activation::Relu, Activation::LeakyRelu, Activation::Elu,
                                         Activation::Clip, Activation::Sigmoid, Activation::Tanh,
                                         Activation::HardSigmoid, Activation::HardSwish, Activation::Swish,
                                         Activation::Gelu, Activation::GeluTanh, Activation::Abs,
                                         Activation::Softplus));

// Prepares, releases the weights, runs on several numbers of threads, and loads again without a generator.
void expect_generated(std::string_view op, const AttributeSet& attributes, const std::vector<Tensor>& inputs,
                      bool open_shapes = false, float tolerance = 1e-5f, bool has_constant_weights = true) {
  kernels::KernelData data{std::string(op), attributes, {}, 1};
  std::vector<Datum> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    kernels::InputDescription& input = data.inputs.emplace_back();
    input.present = inputs[i].defined();
    input.dtype = inputs[i].dtype();
    values.push_back(inputs[i].defined() ? Datum(inputs[i]) : Datum());
    if (inputs[i].defined()) input.shape = inputs[i].shape();
    const std::ptrdiff_t known_axes = i == 1 ? 2 : 1;  // of weights that are no constant, the matrix
    const bool is_open = open_shapes && input.shape && std::ssize(*input.shape) >= known_axes && (i != 1 || !has_constant_weights);
    if (is_open) std::fill(input.shape->begin(), input.shape->end() - known_axes, -1);
    if (has_constant_weights && (i == 1 || i == 5)) input.constant = inputs[i];  // of integers, the zero points of the weights
  }
  const auto kernel = generate_product(data);
  ASSERT_TRUE(kernel) << op;
  data.implementation = "generated:product";
  const Tensor expected = run_kernel(op, attributes, inputs, 1)[0];
  ASSERT_EQ(kernel->has_packed(1), has_constant_weights);
  if (has_constant_weights) {
    values[1] = Tensor::view(inputs[1].dtype(), inputs[1].shape(), nullptr, nullptr);
    data.inputs[1].constant = values[1].tensor();
  }
  std::vector<const Datum*> pointers;
  for (const Datum& value : values) pointers.push_back(&value);
  auto run = [&](const kernels::PreparedKernel& prepared) {
    kernels::PreparedRun prepared_run(prepared);
    Datum result;
    prepared_run.run(attributes, pointers, {&result, 1});
    return result.tensor();
  };
  const Tensor result = run(*kernel);
  if (tolerance == 0)
    EXPECT_TRUE(Tensor::identical(result, expected));
  else
    expect_close(result, expected, tolerance);
  with_threads(1, [&] { EXPECT_TRUE(Tensor::identical(run(*kernel), result)) << "depends on threads"; });
  kernel->complete();
  kernels::KernelData copied = data;
  for (kernels::PackedConstant& packed : copied.packed) packed.elements = packed.elements.clone();
  const auto loaded = generated_kernels().load(copied);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(copied.packed.size(), data.packed.size());
  EXPECT_EQ(copied.workspace_bytes, data.workspace_bytes);
  EXPECT_TRUE(Tensor::identical(run(*loaded), result));
}

using Dims = std::vector<int64_t>;

// Several threads at once ask for code that is not there yet; what is saved has all of it.
TEST(GeneratedProduct, CodeOfOtherSizesIsMadeByTheRunThatNeedsIt) {
  constexpr int64_t kDepth = 24, kColumns = 40, kMostRows = 2 * kMostTileRows + 1;
  const Tensor weights = random_tensor({kDepth, kColumns}, 1), rows = random_tensor({kMostRows, kDepth}, 2);
  auto first_rows = [](const Tensor& of, int64_t count) {
    return Tensor::view(DType::F32, Shape{count, of.dim(1)}, const_cast<void*>(of.raw()), nullptr);
  };
  const auto description = [](Shape shape, Tensor constant = {}) {
    return kernels::InputDescription{.present = true, .dtype = DType::F32, .shape = std::move(shape), .constant = std::move(constant)};
  };
  kernels::KernelData data{"MatMul", {}, {description({-1, kDepth}), description(weights.shape(), weights)}, 1};
  const auto kernel = generate_product(data);
  ASSERT_TRUE(kernel);
  data.implementation = "generated:product";
  auto run = [&](const kernels::PreparedKernel& of, int64_t count) {
    const Datum x(first_rows(rows, count)), w(weights);
    const std::array<const Datum*, 2> inputs{&x, &w};
    Datum result;
    kernels::PreparedRun(of).run({}, inputs, {&result, 1});
    return result.tensor();
  };
  const auto code_bytes = [&] { return find_packed(data, kernels::generated::kCode)->elements.bytes(); };
  const size_t bytes_at_first = code_bytes();
  kernels::KernelData without_all = data;
  EXPECT_FALSE(generated_kernels().load(without_all)) << "code is missing, and nobody can make it";

  std::vector<Tensor> results(static_cast<size_t>(kMostRows) + 1);
  std::vector<std::thread> callers;
  for (int64_t caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&, caller] {
      for (int64_t count = 1 + caller; count <= kMostRows; count += 3) results[static_cast<size_t>(count)] = run(*kernel, count);
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (int64_t count = 1; count <= kMostRows; ++count) {
    EXPECT_TRUE(Tensor::identical(results[static_cast<size_t>(count)], first_rows(results.back(), count))) << count;
  }
  EXPECT_EQ(code_bytes(), bytes_at_first);
  kernel->complete();
  const size_t bytes_of_all = code_bytes();
  EXPECT_GT(bytes_of_all, bytes_at_first);
  kernel->complete();
  EXPECT_EQ(code_bytes(), bytes_of_all);
  kernels::KernelData copied = data;
  const auto loaded = generated_kernels().load(copied);
  ASSERT_TRUE(loaded);
  for (int64_t count = 1; count <= kMostRows; ++count) EXPECT_TRUE(Tensor::identical(run(*loaded, count), results[static_cast<size_t>(count)])) << count;
}

TEST(GeneratedProduct, Shapes) {
  struct Case {
    Dims a, b;
  };
  for (const Case& c :
       {Case{{5, 7}, {7, 17}}, Case{{1, 7}, {7, 200}}, Case{{2, 3, 5, 7}, {7, 40}}, Case{{2, 1, 5, 7}, {1, 1, 7, 33}},
        Case{{7}, {7, 64}}, Case{{15, 1024}, {1024, 48}}, Case{{29, 33}, {33, 64}}, Case{{3, 512}, {512, 130}},
        Case{{70, 64}, {64, 1000}}, Case{{29, 6000}, {6000, 64}}, Case{{2, 6000}, {6000, 70}}}) {
    SCOPED_TRACE(fmt::format("{} by {}", fmt::join(c.a, "x"), fmt::join(c.b, "x")));
    // Rounding errors of a sum grow like the root of its length, in each of the two.
    const float tolerance = std::max(1e-5f, 16 * std::sqrt(static_cast<float>(c.b[c.b.size() - 2])) * 0x1p-24f);
    expect_generated("MatMul", {}, {random_tensor(c.a, 1), random_tensor(c.b, 2)}, false, tolerance);
    expect_generated("MatMul", {}, {random_tensor(c.a, 1), random_tensor(c.b, 2)}, true, tolerance);
  }
}

TEST(GeneratedProduct, Gemm) {
  for (int64_t transA : {0, 1}) {
    for (int64_t transB : {0, 1}) {
      const AttributeSet attributes{{"transA", transA}, {"transB", transB}, {"alpha", 0.5f}};
      const Tensor a = random_tensor(transA ? Dims{12, 6} : Dims{6, 12}, 1),
                   b = random_tensor(transB ? Dims{20, 12} : Dims{12, 20}, 2);
      expect_generated("Gemm", attributes, {a, b});
      for (const Dims& c : {Dims{20}, Dims{1, 20}, Dims{6, 20}})
        expect_generated("Gemm", attributes, {a, b, random_tensor(c, 3)});
    }
  }
}

// Bit for bit the product with the same weights in f32.
TEST(GeneratedProduct, WeightsOfHalfPrecision) {
  for (DType dtype : {DType::F16, DType::BF16}) {
    if (!reads_weights(dtype)) continue;
    for (const Dims& shape : {Dims{7, 17}, Dims{64, 200}, Dims{2100, 48}}) {
      for (int64_t rows : {1, 3, 40}) {
        SCOPED_TRACE(fmt::format("{} by {}, {}", rows, fmt::join(shape, "x"), name(dtype)));
        const Tensor a = random_tensor({rows, shape[0]}, 1), w = random_tensor(shape, 2, dtype), c = random_tensor({shape[1]}, 3);
        const float tolerance = std::max(1e-5f, 16 * std::sqrt(static_cast<float>(shape[0])) * 0x1p-24f);
        expect_generated("LoweredMatMul", {{"activation", std::string("Relu")}}, {a, w, c}, false, tolerance);
        expect_generated("LoweredMatMul", {}, {a, w}, true, tolerance);
        auto product = [&](const Tensor& weights) { return Prepared("LoweredMatMul", {}, {a, weights, c}, "generated:product"); };
        const Prepared narrow = product(w), wide = product(run_kernel("Cast", {{"to", int64_t{1}}}, {w})[0]);
        EXPECT_TRUE(Tensor::identical(narrow.run(*narrow.kernel), wide.run(*wide.kernel)));
      }
    }
    const Tensor a = random_tensor({5, 16}, 1), w = random_tensor({40, 16}, 2, dtype);
    expect_generated("LoweredMatMul", {{"perm_b", Dims{1, 0}}}, {a, w});
  }
}

TEST(GeneratedProduct, PermutedOperandsAndAddends) {
  const Tensor a = random_tensor({3, 20, 16}, 7), b = random_tensor({16, 24}, 8), c = random_tensor({24}, 3);
  for (const Dims& permutation : {Dims{0, 1, 2}, Dims{1, 0, 2}}) {
    const AttributeSet attributes{{"perm_a", permutation}, {"activation", std::string("GeluTanh")}};
    const Dims y{a.dim(static_cast<int>(permutation[0])), a.dim(static_cast<int>(permutation[1])), 24};
    expect_generated("LoweredMatMul", attributes, {a, b, c, random_tensor(y, 4)});
    expect_generated("LoweredMatMul", attributes, {a, b, c, random_tensor(y, 4)}, true);
    expect_generated("LoweredMatMul", attributes, {a, b, Tensor(), random_tensor({y[0], 1, 24}, 4)});
    expect_generated("LoweredMatMul", attributes.with("perm_y", Dims{1, 0, 2}),
                     {a, b, c, random_tensor({1, y[1], 24}, 4)});
  }
  const AttributeSet transposed{{"perm_a", Dims{0, 2, 1}}, {"perm_b", Dims{1, 0}}};
  expect_generated("LoweredMatMul", transposed, {random_tensor({3, 16, 20}, 7), random_tensor({24, 16}, 8), c});
}

TEST(GeneratedProduct, PackedRows) {
  const Tensor b = random_tensor({70, 520}, 8), c = random_tensor({520}, 3);
  for (const Dims& permutation : {Dims{0, 1, 2}, Dims{1, 0, 2}, Dims{2, 1, 0}}) {
    Dims a(3);
    const Dims rows{3, 17, 70};
    for (size_t i = 0; i < a.size(); ++i) a[static_cast<size_t>(permutation[i])] = rows[i];
    expect_generated("LoweredMatMul", {{"perm_a", permutation}}, {random_tensor(a, 7), b, c, random_tensor({3, 17, 520}, 4)});
  }
  // Bit for bit those of a single tile, whose rows are read where they lie.
  const Tensor all = random_tensor({31, 2100}, 1), w = random_tensor({2100, 512}, 2);
  const Prepared product("LoweredMatMul", {}, {all, w}, "generated:product");
  const Tensor y = product.run(*product.kernel);
  for (int64_t first : {0, 15, 28}) {
    Tensor rows = Tensor::allocate(DType::F32, Shape{3, 2100});
    std::memcpy(rows.raw(), all.data<float>().data() + first * 2100, rows.bytes());
    const Prepared part("LoweredMatMul", {}, {rows, w}, "generated:product");
    const Tensor of_part = part.run(*part.kernel);
    EXPECT_EQ(std::memcmp(of_part.raw(), y.data<float>().data() + first * 512, of_part.bytes()), 0);
  }
}

// Exactly, whatever the signs and zero points: also where pairs of products would not fit into 16 bits.
TEST(GeneratedProduct, Integers) {
  for (DType left : {DType::U8, DType::I8}) {
    for (DType right : {DType::U8, DType::I8}) {
      for (const auto& [rows, depth, columns] : {std::array<int64_t, 3>{1, 5, 20}, {5, 9, 1}, {7, 64, 33}, {29, 1031, 130}}) {
        SCOPED_TRACE(fmt::format("{} by {}: {}x{}x{}", anfora::name(left), anfora::name(right), rows, depth, columns));
        const Tensor a = random_bytes(left, {rows, depth}, 1), b = random_bytes(right, {depth, columns}, 2);
        const Tensor zero_of_a = random_bytes(left, {}, 3), zero_of_b = random_bytes(right, {1}, 4),
                     zeros_of_b = random_bytes(right, {columns}, 5), none;
        for (const Tensor& from_a : {none, zero_of_a}) {
          for (const Tensor& from_b : {none, zero_of_b, zeros_of_b})
            expect_generated("LoweredMatMulInteger", {}, {a, b, none, none, from_a, from_b}, false, 0);
        }
        const AttributeSet attributes{{"activation", std::string("Relu")}};
        const Tensor c = random_tensor({columns}, 6), z = random_tensor({rows, columns}, 7);
        for (const Tensor& scale : {random_tensor({}, 8), random_tensor({columns}, 9)}) {
          for (bool open_shapes : {false, true})
            expect_generated("LoweredMatMulInteger", attributes, {a, b, c, z, zero_of_a, zeros_of_b, scale}, open_shapes, 0);
          const Tensor one = Tensor::scalar(1.0f), r = random_bytes(right, {rows, columns}, 10);
          expect_generated("LoweredMatMulInteger", attributes, {a, b, c, none, zero_of_a, zeros_of_b, scale, one}, false, 0);
          for (const Tensor& residual : {r, random_bytes(right, {1, columns}, 11)})
            expect_generated("LoweredMatMulInteger", attributes, {a, b, c, none, zero_of_a, zeros_of_b, scale, one, zero_of_a, residual, none, one, one}, true, 0);
        }
      }
    }
  }
}

TEST(GeneratedProduct, IntegersThatAreNoConstants) {
  struct Case {
    Dims a, b;
  };
  for (const Case& c : {Case{{1, 5}, {5, 20}}, Case{{3, 4, 29, 31}, {3, 4, 31, 130}}, Case{{3, 1, 7, 64}, {1, 2, 64, 33}}, Case{{2, 6, 1040}, {1040, 16}},
                        Case{{7, 12}, {2, 12, 50}}}) {
    for (DType left : {DType::U8, DType::I8}) {
      for (DType right : {DType::U8, DType::I8}) {
        SCOPED_TRACE(fmt::format("{} {} by {} {}", anfora::name(left), fmt::join(c.a, "x"), anfora::name(right), fmt::join(c.b, "x")));
        const Tensor a = random_bytes(left, c.a, 1), b = random_bytes(right, c.b, 2), zero_of_a = random_bytes(left, {}, 3),
                     zero_of_b = random_bytes(right, {}, 4), zeros_of_b = random_bytes(right, {c.b.back()}, 5), none;
        for (const Tensor& from_b : {none, zero_of_b, zeros_of_b})
          expect_generated("LoweredMatMulInteger", {}, {a, b, none, none, zero_of_a, from_b}, false, 0, false);
        const Tensor scale = Tensor::scalar(0.01f), scale_of_y = Tensor::scalar(7.5f), zero_of_y = random_bytes(left, {}, 7);
        for (bool open_shapes : {false, true})
          expect_generated("LoweredMatMulInteger", {}, {a, b, none, none, zero_of_a, zero_of_b, scale, scale_of_y, zero_of_y}, open_shapes, 0, false);
      }
    }
  }
}

TEST(GeneratedProduct, IntegerConvolutions) {
  struct Case {
    Dims x, w;
    AttributeSet attributes;
  };
  const AttributeSet last{{"channels_last", int64_t{1}}};
  for (const Case& c : {Case{{2, 7, 6, 5}, {17, 5, 1, 1}, last}, Case{{1, 9, 8, 3}, {20, 3, 3, 3}, last.with("pads", Dims{1, 1, 1, 1})},
                        Case{{2, 9, 8, 16}, {33, 16, 3, 2}, last.with("strides", Dims{2, 1}).with("pads", Dims{0, 2, 3, 1})},
                        Case{{1, 9, 11, 6}, {18, 6, 3, 3}, last.with("dilations", Dims{2, 3}).with("auto_pad", std::string("SAME_UPPER"))},
                        Case{{2, 12, 4}, {3, 4, 5}, last}, Case{{2, 5, 7, 8}, {20, 8, 1, 1}, last},
                        Case{{1, 9, 9, 3}, {17, 3, 3, 3}, last.with("pads", Dims{-1, -2, -1, 1})},
                        Case{{1, 9, 8, 3}, {20, 3, 2, 2}, last.with("strides", Dims{2, 2}).with("pads", Dims{1, 0, 0, 1})},
                        Case{{1, 2, 1, 20}, {16, 20, 5, 5}, last.with("pads", Dims{4, 3, 5, 4})}, Case{{1, 4, 5, 6, 2}, {16, 2, 2, 3, 2}, last.with("pads", Dims{1, 1, 1, 0, 1, 0})}}) {
    for (const auto& [left, right] : {std::pair(DType::U8, DType::I8), std::pair(DType::I8, DType::U8)}) {
      SCOPED_TRACE(fmt::format("{} by {}", fmt::join(c.x, "x"), fmt::join(c.w, "x")));
      const Tensor x = random_bytes(left, c.x, 1), w = random_bytes(right, c.w, 2), zero_of_x = random_bytes(left, {}, 3),
                   zeros_of_w = random_bytes(right, {c.w[0]}, 4), none;
      expect_generated("LoweredConvInteger", c.attributes, {x, w, none, none, zero_of_x, none}, false, 0);
      const AttributeSet attributes = c.attributes.with("activation", std::string("Relu"));
      const Tensor b = random_tensor({c.w[0]}, 5), scales = random_tensor({c.w[0]}, 6);
      expect_generated("LoweredConvInteger", attributes, {x, w, b, none, zero_of_x, zeros_of_w, scales}, true, 0);
      const Tensor scale_of_y = Tensor::scalar(3.5f), zero_of_y = random_bytes(right, {}, 7);
      expect_generated("LoweredConvInteger", attributes, {x, w, b, none, zero_of_x, zeros_of_w, scales, scale_of_y, zero_of_y}, false, 0);
      // With a residual.
      const Tensor reference = run_kernel("LoweredConvInteger", c.attributes, {x, w, none, none, zero_of_x})[0];
      const Dims shape(reference.shape().begin(), reference.shape().end());
      const Tensor r = random_bytes(left, shape, 8), zero_of_r = random_bytes(left, {}, 9), y_factor = Tensor::scalar(0.75f), factor = Tensor::scalar(1.25f);
      for (const Tensor& of_y : {Tensor::scalar(1.0f), scale_of_y}) {
        for (bool open_shapes : {false, true}) {
          expect_generated("LoweredConvInteger", c.attributes,
                           {x, w, b, none, zero_of_x, none, scales, of_y, zero_of_y, r, zero_of_r, y_factor, factor, random_bytes(left, {}, 10)}, open_shapes, 0);
        }
      }
    }
  }
}

TEST(GeneratedProduct, PointwiseConvolutions) {
  const AttributeSet last{{"channels_last", int64_t{1}}};
  struct Case {
    Dims x;
    int64_t channels;
  };
  for (const Case& c : {Case{{2, 7, 6, 5}, 17}, Case{{1, 20, 20, 64}, 48}, Case{{1, 1, 1, 96}, 200}, Case{{1, 9, 16}, 32}, Case{{1, 5, 6, 2100}, 33},
                        Case{{1, 1, 1, 2100}, 33}}) {
    Dims kernel(c.x.size(), 1), result = c.x;
    kernel[0] = result.back() = c.channels, kernel[1] = c.x.back();
    SCOPED_TRACE(fmt::format("{} by {}", fmt::join(c.x, "x"), fmt::join(kernel, "x")));
    const Tensor x = random_tensor(c.x, 1), w = random_tensor(kernel, 2), b = random_tensor({c.channels}, 3), z = random_tensor(result, 4), none;
    const float tolerance = std::max(1e-5f, 16 * std::sqrt(static_cast<float>(c.x.back())) * 0x1p-24f);
    expect_generated("LoweredConv", last, {x, w}, false, tolerance);
    expect_generated("LoweredConv", last.with("activation", std::string("Swish")), {x, w, b}, false, tolerance);
    expect_generated("LoweredConv", last.with("activation", std::string("Relu")), {x, w, none, z}, false, tolerance);
    expect_generated("LoweredConv", last.with("activation", std::string("Gelu")), {x, w, b, z}, true, tolerance);
  }
}

TEST(GeneratedProduct, ConvolutionsOfWindows) {
  struct Case {
    Dims x, w;
    AttributeSet attributes;
  };
  const AttributeSet last{{"channels_last", int64_t{1}}};
  const Dims ones{1, 1, 1, 1}, twos{2, 2};
  for (const Case& c :
       {Case{{1, 9, 8, 3}, {20, 3, 3, 3}, last.with("pads", ones)}, Case{{2, 9, 8, 16}, {33, 16, 3, 2}, last.with("strides", Dims{2, 1}).with("pads", Dims{0, 2, 3, 1})},
        Case{{2, 7, 7, 520}, {96, 520, 3, 3}, last.with("pads", ones)}, Case{{1, 30, 31, 3}, {64, 3, 7, 7}, last.with("strides", twos).with("pads", Dims{3, 3, 3, 3})},
        // Images that are larger than the cache, with padding and without; lines of one pixel.
        Case{{2, 80, 81, 48}, {40, 48, 3, 3}, last.with("strides", twos).with("pads", ones)}, Case{{1, 90, 77, 48}, {24, 48, 5, 1}, last},
        Case{{3, 200, 2, 480}, {16, 480, 3, 3}, last.with("strides", twos).with("pads", ones)},
        // Windows that are gathered: taps apart, other numbers of axes; in blocks.
        Case{{1, 9, 11, 6}, {18, 6, 3, 3}, last.with("dilations", Dims{2, 3}).with("auto_pad", std::string("SAME_UPPER"))},
        Case{{1, 90, 91, 32}, {32, 32, 3, 3}, last.with("dilations", twos).with("pads", Dims{2, 2, 2, 2})},
        Case{{2, 12, 4}, {17, 4, 5}, last}, Case{{1, 4, 5, 6, 2}, {16, 2, 2, 3, 2}, last.with("pads", Dims{1, 1, 1, 0, 1, 0})},
        Case{{1, 9, 8, 20}, {24, 20, 1, 1}, last.with("strides", twos)}, Case{{1, 9, 8, 20}, {24, 20, 1, 1}, last.with("pads", ones)},
        // Rows apart, padding that cuts, windows that see padding alone.
        Case{{1, 12, 11, 6}, {18, 6, 3, 3}, last.with("dilations", Dims{3, 1}).with("pads", ones)},
        Case{{1, 9, 9, 3}, {17, 3, 3, 3}, last.with("pads", Dims{-1, -2, -1, 1})}, Case{{1, 9, 9, 3}, {17, 3, 3, 3}, last.with("pads", Dims{-1, -2, -1, -1})},
        Case{{1, 2, 1, 20}, {16, 20, 5, 5}, last.with("pads", Dims{4, 3, 5, 4})},
        Case{{2, 2, 40, 3}, {48, 3, 1, 2}, last.with("dilations", Dims{2, 3}).with("pads", Dims{0, 3, 5, 1})},
        Case{{1, 3, 20, 24}, {48, 24, 2, 2}, last.with("dilations", Dims{1, 3}).with("pads", Dims{0, 3, 7, 1})},
        Case{{1, 3, 20, 5}, {48, 5, 2, 3}, last.with("pads", Dims{5, 3, 7, 4})},
        // Windows of one line: of long ones those without padding are read of the image itself.
        Case{{2, 12, 4}, {17, 4, 5}, last.with("pads", Dims{2, 3})}, Case{{1, 40, 6}, {18, 6, 3}, last.with("dilations", Dims{4}).with("pads", Dims{4, 5})},
        Case{{1, 2, 20}, {3, 20, 7}, last.with("pads", Dims{6, 6})}, Case{{1, 40000, 16}, {16, 16, 3}, last.with("dilations", Dims{5}).with("pads", Dims{5, 5})},
        Case{{2, 16000, 24}, {17, 24, 4}, last.with("strides", Dims{3}).with("pads", Dims{2, 7})},
        Case{{1, 3, 9000, 24}, {8, 24, 1, 5}, last.with("dilations", Dims{1, 2}).with("pads", Dims{0, 4, 0, 3})},
        Case{{1, 3, 9000, 24}, {16, 24, 1, 5}, last.with("strides", Dims{2, 1}).with("pads", Dims{1, 2, 1, 2})},
        Case{{2, 4, 9000, 24}, {16, 24, 1, 5}, last.with("strides", Dims{3, 1}).with("pads", Dims{0, 2, -1, 2})}}) {
    SCOPED_TRACE(fmt::format("{} by {}", fmt::join(c.x, "x"), fmt::join(c.w, "x")));
    const Tensor x = random_tensor(c.x, 1), w = random_tensor(c.w, 2), b = random_tensor({c.w[0]}, 3), none;
    const Shape result = run_kernel("LoweredConv", c.attributes, {x, w}, 1)[0].shape();
    const Tensor z = random_tensor(Dims(result.begin(), result.end()), 4);
    const float tolerance = std::max(1e-5f, 16 * std::sqrt(static_cast<float>(w.size() / c.w[0])) * 0x1p-24f);
    expect_generated("LoweredConv", c.attributes, {x, w}, false, tolerance);
    expect_generated("LoweredConv", c.attributes.with("activation", std::string("Swish")), {x, w, b}, false, tolerance);
    expect_generated("LoweredConv", c.attributes.with("activation", std::string("Relu")), {x, w, b, z}, true, tolerance);
  }
}

TEST(GeneratedProduct, TakesConvolutionsWithCostlyActivations) {
  const Tensor x = random_tensor({1, 20, 20, 32}, 1), w = random_tensor({48, 32, 1, 1}, 2);
  const AttributeSet swish{{"channels_last", int64_t{1}}, {"activation", std::string("Swish")}};
  auto is_generated = [&](const AttributeSet& attributes, const Tensor& weights) {
    kernels::KernelData data{"LoweredConv", attributes, {}, 1};
    for (const Tensor& tensor : {x, weights})
      data.inputs.push_back({.present = true, .dtype = tensor.dtype(), .shape = tensor.shape(), .constant = tensor});
    return generating_kernels().prepare(data) != nullptr;
  };
  EXPECT_EQ(is_generated(swish, w), describe(best_isa()).has_fma);
  EXPECT_EQ(is_generated(swish.with("activation", std::string("Relu")), w), describe(best_isa()).has_fma);
  EXPECT_FALSE(is_generated(swish.with("channels_last", int64_t{0}), random_tensor({48, 20, 1, 1}, 2)));
  EXPECT_EQ(is_generated(swish.with("strides", Dims{2, 2}), random_tensor({48, 32, 3, 3}, 2)), describe(best_isa()).has_fma);
  EXPECT_FALSE(is_generated(swish, random_tensor({48, 32, 3, 3}, 2)));  // Winograd's transform does it
  EXPECT_FALSE(is_generated(swish.with("group", int64_t{2}), random_tensor({48, 16, 1, 1}, 2)));
}

TEST(GeneratedProduct, TakesConvolutionsOfRowsAndOfSizesThatAreNotKnown) {
  const AttributeSet last{{"channels_last", int64_t{1}}};
  auto is_generated = [&](const std::optional<Shape>& x, const Tensor& weights, const Dims& strides) {
    kernels::KernelData data{"LoweredConv", last.with("strides", strides), {}, 1};
    data.inputs.push_back({.present = true, .dtype = DType::F32, .shape = x, .constant = {}});
    data.inputs.push_back({.present = true, .dtype = DType::F32, .shape = weights.shape(), .constant = weights});
    return generating_kernels().prepare(data) != nullptr;
  };
  const Tensor of_rows = random_tensor({24, 16, 5}, 1), of_wide_rows = random_tensor({64, 64, 5}, 1), of_images = random_tensor({24, 16, 5, 5}, 2);
  EXPECT_EQ(is_generated(Shape{1, 400, 16}, of_rows, {1}), describe(best_isa()).has_fma);
  EXPECT_TRUE(is_generated(std::nullopt, of_rows, {1}));
  EXPECT_TRUE(is_generated(std::nullopt, of_images, {2, 2}));
  EXPECT_EQ(is_generated(Shape{1, 40, 40, 16}, of_images, {2, 2}), describe(best_isa()).has_fma);
  // Winograd's transform does these.
  EXPECT_FALSE(is_generated(std::nullopt, of_wide_rows, {1}));
  EXPECT_FALSE(is_generated(Shape{1, 400, 64}, of_wide_rows, {1}));
  EXPECT_FALSE(is_generated(std::nullopt, of_images, {1, 1}));
}

TEST(Codegen, CostlyActivationsBehindWinogradsTransformAreLeftToGroups) {
  const AttributeSet swish{{"channels_last", int64_t{1}}, {"activation", std::string("Swish")}};
  const bool has_fma = describe(best_isa()).has_fma;
  EXPECT_EQ(pays_here("LoweredConv", swish, Dims{64, 32, 3, 3}), !has_fma);
  EXPECT_EQ(pays_here("LoweredConv", swish, {}), !has_fma);
  EXPECT_EQ(pays_here("LoweredConv", swish.with("group", int64_t{2}), Dims{128, 32, 5, 5}), !has_fma);
  EXPECT_TRUE(pays_here("LoweredConv", swish, Dims{64, 32, 1, 1}));
  EXPECT_TRUE(pays_here("LoweredConv", swish.with("strides", Dims{2, 2}), Dims{64, 32, 3, 3}));
  EXPECT_TRUE(pays_here("LoweredConv", swish.with("group", int64_t{64}), Dims{64, 1, 3, 3}));
  EXPECT_TRUE(pays_here("LoweredConv", swish.with("activation", std::string("Relu")), Dims{64, 32, 3, 3}));
  EXPECT_TRUE(pays_here("LoweredMatMul", swish, Dims{64, 32}));
  for (const char* op : {"LoweredExpansionDepthwise", "LoweredPointwise"}) EXPECT_EQ(pays_here(op, {}, {}), has_fma);
}

TEST(GeneratedProduct, LeavesTheRestToOthers) {
  auto is_generated = [](const AttributeSet& attributes, const Tensor& a, const Tensor& b, const Tensor& c) {
    kernels::KernelData data{"LoweredMatMul", attributes, {}, 1};
    for (const Tensor& tensor : {a, b, c})
      data.inputs.push_back({.present = true, .dtype = tensor.dtype(), .shape = tensor.shape(), .constant = tensor});
    return generating_kernels().prepare(data) != nullptr;
  };
  const Tensor a = random_tensor({4, 8}, 1), b = random_tensor({8, 32}, 2), c = random_tensor({32}, 3);
  EXPECT_TRUE(is_generated({}, a, b, c));
  EXPECT_FALSE(is_generated({}, a, b, random_tensor({4, 1}, 3)));
  EXPECT_TRUE(is_generated({}, a, random_tensor({8, 4}, 2), random_tensor({4}, 3)));
  EXPECT_FALSE(is_generated({}, random_tensor({40, 8}, 1), random_tensor({8, 10}, 2), random_tensor({10}, 3)));  // most of a panel would be empty
  EXPECT_FALSE(is_generated({{"perm_y", Dims{1, 0}}}, a, b, c));
  EXPECT_FALSE(is_generated({{"activation", std::string("Mish")}}, a, b, c));
  EXPECT_FALSE(is_generated({}, random_tensor({2, 4, 8}, 1), random_tensor({2, 8, 32}, 2), c));
}

// What an executable may meet at run time: no rows, and operands that do not fit.
TEST(GeneratedProduct, EmptyAndWrongOperands) {
  kernels::KernelData data{"MatMul", {}, {}, 1};
  const Tensor b = random_tensor({8, 32}, 2);
  data.inputs.push_back({.present = true, .dtype = DType::F32, .shape = std::nullopt, .constant = {}});
  data.inputs.push_back({.present = true, .dtype = DType::F32, .shape = b.shape(), .constant = b});
  const auto kernel = generating_kernels().prepare(data);
  ASSERT_TRUE(kernel);
  kernels::PreparedRun run(*kernel);
  const Datum weights(Tensor::view(DType::F32, b.shape(), nullptr, nullptr));
  data.inputs[1].constant = weights.tensor();
  auto compute = [&](const Tensor& a) {
    const Datum x(a);
    const std::array<const Datum*, 2> inputs{&x, &weights};
    Datum y;
    run.run({}, inputs, {&y, 1});
    return y.tensor();
  };
  EXPECT_EQ(compute(Tensor::zeros(DType::F32, Shape{0, 8})).shape(), (Shape{0, 32}));
  EXPECT_THROW(compute(Tensor::zeros(DType::F32, Shape{3, 9})), Error);
  expect_close(compute(random_tensor({3, 8}, 1)), run_kernel("MatMul", {}, {random_tensor({3, 8}, 1), b}, 1)[0], 1e-5f);
}

TEST(GeneratedProduct, LeavesConvolutionsToNoChannelsToOthers) {
  const Tensor x = random_tensor({1, 5, 5, 16}, 1);
  for (const char* op : {"Conv", "LoweredConv", "LoweredPointwise"}) {
    for (const int64_t extent : {1, 3}) {
      const Prepared prepared(op, {{"channels_last", int64_t{1}}}, {x, Tensor::zeros(DType::F32, Shape{0, 16, extent, extent})});
      EXPECT_FALSE(prepared.kernel) << op << extent;
    }
  }
}

TEST(Codegen, CodeForAnotherProcessorIsRefused) {
  const Isa best = best_isa();
  if (best == Isa::Avx512) GTEST_SKIP() << "this one has all instructions";
  MachineCode code{.isa = Isa::Avx512, .entries = {0}, .bytes = Tensor::zeros(DType::U8, Shape{16})};
  EXPECT_THROW(ExecutableCode::map(code), Error);
}

TEST(Codegen, TheVerifierFindsWhatIsWrong) {
  const IsaDescription& isa = kernels::generated::describe(Isa::Avx2);
  auto message = [&](const std::function<void(Builder&, Value)>& build) -> std::string {
    Builder b("wrong");
    const Value p = b.parameter("p", Element::Pointer);
    build(b, p);
    try {
      verify(b.finish(), isa);
    } catch (const Error& error) {
      return std::string(error.message());
    }
    return "";
  };
  EXPECT_EQ(
      message([](Builder& b, Value p) { b.store(p, b.integer(0), b.load({Element::F32, 2, 1, 8}, p, b.integer(8))); }),
      "");
  EXPECT_EQ(message([](Builder& b, Value p) { b.load({Element::F32, 2, 1, 16}, p, b.integer(8)); }),
            "loop IR, wrong, %2 (load): is f32[2x1x16], where a vector has 8 lanes, or half as many");
  EXPECT_EQ(message([](Builder& b, Value p) { b.offset(p, p); }), "loop IR, wrong, %1 (offset): %0 is pointer");
  EXPECT_EQ(message([](Builder& b, Value p) {
              Value inner = kNone;
              b.loop(0, b.integer(4), [&](Value i) { inner = b.offset(p, i); });
              b.prefetch({Element::F32, 2, 1, 8}, inner, b.integer(8), Fetch::Write);
            }),
            "loop IR, wrong, %7 (prefetch): %5 is not defined here");
  EXPECT_EQ(message([](Builder& b, Value) {
              const Type tile{Element::F32, 8, 2, 8};
              b.loop(0, b.integer(4), 1, std::array{tile}, std::array{b.constant(0)},
                     [](Value, std::span<const Value> carried) { return std::vector(carried.begin(), carried.end()); });
            }),
            "loop IR, wrong, %4 (for): carries 16 vectors, in 16 registers");
}

// A key of what a function does: what it prints as, but for names.
TEST(LoopIr, IsEncodedByWhatItDoes) {
  auto sum = [](std::string name, float addend, int64_t stride, int rows, int unroll) {
    Builder b(std::move(name));
    const Value p = b.parameter("p", Element::Pointer);
    const Type tile{Element::F32, rows, 1, 8};
    const std::vector<Value> sums = b.loop(0, b.integer(4), unroll, std::array{tile}, std::array{b.constant(addend)}, [&](Value i, std::span<const Value> carried) {
      return std::vector{b.add(carried[0], b.load(tile, b.offset(p, i), b.integer(stride)))};
    });
    b.store(p, b.integer(stride), sums[0]);
    return encoded(b.finish());
  };
  const std::string one = sum("f", 1, 8, 2, 1);
  EXPECT_EQ(sum("g", 1, 8, 2, 1), one);
  EXPECT_NE(sum("f", 2, 8, 2, 1), one);
  EXPECT_NE(sum("f", 1, 8 + (int64_t{1} << 32), 2, 1), one);
  EXPECT_NE(sum("f", 1, 8, 1, 1), one);
  EXPECT_NE(sum("f", 1, 8, 2, 2), one);
}

// Groups --------------------------------------------------------------------------------------------------------------

TEST(Groups, AreThoseOfTheEvaluator) {
  const std::vector<std::vector<std::string>> groups{
      {"%0 + %1 * %2", "%3 < 0 ? 0.5 : smaller(larger(%3, %1), -%0)"},
      {"e = exp_of_negative(%0 - row_max(%0 + %1)); e / row_sum(e)", "%3 * %2 - row_min(%3)"},
      {"d = %0 - row_mean(%0); d / sqrt(row_mean(d * d) + 1e-05)", "row_sum(%2) + row_size"},
      {"row_max_number(sqrt(%0)) + %1", "%3 - row_max_number(%1)"},  // square roots that are NaN
      {"sin(%0) * cos(100000 * %2)", "pow(abs(%0), 7 * %2) + floor(%1) * ceil(%0) - nearest(%2)"},
  };
  for (Isa isa : isas_here()) {
    const int64_t lanes = kernels::generated::describe(isa).lanes;
    for (const std::vector<std::string>& statements : groups) {
      for (int64_t length : {int64_t{1}, lanes - 1, lanes, 5 * lanes, 9 * lanes + 2}) {
        SCOPED_TRACE(fmt::format("{} {} in rows of {}", kernels::generated::describe(isa).name, statements[0], length));
        constexpr int64_t kCount = 3;
        const GroupFunction group = group_function({.isa = isa,
                                                    .inputs = {{true}, {true}, {false}},
                                                    .statements = statements,
                                                    .outputs = {{4, false}, {3, false}}});
        const Tensor x = random_tensor({kCount, length}, 1), row = random_tensor({length}, 2),
                     number = random_tensor({kCount}, 3);
        Tensor y = Tensor::zeros(DType::F32, Shape{2, kCount, length});
        Tensor buffers = Tensor::zeros(DType::F32, Shape{std::max(group.buffers, 1), length});
        const auto size = Tensor::scalar(static_cast<float>(length));
        std::vector<int64_t> arguments(kGroupArguments + 10);
        arguments[kRows] = kCount;
        set_row_arguments(arguments.data(), length, lanes);
        arguments[kRowSize] = address(size), arguments[kBuffers] = address(buffers), arguments[kBufferStride] = length;
        int64_t* operands = arguments.data() + kGroupArguments;
        operands[0] = address(x), operands[1] = length, operands[2] = address(row), operands[4] = address(number);
        operands[5] = 1, operands[7] = operands[9] = length;
        operands[6] = address(y), operands[8] = address(y) + kCount * length * int64_t{sizeof(float)};
        BothWays both{group.function, isa, {}};
        for (const Tensor* tensor : {&x, &row, &number, &size})
          both.regions.push_back({tensor->data<float>().data(), tensor->size()});
        both.regions.push_back({buffers.data<float>().data(), buffers.size(), true});
        both.expect_equal(arguments, kGroupArguments + 6, y);
      }
    }
  }
}

// Exact, whatever the bits are: integers wrap, and floats that do not fit become the least integer.
TEST(Groups, ComputeIntegersAsTheEvaluator) {
  const std::vector<std::string> statements{
      "i64(%1) + %2 * %3 - #-7l",                                 // %4, i64
      "larger(abs(%1), -%1) * #3i - smaller(%1, i32(%2))",        // %5, i32
      "f32(%2) + f32(%1)",                                        // %6, f32
      "i64(%0)",                                                  // %7, i64
      "i32(%0)",                                                  // %8, i32
      "bool(%0) == (%2 < %3) || %1 == #0i && !(#2l <= larger(%2, %3))",  // %9, bool
      "%9 ? %4 : i64(%9) + i64(f32(%9))",                         // %10, i64
      "%9 ? bool(%1) : bool(%2)",                                 // %11, bool
  };
  const std::vector<GroupCode::Output> outputs{{4, false, DType::I64}, {5, false, DType::I32},  {6, false, DType::F32},
                                               {7, false, DType::I64}, {8, false, DType::I32},  {9, false, DType::Bool},
                                               {10, false, DType::I64}, {11, false, DType::Bool}};
  constexpr int64_t kRowsOfIt = 3, kLength = 37, kCount = kRowsOfIt * kLength, kSlot = kCount * 8;
  auto filled = [](DType dtype, int64_t count, unsigned seed) {
    Tensor tensor = Tensor::zeros(dtype, Shape{count});
    std::mt19937 random(seed);
    auto* bytes = static_cast<uint8_t*>(tensor.raw());
    for (size_t i = 0; i < tensor.bytes(); ++i) bytes[i] = static_cast<uint8_t>(random());
    return tensor;
  };
  Tensor x = filled(DType::F32, kCount, 1);
  const std::vector<float> special{0, -0.0f, NAN, INFINITY, -INFINITY, 2147483648.0f, -2147483648.0f, 0x1p63f, -0x1p63f, 2147483520.0f, -1.99f, 0.99f};
  std::ranges::copy(special, x.data<float>().begin());
  Tensor i = filled(DType::I32, kCount, 2), l = filled(DType::I64, kCount, 3);
  i.data<int32_t>()[0] = INT32_MIN, i.data<int32_t>()[1] = 0, i.data<int32_t>()[2] = -1;
  l.data<int64_t>()[0] = INT64_MIN, l.data<int64_t>()[1] = 0, l.data<int64_t>()[2] = INT64_MAX;
  for (int64_t k = 3; k < kCount; k += 2) l.data<int64_t>()[k] >>= k % 64;  // of all magnitudes
  const Tensor number = filled(DType::I64, kRowsOfIt, 4);
  for (Isa isa : isas_here()) {
    SCOPED_TRACE(kernels::generated::describe(isa).name);
    const GroupFunction group = group_function({.isa = isa,
                                                .inputs = {{true, DType::F32}, {true, DType::I32}, {true, DType::I64}, {false, DType::I64}},
                                                .statements = statements,
                                                .outputs = outputs});
    const MachineCode code = compile({&group.function, 1}, isa);
    std::array<Tensor, 2> results;
    for (Tensor& memory : results) {
      memory = Tensor::zeros(DType::U8, Shape{kSlot * std::ssize(outputs)});
      std::vector<int64_t> arguments(kGroupArguments + 2 * (4 + outputs.size()));
      arguments[kRows] = kRowsOfIt;
      set_row_arguments(arguments.data(), kLength, kernels::generated::describe(isa).lanes);
      int64_t* operands = arguments.data() + kGroupArguments;
      for (const Tensor* input : std::initializer_list<const Tensor*>{&x, &i, &l, &number}) {
        *operands++ = address(*input);
        *operands++ = input == &number ? 1 : kLength;
      }
      for (size_t k = 0; k < outputs.size(); ++k) {
        *operands++ = address(memory) + static_cast<int64_t>(k) * kSlot;
        *operands++ = kLength;
      }
      auto region = [](const Tensor& of, bool is_written = false) {
        return Region{static_cast<const float*>(of.raw()), static_cast<int64_t>(of.bytes() / sizeof(float)), is_written};
      };
      const std::array regions{region(x), region(i), region(l), region(number), region(memory, true)};
      if (&memory == &results[0])
        evaluate(group.function, arguments, regions);
      else
        ExecutableCode::map(code)->entry(code.entries[0])(arguments.data());
    }
    for (size_t k = 0; k < outputs.size(); ++k) {
      const size_t begin = k * kSlot, bytes = kCount * element_bytes(outputs[k].dtype);
      const auto *evaluated = static_cast<const uint8_t*>(results[0].raw()) + begin, *computed = static_cast<const uint8_t*>(results[1].raw()) + begin;
      EXPECT_TRUE(std::equal(evaluated, evaluated + bytes, computed)) << statements[k];
    }
    // As C++ has them.
    const auto* sums = reinterpret_cast<const int64_t*>(results[1].raw());
    const auto* truncated = reinterpret_cast<const int32_t*>(static_cast<const uint8_t*>(results[1].raw()) + 4 * kSlot);
    for (int64_t k = 0; k < kCount; ++k) {
      const auto factor = static_cast<uint64_t>(number.data<int64_t>()[k / kLength]);
      EXPECT_EQ(static_cast<uint64_t>(sums[k]),
                static_cast<uint64_t>(int64_t{i.data<int32_t>()[k]}) + static_cast<uint64_t>(l.data<int64_t>()[k]) * factor + 7);
      const float at = x.data<float>()[k];
      EXPECT_EQ(truncated[k], at >= -0x1p31f && at < 0x1p31f ? static_cast<int32_t>(at) : INT32_MIN) << at;
    }
  }
}

// A result that lies where an operand does, which only a sum and another result read.
TEST(Groups, MayWriteOverWhatTheySum) {
  for (Isa isa : isas_here()) {
    SCOPED_TRACE(kernels::generated::describe(isa).name);
    constexpr int64_t kLength = 131;
    const GroupFunction group = group_function({.isa = isa,
                                                .inputs = {{true}, {true}},
                                                .statements = {"%1 * 2", "row_sum(%0)", "%0 + 1"},
                                                .outputs = {{2, false}, {3, true}, {4, false}}});
    const MachineCode code = compile({&group.function, 1}, isa);
    Tensor x = random_tensor({kLength}, 1), y = random_tensor({kLength}, 2), sum = Tensor::zeros(DType::F32, Shape{1});
    Tensor next = Tensor::zeros(DType::F32, x.shape());
    const std::vector<float> before(x.data<float>().begin(), x.data<float>().end());
    float expected = 0;
    for (float element : before) expected += element;
    std::vector<int64_t> arguments(kGroupArguments + 10);
    arguments[kRows] = 1;
    set_row_arguments(arguments.data(), kLength, kernels::generated::describe(isa).lanes);
    arguments[kGroupArguments] = arguments[kGroupArguments + 4] = address(x);
    arguments[kGroupArguments + 2] = address(y), arguments[kGroupArguments + 6] = address(sum);
    arguments[kGroupArguments + 8] = address(next);
    ExecutableCode::map(code)->entry(code.entries[0])(arguments.data());
    EXPECT_NEAR(sum.data<float>()[0], expected, 1e-4);
    for (int64_t i = 0; i < kLength; ++i) {
      EXPECT_EQ(x.data<float>()[i], 2 * y.data<float>()[i]);
      EXPECT_EQ(next.data<float>()[i], before[static_cast<size_t>(i)] + 1);
    }
  }
}

// Results that lie where operands do, each of which the other reads.
TEST(Groups, MayExchangeWhatTheyRead) {
  for (Isa isa : isas_here()) {
    SCOPED_TRACE(kernels::generated::describe(isa).name);
    constexpr int64_t kLength = 131;
    const GroupFunction group = group_function({.isa = isa,
                                                .inputs = {{true}, {true}},
                                                .statements = {"%1 * 2", "%0 + 1"},
                                                .outputs = {{2, false}, {3, false}}});
    const MachineCode code = compile({&group.function, 1}, isa);
    Tensor x = random_tensor({kLength}, 1), y = random_tensor({kLength}, 2);
    const Tensor x_before = x.clone(), y_before = y.clone();
    std::vector<int64_t> arguments(kGroupArguments + 8);
    arguments[kRows] = 1;
    set_row_arguments(arguments.data(), kLength, kernels::generated::describe(isa).lanes);
    arguments[kGroupArguments] = arguments[kGroupArguments + 4] = address(x);
    arguments[kGroupArguments + 2] = arguments[kGroupArguments + 6] = address(y);
    ExecutableCode::map(code)->entry(code.entries[0])(arguments.data());
    for (int64_t i = 0; i < kLength; ++i) {
      EXPECT_EQ(x.data<float>()[i], 2 * y_before.data<float>()[i]);
      EXPECT_EQ(y.data<float>()[i], x_before.data<float>()[i] + 1);
    }
  }
}

// A part of each row, with the first two axes exchanged, added to a dense operand: the same on any number of threads; a tensor that is too small
// for the part is refused.
TEST(Groups, ReadPartsInPlace) {
  constexpr int64_t kA = 70, kB = 50, kC = 96, kBegin = 5, kPart = 40;
  const AttributeSet attributes{{"rank", int64_t{3}},
                                {"axes", Dims{1, 1, 1, 1, 1, 1}},
                                {"views", Dims{0, 3, 1, 0, -1, 0, 0, -1, 2, kBegin, kPart}},
                                {"statements", std::vector<std::string>{"%0 + 2 * %1"}},
                                {"outputs", Dims{2}},
                                {"output_axes", Dims{1, 1, 1}},
                                {"output_types", Dims{static_cast<int64_t>(DType::F32)}},
                                {"output_ranks", Dims{3}}};
  kernels::KernelData data{"Group", attributes, {}, 1};
  data.inputs.resize(2);
  for (kernels::InputDescription& input : data.inputs) input = {.present = true, .dtype = DType::F32, .shape = std::nullopt, .constant = {}};
  const auto kernel = generating_kernels().prepare(data);
  ASSERT_TRUE(kernel);
  auto run = [&](const Tensor& x, const Tensor& y) {
    const Datum values[] = {Datum(x), Datum(y)};
    const Datum* pointers[] = {&values[0], &values[1]};
    Datum result;
    kernels::PreparedRun(*kernel).run(attributes, pointers, {&result, 1});
    return result.tensor();
  };
  const Tensor x = random_tensor({kA, kB, kC}, 1), y = random_tensor({kB, kA, kPart}, 2);
  const Tensor result = run(x, y);
  ASSERT_EQ(result.shape(), (Shape{kB, kA, kPart}));
  for (int64_t i = 0; i < result.size(); ++i) {
    const int64_t b = i / (kA * kPart), a = i / kPart % kA, c = i % kPart;
    ASSERT_EQ(result.data<float>()[i], x.data<float>()[(a * kB + b) * kC + kBegin + c] + 2 * y.data<float>()[i]) << i;
  }
  with_threads(1, [&] { EXPECT_TRUE(Tensor::identical(run(x, y), result)); });
  try {
    run(random_tensor({kA, kB, kBegin + kPart - 1}, 1), y);
    FAIL() << "a part beyond the end";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "input 0 of a group is not of the shape that was inferred");
  }
}

// Parts of larger tensors, whose rows lie apart: of operands that broadcast, of one that is read in part, of one result and of another.
TEST(Groups, WalkRowsThatLieApart) {
  constexpr auto kFloat = static_cast<int64_t>(DType::F32);
  struct Case {
    std::vector<Dims> shapes;
    Dims axes, views;
    std::vector<std::string> statements;
    Dims outputs, output_axes, output_ranks;
    int64_t reduces = 0;
  };
  const Case cases[] = {
      {{{6, 9, 20}, {20}, {9, 1}}, {1, 1, 1, 0, 0, 1, 0, 1, 0}, {}, {"%0 * %1", "%3 + %2", "%0 - %2"}, {4, 5}, {1, 1, 1, 1, 1, 1}, {3, 3}},
      {{{5, 16}, {5, 1}}, {1, 1, 1, 0}, {}, {"exp(%0 - %1)", "row_sum(%2)", "%2 / %3"}, {4, 3}, {1, 1, 1, 0}, {2, 2}, 1},
      {{{3, 5, 16}}, {1, 1, 1}, {}, {"row_max(%0)", "%0 - %1"}, {2, 1}, {1, 1, 1, 1, 1, 0}, {3, 2}, 1},
      {{{4, 7, 30}, {7, 4, 12}}, {1, 1, 1, 1, 1, 1}, {0, 3, 1, 0, -1, 0, 0, -1, 2, 3, 12}, {"%0 + 2 * %1"}, {2}, {1, 1, 1}, {3}},
      {{{3, 1, 8}, {1, 11, 8}}, {1, 0, 1, 0, 1, 1}, {}, {"%0 * %1"}, {2}, {1, 1, 1}, {3}},
      {{{700}}, {1}, {}, {"-%0"}, {1}, {1}, {1}}};
  for (const Case& of : cases) {
    SCOPED_TRACE(of.statements.back());
    const AttributeSet attributes{{"rank", of.output_ranks[0]},
                                  {"axes", of.axes},
                                  {"views", of.views},
                                  {"statements", of.statements},
                                  {"reduces", of.reduces},
                                  {"outputs", of.outputs},
                                  {"output_axes", of.output_axes},
                                  {"output_types", Dims(of.outputs.size(), kFloat)},
                                  {"output_ranks", of.output_ranks}};
    kernels::KernelData data{"Group", attributes, {}, of.outputs.size()};
    std::vector<Datum> inputs;
    for (const Dims& shape : of.shapes) {
      data.inputs.push_back({.present = true, .dtype = DType::F32, .shape = Shape(shape.begin(), shape.end()), .constant = {}});
      inputs.emplace_back(random_tensor(shape, static_cast<int>(inputs.size()) + 1));
    }
    const auto kernel = generating_kernels().prepare(data);
    ASSERT_TRUE(kernel);
    std::vector<const Datum*> pointers;
    for (const Datum& input : inputs) pointers.push_back(&input);
    std::vector<Datum> results(of.outputs.size());
    kernels::PreparedRun(*kernel).run(attributes, pointers, results);
    std::vector<Tensor> dense;
    for (const Datum& result : results) dense.push_back(result.tensor());
    expect_rows_apart(*kernel, attributes, pointers, dense);
  }
}

// What depends on bytes alone is looked up where there are many: the same as is computed of few.
TEST(Groups, LookUpWhatDependsOnBytes) {
  for (DType type : {DType::I8, DType::U8}) {
    const int64_t lowest = type == DType::I8 ? -128 : 0;
    const AttributeSet attributes{
        {"rank", int64_t{1}},
        {"axes", Dims{1, 0}},
        {"statements", std::vector<std::string>{"(%0 - 3) * %1", "%2 * sigmoid(%2)", fmt::format("round(larger(smaller(%3, {}), {}))", lowest + 255, lowest),
                                                fmt::format("round(larger(smaller(-%2, {}), {}))", lowest + 255, lowest)}},
        {"outputs", Dims{4, 5}},
        {"output_axes", Dims{1, 1}},
        {"output_types", Dims{static_cast<int64_t>(type), static_cast<int64_t>(type)}},
        {"output_ranks", Dims{1, 1}}};
    const Tensor scale = Tensor::scalar(0.75f);
    kernels::KernelData data{"Group", attributes, {}, 2};
    data.inputs.resize(2);
    data.inputs[0] = {.present = true, .dtype = type, .shape = std::nullopt, .constant = {}};
    data.inputs[1] = {.present = true, .dtype = DType::F32, .shape = Shape{}, .constant = {}};
    const auto kernel = generating_kernels().prepare(data);
    ASSERT_TRUE(kernel);
    auto run = [&](const Tensor& x) {
      const Datum values[] = {Datum(x), Datum(scale)};
      const Datum* pointers[] = {&values[0], &values[1]};
      std::array<Datum, 2> results;
      kernels::PreparedRun(*kernel).run(attributes, pointers, results);
      return std::array{results[0].tensor(), results[1].tensor()};
    };
    constexpr int64_t kFew = 300, kTimes = 31;
    const Tensor x = random_bytes(type, {kFew * kTimes}, 1);
    const auto at_once = run(x);
    for (int64_t i = 0; i < kTimes; ++i) {
      auto part_of = [&](Tensor tensor) {
        return Tensor::view(type, Shape{kFew}, static_cast<std::byte*>(tensor.raw()) + i * kFew, nullptr);
      };
      const auto part = run(part_of(x).clone());
      for (size_t k = 0; k < part.size(); ++k) EXPECT_TRUE(Tensor::identical(part_of(at_once[k]), part[k])) << name(type) << " " << i << " " << k;
    }
  }
}

// Elementary functions, over floats of all magnitudes.
struct Elementary {
  const char* name;
  double (*exact)(double);
  double from = -INFINITY, to = INFINITY;  // where it is asked for
};
class ElementaryFunctions : public testing::TestWithParam<Elementary> {};

double unit_in_last_place(double x) { return std::ldexp(1.0, std::max(x == 0 ? -126 : std::ilogb(x), -126) - 23); }

TEST_P(ElementaryFunctions, AreWithinTwoUnitsInTheLastPlace) {
  const Elementary& function = GetParam();
  std::vector<float> values{0.0f, -0.0f, INFINITY, -INFINITY, NAN};
  constexpr uint32_t kStep = 9973;  // a prime: every exponent, with mantissas of all kinds
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += kStep) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (value >= function.from && value <= function.to) values.push_back(value);
  }
  const Tensor x = Tensor::from<float>(Shape{std::ssize(values)}, values);
  for (Isa isa : isas_here()) {
    const int64_t lanes = kernels::generated::describe(isa).lanes;
    SCOPED_TRACE(fmt::format("{} {}", function.name, kernels::generated::describe(isa).name));
    const GroupFunction group = group_function({.isa = isa,
                                                .inputs = {{true}},
                                                .statements = {fmt::format("{}(%0)", function.name)},
                                                .outputs = {{1, false}}});
    const MachineCode code = compile({&group.function, 1}, isa);
    Tensor y = Tensor::zeros(DType::F32, x.shape());
    std::vector<int64_t> arguments(kGroupArguments + 4);
    arguments[kRows] = 1;
    set_row_arguments(arguments.data(), x.size(), lanes);
    arguments[kGroupArguments] = address(x), arguments[kGroupArguments + 2] = address(y);
    ExecutableCode::map(code)->entry(code.entries[0])(arguments.data());
    double worst = 0;
    float worst_at = 0;
    for (int64_t i = 0; i < x.size(); ++i) {
      const float at = x.data<float>()[i], got = y.data<float>()[i];
      const double expected = function.exact(at);
      const auto rounded = static_cast<float>(expected);
      if (!(at >= function.from && at <= function.to) && !std::isnan(at)) continue;
      if (std::isnan(rounded) || std::isinf(rounded) || std::isinf(got)) {
        const bool is_same = std::isnan(rounded) ? std::isnan(got) : got == rounded;
        // The largest float but one may be rounded to infinity.
        EXPECT_TRUE(is_same || std::fabs(expected) > 3.4028e38) << "of " << at << ": " << got << ", not " << rounded;
        continue;
      }
      EXPECT_EQ(std::signbit(got), std::signbit(rounded)) << "of " << at << ": " << got << ", not " << rounded;
      const double error = std::fabs(got - expected) / unit_in_last_place(expected);
      if (error > worst) worst = error, worst_at = at;
    }
    RecordProperty(std::string(kernels::generated::describe(isa).name), fmt::format("{:.2f}", worst));
    if (std::getenv("ANFORA_SHOW_ULPS"))
      fmt::print("{:20} {:8} {:.3f} at {}\n", function.name, kernels::generated::describe(isa).name, worst, worst_at);
    EXPECT_LE(worst, 2.0) << "of " << worst_at;
  }
}
INSTANTIATE_TEST_SUITE_P(
    All, ElementaryFunctions,
    testing::Values(
        Elementary{"exp", [](double x) { return std::exp(x); }},
        Elementary{"exp_of_negative", [](double x) { return std::exp(x); }, -INFINITY, 0},
        Elementary{"expm1_of_negative", [](double x) { return std::expm1(x); }, -INFINITY, -1e-38},
        Elementary{"log", [](double x) { return std::log(x); }},
        Elementary{"sigmoid",
                   [](double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }},
        Elementary{"softplus", [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }},
        Elementary{"tanh", [](double x) { return std::tanh(x); }},
        Elementary{"erf", [](double x) { return std::erf(x); }},
        Elementary{"sqrt", [](double x) { return std::sqrt(x); }},
        Elementary{"nearest", [](double x) { return std::nearbyint(x); }},
        Elementary{"floor", [](double x) { return std::floor(x); }},
        Elementary{"ceil", [](double x) { return std::ceil(x); }},
        Elementary{"sin", [](double x) { return std::sin(x); }},
        Elementary{"cos", [](double x) { return std::cos(x); }},
        Elementary{"asin", [](double x) { return std::asin(x); }},
        Elementary{"acos", [](double x) { return std::acos(x); }},
        Elementary{"atan", [](double x) { return std::atan(x); }}),
    [](const auto& test) { return std::string(test.param.name); });

// Runs one statement over inputs that vary along one row: as the evaluator does, in the first kMostEvaluated elements.
Tensor run_statement(Isa isa, const std::string& statement, const std::vector<Tensor>& inputs) {
  constexpr int64_t kMostEvaluated = 1 << 12;
  const GroupFunction group = group_function({.isa = isa,
                                              .inputs = std::vector<GroupCode::Input>(inputs.size(), {true}),
                                              .statements = {statement},
                                              .outputs = {{static_cast<int>(inputs.size()), false}}});
  const int64_t size = inputs[0].size();
  Tensor y = Tensor::zeros(DType::F32, inputs[0].shape());
  std::vector<int64_t> arguments(kGroupArguments + 2 * inputs.size() + 2);
  arguments[kRows] = 1;
  const size_t result = kGroupArguments + 2 * inputs.size();
  BothWays both{group.function, isa, {}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    arguments[kGroupArguments + 2 * i] = address(inputs[i]);
    both.regions.push_back({inputs[i].data<float>().data(), size});
  }
  set_row_arguments(arguments.data(), std::min(size, kMostEvaluated), kernels::generated::describe(isa).lanes);
  both.expect_equal(arguments, result, y);
  set_row_arguments(arguments.data(), size, kernels::generated::describe(isa).lanes);
  arguments[result] = address(y);
  const MachineCode code = compile({&group.function, 1}, isa);
  ExecutableCode::map(code)->entry(code.entries[0])(arguments.data());
  return y;
}

TEST(Codegen, SinesAreThoseOfTheEvaluator) {
  std::vector<float> values{0.0f, -0.0f, INFINITY, -INFINITY, NAN};
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 1299709) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  const Tensor x = Tensor::from<float>(Shape{std::ssize(values)}, values);
  for (Isa isa : isas_here()) {
    for (const char* statement : {"sin(%0)", "cos(%0)", "nearest(%0)", "floor(%0)", "ceil(%0)"}) {
      SCOPED_TRACE(fmt::format("{} {}", statement, kernels::generated::describe(isa).name));
      run_statement(isa, statement, {x});
    }
  }
}

void expect_power(Isa isa, const std::string& statement, const std::vector<Tensor>& inputs, const std::function<double(int64_t)>& exact) {
  SCOPED_TRACE(fmt::format("{} {}", statement, kernels::generated::describe(isa).name));
  const Tensor y = run_statement(isa, statement, inputs);
  double worst = 0;
  int64_t worst_at = 0;
  for (int64_t i = 0; i < y.size(); ++i) {
    const float got = y.data<float>()[i];
    const double expected = exact(i);
    const auto rounded = static_cast<float>(expected);
    const float base = inputs[0].data<float>()[i];
    if (std::isnan(rounded) || std::isinf(rounded) || std::isinf(got)) {
      const bool is_same = std::isnan(rounded) ? std::isnan(got) : got == rounded;
      EXPECT_TRUE(is_same || std::fabs(expected) > 3.4028e38) << i << ", of " << base << ": " << got << ", not " << rounded;
      continue;
    }
    EXPECT_EQ(std::signbit(got), std::signbit(rounded)) << i << ", of " << base << ": " << got << ", not " << rounded;
    const double error = std::fabs(got - expected) / unit_in_last_place(expected);
    if (error > worst) worst = error, worst_at = i;
  }
  if (std::getenv("ANFORA_SHOW_ULPS")) fmt::print("{:20} {:8} {:.3f}\n", statement, kernels::generated::describe(isa).name, worst);
  EXPECT_LE(worst, 2.0) << worst_at << ", of " << inputs[0].data<float>()[worst_at];
}

TEST(Codegen, PowersAreWithinTwoUnitsInTheLastPlace) {
  // Special values with each other, then floats of all bits, and bases with exponents that leave the power finite.
  std::vector<float> special{0, 1, 2, 3, 0.5f, 1.5f, 1e-40f, 1e38f, 16777215, 16777216, 8388607, 4194303.5f, 0.33333334f, 0.99999994f, 1.0000001f, INFINITY, NAN};
  for (size_t i = 0, count = special.size(); i < count; ++i) special.push_back(-special[i]);
  std::vector<float> bases, exponents;
  for (float base : special) {
    for (float exponent : special) bases.push_back(base), exponents.push_back(exponent);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 300000; ++i) {
    bases.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
    exponents.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  }
  std::uniform_real_distribution<float> logs(-150, 128), near_one(-0.3f, 0.3f), magnitudes(-126, 127);
  for (int i = 0; i < 600000; ++i) {
    bases.push_back(std::exp2(i % 2 == 0 ? magnitudes(random) : near_one(random)));
    exponents.push_back(logs(random) / std::log2(bases.back()));
  }
  const Tensor x = Tensor::from<float>(Shape{std::ssize(bases)}, bases), y = Tensor::from<float>(x.shape(), exponents);
  for (Isa isa : isas_here())
    expect_power(isa, "pow(%0, %1)", {x, y}, [&](int64_t i) { return std::pow(double{x.data<float>()[i]}, double{y.data<float>()[i]}); });
}

TEST(Codegen, SimplePowersAreWithinTwoUnitsInTheLastPlace) {
  std::vector<float> values{0.0f, -0.0f, INFINITY, -INFINITY, NAN};
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 99991) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  const Tensor x = Tensor::from<float>(Shape{std::ssize(values)}, values);
  for (Isa isa : isas_here()) {
    for (float exponent : {0.0f, 1.0f, 2.0f, 3.0f, 4.0f, 5.0f, -1.0f, -2.0f, -3.0f, 0.5f, -0.5f, 1.5f, 0.25f})
      expect_power(isa, fmt::format("pow(%0, ({}))", exponent), {x}, [&](int64_t i) { return std::pow(double{x.data<float>()[i]}, double{exponent}); });
  }
}

}  // namespace
}  // namespace anfora::codegen

// Products by Strassen's algorithm, beside the reference and beside f64: what is not of like size must not be lost.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "both_ways.h"
#include "codegen/strassen.h"
#include "kernels/generated/gathered_rows.h"
#include "kernels/generated/strassen.h"
#include "prepared.h"
#include "support/cache_size.h"

namespace anfora::codegen {
namespace {

using namespace kernels::generated;
using Dims = std::vector<int64_t>;

// Its error may be four times that of a direct product.
constexpr float kTolerance = 4e-5f;

TEST(StrassenCode, OperandsAreThoseOfTheEvaluator) {
  for (Isa isa : isas_here()) {
    const StrassenCode code{.isa = isa, .tile = product_tiles(isa)[0], .epilogue = {}};
    const int64_t lanes = kernels::generated::describe(isa).lanes;
    for (int64_t depth : {2 * lanes, 2 * lanes + 1, 3 * lanes + 2}) {
      SCOPED_TRACE(fmt::format("{}, depth {}", kernels::generated::describe(isa).name, depth));
      constexpr int64_t kRows = 3;
      const int64_t half = code.half_depth(depth), stride = half + 5;
      const Tensor a = random_tensor({2 * kRows, depth}, 1), steps = random_tensor({2 * half}, 2), rows = random_tensor({2 * kRows}, 3);
      Tensor operands = random_tensor({kStrassenProducts, kRows, stride}, 4);
      std::vector<int64_t> arguments(kStrassenOperandArguments);
      arguments[kUpper] = address(a), arguments[kLower] = address(a) + kRows * depth * int64_t{sizeof(float)};
      arguments[kRowStride] = depth, arguments[kRowCount] = kRows;
      arguments[kHalfVectors] = half / lanes, arguments[kSecondColumns] = depth - half;
      arguments[kStepFactors] = address(steps);
      arguments[kUpperFactors] = address(rows), arguments[kLowerFactors] = address(rows) + kRows * int64_t{sizeof(float)};
      arguments[kOperandStride] = stride, arguments[kOperandDistance] = kRows * stride;
      BothWays both{strassen_function(code, StrassenEntries{code.tile.rows}.operands()), isa, {}};
      for (const Tensor* tensor : {&a, &steps, &rows}) both.regions.push_back({tensor->data<float>().data(), tensor->size()});
      both.expect_equal(arguments, kOperands, operands);
    }
  }
}

Tensor widened(const Tensor& tensor) {
  Tensor wide = Tensor::allocate(DType::F64, tensor.shape());
  std::ranges::copy(tensor.data<float>(), wide.data<double>().begin());
  return wide;
}

// The largest error of an element, relative to the sum of its terms' magnitudes.
double largest_error(const Tensor& a, const Tensor& b, const Tensor& got) {
  auto magnitudes = [](const Tensor& tensor) {
    Tensor wide = widened(tensor);
    for (double& x : wide.data<double>()) x = std::fabs(x);
    return wide;
  };
  const Tensor exact = run_kernel("MatMul", {}, {widened(a), widened(b)})[0], terms = run_kernel("MatMul", {}, {magnitudes(a), magnitudes(b)})[0];
  double worst = 0;
  for (int64_t i = 0; i < exact.size(); ++i) {
    const double error = std::fabs(static_cast<double>(got.data<float>()[i]) - exact.data<double>()[i]);
    worst = std::max(worst, error / terms.data<double>()[i]);
  }
  return worst;
}

// Such that sums over its last axis are.
Tensor near_one(Tensor a) {
  for (float& x : a.data<float>()) x /= std::sqrt(static_cast<float>(a.shape().back()));
  return a;
}

// Close where the elements are finite, and infinite or NaN alike.
void expect_alike(const Tensor& got, const Tensor& expected) {
  for (int64_t i = 0; i < got.size(); ++i) {
    const float g = got.data<float>()[i], e = expected.data<float>()[i];
    ASSERT_EQ(std::isfinite(g), std::isfinite(e)) << "element " << i;
    ASSERT_EQ(std::isnan(g), std::isnan(e)) << "element " << i;
    if (!std::isfinite(e)) continue;
    ASSERT_LE(std::fabs(g - e), kTolerance * (1 + std::fabs(e))) << "element " << i;
  }
}

struct Case {
  Dims a, b;
};

class StrassenProducts : public testing::TestWithParam<Case> {};

// Odd sizes, one panel that has no other, several parts of the depth and blocks of rows.
TEST_P(StrassenProducts, AgreesWithTheReference) {
  const Tensor a = near_one(random_tensor(GetParam().a, 1)), b = random_tensor(GetParam().b, 2);
  const int64_t columns = b.shape().back();
  Dims result = GetParam().a;
  result.back() = columns;
  const Tensor row = random_tensor({columns}, 3), residual = random_tensor(result, 4), none;
  const std::vector<std::pair<AttributeSet, std::vector<Tensor>>> forms{{{}, {a, b}},
                                                                        {{{"alpha", 0.5f}, {"activation", std::string("Gelu")}}, {a, b, row}},
                                                                        {{{"activation", std::string("Relu")}}, {a, b, none, residual}},
                                                                        {{}, {a, b, row, residual}}};
  for (const auto& [attributes, inputs] : forms) {
    Prepared prepared("LoweredMatMul", attributes, inputs, kStrassen);
    ASSERT_TRUE(prepared.kernel);
    const Tensor y = prepared.run(*prepared.kernel);
    expect_close(y, run_kernel("LoweredMatMul", attributes, inputs)[0], kTolerance);
    expect_the_same_again(prepared, y);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, StrassenProducts,
                         testing::Values(Case{{64, 64}, {64, 192}}, Case{{33, 71}, {71, 130}}, Case{{2, 45, 100}, {100, 97}}, Case{{601, 40}, {40, 200}},
                                         Case{{40, 1700}, {1700, 128}}, Case{{3, 5, 7, 48}, {48, 160}}));

TEST(StrassenProducts, AgreesForWaysThroughMemory) {
  const Tensor a = random_tensor({3, 50, 80}, 1), transposed = random_tensor({150, 80}, 2), convolved = random_tensor({2, 9, 9, 64}, 3), filters = random_tensor({200, 64, 1, 1}, 4),
               bias = random_tensor({200}, 5);
  const AttributeSet by_columns{{"perm_b", Dims{1, 0}}}, pointwise{{"channels_last", int64_t{1}}};
  for (auto [op, attributes, inputs] : {std::tuple{"LoweredMatMul", by_columns, std::vector{a, transposed}}, {"LoweredConv", pointwise, {convolved, filters, bias}}}) {
    Prepared prepared(op, attributes, inputs, kStrassen);
    ASSERT_TRUE(prepared.kernel) << op;
    const Tensor y = prepared.run(*prepared.kernel);
    expect_close(y, run_kernel(op, attributes, inputs)[0], kTolerance);
    expect_the_same_again(prepared, y);
  }
}

// Windows of lines whose rows begin in the image a stride apart, a batch of them, with what is added to the result.
TEST(StrassenProducts, AgreesForWindowsThatLieInTheImage) {
  struct Window {
    Dims x, w;
    int64_t stride;
  };
  for (const auto& [x_shape, w_shape, stride] : std::vector<Window>{{{1, 140, 48}, {130, 48, 3}, 2}, {{3, 75, 32}, {160, 32, 2}, 2}, {{2, 99, 24}, {128, 24, 5}, 1}, {{1, 200, 16}, {136, 16, 7}, 5}}) {
    const Tensor x = near_one(random_tensor(x_shape, 1)), w = random_tensor(w_shape, 2), bias = random_tensor({w_shape[0]}, 3);
    const AttributeSet attributes{{"channels_last", int64_t{1}}, {"strides", Dims{stride}}, {"activation", std::string("Gelu")}};
    const Dims y_shape{x_shape[0], (x_shape[1] - w_shape[2]) / stride + 1, w_shape[0]};
    const Tensor none, addend = random_tensor(y_shape, 4);
    for (const std::vector<Tensor>& inputs : {std::vector{x, w}, {x, w, bias}, {x, w, none, addend}}) {
      Prepared prepared("LoweredConv", attributes, inputs, kStrassen);
      ASSERT_TRUE(prepared.kernel);
      const Tensor y = prepared.run(*prepared.kernel);
      expect_close(y, run_kernel("LoweredConv", attributes, inputs)[0], kTolerance);
      expect_the_same_again(prepared, y);
    }
    EXPECT_FALSE(Prepared("LoweredConv", attributes.with("pads", Dims{1, 1}), {x, w}, kStrassen).kernel);
    EXPECT_FALSE(Prepared("LoweredConv", attributes.with("dilations", Dims{2}), {x, w}, kStrassen).kernel);
  }
}

// The factors of channels, one for all images or one for each, some of them 0.
TEST(StrassenProducts, AgreesForScaledChannels) {
  const Tensor filters = random_tensor({160, 72, 1, 1}, 1), bias = random_tensor({160}, 2), none;
  for (const auto& [x_shape, scale_shape] : std::vector<std::pair<Dims, Dims>>{{{1, 9, 9, 72}, {1, 1, 1, 72}}, {{2, 9, 7, 72}, {72}}, {{3, 8, 7, 72}, {3, 1, 1, 72}}}) {
    const Tensor x = near_one(random_tensor(x_shape, 3));
    Tensor scale = random_tensor(scale_shape, 4), unbounded = scale.clone();
    scale.data<float>()[5] = 0, scale.data<float>()[40] = 1e-30f;
    unbounded.data<float>()[70] = std::numeric_limits<float>::infinity();
    Dims y_shape = x_shape;
    y_shape.back() = 160;
    const Tensor addend = random_tensor(y_shape, 5);
    for (const std::vector<Tensor>& inputs : {std::vector{x, filters, none, none, scale}, {x, filters, bias, addend, scale}, {x, filters, bias, none, unbounded}}) {
      const AttributeSet attributes{{"activation", std::string("Relu")}};
      Prepared prepared(kPointwise, attributes, inputs, kStrassen);
      ASSERT_TRUE(prepared.kernel);
      const Tensor y = prepared.run(*prepared.kernel);
      expect_alike(y, run_kernel(kPointwise, attributes, inputs)[0]);
      expect_the_same_again(prepared, y);
    }
    const Tensor shift = random_tensor({72}, 6);
    EXPECT_FALSE(Prepared(kPointwise, {}, {x, filters, none, none, scale, shift}, kStrassen).kernel);
    EXPECT_FALSE(Prepared(kPointwise, {{"input_activation", std::string("Relu")}}, {x, filters, none, none, scale}, kStrassen).kernel);
  }
  const Tensor half = random_tensor({1, 9, 9, 36}, 7);
  EXPECT_FALSE(Prepared(kPointwise, {}, {half, filters, none, none, none, none, half}, kStrassen).kernel) << "no matrix in memory";
}

// Against f64, four times that of the direct product: also where rows, steps and columns differ by many orders of magnitude, which products of
// sums of them would not bear.
TEST(StrassenProducts, ErrorIsWithinFourTimesTheDirectOne) {
  constexpr int64_t kRows = 96, kColumns = 192;
  for (int scaled = 0; scaled < 8; ++scaled) {
    const int64_t depth = scaled == 0 ? 1700 : 320;
    SCOPED_TRACE(scaled);
    Tensor a = random_tensor({kRows, depth}, 1), b = random_tensor({depth, kColumns}, 2);
    auto factor = [&](int kind, int64_t i) { return (scaled >> kind & 1) != 0 ? std::pow(10.0f, static_cast<float>(i * 7 % 13 - 6)) : 1.0f; };
    for (int64_t i = 0; i < a.size(); ++i) a.data<float>()[i] *= factor(0, i / depth) / factor(1, i % depth);
    for (int64_t i = 0; i < b.size(); ++i) b.data<float>()[i] *= factor(1, i / kColumns) * factor(2, i % kColumns);
    Prepared strassen("LoweredMatMul", {}, {a, b}, kStrassen), direct("LoweredMatMul", {}, {a, b}, "generated:product");
    ASSERT_TRUE(strassen.kernel && direct.kernel);
    EXPECT_LT(largest_error(a, b, strassen.run(*strassen.kernel)), 4 * largest_error(a, b, direct.run(*direct.kernel)));
  }
}

TEST(StrassenProducts, RowsAndColumnsOfZerosStayZeros) {
  Tensor a = random_tensor({70, 64}, 1), b = random_tensor({64, 200}, 2);
  for (int64_t k = 0; k < 64; ++k) a.data<float>()[3 * 64 + k] = b.data<float>()[k * 200 + 5] = b.data<float>()[10 * 200 + k] = 0;
  Prepared prepared("LoweredMatMul", {}, {a, b}, kStrassen);
  ASSERT_TRUE(prepared.kernel);
  const Tensor y = prepared.run(*prepared.kernel);
  for (int64_t i = 0; i < 200; ++i) EXPECT_EQ(y.data<float>()[3 * 200 + i], 0);
  for (int64_t i = 0; i < 70; ++i) EXPECT_EQ(y.data<float>()[i * 200 + 5], 0);
  expect_close(y, run_kernel("LoweredMatMul", {}, {a, b})[0], kTolerance);
}

// What is finite by the definition stays finite, whatever its neighbours are.
TEST(StrassenProducts, InfinityAndNanStayWhereTheyAre) {
  Tensor a = random_tensor({67, 70}, 1), b = random_tensor({70, 150}, 2);
  a.data<float>()[5 * 70 + 3] = std::numeric_limits<float>::infinity();
  a.data<float>()[60 * 70 + 69] = std::numeric_limits<float>::quiet_NaN();
  Prepared prepared("LoweredMatMul", {}, {a, b}, kStrassen);
  ASSERT_TRUE(prepared.kernel);
  const Tensor got = prepared.run(*prepared.kernel), expected = run_kernel("LoweredMatMul", {}, {a, b})[0];
  expect_the_same_again(prepared, got);
  expect_alike(got, expected);
  b.data<float>()[17] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(Prepared("LoweredMatMul", {}, {a, b}, kStrassen).kernel);
}

// Few terms are summed exactly or nearly so, and stay so.
TEST(StrassenProducts, LeaveWeightsOfFewTermsToOthers) {
  Tensor identity = random_tensor({128, 128}, 1), sparse = random_tensor({128, 128}, 2);
  for (int64_t i = 0; i < identity.size(); ++i) {
    identity.data<float>()[i] = i / 128 == i % 128 ? 65504 : 0;
    if (i % 128 == 3 && i / 128 % 16 != 0) sparse.data<float>()[i] *= 1e-5f;
  }
  const Tensor a = random_tensor({128, 128}, 3);
  const AttributeSet by_columns{{"perm_b", Dims{1, 0}}};
  EXPECT_FALSE(Prepared("LoweredMatMul", {}, {a, identity}, kStrassen).kernel);
  EXPECT_FALSE(Prepared("LoweredMatMul", by_columns, {a, identity}, kStrassen).kernel);
  EXPECT_FALSE(Prepared("LoweredMatMul", {}, {a, sparse}, kStrassen).kernel);
}

// Of rows that only a run knows: few by the direct product, from the same panels; weights that need balancing have others.
TEST(StrassenProducts, ChooseForTheRowsOfARun) {
  Tensor b = random_tensor({640, 768}, 2);
  const Tensor row = random_tensor({768}, 3);
  const AttributeSet attributes{{"activation", std::string("Relu")}};
  const Prepared prepared("LoweredMatMul", attributes, {random_tensor({128, 640}, 1), b, row}, kStrassen, true);
  ASSERT_TRUE(prepared.kernel);
  expect_the_same_again(prepared, prepared.run(*prepared.kernel));
  kernels::PreparedRun run(*prepared.kernel);
  for (const Dims& shape : std::vector<Dims>{{128, 640}, {3, 640}, {2, 100, 640}, {1, 640}, {517, 640}, {0, 640}, {128, 640}}) {
    const Tensor a = near_one(random_tensor(shape, 5));
    const std::array given = {Datum(a), Datum(b), Datum(row)};
    const std::vector<const Datum*> inputs{&given[0], &given[1], &given[2]};
    std::vector<Datum> results(1);
    run.run(attributes, inputs, results);
    expect_close(results[0].tensor(), run_kernel("LoweredMatMul", attributes, {a, b, row})[0], kTolerance);
  }
  for (int64_t k = 0; k < 640; ++k) b.data<float>()[k * 768 + 700] *= 1000;
  EXPECT_EQ(Prepared("LoweredMatMul", attributes, {random_tensor({128, 640}, 1), b, row}, "", true).data.implementation, "generated:product");
  EXPECT_EQ(Prepared("LoweredMatMul", {}, {random_tensor({128, 641}, 1), random_tensor({641, 768}, 2)}, "", true).data.implementation, "generated:product") << "halves of panels differ";
}

// Blocks of rows are made for the threads of the compilation; others compute the same.
TEST(StrassenProducts, AgreeForBlocksOfSeveralThreads) {
  const Tensor a = near_one(random_tensor({90, 64}, 1)), b = random_tensor({64, 160}, 2);
  for (const int threads : {4, 12}) {
    with_threads(threads, [&] {
      Prepared prepared("LoweredMatMul", {}, {a, b}, kStrassen);
      ASSERT_TRUE(prepared.kernel);
      const Tensor y = prepared.run(*prepared.kernel);
      expect_close(y, run_kernel("MatMul", {}, {a, b})[0], kTolerance);
      expect_the_same_again(prepared, y);
    });
  }
}

TEST(StrassenProducts, AreForWhatPays) {
  auto implementation = [](const AttributeSet& attributes, const Dims& a, const Dims& b) {
    const Prepared prepared("LoweredMatMul", attributes, {random_tensor(a, 1), random_tensor(b, 2)});
    return prepared.data.implementation;
  };
  const bool has_large_cache = second_level_cache() >= 1 << 20;  // where operands of many rows stay
  if (has_large_cache && best_isa() == Isa::Avx512) {
    EXPECT_EQ(implementation({}, {128, 768}, {768, 768}), kStrassen);
  }
  auto of_lines = [](const Dims& strides) {
    return Prepared("LoweredConv", {{"channels_last", int64_t{1}}, {"strides", strides}}, {random_tensor({1, 401, 256}, 1), random_tensor({512, 256, 3}, 2)}).data.implementation;
  };
  EXPECT_NE(of_lines({1}), kStrassen) << "Winograd's transform does it";
  if (has_large_cache && best_isa() == Isa::Avx512) {
    EXPECT_EQ(of_lines({2}), kStrassen);
  }
  EXPECT_NE(implementation({}, {8, 768}, {768, 768}), kStrassen) << "few rows";
  EXPECT_NE(implementation({}, {3136, 64}, {64, 64}), kStrassen) << "operands take longer than products";
  EXPECT_FALSE(Prepared("LoweredMatMul", {}, {random_tensor({128, 3}, 1), random_tensor({3, 768}, 2)}, kStrassen).kernel) << "no half";
  EXPECT_FALSE(Prepared("MatMul", {}, {random_tensor({128, 768}, 1), random_tensor({768, 768}, 2)}, kStrassen).kernel) << "which means the sum";
}

}  // namespace
}  // namespace anfora::codegen

#include "codegen/generated_kernels.h"
#include "kernels/generated/panel_products.h"
#include "kernels/onednn/winograd.h"
#include "prepare_kernel.h"

namespace anfora {
namespace {

struct WinogradCase {
  std::vector<int64_t> x;  // channels last
  int64_t channels;
  std::vector<int64_t> pads;
  std::vector<int64_t> kernel{3, 3}, dilations = {}, strides = {};
  int64_t groups = 1;
};

const std::vector<WinogradCase> kWinogradCases = {
    {{1, 28, 28, 32}, 32, {1, 1, 1, 1}},  // whole tiles
    {{1, 21, 30, 32}, 40, {0, 0, 0, 0}},  // some that are cut off, no padding
    {{3, 17, 14, 24}, 32, {2, 0, 1, 3}},  // several images, and uneven pads
    {{1, 14, 14, 64}, 64, {1, 1, 1, 1}},  // one block for all threads
    {{1, 60, 60, 16}, 32, {1, 1, 1, 1}},  // several blocks for each
    {{1, 30, 33, 32}, 32, {2, 3, 2, 3}, {3, 3}, {2, 3}},  // taps that lie apart
    {{1, 60, 47, 16}, 48, {2, 1, 1, 3}, {5, 4}},          // windows in pieces
    {{2, 90, 64}, 64, {1, 1}, {3}},
    {{1, 239, 64}, 64, {0, 0}, {3}, {40}},
    {{2, 75, 64}, 56, {0, 4}, {5}},
    {{1, 83, 64}, 64, {3, 3}, {7}},
    {{1, 200, 64}, 64, {10, 20}, {11}, {3}},
    {{2, 17, 17, 96}, 64, {0, 3, 0, 3}, {1, 7}},  // lines along either axis, with padding along the other one
    {{2, 17, 15, 96}, 64, {3, 1, 2, 0}, {7, 1}},
    {{1, 5, 12, 13, 16}, 32, {1, 1, 1, 1, 1, 1}, {3, 3, 3}},  // frames
    {{2, 8, 17, 14, 32}, 24, {0, 2, 0, 3, 1, 0}, {2, 3, 3}, {}, {2, 1, 1}},
    {{1, 7, 20, 20, 16}, 32, {4, 1, 1, 0, 1, 1}, {3, 3, 3}, {2, 1, 1}},
    {{1, 6, 9, 12, 64}, 64, {1, 0, 2, 1, 0, 2}, {3, 1, 5}, {1, 1, 2}},
    {{2, 16, 5, 6, 64}, 64, {1, 0, 0, 1, 0, 0}, {3, 1, 1}},  // lines of frames
    {{2, 22, 19, 96}, 96, {1, 1, 1, 1}, {3, 3}, {}, {}, 3},
    {{2, 150, 48}, 192, {2, 2}, {5}, {}, {}, 2},
    {{1, 90, 64}, 96, {4, 4}, {9}, {}, {}, 2},
    {{1, 4, 14, 17, 96}, 96, {1, 1, 1, 0, 1, 1}, {2, 3, 3}, {}, {}, 3},
};

// Of which sums are about one.
Tensor random_weights(const std::vector<int64_t>& shape) {
  Tensor weights = random_tensor(shape, 2);
  const float scale = 3 * std::sqrt(static_cast<float>(shape[0]) / static_cast<float>(weights.size()));
  for (float& value : weights.data<float>()) value *= scale;
  return weights;
}
Tensor random_weights(const WinogradCase& c) {
  std::vector<int64_t> shape{c.channels, c.x.back() / c.groups};
  shape.insert(shape.end(), c.kernel.begin(), c.kernel.end());
  return random_weights(shape);
}

AttributeSet attributes_of(const WinogradCase& c) {
  AttributeSet attributes{{"channels_last", int64_t{1}}, {"pads", c.pads}, {"group", c.groups}};
  if (!c.strides.empty()) attributes = attributes.with("strides", c.strides);
  return c.dilations.empty() ? attributes : attributes.with("dilations", c.dilations);
}

// The transform with generated products, then the library's.
const kernels::PreparedRegistry& registry() {
  static const kernels::PreparedRegistry all = [] {
    kernels::PreparedRegistry made;
    made.add("LoweredConv", "generated:winograd",
             [](kernels::KernelData& data) { return kernels::onednn::prepare_winograd(data, codegen::product_generator()); });
    made.add("LoweredConv", "onednn:convolution", [](kernels::KernelData& data) { return kernels::onednn_kernels().prepare(data); });
    return made;
  }();
  return all;
}

std::string implementation_of(const AttributeSet& attributes, const Tensor& x, const Tensor& w) {
  kernels::KernelData data{
      "LoweredConv", attributes, {{true, DType::F32, x.shape(), {}}, {true, DType::F32, w.shape(), w}}, 1};
  return registry().prepare(data) ? data.implementation : "";
}

Tensor run_prepared(const AttributeSet& attributes, const Tensor& x, const Tensor& w, const Tensor& b) {
  kernels::KernelData data{"LoweredConv", attributes, {}, 1};
  std::vector<Datum> values;
  for (const Tensor& tensor : {x, w, b}) {
    const bool is_constant = !data.inputs.empty();
    data.inputs.push_back({tensor.defined(), tensor.dtype(), tensor.shape(), is_constant ? tensor : Tensor()});
    values.push_back(tensor.defined() ? Datum(tensor) : Datum());
  }
  const auto kernel = registry().prepare(data);
  kernels::PreparedRun prepared(*kernel);
  const std::vector<const Datum*> inputs{&values[0], &values[1], &values[2]};
  std::vector<Datum> results(1);
  prepared.run(attributes, inputs, results);
  return results[0].tensor();
}

constexpr float kWinogradTolerance = 1e-5f;

TEST(OnednnWinograd, AgreesWithTheReference) {
  for (const WinogradCase& c : kWinogradCases) {
    const Tensor x = random_tensor(c.x, 1), w = random_weights(c), b = random_tensor({c.channels}, 3);
    const AttributeSet attributes = attributes_of(c);
    SCOPED_TRACE(to_string(w.shape()));
    ASSERT_EQ(implementation_of(attributes, x, w), "generated:winograd");
    const Tensor y = run_kernel("LoweredConv", attributes, {x, w})[0];
    Tensor z = random_tensor({y.shape().begin(), y.shape().end()}, 4);
    for (float& value : z.data<float>()) value /= 16;  // cancels no large sum, whose error would be measured by what is left
    expect_prepared("LoweredConv", attributes, {x, w}, 1, false, kWinogradTolerance, 1, registry());
    expect_prepared("LoweredConv", attributes, {x, w, b}, 1, false, kWinogradTolerance, 1, registry());
    expect_prepared("LoweredConv", attributes.with("activation", std::string("Relu")), {x, w, b, z}, Constants{1, 2},
                    false, kWinogradTolerance, 1, registry());
    expect_prepared("LoweredConv", attributes.with("activation", std::string("LeakyRelu")).with("activation_alpha", 0.3f), {x, w, b, z}, Constants{1, 2}, false, kWinogradTolerance, 1, registry());
    expect_prepared("LoweredConv", attributes.with("activation", std::string("Swish")), {x, w, Tensor(), z},
                    Constants{1}, false, kWinogradTolerance, 1, registry());
    expect_prepared("LoweredConv",
                    attributes.with("activation", std::string("Clip"))
                        .with("activation_alpha", -0.5f)
                        .with("activation_beta", 1.5f),
                    {x, w, b}, 1, false, kWinogradTolerance, 1, registry());
  }
}

TEST(OnednnWinograd, ThreadsChangeNoBit) {
  for (const WinogradCase& c : kWinogradCases) {
    const Tensor x = random_tensor(c.x, 1), w = random_weights(c), b = random_tensor({c.channels}, 3);
    const Tensor alone = run_prepared(attributes_of(c), x, w, b);
    for (int threads : {2, 5, 16}) {
      with_threads(threads, [&] {
        const Tensor together = run_prepared(attributes_of(c), x, w, b);
        EXPECT_TRUE(std::ranges::equal(alone.data<float>(), together.data<float>())) << threads;
      });
    }
  }
}

// Of sizes that only a run knows: images for which it pays, others that the library convolves itself, and none. The elements of W may be gone by then,
// whichever of the two the kernel was packed for.
TEST(OnednnWinograd, ChoosesForTheSizesOfARun) {
  using Shapes = std::vector<std::vector<int64_t>>;
  const std::vector<std::pair<Shape, Shapes>> cases = {
      {{-1, -1, -1, 32}, {{1, 56, 56, 32}, {2, 4, 4, 32}, {3, 30, 29, 32}, {0, 56, 56, 32}, {1, 1, 1, 32}, {1, 56, 56, 32}}},
      {{-1, 28, 28, 32}, {{1, 28, 28, 32}, {8, 28, 28, 32}, {0, 28, 28, 32}, {1, 28, 28, 32}}},
      {{-1, 6, 6, 32}, {{1, 6, 6, 32}, {32, 6, 6, 32}, {0, 6, 6, 32}, {3, 6, 6, 32}, {1, 6, 6, 32}}},
  };
  const Tensor w = random_weights({40, 32, 3, 3}), b = random_tensor({40}, 3);
  const AttributeSet attributes{{"channels_last", int64_t{1}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}};
  for (const auto& [known, shapes] : cases) {
    kernels::KernelData data{"LoweredConv", attributes, {}, 1};
    data.inputs = {{true, DType::F32, known, {}}, {true, DType::F32, w.shape(), w}, {true, DType::F32, b.shape(), b}};
    const auto kernel = registry().prepare(data);
    ASSERT_EQ(data.implementation, "generated:winograd");
    ASSERT_TRUE(kernel->has_packed(1));
    const Tensor gone = Tensor::view(DType::F32, w.shape(), nullptr, nullptr);
    data.inputs[1].constant = gone;
    kernels::PreparedRun prepared(*kernel);
    for (const std::vector<int64_t>& shape : shapes) {
      const Tensor x = random_tensor(shape, 1);
      const std::array given = {Datum(x), Datum(gone), Datum(b)};
      const std::vector<const Datum*> inputs{&given[0], &given[1], &given[2]};
      std::vector<Datum> results(1);
      prepared.run(attributes, inputs, results);
      expect_close(results[0].tensor(), run_kernel("LoweredConv", attributes, {x, w, b})[0], kWinogradTolerance);
    }
  }
}

// However many threads share them, there is code for their parts.
TEST(OnednnWinograd, ProductsOfAnyTilesAreThoseOfAll) {
  constexpr int64_t kDepth = 48;
  for (int64_t columns : {16, 40}) {
    for (int64_t rows : {1, 5, 13, 15, 29, 43, 100}) {
      kernels::KernelData data;
      auto products = kernels::generated::PanelProducts::lay_out(data, 0, {kDepth, columns});
      ASSERT_TRUE(products && products->prepare(data, 0, rows, codegen::product_generator()));
      const Tensor a = random_tensor({rows, products->a_stride()}, 1), b = random_tensor({kDepth, products->width()}, 2);
      Tensor all = Tensor::zeros(DType::F32, Shape{rows, products->y_stride()});
      auto multiply = [&](Tensor& y, int64_t first, int64_t last) {
        products->multiply({.a = a.data<float>().data() + first * products->a_stride(), .b = b.data<float>().data(), .y = y.data<float>().data() + first * products->y_stride(), .rows = last - first, .next = {}});
      };
      multiply(all, 0, rows);
      const int64_t tiles = products->tiles_of(rows);
      EXPECT_EQ(products->first_row(rows, tiles), rows);
      for (int64_t at_once = 1; at_once <= tiles; ++at_once) {
        Tensor y = Tensor::zeros(DType::F32, all.shape());
        for (int64_t i = 0; i < tiles; i += at_once) multiply(y, products->first_row(rows, i), products->first_row(rows, std::min(i + at_once, tiles)));
        EXPECT_TRUE(Tensor::identical(y, all)) << rows << " rows, " << at_once << " tiles at once";
      }
    }
  }
}

// What is finite by the definition stays finite, whatever its neighbours are.
TEST(OnednnWinograd, InfinityAndNanStayWhereTheyAre) {
  for (const WinogradCase& c : kWinogradCases) {
    Tensor x = random_tensor(c.x, 1);
    const Tensor w = random_weights(c), b = random_tensor({c.channels}, 3);
    x.data<float>()[5] = std::numeric_limits<float>::infinity();
    x.data<float>()[x.data<float>().size() / 2] = std::numeric_limits<float>::quiet_NaN();
    const Tensor expected = run_kernel("LoweredConv", attributes_of(c), {x, w, b})[0];
    const Tensor got = run_prepared(attributes_of(c), x, w, b);
    for (size_t i = 0; i < got.data<float>().size(); ++i) {
      const float g = got.data<float>()[i], e = expected.data<float>()[i];
      ASSERT_EQ(std::isfinite(g), std::isfinite(e)) << "element " << i;
      if (!std::isfinite(e)) continue;
      ASSERT_LE(std::fabs(g - e), kWinogradTolerance * (1 + std::fabs(e))) << "element " << i;
    }
  }
}

TEST(OnednnWinograd, IsForOtherConvolutionsNot) {
  const WinogradCase& c = kWinogradCases[0];
  const Tensor x = random_tensor(c.x, 1), w = random_weights(c);
  const AttributeSet attributes = attributes_of(c);
  EXPECT_EQ(implementation_of(attributes.with("direct", int64_t{1}), x, w), "onednn:convolution");
  EXPECT_EQ(implementation_of(attributes.with("strides", std::vector<int64_t>{1, 2}), x, w), "onednn:convolution");
  EXPECT_EQ(implementation_of(attributes.with("dilations", std::vector<int64_t>{20, 20}).with("pads", std::vector<int64_t>(4, 20)), x, w), "onednn:convolution")
      << "most taps are in the padding";
  EXPECT_EQ(implementation_of({{"channels_last", int64_t{1}}}, x, random_tensor({32, 32, 1, 1}, 2)), "onednn:convolution");
  EXPECT_EQ(implementation_of(attributes, random_tensor({1, 4, 4, 32}, 1), w), "onednn:convolution")
      << "one tile is not worth it";
}

// The largest errors against f64, of Winograd's and of the direct convolution.
TEST(OnednnWinograd, ErrorIsWithinFourTimesTheDirectOne) {
  const auto widened = [](const Tensor& tensor) {
    Tensor wide = Tensor::allocate(DType::F64, tensor.shape());
    std::ranges::copy(tensor.data<float>(), wide.data<double>().begin());
    return wide;
  };
  for (const WinogradCase& c : std::vector<WinogradCase>{{{1, 20, 20, 64}, 64, {1, 1, 1, 1}},
                                                         {{1, 20, 20, 64}, 64, {2, 2, 2, 2}, {5, 5}},
                                                         {{1, 400, 64}, 64, {1, 1}, {3}},
                                                         {{1, 400, 64}, 64, {2, 2}, {5}},
                                                         {{1, 400, 64}, 64, {3, 3}, {7}},
                                                         {{1, 400, 64}, 64, {4, 4}, {9}},
                                                         {{1, 400, 64}, 64, {5, 5}, {11}}}) {
    const Tensor x = random_tensor(c.x, 5), w = random_weights(c);
    SCOPED_TRACE(to_string(w.shape()));
    ASSERT_EQ(implementation_of(attributes_of(c), x, w), "generated:winograd");
    const Tensor exact = run_kernel("LoweredConv", attributes_of(c), {widened(x), widened(w)})[0];
    auto largest_error = [&](const AttributeSet& attributes) {
      const Tensor result = run_prepared(attributes, x, w, Tensor());
      const auto got = result.data<float>();
      double worst = 0;
      for (size_t i = 0; i < got.size(); ++i)
        worst = std::max(worst, std::fabs(static_cast<double>(got[i]) - exact.data<double>()[i]));
      return worst;
    };
    EXPECT_LT(largest_error(attributes_of(c)), 4 * largest_error(attributes_of(c).with("direct", int64_t{1})));
  }
}

}  // namespace
}  // namespace anfora

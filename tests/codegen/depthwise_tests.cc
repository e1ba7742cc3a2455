// Depthwise convolutions, also behind pointwise ones and in groups of several channels: their code beside the evaluator of the loop IR bit for bit, and beside the reference kernel.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <limits>

#include "both_ways.h"
#include "codegen/depthwise.h"
#include "kernels/generated/depthwise.h"
#include "kernels/generated/grouped_convolution.h"
#include "kernels/generated/product_layout.h"
#include "prepared.h"

namespace anfora::codegen {
namespace {

using namespace kernels::generated;
using Dims = std::vector<int64_t>;

TEST(Depthwise, IsThatOfTheEvaluator) {
  for (Isa isa : isas_here()) {
    for (bool has_edge : {false, true}) {
      for (int pixels : {1, 3}) {
        SCOPED_TRACE(fmt::format("{}, {} pixels, edge {}", kernels::generated::describe(isa).name, pixels, has_edge));
        DepthwiseCode code{.isa = isa, .tile = product_tile(isa, 768), .has_edge = has_edge, .epilogue = {}, .expansion = std::nullopt};
        code.epilogue = {.addends = {Addend::Row, Addend::Tile}, .activation = Activation::HardSwish};
        constexpr int64_t kTiles = 2, kRows = 2, kTapsOfRow = 3, kStep = 2;
        constexpr int64_t kPanelCount = 2;
        const int64_t width = code.panel_channels(), pixel = kPanelCount * width, channels = has_edge ? pixel - 3 : pixel,
                      results = kTiles * pixels, row = (results * kStep + kTapsOfRow) * pixel;
        const Tensor image = random_tensor({kRows, row}, 1), filters = random_tensor({kPanelCount, kRows * kTapsOfRow, width}, 2);
        const Tensor bias = random_tensor({channels}, 3), residual = random_tensor({results, channels}, 4);
        Tensor y = random_tensor({results, channels}, 5);
        std::vector<int64_t> arguments(kDepthwiseArguments);
        arguments[kImage] = address(image), arguments[kFilters] = address(filters);
        arguments[kBias] = address(bias), arguments[kResidual] = address(residual);
        arguments[kImageRowStride] = row, arguments[kTapStride] = pixel, arguments[kPixelStride] = kStep * pixel;
        arguments[kPanels] = kPanelCount, arguments[kFilterPanelStride] = kRows * kTapsOfRow * width;
        arguments[kTapRows] = kRows, arguments[kTaps] = kTapsOfRow, arguments[kTiles] = kTiles;
        arguments[kChannels] = arguments[kResultStride] = arguments[kResidualStride] = channels;
        BothWays both{depthwise_function(code, pixels), isa, {}};
        for (const Tensor* tensor : {&image, &filters, &bias, &residual})
          both.regions.push_back({tensor->data<float>().data(), tensor->size()});
        both.expect_equal(arguments, kResult, y);
      }
    }
  }
}

TEST(Depthwise, OfIntegersIsThatOfTheEvaluator) {
  for (Isa isa : isas_here()) {
    for (const auto& [image_type, result_type] : {std::pair(DType::I8, DType::U8), {DType::U8, DType::I8}, {DType::U8, DType::F32}}) {
      SCOPED_TRACE(fmt::format("{}, {} to {}", kernels::generated::describe(isa).name, name(image_type), name(result_type)));
      constexpr int kPixels = 3;
      const DepthwiseCode code{.isa = isa, .tile = {kPixels, 2}, .has_edge = true, .image = image_type, .scale = Scale::Columns, .result = result_type,
                               .epilogue = {.addends = {Addend::Row, Addend::None}, .activation = Activation::HardSwish}, .expansion = {}};
      constexpr int64_t kPanelCount = 2, kRows = 2, kTapsOfRow = 3, kTiles = 2, kResults = kTiles * kPixels, kFourBytes = 4;
      const int64_t width = code.panel_channels(), pixel = kPanelCount * width, channels = pixel - 3, row = (kResults + kTapsOfRow) * pixel;
      const Tensor image = random_bytes(image_type, {kRows * row}, 1), filters = Tensor::zeros(DType::I32, Shape{kPanelCount * kRows * kTapsOfRow * width});
      const Tensor weights = random_bytes(DType::I8, {filters.size()}, 2), bias = random_tensor({channels}, 3), scales = random_tensor({channels}, 4);
      Tensor words = filters.clone(), terms = Tensor::zeros(DType::I32, Shape{pixel});
      for (int64_t i = 0; i < words.size(); ++i) words.data<int32_t>()[i] = static_cast<uint16_t>(weights.data<int8_t>()[i]);
      for (int64_t i = 0; i < pixel; ++i) terms.data<int32_t>()[i] = static_cast<int32_t>(i * 1000 - 7);
      const int32_t lowest = result_type == DType::I8 ? -128 : 0;
      const Quantization quantization{50.5f, static_cast<float>(lowest - 5), static_cast<float>(lowest + 250), 5};
      Tensor y = Tensor::zeros(DType::F32, Shape{kResults * channels});  // of bytes as well
      std::vector<int64_t> arguments(kDepthwiseArguments);
      arguments[kImage] = address(image), arguments[kFilters] = address(words), arguments[kBias] = address(bias);
      arguments[kImageRowStride] = row, arguments[kTapStride] = arguments[kPixelStride] = pixel;
      arguments[kPanels] = kPanelCount, arguments[kFilterPanelStride] = kRows * kTapsOfRow * width;
      arguments[kTapRows] = kRows, arguments[kTaps] = kTapsOfRow, arguments[kTiles] = kTiles;
      arguments[kChannels] = arguments[kResultStride] = channels;
      arguments[kZeroTerms] = address(terms), arguments[kDepthwiseScale] = address(scales);
      arguments[kDepthwiseQuantization] = reinterpret_cast<int64_t>(&quantization);
      BothWays both{depthwise_function(code, kPixels), isa, {}};
      for (const Tensor& tensor : {image, words, terms, bias, scales})
        both.regions.push_back({static_cast<const float*>(tensor.raw()), static_cast<int64_t>(tensor.bytes()) / kFourBytes});
      both.regions.push_back({&quantization.scale, sizeof(quantization) / kFourBytes});
      both.expect_equal(arguments, kResult, y);
    }
  }
}

struct Case {
  Dims x;              // batch, height, width, channels
  int64_t channels;    // of the result
  Dims kernel;
  AttributeSet attributes;
};

AttributeSet window(int64_t channels, Dims strides, Dims pads, Dims dilations = {1, 1}) {
  return {{"group", channels}, {"strides", std::move(strides)}, {"pads", std::move(pads)}, {"dilations", std::move(dilations)}};
}

// Also where it is not preferred.
constexpr std::string_view kGenerated = "generated:depthwise";

class GeneratedDepthwise : public testing::TestWithParam<Case> {};

TEST_P(GeneratedDepthwise, AgreesWithTheReference) {
  const Case& c = GetParam();
  const Tensor x = random_tensor(c.x, 1), w = random_tensor({c.channels, 1, c.kernel[0], c.kernel[1]}, 2),
               b = random_tensor({c.channels}, 3), e = random_tensor({c.channels, c.x.back(), 1, 1}, 4), f = random_tensor({c.channels}, 5), none;
  const AttributeSet activations = c.attributes.with("activation", std::string("Swish")).with("expansion_activation", std::string("Relu"));
  const Tensor expected = run_kernel(std::string(kExpansionDepthwise), activations, {x, w, b, none, e, f})[0];
  const Prepared prepared(kExpansionDepthwise, activations, {x, w, b, none, e, f});
  ASSERT_TRUE(prepared.kernel);
  EXPECT_EQ(prepared.data.implementation, "generated:depthwise");
  const Tensor result = prepared.run(*prepared.kernel);
  expect_close(result, expected, 1e-5f);
  expect_the_same_again(prepared, result);

  const AttributeSet clipped = c.attributes.with("expansion_activation", std::string("Clip"))
                                   .with("expansion_activation_alpha", 0.0f)
                                   .with("expansion_activation_beta", 0.5f);
  const Tensor z = random_tensor({expected.shape().begin(), expected.shape().end()}, 6);
  const Prepared residual(kExpansionDepthwise, clipped, {x, w, none, z, e});
  ASSERT_TRUE(residual.kernel);
  expect_close(residual.run(*residual.kernel), run_kernel(std::string(kExpansionDepthwise), clipped, {x, w, none, z, e})[0], 1e-5f);
}

TEST_P(GeneratedDepthwise, AgreesWithTheReferenceWithoutAnExpansion) {
  const Case& c = GetParam();
  Dims shape = c.x;
  shape.back() = c.channels;
  const Tensor x = random_tensor(shape, 1), w = random_tensor({c.channels, 1, c.kernel[0], c.kernel[1]}, 2), b = random_tensor({c.channels}, 3);
  const AttributeSet attributes = c.attributes.with("channels_last", int64_t{1}).with("activation", std::string("Swish"));
  const Tensor expected = run_kernel(std::string(kConvolution), attributes, {x, w, b})[0];
  const Prepared prepared(kConvolution, attributes, {x, w, b}, kGenerated);
  ASSERT_TRUE(prepared.kernel);
  EXPECT_EQ(prepared.data.implementation, "generated:depthwise");
  const Tensor result = prepared.run(*prepared.kernel);
  expect_close(result, expected, 1e-5f);
  expect_the_same_again(prepared, result);

  const Tensor z = random_tensor({expected.shape().begin(), expected.shape().end()}, 6), none;
  const Prepared residual(kConvolution, attributes, {x, w, none, z}, kGenerated);
  ASSERT_TRUE(residual.kernel);
  const Tensor sum = residual.run(*residual.kernel);
  expect_close(sum, run_kernel(std::string(kConvolution), attributes, {x, w, none, z})[0], 1e-5f);
  expect_the_same_again(residual, sum);
}

// Exactly, whatever the signs and zero points.
TEST_P(GeneratedDepthwise, OfIntegersIsThatOfTheReference) {
  const Case& c = GetParam();
  Dims shape = c.x;
  shape.back() = c.channels;
  const AttributeSet attributes = c.attributes.with("channels_last", int64_t{1}).with("activation", std::string("Relu"));
  const std::string op(kIntegerConvolution);
  for (DType left : {DType::U8, DType::I8}) {
    for (DType right : {DType::U8, DType::I8}) {
      const Tensor x = random_bytes(left, shape, 1), w = random_bytes(right, {c.channels, 1, c.kernel[0], c.kernel[1]}, 2), b = random_tensor({c.channels}, 3),
                   zero_of_x = random_bytes(left, {}, 4), zero_of_w = random_bytes(right, {}, 5), zeros_of_w = random_bytes(right, {c.channels}, 5),
                   scales = random_tensor({c.channels}, 6), scale = Tensor::scalar(0.01f), scale_of_y = Tensor::scalar(37.5f), none;
      const Tensor plain = run_kernel(op, attributes, {x, w, none, none, none, none, scale})[0];
      const Tensor z = random_tensor({plain.shape().begin(), plain.shape().end()}, 7);
      for (const std::vector<Tensor>& inputs :
           {std::vector<Tensor>{x, w, none, none, none, none, scale}, {x, w, b, z, zero_of_x, zero_of_w, scales},
            {x, w, b, none, zero_of_x, zeros_of_w, scales, scale_of_y, random_bytes(left, {}, 8)}, {x, w, none, z, zero_of_x, zeros_of_w, scale, scale_of_y}}) {
        const Prepared prepared(op, attributes, inputs);
        ASSERT_TRUE(prepared.kernel);
        EXPECT_EQ(prepared.data.implementation, "generated:depthwise");
        const Tensor result = prepared.run(*prepared.kernel);
        EXPECT_TRUE(Tensor::identical(result, run_kernel(op, attributes, inputs)[0])) << name(left) << " by " << name(right) << ", " << inputs.size();
        expect_the_same_again(prepared, result);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, GeneratedDepthwise,
    testing::Values(Case{{1, 7, 9, 5}, 20, {3, 3}, window(20, {1, 1}, {1, 1, 1, 1})},
                    Case{{2, 12, 12, 8}, 48, {5, 5}, window(48, {2, 2}, {2, 2, 2, 2})},
                    Case{{1, 40, 33, 16}, 96, {3, 3}, window(96, {1, 1}, {1, 1, 1, 1})},         // several strips
                    Case{{1, 64, 130, 4}, 70, {3, 5}, window(70, {3, 1}, {0, 4, 2, 0})},
                    Case{{1, 64, 130, 4}, 16, {1, 1}, window(16, {3, 2}, {0, 0, 0, 0})},         // rows that nobody reads
                    Case{{1, 11, 10, 3}, 33, {3, 3}, window(33, {1, 1}, {2, 2, 2, 2}, {2, 2})},
                    Case{{1, 9, 9, 3}, 17, {3, 3}, window(17, {1, 1}, {-1, -2, -1, 0})},         // cropped
                    Case{{1, 2, 1, 3}, 16, {5, 5}, window(16, {1, 1}, {4, 3, 5, 4})},            // windows without the image
                    Case{{1, 40, 130, 4}, 64, {3, 3}, window(64, {1, 1}, {1, 1, 1, 1})},         // larger than the cache
                    Case{{1, 9, 31, 4}, 24, {3, 3}, window(24, {2, 1}, {0, 0, 0, 0})},           // windows that all lie inside
                    Case{{2, 5, 40, 3}, 7, {5, 3}, window(7, {1, 1}, {2, 1, 2, 0})},             // of which the last panel goes on behind the image
                    Case{{1, 8, 8, 3}, 24, {4, 3}, {{"group", int64_t{24}}, {"auto_pad", std::string("SAME_LOWER")}}}),
    [](const auto& info) { return fmt::format("{}", info.index); });

struct Groups {
  int64_t count, inputs, results;  // channels of a group
  Dims image, kernel;              // batch, height, width; or batch and length; or batch and a volume
  AttributeSet attributes;
};

void expect_agreement(const Groups& g, std::string_view implementation) {
  const int64_t channels = g.count * g.results;
  Dims of_x = g.image, of_w{channels, g.inputs};
  of_x.push_back(g.count * g.inputs);
  of_w.insert(of_w.end(), g.kernel.begin(), g.kernel.end());
  const Tensor x = random_tensor(of_x, 1), w = random_tensor(of_w, 2), b = random_tensor({channels}, 3), none;
  const AttributeSet attributes = g.attributes.with("group", g.count).with("channels_last", int64_t{1}).with("activation", std::string("Relu"));
  const Tensor expected = run_kernel(std::string(kConvolution), attributes, {x, w, b})[0];
  const Tensor z = random_tensor({expected.shape().begin(), expected.shape().end()}, 4);
  const Prepared prepared(kConvolution, attributes, {x, w, b}, implementation);
  ASSERT_TRUE(prepared.kernel);
  const Tensor result = prepared.run(*prepared.kernel);
  expect_close(result, expected, 1e-5f);
  expect_the_same_again(prepared, result);

  const Prepared residual(kConvolution, attributes, {x, w, none, z}, implementation);
  ASSERT_TRUE(residual.kernel);
  expect_close(residual.run(*residual.kernel), run_kernel(std::string(kConvolution), attributes, {x, w, none, z})[0], 1e-5f);
}

class GeneratedGroups : public testing::TestWithParam<Groups> {};

TEST_P(GeneratedGroups, AgreeWithTheReference) { expect_agreement(GetParam(), kGenerated); }

INSTANTIATE_TEST_SUITE_P(
    All, GeneratedGroups,
    testing::Values(Groups{32, 4, 4, {2, 33, 40}, {3, 3}, {{"pads", Dims{1, 1, 1, 1}}}},
                    Groups{24, 1, 2, {1, 40, 31}, {7, 7}, {{"pads", Dims{3, 3, 3, 3}}, {"strides", Dims{2, 2}}}},
                    Groups{11, 3, 3, {1, 9, 9}, {3, 3}, {{"pads", Dims{2, 0, 1, 3}}}},         // a group across two panels
                    Groups{7, 2, 1, {1, 8, 6}, {3, 5}, {{"pads", Dims{1, 4, 1, 4}}, {"dilations", Dims{1, 2}}}},
                    Groups{2, 5, 8, {1, 6, 7}, {1, 1}, {}},
                    Groups{5, 7, 16, {1, 6, 7}, {2, 3}, {{"strides", Dims{1, 3}}}},
                    Groups{3, 2, 70, {1, 12, 5}, {3, 3}, {{"pads", Dims{-1, 1, 0, 1}}}},        // cropped
                    Groups{24, 1, 1, {2, 37}, {7}, {{"pads", Dims{3, 4}}}}, Groups{5, 3, 4, {1, 50}, {3}, {{"strides", Dims{2}}}},  // of one axis
                    // Volumes.
                    Groups{40, 1, 1, {2, 4, 9, 31}, {3, 3, 3}, {{"pads", Dims{1, 1, 1, 1, 1, 1}}}},
                    Groups{33, 1, 1, {1, 7, 80, 57}, {3, 3, 3}, {{"pads", Dims{1, 1, 1, 1, 1, 1}}, {"strides", Dims{2, 2, 1}}}},  // several strips
                    Groups{17, 1, 1, {1, 5, 6, 7}, {2, 3, 1}, {{"pads", Dims{2, 0, 1, 1, 2, 0}}, {"dilations", Dims{2, 1, 1}}}},
                    Groups{20, 1, 1, {2, 3, 5, 6}, {1, 3, 3}, {{"pads", Dims{0, 2, 2, 0, 2, 2}}, {"dilations", Dims{1, 2, 2}}}},
                    Groups{16, 1, 1, {1, 2, 4, 6}, {5, 3, 3}, {{"pads", Dims{6, -1, 1, 5, 0, 1}}}}),  // windows without the volume
    [](const auto& info) { return fmt::format("{}", info.index); });

class GroupedConvolution : public testing::TestWithParam<Groups> {};

TEST_P(GroupedConvolution, AgreesWithTheReference) { expect_agreement(GetParam(), kGrouped); }

INSTANTIATE_TEST_SUITE_P(
    All, GroupedConvolution,
    testing::Values(Groups{32, 8, 8, {2, 14, 14}, {3, 3}, {{"pads", Dims{1, 1, 1, 1}}}},
                    Groups{3, 24, 24, {1, 80, 57}, {3, 3}, {{"pads", Dims{1, 1, 1, 1}}, {"strides", Dims{2, 2}}}},  // several strips
                    Groups{9, 16, 16, {1, 7, 7}, {3, 3}, {{"pads", Dims{1, 1, 1, 1}}}},
                    Groups{2, 16, 32, {1, 9, 30}, {5, 1}, {{"pads", Dims{4, 0, 4, 0}}, {"dilations", Dims{2, 1}}}},
                    Groups{4, 12, 40, {1, 6, 7}, {1, 1}, {}},
                    Groups{5, 7, 48, {1, 6, 7}, {2, 3}, {{"strides", Dims{3, 1}}}},
                    Groups{2, 3, 96, {1, 12, 5}, {3, 3}, {{"pads", Dims{-1, 1, 0, 1}}}},                          // cropped
                    Groups{2, 100, 8, {1, 2, 1}, {5, 5}, {{"pads", Dims{4, 3, 5, 4}}}},                           // windows without the image
                    Groups{4, 24, 48, {2, 37}, {16}, {{"pads", Dims{8, 7}}}}, Groups{3, 5, 8, {1, 50}, {3}, {{"strides", Dims{2}}}},  // of one axis
                    // One group of few channels.
                    Groups{1, 3, 64, {2, 30, 33}, {3, 3}, {{"pads", Dims{0, 0, 1, 1}}, {"strides", Dims{2, 2}}}},
                    Groups{1, 3, 48, {1, 40, 41}, {7, 7}, {{"pads", Dims{3, 3, 3, 3}}, {"strides", Dims{2, 2}}}},
                    Groups{1, 1, 24, {1, 12, 13}, {5, 7}, {{"pads", Dims{2, 3, 2, 3}}}},
                    Groups{1, 4, 32, {1, 16, 20}, {4, 4}, {{"strides", Dims{4, 4}}}},
                    Groups{1, 15, 16, {1, 9, 7}, {3, 1}, {{"pads", Dims{4, 0, 4, 0}}, {"dilations", Dims{2, 1}}}}),
    [](const auto& info) { return fmt::format("{}", info.index); });

// A kernel of an image whose shape is not known before the run. `constants` are the other inputs; those that the kernel has packed are only shapes to a run.
class OpenRun {
 public:
  OpenRun(std::string_view op, const AttributeSet& attributes, const std::vector<Tensor>& constants, std::string_view implementation)
      : data_{std::string(op), attributes, {}, 1} {
    data_.inputs.push_back({.present = true, .dtype = DType::F32, .shape = std::nullopt, .constant = {}});
    for (const Tensor& tensor : constants) {
      if (!tensor.defined()) data_.inputs.emplace_back();
      else data_.inputs.push_back({.present = true, .dtype = DType::F32, .shape = tensor.shape(), .constant = tensor});
    }
    kernel_ = generating_kernels().prepare_as(data_, implementation);
    if (!kernel_) return;
    run_.emplace(*kernel_);
    for (size_t i = 0; i < constants.size(); ++i) {
      Tensor& constant = data_.inputs[i + 1].constant;
      if (kernel_->has_packed(i + 1) && constant.defined()) constant = Tensor::view(DType::F32, constant.shape(), nullptr, nullptr);
      constants_.push_back(constant.defined() ? Datum(constant) : Datum());
    }
  }

  bool is_prepared() const { return kernel_ != nullptr; }

  Tensor operator()(const Tensor& image) {
    const Datum x(image);
    std::vector<const Datum*> inputs{&x};
    for (const Datum& constant : constants_) inputs.push_back(&constant);
    Datum y;
    run_->run(data_.attributes, inputs, {&y, 1});
    return y.tensor();
  }

 private:
  kernels::KernelData data_;
  std::unique_ptr<kernels::PreparedKernel> kernel_;
  std::optional<kernels::PreparedRun> run_;
  std::vector<Datum> constants_;
};

// Images of those shapes, and what has no windows or does not fit.
void expect_agreement_of_open_sizes(std::string_view op, const AttributeSet& attributes, const std::vector<Tensor>& constants, std::string_view implementation,
                                    const std::vector<Dims>& images) {
  OpenRun run(op, attributes, constants, implementation);
  ASSERT_TRUE(run.is_prepared());
  auto reference = [&](const Tensor& x) {
    std::vector<Tensor> inputs{x};
    inputs.insert(inputs.end(), constants.begin(), constants.end());
    return run_kernel(std::string(op), attributes, inputs)[0];
  };
  for (const Dims& dims : images) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(dims, " ")));
    const Tensor x = random_tensor(dims, 3);
    expect_close(run(x), reference(x), 1e-5f);
  }
  Dims empty = images[0], wrong = images[0];
  empty[0] = 0, --wrong.back();
  const Tensor none = Tensor::zeros(DType::F32, Shape(empty.begin(), empty.end()));
  EXPECT_EQ(run(none).shape(), reference(none).shape());
  EXPECT_THROW(run(random_tensor(wrong, 3)), Error);
}

TEST(GroupedConvolution, TakesSizesThatAreNotKnown) {
  const AttributeSet attributes = AttributeSet{{"group", int64_t{2}}, {"channels_last", int64_t{1}}, {"pads", Dims{2, 2}}};
  expect_agreement_of_open_sizes(kConvolution, attributes, {random_tensor({16, 8, 5}, 1), random_tensor({16}, 2)}, kGrouped,
                                 {{2, 1, 16}, {2, 30, 16}, {2, 400, 16}, {2, 30, 16}});
}

TEST(GroupedConvolution, TakesImagesOfFewChannels) {
  const bool has_fma = describe(best_isa()).has_fma;
  const AttributeSet attributes = AttributeSet{{"channels_last", int64_t{1}}, {"pads", Dims{1, 1, 1, 1}}, {"strides", Dims{2, 2}}};
  const Tensor w = random_tensor({16, 3, 3, 3}, 1), of_some = random_tensor({16, 16, 3, 3}, 1);
  EXPECT_EQ(Prepared(kConvolution, attributes, {random_tensor({1, 9, 9, 3}, 2), w}).data.implementation == kGrouped, has_fma);
  EXPECT_NE(Prepared(kConvolution, attributes, {random_tensor({1, 9, 9, 16}, 2), of_some}).data.implementation, kGrouped);
  EXPECT_NE(Prepared(kConvolution, attributes, {random_tensor({1, 1, 90, 3}, 2), random_tensor({16, 3, 1, 5}, 1)}).data.implementation, kGrouped);
  expect_agreement_of_open_sizes(kConvolution, attributes, {w, random_tensor({16}, 2)}, kGrouped, {{2, 7, 5, 3}, {1, 1, 1, 3}, {1, 70, 31, 3}, {2, 7, 5, 3}});
}

TEST(GeneratedDepthwise, TakesSizesThatAreNotKnown) {
  const AttributeSet attributes = window(40, {2, 2}, {1, 1, 1, 1}).with("channels_last", int64_t{1}).with("activation", std::string("Swish"));
  const Tensor w = random_tensor({40, 1, 3, 3}, 1), b = random_tensor({40}, 2);
  expect_agreement_of_open_sizes(kConvolution, attributes, {w, b}, kGenerated, {{2, 7, 5, 40}, {1, 1, 1, 40}, {1, 30, 31, 40}, {3, 7, 60, 40}, {2, 7, 5, 40}});
  const AttributeSet with_expansion = attributes.without("channels_last").with("expansion_activation", std::string("Relu"));
  const Tensor e = random_tensor({40, 16, 1, 1}, 4), f = random_tensor({40}, 5), none;
  expect_agreement_of_open_sizes(kExpansionDepthwise, with_expansion, {w, b, none, e, f}, kGenerated,
                                 {{2, 7, 5, 16}, {1, 1, 1, 16}, {1, 30, 31, 16}, {3, 7, 60, 16}, {2, 7, 5, 16}});
}

TEST(GeneratedDepthwise, TakesRowsOfAnyLength) {
  const AttributeSet rows = AttributeSet{{"group", int64_t{24}}, {"channels_last", int64_t{1}}, {"pads", Dims{3, 5}}, {"dilations", Dims{2}}};
  expect_agreement_of_open_sizes(kConvolution, rows, {random_tensor({24, 1, 5}, 1)}, kGenerated, {{2, 1, 24}, {1, 50, 24}, {2, 300, 24}});
}

TEST(GeneratedDepthwise, TakesVolumesOfAnySize) {
  const AttributeSet volumes = AttributeSet{{"group", int64_t{24}}, {"channels_last", int64_t{1}}, {"pads", Dims{1, 1, 1, 1, 1, 1}}};
  expect_agreement_of_open_sizes(kConvolution, volumes, {random_tensor({24, 1, 3, 3, 3}, 1)}, kGenerated, {{2, 4, 5, 6, 24}, {1, 1, 1, 1, 24}, {1, 9, 14, 14, 24}});
}

// Where a library is slower: lines and volumes, by AVX2 images as well.
TEST(GeneratedDepthwise, IsPreferredForLinesAndVolumes) {
  const AttributeSet attributes{{"group", int64_t{16}}, {"channels_last", int64_t{1}}};
  const auto is_preferred = [&](const Dims& image, const Dims& filters) {
    return Prepared(kConvolution, attributes, {random_tensor(image, 1), random_tensor(filters, 2)}).kernel != nullptr;
  };
  const bool has_fma = describe(best_isa()).has_fma;
  EXPECT_EQ(is_preferred({1, 50, 16}, {16, 1, 9}), has_fma);
  EXPECT_EQ(is_preferred({1, 5, 6, 7, 16}, {16, 1, 3, 3, 3}), has_fma);
  EXPECT_EQ(is_preferred({1, 20, 20, 16}, {16, 1, 3, 3}), best_isa() == Isa::Avx2);
}

// Where a library is slower: by AVX2, with AVX-512 groups of about two vectors; and of one axis.
TEST(GroupedConvolution, IsPreferredForSomeSizes) {
  const auto is_preferred = [](int64_t results, int64_t kernel = 3) {
    return has_groups_of_vectors(Dims{2 * results, results, kernel, kernel}, AttributeSet{{"group", int64_t{2}}});
  };
  const Isa isa = best_isa();
  const bool has_fma = describe(isa).has_fma;
  EXPECT_EQ(is_preferred(24), has_fma);
  EXPECT_EQ(is_preferred(8), isa == Isa::Avx2);
  EXPECT_EQ(is_preferred(64), isa == Isa::Avx2);
  EXPECT_FALSE(is_preferred(28));
  EXPECT_FALSE(is_preferred(24, 1));
  EXPECT_EQ(has_groups_of_vectors(Dims{96, 48, 128}, AttributeSet{{"group", int64_t{2}}}), has_fma);
}

// Where the panels of its products would be whole.
TEST(GroupedConvolution, IsLeftToWinogradsTransform) {
  const auto implementation = [](int64_t channels) {
    const AttributeSet attributes{{"channels_last", int64_t{1}}, {"group", int64_t{3}}};
    return Prepared(kConvolution, attributes, {random_tensor({1, 40, 40, 3 * channels}, 1), random_tensor({3 * channels, channels, 3, 3}, 2)}).data.implementation;
  };
  const bool has_wide_vectors = best_isa() == Isa::Avx512;
  EXPECT_EQ(implementation(24), has_wide_vectors ? kGrouped : "");
  EXPECT_EQ(implementation(32), "");
}

TEST(GroupedConvolution, LeavesTheRestToOthers) {
  const Tensor x = random_tensor({1, 6, 6, 16}, 1), w = random_tensor({16, 8, 3, 3}, 2);
  const AttributeSet attributes = window(2, {1, 1}, {1, 1, 1, 1}).with("channels_last", int64_t{1});
  auto is_grouped = [&](const AttributeSet& of, const Tensor& filters) { return Prepared(kConvolution, of, {x, filters}, kGrouped).kernel != nullptr; };
  EXPECT_TRUE(is_grouped(attributes, w));
  EXPECT_FALSE(is_grouped(attributes.with("channels_last", int64_t{0}), w));
  EXPECT_FALSE(is_grouped(attributes.with("group", int64_t{1}), random_tensor({16, 16, 3, 3}, 2)));
  EXPECT_FALSE(is_grouped(attributes.with("dilations", Dims{1, 2}), w));
  EXPECT_FALSE(is_grouped(attributes.with("activation", std::string("Mish")), w));
  EXPECT_FALSE(is_grouped(attributes, random_tensor({12, 8, 3, 3}, 2))) << "six channels fill no vector";
  Tensor infinite = w.clone();
  infinite.data<float>()[7] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(is_grouped(attributes, infinite));
}

TEST(GeneratedDepthwise, LeavesTheRestToOthers) {
  const Tensor x = random_tensor({1, 6, 6, 8}, 1), w = random_tensor({16, 1, 3, 3}, 2), e = random_tensor({16, 8, 1, 1}, 3), none;
  const AttributeSet attributes = window(16, {1, 1}, {1, 1, 1, 1});
  auto is_generated = [&](const AttributeSet& of, const Tensor& filters, const Tensor& expansion) {
    const Prepared prepared(kExpansionDepthwise, of, {x, filters, none, none, expansion});
    return prepared.data.implementation == "generated:depthwise";
  };
  EXPECT_TRUE(is_generated(attributes, w, e));
  EXPECT_FALSE(is_generated(attributes.with("activation", std::string("Mish")), w, e));
  EXPECT_FALSE(is_generated(attributes.with("expansion_activation", std::string("Mish")), w, e));
  EXPECT_FALSE(is_generated(attributes.with("group", int64_t{8}), random_tensor({16, 2, 3, 3}, 2), e));
  EXPECT_FALSE(is_generated(attributes, w, random_tensor({16, 4, 1, 1}, 3)));
  EXPECT_FALSE(Prepared(kConvolution, attributes, {x, w}).kernel);  // no activation that takes long
  EXPECT_FALSE(Prepared(kConvolution, attributes.with("activation", std::string("Swish")), {x, w}).kernel);  // channels first
  const AttributeSet groups = window(4, {1, 1}, {2, 2, 2, 2}, {2, 2}).with("channels_last", int64_t{1});
  EXPECT_FALSE(Prepared(kConvolution, groups, {x, random_tensor({16, 2, 3, 3}, 2)}, kGenerated).kernel);  // lines are no rows
  const Tensor volume = random_tensor({1, 4, 6, 6, 16}, 1);
  const AttributeSet of_volumes{{"channels_last", int64_t{1}}};
  EXPECT_TRUE(Prepared(kConvolution, of_volumes.with("group", int64_t{16}), {volume, random_tensor({16, 1, 3, 3, 3}, 2)}, kGenerated).kernel);
  EXPECT_FALSE(Prepared(kConvolution, of_volumes.with("group", int64_t{8}), {volume, random_tensor({16, 2, 3, 3, 3}, 2)}, kGenerated).kernel);
  Tensor infinite = w.clone();
  infinite.data<float>()[7] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(is_generated(attributes, infinite, e));
}

}  // namespace
}  // namespace anfora::codegen

// The blocked convolutions and poolings that ONNX Runtime's optimizer saves (domain com.microsoft.nchwc). Their data is
// [batch, channels, height, width] with the channels filled up to whole blocks, in the memory order [batch, channels / block,
// height, width, block]; what a block is the file does not say. They are typed here by their shapes; nchwc.ir says what they mean.
#include <fmt/format.h>

#include <algorithm>

#include "ops/infer_window.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

// Blocks have 8 or 16 channels: a multiple of the larger one is the same with both.
constexpr int64_t kLargestBlock = 16;

Declaration blocked(Declarations& declare, const char* name, const char* doc) {
  return declare.op(name, 1, "com.microsoft.nchwc").doc(doc).no_kernel().input("X", "T").type("T", {DType::F32});
}

Dims image_dims(InferenceContext& ctx) {
  require_rank(ctx, 0, 4);
  return ctx.dims(0).value_or(Dims(4, ctx.unknown()));
}

void infer_reorder_input(InferenceContext& ctx) {
  Dims dims = image_dims(ctx);
  if (ctx.attribute_int("channels_last") != 0) std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
  const auto channels = dims[1].as_constant();
  if (!channels || *channels % kLargestBlock != 0) dims[1] = ctx.unknown();
  ctx.set_tensor(0, ctx.dtype(0), dims);
}

void infer_reorder_output(InferenceContext& ctx) {
  Dims dims = image_dims(ctx);
  const int64_t channels = ctx.attribute_int("channels");
  if (channels < 1) ctx.fail(fmt::format("channels is {}", channels));
  dims[1] = ctx.dim(channels);
  if (ctx.attribute_int("channels_last") != 0) std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  ctx.set_tensor(0, ctx.dtype(0), dims);
}

void infer_upsample(InferenceContext& ctx) {
  Dims dims = image_dims(ctx);
  const std::vector<int64_t> scales = ctx.attributes().get_ints("scales", {1, 1, 1, 1});
  if (scales.size() != 4 || std::ranges::min(scales) < 1) ctx.fail("scales are not four positive integers");
  for (size_t i = 0; i < 4; ++i) dims[i] = dims[i] * scales[i];
  ctx.set_tensor(0, ctx.dtype(0), dims);
}

Declaration blocked_pool(Declarations& declare, const char* name, const char* doc) {
  return blocked(declare, name, doc)
      .output("Y", "T")
      .attribute("auto_pad", "NOTSET")
      .attribute("ceil_mode", 0)
      .required_attribute("kernel_shape", AttributeKind::Ints)
      .optional_attribute("dilations", AttributeKind::Ints)
      .optional_attribute("pads", AttributeKind::Ints)
      .optional_attribute("strides", AttributeKind::Ints)
      .infer(infer_pool);
}

}  // namespace

void declare_microsoft_nchwc(Declarations& declare) {
  blocked(declare, "ReorderInput", "An image's channels, filled up with zeros and put into blocks.")
      .output("Y", "T")
      .attribute("channels_last", 0)
      .infer(infer_reorder_input);
  blocked(declare, "ReorderOutput", "The first channels of a blocked image, as they were before.")
      .output("Y", "T")
      .attribute("channels", 0)
      .attribute("channels_last", 0)
      .infer(infer_reorder_output);
  blocked(declare, "Conv", "Conv of a blocked image by blocked weights, the sum with Sum, and an activation.")
      .input("W", "T")
      .optional_input("B", "T")
      .optional_input("Sum", "T")
      .output("Y", "T")
      .optional_attribute("activation", AttributeKind::String)
      .optional_attribute("activation_params", AttributeKind::Floats)
      .attribute("auto_pad", "NOTSET")
      .attribute("group", 1)
      .optional_attribute("dilations", AttributeKind::Ints)
      .optional_attribute("kernel_shape", AttributeKind::Ints)
      .optional_attribute("pads", AttributeKind::Ints)
      .optional_attribute("strides", AttributeKind::Ints)
      .infer(infer_convolution)
      .flops(convolution_flops);
  blocked_pool(declare, "MaxPool", "MaxPool of a blocked image.").attribute("storage_order", 0);
  blocked_pool(declare, "AveragePool", "AveragePool of a blocked image.").attribute("count_include_pad", 0);
  blocked(declare, "GlobalMaxPool", "GlobalMaxPool of a blocked image.").output("Y", "T").infer(infer_global_pool);
  blocked(declare, "GlobalAveragePool", "GlobalAveragePool of a blocked image.")
      .output("Y", "T")
      .infer(infer_global_pool);
  blocked(declare, "Upsample", "A blocked image enlarged by whole factors.")
      .output("Y", "T")
      .attribute("coordinate_transformation_mode", "asymmetric")
      .attribute("mode", "nearest")
      .optional_attribute("scales", AttributeKind::Ints)
      .infer(infer_upsample);
}

}  // namespace anfora::ops

#include <fmt/format.h>

#include <algorithm>

#include "ops/infer_window.h"
#include "ops/layouts.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

struct Operands {
  size_t rank;
  Dims x;  // unknown dimensions when input 0 has no rank
  std::optional<Dims> w;
};

// Empty when not even the rank is known.
std::optional<Operands> operands_of(const InferenceContext& ctx) {
  auto rank = windowed_rank(ctx, true);
  if (!rank) return std::nullopt;
  auto x = ctx.dims(0), w = ctx.dims(1);
  if (w && w->size() != *rank) ctx.fail(fmt::format("the input has rank {}, the weights have {}", *rank, w->size()));
  return Operands{*rank, x ? *x : Dims(*rank, ctx.unknown()), w};
}

void check_channels(const InferenceContext& ctx, Dim channels, Dim of_weights) {
  if (provably_different(channels, of_weights)) {
    ctx.fail(
        fmt::format("the input has {} channels, the weights are for {}", to_string(channels), to_string(of_weights)));
  }
}

void infer_conv_transpose(InferenceContext& ctx) {
  auto operands = operands_of(ctx);
  if (!operands) return ctx.set_unranked(0, ctx.dtype(0));
  const auto& [rank, x, w] = *operands;
  if (w) check_channels(ctx, x[1], (*w)[0]);
  Dims result{x[0], w ? (*w)[1] * ctx.attribute_int("group") : ctx.unknown()};
  auto window = window_of(ctx, rank, w);
  kernels::TransposedExtents extents = kernels::read_transposed_extents(ctx.attributes(), rank - 2);
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (!extents.output_shape.empty()) {
      result.push_back(ctx.dim(extents.output_shape[i]));
    } else if (window) {
      const kernels::WindowAxis& axis = window->axes[i];
      result.push_back(kernels::transposed_output(axis, window->auto_pad, extents.output_padding[i], x[i + 2], window->reach[i]));
    } else {
      result.push_back(ctx.unknown());
    }
    if (result.back().is_constant() && result.back().constant() < 0) {
      ctx.fail(fmt::format("an output extent of {} is not possible", to_string(result.back())));
    }
  }
  ctx.set_tensor(0, ctx.dtype(0), result);
}

void infer_causal_conv(InferenceContext& ctx) {
  infer_same_type(ctx);
  require_rank(ctx, 0, 3);
  require_rank(ctx, 1, 3);
  if (ctx.num_outputs() < 2) return;
  auto x = ctx.dims(0), w = ctx.dims(1);
  Dim unknown = ctx.unknown();
  Dims state{x ? (*x)[0] : unknown, x ? (*x)[1] : unknown, w ? (*w)[2] - 1 : unknown};
  ctx.set_tensor(1, ctx.dtype(0), state);
}

double bias_flops(const InferenceContext& ctx) {
  const auto& formals = ctx.op().inputs;
  auto bias = std::ranges::find_if(formals, [](const ir::Formal& f) { return f.name == "B" || f.name == "bias"; });
  const bool is_given = bias != formals.end() && ctx.has_input(static_cast<size_t>(bias - formals.begin()));
  return is_given ? element_estimate(ctx.output(0)) : 0;
}

// Each input element meets the kernels of its channel.
double conv_transpose_flops(const InferenceContext& ctx) {
  auto w = ctx.dims(1);
  double channels = w && (*w)[0].is_constant() ? static_cast<double>((*w)[0].constant()) : 1;
  const double products =
      channels > 0 ? 2 * element_estimate(ctx.input(0)) * element_estimate(ctx.input(1)) / channels : 0;
  return products + bias_flops(ctx);
}

Declaration convolution(Declarations& declare, const char* name, int since) {
  return declare.op(name, since)
      .type("T", kFloats)
      .attribute("group", 1)
      .optional_attribute("dilations", AttributeKind::Ints)
      .optional_attribute("kernel_shape", AttributeKind::Ints)
      .optional_attribute("pads", AttributeKind::Ints)
      .optional_attribute("strides", AttributeKind::Ints)
      .fusion(FusionKind::Anchor);
}

}  // namespace

double convolution_flops(const InferenceContext& ctx) {
  auto w = ctx.dims(1);
  double filters = w && (*w)[0].is_constant() ? static_cast<double>((*w)[0].constant()) : 1;
  const double products =
      filters > 0 ? 2 * element_estimate(ctx.output(0)) * element_estimate(ctx.input(1)) / filters : 0;
  return products + bias_flops(ctx);
}

void infer_convolution(InferenceContext& ctx) {
  auto operands = operands_of(ctx);
  if (!operands) return ctx.set_unranked(0, ctx.dtype(0));
  const auto& [rank, x, w] = *operands;
  if (w) check_channels(ctx, x[1], (*w)[1] * ctx.attribute_int("group"));
  Dims result{x[0], w ? (*w)[0] : ctx.unknown()};
  append_window_dims(ctx, result, std::span(x).subspan(2), window_of(ctx, rank, w));
  ctx.set_tensor(0, ctx.dtype(0), result);
}

void declare_convolution(Declarations& declare) {
  convolution(declare, "Conv", 22)
      .doc("Each output channel is the sum over its group's input channels of their correlation with a kernel.")
      .input("X", "T")
      .input("W", "T")
      .optional_input("B", "T")
      .output("Y", "T")
      .attribute("auto_pad", "NOTSET")
      .infer(infer_convolution)
      .flops(convolution_flops)
      .layout(channels_last_convolution);
  convolution(declare, "ConvTranspose", 22)
      .doc("The adjoint of Conv: each input element adds its kernel to the output.")
      .input("X", "T")
      .input("W", "T")
      .optional_input("B", "T")
      .output("Y", "T")
      .attribute("auto_pad", "NOTSET")
      .optional_attribute("output_padding", AttributeKind::Ints)
      .optional_attribute("output_shape", AttributeKind::Ints)
      .infer(infer_conv_transpose)
      .flops(conv_transpose_flops)
      .layout(channels_last_convolution);
  convolution(declare, "DeformConv", 22)
      .doc("Conv whose taps read the input at places shifted by `offset`, interpolated linearly, times `mask`.")
      .input("X", "T")
      .input("W", "T")
      .input("offset", "T")
      .optional_input("B", "T")
      .optional_input("mask", "T")
      .output("Y", "T")
      .attribute("offset_group", 1)
      .infer(infer_convolution)
      .flops(convolution_flops);
  declare.op("CausalConvWithState", 27)
      .doc(
          "Each channel correlated with its own kernel over past_state and input back to back; present_state is the "
          "end of them, for the next call.")
      .input("input", "T")
      .input("weight", "T")
      .optional_input("bias", "T")
      .optional_input("past_state", "T")
      .output("output", "T")
      .optional_output("present_state", "T")
      .type("T", {DType::F32, DType::F16, DType::BF16})
      .attribute("activation", "none")
      .infer(infer_causal_conv)
      .flops(convolution_flops);
}

}  // namespace anfora::ops

#include <fmt/format.h>

#include <cmath>

#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

// The value of a scalar input as an expression; `?` when nothing is known of it.
Dim scalar(const InferenceContext& ctx, size_t i) {
  require_scalar(ctx, i);
  auto elements = ctx.elements(i);
  return elements && elements->size() == 1 ? elements->front() : ctx.unknown();
}

Dim half_spectrum(Dim length) { return floor_div(length, 2) + 1; }

void infer_dft(InferenceContext& ctx) {
  for (const size_t number : {1, 2}) require_scalar(ctx, number);
  auto dims = ctx.dims(0);
  if (!dims) return ctx.set_unranked(0, ctx.dtype(0));
  const int rank = static_cast<int>(dims->size());
  if (rank < 2) ctx.fail(fmt::format("the input has rank {}; a signal and its components are needed", rank));
  const bool inverse = ctx.attribute_int("inverse") != 0, onesided = ctx.attribute_int("onesided") != 0;
  dims->back() = ctx.dim(inverse && onesided ? 1 : 2);
  std::optional<int64_t> axis = -2;
  if (ctx.has_input(2)) axis = scalar(ctx, 2).as_constant();
  if (!axis) {  // any of the signal's dimensions may change
    std::fill(dims->begin(), dims->end() - 1, ctx.unknown());
    return ctx.set_tensor(0, ctx.dtype(0), *dims);
  }
  Dim& extent = (*dims)[static_cast<size_t>(ctx.normalize_axis(*axis, rank))];
  Dim length = ctx.has_input(1) ? scalar(ctx, 1) : inverse && onesided ? (extent - 1) * 2 : extent;
  extent = onesided && !inverse ? half_spectrum(length) : length;
  ctx.set_tensor(0, ctx.dtype(0), *dims);
}

void infer_stft(InferenceContext& ctx) {
  // ONNX asks for [batch, samples, 1 or 2]; exporters leave the last axis of a real signal out, and ONNX Runtime takes it.
  auto rank = ctx.rank(0);
  if (rank && *rank != 2 && *rank != 3) ctx.fail(fmt::format("the signal has rank {} instead of 2 or 3", *rank));
  auto dims = ctx.dims(0), window = ctx.dims(2);
  const Dim unknown = ctx.unknown();
  Dim batch = dims ? (*dims)[0] : unknown, samples = dims ? (*dims)[1] : unknown;
  Dim length = ctx.has_input(3) ? scalar(ctx, 3) : ctx.has_input(2) ? (window ? (*window)[0] : unknown) : samples;
  Dim step = scalar(ctx, 1);
  Dim frames = step.is_constant() && step.constant() > 0 ? floor_div(samples - length, step) + 1 : unknown;
  Dim bins = ctx.attribute_int("onesided") != 0 ? half_spectrum(length) : length;
  ctx.set_tensor(0, ctx.dtype(0), Dims{batch, frames, bins, ctx.dim(2)});
}

void infer_mel_weights(InferenceContext& ctx) {
  for (const size_t edge : {2, 3, 4}) require_scalar(ctx, edge);
  const DType dtype = dtype_attribute(ctx, "output_datatype", DType::F32);
  ctx.set_tensor(0, dtype, Dims{half_spectrum(scalar(ctx, 1)), scalar(ctx, 0)});
}

// About 5 n log n, for transforms of the length that the output shows.
double transform_flops(const InferenceContext& ctx) {
  double elements = element_estimate(ctx.output(0));
  return elements > 1 ? 2.5 * elements * std::log2(elements) : 0;
}

}  // namespace

void declare_signal(Declarations& declare) {
  const std::vector<DType> indices = {DType::I32, DType::I64};
  declare.op("DFT", 20)
      .doc("The discrete Fourier transform along an axis of a real or complex signal, or its inverse.")
      .input("input", "T1")
      .optional_input("dft_length", "T2")
      .optional_input("axis", "i64")
      .output("output", "T1")
      .type("T1", kFloats)
      .type("T2", indices)
      .attribute("inverse", 0)
      .attribute("onesided", 0)
      .infer(infer_dft)
      .flops(transform_flops);
  declare.op("STFT", 17)
      .doc("Fourier transforms of the frames that a window cuts from a signal.")
      .input("signal", "T1")
      .input("frame_step", "T2")
      .optional_input("window", "T1")
      .optional_input("frame_length", "T2")
      .output("output", "T1")
      .type("T1", kFloats)
      .type("T2", indices)
      .attribute("onesided", 1)
      .infer(infer_stft)
      .flops(transform_flops);
  declare.op("MelWeightMatrix", 17)
      .doc("The weights of a bank of triangular filters, equally wide on the mel scale, over the bins of a spectrum.")
      .input("num_mel_bins", "T1")
      .input("dft_length", "T1")
      .input("sample_rate", "T1")
      .input("lower_edge_hertz", "T2")
      .input("upper_edge_hertz", "T2")
      .output("output", "T3")
      .type("T1", indices)
      .type("T2", kFloats)
      .type("T3", kNumbers)
      .attribute("output_datatype", 1)
      .infer(infer_mel_weights)
      .flops(flops_per_element<4>);
}

}  // namespace anfora::ops

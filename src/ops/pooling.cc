#include <fmt/format.h>

#include "ops/infer_window.h"
#include "ops/layouts.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

// Output 0, and of MaxPool the indices.
void set_pooled(InferenceContext& ctx, std::span<const Dim> dims) {
  ctx.set_tensor(0, ctx.dtype(0), dims);
  if (ctx.num_outputs() > 1) ctx.set_tensor(1, DType::I64, dims);
}

}  // namespace

void infer_pool(InferenceContext& ctx) {
  auto rank = windowed_rank(ctx, false);
  if (!rank) ctx.fail("the attribute kernel_shape is missing");
  auto x = ctx.dims(0);
  if (!x) x = Dims(*rank, ctx.unknown());
  Dims result{(*x)[0], (*x)[1]};
  append_window_dims(ctx, result, std::span(*x).subspan(2), window_of(ctx, *rank, std::nullopt));
  set_pooled(ctx, result);
}

void infer_global_pool(InferenceContext& ctx) {
  auto dims = ctx.dims(0);
  if (!dims) return ctx.set_unranked(0, ctx.dtype(0));
  if (dims->size() < 2) ctx.fail(fmt::format("the input has rank {}; batch and channels are needed", dims->size()));
  for (size_t i = 2; i < dims->size(); ++i) (*dims)[i] = ctx.dim(1);
  ctx.set_tensor(0, ctx.dtype(0), *dims);
}

namespace {

void infer_max_unpool(InferenceContext& ctx) {
  if (ctx.has_input(2)) return set_tensor_of_shape(ctx, 0, ctx.dtype(0), 2);
  auto rank = windowed_rank(ctx, false);
  auto x = ctx.dims(0);
  if (!rank || !x) return ctx.set_unranked(0, ctx.dtype(0));
  auto window = window_of(ctx, *rank, std::nullopt);
  if (!window) ctx.fail("the attribute kernel_shape is missing");
  Dims result{(*x)[0], (*x)[1]};
  for (size_t i = 0; i < window->rank(); ++i) {
    result.push_back(kernels::transposed_output(window->axes[i], kernels::AutoPad::NotSet, 0, (*x)[i + 2], window->reach[i]));
  }
  ctx.set_tensor(0, ctx.dtype(0), result);
}

double window_flops(const InferenceContext& ctx) {
  double taps = 1;
  for (int64_t extent : ctx.attributes().get_ints("kernel_shape")) taps *= static_cast<double>(extent);
  return taps * element_estimate(ctx.output(0));
}

Declaration pool(Declarations& declare, const char* name, const char* doc, std::vector<DType> dtypes) {
  return declare.op(name, 22)
      .doc(doc)
      .input("X", "T")
      .output("Y", "T")
      .type("T", std::move(dtypes))
      .required_attribute("kernel_shape", AttributeKind::Ints)
      .optional_attribute("pads", AttributeKind::Ints)
      .optional_attribute("strides", AttributeKind::Ints)
      .infer(infer_pool)
      .flops(window_flops);
}

Declaration sliding_pool(Declarations& declare, const char* name, const char* doc, std::vector<DType> dtypes) {
  return pool(declare, name, doc, std::move(dtypes))
      .attribute("auto_pad", "NOTSET")
      .attribute("ceil_mode", 0)
      .optional_attribute("dilations", AttributeKind::Ints);
}

Declaration global_pool(Declarations& declare, const char* name, const char* doc) {
  return declare.op(name, 22)
      .doc(doc)
      .input("X", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .infer(infer_global_pool)
      .flops(flops_per_input_element<1>)
      .fusion(FusionKind::Reduction);
}

}  // namespace

void declare_pooling(Declarations& declare) {
  sliding_pool(declare, "AveragePool", "The mean of each window, over the input alone or with the padding.", kFloats)
      .attribute("count_include_pad", 0)
      .widens().layout(channels_last_pool).total();
  sliding_pool(declare, "MaxPool", "The largest element of each window, and where it is.",
               kFloats | std::vector{DType::I8, DType::U8})
      .optional_output("Indices", "i64")
      .attribute("storage_order", 0)
      .widens().layout(channels_last_pool).range(range_of_largest).total();
  sliding_pool(declare, "LpPool", "The norm of order p of each window.", kFloats).attribute("p", 2)
      .widens();
  global_pool(declare, "GlobalAveragePool", "The mean of each channel.")
      .widens().layout(channels_last_global_pool).sums().range(range_of_mean);
  global_pool(declare, "GlobalMaxPool", "The largest element of each channel.")
      .widens().layout(channels_last_global_pool).range(range_of_largest);
  global_pool(declare, "GlobalLpPool", "The norm of order p of each channel.").attribute("p", 2)
      .widens();
  pool(declare, "MaxUnpool", "Zeros, but for the elements of X where the indices of a MaxPool say.", kFloats)
      .input("I", "i64")
      .optional_input("output_shape", "i64")
      .infer(infer_max_unpool)
      .flops(flops_per_input_element<1>);
}

}  // namespace anfora::ops

// LRN, LpNormalization and Dropout; the other normalizations are in files of their own (normalization.h).
#include "kernels/reference/normalization.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/arguments.h"
#include "kernels/reference/cast.h"
#include "kernels/reference/channels.h"
#include "kernels/reference/elementwise.h"
#include "kernels/reference/families.h"
#include "kernels/reference/random_numbers.h"
#include "kernels/reference/reduction.h"
#include "kernels/reference/vector_math.h"
#include "kernels/reference/view.h"
#include "support/parallel.h"

namespace anfora::kernels {
namespace {

// ---- LRN ----

struct LocalResponse {
  float alpha, beta, bias;
  int64_t size;
};

// A strip of up to kStrip columns of channel c: x times a power of what its neighbouring channels hold there.
constexpr int64_t kStrip = 256;
template <class T>
void respond(const LocalResponse& p, const T* x, T* y, int64_t c, int64_t channels, int64_t inner, int64_t width) {
  T sums[kStrip] = {};
  const int64_t first = std::max<int64_t>(0, c - (p.size - 1) / 2), last = std::min(channels - 1, c + p.size / 2);
  for (int64_t k = first; k <= last; ++k) {
    const T* row = x + k * inner;
    for (int64_t j = 0; j < width; ++j) sums[j] += row[j] * row[j];
  }
  const T scale = static_cast<T>(p.alpha) / static_cast<T>(p.size), bias = static_cast<T>(p.bias);
  const T exponent = -static_cast<T>(p.beta);
  const T* from = x + c * inner;
  T* to = y + c * inner;
  if (p.bias > 0 && p.alpha >= 0) {  // the base is positive
    for (int64_t j = 0; j < width; ++j) to[j] = from[j] * kernels::exp(exponent * kernels::log(bias + scale * sums[j]));
  } else {
    for (int64_t j = 0; j < width; ++j) to[j] = from[j] * std::pow(bias + scale * sums[j], exponent);
  }
}

void lrn(KernelContext& context) {
  const AttributeSet& attributes = context.attributes();
  const LocalResponse p{attributes.get_float("alpha", 1e-4f), attributes.get_float("beta", 0.75f),
                        attributes.get_float("bias", 1), attributes.require_int("size")};
  if (p.size < 1) refuse("a window of {} channels", p.size);
  const Tensor& in = context.input(0);
  const ChannelView view(in);
  Tensor& out = context.allocate_output(0, in.dtype(), in.shape());
  dispatch<WideFloats>(compute_dtype(in.dtype()), [&]<class T>() {
    const Tensor wide = cast_tensor(context, in, dtype_of<T>);
    Tensor result = out.dtype() == wide.dtype() ? out : context.temporary(wide.dtype(), in.shape());
    const T* x = wide.data<T>().data();
    T* y = result.data<T>().data();
    const int64_t strips = (view.inner + kStrip - 1) / kStrip, area = view.channels * view.inner;
    const int64_t grain = grain_of(kCostlyGrain, std::min(kStrip, view.inner));
    parallel_for(view.batch * strips * view.channels, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t strip = i / view.channels;
        const int64_t column = strip % strips * kStrip, at = strip / strips * area + column;
        respond(p, x + at, y + at, i % view.channels, view.channels, view.inner, std::min(kStrip, view.inner - column));
      }
    });
    if (result.raw() != out.raw()) cast_into(result, out);
  });
}

// ---- LpNormalization ----

struct DivideByNorm {
  template <class T>
  T operator()(T x, T norm) const {
    return norm == T{0} ? T{0} : x / norm;
  }
};

void lp_normalization(KernelContext& context) {
  const Tensor& in = context.input(0);
  const int64_t p = context.attributes().get_int("p", 2);
  if (p != 1 && p != 2) refuse("a norm of order {}; 1 and 2 are possible", p);
  boost::container::small_vector<bool, 8> axes(static_cast<size_t>(in.rank()), false);
  axes[static_cast<size_t>(normalize_axis(context.attributes().get_int("axis", -1), in.rank()))] = true;
  Tensor& out = context.allocate_output(0, in.dtype(), in.shape());
  const DType wide = compute_dtype(in.dtype());
  dispatch<WideFloats>(wide, [&]<class T>() {
    const Tensor norms = reduce_tensor(context, cast_tensor(context, in, wide), axes, p == 1 ? Reduction::L1 : Reduction::L2);
    const DivideByNorm op;
    run_binary(binary_loop<T, T, DivideByNorm>, &op, in, norms, out, kElementwiseGrain);
  });
}

// ---- Dropout ----

void drop(KernelContext& context, const Tensor& in, const bool* kept, double scale, Tensor& out) {
  const DType wide = compute_dtype(in.dtype());
  const Tensor x = cast_tensor(context, in, wide);
  Tensor result = out.dtype() == wide ? out : context.temporary(wide, in.shape());
  dispatch<WideFloats>(wide, [&]<class T>() {
    const T* from = x.data<T>().data();
    T* to = result.data<T>().data();
    const T factor = static_cast<T>(scale);
    parallel_for(x.size(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
      ANFORA_INDEPENDENT_ITERATIONS
      for (int64_t i = begin; i < end; ++i) to[i] = kept[i] ? from[i] * factor : T{0};
    });
  });
  if (result.raw() != out.raw()) cast_into(result, out);
}

void dropout(KernelContext& context) {
  const Tensor& data = context.input(0);
  const double ratio = context.has_input(1) ? number(context.input(1)) : 0.5;
  const bool training = context.has_input(2) && integer(context.input(2)) != 0;
  if (!(ratio >= 0 && ratio < 1)) refuse("a dropout ratio of {}", ratio);
  const bool drops = training && ratio > 0;
  const bool shows_mask = context.num_outputs() > 1;
  Tensor mask;
  if (shows_mask)
    mask = context.allocate_output(1, DType::Bool, data.shape());
  else if (drops)
    mask = context.temporary(DType::Bool, data.shape());
  if (!drops) {
    if (shows_mask) std::ranges::fill(mask.data<bool>(), true);
    return forward_or_copy(context, 0, data);
  }
  const bool seeded = context.attributes().has("seed");
  UniformNumbers uniform = seeded ? UniformNumbers(static_cast<uint32_t>(context.attributes().get_int("seed", 0)))
                                  : UniformNumbers(context.random());
  for (bool& kept : mask.data<bool>()) kept = uniform() >= ratio;
  drop(context, data, mask.data<bool>().data(), 1 / (1 - ratio), context.allocate_output(0, data.dtype(), data.shape()));
}

}  // namespace

void register_normalization(KernelRegistry& registry) {
  registry.add("LayerNormalization", layer_normalization);
  registry.add("RMSNormalization", rms_normalization);
  registry.add("InstanceNormalization", instance_normalization);
  registry.add("GroupNormalization", group_normalization);
  registry.add("LoweredInstanceNormalization", lowered_instance_normalization);
  registry.add("LoweredGroupNormalization", lowered_group_normalization);
  registry.add("BatchNormalization", batch_normalization);
  registry.add("MeanVarianceNormalization", mean_variance_normalization);
  registry.add("LRN", lrn);
  registry.add("LpNormalization", lp_normalization);
  registry.add("Dropout", dropout);
}

}  // namespace anfora::kernels

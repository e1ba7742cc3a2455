// Softmax, LogSoftmax and Hardmax.
//
// Along the last axis a row is contiguous: its maximum, then the exponentials and their sum, then the division, all
// while the row is in the cache. Along another axis a strip of kSoftmaxStrip columns is worked on at once, so that every
// loop still runs over contiguous elements.
#include "kernels/reference/softmax.h"

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/reference/arguments.h"
#include "kernels/reference/axis.h"
#include "kernels/reference/cast.h"
#include "kernels/reference/elementwise.h"
#include "kernels/reference/float_block.h"
#include "kernels/reference/fold.h"
#include "kernels/reference/vector_math.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

constexpr int64_t kSoftmaxStrip = 64;

// out may be in.
template <class T>
void softmax_row(const T* in, T* out, int64_t n, bool logarithm) {
  const T largest = fold_row<T>(in, n, MaxFold{});
  if (logarithm) {
    // The exponentials are only summed: a block of them at a time is enough.
    T block[256];
    double sum = 0;
    for (int64_t at = 0; at < n; at += 256) {
      const int64_t count = std::min<int64_t>(256, n - at);
      for (int64_t i = 0; i < count; ++i) block[i] = exp_of_negative(in[at + i] - largest);
      sum += fold_row<double>(block, count, SumFold{});
    }
    const T log_sum = static_cast<T>(std::log(sum));
    ANFORA_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < n; ++i) out[i] = (in[i] - largest) - log_sum;
    return;
  }
  ANFORA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) out[i] = exp_of_negative(in[i] - largest);
  const T factor = static_cast<T>(1 / fold_row<double>(out, n, SumFold{}));
  for (int64_t i = 0; i < n; ++i) out[i] *= factor;
}

// `width` <= kSoftmaxStrip columns of a [length, stride] plane. out may be in.
template <class T>
void softmax_strip(const T* in, T* out, int64_t length, int64_t stride, int64_t width, bool logarithm) {
  T largest[kSoftmaxStrip];
  std::copy_n(in, width, largest);
  for (int64_t r = 1; r < length; ++r) {
    const T* row = in + r * stride;
    for (int64_t j = 0; j < width; ++j) largest[j] = MaxFold{}(largest[j], row[j]);
  }
  // Of some rows at a time, side by side: a row may be shorter than a vector.
  T block[4 * kSoftmaxStrip];
  const int64_t rows = 4 * kSoftmaxStrip / width;
  double sums[kSoftmaxStrip] = {};
  for (int64_t first = 0; first < length; first += rows) {
    const int64_t count = std::min(rows, length - first);
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t j = 0; j < width; ++j) block[r * width + j] = in[(first + r) * stride + j] - largest[j];
    }
    ANFORA_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < count * width; ++i) block[i] = exp_of_negative(block[i]);
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t j = 0; j < width; ++j) sums[j] += block[r * width + j];
      if (!logarithm) std::copy_n(block + r * width, width, out + (first + r) * stride);
    }
  }
  T terms[kSoftmaxStrip];
  for (int64_t j = 0; j < width; ++j) terms[j] = static_cast<T>(logarithm ? std::log(sums[j]) : 1 / sums[j]);
  for (int64_t r = 0; r < length; ++r) {
    const T* row = in + r * stride;
    T* to = out + r * stride;
    if (logarithm) {
      ANFORA_INDEPENDENT_ITERATIONS
      for (int64_t j = 0; j < width; ++j) to[j] = (row[j] - largest[j]) - terms[j];
    } else {
      for (int64_t j = 0; j < width; ++j) to[j] *= terms[j];
    }
  }
}

template <class T>
void softmax_wide(const Tensor& in, Tensor& out, const AxisView& view, bool logarithm) {
  const T* from = in.data<T>().data();
  T* to = out.data<T>().data();
  const int64_t grain = std::max<int64_t>(1, kCostlyGrain / view.length);
  if (view.inner == 1) {
    parallel_for(view.outer, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        softmax_row(from + r * view.length, to + r * view.length, view.length, logarithm);
      }
    });
    return;
  }
  const int64_t strips = (view.inner + kSoftmaxStrip - 1) / kSoftmaxStrip;
  parallel_for(view.outer * strips, 1 + grain / kSoftmaxStrip, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      const int64_t column = s % strips * kSoftmaxStrip;
      const int64_t at = s / strips * view.length * view.inner + column;
      softmax_strip(from + at, to + at, view.length, view.inner, std::min(kSoftmaxStrip, view.inner - column),
                    logarithm);
    }
  });
}

void softmax_along(KernelContext& context, const Tensor& in, Tensor& out, int axis, bool logarithm) {
  if (in.size() == 0) return;
  const AxisView view(in.shape(), axis);
  if (in.dtype() == DType::F32) return softmax_wide<float>(in, out, view, logarithm);
  if (in.dtype() == DType::F64) return softmax_wide<double>(in, out, view, logarithm);
  if (!is_narrow_float(in.dtype())) throw_unsupported_dtype(in.dtype());
  if (view.inner != 1) {
    Tensor wide = cast_tensor(context, in, DType::F32);
    softmax_wide<float>(wide, wide, view, logarithm);
    return cast_into(wide, out);
  }
  const size_t bytes = element_bytes(in.dtype());
  const std::byte* from = static_cast<const std::byte*>(in.raw());
  std::byte* to = static_cast<std::byte*>(out.raw());
  const int64_t grain = std::max<int64_t>(1, kCostlyGrain / view.length);
  parallel_for(view.outer, grain, [&](int64_t begin, int64_t end) {
    Scratch<float> row(static_cast<size_t>(view.length));
    for (int64_t r = begin; r < end; ++r) {
      const size_t at = static_cast<size_t>(r * view.length) * bytes;
      load_floats(in.dtype(), from + at, row.data(), view.length);
      softmax_row(row.data(), row.data(), view.length, logarithm);
      store_floats(in.dtype(), row.data(), to + at, view.length);
    }
  });
}

void softmax_kernel(KernelContext& context, bool logarithm) {
  const Tensor& in = context.input(0);
  const int axis = normalize_axis(context.attributes().get_int("axis", -1), in.rank());
  softmax_along(context, in, context.allocate_output(0, in.dtype(), in.shape()), axis, logarithm);
}

template <class T>
int64_t index_of_largest(const T* from, int64_t length, int64_t stride) {
  if (stride == 1) {
    const T most = fold_row<T>(from, length, MaxFold{});
    if (most == most) return std::find(from, from + length, most) - from;
  }
  int64_t largest = 0;
  for (int64_t k = 1; k < length; ++k) {
    if (from[k * stride] > from[largest * stride]) largest = k;
  }
  return largest;
}

template <class T>
void hardmax_wide(const Tensor& in, Tensor& out, const AxisView& view) {
  const T* from = in.data<T>().data();
  T* to = out.data<T>().data();
  parallel_for(view.outer * view.inner, std::max<int64_t>(1, kElementwiseGrain / view.length),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t at = i / view.inner * view.length * view.inner + i % view.inner;
                   const int64_t largest = index_of_largest(from + at, view.length, view.inner);
                   for (int64_t k = 0; k < view.length; ++k) to[at + k * view.inner] = T{0};
                   to[at + largest * view.inner] = T{1};
                 }
               });
}

}  // namespace

void softmax(KernelContext& context) { softmax_kernel(context, false); }
void log_softmax(KernelContext& context) { softmax_kernel(context, true); }
void log_softmax_into(KernelContext& context, const Tensor& in, int axis, Tensor& out) { softmax_along(context, in, out, axis, true); }

void hardmax(KernelContext& context) {
  const Tensor& in = context.input(0);
  const AxisView view(in.shape(), normalize_axis(context.attributes().get_int("axis", -1), in.rank()));
  Tensor& out = context.allocate_output(0, in.dtype(), in.shape());
  if (in.size() == 0) return;
  if (in.dtype() == DType::F64) return hardmax_wide<double>(in, out, view);
  Tensor wide = in.dtype() == DType::F32 ? out : context.temporary(DType::F32, in.shape());
  hardmax_wide<float>(cast_tensor(context, in, DType::F32), wide, view);
  if (in.dtype() != DType::F32) cast_into(wide, out);
}

}  // namespace anfora::kernels

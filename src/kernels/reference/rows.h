// Normalizing kernels see a tensor as rows of contiguous elements: rows are divided among threads, and what a row needs
// several times it reads from the cache. A single long row is divided itself.
#pragma once

#include <algorithm>

#include "kernels/reference/broadcast.h"
#include "kernels/reference/cast.h"
#include "kernels/reference/fold.h"
#include "support/element_types.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {

// Calls body(r, x, y) for every row of `length` elements: x of `in` and y of `out`, as T; y may be x. Rows of other
// dtypes pass through a buffer of one row.
template <class T, class Body>
void for_each_row(const Tensor& in, Tensor& out, int64_t length, Body&& body) {
  if (in.size() == 0) return;
  constexpr DType wide = dtype_of<T>;
  const auto* from = static_cast<const std::byte*>(in.raw());
  auto* to = static_cast<std::byte*>(out.raw());
  const size_t row_in = static_cast<size_t>(length) * element_bytes(in.dtype());
  const size_t row_out = static_cast<size_t>(length) * element_bytes(out.dtype());
  const bool direct_in = in.dtype() == wide, direct_out = out.dtype() == wide;
  parallel_for(in.size() / length, grain_of(kElementwiseGrain, length), [&](int64_t begin, int64_t end) {
    Scratch<T> buffer(direct_in && direct_out ? 0 : static_cast<size_t>(length));
    for (int64_t r = begin; r < end; ++r) {
      const std::byte* source = from + static_cast<size_t>(r) * row_in;
      std::byte* target = to + static_cast<size_t>(r) * row_out;
      if (!direct_in) cast_elements(in.dtype(), source, wide, buffer.data(), length);
      const T* x = direct_in ? reinterpret_cast<const T*>(source) : buffer.data();
      T* y = direct_out ? reinterpret_cast<T*>(target) : buffer.data();
      body(r, x, y);
      if (!direct_out) cast_elements(wide, y, out.dtype(), target, length);
    }
  });
}

// fold_row in double, in parts of a fixed size on several threads where the row is long; the result does not depend
// on their number.
template <class T, class Fold>
double fold_long_row(const T* x, int64_t n, const Fold& fold) {
  constexpr int64_t kPart = 65536;
  if (n <= kPart) return fold_row<double>(x, n, fold);
  const int64_t parts = (n + kPart - 1) / kPart;
  Scratch<double> results(static_cast<size_t>(parts));
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      results[p] = fold_row<double>(x + p * kPart, std::min(kPart, n - p * kPart), fold);
    }
  });
  double result = Fold::template initial<double>;
  for (double part : results) result = fold.combine(result, part);
  return result;
}

struct Moments {
  double mean = 0, variance = 0;
};

// In two passes: the difference of the mean square and the squared mean would cancel.
template <class T>
Moments row_moments(const T* x, int64_t n) {
  Moments moments;
  moments.mean = fold_long_row(x, n, SumFold{}) / static_cast<double>(n);
  moments.variance = fold_long_row(x, n, DeviationFold<double>{{}, moments.mean}) / static_cast<double>(n);
  return moments;
}

}  // namespace anfora::kernels

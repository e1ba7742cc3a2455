// Folding a row of numbers into one, in SIMD lanes: sums, maxima and the like over contiguous memory.
//
// A fold is a function object with
//   static constexpr Acc initial<Acc>        the neutral element
//   V operator()(V partial, V x)             takes an element in
//   V combine(V a, V b)                      merges two partial results
// whose operations work on numbers and on SIMD vectors of them alike. The compiler may not reorder floating-point
// sums on its own; here the order is fixed by this file: lane i of four vectors takes every (4 * lanes)-th element.
// Sums of float accumulate in double, which costs little next to loading the elements and leaves no error to speak of.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/reference/vectorize.h"

namespace anfora::kernels {

struct SumFold {
  template <class Acc>
  static constexpr Acc initial = Acc{0};
  template <class V>
  V operator()(V partial, V x) const { return partial + x; }
  template <class V>
  V combine(V a, V b) const { return a + b; }
};

struct SumSquareFold : SumFold {
  template <class V>
  V operator()(V partial, V x) const { return partial + x * x; }
};

struct SumAbsFold : SumFold {
  template <class V>
  V operator()(V partial, V x) const {
    const V negated = V{} - x;
    return partial + (x < V{} ? negated : x);
  }
};

// The sum of squared distances from `center`.
template <class Acc>
struct DeviationFold : SumFold {
  Acc center;
  template <class V>
  V operator()(V partial, V x) const { return partial + (x - center) * (x - center); }
};

struct ProductFold {
  template <class Acc>
  static constexpr Acc initial = Acc{1};
  template <class V>
  V operator()(V partial, V x) const { return partial * x; }
  template <class V>
  V combine(V a, V b) const { return a * b; }
};

// NaN where any element is NaN, as in numpy.
struct MaxFold {
  template <class Acc>
  static constexpr Acc initial = std::numeric_limits<Acc>::has_infinity ? -std::numeric_limits<Acc>::infinity()
                                                                        : std::numeric_limits<Acc>::lowest();
  template <class V>
  V operator()(V partial, V x) const { return (x > partial) | (x != x) ? x : partial; }
  template <class V>
  V combine(V a, V b) const { return (*this)(a, b); }
};
struct MinFold {
  template <class Acc>
  static constexpr Acc initial = std::numeric_limits<Acc>::has_infinity ? std::numeric_limits<Acc>::infinity()
                                                                        : std::numeric_limits<Acc>::max();
  template <class V>
  V operator()(V partial, V x) const { return (x < partial) | (x != x) ? x : partial; }
  template <class V>
  V combine(V a, V b) const { return (*this)(a, b); }
};

template <class Acc, class T, class Fold>
Acc fold_row(const T* x, int64_t n, const Fold& fold) {
  constexpr int kLanes = 32 / sizeof(Acc);
  using Wide = Vector<Acc, kLanes>;
  auto load = [x](int64_t at) {
    Vector<T, kLanes> elements;
    std::memcpy(&elements, x + at, sizeof(elements));
    return __builtin_convertvector(elements, Wide);
  };
  Acc result = Fold::template initial<Acc>;
  int64_t i = 0;
  if (n >= 4 * kLanes) {
    Wide a = Wide{} + result, b = a, c = a, d = a;
    for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
      a = fold(a, load(i));
      b = fold(b, load(i + kLanes));
      c = fold(c, load(i + 2 * kLanes));
      d = fold(d, load(i + 3 * kLanes));
    }
    const Wide lanes = fold.combine(fold.combine(a, b), fold.combine(c, d));
    for (int lane = 0; lane < kLanes; ++lane) result = fold.combine(result, lanes[lane]);
  }
  for (; i < n; ++i) result = fold(result, static_cast<Acc>(x[i]));
  return result;
}

}  // namespace anfora::kernels

// Folding a row of numbers into one, in SIMD lanes: sums, maxima and the like over contiguous memory.
//
// A fold is a function object with
//   static constexpr Acc initial<Acc>        the neutral element
//   static constexpr bool in_groups          whether groups of float elements may be folded in float
//   V operator()(V partial, V x)             takes an element in
//   V combine(V a, V b)                      merges two partial results
// whose operations work on numbers and on SIMD vectors of them alike. The compiler may not reorder floating-point
// sums on its own; here the order is fixed by this file: lane i of four vectors takes every (4 * lanes)-th element.
// Sums of float accumulate in double. As the conversions alone would take longer than loading the elements, plain sums
// add up groups of a few elements in float first; squares do not, since they may leave the range of float.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/reference/vectorize.h"

namespace anfora::kernels {

struct SumFold {
  template <class Acc>
  static constexpr Acc initial = Acc{0};
  static constexpr bool in_groups = true;
  template <class V>
  V operator()(V partial, V x) const {
    return partial + x;
  }
  template <class V>
  V combine(V a, V b) const {
    return a + b;
  }
};

struct SumSquareFold : SumFold {
  static constexpr bool in_groups = false;
  template <class V>
  V operator()(V partial, V x) const {
    return partial + x * x;
  }
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
  static constexpr bool in_groups = false;
  Acc center;
  template <class V>
  V operator()(V partial, V x) const {
    return partial + (x - center) * (x - center);
  }
};

struct ProductFold {
  template <class Acc>
  static constexpr Acc initial = Acc{1};
  static constexpr bool in_groups = false;
  template <class V>
  V operator()(V partial, V x) const {
    return partial * x;
  }
  template <class V>
  V combine(V a, V b) const {
    return a * b;
  }
};

// NaN where any element is NaN, as in numpy.
struct MaxFold {
  static constexpr bool in_groups = true;
  template <class Acc>
  static constexpr Acc initial = std::numeric_limits<Acc>::has_infinity ? -std::numeric_limits<Acc>::infinity()
                                                                        : std::numeric_limits<Acc>::lowest();
  template <class V>
  V operator()(V partial, V x) const {
    return ((x > partial) | (x != x)) ? x : partial;
  }
  template <class V>
  V combine(V a, V b) const {
    return (*this)(a, b);
  }
};
struct MinFold {
  static constexpr bool in_groups = true;
  template <class Acc>
  static constexpr Acc initial =
      std::numeric_limits<Acc>::has_infinity ? std::numeric_limits<Acc>::infinity() : std::numeric_limits<Acc>::max();
  template <class V>
  V operator()(V partial, V x) const {
    return ((x < partial) | (x != x)) ? x : partial;
  }
  template <class V>
  V combine(V a, V b) const {
    return (*this)(a, b);
  }
};

// The type that a group of elements of T is folded in on the way to Acc.
template <class Acc, class T, class Fold>
using GroupType =
    std::conditional_t<Fold::in_groups && std::is_same_v<Acc, double> && std::is_same_v<T, float>, float, Acc>;

// As many elements as are whole groups, into `lanes` by lane; returns their number.
template <class Fold>
int64_t fold_groups(const float* x, int64_t n, const Fold& fold, Vector<double, 4>& lanes) {
  constexpr int64_t kGroup = 128;  // 4 elements for each lane of four vectors
  using Floats = Vector<float, 8>;
  auto load = [x](int64_t at) {
    Floats elements;
    std::memcpy(&elements, x + at, sizeof(elements));
    return elements;
  };
  Vector<double, 4> low = lanes, high = lanes;
  int64_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    Floats a = Floats{} + Fold::template initial<float>, b = a, c = a, d = a;
    for (int64_t k = i; k < i + kGroup; k += 32) {
      a = fold(a, load(k));
      b = fold(b, load(k + 8));
      c = fold(c, load(k + 16));
      d = fold(d, load(k + 24));
    }
    a = fold.combine(fold.combine(a, b), fold.combine(c, d));
    Vector<float, 4> halves[2];
    std::memcpy(halves, &a, sizeof(a));
    low = fold.combine(low, __builtin_convertvector(halves[0], Vector<double, 4>));
    high = fold.combine(high, __builtin_convertvector(halves[1], Vector<double, 4>));
  }
  lanes = fold.combine(low, high);
  return i;
}

// One result of all lanes: the upper half is folded onto the lower until one is left.
template <class Acc, int Lanes, class Fold>
Acc fold_lanes(const Vector<Acc, Lanes>& lanes, const Fold& fold) {
  if constexpr (Lanes == 1) {
    return lanes[0];
  } else {
    Vector<Acc, Lanes / 2> halves[2];
    std::memcpy(halves, &lanes, sizeof(lanes));
    return fold_lanes<Acc, Lanes / 2>(fold.combine(halves[0], halves[1]), fold);
  }
}

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
    if constexpr (!std::is_same_v<GroupType<Acc, T, Fold>, Acc>) i = fold_groups(x, n, fold, a);
    for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
      a = fold(a, load(i));
      b = fold(b, load(i + kLanes));
      c = fold(c, load(i + 2 * kLanes));
      d = fold(d, load(i + 3 * kLanes));
    }
    result = fold_lanes<Acc, kLanes>(fold.combine(fold.combine(a, b), fold.combine(c, d)), fold);
  }
  for (; i < n; ++i) result = fold(result, static_cast<Acc>(x[i]));
  return result;
}

}  // namespace anfora::kernels

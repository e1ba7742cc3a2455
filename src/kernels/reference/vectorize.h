// What a plain loop needs to become SIMD code.
#pragma once

// Before a loop whose iterations do not depend on each other: an output that is exactly an input's memory is allowed,
// one shifted against it is not.
#ifdef __clang__
#define ANFORA_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#else
#define ANFORA_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

namespace anfora::kernels {

// N elements of T in SIMD registers, for what the compiler may not vectorize on its own: sums, whose order it must keep.
template <class T, int N>
struct VectorOf {
  typedef T type __attribute__((vector_size(sizeof(T) * N)));
};
template <class T, int N>
using Vector = typename VectorOf<T, N>::type;

}  // namespace anfora::kernels

// Elementwise kernels: one loop per (operation, compute type), everything else shared and out of line.
//
// An operation is a function object with a templated call: `template <class T> T operator()(T x) const`. It is
// instantiated for the compute types only (float and double, and the integer types where the operator has them); the
// narrow floats run the float loop a block at a time (float_block.h). The loops vectorize, and are correct when the
// output's memory is exactly that of an input: every element is read before its place is written.
//
//   registry.add("Relu", [](KernelContext& c) { map_elements<Join<WideFloats, SignedIntegers>>(c, Relu{}); });
//   registry.add("Mul", [](KernelContext& c) { map_pairs<Arithmetic>(c, Multiply{}); });
#pragma once

#include "kernels/kernel.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/vectorize.h"
#include "support/element_types.h"

namespace anfora::kernels {

// Grain of operations that cost some nanoseconds an element: divisions, exponentials, calls of libm.
inline constexpr int64_t kCostlyGrain = 2048;

// n elements of a unary operation; `op` is the function object.
using UnaryRun = void (*)(const void* op, const void* in, void* out, int64_t n);
// n elements of a binary operation; a stride of 0 repeats the operand's one element, 1 walks along.
using BinaryRun = void (*)(const void* op, const void* a, int64_t stride_a, const void* b, int64_t stride_b, void* out,
                           int64_t n);

// Runs over whole tensors, in parallel. Wherever one is a narrow float, `run` sees float.
void run_unary(UnaryRun run, const void* op, const Tensor& in, Tensor& out, int64_t grain);
void run_binary(BinaryRun run, const void* op, const Tensor& a, const Tensor& b, Tensor& out, int64_t grain);

// The dtype that arithmetic on `dtype` happens in: F32 for the narrow floats.
inline DType compute_dtype(DType dtype) { return is_narrow_float(dtype) ? DType::F32 : dtype; }

// The unsigned integer type of the same size for a signed one, u8 for bool; for operations on which they agree.
DType as_unsigned(DType dtype);

// Throws TypeMismatch when the dtypes differ.
void check_same_dtype(const Tensor& a, const Tensor& b);

template <class T, class R, class Op>
void unary_loop(const void* state, const void* in, void* out, int64_t n) {
  const Op op = *static_cast<const Op*>(state);
  const T* x = static_cast<const T*>(in);
  R* y = static_cast<R*>(out);
  ANFORA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<R>(op(x[i]));
}

template <class T, class R, class Op>
void binary_loop(const void* state, const void* a, int64_t stride_a, const void* b, int64_t stride_b, void* out,
                 int64_t n) {
  const Op op = *static_cast<const Op*>(state);
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  R* z = static_cast<R*>(out);
  if (stride_a != 0 && stride_b != 0) {
    ANFORA_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < n; ++i) z[i] = static_cast<R>(op(x[i], y[i]));
  } else if (stride_a != 0) {
    const T right = *y;
    ANFORA_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < n; ++i) z[i] = static_cast<R>(op(x[i], right));
  } else {
    const T left = *x;
    if (stride_b == 0) {
      const R value = static_cast<R>(op(left, *y));
      for (int64_t i = 0; i < n; ++i) z[i] = value;
      return;
    }
    ANFORA_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < n; ++i) z[i] = static_cast<R>(op(left, y[i]));
  }
}

// output 0 = op(input 0), same dtype and shape. Types are the compute types of the operator.
template <class Types, class Op>
void map_elements(KernelContext& context, Op op, int64_t grain = kElementwiseGrain) {
  const Tensor& in = context.input(0);
  UnaryRun run =
      dispatch<Types>(compute_dtype(in.dtype()), [&]<class T>() -> UnaryRun { return unary_loop<T, T, Op>; });
  run_unary(run, &op, in, context.allocate_output(0, in.dtype(), in.shape()), grain);
}

// output 0 = op(input 0, input 1), broadcast, of the inputs' dtype.
template <class Types, class Op>
void map_pairs(KernelContext& context, Op op, int64_t grain = kElementwiseGrain) {
  const Tensor &a = context.input(0), &b = context.input(1);
  check_same_dtype(a, b);
  BinaryRun run =
      dispatch<Types>(compute_dtype(a.dtype()), [&]<class T>() -> BinaryRun { return binary_loop<T, T, Op>; });
  run_binary(run, &op, a, b, context.allocate_output(0, a.dtype(), broadcast_shape(a.shape(), b.shape())), grain);
}

// The same with a boolean output.
template <class Types, class Op>
void compare_pairs(KernelContext& context, Op op) {
  const Tensor &a = context.input(0), &b = context.input(1);
  check_same_dtype(a, b);
  BinaryRun run =
      dispatch<Types>(compute_dtype(a.dtype()), [&]<class T>() -> BinaryRun { return binary_loop<T, bool, Op>; });
  run_binary(run, &op, a, b, context.allocate_output(0, DType::Bool, broadcast_shape(a.shape(), b.shape())),
             kElementwiseGrain);
}

}  // namespace anfora::kernels

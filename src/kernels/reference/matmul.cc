// MatMul and Gemm.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/reference/accumulate.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/elementwise.h"
#include "kernels/reference/families.h"
#include "kernels/reference/gemm.h"
#include "support/parallel.h"

namespace anfora::kernels {
namespace {

// numpy.matmul: a vector on the left is a row, on the right a column, and the dimension so added is dropped again.
void matmul(KernelContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  check_same_dtype(a, b);
  if (a.rank() == 0 || b.rank() == 0) throw Error(ErrorCode::TypeMismatch, "MatMul of a scalar");
  Shape a_shape = a.shape(), b_shape = b.shape();
  if (a.rank() == 1) a_shape.insert(a_shape.begin(), 1);
  if (b.rank() == 1) b_shape.push_back(1);
  std::span<const int64_t> a_batch = std::span(a_shape).first(a_shape.size() - 2);
  std::span<const int64_t> b_batch = std::span(b_shape).first(b_shape.size() - 2);
  int64_t m = a_shape[a_shape.size() - 2], k = a_shape.back();
  int64_t n = b_shape.back();
  if (b_shape[b_shape.size() - 2] != k) {
    throw Error(ErrorCode::TypeMismatch,
                fmt::format("the inner dimensions of {} and {} differ", to_string(a.shape()), to_string(b.shape())));
  }
  Shape batch = broadcast_shape(a_batch, b_batch);
  Shape out_shape = batch;
  if (a.rank() > 1) out_shape.push_back(m);
  if (b.rank() > 1) out_shape.push_back(n);

  Tensor wide_a = widen(context, a), wide_b = widen(context, b);
  WideOutput out(context, 0, a.dtype(), out_shape);
  if (out.tensor().size() == 0) return;
  // One matrix on the right serves every row of the batch: a single product.
  if (element_count(b_batch) == 1) {
    m *= element_count(batch);
    batch.clear();
    a_batch = b_batch = {};
  }
  auto matrix_strides = [&](std::span<const int64_t> dims, int64_t matrix_size) {
    Shape strides = broadcast_strides(dims, batch);
    for (int64_t& stride : strides) stride *= matrix_size;
    return strides;
  };
  Shape out_strides = matrix_strides(batch, m * n), a_strides = matrix_strides(a_batch, m * k),
        b_strides = matrix_strides(b_batch, k * n);
  LoopNest nest(batch, {out_strides, a_strides, b_strides});
  int64_t grain = grain_of(kMultiplyGrain, m * n * k);
  dispatch<Accumulators>(wide_a.dtype(), [&]<class T>() {
    const T* a_data = wide_a.data<T>().data();
    const T* b_data = wide_b.data<T>().data();
    T* out_data = out.data<T>();
    nest.for_each_run(grain, [&](const int64_t* at, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        multiply(matrix(a_data + at[1] + i * nest.run_stride(1), m, k),
                 matrix(b_data + at[2] + i * nest.run_stride(2), k, n),
                 matrix(out_data + at[0] + i * nest.run_stride(0), m, n));
      }
    });
  });
  out.finish();
}

// alpha * product + beta * addend, element by element. Of integers the factors are applied in double and the result is
// cut to the integer, as numpy's cast would.
template <class T>
void scale_and_add(KernelContext& context, Tensor& out, const Tensor* addend, DType dtype, float alpha, float beta) {
  Tensor wide_addend = addend ? widen(context, *addend) : Tensor();
  T* to = out.data<T>().data();
  const T* from = addend ? wide_addend.data<T>().data() : nullptr;
  Shape strides = addend ? broadcast_strides(addend->shape(), out.shape()) : Shape(out.rank(), 0);
  Shape out_strides = dense_strides(out.shape());
  LoopNest nest(out.shape(), {out_strides, strides});
  auto combine = [&](T product, T extra) -> T {
    if constexpr (std::is_floating_point_v<T>) {
      T scaled = alpha == 1 ? product : static_cast<T>(alpha) * product;
      return from ? scaled + (beta == 1 ? extra : static_cast<T>(beta) * extra) : scaled;
    } else {
      if (alpha == 1 && beta == 1) return product + extra;
      using Signed = std::make_signed_t<T>;
      auto value = [&](T bits) {
        return is_signed_integer(dtype) ? static_cast<double>(static_cast<Signed>(bits)) : static_cast<double>(bits);
      };
      double sum = static_cast<double>(alpha) * value(product) + static_cast<double>(beta) * value(extra);
      return static_cast<T>(static_cast<int64_t>(sum));
    }
  };
  nest.for_each_run(kElementwiseGrain, [&](const int64_t* at, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      T& target = to[at[0] + i * nest.run_stride(0)];
      target = combine(target, from ? from[at[1] + i * nest.run_stride(1)] : T{0});
    }
  });
}

void gemm(KernelContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  const Tensor* addend = context.optional_input(2);
  const AttributeSet& attributes = context.attributes();
  float alpha = attributes.get_float("alpha", 1), beta = attributes.get_float("beta", 1);
  check_same_dtype(a, b);
  if (addend) check_same_dtype(a, *addend);
  if (a.rank() != 2 || b.rank() != 2) {
    throw Error(ErrorCode::TypeMismatch,
                fmt::format("Gemm of tensors of shape {} and {}", to_string(a.shape()), to_string(b.shape())));
  }
  bool transpose_a = attributes.get_int("transA", 0) != 0, transpose_b = attributes.get_int("transB", 0) != 0;
  int64_t m = a.dim(transpose_a ? 1 : 0), k = a.dim(transpose_a ? 0 : 1);
  int64_t n = b.dim(transpose_b ? 0 : 1);
  if (b.dim(transpose_b ? 1 : 0) != k) {
    throw Error(ErrorCode::TypeMismatch,
                fmt::format("the inner dimensions of {} and {} differ", to_string(a.shape()), to_string(b.shape())));
  }
  Shape out_shape{m, n};
  if (addend && broadcast_shape(addend->shape(), out_shape) != out_shape) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("a third input of shape {} does not broadcast to {}",
                                                     to_string(addend->shape()), to_string(out_shape)));
  }
  Tensor wide_a = widen(context, a), wide_b = widen(context, b);
  WideOutput out(context, 0, a.dtype(), out_shape);
  dispatch<Accumulators>(wide_a.dtype(), [&]<class T>() {
    MatrixView<const T> left = matrix(wide_a.data<T>().data(), a.dim(0), a.dim(1));
    MatrixView<const T> right = matrix(wide_b.data<T>().data(), b.dim(0), b.dim(1));
    multiply(transpose_a ? left.transposed() : left, transpose_b ? right.transposed() : right,
             matrix(out.data<T>(), m, n));
    if (addend || alpha != 1) scale_and_add<T>(context, out.tensor(), addend, a.dtype(), alpha, beta);
  });
  out.finish();
}

}  // namespace

void register_matmul(KernelRegistry& registry) {
  registry.add("MatMul", matmul);
  registry.add("Gemm", gemm);
}

}  // namespace anfora::kernels

// What declarations of several families share: shapes that broadcast, outputs typed like an input, estimates of cost.
#pragma once

#include "ops/declare.h"
#include "ops/inference.h"

namespace anfora::ops {

// Output 0 has the type of input 0, and its elements.
void infer_same(InferenceContext& ctx);
// Output 0 has the type of input 0, other elements.
void infer_same_type(InferenceContext& ctx);
// The output has the type of input 0, to which all others broadcast.
void infer_broadcast_to_first(InferenceContext& ctx);

// The dimension that two dimensions broadcast to; `?` when that depends on their values. Throws when they cannot.
Dim broadcast_dim(const InferenceContext& ctx, Dim a, Dim b);
Dims broadcast_dims(const InferenceContext& ctx, std::span<const Dim> a, std::span<const Dim> b);

// Output 0: the shape that the inputs from `first` to before `last` broadcast to, with the given dtype.
void set_broadcast(InferenceContext& ctx, DType dtype, size_t first, size_t last);
// For binary and variadic operators: all inputs broadcast, the dtype of input 0.
void infer_broadcast(InferenceContext& ctx);

// Calls f(a, b) on the tracked elements of inputs 0 and 1, broadcast, and sets the elements of output 0.
using ElementFunction = Dim (*)(const InferenceContext& ctx, Dim a, Dim b);
void combine_elements(InferenceContext& ctx, ElementFunction f);

// The product of dimensions; 1 for none.
Dim product(const InferenceContext& ctx, std::span<const Dim> dims);
// The dimension that `a` and `b` are both said to be: the more precise of them. Throws when they are different.
Dim merge_dim(const InferenceContext& ctx, Dim a, Dim b);
Dims merge_dims(const InferenceContext& ctx, std::span<const Dim> a, std::span<const Dim> b);
// The least type above both, dimensions that are not equal being unknown.
const Type* join_types(InferenceContext& ctx, const Type* a, const Type* b);

// The shape of a matrix product as numpy's matmul: vectors are rows or columns, leading dimensions broadcast. Throws
// when the inner dimensions cannot be equal.
Dims matmul_dims(const InferenceContext& ctx, std::span<const Dim> a, std::span<const Dim> b);

// How many elements input i, a vector or a scalar, has; empty when not known.
std::optional<int> vector_length(const InferenceContext& ctx, size_t i);
// An output whose shape is the elements of an input; at least its rank, when only their number is known.
void set_tensor_of_shape(InferenceContext& ctx, size_t output, DType dtype, size_t shape_input);
// Throws unless the rank of input i, when known, is `rank`.
void require_rank(const InferenceContext& ctx, size_t i, int rank);
// Throws unless input i, where it is given and its shape is known, has one element.
void require_scalar(const InferenceContext& ctx, size_t i);
// The dtype that an attribute names by ONNX's number; `otherwise` when it is absent.
DType dtype_attribute(const InferenceContext& ctx, std::string_view attribute, DType otherwise);

// The number of elements of a tensor type, symbolic dimensions counted as 1; 0 for what is no ranked tensor.
double element_estimate(const Type* type);

// For Declaration::flops: that many operations for each element of output 0, or of input 0.
template <int Count>
double flops_per_element(const InferenceContext& ctx) {
  return Count * element_estimate(ctx.output(0));
}
template <int Count>
double flops_per_input_element(const InferenceContext& ctx) {
  return Count * element_estimate(ctx.input(0));
}

// An elementwise operator of one input; an operation an element where the caller does not say otherwise.
Declaration unary(Declarations& declare, const char* name, int since, const char* doc,
                  std::vector<DType> dtypes = kFloats);

}  // namespace anfora::ops

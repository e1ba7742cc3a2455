// The forms in which the library computes the product of a matrix with constant weights, and which of them is fastest.
//
//     matmul            [rows, K] × [K, N]
//     inner product     [rows, K],                          weights [N, K]
//     convolution       [1, K, 1, rows] with channels last, weights [N, K, 1, 1]
//
// The activations are the same memory in each; only the layout of the packed weights differs. Where matmul has a kernel
// for blocks of its own (AVX-512) it is as fast as any. Else it calls a GEMM that packs the weights again in each run and leaves
// threads without work, and one of the others is faster. The choice depends on the shape and on the names of the implementations
// alone, so that a model computes the same bits whenever it is compiled on a machine.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "kernels/onednn/primitive.h"

namespace anfora::kernels::onednn {

enum class Form : uint8_t { MatMul, InnerProduct, Convolution };

// As implementations of products are called: "onednn:inner_product".
std::string_view name_of(Form form);
std::optional<Form> form_named(std::string_view implementation);

// A dense matrix of activations as the form sees it.
memory::desc activations(Form form, const memory::desc& matrix);
// Weights in the layout of a form as the K × N matrix that they are, so that packed ones can be told apart and converted.
memory::desc as_matrix(Form form, const memory::desc& weights);

// The primitive; empty where the library has none. `b` is K × N, or leaves the layout open. Without bias: an empty one.
dnnl::primitive_desc describe(Form form, const memory::desc& a, const memory::desc& b, const memory::desc& bias,
                              const memory::desc& y, const dnnl::primitive_attr& attr);

// The forms to try for that many rows, best first.
std::span<const Form> forms_by_preference(int64_t rows);
// Whether this implementation of the form is worth taking for sums of `depth` products.
bool is_fast(Form form, const dnnl::primitive_desc& pd, int64_t rows, int64_t depth);

}  // namespace anfora::kernels::onednn

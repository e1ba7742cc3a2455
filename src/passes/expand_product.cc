// Products with what is fused before and after them: transposes, activations, weights of a few bits. And quantization, which
// is ONNX's but for a scale of one element being that of the tensor.
#include <algorithm>
#include <numeric>

#include "passes/expand.h"

namespace anfora::passes {
namespace {

using namespace ir;
using rewrite::Promise;
using rewrite::Rewriter;
using rewrite::Rule;

// transBatch moves the first dimension behind the batch, trans swaps the last two of what comes out.
Node* transposed(Expansion& e, Node* x, bool batch, bool last) {
  if (!batch && !last) return x;
  const int rank = rank_of(x);
  if (rank < 0) return nullptr;
  if (rank < 2) return x;
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), int64_t{0});
  if (batch) std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
  if (last) std::swap(perm[perm.size() - 2], perm.back());
  return e.apply("Transpose", {x}, {{"perm", perm}});
}

Node* fused_matmul(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  if (!e.is_typed()) return nullptr;
  Node* a = transposed(e, e.input(0), e.integer("transBatchA") != 0, e.integer("transA") != 0);
  Node* b = transposed(e, e.input(1), e.integer("transBatchB") != 0, e.integer("transB") != 0);
  if (!a || !b) return nullptr;
  Node* product = e.apply("MatMul", {a, b});
  const float alpha = e.number("alpha");
  return alpha == 1 ? product : e.apply("Mul", {product, e.scalar_like(product, alpha)});
}

Node* fused_gemm(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  if (!e.is_typed()) return nullptr;
  AttributeSet attributes;
  for (const char* name : {"transA", "transB"}) attributes = attributes.with(name, e.integer(name));
  for (const char* name : {"alpha", "beta"}) attributes = attributes.with(name, e.number(name));
  auto optional = [&](const char* name) { return e.given(name) ? std::optional(e.number(name)) : std::nullopt; };
  return e.activation(root.attributes().get_string("activation", ""),
                      e.apply("Gemm", {e.input(0), e.input(1), e.input(2)}, attributes), optional("activation_alpha"),
                      optional("activation_beta"));
}

Node* fused_convolution(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  return e.is_typed() ? e.result({e.fused_convolution(e.input(1))}) : nullptr;
}

// Bytes [N, n] as numbers of `bits` bits, the lowest first: [N, n · 8/bits].
Node* unpacked(Expansion& e, Node* bytes, int64_t rows, int64_t bits) {
  if (bits == 8) return e.apply("Reshape", {bytes, e.integers({rows, -1})});
  Node* flat = e.apply("Reshape", {bytes, e.integers({rows, -1, 1})});
  Node* digits = nullptr;
  for (int64_t shift = 0; shift < 8; shift += bits) {
    Node* shifted =
        e.apply("BitShift", {flat, e.scalar_like(flat, static_cast<double>(shift))}, {{"direction", "RIGHT"}});
    Node* digit = e.apply("BitwiseAnd", {shifted, e.scalar_like(flat, static_cast<double>((1 << bits) - 1))});
    digits = digits ? e.apply("Concat", {digits, digit}, {{"axis", int64_t{2}}}) : digit;
  }
  return e.apply("Reshape", {digits, e.integers({rows, -1})});
}

// B[n, k] = (q[n, k] − zero[n, k / block]) · scale[n, k / block], all of it constant where the weights are.
Node* matmul_nbits(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  if (!e.is_typed()) return nullptr;
  const int64_t n = e.integer("N"), k = e.integer("K"), bits = e.integer("bits"), block = e.integer("block_size");
  if (n < 1 || k < 1 || block < 1 || (bits != 2 && bits != 4 && bits != 8)) return nullptr;
  if (e.input(4) || e.integer("weight_prepacked")) return nullptr;  // columns in another order
  const int64_t blocks = (k + block - 1) / block;
  Node *a = e.input(0), *zeros = e.input(3);
  if (!a->type() || !a->type()->is_tensor() || a->type()->dtype() == DType::Undefined) return nullptr;
  Node* scales = e.apply("Reshape", {e.input(2), e.integers({n, blocks, 1})});
  auto as_real = [&](Node* x) { return e.apply("CastLike", {x, scales}); };
  Node* q = e.apply("Reshape", {as_real(unpacked(e, e.input(1), n, bits)), e.integers({n, blocks, block})});
  if (!zeros) {
    zeros = e.scalar_like(scales, static_cast<double>(1 << (bits - 1)));
  } else {
    if (zeros->type()->dtype() == DType::U8) {
      zeros = e.apply("Slice", {unpacked(e, zeros, n, bits), e.integers({0}), e.integers({blocks}), e.integers({1})});
    }
    zeros = e.apply("Reshape", {as_real(zeros), e.integers({n, blocks, 1})});
  }
  Node* weights = e.apply("Mul", {e.apply("Sub", {q, zeros}), scales});
  weights = e.apply("Reshape", {weights, e.integers({n, blocks * block})});
  if (blocks * block != k) {
    weights = e.apply("Slice", {weights, e.integers({0}), e.integers({k}), e.integers({1})});
  }
  weights = e.apply("Transpose", {weights}, {{"perm", std::vector<int64_t>{1, 0}}});
  return e.sum(e.apply("MatMul", {a, weights}), e.input(5));
}

Node* standard_quantization(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  if (!e.is_typed()) return nullptr;
  Node *scale = e.input(1), *zero = e.input(2);
  const int rank = rank_of(scale);
  if (rank < 0) return nullptr;
  if (rank == 1 && extent_of(scale, 0) == 1 && !e.given("axis")) {
    scale = e.apply("Reshape", {scale, e.integers({})});
    if (zero) zero = e.apply("Reshape", {zero, e.integers({})});
  }
  return e.apply(root.op().name, {e.input(0), scale, zero}, root.attributes());
}

constexpr Rule kProductExpansions[] = {
    {"expand-fused-matmul", "com.microsoft::FusedMatMul", "FusedMatMul(a, b) = α · aᵀ bᵀ", Promise::Real, fused_matmul},
    {"expand-transpose-matmul", "com.microsoft::TransposeMatMul", "TransposeMatMul(a, b) = α · aᵀ bᵀ", Promise::Real,
     fused_matmul},
    {"expand-fused-gemm", "com.microsoft::FusedGemm", "FusedGemm(a, b, c) = f(Gemm(a, b, c))", Promise::Real,
     fused_gemm},
    {"expand-fused-convolution", "com.microsoft::FusedConv", "FusedConv(x, w, b, z) = f(Conv(x, w, b) + z)",
     Promise::Real, fused_convolution},
    {"expand-matmul-nbits", "com.microsoft::MatMulNBits", "MatMulNBits(a, q, s, z) = a ((q − z) · s)ᵀ", Promise::Real,
     matmul_nbits},
    {"expand-quantize", "com.microsoft::QuantizeLinear", "QuantizeLinear is ONNX's", Promise::Real,
     standard_quantization},
    {"expand-dequantize", "com.microsoft::DequantizeLinear", "DequantizeLinear is ONNX's", Promise::Real,
     standard_quantization},
};

}  // namespace

std::span<const Rule> product_expansions() { return kProductExpansions; }

}  // namespace anfora::passes

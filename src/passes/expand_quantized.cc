// Operators on quantized tensors. Most compute with real numbers between DequantizeLinear and QuantizeLinear, products and
// averages with integers, which are scaled at the end:
//
//     QLinearSigmoid(x)  = quantized(Sigmoid(dequantized x))
//     QGemm(a, b, c)     = rounded((a b + c) · scale of a · scale of b / scale of y)
//
// Scales and zero points of one element are those of the tensor, whether they are scalars or vectors.
#include <algorithm>

#include "passes/expand.h"

namespace anfora::passes {
namespace {

using namespace ir;
using rewrite::Promise;
using rewrite::Rewriter;
using rewrite::Rule;

constexpr int64_t kF32 = 1, kI32 = 6;  // in ONNX's numbers

Node* cast(Expansion& e, Node* x, int64_t to) { return e.apply("Cast", {x}, {{"to", to}}); }

Node* scalar(Expansion& e, Node* x) { return !x || rank_of(x) == 0 ? x : e.apply("Reshape", {x, e.integers({})}); }

// A vector of one element for each column stays one.
Node* scalar_or_columns(Expansion& e, Node* x) { return x && extent_of(x, 0) == 1 ? scalar(e, x) : x; }

// In the element type of the zero point, or where there is none, of `like`.
Node* quantized(Expansion& e, Node* y, Node* scale, Node* zero, const Node* like) {
  return e.apply("QuantizeLinear", {y, scalar(e, scale), zero ? scalar(e, zero) : e.scalar_like(like, 0)});
}

// Integers times a factor, rounded.
Node* scaled(Expansion& e, Node* sum, Node* factor, Node* zero, const Node* like) {
  Node* product = e.apply("Mul", {cast(e, sum, kF32), factor});
  return quantized(e, product, e.scalar_like(factor, 1), zero, like);
}

// Channels in front of the spatial axes, or back behind them.
Node* moved_channels(Expansion& e, Node* x, bool to_front) {
  std::vector<int64_t> perm;
  for (int64_t i = 0; i < rank_of(x); ++i) perm.push_back(i);
  auto spatial = perm.begin() + 1;
  to_front ? std::rotate(spatial, perm.end() - 1, perm.end()) : std::rotate(spatial, spatial + 1, perm.end());
  return e.apply("Transpose", {x}, {{"perm", perm}});
}

Node* binary(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  if (!e.is_typed()) return nullptr;
  Node *a = dequantized(e, e.input(0), e.input(1), e.input(2)), *b = dequantized(e, e.input(3), e.input(4), e.input(5));
  return quantized(e, e.apply(root.op().name == "QLinearAdd" ? "Add" : "Mul", {a, b}), e.input(6), e.input(7),
                   e.input(0));
}

Node* where(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  if (!e.is_typed()) return nullptr;
  Node *x = dequantized(e, e.input(1), e.input(2), e.input(3)), *y = dequantized(e, e.input(4), e.input(5), e.input(6));
  return quantized(e, e.apply("Where", {e.input(0), x, y}), e.input(7), e.input(8), e.input(1));
}

Node* dequantized_concat(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  if (!e.is_typed() || root.num_inputs() < 5 || root.num_inputs() % 3 != 2) return nullptr;
  std::vector<Node*> parts;
  for (size_t i = 2; i < root.num_inputs(); i += 3)
    parts.push_back(dequantized(e, e.input(i), e.input(i + 1), e.input(i + 2)));
  Node* whole = rewriter.apply(rewriter.context().get_operator("Concat"), parts, {{"axis", e.integer("axis")}});
  return quantized(e, whole, e.input(0), e.input(1), e.input(2));
}

// Before operator set 13, Softmax is over all axes from the given one on.
Node* softmax(Expansion& e, Node* x) {
  const int64_t axis = e.integer("axis");
  if (e.integer("opset") >= 13) return e.apply("Softmax", {x}, {{"axis", axis}});
  Node* rows = e.apply("Softmax", {e.apply("Flatten", {x}, {{"axis", axis}})}, {{"axis", int64_t{-1}}});
  return e.apply("Reshape", {rows, e.apply("Shape", {x})});
}

Node* average_pool(Expansion& e, const Apply& root, Node* x) {
  const bool channels_last = e.integer("channels_last") != 0;
  if (channels_last && rank_of(x) < 3) return nullptr;
  if (channels_last) x = moved_channels(e, x, true);
  Node* y = e.apply("AveragePool", {x}, root.attributes().without("channels_last"));
  return channels_last ? moved_channels(e, y, false) : y;
}

Node* unary(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  if (!e.is_typed()) return nullptr;
  const std::string_view name = root.op().name;
  Node *x = dequantized(e, e.input(0), e.input(1), e.input(2)), *y = nullptr;
  if (name == "QLinearSigmoid") {
    y = e.apply("Sigmoid", {x});
  } else if (name == "QLinearLeakyRelu") {
    y = e.apply("LeakyRelu", {x}, {{"alpha", e.number("alpha")}});
  } else if (name == "QLinearSoftmax") {
    y = softmax(e, x);
  } else if (name == "QLinearReduceMean") {
    Node* axes = rewriter.integers(root.attributes().get_ints("axes"));
    y = e.apply("ReduceMean", {x, axes}, {{"keepdims", e.integer("keepdims")}});
  } else {
    y = average_pool(e, root, x);
  }
  return y ? quantized(e, y, e.input(3), e.input(4), e.input(0)) : nullptr;
}

// The sum of x − zero over the spatial axes, times scale of x / (scale of y · number of elements).
Node* global_average_pool(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  Node* x = e.input(0);
  if (!e.is_typed() || rank_of(x) < 3) return nullptr;
  const int64_t first = e.integer("channels_last") ? 1 : 2;
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < rank_of(x) - 2; ++i) axes.push_back(first + i);
  Node* zero = cast(e, scalar(e, e.input(2)), kI32);
  Node* sum = e.apply("ReduceSum", {e.apply("Sub", {cast(e, x, kI32), zero}), rewriter.integers(axes)});
  Node* sizes = e.apply("Shape", {x}, {{"start", first}, {"end", first + rank_of(x) - 2}});
  Node* count = e.apply("ReduceProd", {sizes}, {{"keepdims", int64_t{0}}});
  Node* divisor = e.apply("Mul", {scalar(e, e.input(3)), cast(e, count, kF32)});
  return scaled(e, sum, e.apply("Div", {scalar(e, e.input(1)), divisor}), e.input(4), x);
}

Node* gemm(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  if (!e.is_typed()) return nullptr;
  enum { A, ScaleA, ZeroA, B, ScaleB, ZeroB, C, ScaleY, ZeroY };
  auto matrix = [&](size_t i, std::string_view transposed) {
    return e.integer(transposed) ? e.apply("Transpose", {e.input(i)}, {{"perm", std::vector<int64_t>{1, 0}}})
                                 : e.input(i);
  };
  Node* product = e.apply("MatMulInteger", {matrix(A, "transA"), matrix(B, "transB"), scalar(e, e.input(ZeroA)),
                                            scalar_or_columns(e, e.input(ZeroB))});
  Node* sum = e.sum(product, e.input(C));
  Node* factor = e.apply("Mul", {scalar(e, e.input(ScaleA)), e.scalar_like(e.input(ScaleA), e.number("alpha"))});
  factor = e.apply("Mul", {factor, scalar_or_columns(e, e.input(ScaleB))});
  if (!e.input(ScaleY)) return e.apply("Mul", {cast(e, sum, kF32), factor});
  return scaled(e, sum, e.apply("Div", {factor, scalar(e, e.input(ScaleY))}), e.input(ZeroY), e.input(A));
}

// The operands are quantized, the product is not.
Node* matmul_integer_to_float(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  if (!e.is_typed()) return nullptr;
  enum { A, B, ScaleA, ScaleB, ZeroA, ZeroB, Bias };
  return e.sum(
      integer_product(e, e.input(A), e.input(B), e.input(ScaleA), e.input(ScaleB), e.input(ZeroA), e.input(ZeroB)),
      e.input(Bias));
}

// The same, and a is quantized before.
Node* dynamic_quantize_matmul(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  if (!e.is_typed()) return nullptr;
  enum { A, B, ScaleB, ZeroB, Bias };
  Apply* a = e.apply_several("DynamicQuantizeLinear", {e.input(A)}, 3);
  return e.sum(
      integer_product(e, e.item(a, 0), e.input(B), e.item(a, 1), e.input(ScaleB), e.item(a, 2), e.input(ZeroB)),
      e.input(Bias));
}

Node* convolution(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  const bool channels_last = e.integer("channels_last") != 0;
  if (!e.is_typed() || (channels_last && rank_of(e.input(0)) < 3)) return nullptr;
  Node* x = channels_last ? moved_channels(e, e.input(0), true) : e.input(0);
  Node* y = e.apply("QLinearConv",
                    {x, e.input(1), e.input(2), e.input(3), e.input(4), e.input(5), e.input(6), e.input(7), e.input(8)},
                    root.attributes().without("channels_last"));
  return channels_last ? moved_channels(e, y, false) : y;
}

Node* max_pool(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  if (!e.is_typed() || rank_of(e.input(0)) < 3) return nullptr;
  return moved_channels(e, e.apply("MaxPool", {moved_channels(e, e.input(0), true)}, root.attributes()), false);
}

// Weights as real numbers, [directions, inputs, gates]; a scale for each direction, or for each gate of each.
Node* recurrence_weights(Expansion& e, Node* q, Node* scale, Node* zero) {
  Node* axes = rank_of(scale) == 1 ? e.integers({1, 2}) : e.integers({1});
  Node* distance = e.apply("Sub", {cast(e, q, kF32), e.apply("Unsqueeze", {cast(e, zero, kF32), axes})});
  Node* real = e.apply("Mul", {distance, e.apply("Unsqueeze", {scale, axes})});
  return e.apply("Transpose", {real}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
}

// ONNX Runtime rounds the inputs of each step to eight bits as well; here they stay what they are.
Node* dynamic_quantize_lstm(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  enum { X, W, R, B, Lengths, InitialH, InitialC, P, ScaleW, ZeroW, ScaleR, ZeroR };
  if (!e.is_typed()) return nullptr;
  for (size_t i : {ScaleW, ScaleR}) {
    if (rank_of(e.input(i)) != 1 && rank_of(e.input(i)) != 2) return nullptr;
  }
  Node* w = recurrence_weights(e, e.input(W), e.input(ScaleW), e.input(ZeroW));
  Node* r = recurrence_weights(e, e.input(R), e.input(ScaleR), e.input(ZeroR));
  return e.apply_several(
      "LSTM", {e.input(X), w, r, e.input(B), e.input(Lengths), e.input(InitialH), e.input(InitialC), e.input(P)},
      root.num_outputs(), root.attributes());
}

constexpr Rule kQuantizedExpansions[] = {
    {"expand-quantized-add", "com.microsoft::QLinearAdd", "QLinearAdd(a, b) = quantized(dequantized a + dequantized b)",
     Promise::Real, binary},
    {"expand-quantized-multiply", "com.microsoft::QLinearMul",
     "QLinearMul(a, b) = quantized(dequantized a · dequantized b)", Promise::Real, binary},
    {"expand-quantized-where", "com.microsoft::QLinearWhere",
     "QLinearWhere(c, x, y) = quantized(Where(c, dequantized x, dequantized y))", Promise::Real, where},
    {"expand-quantized-concat", "com.microsoft::QLinearConcat", "QLinearConcat(x…) = quantized(Concat(dequantized x…))",
     Promise::Real, dequantized_concat},
    {"expand-quantized-sigmoid", "com.microsoft::QLinearSigmoid",
     "QLinearSigmoid(x) = quantized(Sigmoid(dequantized x))", Promise::Real, unary},
    {"expand-quantized-leaky-relu", "com.microsoft::QLinearLeakyRelu",
     "QLinearLeakyRelu(x) = quantized(LeakyRelu(dequantized x))", Promise::Real, unary},
    {"expand-quantized-softmax", "com.microsoft::QLinearSoftmax",
     "QLinearSoftmax(x) = quantized(Softmax(dequantized x))", Promise::Real, unary},
    {"expand-quantized-mean", "com.microsoft::QLinearReduceMean",
     "QLinearReduceMean(x) = quantized(ReduceMean(dequantized x))", Promise::Real, unary},
    {"expand-quantized-average-pool", "com.microsoft::QLinearAveragePool",
     "QLinearAveragePool(x) = quantized(AveragePool(dequantized x))", Promise::Real, unary},
    {"expand-quantized-global-average-pool", "com.microsoft::QLinearGlobalAveragePool",
     "QLinearGlobalAveragePool(x) = rounded(Σ(x − zero) · scale / n)", Promise::Real, global_average_pool},
    {"expand-quantized-gemm", "com.microsoft::QGemm", "QGemm(a, b, c) = rounded((a b + c) · scale)", Promise::Real,
     gemm},
    {"expand-quantized-convolution", "com.microsoft::QLinearConv", "QLinearConv is ONNX's, channels last or not",
     Promise::Real, convolution},
    {"expand-channels-last-max-pool", "com.microsoft::NhwcMaxPool", "NhwcMaxPool(x) = MaxPool(xᵀ)ᵀ", Promise::Exact,
     max_pool},
    {"expand-integer-matmul", "com.microsoft::MatMulIntegerToFloat",
     "MatMulIntegerToFloat(a, b) = MatMulInteger(a, b) · scale", Promise::Real, matmul_integer_to_float},
    {"expand-dynamic-quantize-matmul", "com.microsoft::DynamicQuantizeMatMul",
     "DynamicQuantizeMatMul(a, b) = MatMulInteger(DynamicQuantizeLinear(a), b) · scale", Promise::Real,
     dynamic_quantize_matmul},
    {"expand-dynamic-quantize-lstm", "com.microsoft::DynamicQuantizeLSTM",
     "DynamicQuantizeLSTM(x, w, r) = LSTM(x, dequantized w, dequantized r)", Promise::Real, dynamic_quantize_lstm},
};

}  // namespace

Node* dequantized(Expansion& e, Node* x, Node* scale, Node* zero) {
  return e.apply("DequantizeLinear", {x, scalar(e, scale), scalar(e, zero)});
}

Node* integer_product(Expansion& e, Node* a, Node* b, Node* scale_a, Node* scale_b, Node* zero_a, Node* zero_b) {
  Node* product = e.apply("MatMulInteger", {a, b, scalar(e, zero_a), scalar_or_columns(e, zero_b)});
  Node* factor = e.apply("Mul", {scalar(e, scale_a), scalar_or_columns(e, scale_b)});
  return e.apply("Mul", {e.apply("CastLike", {product, factor}), factor});
}

std::span<const Rule> quantized_expansions() { return kQuantizedExpansions; }

}  // namespace anfora::passes

// Products and convolutions take in what is around them, so that memory is walked once:
//
//     Transpose ─▶ MatMul ─▶ Mul(s) ─▶ Add(bias) ─▶ Gelu        becomes      LoweredMatMul{perm_a, alpha, activation}
//     Conv ─▶ Add(z) ─▶ Relu                                    becomes      LoweredConv{activation}(x, w, b, z)
//
// The lowered operator computes activation(alpha · A · B + C + Z): what is taken in must come in this order, and nobody
// else may need the value in between. A transpose is taken in where the kernels can still walk along a row of memory.
#include <algorithm>
#include <cmath>

#include "passes/pass.h"
#include "passes/permutation.h"
#include "support/element_types.h"

namespace anfora::passes {
namespace {

using namespace ir;
using rewrite::Promise;
using rewrite::Rewriter;
using rewrite::Rule;

bool is_f32(const Node* node) {
  const Type* type = node->type();
  return type && type->is_tensor() && type->has_rank() && type->dtype() == DType::F32;
}

// The single element of a float constant.
std::optional<float> scalar_constant(const Node* node) {
  const Tensor* tensor = constant_tensor(node);
  if (!tensor || tensor->size() != 1 || tensor->dtype() != DType::F32) return std::nullopt;
  return tensor->data<float>()[0];
}

bool same_type(const Node* a, const Node* b) {
  return is_f32(a) && is_f32(b) && a->type()->rank() == b->type()->rank() &&
         std::ranges::equal(a->type()->dims(), b->type()->dims(), [](Dim x, Dim y) { return provably_equal(x, y); });
}

// The same application with another operand or with other attributes.
struct Rewritten {
  explicit Rewritten(const Apply& node) : op(node.op()), attributes(node.attributes()) {
    for (const Use& use : node.operands()) inputs.push_back(use.node);
  }
  void set_input(Rewriter& rewriter, size_t i, Node* node) {
    while (inputs.size() <= i) inputs.push_back(rewriter.module().none());
    inputs[i] = node;
  }
  void set(std::string_view name, AttributeValue value) { attributes = attributes.with(name, std::move(value)); }
  Apply* apply(Rewriter& rewriter) const { return rewriter.apply(op, inputs, attributes); }

  const Operator& op;
  std::vector<Node*> inputs;
  AttributeSet attributes;
};

Permutation axes_order(const Apply& node, std::string_view attribute, int rank) {
  Permutation permutation = node.attributes().get_ints(attribute);
  return permutation.empty() ? identity(rank) : permutation;
}
Permutation axes_order(const Apply& transpose) {
  return permutation_of(transpose, transpose.type()->rank());
}

// Products -------------------------------------------------------------------------------------------
Node* lower_matmul(Rewriter& rewriter, Apply& root) {
  if (!is_f32(root.input(0)) || !is_f32(root.input(1))) return nullptr;
  if (root.input(0)->type()->rank() < 2 || root.input(1)->type()->rank() < 2) return nullptr;
  return rewriter.apply("LoweredMatMul", {root.input(0), root.input(1)});
}

// A Transpose that moves only axes of extent 1 moves nothing.
Node* view_transpose(Rewriter& rewriter, Apply& root) {
  const Type* from = root.input(0)->type();
  if (!from || !from->is_tensor() || !from->has_rank() || !root.type()) return nullptr;
  int64_t previous = -1;
  for (int64_t axis : axes_order(root)) {
    Dim extent = from->dim(static_cast<int>(axis));
    if (extent.is_constant() && extent.constant() == 1) continue;
    if (axis < previous) return nullptr;
    previous = axis;
  }
  std::vector<int64_t> shape;
  for (Dim dim : root.type()->dims()) shape.push_back(dim.is_constant() ? dim.constant() : -1);
  const bool has_zero = std::ranges::count(shape, 0) > 0;
  if (std::ranges::count(shape, -1) > (has_zero ? 0 : 1)) return nullptr;
  AttributeSet attributes;
  if (has_zero) attributes = {{"allowzero", int64_t{1}}};
  return rewriter.apply("Reshape", {root.input(0), rewriter.integers(shape)}, attributes);
}

// Whether a row vector of n elements, or what broadcasts like one, is added to a product.
bool is_row(const Node* node, Dim n) {
  const Type* type = node->type();
  if (!is_f32(node) || type->rank() == 0 || !provably_equal(type->dim(type->rank() - 1), n)) return false;
  return std::ranges::all_of(type->dims().first(type->rank() - 1),
                             [](Dim d) { return d.is_constant() && d.constant() == 1; });
}

Node* lower_gemm(Rewriter& rewriter, Apply& root) {
  if (!is_f32(root.input(0)) || !is_f32(root.input(1)) || !is_f32(&root)) return nullptr;
  AttributeSet attributes;
  if (root.attributes().get_int("transA", 0) != 0) attributes = attributes.with("perm_a", Permutation{1, 0});
  if (root.attributes().get_int("transB", 0) != 0) attributes = attributes.with("perm_b", Permutation{1, 0});
  if (float alpha = root.attributes().get_float("alpha", 1); alpha != 1) attributes = attributes.with("alpha", alpha);
  float beta = root.attributes().get_float("beta", 1);
  if (!root.has_input(2) || beta == 0) {
    return rewriter.apply("LoweredMatMul", {root.input(0), root.input(1)}, attributes);
  }
  if (beta != 1) return nullptr;
  if (is_row(root.input(2), root.type()->dim(1)) && root.input(2)->type()->rank() <= 2) {
    return rewriter.apply("LoweredMatMul", {root.input(0), root.input(1), root.input(2)}, attributes);
  }
  if (!same_type(root.input(2), &root)) return nullptr;
  return rewriter.apply("LoweredMatMul", {root.input(0), root.input(1), rewriter.module().none(), root.input(2)},
                        attributes);
}

// Kernels read an operand whose rows or columns are contiguous: the last axis in memory must be one of the matrix's two.
bool is_walkable(const Permutation& permutation) {
  int64_t last = static_cast<int64_t>(permutation.size()) - 1;
  return permutation.size() >= 2 && permutation.size() <= 4 &&
         (permutation.back() == last || permutation[permutation.size() - 2] == last);
}

// One matrix for all rows of a batch: then all rows are one matrix too, unless a permutation comes in between.
bool is_projection(const Apply& product) {
  return product.input(1)->type()->rank() == 2 && product.input(0)->type()->rank() > 2;
}

// A · B where an operand is a Transpose, or a product with a scalar.
Node* absorb_operand(Rewriter& rewriter, Apply& root) {
  for (size_t i : {size_t{0}, size_t{1}}) {
    Apply* operand = root.input(i)->as_apply();
    if (!operand || !is_f32(operand)) continue;
    std::string_view attribute = i == 0 ? "perm_a" : "perm_b";
    Rewritten product(root);
    if (operand->is("Transpose")) {
      Permutation permutation =
          composed(axes_order(*operand), axes_order(root, attribute, operand->type()->rank()));
      if (!is_walkable(permutation) || (i == 0 && is_projection(root))) continue;
      product.set(attribute, permutation);
      if (permutation == identity(operand->type()->rank())) product.attributes = product.attributes.without(attribute);
      product.inputs[i] = operand->input(0);
      return product.apply(rewriter);
    }
    if (!operand->has_one_use() || !(operand->is("Mul") || operand->is("Div"))) continue;
    for (size_t side : {size_t{0}, size_t{1}}) {
      auto scalar = scalar_constant(operand->input(1 - side));
      if (!scalar || !same_type(operand->input(side), operand) || (operand->is("Div") && side == 1)) continue;
      float alpha = root.attributes().get_float("alpha", 1);
      product.set("alpha", operand->is("Mul") ? alpha * *scalar : alpha / *scalar);
      if (!std::isfinite(product.attributes.get_float("alpha", 1))) continue;
      product.inputs[i] = operand->input(side);
      return product.apply(rewriter);
    }
  }
  return nullptr;
}

// Epilogues ------------------------------------------------------------------------------------------
// Whether the user alone needs the value and computes it where it is computed: not in a loop around it.
bool is_for_user_alone(const Apply& value, const Apply& user) {
  return value.has_one_use() && value.graph() == user.graph();
}

// Operand i when it takes epilogues, nothing was applied to its result yet, and nobody else needs it.
Apply* open_anchor(const Apply& user, size_t i) {
  Apply* anchor = user.input(i)->as_apply();
  if (!anchor || !is_for_user_alone(*anchor, user) || !is_f32(anchor)) return nullptr;
  const bool takes = anchor->op().domain == "anfora" && anchor->op().find_attribute("activation");
  return takes && !anchor->attributes().has("activation") && !anchor->attributes().has("perm_y") ? anchor : nullptr;
}

Node* absorb_transpose(Rewriter& rewriter, Apply& root) {
  Apply* product = root.input(0)->as_apply();
  if (!product || !product->is("LoweredMatMul") || !is_for_user_alone(*product, root) || !is_f32(product))
    return nullptr;
  int rank = product->type()->rank();
  Permutation permutation = composed(axes_order(*product, "perm_y", rank), axes_order(root));
  if (rank > 4 || permutation.back() != rank - 1 || is_projection(*product)) return nullptr;
  Rewritten transposed(*product);
  transposed.set("perm_y", permutation);
  return transposed.apply(rewriter);
}

// (alpha · A · B) · s
template <bool Divides>
Node* absorb_factor(Rewriter& rewriter, Apply& root) {
  for (size_t side : {size_t{0}, size_t{1}}) {
    Apply* anchor = open_anchor(root, side);
    auto scalar = scalar_constant(root.input(1 - side));
    if (!anchor || !anchor->is("LoweredMatMul") || !scalar || (Divides && side == 1)) continue;
    if (anchor->has_input(2) || anchor->has_input(3) || !same_type(anchor, &root)) continue;
    float alpha = anchor->attributes().get_float("alpha", 1);
    alpha = Divides ? alpha / *scalar : alpha * *scalar;
    if (!std::isfinite(alpha)) continue;
    Rewritten scaled(*anchor);
    scaled.set("alpha", alpha);
    return scaled.apply(rewriter);
  }
  return nullptr;
}

Node* absorb_addend(Rewriter& rewriter, Apply& root) {
  for (size_t side : {size_t{0}, size_t{1}}) {
    Apply* anchor = open_anchor(root, side);
    if (!anchor || anchor->is("LoweredBatchNormalization") || anchor->has_input(3) || !same_type(anchor, &root))
      continue;
    Node* addend = root.input(1 - side);
    Rewritten sum(*anchor);
    if (same_type(addend, &root)) {
      sum.set_input(rewriter, 3, addend);
    } else if (anchor->is("LoweredMatMul") && !anchor->has_input(2) &&
               is_row(addend, root.type()->dim(root.type()->rank() - 1))) {
      sum.set_input(rewriter, 2, addend);
    } else {
      continue;
    }
    return sum.apply(rewriter);
  }
  return nullptr;
}

struct FusedActivation {
  std::string name;
  std::optional<float> alpha, beta;
};

// What an application of an elementwise operator is as an activation of operand 0.
std::optional<FusedActivation> activation_of(const Apply& node) {
  const AttributeSet& attributes = node.attributes();
  if (node.is("Gelu")) {
    return FusedActivation{attributes.get_string("approximate", "none") == "tanh" ? "GeluTanh" : "Gelu", {}, {}};
  }
  if (node.is("Clip")) {
    FusedActivation clip{"Clip", {}, {}};
    if (node.has_input(1) && !(clip.alpha = scalar_constant(node.input(1)))) return std::nullopt;
    if (node.has_input(2) && !(clip.beta = scalar_constant(node.input(2)))) return std::nullopt;
    return clip;
  }
  FusedActivation result{std::string(node.op().name), {}, {}};
  if (attributes.has("alpha")) result.alpha = attributes.get_float("alpha", 0);
  if (attributes.has("beta")) result.beta = attributes.get_float("beta", 0);
  return result;
}

Node* absorb_activation(Rewriter& rewriter, Apply& root) {
  Apply* anchor = open_anchor(root, 0);
  auto activation = activation_of(root);
  if (!anchor || !activation) return nullptr;
  if (anchor->is("LoweredBatchNormalization") && activation->name != "Relu") return nullptr;  // no kernel takes more
  Rewritten activated(*anchor);
  activated.set("activation", activation->name);
  if (activation->alpha) activated.set("activation_alpha", *activation->alpha);
  if (activation->beta) activated.set("activation_beta", *activation->beta);
  return activated.apply(rewriter);
}

constexpr Rule kEpilogueRules[] = {
    {"lower-matmul", "MatMul", "MatMul(a, b) = LoweredMatMul(a, b)", Promise::Real, lower_matmul},
    {"lower-gemm", "Gemm", "Gemm(a, b, c) = LoweredMatMul(a, b, c)", Promise::Real, lower_gemm},
    {"unit-transpose", "Transpose", "a Transpose that moves only axes of extent 1 is a view", Promise::Exact,
     view_transpose},
    {"product-operand", "LoweredMatMul", "s·xᵀ · y is one strided product", Promise::Real, absorb_operand},
    {"product-transpose", "Transpose", "(x · y)ᵀ is one strided product", Promise::Exact, absorb_transpose},
    {"product-factor", "Mul", "(x · y) · s is one product", Promise::Real, absorb_factor<false>},
    {"product-divisor", "Div", "(x · y) / s is one product", Promise::Real, absorb_factor<true>},
    {"epilogue-add", "Add", "anchor(x) + z in one step", Promise::Real, absorb_addend},
    {"epilogue-relu", "Relu", "Relu(anchor(x)) in one step", Promise::Finite, absorb_activation},
    {"epilogue-leaky-relu", "LeakyRelu", "LeakyRelu(anchor(x)) in one step", Promise::Real, absorb_activation},
    {"epilogue-clip", "Clip", "Clip(anchor(x)) in one step", Promise::Finite, absorb_activation},
    {"epilogue-elu", "Elu", "Elu(anchor(x)) in one step", Promise::Real, absorb_activation},
    {"epilogue-sigmoid", "Sigmoid", "Sigmoid(anchor(x)) in one step", Promise::Real, absorb_activation},
    {"epilogue-tanh", "Tanh", "Tanh(anchor(x)) in one step", Promise::Real, absorb_activation},
    {"epilogue-hard-sigmoid", "HardSigmoid", "HardSigmoid(anchor(x)) in one step", Promise::Real, absorb_activation},
    {"epilogue-hard-swish", "HardSwish", "HardSwish(anchor(x)) in one step", Promise::Real, absorb_activation},
    {"epilogue-swish", "Swish", "Swish(anchor(x)) in one step", Promise::Real, absorb_activation},
    {"epilogue-gelu", "Gelu", "Gelu(anchor(x)) in one step", Promise::Real, absorb_activation},
    {"epilogue-mish", "Mish", "Mish(anchor(x)) in one step", Promise::Real, absorb_activation},
    {"epilogue-abs", "Abs", "Abs(anchor(x)) in one step", Promise::Exact, absorb_activation},
};

size_t run_epilogue(PassContext& context) {
  return rewrite::apply_rules(kEpilogueRules, context.rewriting(), context.inference, context.remarks, kEpilogue.name);
}

}  // namespace

const Pass kEpilogue{"epilogue", "epilogues", "what surrounds a product or a convolution is done on the way",
                     run_epilogue};

}  // namespace anfora::passes

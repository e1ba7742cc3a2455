// Operators that do nothing, and pairs that cancel. Each rule is local; the driver takes them to a fixpoint.
#include <fmt/format.h>

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

bool same_shape(const Type* a, const Type* b) {
  if (!a || !b || !a->is_tensor() || !b->is_tensor() || !a->has_rank() || !b->has_rank()) return false;
  return std::ranges::equal(a->dims(), b->dims(), [](Dim x, Dim y) { return provably_equal(x, y); });
}
bool same_tensor_type(const Node* a, const Node* b) {
  return same_shape(a->type(), b->type()) && a->type()->dtype() == b->type()->dtype();
}

// The operand itself where the result provably has its type. Only for operators that then do nothing.
Node* operand_if_same_type(Rewriter&, Apply& root) {
  return same_tensor_type(&root, root.input(0)) ? root.input(0) : nullptr;
}

Node* drop_identity(Rewriter&, Apply& root) { return root.input(0); }

Node* drop_single_operand(Rewriter&, Apply& root) { return root.num_inputs() == 1 ? root.input(0) : nullptr; }

Node* drop_cast(Rewriter&, Apply& root) {
  const Type* from = root.input(0)->type();
  const Type* to = root.type();
  bool same = from && to && from->is_tensor() && to->is_tensor() && from->dtype() != DType::Undefined;
  return same && from->dtype() == to->dtype() ? root.input(0) : nullptr;
}

// Whether every value of `from` is a value of `to`.
bool is_widening(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::Bool) return is_float(to) || is_integer(to);
  if (is_integer(from) && is_integer(to)) {
    int a = element_bits(from), b = element_bits(to);
    return is_signed_integer(from) ? is_signed_integer(to) && b > a : b > a;
  }
  if (is_integer(from) && to == DType::F32) return element_bits(from) <= 16;
  if (is_integer(from) && to == DType::F64) return element_bits(from) <= 32;
  bool half = from == DType::F16 || from == DType::BF16;
  return (half && (to == DType::F32 || to == DType::F64)) || (from == DType::F32 && to == DType::F64);
}

// Text tells 1 from 1.0 and true. Integers that do not fit wrap around, floats that do not fit are clamped, so that a way
// from integers to fewer bits by floats is another one than the direct way.
Node* compose_casts(Rewriter& rewriter, Apply& root) {
  Apply* inner = root.input(0)->as_apply();
  if (!inner || !inner->is("Cast")) return nullptr;
  const Type *source = inner->input(0)->type(), *between = inner->type(), *target = root.type();
  if (!source || !between || !target || !is_widening(source->dtype(), between->dtype())) return nullptr;
  if (target->dtype() == DType::String && source->dtype() != between->dtype()) return nullptr;
  bool by_floats = is_integer(source->dtype()) && is_float(between->dtype()) && is_integer(target->dtype());
  if (by_floats && !is_widening(source->dtype(), target->dtype())) return nullptr;
  return rewriter.apply("Cast", {inner->input(0)}, root.attributes());
}

bool is_inference(const Apply& dropout) {
  if (!dropout.has_input(2)) return true;
  const Tensor* training = constant_tensor(dropout.input(2));
  return training && training->size() == 1 && training->dtype() == DType::Bool && !training->data<bool>()[0];
}

Node* drop_dropout(Rewriter&, Apply& root) {
  return root.num_outputs() == 1 && is_inference(root) ? root.input(0) : nullptr;
}

Node* drop_dropout_item(Rewriter&, Apply& item) {
  Apply* dropout = item.input(0)->as_apply();
  if (!dropout || !dropout->is("Dropout") || item.attributes().require_int("index") != 0) return nullptr;
  return is_inference(*dropout) ? dropout->input(0) : nullptr;
}

Node* item_of_tuple(Rewriter&, Apply& item) {
  Apply* tuple = item.input(0)->as(Primitive::MakeTuple);
  return tuple ? tuple->input(static_cast<size_t>(item.attributes().require_int("index"))) : nullptr;
}

// All elements of a constant equal `value`.
bool is_splat(const Node* node, double value) {
  const Tensor* t = constant_tensor(node);
  if (!t || t->size() == 0 || !(is_float(t->dtype()) || is_integer(t->dtype())) || element_bits(t->dtype()) < 8 ||
      element_bytes(t->dtype()) * 8 != static_cast<size_t>(element_bits(t->dtype()))) {
    return false;
  }
  if (is_narrow_float(t->dtype()) && t->dtype() != DType::F16 && t->dtype() != DType::BF16) return false;
  return dispatch<Numbers>(t->dtype(), [&]<class T>() {
    return std::ranges::all_of(t->data<T>(), [&](T x) {
      double wide = static_cast<double>(static_cast<ComputeType<T>>(x));
      return wide == value && std::signbit(wide) == std::signbit(value);
    });
  });
}

// x where one operand is the neutral element and does not make the result larger than x.
template <bool Commutative>
Node* drop_neutral(Apply& root, double neutral) {
  if (root.num_inputs() != 2) return nullptr;
  if (is_splat(root.input(1), neutral) && same_tensor_type(&root, root.input(0))) return root.input(0);
  if (Commutative && is_splat(root.input(0), neutral) && same_tensor_type(&root, root.input(1))) return root.input(1);
  return nullptr;
}
Node* drop_unit_factor(Rewriter&, Apply& root) { return drop_neutral<true>(root, 1); }
Node* drop_unit_divisor(Rewriter&, Apply& root) { return drop_neutral<false>(root, 1); }
Node* drop_zero_term(Rewriter&, Apply& root) { return drop_neutral<true>(root, 0); }
Node* drop_zero_subtrahend(Rewriter&, Apply& root) { return drop_neutral<false>(root, 0); }

Node* drop_full_slice(Rewriter&, Apply& root) {
  if (!same_tensor_type(&root, root.input(0))) return nullptr;
  if (!root.has_input(4)) return root.input(0);
  const Tensor* steps = constant_tensor(root.input(4));
  if (!steps) return nullptr;
  // Forward over as many elements as there are: it starts at the first.
  bool forward = dispatch<TypeList<int32_t, int64_t>>(steps->dtype(), [&]<class T>() {
    return std::ranges::all_of(steps->data<T>(), [](T step) { return step > 0; });
  });
  return forward ? root.input(0) : nullptr;
}

Node* drop_unit_tile(Rewriter&, Apply& root) {
  const Tensor* repeats = constant_tensor(root.input(1));
  if (!repeats || repeats->dtype() != DType::I64) return nullptr;
  return std::ranges::all_of(repeats->data<int64_t>(), [](int64_t r) { return r == 1; }) ? root.input(0) : nullptr;
}

Node* drop_zero_pad(Rewriter&, Apply& root) {
  const Tensor* pads = constant_tensor(root.input(1));
  if (!pads || pads->dtype() != DType::I64) return nullptr;
  return std::ranges::all_of(pads->data<int64_t>(), [](int64_t p) { return p == 0; }) ? root.input(0) : nullptr;
}

Node* drop_identity_transpose(Rewriter&, Apply& root) {
  const Type* type = root.input(0)->type();
  if (!type || !type->is_tensor() || !type->has_rank()) return nullptr;
  return std::ranges::is_sorted(permutation_of(root, type->rank())) ? root.input(0) : nullptr;
}

Node* compose_transposes(Rewriter& rewriter, Apply& root) {
  Apply* inner = root.input(0)->as_apply();
  if (!inner || !inner->is("Transpose") || !inner->type() || !inner->type()->has_rank()) return nullptr;
  int rank = inner->type()->rank();
  return rewriter.apply("Transpose", {inner->input(0)},
                        {{"perm", composed(permutation_of(*inner, rank), permutation_of(root, rank))}});
}

// Reshape(Reshape(x, s), t) = Reshape(x, t), unless t copies dimensions of its operand by a zero.
Node* compose_reshapes(Rewriter& rewriter, Apply& root) {
  Apply* inner = root.input(0)->as_apply();
  if (!inner || inner->op().fusion != FusionKind::View || inner->num_outputs() != 1) return nullptr;
  const Tensor* shape = constant_tensor(root.input(1));
  if (!shape || shape->dtype() != DType::I64) return nullptr;
  auto dims = shape->data<int64_t>();
  if (std::ranges::count(dims, 0) && root.attributes().get_int("allowzero", 0) == 0) return nullptr;
  Node* source = inner->input(0);
  if (!source->type() || !source->type()->is_tensor() || source->type()->dtype() != root.type()->dtype())
    return nullptr;
  return rewriter.apply("Reshape", {source, root.input(1)}, root.attributes());
}

// A chain of views that ends in the type it started from.
Node* cancel_views(Rewriter&, Apply& root) {
  Node* source = root.input(0);
  while (Apply* view = source->as_apply()) {
    if (view->op().fusion != FusionKind::View || view->num_outputs() != 1) break;
    source = view->input(0);
    if (same_tensor_type(&root, source)) return source;
  }
  return same_tensor_type(&root, root.input(0)) ? root.input(0) : nullptr;
}

Node* choose_known_branch(Rewriter&, Apply& choice) {
  const Tensor* condition = constant_tensor(choice.input(0));
  if (!condition || condition->dtype() != DType::Bool || condition->size() != 1) return nullptr;
  return choice.input(condition->data<bool>()[0] ? 1 : 2);
}

constexpr Rule kRules[] = {
    {"identity", "Identity", "Identity(x) = x", Promise::Exact, drop_identity},
    {"dropout-inference", "Dropout", "Dropout(x) = x outside of training", Promise::Exact, drop_dropout},
    {"dropout-inference-item", "TupleGetItem", "the first result of Dropout(x) is x outside of training",
     Promise::Exact, drop_dropout_item},
    {"tuple-item", "TupleGetItem", "item i of (x₀, x₁, …) = xᵢ", Promise::Exact, item_of_tuple},
    {"same-type-cast", "Cast", "Cast(x) = x where x has the type already", Promise::Exact, drop_cast},
    {"same-type-cast-like", "CastLike", "CastLike(x, y) = x where x has y's type", Promise::Exact, drop_cast},
    {"compose-casts", "Cast", "Cast(Cast(x)) = Cast(x) where the inner one loses nothing", Promise::Exact,
     compose_casts},
    {"unit-factor", "Mul", "x · 1 = x", Promise::Exact, drop_unit_factor},
    {"unit-divisor", "Div", "x / 1 = x", Promise::Exact, drop_unit_divisor},
    {"unit-exponent", "Pow", "x ^ 1 = x", Promise::Exact, drop_unit_divisor},
    {"zero-term", "Add", "x + 0 = x (but −0 + 0 = 0)", Promise::Real, drop_zero_term},
    {"zero-subtrahend", "Sub", "x − 0 = x", Promise::Exact, drop_zero_subtrahend},
    {"single-operand-concat", "Concat", "Concat(x) = x", Promise::Exact, drop_single_operand},
    {"single-operand-sum", "Sum", "Sum(x) = x", Promise::Exact, drop_single_operand},
    {"single-operand-mean", "Mean", "Mean(x) = x", Promise::Exact, drop_single_operand},
    {"single-operand-max", "Max", "Max(x) = x", Promise::Exact, drop_single_operand},
    {"single-operand-min", "Min", "Min(x) = x", Promise::Exact, drop_single_operand},
    {"full-slice", "Slice", "Slice(x) = x where it takes everything", Promise::Exact, drop_full_slice},
    {"same-shape-expand", "Expand", "Expand(x, s) = x where x has the shape", Promise::Exact, operand_if_same_type},
    {"unit-tile", "Tile", "Tile(x, 1…1) = x", Promise::Exact, drop_unit_tile},
    {"zero-pad", "Pad", "Pad(x, 0…0) = x", Promise::Exact, drop_zero_pad},
    {"identity-transpose", "Transpose", "Transpose{perm = 0, 1, …}(x) = x", Promise::Exact, drop_identity_transpose},
    {"compose-transposes", "Transpose", "Transpose{p}(Transpose{q}(x)) = Transpose{q∘p}(x)", Promise::Exact,
     compose_transposes},
    {"cancel-views-reshape", "Reshape", "a chain of views back to x's shape = x", Promise::Exact, cancel_views},
    {"cancel-views-flatten", "Flatten", "a chain of views back to x's shape = x", Promise::Exact, cancel_views},
    {"cancel-views-squeeze", "Squeeze", "a chain of views back to x's shape = x", Promise::Exact, cancel_views},
    {"cancel-views-unsqueeze", "Unsqueeze", "a chain of views back to x's shape = x", Promise::Exact, cancel_views},
    {"compose-reshapes", "Reshape", "Reshape(view(x), s) = Reshape(x, s)", Promise::Exact, compose_reshapes},
    {"known-branch", "Switch", "Switch(true, f, g) = f", Promise::Exact, choose_known_branch},
};

size_t run(PassContext& context) {
  const PassOptions& options = context.options;
  auto rules = options.rules ? options.rules : standard_rules(context.module.context());
  return rewrite::apply_rules(*rules, options.rewriting(), context.inference, context.remarks, kSimplify.name);
}

}  // namespace

std::shared_ptr<rewrite::RuleSet> standard_rules(Context& context) {
  auto rules = std::make_shared<rewrite::RuleSet>(context);
  for (const rewrite::RuleFile& file : rewrite::rule_files())
    rules->read(file.text, fmt::format("rules/{}", file.name));
  rules->add(kRules);
  return rules;
}

const Pass kSimplify{"simplify", "algebraic rules", "operators that change nothing, pairs that cancel", run};

}  // namespace anfora::passes

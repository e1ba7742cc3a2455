#include "analysis/ordering.h"

#include <algorithm>

#include "support/element_types.h"

namespace anfora::analysis {

using namespace ir;

namespace {

bool is_float_application(const Apply& node) {
  const Type* type = node.type();
  return type && type->is_tensor() && is_float(type->dtype());
}

// Whether its result broadcasts with its operand.
bool keeps_axes(const Apply& reduction) { return reduction.attributes().get_int("keepdims", 1) != 0; }

template <class Predicate>
bool any_operand(const Apply& node, Predicate predicate) {
  return std::ranges::any_of(node.operands(), [&](const Use& use) { return use.node && predicate(use.node); });
}
template <class Predicate>
bool all_operands(const Apply& node, Predicate predicate) {
  return std::ranges::all_of(node.operands(), [&](const Use& use) { return use.node && predicate(use.node); });
}

}  // namespace

bool Ordering::at_most(const Node* a, const Node* b) {
  steps_ = kMostSteps;
  return below(a, b);
}

bool Ordering::below(const Node* a, const Node* b) {
  if (a == b) return true;
  if (!a || !b || --steps_ < 0) return false;
  if (ranges_.range(a).high <= ranges_.range(b).low) return true;
  const Apply *x = a->as_apply(), *y = b->as_apply();
  const bool follows_x = x && x->primitive() == Primitive::Operation && x->num_outputs() == 1;
  const bool follows_y = y && y->primitive() == Primitive::Operation && y->num_outputs() == 1;
  return (follows_x && follows_y && below_by_both(*x, *y)) || (follows_x && below_by_left(*x, b)) ||
         (follows_y && below_by_right(a, *y));
}

bool Ordering::below_by_both(const Apply& a, const Apply& b) {
  if (&a.op() != &b.op() || &a.attributes() != &b.attributes() || a.num_inputs() != b.num_inputs()) return false;
  auto below_at = [&](size_t i) { return below(a.input(i), b.input(i)); };
  if (a.op().rising) return below_at(0);
  if (a.is("Neg") && is_float_application(a)) return below(b.input(0), a.input(0));
  if (a.is("Where") && a.input(0) == b.input(0)) return below_at(1) && below_at(2);
  if (a.is("Add") && is_float_application(a))
    return (below_at(0) && below_at(1)) || (below(a.input(0), b.input(1)) && below(a.input(1), b.input(0)));
  if (a.is("Sub") && is_float_application(a)) return below_at(0) && below(b.input(1), a.input(1));
  const bool scales = a.is("Mul") || a.is("Div");
  if (scales && is_float_application(a) && a.input(1) == b.input(1) && is_at_least(a.input(1), 0)) return below_at(0);
  return false;
}

// By what is not below `a`.
bool Ordering::below_by_left(const Apply& a, const Node* b) {
  auto below_b = [&](const Node* x) { return below(x, b); };
  if (a.is("Min")) return any_operand(a, below_b);
  if (a.is("Max")) return all_operands(a, below_b);
  if (a.is("Where")) return below_b(a.input(1)) && below_b(a.input(2));
  if (a.is("ReduceMin") && keeps_axes(a)) return below_b(a.input(0));
  if (a.is("Clip")) {
    const bool by_most = a.has_input(2) && below_b(a.input(2));
    return by_most || (below_b(a.input(0)) && (!a.has_input(1) || below_b(a.input(1))));
  }
  if (!is_float_application(a)) return false;
  if (a.op().at_most_operand) return below_b(a.input(0));
  if (a.is("Relu")) return is_at_least(b, 0) && below_b(a.input(0));
  if (a.is("Tanh")) return is_at_least(a.input(0), 0) && below_b(a.input(0));
  if (a.is("Add"))
    return (is_at_most(a.input(1), 0) && below_b(a.input(0))) || (is_at_most(a.input(0), 0) && below_b(a.input(1)));
  if (a.is("Sub")) return is_at_least(a.input(1), 0) && below_b(a.input(0));
  if (a.is("Mul") && is_at_least(a.input(0), 0)) return is_at_most(a.input(1), 1) && below_b(a.input(0));
  if (a.is("Div") && is_at_least(a.input(0), 0)) return is_at_least(a.input(1), 1) && below_b(a.input(0));
  return false;
}

// By what is not above `b`.
bool Ordering::below_by_right(const Node* a, const Apply& b) {
  auto above_a = [&](const Node* x) { return below(a, x); };
  if (b.is("Max")) return any_operand(b, above_a);
  if (b.is("Min")) return all_operands(b, above_a);
  if (b.is("Where")) return above_a(b.input(1)) && above_a(b.input(2));
  if (b.is("ReduceMax") && keeps_axes(b)) return above_a(b.input(0));
  if (b.is("Clip")) {
    if (b.has_input(2) && !above_a(b.input(2))) return false;
    return above_a(b.input(0)) || (b.has_input(1) && above_a(b.input(1)));
  }
  if (!is_float_application(b)) return false;
  if (b.op().at_least_operand) return above_a(b.input(0));
  if (b.is("Pow")) {
    constexpr double kSteep = 1.5;  // cˣ ≥ x for c ≥ e^(1/e), which is 1.44…; xˣ ≥ x
    return (b.input(0) == b.input(1) || is_at_least(b.input(0), kSteep)) && above_a(b.input(1));
  }
  if (b.is("Add"))
    return (is_at_least(b.input(1), 0) && above_a(b.input(0))) || (is_at_least(b.input(0), 0) && above_a(b.input(1)));
  if (b.is("Sub")) return is_at_most(b.input(1), 0) && above_a(b.input(0));
  if (b.is("Mul") && is_at_least(b.input(0), 0)) return is_at_least(b.input(1), 1) && above_a(b.input(0));
  return false;
}

}  // namespace anfora::analysis

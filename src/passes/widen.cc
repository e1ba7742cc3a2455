// Arithmetic of half precision (f16, bf16) in f32.
//
// A CPU has no arithmetic of half precision: every kernel widens its operands, computes in f32 and narrows its result.
// Here the conversions become visible, so that those between two operators go away, weights are widened once, and what is
// known for f32 only (packed products, epilogues, layouts) applies:
//
//     x ─▶ MatMul ─▶ Add ─▶ Relu       x ─▶ Cast ─▶ MatMul ─▶ Add ─▶ Relu ─▶ Cast ─▶
//         f16      f16    f16      becomes       f32      f32    f32     f16
//
// Results between operators are no longer rounded to half precision, which can only bring them nearer to the exact ones;
// that is why it is a `real` rewrite. A conversion there and back that the model itself asks for does round, and stays.
// What moves elements without computing stays as it is and moves half as many bytes. One walk over the module.
//
// The same from f32 to f64 tells how far from the exact results a model is, which is what a check may want to know.
#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>
#include <vector>

#include "ir/clone.h"
#include "ir/order.h"
#include "passes/pass.h"
#include "rewrite/admission.h"

namespace anfora::passes {

extern const Pass kWiden, kWidenSingle;

namespace {

using namespace ir;

bool computes(const Operator& op) { return op.domain.empty() && op.effect == Effect::Pure && op.widens; }

class Widening {
 public:
  Widening(PassContext& context, DType to)
      : context_(context), module_(context.module), to_(to), cast_(module_.context().get_operator("Cast")) {}

  size_t run() {
    size_t changes = 0;
    const ModuleOrder order = topological_order(module_);
    for (const GraphOrder& graph : order.graphs) {
      for (Apply* node : graph.nodes) {  // operands first, so that what they are rounded from is known
        if (node->primitive() != Primitive::Operation) continue;
        if (node->is("Cast")) {
          changes += skip_rounding(*node);
        } else if (has_narrow_results(*node) && computes(node->op())) {
          changes += widen(*node);
        }
      }
    }
    return changes;
  }

 private:
  bool is_narrow(const Type* type) const {
    if (!type || !type->is_tensor()) return false;
    if (to_ == DType::F64) return type->dtype() == DType::F32;
    return type->dtype() == DType::F16 || type->dtype() == DType::BF16;
  }

  bool has_narrow_results(const Apply& node) const {
    if (node.num_outputs() == 1 || !node.type()) return is_narrow(node.type());
    return std::ranges::any_of(node.type()->elements(), [&](const Type* type) { return is_narrow(type); });
  }

  // The result of an application, back in its precision.
  Apply* narrowed(Node* result, DType to, const Apply& node) {
    Apply* made = cast(result, to, node.graph(), node.location());
    narrowed_.insert(made);
    return made;
  }

  Apply* cast(Node* value, DType to, Graph* graph, const Location* location) {
    Apply* made = module_.apply(graph, cast_, {&value, 1}, {{"to", static_cast<int64_t>(to)}}, 1, location);
    context_.inference.infer(*made);
    return made;
  }

  // The wide value that `value` is rounded from, else null.
  Node* unrounded(Node* value) const {
    Apply* apply = value->as_apply();
    if (!apply || !apply->is("Cast") || !is_narrow(apply->type())) return nullptr;
    const Type* from = apply->input(0)->type();
    return from && from->is_tensor() && from->dtype() == to_ ? apply->input(0) : nullptr;
  }

  // Cast{f32}(Cast{f16}(x)) => x, where the inner one rounds a result that was computed in f32 here.
  size_t skip_rounding(Apply& node) {
    Node* source = narrowed_.contains(node.input(0)) ? unrounded(node.input(0)) : nullptr;
    if (!source || !node.type()->is_tensor() || node.type()->dtype() != to_) return 0;
    context_.remarks.applied(kWiden.name, "skip-rounding", node);
    module_.replace(&node, source);
    return 1;
  }

  Node* widened(Node* value, const Apply& user) {
    if (!is_narrow(value->type())) return value;
    if (Node* source = unrounded(value)) return source;
    return cast(value, to_, user.graph(), user.location());
  }

  size_t widen(Apply& node) {
    Apply* made = copy_of(module_, node, node.graph(), operands_of(node, [&](Node* operand) { return widened(operand, node); }));
    if (!rewrite::why_not_typed(context_.inference, *made).empty()) {  // not every operator takes f64
      module_.erase_with_dead_operands(made);
      return 0;
    }
    context_.remarks.applied(kWiden.name, to_ == DType::F64 ? "compute-in-f64" : "compute-in-f32", node);
    if (node.num_outputs() == 1) {
      module_.replace(&node, narrowed(made, node.type()->dtype(), node));
      return 1;
    }
    std::vector<Node*> items;
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      Node* item = module_.tuple_item(node.graph(), made, i);
      item->set_type(made->type()->element(i));
      const Type* type = node.type()->element(i);
      items.push_back(is_narrow(type) ? narrowed(item, type->dtype(), node) : item);
    }
    Apply* tuple = module_.make_tuple(node.graph(), items);
    tuple->set_type(node.type());
    module_.replace(&node, tuple);
    return 1;
  }

  PassContext& context_;
  Module& module_;
  const DType to_;
  const Operator& cast_;
  boost::unordered_flat_set<const Node*> narrowed_;
};

template <DType To>
size_t run_widen(PassContext& context) {
  return context.options.math == rewrite::Promise::Real ? Widening(context, To).run() : 0;
}

}  // namespace

const Pass kWiden{"widen", "half precision in f32", "rounded where it is stored", run_widen<DType::F32>};
const Pass kWidenSingle{"widen-single", "f32 in f64", "to judge rounding", run_widen<DType::F64>};

}  // namespace anfora::passes

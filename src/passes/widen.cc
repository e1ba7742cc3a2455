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
#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <vector>

#include "ir/order.h"
#include "passes/pass.h"

namespace anfora::passes {
namespace {

using namespace ir;

bool is_half(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }
bool is_half(const Type* type) { return type && type->is_tensor() && is_half(type->dtype()); }

// What computes, but is not told by its fusion kind.
constexpr std::string_view kArithmetic[] = {"AveragePool",
                                            "BatchNormalization",
                                            "CumSum",
                                            "Einsum",
                                            "GRU",
                                            "GlobalAveragePool",
                                            "GridSample",
                                            "GlobalLpPool",
                                            "GlobalMaxPool",
                                            "GroupNormalization",
                                            "InstanceNormalization",
                                            "LRN",
                                            "LSTM",
                                            "LayerNormalization",
                                            "LogSoftmax",
                                            "LpNormalization",
                                            "LpPool",
                                            "MaxPool",
                                            "MeanVarianceNormalization",
                                            "RMSNormalization",
                                            "RNN",
                                            "Resize",
                                            "Softmax"};
// What moves or converts, although its fusion kind is that of arithmetic.
constexpr std::string_view kMoving[] = {"Cast", "DequantizeLinear", "Expand", "QuantizeLinear", "Where"};

bool is_arithmetic(const Operator& op) {
  if (!op.domain.empty() || op.effect != Effect::Pure) return false;
  switch (op.fusion) {
    case FusionKind::Elementwise:
    case FusionKind::Broadcast:
    case FusionKind::Reduction:
    case FusionKind::Anchor: return !std::ranges::count(kMoving, op.name);
    default: return std::ranges::count(kArithmetic, op.name) > 0;
  }
}

class Widening {
 public:
  explicit Widening(PassContext& context)
      : context_(context), module_(context.module), cast_(module_.context().get_operator("Cast")) {}

  size_t run() {
    // Operands first, so that what they are rounded from is known.
    LargeVector<Apply*> nodes;
    for (const GraphOrder& graph : topological_order(module_).graphs) {
      nodes.insert(nodes.end(), graph.nodes.begin(), graph.nodes.end());
    }
    size_t changes = 0;
    for (Apply* node : nodes) {
      if (node->primitive() != Primitive::Operation) continue;
      if (node->is("Cast")) {
        changes += skip_rounding(*node);
      } else if (has_half_results(*node) && is_arithmetic(node->op())) {
        widen(*node);
        ++changes;
      }
    }
    return changes;
  }

 private:
  static bool has_half_results(const Apply& node) {
    if (node.num_outputs() == 1) return is_half(node.type());
    return node.type() && std::ranges::any_of(node.type()->elements(), [](const Type* type) { return is_half(type); });
  }

  // The result of an application, back in half precision.
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

  // The f32 value that `value` is rounded from, else null.
  static Node* unrounded(Node* value) {
    Apply* apply = value->as_apply();
    if (!apply || !apply->is("Cast") || !is_half(apply->type())) return nullptr;
    const Type* from = apply->input(0)->type();
    return from && from->is_tensor() && from->dtype() == DType::F32 ? apply->input(0) : nullptr;
  }

  // Cast{f32}(Cast{f16}(x)) => x, where the inner one rounds a result that was computed in f32 here.
  size_t skip_rounding(Apply& node) {
    Node* source = narrowed_.contains(node.input(0)) ? unrounded(node.input(0)) : nullptr;
    if (!source || !node.type()->is_tensor() || node.type()->dtype() != DType::F32) return 0;
    context_.remarks.applied(kWiden.name, "skip-rounding", node);
    module_.replace(&node, source);
    return 1;
  }

  Node* widened(Node* value, const Apply& user) {
    if (!is_half(value->type())) return value;
    if (Node* source = unrounded(value)) return source;
    return cast(value, DType::F32, user.graph(), user.location());
  }

  void widen(Apply& node) {
    boost::container::small_vector<Node*, 4> inputs;
    for (const Use& use : node.operands()) inputs.push_back(widened(use.node, node));
    Apply* made = module_.apply(node.graph(), node.op(), {inputs.data(), inputs.size()}, node.attributes(),
                                node.num_outputs(), node.location(), node.name());
    context_.inference.infer(*made);
    context_.remarks.applied(kWiden.name, "compute-in-f32", node);
    if (node.num_outputs() == 1) {
      module_.replace(&node, narrowed(made, node.type()->dtype(), node));
      return;
    }
    std::vector<Node*> items;
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      Node* item = module_.tuple_item(node.graph(), made, i);
      item->set_type(made->type()->element(i));
      const Type* type = node.type()->element(i);
      items.push_back(is_half(type) ? narrowed(item, type->dtype(), node) : item);
    }
    Apply* tuple = module_.make_tuple(node.graph(), items);
    tuple->set_type(node.type());
    module_.replace(&node, tuple);
  }

  PassContext& context_;
  Module& module_;
  const Operator& cast_;
  boost::unordered_flat_set<const Node*> narrowed_;
};

size_t run(PassContext& context) {
  return context.options.math == rewrite::Promise::Real ? Widening(context).run() : 0;
}

}  // namespace

const Pass kWiden{"widen", "half precision in f32", "rounded where it is stored", run};

}  // namespace anfora::passes

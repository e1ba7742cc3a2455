// The driver: a worklist seeded with all applications in topological order. When a rule fires, the users of the new node,
// the node itself and the operands of the old one are looked at again, because their neighbourhood changed.
// With rules that each shrink a measure (rules/README.md), the list empties; a bound per node catches a pair of rules
// that undo each other.
#include "rewrite/rule.h"

#include <fmt/format.h>

#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <deque>
#include <vector>

#include "anfora/error.h"
#include "ir/order.h"

namespace anfora::rewrite {

using namespace ir;

namespace {

// Firings per node of the module at the start beyond which the rules are taken not to terminate.
constexpr size_t kMostFiringsPerNode = 16;

class Worklist : public Listener {
 public:
  void add(Node* node) {
    Apply* apply = node->as_apply();
    if (!apply || apply->is_erased() || apply->primitive() == Primitive::Return ||
        apply->primitive() == Primitive::Call)
      return;
    if (apply->id() >= queued_.size()) queued_.resize(apply->id() + apply->id() / 2 + 64);
    if (queued_[apply->id()]) return;
    queued_[apply->id()] = true;
    queue_.push_back(apply);
  }
  Apply* next() {
    while (!queue_.empty()) {
      Apply* node = queue_.front();
      queue_.pop_front();
      queued_[node->id()] = false;
      if (!node->is_erased()) return node;
    }
    return nullptr;
  }
  void on_created(Node& node) override { add(&node); }
  void on_operand_changed(Apply& user, size_t) override { add(&user); }

 private:
  std::deque<Apply*> queue_;
  std::vector<bool> queued_;
};

// A replacement must be usable wherever the old value was: same dtype; the shape may only become more precise.
bool fits(const Type* old_type, const Type* new_type) {
  if (old_type == new_type || !old_type || !new_type) return true;
  if (old_type->kind() != new_type->kind()) return false;
  if (!old_type->is_tensor()) return true;
  if (old_type->dtype() != new_type->dtype() && old_type->dtype() != DType::Undefined) return false;
  if (!old_type->has_rank() || !new_type->has_rank()) return true;
  if (old_type->rank() != new_type->rank()) return false;
  for (int i = 0; i < old_type->rank(); ++i) {
    if (provably_different(old_type->dim(i), new_type->dim(i))) return false;
  }
  return true;
}

}  // namespace

Apply* Rewriter::apply(std::string_view op, std::initializer_list<Node*> inputs, const AttributeSet& attributes) {
  return apply(context().get_operator(op), std::span<Node* const>(inputs.begin(), inputs.size()), attributes);
}

Apply* Rewriter::apply(const Operator& op, std::span<Node* const> inputs, const AttributeSet& attributes,
                       size_t num_outputs) {
  Apply* node = module_.apply(root_->graph(), op, inputs, attributes, num_outputs, root_->location());
  inference_.infer(*node);
  return node;
}

Value* Rewriter::integers(std::span<const int64_t> values) { return module_.constant(Tensor::vector<int64_t>(values)); }

size_t apply_rules(std::span<const Rule> rules, Promise weakest, analysis::Inference& inference, Remarks& remarks,
                   std::string_view pass) {
  Module& module = inference.module();
  boost::unordered_flat_map<const Operator*, boost::container::small_vector<const Rule*, 4>> by_operator;
  for (const Rule& rule : rules) {
    if (rule.promise <= weakest) by_operator[&module.context().get_operator(rule.op)].push_back(&rule);
  }
  Worklist worklist;
  for (const GraphOrder& graph : topological_order(module).graphs) {
    for (Apply* node : graph.nodes) worklist.add(node);
  }
  ListenerScope listening(module, worklist);
  Rewriter rewriter(module, inference);
  size_t fired = 0;
  const size_t most = kMostFiringsPerNode * (module.next_id() + 64);
  while (Apply* node = worklist.next()) {
    if (!node->has_uses()) {
      module.erase_with_dead_operands(node);
      continue;
    }
    if (!node->type()) continue;  // used by dead nodes only, which have no types
    auto candidates = by_operator.find(&node->op());
    if (candidates == by_operator.end()) continue;
    for (const Rule* rule : candidates->second) {
      remarks.tried(rule->name);
      rewriter.set_root(*node);
      Node* replacement = rule->apply(rewriter, *node);
      if (!replacement || replacement == node) continue;
      if (!fits(node->type(), replacement->type())) {
        throw Error(ErrorCode::Internal, fmt::format("rule {} turns {} into {}", rule->name, to_string(node->type()),
                                                     to_string(replacement->type())))
            .at_node(describe(*node));
      }
      if (++fired > most) {
        throw Error(ErrorCode::Internal,
                    fmt::format("the rules do not terminate; the last one that fired is {}", rule->name));
      }
      remarks.applied(pass, rule->name, *node);
      for (const Use& use : node->operands()) worklist.add(use.node);
      module.replace(node, replacement);
      for (const Use& use : replacement->uses()) worklist.add(use.user);
      module.erase_with_dead_operands(node);
      break;
    }
  }
  return fired;
}

}  // namespace anfora::rewrite

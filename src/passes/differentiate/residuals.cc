// Residuals: which values of a forward function its backward function is given, and which it computes again. All that the two compute without
// sensitivities is one graph, which a minimum cut parts:
//
//     %x ──▶ %p = Mul(%x, %x) ──▶ %c = Cos(%p) ──▶ Mul(%dy, %c)           given: %x, one value in the place of two; computed again: %p; and %c
//      └────────────────────────────────────────▶ Mul(…, %x)            is computed in the backward function alone
//
// A value that is given costs the time to write and read it; one that is computed again costs what its operator takes (analysis/cost.h). In a
// loop, where a value is given per iteration, it counts twice for the memory that it takes until then, and its push and pop are operators that
// have an overhead. Only elementwise operators and those that move elements are computed again; what the function is given anyway costs
// nothing. What only the backward function computes may move to the forward one: the size of a tensor in the place of the tensor. Of equally
// good cuts, that one is taken which computes least again.
//
// After "Minimum cut" partitioning of a joint graph in PyTorch's AOTAutograd; a cut is found in time nearly linear in practice.
#include <algorithm>

#include "analysis/cost.h"
#include "ir/clone.h"
#include "ir/order.h"
#include "passes/differentiate/differentiation.h"
#include "support/min_cut.h"

namespace anfora::passes::reverse {

using namespace ir;

namespace {

// Of what has no known rank, or is a sequence: items of a vector.
constexpr double kAssumedBytes = 8.0 * analysis::kAssumedDim;

double bytes_given(const Type* type) {
  if (!type) return kAssumedBytes;
  if (type->is_tuple()) {
    double total = 0;
    for (const Type* item : type->elements()) total += bytes_given(item);
    return total;
  }
  if (type->kind() == TypeKind::Sequence) return analysis::kAssumedDim * bytes_given(type->element());
  return type->is_tensor() && !type->has_rank() ? kAssumedBytes : analysis::bytes_of(type);
}

// Nanoseconds.
int64_t cost_of_giving(const Type* type, bool is_loop) {
  constexpr double kTimes = 2, kTimesInLoop = 4;  // that its bytes count
  constexpr double kOperators = 3;                // that push and pop it
  const double bytes = bytes_given(type), us = analysis::estimate_us(bytes), overhead_us = analysis::estimate_us(0);
  const double leaves = static_cast<double>(leaf_types(type).size());
  const double cost_us = is_loop ? kTimesInLoop * (us - overhead_us) + kOperators * leaves * overhead_us : kTimes * (us - overhead_us);
  return static_cast<int64_t>(1000 * cost_us + leaves);
}

bool is_repeatable(const Apply& node) {
  if (node.primitive() == Primitive::TupleGetItem || node.primitive() == Primitive::MakeTuple) return true;
  if (node.primitive() != Primitive::Operation || node.op().effect != Effect::Pure) return false;
  switch (node.op().fusion) {
    case FusionKind::Elementwise:
    case FusionKind::Broadcast:
    case FusionKind::Injective:
    case FusionKind::View: return true;
    default: return false;
  }
}

class Partition {
 public:
  Partition(Module& module, analysis::Inference& inference, const Body& body, const Mask& is_free, bool is_loop)
      : module_(module), inference_(inference), forward_(*body.forward), backward_(*body.backward), is_free_(is_free), is_loop_(is_loop) {}

  void run() {
    find_primal();
    for (Apply* node : topological_order(backward_)) {
      for (const Use& use : node->operands()) {
        if (!primal_.contains(node)) need(use.node);
      }
    }
    if (places_.empty()) return;
    is_backward_ = cut_.solve();
    // Users first, so that what moves or is copied is looked at once.
    for (Apply* node : topological_order(backward_)) {
      for (size_t i = 0; i < node->num_inputs(); ++i) {
        if (primal_.contains(node) && is_given(node)) break;
        module_.set_operand(node, i, in_backward(node->input(i)));
      }
    }
  }

 private:
  // What the backward function computes of forward values alone.
  void find_primal() {
    for (Apply* node : topological_order(backward_)) {
      const bool is_pure = node->primitive() == Primitive::TupleGetItem || node->primitive() == Primitive::MakeTuple ||
                           (node->primitive() == Primitive::Operation && node->op().effect == Effect::Pure);
      if (!is_pure) continue;
      const bool is_primal = std::ranges::all_of(node->operands(), [&](const Use& use) {
        return !use.node->graph() ? !constant_function(use.node) : is_visible(use.node);
      });
      if (is_primal && node->num_inputs() > 0) primal_.insert(node);
    }
  }
  // Among what both functions can compute.
  bool is_visible(const Node* node) const { return node->graph() == &forward_ || primal_.contains(node); }

  struct Place {
    size_t in, out;  // of the graph that is cut; on the way, the value is given
  };
  Place& place(Node* node) {
    auto [at, is_new] = places_.try_emplace(node);
    if (!is_new) return at->second;
    const Place made = at->second = {cut_.add_node(), cut_.add_node()};
    const Parameter* parameter = node->as_parameter();
    const Apply* apply = node->as_apply();
    const bool is_free = parameter && is_free_[parameter->index()];
    const bool has_items = apply && apply->primitive() == Primitive::Call && !node->type();  // and these are given
    cut_.add_edge(made.in, made.out, is_free ? 0 : has_items ? MinCut::kNever : cost_of_giving(node->type(), is_loop_));
    const bool is_primal = primal_.contains(node);
    const bool is_computable = is_primal || (apply && is_repeatable(*apply));
    const double us = is_primal ? 0 : is_computable ? analysis::run_us(inference_, *apply) : 0;
    cut_.add_edge(MinCut::kSource, made.in, is_computable ? static_cast<int64_t>(1000 * us) : MinCut::kNever);
    if (is_primal) cut_.add_edge(made.in, MinCut::kSink, 1);  // it stays where it is, if all else is equal
    for (size_t i = 0; is_computable && i < apply->num_inputs(); ++i) {
      Node* operand = apply->input(i);
      if (is_visible(operand)) cut_.add_edge(place(operand).out, made.in, MinCut::kNever);
    }
    return places_.at(node);
  }
  void need(Node* node) {
    if (is_visible(node)) cut_.add_edge(place(node).out, MinCut::kSink, MinCut::kNever);
  }
  bool is_given(const Node* node) const {
    auto found = places_.find(node);
    return found != places_.end() && !is_backward_[found->second.in];
  }

  // The value as the backward function has it.
  Node* in_backward(Node* node) {
    if (!places_.contains(node)) return node;
    if (auto known = images_.find(node); known != images_.end()) return known->second;
    Apply* apply = node->as_apply();
    Node* image = node;
    if (is_given(node)) {
      image = primal_.contains(node) ? in_forward(node) : node;
    } else if (!primal_.contains(node)) {
      image = copy_of(module_, *apply, &backward_, operands_of(*apply, [&](Node* operand) { return in_backward(operand); }));
    }
    return images_[node] = image;
  }
  // … as the forward function has it.
  Node* in_forward(Node* node) {
    if (!primal_.contains(node)) return node;
    if (auto known = forward_images_.find(node); known != forward_images_.end()) return known->second;
    const Apply& apply = *node->as_apply();
    return forward_images_[node] = copy_of(module_, apply, &forward_, operands_of(apply, [&](Node* operand) { return in_forward(operand); }));
  }

  Module& module_;
  analysis::Inference& inference_;
  Graph &forward_, &backward_;
  const Mask& is_free_;
  const bool is_loop_;
  boost::unordered_flat_set<const Node*> primal_;
  MinCut cut_;
  std::vector<bool> is_backward_;  // by node of the cut
  boost::unordered_flat_map<const Node*, Place> places_;
  boost::unordered_flat_map<const Node*, Node*> images_, forward_images_;
};

}  // namespace

void Differentiation::choose_residuals(const Body& body, const Mask& is_free, bool is_loop) {
  Partition(module_, context_.inference, body, is_free, is_loop).run();
}

}  // namespace anfora::passes::reverse

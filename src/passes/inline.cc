// Inlining: the body of a function takes the place of a call of it. It is what lets all other passes see across functions,
// and frees the caller from knowing shapes and constants only at run time.
//
//     %r = call @f(%x, 2.0)                            →      %r = Mul(Relu(%x), 2.0)
//     graph @f(%a, %b) { return Mul(Relu(%a), %b) }
//
// Which calls: those whose callee is known (a function, or a Switch on a constant) and not recursive, when the function is
// used only there, or when its body is small. A recursive function is a loop, and stays one; and so do the branches of a
// Switch on a value, since inlining both would compute both.
//
// A function that is used once is moved, not copied, callers first, so that each application moves once, to where it
// stays. Then the small ones are copied, callees first, so that a body is in its final form when it is copied: what is
// written in all is at most kMostCopied applications for each call that there was.
//
// A closure that only hands its arguments on to a function that it captures is that function (eta reduction), where it is a value: in a
// tuple, or as an argument or result.
//
//     (%y, @f)   graph @f(%a) { return call %g(%a) }         →      (%y, %g)
#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <ranges>
#include <utility>
#include <vector>

#include "analysis/calls.h"
#include "ir/clone.h"
#include "ir/order.h"
#include "passes/pass.h"

namespace anfora::passes {

extern const Pass kInline;

namespace {

using namespace ir;

constexpr std::string_view kCall = "inline-call";
constexpr std::string_view kBranch = "known-callee";
constexpr std::string_view kEta = "eta-reduced";

// Applications of a body, nested functions included, up to which it is copied to each of several calls. A layer of a
// transformer, written as a function of the model, has some 50 to 150.
constexpr size_t kMostCopied = 256;

class Inliner {
 public:
  explicit Inliner(PassContext& context)
      : context_(context), module_(context.module), calls_(topological_order(module_, Coverage::All)) {}

  size_t run() {
    for (Graph* graph : module_.graphs()) {
      if (graph->parent()) nested_[graph->parent()].push_back(graph);
    }
    for (Graph* graph : calls_.graphs | std::views::reverse) {
      if (!unused_.contains(graph)) absorb_callees(*graph);
    }
    for (Graph* graph : calls_.graphs) {
      if (!unused_.contains(graph)) copy_callees(*graph);
    }
    for (Graph* graph : calls_.graphs) {
      if (!unused_.contains(graph)) reduce(*graph);
    }
    if (!unused_.empty()) erase_unused();
    return changes_;
  }

 private:
  // The function that is called. A Switch whose condition is known is replaced by the branch that it takes.
  Graph* callee_of(Apply& call) {
    if (Apply* choice = call.input(0)->as(Primitive::Switch)) {
      Node* taken = context_.inference.taken_branch(*choice);
      if (!taken) return nullptr;
      module_.set_operand(&call, 0, taken);
      context_.remarks.applied(kInline.name, kBranch, call);
      if (!choice->has_uses()) module_.erase(choice);
      ++changes_;
    }
    Graph* callee = constant_function(call.input(0));
    return callee && callee->return_node() ? callee : nullptr;
  }

  // Functions used once, here. What they call in turn comes to the end of the list of applications.
  void absorb_callees(Graph& graph) {
    for (Apply *node = graph.first_node(), *next; node; node = next) {
      Graph* callee = node->primitive() == Primitive::Call ? callee_of(*node) : nullptr;
      bool absorbed = callee && callee->value()->has_one_use() && !calls_.is_recursive(callee);
      if (absorbed) move_body(*callee, graph, node->location());
      next = node->next_in_graph();
      if (absorbed) finish_absorbing(*node, *callee);
    }
  }

  void move_body(Graph& callee, Graph& into, const Location* call) {
    locate(callee, call);
    for (Apply *node = callee.first_node(), *next; node; node = next) {
      next = node->next_in_graph();
      if (node != callee.return_node()) module_.move(node, &into);
    }
    std::vector<Graph*> nested = std::exchange(nested_[&callee], {});
    for (Graph* graph : nested) module_.set_parent(graph, &into);
    auto& siblings = nested_[&into];
    siblings.insert(siblings.end(), nested.begin(), nested.end());
  }

  // All that was written in a function says where the function was inlined.
  void locate(Graph& function, const Location* call) {
    std::vector<Graph*> pending{&function};
    while (!pending.empty()) {
      Graph* graph = pending.back();
      pending.pop_back();
      for (Parameter* p : graph->parameters()) p->set_location(module_.inlined(p->location(), call));
      for (Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
        node->set_location(module_.inlined(node->location(), call));
      }
      if (auto found = nested_.find(graph); found != nested_.end()) {
        pending.insert(pending.end(), found->second.begin(), found->second.end());
      }
    }
  }

  void finish_absorbing(Apply& call, Graph& callee) {
    context_.remarks.tried(kCall);
    context_.remarks.applied(kInline.name, kCall, call, fmt::format("@{}, used once", callee.name()));
    for (size_t i = 0; i < callee.parameters().size(); ++i) {
      while (callee.parameter(i)->has_uses()) {
        const Use& use = *callee.parameter(i)->uses().begin();
        module_.set_operand(use.user, use.index(), call.input(i + 1));
      }
    }
    Node* result = callee.result();
    bool is_own = result->is_apply() && result->graph() == call.graph();
    module_.erase(callee.return_node());
    // The caller's name for the value is the one that a reader of the caller knows.
    if (is_own && !call.name().empty()) module_.set_name(result, call.name());
    module_.replace(&call, result);
    module_.erase(&call);
    unused_.insert(&callee);
    ++changes_;
  }

  void copy_callees(Graph& graph) {
    std::vector<Apply*> calls;
    for (Apply* node = graph.first_node(); node; node = node->next_in_graph()) {
      if (node->primitive() == Primitive::Call) calls.push_back(node);
    }
    for (Apply* call : calls) {
      Graph* callee = callee_of(*call);
      if (!callee) continue;
      context_.remarks.tried(kCall);
      std::string reason = why_not(*callee);
      if (!reason.empty()) {
        context_.remarks.refused(kInline.name, kCall, *call, std::move(reason));
        continue;
      }
      context_.remarks.applied(kInline.name, kCall, *call, fmt::format("@{}, small", callee->name()));
      inline_call(module_, call, *callee);
      if (!callee->value()->has_uses()) unused_.insert(callee);
      ++changes_;
    }
  }

  std::string why_not(const Graph& callee) {
    if (calls_.is_recursive(&callee)) return fmt::format("@{} is recursive", callee.name());
    size_t size = size_of(callee);
    if (size <= kMostCopied || callee.value()->has_one_use()) return "";
    return fmt::format("@{} is called elsewhere, too, and has {} applications; at most {} are copied", callee.name(),
                       size, kMostCopied);
  }

  // Of a body with the functions nested in it, as it is now.
  size_t size_of(const Graph& graph) {
    for (; next_copy_ < module_.graphs().size(); ++next_copy_) {  // functions that came with copies
      Graph* copy = module_.graphs()[next_copy_];
      if (copy->parent()) nested_[copy->parent()].push_back(copy);
    }
    size_t size = 0;
    std::vector<const Graph*> pending{&graph};
    while (!pending.empty()) {
      const Graph* next = pending.back();
      pending.pop_back();
      size += next->num_nodes();
      if (auto found = nested_.find(next); found != nested_.end()) {
        pending.insert(pending.end(), found->second.begin(), found->second.end());
      }
    }
    return size;
  }

  // The function that a closure hands its arguments on to, if that is all it does.
  static Node* forwarded(const Graph& graph) {
    const Apply* call = graph.return_node() ? graph.result()->as(Primitive::Call) : nullptr;
    if (!call || call->graph() != &graph || call->num_inputs() != graph.parameters().size() + 1) return nullptr;
    for (size_t i = 0; i < graph.parameters().size(); ++i) {
      if (call->input(i + 1) != graph.parameter(i)) return nullptr;
    }
    Node* callee = call->input(0);
    return callee->graph() && !callee->graph()->is_inside(&graph) ? callee : nullptr;
  }

  void reduce(Graph& closure) {
    Node* function = forwarded(closure);
    if (!function) return;
    std::vector<const Use*> values;
    for (const Use& use : closure.value()->uses()) {
      const Primitive user = use.user->primitive();
      if (user == Primitive::MakeTuple || user == Primitive::Return || (user == Primitive::Call && use.index() > 0)) values.push_back(&use);
    }
    for (const Use* use : values) {
      context_.remarks.applied(kInline.name, kEta, *use->user, fmt::format("@{}", closure.name()));
      module_.set_operand(use->user, use->index(), function);
      ++changes_;
    }
    if (values.empty()) return;
    context_.inference.forget(closure);
    if (!closure.value()->has_uses()) unused_.insert(&closure);
  }

  // Functions without a use left, with those still nested in them. They would be dead code, but their uses of outer nodes
  // would keep rules from firing that want a node for themselves.
  void erase_unused() {
    std::vector<Graph*> dead;
    for (Graph* graph : module_.graphs()) {
      for (const Graph* g = graph; g; g = g->parent()) {
        if (!unused_.contains(g)) continue;
        dead.push_back(graph);
        break;
      }
    }
    module_.erase_dead({}, dead);
  }

  PassContext& context_;
  Module& module_;
  analysis::CallOrder calls_;
  boost::unordered_flat_map<const Graph*, std::vector<Graph*>> nested_;  // directly
  size_t next_copy_ = module_.graphs().size();                           // graphs before this one are in nested_
  boost::unordered_flat_set<const Graph*> unused_;
  size_t changes_ = 0;
};

size_t run_inline(PassContext& context) { return context.module.graphs().size() > 1 ? Inliner(context).run() : 0; }

}  // namespace

const Pass kInline{"inline", "inlining", "inline functions that are called once, and small ones", run_inline};

}  // namespace anfora::passes

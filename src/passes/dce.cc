// Dead code: whatever main's result does not depend on, down to single parameters of functions.
//
// Liveness is reachability from main's return node over operands and, at a function value, over the function's return
// node. An argument of a call is reached only when the parameter is that it is given to, so that what a loop carries from
// round to round only to compute itself is dead:
//
//     graph @loop(%i, %v, %w) { … Switch(Less(%i, 5), @body, @done) … }
//     graph @body() in @loop { return call @loop(Add(%i, 1), Neg(%v), Exp(%w)) }          %w and Exp are dead
//     graph @done() in @loop { return %v }
//
// That needs all calls of the function to be known. Functions that a Switch chooses from are called with the same
// arguments, and lose parameters together (union-find); a function that is passed on or kept in a tuple loses none. One
// traversal, linear.
#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <utility>
#include <vector>

#include "analysis/calls.h"
#include "ir/clone.h"
#include "passes/pass.h"
#include "support/union_find.h"

namespace anfora::passes {

extern const Pass kDce;

namespace {

using namespace ir;

constexpr std::string_view kFunction = "dead-function";
constexpr std::string_view kParameter = "dead-parameter";

// Functions that are called by the same calls.
struct Signature {
  bool all_calls_known = true;
  std::vector<bool> live;                   // by parameter: in any of the functions
  std::vector<std::vector<Node*>> waiting;  // by parameter: arguments that live if it does
};

class DeadCode {
 public:
  explicit DeadCode(PassContext& context) : context_(context), module_(context.module), live_(module_.next_id()),
        called_alike_(module_.graphs().size()),
        signatures_(module_.graphs().size()) {}

  size_t run() {
    find_signatures();
    mark();
    drop_arguments();
    erase();
    drop_parameters();
    return changes_;
  }

 private:
  // Who calls whom ----------------------------------------------------------------------------------------
  Signature& signature_of(const Graph* graph) { return signatures_[called_alike_.find(index_.at(graph))]; }

  void find_signatures() {
    for (const Graph* graph : module_.graphs()) index_.emplace(graph, index_.size());
    signature_of(module_.main()).all_calls_known = false;
    for (const Graph* graph : module_.graphs()) {
      for (const Use& use : graph->value()->uses()) {
        if (is_callee(use)) continue;
        const Apply* choice = use.user->primitive() == Primitive::Switch ? use.user : nullptr;
        const Graph* f = choice ? constant_function(choice->input(1)) : nullptr;
        const Graph* g = choice ? constant_function(choice->input(2)) : nullptr;
        if (!f || !g || !std::ranges::all_of(choice->uses(), is_callee)) {
          signature_of(graph).all_calls_known = false;
        } else {
          unite(f, g);
        }
      }
    }
    for (const Graph* graph : module_.graphs()) {
      Signature& shared = signature_of(graph);
      shared.live.resize(std::max(shared.live.size(), graph->parameters().size()));
      shared.waiting.resize(shared.live.size());
    }
  }
  static bool is_callee(const Use& use) { return use.user->primitive() == Primitive::Call && use.index() == 0; }
  void unite(const Graph* f, const Graph* g) {
    signature_of(f).all_calls_known &= signature_of(g).all_calls_known;
    called_alike_.unite(index_.at(f), index_.at(g));
  }

  // The signature of what is called; null where that is not known.
  Signature* callee_signature(const Apply& call) {
    const Node* callee = call.input(0);
    if (const Apply* choice = callee->as(Primitive::Switch)) callee = choice->input(1);
    const Graph* graph = constant_function(callee);
    Signature* signature = graph ? &signature_of(graph) : nullptr;
    return signature && signature->all_calls_known ? signature : nullptr;
  }

  // What lives --------------------------------------------------------------------------------------------
  void reach(Node* node) {
    if (live_[node->id()]) return;
    live_[node->id()] = true;
    num_live_ += node->is_apply();
    prefetch_before(*node);
    pending_.push_back(node);
  }

  void mark() {
    reach(module_.main()->return_node());
    while (!pending_.empty()) {
      Node* node = pending_.back();
      pending_.pop_back();
      if (Graph* graph = constant_function(node)) {
        if (graph->return_node()) reach(graph->return_node());
      } else if (Parameter* parameter = node->as_parameter()) {
        Signature& signature = signature_of(parameter->graph());
        signature.live[parameter->index()] = true;
        for (Node* argument : std::exchange(signature.waiting[parameter->index()], {})) reach(argument);
      } else if (Apply* apply = node->as_apply()) {
        Signature* signature = apply->primitive() == Primitive::Call ? callee_signature(*apply) : nullptr;
        for (size_t i = 0; i < apply->num_inputs(); ++i) {
          if (signature && i > 0 && !signature->live[i - 1]) {
            signature->waiting[i - 1].push_back(apply->input(i));
          } else {
            reach(apply->input(i));
          }
        }
      }
    }
  }

  // What does not -----------------------------------------------------------------------------------------
  bool is_dead(const Graph* graph) const { return graph != module_.main() && !live_[graph->value()->id()]; }

  // Calls without the arguments that nobody reads take the place of those with them.
  void drop_arguments() {
    auto may_lose_some = [&](const Graph* graph) { return signature_of(graph).all_calls_known; };
    if (std::ranges::none_of(module_.graphs(), may_lose_some)) return;
    for (Graph* graph : module_.graphs()) {
      if (is_dead(graph)) continue;
      for (Apply *node = graph->first_node(), *next; node; node = next) {
        next = node->next_in_graph();
        if (node->id() >= live_.size() || !live_[node->id()] || node->primitive() != Primitive::Call) continue;
        Signature* signature = callee_signature(*node);
        if (!signature) continue;
        Operands inputs{node->input(0)};
        for (size_t i = 1; i < node->num_inputs(); ++i) {
          if (signature->live[i - 1]) inputs.push_back(node->input(i));
        }
        if (inputs.size() < node->num_inputs()) with_operands(module_, *node, inputs);
      }
    }
  }

  void erase() {
    size_t listed = 0;
    for (const Graph* graph : module_.graphs()) listed += graph->num_nodes();
    if (listed == num_live_) return;
    LargeVector<Apply*> dead;
    std::vector<Graph*> dead_graphs;
    for (Graph* graph : module_.graphs()) {
      if (is_dead(graph)) {
        dead_graphs.push_back(graph);
        changes_ += graph->num_nodes();
        context_.remarks.applied(kDce.name, kFunction, *graph->value(),
                                 fmt::format("@{} is never called", graph->name()));
        continue;
      }
      for (Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
        if (node->id() < live_.size() && !live_[node->id()]) dead.push_back(node);
      }
    }
    for (Apply* node : dead) {
      rewrite::Remark* remark = context_.remarks.applied(kDce.name, kDce.name, *node);
      if (remark && node->type()) remark->before = rewrite::work_of(context_.inference, *node);
    }
    changes_ += dead.size();
    module_.erase_dead(dead, dead_graphs);
  }

  void drop_parameters() {
    for (Graph* graph : module_.graphs()) {
      Signature& signature = signature_of(graph);
      if (!signature.all_calls_known) continue;
      size_t before = graph->parameters().size();
      for (size_t i = before; i-- > 0;) {
        if (signature.live[i]) continue;
        Parameter* parameter = graph->parameter(i);
        context_.remarks.applied(kDce.name, kParameter, *parameter,
                                 fmt::format("nothing in @{} needs it", graph->name()));
        module_.remove_parameter(parameter);
      }
      if (graph->parameters().size() == before) continue;
      changes_ += before - graph->parameters().size();
      analysis::retype(*graph);
    }
  }

  PassContext& context_;
  Module& module_;
  std::vector<bool> live_;  // by id, of the nodes that there were
  size_t num_live_ = 0;     // applications
  LargeVector<Node*> pending_;
  boost::unordered_flat_map<const Graph*, size_t> index_;  // of a graph in the next two
  UnionFind called_alike_;
  std::vector<Signature> signatures_;  // that of a representative is shared
  size_t changes_ = 0;
};

size_t run_dce(PassContext& context) { return DeadCode(context).run(); }

}  // namespace

const Pass kDce{"dce", "dead code", "remove what no output depends on", run_dce};

}  // namespace anfora::passes

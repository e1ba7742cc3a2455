// Loops with one exit: a function that calls itself last, and returns from several places, becomes one that tests a truth value, carried
// along, and leaves there. ONNX's Loop has no other form, and the passes about loops know no other.
//
//     graph @loop(%i, %x) { … return call Switch(%more, @body, @done)() }     graph @loop(%go, %i, %x, %r) { return call Switch(%go, @again, @leave)() }
//     graph @body() in @loop {                                                graph @again() in @loop { %t = call @turn(%i, %x); return call @loop(%t[0], …) }
//       return call Switch(%found, @return, @next)()                          graph @leave() in @loop { return %r }
//     }                                                                       graph @turn(%i, %x) in @again {
//     graph @next() in @body { … return call @loop(%i1, %x1) }                  … as @loop was, but @next returns (true, %i1, %x1, %r),
//     graph @return() in @body { return %y }                                    @return (false, %i, %x, %y)
//     graph @done() in @loop { return %x }                                    }
//
// A result that some exits return as a parameter of the loop is that parameter, set by the others; any other result is a parameter of its
// own, which begins as zeros; a token that the loop reads from around it begins as that. Inlining puts @turn into @again.
#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <optional>
#include <vector>

#include "analysis/calls.h"
#include "analysis/loops.h"
#include "ir/order.h"
#include "passes/pass.h"

namespace anfora::passes {

extern const Pass kSingleExit;

namespace {

using namespace ir;

// Where the turn of a loop ends: a graph, and what it returns there.
struct Ends {
  std::vector<Graph*> turns;  // that call the loop again
  std::vector<Graph*> exits;
};

class ExitMerging {
 public:
  ExitMerging(PassContext& context, Graph& loop) : context_(context), module_(context.module), loop_(loop) {}

  bool run() {
    const analysis::Callers callers = analysis::callers_of(loop_);
    if (!callers.all_known) return false;
    for (Apply* call : callers.calls) {
      if (!call->graph()->is_inside(&loop_)) entries_.push_back(call);
    }
    find_going_on();
    if (entries_.empty() || entries_.size() == callers.calls.size() || !find_ends(loop_)) return false;
    if (ends_.exits.empty() || ends_.turns.size() + entries_.size() != callers.calls.size()) return false;
    if (!choose_places()) return false;
    rewrite();
    return true;
  }

 private:
  // A result of the loop: parameter `parameter` of it, or one of its own.
  struct Place {
    std::optional<size_t> parameter;
    const Type* type = nullptr;
  };

  // False where a path ends in another way, as by the call of a function from elsewhere: that is an exit as well, but one whose result is
  // called for.
  bool find_ends(Graph& graph) {
    if (std::ranges::count(visited_, &graph)) return true;
    visited_.push_back(&graph);
    Apply* last = graph.result()->as(Primitive::Call);
    if (!last) return ends_.exits.push_back(&graph), true;
    Node* callee = last->input(0);
    if (callee == loop_.value()) return ends_.turns.push_back(&graph), last->has_one_use();  // by the Return
    if (Graph* next = constant_function(callee); next && next->is_inside(&loop_) && goes_on(*next)) {
      return are_last(analysis::callers_of(*next)) && find_ends(*next);
    }
    const Apply* choice = callee->as(Primitive::Switch);
    Graph* ways[2] = {choice ? constant_function(choice->input(1)) : nullptr,
                      choice ? constant_function(choice->input(2)) : nullptr};
    const bool is_inner = ways[0] && ways[1] && ways[0]->is_inside(&loop_) && ways[1]->is_inside(&loop_);
    // What is called for its value alone, in which the loop does not go on, is an exit.
    if (!is_inner || !(goes_on(*ways[0]) || goes_on(*ways[1]))) return ends_.exits.push_back(&graph), true;
    return find_ends(*ways[0]) && find_ends(*ways[1]);
  }
  static bool are_last(const analysis::Callers& callers) {
    return callers.all_known && std::ranges::all_of(callers.calls, [](const Apply* call) {
             return call->has_one_use() && call->graph()->result() == call;
           });
  }
  bool goes_on(const Graph& graph) const { return going_on_.contains(&graph); }

  // The functions that a graph may call last.
  static analysis::Callees successors(const Graph& graph) {
    const Apply* last = graph.result() ? graph.result()->as(Primitive::Call) : nullptr;
    return last ? analysis::known_callees(*last) : analysis::Callees();
  }
  // Those in the loop from which calls that are last lead back to its beginning.
  void find_going_on() {
    std::vector<const Graph*> inside;
    for (const Graph* graph : module_.graphs()) {
      if (graph->is_inside(&loop_)) inside.push_back(graph);
    }
    boost::unordered_flat_map<const Graph*, std::vector<const Graph*>> predecessors;
    for (const Graph* graph : inside) {
      for (const Graph* next : successors(*graph)) predecessors[next].push_back(graph);
    }
    std::vector<const Graph*> worklist{&loop_};
    while (!worklist.empty()) {
      const Graph* graph = worklist.back();
      worklist.pop_back();
      for (const Graph* before : predecessors[graph]) {
        if (going_on_.insert(before).second) worklist.push_back(before);
      }
    }
  }

  static std::vector<Node*> results_of(const Graph& graph) {
    if (const Apply* tuple = graph.result()->as(Primitive::MakeTuple)) {
      std::vector<Node*> items;
      for (const Use& use : tuple->operands()) items.push_back(use.node);
      return items;
    }
    return {graph.result()};
  }
  Parameter* parameter_of_loop(Node* node) const {
    Parameter* parameter = node->as_parameter();
    return parameter && parameter->graph() == &loop_ ? parameter : nullptr;
  }

  bool choose_places() {
    const Type* result = loop_.result()->type();
    if (!is_reached(result) || result->holds_functions()) return false;
    is_tuple_ = result->is_tuple();
    const size_t count = is_tuple_ ? result->elements().size() : 1;
    std::vector<bool> is_taken(loop_.parameters().size());
    for (size_t k = 0; k < count; ++k) {
      Place place{.type = is_tuple_ ? result->element(k) : result};
      for (const Graph* exit : ends_.exits) {
        const std::vector<Node*> results = results_of(*exit);
        if (results.size() != count) continue;  // a tuple that is made elsewhere
        const Parameter* parameter = parameter_of_loop(results[k]);
        if (!parameter || is_taken[parameter->index()] || parameter->type() != place.type) continue;
        place.parameter = parameter->index();
        is_taken[parameter->index()] = true;
        break;
      }
      if (!place.parameter && !can_begin(*place.type)) return false;
      places_.push_back(place);
    }
    return true;
  }

  static bool can_begin(const Type& type) {
    if (type.kind() == TypeKind::State) return true;
    if (type.kind() == TypeKind::Sequence)
      return type.element()->is_tensor() && type.element()->dtype() != DType::Undefined;
    return type.is_tensor() && type.dtype() != DType::Undefined && type.dtype() != DType::String;
  }
  // A value of the type that nothing reads.
  Node* beginning(Graph* graph, const Type& type) {
    if (type.kind() == TypeKind::State) return typed(module_.apply(graph, op("InitialState"), {}));
    if (type.kind() == TypeKind::Sequence) {  // of an item: an empty one says nothing of the items' shapes
      Node* item = beginning(graph, *type.element());
      return typed(module_.apply(graph, op("SequenceConstruct"), {&item, 1}));
    }
    Shape shape;
    for (int axis = 0; type.has_rank() && axis < type.rank(); ++axis)
      shape.push_back(type.dim(axis).as_constant().value_or(0));
    return module_.constant(Tensor::zeros(type.dtype(), shape));
  }
  // The token from around the loop that is read in it, as by what raises an error there; null: none, or several.
  Node* captured_token() const {
    Node* token = nullptr;
    for (const Graph* graph : module_.graphs()) {
      if (!graph->is_inside(&loop_)) continue;
      for (const Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
        for (const Use& use : node->operands()) {
          const Type* type = use.node->type();
          if (!type || type->kind() != TypeKind::State || use.node == token || use.node->graph()->is_inside(&loop_)) continue;
          if (token) return nullptr;
          token = use.node;
        }
      }
    }
    return token;
  }
  void replace_in_loop(const Node& node, Node* by) {
    std::vector<std::pair<Apply*, size_t>> uses;
    for (const Use& use : node.uses()) {
      if (use.user->graph()->is_inside(&loop_)) uses.emplace_back(use.user, use.index());
    }
    for (auto [user, operand] : uses) module_.set_operand(user, operand, by);
  }
  Node* typed(Apply* node) {
    context_.inference.infer(*node);
    return node;
  }
  const Operator& op(std::string_view name) const { return module_.context().get_operator(name); }

  void rewrite() {
    const std::vector<Parameter*> parameters(loop_.parameters().begin(), loop_.parameters().end());
    Graph* header = module_.make_graph(loop_.name(), loop_.parent());
    Graph* again = module_.make_graph(fmt::format("{}.again", loop_.name()), header);
    Graph* leave = module_.make_graph(fmt::format("{}.leave", loop_.name()), header);
    ir::Context& types = module_.context();
    Parameter* go = module_.add_parameter(header, types.tensor_type(DType::Bool, std::span<const int64_t>()), "go");
    std::vector<Node*> carried, own;  // the loop's parameters in the header, then the results that none of them is
    for (const Parameter* p : parameters) carried.push_back(module_.add_parameter(header, p->type(), p->name()));
    for (const Place& place : places_)
      own.push_back(place.parameter ? nullptr : module_.add_parameter(header, place.type));
    // The loop hands it on from turn to turn, so that it has one consumer.
    Node* token = captured_token();
    const auto last_effect = std::ranges::find_if(own, [](const Node* result) { return result && result->type()->kind() == TypeKind::State; });
    if (token && last_effect != own.end()) replace_in_loop(*token, *last_effect);
    module_.set_result(header,
                       module_.call(header, module_.make_switch(header, go, again->value(), leave->value()), {}));

    std::vector<Node*> results;
    for (size_t k = 0; k < places_.size(); ++k)
      results.push_back(places_[k].parameter ? carried[*places_[k].parameter] : own[k]);
    module_.set_result(leave, is_tuple_ ? module_.make_tuple(leave, results) : results[0]);

    // A turn returns whether it goes on, what the loop carries, and the results.
    module_.set_parent(&loop_, again);
    for (Graph* turn : ends_.turns) {
      Apply* call = turn->result()->as_apply();
      std::vector<Node*> state{module_.scalar(true)};
      for (const Use& use : call->operands().subspan(1)) state.push_back(use.node);
      for (Node* result : own) {
        if (result) state.push_back(result);
      }
      module_.set_result(turn, module_.make_tuple(turn, state));
      module_.erase(call);
    }
    for (Graph* exit : ends_.exits) {
      Node* result = exit->result();
      std::vector<Node*> values = results_of(*exit);
      if (is_tuple_ && values.size() != places_.size()) {
        values.clear();
        for (size_t k = 0; k < places_.size(); ++k) values.push_back(module_.tuple_item(exit, result, k));
      }
      if (!is_tuple_) values = {result};
      std::vector<Node*> state{module_.scalar(false)};
      for (Parameter* p : parameters) state.push_back(p);
      for (size_t k = 0; k < places_.size(); ++k) {
        if (places_[k].parameter) state[1 + *places_[k].parameter] = values[k];
      }
      for (size_t k = 0; k < places_.size(); ++k) {
        if (own[k]) state.push_back(values[k]);
      }
      module_.set_result(exit, module_.make_tuple(exit, state));
    }
    Apply* turn = module_.call(again, loop_.value(), carried);
    std::vector<Node*> next;
    const size_t size = header->parameters().size();
    for (size_t i = 0; i < size; ++i) next.push_back(module_.tuple_item(again, turn, i));
    module_.set_result(again, module_.call(again, header->value(), next));

    for (Apply* entry : entries_) {
      std::vector<Node*> first{module_.scalar(true)};
      for (const Use& use : entry->operands().subspan(1)) first.push_back(use.node);
      for (size_t k = 0; k < places_.size(); ++k) {
        if (places_[k].parameter) continue;
        const bool is_token = token && own.begin() + static_cast<std::ptrdiff_t>(k) == last_effect;
        first.push_back(is_token ? token : beginning(entry->graph(), *places_[k].type));
      }
      Apply* made = module_.call(entry->graph(), header->value(), first);
      made->set_type(entry->type());
      module_.replace(entry, made);
      module_.erase(entry);
    }
    context_.applied(kSingleExit.name, kSingleExit.name, *header->value(),
                     fmt::format("{} exits are one", ends_.exits.size()));
  }

  PassContext& context_;
  Module& module_;
  Graph& loop_;
  std::vector<Apply*> entries_;
  boost::unordered_flat_set<const Graph*> going_on_;
  std::vector<const Graph*> visited_;
  Ends ends_;
  std::vector<Place> places_;
  bool is_tuple_ = false;
};

size_t run_single_exit(PassContext& context) {
  std::vector<Graph*> found;
  {
    const ModuleOrder order = topological_order(context.module, Coverage::All);
    const analysis::CallOrder calls(order);
    for (Graph* graph : calls.graphs) {
      if (!calls.is_recursive(graph)) continue;
      const std::optional<analysis::Loop> loop = analysis::Loop::of(*graph, order, calls);
      if (!loop || !loop->body() || !loop->exit()) found.push_back(graph);
    }
  }
  // Outer loops first: what leaves two of them at once becomes a result of the inner one.
  std::ranges::stable_sort(found, {}, &Graph::depth);
  size_t changes = 0;
  for (Graph* graph : found) {
    if (!context.has_fuel()) break;
    if (!ExitMerging(context, *graph).run()) continue;
    ++changes;
    context.inference.forget(*graph);  // recursive functions in it return what it returned
    context.inference.run();
  }
  return changes;
}

}  // namespace

const Pass kSingleExit{"single-exit", "loops with one exit",
                       "returns and breaks inside a loop become a truth value that it carries", run_single_exit};

}  // namespace anfora::passes

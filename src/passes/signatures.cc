// Signatures: what functions need not be told, because all of their calls tell them the same, and need not return.
//
//     graph @main(%x, %w, %n) {                              graph @main(%x, %w, %n) {
//       %r = call @loop(0, %x, %w, 0)                          %r = call @loop(0, %x)
//       return %r[0]                                           return %r
//     }                                                      }
//     graph @loop(%i, %v, %w', %k) in @main {           →    graph @loop(%i, %v) in @main {
//       return call Switch(Less(%i, %n), @body, @done)()       return call Switch(Less(%i, %n), @body, @done)()
//     }                                                      }
//     graph @body() in @loop {                               graph @body() in @loop {
//       return call @loop(Add(%i, 1), Mul(%v, %w'),            return call @loop(Add(%i, 1), Mul(%v, %w))
//                         %w', Add(%k, 1))                   }
//     }
//     graph @done() in @loop { return (%v, %w', %k) }        graph @done() in @loop { return %v }
//
//   - invariant-parameter  every call passes the same value, or the parameter on to itself: the value is captured. Constants
//                          and functions are values, too. A recursive function at the top level that would have to see the
//                          value is nested in the graph that its calls come from.
//   - equal-parameters     two parameters that start as one value and are changed alike are one (the number of an iteration,
//                          which the source counts a second time).
//   - specialized          a recursive function that is called with different constants (or functions), which it then passes on
//                          to itself, is copied for each of them, and the constant is captured. What is not recursive is
//                          inlined, or too large to be copied. A function that is called with arguments of different element
//                          types, ranks or structures is copied for each of these signatures, whatever its size: kernels are
//                          chosen by them. Functions that are mutually recursive with it, and that nothing else uses, are nested in it
//                          before, and copied with it.
//   - common-result        an item of the result that is one and the same value outside of the function is read from there.
//   - unused-result        an item that no call reads is not returned. A single item is returned without a tuple.
//
// The parameters and arguments that are not read any more are dead code (dce.cc). Parameters need to know all calls of the
// function; results, in addition, of all functions whose result may be that of the same call: branches of a Switch, and what
// ends in a call of another function (union-find). A round is linear in calls and arguments.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <optional>
#include <span>
#include <vector>

#include "analysis/calls.h"
#include "ir/clone.h"
#include "passes/pass.h"
#include "support/union_find.h"

namespace anfora::passes {

extern const Pass kSignatures;

namespace {

using namespace ir;

constexpr std::string_view kInvariant = "invariant-parameter";
constexpr std::string_view kEqualParameters = "equal-parameters";
constexpr std::string_view kSpecialized = "specialized";
constexpr std::string_view kCommonResult = "common-result";
constexpr std::string_view kUnused = "unused-result";

// Applications of a function up to which it is specialized, and how many versions of it there may be.
constexpr size_t kMostSpecialized = 256, kMostVersions = 8;

// How deep the arguments for two parameters are compared.
constexpr int kDeepestComparison = 8;

bool is_visible(const Node* node, const Graph* from) { return !node->graph() || from->is_inside(node->graph()); }

// The innermost graph around both; null: there is none.
Graph* common_ancestor(Graph* a, const Graph* b) {
  while (a && !b->is_inside(a)) a = a->parent();
  return a;
}

// Functions whose result may be the result of the same call.
struct Family {
  bool all_known = true;  // all calls, and what they return
  std::vector<Graph*> members;
};

class Signatures {
 public:
  explicit Signatures(PassContext& context) : context_(context), module_(context.module) {}

  size_t run() {
    if (module_.graphs().size() == 1) return 0;
    for (Graph* graph : std::vector<Graph*>(module_.graphs().begin(), module_.graphs().end())) specialize(*graph);
    for (Graph* graph : module_.graphs()) callers_.emplace(graph, analysis::callers_of(*graph));
    for (Graph* graph : module_.graphs()) {
      if (callers_.at(graph).all_known && !callers_.at(graph).calls.empty() && graph->return_node())
        simplify_parameters(*graph);
    }
    form_families();
    for (size_t i = 0; i < families_.size(); ++i) {
      if (related_.is_representative(i) && families_[i].all_known) simplify_results(families_[i]);
    }
    return changes_;
  }

 private:
  // Versions --------------------------------------------------------------------------------------------------------
  // The types of a call's arguments, without what no kernel is chosen by: sizes, and functions.
  using Signature = boost::container::small_vector<const Type*, 4>;
  Signature signature_of(const Apply& call) const {
    Signature signature;
    for (const Use& use : call.operands().subspan(1)) {
      const Type* type = use.node->type();
      signature.push_back(type && type->holds_functions() ? nullptr : analysis::without_sizes(module_.context(), type));
    }
    return signature;
  }

  using GraphSet = boost::unordered_flat_set<const Graph*>;

  // The functions that lead to each other through `function`, itself included, in the order in which a walk over their uses
  // meets them.
  static std::vector<Graph*> component_of(Graph& function) {
    GraphSet used = functions_used_by(function), found{&function};
    std::vector<Graph*> component{&function};
    for (size_t i = 0; i < component.size(); ++i) {
      for (const Use& use : component[i]->value()->uses()) {
        Graph* user = use.user->graph();
        if (used.contains(user) && found.insert(user).second) component.push_back(user);
      }
    }
    return component;
  }

  // Functions that are mutually recursive with `function`, and used by no one else, are nested in it, where its copies copy
  // them. False: there are others that use them.
  bool nest_component(Graph& function) {
    std::vector<Graph*> component = component_of(function);
    auto is_in = [&](const Graph* graph) { return std::ranges::count(component, graph) > 0; };
    std::vector<Graph*> roots;
    for (Graph* graph : component) {
      if (graph->is_inside(&function) || is_in(graph->parent())) continue;
      const bool is_visible_there = !graph->parent() || function.is_inside(graph->parent());
      auto is_own = [&](const Use& use) { return is_in(use.user->graph()) || use.user->graph()->is_inside(&function); };
      if (!is_visible_there || !std::ranges::all_of(graph->value()->uses(), is_own)) return false;
      roots.push_back(graph);
    }
    for (Graph* graph : roots) module_.set_parent(graph, &function);
    return true;
  }

  static GraphSet functions_used_by(Graph& function) {
    GraphSet used{&function};
    std::vector<Graph*> pending{&function};
    while (!pending.empty()) {
      const Graph* graph = pending.back();
      pending.pop_back();
      for (const Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
        for (const Use& use : node->operands()) {
          Graph* next = constant_function(use.node);
          if (next && used.insert(next).second) pending.push_back(next);
        }
      }
    }
    return used;
  }

  // Whether a function leads to one of the calls: its copies would be called by themselves, and need copies again.
  static bool uses_any_of(Graph& function, std::span<Apply* const> calls) {
    const GraphSet used = functions_used_by(function);
    return std::ranges::any_of(calls, [&](const Apply* call) { return used.contains(call->graph()); });
  }

  // Calls from outside that pass the same constants for the parameters that the function passes on to itself, and arguments of
  // the same types but for their sizes.
  struct Version {
    boost::container::small_vector<const Node*, 4> constants;  // null: the argument is none
    Signature signature;
    std::vector<Apply*> calls;
    bool is_same(const Version& other) const { return constants == other.constants && signature == other.signature; }
    bool is_general() const { return std::ranges::count(constants, nullptr) == std::ssize(constants); }
  };

  void specialize(Graph& graph) {
    analysis::Callers callers = analysis::callers_of(graph);
    std::vector<Apply*> inside, outside;
    for (Apply* call : callers.calls) {
      if (constant_function(call->input(0)) != &graph) return;
      (call->graph()->is_inside(&graph) ? inside : outside).push_back(call);
    }
    if (!callers.all_known || !graph.return_node() || outside.size() < 2) return;
    std::vector<size_t> passed_on;
    for (const Parameter* p : graph.parameters()) {
      auto argument = [&](const Apply* call) { return call->input(p->index() + 1); };
      if (!inside.empty() && std::ranges::all_of(inside, [&](const Apply* call) { return argument(call) == p; }) &&
          std::ranges::any_of(outside, [&](const Apply* call) { return argument(call)->is_value(); })) {
        passed_on.push_back(p->index());
      }
    }
    std::vector<Signature> signatures;
    for (const Apply* call : outside) signatures.push_back(signature_of(*call));
    bool has_signatures = std::ranges::adjacent_find(signatures, std::not_equal_to()) != signatures.end();
    if (has_signatures && uses_any_of(graph, outside)) {
      if (nest_component(graph)) return specialize(graph);
      has_signatures = false;
    }
    std::vector<Version> versions;
    for (size_t at = 0; Apply* call : outside) {
      Version version;
      for (size_t i : passed_on)
        version.constants.push_back(call->input(i + 1)->is_value() ? call->input(i + 1) : nullptr);
      if (has_signatures) version.signature = std::move(signatures[at++]);
      auto same = std::ranges::find_if(versions, [&](const Version& other) { return version.is_same(other); });
      if (same == versions.end()) same = versions.insert(versions.end(), std::move(version));
      same->calls.push_back(call);
    }
    if (versions.size() < 2) return;
    if (size_t size = size_of(graph); (size > kMostSpecialized && !has_signatures) || versions.size() > kMostVersions) {
      context_.remarks.refused(kSignatures.name, kSpecialized, *graph.value(),
                               fmt::format("{} versions of {} applications; at most {} of {} are made", versions.size(),
                                           size, kMostVersions, kMostSpecialized));
      return;
    }
    // The function itself stays for those calls that have no constants, or is the first version.
    std::ranges::stable_partition(versions, &Version::is_general);
    context_.inference.forget(graph);
    for (const Version& version : std::span(versions).subspan(1)) {
      Graph* copy = Cloner(module_).copy(graph, graph.parent());
      context_.inference.forget(*copy);
      for (Apply* call : version.calls) {
        context_.remarks.applied(kSignatures.name, kSpecialized, *call, fmt::format("@{}", copy->name()));
        module_.set_operand(call, 0, copy->value());
        ++changes_;
      }
    }
  }

  size_t size_of(const Graph& graph) const {
    size_t size = 0;
    for (const Graph* inner : module_.graphs()) size += inner->is_inside(&graph) ? inner->num_nodes() : 0;
    return size;
  }

  // Parameters ------------------------------------------------------------------------------------------------------
  void simplify_parameters(Graph& graph) {
    boost::unordered_flat_map<const Node*, std::vector<Parameter*>> by_first_argument;
    const std::vector<Apply*>& calls = callers_.at(&graph).calls;
    auto is_entry = [&](const Apply* call) { return !call->graph()->is_inside(&graph); };
    const auto entry = std::ranges::find_if(calls, is_entry);
    const Apply& first = entry == calls.end() ? *calls[0] : **entry;
    for (Parameter* parameter : graph.parameters()) {
      if (!parameter->has_uses()) continue;
      if (Node* value = only_argument(*parameter)) {
        if (make_visible(graph, value)) replace(kInvariant, *parameter, value);
        continue;
      }
      std::vector<Parameter*>& alike = by_first_argument[first.input(parameter->index() + 1)];
      auto equal = std::ranges::find_if(alike, [&](Parameter* other) { return are_equal(*parameter, *other); });
      if (equal == alike.end()) {
        alike.push_back(parameter);
      } else {
        replace(kEqualParameters, *parameter, *equal);
      }
    }
  }

  // What all calls pass that do not pass the parameter on to itself; null: several.
  Node* only_argument(const Parameter& parameter) {
    Node* value = nullptr;
    for (const Apply* call : callers_.at(parameter.graph()).calls) {
      Node* argument = call->input(parameter.index() + 1);
      if (argument == &parameter || argument == value) continue;
      if (value) return nullptr;
      value = argument;
    }
    return value;
  }

  // Whether the value can be captured; the graph may have to move for it.
  bool make_visible(Graph& graph, const Node* value) {
    if (value->graph() && value->graph()->is_inside(&graph)) return false;
    if (const Graph* function = constant_function(value); function && function->parent()) {
      return graph.is_inside(function->parent());
    }
    if (is_visible(value, &graph)) return true;
    if (graph.parent()) return false;
    Graph* around = nullptr;
    for (const Use& use : graph.value()->uses()) {
      if (use.user->graph()->is_inside(&graph)) continue;
      around = around ? common_ancestor(around, use.user->graph()) : use.user->graph();
      if (!around) return false;
    }
    if (!around || !is_visible(value, around)) return false;
    module_.set_parent(&graph, around);
    return true;
  }

  // Whether every call passes both the same, if they were the same in the calling iteration.
  bool are_equal(const Parameter& a, const Parameter& b) {
    if (a.type() != b.type()) return false;
    return std::ranges::all_of(callers_.at(a.graph()).calls, [&](const Apply* call) {
      return are_equal(call->input(a.index() + 1), call->input(b.index() + 1), a, b, kDeepestComparison);
    });
  }
  static bool are_equal(const Node* x, const Node* y, const Parameter& a, const Parameter& b, int depth) {
    if (x == y || (x == &a && y == &b) || (x == &b && y == &a)) return true;
    const Apply *f = x->as_apply(), *g = y->as_apply();
    if (depth == 0 || !f || !g || f->primitive() != Primitive::Operation || f->op().effect != Effect::Pure)
      return false;
    if (&f->op() != &g->op() || &f->attributes() != &g->attributes() || f->num_inputs() != g->num_inputs())
      return false;
    for (size_t i = 0; i < f->num_inputs(); ++i) {
      if (!are_equal(f->input(i), g->input(i), a, b, depth - 1)) return false;
    }
    return true;
  }

  void replace(std::string_view rewrite, Parameter& parameter, Node* value) {
    context_.remarks.applied(kSignatures.name, rewrite, parameter,
                             fmt::format("of @{}: {}", parameter.graph()->name(), describe(*value)));
    redirect(parameter, value);
    ++changes_;
  }
  // Names and locations of a parameter are not handed on: the value is the same in other graphs, too.
  void redirect(Node& node, Node* value) {
    while (node.has_uses()) {
      const Use& use = *node.uses().begin();
      module_.set_operand(use.user, use.index(), value);
    }
  }

  // Results ---------------------------------------------------------------------------------------------------------
  Family& family_of(const Graph* graph) { return families_[related_.find(index_.at(graph))]; }
  void unite(const Graph* a, const Graph* b) {
    Family &f = family_of(a), &g = family_of(b);
    if (&f == &g) return;
    f.all_known = f.all_known && g.all_known;
    f.members.insert(f.members.end(), g.members.begin(), g.members.end());
    related_.unite(index_.at(a), index_.at(b));
  }

  // The call whose result is that of the graph, when nothing else uses it.
  static Apply* tail_call(const Graph& graph) {
    Apply* call = graph.result()->as(Primitive::Call);
    return call && call->graph() == &graph && call->has_one_use() ? call : nullptr;
  }

  void form_families() {
    related_ = UnionFind(module_.graphs().size());
    for (Graph* graph : module_.graphs()) {
      index_.emplace(graph, families_.size());
      families_.push_back({callers_.at(graph).all_known && graph->return_node(), {graph}});
    }
    for (Graph* graph : module_.graphs()) {
      for (const Apply* call : callers_.at(graph).calls) {
        for (const Graph* callee : analysis::known_callees(*call)) unite(graph, callee);
      }
      // What main returns is read by whoever runs it: it calls like any other graph.
      const Apply* last = callers_.at(graph).all_known && graph->return_node() ? tail_call(*graph) : nullptr;
      if (!last) continue;
      analysis::Callees callees = analysis::known_callees(*last);
      if (callees.empty()) family_of(graph).all_known = false;
      for (const Graph* callee : callees) unite(graph, callee);
    }
  }

  void simplify_results(Family& family) {
    std::ranges::sort(family.members, {}, [](const Graph* g) { return g->value()->id(); });
    std::vector<Graph*> bases;  // those that return a value of their own
    std::vector<Apply*> calls;  // those whose result is more than a result
    for (Graph* graph : family.members) {
      Apply* last = tail_call(*graph);
      if (!last) bases.push_back(graph);
      for (Apply* call : callers_.at(graph).calls) {
        bool is_tail = &family_of(call->graph()) == &family && tail_call(*call->graph()) == call;
        if (!is_tail && !std::ranges::count(calls, call)) calls.push_back(call);
      }
    }
    if (bases.empty() || calls.empty()) return;
    const Apply* first = bases[0]->result()->as(Primitive::MakeTuple);
    if (!first) {
      if (Node* value = common_value(family, bases, calls, std::nullopt)) take_out(calls, value);
      return;
    }
    size_t items = first->num_inputs();
    for (const Graph* base : bases) {
      const Apply* tuple = base->result()->as(Primitive::MakeTuple);
      if (!tuple || tuple->num_inputs() != items) return;
    }
    std::vector<bool> live(items, false);
    for (size_t i = 0; i < items; ++i) {
      if (Node* value = common_value(family, bases, calls, i)) take_item_out(calls, i, value);
    }
    for (const Apply* call : calls) {
      for (const Use& use : call->uses()) {
        if (use.user->primitive() != Primitive::TupleGetItem) return;
        if (use.user->has_uses()) live[index_of(*use.user)] = true;
      }
    }
    const auto num_live = std::ranges::count(live, true);
    if (num_live > 0 && (num_live < std::ssize(live) || num_live == 1)) keep_items(family, bases, calls, live);
  }
  static size_t index_of(const Apply& item) { return static_cast<size_t>(item.attributes().require_int("index")); }

  // The result of all, or item i of it, when it is one value outside of all that the calls see. One inside, of a function
  // that is not done when it is called again, is another value each time.
  static Node* common_value(const Family& family, std::span<Graph* const> bases, std::span<Apply* const> calls,
                            std::optional<size_t> i) {
    auto result = [&](const Graph* base) { return i ? base->result()->as_apply()->input(*i) : base->result(); };
    Node* value = result(bases[0]);
    bool is_common = std::ranges::all_of(bases, [&](const Graph* base) { return result(base) == value; });
    if (!is_common || !value->graph()) return is_common && !constant_function(value) ? value : nullptr;
    bool is_inside =
        std::ranges::any_of(family.members, [&](Graph* graph) { return value->graph()->is_inside(graph); });
    bool is_seen = std::ranges::all_of(calls, [&](const Apply* call) { return is_visible(value, call->graph()); });
    return !is_inside && is_seen ? value : nullptr;
  }

  void take_out(std::span<Apply* const> calls, Node* value) {
    for (Apply* call : calls) {
      if (!call->has_uses()) continue;
      context_.remarks.applied(kSignatures.name, kCommonResult, *call, fmt::format("is {}", describe(*value)));
      redirect(*call, value);
      ++changes_;
    }
  }

  void take_item_out(std::span<Apply* const> calls, size_t i, Node* value) {
    for (Apply* call : calls) {
      for (auto use = call->uses().begin(); use != call->uses().end(); ++use) {
        Apply* item = use->user->as(Primitive::TupleGetItem);
        if (!item || index_of(*item) != i || !item->has_uses()) continue;
        context_.remarks.applied(kSignatures.name, kCommonResult, *item, fmt::format("is {}", describe(*value)));
        redirect(*item, value);
        ++changes_;
      }
    }
  }

  void keep_items(Family& family, std::span<Graph* const> bases, std::span<Apply* const> calls,
                  const std::vector<bool>& live) {
    std::vector<size_t> kept;
    for (size_t i = 0; i < live.size(); ++i) {
      if (live[i]) kept.push_back(i);
    }
    for (Graph* base : bases) {
      Apply* tuple = base->result()->as_apply();
      boost::container::small_vector<Node*, 8> items;
      for (size_t i : kept) items.push_back(tuple->input(i));
      Node* result = items[0];
      if (kept.size() > 1) {
        result = module_.make_tuple(base, {items.data(), items.size()});
        result->set_location(tuple->location());
        result->set_type(without(tuple->type(), kept));
      }
      module_.set_result(base, result);
      if (!tuple->has_uses()) module_.erase(tuple);
    }
    for (Graph* graph : family.members) retype(*graph, kept, std::ranges::count(bases, graph) > 0);
    for (Apply* call : calls) {
      context_.remarks.applied(kSignatures.name, kUnused, *call,
                               fmt::format("{} of {} results are read", kept.size(), live.size()));
      call->set_type(without(call->type(), kept));
      read_again(*call, kept);
      ++changes_;
    }
  }

  // The type of a result, or a function type with that result, with only some of the items.
  const Type* without(const Type* type, std::span<const size_t> kept) {
    if (!type) return type;
    if (type->is_func()) return module_.context().func_type(type->parameters(), without(type->result(), kept));
    if (!type->is_tuple()) return type;
    boost::container::small_vector<const Type*, 8> items;
    for (size_t i : kept) items.push_back(type->element(i));
    return items.size() == 1 ? items[0] : module_.context().tuple_type({items.data(), items.size()});
  }

  // `is_base`: the graph returns a value of its own, be it a call's now that was an item before.
  void retype(Graph& graph, std::span<const size_t> kept, bool is_base) {
    graph.value()->set_type(without(graph.value()->type(), kept));
    for (const Use& use : graph.value()->uses()) {
      if (use.user->primitive() == Primitive::Switch) use.user->set_type(graph.value()->type());
    }
    if (Apply* last = is_base ? nullptr : tail_call(graph)) {
      last->set_type(without(last->type(), kept));
      graph.return_node()->set_type(last->type());
    }
  }

  // The users of a call read its items where they are now. A single one is named as what read it was.
  void read_again(Apply& call, std::span<const size_t> kept) {
    std::vector<Apply*> readers;
    for (const Use& use : call.uses()) readers.push_back(use.user);
    for (Apply* reader : readers) {
      if (!reader->has_uses()) {
        module_.erase(reader);
        continue;
      }
      size_t place = static_cast<size_t>(std::ranges::find(kept, index_of(*reader)) - kept.begin());
      Node* item = kept.size() == 1 ? &call : module_.tuple_item(reader->graph(), &call, place);
      if (item != &call) item->set_location(reader->location());
      if (item == &call && !reader->name().empty()) module_.set_name(&call, reader->name());
      module_.replace(reader, item);
      module_.erase(reader);
    }
  }

  PassContext& context_;
  Module& module_;
  boost::unordered_flat_map<const Graph*, analysis::Callers> callers_;
  boost::unordered_flat_map<const Graph*, size_t> index_;  // of a graph in the next two
  UnionFind related_{0};
  std::vector<Family> families_;  // that of a representative is that of all
  size_t changes_ = 0;
};

size_t run_signatures(PassContext& context) { return Signatures(context).run(); }

}  // namespace

const Pass kSignatures{"signatures", "signatures", "specialize functions, capture invariant parameters, drop unused results", run_signatures};

}  // namespace anfora::passes

// Checks come in an order in which each may rely on what the ones before it found in order: first who is there
// (graphs, applications, parameters, constants: the census), then what they refer to, then what it means. A node that
// the census does not hold is never followed, so that erased nodes and those of other modules are harmless.
#include "ir/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <optional>

#include "ir/order.h"

namespace anfora::ir {
namespace {

// Violations that an error spells out; the others are counted.
constexpr size_t kMostReported = 8;

bool has_kind(const AttributeValue& value, AttributeDeclaration::Kind kind) {
  using Kind = AttributeDeclaration::Kind;
  switch (kind) {
    case Kind::Int: return std::holds_alternative<int64_t>(value);
    case Kind::Float: return std::holds_alternative<float>(value);
    case Kind::Type:
    case Kind::String: return std::holds_alternative<std::string>(value);
    case Kind::Tensor: return std::holds_alternative<Tensor>(value);
    case Kind::Ints: return std::holds_alternative<std::vector<int64_t>>(value);
    case Kind::Floats: return std::holds_alternative<std::vector<float>>(value);
    case Kind::Strings: return std::holds_alternative<std::vector<std::string>>(value);
    case Kind::Tensors: return std::holds_alternative<std::vector<Tensor>>(value);
    case Kind::Any: return true;
  }
  return true;
}

class Verifier {
 public:
  explicit Verifier(const Module& module)
      : module_(module), by_id_(module.next_id()), operand_count_(module.next_id()) {}

  std::vector<Violation> run() {
    take_graphs();
    take_nodes();
    check_main();
    for (const Apply* node : applications_) check_operands(*node);
    check_use_lists();
    for (const Graph* graph : module_.graphs()) check_return(*graph);
    for (const Apply* node : applications_) {
      check_scope(*node);
      check_primitive(*node);
      if (node->primitive() == Primitive::Operation) check_declaration(*node);
      check_types(*node);
    }
    check_constants();
    check_interface();
    check_tokens();
    if (may_walk_ && !descends_) check_acyclic();
    return std::move(violations_);
  }

 private:
  struct Interval {  // of a graph in a preorder of the tree of graphs: its descendants lie within
    uint32_t first, last;
  };

  template <class... Args>
  void report(Invariant invariant, const Graph* graph, const Node* node, fmt::format_string<Args...> format,
              Args&&... args) {
    violations_.push_back({invariant, graph, node, fmt::format(format, std::forward<Args>(args)...)});
  }
  template <class... Args>
  void report(Invariant invariant, const Node& node, fmt::format_string<Args...> format, Args&&... args) {
    report(invariant, node.graph(), &node, format, std::forward<Args>(args)...);
  }

  // The census ----------------------------------------------------------------------------------------------

  void take_graphs() {
    boost::unordered_flat_set<std::string_view> names;
    for (const Graph* graph : module_.graphs()) {
      if (&graph->module() != &module_) {
        report(Invariant::GraphTree, graph, nullptr, "the graph belongs to another module");
        may_walk_ = false;
        continue;
      }
      graphs_.emplace(graph, Interval{0, 0});
      if (graph->name().empty()) report(Invariant::GraphTree, graph, nullptr, "the graph has no name");
      if (!names.insert(graph->name()).second) {
        report(Invariant::GraphTree, graph, nullptr, "another graph has the same name");
      }
    }
    // The children of each graph; one whose parent is not there counts as top level.
    boost::unordered_flat_map<const Graph*, std::vector<const Graph*>> children;
    std::vector<const Graph*> pending;
    for (const Graph* graph : module_.graphs()) {
      if (!graphs_.contains(graph)) continue;
      const Graph* parent = graph->parent();
      if (parent && !graphs_.contains(parent)) {
        report(Invariant::GraphTree, graph, nullptr, "its parent is not a graph of the module");
        may_walk_ = false;
        parent = nullptr;
      }
      if (parent) {
        children[parent].push_back(graph);
      } else {
        pending.push_back(graph);
      }
    }
    // Preorder numbers; what no root reaches hangs on a cycle of parents.
    uint32_t next = 1;
    std::vector<const Graph*> open;
    while (!pending.empty()) {
      const Graph* graph = pending.back();
      Interval& interval = graphs_.at(graph);
      if (interval.first) {  // the second visit, after all descendants
        interval.last = next - 1;
        pending.pop_back();
        continue;
      }
      interval.first = next++;
      if (auto found = children.find(graph); found != children.end()) {
        pending.insert(pending.end(), found->second.begin(), found->second.end());
      }
    }
    for (const Graph* graph : module_.graphs()) {
      auto found = graphs_.find(graph);
      if (found == graphs_.end() || found->second.first) continue;
      report(Invariant::GraphTree, graph, nullptr, "the graph is nested in itself");
      found->second = {next, next};
      ++next;
      may_walk_ = false;
    }
  }

  // Enters a node under its id; false when the id is taken or out of range.
  bool take(const Node& node) {
    if (node.id() >= by_id_.size()) return false;
    const Node*& slot = by_id_[node.id()];
    if (slot && slot != &node) return false;
    slot = &node;
    return true;
  }
  bool is_taken(const Node& node) const { return node.id() < by_id_.size() && by_id_[node.id()] == &node; }

  void take_nodes() {
    size_t total = 0;
    for (const Graph* graph : module_.graphs()) total += graph->num_nodes();
    applications_.reserve(total);
    for (Value* value : module_.constants()) {
      if (!take(*value)) report(Invariant::Ownership, *value, "its id {} is not its own", value->id());
    }
    for (const Graph* graph : module_.graphs()) {
      if (!graphs_.contains(graph)) continue;
      if (!take(*graph->value()))
        report(Invariant::Ownership, graph, graph->value(), "the function's id is not its own");
      if (graph->value()->function() != graph) {
        report(Invariant::Ownership, graph, graph->value(), "its function value stands for another graph");
      }
      for (size_t i = 0; i < graph->parameters().size(); ++i) take_parameter(*graph, i);
      size_t count = 0;
      for (const Apply* node = graph->first_node(); node; node = node->next_in_graph(), ++count) {
        if (is_taken(*node)) {
          report(Invariant::Ownership, *node, "the application is listed twice");
          may_walk_ = false;
          break;
        }
        if (node->graph() != graph) {
          report(Invariant::Ownership, graph, node, "the application is listed here and belongs to another graph");
          may_walk_ = false;
        } else if (node->is_erased()) {
          report(Invariant::Ownership, *node, "the application is erased and still listed");
        } else if (!take(*node)) {
          report(Invariant::Ownership, *node, "its id {} is not its own", node->id());
          may_walk_ = false;
        } else {
          applications_.push_back(node);
        }
      }
      if (count != graph->num_nodes()) {
        report(Invariant::Ownership, graph, nullptr, "{} applications are listed, {} counted", count,
               graph->num_nodes());
      }
    }
  }

  void take_parameter(const Graph& graph, size_t i) {
    const Parameter* parameter = graph.parameter(i);
    if (parameter->graph() != &graph) {
      report(Invariant::Parameters, &graph, parameter, "parameter {} belongs to another graph", i);
    } else if (parameter->is_erased()) {
      report(Invariant::Parameters, *parameter, "parameter {} is erased", i);
    } else if (parameter->index() != i) {
      report(Invariant::Parameters, *parameter, "parameter {} has index {}", i, parameter->index());
    } else if (!take(*parameter)) {
      report(Invariant::Ownership, *parameter, "its id {} is not its own", parameter->id());
    }
  }

  // References ----------------------------------------------------------------------------------------------

  void check_main() {
    const Graph* main = module_.main();
    if (!main) {
      report(Invariant::Main, nullptr, nullptr, "the module has no main graph");
    } else if (!graphs_.contains(main)) {
      report(Invariant::Main, nullptr, nullptr, "main is not a graph of the module");
      may_walk_ = false;
    } else if (main->parent()) {
      report(Invariant::Main, main, nullptr, "main is nested in another graph");
    }
  }

  // Whether an operand may be looked at: a node of this module.
  bool is_here(const Node* node) const {
    if (!node || node->is_erased()) return false;
    const Value* value = node->as_value();
    if (value && value->is_graph()) return graphs_.contains(value->function()) && is_taken(*node);
    return is_taken(*node);
  }

  void check_operands(const Apply& node) {
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      const Node* operand = node.input(i);
      const Value* value = operand ? operand->as_value() : nullptr;
      if (value && !value->is_tensor() && !value->is_graph()) take(*value);  // the module does not list it
      if (is_here(operand)) {
        ++operand_count_[operand->id()];
        bool descends = operand->is_apply() ? operand->id() < node.id() : !constant_function(operand);
        descends_ = descends_ && descends;
        continue;
      }
      may_walk_ = false;
      if (!operand) {
        report(Invariant::Operands, node, "operand {} is missing", i);
      } else if (operand->is_erased()) {
        report(Invariant::Operands, node, "operand {} is erased", i);
      } else if (value && value->is_graph() && !graphs_.contains(value->function())) {
        report(Invariant::Operands, node, "operand {} is a function that is erased or of another module", i);
      } else {
        report(Invariant::Operands, node, "operand {} is not a node of this module", i);
      }
    }
  }

  // Each use list is walked no farther than the operands counted allow, in case it is a ring.
  void check_use_lists() {
    for (const Node* node : by_id_) {
      if (!node) continue;
      size_t listed = 0, expected = operand_count_[node->id()];
      for (const Use& use : node->uses()) {
        if (++listed > expected) break;
        if (use.node != node) {
          report(Invariant::UseLists, *node, "its use list holds a use of another node");
        } else if (!use.user || !is_here(use.user)) {
          report(Invariant::UseLists, *node, "its use list holds a user that is erased or of another module");
        }
      }
      if (listed < expected) {
        report(Invariant::UseLists, *node, "{} operands name it, its use list holds {}", expected, listed);
      } else if (listed > expected) {
        report(Invariant::UseLists, *node, "{} operands name it, its use list holds more", expected);
      }
    }
  }

  void check_return(const Graph& graph) {
    if (!graphs_.contains(&graph)) return;
    const Apply* result = graph.return_node();
    if (!result) {
      report(Invariant::Return, &graph, nullptr, "the graph has no result");
    } else if (!is_here(result) || result->graph() != &graph) {
      report(Invariant::Return, &graph, nullptr, "its return node is not one of its applications");
      may_walk_ = false;
    } else if (result->primitive() != Primitive::Return) {
      report(Invariant::Return, *result, "the return node is not a Return");
    }
  }

  bool encloses(const Graph* outer, const Graph* inner) const {
    Interval o = graphs_.at(outer), i = graphs_.at(inner);
    return o.first <= i.first && i.last <= o.last;
  }

  void check_scope(const Apply& node) {
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      const Node* operand = node.input(i);
      if (!is_here(operand)) continue;
      if (const Graph* function = constant_function(operand)) {
        const Graph* parent = function->parent();
        if (parent && graphs_.contains(parent) && !encloses(parent, node.graph())) {
          report(Invariant::Scope, node, "operand {} is the function @{} of @{}, which does not enclose @{}", i,
                 function->name(), parent->name(), node.graph()->name());
        }
      } else if (operand->graph() && !encloses(operand->graph(), node.graph())) {
        report(Invariant::Scope, node, "operand {} is {} of @{}, which does not enclose @{}", i, describe(*operand),
               operand->graph()->name(), node.graph()->name());
      }
    }
  }

  // Meaning -------------------------------------------------------------------------------------------------

  void check_primitive(const Apply& node) {
    auto expect_operands = [&](size_t count) {
      if (node.num_inputs() == count) return true;
      report(Invariant::Primitives, node, "{} has {} operands, not {}", node.op().name, node.num_inputs(), count);
      return false;
    };
    if (node.primitive() != Primitive::Operation && node.num_outputs() != 1) {
      report(Invariant::Primitives, node, "{} has {} results, not 1", node.op().name, node.num_outputs());
    }
    switch (node.primitive()) {
      case Primitive::Operation:
        if (node.num_outputs() == 0) report(Invariant::Primitives, node, "it has no result");
        break;
      case Primitive::MakeTuple: break;
      case Primitive::Return:
        expect_operands(1);
        if (node.graph()->return_node() != &node) report(Invariant::Return, node, "a second Return of the graph");
        if (node.has_uses()) report(Invariant::Return, node, "a Return is used");
        break;
      case Primitive::TupleGetItem: {
        expect_operands(1);
        const AttributeValue* index = node.attributes().find("index");
        const int64_t* value = index ? std::get_if<int64_t>(index) : nullptr;
        if (!value || *value < 0) report(Invariant::Primitives, node, "TupleGetItem without an index");
        break;
      }
      case Primitive::Switch:
        if (!expect_operands(3)) break;
        for (size_t i : {size_t{1}, size_t{2}}) check_function(node, i);
        check_equal_branches(node);
        break;
      case Primitive::Call:
        if (node.num_inputs() == 0) {
          report(Invariant::Primitives, node, "a call without a callee");
        } else if (check_function(node, 0)) {
          check_arguments(node);
        }
        break;
    }
  }

  // Whether a result may be anything, as an item of a sequence may.
  static bool may_be_anything(const Operator& op) {
    if (!op.known || op.outputs.empty()) return !op.known;
    auto variable = std::ranges::find(op.variables, op.outputs[0].type, &TypeVariable::name);
    return variable != op.variables.end() && variable->dtypes.empty();
  }

  // Whether operand i may be a function at all.
  bool check_function(const Apply& node, size_t i) {
    const Node* operand = node.input(i);
    if (!is_here(operand)) return false;
    const Value* value = operand->as_value();
    const Apply* apply = operand->as_apply();
    bool never = (value && !value->is_graph()) || (apply && apply->primitive() == Primitive::MakeTuple);
    if (apply && apply->primitive() == Primitive::Operation && !may_be_anything(apply->op())) never = true;
    if (never) report(Invariant::Calls, node, "operand {}, {}, is not a function", i, describe(*operand));
    return !never;
  }

  void check_equal_branches(const Apply& node) {
    const Graph* f = is_here(node.input(1)) ? constant_function(node.input(1)) : nullptr;
    const Graph* g = is_here(node.input(2)) ? constant_function(node.input(2)) : nullptr;
    if (f && g && f->parameters().size() != g->parameters().size()) {
      report(Invariant::Calls, node, "@{} has {} parameters, @{} has {}", f->name(), f->parameters().size(), g->name(),
             g->parameters().size());
    }
  }

  void check_arguments(const Apply& call) {
    auto check = [&](const Node* callee) {
      const Graph* function = is_here(callee) ? constant_function(callee) : nullptr;
      if (!function || function->parameters().size() == call.num_inputs() - 1) return;
      report(Invariant::Calls, call, "@{} has {} parameters, {} arguments are given", function->name(),
             function->parameters().size(), call.num_inputs() - 1);
    };
    check(call.input(0));
    if (const Apply* choice = call.input(0)->as(Primitive::Switch); choice && choice->num_inputs() == 3) {
      check(choice->input(1));
      check(choice->input(2));
    }
  }

  void check_declaration(const Apply& node) {
    const Operator& op = node.op();
    if (!op.known) return;
    const Arity inputs = arity_of(op.inputs), outputs = arity_of(op.outputs);
    if (node.num_inputs() < inputs.least || node.num_inputs() > inputs.most) {
      report(Invariant::Declarations, node, "{} operands, {} takes {} {}", node.num_inputs(), op.qualified,
             node.num_inputs() < inputs.least ? "at least" : "at most",
             node.num_inputs() < inputs.least ? inputs.least : inputs.most);
    }
    for (size_t i = 0; i < std::min(node.num_inputs(), op.inputs.size()); ++i) {
      const Value* value = is_here(node.input(i)) ? node.input(i)->as_value() : nullptr;
      if (value && value->is_none() && op.inputs[i].arity == Formal::Arity::Required) {
        report(Invariant::Declarations, node, "the required operand {} ('{}') is none", i, op.inputs[i].name);
      }
    }
    if (node.num_outputs() > outputs.most) {
      report(Invariant::Declarations, node, "{} results, {} has at most {}", node.num_outputs(), op.qualified,
             outputs.most);
    }
    for (const auto& [name, value] : node.attributes()) {
      const AttributeDeclaration* declared = op.find_attribute(name);
      if (!declared) {
        report(Invariant::Declarations, node, "{} has no attribute '{}'", op.qualified, name);
      } else if (!has_kind(value, declared->kind)) {
        report(Invariant::Declarations, node, "the attribute '{}' is of the wrong kind", name);
      }
    }
    for (const AttributeDeclaration& declared : op.attributes) {
      if (declared.required && !node.attributes().has(declared.name)) {
        report(Invariant::Declarations, node, "the required attribute '{}' is missing", declared.name);
      }
    }
  }

  // Types are null until they are inferred; what is there must agree.
  void check_types(const Apply& node) {
    const Type* type = node.type();
    if (!is_reached(type)) return;
    auto operand_type = [&](size_t i) {
      return i < node.num_inputs() && is_here(node.input(i)) ? node.input(i)->type() : nullptr;
    };
    switch (node.primitive()) {
      case Primitive::Operation:
        if (node.num_outputs() > 1 && (!type->is_tuple() || type->elements().size() != node.num_outputs())) {
          report(Invariant::Types, node, "{} results, its type is {}", node.num_outputs(), to_string(type));
        } else if (node.num_outputs() == 1 && type->is_tuple() && !may_be_anything(node.op())) {
          report(Invariant::Types, node, "one result, its type is the tuple {}", to_string(type));
        }
        break;
      case Primitive::Return:
        if (!may_agree(operand_type(0), type)) {
          report(Invariant::Types, node, "its type is {}, the result's {}", to_string(type),
                 to_string(operand_type(0)));
        }
        break;
      case Primitive::MakeTuple: {
        bool agrees = type->is_tuple() && type->elements().size() == node.num_inputs();
        for (size_t i = 0; agrees && i < node.num_inputs(); ++i) {
          agrees = may_agree(operand_type(i), type->element(i));
        }
        if (!agrees) report(Invariant::Types, node, "its type {} is not that of its operands", to_string(type));
        break;
      }
      case Primitive::TupleGetItem: {
        const Type* tuple = operand_type(0);
        const AttributeValue* index = node.attributes().find("index");
        const int64_t* value = index ? std::get_if<int64_t>(index) : nullptr;
        if (!is_reached(tuple) || !value || *value < 0) break;
        if (!tuple->is_tuple() || static_cast<size_t>(*value) >= tuple->elements().size()) {
          report(Invariant::Types, node, "item {} of {}", *value, to_string(tuple));
        } else if (!may_agree(tuple->element(static_cast<size_t>(*value)), type)) {
          report(Invariant::Types, node, "its type is {}, that of item {} is {}", to_string(type), *value,
                 to_string(tuple->element(static_cast<size_t>(*value))));
        }
        break;
      }
      case Primitive::Switch:
        if (!type->is_func()) report(Invariant::Types, node, "its type {} is not a function's", to_string(type));
        break;
      case Primitive::Call: break;
    }
  }

  void check_constants() {
    for (const Value* value : module_.constants()) {
      if (!value->is_tensor()) {
        report(Invariant::Constants, *value, "a constant without a tensor");
        continue;
      }
      const Type* type = value->type();
      const Tensor& tensor = value->tensor();
      auto shape = type ? type->static_shape() : std::nullopt;
      if (!shape || type->dtype() != tensor.dtype() || *shape != tensor.shape()) {
        report(Invariant::Constants, *value, "its type is {}, its tensor is {} of {}", to_string(type),
               anfora::to_string(std::span<const int64_t>(tensor.shape())), anfora::name(tensor.dtype()));
      }
    }
    for (const Graph* graph : module_.graphs()) {
      const Type* type = graph->value()->type();
      if (type && !type->is_func()) {
        report(Invariant::Constants, graph, graph->value(), "the function's type is {}", to_string(type));
      }
    }
  }

  void check_interface() {
    const Graph* main = module_.main();
    if (!main || !graphs_.contains(main) || !main->return_node() || main->return_node()->num_inputs() != 1) return;
    const Node* result = main->result();
    if (!is_here(result)) return;
    size_t names = module_.output_names().size();
    if (names > 0) {  // a module need not name its results
      const Apply* tuple = result->as(Primitive::MakeTuple);
      const Type* type = result->type();
      if (tuple && tuple->num_inputs() != names) {
        report(Invariant::Interface, *result, "{} results, {} names of results", tuple->num_inputs(), names);
      } else if (!tuple && is_reached(type) && (type->is_tuple() ? type->elements().size() : 1) != names) {
        report(Invariant::Interface, *result, "results of type {}, {} names of results", to_string(type), names);
      }
    }
    for (const Graph* graph : module_.graphs()) {
      if (!graphs_.contains(graph)) continue;
      for (const Parameter* parameter : graph->parameters()) {
        if (parameter->is_donated() && graph != main)
          report(Invariant::Interface, *parameter, "a donated parameter in another graph than main");
        const Value* value = module_.default_of(parameter);
        if (!value) continue;
        const Type* type = parameter->type();
        if (graph != main) {
          report(Invariant::Interface, *parameter, "a parameter with a default in another graph than main");
        } else if (!value->is_tensor()) {
          report(Invariant::Interface, *parameter, "its default is not a tensor");
        } else if (type && type->is_tensor() && type->dtype() != DType::Undefined &&
                   type->dtype() != value->tensor().dtype()) {
          report(Invariant::Interface, *parameter, "its default is {}, its type {}",
                 anfora::name(value->tensor().dtype()), to_string(type));
        }
      }
    }
  }

  // What a value needs before it can be computed: its operands, and for a function the variables that are free in it
  // (that is what making a closure reads). Recursion is no cycle: a body is computed when it is called.
  // Who reads a token and gives none on, as Depend, has no effect of its own; nor has a call whose functions do not read it.
  static bool consumes_token(const Use& use) {
    const Apply& user = *use.user;
    if (user.primitive() == Primitive::Call) return use.index() == 0 || !is_argument_unread(user, use.index() - 1);
    return user.primitive() != Primitive::Operation || user.op().effect == Effect::State;
  }
  static bool is_argument_unread(const Apply& call, size_t argument) {
    const Node* callee = call.input(0);
    const Apply* choice = callee->as_apply() ? callee->as_apply()->as(Primitive::Switch) : nullptr;
    auto is_unread = [&](const Node* function) {
      const Graph* graph = constant_function(function);
      return graph && argument < graph->parameters().size() && !graph->parameter(argument)->has_uses();
    };
    return choice ? is_unread(choice->input(1)) && is_unread(choice->input(2)) : is_unread(callee);
  }

  void check_tokens() {
    std::optional<ModuleOrder> live;
    for (const Node* node : by_id_) {
      if (!node || !node->type() || node->type()->kind() != TypeKind::State) continue;
      if (!live) live = topological_order(module_);
      check_token(*node, *live);
    }
  }

  // One consumer in its own graph, or one in each function that reads it: of the branches of a choice only one is taken. What no result
  // depends on, as the other branch of a choice that was folded, does not count.
  void check_token(const Node& token, const ModuleOrder& live) {
    boost::unordered_flat_map<const Graph*, int> consumers;
    for (const Use& use : token.uses()) {
      if (live.contains(*use.user) && consumes_token(use)) ++consumers[use.user->graph()];
    }
    const bool has_own = consumers.contains(token.graph());
    for (const auto& [graph, count] : consumers) {
      if (count == 1 && (!has_own || graph == token.graph())) continue;
      report(Invariant::Tokens, token, "the token has more than one consumer: which effect is the first is not told");
      return;
    }
  }

  void check_acyclic() {
    ModuleOrder order = topological_order(module_, Coverage::All);
    FreeVariables free(order);
    // Without free variables only operands can close a cycle, and the order has met them all.
    if (free.none() && order.back_edges.empty()) return;
    enum class State : uint8_t { New, Open, Done };
    LargeVector<State> state(module_.next_id(), State::New);  // of applications and function values
    struct Frame {
      const Node* node;
      size_t next;
    };
    LargeVector<Frame> stack;
    auto needs = [&](const Node* node) {
      if (const Graph* function = constant_function(node)) return free.of(function).size();
      return node->as_apply()->num_inputs();
    };
    auto need = [&](const Node* node, size_t i) -> const Node* {
      if (const Graph* function = constant_function(node)) return free.of(function)[i];
      return node->as_apply()->input(i);
    };
    for (const Apply* root : applications_) {
      if (state[root->id()] != State::New) continue;
      state[root->id()] = State::Open;
      stack.push_back({root, 0});
      while (!stack.empty()) {
        auto [node, i] = stack.back();
        if (i == needs(node)) {
          state[node->id()] = State::Done;
          stack.pop_back();
          continue;
        }
        ++stack.back().next;
        const Node* operand = need(node, i);
        if (!operand->is_apply() && !constant_function(operand)) continue;
        State& seen = state[operand->id()];
        if (seen == State::New) {
          seen = State::Open;
          stack.push_back({operand, 0});
        } else if (seen == State::Open) {
          report_cycle(*node, *operand);
        }
      }
    }
  }

  void report_cycle(const Node& user, const Node& operand) {
    if (const Graph* function = constant_function(&user)) {
      report(Invariant::Acyclic, operand, "it depends on itself: @{} reads it", function->name());
    } else if (const Graph* needed = constant_function(&operand)) {
      report(Invariant::Acyclic, user, "it depends on itself: @{} reads what it is made of", needed->name());
    } else {
      report(Invariant::Acyclic, user, "it depends on itself through {}", describe(operand));
    }
  }

  const Module& module_;
  std::vector<Violation> violations_;
  boost::unordered_flat_map<const Graph*, Interval> graphs_;
  LargeVector<const Node*> by_id_;       // the census
  LargeVector<uint32_t> operand_count_;  // by id: operands that name the node
  LargeVector<const Apply*> applications_;
  bool may_walk_ = true;  // whether dependencies can be followed
  // Whether every operand has a smaller id than its user, and no function may close a cycle: as it is in a module that has just
  // been built. No walk is needed then to see that there are no cycles.
  bool descends_ = true;
};

}  // namespace

bool may_agree(const Type* a, const Type* b) {
  auto says_nothing = [](const Type* type) {
    return !is_reached(type) || (type->is_tensor() && type->dtype() == DType::Undefined && !type->has_rank());
  };
  if (a == b || says_nothing(a) || says_nothing(b)) return true;
  // What is known to be there, or not to be, is a value of an optional's type.
  if (a->kind() == TypeKind::Optional && b->kind() != TypeKind::Optional) return b->is_none() || may_agree(a->element(), b);
  if (b->kind() == TypeKind::Optional && a->kind() != TypeKind::Optional) return may_agree(b, a);
  if (a->kind() != b->kind()) return false;
  auto is_some_function = [&](const Type* f) { return f->parameters().empty() && says_nothing(f->result()); };
  if (a->is_func() && (is_some_function(a) || is_some_function(b))) return true;
  if (a->is_tensor()) {
    if (a->dtype() != b->dtype() && a->dtype() != DType::Undefined && b->dtype() != DType::Undefined) return false;
    if (!a->has_rank() || !b->has_rank()) return true;
    if (a->rank() != b->rank()) return false;
    for (int i = 0; i < a->rank(); ++i) {
      if (provably_different(a->dim(i), b->dim(i))) return false;
    }
    return true;
  }
  if (a->elements().size() != b->elements().size()) return false;
  for (size_t i = 0; i < a->elements().size(); ++i) {
    if (!may_agree(a->element(i), b->element(i))) return false;
  }
  return true;
}

std::string_view name(Invariant invariant) {
  switch (invariant) {
    case Invariant::Main: return "main";
    case Invariant::GraphTree: return "graph tree";
    case Invariant::Ownership: return "ownership";
    case Invariant::Parameters: return "parameters";
    case Invariant::Operands: return "operands";
    case Invariant::UseLists: return "use lists";
    case Invariant::Return: return "return";
    case Invariant::Scope: return "scope";
    case Invariant::Acyclic: return "acyclic";
    case Invariant::Primitives: return "primitives";
    case Invariant::Calls: return "calls";
    case Invariant::Declarations: return "declarations";
    case Invariant::Constants: return "constants";
    case Invariant::Types: return "types";
    case Invariant::Interface: return "interface";
    case Invariant::Typed: return "typed";
    case Invariant::Inferred: return "inferred";
    case Invariant::Tokens: return "tokens";
  }
  return "";
}

// Of a violation: "MatMul 'fc' in @main", "graph @main", "the module".
static std::string subject(const Violation& v) {
  if (v.node && v.graph) return fmt::format("{} in @{}", describe(*v.node), v.graph->name());
  if (v.node) return describe(*v.node);
  return v.graph ? fmt::format("graph @{}", v.graph->name()) : "the module";
}

std::string to_string(const Violation& v) {
  const Location* location = v.node ? v.node->location() : nullptr;
  return fmt::format("{}{}{}: {} (invariant {}, {})", location ? to_string(*location) : "", location ? ": " : "",
                     subject(v), v.message, static_cast<int>(v.invariant), name(v.invariant));
}

std::vector<Violation> verify(const Module& module) { return Verifier(module).run(); }

void throw_if_any(const std::vector<Violation>& violations, ErrorCode code) {
  if (violations.empty()) return;
  const Violation& first = violations.front();
  std::string text =
      fmt::format("{} (invariant {}, {})", first.message, static_cast<int>(first.invariant), name(first.invariant));
  if (code ==
      ErrorCode::Internal) {  // all of it may tell what went wrong; who gave a wrong model begins with the first
    for (size_t i = 1; i < std::min(violations.size(), kMostReported); ++i) text += "\n  " + to_string(violations[i]);
    if (violations.size() > kMostReported) text += fmt::format("\n  and {} more", violations.size() - kMostReported);
  } else if (violations.size() > 1) {
    text += fmt::format(", and {} more", violations.size() - 1);
  }
  Error error(code, text);
  error.at_node(subject(first)).with_hint("docs/ir.md explains the invariants");
  if (first.node && first.node->location()) error.at_location(to_string(*first.node->location()));
  throw error;
}

}  // namespace anfora::ir

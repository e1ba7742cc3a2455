#include "plan/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>

#include "analysis/group_space.h"
#include "anfora/error.h"

namespace anfora::plan {
namespace {

using ir::Apply;
using ir::Graph;
using ir::Node;
using ir::Primitive;

// A Switch between two constant functions that is only called needs no closure: the call chooses.
bool is_only_called(const Apply& choice) {
  if (!constant_function(choice.input(1)) || !constant_function(choice.input(2))) return false;
  return std::ranges::all_of(choice.uses(), [&](const ir::Use& use) {
    return use.user->primitive() == Primitive::Call && use.index() == 0 && use.user->graph() == choice.graph();
  });
}

class Lowering {
 public:
  Lowering(const ir::GraphOrder& order, ProgramBuilder& program) : order_(order), program_(program) {
    draft_.graph = order.graph;
  }

  Draft run() {
    for (Node* parameter : order_.graph->parameters()) define(parameter, argument(parameter));
    for (Node* variable : program_.captures(order_.graph)) define(variable, argument(variable));
    draft_.num_arguments = static_cast<uint32_t>(draft_.value_types.size());
    for (Apply* node : order_.nodes) {
      if (node->type() && !node->type()->reason().empty()) {  // nothing is computed after it
        add_step(Opcode::Fail, nullptr, {}).target = program_.add_failure(node->type()->reason());
        break;
      }
      lower_node(*node);
    }
    return std::move(draft_);
  }

 private:
  Value new_value(const ir::Type* type) {
    draft_.value_types.push_back(type);
    return static_cast<Value>(draft_.value_types.size() - 1);
  }
  void define(const Node* node, Operand value) { values_[node] = value; }

  Step& add_step(Opcode opcode, const Apply* node, std::vector<Operand> operands) {
    Step step;
    step.opcode = opcode;
    step.operands = std::move(operands);
    step.node = node;
    return draft_.steps.emplace_back(std::move(step));
  }
  Operand argument(const Node* node) { return static_cast<Operand>(new_value(node->type())); }
  Operand give_result(Step& step, const ir::Type* type) {
    step.first_result = new_value(type);
    step.num_results = 1;
    return static_cast<Operand>(step.first_result);
  }
  // A tuple is a value only where one is asked for; else its items are values.
  void define_items(Step& step, const Apply& node, size_t count) {
    step.first_result = static_cast<Value>(draft_.value_types.size());
    step.num_results = static_cast<uint32_t>(count);
    std::vector<Operand>& items = items_[&node];
    for (size_t i = 0; i < count; ++i) {
      items.push_back(static_cast<Operand>(new_value(is_tuple(node) ? node.type()->element(i) : nullptr)));
    }
  }
  static bool is_tuple(const Node& node) { return node.type() && node.type()->is_tuple(); }
  // Whether a function that returns the node returns its items one by one: as a rule, so that no call makes a tuple.
  static bool is_returned_by_items(const Node& node) { return is_tuple(node) && node.type()->elements().size() != 1; }

  // The node as an operand, with the steps that it takes to have it as one value.
  Operand operand(const Node* node, const Apply* user) {
    if (const ir::Value* value = node->as_value()) {
      const Graph* function = value->function();
      if (!function) return program_.constant(*value);
      if (program_.captures(function).empty()) return program_.constant_closure(function);
    }
    if (auto known = values_.find(node); known != values_.end()) return known->second;
    if (const Graph* function = constant_function(node)) {
      std::vector<Operand> captured = operands_of(program_.captures(function), user);
      Step& step = add_step(Opcode::MakeClosure, user, std::move(captured));
      step.target = program_.function_index(function);
      define(node, give_result(step, node->type()));
    } else if (auto items = items_.find(node); items != items_.end()) {
      define(node, give_result(add_step(Opcode::MakeTuple, user, items->second), node->type()));
    } else {
      throw Error(ErrorCode::Internal,
                  fmt::format("@{} uses {} before it is computed", order_.graph->name(), describe(*node)));
    }
    return values_.at(node);
  }
  template <class Nodes>
  std::vector<Operand> operands_of(const Nodes& nodes, const Apply* user) {
    std::vector<Operand> operands;
    for (const Node* node : nodes) operands.push_back(operand(node, user));
    return operands;
  }
  std::vector<Operand> operands_from(const Apply& node, size_t first) {
    std::vector<Operand> operands;
    for (size_t i = first; i < node.num_inputs(); ++i) operands.push_back(operand(node.input(i), &node));
    return operands;
  }

  void lower_node(Apply& node) {
    switch (node.primitive()) {
      case Primitive::Return: lower_return(node); break;
      case Primitive::Call: lower_call(node); break;
      case Primitive::Switch:
        if (!is_only_called(node)) simple_step(Opcode::Select, node);
        break;
      case Primitive::MakeTuple: items_[&node] = operands_from(node, 0); break;
      case Primitive::TupleGetItem: lower_item(node); break;
      case Primitive::Operation: lower_operation(node); break;
    }
  }

  void simple_step(Opcode opcode, Apply& node) {
    std::vector<Operand> operands = operands_from(node, 0);
    define(&node, give_result(add_step(opcode, &node, std::move(operands)), node.type()));
  }

  void lower_item(Apply& node) {
    const Node* tuple = node.input(0);
    const uint32_t index = static_cast<uint32_t>(node.attributes().require_int("index"));
    if (auto items = items_.find(tuple); items != items_.end()) return define(&node, items->second[index]);
    define(&node, get_item(operand(tuple, &node), index, node.type(), node));
  }

  Operand get_item(Operand tuple, uint32_t index, const ir::Type* type, const Apply& user) {
    Step& step = add_step(Opcode::GetItem, &user, {tuple});
    step.target = index;
    return give_result(step, type);
  }

  // Of a group, the kernel that was generated; else the function is called.
  void lower_group(Apply& node, const Graph& function) {
    const std::optional<uint32_t> kernel = program_.group_kernel(node);
    std::vector<Operand> operands = operands_from(node, 1);
    Step& step = add_step(kernel ? Opcode::Kernel : Opcode::Call, &node, std::move(operands));
    step.target = kernel ? *kernel : program_.function_index(&function);
    if (node.num_outputs() == 1) return define(&node, give_result(step, node.type()));
    define_items(step, node, node.num_outputs());
  }

  void lower_operation(Apply& node) {
    if (const Graph* function = analysis::function_of_group(node)) return lower_group(node, *function);
    std::vector<Operand> operands = operands_from(node, 0);
    Step& step = add_step(Opcode::Kernel, &node, std::move(operands));
    step.target = program_.add_kernel(node);
    if (node.num_outputs() == 1) return define(&node, give_result(step, node.type()));
    define_items(step, node, node.num_outputs());
  }

  // The arguments of a constant function: those given, then those it captures.
  std::vector<Operand> arguments_for(const Graph* callee, const Apply& call) {
    std::vector<Operand> arguments = operands_from(call, 1);
    std::vector<Operand> captured = operands_of(program_.captures(callee), &call);
    arguments.insert(arguments.end(), captured.begin(), captured.end());
    return arguments;
  }

  void lower_call(Apply& node) {
    Step step;
    step.node = &node;
    const Apply* choice = node.input(0)->as(Primitive::Switch);
    if (const Graph* callee = constant_function(node.input(0))) {
      step.opcode = Opcode::Call;
      step.target = program_.function_index(callee);
      step.operands = arguments_for(callee, node);
    } else if (choice && choice->graph() == order_.graph && is_only_called(*choice)) {
      const Graph *if_true = constant_function(choice->input(1)), *if_false = constant_function(choice->input(2));
      step.opcode = Opcode::CallEither;
      step.target = program_.function_index(if_true);
      step.otherwise = program_.function_index(if_false);
      step.operands = {operand(choice->input(0), &node)};
      std::vector<Operand> first = arguments_for(if_true, node), second = arguments_for(if_false, node);
      step.split = static_cast<uint32_t>(first.size());
      step.operands.insert(step.operands.end(), first.begin(), first.end());
      step.operands.insert(step.operands.end(), second.begin(), second.end());
    } else {
      step.opcode = Opcode::CallClosure;
      step.operands = operands_from(node, 0);
    }
    step.tail = order_.graph->result() == &node;
    if (is_returned_by_items(node)) {
      define_items(step, node, node.type()->elements().size());
    } else {
      define(&node, give_result(step, node.type()));
    }
    draft_.steps.push_back(std::move(step));
  }

  void lower_return(Apply& node) {
    if (!draft_.steps.empty() && draft_.steps.back().tail) return;  // the callee returns in our stead
    const Node* result = node.input(0);
    std::vector<Operand> operands;
    if (!is_returned_by_items(*result)) {
      operands = {operand(result, &node)};
    } else if (auto items = items_.find(result); items != items_.end()) {
      operands = items->second;
    } else {
      const Operand tuple = operand(result, &node);
      for (uint32_t i = 0; i < result->type()->elements().size(); ++i) {
        operands.push_back(get_item(tuple, i, result->type()->element(i), node));
      }
    }
    add_step(Opcode::Return, &node, std::move(operands));
  }

  const ir::GraphOrder& order_;
  ProgramBuilder& program_;
  Draft draft_;
  boost::unordered_flat_map<const Node*, Operand> values_;
  boost::unordered_flat_map<const Node*, std::vector<Operand>> items_;  // of tuples
};

}  // namespace

Draft lower(const ir::GraphOrder& order, ProgramBuilder& program) { return Lowering(order, program).run(); }

}  // namespace anfora::plan

// Gradients inside a function that is compiled: anfora.grad(f)(x) is f of variables in the place of x, and an application of Gradient that names
// them, which is differentiated once the whole function is lowered.
#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "frontend/python/lower/lowering.h"

namespace anfora::python {

using ir::Node;

namespace {

bool is_float_leaf(const Emitter& emit, const Object& object) {
  if (object.constant<double>()) return true;
  const auto* array = object.as<Array>();
  return array && array->node->type()->is_tensor() && is_float(emit.dtype(object));
}

bool has_one_element(const Node* node) {
  return node->type()->has_rank() &&
         std::ranges::all_of(node->type()->dims(), [](ir::Dim size) { return size.as_constant() == 1; });
}

}  // namespace

// What has the structure of the trees, with a result of `leaf` in the place of the leaves at each place.
Object Lowering::map_trees(std::span<const Object> trees, const LeafMap& leaf) {
  auto held = [&](const Object& tree) { return tree.is<Cell>() ? content(*tree.as<Cell>()) : tree; };
  const Object first = held(trees[0]);
  if (!first.tuple()) return leaf(trees);
  const auto* cell = trees[0].as<Cell>();
  const bool is_dict = cell && cell->kind == Cell::Kind::Dict;
  std::vector<Object> items;
  for (size_t i = 0; i < first.tuple()->items.size(); ++i) {
    std::vector<Object> at_i;
    for (const Object& tree : trees) {
      const Object other = held(tree);
      if (!other.tuple() || other.tuple()->items.size() != first.tuple()->items.size()) {
        emit_.fail(ErrorCode::TypeMismatch,
                   fmt::format("the structures differ: {} and {}", describe(trees[0]), describe(tree)),
                   "all have to be made of the same tuples, lists and dicts");
      }
      at_i.push_back(other.tuple()->items[i]);
    }
    items.push_back(is_dict && i % 2 == 0 ? at_i[0] : map_trees(at_i, leaf));  // keys and values in turn
  }
  if (cell) return is_dict ? new_dict(std::move(items)) : new_list(std::move(items));
  return make_tuple(std::move(items), first.tuple()->names, first.tuple()->type);
}

Object Lowering::call_derivative(const Derivative& derivative, Arguments arguments) {
  if (here_.graph->parent()) {
    emit_.fail(
        ErrorCode::Unsupported, "a gradient in a branch, a loop or a recursive function is not supported",
        "take the gradient of a function that has the loop inside, or call the compiled function in a loop outside");
  }
  std::vector<Node*> values, variables;
  for (size_t position : derivative.by) {
    if (position >= arguments.positional.size()) {
      emit_.fail(
          ErrorCode::InvalidArgument,
          fmt::format("argnums has {}, and there are {} positional arguments", position, arguments.positional.size()),
          "give what is differentiated by without its name");
    }
    Object& argument = arguments.positional[position];
    argument = map_trees(std::span(&argument, 1), [&](std::span<const Object> leaf) -> Object {
      if (!is_float_leaf(emit_, leaf[0])) return leaf[0];
      values.push_back(emit_.tensor(leaf[0]));
      variables.push_back(emit_.op("Identity", {values.back()}));
      return {Array{variables.back(), Emitter::is_number(leaf[0])}};
    });
  }
  if (values.empty()) {
    emit_.fail(ErrorCode::InvalidArgument, "there is no float to differentiate by",
               "convert with astype() or float(…)");
  }
  const std::vector<Object> given = arguments.positional;
  const Object result = call(*derivative.function, std::move(arguments));
  if (!is_float_leaf(emit_, result) || !has_one_element(emit_.tensor(result))) {
    emit_.fail(ErrorCode::TypeMismatch,
               fmt::format("what is differentiated returns {} and not one float", describe(result)),
               "sum or average it");
  }
  std::vector<Node*> operands = values;
  operands.insert(operands.end(), variables.begin(), variables.end());
  operands.push_back(emit_.op("Reshape", {emit_.tensor(result), emit_.integers(std::span<const int64_t>())}));
  Node* gradient = emit_.apply("Gradient", operands, {{"count", static_cast<int64_t>(values.size())}}, values.size());
  size_t next = 0;
  std::vector<Object> parts;
  for (size_t position : derivative.by) {
    parts.push_back(map_trees(std::span(&given[position], 1), [&](std::span<const Object> leaf) -> Object {
      if (!is_float_leaf(emit_, leaf[0])) return {Constant{NoneValue()}};
      Node* item = values.size() == 1 ? gradient : emit_.item(gradient, next);
      ++next;
      return {Array{item, Emitter::is_number(leaf[0])}};
    }));
  }
  Object by = derivative.is_single ? parts[0] : make_tuple(std::move(parts));
  return derivative.has_value ? make_tuple({result, std::move(by)}) : by;
}

}  // namespace anfora::python

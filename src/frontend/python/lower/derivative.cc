// Derivatives inside a function that is compiled: anfora.grad(f)(x) is an application of Gradient to f as a function of the IR, which is
// differentiated once the whole program is lowered; a function with a gradient of its own one of CustomGradient (ops/differentiation.cc).
#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "frontend/python/lower/lowering.h"
#include "frontend/python/lower/union.h"

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

// Parts of the program as functions of the IR -----------------------------------------------------------------------

// What follows is emitted in a function, which sees what is here.
Lowering::Region Lowering::begin_region(const Object& function) {
  const Closure* written = written_function(function);
  const std::string name =
      written && written->function->is(Kind::FunctionDef) ? written->function->text("name") : "lambda";
  Region region{.outside = here_, .graph = emit_.module().make_graph(name, here_.graph)};
  State inside = here_;
  inside.graph = region.graph;
  set_state(std::move(inside));
  return region;
}

Object Lowering::region_parameter(const Region& region, const Object& like, const ir::Type* type) {
  Node* value = emit_.tensor(like);
  Node* parameter = emit_.module().add_parameter(region.graph, type ? type : value->type());
  joined_from_[parameter].push_back(value);
  return {Array{parameter, Emitter::is_number(like)}};
}

Object Lowering::call_inside(const Object& function, Arguments arguments) {
  try {
    return call(function, std::move(arguments));
  } catch (const Unreached&) {
    if (recursion_) throw;  // nothing may be known yet of what a recursive function returns
    emit_.fail(ErrorCode::InvalidModel, fmt::format("{} never returns", describe(function)),
               "a path that returns a value is needed");
  }
}

// What was there before and is not the same any more, cells and the token of effects; and cells that are seen there.
std::vector<size_t> Lowering::changed_cells(const Region& region) const {
  const std::map<size_t, Object>& before = region.outside.store;
  std::vector<size_t> changed;
  for (const auto& [id, content] : here_.store) {
    auto old = before.find(id);
    if (old == before.end() ? id == 0 : differs(old->second, content)) changed.push_back(id);
  }
  auto add = [&](const Cell& cell) {
    if (!before.contains(cell.id) && !std::ranges::count(changed, cell.id)) changed.push_back(cell.id);
  };
  auto add_seen = [&](auto& self, const Object& object) -> void {
    if (const auto* cell = object.as<Cell>()) add(*cell);
    if (const Closure* closure = object.closure()) {
      for (const auto& [variable, cell] : closure->captured) add(cell);
    }
    for (size_t i = 0; object.tuple() && i < object.tuple()->items.size(); ++i) self(self, object.tuple()->items[i]);
  };
  for (size_t i = 0; i < changed.size(); ++i) {
    if (auto content = here_.store.find(changed[i]); content != here_.store.end()) add_seen(add_seen, content->second);
  }
  return changed;
}

void Lowering::require_pure(const Region& region, const Object& function) {
  if (changed_cells(region).empty()) return;
  emit_.fail(ErrorCode::Unsupported, fmt::format("{} prints, asserts, or changes what others see", describe(function)),
             "a function with a gradient of its own does nothing but compute; return the new value");
}

// Without free variables: those are captured.
ir::Lifted Lowering::end_region(const Region& region, std::span<Node* const> results) {
  emit_.module().set_result(here_.graph, result_of(results));
  try {
    return lift(emit_.module(), *region.graph);
  } catch (const Error&) {
    emit_.fail(ErrorCode::Unsupported, "what is differentiated here calls a function of which it is a part",
               "a derivative in a recursive function is of another function");
  }
}

// Goes on outside, with what was made last.
void Lowering::leave_region(State outside, size_t first_cell) {
  outside.store.insert(here_.store.lower_bound(first_cell), here_.store.end());
  set_state(std::move(outside));
}

// Gradients ------------------------------------------------------------------------------------------------------------

Object Lowering::call_derivative(const Derivative& derivative, Arguments arguments) {
  const Region region = begin_region(*derivative.function);
  std::vector<Node*> operands = {nullptr};
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
      operands.push_back(emit_.tensor(leaf[0]));
      return region_parameter(region, leaf[0]);
    });
  }
  const size_t count = operands.size() - 1;
  if (count == 0) {
    emit_.fail(ErrorCode::InvalidArgument, "there is no float to differentiate by",
               "convert with astype() or float(…)");
  }
  const std::vector<Object> given = arguments.positional;
  const Object result = call_inside(*derivative.function, std::move(arguments));
  if (!is_float_leaf(emit_, result) || !has_one_element(emit_.tensor(result))) {
    emit_.fail(ErrorCode::TypeMismatch,
               fmt::format("what is differentiated returns {} and not one float", describe(result)),
               "sum or average it");
  }

  // Behind the value come the effects.
  const std::vector<size_t> changed = changed_cells(region);
  Union results(*this, region.outside.graph);
  State after = region.outside;
  auto unite = [&] {
    results.is_forced = true;
    const Object value = results.unite({result});
    results.is_forced = false;
    for (size_t id : changed) {
      if (auto content = here_.store.find(id); content != here_.store.end())
        after.store[id] = results.unite({content->second});
    }
    return value;
  };
  results.name = "what changes where a gradient is taken";
  unite();
  std::vector<Node*> values;
  for (const Leaf& leaf : results.leaves) values.push_back(convert(leaf.sources[0], leaf));
  const ir::Lifted function = end_region(region, values);

  operands[0] = function.graph->value();
  operands.insert(operands.end(), function.captured.begin(), function.captured.end());
  ir::Apply* gradient =
      emit_.module().apply(region.outside.graph, emit_.module().context().get_operator("Gradient"), operands,
                           {{"count", static_cast<int64_t>(count)}, {"checkpoints", derivative.checkpoints}},
                           values.size() + count, emit_.location());
  std::vector<const ir::Type*> types;
  for (const Node* value : values) types.push_back(value->type());
  for (size_t i = 0; i < count; ++i) types.push_back(operands[i + 1]->type());
  gradient->set_type(emit_.module().context().tuple_type(types));
  emit_.set_graph(region.outside.graph);
  std::vector<Node*> nodes;
  for (size_t i = 0; i < values.size(); ++i) nodes.push_back(emit_.item(gradient, i));
  results.substitute(nodes);
  const Object value = unite();
  const size_t first_cell = next_cell_;
  size_t next = values.size();
  std::vector<Object> parts;
  for (size_t position : derivative.by) {
    parts.push_back(map_trees(std::span(&given[position], 1), [&](std::span<const Object> leaf) -> Object {
      if (!is_float_leaf(emit_, leaf[0])) return {Constant{NoneValue()}};
      return {Array{emit_.item(gradient, next++), Emitter::is_number(leaf[0])}};
    }));
  }
  Object by = derivative.is_single ? parts[0] : make_tuple(std::move(parts));
  leave_region(std::move(after), first_cell);
  return derivative.has_value ? make_tuple({value, std::move(by)}) : by;
}

Object Lowering::stop_gradient(const Object& tree) {
  return map_trees(std::span(&tree, 1), [&](std::span<const Object> leaf) -> Object {
    const auto* array = leaf[0].as<Array>();
    if (!array || !is_float_leaf(emit_, leaf[0])) return leaf[0];
    return {Array{emit_.op("StopGradient", {array->node}), array->is_number}};
  });
}

}  // namespace anfora::python

// Functions that say their gradient themselves: f(x) returns what it computes, and a function of the sensitivity of that.
//
//     @anfora.custom_gradient                      graph @f(%x) { %e = Exp(%x); return (Log(Add(1, %e)), %e) }
//     def f(x):                                    graph @backward(%e, %dy) { … }
//         e = np.exp(x)
//         def backward(dy):                  →     %y = CustomGradient(@f, @backward, %x){count=1, by=[0]}
//             return dy * (1 - 1 / (1 + e))
//         return np.log(1 + e), backward
//
// Both become functions of the IR. What the inner one captures of the outer one, the residuals, the outer one returns.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "anfora/error.h"
#include "frontend/python/lower/lowering.h"
#include "ir/readable.h"

namespace anfora::python {

using ir::Node;
using ir::Type;

namespace {

const ir::Type* type_of_leaf(const Object& leaf) {
  const auto* array = leaf.as<Array>();
  return array && array->node->type()->is_tensor() ? array->node->type() : nullptr;
}
bool has_float_type(const Object& leaf) { return type_of_leaf(leaf) && is_float(type_of_leaf(leaf)->dtype()); }

// The type where sizes that only one function knows are not known.
const Type* type_elsewhere(ir::Context& context, const Type* type) {
  if (!type->has_rank()) return type;
  std::vector<ir::Dim> dims;
  for (ir::Dim dim : type->dims()) {
    bool is_known = true;
    for_each_symbol(dim, [&](ir::Dim symbol) { is_known = is_known && !ir::is_generated(symbol.symbol_name()); });
    dims.push_back(is_known ? dim : context.dims().unknown());
  }
  return context.tensor_type(type->dtype(), dims);
}

bool may_be(const Type* type, const Type* expected) {
  if (type->dtype() != expected->dtype()) return false;
  if (!type->has_rank() || !expected->has_rank()) return true;
  if (type->rank() != expected->rank()) return false;
  for (int i = 0; i < type->rank(); ++i) {
    const ir::Dim a = type->dim(i), b = expected->dim(i);
    if (!a.is_unknown() && !b.is_unknown() && !provably_equal(a, b)) return false;
  }
  return true;
}

}  // namespace

Object Lowering::call_custom_gradient(const CustomGradient& custom, const Arguments& arguments) {
  const Object& function = *custom.function;
  const Emitter::Place place = emit_.place();
  const Emitter::Place written{written_function(function)->source, written_function(function)->function};
  const Region region = begin_region(function);
  std::vector<Node*> operands = {nullptr, nullptr};
  Arguments given = arguments;
  for (Object& argument : given.positional) {
    argument = map_trees(std::span(&argument, 1), [&](std::span<const Object> leaf) -> Object {
      if (!type_of_leaf(leaf[0])) return leaf[0];
      operands.push_back(leaf[0].as<Array>()->node);
      return region_parameter(region, leaf[0]);
    });
  }
  const size_t count = operands.size() - 2;
  const Object returned = call_inside(function, std::move(given));
  emit_.set_place(written);
  const Items* pair = returned.tuple();
  const bool is_pair = pair && pair->items.size() == 2;
  if (!is_pair || !(pair->items[1].closure() || pair->items[1].is<Builtin>() || pair->items[1].is<CustomGradient>())) {
    emit_.fail(
        ErrorCode::TypeMismatch,
        fmt::format("{} has a gradient of its own, and returns {}", describe(function), structure(returned, false)),
        "return two: what it computes, and a function of the sensitivity of that, which returns those of the "
        "arguments");
  }
  require_pure(region, function);
  const Object& value = pair->items[0];
  std::vector<Node*> results;
  map_trees(std::span(&value, 1), [&](std::span<const Object> leaf) -> Object {
    if (type_of_leaf(leaf[0])) {
      results.push_back(leaf[0].as<Array>()->node);
    } else if (leaf[0].is<Array>()) {
      emit_.fail(ErrorCode::Unsupported,
                 fmt::format("{} returns a list whose length is only known when it runs", describe(function)),
                 "numpy.stack(…) makes a tensor of it");
    }
    return leaf[0];
  });
  const auto num_results = results.size();
  const State end = here_;
  const Pullback pullback = lower_pullback(pair->items[1], arguments.positional, value);
  set_state(end);
  results.insert(results.end(), pullback.function.captured.begin(), pullback.function.captured.end());
  const ir::Lifted lifted = end_region(region, results);

  emit_.set_place(place);
  emit_.set_graph(region.outside.graph);
  operands[0] = lifted.graph->value(), operands[1] = pullback.function.graph->value();
  operands.insert(operands.end(), lifted.captured.begin(), lifted.captured.end());
  ir::Apply* applied = nullptr;
  if (num_results > 0) {
    applied = emit_.module().apply(region.outside.graph, emit_.module().context().get_operator("CustomGradient"),
                                   operands, {{"count", static_cast<int64_t>(count)}, {"by", pullback.by}}, num_results,
                                   emit_.location());
    std::vector<const Type*> types;
    for (const Node* result : std::span(results).first(num_results)) types.push_back(result->type());
    applied->set_type(num_results == 1 ? types[0] : emit_.module().context().tuple_type(types));
  }
  const size_t first_cell = next_cell_;
  size_t next = 0;
  Object made = map_trees(std::span(&value, 1), [&](std::span<const Object> leaf) -> Object {
    if (!type_of_leaf(leaf[0])) return leaf[0];
    return {Array{num_results == 1 ? applied : emit_.item(applied, next++), leaf[0].as<Array>()->is_number}};
  });
  leave_region(region.outside, first_cell);
  return made;
}

// Of sensitivities of the tensors of floats in `value`, those of the arguments.
Lowering::Pullback Lowering::lower_pullback(const Object& function, std::span<const Object> arguments,
                                            const Object& value) {
  const Region region = begin_region(function);
  const Object sensitivities = map_trees(std::span(&value, 1), [&](std::span<const Object> leaf) -> Object {
    if (!has_float_type(leaf[0])) return {Constant{NoneValue()}};
    return region_parameter(region, leaf[0], type_elsewhere(emit_.module().context(), type_of_leaf(leaf[0])));
  });
  const Object given = call_inside(function, {.positional = {sensitivities}, .named = {}});
  if (const Closure* written = written_function(function)) emit_.set_place({written->source, written->function});
  require_pure(region, function);
  const Object expected = arguments.size() == 1 ? arguments[0] : make_tuple({arguments.begin(), arguments.end()});
  std::vector<std::optional<Object>> leaves;
  if (!add_sensitivities(expected, given, leaves)) {
    emit_.fail(ErrorCode::TypeMismatch,
               fmt::format("{} returns {}, and the sensitivities of the arguments are {}", describe(function),
                           structure(given, false), structure(expected, true)),
               "of one argument its sensitivity, of several a tuple; None where there is none");
  }
  std::vector<Node*> results;
  std::vector<int64_t> by;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i]) continue;
    by.push_back(static_cast<int64_t>(i));
    results.push_back(emit_.tensor(*leaves[i]));
  }
  return {.function = end_region(region, results), .by = std::move(by)};
}

// Of the tensors in an argument, what is given; false where that has another structure.
bool Lowering::add_sensitivities(const Object& argument, const Object& given,
                                 std::vector<std::optional<Object>>& leaves) {
  const Object expected = argument.is<Cell>() ? content(*argument.as<Cell>()) : argument;
  const Object found = given.is<Cell>() ? content(*given.as<Cell>()) : given;
  if (const Items* items = expected.tuple()) {
    const bool is_same = found.tuple() && found.tuple()->items.size() == items->items.size();
    if (!is_same && !found.is_none()) return false;
    const bool is_dict = argument.is<Cell>() && argument.as<Cell>()->kind == Cell::Kind::Dict;
    for (size_t i = 0; i < items->items.size(); ++i) {
      if (is_dict && i % 2 == 0) {  // keys and values in turn
        if (is_same && differs(items->items[i], found.tuple()->items[i])) return false;
      } else if (!add_sensitivities(items->items[i], is_same ? found.tuple()->items[i] : found, leaves)) {
        return false;
      }
    }
    return true;
  }
  if (!type_of_leaf(expected)) return Emitter::is_numeric(expected) || found.is_none();
  leaves.emplace_back();
  if (found.is_none()) return true;
  if (!has_float_type(expected) || !Emitter::is_numeric(found)) return false;
  const Type* type = type_of_leaf(expected);
  if (Emitter::is_number(found)) {
    if (!type->has_rank() || type->rank() > 0) return false;
    leaves.back() = Object{Array{emit_.tensor(found, type->dtype())}};
    return true;
  }
  leaves.back() = found;
  return type_of_leaf(found) && may_be(type_of_leaf(found), type);
}

// "(f32[3], {'w': f64[N]})"; of sensitivities, None in the place of what is no tensor of floats.
std::string Lowering::structure(const Object& tree, bool of_sensitivities) {
  const Object held = tree.is<Cell>() ? content(*tree.as<Cell>()) : tree;
  if (!held.tuple()) {
    return of_sensitivities && !has_float_type(held) && !held.constant<double>() ? "None" : describe(held);
  }
  const bool is_list = tree.is<Cell>() && tree.as<Cell>()->kind == Cell::Kind::List;
  const bool is_dict = tree.is<Cell>() && !is_list;
  const std::vector<Object>& items = held.tuple()->items;
  std::vector<std::string> parts;
  for (size_t i = is_dict ? 1 : 0; i < items.size(); i += is_dict ? 2 : 1) {
    const std::string item = structure(items[i], of_sensitivities);
    parts.push_back(is_dict ? fmt::format("{}: {}", repr(*items[i - 1].as<Constant>()), item) : item);
  }
  const std::string all = fmt::format("{}", fmt::join(parts, ", "));
  return is_list ? "[" + all + "]" : is_dict ? "{" + all + "}" : items.size() == 1 ? "(" + all + ",)" : "(" + all + ")";
}

}  // namespace anfora::python

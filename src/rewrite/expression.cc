#include "rewrite/expression.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>

namespace anfora::rewrite {
namespace {

// [a, b, …] with lists spliced in, of texts; empty: not all are.
std::optional<std::vector<std::string>> texts_of(std::span<const Quantity> items) {
  std::vector<std::string> texts;
  for (const Quantity& item : items) {
    const auto* single = std::get_if<std::string>(&item);
    const auto* several = std::get_if<std::vector<std::string>>(&item);
    if (!single && !several) return std::nullopt;
    if (single) texts.push_back(*single);
    if (several) texts.insert(texts.end(), several->begin(), several->end());
  }
  return texts;
}

// [a, b, …] with lists spliced in: a list of texts, integers, numbers or dimensions, whichever holds all.
Quantity list_of(std::span<const Quantity> items, ir::DimTable& table) {
  std::vector<int64_t> integers;
  std::vector<double> numbers;
  Dims dims;
  bool all_integers = true, all_numbers = true, all_dims = true;
  if (auto texts = texts_of(items); texts && !items.empty()) return *texts;
  for (const Quantity& item : items) {
    auto single = as_number(item);
    auto several = single ? std::optional(std::vector<double>{*single}) : as_numbers(item);
    if (several) {
      numbers.insert(numbers.end(), several->begin(), several->end());
    } else {
      all_numbers = false;
    }
    bool is_integer = std::holds_alternative<int64_t>(item);
    auto whole = is_integer ? std::optional(std::vector<int64_t>{std::get<int64_t>(item)}) : as_integers(item);
    if (whole) {
      integers.insert(integers.end(), whole->begin(), whole->end());
    } else {
      all_integers = false;
    }
    auto dim = std::holds_alternative<double>(item) ? std::nullopt : as_dim(item, table);
    auto extents = dim ? std::optional(Dims{*dim}) : as_dims(item, table);
    if (extents) {
      dims.insert(dims.end(), extents->begin(), extents->end());
    } else {
      all_dims = false;
    }
  }
  if (all_integers) return integers;
  if (all_numbers) return numbers;
  if (all_dims) return dims;
  return NotKnown{};
}

// true, false, or empty for not known.
std::optional<bool> truth(const Quantity& q) {
  const bool* value = std::get_if<bool>(&q);
  return value ? std::optional(*value) : std::nullopt;
}

Quantity connect(const Expression& e, const Scope& scope, bool decisive) {
  bool known = true;
  for (const Expression& operand : e.operands) {
    auto value = truth(evaluate(operand, scope));
    if (value == decisive) return decisive;
    known = known && value;
  }
  return known ? Quantity(!decisive) : NotKnown{};
}

}  // namespace

const Function* find_function(std::string_view name) {
  static const auto functions = [] {
    boost::unordered_flat_map<std::string_view, const Function*> all;
    for (std::span<const Function> table :
         {functions_about_values(), functions_about_shapes(), functions_that_compute()}) {
      for (const Function& function : table) all.emplace(function.name, &function);
    }
    return all;
  }();
  auto found = functions.find(name);
  return found == functions.end() ? nullptr : found->second;
}

Quantity evaluate(const Expression& e, const Scope& scope) {
  switch (e.kind) {
    case Expression::Kind::Literal: return e.literal;
    case Expression::Kind::Quantity: return scope.match.quantities[static_cast<size_t>(e.slot)];
    case Expression::Kind::Node: {
      ir::Node* node = scope.match.nodes[static_cast<size_t>(e.slot)];
      return node ? Quantity(node) : NotKnown{};
    }
    case Expression::Kind::NodeList: return scope.match.lists[static_cast<size_t>(e.slot)];
    case Expression::Kind::And: return connect(e, scope, false);
    case Expression::Kind::Or: return connect(e, scope, true);
    case Expression::Kind::Not: {
      auto value = truth(evaluate(e.operands[0], scope));
      return value ? Quantity(!*value) : NotKnown{};
    }
    case Expression::Kind::List:
    case Expression::Kind::Call: {
      boost::container::small_vector<Quantity, 4> arguments;
      for (const Expression& operand : e.operands) arguments.push_back(evaluate(operand, scope));
      std::span<const Quantity> given(arguments.data(), arguments.size());
      return e.kind == Expression::Kind::List ? list_of(given, scope.dims()) : e.function->call(scope, given);
    }
  }
  return NotKnown{};
}

}  // namespace anfora::rewrite

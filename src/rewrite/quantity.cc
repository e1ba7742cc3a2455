#include "rewrite/quantity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace anfora::rewrite {

using ir::Dim;
using Kind = ir::AttributeDeclaration::Kind;

bool is_true(const Quantity& q) {
  const bool* truth = std::get_if<bool>(&q);
  return truth && *truth;
}

std::optional<int64_t> as_integer(const Quantity& q) {
  if (const int64_t* i = std::get_if<int64_t>(&q)) return *i;
  if (const double* d = std::get_if<double>(&q); d && std::floor(*d) == *d && std::abs(*d) < 0x1p53) {
    return static_cast<int64_t>(*d);
  }
  return std::nullopt;
}

std::optional<double> as_number(const Quantity& q) {
  if (const double* d = std::get_if<double>(&q)) return *d;
  if (const int64_t* i = std::get_if<int64_t>(&q)) return static_cast<double>(*i);
  return std::nullopt;
}

std::optional<std::vector<int64_t>> as_integers(const Quantity& q) {
  if (const auto* list = std::get_if<std::vector<int64_t>>(&q)) return *list;
  if (const auto* list = std::get_if<std::vector<double>>(&q); list && list->empty()) return std::vector<int64_t>();
  return std::nullopt;
}

std::optional<std::vector<double>> as_numbers(const Quantity& q) {
  if (const auto* list = std::get_if<std::vector<double>>(&q)) return *list;
  if (const auto* list = std::get_if<std::vector<int64_t>>(&q)) return std::vector<double>(list->begin(), list->end());
  return std::nullopt;
}

std::optional<Dim> as_dim(const Quantity& q, ir::DimTable& table) {
  if (const Dim* dim = std::get_if<Dim>(&q)) return *dim;
  if (auto i = as_integer(q)) return table.constant(*i);
  return std::nullopt;
}

std::optional<Dims> as_dims(const Quantity& q, ir::DimTable& table) {
  if (const Dims* dims = std::get_if<Dims>(&q)) return *dims;
  auto integers = as_integers(q);
  if (!integers) return std::nullopt;
  Dims dims;
  for (int64_t i : *integers) dims.push_back(table.constant(i));
  return dims;
}

ir::Node* as_node(const Quantity& q) {
  ir::Node* const* node = std::get_if<ir::Node*>(&q);
  return node ? *node : nullptr;
}

Quantity from_dim(Dim dim) {
  if (dim.is_unknown()) return NotKnown{};
  if (auto constant = dim.as_constant()) return *constant;
  return dim;
}

Quantity from_dims(std::span<const Dim> dims) {
  if (!std::ranges::all_of(dims, &Dim::is_constant)) return Dims(dims.begin(), dims.end());
  std::vector<int64_t> integers;
  for (Dim dim : dims) integers.push_back(dim.constant());
  return integers;
}

Quantity from_attribute(const AttributeValue& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) return *i;
  if (const auto* f = std::get_if<float>(&value)) return static_cast<double>(*f);
  if (const auto* s = std::get_if<std::string>(&value)) return *s;
  if (const auto* t = std::get_if<Tensor>(&value)) return *t;
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) return *ints;
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) return *texts;
  if (const auto* floats = std::get_if<std::vector<float>>(&value)) {
    return std::vector<double>(floats->begin(), floats->end());
  }
  return NotKnown{};
}

std::optional<AttributeValue> to_attribute(const Quantity& q, Kind kind) {
  switch (kind) {
    case Kind::Int:
      if (const bool* truth = std::get_if<bool>(&q)) return AttributeValue(int64_t{*truth});
      if (auto i = as_integer(q)) return AttributeValue(*i);
      return std::nullopt;
    case Kind::Float:
      if (auto number = as_number(q)) return AttributeValue(static_cast<float>(*number));
      return std::nullopt;
    case Kind::String:
      if (const auto* text = std::get_if<std::string>(&q)) return AttributeValue(*text);
      return std::nullopt;
    case Kind::Ints:
      if (auto integers = as_integers(q)) return AttributeValue(std::move(*integers));
      return std::nullopt;
    case Kind::Floats:
      if (auto numbers = as_numbers(q)) return AttributeValue(std::vector<float>(numbers->begin(), numbers->end()));
      return std::nullopt;
    case Kind::Strings:
      if (const auto* texts = std::get_if<std::vector<std::string>>(&q)) return AttributeValue(*texts);
      return std::nullopt;
    case Kind::Tensor:
      if (const auto* tensor = std::get_if<Tensor>(&q)) return AttributeValue(*tensor);
      return std::nullopt;
    default: return std::nullopt;
  }
}

namespace {

std::optional<bool> equal_dims(Dim a, Dim b) {
  if (provably_equal(a, b)) return true;
  if (provably_different(a, b)) return false;
  return std::nullopt;
}

}  // namespace

std::optional<bool> equal(const Quantity& a, const Quantity& b, ir::DimTable& table) {
  if (!is_known(a) || !is_known(b)) return std::nullopt;
  if (auto x = as_number(a), y = as_number(b); x && y) return *x == *y;
  if (auto x = as_dim(a, table), y = as_dim(b, table); x && y) return equal_dims(*x, *y);
  if (auto x = as_numbers(a), y = as_numbers(b); x && y) return *x == *y;
  if (auto x = as_dims(a, table), y = as_dims(b, table); x && y) {
    if (x->size() != y->size()) return false;
    std::optional<bool> all = true;
    for (size_t i = 0; i < x->size(); ++i) {
      auto same = equal_dims((*x)[i], (*y)[i]);
      if (same == false) return false;
      if (!same) all = std::nullopt;
    }
    return all;
  }
  if (a.index() != b.index()) return false;
  if (const auto* x = std::get_if<Tensor>(&a)) return Tensor::identical(*x, std::get<Tensor>(b));
  if (const auto* x = std::get_if<bool>(&a)) return *x == std::get<bool>(b);
  if (const auto* x = std::get_if<std::string>(&a)) return *x == std::get<std::string>(b);
  if (const auto* x = std::get_if<std::vector<std::string>>(&a)) return *x == std::get<std::vector<std::string>>(b);
  if (const auto* x = std::get_if<ir::Node*>(&a)) return *x == std::get<ir::Node*>(b);
  if (const auto* x = std::get_if<Nodes>(&a)) return *x == std::get<Nodes>(b);
  return std::nullopt;
}

std::string to_string(const Quantity& q) {
  struct Writer {
    std::string operator()(NotKnown) const { return "not known"; }
    std::string operator()(bool truth) const { return truth ? "true" : "false"; }
    std::string operator()(int64_t i) const { return std::to_string(i); }
    std::string operator()(double d) const { return fmt::format("{}", d); }
    std::string operator()(const std::string& text) const { return fmt::format("'{}'", text); }
    std::string operator()(Dim dim) const { return ir::to_string(dim); }
    std::string operator()(const std::vector<int64_t>& list) const {
      return fmt::format("[{}]", fmt::join(list, ", "));
    }
    std::string operator()(const std::vector<double>& list) const { return fmt::format("[{}]", fmt::join(list, ", ")); }
    std::string operator()(const std::vector<std::string>& list) const {
      return fmt::format("['{}']", fmt::join(list, "', '"));
    }
    std::string operator()(const Dims& dims) const {
      std::string text = "[";
      for (Dim dim : dims) text += (text.size() > 1 ? ", " : "") + ir::to_string(dim);
      return text + "]";
    }
    std::string operator()(ir::Node* node) const { return ir::describe(*node); }
    std::string operator()(const Nodes& nodes) const { return fmt::format("{} values", nodes.size()); }
    std::string operator()(const Tensor& tensor) const {
      return fmt::format("a tensor of shape {}", anfora::to_string(tensor.shape()));
    }
  };
  return std::visit(Writer{}, q);
}

}  // namespace anfora::rewrite

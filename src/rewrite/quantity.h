// What guards and attribute expressions of rules compute with.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ir/dim.h"
#include "ir/node.h"
#include "support/attribute.h"

namespace anfora::rewrite {

// The answer where there is none: the rank of a value of unknown rank, whether N ≤ M. What is computed of it is
// not known either, and a guard that is not known does not hold.
struct NotKnown {
  friend bool operator==(NotKnown, NotKnown) = default;
};

using Nodes = std::vector<ir::Node*>;
using Dims = std::vector<ir::Dim>;

// Integers serve for element types as well, by ONNX's numbers (f32 is 1). A list of integers is Dims only
// where one of them is symbolic.
using Quantity = std::variant<NotKnown, bool, int64_t, double, std::string, ir::Dim, std::vector<int64_t>,
                              std::vector<double>, std::vector<std::string>, Dims, ir::Node*, Nodes, Tensor>;

inline bool is_known(const Quantity& q) { return !std::holds_alternative<NotKnown>(q); }
bool is_true(const Quantity& q);

// Readings of a quantity as another kind where that loses nothing; empty: it is none, or not known.
std::optional<int64_t> as_integer(const Quantity& q);
std::optional<double> as_number(const Quantity& q);
std::optional<std::vector<int64_t>> as_integers(const Quantity& q);
std::optional<std::vector<double>> as_numbers(const Quantity& q);
// An integer becomes a constant dimension.
std::optional<ir::Dim> as_dim(const Quantity& q, ir::DimTable& table);
std::optional<Dims> as_dims(const Quantity& q, ir::DimTable& table);
// The node, or null.
ir::Node* as_node(const Quantity& q);

// Constant dimensions become integers, so that a quantity has one form.
Quantity from_dim(ir::Dim dim);
Quantity from_dims(std::span<const ir::Dim> dims);
// Attribute kinds that rules compute with; NotKnown for lists of tensors.
Quantity from_attribute(const AttributeValue& value);
// The attribute of the declared kind; empty where the quantity does not fit it.
std::optional<AttributeValue> to_attribute(const Quantity& q, ir::AttributeDeclaration::Kind kind);

// Empty: not decided (symbolic dimensions that may or may not be equal).
std::optional<bool> equal(const Quantity& a, const Quantity& b, ir::DimTable& table);

std::string to_string(const Quantity& q);

}  // namespace anfora::rewrite

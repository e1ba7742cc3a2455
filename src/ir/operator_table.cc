#include "ir/operator_table.h"

#include <fmt/format.h>

#include <mutex>

#include "anfora/error.h"

namespace anfora::ir {

std::string qualified_name(std::string_view domain, std::string_view name) {
  if (domain.empty() || domain == "ai.onnx" || domain == "anfora") return std::string(name);
  return fmt::format("{}::{}", domain, name);
}

const AttributeDeclaration* Operator::find_attribute(std::string_view attribute_name) const {
  for (const AttributeDeclaration& a : attributes) {
    if (a.name == attribute_name) return &a;
  }
  return nullptr;
}

std::optional<size_t> Operator::find_input(std::string_view input_name) const {
  const auto found = std::ranges::find(inputs, input_name, &Formal::name);
  return found != inputs.end() ? std::optional(static_cast<size_t>(found - inputs.begin())) : std::nullopt;
}

OperatorTable::OperatorTable() {
  auto declare_primitive = [&](Primitive primitive, const char* name, const char* doc,
                               std::vector<AttributeDeclaration> attributes = {}) {
    Operator op;
    op.domain = "anfora";
    op.name = op.qualified = name;
    op.doc = doc;
    op.primitive = primitive;
    op.attributes = std::move(attributes);
    primitives_[static_cast<size_t>(primitive)] = declare(std::move(op));
  };
  declare_primitive(Primitive::Return, "return", "The result of a graph.");
  declare_primitive(Primitive::Call, "call", "Applies a function to arguments.");
  declare_primitive(Primitive::Switch, "Switch",
                    "The first of two functions where the condition is true, else the second.");
  declare_primitive(Primitive::MakeTuple, "MakeTuple", "A tuple of the operands.");
  declare_primitive(Primitive::TupleGetItem, "TupleGetItem", "One item of a tuple.",
                    {{"index", AttributeDeclaration::Kind::Int, true, std::nullopt}});
}

const Operator* OperatorTable::declare(Operator op) {
  if (op.qualified.empty()) op.qualified = qualified_name(op.domain, op.name);
  std::string key = op.qualified;
  const std::lock_guard lock(mutex_);
  auto [at, inserted] = operators_.emplace(key, std::make_unique<Operator>(std::move(op)));
  if (!inserted) throw Error(ErrorCode::Internal, fmt::format("operator {} is declared twice", key));
  return at->second.get();
}

const Operator* OperatorTable::find(std::string_view qualified) const {
  const std::shared_lock lock(mutex_);
  auto found = operators_.find(qualified);
  return found == operators_.end() ? nullptr : found->second.get();
}

std::vector<const Operator*> OperatorTable::all() const {
  const std::shared_lock lock(mutex_);
  std::vector<const Operator*> all;
  for (const auto& [name, op] : operators_) all.push_back(op.get());
  return all;
}

}  // namespace anfora::ir

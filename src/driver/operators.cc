// The public API for operators of a caller's own (include/anfora/operator.h).
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "anfora/operator.h"
#include "kernels/operator_signature.h"
#include "ops/declare.h"
#include "ops/registry.h"
#include "ops/signature.h"

namespace anfora {
namespace {

using AttributeKind = ir::AttributeDeclaration::Kind;

// By the alternatives of AttributeDefault.
constexpr AttributeKind kKinds[] = {AttributeKind::Int, AttributeKind::Float, AttributeKind::String, AttributeKind::Ints,
                                    AttributeKind::Floats};

AttributeValue to_value(const AttributeDefault& otherwise) {
  return std::visit([](const auto& value) -> AttributeValue { return value; }, otherwise);
}

std::vector<ir::Formal> formals(const std::vector<kernels::SignatureTerm>& terms, char unnamed) {
  std::vector<ir::Formal> all;
  for (const kernels::SignatureTerm& term : terms) {
    const std::string name = term.name.empty() ? fmt::format("{}{}", unnamed, all.size()) : term.name;
    all.push_back({.name = name, .type = term.element});
  }
  return all;
}

}  // namespace

void register_operator(const OperatorDeclaration& declaration) {
  const size_t colons = declaration.name.find("::");
  if (colons == std::string::npos || colons == 0 || colons + 2 == declaration.name.size()) {
    throw Error(ErrorCode::InvalidArgument, fmt::format("'{}' is no name for an operator", declaration.name))
        .with_hint("a domain and a name: \"my::ScaledAdd\"");
  }
  const kernels::OperatorSignature signature = kernels::parse_signature(declaration.signature);
  ir::Operator op;
  op.domain = declaration.name.substr(0, colons);
  op.name = declaration.name.substr(colons + 2);
  op.qualified = declaration.name;
  op.doc = declaration.doc;
  op.inputs = formals(signature.inputs, 'x');
  op.outputs = formals(signature.outputs, 'y');
  for (const kernels::SignatureTerm& input : signature.inputs) {
    const bool is_known = dtype_from_name(input.element) || std::ranges::count(op.variables, input.element, &ir::TypeVariable::name);
    if (!is_known) op.variables.push_back({input.element, ops::kAllDTypes});
  }
  for (const auto& [name, otherwise] : declaration.attributes)
    op.attributes.push_back({name, kKinds[otherwise.index()], false, to_value(otherwise)});
  op.signature = declaration.signature;
  op.infer = ops::infer_signature;
  ops::declare(std::move(op));
}

}  // namespace anfora

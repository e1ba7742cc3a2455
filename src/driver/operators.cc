// The public API for operators and kernels of a caller's own (include/anfora/operator.h).
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "anfora/operator.h"
#include "kernels/registered.h"
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
std::optional<AttributeDefault> from_value(const AttributeValue& value) {
  return std::visit(
      [](const auto& held) -> std::optional<AttributeDefault> {
        if constexpr (std::is_constructible_v<AttributeDefault, decltype(held)>) return AttributeDefault(held);
        return std::nullopt;
      },
      value);
}

std::vector<ir::Formal> formals(const std::vector<ops::SignatureTerm>& terms, char unnamed) {
  std::vector<ir::Formal> all;
  for (const ops::SignatureTerm& term : terms) {
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
  const ops::Signature signature = ops::parse_signature(declaration.signature);
  ir::Operator op;
  op.domain = declaration.name.substr(0, colons);
  op.name = declaration.name.substr(colons + 2);
  op.qualified = declaration.name;
  op.doc = declaration.doc;
  op.inputs = formals(signature.inputs, 'x');
  op.outputs = formals(signature.outputs, 'y');
  for (const ops::SignatureTerm& input : signature.inputs) {
    const bool is_known = dtype_from_name(input.element) || std::ranges::count(op.variables, input.element, &ir::TypeVariable::name);
    if (!is_known) op.variables.push_back({input.element, ops::kAllDTypes});
  }
  for (const auto& [name, otherwise] : declaration.attributes)
    op.attributes.push_back({name, kKinds[otherwise.index()], false, to_value(otherwise)});
  op.signature = declaration.signature;
  op.infer = ops::infer_signature;
  ops::declare(std::move(op));
}

// A kernel with what it asks its operator.
struct OperatorKernel {
  Kernel kernel;
  KernelCall::Defaults defaults;
  std::optional<ops::Signature> signature;

  void operator()(kernels::KernelContext& context) const {
    KernelCall call(context, defaults);
    kernel(call);
    if (!signature) return;
    std::vector<Tensor> inputs, outputs;
    for (size_t i = 0; i < call.num_inputs(); ++i) inputs.push_back(call.input(i));
    for (const Tensor* output : call.outputs_) outputs.push_back(output ? *output : Tensor());
    ops::check_results(*signature, inputs, outputs);
  }
};

void register_kernel(std::string_view name, Kernel kernel) {
  const ir::Operator* op = ops::operators().find(name);
  if (!op) {
    throw Error(ErrorCode::NotFound, fmt::format("there is no operator {}", name))
        .with_hint("register_operator() declares one");
  }
  if (!kernel) return kernels::register_kernel(op->qualified, {});
  auto registered = std::make_shared<OperatorKernel>(OperatorKernel{.kernel = std::move(kernel), .defaults = {}, .signature = {}});
  for (const ir::AttributeDeclaration& attribute : op->attributes) {
    if (!attribute.otherwise) continue;
    if (auto otherwise = from_value(*attribute.otherwise)) registered->defaults.emplace(attribute.name, *otherwise);
  }
  if (!op->signature.empty()) registered->signature = ops::parse_signature(op->signature);
  kernels::register_kernel(op->qualified, [registered](kernels::KernelContext& context) { (*registered)(context); });
}

// Calls --------------------------------------------------------------------------------------------------------------

KernelCall::KernelCall(kernels::KernelContext& context, const Defaults& defaults)
    : context_(context), defaults_(defaults), outputs_(context.num_outputs()) {}

size_t KernelCall::num_inputs() const { return context_.num_inputs(); }
const Tensor& KernelCall::input(size_t i) const { return context_.input(i); }
size_t KernelCall::num_outputs() const { return context_.num_outputs(); }

Tensor& KernelCall::output(size_t i, DType dtype, std::span<const int64_t> shape) {
  if (i >= num_outputs()) throw Error(ErrorCode::InvalidArgument, fmt::format("there is no result {} of {}", i, num_outputs()));
  Tensor& made = context_.allocate_output(i, dtype, shape);
  outputs_[i] = &made;
  return made;
}

AttributeDefault KernelCall::attribute(std::string_view name) const {
  if (const AttributeValue* given = context_.attributes().find(name)) {
    if (auto value = from_value(*given)) return *value;
  }
  auto otherwise = defaults_.find(name);
  if (otherwise == defaults_.end()) throw Error(ErrorCode::InvalidArgument, fmt::format("there is no attribute '{}'", name));
  return otherwise->second;
}

template <class T>
T KernelCall::get(std::string_view name) const {
  AttributeDefault value = attribute(name);
  T* held = std::get_if<T>(&value);
  if (!held) throw Error(ErrorCode::InvalidArgument, fmt::format("the attribute '{}' is of another kind", name));
  return std::move(*held);
}
int64_t KernelCall::integer(std::string_view name) const { return get<int64_t>(name); }
float KernelCall::number(std::string_view name) const { return get<float>(name); }
std::string KernelCall::text(std::string_view name) const { return get<std::string>(name); }
std::vector<int64_t> KernelCall::integers(std::string_view name) const { return get<std::vector<int64_t>>(name); }
std::vector<float> KernelCall::numbers(std::string_view name) const { return get<std::vector<float>>(name); }

}  // namespace anfora

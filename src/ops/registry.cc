#include "ops/registry.h"

#include <fmt/format.h>

#include <utility>

#include "anfora/error.h"
#include "kernels/registered.h"
#include "support/same_version.h"

namespace anfora::ops {

namespace {

ir::OperatorTable& table() {
  static auto* const all = [] {
    auto* table = new ir::OperatorTable;  // never destroyed: at exit, other threads may still compile
#define ANFORA_DECLARE_ALL(family) \
  {                                \
    Declarations declare(*table);  \
    declare_##family(declare);     \
  }
    ANFORA_OPERATOR_FAMILIES(ANFORA_DECLARE_ALL)
#undef ANFORA_DECLARE_ALL
    return table;
  }();
  return *all;
}

// A kernel may be registered before anything else asks for an operator.
std::string qualified_name(std::string_view name) {
  if (const ir::Operator* op = table().find(name)) return op->qualified;
  throw Error(ErrorCode::NotFound, fmt::format("there is no operator {}", name))
      .with_hint("register_operator() declares one");
}
[[maybe_unused]] const bool qualifies_names = (kernels::qualify_operators_by(qualified_name), true);

[[gnu::used, gnu::retain]] const char* const* const of_same_version = &ANFORA_INTERNALS;

}  // namespace

const ir::OperatorTable& operators() { return table(); }

void declare(ir::Operator op) {
  if (table().find(op.qualified))
    throw Error(ErrorCode::InvalidArgument, fmt::format("there is an operator {} already", op.qualified));
  table().declare(std::move(op));
}

std::unique_ptr<ir::Context> make_context() { return std::make_unique<ir::Context>(operators()); }

kernels::KernelFunction reference_kernel(const ir::Operator& op) {
  return op.kernel.empty() ? nullptr : kernels::reference_kernels().find(op.kernel);
}

}  // namespace anfora::ops

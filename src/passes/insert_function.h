// Puts what operators mean, functions of a library (ir/library.h), in the place of their applications.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "ir/library.h"
#include "passes/pass.h"

namespace anfora::passes {

struct FunctionInsertion {
  std::string_view pass;  // for remarks
  std::string_view rule;  // likewise; empty: the operator's name
  std::span<const ir::Library::File> files;
  // The attributes that the function of an application is given; empty: it stays. Asked of what is used and reached.
  std::function<std::optional<AttributeSet>(const ir::Apply& node)> attributes;
  rewrite::HasOperator has_operator = nullptr;  // of the operator set to be written; null: any
};

// Inserts them for all applications whose operators have one, and returns for how many. Where a function does not support an
// application, or has_operator lacks an operator of it, that stays, with the reason as a remark. Linear in the size of the module; the
// library is read where it is needed.
size_t insert_functions(PassContext& context, const FunctionInsertion& insertion);

// Whether the element types of all operands are known.
bool is_typed(const ir::Apply& node);
// Whether anybody uses result i.
bool is_result_used(const ir::Apply& node, size_t i);

}  // namespace anfora::passes

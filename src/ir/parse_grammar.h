// The parts of the grammar below statements: types, dimensions, constants, attributes. Each function reads one of
// them at the cursor.
#pragma once

#include "ir/parse.h"
#include "ir/parse_cursor.h"
#include "support/attribute.h"
#include "support/function_ref.h"

namespace anfora::ir {

class TypeParser {
 public:
  TypeParser(Context& context, Cursor& cursor) : context_(context), cursor_(cursor) {}
  const Type* type();
  Dim dim();
  std::string symbol_name();  // N or 'any name'

 private:
  const Type* tensor(DType dtype);
  std::vector<const Type*> list(std::string_view close);
  Dim product(bool negative);
  Dim atom(bool negative);
  Dim function(std::string_view name);

  Context& context_;
  Cursor& cursor_;
  int depth_ = 0;
};

class LiteralParser {
 public:
  LiteralParser(Context& context, Cursor& cursor, const Sidecar* sidecar)
      : context_(context), cursor_(cursor), sidecar_(sidecar) {}
  // Whether a literal is next: a number, a string, true, false, "[", or a dtype.
  bool at_literal();
  Tensor literal();
  // After "{". `reads_operand` may read a value that is no literal; then it is not in the set.
  using ReadsOperand = FunctionRef<bool(std::string_view attribute)>;
  AttributeSet attributes(ReadsOperand reads_operand = [](std::string_view) { return false; });

 private:
  struct Payload;
  Tensor typed(DType dtype);
  Tensor by_hash(DType dtype, std::span<const int64_t> shape);
  [[noreturn]] void rethrow(const Error& error, size_t position);
  Payload payload();
  Tensor convert(const Payload& payload, DType dtype, std::span<const int64_t> shape);
  AttributeValue attribute();
  AttributeValue list(std::string_view kind);

  Context& context_;
  Cursor& cursor_;
  const Sidecar* sidecar_;
};

}  // namespace anfora::ir

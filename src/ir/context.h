// A Context interns what modules share: types, symbolic dimensions, attribute sets, strings, and operators that nothing declares.
// It outlives its modules. Not thread-safe; different contexts share only the table of operators, which is constant.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ir/dim.h"
#include "ir/operator_table.h"
#include "ir/type.h"
#include "support/attribute.h"

namespace anfora::ir {

class Context {
 public:
  Context();  // knows only the primitives; ops::make_context() gives one with all operators
  explicit Context(const OperatorTable& operators);  // which outlives it
  ~Context();
  Context(const Context&) = delete;

  DimTable& dims() { return dims_; }

  const Type* none_type();
  const Type* state_type();
  const Type* unreachable_type(std::string_view reason = {});
  const Type* tensor_type(DType dtype, std::span<const Dim> dims);
  const Type* tensor_type(DType dtype, std::span<const int64_t> shape);
  const Type* unranked_type(DType dtype);  // any rank; DType::Undefined: any dtype too
  const Type* tuple_type(std::span<const Type* const> items);
  const Type* sequence_type(const Type* element);
  const Type* optional_type(const Type* element);
  const Type* map_type(const Type* key, const Type* value);
  const Type* type_type(const Type* type);  // of a type as a value
  const Type* func_type(std::span<const Type* const> parameters, const Type* result);

  const AttributeSet* attributes(AttributeSet set);
  std::string_view string(std::string_view text);

  // Null when not declared.
  const Operator* find_operator(std::string_view domain, std::string_view name) const;
  const Operator* find_operator(std::string_view qualified) const;
  // The declared operator; throws NotFound.
  const Operator& get_operator(std::string_view qualified) const;
  // The declared operator, or an unknown one made for it.
  const Operator* operator_or_unknown(std::string_view domain, std::string_view name);
  const Operator& primitive(Primitive primitive) const { return operators_.primitive(primitive); }
  std::vector<const Operator*> operators() const { return operators_.all(); }  // all declared ones, sorted by qualified name

 private:
  struct Impl;
  const Type* intern(const Type& probe);
  const OperatorTable& operators_;
  DimTable dims_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anfora::ir

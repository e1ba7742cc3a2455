// From the compiler's symbolic dimensions to the runtime's expressions over numbered symbols.
//
// The symbols of a function are numbered as they are met. A symbol gets its value when the function is entered: from the
// main function where that knows it, else from a dimension of an argument of the form a·symbol + b.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/type.h"
#include "runtime/program.h"
#include "runtime/size_expression.h"

namespace anfora::plan {

class FunctionSymbols {
 public:
  // `arguments`: the types of the parameters and captured values (null: not known). `main` is null for the main
  // function itself, and gets the symbols that are asked of it.
  FunctionSymbols(std::span<const ir::Type* const> arguments, FunctionSymbols* main);

  // Unknown when a symbol of it has no value at entry.
  runtime::SizeExpression lower(ir::Dim dim);

  // Known, and without a symbol that an argument tells: the same whenever the function is called in a run.
  bool is_same_in_all_calls(const runtime::SizeExpression& size) const;

  const std::vector<runtime::SymbolSource>& sources() const { return sources_; }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::optional<size_t> number_of(ir::Dim symbol);
  bool append(ir::Dim dim, runtime::SizeExpression& expression);

  FunctionSymbols* main_;
  boost::unordered_flat_map<const ir::DimExpr*, runtime::SymbolSource> solvable_;
  boost::unordered_flat_map<const ir::DimExpr*, size_t> numbers_;
  std::vector<runtime::SymbolSource> sources_;
  std::vector<std::string> names_;
};

// The bytes that a tensor of this type takes; empty when that is not known, for other types and for strings.
std::optional<ir::Dim> bytes_of(ir::DimTable& table, const ir::Type* type);

}  // namespace anfora::plan

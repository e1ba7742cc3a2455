#include "plan/sizes.h"

namespace anfora::plan {

using ir::Dim;
using ir::DimExpr;
using runtime::SizeExpression;
using runtime::SymbolSource;
using Code = SizeExpression::Code;
using Kind = DimExpr::Kind;

namespace {

// A dimension of the form scale · symbol + offset.
struct Linear {
  const DimExpr* symbol;
  int64_t scale, offset;
};

std::optional<Linear> as_linear(Dim dim) {
  const DimExpr* e = dim.expr();
  if (e->kind == Kind::Symbol) return Linear{e, 1, 0};
  if (e->kind != Kind::Sum || e->terms.size() != 1 || e->terms[0].factors.size() != 1) return std::nullopt;
  const DimExpr* factor = e->terms[0].factors[0];
  if (factor->kind != Kind::Symbol) return std::nullopt;
  return Linear{factor, e->terms[0].coefficient, e->value};
}

Code code_of(Kind kind) {
  switch (kind) {
    case Kind::FloorDiv: return Code::FloorDivide;
    case Kind::CeilDiv: return Code::CeilDivide;
    case Kind::Mod: return Code::Modulo;
    case Kind::Min: return Code::Minimum;
    default: return Code::Maximum;
  }
}

}  // namespace

FunctionSymbols::FunctionSymbols(std::span<const ir::Type* const> arguments, FunctionSymbols* main) : main_(main) {
  // A dimension that is the symbol itself is preferred: it always has a solution.
  for (bool symbols_only : {true, false}) {
    for (size_t a = 0; a < arguments.size(); ++a) {
      if (!arguments[a] || !arguments[a]->is_tensor() || !arguments[a]->has_rank()) continue;
      for (int axis = 0; axis < arguments[a]->rank(); ++axis) {
        Dim dim = arguments[a]->dim(axis);
        std::optional<Linear> linear = as_linear(dim);
        if (!linear || dim.is_symbol() != symbols_only) continue;
        SymbolSource source;
        source.argument = static_cast<uint32_t>(a);
        source.axis = static_cast<uint32_t>(axis);
        source.scale = linear->scale;
        source.offset = linear->offset;
        solvable_.try_emplace(linear->symbol, source);
      }
    }
  }
}

std::optional<size_t> FunctionSymbols::number_of(Dim symbol) {
  if (auto known = numbers_.find(symbol.expr()); known != numbers_.end()) return known->second;
  SymbolSource source;
  std::optional<size_t> in_main = main_ ? main_->number_of(symbol) : std::nullopt;
  if (in_main) {
    source.main_symbol = static_cast<uint32_t>(*in_main);
  } else if (auto solved = solvable_.find(symbol.expr()); solved != solvable_.end()) {
    source = solved->second;
  } else {
    return std::nullopt;
  }
  numbers_.emplace(symbol.expr(), sources_.size());
  sources_.push_back(source);
  names_.emplace_back(symbol.symbol_name());
  return sources_.size() - 1;
}

bool FunctionSymbols::append(Dim dim, SizeExpression& expression) {
  const DimExpr* e = dim.expr();
  switch (e->kind) {
    case Kind::Unknown: return false;
    case Kind::Constant: expression.push(Code::Constant, e->value); return true;
    case Kind::Symbol: {
      std::optional<size_t> number = number_of(dim);
      if (number) expression.push(Code::Symbol, static_cast<int64_t>(*number));
      return number.has_value();
    }
    case Kind::Sum: {
      bool first = true;
      for (const ir::DimTerm& term : e->terms) {
        bool started = false;
        if (term.coefficient != 1) {
          expression.push(Code::Constant, term.coefficient);
          started = true;
        }
        for (const DimExpr* factor : term.factors) {
          if (!append(Dim(factor), expression)) return false;
          if (started) expression.push(Code::Multiply);
          started = true;
        }
        if (!first) expression.push(Code::Add);
        first = false;
      }
      if (e->value != 0) {
        expression.push(Code::Constant, e->value);
        if (!first) expression.push(Code::Add);
      }
      return true;
    }
    default:
      if (!append(Dim(e->left), expression) || !append(Dim(e->right), expression)) return false;
      expression.push(code_of(e->kind));
      return true;
  }
}

SizeExpression FunctionSymbols::lower(Dim dim) {
  SizeExpression expression;
  return append(dim, expression) ? expression : SizeExpression();
}

bool FunctionSymbols::is_same_in_all_calls(const SizeExpression& size) const {
  if (size.is_unknown()) return false;
  for (size_t s = 0; s < sources_.size(); ++s) {
    if (sources_[s].main_symbol == SymbolSource::kNone && size.mentions(s)) return false;
  }
  return true;
}

std::optional<Dim> bytes_of(ir::DimTable& table, const ir::Type* type) {
  if (!type || !type->is_tensor() || !type->has_rank()) return std::nullopt;
  if (type->dtype() == DType::Undefined || type->dtype() == DType::String) return std::nullopt;
  Dim bytes = table.constant(static_cast<int64_t>(element_bytes(type->dtype())));
  for (Dim dim : type->dims()) bytes = bytes * dim;
  return bytes.is_unknown() ? std::nullopt : std::optional(bytes);
}

}  // namespace anfora::plan

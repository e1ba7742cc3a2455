// Symbolic dimensions: integer expressions over named symbols with known ranges.
//
// An expression is kept in a canonical form, interned in its table, so that two expressions that simplify
// to the same form are the same pointer:
//
//   atom  = symbol | floordiv(sum, sum) | ceildiv(sum, sum) | mod(sum, sum) | min(sum, sum) | max(sum, sum)
//   sum   = constant + Σ coefficient · atom · atom · …         (a polynomial with ordered terms)
//
// `?` is the unknown dimension: it equals nothing, itself included, and every expression over it is `?`.
// Arithmetic that would overflow 64 bits, or give a polynomial of hundreds of terms, gives `?`.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "support/arena.h"

namespace anfora::ir {

class DimTable;
struct DimExpr;

struct Range {  // inclusive
  static constexpr int64_t kLowest = std::numeric_limits<int64_t>::min() / 4;
  static constexpr int64_t kHighest = std::numeric_limits<int64_t>::max() / 4;
  int64_t low = kLowest, high = kHighest;
  friend bool operator==(const Range&, const Range&) = default;
};

class Dim {
 public:
  explicit Dim(const DimExpr* expr) : expr_(expr) {}

  bool is_unknown() const;
  bool is_constant() const;
  int64_t constant() const;  // only when is_constant()
  std::optional<int64_t> as_constant() const;
  bool is_symbol() const;
  std::string_view symbol_name() const;  // only when is_symbol()
  Range range() const;
  const DimExpr* expr() const { return expr_; }
  DimTable& table() const;

  // The same expression as written; two `?` are the same expression.
  friend bool operator==(Dim a, Dim b) { return a.expr_ == b.expr_; }
  // Equal for all values of the symbols. False means "not proven".
  friend bool provably_equal(Dim a, Dim b) { return a.expr_ == b.expr_ && !a.is_unknown(); }
  // Different for all values of the symbols (by range of the difference).
  friend bool provably_different(Dim a, Dim b);

 private:
  const DimExpr* expr_;
};

bool provably_different(Dim a, Dim b);
Dim operator+(Dim a, Dim b);
Dim operator-(Dim a, Dim b);
Dim operator*(Dim a, Dim b);
Dim operator+(Dim a, int64_t b);
Dim operator-(Dim a, int64_t b);
Dim operator*(Dim a, int64_t b);
// Rounding toward −∞ and +∞; `?` when the divisor may be zero and is constant zero.
Dim floor_div(Dim a, Dim b);
Dim ceil_div(Dim a, Dim b);
Dim floor_div(Dim a, int64_t b);
Dim ceil_div(Dim a, int64_t b);
Dim mod(Dim a, Dim b);  // a − b·floor(a/b)
Dim min(Dim a, Dim b);
Dim max(Dim a, Dim b);
// The quotient when b divides a for all values of the symbols (2*N by 2, N*M by N).
std::optional<Dim> divide_exactly(Dim a, Dim b);

std::string to_string(Dim dim);

// The value under an assignment of the symbols; empty when a symbol has none, on `?`, and on overflow.
using SymbolValue = std::function<std::optional<int64_t>(std::string_view name)>;
std::optional<int64_t> evaluate(Dim dim, const SymbolValue& value_of);
// The expression with symbols replaced (empty: kept).
using SymbolImage = std::function<std::optional<Dim>(Dim symbol)>;
Dim substitute(Dim dim, const SymbolImage& image_of);
// Calls visit(symbol) for each occurrence of a symbol.
void for_each_symbol(Dim dim, const std::function<void(Dim)>& visit);

struct DimTerm {  // coefficient · Π factors, factors ordered by id
  int64_t coefficient;
  std::span<const DimExpr* const> factors;
};

struct DimExpr {
  enum class Kind : uint8_t { Unknown, Constant, Symbol, Sum, FloorDiv, CeilDiv, Mod, Min, Max };
  Kind kind;
  uint32_t id;  // order of creation
  DimTable* table;
  Range range;
  int64_t value = 0;               // of a constant; the constant part of a sum
  std::string_view name;           // of a symbol
  std::span<const DimTerm> terms;  // of a sum
  const DimExpr* left = nullptr;   // of the binary kinds
  const DimExpr* right = nullptr;
};

class DimTable {
 public:
  DimTable();
  ~DimTable();
  DimTable(const DimTable&) = delete;

  Dim unknown() const { return Dim(unknown_); }
  Dim constant(int64_t value);
  // The symbol of that name; its range (by default all sizes, [0, ∞)) is fixed when it is first made.
  Dim symbol(std::string_view name, Range range = {0, Range::kHighest});
  // A symbol whose name no other symbol has: PREFIX0, PREFIX1, …
  Dim fresh_symbol(std::string_view prefix);

 private:
  friend struct DimBuilder;
  struct Impl;
  std::unique_ptr<Impl> impl_;
  const DimExpr* unknown_;
};

}  // namespace anfora::ir

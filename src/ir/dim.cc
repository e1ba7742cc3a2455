#include "ir/dim.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cctype>
#include <vector>

#include "support/hash.h"

namespace anfora::ir {

using Kind = DimExpr::Kind;

namespace {

template <class T>
using Small = boost::container::small_vector<T, 4>;

// Beyond this size of a polynomial the result is unknown: products of sums grow exponentially.
constexpr size_t kMostTerms = 256;
constexpr size_t kMostFactors = 64;
// Symbols, constants and operations of an expression when it is written out. What a deep model computes of its sizes, layer by
// layer, is unknown beyond: nothing that goes through an expression goes deeper, or takes longer.
constexpr uint32_t kMostParts = 1024;
// Nested min and max that are looked into for which of two expressions is larger.
constexpr int kMostLevels = 2;

struct Monomial {
  int64_t coefficient;
  Small<const DimExpr*> factors;
};
struct Polynomial {
  int64_t constant = 0;
  Small<Monomial> terms;  // ordered by factors, no zero coefficient
};

// A total order of expressions by content: symbols by name, then the compound ones. It must not depend on what was
// made first, or the canonical form, and with it the text of a module, would differ from one table to another.
int compare(const DimExpr* a, const DimExpr* b) {
  if (a == b) return 0;
  auto rank = [](const DimExpr* e) { return e->kind == Kind::Symbol ? -1 : static_cast<int>(e->kind); };
  if (rank(a) != rank(b)) return rank(a) < rank(b) ? -1 : 1;
  if (a->kind == Kind::Symbol) return a->name < b->name ? -1 : 1;
  if (a->kind == Kind::Constant) return a->value < b->value ? -1 : 1;
  if (a->kind != Kind::Sum) {
    int left = compare(a->left, b->left);
    return left ? left : compare(a->right, b->right);
  }
  for (size_t i = 0; i < std::min(a->terms.size(), b->terms.size()); ++i) {
    const DimTerm &s = a->terms[i], &t = b->terms[i];
    if (s.factors.size() != t.factors.size()) return s.factors.size() > t.factors.size() ? -1 : 1;
    for (size_t f = 0; f < s.factors.size(); ++f) {
      if (int c = compare(s.factors[f], t.factors[f])) return c;
    }
    if (s.coefficient != t.coefficient) return s.coefficient < t.coefficient ? -1 : 1;
  }
  if (a->terms.size() != b->terms.size()) return a->terms.size() < b->terms.size() ? -1 : 1;
  return a->value < b->value ? -1 : 1;
}
bool before(const DimExpr* a, const DimExpr* b) { return compare(a, b) < 0; }

// Longer products first, so that N*M+N+1 prints as people write it.
template <class A, class B>
bool factors_before(const A& a, const B& b) {
  if (a.size() != b.size()) return a.size() > b.size();
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), before);
}

// A bound at the end of the scale or beyond is none; the opposite of an open end is open.
bool open_low(__int128 v) { return v <= -Range::kHighest; }
bool open_high(__int128 v) { return v >= Range::kHighest; }
int64_t clamp(__int128 v) {
  return open_low(v) ? Range::kLowest : open_high(v) ? Range::kHighest : static_cast<int64_t>(v);
}

Range add(Range a, Range b) {
  return {open_low(a.low) || open_low(b.low) ? Range::kLowest : clamp(static_cast<__int128>(a.low) + b.low),
          open_high(a.high) || open_high(b.high) ? Range::kHighest : clamp(static_cast<__int128>(a.high) + b.high)};
}
Range multiply(Range a, Range b) {
  __int128 products[] = {static_cast<__int128>(a.low) * b.low, static_cast<__int128>(a.low) * b.high,
                         static_cast<__int128>(a.high) * b.low, static_cast<__int128>(a.high) * b.high};
  auto [low, high] = std::minmax_element(std::begin(products), std::end(products));
  return {clamp(*low), clamp(*high)};
}
int64_t floor_quotient(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0); }
int64_t floor_remainder(int64_t a, int64_t b) {  // a − b·⌊a/b⌋, whose product may overflow
  int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
int64_t ceil_quotient(int64_t a, int64_t b) { return a / b + ((a % b != 0) && ((a < 0) == (b < 0)) ? 1 : 0); }

template <class Quotient>
Range divide(Range a, Range b, Quotient quotient) {
  if (b.low <= 0)
    return {a.low >= 0 && b.low >= 0 ? 0 : Range::kLowest, a.low >= 0 ? std::max<int64_t>(a.high, 0) : Range::kHighest};
  int64_t q[] = {quotient(a.low, b.low), quotient(a.low, b.high), quotient(a.high, b.low), quotient(a.high, b.high)};
  auto [low, high] = std::minmax_element(std::begin(q), std::end(q));
  return {open_low(a.low) ? Range::kLowest : *low, open_high(a.high) ? Range::kHighest : *high};
}

Polynomial polynomial_of(Dim dim) {
  Polynomial p;
  const DimExpr* e = dim.expr();
  if (e->kind == Kind::Constant) {
    p.constant = e->value;
  } else if (e->kind == Kind::Sum) {
    p.constant = e->value;
    for (const DimTerm& t : e->terms) {
      p.terms.push_back({t.coefficient, Small<const DimExpr*>(t.factors.begin(), t.factors.end())});
    }
  } else {
    p.terms.push_back({1, {e}});
  }
  return p;
}

// Adds scale · m to p, merging like terms. False on overflow.
bool accumulate(Polynomial& p, const Monomial& m, int64_t scale) {
  int64_t coefficient;
  if (__builtin_mul_overflow(m.coefficient, scale, &coefficient)) return false;
  auto at = std::lower_bound(p.terms.begin(), p.terms.end(), m.factors,
                             [](const Monomial& t, const auto& f) { return factors_before(t.factors, f); });
  if (at == p.terms.end() || at->factors != m.factors) {
    if (coefficient != 0) p.terms.insert(at, Monomial{coefficient, m.factors});
    return true;
  }
  if (__builtin_add_overflow(at->coefficient, coefficient, &at->coefficient)) return false;
  if (at->coefficient == 0) p.terms.erase(at);
  return true;
}

}  // namespace

struct DimTable::Impl {
  Arena arena;
  uint32_t next_id = 0;
  std::vector<uint32_t> parts;  // of each expression, by id
  boost::unordered_flat_map<int64_t, const DimExpr*> constants;
  boost::unordered_flat_map<std::string_view, const DimExpr*> symbols;
  boost::unordered_flat_map<uint64_t, Small<const DimExpr*>> composites;  // by hash of the content
};

// Makes interned expressions; the only code that creates them.
struct DimBuilder {
  DimTable& table;
  DimTable::Impl& impl = *table.impl_;

  // min(a, b) + max(a + d, b + d) = a + b + d: what two slices have that part an axis, as the size of the axis.
  std::optional<Dim> without_extrema(const Polynomial& p) {
    auto is = [](const Monomial& m, Kind kind) { return m.factors.size() == 1 && m.factors[0]->kind == kind; };
    for (const Monomial& smaller : p.terms) {
      if (!is(smaller, Kind::Min)) continue;
      for (const Monomial& larger : p.terms) {
        if (!is(larger, Kind::Max) || larger.coefficient != smaller.coefficient) continue;
        const Dim a(smaller.factors[0]->left), b(smaller.factors[0]->right), c(larger.factors[0]->left), d(larger.factors[0]->right);
        if (c - a != d - b && c - b != d - a) continue;
        Polynomial rest{p.constant, {}};
        for (const Monomial& m : p.terms) {
          if (&m != &smaller && &m != &larger) rest.terms.push_back(m);
        }
        return sum(rest) + (c - a == d - b ? b + c : a + c) * smaller.coefficient;
      }
    }
    return std::nullopt;
  }

  uint32_t parts_of(const DimExpr* e) const { return impl.parts[e->id]; }

  DimExpr* fresh(Kind kind, Range range, uint32_t parts = 1) {
    DimExpr* e = impl.arena.make<DimExpr>();
    e->kind = kind;
    e->id = impl.next_id++;
    impl.parts.push_back(parts);
    e->table = &table;
    e->range = range;
    return e;
  }

  Dim sum(const Polynomial& p) {
    // The lowest integer has no opposite, so that negating or dividing it would overflow.
    constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
    bool overflow =
        p.constant == kLowest || p.terms.size() > kMostTerms || std::ranges::any_of(p.terms, [](const Monomial& m) {
          return m.coefficient == kLowest || m.factors.size() > kMostFactors;
        });
    if (overflow) return table.unknown();
    if (p.terms.empty()) return table.constant(p.constant);
    if (p.constant == 0 && p.terms.size() == 1 && p.terms[0].coefficient == 1 && p.terms[0].factors.size() == 1) {
      return Dim(p.terms[0].factors[0]);
    }
    if (auto simpler = without_extrema(p)) return *simpler;
    uint64_t h = hash_combine(static_cast<uint64_t>(Kind::Sum), static_cast<uint64_t>(p.constant));
    for (const Monomial& m : p.terms) {
      h = hash_combine(h, static_cast<uint64_t>(m.coefficient));
      for (const DimExpr* f : m.factors) h = hash_combine(h, f->id);
    }
    auto& bucket = impl.composites[h];
    for (const DimExpr* e : bucket) {
      if (e->kind == Kind::Sum && e->value == p.constant &&
          std::ranges::equal(e->terms, p.terms, [](const DimTerm& a, const Monomial& b) {
            return a.coefficient == b.coefficient && std::ranges::equal(a.factors, b.factors);
          })) {
        return Dim(e);
      }
    }
    uint32_t parts = 1;
    for (const Monomial& m : p.terms) {
      for (const DimExpr* f : m.factors) parts += parts_of(f);
    }
    if (parts > kMostParts) return table.unknown();
    Range range{p.constant, p.constant};
    Small<DimTerm> terms;
    for (const Monomial& m : p.terms) {
      Range product{m.coefficient, m.coefficient};
      for (const DimExpr* f : m.factors) product = multiply(product, f->range);
      range = add(range, product);
      terms.push_back(
          {m.coefficient, impl.arena.copy(std::span<const DimExpr* const>(m.factors.data(), m.factors.size()))});
    }
    DimExpr* e = fresh(Kind::Sum, range, parts);
    e->value = p.constant;
    e->terms = impl.arena.copy(std::span<const DimTerm>(terms.data(), terms.size()));
    bucket.push_back(e);
    return Dim(e);
  }

  Dim binary(Kind kind, Dim a, Dim b, Range range) {
    uint64_t h = hash_combine(hash_combine(static_cast<uint64_t>(kind), a.expr()->id), b.expr()->id);
    auto& bucket = impl.composites[h];
    for (const DimExpr* e : bucket) {
      if (e->kind == kind && e->left == a.expr() && e->right == b.expr()) return Dim(e);
    }
    const uint32_t parts = 1 + parts_of(a.expr()) + parts_of(b.expr());
    if (parts > kMostParts) return table.unknown();
    DimExpr* e = fresh(kind, range, parts);
    e->left = a.expr();
    e->right = b.expr();
    bucket.push_back(e);
    return Dim(e);
  }
};

DimTable::DimTable() : impl_(std::make_unique<Impl>()) { unknown_ = DimBuilder{*this}.fresh(Kind::Unknown, {}); }
DimTable::~DimTable() = default;

Dim DimTable::constant(int64_t value) {
  if (value == std::numeric_limits<int64_t>::min()) return unknown();  // see DimBuilder::sum
  const DimExpr*& slot = impl_->constants[value];
  if (!slot) {
    DimExpr* e = DimBuilder{*this}.fresh(Kind::Constant, {value, value});
    e->value = value;
    slot = e;
  }
  return Dim(slot);
}

Dim DimTable::symbol(std::string_view name, Range range) {
  if (auto found = impl_->symbols.find(name); found != impl_->symbols.end()) return Dim(found->second);
  DimExpr* e = DimBuilder{*this}.fresh(Kind::Symbol, range);
  e->name = impl_->arena.copy(name);
  impl_->symbols.emplace(e->name, e);
  return Dim(e);
}

Dim DimTable::fresh_symbol(std::string_view prefix) {
  for (size_t i = impl_->symbols.size();; ++i) {
    std::string name = fmt::format("{}{}", prefix, i);
    if (!impl_->symbols.contains(name)) return symbol(name);
  }
}

bool Dim::is_unknown() const { return expr_->kind == Kind::Unknown; }
bool Dim::is_constant() const { return expr_->kind == Kind::Constant; }
int64_t Dim::constant() const { return expr_->value; }
std::optional<int64_t> Dim::as_constant() const { return is_constant() ? std::optional(expr_->value) : std::nullopt; }
bool Dim::is_symbol() const { return expr_->kind == Kind::Symbol; }
std::string_view Dim::symbol_name() const { return expr_->name; }
Range Dim::range() const { return expr_->range; }
DimTable& Dim::table() const { return *expr_->table; }

bool provably_different(Dim a, Dim b) {
  if (a.is_unknown() || b.is_unknown()) return false;
  Range r = (a - b).range();
  return r.low > 0 || r.high < 0;
}

static Dim combine(Dim a, Dim b, int64_t scale) {
  DimTable& table = a.table();
  if (a.is_unknown() || b.is_unknown()) return table.unknown();
  Polynomial p = polynomial_of(a), q = polynomial_of(b);
  int64_t scaled;
  if (__builtin_mul_overflow(q.constant, scale, &scaled) || __builtin_add_overflow(p.constant, scaled, &p.constant)) {
    return table.unknown();
  }
  for (const Monomial& m : q.terms) {
    if (!accumulate(p, m, scale)) return table.unknown();
  }
  return DimBuilder{table}.sum(p);
}

Dim operator+(Dim a, Dim b) { return combine(a, b, 1); }
Dim operator-(Dim a, Dim b) { return combine(a, b, -1); }

Dim operator*(Dim a, Dim b) {
  DimTable& table = a.table();
  if (a.as_constant() == 0 || b.as_constant() == 0) return table.constant(0);
  if (a.is_unknown() || b.is_unknown()) return table.unknown();
  Polynomial p = polynomial_of(a), q = polynomial_of(b), product;
  if (p.terms.size() * q.terms.size() > kMostTerms) return table.unknown();
  if (__builtin_mul_overflow(p.constant, q.constant, &product.constant)) return table.unknown();
  for (const Monomial& m : p.terms) {
    if (!accumulate(product, m, q.constant)) return table.unknown();
  }
  for (const Monomial& m : q.terms) {
    if (!accumulate(product, m, p.constant)) return table.unknown();
  }
  for (const Monomial& m : p.terms) {
    for (const Monomial& n : q.terms) {
      Monomial both = m;
      for (const DimExpr* f : n.factors) both.factors.push_back(f);
      std::sort(both.factors.begin(), both.factors.end(), before);
      if (!accumulate(product, both, n.coefficient)) return table.unknown();
    }
  }
  return DimBuilder{table}.sum(product);
}

Dim operator+(Dim a, int64_t b) { return a + a.table().constant(b); }
Dim operator-(Dim a, int64_t b) { return a - a.table().constant(b); }
Dim operator*(Dim a, int64_t b) { return a * a.table().constant(b); }
Dim floor_div(Dim a, int64_t b) { return floor_div(a, a.table().constant(b)); }
Dim ceil_div(Dim a, int64_t b) { return ceil_div(a, a.table().constant(b)); }

std::optional<Dim> divide_exactly(Dim a, Dim b) {
  if (a.is_unknown() || b.is_unknown() || b.as_constant() == 0) return std::nullopt;
  DimTable& table = a.table();
  if (provably_equal(a, b)) return table.constant(1);  // a zero divisor has no defined quotient to contradict
  Polynomial p = polynomial_of(a), divisor = polynomial_of(b), quotient;
  // By a single monomial: every term must contain it.
  Monomial by{divisor.constant, {}};
  if (!divisor.terms.empty()) {
    if (divisor.constant != 0 || divisor.terms.size() > 1) return std::nullopt;
    by = divisor.terms[0];
  }
  if (p.constant % by.coefficient != 0 || (p.constant != 0 && !by.factors.empty())) return std::nullopt;
  quotient.constant = p.constant / by.coefficient;
  for (const Monomial& m : p.terms) {
    if (m.coefficient % by.coefficient != 0) return std::nullopt;
    Monomial rest{m.coefficient / by.coefficient, {}};
    if (!std::includes(m.factors.begin(), m.factors.end(), by.factors.begin(), by.factors.end(), before))
      return std::nullopt;
    std::set_difference(m.factors.begin(), m.factors.end(), by.factors.begin(), by.factors.end(),
                        std::back_inserter(rest.factors), before);
    if (rest.factors.empty()) {
      if (__builtin_add_overflow(quotient.constant, rest.coefficient, &quotient.constant)) return std::nullopt;
    } else if (!accumulate(quotient, rest, 1)) {
      return std::nullopt;
    }
  }
  return DimBuilder{table}.sum(quotient);
}

template <class Quotient>
static Dim divide_rounding(Kind kind, Dim a, Dim b, Quotient quotient) {
  DimTable& table = a.table();
  if (a.is_unknown() || b.is_unknown() || b.as_constant() == 0) return table.unknown();
  if (a.is_constant() && b.is_constant()) return table.constant(quotient(a.constant(), b.constant()));
  if (auto exact = divide_exactly(a, b)) return *exact;
  if (b.is_constant() && b.constant() > 0) {
    // (c·q + r) / c = q + r/c, for both roundings: take out what divides.
    Polynomial p = polynomial_of(a), whole, rest;
    int64_t c = b.constant();
    whole.constant = floor_quotient(p.constant, c);
    rest.constant = floor_remainder(p.constant, c);
    for (const Monomial& m : p.terms) {
      if (m.coefficient % c == 0) {
        accumulate(whole, {m.coefficient / c, m.factors}, 1);
      } else {
        accumulate(rest, m, 1);
      }
    }
    if (!whole.terms.empty() || whole.constant != 0) {
      DimBuilder builder{table};
      return builder.sum(whole) + divide_rounding(kind, builder.sum(rest), b, quotient);
    }
  }
  return DimBuilder{table}.binary(kind, a, b, divide(a.range(), b.range(), quotient));
}

Dim floor_div(Dim a, Dim b) { return divide_rounding(Kind::FloorDiv, a, b, floor_quotient); }
Dim ceil_div(Dim a, Dim b) { return divide_rounding(Kind::CeilDiv, a, b, ceil_quotient); }

Dim mod(Dim a, Dim b) {
  DimTable& table = a.table();
  if (a.is_unknown() || b.is_unknown() || b.as_constant() == 0) return table.unknown();
  if (a.is_constant() && b.is_constant()) {
    return table.constant(floor_remainder(a.constant(), b.constant()));
  }
  if (divide_exactly(a, b)) return table.constant(0);
  if (b.range().low <= 0) return table.unknown();
  if (a.range().low >= 0 && a.range().high < b.range().low) return a;
  return DimBuilder{table}.binary(Kind::Mod, a, b, {0, std::max<int64_t>(b.range().high - 1, 0)});
}

// Whether a ≥ b, also where all or one of the operands of min and max decide.
static bool at_least(Dim a, Dim b, int levels = kMostLevels) {
  if ((a - b).range().low >= 0) return true;
  if (levels == 0) return false;
  const DimExpr *x = a.expr(), *y = b.expr();
  auto of_left = [&](const DimExpr* part) { return at_least(Dim(part), b, levels - 1); };
  auto of_right = [&](const DimExpr* part) { return at_least(a, Dim(part), levels - 1); };
  return (x->kind == Kind::Min && of_left(x->left) && of_left(x->right)) ||
         (x->kind == Kind::Max && (of_left(x->left) || of_left(x->right))) ||
         (y->kind == Kind::Max && of_right(y->left) && of_right(y->right)) ||
         (y->kind == Kind::Min && (of_right(y->left) || of_right(y->right)));
}

template <class Choose>
static Dim extremum(Kind kind, Dim a, Dim b, Choose choose) {
  DimTable& table = a.table();
  if (a.is_unknown() || b.is_unknown()) return table.unknown();
  if (a == b) return a;
  if (at_least(a, b)) return kind == Kind::Max ? a : b;
  if (at_least(b, a)) return kind == Kind::Max ? b : a;
  if (before(b.expr(), a.expr())) std::swap(a, b);
  return DimBuilder{table}.binary(kind, a, b,
                                  {choose(a.range().low, b.range().low), choose(a.range().high, b.range().high)});
}

Dim min(Dim a, Dim b) {
  return extremum(Kind::Min, a, b, [](int64_t x, int64_t y) { return std::min(x, y); });
}
Dim max(Dim a, Dim b) {
  return extremum(Kind::Max, a, b, [](int64_t x, int64_t y) { return std::max(x, y); });
}

namespace {

const char* function_name(Kind kind) {
  switch (kind) {
    case Kind::FloorDiv: return "floordiv";
    case Kind::CeilDiv: return "ceildiv";
    case Kind::Mod: return "mod";
    case Kind::Min: return "min";
    default: return "max";
  }
}

Dim apply(Kind kind, Dim a, Dim b) {
  switch (kind) {
    case Kind::FloorDiv: return floor_div(a, b);
    case Kind::CeilDiv: return ceil_div(a, b);
    case Kind::Mod: return mod(a, b);
    case Kind::Min: return min(a, b);
    default: return max(a, b);
  }
}

bool is_identifier(std::string_view name) {
  static constexpr std::string_view kReserved[] = {"floordiv", "ceildiv", "mod", "min", "max"};
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) || std::ranges::count(kReserved, name))
    return false;
  return std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

std::string quoted(std::string_view name) {
  if (is_identifier(name)) return std::string(name);
  std::string text = "'";
  for (unsigned char c : name) {
    if (c == '\'' || c == '\\' || c < 0x20) {
      text += fmt::format("\\x{:02x}", c);
    } else {
      text += static_cast<char>(c);
    }
  }
  return text + "'";
}

}  // namespace

std::string to_string(Dim dim) {
  const DimExpr* e = dim.expr();
  switch (e->kind) {
    case Kind::Unknown: return "?";
    case Kind::Constant: return fmt::format("{}", e->value);
    case Kind::Symbol: return quoted(e->name);
    case Kind::Sum: {
      std::string text;
      for (const DimTerm& t : e->terms) {
        if (t.coefficient < 0) {
          text += '-';
        } else if (!text.empty()) {
          text += '+';
        }
        uint64_t magnitude =
            t.coefficient < 0 ? -static_cast<uint64_t>(t.coefficient) : static_cast<uint64_t>(t.coefficient);
        if (magnitude != 1) text += fmt::format("{}*", magnitude);
        for (size_t i = 0; i < t.factors.size(); ++i) {
          if (i) text += '*';
          text += to_string(Dim(t.factors[i]));
        }
      }
      if (e->value != 0) text += fmt::format("{:+}", e->value);
      return text;
    }
    default:
      return fmt::format("{}({}, {})", function_name(e->kind), to_string(Dim(e->left)), to_string(Dim(e->right)));
  }
}

std::optional<int64_t> evaluate(Dim dim, const SymbolValue& value_of) {
  const DimExpr* e = dim.expr();
  switch (e->kind) {
    case Kind::Unknown: return std::nullopt;
    case Kind::Constant: return e->value;
    case Kind::Symbol: return value_of(e->name);
    case Kind::Sum: {
      int64_t total = e->value;
      for (const DimTerm& t : e->terms) {
        int64_t product = t.coefficient;
        for (const DimExpr* f : t.factors) {
          auto factor = evaluate(Dim(f), value_of);
          if (!factor || __builtin_mul_overflow(product, *factor, &product)) return std::nullopt;
        }
        if (__builtin_add_overflow(total, product, &total)) return std::nullopt;
      }
      return total;
    }
    default: {
      auto a = evaluate(Dim(e->left), value_of), b = evaluate(Dim(e->right), value_of);
      if (!a || !b) return std::nullopt;
      return apply(e->kind, dim.table().constant(*a), dim.table().constant(*b)).as_constant();
    }
  }
}

Dim substitute(Dim dim, const SymbolImage& image_of) {
  const DimExpr* e = dim.expr();
  switch (e->kind) {
    case Kind::Unknown:
    case Kind::Constant: return dim;
    case Kind::Symbol: return image_of(dim).value_or(dim);
    case Kind::Sum: {
      Dim total = dim.table().constant(e->value);
      for (const DimTerm& t : e->terms) {
        Dim product = dim.table().constant(t.coefficient);
        for (const DimExpr* f : t.factors) product = product * substitute(Dim(f), image_of);
        total = total + product;
      }
      return total;
    }
    default: return apply(e->kind, substitute(Dim(e->left), image_of), substitute(Dim(e->right), image_of));
  }
}

void for_each_symbol(Dim dim, const std::function<void(Dim)>& visit) {
  const DimExpr* e = dim.expr();
  switch (e->kind) {
    case Kind::Unknown:
    case Kind::Constant: return;
    case Kind::Symbol: return visit(dim);
    case Kind::Sum:
      for (const DimTerm& t : e->terms) {
        for (const DimExpr* f : t.factors) for_each_symbol(Dim(f), visit);
      }
      return;
    default: for_each_symbol(Dim(e->left), visit); for_each_symbol(Dim(e->right), visit);
  }
}

}  // namespace anfora::ir

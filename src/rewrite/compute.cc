// Functions of rules that compute: arithmetic and comparison of numbers and dimensions, lists, permutations.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "rewrite/expression.h"

namespace anfora::rewrite {
namespace {

using ir::Dim;

// Numbers -------------------------------------------------------------------------------------------------------

// Integers stay integers (empty on overflow), dimensions stay expressions, all else is computed in f64. Lists of integers
// are computed element by element.
template <class Checked, class Symbolic, class Real>
Quantity arithmetic(const Scope& scope, Arguments a, Checked checked, Symbolic symbolic, Real real) {
  if (auto u = as_integers(a[0]), v = as_integers(a[1]); u && v) {
    if (u->size() != v->size()) return NotKnown{};
    for (size_t i = 0; i < u->size(); ++i) {
      if (checked((*u)[i], (*v)[i], &(*u)[i])) return NotKnown{};
    }
    return *u;
  }
  const int64_t *x = std::get_if<int64_t>(&a[0]), *y = std::get_if<int64_t>(&a[1]);
  if (x && y) {
    int64_t result;
    return checked(*x, *y, &result) ? NotKnown{} : Quantity(result);
  }
  if (auto u = as_number(a[0]), v = as_number(a[1]); u && v) return real(*u, *v);
  auto s = as_dim(a[0], scope.dims()), t = as_dim(a[1], scope.dims());
  return s && t ? from_dim(symbolic(*s, *t)) : NotKnown{};
}

Quantity sum(const Scope& scope, Arguments a) {
  return arithmetic(
      scope, a, [](int64_t x, int64_t y, int64_t* r) { return __builtin_add_overflow(x, y, r); },
      [](Dim x, Dim y) { return x + y; }, [](double x, double y) { return x + y; });
}
Quantity difference(const Scope& scope, Arguments a) {
  return arithmetic(
      scope, a, [](int64_t x, int64_t y, int64_t* r) { return __builtin_sub_overflow(x, y, r); },
      [](Dim x, Dim y) { return x - y; }, [](double x, double y) { return x - y; });
}
Quantity product(const Scope& scope, Arguments a) {
  return arithmetic(
      scope, a, [](int64_t x, int64_t y, int64_t* r) { return __builtin_mul_overflow(x, y, r); },
      [](Dim x, Dim y) { return x * y; }, [](double x, double y) { return x * y; });
}
// Of integers and dimensions only where it leaves no remainder.
Quantity quotient(const Scope& scope, Arguments a) {
  const int64_t *x = std::get_if<int64_t>(&a[0]), *y = std::get_if<int64_t>(&a[1]);
  if (x && y) return *y != 0 && *y != -1 && *x % *y == 0 ? Quantity(*x / *y) : NotKnown{};
  if (auto u = as_number(a[0]), v = as_number(a[1]); u && v) return *u / *v;
  auto s = as_dim(a[0], scope.dims()), t = as_dim(a[1], scope.dims());
  if (!s || !t || t->as_constant() == 0) return NotKnown{};
  auto exact = divide_exactly(*s, *t);
  return exact ? from_dim(*exact) : NotKnown{};
}
Quantity remainder(const Scope& scope, Arguments a) {
  auto s = as_dim(a[0], scope.dims()), t = as_dim(a[1], scope.dims());
  if (!s || !t || t->range().low <= 0) return NotKnown{};
  return from_dim(mod(*s, *t));
}
Quantity negative(const Scope&, Arguments a) {
  if (const int64_t* x = std::get_if<int64_t>(&a[0]); x && *x != std::numeric_limits<int64_t>::min()) return -*x;
  if (const double* x = std::get_if<double>(&a[0])) return -*x;
  return NotKnown{};
}

template <double (*Operation)(double)>
Quantity real_function(const Scope&, Arguments a) {
  auto x = as_number(a[0]);
  return x ? Quantity(Operation(*x)) : NotKnown{};
}

Quantity or_else(const Scope&, Arguments a) { return is_known(a[0]) ? a[0] : a[1]; }

Quantity when(const Scope&, Arguments a) { return is_true(a[0]) ? a[1] : NotKnown{}; }

Quantity power(const Scope&, Arguments a) {
  auto x = as_number(a[0]), y = as_number(a[1]);
  return x && y ? Quantity(std::pow(*x, *y)) : NotKnown{};
}

template <bool Largest>
Quantity extremum(const Scope&, Arguments a) {
  auto listed = a.size() == 1 ? as_numbers(a[0]) : std::nullopt;
  std::vector<double> values;
  if (listed) {
    values = *listed;
  } else {
    for (const Quantity& q : a) {
      auto x = as_number(q);
      if (!x) return NotKnown{};
      values.push_back(*x);
    }
  }
  if (values.empty()) return NotKnown{};
  double best = Largest ? *std::ranges::max_element(values) : *std::ranges::min_element(values);
  if (auto whole = as_integer(Quantity(best))) return *whole;
  return best;
}

// Comparison -------------------------------------------------------------------------------------------------------

Quantity is_equal(const Scope& scope, Arguments a) {
  auto same = equal(a[0], a[1], scope.dims());
  return same ? Quantity(*same) : NotKnown{};
}
Quantity is_different(const Scope& scope, Arguments a) {
  auto same = equal(a[0], a[1], scope.dims());
  return same ? Quantity(!*same) : NotKnown{};
}

// a < b, or a ≤ b; of dimensions by the range of the difference.
Quantity is_below(const Scope& scope, const Quantity& a, const Quantity& b, bool or_equal) {
  if (auto x = as_number(a), y = as_number(b); x && y) return or_equal ? *x <= *y : *x < *y;
  auto s = as_dim(a, scope.dims()), t = as_dim(b, scope.dims());
  if (!s || !t) return NotKnown{};
  Dim gap = *t - *s;
  if (gap.is_unknown()) return NotKnown{};
  int64_t least = or_equal ? 0 : 1;
  if (gap.range().low >= least) return true;
  if (gap.range().high < least) return false;
  return NotKnown{};
}
Quantity is_less(const Scope& scope, Arguments a) { return is_below(scope, a[0], a[1], false); }
Quantity is_at_most(const Scope& scope, Arguments a) { return is_below(scope, a[0], a[1], true); }
Quantity is_greater(const Scope& scope, Arguments a) { return is_below(scope, a[1], a[0], false); }
Quantity is_at_least(const Scope& scope, Arguments a) { return is_below(scope, a[1], a[0], true); }

Quantity is_in(const Scope& scope, Arguments a) {
  if (const auto* texts = std::get_if<std::vector<std::string>>(&a[1])) {
    const auto* text = std::get_if<std::string>(&a[0]);
    return text ? Quantity(std::ranges::find(*texts, *text) != texts->end()) : NotKnown{};
  }
  auto list = as_dims(a[1], scope.dims());
  auto numbers = as_numbers(a[1]);
  if (numbers) {
    auto x = as_number(a[0]);
    return x ? Quantity(std::ranges::find(*numbers, *x) != numbers->end()) : NotKnown{};
  }
  auto dim = as_dim(a[0], scope.dims());
  if (!list || !dim) return NotKnown{};
  for (Dim item : *list) {
    if (provably_equal(item, *dim)) return true;
  }
  return std::ranges::all_of(*list, [&](Dim item) { return provably_different(item, *dim); }) ? Quantity(false)
                                                                                              : NotKnown{};
}

// Lists ------------------------------------------------------------------------------------------------------------

// Negative indices count from the end.
std::optional<size_t> position_in(const Quantity& index, size_t size) {
  auto i = as_integer(index);
  if (!i) return std::nullopt;
  int64_t at = *i < 0 ? *i + static_cast<int64_t>(size) : *i;
  if (at < 0 || at >= static_cast<int64_t>(size)) return std::nullopt;
  return static_cast<size_t>(at);
}

Quantity element(const Scope& scope, Arguments a) {
  if (const Nodes* nodes = std::get_if<Nodes>(&a[0])) {
    auto at = position_in(a[1], nodes->size());
    return at ? Quantity((*nodes)[*at]) : NotKnown{};
  }
  if (const auto* numbers = std::get_if<std::vector<double>>(&a[0])) {
    auto at = position_in(a[1], numbers->size());
    return at ? Quantity((*numbers)[*at]) : NotKnown{};
  }
  auto dims = as_dims(a[0], scope.dims());
  if (!dims) return NotKnown{};
  auto at = position_in(a[1], dims->size());
  return at ? from_dim((*dims)[*at]) : NotKnown{};
}

Quantity length(const Scope& scope, Arguments a) {
  if (const Nodes* nodes = std::get_if<Nodes>(&a[0])) return static_cast<int64_t>(nodes->size());
  if (const auto* texts = std::get_if<std::vector<std::string>>(&a[0])) return static_cast<int64_t>(texts->size());
  if (auto numbers = as_numbers(a[0])) return static_cast<int64_t>(numbers->size());
  auto dims = as_dims(a[0], scope.dims());
  return dims ? Quantity(static_cast<int64_t>(dims->size())) : NotKnown{};
}

Quantity product_of(const Scope& scope, Arguments a) {
  auto dims = as_dims(a[0], scope.dims());
  if (!dims) return NotKnown{};
  Dim total = scope.dims().constant(1);
  for (Dim dim : *dims) total = total * dim;
  return from_dim(total);
}

Quantity sum_of(const Scope& scope, Arguments a) {
  auto dims = as_dims(a[0], scope.dims());
  if (!dims) return NotKnown{};
  Dim total = scope.dims().constant(0);
  for (Dim dim : *dims) total = total + dim;
  return from_dim(total);
}

// part(list, from, to): elements from ≤ i < to.
Quantity part(const Scope& scope, Arguments a) {
  auto dims = as_dims(a[0], scope.dims());
  auto from = as_integer(a[1]), to = as_integer(a[2]);
  if (!dims || !from || !to) return NotKnown{};
  int64_t size = static_cast<int64_t>(dims->size());
  int64_t first = *from < 0 ? *from + size : *from, last = *to < 0 ? *to + size : *to;
  if (first < 0 || last > size || first > last) return NotKnown{};
  return from_dims(std::span(*dims).subspan(static_cast<size_t>(first), static_cast<size_t>(last - first)));
}

// with(list, i, value): the list with element i replaced.
Quantity with_element(const Scope& scope, Arguments a) {
  auto dims = as_dims(a[0], scope.dims());
  auto value = as_dim(a[2], scope.dims());
  if (!dims || !value) return NotKnown{};
  auto at = position_in(a[1], dims->size());
  if (!at) return NotKnown{};
  (*dims)[*at] = *value;
  return from_dims(*dims);
}

// without(list, indices): the list less the elements at those places.
Quantity without_elements(const Scope& scope, Arguments a) {
  auto dims = as_dims(a[0], scope.dims());
  auto one = as_integer(a[1]);
  auto indices = one ? std::optional(std::vector<int64_t>{*one}) : as_integers(a[1]);
  if (!dims || !indices) return NotKnown{};
  std::vector<bool> gone(dims->size());
  for (int64_t index : *indices) {
    auto at = position_in(index, dims->size());
    if (!at) return NotKnown{};
    gone[*at] = true;
  }
  Dims kept;
  for (size_t i = 0; i < dims->size(); ++i) {
    if (!gone[i]) kept.push_back((*dims)[i]);
  }
  return from_dims(kept);
}

// gather(list, indices)
Quantity gather(const Scope& scope, Arguments a) {
  auto dims = as_dims(a[0], scope.dims());
  auto indices = as_integers(a[1]);
  if (!dims || !indices) return NotKnown{};
  Dims taken;
  for (int64_t index : *indices) {
    auto at = position_in(index, dims->size());
    if (!at) return NotKnown{};
    taken.push_back((*dims)[*at]);
  }
  return from_dims(taken);
}

// Element by element.
Quantity plus(const Scope& scope, Arguments a) {
  auto x = as_dims(a[0], scope.dims()), y = as_dims(a[1], scope.dims());
  if (!x || !y || x->size() != y->size()) return NotKnown{};
  for (size_t i = 0; i < x->size(); ++i) (*x)[i] = (*x)[i] + (*y)[i];
  return from_dims(*x);
}

Quantity iota(const Scope&, Arguments a) {
  auto size = as_integer(a[0]);
  if (!size || *size < 0 || *size > 64) return NotKnown{};
  std::vector<int64_t> list(static_cast<size_t>(*size));
  std::iota(list.begin(), list.end(), 0);
  return list;
}

Quantity filled(const Scope&, Arguments a) {
  auto value = as_integer(a[0]), size = as_integer(a[1]);
  if (!value || !size || *size < 0 || *size > 64) return NotKnown{};
  return std::vector<int64_t>(static_cast<size_t>(*size), *value);
}

Quantity sorted(const Scope&, Arguments a) {
  auto list = as_integers(a[0]);
  if (!list) return NotKnown{};
  std::ranges::sort(*list);
  return *list;
}

Quantity union_of(const Scope&, Arguments a) {
  auto list = as_integers(a[0]), more = as_integers(a[1]);
  if (!list || !more) return NotKnown{};
  list->insert(list->end(), more->begin(), more->end());
  std::ranges::sort(*list);
  auto twice = std::ranges::unique(*list);
  list->erase(twice.begin(), twice.end());
  return *list;
}

template <bool (*Holds)(double, double)>
Quantity all_compare(const Scope&, Arguments a) {
  auto list = as_numbers(a[0]);
  auto bound = as_number(a[1]);
  if (!list || !bound) return NotKnown{};
  return std::ranges::all_of(*list, [&](double x) { return Holds(x, *bound); });
}
bool same_number(double x, double y) { return x == y; }
bool at_least(double x, double y) { return x >= y; }

// Axes and permutations --------------------------------------------------------------------------------------------------

// axis(a, rank): the axis in [0, rank), also of a negative one; of a list, each.
Quantity axis(const Scope&, Arguments a) {
  auto rank = as_integer(a[1]);
  if (!rank) return NotKnown{};
  auto resolve = [&](int64_t i) { return i < 0 ? i + *rank : i; };
  if (auto one = as_integer(a[0])) return resolve(*one);
  auto list = as_integers(a[0]);
  if (!list) return NotKnown{};
  std::ranges::transform(*list, list->begin(), resolve);
  return *list;
}

bool is_permutation_list(const std::vector<int64_t>& p) {
  std::vector<bool> seen(p.size());
  for (int64_t i : p) {
    if (i < 0 || i >= static_cast<int64_t>(p.size()) || seen[static_cast<size_t>(i)]) return false;
    seen[static_cast<size_t>(i)] = true;
  }
  return true;
}

std::optional<std::vector<int64_t>> as_permutation(const Quantity& q) {
  auto list = as_integers(q);
  return list && is_permutation_list(*list) ? list : std::nullopt;
}

// compose(q, p): Transpose{p}(Transpose{q}(x)) = Transpose{compose(q, p)}(x), so element i is q[p[i]].
Quantity compose(const Scope&, Arguments a) {
  auto q = as_permutation(a[0]), p = as_permutation(a[1]);
  if (!q || !p || q->size() != p->size()) return NotKnown{};
  std::vector<int64_t> result;
  for (int64_t i : *p) result.push_back((*q)[static_cast<size_t>(i)]);
  return result;
}

Quantity inverse(const Scope&, Arguments a) {
  auto p = as_permutation(a[0]);
  if (!p) return NotKnown{};
  std::vector<int64_t> result(p->size());
  for (size_t i = 0; i < p->size(); ++i) result[static_cast<size_t>((*p)[i])] = static_cast<int64_t>(i);
  return result;
}

Quantity is_identity(const Scope&, Arguments a) {
  auto p = as_integers(a[0]);
  if (!p) return NotKnown{};
  for (size_t i = 0; i < p->size(); ++i) {
    if ((*p)[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

// index_of(x, list): where it is in the list; not known when it is not there.
Quantity index_of(const Scope&, Arguments a) {
  auto x = as_integer(a[0]);
  auto list = as_integers(a[1]);
  if (!x || !list) return NotKnown{};
  auto found = std::ranges::find(*list, *x);
  return found == list->end() ? NotKnown{} : Quantity(static_cast<int64_t>(found - list->begin()));
}

constexpr Function kComputations[] = {
    {"+", 2, 2, sum, "a + b; of lists of integers, element by element"},
    {"-", 2, 2, difference, "a - b, likewise"},
    {"*", 2, 2, product, "a * b, likewise"},
    {"/", 2, 2, quotient, "a / b; of integers and dimensions, where it leaves no remainder"},
    {"%", 2, 2, remainder, "a % b, for a positive b"},
    {"negative", 1, 1, negative, "-a"},
    {"==", 2, 2, is_equal, "a == b; of dimensions, provably"},
    {"!=", 2, 2, is_different, "a != b; of dimensions, provably"},
    {"<", 2, 2, is_less, "a < b"},
    {"<=", 2, 2, is_at_most, "a <= b"},
    {">", 2, 2, is_greater, "a > b"},
    {">=", 2, 2, is_at_least, "a >= b"},
    {"in", 2, 2, is_in, "x in list"},
    {"abs", 1, 1, real_function<std::fabs>, "abs(a): |a|"},
    {"sqrt", 1, 1, real_function<std::sqrt>, "sqrt(a): the square root"},
    {"exp", 1, 1, real_function<std::exp>, "exp(a): e to the power of a"},
    {"log", 1, 1, real_function<std::log>, "log(a): the natural logarithm"},
    {"power", 2, 2, power, "power(a, b): a to the power of b"},
    {"or_else", 2, 2, or_else, "or_else(a, b): a where it is known, else b"},
    {"when", 2, 2, when, "when(condition, a): a where the condition holds, else not known"},
    {"smallest", 1, -1, extremum<false>, "smallest(list), smallest(a, b, …)"},
    {"largest", 1, -1, extremum<true>, "largest(list), largest(a, b, …)"},
    {"element", 2, 2, element, "list[i]; a negative i counts from the end"},
    {"length", 1, 1, length, "length(list): the number of its elements"},
    {"product_of", 1, 1, product_of, "product_of(list): all elements multiplied"},
    {"sum_of", 1, 1, sum_of, "sum_of(list): all elements added"},
    {"part", 3, 3, part, "part(list, from, to): the elements from ≤ i < to"},
    {"with", 3, 3, with_element, "with(list, i, value): the list with element i replaced"},
    {"without", 2, 2, without_elements, "without(list, indices): the list less the elements at those places"},
    {"gather", 2, 2, gather, "gather(list, indices): list[i] of each index"},
    {"plus", 2, 2, plus, "plus(list, list): the lists added element by element"},
    {"iota", 1, 1, iota, "iota(n): [0, 1, …, n-1]"},
    {"filled", 2, 2, filled, "filled(value, n): n times the value"},
    {"sorted", 1, 1, sorted, "sorted(list): in rising order"},
    {"union", 2, 2, union_of, "union(a, b): the elements of two lists, in rising order, each once"},
    {"all_equal", 2, 2, all_compare<same_number>, "all_equal(list, value): whether every element is the value"},
    {"all_at_least", 2, 2, all_compare<at_least>, "all_at_least(list, value): whether no element is below the value"},
    {"axis", 2, 2, axis, "axis(a, rank): a in [0, rank), where a negative one counts from the end; of a list, each"},
    {"compose", 2, 2, compose, "compose(q, p): what Transpose{p} of Transpose{q} permutes, q[p[i]]"},
    {"inverse", 1, 1, inverse, "inverse(p): the permutation that undoes p"},
    {"is_identity", 1, 1, is_identity, "is_identity(p): whether p is [0, 1, …]"},
    {"index_of", 2, 2, index_of, "index_of(x, list): the first place of x in the list"},
};

}  // namespace

std::span<const Function> functions_that_compute() { return kComputations; }

}  // namespace anfora::rewrite

// Comparisons, membership and subscripts of constants.
#include <algorithm>
#include <cmath>

#include "frontend/python/operators.h"

namespace anfora::python {
namespace {

bool is_integer(const Constant& c) { return c.is<bool>() || c.is<Integer>(); }
bool is_real(const Constant& c) { return is_integer(c) || c.is<double>(); }
Integer as_index(const Constant& c) { return c.is<bool>() ? Integer(c.as<bool>() ? 1 : 0) : c.as<Integer>(); }

std::partial_ordering order(int sign) { return sign <=> 0; }

std::partial_ordering order_reals(const Constant& a, const Constant& b) {
  if (a.is<double>() && b.is<double>()) return a.as<double>() <=> b.as<double>();
  if (is_integer(a) && is_integer(b)) return order(as_index(a).compare(as_index(b)));
  if (!a.is<double>()) return 0 <=> order_reals(b, a);
  const double x = a.as<double>();
  if (!std::isfinite(x)) return x <=> 0.0;
  const int whole = Integer(x).compare(as_index(b));  // the integer part, towards zero
  return whole != 0 ? order(whole) : x <=> std::trunc(x);
}

// Unordered: a NaN. Empty: the types have no order.
std::optional<std::partial_ordering> order_of(const Constant& a, const Constant& b) {
  if (is_real(a) && is_real(b)) return order_reals(a, b);
  if (a.value.index() != b.value.index()) return {};
  if (a.is<std::u32string>()) return order(a.as<std::u32string>().compare(b.as<std::u32string>()));
  if (a.is<Bytes>()) return order(a.as<Bytes>().bytes.compare(b.as<Bytes>().bytes));
  if (!a.is<Tuple>()) return {};
  const auto &left = a.as<Tuple>().items, &right = b.as<Tuple>().items;
  auto [l, r] = std::ranges::mismatch(left, right, equal);
  if (l != left.end() && r != right.end()) return order_of(*l, *r);
  return left.size() <=> right.size();
}

// Objects of which there is one.
bool is_singleton(const Constant& c) { return c.is<NoneValue>() || c.is<bool>() || c.is<EllipsisValue>(); }

std::optional<bool> contains(const Constant& container, const Constant& item) {
  if (container.is<Tuple>()) return std::ranges::any_of(container.as<Tuple>().items, [&](const Constant& c) { return equal(c, item); });
  if (container.is<FrozenSet>()) return std::ranges::any_of(container.as<FrozenSet>().items, [&](const Constant& c) { return equal(c, item); });
  if (container.is<std::u32string>() && item.is<std::u32string>()) {
    return container.as<std::u32string>().find(item.as<std::u32string>()) != std::u32string::npos;
  }
  if (!container.is<Bytes>()) return {};
  const std::string& bytes = container.as<Bytes>().bytes;
  if (item.is<Bytes>()) return bytes.find(item.as<Bytes>().bytes) != std::string::npos;
  if (!is_integer(item) || as_index(item) < 0 || as_index(item) > 255) return {};
  return bytes.find(static_cast<char>(static_cast<int>(as_index(item)))) != std::string::npos;
}

// A position, counted from the end where it is negative. Empty beyond the ends.
std::optional<size_t> position(const Integer& index, size_t size) {
  const Integer from_start = index < 0 ? Integer(index + size) : index;
  return from_start < 0 || from_start >= size ? std::nullopt : std::optional(static_cast<size_t>(from_start));
}

}  // namespace

std::optional<bool> compare(Kind op, const Constant& left, const Constant& right) {
  const bool is_scalar = is_real(left) || left.is<std::complex<double>>();
  const bool is_negated = op == Kind::NotEq || op == Kind::IsNot || op == Kind::NotIn;
  if (op == Kind::Is || op == Kind::IsNot) {
    if (!is_singleton(left) && !is_singleton(right)) return {};
    const bool is_same = left.value.index() == right.value.index() && equal(left, right);
    return is_same != is_negated;
  }
  if (op == Kind::In || op == Kind::NotIn) {
    if (holds_nan(left) || holds_nan(right)) return {};
    const auto found = contains(right, left);
    return found ? std::optional(*found != is_negated) : std::nullopt;
  }
  if (!is_scalar && (holds_nan(left) || holds_nan(right))) return {};
  if (op == Kind::Eq || op == Kind::NotEq) return equal(left, right) != is_negated;
  const auto found = order_of(left, right);
  if (!found) return {};
  switch (op) {
    case Kind::Lt: return *found < 0;
    case Kind::LtE: return *found <= 0;
    case Kind::Gt: return *found > 0;
    case Kind::GtE: return *found >= 0;
    default: return {};
  }
}

std::optional<Constant> subscript(const Constant& value, const Constant& index) {
  if (!is_integer(index)) return {};
  auto at = [&](size_t size) { return position(as_index(index), size); };
  if (value.is<std::u32string>()) {
    const auto& text = value.as<std::u32string>();
    if (const auto i = at(text.size())) return Constant{std::u32string(1, text[*i])};
  }
  if (value.is<Bytes>()) {
    const auto& bytes = value.as<Bytes>().bytes;
    if (const auto i = at(bytes.size())) return Constant{Integer(static_cast<unsigned char>(bytes[*i]))};
  }
  if (value.is<Tuple>()) {
    const auto& items = value.as<Tuple>().items;
    if (const auto i = at(items.size())) return items[*i];
  }
  return {};
}

std::optional<Constant> slice(const Constant& value, const Constant& lower, const Constant& upper, const Constant& step) {
  for (const Constant* bound : {&lower, &upper, &step}) {
    if (!bound->is<NoneValue>() && !is_integer(*bound)) return {};
  }
  const Integer by = step.is<NoneValue>() ? Integer(1) : as_index(step);
  if (by == 0) return {};
  auto taken = [&](const auto& sequence) {
    const Integer size = sequence.size(), first = by < 0 ? -1 : 0, last = by < 0 ? Integer(size - 1) : size;  // what bounds are limited to
    auto limited = [&](const Constant& bound, const Integer& left_out) {
      if (bound.is<NoneValue>()) return left_out;
      const Integer i = as_index(bound) < 0 ? Integer(as_index(bound) + size) : as_index(bound);
      return std::clamp(i, first, last);
    };
    const Integer start = limited(lower, by < 0 ? last : first), stop = limited(upper, by < 0 ? first : last);
    std::remove_cvref_t<decltype(sequence)> result;
    for (Integer i = start; by < 0 ? i > stop : i < stop; i += by) result.push_back(sequence[static_cast<size_t>(i)]);
    return result;
  };
  if (value.is<std::u32string>()) return Constant{taken(value.as<std::u32string>())};
  if (value.is<Bytes>()) return Constant{Bytes{taken(value.as<Bytes>().bytes)}};
  if (value.is<Tuple>()) return Constant{Tuple{taken(value.as<Tuple>().items)}};
  return {};
}

}  // namespace anfora::python

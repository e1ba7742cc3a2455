#include "frontend/python/constant.h"

#include <algorithm>
#include <bit>
#include <boost/functional/hash.hpp>
#include <cmath>
#include <unordered_map>

namespace anfora::python {
namespace {

// Of a bool, an integer or a float: the number that Python compares.
std::optional<Integer> as_integer(const Constant& c) {
  if (c.is<bool>()) return Integer(c.as<bool>() ? 1 : 0);
  if (c.is<Integer>()) return c.as<Integer>();
  if (!c.is<double>()) return std::nullopt;
  const double x = c.as<double>();
  return std::isfinite(x) && x == std::trunc(x) ? std::optional(Integer(x)) : std::nullopt;
}

// A complex number without an imaginary part counts as its real part.
Constant real_part(const Constant& c) {
  return c.is<std::complex<double>>() && c.as<std::complex<double>>().imag() == 0 ? Constant{c.as<std::complex<double>>().real()} : c;
}

bool all_equal(const std::vector<Constant>& a, const std::vector<Constant>& b) {
  return std::ranges::equal(a, b, equal);
}

bool same_items(const FrozenSet& a, const FrozenSet& b) {
  return a.items.size() == b.items.size() && std::ranges::all_of(a.items, [&](const Constant& item) {
    return std::ranges::any_of(b.items, [&](const Constant& other) { return equal(item, other); });
  });
}

}  // namespace

bool truth(const Constant& constant) {
  struct Visitor {
    bool operator()(NoneValue) const { return false; }
    bool operator()(bool b) const { return b; }
    bool operator()(const Integer& i) const { return i != 0; }
    bool operator()(double x) const { return x != 0; }
    bool operator()(const std::complex<double>& c) const { return c.real() != 0 || c.imag() != 0; }
    bool operator()(const std::u32string& text) const { return !text.empty(); }
    bool operator()(const Bytes& bytes) const { return !bytes.bytes.empty(); }
    bool operator()(EllipsisValue) const { return true; }
    bool operator()(const Tuple& tuple) const { return !tuple.items.empty(); }
    bool operator()(const FrozenSet& set) const { return !set.items.empty(); }
  };
  return std::visit(Visitor(), constant.value);
}

bool equal(const Constant& left, const Constant& right) {
  const Constant a = real_part(left), b = real_part(right);
  if (auto m = as_integer(a), n = as_integer(b); m && n) return *m == *n;
  if (a.value.index() != b.value.index()) return false;
  if (a.is<Tuple>()) return all_equal(a.as<Tuple>().items, b.as<Tuple>().items);
  if (a.is<FrozenSet>()) return same_items(a.as<FrozenSet>(), b.as<FrozenSet>());
  if (a.is<double>()) return a.as<double>() == b.as<double>();
  if (a.is<std::complex<double>>()) return a.as<std::complex<double>>() == b.as<std::complex<double>>();
  if (a.is<std::u32string>()) return a.as<std::u32string>() == b.as<std::u32string>();
  if (a.is<Bytes>()) return a.as<Bytes>() == b.as<Bytes>();
  return true;  // None, Ellipsis
}

bool holds_nan(const Constant& constant) {
  if (constant.is<double>()) return std::isnan(constant.as<double>());
  if (constant.is<std::complex<double>>()) {
    const auto& c = constant.as<std::complex<double>>();
    return std::isnan(c.real()) || std::isnan(c.imag());
  }
  if (constant.is<Tuple>()) return std::ranges::any_of(constant.as<Tuple>().items, holds_nan);
  return constant.is<FrozenSet>() && std::ranges::any_of(constant.as<FrozenSet>().items, holds_nan);
}

size_t hash(const Constant& constant) {
  const Constant c = real_part(constant);
  if (auto integer = as_integer(c)) return boost::multiprecision::hash_value(*integer);
  size_t seed = c.value.index();
  if (c.is<double>()) boost::hash_combine(seed, std::bit_cast<uint64_t>(c.as<double>()));
  if (c.is<std::complex<double>>()) {
    const auto& parts = c.as<std::complex<double>>();
    boost::hash_combine(seed, hash({parts.real()}));  // -0.0 as 0.0
    boost::hash_combine(seed, hash({parts.imag()}));
  }
  if (c.is<std::u32string>()) boost::hash_combine(seed, std::hash<std::u32string>()(c.as<std::u32string>()));
  if (c.is<Bytes>()) boost::hash_combine(seed, std::hash<std::string>()(c.as<Bytes>().bytes));
  if (c.is<Tuple>()) {
    for (const Constant& item : c.as<Tuple>().items) boost::hash_combine(seed, hash(item));
  }
  if (c.is<FrozenSet>()) {
    for (const Constant& item : c.as<FrozenSet>().items) seed += hash(item);  // in any order
  }
  return seed;
}

FrozenSet frozen_set(const std::vector<Constant>& items) {
  FrozenSet set;
  std::unordered_multimap<size_t, size_t> places;  // of an item with that hash
  for (const Constant& item : items) {
    const size_t code = hash(item);
    auto [first, last] = places.equal_range(code);
    if (std::any_of(first, last, [&](const auto& entry) { return equal(set.items[entry.second], item); })) continue;
    places.emplace(code, set.items.size());
    set.items.push_back(item);
  }
  return set;
}

std::optional<double> to_double(const Integer& integer) {
  if (integer == 0) return 0.0;
  Integer magnitude = abs(integer);
  const unsigned bits = msb(magnitude) + 1, shift = bits > 64 ? bits - 64 : 0;
  // 64 bits are 11 more than a float has: the last of them may stand for all that are shifted out.
  const bool is_exact = lsb(magnitude) >= shift;
  const auto leading = static_cast<uint64_t>(magnitude >> shift) | (is_exact ? 0 : 1);
  const double rounded = std::ldexp(static_cast<double>(leading), static_cast<int>(shift));
  if (std::isinf(rounded)) return std::nullopt;
  return integer < 0 ? -rounded : rounded;
}

std::string utf8(std::u32string_view text) {
  std::string bytes;
  for (char32_t c : text) {
    auto tail = [&](int shift) { bytes += static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
    if (c < 0x80) {
      bytes += static_cast<char>(c);
    } else if (c < 0x800) {
      bytes += static_cast<char>(0xC0 | (c >> 6));
      tail(0);
    } else if (c < 0x10000) {
      bytes += static_cast<char>(0xE0 | (c >> 12));
      tail(6), tail(0);
    } else {
      bytes += static_cast<char>(0xF0 | (c >> 18));
      tail(12), tail(6), tail(0);
    }
  }
  return bytes;
}

std::u32string code_points(std::string_view utf8) {
  std::u32string text;
  for (size_t i = 0; i < utf8.size();) {
    const auto first = static_cast<unsigned char>(utf8[i]);
    const int tail = first < 0xC0 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
    char32_t c = tail == 0 ? first : first & (0x3FU >> tail);
    ++i;
    for (int k = 0; k < tail && i < utf8.size(); ++k, ++i) c = c << 6 | (static_cast<unsigned char>(utf8[i]) & 0x3FU);
    text += c;
  }
  return text;
}

}  // namespace anfora::python

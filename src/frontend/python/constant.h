// Constants of Python, exactly: integers of any size, texts by code points.
#pragma once

#include <boost/multiprecision/cpp_int.hpp>
#include <complex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace anfora::python {

using Integer = boost::multiprecision::cpp_int;

struct NoneValue {
  friend bool operator==(NoneValue, NoneValue) = default;
};
struct EllipsisValue {
  friend bool operator==(EllipsisValue, EllipsisValue) = default;
};
struct Bytes {
  std::string bytes;
  friend bool operator==(const Bytes&, const Bytes&) = default;
};
struct Constant;
struct Tuple {
  std::vector<Constant> items;
};
struct FrozenSet {
  std::vector<Constant> items;  // in the order in which they were written, each once
};

struct Constant {
  std::variant<NoneValue, bool, Integer, double, std::complex<double>, std::u32string, Bytes, EllipsisValue, Tuple, FrozenSet> value;

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(value);
  }
  template <class T>
  const T& as() const {
    return std::get<T>(value);
  }
};

// As Python's repr() writes it; a frozenset in the order in which its items were written.
std::string repr(const Constant& constant);
// As ascii() and str().
std::string ascii(const Constant& constant);
std::string str(const Constant& constant);
// Whether it counts as true in a condition.
bool truth(const Constant& constant);
// a == b. In Python, a NaN within a tuple or frozenset equals the same object, and no other; here, none (holds_nan).
bool equal(const Constant& a, const Constant& b);
bool holds_nan(const Constant& constant);
// The same for what is equal: hash(1) == hash(1.0) == hash(True).
size_t hash(const Constant& constant);
// A set of the items that are equal to none before them.
FrozenSet frozen_set(const std::vector<Constant>& items);

// The float that is nearest, ties to even. Empty where it overflows.
std::optional<double> to_double(const Integer& integer);

std::string utf8(std::u32string_view text);        // a lone surrogate as the three bytes that encode its number
std::u32string code_points(std::string_view utf8);

}  // namespace anfora::python

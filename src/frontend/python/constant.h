// Constants of Python, exactly: integers of any size, texts by code points.
#pragma once

#include <boost/multiprecision/cpp_int.hpp>
#include <complex>
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

// As Python's repr() writes it.
std::string repr(const Constant& constant);
// Whether it counts as true in a condition.
bool truth(const Constant& constant);

std::string utf8(std::u32string_view text);        // a lone surrogate as the three bytes that encode its number
std::u32string code_points(std::string_view utf8);

}  // namespace anfora::python

#include "frontend/python/constant.h"

#include <fmt/format.h>

#include <cmath>

namespace anfora::python {
namespace {

std::string repr_of(double x, bool is_part = false) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", x);
  const bool is_whole = text.find_first_of(".e") == std::string::npos;
  return is_whole && !is_part ? text + ".0" : text;
}

}  // namespace

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

std::string repr(const Constant& constant) {
  struct Visitor {
    std::string operator()(NoneValue) const { return "None"; }
    std::string operator()(bool b) const { return b ? "True" : "False"; }
    std::string operator()(const Integer& i) const { return i.str(); }
    std::string operator()(double x) const { return repr_of(x); }
    std::string operator()(const std::complex<double>& c) const {
      return c.real() == 0 && !std::signbit(c.real()) ? repr_of(c.imag(), true) + "j"
                            : fmt::format("({}{}{}j)", repr_of(c.real(), true), std::signbit(c.imag()) ? "" : "+", repr_of(c.imag(), true));
    }
    std::string operator()(const std::u32string& text) const { return "'" + utf8(text) + "'"; }
    std::string operator()(const Bytes& bytes) const { return "b'" + bytes.bytes + "'"; }
    std::string operator()(EllipsisValue) const { return "Ellipsis"; }
    std::string operator()(const Tuple& tuple) const {
      return "(" + joined(tuple.items) + (tuple.items.size() == 1 ? ",)" : ")");
    }
    std::string operator()(const FrozenSet& set) const { return "frozenset({" + joined(set.items) + "})"; }
    static std::string joined(const std::vector<Constant>& items) {
      std::string text;
      for (const Constant& item : items) text += (text.empty() ? "" : ", ") + repr(item);
      return text;
    }
  };
  return std::visit(Visitor(), constant.value);
}

}  // namespace anfora::python

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frontend/python/constant.h"

namespace anfora::python {
namespace {

// What repr() escapes from U+007F on: the first and the last of each range that str.isprintable() denies, in Unicode 14 (Python 3.11).
// What later versions assign is escaped too.
constexpr struct {
  char32_t first, last;
} kNotPrintable[] = {
#include "frontend/python/not_printable.inc"
};

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= ' ';
  const auto* range = std::ranges::lower_bound(kNotPrintable, c, {}, [](const auto& r) { return r.last; });
  return range == std::end(kNotPrintable) || c < range->first;
}

std::string repr_of(double x, bool is_part = false) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", x);
  const bool is_whole = text.find_first_of(".e") == std::string::npos;
  return is_whole && !is_part ? text + ".0" : text;
}

// In quotes, single ones where the text allows; as ascii() does, only ASCII.
template <class Text>
std::string quoted(const Text& text, bool only_ascii) {
  const bool has_single = text.find('\'') != Text::npos, has_double = text.find('"') != Text::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string written(1, quote);
  for (auto unit : text) {
    const auto c = static_cast<char32_t>(static_cast<std::make_unsigned_t<decltype(unit)>>(unit));
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      written += '\\', written += static_cast<char>(c);
    } else if (c == '\t' || c == '\n' || c == '\r') {
      written += c == '\t' ? "\\t" : c == '\n' ? "\\n" : "\\r";
    } else if (only_ascii ? c >= ' ' && c < 0x7F : is_printable(c)) {
      written += utf8({&c, 1});
    } else {
      const auto number = static_cast<uint32_t>(c);
      written += c < 0x100 ? fmt::format("\\x{:02x}", number) : c < 0x10000 ? fmt::format("\\u{:04x}", number) : fmt::format("\\U{:08x}", number);
    }
  }
  return written + quote;
}

struct Writer {
  bool only_ascii;

  std::string operator()(NoneValue) const { return "None"; }
  std::string operator()(bool b) const { return b ? "True" : "False"; }
  std::string operator()(const Integer& i) const { return i.str(); }
  std::string operator()(double x) const { return repr_of(x); }
  std::string operator()(const std::complex<double>& c) const {
    const std::string imaginary = repr_of(c.imag(), true);
    if (c.real() == 0 && !std::signbit(c.real())) return imaginary + "j";
    return fmt::format("({}{}{}j)", repr_of(c.real(), true), imaginary.starts_with('-') ? "" : "+", imaginary);
  }
  std::string operator()(const std::u32string& text) const { return quoted(text, only_ascii); }
  std::string operator()(const Bytes& bytes) const { return "b" + quoted(bytes.bytes, true); }
  std::string operator()(EllipsisValue) const { return "Ellipsis"; }
  std::string operator()(const Tuple& tuple) const {
    return "(" + joined(tuple.items) + (tuple.items.size() == 1 ? ",)" : ")");
  }
  std::string operator()(const FrozenSet& set) const {
    return set.items.empty() ? "frozenset()" : "frozenset({" + joined(set.items) + "})";
  }
  std::string joined(const std::vector<Constant>& items) const {
    std::string text;
    for (const Constant& item : items) text += (text.empty() ? "" : ", ") + std::visit(*this, item.value);
    return text;
  }
};

}  // namespace

std::string repr(const Constant& constant) { return std::visit(Writer{false}, constant.value); }
std::string ascii(const Constant& constant) { return std::visit(Writer{true}, constant.value); }
std::string str(const Constant& constant) {
  return constant.is<std::u32string>() ? utf8(constant.as<std::u32string>()) : repr(constant);
}

}  // namespace anfora::python

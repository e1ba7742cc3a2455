#include "ir/lexical.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>

#include "support/element_types.h"

namespace anfora::ir {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool in_identifier(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '-'; }
bool in_label(char c) { return in_identifier(c) || c == '/' || c == '$'; }

// The length of the UTF-8 sequence at the start of `text`, 0 when it is none.
size_t utf8_length(std::string_view text) {
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  auto continues = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return continues(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    bool overlong = lead == 0xe0 && byte(1) < 0xa0, surrogate = lead == 0xed && byte(1) >= 0xa0;
    return continues(1) && continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    bool overlong = lead == 0xf0 && byte(1) < 0x90, beyond = lead == 0xf4 && byte(1) >= 0x90;
    return continues(1) && continues(2) && continues(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

template <class T, class Bits>
void append_floating(std::string& out, T value, Bits bits, Bits usual_nan) {
  if (std::isnan(value)) {
    out += "nan";
    if (bits != usual_nan) fmt::format_to(std::back_inserter(out), "(0x{:x})", bits);
  } else if (std::isinf(value)) {
    out += value < 0 ? "-inf" : "inf";
  } else {
    size_t start = out.size();
    fmt::format_to(std::back_inserter(out), "{}", value);
    if (out.find_first_of(".e", start) == std::string::npos) out += ".0";
  }
}

template <class T>
void append_value(std::string& out, const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    append_quoted(out, value);
  } else if constexpr (std::is_same_v<T, bool>) {
    out += value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    fmt::format_to(std::back_inserter(out), "{}", value);
  } else if constexpr (std::is_same_v<T, float>) {
    constexpr uint32_t kUsual = std::bit_cast<uint32_t>(std::numeric_limits<float>::quiet_NaN());
    append_floating(out, value, std::bit_cast<uint32_t>(value), kUsual);
  } else if constexpr (std::is_same_v<T, double>) {
    constexpr uint64_t kUsual = std::bit_cast<uint64_t>(std::numeric_limits<double>::quiet_NaN());
    append_floating(out, value, std::bit_cast<uint64_t>(value), kUsual);
  } else if constexpr (requires { value.bits; }) {
    append_floating(out, static_cast<float>(value), value.bits, T(std::numeric_limits<float>::quiet_NaN()).bits);
  } else if constexpr (requires { value.real(); }) {
    out += '(';
    append_value(out, value.real());
    out += ", ";
    append_value(out, value.imag());
    out += ')';
  } else {
    fmt::format_to(std::back_inserter(out), "{}", static_cast<int>(value));
  }
}

}  // namespace

size_t label_length(std::string_view text) {
  if (text.empty() || !(is_letter(text[0]) || text[0] == '/')) return 0;
  size_t i = 1;
  for (;;) {
    if (text.substr(i, 2) == "->") return i;  // an arrow that follows without a space
    if (i < text.size() && in_label(text[i])) {
      ++i;
    } else if (i + 1 < text.size() && text[i] == ':' && is_digit(text[i + 1])) {
      ++i;
    } else if (i + 2 < text.size() && text[i] == ':' && text[i + 1] == ':' && in_label(text[i + 2])) {
      i += 2;
    } else {
      return i;
    }
  }
}

size_t identifier_length(std::string_view text) {
  if (text.empty() || !is_letter(text[0])) return 0;
  return static_cast<size_t>(std::ranges::find_if_not(text, in_identifier) - text.begin());
}

void append_label(std::string& out, std::string_view name) {
  if (!name.empty() && label_length(name) == name.size()) {
    out += name;
  } else {
    append_quoted(out, name);
  }
}

void append_identifier(std::string& out, std::string_view name) {
  if (!name.empty() && identifier_length(name) == name.size()) {
    out += name;
  } else {
    append_quoted(out, name);
  }
}

void append_quoted(std::string& out, std::string_view bytes) {
  out += '"';
  while (!bytes.empty()) {
    unsigned char c = static_cast<unsigned char>(bytes[0]);
    size_t length = utf8_length(bytes);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (length == 0 || c < 0x20 || c == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", c);
    } else {
      out += bytes.substr(0, length);
    }
    bytes.remove_prefix(std::max<size_t>(length, 1));
  }
  out += '"';
}

bool is_reserved(std::string_view word) {
  static constexpr std::string_view kKeywords[] = {"graph", "module", "call", "return", "const",     "true",
                                                   "false", "inf",    "nan",  "any",    "undefined", "_",
                                                   "if",    "else",   "type", "unreachable"};
  return std::ranges::count(kKeywords, word) > 0 || dtype_from_name(word).has_value();
}

void append_float(std::string& out, float value) { append_value(out, value); }
void append_float(std::string& out, double value) { append_value(out, value); }

void append_element(std::string& out, DType dtype, const void* data, int64_t i) {
  dispatch<AllElements>(dtype, [&]<class T>() { append_value(out, static_cast<const T*>(data)[i]); });
}

}  // namespace anfora::ir

#include "ir/parse_cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "ir/lexical.h"

namespace anfora::ir {
namespace {

bool is_decimal_digit(char c) { return c >= '0' && c <= '9'; }

size_t count_digits(std::string_view text) {
  return static_cast<size_t>(std::ranges::find_if_not(text, is_decimal_digit) - text.begin());
}

int hex_digit(char c) {
  if (is_decimal_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// "nan", "nan(0x7f)", "inf"; 0: neither.
size_t special_length(std::string_view text) {
  size_t word = identifier_length(text);
  if (text.substr(0, word) == "inf") return word;
  if (text.substr(0, word) != "nan") return 0;
  if (!text.substr(word).starts_with("(0x")) return word;
  size_t end = word + 3;
  while (end < text.size() && hex_digit(text[end]) >= 0) ++end;
  return end < text.size() && text[end] == ')' ? end + 1 : word;
}

size_t number_length(std::string_view text) {
  size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  std::string_view rest = text.substr(sign);
  if (size_t special = special_length(rest)) return sign + special;
  size_t whole = count_digits(rest);
  if (whole == 0) return 0;
  size_t end = whole;
  if (rest.substr(end).starts_with('.')) end += 1 + count_digits(rest.substr(end + 1));
  if (end < rest.size() && (rest[end] == 'e' || rest[end] == 'E')) {
    size_t digits = end + 1;
    if (digits < rest.size() && (rest[digits] == '-' || rest[digits] == '+')) ++digits;
    if (size_t count = count_digits(rest.substr(std::min(digits, rest.size())))) end = digits + count;
  }
  return sign + end;
}

// from_chars reads no plus sign.
std::string_view without_plus(std::string_view text) { return text.starts_with('+') ? text.substr(1) : text; }

template <class T>
T read_floating(const Cursor& cursor, const NumberToken& number) {
  std::string_view text = without_plus(number.text);
  bool negative = text.starts_with('-');
  std::string_view magnitude = text.substr(negative ? 1 : 0);
  T value = 0;
  if (magnitude.starts_with("nan")) {
    value = std::numeric_limits<T>::quiet_NaN();
  } else if (magnitude == "inf") {
    value = std::numeric_limits<T>::infinity();
  } else {
    auto [end, error] = std::from_chars(magnitude.data(), magnitude.data() + magnitude.size(), value);
    if (error != std::errc()) {
      cursor.fail_at(number.position, fmt::format("{} is out of the range of f{}", number.text, sizeof(T) * 8));
    }
  }
  return negative ? -value : value;
}

}  // namespace

bool NumberToken::is_integer() const {
  return !text.empty() && std::ranges::all_of(text.substr(text[0] == '-' || text[0] == '+' ? 1 : 0), is_decimal_digit);
}

void Cursor::skip_space() {
  while (position_ < text_.size()) {
    char c = text_[position_];
    if (c == '#') {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++position_;
    } else {
      return;
    }
  }
}

bool Cursor::at_end() {
  skip_space();
  return position_ == text_.size();
}

char Cursor::peek() { return at_end() ? '\0' : text_[position_]; }

bool Cursor::accept(std::string_view token) {
  skip_space();
  if (!rest().starts_with(token)) return false;
  position_ += token.size();
  return true;
}

void Cursor::expect(std::string_view token, std::string_view context) {
  if (!accept(token)) fail_expected(fmt::format("'{}' {}", token, context));
}

std::string_view Cursor::peek_word() {
  skip_space();
  return rest().substr(0, identifier_length(rest()));
}

bool Cursor::accept_word(std::string_view word) {
  if (peek_word() != word) return false;
  position_ += word.size();
  return true;
}

std::string Cursor::name(size_t length, std::string_view what) {
  if (length > 0) {
    std::string name(rest().substr(0, length));
    position_ += length;
    return name;
  }
  return string(what);
}

std::string Cursor::label(std::string_view what) { return name(label_length(rest()), what); }

std::string Cursor::identifier(std::string_view what) {
  skip_space();
  return name(identifier_length(rest()), what);
}

std::string Cursor::string(std::string_view what) {
  if (peek() != '"') fail_expected(what);
  size_t start = position_++;
  std::string value;
  for (;;) {
    if (position_ == text_.size() || text_[position_] == '\n') {
      fail_at(start, "this string has no closing quote", "a line break within a string is written \\n");
    }
    char c = text_[position_++];
    if (c == '"') return value;
    if (c != '\\') {
      value += c;
      continue;
    }
    char escape = position_ < text_.size() ? text_[position_++] : '\0';
    if (escape == 'n') {
      value += '\n';
    } else if (escape == 't') {
      value += '\t';
    } else if (escape == '"' || escape == '\\') {
      value += escape;
    } else if (escape == 'x' && text_.size() - position_ >= 2 && hex_digit(text_[position_]) >= 0 &&
               hex_digit(text_[position_ + 1]) >= 0) {
      value += static_cast<char>(hex_digit(text_[position_]) * 16 + hex_digit(text_[position_ + 1]));
      position_ += 2;
    } else {
      fail_at(position_ - 1, "unknown escape in a string", "there are \\\" \\\\ \\n \\t and \\xHH");
    }
  }
}

bool Cursor::at_number() {
  skip_space();
  return number_length(rest()) > 0;
}

NumberToken Cursor::number(std::string_view what) {
  skip_space();
  size_t length = number_length(rest());
  if (length == 0) fail_expected(what);
  NumberToken token{rest().substr(0, length), position_};
  position_ += length;
  return token;
}

int64_t Cursor::integer(std::string_view what) {
  skip_space();
  size_t start = position_;
  NumberToken token = number(what);
  if (!token.is_integer()) {
    position_ = start;
    fail_expected(what);
  }
  return to_integer(token);
}

int64_t Cursor::to_integer(const NumberToken& number) {
  std::string_view text = without_plus(number.text);
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) fail_at(number.position, fmt::format("{} is out of the range of i64", number.text));
  return value;
}

float Cursor::to_float(const NumberToken& number) { return read_floating<float>(*this, number); }
double Cursor::to_double(const NumberToken& number) { return read_floating<double>(*this, number); }

std::optional<uint64_t> Cursor::nan_bits(const NumberToken& number) {
  size_t start = number.text.find("(0x");
  if (start == std::string_view::npos) return std::nullopt;
  std::string_view digits = number.text.substr(start + 3, number.text.size() - start - 4);
  uint64_t bits = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  if (error != std::errc() || end != digits.data() + digits.size())
    fail_at(number.position, "a NaN has at most 64 bits");
  return bits;
}

std::optional<std::string_view> Cursor::line_comment() const {
  size_t at = text_.find_first_not_of(" \t", position_);
  if (at == std::string_view::npos || text_[at] != '#') return std::nullopt;
  std::string_view comment = text_.substr(at + 1, text_.find('\n', at) - at - 1);
  if (comment.ends_with('\r')) comment.remove_suffix(1);
  return comment;
}

std::string Cursor::place(size_t position) const {
  std::string_view before = text_.substr(0, position);
  size_t line = 1 + static_cast<size_t>(std::ranges::count(before, '\n'));
  size_t start = before.rfind('\n') + 1;  // npos + 1 = 0: the first line
  return fmt::format("{}{}{}:{}", file_, file_.empty() ? "" : ":", line, position - start + 1);
}

void Cursor::fail_at(size_t position, std::string message, std::string hint) const {
  Error error(ErrorCode::InvalidModel, std::move(message));
  error.at_location(place(position));
  if (!hint.empty()) error.with_hint(std::move(hint));
  throw error;
}

std::string_view Cursor::found() const {
  constexpr size_t kMostShown = 24;
  size_t length = std::max(label_length(rest()), number_length(rest()));
  return rest().substr(0, std::clamp<size_t>(length, 1, kMostShown));
}

void Cursor::fail_expected(std::string_view what, std::string hint) {
  bool end = at_end();
  std::string message = end ? fmt::format("expected {}, found the end of the text", what)
                            : fmt::format("expected {}, found '{}'", what, found());
  fail_at(position_, std::move(message), std::move(hint));
}

}  // namespace anfora::ir

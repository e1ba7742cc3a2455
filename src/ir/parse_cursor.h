// A place in a text being parsed, and the tokens that every part of the grammar is made of. There is no separate
// pass of tokens: what a character means depends on where it stands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "anfora/error.h"

namespace anfora::ir {

// A number as written; what it is depends on the type that it is read as.
struct NumberToken {
  std::string_view text;  // "-1.5e3", "7", "-inf", "nan(0x7fc00001)"
  size_t position = 0;
  bool is_integer() const;
};

class Cursor {
 public:
  Cursor(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  // Skips blanks and comments; a comment reaches from # to the end of the line.
  void skip_space();
  bool at_end();  // after skipping
  // The next character after skipping; 0 at the end.
  char peek();
  // The text from here on, without skipping.
  std::string_view rest() const { return text_.substr(position_); }
  size_t position() const { return position_; }
  void rewind(size_t position) { position_ = position; }
  void advance(size_t count) { position_ += count; }

  // Consumes a token of punctuation if it is next.
  bool accept(std::string_view token);
  void expect(std::string_view token, std::string_view context);
  // The same for a whole word.
  bool accept_word(std::string_view word);
  std::string_view peek_word();

  // A label or identifier, or one in quotes. `what` completes "expected …".
  std::string label(std::string_view what);
  std::string identifier(std::string_view what);
  std::string string(std::string_view what);
  bool at_number();  // also inf and nan
  NumberToken number(std::string_view what);
  int64_t integer(std::string_view what);
  int64_t to_integer(const NumberToken& number);
  float to_float(const NumberToken& number);
  double to_double(const NumberToken& number);
  // The bits in "nan(0x…)", if they are given.
  std::optional<uint64_t> nan_bits(const NumberToken& number);
  // What follows # on this line, if only blanks come before it. Does not consume it.
  std::optional<std::string_view> line_comment() const;

  // "file:line:column" of a position.
  std::string place(size_t position) const;
  [[noreturn]] void fail(std::string message, std::string hint = {}) {
    fail_at(position_, std::move(message), std::move(hint));
  }
  [[noreturn]] void fail_at(size_t position, std::string message, std::string hint = {}) const;
  // "expected WHAT, found …", after skipping.
  [[noreturn]] void fail_expected(std::string_view what, std::string hint = {});

 private:
  std::string_view found() const;
  std::string name(size_t length, std::string_view what);
  std::string_view text_, file_;
  size_t position_ = 0;
};

// Guards against a text that nests without end: brackets within brackets are read by recursion.
class NestingScope {
 public:
  static constexpr int kDeepest = 200;
  NestingScope(int& depth, Cursor& cursor) : depth_(depth) {
    if (++depth_ > kDeepest) cursor.fail("brackets are nested more than 200 deep");
  }
  ~NestingScope() { --depth_; }
  NestingScope(const NestingScope&) = delete;

 private:
  int& depth_;
};

}  // namespace anfora::ir

// The part of the grammar of rule files that conditions, attributes and computed operands share: words, names, expressions.
// docs/rule-language.md has the grammar; parse_rules.cc reads what is around it.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/parse_cursor.h"
#include "rewrite/term.h"

namespace anfora::rewrite {

inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
inline bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Letters, digits and _, as variables are called; a rule's own name may have hyphens as well.
size_t word_length(std::string_view text);

// What a name of a pattern stands for.
struct Variable {
  enum class Kind : uint8_t { Node, List, Quantity, Operator, AttributeSet, Around };
  Kind kind;
  int slot;
  int inside = -1;            // of what is Around
  bool is_of_result = false;  // names an application of a result
};

// A condition or another value with a name: text, which is read anew at each use with the parameters standing for the arguments.
struct NamedGuard {
  std::vector<std::string> parameters;
  size_t from, end;  // of the text, in the file
  bool is_condition;
};

class ExpressionParser {
 protected:
  ExpressionParser(std::string_view text, std::string_view file) : text_(text), file_(file), cursor_(text, file) {}

  std::string_view peek_word();
  std::string word(std::string_view what);
  bool accept_word(std::string_view expected);
  // 'a text', without the quotes.
  std::string text(std::string_view what);
  // "(" name { "," name } ")"
  std::vector<std::string> parameters();

  // Counts some more parts of the rule.
  void count(int parts = 1);

  // guard NAME(a, b): condition
  // value NAME(a, b): sum
  void named_guard(size_t end, bool is_condition);
  // The condition with arguments in the place of the parameters; one conjunct of a guard, as it is written as one.
  Expression expand(const NamedGuard& guard, std::vector<Expression> arguments);
  const NamedGuard* find_guard(const std::string& name) const;

  // What a name of the pattern stands for. Throws where it has no such.
  const Variable& find(const std::string& name, size_t position);
  Expression variable_value(const std::string& name, size_t position);

  Expression disjunction();
  Expression conjunction();
  Expression negation();
  Expression comparison();
  Expression sum();
  Expression product();
  Expression factor();
  Expression primary();
  Expression named();

  Expression connective(Expression::Kind kind, std::string_view word, Expression (ExpressionParser::*next)());
  Expression call_of(std::string_view function, std::vector<Expression> operands);
  Expression binary(std::string_view function, Expression left, Expression right);
  static int parts_of(const Expression& e);
  [[noreturn]] void unknown_function(const std::string& name, size_t position);
  static bool is_reserved_word(std::string_view word);
  static std::optional<Quantity> constant_word(std::string_view word);

  std::string_view text_, file_;
  ir::Cursor cursor_;
  boost::unordered_flat_map<std::string, Variable> variables_;
  std::map<std::string, NamedGuard> guards_;  // of this file
  boost::unordered_flat_map<std::string, Expression> arguments_;  // of the named guard that is being read, by parameter
  bool in_named_guard_ = false;
  int parts_ = 0;
  int depth_ = 0;
};

}  // namespace anfora::rewrite

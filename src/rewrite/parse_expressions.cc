#include "rewrite/parse_expressions.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "ir/lexical.h"
#include "rewrite/expression.h"
#include "support/nearest.h"

namespace anfora::rewrite {

using namespace ir;

namespace {

// Terms and expressions of one rule, with those of the guards that it names: what goes through a rule recurses as deep, and guards
// that name guards grow without end.
constexpr int kMostParts = 4096;

}  // namespace

size_t word_length(std::string_view text) {
  if (text.empty() || !is_letter(text[0])) return 0;
  size_t end = 1;
  while (end < text.size() && (is_letter(text[end]) || is_digit(text[end]))) ++end;
  return end;
}

// Words -----------------------------------------------------------------------------------------------------
std::string_view ExpressionParser::peek_word() {
  cursor_.skip_space();
  return cursor_.rest().substr(0, word_length(cursor_.rest()));
}

std::string ExpressionParser::word(std::string_view what) {
  std::string name(peek_word());
  if (name.empty()) cursor_.fail_expected(what);
  cursor_.advance(name.size());
  return name;
}

bool ExpressionParser::accept_word(std::string_view expected) {
  if (peek_word() != expected) return false;
  cursor_.advance(expected.size());
  return true;
}

// Counts some more parts of the rule.
void ExpressionParser::count(int parts) {
  parts_ += parts;
  if (parts_ > kMostParts) cursor_.fail(fmt::format("a rule has at most {} terms and expressions", kMostParts));
}

int ExpressionParser::parts_of(const Expression& e) {
  int parts = 1;
  for (const Expression& operand : e.operands) parts += parts_of(operand);
  return parts;
}

// guard NAME(a, b): condition
void ExpressionParser::named_guard(size_t end, bool is_condition) {
  size_t position = (cursor_.skip_space(), cursor_.position());
  std::string name = word(is_condition ? "the name of the guard" : "the name of the value");
  if (guards_.contains(name) || find_function(name)) {
    cursor_.fail_at(position, fmt::format("there is a function, guard or value {} already", name));
  }
  NamedGuard guard{.parameters = parameters(), .end = end, .is_condition = is_condition};
  cursor_.expect(":", is_condition ? "before the condition" : "before the value");
  guard.from = cursor_.position();
  expand(guard, std::vector<Expression>(guard.parameters.size()));  // errors show here, not only where it is used
  cursor_.rewind(end);
  guards_.emplace(std::move(name), std::move(guard));
}

std::vector<std::string> ExpressionParser::parameters() {
  std::vector<std::string> names;
  cursor_.expect("(", "before the parameters");
  do {
    names.push_back(word("a parameter"));
  } while (cursor_.accept(","));
  cursor_.expect(")", "behind the parameters");
  return names;
}

// With arguments in the place of the parameters. A condition is one conjunct of a guard, as it is written as one.
Expression ExpressionParser::expand(const NamedGuard& guard, std::vector<Expression> arguments) {
  boost::unordered_flat_map<std::string, Expression> bound;
  for (size_t i = 0; i < arguments.size(); ++i) bound.emplace(guard.parameters[i], std::move(arguments[i]));
  std::swap(bound, arguments_);
  const bool was_inside = std::exchange(in_named_guard_, true);
  Cursor outside = std::exchange(cursor_, Cursor(text_.substr(0, guard.end), file_));
  cursor_.rewind(guard.from);
  Expression whole = guard.is_condition ? disjunction() : sum();
  if (!cursor_.at_end())
    cursor_.fail_expected(guard.is_condition ? "the end of the condition" : "the end of the value");
  if (guard.is_condition) {
    Expression conjunct{.kind = Expression::Kind::And, .position = outside.position()};
    conjunct.operands.push_back(std::move(whole));
    whole = std::move(conjunct);
  }
  cursor_ = outside;
  in_named_guard_ = was_inside;
  std::swap(bound, arguments_);
  return whole;
}

std::string ExpressionParser::text(std::string_view what) {
  cursor_.skip_space();
  if (!cursor_.accept("'")) cursor_.fail_expected(what);
  size_t end = cursor_.rest().find('\'');
  if (end == std::string_view::npos) cursor_.fail("the quote does not end");
  std::string inside(cursor_.rest().substr(0, end));
  cursor_.advance(end + 1);
  return inside;
}

const Variable& ExpressionParser::find(const std::string& name, size_t position) {
  auto known = variables_.find(name);
  if (known != variables_.end()) return known->second;
  std::vector<std::string> names;
  for (const auto& [variable, what] : variables_) names.push_back(variable);
  std::ranges::sort(names);
  std::string_view meant = nearest_name(name, names);
  cursor_.fail_at(position, fmt::format("the pattern has no {}", name),
                  meant.empty() ? "" : fmt::format("did you mean {}?", meant));
}

// Expressions ------------------------------------------------------------------------------------------------
bool ExpressionParser::is_reserved_word(std::string_view word) {
  return word == "if" || word == "and" || word == "or" || word == "not" || word == "in" || word == "true" ||
         word == "false" || word == "none" || word == "inf" || word == "class" || word == "weight" ||
         word == "pattern";
}

std::optional<Quantity> ExpressionParser::constant_word(std::string_view word) {
  if (word == "true") return true;
  if (word == "false") return false;
  if (word == "inf") return std::numeric_limits<double>::infinity();
  if (auto type = dtype_from_name(word)) return static_cast<int64_t>(*type);
  return std::nullopt;
}

Expression ExpressionParser::connective(Expression::Kind kind, std::string_view word, Expression (ExpressionParser::*next)()) {
  Expression first = (this->*next)();
  if (peek_word() != word) return first;
  Expression all{.kind = kind, .position = first.position};
  all.operands.push_back(std::move(first));
  while (accept_word(word)) all.operands.push_back((this->*next)());
  return all;
}

Expression ExpressionParser::disjunction() { return connective(Expression::Kind::Or, "or", &ExpressionParser::conjunction); }

Expression ExpressionParser::conjunction() { return connective(Expression::Kind::And, "and", &ExpressionParser::negation); }

Expression ExpressionParser::negation() {
  if (!accept_word("not")) return comparison();
  NestingScope nesting(depth_, cursor_);
  count();
  Expression e{.kind = Expression::Kind::Not, .position = cursor_.position()};
  e.operands.push_back(negation());
  return e;
}

Expression ExpressionParser::call_of(std::string_view function, std::vector<Expression> operands) {
  Expression e{.kind = Expression::Kind::Call,
               .position = operands.empty() ? cursor_.position() : operands[0].position};
  count();
  e.function = find_function(function);
  e.operands = std::move(operands);
  return e;
}

Expression ExpressionParser::binary(std::string_view function, Expression left, Expression right) {
  std::vector<Expression> operands;
  operands.push_back(std::move(left));
  operands.push_back(std::move(right));
  return call_of(function, std::move(operands));
}

Expression ExpressionParser::comparison() {
  Expression left = sum();
  for (std::string_view symbol : {"==", "!=", "<=", ">=", "<", ">"}) {
    cursor_.skip_space();
    if (cursor_.rest().starts_with("=>")) break;
    if (cursor_.accept(symbol)) return binary(symbol, std::move(left), sum());
  }
  if (accept_word("in")) return binary("in", std::move(left), sum());
  return left;
}

Expression ExpressionParser::sum() {
  Expression left = product();
  while (true) {
    if (cursor_.accept("+")) {
      left = binary("+", std::move(left), product());
    } else if (cursor_.peek() == '-') {
      cursor_.advance(1);
      left = binary("-", std::move(left), product());
    } else {
      return left;
    }
  }
}

Expression ExpressionParser::product() {
  Expression left = factor();
  while (true) {
    if (cursor_.accept("*")) {
      left = binary("*", std::move(left), factor());
    } else if (cursor_.accept("/")) {
      left = binary("/", std::move(left), factor());
    } else if (cursor_.accept("%")) {
      left = binary("%", std::move(left), factor());
    } else {
      return left;
    }
  }
}

Expression ExpressionParser::factor() {
  NestingScope nesting(depth_, cursor_);
  count();
  Expression e = primary();
  while (cursor_.rest().starts_with('[')) {
    cursor_.advance(1);
    e = binary("element", std::move(e), sum());
    cursor_.expect("]", "behind the index");
  }
  return e;
}

Expression ExpressionParser::primary() {
  char next = cursor_.peek();
  Expression e{.position = cursor_.position()};
  if (next == '-' && !is_digit(cursor_.rest().size() > 1 ? cursor_.rest()[1] : '\0') &&
      !cursor_.rest().starts_with("-inf")) {
    cursor_.advance(1);
    std::vector<Expression> operands;
    operands.push_back(factor());
    return call_of("negative", std::move(operands));
  }
  if (next == '-' || is_digit(next)) {
    NumberToken number = cursor_.number("a number");
    if (number.is_integer()) {
      e.literal = cursor_.to_integer(number);
    } else {
      e.literal = cursor_.to_double(number);
    }
    return e;
  }
  if (next == '\'') {
    e.literal = text("a text");
    return e;
  }
  if (cursor_.accept("(")) {
    e = disjunction();
    cursor_.expect(")", "behind the expression");
    return e;
  }
  if (cursor_.accept("[")) {
    e.kind = Expression::Kind::List;
    if (!cursor_.accept("]")) {
      do {
        e.operands.push_back(sum());
      } while (cursor_.accept(","));
      cursor_.expect("]", "behind the list");
    }
    if (e.operands.empty()) {
      e.kind = Expression::Kind::Literal;
      e.literal = std::vector<int64_t>();
    }
    return e;
  }
  return named();
}

// A constant, a variable or a call.
Expression ExpressionParser::named() {
  size_t position = cursor_.position();
  std::string name = word("a value: a number, a variable, a function");
  Expression e{.position = position};
  if (auto constant = constant_word(name)) {
    e.literal = *constant;
    return e;
  }
  const Function* function = find_function(name);
  bool called = cursor_.rest().starts_with('(');
  if (!called && !(function && function->least == 0)) return variable_value(name, position);
  const NamedGuard* guard = find_guard(name);
  if (!function && !guard) unknown_function(name, position);
  std::vector<Expression> operands;
  if (called) {
    cursor_.expect("(", "before the arguments");
    if (!cursor_.accept(")")) {
      do {
        operands.push_back(disjunction());
      } while (cursor_.accept(","));
      cursor_.expect(")", "behind the arguments");
    }
  }
  int count = static_cast<int>(operands.size());
  if (guard) {
    if (operands.size() != guard->parameters.size()) {
      cursor_.fail_at(position, fmt::format("{} takes {} arguments, not {}", name, guard->parameters.size(), count));
    }
    return expand(*guard, std::move(operands));
  }
  if (count < function->least || (function->most >= 0 && count > function->most)) {
    cursor_.fail_at(position, fmt::format("{} takes {} arguments, not {}", name, function->least, count),
                    std::string(function->doc));
  }
  e = call_of(name, std::move(operands));
  e.position = position;
  return e;
}

const NamedGuard* ExpressionParser::find_guard(const std::string& name) const {
  auto found = guards_.find(name);
  return found == guards_.end() ? nullptr : &found->second;
}

void ExpressionParser::unknown_function(const std::string& name, size_t position) {
  std::vector<std::string> names;
  for (std::span<const Function> table :
       {functions_about_values(), functions_about_shapes(), functions_that_compute()}) {
    for (const Function& f : table) names.emplace_back(f.name);
  }
  for (const auto& [guard, text] : guards_) names.push_back(guard);
  std::string_view meant = nearest_name(name, names);
  cursor_.fail_at(position, fmt::format("there is no function {}", name),
                  meant.empty() ? "" : fmt::format("did you mean {}?", meant));
}

Expression ExpressionParser::variable_value(const std::string& name, size_t position) {
  if (in_named_guard_) {
    auto argument = arguments_.find(name);
    if (argument == arguments_.end()) cursor_.fail_at(position, fmt::format("{} is no parameter of the guard", name));
    count(parts_of(argument->second));
    return argument->second;
  }
  const Variable& known = find(name, position);
  Expression e{.position = position};
  e.slot = known.slot;
  switch (known.kind) {
    case Variable::Kind::Node: e.kind = Expression::Kind::Node; break;
    case Variable::Kind::Around: e.kind = Expression::Kind::Node; break;
    case Variable::Kind::List: e.kind = Expression::Kind::NodeList; break;
    case Variable::Kind::Quantity: e.kind = Expression::Kind::Quantity; break;
    default: cursor_.fail_at(position, fmt::format("{} is no value", name));
  }
  return e;
}

}  // namespace anfora::rewrite

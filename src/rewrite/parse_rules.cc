// A recursive descent over the text of a rule file. Names are resolved while they are read: a variable gets its slot where the
// pattern first has it; a name that a result or a guard has, and the pattern has not, is an error there.
#include "rewrite/parse_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "ir/lexical.h"
#include "ir/parse_cursor.h"
#include "rewrite/expression.h"
#include "rewrite/rule_text.h"
#include "support/nearest.h"

namespace anfora::rewrite {

using namespace ir;

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Letters, digits and _, as variables are called; a rule's own name may have hyphens as well.
size_t word_length(std::string_view text) {
  if (text.empty() || !is_letter(text[0])) return 0;
  size_t end = 1;
  while (end < text.size() && (is_letter(text[end]) || is_digit(text[end]))) ++end;
  return end;
}

// What a name of a pattern stands for.
struct Variable {
  enum class Kind : uint8_t { Node, List, Quantity, Operator, AttributeSet };
  Kind kind;
  int slot;
};

// Terms and expressions of one rule, with those of the guards that it names: what goes through a rule recurses as deep, and guards
// that name guards grow without end.
constexpr int kMostParts = 4096;

// A condition with a name: text, which is read anew at each use with the parameters standing for the arguments.
struct NamedGuard {
  std::vector<std::string> parameters;
  size_t from, end;  // of the text, in the file
};

class RuleParser {
 public:
  RuleParser(Context& context, std::string_view text, std::string_view file, OperatorClasses& classes,
             OperatorWeights& weights, std::deque<Equation>& equations, bool has_results = true)
      : context_(context),
        text_(text),
        file_(file),
        cursor_(text, file),
        classes_(classes),
        weights_(weights),
        equations_(equations),
        has_results_(has_results) {
    for (const Equation& equation : equations) names_.insert(equation.name);
  }

  // Statement by statement: a statement begins a line, and the lines after it that begin with a blank belong to it.
  void file() {
    size_t at = 0;
    while (true) {
      std::string doc = skip_comments(text_, at);
      if (at == text_.size()) return;
      size_t end = end_of_statement(text_, at);
      cursor_ = Cursor(text_.substr(0, end), file_);
      cursor_.rewind(at);
      parts_ = 0;
      if (accept_word("class")) {
        operator_class();
      } else if (accept_word("weight")) {
        weight();
      } else if (accept_word("guard")) {
        named_guard(end);
      } else {
        rule(std::move(doc));
      }
      if (!cursor_.at_end()) cursor_.fail_expected("the end of the statement");
      at = end;
    }
  }

 private:
  // Words -----------------------------------------------------------------------------------------------------
  std::string_view peek_word() {
    cursor_.skip_space();
    return cursor_.rest().substr(0, word_length(cursor_.rest()));
  }
  std::string word(std::string_view what) {
    std::string name(peek_word());
    if (name.empty()) cursor_.fail_expected(what);
    cursor_.advance(name.size());
    return name;
  }
  bool accept_word(std::string_view expected) {
    if (peek_word() != expected) return false;
    cursor_.advance(expected.size());
    return true;
  }
  // "Conv", "com.microsoft::FastGelu": what is before a bracket, and begins with a capital behind its domain.
  size_t operator_length() {
    cursor_.skip_space();
    std::string_view rest = cursor_.rest();
    size_t end = 0;
    while (end < rest.size() && (is_letter(rest[end]) || is_digit(rest[end]) || rest[end] == '.')) ++end;
    size_t name = 0;
    if (rest.substr(end).starts_with("::")) {
      name = end + 2;
      end = name + word_length(rest.substr(name));
    } else {
      end = word_length(rest);
    }
    return end > name && is_capital(rest[name]) ? end : 0;
  }
  const Operator* operator_name() {
    size_t length = operator_length(), position = cursor_.position();
    if (length == 0) cursor_.fail_expected("an operator");
    std::string name(cursor_.rest().substr(0, length));
    cursor_.advance(length);
    if (const Operator* found = context_.find_operator(name)) return found;
    std::vector<std::string> names;
    for (const Operator* op : context_.operators()) names.push_back(op->qualified);
    std::string_view meant = nearest_name(name, names);
    cursor_.fail_at(position, fmt::format("there is no operator {}", name),
                    meant.empty() ? "" : fmt::format("did you mean {}?", meant));
  }

  // Counts some more parts of the rule.
  void count(int parts = 1) {
    parts_ += parts;
    if (parts_ > kMostParts) cursor_.fail(fmt::format("a rule has at most {} terms and expressions", kMostParts));
  }
  static int parts_of(const Expression& e) {
    int parts = 1;
    for (const Expression& operand : e.operands) parts += parts_of(operand);
    return parts;
  }

  // Statements -----------------------------------------------------------------------------------------------
  void operator_class() {
    size_t position = (cursor_.skip_space(), cursor_.position());
    std::string name = word("the name of the class");
    if (classes_.contains(name)) cursor_.fail_at(position, fmt::format("there is a class {} already", name));
    cursor_.expect("=", "behind the name of the class");
    std::vector<const Operator*>& members = classes_[name];
    do {
      std::string_view other = peek_word();
      if (auto known = classes_.find(std::string(other)); known != classes_.end() && other != name) {
        cursor_.advance(other.size());
        std::vector<const Operator*> more = known->second;
        std::vector<const Operator*>& list = classes_[name];
        list.insert(list.end(), more.begin(), more.end());
      } else {
        members.push_back(operator_name());
      }
    } while (cursor_.accept(","));
  }

  void weight() {
    const Operator* op = operator_name();
    cursor_.expect("=", "behind the operator");
    weights_[op] = static_cast<int>(cursor_.integer("its weight"));
  }

  // guard NAME(a, b): condition
  void named_guard(size_t end) {
    size_t position = (cursor_.skip_space(), cursor_.position());
    std::string name = word("the name of the guard");
    if (guards_.contains(name) || find_function(name)) {
      cursor_.fail_at(position, fmt::format("there is a function or guard {} already", name));
    }
    NamedGuard guard{.end = end};
    cursor_.expect("(", "before the parameters");
    do {
      guard.parameters.push_back(word("a parameter"));
    } while (cursor_.accept(","));
    cursor_.expect(")", "behind the parameters");
    cursor_.expect(":", "before the condition");
    guard.from = cursor_.position();
    expand(guard, std::vector<Expression>(guard.parameters.size()));  // errors show here, not only where it is used
    cursor_.rewind(end);
    guards_.emplace(std::move(name), std::move(guard));
  }

  // The condition with arguments in the place of the parameters; one conjunct of a guard, as it is written as one.
  Expression expand(const NamedGuard& guard, std::vector<Expression> arguments) {
    boost::unordered_flat_map<std::string, Expression> bound;
    for (size_t i = 0; i < arguments.size(); ++i) bound.emplace(guard.parameters[i], std::move(arguments[i]));
    std::swap(bound, arguments_);
    const bool was_inside = std::exchange(in_named_guard_, true);
    Cursor outside = std::exchange(cursor_, Cursor(text_.substr(0, guard.end), file_));
    cursor_.rewind(guard.from);
    Expression whole{.kind = Expression::Kind::And, .position = outside.position()};
    whole.operands.push_back(disjunction());
    if (!cursor_.at_end()) cursor_.fail_expected("the end of the condition");
    cursor_ = outside;
    in_named_guard_ = was_inside;
    std::swap(bound, arguments_);
    return whole;
  }

  void rule(std::string doc) {
    variables_.clear();
    Equation equation;
    rule_ = &equation;
    size_t start = cursor_.position();
    equation.place = cursor_.place(start).substr(0, cursor_.place(start).rfind(':'));
    equation.name = context_.string(cursor_.identifier("the name of a rule"));
    if (!names_.insert(equation.name).second) {
      cursor_.fail_at(start, fmt::format("there is a rule {} already", equation.name));
    }
    equation.theme = std::filesystem::path(file_).stem().string();
    if (doc.empty())
      cursor_.fail_at(start, fmt::format("rule {} has no comment above it", equation.name),
                      "say the equation as a person would: # x · 1 = x");
    equation.doc = std::move(doc);
    cursor_.expect(":", "behind the name of the rule");
    in_pattern_ = true;
    equation.pattern = term();
    if (!is_application(equation.pattern)) {
      cursor_.fail_at(equation.pattern.position, "a pattern is an application of an operator");
    }
    in_pattern_ = false;
    if (!has_results_) {
      equations_.push_back(std::move(equation));
      return;
    }
    cursor_.expect("=>", "between pattern and result");
    do {
      equation.results.push_back(term());
    } while (cursor_.accept("|"));
    tag();
    size_t end = end_of_statement(text_, start);
    if (accept_word("if")) {
      size_t from = cursor_.position();
      equation.guard = disjunction();
      equation.guard_text = on_one_line(text_.substr(from, end - from));
    }
    equation.text = on_one_line(text_.substr(start, end - start));
    equations_.push_back(std::move(equation));
  }

  void tag() {
    cursor_.expect("[", "before what the rule promises");
    rule_->on_floats = rule_->on_others = promise();
    if (cursor_.accept("/")) rule_->on_others = promise();
    while (cursor_.accept(",")) {
      if (accept_word("cheaper")) {
        rule_->must_pay = true;
      } else if (accept_word("accurate")) {
        rule_->is_accurate = true;
      } else if (accept_word("ordered")) {
        rule_->order = text("the reason, in quotes");
      } else {
        cursor_.fail_expected("cheaper, accurate or ordered '…'");
      }
    }
    cursor_.expect("]", "behind what the rule promises");
  }

  Promise promise() {
    for (Promise p : {Promise::Exact, Promise::Finite, Promise::Real}) {
      if (accept_word(to_string(p))) return p;
    }
    cursor_.fail_expected("exact, finite or real");
  }

  std::string text(std::string_view what) {
    cursor_.skip_space();
    if (!cursor_.accept("'")) cursor_.fail_expected(what);
    size_t end = cursor_.rest().find('\'');
    if (end == std::string_view::npos) cursor_.fail("the quote does not end");
    std::string inside(cursor_.rest().substr(0, end));
    cursor_.advance(end + 1);
    return inside;
  }

  // Terms -------------------------------------------------------------------------------------------------------
  static bool is_application(const Term& t) {
    if (t.kind == Term::Kind::Either) return std::ranges::all_of(t.operands, is_application);
    return t.kind == Term::Kind::Apply || t.kind == Term::Kind::Item;
  }

  Term term() {
    NestingScope nesting(depth_, cursor_);
    cursor_.skip_space();
    size_t position = cursor_.position();
    Term t = simple_term();
    t.position = position;
    count();
    while (cursor_.rest().starts_with('.') && cursor_.rest().size() > 1 && is_digit(cursor_.rest()[1])) {
      count();
      cursor_.advance(1);
      Term item{.kind = Term::Kind::Item, .position = position};
      item.index = cursor_.integer("the number of a result");
      item.operators = {&context_.primitive(Primitive::TupleGetItem)};
      item.operands.push_back(std::move(t));
      t = std::move(item);
    }
    return t;
  }

  Term simple_term() {
    char next = cursor_.peek();
    if (next == '~' || next == '-' || is_digit(next)) return number();
    if (accept_word("true")) return {.kind = Term::Kind::Number, .number = 1};
    if (accept_word("false")) return {.kind = Term::Kind::Number, .number = 0};
    if (accept_word("inf")) {
      return {.kind = Term::Kind::Number, .number = std::numeric_limits<double>::infinity()};
    }
    if (accept_word("none")) return {.kind = Term::Kind::None};
    if (next == '[') return computed();
    if (next == '(' && in_pattern_) return either();
    std::string_view name = peek_word();
    if (name == "_") {
      cursor_.advance(1);
      Term t{.kind = Term::Kind::Wildcard};
      t.optional = cursor_.rest().starts_with('?') && cursor_.accept("?");
      return t;
    }
    if (name.empty()) cursor_.fail_expected("a term: an operator, a variable, a number");
    std::string_view behind = cursor_.rest().substr(name.size());
    if (behind.starts_with(':') && !behind.starts_with("::")) return is_capital(name[0]) ? class_term() : named_term();
    if (operator_length() > 0) return application();
    if (!in_pattern_ && behind.starts_with('(')) return computed();
    return variable();
  }

  // (s | t | …): each choice binds the same variables, so that those of the result have values whichever it is.
  Term either() {
    Term t{.kind = Term::Kind::Either};
    cursor_.expect("(", "before the choices");
    auto known = variables_;
    auto outer = std::exchange(mentioned_, {});
    std::optional<std::set<std::string>> first;
    do {
      size_t position = cursor_.position();
      mentioned_.clear();
      t.operands.push_back(term());
      std::set<std::string> fresh;
      for (const std::string& name : mentioned_) {
        outer.insert(name);
        if (!known.contains(name)) fresh.insert(name);
      }
      if (!first) first = fresh;
      if (fresh != *first) cursor_.fail_at(position, "the choices do not bind the same variables");
    } while (cursor_.accept("|"));
    cursor_.expect(")", "behind the choices");
    mentioned_ = std::move(outer);
    return t;
  }

  Term number() {
    Term t{.kind = Term::Kind::Number};
    t.approximate = cursor_.accept("~");
    t.number = cursor_.to_double(cursor_.number("a number"));
    return t;
  }

  Term computed() {
    Term t{.kind = Term::Kind::Computed};
    if (in_pattern_)
      cursor_.fail("a pattern has no computed values", "compare in the guard: … if elements(s) == [0, 1]");
    t.value = sum();
    return t;
  }

  Term variable() {
    size_t position = cursor_.position();
    std::string name = word("a variable");
    Term t{.kind = Term::Kind::Variable, .position = position};
    t.optional = cursor_.rest().starts_with('?') && cursor_.accept("?");
    bool in_list = repeated_ > 0 || is_repeated_here();
    if (in_pattern_) {
      t.slot = declare(name, in_list ? Variable::Kind::List : Variable::Kind::Node, position);
      t.in_list = in_list;
      return t;
    }
    const Variable& known = find(name, position);
    if (known.kind != Variable::Kind::Node && known.kind != Variable::Kind::List) {
      cursor_.fail_at(position, fmt::format("{} is no value of the graph", name));
    }
    t.slot = known.slot;
    t.in_list = known.kind == Variable::Kind::List;
    if (t.in_list && !in_list)
      cursor_.fail_at(position, fmt::format("{} stands for several operands", name), fmt::format("write {}...", name));
    return t;
  }
  bool is_repeated_here() { return cursor_.rest().starts_with("..."); }

  Term named_term() {
    size_t position = cursor_.position();
    std::string name = word("a name");
    cursor_.expect(":", "behind the name");
    if (!in_pattern_) cursor_.fail_at(position, "only applications of the pattern have names");
    if (repeated_ > 0) cursor_.fail_at(position, "an application that repeats has no name");
    std::string_view op = peek_word(), behind = cursor_.rest().substr(op.size());
    Term t = behind.starts_with(':') && !behind.starts_with("::") ? class_term() : application();
    t.slot = declare(name, Variable::Kind::Node, position);
    return t;
  }

  Term class_term() {
    size_t position = cursor_.position();
    std::string name = word("a name");
    cursor_.expect(":", "behind the name");
    size_t class_position = cursor_.position();
    std::string class_name = word("the name of a class");
    auto known = classes_.find(class_name);
    if (known == classes_.end()) cursor_.fail_at(class_position, fmt::format("there is no class {}", class_name));
    if (!in_pattern_) cursor_.fail_at(position, "a result has the operator's variable alone: F(x)");
    Term t{.kind = Term::Kind::Apply};
    t.operators = known->second;
    t.operator_slot = declare(name, Variable::Kind::Operator, position);
    arguments(t);
    return t;
  }

  Term application() {
    Term t{.kind = Term::Kind::Apply};
    auto known = variables_.find(std::string(peek_word()));
    if (known != variables_.end() && known->second.kind == Variable::Kind::Operator) {
      cursor_.advance(peek_word().size());
      t.operator_slot = known->second.slot;
      if (in_pattern_) cursor_.fail("an operator's variable names its class at every place: F:unary(x)");
    } else {
      t.operators = {operator_name()};
    }
    arguments(t);
    return t;
  }

  void arguments(Term& t) {
    if (cursor_.rest().starts_with('*')) {
      cursor_.advance(1);
      t.flattened = true;
      for (const Operator* op : t.operators) {
        if (!op->associative) cursor_.fail(fmt::format("{} is not associative", op->name));
      }
    }
    if (cursor_.accept("{")) attributes(t);
    cursor_.expect("(", "before the operands");
    if (cursor_.accept(")")) return;
    do {
      t.operands.push_back(operand());
    } while (cursor_.accept(","));
    cursor_.expect(")", "behind the operands");
    check_operands(t);
  }

  // A term, perhaps with "..." behind it: what is in front of it must know that it repeats.
  Term operand() {
    cursor_.skip_space();
    bool repeats = repeats_at(cursor_.position());
    repeated_ += repeats ? 1 : 0;
    Term t = term();
    repeated_ -= repeats ? 1 : 0;
    t.repeated = cursor_.accept("...");
    return t;
  }

  // Whether the operand that begins here ends in "...".
  bool repeats_at(size_t position) const {
    int depth = 0;
    for (size_t i = position; i < text_.size(); ++i) {
      char c = text_[i];
      if (c == '#') return false;
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
      if (depth < 0 || (depth == 0 && c == ',')) return false;
      if (depth == 0 && text_.substr(i).starts_with("...")) return true;
    }
    return false;
  }

  void check_operands(const Term& t) {
    for (const Operator* op : t.operators) {
      bool variadic = !op->inputs.empty() && op->inputs.back().arity == Formal::Arity::Variadic;
      bool declared = op->known && op->primitive == Primitive::Operation;
      if (!variadic && !t.flattened && declared && t.operands.size() > op->inputs.size()) {
        cursor_.fail(fmt::format("{} takes {} operands, not {}", op->name, op->inputs.size(), t.operands.size()));
      }
    }
    for (size_t i = 0; i < t.operands.size(); ++i) {
      if (!in_pattern_ || !t.operands[i].repeated) continue;
      if (t.flattened && i + 1 < t.operands.size()) {
        cursor_.fail("the operands that are left come last", "Add*(x, Neg(x), rest...)");
      }
    }
  }

  // Attributes --------------------------------------------------------------------------------------------------
  void attributes(Term& t) {
    if (cursor_.accept("}")) return;
    do {
      if (cursor_.accept("..")) {
        size_t position = cursor_.position();
        std::string name = word("a name for the other attributes");
        t.rest = in_pattern_ ? declare(name, Variable::Kind::AttributeSet, position) : find(name, position).slot;
      } else {
        t.attributes.push_back(attribute(t));
      }
    } while (cursor_.accept(","));
    cursor_.expect("}", "behind the attributes");
  }

  AttributeTerm attribute(const Term& t) {
    size_t position = (cursor_.skip_space(), cursor_.position());
    AttributeTerm a;
    a.name = word("the name of an attribute");
    for (const Operator* op : t.operators) {
      if (op->known && !op->find_attribute(a.name)) {
        std::vector<std::string> names;
        for (const AttributeDeclaration& declared : op->attributes) names.push_back(declared.name);
        std::string_view meant = nearest_name(a.name, names);
        cursor_.fail_at(position, fmt::format("{} has no attribute {}", op->name, a.name),
                        meant.empty() ? "" : fmt::format("did you mean {}?", meant));
      }
    }
    cursor_.expect("=", "behind the attribute's name");
    std::string name(peek_word());
    char behind = cursor_.rest().substr(name.size()).empty() ? '\0' : cursor_.rest()[name.size()];
    bool plain = !name.empty() && (behind == ',' || behind == '}' || behind == ' ') && !constant_word(name);
    if (in_pattern_ && plain) {
      size_t at = cursor_.position();
      cursor_.advance(name.size());
      a.binds = declare(name, Variable::Kind::Quantity, at);
    } else {
      a.value = sum();
    }
    return a;
  }

  // Variables ------------------------------------------------------------------------------------------------------
  int declare(const std::string& name, Variable::Kind kind, size_t position) {
    if (is_reserved_word(name)) cursor_.fail_at(position, fmt::format("{} cannot be a variable", name));
    mentioned_.insert(name);
    auto known = variables_.find(name);
    if (known != variables_.end()) {
      if (known->second.kind != kind) {
        cursor_.fail_at(position, fmt::format("{} stands for something else already", name));
      }
      return known->second.slot;
    }
    SlotCounts& slots = rule_->slots;
    int& count = kind == Variable::Kind::Node       ? slots.nodes
                 : kind == Variable::Kind::List     ? slots.lists
                 : kind == Variable::Kind::Quantity ? slots.quantities
                 : kind == Variable::Kind::Operator ? slots.operators
                                                    : slots.attribute_sets;
    if (kind == Variable::Kind::Node) rule_->variables.push_back(name);
    variables_[name] = {kind, count};
    return count++;
  }

  const Variable& find(const std::string& name, size_t position) {
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
  static bool is_reserved_word(std::string_view word) {
    return word == "if" || word == "and" || word == "or" || word == "not" || word == "in" || word == "true" ||
           word == "false" || word == "none" || word == "inf" || word == "class" || word == "weight";
  }

  static std::optional<Quantity> constant_word(std::string_view word) {
    if (word == "true") return true;
    if (word == "false") return false;
    if (word == "inf") return std::numeric_limits<double>::infinity();
    if (auto type = dtype_from_name(word)) return static_cast<int64_t>(*type);
    return std::nullopt;
  }

  Expression connective(Expression::Kind kind, std::string_view word, Expression (RuleParser::*next)()) {
    Expression first = (this->*next)();
    if (peek_word() != word) return first;
    Expression all{.kind = kind, .position = first.position};
    all.operands.push_back(std::move(first));
    while (accept_word(word)) all.operands.push_back((this->*next)());
    return all;
  }
  Expression disjunction() { return connective(Expression::Kind::Or, "or", &RuleParser::conjunction); }
  Expression conjunction() { return connective(Expression::Kind::And, "and", &RuleParser::negation); }
  Expression negation() {
    if (!accept_word("not")) return comparison();
    NestingScope nesting(depth_, cursor_);
    count();
    Expression e{.kind = Expression::Kind::Not, .position = cursor_.position()};
    e.operands.push_back(negation());
    return e;
  }

  Expression call_of(std::string_view function, std::vector<Expression> operands) {
    Expression e{.kind = Expression::Kind::Call,
                 .position = operands.empty() ? cursor_.position() : operands[0].position};
    count();
    e.function = find_function(function);
    e.operands = std::move(operands);
    return e;
  }
  Expression binary(std::string_view function, Expression left, Expression right) {
    std::vector<Expression> operands;
    operands.push_back(std::move(left));
    operands.push_back(std::move(right));
    return call_of(function, std::move(operands));
  }

  Expression comparison() {
    Expression left = sum();
    for (std::string_view symbol : {"==", "!=", "<=", ">=", "<", ">"}) {
      cursor_.skip_space();
      if (cursor_.rest().starts_with("=>")) break;
      if (cursor_.accept(symbol)) return binary(symbol, std::move(left), sum());
    }
    if (accept_word("in")) return binary("in", std::move(left), sum());
    return left;
  }

  Expression sum() {
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

  Expression product() {
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

  Expression factor() {
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

  Expression primary() {
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
  Expression named() {
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

  const NamedGuard* find_guard(const std::string& name) const {
    auto found = guards_.find(name);
    return found == guards_.end() ? nullptr : &found->second;
  }

  [[noreturn]] void unknown_function(const std::string& name, size_t position) {
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

  Expression variable_value(const std::string& name, size_t position) {
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
      case Variable::Kind::List: e.kind = Expression::Kind::NodeList; break;
      case Variable::Kind::Quantity: e.kind = Expression::Kind::Quantity; break;
      default: cursor_.fail_at(position, fmt::format("{} is no value", name));
    }
    return e;
  }

  Context& context_;
  std::string_view text_, file_;
  Cursor cursor_;
  OperatorClasses& classes_;
  OperatorWeights& weights_;
  std::deque<Equation>& equations_;
  const bool has_results_;  // false: what is read are patterns
  Equation* rule_ = nullptr;
  boost::unordered_flat_map<std::string, Variable> variables_;
  std::map<std::string, NamedGuard> guards_;                      // of this file
  boost::unordered_flat_map<std::string, Expression> arguments_;  // of the named guard that is being read, by parameter
  bool in_named_guard_ = false;
  std::set<std::string> mentioned_;  // variables, since the choice began that is being read
  bool in_pattern_ = true;
  int parts_ = 0;
  std::set<std::string_view> names_;  // of all rules
  int repeated_ = 0;                  // how many terms around this place repeat
  int depth_ = 0;
};

}  // namespace

void parse_rules(Context& context, std::string_view text, std::string_view file, OperatorClasses& classes,
                 OperatorWeights& weights, std::deque<Equation>& equations) {
  RuleParser(context, text, file, classes, weights, equations).file();
}

void parse_patterns(Context& context, std::string_view text, std::string_view file, std::deque<Equation>& patterns) {
  OperatorClasses classes;
  OperatorWeights weights;
  RuleParser(context, text, file, classes, weights, patterns, /*has_results=*/false).file();
}

}  // namespace anfora::rewrite

// A recursive descent over the text of a rule file. Names are resolved while they are read: a variable gets its slot where the
// pattern first has it; a name that a result or a guard has, and the pattern has not, is an error there.
#include "rewrite/parse_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "rewrite/parse_expressions.h"
#include "rewrite/rule_text.h"
#include "support/nearest.h"

namespace anfora::rewrite {

using namespace ir;

namespace {

constexpr std::string_view kFolded = "folded", kAnyResults = ":_";

// A pattern with a name, or a term of results: text, too. Its other names are its own.
struct NamedTerm {
  std::vector<std::string> parameters;
  size_t from, end;
};

class RuleParser : ExpressionParser {
 public:
  RuleParser(Context& context, std::string_view text, std::string_view file, OperatorClasses& classes,
             OperatorWeights& weights, std::deque<Equation>& equations, bool has_results = true)
      : ExpressionParser(text, file),
        context_(context),
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
        named_guard(end, true);
      } else if (accept_word("value")) {
        named_guard(end, false);
      } else if (accept_word("pattern")) {
        named_pattern(end);
      } else if (accept_word("term")) {
        named_result(end);
      } else {
        rule(std::move(doc));
      }
      if (!cursor_.at_end()) cursor_.fail_expected("the end of the statement");
      at = end;
    }
  }

 private:
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

  static int parts_of(const Term& t) {
    int parts = 1;
    for (const Term& operand : t.operands) parts += parts_of(operand);
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

  // pattern NAME(x, y) = term | term
  void named_pattern(size_t end) {
    size_t position = (cursor_.skip_space(), cursor_.position());
    std::string name = word("the name of the pattern");
    if (patterns_.contains(name)) cursor_.fail_at(position, fmt::format("there is a pattern {} already", name));
    NamedTerm pattern{.parameters = parameters(), .end = end};
    cursor_.expect("=", "before the pattern");
    pattern.from = cursor_.position();
    Equation unused;  // errors show here, not only where it is used
    rule_ = &unused;
    in_pattern_ = true;
    std::vector<PatternArgument> arguments;
    for (size_t i = 0; i < pattern.parameters.size(); ++i)
      arguments.push_back({{.kind = Term::Kind::Variable, .slot = anonymous()}, true});
    expand(pattern, std::move(arguments));
    in_pattern_ = false;
    cursor_.rewind(end);
    patterns_.emplace(std::move(name), std::move(pattern));
  }

  // term NAME(x, V) = term, which is read where it is used.
  void named_result(size_t end) {
    const size_t position = (cursor_.skip_space(), cursor_.position());
    std::string name = word("the name of the term");
    if (results_.contains(name) || find_function(name))
      cursor_.fail_at(position, fmt::format("there is a term or function {} already", name));
    NamedTerm result{.parameters = parameters(), .end = end};
    cursor_.expect("=", "before the term");
    result.from = cursor_.position();
    cursor_.rewind(end);
    results_.emplace(std::move(name), std::move(result));
  }

  // NAME(x, V): the term with what variables stand for in the place of its parameters.
  Term named_result_term(const NamedTerm& result) {
    NestingScope nesting(depth_, cursor_);
    const size_t position = cursor_.position();
    cursor_.advance(peek_word().size());
    boost::unordered_flat_map<std::string, Variable> arguments;
    cursor_.expect("(", "before the arguments");
    for (const std::string& parameter : result.parameters) {
      if (!arguments.empty()) cursor_.expect(",", "before the next argument");
      const size_t at = (cursor_.skip_space(), cursor_.position());
      arguments.emplace(parameter, find(word("a variable"), at));
    }
    cursor_.expect(")", "behind the arguments");
    std::swap(arguments, variables_);
    Cursor outside = std::exchange(cursor_, Cursor(text_.substr(0, result.end), file_));
    cursor_.rewind(result.from);
    Term t = term();
    if (!cursor_.at_end()) cursor_.fail_expected("the end of the term");
    cursor_ = outside;
    std::swap(arguments, variables_);
    t.position = position;
    return t;
  }

  // What stands for a parameter of a named pattern.
  struct PatternArgument {
    Term term;
    bool may_be_unbound;  // x?, or no new variable
  };

  std::vector<PatternArgument> pattern_arguments() {
    std::vector<PatternArgument> arguments;
    cursor_.expect("(", "before the arguments");
    do {
      const size_t known = variables_.size();
      const auto outer = pattern_arguments_.find(std::string(peek_word()));
      PatternArgument argument{term(), outer == pattern_arguments_.end() || outer->second.may_be_unbound};
      const bool is_optional = argument.term.kind == Term::Kind::Variable && argument.term.optional;
      if (known < variables_.size() && !is_optional) argument.may_be_unbound = false;
      argument.term.optional = false;  // an alternative that has it has an operand there
      arguments.push_back(std::move(argument));
    } while (cursor_.accept(","));
    cursor_.expect(")", "behind the arguments");
    return arguments;
  }

  // NAME(s, t): one of its alternatives with the arguments in the place of the parameters. `around`: gets what is around the first.
  Term named_pattern_term(Variable* around = nullptr) {
    const size_t position = cursor_.position();
    const std::string name = word("the name of a pattern");
    auto found = patterns_.find(name);
    if (found == patterns_.end()) {
      std::vector<std::string> names;
      for (const auto& [pattern, text] : patterns_) names.push_back(pattern);
      std::string_view meant = nearest_name(name, names);
      cursor_.fail_at(position, fmt::format("there is no pattern {}", name),
                      meant.empty() ? "" : fmt::format("did you mean {}?", meant));
    }
    std::vector<PatternArgument> arguments = pattern_arguments();
    const NamedTerm& pattern = found->second;
    if (arguments.size() != pattern.parameters.size()) {
      cursor_.fail_at(position,
                      fmt::format("{} takes {} arguments, not {}", name, pattern.parameters.size(), arguments.size()));
    }
    if (!around) return expand(pattern, std::move(arguments));
    *around = {.kind = Variable::Kind::Around, .slot = anonymous(), .inside = name_inside(arguments[0].term)};
    Term t = expand(pattern, std::move(arguments));
    name_around(t, *around);
    return t;
  }

  Term expand(const NamedTerm& pattern, std::vector<PatternArgument> given) {
    NestingScope nesting(depth_, cursor_);
    const size_t position = cursor_.position();
    boost::unordered_flat_map<std::string, PatternArgument> arguments;
    for (size_t i = 0; i < given.size(); ++i) arguments.emplace(pattern.parameters[i], std::move(given[i]));
    std::swap(arguments, pattern_arguments_);
    auto outer = std::exchange(variables_, {});
    auto outer_mentioned = std::exchange(mentioned_, {});
    Cursor outside = std::exchange(cursor_, Cursor(text_.substr(0, pattern.end), file_));
    cursor_.rewind(pattern.from);
    Term t{.kind = Term::Kind::Either, .position = position};
    do {
      const size_t at = cursor_.position();
      mentioned_.clear();
      t.operands.push_back(term());
      for (const auto& [parameter, argument] : pattern_arguments_) {
        if (mentioned_.contains(parameter) || argument.may_be_unbound) continue;
        cursor_.fail_at(at, fmt::format("{} is not in each alternative", parameter),
                        "what not all of them bind is optional where the pattern is used: x?");
      }
    } while (cursor_.accept("|"));
    if (!cursor_.at_end()) cursor_.fail_expected("the end of the pattern");
    cursor_ = outside;
    mentioned_ = std::move(outer_mentioned);
    variables_ = std::move(outer);
    std::swap(arguments, pattern_arguments_);
    if (t.operands.size() > 1) return t;
    Term only = std::move(t.operands[0]);
    return only;
  }

  // The node that a term matches gets a name, whichever of its alternatives it is.
  void set_name(Term& t, int slot, size_t position) {
    if (t.kind == Term::Kind::Either) {
      for (Term& choice : t.operands) set_name(choice, slot, position);
      return;
    }
    if (t.kind != Term::Kind::Apply && t.kind != Term::Kind::Item)
      cursor_.fail_at(position, "only applications have names");
    if (t.slot >= 0) cursor_.fail_at(position, "what it names has a name already");
    t.slot = slot;
  }

  // A slot of nodes without a name.
  int anonymous() {
    rule_->variables.emplace_back();
    return rule_->slots.nodes++;
  }

  // V:NAME(t, …): V stands for what the pattern has around its first argument.
  int name_inside(Term& t) {
    if (const auto given = name_of(t)) return *given;
    const int slot = anonymous();
    set_name(t, slot, t.position);
    return slot;
  }
  // The slot of what a term matches, whichever of its alternatives it is; empty: it has none, or several.
  static std::optional<int> name_of(const Term& t) {
    if (t.kind == Term::Kind::Either) {
      const auto first = name_of(t.operands[0]);
      auto is_first = [&](const Term& choice) { return name_of(choice) == first; };
      return std::ranges::all_of(t.operands, is_first) ? first : std::nullopt;
    }
    const bool has_slot = t.slot >= 0 && !t.in_list && t.kind != Term::Kind::Either;
    return has_slot ? std::optional(t.slot) : std::nullopt;
  }
  void name_around(Term& t, const Variable& around) {
    if (t.kind == Term::Kind::Either) {
      for (Term& choice : t.operands) name_around(choice, around);
    } else if (t.slot != around.inside) {
      set_name(t, around.slot, t.position);
    }
  }

  void rule(std::string doc) {
    variables_.clear();
    optional_.clear();
    Equation equation;
    rule_ = &equation;
    size_t start = cursor_.position();
    equation.place = fmt::format("{}:{}", file_, line_of(start));
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
    const bool is_group = accept_word("all");
    equation.pattern = term();
    if (!is_application(equation.pattern)) {
      cursor_.fail_at(equation.pattern.position, "a pattern is an application of an operator");
    }
    in_pattern_ = false;
    if (is_group) group(equation);
    if (!has_results_) {
      equations_.push_back(std::move(equation));
      return;
    }
    cursor_.expect("=>", "between pattern and result");
    do {
      equation.results.push_back(term());
      if (is_group && equation.results.back().kind != Term::Kind::Apply)
        cursor_.fail_at(equation.results.back().position, "a group becomes the results of one application");
      equation.results.back().is_of_group = is_group;
    } while (cursor_.accept("|"));
    while (cursor_.accept(",")) also_replaced(equation);
    tag();
    size_t end = end_of_statement(text_, start);
    count_results(equation);
    if (accept_word("if")) {
      size_t from = cursor_.position();
      equation.guard = disjunction();
      equation.guard_text = on_one_line(text_.substr(from, end - from));
    }
    equation.text = on_one_line(text_.substr(start, end - start));
    equations_.push_back(std::move(equation));
  }

  // of x by KEY, … where CONDITION. Behind it, other names of nodes stand for the lists of what all members of the group have there.
  void group(Equation& equation) {
    Equation::Group group;
    if (!accept_word("of")) cursor_.fail_expected("of: what all have as an operand");
    const size_t position = (cursor_.skip_space(), cursor_.position());
    const std::string shared = word("a variable");
    const Variable through = find(shared, position);
    group.through = through.slot;
    group.depth = depth_of(equation.pattern, through.slot);
    if (through.kind != Variable::Kind::Node || group.depth < 1)
      cursor_.fail_at(position, "a group is found through an operand");
    if (accept_word("by")) {
      do {
        group.keys.push_back(sum());
      } while (cursor_.accept(","));
    }
    if (accept_word("where")) group.condition = disjunction();
    for (int slot = 0; slot < equation.slots.nodes; ++slot) {
      const std::string& name = equation.variables[static_cast<size_t>(slot)];
      if (slot == group.through || name.empty()) continue;
      variables_[name] = {Variable::Kind::List, equation.slots.lists};
      group.lists.emplace_back(slot, equation.slots.lists++);
    }
    equation.group = std::move(group);
  }
  // How many applications a variable is below a term; 0: it is not there.
  static int depth_of(const Term& t, int slot) {
    for (const Term& operand : t.operands) {
      const bool is_it = operand.kind == Term::Kind::Variable && !operand.in_list && operand.slot == slot;
      if (const int below = is_it ? 0 : depth_of(operand, slot); is_it || below > 0) return below + 1;
    }
    return 0;
  }

  // Of a statement; called for one after the other, so that a text is counted once.
  size_t line_of(size_t position) {
    line_ += static_cast<size_t>(std::ranges::count(text_.substr(counted_, position - counted_), '\n'));
    counted_ = position;
    return line_;
  }

  // K => term: what an application that the pattern names becomes together with the root.
  void also_replaced(Equation& equation) {
    const size_t position = (cursor_.skip_space(), cursor_.position());
    if (equation.results.size() > 1) cursor_.fail("a rule that replaces several has one result for each");
    const Variable& replaced = find(word("what is replaced as well"), position);
    if (replaced.kind != Variable::Kind::Node || replaced.is_of_result)
      cursor_.fail_at(position, "what is replaced is an application that the pattern names");
    const int slot = replaced.slot;
    cursor_.expect("=>", "behind what is replaced");
    equation.also.push_back({slot, cursor_.peek() == '(' ? tuple() : term()});
  }

  // (t, u, …): each result of what is replaced.
  Term tuple() {
    Term t{.kind = Term::Kind::Tuple, .position = cursor_.position()};
    cursor_.expect("(", "before the results");
    do {
      t.operands.push_back(term());
    } while (cursor_.accept(","));
    cursor_.expect(")", "behind the results");
    return t;
  }

  // An application that a result names has as many results as the rule asks for.
  static void count_results(Equation& equation) {
    boost::unordered_flat_map<int, size_t> asked;
    auto visit = [&](auto&& self, Term& t) -> void {
      if (t.kind == Term::Kind::Tuple) return;  // of as many results as there are in the pattern
      if (t.kind == Term::Kind::Item && t.operands[0].slot >= 0) {
        size_t& most = asked[t.operands[0].slot];
        most = std::max(most, static_cast<size_t>(t.index) + 1);
      }
      if (auto known = asked.find(t.slot); t.kind == Term::Kind::Apply && known != asked.end())
        t.num_results = known->second;
      for (Term& operand : t.operands) self(self, operand);
    };
    for (int pass = 0; pass < 2; ++pass) {  // names first come with applications, and are asked for behind them
      for (Term& result : equation.results) visit(visit, result);
      for (Equation::Replaced& replaced : equation.also) visit(visit, replaced.result);
    }
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
      } else if (accept_word("kinks")) {
        rule_->moves_kinks = true;
      } else if (accept_word("numbers")) {
        rule_->takes_numbers = true;
      } else if (accept_word("sharpens")) {
        rule_->sharpens = true;
      } else if (accept_word("ordered")) {
        rule_->order = text("the reason, in quotes");
      } else {
        cursor_.fail_expected("cheaper, accurate, kinks, numbers, sharpens or ordered '…'");
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
    if (is_capital(name[0]) && has_any_results(behind)) return application();
    if (behind.starts_with(':') && !behind.starts_with("::")) return is_capital(name[0]) ? class_term() : named_term();
    if (operator_length() > 0) return application();
    if (behind.starts_with('[') && !in_pattern_) return computed();
    if (behind.starts_with('(') && !in_pattern_) {
      if (name == kFolded) return folded();
      if (auto known = results_.find(std::string(name)); known != results_.end())
        return named_result_term(known->second);
    }
    if (behind.starts_with('(')) return in_pattern_ ? named_pattern_term() : computed();
    return variable();
  }

  // F:_(…)
  static bool has_any_results(std::string_view behind) {
    return behind.starts_with(kAnyResults) &&
           (behind.size() == kAnyResults.size() || !is_letter(behind[kAnyResults.size()]));
  }

  // (s | t | …): each choice binds the same variables but for optional ones, so that those of the result have values whichever it is.
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
      std::set<std::string> unlike;
      std::ranges::set_symmetric_difference(fresh, *first, std::inserter(unlike, unlike.end()));
      if (!std::ranges::all_of(unlike, [&](const std::string& variable) { return optional_.contains(variable); }))
        cursor_.fail_at(position, "the choices do not bind the same variables",
                        "what not all of them bind is optional: x?");
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

  // folded(term, dtype)
  Term folded() {
    if (is_folded_) cursor_.fail("what is folded is folded as a whole");
    Term t{.kind = Term::Kind::Folded};
    cursor_.advance(kFolded.size());
    cursor_.expect("(", "before what is folded");
    is_folded_ = true;
    t.operands.push_back(term());
    is_folded_ = false;
    cursor_.expect(",", "before the element type");
    t.value = sum();
    cursor_.expect(")", "behind the element type");
    return t;
  }

  Term variable() {
    size_t position = cursor_.position();
    std::string name = word("a variable");
    if (auto argument = pattern_arguments_.find(name); in_pattern_ && argument != pattern_arguments_.end()) {
      mentioned_.insert(name);
      count(parts_of(argument->second.term));
      return argument->second.term;
    }
    Term t{.kind = Term::Kind::Variable, .position = position};
    t.optional = cursor_.rest().starts_with('?') && cursor_.accept("?");
    if (t.optional) optional_.insert(name);
    bool in_list = repeated_ > 0 || is_repeated_here();
    if (in_pattern_) {
      t.slot = declare(name, in_list ? Variable::Kind::List : Variable::Kind::Node, position);
      t.in_list = in_list;
      return t;
    }
    const Variable& known = find(name, position);
    if (known.kind == Variable::Kind::Quantity && is_folded_) {
      t.kind = Term::Kind::Computed;
      t.value = variable_value(name, position);
      return t;
    }
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
    if (repeated_ > 0) cursor_.fail_at(position, "an application that repeats has no name");
    if (is_folded_) cursor_.fail_at(position, "what is folded has no name");
    if (!in_pattern_ && variables_.contains(name)) {
      cursor_.fail_at(position, fmt::format("{} stands for something else already", name));
    }
    std::string_view op = peek_word(), behind = cursor_.rest().substr(op.size());
    const bool is_class = behind.starts_with(':') && !behind.starts_with("::") && !has_any_results(behind);
    const auto result = in_pattern_ ? results_.end() : results_.find(std::string(op));
    Term t = is_class                                ? class_term()
             : result != results_.end()              ? named_result_term(result->second)
             : operator_length() > 0 || !in_pattern_ ? application()
                                                     : named_pattern_term();
    set_name(t, slot_of_name(name, position), position);
    return t;
  }
  int slot_of_name(const std::string& name, size_t position) {
    auto argument = pattern_arguments_.find(name);
    if (in_pattern_ && argument != pattern_arguments_.end()) {
      if (argument->second.term.kind != Term::Kind::Variable)
        cursor_.fail_at(position, fmt::format("{} is no name", name));
      mentioned_.insert(name);
      return argument->second.term.slot;
    }
    const int slot = declare(name, Variable::Kind::Node, position);
    variables_[name].is_of_result = !in_pattern_;
    return slot;
  }

  Term class_term() {
    size_t position = cursor_.position();
    std::string name = word("a name");
    cursor_.expect(":", "behind the name");
    size_t class_position = cursor_.position();
    std::string class_name = word("the name of a class");
    if (!in_pattern_) cursor_.fail_at(position, "a result has the operator's variable alone: F(x)");
    if (patterns_.contains(class_name)) {
      if (variables_.contains(name))
        cursor_.fail_at(position, fmt::format("{} stands for something else already", name));
      cursor_.rewind(class_position);
      Variable around;
      Term t = named_pattern_term(&around);
      variables_[name] = around;
      return t;
    }
    auto known = classes_.find(class_name);
    if (known == classes_.end())
      cursor_.fail_at(class_position, fmt::format("there is no class or pattern {}", class_name));
    Term t{.kind = Term::Kind::Apply};
    t.operators = known->second;
    t.operator_slot = declare(name, Variable::Kind::Operator, position);
    arguments(t);
    return t;
  }

  Term application() {
    Term t{.kind = Term::Kind::Apply};
    auto known = variables_.find(std::string(peek_word()));
    if (known != variables_.end() && known->second.kind == Variable::Kind::Around && !in_pattern_) {
      cursor_.advance(peek_word().size());
      t.kind = Term::Kind::Around;
      t.slot = known->second.slot;
      t.inside = known->second.inside;
      cursor_.expect("(", "before what it is around");
      t.operands.push_back(term());
      cursor_.expect(")", "behind what it is around");
      return t;
    }
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
    t.any_results = cursor_.accept(kAnyResults);
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
    if (t.repeated && is_folded_) cursor_.fail("what is folded has no lists");
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
    const auto single = std::ranges::count_if(t.operands, [](const Term& operand) { return !operand.repeated; });
    for (const Operator* op : t.operators) {
      bool variadic = !op->inputs.empty() && op->inputs.back().arity == Formal::Arity::Variadic;
      bool declared = op->known && op->primitive == Primitive::Operation;
      if (!variadic && !t.flattened && declared && static_cast<size_t>(single) > op->inputs.size()) {
        cursor_.fail(fmt::format("{} takes {} operands, not {}", op->name, op->inputs.size(), single));
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
      a.optional = !in_pattern_ && cursor_.accept("?");
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

  Context& context_;
  OperatorClasses& classes_;
  OperatorWeights& weights_;
  std::deque<Equation>& equations_;
  const bool has_results_;  // false: what is read are patterns
  Equation* rule_ = nullptr;
  std::map<std::string, NamedTerm> patterns_, results_;  // of this file
  boost::unordered_flat_map<std::string, PatternArgument>
      pattern_arguments_;            // of the pattern that is being read, by parameter
  std::set<std::string> optional_;   // variables that are x? somewhere
  std::set<std::string> mentioned_;  // variables, since the choice began that is being read
  bool in_pattern_ = true;
  std::set<std::string_view> names_;  // of all rules
  size_t line_ = 1, counted_ = 0;     // see line_of()
  int repeated_ = 0;                  // how many terms around this place repeat
  bool is_folded_ = false;            // whether one of them is folded(…)
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

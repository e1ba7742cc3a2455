#include "rewrite/parse_terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "support/nearest.h"

namespace anfora::rewrite {

using namespace ir;

namespace {

constexpr std::string_view kFolded = "folded", kAnyResults = ":_";

}  // namespace

size_t TermParser::operator_length() {
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

const Operator* TermParser::operator_name() {
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

int TermParser::parts_of(const Term& t) {
  int parts = 1;
  for (const Term& operand : t.operands) parts += parts_of(operand);
  return parts;
}

Term TermParser::named_result_term(const NamedTerm& result) {
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

std::vector<TermParser::PatternArgument> TermParser::pattern_arguments(const NamedTerm& pattern) {
  std::vector<PatternArgument> arguments;
  cursor_.expect("(", "before the arguments");
  do {
    const size_t i = arguments.size();
    if (i < pattern.parameters.size() && pattern.of_attributes.contains(pattern.parameters[i])) {
      arguments.push_back(attribute_argument());
      continue;
    }
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

TermParser::PatternArgument TermParser::attribute_argument() {
  const size_t position = (cursor_.skip_space(), cursor_.position());
  const std::string name = word("a variable, for an attribute");
  const auto outer = pattern_arguments_.find(name);
  const bool is_known = variables_.contains(name), is_parameter = outer != pattern_arguments_.end();
  if (is_parameter && !is_known) of_attributes_.insert(name);
  PatternArgument argument{{}, is_parameter ? outer->second.may_be_unbound : is_known, declare(name, Variable::Kind::Quantity, position)};
  if (cursor_.accept("?")) {
    optional_.insert(name);
    argument.may_be_unbound = true;
  }
  return argument;
}

void TermParser::check_no_parameter(const std::string& name, size_t position) const {
  if (in_pattern_ && pattern_arguments_.contains(name))
    cursor_.fail_at(position, fmt::format("{} is a parameter, which stands for an operand or one attribute", name),
                    "give it a name of its own in the pattern");
}

Term TermParser::named_pattern_term(Variable* around) {
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
  const NamedTerm& pattern = found->second;
  std::vector<PatternArgument> arguments = pattern_arguments(pattern);
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

Term TermParser::expand(const NamedTerm& pattern, std::vector<PatternArgument> given) {
  NestingScope nesting(depth_, cursor_);
  const size_t position = cursor_.position();
  boost::unordered_flat_map<std::string, PatternArgument> arguments;
  for (size_t i = 0; i < given.size(); ++i) arguments.emplace(pattern.parameters[i], std::move(given[i]));
  std::swap(arguments, pattern_arguments_);
  auto outer = std::exchange(variables_, {});
  for (const auto& [parameter, argument] : pattern_arguments_) {
    if (argument.quantity >= 0) variables_[parameter] = {Variable::Kind::Quantity, argument.quantity};
  }
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

void TermParser::set_name(Term& t, int slot, size_t position) {
  if (t.kind == Term::Kind::Either) {
    for (Term& choice : t.operands) set_name(choice, slot, position);
    return;
  }
  if (t.kind != Term::Kind::Apply && t.kind != Term::Kind::Item)
    cursor_.fail_at(position, "only applications have names");
  if (t.slot >= 0) cursor_.fail_at(position, "what it names has a name already");
  t.slot = slot;
}

int TermParser::anonymous() {
  rule_->variables.emplace_back();
  return rule_->slots.nodes++;
}

int TermParser::name_inside(Term& t) {
  if (const auto given = name_of(t)) return *given;
  const int slot = anonymous();
  set_name(t, slot, t.position);
  return slot;
}

std::optional<int> TermParser::name_of(const Term& t) {
  if (t.kind == Term::Kind::Either) {
    const auto first = name_of(t.operands[0]);
    auto is_first = [&](const Term& choice) { return name_of(choice) == first; };
    return std::ranges::all_of(t.operands, is_first) ? first : std::nullopt;
  }
  const bool has_slot = t.slot >= 0 && !t.in_list && t.kind != Term::Kind::Either;
  return has_slot ? std::optional(t.slot) : std::nullopt;
}

void TermParser::name_around(Term& t, const Variable& around) {
  if (t.kind == Term::Kind::Either) {
    for (Term& choice : t.operands) name_around(choice, around);
  } else if (t.slot != around.inside) {
    set_name(t, around.slot, t.position);
  }
}

bool TermParser::is_application(const Term& t) {
  if (t.kind == Term::Kind::Either) return std::ranges::all_of(t.operands, is_application);
  return t.kind == Term::Kind::Apply || t.kind == Term::Kind::Item;
}

Term TermParser::term() {
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

Term TermParser::simple_term() {
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

bool TermParser::has_any_results(std::string_view behind) {
  return behind.starts_with(kAnyResults) &&
         (behind.size() == kAnyResults.size() || !is_letter(behind[kAnyResults.size()]));
}

Term TermParser::either() {
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

Term TermParser::number() {
  Term t{.kind = Term::Kind::Number};
  t.approximate = cursor_.accept("~");
  t.number = cursor_.to_double(cursor_.number("a number"));
  return t;
}

Term TermParser::computed() {
  Term t{.kind = Term::Kind::Computed};
  if (in_pattern_)
    cursor_.fail("a pattern has no computed values", "compare in the guard: … if elements(s) == [0, 1]");
  t.value = sum();
  return t;
}

Term TermParser::folded() {
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

Term TermParser::variable() {
  size_t position = cursor_.position();
  std::string name = word("a variable");
  if (auto argument = pattern_arguments_.find(name); in_pattern_ && argument != pattern_arguments_.end()) {
    if (argument->second.quantity >= 0)
      cursor_.fail_at(position, fmt::format("{} stands for an attribute already", name));
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

bool TermParser::is_repeated_here() { return cursor_.rest().starts_with("..."); }

Term TermParser::named_term() {
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

int TermParser::slot_of_name(const std::string& name, size_t position) {
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

Term TermParser::class_term() {
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
  check_no_parameter(name, position);
  t.operator_slot = declare(name, Variable::Kind::Operator, position);
  arguments(t);
  return t;
}

Term TermParser::application() {
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

void TermParser::arguments(Term& t) {
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

Term TermParser::operand() {
  cursor_.skip_space();
  bool repeats = repeats_at(cursor_.position());
  repeated_ += repeats ? 1 : 0;
  Term t = term();
  repeated_ -= repeats ? 1 : 0;
  t.repeated = cursor_.accept("...");
  if (t.repeated && is_folded_) cursor_.fail("what is folded has no lists");
  return t;
}

bool TermParser::repeats_at(size_t position) const {
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

void TermParser::check_operands(const Term& t) {
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

void TermParser::attributes(Term& t) {
  if (cursor_.accept("}")) return;
  do {
    if (cursor_.accept("..")) {
      size_t position = cursor_.position();
      std::string name = word("a name for the other attributes");
      check_no_parameter(name, position);
      t.rest = in_pattern_ ? declare(name, Variable::Kind::AttributeSet, position) : find(name, position).slot;
    } else {
      t.attributes.push_back(attribute(t));
    }
  } while (cursor_.accept(","));
  cursor_.expect("}", "behind the attributes");
}

AttributeTerm TermParser::attribute(const Term& t) {
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
    if (pattern_arguments_.contains(name) && !variables_.contains(name)) of_attributes_.insert(name);
    a.binds = declare(name, Variable::Kind::Quantity, at);
  } else {
    a.value = sum();
    a.optional = !in_pattern_ && cursor_.accept("?");
  }
  return a;
}

int TermParser::declare(const std::string& name, Variable::Kind kind, size_t position) {
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

}  // namespace anfora::rewrite

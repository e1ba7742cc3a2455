// A recursive descent over the statements of a rule file. A name that a result or a guard has, and the pattern has not, is an error there.
#include "rewrite/parse_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "rewrite/parse_terms.h"
#include "rewrite/rule_text.h"

namespace anfora::rewrite {

using namespace ir;

namespace {

class RuleParser : TermParser {
 public:
  RuleParser(Context& context, std::string_view text, std::string_view file, OperatorClasses& classes,
             OperatorWeights& weights, std::set<std::string_view> names, std::deque<Equation>& equations)
      : TermParser(context, text, file, classes),
        weights_(weights),
        equations_(equations),
        names_(std::move(names)) {}

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
    auto try_out = [&] {
      std::vector<PatternArgument> arguments;
      for (const std::string& parameter : pattern.parameters) {
        const bool is_of_attribute = pattern.of_attributes.contains(parameter);
        arguments.push_back({{.kind = Term::Kind::Variable, .slot = is_of_attribute ? -1 : anonymous()}, true,
                             is_of_attribute ? unused.slots.quantities++ : -1});
      }
      expand(pattern, std::move(arguments));
    };
    of_attributes_.clear();
    try_out();
    pattern.of_attributes = of_attributes_;
    if (!of_attributes_.empty()) try_out();  // with what they are
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
    if (!is_group && accept_word("beside")) beside(equation);
    in_pattern_ = false;
    if (is_group) group(equation);
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

  // beside TERM of x
  void beside(Equation& equation) {
    Equation::Beside beside{.term = term()};
    if (beside.term.kind != Term::Kind::Apply) cursor_.fail_at(beside.term.position, "what is beside is an application");
    if (!accept_word("of")) cursor_.fail_expected("of: what both have as an operand");
    const size_t position = (cursor_.skip_space(), cursor_.position());
    const Variable through = find(word("a variable"), position);
    beside.through = through.slot;
    if (through.kind != Variable::Kind::Node || depth_of(equation.pattern, through.slot) == 0 || depth_of(beside.term, through.slot) != 1)
      cursor_.fail_at(position, "what is beside is found through an operand of both");
    equation.beside = std::move(beside);
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

  OperatorWeights& weights_;
  std::deque<Equation>& equations_;
  std::set<std::string_view> names_;  // of all rules
  size_t line_ = 1, counted_ = 0;     // see line_of()
};

}  // namespace

void parse_rules(Context& context, std::string_view text, std::string_view file, OperatorClasses& classes,
                 OperatorWeights& weights, const std::set<std::string_view>& taken, std::deque<Equation>& equations) {
  RuleParser(context, text, file, classes, weights, taken, equations).file();
}

}  // namespace anfora::rewrite

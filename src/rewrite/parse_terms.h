// The part of the grammar of rule files that patterns and results share: terms. docs/rule-language.md has the grammar; parse_rules.cc reads
// the statements around them. Names are resolved while they are read: a variable gets its slot where the pattern first has it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rewrite/parse_expressions.h"
#include "rewrite/parse_rules.h"

namespace anfora::rewrite {

class TermParser : protected ExpressionParser {
 protected:
  // A pattern with a name, or a term of results: text, too. Its other names are its own.
  struct NamedTerm {
    std::vector<std::string> parameters;
    size_t from, end;
    std::set<std::string> of_attributes = {};  // parameters that attributes bind
  };
  // What stands for a parameter of a named pattern.
  struct PatternArgument {
    Term term;
    bool may_be_unbound;   // x?, or no new variable
    int quantity = -1;     // the slot where it is of an attribute
  };

  TermParser(ir::Context& context, std::string_view text, std::string_view file, OperatorClasses& classes)
      : ExpressionParser(text, file), context_(context), classes_(classes) {}

  // "Conv", "com.microsoft::FastGelu": what is before a bracket, and begins with a capital behind its domain.
  const ir::Operator* operator_name();
  Term term();
  static bool is_application(const Term& t);
  // A pattern with a name, of terms in the place of its parameters.
  Term expand(const NamedTerm& pattern, std::vector<PatternArgument> given);
  // A slot of nodes without a name.
  int anonymous();

  ir::Context& context_;
  OperatorClasses& classes_;
  Equation* rule_ = nullptr;                             // that is being read
  bool in_pattern_ = true;                               // of it, and not in a result
  std::map<std::string, NamedTerm> patterns_, results_;  // of this file
  std::set<std::string> optional_;                       // variables that are x? somewhere
  std::set<std::string> of_attributes_;                  // parameters of the pattern that is being defined which attributes bind

 private:
  size_t operator_length();
  static int parts_of(const Term& t);
  // NAME(x, V): the term with what variables stand for in the place of its parameters.
  Term named_result_term(const NamedTerm& result);
  std::vector<PatternArgument> pattern_arguments(const NamedTerm& pattern);
  PatternArgument attribute_argument();
  // Operators and the attributes that are not named belong to the pattern.
  void check_no_parameter(const std::string& name, size_t position) const;
  // NAME(s, t): one of its alternatives with the arguments in the place of the parameters. `around`: gets what is around the first.
  Term named_pattern_term(Variable* around = nullptr);
  // The node that a term matches gets a name, whichever of its alternatives it is.
  void set_name(Term& t, int slot, size_t position);
  // V:NAME(t, …): V stands for what the pattern has around its first argument.
  int name_inside(Term& t);
  // The slot of what a term matches, whichever of its alternatives it is; empty: it has none, or several.
  static std::optional<int> name_of(const Term& t);
  void name_around(Term& t, const Variable& around);
  Term simple_term();
  // F:_(…)
  static bool has_any_results(std::string_view behind);
  // (s | t | …): each choice binds the same variables but for optional ones, so that those of the result have values whichever it is.
  Term either();
  Term number();
  Term computed();
  // folded(term, dtype)
  Term folded();
  Term variable();
  bool is_repeated_here();
  Term named_term();
  int slot_of_name(const std::string& name, size_t position);
  Term class_term();
  Term application();
  void arguments(Term& t);
  // A term, perhaps with "..." behind it: what is in front of it must know that it repeats.
  Term operand();
  // Whether the operand that begins here ends in "...".
  bool repeats_at(size_t position) const;
  void check_operands(const Term& t);
  void attributes(Term& t);
  AttributeTerm attribute(const Term& t);
  int declare(const std::string& name, Variable::Kind kind, size_t position);

  boost::unordered_flat_map<std::string, PatternArgument> pattern_arguments_;  // of the pattern that is being read, by parameter
  std::set<std::string> mentioned_;  // variables, since the choice began that is being read
  int repeated_ = 0;                 // how many terms around this place repeat
  bool is_folded_ = false;           // whether one of them is folded(…)
};

}  // namespace anfora::rewrite

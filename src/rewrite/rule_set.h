// Sets of rules: equations read from text, and functions; and which of them may match at a node.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <vector>

#include "rewrite/discrimination_tree.h"
#include "rewrite/match.h"
#include "rewrite/rule.h"

namespace anfora::rewrite {

// name : pattern => result [promise] if guard
struct Equation {
  std::string_view name;  // kept by the context, since remarks outlive the set
  std::string theme;      // the name of its file without the ending: "arithmetic"
  std::string place;      // "rules/arithmetic.rules:12"
  std::string doc;        // the comment above it
  std::string text;       // from the name to the end, on one line
  // What it promises where floating point numbers take part, and where none do.
  Promise on_floats = Promise::Exact, on_others = Promise::Exact;
  bool must_pay = false;       // [cheaper]: only where the result is estimated to take less time
  bool is_accurate = false;    // [accurate]: only where what runs the result computes it as accurately as the pattern
  bool moves_kinks = false;    // [kinks]: the derivative may be another where there are several, at ties and at 0
  bool takes_numbers = false;  // [numbers]: its operands are taken for numbers, as far as the promise goes
  bool sharpens = false;  // [sharpens]: the result is what the root is, also where it tells more of the root's shape
  std::string order;      // [ordered '…']: why applying it over and over ends, where its weight does not show it

  SlotCounts slots;
  std::vector<std::string> variables;  // names of the slots of nodes; "" for an application without a name
  Term pattern;
  std::vector<Term> results;  // tried in order; with [cheaper], the cheapest
  struct Replaced {
    int slot;  // of an application that the pattern names
    Term result;
  };
  std::vector<Replaced> also;  // what is replaced together with the root
  // … beside TERM of x: another application that has x as an operand.
  struct Beside {
    Term term;
    int through = -1;  // the slot of x
  };
  std::optional<Beside> beside;
  // all TERM of x by KEYS where CONDITION: the pattern is that of one of several applications, which are replaced together, each by one
  // result of what the rule makes.
  struct Group {
    int through = -1;                        // the slot of x
    int depth = 1;                           // how many applications it is below the root
    std::vector<std::pair<int, int>> lists;  // slots of nodes of the pattern, and of the lists that have those of all
    std::vector<Expression> keys;
    std::optional<Expression> condition;
  };
  std::optional<Group> group;
  std::optional<Expression> guard;
  std::string guard_text;
};

// What the equation promises of a rewrite of these applications: floats may take part within only, as in not (a < b).
Promise promise_of(const Equation& equation, std::span<ir::Apply* const> matched);

class CompiledRules;

// The equations that were read or added one by one come first, then those of the compiled rules, then functions.
class RuleSet {
 public:
  explicit RuleSet(ir::Context& context);
  ~RuleSet();
  RuleSet(const RuleSet&) = delete;

  // Reads equations. Throws InvalidArgument, with file, line and column, for what is no rule, names an operator, attribute
  // or function that does not exist or a variable that the pattern does not bind, or may go on for ever.
  void read(std::string_view text, std::string_view file);
  // An equation of another set, whose context lives as long.
  void add(Equation equation);
  // Some of compiled rules, by their places there; a set has those of one such at most, which lives as long.
  void add(const CompiledRules& compiled, std::span<const uint32_t> chosen);
  // The equations, functions and classes of another set, likewise.
  void add(const RuleSet& other);
  // Functions, which are tried after equations. They must outlive the set.
  void add(std::span<const Rule> rules);

  // All equations, of which those that were compiled are made here.
  auto equations() const {
    auto at = [this](size_t i) -> const Equation& { return equation(i); };
    return std::views::transform(std::views::iota(size_t{0}, own_.size() + chosen_.size()), at);
  }
  const Equation* find(std::string_view name) const;  // null: there is none
  std::span<const Rule* const> functions() const { return functions_; }

  // Equations that may match at a root, in order. What they ask beyond operators and constants is not looked at.
  void candidates(const ir::Apply& root, std::vector<const Equation*>& found) const;
  // Functions of the root's operator.
  std::span<const Rule* const> functions_of(const ir::Operator& op) const;

  // As data, of the equations that were read.
  struct Compiled {
    std::string bytes;
    std::vector<uint32_t> tree;
  };
  Compiled compiled() const;

 private:
  const Equation& equation(size_t i) const;
  std::string_view name(size_t i) const;

  ir::Context& context_;
  std::deque<Equation> own_;
  DiscriminationTree tree_;  // of these
  const CompiledRules* compiled_ = nullptr;
  std::vector<uint32_t> chosen_;  // of them, as they were added
  std::vector<bool> is_chosen_;
  std::vector<const Rule*> functions_;
  boost::unordered_flat_map<const ir::Operator*, std::vector<const Rule*>> by_operator_;
  boost::unordered_flat_map<std::string, std::vector<const ir::Operator*>> classes_;
  boost::unordered_flat_map<const ir::Operator*, int> weights_;
};

}  // namespace anfora::rewrite

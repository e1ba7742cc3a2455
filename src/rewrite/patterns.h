// Patterns without results, for passes that look for more than a rule replaces:
//
//     class gate = Sigmoid, HardSigmoid
//     interpolation: Add(x, Mul(w, Sub(y, x)))
//
// The statements of rule files (docs/rule-language.md), each pattern a name and a term.
#pragma once

#include <deque>
#include <string_view>

#include "rewrite/rule_set.h"

namespace anfora::rewrite {

class Patterns {
 public:
  // Throws InvalidArgument for what is no pattern.
  Patterns(ir::Context& context, std::string_view text, std::string_view file);

  // What the variables of a pattern stand for: nodes, and the applications that it names.
  struct Found {
    const Equation& pattern;
    const Match& match;
    ir::Node* operator[](std::string_view variable) const;
  };
  // Finds matches at a root one after the other, until `accept` takes one. False: none was taken.
  bool match(std::string_view name, ir::Node* root, FunctionRef<bool(const Found&)> accept) const;
  bool match(std::string_view name, ir::Node* root) const;

 private:
  std::deque<Equation> patterns_;
};

}  // namespace anfora::rewrite

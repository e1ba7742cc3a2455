// Guards and attribute expressions: evaluation, and the functions that they may call.
//
// A function answers NotKnown where the graph does not tell (a rank that is not known, dimensions that may or may not be
// equal); what is computed of that is not known either, and a guard holds only where it is true.
#pragma once

#include <span>
#include <string_view>

#include "rewrite/match.h"
#include "rewrite/rule.h"

namespace anfora::rewrite {

// What an expression may look at.
class Scope {
 public:
  Scope(Rewriter& rewriter, const Match& match) : rewriter(rewriter), match(match) {}
  ir::DimTable& dims() const { return rewriter.context().dims(); }
  const ir::Apply& root() const { return *match.applications.front(); }

  Rewriter& rewriter;
  const Match& match;
};

using Arguments = std::span<const Quantity>;

struct Function {
  std::string_view name;
  int least, most;  // arguments; most −1: any number
  Quantity (*call)(const Scope& scope, Arguments arguments);
  std::string_view doc;  // "rank(x): the number of dimensions of x"
};

// All functions: those that answer about values (about.cc) and shapes (shapes.cc), and those that compute (compute.cc).
std::span<const Function> functions_about_values();
std::span<const Function> functions_about_shapes();
std::span<const Function> functions_that_compute();
const Function* find_function(std::string_view name);  // null: there is none

Quantity evaluate(const Expression& expression, const Scope& scope);

}  // namespace anfora::rewrite

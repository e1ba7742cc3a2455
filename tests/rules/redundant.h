// Which rules the others do without.
#pragma once

#include <set>
#include <string>

#include "rewrite/rule_set.h"

namespace anfora::rules {

struct Redundancy {
  int instances = 0;      // where the rule fired
  std::string needed_by;  // a module that ends otherwise without it, and with no fewer operators, or more to compute; empty: none does
};

// Optimizes random instances of the equation with all rules but those of the names in `without`, and with all but these and the
// equation, for what it promises and for `--math real`.
Redundancy find_need(const rewrite::Equation& equation, const rewrite::RuleSet& all, ir::Context& context,
                     const std::set<std::string_view>& without);

}  // namespace anfora::rules

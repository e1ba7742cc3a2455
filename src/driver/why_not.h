// Why a rule did not fire, or not everywhere: `anfora explain --why-not`, Model.why_not() in Python.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "driver/explain.h"

namespace anfora::driver {

// What its guard lacked, which rule took the nodes first, which options change that.
struct WhyNot {
  struct Nodes {
    std::string reason;  // of a guard; or the rule that took the nodes
    std::vector<std::string> places;
  };
  std::string rule, text;
  rewrite::RuleStatistics statistics;
  bool tried = false;
  std::vector<Nodes> reasons, taken;  // the most nodes first
  std::vector<std::string> remedies;  // "--opset 20"
};

// Optimizes clones of the module, which is typed. Throws NotFound where there is no such rule, and what optimize() throws.
WhyNot why_not(const ir::Module& module, const OptimizeOptions& options, std::string_view rule);
std::string to_text(const WhyNot& answer, const Style& style = {});

}  // namespace anfora::driver

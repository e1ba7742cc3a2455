// What optimizing does to a model, rule by rule: `anfora explain`, Model.explain() in Python.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "driver/optimize.h"
#include "driver/report_text.h"

namespace anfora::driver {

// What a rule, or a pass that is none of rules, did to a model.
struct ExplainedRule {
  std::string name, doc;
  std::string theme;  // "Gelu"; "pass fold"
  rewrite::RuleStatistics statistics;
  rewrite::Work before, after;        // of all applications that went and that came
  std::vector<std::string> examples;  // the first few, as to_text() has them
};

struct Explanation {
  size_t nodes_before = 0, nodes_after = 0, rounds = 0;
  std::vector<ExplainedRule> rules;      // by theme; in each, what fired most comes first
  std::vector<rewrite::Remark> remarks;  // in the order of time; the module's context keeps their names
  std::map<std::string_view, rewrite::RuleStatistics> statistics;  // of all rules that were tried

  size_t refused() const;  // rewrites
};

// Optimizes a module. The counts of nodes are those of the files that it would be written to.
Explanation explain(ir::Module& module, const OptimizeOptions& options);

// Of all remarks those about nodes that have this in their name or location.
std::vector<const rewrite::Remark*> about_node(const Explanation& explanation, std::string_view node);

// "resnet50.onnx: 415 → 196 nodes in 2 rounds", and each rule that fired.
std::string to_text(const Explanation& explanation, std::string_view title, const Style& style = {});
// "Conv 'c1' (model.onnx: node 3): rewritten by fold-batch-norm (2 → 1 nodes)"
std::string to_text(const rewrite::Remark& remark, const Style& style = {});
// "Conv 'c1' (model.onnx: node 3)": the location repeats the name of most nodes.
std::string place_of(const rewrite::Remark& remark);
std::string count_text(const rewrite::RuleStatistics& statistics);  // "3 of 7 tried"

}  // namespace anfora::driver

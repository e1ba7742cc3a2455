// The parts of `anfora explain`.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "driver/explain.h"
#include "driver/model.h"
#include "pipeline/pipeline.h"
#include "rewrite/rule_set.h"

namespace anfora::cli {

struct ExplainOptions {
  std::string input, node, why_not, opset = "keep", target = "onnx";
  std::vector<std::string> rules;
  rewrite::Promise math = rewrite::Promise::Real;
  bool json = false;
};

// A model that was read and optimized, with all remarks.
struct Optimized {
  driver::LoadedModel model;
  std::shared_ptr<const rewrite::RuleSet> rules;  // all that the options know
  driver::FileSummary file;
  pipeline::OptimizeReport report;
};
Optimized optimize_with(const ExplainOptions& options);

using driver::count_text;
using driver::place;

// Why a rule did not fire, or not everywhere: what its guard lacked, which rule took the nodes first, which options change that.
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
WhyNot why_not(const ExplainOptions& options, const Optimized& optimized);
void print(const WhyNot& answer);
nlohmann::ordered_json to_json(const WhyNot& answer);

}  // namespace anfora::cli

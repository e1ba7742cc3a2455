// What `anfora opt` says of its work: a table for people, JSON for programs.
#pragma once

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "driver/model.h"
#include "pipeline/pipeline.h"

namespace anfora::cli {

struct OptSide {  // a model, before or after
  std::string path;
  size_t nodes = 0;  // driver::FileSummary
  int64_t bytes = 0;
  driver::ModelSummary summary;
};

struct OptResult {
  OptSide before, after;
  const pipeline::OptimizeReport& report;
  double seconds = 0;
  std::string verdict;  // of the check
  std::string color;    // … as text.h has them
  bool is_verified = false;
  std::string reason;  // why it is not
  std::string note;    // what the writer had to say
};

// The rows of the table, the steps that changed something between the two files. The counts of nodes add up: those of the passes
// are of the module, so that the first and the last row are what reading and writing make of the files' nodes.
std::vector<pipeline::PassReport> steps_of(const OptResult& result);

// Rules that were tried, with how often they fired, and how long that took.
nlohmann::ordered_json rules_json(const std::map<std::string_view, rewrite::RuleStatistics>& rules, bool with_seconds);

void print_table(std::FILE* to, const OptResult& result);
nlohmann::ordered_json to_json(const OptResult& result);

}  // namespace anfora::cli

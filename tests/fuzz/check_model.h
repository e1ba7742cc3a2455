// What must hold of a model when it is written, read, optimized, and optimized again.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "fuzz/random_model.h"
#include "rewrite/rule.h"

namespace anfora::fuzz {

struct Options {
  bool reduces = true;          // findings are shrunk
  std::filesystem::path write;  // a folder for the model before and after with its inputs; empty: none
};

struct Finding {
  std::string what;    // what does not hold: "optimizing with --math real changes the result"
  std::string detail;  // the first difference, or the error
  std::string rule;    // the rule or pass that did it; empty where none can be told
  std::string model;   // as text, reduced, and what became of it
};

struct Counts {
  size_t models = 0, runs = 0, findings = 0;
  size_t refused = 0;       // models that do not run with the inputs that were drawn
  size_t unexportable = 0;  // models that have no form in ONNX
  size_t noisy = 0;         // comparisons that hold only within the noise of rounding (noise.h)
  // … that do not hold, and need not: without --math exact where a NaN or an infinity takes part, and with --math real where
  // numbers come near the ends of their type's range, since it promises what is true over the reals.
  size_t not_covered = 0;
  size_t applications = 0, applications_after = 0;
  std::map<std::string, size_t, std::less<>> operators;  // in how many models
  std::map<std::string, size_t, std::less<>> rules;      // how often each fired
};

// Checks one model. `name` is what files of it are called.
std::vector<Finding> check_model(RandomModel& model, const std::shared_ptr<const rewrite::RuleSet>& rules, Draw& draw,
                                 const std::string& name, const Options& options, Counts& counts);

}  // namespace anfora::fuzz

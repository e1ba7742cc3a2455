// What the guard of the rule lacked stands in the remarks. Which rule was faster is found by
// a second optimization with that one rule: where it fires there and did not in the whole pipeline, the first rewrite of the whole
// pipeline at that node, or at one of its operands, took its pattern away. Options that would help are tried, too.
#include "driver/why_not.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "driver/rules.h"
#include "frontend/onnx/opset_history.h"
#include "ir/clone.h"
#include "passes/pass.h"

namespace anfora::driver {
namespace {

using rewrite::Remark;

constexpr size_t kNodesShown = 5;
constexpr size_t kNodesOfFunction = 4;  // that a rule written in C++ is taken to look at
constexpr size_t kNodesOfTree = 4;      // of a term like Add*(…), which matches any number
// How reasons are worded, by rewrite::why_not_written() and by the engine of rules.
constexpr std::string_view kLacking = " has no such ", kPromises = "it promises ";

// Where a node is in its source: by its location, or its name where it has none.
std::string key_of(const Remark& remark) { return remark.location.empty() ? remark.node : remark.location; }
std::string key_of(const ir::Node& node) {
  return node.location() ? ir::to_string(*node.location()) : ir::describe(node);
}

using Operands = std::map<std::string, std::vector<std::string>, std::less<>>;

Operands operands_of(const ir::Module& module) {
  Operands operands;
  for (const ir::Graph* graph : module.graphs()) {
    for (const ir::Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
      std::vector<std::string>& keys = operands[key_of(*node)];
      for (const ir::Use& use : node->operands()) {
        if (use.node && use.node->as_apply()) keys.push_back(key_of(*use.node));
      }
    }
  }
  return operands;
}

// The rule by itself, among the passes without which no rule would find its pattern.
pipeline::OptimizeReport run_alone(ir::Module& module, const OptimizeOptions& options, std::string_view rule) {
  auto all = rules_with(module.context(), options.rules);
  auto alone = std::make_shared<rewrite::RuleSet>(module.context());
  for (const rewrite::Equation& equation : all->equations()) {
    if (equation.name == rule) alone->add(equation);
  }
  for (const rewrite::Rule* function : all->functions()) {
    if (function->name == rule) alone->add(std::span(function, 1));
  }
  pipeline::OptimizeOptions passes;
  passes.passes.rules = alone;
  passes.keep_remarks = true;
  for (const char* name : {"inline", "canonicalize", "fold", "simplify", "cse", "dce"}) {
    passes.only.push_back(pipeline::find_pass(name));
  }
  return pipeline::optimize(module, passes);
}

pipeline::OptimizeReport optimize_clone(const ir::Module& module, const OptimizeOptions& options) {
  OptimizeOptions with_remarks = options;
  with_remarks.keep_remarks = true;
  return optimize(*ir::clone(module), with_remarks);
}

std::vector<WhyNot::Nodes> sorted(std::map<std::string, std::vector<std::string>> by_reason) {
  std::vector<WhyNot::Nodes> list;
  for (auto& [reason, places] : by_reason) list.push_back({reason, std::move(places)});
  std::ranges::stable_sort(list, std::greater(), [](const WhyNot::Nodes& nodes) { return nodes.places.size(); });
  return list;
}

std::vector<WhyNot::Nodes> reasons_of(std::string_view rule, const rewrite::Remarks& remarks) {
  std::map<std::string, std::vector<std::string>> reasons;
  for (const Remark& remark : remarks.all()) {
    if (remark.rule != rule || remark.outcome == Remark::Outcome::Applied) continue;
    std::vector<std::string>& nodes = reasons[remark.message];
    if (!std::ranges::count(nodes, place_of(remark))) nodes.push_back(place_of(remark));
  }
  return sorted(std::move(reasons));
}

// Nodes that a pattern matches.
size_t num_nodes(const rewrite::Term& pattern) {
  size_t count = pattern.kind != rewrite::Term::Kind::Apply ? 0 : pattern.flattened ? kNodesOfTree : 1;
  for (const rewrite::Term& operand : pattern.operands) count += num_nodes(operand);
  return count;
}

class Taken {
 public:
  Taken(const ir::Module& module, const OptimizeOptions& options, std::string_view rule,
        const rewrite::Equation* equation, const rewrite::Remarks& whole)
      : rule_(rule),
        pattern_size_(equation ? num_nodes(equation->pattern) : kNodesOfFunction),
        operands_(operands_of(module)),
        alone_(run_alone(*ir::clone(module), options, rule)) {
    for (const Remark& remark : alone_.remarks.all()) {
      if (remark.outcome == Remark::Outcome::Applied) in_both_.emplace(remark.rule, key_of(remark));
    }
    for (const Remark& remark : whole.all()) {
      if (remark.rule == rule_) met_.insert(key_of(remark));
      const bool counts = remark.outcome == Remark::Outcome::Applied && remark.rule != rule_;
      if (counts && !in_both_.contains({remark.rule, key_of(remark)})) first_.try_emplace(key_of(remark), &remark);
    }
  }

  std::vector<WhyNot::Nodes> find() const {
    std::map<std::string, std::vector<std::string>> by_rule;
    for (const Remark& remark : alone_.remarks.all()) {
      if (remark.outcome != Remark::Outcome::Applied || remark.rule != rule_ || met_.contains(key_of(remark))) continue;
      if (const Remark* taker = taker_of(key_of(remark))) {
        std::vector<std::string>& places = by_rule[std::string(taker->rule)];
        if (!std::ranges::count(places, place_of(remark))) places.push_back(place_of(remark));
      }
    }
    return sorted(std::move(by_rule));
  }

 private:
  // The first rewrite at the node, or at one of as many above it as the pattern has. Remarks lie in the order of time.
  const Remark* taker_of(const std::string& root) const {
    const Remark* taker = nullptr;
    std::vector<std::string> near{root};
    for (size_t i = 0; i < near.size(); ++i) {
      if (auto found = first_.find(near[i]); found != first_.end() && (!taker || found->second < taker)) {
        taker = found->second;
      }
      auto above = operands_.find(near[i]);
      if (above == operands_.end()) continue;
      for (const std::string& operand : above->second) {
        if (near.size() < pattern_size_ && !std::ranges::count(near, operand)) near.push_back(operand);
      }
    }
    return taker;
  }

  std::string_view rule_;
  size_t pattern_size_;  // in nodes
  Operands operands_;
  pipeline::OptimizeReport alone_;
  std::set<std::pair<std::string_view, std::string>> in_both_;
  std::set<std::string, std::less<>> met_;  // where the rule fired, or its guard spoke
  std::map<std::string, const Remark*, std::less<>> first_;
};

// The operator sets in which an operator that was lacking came, or changed, behind the one to be written.
std::vector<std::string> later_opsets(const ir::Module& module, const OptimizeOptions& options, std::string_view op) {
  const onnx::OperatorHistory* history = onnx::find_history("", op);
  if (!history) return {};
  const auto& opsets = module.metadata().opsets;
  auto main = opsets.find("");
  int64_t written = main == opsets.end() ? onnx::newest_opset("") : main->second;
  if (options.opset == "newest") return {};
  if (options.opset != "keep") written = std::stoll(options.opset);
  std::vector<std::string> later;
  for (const onnx::OperatorHistory::Version& version : history->versions) {
    if (version.since > written && !version.is_withdrawn) later.push_back(fmt::format("{}", version.since));
  }
  return later;
}

bool fires_with(const ir::Module& module, const OptimizeOptions& options, std::string_view rule, int64_t fired) {
  const auto statistics = optimize_clone(module, options).remarks.statistics();
  auto found = statistics.find(rule);
  return found != statistics.end() && found->second.fired > fired;
}

// Options under which the rule fires more often.
std::vector<std::string> remedies(const ir::Module& module, const OptimizeOptions& options, const WhyNot& answer,
                                  const rewrite::Equation* equation) {
  if (equation && std::min(equation->on_floats, equation->on_others) > options.math) {  // not tried at all
    return {fmt::format("--math {}", to_string(std::min(equation->on_floats, equation->on_others)))};
  }
  std::vector<std::string> found;
  const bool promises_less = std::ranges::any_of(
      answer.reasons, [](const WhyNot::Nodes& nodes) { return nodes.reason.starts_with(kPromises); });
  if (equation && promises_less) found.push_back(fmt::format("--math {}", to_string(equation->on_floats)));
  std::string lacking;
  for (const WhyNot::Nodes& nodes : answer.reasons) {
    if (size_t at = nodes.reason.find(kLacking); at != std::string::npos) {
      lacking = nodes.reason.substr(at + kLacking.size());
      break;
    }
  }
  if (lacking.empty()) return found;
  for (const std::string& opset : later_opsets(module, options, lacking)) {
    OptimizeOptions later = options;
    later.opset = opset;
    if (!fires_with(module, later, answer.rule, answer.statistics.fired)) continue;
    found.push_back("--opset " + opset);
    break;
  }
  if (options.target == "onnx") {
    OptimizeOptions elsewhere = options;
    elsewhere.target = "onnxruntime";
    if (fires_with(module, elsewhere, answer.rule, answer.statistics.fired)) found.emplace_back("--target onnxruntime");
  }
  return found;
}

std::string nodes_list(const std::string& title, const std::vector<std::string>& places, const Style& style) {
  std::string text = fmt::format("{}{}{}: {}\n", style.bold, title, style.plain, counted(places.size(), "node"));
  for (size_t i = 0; i < std::min(places.size(), kNodesShown); ++i) text += fmt::format("  {}\n", places[i]);
  if (places.size() > kNodesShown) text += fmt::format("  … and {} more\n", places.size() - kNodesShown);
  return text;
}

}  // namespace

WhyNot why_not(const ir::Module& module, const OptimizeOptions& options, std::string_view rule) {
  const auto known = all_rules_with(module.context(), options.rules);
  const rewrite::Equation* equation = find_rule(*known, rule);
  const rewrite::Remarks remarks = optimize_clone(module, options).remarks;
  WhyNot answer{.rule = std::string(rule), .text = equation ? equation->text : ""};
  const auto statistics = remarks.statistics();
  if (auto found = statistics.find(rule); found != statistics.end()) {
    answer.statistics = found->second;
    answer.tried = true;
  }
  answer.reasons = reasons_of(rule, remarks);
  answer.taken = Taken(module, options, rule, equation, remarks).find();
  answer.remedies = remedies(module, options, answer, equation);
  return answer;
}

std::string to_text(const WhyNot& answer, const Style& style) {
  std::string text = answer.text.empty() ? "" : answer.text + '\n';
  if (answer.tried) text += fmt::format("fired {}\n", count_text(answer.statistics));
  for (const WhyNot::Nodes& nodes : answer.reasons) text += nodes_list(nodes.reason, nodes.places, style);
  for (const WhyNot::Nodes& nodes : answer.taken) {
    text += nodes_list(fmt::format("taken first by {}", nodes.reason), nodes.places, style);
  }
  const bool is_explained = !answer.reasons.empty() || !answer.taken.empty() || answer.statistics.fired > 0;
  if (!is_explained && answer.remedies.empty()) {
    text += answer.tried ? "nodes have its operators, but not its pattern: other operands, attributes or constants\n"
                         : "no node has the operators of its pattern\n";
  }
  if (!answer.remedies.empty()) text += fmt::format("try {}\n", fmt::join(answer.remedies, " or "));
  return text;
}

}  // namespace anfora::driver

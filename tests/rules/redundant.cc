#include "rules/redundant.h"

#include <fmt/format.h>

#include <memory>

#include "analysis/cost.h"
#include "anfora/error.h"
#include "ir/clone.h"
#include "ir/order.h"
#include "ir/print.h"
#include "pipeline/pipeline.h"
#include "rules/instance.h"
#include "support/hash.h"

namespace anfora::rules {
namespace {

using namespace ir;
using rewrite::Equation;
using rewrite::Promise;
using rewrite::RuleSet;

constexpr int kInstances = 60, kAttempts = 600;
constexpr double kSlower = 1.02;

std::shared_ptr<RuleSet> rules_without(const RuleSet& all, const std::set<std::string_view>& names) {
  auto rules = std::make_shared<RuleSet>(all.context());
  for (const Equation& equation : all.equations()) {
    if (!names.contains(equation.name)) rules->add(equation);
  }
  for (const rewrite::Rule* function : all.functions()) rules->add(std::span(function, 1));
  return rules;
}

struct Result {
  int operators = 0;
  double microseconds = 0;
  bool fired = false;
};

Result optimized(const Module& module, const std::shared_ptr<RuleSet>& rules, Promise math, std::string_view name) {
  std::unique_ptr<Module> copy = clone(module);
  pipeline::OptimizeOptions options;
  options.passes.rules = rules;
  options.passes.math = math;
  auto report = pipeline::optimize(*copy, options);
  Result result;
  const auto statistics = report.remarks.statistics();
  auto found = statistics.find(name);
  result.fired = found != statistics.end() && found->second.fired > 0;
  analysis::Inference inference(*copy);
  inference.run();
  for (const GraphOrder& graph : topological_order(*copy).graphs) {
    for (const Apply* node : graph.nodes) {
      result.operators += node->primitive() == Primitive::Operation;
      result.microseconds += analysis::estimate_us(inference, *node);
    }
  }
  return result;
}

}  // namespace

Redundancy find_need(const Equation& equation, const RuleSet& all, const std::set<std::string_view>& without) {
  Redundancy found;
  std::set<std::string_view> without_it = without;
  without_it.insert(equation.name);
  const auto with = rules_without(all, without), others = rules_without(all, without_it);
  const std::set<Promise> promises = {equation.on_floats, equation.on_others, Promise::Real};
  const uint64_t seed = hash_bytes(equation.name.data(), equation.name.size());
  for (int attempt = 0; attempt < kAttempts && found.instances < kInstances; ++attempt) {
    Draw draw(hash_combine(seed, static_cast<uint64_t>(attempt)));
    auto instance = make_instance(equation, all.context(), {}, draw);
    auto symbolic = instance && attempt % 2 ? with_symbols(*instance, draw) : std::nullopt;
    if (symbolic) instance = std::move(symbolic);
    if (!instance) continue;
    for (Promise math : promises) {
      try {
        const Result best = optimized(*instance->module, with, math, equation.name);
        if (!best.fired) continue;
        ++found.instances;
        const Result rest = optimized(*instance->module, others, math, equation.name);
        if (rest.operators <= best.operators && rest.microseconds <= best.microseconds * kSlower) continue;
        found.needed_by = fmt::format("{} operators, not {} ({:.2f} µs, not {:.2f}), for --math {}:\n{}", rest.operators, best.operators, rest.microseconds,
                                      best.microseconds, rewrite::to_string(math),
                                      print(*instance->module, {.numbers = PrintOptions::Numbers::Sequential, .locations = false, .header = false}));
        return found;
      } catch (const Error&) {  // an instance that does not compile shows nothing
      }
    }
  }
  return found;
}

}  // namespace anfora::rules

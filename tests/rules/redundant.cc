#include "rules/redundant.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "analysis/cost.h"
#include "analysis/infer.h"
#include "anfora/error.h"
#include "ir/clone.h"
#include "ir/isomorphic.h"
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

std::string show(const Module& module) {
  return print(module, {.numbers = PrintOptions::Numbers::Sequential, .locations = false, .header = false});
}

std::shared_ptr<RuleSet> rules_without(const RuleSet& all, Context& context, const std::set<std::string_view>& names) {
  auto rules = std::make_shared<RuleSet>(context);
  for (const Equation& equation : all.equations()) {
    if (!names.contains(equation.name)) rules->add(equation);
  }
  for (const rewrite::Rule* function : all.functions()) rules->add(std::span(function, 1));
  return rules;
}

struct Result {
  std::unique_ptr<Module> module;
  int operators = 0;
  double us = 0;       // of computing, by estimate
  bool fired = false;  // the rule
};

Result optimized(const Module& module, const std::shared_ptr<RuleSet>& rules, Promise math, std::string_view name) {
  Result result{.module = clone(module)};
  pipeline::OptimizeOptions options;
  options.passes.rules = rules;
  options.passes.math = math;
  const auto statistics = pipeline::optimize(*result.module, options).remarks.statistics();
  auto found = statistics.find(name);
  result.fired = found != statistics.end() && found->second.fired > 0;
  analysis::Inference inference(*result.module);
  for (const GraphOrder& graph : topological_order(*result.module).graphs) {
    for (const Apply* node : graph.nodes) {
      if (node->primitive() != Primitive::Operation) continue;
      ++result.operators;
      result.us += analysis::compute_us(inference, *node);
    }
  }
  return result;
}

}  // namespace

Redundancy find_need(const Equation& equation, const RuleSet& all, Context& context,
                     const std::set<std::string_view>& without) {
  Redundancy found;
  std::set<std::string_view> without_it = without;
  without_it.insert(equation.name);
  const auto with = rules_without(all, context, without), others = rules_without(all, context, without_it);
  const std::set<Promise> promises = {equation.on_floats, equation.on_others, Promise::Real};
  const uint64_t seed = hash_bytes(equation.name.data(), equation.name.size());
  for (int attempt = 0; attempt < kAttempts && found.instances < kInstances; ++attempt) {
    Draw draw(hash_combine(seed, static_cast<uint64_t>(attempt)));
    auto instance = make_instance(equation, context, {}, draw);
    auto symbolic = instance && attempt % 2 ? with_symbols(*instance, draw) : std::nullopt;
    if (symbolic) instance = std::move(symbolic);
    if (!instance) continue;
    for (Promise math : promises) {
      try {
        const Result best = optimized(*instance->module, with, math, equation.name);
        if (!best.fired) continue;
        ++found.instances;
        const Result rest = optimized(*instance->module, others, math, equation.name);
        const bool is_better = rest.operators < best.operators && rest.us <= best.us;
        if (is_better || isomorphic(*rest.module, *best.module)) continue;
        found.needed_by = fmt::format("for --math {}:\n{}becomes\n{}not\n{}", rewrite::to_string(math), show(*instance->module), show(*rest.module), show(*best.module));
        return found;
      } catch (const Error&) {  // an instance that does not compile shows nothing
      }
    }
  }
  return found;
}

}  // namespace anfora::rules

#include "fuzz/check_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cmath>
#include <cstring>
#include <fstream>

#include "analysis/evaluate.h"
#include "analysis/verify_types.h"
#include "anfora/error.h"
#include "driver/kernels.h"
#include "driver/npz.h"
#include "driver/reduce.h"
#include "frontend/onnx/export.h"
#include "frontend/onnx/import.h"
#include "fuzz/noise.h"
#include "ir/clone.h"
#include "ir/isomorphic.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "pipeline/pipeline.h"
#include "plan/compile.h"
#include "support/element_types.h"

namespace anfora::fuzz {

using namespace ir;
using rewrite::Promise;

namespace {

constexpr int kRunsOfSizes = 2;
constexpr size_t kTrialsOfReduction = 400;
constexpr uint64_t kSeedOfOperators = 1;
using Bytes = std::shared_ptr<std::vector<std::byte>>;

Bytes to_onnx(const Module& module) {
  auto bytes = std::make_shared<std::vector<std::byte>>();
  onnx::export_onnx(module,
                    [&](std::span<const std::byte> piece) { bytes->insert(bytes->end(), piece.begin(), piece.end()); });
  return bytes;
}

std::unique_ptr<Module> from_onnx(Context& context, const Bytes& bytes) {
  auto module = onnx::import_onnx(context, *bytes, bytes, {.name = "model"});
  verify_or_throw(*module);
  analysis::infer_types(*module);
  return module;
}

std::vector<Datum> run(const Module& module, const std::vector<Datum>& inputs) {
  return analysis::interpret(module, inputs, kSeedOfOperators);
}

std::string show(const Module& module) {
  return print(module, {.numbers = PrintOptions::Numbers::Sequential, .locations = false, .header = false});
}

// What numbers come up, by what promises cover.
enum class Numbers : uint8_t {
  Ordinary,  // where products of two neither overflow nor lose digits: from √smallest to √largest, and 0
  Finite,
  Any,
};

Numbers numbers_in(const Datum& datum) {
  bool is_float_tensor = datum.is_tensor() && is_float(datum.tensor().dtype());
  if (!is_float_tensor) return Numbers::Ordinary;
  Numbers worst = Numbers::Ordinary;
  auto classify = [&]<class T>(double largest, double smallest_normal) {
    for (T x : datum.tensor().data<T>()) {
      double wide = std::abs(static_cast<double>(x));
      bool ordinary = wide == 0 || (wide >= std::sqrt(smallest_normal) && wide <= std::sqrt(largest));
      worst = std::max(worst, ordinary ? Numbers::Ordinary : std::isfinite(wide) ? Numbers::Finite : Numbers::Any);
    }
  };
  switch (datum.tensor().dtype()) {
    case DType::F64: classify.operator()<double>(0x1p1023, 0x1p-1022); break;
    case DType::F32: classify.operator()<float>(0x1p127, 0x1p-126); break;
    case DType::F16: classify.operator()<Float16>(0x1p15, 0x1p-14); break;
    case DType::BF16: classify.operator()<BFloat16>(0x1p127, 0x1p-126); break;
    default: break;
  }
  return worst;
}

bool has_zero(const Datum& datum) {
  using Any = Join<Join<Floats, Float8s>, TypeList<Float8E8M0, Float4E2M1, Float6E2M3, Float6E3M2>>;
  if (!datum.is_tensor() || !is_float(datum.tensor().dtype())) return false;
  return dispatch<Any>(datum.tensor().dtype(), [&]<class T>() {
    return std::ranges::any_of(datum.tensor().data<T>(), [](T x) { return static_cast<double>(x) == 0; });
  });
}

struct Run {
  std::vector<Datum> inputs, outputs;
  Numbers numbers = Numbers::Ordinary;  // the worst that come up
};

class Checker {
 public:
  Checker(RandomModel& model, const std::shared_ptr<const rewrite::RuleSet>& rules, Draw& draw, const std::string& name,
          const Options& options, Counts& counts)
      : model_(model), rules_(rules), draw_(draw), name_(name), options_(options), counts_(counts) {}

  std::vector<Finding> check() {
    if (!model_.complaint.empty()) {
      add("inference of a new model fails", model_.complaint, *model_.module);
      return std::move(findings_);
    }
    make_runs();
    if (runs_.empty()) {
      ++counts_.refused;
      return {};
    }
    Bytes bytes;
    try {
      bytes = to_onnx(*model_.module);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::Unsupported) add("writing fails", error.what(), *model_.module);
      ++counts_.unexportable;
      return std::move(findings_);
    }
    ++counts_.models;
    counts_.runs += runs_.size();
    for (std::string_view op : model_.operators) ++counts_.operators[std::string(op)];
    try {
      before_ = from_onnx(model_.module->context(), bytes);
    } catch (const Error& error) {
      add("reading what was written fails", error.what(), *model_.module);
      return std::move(findings_);
    }
    if (!same_after("writing and reading changes the result", *before_, Promise::Exact)) return std::move(findings_);
    for (Run& made : runs_) made = watched(*before_, made.inputs);
    check_promise(Promise::Exact);
    check_promise(Promise::Finite);
    std::unique_ptr<Module> after = check_promise(Promise::Real);
    if (after) check_optimized(bytes, *after);
    return std::move(findings_);
  }

 private:
  // Runs -------------------------------------------------------------------------------------------------------------------
  void make_runs() {
    std::map<std::string, int64_t> sizes = model_.sizes;
    // Compiled, all of main is computed, and not only what the results turn out to depend on.
    runtime::Executable executable = plan::compile(*model_.module, {.threads = 1, .reference_only = true});
    for (int i = 0; i < (sizes.empty() ? 1 : 2) * kRunsOfSizes; ++i) {
      if (i >= kRunsOfSizes) {
        for (auto& [symbol, size] : sizes) size = draw_.percent(20) ? model_.least_size : draw_.between(1, 4);
      }
      Run made{random_inputs(model_, sizes, draw_), {}};
      try {
        made.outputs = run(*model_.module, made.inputs);
        Agreement agreement = same_bits(executable.run(made.inputs, {.seed = kSeedOfOperators}), made.outputs);
        if (agreement.verdict != Agreement::Verdict::Same)
          add("planning changes the result", agreement.difference, *model_.module);
        runs_.push_back(std::move(made));
      } catch (const Error&) {
        continue;  // these sizes, or these indices, are none that the model is for
      }
    }
  }

  // The run, and what numbers come up in it. Division by zero shows in its result, except where that is an integer.
  static Run watched(const Module& module, const std::vector<Datum>& inputs) {
    Run made{inputs, {}};
    boost::unordered_flat_set<const Node*> with_zeros;
    auto note = [&](const Node& node, const Datum& value) {
      made.numbers = std::max(made.numbers, numbers_in(value));
      if (has_zero(value)) with_zeros.insert(&node);
    };
    for (const Value* value : module.constants()) {
      if (value->has_uses()) note(*value, value->tensor());
    }
    made.outputs = analysis::interpret(module, inputs, kSeedOfOperators, [&](const Node& node, const Datum& value) {
      note(node, value);
      const Apply* apply = node.as_apply();
      if (apply && apply->is("QuantizeLinear") && with_zeros.contains(apply->input(1))) made.numbers = Numbers::Any;
    });
    return made;
  }

  Agreement compare(const Module& after, const std::vector<Datum>& got, const Module& before, const Run& run,
                    Promise promise) {
    Agreement agreement =
        promise == Promise::Real ? agree(after, got, before, run.outputs, run.inputs) : same_bits(got, run.outputs);
    bool covered = promise == Promise::Exact || run.numbers == Numbers::Ordinary ||
                   (promise == Promise::Finite && run.numbers == Numbers::Finite);
    if (covered || agreement.verdict != Agreement::Verdict::Different) return agreement;
    ++counts_.not_covered;
    return {};
  }

  // What differs in a module's results; empty: nothing.
  std::string difference(const Module& after, Promise promise) {
    for (const Run& made : runs_) {
      std::vector<Datum> got;
      try {
        got = run(after, made.inputs);
      } catch (const Error& error) {
        return fmt::format("it fails: {}", error.what());
      }
      Agreement agreement = compare(after, got, *model_.module, made, promise);
      counts_.noisy += agreement.verdict == Agreement::Verdict::WithinNoise;
      if (agreement.verdict == Agreement::Verdict::Different) return agreement.difference;
    }
    return "";
  }

  bool same_after(std::string_view what, const Module& after, Promise promise) {
    std::string detail = difference(after, promise);
    if (!detail.empty()) add(what, detail, *model_.module, &after);
    return detail.empty();
  }

  // Optimizing ---------------------------------------------------------------------------------------------------------------
  pipeline::OptimizeOptions optimizing(const Module& module, Promise promise) const {
    pipeline::OptimizeOptions options;
    options.passes.math = promise;
    options.passes.rules = rules_;
    options.passes.has_operator = onnx::expressible(module);
    options.verify = true;
    return options;
  }

  // The optimized module; null after a finding.
  std::unique_ptr<Module> check_promise(Promise promise) {
    std::string how = fmt::format("--math {}", to_string(promise));
    std::unique_ptr<Module> after = clone(*before_);
    try {
      pipeline::OptimizeReport report = pipeline::optimize(*after, optimizing(*before_, promise));
      for (const auto& [rule, statistics] : report.remarks.statistics()) {
        if (statistics.fired > 0) counts_.rules[std::string(rule)] += static_cast<size_t>(statistics.fired);
      }
      if (promise == Promise::Real) {
        counts_.applications += report.nodes_before;
        counts_.applications_after += report.nodes_after;
      }
      if (!report.at_fixpoint) add(fmt::format("optimizing with {} does not end", how), "", *before_, after.get());
      analysis::infer_types(*after);
    } catch (const Error& error) {
      shrink_failure(fmt::format("optimizing with {} fails", how), error.what(), promise);
      return nullptr;
    }
    std::string detail = difference(*after, promise);
    if (detail.empty()) return after;
    shrink_difference(fmt::format("optimizing with {} changes the result", how), detail, promise);
    return nullptr;
  }

  void check_optimized(const Bytes& bytes, const Module& after) {
    Bytes written;
    try {
      written = to_onnx(after);
      std::unique_ptr<Module> read = from_onnx(after.context(), written);
      for (const Run& made : runs_) {
        Agreement agreement = same_bits(run(*read, made.inputs), run(after, made.inputs));
        if (agreement.verdict != Agreement::Verdict::Different) continue;
        add("writing and reading what was optimized changes the result", agreement.difference, after, read.get());
        break;
      }
    } catch (const Error& error) {
      add("what was optimized cannot be written and read", error.what(), *before_, &after);
      return;
    }
    // Beyond what the promise covers there is nothing to compare.
    if (!options_.write.empty() && runs_.front().numbers == Numbers::Ordinary) write(bytes, written, after);
    check_twice(after);
    if (draw_.percent(25)) check_order(after);
    if (draw_.percent(25)) check_compiled(after);
  }

  void check_twice(const Module& after) {
    std::unique_ptr<Module> again = clone(after);
    pipeline::OptimizeOptions options = optimizing(*before_, Promise::Real);
    options.keep_remarks = true;
    pipeline::OptimizeReport report = pipeline::optimize(*again, options);
    std::string detail = ir::difference(after, *again, {.types = false});
    if (detail.empty()) return;
    std::string rule;
    for (const rewrite::Remark& remark : report.remarks.all()) {
      if (remark.outcome == rewrite::Remark::Outcome::Applied && rule.empty()) rule = remark.rule;
    }
    add("optimizing twice is not the same as once", detail, after, again.get(), rule);
  }

  // The same module with its nodes made in another order.
  void check_order(const Module& after) {
    std::unique_ptr<Module> shuffled = clone(*before_);
    shuffle(*shuffled);
    std::string detail;
    try {
      pipeline::optimize(*shuffled, optimizing(*before_, Promise::Real));
      analysis::infer_types(*shuffled);
      detail = ir::difference(after, *shuffled, {.types = false});
    } catch (const Error& error) {
      detail = error.what();
    }
    if (!detail.empty()) add("the order of nodes matters", detail, after, shuffled.get());
  }

  void shuffle(Module& module) {
    std::vector<Apply*> nodes;
    for (Graph* graph : module.graphs()) {
      for (Apply* node = graph->first_node(); node; node = node->next_in_graph()) nodes.push_back(node);
    }
    std::vector<uint32_t> ids;
    for (Apply* node : nodes) ids.push_back(node->id());
    for (size_t i = ids.size(); i > 1; --i) {
      size_t other = draw_.below(i);
      std::swap(ids[i - 1], ids[other]);
      std::swap(nodes[i - 1], nodes[other]);
    }
    std::vector<std::pair<Node*, uint32_t>> renumbered;
    for (size_t i = 0; i < nodes.size(); ++i) renumbered.emplace_back(nodes[i], ids[i]);
    Graph* aside = module.make_graph("aside");
    for (Apply* node : nodes) {
      if (node->primitive() == Primitive::Return) continue;
      Graph* home = node->graph();
      module.move(node, aside);
      module.move(node, home);
    }
    module.erase_dead({}, std::array{aside});
    module.renumber(renumbered);
  }

  static constexpr double kAnySaving = -1e30;
  void check_compiled(const Module& after) {
    std::unique_ptr<Module> lowered = clone(after);
    try {
      // However small a group is.
      pipeline::optimize(*lowered, {.pipeline = &pipeline::kLower, .passes = {.least_group_saving_us = kAnySaving}});
      runtime::Executable executable =
          plan::compile(*lowered, {.threads = 1, .prepared = generating_kernels()});
      for (const Run& made : runs_) {
        std::vector<Datum> got = executable.run(made.inputs, {.seed = kSeedOfOperators});
        Agreement agreement = compare(after, got, *before_, made, Promise::Real);
        counts_.noisy += agreement.verdict == Agreement::Verdict::WithinNoise;
        if (agreement.verdict != Agreement::Verdict::Different) continue;
        add("compiling changes the result", agreement.difference, after, lowered.get());
        return;
      }
    } catch (const Error& error) {
      add("compiling or running what was compiled fails", error.what(), after, lowered.get());
    }
  }

  // Findings -----------------------------------------------------------------------------------------------------------------
  void add(std::string_view what, const std::string& detail, const Module& model, const Module* after = nullptr,
           const std::string& rule = "") {
    ++counts_.findings;
    findings_.push_back({std::string(what), detail, rule, show(model) + (after ? "\nbecomes\n" + show(*after) : "")});
  }

  // The rule whose firing makes the module wrong, found by halving how many may fire; "none" where it is none.
  template <class IsWrong>
  std::string rule_of(const Module& module, Promise promise, IsWrong is_wrong) {
    std::string last;
    auto wrong_with = [&](int64_t fuel) {
      std::unique_ptr<Module> after = clone(module);
      pipeline::OptimizeOptions options = optimizing(module, promise);
      options.passes.fuel = &fuel;
      options.keep_remarks = true;
      std::string error;
      pipeline::OptimizeReport report;
      try {
        report = pipeline::optimize(*after, options);
      } catch (const Error& e) {
        error = e.what();
      }
      bool wrong = is_wrong(*after, error);
      for (const rewrite::Remark& remark : report.remarks.all()) {
        if (wrong && remark.outcome == rewrite::Remark::Outcome::Applied && remark.pass == "simplify")
          last = remark.rule;
      }
      return wrong;
    };
    if (wrong_with(0)) return "no rule";
    int64_t fine = 0, wrong = 1;
    while (wrong < (int64_t{1} << 14) && !wrong_with(wrong)) fine = std::exchange(wrong, 2 * wrong);
    while (wrong - fine > 1) {
      int64_t middle = fine + (wrong - fine) / 2;
      (wrong_with(middle) ? wrong : fine) = middle;
    }
    wrong_with(wrong);
    return last;
  }

  void shrink_failure(const std::string& what, const std::string& detail, Promise promise) {
    auto fails = [&](const Module& module) {
      std::unique_ptr<Module> after = clone(module);
      try {
        pipeline::optimize(*after, optimizing(module, promise));
      } catch (const Error&) {
        return true;
      }
      return false;
    };
    std::unique_ptr<Module> small = options_.reduces ? reduced(*before_, fails) : clone(*before_);
    std::string rule = rule_of(*small, promise, [](const Module&, const std::string& error) { return !error.empty(); });
    add(what, detail, *small, nullptr, rule);
  }

  static std::unique_ptr<Module> reduced(const Module& module, const driver::ShowsDefect& shows) {
    try {
      return driver::reduce(module, shows, {.most_trials = kTrialsOfReduction});
    } catch (const Error&) {
      return clone(module);  // not shown without the defaults and the names that reducing drops
    }
  }

  // The inputs of a part of the model are the values that they have in the whole.
  void shrink_difference(const std::string& what, const std::string& detail, Promise promise) {
    std::unique_ptr<Module> named = clone(*before_);
    for (Apply* node = named->main()->first_node(); node; node = node->next_in_graph())
      named->set_name(node, fmt::format("n{}", node->id()));
    std::vector<std::map<std::string, Datum, std::less<>>> values;
    for (const Run& made : runs_) {
      values.emplace_back();
      analysis::interpret(*named, made.inputs, kSeedOfOperators, [&](const Node& node, const Datum& value) {
        if (node.graph() == named->main()) values.back()[std::string(node.name())] = value;
      });
    }
    auto wrong_run = [&](const Module& before, const Module& after, std::vector<Datum>* inputs_of_run) {
      for (const auto& known : values) {
        std::vector<Datum> inputs;
        for (const Parameter* p : before.main()->parameters()) inputs.push_back(known.at(std::string(p->name())));
        if (inputs_of_run) *inputs_of_run = inputs;
        Run part = watched(before, inputs);
        try {
          Agreement agreement = compare(after, run(after, inputs), before, part, promise);
          if (agreement.verdict == Agreement::Verdict::Different) return true;
        } catch (const Error&) {
          return true;
        }
      }
      return false;
    };
    auto shows = [&](const Module& module) {
      std::unique_ptr<Module> after = clone(module);
      pipeline::optimize(*after, optimizing(module, promise));
      return wrong_run(module, *after, nullptr);
    };
    std::unique_ptr<Module> small = options_.reduces ? reduced(*named, shows) : std::move(named);
    std::string rule = rule_of(*small, promise, [&](const Module& after, const std::string& error) {
      return error.empty() && wrong_run(*small, after, nullptr);
    });
    std::unique_ptr<Module> after = clone(*small);
    pipeline::optimize(*after, optimizing(*small, promise));
    std::vector<Datum> inputs;
    wrong_run(*small, *after, &inputs);
    add(what, detail, *small, after.get(), rule);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].is_tensor())
        findings_.back().model +=
            fmt::format("input {}: {}\n", i, print(inputs[i].tensor(), {.elide_constants = true}));
    }
  }

  // For ONNX Runtime: both models, the inputs of the first run, and by how much rounding may move each result.
  void write(const Bytes& before, const Bytes& after_bytes, const Module& after) {
    auto save = [&](const char* which, const Bytes& bytes) {
      std::ofstream out(options_.write / fmt::format("{}.{}.onnx", name_, which), std::ios::binary);
      out.write(reinterpret_cast<const char*>(bytes->data()), static_cast<std::streamsize>(bytes->size()));
    };
    save("before", before);
    save("after", after_bytes);
    std::vector<std::pair<std::string, Tensor>> arrays;
    const Run& first = runs_.front();
    for (const Parameter* p : before_->main()->parameters()) {
      if (first.inputs[p->index()].is_tensor())
        arrays.emplace_back(fmt::format("in:{}", p->name()), first.inputs[p->index()].tensor());
    }
    for (size_t i = 0; i < first.outputs.size(); ++i) {
      const Datum& value = first.outputs[i];
      const std::string key = fmt::format("out:{}", before_->output_names()[i]);
      auto add_result = [&](const Datum& item, std::string name) {
        if (item.is_tensor() && item.tensor().dtype() != DType::String)
          arrays.emplace_back(std::move(name), item.tensor());
      };
      add_result(value, key);
      if (value.kind() != Datum::Kind::Sequence) continue;
      for (size_t k = 0; k < value.items().size(); ++k) add_result(value.items()[k], fmt::format("{}:{}", key, k));
    }
    Noise noise_before(*before_, first.inputs), noise_after(after, first.inputs);
    for (size_t i = 0; i < first.outputs.size(); ++i) {
      const Datum& value = first.outputs[i];
      if (!value.is_tensor() || value.tensor().dtype() == DType::String || is_complex(value.tensor().dtype())) continue;
      std::vector<double> a = noise_before.spread(i, 0, value.tensor()), b = noise_after.spread(i, 0, value.tensor());
      if (a.size() != b.size() || a.empty()) a.assign(static_cast<size_t>(value.tensor().size()), INFINITY);
      for (size_t k = 0; k < std::min(a.size(), b.size()); ++k) a[k] += b[k];
      arrays.emplace_back(fmt::format("noise:{}", before_->output_names()[i]),
                          Tensor::from<double>(value.tensor().shape(), std::span<const double>(a)));
    }
    driver::write_npz(options_.write / fmt::format("{}.npz", name_), arrays);
  }

  RandomModel& model_;
  const std::shared_ptr<const rewrite::RuleSet>& rules_;
  Draw& draw_;
  const std::string& name_;
  const Options& options_;
  Counts& counts_;
  std::unique_ptr<Module> before_;
  std::vector<Run> runs_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> check_model(RandomModel& model, const std::shared_ptr<const rewrite::RuleSet>& rules, Draw& draw,
                                 const std::string& name, const Options& options, Counts& counts) {
  return Checker(model, rules, draw, name, options, counts).check();
}

}  // namespace anfora::fuzz

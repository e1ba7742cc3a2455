#include "driver/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "analysis/infer.h"
#include "driver/model.h"
#include "ir/clone.h"
#include "passes/pass.h"
#include "pipeline/pipeline.h"

namespace anfora::driver {
namespace {

// How much farther from the run in a wider type the second model may be: rounding errors are random.
constexpr double kErrorRatio = 2;

// Where the first model is farther from that run, its results are noise, and tell nothing of the second one: half precision has few
// digits anyway.
constexpr double kMostNoiseOfHalf = 0.5, kMostNoise = 1e-2;

// The inputs of `reference`, as `executable` takes them: by name where it takes fewer, else by position.
std::vector<Datum> inputs_for(const runtime::Executable& executable, const ir::Module& reference,
                              const std::vector<Datum>& inputs) {
  if (executable.inputs().size() >= inputs.size()) return inputs;
  std::vector<Datum> own;
  for (const auto& wanted : executable.inputs()) {
    auto parameters = reference.main()->parameters();
    auto found = std::ranges::find(parameters, wanted.name, [](const ir::Parameter* p) { return p->name(); });
    if (found == parameters.end()) return inputs;
    own.push_back(inputs[static_cast<size_t>(found - parameters.begin())]);
  }
  return own;
}

bool is_floating(const Datum& datum) { return datum.is_tensor() && is_float(datum.tensor().dtype()); }

// A model in wider arithmetic, and which.
struct Wide {
  runtime::Executable executable;
  DType dtype;
};

// In f32 where it has arithmetic of half precision, else in f64 if that may decide; nothing when there is none.
std::optional<Wide> compile_wide(const ir::Module& module, rewrite::Promise promise) {
  std::unique_ptr<ir::Module> wide = clone(module);
  analysis::infer_types(*wide);
  pipeline::expand(*wide);
  if (pipeline::run_pass(passes::kWiden, *wide) > 0) return Wide{plan::compile(std::move(*wide)), DType::F32};
  if (promise != rewrite::Promise::Real || pipeline::run_pass(passes::kWidenSingle, *wide) == 0) return std::nullopt;
  return Wide{plan::compile(std::move(*wide)), DType::F64};
}

// The inputs of one run, and what both models make of them.
struct Run {
  std::vector<Datum> inputs, first, second;
  std::vector<Datum> wide = {};  // the first model in wider arithmetic; empty: not asked for
};

class Check {
 public:
  Check(const ir::Module& reference, const AgreementOptions& options) : reference_(reference), options_(options) {}

  void compare_outputs(const runtime::Executable& a, Run& run, bool edge) {
    const bool finite_only = edge && options_.promise != rewrite::Promise::Exact;
    for (size_t i = 0; i < run.first.size() && agreement.same; ++i) {
      Comparison comparison = compare(run.second[i], run.first[i], std::nullopt, Scale::Tensor, finite_only);
      bool is_worst = agreement.output.empty() || comparison.worst_relative > agreement.worst_relative;
      if (is_worst || !comparison.difference.empty()) agreement.output = a.outputs()[i].name;
      agreement.worst = std::max(agreement.worst, comparison.worst);
      agreement.worst_relative = std::max(agreement.worst_relative, comparison.worst_relative);
      if (comparison.difference.empty() || (is_floating(run.first[i]) && is_as_near(run, i, finite_only))) continue;
      agreement.same = false;
      agreement.message = fmt::format("output '{}' on {} inputs: {}", a.outputs()[i].name, edge ? "edge" : "random",
                                      comparison.difference);
    }
  }

  Agreement agreement;

 private:
  bool is_as_near(Run& run, size_t output, bool finite_only) {
    if (!std::exchange(is_wide_known_, true)) wide_ = compile_wide(reference_, options_.promise);
    if (!wide_) return false;
    if (run.wide.empty()) run.wide = wide_->executable.run(run.inputs, {.seed = options_.seed});
    double first =
        compare(run.first[output], run.wide[output], std::nullopt, Scale::Tensor, finite_only).worst_relative;
    if (!(first < (wide_->dtype == DType::F32 ? kMostNoiseOfHalf : kMostNoise))) return false;  // or a NaN
    Comparison second =
        compare(run.second[output], run.wide[output], Tolerance{kErrorRatio * first, 0}, Scale::Tensor, finite_only);
    if (!second.difference.empty()) return false;
    if (!agreement.errors) agreement.errors.emplace(RoundingErrors{.in = wide_->dtype});
    agreement.errors->first = std::max(agreement.errors->first, first);
    agreement.errors->second = std::max(agreement.errors->second, second.worst_relative);
    return true;
  }

  const ir::Module& reference_;
  const AgreementOptions& options_;
  std::optional<Wide> wide_;  // made when it is first asked for
  bool is_wide_known_ = false;
};

}  // namespace

std::string RoundingErrors::text() const {
  return fmt::format("as near as the first model: {:.0e} and {:.0e} from a run in {}", second, first, name(in));
}

Agreement check_agreement(const ir::Module& reference, runtime::Executable& a, runtime::Executable& b,
                          const AgreementOptions& options) {
  if (a.outputs().size() != b.outputs().size()) {
    return {.same = false, .message = fmt::format("{} outputs against {}", a.outputs().size(), b.outputs().size())};
  }
  Check check(reference, options);
  for (int i = 0; i <= options.runs && check.agreement.same; ++i) {
    const bool edge = i == options.runs;
    Run run{.inputs = random_inputs(reference, {.seed = options.seed + static_cast<uint64_t>(i), .dims = options.dims},
                                    edge)};
    run.first = a.run(run.inputs, {.seed = options.seed});
    run.second = b.run(inputs_for(b, reference, run.inputs), {.seed = options.seed});
    check.compare_outputs(a, run, edge);
  }
  return std::move(check.agreement);
}

}  // namespace anfora::driver

#include "driver/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "analysis/infer.h"
#include "anfora/error.h"
#include "driver/fit.h"
#include "driver/model.h"
#include "ir/clone.h"
#include "passes/pass.h"
#include "pipeline/pipeline.h"
#include "support/element_types.h"

namespace anfora::driver {
namespace {

// How much farther from the run in a wider type the second model may be: rounding errors are random.
constexpr double kErrorRatio = 2;

// Where the first model is farther from that run, its results are noise, and tell nothing of the second one: half precision has few
// digits anyway.
constexpr double kMostNoiseOfHalf = 0.5, kMostNoise = 1e-2;

// Runs on inputs that are moved: how far an ill-conditioned output moves differs much from one to the next.
constexpr size_t kMovedRuns = 16;

// The share of elements that may jump when rounding decides them, before the output counts as noise.
constexpr double kMostJumps = 0.05;

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

// Binary digits behind the first one.
int fraction_digits(DType dtype) {
  switch (dtype) {
    case DType::F16: return 10;
    case DType::BF16: return 7;
    case DType::F64: return 52;
    default: return 23;
  }
}

// The inputs with every float moved by one unit in the last place, up or down.
std::vector<Datum> moved(const std::vector<Datum>& inputs, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Datum> result;
  for (const Datum& datum : inputs) {
    if (!is_floating(datum) || element_bytes(datum.tensor().dtype()) < 2) {
      result.push_back(datum);
      continue;
    }
    Tensor tensor = datum.tensor().clone();
    const double unit = std::ldexp(1.0, -fraction_digits(tensor.dtype()));
    dispatch<Floats>(tensor.dtype(), [&]<class T>() {
      for (T& x : tensor.data<T>()) {
        const double value = static_cast<double>(static_cast<ComputeType<T>>(x));
        if (!std::isfinite(value)) continue;
        x = static_cast<T>(static_cast<ComputeType<T>>(value * (random() & 1 ? 1 + unit : 1 - unit)));
      }
    });
    result.emplace_back(std::move(tensor));
  }
  return result;
}

// A model in wider arithmetic, and which.
struct Wide {
  runtime::Executable executable;
  DType dtype;
};

// In f32 where it has arithmetic of half precision, else in f64 if that may decide; nothing when there is none.
std::optional<Wide> compile_wide(const ir::Module& module, rewrite::Promise promise) {
  std::unique_ptr<ir::Module> wide = clone(module);
  analysis::infer_types(*wide);
  expand(*wide);
  if (pipeline::run_pass("widen", *wide) > 0) return Wide{plan::compile(std::move(*wide)), DType::F32};
  if (promise != rewrite::Promise::Real || pipeline::run_pass("widen-single", *wide) == 0) return std::nullopt;
  return Wide{plan::compile(std::move(*wide)), DType::F64};
}

// A model in wider arithmetic, made when it is first asked for.
class LazyWide {
 public:
  LazyWide(const ir::Module& module, rewrite::Promise promise) : module_(module), promise_(promise) {}
  Wide* get() {
    if (!std::exchange(is_known_, true)) wide_ = compile_wide(module_, promise_);
    return wide_ ? &*wide_ : nullptr;
  }

 private:
  const ir::Module& module_;
  const rewrite::Promise promise_;
  std::optional<Wide> wide_;
  bool is_known_ = false;
};

// The inputs of one run, and what models make of them. What is empty was not asked for.
struct Run {
  std::vector<Datum> inputs = {}, first = {}, second = {};
  bool is_edge = false, is_given = false;
  std::vector<std::vector<Datum>> moved_inputs = {}, moved = {};
  std::vector<Datum> wide = {}, wide_second = {}, wide_moved = {};

  std::string_view kind() const { return is_given ? "the given" : is_edge ? "edge" : "random"; }
};

// What a comparison of two runs of the first model, which differ by rounding only, says of its output.
struct Noise {
  double worst = 0, relative = 0;
  int64_t differing = 0, elements = 0;
  bool has_lost = false;  // numbers that are none

  explicit Noise(const Comparison& c)
      : worst(c.worst),
        relative(c.worst > 0 && c.worst_relative == 0 ? INFINITY : c.worst_relative),  // of an output of zeros
        differing(c.differing),
        elements(c.elements),
        has_lost(c.lost > 0) {}

  // The larger of both.
  void merge(const Noise& other) {
    worst = std::max(worst, other.worst);
    relative = std::max(relative, other.relative);
    differing = std::max(differing, other.differing);
    has_lost = has_lost || other.has_lost;
  }

  bool has_jumps() const { return static_cast<double>(differing) <= kMostJumps * static_cast<double>(elements); }
  bool explains(const Comparison& difference, double most, bool is_float) const {
    if (difference.lost > 0 || has_lost) return false;
    if (is_float && relative < most) return difference.worst <= kErrorRatio * worst;
    return has_jumps() && static_cast<double>(difference.differing) <= kErrorRatio * static_cast<double>(differing);
  }
  // Whether the output says nothing.
  bool drowns(double most, bool is_float) const {
    return has_lost || (differing > 0 && !has_jumps() && (!is_float || relative >= most));
  }
};

class Check {
 public:
  Check(const ir::Module& first, runtime::Executable& a, const ir::Module& second, runtime::Executable& b,
        const AgreementOptions& options)
      : first_(first),
        a_(a),
        b_(b),
        options_(options),
        wide_(first, options.promise),
        wide_second_(second, options.promise),
        told_(a.outputs().size()) {}

  void compare_outputs(Run& run) {
    for (size_t i = 0; i < run.first.size() && agreement.same; ++i) {
      Comparison difference = compare_promised(run.second[i], run.first[i], options_.tolerance);
      const bool is_worst = agreement.output.empty() || difference.worst_relative > agreement.worst_relative;
      const Verdict verdict = difference.difference.empty() ? Verdict::Same
                              : options_.tolerance          ? Verdict::Different
                                                            : judge(run, i, difference);
      if (verdict == Verdict::Noise) continue;
      told_[i] = true;
      if (is_worst || verdict == Verdict::Different) agreement.output = a_.outputs()[i].name;
      agreement.worst = std::max(agreement.worst, difference.worst);
      agreement.worst_relative = std::max(agreement.worst_relative, difference.worst_relative);
      if (verdict == Verdict::Same) continue;
      agreement.same = false;
      agreement.message =
          fmt::format("output '{}' on {} inputs: {}", a_.outputs()[i].name, run.kind(), difference.difference);
    }
  }

  // Of outputs that drowned in noise in every run.
  void conclude() {
    auto untold = std::ranges::find(told_, false);
    if (!agreement.same || untold == told_.end() || !agreement.is_compared()) return;
    agreement.not_compared = fmt::format("rounding alone changes output '{}' on made-up inputs as much",
                                         a_.outputs()[static_cast<size_t>(untold - told_.begin())].name);
    agreement.suggestion = "--input in.npz";
  }

  Agreement agreement;

 private:
  enum class Verdict : uint8_t { Same, Different, Noise };

  Comparison compare_promised(const Datum& got, const Datum& want, std::optional<Tolerance> tolerance = {}) const {
    return compare(got, want, tolerance, Scale::Tensor, options_.promise != rewrite::Promise::Exact);
  }

  Verdict judge(Run& run, size_t i, const Comparison& difference) {
    const bool is_float = is_floating(run.first[i]);
    const bool may_round = options_.promise == rewrite::Promise::Real;
    // Shapes, kinds and the like are no matter of rounding.
    if (difference.differing == 0) return Verdict::Different;
    bool is_noise = false;
    if (may_round) {
      std::optional<Noise> noise;
      for (size_t k = 0; k < kMovedRuns; ++k) {
        if (k == run.moved.size()) {
          run.moved_inputs.push_back(moved(run.inputs, options_.seed + k));
          run.moved.push_back(ran(a_, run.moved_inputs.back()));
        }
        if (run.moved[k].empty()) continue;
        const Noise of_one(compare_promised(run.moved[k][i], run.first[i]));
        if (noise) {
          noise->merge(of_one);
        } else {
          noise = of_one;
        }
        if (noise->explains(difference, kMostNoise, is_float)) return Verdict::Same;
      }
      is_noise = noise && noise->drowns(kMostNoise, is_float);
    }
    Wide* wide = wide_.get();
    if (!wide) return is_noise ? Verdict::Noise : Verdict::Different;
    if (run.wide.empty()) run.wide = ran(wide->executable, run.inputs);
    if (run.wide.empty()) return is_noise ? Verdict::Noise : Verdict::Different;
    const double most = wide->dtype == DType::F32 ? kMostNoiseOfHalf : kMostNoise;
    const Comparison from_first = compare_promised(run.first[i], run.wide[i]),
                     from_second = compare_promised(run.second[i], run.wide[i]);
    const Noise noise(from_first);
    if (noise.explains(from_second, most, is_float)) {
      remember(from_first.worst_relative, from_second.worst_relative, wide->dtype);
      return Verdict::Same;
    }
    is_noise = is_noise || noise.drowns(most, is_float);
    if (!is_noise || !may_round) return Verdict::Different;
    if (run.is_edge) return Verdict::Noise;
    return judge_wide(run, i, is_float);
  }

  // Both models in the wider type.
  Verdict judge_wide(Run& run, size_t i, bool is_float) {
    Wide* second = wide_second_.get();
    if (!second) return Verdict::Noise;
    if (run.wide_second.empty()) run.wide_second = ran(second->executable, inputs_for(b_, first_, run.inputs));
    if (run.wide_moved.empty()) run.wide_moved = ran(wide_.get()->executable, run.moved_inputs.front());
    if (run.wide_second.empty() || run.wide_moved.empty()) return Verdict::Noise;
    const Comparison difference = compare_promised(run.wide_second[i], run.wide[i]);
    if (difference.difference.empty()) return Verdict::Same;
    const Noise noise(compare_promised(run.wide_moved[i], run.wide[i]));
    if (noise.explains(difference, kMostNoise, is_float)) return Verdict::Same;
    return noise.drowns(kMostNoise, is_float) ? Verdict::Noise : Verdict::Different;
  }

  // Empty: it fails.
  std::vector<Datum> ran(runtime::Executable& executable, const std::vector<Datum>& inputs) const {
    try {
      return executable.run(inputs, {.seed = options_.seed});
    } catch (const Error&) {
      return {};
    }
  }

  void remember(double first, double second, DType in) {
    if (!agreement.errors) agreement.errors.emplace(RoundingErrors{.in = in});
    agreement.errors->first = std::max(agreement.errors->first, first);
    agreement.errors->second = std::max(agreement.errors->second, second);
  }

  const ir::Module& first_;
  runtime::Executable &a_, &b_;
  const AgreementOptions& options_;
  LazyWide wide_, wide_second_;
  std::vector<bool> told_;  // by output: whether some run told anything of it
};

// What the second model's failure on inputs that the first one takes means: a difference, unless it is a want of kernels or memory.
bool is_difference(const Error& error) {
  return error.code() != ErrorCode::Unsupported && error.code() != ErrorCode::ResourceExhausted;
}

}  // namespace

std::string RoundingErrors::text() const {
  return fmt::format("as near as the first model: {:.0e} and {:.0e} from a run in {}", second, first, name(in));
}

Agreement check_agreement(const ir::Module& first, runtime::Executable& a, const ir::Module& second,
                          runtime::Executable& b, const AgreementOptions& options) {
  if (a.outputs().size() != b.outputs().size()) {
    return {.same = false, .message = fmt::format("{} outputs against {}", a.outputs().size(), b.outputs().size())};
  }
  Check check(first, a, second, b, options);
  Agreement& agreement = check.agreement;
  const runtime::RunOptions how{.seed = options.seed};
  // Whether the second model takes what the first one took.
  auto run_second = [&](Run& run) {
    try {
      run.second = b.run(inputs_for(b, first, run.inputs), how);
      return true;
    } catch (const Error& error) {
      agreement.same = !is_difference(error);
      (agreement.same ? agreement.not_compared : agreement.message) =
          fmt::format("the second model fails on {} inputs: {}", run.kind(), error.what());
      return false;
    }
  };
  if (!options.given.empty()) {
    Run run{.inputs = options.given, .is_given = true};
    run.first = a.run(run.inputs, how);
    if (run_second(run)) check.compare_outputs(run);
    check.conclude();
    return std::move(agreement);
  }
  Fit fit;
  if (options.made_up) {
    fit.inputs = *options.made_up;
  } else {
    fit = fit_inputs(first, a, {.seed = options.seed, .dims = options.dims});
    if (!fit.fits) {
      agreement.not_compared = fit.failure;
      agreement.suggestion = fit.suggestion;
      return std::move(agreement);
    }
    agreement.found = fit.found;
  }
  bool is_compared = false;
  for (int i = 0; i <= options.runs && agreement.same && agreement.is_compared(); ++i) {
    Run run{.is_edge = i == options.runs};
    RandomInputs made_up = fit.inputs;
    made_up.seed = options.seed + static_cast<uint64_t>(i);
    run.inputs = random_inputs(first, made_up, run.is_edge);
    try {
      run.first = i == 0 && !fit.outputs.empty() ? std::move(fit.outputs) : a.run(run.inputs, how);
    } catch (const Error& error) {
      if (!is_compared) fit.failure = error.what();
      continue;  // not every number suits every model
    }
    if (!run_second(run)) break;
    check.compare_outputs(run);
    is_compared = true;
  }
  if (!is_compared && agreement.same && agreement.is_compared()) agreement.not_compared = fit.failure;
  if (is_compared) check.conclude();
  return std::move(agreement);
}

}  // namespace anfora::driver

#include "driver/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <set>

#include "anfora/error.h"
#include "driver/explained_run.h"
#include "driver/fit.h"
#include "driver/inputs.h"
#include "driver/report_text.h"
#include "kernels/reference/prepared.h"

namespace anfora::driver {
namespace {

// What an implementation has to win: this part of the time, and more than the noise.
constexpr double kLeastGain = 0.05, kOfNoise = 2;

struct Effort {
  double seconds;           // of all turns, after which no further one begins
  double seconds_of_round;  // likewise, of those of a round, once there were the fewest
  int fewest_turns;         // that say something
  int most_turns;
};
Effort effort_of(Tune tune) {
  constexpr Effort kFast{.seconds = 5, .seconds_of_round = 5, .fewest_turns = 2, .most_turns = 4};
  constexpr Effort kFull{.seconds = 120, .seconds_of_round = 15, .fewest_turns = 4, .most_turns = 8};
  return tune == Tune::Full ? kFull : kFast;
}
// Of a program in a turn: the first one brings its weights back into the cache, where it is so short that they stay there.
constexpr int kRunsOfTurn = 2;
constexpr double kLongRun = 0.05;  // seconds

double steady_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool wins(const KindTime& time, const KindTime& expected) {
  const double noise = kOfNoise * std::max(time.noise, expected.noise);
  return time.milliseconds < expected.milliseconds * (1 - std::max(kLeastGain, noise));
}

// A kind, as far as it has been found out about.
struct Trial {
  std::vector<std::string> untried;
  TunedKernel found;
  double best = 1;        // the time of what is taken, in terms of the expected one
  bool is_known = false;  // whether it is done with
};

// What a round says about a kind.
void judge(Trial& trial, const KindTime& expected, const KindTime& time) {
  // Those before it do not apply, and where the expected one came, neither do the others.
  const auto tried = std::ranges::find(trial.untried, time.implementation);
  trial.untried.erase(trial.untried.begin(), tried == trial.untried.end() ? tried : tried + 1);
  trial.found.milliseconds.try_emplace(trial.found.expected, expected.milliseconds);
  if (time.implementation == trial.found.expected) return;
  trial.found.milliseconds[time.implementation] = time.milliseconds;
  const double ratio = time.milliseconds / expected.milliseconds;
  if (!wins(time, expected) || ratio >= trial.best) return;
  trial.best = ratio;
  trial.found.taken = time.implementation;
}

// Those that won have to do so again, beside each other: else an interruption would be enough.
void confirm(std::map<std::string, Trial>& trials, const Compare& compare) {
  Preferences winners;
  for (const auto& [name, trial] : trials) {
    if (trial.found.taken != trial.found.expected) winners[name] = {trial.found.taken};
  }
  if (winners.empty()) return;
  const std::optional<PairedTimes> comparison = compare(winners);
  for (const auto& [name, winner] : winners) {
    Trial& trial = trials.at(name);
    const bool wins_again = comparison && wins(comparison->preferred.at(name), comparison->expected.at(name));
    if (!wins_again) trial.found.taken = trial.found.expected;
    if (!comparison) trial.is_known = false;
  }
}

}  // namespace

Findings find_fastest(const std::vector<KernelKind>& kinds, Tune tune, const Compare& compare) {
  std::map<std::string, Trial> trials;
  for (const KernelKind& kind : kinds) {
    Trial& trial = trials[kind.name];
    trial.found = {.taken = kind.expected, .expected = kind.expected, .among = kind.implementations, .tune = tune};
    std::ranges::remove_copy(kind.implementations, std::back_inserter(trial.untried), kind.expected);
  }
  while (true) {
    Preferences preferences;
    for (const auto& [name, trial] : trials) {
      if (!trial.is_known) preferences[name] = trial.untried;
    }
    if (preferences.empty()) break;
    const std::optional<PairedTimes> comparison = compare(preferences);
    if (!comparison) break;
    for (const auto& [name, untried] : preferences) {
      Trial& trial = trials.at(name);
      const auto expected = comparison->expected.find(name), time = comparison->preferred.find(name);
      const bool has_run = expected != comparison->expected.end() && time != comparison->preferred.end();
      if (has_run) judge(trial, expected->second, time->second);
      trial.is_known = !has_run || trial.untried.empty() || tune == Tune::Fast;
    }
  }
  confirm(trials, compare);
  Findings findings{.kernels = {}, .is_complete = true};
  for (auto& [name, trial] : trials) {
    if (!trial.is_known) {
      findings.is_complete = false;
      if (tune == Tune::Fast || trial.found.milliseconds.empty()) continue;
      trial.found.tune = Tune::Fast;  // which does as much
    }
    findings.kernels.emplace(name, std::move(trial.found));
  }
  return findings;
}

namespace {

// The smallest times of kernels in the runs of a program; apart for turns of even and of odd numbers.
class SmallestTimes {
 public:
  explicit SmallestTimes(const runtime::Executable& executable, const Preferences& kinds) {
    for (const auto& kernel : executable.program().kernels) {
      std::string kind = kind_of(*kernel);
      if (kinds.contains(kind)) kinds_.emplace(kernel.get(), std::move(kind));
    }
  }

  void add(const runtime::Profiler& profiler, int turn) {
    std::map<const runtime::Kernel*, double> times;  // a loop runs a kernel several times
    for (const runtime::Profiler::KernelEvent& event : profiler.kernels()) {
      if (!kinds_.contains(event.kernel)) continue;
      times[event.kernel] += std::chrono::duration<double, std::milli>(event.end - event.begin).count();
    }
    auto& smallest = smallest_[static_cast<size_t>(turn % 2)];
    for (const auto& [kernel, time] : times) {
      auto [place, is_new] = smallest.try_emplace(kernel, time);
      if (!is_new) place->second = std::min(place->second, time);
    }
  }

  KindTimes by_kind() const {
    std::map<std::string, std::array<double, 2>> halves;
    KindTimes times;
    for (const auto& [kernel, even] : smallest_[0]) {
      const auto found = smallest_[1].find(kernel);
      const double odd = found == smallest_[1].end() ? even : found->second;
      const std::string& kind = kinds_.at(kernel);
      times[kind].implementation = kernel->implementation;
      times[kind].milliseconds += std::min(even, odd);
      halves[kind][0] += even;
      halves[kind][1] += odd;
    }
    for (auto& [kind, time] : times) {
      const auto [least, most] = std::minmax(halves[kind][0], halves[kind][1]);
      time.noise = (most - least) / std::max(least, 1e-9);
    }
    return times;
  }

 private:
  std::map<const runtime::Kernel*, std::string> kinds_;
  std::array<std::map<const runtime::Kernel*, double>, 2> smallest_;
};

// The programs of a module, and inputs to run them with.
class Measurement {
 public:
  Measurement(const ir::Module& module, const plan::CompileOptions& options, const TuneOptions& how, std::function<double()> clock)
      : module_(module), options_(options), effort_(effort_of(how.tune)), clock_(std::move(clock)) {}

  // Compiles the expected program: what implementations kernels have in it, by kind.
  std::map<std::string, std::string> compile_expected() {
    expected_.emplace(plan::compile(module_, options_));
    std::map<std::string, std::string> implementations;
    for (const auto& kernel : expected_->program().kernels) implementations.emplace(kind_of(*kernel), kernel->implementation);
    return implementations;
  }

  // Runs it: throws where it does not run on the inputs, or on any that can be made up.
  void set_inputs(const std::optional<std::vector<Datum>>& given) {
    inputs_ = given ? *given : random_inputs(module_, {});
    for (Datum& input : inputs_) {
      if (input.is_tensor() && input.tensor().dtype() != DType::String) input = Datum(input.tensor().clone());  // it may be donated
    }
    try {
      expected_->run(inputs_);
    } catch (const Error&) {
      if (given) throw;
      const Fit fit = fit_inputs(module_, *expected_);
      if (!fit.fits) throw Error(ErrorCode::InvalidArgument, fit.failure);
      inputs_ = random_inputs(module_, fit.inputs);
    }
  }

  std::optional<PairedTimes> compare(const Preferences& preferences) {
    if (is_over()) return std::nullopt;
    plan::CompileOptions options = options_;
    options.choice = [&](const kernels::KernelData& data) {
      const auto found = preferences.find(kind_of(data));
      return found == preferences.end() ? std::vector<std::string>() : found->second;
    };
    const runtime::Executable preferred = plan::compile(module_, options);
    SmallestTimes expected_times(*expected_, preferences), preferred_times(preferred, preferences);
    preferred.run(inputs_);  // plans its memory
    int turn = 0;
    double spent = 0;
    for (; turn < effort_.most_turns && !is_over() && (turn < effort_.fewest_turns || spent < effort_.seconds_of_round); ++turn) {
      const double begin = clock_();
      run(*expected_, expected_times, turn);
      run(preferred, preferred_times, turn);
      spent += clock_() - begin;
      spent_ += clock_() - begin;
    }
    if (turn < effort_.fewest_turns) return std::nullopt;
    return PairedTimes{expected_times.by_kind(), preferred_times.by_kind()};
  }

 private:
  bool is_over() const { return spent_ >= effort_.seconds; }

  void run(const runtime::Executable& executable, SmallestTimes& times, int turn) const {
    for (int i = 0; i < kRunsOfTurn; ++i) {
      using Time = runtime::Profiler::Time;
      runtime::Profiler profiler(executable.threads() == 1 ? Time::OfThread : Time::Elapsed);
      executable.run(inputs_, {.profiler = &profiler});
      times.add(profiler, turn);
      if (profiler.milliseconds() > kLongRun * 1e3) break;
    }
  }

  const ir::Module& module_;
  const plan::CompileOptions& options_;
  Effort effort_;
  std::function<double()> clock_;
  double spent_ = 0;
  std::optional<runtime::Executable> expected_;
  std::vector<Datum> inputs_;
};

// What there is to tune in a module.
struct Kinds {
  std::map<std::string, std::vector<std::string>> implementations;  // by kind, in the order in which they are tried
  std::map<std::string, size_t> count;                              // of kernels, by kind
  size_t open = 0;                                                  // kernels that would have a choice if their shapes were known
};

Kinds kinds_of(const ir::Module& module, const plan::CompileOptions& options) {
  Kinds kinds;
  auto registries = plan::registries(options);
  std::erase(registries, &kernels::prepared_reference_kernels());  // the slow and simple way
  for (const kernels::KernelData& data : plan::describe_kernels(module)) {
    std::vector<std::string> names;
    auto add = [&](const std::vector<std::string_view>& more) {
      for (std::string_view name : more) {
        if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
      }
    };
    for (const kernels::PreparedRegistry* registry : registries) add(registry->implementations(data.op));
    for (const kernels::PreparedRegistry* registry : registries) add(registry->forms(data.op));
    if (names.size() < 2) continue;
    if (!data.is_static()) {
      ++kinds.open;
      continue;
    }
    const std::string kind = kind_of(data);
    ++kinds.count[kind];
    kinds.implementations.emplace(kind, std::move(names));
  }
  return kinds;
}

void report(const Kinds& kinds, const TunedKernels& chosen, size_t measured, double seconds,
            const std::function<void(const std::string&)>& note) {
  std::string text = fmt::format("tuned {} of {} of kernels", chosen.size(), counted(kinds.implementations.size(), "kind"));
  if (measured > 0) text += fmt::format(", {} measured in {:.1f} s", measured, seconds);
  if (measured == 0 && !chosen.empty()) text += ", as the cache has them";
  if (kinds.open > 0) text += fmt::format("; {} of sizes that only a run knows left out", counted(kinds.open, "kernel"));
  note(text);
  for (const auto& [name, kernel] : chosen) {
    if (kernel.taken == kernel.expected) continue;
    note(fmt::format("  {}: {} {:.3f} ms instead of {} {:.3f} ms, {}", name, kernel.taken, kernel.milliseconds.at(kernel.taken),
                     kernel.expected, kernel.milliseconds.at(kernel.expected), counted(kinds.count.at(name), "kernel")));
  }
}

// Measures the kinds that are not chosen yet.
Findings measure(const ir::Module& module, const plan::CompileOptions& options, const TuneOptions& how, const Kinds& kinds,
                 const TunedKernels& chosen, const std::function<double()>& clock) {
  Measurement measurement(module, options, how, clock);
  const std::map<std::string, std::string> expected = measurement.compile_expected();
  std::vector<KernelKind> open;
  TunedKernels absent;  // a part of the kernel of a group, say
  for (const auto& [kind, names] : kinds.implementations) {
    if (chosen.contains(kind)) continue;
    const auto found = expected.find(kind);
    if (found != expected.end()) {
      open.push_back({kind, found->second, names});
    } else {
      absent[kind] = {.taken = "none", .expected = "none", .among = names, .tune = how.tune};
    }
  }
  measurement.set_inputs(how.inputs);
  Findings findings =
      find_fastest(open, how.tune, [&](const Preferences& preferences) { return measurement.compare(preferences); });
  findings.kernels.merge(absent);
  return findings;
}

}  // namespace

plan::KernelChoice tune_kernels(const ir::Module& module, const plan::CompileOptions& options, const TuneOptions& how) {
  const auto note = [&](const std::string& text) {
    if (how.on_note) how.on_note(text);
  };
  const std::function<double()> clock = how.clock ? how.clock : steady_seconds;
  const double begin = clock();
  const Kinds kinds = kinds_of(module, options);
  const TuningCache cache = how.cache ? *how.cache : TuningCache(options.threads);
  TunedKernels chosen;
  for (auto& [kind, kernel] : cache.read(note)) {
    const auto found = kinds.implementations.find(kind);
    const bool is_known = found != kinds.implementations.end() && kernel.among == found->second && kernel.tune >= how.tune;
    if (is_known) chosen.emplace(kind, kernel);
  }
  size_t measured = 0;
  if (chosen.size() < kinds.implementations.size()) {
    if (has_effects(module)) {
      note("not tuned: a run of the model has effects");
    } else {
      try {
        const Findings findings = measure(module, options, how, kinds, chosen, clock);
        if (!findings.is_complete) note("tuning: time is over, the other kernels are chosen by the cost model");
        cache.add(findings.kernels, note);
        measured = findings.kernels.size();
        chosen.insert(findings.kernels.begin(), findings.kernels.end());
      } catch (const Error& error) {
        note(fmt::format("not tuned: the model does not run: {}", error.what()));
      }
    }
  }
  report(kinds, chosen, measured, clock() - begin, note);
  std::erase_if(chosen, [](const auto& kernel) { return kernel.second.taken == kernel.second.expected; });
  return [chosen = std::move(chosen)](const kernels::KernelData& data) {
    const auto found = chosen.find(kind_of(data));
    return found == chosen.end() ? std::vector<std::string>() : std::vector<std::string>{found->second.taken};
  };
}

}  // namespace anfora::driver

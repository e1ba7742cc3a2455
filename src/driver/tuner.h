// Kernels chosen by measuring inside the model.
//
// Several implementations can compute the same kernel, and which is the fastest depends on the shape and the machine. Alone, a kernel finds
// its operands in the cache, and in a model it does not: so the model itself is run, with the time of each kernel. All kinds of kernels are
// tried at once, each in its next implementation:
//
//                           Conv A              MatMul B              MatMul C
//     expected              generated:winograd  onednn:matmul         generated:product     what the cost model chooses
//     round 1               onednn:convolution  generated:product     onednn:matmul
//     round 2                                   onednn:convolution    onednn:convolution
//     again                                     generated:product                           those that won, in one program
//
// A round runs the expected program and that of the round in turns, so that what else the machine does meets both, and takes of each kernel
// the smallest time. An implementation wins over the expected one by a margin beyond the noise, which is how far the times of some turns and of
// the others lie apart; else the cost model's choice stays, so that the result hardly depends on chance.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "driver/tuning_cache.h"
#include "ir/module.h"
#include "plan/compile.h"

namespace anfora::driver {

// Implementations to try for kernels, by kind, the one to try first first.
using Preferences = std::map<std::string, std::vector<std::string>, std::less<>>;

// Of all kernels of a kind, in one run.
struct KindTime {
  std::string implementation;
  double milliseconds = 0;
  double noise = 0;  // how far times of the same kernels lie apart, as a fraction
};
using KindTimes = std::map<std::string, KindTime, std::less<>>;

struct PairedTimes {
  KindTimes expected, preferred;
};
// Compares the expected program with that of the preferences; nothing where time is over.
using Compare = std::function<std::optional<PairedTimes>(const Preferences& preferences)>;

// A kind of kernel that has several implementations, the expected one among them.
struct KernelKind {
  std::string name, expected;
  std::vector<std::string> implementations;
};

struct Findings {
  TunedKernels kernels;      // of the kinds that were measured; where time was over before all was, as far as Tune::Fast
  bool is_complete = false;  // all were, as far as was asked for
};
// Finds the fastest implementations.
Findings find_fastest(const std::vector<KernelKind>& kinds, Tune tune, const Compare& compare);

struct TuneOptions {
  Tune tune = Tune::Fast;
  std::optional<std::vector<Datum>> inputs = {};               // to run with; none: made up
  std::function<void(const std::string&)> on_note = {};        // told what was tried and won, and how long it took
  std::function<double()> clock = {};                          // seconds; none: the machine's
  std::optional<TuningCache> cache = {};                       // none: the default one
};

// The choice of kernels for a module that is about to be compiled with these options: what the cache has, or else measurements tell.
// A model that has effects, or that runs on none of the inputs, is not measured; kernels whose shapes only a run knows are left to the cost
// model. Takes as much memory as two executables.
plan::KernelChoice tune_kernels(const ir::Module& module, const plan::CompileOptions& options, const TuneOptions& how);

}  // namespace anfora::driver

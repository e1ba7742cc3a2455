// What a call of a compiled model costs beside its kernels: the time of one run of a model that computes next to nothing.
//
//     call_overhead bench/add.ir 200000 1        model, calls a round, threads
//
// Sizes that only a run knows are 1. Prints one line of JSON: microseconds a call of the public and of the inner interface, with outputs given or new.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

#include "anfora/error.h"
#include "anfora/model.h"
#include "driver/model.h"

namespace {

using anfora::Datum;

constexpr int kRounds = 5;

// Microseconds a call, of the best round: the others were disturbed.
template <class Call>
double measure(int calls, Call&& call) {
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - begin;
    best = std::min(best, elapsed.count() / calls);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) return std::fprintf(stderr, "usage: call_overhead model [calls [threads]]\n"), 2;
  const int calls = argc > 2 ? std::atoi(argv[2]) : 200'000;
  const int threads = argc > 3 ? std::atoi(argv[3]) : 1;

  anfora::Model model = anfora::Model::load(argv[1]);
  anfora::NamedTensors inputs, outputs;
  std::vector<Datum> data;
  for (const anfora::ValueInfo& input : model.inputs()) {
    anfora::Shape shape = input.shape;
    std::ranges::replace(shape, anfora::kUnknownSize, 1);
    data.push_back(inputs[input.name] = anfora::Tensor::zeros(input.dtype, shape));
  }
  const anfora::Executable executable = std::move(model).compile({.threads = threads});
  outputs = executable.run(inputs);
  const double given = measure(calls, [&] { executable.run(inputs, outputs); });
  const double fresh = measure(calls, [&] { executable.run(inputs); });

  const auto compiled = anfora::driver::compile_model(anfora::driver::load_model(argv[1]), {.threads = threads});
  std::vector<Datum> results = compiled.run(data);
  const double inner_given = measure(calls, [&] { compiled.run(data, results); });
  const double inner_fresh = measure(calls, [&] { compiled.run(data); });
  std::printf(R"({"threads": %d, "given": %.3f, "new": %.3f, "inner_given": %.3f, "inner_new": %.3f})" "\n", threads, given,
              fresh, inner_given, inner_fresh);
  return 0;
} catch (const anfora::Error& error) {
  return std::fprintf(stderr, "call_overhead: %s\n", error.what()), 1;
}

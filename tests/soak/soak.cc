// Eight threads run the same executables with changing shapes, for as long as is asked:
//
//     soak [seconds]
//
// Each result is, bit by bit, that of a run alone, and the process does not grow.
#include <malloc.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "analysis/infer.h"
#include "anfora/error.h"
#include "ir/parse.h"
#include "ops/registry.h"
#include "plan/compile.h"
#include "support/resident_memory.h"

namespace anfora {
namespace {

using Clock = std::chrono::steady_clock;

// Without what malloc keeps of what was freed, which goes up and down by tens of megabytes.
int64_t resident_bytes_in_use() {
  malloc_trim(0);
  return resident_bytes();
}

constexpr int kThreads = 8, kMostThreads = 2, kSizes = 6;  // of callers; of one of them
#ifdef __SANITIZE_THREAD__
constexpr int64_t kMostGrowth = INT64_MAX;  // which remembers all threads
#else
constexpr int64_t kMostGrowth = 32 << 20;  // bytes: what malloc keeps differs from time to time
#endif

// Each takes one input of [N, 16].
constexpr const char* kModels[] = {
    R"(graph @main(%x: f32[N, 16]) {
         %w = const f32[16, 32] 0.25
         %b = const f32[32] 0.5
         %0 = Relu(Add(MatMul(%x, %w), %b))
         return (Softmax(%0), ReduceMean(%0, [0]), Transpose(%0))
       })",
    R"(graph @main(%x: f32[N, 16]) {
         %k = const f32[4, 1, 3, 3] 0.125
         %0 = Reshape(%x, [1, 1, -1, 16])
         return MaxPool(Relu(Conv(%0, %k){pads=[1, 1, 1, 1]})){kernel_shape=[1, 2]}
       })",
    R"(graph @main(%x: f32[N, 16]) {
         %s = const f32[16] 1.5
         %b = const f32[16] 0.25
         %n = LayerNormalization(%x, %s, %b)
         return (MatMul(Softmax(MatMul(%n, Transpose(%n))), %n), NonZero(Relu(%n)))
       })",
    R"(graph @main(%x: f32[N, 16]) { return call @loop(0, %x, Mul(%x, 0.5)) }
       graph @loop(%i, %v, %w) { return call Switch(Less(%i, 20), @body, @done)() }
       graph @body() in @loop { return call @loop(Add(%i, 1), Tanh(Add(%v, %w)), Mul(Sub(%w, %v), 0.75)) }
       graph @done() in @loop { return (%v, Concat(%v, %w){axis=0}) })",
    // Rows and images that several threads share.
    R"(graph @main(%x: f32[N, 16]) {
         %k = const f32[32, 16, 5, 5] 0.0625
         %0 = CumSum(CumSum(Expand(Reshape(%x, [-1, 1, 1, 16]), [1, 24, 40, 1]), 1), 2)
         %1 = LoweredConv(%0, %k){channels_last=1, pads=[2, 2, 2, 2], activation="Relu"}
         return (%1, MatMul(Reshape(%1, [-1, 32]), Expand(0.125, [32, 64])))
       })",
    // Too few rows are an error, which leaves the others alone.
    R"(graph @main(%x: f32[N, 16]) { return call Switch(Less(ReduceSum(%x){keepdims=0}, 0.0), @f, @g)() }
       graph @f() in @main { return Gather(%x, [3, 0]) }
       graph @g() in @main { return Slice(Exp(%x), [0], [2], [0]) })"};

struct Run {
  const runtime::Executable* executable;
  Datum input;
  std::array<std::vector<Datum>, kMostThreads> expected;  // alone, with each number of threads; none: an error
};

Tensor noise(int64_t rows, std::mt19937& random) {
  Tensor tensor = Tensor::allocate(DType::F32, Shape{rows, 16});
  for (float& element : tensor.data<float>()) element = std::uniform_real_distribution<float>(-2, 2)(random);
  return tensor;
}

bool equal(const std::vector<Datum>& a, const std::vector<Datum>& b) {
  return std::ranges::equal(a, b, [](const Datum& x, const Datum& y) { return Tensor::identical(x.tensor(), y.tensor()); });
}

// Whether the results are those expected, into new memory or that of `given`.
bool is_right(const Run& run, int threads, bool into_given) {
  const std::vector<Datum>& expected = run.expected.at(static_cast<size_t>(threads - 1));
  std::vector<Datum> outputs(run.executable->outputs().size());
  try {
    if (into_given) {
      for (size_t i = 0; i < expected.size(); ++i) {
        const Tensor& like = expected[i].tensor();
        outputs[i] = Tensor::zeros(like.dtype(), like.shape());
      }
    }
    run.executable->run({&run.input, 1}, outputs, {.threads = threads});
  } catch (const Error&) {
    return expected.empty();
  }
  return equal(outputs, expected);
}

int soak(double seconds) {
  auto context = ops::make_context();
  std::vector<runtime::Executable> executables;
  for (const char* text : kModels) {
    std::unique_ptr<ir::Module> module = ir::parse(*context, text);
    analysis::infer_types(*module);
    executables.push_back(plan::compile(std::move(*module)));
  }
  std::mt19937 random(1);
  std::vector<Run> runs;
  for (const runtime::Executable& executable : executables) {
    for (int64_t rows = 2; rows < 2 + 3 * kSizes; rows += 3) {
      Run run{&executable, noise(rows, random), {}};
      for (int with = 1; with <= kMostThreads; ++with) {
        try {
          run.expected.at(static_cast<size_t>(with - 1)) = executable.run(std::vector<Datum>{run.input}, {.threads = with});
        } catch (const Error&) {
        }
      }
      runs.push_back(std::move(run));
    }
  }

  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::atomic<uint64_t> count = 0, wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 choice(static_cast<unsigned>(t));
      while (Clock::now() < end) {
        const uint32_t drawn = choice();
        wrong += !is_right(runs[drawn % runs.size()], 1 + t % kMostThreads, (drawn >> 16) % 2 != 0);
        ++count;
      }
    });
  }
  // Until half of the time every thread has met every shape.
  std::this_thread::sleep_until(end - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds / 2)));
  const int64_t half = resident_bytes_in_use();
  for (std::thread& thread : threads) thread.join();
  const int64_t whole = resident_bytes_in_use();
  std::printf(R"({"seconds": %.0f, "runs": %llu, "wrong": %llu, "resident_mb_half": %.1f, "resident_mb_end": %.1f})" "\n", seconds,
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(wrong), static_cast<double>(half) / 1e6,
              static_cast<double>(whole) / 1e6);
  return wrong > 0 || whole - half > kMostGrowth;
}

}  // namespace
}  // namespace anfora

int main(int argc, char** argv) { return anfora::soak(argc > 1 ? std::atof(argv[1]) : 5); }

// Threads that compile share the operators and the built-in rules, which the first of them makes; nothing else.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "analysis/infer.h"
#include "ir/parse.h"
#include "ops/registry.h"
#include "pipeline/pipeline.h"
#include "pipeline/pipelines.h"
#include "plan/compile.h"

namespace anfora::pipeline {
namespace {

// Simplification, an expansion and lowering have something to do.
constexpr std::string_view kCompiled = R"(
  module { name = "shared" outputs = ["y"] }
  graph @main(%x: f32[N, 4]) {
    %a = Transpose(Transpose(%x){perm=[1, 0]}){perm=[1, 0]}
    %b = com.microsoft::QuickGelu(MatMul(%a, f32[4, 4] [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]))
    return Mul(Relu(Add(%b, 0.0)), 1.0)
  })";

TEST(ConcurrentCompilation, GivesTheSameProgram) {
  constexpr int kThreads = 4, kModels = 5;
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kModels; ++i) {
        const auto context = ops::make_context();
        auto module = ir::parse(*context, kCompiled);
        analysis::infer_types(*module);
        optimize(*module, {.pipeline = &kExecute});
        const runtime::Executable executable = plan::compile(std::move(*module), {.threads = 1});
        const std::vector<Datum> outputs = executable.run(std::vector<Datum>{Tensor::allocate(DType::F32, Shape{2, 4})});
        right += outputs[0].tensor().shape() == Shape{2, 4};
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kThreads * kModels);
}

}  // namespace
}  // namespace anfora::pipeline

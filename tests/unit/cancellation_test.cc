// Work that is stopped from outside: anfora/cancellation.h.
#include "anfora/cancellation.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "anfora/model.h"
#include "support/cancellation.h"
#include "support/parallel.h"

namespace anfora {
namespace {

using namespace std::chrono_literals;

// Doubles x until its largest element is above the limit; a limit of infinity is never reached.
constexpr const char* kEndlessLoop = R"(
graph @main(%x: f32[2], %limit: f32[]) -> f32[2] { return call @loop(%x) }
graph @loop(%v) in @main {
  %again = Less(ReduceMax(%v){keepdims=0}, %limit)
  %next = Switch(%again, @body, @done)
  return call %next()
}
graph @body() in @loop { return call @loop(Mul(%v, 2.0)) }
graph @done() in @loop { return %v }
)";

Model loop_model() {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "cancellation.ir";
  std::ofstream(path) << kEndlessLoop;
  return Model::load(path);
}

NamedTensors inputs(float start, float limit) {
  return {{"x", Tensor::from<float>(Shape{2}, std::vector<float>{start, start})},
          {"limit", Tensor::from<float>(Shape{}, std::vector<float>{limit})}};
}

TEST(Cancellation, EndsALoopFromAnotherThread) {
  Executable executable = loop_model().compile();
  Cancellation cancellation;
  {
    CancellationScope scope(cancellation);
    std::jthread other([&] {
      std::this_thread::sleep_for(50ms);
      cancellation.cancel();
    });
    EXPECT_THROW(executable.run(inputs(0, 1)), Cancelled);    // 0 stays 0
    EXPECT_THROW(executable.run(inputs(1, 100)), Cancelled);  // and so does whatever follows
  }
  EXPECT_EQ(executable.run(inputs(1, 100)).begin()->second.size(), 2);
}

TEST(Cancellation, AsksTheHost) {
  int asked = 0;
  Cancellation cancellation([&] { return ++asked == 3; });
  CancellationScope scope(cancellation);
  EXPECT_THROW(loop_model().compile().run(inputs(0, 1)), Cancelled);
  EXPECT_EQ(asked, 3);
}

TEST(Cancellation, PassesOnWhatTheHostThrows) {
  Cancellation cancellation([]() -> bool { throw std::range_error("an interrupt of the host"); });
  CancellationScope scope(cancellation);
  EXPECT_THROW(loop_model(), std::range_error);
}

TEST(Cancellation, EndsLoadingOptimizingAndCompiling) {
  Model to_optimize = loop_model(), to_compile = loop_model();
  Cancellation cancellation;
  CancellationScope scope(cancellation);
  cancellation.cancel();
  EXPECT_THROW(loop_model(), Cancelled);
  EXPECT_THROW(to_optimize.optimize(), Cancelled);
  EXPECT_THROW(std::move(to_compile).compile(), Cancelled);
}

TEST(Cancellation, ScopesNest) {
  Cancellation outer, inner;
  CancellationScope scope(outer);
  {
    CancellationScope within(inner);
    outer.cancel();
    EXPECT_NO_THROW(check_cancelled());
  }
  EXPECT_THROW(check_cancelled(), Cancelled);
}

TEST(Cancellation, EndsAParallelLoopBetweenRanges) {
  Cancellation cancellation;
  CancellationScope scope(cancellation);
  std::atomic<int> ranges = 0;
  auto body = [&](int64_t, int64_t) {
    ++ranges;
    cancellation.cancel();
  };
  with_threads(2, [&] {
    if (thread_count() < 2) GTEST_SKIP() << "one CPU";
    EXPECT_THROW(parallel_for(1000, 1, body), Cancelled);
    EXPECT_LE(ranges, 2);
  });
}

}  // namespace
}  // namespace anfora

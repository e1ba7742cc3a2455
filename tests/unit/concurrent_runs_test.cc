// One executable, many threads: each run gives what it gives alone.
#include <atomic>
#include <thread>

#include "plan_fixture.h"

namespace anfora::plan {
namespace {

using ConcurrentRuns = PlanTest;

Tensor ramp(int64_t rows, int64_t columns, float start) {
  Tensor tensor = Tensor::allocate(DType::F32, Shape{rows, columns});
  for (float value = start; float& element : tensor.data<float>()) element = value += 0.37f;
  return tensor;
}

TEST_F(ConcurrentRuns, GiveWhatASingleThreadGives) {
  // Products with packed weights, an arena by the size of the batch, a function that is called.
  Node* x = parameter(main, DType::F32, {symbol("N"), dim(16)}, "x");
  Node* w = module.constant(ramp(16, 24, -3));
  Node* y = op(main, "Softmax", {op(main, "MatMul", {x, w})});
  Node* z = op(main, "Add", {op(main, "Exp", {y}), op(main, "Transpose", {op(main, "Transpose", {y})})});
  const runtime::Executable executable = finish(z);

  constexpr int kThreads = 8, kRuns = 200;
  auto input = [](int64_t rows) { return ramp(rows, 16, static_cast<float>(rows)); };
  std::vector<Tensor> expected;
  for (int64_t rows = 0; rows < 20; ++rows) {
    expected.push_back(executable.run(std::vector<Datum>{input(rows)})[0].tensor());
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRuns; ++i) {
        const int64_t rows = (i * 7 + t * 3) % 20;
        const std::vector<Datum> outputs = executable.run(std::vector<Datum>{input(rows)}, {.threads = 1 + t % 2});
        wrong += !Tensor::identical(outputs[0].tensor(), expected[static_cast<size_t>(rows)]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ConcurrentRuns, AnErrorInOneLeavesTheOthers) {
  Node* x = parameter(main, DType::F32, {symbol("N")}, "x");
  Node* i = parameter(main, DType::I64, {dim(1)}, "i");
  const runtime::Executable executable = finish(op(main, "Gather", {x, i}));
  auto index = [](int64_t value) { return Tensor::vector<int64_t>(std::span<const int64_t>(&value, 1)); };
  std::atomic<int> refused = 0, right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int n = 0; n < 100; ++n) {
        try {
          const Tensor values = ramp(1, 5, 0).reshaped(Shape{5});
          const auto outputs = executable.run(std::vector<Datum>{values, index(t % 2 ? 9 : 2)});
          right += outputs[0].tensor().data<float>()[0] == values.data<float>()[2];
        } catch (const Error&) {
          ++refused;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 200);
  EXPECT_EQ(right, 200);
}

}  // namespace
}  // namespace anfora::plan

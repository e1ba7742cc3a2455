// What a loop carries from one iteration to the next lies in the loop's frame.
#include <gtest/gtest.h>

#include "analysis/evaluate.h"
#include "analysis/infer.h"
#include "ir/parse.h"
#include "ops/registry.h"
#include "plan/compile.h"

namespace anfora::plan {
namespace {

class PlanLoops : public testing::Test {
 protected:
  runtime::Executable compiled(const char* text) {
    module = ir::parse(*context, text);
    analysis::infer_types(*module);
    return compile(*module);
  }

  // Three runs, since each meets what the last one left.
  void expect_right(const runtime::Executable& executable, const std::vector<Datum>& inputs) {
    const std::vector<Datum> expected = analysis::interpret(*module, inputs);
    for (int run = 0; run < 3; ++run) {
      const std::vector<Datum> outputs = executable.run(inputs);
      ASSERT_EQ(outputs.size(), expected.size());
      for (size_t i = 0; i < outputs.size(); ++i) EXPECT_TRUE(identical(outputs[i], expected[i])) << "output " << i << " of run " << run;
    }
  }
  static bool identical(const Datum& a, const Datum& b) {
    if (a.is_tensor()) return b.is_tensor() && Tensor::identical(a.tensor(), b.tensor());
    return std::ranges::equal(a.items(), b.items(), identical);
  }
  static Datum row(std::vector<float> values) { return Tensor::vector<float>(values); }

  std::unique_ptr<ir::Context> context = ops::make_context();
  std::unique_ptr<ir::Module> module;
};

TEST_F(PlanLoops, StateHasTwoPlaces) {
  const auto executable = compiled(R"(
    graph @main(%x: f32[N, N]) { return call @loop(0, %x) }
    graph @loop(%i, %v) { return call Switch(Less(%i, 7), @body, @done)() }
    graph @body() in @loop { return call @loop(Add(%i, 1), Transpose(%v)) }
    graph @done() in @loop { return Neg(%v) })");
  auto square = [](int64_t n) -> Datum {
    Tensor tensor = Tensor::zeros(DType::F32, Shape{n, n});
    tensor.data<float>()[1] = 3;
    return tensor;
  };
  expect_right(executable, {square(2)});
  EXPECT_EQ(executable.memory().block_bytes, 0) << "but for the result, which is the caller's";
  // The test lies in the arena; the counter, which is written over, has one place, %v two.
  EXPECT_EQ(executable.memory().callee_arena_bytes, 4 * 64);
  expect_right(executable, {square(8)});
  EXPECT_EQ(executable.memory().callee_arena_bytes, 2 * 64 + 2 * 256);
  EXPECT_EQ(executable.memory().block_bytes, 0);
}

TEST_F(PlanLoops, StateMayBePassedOnAndSwapped) {
  const auto executable = compiled(R"(
    graph @main(%x: f32[2], %y: f32[2]) { return call @loop(0, %x, %y, Mul(%x, %y)) }
    graph @loop(%i, %a, %b, %c) { return call Switch(Less(%i, 9), @body, @done)() }
    graph @body() in @loop { return call @loop(Add(%i, 1), %b, %c, Tanh(Sub(Add(%a, %c), %b))) }
    graph @done() in @loop { return (%a, %b, %c, %c) })");
  expect_right(executable, {row({1, 2}), row({3, -0.5})});
}

TEST_F(PlanLoops, StateMayBeKept) {
  const auto executable = compiled(R"(
    graph @main(%x: f32[2]) { return call @loop(0, %x, SequenceEmpty()) }
    graph @loop(%i, %v, %all) { return call Switch(Less(%i, 5), @body, @done)() }
    graph @body() in @loop { return call @loop(Add(%i, 1), Mul(%v, 2.0), SequenceInsert(%all, %v)) }
    graph @done() in @loop { return (%v, %all) })");
  expect_right(executable, {row({1, -2})});
}

TEST_F(PlanLoops, StateOfALoopInALoop) {
  const auto executable = compiled(R"(
    graph @main(%x: f32[3]) { return call @outer(0, %x, %x) }
    graph @outer(%i, %v, %w) { return call Switch(Less(%i, 4), @again, @leave)() }
    graph @again() in @outer {
      %u = call @inner(0, %v, %w)
      %t = call @inner(%i, %u, %v)
      return call @outer(Add(%i, 1), Sub(%u, %t), %t)
    }
    graph @leave() in @outer { return (%v, %w) }
    graph @inner(%j, %a, %b) { return call Switch(Less(%j, 3), @body, @done)() }
    graph @body() in @inner { return call @inner(Add(%j, 1), Sin(Add(%a, %b)), Cos(Sub(%b, %a))) }
    graph @done() in @inner { return %a })");
  expect_right(executable, {row({0.1, 0.2, 0.3})});
}

TEST_F(PlanLoops, StateMayGrow) {
  const auto executable = compiled(R"(
    graph @main(%x: f32[N]) { return call @loop(0, %x) }
    graph @loop(%i, %v) { return call Switch(Less(%i, 6), @body, @done)() }
    graph @body() in @loop { return call @loop(Add(%i, 1), Concat(%v, Neg(%v)){axis=0}) }
    graph @done() in @loop { return %v })");
  expect_right(executable, {row({1, 2, 3})});
}

TEST_F(PlanLoops, AnErrorLeavesPlacesFree) {
  const auto executable = compiled(R"(
    graph @main(%x: f32[4], %n: i64[]) { return call @loop(%n, %x) }
    graph @loop(%i, %v) { return call Switch(Less(%i, 9), @body, @done)() }
    graph @body() in @loop { return call @loop(Add(%i, 1), Mul(%v, Gather(%v, %i))) }
    graph @done() in @loop { return %v })");
  auto run = [&](int64_t first) { executable.run(std::vector<Datum>{row({1, 2, 3, 4}), Tensor::scalar<int64_t>(first)}); };
  for (int i = 0; i < 3; ++i) EXPECT_THROW(run(0), Error);
  EXPECT_EQ(executable.memory().block_bytes, 0);
}

}  // namespace
}  // namespace anfora::plan

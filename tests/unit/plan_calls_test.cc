// Where values lie that cross a call: what a loop carries from one iteration to the next in the loop's frame, an argument that is
// only read in the arena of the caller.
#include <gtest/gtest.h>

#include "analysis/evaluate.h"
#include "analysis/infer.h"
#include "ir/parse.h"
#include "ops/registry.h"
#include "plan/compile.h"

namespace anfora::plan {
namespace {

class PlanCalls : public testing::Test {
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
      for (size_t i = 0; i < outputs.size(); ++i)
        EXPECT_TRUE(identical(outputs[i], expected[i])) << "output " << i << " of run " << run;
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

TEST_F(PlanCalls, StateHasTwoPlaces) {
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

TEST_F(PlanCalls, StateMayBePassedOnAndSwapped) {
  const auto executable = compiled(R"(
    graph @main(%x: f32[2], %y: f32[2]) { return call @loop(0, %x, %y, Mul(%x, %y)) }
    graph @loop(%i, %a, %b, %c) { return call Switch(Less(%i, 9), @body, @done)() }
    graph @body() in @loop { return call @loop(Add(%i, 1), %b, %c, Tanh(Sub(Add(%a, %c), %b))) }
    graph @done() in @loop { return (%a, %b, %c, %c) })");
  expect_right(executable, {row({1, 2}), row({3, -0.5})});
}

TEST_F(PlanCalls, StateMayBeKept) {
  const auto executable = compiled(R"(
    graph @main(%x: f32[2]) { return call @loop(0, %x, SequenceEmpty()) }
    graph @loop(%i, %v, %all) { return call Switch(Less(%i, 5), @body, @done)() }
    graph @body() in @loop { return call @loop(Add(%i, 1), Mul(%v, 2.0), SequenceInsert(%all, %v)) }
    graph @done() in @loop { return (%v, %all) })");
  expect_right(executable, {row({1, -2})});
}

TEST_F(PlanCalls, StateOfALoopInALoop) {
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

TEST_F(PlanCalls, StateMayGrow) {
  const auto executable = compiled(R"(
    graph @main(%x: f32[N]) { return call @loop(0, %x) }
    graph @loop(%i, %v) { return call Switch(Less(%i, 6), @body, @done)() }
    graph @body() in @loop { return call @loop(Add(%i, 1), Concat(%v, Neg(%v)){axis=0}) }
    graph @done() in @loop { return %v })");
  expect_right(executable, {row({1, 2, 3})});
}

TEST_F(PlanCalls, AnErrorLeavesPlacesFree) {
  const auto executable = compiled(R"(
    graph @main(%x: f32[4], %n: i64[]) { return call @loop(%n, %x) }
    graph @loop(%i, %v) { return call Switch(Less(%i, 9), @body, @done)() }
    graph @body() in @loop { return call @loop(Add(%i, 1), Mul(%v, Gather(%v, %i))) }
    graph @done() in @loop { return %v })");
  auto run = [&](int64_t first) {
    executable.run(std::vector<Datum>{row({1, 2, 3, 4}), Tensor::scalar<int64_t>(first)});
  };
  for (int i = 0; i < 3; ++i) EXPECT_THROW(run(0), Error);
  EXPECT_EQ(executable.memory().block_bytes, 0);
}

// The arguments of two calls, as @pick gives one of them back: %e lies in the arena, %a in a block.
TEST_F(PlanCalls, ArgumentsThatAreOnlyRead) {
  const auto executable = compiled(R"(
    graph @main(%x: f32[N, 8], %c: f32[]) {
      %e = Exp(%x)
      %a = Add(%x, 1.0)
      %r = call Switch(Less(%c, 0.0), @f, @g)()
      return Add(Neg(%r), call @pick(%a, %c))
    }
    graph @f() in @main { return Softmax(Reshape(%e, [8, -1])) }
    graph @g() in @main { return Transpose(Mul(%e, %e)) }
    graph @pick(%v, %w) { return Reshape(%v, [8, -1]) })");
  auto inputs = [](int64_t n, float c) {
    return std::vector<Datum>{Tensor::zeros(DType::F32, Shape{n, 8}), Tensor::scalar(c)};
  };
  expect_right(executable, inputs(8, -1));
  expect_right(executable, inputs(8, 1));
  EXPECT_EQ(executable.memory().unplanned_values, 2u) << "%a and the result";
}

TEST_F(PlanCalls, ArgumentsThatAFunctionKeeps) {
  const auto executable = compiled(R"(
    graph @main(%x: f32[4]) {
      %a = Exp(%x)
      %b = Sin(%x)
      %c = Cos(%x)
      %d = Tanh(%x)
      %pair = call @pair(%a, %b)
      %view = call @through(%c)
      %closure = call @closing(%d)
      %over = Mul(Neg(Mul(%x, %x)), Abs(%x))
      return (%pair[0], %pair[1], %view, call %closure(%over), Sub(%over, %x))
    }
    graph @pair(%p, %q) { return (Identity(%p), %q) }
    graph @through(%p) { return call @inner(Reshape(%p, [2, 2])) }
    graph @inner(%p) { return Unsqueeze(%p, [0]) }
    graph @closing(%p) { return @closed }
    graph @closed(%q) in @closing { return Add(%p, %q) })");
  expect_right(executable, {row({1, -2, 0.5, 0})});
}

TEST_F(PlanCalls, ArgumentsOfRecursion) {
  const auto executable = compiled(R"(
    graph @main(%x: f32[2]) { return (call @sum(4, Exp(%x)), call @last(4, Exp(%x))) }
    graph @sum(%n, %v) { return call Switch(Less(%n, 1), @zero, @more)() }
    graph @zero() in @sum { return Mul(%v, %v) }
    graph @more() in @sum { return Add(call @sum(Sub(%n, 1), Mul(%v, 0.5)), %v) }
    graph @last(%n, %v) { return call Switch(Less(%n, 1), @this, @next)() }
    graph @this() in @last { return %v }
    graph @next() in @last {
      %r = call @last(Sub(%n, 1), Mul(%v, 0.5))
      return Sub(%r, Add(%v, %v))
    })");
  expect_right(executable, {row({1, -2})});
}

}  // namespace
}  // namespace anfora::plan

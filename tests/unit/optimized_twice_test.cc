// What is optimized, written and read comes out the same when it is optimized and written again, byte for byte.
#include "export_fixture.h"
#include "pipeline/pipeline.h"

namespace anfora {
namespace {

class OptimizedTwice : public ExportTest {
 protected:
  std::string optimized(ir::Module& module) {
    pipeline::optimize(module, {.passes = {.has_operator = onnx::expressible(module)}});
    return bytes_of(module);
  }
  // The module is optimized as it would be if a file said it, or as it is written here.
  void expect_settled(const std::string& text, bool from_file = true) {
    auto module = parse(text);
    if (from_file) module = import(bytes_of(*module));
    const std::string once = optimized(*module);
    auto again = import(once);
    EXPECT_EQ(optimized(*again), once) << ir::print(*again);
  }
};

TEST_F(OptimizedTwice, ResultsThatNobodyReads) {
  expect_settled(R"(
module { opset "" = 21  outputs = ["y"] }
graph @main(%x: f32[2, N, 8], %s: f32[8]) {
  %n = LayerNormalization:3(%x, %s)
  return Gather(%n[0], 0){axis=1}
})",
                 false);
}

TEST_F(OptimizedTwice, OneScaleInAVector) {
  expect_settled(R"(
module { opset "" = 10  outputs = ["y"] }
graph @main(%x: f32[N, 8, 4]) {
  return QuantizeLinear(Transpose(%x){perm=[0, 2, 1]}, [0.5], i8[1] [0])
})",
                 false);
}

TEST_F(OptimizedTwice, RowsThatAScanPassesOn) {
  expect_settled(R"(
module { opset "" = 21  outputs = ["last", "rows"] }
graph @main(%x: f32[N, 2], %h0: f32[2]) {
  %n = Gather(Shape(%x), 0)
  %t = call @scan(0, %h0, SequenceEmpty(){dtype=1})
  return (%t[0], %t[1])
}
graph @scan(%i: i64[], %h: f32[2], %all: seq(f32[2])) in @main {
  return call Switch(Less(%i, %n), @body, @done)()
}
graph @body() in @scan {
  %row = Gather(%x, %i)
  %h1 = Sin(Add(%h, %row))
  return call @scan(Add(%i, 1), %h1, SequenceInsert(%all, Identity(%row)))
}
graph @done() in @scan { return (%h, StackSequence(%all){axis=0, dtype=1, reverse=0, shape=[2]}) })");
}

TEST_F(OptimizedTwice, ScanWhoseLastResultAloneIsRead) {
  const std::string text = R"(
module { opset "" = 21  outputs = ["y"] }
graph @main(%x: f32[N, 2], %w: f32[2], %h0: f32[2]) {
  %rows = Relu(%x)
  %weights = Exp(%w)
  %n = Gather(Shape(%x), 0)
  %last = call @scan(0, %h0, SequenceEmpty(){dtype=1})
  %states = %last[1]
  return Neg(%states)
}
graph @scan(%i: i64[], %h: f32[2], %all: seq(f32[2])) in @main {
  return call Switch(Less(%i, %n), @body, @done)()
}
graph @body() in @scan {
  %h1 = Sin(Add(%h, Mul(Gather(%rows, %i), %weights)))
  return call @scan(Add(%i, 1), %h1, SequenceInsert(%all, %h1))
}
graph @done() in @scan { return (%h, StackSequence(%all){axis=0, dtype=1, reverse=0, shape=[2]}) })";
  expect_settled(text);
  // What is scanned comes before what the body captures, wherever the number of the steps is from.
  const std::string lines = sketch(text);
  EXPECT_LT(lines.find("Relu"), lines.find("Exp")) << lines;
}

// The file of the first module carries a counter beside that of Loop itself; of two that are equal one is left.
TEST_F(OptimizedTwice, LoopThatCountsAndHasATest) {
  const std::string text = R"(
module { opset "" = 21  outputs = ["y"] }
graph @main(%x: f32[N, 2], %h0: f32[2]) { return call @loop(0, %h0) }
graph @loop(%i: i64[], %h: f32[2]) in @main {
  return call Switch(Less(%i, Gather(Shape(%x), 0)), @body, @done)()
}
graph @body() in @loop { return call @loop(Add(%i, 1), Sin(Add(%h, Gather(%x, %i)))) }
graph @done() in @loop { return %h })";
  expect_settled(text);
}

TEST_F(OptimizedTwice, ConstantThatEqualsDefaultsOfInputs) {
  expect_settled(R"(
module { opset "" = 21  outputs = ["y"] }
graph @main(%x: f32[2], %b: f32[2] = f32[2] [0.0, 0.0], %b_1: f32[2] = f32[2] [0.0, 0.0]) {
  return Concat(%b_1, %x, [0.0, 0.0], %b){axis=0}
})",
                 false);
}

TEST_F(OptimizedTwice, OperatorThatTheOperatorSetDoesNotHaveYet) {
  expect_settled(R"(
module { opset "" = 14  outputs = ["y"] }
graph @main(%x: f32[2, N, 8], %s: f32[8]) { return Gather(LayerNormalization(%x, %s), 0){axis=1} })",
                 false);
  EXPECT_EQ(report.opsets[""], 17);
}

}  // namespace
}  // namespace anfora

// What a run takes in floating point operations: composites and their parts count alike, and sizes are the same however a model
// says them.
#include <gtest/gtest.h>

#include "analysis/infer.h"
#include "driver/flops.h"
#include "ir/clone.h"
#include "ir/parse.h"
#include "ops/registry.h"
#include "pipeline/pipeline.h"

namespace anfora {
namespace {

class Flops : public testing::Test {
 protected:
  std::unique_ptr<ir::Context> context = ops::make_context();

  double of(std::string_view text, const driver::SizeByName& sizes = {}) {
    auto module = ir::parse(*context, text);
    return driver::count_flops(*module, sizes);
  }
  // Before and after the pipeline.
  driver::FlopPair optimized(std::string_view text) {
    auto module = ir::parse(*context, text);
    auto original = ir::clone(*module);
    pipeline::optimize(*module);
    return driver::compare_flops(*original, *module);
  }
};

TEST_F(Flops, AProductIsTwiceItsVolume) {
  EXPECT_EQ(of("graph @main(%a: f32[3, 4], %b: f32[4, 5]) { return MatMul(%a, %b) }"), 2 * 3 * 4 * 5);
  EXPECT_EQ(of("graph @main(%a: f32[3, 4], %b: f32[4, 5], %c: f32[5]) { return Gemm(%a, %b, %c) }"),
            2 * 3 * 4 * 5 + 3 * 5);
}

TEST_F(Flops, SymbolsHaveTheSizesThatAreGiven) {
  constexpr std::string_view text = "graph @main(%a: f32[N, 4], %b: f32[4, 5]) { return MatMul(%a, %b) }";
  EXPECT_EQ(of(text), 2 * 1 * 4 * 5);
  EXPECT_EQ(of(text, {{"N", 7}}), 2 * 7 * 4 * 5);
}

TEST_F(Flops, AFunctionCountsAsOftenAsItIsCalled) {
  EXPECT_EQ(of(R"(
    graph @main(%x: f32[8]) { return call @f(call @f(%x)) }
    graph @f(%a) { return Add(%a, Relu(%a)) }
  )"),
            2 * 2 * 8);
}

TEST_F(Flops, OfTwoBranchesTheDearerCounts) {
  EXPECT_EQ(of(R"(
    graph @main(%c: bool[], %x: f32[8]) {
      %f = Switch(%c, @pos, @neg)
      return call %f()
    }
    graph @pos() in @main { return Relu(%x) }
    graph @neg() in @main { return Add(Neg(%x), %x) }
  )"),
            2 * 8);
}

TEST_F(Flops, SizesThatFollowFromComputedShapesAreKnown) {
  // The sizes come by way of floats, which inference does not follow.
  const double plain = of("graph @main(%x: f32[4, 6]) { return Relu(Reshape(%x, [3, 8])) }");
  const double computed = of(R"(
    graph @main(%x: f32[N, 6]) {
      %shape = Cast(Mul(Cast(Shape(%x)){to=1}, [0.75, 1.3333334])){to=7}
      return Relu(Reshape(%x, %shape))
    }
  )",
                             {{"N", 4}});
  EXPECT_GE(computed, plain);
  EXPECT_LE(computed, plain + 6);  // and what the shape takes
}

TEST_F(Flops, ALoopCountsAsOftenAsItsCounterTells) {
  EXPECT_EQ(of(R"(
    graph @main(%x: f32[8]) { return call @loop(0, %x) }
    graph @loop(%i: i64[], %v: f32[8]) {
      %f = Switch(Less(%i, 5), @again, @done)
      return call %f()
    }
    graph @again() in @loop { return call @loop(Add(%i, 1), Relu(%v)) }
    graph @done() in @loop { return %v }
  )"),
            5 * (8 + 1 + 1) + 1);  // with the test and the count
}

TEST_F(Flops, OptimizingCompositesNeverCountsMore) {
  for (
      std::string_view text : {
          // Activations
          "graph @main(%x: f32[4, 8]) { return Div(1.0, Add(Exp(Neg(%x)), 1.0)) }",
          "graph @main(%x: f32[4, 8]) { %e = Exp(%x) return Div(%e, Add(%e, 1.0)) }",
          "graph @main(%x: f32[4, 8]) { return Div(%x, Add(Exp(Neg(%x)), 1.0)) }",
          "graph @main(%x: f32[4, 8]) { return Mul(%x, Sigmoid(Mul(%x, 1.702))) }",
          "graph @main(%x: f32[4, 8]) { return Mul(Mul(%x, 0.5), Add(Erf(Div(%x, 1.4142135)), 1.0)) }",
          "graph @main(%x: f32[4, 8]) { return Log(Add(Exp(%x), 1.0)) }",
          "graph @main(%x: f32[4, 8]) { return Mul(%x, Tanh(Log(Add(Exp(%x), 1.0)))) }",
          "graph @main(%x: f32[4, 8]) { return Div(Mul(%x, Clip(Add(%x, 3.0), 0.0, 6.0)), 6.0) }",
          "graph @main(%x: f32[4, 8]) { return Where(Greater(%x, 0.0), %x, Sub(Exp(%x), 1.0)) }",
          "graph @main(%x: f32[4, 8]) { return Max(%x, 0.0) }",
          "graph @main(%x: f32[4, 8]) { return Min(Max(%x, 0.0), 6.0) }",
          // Softmax
          "graph @main(%x: f32[4, 8]) { %e = Exp(%x) return Div(%e, ReduceSum(%e, [1])) }",
          "graph @main(%x: f32[4, 8]) { return Log(Softmax(%x)) }",
          "graph @main(%x: f32[4, 8]) { return Sub(%x, ReduceLogSumExp(%x, [1])) }",
          "graph @main(%x: f32[4, 8]) { return Sqrt(ReduceSum(Mul(%x, %x), [1])) }",
          // Normalization
          R"(graph @main(%x: f32[4, 8]) {
                %d = Sub(%x, ReduceMean(%x, [1]))
                return Div(%d, Sqrt(Add(ReduceMean(Mul(%d, %d), [1]), 0.00001)))
              })",
          R"(graph @main(%x: f32[4, 8]) {
                %d = Sub(%x, ReduceMean(%x, [1]))
                %n = Div(%d, Sqrt(Add(ReduceMean(Pow(%d, 2.0), [1]), 0.00001)))
                return Add(Mul(%n, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
              })",
          R"(graph @main(%x: f32[4, 8]) { return Mul(%x, Reciprocal(Sqrt(Add(ReduceMean(Mul(%x, %x), [1]), 0.00001)))) })",
          // Attention
          R"(graph @main(%q: f32[1, 2, 16, 8], %k: f32[1, 2, 8, 16], %v: f32[1, 2, 16, 8]) {
                return MatMul(Softmax(Mul(MatMul(%q, %k), 0.25)), %v)
              })",
          R"(graph @main(%q: f32[1, 2, 16, 8], %k: f32[1, 2, 8, 16], %v: f32[1, 2, 16, 8], %m: f32[1, 1, 16, 16]) {
                return MatMul(Softmax(Add(MatMul(Mul(%q, 0.5), %k), %m)), %v)
              })",
          // Products
          "graph @main(%a: f32[4, 8], %b: f32[8, 3], %c: f32[3]) { return Add(MatMul(%a, %b), %c) }",
          "graph @main(%a: f32[4, 8], %b: f32[8, 3]) { return Mul(MatMul(%a, %b), 3.0) }",
          "graph @main(%a: f32[4, 8], %b: f32[4, 8]) { return ReduceSum(Mul(%a, %b), [1]) }",
      }) {
    const driver::FlopPair flops = optimized(text);
    EXPECT_FALSE(flops.rises()) << text << '\n' << flops.before << " becomes " << flops.after;
  }
}

}  // namespace
}  // namespace anfora

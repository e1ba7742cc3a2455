// The interpreter of analysis/evaluate.h: what a run held is free when it is over.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "analysis/evaluate.h"
#include "analysis/infer.h"
#include "ir/parse.h"
#include "ops/registry.h"

namespace anfora {
namespace {

class Interpret : public testing::Test {
 protected:
  Tensor run(const std::string& text) {
    auto context = ops::make_context();
    auto module = ir::parse(*context, text);
    analysis::infer_types(*module);
    Tensor x = Tensor::from<float>(Shape{2}, std::vector<float>{1, -2});
    const long before = x.owner().use_count();
    Tensor result;
    {
      auto observe = [&](const ir::Node&, const Datum&) { most_ = std::max(most_, x.owner().use_count()); };
      std::vector<Datum> inputs{x};
      result = analysis::interpret(*module, inputs, 0, observe)[0].tensor();
    }
    EXPECT_EQ(x.owner().use_count(), before) << text;
    return result;
  }

  long most_ = 0;  // handles to the input at a time
};

// A choice in a function is a value of the invocation that it refers to.
TEST_F(Interpret, LoopIsFreed) {
  Tensor result = run(R"(
graph @main(%x: f32[2]) { return call @loop(0, %x, %x) }
graph @loop(%i: i64[], %v: f32[2], %w: f32[2]) in @main { return call Switch(Less(%i, 100), @body, @done)() }
graph @body() in @loop { return call @loop(Add(%i, 1), Add(%v, 1.0), %w) }
graph @done() in @loop { return Add(%v, %w) })");
  EXPECT_EQ(result.data<float>()[0], 102);
  EXPECT_LT(most_, 20);  // one iteration at a time
}

TEST_F(Interpret, RecursionIsFreed) {
  Tensor result = run(R"(
graph @main(%x: f32[2]) { return call @power(5, %x) }
graph @power(%n: i64[], %v: f32[2]) { return call Switch(Less(%n, 1), @zero, @more)() }
graph @zero() in @power { return Sub(%v, Sub(%v, 1.0)) }
graph @more() in @power { return Mul(%v, call @power(Sub(%n, 1), %v)) })");
  EXPECT_EQ(result.data<float>()[1], -32);
}

// Functions outlive the invocations that they came out of.
TEST_F(Interpret, FunctionsAsValues) {
  Tensor result = run(R"(
graph @main(%x: f32[2]) { return call @twice(call @adder(%x), %x) }
graph @adder(%d: f32[2]) { return @add }
graph @add(%a: f32[2]) in @adder { return Add(%a, %d) }
graph @twice(%f: func(f32[2]) -> f32[2], %y: f32[2]) { return call @apply(%f, call %f(%y)) }
graph @apply(%f: func(f32[2]) -> f32[2], %y: f32[2]) { return call %f(%y) })");
  EXPECT_EQ(result.data<float>()[0], 3);
}

}  // namespace
}  // namespace anfora

// Two models on the same inputs: tolerances, rounding judged by a run in a wider type, promises on edge values.
#include "driver/agreement.h"

#include <gtest/gtest.h>

#include "analysis/infer.h"
#include "driver/model.h"
#include "ir/parse.h"
#include "ops/registry.h"

namespace anfora::driver {
namespace {

class AgreementTest : public testing::Test {
 protected:
  Agreement check(std::string_view first, std::string_view second, const AgreementOptions& options = {}) {
    std::unique_ptr<ir::Module> a = ir::parse(*context, first), b = ir::parse(*context, second);
    analysis::infer_types(*a);
    analysis::infer_types(*b);
    runtime::Executable run_a = compile_as_is(*a), run_b = compile_as_is(*b);
    return check_agreement(*a, run_a, *b, run_b, options);
  }

  std::unique_ptr<ir::Context> context = ops::make_context();
};

// In f16, numbers from 2048 on lie 2 apart and those below lie 1 apart.
constexpr std::string_view kRounded = R"(
    graph @main(%x: f16[64]) { return Sub(Add(%x, f16[] 2048), f16[] 2048) })";

TEST_F(AgreementTest, ModelsThatRoundDifferentlyAgree) {
  Agreement agreement = check(kRounded, "graph @main(%x: f16[64]) { return Sub(Add(%x, f16[] 2040), f16[] 2040) }");
  EXPECT_TRUE(agreement.same) << agreement.message;
  ASSERT_TRUE(agreement.errors);
  EXPECT_GT(agreement.errors->first, 0.1);
  EXPECT_LE(agreement.errors->second, agreement.errors->first);
}

TEST_F(AgreementTest, RoundingExcusesNoOtherFunction) {
  Agreement agreement = check(kRounded, "graph @main(%x: f16[64]) { return Sub(Add(%x, f16[] 2040), f16[] 2032) }");
  EXPECT_FALSE(agreement.same);
  EXPECT_NE(agreement.message.find("random inputs"), std::string::npos) << agreement.message;
}

// In f32, numbers from 2¹⁶ on lie 2⁻⁷ apart.
constexpr std::string_view kRoundedSingle = "graph @main(%x: f32[64]) { return Sub(Add(%x, 65536.0), 65536.0) }";

TEST_F(AgreementTest, FullPrecisionIsNotExcused) {
  Agreement agreement = check(kRoundedSingle, "graph @main(%x: f32[64]) { return %x }");
  EXPECT_FALSE(agreement.same);
  EXPECT_FALSE(agreement.errors);
}

TEST_F(AgreementTest, FullPrecisionIsJudgedInF64WhereRoundingWasNotPromised) {
  const AgreementOptions kReal = {.promise = rewrite::Promise::Real};
  Agreement agreement = check(kRoundedSingle, "graph @main(%x: f32[64]) { return %x }", kReal);
  EXPECT_TRUE(agreement.same) << agreement.message;
  ASSERT_TRUE(agreement.errors);
  EXPECT_EQ(agreement.errors->in, DType::F64);
  EXPECT_FALSE(check(kRoundedSingle, "graph @main(%x: f32[64]) { return Mul(%x, 3.0) }", kReal).same);
}

TEST_F(AgreementTest, NoiseExcusesNothing) {
  constexpr std::string_view kNoise = "graph @main(%x: f32[64]) { return Sub(Add(%x, 1e12), 1e12) }";
  EXPECT_FALSE(
      check(kNoise, "graph @main(%x: f32[64]) { return Mul(%x, -0.9) }", {.promise = rewrite::Promise::Real}).same);
}

TEST_F(AgreementTest, AnInfinityExcusesNothing) {
  constexpr std::string_view kOverflows =
      "graph @main(%x: f32[64]) { return Mul(Mul(Exp(Mul(%x, 30.0)), 1e38), 1e-38) }";
  EXPECT_FALSE(
      check(kOverflows, "graph @main(%x: f32[64]) { return Add(%x, 7.0) }", {.promise = rewrite::Promise::Real}).same);
}

// What is left of x are whole numbers, and in f64 x.
constexpr std::string_view kWhole = "graph @main(%x: f32[64]) { return Sub(Add(%x, 1e7), 1e7) }";

TEST_F(AgreementTest, IllConditionedModelsAreComparedInF64) {
  const AgreementOptions kReal = {.promise = rewrite::Promise::Real};
  Agreement agreement = check(kWhole, "graph @main(%x: f32[64]) { return Sub(Add(%x, 1.5e7), 1.5e7) }", kReal);
  EXPECT_TRUE(agreement.same) << agreement.message;
  EXPECT_TRUE(agreement.is_compared());
  EXPECT_FALSE(check(kWhole, "graph @main(%x: f32[64]) { return Sub(Add(%x, 1.5e7), 1.4e7) }", kReal).same);
}

TEST_F(AgreementTest, ZerosAreNoYardstick) {
  EXPECT_FALSE(check("graph @main(%x: f32[64]) { return Sub(%x, %x) }", "graph @main(%x: f32[64]) { return %x }",
                     {.promise = rewrite::Promise::Real})
                   .same);
}

TEST_F(AgreementTest, WhatTheLastBitOfInputsDecidesIsNeitherSameNorDifferent) {
  constexpr std::string_view kChaos = "graph @main(%x: f32[64]) { return Sin(Mul(Mul(%x, 1e15), 1e15)) }";
  Agreement agreement =
      check(kChaos, "graph @main(%x: f32[64]) { return Sin(Mul(%x, 1e30)) }", {.promise = rewrite::Promise::Real});
  EXPECT_TRUE(agreement.same) << agreement.message;
  EXPECT_FALSE(agreement.is_compared());
}

TEST_F(AgreementTest, NumbersMustStayNumbers) {
  constexpr std::string_view kNumbers = "graph @main(%x: f32[64]) { return Relu(%x) }";
  constexpr std::string_view kNaNs = "graph @main(%x: f32[64]) { return Mul(Sqrt(%x), Sqrt(%x)) }";
  for (rewrite::Promise promise : {rewrite::Promise::Exact, rewrite::Promise::Finite, rewrite::Promise::Real}) {
    EXPECT_FALSE(check(kNumbers, kNaNs, {.promise = promise}).same) << to_string(promise);
  }
  EXPECT_FALSE(check(kNaNs, kNumbers).same);
  EXPECT_TRUE(check(kNaNs, kNumbers, {.promise = rewrite::Promise::Real}).same);
}

TEST_F(AgreementTest, FailureOfTheSecondModelIsADifference) {
  Agreement agreement = check("graph @main(%x: f32[n]) { return %x }",
                              "graph @main(%x: f32[n]) { return Reshape(Reshape(%x, [-1, 5]), [-1]) }");
  EXPECT_FALSE(agreement.same);
  EXPECT_NE(agreement.message.find("fails"), std::string::npos) << agreement.message;
}

TEST_F(AgreementTest, OverflowCountsWhereItIsPromised) {
  // exp(88) is the largest power below infinity.
  constexpr std::string_view kOverflows = "graph @main(%x: f32[256]) { return Mul(Mul(Exp(%x), 4.0), 0.25) }";
  constexpr std::string_view kFolded = "graph @main(%x: f32[256]) { return Exp(%x) }";
  EXPECT_FALSE(check(kOverflows, kFolded).same);
  Agreement agreement = check(kOverflows, kFolded, {.promise = rewrite::Promise::Finite});
  EXPECT_TRUE(agreement.same) << agreement.message;
}

}  // namespace
}  // namespace anfora::driver

// Made-up inputs that a model accepts, and shapes that are given.
#include "driver/fit.h"

#include <gtest/gtest.h>

#include "analysis/infer.h"
#include "anfora/error.h"
#include "driver/model.h"
#include "driver/pin.h"
#include "ir/parse.h"
#include "ops/registry.h"

namespace anfora::driver {
namespace {

class FitTest : public testing::Test {
 protected:
  Fit fit(std::string_view text, const RandomInputs& given = {}) {
    module = ir::parse(*context, text);
    analysis::infer_types(*module);
    runtime::Executable executable = compile_as_is(*module);
    return fit_inputs(*module, executable, given);
  }

  std::unique_ptr<ir::Context> context = ops::make_context();
  std::unique_ptr<ir::Module> module;
};

TEST_F(FitTest, PlainSizesAreTakenWhereTheyFit) {
  Fit found = fit("graph @main(%x: f32[n, m]) { return Relu(%x) }");
  EXPECT_TRUE(found.fits);
  EXPECT_EQ(found.inputs.dims, (SizeByName{{"m", 2}, {"n", 2}}));
  EXPECT_EQ(found.found, "");
}

TEST_F(FitTest, SizesComeFromWhatTheModelSays) {
  Fit found = fit("graph @main(%x: f32[n, m]) { return Reshape(MatMul(%x, f32[7, 2] 1), [3, -1, 2]) }");
  ASSERT_TRUE(found.fits) << found.failure;
  EXPECT_EQ(found.inputs.dims.at("m"), 7);
  EXPECT_EQ(found.inputs.dims.at("n") % 3, 0);
}

TEST_F(FitTest, GivenSizesStay) {
  EXPECT_FALSE(fit("graph @main(%x: f32[n]) { return Reshape(%x, [3, -1]) }", {.dims = {{"n", 4}}}).fits);
  EXPECT_TRUE(fit("graph @main(%x: f32[n]) { return Reshape(%x, [3, -1]) }", {.dims = {{"n", 6}}}).fits);
}

TEST_F(FitTest, IndicesLieWithinTheirTable) {
  Fit found = fit("graph @main(%ids: i64[2, n]) { return Gather(f32[50, 4] 1, %ids) }");
  ASSERT_TRUE(found.fits) << found.failure;
  EXPECT_EQ(found.inputs.domains.at(0).high, 49);
}

TEST_F(FitTest, NumbersThatAreComparedAreTried) {
  Fit found =
      fit("graph @main(%x: f32[6], %k: i32[]) { return Reshape(%x, Where(Equal(%k, i32[] 977), [2, 3], [4, 5])) }");
  ASSERT_TRUE(found.fits) << found.failure;
  EXPECT_EQ(found.inputs.domains.at(1).choices, std::vector<int64_t>{977});
}

TEST_F(FitTest, FloatsThatAreOneNumberAreTried) {
  Fit found = fit("graph @main(%x: f32[4], %k: f32[]) { return Reshape(%x, Unsqueeze(Cast(%k){to=7}, 0)) }");
  EXPECT_TRUE(found.fits) << found.failure;
}

TEST_F(FitTest, LengthsAreThoseOfWhatTheyDescribe) {
  Fit found = fit(R"(
      graph @main(%x: f32[batch, time], %lengths: i64[batch]) {
        %positions = Range(0, Squeeze(Slice(Shape(%x), [1], [2], [0])), 1)
        return Where(Less(%positions, Unsqueeze(%lengths, [1])), %x, 0.0)
      })");
  ASSERT_TRUE(found.fits) << found.failure;
  EXPECT_EQ(found.inputs.domains.at(1).choices, std::vector<int64_t>{2});
}

TEST_F(FitTest, WhatDoesNotFitSaysWhatToTry) {
  Fit found = fit("graph @main(%x: f32[batch, width], %s: i64[2]) { return Reshape(%x, Add(%s, [1000003, 41])) }");
  EXPECT_FALSE(found.fits);
  EXPECT_NE(found.failure.find("Reshape"), std::string::npos) << found.failure;
  EXPECT_NE(found.suggestion.find("--dim width="), std::string::npos) << found.suggestion;
}

// Running out of memory is not coming further.
TEST_F(FitTest, SizesWithLargeValuesAreNotTried) {
  Fit found = fit(R"(
      graph @main(%x: f32[n]) {
        %rows = Reshape(%x, [-1, 16000])
        return (%rows, Mul(Mul(Reshape(%x, [-1, 1, 1]), Reshape(%x, [-1, 1])), %x))
      })");
  EXPECT_FALSE(found.fits);
  EXPECT_NE(found.failure.find("Reshape"), std::string::npos) << found.failure;
}

TEST_F(FitTest, PinnedShapesReachEveryType) {
  module = ir::parse(*context, "graph @main(%x: f32[n, 4], %y: f32[m, n]) { return MatMul(%y, Relu(%x)) }");
  analysis::infer_types(*module);
  module->metadata().output_types = {module->main()->result()->type()};
  pin_shapes(*module, {.shapes = {{"x", {5, 4}}}});
  EXPECT_EQ(to_string(module->main()->parameter(1)->type()), "f32[m, 5]");
  pin_shapes(*module, {.batch = 3});
  EXPECT_EQ(to_string(module->main()->result()->type()), "f32[3, 4]");
  EXPECT_EQ(to_string(module->metadata().output_types[0]), "f32[3, 4]");
}

TEST_F(FitTest, PinsThatContradictAreRefused) {
  module = ir::parse(*context, "graph @main(%x: f32[n, 4], %y: f32[n]) { return (Relu(%x), %y) }");
  analysis::infer_types(*module);
  for (const Pins& pins : {Pins{.shapes = {{"z", {1}}}}, Pins{.shapes = {{"x", {1}}}}, Pins{.shapes = {{"x", {1, 3}}}},
                           Pins{.shapes = {{"x", {1, 4}}, {"y", {2}}}}, Pins{.shapes = {{"y", {2}}}, .batch = 3}}) {
    EXPECT_THROW(pin_shapes(*module, pins), Error);
  }
}

}  // namespace
}  // namespace anfora::driver

// What agreement means, on results of which one side is off by rounding, and on wrong ones.
#include "fuzz/noise.h"

#include <gtest/gtest.h>

#include <vector>

#include "analysis/evaluate.h"
#include "analysis/infer.h"
#include "ir/parse.h"
#include "ops/registry.h"

namespace anfora::fuzz {
namespace {

using Verdict = Agreement::Verdict;

Verdict verdict(const char* after, const char* before, const Tensor& x) {
  const auto context = ops::make_context();
  const auto a = ir::parse(*context, after), b = ir::parse(*context, before);
  for (const auto& module : {a.get(), b.get()}) analysis::infer_types(*module);
  const std::vector<Datum> inputs{x};
  return agree(*a, analysis::interpret(*a, inputs), *b, analysis::interpret(*b, inputs), inputs).verdict;
}

const Tensor kFloats = Tensor::vector<float>(std::vector<float>{1.25f, 0.7f, 3.3f});

// 8 is the element type of strings.
constexpr const char* kQuotient = "graph @main(%x: f32[3]) { return Cast{to=8}(Div(%x, 3.1)) }";

TEST(Noise, NumeralsOfFloatsMayDifferByRounding) {
  EXPECT_EQ(verdict(kQuotient, kQuotient, kFloats), Verdict::Same);
  EXPECT_EQ(verdict("graph @main(%x: f32[3]) { return Cast{to=8}(Mul(%x, 0.32258064516)) }", kQuotient, kFloats), Verdict::WithinNoise);
}

TEST(Noise, OtherNumeralsAreDifferent) {
  EXPECT_EQ(verdict("graph @main(%x: f32[3]) { return Cast{to=8}(Mul(%x, 0.3226)) }", kQuotient, kFloats), Verdict::Different);
}

TEST(Noise, NumeralsOfIntegersAreExact) {
  constexpr const char* kSum = "graph @main(%x: i64[3]) { return Cast{to=8}(Add(%x, 100000000)) }";
  constexpr const char* kOther = "graph @main(%x: i64[3]) { return Cast{to=8}(Add(%x, 100000001)) }";
  EXPECT_EQ(verdict(kOther, kSum, Tensor::vector<int64_t>(std::vector<int64_t>{1, 2, 3})), Verdict::Different);
}

TEST(Noise, WordsThatNoRoundingChoosesAreExact) {
  constexpr const char* kLess = R"(graph @main(%x: f32[3]) { return Where(Less(%x, 1.0), "a", "b") })";
  constexpr const char* kGreater = R"(graph @main(%x: f32[3]) { return Where(Greater(%x, 1.0), "a", "b") })";
  EXPECT_EQ(verdict(kGreater, kLess, kFloats), Verdict::Different);
}

}  // namespace
}  // namespace anfora::fuzz

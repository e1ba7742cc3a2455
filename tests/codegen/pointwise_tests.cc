// Pointwise convolutions of rows that are gathered: the code that gathers beside the evaluator of the loop IR bit for bit, the kernel beside the reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "both_ways.h"
#include "codegen/gather.h"
#include "kernels/generated/gathered_rows.h"
#include "prepared.h"

namespace anfora::codegen {
namespace {

using namespace kernels::generated;
using Dims = std::vector<int64_t>;

TEST(Gather, IsThatOfTheEvaluator) {
  constexpr int64_t kRows = 3;
  for (Isa isa : isas_here()) {
    for (int64_t channels : {gathered_columns(isa) * 2, gathered_columns(isa) + 3, int64_t{1}}) {
      for (int form = 0; form < 4; ++form) {
        SCOPED_TRACE(fmt::format("{}, {} channels, form {}", kernels::generated::describe(isa).name, channels, form));
        GatherCode code{.has_scale = form % 2 != 0, .epilogue = {}};
        if (form >= 2) code.epilogue = {.addends = {Addend::Row, Addend::None}, .activation = Activation::Relu};
        const Tensor x = random_tensor({kRows, channels + 2}, 1), scale = random_tensor({channels}, 2), shift = random_tensor({channels}, 3);
        Tensor y = random_tensor({kRows, channels + 5}, 4);
        std::vector<int64_t> arguments(kGatherArguments);
        arguments[kFrom] = address(x), arguments[kFromStride] = channels + 2;
        arguments[kToStride] = channels + 5;
        arguments[kGatheredRows] = kRows, arguments[kGatheredChannels] = channels;
        arguments[kGatheredPanels] = channels / gathered_columns(isa), arguments[kCutPanels] = channels % gathered_columns(isa) != 0;
        arguments[kChannelScale] = address(scale), arguments[kChannelShift] = address(shift);
        BothWays both{gather_function(code, isa), isa, {}};
        for (const Tensor* tensor : {&x, &scale, &shift}) both.regions.push_back({tensor->data<float>().data(), tensor->size()});
        both.expect_equal(arguments, kTo, y);
      }
    }
  }
}

struct Case {
  std::vector<Dims> x;
  int64_t columns;
};

class GeneratedPointwise : public testing::TestWithParam<Case> {};

TEST_P(GeneratedPointwise, AgreesWithTheReference) {
  const Case& c = GetParam();
  int64_t channels = 0;
  for (const Dims& x : c.x) channels += x.back();
  Dims filters(c.x[0].size(), 1), per_image(c.x[0].size(), 1), result = c.x[0];
  filters[0] = c.columns, filters[1] = channels;
  per_image.front() = c.x[0][0], per_image.back() = channels;
  result.back() = c.columns;
  const Tensor none, w = random_tensor(filters, 1), b = random_tensor({c.columns}, 2), z = random_tensor(result, 3), t = random_tensor({channels}, 5);
  std::vector<Tensor> xs;
  for (const Dims& x : c.x) xs.push_back(random_tensor(x, 10 + static_cast<int>(xs.size())));
  const AttributeSet normalized{{"input_activation", std::string("Relu")}, {"activation", std::string("HardSwish")}};
  const Tensor images = random_tensor(per_image, 4), one = random_tensor({channels}, 6);
  const std::vector<std::pair<AttributeSet, std::vector<Tensor>>> forms{
      {normalized, {xs[0], w, b, none, one, t}}, {{}, {xs[0], w, none, z, images, none}}, {{}, {xs[0], w, b, z, none, none}}};
  for (auto [attributes, inputs] : forms) {
    inputs.insert(inputs.end(), xs.begin() + 1, xs.end());
    const Tensor expected = run_kernel(std::string(kPointwise), attributes, inputs)[0];
    Prepared prepared(kPointwise, attributes, inputs);
    ASSERT_TRUE(prepared.kernel);
    EXPECT_EQ(prepared.data.implementation, "generated:product");
    const Tensor y = prepared.run(*prepared.kernel);
    expect_close(y, expected, 1e-5f);
    expect_the_same_again(prepared, y);

    // Sizes that only the run knows.
    kernels::KernelData open{std::string(kPointwise), attributes, prepared.data.inputs, 1};
    for (size_t i = 0; i < open.inputs.size(); i = std::max<size_t>(i + 1, kMoreRows)) open.inputs[i].shape.reset();
    const auto kernel = generating_kernels().prepare(open);
    ASSERT_TRUE(kernel);
    EXPECT_TRUE(Tensor::identical(prepared.run(*kernel), y));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, GeneratedPointwise,
                         testing::Values(Case{{{1, 4, 5, 16}}, 32}, Case{{{2, 3, 3, 7}, {2, 3, 3, 40}, {2, 3, 3, 1}}, 40},
                                         Case{{{3, 9, 33}, {3, 9, 64}}, 16}, Case{{{1, 30, 30, 64}, {1, 30, 30, 32}, {1, 30, 30, 32}}, 128},
                                         Case{{{2, 2, 3, 2, 1000}, {2, 2, 3, 2, 200}}, 48}));

TEST(GeneratedPointwise, LeavesTheRestToOthers) {
  const Tensor x = random_tensor({1, 6, 6, 8}, 1), w = random_tensor({16, 8, 1, 1}, 2);
  EXPECT_TRUE(Prepared(kPointwise, {}, {x, w}).kernel);
  EXPECT_FALSE(Prepared(kPointwise, {{"activation", std::string("Mish")}}, {x, w}).kernel);
  EXPECT_FALSE(Prepared(kPointwise, {{"input_activation", std::string("Mish")}}, {x, w}).kernel);
  EXPECT_FALSE(Prepared(kPointwise, {}, {x, random_tensor({16, 9, 1, 1}, 2)}).kernel);
}

}  // namespace
}  // namespace anfora::codegen

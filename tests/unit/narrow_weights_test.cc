// Weights of half precision, and of few bits with scales, stay as they are where kernels of products read them, and are converted otherwise.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "analysis/infer.h"
#include "ir/order.h"
#include "ir/parse.h"
#include "ops/registry.h"
#include "pipeline/pipeline.h"
#include "pipeline/pipelines.h"

namespace anfora::pipeline {
namespace {

// Two products, of which the second has too few columns for generated code; a transposed one; one with a constant product beside it.
constexpr std::string_view kNarrow = R"(
  graph @main(%x: f16[N, 32]) {
    %w = const f16[32, 48] 0.25
    %v = const f16[48, 8] 0.5
    %u = const f16[40, 48] 0.125
    %s = const f16[32, 32] 2.0
    %0 = MatMul(%x, %w)
    return (MatMul(%0, %v), Gemm(%0, %u){transB=1}, Add(MatMul(%x, %s), MatMul(%s, %s)))
  })";

// Three products, of which the last two have scales that no generated code reads, and too few columns.
constexpr std::string_view kQuantized = R"(
  graph @main(%x: f32[N, 32]) {
    %w = const u4[48, 32] 3
    %s = const f32[48, 2] 0.25
    %v = const i8[48, 48] 5
    %t = const f32[48] 0.5
    %u = const i8[48, 8] 7
    %0 = MatMul(%x, Transpose(DequantizeLinear(%w, %s){block_size=16}){perm=[1, 0]})
    %1 = MatMul(Relu(%0), DequantizeLinear(%v, %t){axis=0})
    return MatMul(Relu(%1), DequantizeLinear(%u, 0.5))
  })";

// The element types of constants that products read.
std::vector<DType> weights_of_products(bool (*reads_weights)(DType), std::string_view text = kNarrow) {
  const auto context = ops::make_context();
  auto module = ir::parse(*context, text);
  analysis::infer_types(*module);
  optimize(*module, {.pipeline = &kExecute, .passes = {.reads_weights = reads_weights}});
  std::vector<DType> types;
  for (const ir::GraphOrder& graph : ir::topological_order(*module).graphs) {
    for (const ir::Apply* node : graph.nodes) {
      EXPECT_FALSE(node->is("Cast") && node->input(0)->as_value()) << "a constant is converted in each run";
      EXPECT_FALSE(node->is("DequantizeLinear")) << "a constant is dequantized in each run";
      const bool is_product = node->is("LoweredMatMul") || node->is("LoweredMatMulDequantized");
      const ir::Value* weights = is_product ? node->input(1)->as_value() : nullptr;
      if (weights) types.push_back(weights->tensor().dtype());
    }
  }
  std::ranges::sort(types);
  return types;
}

TEST(NarrowWeights, AreReadAsTheyAre) {
  EXPECT_EQ(weights_of_products([](DType dtype) { return dtype == DType::F16; }), (std::vector{DType::F32, DType::F16, DType::F16, DType::F16}));
}

TEST(NarrowWeights, AreConvertedForOtherKernels) {
  for (auto* reads : {static_cast<bool (*)(DType)>(nullptr), +[](DType dtype) { return dtype == DType::BF16; }})
    EXPECT_EQ(weights_of_products(reads), std::vector(4, DType::F32));
}

TEST(NarrowWeights, OfFewBitsAreReadAsTheyAre) {
  EXPECT_EQ(weights_of_products([](DType dtype) { return dtype == DType::U4 || dtype == DType::I8; }, kQuantized),
            (std::vector{DType::F32, DType::F32, DType::U4}));
  for (DType dtype : weights_of_products(nullptr, kQuantized)) EXPECT_EQ(dtype, DType::F32);
}

}  // namespace
}  // namespace anfora::pipeline

#include <gtest/gtest.h>

#include "analysis/evaluate.h"
#include "analysis/infer.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "ops/registry.h"
#include "pipeline/pipeline.h"
#include "run_kernel.h"

namespace anfora {
namespace {

class Widen : public testing::Test {
 protected:
  std::unique_ptr<ir::Context> context = ops::make_context();
  std::unique_ptr<ir::Module> module;

  // The number of applications of an operator behind the pass.
  size_t count(std::string_view op) const {
    size_t found = 0;
    for (const ir::Graph* graph : module->graphs()) {
      for (const ir::Apply* node = graph->first_node(); node; node = node->next_in_graph()) found += node->is(op);
    }
    return found;
  }
  void widen(std::string_view text, rewrite::Promise math = rewrite::Promise::Real) {
    module = ir::parse(*context, text);
    analysis::infer_types(*module);
    pipeline::run_pass(*pipeline::find_pass("widen"), *module, {.math = math});
    pipeline::run_pass(*pipeline::find_pass("dce"), *module);
    ir::verify_or_throw(*module);
  }
  const ir::Type* result_type() const { return module->main()->result()->type(); }
};

constexpr std::string_view kChain = R"(
    graph @main(%x: f16[2, 3], %w: f16[3, 4], %b: f16[4]) {
      return Relu(Add(MatMul(%x, %w), %b))
    })";

TEST_F(Widen, CastsRemainAtTheEndsOnly) {
  widen(kChain);
  EXPECT_EQ(count("Cast"), 4u);  // of the three parameters and of the result
  EXPECT_EQ(ir::to_string(result_type()), "f16[2, 4]");
  for (ir::Apply* node = module->main()->first_node(); node; node = node->next_in_graph()) {
    if (node->is("MatMul") || node->is("Add") || node->is("Relu")) {
      EXPECT_EQ(node->type()->dtype(), DType::F32);
    }
  }
}

TEST_F(Widen, IsARealRewrite) {
  widen(kChain, rewrite::Promise::Finite);
  EXPECT_EQ(count("Cast"), 0u);
}

TEST_F(Widen, LoweringObeysThePromise) {
  for (auto [promise, casts] : {std::pair{rewrite::Promise::Exact, 0u}, {rewrite::Promise::Real, 4u}}) {
    module = ir::parse(*context, kChain);
    analysis::infer_types(*module);
    pipeline::optimize(*module, {.pipeline = &pipeline::kLower, .passes = {.math = promise}});
    EXPECT_EQ(count("Cast"), casts);
  }
}

TEST_F(Widen, OperandsAndResultsOfArithmeticAreNotRounded) {
  widen("graph @main(%x: f32[4]) { return Cast{to=1}(Neg(Cast{to=10}(%x))) }");
  EXPECT_EQ(count("Cast"), 0u);
}

// Its result is f32, and compared as such.
TEST_F(Widen, RoundingThatIsAllTheModelAsksForStays) {
  widen("graph @main(%x: f32[4]) { return Cast{to=1}(Cast{to=10}(%x)) }");
  EXPECT_EQ(count("Cast"), 2u);
}

TEST_F(Widen, WhatMovesElementsStays) {
  widen("graph @main(%x: f16[2, 3]) { return Transpose{perm=[1, 0]}(%x) }");
  EXPECT_EQ(count("Cast"), 0u);
  widen("graph @main(%x: f32[2, 3]) { return Neg(%x) }");
  EXPECT_EQ(count("Cast"), 0u);
}

TEST_F(Widen, SeveralResults) {
  widen(R"(
    graph @main(%x: bf16[2, 3, 4], %w: bf16[1, 5, 4], %r: bf16[1, 5, 5]) {
      %y = RNN:2(%x, %w, %r){hidden_size=5}
      return %y[1]
    })");
  EXPECT_EQ(ir::to_string(result_type()), "bf16[1, 3, 5]");
}

TEST_F(Widen, SumsOfManySmallNumbersAreNotLost) {
  // 2048 + 1 is 2048 in f16, three times over.
  widen("graph @main(%x: f16[1], %y: f16[1]) { return Add(Add(Add(Add(%x, %y), %y), %y), %y) }");
  Tensor x = make_tensor<Float16>({1}, {Float16(2048.0f)}), y = make_tensor<Float16>({1}, {Float16(1.0f)});
  std::vector<Datum> inputs{x, y};
  EXPECT_EQ(static_cast<float>(analysis::interpret(*module, inputs)[0].tensor().data<Float16>()[0]), 2052.0f);
}

}  // namespace
}  // namespace anfora

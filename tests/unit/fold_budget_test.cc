// Folding has a budget of work, and rewrites that count on folding ask it first.
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/evaluate.h"
#include "driver/evaluate.h"
#include "ir/module.h"
#include "ops/registry.h"
#include "pipeline/pipeline.h"

namespace anfora {
namespace {

constexpr int64_t kSize = 64;
constexpr double kProduct = 2.0 * kSize * kSize * kSize;

class Budget : public testing::Test {
 protected:
  std::unique_ptr<ir::Context> context = ops::make_context();
  std::unique_ptr<ir::Module> module = std::make_unique<ir::Module>(*context);
  ir::Graph* main = module->make_graph("main");
  pipeline::OptimizeReport report;

  Budget() {
    module->set_main(main);
    module->output_names() = {"y"};
  }
  ir::Node* input(int64_t rows) {
    const ir::Dim dims[] = {context->dims().constant(rows), context->dims().constant(kSize)};
    return module->add_parameter(main, context->tensor_type(DType::F32, dims), "x");
  }
  ir::Node* weights(float seed) {
    Tensor w = Tensor::allocate(DType::F32, std::vector<int64_t>{kSize, kSize});
    for (float& x : w.data<float>()) x = seed = seed * 0.7f + 0.01f;
    return module->constant(std::move(w));
  }
  ir::Node* product(ir::Node* a, ir::Node* b) { return module->apply(main, context->get_operator("MatMul"), {a, b}); }

  // How many products are left.
  size_t optimize(double work, passes::Evaluator evaluate = nullptr) {
    pipeline::OptimizeOptions options;
    options.keep_remarks = true;
    options.passes.fold_budget = std::make_shared<analysis::FoldBudget>(work);
    options.passes.evaluate = std::move(evaluate);
    report = pipeline::optimize(*module, options);
    size_t products = 0;
    for (ir::Apply* node = main->first_node(); node; node = node->next_in_graph()) products += node->is("MatMul");
    return products;
  }
  bool says(std::string_view rule, std::string_view words) const {
    return std::ranges::any_of(report.remarks.all(), [&](const rewrite::Remark& remark) {
      return remark.outcome != rewrite::Remark::Outcome::Applied && remark.rule == rule &&
             remark.message.find(words) != std::string::npos;
    });
  }
};

TEST_F(Budget, ProductsOfConstantsAreFoldedWhereThereIsWork) {
  module->set_result(main, product(input(512), product(weights(1), weights(2))));
  EXPECT_EQ(optimize(1e9), 1u);
}

TEST_F(Budget, AndStayWithARemarkWhereThereIsNot) {
  module->set_result(main, product(input(512), product(weights(1), weights(2))));
  EXPECT_EQ(optimize(kProduct), 2u);
  EXPECT_TRUE(says("constant-folding", "budget"));
}

TEST_F(Budget, AChainIsBracketedForFoldingOnlyWhereItIsFolded) {
  module->set_result(main, product(product(product(input(512), weights(1)), weights(2)), weights(3)));
  EXPECT_EQ(optimize(1e9), 1u);
}

TEST_F(Budget, AChainOfHugeWeightsStaysAsItIs) {
  // By vectors: bracketed the other way, the run would take as much as the folding that is not done.
  module->set_result(main, product(product(product(input(1), weights(1)), weights(2)), weights(3)));
  EXPECT_EQ(optimize(kProduct), 3u);
  for (ir::Apply* node = main->first_node(); node; node = node->next_in_graph()) {
    EXPECT_FALSE(node->is("MatMul") && constant_tensor(node->input(0))) << "a product of constants is left";
  }
}

TEST_F(Budget, AProductOfConstantsThatIsNotFoldedIsBracketedAway) {
  module->set_result(main, product(input(1), product(weights(1), weights(2))));
  EXPECT_EQ(optimize(kProduct), 2u);
  for (ir::Apply* node = main->first_node(); node; node = node->next_in_graph()) {
    EXPECT_FALSE(node->is("MatMul") && constant_tensor(node->input(0))) << "a product of constants is left";
  }
}

// Exporters give weights that layers share to each of them by an Identity.
TEST_F(Budget, ViewsOfWeightsAreNoCopies) {
  const Tensor w = weights(1)->as_value()->tensor();
  const Datum inputs[] = {w};
  EXPECT_EQ(analysis::evaluate_operator(context->get_operator("Identity"), {}, inputs, 1).front().tensor().raw(), w.raw());
}

TEST_F(Budget, FastKernelsAgreeWithTheReference) {
  Tensor a = weights(1)->as_value()->tensor(), b = weights(2)->as_value()->tensor();
  const Datum inputs[] = {a, b};
  const ir::Operator& op = context->get_operator("MatMul");
  const Tensor fast = driver::fast_evaluator()(op, {}, inputs, 1).front().tensor();
  const Tensor plain = analysis::evaluate_operator(op, {}, inputs, 1).front().tensor();
  ASSERT_EQ(fast.size(), plain.size());
  for (int64_t i = 0; i < fast.size(); ++i) {
    EXPECT_NEAR(fast.data<float>()[static_cast<size_t>(i)], plain.data<float>()[static_cast<size_t>(i)], 1e-4);
  }
}

}  // namespace
}  // namespace anfora

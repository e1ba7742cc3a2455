// A rule that is wrong on purpose is found by running the model before and after, and reduced to the few nodes that show it.
#include "driver/audit.h"

#include <gtest/gtest.h>

#include "analysis/infer.h"
#include "ir/clone.h"
#include "ir/parse.h"
#include "ops/registry.h"
#include "pipeline/pipelines.h"

namespace anfora::driver {
namespace {

constexpr std::string_view kModel = R"(
  graph @main(%x: f32[2, 3], %y: f32[3]) {
    %a = Mul(Tanh(%x), %y)
    %b = Sub(%a, Sigmoid(%y))
    %c = Add(Relu(Neg(%b)), Abs(%a))
    return Mul(Exp(%c), Add(%b, %y))
  })";

class AuditTest : public testing::Test {
 protected:
  AuditTest() : context(ops::make_context()), module(ir::parse(*context, kModel)) { analysis::infer_types(*module); }

  passes::PassOptions with_rules(std::string_view text) {
    auto rules = std::make_shared<rewrite::RuleSet>(*context);
    rules->read(text, "test.rules");
    passes::PassOptions options;
    options.rules = rules;
    return options;
  }

  std::unique_ptr<ir::Context> context;
  std::unique_ptr<ir::Module> module;
};

constexpr std::string_view kWrong =
    "# not so: −relu(x)\nwrong: Relu(Neg(x)) => Neg(Relu(x))  [exact, ordered 'once']\n";

TEST_F(AuditTest, RightRulesPass) {
  auto options =
      with_rules("# a − b = a + (−b)\nright: Sub(a, b) => Add(a, Neg(b))  [exact, ordered 'no rule back']\n");
  EXPECT_FALSE(audit_pass(pipeline::get_pass("simplify"), *module, options));
}

TEST_F(AuditTest, WrongRuleIsNamed) {
  auto finding = audit_pass(pipeline::get_pass("simplify"), *module, with_rules(kWrong));
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->pass, "simplify");
  EXPECT_EQ(finding->rule, "wrong");
  EXPECT_NE(finding->node.find("Relu"), std::string::npos) << finding->node;
}

TEST_F(AuditTest, FindingIsReducedToWhatShowsIt) {
  auto options = with_rules(kWrong);
  auto finding = audit_pass(pipeline::get_pass("simplify"), *module, options);
  ASSERT_TRUE(finding);
  std::unique_ptr<ir::Module> small = reduce_finding(*finding, options);
  EXPECT_EQ(small->num_operations(), 2u);  // Relu(Neg(x))
  EXPECT_EQ(small->main()->parameters().size(), 1u);
}

TEST_F(AuditTest, PipelineStopsAtTheFinding) {
  pipeline::OptimizeOptions options;
  options.passes = with_rules(kWrong);
  pipeline::OptimizeReport report;
  auto finding = optimize_audited(*module, options, report);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->rule, "wrong");
}

// sin(x) instead of tanh(x), or of what it was fused into.
size_t break_tanh(passes::PassContext& context) {
  for (ir::Apply* node = context.module.main()->first_node(); node; node = node->next_in_graph()) {
    if (!node->is("Tanh") || !context.has_fuel()) continue;
    ir::Apply* wrong = context.apply("broken", "wrong", *node, "Sin", {{node->input(0)}});
    context.applied("broken", "wrong", *node);
    context.module.replace(node, wrong);
    context.module.erase_with_dead_operands(node);
    return 1;
  }
  return 0;
}

constexpr passes::Pass kBroken{"broken", "", "", break_tanh};

TEST_F(AuditTest, BrokenPassIsFoundInEachStage) {
  for (const pipeline::Pipeline* pipeline : {&pipeline::kStore, &pipeline::kOnnxRuntime, &pipeline::kExecute}) {
    for (size_t i = 0; i < pipeline->stages.size(); ++i) {
      SCOPED_TRACE(testing::Message() << pipeline->name << ", " << pipeline->stages[i]->name);
      pipeline::Stage stage = *pipeline->stages[i];
      std::vector<const passes::Pass*> passes{&kBroken};  // in front: it is fused into a product later on
      passes.insert(passes.end(), stage.passes.begin(), stage.passes.end());
      stage.passes = passes;
      std::vector<const pipeline::Stage*> stages(pipeline->stages.begin(), pipeline->stages.end());
      stages[i] = &stage;
      pipeline::Pipeline broken = *pipeline;
      broken.stages = stages;

      std::unique_ptr<ir::Module> copy = ir::clone(*module);
      pipeline::OptimizeReport report;
      auto finding = optimize_audited(*copy, {.pipeline = &broken}, report);
      ASSERT_TRUE(finding);
      EXPECT_EQ(finding->pass, "broken");
      EXPECT_EQ(finding->rule, "wrong");
      EXPECT_NE(finding->node.find("Tanh"), std::string::npos) << finding->node;
    }
  }
}

}  // namespace
}  // namespace anfora::driver

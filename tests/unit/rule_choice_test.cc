// Choices in patterns, patterns with a name, rules of several roots, and rules whose result the operator set to be written does not have.
#include <gtest/gtest.h>

#include "analysis/infer.h"
#include "anfora/error.h"
#include "frontend/onnx/export.h"
#include "frontend/onnx/implemented.h"
#include "ir/parse.h"
#include "ops/registry.h"
#include "rewrite/rule_set.h"

namespace anfora {
namespace {

class RuleChoice : public testing::Test {
 protected:
  std::unique_ptr<ir::Context> context = ops::make_context();
  std::unique_ptr<ir::Module> module;

  // The operator of the result after the rules.
  std::string apply(std::string_view rules, std::string_view text, int64_t opset = 0) {
    module = ir::parse(*context, text);
    analysis::Inference inference(*module);
    inference.run();
    rewrite::RuleSet set(*context);
    set.read(rules, "test.rules");
    rewrite::RewriteOptions options;
    if (opset > 0) {
      options.has_operator = onnx::expressible(*module, {.opset = opset});
      options.is_accurate = onnx::is_accurate;
    }
    rewrite::Remarks remarks;
    rewrite::apply_rules(set, options, inference, remarks, "test");
    return module->main()->result()->as_apply()->op().name;
  }
};

constexpr std::string_view kSquares = R"(
# x² + x² = |x|, say
square: Add((Mul(x, x) | Pow(x, 2)), y) => Abs(x)  [real]
)";

TEST_F(RuleChoice, AnyChoiceMatches) {
  EXPECT_EQ(apply(kSquares, "graph @main(%x: f32[3]) { return Add(Mul(%x, %x), %x) }"), "Abs");
  EXPECT_EQ(apply(kSquares, "graph @main(%x: f32[3]) { return Add(%x, Pow(%x, 2.0)) }"), "Abs");
  EXPECT_EQ(apply(kSquares, "graph @main(%x: f32[3]) { return Add(%x, Pow(%x, 3.0)) }"), "Add");
  EXPECT_EQ(apply(kSquares, "graph @main(%x: f32[3], %y: f32[3]) { return Add(%x, Mul(%x, %y)) }"), "Add");
}

TEST_F(RuleChoice, AChoiceThatFailsLaterIsLeftForTheNext) {
  constexpr std::string_view rules = R"(
# 2 · (f + g) with either as x
pick: Mul((Add(x, _) | Add(_, x)), Neg(x)) => Relu(x)  [real]
)";
  EXPECT_EQ(apply(rules, "graph @main(%x: f32[3], %y: f32[3]) { return Mul(Add(%y, %x), Neg(%x)) }"), "Relu");
}

TEST_F(RuleChoice, ARootMayBeAChoice) {
  constexpr std::string_view rules = R"(
# |x| by either operator
either: (Relu(x) | Max(x, 0)) => Abs(x)  [real, ordered 'Abs is no Relu']
)";
  EXPECT_EQ(apply(rules, "graph @main(%x: f32[3]) { return Relu(%x) }"), "Abs");
  EXPECT_EQ(apply(rules, "graph @main(%x: f32[3]) { return Max(0.0, %x) }"), "Abs");
}

TEST_F(RuleChoice, ChoicesBindTheSameVariables) {
  constexpr std::string_view rules = R"(
# y is not known when it is the second
odd: Neg((Mul(x, y) | Abs(x))) => Add(x, y)  [real]
)";
  EXPECT_THROW(apply(rules, "graph @main(%x: f32[3]) { return Neg(%x) }"), Error);
}

constexpr std::string_view kScaled = R"(
pattern scaled(x, c, d) = x | Mul(x, c) | Div(x, d)

# |c·x| with the factor as the slope
named: Abs(scaled(Neg(x), c?, d?)) => LeakyRelu{alpha=or_else(value(c), 8.0) / or_else(value(d), 1.0)}(x)  [real, ordered 'once']
)";

TEST_F(RuleChoice, WhatAnAlternativeLeavesUnboundIsAbsent) {
  auto alpha = [&](std::string_view text) {
    EXPECT_EQ(apply(kScaled, text), "LeakyRelu");
    return module->main()->result()->as_apply()->attributes().get_float("alpha", 0);
  };
  EXPECT_EQ(alpha("graph @main(%x: f32[3]) { return Abs(Neg(%x)) }"), 8);
  EXPECT_EQ(alpha("graph @main(%x: f32[3]) { return Abs(Mul(2.0, Neg(%x))) }"), 2);
  EXPECT_EQ(alpha("graph @main(%x: f32[3]) { return Abs(Div(Neg(%x), 4.0)) }"), 2);
  EXPECT_EQ(apply(kScaled, "graph @main(%x: f32[3]) { return Abs(Sub(%x, 4.0)) }"), "Abs");
}

TEST_F(RuleChoice, NamedPatternsAreChecked) {
  constexpr const char* kWrong[] = {
      "pattern p(x) = Neg(y)\n# says nothing of x\nr: Abs(p(x)) => x  [real]",
      "pattern p(x, c) = x | Mul(x, c)\n# c may be unbound\nr: Abs(p(x, c)) => x  [real]",
      "pattern p(x) = Neg(x)\n# two\nr: Abs(p(x, y)) => x  [real]",
      "# none\nr: Abs(p(x)) => x  [real]",
      "pattern p(x) = Neg(\n",
      "pattern p(x) = Neg(x)\npattern p(x) = Abs(x)\n",
      "pattern p(x) = p(x)\n",
      "pattern p(x) = x | Neg(x)\n# ends?\nr: Abs(V:p(Relu(x))) => V(x)  [real]",
      "# two results for two roots\nr: Abs(n:Neg(x)) => x | Relu(x), n => x  [real, ordered '']",
      "# x is no application\nr: Abs(Neg(x)) => x, y => x  [real, ordered '']",
      "# y is in one of them\nr: Abs(Neg(x)) beside Relu(y) of y => x  [real]",
      "# no application\nr: Abs(Neg(x)) beside x of x => x  [real]",
  };
  for (const char* rules : kWrong) {
    EXPECT_THROW(apply(rules, "graph @main(%x: f32[3]) { return Neg(%x) }"), Error) << rules;
  }
}

TEST_F(RuleChoice, NamedPatternsBindAttributes) {
  constexpr std::string_view rules = R"(
pattern sloped(x, a) = LeakyRelu{alpha=a}(x) | Elu{alpha=a}(x)
pattern negated(x, s) = Neg(sloped(x, s)) | Neg(x)

# the slope alone
slope: Abs(negated(x, s?)) => LeakyRelu{alpha=or_else(s, 8.0)}(x)  [real, ordered 'once']
# of one slope
same: Add(sloped(x, s), sloped(y, s)) => Mul(x, y)  [real, ordered 'once']
)";
  auto alpha = [&](std::string_view text) {
    EXPECT_EQ(apply(rules, text), "LeakyRelu");
    return module->main()->result()->as_apply()->attributes().get_float("alpha", 0);
  };
  EXPECT_EQ(alpha("graph @main(%x: f32[3]) { return Abs(Neg(Elu(%x){alpha=0.25})) }"), 0.25f);
  EXPECT_EQ(alpha("graph @main(%x: f32[3]) { return Abs(Neg(%x)) }"), 8);
  EXPECT_EQ(apply(rules, "graph @main(%x: f32[3]) { return Add(LeakyRelu(%x){alpha=0.5}, Elu(%x){alpha=0.5}) }"), "Mul");
  EXPECT_EQ(apply(rules, "graph @main(%x: f32[3]) { return Add(LeakyRelu(%x){alpha=0.5}, Elu(%x){alpha=0.25}) }"), "Add");
}

TEST_F(RuleChoice, ParametersOfNamedPatternsHaveOneKind) {
  auto message = [&](const std::string& rules) -> std::string {
    try {
      apply(rules, "graph @main(%x: f32[3]) { return Neg(%x) }");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message("pattern p(x, a) = Mul(LeakyRelu{alpha=a}(x), a)\n").find("a stands for an attribute already"), std::string::npos);
  EXPECT_NE(message("pattern p(x, a) = LeakyRelu{..a}(x)\n").find("a is a parameter"), std::string::npos);
  EXPECT_NE(message("class c = Neg, Abs\npattern p(x, F) = F:c(x)\n").find("F is a parameter"), std::string::npos);
  const std::string no_attribute = "pattern p(x, a) = LeakyRelu{alpha=a}(x)\n# of a number\nr: Abs(p(x, 2)) => x  [real]";
  EXPECT_NE(message(no_attribute).find("a variable, for an attribute"), std::string::npos);
}

TEST_F(RuleChoice, WhatIsAroundATermIsMadeAgain) {
  constexpr std::string_view rules = R"(
pattern moved(x) = x | Reshape{..a}(x, _) | Transpose{perm=p}(Reshape{..a}(x, _))

# Relu does not ask where it is computed
around: Abs(V:moved(Relu(x))) => Neg(V(x))  [real, ordered 'once'] if single_use
)";
  EXPECT_EQ(apply(rules, "graph @main(%x: f32[6]) { return Abs(Relu(%x)) }"), "Neg");
  EXPECT_TRUE(module->main()->result()->as_apply()->input(0)->is_parameter());
  EXPECT_EQ(apply(rules, "graph @main(%x: f32[6]) { return Abs(Transpose(Reshape(Relu(%x), [2, 3])){perm=[1, 0]}) }"), "Neg");
  const ir::Apply* moved = module->main()->result()->as_apply()->input(0)->as_apply();
  ASSERT_TRUE(moved->is("Transpose"));
  EXPECT_TRUE(moved->input(0)->as_apply()->input(0)->is_parameter());
}

TEST_F(RuleChoice, AnotherReaderOfAnOperandMatches) {
  constexpr std::string_view rules = R"(
# the other one as a factor
beside: Abs(Neg(x)) beside n:Relu(x) of x => Mul(n, x)  [real, ordered 'once'] if uses(n) == 1
)";
  apply(rules, "graph @main(%x: f32[3]) { return (Abs(Neg(%x)), Relu(%x)) }");
  EXPECT_TRUE(module->main()->result()->as_apply()->input(0)->as_apply()->is("Mul"));
  EXPECT_EQ(apply(rules, "graph @main(%x: f32[3]) { return Abs(Neg(%x)) }"), "Abs");
  apply(rules, "graph @main(%x: f32[3], %y: f32[3]) { return (Abs(Neg(%x)), Relu(%y)) }");
  EXPECT_TRUE(module->main()->result()->as_apply()->input(0)->as_apply()->is("Abs"));
  // Each reader is tried until the condition holds.
  apply(rules, "graph @main(%x: f32[3]) { %r = Relu(%x) %s = Relu(%x) return (Abs(Neg(%x)), %r, %r, %s) }");
  const ir::Apply* results = module->main()->result()->as_apply();
  ASSERT_TRUE(results->input(0)->as_apply()->is("Mul"));
  EXPECT_EQ(results->input(0)->as_apply()->input(0), results->input(3));
}

constexpr std::string_view kSiblings = R"(
# the largest, and where it is
both: Mul(y, n:ReduceMax(x, a)) => t:TopK(x, [1]).0, n => t.0
  [real, ordered 'once'] if rank(x) == 1 and uses(n) > 1
)";

TEST_F(RuleChoice, SeveralRootsAreReplacedTogether) {
  apply(kSiblings, "graph @main(%x: f32[6], %y: f32[1]) { %m = ReduceMax(%x, [0])\n return (Mul(%y, %m), Neg(%m)) }");
  const ir::Apply* results = module->main()->result()->as_apply();
  ASSERT_EQ(results->input(0)->as_apply()->primitive(), ir::Primitive::TupleGetItem);
  const ir::Apply* negated = results->input(1)->as_apply()->input(0)->as_apply();
  EXPECT_EQ(negated->input(0), results->input(0)->as_apply()->input(0));
}

TEST_F(RuleChoice, ButNotWhereWhatIsMadeIsComputedOfWhatIsReplaced) {
  constexpr std::string_view rules = R"(
# y may be computed of n
back: Mul(y, n:Relu(x)) => a:Add(x, y), n => a  [real, ordered 'once']
)";
  EXPECT_EQ(apply(rules, "graph @main(%x: f32[6], %y: f32[6]) { return Mul(%y, Relu(%x)) }"), "Add");
  EXPECT_EQ(apply(rules, "graph @main(%x: f32[6]) { %n = Relu(%x)\n return Mul(Neg(%n), %n) }"), "Mul");
}

TEST_F(RuleChoice, WhatChoicesWeighIsTheLightest) {
  constexpr std::string_view rules = R"(
# as heavy as the first choice
heavy: Neg((Mul(x, 2) | Pow(Mul(x, 2), 3))) => Add(x, Neg(x))  [real]
)";
  EXPECT_THROW(apply(rules, "graph @main(%x: f32[3]) { return Neg(%x) }"), Error);
}

TEST_F(RuleChoice, WhatRunTimesHaveNoKernelForIsNotMade) {
  constexpr std::string_view rules = R"(
# max(x, 0) = Relu(x)
relu: Max(x, 0) => Relu(x)  [exact]
)";
  EXPECT_EQ(apply(rules, "graph @main(%x: i64[3]) { return Max(%x, 0) }", 18), "Max");
  EXPECT_EQ(apply(rules, "graph @main(%x: f32[3]) { return Max(%x, 0.0) }", 18), "Relu");
  EXPECT_EQ(apply(rules, "graph @main(%x: i64[3]) { return Max(%x, 0) }"), "Relu");
}

TEST_F(RuleChoice, OperatorsThatTheOperatorSetLacksAreNotMade) {
  constexpr std::string_view rules = R"(
# x · σ(x) = Swish(x)
swish: Mul(x, Sigmoid(x)) => Swish(x)  [real]
)";
  constexpr std::string_view text = "graph @main(%x: f32[3]) { return Mul(%x, Sigmoid(%x)) }";
  EXPECT_EQ(apply(rules, text), "Swish");
  EXPECT_EQ(apply(rules, text, 24), "Swish");
  EXPECT_EQ(apply(rules, text, 26), "Mul");  // ONNX Runtime runs neither Swish there nor its parts
  EXPECT_EQ(apply(rules, text, 28), "Swish");
  EXPECT_EQ(apply(rules, text, 23), "Mul");
}

TEST_F(RuleChoice, NorOperatorsForElementTypesThatTheyTookLater) {
  constexpr std::string_view rules = R"(
# x · HardSigmoid(x) = HardSwish(x), say
hard-swish: Mul(x, HardSigmoid(x)) => HardSwish(x)  [real]
)";
  constexpr std::string_view text = "graph @main(%x: bf16[3]) { return Mul(%x, HardSigmoid(%x)) }";
  EXPECT_EQ(apply(rules, text, 22), "HardSwish");
  EXPECT_EQ(apply(rules, text, 21), "Mul");
}

TEST_F(RuleChoice, SmallResultsAreKeptWhereTheRuleSaysThatTheyAreThere) {
  constexpr std::string_view accurate = R"(
# 1 / (1 + exp(x)) = σ(−x)
sigmoid: Reciprocal(Add(Exp(x), 1)) => Sigmoid(Neg(x))  [real, accurate]
)";
  constexpr std::string_view rounded = R"(
# (tanh(x) + 1) / 2 = σ(2x), which is 0 for −20 on both sides
sigmoid: Div(Add(Tanh(x), 1), 2) => Sigmoid(Mul(x, 2))  [real, ordered 'a Sigmoid']
)";
  constexpr std::string_view any = "graph @main(%x: f32[3]) { return Reciprocal(Add(Exp(%x), 1.0)) }";
  constexpr std::string_view bounded = "graph @main(%x: f32[3]) { return Reciprocal(Add(Exp(Tanh(%x)), 1.0)) }";
  EXPECT_EQ(apply(accurate, any), "Sigmoid");
  EXPECT_EQ(apply(accurate, any, 18), "Reciprocal");
  EXPECT_EQ(apply(accurate, bounded, 18), "Sigmoid");
  EXPECT_EQ(apply(rounded, "graph @main(%x: f32[3]) { return Div(Add(Tanh(%x), 1.0), 2.0) }", 18), "Sigmoid");
}

}  // namespace
}  // namespace anfora

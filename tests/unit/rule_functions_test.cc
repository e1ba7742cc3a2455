// Functions of rules about shapes and lists.
#include <gtest/gtest.h>

#include "ops/registry.h"
#include "rewrite/expression.h"

namespace anfora::rewrite {
namespace {

using Integers = std::vector<int64_t>;

class RuleFunctions : public testing::Test {
 protected:
  // Quantities have no equality (they may hold tensors): their texts are compared.
  std::string call(std::string_view name, std::vector<Quantity> arguments) {
    return to_string(find_function(name)->call(scope_, arguments));
  }
  static std::string shown(const Quantity& q) { return to_string(q); }
  ir::Dim symbol(std::string_view name) { return context_->dims().symbol(name); }
  ir::Dim constant(int64_t value) { return context_->dims().constant(value); }

  std::unique_ptr<ir::Context> context_ = ops::make_context();
  ir::Module module_{*context_};
  analysis::Inference inference_{module_};
  Rewriter rewriter_{module_, inference_};
  Match match_{SlotCounts{}};
  Scope scope_{rewriter_, match_};
};

TEST_F(RuleFunctions, ListsAreAddedElementByElement) {
  EXPECT_EQ(call("+", {Integers{1, 2}, Integers{3, -4}}), shown(Integers{4, -2}));
  EXPECT_EQ(call("*", {Integers{1, 2}, Integers{3, -4}}), shown(Integers{3, -8}));
  EXPECT_EQ(call("-", {Integers{1}, Integers{3, 4}}), shown(NotKnown{}));
  EXPECT_EQ(call("+", {Integers{INT64_MAX}, Integers{1}}), shown(NotKnown{}));
}

TEST_F(RuleFunctions, ReshapeCopiesSymbolsAndInfersOne) {
  ir::Dim n = symbol("N"), m = symbol("M");
  Dims x{n, m, constant(12)};
  EXPECT_EQ(call("reshape_to", {x, Dims{n, m, constant(3), constant(4)}}), shown(Integers{0, 0, 3, 4}));
  EXPECT_EQ(call("reshape_to", {x, Dims{n * m, constant(12)}}), shown(Integers{-1, 12}));
  EXPECT_EQ(call("reshape_to", {x, Dims{n, m * 12}}), shown(NotKnown{})) << "N may be 0, which leaves -1 open";
  EXPECT_EQ(call("reshape_to", {x, Dims{m, n, constant(12)}}), shown(NotKnown{}));
  EXPECT_EQ(call("reshape_to", {Integers{0, 6}, Integers{0, 5}}), shown(Integers{0, 5}));
  EXPECT_EQ(call("reshape_to", {Integers{6, 0}, Integers{0, 5}}), shown(NotKnown{})) << "a zero would copy the 6";
}

TEST_F(RuleFunctions, ExpandKeepsSymbolsByOnes) {
  ir::Dim n = symbol("N");
  EXPECT_EQ(call("expand_to", {Dims{n, constant(1)}, Dims{constant(2), n, constant(4)}}), shown(Integers{2, 1, 4}));
  EXPECT_EQ(call("expand_to", {Integers{1, 4}, Dims{n, constant(4)}}), shown(NotKnown{}));
}

TEST_F(RuleFunctions, AxesOfViewsOfViews) {
  // [2, 1, 3, 1, 1] → [2, 3, 1] → [2, 3]
  EXPECT_EQ(call("squeeze_both", {Integers{1, 3}, Integers{2}}), shown(Integers{1, 3, 4}));
  // [2, 3] → [1, 2, 3] → [1, 2, 1, 3]
  EXPECT_EQ(call("unsqueeze_both", {Integers{0}, Integers{2}}), shown(Integers{0, 2}));
  // [2, 3] → [2, 1, 3] → [1, 2, 1, 3]
  EXPECT_EQ(call("unsqueeze_both", {Integers{1}, Integers{0}}), shown(Integers{0, 2}));
  EXPECT_EQ(call("squeeze_both", {Integers{-1}, Integers{0}}), shown(NotKnown{}));
}

TEST_F(RuleFunctions, PermutationsWithAndWithoutAxes) {
  EXPECT_EQ(call("perm_without", {Integers{2, 0, 1}, Integers{0}}), shown(Integers{0, 1}));
  EXPECT_EQ(call("perm_without", {Integers{2, 0, 1}, Integers{1}}), shown(Integers{1, 0}));
  EXPECT_EQ(call("perm_with", {Integers{1, 0}, Integers{1}}), shown(Integers{2, 1, 0}));
  EXPECT_EQ(call("keeps_order", {Integers{1, 0, 2}, Integers{5, 1, 7}}), shown(true));
  EXPECT_EQ(call("keeps_order", {Integers{1, 0, 2}, Integers{5, 2, 7}}), shown(false));
  EXPECT_EQ(call("swaps_last_two", {Integers{0, 2, 1}}), shown(true));
  EXPECT_EQ(call("swaps_last_two", {Integers{1, 0, 2}}), shown(false));
}

TEST_F(RuleFunctions, BlocksOfAxesMoveBehindReshape) {
  std::vector<Quantity> merge{Integers{0, 2, 3, 1}, Integers{2, 3, 4, 5}, Integers{2, 20, 3}};
  EXPECT_EQ(call("shape_before_transpose", merge), shown(Integers{2, 3, 20}));
  EXPECT_EQ(call("perm_after_reshape", merge), shown(Integers{0, 2, 1}));
  std::vector<Quantity> divide{Integers{1, 0}, Integers{6, 5}, Integers{5, 1, 2, 3}};
  EXPECT_EQ(call("shape_before_transpose", divide), shown(Integers{1, 2, 3, 5}));
  EXPECT_EQ(call("perm_after_reshape", divide), shown(Integers{3, 0, 1, 2}));
  EXPECT_EQ(call("perm_after_reshape", {Integers{0, 2, 1, 3}, Integers{2, 3, 4, 5}, Integers{2, 4, 15}}),
            shown(NotKnown{}));
  EXPECT_EQ(call("perm_after_reshape", {Integers{1, 0}, Integers{0, 5}, Integers{5, 0}}), shown(NotKnown{}));
}

TEST_F(RuleFunctions, StepsOfLists) {
  EXPECT_EQ(call("step", {Integers{3, 5, 7}}), shown(int64_t{2}));
  EXPECT_EQ(call("step", {Integers{3, 5, 6}}), shown(NotKnown{}));
  EXPECT_EQ(call("disjoint", {Integers{3, 5}, Integers{4}}), shown(true));
  EXPECT_EQ(call("either_is_one", {Integers{1, 3}, Integers{4, 1}}), shown(true));
  EXPECT_EQ(call("either_is_one", {Integers{2, 3}, Integers{4, 1}}), shown(false));
}

}  // namespace
}  // namespace anfora::rewrite

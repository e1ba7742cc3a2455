#include "analysis/schedule.h"

#include <gtest/gtest.h>

#include "analysis/infer.h"
#include "analysis/memory_profile.h"
#include "ir/parse.h"
#include "ops/registry.h"

namespace anfora::analysis {
namespace {

class Schedule : public testing::Test {
 protected:
  // The names of main's applications in the order of the schedule.
  std::vector<std::string> order_of(std::string_view text) {
    module = ir::parse(*context, text);
    infer_types(*module);
    const ir::ModuleOrder order = ir::topological_order(*module);
    const ir::FreeVariables captured(order);
    ir::GraphOrder scheduled{.graph = module->main(), .nodes = schedule(order.graphs[0], captured), .dead = {}};
    before = MemoryProfile(order.graphs[0], captured).peak();
    after = MemoryProfile(scheduled, captured).peak();
    EXPECT_EQ(scheduled.nodes.size(), order.graphs[0].nodes.size());
    EXPECT_EQ(scheduled.nodes.back(), module->main()->return_node());
    std::vector<std::string> names;
    for (const ir::Apply* node : scheduled.nodes) {
      for (const ir::Use& use : node->operands()) {  // operands come before users
        const ir::Apply* operand = use.node->as_apply();
        if (!operand || operand->name().empty()) continue;
        EXPECT_TRUE(std::ranges::count(names, operand->name())) << operand->name();
      }
      if (!node->name().empty()) names.emplace_back(node->name());
    }
    return names;
  }

  std::unique_ptr<ir::Context> context = ops::make_context();
  std::unique_ptr<ir::Module> module;
  double before = 0, after = 0;
};

// In the order of the walk, %a and %b wait for %u and %v, which are computed in between.
TEST_F(Schedule, ValuesDieEarly) {
  const auto names = order_of(R"(graph @main(%x: f32[1024], %y: f32[1024]) {
    %a = Exp(%x)
    %b = Sin(%a)
    %u = Add(Tan(%b), Cos(%b))
    %v = Add(Sqrt(%u), Exp(%u))
    return MakeTuple(ReduceSum(%v), ReduceSum(Mul(%a, %b)))
  })");
  EXPECT_LE(after, before);
}

// The gradient of a weight is small, and what it is computed of is large.
TEST_F(Schedule, GradientsOfWeights) {
  const auto names = order_of(R"(graph @main(%x: f32[4096, 4], %v: f32[4, 4], %w: f32[4, 4], %u: f32[4, 4]) {
    %a = Tanh(MatMul(%x, %v))
    %b = Tanh(MatMul(%a, %w))
    %c = Tanh(MatMul(%b, %u))
    %dc = Sub(1.0, Mul(%c, %c))
    %db = Mul(MatMul(%dc, %u), Sub(1.0, Mul(%b, %b)))
    %da = Mul(MatMul(%db, %w), Sub(1.0, Mul(%a, %a)))
    %dv = MatMul(Transpose(%x), %da)
    %dw = MatMul(Transpose(%a), %db)
    %du = MatMul(Transpose(%b), %dc)
    return MakeTuple(Sub(%v, %dv), Sub(%w, %dw), Sub(%u, %du))
  })");
  const auto at = [&](std::string_view name) { return std::ranges::find(names, name) - names.begin(); };
  EXPECT_LT(after, before * 0.9);
  EXPECT_LT(at("du"), at("da"));
}

TEST_F(Schedule, WhatDrawsStays) {
  const auto names = order_of(R"(graph @main(%x: f32[64]) {
    %a = RandomNormalLike(%x)
    %b = RandomNormalLike(%x)
    return MakeTuple(ReduceSum(%b), ReduceSum(%a))
  })");
  EXPECT_EQ(names, (std::vector<std::string>{"b", "a"}));
}

// Where SequenceErase is the last one to read %s, it copies nothing.
TEST_F(Schedule, ReadersComeBeforeUpdates) {
  const auto names = order_of(R"(graph @main(%s: seq(f32[4]), %x: f32[4]) {
    %rest = SequenceErase(%s, -1)
    %left = SequenceLength(%rest)
    %top = SequenceAt(%s, Sub(-1, Mul(%left, 0)))
    %first = SequenceAt(%s, Neg(0))
    return MakeTuple(%left, %rest, Add(%first, %x), %top)
  })");
  EXPECT_EQ(names, (std::vector<std::string>{"first", "rest", "left", "top"}));
}

// %a's reader needs %b's update, and the other way round: one of them copies.
TEST_F(Schedule, ReadersAndUpdatesThatCross) {
  const auto names = order_of(R"(graph @main(%a: seq(f32[4]), %b: seq(f32[4])) {
    %c = SequenceErase(%a, -1)
    %d = SequenceErase(%b, -1)
    %i = SequenceAt(%a, SequenceLength(%d))
    %j = SequenceAt(%b, SequenceLength(%c))
    return MakeTuple(%c, %d, %i, %j)
  })");
  EXPECT_EQ(names, (std::vector<std::string>{"c", "j", "d", "i"}));
}

TEST_F(Schedule, UpdatesOfOneValueComeAfterItsReaders) {
  const auto names = order_of(R"(graph @main(%s: seq(f32[4]), %x: f32[4]) {
    %a = SequenceErase(%s, -1)
    %b = SequenceInsert(%s, %x)
    %n = SequenceLength(%a)
    %at = SequenceAt(%s, 0)
    return MakeTuple(%n, %b, %at)
  })");
  EXPECT_EQ(names, (std::vector<std::string>{"at", "a", "n", "b"}));
}

}  // namespace
}  // namespace anfora::analysis

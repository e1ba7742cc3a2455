#include "analysis/memory_profile.h"

#include <gtest/gtest.h>

#include <random>

#include "analysis/infer.h"
#include "ir/builder.h"
#include "ops/registry.h"

namespace anfora::analysis {
namespace {

using namespace ir;

class MemoryProfileTest : public testing::Test {
 protected:
  MemoryProfile profile() {
    infer_types(module);
    ModuleOrder order = topological_order(module);
    return {order.graphs[0], FreeVariables(order)};
  }

  std::unique_ptr<Context> context = ops::make_context();
  Module module{*context};
  Builder main{module, "main"};
  Node* x = main.parameter("f32[10, 10]", "x");  // 400 bytes, of the caller
};

TEST_F(MemoryProfileTest, AValueLivesFromItsStepToItsLastReader) {
  Node* a = main("Transpose", {x});
  Node* b = main("MatMul", {a, x});
  Node* c = main("MatMul", {b, x});
  main.returns(main("MatMul", {c, a}));  // a, c and the result
  EXPECT_EQ(profile().peak(), 1200);
}

TEST_F(MemoryProfileTest, WhatDiesMayBeTakenOver) {
  Node* a = main("MatMul", {x, x});
  main.returns(main("Exp", {main("Neg", {a})}));
  EXPECT_EQ(profile().peak(), 400);
}

TEST_F(MemoryProfileTest, AViewIsItsOperand) {
  Node* a = main("MatMul", {x, x});
  Node* view = main("Reshape", {a, main.vector<int64_t>({100})});
  main.returns(main("ReduceSum", {view, main.vector<int64_t>({0})}));
  EXPECT_EQ(profile().peak(), 404);
}

TEST_F(MemoryProfileTest, AClosureKeepsWhatItReads) {
  Node* a = main("MatMul", {x, x});
  Builder f = main.function("f"), g = main.function("g");
  f.returns(f("MatMul", {a, x}));
  g.returns(x);
  Node* b = main("MatMul", {main("MatMul", {x, a}), x});
  Node* result = main.call(main.choose(main.parameter("bool[]", "c"), f, g));
  main.returns(main("MatMul", {b, result}));
  EXPECT_EQ(profile().peak(), 1200);
}

TEST_F(MemoryProfileTest, SharingIsForeseenAndTakenBack) {
  Node* s = main.parameter("f32[1, 1]", "s");
  Node* shape = main.vector<int64_t>({10, 10});
  Apply* first = main("Expand", {s, shape});
  Node* a = main("MatMul", {x, first});
  Node* b = main("MatMul", {main("MatMul", {a, a}), a});
  Apply* second = main("Expand", {s, shape});
  main.returns(main("MatMul", {b, second}));
  MemoryProfile p = profile();
  EXPECT_EQ(p.peak(), 1200);
  p.merge(*first, *second);
  EXPECT_EQ(p.peak(), 1600);
  p.undo_merge();
  EXPECT_EQ(p.peak(), 1200);

  module.replace(second, first);
  MemoryProfile shared = profile();
  EXPECT_EQ(shared.peak(), 1600);
  auto gaps = shared.gaps_at_peak();
  ASSERT_EQ(gaps.size(), 1u);
  EXPECT_EQ(gaps[0].node, first);
  EXPECT_EQ(gaps[0].later.size(), 1u);
}

// Merging one by one foresees what a new profile finds, or a little more: who takes over whose memory is not looked at anew.
TEST_F(MemoryProfileTest, MergesAddUp) {
  std::mt19937 random(1);
  for (int round = 0; round < 30; ++round) {
    Module other(*context);
    Builder f(other, "main");
    std::vector<Node*> values{f.parameter("f32[10, 10]", "x")};
    auto any = [&] { return values[random() % values.size()]; };
    for (int i = 0; i < 30; ++i) values.push_back(f("MatMul", {any(), any()}));
    Node* all = values.back();
    for (Node* value : values) all = f("MatMul", {all, value});
    f.returns(all);
    infer_types(other);
    ModuleOrder order = topological_order(other);
    MemoryProfile p(order.graphs[0], FreeVariables(order));
    for (Apply* node : order.graphs[0].nodes) {
      for (Apply* earlier : order.graphs[0].nodes) {
        if (earlier == node) break;
        if (earlier->is_erased() || !earlier->is("MatMul") || !node->is("MatMul")) continue;
        if (earlier->input(0) != node->input(0) || earlier->input(1) != node->input(1)) continue;
        double before = p.peak();
        p.merge(*earlier, *node);
        p.undo_merge();
        EXPECT_EQ(p.peak(), before);
        p.merge(*earlier, *node);
        other.replace(node, earlier);
        other.erase(node);
        break;
      }
    }
    ModuleOrder after = topological_order(other);
    EXPECT_EQ(p.peak(), MemoryProfile(after.graphs[0], FreeVariables(after)).peak());
  }
}

}  // namespace
}  // namespace anfora::analysis

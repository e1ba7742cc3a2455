#include "analysis/loops.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "analysis/infer.h"
#include "ir/parse.h"
#include "ops/registry.h"

namespace anfora::analysis {
namespace {

using VariableKind = LoopRun::Variable::Kind;

class LoopsTest : public testing::Test {
 protected:
  // The one loop of a module, @loop.
  std::optional<Loop> find(std::string_view text) {
    module = ir::parse(*context, text);
    infer_types(*module);
    const ir::ModuleOrder order = topological_order(*module);
    const CallOrder calls(order);
    for (const ir::Graph* graph : module->graphs()) {
      if (graph->name() == "loop") return Loop::of(*graph, order, calls);
    }
    return std::nullopt;
  }

  std::unique_ptr<ir::Context> context = ops::make_context();
  std::unique_ptr<ir::Module> module;
};

constexpr std::string_view kScan = R"(
graph @main(%x: f32[N, 2], %h: f32[2], %w: f32[2]) {
  %n = Gather(Shape(%x), 0)
  return call @loop(3, 0, %h, %w, SequenceEmpty(){dtype=1})
}
graph @loop(%k: i64[], %i: i64[], %h: f32[2], %w: f32[2], %all: seq(f32[2])) in @main {
  return call Switch(Less(%i, %n), @body, @done)()
}
graph @body() in @loop {
  %row = Gather(%x, Sub(Sub(%n, 1), %i))
  %next = Add(Mul(%h, %w), %row)
  return call @loop(Add(-2, %k), Add(%i, 1), %next, %w, SequenceInsert(%all, %next))
}
graph @done() in @loop { return (%k, StackSequence(%all){axis=0, dtype=1}) }
)";

TEST_F(LoopsTest, ClassifiesParameters) {
  const auto loop = find(kScan);
  ASSERT_TRUE(loop && loop->body());
  EXPECT_TRUE(loop->goes_on_when);
  EXPECT_EQ(loop->body()->name(), "body");
  EXPECT_EQ(loop->exit()->name(), "done");
  ASSERT_EQ(loop->entries.size(), 1U);

  const LoopRun run(*loop, *loop->entries[0]);
  auto variable = [&](size_t i) { return run.variable(loop->header->parameter(i)); };
  EXPECT_EQ(variable(0).kind, VariableKind::Counter);
  EXPECT_EQ(variable(0).start, 3);
  EXPECT_EQ(variable(0).step, -2);
  EXPECT_TRUE(run.is_index(loop->header->parameter(1)));
  EXPECT_EQ(variable(2).kind, VariableKind::Carried);
  EXPECT_EQ(variable(3).kind, VariableKind::Invariant);
  EXPECT_EQ(variable(4).kind, VariableKind::Collected);
  EXPECT_EQ(variable(4).item, run.next(loop->header->parameter(2)));
}

TEST_F(LoopsTest, FindsWhatIsScanned) {
  const auto loop = find(kScan);
  ASSERT_TRUE(loop);
  const LoopRun run(*loop, *loop->entries[0]);
  const auto bound = run.bound();
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->index, loop->header->parameter(1));
  const ir::Apply* row = run.next(loop->header->parameter(2))->as_apply()->input(1)->as_apply();
  const auto scan = run.scan_of(*row, *bound);
  ASSERT_TRUE(scan);
  EXPECT_EQ(scan->tensor, module->main()->parameter(0));
  EXPECT_EQ(scan->axis, 0);
  EXPECT_TRUE(scan->reversed);
}

TEST_F(LoopsTest, RunsWhatTheTestDependsOn) {
  const auto loop = find(R"(
graph @main(%x: f32[]) { return call @loop(1, 5, %x) }
graph @loop(%size: i64[], %left: i64[], %x: f32[]) in @main {
  return call Switch(Or(Greater(%size, 20), Less(%left, 0)), @done, @body)()
}
graph @body() in @loop { return call @loop(Mul(%size, 2), Sub(%left, 1), Neg(%x)) }
graph @done() in @loop { return %x }
)");
  ASSERT_TRUE(loop && loop->body());
  EXPECT_FALSE(loop->goes_on_when);
  KnownIterations known(*loop, *loop->entries[0]);
  EXPECT_EQ(known.count(), 5U);
  EXPECT_TRUE(known.runs_at_all());
  EXPECT_TRUE(known.is_known(loop->header->parameter(0)));
  EXPECT_FALSE(known.is_known(loop->header->parameter(2)));
}

TEST_F(LoopsTest, KnowsCallsThatAreNoLoop) {
  // Both outcomes of the test go on.
  EXPECT_FALSE(find(R"(
graph @main(%x: f32[]) { return call @loop(%x) }
graph @loop(%x: f32[]) in @main { return call Switch(Greater(%x, 0.0), @a, @b)() }
graph @a() in @loop { return call @loop(Neg(%x)) }
graph @b() in @loop { return call Switch(Less(%x, -9.0), @a, @done)() }
graph @done() in @loop { return %x }
)"));
  // It goes on in the middle of the body.
  const auto loop = find(R"(
graph @main(%x: f32[]) { return call @loop(%x) }
graph @loop(%x: f32[]) in @main { return call Switch(Greater(%x, 0.0), @body, @done)() }
graph @body() in @loop { return Neg(call @loop(Sub(%x, 1.0))) }
graph @done() in @loop { return %x }
)");
  EXPECT_TRUE(!loop || !loop->body());
}

}  // namespace
}  // namespace anfora::analysis

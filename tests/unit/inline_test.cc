// What the file tests (tests/file/inline.ir) do not show: the remarks, and the effort.
#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/verify.h"
#include "ops/registry.h"
#include "passes/pass.h"
#include "pipeline/pipelines.h"

namespace anfora::passes {
namespace {

using namespace ir;

class InlineTest : public testing::Test {
 protected:
  size_t run() {
    PassOptions options;
    PassContext pass(module, remarks, options);
    pass.inference.run();
    size_t changes = pipeline::get_pass("inline").run(pass);
    for (const Violation& v : verify(module)) ADD_FAILURE() << to_string(v);
    return changes;
  }
  // A top-level function of `length` applications of `op` on its parameter.
  Builder chain(std::string_view name, size_t length) {
    Builder f(module, name);
    Node* node = f.parameter("f32[4]", "a");
    for (size_t i = 0; i < length; ++i) node = f("Neg", {node});
    f.returns(node);
    return f;
  }

  std::unique_ptr<Context> context = ops::make_context();
  Module module{*context};
  Builder main{module, "main"};
  Node* x = main.parameter("f32[4]", "x");
  rewrite::Remarks remarks{true};
};

TEST_F(InlineTest, RemarksSayWhatAndWhyNot) {
  Builder once = chain("once", 1000), big = chain("big", 300), small = chain("small", 2);
  Builder forever(module, "forever");
  forever.returns(forever.call(forever, {forever.parameter("f32[4]", "a")}));
  Node* y = main.call(once, {x});
  for (int i = 0; i < 2; ++i) y = main.call(small, {main.call(big, {y})});
  // Reached by a Switch on a value, so that it is typed without being computed.
  Builder stop = main.function("stop"), go = main.function("go");
  stop.returns(y);
  go.returns(go.call(forever, {y}));
  main.returns(main.call(main.choose(main.parameter("bool[]", "c"), stop, go)));
  EXPECT_EQ(run(), 3u);
  std::vector<std::string> messages;
  for (const rewrite::Remark& remark : remarks.all()) {
    EXPECT_EQ(remark.pass, "inline");
    messages.push_back((remark.outcome == rewrite::Remark::Outcome::Applied ? "" : "refused: ") + remark.message);
  }
  std::ranges::sort(messages);
  std::string too_large = "refused: @big is called elsewhere, too, and has 301 applications; at most 256 are copied";
  EXPECT_EQ(messages,
            (std::vector<std::string>{"@once, used once", "@small, small", "@small, small", too_large, too_large,
                                      "refused: @forever is recursive", "refused: @forever is recursive"}));
}

// f0 calls f1 twice, f1 calls f2 twice, …: inlining all would need 2^40 copies.
// Moved or copied, through a function or two: each node says where it was written and where that was inlined.
TEST_F(InlineTest, LocationsSayWhereTheyWereInlined) {
  auto at = [&](Node* node, std::string_view file, std::string_view name, int index) {
    node->set_location(module.location({.file = file, .name = name, .index = index}));
    return node;
  };
  Builder inner(module, "inner"), outer(module, "outer");
  inner.returns(at(inner("Sin", {inner.parameter("f32[4]", "a")}), "inner", "s", 0));
  Node* call = at(outer.call(inner, {outer.parameter("f32[4]", "a")}), "outer", "i", 0);
  outer.returns(at(outer("Cos", {call}), "outer", "c", 1));
  main.returns(at(main.call(outer, {at(main.call(outer, {x}), "m.onnx", "one", 3)}), "m.onnx", "two", 4));
  ASSERT_GT(run(), 0u);
  const Apply* cos = module.main()->result()->as_apply();
  const Apply* sin = cos->input(0)->as_apply();
  EXPECT_EQ(to_string(*cos->location()), "c (outer: node 1), inlined at two (m.onnx: node 4)");
  EXPECT_EQ(to_string(*sin->location()),
            "s (inner: node 0), inlined at i (outer: node 0), inlined at two (m.onnx: node 4)");
  const Apply* first = sin->input(0)->as_apply();
  EXPECT_EQ(to_string(*first->location()), "c (outer: node 1), inlined at one (m.onnx: node 3)");
  EXPECT_EQ(first->location()->before_inlining(), cos->location()->before_inlining());
  EXPECT_EQ(module.inlined(cos->location(), cos->location()), cos->location()) << "an iteration, inlined into the one before";
}

TEST_F(InlineTest, StopsBeforeItExplodes) {
  Builder callee = chain("f", 1);
  for (int level = 0; level < 40; ++level) {
    Builder caller(module, "g");
    Node* a = caller.parameter("f32[4]", "a");
    caller.returns(caller("Add", {caller.call(callee, {a}), caller.call(callee, {a})}));
    callee = caller;
  }
  main.returns(main.call(callee, {x}));
  run();
  size_t nodes = 0;
  for (const Graph* graph : module.graphs()) nodes += graph->num_nodes();
  EXPECT_LT(nodes, 80u * 257u);
}

TEST_F(InlineTest, ErasesWhatItInlined) {
  Builder f = chain("f", 3);
  main.returns(main.call(f, {x}));
  EXPECT_EQ(run(), 1u);
  EXPECT_EQ(module.graphs().size(), 1u);
}

TEST_F(InlineTest, LongChainsOfCalls) {
  Builder callee = chain("f", 1);
  for (int level = 0; level < 3000; ++level) {
    Builder caller(module, "g");
    caller.returns(caller("Exp", {caller.call(callee, {caller.parameter("f32[4]", "a")})}));
    callee = caller;
  }
  main.returns(main.call(callee, {x}));
  EXPECT_EQ(run(), 3001u);
  EXPECT_EQ(main.graph()->num_nodes(), 3002u);
}

}  // namespace
}  // namespace anfora::passes

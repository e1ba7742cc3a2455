#include "ir/clone.h"

#include <gtest/gtest.h>

#include "anfora/error.h"
#include "ir/isomorphic.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "ops/registry.h"

namespace anfora::ir {
namespace {

class CloneTest : public testing::Test {
 protected:
  void parse(std::string_view text) { module = ir::parse(*context, text); }
  Apply* find_call(std::string_view graph) {
    for (Apply* node = module->find_graph(graph)->first_node(); node; node = node->next_in_graph()) {
      if (node->primitive() == Primitive::Call) return node;
    }
    return nullptr;
  }
  void expect(std::string_view text) {
    for (const Violation& v : verify(*module)) ADD_FAILURE() << to_string(v);
    EXPECT_EQ(difference(*module, *ir::parse(*context, text)), "") << print(*module);
  }

  std::unique_ptr<Context> context = ops::make_context();
  std::unique_ptr<Module> module;
};

constexpr std::string_view kClonedLoop = R"(
  graph @main(%x: f32[4], %n: i64[]) {
    %w = Relu(%x)
    return call @loop(%n, %x)
  }
  graph @loop(%i: i64[], %v: f32[4]) in @main {
    %f = Switch(Less(%i, 10), @body, @done)
    return call %f()
  }
  graph @body() in @loop { return call @loop(Add(%i, 1), Mul(%v, %w)) }
  graph @done() in @loop { return %v }
)";

TEST_F(CloneTest, InlinesACall) {
  parse(R"(
    graph @main(%x: f32[4]) { return Neg(call @f(%x, Exp(%x))) }
    graph @f(%a: f32[4], %b: f32[4]) { return Add(Relu(%a), %b) })");
  Apply* call = find_call("main");
  module->set_name(call, "r");
  Node* result = inline_call(*module, call, *module->find_graph("f"));
  EXPECT_EQ(result->name(), "r");
  EXPECT_TRUE(call->is_erased());
  expect("graph @main(%x: f32[4]) { return Neg(Add(Relu(%x), Exp(%x))) }");
}

TEST_F(CloneTest, InlinesNestedFunctionsAndParameters) {
  parse(R"(
    graph @main(%x: f32[4]) { return (call @f(%x), call @g(%x)) }
    graph @f(%a: f32[4]) { return call Switch(IsInf(ReduceSum(%a)), @then, @else)() }
    graph @then() in @f { return Relu(%a) }
    graph @else() in @f { return call @then() }
    graph @g(%a: f32[4]) { return %a })");
  inline_call(*module, find_call("main"), *module->find_graph("f"));
  inline_call(*module, find_call("main"), *module->find_graph("g"));
  expect(R"(
    graph @main(%x: f32[4]) { return (call Switch(IsInf(ReduceSum(%x)), @then, @else)(), %x) }
    graph @then() in @main { return Relu(%x) }
    graph @else() in @main { return call @then() })");
}

TEST_F(CloneTest, CopiesKeepNamesLocationsAndTypes) {
  parse("graph @main(%x: f32[4]) { return call @f(%x) } graph @f(%a: f32[4]) { %r = Relu(%a) : f32[4]  return %r }");
  Graph* f = module->find_graph("f");
  Node* relu = f->result();
  relu->set_location(module->location({.file = "m.onnx", .name = "relu", .index = 7}));
  Graph* copy = Cloner(*module).copy(*f, nullptr);
  EXPECT_EQ(copy->name(), "f.1");
  EXPECT_NE(copy->result(), relu);
  EXPECT_EQ(copy->result()->name(), "r");
  EXPECT_EQ(copy->result()->type(), relu->type());
  EXPECT_EQ(copy->result()->location(), relu->location());
  EXPECT_EQ(copy->parameter(0)->name(), "a");
  EXPECT_NE(copy->parameter(0), f->parameter(0));
}

TEST_F(CloneTest, Specializes) {
  parse(R"(
    graph @main(%x: f32[4]) { return call @f(%x, 2.0) }
    graph @f(%a: f32[4], %b: f32[]) { return Mul(Relu(%a), %b) })");
  Apply* call = find_call("main");
  Node* values[] = {nullptr, module->scalar(2.0f)};
  Graph* special = specialize(*module, *module->find_graph("f"), values);
  Node* arguments[] = {call->input(1)};
  module->set_result(module->main(), module->call(module->main(), special->value(), arguments));
  module->erase(call);
  expect(R"(
    graph @main(%x: f32[4]) { return call @f(%x) }
    graph @f(%a: f32[4]) { return Mul(Relu(%a), 2.0) })");
}

TEST_F(CloneTest, FullCopiesOfRecursiveFunctionsReferToThemselves) {
  parse(kClonedLoop);
  Graph* loop = module->find_graph("loop");
  Graph* copy = Cloner(*module).copy(*loop, loop->parent());
  EXPECT_TRUE(verify(*module).empty());
  Apply* call = find_call("main");
  module->set_operand(call, 0, copy->value());
  expect(kClonedLoop);
}

TEST_F(CloneTest, SpecializedRecursionEntersTheOriginal) {
  parse(kClonedLoop);
  Node* values[] = {module->scalar(int64_t{0}), nullptr};
  Graph* loop = module->find_graph("loop");
  Graph* first = specialize(*module, *loop, values);
  ASSERT_EQ(first->parameters().size(), 1u);
  EXPECT_TRUE(verify(*module).empty());
  Apply* back = find_call("body.1");
  EXPECT_EQ(constant_function(back->input(0)), loop);
}

TEST_F(CloneTest, LiftsFreeVariables) {
  parse(R"(
    graph @main(%x: f32[4], %y: f32[4]) {
      %w = Exp(%y)
      return call @f(%x)
    }
    graph @f(%a: f32[4]) in @main { return Add(Mul(%a, %w), call @g()) }
    graph @g() in @f { return Sub(%y, %a) })");
  Apply* call = find_call("main");
  auto [lifted, captured] = lift(*module, *module->find_graph("f"));
  EXPECT_EQ(lifted->parent(), nullptr);
  std::vector<Node*> arguments{call->input(1)};
  arguments.insert(arguments.end(), captured.begin(), captured.end());
  module->set_result(module->main(), module->call(module->main(), lifted->value(), arguments));
  module->erase(call);
  expect(R"(
    graph @main(%x: f32[4], %y: f32[4]) { return call @f(%x, Exp(%y), %y) }
    graph @f(%a: f32[4], %w: f32[4], %y: f32[4]) { return Add(Mul(%a, %w), call @g()) }
    graph @g() in @f { return Sub(%y, %a) })");
}

TEST_F(CloneTest, LiftedRecursionPassesOnWhatIsCaptured) {
  parse(kClonedLoop);
  Apply* call = find_call("main");
  auto [lifted, captured] = lift(*module, *module->find_graph("loop"));
  ASSERT_EQ(captured.size(), 1u);
  Node* arguments[] = {call->input(1), call->input(2), captured[0]};
  module->set_result(module->main(), module->call(module->main(), lifted->value(), arguments));
  module->erase(call);
  expect(R"(
    graph @main(%x: f32[4], %n: i64[]) { return call @loop(%n, %x, Relu(%x)) }
    graph @loop(%i: i64[], %v: f32[4], %w: f32[4]) {
      return call Switch(Less(%i, 10), @body, @done)()
    }
    graph @again(%j: i64[], %u: f32[4]) in @loop { return call @loop(%j, %u, %w) }
    graph @body() in @loop { return call @again(Add(%i, 1), Mul(%v, %w)) }
    graph @done() in @loop { return %v })");
}

TEST_F(CloneTest, LiftingRefusesFunctionsItWouldHide) {
  parse(kClonedLoop);
  try {
    lift(*module, *module->find_graph("body"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Unsupported);
    EXPECT_EQ(error.message(), "@body uses @loop, which is nested in @main");
  }
}

TEST_F(CloneTest, WholeModules) {
  parse(kClonedLoop);
  module->metadata().producer = "test";
  module->output_names() = {"result"};
  Graph* main = module->main();
  module->set_default(main->parameter(1), module->scalar(int64_t{0}));
  Graph* dead = module->make_graph("dead", main);
  module->set_result(dead, module->apply(dead, context->get_operator("Neg"), {main->parameter(0)}));
  main->result()->set_location(module->location({.file = "m.onnx", .name = "loop", .index = 1}));

  std::unique_ptr<Module> copy = clone(*module);
  EXPECT_TRUE(verify(*copy).empty());
  EXPECT_EQ(difference(*module, *copy, {.names = true}), "");
  PrintOptions options{.numbers = PrintOptions::Numbers::Sequential};
  std::string text = print(*copy, options);
  EXPECT_EQ(text, print(*module, options));
  module.reset();  // the copy holds nothing of it
  EXPECT_EQ(print(*copy, options), text);
}

TEST_F(CloneTest, DeepGraphsNeedNoStack) {
  constexpr int kLength = 300'000;
  module = std::make_unique<Module>(*context);
  Graph* f = module->make_graph("f");
  Node* node = module->add_parameter(f, nullptr, "x");
  for (int i = 0; i < kLength; ++i) node = module->apply(f, context->get_operator("Relu"), {node});
  module->set_result(f, node);
  module->set_main(f);
  EXPECT_EQ(Cloner(*module).copy(*f, nullptr)->num_nodes(), kLength + 1u);
  EXPECT_TRUE(isomorphic(*clone(*module), *module));
}

}  // namespace
}  // namespace anfora::ir

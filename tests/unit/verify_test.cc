// One broken module for each invariant; and that reports do not depend on what is broken elsewhere.
#include "ir/verify.h"

#include <gtest/gtest.h>

#include "ops/registry.h"

namespace anfora::ir {
namespace {

// No interface breaks the census of a module, so that these tests reach for private members, by the one way that the
// language leaves open: access is not checked in an explicit instantiation.
template <auto Member, class Tag>
struct Reveal {
  friend auto reveal(Tag) { return Member; }
};
struct NextTag {
  friend auto reveal(NextTag);
};
template struct Reveal<&Apply::next_, NextTag>;
struct IndexTag {
  friend auto reveal(IndexTag);
};
template struct Reveal<&Node::num_inputs_, IndexTag>;
struct IdTag {
  friend auto reveal(IdTag);
};
template struct Reveal<&Node::id_, IdTag>;
struct CountTag {
  friend auto reveal(CountTag);
};
template struct Reveal<&Graph::num_nodes_, CountTag>;

class VerifyTest : public testing::Test {
 protected:
  VerifyTest() {
    module.set_main(main);
    module.set_result(main, sum);
  }
  Apply* relu(Graph* graph, Node* x) { return module.apply(graph, context->get_operator("Relu"), {x}); }
  Graph* graph_returning(std::string_view name, Graph* parent, Node* result) {
    Graph* graph = module.make_graph(name, parent);
    module.set_result(graph, result);
    return graph;
  }
  static Use& operand(Apply* node, size_t i) { return const_cast<Use&>(node->operands()[i]); }
  void expect(Invariant invariant, std::string_view message) {
    std::vector<std::string> reports;
    bool found = false;
    for (const Violation& v : verify(module)) {
      reports.push_back(to_string(v));
      found = found || (v.invariant == invariant && reports.back().find(message) != std::string::npos);
    }
    EXPECT_TRUE(found) << name(invariant) << ": " << message << " is not among\n  " << testing::PrintToString(reports);
  }
  void expect_valid() {
    for (const Violation& v : verify(module)) ADD_FAILURE() << to_string(v);
  }

  std::unique_ptr<Context> context = ops::make_context();
  Module module{*context};
  Graph* main = module.make_graph("main");
  Parameter* x = module.add_parameter(main, context->unranked_type(DType::F32), "x");
  Apply* negated = module.apply(main, context->get_operator("Neg"), {x}, {}, 1, module.location({.file = "m.onnx", .name = "neg", .index = 3}));
  Apply* sum = module.apply(main, context->get_operator("Add"), {negated, x}, {}, 1, nullptr, "sum");
};

TEST_F(VerifyTest, AcceptsValidModules) {
  expect_valid();
  Graph* then = graph_returning("then", main, sum);
  Graph* otherwise = graph_returning("else", main, x);
  Node* choice = module.make_switch(main, module.scalar(true), then->value(), otherwise->value());
  module.set_result(main, module.make_tuple(main, std::vector<Node*>{module.call(main, choice, {}), module.none()}));
  module.output_names() = {"a", "b"};
  expect_valid();
}

TEST_F(VerifyTest, Main) {
  module.set_main(nullptr);
  expect(Invariant::Main, "no main");
  Graph* inner = graph_returning("inner", main, x);
  module.set_main(inner);
  expect(Invariant::Main, "nested");
  Module other(*context);
  module.set_main(other.make_graph("other"));
  expect(Invariant::Main, "not a graph of the module");
}

TEST_F(VerifyTest, GraphTree) {
  Graph* a = graph_returning("a", main, x);
  Graph* b = graph_returning("b", a, x);
  module.set_parent(a, b);
  expect(Invariant::GraphTree, "graph @a: the graph is nested in itself");
  expect(Invariant::GraphTree, "graph @b: the graph is nested in itself");
  Module other(*context);
  module.set_parent(a, other.make_graph("elsewhere"));
  expect(Invariant::GraphTree, "graph @a: its parent is not a graph of the module");
}

TEST_F(VerifyTest, Ownership) {
  main->*reveal(CountTag()) = 17;
  expect(Invariant::Ownership, "3 applications are listed, 17 counted");
  sum->*reveal(IdTag()) = negated->id();
  expect(Invariant::Ownership, "is not its own");
  sum->*reveal(NextTag()) = negated;  // a ring
  expect(Invariant::Ownership, "listed twice");
}

TEST_F(VerifyTest, ApplicationsOfAnotherGraph) {
  Graph* other = graph_returning("other", main, x);
  sum->*reveal(NextTag()) = other->return_node();
  expect(Invariant::Ownership, "belongs to another graph");
}

TEST_F(VerifyTest, Parameters) {
  x->*reveal(IndexTag()) = 5;
  expect(Invariant::Parameters, "parameter 0 has index 5");
}

TEST_F(VerifyTest, Operands) {
  Apply* dead = relu(main, x);
  module.erase(dead);
  module.set_operand(sum, 1, dead);
  expect(Invariant::Operands, "Add 'sum' in @main: operand 1 is erased (invariant 5, operands)");
  operand(sum, 1).node = nullptr;
  expect(Invariant::Operands, "operand 1 is missing");
}

TEST_F(VerifyTest, OperandsOfAnotherModule) {
  Module other(*context);
  Graph* elsewhere = other.make_graph("elsewhere");
  Node* foreign = other.add_parameter(elsewhere, nullptr, "y");
  module.set_operand(sum, 0, foreign);
  module.set_operand(sum, 1, elsewhere->value());
  expect(Invariant::Operands, "operand 0 is not a node of this module");
  expect(Invariant::Operands, "operand 1 is a function that is erased or of another module");
  module.set_operand(sum, 0, x);  // before the other module dies
  module.set_operand(sum, 1, x);
  expect_valid();
}

TEST_F(VerifyTest, UseLists) {
  operand(sum, 0).node = x;
  expect(Invariant::UseLists, "Neg 'neg' in @main: 0 operands name it, its use list holds more");
  expect(Invariant::UseLists, "parameter 'x' in @main: 3 operands name it, its use list holds 2");
  operand(sum, 0).node = negated;
  operand(sum, 0).next = &operand(sum, 0);  // a ring
  expect(Invariant::UseLists, "its use list holds more");
}

TEST_F(VerifyTest, Return) {
  Graph* stub = module.make_graph("stub");
  expect(Invariant::Return, "graph @stub: the graph has no result");
  module.set_result(stub, module.none());
  Apply* second = module.apply(main, context->primitive(Primitive::Return), {x});
  expect(Invariant::Return, "a second Return");
  relu(main, second);
  expect(Invariant::Return, "a Return is used");
}

TEST_F(VerifyTest, Scope) {
  Graph* inner = module.make_graph("inner", main);
  Apply* hidden = relu(inner, sum);
  module.set_result(inner, hidden);
  expect_valid();
  module.set_operand(negated, 0, hidden);
  expect(Invariant::Scope, "operand 0 is Relu %");
  module.set_operand(negated, 0, x);
  Graph* innermost = graph_returning("innermost", inner, hidden);
  module.set_result(main, module.call(main, innermost->value(), {}));
  expect(Invariant::Scope, "the function @innermost of @inner, which does not enclose @main");
}

TEST_F(VerifyTest, Acyclic) {
  module.set_operand(negated, 0, sum);
  expect(Invariant::Acyclic, "depends on itself through Neg 'neg'");
}

// The walk that orders a module meets @inner before the call, and so sees no cycle.
TEST_F(VerifyTest, CyclesThroughClosures) {
  Graph* inner = module.make_graph("inner", main);
  Apply* call = module.call(main, inner->value(), {});
  module.set_result(inner, relu(inner, call));
  module.set_result(main, module.make_tuple(main, std::vector<Node*>{module.call(main, inner->value(), {}), call}));
  expect(Invariant::Acyclic, "it depends on itself: @inner reads");
}

TEST_F(VerifyTest, RecursionIsNoCycle) {
  Graph* loop = module.make_graph("loop", main);
  Node* i = module.add_parameter(loop, nullptr, "i");
  Graph* body = module.make_graph("body", loop);
  Graph* done = graph_returning("done", loop, i);
  Node* next = module.apply(body, context->get_operator("Add"), {relu(loop, i), sum});
  module.set_result(body, module.call(body, loop->value(), std::vector<Node*>{next}));
  module.set_result(loop, module.call(loop, module.make_switch(loop, i, body->value(), done->value()), {}));
  module.set_result(main, module.call(main, loop->value(), std::vector<Node*>{x}));
  expect_valid();
}

TEST_F(VerifyTest, Primitives) {
  module.apply(main, context->primitive(Primitive::TupleGetItem), {sum});
  expect(Invariant::Primitives, "TupleGetItem without an index");
  module.apply(main, context->primitive(Primitive::Switch), {sum});
  expect(Invariant::Primitives, "Switch has 1 operands, not 3");
  module.apply(main, context->primitive(Primitive::Call), std::span<Node* const>());
  expect(Invariant::Primitives, "a call without a callee");
  module.apply(main, context->primitive(Primitive::MakeTuple), {sum}, {}, 2);
  expect(Invariant::Primitives, "MakeTuple has 2 results, not 1");
}

TEST_F(VerifyTest, Calls) {
  Graph* unary = module.make_graph("unary");
  module.set_result(unary, module.add_parameter(unary, nullptr, "p"));
  module.call(main, unary->value(), {});
  expect(Invariant::Calls, "@unary has 1 parameters, 0 arguments are given");
  module.call(main, module.scalar(1.0f), {});
  expect(Invariant::Calls, "is not a function");
  Graph* constant = graph_returning("constant", nullptr, module.none());
  module.make_switch(main, module.scalar(true), unary->value(), constant->value());
  expect(Invariant::Calls, "@unary has 1 parameters, @constant has 0");
}

TEST_F(VerifyTest, Declarations) {
  module.apply(main, context->get_operator("Add"), {x});
  expect(Invariant::Declarations, "1 operands, Add takes at least 2");
  module.apply(main, context->get_operator("Relu"), {x, x});
  expect(Invariant::Declarations, "2 operands, Relu takes at most 1");
  module.apply(main, context->get_operator("Relu"), {module.none()});
  expect(Invariant::Declarations, "the required operand 0 ('X') is none");
  module.apply(main, context->get_operator("Relu"), {x}, {}, 2);
  expect(Invariant::Declarations, "2 results, Relu has at most 1");
  module.apply(main, context->get_operator("Concat"), {x}, {{"axes", int64_t{1}}});
  expect(Invariant::Declarations, "Concat has no attribute 'axes'");
  expect(Invariant::Declarations, "the required attribute 'axis' is missing");
  module.apply(main, context->get_operator("Concat"), {x}, {{"axis", 1.0f}});
  expect(Invariant::Declarations, "the attribute 'axis' is of the wrong kind");
}

TEST_F(VerifyTest, Constants) {
  Value* one = module.scalar(1.0f);
  module.set_operand(sum, 1, one);
  one->set_type(context->tensor_type(DType::F32, std::vector<int64_t>{1}));
  expect(Invariant::Constants, "its type is f32[1], its tensor is scalar of f32");
  main->value()->set_type(one->type());
  expect(Invariant::Constants, "the function's type is f32[1]");
}

TEST_F(VerifyTest, Types) {
  const Type* f32 = context->unranked_type(DType::F32);
  const Type* i64 = context->unranked_type(DType::I64);
  sum->set_type(i64);
  module.set_result(main, sum);
  sum->set_type(f32);
  expect(Invariant::Types, "its type is i64[*], the result's f32[*]");
  Apply* tuple = module.make_tuple(main, std::vector<Node*>{sum});
  const Type* items[] = {i64};
  tuple->set_type(context->tuple_type(items));
  expect(Invariant::Types, "its type (i64[*],) is not that of its operands");
  Apply* item = module.apply(main, context->primitive(Primitive::TupleGetItem), {tuple}, {{"index", int64_t{1}}});
  item->set_type(f32);
  expect(Invariant::Types, "item 1 of (i64[*],)");
  negated->set_type(tuple->type());
  expect(Invariant::Types, "one result, its type is the tuple");
}

TEST_F(VerifyTest, Interface) {
  module.output_names() = {"a", "b"};
  sum->set_type(context->unranked_type(DType::F32));
  expect(Invariant::Interface, "results of type f32[*], 2 names of results");
  module.set_default(x, module.scalar(int64_t{1}));
  expect(Invariant::Interface, "its default is i64, its type f32[*]");
}

TEST_F(VerifyTest, Tokens) {
  auto token = [&](Graph* graph, std::string_view op, std::initializer_list<Node*> operands) {
    Apply* made = module.apply(graph, context->get_operator(op), operands);
    made->set_type(context->state_type());
    return made;
  };
  Apply* start = token(main, "InitialState", {});
  Graph* then = graph_returning("then", main, start);
  Graph* otherwise = graph_returning("else", main, start);
  Node* choice = module.make_switch(main, module.scalar(true), then->value(), otherwise->value());
  Node* last = module.call(main, choice, {});
  module.set_result(main, module.apply(main, context->get_operator("Depend"), {sum, last}));
  expect_valid();  // one of the two branches is taken
  Apply* again = token(main, "Assert", {start, module.scalar(true)});
  expect_valid();  // no result depends on it
  Graph* unread = module.make_graph("unread");
  module.add_parameter(unread, context->state_type());
  module.set_result(unread, module.scalar(1.0F));
  Node* given[] = {start};
  Node* called = module.call(main, unread->value(), given);
  Node* product = module.apply(main, context->get_operator("Mul"), {main->result(), called});
  module.set_result(main, product);
  expect_valid();  // the function does not read it
  module.set_result(main, module.apply(main, context->get_operator("Depend"), {product, again}));
  expect(Invariant::Tokens, "the token has more than one consumer");
}

TEST_F(VerifyTest, ErrorsHoldThePlace) {
  Apply* dead = relu(main, x);
  module.erase(dead);
  module.set_operand(negated, 0, dead);
  try {
    verify_or_throw(module, ErrorCode::InvalidModel);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidModel);
    EXPECT_EQ(error.node(), "Neg 'neg' in @main");
    EXPECT_EQ(error.location(), "neg (m.onnx: node 3)");
    EXPECT_EQ(error.message(), "operand 0 is erased (invariant 5, operands)");
  }
}

TEST_F(VerifyTest, DeepGraphsNeedNoStack) {
  Node* node = x;
  for (int i = 0; i < 300'000; ++i) node = relu(main, node);
  module.set_result(main, node);
  expect_valid();
}

}  // namespace
}  // namespace anfora::ir

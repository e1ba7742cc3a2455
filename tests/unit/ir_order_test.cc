#include "ir/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace anfora::ir {
namespace {

// The example of order.h.
class OrderTest : public testing::Test {
 protected:
  Apply* unary(Graph* graph, std::string_view name, Node* x) {
    return module.apply(graph, *context.operator_or_unknown("", name), {x}, {}, 1, nullptr, name);
  }
  static std::vector<std::string> names(std::span<Apply* const> nodes) {
    std::vector<std::string> all;
    for (Apply* n : nodes) all.emplace_back(n->name().empty() ? n->op().name : std::string(n->name()));
    return all;
  }
  using Names = std::vector<std::string>;

  Context context;
  Module module{context};
  Graph* main = module.make_graph("main");
  Node* x = module.add_parameter(main, nullptr, "x");
};

TEST_F(OrderTest, FollowsClosures) {
  module.set_main(main);
  Graph* neg = module.make_graph("neg", main);
  Graph* pos = module.make_graph("pos", main);
  Graph* unused = module.make_graph("unused", main);
  module.set_result(unused, x);
  // Made in an order unlike that of the walk.
  Apply* tanh = unary(main, "Tanh", x);
  Apply* greater = unary(main, "Greater", x);
  Apply* chosen = module.make_switch(main, greater, pos->value(), neg->value());
  Apply* result = module.call(main, chosen, {});
  module.set_result(main, result);
  Apply* dead = unary(main, "Dead", unary(main, "DeadOperand", x));
  module.set_result(neg, unary(neg, "Neg", x));
  module.set_result(pos, unary(pos, "Relu", tanh));

  ModuleOrder order = topological_order(module);
  ASSERT_EQ(order.graphs.size(), 3u);
  EXPECT_EQ(order.graphs[0].graph, main);
  EXPECT_EQ(order.graphs[1].graph, pos);
  EXPECT_EQ(order.graphs[2].graph, neg);
  EXPECT_EQ(names(order.graphs[0].nodes), (Names{"Greater", "Tanh", "Switch", "call", "return"}));
  EXPECT_TRUE(order.graphs[0].dead.empty());
  EXPECT_TRUE(order.back_edges.empty());
  EXPECT_EQ(names(topological_order(*main)), names(order.graphs[0].nodes));
  EXPECT_EQ(names(topological_order(*pos)), (Names{"Relu", "return"}));

  ModuleOrder all = topological_order(module, Coverage::All);
  ASSERT_EQ(all.graphs.size(), 4u);
  EXPECT_EQ(all.graphs[3].graph, unused);
  EXPECT_EQ(names(all.graphs[0].dead), (Names{"DeadOperand", "Dead"}));
  EXPECT_EQ(all.graphs[0].dead.back(), dead);

  FreeVariables free(order);
  EXPECT_TRUE(free.of(main).empty());
  ASSERT_EQ(free.of(pos).size(), 1u);
  EXPECT_EQ(free.of(pos)[0], tanh);
  ASSERT_EQ(free.of(neg).size(), 1u);
  EXPECT_EQ(free.of(neg)[0], x);
}

TEST_F(OrderTest, IsSharedUntilSomethingChanges) {
  module.set_main(main);
  Apply* f = unary(main, "F", x);
  module.set_result(main, f);
  auto before = shared_order(module);
  f->set_type(context.unranked_type(DType::F32));
  EXPECT_EQ(shared_order(module), before);

  Apply* g = unary(main, "G", x);
  module.set_operand(f, 0, g);
  EXPECT_EQ(names(before->graphs[0].nodes), (Names{"F", "return"}));
  EXPECT_EQ(names(shared_order(module)->graphs[0].nodes), (Names{"G", "F", "return"}));
  module.set_operand(f, 0, x);
  module.erase(g);
  EXPECT_EQ(names(shared_order(module)->graphs[0].nodes), (Names{"F", "return"}));
}

// loop(i) = Switch(i, body, done)(); body() = loop(Next(i) + limit); `limit` belongs to main.
TEST_F(OrderTest, FreeVariablesThroughRecursion) {
  module.set_main(main);
  Apply* limit = unary(main, "Limit", x);
  Graph* loop = module.make_graph("loop", main);
  Node* i = module.add_parameter(loop, nullptr, "i");
  Graph* body = module.make_graph("body", loop);
  Graph* done = module.make_graph("done", loop);
  module.set_result(done, i);
  Node* next = module.apply(body, *context.operator_or_unknown("", "Next"), {i, limit});
  module.set_result(body, module.call(body, loop->value(), std::vector<Node*>{next}));
  module.set_result(loop, module.call(loop, module.make_switch(loop, i, body->value(), done->value()), {}));
  module.set_result(main, module.call(main, loop->value(), std::vector<Node*>{x}));

  ModuleOrder order = topological_order(module);
  EXPECT_TRUE(order.back_edges.empty());
  EXPECT_EQ(names(order.graphs[0].nodes), (Names{"Limit", "call", "return"}));
  FreeVariables free(order);
  EXPECT_TRUE(free.of(main).empty());
  ASSERT_EQ(free.of(loop).size(), 1u);
  EXPECT_EQ(free.of(loop)[0], limit);
  EXPECT_EQ(free.of(body).size(), 2u);
  EXPECT_TRUE(std::ranges::count(free.of(body), i) && std::ranges::count(free.of(body), limit));
  EXPECT_EQ(free.of(done).size(), 1u);
}

TEST_F(OrderTest, ReportsCycles) {
  module.set_main(main);
  Apply* a = unary(main, "A", x);
  Apply* b = unary(main, "B", a);
  module.set_result(main, b);
  module.set_operand(a, 0, b);
  ModuleOrder order = topological_order(module);
  ASSERT_EQ(order.back_edges.size(), 1u);
  EXPECT_EQ(order.back_edges[0].user, a);

  // Through a closure: c calls a function that uses c.
  Graph* inner = module.make_graph("inner", main);
  Apply* c = module.call(main, inner->value(), {});
  module.set_result(inner, unary(inner, "Use", c));
  module.set_result(main, c);
  EXPECT_EQ(topological_order(module).back_edges.size(), 1u);
}

TEST_F(OrderTest, DeepChainsNeedNoStack) {
  constexpr int kLength = 1'000'000;
  module.set_main(main);
  const Operator& relu = *context.operator_or_unknown("", "Relu");
  Node* node = x;
  for (int i = 0; i < kLength; ++i) node = module.apply(main, relu, {node});
  module.set_result(main, node);
  EXPECT_EQ(topological_order(module).graphs[0].nodes.size(), kLength + 1u);
}

}  // namespace
}  // namespace anfora::ir

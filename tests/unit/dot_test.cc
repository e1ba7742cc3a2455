#include "ir/dot.h"

#include <gtest/gtest.h>

#include "ir/parse.h"
#include "ops/registry.h"

namespace anfora::ir {
namespace {

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(Dot, ClustersBoxesAndArrows) {
  auto context = ops::make_context();
  auto module = parse(*context, R"(
    graph @main(%x: f32[N, 4], %c: bool[]) {
      %w = const f32[4, 2] [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]
      %fc = MatMul(%x, %w) : f32[N, 2]
      %f = Switch(%c, @pos, @neg)
      return call %f()
    }
    graph @pos() in @main { return Softmax(%fc){axis=1} }
    graph @neg() in @main { return %fc })");
  std::string dot = to_dot(*module);
  EXPECT_EQ(dot, R"(digraph {
  compound=true; newrank=true; fontname="Helvetica"; fontsize=11;
  node [shape=box, style="rounded,filled", fillcolor=white, fontname="Helvetica", fontsize=10];
  edge [arrowsize=0.6, color="#555555", fontname="Helvetica", fontsize=9];
  subgraph cluster_0 {
    label="@main"; style=rounded; color="#999999";
    n1 [shape=ellipse, style=filled, fillcolor="#fff3b0", label="x\nf32[N, 4]"];
    n2 [shape=ellipse, style=filled, fillcolor="#fff3b0", label="c\nbool[]"];
    n4 [fillcolor="#f6c99f", label="MatMul\nfc\nB = f32[4, 2]\nf32[N, 2]", tooltip="MatMul 'fc'"];
    n6 [fillcolor="#f3d1dc", label="Switch\nf", tooltip="Switch 'f'"];
    n7 [fillcolor="#f3d1dc", label="call", tooltip="call %7"];
    n8 [shape=ellipse, style=filled, fillcolor="#fff3b0", label="return"];
  subgraph cluster_1 {
    label="@pos"; style=rounded; color="#999999";
    n10 [fillcolor="#ffffff", label="Softmax\naxis=1", tooltip="Softmax %10"];
    n11 [shape=ellipse, style=filled, fillcolor="#fff3b0", label="return"];
  }
  subgraph cluster_2 {
    label="@neg"; style=rounded; color="#999999";
    n13 [shape=ellipse, style=filled, fillcolor="#fff3b0", label="return"];
  }
  }
  n1 -> n4;
  n2 -> n6;
  n11 -> n6 [style=dashed, ltail=cluster_1, label="true"];
  n13 -> n6 [style=dashed, ltail=cluster_2, label="false"];
  n6 -> n7;
  n7 -> n8;
  n4 -> n10;
  n10 -> n11;
  n4 -> n13;
}
)");
}

TEST(Dot, RecursionDeadCodeAndEscapes) {
  auto context = ops::make_context();
  auto module = parse(*context, R"(
    graph @main(%"a \"quoted\"\\name": f32[2]) { return call @loop(%"a \"quoted\"\\name") }
    graph @loop(%i: f32[2]) {
      %dead = Exp(%i)
      return call @loop(Neg(%i))
    })");
  std::string dot = to_dot(*module);
  EXPECT_TRUE(contains(dot, R"(label="a \"quoted\"\\name\nf32[2]")")) << dot;
  EXPECT_TRUE(contains(dot, "constraint=false")) << dot;
  EXPECT_TRUE(contains(dot, "rounded,dashed")) << dot;
  EXPECT_FALSE(contains(to_dot(*module, {.dead = false}), "rounded,dashed"));
}

TEST(Dot, BrokenModules) {
  auto context = ops::make_context();
  auto module = parse(*context, "graph @main(%x: f32[2]) { %y = Exp(%x)  return Neg(%y) }");
  Apply* neg = module->main()->result()->as_apply();
  Apply* exp = neg->input(0)->as_apply();
  module->set_operand(neg, 0, module->main()->parameter(0));
  module->erase(exp);
  module->set_operand(neg, 0, exp);
  std::string dot = to_dot(*module);
  EXPECT_TRUE(contains(dot, "label=\"Exp 'y'\\nerased\"")) << dot;
  const_cast<Use&>(neg->operands()[0]).node = nullptr;
  dot = to_dot(*module);
  EXPECT_TRUE(contains(dot, "missing")) << dot;
}

}  // namespace
}  // namespace anfora::ir

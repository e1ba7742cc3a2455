#include "ir/outline.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/dot.h"
#include "ir/order.h"
#include "ir/parse.h"
#include "ops/registry.h"

namespace anfora::ir {
namespace {

using Kind = OutlineItem::Kind;

bool has_text(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
size_t times(const std::string& text, std::string_view part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

struct Fixture {
  explicit Fixture(const std::string& body)
      : context(ops::make_context()), module(parse(*context, body)), nodes(topological_order(*module->main())) {}
  Outline outline() const { return Outline(std::span<Apply* const>(nodes.data(), nodes.size()), {}); }
  Apply* node(std::string_view name) const {
    for (Apply* node : nodes) {
      if (node->name() == name) return node;
    }
    return nullptr;
  }
  std::unique_ptr<Context> context;
  std::unique_ptr<Module> module;
  LargeVector<Apply*> nodes;
};

// An embedding, `layers` layers of six operators with a residual, and a head.
std::string layered(int layers) {
  std::string text = "graph @main(%x: f32[4, 2]) {\n  %w = const f32[2, 2] [[1.0, 2.0], [3.0, 4.0]]\n";
  text += "  %e = Sign(%x)\n  %h0 = Floor(%e)\n";
  for (int i = 0; i < layers; ++i) {
    text += fmt::format(
        "  %a{0} = MatMul(%h{0}, %w)\n  %b{0} = Tanh(%a{0})\n  %c{0} = MatMul(%b{0}, %w)\n  %d{0} = Sigmoid(%c{0})\n"
        "  %s{0} = Add(%h{0}, %d{0})\n  %h{1} = Softmax(%s{0})\n",
        i, i + 1);
  }
  return text + fmt::format("  return Exp(%h{})\n}}", layers);
}

TEST(Outline, RepeatedLayersAreOneItem) {
  Fixture f(layered(12));
  Outline outline = f.outline();
  std::vector<Kind> kinds;
  for (const OutlineItem* item : outline.items()) kinds.push_back(item->kind);
  ASSERT_EQ(std::ranges::count(kinds, Kind::Repeat), 1);
  ASSERT_LT(kinds.size(), 12u);
  const OutlineItem* repeat = *std::ranges::find(outline.items(), Kind::Repeat, &OutlineItem::kind);
  EXPECT_EQ(repeat->items.size(), 6u);
  EXPECT_GE(repeat->count, 11u);
  // Later times stand for the first; what goes from one to the next is carried, what stays inside is not.
  EXPECT_EQ(outline.item_of(*f.node("b7")), outline.item_of(*f.node("b3")));
  EXPECT_TRUE(outline.is_carried(*f.node("h7"), *f.node("a7")));
  EXPECT_FALSE(outline.is_carried(*f.node("b7"), *f.node("c7")));
}

TEST(Outline, SmallGraphsAreDrawnAsTheyAre) {
  Fixture f(layered(3));
  Outline outline = f.outline();
  EXPECT_EQ(outline.items().size(), f.nodes.size());
  std::string dot = to_dot(*f.module);
  EXPECT_FALSE(has_text(dot, "cluster_repeat"));
}

TEST(Outline, PictureOfRepeatedLayers) {
  Fixture f(layered(200));
  std::string dot = to_dot(*f.module);
  EXPECT_EQ(times(dot, "cluster_repeat"), 1u) << dot;
  EXPECT_TRUE(has_text(dot, "label=\"× ")) << dot;
  EXPECT_LT(times(dot, "label="), 30u);
  EXPECT_TRUE(has_text(dot, "constraint=false")) << dot;
  EXPECT_GT(times(to_dot(*f.module, {.collapse = false}), "label="), 1200u);
}

// Operators in an order that never repeats for long.
std::string irregular(int nodes) {
  static const char* const kUnary[] = {"Sin", "Cos", "Tanh", "Exp", "Abs", "Neg", "Sign", "Floor"};
  std::string text = "graph @main(%x: f32[4]) {\n  %n0 = Erf(%x)\n";
  uint64_t state = 1;
  for (int i = 0; i < nodes; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    text += fmt::format("  %n{} = {}(%n{})\n", i + 1, kUnary[state >> 61], i);
  }
  return text + fmt::format("  return %n{}\n}}", nodes);
}

TEST(Outline, LongListsAreCutIntoParts) {
  Fixture f(irregular(5000));
  Outline outline = f.outline();
  size_t nodes = 0;
  for (const OutlineItem* item : outline.items()) {
    nodes += item->num_nodes;
    EXPECT_LE(item->items.size(), 90u);
  }
  EXPECT_EQ(nodes, f.nodes.size());
  EXPECT_LE(outline.items().size(), 90u);

  std::string dot = to_dot(*f.module);
  EXPECT_LE(times(dot, "tooltip="), 90u);
  EXPECT_TRUE(has_text(dot, "part 3: "));
  EXPECT_TRUE(has_text(dot, "part2 -> part3"));
  // A part by itself, with stubs for its neighbours; parts of parts; and no such part.
  std::string part = to_dot(*f.module, {.part = "3"});
  EXPECT_TRUE(has_text(part, "label=\"part 3\"")) << part;
  EXPECT_TRUE(has_text(part, "label=\"part 2\"")) << part;
  EXPECT_TRUE(has_text(part, "label=\"part 4\"")) << part;
  EXPECT_FALSE(has_text(part, "part5"));
  EXPECT_TRUE(has_text(to_dot(*f.module, {.part = "3.1"}), "label=\"part 3.1\""));
  EXPECT_THROW(to_dot(*f.module, {.part = "999"}), Error);
}

TEST(Outline, ALongChain) {
  std::string text = "graph @main(%x: f32[4]) {\n  %n0 = Erf(%x)\n";
  for (int i = 0; i < 30000; ++i) text += fmt::format("  %n{} = Add(%n{}, 1.0)\n", i + 1, i);
  Fixture f(text + "  return %n30000\n}");
  std::string dot = to_dot(*f.module);
  EXPECT_LT(dot.size(), 10000u);
  EXPECT_TRUE(has_text(dot, "× 30000")) << dot;
}

}  // namespace
}  // namespace anfora::ir

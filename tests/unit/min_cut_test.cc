#include "support/min_cut.h"

#include <gtest/gtest.h>

namespace anfora {
namespace {

TEST(MinCut, TakesTheLeast) {
  MinCut cut;
  const size_t a = cut.add_node(), b = cut.add_node();
  cut.add_edge(MinCut::kSource, a, 5);
  cut.add_edge(a, b, 2);
  cut.add_edge(b, MinCut::kSink, 3);
  const std::vector<bool> after = cut.solve();
  EXPECT_FALSE(after[a]);
  EXPECT_TRUE(after[b]);
}

TEST(MinCut, ManyLargeCapacitiesAreLessThanNever) {
  MinCut cut;
  const size_t source = cut.add_node(), all = cut.add_node();
  cut.add_edge(MinCut::kSource, source, MinCut::kNever);
  cut.add_edge(source, all, MinCut::kNever);
  for (int i = 0; i < 1000; ++i) {
    const size_t in = cut.add_node(), out = cut.add_node();
    cut.add_edge(all, in, MinCut::kNever);
    cut.add_edge(in, out, MinCut::kNever / 100);
    cut.add_edge(out, MinCut::kSink, MinCut::kNever);
  }
  const std::vector<bool> after = cut.solve();
  EXPECT_FALSE(after[source]);
  EXPECT_FALSE(after[all]);
}

}  // namespace
}  // namespace anfora

// A minimum cut: which nodes of a directed graph with capacities to part from which, so that what leads from one side to the other is the
// least. Boykov and Kolmogorov's algorithm, as Boost has it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace anfora {

class MinCut {
 public:
  static constexpr size_t kSource = 0, kSink = 1;
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;  // to be cut
  // Larger capacities are that: so a million of them are less than one that is never cut.
  static constexpr int64_t kMost = kNever >> 20;

  size_t add_node() { return num_nodes_++; }
  void add_edge(size_t from, size_t to, int64_t capacity) {
    edges_.push_back({from, to, capacity == kNever ? kNever : std::min(capacity, kMost)});
  }
  // By node, whether it is on the sink's side: of all minimum cuts, the one with the fewest there.
  std::vector<bool> solve() const;

 private:
  struct Edge {
    size_t from, to;
    int64_t capacity;
  };
  size_t num_nodes_ = 2;
  std::vector<Edge> edges_;
};

}  // namespace anfora

// Disjoint sets of the numbers below n, which are joined one pair at a time. Each set has a representative; finding it halves the path to
// it, so that m operations take O(m log n) at most. After R. Tarjan and J. van Leeuwen, "Worst-case analysis of set union algorithms", 1984.
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

namespace anfora {

class UnionFind {
 public:
  explicit UnionFind(size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), size_t{0}); }

  size_t find(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  bool is_representative(size_t i) const { return parent_[i] == i; }

  // Joins the sets of both; `onto` keeps its representative.
  void unite(size_t onto, size_t i) { parent_[find(i)] = find(onto); }

 private:
  std::vector<size_t> parent_;
};

}  // namespace anfora

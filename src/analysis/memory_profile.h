// How much memory a graph needs at each step of its execution in an order (ir/order.h, schedule.h), and how that changes when a
// value is computed once instead of twice, or the other way round.
//
//     step      0     1     2     3     4
//     %a        ├───────────────────┤              alive from its step to its last reader's
//     %b              ├─────┤
//     level     a    a+b   a+b    a     …          their maximum is the planned peak
//
// A view is its operand's memory. What may take over its operand's memory where that is read last, does. Parameters,
// constants and captured values are the caller's; the memory of a donated parameter is counted neither for it nor for what takes it over. Each step counts twice, before and after its operands that die there have
// gone. Levels are the leaves of a segment tree with sums on ranges and a maximum (J. Bentley, "Solutions to Klee's
// rectangle problems", 1977): a change costs O(log n), building O(n log n). Symbolic dimensions are as in cost.h.
#pragma once

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <set>
#include <vector>

#include "ir/order.h"

namespace anfora::analysis {

class MemoryProfile {
 public:
  // `captured` are the free variables of the functions of the same order.
  MemoryProfile(const ir::GraphOrder& graph, const ir::FreeVariables& captured);

  double peak() const { return tree_.empty() ? 0 : std::max(tree_[1].max - donated_bytes_, 0.0); }
  // Where it is reached first.
  const ir::Apply* at_peak() const;
  // The higher one of the levels before and after the operands of an application that die there have gone.
  double level(const ir::Apply& node) const;
  uint32_t step(const ir::Apply& node) const { return step_of_[node.id()]; }

  // Lets the users of `node` read `earlier` instead, an equal application of the graph that comes before it. The profile is
  // then as if `node` were gone; undo_merge() takes back the last merge.
  void merge(const ir::Apply& earlier, const ir::Apply& node);
  void undo_merge();

  // Steps between the last reader of `earlier` so far and `node`.
  uint32_t distance(const ir::Apply& earlier, const ir::Apply& node) const;

  // The other way round -----------------------------------------------------------------------------------------
  struct Gap {
    ir::Apply* node = nullptr;
    std::vector<ir::Apply*> later;  // the users behind the gap, also of views on it
    std::vector<ir::Apply*> views;  // on it, made before the gap and read behind it; operands before users
    double bytes = 0;
  };
  // Values alive at the peak, read before and after but not near it, the largest first.
  std::vector<Gap> gaps_at_peak() const;
  // Whether what `reader` reads of `node` is there without its being kept for that: it is the caller's, or something else reads it as late.
  bool reaches(const ir::Node& node, const ir::Apply& reader) const;
  // Values alive at the peak, the largest first.
  std::vector<Gap> alive_at_peak() const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Owner {
    ir::Apply* node = nullptr;  // null: a donated parameter
    double bytes = 0;
    uint32_t begin = 0, end = 0;  // first and last half step
    std::set<uint32_t> reads;     // steps
  };
  struct Level {
    double max = 0, sum = 0;
  };
  struct Change {
    uint32_t from, to;
    double bytes;
  };

  uint32_t owner(const ir::Node* node) const;
  bool find_later(const ir::Apply& member, uint32_t step, Gap& gap) const;
  void read(const ir::Node* node, uint32_t step, const ir::FreeVariables& captured);
  void build();
  void add(uint32_t from, uint32_t to, double bytes);
  void add(size_t at, uint32_t low, uint32_t high, const Change& change);

  std::vector<ir::Apply*> nodes_;   // by step
  std::vector<uint32_t> step_of_;   // by node id
  std::vector<uint32_t> owner_of_;  // by node id
  std::vector<Owner> owners_;
  boost::unordered_flat_map<const ir::Node*, std::vector<uint32_t>> closures_;  // owners that a Switch captures
  std::vector<Level> tree_;
  double donated_bytes_ = 0;
  // What the last merge changed.
  std::vector<Change> changes_;
  struct Saved {
    uint32_t owner, end;
    std::vector<uint32_t> added, removed;  // reads
  };
  std::vector<Saved> saved_;
};

}  // namespace anfora::analysis

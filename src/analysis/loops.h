// Loops: recursive functions that test, then go on or leave by tail calls, as import makes them of Loop and Scan; and what a run of one
// does to its parameters.
//
//     graph @loop(%i, %v, %w, %all) { return call Switch(Less(%i, %n), @body, @exit)() }
//     graph @body() in @loop { return call @loop(Add(%i, 1), next(%v, %x[%i]), %w, SequenceInsert(%all, item)) }
//     graph @exit() in @loop { return result(%v, StackSequence(%all)) }
//
//     %i    counter      starts at a number, grows by one that is the same in all iterations
//     %w    invariant    passed on as it is
//     %all  collected    a sequence that starts empty and grows by one item an iteration
//     %v    carried      all else
//     %x    scanned      a tensor from outside that is read element by element along an axis
//
// Unrolling and hoisting (passes/loops.cc), RNN recognition (passes/recurrence.cc) and the export of Loop and Scan
// (frontend/onnx/draft_loop.cc) read this.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <optional>
#include <vector>

#include "analysis/calls.h"
#include "anfora/tensor.h"
#include "ir/module.h"

namespace anfora::analysis {

class Inference;

struct Loop {
  const ir::Graph* header;
  ir::Apply* tail;                     // the call at the end of the header
  ir::Apply* choice;                   // the Switch that it calls
  bool goes_on_when;                   // the outcome of the test
  std::vector<ir::Apply*> back_edges;  // the calls of the header from the loop
  std::vector<ir::Apply*> entries;     // and from outside
  bool all_calls_known;                // there are no others

  // None: it is no loop. Calls that were dead when the order was made do not count.
  static std::optional<Loop> of(const ir::Graph& header, const ir::ModuleOrder& order, const CallOrder& calls);

  ir::Node* test() const { return choice->input(0); }
  // The functions that the test chooses between.
  ir::Node* again() const { return choice->input(goes_on_when ? 1 : 2); }
  ir::Node* leave() const { return choice->input(goes_on_when ? 2 : 1); }
  // Both as graphs of their own, where the loop goes on at the end of the body and nowhere else; null: it is not of that form.
  ir::Graph* body() const;
  ir::Graph* exit() const { return ir::constant_function(leave()); }

  bool is_outside(const ir::Node* node) const { return !node->graph() || !node->graph()->is_inside(header); }
};

// The operands of a conjunction.
std::vector<const ir::Node*> conjuncts(const ir::Node* test);
// Whether the node is the size of an axis of a tensor, and `plus`: by its value, or because it is computed from the shape of that tensor,
// or of one of the same size. Inference, where there is one, knows of more.
bool is_extent(const ir::Node* node, const ir::Node* tensor, int64_t axis, int64_t plus = 0,
               const Inference* inference = nullptr);

// A loop with the values that it starts from.
class LoopRun {
 public:
  // `first`: by parameter; null where it is not known.
  LoopRun(Loop loop, std::vector<const ir::Node*> first);
  LoopRun(const Loop& loop, const ir::Apply& entry);

  struct Variable {
    enum class Kind : uint8_t { Carried, Invariant, Counter, Collected };
    Kind kind = Kind::Carried;
    int64_t start = 0, step = 0;  // of a counter
    ir::Node* item = nullptr;     // what is collected in an iteration
  };
  const Loop& loop() const { return loop_; }
  const Variable& variable(const ir::Parameter* p) const { return variables_[p->index()]; }
  const ir::Node* first(const ir::Parameter* p) const { return first_[p->index()]; }
  // Where there is one back edge.
  ir::Node* next(const ir::Parameter* p) const { return loop_.back_edges[0]->input(p->index() + 1); }
  // A parameter that counts 0, 1, 2, …
  bool is_index(const ir::Parameter* p) const;
  // It has the same value in all iterations.
  bool is_invariant(const ir::Node* node) const;

  // i < count, of an index i: the number of iterations, if nothing else ends them.
  struct Bound {
    const ir::Parameter* index;
    ir::Node* count;
  };
  std::optional<Bound> bound_of(const ir::Node* condition) const;
  // Of the whole test: as it is, or of a truth value that is carried along, from the iteration before. That may be true at first without
  // being asked: then the count is that of the iterations where there is one.
  std::optional<Bound> bound() const;

  // Gather(tensor, index): element i of an axis in iteration i, from the first to the last or reversed.
  struct Scan {
    ir::Node* tensor;
    int64_t axis;
    bool reversed;
    bool operator==(const Scan&) const = default;
  };
  std::optional<Scan> scan_of(const ir::Apply& gather, const Bound& bound, const Inference* inference = nullptr) const;

 private:
  Variable classify(const ir::Parameter& p) const;
  // Whether the node is p plus a number.
  static std::optional<int64_t> increment_of(const ir::Node* node, const ir::Parameter* p);

  Loop loop_;
  std::vector<const ir::Node*> first_;
  std::vector<Variable> variables_;
};

// What of a loop is known before it runs: values that are computed of constants, and of parameters that start as constants and whose
// next values are known as well (a number of iterations and a limit, but also a value that is doubled until it is large).
class KnownIterations {
 public:
  KnownIterations(const Loop& loop, const ir::Apply& entry);

  // In each iteration.
  bool is_known(const ir::Node* node);
  // The number of iterations, found by running what the test depends on. None: it is not known, or larger than kMostIterations.
  std::optional<size_t> count() const;
  bool runs_at_all() const;

 private:
  using Values = boost::unordered_flat_map<const ir::Parameter*, Tensor>;
  bool compute_is_known(const ir::Node* node, int depth);

  const Loop& loop_;
  Values first_;
  boost::unordered_flat_set<const ir::Parameter*> parameters_;  // that are known
  boost::unordered_flat_map<const ir::Node*, bool> known_;
};

}  // namespace anfora::analysis

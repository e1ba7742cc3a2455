// A function of Python that is being lowered.
#pragma once

#include <algorithm>
#include <functional>

#include "frontend/python/lower/lowering.h"

namespace anfora::python {

constexpr std::string_view kComprehension = "comprehension";  // the name of the function that one is
constexpr int kReturn = -1, kYielded = -2, kJoined = -3;      // as the target of an edge

struct Lowering::Activation {
  // `resumed_slots`: what lives in each block of the function as it is written, where `graph` ends with a yield.
  Activation(const Closure& callee, const Cfg& graph, const std::vector<Set>* resumed_slots = nullptr);

  const Closure& closure;
  const Cfg& cfg;
  LiveVariables live;
  std::map<size_t, NaturalLoop> loops;      // by header
  std::vector<Set> live_slots;              // by block: variables, and iterators of the loops around
  std::map<int, std::vector<State>> edges;  // to blocks that are not lowered yet
  ir::Graph* root = nullptr;  // of the region that is lowered: the function, or the innermost loop

  Activation* caller = nullptr;
  int depth = 0;             // of calls
  std::vector<Local> saved;  // the variables of the caller

  // Of a generator: what takes what it yields. It goes on when that returns.
  std::function<void(const Object& value, const Block& yield)> take;
  std::optional<Object> sent;        // what the yield where it stood gives, if not None
  std::optional<size_t> fed_header;  // the loop of the caller whose body does
  // Loops that generators feed, from the outside in. Their bodies have the generators' variables behind their own.
  struct Fed {
    const std::vector<size_t>* blocks;
    size_t slots;  // without them
  };
  std::vector<Fed> fed;
  size_t block = 0, step = 0;  // where it is
  const Tree* guard = nullptr;  // the Guarded around that
  bool takes_apart = false;  // makes a list, of known length if it is short

  // Each `for` has two slots behind the variables: what it goes over, and where it is.
  size_t iterator_slot(const Tree& loop) const {
    return cfg.scope.locals.size() +
           2 * static_cast<size_t>(std::ranges::find(cfg.iterators, &loop) - cfg.iterators.begin());
  }
  size_t result_slot() const { return cfg.scope.locals.size() + 2 * cfg.iterators.size(); }
  size_t slots() const { return result_slot() + 1; }
  // Whether what is in a slot may be read again, but for what is evaluated now.
  bool reads_again(size_t slot) const;
};

// Makes a graph the region that is lowered.
class Lowering::InRegion {
 public:
  InRegion(Activation& at, ir::Graph* root) : at_(at), outer_(std::exchange(at.root, root)) {}
  ~InRegion() { at_.root = outer_; }
  InRegion(const InRegion&) = delete;
  InRegion& operator=(const InRegion&) = delete;

 private:
  Activation& at_;
  ir::Graph* outer_;
};

// Makes a function the one that is lowered.
class Lowering::Entered {
 public:
  Entered(Lowering& lowering, Activation& activation) : lowering_(lowering), outer_(lowering.activation_) {
    lowering.activation_ = &activation;
    lowering.running_.push_back(&activation);
  }
  ~Entered() {
    lowering_.activation_ = outer_;
    lowering_.running_.pop_back();
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  Lowering& lowering_;
  Activation* outer_;
};

}  // namespace anfora::python

// A function of Python that is being lowered.
#pragma once

#include <algorithm>

#include "frontend/python/lower/lowering.h"

namespace anfora::python {

constexpr std::string_view kComprehension = "comprehension";  // the name of the function that one is
constexpr int kReturn = -1;                                   // as the target of an edge

struct NaturalLoop {
  size_t header = 0;
  std::vector<size_t> blocks;  // the header first, in reverse postorder
};

struct Lowering::Activation {
  Activation(const Closure& callee, Cfg& graph);

  const Closure& closure;
  Cfg& cfg;
  LiveVariables live;
  std::vector<const Tree*>
      iterators;  // the `for` statements; each has two slots behind the variables: what it goes over, and where it is
  std::map<size_t, NaturalLoop> loops;      // by header
  std::vector<Set> live_slots;              // by block: variables, and iterators of the loops around
  std::map<int, std::vector<State>> edges;  // to blocks that are not lowered yet
  std::set<const ir::Graph*>
      leaving;  // functions that return what one outside of them returns: a loop around, a place where paths join
  ir::Graph* root = nullptr;  // of the region that is lowered: the function, or the innermost loop

  Activation* caller = nullptr;
  int depth = 0;             // of calls
  std::vector<Local> saved;  // the variables of the caller

  size_t iterator_slot(const Tree& loop) const {
    return cfg.scope.locals.size() + 2 * static_cast<size_t>(std::ranges::find(iterators, &loop) - iterators.begin());
  }
  size_t result_slot() const { return cfg.scope.locals.size() + 2 * iterators.size(); }
};

}  // namespace anfora::python

// The control flow graph of a function: blocks of steps that run one after the other, each block with one way to end.
//
//     s = 0                     B0   s = 0            → B1
//     while n > 0:              B1   n > 0            → B2 | B3
//         s = s + n             B2   s = s + n
//         n = n - 1                  n = n - 1        → B1
//     return s                  B3   return s
//
// Blocks that no path reaches are left out. They stand in reverse postorder: a block comes before those that it dominates.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/python/scope.h"
#include "frontend/python/tree.h"

namespace anfora::python {

enum class StepKind : uint8_t {
  Run,      // a simple statement
  Iterate,  // the iterator of a `for` begins: tree is the For
  Next,     // its next item is bound to the target
};

struct Step {
  StepKind kind = StepKind::Run;
  const Tree* tree = nullptr;
  const Tree* guard = nullptr;  // the Guarded around it
};

enum class EndKind : uint8_t {
  Jump,
  Branch,   // on the value of an expression
  HasNext,  // of a For: `then` where its iterator has another item
  Return,   // tree: the Return, or null at the end of the body
  Yield,    // tree: the expression; what asks for the next item goes on with `then`
  Raise,
};

struct Block {
  std::vector<Step> steps;
  EndKind end = EndKind::Return;
  const Tree* tree = nullptr;             // the test of a Branch, the For of a HasNext, the statement of Return and Raise
  const Tree* guard = nullptr;            // of the end: the Guarded around it
  int resumed = -1;                       // of a Yield: its `then` in the function as it is written
  int then = -1, otherwise = -1;          // by index; −1: none
  std::vector<int> predecessors;          // in order of index

  std::vector<int> successors() const;
};

struct Cfg {
  const Source* source = nullptr;
  const Tree* function = nullptr;
  Scope scope;
  std::vector<Block> blocks;  // the first is the entry
  std::vector<const Tree*> iterators;  // the `for` statements
  std::map<const Tree*, const Tree*> outer_guards;  // of each Guarded, the one around it, or null
};

constexpr std::string_view kDelegated = ".item";  // the variable that `yield from` yields

// Of a FunctionDef. Throws Unsupported, with the place and what to write instead, for statements that are not there yet. `yield from`
// becomes a loop in the tree, `try` and `with` become what exits.h says.
Cfg build_cfg(Source& source, const Tree& function);

// A generator that stands before a block. Loops around that block are there twice: the rest of the turn that it is in, and all that
// follow. `one_item`: a yield ends the run; else it goes on.
Cfg resumed_cfg(const Cfg& cfg, size_t at, bool one_item);

// What a step or an end reads and binds, in the order in which it does.
void for_each_use(const Step& step, const Visit& visit);
void for_each_binding(const Step& step, const Visit& visit);
void for_each_use_at_end(const Block& block, const Visit& visit);
void for_each_binding_at_end(const Block& block, const Visit& visit);  // by := in a test

}  // namespace anfora::python

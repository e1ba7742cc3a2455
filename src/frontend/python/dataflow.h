// Dataflow over the control flow graph of a function, by worklist equations on sets (Kam and Ullman's framework; Cooper and Torczon,
// Engineering a Compiler, ch. 9):
//
//     Reaches(n) = ∪ over predecessors p of  DEDef(p) ∪ (Reaches(p) ∩ ¬DefKill(p))        from ∅
//     LiveOut(n) = ∪ over successors s of    UEVar(s) ∪ (LiveOut(s) ∩ ¬VarKill(s))        from ∅
//
// DEDef: the definitions of a block that are still there at its end. DefKill: all definitions of what it defines. UEVar: the variables
// that it reads before it defines them. VarKill: those that it defines.
#pragma once

#include <boost/dynamic_bitset.hpp>
#include <map>
#include <string>
#include <vector>

#include "frontend/python/cfg.h"

namespace anfora::python {

using Set = boost::dynamic_bitset<>;

// The names that a block binds by `:=`, with whether evaluating it may skip that.
using NamedExpressions = std::map<const Tree*, bool>;
NamedExpressions named_expressions(const Block& block);

// A place that gives a local variable a value.
struct Definition {
  enum class Kind : uint8_t { Parameter, Undefined, Statement };
  Kind kind = Kind::Statement;
  size_t variable = 0;         // into Scope::locals
  size_t block = 0;
  size_t step = 0;             // behind the last one: at the end
  const Tree* tree = nullptr;  // the Name or FunctionDef that binds
  // A binding amid an expression (`:=`) reaches what follows in its step, too; one that may be skipped leaves others alive.
  bool is_amid = false, is_conditional = false;
};

struct ReachingDefinitions {
  std::vector<Definition> definitions;  // first those before the entry: the parameters, and that a variable is undefined
  std::vector<Set> de_def, def_kill, reaches;  // by block, over the definitions

  // The definitions that reach a use of the variable in a block, before its step.
  Set at(const Cfg& cfg, size_t block, size_t step, size_t variable) const;
};
ReachingDefinitions find_reaching_definitions(const Cfg& cfg);

struct LiveVariables {
  std::vector<Set> ue_var, var_kill, live_out;  // by block, over the locals
  Set live_in(size_t block) const { return ue_var[block] | (live_out[block] - var_kill[block]); }
};
LiveVariables find_live_variables(const Cfg& cfg);

// The nearest block that every path from the entry to a block goes through, by block; that of the entry is itself. After Cooper,
// Harvey and Kennedy, A simple, fast dominance algorithm (2001).
std::vector<size_t> find_dominators(const Cfg& cfg);

struct NaturalLoop {
  size_t header = 0;
  std::vector<size_t> blocks;  // the header first, in reverse postorder
};
// By header: what reaches a block without going through it, where that block dominates all of them.
std::map<size_t, NaturalLoop> find_natural_loops(const Cfg& cfg);

// Throws InvalidModel where a variable is read that has no value on some path from the entry: with the place, and the lines that path
// goes through. A variable that a function inside takes is not checked, for what counts is when that one is called.
void require_defined(const Cfg& cfg, const ReachingDefinitions& definitions);

// The blocks, and the tables of definitions, of live variables and of dominators, for people.
std::string print(const Cfg& cfg);
// A drawing for Graphviz.
std::string to_dot(const Cfg& cfg);

}  // namespace anfora::python

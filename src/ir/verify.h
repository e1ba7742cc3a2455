// The verifier: checks the invariants of the IR. docs/ir.md explains each; the numbers are stable, so that a report
// can be looked up.
//
// It takes a module in any state: whatever a defective pass left behind is reported, not dereferenced. Time is linear
// in the size of the module (and the number of pairs of a graph and a variable that is free in it). What needs type
// inference is checked above, in analysis/verify_types.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "anfora/error.h"
#include "ir/module.h"

namespace anfora::ir {

enum class Invariant : uint8_t {
  Main = 1,           // there is a main graph, at the top level
  GraphTree = 2,      // parents are graphs of the module and form a tree; names are distinct
  Ownership = 3,      // applications are listed once, by the graph they belong to; ids are unique
  Parameters = 4,     // parameter i of a graph belongs to it and has index i
  Operands = 5,       // operands are nodes of the module that are not erased
  UseLists = 6,       // a node's use list is exactly the operands that name it
  Return = 7,         // a graph has one Return, its own, which nothing uses
  Scope = 8,          // nodes and functions are used in the graph they belong to and below
  Acyclic = 9,        // no value depends on itself, also not through a closure
  Primitives = 10,    // Return, Call, Switch and tuples have the operands and attributes they need
  Calls = 11,         // callees are functions and get as many arguments as they have parameters
  Declarations = 12,  // operators have the inputs, outputs and attributes that they declare
  Constants = 13,     // the type of a constant is that of its content
  Types = 14,         // types of tuples, items and results do not contradict their operands'
  Interface = 15,     // names of results and defaults of parameters fit main
  Typed = 16,         // every node that may be computed has a type (analysis/verify_types.h)
  Inferred = 17,      // and the type does not contradict inference (analysis/verify_types.h)
  Tokens = 18,        // a state token has one consumer: effects have an order
};
std::string_view name(Invariant invariant);  // "use lists"

struct Violation {
  Invariant invariant;
  const Graph* graph = nullptr;  // where; null: the module
  const Node* node = nullptr;    // null: the graph as a whole
  std::string message;           // "operand 1 is erased"
};
// "fc (model.onnx: node 3): MatMul 'fc' in @main: operand 1 is erased (invariant 5, operands)".
std::string to_string(const Violation& violation);

// Whether two types may be of one value: one may know more than the other, or not be there at all, but no kind, dtype, rank
// or dimension contradicts.
bool may_agree(const Type* a, const Type* b);

// All violations, in a deterministic order. Empty: the module is valid.
std::vector<Violation> verify(const Module& module);

// Throws one Error with the place of the first violation and the text of the first few.
void throw_if_any(const std::vector<Violation>& violations, ErrorCode code = ErrorCode::Internal);
inline void verify_or_throw(const Module& module, ErrorCode code = ErrorCode::Internal) {
  throw_if_any(verify(module), code);
}

}  // namespace anfora::ir

// Structural equality: the same graphs of the same nodes, up to names, ids and order of creation. Sharing counts: Add(f, f) of one node f
// is not Add(f, g) of two equal ones. Only what the results depend on is compared.
#pragma once

#include <string>

#include "ir/module.h"

namespace anfora::ir {

struct Comparison {
  bool types = true;      // where both sides have one
  bool names = false;     // of nodes
  bool interface = true;  // names of main's parameters and results
};

// The first difference, "@main: operand 1 of Add 'sum': f32[2] against f32[3]"; empty: there is none. The modules may
// belong to different contexts. Linear.
std::string difference(const Module& a, const Module& b, const Comparison& comparison = {});

inline bool isomorphic(const Module& a, const Module& b, const Comparison& comparison = {}) {
  return difference(a, b, comparison).empty();
}

// Of two functions of one module. Equal ones stand in the same graph and read the same values from around them.
bool isomorphic(const Graph& f, const Graph& g);

}  // namespace anfora::ir

// Modules as Graphviz graphs: `anfora dump model.onnx | dot -Tsvg`.
//
// A cluster for each function, nested as the functions are. A box for each application, coloured by what it does (heavy
// operators orange, elementwise ones green, reductions blue, what only moves elements grey, control flow pink), with its
// name, attributes, constants and type; constants have no box of their own. Arrows go from operand to user, dashed where
// the operand is a function. Dead nodes are pale; in a broken module, what is missing is red.
//
// The text depends on the module alone, and node %12 is n12 in it, from stage to stage of a pipeline.
#pragma once

#include <string>

#include "ir/module.h"

namespace anfora::ir {

struct DotOptions {
  bool types = true;
  bool attributes = true;
  bool dead = true;  // nodes and graphs that nothing uses
};

std::string to_dot(const Module& module, const DotOptions& options = {});

}  // namespace anfora::ir

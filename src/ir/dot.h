// Modules as Graphviz graphs: `anfora dump model.onnx --format dot | dot -Tsvg`.
//
// A cluster for each function, nested as the functions are. A box for each application, coloured by what it does (heavy
// operators orange, elementwise ones green, reductions blue, what only moves elements grey, control flow pink), with its
// name, attributes, constants and type; constants have no box of their own. Arrows go from operand to user, dashed where
// the operand is a function. Dead nodes are pale; in a broken module, what is missing is red.
//
// What would be too much to look at is collapsed (ir/outline.h): layers that repeat are drawn once, in a frame "× 12", with a blue
// arrow for what goes from one to the next, and of very large graphs a picture shows parts, each of which has a picture of its own.
//
// The text depends on the module alone, and node %12 is n12 in it, from stage to stage of a pipeline.
#pragma once

#include <string>

#include "ir/module.h"

namespace anfora::ir {

struct DotOptions {
  bool types = true;
  bool attributes = true;
  bool dead = true;      // nodes and graphs that nothing uses
  bool collapse = true;  // else every node has its box, and graphviz may take very long
  std::string
      part;  // "3.2": that part alone, as the picture of the whole numbers them. Throws NotFound where there is none
};

std::string to_dot(const Module& module, const DotOptions& options = {});

}  // namespace anfora::ir

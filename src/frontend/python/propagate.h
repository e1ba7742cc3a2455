// Constant propagation over the control flow graph, in turn with folding on the tree, to a fixpoint: a local variable that only one
// constant reaches is that constant; branches that are never taken go, and so do assignments that nobody reads.
//
//     x = 14
//     y = 7 - x / 2                     return 0.0
//     return y * (28 / x + 2)
//
// Names of the module that are assigned once, to a constant, are constants too, as are those that are annotated Final.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "frontend/python/cfg.h"

namespace anfora::python {

// The names of a module that are one constant in all of it. Throws InvalidModel where a Final is assigned twice, with both places.
std::map<std::string, Constant> module_constants(const Source& source);

// Rewrites the function's tree in place; its control flow graph afterwards. Also checks that every variable that is read has a value,
// on what is left (require_defined).
Cfg propagate_constants(Source& source, const Tree& function);

}  // namespace anfora::python

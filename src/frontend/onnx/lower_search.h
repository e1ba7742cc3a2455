// Searches of ONNX Runtime (com.microsoft) that hold a decoder, as loops over it.
//
// Such an application keeps its graphs as bytes (see wire.h), for export; before a model runs they are read, and it becomes the
// search in parts, from what import_loop.h builds of the decoder and the operators of src/ops/search.cc.
#pragma once

#include <cstddef>

#include "ir/module.h"

namespace anfora::onnx {

bool has_searches(const ir::Module& module);
// Returns how many there were. Types are inferred anew. Throws Error with the application where it is not as ONNX Runtime has
// it, or a form that there is no lowering for.
size_t lower_searches(ir::Module& module);

}  // namespace anfora::onnx

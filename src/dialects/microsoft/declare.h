// What the declarations of ONNX Runtime's operators share. They are typed as any operator; what they mean is said by the
// functions of *.ir, which the pass `expand` puts in their place before a model runs, so that none has a kernel.
#pragma once

#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {

inline const std::vector<DType> kBytes = {DType::I8, DType::U8};

inline Declaration contrib(Declarations& declare, const char* name, const char* doc) {
  return declare.op(name, 1, "com.microsoft").doc(doc).no_kernel();
}

}  // namespace anfora::ops

// Included in this folder only, where LLVM is.
#pragma once

#include "codegen/loop_ir.h"

namespace llvm {
class Module;
}

namespace anfora::codegen {

// Adds the function `void name(const int64_t* arguments)` to the module.
void lower_to_llvm(const Function& function, const IsaDescription& isa, llvm::Module& module);

}  // namespace anfora::codegen

// From the loop IR to machine code, by LLVM. Nothing of LLVM is seen outside of this folder.
#pragma once

#include <span>

#include "codegen/loop_ir.h"
#include "kernels/generated/machine_code.h"

namespace anfora::codegen {

// One entry a function, in order. Functions are verified first. Many threads may compile at once.
kernels::generated::MachineCode compile(std::span<const Function> functions, Isa isa);

// The entries of all parts, in order. Code of one instruction set.
kernels::generated::MachineCode joined(std::span<const kernels::generated::MachineCode* const> parts);

}  // namespace anfora::codegen

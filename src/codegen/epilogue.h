// Epilogues and elementary functions in the loop IR.
#pragma once

#include "codegen/loop_ir.h"
#include "kernels/generated/epilogue.h"

namespace anfora::codegen {

// a · b + c: with one rounding where the processor has that.
Value multiply_add(Builder& builder, const IsaDescription& isa, Value a, Value b, Value c);

// Elementwise of a tile of f32.
Value activate(Builder& builder, const IsaDescription& isa, const kernels::generated::Epilogue& epilogue, Value x);

}  // namespace anfora::codegen

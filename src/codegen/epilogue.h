// Epilogues and elementary functions in the loop IR.
#pragma once

#include <functional>
#include <span>

#include "codegen/loop_ir.h"
#include "kernels/generated/epilogue.h"
#include "kernels/generated/product_code.h"

namespace anfora::codegen {

// a · b + c: with one rounding where the processor has that.
Value multiply_add(Builder& builder, const IsaDescription& isa, Value a, Value b, Value c);

// What is added to a tile: where it lies from the tile's first element on, and the distance of its rows.
struct AddendAt {
  Value pointer, row_stride;
};
// The epilogue of a tile of f32, as kernels/generated/epilogue.h says.
Value finish_tile(Builder& builder, const IsaDescription& isa, const kernels::generated::Epilogue& epilogue, Value tile,
                  std::span<const AddendAt, 2> addends, Value mask);

// Calls finish(mask) for a panel that has `left` columns or more of the result: without a mask where it is whole.
void finish_panel(Builder& builder, const IsaDescription& isa, int vectors, Value left, const std::function<void(Value mask)>& finish);

// Stores finish(row, tile), where `tile` begins at that row of the sums: all at once, or row by row from memory where that is much less code.
void store_finished(Builder& builder, const kernels::generated::Epilogue& epilogue, Value sums, Value pointer, Value row_stride, Value mask,
                    const std::function<Value(Value row, Value tile)>& finish);

// Steps of quantizing a tile of f32, as the Quantization at that address says (product_code.h): by its scale, where that is not 1; and with a residual of 8 bits.
Value divide_by_scale(Builder& builder, Value tile, Value quantization);
Value add_residual(Builder& builder, Value tile, DType dtype, Value residual, Value row_stride, Value mask, Value quantization);

// Stores a tile of f32 as elements of that type: integers of 8 bits are quantized as the Quantization at that address says (product_code.h), where NaN
// becomes the lowest, after those steps. `index`: elements from the pointer on.
void store_as(Builder& builder, DType dtype, Value pointer, Value index, Value row_stride, Value tile, Value mask, Value quantization);

// Elementwise of a tile of f32.
Value activate(Builder& builder, const IsaDescription& isa, const kernels::generated::Epilogue& epilogue, Value x);

}  // namespace anfora::codegen

// The code of a group of operators that run as one kernel, as what generates it and what runs it agree on.
//
// A group works on a space of elements in rows: along the last axis, or, where nothing is summed along a row, along as many of the last
// axes as all operands walk through alike. Its code is a list of statements in the language of kernels/generated/scalar_forms.h, over values by number:
// the inputs first, then what the statements give.
//
//     %0 varies, %1 varies, %2 is one number a row        x, bias, scale
//     %3 = %0 + %1
//     %4 = %3 < 0 ? 0 : %3
//     %5 = %4 * %2                                         stored, element by element
//
// An entry computes some rows, each of whole vectors and a rest. Every row is computed in the same way: so results do not depend on how rows
// are split among threads; and where nothing is summed, nor on how a row is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "anfora/dtype.h"
#include "kernels/generated/isa.h"

namespace anfora::kernels::generated {

struct GroupCode {
  struct Output {
    int value = 0;           // by number
    bool is_of_row = false;  // one element a row
    DType dtype = DType::F32;  // or another of a group
    bool operator==(const Output&) const = default;
  };
  Isa isa = Isa::Sse2;
  struct Input {
    bool varies = false;       // its element changes along a row
    DType dtype = DType::F32;  // or another of a group
    bool operator==(const Input&) const = default;
  };
  std::vector<Input> inputs;
  std::vector<std::string> statements;
  std::vector<Output> outputs;

  bool operator==(const GroupCode&) const = default;
};

// What a group may read and write; bytes are f32 inside of it.
inline bool is_group_dtype(DType dtype) {
  switch (dtype) {
    case DType::F32:
    case DType::I32:
    case DType::I64:
    case DType::Bool:
    case DType::I8:
    case DType::U8: return true;
    default: return false;
  }
}

// The arguments of an entry, in order; strides count in elements. Then the address of the first row and the stride of rows for each input
// and output.
enum GroupArgument : uint8_t {
  kRows,
  kElements,      // of a row
  kVectors,       // whole ones of it
  kAll,           // with a rest as one more
  kBlocks,        // of kGroupBlock whole vectors
  kInBlocks,      // vectors in them
  kRowSize,       // the address of a row's number of elements, in f32
  kBuffers,       // the address of memory for what is computed once, and read in a later pass over the row
  kBufferStride,  // from one such row to the next
  kGroupArguments
};
// Vectors that a pass which does little but sum takes at once, as sums of one would wait for each other.
inline constexpr int kGroupBlock = 4;
// Sets those of a row's size.
inline void set_row_arguments(int64_t* arguments, int64_t elements, int64_t lanes) {
  arguments[kElements] = elements;
  arguments[kVectors] = elements / lanes;
  arguments[kAll] = (elements + lanes - 1) / lanes;
  arguments[kBlocks] = arguments[kVectors] / kGroupBlock;
  arguments[kInBlocks] = arguments[kBlocks] * kGroupBlock;
}
inline constexpr size_t kMostGroupOperands = 16;  // inputs and outputs

}  // namespace anfora::kernels::generated

// Integers of 8 bits as the words that products of them are computed of (product_code.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "anfora/tensor.h"
#include "kernels/generated/product_code.h"
#include "kernels/strided_product.h"

namespace anfora::kernels::generated {

// What suits the processor: VNNI has an instruction for bytes, all have one for halves.
Factors best_factors(Isa isa);

struct IntegerOperands {
  Factors factors = Factors::Bytes;
  DType a = DType::U8, b = DType::I8;  // each I8 or U8

  int64_t parts() const { return factors == Factors::Bytes ? 4 : 2; }
  int64_t part_bytes() const { return 4 / parts(); }
  int64_t words(int64_t count) const { return (count + parts() - 1) / parts(); }
  // cᵃ and cᵇ: so that parts of A have no sign, and those of B have one.
  int32_t added_to_a() const { return factors == Factors::Bytes && a == DType::I8 ? 128 : 0; }
  int32_t taken_from_b() const { return factors == Factors::Bytes && b == DType::U8 ? 128 : 0; }

  // Whether parts of A are its elements.
  bool has_parts_of_a() const { return factors == Factors::Bytes && added_to_a() == 0; }

  // A row of A: `count` elements that lie `step` apart, or that have a value, become parts from number `at` on; zeros fill the last word.
  void pack(const std::byte* from, int64_t count, int64_t step, void* row, int64_t at) const;
  void fill(int32_t element, int64_t count, void* row, int64_t at) const;
  void finish_row(void* row, int64_t count) const;
  // Σ a' of a row.
  int32_t sum(const void* row, int64_t count) const;

  // A panel of B' of so many columns, words(K) of them, and Σ b' of each.
  void pack_panel(const std::byte* from, const StridedOperand& matrix, int64_t panel, int64_t width, int32_t* words, int32_t* sums) const;
  // Zᵇ of each column. Zero points: none, one, or one a column.
  void zeros_of_columns(const Tensor* zero_points, int64_t columns, int32_t* zeros) const;

  struct Weights {
    Tensor words;    // B' in panels: i32[panels, words, width]
    Tensor columns;  // i32[2, columns of the panels]: Σ b' and Zᵇ
  };
  // All panels. Without zero points: an undefined tensor.
  Weights pack_weights(const Tensor& tensor, const StridedOperand& matrix, const Tensor& zero_points,
                       int64_t width) const;
  // The tensor again.
  Tensor unpack_weights(const Tensor& packed, const Shape& shape, const StridedOperand& matrix) const;
};

// An element of a tensor of I8 or U8.
int32_t byte_element(const Tensor& tensor, int64_t i);

}  // namespace anfora::kernels::generated

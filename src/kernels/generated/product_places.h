// Where the matrices of a strided product lie, as generated code walks through them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/generated/epilogue.h"
#include "kernels/strided_product.h"

namespace anfora::kernels::generated {

// In elements. An operand that is broadcast along an axis has a stride of 0 there.
struct ProductPlaces {
  // Where the matrices of one of a batch begin.
  struct Matrices {
    int64_t a = 0, b = 0, y = 0;
    std::array<int64_t, 2> addends{};
  };

  // `epilogue` says which of the addends there are.
  ProductPlaces(const StridedProduct& product, const Epilogue& epilogue);

  // Of a Y that is dense but for its rows, which may lie apart: from one to the next, and where a matrix begins.
  int64_t y_distance(const OutputRows& of) const { return of.are_apart() ? of.stride : y_stride; }
  int64_t place_in_y(const Matrices& at, int64_t distance) const { return distance == y_stride ? at.y : at.y / columns * distance; }

  // Whether the rows of A follow each other through all matrices.
  bool has_dense_rows(int64_t depth) const;

  int64_t rows = 0;  // of each matrix of Y
  int64_t columns = 0;
  int64_t a_stride = 0, a_step = 0, y_stride = 0;
  std::array<int64_t, 2> addend_strides{};
  std::vector<Matrices> matrices;
};

}  // namespace anfora::kernels::generated

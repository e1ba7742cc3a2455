// Products of several matrices with constant weights of their own, by generated code: those of Winograd's convolutions.
//
//     Y[i] = A[i] · B[i]        A[i]: [rows, depth], B[i]: [depth, columns], Y[i]: [rows, columns in whole panels]
//
// The weights of all lie one behind the other: B'[i][panel][k][lane of the panel], where columns past the last are 0.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/generated/product.h"
#include "kernels/generated/tile_entries.h"

namespace anfora::kernels::generated {

class PanelProducts {
 public:
  // With the code that the data has under `number`, or with code that is made and added there, for so many rows and more, and for those of a
  // tile. Empty where there is neither code nor a generator, and where the code is not of this form. Throws as ExecutableCode::map().
  static std::optional<PanelProducts> prepare(KernelData& data, size_t number, int64_t matrices, int64_t depth, int64_t columns,
                                              int64_t fewest_rows, ProductGenerator generate);

  int64_t depth() const { return code_.depth; }
  int64_t columns() const { return columns_; }
  int64_t panels() const { return (columns_ + width() - 1) / width(); }  // of a matrix
  int64_t width() const { return code_.panel_columns(); }
  int rows_of_tile() const { return code_.tile.rows; }
  // Elements from row to row.
  int64_t a_stride() const { return code_.a_stride; }
  int64_t y_stride() const { return panels() * width(); }

  // Of the weights.
  int64_t elements() const { return matrices_ * panels() * depth() * width(); }
  int64_t element_of(int64_t matrix, int64_t k, int64_t column) const {
    return ((matrix * panels() + column / width()) * depth() + k) * width() + column % width();
  }
  // The numbers that weights packed for another form differ in.
  std::vector<int64_t> layout_of_weights() const { return {matrices_, depth(), columns_, width()}; }

  // Some of the panels of all matrices, counted from the first matrix on; A and Y are those of all, so many elements apart.
  struct Operands {
    const float *weights = nullptr, *a = nullptr;
    float* y = nullptr;
    int64_t rows = 0, a_distance = 0, y_distance = 0;
  };
  void multiply(const Operands& operands, int64_t first_panel, int64_t last_panel) const;
  int64_t all_panels() const { return matrices_ * panels(); }

 private:
  PanelProducts() = default;

  ProductCode code_;
  int64_t matrices_ = 0, columns_ = 0;
  TileEntries entries_;
};

}  // namespace anfora::kernels::generated

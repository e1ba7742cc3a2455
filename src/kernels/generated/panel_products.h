// Products of matrices with panels of weights, by generated code: those of Winograd's convolutions.
//
//     Y = A · B        A: [rows, depth], B: [depth, width], a panel that lies densely
//
// One code is for any number of rows, and for all panels; columns of the last panel that the weights have not are the caller's. In groups, those of A and of B
// lie side by side, and the panels of a group are multiplied by its columns of A.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/generated/code_entries.h"
#include "kernels/generated/product.h"

namespace anfora::kernels::generated {

class PanelProducts {
 public:
  struct Sizes {
    int64_t depth = 0, columns = 0;  // of a group
    int64_t groups = 1;
  };
  // Without code as yet. Empty where the data has code of another form under `number`, and where panels of a group would not be whole.
  static std::optional<PanelProducts> lay_out(const KernelData& data, size_t number, const Sizes& sizes);
  // With the code that the data has, or with code that is made and added there: for so many rows, or for any where it is 0. False where there is neither code nor a
  // generator. Throws as ExecutableCode::map().
  bool prepare(KernelData& data, size_t number, int64_t rows, ProductGenerator generate);
  // Before so many rows are multiplied, or some of their tiles that follow each other: of these, each has as many rows as in the whole.
  void require(int64_t rows) const { entries_.require(tiling(rows).rows_of_tiles()); }
  void complete() const { entries_.complete(); }

  // Whether panels for such a processor are whole in each group, as those of several have to be.
  static bool has_whole_panels(Isa isa, const Sizes& sizes);

  int64_t depth() const { return sizes_.depth; }
  int64_t panels() const { return sizes_.groups * panels_of_group(); }
  int64_t group_of(int64_t panel) const { return panel / panels_of_group(); }
  int64_t width() const { return code_.panel_columns(); }
  // Rows are computed tile by tile, so many; where the i-th begins, and behind the last one their end.
  int64_t tiles_of(int64_t rows) const { return tiling(rows).count; }
  int64_t first_row(int64_t rows, int64_t i) const { return tiling(rows).first_row(i); }
  // Elements from row to row.
  int64_t a_stride() const { return code_.a_stride; }
  int64_t y_stride() const { return panels() * width(); }

  // What is read next, and fetched into the second-level cache meanwhile.
  struct Next {
    const void* from = nullptr;
    int64_t bytes = 0;
  };
  struct Operands {
    const float *a = nullptr, *b = nullptr;
    float* y = nullptr;  // the first row, where the panel's columns begin
    int64_t rows = 0;
    Next next;
  };
  void multiply(const Operands& operands) const;

 private:
  PanelProducts() = default;

  Tiling tiling(int64_t rows) const { return {rows, code_.tile}; }
  int64_t panels_of_group() const { return (sizes_.columns + width() - 1) / width(); }

  ProductCode code_;
  Sizes sizes_;
  CodeEntries entries_;
};

}  // namespace anfora::kernels::generated

// MatMul, Gemm, and the lowered product ("LoweredMatMul"), all as one strided product:
//
//     Y[batch…, m, n] = activation(alpha · Σ_k A[batch…, m, k] · B[batch…, k, n] + C + Z)
//
// Each operand is dimensions and strides over the axes batch…, rows, columns; an axis that it broadcasts along has
// extent 1. A transposed operand is one whose strides are permuted: nothing moves. The fewer axes, the better the
// implementation that there is for it, and a batch that all operands but B walk along like rows is rows:
//
//     [8, 128, 768] × [768, 768]   is   [1024, 768] × [768, 768]
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kernels/input_shapes.h"
#include "kernels/prepared.h"

namespace anfora::kernels {

struct StridedOperand {
  Shape dims, strides;  // batch…, rows, columns

  // The tensor of that shape, its axes permuted as Transpose does.
  static StridedOperand dense(const Shape& shape, std::span<const int64_t> permutation = {});

  size_t rank() const { return dims.size(); }
  void insert(size_t position, int64_t extent, int64_t stride);
  void erase(size_t axis);
  void align(size_t rank);  // axes of extent 1 before the others
  // Whether axes i and i + 1 are one axis in memory, of extents outer and inner.
  bool composes(size_t i, int64_t outer, int64_t inner) const;
  // Makes axes i and i + 1 one.
  void compose(size_t i);
  bool is_sorted() const;  // no axis strides over less than one behind it
  int64_t extent() const;  // what the outermost axis strides over
  // Nobody steps along rows where there is one, but a stride shorter than the row looks wrong.
  void lengthen_single_row();
  // A matrix whose rows follow each other.
  bool is_dense_matrix() const;
};

struct StridedProduct {
  StridedOperand a, b, y;
  std::vector<StridedOperand> added;  // C, Z where present
  Shape y_shape;                      // of the tensor

  template <class F>
  void for_each(F f) {
    f(a), f(b), f(y);
    for (StridedOperand& operand : added) f(operand);
  }
  void merge_axes();
};

// What the attributes of such an operator say.
class ProductAttributes {
 public:
  explicit ProductAttributes(const KernelData& data);

  float alpha() const { return alpha_; }
  std::span<const int64_t> permutation_b() const { return permutation_b_; }
  std::span<const int64_t> permutation_y() const { return permutation_y_; }

  // The shapes of the inputs; an omitted one has none.
  using Shapes = InputShapes;
  // With as few axes as possible. Empty when the operands do not fit, which the reference kernel has words for, or when there is
  // nothing to compute.
  std::optional<StridedProduct> resolve(const Shapes& shapes) const;

 private:
  std::vector<int64_t> permutation_a_, permutation_b_, permutation_y_;
  float alpha_;
};

}  // namespace anfora::kernels

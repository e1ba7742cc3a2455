#include "kernels/strided_product.h"

#include <algorithm>
#include <functional>

namespace anfora::kernels {
namespace {

std::optional<Shape> broadcast_shapes(std::span<const int64_t> a, std::span<const int64_t> b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (std::span<const int64_t> dims : {a, b}) {
    for (size_t i = 0; i < dims.size(); ++i) {
      int64_t& extent = result[result.size() - dims.size() + i];
      if (extent != 1 && dims[i] != 1 && extent != dims[i]) return std::nullopt;
      if (extent == 1) extent = dims[i];
    }
  }
  return result;
}

}  // namespace

StridedOperand StridedOperand::dense(const Shape& shape, std::span<const int64_t> permutation) {
  StridedOperand result;
  Shape strides(shape.size());
  for (int64_t i = static_cast<int64_t>(shape.size()) - 1, stride = 1; i >= 0; stride *= shape[i], --i)
    strides[i] = stride;
  for (size_t i = 0; i < shape.size(); ++i) {
    size_t axis = permutation.empty() ? i : static_cast<size_t>(permutation[i]);
    result.dims.push_back(shape[axis]);
    result.strides.push_back(strides[axis]);
  }
  return result;
}

void StridedOperand::insert(size_t position, int64_t extent, int64_t stride) {
  dims.insert(dims.begin() + position, extent);
  strides.insert(strides.begin() + position, stride);
}

void StridedOperand::erase(size_t axis) {
  dims.erase(dims.begin() + axis);
  strides.erase(strides.begin() + axis);
}

void StridedOperand::align(size_t rank) {
  while (dims.size() < rank) insert(0, 1, dims.empty() ? 1 : dims[0] * strides[0]);
}

bool StridedOperand::composes(size_t i, int64_t outer, int64_t inner) const {
  if (inner == 1) return true;  // nobody steps along it
  bool spans = dims[i] == outer && dims[i + 1] == inner && strides[i] == strides[i + 1] * inner;
  return spans || (dims[i] == 1 && dims[i + 1] == 1);
}

void StridedOperand::compose(size_t i) {
  if (dims[i + 1] == 1) strides[i + 1] = strides[i];
  dims[i + 1] *= dims[i];
  erase(i);
}

bool StridedOperand::is_sorted() const { return std::ranges::is_sorted(strides, std::greater()); }

int64_t StridedOperand::extent() const {
  int64_t largest = 1;
  for (size_t i = 0; i < rank(); ++i) largest = std::max(largest, dims[i] * strides[i]);
  return largest;
}

void StridedOperand::lengthen_single_row() {
  const size_t rows = rank() - 2;
  if (dims[rows] == 1) strides[rows] = std::max(strides[rows], dims[rows + 1] * strides[rows + 1]);
}

bool StridedOperand::is_dense_matrix() const {
  return rank() == 2 && (dims[1] == 1 || strides[1] == 1) && (dims[0] == 1 || strides[0] == dims[1]);
}

void StridedProduct::merge_axes() {
  for (size_t axis = y.rank() - 2; axis-- > 0;) {
    const size_t rows = y.rank() - 2;
    const int64_t outer = y.dims[axis], inner = y.dims[axis + 1];
    if (outer == 1) {
      for_each([&](StridedOperand& operand) { operand.erase(axis); });
      continue;
    }
    bool into_rows = axis + 1 == rows, composes = !into_rows || b.dims[axis] == 1;
    for_each([&](StridedOperand& operand) {
      if (&operand != &b || !into_rows) composes = composes && operand.composes(axis, outer, inner);
    });
    if (!composes) continue;
    for_each([&](StridedOperand& operand) {
      if (&operand == &b && into_rows) {
        operand.erase(axis);
      } else {
        operand.compose(axis);
      }
    });
  }
  for_each([](StridedOperand& operand) { operand.lengthen_single_row(); });
}

ProductAttributes::ProductAttributes(const KernelData& data) : alpha_(data.attributes.get_float("alpha", 1)) {
  if (data.op == "Gemm") {
    if (data.attributes.get_int("transA", 0) != 0) permutation_a_ = {1, 0};
    if (data.attributes.get_int("transB", 0) != 0) permutation_b_ = {1, 0};
  } else if (data.op == "LoweredMatMul" || data.op == "LoweredMatMulDequantized") {
    permutation_a_ = data.attributes.get_ints("perm_a");
    permutation_b_ = data.attributes.get_ints("perm_b");
    permutation_y_ = data.attributes.get_ints("perm_y");
  }
}

std::optional<StridedProduct> ProductAttributes::resolve(const Shapes& shapes) const {
  if (shapes.size() < 2 || !shapes[0] || !shapes[1]) return std::nullopt;
  for (const auto& shape : shapes) {
    if (shape && element_count(*shape) == 0) return std::nullopt;
  }
  auto fits = [](const Shape& shape, const std::vector<int64_t>& permutation) {
    return permutation.empty() || permutation.size() == shape.size();
  };
  if (!fits(*shapes[0], permutation_a_) || !fits(*shapes[1], permutation_b_)) return std::nullopt;
  StridedProduct p;
  p.a = StridedOperand::dense(*shapes[0], permutation_a_);
  p.b = StridedOperand::dense(*shapes[1], permutation_b_);
  const bool row = p.a.rank() == 1, column = p.b.rank() == 1;
  if (p.a.rank() == 0 || p.b.rank() == 0) return std::nullopt;
  if (row) p.a.insert(0, 1, p.a.dims[0]);
  if (column) p.b.insert(1, 1, 1);
  const size_t rank = std::max(p.a.rank(), p.b.rank());
  p.a.align(rank), p.b.align(rank);
  const int64_t m = p.a.dims[rank - 2], k = p.a.dims[rank - 1], n = p.b.dims[rank - 1];
  if (p.b.dims[rank - 2] != k) return std::nullopt;
  auto batch = broadcast_shapes(std::span(p.a.dims).first(rank - 2), std::span(p.b.dims).first(rank - 2));
  if (!batch) return std::nullopt;

  Shape full = *batch;
  full.push_back(m), full.push_back(n);
  if (permutation_y_.empty()) {
    p.y = StridedOperand::dense(full);
    p.y_shape = *batch;
    if (!row) p.y_shape.push_back(m);
    if (!column) p.y_shape.push_back(n);
  } else {
    if (row || column || permutation_y_.size() != rank) return std::nullopt;
    for (int64_t axis : permutation_y_) p.y_shape.push_back(full[axis]);
    std::vector<int64_t> inverse(rank);
    for (size_t i = 0; i < rank; ++i) inverse[permutation_y_[i]] = static_cast<int64_t>(i);
    p.y = StridedOperand::dense(p.y_shape, inverse);
  }
  for (size_t i = 2; i < std::min<size_t>(shapes.size(), 4); ++i) {
    if (!shapes[i]) continue;
    StridedOperand added = StridedOperand::dense(*shapes[i]);
    if (row || column || added.rank() > rank) return std::nullopt;
    added.align(rank);
    for (size_t axis = 0; axis < rank; ++axis) {
      if (added.dims[axis] != 1 && added.dims[axis] != full[axis]) return std::nullopt;
    }
    p.added.push_back(std::move(added));
  }
  p.merge_axes();
  return p;
}

}  // namespace anfora::kernels

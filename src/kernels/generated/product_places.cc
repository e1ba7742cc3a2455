#include "kernels/generated/product_places.h"

namespace anfora::kernels::generated {
namespace {

int64_t step(const StridedOperand& operand, size_t axis) { return operand.dims[axis] == 1 ? 0 : operand.strides[axis]; }

}  // namespace

ProductPlaces::ProductPlaces(const StridedProduct& product, const Epilogue& epilogue) {
  const size_t axis = product.y.rank() - 2;
  rows = product.y.dims[axis];
  columns = product.y.dims[axis + 1];
  a_stride = product.a.strides[axis];
  a_step = product.a.strides[axis + 1];
  y_stride = product.y.strides[axis];
  std::array<const StridedOperand*, 2> added{};
  for (size_t i = 0, next = 0; i < added.size() && next < product.added.size(); ++i) {
    if (epilogue.addends[i] == Addend::None) continue;
    added[i] = &product.added[next++];
    addend_strides[i] = step(*added[i], axis);
  }
  auto add_matrices = [&](const auto& self, Matrices at, size_t outer) -> void {
    if (outer == axis) return matrices.push_back(at);
    for (int64_t i = 0; i < product.y.dims[outer]; ++i) {
      self(self, at, outer + 1);
      at.a += step(product.a, outer);
      at.b += step(product.b, outer);
      at.y += step(product.y, outer);
      for (size_t k = 0; k < added.size(); ++k) at.addends[k] += added[k] ? step(*added[k], outer) : 0;
    }
  };
  add_matrices(add_matrices, {}, 0);
}

bool ProductPlaces::has_dense_rows(int64_t depth) const {
  if (a_step != 1 || (rows > 1 && a_stride != depth)) return false;
  for (size_t i = 0; i < matrices.size(); ++i) {
    if (matrices[i].a != static_cast<int64_t>(i) * rows * depth) return false;
  }
  return true;
}

}  // namespace anfora::kernels::generated

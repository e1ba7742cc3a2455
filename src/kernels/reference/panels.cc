#include "kernels/reference/panels.h"

#include <algorithm>
#include <cstring>

#include "kernels/reference/strided_copy.h"
#include "support/element_types.h"
#include "support/parallel.h"
#include "support/passing_elements.h"

namespace anfora::kernels {
namespace {

// Panels of equal width, as a strided view of them and of the matrix.
struct PanelView {
  PanelView(int64_t panels, int64_t columns, StridedAxis of_columns, std::span<const StridedAxis> steps, int64_t width)
      : shape{panels}, of_matrix{width * of_columns.stride} {
    for (const StridedAxis& axis : steps) {
      shape.push_back(axis.extent);
      of_matrix.push_back(axis.stride);
    }
    shape.push_back(columns);
    of_matrix.push_back(of_columns.stride);
    of_panels.assign(shape.size(), 1);
    for (size_t d = shape.size() - 1; d > 0; --d) of_panels[d - 1] = of_panels[d] * (d + 1 == shape.size() ? width : shape[d]);
  }

  Shape shape, of_matrix, of_panels;  // strides
};

}  // namespace

void pack_panels(DType dtype, StridedAxis columns, std::span<const StridedAxis> steps, int64_t width, const void* matrix, void* panels) {
  const int64_t whole = columns.extent / width, rest = columns.extent % width;
  const PanelView view(whole, width, columns, steps, width);
  strided_copy(dtype, view.shape, panels, view.of_panels, matrix, view.of_matrix);
  if (rest == 0) return;
  const PanelView last(1, rest, columns, steps, width);
  void* place = element_at(dtype, panels, whole * view.of_panels[0]);
  std::memset(place, 0, static_cast<size_t>(last.of_panels[0]) * element_bytes(dtype));
  strided_copy(dtype, last.shape, place, last.of_panels, element_at(dtype, matrix, whole * view.of_matrix[0]), last.of_matrix);
}

void pack_rows(const Tensor& weights, std::span<const StridedAxis> steps, int64_t width, Tensor& panels) {
  constexpr int64_t kAtOnce = 1 << 18;  // elements, which caches hold from when they are computed until they are read
  const int64_t rows = weights.dim(0), row = weights.size() / std::max<int64_t>(rows, 1), part_rows = grain_of(kAtOnce, row * width) * width;
  for (int64_t first = 0; first < rows; first += part_rows) {
    const int64_t count = std::min(part_rows, rows - first);
    const PassingElements part(weights, first, count);
    pack_panels(weights.dtype(), {count, row}, steps, width, part.raw(), element_at(weights.dtype(), panels.raw(), first * row));
  }
}

void unpack_panels(DType dtype, StridedAxis columns, std::span<const StridedAxis> steps, int64_t width, const void* panels, void* matrix) {
  const int64_t whole = columns.extent / width, rest = columns.extent % width;
  const PanelView view(whole, width, columns, steps, width), last(1, rest, columns, steps, width);
  strided_copy(dtype, view.shape, matrix, view.of_matrix, panels, view.of_panels);
  strided_copy(dtype, last.shape, element_at(dtype, matrix, whole * view.of_matrix[0]), last.of_matrix,
               element_at(dtype, panels, whole * view.of_panels[0]), last.of_panels);
}

}  // namespace anfora::kernels

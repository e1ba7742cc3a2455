// How convolutions in groups run on images of certain sizes, as far as their kernels have it in common. An image of one axis is a row, a volume several planes
// of rows.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "kernels/input_shapes.h"
#include "kernels/reference/window.h"

namespace anfora::kernels::generated {

// The i-th axis from the last one on: 1: columns, 2: rows, 3: planes. One that there is not has one place.
inline WindowAxis axis_from_last(const Window& window, size_t i) {
  return i <= window.rank() ? window.axes[window.rank() - i] : WindowAxis{.input = 1, .output = 1};
}

struct ImagePlan {
  InputShapes shapes;
  int64_t batch = 0;
  WindowAxis planes, rows, columns;
  Shape result;

  // Pixels before a line of a strip (strip.h), and of all of it.
  int64_t padding() const { return std::max<int64_t>(columns.pad_begin, 0); }
  int64_t pitch() const { return padding() + std::max(columns.start(columns.output - 1) + columns.reach(), columns.input); }
};

// For shapes of an image, weights, a bias and an addend, of so many channels of the image and of the result. Nothing where they do not fit, which the reference
// kernel has words for, or there is nothing to compute.
inline std::optional<ImagePlan> plan_image(Window window, int64_t depth, int64_t channels, InputShapes shapes) {
  constexpr size_t kImage = 0, kBias = 2, kAddend = 3;
  const Shape& x = *shapes[kImage];
  if (x.size() != window.rank() + 2 || x.back() != depth || element_count(x) == 0) return std::nullopt;
  resolve_window(window, std::span(x).subspan(1, window.rank()));
  if (window.outputs() == 0) return std::nullopt;
  ImagePlan plan{.shapes = {},
                 .batch = x[0],
                 .planes = axis_from_last(window, 3),
                 .rows = axis_from_last(window, 2),
                 .columns = axis_from_last(window, 1),
                 .result = {x[0]}};
  for (const WindowAxis& axis : window.axes) plan.result.push_back(axis.output);
  plan.result.push_back(channels);
  auto has_shape = [&](size_t i, const Shape& shape) { return i >= shapes.size() || !shapes[i] || *shapes[i] == shape; };
  if (!has_shape(kBias, Shape{channels}) || !has_shape(kAddend, plan.result)) return std::nullopt;
  plan.shapes = std::move(shapes);
  return plan;
}

}  // namespace anfora::kernels::generated

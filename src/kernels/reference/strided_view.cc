#include "kernels/reference/strided_view.h"

#include <algorithm>
#include <numeric>

#include "kernels/reference/arguments.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/strided_copy.h"
#include "support/element_types.h"

namespace anfora::kernels {
namespace {

// Copies elements [begin, end) of the axes from `axis` on: the first and the last of its indices may be there in part.
class PartCopy {
 public:
  PartCopy(DType dtype, const StridedView& view) : dtype_(dtype), view_(view), dense_(dense_strides(view.shape)) {}

  void copy(size_t axis, int64_t begin, int64_t end, const void* from, void* to) const {
    if (begin >= end) return;
    const int64_t inner = axis == 0 ? element_count(view_.shape) : dense_[axis - 1];
    if (end - begin == inner || axis == view_.shape.size()) return copy_whole(axis, from, to);
    const int64_t size = dense_[axis], first = begin / size, last = end / size;
    const auto of = [&](int64_t i) { return element_at(dtype_, from, i * view_.strides[axis]); };
    const auto place = [&](int64_t at) { return element_at(dtype_, to, at - begin); };
    if (first == last) return copy(axis + 1, begin - first * size, end - first * size, of(first), to);
    const int64_t whole = (begin + size - 1) / size;
    if (first < whole) copy(axis + 1, begin - first * size, size, of(first), to);
    if (whole < last) copy_indices(axis, last - whole, of(whole), place(whole * size));
    if (last * size < end) copy(axis + 1, 0, end - last * size, of(last), place(last * size));
  }

 private:
  void copy_whole(size_t axis, const void* from, void* to) const {
    if (axis == view_.shape.size()) return dense_copy(dtype_, 1, to, from);
    copy_indices(axis, view_.shape[axis], from, to);
  }
  void copy_indices(size_t axis, int64_t count, const void* from, void* to) const {
    Shape sizes(view_.shape.begin() + static_cast<ptrdiff_t>(axis), view_.shape.end());
    sizes[0] = count;
    strided_copy(dtype_, sizes, to, std::span(dense_).subspan(axis), from, std::span(view_.strides).subspan(axis));
  }

  DType dtype_;
  const StridedView& view_;
  Shape dense_;
};

}  // namespace

StridedView StridedView::dense(std::span<const int64_t> shape) { return {Shape(shape.begin(), shape.end()), dense_strides(shape), 0}; }

void StridedView::spread_rows(int64_t length, int64_t distance) {
  auto spread = [&](int64_t elements) { return elements / length * distance + elements % length; };
  if (length == 0) return;
  std::ranges::transform(strides, strides.begin(), spread);
  offset = spread(offset);
}

bool StridedView::is_dense() const {
  const Shape dense = dense_strides(shape);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] != 1 && strides[axis] != dense[axis]) return false;
  }
  return offset == 0;
}

StridedView StridedView::permuted(std::optional<std::span<const int64_t>> given) const {
  const auto rank = std::ssize(shape);
  IntegerList perm(static_cast<size_t>(rank));
  std::iota(perm.rbegin(), perm.rend(), 0);
  if (given) perm.assign(given->begin(), given->end());
  if (std::ssize(perm) != rank) refuse("perm has {} axes, the input {}", perm.size(), rank);
  StridedView result{{}, {}, offset};
  for (auto axis = perm.begin(); axis != perm.end(); ++axis) {
    *axis = normalize_axis(*axis, rank);
    if (std::find(perm.begin(), axis, *axis) != axis) refuse("perm names axis {} twice", *axis);
    result.shape.push_back(shape[static_cast<size_t>(*axis)]);
    result.strides.push_back(strides[static_cast<size_t>(*axis)]);
  }
  return result;
}

StridedView StridedView::sliced(const Tensor& starts, const Tensor& ends, const Tensor* given_axes, const Tensor* given_steps) const {
  const IntegerList first = integers(starts), behind = integers(ends);
  IntegerList listed(first.size()), steps(first.size(), 1);
  std::iota(listed.begin(), listed.end(), 0);
  if (given_axes) listed = integers(*given_axes);
  if (given_steps) steps = integers(*given_steps);
  if (behind.size() != first.size() || listed.size() != first.size() || steps.size() != first.size()) {
    refuse("{} starts, {} ends, {} axes and {} steps", first.size(), behind.size(), listed.size(), steps.size());
  }
  const AxisList axes = normalize_axes(listed, std::ssize(shape));
  StridedView result = *this;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    const int64_t size = shape[axis], step = steps[i];
    if (step == 0) refuse("the step along axis {} is 0", axes[i]);
    // The given bounds may be as large as their type allows; clamped, they lie within the axis.
    const auto bound = [&](int64_t at, int64_t lowest, int64_t highest) {
      return std::clamp(at < 0 ? at + size : at, lowest, std::max(lowest, highest));
    };
    const int64_t start = bound(first[i], 0, step > 0 ? size : size - 1);
    const int64_t end = step > 0 ? bound(behind[i], 0, size) : bound(behind[i], -1, size - 1);
    const int64_t span = step > 0 ? end - start : start - end;
    const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
    const int64_t count = span <= 0 || size == 0 ? 0 : static_cast<int64_t>((static_cast<uint64_t>(span) - 1) / stride) + 1;
    result.shape[axis] = count;
    result.offset += count > 0 ? start * strides[axis] : 0;
    result.strides[axis] = count > 1 ? strides[axis] * step : 0;
  }
  return result;
}

std::optional<StridedView> StridedView::reshaped(std::span<const int64_t> to) const {
  StridedView result{Shape(to.begin(), to.end()), Shape(to.size(), 0), offset};
  if (element_count(to) == 0) return result;
  size_t place = 0;
  for (size_t axis = 0; axis < shape.size();) {
    // Axes that lie one inside the other are one, with the stride of the innermost.
    int64_t extent = shape[axis], stride = strides[axis];
    for (++axis; axis < shape.size() && (shape[axis] == 1 || extent == 1 || stride == strides[axis] * shape[axis]); ++axis) {
      if (shape[axis] == 1) continue;
      extent *= shape[axis];
      stride = strides[axis];
    }
    for (; extent > 1; ++place) {
      if (extent % to[place] != 0) return std::nullopt;
      extent /= to[place];
      result.strides[place] = stride * extent;
    }
  }
  return result;
}

void StridedView::copy(DType dtype, const void* from, int64_t begin, int64_t count, void* to) const {
  PartCopy(dtype, *this).copy(0, begin, begin + count, element_at(dtype, from, offset), to);
}

Shape reshaped_to(std::span<const int64_t> from, std::span<const int64_t> wanted, bool zero_is_zero) {
  Shape shape, others(from.begin(), from.end());  // others: of the input, those that are not copied
  int64_t known = 1, copied = 1;
  int inferred = -1;
  for (size_t d = 0; d < wanted.size(); ++d) {
    int64_t dim = wanted[d];
    if (dim == 0 && !zero_is_zero) {
      if (d >= from.size()) refuse("dimension {} is to be copied, but the input has rank {}", d, from.size());
      shape.push_back(from[d]);
      copied = checked_multiply(copied, shape.back());
      others[d] = 1;
      continue;
    }
    if (dim == -1) {
      if (inferred >= 0) refuse("two dimensions of the new shape are -1");
      inferred = static_cast<int>(d);
      dim = 1;
    } else if (dim < 0) {
      refuse("dimension {} of the new shape is {}", d, dim);
    }
    known = checked_multiply(known, dim);
    shape.push_back(dim);
  }
  if (inferred >= 0) {
    // As the type is inferred: where a copied dimension is 0, too, the others say what is left.
    const int64_t left = element_count(others);
    if (known == 0 || left % known != 0) refuse("{} elements cannot have the shape {}", element_count(from), to_string(wanted));
    shape[static_cast<size_t>(inferred)] = left / known;
  } else if (checked_multiply(known, copied) != element_count(from)) {
    refuse("{} elements cannot have the shape {}", element_count(from), to_string(wanted));
  }
  return shape;
}

}  // namespace anfora::kernels

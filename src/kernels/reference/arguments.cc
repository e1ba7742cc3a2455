#include "kernels/reference/arguments.h"

#include <algorithm>
#include <cmath>

#include "support/element_types.h"

namespace anfora::kernels {
namespace {

using AnyNumbers = Join<Join<Floats, Integers>, Join<SubByteIntegers, TypeList<bool>>>;

void require_one_element(const Tensor& tensor) {
  if (tensor.size() != 1) refuse("expected one element, got a tensor of shape {}", to_string(tensor.shape()));
}

}  // namespace

int normalize_axis(int64_t axis, int64_t rank) {
  int64_t normal = axis < 0 ? axis + rank : axis;
  if (normal < 0 || normal >= rank) refuse("axis {} is out of range for rank {}", axis, rank);
  return static_cast<int>(normal);
}

AxisList normalize_axes(std::span<const int64_t> axes, int64_t rank) {
  AxisList normal;
  for (int64_t axis : axes) {
    int a = normalize_axis(axis, rank);
    if (std::ranges::find(normal, a) != normal.end()) refuse("axis {} is given twice", axis);
    normal.push_back(a);
  }
  return normal;
}

void refuse_index(int64_t index, int64_t size) {
  refuse("index {} is out of range for an axis of size {}", index, size);
}

namespace {

void read_integers(const Tensor& tensor, int64_t* result) {
  dispatch<Join<Integers, SubByteIntegers>>(tensor.dtype(), [&]<class T>() {
    std::ranges::transform(tensor.data<T>(), result, [](T value) { return static_cast<int64_t>(value); });
  });
}

}  // namespace

IntegerList integers(const Tensor& tensor) {
  IntegerList result(static_cast<size_t>(tensor.size()));
  read_integers(tensor, result.data());
  return result;
}

std::span<int64_t> normalized_indices(KernelContext& context, const Tensor& tensor, int64_t size) {
  const std::span<int64_t> indices = context.workspace_of<int64_t>(static_cast<size_t>(tensor.size()));
  read_integers(tensor, indices.data());
  for (int64_t& index : indices) index = normalize_index(index, size);
  return indices;
}

int64_t integer(const Tensor& tensor) {
  require_one_element(tensor);
  return dispatch<AnyNumbers>(tensor.dtype(), [&]<class T>() -> int64_t {
    auto value = static_cast<ComputeType<T>>(tensor.data<T>()[0]);
    if constexpr (std::is_floating_point_v<decltype(value)>) {
      constexpr double limit = 9223372036854775808.0;  // 2^63
      if (!(value >= -limit && value < limit)) refuse("{} does not fit an integer", static_cast<double>(value));
    }
    return static_cast<int64_t>(value);
  });
}

double number(const Tensor& tensor) {
  require_one_element(tensor);
  return dispatch<AnyNumbers>(
      tensor.dtype(), [&]<class T>() { return static_cast<double>(static_cast<ComputeType<T>>(tensor.data<T>()[0])); });
}

DType dtype_attribute(const AttributeSet& attributes, std::string_view attribute, DType otherwise) {
  int64_t number = attributes.get_int(attribute, static_cast<int64_t>(otherwise));
  if (number <= 0 || number >= kDTypeCount) refuse("{} is {}, which is no element type", attribute, number);
  return static_cast<DType>(number);
}

int64_t checked_add(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) refuse("{} + {} overflows", a, b);
  return sum;
}

int64_t checked_multiply(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) refuse("{} * {} overflows", a, b);
  return product;
}

int64_t extent(std::span<const int64_t> shape, int first, int last) {
  return element_count(shape.subspan(static_cast<size_t>(first), static_cast<size_t>(last - first)));
}

}  // namespace anfora::kernels

// Reading and checking the arguments of kernels: axes, indices, integers and shapes that come as data.
// Every function throws Error(InvalidArgument) with the offending value.
#pragma once

#include <fmt/format.h>

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <span>
#include <utility>

#include "anfora/error.h"
#include "anfora/tensor.h"
#include "kernels/kernel.h"
#include "support/attribute.h"
#include "support/scratch.h"

namespace anfora::kernels {

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::InvalidArgument, fmt::format(format, std::forward<Args>(args)...));
}

// Lists, mostly as long as ranks are; longer ones are scratch memory of the thread.
using IntegerList = boost::container::small_vector<int64_t, 8, ScratchAllocator<int64_t>>;
using AxisList = boost::container::small_vector<int, 8>;

// An axis of [-rank, rank) as one of [0, rank).
int normalize_axis(int64_t axis, int64_t rank);
// Each normalized; an axis that occurs twice is refused.
AxisList normalize_axes(std::span<const int64_t> axes, int64_t rank);

// An index of [-size, size) as one of [0, size).
[[noreturn]] void refuse_index(int64_t index, int64_t size);
inline int64_t normalize_index(int64_t index, int64_t size) {
  int64_t normal = index < 0 ? index + size : index;
  if (normal < 0 || normal >= size) refuse_index(index, size);
  return normal;
}

// All elements of a tensor of integers, as i64.
IntegerList integers(const Tensor& tensor);
// All elements of a tensor of i32 or i64, as indices normalized for an axis of that size, in the workspace.
std::span<int64_t> normalized_indices(KernelContext& context, const Tensor& tensor, int64_t size);
// The value of a tensor of exactly one element; floating point is truncated towards zero.
int64_t integer(const Tensor& tensor);
double number(const Tensor& tensor);

// The dtype that an attribute names by ONNX's number.
DType dtype_attribute(const AttributeSet& attributes, std::string_view attribute, DType otherwise);

int64_t checked_add(int64_t a, int64_t b);
int64_t checked_multiply(int64_t a, int64_t b);

// The product of the dimensions first … last-1.
int64_t extent(std::span<const int64_t> shape, int first, int last);

}  // namespace anfora::kernels

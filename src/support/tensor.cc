#include "anfora/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "anfora/error.h"
#include "support/aligned_bytes.h"
#include "support/deferred_elements.h"
#include "support/element_types.h"

namespace anfora {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 62;

std::shared_ptr<void> allocate_aligned(size_t bytes) {
  AlignedBytes memory = allocate_bytes(bytes);
  if (!memory) {
    throw Error(ErrorCode::ResourceExhausted, fmt::format("cannot allocate {} bytes for a tensor", bytes));
  }
  return memory;
}

std::shared_ptr<void> allocate_strings(size_t count) {
  auto strings = std::make_shared<std::vector<std::string>>(count);
  return {strings, strings->data()};
}

}  // namespace

int64_t element_count(std::span<const int64_t> shape) {
  int64_t count = 1;
  bool zero = false, overflow = false;
  for (int64_t dim : shape) {
    if (dim < 0) throw Error(ErrorCode::InvalidArgument, fmt::format("negative dimension {}", dim));
    zero = zero || dim == 0;
    overflow = overflow || __builtin_mul_overflow(count, dim, &count) || count > kMostElements;
  }
  if (overflow && !zero) {
    throw Error(ErrorCode::InvalidArgument, fmt::format("shape {} has too many elements", to_string(shape)));
  }
  return zero ? 0 : count;
}

std::string to_string(std::span<const int64_t> shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
}

Tensor Tensor::allocate(DType dtype, std::span<const int64_t> shape) {
  Tensor t = view(dtype, shape, nullptr, nullptr);
  size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(t.size_), element_bytes(dtype), &bytes)) {
    throw Error(ErrorCode::ResourceExhausted, fmt::format("a tensor of shape {} is too large", to_string(shape)));
  }
  t.owner_ = dtype == DType::String ? allocate_strings(static_cast<size_t>(t.size_)) : allocate_aligned(bytes);
  t.data_ = t.owner_.get();
  return t;
}

Tensor Tensor::zeros(DType dtype, std::span<const int64_t> shape) {
  Tensor t = allocate(dtype, shape);
  if (dtype != DType::String) std::memset(t.data_, 0, t.bytes());
  return t;
}

Tensor Tensor::view(DType dtype, std::span<const int64_t> shape, void* data, std::shared_ptr<void> owner) {
  Tensor t;
  t.dtype_ = dtype;
  t.shape_.assign(shape.begin(), shape.end());
  t.size_ = element_count(shape);
  t.data_ = data;
  t.owner_ = std::move(owner);
  return t;
}

Tensor Tensor::reshaped(std::span<const int64_t> shape) const {
  if (element_count(shape) != size_) {
    throw Error(ErrorCode::InvalidArgument,
                fmt::format("cannot view a tensor of shape {} as {}", to_string(shape_), to_string(shape)));
  }
  Tensor other = view(dtype_, shape, data_, owner_);
  other.is_deferred_ = is_deferred_;
  return other;
}

Tensor Tensor::clone() const {
  if (!defined()) return {};
  Tensor copy = allocate(dtype_, shape_);
  if (dtype_ == DType::String) {
    std::ranges::copy(data<std::string>(), copy.data<std::string>().begin());
  } else if (size_ > 0) {
    std::memcpy(copy.data_, raw(), bytes());
  }
  return copy;
}

bool Tensor::identical(const Tensor& a, const Tensor& b) {
  if (a.dtype_ != b.dtype_ || a.shape_ != b.shape_) return false;
  const bool is_deferred = a.is_deferred_ || b.is_deferred_;
  if (a.size_ == 0 || (is_deferred ? a.owner_ == b.owner_ : a.data_ == b.data_)) return true;
  if (a.dtype_ == DType::String) return std::ranges::equal(a.data<std::string>(), b.data<std::string>());
  return std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

void* Tensor::deferred_elements() const { return static_cast<DeferredElements*>(owner_.get())->computed(); }

void Tensor::wrong_element_type(DType wanted, size_t bytes) const {
  const std::string as = wanted == DType::Undefined ? fmt::format("elements of {} bytes", bytes) : std::string(name(wanted));
  throw Error(ErrorCode::TypeMismatch, fmt::format("a tensor of {} is read as {}", name(dtype_), as));
}

void Tensor::wrong_number_of_values(size_t values, std::span<const int64_t> shape) {
  throw Error(ErrorCode::InvalidArgument, fmt::format("{} values do not fill the shape {}", values, to_string(shape)));
}

}  // namespace anfora

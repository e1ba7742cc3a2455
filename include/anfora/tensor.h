// A dense tensor in row-major order: dtype, shape, and shared ownership of its bytes. Copying a Tensor
// copies the handle, never the bytes. The bytes may lie on the heap, in a memory-mapped file or in
// somebody's arena.
#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "anfora/dtype.h"

namespace [[gnu::visibility("default")]] anfora {

using Shape = boost::container::small_vector<int64_t, 8>;

// The number of elements; throws Error(InvalidArgument) on a negative dimension or when it exceeds 2^62.
int64_t element_count(std::span<const int64_t> shape);
// "2x3x4"; "scalar" for rank 0.
std::string to_string(std::span<const int64_t> shape);

class Tensor {
 public:
  Tensor() = default;  // undefined: dtype() == DType::Undefined

  // Uninitialized memory, 64-byte aligned (strings are constructed empty). Throws ResourceExhausted.
  static Tensor allocate(DType dtype, std::span<const int64_t> shape);
  static Tensor zeros(DType dtype, std::span<const int64_t> shape);
  // A view on memory that `owner` keeps alive (null: the caller does).
  static Tensor view(DType dtype, std::span<const int64_t> shape, void* data, std::shared_ptr<void> owner);

  // A tensor of the values, copied. Throws InvalidArgument where their number does not fit the shape.
  template <class T>
  static Tensor scalar(T value);
  template <class T>
  static Tensor vector(std::span<const T> values);
  template <class T>
  static Tensor from(std::span<const int64_t> shape, std::span<const T> values);

  bool defined() const { return dtype_ != DType::Undefined; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return static_cast<int>(shape_.size()); }
  int64_t dim(int axis) const { return shape_[axis]; }
  int64_t size() const { return size_; }  // number of elements
  size_t bytes() const { return static_cast<size_t>(size_) * element_bytes(dtype_); }

  const void* raw() const { return is_deferred_ ? deferred_elements() : data_; }
  void* raw() { return is_deferred_ ? deferred_elements() : data_; }
  // Elements as T, which must be the dtype's type (throws TypeMismatch); an unsigned integer of as many bytes gives the bits.
  template <class T>
  std::span<const T> data() const;
  template <class T>
  std::span<T> data();

  const std::shared_ptr<void>& owner() const { return owner_; }

  // The same bytes under another shape of as many elements.
  Tensor reshaped(std::span<const int64_t> shape) const;
  // A deep copy on the heap.
  Tensor clone() const;

  // Same dtype, shape and bytes (strings: characters).
  static bool identical(const Tensor& a, const Tensor& b);

 private:
  template <class T>
  static constexpr bool reads(DType dtype) {
    constexpr bool is_bits = std::is_unsigned_v<T> && !std::is_same_v<T, bool>;
    return dtype == dtype_of<T> || ((is_bits || dtype_of<T> == DType::Undefined) && dtype != DType::String && sizeof(T) == element_bytes(dtype));
  }
  friend class DeferredElements;
  void* deferred_elements() const;
  [[noreturn]] void wrong_element_type(DType wanted, size_t bytes) const;
  [[noreturn]] static void wrong_number_of_values(size_t values, std::span<const int64_t> shape);
  DType dtype_ = DType::Undefined;
  Shape shape_;
  bool is_deferred_ = false;  // the owner computes the elements when they are first read
  int64_t size_ = 0;
  void* data_ = nullptr;
  std::shared_ptr<void> owner_;
};

template <class T>
std::span<const T> Tensor::data() const {
  if (!reads<T>(dtype_)) wrong_element_type(dtype_of<T>, sizeof(T));
  return {static_cast<const T*>(raw()), static_cast<size_t>(size_)};
}
template <class T>
std::span<T> Tensor::data() {
  if (!reads<T>(dtype_)) wrong_element_type(dtype_of<T>, sizeof(T));
  return {static_cast<T*>(raw()), static_cast<size_t>(size_)};
}

template <class T>
Tensor Tensor::from(std::span<const int64_t> shape, std::span<const T> values) {
  static_assert(dtype_of<T> != DType::Undefined, "no tensor has elements of this type");
  Tensor tensor = allocate(dtype_of<T>, shape);
  if (static_cast<size_t>(tensor.size()) != values.size()) wrong_number_of_values(values.size(), shape);
  std::copy(values.begin(), values.end(), static_cast<T*>(tensor.data_));
  return tensor;
}
template <class T>
Tensor Tensor::scalar(T value) {
  return from<T>({}, std::span<const T>(&value, 1));
}
template <class T>
Tensor Tensor::vector(std::span<const T> values) {
  const int64_t size = static_cast<int64_t>(values.size());
  return from<T>(std::span<const int64_t>(&size, 1), values);
}

}  // namespace anfora

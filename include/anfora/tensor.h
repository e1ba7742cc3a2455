// A dense tensor in row-major order: dtype, shape, and shared ownership of its bytes. Copying a Tensor
// copies the handle, never the bytes. The bytes may lie on the heap, in a memory-mapped file or in
// somebody's arena.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "anfora/dtype.h"

namespace [[gnu::visibility("default")]] anfora {

using Shape = boost::container::small_vector<int64_t, 6>;

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

  const void* raw() const { return data_; }
  void* raw() { return data_; }
  // Elements as T; T's size must be the dtype's (checked).
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
  [[noreturn]] void wrong_element_size(size_t got) const;
  DType dtype_ = DType::Undefined;
  Shape shape_;
  int64_t size_ = 0;
  void* data_ = nullptr;
  std::shared_ptr<void> owner_;
};

template <class T>
std::span<const T> Tensor::data() const {
  if (sizeof(T) != element_bytes(dtype_)) wrong_element_size(sizeof(T));
  return {static_cast<const T*>(data_), static_cast<size_t>(size_)};
}
template <class T>
std::span<T> Tensor::data() {
  if (sizeof(T) != element_bytes(dtype_)) wrong_element_size(sizeof(T));
  return {static_cast<T*>(data_), static_cast<size_t>(size_)};
}

}  // namespace anfora

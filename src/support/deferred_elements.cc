#include "support/deferred_elements.h"

#include <cstring>
#include <utility>

#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora {

DeferredElements::DeferredElements(Tensor elements, ComputeRows compute) : compute_(std::move(compute)), elements_(std::move(elements)) {}

Tensor DeferredElements::tensor(DType dtype, std::span<const int64_t> shape, ComputeRows compute) {
  Tensor tensor = Tensor::view(dtype, shape, nullptr, nullptr);
  tensor.owner_ = std::shared_ptr<DeferredElements>(new DeferredElements(tensor, std::move(compute)));
  tensor.is_deferred_ = true;
  return tensor;
}

bool DeferredElements::are_missing(const Tensor& tensor) {
  if (!tensor.is_deferred_) return false;
  auto& deferred = *static_cast<DeferredElements*>(tensor.owner_.get());
  std::lock_guard lock(deferred.mutex_);
  return deferred.compute_ != nullptr;
}

void DeferredElements::copy_bytes(const Tensor& tensor, size_t begin, size_t count, std::byte* place) {
  if (are_missing(tensor)) return static_cast<DeferredElements*>(tensor.owner_.get())->copy(begin, count, place);
  std::memcpy(place, static_cast<const std::byte*>(tensor.raw()) + begin, count);
}

void DeferredElements::settle(Tensor& tensor) {
  if (!tensor.is_deferred_) return;
  tensor.data_ = tensor.raw();
  tensor.is_deferred_ = false;
}

void* DeferredElements::computed() {
  // While it holds the lock this thread takes up no other work, which might ask for the same elements.
  isolated([&] {
    std::lock_guard lock(mutex_);
    if (!compute_) return;
    Tensor elements = Tensor::allocate(elements_.dtype(), elements_.shape());
    compute_(0, elements.dim(0), static_cast<std::byte*>(elements.raw()));
    elements_ = std::move(elements);
    compute_ = nullptr;
  });
  return elements_.raw();
}

void DeferredElements::copy(size_t begin, size_t count, std::byte* place) {
  if (count == 0) return;
  isolated([&] {
    std::lock_guard lock(mutex_);
    if (!compute_) return void(std::memcpy(place, static_cast<const std::byte*>(elements_.raw()) + begin, count));
    const size_t row = elements_.bytes() / static_cast<size_t>(elements_.dim(0));
    const size_t first = begin / row, end = (begin + count + row - 1) / row;
    if (begin % row == 0 && count % row == 0) return compute_(static_cast<int64_t>(first), static_cast<int64_t>(end - first), place);
    Scratch<std::byte> rows((end - first) * row);
    compute_(static_cast<int64_t>(first), static_cast<int64_t>(end - first), rows.data());
    std::memcpy(place, rows.data() + (begin - first * row), count);
  });
}

}  // namespace anfora

#include "kernels/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "anfora/error.h"

namespace anfora::kernels {

const Datum& KernelContext::input_datum(size_t i) const {
  if (i >= inputs_.size()) throw Error(ErrorCode::InvalidArgument, fmt::format("input {} is missing", i));
  return *inputs_[i];
}

const Tensor& KernelContext::input(size_t i) const {
  if (!has_input(i)) throw Error(ErrorCode::InvalidArgument, fmt::format("input {} is missing", i));
  return inputs_[i]->tensor();
}

const Tensor* KernelContext::optional_input(size_t i) const { return has_input(i) ? &inputs_[i]->tensor() : nullptr; }

InputRows KernelContext::input_rows(size_t i) const {
  const Tensor& tensor = input(i);
  const int64_t distance = i < input_distances_.size() ? input_distances_[i] : 0;
  if (distance > 0) return {tensor, distance / static_cast<int64_t>(element_bytes(tensor.dtype()))};
  return InputRows(tensor);
}

Datum KernelContext::take_input(size_t i) {
  const Datum& datum = input_datum(i);
  // The slot belongs to whoever runs the kernel, who said that it is free after this.
  if (i < last_uses_.size() && last_uses_[i]) return std::move(const_cast<Datum&>(datum));
  return datum;
}

Tensor& KernelContext::allocate_output(size_t i, DType dtype, std::span<const int64_t> shape) {
  if (const Tensor* planned = planned_output(i); planned && dtype != DType::String) {
    Tensor output = Tensor::view(dtype, shape, const_cast<void*>(planned->raw()), planned->owner());
    if (output.bytes() == planned->bytes()) {
      outputs_[i] = std::move(output);
      return outputs_[i].tensor();
    }
  }
  outputs_[i] = workspace_ ? workspace_->blocks().allocate(dtype, shape) : Tensor::allocate(dtype, shape);
  return outputs_[i].tensor();
}

OutputRows KernelContext::allocate_output_rows(size_t i, DType dtype, std::span<const int64_t> shape) {
  const int64_t distance = row_distance(i), element = static_cast<int64_t>(element_bytes(dtype));
  if (distance == 0 || distance % element != 0) return OutputRows(allocate_output(i, dtype, shape));
  Tensor output = Tensor::view(dtype, shape, const_cast<void*>(planned_[i].raw()), planned_[i].owner());
  if (output.bytes() != planned_[i].bytes()) return OutputRows(allocate_output(i, dtype, shape));
  outputs_[i] = std::move(output);
  return {outputs_[i].tensor(), distance / element};
}

std::mt19937_64& KernelContext::random() const {
  if (!random_) throw Error(ErrorCode::Internal, "this kernel was called without random state");
  return *random_;
}

Tensor KernelContext::temporary(DType dtype, std::span<const int64_t> shape) {
  if (dtype == DType::String) return Tensor::allocate(dtype, shape);
  return Tensor::view(dtype, shape, workspace(static_cast<size_t>(element_count(shape)) * element_bytes(dtype)), nullptr);
}

void* Workspace::get(size_t bytes) {
  constexpr size_t kAlignment = 64;
  const size_t begin = (taken_ + kAlignment - 1) / kAlignment * kAlignment;
  taken_ = begin + bytes;
  if (taken_ <= planned_.size()) return planned_.data() + begin;
  return beyond_.emplace_back(blocks_.allocate(DType::U8, std::array{static_cast<int64_t>(bytes)})).raw();
}

void KernelRegistry::add(std::string_view name, KernelFunction function, RowsApart rows) {
  auto at = std::ranges::lower_bound(entries_, name, {}, &Entry::name);
  if (at != entries_.end() && at->name == name) {
    throw Error(ErrorCode::Internal, fmt::format("two kernels are named {}", name));
  }
  entries_.insert(at, {name, function, rows});
}

const KernelRegistry::Entry* KernelRegistry::find_entry(std::string_view name) const {
  auto at = std::ranges::lower_bound(entries_, name, {}, &Entry::name);
  return at != entries_.end() && at->name == name ? &*at : nullptr;
}

KernelFunction KernelRegistry::find(std::string_view name) const {
  const Entry* entry = find_entry(name);
  return entry ? entry->function : nullptr;
}

RowsApart KernelRegistry::rows_apart(std::string_view name) const {
  const Entry* entry = find_entry(name);
  return entry ? entry->rows : RowsApart();
}

std::vector<std::string_view> KernelRegistry::names() const {
  std::vector<std::string_view> result;
  for (const Entry& entry : entries_) result.push_back(entry.name);
  return result;
}

}  // namespace anfora::kernels

#include "kernels/reference/broadcast.h"

#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "support/parallel.h"

namespace anfora::kernels {

Shape broadcast_shape(std::span<const int64_t> a, std::span<const int64_t> b) {
  if (a.size() < b.size()) std::swap(a, b);
  Shape result(a.begin(), a.end());
  size_t lead = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t& dim = result[lead + i];
    if (dim == b[i] || b[i] == 1) continue;
    if (dim != 1) {
      throw Error(ErrorCode::TypeMismatch,
                  fmt::format("shapes {} and {} do not broadcast", to_string(a), to_string(b)));
    }
    dim = b[i];
  }
  return result;
}

Shape dense_strides(std::span<const int64_t> shape) {
  Shape strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    // Of an empty shape the product may overflow; nothing is then addressed by it.
    stride = static_cast<int64_t>(static_cast<uint64_t>(stride) * static_cast<uint64_t>(shape[i]));
  }
  return strides;
}

Shape broadcast_strides(std::span<const int64_t> shape, std::span<const int64_t> to) {
  Shape own = dense_strides(shape);
  Shape strides(to.size(), 0);
  if (shape.size() > to.size()) {
    throw Error(ErrorCode::TypeMismatch,
                fmt::format("shape {} does not broadcast to {}", to_string(shape), to_string(to)));
  }
  size_t lead = to.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == to[lead + i]) {
      strides[lead + i] = own[i];
    } else if (shape[i] != 1) {
      throw Error(ErrorCode::TypeMismatch,
                  fmt::format("shape {} does not broadcast to {}", to_string(shape), to_string(to)));
    }
  }
  return strides;
}

LoopNest::LoopNest(std::span<const int64_t> sizes, std::initializer_list<Strides> operand_strides)
    : operands_(operand_strides.size()), size_(element_count(sizes)), sizes_(sizes.begin(), sizes.end()) {
  size_t operand = 0;
  for (Strides strides : operand_strides) strides_[operand++].assign(strides.begin(), strides.end());
  collapse();
}

LoopNest LoopNest::broadcast(std::span<const int64_t> out, std::initializer_list<std::span<const int64_t>> inputs) {
  LoopNest nest(out, {});
  nest.operands_ = inputs.size() + 1;
  nest.sizes_.assign(out.begin(), out.end());
  nest.strides_[0] = dense_strides(out);
  size_t operand = 1;
  for (std::span<const int64_t> shape : inputs) nest.strides_[operand++] = broadcast_strides(shape, out);
  nest.collapse();
  return nest;
}

void LoopNest::collapse() {
  size_t kept = 0;
  for (size_t d = 0; d < sizes_.size(); ++d) {
    if (sizes_[d] == 1) continue;
    bool joins_previous = kept > 0;
    for (size_t i = 0; i < operands_ && joins_previous; ++i) {
      joins_previous = strides_[i][kept - 1] == strides_[i][d] * sizes_[d];
    }
    if (!joins_previous) ++kept;
    sizes_[kept - 1] = joins_previous ? sizes_[kept - 1] * sizes_[d] : sizes_[d];
    for (size_t i = 0; i < operands_; ++i) strides_[i][kept - 1] = strides_[i][d];
  }
  sizes_.resize(kept);
  for (size_t i = 0; i < operands_; ++i) strides_[i].resize(kept);
  if (kept > 0) return;
  // One point: call it a dense run of one element.
  sizes_.assign(1, 1);
  for (size_t i = 0; i < operands_; ++i) strides_[i].assign(1, 1);
}

bool LoopNest::is_flat() const {
  return sizes_.size() == 1 && std::all_of(strides_.begin(), strides_.begin() + static_cast<int64_t>(operands_),
                                           [](const Shape& s) { return s[0] == 1; });
}

void LoopNest::for_each_run_erased(int64_t grain, void* state, RunBody body) const {
  if (size_ == 0) return;
  parallel_for(size_, grain, [&](int64_t begin, int64_t end) { walk(begin, end, state, body); });
}

void LoopNest::walk(int64_t begin, int64_t end, void* state, RunBody body) const {
  const size_t rank = sizes_.size();
  const int64_t run = sizes_.back();
  Shape index(rank);
  std::array<int64_t, kMaxOperands> offsets{};
  int64_t rest = begin;
  for (size_t d = rank; d-- > 0;) {
    index[d] = rest % sizes_[d];
    rest /= sizes_[d];
    for (size_t i = 0; i < operands_; ++i) offsets[i] += index[d] * strides_[i][d];
  }
  for (int64_t at = begin; at < end;) {
    const int64_t count = std::min(run - index[rank - 1], end - at);
    body(state, offsets.data(), count);
    at += count;
    if (at == end) return;
    // Only the first run can start inside the innermost dimension; wind it back to its start and carry.
    for (size_t i = 0; i < operands_; ++i) offsets[i] -= index[rank - 1] * strides_[i][rank - 1];
    index[rank - 1] = 0;
    for (size_t d = rank - 1; d-- > 0;) {
      for (size_t i = 0; i < operands_; ++i) offsets[i] += strides_[i][d];
      if (++index[d] < sizes_[d]) break;
      for (size_t i = 0; i < operands_; ++i) offsets[i] -= sizes_[d] * strides_[i][d];
      index[d] = 0;
    }
  }
}

}  // namespace anfora::kernels

// The interface of every kernel: attributes, inputs and outputs; no IR. A reference kernel is a plain function.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/attribute.h"
#include "support/block_pool.h"
#include "support/datum.h"

namespace anfora::kernels {

// Memory of a machine for its kernels.
class Workspace {
 public:
  // An invocation begins, for which the plan has reserved `planned`, aligned to 64 bytes.
  void begin(std::span<std::byte> planned) { planned_ = planned; }
  // Memory of this invocation, aligned to 64 bytes: the next of what is planned, or a block where that does not suffice.
  // Throws ResourceExhausted.
  void* get(size_t bytes);
  // The invocation ends. Returns the bytes that it took, which would have to be planned for it.
  size_t end() {
    if (taken_ == 0) return 0;
    beyond_.clear();
    return std::exchange(taken_, 0);
  }

  // For outputs that no plan has placed.
  BlockPool& blocks() { return blocks_; }
  const BlockPool& blocks() const { return blocks_; }

 private:
  std::span<std::byte> planned_;
  size_t taken_ = 0;
  BlockPool blocks_;
  std::vector<Tensor> beyond_;  // blocks of this invocation
};

// A tensor whose rows, those of its last axis, may lie apart, as those of a part of a larger one do.
template <class T>
struct RowsOf {
  T& tensor;       // of that shape; where the first row begins
  int64_t stride;  // elements from one row to the next
  explicit RowsOf(T& dense) : tensor(dense), stride(length()) {}
  RowsOf(T& of, int64_t row_stride) : tensor(of), stride(row_stride) {}
  int64_t length() const { return tensor.rank() == 0 ? 1 : tensor.shape().back(); }
  bool are_apart() const { return stride != length(); }
};
using InputRows = RowsOf<const Tensor>;
using OutputRows = RowsOf<Tensor>;

// One invocation of a kernel. Omitted optional inputs are None data; inputs past the end count as omitted.
class KernelContext {
 public:
  // `planned[i]`, when defined, is memory that output i should be written to if it has as many bytes.
  // `last_uses[i]` says that nobody reads input i after this invocation; empty: all inputs live on.
  KernelContext(const KernelContext&) = delete;
  KernelContext(const AttributeSet& attributes, std::span<const Datum* const> inputs, std::span<Datum> outputs,
                std::span<const Tensor> planned = {}, std::mt19937_64* random = nullptr,
                std::span<const bool> last_uses = {}, Workspace* workspace = nullptr)
      : attributes_(attributes),
        inputs_(inputs),
        outputs_(outputs),
        planned_(planned),
        random_(random),
        last_uses_(last_uses),
        workspace_(workspace) {}

  const AttributeSet& attributes() const { return attributes_; }

  size_t num_inputs() const { return inputs_.size(); }
  bool has_input(size_t i) const { return i < inputs_.size() && !inputs_[i]->is_none(); }
  const Datum& input_datum(size_t i) const;      // throws InvalidArgument when out of range
  const Tensor& input(size_t i) const;           // throws when absent or not a tensor
  const Tensor* optional_input(size_t i) const;  // null when absent
  // As input(), for a kernel that reads rows where they are (PreparedKernel::reads_rows_apart()).
  InputRows input_rows(size_t i) const;
  // Input i as a handle of its own: moved out when this is its last use, so that a sequence that grows in a loop is
  // taken over rather than copied; do not read input i afterwards.
  Datum take_input(size_t i);

  size_t num_outputs() const { return outputs_.size(); }
  // Room for output i: planned memory if there is some of the right size, else a new tensor. The bytes are
  // not initialized, and may be those of an input when the operator is declared in-place.
  Tensor& allocate_output(size_t i, DType dtype, std::span<const int64_t> shape);
  // The same for a kernel that writes rows where they are wanted (PreparedKernel::writes_rows_apart()).
  OutputRows allocate_output_rows(size_t i, DType dtype, std::span<const int64_t> shape);
  void set_output(size_t i, Datum value) { outputs_[i] = std::move(value); }
  // The memory planned for output i, null when there is none: for kernels whose output may be a view on an input.
  const Tensor* planned_output(size_t i) const {
    return i < planned_.size() && planned_[i].defined() && row_distance(i) == 0 ? &planned_[i] : nullptr;
  }
  // By output and by input, the bytes from one row to the next where planned memory, or what an input says, is the first of rows that lie apart; else 0.
  void place_rows_apart(std::span<const int64_t> of_outputs, std::span<const int64_t> of_inputs) {
    row_distances_ = of_outputs;
    input_distances_ = of_inputs;
  }

  // Memory for this invocation alone, uninitialized. Not for the body of a parallel loop, where threads would share it (Scratch).
  void* workspace(size_t bytes) { return shared_workspace().get(bytes); }
  template <class T>
  std::span<T> workspace_of(size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    return {static_cast<T*>(workspace(count * sizeof(T))), count};
  }
  template <class T>
  std::span<T> workspace_of(size_t count, T value) {
    std::span<T> elements = workspace_of<T>(count);
    std::ranges::fill(elements, value);
    return elements;
  }
  // A tensor in it. Strings have memory of their own.
  Tensor temporary(DType dtype, std::span<const int64_t> shape);

  // The invocation of another kernel as a part of this one, which has its workspace.
  KernelContext inner(const AttributeSet& attributes, std::span<const Datum* const> inputs, std::span<Datum> outputs,
                      std::span<const Tensor> planned = {}) {
    return KernelContext(attributes, inputs, outputs, planned, random_, {}, &shared_workspace());
  }

  // The run's random state, for operators without a seed.
  std::mt19937_64& random() const;

 private:
  int64_t row_distance(size_t i) const { return i < row_distances_.size() ? row_distances_[i] : 0; }

  const AttributeSet& attributes_;
  std::span<const Datum* const> inputs_;
  std::span<Datum> outputs_;
  std::span<const Tensor> planned_;
  std::mt19937_64* random_;
  std::span<const bool> last_uses_;
  std::span<const int64_t> row_distances_, input_distances_;
  Workspace& shared_workspace() { return workspace_ ? *workspace_ : *(workspace_ = &own_workspace_.emplace()); }

  Workspace* workspace_;
  std::optional<Workspace> own_workspace_;  // where no machine runs the kernel
};

using KernelFunction = void (*)(KernelContext&);

// What a kernel may find apart: rows of output 0, which it allocates by KernelContext::allocate_output_rows(), and of inputs, which it reads by input_rows().
struct RowsApart {
  bool of_output = false, of_inputs = false;
};

// Name → reference kernel. Names are the operators' ("Relu"); other domains are qualified ("ai.onnx.ml::Scaler").
class KernelRegistry {
 public:
  void add(std::string_view name, KernelFunction function, RowsApart rows = {});
  KernelFunction find(std::string_view name) const;  // null when there is none
  RowsApart rows_apart(std::string_view name) const;
  std::vector<std::string_view> names() const;       // sorted

 private:
  struct Entry {
    std::string_view name;
    KernelFunction function;
    RowsApart rows;
  };
  const Entry* find_entry(std::string_view name) const;
  std::vector<Entry> entries_;  // sorted by name
};

// All reference kernels, made once.
const KernelRegistry& reference_kernels();

}  // namespace anfora::kernels

// Prepares and runs a oneDNN kernel in a test, beside the reference kernel of the same operator.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "kernels/onednn/onednn_kernels.h"
#include "run_kernel.h"
#include "support/parallel.h"

namespace anfora {

// Values of small magnitude that differ from place to place.
inline Tensor random_tensor(std::vector<int64_t> shape, int seed, DType dtype = DType::F32) {
  Tensor tensor = Tensor::allocate(dtype, shape);
  uint32_t state = static_cast<uint32_t>(seed) * 2654435761u + 12345u;
  dispatch<Floats>(dtype, [&]<class T>() {
    for (T& value : tensor.data<T>()) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<T>(static_cast<float>(state >> 16) / 32768.0f - 1.0f);
    }
  });
  return tensor;
}

inline std::vector<float> as_floats(const Tensor& tensor) {
  std::vector<float> values;
  dispatch<Numbers>(tensor.dtype(), [&]<class T>() {
    for (T value : tensor.data<T>()) values.push_back(static_cast<float>(value));
  });
  return values;
}

inline void expect_close(const Tensor& got, const Tensor& expected, float tolerance) {
  ASSERT_EQ(got.dtype(), expected.dtype());
  ASSERT_EQ(got.shape(), expected.shape());
  std::vector<float> a = as_floats(got), b = as_floats(expected);
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_LE(std::fabs(a[i] - b[i]), tolerance * (1 + std::fabs(b[i]))) << "element " << i << " of " << a.size();
  }
}

inline Tensor converted(const Tensor& tensor, DType from, DType to) {
  if (!tensor.defined() || tensor.dtype() != from) return tensor;
  Tensor result = Tensor::allocate(to, tensor.shape());
  dispatch<Floats>(from, [&]<class From>() {
    dispatch<Floats>(to, [&]<class To>() { std::ranges::transform(tensor.data<From>(), result.data<To>().begin(), [](From value) { return static_cast<To>(value); }); });
  });
  return result;
}

// What the reference kernel computes of f32 in f64, rounded once: its own sums of f32 differ by as much as others.
inline std::vector<Tensor> run_precisely(std::string_view op, const AttributeSet& attributes, std::vector<Tensor> inputs, size_t outputs) {
  for (Tensor& input : inputs) input = converted(input, DType::F32, DType::F64);
  std::vector<Tensor> results = run_kernel(op, attributes, inputs, outputs);
  for (Tensor& result : results) result = converted(result, DType::F64, DType::F32);
  return results;
}

// Which inputs are constants: those from a number on, or those listed.
class Constants {
 public:
  Constants(size_t first) : first_(first) {}
  Constants(std::initializer_list<size_t> listed) : listed_(listed) {}
  bool contain(size_t i) const { return i >= first_ || std::ranges::find(listed_, i) != listed_.end(); }

 private:
  size_t first_ = SIZE_MAX;
  std::vector<size_t> listed_;
};

// A tensor whose rows lie apart, as parts of longer ones, and what is between them.
class ApartRows {
 public:
  explicit ApartRows(const Tensor& dense)
      : element_(element_bytes(dense.dtype())),
        row_(static_cast<size_t>(dense.shape().back()) * element_),
        memory_(dense.bytes() / row_ * distance(), kUntouched),
        first_(Tensor::view(dense.dtype(), dense.shape(), memory_.data() + kBefore * element_, nullptr)) {}
  static bool exist_for(const Tensor& dense) { return dense.defined() && dense.rank() > 0 && dense.size() > 0; }

  void fill(const Tensor& dense) {
    for (size_t i = 0; i < dense.bytes() / row_; ++i) {
      std::copy_n(static_cast<const std::byte*>(dense.raw()) + i * row_, row_, memory_.begin() + static_cast<std::ptrdiff_t>(i * distance() + kBefore * element_));
    }
  }
  size_t distance() const { return row_ + (kBefore + kBehind) * element_; }
  const Tensor& first() const { return first_; }
  bool operator==(const ApartRows& other) const { return memory_ == other.memory_; }

 private:
  static constexpr size_t kBefore = 3, kBehind = 5;
  static constexpr std::byte kUntouched{0xa5};
  size_t element_, row_;
  std::vector<std::byte> memory_;
  Tensor first_;
};

// Expects the same bits where rows of an output lie apart, and nothing written between them; and where those of an input do. `dense`: the results, as far
// as they are asked for.
inline void expect_rows_apart(const kernels::PreparedKernel& kernel, const AttributeSet& attributes, std::span<const Datum* const> inputs,
                              std::span<const Tensor> dense) {
  auto run = [&](std::span<const Datum* const> from, std::span<const Tensor> planned, std::span<const int64_t> of_outputs, std::span<const int64_t> of_inputs) {
    std::vector<Datum> results(dense.size());
    kernels::KernelContext context(attributes, from, results, planned);
    context.place_rows_apart(of_outputs, of_inputs);
    kernel.run(context, kernel.make_state().get());
    return results;
  };
  for (size_t i = 0; i < dense.size(); ++i) {
    if (!kernel.writes_rows_apart(i) || !ApartRows::exist_for(dense[i])) continue;
    ApartRows rows(dense[i]), wanted(dense[i]);
    wanted.fill(dense[i]);
    std::vector<Tensor> planned(dense.size());
    planned[i] = Tensor::view(DType::U8, Shape{static_cast<int64_t>(dense[i].bytes())}, const_cast<void*>(rows.first().raw()), nullptr);
    std::vector<int64_t> distances(dense.size());
    distances[i] = static_cast<int64_t>(rows.distance());
    const Tensor result = run(inputs, planned, distances, {})[i].tensor();
    ASSERT_EQ(result.shape(), dense[i].shape());
    EXPECT_EQ(result.raw(), planned[i].raw());
    EXPECT_TRUE(rows == wanted) << "output " << i;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!kernel.reads_rows_apart(i) || !inputs[i]->is_tensor() || !ApartRows::exist_for(inputs[i]->tensor())) continue;
    ApartRows rows(inputs[i]->tensor());
    rows.fill(inputs[i]->tensor());
    const Datum apart = rows.first();
    std::vector<const Datum*> from(inputs.begin(), inputs.end());
    from[i] = &apart;
    std::vector<int64_t> distances(inputs.size());
    distances[i] = static_cast<int64_t>(rows.distance());
    const std::vector<Datum> results = run(from, {}, {}, distances);
    for (size_t k = 0; k < dense.size(); ++k) {
      if (!dense[k].defined()) continue;
      EXPECT_TRUE(Tensor::identical(results[k].tensor(), dense[k])) << "output " << k << " of input " << i;
    }
  }
}

// Expects a prepared kernel to exist for these inputs and to agree with the reference kernel. With `open_shapes`
// nothing is known of the inputs that are no constants but their types. Runs twice, to see what is kept between calls, and
// again without the constants that the kernel lets go of. What another registry prepares, one of those at run time loads.
inline void expect_prepared(std::string_view op, const AttributeSet& attributes, const std::vector<Tensor>& inputs,
                            Constants constants, bool open_shapes = false, float tolerance = 1e-5f,
                            size_t outputs = 1, const kernels::PreparedRegistry& registry = kernels::onednn_kernels()) {
  std::vector<kernels::InputDescription> descriptions;
  std::vector<Datum> data;
  for (size_t i = 0; i < inputs.size(); ++i) {
    kernels::InputDescription description;
    description.present = inputs[i].defined();
    description.dtype = inputs[i].dtype();
    if (!open_shapes || constants.contain(i)) description.shape = inputs[i].shape();
    if (constants.contain(i) && inputs[i].defined()) description.constant = inputs[i];
    descriptions.push_back(description);
    data.push_back(inputs[i].defined() ? Datum(inputs[i]) : Datum());
  }
  kernels::KernelData kernel_data{std::string(op), attributes, descriptions, outputs};
  const auto kernel = registry.prepare(kernel_data);
  ASSERT_TRUE(kernel) << op;
  kernels::PreparedRun prepared(*kernel);
  std::vector<const Datum*> pointers;
  for (const Datum& datum : data) pointers.push_back(&datum);
  std::vector<Tensor> expected = run_precisely(op, attributes, inputs, outputs);
  auto run_by = [&](kernels::PreparedRun& kernel_run) {
    std::vector<Datum> results(outputs);
    kernel_run.run(attributes, pointers, results);
    for (size_t i = 0; i < outputs; ++i) {
      if (expected[i].defined()) expect_close(results[i].tensor(), expected[i], tolerance);
    }
    std::vector<Tensor> dense;
    for (const Datum& result : results) dense.push_back(result.is_tensor() ? result.tensor() : Tensor());
    expect_rows_apart(*kernel, attributes, pointers, dense);
  };
  auto run = [&] { run_by(prepared); };
  run();
  run();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!kernel->has_packed(i)) continue;
    ASSERT_TRUE(constants.contain(i)) << "input " << i << " is released, which runs may need";
    data[i] = Tensor::view(inputs[i].dtype(), inputs[i].shape(), nullptr, nullptr);
    kernel_data.inputs[i].constant = data[i].tensor();
  }
  run();
  with_threads(thread_count() > 1 ? 1 : 2, run);  // a primitive is made for a number of threads

  // The data alone says all: a copy, as from a file, makes the same kernel.
  kernels::KernelData copied = kernel_data;
  for (kernels::PackedConstant& packed : copied.packed) packed.elements = packed.elements.clone();
  std::unique_ptr<kernels::PreparedKernel> loaded;
  for (const kernels::PreparedRegistry* other : kernels::prepared_kernels()) {
    if (!loaded) loaded = other->load(copied);
  }
  ASSERT_TRUE(loaded);
  EXPECT_EQ(copied.packed.size(), kernel_data.packed.size()) << "what is packed is packed again";
  EXPECT_EQ(copied.workspace_bytes, kernel_data.workspace_bytes);
  kernels::PreparedRun again(*loaded);
  run_by(again);
}

}  // namespace anfora

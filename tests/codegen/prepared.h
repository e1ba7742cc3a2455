// Kernels of generated code, made of constant weights, beside the reference kernel.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/generated_kernels.h"
#include "kernels/generated/registry.h"
#include "prepare_kernel.h"

namespace anfora::codegen {

// A generated kernel of an operator: inputs 1, 4 and 5 are known, as weights, their scales and zero points are.
struct Prepared {
  Prepared(std::string_view op, const AttributeSet& attributes, std::vector<Tensor> given, std::string_view implementation = "", bool has_open_rows = false)
      : inputs(std::move(given)), data{std::string(op), attributes, {}, 1} {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool is_present = inputs[i].defined();
      data.inputs.push_back({.present = is_present,
                             .dtype = is_present ? inputs[i].dtype() : DType::Undefined,
                             .shape = is_present ? std::optional(inputs[i].shape()) : std::nullopt,
                             .constant = i == 1 || i == 4 || i == 5 ? inputs[i] : Tensor()});
      datums.push_back(is_present ? Datum(inputs[i]) : Datum());
    }
    if (has_open_rows) data.inputs[0].shape->front() = -1;
    kernel = implementation.empty() ? generating_kernels().prepare(data) : generating_kernels().prepare_as(data, implementation);
  }

  std::vector<const Datum*> pointers() const {
    std::vector<const Datum*> pointers;
    for (const Datum& datum : datums) pointers.push_back(&datum);
    return pointers;
  }
  Tensor run(const kernels::PreparedKernel& of) const {
    Datum result;
    kernels::PreparedRun(of).run(data.attributes, pointers(), {&result, 1});
    return result.tensor();
  }

  std::vector<Tensor> inputs;
  std::vector<Datum> datums;
  kernels::KernelData data;
  std::unique_ptr<kernels::PreparedKernel> kernel;
};

// By any number of threads, where rows lie apart, and from the data alone.
inline void expect_the_same_again(const Prepared& prepared, const Tensor& result) {
  for (int threads : {1, 2, 3, 7, 16})
    with_threads(threads, [&] { EXPECT_TRUE(Tensor::identical(prepared.run(*prepared.kernel), result)) << threads; });
  expect_rows_apart(*prepared.kernel, prepared.data.attributes, prepared.pointers(), {&result, 1});
  prepared.kernel->complete();
  kernels::KernelData copied = prepared.data;
  for (size_t i = 0; i < copied.inputs.size(); ++i) {
    Tensor& constant = copied.inputs[i].constant;
    if (prepared.kernel->has_packed(i)) constant = Tensor::view(constant.dtype(), constant.shape(), nullptr, nullptr);
  }
  for (kernels::PackedConstant& packed : copied.packed) packed.elements = packed.elements.clone();
  const auto loaded = kernels::generated::generated_kernels().load(copied);
  ASSERT_TRUE(loaded);
  EXPECT_TRUE(Tensor::identical(prepared.run(*loaded), result));
}

}  // namespace anfora::codegen

// Runs one reference kernel in a test.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/kernel.h"
#include "support/element_types.h"

namespace anfora {

// An undefined tensor stands for an omitted input.
inline std::vector<Tensor> run_kernel(std::string_view op, const AttributeSet& attributes,
                                      const std::vector<Tensor>& inputs, size_t outputs = 1) {
  std::vector<Datum> data, results(outputs);
  for (const Tensor& input : inputs) data.push_back(input.defined() ? Datum(input) : Datum());
  std::vector<const Datum*> pointers;
  for (const Datum& datum : data) pointers.push_back(&datum);
  kernels::KernelFunction kernel = kernels::reference_kernels().find(op);
  if (!kernel) throw Error(ErrorCode::NotFound, "no kernel named " + std::string(op));
  kernels::KernelContext context(attributes, pointers, results);
  kernel(context);
  std::vector<Tensor> tensors;
  for (const Datum& result : results) tensors.push_back(result.is_tensor() ? result.tensor() : Tensor());
  return tensors;
}

template <class T>
Tensor make_tensor(std::vector<int64_t> shape, std::vector<T> values) {
  return Tensor::from<T>(shape, std::span<const T>(values));
}

template <class T>
std::vector<T> values_of(const Tensor& tensor) {
  auto data = tensor.data<T>();
  return {data.begin(), data.end()};
}

}  // namespace anfora

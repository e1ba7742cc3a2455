// How an operator is computed by functions of your own. What an operator is: operator.h.
//
//     anfora::register_kernel("my::ScaledAdd", [](anfora::KernelCall& call) {
//       const anfora::Tensor &x = call.input(0), &y = call.input(1);
//       std::span<float> sum = call.output(0, x.dtype(), x.shape()).data<float>();
//       for (size_t i = 0; i < sum.size(); ++i) sum[i] = x.data<float>()[i] + call.number("scale") * y.data<float>()[i];
//     });
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "anfora/error.h"
#include "anfora/tensor.h"

namespace anfora::kernels {
class KernelContext;
struct CallersKernel;
}  // namespace anfora::kernels

namespace [[gnu::visibility("default")]] anfora {

// An attribute's default, which says its kind, too.
using AttributeDefault = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>>;

// One invocation of a kernel. What it refers to is there until the kernel returns.
class KernelCall {
 public:
  size_t num_inputs() const;
  const Tensor& input(size_t i) const;  // throws InvalidArgument where there is none
  size_t num_outputs() const;
  // Memory for a result, not initialized. Every result is made once.
  Tensor& output(size_t i, DType dtype, std::span<const int64_t> shape);

  // Attributes, with their defaults. Throw InvalidArgument where there is none of that kind.
  int64_t integer(std::string_view attribute) const;
  float number(std::string_view attribute) const;
  std::string text(std::string_view attribute) const;
  std::vector<int64_t> integers(std::string_view attribute) const;
  std::vector<float> numbers(std::string_view attribute) const;
  AttributeDefault attribute(std::string_view attribute) const;

 private:
  friend struct kernels::CallersKernel;
  explicit KernelCall(kernels::KernelContext& context);
  template <class T>
  T get(std::string_view attribute) const;

  kernels::KernelContext& context_;
  std::vector<const Tensor*> outputs_;
};

using Kernel = std::function<void(KernelCall&)>;

// How an operator is computed: one of yours, or one of Anfora's, whose own kernels it is preferred to. Several threads may run it at once. The
// latest one holds for what is compiled from then on; after an empty one, Anfora's own do. A compiled model that has a kernel of yours
// has its name: register it again before Executable::load(). Throws NotFound where the compiler is there (libanfora) and has no such operator.
void register_kernel(std::string_view name, Kernel kernel);

}  // namespace anfora

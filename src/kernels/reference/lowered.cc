// The lowered operators, by what they stand for: transposes around the plain operator, then the
// addition and the activation that were fused into it.
//
//   LoweredConv, LoweredConvTranspose    X, W, B?, Z?       activation(Conv(X, W) + B + Z)
//   LoweredMatMul                        A, B, C?, Z?       activation(alpha A' B' + C + Z)'; perm_a, perm_b, perm_y
//   LoweredBatchNormalization            X, scale, B, mean, variance    activation(BatchNormalization(…)), in inference
//   LoweredMaxPool, LoweredAveragePool   X
//
// perm_a, perm_b, perm_y: a Transpose of that operand, of the result.
// With channels_last = 1 the tensors (not the weights) are [batch, spatial…, channels]. `activation` is the name of an
// operator, "GeluTanh" that of Gelu{approximate = tanh}; activation_alpha and activation_beta are its parameters.
#include <algorithm>
#include <numeric>

#include "kernels/reference/accumulate.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/families.h"
#include "kernels/reference/strided_copy.h"

namespace anfora::kernels {
namespace {

Tensor call(std::string_view op, const AttributeSet& attributes, std::initializer_list<Tensor> inputs) {
  std::vector<Datum> data;
  for (const Tensor& input : inputs) data.push_back(input.defined() ? Datum(input) : Datum());
  std::vector<const Datum*> pointers;
  for (const Datum& datum : data) pointers.push_back(&datum);
  std::vector<Datum> results(1);
  KernelContext context(attributes, pointers, results);
  reference_kernels().find(op)(context);
  return results[0].tensor();
}

Tensor permuted(const Tensor& tensor, std::span<const int> permutation) {
  Shape shape, strides, from = dense_strides(tensor.shape());
  for (int axis : permutation) {
    shape.push_back(tensor.dim(axis));
    strides.push_back(from[axis]);
  }
  Tensor result = Tensor::allocate(tensor.dtype(), shape);
  strided_copy(tensor.dtype(), shape, result.raw(), dense_strides(shape), tensor.raw(), strides);
  return result;
}

// Between [batch, spatial…, channels] and [batch, channels, spatial…].
Tensor to_channels_first(const Tensor& tensor) {
  std::vector<int> permutation(tensor.rank());
  std::iota(permutation.begin(), permutation.end(), 0);
  if (permutation.size() > 2) std::rotate(permutation.begin() + 1, permutation.end() - 1, permutation.end());
  return permuted(tensor, permutation);
}
Tensor to_channels_last(const Tensor& tensor) {
  std::vector<int> permutation(tensor.rank());
  std::iota(permutation.begin(), permutation.end(), 0);
  if (permutation.size() > 2) std::rotate(permutation.begin() + 1, permutation.begin() + 2, permutation.end());
  return permuted(tensor, permutation);
}

Tensor optional_input(const KernelContext& context, size_t i) {
  const Tensor* tensor = context.optional_input(i);
  return tensor ? *tensor : Tensor();
}

AttributeSet activation_attributes(const std::string& name, const AttributeSet& attributes) {
  AttributeSet result;
  if (attributes.has("activation_alpha")) result = result.with("alpha", attributes.get_float("activation_alpha", 0));
  if (attributes.has("activation_beta")) result = result.with("beta", attributes.get_float("activation_beta", 0));
  return name == "GeluTanh" ? result.with("approximate", std::string("tanh")) : result;
}

Tensor activated(const Tensor& x, const AttributeSet& attributes) {
  std::string name = attributes.get_string("activation", "");
  if (name.empty()) return x;
  if (name == "Clip") {
    auto bound = [&](const char* attribute) {
      if (!attributes.has(attribute)) return Tensor();
      return call("Cast", {{"to", static_cast<int64_t>(x.dtype())}},
                  {Tensor::scalar(attributes.get_float(attribute, 0))});
    };
    return call("Clip", {}, {x, bound("activation_alpha"), bound("activation_beta")});
  }
  std::string op = name == "GeluTanh" ? "Gelu" : name;
  if (!reference_kernels().find(op)) throw Error(ErrorCode::InvalidModel, "the activation '" + name + "' is unknown");
  return call(op, activation_attributes(name, attributes), {x});
}

Tensor with_epilogue(Tensor y, const KernelContext& context, size_t addend, bool channels_last) {
  if (channels_last) y = to_channels_last(y);
  if (const Tensor* z = context.optional_input(addend)) y = call("Add", {}, {y, *z});
  return activated(y, context.attributes());
}

// By the plain operator of the same name.
template <const char* const& Op>
void lowered_convolution(KernelContext& context) {
  bool channels_last = context.attributes().get_int("channels_last", 0) != 0;
  const Tensor& x = context.input(0);
  Tensor y = call(Op, context.attributes(),
                  {channels_last ? to_channels_first(x) : x, context.input(1), optional_input(context, 2)});
  context.set_output(0, with_epilogue(y, context, 3, channels_last));
}

template <const char* const& Op>
void lowered_pool(KernelContext& context) {
  bool channels_last = context.attributes().get_int("channels_last", 0) != 0;
  const Tensor& x = context.input(0);
  Tensor y = call(Op, context.attributes(), {channels_last ? to_channels_first(x) : x});
  context.set_output(0, channels_last ? to_channels_last(y) : y);
}

void lowered_batch_normalization(KernelContext& context) {
  bool channels_last = context.attributes().get_int("channels_last", 0) != 0;
  const Tensor& x = context.input(0);
  Tensor y = call("BatchNormalization", context.attributes(),
                  {channels_last ? to_channels_first(x) : x, context.input(1), context.input(2), context.input(3),
                   context.input(4)});
  context.set_output(0, activated(channels_last ? to_channels_last(y) : y, context.attributes()));
}

Tensor permuted_by(const Tensor& tensor, const AttributeSet& attributes, std::string_view name) {
  std::vector<int64_t> permutation = attributes.get_ints(name);
  return permutation.empty() ? tensor : call("Transpose", {{"perm", std::move(permutation)}}, {tensor});
}

void lowered_matmul(KernelContext& context) {
  const AttributeSet& attributes = context.attributes();
  Tensor a = permuted_by(context.input(0), attributes, "perm_a");
  Tensor b = permuted_by(context.input(1), attributes, "perm_b");
  Tensor y = call("MatMul", {}, {a, b});
  if (float alpha = attributes.get_float("alpha", 1); alpha != 1) {
    Tensor factor = call("Cast", {{"to", static_cast<int64_t>(y.dtype())}}, {Tensor::scalar(alpha)});
    y = call("Mul", {}, {y, factor});
  }
  if (const Tensor* c = context.optional_input(2)) y = call("Add", {}, {y, *c});
  context.set_output(0, permuted_by(with_epilogue(y, context, 3, false), attributes, "perm_y"));
}

constexpr const char* kConv = "Conv";
constexpr const char* kConvTranspose = "ConvTranspose";
constexpr const char* kMaxPool = "MaxPool";
constexpr const char* kAveragePool = "AveragePool";

}  // namespace

void register_lowered(KernelRegistry& registry) {
  registry.add("LoweredConv", lowered_convolution<kConv>);
  registry.add("LoweredConvTranspose", lowered_convolution<kConvTranspose>);
  registry.add("LoweredBatchNormalization", lowered_batch_normalization);
  registry.add("LoweredMatMul", lowered_matmul);
  registry.add("LoweredMaxPool", lowered_pool<kMaxPool>);
  registry.add("LoweredAveragePool", lowered_pool<kAveragePool>);
}

}  // namespace anfora::kernels

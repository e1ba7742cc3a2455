// The lowered operators, by what they stand for: transposes around the plain operator, then the
// addition and the activation that were fused into it.
//
//   LoweredConv, LoweredConvTranspose    X, W, B?, Z?       activation(Conv(X, W) + B + Z)
//   LoweredMatMul                        A, B, C?, Z?       activation(alpha A' B' + C + Z)'; perm_a, perm_b, perm_y
//   LoweredMatMulDequantized             A, B, C?, Z?, scales, zero_points?      the same, where B is dequantized first
//   LoweredMatMulInteger                 A, B, C?, Z?, a_zero_point?, b_zero_point?, scale?, y_scale?, y_zero_point?, R?, R_zero_point?, y_factor?,
//                                        R_factor?, sum_zero_point?
//                                        activation(scale · MatMulInteger(A, B, …) + C + Z), or that quantized, or with R its sum with that, quantized
//                                        again; without a scale, the product
//   LoweredConvInteger                   X, W, and the same
//   LoweredExpansionDepthwise            X, W, B?, Z?, E, F?            activation(Conv(expansion_activation(Conv(X, E) + F), W) + B + Z)
//   LoweredPointwise                     X, W, B?, Z?, S?, T?, more X…      activation(Conv(input_activation(Concat(X, …) · S + T), W) + B + Z)
//   LoweredBatchNormalization            X, scale, B, mean, variance    activation(BatchNormalization(…)), in inference
//   LoweredMaxPool, LoweredAveragePool   X
//
// perm_a, perm_b, perm_y: a Transpose of that operand, of the result.
// With channels_last = 1 the tensors (not the weights) are [batch, spatial…, channels]. `activation` is the name of an
// operator, "GeluTanh" that of Gelu{approximate = tanh}; activation_alpha and activation_beta are its parameters.
#include <array>
#include <memory>
#include <numeric>

#include "kernels/reference/accumulate.h"
#include "kernels/reference/arguments.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/cast.h"
#include "kernels/reference/families.h"
#include "kernels/reference/prepared.h"
#include "kernels/reference/strided_copy.h"
#include "support/file_memory.h"

namespace anfora::kernels {
namespace {

// A plain operator that a lowered one consists of. Its results lie in blocks.
class Part {
 public:
  explicit Part(std::string_view op, AttributeSet attributes = {})
      : kernel_(reference_kernels().find(op)), attributes_(std::move(attributes)) {
    if (!kernel_) throw Error(ErrorCode::InvalidModel, "the activation '" + std::string(op) + "' is unknown");
  }

  Tensor operator()(KernelContext& context, std::initializer_list<Tensor> inputs) const {
    constexpr size_t kMostInputs = 5;
    std::array<Datum, kMostInputs> data;
    std::array<const Datum*, kMostInputs> pointers{};
    size_t count = 0;
    for (const Tensor& input : inputs) {
      if (input.defined()) data[count] = Datum(input);
      pointers[count] = &data[count];
      ++count;
    }
    Datum result;
    KernelContext inner = context.inner(attributes_, std::span(pointers).first(count), {&result, 1});
    kernel_(inner);
    return result.tensor();
  }

 private:
  KernelFunction kernel_;
  AttributeSet attributes_;
};

Tensor permuted(KernelContext& context, const Tensor& tensor, std::span<const int64_t> permutation) {
  if (std::ssize(permutation) != tensor.rank()) refuse("an operand of shape {}, expected rank {}", to_string(tensor.shape()), permutation.size());
  Shape shape, strides, from = dense_strides(tensor.shape());
  for (int64_t axis : permutation) {
    shape.push_back(tensor.dim(static_cast<int>(axis)));
    strides.push_back(from[axis]);
  }
  Datum result;
  KernelContext inner = context.inner(context.attributes(), {}, {&result, 1});
  Tensor& to = inner.allocate_output(0, tensor.dtype(), shape);
  strided_copy(tensor.dtype(), shape, to.raw(), dense_strides(shape), tensor.raw(), strides);
  return to;
}

// From [batch, spatial…, channels] to [batch, channels, spatial…].
Tensor to_channels_first(KernelContext& context, const Tensor& tensor) {
  Shape permutation(tensor.rank());
  std::iota(permutation.begin(), permutation.end(), 0);
  if (permutation.size() > 2) std::rotate(permutation.begin() + 1, permutation.end() - 1, permutation.end());
  return permuted(context, tensor, permutation);
}
Tensor to_channels_last(KernelContext& context, const Tensor& tensor) {
  Shape permutation(tensor.rank());
  std::iota(permutation.begin(), permutation.end(), 0);
  if (permutation.size() > 2) std::rotate(permutation.begin() + 1, permutation.begin() + 2, permutation.end());
  return permuted(context, tensor, permutation);
}

Tensor optional_input(const KernelContext& context, size_t i) {
  const Tensor* tensor = context.optional_input(i);
  return tensor ? *tensor : Tensor();
}

class FusedActivation {
 public:
  explicit FusedActivation(const AttributeSet& attributes, const std::string& attribute = "activation") {
    const std::string_view name = attributes.string(attribute, "");
    if (name.empty()) return;
    AttributeSet own;
    auto take = [&](const std::string& from, const char* to, Tensor& bound) {
      if (!attributes.has(from)) return;
      const float number = attributes.get_float(from, 0);
      if (name == "Clip")
        bound = Tensor::scalar(number);
      else
        own = own.with(to, number);
    };
    take(attribute + "_alpha", "alpha", low_);
    take(attribute + "_beta", "beta", high_);
    if (name == "GeluTanh") own = own.with("approximate", std::string("tanh"));
    part_.emplace(name == "GeluTanh" ? "Gelu" : name, std::move(own));
  }

  Tensor operator()(KernelContext& context, const Tensor& x) const {
    if (!part_) return x;
    if (!low_.defined() && !high_.defined()) return (*part_)(context, {x});
    auto bound = [&](const Tensor& number) {
      return number.defined() ? cast_tensor(context, number, x.dtype()) : number;
    };
    return (*part_)(context, {x, bound(low_), bound(high_)});
  }

 private:
  std::optional<Part> part_;
  Tensor low_, high_;  // of Clip
};

// What the epilogue adds and applies to y.
class Epilogue {
 public:
  explicit Epilogue(const AttributeSet& attributes) : activation_(attributes) {}

  Tensor operator()(KernelContext& context, Tensor y, size_t addend) const {
    if (const Tensor* z = context.optional_input(addend)) y = add_(context, {y, *z});
    return activation_(context, y);
  }

 private:
  Part add_{"Add"};
  FusedActivation activation_;
};

bool is_channels_last(const AttributeSet& attributes) { return attributes.get_int("channels_last", 0) != 0; }

// A convolution, by the plain operator of the same name, which ignores what only the lowered one has.
template <const char* const& Op>
class LoweredConvolution {
 public:
  explicit LoweredConvolution(const AttributeSet& attributes)
      : channels_last_(is_channels_last(attributes)), plain_(Op, attributes), epilogue_(attributes) {}

  void run(KernelContext& context) const {
    const Tensor& x = context.input(0);
    Tensor y = plain_(
        context, {channels_last_ ? to_channels_first(context, x) : x, context.input(1), optional_input(context, 2)});
    if (channels_last_) y = to_channels_last(context, y);
    context.set_output(0, epilogue_(context, std::move(y), 3));
  }

 private:
  bool channels_last_;
  Part plain_;
  Epilogue epilogue_;
};

// Two convolutions.
class LoweredExpansionDepthwise {
 public:
  explicit LoweredExpansionDepthwise(const AttributeSet& attributes)
      : depthwise_("Conv", attributes), expansion_activation_(attributes, "expansion_activation"), epilogue_(attributes) {}

  void run(KernelContext& context) const {
    Tensor x = to_channels_first(context, context.input(0));
    x = expansion_activation_(context, expansion_(context, {x, context.input(4), optional_input(context, 5)}));
    Tensor y = depthwise_(context, {x, context.input(1), optional_input(context, 2)});
    context.set_output(0, epilogue_(context, to_channels_last(context, y), 3));
  }

 private:
  Part expansion_{"Conv"}, depthwise_;
  FusedActivation expansion_activation_;
  Epilogue epilogue_;
};

// A convolution of what is joined, scaled, shifted and activated.
class LoweredPointwise {
 public:
  explicit LoweredPointwise(const AttributeSet& attributes) : input_activation_(attributes, "input_activation"), epilogue_(attributes) {}

  void run(KernelContext& context) const {
    constexpr size_t kScale = 4, kShift = 5, kMore = 6;
    Tensor x = context.input(0);
    for (size_t i = kMore; i < context.num_inputs(); ++i) x = concat_(context, {x, context.input(i)});
    if (const Tensor* scale = context.optional_input(kScale)) x = multiply_(context, {x, *scale});
    if (const Tensor* shift = context.optional_input(kShift)) x = add_(context, {x, *shift});
    x = to_channels_first(context, input_activation_(context, x));
    Tensor y = convolution_(context, {x, context.input(1), optional_input(context, 2)});
    context.set_output(0, epilogue_(context, to_channels_last(context, y), 3));
  }

 private:
  Part concat_{"Concat", AttributeSet().with("axis", int64_t{-1})}, multiply_{"Mul"}, add_{"Add"}, convolution_{"Conv"};
  FusedActivation input_activation_;
  Epilogue epilogue_;
};

template <const char* const& Op>
class LoweredPool {
 public:
  explicit LoweredPool(const AttributeSet& attributes)
      : channels_last_(is_channels_last(attributes)), plain_(Op, attributes) {}

  void run(KernelContext& context) const {
    const Tensor& x = context.input(0);
    Tensor y = plain_(context, {channels_last_ ? to_channels_first(context, x) : x});
    context.set_output(0, channels_last_ ? to_channels_last(context, y) : y);
  }

 private:
  bool channels_last_;
  Part plain_;
};

class LoweredBatchNormalization {
 public:
  explicit LoweredBatchNormalization(const AttributeSet& attributes)
      : channels_last_(is_channels_last(attributes)),
        plain_("BatchNormalization", attributes),
        activation_(attributes) {}

  void run(KernelContext& context) const {
    const Tensor& x = context.input(0);
    Tensor y = plain_(context, {channels_last_ ? to_channels_first(context, x) : x, context.input(1), context.input(2),
                                context.input(3), context.input(4)});
    context.set_output(0, activation_(context, channels_last_ ? to_channels_last(context, y) : y));
  }

 private:
  bool channels_last_;
  Part plain_;
  FusedActivation activation_;
};

class LoweredMatMul {
 public:
  explicit LoweredMatMul(const AttributeSet& attributes)
      : perm_a_(attributes.get_ints("perm_a")),
        perm_b_(attributes.get_ints("perm_b")),
        perm_y_(attributes.get_ints("perm_y")),
        epilogue_(attributes) {
    if (const float alpha = attributes.get_float("alpha", 1); alpha != 1) factor_ = Tensor::scalar(alpha);
  }

  void run(KernelContext& context) const { run(context, cast_tensor(context, context.input(1), context.input(0).dtype())); }

  // With that in place of B.
  void run(KernelContext& context, const Tensor& b) const {
    Tensor y = product_(context, {in_order(context, context.input(0), perm_a_), in_order(context, b, perm_b_)});
    if (factor_.defined()) y = multiply_(context, {y, cast_tensor(context, factor_, y.dtype())});
    if (const Tensor* c = context.optional_input(2)) y = add_(context, {y, *c});
    context.set_output(0, in_order(context, epilogue_(context, std::move(y), 3), perm_y_));
  }

 private:
  static Tensor in_order(KernelContext& context, const Tensor& tensor, const std::vector<int64_t>& permutation) {
    return permutation.empty() ? tensor : permuted(context, tensor, permutation);
  }

  std::vector<int64_t> perm_a_, perm_b_, perm_y_;
  Tensor factor_;  // undefined: 1
  Part product_{"MatMul"}, multiply_{"Mul"}, add_{"Add"};
  Epilogue epilogue_;
};

class LoweredMatMulDequantized {
 public:
  explicit LoweredMatMulDequantized(const AttributeSet& attributes) : dequantize_("DequantizeLinear", attributes), product_(attributes) {}

  void run(KernelContext& context) const {
    product_.run(context, dequantize_(context, {context.input(1), context.input(4), optional_input(context, 5)}));
  }

 private:
  Part dequantize_;
  LoweredMatMul product_;
};

// A product or a convolution of integers.
template <const char* const& Op>
class LoweredInteger {
 public:
  explicit LoweredInteger(const AttributeSet& attributes)
      : channels_last_(is_channels_last(attributes)), product_(Op, attributes), epilogue_(attributes) {}

  void run(KernelContext& context) const {
    const Tensor& x = context.input(0);
    Tensor y = product_(context, {channels_last_ ? to_channels_first(context, x) : x, context.input(1),
                                  optional_input(context, 4), optional_input(context, 5)});
    if (channels_last_) y = to_channels_last(context, y);
    if (const Tensor* scale = context.optional_input(6)) {
      y = multiply_(context, {cast_tensor(context, y, DType::F32), *scale});
      if (const Tensor* c = context.optional_input(2)) y = add_(context, {y, *c});
      y = epilogue_(context, std::move(y), 3);
    }
    if (const Tensor* scale = context.optional_input(7)) y = quantize_(context, {y, *scale, optional_input(context, 8)});
    if (const Tensor* residual = context.optional_input(9)) {
      y = dequantize_(context, {y, context.input(11), optional_input(context, 8)});
      y = add_(context, {y, dequantize_(context, {*residual, context.input(12), optional_input(context, 10)})});
      y = quantize_(context, {y, Tensor::scalar(1.0f), optional_input(context, 13)});
    }
    context.set_output(0, std::move(y));
  }

 private:
  bool channels_last_;
  Part product_, multiply_{"Mul"}, add_{"Add"}, quantize_{"QuantizeLinear"}, dequantize_{"DequantizeLinear"};
  Epilogue epilogue_;
};

constexpr const char* kMatMulInteger = "MatMulInteger";
constexpr const char* kConvInteger = "ConvInteger";
constexpr const char* kConv = "Conv";
constexpr const char* kConvTranspose = "ConvTranspose";
constexpr const char* kMaxPool = "MaxPool";
constexpr const char* kAveragePool = "AveragePool";

// Calls add(name, type) for every lowered operator.
template <class Add>
void for_each_lowered(const Add& add) {
  add("LoweredConv", std::type_identity<LoweredConvolution<kConv>>());
  add("LoweredConvTranspose", std::type_identity<LoweredConvolution<kConvTranspose>>());
  add("LoweredBatchNormalization", std::type_identity<LoweredBatchNormalization>());
  add("LoweredExpansionDepthwise", std::type_identity<LoweredExpansionDepthwise>());
  add("LoweredPointwise", std::type_identity<LoweredPointwise>());
  add("LoweredMatMul", std::type_identity<LoweredMatMul>());
  add("LoweredMatMulDequantized", std::type_identity<LoweredMatMulDequantized>());
  add("LoweredMatMulInteger", std::type_identity<LoweredInteger<kMatMulInteger>>());
  add("LoweredConvInteger", std::type_identity<LoweredInteger<kConvInteger>>());
  add("LoweredMaxPool", std::type_identity<LoweredPool<kMaxPool>>());
  add("LoweredAveragePool", std::type_identity<LoweredPool<kAveragePool>>());
}

void offload(KernelContext& context) {
  const Tensor& x = context.input(0);
  std::shared_ptr<void> memory = copy_into_file({static_cast<const std::byte*>(x.raw()), x.bytes()});
  void* const data = memory.get();
  context.set_output(0, Tensor::view(x.dtype(), x.shape(), data, std::move(memory)));
}

}  // namespace

void register_lowered(KernelRegistry& registry) {
  registry.add("Offload", offload);
  for_each_lowered(
      [&]<class Lowered>(std::string_view op, std::type_identity<Lowered>) { registry.add(op, run_operation<Lowered>); });
}

void prepare_lowered(PreparedRegistry& registry) {
  for_each_lowered([&]<class Lowered>(std::string_view op, std::type_identity<Lowered>) {
    registry.add(op, "parts", prepare_operation<Lowered>);
  });
}

}  // namespace anfora::kernels

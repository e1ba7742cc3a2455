// Quantization: to and from small integers and floats with a scale and a zero point, and the products of quantized
// tensors.
//
// The scale belongs to the whole tensor, to an index of one axis, or to a block of `block_size` indices of it. Around
// the axis the tensor is [outer, length, inner]; in each case it falls into runs of contiguous elements along which
// the scale either stays or walks along contiguously:
//
//   whole tensor                one run, the scale stays
//   axis,  inner > 1            runs of `inner`, the scale stays        inner = 1    runs of `length`, it walks
//   block, inner > 1            runs of `inner`, the scale walks        inner = 1    runs of a block, it stays
//
// Everything is computed in float, a block at a time; integers of up to 16 bits are exact in it.
//
// Products take the shifted operands, x − zero point, as i32 to the kernels of MatMul and Conv.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/reference/arguments.h"
#include "kernels/reference/axis.h"
#include "kernels/reference/cast.h"
#include "kernels/reference/elementwise.h"
#include "kernels/reference/families.h"
#include "kernels/reference/float_block.h"
#include "kernels/reference/fold.h"
#include "support/parallel.h"

namespace anfora::kernels {
namespace {

// ---- which scale belongs to which element ----

class Granularity {
 public:
  Granularity(const Tensor& x, const Tensor& scale, const Tensor* zero_point, const AttributeSet& attributes)
      : view_(Shape{x.size()}, 0) {
    if (zero_point && zero_point->size() != scale.size()) {
      refuse("the scale has shape {}, the zero point {}", to_string(scale.shape()), to_string(zero_point->shape()));
    }
    const int64_t block = attributes.get_int("block_size", 0);
    if (block < 0) refuse("block_size is {}", block);
    whole_ = block == 0 && scale.size() == 1;
    if (whole_) return;
    const int axis = x.rank() == 1 ? 0 : normalize_axis(attributes.get_int("axis", 1), x.rank());
    view_ = AxisView(x.shape(), axis);
    block_ = block;
    if (block == 0) {
      if (scale.rank() != 1 || scale.size() != view_.length) {
        refuse("the scale has shape {} for an axis of {}", to_string(scale.shape()), view_.length);
      }
      return;
    }
    Shape expected = x.shape();
    expected[axis] = blocks();
    if (scale.shape() != expected) {
      refuse("the scale has shape {}, blocks of {} ask for {}", to_string(scale.shape()), block, to_string(expected));
    }
  }

  // body(x offset, scale offset, stride of the scale, count) for every run, in parallel.
  template <class Body>
  void for_each_run(Body&& body) const {
    if (whole_) {
      parallel_for(view_.length, kElementwiseGrain,
                   [&](int64_t begin, int64_t end) { body(begin, int64_t{0}, int64_t{0}, end - begin); });
      return;
    }
    if (view_.inner == 1) {
      parallel_for(view_.outer, kElementwiseGrain / std::max<int64_t>(view_.length, 1),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t o = begin; o < end; ++o) run_of_vector(o, body);
                   });
      return;
    }
    parallel_for(view_.outer * view_.length, kElementwiseGrain / std::max<int64_t>(view_.inner, 1),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t row = begin; row < end; ++row) {
                     const int64_t o = row / view_.length, k = row % view_.length;
                     if (block_ == 0)
                       body(row * view_.inner, k, int64_t{0}, view_.inner);
                     else
                       body(row * view_.inner, (o * blocks() + k / block_) * view_.inner, int64_t{1}, view_.inner);
                   }
                 });
  }

 private:
  int64_t blocks() const { return (view_.length + block_ - 1) / block_; }

  template <class Body>
  void run_of_vector(int64_t o, Body& body) const {
    if (block_ == 0) return body(o * view_.length, int64_t{0}, int64_t{1}, view_.length);
    for (int64_t b = 0; b < blocks(); ++b) {
      const int64_t at = b * block_;
      body(o * view_.length + at, o * blocks() + b, int64_t{0}, std::min(block_, view_.length - at));
    }
  }

  AxisView view_;
  int64_t block_ = 0;
  bool whole_ = false;
};

const std::byte* at(const Tensor& tensor, int64_t index) {
  return static_cast<const std::byte*>(tensor.raw()) + static_cast<size_t>(index) * element_bytes(tensor.dtype());
}
std::byte* at(Tensor& tensor, int64_t index) {
  return static_cast<std::byte*>(tensor.raw()) + static_cast<size_t>(index) * element_bytes(tensor.dtype());
}

// ONNX's 0 stands for "not given".
DType optional_dtype(const AttributeSet& attributes, std::string_view attribute) {
  const bool given = attributes.get_int(attribute, 0) != 0;
  return given ? dtype_attribute(attributes, attribute, DType::Undefined) : DType::Undefined;
}

Tensor floats_or_empty(KernelContext& context, const Tensor* tensor) { return tensor ? cast_tensor(context, *tensor, DType::F32) : Tensor(); }

// ---- to quantized ----

struct Limits {
  float low, high;
};

Limits limits_of(DType dtype) {
  const int bits = element_bits(dtype) - is_signed_integer(dtype);
  return {is_signed_integer(dtype) ? -std::ldexp(1.0f, bits) : 0.0f, std::ldexp(1.0f, bits) - 1};
}

// saturate(round(quotient) + zero point); NaN becomes the lowest.
template <class Int, bool kHasOneZero>
void store_quantized(const float* quotients, const float* zeros, Limits limits, Int* y, int64_t n) {
  const float zero = zeros[0];
  ANFORA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) {
    float value = std::nearbyint(quotients[i]) + (kHasOneZero ? zero : zeros[i]);
    value = value >= limits.low ? value : limits.low;
    value = value <= limits.high ? value : limits.high;
    y[i] = static_cast<Int>(static_cast<int32_t>(value));
  }
}
template <class Int>
void store_quantized(const float* quotients, const float* zeros, int64_t stride, Limits limits, void* out, int64_t n) {
  const auto store = stride == 0 ? store_quantized<Int, true> : store_quantized<Int, false>;
  store(quotients, zeros, limits, static_cast<Int*>(out), n);
}

// The element types with the storage of `Int` have its loop, with limits of their own.
using Store = decltype(&store_quantized<int8_t>);
Store store_of(DType dtype) {
  switch (dtype) {
    case DType::I8:
    case DType::I4:
    case DType::I2: return store_quantized<int8_t>;
    case DType::U8:
    case DType::U4:
    case DType::U2: return store_quantized<uint8_t>;
    case DType::I16: return store_quantized<int16_t>;
    case DType::U16: return store_quantized<uint16_t>;
    default: throw_unsupported_dtype(dtype);
  }
}

// Quotients, already divided by the scale, to out's elements; `zeros` has one element for each, or one in all.
class Quantizer {
 public:
  Quantizer(DType dtype, bool saturate) : dtype_(dtype), saturate_(saturate) {
    if (is_float(dtype)) return;
    store_ = store_of(dtype);
    limits_ = limits_of(dtype);
  }
  void operator()(const float* quotients, const float* zeros, int64_t stride, void* out, int64_t n) const {
    if (store_) return store_(quotients, zeros, stride, limits_, out, n);
    float shifted[kFloatBlock];
    for (int64_t i = 0; i < n; ++i) shifted[i] = quotients[i] + zeros[i * stride];
    cast_elements(DType::F32, shifted, dtype_, out, n, {.saturate = saturate_});
  }

 private:
  DType dtype_;
  bool saturate_;
  Store store_ = nullptr;
  Limits limits_{};
};

void round_to(DType precision, float* values, int64_t n) {
  if (precision == DType::F32) return;
  uint16_t narrow[kFloatBlock];
  store_floats(precision, values, narrow, n);
  load_floats(precision, narrow, values, n);
}

// What x and the scale are rounded to before the division, and the quotient after it.
DType division_precision(const Tensor& x, const Tensor& scale, const AttributeSet& attributes) {
  const DType asked = optional_dtype(attributes, "precision");
  const DType precision = asked != DType::Undefined ? asked : scale.dtype();
  if (precision == DType::F16 || precision == DType::BF16 || precision == DType::F32) return precision;
  // A scale of powers of two, or of integers, has no arithmetic of its own.
  return x.dtype() == DType::F16 || x.dtype() == DType::BF16 ? x.dtype() : DType::F32;
}

void quantize_linear(KernelContext& context) {
  const Tensor &x = context.input(0), &y_scale = context.input(1);
  const Tensor* zero_point = context.optional_input(2);
  const AttributeSet& attributes = context.attributes();
  DType dtype = optional_dtype(attributes, "output_dtype");
  if (zero_point) dtype = zero_point->dtype();
  if (dtype == DType::Undefined) dtype = DType::U8;
  Tensor& out = context.allocate_output(0, dtype, x.shape());
  const Quantizer quantize(dtype, attributes.get_int("saturate", 1) != 0);
  const Granularity granularity(x, y_scale, zero_point, attributes);
  const DType precision = division_precision(x, y_scale, attributes);
  const Tensor scales = cast_tensor(context, y_scale, DType::F32), zeros = floats_or_empty(context, zero_point);
  const float no_zero = 0;
  granularity.for_each_run([&](int64_t x_at, int64_t scale_at, int64_t stride, int64_t count) {
    alignas(64) float block[kFloatBlock];
    for (int64_t done = 0; done < count; done += kFloatBlock) {
      const int64_t n = std::min(kFloatBlock, count - done);
      const float* scale = scales.data<float>().data() + scale_at + done * stride;
      const float* zero = zero_point ? zeros.data<float>().data() + scale_at + done * stride : &no_zero;
      cast_elements(x.dtype(), at(x, x_at + done), DType::F32, block, n);
      round_to(precision, block, n);
      if (stride == 0) {
        const float divisor = *scale;
        for (int64_t i = 0; i < n; ++i) block[i] /= divisor;
      } else {
        ANFORA_INDEPENDENT_ITERATIONS
        for (int64_t i = 0; i < n; ++i) block[i] /= scale[i];
      }
      round_to(precision, block, n);
      quantize(block, zero, zero_point ? stride : 0, at(out, x_at + done), n);
    }
  });
}

// ---- from quantized ----

void dequantize_linear(KernelContext& context) {
  const Tensor &x = context.input(0), &x_scale = context.input(1);
  const Tensor* zero_point = context.optional_input(2);
  const DType asked = optional_dtype(context.attributes(), "output_dtype");
  Tensor& out = context.allocate_output(0, asked == DType::Undefined ? x_scale.dtype() : asked, x.shape());
  const Granularity granularity(x, x_scale, zero_point, context.attributes());
  const Tensor scales = cast_tensor(context, x_scale, DType::F32), zeros = floats_or_empty(context, zero_point);
  granularity.for_each_run([&](int64_t x_at, int64_t scale_at, int64_t stride, int64_t count) {
    alignas(64) float block[kFloatBlock];
    for (int64_t done = 0; done < count; done += kFloatBlock) {
      const int64_t n = std::min(kFloatBlock, count - done);
      const float* scale = scales.data<float>().data() + scale_at + done * stride;
      const float* zero = zero_point ? zeros.data<float>().data() + scale_at + done * stride : nullptr;
      cast_elements(x.dtype(), at(x, x_at + done), DType::F32, block, n);
      if (stride == 0) {
        const float shift = zero ? *zero : 0.0f, factor = *scale;
        for (int64_t i = 0; i < n; ++i) block[i] = (block[i] - shift) * factor;
      } else {
        for (int64_t i = 0; i < n; ++i) block[i] = (block[i] - (zero ? zero[i] : 0.0f)) * scale[i];
      }
      store_floats(out.dtype(), block, at(out, x_at + done), n);
    }
  });
}

constexpr float kLevels = 255;

struct DynamicScale {
  float scale, zero;
};

// Of the range of the elements and 0.
DynamicScale dynamic_scale(const Tensor& x) {
  const float* values = x.data<float>().data();
  constexpr int64_t kParts = 64, kLeast = 1 << 13;
  const int64_t parts = std::clamp(x.size() / kLeast, int64_t{1}, kParts), length = (x.size() + parts - 1) / parts;
  std::array<float, kParts> lowest{}, highest{};
  parallel_for(parts, grain_of(kElementwiseGrain, length), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * length, count = std::min(length, x.size() - first);
      if (count <= 0) continue;
      lowest[static_cast<size_t>(i)] = fold_row<float>(values + first, count, MinFold{});
      highest[static_cast<size_t>(i)] = fold_row<float>(values + first, count, MaxFold{});
    }
  });
  const float low = std::min(0.0f, fold_row<float>(lowest.data(), parts, MinFold{})), high = std::max(0.0f, fold_row<float>(highest.data(), parts, MaxFold{}));
  const float scale = (high == low ? 1.0f : high - low) / kLevels;
  const float zero = -low / scale;  // NaN where the scale vanishes, or is infinite as the range is
  return {scale, zero > 0 ? std::nearbyint(std::min(zero, kLevels)) : 0};
}

void set_dynamic_scale(KernelContext& context, size_t output, const DynamicScale& given) {
  context.allocate_output(output, DType::F32, {}).data<float>()[0] = given.scale;
  context.allocate_output(output + 1, DType::U8, {}).data<uint8_t>()[0] = static_cast<uint8_t>(given.zero);
}

void lowered_dynamic_scale(KernelContext& context) { set_dynamic_scale(context, 0, dynamic_scale(context.input(0))); }

void dynamic_quantize_linear(KernelContext& context) {
  const Tensor& x = context.input(0);
  const float* values = x.data<float>().data();
  const DynamicScale given = dynamic_scale(x);
  const float scale = given.scale, zero = given.zero;
  Tensor& out = context.allocate_output(0, DType::U8, x.shape());
  set_dynamic_scale(context, 1, given);
  uint8_t* quantized = out.data<uint8_t>().data();
  parallel_for(x.size(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    float block[kFloatBlock];
    for (int64_t done = begin; done < end; done += kFloatBlock) {
      const int64_t n = std::min(kFloatBlock, end - done);
      for (int64_t i = 0; i < n; ++i) block[i] = values[done + i] / scale;
      store_quantized<uint8_t>(block, &zero, 0, {0, kLevels}, quantized + done, n);
    }
  });
}

// ---- products ----

struct Subtraction {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a - b);
  }
};
struct Multiplication {
  template <class T>
  T operator()(T a, T b) const {
    return a * b;
  }
};
struct Over {
  template <class T>
  T operator()(T a, T b) const {
    return a / b;
  }
};

template <class Op>
Tensor combine_tensors(KernelContext& context, const Tensor& a, const Tensor& b) {
  Tensor out = context.temporary(a.dtype(), broadcast_shape(a.shape(), b.shape()));
  const Op op;
  BinaryRun run = dispatch<TypeList<float, uint32_t>>(as_unsigned(a.dtype()),
                                                      []<class T>() -> BinaryRun { return binary_loop<T, T, Op>; });
  run_binary(run, &op, a, b, out, kElementwiseGrain);
  return out;
}

// A scale or zero point under the shape in which it broadcasts: a vector goes along `axis` of a tensor of `rank`.
Tensor along(const Tensor& parameter, int axis, int rank) {
  if (parameter.size() == 1) return parameter.reshaped({});
  if (parameter.rank() != 1) return parameter;
  Shape shape(static_cast<size_t>(rank - axis), 1);
  shape[0] = parameter.size();
  return parameter.reshaped(shape);
}

// x − zero point: i32 for integers, f32 for floats. The zero point may go along `axis`.
Tensor shifted(KernelContext& context, const Tensor& x, const Tensor* zero_point, int axis) {
  const DType wide = is_float(x.dtype()) ? DType::F32 : DType::I32;
  Tensor values = cast_tensor(context, x, wide);
  if (!zero_point) return values;
  Tensor result = combine_tensors<Subtraction>(context, values, along(cast_tensor(context, *zero_point, wide), axis, x.rank()));
  if (result.shape() != x.shape()) {
    refuse("a zero point of shape {} for a tensor of shape {}", to_string(zero_point->shape()), to_string(x.shape()));
  }
  return result;
}

// The rows of a matrix product's left operand.
int row_axis(const Tensor& a) { return std::max(a.rank() - 2, 0); }

// Another operator's reference kernel, on tensors of our own; into `out` when it is given.
Tensor apply_kernel(KernelContext& context, std::string_view kernel, const AttributeSet& attributes,
                    std::initializer_list<Tensor> operands, const Tensor& out = {}) {
  boost::container::small_vector<Datum, 3> data;
  for (const Tensor& operand : operands) data.push_back(operand.defined() ? Datum(operand) : Datum());
  boost::container::small_vector<const Datum*, 3> inputs;
  for (const Datum& datum : data) inputs.push_back(&datum);
  Datum result;
  KernelContext inner = context.inner(attributes, inputs, {&result, 1}, out.defined() ? std::span(&out, 1) : std::span<const Tensor>());
  reference_kernels().find(kernel)(inner);
  return result.tensor();
}

// out = saturate(round(sums · multiplier) + zero point); the multiplier and the zero point broadcast.
void requantize(KernelContext& context, const Tensor& sums, const Tensor& multiplier, const Tensor& zero_point, Tensor& out) {
  const Tensor scaled = combine_tensors<Multiplication>(context, cast_tensor(context, sums, DType::F32), multiplier);
  const Tensor zeros = cast_tensor(context, zero_point, DType::F32);
  const Quantizer quantize(out.dtype(), true);
  const LoopNest nest = LoopNest::broadcast(out.shape(), {scaled.shape(), zeros.shape()});
  const float *x = scaled.data<float>().data(), *zero = zeros.data<float>().data();
  nest.for_each_run(kElementwiseGrain, [&](const int64_t* offsets, int64_t count) {
    for (int64_t done = 0; done < count; done += kFloatBlock) {
      const int64_t stride = nest.run_stride(2);
      quantize(x + offsets[1] + done, zero + offsets[2] + done * stride, stride, at(out, offsets[0] + done),
               std::min(kFloatBlock, count - done));
    }
  });
}

// The product of the operands' scales over the result's, each brought to its place among the result's dimensions.
Tensor multiplier(KernelContext& context, const Tensor& scale_a, const Tensor& scale_b, const Tensor& scale_y) {
  auto wide = [&](const Tensor& scale) { return cast_tensor(context, scale, DType::F32); };
  return combine_tensors<Over>(context, combine_tensors<Multiplication>(context, wide(scale_a), wide(scale_b)), wide(scale_y));
}

void matmul_integer(KernelContext& context) {
  const Tensor &a = context.input(0), &b = context.input(1);
  Tensor left = shifted(context, a, context.optional_input(2), row_axis(a));
  Tensor right = shifted(context, b, context.optional_input(3), std::max(b.rank() - 1, 0));
  const Tensor* planned = context.planned_output(0);
  context.set_output(0, apply_kernel(context, "MatMul", {}, {left, right}, planned ? *planned : Tensor()));
}

void qlinear_matmul(KernelContext& context) {
  const Tensor &a = context.input(0), &b = context.input(3);
  const Tensor &y_scale = context.input(6), &y_zero_point = context.input(7);
  const int rows = row_axis(a), columns = std::max(b.rank() - 1, 0);
  Tensor sums =
      apply_kernel(context, "MatMul", {}, {shifted(context, a, &context.input(2), rows), shifted(context, b, &context.input(5), columns)});
  Tensor scale = multiplier(context, along(context.input(1), rows, a.rank()), along(context.input(4), columns, b.rank()),
                            along(y_scale, std::max(sums.rank() - 1, 0), sums.rank()));
  Tensor zero = along(y_zero_point, std::max(sums.rank() - 1, 0), sums.rank());
  requantize(context, sums, scale, zero, context.allocate_output(0, y_zero_point.dtype(), sums.shape()));
}

void conv_integer(KernelContext& context) {
  const Tensor &x = context.input(0), &w = context.input(1);
  Tensor image = shifted(context, x, context.optional_input(2), 0), weights = shifted(context, w, context.optional_input(3), 0);
  const Tensor* planned = context.planned_output(0);
  context.set_output(0, apply_kernel(context, "Conv", context.attributes(), {image, weights}, planned ? *planned : Tensor()));
}

void qlinear_conv(KernelContext& context) {
  const Tensor &x = context.input(0), &w = context.input(3);
  const Tensor* bias = context.optional_input(8);
  Tensor image = shifted(context, x, &context.input(2), 0), weights = shifted(context, w, &context.input(5), 0);
  Tensor sums = apply_kernel(context, "Conv", context.attributes(), {image, weights, bias ? *bias : Tensor()});
  Tensor scale = multiplier(context, along(context.input(1), 1, sums.rank()), along(context.input(4), 1, sums.rank()),
                            along(context.input(6), 1, sums.rank()));
  const Tensor& y_zero_point = context.input(7);
  requantize(context, sums, scale, along(y_zero_point, 1, sums.rank()),
             context.allocate_output(0, y_zero_point.dtype(), sums.shape()));
}

}  // namespace

void register_quantization(KernelRegistry& registry) {
  registry.add("QuantizeLinear", quantize_linear);
  registry.add("DequantizeLinear", dequantize_linear);
  registry.add("DynamicQuantizeLinear", dynamic_quantize_linear);
  registry.add("LoweredDynamicScale", lowered_dynamic_scale);
  registry.add("MatMulInteger", matmul_integer);
  registry.add("QLinearMatMul", qlinear_matmul);
  registry.add("ConvInteger", conv_integer);
  registry.add("QLinearConv", qlinear_conv);
}

}  // namespace anfora::kernels

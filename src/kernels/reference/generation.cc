// Operators that make tensors from attributes and sizes alone.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/reference/arguments.h"
#include "kernels/reference/families.h"
#include "kernels/reference/strided_copy.h"
#include "kernels/reference/view.h"
#include "support/element_types.h"

namespace anfora::kernels {
namespace {

struct ToTensor {
  template <class T>
  Tensor operator()(const T& value) const {
    return Tensor::scalar<T>(value);
  }
  template <class T>
  Tensor operator()(const std::vector<T>& values) const {
    return Tensor::vector<T>(values);
  }
  Tensor operator()(const Tensor& value) const { return value; }
  Tensor operator()(const std::vector<Tensor>&) const { refuse("the value is a list of tensors"); }
};

void constant(KernelContext& context) {
  for (const auto& [name, value] : context.attributes()) {
    if (name.starts_with("value")) return forward_or_copy(context, 0, std::visit(ToTensor{}, value));
  }
  refuse("there is no value");
}

void constant_of_shape(KernelContext& context) {
  const IntegerList shape = integers(context.input(0));
  const Tensor* value = context.attributes().get_tensor("value");
  if (value && value->size() != 1) refuse("the value has shape {}, not one element", to_string(value->shape()));
  constexpr float kZero = 0;
  const DType dtype = value ? value->dtype() : DType::F32;
  Tensor& output = context.allocate_output(0, dtype, shape);
  dense_fill(dtype, output.size(), output.raw(), value ? value->raw() : &kZero);
}

// ceil((limit - start) / delta) for integers, without overflow.
template <class T>
int64_t count_steps(T start, T limit, T delta) {
  if ((delta > 0) != (start < limit) || start == limit) return 0;
  uint64_t low = static_cast<uint64_t>(static_cast<int64_t>(std::min(start, limit)));
  uint64_t high = static_cast<uint64_t>(static_cast<int64_t>(std::max(start, limit)));
  uint64_t step = delta > 0 ? static_cast<uint64_t>(delta) : uint64_t{0} - static_cast<uint64_t>(int64_t{delta});
  uint64_t count = (high - low - 1) / step + 1;
  if (count > (uint64_t{1} << 62)) refuse("a range from {} to {} is too long", start, limit);
  return static_cast<int64_t>(count);
}

template <class T>
int64_t count_real_steps(T start, T limit, T delta) {
  double steps = std::ceil(static_cast<double>(limit - start) / static_cast<double>(delta));
  if (std::isnan(steps) || steps > 0x1p62) refuse("a range from {} to {} by {} has no length", start, limit, delta);
  return std::max<int64_t>(0, static_cast<int64_t>(steps));
}

void range(KernelContext& context) {
  const Tensor& first = context.input(0);
  for (size_t i = 0; i < 3; ++i) {
    const Tensor& bound = context.input(i);
    if (bound.dtype() != first.dtype() || bound.size() != 1)
      refuse("start, limit and delta must be scalars of one type");
  }
  dispatch<Join<Floats, TypeList<int16_t, int32_t, int64_t>>>(first.dtype(), [&]<class T>() {
    using C = ComputeType<T>;
    C bounds[3];
    for (size_t i = 0; i < 3; ++i) bounds[i] = static_cast<C>(context.input(i).data<T>()[0]);
    auto [start, limit, delta] = bounds;
    if (delta == 0) refuse("the delta of a range is 0");
    int64_t count;
    if constexpr (std::is_integral_v<T>) {
      count = count_steps(start, limit, delta);
    } else {
      count = count_real_steps(start, limit, delta);
    }
    auto elements = context.allocate_output(0, first.dtype(), Shape{count}).template data<T>();
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (std::is_integral_v<T>) {  // the elements fit T; what they are computed by may not
        elements[i] =
            static_cast<T>(static_cast<uint64_t>(start) + static_cast<uint64_t>(i) * static_cast<uint64_t>(delta));
      } else {
        elements[i] = static_cast<T>(start + static_cast<C>(i) * delta);
      }
    }
  });
}

void eye_like(KernelContext& context) {
  const Tensor& like = context.input(0);
  if (like.rank() != 2) refuse("expected a matrix, got shape {}", to_string(like.shape()));
  DType dtype = dtype_attribute(context.attributes(), "dtype", like.dtype());
  const int64_t rows = like.dim(0), columns = like.dim(1);
  const int64_t diagonal = std::clamp(context.attributes().get_int("k", 0), -rows, columns);
  Tensor& output = context.allocate_output(0, dtype, like.shape());
  dispatch<Join<Numbers, TypeList<bool>>>(dtype, [&]<class T>() {
    auto elements = output.data<T>();
    std::ranges::fill(elements, T{});
    for (int64_t r = std::max<int64_t>(0, -diagonal); r < rows && r + diagonal < columns; ++r) {
      elements[r * columns + r + diagonal] = static_cast<T>(1);
    }
  });
}

// Cosine-sum windows: w(i) = a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n). Periodic ones are the first `size` points of
// the symmetric window of one point more; the symmetric window of a single point is 1.
struct WindowFunction {
  double a0, a1, a2;
};
constexpr WindowFunction kHann{0.5, 0.5, 0}, kHamming{25.0 / 46, 21.0 / 46, 0}, kBlackman{0.42, 0.5, 0.08};

template <const WindowFunction& W>
void window(KernelContext& context) {
  const int64_t size = integer(context.input(0));
  if (size < 0) refuse("the size of a window is {}", size);
  const DType dtype = dtype_attribute(context.attributes(), "output_datatype", DType::F32);
  const int64_t intervals = context.attributes().get_int("periodic", 1) != 0 ? size : size - 1;
  Tensor& output = context.allocate_output(0, dtype, Shape{size});
  dispatch<Numbers>(dtype, [&]<class T>() {
    auto elements = output.data<T>();
    for (int64_t i = 0; i < size; ++i) {
      double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(intervals);
      double value = intervals == 0 ? 1 : W.a0 - W.a1 * std::cos(angle) + W.a2 * std::cos(2 * angle);
      elements[i] = static_cast<T>(static_cast<ComputeType<T>>(value));
    }
  });
}

}  // namespace

void register_generation(KernelRegistry& registry) {
  registry.add("Constant", constant);
  registry.add("ConstantOfShape", constant_of_shape);
  registry.add("Range", range);
  registry.add("EyeLike", eye_like);
  registry.add("HannWindow", window<kHann>);
  registry.add("HammingWindow", window<kHamming>);
  registry.add("BlackmanWindow", window<kBlackman>);
}

}  // namespace anfora::kernels

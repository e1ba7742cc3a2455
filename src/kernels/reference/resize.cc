// Resize, one axis at a time: interpolation is separable, so that the weights of an axis are computed once and applied
// to all lines along it.
//
// What an output coordinate reads from is a list of taps (input index, weight):
//
//   nearest              one tap of weight 1: the whole operator is then one copy through an index table for each axis
//   linear, cubic        the 2 or 4 neighbours of the original coordinate
//   with antialias       the filter is stretched by 1 / scale when the axis shrinks, and has as many more taps
//
// Neighbours outside the axis stand for its edge elements, or are left out (exclude_outside). In the mode
// tf_crop_and_resize, coordinates outside of the axis have no taps at all: they give extrapolation_value.
//
// Scales and coordinates are computed in float, in this order of operations, since the choice of the nearest element
// depends on their rounding, and so do the runtimes that exporters check against.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/reference/arguments.h"
#include "kernels/reference/families.h"
#include "kernels/reference/strided_copy.h"
#include "kernels/reference/vectorize.h"
#include "support/element_types.h"
#include "support/parallel.h"

namespace anfora::kernels {
namespace {

enum class Transform { HalfPixel, HalfPixelSymmetric, PytorchHalfPixel, AlignCorners, Asymmetric, TfHalfPixel, Crop };
enum class Nearest { RoundPreferFloor, RoundPreferCeil, Floor, Ceil };

Transform transform_of(std::string_view name) {
  if (name == "half_pixel") return Transform::HalfPixel;
  if (name == "half_pixel_symmetric") return Transform::HalfPixelSymmetric;
  if (name == "pytorch_half_pixel") return Transform::PytorchHalfPixel;
  if (name == "align_corners") return Transform::AlignCorners;
  if (name == "asymmetric") return Transform::Asymmetric;
  if (name == "tf_half_pixel_for_nn") return Transform::TfHalfPixel;  // of operator set 11
  if (name == "tf_crop_and_resize") return Transform::Crop;
  refuse("coordinate_transformation_mode is '{}'", name);
}

Nearest nearest_of(std::string_view name) {
  if (name == "round_prefer_floor") return Nearest::RoundPreferFloor;
  if (name == "round_prefer_ceil") return Nearest::RoundPreferCeil;
  if (name == "floor") return Nearest::Floor;
  if (name == "ceil") return Nearest::Ceil;
  refuse("nearest_mode is '{}'", name);
}

struct ResizedAxis {
  int64_t input = 0, output = 0;
  float scale = 1;
  float roi_start = 0, roi_end = 1;
  bool is_identity(Transform transform) const {
    return input == output && scale == 1 && (transform != Transform::Crop || (roi_start == 0 && roi_end == 1));
  }
};

using ResizedAxes = boost::container::small_vector<ResizedAxis, 6>;

// The coordinate in the input of output element i.
float original_coordinate(const ResizedAxis& axis, Transform transform, int64_t i) {
  const float x = static_cast<float>(i), scale = axis.scale;
  const float input = static_cast<float>(axis.input), output = scale * input;  // fractional if the scale was given
  switch (transform) {
    case Transform::HalfPixel: return (x + 0.5f) / scale - 0.5f;
    case Transform::HalfPixelSymmetric: {
      const float offset = input / 2 * (1 - static_cast<float>(axis.output) / output);
      return offset + (x + 0.5f) / scale - 0.5f;
    }
    case Transform::PytorchHalfPixel: return axis.output > 1 ? (x + 0.5f) / scale - 0.5f : 0;
    case Transform::AlignCorners: return output == 1 ? 0 : x * (input - 1) / (output - 1);
    case Transform::Asymmetric: return x / scale;
    case Transform::TfHalfPixel: return (x + 0.5f) / scale;
    case Transform::Crop: {
      const float size = axis.roi_end - axis.roi_start;
      if (axis.output <= 1) return 0.5f * (axis.roi_start + axis.roi_end) * (input - 1);
      return axis.roi_start * (input - 1) + x * size * (input - 1) / static_cast<float>(axis.output - 1);
    }
  }
  return 0;
}

int64_t nearest_index(float x, Nearest mode, int64_t size) {
  float index = 0;
  switch (mode) {
    case Nearest::RoundPreferFloor: index = std::ceil(x - 0.5f); break;
    case Nearest::RoundPreferCeil: index = std::floor(x + 0.5f); break;
    case Nearest::Floor: index = std::floor(x); break;
    case Nearest::Ceil: index = std::ceil(x); break;
  }
  return static_cast<int64_t>(std::clamp(index, 0.0f, static_cast<float>(size - 1)));
}

struct Filter {
  bool cubic = false;
  float a = -0.75f;  // Keys' coefficient
  float weight(float distance) const {
    const float x = std::abs(distance);
    if (!cubic) return std::max(0.0f, 1 - x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
    return 0;
  }
  int reach() const { return cubic ? 2 : 1; }
};

// The taps of all outputs of an axis: tap t of output i is at t · outputs + i, so that a loop over the outputs becomes SIMD code. Those that
// an output has fewer of weigh 0.
struct Taps {
  int64_t most = 0;  // of an output
  std::span<int32_t> index;
  std::span<float> weight;
  std::span<bool> extrapolated;
};

Taps taps_of(KernelContext& context, const ResizedAxis& axis, Transform transform, const Filter& filter, bool antialias,
             bool exclude_outside) {
  if (axis.input > std::numeric_limits<int32_t>::max()) refuse("an axis of {} elements", axis.input);
  const float stretch = antialias ? std::min(axis.scale, 1.0f) : 1;
  const int64_t first = static_cast<int64_t>(std::floor(static_cast<float>(-filter.reach()) / stretch)) + 1;
  const auto outputs = static_cast<size_t>(axis.output), room = outputs * static_cast<size_t>(2 - 2 * first);
  Taps taps{0, context.workspace_of<int32_t>(room), context.workspace_of<float>(room), context.workspace_of<bool>(outputs)};
  std::ranges::fill(taps.index, 0);
  std::ranges::fill(taps.weight, 0.0f);
  for (int64_t i = 0; i < axis.output; ++i) {
    const float x = original_coordinate(axis, transform, i);
    const bool outside = transform == Transform::Crop && !(x >= 0 && x <= static_cast<float>(axis.input - 1));
    taps.extrapolated[i] = outside;
    if (outside) continue;
    const auto base =
        static_cast<int64_t>(std::ceil(x)) - 1;  // the neighbour before x, so that the ratio is in (0, 1]
    const float ratio = x - static_cast<float>(base);
    float sum = 0;
    int64_t count = 0;
    for (int64_t k = first; k <= 1 - first; ++k) {
      const float weight = filter.weight(stretch * (static_cast<float>(k) - ratio));
      const bool beyond = base + k < 0 || base + k >= axis.input;
      if (weight == 0 || (beyond && exclude_outside)) continue;
      const auto place = static_cast<size_t>(count++ * axis.output + i);
      taps.index[place] = static_cast<int32_t>(std::clamp<int64_t>(base + k, 0, axis.input - 1));
      taps.weight[place] = weight;
      sum += weight;
    }
    if ((antialias || exclude_outside) && sum != 0) {
      for (int64_t t = 0; t < count; ++t) taps.weight[static_cast<size_t>(t * axis.output + i)] /= sum;
    }
    taps.most = std::max(taps.most, count);
  }
  return taps;
}

// A weight of 0 takes nothing of an infinity.
template <class T>
T weighed(T weight, T value) {
  const T product = weight * value;
  return weight != 0 ? product : T{0};
}

// to[o, i, :] = the weighted sum of from[o, tap, :] along axis d of a shape.
template <class T>
void interpolate_axis(const InputRows& from, const OutputRows& to, int d, const ResizedAxis& axis, const Taps& taps, T outside) {
  constexpr int64_t kGrain = 8192;
  const Shape& shape = to.tensor.shape();
  const int64_t outputs = axis.output, outer = extent(shape, 0, d), inner = extent(shape, d + 1, static_cast<int>(shape.size()));
  const T* const first_source = from.tensor.data<T>().data();
  T* const first_target = to.tensor.data<T>().data();
  // The first two taps at once: most filters have no others.
  const int32_t *index = taps.index.data(), *second_index = index + outputs;
  const float *weight = taps.weight.data(), *second_weight = weight + outputs;
  const bool are_apart = from.are_apart() || to.are_apart(), is_last = d + 1 == static_cast<int>(shape.size());
  if (inner == 1 && (is_last || !are_apart)) {
    const int64_t from_line = is_last ? from.stride : axis.input, to_line = is_last ? to.stride : outputs;
    const bool has_extrapolated = std::ranges::find(taps.extrapolated, true) != taps.extrapolated.end();
    parallel_for(outer, std::max<int64_t>(1, kGrain / outputs), [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        const T* source = first_source + line * from_line;
        T* target = first_target + line * to_line;
        ANFORA_INDEPENDENT_ITERATIONS
        for (int64_t i = 0; i < outputs; ++i) {
          target[i] = T{0} + weighed<T>(weight[i], source[index[i]]) + weighed<T>(second_weight[i], source[second_index[i]]);
        }
        for (int64_t t = 2; t < taps.most; ++t) {
          const int32_t* of_tap = index + t * outputs;
          const float* by = weight + t * outputs;
          ANFORA_INDEPENDENT_ITERATIONS
          for (int64_t i = 0; i < outputs; ++i) target[i] += weighed<T>(by[i], source[of_tap[i]]);
        }
        if (!has_extrapolated) continue;
        for (int64_t i = 0; i < outputs; ++i) target[i] = taps.extrapolated[i] ? outside : target[i];
      }
    });
    return;
  }
  // A piece is what lies side by side: all that is inside of the axis, or a row of it.
  const int64_t piece = are_apart ? to.length() : inner, pieces = inner / piece;
  const int64_t from_stride = are_apart ? from.stride : inner, to_stride = are_apart ? to.stride : inner;
  parallel_for(outer * outputs * pieces, std::max<int64_t>(1, kGrain / piece), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t line = at / pieces, i = line % outputs;
      T* target = first_target + at * to_stride;
      if (taps.extrapolated[i]) {
        std::fill_n(target, piece, outside);
        continue;
      }
      const T* source = first_source + (line / outputs * axis.input * pieces + at % pieces) * from_stride;
      auto neighbour = [&](int32_t input) { return source + input * pieces * from_stride; };
      const T *a = neighbour(index[i]), *b = neighbour(second_index[i]);
      const T of_a = weight[i], of_b = second_weight[i];
      ANFORA_INDEPENDENT_ITERATIONS
      for (int64_t k = 0; k < piece; ++k) target[k] = T{0} + weighed(of_a, a[k]) + weighed(of_b, b[k]);
      for (int64_t t = 2; t < taps.most; ++t) {
        const T by = weight[t * outputs + i];
        if (by == 0) continue;
        const T* row = neighbour(index[t * outputs + i]);
        for (int64_t k = 0; k < piece; ++k) target[k] += by * row[k];
      }
    }
  });
}

// Axes that shrink most go first, those that grow most last, to touch the fewest elements; among equals inner ones
// first, whose lines are short, so that the outer ones run over long rows.
AxisList axis_order(const ResizedAxes& axes, Transform transform) {
  AxisList order;
  for (int d = 0; d < std::ssize(axes); ++d) {
    if (!axes[d].is_identity(transform)) order.push_back(d);
  }
  std::ranges::sort(order, {}, [&](int d) {
    const auto input = static_cast<double>(std::max<int64_t>(axes[d].input, 1));
    return std::pair(static_cast<double>(axes[d].output) / input, -d);
  });
  return order;
}

struct Request {
  ResizedAxes axes;
  Transform transform;
  bool antialias, exclude_outside;
  float extrapolation_value;
};

// The input is of T already; the result of the last axis goes to `output`.
template <class T>
void resize_by_taps(KernelContext& context, const InputRows& data, const OutputRows& output, const Request& request, const Filter& filter) {
  const AxisList order = axis_order(request.axes, request.transform);
  if (order.empty()) {
    const Shape& shape = data.tensor.shape();
    return strided_copy(data.tensor.dtype(), shape, output.tensor.raw(), strides_of(output, shape), data.tensor.raw(), strides_of(data, shape));
  }
  Tensor current = data.tensor;
  int64_t row_stride = data.stride;
  for (size_t step = 0; step < order.size(); ++step) {
    const int d = order[step];
    const ResizedAxis& axis = request.axes[d];
    Shape shape = current.shape();
    shape[d] = axis.output;
    const bool is_last = step + 1 == order.size();
    Tensor next = is_last ? output.tensor : context.temporary(current.dtype(), shape);
    const OutputRows next_rows = is_last ? OutputRows(next, output.stride) : OutputRows(next);
    const Taps taps = taps_of(context, axis, request.transform, filter, request.antialias, request.exclude_outside);
    interpolate_axis(InputRows(current, row_stride), next_rows, d, axis, taps, static_cast<T>(request.extrapolation_value));
    current = next;
    row_stride = next_rows.stride;
  }
}

// Integers are rounded to even and saturate.
template <class T>
T from_float(float value) {
  if constexpr (std::is_integral_v<T>) {
    double rounded = std::nearbyint(static_cast<double>(value));
    if (std::isnan(rounded)) return 0;
    if (rounded <= static_cast<double>(std::numeric_limits<T>::lowest())) return std::numeric_limits<T>::lowest();
    if (rounded >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    return static_cast<T>(rounded);
  } else {
    return static_cast<T>(value);
  }
}

template <class From, class To, class Convert>
void convert_rows(const InputRows& from, const OutputRows& to, const Convert& convert) {
  const From* source = from.tensor.data<From>().data();
  To* target = to.tensor.data<To>().data();
  const int64_t rows = from.tensor.size() / from.length();
  for (int64_t row = 0; row < rows; ++row, source += from.stride, target += to.stride) std::transform(source, source + from.length(), target, convert);
}

void resize_smoothly(KernelContext& context, const InputRows& data, const OutputRows& output, const Request& request, const Filter& filter) {
  const DType dtype = data.tensor.dtype();
  if (dtype == DType::F32) return resize_by_taps<float>(context, data, output, request, filter);
  if (dtype == DType::F64) return resize_by_taps<double>(context, data, output, request, filter);
  Tensor wide_input = context.temporary(DType::F32, data.tensor.shape());
  Tensor wide_output = context.temporary(DType::F32, output.tensor.shape());
  dispatch<Join<HalfFloats, Integers>>(dtype, [&]<class T>() {
    convert_rows<T, float>(data, OutputRows(wide_input), [](T v) { return static_cast<float>(v); });
    resize_by_taps<float>(context, InputRows(wide_input), OutputRows(wide_output), request, filter);
    convert_rows<float, T>(InputRows(wide_output), output, from_float<T>);
  });
}

void resize_nearest(KernelContext& context, const InputRows& data, const OutputRows& output, const Request& request, Nearest mode) {
  const DType dtype = data.tensor.dtype();
  int64_t entries = 0;
  for (const ResizedAxis& axis : request.axes) entries += axis.output;
  std::span<int64_t> tables = context.workspace_of<int64_t>(static_cast<size_t>(entries));
  Segment* segments = context.workspace_of<Segment>(static_cast<size_t>(entries)).data();
  boost::container::small_vector<IndexMap, 8> maps;
  for (int64_t* map = tables.data(); const ResizedAxis& axis : request.axes) {
    for (int64_t i = 0; i < axis.output; ++i) {
      const float x =
          axis.is_identity(request.transform) ? static_cast<float>(i) : original_coordinate(axis, request.transform, i);
      const bool outside = request.transform == Transform::Crop && !(x >= 0 && x <= static_cast<float>(axis.input - 1));
      map[i] = outside ? -1 : axis.is_identity(request.transform) ? i : nearest_index(x, mode, axis.input);
    }
    maps.push_back(find_segments({map, static_cast<size_t>(axis.output)}, segments));
    map += axis.output;
    segments += axis.output;
  }
  Tensor fill = context.temporary(dtype, {});
  if (dtype != DType::String) std::memset(fill.raw(), 0, fill.bytes());
  if (request.transform == Transform::Crop && request.extrapolation_value != 0) {
    dispatch<Numbers>(dtype, [&]<class T>() { fill.data<T>()[0] = from_float<T>(request.extrapolation_value); });
  }
  mapped_copy(context, data, output, maps, fill.raw());
}

using FloatList = boost::container::small_vector<float, 8>;

FloatList floats(const Tensor& tensor) {
  FloatList values;
  dispatch<Floats>(tensor.dtype(), [&]<class T>() {
    for (T value : tensor.data<T>()) values.push_back(static_cast<float>(value));
  });
  return values;
}

// Sizes, scales and regions of all axes, from those of the chosen ones.
ResizedAxes requested_axes(KernelContext& context, Transform transform) {
  const Tensor& data = context.input(0);
  ResizedAxes axes(static_cast<size_t>(data.rank()));
  AxisList chosen;
  for (int d = 0; d < data.rank(); ++d) {
    axes[d].input = axes[d].output = data.dim(d);
    chosen.push_back(d);
  }
  if (context.attributes().has("axes")) chosen = normalize_axes(context.attributes().ints("axes"), data.rank());
  auto optional_input = [&](size_t i) {  // older models pass an empty tensor for an absent one
    const Tensor* given = context.optional_input(i);
    return given && given->size() > 0 ? given : nullptr;
  };
  const Tensor* roi = transform == Transform::Crop ? optional_input(1) : nullptr;
  const Tensor* scales = optional_input(2);
  const Tensor* sizes = optional_input(3);
  if (transform == Transform::Crop && !roi) refuse("tf_crop_and_resize needs a region");
  if (!scales == !sizes && !chosen.empty()) refuse("one of scales and sizes has to be given");
  if (roi) {
    const FloatList region = floats(*roi);
    if (region.size() != 2 * chosen.size()) refuse("a region of {} numbers for {} axes", region.size(), chosen.size());
    for (size_t i = 0; i < chosen.size(); ++i) {
      axes[chosen[i]].roi_start = region[i];
      axes[chosen[i]].roi_end = region[i + chosen.size()];
    }
  }
  if (scales) {
    const FloatList given = floats(*scales);
    if (given.size() != chosen.size()) refuse("{} scales for {} axes", given.size(), chosen.size());
    for (size_t i = 0; i < chosen.size(); ++i) {
      ResizedAxis& axis = axes[chosen[i]];
      axis.scale = given[i];
      const float output = static_cast<float>(axis.input) * (axis.roi_end - axis.roi_start) * axis.scale;
      if (!(axis.scale > 0 && output >= 0 && output < 0x1p62f))
        refuse("axis {} would be scaled by {}", chosen[i], given[i]);
      axis.output = static_cast<int64_t>(std::floor(output));
    }
    return axes;
  }
  if (!sizes) return axes;
  const IntegerList given = integers(*sizes);
  if (given.size() != chosen.size()) refuse("{} sizes for {} axes", given.size(), chosen.size());
  const std::string_view policy = context.attributes().string("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller") {
    refuse("keep_aspect_ratio_policy is '{}'", policy);
  }
  for (size_t i = 0; i < chosen.size(); ++i) {
    ResizedAxis& axis = axes[chosen[i]];
    if (given[i] < 0) refuse("axis {} is to have size {}", chosen[i], given[i]);
    axis.output = given[i];
    axis.scale = static_cast<float>(given[i]) / static_cast<float>(axis.input);
  }
  if (policy == "stretch") return axes;
  float scale = axes[chosen[0]].scale;
  for (int d : chosen) scale = policy == "not_larger" ? std::min(scale, axes[d].scale) : std::max(scale, axes[d].scale);
  for (int d : chosen) {
    axes[d].scale = scale;
    const float output = scale * static_cast<float>(axes[d].input) + 0.5f;
    if (!(output >= 0 && output < 0x1p62f)) refuse("axis {} would be scaled by {}", d, scale);
    axes[d].output = static_cast<int64_t>(output);
  }
  return axes;
}

void resize(KernelContext& context) {
  const Tensor& data = context.input(0);
  const AttributeSet& attributes = context.attributes();
  Request request;
  request.transform = transform_of(attributes.string("coordinate_transformation_mode", "half_pixel"));
  request.axes = requested_axes(context, request.transform);
  request.antialias = attributes.get_int("antialias", 0) != 0;
  request.exclude_outside = attributes.get_int("exclude_outside", 0) != 0;
  request.extrapolation_value = attributes.get_float("extrapolation_value", 0);
  const std::string_view mode = attributes.string("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "cubic") refuse("mode is '{}'", mode);
  Shape shape;
  for (const ResizedAxis& axis : request.axes) shape.push_back(axis.output);
  const InputRows rows = context.input_rows(0);
  const OutputRows output = context.allocate_output_rows(0, data.dtype(), shape);
  if (output.tensor.size() == 0) return;
  if (data.size() == 0) refuse("an empty tensor cannot be resized to {}", to_string(shape));
  if (mode == "nearest") {
    return resize_nearest(context, rows, output, request,
                          nearest_of(attributes.string("nearest_mode", "round_prefer_floor")));
  }
  resize_smoothly(context, rows, output, request, Filter{mode == "cubic", attributes.get_float("cubic_coeff_a", -0.75f)});
}

}  // namespace

void register_resize(KernelRegistry& registry) { registry.add("Resize", resize, {.of_output = true, .of_inputs = true}); }

}  // namespace anfora::kernels

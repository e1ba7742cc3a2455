// Operators that frame a tensor or blank a part of it. All of Pad's modes and CenterCropPad are one copy through a
// map of each axis, parts of which are filled; but for short rows between constants.
#include <algorithm>
#include <array>

#include "kernels/reference/arguments.h"
#include "kernels/reference/families.h"
#include "kernels/reference/strided_copy.h"
#include "support/element_types.h"
#include "support/parallel.h"

namespace anfora::kernels {
namespace {

enum class PadMode { Constant, Reflect, Edge, Wrap };

PadMode pad_mode(std::string_view name) {
  if (name == "constant") return PadMode::Constant;
  if (name == "reflect") return PadMode::Reflect;
  if (name == "edge") return PadMode::Edge;
  if (name == "wrap") return PadMode::Wrap;
  refuse("mode is '{}'; constant, reflect, edge and wrap exist", name);
}

using Segments = boost::container::small_vector<Segment, 4>;

// An axis that keeps [lower, upper) of its `size` elements and grows by `before` and `after`: negative pads remove elements, and what
// the other side repeats is what is left.
Segments padded_axis(PadMode mode, int64_t size, int64_t before, int64_t after, int64_t length) {
  const int64_t lower = std::min(std::max<int64_t>(-before, 0), size), upper = std::max(lower, size - std::max<int64_t>(-after, 0));
  const int64_t kept = upper - lower, start = std::max<int64_t>(before, 0);
  if (kept == 0 && length > 0 && mode != PadMode::Constant) refuse("an empty axis can be padded by a constant only");
  const auto phase_of = [](int64_t at, int64_t period) { return (at % period + period) % period; };
  // The longest one that begins at index `at` of what is kept.
  const auto segment_at = [&](int64_t at) -> Segment {
    if (at >= 0 && at < kept) return {0, kept, lower, 1};
    const int64_t rest = at < 0 ? -at : length;
    if (mode == PadMode::Constant) return {0, rest, -1, 0};
    if (mode == PadMode::Edge || (mode == PadMode::Reflect && kept == 1)) return {0, rest, at < 0 ? lower : upper - 1, 0};
    if (mode == PadMode::Wrap) {
      const int64_t phase = phase_of(at, kept);
      return {0, std::min(rest, kept - phase), lower + phase, 1};
    }
    const int64_t period = 2 * (kept - 1), phase = phase_of(at, period);
    if (phase < kept - 1) return {0, std::min(rest, kept - 1 - phase), lower + phase, 1};
    return {0, std::min(rest, period - phase), lower + period - phase, -1};
  };
  Segments segments;
  for (int64_t i = 0; i < length; i += segments.back().length) {
    Segment next = segment_at(i - start);
    next.begin = i;
    next.length = std::min(next.length, length - i);
    segments.push_back(next);
  }
  return segments;
}

// What is kept of each axis, copied into a tensor that is filled: for rows that are too short to be made one by one.
void fill_and_copy(const Tensor& data, std::span<const int64_t> before, std::span<const int64_t> after, const void* fill, Tensor& output) {
  constexpr std::array<std::byte, 16> kZero{};
  dense_fill(output.dtype(), output.size(), output.raw(), fill ? fill : kZero.data());
  const Shape from_strides = dense_strides(data.shape()), to_strides = dense_strides(output.shape());
  Shape kept;
  int64_t from = 0, to = 0;
  for (int d = 0; d < data.rank(); ++d) {
    const int64_t lower = std::max<int64_t>(-before[d], 0), upper = data.dim(d) - std::max<int64_t>(-after[d], 0);
    if (upper <= lower) return;
    kept.push_back(upper - lower);
    from += lower * from_strides[d];
    to += std::max<int64_t>(before[d], 0) * to_strides[d];
  }
  strided_copy(data.dtype(), kept, element_at(output, to), to_strides, element_at(data, from), from_strides);
}

void pad_by(KernelContext& context, const Tensor& data, PadMode mode, std::span<const int64_t> before,
            std::span<const int64_t> after, const void* fill) {
  Shape shape;
  for (int d = 0; d < data.rank(); ++d) {
    int64_t length = checked_add(data.dim(d), checked_add(before[d], after[d]));
    if (length < 0) refuse("pads {} and {} take more than an axis of size {} has", before[d], after[d], data.dim(d));
    shape.push_back(length);
  }
  Tensor& output = context.allocate_output(0, data.dtype(), shape);
  if (output.size() == 0) return;
  constexpr int64_t kShortRow = 16;
  if (mode == PadMode::Constant && data.dtype() != DType::String && data.rank() > 0 && shape.back() < kShortRow) {
    return fill_and_copy(data, before, after, fill, output);
  }
  boost::container::small_vector<Segments, 6> axes;
  boost::container::small_vector<IndexMap, 6> maps;
  for (size_t d = 0; d < shape.size(); ++d) axes.push_back(padded_axis(mode, data.shape()[d], before[d], after[d], shape[d]));
  for (const Segments& axis : axes) maps.emplace_back(axis.data(), axis.size());
  mapped_copy(context, InputRows(data), OutputRows(output), maps, fill);
}

void pad(KernelContext& context) {
  const Tensor& data = context.input(0);
  PadMode mode = pad_mode(context.attributes().get_string("mode", "constant"));
  const IntegerList pads = integers(context.input(1));
  AxisList axes(static_cast<size_t>(data.rank()));
  for (int d = 0; d < data.rank(); ++d) axes[d] = d;
  if (const Tensor* given = context.optional_input(3)) axes = normalize_axes(integers(*given), data.rank());
  if (pads.size() != 2 * axes.size()) refuse("{} pads for {} axes", pads.size(), axes.size());
  Shape before(data.shape().size(), 0), after(data.shape().size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    before[axes[i]] = pads[i];
    after[axes[i]] = pads[i + axes.size()];
  }
  const Tensor* value = context.optional_input(2);
  if (value && (value->size() != 1 || value->dtype() != data.dtype())) {
    refuse("constant_value is {} of shape {}", name(value->dtype()), to_string(value->shape()));
  }
  pad_by(context, data, mode, before, after, value ? value->raw() : nullptr);
}

void center_crop_pad(KernelContext& context) {
  const Tensor& data = context.input(0);
  const IntegerList sizes = integers(context.input(1));
  AxisList axes(static_cast<size_t>(data.rank()));
  for (int d = 0; d < data.rank(); ++d) axes[d] = d;
  if (context.attributes().has("axes")) axes = normalize_axes(context.attributes().ints("axes"), data.rank());
  if (sizes.size() != axes.size()) refuse("{} sizes for {} axes", sizes.size(), axes.size());
  Shape before(data.shape().size(), 0), after(data.shape().size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (sizes[i] < 0) refuse("the size of axis {} is to be {}", axes[i], sizes[i]);
    int64_t growth = sizes[i] - data.dim(axes[i]);
    // An odd element more goes to the end, also when it is one more to remove.
    before[axes[i]] = growth / 2;
    after[axes[i]] = growth - growth / 2;
  }
  pad_by(context, data, PadMode::Constant, before, after, nullptr);
}

void trilu(KernelContext& context) {
  const Tensor& data = context.input(0);
  if (data.rank() < 2) refuse("expected an input of rank 2 or more, got {}", data.rank());
  const bool upper = context.attributes().get_int("upper", 1) != 0;
  const Tensor* given = context.optional_input(1);
  const int64_t rows = data.dim(data.rank() - 2), columns = data.dim(data.rank() - 1);
  const int64_t diagonal = std::clamp(given ? integer(*given) : 0, -rows, columns);
  Tensor& output = context.allocate_output(0, data.dtype(), data.shape());
  if (output.size() == 0) return;
  dispatch_by_size(data.dtype(), [&]<class T>() {
    auto from = data.data<T>();
    auto to = output.data<T>();
    parallel_for(data.size() / columns, std::max<int64_t>(1, 16384 / columns), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        // Elements left of `edge` lie below the diagonal.
        int64_t edge = std::clamp<int64_t>(i % rows + diagonal + (upper ? 0 : 1), 0, columns);
        auto source = from.begin() + i * columns;
        auto target = to.begin() + i * columns;
        std::fill(upper ? target : target + edge, upper ? target + edge : target + columns, T{});
        std::copy(upper ? source + edge : source, upper ? source + columns : source + edge,
                  upper ? target + edge : target);
      }
    });
  });
}

}  // namespace

void register_padding(KernelRegistry& registry) {
  registry.add("Pad", pad);
  registry.add("CenterCropPad", center_crop_pad);
  registry.add("Trilu", trilu);
}

}  // namespace anfora::kernels

// Operators that change or tell the shape of a tensor. Where a shape comes as data, its elements are symbolic
// expressions, and so are the dimensions of the result.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ops/infer_helpers.h"
#include "ops/layouts.h"
#include "ops/registry.h"
#include "support/integers.h"

namespace anfora::ops {
namespace {

// The same elements in the same order.
void forward_elements(InferenceContext& ctx) {
  if (auto elements = ctx.elements(0)) ctx.set_elements(0, *elements);
}

void set_view(InferenceContext& ctx, std::span<const Dim> dims) {
  ctx.set_tensor(0, ctx.dtype(0), dims);
  if (dims.size() <= 1) forward_elements(ctx);
}

// What -1 stands for: the elements of the input over those of the dimensions that are given. Dimensions that both sides
// have are taken out first, so that the quotient is simple.
Dim inferred_dim(InferenceContext& ctx, Dims given, Dims data) {
  for (Dim d : Dims(given)) {
    auto same = std::ranges::find_if(data, [&](Dim other) { return provably_equal(d, other); });
    if (same == data.end()) continue;
    data.erase(same);
    given.erase(std::ranges::find(given, d));
  }
  Dim whole = product(ctx, data), part = product(ctx, given);
  if (whole.is_unknown() || part.is_unknown() || part.as_constant() == 0) return ctx.unknown();
  if (auto quotient = divide_exactly(whole, part)) return *quotient;
  if (whole.is_constant() && part.is_constant()) {
    ctx.fail(fmt::format("{} elements do not divide by {}", to_string(whole), to_string(part)));
  }
  return floor_div(whole, part);
}

// A single dimension whose size only the run tells is what the others leave, be it given as a number, as 0 or as -1.
void infer_last_unknown(InferenceContext& ctx, Dims& dims, const Dims& data) {
  auto is_open = [](Dim d) { return !d.is_constant(); };
  auto open = std::ranges::find_if(dims, is_open);
  if (open == dims.end() || std::ranges::any_of(open + 1, dims.end(), is_open)) return;
  Dims given = dims;
  given.erase(given.begin() + (open - dims.begin()));
  if (product(ctx, given).as_constant().value_or(0) <= 0) return;
  Dim left = inferred_dim(ctx, given, data);
  if (open->is_unknown() || left.is_constant()) *open = left;
}

void infer_reshape(InferenceContext& ctx) {
  auto target = ctx.elements(1);
  if (!target) return set_tensor_of_shape(ctx, 0, ctx.dtype(0), 1);
  const bool zero_is_zero = ctx.attribute_int("allowzero") != 0;
  auto data = ctx.dims(0);
  Dims dims, given;
  int inferred = -1;
  for (size_t d = 0; d < target->size(); ++d) {
    Dim dim = (*target)[d];
    if (dim.as_constant() == -1) {
      if (inferred >= 0) ctx.fail("two dimensions of the new shape are -1");
      inferred = static_cast<int>(d);
    } else if (dim.range().high < 0) {
      ctx.fail(fmt::format("dimension {} of the new shape is {}", d, to_string(dim)));
    } else if (dim.as_constant() == 0 && !zero_is_zero) {
      if (data && d >= data->size()) {
        ctx.fail(fmt::format("dimension {} is to be copied from an input of rank {}", d, data->size()));
      }
      dim = data ? (*data)[d] : ctx.unknown();
    }
    dims.push_back(dim);
    if (inferred != static_cast<int>(d)) given.push_back(dim);
  }
  if (inferred >= 0) {
    dims[inferred] = data ? inferred_dim(ctx, given, *data) : ctx.unknown();
  } else if (data && provably_different(product(ctx, dims), product(ctx, *data))) {
    ctx.fail(fmt::format("{} cannot take the shape {}", to_string(ctx.input(0)),
                         to_string(ctx.context().tensor_type(ctx.dtype(0), dims))));
  } else if (data) {
    infer_last_unknown(ctx, dims, *data);
  }
  set_view(ctx, dims);
}

void infer_flatten(InferenceContext& ctx) {
  auto data = ctx.dims(0);
  if (!data) return ctx.set_tensor(0, ctx.dtype(0), Dims{ctx.unknown(), ctx.unknown()});
  const int64_t rank = std::ssize(*data);
  int64_t axis = ctx.attribute_int("axis");
  if (axis < -rank || axis > rank) ctx.fail(fmt::format("axis {} is out of range for rank {}", axis, rank));
  if (axis < 0) axis += rank;
  std::span<const Dim> all(*data);
  ctx.set_tensor(0, ctx.dtype(0), Dims{product(ctx, all.first(axis)), product(ctx, all.subspan(axis))});
}

// The axes that a constant input names, normalized; empty when they are not known.
std::optional<std::vector<int>> known_axes(InferenceContext& ctx, size_t input, int rank) {
  auto given = ctx.constant_integers(input);
  if (!given) return std::nullopt;
  std::vector<int> axes;
  for (int64_t axis : *given) {
    int normal = ctx.normalize_axis(axis, rank);
    if (std::ranges::count(axes, normal)) ctx.fail(fmt::format("axis {} is given twice", axis));
    axes.push_back(normal);
  }
  return axes;
}

void infer_squeeze(InferenceContext& ctx) {
  auto data = ctx.dims(0);
  if (!data) return ctx.set_unranked(0, ctx.dtype(0));
  const int rank = static_cast<int>(data->size());
  Dims dims;
  auto axes = known_axes(ctx, 1, rank);
  // No axes at all are all those of size 1, as in ONNX Runtime.
  if (!ctx.has_input(1) || (axes && axes->empty())) {
    for (Dim d : *data) {
      if (d.as_constant() == 1) continue;
      // A size that may be 1 would go away at run time.
      if (!provably_different(d, ctx.dim(1))) return ctx.set_unranked(0, ctx.dtype(0));
      dims.push_back(d);
    }
    return set_view(ctx, dims);
  }
  if (!axes) {
    auto count = vector_length(ctx, 1);
    if (!count || *count == 0 || *count > rank) return ctx.set_unranked(0, ctx.dtype(0));
    return ctx.set_tensor(0, ctx.dtype(0), Dims(static_cast<size_t>(rank - *count), ctx.unknown()));
  }
  for (int d = 0; d < rank; ++d) {
    if (!std::ranges::count(*axes, d)) {
      dims.push_back((*data)[d]);
    } else if (provably_different((*data)[d], ctx.dim(1))) {
      ctx.fail(fmt::format("cannot squeeze axis {} of size {}", d, to_string((*data)[d])));
    }
  }
  set_view(ctx, dims);
}

void infer_unsqueeze(InferenceContext& ctx) {
  auto data = ctx.dims(0);
  auto count = vector_length(ctx, 1);
  if (!data || !count) return ctx.set_unranked(0, ctx.dtype(0));
  const int rank = static_cast<int>(data->size()) + *count;
  auto axes = known_axes(ctx, 1, rank);
  if (!axes) return ctx.set_tensor(0, ctx.dtype(0), Dims(static_cast<size_t>(rank), ctx.unknown()));
  Dims dims;
  auto next = data->begin();
  for (int d = 0; d < rank; ++d) dims.push_back(std::ranges::count(*axes, d) ? ctx.dim(1) : *next++);
  set_view(ctx, dims);
}

void infer_shape(InferenceContext& ctx) {
  auto data = ctx.dims(0);
  if (!data) return ctx.set_tensor(0, DType::I64, Dims{ctx.unknown()});
  const int64_t rank = std::ssize(*data);
  auto bound = [&](std::string_view name, int64_t otherwise) {
    int64_t axis = ctx.attributes().get_int(name, otherwise);
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  int64_t start = bound("start", 0), end = std::max(bound("end", rank), start);
  ctx.set_tensor(0, DType::I64, Dims{ctx.dim(end - start)});
  ctx.set_elements(0, Dims(data->begin() + start, data->begin() + end));
}

void infer_size(InferenceContext& ctx) {
  ctx.set_tensor(0, DType::I64, {});
  if (auto data = ctx.dims(0)) ctx.set_elements(0, Dims{product(ctx, *data)});
}

void infer_transpose(InferenceContext& ctx) {
  auto data = ctx.dims(0);
  auto perm = ctx.attributes().get_ints("perm");
  const bool reversed = !ctx.attributes().has("perm");
  if (!data && reversed) return ctx.set_unranked(0, ctx.dtype(0));
  if (reversed) {
    Dims dims(data->rbegin(), data->rend());
    return set_view(ctx, dims);
  }
  const int rank = static_cast<int>(data ? data->size() : perm.size());
  if (std::ssize(perm) != rank) ctx.fail(fmt::format("perm has {} axes, the input {}", perm.size(), rank));
  Dims dims;
  std::vector<bool> seen(perm.size());
  for (int64_t axis : perm) {
    int normal = ctx.normalize_axis(axis, rank);
    if (seen[normal]) ctx.fail(fmt::format("perm names axis {} twice", axis));
    seen[normal] = true;
    dims.push_back(data ? (*data)[normal] : ctx.unknown());
  }
  if (!data) return ctx.set_tensor(0, ctx.dtype(0), dims);
  set_view(ctx, dims);
}

Dim exact_quotient(InferenceContext& ctx, Dim dim, int64_t divisor) {
  if (auto constant = dim.as_constant(); constant && *constant % divisor != 0) {
    ctx.fail(fmt::format("{} does not divide into blocks of {}", *constant, divisor));
  }
  return floor_div(dim, divisor);
}

int64_t block_size(InferenceContext& ctx) {
  int64_t size = ctx.attribute_int("blocksize");
  if (size < 1 || size > (int64_t{1} << 30)) ctx.fail(fmt::format("blocksize is {}", size));
  return size;
}

void infer_depth_to_space(InferenceContext& ctx) {
  require_rank(ctx, 0, 4);
  int64_t b = block_size(ctx);
  Dims d = ctx.dims(0).value_or(Dims(4, ctx.unknown()));
  ctx.set_tensor(0, ctx.dtype(0), Dims{d[0], exact_quotient(ctx, d[1], b * b), d[2] * b, d[3] * b});
}

void infer_space_to_depth(InferenceContext& ctx) {
  require_rank(ctx, 0, 4);
  int64_t b = block_size(ctx);
  Dims d = ctx.dims(0).value_or(Dims(4, ctx.unknown()));
  ctx.set_tensor(0, ctx.dtype(0),
                 Dims{d[0], d[1] * (b * b), exact_quotient(ctx, d[2], b), exact_quotient(ctx, d[3], b)});
}

void infer_expand(InferenceContext& ctx) {
  auto data = ctx.dims(0);
  auto target = ctx.elements(1);
  if (!data) return ctx.set_unranked(0, ctx.dtype(0));
  if (!target) {
    auto length = vector_length(ctx, 1);
    if (!length) return ctx.set_unranked(0, ctx.dtype(0));
    target = Dims(static_cast<size_t>(*length), ctx.unknown());
  }
  Dims dims = broadcast_dims(ctx, *data, *target);
  ctx.set_tensor(0, ctx.dtype(0), dims);
  auto elements = ctx.elements(0);
  if (!elements || dims.size() != 1) return;
  auto count = dims[0].as_constant();
  if (count && *count == std::ssize(*elements)) return ctx.set_elements(0, *elements);
  if (count && elements->size() == 1 && *count <= static_cast<int64_t>(kMostTrackedElements)) {
    ctx.set_elements(0, Dims(static_cast<size_t>(*count), (*elements)[0]));
  }
}

void infer_tile(InferenceContext& ctx) {
  auto data = ctx.dims(0);
  auto repeats = ctx.elements(1);
  if (!data) return ctx.set_unranked(0, ctx.dtype(0));
  if (!repeats) return ctx.set_tensor(0, ctx.dtype(0), Dims(data->size(), ctx.unknown()));
  if (repeats->size() != data->size()) {
    ctx.fail(fmt::format("{} repeats for rank {}", repeats->size(), data->size()));
  }
  Dims dims;
  for (size_t d = 0; d < data->size(); ++d) {
    if ((*repeats)[d].range().high < 0)
      ctx.fail(fmt::format("axis {} is to be repeated {} times", d, to_string((*repeats)[d])));
    dims.push_back((*data)[d] * (*repeats)[d]);
  }
  ctx.set_tensor(0, ctx.dtype(0), dims);
}

void infer_concat(InferenceContext& ctx) {
  DType dtype = DType::Undefined;
  std::optional<Dims> dims;
  std::optional<Dims> elements{Dims{}};
  bool ranked = true;
  for (size_t i = 0; i < ctx.num_inputs(); ++i) {
    if (dtype == DType::Undefined) dtype = ctx.dtype(i);
    auto more = ctx.dims(i);
    auto more_elements = ctx.elements(i);
    const auto length = more && more->size() == 1 ? (*more)[0].as_constant() : std::nullopt;
    if (elements && length && !more_elements && std::in_range<uint8_t>(*length)) more_elements = Dims(static_cast<size_t>(*length), ctx.unknown());
    if (elements && more_elements && more && more->size() == 1) {
      elements->insert(elements->end(), more_elements->begin(), more_elements->end());
    } else {
      elements.reset();
    }
    if (!more) {
      ranked = false;
    } else if (!dims) {
      dims = more;
    } else {
      const int axis = ctx.normalize_axis(ctx.attribute_int("axis"), static_cast<int>(dims->size()));
      if (more->size() != dims->size()) {
        ctx.fail(fmt::format("ranks {} and {} should be the same", dims->size(), more->size()));
      }
      for (int d = 0; d < static_cast<int>(dims->size()); ++d) {
        Dim a = (*dims)[d], b = (*more)[d];
        (*dims)[d] = d == axis ? a + b : merge_dim(ctx, a, b);
      }
    }
  }
  if (!dims) return ctx.set_unranked(0, dtype);
  const int axis = ctx.normalize_axis(ctx.attribute_int("axis"), static_cast<int>(dims->size()));
  if (!ranked) (*dims)[axis] = ctx.unknown();
  ctx.set_tensor(0, dtype, *dims);
  const bool is_any_known = elements && !std::ranges::all_of(*elements, &Dim::is_unknown);
  if (ranked && is_any_known) ctx.set_elements(0, *elements);
}

// As many as an application can have outputs.
constexpr int64_t kMostParts = std::numeric_limits<uint16_t>::max();

// The sizes of `count` parts that are equal but for the last ones.
Dims equal_parts(InferenceContext& ctx, Dim size, size_t count) {
  const auto n = static_cast<int64_t>(count);
  if (auto constant = size.as_constant()) {
    Dims sizes;
    int64_t part = (*constant + n - 1) / n;
    for (int64_t i = 0; i < n; ++i) sizes.push_back(ctx.dim(std::clamp<int64_t>(*constant - i * part, 0, part)));
    return sizes;
  }
  if (auto exact = divide_exactly(size, ctx.dim(n))) return Dims(count, *exact);
  Dims sizes(count, ctx.unknown());
  sizes[0] = ceil_div(size, n);
  if (n == 2) sizes[1] = size - sizes[0];
  return sizes;
}

void infer_split(InferenceContext& ctx) {
  const size_t count = ctx.num_outputs();
  auto data = ctx.dims(0);
  if (!data) {
    for (size_t i = 0; i < count; ++i) ctx.set_unranked(i, ctx.dtype(0));
    return;
  }
  const int axis = ctx.normalize_axis(ctx.attribute_int("axis"), static_cast<int>(data->size()));
  // Outputs at the end may be left out.
  const int64_t parts = ctx.attributes().get_int("num_outputs", static_cast<int64_t>(count));
  if (parts < static_cast<int64_t>(count) || parts > kMostParts) {
    ctx.fail(fmt::format("num_outputs is {}, but there are {} outputs", parts, count));
  }
  Dims sizes(count, ctx.unknown());
  if (!ctx.has_input(1)) {
    sizes = equal_parts(ctx, (*data)[axis], static_cast<size_t>(parts));
  } else if (auto given = ctx.elements(1)) {
    if (given->size() < count) ctx.fail(fmt::format("{} sizes for {} outputs", given->size(), count));
    Dim sum = ctx.dim(0);
    for (Dim d : *given) sum = sum + d;
    if (provably_different(sum, (*data)[axis])) {
      ctx.fail(fmt::format("the parts sum up to {}, the axis has size {}", to_string(sum), to_string((*data)[axis])));
    }
    sizes = *given;
  }
  auto elements = ctx.elements(0);
  int64_t begin = 0;
  for (size_t i = 0; i < count; ++i) {
    (*data)[axis] = sizes[i];
    ctx.set_tensor(i, ctx.dtype(0), *data);
    auto length = sizes[i].as_constant();
    if (!length || !elements || begin + *length > std::ssize(*elements)) {
      elements.reset();
      continue;
    }
    ctx.set_elements(i, Dims(elements->begin() + begin, elements->begin() + begin + *length));
    begin += *length;
  }
}

// Slice ----------------------------------------------------------------------------------------------

// How many elements [start, end) with a step has of an axis of a known size.
struct Slicing {
  int64_t start, count;
};

Slicing slice_axis(int64_t size, int64_t start, int64_t end, int64_t step) {
  auto bound = [&](int64_t at, int64_t lowest, int64_t highest) {
    return std::clamp(at < 0 ? at + size : at, lowest, std::max(lowest, highest));
  };
  start = bound(start, 0, step > 0 ? size : size - 1);
  end = step > 0 ? bound(end, 0, size) : bound(end, -1, size - 1);
  int64_t span = step > 0 ? end - start : start - end;
  if (size == 0 || span <= 0) return {0, 0};
  auto stride = step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  return {start, static_cast<int64_t>((static_cast<uint64_t>(span) - 1) / stride) + 1};
}

// Bounds this far out mean the end of the axis: exporters write the largest 32- or 64-bit integer.
constexpr int64_t kFar = std::numeric_limits<int32_t>::max();

// The number of elements when size or bounds are symbolic, as far as signs are known.
Dim sliced_dim(InferenceContext& ctx, Dim size, Dim start, Dim end, int64_t step) {
  if (size.is_constant() && start.is_constant() && end.is_constant()) {
    return ctx.dim(slice_axis(size.constant(), start.constant(), end.constant(), step).count);
  }
  const Dim zero = ctx.dim(0);
  const bool to_far = end.is_constant() && end.constant() >= kFar;
  if (step < 0) {
    bool whole = start.as_constant() && (*start.as_constant() == -1 || *start.as_constant() >= kFar) &&
                 end.as_constant() && *end.as_constant() < -kFar;
    return whole ? ceil_div(size, -step) : ctx.unknown();
  }
  Dim length = ctx.unknown();
  // [-n, …) is the last n; written so, rather than as a difference, it stays simple.
  if (to_far && start.range().high < 0) {
    length = min(size, zero - start);
  } else {
    auto position = [&](Dim at) {
      if (at.range().low >= 0) return at;
      return at.range().high < 0 ? max(size + at, zero) : ctx.unknown();
    };
    Dim stop = to_far || provably_equal(end, size) ? size : min(position(end), size);
    length = max(stop - position(start), zero);
  }
  return ceil_div(length, step);
}

void infer_slice(InferenceContext& ctx) {
  auto data = ctx.dims(0);
  if (!data) return ctx.set_unranked(0, ctx.dtype(0));
  const int rank = static_cast<int>(data->size());
  auto starts = ctx.elements(1), ends = ctx.elements(2);
  // The smallest integer, which PyTorch's flip has for an end, is no dimension.
  if (auto constant = integers_of(ctx.constant(2))) {
    ends.emplace();
    for (int64_t end : *constant) ends->push_back(ctx.dim(std::max(end, -std::numeric_limits<int64_t>::max())));
  }
  std::optional<std::vector<int>> axes;
  size_t count = starts ? starts->size() : ends ? ends->size() : 0;
  if (ctx.has_input(3)) {
    axes = known_axes(ctx, 3, rank);
    if (axes) count = axes->size();
  } else if (starts || ends) {
    if (static_cast<int>(count) > rank) ctx.fail(fmt::format("{} starts for rank {}", count, rank));
    axes.emplace();
    for (size_t i = 0; i < count; ++i) axes->push_back(static_cast<int>(i));
  }
  if (!axes) return ctx.set_tensor(0, ctx.dtype(0), Dims(data->size(), ctx.unknown()));
  std::optional<std::vector<int64_t>> steps(std::vector<int64_t>(count, 1));
  if (ctx.has_input(4)) steps = ctx.constant_integers(4);
  if ((starts && starts->size() != count) || (ends && ends->size() != count) || (steps && steps->size() != count)) {
    ctx.fail("starts, ends, axes and steps differ in length");
  }
  Dims dims = *data;
  for (size_t i = 0; i < count; ++i) {
    Dim& dim = dims[(*axes)[i]];
    if (steps && (*steps)[i] == 0) ctx.fail("the step of a slice is 0");
    dim = starts && ends && steps ? sliced_dim(ctx, dim, (*starts)[i], (*ends)[i], (*steps)[i]) : ctx.unknown();
  }
  ctx.set_tensor(0, ctx.dtype(0), dims);

  auto elements = ctx.elements(0);
  auto start = ctx.constant_integers(1), end = ctx.constant_integers(2);
  if (!elements || rank != 1 || count != 1 || !start || !end || !steps) return;
  Slicing slicing = slice_axis(std::ssize(*elements), (*start)[0], (*end)[0], (*steps)[0]);
  Dims kept;
  for (int64_t i = 0; i < slicing.count; ++i) kept.push_back((*elements)[slicing.start + i * (*steps)[0]]);
  ctx.set_elements(0, kept);
}

void infer_reverse_sequence(InferenceContext& ctx) {
  require_rank(ctx, 1, 1);
  const auto dims = ctx.dims(0), lengths = ctx.dims(1);
  if (dims) {
    if (dims->size() < 2) ctx.fail(fmt::format("the input has rank {}; a batch and a time axis are needed", dims->size()));
    const int batch = ctx.normalize_axis(ctx.attribute_int("batch_axis"), 2), time = ctx.normalize_axis(ctx.attribute_int("time_axis"), 2);
    if (batch == time) ctx.fail(fmt::format("batch_axis and time_axis are both {}", batch));
    if (lengths && provably_different((*lengths)[0], (*dims)[batch])) {
      ctx.fail(fmt::format("{} lengths for a batch of {}", to_string((*lengths)[0]), to_string((*dims)[batch])));
    }
  }
  infer_same_type(ctx);
}

}  // namespace

void declare_shape(Declarations& declare) {
  declare.op("Reshape", 25)
      .doc("The same elements in the same order under another shape; -1 is inferred, 0 copied from the input.")
      .input("data", "T")
      .input("shape", "i64")
      .output("reshaped", "T")
      .type("T", kAllDTypes)
      .attribute("allowzero", 0)
      .infer(infer_reshape)
      .fusion(FusionKind::View)
      .in_place()
      .fails(Fails::OnShape);
  declare.op("Flatten", 25)
      .doc("A matrix of the same elements: the axes before `axis` make its rows.")
      .input("input", "T")
      .output("output", "T")
      .type("T", kAllDTypes)
      .attribute("axis", 1)
      .infer(infer_flatten)
      .fusion(FusionKind::View)
      .in_place()
      .axis();
  declare.op("Squeeze", 25)
      .doc("Without the given axes, or all axes, of size 1.")
      .input("data", "T")
      .optional_input("axes", "i64")
      .output("squeezed", "T")
      .type("T", kAllDTypes)
      .infer(infer_squeeze)
      .fusion(FusionKind::View)
      .in_place();
  declare.op("Unsqueeze", 25)
      .doc("With axes of size 1 inserted, so that they have the given numbers in the result.")
      .input("data", "T")
      .input("axes", "i64")
      .output("expanded", "T")
      .type("T", kAllDTypes)
      .infer(infer_unsqueeze)
      .fusion(FusionKind::View)
      .in_place();
  declare.op("Shape", 25)
      .doc("The sizes of the axes start … end-1 as a vector.")
      .input("data", "T")
      .output("shape", "i64")
      .type("T", kAllDTypes)
      .attribute("start", 0)
      .optional_attribute("end", AttributeKind::Int)
      .infer(infer_shape)
      .fails(Fails::Never).range(range_of_counts);
  declare.op("Size", 25)
      .doc("The number of elements.")
      .input("data", "T")
      .output("size", "i64")
      .type("T", kAllDTypes)
      .infer(infer_size)
      .range(range_of_counts);
  declare.op("Transpose", 25)
      .doc("Axis i of the result is axis perm[i] of the input; without perm the axes are reversed.")
      .input("data", "T")
      .output("transposed", "T")
      .type("T", kAllDTypes)
      .optional_attribute("perm", AttributeKind::Ints)
      .infer(infer_transpose)
      .fusion(FusionKind::Injective)
      .takes_elements().fails(Fails::Never).movement(Movement::Permutation);
  declare.op("DepthToSpace", 28)
      .doc("Moves blocks of channels into squares of pixels.")
      .input("input", "T")
      .output("output", "T")
      .type("T", kPlainDTypes)
      .required_attribute("blocksize", AttributeKind::Int)
      .attribute("mode", "DCR")
      .infer(infer_depth_to_space)
      .fusion(FusionKind::Injective)
      .takes_elements()
      .layout(channels_last_depth_to_space);
  declare.op("SpaceToDepth", 28)
      .doc("Moves squares of pixels into blocks of channels.")
      .input("input", "T")
      .output("output", "T")
      .type("T", kPlainDTypes)
      .required_attribute("blocksize", AttributeKind::Int)
      .attribute("mode", "DCR")
      .infer(infer_space_to_depth)
      .fusion(FusionKind::Injective)
      .takes_elements();
  declare.op("Expand", 13)
      .doc("Broadcasts the input against a shape, in both directions.")
      .input("input", "T")
      .input("shape", "i64")
      .output("output", "T")
      .type("T", kPlainDTypes)
      .infer(infer_expand)
      .fusion(FusionKind::Broadcast)
      .widens(false).takes_elements().fails(Fails::OnShape).movement(Movement::Repetition);
  declare.op("Tile", 13)
      .doc("The input repeated along each axis.")
      .input("input", "T")
      .input("repeats", "i64")
      .output("output", "T")
      .type("T", kPlainDTypes)
      .infer(infer_tile)
      .fusion(FusionKind::Injective)
      .takes_elements().movement(Movement::Repetition);
  declare.op("Concat", 13)
      .doc("The inputs one after the other along an axis.")
      .variadic_input("inputs", "T")
      .output("concat_result", "T")
      .type("T", kPlainDTypes)
      .required_attribute("axis", AttributeKind::Int)
      .infer(infer_concat)
      .fusion(FusionKind::Injective)
      .axis().fails(Fails::Never).layout(channels_last_concat).range(range_of_all_inputs).whole(Whole::OfWhole).odd().scales();
  declare.op("Split", 18)
      .doc("Cuts the input along an axis into parts of the given sizes, or into equal ones.")
      .input("input", "T")
      .optional_input("split", "i64")
      .variadic_output("outputs", "T")
      .type("T", kPlainDTypes)
      .attribute("axis", 0)
      .optional_attribute("num_outputs", AttributeKind::Int)
      .infer(infer_split)
      .fusion(FusionKind::Injective)
      .layout(channels_last_split).axis().takes_elements().total();
  declare.op("Slice", 13)
      .doc("The elements from start to end, exclusive, by step, along each of the given axes, as in numpy.")
      .input("data", "T")
      .input("starts", "Tind")
      .input("ends", "Tind")
      .optional_input("axes", "Tind")
      .optional_input("steps", "Tind")
      .output("output", "T")
      .type("T", kPlainDTypes)
      .type("Tind", {DType::I32, DType::I64})
      .infer(infer_slice)
      .fusion(FusionKind::Injective)
      .takes_elements().layout(along_moved_axes).movement(Movement::Slice);
  declare.op("ReverseSequence", 28)
      .doc("Reverses the first sequence_lens[i] entries along the time axis of each batch entry i.")
      .input("input", "T")
      .input("sequence_lens", "i64")
      .output("Y", "T")
      .type("T", kPlainDTypes)
      .attribute("batch_axis", 1)
      .attribute("time_axis", 0)
      .infer(infer_reverse_sequence)
      .fusion(FusionKind::Injective);
}

}  // namespace anfora::ops

#include "rules/operands.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/element_types.h"

namespace anfora::rules {
namespace {

using Ints = std::vector<int64_t>;

const AttributeValue* value_of(const Application& a, std::string_view name) {
  if (auto given = a.attributes.find(std::string(name)); given != a.attributes.end()) return &given->second;
  const ir::AttributeDeclaration* declared = a.op.find_attribute(name);
  return declared && declared->otherwise ? &*declared->otherwise : nullptr;
}

std::string get_text(const Application& a, std::string_view name) {
  const AttributeValue* value = value_of(a, name);
  const std::string* text = value ? std::get_if<std::string>(value) : nullptr;
  return text ? *text : "";
}

void set_values(Want& want, Ints values) {
  want.shape = {static_cast<int64_t>(values.size())};
  want.values = std::move(values);
}
void set_scalar(Want& want, int64_t value) {
  want.shape = {};
  want.values = Ints{value};
}

// In [0, rank); empty: out of range.
std::optional<int> resolve(int64_t axis, int rank) {
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank ? std::optional(static_cast<int>(axis)) : std::nullopt;
}

int64_t maybe_negative(Draw& draw, int64_t axis, int rank) { return draw.percent(30) ? axis - rank : axis; }

Ints shuffled(Draw& draw, size_t size) {
  Ints list(size);
  std::iota(list.begin(), list.end(), 0);
  for (size_t i = size; i > 1; --i) std::swap(list[i - 1], list[draw.below(i)]);
  return list;
}

Ints random_subset(Draw& draw, int size, size_t chance) {
  Ints subset;
  for (int i = 0; i < size; ++i) {
    if (draw.percent(chance)) subset.push_back(i);
  }
  return subset;
}

Ints divisors(int64_t n) {
  Ints list;
  for (int64_t d = 1; d <= n; ++d) {
    if (n % d == 0) list.push_back(d);
  }
  return list.empty() ? Ints{1} : list;
}

// Moving and reshaping ------------------------------------------------------------------------------------------

bool transpose(Application& a) {
  Ints reversed(a.result.size());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  Ints perm = a.get_ints("perm", reversed);
  if (perm.size() != a.result.size()) return false;
  a.operands[0].shape.assign(perm.size(), 0);
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] < 0 || perm[i] >= a.rank()) return false;
    a.operands[0].shape[static_cast<size_t>(perm[i])] = a.result[i];
  }
  return true;
}

// Another shape of as many elements: extents split, merged, and ones put in.
Shape regrouped(Draw& draw, const Shape& shape) {
  if (std::ranges::count(shape, 0)) return shape;
  Shape factors;
  for (int64_t extent : shape) {
    int64_t part = draw.of(divisors(extent));
    bool split = draw.percent(50) && part > 1 && part < extent;
    if (split) factors.push_back(part);
    factors.push_back(split ? extent / part : extent);
  }
  Shape merged;
  for (int64_t factor : factors) {
    if (!merged.empty() && draw.percent(40)) {
      merged.back() *= factor;
    } else {
      merged.push_back(factor);
    }
    if (draw.percent(15)) merged.push_back(1);
  }
  return merged;
}

Ints with_wildcards(Draw& draw, const Shape& target, const Shape& source, bool copies_zero) {
  Ints sizes(target.begin(), target.end());
  if (sizes.empty() || std::ranges::count(target, 0)) return sizes;
  if (draw.percent(30)) sizes[draw.below(sizes.size())] = -1;
  for (size_t i = 0; copies_zero && i < std::min(target.size(), source.size()); ++i) {
    if (sizes[i] == source[i] && draw.percent(20)) sizes[i] = 0;
  }
  return sizes;
}

bool reshape(Application& a) {
  if (!a.has(1)) return false;
  a.operands[0].shape = regrouped(a.draw, a.result);
  set_values(a.operands[1], with_wildcards(a.draw, a.result, a.operands[0].shape, a.get_int("allowzero", 0) == 0));
  return true;
}

bool flatten(Application& a) {
  if (a.rank() != 2) return false;
  int64_t axis = a.get_int("axis", 1);
  int rank = static_cast<int>(a.draw.between(std::abs(axis), std::abs(axis) + 2));
  auto split = axis == rank ? std::optional(rank) : resolve(axis, rank);
  if (!split) return false;
  Shape shape(static_cast<size_t>(rank), 1);
  if (*split > 0) shape[0] = a.result[0];
  if (*split < rank) shape[static_cast<size_t>(*split)] = a.result[1];
  if (rank == 0 && (a.result[0] != 1 || a.result[1] != 1)) return false;
  a.operands[0].shape = shape;
  return true;
}

// The result with ones put in at random places, which are the axes.
Shape with_ones(Application& a, Ints& axes) {
  int rank = a.rank() + static_cast<int>(a.draw.between(1, 2));
  Ints places = shuffled(a.draw, static_cast<size_t>(rank));
  places.resize(static_cast<size_t>(rank - a.rank()));
  std::ranges::sort(places);
  Shape shape = a.result;
  for (int64_t at : places) shape.insert(shape.begin() + at, 1);
  for (int64_t at : places) axes.push_back(maybe_negative(a.draw, at, rank));
  return shape;
}

bool squeeze(Application& a) {
  Ints axes;
  a.operands[0].shape = with_ones(a, axes);
  if (a.has(1)) set_values(a.operands[1], axes);
  return true;
}

bool unsqueeze(Application& a) {
  if (!a.has(1)) return false;
  Ints axes;
  Shape rest;
  for (int i = 0; i < a.rank(); ++i) {
    if (a.result[static_cast<size_t>(i)] == 1 && a.draw.percent(70)) {
      axes.push_back(maybe_negative(a.draw, i, a.rank()));
    } else {
      rest.push_back(a.result[static_cast<size_t>(i)]);
    }
  }
  if (axes.empty()) {  // a result of one more dimension, then
    Shape shape = with_ones(a, axes);
    rest = a.result;
  }
  a.operands[0].shape = rest;
  set_values(a.operands[1], axes);
  return true;
}

bool expand(Application& a) {
  if (!a.has(1)) return false;
  a.operands[0].shape = narrower_shape(a.draw, a.result);
  Ints sizes(a.result.begin(), a.result.end());
  Shape& from = a.operands[0].shape;
  for (size_t i = 0; i < from.size(); ++i) {  // where the operand has the extent, 1 does
    size_t at = sizes.size() - from.size() + i;
    if (from[i] == a.result[at] && a.draw.percent(30)) sizes[at] = 1;
  }
  if (a.draw.percent(15) && from.size() == sizes.size()) {
    size_t same = 0;
    while (same < sizes.size() && from[same] == a.result[same]) ++same;
    sizes.erase(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(same));
  }
  set_values(a.operands[1], sizes);
  return true;
}

bool tile(Application& a) {
  if (!a.has(1)) return false;
  Ints repeats;
  a.operands[0].shape.clear();
  for (int64_t extent : a.result) {
    repeats.push_back(a.draw.of(divisors(extent)));
    a.operands[0].shape.push_back(extent / repeats.back());
  }
  set_values(a.operands[1], repeats);
  return true;
}

// An extent in as many random parts.
Ints parts_of(Draw& draw, int64_t extent, size_t count) {
  Ints parts(count, 0);
  for (int64_t i = 0; i < extent; ++i) ++parts[draw.below(count)];
  return parts;
}

bool concat(Application& a) {
  auto axis = resolve(a.get_int("axis", 0), a.rank());
  if (!axis) return false;
  Ints parts = parts_of(a.draw, a.result[static_cast<size_t>(*axis)], a.operands.size());
  for (size_t i = 0; i < a.operands.size(); ++i) {
    a.operands[i].shape = a.result;
    a.operands[i].shape[static_cast<size_t>(*axis)] = parts[i];
  }
  return true;
}

bool split(Application& a) {
  auto axis = resolve(a.get_int("axis", 0), a.rank());
  if (!axis) return false;
  size_t at = static_cast<size_t>(*axis), count = a.item + 1 + a.draw.below(2);
  Ints parts;
  for (size_t i = 0; i < count; ++i) parts.push_back(random_extent(a.draw));
  bool even = !a.has(1);
  if (even) std::ranges::fill(parts, a.result[at]);
  parts[a.item] = a.result[at];
  if (int64_t outputs = a.get_int("num_outputs", 0); outputs > 0 || even) {
    if (outputs > 0) parts.assign(static_cast<size_t>(outputs), a.result[at]);
    a.attributes["num_outputs"] = static_cast<int64_t>(parts.size());
  }
  a.operands[0].shape = a.result;
  a.operands[0].shape[at] = std::reduce(parts.begin(), parts.end());
  if (a.has(1)) set_values(a.operands[1], parts);
  return true;
}

// Each chosen axis: a range of a longer one that gives the extent, forwards or backwards.
bool slice(Application& a) {
  if (!a.has(2)) return false;
  Ints axes = random_subset(a.draw, a.rank(), 60), starts, ends, steps;
  if (!a.has(3)) {
    axes.resize(static_cast<size_t>(a.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  a.operands[0].shape = a.result;
  for (int64_t& axis : axes) {
    int64_t want = a.result[static_cast<size_t>(axis)];
    int64_t step = a.has(4) ? a.draw.of(Ints{1, 1, 2, -1}) : 1, before = a.draw.between(0, 1),
            behind = a.draw.between(0, 1);
    int64_t extent = before + (want == 0 ? 0 : (want - 1) * std::abs(step) + 1) + behind;
    a.operands[0].shape[static_cast<size_t>(axis)] = extent;
    int64_t start = step > 0 ? before : extent - 1 - before;
    int64_t end = start + want * step;
    bool to_the_end = step > 0 && behind == 0;
    if (to_the_end) end = a.draw.percent(50) ? extent : std::numeric_limits<int64_t>::max();
    if (end < 0 || (step < 0 && want == 0)) end = std::numeric_limits<int64_t>::min() + 1;
    if (start >= 0 && extent > 0 && start < extent && a.draw.percent(25)) start -= extent;
    starts.push_back(start);
    ends.push_back(end);
    steps.push_back(step);
    axis = maybe_negative(a.draw, axis, a.rank());
  }
  set_values(a.operands[1], starts);
  set_values(a.operands[2], ends);
  if (a.has(3)) set_values(a.operands[3], axes);
  if (a.has(4)) set_values(a.operands[4], steps);
  return true;
}

bool pad(Application& a) {
  if (!a.has(1)) return false;
  Ints axes(static_cast<size_t>(a.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  if (a.has(3)) axes = random_subset(a.draw, a.rank(), 60);
  a.operands[0].shape = a.result;
  Ints pads(2 * axes.size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    for (size_t side : {i, i + axes.size()}) {
      int64_t& extent = a.operands[0].shape[static_cast<size_t>(axes[i])];
      int64_t amount = extent == 0 ? 0 : a.draw.between(0, std::min<int64_t>(extent, 1));
      if (get_text(a, "mode") != "constant" && extent <= 2 * amount) amount = 0;
      extent -= amount;
      pads[side] = amount;
    }
  }
  set_values(a.operands[1], pads);
  if (a.has(2)) a.operands[2].shape = {};
  if (a.has(3)) set_values(a.operands[3], axes);
  return true;
}

bool gather(Application& a) {
  int64_t given = a.get_int("axis", 0);
  int indices_rank = static_cast<int>(a.draw.below(static_cast<size_t>(std::min(a.rank(), 2)) + 1));
  auto axis = resolve(given, a.rank() - indices_rank + 1);
  if (!axis || !a.has(1)) return false;
  auto from = a.result.begin() + *axis, to = from + indices_rank;
  if (*axis + indices_rank > a.rank()) return false;
  int64_t extent = a.draw.between(1, 3);
  Want& indices = a.operands[1];
  indices.shape.assign(from, to);
  a.operands[0].shape.assign(a.result.begin(), from);
  a.operands[0].shape.push_back(extent);
  a.operands[0].shape.insert(a.operands[0].shape.end(), to, a.result.end());
  indices.bounds = Bounds{-extent, extent - 1};
  return true;
}

bool gather_elements(Application& a) {
  auto axis = resolve(a.get_int("axis", 0), a.rank());
  if (!axis || !a.has(1)) return false;
  int64_t extent = a.draw.between(1, 3);
  a.operands[0].shape = a.operands[1].shape = a.result;
  a.operands[0].shape[static_cast<size_t>(*axis)] = extent;
  a.operands[1].bounds = Bounds{-extent, extent - 1};
  return true;
}

bool shape_of(Application& a) {
  if (a.rank() != 1) return false;
  int rank = static_cast<int>(a.result[0] + a.get_int("start", 0));
  a.operands[0].shape = random_shape(a.draw, std::clamp(rank, 0, 4));
  return true;
}

bool any_shape(Application& a) {
  for (Want& want : a.operands) want.shape = random_shape(a.draw, static_cast<int>(a.draw.below(4)));
  return true;
}

bool constant_of_shape(Application& a) {
  set_values(a.operands[0], Ints(a.result.begin(), a.result.end()));
  return true;
}

bool range(Application& a) {
  if (a.rank() != 1 || !a.has(2)) return false;
  int64_t start = a.draw.between(0, 2), step = a.draw.of(Ints{1, 1, 2});
  set_scalar(a.operands[0], start);
  set_scalar(a.operands[1], start + step * a.result[0]);
  set_scalar(a.operands[2], step);
  return true;
}

// DepthToSpace, SpaceToDepth.
template <bool ToSpace>
bool blocks(Application& a) {
  int64_t size = a.get_int("blocksize", 2);
  if (a.rank() != 4 || size <= 0) return false;
  Shape& shape = a.operands[0].shape = a.result;
  if (ToSpace ? shape[2] % size || shape[3] % size : shape[1] % (size * size) != 0) return false;
  shape[1] = ToSpace ? shape[1] * size * size : shape[1] / (size * size);
  for (size_t i : {2, 3}) shape[i] = ToSpace ? shape[i] / size : shape[i] * size;
  return true;
}

// Products ----------------------------------------------------------------------------------------------------------

bool matmul(Application& a) {
  if (!a.has(1)) return false;
  Want &x = a.operands[0], &y = a.operands[1];
  int64_t inner = random_extent(a.draw);
  x.shape = y.shape = {inner};
  if (a.rank() == 0) return true;
  if (a.rank() == 1) {
    bool left = a.draw.percent(50);
    if (left) x.shape = {a.result[0], inner};
    if (!left) y.shape = {inner, a.result[0]};
    return true;
  }
  Shape batch(a.result.begin(), a.result.end() - 2);
  bool both = a.draw.percent(60), first = both || a.draw.percent(50);
  x.shape = first ? batch : narrower_shape(a.draw, batch);
  y.shape = both || !first ? batch : narrower_shape(a.draw, batch);
  x.shape.push_back(a.result[a.result.size() - 2]);
  x.shape.push_back(inner);
  y.shape.push_back(inner);
  y.shape.push_back(a.result.back());
  return true;
}

bool gemm(Application& a) {
  if (a.rank() != 2 || !a.has(1)) return false;
  int64_t inner = random_extent(a.draw);
  auto oriented = [](int64_t rows, int64_t columns, bool turned) {
    return turned ? Shape{columns, rows} : Shape{rows, columns};
  };
  a.operands[0].shape = oriented(a.result[0], inner, a.get_int("transA", 0) != 0);
  a.operands[1].shape = oriented(inner, a.result[1], a.get_int("transB", 0) != 0);
  if (a.has(2)) a.operands[2].broadcasts = true;
  return true;
}

struct Window {
  Ints kernel, strides, dilations, pads;
};
// The attributes of a convolution or a pool with so many spatial dimensions; empty: they do not fit those.
std::optional<Window> window_of(Application& a, size_t spatial) {
  Ints kernel;
  for (size_t i = 0; i < spatial; ++i) kernel.push_back(a.draw.of(Ints{1, 1, 2, 3}));
  Window w{a.get_ints("kernel_shape", kernel), a.get_ints("strides", Ints(spatial, 1)),
           a.get_ints("dilations", Ints(spatial, 1)), a.get_ints("pads", Ints(2 * spatial, 0))};
  bool fits = w.kernel.size() == spatial && w.strides.size() == spatial && w.dilations.size() == spatial &&
              w.pads.size() == 2 * spatial;
  return fits ? std::optional(w) : std::nullopt;
}

// Extents of the operand of a sliding window that give those of the result.
bool slide_back(const Application& a, const Window& w, Shape& shape) {
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    int64_t reach = w.dilations[i] * (w.kernel[i] - 1) + 1;
    int64_t extent = (a.result[i + 2] - 1) * w.strides[i] + reach - w.pads[i] - w.pads[i + w.kernel.size()];
    if (extent < 0) return false;
    shape.push_back(extent);
  }
  return true;
}

bool convolution(Application& a) {
  if (a.rank() < 3 || !a.has(1)) return false;
  auto window = window_of(a, a.result.size() - 2);
  int64_t group = a.get_int("group", 1), filters = a.result[1];
  if (!window || group <= 0 || filters % group != 0) return false;
  int64_t per_group = a.draw.between(1, 3);
  a.operands[0].shape = {a.result[0], group * per_group};
  a.operands[1].shape = {filters, per_group};
  a.operands[1].shape.insert(a.operands[1].shape.end(), window->kernel.begin(), window->kernel.end());
  if (a.has(2)) a.operands[2].shape = {filters};
  return slide_back(a, *window, a.operands[0].shape);
}

bool transposed_convolution(Application& a) {
  if (a.rank() < 3 || !a.has(1)) return false;
  size_t spatial = a.result.size() - 2;
  auto window = window_of(a, spatial);
  int64_t group = a.get_int("group", 1), filters = a.result[1];
  Ints more = a.get_ints("output_padding", Ints(spatial, 0));
  if (!window || group <= 0 || filters % group != 0 || more.size() != spatial) return false;
  int64_t channels = group * a.draw.between(1, 2);
  a.operands[0].shape = {a.result[0], channels};
  a.operands[1].shape = {channels, filters / group};
  for (size_t i = 0; i < spatial; ++i) {
    int64_t reach = window->dilations[i] * (window->kernel[i] - 1) + 1;
    int64_t steps = a.result[i + 2] - reach - more[i] + window->pads[i] + window->pads[i + spatial];
    if (steps < 0 || steps % window->strides[i] != 0) return false;
    a.operands[0].shape.push_back(steps / window->strides[i] + 1);
    a.operands[1].shape.push_back(window->kernel[i]);
  }
  if (a.has(2)) a.operands[2].shape = {filters};
  return true;
}

bool pool(Application& a) {
  if (a.rank() < 3) return false;
  auto window = window_of(a, a.result.size() - 2);
  if (!window) return false;
  a.attributes.emplace("kernel_shape", window->kernel);
  a.operands[0].shape = {a.result[0], a.result[1]};
  return slide_back(a, *window, a.operands[0].shape);
}

bool global_pool(Application& a) {
  if (a.rank() < 2) return false;
  a.operands[0].shape = a.result;
  for (size_t i = 2; i < a.result.size(); ++i) a.operands[0].shape[i] = a.draw.between(1, 3);
  return true;
}

// Normalizations ------------------------------------------------------------------------------------------------------

bool by_channel(Application& a) {
  if (a.rank() < 2) return false;
  a.operands[0].shape = a.result;
  for (size_t i = 1; i < a.operands.size(); ++i) a.operands[i].shape = {a.result[1]};
  return true;
}

bool by_last_axes(Application& a) {
  auto axis = resolve(a.get_int("axis", -1), a.rank());
  if (!axis) return false;
  a.operands[0].shape = a.result;
  for (size_t i = 1; i < a.operands.size(); ++i) a.operands[i].shape.assign(a.result.begin() + *axis, a.result.end());
  return true;
}

// Scale and zero point: of the tensor, or of each slice of an axis.
bool quantization(Application& a) {
  auto axis = resolve(a.get_int("axis", 1), a.rank());
  a.operands[0].shape = a.result;
  Shape scale = axis && a.draw.percent(50) ? Shape{a.result[static_cast<size_t>(*axis)]} : Shape{};
  for (size_t i = 1; i < a.operands.size(); ++i) a.operands[i].shape = scale;
  return true;
}

// Reductions and order ------------------------------------------------------------------------------------------------

bool reduction(Application& a) {
  bool keeps = a.get_int("keepdims", 1) != 0;
  int rank = keeps ? a.rank() : std::max(a.rank(), std::min(a.rank() + static_cast<int>(a.draw.below(3)), 5));
  Ints axes;
  if (keeps) {
    for (int i = 0; i < rank; ++i) {
      if (a.result[static_cast<size_t>(i)] == 1 && a.draw.percent(70)) axes.push_back(i);
    }
    if (axes.empty() && rank > 0) axes.push_back(a.draw.between(0, rank - 1));
  } else {
    axes = shuffled(a.draw, static_cast<size_t>(rank));
    axes.resize(static_cast<size_t>(rank - a.rank()));
    std::ranges::sort(axes);
  }
  bool all = a.operands.size() < 2 && a.get_int("noop_with_empty_axes", 0) == 0;
  if (all) {
    axes.resize(static_cast<size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  Shape& shape = a.operands[0].shape = a.result;
  for (int64_t axis : axes) {
    int64_t extent = random_extent(a.draw);
    if (keeps) shape[static_cast<size_t>(axis)] = extent;
    if (!keeps) shape.insert(shape.begin() + std::min<int64_t>(axis, static_cast<int64_t>(shape.size())), extent);
  }
  for (int64_t& axis : axes) axis = maybe_negative(a.draw, axis, rank);
  if (a.has(1)) set_values(a.operands[1], axes);
  return true;
}

// ArgMax, ArgMin: the axis is an attribute.
bool reduction_of_axis(Application& a) {
  bool keeps = a.get_int("keepdims", 1) != 0;
  auto axis = resolve(a.get_int("axis", 0), a.rank() + (keeps ? 0 : 1));
  if (!axis) return false;
  Shape& shape = a.operands[0].shape = a.result;
  int64_t extent = a.draw.between(1, 3);
  if (keeps) shape[static_cast<size_t>(*axis)] = extent;
  if (!keeps) shape.insert(shape.begin() + *axis, extent);
  return true;
}

bool cumulative(Application& a) {
  if (a.rank() == 0 || !a.has(1)) return false;
  a.operands[0].shape = a.result;
  set_scalar(a.operands[1], a.draw.between(-a.rank(), a.rank() - 1));
  return true;
}

bool top_k(Application& a) {
  auto axis = resolve(a.get_int("axis", -1), a.rank());
  if (!axis || !a.has(1)) return false;
  int64_t& extent = (a.operands[0].shape = a.result)[static_cast<size_t>(*axis)];
  set_values(a.operands[1], {extent});
  extent += a.draw.between(0, 2);
  return true;
}

bool triangle(Application& a) {
  a.operands[0].shape = a.result;
  if (a.has(1)) set_scalar(a.operands[1], a.draw.between(-2, 2));
  return a.rank() >= 2;
}

bool one_hot(Application& a) {
  int64_t given = a.get_int("axis", -1);
  auto axis = resolve(given, a.rank());
  if (!axis || !a.has(2)) return false;
  int64_t depth = a.result[static_cast<size_t>(*axis)];
  a.operands[0].shape = a.result;
  a.operands[0].shape.erase(a.operands[0].shape.begin() + *axis);
  a.operands[0].bounds = Bounds{0, std::max<int64_t>(depth, 1)};
  set_scalar(a.operands[1], depth);
  a.operands[2].shape = {2};
  return true;
}

// Element by element --------------------------------------------------------------------------------------------------

bool elementwise(Application& a) {
  std::vector<size_t> candidates;  // for the operand that gives the result its shape
  for (size_t i = 0; i < a.operands.size(); ++i) {
    if (!a.operands[i].is_small) candidates.push_back(i);
  }
  size_t full = candidates.empty() ? 0 : a.draw.of(candidates);
  for (size_t i = 0; i < a.operands.size(); ++i) {
    a.operands[i].shape = a.result;
    a.operands[i].broadcasts = i != full;
  }
  return true;
}

bool clip(Application& a) {
  for (size_t i = 0; i < a.operands.size(); ++i) a.operands[i].shape = i == 0 ? a.result : Shape{};
  return true;
}

bool slope(Application& a) {
  elementwise(a);
  a.operands[0].broadcasts = false;
  if (a.has(1)) a.operands[1].broadcasts = true;
  return true;
}

bool cast_like(Application& a) {
  if (!a.has(1)) return false;
  a.operands[0].shape = a.result;
  a.operands[1].dtype = a.dtype;
  a.operands[1].shape = random_shape(a.draw, static_cast<int>(a.draw.below(3)));
  return true;
}

bool dropout(Application& a) {
  clip(a);
  if (a.has(2)) a.operands[2].values = Ints{0};
  return true;
}

// "ij,jk->ik": a letter is a dimension of the result, or a new one.
bool einsum(Application& a) {
  std::string equation = get_text(a, "equation");
  std::erase(equation, ' ');
  size_t arrow = equation.find("->");
  if (arrow == std::string::npos || equation.find('.') != std::string::npos) return false;
  std::map<char, int64_t> extents;
  std::string result = equation.substr(arrow + 2), inputs = equation.substr(0, arrow) + ',';
  if (result.size() != a.result.size()) return false;
  for (size_t i = 0; i < result.size(); ++i) extents[result[i]] = a.result[i];
  for (Want& want : a.operands) {
    size_t end = inputs.find(',');
    if (end == std::string::npos) return false;
    want.shape.clear();
    for (char letter : inputs.substr(0, end)) {
      if (!extents.contains(letter)) extents[letter] = random_extent(a.draw);
      want.shape.push_back(extents[letter]);
    }
    inputs.erase(0, end + 1);
  }
  return inputs.empty();
}

struct OperandTable {
  std::string_view op;
  bool (*choose)(Application&);
};
constexpr OperandTable kOperands[] = {
    {"ArgMax", reduction_of_axis},
    {"ArgMin", reduction_of_axis},
    {"AveragePool", pool},
    {"BatchNormalization", by_channel},
    {"CastLike", cast_like},
    {"Clip", clip},
    {"Concat", concat},
    {"ConstantOfShape", constant_of_shape},
    {"Conv", convolution},
    {"ConvTranspose", transposed_convolution},
    {"CumProd", cumulative},
    {"CumSum", cumulative},
    {"DepthToSpace", blocks<true>},
    {"DequantizeLinear", quantization},
    {"Dropout", dropout},
    {"Einsum", einsum},
    {"Expand", expand},
    {"Flatten", flatten},
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"Gemm", gemm},
    {"GlobalAveragePool", global_pool},
    {"GlobalLpPool", global_pool},
    {"GlobalMaxPool", global_pool},
    {"GroupNormalization", by_channel},
    {"InstanceNormalization", by_channel},
    {"LayerNormalization", by_last_axes},
    {"LpPool", pool},
    {"MatMul", matmul},
    {"MatMulInteger", matmul},
    {"MaxPool", pool},
    {"OneHot", one_hot},
    {"PRelu", slope},
    {"Pad", pad},
    {"QuantizeLinear", quantization},
    {"RMSNormalization", by_last_axes},
    {"Range", range},
    {"Reshape", reshape},
    {"Shape", shape_of},
    {"Size", any_shape},
    {"Slice", slice},
    {"SpaceToDepth", blocks<false>},
    {"Split", split},
    {"Squeeze", squeeze},
    {"Tile", tile},
    {"TopK", top_k},
    {"Transpose", transpose},
    {"Trilu", triangle},
    {"Unsqueeze", unsqueeze},
};

// Attributes -----------------------------------------------------------------------------------------------------------

AttributeValue flag(const Application& a) { return a.draw.between(0, 1); }
AttributeValue permutation(const Application& a) { return shuffled(a.draw, a.result.size()); }
AttributeValue axis(const Application& a) {
  bool inserted = a.op.name.starts_with("Arg") || a.op.name == "Flatten";
  int rank = a.rank() + (inserted ? 1 : 0);
  return rank == 0 ? int64_t{0} : maybe_negative(a.draw, a.draw.between(0, rank - 1), rank);
}
AttributeValue axes(const Application& a) { return random_subset(a.draw, a.rank(), 50); }
AttributeValue element_type(const Application& a) { return static_cast<int64_t>(a.dtype); }
AttributeValue group(const Application& a) {
  return a.rank() < 2 ? int64_t{1} : a.draw.percent(40) ? int64_t{1} : a.draw.of(divisors(a.result[1]));
}
AttributeValue spatial(const Application& a, int64_t most) {
  Ints list;
  for (int i = 2; i < a.rank(); ++i) list.push_back(a.draw.between(1, most));
  return list;
}
AttributeValue kernel(const Application& a) { return spatial(a, 3); }
AttributeValue stride(const Application& a) { return spatial(a, 2); }
AttributeValue pads(const Application& a) {
  Ints list;
  for (int i = 2; i < a.rank(); ++i) list.insert(list.end(), {a.draw.between(0, 1), a.draw.between(0, 1)});
  return list;
}
AttributeValue factor(const Application& a) {
  return a.draw.of(std::vector<float>{0.5f, 1.0f, 2.0f, 0.25f, -1.0f, 1.702f});
}
AttributeValue epsilon(const Application& a) { return a.draw.of(std::vector<float>{1e-5f, 1e-6f, 1e-3f, 1e-12f}); }
AttributeValue small(const Application& a) { return a.draw.between(1, 3); }
AttributeValue bit_shift(const Application& a) { return std::string(a.draw.percent(50) ? "LEFT" : "RIGHT"); }
AttributeValue approximation(const Application& a) { return std::string(a.draw.percent(50) ? "none" : "tanh"); }
AttributeValue pad_mode(const Application& a) {
  return std::string(a.draw.of(std::vector<const char*>{"constant", "constant", "reflect", "edge", "wrap"}));
}
AttributeValue block_order(const Application& a) { return std::string(a.draw.percent(50) ? "DCR" : "CRD"); }
AttributeValue automatic(const Application& a) {
  return std::string(
      a.draw.of(std::vector<const char*>{"NOTSET", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"}));
}
AttributeValue one_element(const Application& a) {
  static constexpr int64_t kOne[] = {1};
  return random_tensor(a.dtype, kOne, Values::Normal, a.draw);
}
AttributeValue equation(const Application& a) {
  static const std::vector<const char*> kUnary = {"ij->ji", "ij->ij", "ijk->ikj", "ij->i", "ii->i"};
  static const std::vector<const char*> kBinary = {"ij,jk->ik",       "ij,kj->ik", "bij,bjk->bik",   "bhid,bhjd->bhij",
                                                   "bhij,bhjd->bhid", "ij,ij->ij", "i,j->ij",        "bij,jk->bik",
                                                   "bsh,hd->bsd",     "ji,jk->ik", "bthd,bshd->bhts"};
  return std::string(a.draw.of(a.operands.size() == 1 ? kUnary : kBinary));
}

struct AttributeTable {
  std::string_view op;  // empty: of any operator
  std::string_view name;
  AttributeValue (*choose)(const Application&);
};
constexpr AttributeTable kAttributes[] = {
    {"BitShift", "direction", bit_shift},
    {"ConstantOfShape", "value", one_element},
    {"DepthToSpace", "mode", block_order},
    {"Pad", "mode", pad_mode},
    {"Flatten", "axis", axis},
    {"", "allowzero", flag},
    {"", "alpha", factor},
    {"", "approximate", approximation},
    {"", "auto_pad", automatic},
    {"", "axes", axes},
    {"", "axis", axis},
    {"", "beta", factor},
    {"", "bias", factor},
    {"", "blocksize", small},
    {"", "ceil_mode", flag},
    {"", "count_include_pad", flag},
    {"", "detect_negative", flag},
    {"", "detect_positive", flag},
    {"", "dilations", stride},
    {"", "dtype", element_type},
    {"", "epsilon", epsilon},
    {"", "equation", equation},
    {"", "exclusive", flag},
    {"", "fmod", flag},
    {"", "gamma", factor},
    {"", "group", group},
    {"", "keepdims", flag},
    {"", "kernel_shape", kernel},
    {"", "lambd", factor},
    {"", "largest", flag},
    {"", "noop_with_empty_axes", flag},
    {"", "num_groups", group},
    {"", "num_outputs", small},
    {"", "p", small},
    {"", "pads", pads},
    {"", "perm", permutation},
    {"", "reverse", flag},
    {"", "saturate", flag},
    {"", "select_last_index", flag},
    {"", "sorted", flag},
    {"", "start", flag},
    {"", "strides", stride},
    {"", "to", element_type},
    {"", "transA", flag},
    {"", "transB", flag},
    {"", "upper", flag},
};

}  // namespace

int64_t Application::get_int(std::string_view name, int64_t otherwise) const {
  const AttributeValue* value = value_of(*this, name);
  const int64_t* integer = value ? std::get_if<int64_t>(value) : nullptr;
  return integer ? *integer : otherwise;
}

std::vector<int64_t> Application::get_ints(std::string_view name, std::vector<int64_t> otherwise) const {
  const AttributeValue* value = value_of(*this, name);
  const Ints* integers = value ? std::get_if<Ints>(value) : nullptr;
  return integers ? *integers : otherwise;
}

bool choose_operands(Application& a) {
  const auto* found = std::ranges::find(kOperands, a.op.qualified, &OperandTable::op);
  if (found != std::end(kOperands)) return !a.operands.empty() && found->choose(a);
  if (a.op.name.starts_with("Reduce")) return !a.operands.empty() && reduction(a);
  if (a.op.fusion == ir::FusionKind::Broadcast || a.op.fusion == ir::FusionKind::Elementwise) return elementwise(a);
  for (Want& want : a.operands) want.shape = a.result;
  return true;
}

std::optional<AttributeValue> choose_attribute(const Application& a, const ir::AttributeDeclaration& declaration) {
  for (const AttributeTable& entry : kAttributes) {
    if (entry.name == declaration.name && (entry.op.empty() || entry.op == a.op.qualified)) return entry.choose(a);
  }
  return declaration.otherwise;
}

int64_t random_extent(Draw& draw) {
  static constexpr int64_t kExtents[] = {1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 2, 3, 2, 3, 1, 2, 3, 0};
  return draw.of(kExtents);
}

Shape random_shape(Draw& draw, int rank) {
  Shape shape;
  for (int i = 0; i < rank; ++i) shape.push_back(random_extent(draw));
  if (rank > 0 && draw.percent(20)) std::ranges::fill(shape, shape[0]);  // where a wrong axis has the right extent
  return shape;
}

Shape narrower_shape(Draw& draw, const Shape& shape) {
  if (draw.percent(30)) return {};
  size_t dropped = draw.percent(50) ? 0 : draw.below(shape.size() + 1);
  Shape narrower(shape.begin() + static_cast<std::ptrdiff_t>(dropped), shape.end());
  for (int64_t& extent : narrower) {
    if (draw.percent(30)) extent = 1;
  }
  return narrower;
}

}  // namespace anfora::rules

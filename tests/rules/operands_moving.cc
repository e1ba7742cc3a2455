// Operators that move and reshape elements.
#include "rules/operand_tables.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace anfora::rules {
namespace {

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

constexpr OperandEntry kOperands[] = {
    {"Concat", concat},
    {"ConstantOfShape", constant_of_shape},
    {"DepthToSpace", blocks<true>},
    {"Expand", expand},
    {"Flatten", flatten},
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"Pad", pad},
    {"Range", range},
    {"Reshape", reshape},
    {"Shape", shape_of},
    {"Size", any_shape},
    {"Slice", slice},
    {"SpaceToDepth", blocks<false>},
    {"Split", split},
    {"Squeeze", squeeze},
    {"Tile", tile},
    {"Transpose", transpose},
    {"Unsqueeze", unsqueeze},
};

}  // namespace

std::span<const OperandEntry> moving_operands() { return kOperands; }

}  // namespace anfora::rules

// Reductions, order, and what works element by element.
#include "rules/operand_tables.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace anfora::rules {
namespace {

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

bool window(Application& a) {
  if (a.rank() != 1 || a.result[0] == 0) return false;
  set_scalar(a.operands[0], a.result[0]);
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

constexpr OperandEntry kOperands[] = {
    {"ArgMax", reduction_of_axis},
    {"ArgMin", reduction_of_axis},
    {"BlackmanWindow", window},
    {"CastLike", cast_like},
    {"Clip", clip},
    {"CumProd", cumulative},
    {"CumSum", cumulative},
    {"Dropout", dropout},
    {"Einsum", einsum},
    {"HammingWindow", window},
    {"HannWindow", window},
    {"OneHot", one_hot},
    {"PRelu", slope},
    {"TopK", top_k},
    {"Trilu", triangle},
};

}  // namespace

bool choose_reduced(Application& a) { return reduction(a); }
bool choose_elementwise(Application& a) { return elementwise(a); }
std::span<const OperandEntry> element_operands() { return kOperands; }

}  // namespace anfora::rules

#include "analysis/group_view.h"

#include <algorithm>

#include "ir/queries.h"
#include "kernels/generated/group_code.h"

namespace anfora::analysis {

using namespace ir;

namespace {

constexpr int64_t kLeastRow = 16;  // elements

bool cut_slice(const Apply& slice, std::vector<GroupView::Axis>& parts) {
  const auto starts = constant_integers(slice, 1);
  auto axes = constant_integers(slice, 3);
  if (!starts || (slice.has_input(3) && !axes)) return false;
  if (!axes) {
    axes.emplace();
    for (size_t i = 0; i < starts->size(); ++i) axes->push_back(static_cast<int64_t>(i));
  }
  if (slice.has_input(4)) {
    const auto steps = constant_integers(slice, 4);
    if (!steps || std::ranges::any_of(*steps, [](int64_t step) { return step != 1; })) return false;
  }
  if (axes->size() != starts->size()) return false;
  for (size_t i = 0; i < starts->size(); ++i) {
    const auto axis = static_cast<int>((*axes)[i]);
    const int64_t extent = extent_of(slice.input(0), axis), size = extent_of(&slice, axis);
    if (extent < 0 || size < 0) return false;
    const int64_t start = (*starts)[i] < 0 ? (*starts)[i] + extent : (*starts)[i];
    GroupView::Axis& part = parts[static_cast<size_t>(axis < 0 ? axis + std::ssize(parts) : axis)];
    part.begin = std::clamp<int64_t>(start, 0, extent - size);
    part.size = size;
  }
  return true;
}

bool cut_split(const Apply& split, size_t item, std::vector<GroupView::Axis>& parts) {
  const auto axis = axis_of(split, static_cast<int>(parts.size()));
  const Type* types = split.type();
  if (!axis || !types || !types->is_tuple()) return false;
  GroupView::Axis& part = parts[static_cast<size_t>(*axis)];
  for (size_t i = 0; i <= item; ++i) {
    const Type* type = types->element(i);
    if (!type->is_tensor() || !type->has_rank()) return false;
    const std::optional<int64_t> size = type->dim(static_cast<int>(*axis)).as_constant();
    if (!size) return false;
    if (i < item)
      part.begin += *size;
    else
      part.size = *size;
  }
  return true;
}

bool permute(const Apply& transpose, std::vector<GroupView::Axis>& parts) {
  const auto order = transpose.attributes().ints("perm");
  if (order.size() != parts.size() || order.back() + 1 != std::ssize(parts)) return false;
  for (size_t i = 0; i < order.size(); ++i) parts[i].from = order[i];
  return true;
}

}  // namespace

std::optional<GroupView> group_view(const Node& node) {
  const Apply* item = node.as(Primitive::TupleGetItem);
  const Apply* cut = item ? item->input(0)->as_apply() : node.as_apply();
  if (!cut || cut->primitive() != Primitive::Operation || cut->num_inputs() == 0) return std::nullopt;
  const Type *type = ranked_type(&node), *base = ranked_type(cut->input(0));
  if (!type || !base || type->rank() != base->rank() || type->rank() == 0 || !kernels::generated::is_group_dtype(type->dtype()) ||
      extent_of(&node, -1) < kLeastRow)
    return std::nullopt;
  // What it has besides goes into the function as it is.
  for (size_t i = 1; i < cut->num_inputs(); ++i) {
    if (!cut->input(i)->as_value()) return std::nullopt;
  }
  GroupView view{.cut = cut, .base = cut->input(0), .axes = {}};
  for (int i = 0; i < type->rank(); ++i) view.axes.push_back({.from = i});
  const Movement movement = cut->op().movement;
  bool is_cut = false;
  if (item)
    is_cut = cut->is("Split") && cut_split(*cut, static_cast<size_t>(item->attributes().require_int("index")), view.axes);
  else if (movement == Movement::Slice)
    is_cut = cut_slice(*cut, view.axes);
  else if (movement == Movement::Permutation)
    is_cut = permute(*cut, view.axes);
  return is_cut ? std::optional(std::move(view)) : std::nullopt;
}

const Node& read_of(const Parameter& parameter) {
  if (!parameter.has_one_use()) return parameter;
  auto only_user = [](const Node& node) -> const Node& { return *(*node.uses().begin()).user; };
  const Node* reader = &only_user(parameter);
  // Of parts, in a group one.
  if (reader->type() && reader->type()->is_tuple() && reader->has_one_use()) reader = &only_user(*reader);
  const auto view = group_view(*reader);
  return view && view->base == &parameter ? *reader : parameter;
}

}  // namespace anfora::analysis

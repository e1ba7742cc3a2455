#include "ops/layouts.h"

#include <algorithm>
#include <numeric>

#include "ir/module.h"
#include "ir/queries.h"

namespace anfora::ops {
namespace {

using namespace ir;
using Operand = ChannelsLast::Operand;

// Where an axis of [batch, channels, spatial…] is with the channels last; negative axes count from the end.
int64_t moved_axis(int64_t axis, int rank) {
  if (axis < 0) axis += rank;
  return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1;
}

DType dtype_of(const ChannelsLast& form, size_t input = 0) { return form.node->input(input)->type()->dtype(); }

// A gradient by the operands before it, of tensors with the layout.
bool with_moved_gradient(ChannelsLast& form) {
  form.operands[1] = Operand::Moved;
  form.attributes = form.attributes.with("channels_last", int64_t{1});
  return rank_of(form.node->input(1)) == form.rank;
}

}  // namespace

ChannelsLast::ChannelsLast(Apply& x, int r)
    : node(&x), rank(r), operands(x.num_inputs(), Operand::Same), op(&x.op()), attributes(x.attributes()) {
  operands[0] = Operand::Moved;
}

void ChannelsLast::lower() {
  op = &node->graph()->module().context().get_operator("Lowered" + node->op().name);
  attributes = attributes.with("channels_last", int64_t{1});
}

void ChannelsLast::replace(size_t input, const std::vector<int64_t>& integers) {
  constants.emplace_back(input, Tensor::vector<int64_t>(integers));
}

std::vector<int64_t> to_channels_last(int rank) {
  std::vector<int64_t> permutation{0};
  for (int axis = 2; axis < rank; ++axis) permutation.push_back(axis);
  permutation.push_back(1);
  return permutation;
}

std::vector<int64_t> to_channels_first(int rank) {
  std::vector<int64_t> permutation{0, rank - 1};
  for (int axis = 1; axis < rank - 1; ++axis) permutation.push_back(axis);
  return permutation;
}

bool along_moved_axes(ChannelsLast& form) {
  auto move = [&](std::vector<int64_t> axes) {
    for (int64_t& axis : axes) axis = moved_axis(axis, form.rank);
    return axes;
  };
  if (const std::optional<size_t> input = form.node->op().find_input("axes")) {
    const auto axes = constant_integers(*form.node, *input);
    // The other lists may have to be of its type.
    if (!axes || dtype_of(form, *input) != DType::I64) return false;
    form.replace(*input, move(*axes));
    return true;
  }
  std::vector<int64_t> axes = form.attributes.get_ints("axes");
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(form.rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  form.attributes = form.attributes.with("axes", move(std::move(axes)));
  return true;
}

bool channels_last_convolution(ChannelsLast& form) {
  form.lower();
  form.is_preferred = true;
  return dtype_of(form) == DType::F32;
}

// As long as it adds nothing.
bool channels_last_integer_convolution(ChannelsLast& form) {
  form.attributes = form.attributes.with("channels_last", int64_t{1});
  form.is_preferred = true;
  return !form.node->has_input(2) && !form.node->has_input(3);
}

// The gradient is of the weights: it is the same in both layouts.
bool channels_last_weight_gradient(ChannelsLast& form) {
  form.is_preferred = true;
  form.result_moves = false;
  return with_moved_gradient(form) && dtype_of(form) == DType::F32;
}

bool channels_last_pool(ChannelsLast& form) {
  const DType dtype = dtype_of(form);
  form.lower();
  form.attributes = form.attributes.without("storage_order");
  return (dtype == DType::F32 || dtype == DType::I8 || dtype == DType::U8) && form.node->attributes().get_int("storage_order", 0) == 0;
}

bool channels_last_pool_gradient(ChannelsLast& form) { return with_moved_gradient(form); }

bool channels_last_global_pool(ChannelsLast& form) {
  form.op = &form.node->graph()->module().context().get_operator(form.op->sums ? "ReduceMean" : "ReduceMax");
  form.attributes = {{"keepdims", int64_t{1}}};
  std::vector<int64_t> axes(static_cast<size_t>(form.rank) - 2);
  std::iota(axes.begin(), axes.end(), 1);
  form.operands.push_back(Operand::Same);
  form.replace(1, axes);
  return true;
}

bool channels_last_reduction(ChannelsLast& form) {
  auto axes = constant_integers(*form.node, 1);
  if (!axes || axes->empty()) return false;
  for (int64_t& axis : *axes) axis = moved_axis(axis, form.rank);
  std::ranges::sort(*axes);
  form.replace(1, *axes);
  if (form.attributes.get_int("keepdims", 1) != 0) return true;
  // What is left must be in the same order in both layouts: no channels, or nothing but them and the batch.
  form.result_moves = false;
  const auto spatial = std::ranges::count_if(*axes, [&](int64_t axis) { return axis > 0 && axis < form.rank - 1; });
  return axes->back() == form.rank - 1 || spatial == form.rank - 2;
}

// Its parameters may be of other types than x.
bool channels_last_normalization(ChannelsLast& form) {
  form.lower();
  form.attributes = form.attributes.without("training_mode").without("momentum").without("stash_type");
  auto is_f32 = [](const Use& use) { return use.node->type()->dtype() == DType::F32; };
  return std::ranges::all_of(form.node->operands(), is_f32) && form.node->attributes().get_int("training_mode", 0) == 0;
}

bool channels_last_concat(ChannelsLast& form) {
  std::ranges::fill(form.operands, Operand::Moved);
  form.attributes = form.attributes.with("axis", moved_axis(form.attributes.require_int("axis"), form.rank));
  return std::ranges::all_of(form.node->operands(), [&](const Use& use) { return rank_of(use.node) == form.rank; });
}

bool channels_last_split(ChannelsLast& form) {
  const int64_t axis = moved_axis(form.attributes.get_int("axis", 0), form.rank);
  form.attributes = axis == 0 ? form.attributes.without("axis") : form.attributes.with("axis", axis);
  form.all_results_move = true;
  return true;
}

bool channels_last_depth_to_space(ChannelsLast& form) {
  const int64_t block = form.attributes.require_int("blocksize");
  form.lower();
  form.attributes = {{"blocks", std::vector{block, block}}, {"mode", form.attributes.get_string("mode", "DCR")}};
  return true;
}

bool channels_last_pad(ChannelsLast& form) {
  const auto pads = constant_integers(*form.node, 1);
  const auto rank = static_cast<size_t>(form.rank);
  if (!pads || pads->size() != 2 * rank || form.node->has_input(3)) return false;
  std::vector<int64_t> moved;
  for (size_t side : {size_t{0}, rank}) {
    for (int64_t axis : to_channels_last(form.rank)) moved.push_back((*pads)[side + static_cast<size_t>(axis)]);
  }
  form.replace(1, moved);
  return true;
}

}  // namespace anfora::ops

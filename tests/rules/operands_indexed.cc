// The same for operators that are given places: indices, and regions of images.
#include "rules/operand_tables.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace anfora::rules {
namespace {

// Indices ---------------------------------------------------------------------------------------------------------------

bool gather_nd(Application& a) {
  Shape data = random_shape(a.draw, static_cast<int>(a.draw.between(1, 4)));
  std::ranges::replace(data, 0, 2);
  int64_t batch = a.draw.percent(30) && data.size() > 1 ? 1 : 0;
  int64_t depth = a.draw.between(1, static_cast<int64_t>(data.size()) - batch);
  a.attributes["batch_dims"] = batch;
  a.operands[0].shape = data;
  Shape indices(data.begin(), data.begin() + batch);
  if (a.draw.percent(70)) indices.push_back(random_extent(a.draw));
  int64_t least = *std::min_element(data.begin() + batch, data.begin() + batch + depth);
  indices.push_back(depth);
  a.operands[1].shape = indices;
  a.operands[1].bounds = Bounds{-least, least - 1};
  return true;
}

bool scatter_nd(Application& a) {
  Shape data = random_shape(a.draw, static_cast<int>(a.draw.between(1, 3)));
  std::ranges::replace(data, 0, 2);
  int64_t depth = a.draw.between(1, static_cast<int64_t>(data.size())), count = a.draw.between(0, 2);
  a.operands[0].shape = data;
  Shape updates(data.begin() + depth, data.end());
  updates.insert(updates.begin(), count);
  int64_t least = *std::min_element(data.begin(), data.begin() + depth);
  a.operands[1].shape = {count, depth};
  a.operands[1].bounds = Bounds{-least, least - 1};
  a.operands[2].shape = updates;
  // Without a reduction the order of equal places is open.
  bool ordered = count <= 1 || get_text(a, "reduction") != "none";
  return ordered;
}

bool scatter_elements(Application& a) {
  Shape data = a.result;
  std::ranges::replace(data, 0, 2);
  auto axis = resolve(a.get_int("axis", 0), static_cast<int>(data.size()));
  if (!axis) return false;
  Shape indices = data;
  for (int64_t& extent : indices) extent = a.draw.between(1, extent);
  if (get_text(a, "reduction") == "none") indices[static_cast<size_t>(*axis)] = 1;
  a.operands[0].shape = data;
  a.operands[1].shape = a.operands[2].shape = indices;
  a.operands[1].bounds = Bounds{-data[static_cast<size_t>(*axis)], data[static_cast<size_t>(*axis)] - 1};
  return true;
}

bool tensor_scatter(Application& a) {
  int64_t batch = some(a.draw), length = a.draw.between(2, 4), width = some(a.draw), count = a.draw.between(1, 2);
  a.attributes["axis"] = int64_t{-2};
  a.operands[0].shape = {batch, length, width};
  a.operands[1].shape = {batch, count, width};
  if (a.has(2)) {
    a.operands[2].shape = {batch};
    a.operands[2].bounds = Bounds{0, length - count};
  }
  return true;
}

bool compress(Application& a) {
  a.operands[0].shape = a.result;
  if (!a.attributes.contains("axis")) {
    a.operands[1].shape = {std::min<int64_t>(element_count(a.result), 4)};
    return true;
  }
  auto axis = resolve(a.get_int("axis", 0), static_cast<int>(a.result.size()));
  if (axis) a.operands[1].shape = {a.result[static_cast<size_t>(*axis)]};
  return axis.has_value();
}

bool center_crop_pad(Application& a) {
  a.operands[0].shape = a.result;
  a.attributes.erase("axes");
  Ints sizes;
  for (size_t i = 0; i < a.result.size(); ++i) sizes.push_back(a.draw.between(1, 4));
  set_values(a.operands[1], sizes);
  return true;
}

// Images -----------------------------------------------------------------------------------------------------------------

bool resize(Application& a) {
  Shape shape = {some(a.draw), some(a.draw), a.draw.between(1, 4), a.draw.between(1, 4)};
  if (a.draw.percent(30)) shape.pop_back();
  a.operands.resize(4, a.operands[0]);
  a.operands[0].shape = shape;
  bool by_scale = a.draw.percent(50);
  a.operands[1].absent = true;
  Want& given = a.operands[by_scale ? 2 : 3];
  a.operands[by_scale ? 3 : 2].absent = true;
  Ints list(shape.begin(), shape.end());
  for (size_t i = 0; i < list.size(); ++i) {
    if (by_scale) list[i] = i < 2 ? 1 : a.draw.between(1, 3);
    if (!by_scale && i >= 2) list[i] = a.draw.between(1, 5);
  }
  given.absent = false;
  given.dtype = by_scale ? DType::F32 : DType::I64;
  set_values(given, list);
  if (by_scale) a.operands.resize(3);
  return true;
}

bool grid_sample(Application& a) {
  a.operands[0].shape = {some(a.draw), some(a.draw), a.draw.between(1, 4), a.draw.between(1, 4)};
  a.operands[1].shape = {a.operands[0].shape[0], some(a.draw), some(a.draw), 2};
  return true;
}
bool affine_grid(Application& a) {
  int64_t batch = some(a.draw);
  a.operands[0].shape = {batch, 2, 3};
  set_values(a.operands[1], {batch, some(a.draw), some(a.draw), some(a.draw)});
  return true;
}
bool roi_align(Application& a) {
  int64_t batch = some(a.draw), regions = some(a.draw);
  a.operands[0].shape = {batch, some(a.draw), a.draw.between(2, 4), a.draw.between(2, 4)};
  a.operands[1].shape = {regions, 4};
  a.operands[2].shape = {regions};
  a.operands[2].bounds = Bounds{0, batch - 1};
  return true;
}
bool col2im(Application& a) {
  int64_t height = a.draw.between(1, 2), width = a.draw.between(1, 2);
  int64_t rows = height + a.draw.between(0, 1), columns = width + a.draw.between(0, 1);
  for (const char* name : {"dilations", "pads", "strides"}) a.attributes.erase(name);
  a.operands[0].shape = {some(a.draw), some(a.draw) * height * width, (rows - height + 1) * (columns - width + 1)};
  set_values(a.operands[1], {rows, columns});
  set_values(a.operands[2], {height, width});
  return true;
}
bool max_unpool(Application& a) {
  int64_t extent = some(a.draw);
  a.attributes["kernel_shape"] = Ints{2};
  a.attributes["strides"] = Ints{2};
  a.attributes.erase("pads");
  a.operands[0].shape = a.operands[1].shape = {1, 1, extent};
  a.operands[1].bounds = Bounds{0, 2 * extent - 1};
  leave_out(a, {2});
  return true;
}
bool non_max_suppression(Application& a) {
  int64_t batch = some(a.draw), boxes = some(a.draw);
  a.operands[0].shape = {batch, boxes, 4};
  a.operands[1].shape = {batch, some(a.draw), boxes};
  if (a.has(2)) set_scalar(a.operands[2], some(a.draw));
  make_scalars(a, {3, 4});
  return true;
}

constexpr OperandEntry kOperands[] = {
    {"AffineGrid", affine_grid},
    {"CenterCropPad", center_crop_pad},
    {"Col2Im", col2im},
    {"Compress", compress},
    {"GatherND", gather_nd},
    {"GridSample", grid_sample},
    {"MaxUnpool", max_unpool},
    {"NonMaxSuppression", non_max_suppression},
    {"Resize", resize},
    {"RoiAlign", roi_align},
    {"ScatterElements", scatter_elements},
    {"ScatterND", scatter_nd},
    {"TensorScatter", tensor_scatter},
};

}  // namespace

std::span<const OperandEntry> indexed_operands() { return kOperands; }

}  // namespace anfora::rules

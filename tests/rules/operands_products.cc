// Products, windows and normalizations.
#include "rules/operand_tables.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace anfora::rules {
namespace {

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

constexpr OperandEntry kOperands[] = {
    {"AveragePool", pool},
    {"BatchNormalization", by_channel},
    {"Conv", convolution},
    {"ConvTranspose", transposed_convolution},
    {"DequantizeLinear", quantization},
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
    {"QuantizeLinear", quantization},
    {"RMSNormalization", by_last_axes},
};

}  // namespace

std::span<const OperandEntry> product_operands() { return kOperands; }

}  // namespace anfora::rules

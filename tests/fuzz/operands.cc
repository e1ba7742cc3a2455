#include "fuzz/operands.h"

#include <algorithm>
#include <cmath>

namespace anfora::fuzz {
namespace {

using rules::Application;
using rules::Bounds;
using rules::Draw;
using rules::random_extent;
using rules::random_shape;
using rules::Want;
using Ints = std::vector<int64_t>;
using Texts = std::vector<const char*>;

void set_values(Want& want, Ints values) {
  want.shape = {static_cast<int64_t>(values.size())};
  want.values = std::move(values);
}
void set_scalar(Want& want, int64_t value) {
  want.shape = {};
  want.values = Ints{value};
}
int64_t some(Draw& draw) { return draw.between(1, 3); }
std::string text_of(const Application& a, const char* name, const char* otherwise) {
  auto given = a.attributes.find(name);
  const std::string* text = given == a.attributes.end() ? nullptr : std::get_if<std::string>(&given->second);
  return text ? *text : otherwise;
}
std::optional<size_t> axis_of(const Application& a, int64_t otherwise, const Shape& shape) {
  int64_t axis = a.get_int("axis", otherwise), rank = static_cast<int64_t>(shape.size());
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank ? std::optional(static_cast<size_t>(axis)) : std::nullopt;
}

// Every operand as the table of the rules would have it, but for those that are left out.
void leave_out(Application& a, std::initializer_list<size_t> operands) {
  for (size_t i : operands) {
    if (a.has(i)) a.operands[i].absent = true;
  }
}

// Sequences -------------------------------------------------------------------------------------------------------------

// X, W, R, B, sequence_lens, initial_h (, initial_c, P) with so many gates.
template <int64_t Gates>
bool recurrent(Application& a) {
  int64_t steps = some(a.draw), batch = some(a.draw), features = some(a.draw), hidden = some(a.draw);
  int64_t directions = text_of(a, "direction", "forward") == "bidirectional" ? 2 : 1;
  bool batch_first = a.get_int("layout", 0) != 0;
  a.attributes["hidden_size"] = hidden;
  a.operands[0].shape = batch_first ? Shape{batch, steps, features} : Shape{steps, batch, features};
  a.operands[1].shape = {directions, Gates * hidden, features};
  a.operands[2].shape = {directions, Gates * hidden, hidden};
  if (a.has(3)) a.operands[3].shape = {directions, 2 * Gates * hidden};
  if (a.has(4)) {
    a.operands[4].shape = {batch};
    a.operands[4].bounds = Bounds{1, steps};
    a.operands[4].absent = a.draw.percent(60);
  }
  for (size_t i : {5, 6}) {
    if (a.has(i))
      a.operands[i].shape = batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  }
  if (a.has(7)) a.operands[7].shape = {directions, 3 * hidden};
  return true;
}

bool reverse_sequence(Application& a) {
  int64_t steps = some(a.draw), batch = some(a.draw);
  bool batch_first = a.draw.percent(50);
  a.attributes["batch_axis"] = static_cast<int64_t>(batch_first ? 0 : 1);
  a.attributes["time_axis"] = static_cast<int64_t>(batch_first ? 1 : 0);
  a.operands[0].shape = batch_first ? Shape{batch, steps} : Shape{steps, batch};
  if (a.draw.percent(50)) a.operands[0].shape.push_back(random_extent(a.draw));
  a.operands[1].shape = {batch};
  a.operands[1].bounds = Bounds{1, steps};
  return true;
}

bool attention(Application& a) {
  int64_t batch = some(a.draw), shared = a.draw.between(1, 2), heads = shared * a.draw.between(1, 2);
  int64_t width = 2 * a.draw.between(1, 2), rows = some(a.draw), keys = some(a.draw);
  bool packed = a.draw.percent(40);
  auto shape = [&](int64_t count, int64_t length) {
    return packed ? Shape{batch, length, count * width} : Shape{batch, count, length, width};
  };
  if (packed) {
    a.attributes["q_num_heads"] = heads;
    a.attributes["kv_num_heads"] = shared;
  } else {
    a.attributes.erase("q_num_heads");
    a.attributes.erase("kv_num_heads");
  }
  a.operands[0].shape = shape(heads, rows);
  a.operands[1].shape = a.operands[2].shape = shape(shared, keys);
  leave_out(a, {4, 5, 6});
  if (a.has(3)) a.operands[3].shape = a.draw.percent(50) ? Shape{rows, keys} : Shape{batch, 1, rows, keys};
  return true;
}

bool rotary_embedding(Application& a) {
  int64_t batch = some(a.draw), heads = some(a.draw), length = some(a.draw), half = a.draw.between(1, 2);
  int64_t cached = length + a.draw.between(0, 2);
  a.attributes.erase("num_heads");
  a.operands[0].shape = {batch, heads, length, 2 * half};
  a.operands[1].shape = a.operands[2].shape = a.has(3) ? Shape{cached, half} : Shape{batch, length, half};
  if (a.has(3)) {
    a.operands[3].shape = {batch, length};
    a.operands[3].bounds = Bounds{0, cached - 1};
  }
  return true;
}

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
  bool ordered = count <= 1 || text_of(a, "reduction", "none") != "none";
  return ordered;
}

bool scatter_elements(Application& a) {
  Shape data = a.result;
  std::ranges::replace(data, 0, 2);
  auto axis = axis_of(a, 0, data);
  if (!axis) return false;
  Shape indices = data;
  for (int64_t& extent : indices) extent = a.draw.between(1, extent);
  if (text_of(a, "reduction", "none") == "none") indices[*axis] = 1;
  a.operands[0].shape = data;
  a.operands[1].shape = a.operands[2].shape = indices;
  a.operands[1].bounds = Bounds{-data[*axis], data[*axis] - 1};
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
  auto axis = axis_of(a, 0, a.result);
  if (axis) a.operands[1].shape = {a.result[*axis]};
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

// Quantized --------------------------------------------------------------------------------------------------------------

void scalars(Application& a, std::initializer_list<size_t> operands) {
  for (size_t i : operands) {
    if (a.has(i)) a.operands[i].shape = {};
  }
}

// The shapes of an image and of filters for it.
void image_and_filters(Application& a, size_t image, size_t filters, std::optional<size_t> bias) {
  int64_t group = a.draw.percent(70) ? 1 : 2, per_group = a.draw.between(1, 2), count = group * a.draw.between(1, 2);
  int spatial = static_cast<int>(a.draw.between(1, 2));
  for (const char* name : {"kernel_shape", "strides", "pads", "dilations", "auto_pad"}) a.attributes.erase(name);
  a.attributes["group"] = group;
  a.operands[image].shape = {some(a.draw), group * per_group};
  a.operands[filters].shape = {count, per_group};
  Ints kernel, pads;
  for (int i = 0; i < spatial; ++i) {
    kernel.push_back(some(a.draw));
    a.operands[filters].shape.push_back(kernel.back());
    a.operands[image].shape.push_back(kernel.back() + a.draw.between(0, 2));
  }
  if (a.draw.percent(50)) a.attributes["kernel_shape"] = kernel;
  if (a.draw.percent(30)) a.attributes["pads"] = Ints(static_cast<size_t>(2 * spatial), 1);
  if (bias && a.has(*bias)) a.operands[*bias].shape = {count};
}

bool convolution_of_integers(Application& a) {
  image_and_filters(a, 0, 1, std::nullopt);
  scalars(a, {2, 3});
  return true;
}
bool quantized_convolution(Application& a) {
  image_and_filters(a, 0, 3, 8);
  scalars(a, {1, 2, 4, 5, 6, 7});
  return true;
}
bool quantized_product(Application& a) {
  int64_t rows = some(a.draw), inner = some(a.draw), columns = some(a.draw);
  a.operands[0].shape = {rows, inner};
  a.operands[3].shape = {inner, columns};
  scalars(a, {1, 2, 4, 5, 6, 7});
  return true;
}
bool product_of_integers(Application& a) {
  int64_t rows = some(a.draw), inner = some(a.draw), columns = some(a.draw);
  a.operands[0].shape = {rows, inner};
  a.operands[1].shape = {inner, columns};
  scalars(a, {2, 3});
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
  scalars(a, {3, 4});
  return true;
}

// Mathematics ------------------------------------------------------------------------------------------------------------

bool square(Application& a) {
  int64_t size = some(a.draw);
  a.operands[0].shape = a.draw.percent(50) ? Shape{size, size} : Shape{some(a.draw), size, size};
  return true;
}
bool matrix(Application& a) {
  a.operands[0].shape = {random_extent(a.draw), random_extent(a.draw)};
  return true;
}
bool fourier(Application& a) {
  a.operands[0].shape = {some(a.draw), a.draw.between(2, 5), 1};
  if (a.has(1)) set_scalar(a.operands[1], a.draw.between(2, 5));
  if (a.has(2)) set_scalar(a.operands[2], 1);
  return true;
}
bool short_time_fourier(Application& a) {
  a.operands.resize(4, a.operands[0]);
  a.operands[0].shape = {some(a.draw), 8, 1};
  set_scalar(a.operands[1], 2);
  a.operands[2].absent = true;
  set_scalar(a.operands[3], 4);
  a.operands[1].dtype = a.operands[3].dtype = DType::I64;
  a.operands[3].absent = false;
  return true;
}
bool window(Application& a) {
  set_scalar(a.operands[0], a.draw.between(1, 6));
  return true;
}
bool loss(Application& a) {
  int64_t batch = some(a.draw), classes = some(a.draw);
  a.operands[0].shape = {batch, classes};
  a.operands[1].shape = {batch};
  if (a.draw.percent(40)) {
    int64_t extent = some(a.draw);
    a.operands[0].shape.push_back(extent);
    a.operands[1].shape.push_back(extent);
  }
  a.operands[1].bounds = Bounds{0, classes - 1};
  if (a.has(2)) a.operands[2].shape = {classes};
  return true;
}
bool causal_convolution(Application& a) {
  int64_t batch = some(a.draw), channels = some(a.draw), length = some(a.draw), kernel = some(a.draw);
  a.operands[0].shape = {batch, channels, length};
  a.operands[1].shape = {channels, 1, kernel};
  if (a.has(2)) a.operands[2].shape = {channels};
  if (a.has(3)) a.operands[3].shape = {batch, channels, kernel - 1};
  return true;
}

struct OperandTable {
  std::string_view op;
  bool (*choose)(Application&);
};
constexpr OperandTable kOperands[] = {
    {"AffineGrid", affine_grid},
    {"Attention", attention},
    {"BlackmanWindow", window},
    {"CausalConvWithState", causal_convolution},
    {"CenterCropPad", center_crop_pad},
    {"Col2Im", col2im},
    {"Compress", compress},
    {"ConvInteger", convolution_of_integers},
    {"DFT", fourier},
    {"Det", square},
    {"EyeLike", matrix},
    {"GRU", recurrent<3>},
    {"GatherND", gather_nd},
    {"GridSample", grid_sample},
    {"HammingWindow", window},
    {"HannWindow", window},
    {"LSTM", recurrent<4>},
    {"MatMulInteger", product_of_integers},
    {"MaxUnpool", max_unpool},
    {"NegativeLogLikelihoodLoss", loss},
    {"NonMaxSuppression", non_max_suppression},
    {"QLinearConv", quantized_convolution},
    {"QLinearMatMul", quantized_product},
    {"RNN", recurrent<1>},
    {"Resize", resize},
    {"ReverseSequence", reverse_sequence},
    {"RoiAlign", roi_align},
    {"RotaryEmbedding", rotary_embedding},
    {"STFT", short_time_fourier},
    {"ScatterElements", scatter_elements},
    {"ScatterND", scatter_nd},
    {"SoftmaxCrossEntropyLoss", loss},
    {"TensorScatter", tensor_scatter},
};

// Attributes -------------------------------------------------------------------------------------------------------------

AttributeValue of(const Application& a, const Texts& texts) { return std::string(a.draw.of(texts)); }
AttributeValue element_type(const Application& a) { return static_cast<int64_t>(a.dtype); }
AttributeValue small_odd(const Application& a) { return 2 * a.draw.between(0, 2) + 1; }
AttributeValue one_or_two(const Application& a) { return a.draw.between(1, 2); }
AttributeValue diagonal(const Application& a) { return a.draw.between(-2, 2); }
AttributeValue flag(const Application& a) { return a.draw.between(0, 1); }
AttributeValue some_axis(const Application& a) {
  return a.rank() == 0 ? int64_t{0} : a.draw.between(-a.rank(), a.rank() - 1);
}
AttributeValue scatter_mode(const Application& a) { return of(a, {"none", "none", "add", "mul", "max", "min"}); }
AttributeValue loss_mode(const Application& a) { return of(a, {"mean", "sum", "none"}); }
AttributeValue direction(const Application& a) { return of(a, {"forward", "reverse", "bidirectional"}); }
AttributeValue resize_mode(const Application& a) { return of(a, {"nearest", "linear", "cubic"}); }
AttributeValue sample_mode(const Application& a) { return of(a, {"linear", "nearest", "cubic"}); }
AttributeValue nearest_mode(const Application& a) {
  return of(a, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
}
AttributeValue coordinates(const Application& a) {
  return of(a, {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"});
}
AttributeValue padding_mode(const Application& a) { return of(a, {"zeros", "border", "reflection"}); }
AttributeValue region_mode(const Application& a) { return of(a, {"avg", "max"}); }
AttributeValue activation(const Application& a) { return of(a, {"none", "silu"}); }
AttributeValue pattern(const Application& a) { return of(a, {"a.*", ".*1.*", "", "b|anfora"}); }
AttributeValue window_type(const Application& a) { return static_cast<int64_t>(a.dtype); }

struct AttributeTable {
  std::string_view op;  // empty: of any operator
  std::string_view name;
  AttributeValue (*choose)(const Application&);
};
constexpr AttributeTable kAttributes[] = {
    {"CausalConvWithState", "activation", activation},
    {"Compress", "axis", some_axis},
    {"EyeLike", "k", diagonal},
    {"GridSample", "mode", sample_mode},
    {"GridSample", "padding_mode", padding_mode},
    {"LRN", "size", small_odd},
    {"LpNormalization", "p", one_or_two},
    {"NegativeLogLikelihoodLoss", "reduction", loss_mode},
    {"RegexFullMatch", "pattern", pattern},
    {"Resize", "coordinate_transformation_mode", coordinates},
    {"Resize", "mode", resize_mode},
    {"Resize", "nearest_mode", nearest_mode},
    {"RoiAlign", "mode", region_mode},
    {"ScatterElements", "reduction", scatter_mode},
    {"ScatterND", "reduction", scatter_mode},
    {"SoftmaxCrossEntropyLoss", "reduction", loss_mode},
    {"Unique", "axis", some_axis},
    {"", "align_corners", flag},
    {"", "antialias", flag},
    {"", "direction", direction},
    {"", "input_forget", flag},
    {"", "interleaved", flag},
    {"", "inverse", flag},
    {"", "is_causal", flag},
    {"", "layout", flag},
    {"", "linear_before_reset", flag},
    {"", "onesided", flag},
    {"", "output_datatype", window_type},
    {"", "output_dtype", element_type},
    {"", "periodic", flag},
};

}  // namespace

bool choose_operands(Application& a) {
  const auto* found = std::ranges::find(kOperands, a.op.qualified, &OperandTable::op);
  if (found == std::end(kOperands)) return rules::choose_operands(a);
  size_t required =
      static_cast<size_t>(std::ranges::count(a.op.inputs, ir::Formal::Arity::Required, &ir::Formal::arity));
  return a.operands.size() >= required && found->choose(a);
}

std::optional<AttributeValue> choose_attribute(const Application& a, const ir::AttributeDeclaration& declaration) {
  for (const AttributeTable& entry : kAttributes) {
    if (entry.name == declaration.name && (entry.op.empty() || entry.op == a.op.qualified)) return entry.choose(a);
  }
  return rules::choose_attribute(a, declaration);
}

}  // namespace anfora::fuzz

// What older operator sets say in another way: the inverse of the importer's upgrades, one line for each change. What
// follows from the history of an operator alone (a type, an input or an attribute that came later) needs no line.
#include <algorithm>
#include <cstring>
#include <limits>

#include "frontend/onnx/downgrade.h"
#include "kernels/reference/window.h"
#include "support/element_types.h"

namespace anfora::onnx {
namespace {

using Ints = std::vector<int64_t>;

// Parts of rules --------------------------------------------------------------------------------------

// A constant input of integers becomes an attribute.
bool input_to_attribute(Fitting& node, size_t i, std::string_view name) {
  if (!node.has_input(i)) return true;
  auto values = node.integers(i);
  if (!values) return false;
  node.set(name, *values);
  node.omit_input(i);
  return true;
}

bool all_equal(const Ints& values, int64_t expected) {
  return std::ranges::all_of(values, [&](int64_t v) { return v == expected; });
}

// Axes in [0, rank); empty when an axis is negative and the rank is not known.
std::optional<Ints> positive(Ints axes, std::optional<int> rank) {
  for (int64_t& axis : axes) {
    if (axis >= 0) continue;
    if (!rank) return std::nullopt;
    axis += *rank;
  }
  return axes;
}

Tensor empty_f32() { return Tensor::vector<float>({}); }

// The constant numbers of input i as attribute values.
std::optional<std::vector<float>> floats(const Fitting& node, size_t i) {
  const Tensor* t = node.constant(i);
  if (!t || t->dtype() != DType::F32) return std::nullopt;
  return std::vector<float>(t->data<float>().begin(), t->data<float>().end());
}

// An attribute that means nothing where all its numbers are 1.
bool drop_ones(Fitting& node, std::string_view name) {
  if (all_equal(node.attributes().get_ints(name), 1)) node.erase(name);
  return true;
}

// Two types of which it is not known that they differ.
bool may_agree(const ir::Type* a, const ir::Type* b) {
  return !a || !b || !a->is_tensor() || !b->is_tensor() || a->dtype() == b->dtype();
}

// Axes --------------------------------------------------------------------------------------------------

// Operator set 11 brought negative axes. Where the rank is not known, they stay: runtimes take them all the same.
bool positive_axes(Fitting& node) {
  std::optional<int> rank = node.rank(0);
  if (node.op_type() == "Unsqueeze" && rank) {
    *rank += static_cast<int>(node.attributes().get_ints("axes").size());
  }
  if (node.has("axis")) {
    if (auto axis = positive({node.get_int("axis")}, rank)) node.set("axis", axis->front());
  }
  if (node.has("axes")) {
    if (auto axes = positive(node.attributes().get_ints("axes"), rank)) node.set("axes", *axes);
  }
  return true;
}

// The same where the axes are an input.
bool positive_slice_axes(Fitting& node) {
  auto axes = node.integers(3);
  if (!axes || std::ranges::none_of(*axes, [](int64_t axis) { return axis < 0; })) return true;
  auto all = positive(*axes, node.rank(0));
  if (!all) return true;
  bool narrow = node.dtype(3) == DType::I32;  // starts, ends and axes are of one type
  node.set_input(3, narrow ? Tensor::vector<int32_t>(std::vector<int32_t>(all->begin(), all->end()))
                           : Tensor::vector<int64_t>(*all));
  return true;
}

bool axes_to_attribute(Fitting& node) { return input_to_attribute(node, 1, "axes"); }

bool reduction_axes_to_attribute(Fitting& node) {
  bool none = !node.has_input(1);
  if (auto axes = node.integers(1)) none = axes->empty();
  if (none && node.get_int("noop_with_empty_axes")) return false;
  node.erase("noop_with_empty_axes");
  if (!none) return axes_to_attribute(node);
  node.omit_input(1);
  return true;
}

// Before operator set 13, softmax normalized over all axes from `axis` on, not over that one.
bool softmax_over_rest(Fitting& node) {
  int64_t axis = node.get_int("axis");
  std::optional<int> rank = node.rank(0);
  if (!rank) return axis == -1;
  if (axis < 0) axis += *rank;
  for (int64_t rest = axis + 1; rest < *rank; ++rest) {
    if (node.dim(0, rest) != 1) return false;
  }
  node.set("axis", axis);
  return true;
}

// Elementwise ---------------------------------------------------------------------------------------------

// Before operator set 7, only the second operand was broadcast: one element, or a run of the first one's dimensions,
// from an axis on.
bool legacy_broadcast(Fitting& node) {
  const ir::Type *a = node.input_type(0), *b = node.input_type(1);
  if (!a || !b || !a->has_rank() || !b->has_rank()) return false;
  auto same = [&](int first_axis, std::span<const ir::Dim> dims) {
    for (size_t i = 0; i < dims.size(); ++i) {
      if (!provably_equal(a->dim(first_axis + static_cast<int>(i)), dims[i])) return false;
    }
    return true;
  };
  if (a->rank() == b->rank() && same(0, b->dims())) return true;
  node.set("broadcast", int64_t{1});
  bool one_element = std::ranges::all_of(b->dims(), [](ir::Dim d) { return d.as_constant() == 1; });
  if (b->rank() > a->rank()) return false;
  if (one_element || same(a->rank() - b->rank(), b->dims())) return true;

  // Dimensions of 1 around the run are no part of it.
  int first = 0, last = b->rank();
  while (b->dim(first).as_constant() == 1) ++first;
  while (b->dim(last - 1).as_constant() == 1) --last;
  int axis = a->rank() - b->rank() + first;
  if (!same(axis, b->dims().subspan(static_cast<size_t>(first), static_cast<size_t>(last - first)))) return false;
  Ints ones;
  for (int i = 0; i < b->rank(); ++i) {
    if (i < first || i >= last) ones.push_back(i);
  }
  // By the letter they must not be there; runtimes of the time passed over them, and models of the time have them.
  const bool may_stay = node.source() < 7;
  if (node.squeeze_input(1, ones, !may_stay)) node.set("axis", int64_t{axis});
  return true;
}

bool no_broadcast(Fitting& node) {
  for (size_t i = 1; i < node.num_inputs(); ++i) {
    const ir::Type *a = node.input_type(0), *b = node.input_type(i);
    if (!a || !b || !a->has_rank() || !b->has_rank() || a->rank() != b->rank()) return false;
    for (int axis = 0; axis < a->rank(); ++axis) {
      if (!provably_equal(a->dim(axis), b->dim(axis))) return false;
    }
  }
  return true;
}

bool one_dtype(Fitting& node) { return may_agree(node.input_type(0), node.input_type(1)); }

bool slope_per_channel(Fitting& node) {
  std::optional<int> rank = node.rank(0), slope_rank = node.rank(1);
  if (!rank || !slope_rank) return false;
  Ints ones, rest;
  for (int axis = 0; axis < *slope_rank; ++axis) (node.dim(1, axis) == 1 ? ones : rest).push_back(axis);
  if (rest.empty()) return true;
  if (rest.size() != 1 || rest[0] + *rank - *slope_rank != 1) return false;  // not along the channels alone
  node.squeeze_input(1, ones);
  return true;
}

bool bounds_to_attributes(Fitting& node) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (size_t i : {size_t{1}, size_t{2}}) {
    std::string_view name = i == 1 ? "min" : "max";
    if (node.has_input(i)) {
      auto bound = node.number(i);
      if (!bound) return false;
      node.set(name, *bound);
    } else if (node.dtype(0) == DType::F64) {
      return false;  // no bound would mean that of float
    } else {
      node.set(name, i == 1 ? -kLargest : kLargest);
    }
  }
  node.omit_input(2);
  node.omit_input(1);
  return true;
}

// Without training, the mask is all true since operator set 12; before, what it is was left open, and models that left
// it open may go on so.
bool ratio_to_attribute(Fitting& node) {
  if (node.has_output(1) && node.source() >= 12) return false;
  if (node.has_input(2)) {
    const Tensor* training = node.constant(2);
    if (!training || training->size() != 1 || training->data<bool>()[0]) return false;
    node.omit_input(2);
  }
  if (node.has_input(1)) {
    auto ratio = node.number(1);
    if (!ratio) return false;
    node.set("ratio", *ratio);
    node.omit_input(1);
  }
  node.erase("seed");
  return true;
}

bool cast_saturates(Fitting& node) {  // matters to eight-bit floats only, which came with the attribute
  node.erase("saturate");
  return true;
}

bool cast_rounds(Fitting& node) {  // matters to f8e8m0 only, which came with the attribute
  node.erase("round_mode");
  return true;
}

bool cast_like_is_cast(Fitting& node) {
  if (node.dtype(1) == DType::Undefined) return false;
  node.set("to", static_cast<int64_t>(node.dtype(1)));
  node.omit_input(1);
  node.rename("Cast");
  return true;
}

bool cast_to_name(Fitting& node) {
  static constexpr std::string_view kNames[] = {"UNDEFINED", "FLOAT",  "UINT8",  "INT8",   "UINT16",
                                                "INT16",     "INT32",  "INT64",  "STRING", "BOOL",
                                                "FLOAT16",   "DOUBLE", "UINT32", "UINT64"};
  size_t to = static_cast<size_t>(node.get_int("to"));
  if (to >= std::size(kNames)) return false;
  node.set("to", std::string(kNames[to]));
  return true;
}

// Shapes ----------------------------------------------------------------------------------------------------

bool slice_to_attributes(Fitting& node) {
  if (node.has_input(4)) {
    auto steps = node.integers(4);
    if (!steps || !all_equal(*steps, 1)) return false;
    node.omit_input(4);
  }
  return input_to_attribute(node, 3, "axes") && input_to_attribute(node, 2, "ends") &&
         input_to_attribute(node, 1, "starts");
}

bool pads_of_all_axes(Fitting& node) {
  if (!node.has_input(3)) return true;
  auto pads = node.integers(1);
  std::optional<int> rank = node.rank(0);
  auto axes = node.integers(3);
  if (axes) axes = positive(*axes, rank);
  if (!pads || !rank || !axes || pads->size() != 2 * axes->size()) return false;
  size_t r = static_cast<size_t>(*rank), n = axes->size();
  Ints all(2 * r, 0);
  for (size_t i = 0; i < n; ++i) {
    size_t axis = static_cast<size_t>((*axes)[i]);
    if (axis >= r) return false;
    all[axis] = (*pads)[i];
    all[r + axis] = (*pads)[n + i];
  }
  node.set_input(1, Tensor::vector<int64_t>(all));
  node.omit_input(3);
  return true;
}

bool pads_do_not_wrap(Fitting& node) { return node.get_string("mode") != "wrap"; }

bool pads_to_attribute(Fitting& node) {
  if (node.has_input(2)) {
    auto value = node.number(2);
    if (!value) return false;
    node.set("value", *value);
    node.omit_input(2);
  }
  return input_to_attribute(node, 1, "pads");
}

bool pads_are_paddings(Fitting& node) {
  node.set("paddings", node.attributes().get_ints("pads"));
  node.erase("pads");
  return true;
}

// `num_outputs` may leave a smaller last part; without it the parts are equal.
bool split_without_count(Fitting& node) {
  node.erase("num_outputs");
  int64_t n = static_cast<int64_t>(node.num_outputs());
  std::optional<int64_t> length = node.dim(0, node.get_int("axis"));
  if (node.has_input(1) || !length || *length % n == 0) return true;
  int64_t part = (*length + n - 1) / n;
  Ints parts(static_cast<size_t>(n), part);
  parts.back() = *length - part * (n - 1);
  node.set_input(1, Tensor::vector<int64_t>(parts));
  return parts.back() >= 0;
}

bool split_to_attribute(Fitting& node) { return input_to_attribute(node, 1, "split"); }

// Some of the lengths are a slice of all of them.
bool whole_shape(Fitting& node) {
  if (!node.has("start") && !node.has("end")) return true;
  int64_t start = node.get_int("start"), end = std::numeric_limits<int64_t>::max();
  if (node.has("end")) end = node.get_int("end");
  node.erase("start");
  node.erase("end");
  node.set_input(0, node.add_helper("Shape", {node.input(0)}, {}, nullptr));
  node.set_input(1, Tensor::vector<int64_t>(Ints{start}));
  node.set_input(2, Tensor::vector<int64_t>(Ints{end}));
  node.rename("Slice");
  return true;
}

bool shape_to_attribute(Fitting& node) { return input_to_attribute(node, 1, "shape"); }

bool top_k_largest(Fitting& node) {
  if (node.get_int("largest") != 1) return false;
  node.erase("largest");
  node.erase("sorted");
  return true;
}

bool top_k_to_attribute(Fitting& node) {
  auto k = node.integers(1);
  if (!k || k->size() != 1) return false;
  node.set("k", k->front());
  node.omit_input(1);
  return true;
}

bool scatter_without_extrema(Fitting& node) {
  std::string reduction = node.get_string("reduction");
  return reduction != "max" && reduction != "min";
}

bool scatter_elements_is_scatter(Fitting& node) {
  if (node.get_string("reduction") != "none") return false;
  node.erase("reduction");
  node.rename("Scatter");
  return true;
}

// Images -------------------------------------------------------------------------------------------------------

bool resize_all_axes(Fitting& node) {
  if (!node.has("axes")) return true;
  std::optional<int> rank = node.rank(0);
  auto axes = positive(node.attributes().get_ints("axes"), rank);
  if (!rank || !axes || node.has_input(1)) return false;
  size_t r = static_cast<size_t>(*rank);
  if (node.has_input(2)) {
    auto scales = floats(node, 2);
    if (!scales || scales->size() != axes->size()) return false;
    std::vector<float> all(r, 1.0f);
    for (size_t i = 0; i < axes->size(); ++i) all[static_cast<size_t>((*axes)[i])] = (*scales)[i];
    node.set_input(2, Tensor::vector<float>(all));
  }
  if (node.has_input(3)) {
    auto sizes = node.integers(3);
    if (!sizes || sizes->size() != axes->size()) return false;
    Ints all;
    for (size_t axis = 0; axis < r; ++axis) {
      auto found = std::ranges::find(*axes, static_cast<int64_t>(axis));
      auto length = found == axes->end() ? node.dim(0, static_cast<int64_t>(axis))
                                         : std::optional((*sizes)[static_cast<size_t>(found - axes->begin())]);
      if (!length) return false;
      all.push_back(*length);
    }
    node.set_input(3, Tensor::vector<int64_t>(all));
  }
  node.erase("axes");
  return true;
}

bool resize_is_not_symmetric(Fitting& node) {
  return node.get_string("coordinate_transformation_mode") != "half_pixel_symmetric";
}

bool resize_needs_all_inputs(Fitting& node) {
  if (!node.has_input(1)) node.set_input(1, empty_f32());
  if (!node.has_input(2)) node.set_input(2, empty_f32());
  return true;
}

// Operator set 10 had scales only, and one way to find the place in the source.
bool resize_by_scales(Fitting& node) {
  const Tensor* scales = node.constant(2);
  std::string mode = node.get_string("mode");
  if (node.has_input(3) || (scales && scales->size() == 0)) return false;
  if (node.get_string("coordinate_transformation_mode") != "asymmetric" || mode == "cubic") return false;
  if (mode == "nearest") {  // rounded up where it reduces
    std::vector<float> factors = floats(node, 2).value_or(std::vector<float>());
    bool reduces = std::ranges::any_of(factors, [](float s) { return s < 1; });
    bool enlarges = std::ranges::any_of(factors, [](float s) { return s > 1; });
    if ((reduces && enlarges) || node.get_string("nearest_mode") != (reduces ? "ceil" : "floor")) return false;
  }
  node.set_input(1, node.input(2));
  node.omit_input(2);
  for (std::string_view name :
       {"coordinate_transformation_mode", "nearest_mode", "cubic_coeff_a", "exclude_outside", "extrapolation_value"}) {
    node.erase(name);
  }
  return true;
}

bool resize_is_upsample(Fitting& node) {
  auto scales = floats(node, 1);
  if (scales && std::ranges::any_of(*scales, [](float s) { return s < 1; })) return false;
  node.rename("Upsample");
  return true;
}

bool scales_to_attribute(Fitting& node) {
  auto scales = floats(node, 1);
  if (!scales) return false;
  node.set("scales", *scales);
  node.omit_input(1);
  return true;
}

bool scales_of_height_and_width(Fitting& node) {
  std::vector<float> scales = node.attributes().get_floats("scales");
  if (scales.size() != 4 || scales[0] != 1 || scales[1] != 1) return false;
  node.set("height_scale", scales[2]);
  node.set("width_scale", scales[3]);
  node.erase("scales");
  if (node.get_string("mode") == "linear") node.set("mode", std::string("bilinear"));
  return true;
}

bool grid_sample_of_images(Fitting& node) {
  if (node.rank(0) != 4) return false;
  std::string mode = node.get_string("mode");
  if (mode == "linear") node.set("mode", std::string("bilinear"));
  if (mode == "cubic") node.set("mode", std::string("bicubic"));
  return true;
}

bool roi_align_without_shift(Fitting& node) {
  if (node.get_string("coordinate_transformation_mode") != "output_half_pixel") return false;
  node.erase("coordinate_transformation_mode");
  return true;
}

// Convolution-like, normalization, recurrent -----------------------------------------------------------------

// Operator set 22 dropped a last window that begins in the padding.
bool no_window_in_padding(Fitting& node) {
  const ir::Type *in = node.input_type(0), *out = node.output_type(0);
  auto from = in ? in->static_shape() : std::nullopt, to = out ? out->static_shape() : std::nullopt;
  std::string auto_pad = node.get_string("auto_pad");
  if (!node.get_int("ceil_mode") || !from || !to || (auto_pad != "NOTSET" && auto_pad != "VALID")) return true;
  const kernels::Window window = kernels::read_window(node.attributes(), from->size() - 2);
  for (size_t i = 0; i < window.rank(); ++i) {
    const kernels::WindowAxis& axis = window.axes[i];
    const int64_t room = (*from)[i + 2] + axis.pad_begin + axis.pad_end - axis.reach();
    if ((*to)[i + 2] != kernels::ceil_div(room, axis.stride) + 1) return false;
  }
  return true;
}

bool drop_unit_dilations(Fitting& node) { return drop_ones(node, "dilations"); }

bool order_of_norm_is_float(Fitting& node) {
  node.set("p", static_cast<float>(node.get_int("p")));
  return true;
}

bool gemm_needs_addend(Fitting& node) {
  if (node.has_input(2)) return true;
  if (node.dtype(0) == DType::Undefined) return false;
  node.set_input(2, Tensor::zeros(node.dtype(0), {}));
  return true;
}

bool gemm_broadcasts(Fitting& node) {
  node.set("broadcast", int64_t{1});
  return true;
}

bool one_dtype_of_all(Fitting& node) {
  for (size_t i = 1; i < node.num_inputs(); ++i) {
    if (!may_agree(node.input_type(0), node.input_type(i))) return false;
  }
  return true;
}

// One element for all that were equal in each of so many runs; of a value, what was expanded so.
bool one_of_each_run(Fitting& node, size_t i, int64_t runs) {
  if (const Tensor* t = node.constant(i)) {
    if (t->rank() != 1 || runs < 1 || t->size() % runs != 0) return false;
    const size_t bytes = element_bytes(t->dtype()), length = static_cast<size_t>(t->size() / runs);
    Tensor first = Tensor::allocate(t->dtype(), {&runs, 1});
    const auto* from = static_cast<const std::byte*>(t->raw());
    auto* to = static_cast<std::byte*>(first.raw());
    for (size_t run = 0; run < static_cast<size_t>(runs); ++run) {
      for (size_t k = 0; k < length; ++k) {
        const std::byte* element = from + (run * length + k) * bytes;
        if (k == 0) std::memcpy(to + run * bytes, element, bytes);
        if (std::memcmp(to + run * bytes, element, bytes) != 0) return false;
      }
    }
    node.set_input(i, std::move(first));
    return true;
  }
  if (node.dim(i, 0) == runs) return true;
  // Reshape(Expand(Unsqueeze(vector, 1), [runs, …]), [-1])
  ValueId rows = node.operand_of(node.input(i), "Reshape"), column = node.operand_of(rows, "Expand");
  ValueId vector = node.operand_of(column, "Unsqueeze");
  auto has_rank = [&](ValueId value, int rank) {
    const ir::Type* type = value == kOmitted ? nullptr : node.type_of(value);
    return type && type->is_tensor() && type->has_rank() && type->rank() == rank;
  };
  if (!has_rank(rows, 2) || !has_rank(column, 2) || !has_rank(vector, 1)) return false;
  const ir::Type* type = node.type_of(column);
  if (type->dim(0).as_constant() != runs || type->dim(1).as_constant() != 1) return false;
  node.skip_node(i, vector);
  return true;
}

bool scale_per_group(Fitting& node) {
  const int64_t groups = node.get_int("num_groups");
  return one_of_each_run(node, 1, groups) && one_of_each_run(node, 2, groups);
}

bool is_test(Fitting& node) {
  node.set("is_test", int64_t{1});
  return true;
}

bool batch_norm_consumes(Fitting& node) {
  node.set("consumed_inputs", Ints{0, 0, 0, 1, 1});
  return true;
}

bool recurrent_output_sequence(Fitting& node) {
  if (node.has_output(0)) node.set("output_sequence", int64_t{1});
  return true;
}

// Quantization --------------------------------------------------------------------------------------------------

bool scale_per_tensor(Fitting& node) {
  std::optional<int> rank = node.rank(1);
  if (rank == 1 && node.dim(1, 0) == 1) {
    node.squeeze_input(1, {0});
    if (node.rank(2) == 1) node.squeeze_input(2, {0});
    rank = 0;
  }
  if (rank != 0) return false;
  node.erase("axis");
  return true;
}

bool one_float_dtype(Fitting& node) { return may_agree(node.input_type(0), node.input_type(1)); }

bool dequantize_to_scale_dtype(Fitting& node) {
  if (node.get_int("output_dtype") == static_cast<int64_t>(node.dtype(1))) node.erase("output_dtype");
  return may_agree(node.input_type(1), node.output_type(0));
}

bool dtype_of_zero_point(Fitting& node) {
  DType to = static_cast<DType>(node.get_int("output_dtype"));
  node.erase("output_dtype");
  if (node.has_input(2) || to == DType::Undefined || to == DType::U8) return true;
  const ir::Type* scale = node.input_type(1);
  auto shape = scale ? scale->static_shape() : std::nullopt;
  if (!shape) return false;
  node.set_input(2, Tensor::zeros(to, *shape));
  return true;
}

// Signal --------------------------------------------------------------------------------------------------------

bool dft_axis_to_attribute(Fitting& node) {
  int64_t axis = -2;
  if (node.has_input(2)) {
    auto values = node.integers(2);
    if (!values || values->size() != 1) return false;
    axis = values->front();
  }
  node.set("axis", axis);
  node.omit_input(2);
  return true;
}

// Control flow ---------------------------------------------------------------------------------------------------

// Before operator set 11, both branches had to give results of the same shape.
bool branches_agree(Fitting& node) {
  auto then_types = node.subgraph_output_types(0), else_types = node.subgraph_output_types(1);
  for (size_t i = 0; i < std::min(then_types.size(), else_types.size()); ++i) {
    const ir::Type *a = then_types[i], *b = else_types[i];
    if (!a || !b || !a->is_tensor() || !b->is_tensor() || !a->has_rank() || !b->has_rank()) continue;
    if (a->rank() != b->rank()) return false;
    for (int axis = 0; axis < a->rank(); ++axis) {
      auto m = a->dim(axis).as_constant(), n = b->dim(axis).as_constant();
      if (m && n && *m != *n) return false;
    }
  }
  return true;
}

// The table -------------------------------------------------------------------------------------------------

// Of one operator, the newest change first: each rule may rely on those above it.
constexpr DowngradeRule kRules[] = {
    {"Add", 7, legacy_broadcast},
    {"And", 7, legacy_broadcast},
    {"ArgMax", 11, positive_axes},
    {"ArgMin", 11, positive_axes},
    {"AveragePool", 22, no_window_in_padding},
    {"AveragePool", 19, drop_unit_dilations},
    {"BatchNormalization", 15, one_dtype_of_all},
    {"BatchNormalization", 7, is_test},
    {"BatchNormalization", 6, batch_norm_consumes},
    {"Cast", 24, cast_rounds},
    {"Cast", 19, cast_saturates},
    {"Cast", 6, cast_to_name},
    {"CastLike", 24, cast_rounds},
    {"CastLike", 19, cast_saturates},
    {"CastLike", 15, cast_like_is_cast},
    {"Clip", 11, bounds_to_attributes},
    {"Compress", 11, positive_axes},
    {"Concat", 11, positive_axes},
    {"DFT", 20, dft_axis_to_attribute},
    {"DequantizeLinear", 23, dequantize_to_scale_dtype},
    {"DequantizeLinear", 13, scale_per_tensor},
    {"Div", 7, legacy_broadcast},
    {"Dropout", 12, ratio_to_attribute},
    {"Dropout", 7, is_test},
    {"Equal", 7, legacy_broadcast},
    {"Flatten", 11, positive_axes},
    {"GRU", 7, recurrent_output_sequence},
    {"Gather", 11, positive_axes},
    {"Gemm", 11, gemm_needs_addend},
    {"Gemm", 7, gemm_broadcasts},
    {"GlobalLpPool", 2, order_of_norm_is_float},
    {"Greater", 7, legacy_broadcast},
    {"GridSample", 20, grid_sample_of_images},
    {"GroupNormalization", 21, scale_per_group},
    {"Hardmax", 13, softmax_over_rest},
    {"If", 11, branches_agree},
    {"LSTM", 7, recurrent_output_sequence},
    {"Less", 7, legacy_broadcast},
    {"LogSoftmax", 13, softmax_over_rest},
    {"LpPool", 22, no_window_in_padding},
    {"LpPool", 18, drop_unit_dilations},
    {"LpPool", 2, order_of_norm_is_float},
    {"Max", 8, no_broadcast},
    {"MaxPool", 22, no_window_in_padding},
    {"MaxPool", 10, drop_unit_dilations},
    {"Mean", 8, no_broadcast},
    {"Min", 8, no_broadcast},
    {"Mul", 7, legacy_broadcast},
    {"Or", 7, legacy_broadcast},
    {"PRelu", 7, slope_per_channel},
    {"Pad", 19, pads_do_not_wrap},
    {"Pad", 18, pads_of_all_axes},
    {"Pad", 11, pads_to_attribute},
    {"Pad", 2, pads_are_paddings},
    {"Pow", 12, one_dtype},
    {"Pow", 7, legacy_broadcast},
    {"QuantizeLinear", 23, one_float_dtype},
    {"QuantizeLinear", 21, dtype_of_zero_point},
    {"QuantizeLinear", 13, scale_per_tensor},
    {"RNN", 7, recurrent_output_sequence},
    {"ReduceL1", 18, reduction_axes_to_attribute},
    {"ReduceL1", 11, positive_axes},
    {"ReduceL2", 18, reduction_axes_to_attribute},
    {"ReduceL2", 11, positive_axes},
    {"ReduceLogSum", 18, reduction_axes_to_attribute},
    {"ReduceLogSum", 11, positive_axes},
    {"ReduceLogSumExp", 18, reduction_axes_to_attribute},
    {"ReduceLogSumExp", 11, positive_axes},
    {"ReduceMax", 18, reduction_axes_to_attribute},
    {"ReduceMax", 11, positive_axes},
    {"ReduceMean", 18, reduction_axes_to_attribute},
    {"ReduceMean", 11, positive_axes},
    {"ReduceMin", 18, reduction_axes_to_attribute},
    {"ReduceMin", 11, positive_axes},
    {"ReduceProd", 18, reduction_axes_to_attribute},
    {"ReduceProd", 11, positive_axes},
    {"ReduceSum", 13, reduction_axes_to_attribute},
    {"ReduceSum", 11, positive_axes},
    {"ReduceSumSquare", 18, reduction_axes_to_attribute},
    {"ReduceSumSquare", 11, positive_axes},
    {"Reshape", 5, shape_to_attribute},
    {"Resize", 19, resize_is_not_symmetric},
    {"Resize", 18, resize_all_axes},
    {"Resize", 13, resize_needs_all_inputs},
    {"Resize", 11, resize_by_scales},
    {"Resize", 10, resize_is_upsample},
    {"RoiAlign", 16, roi_align_without_shift},
    {"ScatterElements", 18, scatter_without_extrema},
    {"ScatterElements", 11, scatter_elements_is_scatter},
    {"ScatterND", 18, scatter_without_extrema},
    {"Shape", 15, whole_shape},
    {"Slice", 11, positive_slice_axes},
    {"Slice", 10, slice_to_attributes},
    {"Softmax", 13, softmax_over_rest},
    {"Split", 18, split_without_count},
    {"Split", 13, split_to_attribute},
    {"Split", 11, positive_axes},
    {"Squeeze", 13, axes_to_attribute},
    {"Squeeze", 11, positive_axes},
    {"Sub", 7, legacy_broadcast},
    {"Sum", 8, no_broadcast},
    {"TopK", 11, top_k_largest},
    {"TopK", 11, positive_axes},
    {"TopK", 10, top_k_to_attribute},
    {"Unsqueeze", 13, axes_to_attribute},
    {"Unsqueeze", 11, positive_axes},
    {"Upsample", 9, scales_to_attribute},
    {"Upsample", 7, scales_of_height_and_width},
    {"Xor", 7, legacy_broadcast},
};
static_assert(std::ranges::is_sorted(kRules, [](const DowngradeRule& a, const DowngradeRule& b) {
  return a.op_type != b.op_type ? a.op_type < b.op_type : a.before > b.before;
}));

}  // namespace

std::span<const DowngradeRule> downgrade_rules(std::string_view op_type) {
  auto [first, last] = std::ranges::equal_range(kRules, op_type, {}, &DowngradeRule::op_type);
  return {first, last};
}

}  // namespace anfora::onnx

// Resizing, sampling and putting together images.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/infer_helpers.h"
#include "ops/layouts.h"
#include "ops/registry.h"
#include "support/element_types.h"

namespace anfora::ops {
namespace {

std::optional<std::vector<float>> constant_floats(InferenceContext& ctx, size_t i) {
  const Tensor* tensor = ctx.constant(i);
  if (!tensor) return std::nullopt;
  std::vector<float> values;
  dispatch<Floats>(tensor->dtype(), [&]<class T>() {
    for (T value : tensor->data<T>()) values.push_back(static_cast<float>(value));
  });
  return values;
}

// Whether input i is given and not the empty tensor that older models pass for an absent one.
bool is_given(InferenceContext& ctx, size_t i) {
  if (!ctx.has_input(i)) return false;
  auto dims = ctx.dims(i);
  return !(dims && dims->size() == 1 && (*dims)[0].as_constant() == 0);
}

// floor(dim · scale), in float as at run time; exact for a symbolic dimension when the scale or its inverse is whole.
Dim scaled(InferenceContext& ctx, Dim dim, float scale) {
  if (!(scale > 0)) ctx.fail(fmt::format("a scale is {}", scale));
  if (auto constant = dim.as_constant()) {
    const float output = std::floor(static_cast<float>(*constant) * scale);
    if (!(output < 0x1p62f)) ctx.fail(fmt::format("a dimension of {} would be scaled by {}", *constant, scale));
    return ctx.dim(static_cast<int64_t>(output));
  }
  // Beyond 2^24 the product in float is no longer exact; no image is that large along one axis.
  if (scale == std::floor(scale) && scale < 0x1p20f) return dim * static_cast<int64_t>(scale);
  const float inverse = 1 / scale;
  if (inverse == std::exp2(std::round(std::log2(inverse)))) return floor_div(dim, static_cast<int64_t>(inverse));
  return ctx.unknown();
}

// keep_aspect_ratio_policy: the one scale, from the sizes, that keeps all of them from being exceeded, or undercut.
void set_kept_aspect(InferenceContext& ctx, Dims& dims, const std::vector<int>& axes, const Dims& sizes,
                     bool smallest) {
  std::optional<float> scale;
  for (size_t i = 0; i < axes.size(); ++i) {
    auto size = sizes[i].as_constant(), input = dims[axes[i]].as_constant();
    if (!size || !input) {
      for (int axis : axes) dims[axis] = ctx.unknown();
      return;
    }
    const float own = static_cast<float>(*size) / static_cast<float>(*input);
    scale = !scale ? own : smallest ? std::min(*scale, own) : std::max(*scale, own);
  }
  for (int axis : axes) {
    const float output = *scale * static_cast<float>(dims[axis].constant()) + 0.5f;
    if (!(output >= 0 && output < 0x1p62f)) ctx.fail(fmt::format("axis {} would be scaled by {}", axis, *scale));
    dims[axis] = ctx.dim(static_cast<int64_t>(output));
  }
}

void infer_resize(InferenceContext& ctx) {
  auto dims = ctx.dims(0);
  if (!dims) return ctx.set_unranked(0, ctx.dtype(0));
  const int rank = static_cast<int>(dims->size());
  std::vector<int> axes;
  if (ctx.attributes().has("axes")) {
    for (int64_t axis : ctx.attributes().get_ints("axes")) axes.push_back(ctx.normalize_axis(axis, rank));
  } else {
    for (int d = 0; d < rank; ++d) axes.push_back(d);
  }
  const bool crops = ctx.attribute_string("coordinate_transformation_mode") == "tf_crop_and_resize";
  const std::string policy = ctx.attribute_string("keep_aspect_ratio_policy");
  auto require_count = [&](size_t count) {
    if (count != axes.size()) ctx.fail(fmt::format("{} scales or sizes for {} axes", count, axes.size()));
  };
  if (is_given(ctx, 2)) {
    auto scales = constant_floats(ctx, 2);
    auto roi = crops ? constant_floats(ctx, 1) : std::nullopt;
    if (scales) require_count(scales->size());
    if (roi && roi->size() != 2 * axes.size())
      ctx.fail(fmt::format("a region of {} numbers for {} axes", roi->size(), axes.size()));
    for (size_t i = 0; i < axes.size(); ++i) {
      Dim& dim = (*dims)[axes[i]];
      float part = roi ? (*roi)[i + axes.size()] - (*roi)[i] : 1;
      if (!scales || (crops && !roi)) {
        dim = ctx.unknown();
      } else if (part == 1) {
        dim = scaled(ctx, dim, (*scales)[i]);
      } else if (auto constant = dim.as_constant()) {
        dim = ctx.dim(static_cast<int64_t>(std::floor(static_cast<float>(*constant) * part * (*scales)[i])));
      } else {
        dim = ctx.unknown();
      }
    }
  } else if (is_given(ctx, 3)) {
    auto sizes = ctx.elements(3);
    if (sizes) require_count(sizes->size());
    if (sizes && policy != "stretch") {
      set_kept_aspect(ctx, *dims, axes, *sizes, policy == "not_larger");
    } else {
      for (size_t i = 0; i < axes.size(); ++i) (*dims)[axes[i]] = sizes ? (*sizes)[i] : ctx.unknown();
    }
  }
  ctx.set_tensor(0, ctx.dtype(0), *dims);
}

double resize_flops(const InferenceContext& ctx) {
  const std::string mode = ctx.attribute_string("mode");
  return (mode == "nearest" ? 0 : mode == "linear" ? 8 : 32) * element_estimate(ctx.output(0));
}

void infer_grid_sample(InferenceContext& ctx) {
  auto data = ctx.dims(0), grid = ctx.dims(1);
  if (!grid) return ctx.set_unranked(0, ctx.dtype(0));
  if (grid->size() < 3) ctx.fail(fmt::format("the grid has rank {}", grid->size()));
  if (data && data->size() != grid->size()) {
    ctx.fail(fmt::format("the input has rank {}, the grid {}", data->size(), grid->size()));
  }
  Dims dims{data ? merge_dim(ctx, (*data)[0], (*grid)[0]) : (*grid)[0], data ? (*data)[1] : ctx.unknown()};
  dims.insert(dims.end(), grid->begin() + 1, grid->end() - 1);
  ctx.set_tensor(0, ctx.dtype(0), dims);
}

void infer_affine_grid(InferenceContext& ctx) {
  auto size = ctx.elements(1);
  if (!size) return ctx.set_unranked(0, ctx.dtype(0));
  if (size->size() != 4 && size->size() != 5) ctx.fail(fmt::format("a size of {} dimensions", size->size()));
  Dims dims{(*size)[0]};
  dims.insert(dims.end(), size->begin() + 2, size->end());
  dims.push_back(ctx.dim(std::ssize(*size) - 2));
  ctx.set_tensor(0, ctx.dtype(0), dims);
}

void infer_col2im(InferenceContext& ctx) {
  require_rank(ctx, 0, 3);
  auto data = ctx.dims(0), image = ctx.elements(1), block = ctx.elements(2);
  if (!image) return ctx.set_unranked(0, ctx.dtype(0));
  Dim channels = ctx.unknown();
  if (data && block) {
    Dim area = product(ctx, *block);
    channels = area.as_constant() == 0 ? ctx.unknown() : floor_div((*data)[1], area);
  }
  Dims dims{data ? (*data)[0] : ctx.unknown(), channels};
  dims.insert(dims.end(), image->begin(), image->end());
  ctx.set_tensor(0, ctx.dtype(0), dims);
}

void infer_image_decoder(InferenceContext& ctx) {
  const bool gray = ctx.attribute_string("pixel_format") == "Grayscale";
  ctx.set_tensor(0, DType::U8, Dims{ctx.unknown(), ctx.unknown(), ctx.dim(gray ? 1 : 3)});
}

}  // namespace

void declare_image(Declarations& declare) {
  declare.op("Resize", 19)
      .doc("Resamples the input at scales or to sizes, by the nearest element or by linear or cubic interpolation.")
      .input("X", "T1")
      .optional_input("roi", "T2")
      .optional_input("scales", "f32")
      .optional_input("sizes", "i64")
      .output("Y", "T1")
      .type("T1", kPlainDTypes)
      .type("T2", {DType::F16, DType::F32, DType::F64})
      .attribute("mode", "nearest")
      .attribute("nearest_mode", "round_prefer_floor")
      .attribute("coordinate_transformation_mode", "half_pixel")
      .attribute("antialias", 0)
      .attribute("cubic_coeff_a", -0.75f)
      .attribute("exclude_outside", 0)
      .attribute("extrapolation_value", 0.0f)
      .attribute("keep_aspect_ratio_policy", "stretch")
      .optional_attribute("axes", AttributeKind::Ints)
      .infer(infer_resize)
      .flops(resize_flops)
      .widens().layout(along_moved_axes).sums().total();
  declare.op("GridSample", 22)
      .doc("Samples the input at the places that the grid holds, in coordinates from -1 to 1.")
      .input("X", "T1")
      .input("grid", "T2")
      .output("Y", "T1")
      .type("T1", kPlainDTypes)
      .type("T2", kFloats)
      .attribute("mode", "linear")
      .attribute("padding_mode", "zeros")
      .attribute("align_corners", 0)
      .infer(infer_grid_sample)
      .flops(flops_per_element<8>)
      .widens();
  declare.op("AffineGrid", 20)
      .doc("The grid of places that an affine matrix maps an evenly spaced one to.")
      .input("theta", "T1")
      .input("size", "i64")
      .output("grid", "T1")
      .type("T1", kFloats)
      .attribute("align_corners", 0)
      .infer(infer_affine_grid)
      .flops(flops_per_element<8>);
  declare.op("Col2Im", 18)
      .doc("Adds blocks up to an image, each where it would have been cut out.")
      .input("input", "T")
      .input("image_shape", "i64")
      .input("block_shape", "i64")
      .output("output", "T")
      .type("T", kPlainDTypes)
      .optional_attribute("dilations", AttributeKind::Ints)
      .optional_attribute("pads", AttributeKind::Ints)
      .optional_attribute("strides", AttributeKind::Ints)
      .infer(infer_col2im)
      .flops(flops_per_input_element<1>);
  declare.op("ImageDecoder", 20)
      .doc("The pixels, [height, width, channels], of an encoded image.")
      .input("encoded_stream", "T1")
      .output("image", "T2")
      .type("T1", {DType::U8})
      .type("T2", {DType::U8})
      .attribute("pixel_format", "RGB")
      .infer(infer_image_decoder);
}

}  // namespace anfora::ops

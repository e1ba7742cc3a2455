// Operators of object detectors.
#include <fmt/format.h>

#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

void infer_non_max_suppression(InferenceContext& ctx) {
  require_rank(ctx, 0, 3);
  require_rank(ctx, 1, 3);
  for (const size_t limit : {2, 3, 4}) require_scalar(ctx, limit);
  ctx.set_tensor(0, DType::I64, Dims{ctx.fresh_dim(), ctx.dim(3)});
}

void set_regions(InferenceContext& ctx, int64_t height, int64_t width) {
  require_rank(ctx, 0, 4);
  require_rank(ctx, 1, 2);
  if (height < 1 || width < 1) ctx.fail(fmt::format("an output of {} x {}", height, width));
  Dim regions = ctx.rank(1) ? ctx.input(1)->dim(0) : ctx.unknown();
  Dim channels = ctx.rank(0) ? ctx.input(0)->dim(1) : ctx.unknown();
  ctx.set_tensor(0, ctx.dtype(0), Dims{regions, channels, ctx.dim(height), ctx.dim(width)});
}

void infer_roi_align(InferenceContext& ctx) {
  set_regions(ctx, ctx.attribute_int("output_height"), ctx.attribute_int("output_width"));
}

void infer_max_roi_pool(InferenceContext& ctx) {
  auto shape = ctx.attributes().get_ints("pooled_shape");
  if (shape.size() != 2) ctx.fail(fmt::format("pooled_shape has {} sizes instead of two", shape.size()));
  set_regions(ctx, shape[0], shape[1]);
}

}  // namespace

void declare_detection(Declarations& declare) {
  declare.op("NonMaxSuppression", 11)
      .doc("Chooses boxes by score, without those that overlap a better one of their class too much.")
      .input("boxes", "f32")
      .input("scores", "f32")
      .optional_input("max_output_boxes_per_class", "i64")
      .optional_input("iou_threshold", "f32")
      .optional_input("score_threshold", "f32")
      .output("selected_indices", "i64")
      .attribute("center_point_box", 0)
      .infer(infer_non_max_suppression)
      .flops(flops_per_input_element<16>);
  declare.op("RoiAlign", 22)
      .doc("Pools regions to a fixed size by bilinear samples in each bin.")
      .input("X", "T1")
      .input("rois", "T1")
      .input("batch_indices", "i64")
      .output("Y", "T1")
      .type("T1", kFloats)
      .attribute("mode", "avg")
      .attribute("coordinate_transformation_mode", "half_pixel")
      .attribute("output_height", 1)
      .attribute("output_width", 1)
      .attribute("sampling_ratio", 0)
      .attribute("spatial_scale", 1.0f)
      .infer(infer_roi_align)
      .flops(flops_per_element<32>);
  declare.op("MaxRoiPool", 22)
      .doc("Pools regions to a fixed size by the maximum of the pixels in each bin.")
      .input("X", "T")
      .input("rois", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .required_attribute("pooled_shape", AttributeKind::Ints)
      .attribute("spatial_scale", 1.0f)
      .infer(infer_max_roi_pool)
      .flops(flops_per_element<16>);
}

}  // namespace anfora::ops

// Operators that frame a tensor or blank a part of it.
#include <fmt/format.h>

#include <algorithm>

#include "ops/infer_helpers.h"
#include "ops/layouts.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

void infer_pad(InferenceContext& ctx) {
  require_scalar(ctx, 2);
  auto data = ctx.dims(0);
  if (!data) return ctx.set_unranked(0, ctx.dtype(0));
  const int rank = static_cast<int>(data->size());
  std::optional<std::vector<int64_t>> axes;
  if (ctx.has_input(3)) {
    axes = ctx.constant_integers(3);
  } else {
    axes.emplace();
    for (int d = 0; d < rank; ++d) axes->push_back(d);
  }
  auto pads = ctx.elements(1);
  if (!axes || !pads) return ctx.set_tensor(0, ctx.dtype(0), Dims(data->size(), ctx.unknown()));
  if (pads->size() != 2 * axes->size()) ctx.fail(fmt::format("{} pads for {} axes", pads->size(), axes->size()));
  for (size_t i = 0; i < axes->size(); ++i) {
    Dim& dim = (*data)[ctx.normalize_axis((*axes)[i], rank)];
    dim = dim + (*pads)[i] + (*pads)[i + axes->size()];
    if (dim.range().high < 0) ctx.fail(fmt::format("the pads of axis {} take more than it has", (*axes)[i]));
  }
  ctx.set_tensor(0, ctx.dtype(0), *data);
}

void infer_center_crop_pad(InferenceContext& ctx) {
  auto data = ctx.dims(0);
  if (!ctx.attributes().has("axes")) return set_tensor_of_shape(ctx, 0, ctx.dtype(0), 1);
  if (!data) return ctx.set_unranked(0, ctx.dtype(0));
  auto sizes = ctx.elements(1);
  auto axes = ctx.attributes().get_ints("axes");
  if (sizes && sizes->size() != axes.size()) ctx.fail(fmt::format("{} sizes for {} axes", sizes->size(), axes.size()));
  for (size_t i = 0; i < axes.size(); ++i) {
    (*data)[ctx.normalize_axis(axes[i], static_cast<int>(data->size()))] = sizes ? (*sizes)[i] : ctx.unknown();
  }
  ctx.set_tensor(0, ctx.dtype(0), *data);
}

void infer_triangle(InferenceContext& ctx) {
  require_scalar(ctx, 1);
  infer_same_type(ctx);
  if (auto rank = ctx.rank(0); rank && *rank < 2) ctx.fail(fmt::format("the input has rank {}; matrices are needed", *rank));
}

}  // namespace

void declare_padding(Declarations& declare) {
  declare.op("Pad", 25)
      .doc("Adds elements at both ends of the axes, or removes them where a pad is negative.")
      .input("data", "T")
      .input("pads", "i64")
      .optional_input("constant_value", "T")
      .optional_input("axes", "Tind")
      .output("output", "T")
      .type("T", kAllDTypes)
      .type("Tind", {DType::I32, DType::I64})
      .attribute("mode", "constant")
      .infer(infer_pad)
      .fusion(FusionKind::Injective)
      .layout(channels_last_pad).total().movement(Movement::Pad);
  declare.op("CenterCropPad", 18)
      .doc("Crops or pads with zeros to the given sizes, about the center.")
      .input("input_data", "T")
      .input("shape", "Tind")
      .output("output_data", "T")
      .type("T", kPlainDTypes)
      .type("Tind", {DType::I32, DType::I64})
      .optional_attribute("axes", AttributeKind::Ints)
      .infer(infer_center_crop_pad)
      .fusion(FusionKind::Injective);
  declare.op("Trilu", 14)
      .doc("The upper or lower triangle of each matrix, zero elsewhere.")
      .input("input", "T")
      .optional_input("k", "i64")
      .output("output", "T")
      .type("T", kPlainDTypes)
      .attribute("upper", 1)
      .infer(infer_triangle)
      .fusion(FusionKind::Injective)
      .in_place();
}

}  // namespace anfora::ops

// Operators that pick elements or slices by index.
#include <fmt/format.h>

#include <algorithm>

#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

void infer_gather(InferenceContext& ctx) {
  auto data = ctx.dims(0), indices = ctx.dims(1);
  if (!data || !indices) return ctx.set_unranked(0, ctx.dtype(0));
  const int axis = ctx.normalize_axis(ctx.attribute_int("axis"), static_cast<int>(data->size()));
  Dims dims(data->begin(), data->begin() + axis);
  dims.insert(dims.end(), indices->begin(), indices->end());
  dims.insert(dims.end(), data->begin() + axis + 1, data->end());
  ctx.set_tensor(0, ctx.dtype(0), dims);

  auto elements = ctx.elements(0);
  auto picks = ctx.constant_integers(1);
  if (!elements || !picks || data->size() != 1) return;
  const int64_t size = std::ssize(*elements);
  Dims picked;
  for (int64_t pick : *picks) {
    if (pick < -size || pick >= size)
      ctx.fail(fmt::format("index {} is out of range for an axis of size {}", pick, size));
    picked.push_back((*elements)[pick < 0 ? pick + size : pick]);
  }
  ctx.set_elements(0, picked);
}

void infer_gather_elements(InferenceContext& ctx) {
  if (auto rank = ctx.rank(0)) require_rank(ctx, 1, *rank);
  auto indices = ctx.dims(1);
  if (!indices) return ctx.set_unranked(0, ctx.dtype(0));
  ctx.set_tensor(0, ctx.dtype(0), *indices);
}

void infer_gather_nd(InferenceContext& ctx) {
  auto data = ctx.dims(0), indices = ctx.dims(1);
  if (!data || !indices) return ctx.set_unranked(0, ctx.dtype(0));
  const int64_t batch = ctx.attribute_int("batch_dims");
  if (indices->empty() || batch < 0 || batch >= std::min(std::ssize(*data), std::ssize(*indices))) {
    ctx.fail(fmt::format("batch_dims is {} for ranks {} and {}", batch, data->size(), indices->size()));
  }
  auto length = indices->back().as_constant();
  if (!length) return ctx.set_unranked(0, ctx.dtype(0));
  if (*length > std::ssize(*data) - batch) {
    ctx.fail(fmt::format("index tuples of length {} for {} axes", *length, std::ssize(*data) - batch));
  }
  Dims dims(indices->begin(), indices->end() - 1);
  for (int64_t d = 0; d < batch; ++d) dims[d] = merge_dim(ctx, dims[d], (*data)[d]);
  dims.insert(dims.end(), data->begin() + batch + *length, data->end());
  ctx.set_tensor(0, ctx.dtype(0), dims);
}

void infer_compress(InferenceContext& ctx) {
  if (!ctx.attributes().has("axis")) return ctx.set_tensor(0, ctx.dtype(0), Dims{ctx.unknown()});
  auto data = ctx.dims(0);
  if (!data) return ctx.set_unranked(0, ctx.dtype(0));
  (*data)[ctx.normalize_axis(ctx.attributes().require_int("axis"), static_cast<int>(data->size()))] = ctx.unknown();
  ctx.set_tensor(0, ctx.dtype(0), *data);
}

void infer_one_hot(InferenceContext& ctx) {
  require_scalar(ctx, 1);
  auto dims = ctx.dims(0);
  if (!dims) return ctx.set_unranked(0, ctx.dtype(2));
  const int axis = ctx.normalize_axis(ctx.attribute_int("axis"), static_cast<int>(dims->size()) + 1);
  auto depth = ctx.elements(1);
  dims->insert(dims->begin() + axis, depth && depth->size() == 1 ? (*depth)[0] : ctx.unknown());
  ctx.set_tensor(0, ctx.dtype(2), *dims);
}

}  // namespace

void declare_indexing(Declarations& declare) {
  const std::vector<DType> index_types = {DType::I32, DType::I64};
  declare.op("Gather", 13)
      .doc("The slices of the input along an axis that the indices name.")
      .input("data", "T")
      .input("indices", "Tind")
      .output("output", "T")
      .type("T", kPlainDTypes)
      .type("Tind", index_types)
      .attribute("axis", 0)
      .infer(infer_gather)
      .fusion(FusionKind::Injective)
      .axis().takes_elements().movement(Movement::Gather);
  declare.op("GatherElements", 13)
      .doc("For each index: the element at its own coordinates but the index along the axis.")
      .input("data", "T")
      .input("indices", "Tind")
      .output("output", "T")
      .type("T", kPlainDTypes)
      .type("Tind", index_types)
      .attribute("axis", 0)
      .infer(infer_gather_elements)
      .fusion(FusionKind::Injective)
      .axis().takes_elements();
  declare.op("GatherND", 13)
      .doc("The slices of the input at the coordinates that lie along the last axis of the indices.")
      .input("data", "T")
      .input("indices", "i64")
      .output("output", "T")
      .type("T", kPlainDTypes)
      .attribute("batch_dims", 0)
      .infer(infer_gather_nd)
      .fusion(FusionKind::Injective)
      .takes_elements();
  declare.op("Compress", 28)
      .doc("The slices along an axis, or the elements, where the condition holds.")
      .input("input", "T")
      .input("condition", "bool")
      .output("output", "T")
      .type("T", kPlainDTypes)
      .optional_attribute("axis", AttributeKind::Int)
      .infer(infer_compress);
  declare.op("OneHot", 28)
      .doc("A new axis that holds the value `on` at the index and `off` elsewhere.")
      .input("indices", "T1")
      .input("depth", "T2")
      .input("values", "T3")
      .output("output", "T3")
      .type("T1", kNumbers)
      .type("T2", kNumbers)
      .type("T3", kPlainDTypes)
      .attribute("axis", -1)
      .infer(infer_one_hot);
}

}  // namespace anfora::ops

// Operators of ONNX Runtime (domain com.microsoft) that converters of classical models write. ONNX has nothing that they
// could be expanded into, so each has a kernel.
#include <fmt/format.h>

#include <algorithm>

#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

constexpr const char* kContribDomain = "com.microsoft";

void infer_tokenizer(InferenceContext& ctx) {
  auto dims = ctx.dims(0);
  if (!dims) return ctx.set_unranked(0, DType::String);
  if (dims->empty() || dims->size() > 2) ctx.fail(fmt::format("expected rank 1 or 2, got {}", dims->size()));
  // An input without strings comes back as it is, without the axis of the tokens.
  const bool may_be_empty = std::ranges::any_of(*dims, [](Dim d) { return d.as_constant().value_or(0) == 0; });
  if (may_be_empty) return ctx.set_unranked(0, DType::String);
  dims->push_back(ctx.fresh_dim());
  ctx.set_tensor(0, DType::String, *dims);
}

void infer_murmur_hash(InferenceContext& ctx) {
  const DType dtype = ctx.attribute_int("positive") != 0 ? DType::U32 : DType::I32;
  if (auto dims = ctx.dims(0)) return ctx.set_tensor(0, dtype, *dims);
  ctx.set_unranked(0, dtype);
}

void infer_distances(InferenceContext& ctx) {
  require_rank(ctx, 0, 2);
  require_rank(ctx, 1, 2);
  auto a = ctx.dims(0), b = ctx.dims(1);
  if (a && b) merge_dim(ctx, (*a)[1], (*b)[1]);
  ctx.set_tensor(0, ctx.dtype(0), Dims{a ? (*a)[0] : ctx.unknown(), b ? (*b)[0] : ctx.unknown()});
}

// Each of the distances takes a subtraction, a multiplication and an addition for each column.
double distances_flops(const InferenceContext& ctx) {
  auto a = ctx.dims(0);
  if (!a || a->size() != 2) return 0;
  return 3 * element_estimate(ctx.output(0)) * static_cast<double>((*a)[1].as_constant().value_or(1));
}

void infer_warping(InferenceContext& ctx) { ctx.set_tensor(0, DType::I32, Dims{ctx.dim(2), ctx.fresh_dim()}); }

}  // namespace

void declare_microsoft_ml(Declarations& declare) {
  declare.op("Tokenizer", 1, kContribDomain)
      .doc("The tokens of each string along a new axis, filled up with pad_value: what matches tokenexp, or what lies "
           "between matches of the separators; characters where the one separator is empty.")
      .input("X", "T")
      .output("Y", "T")
      .type("T", {DType::String})
      .required_attribute("mark", AttributeKind::Int)
      .required_attribute("mincharnum", AttributeKind::Int)
      .required_attribute("pad_value", AttributeKind::String)
      .optional_attribute("separators", AttributeKind::Strings)
      .optional_attribute("tokenexp", AttributeKind::String)
      .infer(infer_tokenizer);
  declare.op("MurmurHash3", 1, kContribDomain)
      .doc("MurmurHash3_x86_32 of each element's bytes.")
      .input("X", "T1")
      .output("Y", "T2")
      .type("T1", {DType::U32, DType::I32, DType::U64, DType::I64, DType::F32, DType::F64, DType::String})
      .type("T2", {DType::U32, DType::I32})
      .attribute("positive", 1)
      .attribute("seed", 0)
      .infer(infer_murmur_hash);
  declare.op("CDist", 1, kContribDomain)
      .doc("The distance of each row of A from each row of B: Euclidean, or its square.")
      .input("A", "T")
      .input("B", "T")
      .output("C", "T")
      .type("T", {DType::F32, DType::F64})
      .attribute("metric", "sqeuclidean")
      .infer(infer_distances)
      .flops(distances_flops);
  declare.op("DynamicTimeWarping", 1, kContribDomain)
      .doc("The places, row and column, of the cheapest way through a matrix of costs, from the first element to the last, by steps of one "
           "row, one column, or both. Whisper finds the times of words so.")
      .input("input", "F")
      .output("output", "I")
      .type("F", {DType::F32})
      .type("I", {DType::I32})
      .infer(infer_warping)
      .flops(flops_per_input_element<3>);
}

}  // namespace anfora::ops

// Operators of ai.onnx.ml that prepare features.
#include <fmt/format.h>

#include <algorithm>

#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

const std::vector<DType> kFeatureTypes = {DType::F32, DType::F64, DType::I64, DType::I32};

void set_like_input(InferenceContext& ctx, DType dtype) {
  if (auto dims = ctx.dims(0)) return ctx.set_tensor(0, dtype, *dims);
  ctx.set_unranked(0, dtype);
}

void infer_floats_like_input(InferenceContext& ctx) { set_like_input(ctx, DType::F32); }

void infer_label_encoder(InferenceContext& ctx) {
  const AttributeSet& attributes = ctx.attributes();
  DType dtype = DType::Undefined;
  if (const Tensor* values = attributes.get_tensor("values_tensor")) dtype = values->dtype();
  if (attributes.has("values_strings")) dtype = DType::String;
  if (attributes.has("values_int64s")) dtype = DType::I64;
  if (attributes.has("values_floats")) dtype = DType::F32;
  if (dtype == DType::Undefined) ctx.fail("no values are given");
  set_like_input(ctx, dtype);
}

void infer_category_mapper(InferenceContext& ctx) {
  const DType from = ctx.dtype(0);
  set_like_input(ctx, from == DType::String ? DType::I64 : from == DType::I64 ? DType::String : DType::Undefined);
}

void infer_one_hot_encoder(InferenceContext& ctx) {
  auto dims = ctx.dims(0);
  if (!dims) return ctx.set_unranked(0, DType::F32);
  const size_t strings = ctx.attributes().get_strings("cats_strings").size();
  const size_t integers = ctx.attributes().get_ints("cats_int64s").size();
  if (strings == 0 && integers == 0) ctx.fail("no categories are given");
  if (strings > 0 && integers > 0) ctx.fail("both kinds of categories are given");
  dims->push_back(ctx.dim(static_cast<int64_t>(std::max(strings, integers))));
  ctx.set_tensor(0, DType::F32, *dims);
}

void infer_array_feature_extractor(InferenceContext& ctx) {
  auto dims = ctx.dims(0), chosen = ctx.dims(1);
  if (!dims) return ctx.set_unranked(0, ctx.dtype(0));
  if (dims->empty()) ctx.fail("the data have no features to choose from");
  if (dims->size() == 1) dims->insert(dims->begin(), ctx.dim(1));
  dims->back() = chosen ? product(ctx, *chosen) : ctx.unknown();
  ctx.set_tensor(0, ctx.dtype(0), *dims);
}

void infer_feature_vectorizer(InferenceContext& ctx) {
  Dim rows = ctx.unknown(), columns = ctx.dim(0);
  bool known = true;
  for (size_t i = 0; i < ctx.num_inputs(); ++i) {
    auto dims = ctx.dims(i);
    if (!dims) {
      known = false;
      continue;
    }
    if (dims->empty()) ctx.fail(fmt::format("input {} is a scalar", i));
    const bool is_row = dims->size() == 1;
    rows = merge_dim(ctx, rows, is_row ? ctx.dim(1) : (*dims)[0]);
    columns = columns + product(ctx, std::span(*dims).subspan(is_row ? 0 : 1));
  }
  auto widths = ctx.attributes().get_ints("inputdimensions");
  if (!widths.empty()) {
    columns = ctx.dim(0);
    for (int64_t width : widths) columns = columns + width;
  } else if (!known) {
    columns = ctx.unknown();
  }
  ctx.set_tensor(0, DType::F32, Dims{rows, columns});
}

void infer_normalizer(InferenceContext& ctx) {
  if (auto rank = ctx.rank(0); rank && (*rank < 1 || *rank > 2))
    ctx.fail(fmt::format("expected rank 1 or 2, got {}", *rank));
  set_like_input(ctx, DType::F32);
}

// Maps -----------------------------------------------------------------------------------------------

// Key and value of the map that input 0 is; Undefined when not known.
std::pair<DType, DType> map_dtypes(InferenceContext& ctx) {
  const Type* type = ctx.input(0);
  if (type->is_tensor() && type->dtype() == DType::Undefined && !type->has_rank()) return {};
  if (type->kind() != ir::TypeKind::Map) ctx.fail(fmt::format("expected a map, got {}", to_string(type)));
  return {type->element(0)->dtype(), type->element(1)->dtype()};
}

void infer_dict_vectorizer(InferenceContext& ctx) {
  auto [key, value] = map_dtypes(ctx);
  const auto strings = ctx.attributes().get_strings("string_vocabulary").size();
  const auto integers = ctx.attributes().get_ints("int64_vocabulary").size();
  const bool of_strings = key == DType::Undefined ? strings > 0 : key == DType::String;
  ctx.set_tensor(0, value, Dims{ctx.dim(1), ctx.dim(static_cast<int64_t>(of_strings ? strings : integers))});
}

void infer_cast_map(InferenceContext& ctx) {
  map_dtypes(ctx);
  const std::string to = ctx.attribute_string("cast_to");
  const bool sparse = ctx.attribute_string("map_form") == "SPARSE";
  const DType dtype = to == "TO_STRING" ? DType::String : to == "TO_INT64" ? DType::I64 : DType::F32;
  ctx.set_tensor(0, dtype, Dims{ctx.dim(1), sparse ? ctx.dim(ctx.attribute_int("max_map")) : ctx.unknown()});
}

void infer_zip_map(InferenceContext& ctx) {
  ir::Context& types = ctx.context();
  auto scalar = [&](DType dtype) { return types.tensor_type(dtype, std::span<const Dim>()); };
  const bool strings = ctx.attributes().has("classlabels_strings");
  ctx.set_output(0,
                 types.sequence_type(types.map_type(scalar(strings ? DType::String : DType::I64), scalar(DType::F32))));
}

constexpr const char* kDomain = "ai.onnx.ml";

void declare_encoders(Declarations& declare) {
  const std::vector<DType> encoded = {DType::F32, DType::F64, DType::I16, DType::I32, DType::I64, DType::String};
  declare.op("LabelEncoder", 4, kDomain)
      .doc("Each element replaced by the value that stands for it in a table of keys and values.")
      .input("X", "T1")
      .output("Y", "T2")
      .type("T1", encoded)
      .type("T2", encoded)
      .optional_attribute("keys_tensor", AttributeKind::Tensor)
      .optional_attribute("keys_strings", AttributeKind::Strings)
      .optional_attribute("keys_int64s", AttributeKind::Ints)
      .optional_attribute("keys_floats", AttributeKind::Floats)
      .optional_attribute("values_tensor", AttributeKind::Tensor)
      .optional_attribute("values_strings", AttributeKind::Strings)
      .optional_attribute("values_int64s", AttributeKind::Ints)
      .optional_attribute("values_floats", AttributeKind::Floats)
      .optional_attribute("default_tensor", AttributeKind::Tensor)
      .attribute("default_string", "_Unused")
      .attribute("default_int64", -1)
      .attribute("default_float", -0.0f)
      .infer(infer_label_encoder);
  declare.op("CategoryMapper", 1, kDomain)
      .doc("Strings to the integers that stand for them, or the reverse.")
      .input("X", "T1")
      .output("Y", "T2")
      .type("T1", {DType::String, DType::I64})
      .type("T2", {DType::String, DType::I64})
      .optional_attribute("cats_strings", AttributeKind::Strings)
      .optional_attribute("cats_int64s", AttributeKind::Ints)
      .attribute("default_string", "_Unused")
      .attribute("default_int64", -1)
      .infer(infer_category_mapper);
  declare.op("OneHotEncoder", 1, kDomain)
      .doc("A vector for each element, 1 at the place of its category and 0 elsewhere.")
      .input("X", "T")
      .output("Y", "f32")
      .type("T", kFeatureTypes | std::vector{DType::String})
      .optional_attribute("cats_strings", AttributeKind::Strings)
      .optional_attribute("cats_int64s", AttributeKind::Ints)
      .attribute("zeros", 1)
      .infer(infer_one_hot_encoder);
}

void declare_scaling(Declarations& declare) {
  declare.op("Binarizer", 1, kDomain)
      .doc("1 for the elements above a threshold, 0 for the others.")
      .input("X", "T")
      .output("Y", "T")
      .type("T", kFeatureTypes)
      .attribute("threshold", 0.0f)
      .infer(infer_same_type)
      .fusion(FusionKind::Elementwise)
      .in_place()
      .flops(flops_per_element<1>);
  declare.op("Imputer", 1, kDomain)
      .doc("The elements that stand for a missing value replaced by a value of their feature.")
      .input("X", "T")
      .output("Y", "T")
      .type("T", kFeatureTypes)
      .attribute("replaced_value_float", 0.0f)
      .attribute("replaced_value_int64", 0)
      .optional_attribute("imputed_value_floats", AttributeKind::Floats)
      .optional_attribute("imputed_value_int64s", AttributeKind::Ints)
      .infer(infer_same_type)
      .in_place();
  declare.op("Scaler", 1, kDomain)
      .doc("(x - offset) · scale of each feature.")
      .input("X", "T")
      .output("Y", "f32")
      .type("T", kFeatureTypes)
      .optional_attribute("offset", AttributeKind::Floats)
      .optional_attribute("scale", AttributeKind::Floats)
      .infer(infer_floats_like_input)
      .flops(flops_per_element<2>);
  declare.op("Normalizer", 1, kDomain)
      .doc("Each row divided by its maximum, its sum of magnitudes, or its Euclidean norm.")
      .input("X", "T")
      .output("Y", "f32")
      .type("T", kFeatureTypes)
      .attribute("norm", "MAX")
      .infer(infer_normalizer)
      .flops(flops_per_element<3>);
}

void declare_choosing(Declarations& declare) {
  declare.op("ArrayFeatureExtractor", 1, kDomain)
      .doc("Chosen elements of the last axis.")
      .input("X", "T")
      .input("Y", "i64")
      .output("Z", "T")
      .type("T", kFeatureTypes | std::vector{DType::String})
      .infer(infer_array_feature_extractor)
      .fusion(FusionKind::Injective);
  declare.op("FeatureVectorizer", 1, kDomain)
      .doc("The inputs side by side as columns of floats.")
      .variadic_input("X", "T1")
      .output("Y", "f32")
      .type("T1", kFeatureTypes)
      .optional_attribute("inputdimensions", AttributeKind::Ints)
      .infer(infer_feature_vectorizer);
}

void declare_maps(Declarations& declare) {
  declare.op("DictVectorizer", 1, kDomain)
      .doc("The values of a map as one row, in the order of a vocabulary of keys; zero where a key is absent.")
      .input("X", "T1")
      .output("Y", "T2")
      .type("T1", kAnyType)
      .type("T2", {DType::I64, DType::F32, DType::F64, DType::String})
      .optional_attribute("string_vocabulary", AttributeKind::Strings)
      .optional_attribute("int64_vocabulary", AttributeKind::Ints)
      .infer(infer_dict_vectorizer);
  declare.op("CastMap", 1, kDomain)
      .doc("The values of a map as one row, in the order of their keys or at their keys as columns.")
      .input("X", "T1")
      .output("Y", "T2")
      .type("T1", kAnyType)
      .type("T2", {DType::String, DType::F32, DType::I64})
      .attribute("cast_to", "TO_FLOAT")
      .attribute("map_form", "DENSE")
      .attribute("max_map", 1)
      .infer(infer_cast_map);
  declare.op("ZipMap", 1, kDomain)
      .doc("A map from label to value for each row.")
      .input("X", "f32")
      .output("Z", "T")
      .type("T", kAnyType)
      .optional_attribute("classlabels_strings", AttributeKind::Strings)
      .optional_attribute("classlabels_int64s", AttributeKind::Ints)
      .infer(infer_zip_map);
}

}  // namespace

void declare_ml_features(Declarations& declare) {
  declare_encoders(declare);
  declare_scaling(declare);
  declare_choosing(declare);
  declare_maps(declare);
}

}  // namespace anfora::ops

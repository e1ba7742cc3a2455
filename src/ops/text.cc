// Operators on strings.
#include <fmt/format.h>

#include <algorithm>

#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

void infer_string_split(InferenceContext& ctx) {
  auto dims = ctx.dims(0);
  if (!dims) {
    ctx.set_unranked(0, DType::String);
    return ctx.set_unranked(1, DType::I64);
  }
  ctx.set_tensor(1, DType::I64, *dims);
  dims->push_back(ctx.fresh_dim());
  ctx.set_tensor(0, DType::String, *dims);
}

void infer_match(InferenceContext& ctx) {
  if (auto dims = ctx.dims(0)) return ctx.set_tensor(0, DType::Bool, *dims);
  ctx.set_unranked(0, DType::Bool);
}

void infer_string_normalizer(InferenceContext& ctx) {
  auto dims = ctx.dims(0);
  if (!dims) return ctx.set_unranked(0, DType::String);
  if (dims->empty() || dims->size() > 2) ctx.fail(fmt::format("expected rank 1 or 2, got {}", dims->size()));
  dims->back() = ctx.unknown();
  ctx.set_tensor(0, DType::String, *dims);
}

void infer_tf_idf(InferenceContext& ctx) {
  auto dims = ctx.dims(0);
  if (!dims) return ctx.set_unranked(0, DType::F32);
  if (dims->empty() || dims->size() > 2) ctx.fail(fmt::format("expected rank 1 or 2, got {}", dims->size()));
  auto indexes = ctx.attributes().get_ints("ngram_indexes");
  if (indexes.empty()) ctx.fail("ngram_indexes is empty");
  dims->back() = ctx.dim(std::ranges::max(indexes)) + 1;
  ctx.set_tensor(0, DType::F32, *dims);
}

}  // namespace

void declare_text(Declarations& declare) {
  declare.op("StringConcat", 20)
      .doc("The strings of X followed by those of Y, broadcast.")
      .input("X", "T")
      .input("Y", "T")
      .output("Z", "T")
      .type("T", {DType::String})
      .infer(infer_broadcast);
  declare.op("StringSplit", 20)
      .doc("The parts of each string along a new axis, filled up with empty ones, and their number.")
      .input("X", "T1")
      .output("Y", "T2")
      .output("Z", "T3")
      .type("T1", {DType::String})
      .type("T2", {DType::String})
      .type("T3", {DType::I64})
      .optional_attribute("delimiter", AttributeKind::String)
      .optional_attribute("maxsplit", AttributeKind::Int)
      .infer(infer_string_split);
  declare.op("RegexFullMatch", 20)
      .doc("Whether all of each string matches the regular expression, in RE2's syntax.")
      .input("X", "T1")
      .output("Y", "T2")
      .type("T1", {DType::String})
      .type("T2", {DType::Bool})
      .optional_attribute("pattern", AttributeKind::String)
      .infer(infer_match);
  declare.op("StringNormalizer", 10)
      .doc("The strings without the stop words, in lower or upper case.")
      .input("X", "string")
      .output("Y", "string")
      .attribute("case_change_action", "NONE")
      .attribute("is_case_sensitive", 0)
      .optional_attribute("locale", AttributeKind::String)
      .optional_attribute("stopwords", AttributeKind::Strings)
      .infer(infer_string_normalizer);
  declare.op("TfIdfVectorizer", 9)
      .doc("How often each n-gram of the pool occurs in a row of tokens, possibly weighted.")
      .input("X", "T")
      .output("Y", "T1")
      .type("T", {DType::String, DType::I32, DType::I64})
      .type("T1", {DType::F32})
      .required_attribute("mode", AttributeKind::String)
      .required_attribute("ngram_indexes", AttributeKind::Ints)
      .required_attribute("ngram_counts", AttributeKind::Ints)
      .required_attribute("max_skip_count", AttributeKind::Int)
      .required_attribute("min_gram_length", AttributeKind::Int)
      .required_attribute("max_gram_length", AttributeKind::Int)
      .optional_attribute("pool_int64s", AttributeKind::Ints)
      .optional_attribute("pool_strings", AttributeKind::Strings)
      .optional_attribute("weights", AttributeKind::Floats)
      .infer(infer_tf_idf);
}

}  // namespace anfora::ops

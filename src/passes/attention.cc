// Attention in parts: @Attention of src/dialects/onnx/attention.ir, products and a softmax, where the operator is not to be written. To be
// run, it stays where generated code computes it (docs/codegen.md); the parts are faster than the reference kernel, which goes through the
// scores block by block, as long as all of them at once do not take much memory.
#include <algorithm>
#include <optional>

#include "dialects/onnx/library.h"
#include "ir/queries.h"
#include "passes/insert_function.h"

namespace anfora::passes {

extern const Pass kAttention;

namespace {

using namespace ir;

enum AttentionOperand { Query, Key, ValueOf, Mask, PastKey, PastValue };

constexpr std::string_view kInParts = "attention-in-parts";
constexpr double kMostScores = 1 << 26;  // 256 MB of them in f32

// Sizes that are not known count as 1.
double extent(const Node* node, int axis) { return static_cast<double>(std::max<int64_t>(extent_of(node, axis), 1)); }

// A score is one of a head, a query and a key.
double num_scores(const Apply& node) {
  const Node* query = node.input(Query);
  const int rank = rank_of(query), positions = rank - 2;
  if (rank < 3 || rank_of(node.input(Key)) != rank) return 0;  // which has no parts
  const double heads = rank == 3 ? static_cast<double>(node.attributes().get_int("q_num_heads", 1)) : extent(query, 1);
  double keys = extent(node.input(Key), positions);
  if (node.has_input(PastKey)) keys += extent(node.input(PastKey), 2);
  return extent(query, 0) * heads * extent(query, positions) * keys;
}

// Products sum in another order than the kernel of Attention does.
size_t run_attention(PassContext& context) {
  if (context.options.math != rewrite::Promise::Real) return 0;
  auto attributes = [&](const Apply& node) -> std::optional<AttributeSet> {
    const auto& has_operator = context.options.has_operator;
    if (!node.is("Attention") || (has_operator && has_operator(node))) return std::nullopt;
    if (num_scores(node) <= kMostScores) return node.attributes();
    context.remarks.refused(kAttention.name, kInParts, node, "all scores at once would take much memory");
    return std::nullopt;
  };
  return insert_functions(
      context, {kAttention.name, kInParts, onnx_parts::library_files(), attributes, context.options.has_operator});
}

// In f32, with a mask of f32 or truth values, if any, and without the scores as a result.
bool is_of_single_precision(const Apply& node, size_t i) {
  return !node.has_input(i) || node.input(i)->type()->dtype() == DType::F32;
}

}  // namespace

bool has_attention_kernel(const Apply& node) {
  constexpr size_t kScores = 3;
  const bool has_scores = node.num_outputs() > kScores && is_result_used(node, kScores);
  const bool has_kernel_mask = is_of_single_precision(node, Mask) || node.input(Mask)->type()->dtype() == DType::Bool;
  constexpr AttentionOperand kOthers[] = {Query, Key, ValueOf, PastKey, PastValue};
  return node.is("Attention") && !has_scores && has_kernel_mask &&
         std::ranges::all_of(kOthers, [&](AttentionOperand i) { return is_of_single_precision(node, i); });
}

const Pass kAttention{"attention", "attention in parts", "products and a softmax, for execution", run_attention};

}  // namespace anfora::passes

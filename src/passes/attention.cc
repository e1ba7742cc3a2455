// Attention in parts, for execution: @Attention of src/dialects/onnx/attention.ir, products and a softmax, whose kernels are faster
// than that of Attention. That one goes through the scores block by block; where all of them at once would take much memory, it stays.
#include <algorithm>
#include <optional>

#include "dialects/onnx/library.h"
#include "ir/queries.h"
#include "passes/attention_operands.h"
#include "passes/insert_function.h"

namespace anfora::passes {

extern const Pass kAttention;

namespace {

using namespace ir;

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
    if (!node.is("Attention")) return std::nullopt;
    if (num_scores(node) <= kMostScores) return node.attributes();
    context.remarks.refused(kAttention.name, kInParts, node, "all scores at once would take much memory");
    return std::nullopt;
  };
  return insert_functions(
      context, {kAttention.name, kInParts, onnx_parts::library_files(), attributes, context.options.has_operator});
}

}  // namespace

const Pass kAttention{"attention", "attention in parts", "products and a softmax, for execution", run_attention};

}  // namespace anfora::passes

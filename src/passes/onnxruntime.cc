// For ONNX Runtime (opt --target onnxruntime): operators of its own (domain com.microsoft), where it runs them faster than what
// they stand for, or has them in operator sets in which ONNX has nothing of the kind:
//
//     softmax(Q·Kᵀ·s) V, by heads  →  Attention (since operator set 23)  →  MultiHeadAttention
//     x · (1 + erf(x / √2)) / 2    →  Gelu (since 20)                     →  com.microsoft::Gelu
//
// The rules that find composites ask whether what they make can be written (PassOptions::has_operator). For this target the
// answer is also yes for what has an operator of ONNX Runtime's. Then, when nothing else is left to do, the composites become those
// operators: rules/onnxruntime.rules, and Attention here. This is the other direction of the pass `expand`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/range.h"
#include "passes/attention_operands.h"
#include "passes/replacement.h"
#include "passes/pass.h"

namespace anfora::passes {

extern const Pass kOnnxRuntime, kAttention;

namespace {

using namespace ir;
using rewrite::Promise;
using rewrite::Rewriter;
using rewrite::Rule;

bool is_single(const Node* node) {
  return node->type() && node->type()->is_tensor() && node->type()->dtype() == DType::F32;
}

// How many heads all of Q, K and V have; 0: not known, or not the same.
int64_t heads_of(const Apply& attention) {
  int64_t heads = 0;
  for (size_t i : {Query, Key, ValueOf}) {
    const Node* x = attention.input(i);
    const char* attribute = i == Query ? "q_num_heads" : "kv_num_heads";
    const int rank = rank_of(x);
    const int64_t own = rank == 4 ? extent_of(x, 1) : rank == 3 ? attention.attributes().get_int(attribute, 0) : 0;
    if (!is_single(x) || own < 1 || (heads > 0 && own != heads) || rank != rank_of(attention.input(Query))) return 0;
    heads = own;
  }
  return heads;
}

// The axis of positions in Q, K and V.
Dim positions(const Node* x) { return x->type()->dim(rank_of(x) == 4 ? 2 : 1); }

// Hides from each query the keys behind it, and nothing else: what is added is 0 or takes all weight.
bool is_causal(const Tensor& mask) {
  constexpr float kHidden = -1e30f;
  if (mask.dtype() != DType::F32 || mask.rank() < 2 || mask.dim(mask.rank() - 1) != mask.dim(mask.rank() - 2))
    return false;
  const int64_t n = mask.dim(mask.rank() - 1);
  if (mask.size() != n * n) return false;
  auto elements = mask.data<float>();
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const float x = elements[static_cast<size_t>(i * n + j)];
      if (j <= i ? x != 0 : !(x <= kHidden)) return false;
    }
  }
  return true;
}

// Whether it may be that no key is visible to a query. MultiHeadAttention makes NaNs of such a row, Attention zeros.
bool may_hide_all(const Node* mask) {
  analysis::RangeAnalysis ranges;
  if (ranges.range(mask).is_finite()) return false;
  const Tensor* constant = constant_tensor(mask);
  if (!constant || constant->dtype() != DType::F32 || constant->rank() == 0) return true;
  const auto row = static_cast<size_t>(constant->dim(constant->rank() - 1));
  auto elements = constant->data<float>();
  for (size_t i = 0; i < elements.size(); i += row) {
    if (std::ranges::none_of(elements.subspan(i, row), [](float x) { return std::isfinite(x); })) return true;
  }
  return false;
}

// A row for each query and a column for each key, for all heads and batch entries or for each.
bool is_score_bias(const Apply& attention, int64_t heads) {
  const Node *mask = attention.input(Mask), *q = attention.input(Query);
  const int rank = rank_of(mask);
  if (!is_single(mask) || rank < 2 || rank > 4) return false;
  const Type* type = mask->type();
  if (!provably_equal(type->dim(rank - 2), positions(q))) return false;
  if (!provably_equal(type->dim(rank - 1), positions(attention.input(Key)))) return false;
  const bool fits_heads = rank < 3 || extent_of(mask, rank - 3) == 1 || extent_of(mask, rank - 3) == heads;
  return fits_heads && (rank < 4 || extent_of(mask, 0) == 1 || provably_equal(type->dim(0), q->type()->dim(0)));
}

// Whether ONNX Runtime's MultiHeadAttention computes an Attention.
bool is_multi_head_attention(const Apply& node) {
  if (!node.is("Attention") || node.num_outputs() != 1 || node.num_inputs() < 3 || node.num_inputs() > 4) return false;
  for (const char* window : {"left_window_size", "right_window_size"}) {
    if (node.attributes().get_int(window, -1) != -1) return false;
  }
  if (node.attributes().get_float("softcap", 0) != 0) return false;
  if (node.attributes().get_int("softmax_precision", 1) != static_cast<int64_t>(DType::F32)) return false;
  const int64_t heads = heads_of(node);
  // Split into heads, keys and values must be of one size.
  const Node *k = node.input(Key), *v = node.input(ValueOf);
  if (rank_of(k) == 4 && !provably_equal(k->type()->dim(3), v->type()->dim(3))) return false;
  if (heads == 0 || (node.has_input(Mask) && !is_score_bias(node, heads))) return false;
  return node.attributes().get_int("is_causal", 0) == 0 ||
         provably_equal(positions(node.input(Query)), positions(node.input(Key)));
}

// Whether the heads were split off before, so that MultiHeadAttention takes what was there. Otherwise its views would cost more
// than it saves. Factors, and parts of what is stacked, are moved out of the way by rules.
bool was_packed(const Node* heads) {
  const Apply* node = heads->as_apply();
  while (node && (node->is("Mul") || node->is("Div")) && constant_tensor(node->input(1)))
    node = node->input(0)->as_apply();
  if (!node || node->is("Gather")) return node != nullptr;
  return node->is("Transpose") && node->attributes().get_ints("perm") == std::vector<int64_t>{0, 2, 1, 3};
}

Node* to_multi_head_attention(Rewriter& rewriter, Apply& root) {
  if (!is_multi_head_attention(root)) return nullptr;
  const bool is_split = rank_of(root.input(Query)) == 4;
  if (is_split && !was_packed(root.input(Query))) return nullptr;
  Replacement e(rewriter, root);
  const int64_t heads = heads_of(root);
  // K and V may be split.
  Node* q = e.input(Query);
  if (is_split) q = e.joined_heads(q);
  AttributeSet attributes{{"num_heads", heads}};
  if (e.given("scale")) attributes = attributes.with("scale", e.number("scale"));
  bool hides_later_keys = e.integer("is_causal") != 0;
  Node* bias = e.input(Mask);
  if (const Tensor* constant = bias ? constant_tensor(bias) : nullptr; constant && is_causal(*constant)) {
    hides_later_keys = true;
    bias = nullptr;
  }
  if (hides_later_keys) attributes = attributes.with("unidirectional", int64_t{1});
  const bool may_be_nan = bias && may_hide_all(bias);
  if (bias && rank_of(bias) < 4) {
    bias = e.apply("Unsqueeze", {bias, rank_of(bias) == 2 ? e.integers({0, 1}) : e.integers({0})});
  }
  Node* y = e.apply("com.microsoft::MultiHeadAttention", {q, e.input(Key), e.input(ValueOf), nullptr, nullptr, bias},
                    attributes);
  if (may_be_nan) y = e.apply("Where", {e.apply("IsNaN", {y}), e.scalar_like(y, 0), y});
  return is_split ? e.split_heads(y, heads) : y;
}

constexpr Rule kOwnRules[] = {
    {"onnxruntime-multi-head-attention", "Attention", "Attention(q, k, v, m) = MultiHeadAttention(q, k, v, m)",
     Promise::Real, to_multi_head_attention},
};

// An Attention that the operator set to be written does not have. Where it has them, ONNX Runtime runs them about as fast.
bool lacks_attention(const PassContext& context) {
  const auto& has_operator = context.options.has_operator;
  if (!has_operator) return false;
  for (const Graph* graph : context.module.graphs()) {
    for (const Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
      if (node->is("Attention") && !has_operator(*node)) return true;
    }
  }
  return false;
}

size_t run_onnxruntime(PassContext& context) {
  static const auto with_attention = built_in_rules({kOnnxRuntime.name}, {kOwnRules});
  static const auto without_attention = built_in_rules({kOnnxRuntime.name});
  const bool is_lacking = lacks_attention(context);
  const rewrite::RuleSet& rules = is_lacking || !context.options.has_operator ? *with_attention : *without_attention;
  rewrite::RewriteOptions options = context.rewriting();
  options.has_operator = nullptr;
  size_t changes = rewrite::apply_rules(rules, options, context.inference, context.remarks, kOnnxRuntime.name);
  // What did not become that after all.
  if (is_lacking) changes += kAttention.run(context);
  return changes;
}

}  // namespace

std::shared_ptr<const rewrite::RuleSet> rules_of_passes() {
  static const auto rules = built_in_rules({std::begin(kRulesOfPasses), std::end(kRulesOfPasses)}, {kOwnRules});
  return rules;
}

bool has_onnxruntime_operator(const Apply& node) {
  if (node.is("Gelu") || node.is("Swish")) return is_single(node.input(0));
  return is_multi_head_attention(node) && (rank_of(node.input(Query)) == 3 || was_packed(node.input(Query)));
}

const Pass kOnnxRuntime{"onnxruntime", "operators of ONNX Runtime", "fuse into com.microsoft operators",
                        run_onnxruntime};

}  // namespace anfora::passes

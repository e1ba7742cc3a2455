// Attention in parts, for execution: products and a softmax, whose kernels are
// faster than that of Attention. That one goes through the scores block by
// block; where all of them at once would take much memory, it stays.
//
//     softmax(cap(scale · Q Kᵀ) + bias) V
//
// A query that no key is visible to gets 0, for which softmax has no number.
// Where the bias may be infinite, that is looked up in it, for it is smaller
// than the scores.
#include <cmath>
#include <limits>

#include "passes/attention_operands.h"
#include "passes/pass.h"
#include "passes/replacement.h"

namespace anfora::passes {

extern const Pass kAttention;

using namespace ir;
using rewrite::Promise;
using rewrite::Rewriter;
using rewrite::Rule;

namespace {

constexpr double kMostScores = 1 << 26;  // 256 MB of them in f32

// Of a shape, symbols counted as 1.
double elements(const Type* type) {
  double count = 1;
  for (Dim dim : type->dims()) count *= static_cast<double>(dim.as_constant().value_or(1));
  return count;
}

Node* hidden_like(Replacement& e, const Node* x) { return e.scalar_like(x, -std::numeric_limits<double>::infinity()); }

// A mask as what is added to scores; null: nothing.
Node* bias_of(Replacement& e, Node* mask, Node* like) {
  if (!mask || mask->type()->dtype() == like->type()->dtype()) return mask;
  if (mask->type()->dtype() != DType::Bool) return e.apply("CastLike", {mask, like});
  return e.apply("Where", {mask, e.scalar_like(like, 0), hidden_like(e, like)});
}

bool is_supported(const Replacement& e, const Apply& root) {
  if (!is_typed(root) || e.input(ValidKeys) || is_result_used(root, 3) || !e.input(PastKey) != !e.input(PastValue)) return false;
  if (e.integer("left_window_size") >= 0 || e.integer("right_window_size") >= 0) return false;
  const int rank = rank_of(e.input(Query));
  if ((rank != 3 && rank != 4) || rank_of(e.input(Key)) != rank || rank_of(e.input(ValueOf)) != rank) return false;
  return !e.input(Mask) || (rank_of(e.input(Mask)) >= 1 && rank_of(e.input(Mask)) <= 4);
}

// Queries, keys and values by heads, [batch, heads, sequence, size]; several heads of queries may share one of keys.
struct Heads {
  Node *q = nullptr, *k = nullptr, *v = nullptr;
  int64_t heads = 0, groups = 0;  // of queries; of keys and values
  Node* scale = nullptr;
  float cap = 0;         // of the scores; 0: none
  Node* bias = nullptr;  // added to the scores, which it broadcasts to; null: none
};

Node* attention_in_parts(Replacement& e, const Heads& h) {
  const bool grouped = h.heads != h.groups;
  auto concat = [&](Replacement::Nodes parts) { return e.apply("Concat", parts, {{"axis", int64_t{0}}}); };
  auto by_group = [&](Node* x) {  // [batch, heads, …] as [batch, groups, heads of a group, …]
    if (!grouped) return x;
    Node* rest = e.apply("Shape", {x}, {{"start", int64_t{2}}});
    return e.apply("Reshape", {x, concat({e.integers({0, h.groups, h.heads / h.groups}), rest})});
  };
  auto single = [&](Node* x) { return grouped ? e.apply("Unsqueeze", {x, e.integers({2})}) : x; };
  std::vector<int64_t> perm{0, 1, 3, 2};
  if (grouped) perm = {0, 1, 2, 4, 3};
  Node* keys = e.apply("Transpose", {single(h.k)}, {{"perm", perm}});
  Node* scores = e.apply("MatMul", {by_group(e.apply("Mul", {h.q, h.scale})), keys});
  if (h.cap > 0) {
    Node* limit = e.scalar_like(scores, h.cap);
    scores = e.apply("Mul", {e.apply("Tanh", {e.apply("Div", {scores, limit})}), limit});
  }
  if (Node* bias = h.bias) {
    if (grouped) bias = by_group(e.apply("Expand", {bias, e.integers({1, h.heads, 1, 1})}));
    scores = e.apply("Add", {scores, bias});
  }
  Node* weights = e.apply("Softmax", {scores}, {{"axis", int64_t{-1}}});
  Node* y = e.apply("MatMul", {weights, single(h.v)});
  if (!grouped) return y;
  return e.apply("Reshape", {y, concat({e.integers({0, h.heads}), e.apply("Shape", {y}, {{"start", int64_t{3}}})})});
}

Node* in_parts(Rewriter& rewriter, Apply& root) {
  Replacement e(rewriter, root);
  if (!is_supported(e, root)) return nullptr;
  const bool packed = rank_of(e.input(Query)) == 3;
  Heads h{.q = e.input(Query), .k = e.input(Key), .v = e.input(ValueOf)};
  h.heads = packed ? e.integer("q_num_heads") : extent_of(h.q, 1);
  h.groups = packed ? e.integer("kv_num_heads") : extent_of(h.k, 1);
  if (h.groups < 1 || h.heads < 1 || h.heads % h.groups != 0) return nullptr;
  if (packed) {
    h.q = e.split_heads(h.q, h.heads);
    h.k = e.split_heads(h.k, h.groups), h.v = e.split_heads(h.v, h.groups);
  }
  const int64_t size = extent_of(h.q, 3);
  if (size < 1) return nullptr;
  Node* past = nullptr;
  if (e.input(PastKey)) {
    past = e.extent(e.input(PastKey), 2);
    h.k = e.apply("Concat", {e.input(PastKey), h.k}, {{"axis", int64_t{2}}});
    h.v = e.apply("Concat", {e.input(PastValue), h.v}, {{"axis", int64_t{2}}});
  }
  // Keys behind the mask's last are hidden.
  Node* mask = e.input(Mask);
  if (mask && !provably_equal(mask->type()->dim(rank_of(mask) - 1), h.k->type()->dim(2))) return nullptr;
  if (elements(h.q->type()) / static_cast<double>(size) * static_cast<double>(std::max<int64_t>(extent_of(h.k, 2), 1)) >
      kMostScores)
    return nullptr;

  h.scale = e.scalar_like(h.q, e.given("scale") ? e.number("scale") : 1 / std::sqrt(static_cast<double>(size)));
  h.cap = e.number("softcap");
  h.bias = bias_of(e, mask, h.q);
  const bool all_see = !h.bias || rewriter.range(h.bias).is_finite();
  if (e.integer("is_causal")) {
    Node* query = e.apply("Unsqueeze", {e.numbers_below(e.extent(h.q, 2)), e.integers({1})});
    Node* visible = e.apply("LessOrEqual", {e.numbers_below(e.extent(h.k, 2)), past ? e.apply("Add", {query, past}) : query});
    h.bias = e.apply("Where", {visible, h.bias ? h.bias : e.scalar_like(h.q, 0), hidden_like(e, h.q)});
  }
  Node* y = attention_in_parts(e, h);
  if (!all_see) {
    Node* best = e.apply("ReduceMax", {h.bias, e.integers({-1})});
    y = e.apply("Where", {e.apply("Greater", {best, hidden_like(e, best)}), y, e.scalar_like(y, 0)});
  }
  if (packed) y = e.joined_heads(y);
  return e.result({y, h.k, h.v});
}

constexpr Rule kPartRules[] = {
    {"attention-in-parts", "Attention", "Attention(Q, K, V, M) = softmax(Q · Kᵀ / √size + M) V", Promise::Real,
     in_parts},
};

size_t run_attention(PassContext& context) {
  rewrite::RewriteOptions options = context.rewriting();
  options.define_roots = true;
  return rewrite::apply_rules(kPartRules, options, context.inference, context.remarks, kAttention.name);
}

}  // namespace

const Pass kAttention{"attention", "attention in parts", "products and a softmax, for execution", run_attention};

}  // namespace anfora::passes

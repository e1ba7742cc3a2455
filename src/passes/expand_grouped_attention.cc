// GroupQueryAttention: several heads of queries share a head of keys, and each entry of the batch has a length of its own.
//
//     past[b] = max(length[b] − S, 0)          S new positions; a prompt may be shorter than S
//     p[b, s] = past[b] + s                    the positions of the queries, and of the new keys in the cache
//     the query at p sees the key at j where p − window < j ≤ p
//
// The cache grows where it is too short. What ONNX's Attention does not say as ONNX Runtime means it, a cap of the scores
// before they are hidden and a sink in the denominator of the softmax, is written in parts.
#include <limits>

#include "passes/expand.h"

namespace anfora::passes {
namespace {

using namespace ir;
using rewrite::Promise;
using rewrite::Rewriter;
using rewrite::Rule;

constexpr int64_t kI64 = 7;  // in ONNX's numbers

struct Grouped : Heads {
  enum Input {
    Query,
    Key,
    ValueOf,
    PastKey,
    PastValue,
    LastPositions,
    Total,
    Cosines,
    Sines,
    Positions,
    ScoreBias,
    Sinks,
    FirstUnsupported,  // scales of a quantized cache, weights of normalizations
  };

  Node *positions = nullptr, *lengths = nullptr;  // [batch, S], [batch, 1]
};

Node* concat(Expansion& e, Expansion::Nodes parts) { return e.apply("Concat", parts, {{"axis", int64_t{0}}}); }

// Queries, keys and values by heads; they may come in one tensor.
void split(Expansion& e, Grouped& g) {
  if (e.input(Grouped::Key)) {
    g.q = e.split_heads(e.input(Grouped::Query), g.heads);
    g.k = e.split_heads(e.input(Grouped::Key), g.groups), g.v = e.split_heads(e.input(Grouped::ValueOf), g.groups);
    return;
  }
  Node* all = e.split_heads(e.input(Grouped::Query), g.heads + 2 * g.groups);
  auto parts = e.split(all, 1, e.integers({g.heads, g.groups, g.groups}), 3);
  g.q = parts[0], g.k = parts[1], g.v = parts[2];
}

void rotate(Expansion& e, Grouped& g) {
  const int64_t half = extent_of(e.input(Grouped::Cosines), 1);
  AttributeSet attributes{{"interleaved", e.integer("rotary_interleaved")}};
  if (half > 0) attributes = attributes.with("rotary_embedding_dim", 2 * half);
  Node* positions = e.input(Grouped::Positions) ? e.input(Grouped::Positions) : g.positions;
  for (Node** x : {&g.q, &g.k})
    *x = e.apply("RotaryEmbedding", {*x, e.input(Grouped::Cosines), e.input(Grouped::Sines), positions}, attributes);
}

// The cache with what is new at its positions, `length` long.
Node* cached(Expansion& e, Node* cache, Node* added, Node* positions, Node* length) {
  Node* missing = e.apply("Sub", {length, e.extent(cache, 2)});
  Node* shape = concat(e, {e.extent(cache, 0), e.extent(cache, 1), missing, e.extent(cache, 3)});
  Node* longer =
      e.apply("Concat", {cache, e.apply("Expand", {e.scalar_like(cache, 0), shape})}, {{"axis", int64_t{2}}});
  Node* at = e.apply("Expand", {e.apply("Unsqueeze", {positions, e.integers({1, 3})}), e.apply("Shape", {added})});
  return e.apply("ScatterElements", {longer, at, added}, {{"axis", int64_t{2}}});
}

// [batch, 1, S, keys]
Node* visible_keys(Expansion& e, const Grouped& g, Node* length) {
  Node* key = e.numbers_below(length);
  auto by_query = [&](Node* x) { return e.apply("Unsqueeze", {x, e.integers({1, 3})}); };
  if (!e.integer("causal")) return e.apply("Less", {key, by_query(g.lengths)});
  Node* visible = e.apply("LessOrEqual", {key, by_query(g.positions)});
  const int64_t window = e.integer("local_window_size");
  if (window < 1) return visible;
  Node* before = e.apply("Sub", {by_query(g.positions), e.integers({window})});
  return e.apply("And", {visible, e.apply("Greater", {key, before})});
}

// The bias of the scores for as many keys as the cache has; it may be given for fewer.
Node* padded_bias(Expansion& e, Node* bias, Node* length) {
  Node* missing = e.apply("Sub", {length, e.extent(bias, 3)});
  return e.apply("Pad", {bias, concat(e, {e.integers({0, 0, 0, 0, 0, 0, 0}), missing})});
}

Node* masked_like(Expansion& e, Node* x) { return e.scalar_like(x, -std::numeric_limits<double>::infinity()); }

// 1/√size unless it is given.
Node* scale_of_scores(Expansion& e, Node* q) {
  if (e.number("scale") != 0) return e.scalar_like(q, e.number("scale"));
  Node* size = e.apply("Squeeze", {e.extent(q, 3), e.integers({0})});
  return e.apply("Reciprocal", {e.apply("Sqrt", {e.apply("CastLike", {size, q})})});
}

bool is_supported_group(const Expansion& e, const Apply& root) {
  for (size_t i = Grouped::FirstUnsupported; i < root.num_inputs(); ++i) {
    if (e.input(i)) return false;
  }
  for (const char* quantization : {"k_quant_type", "v_quant_type"}) {
    if (root.attributes().get_string(quantization, "NONE") != "NONE") return false;
  }
  if (e.integer("qk_output") || e.integer("sliding_window_cache") || e.is_used(3)) return false;
  if (e.input(Grouped::ScoreBias) && rank_of(e.input(Grouped::ScoreBias)) != 4) return false;
  if (e.integer("do_rotary") && (!e.input(Grouped::Cosines) || !e.input(Grouped::Sines))) return false;
  return e.is_typed() && rank_of(e.input(Grouped::Query)) == 3 &&
         (!e.input(Grouped::Key) || e.input(Grouped::ValueOf)) &&
         (!e.input(Grouped::PastKey) == !e.input(Grouped::PastValue));
}

Node* grouped_attention(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  Grouped g;
  g.heads = e.integer("num_heads"), g.groups = e.integer("kv_num_heads");
  if (!is_supported_group(e, root) || g.groups < 1 || g.heads % g.groups != 0) return nullptr;
  split(e, g);
  auto wide = [&](size_t i, Node* shape) {
    return e.apply("Reshape", {e.apply("Cast", {e.input(i)}, {{"to", kI64}}), shape});
  };
  g.lengths = e.apply("Add", {wide(Grouped::LastPositions, e.integers({-1, 1})), e.integers({1})});
  Node* steps = e.extent(g.q, 2);
  Node* past = e.apply("Max", {e.apply("Sub", {g.lengths, steps}), e.integers({0})});
  g.positions = e.apply("Add", {past, e.numbers_below(steps)});
  if (e.integer("do_rotary")) rotate(e, g);
  Node* length = steps;
  if (e.input(Grouped::PastKey)) {
    length = e.apply("Max", {e.extent(e.input(Grouped::PastKey), 2), wide(Grouped::Total, e.integers({1}))});
    g.k = cached(e, e.input(Grouped::PastKey), g.k, g.positions, length);
    g.v = cached(e, e.input(Grouped::PastValue), g.v, g.positions, length);
  }
  Node* visible = visible_keys(e, g, length);
  Node* bias = e.input(Grouped::ScoreBias) ? padded_bias(e, e.input(Grouped::ScoreBias), length) : nullptr;
  Node* y = nullptr;
  if (e.number("softcap") > 0 || e.input(Grouped::Sinks) || e.integer("smooth_softmax") > 0) {
    g.scale = scale_of_scores(e, g.q);
    g.cap = e.number("softcap");
    g.bias = e.apply("Where", {visible, bias ? bias : e.scalar_like(g.q, 0), masked_like(e, g.q)});
    g.sinks = e.input(Grouped::Sinks);
    if (!g.sinks && e.integer("smooth_softmax") > 0) g.sinks = e.scalar_like(g.q, 0);
    y = attention_in_parts(e, g);
  } else {
    AttributeSet attributes;
    if (e.number("scale") != 0) attributes = attributes.with("scale", e.number("scale"));
    Node* mask = bias ? e.apply("Where", {visible, bias, masked_like(e, bias)}) : visible;
    y = e.apply("Attention", {g.q, g.k, g.v, mask}, attributes);
  }
  return e.result({e.joined_heads(y), g.k, g.v});
}

constexpr Rule kGroupedExpansions[] = {
    {"expand-grouped-attention", "com.microsoft::GroupQueryAttention",
     "GroupQueryAttention(q, k, v) = Attention(q, cache with k, cache with v)", Promise::Real, grouped_attention},
};

}  // namespace

std::span<const Rule> grouped_attention_expansions() { return kGroupedExpansions; }

}  // namespace anfora::passes

// The attentions of ONNX Runtime in ONNX's Attention:
//
//     Attention(x, w, b, mask)     x w + b = Q | K | V,  then
//     MultiHeadAttention(Q, K, V)  Q + b₁, K + b₂, V + b₃,  then  Attention(Q, K, V, bias, past)
//
// A mask adds mask_filter_value to the scores of what it hides, it does not remove them: where everything is hidden, what is
// left is the unmasked attention. So masks become a bias:
//
//     0 or 1 for each key [batch, keys], or each query and key [batch, queries, keys]; [batch, 1]: no mask
//     0 or 1 for each position of a query and a key, [batch, 1, longest, longest]; the queries are the last ones
//     the number of keys [batch], or those and the first ones [2 · batch]: hidden are the others
#include <array>
#include <limits>

#include "passes/expand.h"

namespace anfora::passes {
namespace {

using namespace ir;
using rewrite::Promise;
using rewrite::Rewriter;
using rewrite::Rule;

// What of Q, K and V the heads attend to.
struct Attended {
  Node *q = nullptr, *k = nullptr, *v = nullptr;  // [batch, sequence, width]; K and V may be split into heads
  Node *bias = nullptr, *past_key = nullptr, *past_value = nullptr;
  int64_t heads = 0;
  bool is_causal = false;
  bool has_present = false, has_scores = false;
};
struct Attention {
  Node *y = nullptr, *present_key = nullptr, *present_value = nullptr, *scores = nullptr;
};

Attention attention(Expansion& e, Attended a) {
  const bool split = rank_of(a.k) == 4;
  AttributeSet attributes{{"is_causal", static_cast<int64_t>(a.is_causal)}};
  if (e.given("scale") && e.number("scale") != 0) attributes = attributes.with("scale", e.number("scale"));
  if (split) {
    a.q = e.split_heads(a.q, a.heads);
  } else {
    attributes = attributes.with("q_num_heads", a.heads).with("kv_num_heads", a.heads);
  }
  Attention result;
  const size_t results = a.has_scores ? 4 : a.has_present ? 3 : 1;
  Apply* made = e.apply_several("Attention", {a.q, a.k, a.v, a.bias, a.past_key, a.past_value}, results, attributes);
  result.y = results == 1 ? made : e.item(made, 0);
  if (a.has_present) result.present_key = e.item(made, 1), result.present_value = e.item(made, 2);
  if (a.has_scores) result.scores = e.item(made, 3);
  if (split) result.y = e.joined_heads(result.y);
  return result;
}

// 0 where the condition holds, else mask_filter_value.
Node* filtered(Expansion& e, Node* visible, const Node* like) {
  return e.apply("Where", {visible, e.scalar_like(like, 0), e.scalar_like(like, e.number("mask_filter_value"))});
}

// The keys' positions against the number of keys of each batch entry, [batch, 1, 1, keys].
Node* before_lengths(Expansion& e, std::string_view comparison, Node* lengths, Node* keys) {
  return e.apply(comparison, {e.numbers_below(e.apply("CastLike", {keys, lengths})),
                              e.apply("Unsqueeze", {lengths, e.integers({1, 2, 3})})});
}

// Each query attends to as many keys as it has queries before it, of the cache one more each, and the last one to all. That
// is what Attention calls causal where there are as many queries as new keys.
void hide_later_keys(Expansion& e, Node* past, Node* keys, Attended& a) {
  const int key_axis = rank_of(a.k) == 4 ? 2 : 1;
  if (provably_equal(a.q->type()->dim(1), a.k->type()->dim(key_axis))) {
    a.is_causal = true;
    return;
  }
  Node* queries = e.extent(a.q, 1);
  Node* query = e.apply("Unsqueeze", {e.numbers_below(queries), e.integers({1})});
  Node* is_last = e.apply("Equal", {query, e.apply("Sub", {queries, e.integers({1})})});
  Node* is_before = e.apply("LessOrEqual", {e.numbers_below(keys), e.sum(query, past)});
  Node* visible = e.apply("Or", {is_before, is_last});
  const double hidden = -std::numeric_limits<double>::infinity();
  a.bias = e.sum(e.apply("Where", {visible, e.scalar_like(a.q, 0), e.scalar_like(a.q, hidden)}), a.bias);
}

// Adds what a mask adds to the scores to `bias`; `keys` is the number of all keys, a vector of one. False: not known how.
bool add_mask(Expansion& e, Node* mask, Node* keys, Node* x, Node*& bias) {
  const int rank = rank_of(mask);
  Node* visible = nullptr;
  if (rank == 2) {
    // One column stands for no mask; Attention would take the others to be hidden.
    const int64_t columns = extent_of(mask, 1);
    if (columns == 1) return true;
    visible = e.apply("Greater", {mask, e.scalar_like(mask, 0)});
    if (columns < 0) {
      visible = e.apply("Or", {visible, e.apply("Equal", {e.extent(mask, 1), e.integers({1})})});
      visible = e.apply("Expand", {visible, e.apply("Concat", {e.integers({1}), keys}, {{"axis", int64_t{0}}})});
    }
    visible = e.apply("Unsqueeze", {visible, e.integers({1, 2})});
  } else if (rank == 3) {
    visible = e.apply("Unsqueeze", {e.apply("Greater", {mask, e.scalar_like(mask, 0)}), e.integers({1})});
  } else if (rank == 4) {
    Node* first = e.apply("Sub", {keys, e.extent(x, 1)});
    Node* rows = e.apply("Slice", {mask, first, keys, e.integers({2})});
    Node* part = e.apply("Slice", {rows, e.integers({0}), keys, e.integers({3})});
    visible = e.apply("Greater", {part, e.scalar_like(mask, 0)});
  } else if (rank == 1) {
    // Where there are no first ones, they are 0.
    Node* batch = e.extent(x, 0);
    Node* padded =
        e.apply("Concat", {mask, e.apply("Expand", {e.scalar_like(mask, 0), batch})}, {{"axis", int64_t{0}}});
    Node* ends = e.apply("Slice", {mask, e.integers({0}), batch});
    Node* starts = e.apply("Slice", {padded, batch, e.apply("Mul", {batch, e.integers({2})})});
    visible =
        e.apply("And", {before_lengths(e, "Less", ends, keys), before_lengths(e, "GreaterOrEqual", starts, keys)});
  } else {
    return false;
  }
  bias = e.sum(filtered(e, visible, x), bias);
  return true;
}

// Attention of the parts of a projection of x. Null among mask, past and bias: there is none.
Node* attention_of_projection(Expansion& e, Node* x, Node* projected, std::array<int64_t, 3> sizes, Node* mask,
                              Node* past, Node* score_bias) {
  const int64_t heads = e.integer("num_heads");
  if (rank_of(x) != 3 || heads < 1 || e.integer("past_present_share_buffer") || e.integer("do_rotary")) return nullptr;
  auto parts = e.split(projected, 2, e.integers({sizes[0], sizes[1], sizes[2]}), 3);
  Attended a{.q = parts[0], .k = parts[1], .v = parts[2], .heads = heads, .has_present = e.is_used(1)};
  Node* keys = e.extent(x, 1);
  if (past) {
    auto part = [&](int64_t i) {
      return e.apply("Squeeze", {e.apply("Slice", {past, e.integers({i}), e.integers({i + 1})}), e.integers({0})});
    };
    a.past_key = part(0), a.past_value = part(1);
    keys = e.sum(keys, e.extent(past, 3));
  }
  a.is_causal = e.integer("unidirectional") != 0;
  a.bias = score_bias;
  if (mask && !add_mask(e, mask, keys, projected, a.bias)) return nullptr;
  Attention made = attention(e, a);
  Node* present = nullptr;
  if (a.has_present) {
    auto first = [&](Node* n) { return e.apply("Unsqueeze", {n, e.integers({0})}); };
    present = e.apply("Concat", {first(made.present_key), first(made.present_value)}, {{"axis", int64_t{0}}});
  }
  return e.result({made.y, present});
}

Node* packed_attention(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  enum { Input, Weights, Bias, Mask, Past, ScoreBias, PastLength };
  const int64_t width = extent_of(e.input(Weights), 1);
  std::vector<int64_t> sizes = root.attributes().get_ints("qkv_hidden_sizes", {width / 3, width / 3, width / 3});
  if (!e.is_typed() || e.input(PastLength) || width < 1 || sizes.size() != 3) return nullptr;
  Node* projected = e.sum(e.apply("MatMul", {e.input(Input), e.input(Weights)}), e.input(Bias));
  return attention_of_projection(e, e.input(Input), projected, {sizes[0], sizes[1], sizes[2]}, e.input(Mask),
                                 e.input(Past), e.input(ScoreBias));
}

Node* quantized_attention(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  enum { Input, Weights, Bias, ScaleInput, ScaleWeights, Mask, ZeroInput, ZeroWeights, Past };
  const int64_t width = extent_of(e.input(Weights), 1);
  if (!e.is_typed() || width < 1) return nullptr;
  Node* product = integer_product(e, e.input(Input), e.input(Weights), e.input(ScaleInput), e.input(ScaleWeights),
                                  e.input(ZeroInput), e.input(ZeroWeights));
  return attention_of_projection(e, e.input(Input), e.sum(product, e.input(Bias)), {width / 3, width / 3, width / 3},
                                 e.input(Mask), e.input(Past), nullptr);
}

// Which input is which, of the two operators that attend to queries, keys and values.
struct Places {
  size_t bias, mask, score_bias, past_key, past_value, past_length, indirection;
};
constexpr Places kMultiHead{3, 4, 5, 6, 7, 8, 9};
constexpr Places kDecoderMasked{10, 3, 4, 5, 6, 7, 9};

// The cache with new rows from `start` on; it does not grow.
Node* replaced_rows(Expansion& e, Node* cache, Node* rows, Node* start) {
  Node* positions = e.apply("Add", {e.numbers_below(e.extent(rows, 2)), start});
  Node* at = e.apply("Expand", {e.apply("Unsqueeze", {positions, e.integers({0, 1, 3})}), e.apply("Shape", {rows})});
  return e.apply("ScatterElements", {cache, at, rows}, {{"axis", int64_t{2}}});
}

Node* multi_head(Expansion& e, const Places& at, bool is_causal) {
  Attended a{.q = e.input(0), .k = e.input(1), .v = e.input(2), .heads = e.integer("num_heads")};
  a.has_scores = e.is_used(3);
  a.has_present = e.is_used(1) || e.is_used(2);
  const bool split = rank_of(a.k) == 4;
  a.past_key = e.input(at.past_key), a.past_value = e.input(at.past_value);
  // Packed Q, K and V are for other devices.
  if (rank_of(a.q) != 3 || (rank_of(a.k) != 3 && !split) || rank_of(a.v) != rank_of(a.k) || a.heads < 1) return nullptr;
  if (!a.past_key != !a.past_value || (a.past_key && (split || e.input(at.indirection)))) return nullptr;
  if (Node* bias = e.input(at.bias)) {
    Node *q = e.extent(a.q, 2), *k = split ? q : e.extent(a.k, 2);
    Node* v = split ? e.apply("Mul", {e.extent(a.v, 3), e.integers({a.heads})}) : e.extent(a.v, 2);
    auto parts = e.split(bias, 0, e.apply("Concat", {q, k, v}, {{"axis", int64_t{0}}}), 3);
    a.q = e.sum(a.q, parts[0]);
    // Keys and values that are split into heads were computed before, with theirs.
    if (!split) a.k = e.sum(a.k, parts[1]), a.v = e.sum(a.v, parts[2]);
  }
  Node* keys = e.extent(a.k, split ? 2 : 1);
  Node* past = a.past_key ? e.extent(a.past_key, 2) : nullptr;
  Node *whole_key = nullptr, *whole_value = nullptr;
  if (a.past_key && e.input(at.past_length)) {
    past = e.apply("Reshape", {e.apply("Cast", {e.input(at.past_length)}, {{"to", int64_t{7}}}), e.integers({1})});
    keys = e.sum(keys, past);
    whole_key = replaced_rows(e, a.past_key, e.split_heads(a.k, a.heads), past);
    whole_value = replaced_rows(e, a.past_value, e.split_heads(a.v, a.heads), past);
    auto used = [&](Node* whole) { return e.apply("Slice", {whole, e.integers({0}), keys, e.integers({2})}); };
    a.k = used(whole_key), a.v = used(whole_value);
    a.past_key = a.past_value = nullptr;
    a.has_present = false;
  } else {
    keys = e.sum(keys, past);
  }
  a.bias = e.input(at.score_bias);
  if (is_causal) hide_later_keys(e, past, keys, a);
  if (e.input(at.mask) && !add_mask(e, e.input(at.mask), keys, a.q, a.bias)) return nullptr;
  Attention made = attention(e, a);
  if (whole_key) made.present_key = whole_key, made.present_value = whole_value;
  return e.result({made.y, made.present_key, made.present_value, made.scores});
}

Node* multi_head_attention(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  return e.is_typed() ? multi_head(e, kMultiHead, e.integer("unidirectional") != 0) : nullptr;
}

Node* masked_multi_head_attention(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  return e.is_typed() ? multi_head(e, kDecoderMasked, false) : nullptr;
}

// Positions are one for each element, or the first of all.
Node* rotary_embedding(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  if (!e.is_typed() || e.integer("is_packed_batching") || e.number("scale") != 1) return nullptr;
  Node *x = e.input(0), *positions = e.input(1);
  const int rank = rank_of(x);
  const int64_t rotated = e.integer("rotary_embedding_dim"), heads = e.integer("num_heads");
  if ((rank != 4 && rank != 3) || (rank == 3 && heads < 1 && rotated != 0)) return nullptr;
  AttributeSet attributes{{"interleaved", e.integer("interleaved")}, {"rotary_embedding_dim", rotated}};
  auto transposed = [&](Node* n) { return e.apply("Transpose", {n}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}); };
  const bool is_split = rank == 3 && heads < 1;  // into heads as wide as the rotation
  if (is_split) {
    Node* size = e.apply("Mul", {e.extent(e.input(2), 1), e.integers({2})});
    Node* shape = e.apply("Concat", {e.integers({0, 0, -1}), size}, {{"axis", int64_t{0}}});
    x = transposed(e.apply("Reshape", {x, shape}));
  } else if (rank == 3) {
    attributes = attributes.with("num_heads", heads);
  }
  if (rank_of(positions) == 1) {
    Node* length = e.extent(x, rank_of(x) - 2);
    positions = e.apply("Expand", {e.apply("Add", {e.numbers_below(length), positions}),
                                   e.apply("Concat", {e.extent(x, 0), length}, {{"axis", int64_t{0}}})});
  } else if (rank_of(positions) != 2) {
    return nullptr;
  }
  Node* y = e.apply("RotaryEmbedding", {x, e.input(2), e.input(3), positions}, attributes);
  if (is_split) y = e.apply("Reshape", {transposed(y), e.integers({0, 0, -1})});
  return e.result({y});
}

constexpr Rule kAttentionExpansions[] = {
    {"expand-packed-attention", "com.microsoft::Attention", "Attention(x, w, b) = Attention of the parts of x w + b",
     Promise::Real, packed_attention},
    {"expand-quantized-attention", "com.microsoft::QAttention",
     "QAttention(x, w, b) = Attention of the parts of dequantized x w + b", Promise::Real, quantized_attention},
    {"expand-multi-head-attention", "com.microsoft::MultiHeadAttention",
     "MultiHeadAttention(q, k, v, b) = Attention(q + b₁, k + b₂, v + b₃)", Promise::Real, multi_head_attention},
    {"expand-rotary-embedding", "com.microsoft::RotaryEmbedding", "RotaryEmbedding is ONNX's, with other positions",
     Promise::Real, rotary_embedding},
    {"expand-masked-multi-head-attention", "com.microsoft::DecoderMaskedMultiHeadAttention",
     "DecoderMaskedMultiHeadAttention(q, k, v) = MultiHeadAttention(q, k, v)", Promise::Real,
     masked_multi_head_attention},
};

}  // namespace

std::span<const Rule> attention_expansions() { return kAttentionExpansions; }

}  // namespace anfora::passes

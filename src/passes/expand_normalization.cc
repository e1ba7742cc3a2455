// Normalizations of sums, and of embeddings.
#include "passes/expand.h"

namespace anfora::passes {
namespace {

using namespace ir;
using rewrite::Promise;
using rewrite::Rewriter;
using rewrite::Rule;

// Results: normalized, mean, 1/deviation, sum. The mean and the deviation are computed where they are used.
Node* skip_layer_normalization(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  if (!e.is_typed()) return nullptr;
  Node* sum = e.sum(e.sum(e.input(0), e.input(1)), e.input(4));
  const AttributeSet epsilon{{"epsilon", e.number("epsilon")}};
  if (!e.is_used(1) && !e.is_used(2)) {
    return e.result({e.apply("LayerNormalization", {sum, e.input(2), e.input(3)}, epsilon), nullptr, nullptr, sum});
  }
  Apply* several = e.apply_several("LayerNormalization", {sum, e.input(2), e.input(3)}, 3, epsilon);
  return e.result({e.item(several, 0), e.item(several, 1), e.item(several, 2), sum});
}

// The same without a mean, which is 0.
Node* skip_rms_normalization(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  if (!e.is_typed()) return nullptr;
  Node* sum = e.sum(e.sum(e.input(0), e.input(1)), e.input(3));
  Node *mean = nullptr, *scale = nullptr;
  if (e.is_used(1) || e.is_used(2)) {
    Node* x = e.apply("Cast", {sum}, {{"to", int64_t{1}}});
    Node* square = e.apply("ReduceMean", {e.apply("Mul", {x, x}), e.integers({-1})});
    Node* deviation = e.apply("Sqrt", {e.apply("Add", {square, e.scalar_like(x, e.number("epsilon"))})});
    scale = e.apply("Reciprocal", {deviation});
    mean = e.apply("Expand", {e.scalar_like(x, 0), e.apply("Shape", {scale})});
  }
  return e.result(
      {e.apply("RMSNormalization", {sum, e.input(2)}, {{"epsilon", e.number("epsilon")}}), mean, scale, sum});
}

// Results: normalized, how many words of each row the mask counts, sum.
Node* embed_layer_normalization(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  if (!e.is_typed()) return nullptr;
  enum { Ids, Segments, Words, Positions, SegmentWeights, Gamma, Beta, Mask, PositionIds };
  Node* ids = e.input(Ids);
  Node* positions = e.input(PositionIds)
                        ? e.apply("Gather", {e.input(Positions), e.input(PositionIds)})
                        : e.apply("Slice", {e.input(Positions), e.integers({0}), e.extent(ids, 1), e.integers({0})});
  Node* sum = e.sum(e.apply("Gather", {e.input(Words), ids}), positions);
  if (e.input(Segments)) {
    if (!e.input(SegmentWeights)) return nullptr;
    sum = e.sum(sum, e.apply("Gather", {e.input(SegmentWeights), e.input(Segments)}));
  }
  Node* normalized =
      e.apply("LayerNormalization", {sum, e.input(Gamma), e.input(Beta)}, {{"epsilon", e.number("epsilon")}});
  Node* count = nullptr;
  const AttributeSet to_i32{{"to", int64_t{6}}};
  if (e.is_used(1) && e.input(Mask)) {
    Node* is_word = e.apply("Equal", {e.input(Mask), e.scalar_like(e.input(Mask), 1)});
    count = e.apply("ReduceSum", {e.apply("Cast", {is_word}, to_i32), e.integers({1})}, {{"keepdims", int64_t{0}}});
  } else if (e.is_used(1)) {
    count = e.apply("Expand", {e.scalar_like(ids, 0), e.extent(ids, 0)});
  }
  return e.result({normalized, count, sum});
}

constexpr Rule kRules[] = {
    {"expand-skip-layer-normalization", "com.microsoft::SkipLayerNormalization",
     "SkipLayerNormalization(x, y) = LayerNormalization(x + y)", Promise::Real, skip_layer_normalization},
    {"expand-skip-rms-normalization", "com.microsoft::SkipSimplifiedLayerNormalization",
     "SkipSimplifiedLayerNormalization(x, y) = RMSNormalization(x + y)", Promise::Real, skip_rms_normalization},
    {"expand-embed-layer-normalization", "com.microsoft::EmbedLayerNormalization",
     "EmbedLayerNormalization = LayerNormalization of a sum of Gathers", Promise::Real, embed_layer_normalization},
};

}  // namespace

std::span<const Rule> normalization_expansions() { return kRules; }

}  // namespace anfora::passes

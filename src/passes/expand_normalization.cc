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

// The sum of embeddings normalized. Results: normalized, how many words of each row the mask counts, sum.
struct Embedding {
  Node *ids = nullptr, *sum = nullptr, *gamma = nullptr, *beta = nullptr, *mask = nullptr;
};
Node* normalized_embedding(Expansion& e, const Embedding& x) {
  Node* normalized = e.apply("LayerNormalization", {x.sum, x.gamma, x.beta}, {{"epsilon", e.number("epsilon")}});
  Node* count = nullptr;
  const AttributeSet to_i32{{"to", int64_t{6}}};
  if (e.is_used(1) && x.mask) {
    Node* is_word = e.apply("Equal", {x.mask, e.scalar_like(x.mask, 1)});
    count = e.apply("ReduceSum", {e.apply("Cast", {is_word}, to_i32), e.integers({1})}, {{"keepdims", int64_t{0}}});
  } else if (e.is_used(1)) {
    count = e.apply("Expand", {e.scalar_like(x.ids, 0), e.extent(x.ids, 0)});
  }
  return e.result({normalized, count, x.sum});
}

// The rows of a table for the ids, or the first ones, as many as there are in a row of `ids`.
Node* positions_of(Expansion& e, Node* table, Node* positions, Node* ids) {
  if (positions) return e.apply("Gather", {table, positions});
  return e.apply("Slice", {table, e.integers({0}), e.extent(ids, 1), e.integers({0})});
}

Node* embed_layer_normalization(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  enum { Ids, Segments, Words, Positions, SegmentWeights, Gamma, Beta, Mask, PositionIds };
  if (!e.is_typed() || (e.input(Segments) && !e.input(SegmentWeights))) return nullptr;
  Node* ids = e.input(Ids);
  Node* sum =
      e.sum(e.apply("Gather", {e.input(Words), ids}), positions_of(e, e.input(Positions), e.input(PositionIds), ids));
  if (e.input(Segments)) sum = e.sum(sum, e.apply("Gather", {e.input(SegmentWeights), e.input(Segments)}));
  return normalized_embedding(
      e, {.ids = ids, .sum = sum, .gamma = e.input(Gamma), .beta = e.input(Beta), .mask = e.input(Mask)});
}

// The same of quantized tables; the scales of words, positions, segments, gamma and beta follow, then their zero points.
Node* quantized_embed_layer_normalization(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  enum { Ids, Segments, Words, Positions, SegmentWeights, Gamma, Beta, Mask };
  enum Scale { OfWords, OfPositions, OfSegments, OfGamma, OfBeta, kCount };
  if (!e.is_typed() || (e.input(Segments) && !e.input(SegmentWeights))) return nullptr;
  auto real = [&](Node* x, Scale scale) {
    const size_t first = Mask + 1 + static_cast<size_t>(scale);
    return dequantized(e, x, e.input(first), e.input(first + kCount));
  };
  Node* ids = e.input(Ids);
  Node* sum = e.sum(real(e.apply("Gather", {e.input(Words), ids}), OfWords),
                    real(positions_of(e, e.input(Positions), nullptr, ids), OfPositions));
  if (e.input(Segments)) {
    sum = e.sum(sum, real(e.apply("Gather", {e.input(SegmentWeights), e.input(Segments)}), OfSegments));
  }
  return normalized_embedding(e, {.ids = ids,
                                  .sum = sum,
                                  .gamma = real(e.input(Gamma), OfGamma),
                                  .beta = real(e.input(Beta), OfBeta),
                                  .mask = e.input(Mask)});
}

constexpr Rule kNormalizationExpansions[] = {
    {"expand-skip-layer-normalization", "com.microsoft::SkipLayerNormalization",
     "SkipLayerNormalization(x, y) = LayerNormalization(x + y)", Promise::Real, skip_layer_normalization},
    {"expand-skip-rms-normalization", "com.microsoft::SkipSimplifiedLayerNormalization",
     "SkipSimplifiedLayerNormalization(x, y) = RMSNormalization(x + y)", Promise::Real, skip_rms_normalization},
    {"expand-embed-layer-normalization", "com.microsoft::EmbedLayerNormalization",
     "EmbedLayerNormalization = LayerNormalization of a sum of Gathers", Promise::Real, embed_layer_normalization},
    {"expand-quantized-embed-layer-normalization", "com.microsoft::QEmbedLayerNormalization",
     "QEmbedLayerNormalization = LayerNormalization of a sum of dequantized Gathers", Promise::Real,
     quantized_embed_layer_normalization},
};

}  // namespace

std::span<const Rule> normalization_expansions() { return kNormalizationExpansions; }

}  // namespace anfora::passes

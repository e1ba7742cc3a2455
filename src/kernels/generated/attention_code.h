// The code of Attention, as what generates it and what runs it agree on.
//
//     Y = softmax(cap(scale · Q Kᵀ) + bias) V        of one head, for some rows of Q and a block of keys at a time
//
// A block of scores is all that is held; what earlier blocks have summed is scaled to the largest score so far (Milakov and Gimelshein,
// Online normalizer calculation for softmax; Dao et al., FlashAttention):
//
//     Scores          S = scale · Q Kᵀ                     of keys that are packed as panels K'[panel][size of a head][key of the panel],
//                                                          lanes of them at a time
//     ScoresOfFew     the same, of keys as they lie: for few rows, where packing would take longer
//     Bias            S = cap(S) + bias, and the largest of each lane of a row
//     Probabilities   m' = max(m, max S), P = exp(S − m'), α = exp(m − m'), sum' = α sum + Σ P
//     Values          Y' = β (α Y + P V),                  where β = 1 / sum' at the last block, else 1
//
// Every row is computed in the same way in each entry: so results do not depend on how rows are split among threads.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/generated/product_code.h"

namespace anfora::kernels::generated {

// What is added to the scores.
enum class AttentionBias : uint8_t { None, Numbers, Truths };

struct AttentionCode {
  Isa isa = Isa::Sse2;
  Tile scores, values;    // of the largest entries
  bool has_edge = false;  // the last columns of V are fewer than a panel
  AttentionBias bias = AttentionBias::None;
  bool has_cap = false;

  bool operator==(const AttentionCode&) const = default;
  int panel_keys() const { return scores.vectors * describe(isa).lanes; }
  int panel_columns() const { return values.vectors * describe(isa).lanes; }
};

struct AttentionEntry {
  enum class Kind : uint8_t { Pack, ScoresOfFew, Bias, Probabilities, Scores, Values };
  Kind kind = Kind::Pack;
  int rows = 0;  // of Scores and Values: of the tile
  int number() const { return static_cast<int>(kind) * kNumbersOfKind + rows; }
  static AttentionEntry of(int number) { return {static_cast<Kind>(number / kNumbersOfKind), number % kNumbersOfKind}; }

 private:
  static constexpr int kNumbersOfKind = 32;
};

// The arguments of the entries, in order. Strides count in elements.
struct PackKeys {  // `lanes` keys become as many columns of a panel
  enum Argument : uint8_t { kKeys, kKeyStride, kPanel, kVectors, kRest, kArguments };
};
struct ScoresOfPanels {
  enum Argument : uint8_t {
    kQueries,
    kQueryStride,
    kPanels,
    kPanelSize,  // elements
    kCount,      // of panels
    kDepth,      // elements of a head
    kScale,      // the address of a number
    kScores,
    kScoreStride,
    kArguments
  };
};
struct ScoresOfKeys {
  enum Argument : uint8_t {
    kRows,
    kQueries,
    kQueryStride,
    kKeys,
    kKeyStride,
    kGroups,   // of `lanes` keys,
    kRest,     // then so many
    kVectors,  // of a head,
    kDepthRest,
    kScale,
    kScores,
    kScoreStride,
    kArguments
  };
};
struct BiasOfScores {  // memory of scores is written up to the next whole vector
  enum Argument : uint8_t {
    kRows,
    kScores,
    kScoreStride,
    kVectors,   // whole ones of a row
    kAll,       // with a rest as one more
    kElements,  // of a row
    kBias,
    kBiasStride,
    kCap,     // the address of a number
    kMaxima,  // a vector for each row, written
    kArguments
  };
};
struct ProbabilitiesOfScores {  // what is kept by row is read and written for whole groups
  enum Argument : uint8_t {
    kRows,
    kGroups,  // of `lanes` rows, with the rest as one more
    kScores,
    kScoreStride,
    kVectors,  // with a rest as one more: −∞ follows the last score
    kMaxima,   // a vector for each row; written over
    kLargest,  // by row: m
    kSums,
    kBases,    // what is subtracted from scores, written
    kDecays,   // α, written
    kFactors,  // β, written
    kIsLast,
    kArguments
  };
};
struct ValuesOfProbabilities {
  enum Argument : uint8_t {
    kProbabilities,
    kProbabilityStride,
    kValues,
    kValueStride,
    kKeys,
    kY,
    kYStride,
    kPanels,
    kRest,  // columns
    kDecays,
    kFactors,
    kIsFirst,  // nothing is summed yet
    kArguments
  };
};

}  // namespace anfora::kernels::generated

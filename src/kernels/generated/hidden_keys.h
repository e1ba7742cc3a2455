// Which keys a mask hides from a query for certain: their scores need not be computed.
//
// A bias of −∞ and a truth that is false hide a key, whatever its score is. Exporters write other numbers too: −10000, the lowest f32. Such a
// bias hides a key where the probability is 0 in f32 all the same. With |scores| ≤ S, and m the largest bias of the row,
//
//     exp((s + bias) − (s' + m)) = 0        where  bias ≤ m − 2S − 104
//
// for the score s of that key and s' of the one that m belongs to. |q·k| ≤ |q| |k| bounds scores without computing them.
#pragma once

#include <cstdint>

#include "kernels/reference/attention.h"

namespace anfora::kernels::generated {

// Whether all scores of queries with keys are small enough for what finite biases are taken to hide, and all values are finite, so
// that a probability of 0 leaves nothing of them. Reads each operand once.
bool has_small_scores(MatrixView<const float> queries, MatrixView<const float> keys, MatrixView<const float> values, float scale);

// Of the keys in `range`, those from the first to the last that the mask does not hide; `mask`: bool or f32, with the row's first
// element at `row`. Finite biases hide where `scores_are_small`.
Bias::Range seen_through(const Tensor& mask, int64_t row, Bias::Range range, bool scores_are_small);

}  // namespace anfora::kernels::generated

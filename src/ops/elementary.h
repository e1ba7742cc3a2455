// What operations count as floating point operations, for each element.
//
// An elementary operation is one: a sum, a product, a quotient, a root, a comparison, a choice. Functions that are computed by a
// polynomial count as their usual length. A composite counts as the shortest formula that defines it, so that parts that become
// one operator, or one that becomes its parts, leave the count of a model as it was, or make it smaller.
#pragma once

#include "ops/inference.h"

namespace anfora::ops {

inline constexpr int kTranscendental = 15;  // exp, log, erf, tanh, sin …
inline constexpr int kPower = 20;           // x to the power of what is not known; see power_flops

inline constexpr int kSigmoid = kTranscendental + 2;       // e / (e + 1) with e = exp(x)
inline constexpr int kSwish = kTranscendental + 3;         // x / (1 + exp(c x))
inline constexpr int kSwiGlu = kSwish + 1;                 // Swish(a) · b
inline constexpr int kGelu = kTranscendental + 4;          // x · 0.5 · (1 + erf(x / √2))
inline constexpr int kGeluByTanh = kTranscendental + 7;    // x · 0.5 · (1 + tanh(x · (a + b · x · x)))
inline constexpr int kSoftplus = 2 * kTranscendental + 1;  // log(1 + exp(x))
inline constexpr int kMish = kSoftplus + kTranscendental + 1;
inline constexpr int kElu = kTranscendental + 3;      // x > 0 ? x : exp(x) − 1
inline constexpr int kSoftmax = kTranscendental + 2;  // exp(x) / Σ exp(x)
inline constexpr int kHardSigmoid = 4;                // clip(a x + b, 0, 1)
inline constexpr int kHardSwish = kHardSigmoid + 1;
inline constexpr int kNormalized = 5;  // (x − mean) / √(mean of squares): two means, a difference, a square, a quotient

// Pow: products and roots where the exponent is a constant that is made of them.
double power_flops(const InferenceContext& ctx);
// LayerNormalization, RMSNormalization, those by group or instance: a scale of ones and a shift of zeros take nothing.
double layer_normalization_flops(const InferenceContext& ctx);
double rms_normalization_flops(const InferenceContext& ctx);
double channel_normalization_flops(const InferenceContext& ctx);
// Softmax and its logarithm.
double log_softmax_flops(const InferenceContext& ctx);
// Those of Q, K or V (0 to 2): of the columns, and by heads, as the attributes `columns` and `sequence_first` of LoweredAttention say.
std::optional<Dims> attention_dims(const InferenceContext& ctx, size_t i);
// Attention: two products, and the softmax of the scores with what is done to them.
double attention_flops(const InferenceContext& ctx);
// Whether input i is a constant all of whose elements are that number.
bool is_filled_with(const InferenceContext& ctx, size_t i, double number);

}  // namespace anfora::ops

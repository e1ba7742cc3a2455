// RotaryEmbedding and LinearAttention.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/reference/accumulate.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/families.h"
#include "kernels/reference/gemm.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

[[noreturn]] void wrong_shape(const char* what, const Tensor& tensor, const Shape& expected) {
  throw Error(ErrorCode::TypeMismatch,
              fmt::format("{} has shape {}, expected {}", what, to_string(tensor.shape()), to_string(expected)));
}

// Where the pairs of one head lie: element i of the first half of the pairs and its partner.
struct PairLayout {
  int64_t step, partner;  // first(i) = i * step, second(i) = first(i) + partner
};

void rotary_embedding(KernelContext& context) {
  const AttributeSet& attributes = context.attributes();
  const Tensor& x = context.input(0);
  const Tensor& cosines = context.input(1);
  const Tensor& sines = context.input(2);
  const Tensor* positions = context.optional_input(3);
  bool packed = x.rank() == 3;
  if (!packed && x.rank() != 4) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("X has shape {}, expected rank 3 or 4", to_string(x.shape())));
  }
  int64_t heads = packed ? attributes.get_int("num_heads", 0) : x.dim(1);
  int64_t batch = x.dim(0), sequence = x.dim(packed ? 1 : 2);
  if (packed && (heads < 1 || x.dim(2) % heads != 0)) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("X of shape {} in {} heads", to_string(x.shape()), heads));
  }
  int64_t size = packed ? x.dim(2) / heads : x.dim(3);
  int64_t rotated = attributes.get_int("rotary_embedding_dim", 0);
  if (rotated == 0) rotated = size;
  if (rotated < 0 || rotated > size || rotated % 2 != 0) {
    throw Error(ErrorCode::InvalidModel, fmt::format("{} of {} elements cannot be rotated in pairs", rotated, size));
  }
  int64_t pairs = rotated / 2;
  Shape cache_shape = positions ? Shape{cosines.rank() > 0 ? cosines.dim(0) : 0, pairs} : Shape{batch, sequence, pairs};
  if (cosines.shape() != cache_shape) wrong_shape("cos_cache", cosines, cache_shape);
  if (sines.shape() != cache_shape) wrong_shape("sin_cache", sines, cache_shape);
  if (positions && positions->shape() != Shape{batch, sequence}) {
    wrong_shape("position_ids", *positions, {batch, sequence});
  }
  bool interleaved = attributes.get_int("interleaved", 0) != 0;
  PairLayout layout = interleaved ? PairLayout{2, 1} : PairLayout{1, pairs};
  Tensor wide = widen(context, x), wide_cosines = widen(context, cosines), wide_sines = widen(context, sines);
  WideOutput y(context, 0, x.dtype(), x.shape());
  std::span<const float> from = wide.data<float>(), cos = wide_cosines.data<float>(), sin = wide_sines.data<float>();
  float* to = y.data<float>();
  parallel_for(batch * heads * sequence, grain_of(kElementwiseGrain, size), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      // The units of a packed tensor are (batch, position, head), of the other (batch, head, position).
      int64_t b = unit / (heads * sequence);
      int64_t s = packed ? unit / heads % sequence : unit % sequence;
      int64_t row = b * sequence + s;
      if (positions) {
        row = positions->data<int64_t>()[row];
        if (row < 0 || row >= cosines.dim(0)) {
          throw Error(ErrorCode::InvalidArgument, fmt::format("position {} of a cache of {}", row, cosines.dim(0)));
        }
      }
      for (int64_t i = 0; i < pairs; ++i) {
        int64_t at = unit * size + i * layout.step;
        float a = from[at], b2 = from[at + layout.partner];
        float c = cos[row * pairs + i], d = sin[row * pairs + i];
        to[at] = c * a - d * b2;
        to[at + layout.partner] = d * a + c * b2;
      }
      std::copy_n(&from[unit * size] + rotated, size - rotated, to + unit * size + rotated);
    }
  });
  y.finish();
}

// The recurrence of LinearAttention: a state matrix S [d_k x d_v] of each key head,
//
//     S <- exp(g) S;   v' = beta (v - S^T k);   S <- S + k v'^T;   o = scale S^T q   for each query head of the group
//
// where the first line's steps are those that the update rule has.
struct LinearAttention {
  int64_t batch, steps, q_heads, kv_heads, d_k, d_v;
  int64_t decays = 0;      // of a key head: 0 (no decay), 1 or d_k
  int64_t beta_heads = 0;  // 0: no correction
  float scale;
};

struct LinearAttentionData {
  const float *q, *k, *v, *decay, *beta;
  float *state, *out;
};

// One key head of one batch entry through all steps.
void run_head(const LinearAttention& a, const LinearAttentionData& data, int64_t b, int64_t h) {
  float* state = data.state + (b * a.kv_heads + h) * a.d_k * a.d_v;
  int64_t group = a.q_heads / a.kv_heads;
  Scratch<float> update(static_cast<size_t>(a.d_v));
  for (int64_t t = 0; t < a.steps; ++t) {
    int64_t row = b * a.steps + t;
    const float* key = data.k + (row * a.kv_heads + h) * a.d_k;
    const float* value = data.v + (row * a.kv_heads + h) * a.d_v;
    if (a.decays > 0) {
      const float* decay = data.decay + (row * a.kv_heads + h) * a.decays;
      for (int64_t i = 0; i < a.d_k; ++i) {
        float factor = std::exp(decay[a.decays == 1 ? 0 : i]);
        for (int64_t j = 0; j < a.d_v; ++j) state[i * a.d_v + j] *= factor;
      }
    }
    std::copy_n(value, a.d_v, update.begin());
    if (a.beta_heads > 0) {
      float beta = data.beta[row * a.beta_heads + (a.beta_heads == 1 ? 0 : h)];
      for (int64_t i = 0; i < a.d_k; ++i) {
        for (int64_t j = 0; j < a.d_v; ++j) update[j] -= state[i * a.d_v + j] * key[i];
      }
      for (float& u : update) u *= beta;
    }
    for (int64_t i = 0; i < a.d_k; ++i) {
      for (int64_t j = 0; j < a.d_v; ++j) state[i * a.d_v + j] += key[i] * update[j];
    }
    for (int64_t g = h * group; g < (h + 1) * group; ++g) {
      const float* query = data.q + (row * a.q_heads + g) * a.d_k;
      float* out = data.out + (row * a.q_heads + g) * a.d_v;
      std::fill_n(out, a.d_v, 0.0f);
      for (int64_t i = 0; i < a.d_k; ++i) {
        for (int64_t j = 0; j < a.d_v; ++j) out[j] += query[i] * state[i * a.d_v + j];
      }
      for (int64_t j = 0; j < a.d_v; ++j) out[j] *= a.scale;
    }
  }
}

LinearAttention read_linear_attention(const KernelContext& context) {
  const AttributeSet& attributes = context.attributes();
  const Tensor& q = context.input(0);
  const Tensor& k = context.input(1);
  const Tensor& v = context.input(2);
  const Tensor* decay = context.optional_input(4);
  const Tensor* beta = context.optional_input(5);
  const std::string_view rule = attributes.string("update_rule", "gated_delta");
  bool gated = rule == "gated" || rule == "gated_delta", corrected = rule == "delta" || rule == "gated_delta";
  if (!gated && !corrected && rule != "linear") {
    throw Error(ErrorCode::InvalidModel, fmt::format("the update rule '{}' is unknown", rule));
  }
  if (gated != (decay != nullptr) || corrected != (beta != nullptr)) {
    throw Error(ErrorCode::InvalidModel, fmt::format("the inputs decay and beta do not go with the rule '{}'", rule));
  }
  LinearAttention a{};
  a.q_heads = attributes.require_int("q_num_heads");
  a.kv_heads = attributes.require_int("kv_num_heads");
  if (a.kv_heads < 1 || a.q_heads < 1 || a.q_heads % a.kv_heads != 0) {
    throw Error(ErrorCode::InvalidModel, fmt::format("{} query heads for {} key heads", a.q_heads, a.kv_heads));
  }
  if (q.rank() != 3 || v.rank() != 3 || q.dim(2) % a.q_heads != 0 || v.dim(2) % a.kv_heads != 0) {
    throw Error(ErrorCode::TypeMismatch,
                fmt::format("query of shape {} and value of shape {} in {} and {} heads", to_string(q.shape()),
                            to_string(v.shape()), a.q_heads, a.kv_heads));
  }
  a.batch = q.dim(0), a.steps = q.dim(1), a.d_k = q.dim(2) / a.q_heads, a.d_v = v.dim(2) / a.kv_heads;
  a.scale = attributes.get_float("scale", 0);
  if (a.scale == 0) a.scale = 1 / std::sqrt(static_cast<float>(a.d_k));
  auto check = [&](const char* what, const Tensor& tensor, int64_t last) {
    Shape expected{a.batch, a.steps, last};
    if (tensor.shape() != expected) wrong_shape(what, tensor, expected);
  };
  check("key", k, a.kv_heads * a.d_k);
  check("value", v, a.kv_heads * a.d_v);
  if (decay) {
    a.decays = decay->rank() == 3 && decay->dim(2) == a.kv_heads ? 1 : a.d_k;
    check("decay", *decay, a.kv_heads * a.decays);
  }
  if (beta) {
    a.beta_heads = beta->rank() == 3 && beta->dim(2) == 1 ? 1 : a.kv_heads;
    check("beta", *beta, a.beta_heads);
  }
  return a;
}

void linear_attention(KernelContext& context) {
  LinearAttention a = read_linear_attention(context);
  const Tensor& q = context.input(0);
  const Tensor* past = context.optional_input(3);
  const Tensor* decay = context.optional_input(4);
  const Tensor* beta = context.optional_input(5);
  Shape state_shape{a.batch, a.kv_heads, a.d_k, a.d_v};
  if (past && past->shape() != state_shape) wrong_shape("past_state", *past, state_shape);
  Tensor wide_q = widen(context, q), wide_k = widen(context, context.input(1)), wide_v = widen(context, context.input(2));
  Tensor wide_decay = decay ? widen(context, *decay) : Tensor(), wide_beta = beta ? widen(context, *beta) : Tensor();
  std::optional<WideOutput> present;
  if (context.num_outputs() > 1) present.emplace(context, 1, past ? past->dtype() : q.dtype(), state_shape);
  Tensor state = present ? present->tensor() : context.temporary(DType::F32, state_shape);
  if (past) {
    std::ranges::copy(widen(context, *past).data<float>(), state.data<float>().begin());
  } else {
    std::ranges::fill(state.data<float>(), 0.0f);
  }
  WideOutput out(context, 0, q.dtype(), Shape{a.batch, a.steps, a.q_heads * a.d_v});
  LinearAttentionData data{wide_q.data<float>().data(),
                           wide_k.data<float>().data(),
                           wide_v.data<float>().data(),
                           decay ? wide_decay.data<float>().data() : nullptr,
                           beta ? wide_beta.data<float>().data() : nullptr,
                           state.data<float>().data(),
                           out.data<float>()};
  parallel_for(a.batch * a.kv_heads, grain_of(kMultiplyGrain, a.steps * a.d_k * a.d_v),
               [&](int64_t begin, int64_t end) {
                 for (int64_t unit = begin; unit < end; ++unit) run_head(a, data, unit / a.kv_heads, unit % a.kv_heads);
               });
  out.finish();
  if (present) present->finish();
}

}  // namespace

void register_linear_attention(KernelRegistry& registry) {
  registry.add("RotaryEmbedding", rotary_embedding);
  registry.add("LinearAttention", linear_attention);
}

}  // namespace anfora::kernels

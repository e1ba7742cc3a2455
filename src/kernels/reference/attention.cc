// Attention and FlexAttention (without modifiers).
//
// One unit of work is a block of query rows of one head of one batch entry:
//
//     scores = scale Q K^T   ->   softcap   ->   + bias   ->   softmax   ->   Y = P V
//
// so that the scores of a block, not of a whole sequence, are held at once. Heads are strided views of the packed
// [batch, sequence, heads * size] form as of the [batch, heads, sequence, size] form. Of the bias only the mask is an
// array: causality, windows and padding allow a range of keys for each query. Everything happens in the accumulator,
// f32 or f64, whatever softmax_precision says: in bfloat16, for one, a sum of probabilities would stop growing at 256
// keys.
#include "kernels/reference/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "kernels/reference/accumulate.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/cast.h"
#include "kernels/reference/families.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {

void Bias::set_mask(KernelContext& context, const Tensor& mask, const Shape& target) {
  Shape shape = mask.shape();
  if (shape.empty()) shape.push_back(1);
  masked_keys_ = shape.back();
  shape.pop_back();
  bool fits = shape.size() <= target.size() && masked_keys_ <= keys;
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    fits = shape[i] == 1 || shape[i] == target[target.size() - shape.size() + i];
  }
  if (!fits) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("a mask of shape {} for scores of {}x{}", to_string(mask.shape()),
                                                     to_string(target), keys));
  }
  strides_ = broadcast_strides(shape, target);
  boolean_ = mask.dtype() == DType::Bool;
  mask_ = boolean_ ? mask : is_integer(mask.dtype()) ? cast_tensor(context, mask, DType::F32) : widen(context, mask);
}

Bias::Range Bias::visible(int64_t b, int64_t q) const {
  const auto entry = static_cast<size_t>(b);
  const int64_t position = q + offsets[entry];
  int64_t first = left >= 0 ? std::max<int64_t>(position - left, 0) : 0, last = valid[entry];
  if (right >= 0) last = std::min(last, position + right + 1);
  if (causal) last = std::min(last, position + 1);
  if (mask_.defined()) last = std::min(last, masked_keys_);
  first = std::clamp<int64_t>(first, 0, keys);
  return {first, std::clamp(last, first, keys)};
}

namespace {

// Query rows of a unit of work.
constexpr int64_t kBlockRows = 64;

HeadLayout layout_of(const Tensor& tensor, const char* what, int64_t num_heads, std::span<const int64_t> columns) {
  if (tensor.rank() == 4 && columns.empty()) return {tensor.dim(0), tensor.dim(1), tensor.dim(2), tensor.dim(3), false};
  if (tensor.rank() != 3) {
    throw Error(ErrorCode::TypeMismatch,
                fmt::format("{} has shape {}, expected rank 3 or 4", what, to_string(tensor.shape())));
  }
  const int64_t first = columns.empty() ? 0 : columns[0], last = columns.empty() ? tensor.dim(2) : columns[1];
  if (first < 0 || first > last || last > tensor.dim(2)) {
    throw Error(ErrorCode::TypeMismatch,
                fmt::format("{} of shape {} has no columns {} to {}", what, to_string(tensor.shape()), first, last));
  }
  if (num_heads < 1 || (last - first) % num_heads != 0) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("{} of shape {} does not divide into {} heads", what,
                                                     to_string(tensor.shape()), num_heads));
  }
  return {tensor.dim(0), num_heads, tensor.dim(1), (last - first) / num_heads, true, false, tensor.dim(2), first};
}

// Of operand i, as the attributes say.
HeadLayout layout_of(KernelContext& context, size_t i, const char* what, int64_t num_heads) {
  const Tensor& tensor = context.input(i);
  if (tensor.rank() == 4 && is_sequence_first(context.attributes(), i))
    return {tensor.dim(0), tensor.dim(2), tensor.dim(1), tensor.dim(3), true, true};
  return layout_of(tensor, what, num_heads, attention_columns(context.attributes(), i));
}

constexpr int64_t kAppendGrain = 1 << 16;  // elements

// Long runs are copied by `rep movsb` in glibc, which takes ten times as long on some processors where source and destination lie close to
// each other within their pages.
template <class T>
void copy_in_pieces(const T* from, int64_t count, T* to) {
  constexpr int64_t kPiece = 512;
  for (int64_t i = 0; i < count; i += kPiece) std::copy_n(from + i, std::min(kPiece, count - i), to + i);
}

// The cache after this step: past and new keys (or values) back to back, [batch, heads, sequence, size].
// Output `output` where there is such a one.
Tensor append_to_cache(KernelContext& context, size_t output, const Tensor* past, const Tensor& fresh, const HeadLayout& layout,
                       const char* what) {
  int64_t kept = past ? past->rank() == 4 ? past->dim(2) : -1 : 0;
  Shape expected{layout.batch, layout.heads, kept, layout.size};
  if (past && (past->dtype() != fresh.dtype() || past->shape() != expected)) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("past {} of shape {} does not go with {} of shape {}", what,
                                                     to_string(past->shape()), what, to_string(fresh.shape())));
  }
  const bool is_output = context.num_outputs() > output;
  if (!past && !layout.packed && !is_output) return fresh;
  const int64_t total = kept + layout.sequence;
  const Shape shape{layout.batch, layout.heads, total, layout.size};
  Tensor result = is_output ? context.allocate_output(output, fresh.dtype(), shape) : context.temporary(fresh.dtype(), shape);
  dispatch_by_size(fresh.dtype(), [&]<class T>() {
    const T* from = fresh.data<T>().data();
    const int64_t count = layout.batch * layout.heads;
    parallel_for(count, grain_of(kAppendGrain, total * layout.size), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T* to = result.data<T>().data() + i * total * layout.size;
        if (past) copy_in_pieces(past->data<T>().data() + i * kept * layout.size, kept * layout.size, to);
        MatrixView<const T> rows = layout.head(from, i / layout.heads, i % layout.heads);
        for (int64_t s = 0; s < layout.sequence; ++s) {
          std::copy_n(rows.data + s * rows.row_stride, layout.size, to + (kept + s) * layout.size);
        }
      }
    });
  });
  return result;
}

// A row of scores to probabilities; all zero when every score is -infinity.
template <class T>
void softmax_scores(T* row, int64_t count) {
  T largest = *std::max_element(row, row + count), sum = 0;
  if (largest == -std::numeric_limits<T>::infinity()) {
    std::fill_n(row, count, T{0});
    return;
  }
  for (int64_t i = 0; i < count; ++i) sum += row[i] = std::exp(row[i] - largest);
  for (int64_t i = 0; i < count; ++i) row[i] /= sum;
}

template <class T>
void attend(const Attention& a, const T* q, const T* k, const T* v, T* y, T* shown) {
  int64_t keys = a.k.sequence, blocks = (a.q.sequence + kBlockRows - 1) / kBlockRows;
  int64_t heads_per_kv = a.q.heads / a.k.heads;
  int64_t work = std::min(kBlockRows, a.q.sequence) * keys * (a.k.size + a.v.size);
  parallel_for(a.q.batch * a.q.heads * blocks, grain_of(kMultiplyGrain, work), [&](int64_t begin, int64_t end) {
    Scratch<T> scores(static_cast<size_t>(kBlockRows * keys), T{0});
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t b = unit / blocks / a.q.heads, h = unit / blocks % a.q.heads, first = unit % blocks * kBlockRows;
      int64_t rows = std::min(kBlockRows, a.q.sequence - first), kv_head = h / heads_per_kv;
      auto show = [&](ScoresShown stage) {
        if (shown && stage == a.shown) {
          std::copy_n(scores.data(), rows * keys, shown + ((b * a.q.heads + h) * a.q.sequence + first) * keys);
        }
      };
      auto block_of = [&](auto view) {
        view.data += first * view.row_stride;
        view.rows = rows;
        return view;
      };
      multiply(block_of(a.q.head(q, b, h)), a.k.head(k, b, kv_head).transposed(), matrix(scores.data(), rows, keys));
      for (int64_t i = 0; i < rows * keys; ++i) scores[i] *= static_cast<T>(a.scale);
      show(ScoresShown::Raw);
      if (T cap = static_cast<T>(a.softcap); cap > 0) {
        for (int64_t i = 0; i < rows * keys; ++i) scores[i] = cap * std::tanh(scores[i] / cap);
      }
      show(ScoresShown::Capped);
      std::array<bool, kBlockRows> visible;
      for (int64_t r = 0; r < rows; ++r) visible[r] = a.bias.add_to(&scores[r * keys], b, h, first + r);
      show(ScoresShown::Biased);
      for (int64_t r = 0; r < rows; ++r) {
        if (visible[r]) {
          softmax_scores(&scores[r * keys], keys);
        } else {
          std::fill_n(&scores[r * keys], keys, T{0});
        }
      }
      show(ScoresShown::Probabilities);
      multiply(matrix(scores.data(), rows, keys), a.v.head(v, b, kv_head), block_of(a.y.head(y, b, h)));
    }
  });
}

void check_heads(const Attention& a) {
  bool fits = a.k.batch == a.q.batch && a.v.batch == a.q.batch && a.k.size == a.q.size && a.k.heads == a.v.heads &&
              a.k.sequence == a.v.sequence && a.k.heads > 0 && a.q.heads % a.k.heads == 0;
  if (!fits) {
    throw Error(ErrorCode::TypeMismatch,
                fmt::format("queries of {}, keys of {} and values of {} do not go together", to_string(a.q.shape()),
                            to_string(a.k.shape()), to_string(a.v.shape())));
  }
}

float default_scale(int64_t head_size) { return 1 / std::sqrt(static_cast<float>(std::max<int64_t>(head_size, 1))); }

// The rest of what is read, once the caches are there.
void complete_attention(Attention& a) {
  check_heads(a);
  a.bias.keys = a.k.sequence;
  a.bias.offsets.resize(a.q.batch, 0);
  a.bias.valid.resize(a.q.batch, a.k.sequence);
  a.y = {a.q.batch, a.q.heads, a.q.sequence, a.v.size, a.q.packed};
}

void attend(KernelContext& context, const Attention& a, const Tensor& q) {
  Tensor wide_q = widen(context, q), wide_k = widen(context, a.keys),
         wide_v = cast_tensor(context, a.values, wide_q.dtype());
  WideOutput y(context, 0, q.dtype(), a.y.shape());
  std::optional<WideOutput> shown;
  if (context.num_outputs() > 3) {
    shown.emplace(context, 3, q.dtype(), Shape{a.q.batch, a.q.heads, a.q.sequence, a.k.sequence});
  }
  if (a.k.sequence == 0) {  // nothing to attend to
    std::memset(y.tensor().raw(), 0, y.tensor().bytes());
  } else {
    dispatch<FloatAccumulators>(wide_q.dtype(), [&]<class T>() {
      attend<T>(a, wide_q.data<T>().data(), wide_k.data<T>().data(), wide_v.data<T>().data(), y.data<T>(),
                shown ? shown->data<T>() : nullptr);
    });
  }
  y.finish();
  if (shown) shown->finish();
}

void attention(KernelContext& context) { attend(context, read_attention(context), context.input(0)); }

void flex_attention(KernelContext& context) {
  const AttributeSet& attributes = context.attributes();
  if (attributes.has("score_mod") || attributes.has("prob_mod")) {
    throw Error(ErrorCode::Unsupported, "FlexAttention with a modifier is not a kernel")
        .with_hint("it is expanded where the model is read");
  }
  const Tensor& q = context.input(0);
  const Tensor& k = context.input(1);
  const Tensor& v = context.input(2);
  Attention a;
  a.q = layout_of(q, "Q", 0, {}), a.k = layout_of(k, "K", 0, {}), a.v = layout_of(v, "V", 0, {});
  a.scale = attributes.get_float("scale", default_scale(a.q.size));
  a.keys = k, a.values = v;
  complete_attention(a);
  attend(context, a, q);
}

}  // namespace

std::span<const int64_t> attention_columns(const AttributeSet& attributes, size_t i) {
  constexpr size_t kOperands = 3;
  const std::span<const int64_t> columns = attributes.ints("columns");
  return columns.size() == 2 * kOperands ? columns.subspan(2 * i, 2) : std::span<const int64_t>();
}

bool is_sequence_first(const AttributeSet& attributes, size_t i) {
  const std::span<const int64_t> flags = attributes.ints("sequence_first");
  return i < flags.size() && flags[i] != 0;
}

Attention read_attention(KernelContext& context) {
  const AttributeSet& attributes = context.attributes();
  const Tensor& q = context.input(0);
  const Tensor& k = context.input(1);
  const Tensor& v = context.input(2);
  const Tensor* past_key = context.optional_input(4);
  const Tensor* past_value = context.optional_input(5);
  const Tensor* nonpad = context.optional_input(6);
  if (q.dtype() != k.dtype()) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("queries of {}, keys of {}", name(q.dtype()), name(k.dtype())));
  }
  if ((past_key != nullptr) != (past_value != nullptr)) {
    throw Error(ErrorCode::InvalidModel, "past_key and past_value must be given together");
  }
  Attention a;
  const int64_t q_heads = attributes.get_int("q_num_heads", 0), kv_heads = attributes.get_int("kv_num_heads", 0);
  a.q = layout_of(context, 0, "Q", q_heads);
  a.k = layout_of(context, 1, "K", kv_heads);
  a.v = layout_of(context, 2, "V", kv_heads);
  a.scale = attributes.get_float("scale", default_scale(a.q.size));
  a.softcap = attributes.get_float("softcap", 0);
  int64_t shown = attributes.get_int("qk_matmul_output_mode", 0);
  if (shown < 0 || shown > 3) throw Error(ErrorCode::InvalidModel, fmt::format("qk_matmul_output_mode is {}", shown));
  a.shown = static_cast<ScoresShown>(shown);
  a.bias.causal = attributes.get_int("is_causal", 0) != 0;
  a.bias.left = attributes.get_int("left_window_size", -1);
  a.bias.right = attributes.get_int("right_window_size", -1);

  // Without a past the inputs are read in place, and the cache is made only for the outputs.
  a.keys = k, a.values = v;
  if (past_key || context.num_outputs() > 1) {
    const Tensor present_key = append_to_cache(context, 1, past_key, k, a.k, "key");
    const Tensor present_value = append_to_cache(context, 2, past_value, v, a.v, "value");
    if (past_key) {
      a.keys = present_key, a.values = present_value;
      a.k = layout_of(a.keys, "past key", 0, {}), a.v = layout_of(a.values, "past value", 0, {});
      a.bias.offsets.assign(a.q.batch, past_key->dim(2));
    }
  }
  if (nonpad) {
    if (nonpad->dtype() != DType::I64 || nonpad->shape() != Shape{a.q.batch}) {
      throw Error(ErrorCode::TypeMismatch,
                  fmt::format("nonpad_kv_seqlen of shape {} for a batch of {}", to_string(nonpad->shape()), a.q.batch));
    }
    std::span<const int64_t> lengths = nonpad->data<int64_t>();
    for (int64_t length : lengths) {
      a.bias.valid.push_back(std::clamp<int64_t>(length, 0, a.k.sequence));
      if (!past_key) a.bias.offsets.push_back(length - a.q.sequence);
    }
  }
  complete_attention(a);
  if (q.rank() == 4) a.y.packed = a.y.split = is_sequence_first(attributes, 3);
  if (const Tensor* mask = context.optional_input(3)) a.bias.set_mask(context, *mask, {a.q.batch, a.q.heads, a.q.sequence});
  return a;
}

void register_attention(KernelRegistry& registry) {
  registry.add("Attention", attention);
  registry.add("LoweredAttention", attention);
  registry.add("ai.onnx.preview::FlexAttention", flex_attention);
}

}  // namespace anfora::kernels

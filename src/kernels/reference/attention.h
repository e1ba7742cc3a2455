// What one invocation of Attention computes, as its kernels read it from the operands.
#pragma once

#include <limits>

#include "kernels/reference/arguments.h"
#include "kernels/reference/gemm.h"

namespace anfora::kernels {

// Q, K, V or Y as [batch, heads, sequence, size], in whichever of the two forms it is stored.
struct HeadLayout {
  int64_t batch = 0, heads = 0, sequence = 0, size = 0;
  bool packed = false;  // [batch, sequence, heads * size]
  bool split = false;   // of that, with heads and size as two axes
  // Where that is a part of the columns of a tensor: how many it has, and the first; 0: no others.
  int64_t width = 0, first = 0;

  Shape shape() const {
    return split    ? Shape{batch, sequence, heads, size}
           : packed ? Shape{batch, sequence, heads * size}
                    : Shape{batch, heads, sequence, size};
  }
  template <class T>
  MatrixView<T> head(T* data, int64_t b, int64_t h) const {
    const int64_t row = width == 0 ? heads * size : width;
    if (packed) return {data + b * sequence * row + first + h * size, sequence, size, row, 1};
    return {data + (b * heads + h) * sequence * size, sequence, size, size, 1};
  }
};

// What of each query's keys is visible, and what is added to the scores.
class Bias {
 public:
  int64_t keys = 0;
  bool causal = false;
  int64_t left = -1, right = -1;  // window; -1: unbounded
  IntegerList offsets;            // of each batch entry: position of query 0
  IntegerList valid;              // keys that are not padding, of each batch entry

  // `target`: batch, query heads, query rows. Keys past the mask's last are masked.
  void set_mask(KernelContext& context, const Tensor& mask, const Shape& target);
  const Tensor& mask() const { return mask_; }  // bool, f32 or f64; undefined where there is none
  // The mask's first element for a query.
  int64_t mask_row(int64_t b, int64_t h, int64_t q) const {
    return (strides_[0] * b + strides_[1] * h + strides_[2] * q) * masked_keys_;
  }
  int64_t mask_row_stride() const { return strides_[2] * masked_keys_; }  // from query to query

  // The keys that causality, window, padding and the length of the mask leave a query: [first, last).
  struct Range {
    int64_t first, last;
    bool operator==(const Range&) const = default;
  };
  Range visible(int64_t b, int64_t q) const;

  // Adds the bias to a row of scores; false when no key at all is visible.
  template <class T>
  bool add_to(T* scores, int64_t b, int64_t h, int64_t q) const {
    constexpr T masked = -std::numeric_limits<T>::infinity();
    const auto [first, last] = visible(b, q);
    std::fill(scores, scores + first, masked);
    std::fill(scores + last, scores + keys, masked);
    if (!mask_.defined()) return first < last;
    const int64_t row = mask_row(b, h, q);
    bool is_visible = false;
    for (int64_t k = first; k < last; ++k) {
      T value = mask_value<T>(row + k);
      scores[k] = value == masked ? masked : scores[k] + value;
      is_visible |= value != masked;
    }
    return is_visible;
  }

 private:
  template <class T>
  T mask_value(int64_t i) const {
    if (boolean_) return mask_.data<bool>()[i] ? T{0} : -std::numeric_limits<T>::infinity();
    if (mask_.dtype() == DType::F64) return static_cast<T>(mask_.data<double>()[i]);
    return static_cast<T>(mask_.data<float>()[i]);
  }

  Tensor mask_;
  bool boolean_ = false;
  int64_t masked_keys_ = 0;
  Shape strides_;  // of batch, head and query, in rows of the mask
};

// What qk_matmul_output shows.
enum class ScoresShown : int64_t { Raw, Capped, Biased, Probabilities };

struct Attention {
  HeadLayout q, k, v, y;  // k and v with the cache
  Tensor keys, values;    // with the cache
  float scale = 1, softcap = 0;
  Bias bias;
  ScoresShown shown = ScoresShown::Raw;
};

// Of LoweredAttention: the columns of Q, K or V, the first and the one behind the last; empty where there is no such attribute.
std::span<const int64_t> attention_columns(const AttributeSet& attributes, size_t i);

// Of LoweredAttention: whether Q, K, V or Y (3), of four axes, is [batch, sequence, heads, size].
bool is_sequence_first(const AttributeSet& attributes, size_t i);

// Reads the operands and attributes of Attention, and writes the outputs that are caches. Throws TypeMismatch or InvalidModel for what does
// not go together.
Attention read_attention(KernelContext& context);

}  // namespace anfora::kernels

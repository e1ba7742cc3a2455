#include "ops/elementary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "ops/infer_helpers.h"
#include "support/element_types.h"

namespace anfora::ops {
namespace {

double extent(Dim dim) { return static_cast<double>(dim.as_constant().value_or(1)); }

// The product of the dimensions [from, to).
double extents(const Dims& dims, size_t from, size_t to) {
  return std::transform_reduce(dims.begin() + static_cast<std::ptrdiff_t>(from),
                               dims.begin() + static_cast<std::ptrdiff_t>(to), 1.0, std::multiplies<>(), extent);
}

// How many rows there are in front of an axis, negative ones counted from the end.
double rows_before(const InferenceContext& ctx, int64_t axis) {
  auto dims = ctx.dims(0);
  if (!dims) return 0;
  const int64_t rank = static_cast<int64_t>(dims->size());
  return extents(*dims, 0, static_cast<size_t>(std::clamp(axis < 0 ? axis + rank : axis, int64_t{0}, rank)));
}

int unless_filled_with(const InferenceContext& ctx, size_t i, double number) {
  return ctx.has_input(i) && !is_filled_with(ctx, i, number) ? 1 : 0;
}

// Of each row: epsilon added, and a root.
constexpr double kRowOfNormalization = 2;

}  // namespace

bool is_filled_with(const InferenceContext& ctx, size_t i, double number) {
  const Tensor* t = ctx.constant(i);
  if (!t || !is_float(t->dtype()) || element_bits(t->dtype()) < 16) return false;
  return dispatch<Floats>(t->dtype(), [&]<class T>() {
    return std::ranges::all_of(t->data<T>(), [&](T x) { return static_cast<double>(ComputeType<T>(x)) == number; });
  });
}

double power_flops(const InferenceContext& ctx) {
  struct Exponent {
    double value;
    int count;
  };
  // A product or two, a root, a quotient.
  for (const Exponent& e : {Exponent{0, 0}, {1, 0}, {2, 1}, {3, 2}, {4, 2}, {0.5, 1}, {-1, 1}, {-0.5, 2}, {-2, 2}}) {
    if (is_filled_with(ctx, 1, e.value)) return e.count * element_estimate(ctx.output(0));
  }
  return kPower * element_estimate(ctx.output(0));
}

double layer_normalization_flops(const InferenceContext& ctx) {
  const int count = kNormalized + unless_filled_with(ctx, 1, 1) + unless_filled_with(ctx, 2, 0);
  return count * element_estimate(ctx.input(0)) + kRowOfNormalization * rows_before(ctx, ctx.attribute_int("axis"));
}

double rms_normalization_flops(const InferenceContext& ctx) {
  const int count = kNormalized - 2 + unless_filled_with(ctx, 1, 1);  // there is no mean
  return count * element_estimate(ctx.input(0)) + kRowOfNormalization * rows_before(ctx, ctx.attribute_int("axis"));
}

// The scale of a channel becomes one factor with the deviation of its instance.
double channel_normalization_flops(const InferenceContext& ctx) {
  const int count = kNormalized + unless_filled_with(ctx, 2, 0);
  return count * element_estimate(ctx.input(0)) + kRowOfNormalization * rows_before(ctx, 2);
}

// x − ReduceLogSumExp(x)
double log_softmax_flops(const InferenceContext& ctx) { return (kTranscendental + 1) * element_estimate(ctx.input(0)); }

std::optional<Dims> attention_dims(const InferenceContext& ctx, size_t i) {
  auto dims = ctx.dims(i);
  const std::span<const int64_t> columns = ctx.attributes().ints("columns"),
                                 sequence_first = ctx.attributes().ints("sequence_first");
  if (!dims) return dims;
  if (!columns.empty()) {
    constexpr size_t kRank = 3;
    const size_t first = 2 * i, last = first + 1;
    if (dims->size() != kRank || columns.size() <= last || columns[first] > columns[last])
      ctx.fail(fmt::format("the columns [{}] of input {} with {} axes", fmt::join(columns, ", "), i, dims->size()));
    dims->back() = ctx.dim(columns[last] - columns[first]);
  }
  if (i < sequence_first.size() && sequence_first[i] != 0) {
    constexpr size_t kRank = 4;
    if (dims->size() != kRank)
      ctx.fail(fmt::format("input {} has {} axes, where the sequence is in front of heads", i, dims->size()));
    std::swap((*dims)[1], (*dims)[2]);
  }
  return dims;
}

double attention_flops(const InferenceContext& ctx) {
  auto q = attention_dims(ctx, 0), k = attention_dims(ctx, 1), v = attention_dims(ctx, 2);
  if (!q || !k || !v || q->size() < 3 || k->size() != q->size() || v->size() != q->size()) return 0;
  const bool packed = q->size() == 3;  // [batch, sequence, heads · size] instead of [batch, heads, sequence, size]
  const double q_heads = packed ? static_cast<double>(ctx.attributes().get_int("q_num_heads", 1)) : extent((*q)[1]);
  const double kv_heads = packed ? static_cast<double>(ctx.attributes().get_int("kv_num_heads", 1)) : extent((*v)[1]);
  const size_t sequence = packed ? 1 : 2;
  const double queries = extent((*q)[0]) * q_heads * extent((*q)[sequence]);
  double keys = extent((*k)[sequence]);
  if (ctx.has_input(4)) {
    if (auto past = ctx.dims(4); past && past->size() == 4) keys += extent((*past)[2]);
  }
  const double size = extent(q->back()) / (packed ? q_heads : 1);
  const double value_size = extent(v->back()) / (packed ? kv_heads : 1);
  double of_score = 2 * size + 2 * value_size + kSoftmax;
  if (ctx.has_input(3) || ctx.attributes().get_int("is_causal", 0) != 0) of_score += 1;
  if (ctx.attributes().get_float("softcap", 0) != 0) of_score += 2 + kTranscendental;
  // The scale is that of the scores or of the queries, whichever are fewer.
  const double scaled = ctx.attributes().get_float("scale", 0) == 1 ? 0 : std::min(keys, size);
  return queries * (keys * of_score + scaled);
}

}  // namespace anfora::ops

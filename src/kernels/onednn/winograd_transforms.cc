#include "kernels/onednn/winograd_transforms.h"

#include <cstddef>
#include <cstring>

#include "kernels/generated/isa.h"

// Vectors are only passed between functions that are inlined.
#pragma GCC diagnostic ignored "-Wpsabi"
#define ANFORA_INLINE [[gnu::always_inline]] inline

namespace anfora::kernels::onednn {
namespace {

constexpr size_t kPoints = kWinogradPatch * kWinogradPatch;

template <int kLanes>
struct LanesOf {
  using Type [[gnu::vector_size(kLanes * sizeof(float))]] = float;
};

template <class Lanes>
ANFORA_INLINE Lanes load_lanes(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}
template <class Lanes>
ANFORA_INLINE void store_lanes(float* to, const Lanes& lanes) {
  std::memcpy(to, &lanes, sizeof lanes);
}

// Bᵀ times a column of six, `step` apart: row j has the coefficients of the product of x − p over the points but the j-th.
template <class Lanes>
ANFORA_INLINE void spread_column(const Lanes* d, size_t step, Lanes* to) {
  constexpr float a = kWinogradInner, b = kWinogradOuter, aa = a * a, bb = b * b;
  const Lanes d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step], d5 = d[5 * step];
  const Lanes even_a = d4 - bb * d2, odd_a = a * (d3 - bb * d1), even_b = d4 - aa * d2, odd_b = b * (d3 - aa * d1);
  to[0] = d4 - (aa + bb) * d2 + aa * bb * d0;
  to[step] = even_a + odd_a;
  to[2 * step] = even_a - odd_a;
  to[3 * step] = even_b + odd_b;
  to[4 * step] = even_b - odd_b;
  to[5 * step] = d5 - (aa + bb) * d3 + aa * bb * d1;
}

// Aᵀ times a column of six: row i has the points to the power of i.
template <class Lanes>
ANFORA_INLINE void gather_column(const Lanes* m, size_t step, Lanes* to, size_t to_step) {
  constexpr float a = kWinogradInner, b = kWinogradOuter, aa = a * a, bb = b * b;
  const Lanes sum_a = m[step] + m[2 * step], difference_a = m[step] - m[2 * step];
  const Lanes sum_b = m[3 * step] + m[4 * step], difference_b = m[3 * step] - m[4 * step];
  to[0] = m[0] + sum_a + sum_b;
  to[to_step] = a * difference_a + b * difference_b;
  to[2 * to_step] = aa * sum_a + bb * sum_b;
  to[3 * to_step] = a * aa * difference_a + b * bb * difference_b + m[5 * step];
}

// G without what its rows are divided by: the powers of ±p times a column of three.
template <class Lanes>
ANFORA_INLINE void weigh_pair(float p, const Lanes& first, const Lanes& second, const Lanes& third, Lanes& plus, Lanes& minus) {
  const Lanes even = p * p * third + first;
  plus = p * second + even;
  minus = even - p * second;
}

// The inverse of that: a point's differences from the others.
constexpr double scale_of_pair(double point, double other) { return 1 / (2 * point * point * (point * point - other * other)); }
constexpr double kOfZero = 1 / (kWinogradInner * kWinogradInner * kWinogradOuter * kWinogradOuter), kOfInfinity = 1;
constexpr double kOfInner = scale_of_pair(kWinogradInner, kWinogradOuter), kOfOuter = scale_of_pair(kWinogradOuter, kWinogradInner);

// G times a column of three that is yet to be scaled.
template <class Lanes>
ANFORA_INLINE void weigh_column(const Lanes* g, double scale, Lanes* to) {
  auto scaled = [&](double of_row, const Lanes& value) -> Lanes { return static_cast<float>(of_row * scale) * value; };
  Lanes plus, minus;
  to[0] = scaled(kOfZero, g[0]);
  weigh_pair(kWinogradInner, g[0], g[1], g[2], plus, minus);
  to[1] = scaled(kOfInner, plus);
  to[2] = scaled(kOfInner, minus);
  weigh_pair(kWinogradOuter, g[0], g[1], g[2], plus, minus);
  to[3] = scaled(kOfOuter, plus);
  to[4] = scaled(kOfOuter, minus);
  to[5] = scaled(kOfInfinity, g[2]);
}

// The line of channels behind one, or the last one; `channels` behind that.
ANFORA_INLINE int64_t next_line(int64_t first, int64_t channels) {
  const int64_t next = first + kWinogradLine, last = channels - kWinogradLine;
  return next > last && first < last ? last : next;
}

// Elements between what is loaded and what is fetched to the cache.
constexpr int64_t kAhead = 2 * kWinogradLine;

template <int kLanes>
ANFORA_INLINE void spread(const float* const* points, int64_t channels, float* to, int64_t distance) {
  using Lanes = typename LanesOf<kLanes>::Type;
  constexpr size_t kParts = kWinogradLine / kLanes;
  for (int64_t first = 0; first + kWinogradLine <= channels; first = next_line(first, channels)) {
    Lanes whole[kParts][kPoints];
    for (size_t part = 0; part < kParts; ++part) {
      Lanes half[kPoints];
      for (size_t q = 0; q < kWinogradPatch; ++q) {
        Lanes column[kWinogradPatch];
#pragma GCC unroll 6
        for (size_t r = 0; r < kWinogradPatch; ++r) {
          const float* from = points[r * kWinogradPatch + q] + first + static_cast<int64_t>(part * kLanes);
          // The processor does not follow as many streams by itself.
          __builtin_prefetch(from + kAhead);
          column[r] = load_lanes<Lanes>(from);
        }
        Lanes spread[kWinogradPatch];
        spread_column(column, 1, spread);
#pragma GCC unroll 6
        for (size_t r = 0; r < kWinogradPatch; ++r) half[r * kWinogradPatch + q] = spread[r];
      }
      for (size_t r = 0; r < kWinogradPatch; ++r) spread_column(&half[r * kWinogradPatch], 1, &whole[part][r * kWinogradPatch]);
    }
    // All parts of a line at once: the matrices may be at a distance at which their lines drive each other out of the cache.
    float* row = to + first;
    for (size_t i = 0; i < kPoints; ++i, row += distance) {
      for (size_t part = 0; part < kParts; ++part) store_lanes(row + part * kLanes, whole[part][i]);
    }
  }
}

template <int kLanes>
ANFORA_INLINE bool gather(const WinogradResult& result) {
  using Lanes = typename LanesOf<kLanes>::Type;
  constexpr size_t kParts = kWinogradLine / kLanes;
  const Lanes low = Lanes{} + result.low, high = Lanes{} + result.high;
  Lanes nothing{};
  for (int64_t first = 0; first + kWinogradLine <= result.channels; first = next_line(first, result.channels)) {
    Lanes whole[kParts][kPoints];
    const float* line = result.from + first;
    for (size_t i = 0; i < kPoints; ++i, line += result.distance) {
      for (size_t part = 0; part < kParts; ++part) whole[part][i] = load_lanes<Lanes>(line + part * kLanes);
    }
    for (size_t part = 0; part < kParts; ++part) {
      const int64_t channel = first + static_cast<int64_t>(part * kLanes);
      Lanes half[kWinogradTile * kWinogradPatch], tile[kWinogradTile * kWinogradTile];
      for (size_t q = 0; q < kWinogradPatch; ++q) gather_column(&whole[part][q], kWinogradPatch, &half[q], kWinogradPatch);
      for (size_t r = 0; r < kWinogradTile; ++r) gather_column(&half[r * kWinogradPatch], 1, &tile[r * kWinogradTile], 1);
      for (const Lanes& sums : tile) nothing += sums * 0.0f;
      const Lanes bias = result.bias ? load_lanes<Lanes>(result.bias + channel) : Lanes{};
      for (int64_t r = 0; r < result.rows; ++r) {
        for (int64_t q = 0; q < result.columns; ++q) {
          const int64_t at = r * result.row_stride + q * result.channels + channel;
          Lanes value = tile[r * kWinogradTile + q];
          if (result.bias) value += bias;
          if (result.addend) value += load_lanes<Lanes>(result.addend + at);
          value = value < low ? low : value;
          store_lanes(result.y + at, value > high ? high : value);
        }
      }
    }
  }
  bool is_bounded = true;
  for (int lane = 0; lane < kLanes; ++lane) is_bounded = is_bounded && nothing[lane] == 0;
  return is_bounded;
}

template <int kLanes, WinogradRows kRows>
ANFORA_INLINE void weigh_rows(const WinogradPanel& panel, float* to, int64_t distance) {
  using Lanes = typename LanesOf<kLanes>::Type;
  constexpr bool kIsPair = kRows != WinogradRows::ZeroAndInfinity;
  constexpr float kPoint = kRows == WinogradRows::Inner ? kWinogradInner : kWinogradOuter;
  constexpr double kOfPair = kRows == WinogradRows::Inner ? kOfInner : kOfOuter;
  const int64_t width = panel.width, down = kWinogradWindow * width;
  const float* window = panel.windows;
  for (int64_t k = 0; k < panel.depth; ++k, window += kWinogradWindow * down, to += width) {
    for (int64_t lane = 0; lane < width; lane += kLanes) {
      Lanes first[kWinogradWindow], second[kWinogradWindow], weighed[2 * kWinogradPatch];
#pragma GCC unroll 3
      for (int64_t q = 0; q < kWinogradWindow; ++q) {
        const float* from = window + q * width + lane;
        first[q] = load_lanes<Lanes>(from);
        second[q] = load_lanes<Lanes>(from + 2 * down);
        if (kIsPair) weigh_pair<Lanes>(kPoint, first[q], load_lanes<Lanes>(from + down), second[q], first[q], second[q]);
      }
      weigh_column(first, kIsPair ? kOfPair : kOfZero, weighed);
      weigh_column(second, kIsPair ? kOfPair : kOfInfinity, weighed + kWinogradPatch);
#pragma GCC unroll 12
      for (int64_t i = 0; i < 2 * kWinogradPatch; ++i) store_lanes(to + i * distance + lane, weighed[i]);
    }
  }
}

template <int kLanes>
ANFORA_INLINE void weigh(const WinogradPanel& panel, WinogradRows rows, float* to, int64_t distance) {
  switch (rows) {
    case WinogradRows::ZeroAndInfinity: return weigh_rows<kLanes, WinogradRows::ZeroAndInfinity>(panel, to, distance);
    case WinogradRows::Inner: return weigh_rows<kLanes, WinogradRows::Inner>(panel, to, distance);
    case WinogradRows::Outer: return weigh_rows<kLanes, WinogradRows::Outer>(panel, to, distance);
  }
}

void spread_by_8(const float* const* points, int64_t channels, float* to, int64_t distance) { spread<8>(points, channels, to, distance); }
bool gather_by_8(const WinogradResult& result) { return gather<8>(result); }
void weigh_by_8(const WinogradPanel& panel, WinogradRows rows, float* to, int64_t distance) { weigh<8>(panel, rows, to, distance); }

#if defined(__x86_64__)
[[gnu::target("arch=x86-64-v4,prefer-vector-width=512")]] void spread_by_16(const float* const* points, int64_t channels, float* to, int64_t distance) {
  spread<16>(points, channels, to, distance);
}
[[gnu::target("arch=x86-64-v4,prefer-vector-width=512")]] bool gather_by_16(const WinogradResult& result) { return gather<16>(result); }
[[gnu::target("arch=x86-64-v4,prefer-vector-width=512")]] void weigh_by_16(const WinogradPanel& panel, WinogradRows rows, float* to, int64_t distance) {
  panel.width % 16 == 0 ? weigh<16>(panel, rows, to, distance) : weigh<8>(panel, rows, to, distance);
}
#endif

}  // namespace

const WinogradTransforms& winograd_transforms() {
  static constexpr WinogradTransforms kBy8{spread_by_8, gather_by_8, weigh_by_8};
#if defined(__x86_64__)
  static constexpr WinogradTransforms kBy16{spread_by_16, gather_by_16, weigh_by_16};
  if (generated::best_isa() == generated::Isa::Avx512) return kBy16;
#endif
  return kBy8;
}

}  // namespace anfora::kernels::onednn

// Toom and Cook's construction makes Winograd's matrices of any points, as many as a patch has, one of them infinity. The others here are 0 and pairs ±p: what is even
// in p and what is odd are computed once for both of a pair.
//
//     Bᵀ   row j: the coefficients of the product of x − q over the points q but the j-th; of infinity, over all
//     G    row j: the powers of the j-th point, divided by the product of its differences from the others
//     Aᵀ   row i: the points to the power of i
#include "kernels/onednn/winograd_transforms.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "kernels/generated/isa.h"

// Vectors are only passed between functions that are inlined.
#pragma GCC diagnostic ignored "-Wpsabi"
#define ANFORA_INLINE [[gnu::always_inline]] inline

namespace anfora::kernels::onednn {
namespace {

using generated::WinogradForm;

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

// The points beside 0 and infinity, as pairs.
template <size_t kPatch>
struct Pairs;
template <>
struct Pairs<6> {
  static constexpr std::array<double, 2> kPoints{0.625, 1.5};
};
template <>
struct Pairs<8> {
  static constexpr std::array<double, 3> kPoints{0.5, 1, 2};
};

// The coefficients of the product of x² − p² over the pairs but one, from that of 1 on; there may be no such pair.
template <size_t kPatch>
constexpr auto product_of_pairs(size_t but) {
  constexpr auto& kPoints = Pairs<kPatch>::kPoints;
  std::array<double, kPoints.size() + 1> product{1};
  for (size_t i = 0; i < kPoints.size(); ++i) {
    if (i == but) continue;
    for (size_t power = kPoints.size() + 1; power-- > 0;) product[power] = (power > 0 ? product[power - 1] : 0) - kPoints[i] * kPoints[i] * product[power];
  }
  return product;
}

// Of all pairs, and of those but one.
template <size_t kPatch>
constexpr size_t kPairs = Pairs<kPatch>::kPoints.size();
template <size_t kPatch>
constexpr auto kOfAllPairs = product_of_pairs<kPatch>(kPairs<kPatch>);
template <size_t kPatch>
constexpr auto kOfOtherPairs = [] {
  std::array<std::array<double, kPairs<kPatch> + 1>, kPairs<kPatch>> products{};
  for (size_t i = 0; i < products.size(); ++i) products[i] = product_of_pairs<kPatch>(i);
  return products;
}();

constexpr double power(double base, size_t exponent) { return exponent == 0 ? 1 : base * power(base, exponent - 1); }

// What the rows of G are divided by, inverted: 0's and, at 1 + i, a pair's; infinity's is 1.
template <size_t kPatch>
constexpr auto kScales = [] {
  constexpr auto& kPoints = Pairs<kPatch>::kPoints;
  std::array<double, kPairs<kPatch> + 1> scales{1 / kOfAllPairs<kPatch>[0]};
  for (size_t i = 0; i < kPoints.size(); ++i) {
    double differences = 2 * kPoints[i] * kPoints[i];
    for (size_t j = 0; j < kPoints.size(); ++j) differences *= j == i ? 1 : kPoints[i] * kPoints[i] - kPoints[j] * kPoints[j];
    scales[1 + i] = 1 / differences;
  }
  return scales;
}();

// Bᵀ times a column.
template <size_t kPatch, class Lanes>
ANFORA_INLINE void spread_column(const Lanes* d, Lanes* to) {
  constexpr auto& kAll = kOfAllPairs<kPatch>;
  Lanes zero = static_cast<float>(kAll[0]) * d[0], infinity = static_cast<float>(kAll[0]) * d[1];
#pragma GCC unroll 4
  for (size_t i = 1; i <= kPairs<kPatch>; ++i) {
    zero += static_cast<float>(kAll[i]) * d[2 * i];
    infinity += static_cast<float>(kAll[i]) * d[2 * i + 1];
  }
  to[0] = zero, to[kPatch - 1] = infinity;
#pragma GCC unroll 3
  for (size_t pair = 0; pair < kPairs<kPatch>; ++pair) {
    const auto& others = kOfOtherPairs<kPatch>[pair];
    Lanes even = static_cast<float>(others[0]) * d[2], odd = static_cast<float>(others[0]) * d[1];
#pragma GCC unroll 3
    for (size_t i = 1; i < kPairs<kPatch>; ++i) {
      even += static_cast<float>(others[i]) * d[2 * i + 2];
      odd += static_cast<float>(others[i]) * d[2 * i + 1];
    }
    odd *= static_cast<float>(Pairs<kPatch>::kPoints[pair]);
    to[1 + 2 * pair] = even + odd, to[2 + 2 * pair] = even - odd;
  }
}

// Aᵀ times a column whose elements are `step` apart.
template <size_t kPatch, size_t kResults, class Lanes>
ANFORA_INLINE void gather_column(const Lanes* m, size_t step, Lanes* to, size_t to_step) {
  Lanes sums[kPairs<kPatch>], differences[kPairs<kPatch>];
#pragma GCC unroll 3
  for (size_t pair = 0; pair < kPairs<kPatch>; ++pair) {
    const Lanes plus = m[(1 + 2 * pair) * step], minus = m[(2 + 2 * pair) * step];
    sums[pair] = plus + minus, differences[pair] = plus - minus;
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < kResults; ++i) {
    Lanes sum = i == 0 ? m[0] : Lanes{};
#pragma GCC unroll 3
    for (size_t pair = 0; pair < kPairs<kPatch>; ++pair) {
      const Lanes term = static_cast<float>(power(Pairs<kPatch>::kPoints[pair], i)) * (i % 2 == 0 ? sums[pair] : differences[pair]);
      sum = i > 0 && pair == 0 ? term : sum + term;
    }
    to[i * to_step] = i == kResults - 1 ? sum + m[(kPatch - 1) * step] : sum;
  }
}

// Two rows of G without what they are divided by, of ±p, times a column.
template <size_t kTaps, class Lanes>
ANFORA_INLINE void weigh_pair(double p, const Lanes* g, Lanes& plus, Lanes& minus) {
  Lanes even = g[0], odd = static_cast<float>(p) * g[1];
#pragma GCC unroll 5
  for (size_t i = 2; i < kTaps; ++i) (i % 2 == 0 ? even : odd) += static_cast<float>(power(p, i)) * g[i];
  plus = even + odd, minus = even - odd;
}

// G times a column that is yet to be scaled.
template <size_t kPatch, size_t kTaps, class Lanes>
ANFORA_INLINE void weigh_column(const Lanes* g, double scale, Lanes* to) {
  to[0] = static_cast<float>(kScales<kPatch>[0] * scale) * g[0];
#pragma GCC unroll 3
  for (size_t pair = 0; pair < kPairs<kPatch>; ++pair) {
    Lanes plus, minus;
    weigh_pair<kTaps>(Pairs<kPatch>::kPoints[pair], g, plus, minus);
    const auto by = static_cast<float>(kScales<kPatch>[1 + pair] * scale);
    to[1 + 2 * pair] = by * plus, to[2 + 2 * pair] = by * minus;
  }
  to[kPatch - 1] = static_cast<float>(scale) * g[kTaps - 1];
}

// The line of channels behind one, or the last one; `channels` behind that.
ANFORA_INLINE int64_t next_line(int64_t first, int64_t channels) {
  const int64_t next = first + kWinogradLine, last = channels - kWinogradLine;
  return next > last && first < last ? last : next;
}

// Elements between what is loaded and what is fetched to the cache.
constexpr int64_t kAhead = 2 * kWinogradLine;

template <size_t kPatch, class Lanes>
ANFORA_INLINE void load_column(const float* const* points, int64_t channel, size_t step, Lanes* column) {
#pragma GCC unroll 8
  for (size_t r = 0; r < kPatch; ++r) {
    const float* from = points[r * step] + channel;
    // The processor does not follow as many streams by itself.
    __builtin_prefetch(from + kAhead);
    column[r] = load_lanes<Lanes>(from);
  }
}

template <size_t kPatch, size_t kAxes, int kLanes>
ANFORA_INLINE void spread(const float* const* points, int64_t channels, float* to, int64_t distance) {
  using Lanes = typename LanesOf<kLanes>::Type;
  constexpr size_t kParts = kWinogradLine / kLanes, kPoints = kAxes == 2 ? kPatch * kPatch : kPatch;
  for (int64_t first = 0; first + kWinogradLine <= channels; first = next_line(first, channels)) {
    Lanes whole[kParts][kPoints];
    for (size_t part = 0; part < kParts; ++part) {
      const int64_t channel = first + static_cast<int64_t>(part * kLanes);
      Lanes column[kPatch];
      if constexpr (kAxes == 1) {
        load_column<kPatch>(points, channel, 1, column);
        spread_column<kPatch>(column, whole[part]);
      } else {
        Lanes half[kPoints];
        for (size_t q = 0; q < kPatch; ++q) {
          load_column<kPatch>(points + q, channel, kPatch, column);
          Lanes spread[kPatch];
          spread_column<kPatch>(column, spread);
#pragma GCC unroll 8
          for (size_t r = 0; r < kPatch; ++r) half[r * kPatch + q] = spread[r];
        }
        for (size_t r = 0; r < kPatch; ++r) spread_column<kPatch>(&half[r * kPatch], &whole[part][r * kPatch]);
      }
    }
    // All parts of a line at once: the matrices may be at a distance at which their lines drive each other out of the cache.
    float* row = to + first;
    for (size_t i = 0; i < kPoints; ++i, row += distance) {
      for (size_t part = 0; part < kParts; ++part) store_lanes(row + part * kLanes, whole[part][i]);
    }
  }
}

// Processors that have no such instruction take it for none; the compiler would not use it, as not all of AVX2 have it.
ANFORA_INLINE void fetch_to_write(const float* at) { asm volatile("prefetchw %0" : : "m"(*at)); }

template <size_t kPatch, size_t kResults, size_t kAxes, int kLanes>
ANFORA_INLINE bool gather(const WinogradResult& result) {
  using Lanes = typename LanesOf<kLanes>::Type;
  constexpr size_t kParts = kWinogradLine / kLanes, kPoints = kAxes == 2 ? kPatch * kPatch : kPatch;
  constexpr size_t kRows = kAxes == 2 ? kResults : 1;
  const StraightPieces activation = result.activation;
  Lanes nothing{};
  for (int64_t first = 0; first + kWinogradLine <= result.channels; first = next_line(first, result.channels)) {
    // While the sums are computed.
    for (int64_t r = 0; r < result.rows; ++r) {
      for (int64_t q = 0; q < result.columns; ++q) {
        if (result.addend.first) __builtin_prefetch(result.addend.at(r, q) + first);
        fetch_to_write(result.y.at(r, q) + first);
      }
    }
    Lanes whole[kParts][kPoints];
    const float* line = result.from + first;
    for (size_t i = 0; i < kPoints; ++i, line += result.distance) {
      for (size_t part = 0; part < kParts; ++part) whole[part][i] = load_lanes<Lanes>(line + part * kLanes);
    }
    for (size_t part = 0; part < kParts; ++part) {
      const int64_t channel = first + static_cast<int64_t>(part * kLanes);
      Lanes tile[kRows * kResults];
      if constexpr (kAxes == 1) {
        gather_column<kPatch, kResults>(whole[part], 1, tile, 1);
      } else {
        Lanes half[kResults * kPatch];
        for (size_t q = 0; q < kPatch; ++q) gather_column<kPatch, kResults>(&whole[part][q], kPatch, &half[q], kPatch);
        for (size_t r = 0; r < kResults; ++r) gather_column<kPatch, kResults>(&half[r * kPatch], 1, &tile[r * kResults], 1);
      }
      for (const Lanes& sums : tile) nothing += sums * 0.0f;
      const Lanes bias = result.bias ? load_lanes<Lanes>(result.bias + channel) : Lanes{};
      for (int64_t r = 0; r < result.rows; ++r) {
        for (int64_t q = 0; q < result.columns; ++q) {
          Lanes value = tile[r * static_cast<int64_t>(kResults) + q];
          if (result.bias) value += bias;
          if (result.addend.first) value += load_lanes<Lanes>(result.addend.at(r, q) + channel);
          activation.apply(value);
          store_lanes(result.y.at(r, q) + channel, value);
        }
      }
    }
  }
  bool is_bounded = true;
  for (int lane = 0; lane < kLanes; ++lane) is_bounded = is_bounded && nothing[lane] == 0;
  return is_bounded;
}

// Calls f(lane, the weights of the taps there) for all lanes of a channel, channel by channel.
template <size_t kCount, int kLanes, class F>
ANFORA_INLINE void for_each_column(const WinogradPanel& panel, float* to, const F& f) {
  using Lanes = typename LanesOf<kLanes>::Type;
  std::array<WinogradPanel::Tap, kMostWinogradTaps> taps = panel.taps;
  for (int64_t k = 0; k < panel.depth; ++k, to += panel.width) {
    for (int64_t lane = 0; lane < panel.width; lane += kLanes) {
      Lanes g[kCount];
#pragma GCC unroll 9
      for (size_t i = 0; i < kCount; ++i) g[i] = load_lanes<Lanes>(taps[i].first + lane);
      f(g, to + lane);
    }
#pragma GCC unroll 9
    for (size_t i = 0; i < kCount; ++i) taps[i].first += taps[i].step;
  }
}

template <size_t kPatch, size_t kTaps, int kLanes>
ANFORA_INLINE void weigh_lines(const WinogradPanel& panel, float* to, int64_t distance) {
  using Lanes = typename LanesOf<kLanes>::Type;
  for_each_column<kTaps, kLanes>(panel, to, [distance](const Lanes* g, float* at) [[gnu::always_inline]] {
    Lanes weighed[kPatch];
    weigh_column<kPatch, kTaps>(g, 1, weighed);
#pragma GCC unroll 8
    for (size_t i = 0; i < kPatch; ++i) store_lanes(at + static_cast<int64_t>(i) * distance, weighed[i]);
  });
}

// Of squares: the rows of 0 and infinity, or those of a pair.
template <size_t kPatch, size_t kTaps, size_t kGroup, int kLanes>
ANFORA_INLINE void weigh_rows(const WinogradPanel& panel, float* to, int64_t distance) {
  using Lanes = typename LanesOf<kLanes>::Type;
  for_each_column<kTaps * kTaps, kLanes>(panel, to, [distance](const Lanes* g, float* at) [[gnu::always_inline]] {
    Lanes first[kTaps], second[kTaps], weighed[2 * kPatch];
#pragma GCC unroll 3
    for (size_t q = 0; q < kTaps; ++q) {
      if constexpr (kGroup == 0) {
        first[q] = g[q], second[q] = g[(kTaps - 1) * kTaps + q];
      } else {
        Lanes column[kTaps];
#pragma GCC unroll 3
        for (size_t r = 0; r < kTaps; ++r) column[r] = g[r * kTaps + q];
        weigh_pair<kTaps>(Pairs<kPatch>::kPoints[kGroup - 1], column, first[q], second[q]);
      }
    }
    weigh_column<kPatch, kTaps>(first, kScales<kPatch>[kGroup], weighed);
    weigh_column<kPatch, kTaps>(second, kGroup == 0 ? 1 : kScales<kPatch>[kGroup], weighed + kPatch);
#pragma GCC unroll 12
    for (size_t i = 0; i < 2 * kPatch; ++i) store_lanes(at + static_cast<int64_t>(i) * distance, weighed[i]);
  });
}

template <size_t kPatch, size_t kTaps, size_t kAxes, int kLanes>
ANFORA_INLINE void weigh(const WinogradPanel& panel, int64_t group, float* to, int64_t distance) {
  if constexpr (kAxes == 1) {
    weigh_lines<kPatch, kTaps, kLanes>(panel, to, distance);
  } else {
    static_assert(kPairs<kPatch> == 2);
    if (group == 0) return weigh_rows<kPatch, kTaps, 0, kLanes>(panel, to, distance);
    if (group == 1) return weigh_rows<kPatch, kTaps, 1, kLanes>(panel, to, distance);
    weigh_rows<kPatch, kTaps, 2, kLanes>(panel, to, distance);
  }
}

// Of a line all at once; of a square, rows that weigh_rows() makes together.
template <size_t kPatch, size_t kAxes>
constexpr auto matrices_by_group() {
  std::array<uint8_t, kMostWinogradMatrices> numbers{};
  if (kAxes == 1) {
    for (size_t i = 0; i < kPatch; ++i) numbers[i] = static_cast<uint8_t>(i);
    return numbers;
  }
  size_t count = 0;
  for (size_t group = 0; group < kPatch / 2; ++group) {
    for (size_t row : {group == 0 ? 0 : 2 * group - 1, group == 0 ? kPatch - 1 : 2 * group}) {
      for (size_t q = 0; q < kPatch; ++q) numbers[count++] = static_cast<uint8_t>(row * kPatch + q);
    }
  }
  return numbers;
}

template <size_t kTaps, size_t kResults, size_t kAxes>
struct Transforms {
  static constexpr size_t kPatch = kTaps + kResults - 1;

  static void spread_by_8(const float* const* points, int64_t channels, float* to, int64_t distance) { spread<kPatch, kAxes, 8>(points, channels, to, distance); }
  static bool gather_by_8(const WinogradResult& result) { return gather<kPatch, kResults, kAxes, 8>(result); }
  static void weigh_by_8(const WinogradPanel& panel, int64_t group, float* to, int64_t distance) { weigh<kPatch, kTaps, kAxes, 8>(panel, group, to, distance); }

#if defined(__x86_64__)
  [[gnu::target("arch=x86-64-v4,prefer-vector-width=512")]] static void spread_by_16(const float* const* points, int64_t channels, float* to, int64_t distance) {
    spread<kPatch, kAxes, 16>(points, channels, to, distance);
  }
  [[gnu::target("arch=x86-64-v4,prefer-vector-width=512")]] static bool gather_by_16(const WinogradResult& result) { return gather<kPatch, kResults, kAxes, 16>(result); }
  [[gnu::target("arch=x86-64-v4,prefer-vector-width=512")]] static void weigh_by_16(const WinogradPanel& panel, int64_t group, float* to, int64_t distance) {
    panel.width % 16 == 0 ? weigh<kPatch, kTaps, kAxes, 16>(panel, group, to, distance) : weigh<kPatch, kTaps, kAxes, 8>(panel, group, to, distance);
  }
#endif

  static const WinogradTransforms& here() {
    constexpr int64_t kGroups = kAxes == 2 ? kPatch / 2 : 1, kCount = kAxes == 2 ? 2 * kPatch : kPatch;
    static constexpr WinogradTransforms kBy8{spread_by_8, gather_by_8, weigh_by_8, kGroups, kCount, matrices_by_group<kPatch, kAxes>()};
#if defined(__x86_64__)
    static constexpr WinogradTransforms kBy16{spread_by_16, gather_by_16, weigh_by_16, kGroups, kCount, matrices_by_group<kPatch, kAxes>()};
    if (generated::best_isa() == generated::Isa::Avx512) return kBy16;
#endif
    return kBy8;
  }
};

template <const WinogradForm& kForm>
const WinogradTransforms& transforms_of() {
  return Transforms<static_cast<size_t>(kForm.taps), static_cast<size_t>(kForm.results), static_cast<size_t>(kForm.axes)>::here();
}

}  // namespace

const WinogradTransforms& winograd_transforms(const WinogradForm& form) {
  if (form == generated::kSquareOf3) return transforms_of<generated::kSquareOf3>();
  if (form == generated::kLineOf3) return transforms_of<generated::kLineOf3>();
  if (form == generated::kLineOf5) return transforms_of<generated::kLineOf5>();
  return transforms_of<generated::kLineOf7>();
}

}  // namespace anfora::kernels::onednn

// The code that gathers rows for a product, as what generates it and what runs it agree on.
//
//     Y[m, c] = activation(X[m, c] · S[c] + T[c])
//
// of some rows and channels, where S and T may be absent.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/generated/epilogue.h"
#include "kernels/generated/isa.h"

namespace anfora::kernels::generated {

struct GatherCode {
  bool has_scale = false;
  Epilogue epilogue;  // addend 0 is T

  std::vector<int64_t> numbers() const {
    std::vector<int64_t> all = epilogue.numbers();
    all.insert(all.begin(), int64_t{has_scale});
    return all;
  }
  bool operator==(const GatherCode&) const = default;
};

// The vectors that are computed side by side.
inline constexpr int kGatheredVectors = 2;
inline int64_t gathered_columns(Isa isa) { return int64_t{kGatheredVectors} * describe(isa).lanes; }

// The arguments, in order. Strides count in elements.
enum GatherArgument : uint8_t {
  kFrom,  // the first row
  kFromStride,
  kTo,
  kToStride,
  kGatheredRows,
  kGatheredChannels,
  kGatheredPanels,  // of gathered_columns() that are whole
  kCutPanels,       // 1, where there are channels behind them
  kChannelScale,         // S of the first channel
  kChannelShift,          // T, likewise
  kGatherArguments
};

}  // namespace anfora::kernels::generated

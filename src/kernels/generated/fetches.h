// What the tiles of a panel fetch of the next one into the second-level cache: each a part of it, a few lines of the cache at a time.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/generated/product_code.h"
#include "kernels/reference/window.h"

namespace anfora::kernels::generated {

class Fetches {
 public:
  Fetches() = default;
  // The weights of `steps` of each of some lines of windows, from `next` on.
  Fetches(int64_t next, int64_t steps, int64_t lines, const ProductCode& code, int64_t tiles)
      : Fetches(next, code.weight_bytes(steps * lines), steps, lines, tiles) {}
  // So many bytes during the steps.
  Fetches(int64_t next, int64_t bytes, int64_t steps, int64_t lines, int64_t tiles) : next_(next), bytes_(bytes), of_line_(steps / kStepsOfFetch) {
    const int64_t of_all_tiles = of_line_ * lines * tiles;
    if (of_all_tiles == 0) return;
    lines_ = ceil_div(bytes_, kCacheLineBytes * of_all_tiles);
    bytes_of_tile_ = of_line_ * lines * lines_ * kCacheLineBytes;
  }

  void give(int64_t tile, std::array<int64_t, kProductArguments>& arguments) const {
    const int64_t begin = tile * bytes_of_tile_;
    arguments[kAhead] = next_ + begin;
    arguments[kLinesOfFetch] = begin < bytes_ ? lines_ : 0;
  }

 private:
  int64_t next_ = 0, bytes_ = 0, of_line_ = 0, lines_ = 0, bytes_of_tile_ = 0;
};

}  // namespace anfora::kernels::generated

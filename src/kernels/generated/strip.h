// Some rows of an image as windows read them, in memory of their own: with the padding of columns, and few enough to stay in the second-level cache.
//
//     result rows first … last − 1    ◀──  rows base … above − 1 of the image
//
// Rows that the windows of the next strip read again are moved to its front. Padding above and below has no rows: windows have fewer taps there.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/reference/window.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels::generated {

class Strip {
 public:
  // For `results` rows of the result at a time. Uninitialized.
  Strip(const WindowAxis& rows, int64_t results, int64_t row_size)
      : rows_(rows), results_(results), row_size_(row_size), memory_(static_cast<size_t>(rows_of(rows, results) * row_size)) {}

  // Rows of the result that a strip of so many bytes gives, at least one.
  static int64_t results_of(const WindowAxis& rows, int64_t bytes, int64_t row_size) {
    const int64_t fit = bytes / (row_size * int64_t{sizeof(float)}) - rows.reach();
    return std::clamp<int64_t>(fit / rows.stride, 1, rows.output);
  }
  static int64_t rows_of(const WindowAxis& rows, int64_t results) { return std::min((results - 1) * rows.stride + rows.reach(), rows.input); }

  float* begin() { return memory_.begin(); }
  // Zeros in each line of so many elements, but for [begin, end).
  void clear_around(int64_t line_size, int64_t begin, int64_t end) {
    for (float* line = memory_.begin(); line != memory_.end(); line += line_size) {
      std::fill(line, line + begin, 0.0f);
      std::fill(line + end, line + line_size, 0.0f);
    }
  }
  // A row of the image that the strip has.
  float* row(int64_t i) { return memory_.data() + (i - base_) * row_size_; }

  // Goes through rows [begin, end) of the result: fill(from, to) for rows of the image that are missing, use(row) for each of the result.
  template <class Fill, class Use>
  void walk(int64_t begin, int64_t end, const Fill& fill, const Use& use) {
    int64_t filled = 0;  // the rows [base_, filled) are there
    for (int64_t first = begin, last; first < end; first = last) {
      last = std::min(first + results_, end);
      const int64_t base = std::clamp<int64_t>(rows_.start(first), 0, rows_.input);
      const int64_t above = std::clamp<int64_t>(rows_.start(last - 1) + rows_.reach(), base, rows_.input);
      if (first != begin && base < filled) {
        std::memmove(memory_.data(), row(base), static_cast<size_t>((filled - base) * row_size_) * sizeof(float));
      } else {
        filled = base;
      }
      base_ = base;
      if (filled < above) fill(filled, above);
      filled = std::max(filled, above);
      for (int64_t i = first; i < last; ++i) use(i);
    }
  }

 private:
  const WindowAxis& rows_;
  int64_t results_, row_size_;
  Scratch<float> memory_;
  int64_t base_ = 0;  // the image's row that is the first
};

// Calls f(image, block, begin, end) for rows [begin, end) of the result, of each block of channels of each image, by the threads. Where there are few
// blocks, threads share the rows of one; each begins with a strip of its own. `work`: multiply-adds of a block.
template <class F>
void for_each_segment(int64_t batch, int64_t blocks, int64_t results, int64_t work, const F& f) {
  constexpr int64_t kTasksPerThread = 2, kFewestRows = 8;
  constexpr int64_t kWork = 1 << 20;  // multiply-adds; some ten microseconds
  const int64_t images = batch * blocks;
  const int64_t wanted = thread_count() == 1 ? 1 : ceil_div(kTasksPerThread * thread_count(), images);
  const int64_t segments = std::clamp<int64_t>(results / kFewestRows, 1, wanted);
  parallel_for(images * segments, grain_of(kWork, work / segments), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t segment = i % segments, block = i / segments;
      f(block / blocks, block % blocks, results * segment / segments, results * (segment + 1) / segments);
    }
  });
}

}  // namespace anfora::kernels::generated

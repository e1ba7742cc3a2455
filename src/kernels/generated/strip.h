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

// What a convolution does strip by strip: for each image, for each block of so many panels of channels (the last may have fewer), the rows of the result.
struct StripWork {
  int64_t images = 1, panels = 1, panels_at_once = 1, rows = 1;
  int64_t row_cost = 1;  // multiply-adds of a panel for a row
  int64_t cut_rows = 0;  // a strip that begins within an image reads anew what so many rows cost

  int64_t panels_of(int64_t block) const { return std::min(panels_at_once, panels - block * panels_at_once); }
};

// How threads share it: rows of panels, counted image by image and block by block, in pieces of a thread each and shares of several pieces. Shares are alike,
// but where two meet beside the end of a block, they meet there, as that costs less than to cut the block. Pieces of a share are blocks, or halves of
// the share where those are few; they are for another thread where one comes late.
class StripPieces {
 public:
  StripPieces(const StripWork& work, int64_t threads);

  int64_t count() const { return static_cast<int64_t>(ends_.size()); }

  // Calls f(image, block, begin, end) for rows [begin, end) of the result.
  template <class F>
  void for_each_segment(int64_t piece, const F& f) const {
    for (int64_t at = piece == 0 ? 0 : ends_[static_cast<size_t>(piece - 1)], end = ends_[static_cast<size_t>(piece)]; at < end;) {
      const Block block = block_at(at);
      const int64_t until = std::min(end, block.end);
      f(block.image, block.number, (at - block.begin) / block.panels, (until - block.begin) / block.panels);
      at = until;
    }
  }

 private:
  struct Block {
    int64_t image, number, panels;
    int64_t begin, end;  // counted as pieces are
  };
  Block block_at(int64_t row) const;
  int64_t cut(int64_t at, int64_t most_rows) const;

  StripWork work_;
  Scratch<int64_t> ends_;
};

// Calls f(image, block, begin, end) for rows [begin, end) of the result, of each block of each image, by the threads; each segment begins with a strip of its own.
template <class F>
void for_each_segment(const StripWork& work, const F& f) {
  const StripPieces pieces(work, thread_count());
  parallel_for(pieces.count(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) pieces.for_each_segment(i, f);
  });
}

}  // namespace anfora::kernels::generated

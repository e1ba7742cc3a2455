// What tiles of windows read of an image, where it lies: as runs of the code of products (product_code.h).
//
// Windows inside the image are read line by line. Of others, taps that see padding are left out: lines of them above and below the image; on its sides
// each tap is of those places alone that see the image by it.
//
//     place   0   1   2   3          three taps side by side, a pixel of padding on each side
//     tap 0       ▪   ▪   ▪
//     tap 1   ▪   ▪   ▪   ▪
//     tap 2   ▪   ▪   ▪
//
// Runs are rows of this picture, which are added up; of few channels, where sums would take longer to keep than to compute, they are columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "kernels/reference/window.h"

namespace anfora::kernels::generated {

class WindowTaps {
 public:
  // Of windows of one or two axes over [batch, lines, pixels, channels]; nothing for others.
  static std::optional<WindowTaps> of(const Window& window, int64_t channels);
  // Whether some tiles may need several runs that are added up. The sizes of the image need not be known.
  static bool may_add_runs(const Window& window, int64_t channels);

  // Elements of x from a place to the next, and about as many as a place adds to what those before it read.
  int64_t place_stride() const { return across_.stride * channels_; }
  int64_t read_by_place() const { return down_.stride * across_.input * channels_ / across_.output + 1; }
  int64_t lines() const { return down_.kernel; }
  int64_t steps_of_line() const { return across_.kernel * channels_; }

  // A row of y.
  struct Row {
    WindowAxis::Taps lines{};  // of taps by which it sees its image
    int64_t from = 0;          // element of x: the first one of the line that tap line 0 is on, which may be none of x
    bool sees_nothing() const { return lines.first >= lines.last; }
  };
  // Row `number` of all images.
  Row row(int64_t number) const {
    const int64_t image = number / down_.output, line = number % down_.output;
    return {down_.taps_inside(line), (image * down_.input + down_.start(line)) * across_.input * channels_};
  }
  // Whether the runs of a tile of `count` places are added up; else each sums all taps of the lines, for places of its own.
  bool adds_runs(int64_t place, int64_t count) const {
    return is_inside(place, count) ? !are_side_by_side() && down_.kernel > 1 : !has_few_channels(channels_) || !are_side_by_side();
  }

  // `places` of a tile, from one on, by some taps: `lines` of them, each of so many steps.
  struct Run {
    int64_t first_place = 0, places = 0;
    int64_t from = 0;  // element of x
    int64_t step = 0;  // of the weights
    int64_t lines = 0, steps = 0;
    int64_t line_stride = 0, line_steps = 0;  // of x and of the weights, from line to line
  };
  // f(run) for all that a tile reads by some lines of taps, which see the image. Where there are none: nothing if runs are added up, else one of no lines.
  template <class F>
  void for_each_run(const Row& row, int64_t place, int64_t count, WindowAxis::Taps lines, const F& f) const;

 private:
  static bool has_few_channels(int64_t channels) { return channels < 16; }
  static bool are_side_by_side(const WindowAxis& across) { return across.dilation == 1 || across.kernel == 1; }
  bool are_side_by_side() const { return are_side_by_side(across_); }
  bool is_inside(int64_t place, int64_t count) const { return place >= first_inside_ && place + count <= end_inside_; }
  int64_t line_stride() const { return down_.dilation * across_.input * channels_; }

  WindowAxis down_, across_;
  int64_t channels_ = 0;
  int64_t first_inside_ = 0, end_inside_ = 0;  // places that see the image by all taps of a line
};

template <class F>
void WindowTaps::for_each_run(const Row& row, int64_t place, int64_t count, WindowAxis::Taps lines, const F& f) const {
  if (lines.first >= lines.last) {
    if (!adds_runs(place, count)) f(Run{.places = count});
    return;
  }
  auto from = [&](int64_t line, int64_t at, int64_t tap) {
    return row.from + line * line_stride() + (across_.start(at) + tap * across_.dilation) * channels_;
  };
  // Taps that lie side by side, as lines.
  auto run_lines = [&](int64_t first, int64_t places, WindowAxis::Taps taps) {
    f(Run{first, places, from(lines.first, place + first, taps.first), lines.first * steps_of_line() + taps.first * channels_,
          lines.last - lines.first, (taps.last - taps.first) * channels_, line_stride(), steps_of_line()});
  };
  const WindowAxis::Taps all{0, across_.kernel};
  if (!adds_runs(place, count) && are_side_by_side()) {
    if (is_inside(place, count)) return run_lines(0, count, all);
    for (int64_t first = 0, next; first < count; first = next) {
      const WindowAxis::Taps taps = across_.taps_inside(place + first);
      auto is_alike = [&](int64_t other) {
        const WindowAxis::Taps others = across_.taps_inside(place + other);
        return others.first == taps.first && others.last == taps.last;
      };
      next = first + 1;
      while (next < count && is_alike(next)) ++next;
      run_lines(first, next - first, taps);
    }
    return;
  }
  auto places_of = [&](int64_t tap) {
    const WindowAxis::Taps places = across_.outputs_inside(tap);
    return WindowAxis::Taps{std::max(places.first - place, int64_t{0}), std::min(places.last - place, count)};
  };
  for (int64_t line = lines.first; line < lines.last; ++line) {
    for (int64_t tap = 0, next; tap < across_.kernel; tap = next) {
      const auto [first, last] = places_of(tap);
      next = tap + 1;
      if (first >= last) continue;
      while (next < across_.kernel && places_of(next).first == first && places_of(next).last == last) ++next;
      const int64_t step = line * steps_of_line() + tap * channels_, begin = from(line, place + first, tap);
      f(are_side_by_side() ? Run{first, last - first, begin, step, 1, (next - tap) * channels_, 0, 0}
                           : Run{first, last - first, begin, step, next - tap, channels_, across_.dilation * channels_, channels_});
    }
  }
}

}  // namespace anfora::kernels::generated

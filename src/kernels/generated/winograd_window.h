// How Winograd's minimal filtering computes the windows of a convolution: by tiles of which form, along which axes, and cut into which pieces.
//
// F(m, r) computes m results beside each other of a window of r taps by m + r − 1 multiplications in the place of m · r; the same along two axes squares both.
// The results of a tile are as far from each other as the taps of a window. A window of more taps is a sum of windows:
//
//     8 taps   ■ ■ ■ ■ ■ ■ ■ ■ ·          5 × 5   ■ ■ ■ ■ ■ ·
//              └ of 3┘└ of 3┘└ of 3┘              ■ ■ ■ ■ ■ ·    four of 3 × 3; what lies outside has the weight 0
//                                                 ■ ■ ■ ■ ■ · …
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/prepared.h"
#include "kernels/reference/window.h"

namespace anfora::kernels::generated {

// F(results, taps) along so many axes.
struct WinogradForm {
  int64_t taps = 3, results = 4, axes = 1;

  constexpr int64_t patch() const { return taps + results - 1; }
  // Products of matrices, and points of the input that a tile reads.
  constexpr int64_t matrices() const { return axes == 2 ? patch() * patch() : patch(); }
  bool operator==(const WinogradForm&) const = default;
};
inline constexpr WinogradForm kSquareOf3{3, 4, 2}, kLineOf3{3, 4, 1}, kLineOf5{5, 4, 1}, kLineOf7{7, 2, 1};

// Windows of those weights, [out, channels of a group, spatial…]: squares where they have rows and columns, else lines; in each of some frames, of which windows
// may be any.
struct WinogradWindow {
  WinogradForm form;
  int64_t frames = 1, pieces = 1;  // pieces are those of a frame

  // Empty where windows are not one at each point, or there are few channels.
  static std::optional<WinogradWindow> of(const AttributeSet& attributes, const Shape& weights);
};

// A convolution of x, whose channels are last.
struct WinogradShape {
  struct Axis {
    int64_t kernel = 1, dilation = 1, pad = 0, input = 1, output = 1;
    int64_t taps_read = 1;               // by the direct sum, of all windows
    int64_t x_stride = 0, y_stride = 0;  // points in memory from one of the axis to the next

    // As many points as the taps are apart begin a tile each; the next ones begin behind all results of those.
    int64_t tiles(int64_t results) const { return output / (results * dilation) * dilation + std::min(output % (results * dilation), dilation); }
    // The first result of a tile, and how many of its results there are.
    int64_t first(int64_t tile, int64_t results) const { return dilation == 1 ? tile * results : tile / dilation * results * dilation + tile % dilation; }
    int64_t count(int64_t first, int64_t results) const { return std::clamp<int64_t>(ceil_div(output - first, dilation), 0, results); }
    // Whether the input has the point, or all of so many, a tap apart.
    bool has(int64_t point, int64_t points = 1) const { return point >= 0 && point + (points - 1) * dilation < input; }
  };

  WinogradForm form;
  Shape y;
  int64_t batch = 0, groups = 1;
  int64_t C = 0, K = 0;              // C: channels of x in a group, K: all of y
  WindowAxis frames;                 // a single one where there are none
  Axis down, across;                 // lines are across, wherever they lie in memory
  int64_t x_image = 1, y_image = 1;  // points of an image, which is one of the frames

  // Empty where windows are others, operands do not fit, or there is nothing to compute. Throws TypeMismatch where a window does not fit.
  static std::optional<WinogradShape> resolve(const AttributeSet& attributes, const Shape& x, const Shape& weights);

  // Whether it pays: the transforms cost time for each element of the matrices, those of the weights too, which the direct sum only reads.
  bool is_worthwhile() const;

  int64_t taps() const { return down.kernel * across.kernel; }  // of a frame
  int64_t pieces_down() const { return form.axes == 2 ? ceil_div(down.kernel, form.taps) : 1; }
  int64_t pieces_across() const { return ceil_div(across.kernel, form.taps); }
  int64_t pieces() const { return frames.kernel * pieces_down() * pieces_across(); }
  int64_t depth() const { return pieces() * C; }
  int64_t images() const { return batch * frames.output; }  // of y
  // That the tap of a window sees for an image of y; none in the padding.
  std::optional<int64_t> image_of_x(int64_t image, int64_t tap) const;
  int64_t results_down() const { return form.axes == 2 ? form.results : 1; }
  int64_t tiles_down() const { return down.tiles(results_down()); }
  int64_t tiles_across() const { return across.tiles(form.results); }
  int64_t tiles() const { return images() * tiles_down() * tiles_across(); }
};

// Whether the transform is expected to be the fastest for a convolution with constant weights: of the sizes that are known, or else of usual ones.
bool prefers_winograd(const KernelData& data);
bool prefers_winograd(const AttributeSet& attributes, const Shape& weights);

}  // namespace anfora::kernels::generated

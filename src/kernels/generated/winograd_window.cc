#include "kernels/generated/winograd_window.h"

#include <algorithm>
#include <array>
#include <span>

#include "kernels/generated/isa.h"
#include "kernels/generated/panel_products.h"
#include "support/cache_size.h"

namespace anfora::kernels::generated {
namespace {

// That of the fewest multiplications. Pieces are of six points: those of eight round more, and so do sums of pieces.
WinogradForm form_of_line(int64_t taps) {
  auto cost = [&](const WinogradForm& form) { return ceil_div(taps, form.taps) * form.patch() * (kLineOf3.results / form.results); };
  WinogradForm best = kLineOf3;
  for (const WinogradForm& form : {kLineOf5, kLineOf7}) {
    if (taps <= form.taps && cost(form) < cost(best)) best = form;
  }
  return best;
}

bool is_one(const WindowAxis& axis) { return axis.kernel == 1; }

// Of three axes the first is one of frames, unless it is the only one along which windows reach.
bool has_frames(const Window& window) { return window.rank() == 3 && !std::ranges::all_of(std::span(window.axes).last(2), is_one); }

// Of images the library leaves out what is in the padding. The direct sum of a line, by generated code, reads zeros there.
int64_t taps_read(const WindowAxis& axis, size_t rank) {
  if (rank == 1) return axis.kernel * axis.output;
  int64_t count = 0;
  for (int64_t tap = 0; tap < axis.kernel; ++tap) {
    const WindowAxis::Taps outputs = axis.outputs_inside(tap);
    count += std::max<int64_t>(outputs.last - outputs.first, 0);
  }
  return count;
}

std::span<const WindowAxis> axes_of_image(const Window& window) { return std::span(window.axes).subspan(has_frames(window) ? 1 : 0); }

bool prefers_winograd(const AttributeSet& attributes, const Shape& x, const Shape& weights) {
  const std::optional<WinogradShape> shape = WinogradShape::resolve(attributes, x, weights);
  return shape && shape->is_worthwhile() && PanelProducts::has_whole_panels(best_isa(), {shape->depth(), shape->K / shape->groups, shape->groups});
}

}  // namespace

std::optional<WinogradWindow> WinogradWindow::of(const AttributeSet& attributes, const Shape& weights) {
  constexpr int64_t kFewestChannels = 16;
  const int64_t groups = attributes.get_int("group", 1);
  if (weights.size() < 3 || weights.size() > 5 || groups < 1 || weights[0] % groups != 0 || attributes.get_int("direct", 0) != 0) return std::nullopt;
  if (weights[0] / groups < kFewestChannels || weights[1] < kFewestChannels) return std::nullopt;
  const Window window = read_window(attributes, weights.size() - 2, std::span(weights).subspan(2));
  const std::span<const WindowAxis> axes = axes_of_image(window);
  if (!std::ranges::all_of(axes, [](const WindowAxis& axis) { return axis.stride == 1; })) return std::nullopt;
  const std::ptrdiff_t lines = std::ssize(axes) - std::ranges::count_if(axes, is_one);
  if (lines == 0) return std::nullopt;
  WinogradWindow result;
  result.form = lines == 2 ? kSquareOf3 : form_of_line(std::ranges::max(axes, {}, &WindowAxis::kernel).kernel);
  if (has_frames(window)) result.frames = window.axes[0].kernel;
  for (const WindowAxis& axis : axes) result.pieces *= ceil_div(axis.kernel, result.form.taps);
  return result;
}

std::optional<WinogradShape> WinogradShape::resolve(const AttributeSet& attributes, const Shape& x, const Shape& weights) {
  const std::optional<WinogradWindow> winograd = WinogradWindow::of(attributes, weights);
  const int64_t groups = attributes.get_int("group", 1);
  if (!winograd || x.size() != weights.size() || groups * weights[1] != x.back()) return std::nullopt;
  const size_t rank = x.size() - 2;
  Window window = read_window(attributes, rank, std::span(weights).subspan(2));
  resolve_window(window, std::span(x).subspan(1, rank));
  if (x[0] * window.outputs() * weights[0] == 0) return std::nullopt;
  WinogradShape shape{.form = winograd->form, .y = {x[0]}, .batch = x[0], .groups = groups, .C = weights[1], .K = weights[0], .frames = {.input = 1, .output = 1}};
  for (const WindowAxis& axis : window.axes) shape.y.push_back(axis.output);
  shape.y.push_back(shape.K);
  if (has_frames(window)) shape.frames = window.axes[0];
  std::array<Axis, 3> axes;
  const std::span<const WindowAxis> given = axes_of_image(window);
  for (size_t i = given.size(); i-- > 0;) {
    const WindowAxis& axis = given[i];
    axes[i] = {axis.kernel, axis.dilation, axis.pad_begin, axis.input, axis.output, taps_read(axis, rank), shape.x_image, shape.y_image};
    shape.x_image *= axis.input, shape.y_image *= axis.output;
  }
  if (given.size() == 3) {
    // The points of a frame are alike, and follow each other.
    const bool are_alike = std::ranges::all_of(given.last(2), [](const WindowAxis& axis) { return axis.pad_begin == 0 && axis.input == axis.output; });
    if (!are_alike) return std::nullopt;
    const int64_t points = given[1].input * given[2].input;
    axes[1] = {.input = points, .output = points, .taps_read = points, .x_stride = 1, .y_stride = 1};
  }
  shape.across = axes[0];
  if (given.size() > 1) shape.down = axes[1];
  if (given.size() == 2 && given[1].kernel > 1) std::swap(shape.down, shape.across);
  return shape;
}

std::optional<int64_t> WinogradShape::image_of_x(int64_t image, int64_t tap) const {
  const int64_t frame = frames.start(image % frames.output) + tap * frames.dilation;
  if (frame < 0 || frame >= frames.input) return std::nullopt;
  return image / frames.output * frames.input + frame;
}

bool WinogradShape::is_worthwhile() const {
  // In multiply-adds, as measured with AVX-512 and AVX2: for an element of what tiles read and of what they give, and for a weight that is read or made; twice as many
  // where those that are made together do not stay in the second-level cache.
  // Channels of a group are a part of each pixel's.
  const double of_element = groups > 1 && shares_few_sets(groups * C * int64_t{sizeof(float)}) ? 40 : 0, of_spread = 12 + of_element, of_result = 30 + of_element;
  constexpr double kOfWeight = 20;
  constexpr int kVectorsOfPanel = 2;
  const int64_t made_together = (form.axes == 2 ? 2 : 1) * form.patch() * depth() * kVectorsOfPanel * describe(best_isa()).lanes;
  const double of_made_weight = made_together * int64_t{sizeof(float)} > second_level_cache() / 2 ? 24 : 12;
  auto number = [](int64_t count) { return static_cast<double>(count); };
  const double taps_of_all = number(images() * down.taps_read * across.taps_read);
  const double direct = number(frames.kernel * C * K) * (taps_of_all + kOfWeight * number(taps()));
  const double of_products = number(depth() * K) * (number(tiles()) + of_made_weight) + of_spread * number(tiles() * groups * depth());
  const double of_results = of_result * number(tiles() * results_down() * form.results * K);
  return number(form.matrices()) * of_products + of_results < 0.9 * direct;
}

bool prefers_winograd(const KernelData& data) {
  const Shape& weights = data.input(1).constant.shape();
  return data.input(0).is_static() ? prefers_winograd(data.attributes, *data.input(0).shape, weights) : prefers_winograd(data.attributes, weights);
}

bool prefers_winograd(const AttributeSet& attributes, const Shape& weights) {
  if (!WinogradWindow::of(attributes, weights)) return false;
  constexpr int64_t kUsualPoints = 64;
  Shape x(weights.size());
  const Window window = read_window(attributes, weights.size() - 2, std::span(weights).subspan(2));
  for (size_t i = 0; i < window.rank(); ++i) x[1 + i] = kUsualPoints * window.axes[i].dilation + window.axes[i].reach();
  x.front() = 1, x.back() = attributes.get_int("group", 1) * weights[1];
  return prefers_winograd(attributes, x, weights);
}

}  // namespace anfora::kernels::generated

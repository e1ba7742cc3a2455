#include "kernels/generated/window_taps.h"

namespace anfora::kernels::generated {

std::optional<WindowTaps> WindowTaps::of(const Window& window, int64_t channels) {
  if (window.rank() > 2) return std::nullopt;
  WindowTaps taps;
  taps.across_ = window.axes.back();
  if (window.rank() == 2) {
    taps.down_ = window.axes[0];
  } else {
    taps.down_.input = taps.down_.output = 1;
  }
  taps.channels_ = channels;
  taps.end_inside_ = taps.across_.output;
  for (int64_t tap : {int64_t{0}, taps.across_.kernel - 1}) {
    const auto [first, last] = taps.across_.outputs_inside(tap);
    taps.first_inside_ = std::max(taps.first_inside_, first);
    taps.end_inside_ = std::min(taps.end_inside_, last);
  }
  return taps;
}

bool WindowTaps::may_add_runs(const Window& window, int64_t channels) {
  if (window.rank() > 2) return false;
  const WindowAxis& across = window.axes.back();
  if (!are_side_by_side(across)) return true;
  const bool has_padding = across.pad_begin > 0 || across.pad_end > 0 || window.auto_pad == AutoPad::SameUpper || window.auto_pad == AutoPad::SameLower;
  return has_padding && !has_few_channels(channels);
}

}  // namespace anfora::kernels::generated

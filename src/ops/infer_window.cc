#include "ops/infer_window.h"

#include <fmt/format.h>

namespace anfora::ops {

std::optional<kernels::Window> window_of(const InferenceContext& ctx, size_t rank, const std::optional<Dims>& weights) {
  Shape kernel;
  if (weights) {
    for (size_t i = 2; i < weights->size(); ++i) {
      auto extent = (*weights)[i].as_constant();
      if (!extent) break;
      kernel.push_back(*extent);
    }
    if (kernel.size() + 2 != weights->size()) kernel.clear();
  }
  if (kernel.empty() && !ctx.attributes().has("kernel_shape")) return std::nullopt;
  return kernels::read_window(ctx.attributes(), rank - 2, kernel);
}

void append_window_dims(const InferenceContext& ctx, Dims& result, std::span<const Dim> spatial,
                        const std::optional<kernels::Window>& window) {
  for (size_t i = 0; i < spatial.size(); ++i) {
    if (!window) {
      result.push_back(ctx.unknown());
      continue;
    }
    const kernels::WindowAxis& axis = window->axes[i];
    Dim extent = kernels::window_output(axis, window->auto_pad, window->ceil_mode, spatial[i]);
    if (extent.is_constant() && extent.constant() < 0) {
      ctx.fail(fmt::format("a window that spans {} elements does not fit an input of {} with padding {} and {}",
                           axis.reach(), to_string(spatial[i]), axis.pad_begin, axis.pad_end));
    }
    result.push_back(extent);
  }
}

std::optional<size_t> windowed_rank(const InferenceContext& ctx, bool has_weights) {
  std::optional<int> rank = ctx.rank(0);
  if (!rank && has_weights) rank = ctx.rank(1);
  if (!rank && ctx.attributes().has("kernel_shape")) {
    rank = static_cast<int>(ctx.attributes().get_ints("kernel_shape").size()) + 2;
  }
  if (!rank) return std::nullopt;
  if (*rank < 3) ctx.fail(fmt::format("the input has rank {}; batch, channels and a spatial axis are needed", *rank));
  return static_cast<size_t>(*rank);
}

}  // namespace anfora::ops

#include "ops/infer_window.h"

#include <fmt/format.h>

namespace anfora::ops {

std::optional<InferredWindow> window_of(const InferenceContext& ctx, size_t rank, const std::optional<Dims>& weights) {
  Shape kernel;
  bool is_static = true;
  for (size_t i = 2; weights && i < weights->size(); ++i) {
    is_static = is_static && (*weights)[i].is_constant();
    kernel.push_back((*weights)[i].as_constant().value_or(1));
  }
  if (ctx.attributes().has("kernel_shape") && !is_static) kernel.clear();
  if (kernel.empty() && !ctx.attributes().has("kernel_shape")) return std::nullopt;
  InferredWindow window{kernels::read_window(ctx.attributes(), rank - 2, kernel), {}};
  for (size_t i = 0; i < window.rank(); ++i) {
    const bool is_symbolic = !kernel.empty() && !(*weights)[i + 2].is_constant();
    window.reach.push_back(is_symbolic ? ((*weights)[i + 2] - 1) * window.axes[i].dilation + 1
                                       : ctx.dim(window.axes[i].reach()));
  }
  return window;
}

void append_window_dims(const InferenceContext& ctx, Dims& result, std::span<const Dim> spatial,
                        const std::optional<InferredWindow>& window) {
  for (size_t i = 0; i < spatial.size(); ++i) {
    if (!window) {
      result.push_back(ctx.unknown());
      continue;
    }
    const kernels::WindowAxis& axis = window->axes[i];
    Dim extent = kernels::window_output(axis, window->auto_pad, window->ceil_mode, spatial[i], window->reach[i]);
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

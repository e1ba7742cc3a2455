// How a depthwise convolution runs: the channels of some panels after each other, a strip of rows at a time.
//
//     input                          rows of the strip, the panels' channels            result
//     ┌────────────┐    expansion    ┌─────────────────────┐   windows of taps         ┌────────────┐
//     │ ▓▓▓▓▓▓▓▓▓▓ │  ───────────▶   │ 0 ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ 0 │  ─────────────────▶       │ · ▓▓ · · · │
//     └────────────┘                 └─────────────────────┘                           └────────────┘
//
// Without an expansion, the channels are copied; but of one or two axes only those at the ends of a row, whose windows see padding: the others are read where
// the image has them. Convolutions in groups of few channels become depthwise ones on the way: a row of the strip is several then, of which row i has for each
// channel of the result the channel i of its group, and a row of taps is as many.
//
//     groups of 2     a b c d e f …   ──▶   a a c c e e …    weights from the first channel of a group
//                                           b b d d f f …    from the second
//
// So do those of volumes: a row of the strip has one of each plane that the window reads, zeros for one outside of the volume, and each plane of the result
// is an image of its own.
//
// The strip has the padding of columns, and stays in the second-level cache: what lies between the two convolutions is never written anywhere else
// (depth-first evaluation). Rows that the next strip reads again are moved to its front.
#include "kernels/generated/depthwise.h"

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <set>

#include "kernels/generated/code_entries.h"
#include "kernels/generated/image_plan.h"
#include "kernels/generated/plan_cache.h"
#include "kernels/generated/product_layout.h"
#include "kernels/generated/strip.h"
#include "kernels/input_shapes.h"
#include "kernels/reference/panels.h"
#include "kernels/reference/weights.h"
#include "kernels/reference/window.h"
#include "support/cache_size.h"
#include "support/deferred_elements.h"
#include "support/lasting_memory.h"
#include "support/scratch.h"

namespace anfora::kernels::generated {
namespace {

// Of the layout of code; another generator's is not taken.
constexpr int64_t kDepthwiseVersion = 5;

enum PackedDepthwise : uint8_t { kDepthwiseCode, kFilterPanels, kExpansionPanels };

enum DepthwiseInput : uint8_t { kInput, kFilterWeights, kFilterBias, kAddend, kExpansionWeights, kExpansionBias };

// What a channel has weights for: [inputs, rows, taps].
struct FilterShape {
  int64_t inputs = 1, rows = 1, taps = 1;

  int64_t size() const { return inputs * rows * taps; }
};

// What is the same for images of all sizes.
struct DepthwiseLayout {
  DepthwiseCode code;
  Window window;                                // of the image's one to three axes
  int64_t channels = 0, depth = 0;              // depth: channels of the input
  int64_t group_inputs = 1, group_results = 1;  // channels of a group

  bool is_depthwise() const { return group_inputs == 1 && group_results == 1; }
  int64_t taps() const { return group_inputs * window.taps(); }  // of a channel
  WindowAxis rows() const { return axis_from_last(window, 2); }
  int64_t planes() const { return axis_from_last(window, 3).kernel; }
  int64_t lines() const { return group_inputs * planes(); }  // of a row of the strip
  bool has_expansion() const { return code.expansion.has_value(); }
  int64_t panels() const { return ceil_div(channels, code.panel_channels()); }
  // Pixels of equal tiles of a row; the last one begins earlier where they do not come out even, and computes some pixels again.
  int64_t tile_of(int64_t pixels) const { return ceil_div(pixels, ceil_div(pixels, code.tile.rows)); }
  FilterShape filter() const { return {lines(), rows().kernel, window.axes.back().kernel}; }
  std::vector<int64_t> of_panels(const FilterShape& of) const { return {of.size(), channels, code.panel_channels()}; }
};

// Places of a row of the result that are computed alike, in tiles.
struct RowSegment {
  int64_t first, last, tile;
  bool reads_strip;    // else the image
  int64_t origin = 0;  // the pixel of the strip's line where the image's first column is, or would be
};

// How a convolution of images of certain sizes runs.
struct DepthwisePlan : ImagePlan {
  DepthwisePlan(ImagePlan image, const DepthwiseLayout& layout)
      : ImagePlan(std::move(image)),
        has_long_tiles(layout.has_expansion() && 4 * layout.tile_of(columns.input) < 3 * layout.code.tile.rows),
        expansion_tile(has_long_tiles ? std::min<int64_t>(columns.input, layout.code.tile.rows) : layout.tile_of(columns.input)) {
    cut_row(layout);
    panels_at_once = panels_of_block(layout);
    const int64_t row_size = layout.lines() * line_pixels * panels_at_once * layout.code.panel_channels();
    strip_results = row_size == 0 ? rows.output : Strip::results_of(rows, second_level_cache() / (layout.lines() == 1 ? 4 : 2), row_size);
  }

  int64_t inputs() const { return rows.input * columns.input; }  // pixels of a plane, and of one of the result
  int64_t outputs() const { return rows.output * columns.output; }
  bool reads_image() const { return !std::ranges::all_of(segments, &RowSegment::reads_strip); }

  boost::container::small_vector<RowSegment, 3> segments;  // of a row of the result
  bool has_long_tiles;  // tiles of the expansion go on from row to row of the image, where rows alone would leave much of a tile empty
  int64_t expansion_tile;
  int64_t panels_at_once = 1;  // that are computed side by side
  int64_t line_pixels = 0;     // of the strip
  int64_t strip_results = 1;   // rows of the result that a strip gives, so that it stays in the cache

 private:
  void cut_row(const DepthwiseLayout& layout) {
    const int64_t width = columns.output;
    const auto [first, last] = places_in_image(layout);
    const int64_t outer = std::max(first, width - last);
    if (last <= first || last - first < 2 * outer) {
      segments.push_back({0, width, layout.tile_of(width), true, padding()});
      line_pixels = pitch();
      return;
    }
    if (first > 0) add_of_strip(0, outer, layout);
    segments.push_back({first, last, layout.tile_of(last - first), false});
    if (last < width) add_of_strip(width - outer, width, layout);
  }
  // Those whose windows, and all that vectors read with them, lie in the image.
  WindowAxis::Taps places_in_image(const DepthwiseLayout& layout) const {
    if (!layout.is_depthwise() || layout.has_expansion() || layout.window.rank() > 2) return {0, 0};
    WindowAxis::Taps places{columns.outputs_inside(0).first, columns.outputs_inside(columns.kernel - 1).last};
    // Vectors of the last panel may go on behind its channels.
    const int64_t beyond = layout.panels() * layout.code.panel_channels() - layout.channels;
    auto pixels_behind = [&](int64_t place) { return columns.input - columns.start(place) - columns.reach(); };
    while (places.last > places.first && pixels_behind(places.last - 1) * layout.channels < beyond) --places.last;
    return places;
  }
  void add_of_strip(int64_t first, int64_t last, const DepthwiseLayout& layout) {
    const int64_t begin = columns.start(first);
    segments.push_back({first, last, layout.tile_of(last - first), true, line_pixels - begin});
    line_pixels += columns.start(last - 1) + columns.reach() - begin;
  }

  // Calls have more to do where there are several, but weights of the expansion must stay in the first-level cache, and so must the lines of groups. An image
  // that is larger than the second-level one, and is read where it lies, is read for as many panels at once as leave a tile's pixels and weights in the first-level
  // one: mostly for all, from its beginning to its end.
  int64_t panels_of_block(const DepthwiseLayout& layout) const {
    constexpr int64_t kChannelsAtOnce = 64, kWeightBytes = 24 << 10, kFirstLevelBytes = 24 << 10;
    if (!layout.is_depthwise() || layout.planes() > 1) return 1;
    const int64_t width_bytes = layout.code.panel_channels() * int64_t{sizeof(float)}, panel_bytes = layout.depth * width_bytes;
    if (reads_image() && inputs() * layout.depth * int64_t{sizeof(float)} > second_level_cache() / 2) {
      const int64_t tile_pixels = rows.kernel * ((layout.code.tile.rows - 1) * columns.stride + columns.kernel);
      const int64_t most = std::clamp<int64_t>(kFirstLevelBytes / ((tile_pixels + layout.taps()) * width_bytes), 1, layout.panels());
      return ceil_div(layout.panels(), ceil_div(layout.panels(), most));
    }
    const int64_t most = std::max<int64_t>(kChannelsAtOnce / layout.code.panel_channels(), 1);
    return layout.has_expansion() ? std::clamp<int64_t>(kWeightBytes / panel_bytes, 1, most) : most;
  }
};

std::optional<DepthwisePlan> plan_depthwise(const DepthwiseLayout& layout, InputShapes shapes) {
  std::optional<ImagePlan> image = plan_image(layout.window, layout.depth, layout.channels, std::move(shapes));
  return image ? std::optional(DepthwisePlan(std::move(*image), layout)) : std::nullopt;
}

bool read_bias(const InputDescription& bias, int64_t channels, Epilogue& epilogue) {
  if (!bias.present) return true;
  epilogue.addends[0] = Addend::Row;
  return bias.shape == Shape{channels};
}

// A product in panels like the depthwise one's.
std::optional<ProductCode> lay_out_expansion(const KernelData& data, const DepthwiseLayout& layout) {
  const InputDescription& weights = data.input(kExpansionWeights);
  if (!weights.present || *weights.shape != Shape{layout.channels, layout.depth, 1, 1}) return std::nullopt;
  ProductCode product{.isa = layout.code.isa,
                      .tile = layout.code.tile,
                      .depth = layout.depth,
                      .block = product_block(layout.depth),
                      .a_stride = row_stride(layout.depth, layout.code.tile),
                      .has_edge = layout.code.has_edge,
                      .has_open_sizes = true,
                      .epilogue = {}};
  if (product.has_blocks() || product.a_stride != layout.depth) return std::nullopt;
  if (!read_bias(data.input(kExpansionBias), layout.channels, product.epilogue)) return std::nullopt;
  if (!read_activation(data.attributes, product.epilogue, "expansion_activation")) return std::nullopt;
  return product;
}

std::optional<DepthwiseLayout> lay_out_depthwise(const KernelData& data, Isa isa) {
  const auto is_f32 = [](const InputDescription& input) { return !input.present || input.dtype == DType::F32; };
  const InputDescription& weights = data.input(kFilterWeights);
  if (!std::ranges::all_of(data.inputs, is_f32) || !weights.is_static()) return std::nullopt;
  const Shape& w = *weights.shape;
  if (w.size() < 3 || w.size() > 5 || element_count(w) == 0) return std::nullopt;
  DepthwiseLayout layout{.code = {}, .window = read_window(data.attributes, w.size() - 2, std::span(w).subspan(2)), .channels = w[0]};
  const int64_t groups = data.attributes.get_int("group", 1);
  if (groups <= 1 || layout.channels % groups != 0) return std::nullopt;
  layout.group_inputs = w[1], layout.group_results = layout.channels / groups;
  const bool has_expansion = data.op == kExpansionDepthwise;
  if (has_expansion) {
    const InputDescription& expansion = data.input(kExpansionWeights);
    if (!layout.is_depthwise() || !expansion.is_static() || expansion.shape->size() != 4) return std::nullopt;
    layout.depth = (*expansion.shape)[1];
  } else {
    if (data.attributes.get_int("channels_last", 0) == 0) return std::nullopt;
    layout.depth = groups * layout.group_inputs;
  }
  if (layout.window.rank() == 3 && !layout.is_depthwise()) return std::nullopt;
  if (layout.lines() > 1 && layout.rows().dilation != 1) return std::nullopt;

  DepthwiseCode& code = layout.code;
  code.isa = isa;
  // Of pixels that share few sets of the cache, more side by side.
  constexpr int kMostVectors = 2, kMostOfFewSets = 4;
  const bool has_few_sets = shares_few_sets(layout.depth * int64_t{sizeof(float)});
  code.tile = product_tile(isa, layout.channels, 1, has_expansion || has_few_sets ? kMostOfFewSets : kMostVectors);
  // Where masks cost nothing there are always some: so more layers share code.
  code.has_edge = layout.channels % code.panel_channels() != 0 || describe(isa).has_masks;
  if (!read_activation(data.attributes, code.epilogue)) return std::nullopt;
  if (!read_bias(data.input(kFilterBias), layout.channels, code.epilogue)) return std::nullopt;
  if (data.input(kAddend).present) code.epilogue.addends[1] = Addend::Tile;
  if (!has_expansion) return layout;
  code.expansion = lay_out_expansion(data, layout);
  return code.expansion ? std::optional(layout) : std::nullopt;
}

// The same, and the plan where sizes are known; nothing where they do not fit.
struct LaidOut {
  DepthwiseLayout layout;
  std::optional<DepthwisePlan> plan;
};
std::optional<LaidOut> lay_out_with_plan(const KernelData& data, Isa isa) {
  std::optional<DepthwiseLayout> layout = lay_out_depthwise(data, isa);
  if (!layout) return std::nullopt;
  LaidOut all{std::move(*layout), std::nullopt};
  if (data.is_static() && !(all.plan = plan_depthwise(all.layout, input_shapes(data)))) return std::nullopt;
  return all;
}

// [channels, inputs, rows, taps], whose panels are [rows][inputs][taps][channels of the panel].
std::array<StridedAxis, 3> steps_of_filter(const FilterShape& filter) {
  return {StridedAxis{filter.rows, filter.taps}, StridedAxis{filter.inputs, filter.rows * filter.taps}, StridedAxis{filter.taps, 1}};
}

Tensor pack_channels(const Tensor& weights, const DepthwiseLayout& layout, const FilterShape& filter) {
  const int64_t width = layout.code.panel_channels();
  Tensor packed = LastingMemory::allocate(DType::F32, Shape{layout.panels(), filter.size(), width});
  pack_rows(weights, steps_of_filter(filter), width, packed);
  return packed;
}

Tensor unpack_channels(const Tensor& panels, const DepthwiseLayout& layout, const FilterShape& filter, const Shape& shape) {
  Tensor weights = Tensor::allocate(DType::F32, shape);
  unpack_panels(DType::F32, {layout.channels, filter.size()}, steps_of_filter(filter), layout.code.panel_channels(), panels.raw(), weights.raw());
  return weights;
}

class DepthwiseKernel : public PreparedKernel {
 public:
  DepthwiseKernel(KernelData& data, LaidOut laid_out) : data_(data), layout_(std::move(laid_out.layout)), plan_(std::move(laid_out.plan)) {}

  // False where there is no code for it, and none can be made.
  bool prepare(DepthwiseGenerator generate) {
    if (!find_code(generate) || !find_panels(kFilterPanels, kFilterWeights, layout_.filter(), filters_)) return false;
    return !layout_.has_expansion() || find_panels(kExpansionPanels, kExpansionWeights, expansion_filter(), expansion_);
  }

  std::unique_ptr<State> make_state() const override { return std::make_unique<Plans>(); }
  void complete() const override { entries_.complete(); }
  bool writes_rows_apart(size_t i) const override { return i == 0; }
  bool reads_rows_apart(size_t i) const override { return plan_ && (i == kInput || i == kAddend); }  // else a run may be the reference kernel's
  bool has_packed(size_t i) const override { return i == kFilterWeights || i == kExpansionWeights; }

  void run(KernelContext& context, State* state) const override {
    if (plan_) return run(context, *plan_);
    const DepthwisePlan* plan =
        static_cast<Plans&>(*state).plans.find_or_add(context, [this](InputShapes shapes) {
      std::optional<DepthwisePlan> made = plan_depthwise(layout_, std::move(shapes));
      if (made) entries_.require(used_entries(*made));
      return made;
    });
    plan ? run(context, *plan) : run_reference(context);
  }

 private:
  struct Plans : State {
    PlanCache<DepthwisePlan> plans;
  };

  void run(KernelContext& context, const DepthwisePlan& plan) const {
    const ImageRows rows{context.input_rows(kInput), context.allocate_output_rows(0, DType::F32, plan.result),
                         context.has_input(kAddend) ? context.input_rows(kAddend).stride : 0};
    const int64_t of_input_row = layout_.has_expansion() ? plan.columns.input * layout_.depth : 0;
    const int64_t overlap = std::max<int64_t>(plan.rows.reach() - plan.rows.stride, 0);  // rows of the input
    const StripWork work = {.images = plan.batch * plan.planes.output,
                            .panels = layout_.panels(),
                            .panels_at_once = plan.panels_at_once,
                            .rows = plan.rows.output,
                            .row_cost = (plan.columns.output * layout_.taps() + plan.rows.stride * of_input_row) * layout_.code.panel_channels(),
                            .cut_rows = layout_.has_expansion() ? ceil_div(overlap, plan.rows.stride) : 1};
    for_each_segment(work, [&](int64_t plane, int64_t block, int64_t begin, int64_t end) {
      BlockRun(*this, plan, context, rows, plane, block * plan.panels_at_once).run(begin, end);
    });
  }

  void run_reference(KernelContext& context) const {
    auto unpacked = [this](const Tensor& panels, const FilterShape& filter, size_t input) {
      return Datum(unpack_channels(panels, layout_, filter, *data_.input(input).shape));
    };
    const Datum filters = unpacked(filters_, layout_.filter(), kFilterWeights);
    const Datum expansion = layout_.has_expansion() ? unpacked(expansion_, expansion_filter(), kExpansionWeights) : Datum();
    std::vector<const Datum*> inputs;
    for (size_t i = 0; i < context.num_inputs(); ++i)
      inputs.push_back(i == kFilterWeights ? &filters : i == kExpansionWeights ? &expansion : &context.input_datum(i));
    kernels::run_reference(context, data_.op, inputs);
  }

  FilterShape expansion_filter() const { return {.inputs = layout_.depth}; }

  // Where pixels lie.
  struct ImageRows {
    InputRows input;
    OutputRows result;
    int64_t addend_stride;
  };

  // The channels of some panels, of one plane of the results of all images.
  class BlockRun {
   public:
    BlockRun(const DepthwiseKernel& kernel, const DepthwisePlan& plan, KernelContext& context, const ImageRows& image, int64_t plane, int64_t panel)
        : kernel_(kernel),
          layout_(kernel.layout_),
          plan_(plan),
          panels_(std::min(plan.panels_at_once, layout_.panels() - panel)),
          width_(panels_ * layout_.code.panel_channels()),
          line_size_(plan.line_pixels * width_),
          row_size_(layout_.lines() * line_size_),
          first_channel_(panel * layout_.code.panel_channels()),
          first_plane_(plan.planes.start(plane % plan.planes.output)),
          pixel_stride_(image.input.stride),
          input_(image.input.tensor.data<float>().data() + plane / plan.planes.output * plan.planes.input * plan.inputs() * pixel_stride_),
          strip_(plan.rows, plan.strip_results, row_size_),
          expanded_(plan.has_long_tiles ? static_cast<size_t>(Strip::rows_of(plan.rows, plan.strip_results) * plan.columns.input * width_) : 0) {
      const int64_t left = layout_.channels - first_channel_;
      clear_padding(left < width_);
      const int64_t pixels = plane * plan.outputs();
      depthwise_[kTaps] = plan.columns.kernel;
      depthwise_[kResult] = address_of(image.result.tensor.data<float>().data() + pixels * image.result.stride + first_channel_);
      depthwise_[kResultStride] = image.result.stride;
      depthwise_[kChannels] = left;
      depthwise_[kBias] = address_in(context, kFilterBias, first_channel_);
      depthwise_[kResidual] = address_in(context, kAddend, pixels * image.addend_stride + first_channel_);
      depthwise_[kResidualStride] = image.addend_stride;
      depthwise_[kPanels] = panels_;
      depthwise_[kFilterPanelStride] = layout_.taps() * layout_.code.panel_channels();
      filters_ = kernel.filters_.data<float>().data() + panel * depthwise_[kFilterPanelStride];
      if (!layout_.has_expansion()) return;
      expansion_[kB] = address_of(kernel.expansion_.data<float>().data() + first_channel_ * layout_.depth);
      expansion_[kYStride] = width_;
      expansion_[kColumns] = left;
      expansion_[kSteps] = layout_.depth;
      expansion_[kAStride] = pixel_stride_;
      const int64_t at_once = layout_.code.expansion->panels_at_once(static_cast<int>(plan.expansion_tile));
      expansion_[kGroups] = panels_ / at_once, expansion_[kRest] = panels_ % at_once;
      expansion_[kPanelStride] = layout_.depth * layout_.code.panel_channels();
      expansion_[kAddend0] = address_in(context, kExpansionBias, first_channel_);
    }

    // Rows [begin, end) of the result.
    void run(int64_t begin, int64_t end) {
      strip_.walk(begin, end, [&](int64_t from, int64_t to) { fill(from, to); }, [&](int64_t row) { convolve(row); });
    }

   private:
    // What is read but never written: padding, and channels of the last panel that there are not.
    void clear_padding(bool has_edge) {
      if (line_size_ == 0) return;
      const RowSegment& last = plan_.segments.back();
      const int64_t begin = plan_.padding() * width_, end = last.reads_strip ? (last.origin + plan_.columns.input) * width_ : line_size_;
      strip_.clear_around(line_size_, begin, has_edge ? begin : std::min(end, line_size_));
    }

    float* pixels_of(int64_t row) { return strip_.row(row) + plan_.padding() * width_; }

    // Rows [begin, end) of the input.
    void fill(int64_t begin, int64_t end) {
      const int64_t pixels = plan_.columns.input;
      if (!layout_.has_expansion()) {
        for (int64_t row = begin; row < end; ++row) {
          for (const RowSegment& segment : plan_.segments) {
            if (segment.reads_strip) fill_segment(segment, row);
          }
        }
        return;
      }
      if (!plan_.has_long_tiles) {
        for (int64_t row = begin; row < end; ++row) expand_pixels(row * pixels, pixels, pixels_of(row));
        return;
      }
      expand_pixels(begin * pixels, (end - begin) * pixels, expanded_.data());
      for (int64_t row = begin; row < end; ++row)
        std::copy_n(expanded_.data() + (row - begin) * pixels * width_, pixels * width_, pixels_of(row));
    }

    // What windows see of a row of each plane.
    void fill_segment(const RowSegment& segment, int64_t row) {
      const WindowAxis& columns = plan_.columns;
      const int64_t first = std::max<int64_t>(columns.start(segment.first), 0), last = std::min(columns.start(segment.last - 1) + columns.reach(), columns.input);
      for (int64_t i = 0; i < layout_.planes(); ++i) {
        const int64_t plane = first_plane_ + i * plan_.planes.dilation;
        float* to = strip_.row(row) + i * line_size_ + (first + segment.origin) * width_;
        if (plane < 0 || plane >= plan_.planes.input) {
          std::fill_n(to, std::max<int64_t>(last - first, 0) * width_, 0.0f);
        } else {
          spread(input_ + ((plane * plan_.rows.input + row) * columns.input + first) * pixel_stride_, last - first, to);
        }
      }
    }

    // Pixels of the image, as lines of the strip.
    void spread(const float* from, int64_t pixels, float* to) const {
      const int64_t count = std::min(width_, layout_.channels - first_channel_), results = layout_.group_results;
      const bool has_whole_groups = first_channel_ % results == 0 && count % results == 0;
      if (layout_.is_depthwise()) {
        for (int64_t pixel = 0; pixel < pixels; ++pixel) std::copy_n(from + first_channel_ + pixel * pixel_stride_, count, to + pixel * width_);
      } else if (has_whole_groups && results % 8 == 0) {
        spread_groups<8>(from, pixels, count, to);
      } else if (has_whole_groups && results % 4 == 0) {
        spread_groups<4>(from, pixels, count, to);
      } else if (has_whole_groups && results % 2 == 0) {
        spread_groups<2>(from, pixels, count, to);
      } else {
        spread_groups<1>(from, pixels, count, to);
      }
    }
    // Each channel to so many of the result at once.
    template <int64_t kAtOnce>
    void spread_groups(const float* from, int64_t pixels, int64_t count, float* to) const {
      const int64_t inputs = layout_.group_inputs;
      for (int64_t c = 0; c < count; c += kAtOnce) {
        const float* group = from + (first_channel_ + c) / layout_.group_results * inputs;
        for (int64_t i = 0; i < inputs; ++i) {
          float* line = to + i * line_size_ + c;
          for (int64_t pixel = 0; pixel < pixels; ++pixel) std::fill_n(line + pixel * width_, kAtOnce, group[pixel * pixel_stride_ + i]);
        }
      }
    }

    void expand_pixels(int64_t first, int64_t count, float* to) {
      const int64_t tile = plan_.expansion_tile;
      for (int64_t i = 0; i < count; i += tile) {
        const int64_t pixel = std::min(i, count - tile);
        expansion_[kA] = address_of(input_ + (first + pixel) * pixel_stride_);
        expansion_[kY] = address_of(to + pixel * width_);
        kernel_.entry(DepthwiseEntry::Kind::Expansion, tile)(expansion_.data());
      }
    }

    void convolve(int64_t row) {
      const WindowAxis &rows = plan_.rows, &columns = plan_.columns;
      const WindowAxis::Taps taps = rows.taps_inside(row);
      const int64_t count = std::max<int64_t>(taps.last - taps.first, 0), line = rows.start(row) + taps.first * rows.dilation;
      std::array<int64_t, kDepthwiseArguments> arguments = depthwise_;
      arguments[kTapRows] = count * layout_.lines();
      arguments[kFilters] = address_of(filters_ + taps.first * layout_.lines() * columns.kernel * layout_.code.panel_channels());
      for (const RowSegment& segment : plan_.segments) {
        const int64_t pixel_stride = segment.reads_strip ? width_ : pixel_stride_;
        const float* image = nullptr;  // the first tap of place 0
        if (segment.reads_strip) {
          image = (count == 0 ? strip_.begin() : strip_.row(line)) + (columns.start(0) + segment.origin) * width_;
        } else {
          image = input_ + ((count == 0 ? 0 : line) * columns.input + columns.start(0)) * pixel_stride_ + first_channel_;
        }
        arguments[kImageRowStride] = rows.dilation * (segment.reads_strip ? line_size_ : columns.input * pixel_stride_);
        arguments[kTapStride] = columns.dilation * pixel_stride;
        arguments[kPixelStride] = columns.stride * pixel_stride;
        auto run_tiles = [&](int64_t pixel, int64_t number) {
          const int64_t place = row * columns.output + pixel;
          arguments[kImage] = address_of(image + pixel * arguments[kPixelStride]);
          arguments[kTiles] = number;
          arguments[kResult] = depthwise_[kResult] + place * depthwise_[kResultStride] * int64_t{sizeof(float)};
          arguments[kResidual] = depthwise_[kResidual] + place * depthwise_[kResidualStride] * int64_t{sizeof(float)};
          kernel_.entry(DepthwiseEntry::Kind::Depthwise, segment.tile)(arguments.data());
        };
        const int64_t places = segment.last - segment.first;
        // Of a strip, a panel at a time, whose pixels lie side by side; of the image a tile at a time, which stays in the first-level cache for all panels.
        const int64_t tiles = places / segment.tile, at_once = segment.reads_strip ? tiles : 1;
        for (int64_t i = 0; i < tiles; i += at_once) run_tiles(segment.first + i * segment.tile, at_once);
        if (places % segment.tile > 0) run_tiles(segment.last - segment.tile, 1);
      }
    }

    const DepthwiseKernel& kernel_;
    const DepthwiseLayout& layout_;
    const DepthwisePlan& plan_;
    int64_t panels_, width_, line_size_, row_size_, first_channel_;  // width_: of a pixel; elements of a line, and of the lines of a row
    int64_t first_plane_;                                            // of the image that the window reads; may be negative
    int64_t pixel_stride_;                                           // of the image
    const float* input_;
    const float* filters_ = nullptr;
    Strip strip_;
    Scratch<float> expanded_;  // rows without padding, before they come into the strip
    std::array<int64_t, kDepthwiseArguments> depthwise_{};
    std::array<int64_t, kProductArguments> expansion_{};
  };

  // Of each kind, tiles of those numbers of pixels.
  std::vector<int> entries_of(const std::vector<int>& depthwise, const std::vector<int>& expansion) const {
    using Kind = DepthwiseEntry::Kind;
    std::vector<int> numbers;
    for (int rows : depthwise) numbers.push_back(DepthwiseEntry{Kind::Depthwise, rows}.number());
    if (!layout_.has_expansion()) return numbers;
    for (int rows : expansion) numbers.push_back(DepthwiseEntry{Kind::Expansion, rows}.number());
    return numbers;
  }
  std::vector<int> entries_of(const std::vector<int>& rows) const { return entries_of(rows, rows); }
  std::vector<int> used_entries(const DepthwisePlan& plan) const {
    std::set<int> tiles;
    for (const RowSegment& segment : plan.segments) tiles.insert(static_cast<int>(segment.tile));
    return entries_of({tiles.begin(), tiles.end()}, {static_cast<int>(plan.expansion_tile)});
  }
  EntryPoint entry(DepthwiseEntry::Kind kind, int64_t rows) const { return entries_[DepthwiseEntry{kind, static_cast<int>(rows)}.number()]; }

  bool find_code(DepthwiseGenerator generate) {
    std::vector<int64_t> form = layout_.code.numbers();
    form.insert(form.begin(), kDepthwiseVersion);
    CodeEntries::Wanted wanted{.first = entries_of(rows_of_many(layout_.code.tile)), .all = entries_of(rows_up_to(layout_.code.tile))};
    if (plan_) wanted = CodeEntries::Wanted::exactly(used_entries(*plan_));
    return entries_.prepare(data_, kDepthwiseCode, {std::move(form)}, std::move(wanted), CodeEntries::made_by(generate, layout_.code));
  }

  bool find_panels(PackedDepthwise number, size_t input, const FilterShape& filter, Tensor& panels) {
    const std::vector<int64_t> layout = layout_.of_panels(filter);
    const PackedConstant* packed = find_packed(data_, number);
    if (!packed) {
      const Tensor& weights = data_.input(input).constant;
      // A padding of zeros would make NaN of what is not finite.
      if (!DeferredElements::identity(weights) || (number == kFilterPanels && !is_finite(weights))) return false;
      if (!data_.take_copies({number}, layout)) data_.packed.push_back({number, layout, pack_channels(weights, layout_, filter)});
      packed = &data_.packed.back();
    }
    panels = packed->elements;
    return packed->layout == layout;
  }

  KernelData& data_;
  DepthwiseLayout layout_;
  std::optional<DepthwisePlan> plan_;  // where the sizes are known before the run
  Tensor filters_, expansion_;
  CodeEntries entries_;
};

}  // namespace

bool has_narrow_groups(std::span<const int64_t> weights, const AttributeSet& attributes) {
  constexpr int64_t kBlock = 8, kFewestTaps = 4;  // kBlock: channels that the library has code for, also with AVX-512
  const int64_t groups = attributes.get_int("group", 1);
  if (weights.size() != 4 || groups <= 1 || weights[2] * weights[3] < kFewestTaps) return false;
  const int64_t inputs = weights[1], results = weights[0] / groups;
  const IsaDescription& isa = describe(best_isa());
  if (isa.lanes > kBlock) return inputs <= kBlock / 2 && results <= kBlock;
  if (results % kBlock != 0) return inputs <= kBlock && results < 2 * kBlock;
  return isa.has_fma && inputs <= kBlock / 2 && results <= 2 * kBlock;
}

bool prefers_generated_depthwise(const KernelData& data) {
  if (!DeferredElements::identity(data.input(kFilterWeights).constant)) return false;
  const std::optional<LaidOut> all = lay_out_with_plan(data, best_isa());
  if (!all) return false;
  const DepthwiseLayout& layout = all->layout;
  if (!layout.is_depthwise()) return has_narrow_groups(*data.input(kFilterWeights).shape, data.attributes);
  // The library's code for depthwise convolutions of lines, of volumes and of taps that lie apart is slower, and by AVX2 all of it; where sizes are
  // open, it would make a primitive for each. Where rows may lie apart, it costs a copy.
  const IsaDescription& by = describe(layout.code.isa);
  const bool has_taps_apart = std::ranges::any_of(layout.window.axes, [](const WindowAxis& axis) { return axis.dilation > 1; });
  const bool is_slow = layout.window.rank() != 2 || has_taps_apart || by.isa != Isa::Avx512;
  return by.has_fma && (is_slow || !all->plan || is_costly(layout.code.epilogue.activation) || data.may_have_rows_apart);
}

std::unique_ptr<PreparedKernel> prepare_depthwise(KernelData& data, DepthwiseGenerator generate) {
  const PackedConstant* code = find_packed(data, kDepthwiseCode);
  const std::optional<Isa> isa = code ? isa_of(code->layout) : best_isa();
  if (!isa) return nullptr;
  std::optional<LaidOut> all = lay_out_with_plan(data, *isa);
  if (!all) return nullptr;
  auto kernel = std::make_unique<DepthwiseKernel>(data, std::move(*all));
  return kernel->prepare(generate) ? std::move(kernel) : nullptr;
}

}  // namespace anfora::kernels::generated

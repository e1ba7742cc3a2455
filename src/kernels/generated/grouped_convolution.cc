#include "kernels/generated/grouped_convolution.h"

#include <algorithm>
#include <array>

#include "kernels/generated/code_entries.h"
#include "kernels/generated/image_plan.h"
#include "kernels/generated/plan_cache.h"
#include "kernels/generated/product_layout.h"
#include "kernels/generated/strip.h"
#include "kernels/generated/winograd_window.h"
#include "kernels/input_shapes.h"
#include "kernels/reference/panels.h"
#include "kernels/reference/weights.h"
#include "kernels/reference/window.h"
#include "support/cache_size.h"
#include "support/deferred_elements.h"
#include "support/lasting_memory.h"

namespace anfora::kernels::generated {
namespace {

// Of the layout of code; another generator's is not taken.
constexpr int64_t kGroupedVersion = 2;

enum PackedGrouped : uint8_t { kGroupedCode, kGroupedPanels };

enum GroupedInput : uint8_t { kImage, kGroupWeights, kGroupBias, kGroupAddend };

// Channels of a group's result are a multiple of what AVX2 has in a vector.
constexpr int64_t kFewestResults = 8;

// As many vectors as a group has, if they are few; and rows that fill the registers. Lines of many images have 14 pixels, or a multiple.
Tile tile_of_vectors(int64_t vectors, const IsaDescription& isa) {
  constexpr std::array<int, 4> kRows{0, 14, 6, 4}, kRowsOf32{0, 14, 14, 8};
  const int wide = vectors % 3 == 0 ? 3 : vectors % 2 == 0 ? 2 : 1;
  return {(isa.registers >= 32 ? kRowsOf32 : kRows).at(static_cast<size_t>(wide)), wide};
}

// One group of an image that has few channels, as the first convolution of a network: a strip costs little beside it, and the weights stay in the cache. Windows of one
// line are mostly of sound, an image of few lines, which are what threads divide.
bool has_few_channels(std::span<const int64_t> weights) {
  constexpr int64_t kFewChannels = 16;
  constexpr size_t kAxes = 2;
  const int64_t bytes = element_count(weights) * int64_t{sizeof(float)};
  return weights.size() == kAxes + 2 && weights[1] < kFewChannels && weights[2] > 1 && bytes <= second_level_cache() / 4;
}

// What is the same for images of all sizes.
struct GroupedLayout {
  ProductCode code;
  Window window;  // of the image's one or two axes
  int64_t groups = 0;
  int64_t inputs = 0, results = 0;  // channels of a group

  int64_t channels() const { return groups * results; }
  int64_t depth() const { return groups * inputs; }
  int64_t panels_of_group() const { return results / code.panel_columns(); }
  // Elements of a group's weights, and of those for a row of taps.
  int64_t group_weights() const { return code.depth * results; }
  int64_t line_steps() const { return window.axes.back().kernel * inputs; }
  // Groups that are copied together, since channels of a pixel lie side by side.
  int64_t groups_at_once() const {
    constexpr int64_t kChannelsAtOnce = 64;
    return std::clamp<int64_t>(kChannelsAtOnce / inputs, 1, groups);
  }
  std::vector<int64_t> of_panels() const { return {groups, code.depth, results, code.panel_columns()}; }
};

// How a convolution of images of certain sizes runs.
struct GroupedPlan : ImagePlan {
  GroupedPlan(ImagePlan image, const GroupedLayout& layout)
      : ImagePlan(std::move(image)),
        line_size(pitch() * layout.inputs),
        row_size(layout.groups_at_once() * line_size),
        strip_results(Strip::results_of(rows, second_level_cache() / 4, row_size)),
        tiling(columns.output, layout.code.tile) {}

  int64_t line_size, row_size;  // elements of the strip
  int64_t strip_results;        // rows
  Tiling tiling;                // of a row of the result
};

std::optional<GroupedPlan> plan_groups(const GroupedLayout& layout, InputShapes shapes) {
  std::optional<ImagePlan> image = plan_image(layout.window, layout.depth(), layout.channels(), std::move(shapes));
  return image ? std::optional(GroupedPlan(std::move(*image), layout)) : std::nullopt;
}

std::optional<GroupedLayout> lay_out_groups(const KernelData& data, Isa isa) {
  const auto is_f32 = [](const InputDescription& input) { return !input.present || input.dtype == DType::F32; };
  if (data.attributes.get_int("channels_last", 0) == 0 || !std::ranges::all_of(data.inputs, is_f32)) return std::nullopt;
  const Tensor& weights = data.input(kGroupWeights).constant;
  if (!weights.defined()) return std::nullopt;
  const Shape& w = weights.shape();
  if ((w.size() != 3 && w.size() != 4) || element_count(w) == 0) return std::nullopt;
  GroupedLayout layout{.code = {}, .window = read_window(data.attributes, w.size() - 2, std::span(w).subspan(2))};
  layout.groups = data.attributes.get_int("group", 1);
  if (layout.groups < 1 || w[0] % layout.groups != 0 || (layout.groups == 1 && !has_few_channels(w))) return std::nullopt;
  layout.inputs = w[1], layout.results = w[0] / layout.groups;
  const WindowAxis& columns = layout.window.axes.back();
  if (layout.results % kFewestResults != 0 || columns.dilation != 1) return std::nullopt;

  ProductCode& code = layout.code;
  code.isa = isa;
  code.has_half_vectors = layout.results % describe(isa).lanes != 0;
  code.tile = tile_of_vectors(layout.results / code.lanes(), describe(isa));
  code.depth = code.block = layout.window.taps() * layout.inputs;
  code.a_stride = columns.stride * layout.inputs;
  code.has_open_sizes = code.has_fixed_stride = code.has_windows = true;
  code.line_steps = layout.line_steps();
  if (!read_activation(data.attributes, code.epilogue)) return std::nullopt;
  if (data.input(kGroupBias).present) code.epilogue.addends[0] = Addend::Row;
  if (data.input(kGroupAddend).present) code.epilogue.addends[1] = Addend::Tile;
  return layout;
}

// [channels, inputs, taps…], whose panels are [group][panel of the group][taps…][inputs][channels of the panel].
std::array<StridedAxis, 2> steps_of_group(const GroupedLayout& layout) {
  const int64_t taps = layout.window.taps();
  return {StridedAxis{taps, 1}, StridedAxis{layout.inputs, taps}};
}

Tensor pack_groups(const Tensor& weights, const GroupedLayout& layout) {
  const int64_t width = layout.code.panel_columns(), depth = layout.code.depth;
  Tensor packed = LastingMemory::allocate(DType::F32, Shape{layout.channels() / width, depth, width});
  pack_rows(weights, steps_of_group(layout), width, packed);
  return packed;
}

Tensor unpack_groups(const Tensor& panels, const GroupedLayout& layout, const Shape& shape) {
  Tensor weights = Tensor::allocate(DType::F32, shape);
  unpack_panels(DType::F32, {layout.channels(), layout.code.depth}, steps_of_group(layout), layout.code.panel_columns(), panels.raw(), weights.raw());
  return weights;
}

class GroupedConvolution : public PreparedKernel {
 public:
  GroupedConvolution(KernelData& data, GroupedLayout layout) : data_(data), layout_(std::move(layout)) {}

  // False where there is no code for it, and none can be made.
  bool prepare(ProductGenerator generate) {
    if (data_.is_static() && !(plan_ = plan_groups(layout_, input_shapes(data_)))) return false;
    return find_code(generate) && find_panels();
  }

  std::unique_ptr<State> make_state() const override { return std::make_unique<Plans>(); }
  bool writes_rows_apart(size_t i) const override { return i == 0; }
  void complete() const override { entries_.complete(); }
  bool reads_rows_apart(size_t i) const override { return i == kImage && plan_; }  // else a run may be the reference kernel's
  bool has_packed(size_t i) const override { return i == kGroupWeights; }

  void run(KernelContext& context, State* state) const override {
    if (plan_) return run(context, *plan_);
    const GroupedPlan* plan =
        static_cast<Plans&>(*state).plans.find_or_add(context, [this](InputShapes shapes) {
      std::optional<GroupedPlan> made = plan_groups(layout_, std::move(shapes));
      if (made) entries_.require(made->tiling.rows_of_tiles());
      return made;
    });
    plan ? run(context, *plan) : run_reference(context);
  }

 private:
  struct Plans : State {
    PlanCache<GroupedPlan> plans;
  };

  void run(KernelContext& context, const GroupedPlan& plan) const {
    const InputRows input = context.input_rows(kImage);
    const OutputRows result = context.allocate_output_rows(0, DType::F32, plan.result);
    const StripWork work = {.images = plan.batch,
                            .panels = layout_.groups,
                            .panels_at_once = layout_.groups_at_once(),
                            .rows = plan.rows.output,
                            .row_cost = plan.columns.output * layout_.group_weights(),
                            .cut_rows = 1};
    for_each_segment(work, [&](int64_t image, int64_t block, int64_t begin, int64_t end) {
      BlockRun(*this, plan, context, input, result, image, block * layout_.groups_at_once()).run(begin, end);
    });
  }

  void run_reference(KernelContext& context) const {
    const Datum weights(unpack_groups(panels_, layout_, data_.input(kGroupWeights).constant.shape()));
    std::vector<const Datum*> inputs;
    for (size_t i = 0; i < context.num_inputs(); ++i) inputs.push_back(i == kGroupWeights ? &weights : &context.input_datum(i));
    kernels::run_reference(context, data_.op, inputs);
  }

  // Some groups of one image.
  class BlockRun {
   public:
    BlockRun(const GroupedConvolution& kernel, const GroupedPlan& plan, KernelContext& context, const InputRows& input, const OutputRows& result, int64_t image, int64_t group)
        : kernel_(kernel),
          layout_(kernel.layout_),
          plan_(plan),
          groups_(std::min(layout_.groups_at_once(), layout_.groups - group)),
          pixels_(image * plan.rows.output * plan.columns.output),
          pixel_stride_(input.stride),
          input_(input.tensor.data<float>().data() + image * plan.rows.input * plan.columns.input * pixel_stride_ + group * layout_.inputs),
          strip_(plan.rows, plan.strip_results, plan.row_size) {
      const int64_t begin = plan.padding() * layout_.inputs;
      strip_.clear_around(plan.line_size, begin, begin + plan.columns.input * layout_.inputs);  // read, but never written
      const int64_t first_channel = group * layout_.results;
      weights_ = kernel.panels_.data<float>().data() + group * layout_.group_weights();
      arguments_[kY] = address_of(result.tensor.data<float>().data() + first_channel);
      arguments_[kYStride] = result.stride;
      arguments_[kColumns] = layout_.results;
      arguments_[kAddend0] = address_in(context, kGroupBias, first_channel);
      arguments_[kAddend1] = address_in(context, kGroupAddend, first_channel);
      arguments_[kAddend1Stride] = layout_.channels();
      arguments_[kSteps] = layout_.line_steps();
      arguments_[kIsFirst] = arguments_[kIsLast] = 1;
      arguments_[kPanelStride] = layout_.code.depth * layout_.code.panel_columns();
      arguments_[kLineStride] = plan.rows.dilation * plan.row_size;
      arguments_[kLineSteps] = arguments_[kSteps];
    }

    // Rows [begin, end) of the result.
    void run(int64_t begin, int64_t end) {
      strip_.walk(begin, end, [&](int64_t from, int64_t to) { fill(from, to); }, [&](int64_t row) { convolve(row); });
    }

   private:
    static int64_t bytes(int64_t elements) { return elements * int64_t{sizeof(float)}; }

    // Rows [begin, end) of the image.
    void fill(int64_t begin, int64_t end) {
      if (pixel_stride_ == layout_.inputs) return copy_rows(begin, end);
      if (layout_.inputs % 8 == 0) return split_rows<8>(begin, end);
      if (layout_.inputs % 4 == 0) return split_rows<4>(begin, end);
      split_rows<1>(begin, end);
    }
    // Of the only group.
    void copy_rows(int64_t begin, int64_t end) {
      const int64_t size = plan_.columns.input * layout_.inputs;
      for (int64_t row = begin; row < end; ++row) std::copy_n(input_ + row * size, size, strip_.row(row) + plan_.padding() * layout_.inputs);
    }
    // As lines of the groups.
    template <int64_t kPiece>
    void split_rows(int64_t begin, int64_t end) {
      const int64_t inputs = layout_.inputs, pixels = plan_.columns.input;
      const float* from = input_ + begin * pixels * pixel_stride_;
      for (int64_t row = begin; row < end; ++row) {
        float* to = strip_.row(row) + plan_.padding() * inputs;
        for (int64_t pixel = 0; pixel < pixels; ++pixel, from += pixel_stride_, to += inputs) {
          const float* piece = from;
          for (int64_t group = 0; group < groups_; ++group) {
            for (int64_t c = 0; c < inputs; c += kPiece, piece += kPiece) std::copy_n(piece, kPiece, to + group * plan_.line_size + c);
          }
        }
      }
    }

    void convolve(int64_t row) {
      const WindowAxis &rows = plan_.rows, &columns = plan_.columns;
      const WindowAxis::Taps taps = rows.taps_inside(row);
      std::array<int64_t, kProductArguments> arguments = arguments_;
      arguments[kLines] = std::max<int64_t>(taps.last - taps.first, 0);
      const float* top = arguments[kLines] == 0 ? strip_.begin() : strip_.row(rows.start(row) + taps.first * rows.dilation);
      const float* image = top + (columns.start(0) + plan_.padding()) * layout_.inputs;
      const float* weights = weights_ + taps.first * layout_.line_steps() * layout_.code.panel_columns();
      for (int64_t group = 0; group < groups_; ++group) {
        const int64_t channel = bytes(group * layout_.results);
        arguments[kB] = address_of(weights + group * layout_.group_weights());
        arguments[kAddend0] = arguments_[kAddend0] + channel;
        for (int64_t tile = 0; tile < plan_.tiling.count; ++tile) {
          const int64_t pixel = plan_.tiling.first_row(tile), place = pixels_ + row * columns.output + pixel;
          const int count = plan_.tiling.rows_of(tile), at_once = layout_.code.panels_at_once(count);
          arguments[kA] = address_of(image + group * plan_.line_size + pixel * layout_.code.a_stride);
          arguments[kY] = arguments_[kY] + channel + bytes(place * arguments_[kYStride]);
          arguments[kAddend1] = arguments_[kAddend1] + channel + bytes(place * layout_.channels());
          arguments[kGroups] = layout_.panels_of_group() / at_once;
          arguments[kRest] = layout_.panels_of_group() % at_once;
          kernel_.entries_[count](arguments.data());
        }
      }
    }

    const GroupedConvolution& kernel_;
    const GroupedLayout& layout_;
    const GroupedPlan& plan_;
    int64_t groups_, pixels_;  // pixels_: of the results before this image
    int64_t pixel_stride_;     // of the image
    const float* input_;
    const float* weights_ = nullptr;
    Strip strip_;
    std::array<int64_t, kProductArguments> arguments_{};
  };

  bool find_code(ProductGenerator generate) {
    CodeEntries::Wanted wanted{.first = rows_of_many(layout_.code.tile), .all = rows_up_to(layout_.code.tile)};
    if (plan_) wanted = CodeEntries::Wanted::exactly(plan_->tiling.rows_of_tiles());
    return entries_.prepare(data_, kGroupedCode, {{kGroupedVersion, static_cast<int64_t>(layout_.code.isa)}}, std::move(wanted), CodeEntries::made_by(generate, layout_.code));
  }

  bool find_panels() {
    const std::vector<int64_t> layout = layout_.of_panels();
    const PackedConstant* packed = find_packed(data_, kGroupedPanels);
    if (!packed) {
      const Tensor& weights = data_.input(kGroupWeights).constant;
      // A padding of zeros would make NaN of what is not finite.
      if (!DeferredElements::identity(weights) || !is_finite(weights)) return false;
      if (!data_.take_copies({kGroupedPanels}, layout)) data_.packed.push_back({kGroupedPanels, layout, pack_groups(weights, layout_)});
      packed = &data_.packed.back();
    }
    panels_ = packed->elements;
    return packed->layout == layout;
  }

  KernelData& data_;
  GroupedLayout layout_;
  std::optional<GroupedPlan> plan_;  // where the sizes are known before the run
  Tensor panels_;
  CodeEntries entries_;
};

}  // namespace

bool has_groups_of_vectors(std::span<const int64_t> weights, const AttributeSet& attributes) {
  const int64_t groups = attributes.get_int("group", 1);
  constexpr int64_t kFewestTaps = 4;
  if (weights.size() < 3 || weights.size() > 4 || groups <= 1 || weights[1] <= 1 || element_count(weights.subspan(2)) < kFewestTaps) return false;
  const int64_t results = weights[0] / groups;
  const IsaDescription& isa = describe(best_isa());
  if (results % kFewestResults != 0 || !isa.has_fma) return false;
  // By AVX2 oneDNN 3.2 is slower, by an eighth to a quarter; with AVX-512 from 24 to 40 channels, by 6 to 15%, and it takes long to make a primitive of rows.
  constexpr int64_t kFewestOfAvx512 = 24, kMostOfAvx512 = 40;
  return isa.isa != Isa::Avx512 || weights.size() == 3 || (results >= kFewestOfAvx512 && results <= kMostOfAvx512);
}

namespace {

// Whether the library, which reads a group's channels of all pixels before the next, finds few of them in the cache, where pixels share sets of it. It takes
// 1.4 to 1.9 times as long then.
bool misses_cache(const KernelData& data) {
  constexpr int64_t kFewestResults = 8, kMostResults = 23;
  const InputDescription& x = data.input(kImage);
  const Shape& weights = data.input(kGroupWeights).constant.shape();
  const int64_t results = weights[0] / data.attributes.get_int("group", 1);
  if (!x.is_static() || best_isa() != Isa::Avx512 || results < kFewestResults || results > kMostResults) return false;
  const int64_t pixel_bytes = x.shape->back() * int64_t{sizeof(float)}, pixels = element_count(std::span(*x.shape).subspan(1)) / std::max<int64_t>(x.shape->back(), 1);
  return shares_few_sets(pixel_bytes) && pixels * pixel_bytes > second_level_cache();
}

}  // namespace

bool prefers_grouped_convolution(const KernelData& data) {
  if (!DeferredElements::identity(data.input(kGroupWeights).constant) || prefers_winograd(data)) return false;
  const std::optional<GroupedLayout> layout = lay_out_groups(data, best_isa());
  if (!layout) return false;
  // Of rows the library would make a primitive for each length.
  const bool has_fma = describe(layout->code.isa).has_fma;
  if (!data.is_static() && layout->window.rank() == 1) return has_fma;
  const bool is_preferred = (layout->groups == 1 && has_fma) || has_groups_of_vectors(data.input(kGroupWeights).constant.shape(), data.attributes) || misses_cache(data);
  return is_preferred && (!data.is_static() || plan_groups(*layout, input_shapes(data)));
}

std::unique_ptr<PreparedKernel> prepare_grouped_convolution(KernelData& data, ProductGenerator generate) {
  const std::optional<Isa> isa = CodeEntries::isa_of(find_packed(data, kGroupedCode), kGroupedVersion);
  if (!isa) return nullptr;
  std::optional<GroupedLayout> layout = lay_out_groups(data, *isa);
  if (!layout) return nullptr;
  auto kernel = std::make_unique<GroupedConvolution>(data, std::move(*layout));
  return kernel->prepare(generate) ? std::move(kernel) : nullptr;
}

}  // namespace anfora::kernels::generated

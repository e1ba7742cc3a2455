#include "kernels/generated/grouped_convolution.h"

#include <algorithm>
#include <array>

#include "kernels/generated/product_layout.h"
#include "kernels/generated/strip.h"
#include "kernels/generated/tile_entries.h"
#include "kernels/reference/weights.h"
#include "kernels/reference/window.h"
#include "support/cache_size.h"
#include "support/deferred_elements.h"
#include "support/mapped_file.h"

namespace anfora::kernels::generated {
namespace {

// Of the layout of code; another generator's is not taken.
constexpr int64_t kGroupedVersion = 1;

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

// Everything that is known before the run.
struct GroupedLayout {
  ProductCode code;
  Window window;
  int64_t batch = 0, groups = 0;
  int64_t inputs = 0, results = 0;  // channels of a group

  const WindowAxis& rows() const { return window.axes[0]; }
  const WindowAxis& columns() const { return window.axes[1]; }
  int64_t channels() const { return groups * results; }
  int64_t depth() const { return groups * inputs; }
  int64_t panels_of_group() const { return results / code.panel_columns(); }
  // Elements of a group's weights, and of those for a row of taps.
  int64_t group_weights() const { return code.depth * results; }
  int64_t line_steps() const { return columns().kernel * inputs; }
  int64_t padding() const { return std::max<int64_t>(columns().pad_begin, 0); }
  // Pixels of a line of the strip.
  int64_t pitch() const {
    const int64_t end = columns().start(columns().output - 1) + columns().reach();
    return padding() + std::max(end, columns().input);
  }
  // Groups that are copied together, since channels of a pixel lie side by side.
  int64_t groups_at_once() const {
    constexpr int64_t kChannelsAtOnce = 64;
    return std::clamp<int64_t>(kChannelsAtOnce / inputs, 1, groups);
  }
  int64_t blocks() const { return ceil_div(groups, groups_at_once()); }
  int64_t line_size() const { return pitch() * inputs; }
  int64_t row_size() const { return groups_at_once() * line_size(); }
  int64_t strip_results() const { return Strip::results_of(rows(), second_level_cache() / 4, row_size()); }
  Shape result_shape() const { return {batch, rows().output, columns().output, channels()}; }
  std::vector<int64_t> of_panels() const { return {groups, code.depth, results, code.panel_columns()}; }
};

bool is_known(const InputDescription& input) { return !input.present || (input.dtype == DType::F32 && input.is_static()); }

std::optional<GroupedLayout> lay_out_groups(const KernelData& data, Isa isa) {
  if (data.attributes.get_int("channels_last", 0) == 0 || !std::ranges::all_of(data.inputs, is_known)) return std::nullopt;
  const Shape &x = *data.input(kImage).shape, &w = *data.input(kGroupWeights).shape;
  if (x.size() != 4 || w.size() != 4 || element_count(x) == 0 || element_count(w) == 0) return std::nullopt;
  GroupedLayout layout{.code = {}, .window = read_window(data.attributes, 2, std::span(w).subspan(2)), .batch = x[0]};
  layout.groups = data.attributes.get_int("group", 1);
  if (layout.groups <= 1 || w[0] % layout.groups != 0) return std::nullopt;
  layout.inputs = w[1], layout.results = w[0] / layout.groups;
  if (layout.results % kFewestResults != 0 || x.back() != layout.depth() || layout.columns().dilation != 1) return std::nullopt;
  resolve_window(layout.window, std::span(x).subspan(1, 2));
  if (layout.window.outputs() == 0) return std::nullopt;

  ProductCode& code = layout.code;
  code.isa = isa;
  code.has_half_vectors = layout.results % describe(isa).lanes != 0;
  code.tile = tile_of_vectors(layout.results / code.lanes(), describe(isa));
  code.depth = code.block = layout.window.taps() * layout.inputs;
  code.a_stride = layout.columns().stride * layout.inputs;
  code.has_open_sizes = code.has_fixed_stride = code.has_windows = true;
  if (!read_activation(data.attributes, code.epilogue)) return std::nullopt;
  if (const InputDescription& bias = data.input(kGroupBias); bias.present) {
    if (*bias.shape != Shape{layout.channels()}) return std::nullopt;
    code.epilogue.addends[0] = Addend::Row;
  }
  if (const InputDescription& addend = data.input(kGroupAddend); addend.present) {
    if (*addend.shape != layout.result_shape()) return std::nullopt;
    code.epilogue.addends[1] = Addend::Tile;
  }
  return layout;
}

// [channels, inputs, rows, columns] as panels[group][panel of the group][rows][columns][inputs][channels of the panel].
Tensor pack_groups(const Tensor& weights, const GroupedLayout& layout) {
  const int64_t width = layout.code.panel_columns(), taps = layout.window.taps();
  Tensor packed = Tensor::allocate(DType::F32, Shape{layout.channels() / width, layout.code.depth, width});
  const float* from = weights.data<float>().data();
  float* to = packed.data<float>().data();
  for (int64_t first = 0; first < layout.channels(); first += width) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t c = 0; c < layout.inputs; ++c) {
        for (int64_t channel = first; channel < first + width; ++channel) *to++ = from[(channel * layout.inputs + c) * taps + tap];
      }
    }
  }
  drop_mapped_pages(weights.raw(), weights.bytes());
  return packed;
}

class GroupedConvolution : public PreparedKernel {
 public:
  explicit GroupedConvolution(GroupedLayout layout)
      : layout_(std::move(layout)), tiling_(layout_.columns().output, layout_.code.tile) {}

  // False where there is no code for it, and none can be made.
  bool prepare(KernelData& data, ProductGenerator generate) { return find_code(data, generate) && find_panels(data); }

  bool has_packed(size_t i) const override { return i == kGroupWeights; }

  void run(KernelContext& context, State*) const override {
    const Tensor& result = context.allocate_output(0, DType::F32, layout_.result_shape());
    const int64_t work = layout_.window.outputs() * layout_.groups_at_once() * layout_.group_weights();
    for_each_segment(layout_.batch, layout_.blocks(), layout_.rows().output, work, [&](int64_t image, int64_t block, int64_t begin, int64_t end) {
      BlockRun(*this, context, result, image, block * layout_.groups_at_once()).run(begin, end);
    });
  }

 private:
  // Some groups of one image.
  class BlockRun {
   public:
    BlockRun(const GroupedConvolution& kernel, KernelContext& context, const Tensor& result, int64_t image, int64_t group)
        : kernel_(kernel),
          layout_(kernel.layout_),
          groups_(std::min(layout_.groups_at_once(), layout_.groups - group)),
          pixels_(image * layout_.window.outputs()),
          input_(context.input(kImage).data<float>().data() + image * layout_.window.inputs() * layout_.depth() + group * layout_.inputs),
          strip_(layout_.rows(), layout_.strip_results(), layout_.row_size()) {
      const int64_t begin = layout_.padding() * layout_.inputs;
      strip_.clear_around(layout_.line_size(), begin, begin + layout_.columns().input * layout_.inputs);  // read, but never written
      const int64_t first_channel = group * layout_.results;
      weights_ = kernel.panels_.data<float>().data() + group * layout_.group_weights();
      arguments_[kY] = address_of(result.data<float>().data() + first_channel);
      arguments_[kYStride] = layout_.channels();
      arguments_[kColumns] = layout_.results;
      arguments_[kAddend0] = address_in(context, kGroupBias, first_channel);
      arguments_[kAddend1] = address_in(context, kGroupAddend, first_channel);
      arguments_[kAddend1Stride] = layout_.channels();
      arguments_[kSteps] = layout_.line_steps();
      arguments_[kIsFirst] = arguments_[kIsLast] = 1;
      arguments_[kPanelStride] = layout_.code.depth * layout_.code.panel_columns();
      arguments_[kLineStride] = layout_.rows().dilation * layout_.row_size();
    }

    // Rows [begin, end) of the result.
    void run(int64_t begin, int64_t end) {
      strip_.walk(begin, end, [&](int64_t from, int64_t to) { fill(from, to); }, [&](int64_t row) { convolve(row); });
    }

   private:
    static int64_t bytes(int64_t elements) { return elements * int64_t{sizeof(float)}; }

    // Rows [begin, end) of the image.
    void fill(int64_t begin, int64_t end) {
      if (layout_.inputs % 8 == 0) return split_rows<8>(begin, end);
      if (layout_.inputs % 4 == 0) return split_rows<4>(begin, end);
      split_rows<1>(begin, end);
    }
    // As lines of the groups.
    template <int64_t kPiece>
    void split_rows(int64_t begin, int64_t end) {
      const int64_t inputs = layout_.inputs, pixels = layout_.columns().input;
      const float* from = input_ + begin * pixels * layout_.depth();
      for (int64_t row = begin; row < end; ++row) {
        float* to = strip_.row(row) + layout_.padding() * inputs;
        for (int64_t pixel = 0; pixel < pixels; ++pixel, from += layout_.depth(), to += inputs) {
          const float* piece = from;
          for (int64_t group = 0; group < groups_; ++group) {
            for (int64_t c = 0; c < inputs; c += kPiece, piece += kPiece) std::copy_n(piece, kPiece, to + group * layout_.line_size() + c);
          }
        }
      }
    }

    void convolve(int64_t row) {
      const WindowAxis &rows = layout_.rows(), &columns = layout_.columns();
      const WindowAxis::Taps taps = rows.taps_inside(row);
      std::array<int64_t, kProductArguments> arguments = arguments_;
      arguments[kLines] = std::max<int64_t>(taps.last - taps.first, 0);
      const float* top = arguments[kLines] == 0 ? strip_.begin() : strip_.row(rows.start(row) + taps.first * rows.dilation);
      const float* image = top + (columns.start(0) + layout_.padding()) * layout_.inputs;
      const float* weights = weights_ + taps.first * layout_.line_steps() * layout_.code.panel_columns();
      for (int64_t group = 0; group < groups_; ++group) {
        const int64_t channel = bytes(group * layout_.results);
        arguments[kB] = address_of(weights + group * layout_.group_weights());
        arguments[kAddend0] = arguments_[kAddend0] + channel;
        for (int64_t tile = 0; tile < kernel_.tiling_.count; ++tile) {
          const int64_t pixel = kernel_.tiling_.first_row(tile), place = bytes((pixels_ + row * columns.output + pixel) * layout_.channels());
          const int count = kernel_.tiling_.rows_of(tile), at_once = layout_.code.panels_at_once(count);
          arguments[kA] = address_of(image + group * layout_.line_size() + pixel * layout_.code.a_stride);
          arguments[kY] = arguments_[kY] + channel + place;
          arguments[kAddend1] = arguments_[kAddend1] + channel + place;
          arguments[kGroups] = layout_.panels_of_group() / at_once;
          arguments[kRest] = layout_.panels_of_group() % at_once;
          kernel_.entries_[count](arguments.data());
        }
      }
    }

    const GroupedConvolution& kernel_;
    const GroupedLayout& layout_;
    int64_t groups_, pixels_;  // pixels_: of the results before this image
    const float* input_;
    const float* weights_ = nullptr;
    Strip strip_;
    std::array<int64_t, kProductArguments> arguments_{};
  };

  bool find_code(KernelData& data, ProductGenerator generate) {
    const PackedConstant* packed = find_packed(data, kGroupedCode);
    if (!packed) {
      if (!generate) return false;
      std::vector<int> rows{tiling_.rows};
      if (tiling_.wide > 0) rows.push_back(tiling_.rows + 1);
      data.packed.push_back(TileEntries::packed(kGroupedCode, kGroupedVersion, rows, generate(layout_.code, rows)));
      packed = &data.packed.back();
    }
    std::optional<TileEntries> entries = TileEntries::map(*packed, layout_.code.tile.rows);
    if (!entries || !(*entries)[tiling_.rows] || (tiling_.wide > 0 && !(*entries)[tiling_.rows + 1])) return false;
    entries_ = std::move(*entries);
    return true;
  }

  bool find_panels(KernelData& data) {
    const std::vector<int64_t> layout = layout_.of_panels();
    const PackedConstant* packed = find_packed(data, kGroupedPanels);
    if (!packed) {
      const Tensor& weights = data.input(kGroupWeights).constant;
      // A padding of zeros would make NaN of what is not finite.
      if (!weights.raw() || !is_finite(weights)) return false;
      if (!data.take_copies({kGroupedPanels}, layout)) data.packed.push_back({kGroupedPanels, layout, pack_groups(weights, layout_)});
      packed = &data.packed.back();
    }
    panels_ = packed->elements;
    return packed->layout == layout;
  }

  GroupedLayout layout_;
  Tiling tiling_;  // of a row of the result
  Tensor panels_;
  TileEntries entries_;
};

}  // namespace

bool has_groups_of_vectors(std::span<const int64_t> weights, const AttributeSet& attributes) {
  const int64_t groups = attributes.get_int("group", 1);
  constexpr int64_t kFewestTaps = 4;
  if (weights.size() != 4 || groups <= 1 || weights[1] <= 1 || weights[2] * weights[3] < kFewestTaps) return false;
  const int64_t results = weights[0] / groups;
  const IsaDescription& isa = describe(best_isa());
  if (results % kFewestResults != 0 || !isa.has_fma) return false;
  // With AVX-512 oneDNN 3.2 is slower from 24 to 40 channels, by 6 to 15%; by AVX2 at 8, by a third.
  constexpr int64_t kFewestOfAvx512 = 24, kMostOfAvx512 = 40;
  return isa.lanes > kFewestResults ? results >= kFewestOfAvx512 && results <= kMostOfAvx512 : results == kFewestResults;
}

bool prefers_grouped_convolution(const KernelData& data) {
  if (!DeferredElements::identity(data.input(kGroupWeights).constant)) return false;
  return has_groups_of_vectors(*data.input(kGroupWeights).shape, data.attributes) && lay_out_groups(data, best_isa());
}

std::unique_ptr<PreparedKernel> prepare_grouped_convolution(KernelData& data, ProductGenerator generate) {
  const std::optional<Isa> isa = TileEntries::isa_of(find_packed(data, kGroupedCode), kGroupedVersion);
  if (!isa) return nullptr;
  std::optional<GroupedLayout> layout = lay_out_groups(data, *isa);
  if (!layout) return nullptr;
  auto kernel = std::make_unique<GroupedConvolution>(std::move(*layout));
  return kernel->prepare(data, generate) ? std::move(kernel) : nullptr;
}

}  // namespace anfora::kernels::generated

// How a depthwise convolution of integers runs: some rows of the result at a time, all their channels. What their windows see is copied with its
// padding, which is the zero point, so that all pixels are alike.
//
//     image                     rows of a block                              result
//     ┌────────────┐    copy    ┌─────────────────┐   windows of taps      ┌────────────┐
//     │ ▓▓▓▓▓▓▓▓▓▓ │  ───────▶  │ z ▓▓▓▓▓▓▓▓▓▓▓ z │  ─────────────────▶    │ · ▓▓ · · · │
//     └────────────┘            └─────────────────┘                        └────────────┘
#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/generated/code_entries.h"
#include "kernels/generated/depthwise.h"
#include "kernels/generated/integer_operands.h"
#include "kernels/generated/plan_cache.h"
#include "kernels/generated/product_layout.h"
#include "kernels/reference/window.h"
#include "kernels/registered.h"
#include "support/cache_size.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels::generated {
namespace {

// Of the layout of code and filters; another generator's are not taken.
constexpr int64_t kIntegerDepthwiseVersion = 3;

enum PackedIntegerDepthwise : uint8_t { kIntegerDepthwiseCode, kFilterWords, kFilterSums };

constexpr size_t kAddedImage = 3;

// Pixels of equal tiles of a row; the last one begins earlier where they do not come out even, and computes some pixels again.
int64_t tile_of(int64_t pixels, const Tile& largest) { return ceil_div(pixels, ceil_div(pixels, largest.rows)); }

// Half of the registers are sums: conversions take what is left. Panels are single vectors, as loads of the image are most of the work: a panel that is
// not full would waste them. Rows of images tend to be multiples of seven pixels.
Tile tile_of_integers(Isa isa) { return {describe(isa).registers > 16 ? 14 : 7, 1}; }

struct IntegerDepthwisePlan {
  InputShapes shapes;
  Window window;
  int64_t batch = 0, channels = 0;

  // Nothing where the shapes do not fit, which the reference kernel has words for, or there is nothing to compute.
  static std::optional<IntegerDepthwisePlan> make(const AttributeSet& attributes, InputShapes shapes, const Shape& weights, bool adds_image) {
    const Shape& x = *shapes[0];
    if (x.size() != 4 || x.back() != weights[0] || element_count(x) == 0) return std::nullopt;
    IntegerDepthwisePlan plan{.shapes = {}, .window = read_window(attributes, 2, std::span(weights).subspan(2)), .batch = x[0], .channels = x.back()};
    resolve_window(plan.window, std::span(x).subspan(1, 2));
    if (plan.window.outputs() == 0 || (adds_image && *shapes[kAddedImage] != plan.result_shape())) return std::nullopt;
    plan.shapes = std::move(shapes);
    return plan;
  }

  const WindowAxis& rows() const { return window.axes[0]; }
  const WindowAxis& columns() const { return window.axes[1]; }
  Shape result_shape() const { return {batch, rows().output, columns().output, channels}; }
  // Pixels of a row with its padding.
  int64_t pitch() const { return (columns().output - 1) * columns().stride + columns().reach(); }
  int64_t row_bytes() const { return pitch() * channels; }
  int64_t rows_seen(int64_t results) const { return (results - 1) * rows().stride + rows().reach(); }
  // Rows of the result whose windows stay in the cache; few enough for all threads to have some.
  int64_t rows_of_block() const {
    constexpr int64_t kShare = 4;
    const int64_t fit = (second_level_cache() / kShare / row_bytes() - rows().reach()) / rows().stride;
    return std::clamp<int64_t>(fit, 1, ceil_div(rows().output, thread_count()));
  }
};

class IntegerDepthwise : public PreparedKernel {
 public:
  IntegerDepthwise(KernelData& data, DepthwiseCode code) : data_(data), code_(std::move(code)), weights_(*data.input(1).shape) {}

  // False where there is no code for it, and none can be made.
  bool prepare(DepthwiseGenerator generate) {
    if (!find_code(generate)) return false;
    const std::vector<int64_t> layout{kIntegerDepthwiseVersion, weights_[0], taps(), code_.panel_channels()};
    if (!find_packed(data_, kFilterWords)) {
      const Tensor &weights = data_.input(1).constant, &zeros = data_.input(kZeroOfB).constant;
      if (!weights.raw() || (data_.input(kZeroOfB).present && !zeros.defined())) return false;
      if (!data_.take_copies({kFilterWords, kFilterSums}, layout)) pack_filters(weights, zeros, layout);
    }
    const PackedConstant *words = find_packed(data_, kFilterWords), *sums = find_packed(data_, kFilterSums);
    if (words->layout != layout || !sums || sums->layout != layout) return false;
    words_ = words->elements, sums_ = sums->elements;
    data_.workspace_bytes = static_cast<size_t>(sums_.size()) * sizeof(int32_t);
    return true;
  }

  std::unique_ptr<State> make_state() const override { return std::make_unique<Plans>(); }
  void complete() const override { entries_.complete(); }

  void run(KernelContext& context, State* state) const override {
    const IntegerDepthwisePlan* plan = static_cast<Plans&>(*state).plans.find_or_add(context, [this](InputShapes shapes) {
      auto made = IntegerDepthwisePlan::make(data_.attributes, std::move(shapes), weights_, code_.epilogue.addends[1] == Addend::Tile);
      if (made) entries_.require(std::array{entry_of_row(made->columns().output)});
      return made;
    });
    plan ? run(context, *plan) : reference_kernels().find(data_.op)(context);
  }

 private:
  struct Plans : State {
    PlanCache<IntegerDepthwisePlan> plans;
  };

  int64_t taps() const { return weights_[2] * weights_[3]; }

  void run(KernelContext& context, const IntegerDepthwisePlan& plan) const {
    const Tensor& result = context.allocate_output(0, code_.result, plan.result_shape());
    const Tensor* zero_point = context.optional_input(kZeroOfA);
    const int32_t zero = zero_point ? byte_element(*zero_point, 0) : 0;
    const std::span<int32_t> zero_terms = context.workspace_of<int32_t>(static_cast<size_t>(sums_.size()));
    std::ranges::transform(sums_.data<int32_t>(), zero_terms.begin(), [&](int32_t sum) { return -zero * sum; });
    const Quantization quantization = quantization_of(context);
    const WindowAxis &rows = plan.rows(), &columns = plan.columns();
    std::array<int64_t, kDepthwiseArguments> arguments{};
    arguments[kImageRowStride] = rows.dilation * plan.row_bytes();
    arguments[kTapStride] = columns.dilation * plan.channels;
    arguments[kPixelStride] = columns.stride * plan.channels;
    arguments[kTapRows] = rows.kernel, arguments[kTaps] = columns.kernel;
    arguments[kFilters] = address_of(words_.raw());
    arguments[kFilterPanelStride] = taps() * code_.panel_channels();
    arguments[kResult] = address_of(result.raw());
    arguments[kResultStride] = arguments[kChannels] = plan.channels;
    arguments[kPanels] = ceil_div(plan.channels, code_.panel_channels());
    arguments[kBias] = address_in(context, 2);
    arguments[kResidual] = address_in(context, kAddedImage);
    arguments[kResidualStride] = code_.epilogue.addends[1] == Addend::Tile ? plan.channels : 0;
    arguments[kZeroTerms] = address_of(zero_terms.data());
    arguments[kDepthwiseScale] = address_in(context, kScales);
    arguments[kDepthwiseQuantization] = address_of(&quantization);

    const auto* x = static_cast<const std::byte*>(context.input(0).raw());
    const int64_t block = plan.rows_of_block(), blocks = ceil_div(rows.output, block);
    constexpr int64_t kWork = 1 << 20;  // multiply-adds; some ten microseconds
    parallel_for(plan.batch * blocks, grain_of(kWork, block * columns.output * plan.channels * taps()), [&](int64_t begin, int64_t end) {
      // Behind the last pixel, vectors are read whole.
      Scratch<std::byte> seen(static_cast<size_t>(plan.rows_seen(block) * plan.row_bytes() + code_.panel_channels()));
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % blocks * block, count = std::min(block, rows.output - first);
        copy_rows(plan, x + i / blocks * plan.window.inputs() * plan.channels, rows.start(first), plan.rows_seen(count), static_cast<std::byte>(zero),
                  seen.data());
        for (int64_t row = 0; row < count; ++row)
          convolve(plan, arguments, seen.data() + row * rows.stride * plan.row_bytes(), i / blocks * rows.output + first + row);
      }
    });
  }

  // `count` rows of an image from row `first` on, which may be padding.
  static void copy_rows(const IntegerDepthwisePlan& plan, const std::byte* image, int64_t first, int64_t count, std::byte padding, std::byte* to) {
    const int64_t start = plan.columns().start(0), before = std::clamp<int64_t>(-start, 0, plan.pitch()),
                  end = std::clamp<int64_t>(plan.columns().input - start, before, plan.pitch());
    for (int64_t row = first; row < first + count; ++row, to += plan.row_bytes()) {
      const bool is_inside = row >= 0 && row < plan.rows().input;
      const int64_t inside = is_inside ? (end - before) * plan.channels : 0, left = is_inside ? before * plan.channels : 0;
      std::fill_n(to, left, padding);
      if (inside > 0) std::memcpy(to + left, image + (row * plan.columns().input + start + before) * plan.channels, static_cast<size_t>(inside));
      std::fill(to + left + inside, to + plan.row_bytes(), padding);
    }
  }

  // A row of the result, by number among those of all images.
  void convolve(const IntegerDepthwisePlan& plan, std::array<int64_t, kDepthwiseArguments> arguments, const std::byte* seen, int64_t row) const {
    const int64_t pixels = plan.columns().output, tile = tile_of(pixels, code_.tile), rest = pixels % tile;
    const EntryPoint entry = entries_[number_of(tile)];
    const int64_t result = arguments[kResult], residual = arguments[kResidual];
    auto run_tiles = [&](int64_t pixel, int64_t count) {
      const int64_t place = (row * pixels + pixel) * plan.channels;
      arguments[kImage] = address_of(seen + pixel * plan.columns().stride * plan.channels);
      arguments[kTiles] = count;
      arguments[kResult] = result + place * static_cast<int64_t>(element_bytes(code_.result));
      arguments[kResidual] = residual + (arguments[kResidualStride] == 0 ? 0 : place * int64_t{sizeof(float)});
      entry(arguments.data());
    };
    run_tiles(0, pixels / tile);
    if (rest > 0) run_tiles(pixels - tile, 1);
  }

  static std::vector<int> entries_of(const std::vector<int>& rows) {
    std::vector<int> numbers;
    for (int count : rows) numbers.push_back(number_of(count));
    return numbers;
  }
  static int number_of(int64_t pixels) { return DepthwiseEntry{DepthwiseEntry::Kind::Depthwise, static_cast<int>(pixels)}.number(); }
  int entry_of_row(int64_t pixels) const { return number_of(tile_of(pixels, code_.tile)); }

  bool find_code(DepthwiseGenerator generate) {
    std::vector<int64_t> form = code_.numbers();
    form.insert(form.begin(), kIntegerDepthwiseVersion);
    CodeEntries::Wanted wanted{.first = entries_of(rows_of_many(code_.tile)), .all = entries_of(rows_up_to(code_.tile))};
    if (const int64_t known = known_pixels(); known > 0) wanted = CodeEntries::Wanted::exactly({entry_of_row(known)});
    return entries_.prepare(data_, kIntegerDepthwiseCode, {std::move(form)}, std::move(wanted), CodeEntries::made_by(generate, code_));
  }

  // Of a row of the result; 0: only a run shows.
  int64_t known_pixels() const {
    if (!data_.input(0).is_static() || (data_.input(kAddedImage).present && !data_.input(kAddedImage).is_static())) return 0;
    const auto plan = IntegerDepthwisePlan::make(data_.attributes, input_shapes(data_), weights_, code_.epilogue.addends[1] == Addend::Tile);
    return plan ? plan->columns().output : 0;
  }

  // As words in panels[tap][channel of the panel], which have the weight less its zero point as the lower half; zeros behind the last channel.
  void pack_filters(const Tensor& weights, const Tensor& zeros, const std::vector<int64_t>& layout) {
    const int64_t channels = weights_[0], width = code_.panel_channels(), panels = ceil_div(channels, width);
    Tensor words = Tensor::zeros(DType::I32, Shape{panels, taps(), width}), sums = Tensor::zeros(DType::I32, Shape{panels * width});
    for (int64_t channel = 0; channel < channels; ++channel) {
      const int32_t zero = zeros.defined() ? byte_element(zeros, zeros.size() == 1 ? 0 : channel) : 0;
      for (int64_t tap = 0; tap < taps(); ++tap) {
        const int32_t weight = byte_element(weights, channel * taps() + tap) - zero;
        words.data<int32_t>()[(channel / width * taps() + tap) * width + channel % width] = static_cast<uint16_t>(weight);
        sums.data<int32_t>()[channel] += weight;
      }
    }
    data_.packed.push_back({kFilterWords, layout, std::move(words)});
    data_.packed.push_back({kFilterSums, layout, std::move(sums)});
  }

  KernelData& data_;
  DepthwiseCode code_;
  Shape weights_;
  Tensor words_, sums_;
  CodeEntries entries_;
};

}  // namespace

std::unique_ptr<PreparedKernel> prepare_integer_depthwise(KernelData& data, DepthwiseGenerator generate) {
  const InputDescription &x = data.input(0), &weights = data.input(1);
  if (!weights.present || !weights.is_static() || weights.shape->size() != 4 || element_count(*weights.shape) == 0) return nullptr;
  if (!x.shape || x.shape->size() != 4 || data.attributes.get_int("channels_last", 0) == 0) return nullptr;
  const int64_t channels = (*weights.shape)[0];
  if ((*weights.shape)[1] != 1 || data.attributes.get_int("group", 1) != channels) return nullptr;
  const std::optional<IntegerOperation> operation = read_integers(data, channels);
  if (!operation || operation->scale == Scale::None || operation->residual) return nullptr;
  const PackedConstant* known = find_packed(data, kIntegerDepthwiseCode);
  const std::optional<Isa> isa = known ? isa_of(known->layout) : best_isa();
  if (!isa) return nullptr;
  DepthwiseCode code{.isa = *isa, .image = operation->a, .scale = operation->scale, .result = operation->result, .divides = operation->divides, .epilogue = {}, .expansion = {}};
  code.tile = tile_of_integers(code.isa);
  code.has_edge = channels % code.panel_channels() != 0 || describe(code.isa).has_masks;
  if (!read_activation(data.attributes, code.epilogue) || !read_addends(data, channels, code.epilogue)) return nullptr;
  if (code.epilogue.addends[0] == Addend::Tile) return nullptr;
  auto kernel = std::make_unique<IntegerDepthwise>(data, std::move(code));
  return kernel->prepare(generate) ? std::move(kernel) : nullptr;
}

}  // namespace anfora::kernels::generated

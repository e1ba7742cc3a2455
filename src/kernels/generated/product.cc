// How a product runs: rows are divided into tiles, columns into the panels that weights are packed in, and for each pair the entry of
// the code for so many rows is called. A panel serves all tiles of a block of rows before the next comes, so that weights are read
// from memory once; a block is as many rows as stay in the cache beside a panel.
//
//              panels ─▶
//            ┌───┬───┬───┐ ┐         thread 1: the first panels of each block,
//     tiles  │ 1 │ 4 │ 7 │ │ block   thread 2: the next …
//       │    ├───┼───┼───┤ │
//       ▼    │ 2 │ 5 │ 8 │ │
//            ├───┼───┼───┤ ┘
//
// Weights of few bits are dequantized in the loop over k where one tile has all rows; else for some steps of a panel before the tiles of a block.
//
// Rows whose distance lets them share few sets of the cache are copied apart first. Rows that are gathered (gathered_rows.h) are so for a block,
// and then serve all panels: threads divide the blocks alone.
//
// The rows of a convolution are windows. Those of one or two axes are read where they lie in the image (window_taps.h), and tiles do not go on from one
// row of the result to the next. Other windows are gathered.
#include "kernels/generated/product.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "anfora/error.h"
#include "kernels/generated/code_entries.h"
#include "kernels/generated/convolution_rows.h"
#include "kernels/generated/fetches.h"
#include "kernels/generated/few_bits.h"
#include "kernels/generated/gathered_rows.h"
#include "kernels/generated/grouped_convolution.h"
#include "kernels/generated/plan_cache.h"
#include "kernels/generated/product_layout.h"
#include "kernels/generated/product_places.h"
#include "kernels/generated/window_taps.h"
#include "kernels/generated/winograd_window.h"
#include "support/cache_size.h"
#include "support/deferred_elements.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels::generated {
namespace {

// How a product of certain shapes runs.
struct ProductPlan : ProductPlaces {
  ProductPlan(ProductAttributes::Shapes of, const StridedProduct& product, const ProductLayout& layout,
              std::optional<ConvolutionRows> windows = {}, std::optional<GatheredRows> several = {})
      : ProductPlaces(product, layout.code.epilogue),
        shapes(std::move(of)),
        convolution(std::move(windows)),
        gathered(several),
        y_shape(product.y_shape),
        taps(convolution && layout.code.has_windows ? convolution->taps() : std::nullopt),
        tiling(taps ? Tiling(product.y_shape.end()[-2], layout.code.tile, rows / product.y_shape.end()[-2]) : Tiling(rows, layout.code.tile)) {
    for (Matrices& at : matrices) {
      at.b /= layout.depth * layout.columns;
      weights = std::max(weights, at.b + 1);
      if (layout.code.residual) at.addends[1] = at.y;
    }
    if (layout.code.residual) addend_strides[1] = y_stride;
    if (layout.code.is_integer()) {
      has_dense_words = has_dense_rows(layout.depth) && !convolution && layout.depth == layout.code.a_stride * layout.integers.parts();
      copies = !has_dense_words || !layout.integers.has_parts_of_a();
      extended_parts = convolution ? convolution->extended_parts() : 0;
    } else {
      copies = !gathered && !convolution && (layout.code.has_packed_rows || a_step != 1 || (a_stride != layout.code.a_stride && rows > 1));
    }

    // A block is what stays in the cache beside a panel, but no less than makes reading the panel worthwhile. Each further one reads
    // all weights again: with 3/4 of 512 KiB, 128 rows of 768 are one block and take 0.95 of the time of two.
    constexpr int64_t kFewestTiles = 4;
    const bool gathers_windows = convolution && !taps && !layout.code.is_integer();
    // Those of a small image all at once: so that threads may share the panels.
    if (gathers_windows) copies = rows * layout.code.a_stride * int64_t{sizeof(float)} <= second_level_cache();
    if (copies) copied = all_rows() * layout.code.a_stride;
    gathers_blocks = gathered || (gathers_windows && !copies);
    int64_t row_elements = layout.code.block;
    if (taps) row_elements = taps->read_by_place();
    if (gathers_blocks) row_elements = layout.code.a_stride;
    const int64_t bytes = layout.code.tile.rows * row_elements * int64_t{sizeof(float)};
    tiles_of_block = std::max(second_level_cache() / 4 * 3 / bytes, kFewestTiles);
    const int64_t blocks = (tiling.count + tiles_of_block - 1) / tiles_of_block;
    tiles_of_block = (tiling.count + blocks - 1) / blocks;
  }

  int64_t workspace_bytes(const ProductLayout& layout, bool packs_weights) const {
    const int64_t words = copies ? copied : 0;
    if (!layout.code.is_integer()) return words * int64_t{sizeof(float)};
    const int64_t columns = layout.panels() * layout.code.panel_columns(), packed = packs_weights ? weights * layout.matrix_words() : 0;
    int64_t lines = 0;  // each array begins with a line of its own
    for (int64_t elements : {words, all_rows(), weights * columns, layout.integers.words(extended_parts), packed, packs_weights ? columns : 0}) lines += (elements + kLineElements - 1) / kLineElements;
    return lines * kLineElements * int64_t{sizeof(float)};
  }
  int64_t all_rows() const { return std::ssize(matrices) * rows; }

  ProductAttributes::Shapes shapes;
  std::optional<ConvolutionRows> convolution;
  std::optional<GatheredRows> gathered;
  Shape y_shape;
  std::optional<WindowTaps> taps;  // of windows that are read where they lie
  Tiling tiling;
  bool gathers_blocks = false;  // of rows, by `gathered` or `convolution`
  int64_t copied = 0;           // elements or words
  bool copies = false;          // rows of A to where the code expects them
  bool has_dense_words = false;  // of integers: that become words one behind the other
  int64_t extended_parts = 0;   // of the image of a convolution of integers, with its padding
  int64_t tiles_of_block = 1;
  int64_t weights = 1;            // matrices of them, whose numbers are the b of `matrices`
};

// Some rows of A step by step.
template <int kRows>
void pack_tile(const float* a, int64_t stride, int64_t step, int64_t depth, float* to) {
  for (int64_t k = 0; k < depth; ++k, a += step, to += kRows) {
#pragma GCC unroll 12
    for (int row = 0; row < kRows; ++row) to[row] = a[row * stride];
  }
}
// By the number of rows.
template <int... kRows>
constexpr std::array<decltype(&pack_tile<1>), sizeof...(kRows)> packers(std::integer_sequence<int, kRows...>) {
  return {pack_tile<kRows>...};
}
constexpr auto kPackTile = packers(std::make_integer_sequence<int, kMostTileRows + 1>());

class GeneratedProduct : public PreparedKernel {
 public:
  GeneratedProduct(KernelData& data, ProductAttributes attributes, ProductLayout layout, StridedOperand matrix)
      : data_(data),
        attributes_(std::move(attributes)),
        layout_(std::move(layout)),
        matrix_(std::move(matrix)),
        has_constant_weights_(data.input(1).constant.defined()) {}

  // False where there is no code for it, and none can be made.
  bool prepare(ProductGenerator generate) {
    std::optional<ProductPlan> known = plan_of_known_shapes();
    if (!known && data_.is_static()) return false;
    if (!find_code(known, generate)) return false;
    gathers_pixels_ = known && known->gathered;
    reads_pixels_ = known && data_.op == kConvolution && !known->convolution && !known->copies && known->has_dense_rows(layout_.depth);
    if (known) data_.workspace_bytes = static_cast<size_t>(known->workspace_bytes(layout_, !has_constant_weights_));
    if (!has_constant_weights_) return true;
    const PackedConstant* packed = find_packed(data_, kWeights);
    if (packed && packed->layout != layout_.of_weights()) return false;
    const Tensor& weights = data_.input(1).constant;
    if (!packed && !DeferredElements::identity(weights)) return false;
    if (!packed) pack_weights(data_, matrix_, layout_);
    weights_ = find_packed(data_, kWeights)->elements;
    if (layout_.code.has_few_bits()) {
      const PackedConstant *scales = find_packed(data_, kWeightScales), *zeros = find_packed(data_, kWeightZeros);
      if (!scales || scales->layout != layout_.of_weights()) return false;
      scales_ = scales->elements;
      if (zeros) zeros_ = zeros->elements;
    }
    if (!layout_.code.is_integer()) return true;
    const PackedConstant* columns = find_packed(data_, kColumnData);
    if (!columns) return false;
    columns_ = columns->elements;
    return true;
  }

  std::unique_ptr<State> make_state() const override { return std::make_unique<Plans>(); }
  bool has_packed(size_t i) const override {
    return (i == 1 && has_constant_weights_) || (layout_.code.has_few_bits() && (i == kScalesOfB || i == kZerosOfB));
  }

  bool writes_rows_apart(size_t i) const override { return i == 0 && layout_.has_rows_of_y; }
  bool reads_rows_apart(size_t i) const override { return (i == 0 && reads_pixels_) || (gathers_pixels_ && (i == 0 || i >= kMoreRows)); }
  void complete() const override { entries_.complete(); }

  void run(KernelContext& context, State* state) const override {
    const ProductPlan* plan = static_cast<Plans&>(*state).plans.find_or_add(context, [this](InputShapes shapes) {
      std::optional<ProductPlan> made = make_plan(std::move(shapes));
      if (made) entries_.require(used_entries(*made));
      return made;
    });
    return plan ? run(context, *plan) : run_reference(context);
  }

 private:
  struct Plans : State {
    PlanCache<ProductPlan> plans;
  };

  std::optional<ProductPlan> plan_of_known_shapes() const {
    if (!data_.is_static()) return std::nullopt;
    return make_plan(input_shapes(data_));
  }

  // Nothing where the shapes do not fit, or a residual is repeated.
  std::optional<ProductPlan> make_plan(ProductAttributes::Shapes shapes) const {
    std::optional<ProductPlan> plan = make_plan_of_product(std::move(shapes));
    if (plan && layout_.code.residual && plan->shapes[kResidualBytes] != plan->y_shape) return std::nullopt;
    return plan;
  }
  std::optional<ProductPlan> make_plan_of_product(ProductAttributes::Shapes shapes) const {
    if (data_.op == kIntegerConvolution || data_.op == kConvolution) {
      std::optional<ConvolutionRows> rows = ConvolutionRows::resolve(data_.attributes, shapes);
      if (!rows) return std::nullopt;
      const StridedProduct product = rows->product(shapes);
      if (rows->is_pointwise()) rows.reset();
      return ProductPlan(std::move(shapes), product, layout_, std::move(rows));
    }
    if (data_.op == kPointwise) {
      std::optional<GatheredRows> rows = GatheredRows::resolve(shapes);
      if (!rows) return std::nullopt;
      const StridedProduct product = rows->product(shapes);
      return ProductPlan(std::move(shapes), product, layout_, {}, std::move(rows));
    }
    const std::optional<StridedProduct> product = attributes_.resolve(shapes);
    if (!product || product->b.dims[product->b.rank() - 2] != layout_.depth || product->b.dims.back() != layout_.columns) return std::nullopt;
    return ProductPlan(std::move(shapes), *product, layout_);
  }

  bool find_code(const std::optional<ProductPlan>& known, ProductGenerator generate) {
    CodeEntries::Wanted wanted{.first = likely_entries(), .all = all_entries()};
    if (known) wanted = CodeEntries::Wanted::exactly(used_entries(*known));
    return entries_.prepare(data_, kCode, {layout_.of_code(), layout_.code.factors == Factors::Bytes}, std::move(wanted), CodeEntries::made_by(generate, layout_.code));
  }

  std::vector<int> used_entries(const ProductPlan& plan) const {
    const bool dequantizes = dequantizes_before(plan);
    std::vector<bool> is_used(static_cast<size_t>(layout_.code.tile.rows) + 1, false);
    auto use = [&](int64_t rows) { is_used[static_cast<size_t>(rows)] = true; };
    use(plan.tiling.rows);
    if (plan.tiling.wide > 0) use(plan.tiling.rows + 1);
    for (int64_t tile = 0; plan.taps && tile < plan.tiling.count_of_line; ++tile) {
      const Tiling::Place place = plan.tiling.place(tile);
      plan.taps->for_each_run({}, place.first_row, place.rows, {0, 1}, [&](const WindowTaps::Run& run) { use(run.places); });
    }
    std::vector<int> entries;
    for (int rows = 1; rows <= layout_.code.tile.rows; ++rows) {
      if (is_used[static_cast<size_t>(rows)]) entries.push_back(dequantizes ? entry_of_dequantized(rows) : rows);
    }
    if (dequantizes) entries.push_back(kDequantizeEntry);
    if (layout_.code.gather) entries.push_back(kGatherEntry);
    return entries;
  }
  std::vector<int> all_entries() const {
    const ProductCode& code = layout_.code;
    const int most = code.tile.rows, fewest_of_many = (most + 1) / 2;  // of a tile where one is not enough
    std::vector<int> entries;
    for (int rows = 1; rows <= most; ++rows) {
      entries.push_back(rows);
      if (code.has_few_bits() && rows >= fewest_of_many) entries.push_back(entry_of_dequantized(rows));
    }
    if (code.has_few_bits()) entries.push_back(kDequantizeEntry);
    if (code.gather) entries.push_back(kGatherEntry);
    return entries;
  }
  // Where only a run shows the rows: of many rows; of one where A is a matrix, whose rows are often those of a batch.
  std::vector<int> likely_entries() const {
    const ProductCode& code = layout_.code;
    const std::optional<Shape>& a = data_.input(0).shape;
    const bool has_rows_of_batch = a && a->size() <= 2;
    std::vector<int> entries = has_rows_of_batch || code.has_few_bits() ? std::vector{1} : rows_of_many(code.tile);
    if (code.has_few_bits()) {
      if (!has_rows_of_batch) std::ranges::transform(rows_of_many(code.tile), std::back_inserter(entries), entry_of_dequantized);
      entries.push_back(kDequantizeEntry);
    }
    if (code.gather) entries.push_back(kGatherEntry);
    return entries;
  }

  int64_t all_weight_bytes() const { return layout_.panels() * layout_.code.weight_bytes(layout_.code.depth); }
  // Whether they are a block that stays in the second-level cache, and a tile in the first: 64 to 256 channels take .9 of the time so.
  bool has_few_weights() const { return all_weight_bytes() <= second_level_cache() / 2 && layout_.code.block >= layout_.code.depth; }
  bool dequantizes_before(const ProductPlan& plan) const { return layout_.code.has_few_bits() && plan.tiling.count > 1; }

  // Some steps of a panel, from step k on.
  void dequantize(int64_t panel, int64_t k, int64_t steps, float* to) const {
    const ProductCode& code = layout_.code;
    const int64_t width = code.panel_columns();
    std::array<int64_t, kProductArguments> arguments{};
    for (const int64_t end = k + steps; k < end;) {
      const int64_t block = k / code.scale_block, behind = std::min(end, (block + 1) * code.scale_block), scales = (panel * code.scale_blocks() + block) * width;
      arguments[kB] = address_of(weights_.raw()) + panel * code.weight_bytes(code.depth) + code.weight_bytes(k);
      arguments[kY] = address_of(to);
      arguments[kSteps] = (behind - k) / code.steps_of_word();
      arguments[kScale] = address_of(scales_.raw()) + bytes(scales);
      arguments[kColumnZeros] = code.has_zeros ? address_of(zeros_.raw()) + scales : 0;
      entries_[kDequantizeEntry](arguments.data());
      to += (behind - k) * width;
      k = behind;
    }
  }

  void run(KernelContext& context, const ProductPlan& plan) const {
    const bool is_integer = layout_.code.is_integer();
    const bool is_sum = is_integer && layout_.code.scale == Scale::None;
    const OutputRows y = context.allocate_output_rows(0, is_sum ? DType::I32 : layout_.code.result, plan.y_shape);
    std::array<int64_t, kProductArguments> arguments{};
    const Quantization quantization = is_integer ? quantization_of(context) : Quantization();
    arguments[kQuantization] = address_of(&quantization);
    arguments[kY] = address_of(y.tensor.raw());
    arguments[kB] = address_of(weights_.raw());
    if (is_integer) {
      prepare_integers(context, plan, arguments);
    } else if (!plan.gathers_blocks) {
      const float* a = context.input(0).data<float>().data();
      arguments[kA] = address_of(layout_.code.has_packed_rows ? pack_rows(context, plan, a) : plan.copies ? copy_rows(context, plan, a) : a);
    }
    if (layout_.code.takes_sizes()) {
      const InputRows pixels = context.input_rows(0);
      arguments[kAStride] = plan.taps ? plan.taps->place_stride() : reads_pixels_ && pixels.are_apart() ? pixels.stride : layout_.code.a_stride;
      arguments[kLines] = 1;
      arguments[kPanelStride] = layout_.code.depth * layout_.code.panel_columns();
    }
    arguments[kYStride] = plan.y_distance(y);
    for (size_t i = 0; i < 2; ++i) {
      if (layout_.code.epilogue.addends[i] == Addend::None) continue;
      arguments[kAddend0 + 2 * i] = address_of(context.input(2 + i).data<float>().data());
      arguments[kAddend0Stride + 2 * i] = plan.addend_strides[i];
    }
    if (layout_.code.residual) {
      arguments[kAddend1] = address_of(context.input(kResidualBytes).raw());
      arguments[kAddend1Stride] = plan.addend_strides[1];
    }
    if (plan.gathers_blocks) return run_gathered(context, plan, arguments);
    // A thread has whole rows where it can: those that it computed of the operand are in its cache, and the next kernel's will be.
    const int64_t tiles = plan.tiling.count, matrices = std::ssize(plan.matrices), threads = thread_count();
    const int64_t panels_of_part = has_few_weights() && matrices * tiles >= threads ? layout_.panels() : 1, panels = layout_.panels() / panels_of_part;
    // Several parts for each thread, so that all have about the same to do.
    constexpr int64_t kPartsOfThread = 4;
    const int64_t wanted = threads == 1 ? 1 : ceil_div(kPartsOfThread * threads, matrices * panels);
    const int64_t blocks = std::clamp(wanted, ceil_div(tiles, plan.tiles_of_block), tiles);
    // Reading weights takes as long as multiplying so many rows by them.
    constexpr int64_t kRowsOfReading = 8;
    const int64_t cost = std::clamp(plan.rows, kRowsOfReading, std::max(kRowsOfReading, ceil_div(tiles, blocks) * layout_.code.tile.rows)) *
                         layout_.code.depth * layout_.code.panel_columns() * panels_of_part;
    parallel_for(matrices * blocks * panels, grain_of(kWork, cost), [&](int64_t begin, int64_t end) {
      while (begin < end) {  // what lies in one block of one matrix at a time
        const int64_t block = begin / panels, first = begin % panels, count = std::min(panels - first, end - begin);
        const int64_t part = block % blocks;
        run_block(plan, arguments, block / blocks, tiles * part / blocks, tiles * (part + 1) / blocks, first * panels_of_part, count * panels_of_part);
        begin += count;
      }
    });
  }

  // Of one matrix, as pointwise convolutions are.
  void run_gathered(KernelContext& context, const ProductPlan& plan, const std::array<int64_t, kProductArguments>& arguments) const {
    const int64_t tiles = plan.tiling.count, stride = layout_.code.a_stride;
    const int64_t threads = thread_count(), rounds = ceil_div(ceil_div(tiles, plan.tiles_of_block), threads);
    const int64_t blocks = std::min(rounds * threads, tiles);
    const int64_t cost = plan.rows / blocks * layout_.code.depth * layout_.columns;
    const float* x = plan.gathered ? nullptr : context.input(0).data<float>().data();
    auto run_tiles = [&](int64_t first_tile, int64_t last_tile) {
      const int64_t row = plan.tiling.first_row(first_tile), rows = plan.tiling.first_row(last_tile) - row;
      Scratch<float> gathered(static_cast<size_t>(rows * stride));
      if (plan.gathered) {
        plan.gathered->gather(entries_[kGatherEntry], layout_.code.isa, context, row, rows, gathered.data(), stride);
      } else {
        plan.convolution->gather(x, row, rows, gathered.data(), stride);
      }
      std::array<int64_t, kProductArguments> of_tiles = arguments;
      of_tiles[kA] = address_of(gathered.data()) - bytes(row * stride);
      run_block(plan, of_tiles, 0, first_tile, last_tile, 0, layout_.panels());
    };
    parallel_for(blocks, grain_of(kWork, cost), [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) run_tiles(tiles * block / blocks, tiles * (block + 1) / blocks);
    });
  }

  static constexpr int64_t kWork = 1 << 20;  // multiply-adds; some ten microseconds

  static int64_t bytes(int64_t elements) { return elements * int64_t{sizeof(float)}; }

  void run_block(const ProductPlan& plan, std::array<int64_t, kProductArguments> arguments, int64_t matrix,
                 int64_t first_tile, int64_t last_tile, int64_t first_panel, int64_t count) const {
    const ProductPlan::Matrices& at = plan.matrices[static_cast<size_t>(matrix)];
    const int64_t width = layout_.code.panel_columns(), a_stride = layout_.code.takes_sizes() ? arguments[kAStride] : layout_.code.a_stride;
    const bool has_own_rows = plan.copies || layout_.code.is_integer();
    const int64_t a = arguments[kA] + bytes(has_own_rows || reads_pixels_ ? matrix * plan.rows * a_stride : at.a),
                  y_bytes = static_cast<int64_t>(element_bytes(layout_.code.result)),
                  y_stride = arguments[kYStride], y = arguments[kY] + plan.place_in_y(at, arguments[kYStride]) * y_bytes;
    const int64_t addend1_bytes = layout_.code.residual ? 1 : bytes(1);
    const std::array<int64_t, 2> addends{arguments[kAddend0] + bytes(at.addends[0]), arguments[kAddend1] + at.addends[1] * addend1_bytes};
    const std::array<int64_t, kProductArguments> of_integers = arguments;
    const int64_t weights = arguments[kB] + bytes(at.b * layout_.matrix_words()),
                  column_terms = arguments[kColumnTerms] + bytes(at.b * layout_.panels() * width);
    const bool dequantizes = dequantizes_before(plan);
    // Where there is one tile, all panels at once, and all of their depth, as nobody reads them again.
    const bool is_alone = last_tile - first_tile == 1 && !dequantizes && !plan.taps;
    const int64_t together = is_alone || (has_few_weights() && !dequantizes) ? count : 1, depth = layout_.code.depth,
                  block_depth = is_alone ? depth : layout_.code.block;
    const bool fetches_ahead = layout_.code.fetches_ahead && !is_alone && all_weight_bytes() > second_level_cache() / 2;  // few stay there from block to block
    // A tile of all panels reads its rows once: meanwhile come the next one's.
    const bool fetches_rows = !has_own_rows && !plan.taps && !plan.gathers_blocks && together > 1 && a_stride == depth;
    const int64_t first_row = plan.tiling.first_row(first_tile);
    const int64_t all_rows = plan.tiling.first_row(last_tile) - first_row;
    const int64_t rows_of_sums = block_depth < depth ? all_rows * count : layout_.code.has_blocks() ? layout_.code.tile.rows : 0;
    Scratch<float> sums(static_cast<size_t>(rows_of_sums * width));
    Scratch<float> dequantized(dequantizes ? static_cast<size_t>(block_depth * width) : 0);
    const int64_t steps_of_line = plan.taps ? plan.taps->steps_of_line() : 0;
    for (int64_t k = 0; k < depth; k += block_depth) {
      const int64_t steps = std::min(block_depth, depth - k), lines = plan.taps ? steps / steps_of_line : 1;
      const WindowAxis::Taps taps{plan.taps ? k / steps_of_line : 0, plan.taps ? k / steps_of_line + lines : 0};
      arguments[kSteps] = steps;
      arguments[kIsFirst] = k == 0;
      arguments[kIsLast] = k + block_depth >= depth;
      for (int64_t panel = first_panel; panel < first_panel + count; panel += together) {
        const int64_t column = panel * width;
        arguments[kColumns] = layout_.columns - column;
        arguments[kB] = weights + panel * layout_.code.weight_bytes(depth) + layout_.code.weight_bytes(k);
        arguments[kColumnTerms] = column_terms + bytes(column);
        arguments[kColumnZeros] = of_integers[kColumnZeros] + bytes(column);
        arguments[kScale] = of_integers[kScale] + (layout_.code.scale == Scale::Columns ? bytes(column) : 0);
        if (dequantizes) {
          dequantize(panel, k, steps, dequantized.data());
          arguments[kB] = address_of(dequantized.data());
        } else if (layout_.code.has_few_bits()) {
          const int64_t scales = column * layout_.code.scale_blocks();
          arguments[kScale] = address_of(scales_.raw()) + bytes(scales);
          arguments[kColumnZeros] = layout_.code.has_zeros ? address_of(zeros_.raw()) + scales : 0;
        }
        Fetches fetches;
        if (fetches_ahead && panel + 1 < layout_.panels())
          fetches = Fetches(arguments[kB] + layout_.code.weight_bytes(depth), steps / lines, lines, layout_.code, last_tile - first_tile);
        const int64_t of_panel = weights + panel * layout_.code.weight_bytes(depth);
        WindowTaps::Row row_of_windows;
        int64_t line = -1;
        for (int64_t tile = first_tile; tile < last_tile; ++tile) {
          const Tiling::Place place = plan.tiling.place(tile);
          const int64_t row = plan.tiling.row(place);
          arguments[kY] = y + (row * y_stride + column) * y_bytes;
          arguments[kAddend0] = addends[0] + bytes(row * plan.addend_strides[0] + column);
          arguments[kAddend1] = addends[1] + (row * plan.addend_strides[1] + column) * addend1_bytes;
          arguments[kRowTerms] = of_integers[kRowTerms] + bytes(matrix * plan.rows + row);
          arguments[kSums] = address_of(sums.data()) + (block_depth < depth ? bytes(((panel - first_panel) * all_rows + row - first_row) * width) : 0);
          fetches.give(tile - first_tile, arguments);
          if (plan.taps) {
            if (place.line != line) row_of_windows = plan.taps->row(line = place.line);
            run_windows(plan, arguments, a, of_panel, together, row_of_windows, place, taps);
            continue;
          }
          arguments[kA] = a + bytes(row * a_stride + (layout_.code.has_packed_rows ? k * place.rows : k));
          if (fetches_rows && tile + 1 < last_tile) fetch_rows(arguments[kA] + bytes(place.rows * a_stride), plan.tiling.rows_of(tile + 1));
          run_rows(place.rows, together, arguments, dequantizes);
        }
      }
    }
  }

  // Dense rows of A, from the first one's address on, into the second-level cache. Where they come from beyond it, products by 64 to 512 columns take .8 to .95 of the
  // time so.
  void fetch_rows(int64_t address, int64_t count) const {
    const auto* first = reinterpret_cast<const std::byte*>(address);
    for (int64_t i = 0; i < bytes(count * layout_.code.depth); i += kCacheLineBytes) __builtin_prefetch(first + i, 0, 2);
  }

  // A tile of windows, of some lines of their taps, and so many panels from `panel` on. `arguments`: as other products have them, but
  // for the image and the panel.
  void run_windows(const ProductPlan& plan, std::array<int64_t, kProductArguments>& arguments, int64_t image, int64_t panel, int64_t panels,
                   const WindowTaps::Row& row, const Tiling::Place& place, WindowAxis::Taps block) const {
    const WindowTaps& taps = *plan.taps;
    const ProductCode& code = layout_.code;
    const WindowAxis::Taps lines{std::max(row.lines.first, block.first), std::min(row.lines.last, block.last)};
    const bool adds_runs = taps.adds_runs(place.first_row, place.rows), is_first_block = block.first == 0, is_last_block = block.last == taps.lines();
    arguments[kIsFirst] = !adds_runs && (row.sees_nothing() ? is_first_block : lines.first == row.lines.first);
    arguments[kIsLast] = !adds_runs && (row.sees_nothing() ? is_first_block : lines.last == row.lines.last);
    const int64_t y = arguments[kY], addend0 = arguments[kAddend0], addend1 = arguments[kAddend1], columns = arguments[kColumns], sums = arguments[kSums],
                  lines_of_fetch = arguments[kLinesOfFetch], width = code.panel_columns();
    const int64_t together = adds_runs ? 1 : panels;
    auto go_to = [&](int64_t number, int64_t first_place) {  // a panel
      arguments[kY] = y + bytes(first_place * arguments[kYStride] + number * width);
      arguments[kAddend0] = addend0 + bytes(first_place * plan.addend_strides[0] + number * width);
      arguments[kAddend1] = addend1 + bytes(first_place * plan.addend_strides[1] + number * width);
      arguments[kColumns] = columns - number * width;
      arguments[kSums] = sums + bytes(first_place * width);
    };
    for (int64_t number = 0; number < panels; number += together, panel += code.weight_bytes(code.depth)) {
      if (adds_runs && is_first_block) std::memset(reinterpret_cast<void*>(sums), 0, static_cast<size_t>(bytes(place.rows * width)));
      if (lines.first < lines.last || (row.sees_nothing() && is_first_block)) {
        taps.for_each_run(row, place.first_row, place.rows, lines, [&](const WindowTaps::Run& run) {
          go_to(number, run.first_place);
          arguments[kA] = image + bytes(run.from);
          arguments[kB] = panel + code.weight_bytes(run.step);
          arguments[kLines] = run.lines;
          arguments[kLineStride] = run.line_stride;
          arguments[kLineSteps] = run.line_steps;
          arguments[kSteps] = run.steps;
          arguments[kLinesOfFetch] = run.steps == taps.steps_of_line() ? lines_of_fetch : 0;
          run_rows(static_cast<int>(run.places), together, arguments);
        });
      }
      if (!adds_runs || !is_last_block) continue;
      go_to(number, 0);
      arguments[kLines] = 0;  // the end of the sums alone
      arguments[kIsLast] = 1;
      run_rows(place.rows, 1, arguments);
      arguments[kIsLast] = 0;
    }
    arguments[kColumns] = columns;
  }

  // So many panels of a tile.
  void run_rows(int rows, int64_t panels, std::array<int64_t, kProductArguments>& arguments, bool are_dequantized = false) const {
    const int at_once = layout_.code.panels_at_once(rows);
    arguments[kGroups] = panels / at_once;
    arguments[kRest] = panels % at_once;
    entries_[are_dequantized ? entry_of_dequantized(rows) : rows](arguments.data());
  }

  // Rows of A as words, and what the sums of them have too much.
  void prepare_integers(KernelContext& context, const ProductPlan& plan,
                        std::array<int64_t, kProductArguments>& arguments) const {
    const IntegerOperands& integers = layout_.integers;
    const int64_t depth = layout_.depth, stride = layout_.code.a_stride, rows = plan.all_rows(),
                  columns = layout_.panels() * layout_.code.panel_columns();
    const auto* from = static_cast<const std::byte*>(context.input(0).raw());
    const std::span<int32_t> row_terms = context.workspace_of<int32_t>(static_cast<size_t>(rows));
    const std::span<int32_t> column_terms = context.workspace_of<int32_t>(static_cast<size_t>(plan.weights * columns));
    const std::span<int32_t> words = context.workspace_of<int32_t>(plan.copies ? static_cast<size_t>(rows * stride) : 0);
    const std::span<int32_t> extended = context.workspace_of<int32_t>(static_cast<size_t>(integers.words(plan.extended_parts)));
    const Tensor* zero_point = context.optional_input(kZeroOfA);
    const int32_t zero_of_a = zero_point ? byte_element(*zero_point, 0) : 0, zero = zero_of_a + integers.added_to_a();
    if (has_constant_weights_) {
      const int32_t* sums = columns_.data<int32_t>().data();
      for (int64_t n = 0; n < columns; ++n) column_terms[static_cast<size_t>(n)] = -zero * sums[n];
      arguments[kColumnZeros] = address_of(sums + columns);
    } else {
      pack_matrices(context, plan, zero, column_terms, arguments);
    }
    if (!extended.empty()) plan.convolution->extend(integers, from, zero_of_a, extended.data());
    const std::byte* const a = plan.copies ? reinterpret_cast<const std::byte*>(words.data()) : from;
    auto pack_row = [&](int64_t i) {
      int32_t* row = words.data() + i * stride;
      if (plan.convolution) return plan.convolution->pack(integers, from, i, zero_of_a, row);
      const ProductPlan::Matrices& matrix = plan.matrices[static_cast<size_t>(i / plan.rows)];
      integers.pack(from + matrix.a + i % plan.rows * plan.a_stride, depth, plan.a_step, row, 0);
      integers.finish_row(row, depth);
    };
    constexpr int64_t kWork = 1 << 16;
    parallel_for(rows, grain_of(kWork, depth), [&](int64_t begin, int64_t end) {
      if (plan.copies && plan.has_dense_words) {
        integers.pack(from + begin * depth, (end - begin) * depth, 1, words.data(), begin * depth);
      } else if (!extended.empty()) {
        auto* to = reinterpret_cast<std::byte*>(words.data() + begin * stride);
        plan.convolution->pack_extended(integers, extended.data(), begin, end, to, bytes(stride));
      } else if (plan.copies) {
        for (int64_t i = begin; i < end; ++i) pack_row(i);
      }
      if (!layout_.code.has_column_zeros) return;
      for (int64_t i = begin; i < end; ++i)
        row_terms[static_cast<size_t>(i)] = integers.sum(a + bytes(i * stride), depth) - static_cast<int32_t>(depth) * zero;
    });
    arguments[kA] = address_of(a);
    arguments[kRowTerms] = address_of(row_terms.data());
    arguments[kColumnTerms] = address_of(column_terms.data());
    if (layout_.code.scale != Scale::None) arguments[kScale] = address_of(context.input(kScales).raw());
  }

  // Weights that are no constant.
  void pack_matrices(KernelContext& context, const ProductPlan& plan, int32_t zero, std::span<int32_t> column_terms,
                     std::array<int64_t, kProductArguments>& arguments) const {
    const int64_t panels = layout_.panels(), width = layout_.code.panel_columns(), panel_words = layout_.code.depth * width;
    const std::span<int32_t> words = context.workspace_of<int32_t>(static_cast<size_t>(plan.weights * layout_.matrix_words()));
    const std::span<int32_t> zeros = context.workspace_of<int32_t>(static_cast<size_t>(panels * width));
    const auto* from = static_cast<const std::byte*>(context.input(1).raw());
    constexpr int64_t kWork = 1 << 16;
    parallel_for(plan.weights * panels, grain_of(kWork, layout_.depth * width), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int32_t* sums = column_terms.data() + i * width;
        layout_.integers.pack_panel(from + i / panels * layout_.depth * layout_.columns, matrix_, i % panels, width, words.data() + i * panel_words, sums);
        for (int64_t n = 0; n < width; ++n) sums[n] *= -zero;
      }
    });
    layout_.integers.zeros_of_columns(context.optional_input(kZeroOfB), layout_.columns, zeros.data());
    std::fill(zeros.begin() + layout_.columns, zeros.end(), 0);
    arguments[kB] = address_of(words.data());
    arguments[kColumnZeros] = address_of(zeros.data());
  }

  // Tile by tile, step by step.
  const float* pack_rows(KernelContext& context, const ProductPlan& plan, const float* from) const {
    const int64_t depth = layout_.code.depth, tiles = plan.tiling.count;
    auto* to = static_cast<float*>(context.workspace(static_cast<size_t>(bytes(plan.copied))));
    constexpr int64_t kWork = 1 << 14;
    parallel_for(std::ssize(plan.matrices) * tiles, grain_of(kWork, depth * layout_.code.tile.rows), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t matrix = i / tiles, row = plan.tiling.first_row(i % tiles), rows = plan.tiling.rows_of(i % tiles);
        const float* a = from + plan.matrices[static_cast<size_t>(matrix)].a + row * plan.a_stride;
        kPackTile[static_cast<size_t>(rows)](a, plan.a_stride, plan.a_step, depth, to + (matrix * plan.rows + row) * depth);
      }
    });
    return to;
  }

  const float* copy_rows(KernelContext& context, const ProductPlan& plan, const float* from) const {
    const int64_t depth = layout_.code.depth, stride = layout_.code.a_stride,
                  rows = std::ssize(plan.matrices) * plan.rows;
    auto* to = static_cast<float*>(context.workspace(static_cast<size_t>(bytes(plan.copied))));
    constexpr int64_t kWork = 1 << 14;
    parallel_for(rows, grain_of(kWork, depth), [&](int64_t begin, int64_t end) {
      if (plan.convolution) return plan.convolution->gather(from, begin, end - begin, to + begin * stride, stride);
      for (int64_t i = begin; i < end; ++i) {
        const float* row = from + plan.matrices[static_cast<size_t>(i / plan.rows)].a + i % plan.rows * plan.a_stride;
        if (plan.a_step == 1) {
          std::memcpy(to + i * stride, row, static_cast<size_t>(bytes(depth)));
        } else {
          for (int64_t k = 0; k < depth; ++k) to[i * stride + k] = row[k * plan.a_step];
        }
      }
    });
    return to;
  }

  // What does not fit, or is empty: the reference kernel has words for it. It reads the weights as they were.
  void run_reference(KernelContext& context) const {
    std::array<Datum, 3> packed;  // weights; of few bits: scales and zero points
    if (layout_.code.has_few_bits()) {
      std::ranges::transform(unpack_few_bits(data_, matrix_, layout_), packed.begin(), [](const Tensor& tensor) { return tensor.defined() ? Datum(tensor) : Datum(); });
    } else {
      packed[0] = has_constant_weights_ ? Datum(unpack_weights(data_, matrix_, layout_)) : context.input_datum(1);
    }
    std::vector<const Datum*> inputs;
    for (size_t i = 0; i < context.num_inputs(); ++i) {
      const bool is_of_few_bits = layout_.code.has_few_bits() && i >= kScalesOfB;
      inputs.push_back(i == 1 ? &packed[0] : is_of_few_bits ? &packed[i - kScalesOfB + 1] : &context.input_datum(i));
    }
    kernels::run_reference(context, data_.op, inputs);
  }

  KernelData& data_;
  ProductAttributes attributes_;
  ProductLayout layout_;
  StridedOperand matrix_;
  bool has_constant_weights_;
  bool reads_pixels_ = false, gathers_pixels_ = false;  // in all runs; the former are the rows of A, where they lie
  Tensor weights_, columns_;  // of constant weights
  Tensor scales_, zeros_;     // of those of few bits
  CodeEntries entries_;
};

// Whether the weights are read for a few rows only.
bool has_few_rows(const KernelData& data, const ProductLayout& layout) {
  constexpr int64_t kFewRows = 8;
  if (data.op != kConvolution) return element_count(*data.input(0).shape) <= kFewRows * layout.depth;
  const std::optional<ConvolutionRows> rows = ConvolutionRows::resolve(data.attributes, input_shapes(data));
  return rows && rows->count() <= kFewRows;
}

// Whether windows are rather read by our code, as pixels are. It takes .95 to 1.05 of the library's time with AVX-512, .7 to 1.1 by AVX2, and no primitives need be
// made. Of few channels and columns a call has little to do, for which AVX-512 does not pay.
bool prefers_generated_windows(const ProductLayout& layout, const Shape& weights) {
  constexpr int64_t kFewColumns = 24, kFewChannels = 16;
  constexpr size_t kAxes = 2;
  if (layout.taps == 1) return true;
  if (weights.size() > kAxes + 2) return false;  // they are gathered
  return layout.code.isa != Isa::Avx512 || weights[1] >= kFewChannels || layout.columns > kFewColumns;
}

}  // namespace

bool prefers_generated_product(const KernelData& data) {
  // Columns below which the last panel would be mostly empty: a product by a matrix is rather the library's, unless half registers have them.
  constexpr int64_t kFewestColumns = 16;
  const InputDescription &rows = data.input(0), &weights = data.input(1);
  const bool is_convolution = data.op == kConvolution;
  if (data.op == kIntegerProduct || data.op == kIntegerConvolution || data.op == kPointwise) return true;
  if (weights.dtype != rows.dtype) return true;  // half precision, which no library reads beside f32
  if (is_convolution && (!weights.constant.defined() || prefers_winograd(data) || prefers_grouped_convolution(data))) return false;
  if (!rows.is_static()) return true;
  const std::optional<ProductLayout> layout = lay_out_product(data, ProductAttributes(data));
  if (!layout) return false;
  const IsaDescription& isa = describe(layout->code.isa);
  // The library takes time and memory in proportion to the length of a line of windows to make a primitive: two seconds for a vocoder.
  if (is_convolution && weights.constant.shape().size() == 3 && isa.has_fma) return true;
  const bool has_costly_epilogue = is_costly(layout->code.epilogue.activation);
  if (layout->columns < kFewestColumns && !is_convolution) return (layout->code.has_half_vectors && !has_costly_epilogue) || has_few_rows(data, *layout);
  if (is_convolution && isa.has_fma && prefers_generated_windows(*layout, weights.constant.shape())) return true;
  // oneDNN 3.2's products by AVX2 wait for weights from memory.
  if (layout->code.isa == Isa::Avx2 && !is_convolution) return true;
  return (isa.has_fma && has_costly_epilogue) || has_few_rows(data, *layout);
}

std::unique_ptr<PreparedKernel> prepare_product(KernelData& data, ProductGenerator generate) {
  if (data.op == "Gemm" && data.input(2).present && data.attributes.get_float("beta", 1) != 1) return nullptr;
  ProductAttributes attributes(data);
  std::optional<ProductLayout> layout = lay_out_product(data, attributes);
  if (!layout) return nullptr;
  StridedOperand matrix = *weights_matrix(data, attributes);
  auto kernel = std::make_unique<GeneratedProduct>(data, std::move(attributes), std::move(*layout), std::move(matrix));
  return kernel->prepare(generate) ? std::move(kernel) : nullptr;
}

}  // namespace anfora::kernels::generated

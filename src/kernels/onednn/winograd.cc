// Convolutions through Winograd's minimal filtering: a quarter of the multiplications for windows of 3×3 points, half of them and fewer for lines of 3, 5 or 7
// (generated/winograd_window.h).
//
// By F(4×4, 3×3) the output is cut into tiles of 4×4 points, each of which depends on 6×6 points of the input. Transformed by Bᵀ d B, those of
// all tiles are 36 matrices [tiles, C], and the convolution is a product of each with one of the weights [C, K], transformed by G g Gᵀ;
// Aᵀ m A takes the products back:
//
//      x ──Bᵀ·B──▶ 36 × [tiles, C] ── × [C, K] ──▶ 36 × [tiles, K] ──Aᵀ·A──▶ y        36 multiplications for 16 points, not 144
//                               W ──G·Gᵀ──┘
//
// Lines, F(4, 3), F(4, 5) and F(2, 7), are transformed along one axis: Bᵀ d, G g and Aᵀ m, of 6 or 8 matrices.
//
// The three steps are done for a block of tiles at a time, so that what lies between them stays in a thread's second-level cache.
// Few tiles are one block, of which each thread does a part in each step. The products are by generated code (panel_products.h), whose
// tiles of rows divide the blocks: a library's product of 36 small matrices took up to twice as long.
//
// The matrices of the weights would take up to four times the memory of W. So a block makes them of W, panel by panel, in the cache, a group of the matrices at
// a time; meanwhile it fetches the next panel. Reading a quarter from memory pays for the making, measured in whole models. A thread keeps
// the matrices of small W from block to block.
//
// A window of several frames, as of a video or a volume, is a sum of windows of images, and one of more taps than a tile's is a sum of its pieces. The channels of
// all lie side by side in the rows of the matrices, so that one product adds them.
//
// Of six points 0, ±5/8, ±3/2 and infinity, and of eight 0, ±1/2, ±1, ±2 and infinity keep the largest error within four times that of the direct sum; 0, ±1 and
// ±2, which Lavin and Gray take ("Fast algorithms for convolutional neural networks", 2016) for squares, are several times worse there.
//
// The result equals the direct sum over the reals only; a lowered operator with `direct` asks for the sum itself. Where an input is
// infinite or NaN, all of a tile would be NaN: such tiles are computed again, as sums.
#include "kernels/onednn/winograd.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "kernels/generated/panel_products.h"
#include "kernels/generated/product_layout.h"
#include "kernels/generated/winograd_window.h"
#include "kernels/onednn/epilogue.h"
#include "kernels/onednn/families.h"
#include "kernels/onednn/primitive.h"
#include "kernels/onednn/winograd_transforms.h"
#include "kernels/reference/panels.h"
#include "kernels/reference/window.h"
#include "support/cache_size.h"
#include "support/lasting_memory.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels::onednn {
namespace {

using generated::PanelProducts, generated::WinogradForm, generated::WinogradShape, generated::WinogradWindow;

// W, [K, C, frames, taps…], in panels [frames · C][taps][width].
class WindowPanels {
 public:
  WindowPanels(const Shape& weights, int64_t frames, int64_t width)
      : columns_(weights[0]), C_(weights[1]), frames_(frames), taps_(element_count(weights) / (columns_ * C_ * frames)), width_(width) {}

  Tensor pack(const Tensor& weights) const {
    Tensor result = LastingMemory::allocate(DType::F32, Shape{ceil_div(columns_, width_) * elements() });
    pack_rows(weights, steps(), width_, result);
    return result;
  }
  Tensor unpack(const Tensor& panels, const Shape& shape) const {
    Tensor weights = Tensor::allocate(DType::F32, shape);
    unpack_panels(DType::F32, {columns_, C_ * frames_ * taps_}, steps(), width_, panels.raw(), weights.raw());
    return weights;
  }
  std::vector<int64_t> layout() const { return {taps_, C_ * frames_, columns_, width_}; }

 private:
  int64_t elements() const { return C_ * frames_ * taps_ * width_; }  // of a panel
  std::array<StridedAxis, 3> steps() const { return {StridedAxis{frames_, taps_}, StridedAxis{C_, frames_ * taps_}, StridedAxis{taps_, 1}}; }

  int64_t columns_, C_, frames_, taps_, width_;
};

// Tiles from `first` on.
struct TileBlock {
  int64_t first, count;
};

class WinogradInstance : public ShapedKernel::Instance {
 public:
  WinogradInstance(const WinogradShape& shape, const StraightPieces& activation, const PanelProducts& products, const Tensor& weights)
      : s_(shape), zeros_(static_cast<size_t>(shape.groups * shape.C)), activation_(activation), products_(products), weights_(weights) {
    const int64_t tiles = s_.tiles(), threads = thread_count();
    // Of what a block takes of the second-level cache, beside the weights that stream through it.
    const int64_t bytes_of_tile = s_.form.matrices() * (products.a_stride() + products.y_stride()) * int64_t{sizeof(float)};
    const int64_t most = std::max(second_level_cache() / bytes_of_tile, kFewestTiles);
    const int64_t bytes_of_weights = s_.form.matrices() * products.depth() * products.y_stride() * int64_t{sizeof(float)};
    keeps_weights_ = bytes_of_weights <= second_level_cache() / 4;
    is_shared_ = tiles < threads * kFewestTiles;
    int64_t blocks = 1;
    if (!is_shared_) {
      const int64_t rounds = ((tiles + most - 1) / most + threads - 1) / threads;
      blocks = std::min(rounds, tiles / kFewestTiles / threads) * threads;
    }
    for (int64_t i = 0; i < blocks; ++i) {
      const TileBlock block = part(tiles, i, blocks);
      if (block.count > 0) blocks_.push_back(block);
      most_tiles_ = std::max(most_tiles_, block.count);
    }
    is_unbounded_.resize(static_cast<size_t>(tiles));
  }

  void set_activation(const dnnl::post_ops& operations) {
    const dnnl::primitive_attr none = own_scratchpad();
    dnnl::algorithm algorithm{};
    float alpha = 0, beta = 0;
    operations.get_params_eltwise(0, algorithm, alpha, beta);
    y_ = handle(channels_last(Shape{s_.images(), s_.K, s_.down.output, s_.across.output}, memory::data_type::f32));
    const dnnl::eltwise_forward::primitive_desc pd(cpu(), dnnl::prop_kind::forward_inference, algorithm, y_.get_desc(),
                                                   y_.get_desc(), alpha, beta, none);
    other_activation_ = dnnl::eltwise_forward(pd);
    activation_arguments_ = {{DNNL_ARG_SRC, y_}, {DNNL_ARG_DST, y_}};
    add_scratchpad(pd.scratchpad_desc(), activation_arguments_);
  }

  void execute(KernelContext& context) override {
    Operands operands;
    const InputRows x = context.input_rows(0);
    operands.x = x.tensor.data<float>().data();
    operands.x_distance = x.stride;
    if (const Tensor* bias = context.optional_input(2)) operands.bias = bias->data<float>().data();
    if (const Tensor* addend = context.optional_input(3)) operands.addend = addend->data<float>().data();
    const OutputRows y = context.allocate_output_rows(0, DType::F32, s_.y);
    operands.y = y.tensor.data<float>().data();
    operands.y_distance = y.stride;
    has_unbounded_ = false;
    is_shared_ ? run_together(operands) : run_blocks(operands);
    if (has_unbounded_) sum_unbounded(operands);
    if (!other_activation_) return;
    point(y_, y.tensor);
    onednn::execute(other_activation_, activation_arguments_);
  }

 private:
  static constexpr int64_t kFewestTiles = 24;  // for which a block makes the matrices of the weights

  struct Operands {
    const float *x = nullptr, *bias = nullptr, *addend = nullptr;
    float* y = nullptr;
    int64_t x_distance = 0, y_distance = 0;  // elements from point to point
  };

  static int64_t odd_lines(int64_t elements) {
    constexpr int64_t kLine = generated::kLineElements;
    return ((elements + kLine - 1) / kLine | 1) * kLine;
  }

  // What lies between the steps. Matrices are an odd number of lines apart, so that a tile's rows of them share no set of the cache.
  class Between {
   public:
    Between(const WinogradForm& form, const PanelProducts& products, int64_t tiles)
        : a_distance(odd_lines(tiles * products.a_stride())),
          y_distance(odd_lines(tiles * products.y_stride())),
          transformed_(static_cast<size_t>(form.matrices() * a_distance)),
          products_(static_cast<size_t>(form.matrices() * y_distance)) {}
    float* transformed() { return transformed_.data(); }
    float* products() { return products_.data(); }
    const int64_t a_distance, y_distance;

   private:
    Scratch<float> transformed_, products_;
  };

  // The transformed weights: of a group of a panel at a time, or all that there are where they stay in the cache from block to block.
  class Weights {
   public:
    explicit Weights(const WinogradInstance& instance)
        : instance_(instance),
          distance_(odd_lines(instance.products_.depth() * instance.products_.width())),
          matrices_(static_cast<size_t>((instance.keeps_weights_ ? instance.groups() : 1) * instance.transforms_.count * distance_)) {}

    // The first matrix of a group, counted from those of the first panel on; the others are distance() elements apart.
    const float* of_group(int64_t group) {
      const int64_t groups = instance_.transforms_.groups;
      float* to = matrices_.data() + (instance_.keeps_weights_ ? group * instance_.transforms_.count * distance_ : 0);
      if (instance_.keeps_weights_ && group < kept_) return to;
      instance_.weigh(group / groups, group % groups, to, distance_);
      kept_ = group + 1;
      return to;
    }
    int64_t distance() const { return distance_; }

   private:
    const WinogradInstance& instance_;
    const int64_t distance_;
    int64_t kept_ = 0;  // groups
    Scratch<float> matrices_;
  };

  // One of so many parts of tiles, about alike: rows of the matrices, of which the code's tiles are whole.
  TileBlock part(int64_t tiles, int64_t i, int64_t parts) const {
    const int64_t count = products_.tiles_of(tiles), first = products_.first_row(tiles, count * i / parts);
    return {first, products_.first_row(tiles, count * (i + 1) / parts) - first};
  }

  // Each block by one thread.
  void run_blocks(const Operands& operands) {
    parallel_for(std::ssize(blocks_), 1, [&](int64_t begin, int64_t end) {
      Between between(s_.form, products_, most_tiles_);
      Weights weights(*this);
      for (int64_t i = begin; i < end; ++i) {
        const TileBlock& block = blocks_[static_cast<size_t>(i)];
        for (int64_t tile = 0; tile < block.count; ++tile) transform(operands, block, tile, between);
        multiply({0, block.count}, between, weights, 0, groups());
        for (int64_t tile = 0; tile < block.count; ++tile) gather(operands, block, tile, between);
      }
    });
  }

  // The only block by all threads.
  void run_together(const Operands& operands) {
    const TileBlock& block = blocks_[0];
    Between between(s_.form, products_, block.count);
    parallel_for(block.count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) transform(operands, block, tile, between);
    });
    // More threads than groups share the tiles of one, and make its matrices each.
    const int64_t parts = std::clamp<int64_t>(thread_count() / groups(), 1, products_.tiles_of(block.count));
    parallel_for(groups() * parts, 1, [&](int64_t begin, int64_t end) {
      Weights weights(*this);
      for (int64_t i = begin; i < end; ++i) {
        multiply(part(block.count, i % parts, parts), between, weights, i / parts, i / parts + 1);
      }
    });
    parallel_for(block.count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) gather(operands, block, tile, between);
    });
  }

  // Of W.
  int64_t elements_of_channel() const { return s_.taps() * products_.width(); }
  int64_t elements_of_panel() const { return s_.frames.kernel * s_.C * elements_of_channel(); }
  const float* panel(int64_t i) const { return weights_.data<float>().data() + i * elements_of_panel(); }

  // Calls f(frame, first tap down, first tap across, number) for the pieces of a window.
  template <class F>
  void for_each_piece(const F& f) const {
    int64_t number = 0;
    for (int64_t frame = 0; frame < s_.frames.kernel; ++frame) {
      for (int64_t down = 0; down < s_.pieces_down(); ++down) {
        for (int64_t across = 0; across < s_.pieces_across(); ++across) f(frame, down * s_.form.taps, across * s_.form.taps, number++);
      }
    }
  }

  // The matrices of a panel's group.
  void weigh(int64_t i, int64_t group, float* to, int64_t distance) const {
    static constexpr std::array<float, kWidestWinogradPanel> kNoTap{};
    const int64_t taps_down = s_.form.axes == 2 ? s_.form.taps : 1;
    for_each_piece([&](int64_t frame, int64_t down, int64_t across, int64_t piece) {
      WinogradPanel weights{.taps = {}, .depth = s_.C, .width = products_.width()};
      for (int64_t tap = 0; tap < taps_down * s_.form.taps; ++tap) {
        const int64_t row = down + tap / s_.form.taps, column = across + tap % s_.form.taps;
        const bool exists = row < s_.down.kernel && column < s_.across.kernel;
        const int64_t first = frame * s_.C * elements_of_channel() + (row * s_.across.kernel + column) * products_.width();
        weights.taps[static_cast<size_t>(tap)] = exists ? WinogradPanel::Tap{panel(i) + first, elements_of_channel()} : WinogradPanel::Tap{kNoTap.data(), 0};
      }
      transforms_.weigh(weights, group, to + piece * s_.C * products_.width(), distance);
    });
  }

  // Some tiles of a block by some groups of matrices.
  int64_t groups() const { return products_.panels() * transforms_.groups; }
  void multiply(const TileBlock& tiles, Between& between, Weights& weights, int64_t first, int64_t last) const {
    const int64_t matrices = s_.form.matrices();
    for (int64_t group = first; group < last; ++group) {
      const int64_t i = group / transforms_.groups;
      const float* of_group = weights.of_group(group);
      for (int64_t j = 0; j < transforms_.count; ++j) {
        const int64_t matrix = transforms_.numbers[static_cast<size_t>(group % transforms_.groups * transforms_.count + j)];
        PanelProducts::Operands product{.a = between.transformed() + matrix * between.a_distance + tiles.first * products_.a_stride() + products_.group_of(i) * products_.depth(),
                                        .b = of_group + j * weights.distance(),
                                        .y = between.products() + matrix * between.y_distance + tiles.first * products_.y_stride() + i * products_.width(),
                                        .rows = tiles.count};
        // A part of the next panel with each matrix.
        if (!keeps_weights_ && i + 1 < products_.panels()) product.next = {panel(i + 1) + matrix * elements_of_panel() / matrices, elements_of_panel() * int64_t{sizeof(float)} / matrices};
        products_.multiply(product);
      }
    }
  }

  // The first point of a tile of y.
  struct Place {
    int64_t image, down, across;  // images are those of all frames
  };
  Place place_of(int64_t tile) const {
    const int64_t across = s_.tiles_across(), down = s_.tiles_down();
    return {tile / (across * down), s_.down.first(tile / across % down, s_.results_down()), s_.across.first(tile % across, s_.form.results)};
  }

  // Elements.
  int64_t place_in_x(const Operands& operands, int64_t image, int64_t down, int64_t across) const {
    return (image * s_.x_image + down * s_.down.x_stride + across * s_.across.x_stride) * operands.x_distance;
  }

  // The patches of a tile to its row of each of the matrices.
  void transform(const Operands& operands, const TileBlock& block, int64_t tile, Between& between) const {
    const Place place = place_of(block.first + tile);
    const int64_t patch_down = s_.form.axes == 2 ? s_.form.patch() : 1;
    float* to = between.transformed() + tile * products_.a_stride();
    const int64_t row_stride = s_.down.dilation * s_.down.x_stride * operands.x_distance, column_stride = s_.across.dilation * s_.across.x_stride * operands.x_distance;
    for_each_piece([&](int64_t frame, int64_t down, int64_t across, int64_t piece) {
      std::array<const float*, kMostWinogradMatrices> points;
      const std::optional<int64_t> image = s_.image_of_x(place.image, frame);
      const int64_t row = place.down - s_.down.pad + down * s_.down.dilation, column = place.across - s_.across.pad + across * s_.across.dilation;
      const float* corner = operands.x + place_in_x(operands, image.value_or(0), row, column);
      const bool is_inside = image && s_.down.has(row, patch_down) && s_.across.has(column, s_.form.patch());
      size_t count = 0;
      for (int64_t r = 0; r < patch_down; ++r) {
        for (int64_t q = 0; q < s_.form.patch(); ++q) {
          const bool exists = is_inside || (image && s_.down.has(row + r * s_.down.dilation) && s_.across.has(column + q * s_.across.dilation));
          points[count++] = exists ? corner + r * row_stride + q * column_stride : zeros_.data();
        }
      }
      // In a row of a matrix are [groups, pieces, C].
      if (s_.pieces() == 1) return transforms_.spread(points.data(), s_.groups * s_.C, to, between.a_distance);
      for (int64_t group = 0; group < s_.groups; ++group) {
        for (size_t i = 0; group > 0 && i < count; ++i) points[i] += s_.C;
        transforms_.spread(points.data(), s_.C, to + (group * s_.pieces() + piece) * s_.C, between.a_distance);
      }
    });
  }

  // Points from the first one of y.
  int64_t place_in_y(const Place& place) const { return place.image * s_.y_image + place.down * s_.down.y_stride + place.across * s_.across.y_stride; }

  // The tile of y from its row of each of the products.
  void gather(const Operands& operands, const TileBlock& block, int64_t tile, Between& between) {
    const Place place = place_of(block.first + tile);
    const int64_t first = place_in_y(place), row_stride = s_.down.dilation * s_.down.y_stride, column_stride = s_.across.dilation * s_.across.y_stride;
    auto in_y = [&](int64_t points) { return points * operands.y_distance; };
    const bool is_bounded = transforms_.gather({.from = between.products() + tile * products_.y_stride(),
                                                .distance = between.y_distance,
                                                .channels = s_.K,
                                                .bias = operands.bias,
                                                .addend = {operands.addend ? operands.addend + first * s_.K : nullptr, row_stride * s_.K, column_stride * s_.K},
                                                .y = {operands.y + in_y(first), in_y(row_stride), in_y(column_stride)},
                                                .rows = s_.down.count(place.down, s_.results_down()),
                                                .columns = s_.across.count(place.across, s_.form.results),
                                                .activation = activation_});
    is_unbounded_[static_cast<size_t>(block.first + tile)] = !is_bounded;
    if (!is_bounded) has_unbounded_ = true;
  }

  void sum_unbounded(const Operands& operands) const {
    parallel_for(s_.tiles(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) {
        if (is_unbounded_[static_cast<size_t>(tile)]) sum(operands, tile);
      }
    });
  }

  // A tap of a window that sees the input: where its channels lie, and its weights in a panel.
  struct SeenTap {
    const float* from;
    int64_t weights;
  };

  // The sums of a window for the columns of a panel. Where the window sees a NaN, all are NaN.
  void sum_panel(std::span<const SeenTap> taps, int64_t i, float* sums) const {
    using Columns [[gnu::vector_size(32)]] = float;
    constexpr int64_t kColumns = sizeof(Columns) / sizeof(float);  // of which all panels have a multiple
    const int64_t channels = s_.C, first_channel = products_.group_of(i) * channels;
    bool sees_nan = false;
    for (const SeenTap& tap : taps) {
      for (int64_t c = 0; c < channels; ++c) sees_nan |= std::isnan(tap.from[first_channel + c]);
    }
    if (sees_nan) {
      std::fill_n(sums, products_.width(), std::numeric_limits<float>::quiet_NaN());
      return;
    }
    for (int64_t k = 0; k < products_.width(); k += kColumns) {
      Columns sum{};
      for (const SeenTap& tap : taps) {
        const float* line = panel(i) + tap.weights + k;
        for (int64_t c = 0; c < channels; ++c, line += elements_of_channel()) {
          Columns weights;
          std::memcpy(&weights, line, sizeof weights);
          sum += tap.from[first_channel + c] * weights;
        }
      }
      std::memcpy(sums + k, &sum, sizeof sum);
    }
  }

  // The tile of y by the definition.
  void sum(const Operands& operands, int64_t tile) const {
    const Place first = place_of(tile);
    for (int64_t i = 0; i < s_.down.count(first.down, s_.results_down()); ++i) {
      for (int64_t j = 0; j < s_.across.count(first.across, s_.form.results); ++j) {
        sum(operands, {first.image, first.down + i * s_.down.dilation, first.across + j * s_.across.dilation});
      }
    }
  }
  void sum(const Operands& operands, const Place& place) const {
    const int64_t width = products_.width();
    ScratchVector<SeenTap> taps;
    for (int64_t tap = 0; tap < s_.frames.kernel * s_.taps(); ++tap) {
      const int64_t frame = tap / s_.taps(), point = tap % s_.taps();
      const int64_t down = place.down - s_.down.pad + point / s_.across.kernel * s_.down.dilation;
      const int64_t across = place.across - s_.across.pad + point % s_.across.kernel * s_.across.dilation;
      const std::optional<int64_t> image = s_.image_of_x(place.image, frame);
      if (!image || !s_.down.has(down) || !s_.across.has(across)) continue;
      taps.push_back({operands.x + place_in_x(operands, *image, down, across), frame * s_.C * elements_of_channel() + point * width});
    }
    Scratch<float> sums(static_cast<size_t>(products_.y_stride()));
    for (int64_t i = 0; i < products_.panels(); ++i) sum_panel({taps.begin(), taps.end()}, i, sums.data() + i * width);
    const int64_t first = place_in_y(place);
    for (int64_t k = 0; k < s_.K; ++k) {
      float value = sums.data()[k];
      if (operands.bias) value += operands.bias[k];
      if (operands.addend) value += operands.addend[first * s_.K + k];
      activation_.apply(value);
      operands.y[first * operands.y_distance + k] = value;
    }
  }

  WinogradShape s_;
  const WinogradTransforms& transforms_ = winograd_transforms(s_.form);
  std::vector<float> zeros_;  // a point of padding
  StraightPieces activation_;
  const PanelProducts& products_;
  Tensor weights_;
  bool is_shared_ = false;      // all threads work on the only block
  bool keeps_weights_ = false;  // from block to block
  std::vector<TileBlock> blocks_;
  int64_t most_tiles_ = 0;  // of a block
  std::vector<uint8_t> is_unbounded_;  // by tile: some of its results are infinite or NaN
  std::atomic<bool> has_unbounded_ = false;
  memory y_;
  dnnl::primitive other_activation_;  // that is not of straight pieces
  Arguments activation_arguments_;
};

// Among the constants of the data, where the direct convolution has its weights as well.
enum PackedWinograd : uint8_t { kWindowPanels = 2, kProductCode };

class Winograd : public ShapedKernel {
 public:
  Winograd(KernelData& data, const WinogradWindow& window) : ShapedKernel(data), window_(window), is_open_(!data.is_static()), data_(data) {
    // Of lines of any length, each of which another primitive would be made for, there is no other.
    const bool has_other = is_open_ && data.input(1).constant.shape().size() > 3;
    if (has_other) other_ = direct_convolution(data, [this] { return given_or_restored(1); });
  }

  // False where it does not pay for the shapes known now, or there is no code.
  bool prepare(generated::ProductGenerator generate) {
    const Shape& weights = data_.input(1).constant.shape();
    std::optional<WinogradShape> shape;
    if (!is_open_ && !(shape = applicable(input_shapes(data_)))) return false;
    const int64_t groups = attributes().get_int("group", 1);
    const PanelProducts::Sizes sizes{.depth = window_.frames * window_.pieces * weights[1], .columns = weights[0] / groups, .groups = groups};
    products_ = PanelProducts::lay_out(data_, kProductCode, sizes);
    if (!products_) return false;
    const int64_t tiles = shape ? shape->tiles() : 0;
    if (!products_->prepare(data_, kProductCode, tiles, generate)) return false;
    return is_open_ ? pack_open() : prepare_static();
  }

  bool writes_rows_apart(size_t i) const override { return i == 0 && !other_ && straight_pieces(attributes()).has_value(); }

  void complete() const override {
    products_->complete();
    if (other_) other_->complete();
  }

  bool reads_rows_apart(size_t i) const override { return i == 0 && !is_open_; }  // else a run may be the reference kernel's

  std::unique_ptr<Instance> make(const Shapes& shapes) const override {
    const std::optional<WinogradShape> shape = applicable(shapes);
    if (!shape) return other_ ? other_->make(shapes) : nullptr;
    if (shapes.size() > 2 && shapes[2] && *shapes[2] != Shape{shape->K}) return nullptr;
    if (shapes.size() > 3 && shapes[3] && *shapes[3] != shape->y) return nullptr;
    dnnl::post_ops operations;
    if (!append_activation(operations, attributes())) return nullptr;
    const std::optional<StraightPieces> activation = straight_pieces(attributes());
    const Tensor* panels = find_panels();
    if (!panels) return nullptr;
    products_->require(shape->tiles());
    auto instance = std::make_unique<WinogradInstance>(*shape, activation.value_or(StraightPieces{}), *products_, *panels);
    if (!activation) instance->set_activation(operations);
    return instance;
  }

  bool restores(size_t i) const override { return i == 1 && (has_panels() || (other_ && other_->restores(1))); }
  Tensor restored(size_t /*i*/) const override {
    const Shape& weights = constant(1)->shape();
    return has_panels() ? panels_of(weights).unpack(*find_panels(), weights) : other_->restored(1);
  }

 protected:
  bool packs(size_t i) const override { return i == 1; }

 private:
  bool has_panels() const { return find_packed(data_, kWindowPanels) != nullptr; }
  WindowPanels panels_of(const Shape& weights) const { return {weights, window_.frames, products_->width()}; }

  // What a single image wants, where its size is known; other batches may want another copy. False where there is neither.
  bool pack_open() const {
    const std::optional<Shapes> one = shapes_of_one();
    return (other_ && one && !applicable(*one) && other_->applies(*one) && other_->restores(1)) || find_panels();
  }

  // Null where the tensor is gone and its panels are of another form.
  const Tensor* find_panels() const {
    const WindowPanels panels = panels_of(data_.input(1).constant.shape());
    return packed_or_made(1, kWindowPanels, panels.layout(), [&](const Tensor& weights) { return panels.pack(weights); });
  }

  // Empty also where it does not pay, unless it was asked for.
  std::optional<WinogradShape> applicable(const Shapes& shapes) const {
    const bool was_chosen = is_open_ ? !other_ : !implementation().empty();
    const std::optional<WinogradShape> shape = WinogradShape::resolve(attributes(), *shapes[0], *shapes[1]);
    return shape && (was_chosen || shape->is_worthwhile()) ? shape : std::nullopt;
  }

  WinogradWindow window_;
  bool is_open_;  // sizes are known to a run only
  std::unique_ptr<ShapedKernel> other_;  // of such sizes, where the transforms do not pay
  std::optional<PanelProducts> products_;
  KernelData& data_;
};

}  // namespace

std::unique_ptr<PreparedKernel> prepare_winograd(KernelData& data, generated::ProductGenerator generate) {
  const AttributeSet& attributes = data.attributes;
  if (attributes.get_int("channels_last", 0) == 0) return nullptr;
  if (data.input(0).dtype != DType::F32 || !data.input(1).constant.defined()) return nullptr;
  const std::optional<WinogradWindow> window = WinogradWindow::of(attributes, data.input(1).constant.shape());
  if (!window) return nullptr;
  auto kernel = std::make_unique<Winograd>(data, *window);
  return kernel->prepare(generate) ? std::move(kernel) : nullptr;
}

void register_winograd(PreparedRegistry& registry) {
  registry.add("LoweredConv", "generated:winograd", [](KernelData& data) { return prepare_winograd(data, nullptr); });
}

}  // namespace anfora::kernels::onednn

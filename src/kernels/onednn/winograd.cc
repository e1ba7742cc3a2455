// Convolutions by 3×3 windows through Winograd's minimal filtering F(4×4, 3×3): a quarter of the multiplications.
//
// The output is cut into tiles of 4×4 points, each of which depends on 6×6 points of the input. Transformed by Bᵀ d B, those of
// all tiles are 36 matrices [tiles, C], and the convolution is a product of each with one of the weights [C, K], transformed by G g Gᵀ;
// Aᵀ m A takes the products back:
//
//      x ──Bᵀ·B──▶ 36 × [tiles, C] ── × [C, K] ──▶ 36 × [tiles, K] ──Aᵀ·A──▶ y        36 multiplications for 16 points, not 144
//                               W ──G·Gᵀ──┘
//
// The three steps are done for a block of tiles at a time, so that what lies between them stays in a thread's second-level cache.
// Few tiles are one block, of which each thread does a part in each step. The products are by generated code (panel_products.h), whose
// tiles of rows divide the blocks: a library's product of 36 small matrices took up to twice as long.
//
// The matrices of the weights would take four times the memory of W. So a block makes them of W, panel by panel, in the cache, a third of the matrices at
// a time; meanwhile it fetches the next panel. Reading a quarter from memory pays for the making, measured in whole models. A thread keeps
// the matrices of small W from block to block.
//
// A window of several frames, as of a video or a volume, is a sum of windows of images: their channels lie side by side in the rows of the matrices, so that
// one product adds them.
//
// Toom and Cook's construction gives the matrices for any five points beside infinity. Those here, 0, ±5/8 and ±3/2, keep the
// largest error within four times that of the direct sum; 0, ±1 and ±2, which Lavin and Gray take ("Fast algorithms for convolutional
// neural networks", 2016), are several times worse.
//
// The result equals the direct sum over the reals only; a lowered operator with `direct` asks for the sum itself. Where an input is
// infinite or NaN, all of a tile would be NaN: such tiles are computed again, as sums.
#include "kernels/onednn/winograd.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "kernels/generated/convolution_rows.h"
#include "kernels/generated/panel_products.h"
#include "kernels/generated/product_layout.h"
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

using generated::PanelProducts;

constexpr int64_t kWindow = kWinogradWindow, kTile = kWinogradTile, kPatch = kWinogradPatch, kMatrices = kPatch * kPatch, kTaps = kWindow * kWindow;

// Of W, [K, C, 3, 3] or [K, C, frames, 3, 3], whose panels are [frames · C][9][width].
std::array<StridedAxis, 3> steps_of_windows(const PanelProducts& form, int64_t C) {
  const int64_t frames = form.depth() / C;
  return {StridedAxis{frames, kTaps}, StridedAxis{C, frames * kTaps}, StridedAxis{kTaps, 1}};
}

Tensor windows_in_panels(const Tensor& weights, const PanelProducts& form) {
  Tensor result = LastingMemory::allocate(DType::F32, Shape{form.panels() * form.depth() * kTaps * form.width()});
  pack_rows(weights, steps_of_windows(form, weights.dim(1)), form.width(), result);
  return result;
}

Tensor windows_of_panels(const Tensor& panels, const PanelProducts& form, const Shape& shape) {
  Tensor weights = Tensor::allocate(DType::F32, shape);
  unpack_panels(DType::F32, {form.columns(), form.depth() * kTaps}, steps_of_windows(form, shape[1]), form.width(), panels.raw(), weights.raw());
  return weights;
}

struct WinogradShape {
  int64_t batch, height, width, C;  // of x
  int64_t rows, columns, K;         // of y
  int64_t top, left;                // pads
  WindowAxis frames;                // a single one of an image

  int64_t depth() const { return frames.kernel * C; }
  int64_t images() const { return batch * frames.output; }  // of y
  // That the tap of a window sees for an image of y; none in the padding.
  std::optional<int64_t> image_of_x(int64_t image, int64_t tap) const {
    const int64_t frame = frames.start(image % frames.output) + tap * frames.dilation;
    if (frame < 0 || frame >= frames.input) return std::nullopt;
    return image / frames.output * frames.input + frame;
  }
  int64_t tiles_down() const { return (rows + kTile - 1) / kTile; }
  int64_t tiles_across() const { return (columns + kTile - 1) / kTile; }
  int64_t tiles() const { return images() * tiles_down() * tiles_across(); }
};

// Whether it pays: the transforms cost time for each element of the 36 matrices, those of the weights too, which the direct sum only reads. In
// multiply-adds, as measured with AVX-512 and AVX2.
bool is_worthwhile(const WinogradShape& s) {
  constexpr double kOfTransform = 12, kOfWeight = 20, kOfMadeWeight = 12;
  const double tiles = static_cast<double>(s.tiles()), C = static_cast<double>(s.depth()), K = static_cast<double>(s.K);
  const double points = static_cast<double>(s.images() * s.rows * s.columns);
  const double direct = kTaps * C * K * (points + kOfWeight);
  const double transformed = kMatrices * (C * K * (tiles + kOfMadeWeight) + kOfTransform * tiles * (C + K));
  return transformed < 0.9 * direct;
}

// Tiles from `first` on.
struct TileBlock {
  int64_t first, count;
};

class WinogradInstance : public ShapedKernel::Instance {
 public:
  WinogradInstance(const WinogradShape& shape, Shape y_shape, const Bounds& bounds, const PanelProducts& products, const Tensor& weights)
      : s_(shape), y_shape_(std::move(y_shape)), zeros_(static_cast<size_t>(shape.C)), bounds_(bounds), products_(products), weights_(weights) {
    const int64_t tiles = s_.tiles(), threads = thread_count();
    // Of what a block takes of the second-level cache, beside the weights that stream through it.
    const int64_t bytes_of_tile = kMatrices * (products.a_stride() + products.y_stride()) * int64_t{sizeof(float)};
    const int64_t most = std::max(second_level_cache() / bytes_of_tile, kFewestTiles);
    const int64_t bytes_of_weights = kMatrices * products.depth() * products.y_stride() * int64_t{sizeof(float)};
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
    y_ = handle(channels_last(Shape{s_.images(), s_.K, s_.rows, s_.columns}, memory::data_type::f32));
    const dnnl::eltwise_forward::primitive_desc pd(cpu(), dnnl::prop_kind::forward_inference, algorithm, y_.get_desc(),
                                                   y_.get_desc(), alpha, beta, none);
    activation_ = dnnl::eltwise_forward(pd);
    activation_arguments_ = {{DNNL_ARG_SRC, y_}, {DNNL_ARG_DST, y_}};
    add_scratchpad(pd.scratchpad_desc(), activation_arguments_);
  }

  void execute(KernelContext& context) override {
    Operands operands;
    operands.x = context.input(0).data<float>().data();
    if (const Tensor* bias = context.optional_input(2)) operands.bias = bias->data<float>().data();
    if (const Tensor* addend = context.optional_input(3)) operands.addend = addend->data<float>().data();
    Tensor& y = context.allocate_output(0, DType::F32, y_shape_);
    operands.y = y.data<float>().data();
    has_unbounded_ = false;
    is_shared_ ? run_together(operands) : run_blocks(operands);
    if (has_unbounded_) sum_unbounded(operands);
    if (!activation_) return;
    point(y_, y);
    onednn::execute(activation_, activation_arguments_);
  }

 private:
  static constexpr int64_t kFewestTiles = 24;  // for which a block makes the matrices of the weights

  struct Operands {
    const float *x = nullptr, *bias = nullptr, *addend = nullptr;
    float* y = nullptr;
  };

  static constexpr std::array kAllRows{WinogradRows::ZeroAndInfinity, WinogradRows::Inner, WinogradRows::Outer};
  static constexpr int64_t kMatricesOfRows = kMatrices / std::ssize(kAllRows);

  static int64_t odd_lines(int64_t elements) {
    constexpr int64_t kLine = generated::kLineElements;
    return ((elements + kLine - 1) / kLine | 1) * kLine;
  }

  // What lies between the steps. Matrices are an odd number of lines apart, so that a tile's rows of them share no set of the cache.
  class Between {
   public:
    Between(const PanelProducts& products, int64_t tiles)
        : a_distance(odd_lines(tiles * products.a_stride())),
          y_distance(odd_lines(tiles * products.y_stride())),
          transformed_(static_cast<size_t>(kMatrices * a_distance)),
          products_(static_cast<size_t>(kMatrices * y_distance)) {}
    float* transformed() { return transformed_.data(); }
    float* products() { return products_.data(); }
    const int64_t a_distance, y_distance;

   private:
    Scratch<float> transformed_, products_;
  };

  // The transformed weights: of some rows of a panel at a time, or all that there are where they stay in the cache from block to block.
  class Weights {
   public:
    explicit Weights(const WinogradInstance& instance)
        : instance_(instance),
          distance_(odd_lines(instance.products_.depth() * instance.products_.width())),
          matrices_(static_cast<size_t>((instance.keeps_weights_ ? instance.products_.panels() * kMatrices : kMatricesOfRows) * distance_)) {}

    // The first matrix of the rows; the others are distance() elements apart.
    const float* rows(int64_t panel, WinogradRows rows) {
      const PanelProducts& form = instance_.products_;
      const int64_t number = panel * std::ssize(kAllRows) + static_cast<int64_t>(rows);
      float* to = matrices_.data() + (instance_.keeps_weights_ ? number * kMatricesOfRows * distance_ : 0);
      if (instance_.keeps_weights_ && number < kept_) return to;
      instance_.transforms_.weigh({instance_.panel(panel), form.depth(), form.width()}, rows, to, distance_);
      kept_ = number + 1;
      return to;
    }
    int64_t distance() const { return distance_; }

   private:
    const WinogradInstance& instance_;
    const int64_t distance_;
    int64_t kept_ = 0;  // rows, from those of the first panel on
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
      Between between(products_, most_tiles_);
      Weights weights(*this);
      for (int64_t i = begin; i < end; ++i) {
        const TileBlock& block = blocks_[static_cast<size_t>(i)];
        for (int64_t tile = 0; tile < block.count; ++tile) transform(operands, block, tile, between);
        multiply({0, block.count}, between, weights, 0, thirds());
        for (int64_t tile = 0; tile < block.count; ++tile) gather(operands, block, tile, between);
      }
    });
  }

  // The only block by all threads.
  void run_together(const Operands& operands) {
    const TileBlock& block = blocks_[0];
    Between between(products_, block.count);
    parallel_for(block.count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) transform(operands, block, tile, between);
    });
    // More threads than thirds of panels share the tiles of one, and make its matrices each.
    const int64_t parts = std::clamp<int64_t>(thread_count() / thirds(), 1, products_.tiles_of(block.count));
    parallel_for(thirds() * parts, 1, [&](int64_t begin, int64_t end) {
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
  int64_t elements_of_panel() const { return products_.depth() * kTaps * products_.width(); }
  const float* panel(int64_t i) const { return weights_.data<float>().data() + i * elements_of_panel(); }

  // Some tiles of a block by some of the matrices, counted in thirds of panels.
  int64_t thirds() const { return products_.panels() * std::ssize(kAllRows); }
  void multiply(const TileBlock& tiles, Between& between, Weights& weights, int64_t first, int64_t last) const {
    for (int64_t third = first; third < last; ++third) {
      const int64_t i = third / std::ssize(kAllRows);
      const WinogradRows rows = kAllRows[static_cast<size_t>(third % std::ssize(kAllRows))];
      const float* of_rows = weights.rows(i, rows);
      for (int64_t j = 0; j < kMatricesOfRows; ++j) {
        const int64_t matrix = numbers_of(rows)[static_cast<size_t>(j / kPatch)] * kPatch + j % kPatch;
        PanelProducts::Operands product{.a = between.transformed() + matrix * between.a_distance + tiles.first * products_.a_stride(),
                                        .b = of_rows + j * weights.distance(),
                                        .y = between.products() + matrix * between.y_distance + tiles.first * products_.y_stride() + i * products_.width(),
                                        .rows = tiles.count};
        // A part of the next panel with each matrix.
        if (!keeps_weights_ && i + 1 < products_.panels()) product.next = {panel(i + 1) + matrix * elements_of_panel() / kMatrices, elements_of_panel() * int64_t{sizeof(float)} / kMatrices};
        products_.multiply(product);
      }
    }
  }

  struct Place {
    int64_t image, row, column;  // of the tile's first point of y; images are those of all frames
  };
  Place place_of(int64_t tile) const {
    const int64_t across = s_.tiles_across(), down = s_.tiles_down();
    return {tile / (across * down), tile / across % down * kTile, tile % across * kTile};
  }

  // The patch of a tile to its row of each of the matrices.
  void transform(const Operands& operands, const TileBlock& block, int64_t tile, Between& between) const {
    const auto [image, y, x] = place_of(block.first + tile);
    for (int64_t tap = 0; tap < s_.frames.kernel; ++tap) {
      const std::optional<int64_t> of_x = s_.image_of_x(image, tap);
      std::array<const float*, kMatrices> points;
      for (int64_t r = 0; r < kPatch; ++r) {
        const int64_t row = y - s_.top + r;
        const float* from = operands.x + ((of_x.value_or(0) * s_.height + row) * s_.width + x - s_.left) * s_.C;
        for (int64_t q = 0; q < kPatch; ++q) {
          const int64_t column = x - s_.left + q;
          const bool is_inside = of_x && row >= 0 && row < s_.height && column >= 0 && column < s_.width;
          points[static_cast<size_t>(r * kPatch + q)] = is_inside ? from + q * s_.C : zeros_.data();
        }
      }
      transforms_.spread(points.data(), s_.C, between.transformed() + tile * products_.a_stride() + tap * s_.C, between.a_distance);
    }
  }

  // The tile of y from its row of each of the products.
  void gather(const Operands& operands, const TileBlock& block, int64_t tile, Between& between) {
    const auto [image, y, x] = place_of(block.first + tile);
    const int64_t first = ((image * s_.rows + y) * s_.columns + x) * s_.K;
    const bool is_bounded = transforms_.gather({.from = between.products() + tile * products_.y_stride(),
                                                .distance = between.y_distance,
                                                .channels = s_.K,
                                                .bias = operands.bias,
                                                .addend = operands.addend ? operands.addend + first : nullptr,
                                                .y = operands.y + first,
                                                .rows = std::min(kTile, s_.rows - y),
                                                .columns = std::min(kTile, s_.columns - x),
                                                .row_stride = s_.columns * s_.K,
                                                .low = bounds_.low,
                                                .high = bounds_.high});
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

  // The tile of y by the definition.
  void sum(const Operands& operands, int64_t tile) const {
    const auto [image, y, x] = place_of(tile);
    for (int64_t row = y; row < std::min(y + kTile, s_.rows); ++row) {
      for (int64_t column = x; column < std::min(x + kTile, s_.columns); ++column) {
        const int64_t width = products_.width();
        Scratch<float> sums(static_cast<size_t>(products_.y_stride()), 0.0f);
        for (int64_t tap = 0; tap < s_.frames.kernel * kTaps; ++tap) {
          const int64_t frame = tap / kTaps, point = tap % kTaps;
          const std::optional<int64_t> of_x = s_.image_of_x(image, frame);
          const int64_t from_row = row - s_.top + point / kWindow, from_column = column - s_.left + point % kWindow;
          if (!of_x || from_row < 0 || from_row >= s_.height || from_column < 0 || from_column >= s_.width) continue;
          const float* from = operands.x + ((*of_x * s_.height + from_row) * s_.width + from_column) * s_.C;
          for (int64_t c = 0; c < s_.C; ++c) {
            for (int64_t i = 0; i < products_.panels(); ++i) {
              const float* line = panel(i) + ((frame * s_.C + c) * kTaps + point) * width;
              for (int64_t k = 0; k < width; ++k) sums[static_cast<size_t>(i * width + k)] += from[c] * line[k];
            }
          }
        }
        const int64_t first = ((image * s_.rows + row) * s_.columns + column) * s_.K;
        for (int64_t k = 0; k < s_.K; ++k) {
          float value = sums.data()[k];
          if (operands.bias) value += operands.bias[k];
          if (operands.addend) value += operands.addend[first + k];
          value = value < bounds_.low ? bounds_.low : value;
          operands.y[first + k] = value > bounds_.high ? bounds_.high : value;
        }
      }
    }
  }

  const WinogradTransforms& transforms_ = winograd_transforms();
  WinogradShape s_;
  Shape y_shape_;
  std::vector<float> zeros_;  // a point of padding
  Bounds bounds_;
  const PanelProducts& products_;
  Tensor weights_;
  bool is_shared_ = false;      // all threads work on the only block
  bool keeps_weights_ = false;  // from block to block
  std::vector<TileBlock> blocks_;
  int64_t most_tiles_ = 0;  // of a block
  std::vector<uint8_t> is_unbounded_;  // by tile: some of its results are infinite or NaN
  std::atomic<bool> has_unbounded_ = false;
  memory y_;
  dnnl::primitive activation_;  // of kinds that are no bounds
  Arguments activation_arguments_;
};

// Among the constants of the data, where the direct convolution has its weights as well.
enum PackedWinograd : uint8_t { kWindowPanels = 2, kProductCode };

class Winograd : public ShapedKernel {
 public:
  explicit Winograd(KernelData& data) : ShapedKernel(data), data_(data) {
    if (!data.is_static()) other_ = direct_convolution(data, [this] { return given_or_restored(1); });
  }

  // False where it does not pay for the shapes known now, or there is no code.
  bool prepare(generated::ProductGenerator generate) {
    const Shape& weights = data_.input(1).constant.shape();
    int64_t fewest_tiles = 1;
    if (!other_) {
      const std::optional<WinogradShape> shape = applicable(input_shapes(data_));
      if (!shape) return false;
      fewest_tiles = shape->tiles();
    }
    products_ = PanelProducts::prepare(data_, kProductCode, element_count(weights) / weights[0] / kTaps, weights[0], fewest_tiles, generate);
    if (!products_) return false;
    return other_ ? pack_open() : prepare_static();
  }

  std::unique_ptr<Instance> make(const Shapes& shapes) const override {
    const std::optional<WinogradShape> shape = applicable(shapes);
    if (!shape) return other_ ? other_->make(shapes) : nullptr;
    if (shapes.size() > 2 && shapes[2] && *shapes[2] != Shape{shape->K}) return nullptr;
    Shape y_shape = *shapes[0];
    y_shape.end()[-3] = shape->rows, y_shape.end()[-2] = shape->columns, y_shape.end()[-1] = shape->K;
    if (y_shape.size() > 4) y_shape[1] = shape->frames.output;
    if (shapes.size() > 3 && shapes[3] && *shapes[3] != y_shape) return nullptr;
    dnnl::post_ops operations;
    if (!append_activation(operations, attributes())) return nullptr;
    const std::optional<Bounds> bounds = bounds_of(attributes());
    const Tensor* panels = find_panels();
    if (!panels) return nullptr;
    auto instance = std::make_unique<WinogradInstance>(*shape, std::move(y_shape), bounds.value_or(Bounds{}), *products_, *panels);
    if (!bounds) instance->set_activation(operations);
    return instance;
  }

  bool restores(size_t i) const override { return i == 1 && (has_panels() || other_->restores(1)); }
  Tensor restored(size_t /*i*/) const override {
    return has_panels() ? windows_of_panels(*find_panels(), *products_, constant(1)->shape()) : other_->restored(1);
  }

 protected:
  bool packs(size_t i) const override { return i == 1; }

 private:
  bool has_panels() const { return find_packed(data_, kWindowPanels) != nullptr; }

  // What a single image wants, where its size is known; other batches may want another copy. False where there is neither.
  bool pack_open() const {
    const std::optional<Shapes> one = shapes_of_one();
    return (one && !applicable(*one) && other_->applies(*one) && other_->restores(1)) || find_panels();
  }

  // Null where the tensor is gone and its panels are of another form.
  const Tensor* find_panels() const {
    return packed_or_made(1, kWindowPanels, {kTaps, products_->depth(), products_->columns(), products_->width()},
                          [&](const Tensor& weights) { return windows_in_panels(weights, *products_); });
  }

  // Empty also where it does not pay, unless it was asked for.
  std::optional<WinogradShape> applicable(const Shapes& shapes) const {
    const bool was_chosen = !implementation().empty() && !other_;
    const std::optional<WinogradShape> shape = resolve(shapes);
    return shape && (was_chosen || is_worthwhile(*shape)) ? shape : std::nullopt;
  }

  // Empty where the window is another, the operands do not fit, or there is nothing to compute.
  std::optional<WinogradShape> resolve(const Shapes& shapes) const {
    const Shape &x = *shapes[0], &w = *shapes[1];
    if (x.size() != w.size() || w[1] != x.back()) return std::nullopt;
    const size_t axes = x.size() - 2;
    Window window = read_window(attributes(), axes, std::span(w).subspan(2));
    resolve_window(window, std::span(x).subspan(1, axes));
    const WindowAxis &down = window.axes[axes - 2], &across = window.axes[axes - 1];
    if (x[0] * window.outputs() * w[0] * w[1] == 0) return std::nullopt;
    return WinogradShape{.batch = x[0],
                         .height = x[axes - 1],
                         .width = x[axes],
                         .C = x.back(),
                         .rows = down.output,
                         .columns = across.output,
                         .K = w[0],
                         .top = down.pad_begin,
                         .left = across.pad_begin,
                         .frames = axes == 2 ? WindowAxis{.kernel = 1, .input = 1, .output = 1} : window.axes[0]};
  }

  // Of sizes that only a run knows: where the transforms do not pay.
  std::unique_ptr<ShapedKernel> other_;
  std::optional<PanelProducts> products_;
  KernelData& data_;
};

}  // namespace

std::unique_ptr<PreparedKernel> prepare_winograd(KernelData& data, generated::ProductGenerator generate) {
  const AttributeSet& attributes = data.attributes;
  if (attributes.get_int("channels_last", 0) == 0) return nullptr;
  if (data.input(0).dtype != DType::F32 || !data.input(1).constant.defined()) return nullptr;
  if (!generated::has_winograd_window(attributes, data.input(1).constant.shape())) return nullptr;
  auto kernel = std::make_unique<Winograd>(data);
  return kernel->prepare(generate) ? std::move(kernel) : nullptr;
}

void register_winograd(PreparedRegistry& registry) {
  registry.add("LoweredConv", "generated:winograd", [](KernelData& data) { return prepare_winograd(data, nullptr); });
}

}  // namespace anfora::kernels::onednn

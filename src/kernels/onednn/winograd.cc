// Convolutions by 3×3 windows through Winograd's minimal filtering F(4×4, 3×3): a quarter of the multiplications.
//
// The output is cut into tiles of 4×4 points, each of which depends on 6×6 points of the input. Transformed by Bᵀ d B, those of
// all tiles are 36 matrices [tiles, C], and the convolution is a product of each with weights [C, K] that were transformed by G g Gᵀ
// before; Aᵀ m A takes the products back:
//
//      x ──Bᵀ·B──▶ 36 × [tiles, C] ── × [C, K] ──▶ 36 × [tiles, K] ──Aᵀ·A──▶ y        36 multiplications for 16 points, not 144
//
// The three steps are done for a block of tiles at a time, so that what lies between them stays in a thread's second-level cache.
// Few tiles are one block, of which each thread does a part in each step.
//
// Toom and Cook's construction gives the matrices for any five points beside infinity. Those here, 0, ±5/8 and ±3/2, keep the
// largest error within four times that of the direct sum; 0, ±1 and ±2, which Lavin and Gray take ("Fast algorithms for convolutional
// neural networks", 2016), are several times worse.
//
// The result equals the direct sum over the reals only; a lowered operator with `direct` asks for the sum itself. Where an input is
// infinite or NaN, all of a tile would be NaN: such tiles are computed again, as sums, with weights that the transformed ones tell.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>

#include "kernels/generated/convolution_rows.h"
#include "kernels/onednn/epilogue.h"
#include "kernels/onednn/families.h"
#include "kernels/onednn/primitive.h"
#include "kernels/onednn/product_form.h"
#include "kernels/onednn/winograd_transforms.h"
#include "kernels/reference/window.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels::onednn {
namespace {

constexpr int64_t kWindow = kWinogradWindow, kTile = kWinogradTile, kPatch = kWinogradPatch, kMatrices = kPatch * kPatch;
constexpr float kInner = kWinogradInner, kOuter = kWinogradOuter;

// G: row j has the powers of the point, divided by its differences from the others.
std::array<std::array<double, kWindow>, kPatch> weight_transform() {
  constexpr std::array<double, kPatch - 1> points{0, kInner, -kInner, kOuter, -kOuter};
  std::array<std::array<double, kWindow>, kPatch> rows{};
  for (size_t j = 0; j < points.size(); ++j) {
    double scale = 1;
    for (size_t l = 0; l < points.size(); ++l) scale *= l == j ? 1 : points[j] - points[l];
    for (size_t i = 0; i < kWindow; ++i) rows[j][i] = std::pow(points[j], static_cast<double>(i)) / scale;
  }
  rows[kPatch - 1][kWindow - 1] = 1;
  return rows;
}

// W, [K, C, 3, 3], as the matrices [36, C, K].
Tensor transformed_weights(const Tensor& weights) {
  const int64_t K = weights.dim(0), C = weights.dim(1);
  const auto rows = weight_transform();
  Tensor result = Tensor::allocate(DType::F32, Shape{kMatrices, C, K});
  const float* from = weights.data<float>().data();
  float* to = result.data<float>().data();
  // By squares of channels, whose weights and lines of the matrices stay in the cache.
  constexpr int64_t kSide = 16;
  using Side = std::array<double, kSide>;
  auto transform = [&](int64_t c, int64_t first_k) {
    const int64_t count = std::min(kSide, K - first_k);
    std::array<Side, kWindow * kWindow> g{};
    for (int64_t k = 0; k < count; ++k) {
      const float* window = from + ((first_k + k) * C + c) * kWindow * kWindow;
      for (size_t i = 0; i < g.size(); ++i) g[i][static_cast<size_t>(k)] = static_cast<double>(window[i]);
    }
    for (size_t i = 0; i < kPatch; ++i) {
      std::array<Side, kWindow> row;
      for (size_t v = 0; v < kWindow; ++v) {
        for (size_t k = 0; k < kSide; ++k) {
          row[v][k] = rows[i][0] * g[v][k] + rows[i][1] * g[kWindow + v][k] + rows[i][2] * g[2 * kWindow + v][k];
        }
      }
      for (size_t j = 0; j < kPatch; ++j) {
        std::array<float, kSide> sums;
        for (size_t k = 0; k < kSide; ++k) {
          sums[k] = static_cast<float>(rows[j][0] * row[0][k] + rows[j][1] * row[1][k] + rows[j][2] * row[2][k]);
        }
        std::copy_n(sums.begin(), count, to + (static_cast<int64_t>(i * kPatch + j) * C + c) * K + first_k);
      }
    }
  };
  parallel_for((C + kSide - 1) / kSide, 1, [&](int64_t begin, int64_t end) {
    for (int64_t first_c = begin * kSide; first_c < std::min(end * kSide, C); first_c += kSide) {
      for (int64_t first_k = 0; first_k < K; first_k += kSide) {
        for (int64_t c = first_c; c < std::min(first_c + kSide, C); ++c) transform(c, first_k);
      }
    }
  });
  return result;
}

// W again, [9, C, K], from the matrices. Point 0 has the first weight of a column times a factor, infinity the third, and the difference
// between kInner and -kInner the second.
Tensor recovered_weights(const Tensor& matrices) {
  constexpr double inner = kInner, outer = kOuter;
  constexpr double kFirst = inner * inner * outer * outer, kSecond = inner * (inner * inner - outer * outer);
  const int64_t C = matrices.dim(1), K = matrices.dim(2);
  Tensor result = Tensor::allocate(DType::F32, Shape{kWindow * kWindow, C, K});
  const float* from = matrices.data<float>().data();
  float* to = result.data<float>().data();
  for (int64_t i = 0; i < C * K; ++i) {
    auto recover = [](auto&& u) {
      return std::array<double, kWindow>{u(0) * kFirst, (u(1) - u(2)) * kSecond, u(kPatch - 1)};
    };
    std::array<std::array<double, kWindow>, kPatch> rows;
    for (int64_t r = 0; r < kPatch; ++r) {
      rows[static_cast<size_t>(r)] =
          recover([&](int64_t q) { return static_cast<double>(from[(r * kPatch + q) * C * K + i]); });
    }
    for (size_t q = 0; q < kWindow; ++q) {
      const auto column = recover([&](int64_t r) { return rows[static_cast<size_t>(r)][q]; });
      for (size_t r = 0; r < kWindow; ++r)
        to[static_cast<int64_t>(r * kWindow + q) * C * K + i] = static_cast<float>(column[r]);
    }
  }
  return result;
}

struct WinogradShape {
  int64_t batch, height, width, C;  // of x
  int64_t rows, columns, K;         // of y
  int64_t top, left;                // pads

  int64_t tiles_down() const { return (rows + kTile - 1) / kTile; }
  int64_t tiles_across() const { return (columns + kTile - 1) / kTile; }
  int64_t tiles() const { return batch * tiles_down() * tiles_across(); }
};

// Whether it pays: the transforms cost time for each element of the 36 matrices, and there are four times as many weights to read. In
// multiply-adds, as measured with AVX-512 and AVX2.
bool is_worthwhile(const WinogradShape& s) {
  constexpr double kOfTransform = 12, kOfWeight = 20;
  const double tiles = static_cast<double>(s.tiles()), C = static_cast<double>(s.C), K = static_cast<double>(s.K);
  const double points = static_cast<double>(s.batch * s.rows * s.columns);
  const double direct = kWindow * kWindow * C * K * (points + kOfWeight);
  const double transformed = kMatrices * (C * K * (tiles + kOfWeight) + kOfTransform * tiles * (C + K));
  return transformed < 0.9 * direct;
}

// The 36 products of a number of tiles with the weights.
struct WinogradProduct {
  dnnl::matmul::primitive_desc pd;
  dnnl::matmul primitive;

  WinogradProduct() = default;
  WinogradProduct(const WinogradShape& s, int64_t tiles, const memory::desc& weights)
      : pd(cpu(), dense(Shape{kMatrices, tiles, s.C}, memory::data_type::f32), weights,
           dense(Shape{kMatrices, tiles, s.K}, memory::data_type::f32), own_scratchpad(), true) {
    if (pd) primitive = dnnl::matmul(pd);
  }
};

// Tiles from `first` on, and the operands of their product.
struct TileBlock {
  int64_t first, count;
  const WinogradProduct* product;
  memory transformed, products, scratch;
  Arguments arguments;

  TileBlock(int64_t begin, int64_t end, const WinogradProduct& of_block, const memory& weights)
      : first(begin),
        count(end - begin),
        product(&of_block),
        transformed(handle(of_block.pd.src_desc())),
        products(handle(of_block.pd.dst_desc())),
        scratch(handle(of_block.pd.scratchpad_desc())),
        arguments{{DNNL_ARG_SRC, transformed},
                  {DNNL_ARG_WEIGHTS, weights},
                  {DNNL_ARG_DST, products},
                  {DNNL_ARG_SCRATCHPAD, scratch}} {}

  void multiply() const {
    onednn::execute(product->primitive, arguments);
    stream().wait();
  }
};

// What is added to the result and applied to it before it is stored.
struct WinogradEpilogue {
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
};

class WinogradInstance : public ShapedKernel::Instance {
 public:
  // `packed`: the layout of transformed weights that are there already, if any are.
  WinogradInstance(const WinogradShape& shape, const WinogradEpilogue& epilogue, const memory::desc* packed)
      : s_(shape), zeros_(static_cast<size_t>(shape.C)), epilogue_(epilogue) {
    // What a block takes of the second-level cache, beside the weights that stream through it.
    constexpr int64_t kBlockBytes = 512 << 10;
    const int64_t bytes_of_tile = kMatrices * (s_.C + s_.K) * int64_t{sizeof(float)};
    const int64_t tiles = s_.tiles(), threads = thread_count(),
                  most = std::max(kBlockBytes / bytes_of_tile, kFewestTiles);
    is_shared_ = tiles < threads * kFewestTiles;
    if (!is_shared_) {
      const int64_t rounds = ((tiles + most - 1) / most + threads - 1) / threads;
      num_blocks_ = std::min(rounds, tiles / kFewestTiles / threads) * threads;
    }
    auto describe = [&] {
      if (packed) product_ = WinogradProduct(s_, tiles / num_blocks_, *packed);
      if (!is_optimized(product_.pd))
        product_ = WinogradProduct(s_, tiles / num_blocks_, any_layout(Shape{kMatrices, s_.C, s_.K}, memory::data_type::f32));
      if (tiles % num_blocks_ > 0) larger_product_ = WinogradProduct(s_, tiles / num_blocks_ + 1, weights_layout());
    };
    is_shared_ ? describe() : with_threads(1, describe);
  }

  // The layout of the transformed weights that the products want.
  memory::desc weights_layout() const { return product_.pd.weights_desc(); }
  void set_weights(const memory& weights) {
    is_unbounded_.resize(static_cast<size_t>(s_.tiles()));
    const int64_t larger = s_.tiles() % num_blocks_;
    int64_t first = 0;
    for (int64_t i = 0; i < num_blocks_; ++i) {
      const int64_t next = s_.tiles() / num_blocks_ * (i + 1) + std::min(i + 1, larger);
      blocks_.emplace_back(first, next, i < larger ? larger_product_ : product_, weights);
      first = next;
    }
    // Of the first block, which is as large as any.
    transformed_bytes_ = blocks_[0].transformed.get_desc().get_size();
    products_bytes_ = blocks_[0].products.get_desc().get_size();
    scratch_bytes_ =
        std::max(blocks_.front().scratch.get_desc().get_size(), blocks_.back().scratch.get_desc().get_size());
    if (!is_shared_) return;
    for (const memory& object : {blocks_[0].transformed, blocks_[0].products, blocks_[0].scratch})
      place_in_workspace(object);
  }
  void set_activation(const dnnl::post_ops& operations) {
    const dnnl::primitive_attr none = own_scratchpad();
    dnnl::algorithm algorithm{};
    float alpha = 0, beta = 0;
    operations.get_params_eltwise(0, algorithm, alpha, beta);
    y_ = handle(channels_last(Shape{s_.batch, s_.K, s_.rows, s_.columns}, memory::data_type::f32));
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
    Tensor& y = context.allocate_output(0, DType::F32, Shape{s_.batch, s_.rows, s_.columns, s_.K});
    operands.y = y.data<float>().data();
    has_unbounded_ = false;
    is_shared_ ? run_together(operands) : run_blocks(operands);
    if (has_unbounded_) sum_unbounded(operands);
    if (!activation_) return;
    point(y_, y);
    onednn::execute(activation_, activation_arguments_);
  }

 private:
  static constexpr int64_t kFewestTiles = 12;  // for which a block's product reads its weights

  struct Operands {
    const float *x = nullptr, *bias = nullptr, *addend = nullptr;
    float* y = nullptr;
  };

  // Each block by one thread.
  void run_blocks(const Operands& operands) {
    parallel_for(num_blocks_, 1, [&](int64_t begin, int64_t end) {
      Scratch<std::byte> transformed(transformed_bytes_), products(products_bytes_), scratch(scratch_bytes_);
      for (int64_t i = begin; i < end; ++i) {
        TileBlock& block = blocks_[static_cast<size_t>(i)];
        block.transformed.set_data_handle(transformed.data());
        block.products.set_data_handle(products.data());
        block.scratch.set_data_handle(scratch.data());
        for (int64_t tile = 0; tile < block.count; ++tile) transform(operands, block, tile);
        with_threads(1, [&] { block.multiply(); });  // the primitive is made for one
        for (int64_t tile = 0; tile < block.count; ++tile) gather(operands, block, tile);
      }
    });
  }

  // The only block by all threads.
  void run_together(const Operands& operands) {
    const TileBlock& block = blocks_[0];
    parallel_for(block.count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) transform(operands, block, tile);
    });
    block.multiply();
    parallel_for(block.count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) gather(operands, block, tile);
    });
  }

  struct Place {
    int64_t image, row, column;  // of the tile's first point of y
  };
  Place place_of(int64_t tile) const {
    const int64_t across = s_.tiles_across(), down = s_.tiles_down();
    return {tile / (across * down), tile / across % down * kTile, tile % across * kTile};
  }

  // The patch of a tile to its row of each of the matrices.
  void transform(const Operands& operands, const TileBlock& block, int64_t tile) const {
    const auto [image, y, x] = place_of(block.first + tile);
    float* const to = static_cast<float*>(block.transformed.get_data_handle()) + tile * s_.C;
    std::array<const float*, kMatrices> points;
    for (int64_t r = 0; r < kPatch; ++r) {
      const int64_t row = y - s_.top + r;
      const float* from = operands.x + ((image * s_.height + row) * s_.width + x - s_.left) * s_.C;
      for (int64_t q = 0; q < kPatch; ++q) {
        const int64_t column = x - s_.left + q;
        const bool is_inside = row >= 0 && row < s_.height && column >= 0 && column < s_.width;
        points[static_cast<size_t>(r * kPatch + q)] = is_inside ? from + q * s_.C : zeros_.data();
      }
    }
    transforms_.spread(points.data(), s_.C, to, block.count * s_.C);
  }

  // The tile of y from its row of each of the products.
  void gather(const Operands& operands, const TileBlock& block, int64_t tile) {
    const auto [image, y, x] = place_of(block.first + tile);
    const float* const from = static_cast<const float*>(block.products.get_data_handle()) + tile * s_.K;
    const int64_t first = ((image * s_.rows + y) * s_.columns + x) * s_.K;
    const bool is_bounded = transforms_.gather({.from = from,
                                                .distance = block.count * s_.K,
                                                .channels = s_.K,
                                                .bias = operands.bias,
                                                .addend = operands.addend ? operands.addend + first : nullptr,
                                                .y = operands.y + first,
                                                .rows = std::min(kTile, s_.rows - y),
                                                .columns = std::min(kTile, s_.columns - x),
                                                .row_stride = s_.columns * s_.K,
                                                .low = epilogue_.low,
                                                .high = epilogue_.high});
    is_unbounded_[static_cast<size_t>(block.first + tile)] = !is_bounded;
    if (!is_bounded) has_unbounded_ = true;
  }

  void sum_unbounded(const Operands& operands) const {
    memory packed = blocks_[0].arguments.at(DNNL_ARG_WEIGHTS);
    Tensor matrices = Tensor::allocate(DType::F32, Shape{kMatrices, s_.C, s_.K});
    memory plain(dense(matrices.shape(), memory::data_type::f32), cpu(), matrices.raw());
    dnnl::reorder(packed, plain).execute(stream(), packed, plain);
    stream().wait();
    const Tensor weights = recovered_weights(matrices);
    parallel_for(s_.tiles(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) {
        if (is_unbounded_[static_cast<size_t>(tile)]) sum(operands, tile, weights.data<float>().data());
      }
    });
  }

  // The tile of y by the definition.
  void sum(const Operands& operands, int64_t tile, const float* weights) const {
    const auto [image, y, x] = place_of(tile);
    for (int64_t row = y; row < std::min(y + kTile, s_.rows); ++row) {
      for (int64_t column = x; column < std::min(x + kTile, s_.columns); ++column) {
        Scratch<float> sums(static_cast<size_t>(s_.K));
        std::fill_n(sums.data(), s_.K, 0.0f);
        for (int64_t tap = 0; tap < kWindow * kWindow; ++tap) {
          const int64_t from_row = row - s_.top + tap / kWindow, from_column = column - s_.left + tap % kWindow;
          if (from_row < 0 || from_row >= s_.height || from_column < 0 || from_column >= s_.width) continue;
          const float* from = operands.x + ((image * s_.height + from_row) * s_.width + from_column) * s_.C;
          for (int64_t c = 0; c < s_.C; ++c) {
            const float* line = weights + (tap * s_.C + c) * s_.K;
            for (int64_t k = 0; k < s_.K; ++k) sums.data()[k] += from[c] * line[k];
          }
        }
        const int64_t first = ((image * s_.rows + row) * s_.columns + column) * s_.K;
        for (int64_t k = 0; k < s_.K; ++k) {
          float value = sums.data()[k];
          if (operands.bias) value += operands.bias[k];
          if (operands.addend) value += operands.addend[first + k];
          value = value < epilogue_.low ? epilogue_.low : value;
          operands.y[first + k] = value > epilogue_.high ? epilogue_.high : value;
        }
      }
    }
  }

  const WinogradTransforms& transforms_ = winograd_transforms();
  WinogradShape s_;
  std::vector<float> zeros_;  // a point of padding
  WinogradEpilogue epilogue_;
  bool is_shared_ = false;  // all threads work on the only block
  int64_t num_blocks_ = 1;
  WinogradProduct product_, larger_product_;  // the first blocks have one tile more than the others
  std::vector<TileBlock> blocks_;
  size_t transformed_bytes_ = 0, products_bytes_ = 0, scratch_bytes_ = 0;
  std::vector<uint8_t> is_unbounded_;  // by tile: some of its results are infinite or NaN
  std::atomic<bool> has_unbounded_ = false;
  memory y_;
  dnnl::primitive activation_;  // of kinds that are no bounds
  Arguments activation_arguments_;
};

class Winograd : public ShapedKernel {
 public:
  explicit Winograd(KernelData& data) : ShapedKernel(data) {
    if (!std::ranges::all_of(data.inputs, [](const InputDescription& input) { return !input.present || input.is_static(); }))
      other_ = direct_convolution(data);
  }

  std::unique_ptr<Instance> make(const Shapes& shapes) const override {
    const std::optional<WinogradShape> shape = resolve(shapes);
    const bool was_chosen = !implementation().empty() && !other_;
    if (!shape || (!was_chosen && !is_worthwhile(*shape))) return other_ ? other_->make(shapes) : nullptr;
    if (shapes.size() > 2 && shapes[2] && *shapes[2] != Shape{shape->K}) return nullptr;
    if (shapes.size() > 3 && shapes[3] && *shapes[3] != Shape{shape->batch, shape->rows, shape->columns, shape->K})
      return nullptr;
    dnnl::post_ops operations;
    if (!append_activation(operations, attributes())) return nullptr;
    WinogradEpilogue epilogue;
    const bool is_bound = read_bounds(epilogue);
    auto instance = std::make_unique<WinogradInstance>(*shape, epilogue, packed_.last());
    const memory::desc plain = dense(Shape{kMatrices, shape->C, shape->K}, memory::data_type::f32);
    const Tensor& weights = *constant(1);
    auto transformed = [&] { return weights.raw() ? transformed_weights(weights) : Tensor(); };
    instance->set_weights(packed_.get(transformed, plain, instance->weights_layout()));
    if (!is_bound) instance->set_activation(operations);
    return instance;
  }

 protected:
  bool packs(size_t i) const override { return i == 1 && packed_.replaces_tensor(); }

 private:
  // Empty where the window is another, the operands do not fit, or there is nothing to compute.
  std::optional<WinogradShape> resolve(const Shapes& shapes) const {
    const Shape &x = *shapes[0], &w = *shapes[1];
    if (x.size() != 4 || w[1] != x[3]) return std::nullopt;
    Window window = read_window(attributes(), 2, std::span(w).subspan(2));
    resolve_window(window, std::span(x).subspan(1, 2));
    const WindowAxis &down = window.axes[0], &across = window.axes[1];
    if (x[0] * down.output * across.output * w[0] * w[1] == 0) return std::nullopt;
    return WinogradShape{.batch = x[0],
                         .height = x[1],
                         .width = x[2],
                         .C = x[3],
                         .rows = down.output,
                         .columns = across.output,
                         .K = w[0],
                         .top = down.pad_begin,
                         .left = across.pad_begin};
  }

  // Whether the activation, if there is one, is between two bounds.
  bool read_bounds(WinogradEpilogue& epilogue) const {
    const std::string name = attributes().get_string("activation", "");
    if (name == "Relu") epilogue.low = 0;
    if (name == "Clip") {
      epilogue.low = attributes().get_float("activation_alpha", epilogue.low);
      epilogue.high = attributes().get_float("activation_beta", epilogue.high);
    }
    return name.empty() || name == "Relu" || name == "Clip";
  }

  // Of sizes that only a run knows: where the transforms do not pay.
  std::unique_ptr<ShapedKernel> other_;
  mutable PackedLayouts packed_ = packed_layouts(1);
};

std::unique_ptr<PreparedKernel> prepare_winograd(KernelData& data) {
  const AttributeSet& attributes = data.attributes;
  if (attributes.get_int("channels_last", 0) == 0) return nullptr;
  if (data.input(0).dtype != DType::F32 || !data.input(1).constant.defined()) return nullptr;
  if (!generated::has_winograd_window(attributes, data.input(1).constant.shape())) return nullptr;
  return prepare_shaped<Winograd>(data);
}

}  // namespace

void register_winograd(PreparedRegistry& registry) { registry.add("LoweredConv", "onednn:winograd", prepare_winograd); }

}  // namespace anfora::kernels::onednn

// How a product by Strassen's algorithm runs (strassen_code.h). Rows are divided into blocks whose operands stay in the cache, and which threads share. For each
// block the seven operands of A are made first, row by row. Then a pair of panels takes the seven products, each one's sums on
// their own, a part of the depth at a time; then the sums become four panels of Y.
//
//                ┌ B₁₁ ┬ B₁₂ ┐  a pair of panels          for each part of the depth
//                ├ B₂₁ ┼ B₂₂ ┤                              P₁ += A₁₁ B₁₁,  P₂ += A₁₂ B₂₁,  …,  P₇ += S₃ T₃
//                └─────┴─────┘                            Y₁₁ = P₁ + P₂, …
//     block of rows  ┌ Y₁₁ ┬ Y₁₂ ┐
//     in two halves  └ Y₂₁ ┴ Y₂₂ ┘
//
// Where only a run knows the rows, the direct product (product.h) computes few of them, by the same panels: so weights that need balancing are left to it alone.
//
// Every element is computed in the same way whatever the thread. Rows that are infinite or NaN would spoil others: a block that has some is computed by
// eight products of the same panels.
#include "kernels/generated/strassen.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <boost/container/small_vector.hpp>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "kernels/generated/code_entries.h"
#include "kernels/generated/convolution_rows.h"
#include "kernels/generated/fetches.h"
#include "kernels/generated/gathered_rows.h"
#include "kernels/generated/plan_cache.h"
#include "kernels/generated/product_layout.h"
#include "kernels/generated/product_places.h"
#include "kernels/generated/winograd_window.h"
#include "kernels/reference/vectorize.h"
#include "kernels/reference/window.h"
#include "kernels/strided_product.h"
#include "support/cache_size.h"
#include "support/lasting_memory.h"
#include "support/parallel.h"
#include "support/passing_elements.h"
#include "support/scratch.h"

namespace anfora::kernels::generated {

ProductCode StrassenCode::product(bool forms_weights) const {
  // With a block that is not all of the depth: sums are kept.
  return {.isa = isa, .tile = tile, .depth = 2, .block = 1, .has_open_sizes = true, .epilogue = {}, .fetches_ahead = true, .forms_weights = forms_weights};
}

namespace {

// Of the layout of code; another generator's is not taken.
constexpr int64_t kStrassenCodeVersion = 3;

// Constants of a kernel's data. The code has the number of other products', as it says the instruction set, unless there is code of a direct product.
enum PackedStrassen : uint8_t { kBalancedWeights = kWeights, kStepBalance = kColumnData, kColumnBalance = kWeightScales, kStrassenCode = kWeightZeros + 1 };

// Numbers in the layout of packed constants.
constexpr size_t kSizesOfLayout = 7;
// Most steps of the depth that are a part.
constexpr int64_t kMostSteps = 768;
// How rows are divided. Results differ with it in their last bits, so code that was compiled for other threads or another cache keeps its own.
struct Blocking {
  int64_t threads = 2;  // that share the blocks evenly: what one of them formed of A, another would fetch from its cache
  int64_t rows = 100;   // of a block at most: the more, the fewer panels are formed, as long as the operands stay in the second-level cache

  // A single thread computes as two do.
  static Blocking of_machine() {
    constexpr int64_t kCacheBytesOfRow = 10 << 10, kMostRows = 100, kFewestRows = 20;  // as measured
    const int64_t fit = second_level_cache() / kCacheBytesOfRow;
    return {.threads = std::clamp<int64_t>(thread_count(), 2, 16), .rows = std::clamp(fit, kFewestRows, kMostRows)};
  }
  int64_t count_blocks(int64_t of_rows) const {
    constexpr int64_t kFewestRows = 10;
    const int64_t blocks = ceil_div(ceil_div(of_rows, rows), threads) * threads;
    return std::clamp<int64_t>(blocks, 1, std::max<int64_t>(of_rows / kFewestRows, 1));
  }
};

constexpr uint32_t kExponentBits = 23;
constexpr int kExponentBias = 127;
// Of factors, so that they and their inverses are no subnormals.
constexpr int kLargestExponent = 120;

constexpr uint32_t kMagnitudeBits = 0x7fffffff;
uint32_t magnitude_of(float x) { return std::bit_cast<uint32_t>(x) & kMagnitudeBits; }
int exponent_of(uint32_t magnitude) { return static_cast<int>(magnitude >> kExponentBits) - kExponentBias; }
bool is_unbounded(uint32_t magnitude) { return exponent_of(magnitude) > kExponentBias; }
float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(std::clamp(exponent, -kLargestExponent, kLargestExponent) + kExponentBias) << kExponentBits);
}

struct Sizes {
  int64_t rows = 0, depth = 0, columns = 0;
  int64_t matrices = 1, blocks = 1;  // of A, and of the rows of each
};

// Whether it pays. In multiply-adds of vectors, as measured with AVX-512: beside the seven products what forming the operands takes for each vector of A,
// forming panels for each of a quarter of B and a block, and the sums for each vector of Y. Threads that find no block wait. Narrower tiles read operands
// more often, which leaves nothing of the gain.
bool is_worthwhile(const Sizes& of, const StrassenCode& code, int64_t pairs, int64_t threads) {
  constexpr int kFewestLanes = 16;
  if (describe(code.isa).lanes < kFewestLanes) return false;
  constexpr double kOfOperand = 12, kOfPanel = 1.5, kOfResult = 12, kGain = 0.98;
  const auto lanes = static_cast<double>(describe(code.isa).lanes), half = static_cast<double>(code.half_depth(of.depth)), rows = static_cast<double>(ceil_div(of.rows, 2)),
             columns = static_cast<double>(pairs * code.panel_columns()) / lanes, blocks = static_cast<double>(of.blocks);
  const double seven = 7 * rows * half * columns + 4 * (kOfOperand * rows * half / lanes + kOfPanel * blocks * half * columns + kOfResult * rows * columns);
  const double direct = static_cast<double>(of.rows) * static_cast<double>(of.depth) * static_cast<double>(of.columns) / lanes;
  const int64_t all_blocks = of.matrices * of.blocks, places = ceil_div(all_blocks, threads) * threads;
  return seven * static_cast<double>(places) < kGain * direct * static_cast<double>(all_blocks);
}

// Panels of B balanced by steps and columns.
class BalancedWeights {
 public:
  // Of a matrix whose steps or columns lie side by side.
  BalancedWeights(const float* from, const StridedOperand& matrix)
      : from_(from), depth_(matrix.dims[0]), count_(matrix.dims[1]), step_(matrix.strides[0]), column_(matrix.strides[1]) {}

  // False where an element is infinite or NaN, or a column consists of few terms, as in a permutation: their sum is exact or nearly so, but
  // differences of columns would bring the rounding of all others into it.
  bool find_factors() {
    of_steps_.assign(static_cast<size_t>(depth_), 0);
    of_columns_.assign(static_cast<size_t>(count_), 0);
    std::vector<float> sums(of_columns_.size());  // of magnitudes
    const bool is_by_steps = column_ == 1;
    if (!is_by_steps) {
      for (int64_t n = 0; n < count_; ++n) raise(from_ + n * column_, 1, of_steps_);
    }
    by_step_.resize(of_steps_.size());
    for (int64_t k = 0; k < depth_; ++k) {
      uint32_t& largest = of_steps_[static_cast<size_t>(k)];
      if (is_by_steps) largest = largest_of(from_ + k * step_, count_);
      if (is_unbounded(largest)) return false;
      const float by = by_step_[static_cast<size_t>(k)] = power_of_two(-exponent_of_largest(largest));
      if (is_by_steps) raise(from_ + k * step_, by, of_columns_, sums.data());
    }
    for (size_t n = 0; n < of_columns_.size(); ++n) {
      if (!is_by_steps) std::tie(of_columns_[n], sums[n]) = largest_and_sum(from_ + static_cast<int64_t>(n) * column_);
      constexpr float kFewestTerms = 16;
      if (sums[n] < kFewestTerms * std::bit_cast<float>(of_columns_[n])) return false;
    }
    return true;
  }

  // What is added lies half of the steps or columns apart: only those need be of like size.
  void balance(int64_t half_steps, int64_t half_columns) {
    exponents_of_steps_ = relative_exponents(of_steps_, half_steps);
    exponents_of_columns_ = relative_exponents(of_columns_, half_columns);
  }
  // Whether the panels are the weights as they are.
  bool is_balanced() const {
    auto is_zero = [](int exponent) { return exponent == 0; };
    return std::ranges::all_of(exponents_of_steps_, is_zero) && std::ranges::all_of(exponents_of_columns_, is_zero);
  }

  // D, of whole vectors; and C, of whole pairs of panels.
  Tensor step_factors(int64_t size) const {
    Tensor factors = Tensor::zeros(DType::F32, Shape{size});
    std::ranges::transform(exponents_of_steps_, factors.data<float>().begin(), power_of_two);
    return factors;
  }
  Tensor column_factors(int64_t size) const {
    Tensor factors = Tensor::zeros(DType::F32, Shape{size});
    for (size_t n = 0; n < of_columns_.size(); ++n) factors.data<float>()[n] = of_columns_[n] == 0 ? 0.0f : power_of_two(exponents_of_columns_[n]);
    return factors;
  }

  Tensor panels(int64_t count, int64_t steps, int64_t width) const {
    Tensor panels = LastingMemory::allocate(DType::F32, Shape{count, steps, width});
    std::vector<float> by_step(static_cast<size_t>(depth_)), by_column(static_cast<size_t>(count_));
    std::ranges::transform(exponents_of_steps_, by_step.begin(), [](int exponent) { return power_of_two(-exponent); });
    std::ranges::transform(exponents_of_columns_, by_column.begin(), [](int exponent) { return power_of_two(-exponent); });
    float* to = panels.data<float>().data();
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) {
        const int64_t first = panel * width, columns = std::clamp<int64_t>(count_ - first, 0, width);
        // By squares, so that lines of memory are read as a whole whichever axis they lie along.
        for (int64_t k = 0; k < steps; k += kLineElements) {
          float* square = to + (panel * steps + k) * width;
          const int64_t present = std::clamp<int64_t>(depth_ - k, 0, kLineElements);
          if (columns < width || present < kLineElements) std::fill_n(square, std::min(kLineElements, steps - k) * width, 0.0f);
          pack_square(k, present, first, columns, width, by_step.data() + k, by_column.data() + first, square);
        }
      }
    });
    return panels;
  }

 private:
  // Of each that has one half of all before it: what it is larger by, if it is by much.
  static std::vector<int> relative_exponents(const std::vector<uint32_t>& largest, int64_t half) {
    constexpr int kOfLikeSize = 1;
    std::vector<int> exponents(largest.size(), 0);
    for (int64_t i = half; i < std::ssize(largest); ++i) {
      const uint32_t own = largest[static_cast<size_t>(i)], other = largest[static_cast<size_t>(i - half)];
      const int exponent = own == 0 || other == 0 ? 0 : exponent_of(own) - exponent_of(other);
      if (std::abs(exponent) > kOfLikeSize) exponents[static_cast<size_t>(i)] = exponent;
    }
    return exponents;
  }
  static int exponent_of_largest(uint32_t largest) { return largest == 0 ? 0 : exponent_of(largest); }
  // Calls visit(magnitudes of so many elements from x + i on, i) with vectors, then with single ones.
  static constexpr int kLanes = 8;
  template <class By, class Visit>
  static void for_each_magnitude(const float* x, int64_t count, const By& by, const Visit& visit) {
    using Floats = Vector<float, kLanes>;
    using Words = Vector<uint32_t, kLanes>;
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      visit(std::bit_cast<Words>(by(loaded<Floats>(x + i), i)) & kMagnitudeBits, i);
    }
    for (; i < count; ++i) visit(Vector<uint32_t, 1>{magnitude_of(by(Vector<float, 1>{x[i]}, i)[0])}, i);
  }
  template <class Words>
  static Words larger(Words a, Words b) { return a < b ? b : a; }

  static uint32_t largest_of(const float* x, int64_t count) {
    Vector<uint32_t, kLanes> largest{};
    for_each_magnitude(x, count, [](auto values, int64_t) { return values; }, [&](auto magnitudes, int64_t) { raise(largest, magnitudes); });
    return largest_lane(largest);
  }
  // Of a column, steps balanced.
  std::pair<uint32_t, float> largest_and_sum(const float* x) const {
    Vector<uint32_t, kLanes> largest{};
    Vector<float, kLanes> sums{};
    auto scaled = [&](auto values, int64_t k) { return values * loaded<decltype(values)>(by_step_.data() + k); };
    for_each_magnitude(x, depth_, scaled, [&](auto magnitudes, int64_t) {
      raise(largest, magnitudes);
      const auto values = std::bit_cast<Vector<float, sizeof(magnitudes) / sizeof(float)>>(magnitudes);
      if constexpr (sizeof(values) == sizeof(sums)) sums += values;
      else sums[0] += values[0];
    });
    float sum = 0;
    for (int lane = 0; lane < kLanes; ++lane) sum += sums[lane];
    return {largest_lane(largest), sum};
  }
  // Of each of some that lie side by side; `sums`: of magnitudes, or null.
  static void raise(const float* x, float by, std::vector<uint32_t>& largest, float* sums = nullptr) {
    uint32_t* const to = largest.data();
    for_each_magnitude(x, std::ssize(largest), [by](auto values, int64_t) { return values * by; }, [=](auto magnitudes, int64_t i) {
      store(to + i, larger(loaded<decltype(magnitudes)>(to + i), magnitudes));
      using Floats = Vector<float, sizeof(magnitudes) / sizeof(float)>;
      if (sums) store(sums + i, loaded<Floats>(sums + i) + std::bit_cast<Floats>(magnitudes));
    });
  }

  template <class V>
  static V loaded(const void* from) {
    V values;
    std::memcpy(&values, from, sizeof(values));
    return values;
  }
  template <class V>
  static void store(void* to, V values) {
    std::memcpy(to, &values, sizeof(values));
  }
  template <class Words>
  static void raise(Vector<uint32_t, kLanes>& largest, Words magnitudes) {
    if constexpr (sizeof(magnitudes) == sizeof(largest)) largest = larger(largest, magnitudes);
    else largest[0] = std::max<uint32_t>(largest[0], magnitudes[0]);
  }
  static uint32_t largest_lane(Vector<uint32_t, kLanes> largest) {
    uint32_t all = 0;
    for (int lane = 0; lane < kLanes; ++lane) all = std::max<uint32_t>(all, largest[lane]);
    return all;
  }

  void pack_square(int64_t k, int64_t steps, int64_t first, int64_t columns, int64_t width, const float* by_step, const float* by_column, float* to) const {
    const float* const from = from_ + k * step_ + first * column_;
    if (column_ == 1) {
      for (int64_t i = 0; i < steps; ++i) {
        for (int64_t n = 0; n < columns; ++n) to[i * width + n] = from[i * step_ + n] * by_step[i] * by_column[n];
      }
    } else {
      for (int64_t n = 0; n < columns; ++n) {
        for (int64_t i = 0; i < steps; ++i) to[i * width + n] = from[n * column_ + i] * by_step[i] * by_column[n];
      }
    }
  }

  const float* from_;
  int64_t depth_, count_, step_, column_;
  std::vector<uint32_t> of_steps_, of_columns_;  // the largest magnitudes; of columns, with steps balanced
  std::vector<float> by_step_;
  std::vector<int> exponents_of_steps_, exponents_of_columns_;
};

// W, [out, channels, taps], as [out, taps, channels]: the order in which a window lies in an image with its channels last.
Tensor with_taps_first(const float* weights, const Shape& shape) {
  const int64_t channels = shape[1], taps = shape[2];
  Tensor result = Tensor::allocate(DType::F32, Shape{shape[0], taps, channels});
  float* to = result.data<float>().data();
  parallel_for(shape[0], 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const float* from = weights + n * channels * taps;
      for (int64_t tap = 0; tap < taps; ++tap) {
        for (int64_t c = 0; c < channels; ++c) to[(n * taps + tap) * channels + c] = from[c * taps + tap];
      }
    }
  });
  return result;
}

// What is known when shapes are.
struct StrassenPlan : ProductPlaces {
  StrassenPlan(InputShapes of, const StridedProduct& product, const Epilogue& epilogue, const Blocking& blocking)
      : ProductPlaces(product, epilogue), shapes(std::move(of)), y_shape(product.y_shape), blocks(blocking.count_blocks(rows)) {}

  int64_t first_row(int64_t block) const { return rows * block / blocks; }
  int64_t half_rows() const { return ceil_div(ceil_div(rows, blocks), 2); }  // of a block, at most
  int64_t all_blocks() const { return std::ssize(matrices) * blocks; }

  InputShapes shapes;
  Shape y_shape;
  int64_t blocks;  // of rows of each matrix
};

class Strassen : public PreparedKernel {
 public:
  // Without a plan, rows are those of a run.
  Strassen(KernelData& data, const ProductLayout& layout, std::optional<StrassenPlan> plan, const Blocking& blocking)
      : data_(data),
        attributes_(data),
        code_{layout.code.isa, plan ? product_tile(layout.code.isa, layout.columns, 2) : layout.code.tile, layout.code.epilogue},
        product_(code_.product(false)),
        numbers_{code_.tile.rows},
        plan_(std::move(plan)),
        blocking_(blocking),
        depth_(layout.depth),
        columns_(layout.columns),
        half_(code_.half_depth(depth_)),
        pairs_(ceil_div(columns_, 2 * code_.panel_columns())),
        operand_stride_(row_stride(half_, code_.tile)),
        has_rows_of_y_(layout.has_rows_of_y) {}

  // Whether it would for those rows of so many matrices, with the threads that blocks are made for: a run does not ask for its own, as results do not depend on them.
  bool pays(int64_t rows, int64_t matrices) const {
    const Sizes sizes{.rows = rows, .depth = depth_, .columns = columns_, .matrices = matrices, .blocks = blocking_.count_blocks(rows)};
    return rows >= kFewestRows && is_worthwhile(sizes, code_, pairs_, blocking_.threads);
  }
  bool pays(const StrassenPlan& plan) const { return pays(plan.rows, std::ssize(plan.matrices)); }

  // Whether the first half of the depth and the left panel of a pair are always whole; and for rows of a run, whether the direct product has the same
  // panels.
  bool is_applicable() const {
    const bool has_halves = depth_ >= half_ && columns_ > pairs_ * code_.panel_columns();
    const bool is_whole = depth_ == 2 * half_ && columns_ > (2 * pairs_ - 1) * code_.panel_columns();
    return has_halves && (plan_ || is_whole);
  }
  // False where there is no code for it, and none can be made, or weights are not such as it takes.
  bool prepare(const StridedOperand& matrix, const StrassenGenerators& generators) {
    return prepare_code(generators.strassen) && prepare_weights(matrix, generators.product);
  }

  bool has_packed(size_t i) const override { return i == 1; }
  void complete() const override {
    entries_.complete();
    if (direct_) direct_->complete();
  }
  bool writes_rows_apart(size_t i) const override { return i == 0 && has_rows_of_y_; }
  bool reads_rows_apart(size_t i) const override { return i == 0 && plan_ && plan_->has_dense_rows(depth_); }
  std::unique_ptr<State> make_state() const override {
    auto plans = std::make_unique<Plans>();
    if (direct_) plans->direct = direct_->make_state();
    return plans;
  }

  void run(KernelContext& context, State* state) const override {
    if (plan_) return run(context, *plan_);
    Plans& plans = static_cast<Plans&>(*state);
    const StrassenPlan* plan = plans.plans.find_or_add(context, [this](InputShapes shapes) {
      std::optional<StrassenPlan> made = make_plan(std::move(shapes));
      if (made && pays(*made)) entries_.require(used_entries(*made));
      return made;
    });
    plan && pays(*plan) ? run(context, *plan) : direct_->run(context, plans.direct.get());
  }

 private:
  static constexpr int64_t kFewestRows = 32;

  struct Plans : State {
    PlanCache<StrassenPlan> plans;
    std::unique_ptr<State> direct;
  };

  std::optional<StrassenPlan> make_plan(InputShapes shapes) const {
    const std::optional<StridedProduct> product = attributes_.resolve(shapes);
    const bool fits = product && product->a.strides.back() == 1 && product->b.dims[product->b.rank() - 2] == depth_ && product->b.dims.back() == columns_;
    return fits ? std::optional(StrassenPlan(std::move(shapes), *product, code_.epilogue, blocking_)) : std::nullopt;
  }

  void run(KernelContext& context, const StrassenPlan& plan) const {
    const OutputRows y = context.allocate_output_rows(0, DType::F32, plan.y_shape);
    const bool has_scale = data_.op == kPointwise && context.has_input(kRowScale);
    Scratch<float> scaled_steps(has_scale ? static_cast<size_t>(step_factors_.size()) * plan.matrices.size() : 0);
    if (has_scale) scale_steps(context.input(kRowScale), plan, scaled_steps.data());
    // Threads share the rows and then the pairs of panels of as many blocks: each those of its own one, unless it is late.
    const int64_t count = plan.all_blocks(), most = std::min<int64_t>(thread_count(), count);
    boost::container::small_vector<PartScratch<float>, 8> operands;  // and factors behind them
    for (int64_t i = 0; i < most; ++i) operands.emplace_back(static_cast<size_t>(i), operand_elements(plan) + factor_elements(plan));
    boost::container::small_vector<Block, 8> blocks;
    for (int64_t first = 0; first < count; first += most) {
      blocks.clear();
      for (int64_t i = first; i < std::min(first + most, count); ++i) {
        blocks.push_back(block_of(context, plan, y, i, operands[static_cast<size_t>(i - first)].data()));
        blocks.back().steps = has_scale ? scaled_steps.data() + i / plan.blocks * step_factors_.size() : step_factors_.data<float>().data();
      }
      run(blocks);
    }
  }

  // D times what the channels of each matrix are multiplied by.
  void scale_steps(const Tensor& scale, const StrassenPlan& plan, float* to) const {
    const float *steps = step_factors_.data<float>().data(), *by = scale.data<float>().data();
    const int64_t stride = scale.size() == depth_ ? 0 : depth_;
    for (size_t i = 0; i < plan.matrices.size(); ++i, by += stride, to += step_factors_.size()) {
      for (int64_t k = 0; k < depth_; ++k) to[k] = steps[k] * by[k];
      std::fill(to + depth_, to + step_factors_.size(), 0.0f);
    }
  }

  // Some rows of one of the matrices.
  struct Block {
    const StrassenPlan* plan;
    const float* a = nullptr;
    int64_t a_stride = 0;
    const float* steps = nullptr;  // D, and what channels are multiplied by
    float* y = nullptr;
    int64_t y_stride = 0;
    std::array<const float*, 2> addends{};
    float* operands = nullptr;
    float* factors = nullptr;  // R of the upper rows and the lower ones, then their inverses
    int64_t first = 0, upper = 0, lower = 0;
    bool is_direct = false;

    float* row_factors(bool is_lower) const { return factors + (is_lower ? upper : 0); }
    float* inverse_factors(bool is_lower) const { return factors + 2 * upper + (is_lower ? upper : 0); }
  };

  size_t operand_elements(const StrassenPlan& plan) const { return static_cast<size_t>(kStrassenProducts * plan.half_rows() * operand_stride_); }
  size_t factor_elements(const StrassenPlan& plan) const { return static_cast<size_t>(4 * plan.half_rows()); }

  bool prepare_weights(const StridedOperand& matrix, ProductGenerator generate) {
    const std::vector<int64_t> layout{depth_, columns_, code_.panel_columns(), half_, pairs_, blocking_.threads, blocking_.rows};
    const PackedConstant* packed = find_packed(data_, kStepBalance);
    if (!packed && !(plan_ && data_.take_copies({kBalancedWeights, kStepBalance, kColumnBalance}, layout))) {
      const Tensor& weights = data_.input(1).constant;
      const PassingElements passing(weights);
      if (!passing.raw()) return false;
      const bool has_windows = data_.op == kConvolution && weights.shape().size() == 3;
      const Tensor taps_first = has_windows ? with_taps_first(passing.data<float>(), weights.shape()) : Tensor();
      BalancedWeights balanced(has_windows ? taps_first.data<float>().data() : passing.data<float>(), matrix);
      if (!balanced.find_factors()) return false;
      balanced.balance(half_, pairs_ * code_.panel_columns());
      if (!plan_ && !balanced.is_balanced()) return false;
      if (plan_) data_.packed.push_back({kBalancedWeights, layout, balanced.panels(2 * pairs_, 2 * half_, code_.panel_columns())});
      data_.packed.push_back({kStepBalance, layout, balanced.step_factors(2 * half_)});
      data_.packed.push_back({kColumnBalance, layout, balanced.column_factors(2 * pairs_ * code_.panel_columns())});
    }
    if (!plan_) direct_ = prepare_product(data_, generate);
    if (!plan_ && !direct_) return false;
    for (auto [number, elements] : {std::pair{kBalancedWeights, &weights_}, {kStepBalance, &step_factors_}, {kColumnBalance, &column_factors_}}) {
      packed = find_packed(data_, number);
      const bool is_of_direct = direct_ && number == kBalancedWeights;  // which has taken it
      if (!packed || (packed->layout != layout && !is_of_direct)) return false;
      *elements = packed->elements;
    }
    return true;
  }

  bool prepare_code(StrassenGenerator generate) {
    CodeEntries::Wanted wanted{.first = entries_of(rows_of_many(code_.tile)), .all = entries_of(rows_up_to(code_.tile, (code_.tile.rows + 1) / 2))};
    if (plan_) wanted = CodeEntries::Wanted::exactly(used_entries(*plan_));
    const CodeEntries::Form form{{kStrassenCodeVersion, static_cast<int64_t>(code_.isa)}};
    return entries_.prepare(data_, plan_ ? uint8_t{kCode} : uint8_t{kStrassenCode}, form, std::move(wanted), CodeEntries::made_by(generate, code_));
  }

  // By tiles of those rows. A half that has more rows than a tile has half of the largest or more in each.
  std::vector<int> entries_of(const std::vector<int>& rows_of_tiles) const {
    std::vector<int> numbers{numbers_.magnitudes(), numbers_.operands(), numbers_.finish()};
    for (int rows : rows_of_tiles) numbers.insert(numbers.end(), {numbers_.product(rows), numbers_.product_of_difference(rows)});
    return numbers;
  }
  // Of all blocks.
  std::vector<int> used_entries(const StrassenPlan& plan) const {
    std::set<int> all;
    for (int64_t block = 0; block < plan.blocks; ++block) {
      for (int rows : Tiling(ceil_div(plan.first_row(block + 1) - plan.first_row(block), 2), code_.tile).rows_of_tiles()) all.insert(rows);
    }
    return entries_of({all.begin(), all.end()});
  }
  Block block_of(const KernelContext& context, const StrassenPlan& plan, const OutputRows& y, int64_t i, float* operands) const {
    const StrassenPlan::Matrices& at = plan.matrices[static_cast<size_t>(i / plan.blocks)];
    const InputRows x = context.input_rows(0);
    Block block{.plan = &plan, .a_stride = x.are_apart() ? x.stride : plan.a_stride, .y_stride = plan.y_distance(y), .operands = operands, .factors = operands + operand_elements(plan)};
    block.a = x.tensor.data<float>().data() + (x.are_apart() ? at.a / depth_ * x.stride : at.a);
    block.y = y.tensor.data<float>().data() + plan.place_in_y(at, block.y_stride);
    for (size_t k = 0; k < block.addends.size(); ++k) {
      if (code_.epilogue.addends[k] != Addend::None) block.addends[k] = context.input(2 + k).data<float>().data() + at.addends[k];
    }
    block.first = plan.first_row(i % plan.blocks);
    const int64_t rows = plan.first_row(i % plan.blocks + 1) - block.first;
    block.upper = ceil_div(rows, 2);
    block.lower = rows - block.upper;
    return block;
  }

  void run(std::span<Block> blocks) const {
    constexpr int64_t kWork = 1 << 18;  // some thirty microseconds
    const int64_t rows = blocks.front().plan->half_rows();
    parallel_for(std::ssize(blocks) * rows, std::min(grain_of(kWork, 4 * depth_), rows), [&](int64_t begin, int64_t end) {
      in_each_block(begin, end, rows, [&](int64_t of, int64_t first, int64_t last) {
        Block& block = blocks[static_cast<size_t>(of)];
        last = std::min(last, block.upper);
        if (first >= last) return;
        if (!balance(block, first, last)) std::atomic_ref(block.is_direct).store(true, std::memory_order_relaxed);
        form_operands(block, first, last);
      });
    });
    for (const Block& block : blocks) {
      if (block.is_direct) copy_quarters(block);
    }
    parallel_for(std::ssize(blocks) * pairs_, 1, [&](int64_t begin, int64_t end) {
      Scratch<float> sums(static_cast<size_t>((kStrassenProducts + 1) * rows * code_.panel_columns()));
      Scratch<float> difference(static_cast<size_t>(kMostSteps * code_.panel_columns()));
      in_each_block(begin, end, pairs_, [&](int64_t of, int64_t first, int64_t last) {
        for (int64_t pair = first; pair < last; ++pair) multiply(blocks[static_cast<size_t>(of)], pair, sums.data(), difference.data());
      });
    });
  }

  // Calls f(i, first, last) for what of [begin, end) lies in the i-th of consecutive blocks of that size.
  template <class F>
  static void in_each_block(int64_t begin, int64_t end, int64_t size, const F& f) {
    for (int64_t i = begin / size; i * size < end; ++i) f(i, std::max(begin - i * size, int64_t{0}), std::min(end - i * size, size));
  }

  // The factors of rows [begin, end) of both halves. False where some are infinite or NaN.
  bool balance(const Block& block, int64_t begin, int64_t end) const {
    const int64_t lanes = describe(code_.isa).lanes;
    constexpr int64_t kRowsAtOnce = 16, kMostLanes = 16;
    std::array<uint32_t, kRowsAtOnce * kMostLanes> magnitudes;
    bool is_bounded = true;
    for (const bool is_lower : {false, true}) {
      const int64_t last = is_lower ? std::min(end, block.lower) : end;
      for (int64_t row = begin; row < last; row += kRowsAtOnce) {
        const int64_t count = std::min(kRowsAtOnce, last - row);
        std::array<int64_t, kMagnitudeArguments> arguments{};
        arguments[kMagnitudesOf] = address_of(row_of(block, is_lower, row));
        arguments[kMagnitudeStride] = block.a_stride;
        arguments[kMagnitudeRows] = count;
        arguments[kMagnitudeColumns] = depth_;
        arguments[kMagnitudeVectors] = ceil_div(depth_, lanes);
        arguments[kMagnitudeSteps] = address_of(block.steps);
        arguments[kMagnitudes] = address_of(magnitudes.data());
        entries_[numbers_.magnitudes()](arguments.data());
        for (int64_t i = 0; i < count; ++i) {
          const uint32_t largest = *std::max_element(magnitudes.begin() + i * lanes, magnitudes.begin() + (i + 1) * lanes);
          is_bounded = is_bounded && !generated::is_unbounded(largest);
          const int exponent = generated::is_unbounded(largest) ? 0 : exponent_of(largest);
          block.row_factors(is_lower)[row + i] = largest == 0 ? 0.0f : power_of_two(exponent);
          block.inverse_factors(is_lower)[row + i] = power_of_two(-exponent);
        }
      }
      if (is_lower && end > block.lower) block.row_factors(true)[block.lower] = block.inverse_factors(true)[block.lower] = 0;  // of a row that is not there
    }
    return is_bounded;
  }

  const float* row_of(const Block& block, bool is_lower, int64_t row) const {
    return block.a + (block.first + (is_lower ? block.upper : 0) + row) * block.a_stride;
  }

  void form_operands(const Block& block, int64_t begin, int64_t end) const {
    std::array<int64_t, kStrassenOperandArguments> arguments{};
    arguments[kUpper] = address_of(row_of(block, false, begin));
    arguments[kLower] = address_of(row_of(block, true, begin));
    arguments[kRowStride] = block.a_stride;
    arguments[kRowCount] = std::min(end, block.lower) - begin;
    arguments[kHalfVectors] = half_ / describe(code_.isa).lanes;
    arguments[kSecondColumns] = depth_ - half_;
    arguments[kStepFactors] = address_of(block.steps);
    arguments[kUpperFactors] = address_of(block.inverse_factors(false) + begin);
    arguments[kLowerFactors] = address_of(block.inverse_factors(true) + begin);
    arguments[kOperands] = address_of(block.operands + begin * operand_stride_);
    arguments[kOperandStride] = operand_stride_;
    arguments[kOperandDistance] = block.upper * operand_stride_;
    entries_[numbers_.operands()](arguments.data());
    if (end <= block.lower) return;
    // The last upper row has none below it: itself times 0.
    const int64_t row = block.lower;
    arguments[kUpper] = arguments[kLower] = address_of(row_of(block, false, row));
    arguments[kRowCount] = 1;
    arguments[kUpperFactors] = address_of(block.inverse_factors(false) + row);
    arguments[kLowerFactors] = address_of(block.inverse_factors(true) + row);
    arguments[kOperands] = address_of(block.operands + row * operand_stride_);
    entries_[numbers_.operands()](arguments.data());
  }

  // The four quarters of A, balanced, as the first operands.
  void copy_quarters(const Block& block) const {
    parallel_for(block.upper, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        for (const bool is_lower : {false, true}) {
          const bool is_there = !is_lower || row < block.lower;
          const float* from = row_of(block, is_lower, row);
          const float by_row = block.inverse_factors(is_lower)[row];
          float* to = operand(block, is_lower ? 2 : 0) + row * operand_stride_;
          for (int64_t k = 0; k < 2 * half_; ++k) {
            float& place = k < half_ ? to[k] : to[block.upper * operand_stride_ + k - half_];
            place = is_there && k < depth_ ? from[k] * block.steps[k] * by_row : 0.0f;
          }
        }
      }
    });
  }

  float* operand(const Block& block, int64_t number) const { return block.operands + number * block.upper * operand_stride_; }

  // The panels of a pair. `sums`: of seven products, and one more.
  void multiply(const Block& block, int64_t pair, float* sums, float* difference) const {
    const int64_t width = code_.panel_columns(), of_panel = 2 * half_ * width, size = block.upper * width;
    const float *left = weights_.data<float>().data() + pair * of_panel, *right = left + pairs_ * of_panel;
    const Tiling tiling(block.upper, code_.tile);
    const bool fetches_ahead = 2 * pairs_ * of_panel * int64_t{sizeof(float)} > second_level_cache() / 2 && pair + 1 < pairs_;
    const int64_t parts = ceil_div(half_, kMostSteps);
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t k = half_ * part / parts, steps = half_ * (part + 1) / parts - k;
      const float *b11 = left + k * width, *b21 = b11 + half_ * width, *b12 = right + k * width, *b22 = b12 + half_ * width;
      std::array<int64_t, kProductArguments> arguments{};
      arguments[kSteps] = steps;
      arguments[kAStride] = operand_stride_;
      arguments[kIsFirst] = part == 0;
      // sums[to] += the operand times b, or times b − subtrahend, which becomes `difference`.
      auto add_product = [&](int64_t to, int64_t number, const float* b, const float* subtrahend, const float* next) {
        const Fetches fetches = fetches_ahead && next ? Fetches(address_of(next + of_panel), steps, 1, product_, tiling.count) : Fetches();
        for (int64_t tile = 0; tile < tiling.count; ++tile) {
          const int64_t row = tiling.first_row(tile);
          const int rows = tiling.rows_of(tile);
          const bool forms = subtrahend && tile == 0;
          const int at_once = forms ? 1 : product_.panels_at_once(rows);
          arguments[kA] = address_of(operand(block, number) + row * operand_stride_ + k);
          arguments[kB] = address_of(subtrahend && !forms ? difference : b);
          arguments[kSums] = address_of(sums + to * size + row * width);
          arguments[kSubtrahend] = address_of(subtrahend);
          arguments[kDifference] = address_of(difference);
          arguments[kGroups] = 1 / at_once;
          arguments[kRest] = 1 % at_once;
          fetches.give(tile, arguments);
          entries_[forms ? numbers_.product_of_difference(rows) : numbers_.product(rows)](arguments.data());
        }
      };
      if (block.is_direct) {
        for (int64_t quarter = 0; quarter < 4; ++quarter) {
          const bool is_lower = quarter >= 2, is_right = quarter % 2 != 0;
          arguments[kIsFirst] = part == 0;
          add_product(quarter, is_lower ? 2 : 0, is_right ? b12 : b11, nullptr, nullptr);
          arguments[kIsFirst] = 0;
          add_product(quarter, is_lower ? 3 : 1, is_right ? b22 : b21, nullptr, nullptr);
        }
        continue;
      }
      add_product(0, 0, b11, nullptr, b11);
      add_product(1, 1, b21, nullptr, b21);
      add_product(2, 2, b22, nullptr, b22);
      add_product(4, 4, b12, b11, b12);               // T₁
      add_product(6, 6, b12, b22, nullptr);           // T₃
      add_product(5, 5, b11, difference, nullptr);    // T₂
      add_product(3, 3, b21, difference, nullptr);    // T₄
    }
    std::array<const float*, kStrassenProducts> terms;
    if (!block.is_direct) {
      for (size_t i = 0; i < terms.size(); ++i) terms[i] = sums + static_cast<int64_t>(i) * size;
      return finish(block, pair, false, block.lower, block.upper - block.lower, terms);
    }
    // Each half as an upper one, of P₂ and P₃ alone.
    float* const zeros = sums + kStrassenProducts * size;
    std::fill_n(zeros, size, 0.0f);
    terms.fill(zeros);
    for (const bool is_lower : {false, true}) {
      terms[1] = sums + (is_lower ? 2 : 0) * size, terms[2] = terms[1] + size;
      finish(block, pair, is_lower, 0, is_lower ? block.lower : block.upper, terms);
    }
  }

  // Rows of Y, from the sums that they consist of: so many of both halves, then so many of one.
  void finish(const Block& block, int64_t pair, bool is_lower, int64_t both, int64_t more, const std::array<const float*, kStrassenProducts>& terms) const {
    const int64_t width = code_.panel_columns(), column = pair * width, to_right = pairs_ * width;
    const int64_t row = block.first + (is_lower ? block.upper : 0);
    std::array<int64_t, kFinishArguments> arguments{};
    for (size_t i = 0; i < terms.size(); ++i) arguments[kFirstSums + i] = address_of(terms[i]);
    arguments[kLowerRows] = both;
    arguments[kRowsMore] = more;
    arguments[kUpperRowFactors] = address_of(block.row_factors(is_lower));
    arguments[kLowerRowFactors] = address_of(block.row_factors(true));
    arguments[kLeftFactors] = address_of(column_factors_.data<float>().data() + column);
    arguments[kRightFactors] = address_of(column_factors_.data<float>().data() + column + to_right);
    arguments[kFinished] = address_of(block.y + row * block.y_stride + column);
    arguments[kFinishedStride] = block.y_stride;
    arguments[kToLower] = block.upper;
    arguments[kToRight] = to_right;
    arguments[kRightColumns] = columns_ - column - to_right;
    for (size_t i = 0; i < 2; ++i) {
      if (!block.addends[i]) continue;
      arguments[kFinishedAddend0 + 2 * i] = address_of(block.addends[i] + row * block.plan->addend_strides[i] + column);
      arguments[kFinishedAddend0Stride + 2 * i] = block.plan->addend_strides[i];
    }
    entries_[numbers_.finish()](arguments.data());
  }

  KernelData& data_;
  ProductAttributes attributes_;
  StrassenCode code_;
  ProductCode product_;
  StrassenEntries numbers_;
  std::optional<StrassenPlan> plan_;
  std::unique_ptr<PreparedKernel> direct_;  // for few rows of a run
  Blocking blocking_;
  int64_t depth_, columns_;
  int64_t half_;   // of the depth, with padding
  int64_t pairs_;  // of panels
  int64_t operand_stride_;
  bool has_rows_of_y_;  // see ProductLayout
  Tensor weights_, step_factors_, column_factors_;
  CodeEntries entries_;
};

}  // namespace

std::unique_ptr<PreparedKernel> prepare_strassen(KernelData& data, const StrassenGenerators& generators) {
  if (!data.input(1).constant.defined() || data.input(1).dtype != DType::F32 || data.attributes.get_int("direct", 0) != 0) return nullptr;
  const ProductAttributes attributes(data);
  const std::optional<ProductLayout> layout = lay_out_product(data, attributes);
  if (!layout) return nullptr;
  // What is gathered of several tensors, shifted or activated lies nowhere as a matrix.
  if (layout->code.gather && (layout->code.gather->epilogue != Epilogue() || data.input(kMoreRows).present)) return nullptr;
  // Winograd's transform saves more where it is for a window.
  if (data.op == kConvolution && data.implementation.empty() && prefers_winograd(data)) return nullptr;
  const StridedOperand matrix = *weights_matrix(data, attributes);
  if (matrix.strides[0] != 1 && matrix.strides[1] != 1) return nullptr;
  Blocking blocking = Blocking::of_machine();
  if (const PackedConstant* packed = find_packed(data, kStepBalance)) {
    if (packed->layout.size() != kSizesOfLayout) return nullptr;
    blocking = {.threads = packed->layout[kSizesOfLayout - 2], .rows = packed->layout[kSizesOfLayout - 1]};
    if (blocking.threads < 1 || blocking.rows < 1) return nullptr;
  }
  std::optional<StrassenPlan> plan;
  if (data.is_static()) {
    InputShapes shapes = input_shapes(data);
    std::optional<StridedProduct> product;
    if (data.op == kConvolution) {
      const std::optional<ConvolutionRows> rows = ConvolutionRows::resolve(data.attributes, shapes);
      if (rows) product = rows->product_in_place(shapes);
    } else if (data.op == kPointwise) {
      const std::optional<GatheredRows> rows = GatheredRows::resolve(shapes);
      if (rows) product = rows->products_of_images(shapes);
    } else {
      product = attributes.resolve(shapes);
    }
    if (!product || product->a.strides.back() != 1) return nullptr;
    plan.emplace(std::move(shapes), *product, layout->code.epilogue, blocking);
  } else if (data.op == kConvolution || data.op == kPointwise) {
    return nullptr;
  }
  constexpr int64_t kRowsOfRun = 128;  // that are thought of where rows are not known
  const int64_t rows = plan ? plan->rows : kRowsOfRun, matrices = plan ? std::ssize(plan->matrices) : 1;
  auto kernel = std::make_unique<Strassen>(data, *layout, std::move(plan), blocking);
  if (!kernel->is_applicable() || (data.implementation.empty() && !kernel->pays(rows, matrices))) return nullptr;
  return kernel->prepare(matrix, generators) ? std::move(kernel) : nullptr;
}

}  // namespace anfora::kernels::generated

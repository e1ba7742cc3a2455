// How a recurrent layer runs: the products of all steps' inputs are one product, and a step multiplies the state of the step before by the recurrent
// weights, then computes its own state of the sums.
//
//     P = X Wᵀ + b                      all steps, all directions
//     S = h Rᵀ, h = cell(S, P[t], h)    step after step
//
// Threads share the units of a direction, each with all gates of its own: so they meet once a step (twice where the reset gate of GRU scales the state
// before its product), and each thread multiplies by the same weights in each step. Those it goes through forwards and backwards in turns: what the
// second-level cache holds at the end of a step is what the next one begins with.
//
//     step 0   panels ─▶        step 1   ◀─ panels        step 2   panels ─▶
//
// A step behind the end of a sequence leaves the state as it was, in both directions: what is computed there is overwritten by the state before, and
// Y becomes zero in the end.
//
// A part of a step, the units of one thread, is claimed by whoever comes first where its own thread is late (a busy machine); nobody waits for what nobody
// has begun.
#include "kernels/generated/recurrent.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "anfora/error.h"
#include "kernels/generated/code_entries.h"
#include "kernels/generated/product_layout.h"
#include "kernels/recurrent_layer.h"
#include "kernels/reference/panels.h"
#include "kernels/reference/window.h"
#include "support/deferred_elements.h"
#include "support/integers.h"
#include "support/lasting_memory.h"
#include "support/parallel.h"
#include "support/passing_elements.h"

namespace anfora::kernels::generated {
namespace {

using Cell = RecurrentLayer::Cell;

// Of the layout of code and weights; another generator's is not taken.
constexpr int64_t kRecurrentVersion = 2;

// The packed constants; those of the inputs' product come from kInputProduct on.
enum PackedRecurrent : uint8_t { kStepCode, kFirstCellCode, kRecurrentPanels = 4, kInputProduct = 8 };

// What the code of a cell reads and writes, by rows of the batch.
struct CellOperand {
  enum Kind : uint8_t {
    Sum,        // S of a gate
    Projected,  // P of a gate
    Bias,       // that the reset gate scales, a row for all
    State,      // of the step before
    CellState,  // of LSTM; as an input that of the step before
    Reset,      // the state, scaled by the reset gate
  };
  Kind kind = Kind::Sum;
  int64_t gate = 0;
};

// A product with the weights of some gates, and what is computed of its sums. Threads meet behind it.
struct Phase {
  int64_t first_gate = 0, last_gate = 0;
  bool multiplies_reset = false;  // instead of the state
  std::vector<CellOperand> inputs, outputs;
  std::vector<std::string> statements;  // of the inputs by number; a statement for each output
};

std::string function_of(RecurrentLayer::Function function) {
  switch (function) {
    case RecurrentLayer::Function::Relu: return "s = %0 + %1; s < 0 ? 0 : s";
    case RecurrentLayer::Function::Sigmoid: return "sigmoid(%0 + %1)";
    case RecurrentLayer::Function::Tanh: return "tanh(%0 + %1)";
  }
  throw Error(ErrorCode::Internal, "an activation of a recurrent layer without code");
}

std::vector<Phase> phases_of(const RecurrentLayer& layer) {
  using enum CellOperand::Kind;
  switch (layer.cell) {
    case Cell::Vanilla:
      return {{0, 1, false, {{Sum}, {Projected}}, {{State}}, {function_of(layer.activation)}}};
    case Cell::Lstm:
      return {{0,
               4,
               false,
               {{Sum, 0}, {Projected, 0}, {Sum, 1}, {Projected, 1}, {Sum, 2}, {Projected, 2}, {Sum, 3}, {Projected, 3}, {CellState}},
               {{CellState}, {State}},
               {"sigmoid(%4 + %5) * %8 + sigmoid(%0 + %1) * tanh(%6 + %7)", "sigmoid(%2 + %3) * tanh(%9)"}}};
    case Cell::Gru:
      return {{0, 2, false, {{Sum, 1}, {Projected, 1}, {State}}, {{Reset}}, {"sigmoid(%0 + %1) * %2"}},
              {2, 3, true, {{Sum, 0}, {Projected, 0}, {Sum, 2}, {Projected, 2}, {State}}, {{State}}, {"z = sigmoid(%0 + %1); (1 - z) * tanh(%2 + %3) + z * %4"}}};
    case Cell::ResetAfterGru:
      return {{0,
               3,
               false,
               {{Sum, 0}, {Projected, 0}, {Sum, 1}, {Projected, 1}, {Sum, 2}, {Projected, 2}, {Bias}, {State}},
               {{State}},
               {"z = sigmoid(%0 + %1); (1 - z) * tanh(%5 + sigmoid(%2 + %3) * (%4 + %6)) + z * %7"}}};
  }
  throw Error(ErrorCode::Internal, "a recurrent cell without code");
}

GroupCode cell_code(const Phase& phase, Isa isa) {
  GroupCode code{.isa = isa,
                 .inputs = std::vector<GroupCode::Input>(phase.inputs.size(), {.varies = true}),
                 .statements = phase.statements,
                 .outputs = {}};
  for (size_t i = 0; i < phase.outputs.size(); ++i) code.outputs.push_back({.value = static_cast<int>(phase.inputs.size() + i)});
  return code;
}

constexpr size_t kMostDirections = 2;
constexpr int64_t kMostParts = 64;  // of a direction

// Of one run.
struct RecurrentSizes {
  int64_t steps = 0, batch = 0;
};

class RecurrentKernel : public PreparedKernel {
 public:
  RecurrentKernel(KernelData& data, const RecurrentLayer& layer) : data_(data), layer_(layer), phases_(phases_of(layer)) {
    const Tensor &w = data.input(kW).constant, &r = data.input(kR).constant;
    directions_ = w.dim(0), inputs_ = w.dim(2), hidden_ = r.dim(2);
  }

  static bool has_fitting_weights(const KernelData& data, const RecurrentLayer& layer) {
    const Shape &w = data.input(kW).constant.shape(), &r = data.input(kR).constant.shape();
    if (w.size() != 3 || r.size() != 3 || r[2] == 0 || w[2] == 0 || r[0] != w[0]) return false;
    const int64_t width = layer.gates() * r[2];
    const InputDescription& bias = data.input(kBiases);
    return w[1] == width && r[1] == width && (!bias.present || bias.constant.shape() == Shape{w[0], 2 * width});
  }

  // False where there is no code for it, and none can be made.
  bool prepare(const RecurrentGenerators& generators) {
    add_biases();
    if (!find_code(generators) || !prepare_input_product(generators.product)) return false;
    const PackedConstant* packed = find_packed(data_, kRecurrentPanels);
    if (packed && packed->layout != of_panels()) return false;
    if (!packed) {
      if (!DeferredElements::identity(data_.input(kR).constant)) return false;
      if (!data_.take_copies({kRecurrentPanels}, of_panels()))
        data_.packed.push_back({kRecurrentPanels, of_panels(), pack_recurrent_weights()});
    }
    panels_ = find_packed(data_, kRecurrentPanels)->elements;
    if (const InputDescription& x = data_.input(kX); x.is_static()) data_.workspace_bytes = workspace_bytes({(*x.shape)[0], (*x.shape)[1]});
    return true;
  }

  bool has_packed(size_t i) const override { return i == kW || i == kR; }
  std::unique_ptr<State> make_state() const override {
    auto state = std::make_unique<LayerState>();
    state->of_inputs = input_product_->make_state();
    return state;
  }

  void run(KernelContext& context, State* state) const override { LayerRun(*this, context, static_cast<LayerState&>(*state)).run(); }

  void complete() const override {
    entries_.complete();
    input_product_->complete();
    for (PackedConstant& packed : data_.packed) {
      if (packed.number < kInputProduct) continue;
      const PackedConstant& whole = *find_packed(input_data_, packed.number - kInputProduct);
      packed = {packed.number, whole.layout, whole.elements};
    }
  }

 private:
  struct LayerState : State {
    std::unique_ptr<State> of_inputs;
    int64_t batch = 0;  // of the last run
  };

  // What a run needs, by direction: sums of all gates, the state of the step before the first, reset states, and two of LSTM's cell states.
  struct Memory {
    float *sums, *initial, *reset, *cells;
  };

  // Which parts of a step have been taken; of one direction.
  struct alignas(64) Part {
    std::atomic<int64_t> claimed{0};  // steps
    std::atomic<bool> has_thread{false};
  };
  struct alignas(64) Progress {
    std::atomic<int64_t> done{0};  // parts of steps
  };

  class LayerRun {
   public:
    LayerRun(const RecurrentKernel& kernel, KernelContext& context, LayerState& state)
        : kernel_(kernel),
          context_(context),
          sizes_(kernel.sizes_of(context.input(kX))),
          rows_(sizes_.batch * kernel.hidden_),
          lengths_(read_sequence_lengths(context, sizes_.steps, sizes_.batch)),
          tiling_(std::max<int64_t>(sizes_.batch, 1), kernel.code_.tile) {
      const Shape shape{sizes_.steps, kernel.directions_, sizes_.batch, kernel.hidden_};
      y_ = context.allocate_output(0, DType::F32, shape).data<float>().data();
      projected_ = kernel.project_inputs(context, state.of_inputs.get(), sizes_);
      if (std::exchange(state.batch, sizes_.batch) != sizes_.batch) kernel.entries_.require(tiling_.rows_of_tiles());
      for (int64_t d = 0; d < kernel.directions_; ++d) {
        Memory memory{};
        memory.sums = take(sizes_.batch * kernel.gates() * kernel.padded());
        memory.initial = take(rows_);
        memory.reset = kernel.layer_.cell == Cell::Gru ? take(rows_) : nullptr;
        memory.cells = kernel.layer_.cell == Cell::Lstm ? take(2 * rows_) : nullptr;
        copy_state(kInitialH, d, memory.initial);
        if (memory.cells) copy_state(kInitialC, d, memory.cells);
        memory_[static_cast<size_t>(d)] = memory;
      }
    }

    void run() {
      if (rows_ > 0) run_steps();
      for (size_t output = 1; output < context_.num_outputs(); ++output) {
        const Shape shape{kernel_.directions_, sizes_.batch, kernel_.hidden_};
        float* to = context_.allocate_output(output, DType::F32, shape).data<float>().data();
        for (int64_t d = 0; d < kernel_.directions_; ++d, to += rows_)
          std::copy_n(output == 1 ? state_before(d, sizes_.steps) : cell_state(d, sizes_.steps), rows_, to);
      }
      for_each_ended(0, sizes_.steps, [&](int64_t time, int64_t b) {
        for (int64_t d = 0; d < kernel_.directions_; ++d) std::fill_n(y_ + (time * kernel_.directions_ + d) * rows_ + b * kernel_.hidden_, kernel_.hidden_, 0.0f);
      });
    }

   private:
    // Where threads divide a direction, a step's product and its meeting are worth it; where they take directions apart, all steps are.
    void run_steps() {
      constexpr int64_t kWorthMeeting = 1 << 17, kWorthThreads = 1 << 20;  // multiply-adds; some two and ten microseconds
      const int64_t threads = thread_count(), cost = sizes_.batch * kernel_.gates() * kernel_.hidden_ * kernel_.hidden_;
      const int64_t most = std::min(kernel_.panels_of_gate(), kMostParts);
      const int64_t of_direction = cost < kWorthMeeting ? 1 : std::clamp<int64_t>(threads / kernel_.directions_, 1, most);
      const int64_t all = of_direction * kernel_.directions_;
      if (threads == 1 || all == 1 || cost * sizes_.steps < kWorthThreads) {
        parts_ = 1;
        for (int64_t d = 0; d < kernel_.directions_; ++d) {
          for (int64_t round = 0; round < rounds(); ++round) compute(d, round, 0);
        }
        return;
      }
      parts_ = of_direction;
      parallel_for(all, 1, [&](int64_t begin, int64_t end) {
        for (int64_t member = begin; member < end; ++member) work(member % kernel_.directions_, member / kernel_.directions_);
      });
    }

    // A phase of a step is a round.
    int64_t rounds() const { return sizes_.steps * std::ssize(kernel_.phases_); }

    // What a thread does until all is done: its own part of each round, and others' that nobody else does.
    void work(int64_t direction, int64_t part) {
      constexpr int64_t kPatience = 2000, kLongPatience = 8 * kPatience;  // some 50 and 400 microseconds
      part_of(direction, part).has_thread.store(true, std::memory_order_relaxed);
      for (int64_t waited = 0;;) {
        bool is_over = true, has_worked = false;
        for (int64_t i = 0; i < kernel_.directions_ && !has_worked; ++i) {
          const int64_t d = (direction + i) % kernel_.directions_, round = progress_[static_cast<size_t>(d)].done.load(std::memory_order_acquire) / parts_;
          if (round == rounds()) continue;
          is_over = false;
          for (int64_t k = 0; k < parts_ && !has_worked; ++k) {
            const int64_t p = (part + k) % parts_;
            const bool is_own = i == 0 && k == 0;
            Part& claimed = part_of(d, p);
            if (!is_own && waited < kPatience && claimed.has_thread.load(std::memory_order_relaxed)) continue;
            int64_t expected = round;
            if (!claimed.claimed.compare_exchange_strong(expected, round + 1, std::memory_order_relaxed)) continue;
            compute(d, round, p);
            progress_[static_cast<size_t>(d)].done.fetch_add(1, std::memory_order_release);
            has_worked = true;
          }
        }
        if (is_over) return;
        if (has_worked) {
          waited = 0;
          continue;
        }
        ++waited;
        __builtin_ia32_pause();
        if (waited > kLongPatience) sched_yield();
      }
    }

    void compute(int64_t d, int64_t round, int64_t part) {
      const int64_t step = round / std::ssize(kernel_.phases_);
      const auto phase = static_cast<size_t>(round % std::ssize(kernel_.phases_));
      const int64_t first = kernel_.panels_of_gate() * part / parts_, last = kernel_.panels_of_gate() * (part + 1) / parts_;
      multiply(d, step, kernel_.phases_[phase], first, last);
      const int64_t first_unit = first * kernel_.code_.panel_columns(), last_unit = std::min(last * kernel_.code_.panel_columns(), kernel_.hidden_);
      compute_cell(d, step, phase, first_unit, last_unit);
      if (phase + 1 == kernel_.phases_.size()) keep_states(d, step, first_unit, last_unit);
    }

    // Calls f(time, sequence) for the times in [begin, end) behind the end of a sequence.
    template <class F>
    void for_each_ended(int64_t begin, int64_t end, const F& f) const {
      for (size_t b = 0; b < lengths_.size(); ++b) {
        for (int64_t time = std::max<int64_t>(begin, lengths_[b]); time < end; ++time) f(time, static_cast<int64_t>(b));
      }
    }

    // Some units of the sequences that have ended.
    void keep_states(int64_t d, int64_t step, int64_t first, int64_t last) {
      const int64_t time = time_of(d, step);
      auto keep = [&](const CellOperand& operand, int64_t b) {
        const auto [before, row] = rows_of(d, step, operand, false);
        float* to = const_cast<float*>(rows_of(d, step, operand, true).first);
        std::copy(before + b * row + first, before + b * row + last, to + b * row + first);
      };
      for_each_ended(time, time + 1, [&](int64_t, int64_t b) {
        keep({CellOperand::State}, b);
        if (kernel_.layer_.cell == Cell::Lstm) keep({CellOperand::CellState}, b);
      });
    }

    // Sums of some panels of each gate, as many at a time as the code takes side by side.
    void multiply(int64_t d, int64_t step, const Phase& phase, int64_t first, int64_t last) {
      const ProductCode& code = kernel_.code_;
      const Memory& memory = memory_[static_cast<size_t>(d)];
      const float* a = phase.multiplies_reset ? memory.reset : state_before(d, step);
      const int64_t at_once = code.panels_at_once(tiling_.rows), runs = ceil_div(last - first, at_once);
      const int64_t all = (phase.last_gate - phase.first_gate) * runs;
      const int64_t width = code.panel_columns(), row = kernel_.gates() * kernel_.padded();
      std::array<int64_t, kProductArguments> arguments{};
      arguments[kYStride] = row;
      arguments[kSteps] = arguments[kAStride] = kernel_.hidden_;
      arguments[kPanelStride] = kernel_.hidden_ * width;
      arguments[kIsFirst] = arguments[kIsLast] = 1;
      for (int64_t i = 0; i < all; ++i) {
        const int64_t at = step % 2 == 0 ? i : all - 1 - i, gate = phase.first_gate + at / runs;
        const int64_t panel = first + at % runs * at_once, count = std::min(at_once, last - panel);
        const int64_t column = gate * kernel_.padded() + panel * width;
        arguments[kB] = address_of(kernel_.panels_.data<float>().data() + (d * kernel_.gates() * kernel_.padded() + column) * kernel_.hidden_);
        arguments[kColumns] = count * width;
        for (int64_t tile = 0; tile < tiling_.count; ++tile) {
          const int64_t first_row = tiling_.first_row(tile);
          const int rows = tiling_.rows_of(tile), together = code.panels_at_once(rows);
          arguments[kA] = address_of(a + first_row * kernel_.hidden_);
          arguments[kY] = address_of(memory.sums + first_row * row + column);
          arguments[kGroups] = count / together;
          arguments[kRest] = count % together;
          kernel_.entries_[rows](arguments.data());
        }
      }
    }

    void compute_cell(int64_t d, int64_t step, size_t number, int64_t first, int64_t last) {
      const Phase& phase = kernel_.phases_[number];
      std::array<int64_t, kGroupArguments + 2 * kMostGroupOperands> arguments{};
      const auto elements = static_cast<float>(last - first);
      arguments[kRows] = sizes_.batch;
      set_row_arguments(arguments.data(), last - first, describe(kernel_.code_.isa).lanes);
      arguments[kRowSize] = address_of(&elements);
      size_t at = kGroupArguments;
      auto add = [&](const CellOperand& operand, bool is_output) {
        const auto [row, stride] = rows_of(d, step, operand, is_output);
        arguments[at++] = address_of(row + first);
        arguments[at++] = stride;
      };
      for (const CellOperand& operand : phase.inputs) add(operand, false);
      for (const CellOperand& operand : phase.outputs) add(operand, true);
      kernel_.cells_[number](arguments.data());
    }

    // The first row of an operand, and the distance to the next.
    std::pair<const float*, int64_t> rows_of(int64_t d, int64_t step, const CellOperand& operand, bool is_output) const {
      const Memory& memory = memory_[static_cast<size_t>(d)];
      const int64_t hidden = kernel_.hidden_, gates = kernel_.gates();
      switch (operand.kind) {
        case CellOperand::Sum: return {memory.sums + operand.gate * kernel_.padded(), gates * kernel_.padded()};
        case CellOperand::Projected: {
          const int64_t row = kernel_.directions_ * gates * hidden;
          return {projected_ + time_of(d, step) * sizes_.batch * row + (d * gates + operand.gate) * hidden, row};
        }
        case CellOperand::Bias: return {kernel_.reset_bias_.data() + d * hidden, 0};
        case CellOperand::State: return {is_output ? state_before(d, step + 1) : state_before(d, step), hidden};
        case CellOperand::CellState: return {cell_state(d, is_output ? step + 1 : step), hidden};
        case CellOperand::Reset: return {memory.reset, hidden};
      }
      throw Error(ErrorCode::Internal, "an operand of a recurrent cell without memory");
    }

    int64_t time_of(int64_t d, int64_t step) const { return kernel_.layer_.goes_backwards(d) ? sizes_.steps - 1 - step : step; }
    const float* state_before(int64_t d, int64_t step) const {
      return step == 0 ? memory_[static_cast<size_t>(d)].initial : y_ + (time_of(d, step - 1) * kernel_.directions_ + d) * rows_;
    }
    const float* cell_state(int64_t d, int64_t step) const { return memory_[static_cast<size_t>(d)].cells + step % 2 * rows_; }
    Part& part_of(int64_t d, int64_t part) { return claims_[static_cast<size_t>(d * kMostParts + part)]; }

    float* take(int64_t elements) { return context_.workspace_of<float>(static_cast<size_t>(elements)).data(); }
    void copy_state(size_t input, int64_t d, float* to) {
      const Tensor* given = context_.optional_input(input);
      if (!given) {
        std::fill_n(to, rows_, 0.0f);
        return;
      }
      const Shape expected{kernel_.directions_, sizes_.batch, kernel_.hidden_};
      if (given->shape() != expected) {
        const char* name = input == kInitialH ? "initial_h" : "initial_c";
        throw Error(ErrorCode::TypeMismatch,
                    fmt::format("{} is of shape {}, not {}", name, anfora::to_string(given->shape()), anfora::to_string(expected)));
      }
      std::copy_n(given->data<float>().data() + d * rows_, rows_, to);
    }

    const RecurrentKernel& kernel_;
    KernelContext& context_;
    RecurrentSizes sizes_;
    int64_t rows_;  // elements of a state
    std::span<const int32_t> lengths_;
    Tiling tiling_;
    int64_t parts_ = 1;
    float* y_ = nullptr;
    const float* projected_ = nullptr;
    std::array<Memory, kMostDirections> memory_{};
    std::array<Progress, kMostDirections> progress_;
    std::array<Part, kMostDirections * kMostParts> claims_;
  };

  int64_t gates() const { return layer_.gates(); }
  int64_t panels_of_gate() const { return ceil_div(hidden_, code_.panel_columns()); }
  int64_t padded() const { return panels_of_gate() * code_.panel_columns(); }
  std::vector<int64_t> of_panels() const { return {kRecurrentVersion, directions_, gates(), hidden_, code_.panel_columns()}; }

  // Weights of a gate in panels of columns.
  Tensor pack_recurrent_weights() const {
    const Tensor& r = data_.input(kR).constant;
    const int64_t width = code_.panel_columns(), panels = panels_of_gate();
    Tensor packed = LastingMemory::allocate(DType::F32, Shape{directions_ * gates() * panels, hidden_, width});
    const PassingElements passing(r);
    for (int64_t gate = 0; gate < directions_ * gates(); ++gate) {
      const float* from = passing.data<float>() + gate * hidden_ * hidden_;
      float* to = packed.data<float>().data() + gate * panels * hidden_ * width;
      pack_panels(DType::F32, {hidden_, hidden_}, std::array{StridedAxis{hidden_, 1}}, width, from, to);
    }
    return packed;
  }

  // What ONNX adds to the products by W and by R is added to the former, but for what the reset gate scales.
  void add_biases() {
    const Tensor& given = data_.input(kBiases).constant;
    const int64_t width = gates() * hidden_;
    const bool is_apart = layer_.cell == Cell::ResetAfterGru;
    if (is_apart) reset_bias_.assign(static_cast<size_t>(directions_ * hidden_), 0.0f);
    if (!given.defined()) return;
    bias_ = Tensor::allocate(DType::F32, Shape{directions_ * width});
    for (int64_t d = 0; d < directions_; ++d) {
      const float *of_inputs = given.data<float>().data() + d * 2 * width, *of_state = of_inputs + width;
      float* to = bias_.data<float>().data() + d * width;
      const int64_t added = is_apart ? width - hidden_ : width;
      std::transform(of_inputs, of_inputs + added, of_state, to, std::plus());
      std::copy(of_inputs + added, of_inputs + width, to + added);
      if (is_apart) std::copy(of_state + added, of_state + width, reset_bias_.begin() + d * hidden_);
    }
  }

  // The entries for the rows of a batch, and a cell's for each phase.
  bool find_code(const RecurrentGenerators& generators) {
    const std::optional<Isa> isa = CodeEntries::isa_of(find_packed(data_, kStepCode), kRecurrentVersion);
    if (!isa) return false;
    code_ = {.isa = *isa, .tile = product_tile(*isa, hidden_), .depth = hidden_, .block = hidden_, .a_stride = hidden_, .has_open_sizes = true, .epilogue = {}};
    CodeEntries::Wanted wanted{.first = {1}, .all = rows_up_to(code_.tile)};
    if (const int64_t batch = known_batch(); batch > 0) wanted = CodeEntries::Wanted::exactly(Tiling(batch, code_.tile).rows_of_tiles());
    if (!entries_.prepare(data_, kStepCode, {{kRecurrentVersion, static_cast<int64_t>(*isa)}}, std::move(wanted), CodeEntries::made_by(generators.product, code_))) return false;
    if (!find_packed(data_, kFirstCellCode)) {
      if (!generators.cell) return false;
      for (size_t i = 0; i < phases_.size(); ++i) {
        GeneratedGroup cell = generators.cell(cell_code(phases_[i], *isa));
        data_.packed.push_back({kFirstCellCode + i, {cell.code.entries.at(0)}, std::move(cell.code.bytes)});
      }
    }
    for (size_t i = 0; i < phases_.size(); ++i) {
      const PackedConstant* cell = find_packed(data_, kFirstCellCode + i);
      if (!cell || cell->layout.size() != 1) return false;
      mapped_.push_back(ExecutableCode::map({.isa = *isa, .entries = {cell->layout[0]}, .bytes = cell->elements}));
      cells_.push_back(mapped_.back()->entry(cell->layout[0]));
    }
    return true;
  }

  // 0 where it is not known.
  int64_t known_batch() const {
    const InputDescription& x = data_.input(kX);
    return x.shape && x.shape->size() == 3 ? std::max<int64_t>((*x.shape)[1], 0) : 0;
  }

  // The weights of both directions as one matrix.
  bool prepare_input_product(ProductGenerator generate) {
    const Tensor& w = data_.input(kW).constant;
    const Shape matrix{directions_ * gates() * hidden_, inputs_};
    const std::vector<int64_t> transposed{1, 0};
    const Tensor weights = DeferredElements::identity(w) ? w.reshaped(matrix) : Tensor::view(DType::F32, matrix, nullptr, nullptr);
    input_data_ = {.op = "LoweredMatMul",
                   .attributes = {{"perm_b", transposed}},
                   .inputs = {data_.input(kX), {.present = true, .dtype = DType::F32, .shape = matrix, .constant = weights}}};
    if (bias_.defined()) input_data_.inputs.push_back({.present = true, .dtype = DType::F32, .shape = bias_.shape(), .constant = bias_});
    for (const PackedConstant& packed : data_.packed) {
      if (packed.number >= kInputProduct) input_data_.packed.push_back({packed.number - kInputProduct, packed.layout, packed.elements});
    }
    const size_t known = input_data_.packed.size();
    input_product_ = prepare_product(input_data_, generate);
    for (const PackedConstant& packed : std::span(input_data_.packed).subspan(known))
      data_.packed.push_back({packed.number + kInputProduct, packed.layout, packed.elements});
    return input_product_ != nullptr;
  }

  Shape projected_shape(const RecurrentSizes& sizes) const { return {sizes.steps, sizes.batch, directions_ * gates() * hidden_}; }

  const float* project_inputs(KernelContext& context, State* state, const RecurrentSizes& sizes) const {
    const Datum x(context.input(kX)), weights(input_data_.input(1).constant), bias = bias_.defined() ? Datum(bias_) : Datum();
    const std::array<const Datum*, 3> inputs{&x, &weights, &bias};
    const Tensor planned = context.temporary(DType::F32, projected_shape(sizes));
    Datum result;
    KernelContext inner = context.inner(input_data_.attributes, std::span(inputs).first(input_data_.inputs.size()), {&result, 1}, {&planned, 1});
    input_product_->run(inner, state);
    return planned.data<float>().data();
  }

  // What a run takes, each array from a line of its own on.
  size_t workspace_bytes(const RecurrentSizes& sizes) const {
    auto lines = [](int64_t elements) { return ceil_div(elements, kLineElements) * kLineElements * int64_t{sizeof(float)}; };
    const int64_t state = sizes.batch * hidden_;
    const int64_t of_cell = layer_.cell == Cell::Gru ? lines(state) : layer_.cell == Cell::Lstm ? lines(2 * state) : 0;
    const int64_t of_direction = lines(sizes.batch * gates() * padded()) + lines(state) + of_cell;
    return static_cast<size_t>(lines(element_count(projected_shape(sizes))) + directions_ * of_direction) + input_data_.workspace_bytes;
  }

  RecurrentSizes sizes_of(const Tensor& x) const {
    if (x.rank() != 3 || x.dim(2) != inputs_)
      throw Error(ErrorCode::TypeMismatch, fmt::format("X is of shape {}, not [steps, batch, {}]", anfora::to_string(x.shape()), inputs_));
    return {x.dim(0), x.dim(1)};
  }

  KernelData& data_;
  RecurrentLayer layer_;
  std::vector<Phase> phases_;
  int64_t directions_ = 0, inputs_ = 0, hidden_ = 0;
  ProductCode code_;
  Tensor panels_;
  Tensor bias_;                    // of the inputs' product, undefined where there is none
  std::vector<float> reset_bias_;  // by direction, where it is apart
  KernelData input_data_;
  std::unique_ptr<PreparedKernel> input_product_;
  std::vector<std::shared_ptr<const ExecutableCode>> mapped_;
  CodeEntries entries_;
  std::vector<EntryPoint> cells_;  // by phase
};

}  // namespace

std::unique_ptr<PreparedKernel> prepare_recurrent(KernelData& data, const RecurrentGenerators& generators) {
  const std::optional<RecurrentLayer> layer = read_recurrent_layer(data);
  if (!layer || !RecurrentKernel::has_fitting_weights(data, *layer)) return nullptr;
  auto kernel = std::make_unique<RecurrentKernel>(data, *layer);
  return kernel->prepare(generators) ? std::move(kernel) : nullptr;
}

}  // namespace anfora::kernels::generated

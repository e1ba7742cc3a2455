// RNN, LSTM and GRU as their implementations with constant weights see them: with the usual activations.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kernels/prepared.h"

namespace anfora::kernels {

enum RecurrentInput : size_t { kX, kW, kR, kBiases, kLengths, kInitialH, kInitialC, kPeepholes };

struct RecurrentLayer {
  enum class Cell : uint8_t { Vanilla, Lstm, Gru, ResetAfterGru };  // the last: linear_before_reset
  enum class Function : uint8_t { Tanh, Relu, Sigmoid };

  Cell cell = Cell::Vanilla;
  Function activation = Function::Tanh;  // of a vanilla RNN
  bool reverse = false;                  // the only direction
  bool has_lengths = false;              // of the sequences; else all have one

  // Rows of W and R are [gates · hidden]; LSTM's gates are i, o, f, c, GRU's z, r, h.
  int64_t gates() const { return cell == Cell::Vanilla ? 1 : cell == Cell::Lstm ? 4 : 3; }
  bool goes_backwards(int64_t direction) const { return reverse || direction == 1; }
};

// Nothing where weights are not constant, or the operator asks for more than such a layer.
std::optional<RecurrentLayer> read_recurrent_layer(const KernelData& data);

// sequence_lens of a run, i32[batch]; empty where there are none. Throws TypeMismatch for another type, InvalidArgument for a length below 0 or
// above `steps`.
std::span<const int32_t> read_sequence_lengths(const KernelContext& context, int64_t steps, int64_t batch);

}  // namespace anfora::kernels

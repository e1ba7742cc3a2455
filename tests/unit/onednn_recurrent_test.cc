#include "prepare_kernel.h"

namespace anfora {
namespace {

using Dims = std::vector<int64_t>;

void check(const char* op, int64_t gates, const AttributeSet& given, bool bias, bool initial_state) {
  const int64_t steps = 5, batch = 3, inputs = 12, hidden = 16;
  for (const char* direction : {"forward", "reverse", "bidirectional"}) {
    SCOPED_TRACE(std::string(op) + " " + direction);
    const int64_t directions = std::string(direction) == "bidirectional" ? 2 : 1;
    AttributeSet attributes = given.with("direction", std::string(direction)).with("hidden_size", hidden);
    Tensor x = random_tensor({steps, batch, inputs}, 1), w = random_tensor({directions, gates * hidden, inputs}, 2);
    Tensor r = random_tensor({directions, gates * hidden, hidden}, 3);
    Tensor b = bias ? random_tensor({directions, 2 * gates * hidden}, 4) : Tensor();
    Tensor h = initial_state ? random_tensor({directions, batch, hidden}, 5) : Tensor();
    Tensor c = initial_state ? random_tensor({directions, batch, hidden}, 6) : Tensor();
    // What is constant: W, R and B. The states vary from run to run as X does.
    std::vector<Tensor> all{x, w, r, b, Tensor(), h};
    if (std::string(op) == "LSTM") all.push_back(c);
    for (size_t outputs : {size_t{1}, size_t{2}}) {
      expect_prepared(op, attributes, all, {1, 2, 3}, false, 1e-5f, outputs);
      expect_prepared(op, attributes, all, {1, 2, 3}, true, 1e-5f, outputs);
    }
    if (std::string(op) == "LSTM") expect_prepared(op, attributes, all, {1, 2, 3}, false, 1e-5f, 3);
  }
}

TEST(OnednnRecurrent, AgreesWithTheReference) {
  for (bool bias : {false, true}) {
    for (bool initial_state : {false, true}) {
      check("RNN", 1, {}, bias, initial_state);
      check("RNN", 1, {{"activations", std::vector<std::string>{"Relu", "Relu"}}}, bias, initial_state);
      check("LSTM", 4, {}, bias, initial_state);
      check("GRU", 3, {}, bias, initial_state);
      check("GRU", 3, {{"linear_before_reset", int64_t{1}}}, bias, initial_state);
    }
  }
}

}  // namespace
}  // namespace anfora

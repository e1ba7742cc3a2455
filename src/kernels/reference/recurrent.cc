// RNN, LSTM and GRU: one layer, one or two directions.
//
// All inputs of a direction go through W in one matrix product before the loop; a step then costs one product with R
// and the cell's elementwise equations. Sequences of a batch may differ in length: a step works on the rows whose
// sequence is long enough, and a reverse direction reads each row from its own end.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "kernels/recurrent_layer.h"
#include "kernels/reference/accumulate.h"
#include "kernels/reference/families.h"
#include "kernels/reference/gemm.h"
#include "support/parallel.h"

namespace anfora::kernels {
namespace {

// Activation values that are worth a thread of their own.
constexpr int64_t kActivationGrain = 2048;

struct Activation {
  enum class Kind : uint8_t {
    Relu,
    Tanh,
    Sigmoid,
    Affine,
    LeakyRelu,
    ThresholdedRelu,
    ScaledTanh,
    HardSigmoid,
    Elu,
    Softsign,
    Softplus
  };
  Kind kind = Kind::Tanh;
  float alpha = 0, beta = 0;
};

using Activations = boost::container::small_vector<Activation, 6>;

struct ActivationKind {
  const char* name;
  Activation::Kind kind;
  std::optional<float> alpha, beta;  // defaults, of those that take one
};

const ActivationKind kActivations[] = {
    {"relu", Activation::Kind::Relu, {}, {}},
    {"tanh", Activation::Kind::Tanh, {}, {}},
    {"sigmoid", Activation::Kind::Sigmoid, {}, {}},
    {"affine", Activation::Kind::Affine, 1.0f, 0.0f},
    {"leakyrelu", Activation::Kind::LeakyRelu, 0.01f, {}},
    {"thresholdedrelu", Activation::Kind::ThresholdedRelu, 1.0f, {}},
    {"scaledtanh", Activation::Kind::ScaledTanh, 1.0f, 1.0f},
    {"hardsigmoid", Activation::Kind::HardSigmoid, 0.2f, 0.5f},
    {"elu", Activation::Kind::Elu, 1.0f, {}},
    {"softsign", Activation::Kind::Softsign, {}, {}},
    {"softplus", Activation::Kind::Softplus, {}, {}},
};

template <class T>
T apply_activation(const Activation& f, T x) {
  T alpha = static_cast<T>(f.alpha), beta = static_cast<T>(f.beta);
  switch (f.kind) {
    case Activation::Kind::Relu: return x > 0 ? x : T{0};
    case Activation::Kind::Tanh: return std::tanh(x);
    case Activation::Kind::Sigmoid: return 1 / (1 + std::exp(-x));
    case Activation::Kind::Affine: return alpha * x + beta;
    case Activation::Kind::LeakyRelu: return x >= 0 ? x : alpha * x;
    case Activation::Kind::ThresholdedRelu: return x >= alpha ? x : T{0};
    case Activation::Kind::ScaledTanh: return alpha * std::tanh(beta * x);
    case Activation::Kind::HardSigmoid: return std::clamp<T>(alpha * x + beta, 0, 1);
    case Activation::Kind::Elu: return x >= 0 ? x : alpha * std::expm1(x);
    case Activation::Kind::Softsign: return x / (1 + std::fabs(x));
    case Activation::Kind::Softplus: return std::max<T>(x, 0) + std::log1p(std::exp(-std::fabs(x)));
  }
  return x;
}

// What the three operators have in common: sizes, attributes and the tensors that all of them have.
struct Layer {
  int64_t gates = 0;  // 1, 4, 3
  int64_t steps = 0, batch = 0, inputs = 0, hidden = 0, directions = 1;
  bool reverse_first = false;  // direction 0 runs from the end
  bool batch_first = false;    // layout 1
  float clip = std::numeric_limits<float>::infinity();
  Activations activations;     // those of direction 0, then of direction 1
  std::span<int64_t> lengths;  // of each sequence of the batch
  DType dtype = DType::F32;
  Tensor x, w, r, bias;  // in the accumulator; bias may be undefined

  size_t activations_per_direction() const { return activations.size() / static_cast<size_t>(directions); }
  Shape state_shape() const {
    return batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  }
  // Where row `b` of direction `d` lies in a tensor of state_shape().
  int64_t state_offset(int64_t d, int64_t b) const {
    return (batch_first ? b * directions + d : d * batch + b) * hidden;
  }
  int64_t input_row(int64_t t, int64_t b) const { return batch_first ? b * steps + t : t * batch + b; }
};

// alpha and beta are consumed in the order of the activations, by those that take them.
Activations read_activations(const AttributeSet& attributes, std::initializer_list<std::string_view> defaults,
                             int64_t directions) {
  const std::span<const std::string> names = attributes.strings("activations");
  const size_t needed = defaults.size() * static_cast<size_t>(directions);
  if (!names.empty() && names.size() < needed) {
    throw Error(ErrorCode::InvalidModel, fmt::format("{} activations, {} are needed", names.size(), needed));
  }
  const std::span<const float> alphas = attributes.floats("activation_alpha"), betas = attributes.floats("activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  Activations result;
  for (size_t i = 0; i < needed; ++i) {
    const std::string_view name = names.empty() ? defaults.begin()[i % defaults.size()] : std::string_view(names[i]);
    const auto* known = std::ranges::find_if(kActivations, [&](const ActivationKind& kind) {
      return std::ranges::equal(name, std::string_view(kind.name), {}, [](unsigned char c) { return std::tolower(c); });
    });
    if (known == std::end(kActivations)) {
      throw Error(ErrorCode::InvalidModel, fmt::format("the activation '{}' is unknown", name));
    }
    Activation f{known->kind};
    if (known->alpha) f.alpha = next_alpha < alphas.size() ? alphas[next_alpha++] : *known->alpha;
    if (known->beta) f.beta = next_beta < betas.size() ? betas[next_beta++] : *known->beta;
    result.push_back(f);
  }
  return result;
}

void check(const Tensor& tensor, const char* what, const Shape& expected, DType dtype) {
  if (tensor.dtype() != dtype || tensor.shape() != expected) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("{} is {}[{}], expected {}[{}]", what, name(tensor.dtype()),
                                                     to_string(tensor.shape()), name(dtype), to_string(expected)));
  }
}

Layer read_layer(KernelContext& context, int64_t gates, std::initializer_list<std::string_view> activations) {
  const AttributeSet& attributes = context.attributes();
  const Tensor& x = context.input(0);
  const Tensor& w = context.input(1);
  const Tensor& r = context.input(2);
  Layer layer;
  layer.gates = gates;
  layer.dtype = x.dtype();
  const std::string_view direction = attributes.string("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    throw Error(ErrorCode::InvalidModel, fmt::format("the direction '{}' is unknown", direction));
  }
  layer.directions = direction == "bidirectional" ? 2 : 1;
  layer.reverse_first = direction == "reverse";
  layer.batch_first = attributes.get_int("layout", 0) != 0;
  layer.clip = attributes.get_float("clip", layer.clip);
  layer.activations = read_activations(attributes, activations, layer.directions);
  if (x.rank() != 3 || r.rank() != 3) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("X of shape {} and R of shape {}, expected rank 3",
                                                     to_string(x.shape()), to_string(r.shape())));
  }
  layer.steps = x.dim(layer.batch_first ? 1 : 0);
  layer.batch = x.dim(layer.batch_first ? 0 : 1);
  layer.inputs = x.dim(2);
  layer.hidden = attributes.get_int("hidden_size", r.dim(2));
  if (layer.hidden < 1) throw Error(ErrorCode::InvalidModel, fmt::format("hidden_size is {}", layer.hidden));
  check(w, "W", {layer.directions, gates * layer.hidden, layer.inputs}, layer.dtype);
  check(r, "R", {layer.directions, gates * layer.hidden, layer.hidden}, layer.dtype);
  layer.x = widen(context, x);
  layer.w = widen(context, w);
  layer.r = widen(context, r);
  if (const Tensor* bias = context.optional_input(3)) {
    check(*bias, "B", {layer.directions, 2 * gates * layer.hidden}, layer.dtype);
    layer.bias = widen(context, *bias);
  }
  layer.lengths = context.workspace_of<int64_t>(static_cast<size_t>(layer.batch), layer.steps);
  std::ranges::copy(read_sequence_lengths(context, layer.steps, layer.batch), layer.lengths.begin());
  return layer;
}

// The initial state of one direction, [batch x hidden].
template <class T>
void set_initial_state(const Layer& layer, const Tensor& initial, int64_t d, std::span<T> state) {
  if (!initial.defined()) {
    std::ranges::fill(state, T{0});
    return;
  }
  for (int64_t b = 0; b < layer.batch; ++b) {
    std::copy_n(initial.data<T>().data() + layer.state_offset(d, b), layer.hidden, &state[b * layer.hidden]);
  }
}

// Input `i`, an initial state; undefined when there is none.
Tensor initial_state(KernelContext& context, const Layer& layer, size_t i, const char* what) {
  const Tensor* tensor = context.optional_input(i);
  if (!tensor) return {};
  check(*tensor, what, layer.state_shape(), layer.dtype);
  return widen(context, *tensor);
}

// One direction of a layer while it runs, with buffers that the next direction uses again: their rows are sequences of the batch.
template <class T>
struct Run {
  Run(KernelContext& context, const Layer& layer, bool has_cell) : layer(layer) {
    const auto rows = static_cast<size_t>(layer.batch), width = static_cast<size_t>(layer.gates * layer.hidden);
    const size_t state = rows * static_cast<size_t>(layer.hidden);
    h = context.workspace_of<T>(state);
    if (has_cell) c = context.workspace_of<T>(state);
    gates = context.workspace_of<T>(rows * width);
    reset = context.workspace_of<T>(layer.gates == 3 ? state : 0);
    projected = context.workspace_of<T>(static_cast<size_t>(layer.steps) * rows * width);
  }

  const Layer& layer;
  int64_t direction = 0;
  const T* w = nullptr;
  const T* r = nullptr;
  const T* w_bias = nullptr;  // null when there is no bias
  const T* r_bias = nullptr;
  std::span<const Activation> activations = {};
  std::span<T> h, c;       // state, [batch x hidden]; c of LSTM only
  std::span<T> gates;      // of the current step, [batch x gates * hidden]
  std::span<T> reset;      // of GRU: what its reset gate scales, [batch x hidden]
  std::span<T> projected;  // X W^T + Wb of every step, [rows of X x gates * hidden]

  T activate(size_t i, T value) const {
    T clip = static_cast<T>(layer.clip);
    return apply_activation(activations[i], std::clamp(value, -clip, clip));
  }
};

template <class T>
void project_inputs(Run<T>& run) {
  const Layer& layer = run.layer;
  int64_t rows = layer.steps * layer.batch, width = layer.gates * layer.hidden;
  for (int64_t row = 0; row < rows; ++row) {
    if (run.w_bias) std::copy_n(run.w_bias, width, &run.projected[row * width]);
  }
  multiply(matrix(layer.x.data<T>().data(), rows, layer.inputs), matrix(run.w, width, layer.inputs).transposed(),
           matrix(run.projected.data(), rows, width), run.w_bias != nullptr);
}

// gates[first, last) += h R^T (+ Rb), for gates [first, last) of every row.
template <class T>
void add_recurrence(Run<T>& run, const T* h, int64_t first, int64_t last) {
  const Layer& layer = run.layer;
  int64_t hidden = layer.hidden, width = layer.gates * hidden;
  MatrixView<T> target{run.gates.data() + first * hidden, layer.batch, (last - first) * hidden, width, 1};
  multiply(matrix(h, layer.batch, hidden),
           matrix(run.r + first * hidden * hidden, (last - first) * hidden, hidden).transposed(), target, true);
  if (!run.r_bias) return;
  for (int64_t b = 0; b < layer.batch; ++b) {
    for (int64_t i = first * hidden; i < last * hidden; ++i) run.gates[b * width + i] += run.r_bias[i];
  }
}

// Calls body(row, unit) for every element of the state whose sequence goes on at step t.
template <class T, class Body>
void for_each_unit(const Run<T>& run, int64_t t, Body&& body) {
  const Layer& layer = run.layer;
  parallel_for(layer.batch * layer.hidden, kActivationGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t b = i / layer.hidden;
      if (t < layer.lengths[b]) body(b, i % layer.hidden);
    }
  });
}

template <class T>
void rnn_step(Run<T>& run, int64_t t) {
  add_recurrence(run, run.h.data(), 0, 1);
  int64_t hidden = run.layer.hidden;
  for_each_unit(run, t,
                [&](int64_t b, int64_t j) { run.h[b * hidden + j] = run.activate(0, run.gates[b * hidden + j]); });
}

// Gates in the order i, o, f, c. `peepholes`: Pi, Po, Pf of this direction or null.
template <class T>
void lstm_step(Run<T>& run, int64_t t, const T* peepholes, bool input_forget) {
  add_recurrence(run, run.h.data(), 0, 4);
  int64_t hidden = run.layer.hidden;
  for_each_unit(run, t, [&](int64_t b, int64_t j) {
    const T* gate = &run.gates[b * 4 * hidden + j];
    T& cell = run.c[b * hidden + j];
    auto peephole = [&](int64_t i, T state) { return peepholes ? peepholes[i * hidden + j] * state : T{0}; };
    T input = run.activate(0, gate[0] + peephole(0, cell));
    T forget = input_forget ? 1 - input : run.activate(0, gate[2 * hidden] + peephole(2, cell));
    cell = forget * cell + input * run.activate(1, gate[3 * hidden]);
    T output = run.activate(0, gate[hidden] + peephole(1, cell));
    run.h[b * hidden + j] = output * apply_activation(run.activations[2], cell);
  });
}

// Gates in the order z, r, h.
template <class T>
void gru_step(Run<T>& run, int64_t t, bool linear_before_reset) {
  int64_t hidden = run.layer.hidden;
  const std::span<T> gates = run.gates, scaled = run.reset;
  add_recurrence(run, run.h.data(), 0, 2);
  if (linear_before_reset) {
    // scaled = h R^T + Rb, kept apart from the input's part because the reset gate scales only it.
    const T* recurrent = run.r + 2 * hidden * hidden;
    for (int64_t b = 0; b < run.layer.batch; ++b) {
      for (int64_t j = 0; j < hidden; ++j) scaled[b * hidden + j] = run.r_bias ? run.r_bias[2 * hidden + j] : T{0};
    }
    multiply(matrix(run.h.data(), run.layer.batch, hidden), matrix(recurrent, hidden, hidden).transposed(),
             matrix(scaled.data(), run.layer.batch, hidden), true);
    for_each_unit(run, t, [&](int64_t b, int64_t j) {
      T reset = run.activate(0, gates[(b * 3 + 1) * hidden + j]);
      gates[(b * 3 + 2) * hidden + j] += reset * scaled[b * hidden + j];
    });
  } else {
    for_each_unit(run, t, [&](int64_t b, int64_t j) {
      T reset = run.activate(0, gates[(b * 3 + 1) * hidden + j]);
      scaled[b * hidden + j] = reset * run.h[b * hidden + j];
    });
    add_recurrence(run, scaled.data(), 2, 3);
  }
  for_each_unit(run, t, [&](int64_t b, int64_t j) {
    T update = run.activate(0, gates[b * 3 * hidden + j]);
    T candidate = run.activate(1, gates[(b * 3 + 2) * hidden + j]);
    T& state = run.h[b * hidden + j];
    state = (1 - update) * candidate + update * state;
  });
}

// Runs one direction: gates of each step from the projected inputs, then step(run, t), then the row of Y.
template <class T, class Step>
void run_direction(Run<T>& run, T* y, Step&& step) {
  const Layer& layer = run.layer;
  int64_t width = layer.gates * layer.hidden;
  bool reverse = layer.reverse_first || run.direction == 1;
  project_inputs(run);
  auto time_of = [&](int64_t t, int64_t b) { return reverse && t < layer.lengths[b] ? layer.lengths[b] - 1 - t : t; };
  for (int64_t t = 0; t < layer.steps; ++t) {
    for (int64_t b = 0; b < layer.batch; ++b) {
      std::copy_n(&run.projected[layer.input_row(time_of(t, b), b) * width], width, &run.gates[b * width]);
    }
    step(run, t);
    if (!y) continue;
    for (int64_t b = 0; b < layer.batch; ++b) {
      int64_t time = time_of(t, b);
      int64_t position = layer.batch_first ? (b * layer.steps + time) * layer.directions + run.direction
                                           : (time * layer.directions + run.direction) * layer.batch + b;
      T* to = y + position * layer.hidden;
      // Past a sequence's end the output is zero.
      if (t < layer.lengths[b]) {
        std::copy_n(&run.h[b * layer.hidden], layer.hidden, to);
      } else {
        std::fill_n(to, layer.hidden, T{0});
      }
    }
  }
}

template <class T>
void store_state(const Layer& layer, int64_t d, std::span<const T> state, std::optional<WideOutput>& output) {
  if (!output) return;
  for (int64_t b = 0; b < layer.batch; ++b) {
    std::copy_n(&state[b * layer.hidden], layer.hidden, output->data<T>() + layer.state_offset(d, b));
  }
}

// The driver of the three operators. make_step<T>(direction) gives the function of one step.
template <class MakeStep>
void run_layer(KernelContext& context, const Layer& layer, bool has_cell, MakeStep&& make_step) {
  Shape y_shape = layer.batch_first ? Shape{layer.batch, layer.steps, layer.directions, layer.hidden}
                                    : Shape{layer.steps, layer.directions, layer.batch, layer.hidden};
  std::optional<WideOutput> y, y_h, y_c;
  if (context.num_outputs() > 0) y.emplace(context, 0, layer.dtype, y_shape);
  if (context.num_outputs() > 1) y_h.emplace(context, 1, layer.dtype, layer.state_shape());
  if (context.num_outputs() > 2) y_c.emplace(context, 2, layer.dtype, layer.state_shape());
  const Tensor initial_h = initial_state(context, layer, 5, "initial_h");
  const Tensor initial_c = has_cell ? initial_state(context, layer, 6, "initial_c") : Tensor();
  dispatch<FloatAccumulators>(layer.x.dtype(), [&]<class T>() {
    int64_t width = layer.gates * layer.hidden;
    size_t functions = layer.activations_per_direction();
    Run<T> run(context, layer, has_cell);
    for (int64_t d = 0; d < layer.directions; ++d) {
      run.direction = d;
      run.w = layer.w.data<T>().data() + d * width * layer.inputs;
      run.r = layer.r.data<T>().data() + d * width * layer.hidden;
      if (layer.bias.defined()) {
        run.w_bias = layer.bias.data<T>().data() + d * 2 * width;
        run.r_bias = run.w_bias + width;
      }
      run.activations = std::span(layer.activations).subspan(static_cast<size_t>(d) * functions, functions);
      set_initial_state(layer, initial_h, d, run.h);
      if (has_cell) set_initial_state(layer, initial_c, d, run.c);
      run_direction(run, y ? y->data<T>() : nullptr, make_step.template operator()<T>(d));
      store_state<T>(layer, d, run.h, y_h);
      if (has_cell) store_state<T>(layer, d, run.c, y_c);
    }
  });
  for (std::optional<WideOutput>* output : {&y, &y_h, &y_c}) {
    if (*output) (*output)->finish();
  }
}

void rnn(KernelContext& context) {
  Layer layer = read_layer(context, 1, {"Tanh"});
  run_layer(context, layer, false, []<class T>(int64_t) { return [](Run<T>& run, int64_t t) { rnn_step(run, t); }; });
}

void lstm(KernelContext& context) {
  Layer layer = read_layer(context, 4, {"Sigmoid", "Tanh", "Tanh"});
  bool input_forget = context.attributes().get_int("input_forget", 0) != 0;
  Tensor peepholes;
  if (const Tensor* p = context.optional_input(7)) {
    check(*p, "P", {layer.directions, 3 * layer.hidden}, layer.dtype);
    peepholes = widen(context, *p);
  }
  run_layer(context, layer, true, [&]<class T>(int64_t d) {
    const T* p = peepholes.defined() ? peepholes.data<T>().data() + d * 3 * layer.hidden : nullptr;
    return [=](Run<T>& run, int64_t t) { lstm_step(run, t, p, input_forget); };
  });
}

void gru(KernelContext& context) {
  Layer layer = read_layer(context, 3, {"Sigmoid", "Tanh"});
  bool linear_before_reset = context.attributes().get_int("linear_before_reset", 0) != 0;
  run_layer(context, layer, false, [=]<class T>(int64_t) {
    return [=](Run<T>& run, int64_t t) { gru_step(run, t, linear_before_reset); };
  });
}

}  // namespace

void register_recurrent(KernelRegistry& registry) {
  registry.add("RNN", rnn);
  registry.add("LSTM", lstm);
  registry.add("GRU", gru);
}

}  // namespace anfora::kernels

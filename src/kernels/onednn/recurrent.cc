// RNN, LSTM and GRU with constant weights and the usual activations, one primitive a direction.
//
// ONNX stores a direction's weights as [gates · hidden, inputs], with LSTM's gates in the order i, o, f, c; the library
// wants them as i, f, c, o, and packs them for its steps. The two biases are added up, but for the gate of GRU whose
// reset is applied after the product (linear_before_reset), which keeps them apart.
#include <algorithm>

#include "kernels/onednn/families.h"
#include "kernels/onednn/primitive.h"
#include "kernels/recurrent_layer.h"

namespace anfora::kernels::onednn {
namespace {

using Cell = RecurrentLayer::Cell;

int64_t biases_of(const RecurrentLayer& layer) { return layer.cell == Cell::ResetAfterGru ? 4 : layer.gates(); }

// The library's gate g is ONNX's gate order[g].
std::span<const int64_t> gate_order(const RecurrentLayer& layer) {
  static constexpr int64_t kLstm[] = {0, 2, 3, 1}, kAsTheyAre[] = {0, 1, 2};
  return layer.cell == Cell::Lstm ? std::span(kLstm) : std::span(kAsTheyAre).first(static_cast<size_t>(layer.gates()));
}

struct Sizes {
  int64_t steps, batch, inputs, hidden, directions;
};

// The primitive of one direction and its operands.
struct Direction {
  dnnl::primitive primitive;
  Arguments arguments;
  memory::desc scratchpad;
  memory x, y, initial_h, initial_c, last_h, last_c;
  std::vector<memory> internal;  // those that are no input or output of the operator
};

class RecurrentInstance : public ShapedKernel::Instance {
 public:
  RecurrentInstance(const Sizes& sizes, std::vector<Direction> directions)
      : sizes_(sizes), directions_(std::move(directions)) {
    for (Direction& direction : directions_) {
      add_scratchpad(direction.scratchpad, direction.arguments);
      for (const memory& object : direction.internal) place_in_workspace(object);
    }
  }

  void execute(KernelContext& context) override {
    const auto [steps, batch, inputs, hidden, count] = sizes_;
    float* y = context.allocate_output(0, DType::F32, Shape{steps, count, batch, hidden}).data<float>().data();
    float* last_h = last_state(context, 1);
    float* last_c = last_state(context, 2);
    const int64_t state = batch * hidden;
    for (int64_t d = 0; d < count; ++d) {
      Direction& direction = directions_[static_cast<size_t>(d)];
      point(direction.x, context.input(kX));
      if (count == 1) direction.y.set_data_handle(y);
      set_state(direction.initial_h, context.optional_input(kInitialH), d * state);
      set_state(direction.initial_c, context.optional_input(kInitialC), d * state);
      if (last_h) direction.last_h.set_data_handle(last_h + d * state);
      if (last_c) direction.last_c.set_data_handle(last_c + d * state);
      onednn::execute(direction.primitive, direction.arguments);
      if (count == 1) continue;
      stream().wait();
      const float* own = static_cast<const float*>(direction.y.get_data_handle());
      for (int64_t t = 0; t < steps; ++t) std::copy_n(own + t * state, state, y + (t * count + d) * state);
    }
  }

 private:
  float* last_state(KernelContext& context, size_t output) const {
    if (context.num_outputs() <= output) return nullptr;
    return context.allocate_output(output, DType::F32, Shape{sizes_.directions, sizes_.batch, sizes_.hidden})
        .data<float>()
        .data();
  }
  static void set_state(memory& state, const Tensor* tensor, int64_t offset) {
    if (tensor && state) state.set_data_handle(const_cast<float*>(tensor->data<float>().data()) + offset);
  }

  Sizes sizes_;
  std::vector<Direction> directions_;
};

class Recurrent : public ShapedKernel {
 public:
  Recurrent(KernelData& data, const RecurrentLayer& layer) : ShapedKernel(data), layer_(layer), num_outputs_(data.num_outputs) {}

 protected:
  std::unique_ptr<Instance> make(const Shapes& shapes) const override {
    const Tensor &w = *constant(kW), &r = *constant(kR);
    const Shape& x = *shapes[kX];
    if (x.size() != 3 || w.rank() != 3 || r.rank() != 3 || x[2] != w.dim(2)) return nullptr;
    const Sizes sizes{x[0], x[1], x[2], r.dim(2), w.dim(0)};
    const int64_t width = layer_.gates() * sizes.hidden;
    if (w.dim(1) != width || r.dim(0) != sizes.directions || r.dim(1) != width || element_count(x) == 0) return nullptr;
    const Shape state{sizes.directions, sizes.batch, sizes.hidden};
    auto present = [&](size_t i) { return i < shapes.size() && shapes[i].has_value(); };
    if (present(kBiases) && *shapes[kBiases] != Shape{sizes.directions, 2 * width}) return nullptr;
    if (present(kInitialH) && *shapes[kInitialH] != state) return nullptr;
    if (present(kInitialC) && *shapes[kInitialC] != state) return nullptr;
    if (layer_.cell == Cell::Lstm && present(kInitialC) != present(kInitialH)) return nullptr;
    std::vector<Direction> directions;
    for (int64_t d = 0; d < sizes.directions; ++d) {
      auto direction = make_direction(sizes, d, present(kInitialH));
      if (!direction) return nullptr;
      directions.push_back(std::move(*direction));
    }
    return std::make_unique<RecurrentInstance>(sizes, std::move(directions));
  }

 private:
  struct Packed {
    PackedLayouts layer, iteration;
    memory bias;
  };

  std::optional<Direction> make_direction(const Sizes& sizes, int64_t d, bool has_initial_state) const {
    const auto f32 = memory::data_type::f32;
    const int64_t gates = layer_.gates(), hidden = sizes.hidden;
    const Shape weights_shape{1, 1, sizes.inputs, gates, hidden}, iteration_shape{1, 1, hidden, gates, hidden};
    const memory::desc x = dense(Shape{sizes.steps, sizes.batch, sizes.inputs}, f32);
    const memory::desc y = dense(Shape{sizes.steps, sizes.batch, hidden}, f32);
    const memory::desc state = dense(Shape{1, 1, sizes.batch, hidden}, f32);
    const memory::desc bias = dense(Shape{1, 1, biases_of(layer_), hidden}, f32);
    const memory::desc initial = has_initial_state ? state : memory::desc();
    const memory::desc last = num_outputs_ > 1 ? state : memory::desc();
    const memory::desc any_layer = any_layout(weights_shape, f32), any_iteration = any_layout(iteration_shape, f32);
    const auto order =
        layer_.goes_backwards(d) ? dnnl::rnn_direction::unidirectional_right2left : dnnl::rnn_direction::unidirectional_left2right;
    const auto inference = dnnl::prop_kind::forward_inference;

    Direction direction;
    std::optional<memory::desc> layer, iteration;
    auto take = [&](const auto& pd) {
      if (!pd) return;  // even what the library calls its reference is made of its matrix products here
      layer = pd.weights_layer_desc();
      iteration = pd.weights_iter_desc();
      direction.primitive = dnnl::primitive(pd);
      direction.scratchpad = pd.scratchpad_desc();
    };
    switch (layer_.cell) {
      case Cell::Vanilla:
        take(dnnl::vanilla_rnn_forward::primitive_desc(cpu(), inference, activation(), order, x, initial, any_layer,
                                                       any_iteration, bias, y, last, own_scratchpad(), true));
        break;
      case Cell::Lstm:
        take(dnnl::lstm_forward::primitive_desc(cpu(), inference, order, x, initial, initial, any_layer, any_iteration,
                                                bias, y, last, last, own_scratchpad(), true));
        break;
      case Cell::Gru:
        take(dnnl::gru_forward::primitive_desc(cpu(), inference, order, x, initial, any_layer, any_iteration, bias, y,
                                               last, own_scratchpad(), true));
        break;
      case Cell::ResetAfterGru:
        take(dnnl::lbr_gru_forward::primitive_desc(cpu(), inference, order, x, initial, any_layer, any_iteration, bias,
                                                   y, last, own_scratchpad(), true));
        break;
    }
    if (!layer) return std::nullopt;

    while (packed_.size() <= static_cast<size_t>(d)) {
      const size_t number = 2 * packed_.size();
      packed_.push_back({packed_layouts(number), packed_layouts(number + 1), memory()});
    }
    Packed& packed = packed_[static_cast<size_t>(d)];
    auto pack = [&](PackedLayouts& cache, const Tensor& all, int64_t inputs, const Shape& shape,
                    const memory::desc& wanted) {
      // [gates, hidden, inputs] in memory.
      const Shape strides{gates * hidden * inputs, gates * hidden * inputs, 1, hidden * inputs, inputs};
      return cache.get([&] { return ordered_weights(all, d); }, strided(shape, f32, strides), wanted);
    };
    if (!packed.bias) packed.bias = make_bias(bias, d, hidden);
    Arguments& arguments = direction.arguments;
    auto operand = [&](int argument, memory& m, const memory::desc& desc, bool is_internal) {
      if (desc.get_ndims() == 0) return;
      arguments[argument] = m = handle(desc);
      if (is_internal) direction.internal.push_back(m);
    };
    operand(DNNL_ARG_SRC_LAYER, direction.x, x, false);
    operand(DNNL_ARG_DST_LAYER, direction.y, y, sizes.directions > 1);
    operand(DNNL_ARG_SRC_ITER, direction.initial_h, initial, false);
    operand(DNNL_ARG_DST_ITER, direction.last_h, last, false);
    if (layer_.cell == Cell::Lstm) {
      operand(DNNL_ARG_SRC_ITER_C, direction.initial_c, initial, false);
      operand(DNNL_ARG_DST_ITER_C, direction.last_c, last, num_outputs_ < 3);
    }
    arguments[DNNL_ARG_WEIGHTS_LAYER] = pack(packed.layer, *constant(kW), sizes.inputs, weights_shape, *layer);
    arguments[DNNL_ARG_WEIGHTS_ITER] = pack(packed.iteration, *constant(kR), hidden, iteration_shape, *iteration);
    arguments[DNNL_ARG_BIAS] = packed.bias;
    return direction;
  }

  // Direction d of W or R with its gates in the library's order.
  Tensor ordered_weights(const Tensor& all, int64_t d) const {
    const int64_t gates = layer_.gates(), gate = all.dim(1) / gates * all.dim(2);
    Tensor result = Tensor::allocate(DType::F32, Shape{all.dim(1), all.dim(2)});
    const float* from = all.data<float>().data() + d * gates * gate;
    float* to = result.data<float>().data();
    for (int64_t source : gate_order(layer_)) to = std::copy_n(from + source * gate, gate, to);
    return result;
  }

  memory make_bias(const memory::desc& desc, int64_t d, int64_t hidden) const {
    memory result = owned(desc);
    float* to = static_cast<float*>(result.get_data_handle());
    std::fill_n(to, biases_of(layer_) * hidden, 0.0f);
    const Tensor* given = constant(kBiases);
    if (!given) return result;
    const int64_t gates = layer_.gates();
    const float* of_inputs = given->data<float>().data() + d * 2 * gates * hidden;
    const float* of_state = of_inputs + gates * hidden;
    for (int64_t g = 0; g < gates; ++g) {
      const int64_t source = gate_order(layer_)[static_cast<size_t>(g)];
      const bool apart = layer_.cell == Cell::ResetAfterGru && g == 2;
      for (int64_t i = 0; i < hidden; ++i) {
        to[g * hidden + i] = of_inputs[source * hidden + i] + (apart ? 0 : of_state[source * hidden + i]);
        if (apart) to[(g + 1) * hidden + i] = of_state[source * hidden + i];
      }
    }
    return result;
  }

  dnnl::algorithm activation() const {
    switch (layer_.activation) {
      case RecurrentLayer::Function::Relu: return dnnl::algorithm::eltwise_relu;
      case RecurrentLayer::Function::Sigmoid: return dnnl::algorithm::eltwise_logistic;
      default: return dnnl::algorithm::eltwise_tanh;
    }
  }

  RecurrentLayer layer_;
  size_t num_outputs_;
  mutable std::vector<Packed> packed_;  // by direction
};

std::unique_ptr<PreparedKernel> prepare_recurrent(KernelData& data) {
  const std::optional<RecurrentLayer> layer = read_recurrent_layer(data);
  return layer && !layer->has_lengths ? prepare_shaped<Recurrent>(data, *layer) : nullptr;
}

}  // namespace

void register_recurrent(PreparedRegistry& registry) {
  for (const char* name : {"RNN", "LSTM", "GRU"}) registry.add(name, "onednn:recurrent", prepare_recurrent);
}

}  // namespace anfora::kernels::onednn

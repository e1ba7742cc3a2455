// Arithmetic behind a convolution goes into its weights: BatchNormalization with known statistics, and multiplication by
// or addition of a known value a channel.
//
//     Conv(x, W, b) · s + t   =   Conv(x, W·s, b·s + t)          s, t a value a output channel
//
// The convolution must have no other user, or it would be computed twice, and belong to the same function, or it would move
// into a loop. New weights are computed in f64 and rounded once; where one would become infinite, nothing is done.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "passes/pass.h"
#include "support/element_types.h"
#include "support/mapped_file.h"

namespace anfora::passes {
namespace {

using namespace ir;
using rewrite::Promise;
using rewrite::Rewriter;
using rewrite::Rule;

std::vector<double> as_doubles(const Tensor& t) {
  std::vector<double> values(static_cast<size_t>(t.size()));
  dispatch<Floats>(t.dtype(), [&]<class T>() {
    auto from = t.data<T>();
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(static_cast<ComputeType<T>>(from[i]));
  });
  return values;
}

Tensor from_doubles(DType dtype, std::span<const int64_t> shape, std::span<const double> values) {
  Tensor t = Tensor::allocate(dtype, shape);
  dispatch<Floats>(dtype, [&]<class T>() {
    auto to = t.data<T>();
    for (size_t i = 0; i < values.size(); ++i) to[i] = static_cast<T>(static_cast<ComputeType<T>>(values[i]));
  });
  return t;
}

// A copy with element i multiplied by factor(i). One pass without temporaries: weights are most of a model's memory.
template <class F>
Tensor multiplied(const Tensor& t, F&& factor) {
  Tensor product = Tensor::allocate(t.dtype(), t.shape());
  dispatch<Floats>(t.dtype(), [&]<class T>() {
    auto from = t.data<T>();
    auto to = product.data<T>();
    for (size_t i = 0; i < to.size(); ++i) {
      const double wide = static_cast<double>(static_cast<ComputeType<T>>(from[i])) * factor(i);
      to[i] = static_cast<T>(static_cast<ComputeType<T>>(wide));
    }
  });
  return product;
}

bool is_finite(const Tensor& t) {
  return dispatch<Floats>(t.dtype(), [&]<class T>() {
    return std::ranges::all_of(t.data<T>(), [](T x) { return std::isfinite(static_cast<ComputeType<T>>(x)); });
  });
}

// A convolution whose weights may change: a constant filter, a constant bias or none, no other user, in the user's graph.
struct Convolution {
  Apply* node;
  const Tensor* weights;
  const Tensor* bias;  // null: none
  int64_t channels;    // of the output
  bool transposed;

  static std::optional<Convolution> of(const Apply& user, size_t operand) {
    Apply* conv = user.input(operand)->as_apply();
    if (!conv || !conv->has_one_use() || conv->num_outputs() != 1 || conv->graph() != user.graph()) return std::nullopt;
    bool transposed = conv->is("ConvTranspose");
    if (!transposed && !conv->is("Conv")) return std::nullopt;
    const Tensor* weights = constant_tensor(conv->input(1));
    const Tensor* bias = conv->has_input(2) ? constant_tensor(conv->input(2)) : nullptr;
    if (!weights || weights->rank() < 3 || !is_float(weights->dtype()) || (conv->has_input(2) && !bias))
      return std::nullopt;
    int64_t groups = conv->attributes().get_int("group", 1);
    return Convolution{conv, weights, bias, transposed ? weights->dim(1) * groups : weights->dim(0), transposed};
  }

  // The convolution with every output channel multiplied by `scale` and increased by `shift`.
  Node* scaled(Rewriter& rewriter, std::span<const double> scale, std::span<const double> shift) const {
    std::vector<double> b = bias ? as_doubles(*bias) : std::vector<double>(static_cast<size_t>(channels), 0.0);
    int64_t per_group = transposed ? weights->dim(1) : 0, inputs = transposed ? weights->dim(0) : 0;
    int64_t groups = transposed ? channels / per_group : 1;
    int64_t window = element_count(std::span<const int64_t>(weights->shape()).subspan(2));
    Tensor new_weights = multiplied(*weights, [&](size_t i) {
      int64_t outer = static_cast<int64_t>(i) / window;
      // Conv: [output, input / groups, window]; ConvTranspose: [input, output / groups, window].
      int64_t channel = transposed ? (outer / per_group) / (inputs / groups) * per_group + outer % per_group
                                   : outer / weights->dim(1);
      return scale[static_cast<size_t>(channel)];
    });
    for (size_t c = 0; c < b.size(); ++c) b[c] = b[c] * scale[c] + shift[c];
    Tensor new_bias = from_doubles(weights->dtype(), {&channels, 1}, b);
    drop_mapped_pages(weights->raw(), weights->bytes());  // the new weights are what is read from now on
    if (!is_finite(new_weights) || !is_finite(new_bias)) return nullptr;
    Node* inputs_of_new[] = {node->input(0), rewriter.constant(std::move(new_weights)),
                             rewriter.constant(std::move(new_bias))};
    return rewriter.apply(node->op(), inputs_of_new, node->attributes());
  }
};

// A constant that varies along the channel axis only (axis 1 of a result of that rank), one value a channel.
std::optional<std::vector<double>> per_channel(const Node* node, int rank, int64_t channels) {
  const Tensor* t = constant_tensor(node);
  if (!t || !is_float(t->dtype()) || t->rank() > rank) return std::nullopt;
  int channel_axis = 1 - (rank - t->rank());
  for (int axis = 0; axis < t->rank(); ++axis) {
    if (t->dim(axis) != 1 && (axis != channel_axis || t->dim(axis) != channels)) return std::nullopt;
  }
  std::vector<double> values = as_doubles(*t);
  if (values.size() == 1) values.assign(static_cast<size_t>(channels), values[0]);
  return values.size() == static_cast<size_t>(channels) ? std::optional(values) : std::nullopt;
}

Node* fold_batch_norm(Rewriter& rewriter, Apply& norm) {
  if (norm.num_outputs() != 1 || norm.attributes().get_int("training_mode", 0) != 0) return nullptr;
  auto conv = Convolution::of(norm, 0);
  if (!conv) return nullptr;
  std::vector<double> statistics[4];  // scale, bias, mean, variance
  for (size_t i = 0; i < 4; ++i) {
    const Tensor* t = constant_tensor(norm.input(i + 1));
    if (!t || t->size() != conv->channels || !is_float(t->dtype())) return nullptr;
    statistics[i] = as_doubles(*t);
  }
  const auto& [gamma, beta, mean, variance] = statistics;
  double epsilon = norm.attributes().get_float("epsilon", 1e-5f);
  std::vector<double> scale(gamma.size()), shift(gamma.size());
  for (size_t c = 0; c < gamma.size(); ++c) {
    scale[c] = gamma[c] / std::sqrt(variance[c] + epsilon);
    shift[c] = beta[c] - mean[c] * scale[c];
  }
  return conv->scaled(rewriter, scale, shift);
}

// Which operand is the convolution, and the other one's values.
template <class Make>
Node* fold_channelwise(Rewriter& rewriter, Apply& root, bool commutative, Make make) {
  for (size_t side = 0; side < (commutative ? 2u : 1u); ++side) {
    auto conv = Convolution::of(root, side);
    if (!conv || !conv->node->type() || !conv->node->type()->is_tensor() || !conv->node->type()->has_rank()) continue;
    auto values = per_channel(root.input(1 - side), conv->node->type()->rank(), conv->channels);
    if (!values) continue;
    std::vector<double> scale(values->size(), 1.0), shift(values->size(), 0.0);
    for (size_t c = 0; c < values->size(); ++c) make((*values)[c], scale[c], shift[c]);
    return conv->scaled(rewriter, scale, shift);
  }
  return nullptr;
}

Node* fold_multiply(Rewriter& r, Apply& root) {
  return fold_channelwise(r, root, true, [](double v, double& scale, double&) { scale = v; });
}
Node* fold_divide(Rewriter& r, Apply& root) {
  return fold_channelwise(r, root, false, [](double v, double& scale, double&) { scale = 1.0 / v; });
}
Node* fold_add(Rewriter& r, Apply& root) {
  return fold_channelwise(r, root, true, [](double v, double&, double& shift) { shift = v; });
}
Node* fold_subtract(Rewriter& r, Apply& root) {
  return fold_channelwise(r, root, false, [](double v, double&, double& shift) { shift = -v; });
}

constexpr Rule kRules[] = {
    {"conv-batch-norm", "BatchNormalization", "BN(Conv(x, W, b)) = Conv(x, W·γ/√(σ²+ε), (b−μ)·γ/√(σ²+ε) + β)",
     Promise::Real, fold_batch_norm},
    {"conv-mul", "Mul", "Conv(x, W, b) · s = Conv(x, W·s, b·s)", Promise::Real, fold_multiply},
    {"conv-div", "Div", "Conv(x, W, b) / s = Conv(x, W/s, b/s)", Promise::Real, fold_divide},
    {"conv-add", "Add", "Conv(x, W, b) + t = Conv(x, W, b + t)", Promise::Real, fold_add},
    {"conv-sub", "Sub", "Conv(x, W, b) − t = Conv(x, W, b − t)", Promise::Real, fold_subtract},
};

size_t run(PassContext& context) {
  return rewrite::apply_rules(kRules, context.options.rewriting(), context.inference, context.remarks,
                              kFoldWeights.name);
}

}  // namespace

const Pass kFoldWeights{"weights", "conv + batch norm, mul, add", "into the weights", run};

}  // namespace anfora::passes

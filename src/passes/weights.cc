// Arithmetic around a convolution or a product goes into its weights: BatchNormalization with known statistics, and
// multiplication by or addition of a known value a channel.
//
//     Conv(x, W, b) · s + t   =   Conv(x, W·s, b·s + t)          s, t a value an output channel
//     Conv(x · s + t, W, b)   =   Conv(x, W·s, b + Σ W·t)        s, t a value an input channel; t = 0 where x is padded
//     Gemm(x, W, b) · s + t   =   Gemm(x, W·s, b·s + t)          s, t a value a column
//
// What is left without a neighbour becomes one BatchNormalization where there was one, since s and t compose.
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

extern const Pass kWeights;

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

// A copy with the k-th run of so many elements multiplied by factor(k). One pass without temporaries: weights are most of a
// model's memory.
template <class F>
Tensor multiplied(const Tensor& t, int64_t run, F&& factor) {
  Tensor product = Tensor::allocate(t.dtype(), t.shape());
  dispatch<Floats>(t.dtype(), [&]<class T>() {
    auto from = t.data<T>();
    auto to = product.data<T>();
    const size_t length = static_cast<size_t>(std::max<int64_t>(run, 1));
    for (size_t begin = 0, k = 0; begin < to.size(); begin += length, ++k) {
      const double by = factor(static_cast<int64_t>(k));
      for (size_t i = begin; i < begin + length; ++i) {
        const double wide = static_cast<double>(static_cast<ComputeType<T>>(from[i])) * by;
        to[i] = static_cast<T>(static_cast<ComputeType<T>>(wide));
      }
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
    // Conv: [output, input / groups, window]; ConvTranspose: [input, output / groups, window].
    const int64_t run = transposed ? window : weights->dim(1) * window;
    Tensor new_weights = multiplied(*weights, run, [&](int64_t k) {
      const int64_t channel = transposed ? (k / per_group) / (inputs / groups) * per_group + k % per_group : k;
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

// scale · x + shift, a value a channel.
struct Affine {
  Node* x;
  std::vector<double> scale, shift;

  bool shifts() const {
    return std::ranges::any_of(shift, [](double t) { return t != 0; });
  }
  // This after `first`.
  Affine after(const Affine& first) const {
    Affine both{first.x, scale, shift};
    for (size_t c = 0; c < scale.size(); ++c) {
      both.scale[c] *= first.scale[c];
      both.shift[c] += scale[c] * first.shift[c];
    }
    return both;
  }

  static std::optional<Affine> of_batch_norm(const Apply& norm) {
    if (norm.num_outputs() != 1 || norm.attributes().get_int("training_mode", 0) != 0) return std::nullopt;
    std::vector<double> statistics[4];  // scale, bias, mean, variance
    for (size_t i = 0; i < 4; ++i) {
      const Tensor* t = constant_tensor(norm.input(i + 1));
      if (!t || t->rank() != 1 || !is_float(t->dtype())) return std::nullopt;
      statistics[i] = as_doubles(*t);
      if (statistics[i].size() != statistics[0].size()) return std::nullopt;
    }
    const auto& [gamma, beta, mean, variance] = statistics;
    double epsilon = norm.attributes().get_float("epsilon", 1e-5f);
    Affine affine{norm.input(0), gamma, beta};
    for (size_t c = 0; c < gamma.size(); ++c) {
      affine.scale[c] = gamma[c] / std::sqrt(variance[c] + epsilon);
      affine.shift[c] = beta[c] - mean[c] * affine.scale[c];
    }
    return affine;
  }

  // Of a node of `channels` channels: BatchNormalization, or arithmetic with a constant. `operand`: which one x is.
  static std::optional<Affine> of(const Apply& node, size_t operand, int64_t channels) {
    if (node.is("BatchNormalization")) {
      auto affine = operand == 0 ? of_batch_norm(node) : std::nullopt;
      return affine && static_cast<int64_t>(affine->scale.size()) == channels ? affine : std::nullopt;
    }
    const bool multiplies = node.is("Mul"), divides = node.is("Div"), adds = node.is("Add"), subtracts = node.is("Sub");
    if (!multiplies && !divides && !adds && !subtracts) return std::nullopt;
    if (operand == 1 && (divides || subtracts)) return std::nullopt;
    const Type* type = node.input(operand)->type();
    if (!type || !type->is_tensor() || !type->has_rank() || type->rank() < 2) return std::nullopt;
    auto values = per_channel(node.input(1 - operand), type->rank(), channels);
    if (!values) return std::nullopt;
    Affine affine{node.input(operand), std::vector<double>(values->size(), 1.0),
                  std::vector<double>(values->size(), 0.0)};
    for (size_t c = 0; c < values->size(); ++c) {
      double v = (*values)[c];
      if (multiplies || divides) affine.scale[c] = multiplies ? v : 1.0 / v;
      if (adds || subtracts) affine.shift[c] = adds ? v : -v;
    }
    return affine;
  }
};

bool keeps_type(const Apply& node, const Node* x) {
  const Type *a = node.type(), *b = x->type();
  return a && b && a->is_tensor() && b->is_tensor() && a->has_rank() && b->has_rank() && a->dtype() == b->dtype() &&
         std::ranges::equal(a->dims(), b->dims(), [](Dim m, Dim n) { return provably_equal(m, n); });
}

Node* fold_behind(Rewriter& rewriter, Apply& root) {
  for (size_t side = 0; side < std::min<size_t>(root.num_inputs(), 2); ++side) {
    auto conv = Convolution::of(root, side);
    auto affine = conv ? Affine::of(root, side, conv->channels) : std::nullopt;
    if (affine) return conv->scaled(rewriter, affine->scale, affine->shift);
  }
  return nullptr;
}

// Before a convolution ---------------------------------------------------------------------------------------------

bool is_padded(const Apply& conv) {
  std::string padding = conv.attributes().get_string("auto_pad", "NOTSET");
  if (padding == "VALID") return false;
  auto pads = conv.attributes().get_ints("pads", std::vector<int64_t>());
  return padding != "NOTSET" || std::ranges::any_of(pads, [](int64_t p) { return p != 0; });
}

// Conv(scale · x + shift, W, b). Padding adds zeros behind the arithmetic: those are not shifted.
Node* fold_before(Rewriter& rewriter, Apply& conv) {
  Apply* before = conv.input(0)->as_apply();
  const Tensor* weights = constant_tensor(conv.input(1));
  const Tensor* bias = conv.has_input(2) ? constant_tensor(conv.input(2)) : nullptr;
  if (!before || !before->has_one_use() || before->graph() != conv.graph() || conv.num_outputs() != 1) return nullptr;
  if (!weights || weights->rank() < 3 || !is_float(weights->dtype()) || (conv.has_input(2) && !bias)) return nullptr;
  const bool transposed = conv.is("ConvTranspose");
  const int64_t groups = conv.attributes().get_int("group", 1), per_group = weights->dim(1);
  const int64_t inputs = transposed ? weights->dim(0) : per_group * groups;
  std::optional<Affine> affine;
  for (size_t side = 0; side < 2 && !affine; ++side) {
    if (side < before->num_inputs() && !constant_tensor(before->input(side)))
      affine = Affine::of(*before, side, inputs);
  }
  if (!affine || !keeps_type(*before, affine->x)) return nullptr;
  if (affine->shifts() && (transposed || is_padded(conv))) return nullptr;
  std::vector<double> w = as_doubles(*weights);
  const int64_t outputs = transposed ? per_group * groups : weights->dim(0);
  std::vector<double> b = bias ? as_doubles(*bias) : std::vector<double>(static_cast<size_t>(outputs), 0.0);
  const int64_t window = element_count(std::span<const int64_t>(weights->shape()).subspan(2));
  for (size_t i = 0; i < w.size(); ++i) {
    int64_t outer = static_cast<int64_t>(i) / window, output = outer / per_group;
    size_t channel = static_cast<size_t>(transposed ? outer / per_group
                                                    : output / (outputs / groups) * per_group + outer % per_group);
    if (affine->shifts()) b[static_cast<size_t>(output)] += w[i] * affine->shift[channel];
    w[i] *= affine->scale[channel];
  }
  Tensor new_weights = from_doubles(weights->dtype(), weights->shape(), w);
  Tensor new_bias = from_doubles(weights->dtype(), {&outputs, 1}, b);
  if (!is_finite(new_weights) || !is_finite(new_bias)) return nullptr;
  Node* third =
      bias || affine->shifts() ? static_cast<Node*>(rewriter.constant(std::move(new_bias))) : rewriter.module().none();
  Node* operands[] = {affine->x, rewriter.constant(std::move(new_weights)), third};
  size_t count = bias || affine->shifts() ? 3 : 2;
  return rewriter.apply(conv.op(), std::span<Node* const>(operands, count), conv.attributes());
}

// Conv(x, W, b) + scale · x + shift: one more tap in the middle of the window of each channel. What is added may be x itself.
Node* fold_input(Rewriter& rewriter, Apply& sum) {
  for (size_t side : {size_t{0}, size_t{1}}) {
    auto conv = Convolution::of(sum, side);
    if (!conv || conv->transposed || !keeps_type(sum, conv->node)) continue;
    Node *x = conv->node->input(0), *other = sum.input(1 - side);
    const Tensor& weights = *conv->weights;
    const int64_t per_group = weights.dim(1), outputs = weights.dim(0);
    std::vector<double> scale(static_cast<size_t>(outputs), 1.0), shift(static_cast<size_t>(outputs), 0.0);
    if (other != x) {
      Apply* norm = other->as_apply();
      if (!norm || !norm->is("BatchNormalization") || norm->input(0) != x || !norm->has_one_use()) continue;
      auto affine = Affine::of(*norm, 0, outputs);
      if (!affine) continue;
      scale = affine->scale;
      shift = affine->shift;
    }
    if (!keeps_type(sum, x) || per_group * conv->node->attributes().get_int("group", 1) != outputs) continue;
    // As many pixels before the middle of the window as it is padded by, so that the middle lies on the output's pixel.
    const size_t axes = static_cast<size_t>(weights.rank() - 2);
    if (conv->node->attributes().get_string("auto_pad", "NOTSET") != "NOTSET") continue;
    auto pads = conv->node->attributes().get_ints("pads", std::vector<int64_t>(2 * axes, 0));
    auto strides = conv->node->attributes().get_ints("strides", std::vector<int64_t>(axes, 1));
    auto dilations = conv->node->attributes().get_ints("dilations", std::vector<int64_t>(axes, 1));
    bool centered = pads.size() == 2 * axes && strides.size() == axes && dilations.size() == axes;
    int64_t window = 1, middle = 0;
    for (size_t i = 0; centered && i < axes; ++i) {
      int64_t length = weights.dim(static_cast<int>(i) + 2);
      centered =
          length % 2 == 1 && strides[i] == 1 && pads[i] == pads[i + axes] && pads[i] == length / 2 * dilations[i];
      middle = middle * length + length / 2;
      window *= length;
    }
    if (!centered) continue;
    std::vector<double> w = as_doubles(weights);
    std::vector<double> b = conv->bias ? as_doubles(*conv->bias) : std::vector<double>(scale.size(), 0.0);
    for (int64_t c = 0; c < outputs; ++c) {
      w[static_cast<size_t>((c * per_group + c % per_group) * window + middle)] += scale[static_cast<size_t>(c)];
      b[static_cast<size_t>(c)] += shift[static_cast<size_t>(c)];
    }
    Tensor new_weights = from_doubles(weights.dtype(), weights.shape(), w);
    Tensor new_bias = from_doubles(weights.dtype(), {&outputs, 1}, b);
    if (!is_finite(new_weights) || !is_finite(new_bias)) continue;
    Node* operands[] = {x, rewriter.constant(std::move(new_weights)), rewriter.constant(std::move(new_bias))};
    return rewriter.apply(conv->node->op(), operands, conv->node->attributes());
  }
  return nullptr;
}

// Products --------------------------------------------------------------------------------------------------------

// BatchNormalization of a matrix [N, C], a product or a view of one that keeps its rows.
Node* fold_into_product(Rewriter& rewriter, Apply& norm) {
  auto affine = Affine::of_batch_norm(norm);
  const Type* type = norm.type();
  if (!affine || !type || !type->is_tensor() || !type->has_rank() || type->rank() != 2) return nullptr;
  Apply* view = norm.input(0)->as_apply();
  auto is_ours = [&](const Apply* node) {
    return node && node->has_one_use() && node->graph() == norm.graph() && node->num_outputs() == 1;
  };
  if (!is_ours(view)) return nullptr;
  Apply* product = view;
  if (view->is("Reshape") || view->is("Flatten")) product = view->input(0)->as_apply();
  if (!is_ours(product) || !product->type() || !product->type()->has_rank()) return nullptr;
  const bool is_gemm = product->is("Gemm");
  const Tensor* weights = is_gemm || product->is("MatMul") ? constant_tensor(product->input(1)) : nullptr;
  const bool columns_first = is_gemm && product->attributes().get_int("transB", 0) != 0;
  const int64_t channels = static_cast<int64_t>(affine->scale.size());
  if (!weights || weights->rank() != 2 || !is_float(weights->dtype()) ||
      weights->dim(columns_first ? 0 : 1) != channels || product->type()->dims().back().as_constant() != channels) {
    return nullptr;
  }
  std::vector<double> w = as_doubles(*weights);
  for (size_t i = 0; i < w.size(); ++i) {
    w[i] *= affine->scale[columns_first ? i / static_cast<size_t>(weights->dim(1)) : i % affine->scale.size()];
  }
  std::vector<double> shift = affine->shift;
  AttributeSet attributes = product->attributes();
  if (is_gemm && product->has_input(2)) {
    const Tensor* addend = constant_tensor(product->input(2));
    if (!addend || (addend->size() != 1 && addend->size() != channels) || (addend->rank() == 2 && addend->dim(0) != 1))
      return nullptr;
    std::vector<double> c = as_doubles(*addend);
    double beta = attributes.get_float("beta", 1);
    for (size_t i = 0; i < shift.size(); ++i) shift[i] += beta * c[c.size() == 1 ? 0 : i] * affine->scale[i];
    attributes = attributes.without("beta");
  }
  Tensor new_weights = from_doubles(weights->dtype(), weights->shape(), w);
  Tensor new_shift = from_doubles(weights->dtype(), {&channels, 1}, shift);
  if (!is_finite(new_weights) || !is_finite(new_shift)) return nullptr;
  Node *a = product->input(0), *b = rewriter.constant(std::move(new_weights)),
       *t = rewriter.constant(std::move(new_shift));
  if (is_gemm || product == view) {
    if (product->type()->rank() != 2 || !a->type() || !a->type()->has_rank() || a->type()->rank() != 2) return nullptr;
    Node* gemm = rewriter.apply("Gemm", {a, b, t}, attributes);
    if (product == view) return gemm;
    Node* operands[] = {gemm, view->num_inputs() > 1 ? view->input(1) : nullptr};
    return rewriter.apply(view->op(), std::span<Node* const>(operands, view->num_inputs()), view->attributes());
  }
  Node* scaled = rewriter.apply("MatMul", {a, b});
  Node* operands[] = {scaled, view->num_inputs() > 1 ? view->input(1) : nullptr};
  Node* viewed = rewriter.apply(view->op(), std::span<Node* const>(operands, view->num_inputs()), view->attributes());
  return rewriter.apply("Add", {viewed, t});
}

// BatchNormalization and more arithmetic: one BatchNormalization, with mean 0 and variance 1.
Node* compose_batch_norm(Rewriter& rewriter, Apply& root) {
  for (size_t side = 0; side < std::min<size_t>(root.num_inputs(), 2); ++side) {
    Apply* first = root.input(side)->as_apply();
    if (!first || !first->has_one_use() || first->graph() != root.graph()) continue;
    if (!root.is("BatchNormalization") && !first->is("BatchNormalization")) continue;
    const Type* type = first->type();
    if (!type || !type->is_tensor() || !type->has_rank() || type->rank() < 2) continue;
    auto channels = type->dim(1).as_constant();
    auto second = channels ? Affine::of(root, side, *channels) : std::nullopt;
    for (size_t inner = 0; second && inner < std::min<size_t>(first->num_inputs(), 2); ++inner) {
      if (constant_tensor(first->input(inner))) continue;
      auto before = Affine::of(*first, inner, *channels);
      if (!before || !keeps_type(root, before->x)) continue;
      Affine both = second->after(*before);
      std::vector<double> zeros(both.scale.size(), 0.0), ones(both.scale.size(), 1.0);
      DType dtype = type->dtype();
      Node* operands[5] = {both.x};
      const std::vector<double>* values[] = {&both.scale, &both.shift, &zeros, &ones};
      for (size_t i = 0; i < 4; ++i) {
        Tensor tensor = from_doubles(dtype, {&*channels, 1}, *values[i]);
        if (!is_finite(tensor)) return nullptr;
        operands[i + 1] = rewriter.constant(std::move(tensor));
      }
      return rewriter.apply(rewriter.context().get_operator("BatchNormalization"), operands, {{"epsilon", 0.0f}});
    }
  }
  return nullptr;
}

constexpr Rule kWeightRules[] = {
    {"conv-batch-norm", "BatchNormalization", "BN(Conv(x, W, b)) = Conv(x, W·γ/√(σ²+ε), (b−μ)·γ/√(σ²+ε) + β)",
     Promise::Real, fold_behind},
    {"product-batch-norm", "BatchNormalization", "BN(Gemm(x, W, b)) = Gemm(x, W·γ/√(σ²+ε), …), also through a view",
     Promise::Real, fold_into_product},
    {"batch-norm-behind", "BatchNormalization", "BN(s·x + t) = BN'(x)", Promise::Real, compose_batch_norm},
    {"conv-mul", "Mul", "Conv(x, W, b) · s = Conv(x, W·s, b·s)", Promise::Real, fold_behind},
    {"conv-div", "Div", "Conv(x, W, b) / s = Conv(x, W/s, b/s)", Promise::Real, fold_behind},
    {"conv-add", "Add", "Conv(x, W, b) + t = Conv(x, W, b + t)", Promise::Real, fold_behind},
    {"conv-sub", "Sub", "Conv(x, W, b) − t = Conv(x, W, b − t)", Promise::Real, fold_behind},
    {"conv-add-input", "Add", "Conv(x, W, b) + x = Conv(x, W + I, b), also with BN(x)", Promise::Real, fold_input},
    {"batch-norm-mul", "Mul", "BN(x) · s = BN'(x)", Promise::Real, compose_batch_norm},
    {"batch-norm-div", "Div", "BN(x) / s = BN'(x)", Promise::Real, compose_batch_norm},
    {"batch-norm-add", "Add", "BN(x) + t = BN'(x)", Promise::Real, compose_batch_norm},
    {"batch-norm-sub", "Sub", "BN(x) − t = BN'(x)", Promise::Real, compose_batch_norm},
    {"conv-of-scaled", "Conv", "Conv(s·x + t, W, b) = Conv(x, W·s, b + ΣW·t); only t = 0 where x is padded",
     Promise::Real, fold_before},
    {"conv-transpose-of-scaled", "ConvTranspose", "ConvTranspose(s·x, W, b) = ConvTranspose(x, W·s, b)", Promise::Real,
     fold_before},
};

size_t run_weights(PassContext& context) {
  return rewrite::apply_rules(kWeightRules, context.rewriting(), context.inference, context.remarks, kWeights.name);
}

}  // namespace

const Pass kWeights{"weights", "conv + batch norm, mul, add", "fold scales and offsets into weights", run_weights};

}  // namespace anfora::passes

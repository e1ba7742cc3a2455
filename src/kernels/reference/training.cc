// One step of an optimizer: ai.onnx.preview.training's Adagrad, Adam and Momentum.
//
// After the learning rate R and the update count T come groups of n tensors each: the parameters X, their gradients G,
// and the optimizer's state. The outputs are the new X, then the new state.
#include <cmath>
#include <string>
#include <vector>

#include "kernels/reference/arguments.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/families.h"
#include "kernels/reference/vectorize.h"
#include "support/element_types.h"
#include "support/parallel.h"

namespace anfora::kernels {
namespace {

// Calls step(in, out, count) on ranges of elements of every parameter: in = {X, G, state…}, out = {new X, new state…}.
template <class T, size_t Groups, class Step>
void update_each(KernelContext& context, const Step& step) {
  const size_t tensors = (context.num_inputs() - 2) / Groups;
  for (size_t i = 0; i < tensors; ++i) {
    const T* in[Groups];
    T* out[Groups - 1];
    const Tensor& parameter = context.input(2 + i);
    for (size_t g = 0; g < Groups; ++g) {
      const Tensor& tensor = context.input(2 + g * tensors + i);
      if (tensor.shape() != parameter.shape() || tensor.dtype() != parameter.dtype()) {
        throw Error(ErrorCode::TypeMismatch,
                    fmt::format("a parameter of {}[{}] with {}[{}]", name(parameter.dtype()),
                                to_string(parameter.shape()), name(tensor.dtype()), to_string(tensor.shape())));
      }
      in[g] = tensor.data<T>().data();
    }
    for (size_t g = 0; g + 1 < Groups; ++g) {
      out[g] = context.allocate_output(g * tensors + i, parameter.dtype(), parameter.shape()).template data<T>().data();
    }
    parallel_for(parameter.size(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
      ANFORA_INDEPENDENT_ITERATIONS
      for (int64_t k = begin; k < end; ++k) step(in, out, k);
    });
  }
}

// Runs update.operator()<T>() in the parameters' type.
template <size_t Groups, class Update>
void run_update(KernelContext& context, const Update& update) {
  if (context.num_inputs() < 2 || (context.num_inputs() - 2) % Groups != 0) {
    refuse("{} inputs do not divide into groups of {}", context.num_inputs(), Groups);
  }
  if (context.num_inputs() == 2) return;
  dispatch<WideFloats>(context.input(2).dtype(), [&]<class T>() { update.template operator()<T>(); });
}

void adagrad(KernelContext& context) {
  run_update<3>(context, [&]<class T>() {
    const AttributeSet& a = context.attributes();
    const auto count = static_cast<double>(integer(context.input(1)));
    const double decay = a.get_float("decay_factor", 0);
    const T rate = static_cast<T>(number(context.input(0)) / (1 + count * decay));
    const T norm = a.get_float("norm_coefficient", 0), epsilon = a.get_float("epsilon", 1e-6f);
    update_each<T, 3>(context, [=](const T* const* in, T* const* out, int64_t k) {
      const T x = in[0][k], gradient = norm * x + in[1][k];
      const T squares = in[2][k] + gradient * gradient;
      out[1][k] = squares;
      out[0][k] = x - rate * gradient / (std::sqrt(squares) + epsilon);
    });
  });
}

void adam(KernelContext& context) {
  run_update<4>(context, [&]<class T>() {
    const AttributeSet& a = context.attributes();
    const T alpha = a.get_float("alpha", 0.9f), beta = a.get_float("beta", 0.999f);
    const T norm = a.get_float("norm_coefficient", 0), post = a.get_float("norm_coefficient_post", 0);
    const T epsilon = a.get_float("epsilon", 1e-6f);
    const auto count = static_cast<double>(integer(context.input(1)));
    double corrected = number(context.input(0));  // for the moments' start at zero
    if (count > 0) corrected *= std::sqrt(1 - std::pow(double{beta}, count)) / (1 - std::pow(double{alpha}, count));
    const T rate = static_cast<T>(corrected);
    update_each<T, 4>(context, [=](const T* const* in, T* const* out, int64_t k) {
      const T x = in[0][k], gradient = norm * x + in[1][k];
      const T first = alpha * in[2][k] + (1 - alpha) * gradient;
      const T second = beta * in[3][k] + (1 - beta) * gradient * gradient;
      out[1][k] = first;
      out[2][k] = second;
      out[0][k] = (1 - post) * (x - rate * first / (std::sqrt(second) + epsilon));
    });
  });
}

void momentum(KernelContext& context) {
  const std::string_view mode = context.attributes().string("mode", "");
  if (mode != "standard" && mode != "nesterov") {
    throw Error(ErrorCode::InvalidModel, fmt::format("Momentum: mode must be standard or nesterov, not '{}'", mode));
  }
  run_update<3>(context, [&]<class T>() {
    const AttributeSet& a = context.attributes();
    const T rate = static_cast<T>(number(context.input(0)));
    const T alpha = a.get_float("alpha", 0), norm = a.get_float("norm_coefficient", 0);
    const T beta = integer(context.input(1)) > 0 ? a.get_float("beta", 0) : 1;  // the first gradient counts in full
    const bool nesterov = mode == "nesterov";
    update_each<T, 3>(context, [=](const T* const* in, T* const* out, int64_t k) {
      const T x = in[0][k], gradient = norm * x + in[1][k];
      const T velocity = alpha * in[2][k] + beta * gradient;
      out[1][k] = velocity;
      out[0][k] = x - rate * (nesterov ? gradient + alpha * velocity : velocity);
    });
  });
}

}  // namespace

void register_training(KernelRegistry& registry) {
  registry.add("ai.onnx.preview.training::Adagrad", adagrad);
  registry.add("ai.onnx.preview.training::Adam", adam);
  registry.add("ai.onnx.preview.training::Momentum", momentum);
}

}  // namespace anfora::kernels

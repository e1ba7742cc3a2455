// NegativeLogLikelihoodLoss, and SoftmaxCrossEntropyLoss, which is that of LogSoftmax along axis 1.
#include <cmath>
#include <optional>
#include <string>

#include "kernels/reference/arguments.h"
#include "kernels/reference/cast.h"
#include "kernels/reference/channels.h"
#include "kernels/reference/elementwise.h"
#include "kernels/reference/families.h"
#include "kernels/reference/fold.h"
#include "kernels/reference/softmax.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

struct Targets {
  IntegerList classes;
  std::optional<int64_t> ignored;
};

Targets read_targets(const KernelContext& context, const ChannelView& view) {
  const Tensor &scores = context.input(0), &labels = context.input(1);
  if (scores.rank() < 2) refuse("scores of shape {} have no classes", to_string(scores.shape()));
  Shape expected = scores.shape();
  expected.erase(expected.begin() + 1);
  if (labels.shape() != expected) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("labels of shape {} for scores of shape {}",
                                                     to_string(labels.shape()), to_string(scores.shape())));
  }
  Targets targets{integers(labels), {}};
  if (context.attributes().has("ignore_index")) targets.ignored = context.attributes().get_int("ignore_index", 0);
  for (int64_t label : targets.classes) {
    if (label != targets.ignored && (label < 0 || label >= view.channels)) {
      refuse("label {} is none of {} classes", label, view.channels);
    }
  }
  return targets;
}

// The loss of logarithms of probabilities, in the compute type of the output.
template <class T>
void negative_log_likelihood(KernelContext& context, const Tensor& logarithms) {
  const ChannelView view(logarithms);
  const Targets targets = read_targets(context, view);
  const std::string_view reduction = context.attributes().string("reduction", "mean");
  std::span<T> weights;
  if (const Tensor* given = context.optional_input(2)) weights = channel_values<T>(context, *given, view.channels);
  const T* x = logarithms.data<T>().data();
  Tensor each = context.temporary(dtype_of<T>, context.input(1).shape());
  const std::span<T> losses = each.data<T>(), shares = context.workspace_of<T>(losses.size(), T{0});
  std::ranges::fill(losses, T{0});
  parallel_for(static_cast<int64_t>(losses.size()), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t label = targets.classes[i];
      if (label == targets.ignored) continue;  // no loss, and no share in the mean
      shares[i] = weights.empty() ? T{1} : weights[label];
      losses[i] = -x[(i / view.inner * view.channels + label) * view.inner + i % view.inner] * shares[i];
    }
  });
  const DType dtype = context.input(0).dtype();
  if (reduction == "none") return cast_into(each, context.allocate_output(0, dtype, each.shape()));
  const auto count = static_cast<int64_t>(losses.size());
  double loss = fold_row<double>(losses.data(), count, SumFold{});
  if (reduction == "mean") {
    loss /= fold_row<double>(shares.data(), count, SumFold{});
  } else if (reduction != "sum") {
    throw Error(ErrorCode::InvalidModel, fmt::format("reduction must be none, mean or sum, not '{}'", reduction));
  }
  Tensor total = context.temporary(DType::F64, Shape{});
  total.data<double>()[0] = loss;
  cast_into(total, context.allocate_output(0, dtype, Shape{}));
}

void negative_log_likelihood_loss(KernelContext& context) {
  const Tensor& in = context.input(0);
  dispatch<WideFloats>(compute_dtype(in.dtype()),
                       [&]<class T>() { negative_log_likelihood<T>(context, cast_tensor(context, in, dtype_of<T>)); });
}

void softmax_cross_entropy_loss(KernelContext& context) {
  const Tensor& scores = context.input(0);
  if (scores.rank() < 2) refuse("scores of shape {} have no class axis", to_string(scores.shape()));
  dispatch<WideFloats>(compute_dtype(scores.dtype()), [&]<class T>() {
    const Tensor wide = cast_tensor(context, scores, dtype_of<T>);
    Tensor logarithms = context.temporary(wide.dtype(), wide.shape());
    log_softmax_into(context, wide, 1, logarithms);
    negative_log_likelihood<T>(context, logarithms);
    if (context.num_outputs() > 1) cast_into(logarithms, context.allocate_output(1, scores.dtype(), scores.shape()));
  });
}

}  // namespace

void register_loss(KernelRegistry& registry) {
  registry.add("NegativeLogLikelihoodLoss", negative_log_likelihood_loss);
  registry.add("SoftmaxCrossEntropyLoss", softmax_cross_entropy_loss);
}

}  // namespace anfora::kernels

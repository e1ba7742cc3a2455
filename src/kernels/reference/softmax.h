// Softmax, LogSoftmax and Hardmax along one axis.
#pragma once

#include "kernels/kernel.h"

namespace anfora::kernels {

void softmax(KernelContext& context);
void log_softmax(KernelContext& context);
void hardmax(KernelContext& context);

// out = log(softmax(in)) along an axis in [0, rank); out has in's dtype, a float type, and shape.
void log_softmax_into(KernelContext& context, const Tensor& in, int axis, Tensor& out);

}  // namespace anfora::kernels

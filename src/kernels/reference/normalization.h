// The normalizations, by file.
#pragma once

#include "kernels/kernel.h"

namespace anfora::kernels {

// row_normalization.cc: statistics of contiguous elements.
void layer_normalization(KernelContext& context);
void rms_normalization(KernelContext& context);
void instance_normalization(KernelContext& context);
void group_normalization(KernelContext& context);
void lowered_instance_normalization(KernelContext& context);
void lowered_group_normalization(KernelContext& context);

// batch_normalization.cc: statistics that are given, or along any axes.
void batch_normalization(KernelContext& context);
void mean_variance_normalization(KernelContext& context);

}  // namespace anfora::kernels

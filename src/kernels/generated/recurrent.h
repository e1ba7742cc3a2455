// RNN, LSTM and GRU with constant weights, by generated code.
#pragma once

#include <memory>

#include "kernels/generated/group.h"
#include "kernels/generated/product.h"
#include "kernels/prepared.h"

namespace anfora::kernels::generated {

struct RecurrentGenerators {
  ProductGenerator product = nullptr;
  GroupGenerator cell = nullptr;
};

// Null where there is no code for it. Weights and code that the data has already are taken as they are; without generators, code must be
// there. Throws as ExecutableCode::map().
std::unique_ptr<PreparedKernel> prepare_recurrent(KernelData& data, const RecurrentGenerators& generators);

}  // namespace anfora::kernels::generated

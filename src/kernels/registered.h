// Kernels that callers register (anfora/operator.h): they are preferred to all others of their operator.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "kernels/prepared.h"

namespace anfora::kernels {

inline constexpr std::string_view kRegistered = "registered";  // their implementation, in profiles

using RegisteredKernel = std::function<void(KernelContext&)>;
// The latest one holds for what is prepared from then on; after an empty one, none does.
void register_kernel(std::string op, RegisteredKernel kernel);
// Null where the operator has none.
std::unique_ptr<PreparedKernel> prepare_registered(KernelData& data);

}  // namespace anfora::kernels

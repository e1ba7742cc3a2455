// Kernels that callers register (anfora/kernel.h): they are preferred to all others of their operator.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "kernels/prepared.h"

namespace anfora::kernels {

inline constexpr std::string_view kRegistered = "registered";  // their implementation, in profiles

bool is_registered(std::string_view op);
// Null where the operator has none. The data has the attributes that the operator has by default, too: its kernel knows no declaration.
std::unique_ptr<PreparedKernel> prepare_registered(KernelData& data);

// What a process that knows the declarations of operators makes of a name: the qualified one. Throws NotFound where there is no such
// operator. Without it, any name is one.
using QualifyOperator = std::string (*)(std::string_view name);
void qualify_operators_by(QualifyOperator qualify);

}  // namespace anfora::kernels

// Products with constant weights by Strassen's algorithm: an eighth of the multiplications less.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "kernels/generated/machine_code.h"
#include "kernels/generated/product.h"
#include "kernels/generated/strassen_code.h"
#include "kernels/prepared.h"

namespace anfora::kernels::generated {

inline constexpr std::string_view kStrassen = "generated:strassen";

// Makes the entries of those numbers (StrassenEntries), in that order.
using StrassenGenerator = MachineCode (*)(const StrassenCode& code, std::span<const int> entries);
// Null where code must be there.
struct StrassenGenerators {
  StrassenGenerator strassen = nullptr;
  ProductGenerator product = nullptr;
};

// The operators that may be computed so, as they equal the sum over the reals only.
inline constexpr std::string_view kStrassenOperators[] = {"LoweredMatMul", "LoweredConv", "LoweredPointwise"};

// Null where the operator's instance is no product of f32 with constant and finite weights of many terms, or, unless the data names it, it does not pay. Where
// rows are those of a run, each run chooses between it and the direct product. Weights and code that the data has already are taken as they are; without
// generators, code must be there. Throws as ExecutableCode::map().
std::unique_ptr<PreparedKernel> prepare_strassen(KernelData& data, const StrassenGenerators& generators);

}  // namespace anfora::kernels::generated

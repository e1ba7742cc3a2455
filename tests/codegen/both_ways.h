// Generated code beside the evaluator of the loop IR.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "codegen/evaluate.h"
#include "codegen/machine_code.h"

namespace anfora::codegen {

using kernels::generated::ExecutableCode;
using kernels::generated::MachineCode;

// Those that code runs for here.
inline std::vector<Isa> isas_here() {
  std::vector<Isa> isas;
  for (const IsaDescription& isa : kernels::generated::instruction_sets()) {
    if (kernels::generated::is_supported(isa.isa)) isas.push_back(isa.isa);
  }
  return isas;
}

// Runs a function by the evaluator and as machine code; expects the same bits in what is written. A NaN is any NaN: which of two goes on
// depends on the order of the operands, which LLVM may change.
struct BothWays {
  Function function;
  Isa isa;
  std::vector<Region> regions;

  void expect_equal(std::vector<int64_t> arguments, size_t result, Tensor& memory) {
    const std::vector<float> before(memory.data<float>().begin(), memory.data<float>().end());
    regions.push_back({memory.data<float>().data(), memory.size(), true});
    arguments[result] = reinterpret_cast<int64_t>(memory.data<float>().data());
    evaluate(function, arguments, regions);
    const std::vector<float> expected(memory.data<float>().begin(), memory.data<float>().end());
    std::ranges::copy(before, memory.data<float>().begin());
    const MachineCode code = compile({&function, 1}, isa);
    ExecutableCode::map(code)->entry(code.entries[0])(arguments.data());
    for (size_t i = 0; i < expected.size(); ++i) {
      if (std::isnan(expected[i]) && std::isnan(memory.data<float>()[i])) continue;
      ASSERT_EQ(std::bit_cast<uint32_t>(memory.data<float>()[i]), std::bit_cast<uint32_t>(expected[i]))
          << "element " << i << " of " << expected.size() << ": " << memory.data<float>()[i] << ", not " << expected[i];
    }
  }
};

inline Tensor random_bytes(DType dtype, const std::vector<int64_t>& shape, unsigned seed) {
  Tensor tensor = Tensor::allocate(dtype, shape);
  std::mt19937 random(seed);
  std::generate_n(static_cast<uint8_t*>(tensor.raw()), tensor.size(), [&] { return static_cast<uint8_t>(random()); });
  return tensor;
}

inline int64_t address(const Tensor& tensor) { return reinterpret_cast<int64_t>(tensor.raw()); }

}  // namespace anfora::codegen

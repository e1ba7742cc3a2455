// Runs functions of the loop IR as they stand, without machine code: what generated code is compared with, bit for bit.
#pragma once

#include <span>

#include "codegen/loop_ir.h"

namespace anfora::codegen {

// Memory that a function may access.
struct Region {
  const float* begin;
  int64_t size;
  bool is_written = false;
};

// Arguments as generated code takes them. Throws Internal where an access is outside of the regions.
void evaluate(const Function& function, std::span<const int64_t> arguments, std::span<const Region> regions);

}  // namespace anfora::codegen

// The floating point operations of a run, as `info` and `opt` say them.
//
// Symbolic dimensions of the inputs have the sizes that are given, or 1. Bodies of loops count as often as a counter tells, or
// once; functions as often as they are called; operators of ONNX Runtime as what they expand to.
//
// What inference cannot tell of sizes inside is told by computing, on a copy, what depends on sizes alone. Where a model does not
// take inputs of such sizes, sizes inside that types do not tell are 1. The modules are typed afterwards.
#pragma once

#include "driver/inputs.h"
#include "ir/module.h"

namespace anfora::driver {

double count_flops(ir::Module& module, const SizeByName& sizes = {});

// Two models that compute the same, under the same sizes: what only one of them tells of a value holds for the value of the same name in
// the other.
struct FlopPair {
  double before = 0, after = 0;
  // By more than rounding.
  bool rises() const { return after > before * (1 + 1e-9) + 0.5; }
};
FlopPair compare_flops(ir::Module& before, ir::Module& after, const SizeByName& sizes = {});

}  // namespace anfora::driver

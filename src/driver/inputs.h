// Inputs of a run: read from files by name or position, or made up.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "driver/npz.h"
#include "ir/module.h"
#include "runtime/signature.h"
#include "support/datum.h"

namespace anfora::driver {

struct RandomInputs {
  uint64_t seed = 0;
  std::map<std::string, int64_t> dims;  // sizes of symbolic dimensions; others are kDefaultDim
  int64_t integer_low = 0,
          integer_high = 1;  // inclusive: integers are often indices, and these are nearly always valid
};
inline constexpr int64_t kDefaultDim = 2;

// One datum a parameter of main. `edge` draws from zeros, ones, extremes and denormals instead of a normal distribution.
std::vector<Datum> random_inputs(const ir::Module& module, const RandomInputs& options, bool edge = false);

// Files: .npz by the names of the inputs; .npy and .pb in the order of the inputs, or NAME=FILE. Names are checked when
// the executable takes them.
runtime::NamedData read_inputs(const ir::Module& module, const std::vector<std::string>& files);

// A TensorProto, SequenceProto, OptionalProto or MapProto, by the type that is wanted; null: a TensorProto.
Datum read_pb(const std::filesystem::path& path, const ir::Type* type);

}  // namespace anfora::driver

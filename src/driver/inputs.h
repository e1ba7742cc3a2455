// Inputs of a run: read from files by name or position, or made up.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "driver/npz.h"
#include "ir/module.h"
#include "runtime/signature.h"
#include "support/datum.h"

namespace anfora::driver {

using SizeByName = std::map<std::string, int64_t, std::less<>>;

// What the elements of an input are drawn from: some numbers, or where there are none, integers from an interval and floats
// from what they are drawn from by default.
struct IntegerDomain {
  int64_t low = 0, high = 1;  // inclusive: integers are often indices, and these are nearly always valid
  std::vector<int64_t> choices = {};
};

struct RandomInputs {
  uint64_t seed = 0;
  SizeByName dims = {};                          // of symbolic dimensions; others are kDefaultDim
  std::map<size_t, IntegerDomain> domains = {};  // of inputs by position; others are 0 or 1
};
inline constexpr int64_t kDefaultDim = 2;

// Those of the inputs of main, by name.
std::set<std::string, std::less<>> symbolic_dims(const ir::Module& module);
// Throws where no input of main has a symbolic dimension of one of the names.
void require_dims(const ir::Module& module, const SizeByName& dims);

// The input of that name; throws where there is none.
ir::Parameter& input_named(const ir::Module& module, std::string_view name);

// One datum a parameter of main. `edge` draws from zeros, ones, extremes and denormals instead of a normal distribution.
std::vector<Datum> random_inputs(const ir::Module& module, const RandomInputs& options, bool edge = false);

// Files: .npz by the names of the inputs; .npy and .pb in the order of the inputs, or NAME=FILE. Names are checked when
// the executable takes them.
std::filesystem::path path_of_input(const std::string& argument);  // FILE or NAME=FILE
// Files: .npz by the names of the inputs; .npy and .pb in the order of the inputs, or NAME=FILE. Throws where the model has no such
// input; that their types fit is checked when it runs.
runtime::NamedData read_inputs(const ir::Module& module, const std::vector<std::string>& files);

// By the inputs of main; None for those that are not given.
std::vector<Datum> in_order(const ir::Module& module, const runtime::NamedData& named);

// A TensorProto, SequenceProto, OptionalProto or MapProto, by the type that is wanted; null: a TensorProto.
Datum read_pb(const std::filesystem::path& path, const ir::Type* type);

}  // namespace anfora::driver

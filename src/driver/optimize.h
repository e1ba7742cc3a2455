// Optimizing a module for a file that is to be written: what `anfora opt`, the C++ API and the Python package have in common.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "driver/model.h"
#include "driver/pin.h"

namespace anfora::driver {

struct OptimizeOptions {
  std::string target = "onnx", opset = "keep";  // by name; see SaveOptions
  rewrite::Promise math = rewrite::Promise::Real;
  bool assume_finite = false;
  bool expand = false;  // operators of ONNX Runtime become those of ONNX
  bool outline = false;
  std::optional<int64_t> fold_limit;
  std::vector<std::string> passes;           // only these, by name; empty: those of the target
  std::vector<std::filesystem::path> rules;  // files, see rules_with()
  Pins pins;                                 // sizes of inputs …
  SizeByName dims;                           // … and of their symbolic dimensions, which are fixed first
  bool keep_remarks = false;                 // in the report
};

// How what was optimized so is written. Throws InvalidArgument for an unknown target.
SaveOptions save_options(const OptimizeOptions& options);

// What the passes are told; all but the sizes. Throws InvalidArgument for an unknown target, pass or operator set.
pipeline::OptimizeOptions pass_options(const ir::Module& module, const OptimizeOptions& options);

// Throws what pass_options(), rules_with(), pin_shapes() and pin_dims() throw, before anything is rewritten.
pipeline::OptimizeReport optimize(ir::Module& module, const OptimizeOptions& options,
                                  std::function<void(std::string_view pass, size_t round)> on_stage = nullptr);

}  // namespace anfora::driver

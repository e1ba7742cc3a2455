// Conformance cases: folders in the layout of ONNX's backend tests.
//
//     NAME/model.onnx
//     NAME/test_data_set_K/input_I.pb, output_I.pb
//     NAME/case.json                                 rtol and atol; optional
#pragma once

#include <filesystem>
#include <string>

#include "driver/model.h"

namespace anfora::driver {

struct CaseResult {
  bool passed = false;
  std::string message;  // why it failed: one line
};

// Imports the model, runs every data set and compares the outputs. Never throws.
CaseResult run_case(const std::filesystem::path& folder, const CompileOptions& options = {.optimize = false});

}  // namespace anfora::driver

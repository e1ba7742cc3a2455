// The runtimes that a model may be optimized and written for.
#pragma once

#include <span>
#include <string_view>

#include "frontend/onnx/export.h"
#include "ir/module.h"
#include "pipeline/pipelines.h"

namespace anfora::driver {

struct Target {
  std::string_view name;
  // What is done to the model, and which operators the runtime has beside those of the operator set that is written.
  const pipeline::Pipeline* pipeline;
  // Whether the runtime computes an application accurately where its value is small (PassOptions::is_accurate).
  bool (*is_accurate)(const ir::Apply& node);
  // The newest versions that it reads.
  onnx::ExportOptions::Reader reads;
};

std::span<const Target> targets();
const Target& target_named(std::string_view name);  // throws InvalidArgument when there is none
// Any runtime that reads ONNX.
const Target& any_runtime();

}  // namespace anfora::driver

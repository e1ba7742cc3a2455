#include "driver/target.h"

#include <algorithm>

#include "frontend/onnx/implemented.h"

namespace anfora::driver {
namespace {

// Most files are written for ONNX Runtime, whatever they are said to be for: no less accurate there than they were.
constexpr Target kTargets[] = {
    {"onnx", &pipeline::kStore, onnx::is_accurate, {}},
    {"onnxruntime",
     &pipeline::kOnnxRuntime,
     onnx::is_accurate,
     {.opset = onnx::kNewestReadOpset, .ir_version = onnx::kNewestReadIrVersion, .name = onnx::kOnnxRuntime}},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

const Target* find_target(std::string_view name) {
  auto found = std::ranges::find(kTargets, name, &Target::name);
  return found == std::end(kTargets) ? nullptr : found;
}

const Target& any_runtime() { return kTargets[0]; }

}  // namespace anfora::driver

#include "driver/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "anfora/error.h"
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

const Target& target_named(std::string_view name) {
  auto found = std::ranges::find(kTargets, name, &Target::name);
  if (found != std::end(kTargets)) return *found;
  std::string known;
  for (const Target& target : kTargets) known.append(known.empty() ? "" : ", ").append(target.name);
  throw Error(ErrorCode::InvalidArgument, fmt::format("there is no target '{}'", name)).with_hint("known: " + known);
}

const Target& any_runtime() { return kTargets[0]; }

}  // namespace anfora::driver

#include "driver/layouts.h"

#include <algorithm>
#include <optional>

#include "ops/registry.h"

namespace anfora::driver {
namespace {

constexpr const char* kChannelsLast = "channels_last";

bool has_channels_last(const ir::Operator* op) {
  return op && std::ranges::any_of(op->attributes, [](const auto& attribute) { return attribute.name == kChannelsLast; });
}

std::optional<int64_t> constant_of(const runtime::SizeExpression& size) {
  return size.is_constant() ? std::optional(size.steps()[0].operand) : std::nullopt;
}

// Of a kernel's output, where it is the same in every run.
std::optional<int64_t> bytes_of_output(const runtime::Executable& executable, const runtime::Function& function, uint32_t output) {
  const uint32_t buffer = function.output_buffers[output];
  if (buffer < function.buffers.size()) {
    std::optional<int64_t> bytes = constant_of(function.buffers[buffer].bytes);
    const auto slice = std::ranges::find(function.slices, output, &runtime::Slice::output);
    if (bytes && slice != function.slices.end()) *bytes = *bytes / slice->distance * slice->row_bytes;
    return bytes;
  }
  if (&function != &executable.program().functions[executable.program().main]) return std::nullopt;
  const auto result = std::ranges::find(function.result_outputs, output);
  if (result == function.result_outputs.end()) return std::nullopt;
  const runtime::ValueSpec& spec = executable.outputs()[static_cast<size_t>(result - function.result_outputs.begin())];
  if (!spec.dims) return std::nullopt;
  int64_t bytes = static_cast<int64_t>(element_bytes(spec.dtype));
  for (const runtime::SizeExpression& dim : *spec.dims) {
    const std::optional<int64_t> size = constant_of(dim);
    if (!size) return std::nullopt;
    bytes *= *size;
  }
  return bytes;
}

}  // namespace

LayoutSummary summarize_layouts(const runtime::Executable& executable) {
  const runtime::Program& program = executable.program();
  LayoutSummary summary;
  auto add = [&](const runtime::Function& function, const runtime::Instruction& instruction) {
    const runtime::Kernel& kernel = *program.kernels[instruction.target];
    if (kernel.op == "Transpose") {
      ++summary.transposes;
      const std::optional<int64_t> bytes = bytes_of_output(executable, function, instruction.first_output);
      bytes ? summary.bytes += static_cast<double>(*bytes) : ++summary.unsized;
    }
    const ir::OperatorTable& operators = ops::operators();
    if (!has_channels_last(operators.find(kernel.op)) && !has_channels_last(operators.find("Lowered" + kernel.op))) return;
    ++summary.images;
    if (kernel.attributes.get_int(kChannelsLast, 0) != 0) ++summary.channels_last;
  };
  for (const runtime::Function& function : program.functions) {
    for (const runtime::Instruction& instruction : function.code) {
      if (instruction.opcode == runtime::Opcode::Kernel) add(function, instruction);
    }
  }
  return summary;
}

}  // namespace anfora::driver

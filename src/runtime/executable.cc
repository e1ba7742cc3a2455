#include "runtime/executable.h"

#include <fmt/format.h>

#include "anfora/error.h"
#include "support/parallel.h"

namespace anfora::runtime {
namespace {

constexpr uint64_t kDefaultSeed = 0;

// The caller may keep and change an output, so it must not share memory with the model or with the inputs.
void make_private(Datum& datum) {
  switch (datum.kind()) {
    case Datum::Kind::Tensor:
      if (datum.tensor().owner().use_count() != 1) datum = datum.tensor().clone();
      break;
    case Datum::Kind::Sequence: {
      std::vector<Datum> items = std::move(datum).take_items();
      for (Datum& item : items) make_private(item);
      datum = Datum::sequence(std::move(items));
      break;
    }
    default: break;
  }
}

[[noreturn]] void throw_missing(const Kernel& kernel, const Origin& origin) {
  Error error(ErrorCode::Unsupported, fmt::format("no kernel for {}", kernel.op));
  error.at_node(origin.node);
  error.at_location(origin.location);
  throw error;
}

}  // namespace

Executable::Executable(std::unique_ptr<Program> program, Signature signature, int threads)
    : program_(std::move(program)),
      signature_(std::move(signature)),
      machine_(std::make_unique<Machine>(*program_)),
      random_(kDefaultSeed),
      threads_(threads) {}
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;
Executable::~Executable() = default;

std::span<const ValueSpec> Executable::inputs() const { return signature_.inputs; }
std::span<const ValueSpec> Executable::outputs() const { return signature_.outputs; }

std::vector<Datum> Executable::run(NamedData inputs, const RunOptions& options) {
  return run(in_order(signature_, std::move(inputs)), options);
}

std::vector<Datum> Executable::run(std::vector<Datum> inputs, const RunOptions& options) {
  check_inputs(signature_, inputs);
  // What surely runs and cannot is said before hours of other work.
  const Function& main = program_->functions[program_->main];
  for (size_t i = 0; i < main.code.size(); ++i) {
    if (main.code[i].opcode != Opcode::Kernel) continue;
    const Kernel& kernel = *program_->kernels[main.code[i].target];
    if (kernel.is_missing()) throw_missing(kernel, main.origins[i]);
  }
  if (options.seed) random_.seed(*options.seed);

  Datum result;
  with_threads(options.threads > 0 ? options.threads : threads_,
               [&] { result = machine_->run(inputs, {&random_, options.profiler, options.deepest_calls}); });
  std::vector<Datum> outputs;
  if (signature_.outputs.size() == 1) {
    outputs.push_back(std::move(result));
  } else {
    outputs = std::move(result).take_items();
  }
  result = Datum();
  for (Datum& output : outputs) make_private(output);
  return outputs;
}

MemoryReport Executable::memory() const {
  MemoryReport report;
  report.constant_bytes = static_cast<int64_t>(program_->constant_bytes);
  for (uint32_t f = 0; f < program_->functions.size(); ++f) {
    const MemoryLayout* layout = machine_->latest_layout(f);
    if (!layout) continue;
    if (f == program_->main) {
      report.is_known = true;
      report.arena_bytes = layout->bytes;
      report.arena_lower_bound = layout->lower_bound;
    } else {
      report.callee_arena_bytes += layout->bytes;
    }
  }
  for (uint32_t buffer : program_->functions[program_->main].output_buffers) {
    report.unplanned_values += buffer == Function::kNoBuffer;
  }
  return report;
}

std::vector<std::string> Executable::missing_kernels() const {
  std::vector<std::string> missing;
  for (const Function& function : program_->functions) {
    for (size_t i = 0; i < function.code.size(); ++i) {
      if (function.code[i].opcode == Opcode::Kernel && program_->kernels[function.code[i].target]->is_missing()) {
        missing.push_back(function.origins[i].node);
      }
    }
  }
  return missing;
}

}  // namespace anfora::runtime

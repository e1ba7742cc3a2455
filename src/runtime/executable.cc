#include "runtime/executable.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <mutex>
#include <random>

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

// Machines that no run uses. The first ones are taken first, so that runs one after another have the same.
class Executable::Machines {
 public:
  explicit Machines(const Program& program) : program_(program) { idle_[0] = new Machine(program); }
  ~Machines() {
    for (std::atomic<Machine*>& slot : idle_) delete slot.load();
  }

  // A machine for one run.
  class Lease {
   public:
    explicit Lease(Machines& machines) : machines_(machines), machine_(machines.take()) {}
    ~Lease() { machines_.give_back(std::move(machine_)); }
    Lease(const Lease&) = delete;
    Machine* operator->() const { return machine_.get(); }

   private:
    Machines& machines_;
    std::unique_ptr<Machine> machine_;
  };

 private:
  std::unique_ptr<Machine> take() {
    for (std::atomic<Machine*>& slot : idle_) {
      if (slot.load(std::memory_order_relaxed) == nullptr) continue;
      if (Machine* machine = slot.exchange(nullptr)) return std::unique_ptr<Machine>(machine);
    }
    return std::make_unique<Machine>(program_);
  }
  void give_back(std::unique_ptr<Machine> machine) {
    for (std::atomic<Machine*>& slot : idle_) {
      Machine* none = nullptr;
      if (slot.compare_exchange_strong(none, machine.get())) return void(machine.release());
    }
  }

  static constexpr size_t kMostIdle = 64;
  const Program& program_;
  std::array<std::atomic<Machine*>, kMostIdle> idle_{};
};

// A run draws one number, the seed of its own state.
struct Executable::RandomState {
  std::mutex mutex;
  std::mt19937_64 state{kDefaultSeed};

  uint64_t begin_run(const std::optional<uint64_t>& seed) {
    std::lock_guard lock(mutex);
    if (seed) state.seed(*seed);
    return state();
  }
};

Executable::Executable(std::unique_ptr<Program> program, Signature signature, int threads)
    : program_(std::move(program)),
      signature_(std::move(signature)),
      machines_(std::make_unique<Machines>(*program_)),
      random_(std::make_unique<RandomState>()),
      threads_(threads) {}
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;
Executable::~Executable() = default;

std::span<const ValueSpec> Executable::inputs() const { return signature_.inputs; }
std::span<const ValueSpec> Executable::outputs() const { return signature_.outputs; }

std::vector<Datum> Executable::run(NamedData inputs, const RunOptions& options) const {
  return run(in_order(std::move(inputs)), options);
}

std::vector<Datum> Executable::in_order(NamedData inputs) const {
  return runtime::in_order(signature_, std::move(inputs));
}

std::vector<Datum> Executable::run(std::vector<Datum> inputs, const RunOptions& options) const {
  check_inputs(signature_, inputs);
  // What surely runs and cannot is said before hours of other work.
  const Function& main = program_->functions[program_->main];
  for (size_t i = 0; i < main.code.size(); ++i) {
    if (main.code[i].opcode != Opcode::Kernel) continue;
    const Kernel& kernel = *program_->kernels[main.code[i].target];
    if (kernel.is_missing()) throw_missing(kernel, main.origins[i]);
  }
  std::optional<std::mt19937_64> random;
  if (program_->draws) random.emplace(random_->begin_run(options.seed));

  Datum result;
  Machines::Lease machine(*machines_);
  with_threads(options.threads > 0 ? options.threads : threads_, [&] {
    result = machine->run(inputs, {random ? &*random : nullptr, options.profiler, options.deepest_calls});
  });
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
  const Machines::Lease machine(*machines_);
  report.workspace_bytes = static_cast<int64_t>(machine->workspace_bytes());
  for (uint32_t f = 0; f < program_->functions.size(); ++f) {
    const MemoryLayout* layout = machine->latest_layout(f);
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

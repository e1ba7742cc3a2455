#include "runtime/executable.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <random>

#include "anfora/error.h"
#include "support/block_pool.h"
#include "support/parallel.h"

namespace anfora::runtime {
namespace {

constexpr uint64_t kDefaultSeed = 0;

Tensor private_tensor(const Tensor& tensor) {
  if (tensor.owner().use_count() != 1) return tensor.clone();
  BlockPool::give_away(tensor);
  return tensor;
}

// The caller may keep and change an output, so it must not share memory with the model, the machine or the inputs.
void make_private(Datum& datum) {
  switch (datum.kind()) {
    case Datum::Kind::Tensor: datum = private_tensor(datum.tensor()); break;
    case Datum::Kind::Sequence: {
      std::vector<Datum> items = std::move(datum).take_items();
      for (Datum& item : items) make_private(item);
      datum = Datum::sequence(std::move(items));
      break;
    }
    case Datum::Kind::Map: {
      const Datum::Map& map = datum.as_map();
      datum = Datum::map(private_tensor(map.keys), private_tensor(map.values));
      break;
    }
    default: break;
  }
}

// What surely runs and cannot: said before hours of other work.
std::optional<Error> find_missing_kernel(const Program& program) {
  const Function& main = program.functions[program.main];
  for (size_t i = 0; i < main.code.size(); ++i) {
    if (main.code[i].opcode != Opcode::Kernel) continue;
    const Kernel& kernel = *program.kernels[main.code[i].target];
    if (!kernel.is_missing()) continue;
    Error error(ErrorCode::Unsupported, fmt::format("no kernel for {}", kernel.op));
    error.at_node(main.origins[i].node);
    error.at_location(main.origins[i].location);
    return error;
  }
  return std::nullopt;
}

// Moves result i, which a function has computed elsewhere, to the donated memory that it may have; not while a later result may lie there.
void move_to_donated(std::span<Datum> results, size_t i, const Tensor& donated) {
  if (!results[i].is_tensor()) return;
  const Tensor from = results[i].tensor();
  const auto* begin = static_cast<const std::byte*>(donated.raw());
  auto may_lie_there = [&](const Datum& other) {
    if (!other.is_tensor()) return !other.is_none();
    const auto* raw = static_cast<const std::byte*>(other.tensor().raw());
    return raw < begin + donated.bytes() && begin < raw + other.tensor().bytes();
  };
  if (from.raw() == donated.raw() || from.dtype() == DType::String || from.bytes() != donated.bytes()) return;
  if (std::ranges::any_of(results.subspan(i + 1), may_lie_there)) return;
  void* to = const_cast<void*>(donated.raw());
  std::memmove(to, from.raw(), from.bytes());
  results[i] = Tensor::view(from.dtype(), from.shape(), to, donated.owner());
}

// Moves a result to the caller, into the memory that `output` has if it is a tensor. `donated`: whose memory the result may have; null: it
// has its own.
void deliver(Datum result, Datum& output, const ValueSpec& spec, const Datum* donated) {
  if (!output.is_tensor()) {
    const bool is_there = donated && result.is_tensor() && result.tensor().raw() == donated->tensor().raw();
    if (!is_there) make_private(result);
    output = std::move(result);
    return;
  }
  Tensor& to = output.tensor();
  const bool fits =
      result.is_tensor() && result.tensor().dtype() == to.dtype() && result.tensor().shape() == to.shape();
  if (!fits) {
    throw Error(ErrorCode::InvalidArgument, fmt::format("output '{}' is {}, the memory given for it {}", spec.name,
                                                        describe(result), describe(output)));
  }
  const Tensor& from = result.tensor();
  if (from.raw() == to.raw() || from.size() == 0) return;
  if (from.dtype() == DType::String) {
    std::ranges::copy(from.data<std::string>(), to.data<std::string>().begin());
  } else {
    std::memcpy(to.raw(), from.raw(), from.bytes());
  }
}

}  // namespace

// What one run at a time writes to.
struct Executable::Runner {
  explicit Runner(const Program& program) : machine(program) {}
  Machine machine;
  Arguments arguments;
  std::vector<Datum> results;
};

// Those that no run uses. The first ones are taken first, so that runs one after another have the same.
class Executable::Runners {
 public:
  explicit Runners(const Program& program) : program_(program) { idle_[0] = new Runner(program); }
  ~Runners() {
    for (std::atomic<Runner*>& slot : idle_) delete slot.load();
  }

  class Lease {
   public:
    explicit Lease(Runners& runners) : runners_(runners), runner_(runners.take()) {}
    ~Lease() { runners_.give_back(std::move(runner_)); }
    Lease(const Lease&) = delete;
    Runner* operator->() const { return runner_.get(); }

   private:
    Runners& runners_;
    std::unique_ptr<Runner> runner_;
  };

 private:
  std::unique_ptr<Runner> take() {
    for (std::atomic<Runner*>& slot : idle_) {
      if (slot.load(std::memory_order_relaxed) == nullptr) continue;
      if (Runner* runner = slot.exchange(nullptr)) return std::unique_ptr<Runner>(runner);
    }
    return std::make_unique<Runner>(program_);
  }
  void give_back(std::unique_ptr<Runner> runner) {
    for (std::atomic<Runner*>& slot : idle_) {
      Runner* none = nullptr;
      if (slot.compare_exchange_strong(none, runner.get())) return void(runner.release());
    }
  }

  static constexpr size_t kMostIdle = 64;
  const Program& program_;
  std::array<std::atomic<Runner*>, kMostIdle> idle_{};
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
      runners_(std::make_unique<Runners>(*program_)),
      random_(std::make_unique<RandomState>()),
      missing_kernel_(find_missing_kernel(*program_)),
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
  std::vector<Datum> outputs(signature_.outputs.size());
  run(inputs, outputs, options);
  return outputs;
}

void Executable::run(std::span<const Datum> inputs, std::span<Datum> outputs, const RunOptions& options) const {
  if (outputs.size() != signature_.outputs.size()) {
    throw Error(ErrorCode::InvalidArgument,
                fmt::format("room for {} outputs, the model has {}", outputs.size(), signature_.outputs.size()));
  }
  Runners::Lease runner(*runners_);
  bind(signature_, inputs, runner->arguments);
  if (missing_kernel_) throw *missing_kernel_;
  std::optional<std::mt19937_64> random;
  if (program_->draws) random.emplace(random_->begin_run(options.seed));

  runner->results.resize(outputs.size());
  with_threads(options.threads > 0 ? options.threads : threads_, [&] {
    runner->machine.run(runner->arguments.data, outputs, runner->results,
                        {random ? &*random : nullptr, options.profiler, options.deepest_calls});
  });
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::optional<size_t> input = donated_input(i);
    if (input && !outputs[i].is_tensor()) move_to_donated(runner->results, i, runner->arguments.data[*input]->tensor());
    deliver(std::move(runner->results[i]), outputs[i], signature_.outputs[i],
            input ? runner->arguments.data[*input] : nullptr);
  }
  runner->machine.results_were_given();
}

std::optional<size_t> Executable::donated_input(size_t output) const {
  const std::vector<uint32_t>& donors = program_->functions[program_->main].result_arguments;
  if (output >= donors.size() || donors[output] == Function::kNoArgument) return std::nullopt;
  return donors[output];
}

MemoryReport Executable::memory() const {
  MemoryReport report;
  report.constant_bytes = static_cast<int64_t>(program_->constant_bytes);
  const Runners::Lease runner(*runners_);
  const Machine& machine = runner->machine;
  report.block_bytes = static_cast<int64_t>(machine.block_bytes());
  for (uint32_t f = 0; f < program_->functions.size(); ++f) {
    const MemoryLayout* layout = machine.latest_layout(f);
    if (!layout) continue;
    if (f == program_->main) {
      report.is_known = true;
      report.arena_bytes = layout->bytes;
      report.arena_lower_bound = layout->lower_bound;
    } else {
      report.callee_arena_bytes += layout->bytes + layout->carried_bytes;
    }
  }
  const Function& main = program_->functions[program_->main];
  for (uint32_t buffer : main.output_buffers) report.unplanned_values += buffer == Function::kNoBuffer;
  report.unplanned_values -= main.donated.size();
  for (uint32_t argument : main.result_arguments) report.donated_results += argument != Function::kNoArgument;
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

#include "runtime/machine.h"

#include <fmt/format.h>

#include <boost/container_hash/hash.hpp>

#include "support/aligned_bytes.h"
#include "support/cancellation.h"

namespace anfora::runtime {
namespace {

// Layouts kept a function; a model that sees more combinations of sizes than this plans some of them again.
constexpr size_t kMostLayouts = 256;

struct SymbolsHash {
  size_t operator()(const std::vector<int64_t>& symbols) const {
    return boost::hash_range(symbols.begin(), symbols.end());
  }
};

AlignedBytes allocate_arena(int64_t bytes) {
  AlignedBytes memory = allocate_bytes(static_cast<size_t>(bytes));
  if (!memory) {
    throw Error(ErrorCode::ResourceExhausted, fmt::format("cannot allocate {} bytes for intermediate values", bytes));
  }
  return memory;
}

// A slot whose tensor lies in the arena owns nothing: there is nothing to give back.
void clear(Datum& slot) {
  if (slot.is_none() || (slot.is_tensor() && !slot.tensor().owner())) return;
  slot = Datum();
}

// The "deleter" of a place for carried values: keeps the memory that all of a frame are in.
struct KeepCarried {
  std::shared_ptr<std::byte> memory;
  void operator()(void*) const {}
};

bool truth(const Datum& condition) {
  const Tensor& tensor = condition.tensor();
  if (tensor.dtype() != DType::Bool || tensor.size() != 1) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("a condition must be one boolean, not {}", describe(condition)));
  }
  return tensor.data<bool>()[0];
}

}  // namespace

// The layout of an arena under certain sizes, and what kernels took when they ran with it.
struct Machine::SizedLayout {
  MemoryLayout layout;
  std::vector<int64_t> workspaces;  // by buffer: what is to be planned for it at least
  bool is_outgrown = false;

  void note_workspace(uint32_t buffer, int64_t taken) {
    const int64_t planned = layout.places[buffer].bytes;
    if (taken <= planned) return;
    // What grows again depends on the elements, not on the sizes alone, and will grow further.
    workspaces[buffer] = planned == 0 ? taken : taken + taken / 4;
    is_outgrown = true;
  }
};

struct Machine::Frame {
  Frame(const Program& program, uint32_t index)
      : function(program.functions[index]),
        index(index),
        slots(function.num_slots),
        planned(function.output_buffers.size()),
        row_distances(function.slices.empty() ? 0 : function.output_buffers.size()) {
    operands.reserve(function.operands.size());
    for (Operand operand : function.operands) {
      operands.push_back(operand >= 0 ? &slots[static_cast<size_t>(operand)]
                                      : &program.constants[static_cast<size_t>(-1 - operand)]);
    }
  }

  // Takes memory for the carried values unless that at hand is large enough, and nobody has what lies in it. While somebody has, the
  // place stays the frame's as well: that is what is_only_handle() counts on.
  void use_carried(const MemoryLayout& layout) {
    auto is_free = [](const std::shared_ptr<void>& place) { return place.use_count() == 1; };
    std::erase_if(former_places, is_free);
    if (layout.carried.empty() || (std::ranges::all_of(places, is_free) && layout.carried_bytes <= carried_bytes))
      return;
    std::ranges::copy_if(places, std::back_inserter(former_places), std::not_fn(is_free));
    places.clear();
    first_places.clear();
    const std::shared_ptr<std::byte> memory = allocate_arena(layout.carried_bytes);
    carried_bytes = layout.carried_bytes;
    for (const CarriedValue& value : function.carried) {
      first_places.push_back(places.size());
      for (uint32_t p = 0; p < value.places; ++p) places.emplace_back(memory.get(), KeepCarried{memory});
    }
  }

  // A free place for a carried value. None: the value then lies in a block, until there is one.
  Tensor carried_place(uint32_t carried) const {
    const MemoryLayout::Place& first = sized->layout.carried[carried];
    if (first.offset == MemoryLayout::kNowhere) return {};
    for (uint32_t p = 0; p < function.carried[carried].places; ++p) {
      const std::shared_ptr<void>& place = places[first_places[carried] + p];
      if (place.use_count() > 1) continue;
      std::byte* memory = static_cast<std::byte*>(place.get()) + first.offset + p * aligned(first.bytes);
      return Tensor::view(DType::U8, Shape{first.bytes}, memory, place);
    }
    return {};
  }

  // Plans places for the outputs of a kernel that a loop carries, for one invocation.
  class CarriedOutputs {
   public:
    CarriedOutputs(const Frame& frame, const Instruction& instruction, std::span<Tensor> planned) {
      if (frame.function.output_carried.empty()) return;
      for (size_t i = 0; i < planned.size(); ++i) {
        const uint32_t carried = frame.function.output_carried[instruction.first_output + i];
        if (carried == Function::kNoBuffer || planned[i].defined()) continue;
        planned[i] = frame.carried_place(carried);
        places_.push_back(&planned[i]);
      }
    }
    ~CarriedOutputs() {
      for (Tensor* place : places_) *place = Tensor();
    }
    CarriedOutputs(const CarriedOutputs&) = delete;

   private:
    boost::container::small_vector<Tensor*, 16> places_;
  };

  // Points the planned memory of each output into the arena as the layout says.
  void use_layout(const std::shared_ptr<SizedLayout>& next) {
    if (sized == next) {  // the run before has written to the arena
      if (!std::exchange(is_merged, true)) let_pages_be_merged(arena.get(), static_cast<size_t>(arena_bytes));
      return;
    }
    const MemoryLayout& layout = next->layout;
    if (layout.bytes > arena_bytes) {
      sized.reset();
      arena.reset();
      arena_bytes = 0;
      arena = allocate_arena(layout.bytes);
      arena_bytes = layout.bytes;
      is_merged = false;
    }
    use_carried(layout);
    sized = next;
    for (size_t i = 0; i < planned.size(); ++i) {
      uint32_t buffer = function.output_buffers[i];
      planned[i] = Tensor();
      if (buffer == Function::kNoBuffer || buffer == Function::kSharesInput) continue;
      const MemoryLayout::Place& place = layout.places[buffer];
      if (place.offset == MemoryLayout::kNowhere) continue;
      planned[i] = Tensor::view(DType::U8, Shape{place.bytes}, arena.get() + place.offset, nullptr);
    }
    for (const Slice& slice : function.slices) {
      const MemoryLayout::Place& whole = layout.places[function.output_buffers[slice.output]];
      if (whole.offset == MemoryLayout::kNowhere) continue;
      const int64_t rows = whole.bytes / slice.distance;
      planned[slice.output] = Tensor::view(DType::U8, Shape{rows * slice.row_bytes}, arena.get() + whole.offset + slice.offset, nullptr);
      row_distances[slice.output] = rows > 1 ? slice.distance : 0;
    }
  }
  std::span<const int64_t> row_distances_of(const Instruction& instruction) const {
    if (row_distances.empty()) return {};
    return std::span(row_distances).subspan(instruction.first_output, instruction.num_results);
  }
  // Of its operands. A slice that a kernel has put elsewhere is dense there.
  std::span<const int64_t> operand_distances_of(const Instruction& instruction) {
    if (function.operand_slices.empty()) return {};
    operand_distances.assign(instruction.num_operands, 0);
    for (uint32_t i = 0; i < instruction.num_operands; ++i) {
      const uint32_t output = function.operand_slices[instruction.first_operand + i];
      if (output == Function::kNoOutput) continue;
      const Datum& operand = *operands[instruction.first_operand + i];
      if (operand.is_tensor() && operand.tensor().raw() == planned[output].raw()) operand_distances[i] = row_distances[output];
    }
    return operand_distances;
  }

  std::span<std::byte> workspace_of(const Instruction& instruction) const {
    const MemoryLayout::Place& place = sized->layout.places[instruction.workspace];
    if (place.bytes == 0) return {};
    return {arena.get() + place.offset, static_cast<size_t>(place.bytes)};
  }

  // Lets values lie in the memory of arguments that the caller has given away, until the frame is released. Before use_memory().
  void use_donated(std::span<const Datum* const> arguments) {
    for (const DonatedOutput& donated : function.donated) {
      const Tensor& tensor = arguments[donated.argument]->tensor();
      planned[donated.output] = Tensor::view(DType::U8, Shape{static_cast<int64_t>(tensor.bytes())},
                                             const_cast<void*>(tensor.raw()), tensor.owner());
      uses_given_memory = true;
    }
  }

  // Lets results be written to memory of the caller, until the frame is released.
  void use_memory(std::span<const Datum> given) {
    for (size_t i = 0; i < std::min(given.size(), function.result_outputs.size()); ++i) {
      const uint32_t output = function.result_outputs[i];
      if (output == Function::kNoOutput || !given[i].is_tensor()) continue;
      const Tensor& tensor = given[i].tensor();
      if (tensor.dtype() == DType::String) continue;
      planned[output] = Tensor::view(DType::U8, Shape{static_cast<int64_t>(tensor.bytes())},
                                     const_cast<void*>(tensor.raw()), nullptr);
      uses_given_memory = true;
    }
  }
  void forget_given_memory() {
    if (!std::exchange(uses_given_memory, false)) return;
    for (const DonatedOutput& donated : function.donated) planned[donated.output] = Tensor();
    for (uint32_t output : function.result_outputs) {
      if (output != Function::kNoOutput) planned[output] = Tensor();
    }
  }

  const Function& function;
  uint32_t index;
  uint32_t next = 0;  // instruction
  std::vector<Datum> slots;
  std::vector<const Datum*> operands;  // as Function::operands
  std::vector<Tensor> planned;         // as Function::output_buffers
  std::vector<int64_t> row_distances;  // likewise, of slices whose rows lie apart; empty where there are none
  std::vector<int64_t> operand_distances;  // of the instruction that runs
  std::shared_ptr<SizedLayout> sized;
  AlignedBytes arena;
  int64_t arena_bytes = 0;
  bool is_merged = false;                            // the arena, as let_pages_be_merged() says
  std::vector<std::shared_ptr<void>> places;         // of carried values; a tensor that lies in one has a copy
  std::vector<std::shared_ptr<void>> former_places;  // of another layout, in which a value still lies
  std::vector<size_t> first_places;                  // of each carried value
  int64_t carried_bytes = 0;
  bool uses_given_memory = false;
};

struct Machine::FunctionState {
  std::vector<std::unique_ptr<Frame>> pool;
  std::unordered_map<std::vector<int64_t>, std::shared_ptr<SizedLayout>, SymbolsHash> layouts;
  std::vector<int64_t> latest_symbols;
  std::shared_ptr<SizedLayout> latest;  // null before the first run
};

Machine::Machine(const Program& program) : program_(program), functions_(program.functions.size()) {
  for (const auto& kernel : program.kernels) {
    states_.push_back(kernel->prepared ? kernel->prepared->make_state() : nullptr);
  }
  for (size_t f = 0; f < functions_.size(); ++f) {
    const Function& function = program.functions[f];
    has_loops_ = has_loops_ || !function.carried.empty();
    if (function.symbols.empty()) functions_[f].latest = lay_out(function, nullptr);
  }
}
Machine::~Machine() = default;

const MemoryLayout* Machine::latest_layout(uint32_t function) const {
  const SizedLayout* latest = functions_[function].latest.get();
  return latest ? &latest->layout : nullptr;
}

// Under the symbols of start().
std::shared_ptr<Machine::SizedLayout> Machine::lay_out(const Function& function, const SizedLayout* outgrown) {
  auto sized = std::make_shared<SizedLayout>();
  if (outgrown) {
    sized->workspaces = outgrown->workspaces;
    workspace_.blocks().trim();  // they have served as what is planned now
  } else {
    sized->workspaces.resize(function.buffers.size());
  }
  sized->layout = make_layout(function.buffers, symbols_, sized->workspaces);
  place_carried(function.carried, symbols_, sized->layout);
  return sized;
}

std::unique_ptr<Machine::Frame> Machine::acquire(uint32_t function) {
  auto& pool = functions_[function].pool;
  if (pool.empty()) return std::make_unique<Frame>(program_, function);
  std::unique_ptr<Frame> frame = std::move(pool.back());
  pool.pop_back();
  return frame;
}

void Machine::release(std::unique_ptr<Frame> frame) {
  for (Datum& slot : frame->slots) clear(slot);
  frame->forget_given_memory();
  functions_[frame->index].pool.push_back(std::move(frame));
}

// Binds the function's symbols to the sizes of the arguments, which are in place, and takes the layout for them.
void Machine::start(Frame& frame) {
  frame.next = 0;
  FunctionState& state = functions_[frame.index];
  const Function& function = frame.function;
  symbols_.clear();
  if (!function.symbols.empty()) {
    for (const SymbolSource& source : function.symbols) {
      int64_t value = kUnbound;
      if (source.main_symbol != SymbolSource::kNone) {
        value = main_symbols_[source.main_symbol];
      } else if (const Datum& argument = frame.slots[source.argument];
                 argument.is_tensor() && argument.tensor().rank() > static_cast<int>(source.axis)) {
        int64_t size = argument.tensor().dim(static_cast<int>(source.axis)) - source.offset;
        if (size % source.scale == 0) value = size / source.scale;
      }
      symbols_.push_back(value);
    }
    if (frame.index == program_.main && main_symbols_.empty()) main_symbols_ = symbols_;
    if (!state.latest || state.latest_symbols != symbols_) {
      if (state.layouts.size() >= kMostLayouts) state.layouts.clear();
      auto& sized = state.layouts[symbols_];
      if (!sized) sized = lay_out(function, nullptr);
      state.latest = sized;
      state.latest_symbols = symbols_;
    }
  }
  if (state.latest->is_outgrown) {
    state.latest = lay_out(function, state.latest.get());
    if (!function.symbols.empty()) state.layouts[symbols_] = state.latest;
  }
  frame.use_layout(state.latest);
}

void Machine::enter(std::unique_ptr<Frame> frame, const Options& options) {
  if (frames_.size() >= options.deepest_calls) {
    throw Error(ErrorCode::ResourceExhausted, fmt::format("more than {} nested calls", options.deepest_calls))
        .with_hint(fmt::format("the recursion of @{} does not end", frame->function.name));
  }
  start(*frame);
  if (options.profiler) options.profiler->function_entered(frame->function);
  frames_.push_back(std::move(frame));
}

void Machine::run(std::span<const Datum* const> arguments, std::span<const Datum> given, std::span<Datum> results,
                  const Options& options) {
  try {
    std::unique_ptr<Frame> frame = acquire(program_.main);
    for (size_t i = 0; i < arguments.size(); ++i) frame->slots[i] = *arguments[i];
    main_symbols_.clear();
    enter(std::move(frame), options);
    frames_.back()->use_donated(arguments);
    frames_.back()->use_memory(given);
    execute(results, options);
  } catch (Error& error) {
    locate(error);
    unwind();
    throw;
  } catch (const std::bad_alloc&) {
    Error error(ErrorCode::ResourceExhausted, "out of memory");
    locate(error);
    unwind();
    throw error;
  } catch (...) {
    unwind();
    throw;
  }
}

Error& Machine::locate(Error& error) const {
  if (frames_.empty() || frames_.back()->next == 0) return error;
  const Origin& origin = frames_.back()->function.origins[frames_.back()->next - 1];
  if (!origin.node.empty()) error.at_node(origin.node);
  if (!origin.location.empty()) error.at_location(origin.location);
  return error;
}

void Machine::unwind() {
  for (auto& frame : frames_) {
    for (Datum& slot : frame->slots) slot = Datum();
    release(std::move(frame));
  }
  frames_.clear();
  arguments_.clear();
  workspace_.end();
}

void Machine::call(const Instruction& instruction, uint32_t function, std::span<const Operand> operands,
                   const bool* last_uses, std::span<const Datum> captures, const Options& options) {
  Frame& caller = *frames_.back();
  const size_t expected = program_.functions[function].num_arguments;
  if (operands.size() + captures.size() != expected) {
    throw Error(ErrorCode::TypeMismatch,
                fmt::format("@{} takes {} arguments, not {}", program_.functions[function].name, expected,
                            operands.size() + captures.size()));
  }
  auto argument = [&](size_t i) -> Datum {
    Operand operand = operands[i];
    if (operand < 0) return program_.constants[static_cast<size_t>(-1 - operand)];
    Datum& slot = caller.slots[static_cast<size_t>(operand)];
    return last_uses[i] ? std::move(slot) : slot;
  };
  if (instruction.tail && caller.index == function) {
    // The same frame serves again: the arguments wait outside until its slots are free.
    for (size_t i = 0; i < operands.size(); ++i) arguments_.push_back(argument(i));
    arguments_.insert(arguments_.end(), captures.begin(), captures.end());
    for (Datum& slot : caller.slots) clear(slot);
    std::ranges::move(arguments_, caller.slots.begin());
    arguments_.clear();
    if (options.profiler) {
      options.profiler->function_left();
      options.profiler->function_entered(caller.function);
    }
    return start(caller);
  }
  std::unique_ptr<Frame> callee = acquire(function);
  for (size_t i = 0; i < operands.size(); ++i) callee->slots[i] = argument(i);
  std::ranges::copy(captures, callee->slots.begin() + static_cast<std::ptrdiff_t>(operands.size()));
  if (instruction.tail) {
    release(std::move(frames_.back()));
    frames_.pop_back();
    if (options.profiler) options.profiler->function_left();
  } else {
    for (uint32_t i = 0; i < instruction.num_releases; ++i) {
      clear(caller.slots[caller.function.releases[instruction.first_release + i]]);
    }
  }
  enter(std::move(callee), options);
}

namespace {

// Memory that only the slot of this tensor holds; what lies in an arena has no owner, constants and arguments have several.
bool is_only_handle(const Tensor& tensor, bool may_be_carried) {
  const auto handles = tensor.owner().use_count();
  return handles == 1 ||
         (may_be_carried && handles == 2 && std::get_deleter<KeepCarried>(tensor.owner()));  // one is the frame's
}

// Plans the memory of a dying input for output 0, for one invocation.
class ReusedInput {
 public:
  ReusedInput(const Kernel& kernel, std::span<const Datum* const> inputs, std::span<Tensor> planned,
              bool may_be_carried) {
    if (kernel.reusable.empty() || planned[0].defined()) return;
    for (uint8_t i : kernel.reusable) {
      if (!inputs[i]->is_tensor()) continue;
      const Tensor& tensor = inputs[i]->tensor();
      if (tensor.dtype() == DType::String || !is_only_handle(tensor, may_be_carried)) continue;
      place_ = &planned[0];
      *place_ = tensor;
      return;
    }
  }
  ~ReusedInput() {
    if (place_) *place_ = Tensor();
  }
  ReusedInput(const ReusedInput&) = delete;

 private:
  Tensor* place_ = nullptr;
};

}  // namespace

void Machine::run_kernel(Frame& frame, const Instruction& instruction, const Options& options) {
  const Kernel& kernel = *program_.kernels[instruction.target];
  std::span<const Datum* const> inputs(frame.operands.data() + instruction.first_operand, instruction.num_operands);
  std::span<Datum> outputs(frame.slots.data() + instruction.result, instruction.num_results);
  std::span<Tensor> planned(frame.planned.data() + instruction.first_output, instruction.num_results);
  const bool* last_uses = frame.function.last_uses.get() + instruction.first_operand;
  // A kernel may leave out a result that is not defined, as those of BatchNormalization outside of training: it is then none, and not
  // what is left of an earlier value of the slot.
  if (outputs.size() > 1) std::ranges::fill(outputs, Datum());

  const ReusedInput reused(kernel, inputs, planned, has_loops_);
  const Frame::CarriedOutputs carried(frame, instruction, planned);

  workspace_.begin(frame.workspace_of(instruction));
  kernels::KernelContext context(kernel.attributes, inputs, outputs, planned, options.random,
                                 {last_uses, instruction.num_operands}, &workspace_);
  context.place_rows_apart(frame.row_distances_of(instruction), frame.operand_distances_of(instruction));
  auto invoke = [&] {
    if (kernel.prepared) {
      kernel.prepared->run(context, states_[instruction.target].get());
    } else if (kernel.reference) {
      kernel.reference(context);
    } else {
      throw Error(ErrorCode::Unsupported, fmt::format("no kernel for {}", kernel.op));
    }
  };
  if (options.profiler) {
    Profiler::Inputs described(inputs);
    Profiler::Clock::time_point begin = options.profiler->now();
    invoke();
    options.profiler->kernel_ran(kernel, frame.function.origins[frame.next - 1], begin, std::move(described), outputs);
  } else {
    invoke();
  }
  if (const size_t taken = workspace_.end(); taken > 0) {
    frame.sized->note_workspace(instruction.workspace, static_cast<int64_t>(taken));
  }
  // A kernel that hands an input through although memory was planned, or that nothing was planned for: its output would
  // lie where a plan, this function's or a caller's, puts something else.
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (frame.function.output_buffers[instruction.first_output + i] == Function::kSharesInput ||
        !outputs[i].is_tensor())
      continue;
    const Tensor& output = outputs[i].tensor();
    if (!output.owner() && output.size() > 0 && output.raw() != planned[i].raw()) outputs[i] = output.clone();
  }
}

// The caller tells how many results it takes; where types left open whether that is a tuple, it becomes what is asked for.
void Machine::return_values(Frame& frame, const Instruction& instruction, std::span<Datum> results) {
  if (frames_.size() > 1) {
    Frame& caller = *frames_[frames_.size() - 2];
    const Instruction& call = caller.function.code[caller.next - 1];
    results = {caller.slots.data() + call.result, call.num_results};
  }
  auto take = [&](size_t i) -> Datum {
    const size_t operand = instruction.first_operand + i;
    Datum& value = const_cast<Datum&>(*frame.operands[operand]);
    return frame.function.last_uses[operand] ? std::move(value) : value;
  };
  if (instruction.num_operands == results.size()) {
    for (size_t i = 0; i < results.size(); ++i) results[i] = take(i);
    return;
  }
  std::vector<Datum> items;
  if (results.size() == 1) {
    for (size_t i = 0; i < instruction.num_operands; ++i) items.push_back(take(i));
    results[0] = Datum::tuple(std::move(items));
    return;
  }
  if (instruction.num_operands == 1) items = take(0).take_items();
  if (items.size() != results.size()) {
    throw Error(ErrorCode::TypeMismatch,
                fmt::format("@{} returns {} values, not {}", frame.function.name, items.size(), results.size()));
  }
  std::ranges::move(items, results.begin());
}

void Machine::execute(std::span<Datum> results, const Options& options) {
  Cancellation* const cancellation = current_cancellation();
  for (;;) {
    if (cancellation) cancellation->check();
    Frame& frame = *frames_.back();
    const Function& function = frame.function;
    const Instruction& instruction = function.code[frame.next++];
    const Datum* const* operands = frame.operands.data() + instruction.first_operand;
    auto operand_span = [&](size_t from, size_t count) {
      return std::span<const Operand>(function.operands.data() + instruction.first_operand + from, count);
    };
    const bool* last_uses = function.last_uses.get() + instruction.first_operand;
    // The operand itself, moved out of its slot at its last use.
    auto take = [&](size_t i) -> Datum {
      return last_uses[i] ? std::move(const_cast<Datum&>(*operands[i])) : *operands[i];
    };
    Datum& result = frame.slots.data()[instruction.result];

    switch (instruction.opcode) {
      case Opcode::Kernel: run_kernel(frame, instruction, options); break;
      case Opcode::MakeClosure: {
        auto closure = std::make_shared<Closure>();
        closure->function = instruction.target;
        for (size_t i = 0; i < instruction.num_operands; ++i) closure->captures.push_back(take(i));
        result = Datum::function(std::move(closure));
        break;
      }
      case Opcode::Select: result = truth(*operands[0]) ? take(1) : take(2); break;
      case Opcode::MakeTuple: {
        std::vector<Datum> items;
        for (size_t i = 0; i < instruction.num_operands; ++i) items.push_back(take(i));
        result = Datum::tuple(std::move(items));
        break;
      }
      case Opcode::GetItem: {
        const size_t index = instruction.target;
        if (index >= operands[0]->items().size()) {
          throw Error(ErrorCode::TypeMismatch, fmt::format("{} has no item {}", describe(*operands[0]), index));
        }
        if (last_uses[0]) {
          std::vector<Datum> items = take(0).take_items();
          result = std::move(items[index]);
        } else {
          result = operands[0]->items()[index];
        }
        break;
      }
      case Opcode::Call:
        call(instruction, instruction.target, operand_span(0, instruction.num_operands), last_uses, {}, options);
        continue;
      case Opcode::CallEither: {
        const size_t split = instruction.split;
        if (truth(*operands[0])) {
          call(instruction, instruction.target, operand_span(1, split), last_uses + 1, {}, options);
        } else {
          call(instruction, instruction.otherwise, operand_span(1 + split, instruction.num_operands - 1 - split),
               last_uses + 1 + split, {}, options);
        }
        continue;
      }
      case Opcode::CallClosure: {
        std::shared_ptr<Datum::Function> callee = operands[0]->as_function();
        const Closure& closure = static_cast<const Closure&>(*callee);
        call(instruction, closure.function, operand_span(1, instruction.num_operands - 1), last_uses + 1,
             closure.captures, options);
        continue;
      }
      case Opcode::Return:
        return_values(frame, instruction, results);
        release(std::move(frames_.back()));
        frames_.pop_back();
        if (options.profiler) options.profiler->function_left();
        if (frames_.empty()) return;
        continue;
      case Opcode::Fail: throw Error(ErrorCode::TypeMismatch, program_.failures[instruction.target]);
    }
    for (uint32_t i = 0; i < instruction.num_releases; ++i) {
      clear(frame.slots[function.releases[instruction.first_release + i]]);
    }
  }
}

}  // namespace anfora::runtime

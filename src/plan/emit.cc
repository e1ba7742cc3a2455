#include "plan/emit.h"

#include <algorithm>

namespace anfora::plan {
namespace {

using runtime::Function;
using runtime::Instruction;

class Emission {
 public:
  Emission(const Draft& draft, MemoryPlan memory, ProgramBuilder& program)
      : draft_(draft), lifetimes_(draft.lifetimes()), memory_(std::move(memory)), program_(program) {}

  Function run() {
    function_.name = draft_.graph->name();
    function_.num_arguments = draft_.num_arguments;
    function_.buffers = std::move(memory_.buffers);
    function_.carried = std::move(memory_.carried);
    slots_.resize(draft_.value_types.size());
    outputs_.resize(draft_.value_types.size());
    for (Value v = 0; v < draft_.num_arguments; ++v) slots_[v] = function_.num_slots++;
    collect_releases();
    for (uint32_t s = 0; s < draft_.steps.size(); ++s) emit_step(s);
    for (Value v : memory_.written_results) {
      function_.result_outputs.push_back(v == MemoryPlan::kNoValue ? Function::kNoOutput : outputs_.at(v));
    }
    for (const MemoryPlan::Donated& donated : memory_.donated)
      function_.donated.push_back({outputs_.at(donated.value), donated.argument});
    for (Value argument : memory_.result_arguments)
      function_.result_arguments.push_back(argument == MemoryPlan::kNoValue ? Function::kNoArgument : argument);
    function_.last_uses = std::make_unique<bool[]>(last_uses_.size());
    std::ranges::copy(last_uses_, function_.last_uses.get());
    return std::move(function_);
  }

 private:
  // By step, the values that nobody reads after it.
  void collect_releases() {
    dying_.resize(draft_.steps.size());
    for (Value v = 0; v < lifetimes_.last_read.size(); ++v) dying_[lifetimes_.last_read[v]].push_back(v);
  }

  void emit_step(uint32_t s) {
    const Step& step = draft_.steps[s];
    Instruction instruction;
    instruction.opcode = step.opcode;
    instruction.tail = step.tail;
    instruction.target = step.target;
    instruction.otherwise = step.otherwise;
    instruction.split = step.split;
    instruction.first_operand = static_cast<uint32_t>(function_.operands.size());
    instruction.num_operands = static_cast<uint32_t>(step.operands.size());
    for (Operand operand : step.operands) {
      function_.operands.push_back(operand >= 0 ? static_cast<Operand>(slots_[static_cast<Value>(operand)]) : operand);
    }
    if (!memory_.slices.empty()) {
      for (Operand operand : step.operands) {
        const bool is_slice = operand >= 0 && memory_.slices[static_cast<Value>(operand)].whole != Slice::kNone;
        function_.operand_slices.push_back(is_slice ? outputs_[static_cast<Value>(operand)] : Function::kNoOutput);
      }
    }
    mark_last_uses(s);
    instruction.num_results = step.num_results;
    instruction.result = step.num_results > 0 ? take_slots(step) : 0;
    instruction.first_output = static_cast<uint32_t>(function_.output_buffers.size());
    if (step.opcode == Opcode::Kernel) {
      for (Value v = step.first_result; v < step.first_result + step.num_results; ++v) {
        outputs_[v] = static_cast<uint32_t>(function_.output_buffers.size());
        function_.output_buffers.push_back(memory_.buffer_of[v]);
        if (!memory_.slices.empty() && memory_.slices[v].whole != Slice::kNone)
          function_.slices.push_back({outputs_[v], memory_.slices[v].offset, memory_.slices[v].row_bytes, memory_.slices[v].distance});
        if (!function_.carried.empty()) function_.output_carried.push_back(memory_.carried_of[v]);
      }
      runtime::Kernel& kernel = *program_.program->kernels[step.target];
      kernel.reusable = memory_.reusable[s];
      // Where shapes are not known yet, the first run with them shows what the kernel takes.
      instruction.workspace = static_cast<uint32_t>(function_.buffers.size());
      function_.buffers.push_back({s, s, runtime::SizeExpression(static_cast<int64_t>(kernel.workspace_bytes))});
    }
    instruction.first_release = static_cast<uint32_t>(function_.releases.size());
    for (Value v : dying_[s]) {
      function_.releases.push_back(slots_[v]);
      free_slots_.push_back(slots_[v]);
    }
    instruction.num_releases = static_cast<uint32_t>(function_.releases.size()) - instruction.first_release;
    function_.code.push_back(instruction);
    function_.origins.push_back({step.node ? describe(*step.node) : "",
                                 step.node && step.node->location() ? to_string(*step.node->location()) : ""});
  }

  // The slots of several results must be neighbours, so they are new ones.
  uint32_t take_slots(const Step& step) {
    uint32_t first = function_.num_slots;
    if (step.num_results == 1 && !free_slots_.empty()) {
      first = free_slots_.back();
      free_slots_.pop_back();
    } else {
      function_.num_slots += step.num_results;
    }
    for (uint32_t r = 0; r < step.num_results; ++r) slots_[step.first_result + r] = first + r;
    return first;
  }

  // The last occurrence of a dying value among the operands. CallEither reads one of two lists, each of which has
  // its own last occurrence, and its condition before either.
  void mark_last_uses(uint32_t s) {
    const Step& step = draft_.steps[s];
    const size_t first = last_uses_.size();
    last_uses_.resize(first + step.operands.size(), false);
    auto mark = [&](size_t from, size_t to) {
      for (size_t i = from; i < to; ++i) {
        Operand operand = step.operands[i];
        if (operand < 0 || lifetimes_.last_read[static_cast<Value>(operand)] != s) continue;
        auto rest = std::span(step.operands).subspan(i + 1, to - i - 1);
        last_uses_[first + i] = std::ranges::find(rest, operand) == rest.end();
      }
    };
    if (step.opcode == Opcode::CallEither) {
      mark(1, 1 + step.split);
      mark(1 + step.split, step.operands.size());
    } else {
      mark(0, step.operands.size());
    }
  }

  const Draft& draft_;
  Draft::Lifetimes lifetimes_;
  MemoryPlan memory_;
  ProgramBuilder& program_;
  Function function_;
  std::vector<uint32_t> slots_;    // by value
  std::vector<uint32_t> outputs_;  // by value that a kernel writes: in Function::output_buffers
  std::vector<uint32_t> free_slots_;
  std::vector<std::vector<Value>> dying_;  // by step
  std::vector<bool> last_uses_;
};

}  // namespace

runtime::Function emit(const Draft& draft, MemoryPlan memory, ProgramBuilder& program) {
  return Emission(draft, std::move(memory), program).run();
}

}  // namespace anfora::plan

#include "plan/memory.h"

#include <algorithm>
#include <optional>

#include "plan/slices.h"

namespace anfora::plan {
namespace {

using ir::Dim;
using runtime::Function;

constexpr uint32_t kOutside = UINT32_MAX;  // the class of arguments, constants and views on them

struct Class {
  bool escapes = false, is_carried = false;
  uint32_t last_read = 0;
  std::optional<Dim> bytes;
};

class MemoryPlanner {
 public:
  MemoryPlanner(const Draft& draft, FunctionSymbols& symbols, const analysis::CallOrder& calls,
                const RetainedArguments& retained, const Donation& donation, std::vector<Slice> slices)
      : draft_(draft),
        symbols_(symbols),
        calls_(calls),
        retained_(retained),
        donation_(donation),
        viewed_(draft.viewed()),
        dims_(draft.graph->module().context().dims()),
        last_read_(draft.lifetimes().last_read) {
    plan_.slices = std::move(slices);
  }

  MemoryPlan run() {
    plan_.buffer_of.assign(draft_.value_types.size(), Function::kNoBuffer);
    plan_.carried_of.assign(draft_.value_types.size(), Function::kNoBuffer);
    plan_.reusable.resize(draft_.steps.size());
    form_classes();
    for (uint32_t s = 0; s < draft_.steps.size(); ++s) {
      const Step& step = draft_.steps[s];
      if (step.opcode != Opcode::Kernel) continue;
      for (Value v = step.first_result; v < step.first_result + step.num_results; ++v) {
        if (is_donated(v)) {
          plan_.donated.push_back({v, donation_.memory_of[v]});
        } else if (is_slice(v)) {
          plan_.buffer_of[v] = buffer_of_whole(s, plan_.slices[v].whole);
        } else if (plan_.buffer_of[v] != Function::kNoBuffer) {
          continue;  // a whole, with its first slice
        } else if (class_of_[v] == v) {
          place(s, v);
        } else {
          plan_.buffer_of[v] = Function::kSharesInput;
        }
      }
      if (plan_.buffer_of[step.first_result] == Function::kNoBuffer) find_reusable(s);
      for (Value v = step.first_result; v < step.first_result + step.num_results; ++v) {
        if (!is_donated(v)) carry(s, v);
      }
    }
    find_written_results();
    plan_.result_arguments = donation_.result_of;
    return std::move(plan_);
  }

 private:
  bool is_donated(Value v) const { return !donation_.memory_of.empty() && donation_.memory_of[v] != Donation::kNone; }
  uint32_t class_of(Operand value) const { return class_of_[static_cast<Value>(value)]; }

  void form_classes() {
    const size_t num_values = draft_.value_types.size();
    class_of_ = viewed_;
    for (uint32_t& origin : class_of_) {
      if (origin < draft_.num_arguments || origin == Draft::kConstant) origin = kOutside;
    }
    classes_.resize(num_values);
    for (const Step& step : draft_.steps) {
      const bool goes_on = is_call_in_loop(step);
      for (size_t i = 0; i < step.operands.size(); ++i) {
        const Operand operand = step.operands[i];
        if (operand < 0 || class_of(operand) == kOutside) continue;
        // A tail call gives the arena back before the function that it calls has read anything.
        const bool is_condition = step.opcode == Opcode::CallEither && i == 0;
        if (step.tail ? is_condition : !retained_.keeps_operand(draft_, step, i)) continue;
        Class& members = classes_[class_of(operand)];
        (goes_on ? members.is_carried : members.escapes) = true;
      }
    }
    for (Value v = 0; v < num_values; ++v) {
      if (class_of_[v] == kOutside) continue;
      Class& members = classes_[class_of_[v]];
      members.last_read = std::max(members.last_read, last_read_[v]);
      if (const Value slice = class_of_[v]; is_slice(slice)) {
        Class& whole = classes_[plan_.slices[slice].whole];
        whole.last_read = std::max(whole.last_read, last_read_[v]);
      }
    }
  }

  // Whether the step leaves this function for the next part of a loop, an iteration of which is tail calls back to it.
  bool is_call_in_loop(const Step& step) const {
    if (!step.tail || !calls_.is_recursive(draft_.graph)) return false;
    return std::ranges::any_of(analysis::known_callees(*step.node), [&](const ir::Graph* callee) {
      return calls_.component(callee) == calls_.component(draft_.graph);
    });
  }

  // Gives value v, which step s writes, places in the loop's frame if it can have some. A size that an argument tells may
  // be another one in each iteration: such a value lies in a block.
  void carry(uint32_t s, Value v) {
    if (class_of_[v] != v || !classes_[v].is_carried || classes_[v].escapes) return;
    const std::optional<Dim> bytes = bytes_of(dims_, draft_.value_types[v]);
    if (!bytes) return;
    runtime::SizeExpression size = symbols_.lower(*bytes);
    if (!symbols_.is_same_in_all_calls(size)) return;
    const bool takes_over = v == draft_.steps[s].first_result && !plan_.reusable[s].empty();
    plan_.carried_of[v] = static_cast<uint32_t>(plan_.carried.size());
    plan_.carried.push_back({std::move(size), takes_over ? 1u : 2u});
  }

  bool is_slice(Value v) const { return !plan_.slices.empty() && plan_.slices[v].whole != Slice::kNone; }

  bool reads_slice_of(const Step& step, Value whole) const {
    return std::ranges::any_of(step.operands, [&](Operand operand) {
      const uint32_t read = operand >= 0 ? class_of(operand) : kOutside;
      return read != kOutside && is_slice(read) && plan_.slices[read].whole == whole;
    });
  }

  uint32_t buffer_of_whole(uint32_t s, Value whole) {
    uint32_t& buffer = plan_.buffer_of[whole];
    if (buffer == Function::kNoBuffer) {
      Class& members = classes_[whole];
      members.bytes = bytes_of(dims_, draft_.value_types[whole]);
      buffer = static_cast<uint32_t>(plan_.buffers.size());
      plan_.buffers.push_back({s, members.last_read, symbols_.lower(*members.bytes)});
    }
    return buffer;
  }

  // Gives value v, which step s writes and which is no view, a buffer if it can have one.
  void place(uint32_t s, Value v) {
    Class& members = classes_[v];
    if (members.escapes || members.is_carried || draft_.steps[s].node->op().in_file) return;
    members.bytes = bytes_of(dims_, draft_.value_types[v]);
    if (!members.bytes) return;
    runtime::SizeExpression bytes = symbols_.lower(*members.bytes);
    if (bytes.is_unknown()) return;
    if (v == draft_.steps[s].first_result) {
      if (std::optional<uint32_t> buffer = buffer_to_take_over(s, *members.bytes)) {
        plan_.buffer_of[v] = *buffer;
        plan_.buffers[*buffer].last = members.last_read;
        return;
      }
    }
    plan_.buffer_of[v] = static_cast<uint32_t>(plan_.buffers.size());
    plan_.buffers.push_back({s, members.last_read, std::move(bytes)});
  }

  std::optional<uint32_t> buffer_to_take_over(uint32_t s, Dim bytes) const {
    const Step& step = draft_.steps[s];
    for (int i : in_place_operands(step)) {
      if (!may_overwrite(step, static_cast<size_t>(i), viewed_)) continue;
      uint32_t input = class_of(step.operands[i]);
      if (input == kOutside || plan_.buffer_of[input] >= Function::kSharesInput || is_slice(input) || reads_slice_of(step, input)) continue;
      if (classes_[input].last_read != s || !provably_equal(*classes_[input].bytes, bytes)) continue;
      return plan_.buffer_of[input];
    }
    return std::nullopt;
  }

  void find_reusable(uint32_t s) {
    const Step& step = draft_.steps[s];
    for (int i : in_place_operands(step)) {
      if (!may_overwrite(step, static_cast<size_t>(i), viewed_)) continue;
      const uint32_t input = class_of(step.operands[i]);
      if (input != kOutside && plan_.buffer_of[input] != Function::kNoBuffer)
        continue;  // the arena is nobody's to give away
      if (last_read_[static_cast<Value>(step.operands[i])] == s) plan_.reusable[s].push_back(static_cast<uint8_t>(i));
    }
  }

  void find_written_results() {
    const Step& last = draft_.steps.back();
    if (last.opcode != Opcode::Return) return;
    std::vector<bool> is_written_by_kernel(draft_.value_types.size());
    for (const Step& step : draft_.steps) {
      if (step.opcode != Opcode::Kernel) continue;
      std::fill_n(is_written_by_kernel.begin() + step.first_result, step.num_results, true);
    }
    for (Operand result : last.operands) {
      const uint32_t origin = result >= 0 ? class_of(result) : kOutside;
      const bool is_written = origin != kOutside && is_written_by_kernel[origin];
      plan_.written_results.push_back(is_written ? origin : MemoryPlan::kNoValue);
      if (is_written) is_written_by_kernel[origin] = false;  // a second result is a copy
    }
  }

  const Draft& draft_;
  FunctionSymbols& symbols_;
  const analysis::CallOrder& calls_;
  const RetainedArguments& retained_;
  const Donation& donation_;
  std::vector<Value> viewed_;
  ir::DimTable& dims_;
  std::vector<uint32_t> last_read_;  // by value
  MemoryPlan plan_;
  std::vector<uint32_t> class_of_;  // by value: the value that is the class's origin, or kOutside
  std::vector<Class> classes_;      // by origin
};

// Whether the slices bring buffers that no small arena is found for, although there might be one. Where sizes are symbolic it is not asked.
bool is_harder_to_place(const MemoryPlan& sliced, const MemoryPlan& plain, const Draft& draft, const runtime::Program& program) {
  constexpr size_t kMostBuffers = 1024;  // that layouts are made for here
  constexpr double kTolerated = 1.01;
  auto layout_of = [&](const MemoryPlan& plan) {
    std::vector<runtime::Buffer> buffers = plan.buffers;
    for (uint32_t s = 0; s < draft.steps.size(); ++s) {
      if (draft.steps[s].opcode != Opcode::Kernel) continue;
      buffers.push_back({s, s, runtime::SizeExpression(static_cast<int64_t>(program.kernels[draft.steps[s].target]->workspace_bytes))});
    }
    return runtime::make_layout(buffers, {});
  };
  auto is_known = [](const runtime::Buffer& buffer) { return buffer.bytes.is_constant(); };
  if (plain.buffers.size() > kMostBuffers || !std::ranges::all_of(plain.buffers, is_known)) return false;
  const runtime::MemoryLayout layout = layout_of(sliced);
  if (static_cast<double>(layout.bytes) <= kTolerated * static_cast<double>(layout.lower_bound)) return false;
  return layout_of(plain).bytes <= layout.bytes;
}

}  // namespace

MemoryPlan plan_memory(const Draft& draft, FunctionSymbols& symbols, const analysis::CallOrder& calls,
                       const RetainedArguments& retained, const Donation& donation, const runtime::Program& program) {
  auto with = [&](std::vector<Slice> slices) { return MemoryPlanner(draft, symbols, calls, retained, donation, std::move(slices)).run(); };
  MemoryPlan plan = with({});
  std::vector<Slice> slices = choose_slices(draft, plan, program);
  if (slices.empty()) return plan;
  MemoryPlan sliced = with(std::move(slices));
  return is_harder_to_place(sliced, plan, draft, program) ? std::move(plan) : std::move(sliced);
}

}  // namespace anfora::plan

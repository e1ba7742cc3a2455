#include "plan/donation.h"

#include <algorithm>
#include <optional>

#include "analysis/group_space.h"
#include "analysis/group_view.h"
#include "plan/retention.h"
#include "plan/sizes.h"

namespace anfora::plan {

using ir::Dim;

bool may_overwrite(const Step& step, size_t i, const std::vector<Value>& viewed) {
  if (i >= step.operands.size() || step.operands[i] < 0) return false;
  const ir::FusionKind fusion = step.node->op().fusion;
  const bool is_pointwise = fusion == ir::FusionKind::Elementwise || fusion == ir::FusionKind::Broadcast;
  const Operand operand = step.operands[i];
  for (size_t j = 0; j < step.operands.size(); ++j) {
    const Operand other = step.operands[j];
    if (j == i || other < 0) continue;
    const Value memory = viewed[static_cast<Value>(operand)];
    const bool is_same_memory = memory != Draft::kConstant && viewed[static_cast<Value>(other)] == memory;
    if (other == operand ? !is_pointwise : is_same_memory) return false;
  }
  return true;
}

std::vector<int> in_place_operands(const Step& step) {
  const ir::Graph* function = analysis::function_of_group(*step.node);
  if (!function) return step.node->op().in_place;
  std::vector<int> operands;
  const ir::Type* type = step.node->num_outputs() == 1 ? step.node->type() : step.node->type()->element(0);
  for (size_t i = 1; i < step.node->num_inputs(); ++i) {
    const ir::Parameter& parameter = *function->parameters()[i - 1];
    if (&analysis::read_of(parameter) != &parameter) continue;  // a part of it, in another order
    const ir::Type* other = step.node->input(i)->type();
    if (other && other->is_tensor() && other->dtype() == type->dtype() && analysis::is_same_shape(other, type))
      operands.push_back(static_cast<int>(i) - 1);
  }
  return operands;
}

namespace {

class DonationPlanner {
 public:
  DonationPlanner(const Draft& draft, const RetainedArguments& retained)
      : draft_(draft),
        retained_(retained),
        dims_(draft.graph->module().context().dims()),
        viewed_(draft.viewed()),
        writer_(draft.value_types.size(), kNoStep),
        last_read_(draft.value_types.size(), -1),
        is_kept_(draft.value_types.size()) {}

  Donation run() {
    donation_.memory_of.assign(draft_.value_types.size(), Donation::kNone);
    find_donors();
    if (donors_.empty() || draft_.steps.empty()) return std::move(donation_);
    if (draft_.steps.back().opcode != Opcode::Return) {
      match_results_of_tail_call();
      return std::move(donation_);
    }
    read_steps();
    const std::vector<Operand>& results = draft_.steps.back().operands;
    donation_.result_of.assign(results.size(), Donation::kNone);
    match_arguments(results);
    for (bool is_certain : {true, false}) {
      for (size_t r = 0; r < results.size(); ++r) match_origin(r, results[r], is_certain);
    }
    for (size_t r = 0; r < results.size(); ++r) match_any(r, results[r]);
    for (size_t r = 0; r < results.size(); ++r) match_result_of_call(r, results[r]);
    return std::move(donation_);
  }

 private:
  static constexpr uint32_t kNoStep = UINT32_MAX;
  // A chain of operators from an argument to a result; longer ones are not looked for.
  static constexpr size_t kLongestChain = 16;

  void find_donors() {
    for (const ir::Parameter* parameter : draft_.graph->parameters()) {
      if (parameter->is_donated() && !draft_.graph->module().default_of(parameter) &&
          bytes_of(dims_, parameter->type()))
        donors_.push_back(static_cast<Value>(parameter->index()));
    }
  }

  void read_steps() {
    for (uint32_t s = 0; s < draft_.steps.size(); ++s) {
      const Step& step = draft_.steps[s];
      const bool returns = step.opcode == Opcode::Return;
      for (size_t i = 0; i < step.operands.size(); ++i) {
        if (step.operands[i] < 0) continue;
        const Value memory = viewed_[static_cast<Value>(step.operands[i])];
        if (memory == Draft::kConstant) continue;
        last_read_[memory] = s;
        if (!returns && retained_.keeps_operand(draft_, step, i)) is_kept_[memory] = true;
      }
      if (step.opcode != Opcode::Kernel) continue;
      for (Value v = step.first_result; v < step.first_result + step.num_results; ++v) {
        if (viewed_[v] == v) writer_[v] = s;
      }
    }
  }

  // An argument that is returned as it is.
  void match_arguments(const std::vector<Operand>& results) {
    std::vector<size_t> count(draft_.num_arguments);
    auto argument_of = [&](Operand result) {
      const Value memory = result < 0 ? Draft::kConstant : viewed_[static_cast<Value>(result)];
      return memory < draft_.num_arguments ? memory : Donation::kNone;
    };
    for (Operand result : results) {
      if (argument_of(result) != Donation::kNone) ++count[argument_of(result)];
    }
    for (size_t r = 0; r < results.size(); ++r) {
      const Value argument = argument_of(results[r]);
      if (argument == Donation::kNone || std::erase(donors_, argument) == 0) continue;
      if (count[argument] == 1 && !is_kept_[argument]) donation_.result_of[r] = argument;
    }
  }

  // The value of a result that could lie in an argument's memory: that nothing else is yet.
  std::optional<Value> free_origin(size_t r, Operand result) const {
    if (result < 0 || donation_.result_of[r] != Donation::kNone) return std::nullopt;
    const Value origin = viewed_[static_cast<Value>(result)];
    if (origin == Draft::kConstant || writer_[origin] == kNoStep || is_kept_[origin]) return std::nullopt;
    if (donation_.memory_of[origin] != Donation::kNone) return std::nullopt;
    return origin;
  }

  // Not certain: as far as is known before the run, in which an output that does not fit has memory of its own.
  bool has_as_many_bytes(Value a, Value b, bool is_certain) const {
    const std::optional<Dim> x = bytes_of(dims_, draft_.value_types[a]), y = bytes_of(dims_, draft_.value_types[b]);
    if (!x || !y) return false;
    return provably_equal(*x, *y) || (!is_certain && !(x->is_constant() && y->is_constant()));
  }

  // The operands that the step which writes `value` may overwrite with it.
  std::vector<Value> overwritten(Value value, bool is_certain) const {
    std::vector<Value> operands;
    const Step& step = draft_.steps[writer_[value]];
    if (step.first_result != value) return operands;
    for (int i : in_place_operands(step)) {
      if (!may_overwrite(step, static_cast<size_t>(i), viewed_)) continue;
      const Value memory = viewed_[static_cast<Value>(step.operands[static_cast<size_t>(i)])];
      if (memory != Draft::kConstant && last_read_[memory] <= writer_[value] &&
          has_as_many_bytes(memory, value, is_certain))
        operands.push_back(memory);
    }
    return operands;
  }

  // The donor that `value` comes of by operators in-place, with the values between.
  std::optional<Value> donor_of(Value value, bool is_certain, std::vector<Value>& chain) const {
    if (chain.size() == kLongestChain) return std::nullopt;
    chain.push_back(value);
    for (Value operand : overwritten(value, is_certain)) {
      if (operand < draft_.num_arguments) {
        if (std::ranges::count(donors_, operand) && !is_kept_[operand]) return operand;
      } else if (writer_[operand] != kNoStep && !is_kept_[operand] && donation_.memory_of[operand] == Donation::kNone) {
        if (auto donor = donor_of(operand, is_certain, chain)) return donor;
      }
    }
    chain.pop_back();
    return std::nullopt;
  }

  void match_origin(size_t r, Operand result, bool is_certain) {
    const std::optional<Value> origin = free_origin(r, result);
    if (!origin) return;
    std::vector<Value> chain;
    const std::optional<Value> donor = donor_of(*origin, is_certain, chain);
    if (donor) take(r, *donor, chain);
  }

  void match_any(size_t r, Operand result) {
    const std::optional<Value> origin = free_origin(r, result);
    if (!origin) return;
    auto donor = std::ranges::find_if(donors_, [&](Value d) {
      return !is_kept_[d] && has_as_many_bytes(d, *origin, true) && last_read_[d] < writer_[*origin];
    });
    if (donor != donors_.end()) take(r, *donor, {*origin});
  }

  // What a function returns, a loop for instance, is moved to the argument's memory at the end of the run: whoever reads that has done so.
  void match_moved(size_t r, const ir::Type* type) {
    const std::optional<Dim> bytes = bytes_of(dims_, type);
    auto has_as_many = [&](Value donor) { return provably_equal(*bytes, *bytes_of(dims_, draft_.value_types[donor])); };
    const auto donor = bytes ? std::ranges::find_if(donors_, has_as_many) : donors_.end();
    if (donor != donors_.end()) take(r, *donor, {});
  }

  void match_result_of_call(size_t r, Operand result) {
    if (result < 0 || donation_.result_of[r] != Donation::kNone) return;
    const Value origin = viewed_[static_cast<Value>(result)];
    if (origin == Draft::kConstant || origin < draft_.num_arguments || writer_[origin] != kNoStep) return;
    match_moved(r, draft_.value_types[origin]);
  }

  void match_results_of_tail_call() {
    const ir::Type* type = draft_.graph->result()->type();
    const bool has_several = type->is_tuple();
    donation_.result_of.assign(has_several ? type->elements().size() : 1, Donation::kNone);
    for (size_t r = 0; r < donation_.result_of.size(); ++r) match_moved(r, has_several ? type->element(r) : type);
  }

  void take(size_t r, Value donor, const std::vector<Value>& values) {
    std::erase(donors_, donor);
    donation_.result_of[r] = donor;
    for (Value v : values) donation_.memory_of[v] = donor;
  }

  const Draft& draft_;
  const RetainedArguments& retained_;
  ir::DimTable& dims_;
  std::vector<Value> viewed_;
  std::vector<uint32_t> writer_;    // by value: the kernel's step; kNoStep for what is no kernel's own memory
  std::vector<int64_t> last_read_;  // by value, views on it included; −1: nobody does
  std::vector<bool> is_kept_;       // by value: found elsewhere after a step that reads it
  std::vector<Value> donors_;       // that are free
  Donation donation_;
};

}  // namespace

Donation plan_donation(const Draft& draft, const RetainedArguments& retained) {
  return DonationPlanner(draft, retained).run();
}

}  // namespace anfora::plan

#include "plan/slices.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

namespace anfora::plan {
namespace {

using ir::Type;

// Steps from the writing of a part to the Concat.
constexpr uint32_t kFarthest = 512, kFarthestOfSymbolic = 4;  // the latter for each operand

// The elements of the axes from `axis` on, where all are known.
std::optional<int64_t> elements_from(const Type& type, size_t axis) {
  int64_t elements = 1;
  for (size_t i = axis; i < type.dims().size(); ++i) {
    if (!type.dims()[i].is_constant()) return std::nullopt;
    elements *= type.dims()[i].constant();
  }
  return elements;
}

class SliceChoice {
 public:
  SliceChoice(const Draft& draft, const MemoryPlan& plan, const runtime::Program& program)
      : draft_(draft), plan_(plan), program_(program), viewed_(draft.viewed()), lifetimes_(draft.lifetimes()), readings_(draft.value_types.size()) {
    for (const Step& step : draft.steps) {
      for (Operand operand : step.operands) {
        if (operand >= 0) ++readings_[static_cast<Value>(operand)];
      }
    }
  }

  std::vector<Slice> run() {
    for (uint32_t s = 0; s < draft_.steps.size(); ++s) {
      if (is_planned_concat(s)) choose_parts(s);
    }
    return std::move(slices_);
  }

 private:
  struct Part {
    Value value;
    Slice slice;
  };

  // One whose result has a buffer, and no other's.
  bool is_planned_concat(uint32_t s) const {
    const Step& step = draft_.steps[s];
    if (step.opcode != Opcode::Kernel || program_.kernels[step.target]->op != "Concat" || !draft_.is_tensor(step.first_result)) return false;
    const uint32_t buffer = plan_.buffer_of[step.first_result];
    return buffer < plan_.buffers.size() && plan_.buffers[buffer].first == s;
  }

  // Whether the value is what a kernel writes to the arena, for this reader alone.
  bool is_written_for(Value v, uint32_t s) const {
    return v >= draft_.num_arguments && viewed_[v] == v && readings_[v] == 1 && lifetimes_.last_read[v] == s && plan_.buffer_of[v] < plan_.buffers.size();
  }
  bool writes_rows_apart(Value v) const {
    const Step& step = draft_.steps[lifetimes_.written[v]];
    return v == step.first_result && program_.kernels[step.target]->writes_rows_apart();
  }

  std::vector<Part> possible_parts(uint32_t s) const {
    const Step& step = draft_.steps[s];
    const Type& whole = *draft_.value_types[step.first_result];
    if (!whole.has_rank() || whole.dtype() == DType::String) return {};
    const int64_t rank = std::ssize(whole.dims()), given = program_.kernels[step.target]->attributes.get_int("axis", 0);
    const auto axis = static_cast<size_t>(given < 0 ? given + rank : given);
    const auto element = static_cast<int64_t>(element_bytes(whole.dtype()));
    const std::optional<int64_t> distance = elements_from(whole, axis);
    if (!distance || *distance == 0) return {};
    const bool has_one_row = std::ranges::all_of(whole.dims().first(axis), [](ir::Dim dim) { return dim.is_constant() && dim.constant() == 1; });
    const bool is_last = axis + 1 == whole.dims().size();
    std::vector<Part> parts;
    int64_t offset = 0;
    for (const Operand operand : step.operands) {
      const Type* type = operand >= 0 ? draft_.value_types[static_cast<Value>(operand)] : nullptr;
      const std::optional<int64_t> row = type && type->is_tensor() && type->has_rank() ? elements_from(*type, axis) : std::nullopt;
      if (operand >= 0 && !row) return parts;  // what follows begins nobody knows where
      if (operand < 0) {
        const Datum& constant = program_.constants[static_cast<size_t>(-1 - operand)];
        const Shape& shape = constant.tensor().shape();
        offset += std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end(), int64_t{1}, std::multiplies<>());
        continue;
      }
      const auto v = static_cast<Value>(operand);
      const bool fits = is_written_for(v, s) && lifetimes_.written[v] + kFarthest >= s && (has_one_row || (is_last && writes_rows_apart(v)));
      if (fits && *row > 0) parts.push_back({v, {step.first_result, offset * element, *row * element, *distance * element}});
      offset += *row;
    }
    return parts;
  }

  void choose_parts(uint32_t s) {
    std::vector<Part> parts = possible_parts(s);
    // The latest first: the whole is needed from the earliest one's writing on.
    std::ranges::sort(parts, [&](const Part& a, const Part& b) { return lifetimes_.written[a.value] > lifetimes_.written[b.value]; });
    uint32_t begin = s;
    for (const Part& part : parts) {
      const uint32_t written = lifetimes_.written[part.value];
      if (!may_begin(s, part, std::min(begin, written), begin)) continue;
      begin = std::min(begin, written);
      if (slices_.empty()) slices_.resize(draft_.value_types.size());
      slices_[part.value] = part.slice;
    }
  }

  // Whether the whole may have its memory from `from` on, where it had it from `begin` on, when the part has none of its own.
  bool may_begin(uint32_t s, const Part& part, uint32_t from, uint32_t begin) {
    const uint32_t whole = plan_.buffer_of[part.slice.whole], own = plan_.buffer_of[part.value];
    if (alive_.empty()) measure();
    if (!is_known_) return s - from <= kFarthestOfSymbolic * draft_.steps[s].operands.size();
    // What has taken over an operand's buffer leaves it with that one.
    const uint32_t written = lifetimes_.written[part.value];
    const uint32_t freed = plan_.buffers[own].first == written ? written : written + 1;
    auto change = [&](int64_t sign) {
      for (uint32_t t = from; t < begin; ++t) alive_[t] += sign * bytes_of(whole);
      for (uint32_t t = freed; t <= s; ++t) alive_[t] -= sign * bytes_of(own);
    };
    change(1);
    const auto range = std::span(alive_).subspan(from, s + 1 - from);
    if (*std::ranges::max_element(range) <= most_) return true;
    change(-1);
    return false;
  }

  int64_t bytes_of(uint32_t buffer) const { return plan_.buffers[buffer].bytes.evaluate({}).value_or(0); }

  // Bytes by step, as the plan has them; unless some depend on symbols.
  void measure() {
    alive_.assign(draft_.steps.size() + 1, 0);
    is_known_ = std::ranges::all_of(plan_.buffers, [](const runtime::Buffer& buffer) { return buffer.bytes.is_constant(); });
    if (!is_known_) return;
    for (uint32_t i = 0; i < plan_.buffers.size(); ++i) {
      alive_[plan_.buffers[i].first] += bytes_of(i);
      alive_[plan_.buffers[i].last + 1] -= bytes_of(i);
    }
    std::partial_sum(alive_.begin(), alive_.end(), alive_.begin());
    for (uint32_t s = 0; s < draft_.steps.size(); ++s) {
      const Step& step = draft_.steps[s];
      if (step.opcode == Opcode::Kernel) alive_[s] += static_cast<int64_t>(program_.kernels[step.target]->workspace_bytes);
    }
    most_ = *std::ranges::max_element(alive_);
  }

  const Draft& draft_;
  const MemoryPlan& plan_;
  const runtime::Program& program_;
  std::vector<Value> viewed_;
  Draft::Lifetimes lifetimes_;
  std::vector<uint32_t> readings_;  // by value
  std::vector<Slice> slices_;
  std::vector<int64_t> alive_;  // bytes by step
  int64_t most_ = 0;
  bool is_known_ = false;  // alive_
};

}  // namespace

std::vector<Slice> choose_slices(const Draft& draft, const MemoryPlan& plan, const runtime::Program& program) {
  return SliceChoice(draft, plan, program).run();
}

}  // namespace anfora::plan

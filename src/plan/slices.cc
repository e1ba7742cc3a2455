#include "plan/slices.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

namespace anfora::plan {
namespace {

using ir::Type;

// Steps by which the memory of a whole may be needed longer; of symbolic sizes, for each operand.
constexpr uint32_t kFarthest = 512, kFarthestOfSymbolic = 4;

// The elements of the axes from `axis` on, where all are known.
std::optional<int64_t> elements_from(const Type& type, size_t axis) {
  int64_t elements = 1;
  for (size_t i = axis; i < type.dims().size(); ++i) {
    if (!type.dims()[i].is_constant()) return std::nullopt;
    elements *= type.dims()[i].constant();
  }
  return elements;
}

bool has_one_row(const Type& type, size_t axis) {
  return std::ranges::all_of(type.dims().first(axis), [](ir::Dim dim) { return dim.is_constant() && dim.constant() == 1; });
}

// An axis that may count from the end.
std::optional<size_t> axis_of(const Type& type, std::optional<int64_t> given) {
  const int64_t rank = std::ssize(type.dims());
  if (!given || *given < -rank || *given >= rank) return std::nullopt;
  return static_cast<size_t>(*given < 0 ? *given + rank : *given);
}

class SliceChoice {
 public:
  SliceChoice(const Draft& draft, const MemoryPlan& plan, const runtime::Program& program)
      : draft_(draft), plan_(plan), program_(program), viewed_(draft.viewed()), lifetimes_(draft.lifetimes()), last_of_class_(lifetimes_.last_read) {
    for (const runtime::Buffer& buffer : plan.buffers) last_.push_back(buffer.last);
    for (Value v = 0; v < viewed_.size(); ++v) {
      if (viewed_[v] != Draft::kConstant) last_of_class_[viewed_[v]] = std::max(last_of_class_[viewed_[v]], lifetimes_.last_read[v]);
    }
    list_readings();
    measure();
  }

  std::vector<Slice> run() {
    slices_.resize(draft_.value_types.size());
    for (uint32_t s = 0; s < draft_.steps.size(); ++s) {
      if (is_concat(draft_.steps[s]) && is_planned(s, draft_.steps[s].first_result)) choose_parts(s);
    }
    for (uint32_t s = 0; s < draft_.steps.size(); ++s) {
      choose_slices(s);
    }
    return std::ranges::any_of(slices_, is_slice) ? std::move(slices_) : std::vector<Slice>();
  }

  // Whether there may be any.
  static bool has_candidates(const Draft& draft, const runtime::Program& program) {
    return std::ranges::any_of(draft.steps, [&](const Step& step) {
      return step.opcode == Opcode::Kernel && (program.kernels[step.target]->op == "Concat" || (step.node && step.node->op().takes_elements));
    });
  }

 private:
  struct Part {
    Value value;
    Slice slice;
  };
  struct Reading {
    uint32_t step, operand;
  };

  static bool is_slice(const Slice& slice) { return slice.whole != Slice::kNone; }
  const runtime::Kernel& kernel_of(const Step& step) const { return *program_.kernels[step.target]; }
  const runtime::Kernel& kernel_of(uint32_t s) const { return kernel_of(draft_.steps[s]); }
  bool has_buffer(Value v) const { return plan_.buffer_of[v] < plan_.buffers.size(); }
  const Tensor& constant(Operand operand) const { return program_.constants[static_cast<size_t>(-1 - operand)].tensor(); }

  void list_readings() {
    first_reading_.assign(draft_.value_types.size() + 1, 0);
    auto for_each = [&](auto&& f) {
      for (uint32_t s = 0; s < draft_.steps.size(); ++s) {
        for (uint32_t i = 0; i < draft_.steps[s].operands.size(); ++i) {
          if (draft_.steps[s].operands[i] >= 0) f(static_cast<Value>(draft_.steps[s].operands[i]), Reading{s, i});
        }
      }
    };
    for_each([&](Value v, Reading) { ++first_reading_[v + 1]; });
    std::partial_sum(first_reading_.begin(), first_reading_.end(), first_reading_.begin());
    readings_.resize(first_reading_.back());
    std::vector<uint32_t> next = first_reading_;
    for_each([&](Value v, Reading reading) { readings_[next[v]++] = reading; });
  }
  std::span<const Reading> readings_of(Value v) const { return std::span(readings_).subspan(first_reading_[v], first_reading_[v + 1] - first_reading_[v]); }

  // Whether a kernel reads it that can do with rows that lie apart, unless there is one.
  bool takes_part(const Reading& reading, bool one_row) const {
    const Step& step = draft_.steps[reading.step];
    return step.opcode == Opcode::Kernel && !draft_.is_view(step) && (one_row || kernel_of(reading.step).reads_rows_apart(reading.operand));
  }

  // Whether a result of a step has a buffer, and no other's.
  bool is_planned(uint32_t s, Value v) const {
    if (!draft_.is_tensor(v) || !has_buffer(v) || plan_.buffers[plan_.buffer_of[v]].first != s) return false;
    const Type& type = *draft_.value_types[v];
    return type.has_rank() && type.dtype() != DType::String;
  }
  bool is_concat(const Step& step) const { return step.opcode == Opcode::Kernel && kernel_of(step).op == "Concat"; }

  // Whether the value is what a kernel writes to the arena, this reader its last one, and the others can do with rows that lie apart.
  bool is_written_for(Value v, uint32_t s, bool one_row) const {
    if (v < draft_.num_arguments || viewed_[v] != v || lifetimes_.last_read[v] != s || !has_buffer(v)) return false;
    const auto readings = readings_of(v);
    return std::ranges::count(readings, s, &Reading::step) == 1 && std::ranges::all_of(readings, [&](const Reading& reading) {
             return reading.step == s || takes_part(reading, one_row);
           });
  }
  bool writes_rows_apart(Value v) const {
    const uint32_t written = lifetimes_.written[v];
    return kernel_of(written).writes_rows_apart(v - draft_.steps[written].first_result);
  }

  std::vector<Part> possible_parts(uint32_t s) const {
    const Step& step = draft_.steps[s];
    const Type& whole = *draft_.value_types[step.first_result];
    const std::optional<size_t> given = axis_of(whole, kernel_of(s).attributes.get_int("axis", 0));
    if (!given) return {};
    const size_t axis = *given;
    const auto element = static_cast<int64_t>(element_bytes(whole.dtype()));
    const std::optional<int64_t> distance = elements_from(whole, axis);
    if (!distance || *distance == 0) return {};
    const bool one_row = has_one_row(whole, axis), is_last = axis + 1 == whole.dims().size();
    std::vector<Part> parts;
    int64_t offset = 0;
    for (const Operand operand : step.operands) {
      std::optional<int64_t> row;
      if (operand < 0) {
        const Shape& shape = constant(operand).shape();
        row = std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end(), int64_t{1}, std::multiplies<>());
      } else if (const Type* type = draft_.value_types[static_cast<Value>(operand)]; type && type->is_tensor() && type->has_rank()) {
        row = elements_from(*type, axis);
      }
      if (!row) return parts;  // what follows begins nobody knows where
      const auto v = static_cast<Value>(operand);
      const bool fits = operand >= 0 && is_written_for(v, s, one_row) && lifetimes_.written[v] + kFarthest >= s && (one_row || (is_last && writes_rows_apart(v)));
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
      const uint32_t written = lifetimes_.written[part.value], from = std::min(begin, written), own = plan_.buffer_of[part.value];
      if (!is_known_ && s - from > kFarthestOfSymbolic * draft_.steps[s].operands.size()) continue;
      // What has taken over an operand's buffer leaves it with that one.
      const uint32_t freed = plan_.buffers[own].first == written ? written : written + 1;
      if (!changes({from, begin, plan_.buffer_of[part.slice.whole]}, {freed, s + 1, own})) continue;
      begin = from;
      slices_[part.value] = part.slice;
    }
  }

  // What is taken of an operand along one axis, element by element; of all others everything is.
  struct Taken {
    size_t axis;
    int64_t begin, size;
  };

  // The only element of an integer constant.
  std::optional<int64_t> number(const Step& step, size_t i) const {
    if (i >= step.operands.size() || step.operands[i] >= 0) return std::nullopt;
    const Datum& datum = program_.constants[static_cast<size_t>(-1 - step.operands[i])];
    if (!datum.is_tensor() || datum.tensor().size() != 1) return std::nullopt;
    const Tensor& tensor = datum.tensor();
    return tensor.dtype() == DType::I64 ? tensor.data<int64_t>()[0] : tensor.dtype() == DType::I32 ? std::optional<int64_t>(tensor.data<int32_t>()[0]) : std::nullopt;
  }

  // By a Slice of one axis in steps of one.
  std::optional<Taken> taken_by_slice(const Step& step, const Type& from, const Type& to) const {
    constexpr size_t kStarts = 1, kAxes = 3, kSteps = 4;
    const std::optional<int64_t> start = number(step, kStarts);
    const std::optional<size_t> axis = axis_of(from, number(step, kAxes));
    if (!start || !axis || from.dims().size() != to.dims().size() || (step.operands.size() > kSteps && number(step, kSteps) != 1)) return std::nullopt;
    const std::optional<int64_t> size = from.dims()[*axis].as_constant(), taken = to.dims()[*axis].as_constant();
    if (!size || !taken) return std::nullopt;
    return Taken{*axis, std::clamp<int64_t>(*start < 0 ? *start + *size : *start, 0, *size), *taken};
  }

  // By a Gather of one place.
  std::optional<Taken> taken_by_gather(const Step& step, const Type& from) const {
    const std::optional<size_t> axis = axis_of(from, kernel_of(step).attributes.get_int("axis", 0));
    const std::optional<int64_t> index = number(step, 1), size = axis ? from.dims()[*axis].as_constant() : std::nullopt;
    if (!index || !size || *index < -*size || *index >= *size) return std::nullopt;
    return Taken{*axis, *index < 0 ? *index + *size : *index, 1};
  }

  // By a Split, as the result that begins there.
  std::optional<Taken> taken_by_split(const Step& step, const Type& from, const Type& to, int64_t begin) const {
    const std::optional<size_t> axis = axis_of(from, kernel_of(step).attributes.get_int("axis", 0));
    const std::optional<int64_t> size = axis && to.dims().size() == from.dims().size() ? to.dims()[*axis].as_constant() : std::nullopt;
    return size ? std::optional(Taken{*axis, begin, *size}) : std::nullopt;
  }

  // What results of the step take, from the first on, until one is not known.
  void choose_slices(uint32_t s) {
    const Step& step = draft_.steps[s];
    if (step.opcode != Opcode::Kernel || kernel_of(step).prepared || step.operands.empty() || step.operands[0] < 0) return;
    const std::string& op = kernel_of(step).op;
    const Type* from = draft_.value_types[static_cast<Value>(step.operands[0])];
    if (!from || !from->is_tensor() || !from->has_rank()) return;
    int64_t begin = 0;
    for (Value v = step.first_result; v < step.first_result + step.num_results; ++v) {
      const Type* to = draft_.value_types[v];
      std::optional<Taken> taken;
      if (to && to->is_tensor() && to->has_rank()) {
        if (op == "Slice") taken = taken_by_slice(step, *from, *to);
        if (op == "Split") taken = taken_by_split(step, *from, *to, begin);
        if (op == "Gather") taken = taken_by_gather(step, *from);
      }
      if (!taken) return;
      begin += taken->size;
      choose_slice(s, v, *taken);
    }
  }

  void choose_slice(uint32_t s, Value v, const Taken& taken) {
    const Step& step = draft_.steps[s];
    if (!is_planned(s, v) || is_slice(slices_[v])) return;
    const auto x = static_cast<Value>(step.operands[0]);
    const Value root = viewed_[x];
    if (root == Draft::kConstant || root < draft_.num_arguments || is_slice(slices_[root]) || !has_buffer(root)) return;
    const Type* from = draft_.value_types[x];
    const std::optional<int64_t> behind = elements_from(*from, taken.axis + 1), size = from->dims()[taken.axis].as_constant();
    if (!behind || !size || *behind == 0 || taken.size == 0 || taken.size == *size) return;
    // What lies side by side is read by any kernel, and may be viewed otherwise.
    const bool is_dense = has_one_row(*from, taken.axis), has_rows = taken.axis + 1 == from->dims().size() && root == x;
    const runtime::Kernel& kernel = kernel_of(s);
    if (!is_dense && !(has_rows && kernel.writes_rows_apart(0) && kernel.reads_rows_apart(0))) return;
    auto can_read = [&](const Reading& reading) { return is_dense ? draft_.steps[reading.step].opcode == Opcode::Kernel : takes_part(reading, false); };
    if (!std::ranges::all_of(readings_of(v), can_read)) return;
    const uint32_t whole = plan_.buffer_of[root], own = plan_.buffer_of[v], until = last_of_class_[v];
    // Somebody overwrites x in place, who would need memory of his own.
    if (plan_.buffers[whole].last > last_of_class_[root] && until > last_of_class_[root]) return;
    if (until > last_[whole] && until - last_[whole] > (is_known_ ? kFarthest : kFarthestOfSymbolic)) return;
    const uint32_t freed_until = plan_.buffers[own].last > until ? until : until + 1;
    if (!changes({last_[whole] + 1, until + 1, whole}, {s, freed_until, own})) return;
    last_[whole] = std::max(last_[whole], until);
    const int64_t place = *behind * static_cast<int64_t>(element_bytes(from->dtype()));
    slices_[v] = {root, taken.begin * place, taken.size * place, *size * place};
  }

  // A buffer's bytes in steps [begin, end).
  struct Interval {
    uint32_t begin, end, buffer;
  };
  // Does so where the arena need not grow by that. Of sizes that are not known it is not asked.
  bool changes(const Interval& taken, const Interval& freed) {
    if (!is_known_) return true;
    auto change = [&](int64_t sign) {
      for (uint32_t t = taken.begin; t < taken.end; ++t) alive_[t] += sign * bytes_of(taken.buffer);
      for (uint32_t t = freed.begin; t < freed.end; ++t) alive_[t] -= sign * bytes_of(freed.buffer);
    };
    change(1);
    const auto range = std::span(alive_).subspan(taken.begin, taken.end > taken.begin ? taken.end - taken.begin : 0);
    if (std::ranges::all_of(range, [&](int64_t bytes) { return bytes <= most_; })) return true;
    change(-1);
    return false;
  }

  int64_t bytes_of(uint32_t buffer) const { return plan_.buffers[buffer].bytes.evaluate({}).value_or(0); }

  // Bytes by step, as the plan has them; unless some depend on symbols.
  void measure() {
    is_known_ = std::ranges::all_of(plan_.buffers, [](const runtime::Buffer& buffer) { return buffer.bytes.is_constant(); });
    if (!is_known_) return;
    alive_.assign(draft_.steps.size() + 1, 0);
    for (uint32_t i = 0; i < plan_.buffers.size(); ++i) {
      alive_[plan_.buffers[i].first] += bytes_of(i);
      alive_[plan_.buffers[i].last + 1] -= bytes_of(i);
    }
    std::partial_sum(alive_.begin(), alive_.end(), alive_.begin());
    for (uint32_t s = 0; s < draft_.steps.size(); ++s) {
      if (draft_.steps[s].opcode == Opcode::Kernel) alive_[s] += static_cast<int64_t>(kernel_of(s).workspace_bytes);
    }
    most_ = *std::ranges::max_element(alive_);
  }

  const Draft& draft_;
  const MemoryPlan& plan_;
  const runtime::Program& program_;
  std::vector<Value> viewed_;
  Draft::Lifetimes lifetimes_;
  std::vector<uint32_t> last_of_class_;  // by value: when it or a view on it is read last
  std::vector<uint32_t> last_;           // by buffer: when it is, slices included
  std::vector<uint32_t> first_reading_;  // by value, of readings_
  std::vector<Reading> readings_;
  std::vector<Slice> slices_;
  std::vector<int64_t> alive_;  // bytes by step
  int64_t most_ = 0;
  bool is_known_ = false;  // alive_
};

}  // namespace

std::vector<Slice> choose_slices(const Draft& draft, const MemoryPlan& plan, const runtime::Program& program) {
  if (!SliceChoice::has_candidates(draft, program)) return {};
  return SliceChoice(draft, plan, program).run();
}

}  // namespace anfora::plan

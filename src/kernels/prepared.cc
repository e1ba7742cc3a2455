#include "kernels/prepared.h"

#include <algorithm>

#include "kernels/packed_copies.h"

namespace anfora::kernels {
namespace {

void forget_preparation(KernelData& data) {
  data.implementation.clear();
  data.packed.clear();
  data.workspace_bytes = 0;
}

}  // namespace

bool InputDescription::is_static() const {
  return shape && std::ranges::none_of(*shape, [](int64_t dim) { return dim < 0; });
}

const PackedConstant* find_packed(const KernelData& data, size_t number) {
  const auto found = std::ranges::find(data.packed, number, &PackedConstant::number);
  return found == data.packed.end() ? nullptr : &*found;
}

bool KernelData::is_static() const {
  return std::ranges::all_of(inputs, [](const InputDescription& input) { return !input.present || input.is_static(); });
}

bool KernelData::take_copies(std::initializer_list<size_t> numbers, const std::vector<int64_t>& layout) {
  if (!copies) return false;
  const size_t before = packed.size();
  for (size_t number : numbers) {
    const Tensor* const copy = copies->find(*this, number, layout);
    if (!copy) {
      packed.resize(before);
      return false;
    }
    packed.push_back({number, layout, *copy});
  }
  return true;
}

const InputDescription& KernelData::input(size_t i) const {
  static const InputDescription omitted;
  return i < inputs.size() ? inputs[i] : omitted;
}

void PreparedRun::run(const AttributeSet& attributes, std::span<const Datum* const> inputs, std::span<Datum> outputs) {
  KernelContext context(attributes, inputs, outputs);
  kernel_.run(context, state_.get());
}

void PreparedRegistry::add(std::string_view op, std::string_view implementation, PrepareFunction prepare) {
  add({std::string(op), std::string(implementation), prepare, false});
}

void PreparedRegistry::add_form(std::string_view op, std::string_view implementation, PrepareFunction prepare) {
  add({std::string(op), std::string(implementation), prepare, true});
}

void PreparedRegistry::add(Candidate candidate) {
  auto at = std::ranges::upper_bound(candidates_, candidate.op, {}, &Candidate::op);
  candidates_.insert(at, std::move(candidate));
}

std::unique_ptr<PreparedKernel> PreparedRegistry::prepare(KernelData& data) const {
  for (const Candidate& candidate : std::ranges::equal_range(candidates_, data.op, {}, &Candidate::op)) {
    if (candidate.is_form) continue;
    if (auto kernel = candidate.prepare(data)) {
      if (data.implementation.empty()) data.implementation = candidate.implementation;
      return kernel;
    }
    forget_preparation(data);
  }
  return nullptr;
}

std::unique_ptr<PreparedKernel> PreparedRegistry::prepare_as(KernelData& data, std::string_view implementation) const {
  data.implementation = implementation;
  auto kernel = load(data);
  if (!kernel) forget_preparation(data);
  return kernel;
}

std::unique_ptr<PreparedKernel> PreparedRegistry::load(KernelData& data) const {
  for (const Candidate& candidate : std::ranges::equal_range(candidates_, data.op, {}, &Candidate::op)) {
    if (candidate.implementation == data.implementation) return candidate.prepare(data);
  }
  return nullptr;
}

std::vector<std::string_view> PreparedRegistry::names(std::string_view op, bool of_forms) const {
  std::vector<std::string_view> names;
  for (const Candidate& candidate : std::ranges::equal_range(candidates_, op, {}, &Candidate::op)) {
    if (candidate.is_form != of_forms) continue;
    if (std::ranges::find(names, candidate.implementation) == names.end()) names.push_back(candidate.implementation);
  }
  return names;
}

std::vector<std::string_view> PreparedRegistry::implementations(std::string_view op) const { return names(op, false); }
std::vector<std::string_view> PreparedRegistry::forms(std::string_view op) const { return names(op, true); }

}  // namespace anfora::kernels

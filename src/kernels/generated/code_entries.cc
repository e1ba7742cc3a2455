#include "kernels/generated/code_entries.h"

#include <algorithm>
#include <iterator>
#include <mutex>

#include "anfora/error.h"

namespace anfora::kernels::generated {
namespace {

enum Number : uint8_t { kVersion, kIsa };  // of the form

PackedConstant packed_code(size_t number, std::span<const int64_t> form, std::span<const int> entries, MachineCode code) {
  std::vector<int64_t> layout(form.begin(), form.end());
  for (size_t i = 0; i < entries.size(); ++i) layout.insert(layout.end(), {entries[i], code.entries[i]});
  return {number, std::move(layout), std::move(code.bytes)};
}

}  // namespace

struct CodeEntries::Making {
  KernelData& data;
  size_t number;
  Form form;
  std::vector<int> all;
  Generate generate;
  std::mutex mutex;  // of what is below, and of new elements of by_number_
  std::vector<std::shared_ptr<const ExecutableCode>> mapped;
};

CodeEntries::CodeEntries() = default;
CodeEntries::~CodeEntries() = default;
CodeEntries::CodeEntries(CodeEntries&&) noexcept = default;
CodeEntries& CodeEntries::operator=(CodeEntries&&) noexcept = default;

std::optional<Isa> CodeEntries::isa_of(const PackedConstant* code, int64_t version) {
  if (!code) return best_isa();
  return !code->layout.empty() && code->layout[kVersion] == version ? generated::isa_of(code->layout) : std::nullopt;
}

bool CodeEntries::prepare(KernelData& data, size_t number, Form form, Wanted wanted, Generate generate) {
  const PackedConstant* packed = find_packed(data, number);
  if (!packed) {
    if (!generate) return false;
    data.packed.push_back(packed_code(number, form.numbers, wanted.first, generate(wanted.first)));
    packed = &data.packed.back();
  }
  const size_t begin = form.numbers.size();
  if (packed->layout.size() < begin || !std::ranges::equal(form.numbers, std::span(packed->layout).first(begin))) return false;
  const auto [least, most] = std::ranges::minmax(wanted.all);
  MachineCode code{.isa = static_cast<Isa>(form.numbers[kIsa]), .has_byte_dots = form.has_byte_dots, .entries = {}, .bytes = packed->elements};
  std::vector<int> numbers;
  for (size_t i = begin; i + 1 < packed->layout.size(); i += 2) {
    const int64_t entry = packed->layout[i];
    if (entry < least || entry > most) return false;
    numbers.push_back(static_cast<int>(entry));
    code.entries.push_back(packed->layout[i + 1]);
  }
  lowest_ = least;
  by_number_.assign(static_cast<size_t>(most - least) + 1, nullptr);
  making_.reset(new Making{.data = data, .number = number, .form = std::move(form), .all = std::move(wanted.all), .generate = std::move(generate), .mutex = {}, .mapped = {}});
  add(numbers, code);
  return making_->generate || missing(making_->all).empty();
}

std::vector<int> CodeEntries::missing(std::span<const int> numbers) const {
  std::vector<int> of_them;
  std::ranges::copy_if(numbers, std::back_inserter(of_them), [&](int number) { return !(*this)[number]; });
  return of_them;
}

void CodeEntries::add(std::span<const int> numbers, const MachineCode& code) const {
  making_->mapped.push_back(ExecutableCode::map(code));
  for (size_t i = 0; i < numbers.size(); ++i) {
    EntryPoint& entry = by_number_[static_cast<size_t>(numbers[i] - lowest_)];
    if (!entry) entry = making_->mapped.back()->entry(code.entries[i]);
  }
}

void CodeEntries::require(std::span<const int> numbers) const {
  std::unique_lock lock(making_->mutex);
  const std::vector<int> wanted = missing(numbers);
  if (wanted.empty()) return;
  if (!making_->generate) throw Error(ErrorCode::Unsupported, "the compiled model has no code for these sizes").with_hint("compile it again");
  lock.unlock();  // making them takes milliseconds, and threads of the pool
  const MachineCode code = making_->generate(wanted);
  lock.lock();
  add(wanted, code);
}

void CodeEntries::complete() const {
  const auto& [data, number, form, all, generate, mutex, mapped] = *making_;
  PackedConstant& packed = *std::ranges::find(data.packed, number, &PackedConstant::number);
  if (packed.layout.size() < form.numbers.size() + 2 * all.size()) packed = packed_code(number, form.numbers, all, generate(all));
}

}  // namespace anfora::kernels::generated

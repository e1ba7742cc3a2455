// The entries of a kernel's code by number, and how its data holds them.
//
// Where sizes are known beforehand, the code has the entries that they use. Else it has those of likely sizes at first: to make those of all would take longer than
// the rest of loading a model. A run that needs others makes them; all are made where the kernel is to be saved.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/generated/machine_code.h"
#include "kernels/prepared.h"

namespace anfora::kernels::generated {

class CodeEntries {
 public:
  // Makes those entries, in that order; null: none can be made.
  using Generate = std::function<MachineCode(std::span<const int> numbers)>;

  // What the packed constant begins with; pairs of the number of an entry and its place follow.
  struct Form {
    std::vector<int64_t> numbers;  // that the code depends on; the second one is its ISA
    bool has_byte_dots = false;    // as MachineCode has it
  };
  struct Wanted {
    std::vector<int> first, all;
    static Wanted exactly(std::vector<int> entries) { return {entries, entries}; }
  };

  // By a generator of the form `MachineCode (*)(const Code&, std::span<const int>)`, or null.
  template <class Generator, class Code>
  static Generate made_by(Generator generate, Code code) {
    if (!generate) return nullptr;
    return [generate, code = std::move(code)](std::span<const int> numbers) { return generate(code, numbers); };
  }

  CodeEntries();
  ~CodeEntries();
  CodeEntries(CodeEntries&&) noexcept;
  CodeEntries& operator=(CodeEntries&&) noexcept;

  // That of the code, or the best where there is none; nothing where the code is of another version.
  static std::optional<Isa> isa_of(const PackedConstant* code, int64_t version);

  // With the code that the data has under `number`, or with the first of the wanted entries, which are added there. False where neither can be had, and where runs could
  // want entries that are neither there nor made. Throws as ExecutableCode::map(). The data outlives this.
  bool prepare(KernelData& data, size_t number, Form form, Wanted wanted, Generate generate);

  // Null where there is none.
  EntryPoint operator[](int number) const { return by_number_[static_cast<size_t>(number - lowest_)]; }

  // Makes those that are missing; they are among all that were wanted. Several threads may ask at once, and each may then call what it asked for.
  void require(std::span<const int> numbers) const;

  // Adds all to the data. One call at a time.
  void complete() const;

 private:
  struct Making;
  std::vector<int> missing(std::span<const int> numbers) const;
  void add(std::span<const int> numbers, const MachineCode& code) const;

  int lowest_ = 0;
  mutable std::vector<EntryPoint> by_number_;  // elements are set once
  std::unique_ptr<Making> making_;
};

}  // namespace anfora::kernels::generated

// Machine code as data: position-independent bytes with entry points, which a file can hold, and its copy in executable memory.
//
// All entry points have one signature: they read their arguments, integers and addresses of 64 bits each, from an array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "anfora/tensor.h"
#include "kernels/generated/isa.h"

namespace anfora::kernels {
class KernelContext;
}

namespace anfora::kernels::generated {

using EntryPoint = void (*)(const int64_t* arguments);

// An address as an argument.
inline int64_t address_of(const void* pointer) { return reinterpret_cast<int64_t>(pointer); }
// That of an element of an input of f32; 0 where the input is absent.
int64_t address_in(const KernelContext& context, size_t input, int64_t element = 0);

struct MachineCode {
  Isa isa = Isa::Sse2;
  bool has_byte_dots = false;       // it needs more than the instruction set: has_byte_dots(isa)
  std::vector<int64_t> entries;  // offsets into the bytes
  Tensor bytes;                  // u8
};

// Code that can be called. Its pages are written first and executable then, never both.
class ExecutableCode {
 public:
  // Equal bytes are mapped once in a process, for as long as somebody holds them. Throws Unsupported where the processor lacks
  // the instructions, InvalidModel where an entry lies outside, ResourceExhausted where the system gives no such memory.
  static std::shared_ptr<const ExecutableCode> map(const MachineCode& code);

  explicit ExecutableCode(std::span<const std::byte> bytes);
  ~ExecutableCode();
  ExecutableCode(const ExecutableCode&) = delete;
  ExecutableCode& operator=(const ExecutableCode&) = delete;

  EntryPoint entry(int64_t offset) const { return reinterpret_cast<EntryPoint>(memory_ + offset); }

 private:
  std::byte* memory_;
  size_t bytes_;
};

}  // namespace anfora::kernels::generated

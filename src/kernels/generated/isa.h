// The instruction sets that code is generated for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace anfora::kernels::generated {

enum class Isa : uint8_t { Sse2, Avx2, Avx512 };

// Of all that have them.
inline constexpr int64_t kCacheLineBytes = 64;

// What the generator has to know of one.
struct IsaDescription {
  Isa isa;
  std::string_view name;  // "avx2"
  int lanes;              // f32 elements of a vector register
  int registers;          // vector registers
  bool has_fma;           // a · b + c with one rounding; else two instructions, and two roundings
  bool has_masks;         // loads and stores of some of the lanes cost no more than of all
};

const IsaDescription& describe(Isa isa);
std::span<const IsaDescription> instruction_sets();  // slowest first
// What packed code is for: the second number of its layout. Empty where that is none.
std::optional<Isa> isa_of(std::span<const int64_t> layout);

// The best one that this processor has, or the best below a limit: what ANFORA_ISA names, or ONEDNN_MAX_CPU_ISA in oneDNN's terms.
// Read once. Throws InvalidArgument where ANFORA_ISA names none; an empty one limits nothing.
Isa best_isa();
// What ANFORA_ISA names, where it limits more than ONEDNN_MAX_CPU_ISA does: oneDNN does not know of it.
std::optional<Isa> limit_beyond_onednn();
// Whether the processor has an instruction that multiplies four bytes by four and adds the products to a sum of 32 bits (VNNI), for
// vectors of that set. Limits are included.
bool has_byte_dots(Isa isa);
// Whether code for it runs here, limits included.
inline bool is_supported(Isa isa) { return isa <= best_isa(); }

}  // namespace anfora::kernels::generated

#include "kernels/generated/isa.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>

#include "anfora/error.h"

namespace anfora::kernels::generated {
namespace {

constexpr IsaDescription kInstructionSets[] = {
    {Isa::Sse2, "sse2", 4, 16, false, false},
    {Isa::Avx2, "avx2", 8, 16, true, false},
    {Isa::Avx512, "avx512", 16, 32, true, true},
};

Isa of_processor() {
  __builtin_cpu_init();
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl");
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                        __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  return !has_avx2 ? Isa::Sse2 : has_avx512 ? Isa::Avx512 : Isa::Avx2;
}

// "SSE41", "AVX2_VNNI", "AVX512_CORE", …; what it has no name for limits nothing, as in oneDNN.
Isa limit_of_onednn(std::string_view name) {
  if (name == "SSE41" || name == "AVX") return Isa::Sse2;
  return name.starts_with("AVX2") ? Isa::Avx2 : Isa::Avx512;
}

Isa limit_named(std::string_view name) {
  const auto* found = std::ranges::find(kInstructionSets, name, &IsaDescription::name);
  if (found != std::end(kInstructionSets)) return found->isa;
  throw Error(ErrorCode::InvalidArgument, fmt::format("ANFORA_ISA names no instruction set: '{}'", name))
      .with_hint("sse2, avx2 or avx512");
}

// "AVX512_CORE" and what is older ends before VNNI.
bool limits_byte_dots(std::string_view name) {
  return name == "SSE41" || name == "AVX" || name == "AVX2" || name == "AVX512_CORE";
}

}  // namespace

const IsaDescription& describe(Isa isa) { return kInstructionSets[static_cast<size_t>(isa)]; }
std::span<const IsaDescription> instruction_sets() { return kInstructionSets; }

std::optional<Isa> isa_of(std::span<const int64_t> layout) {
  constexpr size_t kIsa = 1;
  if (layout.size() <= kIsa || layout[kIsa] < 0 || layout[kIsa] >= std::ssize(kInstructionSets)) return std::nullopt;
  return static_cast<Isa>(layout[kIsa]);
}

std::optional<Isa> limit_beyond_onednn() {
  const char *name = std::getenv("ANFORA_ISA"), *other = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (!name || !*name) return std::nullopt;
  const Isa limit = limit_named(name);
  return other && limit_of_onednn(other) <= limit ? std::nullopt : std::optional(limit);
}

bool has_byte_dots(Isa isa) {
  static const bool is_limited = [] {
    const char* name = std::getenv("ONEDNN_MAX_CPU_ISA");
    return name && limits_byte_dots(name);
  }();
  if (is_limited || !is_supported(isa)) return false;
  __builtin_cpu_init();
  switch (isa) {
    case Isa::Sse2: return false;
    case Isa::Avx2: return __builtin_cpu_supports("avxvnni");
    case Isa::Avx512: return __builtin_cpu_supports("avx512vnni");
  }
  return false;
}

Isa best_isa() {
  static const Isa best = [] {
    Isa isa = of_processor();
    if (const char* name = std::getenv("ONEDNN_MAX_CPU_ISA")) isa = std::min(isa, limit_of_onednn(name));
    return std::min(isa, limit_beyond_onednn().value_or(isa));
  }();
  return best;
}

}  // namespace anfora::kernels::generated

#include "kernels/generated/byte_table.h"

#include <immintrin.h>

#include "kernels/generated/isa.h"

namespace anfora::kernels::generated {
namespace {

void look_up_each(const ByteTable& table, const uint8_t* from, int64_t count, uint8_t* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = table[from[i]];
}

// An instruction chooses 64 bytes out of 128 (VBMI): the highest bit of a number chooses between two of them.
[[gnu::target("avx512f,avx512bw,avx512vbmi,prefer-vector-width=512")]] void look_up_by_64(const ByteTable& table, const uint8_t* from, int64_t count,
                                                                                           uint8_t* to) {
  const __m512i quarters[] = {_mm512_loadu_si512(table.data()), _mm512_loadu_si512(table.data() + 64), _mm512_loadu_si512(table.data() + 128),
                              _mm512_loadu_si512(table.data() + 192)};
  for (int64_t i = 0; i < count; i += 64) {
    const __mmask64 inside = count - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (count - i)) - 1;
    const __m512i numbers = _mm512_maskz_loadu_epi8(inside, from + i);
    const __m512i low = _mm512_permutex2var_epi8(quarters[0], numbers, quarters[1]),
                  high = _mm512_permutex2var_epi8(quarters[2], numbers, quarters[3]);
    _mm512_mask_storeu_epi8(to + i, inside, _mm512_mask_blend_epi8(_mm512_movepi8_mask(numbers), low, high));
  }
}

}  // namespace

void look_up(const ByteTable& table, const uint8_t* from, int64_t count, uint8_t* to) {
  static const bool has_vbmi = best_isa() == Isa::Avx512 && __builtin_cpu_supports("avx512vbmi");
  has_vbmi ? look_up_by_64(table, from, count, to) : look_up_each(table, from, count, to);
}

}  // namespace anfora::kernels::generated

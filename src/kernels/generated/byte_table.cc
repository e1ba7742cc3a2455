#include "kernels/generated/byte_table.h"

#include <immintrin.h>

#include "kernels/generated/isa.h"

namespace anfora::kernels::generated {
namespace {

void look_up_each(const ByteTable& table, const uint8_t* from, int64_t count, uint8_t* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = table[from[i]];
}

// An instruction chooses bytes out of 16 by the lower half of a number, and gives 0 where its highest bit is set. Numbers lose 16 in each step, until they
// are below 0: so each chooses from the parts of the table up to its own. Of these the differences are kept, by exclusive or, so that what was chosen adds up to
// the byte of its own part. For the upper half of the table the highest bit is turned over.
void look_up_by_32(const ByteTable& table, const uint8_t* from, int64_t count, uint8_t* to) {
  constexpr int kParts = 8;  // of each half
  const auto part = [&](int i) { return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table.data() + 16 * i))); };
  __m256i differences[2 * kParts];
  for (int i = 0; i < 2 * kParts; ++i) differences[i] = i % kParts == 0 ? part(i) : _mm256_xor_si256(part(i), part(i - 1));
  const __m256i step = _mm256_set1_epi8(16), highest = _mm256_set1_epi8(-128);
  const auto look_up_vector = [&](int64_t at) {
    __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at)), high = _mm256_xor_si256(low, highest), sum = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int i = 0; i < kParts; ++i) {
      sum = _mm256_xor_si256(sum, _mm256_xor_si256(_mm256_shuffle_epi8(differences[i], low), _mm256_shuffle_epi8(differences[kParts + i], high)));
      low = _mm256_subs_epi8(low, step), high = _mm256_subs_epi8(high, step);
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + at), sum);
  };
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) look_up_vector(i);
  look_up_each(table, from + i, count - i, to + i);
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
  has_vbmi ? look_up_by_64(table, from, count, to) : look_up_by_32(table, from, count, to);
}

}  // namespace anfora::kernels::generated

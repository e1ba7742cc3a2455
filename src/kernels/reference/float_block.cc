#include "kernels/reference/float_block.h"

#include <cstring>

#include "support/element_types.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace anfora::kernels {
namespace {

// GCC 12 does not vectorize the conversions of _Float16.
void load_halves(const Float16* from, float* to, int64_t n) {
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
  }
#endif
  for (; i < n; ++i) to[i] = from[i];
}

void store_halves(const float* from, Float16* to, int64_t n) {
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
#endif
  for (; i < n; ++i) to[i] = Float16(from[i]);
}

}  // namespace

void load_floats(DType dtype, const void* from, float* to, int64_t n) {
  switch (dtype) {
    case DType::F32: std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float)); return;
    case DType::F16: return load_halves(static_cast<const Float16*>(from), to, n);
    case DType::BF16: {
      const BFloat16* in = static_cast<const BFloat16*>(from);
      for (int64_t i = 0; i < n; ++i) to[i] = in[i];
      return;
    }
    default: {
      if (!is_narrow_float(dtype)) throw_unsupported_dtype(dtype);
      const uint8_t* in = static_cast<const uint8_t*>(from);
      for (int64_t i = 0; i < n; ++i) to[i] = narrow_to_float(dtype, in[i]);
    }
  }
}

void store_floats(DType dtype, const float* from, void* to, int64_t n) {
  switch (dtype) {
    case DType::F32: std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float)); return;
    case DType::F16: return store_halves(from, static_cast<Float16*>(to), n);
    case DType::BF16: {
      BFloat16* out = static_cast<BFloat16*>(to);
      for (int64_t i = 0; i < n; ++i) out[i] = BFloat16(from[i]);
      return;
    }
    default: {
      if (!is_narrow_float(dtype)) throw_unsupported_dtype(dtype);
      uint8_t* out = static_cast<uint8_t*>(to);
      for (int64_t i = 0; i < n; ++i) out[i] = float_to_narrow(dtype, from[i], true);
    }
  }
}

}  // namespace anfora::kernels

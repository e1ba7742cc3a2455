// Cooley and Tukey (1965) for lengths whose prime factors are small: n = p m is p transforms of length m over every
// p-th element, joined by transforms of length p. Bluestein (1970) for the others: since
//
//     i k = (i^2 + k^2 - (k - i)^2) / 2
//
// the transform is a convolution with the chirp exp(j pi i^2 / n), which transforms of a power of two evaluate.
#include "kernels/reference/fourier.h"
#include "support/scratch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace anfora::kernels {
namespace {

// A transform of a prime length costs its square; beyond this a convolution costs less.
constexpr int64_t kLargestRadix = 61;

// exp(sign * 2 pi j * i / n)
Complex unit_root(int64_t i, int64_t n, double sign) {
  double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n);
  return {std::cos(angle), sign * std::sin(angle)};
}

ScratchVector<int64_t> prime_factors(int64_t n) {
  ScratchVector<int64_t> factors;
  for (int64_t p = 2; p * p <= n; ++p) {
    for (; n % p == 0; n /= p) factors.push_back(p);
  }
  if (n > 1) factors.push_back(n);
  return factors;
}

}  // namespace

struct FourierTransform::Convolution {
  FourierTransform forward, backward;  // of a power of two of at least 2 n - 1
  ScratchVector<Complex> chirp;        // exp(-+ j pi i^2 / n), i < n
  ScratchVector<Complex> spectrum;     // of the conjugate chirp, laid out circularly
};

FourierTransform::FourierTransform(int64_t n, bool inverse) : n_(n), inverse_(inverse), factors_(prime_factors(n)) {
  double sign = inverse ? 1 : -1;
  if (factors_.empty() || factors_.back() <= kLargestRadix) {
    roots_.resize(n);
    for (int64_t i = 0; i < n; ++i) roots_[i] = unit_root(i, n, sign);
    return;
  }
  factors_.clear();
  auto length = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n - 1)));
  ScratchVector<Complex> chirp(n), circular(length);
  convolution_.reset(new Convolution{{length, false}, {length, true}, chirp, circular});
  for (int64_t i = 0; i < n; ++i) {
    convolution_->chirp[i] = unit_root(static_cast<int64_t>(static_cast<__int128>(i) * i % (2 * n)), 2 * n, sign);
    circular[i] = circular[(length - i) % length] = convolution_->chirp[i].conjugate();
  }
  convolution_->forward.run(circular.data(), convolution_->spectrum.data());
}

FourierTransform::~FourierTransform() = default;

// The transform of n / (product of the first `level` factors) elements, `stride` apart.
void FourierTransform::transform(const Complex* in, int64_t stride, Complex* out, size_t level) const {
  if (level == factors_.size()) {
    out[0] = in[0];
    return;
  }
  int64_t p = factors_[level], length = n_ / stride, m = length / p;
  for (int64_t r = 0; r < p; ++r) transform(in + r * stride, stride * p, out + r * m, level + 1);
  if (p == 2) {
    for (int64_t k = 0; k < m; ++k) {
      Complex a = out[k], b = out[k + m] * roots_[k * stride];
      out[k] = a + b;
      out[k + m] = {a.re - b.re, a.im - b.im};
    }
    return;
  }
  Complex terms[kLargestRadix];
  for (int64_t k = 0; k < m; ++k) {
    for (int64_t r = 0; r < p; ++r) terms[r] = out[r * m + k] * roots_[r * k * stride];
    for (int64_t q = 0; q < p; ++q) {
      Complex sum = terms[0];
      for (int64_t r = 1; r < p; ++r) sum = sum + terms[r] * roots_[r * q % p * (n_ / p)];
      out[q * m + k] = sum;
    }
  }
}

void FourierTransform::run(const Complex* in, Complex* out) const {
  if (convolution_) {
    int64_t length = convolution_->forward.size();
    ScratchVector<Complex> a(length), b(length);
    for (int64_t i = 0; i < n_; ++i) a[i] = in[i] * convolution_->chirp[i];
    convolution_->forward.run(a.data(), b.data());
    for (int64_t i = 0; i < length; ++i) b[i] = b[i] * convolution_->spectrum[i];
    convolution_->backward.run(b.data(), a.data());
    for (int64_t i = 0; i < n_; ++i) out[i] = a[i] * convolution_->chirp[i];
  } else {
    transform(in, 1, out, 0);
  }
  if (!inverse_) return;
  double scale = 1 / static_cast<double>(n_);
  for (int64_t i = 0; i < n_; ++i) out[i] = {out[i].re * scale, out[i].im * scale};
}

}  // namespace anfora::kernels

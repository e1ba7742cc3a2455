// Cooley and Tukey (1965) for lengths whose prime factors are small: n = p m is p transforms of length m over every
// p-th element, joined by transforms of length p. Bluestein (1970) for the others: since
//
//     i k = (i^2 + k^2 - (k - i)^2) / 2
//
// the transform is a convolution with the chirp exp(j pi i^2 / n), which transforms of a power of two evaluate.
#include "kernels/reference/fourier.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <numbers>
#include <span>

#include "kernels/reference/vectorize.h"

namespace anfora::kernels {
namespace {

// A transform of a prime length costs its square; beyond this a convolution costs less.
constexpr int64_t kLargestRadix = 61;

// exp(sign * 2 pi j * i / n)
Complex<double> unit_root(int64_t i, int64_t n, double sign) {
  double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n);
  return {std::cos(angle), sign * std::sin(angle)};
}

ScratchVector<int64_t> factors_of(int64_t n) {
  ScratchVector<int64_t> factors;
  for (; n % 4 == 0; n /= 4) factors.push_back(4);
  for (int64_t p = 2; p * p <= n; ++p) {
    for (; n % p == 0; n /= p) factors.push_back(p);
  }
  if (n > 1) factors.push_back(n);
  return factors;
}

template <int L>
struct LanesOf {
  using Type = Vector<double, L>;
};
template <>
struct LanesOf<1> {
  using Type = double;
};

// Element i of L complex lines.
template <int L>
using Element = Complex<typename LanesOf<L>::Type>;

template <int L>
Element<L> read_element(const double* lines, int64_t i) {
  Element<L> element;  // part by part, which takes no detour through memory
  std::memcpy(&element.re, lines + i * 2 * L, sizeof element.re);
  std::memcpy(&element.im, lines + (i * 2 + 1) * L, sizeof element.im);
  return element;
}

template <int L>
void write_element(Element<L> element, double* lines, int64_t i) {
  std::memcpy(lines + i * 2 * L, &element.re, sizeof element.re);
  std::memcpy(lines + (i * 2 + 1) * L, &element.im, sizeof element.im);
}

// Transforms of 2 and of 4 elements, in place.
template <class X>
[[gnu::always_inline]] inline void transform_two(Complex<X>* x) {
  const Complex<X> difference = x[0] - x[1];
  x[0] = x[0] + x[1];
  x[1] = difference;
}

template <class X>
[[gnu::always_inline]] inline void transform_four(Complex<X>* x, bool inverse) {
  const Complex<X> s = x[0] + x[2], d = x[0] - x[2], t = x[1] + x[3], u = (x[1] - x[3]).times_j();
  x[0] = s + t;
  x[2] = s - t;
  x[1] = inverse ? d + u : d - u;
  x[3] = inverse ? d - u : d + u;
}

// The transform of an odd number of elements, in place. Elements r and p - r have conjugate roots: their sum is multiplied by the roots' real
// parts, their difference by the imaginary ones, for two results at once. `roots` has those of a multiple of p.
template <class X>
void transform_odd(Complex<X>* x, int64_t p, std::span<const Complex<double>> roots) {
  const int64_t half = p / 2, step = std::ssize(roots) / p;
  Complex<X> sums[kLargestRadix / 2], differences[kLargestRadix / 2];
  const Complex<X> first = x[0];
  for (int64_t r = 1; r <= half; ++r) {
    sums[r - 1] = x[r] + x[p - r];
    differences[r - 1] = x[r] - x[p - r];
    x[0] = x[0] + sums[r - 1];
  }
  for (int64_t q = 1; q <= half; ++q) {
    Complex<X> even = first, odd{};
    for (int64_t r = 1; r <= half; ++r) {
      const Complex<double> root = roots[r * q % p * step];
      even = even + sums[r - 1] * root.re;
      odd = odd + differences[r - 1] * root.im;
    }
    odd = odd.times_j();
    x[q] = even + odd;
    x[p - q] = even - odd;
  }
}

}  // namespace

struct FourierTransform::Convolution {
  FourierTransform forward, backward;             // of a power of two of at least 2 n - 1
  ScratchVector<Complex<double>> chirp;           // exp(-+ j pi i^2 / n), i < n
  ScratchVector<Complex<double>> spectrum;        // of the conjugate chirp, laid out circularly
};

FourierTransform::FourierTransform(int64_t n, bool inverse) : n_(n), inverse_(inverse), factors_(factors_of(n)) {
  double sign = inverse ? 1 : -1;
  if (factors_.empty() || factors_.back() <= kLargestRadix) {
    roots_.resize(n);
    for (int64_t i = 0; i < n; ++i) roots_[i] = unit_root(i, n, sign);
    return;
  }
  factors_.clear();
  auto length = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n - 1)));
  convolution_.reset(new Convolution{{length, false}, {length, true}, ScratchVector<Complex<double>>(n), ScratchVector<Complex<double>>(length)});
  Scratch<double> circular(2 * length, 0.0), spectrum(2 * length);
  for (int64_t i = 0; i < n; ++i) {
    convolution_->chirp[i] = unit_root(static_cast<int64_t>(static_cast<__int128>(i) * i % (2 * n)), 2 * n, sign);
    write_element<1>(convolution_->chirp[i].conjugate(), circular.data(), i);
    write_element<1>(convolution_->chirp[i].conjugate(), circular.data(), (length - i) % length);
  }
  convolution_->forward.run<1>(circular.data(), spectrum.data());
  for (int64_t i = 0; i < length; ++i) convolution_->spectrum[i] = read_element<1>(spectrum.data(), i);
}

FourierTransform::~FourierTransform() = default;

// Joins p transforms of m elements into one: terms(r, k) is element k of the r-th, `step` the distance of its roots. P is p, or 0 for any
// odd one.
template <int P, int L, class Terms>
void join_transforms(int64_t p, int64_t m, const Terms& terms, std::span<const Complex<double>> roots, int64_t step, bool inverse, double* out) {
  if (P > 0) p = P;
  Element<L> x[P > 0 ? P : kLargestRadix];
  for (int64_t k = 0; k < m; ++k) {
    x[0] = terms(0, k);
#pragma GCC unroll 4
    for (int64_t r = 1; r < p; ++r) x[r] = terms(r, k) * roots[r * k * step];
    if constexpr (P == 2) transform_two(x);
    else if constexpr (P == 4) transform_four(x, inverse);
    else transform_odd(x, p, roots);
#pragma GCC unroll 4
    for (int64_t r = 0; r < p; ++r) write_element<L>(x[r], out, r * m + k);
  }
}

// The transform of n / (product of the first `level` factors) elements, `stride` apart.
template <int L>
void FourierTransform::transform(const double* in, int64_t stride, double* out, size_t level) const {
  if (level == factors_.size()) return write_element<L>(read_element<L>(in, 0), out, 0);  // of one element
  const int64_t p = factors_[level], m = n_ / stride / p;
  const auto join = [&](const auto& terms) {
    if (p == 2) join_transforms<2, L>(p, m, terms, roots_, stride, inverse_, out);
    else if (p == 4) join_transforms<4, L>(p, m, terms, roots_, stride, inverse_, out);
    else join_transforms<0, L>(p, m, terms, roots_, stride, inverse_, out);
  };
  if (m == 1) return join([&](int64_t r, int64_t) { return read_element<L>(in, r * stride); });
  for (int64_t r = 0; r < p; ++r) transform<L>(in + r * stride * 2 * L, stride * p, out + r * m * 2 * L, level + 1);
  join([&](int64_t r, int64_t k) { return read_element<L>(out, r * m + k); });
}

template <int L>
void FourierTransform::convolve(const double* in, double* out) const {
  const auto& [forward, backward, chirp, spectrum] = *convolution_;
  const int64_t length = forward.size();
  Scratch<double> a(2 * L * length, 0.0), b(2 * L * length);
  for (int64_t i = 0; i < n_; ++i) write_element<L>(read_element<L>(in, i) * chirp[i], a.data(), i);
  forward.run<L>(a.data(), b.data());
  for (int64_t i = 0; i < length; ++i) write_element<L>(read_element<L>(b.data(), i) * spectrum[i], b.data(), i);
  backward.run<L>(b.data(), a.data());
  for (int64_t i = 0; i < n_; ++i) write_element<L>(read_element<L>(a.data(), i) * chirp[i], out, i);
}

template <int L>
void FourierTransform::run(const double* in, double* out) const {
  if (convolution_) convolve<L>(in, out);
  else transform<L>(in, 1, out, 0);
  if (!inverse_) return;
  double scale = 1 / static_cast<double>(n_);
  for (int64_t i = 0; i < n_; ++i) write_element<L>(read_element<L>(out, i) * scale, out, i);
}

RealFourierTransform::RealFourierTransform(int64_t n) : n_(n), transform_(n % 2 == 0 ? n / 2 : n, false), roots_(n % 2 == 0 ? n / 4 + 1 : 0) {
  for (int64_t k = 0; k < std::ssize(roots_); ++k) roots_[k] = unit_root(k, n, -1);
}

// Pairs of elements are taken as complex numbers. With Z[k] their spectrum, h = n / 2, and E and O those of the elements with even and odd
// places:
//
//     E[k] = (Z[k] + conj Z[h - k]) / 2,  O[k] = (Z[k] - conj Z[h - k]) / 2j,  X[k] = E[k] + w^k O[k],  X[h - k] = conj(E[k] - w^k O[k])
template <int L>
void RealFourierTransform::run(const double* in, double* out) const {
  using Lanes = typename LanesOf<L>::Type;
  if (n_ % 2 != 0) {
    Scratch<double> pairs(2 * L * n_, 0.0), spectrum(2 * L * n_);
    for (int64_t i = 0; i < n_; ++i) std::copy_n(in + i * L, L, pairs.data() + i * 2 * L);
    transform_.run<L>(pairs.data(), spectrum.data());
    std::copy_n(spectrum.data(), (n_ / 2 + 1) * 2 * L, out);
    return;
  }
  const int64_t half = n_ / 2;
  transform_.run<L>(in, out);
  write_element<L>(read_element<L>(out, 0), out, half);
  for (int64_t k = 0; k <= half / 2; ++k) {
    const Element<L> z = read_element<L>(out, k), mirrored = read_element<L>(out, half - k).conjugate();
    const Element<L> even = (z + mirrored) * 0.5, odd = ((mirrored - z) * 0.5).times_j() * roots_[k];
    write_element<L>(even + odd, out, k);
    write_element<L>((even - odd).conjugate(), out, half - k);
  }
  // Both are real; no zero has a sign.
  for (int64_t k : {int64_t{0}, half}) write_element<L>({read_element<L>(out, k).re, Lanes{}}, out, k);
}

template void FourierTransform::run<1>(const double*, double*) const;
template void FourierTransform::run<FourierTransform::kLanes>(const double*, double*) const;
template void RealFourierTransform::run<1>(const double*, double*) const;
template void RealFourierTransform::run<FourierTransform::kLanes>(const double*, double*) const;

}  // namespace anfora::kernels

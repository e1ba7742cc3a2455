// The discrete Fourier transform of one length, in double precision.
//
// As many as kLanes lines are transformed side by side, so that all arithmetic is that of SIMD registers and nothing is moved within them. Of L
// lines, part p (0 real, 1 imaginary) of element i of line l lies at [(2 i + p) L + l]; of real lines, element i lies at [i L + l].
#pragma once

#include <cstdint>
#include <memory>

#include "support/scratch.h"

namespace anfora::kernels {

// X is a double, or several of them side by side.
template <class X>
struct Complex {
  X re, im;
  friend Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  friend Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
  friend Complex operator*(Complex a, double b) { return {a.re * b, a.im * b}; }
  friend Complex operator*(Complex a, Complex<double> b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
  Complex conjugate() const { return {re, -im}; }
  Complex times_j() const { return {-im, re}; }
};

class FourierTransform {
 public:
  static constexpr int kLanes = 4;  // as wide as registers of AVX2

  // n >= 1. The inverse is scaled by 1/n.
  FourierTransform(int64_t n, bool inverse);
  ~FourierTransform();

  int64_t size() const { return n_; }
  // out[k] = sum of in[i] exp(-+ 2 pi j i k / n) of L complex lines, 1 or kLanes; `in` and `out` do not overlap. Threads may share one
  // transform.
  template <int L>
  void run(const double* in, double* out) const;

 private:
  struct Convolution;  // for lengths with a large prime factor
  template <int L>
  void transform(const double* in, int64_t stride, double* out, size_t level) const;
  template <int L>
  void convolve(const double* in, double* out) const;

  int64_t n_;
  bool inverse_;
  ScratchVector<int64_t> factors_;         // of n, fours and primes; empty when convolution_ serves
  ScratchVector<Complex<double>> roots_;   // exp(-+ 2 pi j i / n)
  std::unique_ptr<Convolution> convolution_;
};

// Of real lines: the first n / 2 + 1 elements of their spectrum, whose others are the conjugates of these.
class RealFourierTransform {
 public:
  explicit RealFourierTransform(int64_t n);

  template <int L>
  void run(const double* in, double* out) const;  // n real elements, n / 2 + 1 complex ones

 private:
  int64_t n_;
  FourierTransform transform_;            // of n / 2 pairs; of n elements where n is odd
  ScratchVector<Complex<double>> roots_;  // exp(-2 pi j k / n), k <= n / 4, where n is even
};

}  // namespace anfora::kernels

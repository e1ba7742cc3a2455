// The discrete Fourier transform of one length, in double precision.
#pragma once

#include <cstdint>
#include <memory>

#include "support/scratch.h"

namespace anfora::kernels {

struct Complex {
  double re = 0, im = 0;
  friend Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  friend Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
  Complex conjugate() const { return {re, -im}; }
};

class FourierTransform {
 public:
  // n >= 1. The inverse is scaled by 1/n.
  FourierTransform(int64_t n, bool inverse);
  ~FourierTransform();

  int64_t size() const { return n_; }
  // out[k] = sum of in[i] exp(-+ 2 pi j i k / n), all of in and out being n elements apart from each other. Threads may
  // share one transform.
  void run(const Complex* in, Complex* out) const;

 private:
  struct Convolution;  // for lengths with a large prime factor
  void transform(const Complex* in, int64_t stride, Complex* out, size_t level) const;

  int64_t n_;
  bool inverse_;
  ScratchVector<int64_t> factors_;  // primes, of all of n; empty when convolution_ serves
  ScratchVector<Complex> roots_;    // exp(-+ 2 pi j i / n)
  std::unique_ptr<Convolution> convolution_;
};

}  // namespace anfora::kernels

// Matrix products, Einsum and Fourier transforms against their definitions.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/reference/einsum_equation.h"
#include "kernels/reference/fourier.h"
#include "kernels/reference/gemm.h"
#include "run_kernel.h"

namespace anfora::kernels {
namespace {

template <class T>
std::vector<T> pattern(int64_t count, int seed) {
  std::vector<T> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>((static_cast<int>(i) * 31 + seed) % 17);
  return values;
}

template <class T>
void expect_product(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b, bool accumulate) {
  std::vector<T> a = pattern<T>(m * k, 1), b = pattern<T>(k * n, 2), c = pattern<T>(m * n, 3), expected = c;
  MatrixView<const T> left = transpose_a ? MatrixView<const T>{a.data(), m, k, 1, m} : matrix<const T>(a.data(), m, k);
  MatrixView<const T> right = transpose_b ? MatrixView<const T>{b.data(), k, n, 1, k} : matrix<const T>(b.data(), k, n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      T sum = accumulate ? expected[i * n + j] : T{0};
      for (int64_t p = 0; p < k; ++p) {
        sum += left.data[i * left.row_stride + p * left.column_stride] *
               right.data[p * right.row_stride + j * right.column_stride];
      }
      expected[i * n + j] = sum;
    }
  }
  multiply(left, right, matrix(c.data(), m, n), accumulate);
  EXPECT_EQ(c, expected) << m << " " << n << " " << k;
}

TEST(Multiply, EveryEdgeOfStripsAndTiles) {
  for (int64_t m : {1, 3, 4, 65}) {
    for (int64_t n : {1, 15, 16, 17, 257}) {
      for (int64_t k : {0, 1, 255, 256, 300}) {
        expect_product<float>(m, n, k, m % 2, n % 2, k % 2);
        expect_product<uint64_t>(m, n, k, n % 2, k % 2, m % 2);
      }
    }
  }
}

TEST(Multiply, OneRow) {
  for (int64_t n : {1, 5, 2048, 2051}) {
    for (int64_t k : {1, 3, 4, 31, 32, 70}) {
      for (bool transposed : {false, true}) {
        for (bool accumulate : {false, true}) {
          expect_product<float>(1, n, k, false, transposed, accumulate);
          expect_product<double>(1, n, k, true, transposed, accumulate);
          expect_product<uint32_t>(1, n, k, false, transposed, accumulate);
        }
      }
    }
  }
}

TEST(MatMul, IntegersWrapAround) {
  int32_t big = 1 << 20;
  Tensor a = make_tensor<int32_t>({1, 2}, {big, -3}), b = make_tensor<int32_t>({2, 1}, {1 << 12, 5});
  EXPECT_EQ(values_of<int32_t>(run_kernel("MatMul", {}, {a, b})[0]), std::vector<int32_t>{-15});
}

TEST(MatMul, BatchesBroadcastAndVectorsLoseTheirDimension) {
  Tensor a = make_tensor<float>({2, 1, 1, 2}, {1, 2, 3, 4}), b = make_tensor<float>({3, 2, 1}, {1, 0, 0, 1, 1, 1});
  Tensor product = run_kernel("MatMul", {}, {a, b})[0];
  EXPECT_EQ(product.shape(), (Shape{2, 3, 1, 1}));
  EXPECT_EQ(values_of<float>(product), (std::vector<float>{1, 2, 3, 3, 4, 7}));
  Tensor v = make_tensor<float>({2}, {10, 1});
  EXPECT_EQ(run_kernel("MatMul", {}, {v, v})[0].shape(), Shape{});
  EXPECT_EQ(run_kernel("MatMul", {}, {b.reshaped(std::vector<int64_t>{3, 1, 2}), v})[0].shape(), (Shape{3, 1}));
  EXPECT_THROW(run_kernel("MatMul", {}, {a, v.reshaped(std::vector<int64_t>{1, 2})}), Error);
}

TEST(MatMul, EmptySumsAreZero) {
  Tensor product = run_kernel("MatMul", {},
                              {Tensor::zeros(DType::F16, std::vector<int64_t>{2, 0}),
                               Tensor::zeros(DType::F16, std::vector<int64_t>{0, 2})})[0];
  EXPECT_TRUE(Tensor::identical(product, Tensor::zeros(DType::F16, std::vector<int64_t>{2, 2})));
}

TEST(LoweredMatMul, OperandsOfAnotherRankAreRefused) {
  const AttributeSet transposed = {{"perm_b", std::vector<int64_t>{1, 0}}};
  EXPECT_THROW(run_kernel("LoweredMatMul", transposed, {make_tensor<float>({1, 1}, {2}), make_tensor<float>({}, {3})}), Error);
}

TEST(Einsum, Equations) {
  EinsumEquation equation = parse_einsum(" bIj , ...jk ", EinsumLabels{3, 4});
  EXPECT_EQ(equation.inputs[0], (EinsumLabels{2, 3, 4}));
  EXPECT_EQ(equation.inputs[1], (EinsumLabels{0, 1, 4, 5}));
  EXPECT_EQ(equation.output, (EinsumLabels{0, 1, 3, 2, 5}));  // …, I, b, k
  for (const char* wrong : {"ij->k", "ij->ii", "i.j->i", "i-j->ij", "......->", "ij,jk->ik", "i->i", "ijk->"}) {
    EXPECT_THROW(parse_einsum(wrong, EinsumLabels{2}), Error) << wrong;
  }
}

TEST(Einsum, DimensionsOfOneBroadcast) {
  Tensor a = make_tensor<int8_t>({1, 2}, {3, 4}), b = make_tensor<int8_t>({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(values_of<int8_t>(run_kernel("Einsum", {{"equation", std::string("ij,ij->i")}}, {a, b})[0]),
            (std::vector<int8_t>{11, 25, 39}));
}

// Element i of lane l, differing from lane to lane.
double signal(int64_t i, int64_t lane, int part) { return static_cast<double>(part == 0 ? (i + lane) * 7 % 5 : i * (3 + lane) % 7); }

// Bin k of the transform of n such elements, real ones if they have one part.
Complex<double> spectrum(int64_t n, int64_t k, int64_t lane, int parts) {
  Complex<double> sum{0, 0};
  for (int64_t i = 0; i < n; ++i) {
    double angle = -2 * std::numbers::pi * static_cast<double>(i * k % n) / static_cast<double>(n);
    sum = sum + Complex<double>{signal(i, lane, 0), parts == 2 ? signal(i, lane, 1) : 0} * Complex<double>{std::cos(angle), std::sin(angle)};
  }
  return sum;
}

template <int L>
void expect_transforms(int64_t n) {
  std::vector<double> in(2 * n * L), out(2 * n * L), back(2 * n * L), real(n * L), half((n / 2 + 1) * 2 * L);
  for (int64_t i = 0; i < n; ++i) {
    for (int lane = 0; lane < L; ++lane) {
      real[i * L + lane] = signal(i, lane, 0);
      for (int part : {0, 1}) in[(2 * i + part) * L + lane] = signal(i, lane, part);
    }
  }
  FourierTransform(n, false).run<L>(in.data(), out.data());
  FourierTransform(n, true).run<L>(out.data(), back.data());
  RealFourierTransform(n).run<L>(real.data(), half.data());
  for (size_t i = 0; i < in.size(); ++i) EXPECT_NEAR(back[i], in[i], 1e-12) << n;
  for (int64_t k = 0; k < n; ++k) {
    for (int lane = 0; lane < L; ++lane) {
      const Complex<double> expected = spectrum(n, k, lane, 2);
      EXPECT_NEAR(out[2 * k * L + lane], expected.re, 1e-10) << n;
      EXPECT_NEAR(out[(2 * k + 1) * L + lane], expected.im, 1e-10) << n;
      if (k > n / 2) continue;
      const Complex<double> of_real = spectrum(n, k, lane, 1);
      EXPECT_NEAR(half[2 * k * L + lane], of_real.re, 1e-10) << n;
      EXPECT_NEAR(half[(2 * k + 1) * L + lane], of_real.im, 1e-10) << n;
    }
  }
}

TEST(FourierTransform, EveryKindOfLength) {
  for (int64_t n : {1, 2, 3, 4, 5, 8, 12, 16, 32, 49, 50, 61, 67, 134, 360, 400}) {
    expect_transforms<1>(n);
    expect_transforms<FourierTransform::kLanes>(n);
  }
}

// A line that is not finite leaves those beside it alone.
TEST(FourierTransform, LinesAreIndependent) {
  std::vector<float> x(5 * 16);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7);
  const std::vector<float> expected = values_of<float>(run_kernel("DFT", {{"onesided", int64_t{1}}}, {make_tensor<float>({5, 16, 1}, x)})[0]);
  x[16] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> got = values_of<float>(run_kernel("DFT", {{"onesided", int64_t{1}}}, {make_tensor<float>({5, 16, 1}, x)})[0]);
  for (size_t i = 0; i < got.size(); ++i) {
    const bool is_of_second_line = i / 18 == 1;
    if (!is_of_second_line) {
      EXPECT_EQ(got[i], expected[i]) << i;
    } else if (i % 2 == 0) {
      EXPECT_TRUE(std::isnan(got[i])) << i;
    }
  }
}

// A row of scores is one block of many: blocks must not disturb each other.
TEST(Attention, LongSequencesAreCutIntoBlocks) {
  int64_t length = 150, size = 2;
  Tensor q = make_tensor<float>({1, 1, length, size}, std::vector<float>(length * size, 0.0f));
  std::vector<float> positions(length * size);
  for (int64_t i = 0; i < length * size; ++i) positions[i] = static_cast<float>(i / size);
  Tensor v = make_tensor<float>({1, 1, length, size}, positions);
  Tensor y = run_kernel("Attention", {{"is_causal", int64_t{1}}}, {q, q, v})[0];
  for (int64_t i = 0; i < length; ++i) EXPECT_NEAR(y.data<float>()[i * size], static_cast<float>(i) / 2, 1e-3);
}

}  // namespace
}  // namespace anfora::kernels

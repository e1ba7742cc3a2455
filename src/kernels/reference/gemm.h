// The matrix product of the reference kernels, on strided views, so that transposes and slices cost no copy.
#pragma once

#include <cstdint>
#include <type_traits>

namespace anfora::kernels {

// Multiplications that are worth a thread of their own.
inline constexpr int64_t kMultiplyGrain = int64_t{1} << 17;

template <class T>
struct MatrixView {
  T* data = nullptr;
  int64_t rows = 0, columns = 0;
  int64_t row_stride = 0, column_stride = 1;  // in elements

  MatrixView transposed() const { return {data, columns, rows, column_stride, row_stride}; }
  operator MatrixView<const T>() const { return {data, rows, columns, row_stride, column_stride}; }
};

// A dense row-major matrix.
template <class T>
MatrixView<T> matrix(T* data, int64_t rows, int64_t columns) {
  return {data, rows, columns, columns, 1};
}

// c = a b, or c += a b. T: float, double, uint32_t, uint64_t. Runs on several threads where it pays, on the calling one
// inside a parallel region; every element is summed in the same order either way.
template <class T>
void multiply(MatrixView<std::type_identity_t<const T>> a, MatrixView<std::type_identity_t<const T>> b, MatrixView<T> c,
              bool accumulate = false);

}  // namespace anfora::kernels

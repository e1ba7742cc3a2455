#include "kernels/reference/decompositions.h"

#include <algorithm>
#include <cmath>

#define EIGEN_MPL2_ONLY
#define EIGEN_NO_DEBUG  // kernels check sizes
#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <Eigen/QR>
#include <Eigen/SVD>

namespace anfora::kernels {
namespace {

using Eigen::MatrixXd;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<RowMajor> map(double* data, int64_t rows, int64_t columns) { return {data, rows, columns}; }
Eigen::Map<const RowMajor> map(const double* data, int64_t rows, int64_t columns) { return {data, rows, columns}; }

bool has_zero_on_diagonal(const MatrixXd& matrix) { return (matrix.diagonal().array() == 0).any(); }

// Calls prepare(matrix) for each matrix of a, which says whether it can be solved, and solve(x) for each b, which x holds.
template <class Prepare, class Solve>
bool solve_each(const Systems& systems, double* x, Prepare&& prepare, Solve&& solve) {
  const auto& [a, b, a_step, b_step, count, n, k] = systems;
  MatrixXd solution(n, k);
  for (int64_t i = 0; i < count; ++i) {
    if ((i == 0 || a_step != 0) && !prepare(map(a + i * a_step, n, n))) return false;
    solution = map(b + i * b_step, n, k);
    solve(solution);
    map(x + i * n * k, n, k) = solution;
  }
  return true;
}

}  // namespace

bool factorize_cholesky(const double* a, int64_t count, int64_t n, double* l) {
  Eigen::LLT<MatrixXd> factors(n);
  for (int64_t i = 0; i < count; ++i, a += n * n, l += n * n) {
    factors.compute(map(a, n, n));
    if (factors.info() != Eigen::Success) return false;
    map(l, n, n) = factors.matrixL();
  }
  return true;
}

bool solve_systems(const Systems& systems, double* x) {
  Eigen::PartialPivLU<MatrixXd> factors(systems.n);
  return solve_each(
      systems, x,
      [&](const auto& matrix) {
        factors.compute(matrix);
        return !has_zero_on_diagonal(factors.matrixLU());
      },
      [&](MatrixXd& solution) { solution = factors.solve(solution).eval(); });
}

bool solve_triangular_systems(const Systems& systems, bool upper, double* x) {
  MatrixXd factor(systems.n, systems.n);
  return solve_each(
      systems, x,
      [&](const auto& matrix) {
        factor = matrix;
        return !has_zero_on_diagonal(factor);
      },
      [&](MatrixXd& solution) {
        if (upper) {
          factor.triangularView<Eigen::Upper>().solveInPlace(solution);
        } else {
          factor.triangularView<Eigen::Lower>().solveInPlace(solution);
        }
      });
}

void find_determinants(const double* a, int64_t count, int64_t n, Determinant* determinants) {
  Eigen::PartialPivLU<MatrixXd> factors(n);
  for (int64_t i = 0; i < count; ++i, a += n * n) {
    factors.compute(map(a, n, n));
    auto pivots = factors.matrixLU().diagonal().array();
    auto parity = static_cast<double>(factors.permutationP().determinant());
    determinants[i] = {parity * pivots.prod(), parity * pivots.sign().prod(), pivots.abs().log().sum()};
  }
}

void factorize_qr(const double* a, int64_t count, int64_t m, int64_t n, int64_t inner, double* q, double* r) {
  Eigen::HouseholderQR<MatrixXd> factors(m, n);
  for (int64_t i = 0; i < count; ++i, a += m * n, r += inner * n) {
    // Squares of elements are not to vanish; a power of two rounds nothing.
    const double largest = m * n == 0 ? 0 : map(a, m, n).lpNorm<Eigen::Infinity>();
    const double scale = std::isnormal(largest) ? std::exp2(std::ilogb(largest)) : 1;
    factors.compute(map(a, m, n) / scale);
    map(r, inner, n) = factors.matrixQR().topRows(inner).triangularView<Eigen::Upper>();
    map(r, inner, n) *= scale;
    if (!q) continue;
    map(q, m, inner) = factors.householderQ() * MatrixXd::Identity(m, inner);
    q += m * inner;
  }
}

bool decompose_symmetric(const double* a, int64_t count, int64_t n, double* values, double* vectors) {
  if (n == 0) return true;
  Eigen::SelfAdjointEigenSolver<MatrixXd> solver(n);
  for (int64_t i = 0; i < count; ++i, a += n * n, values += n) {
    solver.compute(map(a, n, n), vectors ? Eigen::ComputeEigenvectors : Eigen::EigenvaluesOnly);
    if (solver.info() != Eigen::Success) return false;
    map(values, n, 1) = solver.eigenvalues();
    if (!vectors) continue;
    map(vectors, n, n) = solver.eigenvectors();
    vectors += n * n;
  }
  return true;
}

bool decompose_singular(const double* a, int64_t count, int64_t m, int64_t n, bool full, double* u, double* s,
                        double* vh) {
  const int64_t inner = std::min(m, n), columns = full ? m : inner, rows = full ? n : inner;
  const int vectors = full ? Eigen::ComputeFullU | Eigen::ComputeFullV : Eigen::ComputeThinU | Eigen::ComputeThinV;
  if (inner == 0) {  // no business of Eigen's
    for (int64_t i = 0; u && i < count; ++i) {
      map(u + i * m * columns, m, columns).setIdentity();
      map(vh + i * rows * n, rows, n).setIdentity();
    }
    return true;
  }
  Eigen::BDCSVD<MatrixXd> solver(m, n, u ? vectors : 0);
  for (int64_t i = 0; i < count; ++i, a += m * n, s += inner) {
    solver.compute(map(a, m, n));
    if (solver.info() != Eigen::Success) return false;
    map(s, inner, 1) = solver.singularValues();
    if (!u) continue;
    map(u, m, columns) = solver.matrixU();
    map(vh, rows, n) = solver.matrixV().transpose();
    u += m * columns;
    vh += rows * n;
  }
  return true;
}

}  // namespace anfora::kernels

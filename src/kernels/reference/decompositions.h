// Dense linear algebra of row-major matrices in double precision, by Eigen, which only decompositions.cc includes.
//
// Each function is about `count` matrices, one after the other in memory, and allocates working storage once for all of them.
#pragma once

#include <cstdint>

namespace anfora::kernels {

// l[n, n]: lower triangular, with a = l lᵀ. The lower triangle of a is read. False: one is not positive definite.
bool factorize_cholesky(const double* a, int64_t count, int64_t n, double* l);

// Of systems a x = b. Matrices of a lie a_step elements apart, those of b b_step: 0 where all systems have the same one, n·n and n·k else.
struct Systems {
  const double *a, *b;
  int64_t a_step, b_step, count, n, k;
};
// x[n, k], by LU factorization with partial pivoting. False: one is singular.
bool solve_systems(const Systems& systems, double* x);
// The same of triangular matrices: the other triangle is not read.
bool solve_triangular_systems(const Systems& systems, bool upper, double* x);

struct Determinant {
  double value = 1;
  double sign = 1, log = 0;  // the logarithm of its absolute value; 0 and −∞ of a singular matrix
};
void find_determinants(const double* a, int64_t count, int64_t n, Determinant* determinants);

// a[m, n] = q r, where r is upper triangular: q[m, inner] has orthonormal columns, r[inner, n]; `inner` is min(m, n) or m. The signs are
// LAPACK's. q may be null.
void factorize_qr(const double* a, int64_t count, int64_t m, int64_t n, int64_t inner, double* q, double* r);

// Of symmetric matrices, of which the lower triangle is read: the eigenvalues values[n] in ascending order, and the eigenvectors as columns
// of vectors[n, n], which may be null. False: they did not converge, as where an element is NaN.
bool decompose_symmetric(const double* a, int64_t count, int64_t n, double* values, double* vectors);

// a[m, n] = u diag(s) vh: the singular values s[min(m, n)] in descending order, u[m, columns] and vh[rows, n] with orthonormal columns and
// rows: min(m, n) of them, or all with `full`. u and vh may both be null. False: as above.
bool decompose_singular(const double* a, int64_t count, int64_t m, int64_t n, bool full, double* u, double* s,
                        double* vh);

}  // namespace anfora::kernels

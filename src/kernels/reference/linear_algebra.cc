// Factorizations of matrices, linear systems and determinants, by Eigen (decompositions.h). All are computed in f64, whatever the element
// type; the matrices of a batch in parallel.
#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>

#include "kernels/reference/arguments.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/cast.h"
#include "kernels/reference/decompositions.h"
#include "kernels/reference/families.h"
#include "kernels/reference/gemm.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

// An operand of matrices along the last two axes.
class Matrices {
 public:
  Matrices(KernelContext& context, size_t i)
      : tensor_(cast_tensor(context, context.input(i), DType::F64)), dtype_(context.input(i).dtype()) {
    if (tensor_.rank() < 2) refuse("a tensor of shape {} has no matrices", to_string(tensor_.shape()));
  }

  const double* at(int64_t i) const { return tensor_.data<double>().data() + i * size(); }
  DType dtype() const { return dtype_; }
  std::span<const int64_t> batch() const { return std::span(tensor_.shape()).first(tensor_.shape().size() - 2); }
  int64_t count() const { return element_count(batch()); }
  int64_t rows() const { return tensor_.dim(tensor_.rank() - 2); }
  int64_t columns() const { return tensor_.dim(tensor_.rank() - 1); }
  int64_t size() const { return rows() * columns(); }
  int64_t square() const {
    if (rows() != columns()) refuse("matrices of {} by {} are not square", rows(), columns());
    return rows();
  }
  // The shape of a result for each matrix.
  Shape shaped(std::initializer_list<int64_t> sizes) const {
    Shape shape(batch().begin(), batch().end());
    shape.insert(shape.end(), sizes);
    return shape;
  }

 private:
  Tensor tensor_;
  DType dtype_;
};

// Output `i`, written in f64.
class Results {
 public:
  Results(KernelContext& context, size_t i, DType dtype, const Shape& shape)
      : output_(&context.allocate_output(i, dtype, shape)),
        wide_(dtype == DType::F64 ? *output_ : context.temporary(DType::F64, shape)) {}

  double* data() { return wide_.data<double>().data(); }
  void finish() {
    if (output_->dtype() != DType::F64) cast_into(wide_, *output_);
  }

 private:
  Tensor* output_;
  Tensor wide_;
};

// Calls body(first, count) for ranges of a batch of matrices whose factorization takes about rows · columns · inner multiplications.
template <class Body>
void for_each_range(const Matrices& a, Body&& body) {
  const int64_t cost = a.size() * std::min(a.rows(), a.columns());
  parallel_for(a.count(), grain_of(kMultiplyGrain, cost),
               [&](int64_t begin, int64_t end) { body(begin, end - begin); });
}

void cholesky(KernelContext& context) {
  const Matrices a(context, 0);
  const int64_t n = a.square();
  Results l(context, 0, a.dtype(), a.shaped({n, n}));
  for_each_range(a, [&](int64_t i, int64_t count) {
    if (!factorize_cholesky(a.at(i), count, n, l.data() + i * n * n)) refuse("Matrix is not positive definite");
  });
  l.finish();
}

// The batches of both operands broadcast.
template <class Solver>
void solve_with(KernelContext& context, Solver&& solver) {
  const Matrices a(context, 0), b(context, 1);
  const int64_t n = a.square(), k = b.columns();
  if (a.dtype() != b.dtype()) refuse("operands of {} and {}", name(a.dtype()), name(b.dtype()));
  if (b.rows() != n) refuse("{} equations with right sides of {}", n, b.rows());
  Shape batch = broadcast_shape(a.batch(), b.batch()), shape = batch;
  shape.insert(shape.end(), {n, k});
  Results x(context, 0, a.dtype(), shape);
  const LoopNest nest = LoopNest::broadcast(batch, {a.batch(), b.batch()});
  nest.for_each_run(grain_of(kMultiplyGrain, n * n * (n + k)), [&](const int64_t* at, int64_t count) {
    const Systems systems{
        a.at(at[1]), b.at(at[2]), nest.run_stride(1) * n * n, nest.run_stride(2) * n * k, count, n, k};
    if (!solver(systems, x.data() + at[0] * n * k)) refuse("Singular matrix");
  });
  x.finish();
}

void solve(KernelContext& context) { solve_with(context, solve_systems); }

void triangular_solve(KernelContext& context) {
  const bool upper = context.attributes().get_int("upper", 0) != 0;
  solve_with(context, [&](const Systems& systems, double* x) { return solve_triangular_systems(systems, upper, x); });
}

// Calls store(i, determinant) for each matrix.
template <class Store>
void for_each_determinant(const Matrices& a, Store&& store) {
  const int64_t n = a.square();
  for_each_range(a, [&](int64_t first, int64_t count) {
    Scratch<Determinant> found(static_cast<size_t>(count));
    find_determinants(a.at(first), count, n, found.data());
    for (int64_t i = 0; i < count; ++i) store(first + i, found[static_cast<size_t>(i)]);
  });
}

void det(KernelContext& context) {
  const Matrices a(context, 0);
  Results values(context, 0, a.dtype(), a.shaped({}));
  for_each_determinant(a, [&](int64_t i, const Determinant& found) { values.data()[i] = found.value; });
  values.finish();
}

void slog_det(KernelContext& context) {
  const Matrices a(context, 0);
  Results signs(context, 0, a.dtype(), a.shaped({})), logs(context, 1, a.dtype(), a.shaped({}));
  for_each_determinant(a, [&](int64_t i, const Determinant& found) {
    signs.data()[i] = found.sign;
    logs.data()[i] = found.log;
  });
  signs.finish();
  logs.finish();
}

void qr(KernelContext& context) {
  const Matrices a(context, 0);
  const int64_t m = a.rows(), n = a.columns();
  const int64_t inner = context.attributes().get_int("full_matrices", 0) != 0 ? m : std::min(m, n);
  Results q(context, 0, a.dtype(), a.shaped({m, inner})), r(context, 1, a.dtype(), a.shaped({inner, n}));
  for_each_range(a, [&](int64_t i, int64_t count) {
    factorize_qr(a.at(i), count, m, n, inner, q.data() + i * m * inner, r.data() + i * inner * n);
  });
  q.finish();
  r.finish();
}

void eigh(KernelContext& context) {
  const Matrices a(context, 0);
  const int64_t n = a.square();
  Results values(context, 0, a.dtype(), a.shaped({n}));
  std::optional<Results> vectors;
  if (context.num_outputs() > 1) vectors.emplace(context, 1, a.dtype(), a.shaped({n, n}));
  for_each_range(a, [&](int64_t i, int64_t count) {
    double* columns = vectors ? vectors->data() + i * n * n : nullptr;
    if (!decompose_symmetric(a.at(i), count, n, values.data() + i * n, columns)) refuse("Eigenvalues did not converge");
  });
  values.finish();
  if (vectors) vectors->finish();
}

void svd(KernelContext& context) {
  const Matrices a(context, 0);
  const bool full = context.attributes().get_int("full_matrices", 0) != 0;
  const int64_t m = a.rows(), n = a.columns(), inner = std::min(m, n), columns = full ? m : inner,
                rows = full ? n : inner;
  Results s(context, 0, a.dtype(), a.shaped({inner}));
  // Both sides come of one computation, so that signs do not depend on which are asked for.
  const bool vectors = context.num_outputs() > 1;
  std::optional<Results> u, vh;
  if (vectors) u.emplace(context, 1, a.dtype(), a.shaped({m, columns}));
  if (context.num_outputs() > 2) vh.emplace(context, 2, a.dtype(), a.shaped({rows, n}));
  double* left = u ? u->data() : nullptr;
  double* right = vh ? vh->data() : vectors ? context.workspace_of<double>(a.count() * rows * n).data() : nullptr;
  for_each_range(a, [&](int64_t i, int64_t count) {
    if (!decompose_singular(a.at(i), count, m, n, full, vectors ? left + i * m * columns : nullptr,
                            s.data() + i * inner, vectors ? right + i * rows * n : nullptr)) {
      refuse("SVD did not converge");
    }
  });
  s.finish();
  if (u) u->finish();
  if (vh) vh->finish();
}

// V diag(1 / s) Uᵀ, where singular values of at most rcond times the largest count as 0.
void pseudo_inverse(KernelContext& context) {
  const Matrices a(context, 0);
  const double rcond = context.attributes().get_float("rcond", 1e-15f);
  const int64_t m = a.rows(), n = a.columns(), inner = std::min(m, n);
  Results p(context, 0, a.dtype(), a.shaped({n, m}));
  for_each_range(a, [&](int64_t first, int64_t count) {
    auto numbers = [&](int64_t each) { return Scratch<double>(static_cast<size_t>(count * each)); };
    Scratch<double> u = numbers(m * inner), s = numbers(inner), vh = numbers(inner * n);
    if (!decompose_singular(a.at(first), count, m, n, false, u.data(), s.data(), vh.data()))
      refuse("SVD did not converge");
    for (int64_t i = 0; i < count; ++i) {
      const double *left = u.data() + i * m * inner, *values = s.data() + i * inner;
      double *right = vh.data() + i * inner * n, *inverse = p.data() + (first + i) * n * m;
      for (int64_t k = 0; k < inner; ++k) {
        const double scale = values[k] > rcond * values[0] ? 1 / values[k] : 0;
        std::for_each_n(right + k * n, n, [&](double& element) { element *= scale; });
      }
      multiply(matrix<const double>(right, inner, n).transposed(), matrix(left, m, inner).transposed(),
               matrix(inverse, n, m));
    }
  });
  p.finish();
}

}  // namespace

void register_linear_algebra(KernelRegistry& registry) {
  registry.add("Cholesky", cholesky);
  registry.add("TriangularSolve", triangular_solve);
  registry.add("Solve", solve);
  registry.add("Det", det);
  registry.add("SlogDet", slog_det);
  registry.add("QR", qr);
  registry.add("Eigh", eigh);
  registry.add("SVD", svd);
  registry.add("PseudoInverse", pseudo_inverse);
}

}  // namespace anfora::kernels

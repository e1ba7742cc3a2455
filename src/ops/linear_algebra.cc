// Linear systems, factorizations and determinants of matrices, along the last two axes; those before are a batch. Det is ONNX's.
#include <fmt/format.h>

#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

// The dimensions of input 0, of matrices. Without, the `results` outputs are of any shape.
std::optional<Dims> matrices(InferenceContext& ctx, size_t results = 1) {
  auto dims = ctx.dims(0);
  if (!dims) {
    for (size_t i = 0; i < std::min(results, ctx.num_outputs()); ++i) ctx.set_unranked(i, ctx.dtype(0));
  } else if (dims->size() < 2) {
    ctx.fail(fmt::format("the input has rank {}; matrices are needed", dims->size()));
  }
  return dims;
}

std::optional<Dims> square_matrices(InferenceContext& ctx, size_t results = 1) {
  auto dims = matrices(ctx, results);
  if (dims) {
    const Dim rows = dims->end()[-2], columns = dims->back();
    if (provably_different(rows, columns)) {
      ctx.fail(fmt::format("matrices of {} by {} are not square", to_string(rows), to_string(columns)));
    }
  }
  return dims;
}

// Output i, where it is asked for: for each matrix of these dimensions one of others, a vector or a number.
void set_of_each(InferenceContext& ctx, size_t i, const Dims& dims, std::initializer_list<Dim> sizes) {
  if (i >= ctx.num_outputs()) return;
  Dims result(dims.begin(), dims.end() - 2);
  result.insert(result.end(), sizes.begin(), sizes.end());
  ctx.set_tensor(i, ctx.dtype(0), result);
}

void infer_cholesky(InferenceContext& ctx) {
  if (auto dims = square_matrices(ctx)) ctx.set_tensor(0, ctx.dtype(0), *dims);
}

void infer_solve(InferenceContext& ctx) {
  auto a = square_matrices(ctx), b = ctx.dims(1);
  if (!a || !b) return ctx.set_unranked(0, ctx.dtype(0));
  if (b->size() < 2) ctx.fail(fmt::format("the right sides have rank {}; matrices are needed", b->size()));
  ctx.set_tensor(0, ctx.dtype(0), matmul_dims(ctx, *a, *b));
}

void infer_det(InferenceContext& ctx) {
  if (auto dims = square_matrices(ctx)) set_of_each(ctx, 0, *dims, {});
}

void infer_slog_det(InferenceContext& ctx) {
  auto dims = square_matrices(ctx, 2);
  if (!dims) return;
  set_of_each(ctx, 0, *dims, {});
  set_of_each(ctx, 1, *dims, {});
}

void infer_eigh(InferenceContext& ctx) {
  auto dims = square_matrices(ctx, 2);
  if (!dims) return;
  set_of_each(ctx, 0, *dims, {dims->back()});
  set_of_each(ctx, 1, *dims, {dims->end()[-2], dims->back()});
}

void infer_qr(InferenceContext& ctx) {
  auto dims = matrices(ctx, 2);
  if (!dims) return;
  const Dim m = dims->end()[-2], n = dims->back(), inner = ctx.attribute_int("full_matrices") != 0 ? m : min(m, n);
  set_of_each(ctx, 0, *dims, {m, inner});
  set_of_each(ctx, 1, *dims, {inner, n});
}

void infer_svd(InferenceContext& ctx) {
  auto dims = matrices(ctx, 3);
  if (!dims) return;
  const bool full = ctx.attribute_int("full_matrices") != 0;
  const Dim m = dims->end()[-2], n = dims->back(), inner = min(m, n);
  set_of_each(ctx, 0, *dims, {inner});
  set_of_each(ctx, 1, *dims, {m, full ? m : inner});
  set_of_each(ctx, 2, *dims, {full ? n : inner, n});
}

void infer_pseudo_inverse(InferenceContext& ctx) {
  if (auto dims = matrices(ctx)) set_of_each(ctx, 0, *dims, {dims->back(), dims->end()[-2]});
}

// So many thirds of the cube of the size.
template <int Thirds>
double cubic_flops(const InferenceContext& ctx) {
  auto dims = ctx.dims(0);
  if (!dims || dims->empty() || !dims->back().is_constant()) return 0;
  return element_estimate(ctx.input(0)) * static_cast<double>(dims->back().constant()) * Thirds / 3;
}

// Two for each element of the matrix and column of the solution, and the factorization.
template <int Thirds>
double solve_flops(const InferenceContext& ctx) {
  auto dims = ctx.dims(0);
  if (!dims || dims->empty() || !dims->back().is_constant()) return 0;
  return cubic_flops<Thirds>(ctx) + 2 * element_estimate(ctx.output(0)) * static_cast<double>(dims->back().constant());
}

Declaration of_matrices(Declarations& declare, const char* name, const char* doc) {
  return declare.op(name, 1, "anfora").doc(doc).input("A", "T").type("T", kFloats);
}

}  // namespace

void declare_linear_algebra(Declarations& declare) {
  declare.op("Det", 22)
      .doc("The determinants of square matrices.")
      .input("X", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .infer(infer_det)
      .flops(cubic_flops<2>);
  of_matrices(
      declare, "SlogDet",
      "The signs of the determinants of square matrices, and the logarithms of their absolute values: 0 and −∞ of a "
      "singular matrix.")
      .output("sign", "T")
      .output("log", "T")
      .infer(infer_slog_det)
      .flops(cubic_flops<2>);
  of_matrices(declare, "Solve",
              "X with A · X = B, of square matrices A. The batches broadcast. A singular matrix is an error.")
      .input("B", "T")
      .output("X", "T")
      .infer(infer_solve)
      .flops(solve_flops<2>);
  of_matrices(declare, "TriangularSolve",
              "X with A · X = B, where of A the lower triangle is read, with upper=1 the upper one. The batches "
              "broadcast. A 0 on the "
              "diagonal is an error.")
      .input("B", "T")
      .output("X", "T")
      .attribute("upper", 0)
      .infer(infer_solve)
      .flops(solve_flops<0>);
  of_matrices(declare, "Cholesky",
              "Lower triangular matrices L with A = L · Lᵀ, of symmetric A, whose lower triangle is read. A matrix "
              "that is not positive "
              "definite is an error.")
      .output("L", "T")
      .infer(infer_cholesky)
      .flops(cubic_flops<1>);
  of_matrices(declare, "QR",
              "A = Q · R, where Q has orthonormal columns and R is upper triangular. Q has as many columns as A has "
              "rows or columns, "
              "whichever are fewer; with full_matrices=1, as many as A has rows. The signs are LAPACK's.")
      .output("Q", "T")
      .output("R", "T")
      .attribute("full_matrices", 0)
      .infer(infer_qr)
      .flops(cubic_flops<8>);
  of_matrices(declare, "Eigh",
              "The eigenvalues of symmetric matrices in ascending order, and their eigenvectors as columns, each with "
              "any sign. The lower "
              "triangle is read.")
      .output("values", "T")
      .optional_output("vectors", "T")
      .infer(infer_eigh)
      .flops(cubic_flops<27>);
  of_matrices(declare, "SVD",
              "A = U · diag(S) · Vh: the singular values in descending order; U with orthonormal columns and Vh with "
              "orthonormal rows, each "
              "pair with any sign, as many as there are values; with full_matrices=1, all.")
      .output("S", "T")
      .optional_output("U", "T")
      .optional_output("Vh", "T")
      .attribute("full_matrices", 0)
      .infer(infer_svd)
      .flops(cubic_flops<66>);
  of_matrices(declare, "PseudoInverse",
              "The Moore-Penrose inverse, where singular values of at most rcond times the largest count as 0.")
      .output("P", "T")
      .attribute("rcond", 1e-15f)
      .infer(infer_pseudo_inverse)
      .flops(cubic_flops<66>);
}

}  // namespace anfora::ops

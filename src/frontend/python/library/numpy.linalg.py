"""numpy's linear algebra: matrices along the last two axes, those before are a batch."""


def _floats(a): return anfora.cast(a, numpy.float64) if numpy._is_whole(a) else anfora.as_tensor(a)
def _epsilon(a): return 1.1920928955078125e-07 if a.dtype == numpy.float32 else 0.0009765625 if a.dtype == numpy.float16 else 2.220446049250313e-16


# Products and parts ------------------------------------------------------------------------------------------------

def matmul(x1, x2): return x1 @ x2
def outer(x1, x2): return numpy.outer(x1, x2)
def cross(x1, x2, axis=-1): return numpy.cross(x1, x2, axis=axis)
def vecdot(x1, x2, axis=-1): return numpy.vecdot(x1, x2, axis)
def tensordot(x1, x2, axes=2): return numpy.tensordot(x1, x2, axes)
def matrix_transpose(x): return numpy.matrix_transpose(x)
def trace(x, offset=0): return numpy.trace(x, offset, -2, -1)
def diagonal(x, offset=0): return numpy.diagonal(x, offset, -2, -1)


def multi_dot(arrays):
    product = arrays[0]
    for a in arrays[1:]:
        product = product @ a
    return product


def matrix_power(a, n):
    if n < 0:
        a, n = inv(a), -n
    power = numpy.broadcast_to(numpy.eye(a.shape[-1], dtype=a.dtype), a.shape)
    for _ in range(n):
        power = power @ a
    return power


# Systems -----------------------------------------------------------------------------------------------------------

def det(a): return ops.Det(_floats(a))
def slogdet(a): return ops.SlogDet(_floats(a), outputs=2)


def solve(a, b):
    a, b = anfora.promote(_floats(a), _floats(b))
    return ops.Squeeze(ops.Solve(a, b[:, None]), (-1,)) if numpy.ndim(b) == 1 else ops.Solve(a, b)


def inv(a):
    a = _floats(a)
    return ops.Solve(a, numpy.eye(a.shape[-1], dtype=a.dtype))


def pinv(a, rcond=None, rtol=None):
    a = _floats(a)
    if rcond is None:
        rcond = 1e-15 if rtol is None else rtol
    return ops.PseudoInverse(a, rcond=rcond)


def lstsq(a, b, rcond=None):
    a, b = anfora.promote(_floats(a), _floats(b))
    m, n = a.shape[0], a.shape[1]
    cutoff = _epsilon(a) * (m if m > n else n) if rcond is None or rcond < 0 else rcond
    x = ops.PseudoInverse(a, rcond=cutoff) @ b
    s = svdvals(a)
    rank = anfora.cast(numpy.count_nonzero(s > cutoff * s[0]), numpy.int32)
    rest = b - a @ x
    residuals = numpy.atleast_1d(numpy.sum(rest * rest, 0))
    # numpy gives none where the matrix has not full rank, or there is an equation for each unknown at most.
    return x, residuals if m > n and rank == n else residuals[:0], rank, s


# Factorizations ----------------------------------------------------------------------------------------------------

def cholesky(a, upper=False):
    a = _floats(a)
    return matrix_transpose(ops.Cholesky(matrix_transpose(a))) if upper else ops.Cholesky(a)


def qr(a, mode="reduced"):
    if mode != "reduced" and mode != "complete" and mode != "r":
        anfora.fail("numpy.linalg.qr is supported with mode='reduced', 'complete' and 'r'")
    q, r = ops.QR(_floats(a), full_matrices=mode == "complete", outputs=2)
    return r if mode == "r" else (q, r)


def _lower_of(a, UPLO): return matrix_transpose(_floats(a)) if UPLO == "U" or UPLO == "u" else _floats(a)
def eigh(a, UPLO="L"): return ops.Eigh(_lower_of(a, UPLO), outputs=2)
def eigvalsh(a, UPLO="L"): return ops.Eigh(_lower_of(a, UPLO))
def svdvals(x): return ops.SVD(_floats(x))


def svd(a, full_matrices=True, compute_uv=True):
    if not compute_uv:
        return svdvals(a)
    s, u, vh = ops.SVD(_floats(a), full_matrices=full_matrices, outputs=3)
    return u, s, vh


def matrix_rank(A, tol=None, rtol=None):
    s = svdvals(A)
    if tol is None:
        m, n = A.shape[-2], A.shape[-1]
        tol = numpy.max(s, -1, True) * ((m if m > n else n) * _epsilon(s) if rtol is None else rtol)
    return numpy.count_nonzero(s > tol, -1)


# Norms -------------------------------------------------------------------------------------------------------------

def norm(x, ord=None, axis=None, keepdims=False):
    x = _floats(x)
    if ord is None:
        return numpy._length(x, axis, keepdims)
    axes = numpy._each_of(tuple(range(x.ndim)) if axis is None else axis)
    if len(axes) == 1:
        return _norm_of(x, ord, axes, keepdims)
    if len(axes) != 2:
        anfora.fail("a norm of this order is of vectors and matrices")
    return _norm_of_matrices(x, ord, axes, keepdims)


def vector_norm(x, axis=None, keepdims=False, ord=2): return _norm_of(numpy.ravel(x) if axis is None else x, ord, axis, keepdims)
def matrix_norm(x, keepdims=False, ord="fro"): return _norm_of_matrices(_floats(x), ord, (-2, -1), keepdims)


def _norm_of(x, ord, axis, keepdims):
    if ord == numpy.inf:
        return numpy.max(numpy.abs(x), axis, keepdims)
    if ord == -numpy.inf:
        return numpy.min(numpy.abs(x), axis, keepdims)
    if ord == 0:
        return numpy.sum(anfora.cast(x != 0, x.dtype), axis, None, keepdims)
    if ord == 1:
        return numpy.sum(numpy.abs(x), axis, None, keepdims)
    if ord == 2:
        return numpy._length(x, axis, keepdims)
    return numpy.sum(numpy.abs(x) ** ord, axis, None, keepdims) ** (1 / ord)


def _norm_of_matrices(x, ord, axes, keepdims):
    if ord == "fro":
        return numpy._length(x, axes, keepdims)
    if ord == "nuc" or ord == 2 or ord == -2:
        s = svdvals(numpy.moveaxis(x, axes, (-2, -1)))
        length = numpy.sum(s, -1) if ord == "nuc" else numpy.max(s, -1) if ord == 2 else numpy.min(s, -1)
        return numpy.expand_dims(length, axes) if keepdims else length
    if ord != 1 and ord != -1 and ord != numpy.inf and ord != -numpy.inf:
        anfora.fail("this order is none of matrices")
    across, along = axes if ord == 1 or ord == -1 else (axes[1], axes[0])
    sums = numpy.sum(numpy.abs(x), across, None, True)
    length = numpy.max(sums, along, True) if ord > 0 else numpy.min(sums, along, True)
    return length if keepdims else numpy.squeeze(length, axes)


def cond(x, p=None):
    if p is None or p == 2 or p == -2:
        s = svdvals(x)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return norm(x, p, (-2, -1)) * norm(inv(x), p, (-2, -1))

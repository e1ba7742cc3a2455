"""numpy's linear algebra, as far as operators have it."""


def det(a): return ops.Det(a)
def matmul(x1, x2): return x1 @ x2
def outer(x1, x2): return numpy.outer(x1, x2)
def trace(x, offset=0): return numpy.trace(x, offset, -2, -1)
def diagonal(x, offset=0): return numpy.diagonal(x, offset, -2, -1)
def vector_norm(x, axis=None, keepdims=False, ord=2): return norm_of(numpy.ravel(x) if axis is None else x, ord, axis, keepdims)


def norm(x, ord=None, axis=None, keepdims=False):
    if ord is None or ord == "fro":
        return numpy.sqrt(numpy.sum(x * x, axis, None, keepdims))
    if x.ndim == 1 or isinstance(axis, int):
        return norm_of(x, ord, axis, keepdims)
    anfora.fail("numpy.linalg.norm of a matrix is supported for ord=None and 'fro'")


def norm_of(x, ord, axis, keepdims):
    if ord == numpy.inf:
        return numpy.max(numpy.abs(x), axis, keepdims)
    if ord == -numpy.inf:
        return numpy.min(numpy.abs(x), axis, keepdims)
    if ord == 0:
        return numpy.sum(numpy.where(x == 0, 0.0, 1.0), axis, None, keepdims)
    if ord == 1:
        return numpy.sum(numpy.abs(x), axis, None, keepdims)
    if ord == 2:
        return numpy.sqrt(numpy.sum(x * x, axis, None, keepdims))
    return numpy.sum(numpy.abs(x) ** ord, axis, None, keepdims) ** (1 / ord)


def matrix_power(a, n):
    power = numpy.eye(a.shape[0], dtype=a.dtype)
    for _ in range(n):
        power = power @ a
    return power

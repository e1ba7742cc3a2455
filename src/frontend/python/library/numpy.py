"""numpy's functions, as far as they can be compiled, with numpy's meaning of arguments and element types."""


# Element by element ------------------------------------------------------------------------------------------------

def add(x, y): return x + y
def subtract(x, y): return x - y
def multiply(x, y): return x * y
def divide(x, y): return x / y
def true_divide(x, y): return x / y
def floor_divide(x, y): return x // y
def mod(x, y): return x % y
def remainder(x, y): return x % y
def power(x, y): return x ** y
def negative(x): return -x
def positive(x): return x
def square(x): return x * x
def reciprocal(x): return 1 / x
def abs(x): return ops.Abs(x)
def absolute(x): return ops.Abs(x)
def fabs(x): return ops.Abs(anfora.as_float(x))
def sign(x): return ops.Sign(x)

def exp(x): return ops.Exp(anfora.as_float(x))
def exp2(x): return ops.Pow(2.0, anfora.as_float(x))
def expm1(x): return ops.Exp(anfora.as_float(x)) - 1
def log(x): return ops.Log(anfora.as_float(x))
def log2(x): return ops.Log(anfora.as_float(x)) / numpy.log(2.0)
def log10(x): return ops.Log(anfora.as_float(x)) / numpy.log(10.0)
def log1p(x): return ops.Log(1 + anfora.as_float(x))
def sqrt(x): return ops.Sqrt(anfora.as_float(x))
def cbrt(x): return sign(x) * ops.Pow(ops.Abs(anfora.as_float(x)), 1 / 3)
def sin(x): return ops.Sin(anfora.as_float(x))
def cos(x): return ops.Cos(anfora.as_float(x))
def tan(x): return ops.Tan(anfora.as_float(x))
def arcsin(x): return ops.Asin(anfora.as_float(x))
def arccos(x): return ops.Acos(anfora.as_float(x))
def arctan(x): return ops.Atan(anfora.as_float(x))
def sinh(x): return ops.Sinh(anfora.as_float(x))
def cosh(x): return ops.Cosh(anfora.as_float(x))
def tanh(x): return ops.Tanh(anfora.as_float(x))
def arcsinh(x): return ops.Asinh(anfora.as_float(x))
def arccosh(x): return ops.Acosh(anfora.as_float(x))
def arctanh(x): return ops.Atanh(anfora.as_float(x))
def floor(x): return ops.Floor(anfora.as_float(x))
def ceil(x): return ops.Ceil(anfora.as_float(x))
def rint(x): return ops.Round(anfora.as_float(x))
def isnan(x): return ops.IsNaN(anfora.as_float(x))
def isinf(x): return ops.IsInf(anfora.as_float(x))
def isfinite(x): return ops.Not(ops.Or(isnan(x), isinf(x)))
def deg2rad(x): return x * (numpy.pi / 180)
def rad2deg(x): return x * (180 / numpy.pi)


def trunc(x):
    x = anfora.as_float(x)
    return ops.Sign(x) * ops.Floor(ops.Abs(x))


def round(x, decimals=0):
    if decimals == 0:
        return rint(x)
    return rint(x * 10.0 ** decimals) / 10.0 ** decimals


def maximum(x, y):
    x, y = anfora.promote(x, y)
    return ops.Or(x, y) if x.dtype == numpy.bool_ else ops.Max(x, y)


def minimum(x, y):
    x, y = anfora.promote(x, y)
    return ops.And(x, y) if x.dtype == numpy.bool_ else ops.Min(x, y)


def equal(x, y): return x == y
def not_equal(x, y): return x != y
def less(x, y): return x < y
def less_equal(x, y): return x <= y
def greater(x, y): return x > y
def greater_equal(x, y): return x >= y
def logical_not(x): return ops.Not(anfora.cast(x, numpy.bool_))
def logical_and(x, y): return ops.And(anfora.cast(x, numpy.bool_), anfora.cast(y, numpy.bool_))
def logical_or(x, y): return ops.Or(anfora.cast(x, numpy.bool_), anfora.cast(y, numpy.bool_))
def logical_xor(x, y): return ops.Xor(anfora.cast(x, numpy.bool_), anfora.cast(y, numpy.bool_))
def bitwise_and(x, y): return x & y
def bitwise_or(x, y): return x | y
def bitwise_xor(x, y): return x ^ y
def bitwise_invert(x): return ~x
def bitwise_not(x): return ~x
def invert(x): return ~x
def left_shift(x, y): return x << y
def right_shift(x, y): return x >> y


def where(condition, x, y):
    x, y = anfora.promote(x, y)
    return ops.Where(anfora.cast(condition, numpy.bool_), x, y)


def clip(a, a_min=None, a_max=None):
    if a_min is not None:
        a = maximum(a, a_min)
    if a_max is not None:
        a = minimum(a, a_max)
    return a


def hypot(x, y): return sqrt(x * x + y * y)
def isclose(a, b, rtol=1e-5, atol=1e-8): return abs(a - b) <= atol + rtol * abs(b)
def allclose(a, b, rtol=1e-5, atol=1e-8): return all(isclose(a, b, rtol, atol))
def nan_to_num(x): return where(isnan(x), 0.0, x)


# Reductions --------------------------------------------------------------------------------------------------------

def axes_of(axis):
    if axis is None:
        return None
    return anfora.shape_of(axis)


def of_integers(a):
    """What a sum or product is computed in: at least 64 bits for integers."""
    a = anfora.as_tensor(a)
    if a.dtype == numpy.bool_ or a.dtype == numpy.int32 or a.dtype == numpy.int16 or a.dtype == numpy.int8:
        return anfora.cast(a, numpy.int64)
    if a.dtype == numpy.uint32 or a.dtype == numpy.uint16 or a.dtype == numpy.uint8:
        return anfora.cast(a, numpy.uint64)
    return a


def sum(a, axis=None, keepdims=False):
    return ops.ReduceSum(of_integers(a), axes_of(axis), keepdims=keepdims)


def prod(a, axis=None, keepdims=False):
    return ops.ReduceProd(of_integers(a), axes_of(axis), keepdims=keepdims)


def mean(a, axis=None, keepdims=False):
    a = anfora.as_tensor(a)
    if a.dtype == numpy.bool_ or not is_floating(a):
        a = anfora.cast(a, numpy.float64)
    return ops.ReduceMean(a, axes_of(axis), keepdims=keepdims)


def is_floating(a):
    return a.dtype == numpy.float64 or a.dtype == numpy.float32 or a.dtype == numpy.float16


def count(a, axis):
    """How many elements a reduction over these axes takes together."""
    if axis is None:
        return size(a)
    number = 1
    for one in (axis if isinstance(axis, tuple) else (axis,)):
        number = number * a.shape[one]
    return number


def var(a, axis=None, ddof=0, keepdims=False):
    a = anfora.as_tensor(a)
    a = a if is_floating(a) else anfora.cast(a, numpy.float64)
    centred = a - mean(a, axis, True)
    return sum(centred * centred, axis, keepdims) / (count(a, axis) - ddof)


def std(a, axis=None, ddof=0, keepdims=False): return sqrt(var(a, axis, ddof, keepdims))


def max(a, axis=None, keepdims=False):
    a = anfora.as_tensor(a)
    if a.dtype == numpy.bool_:
        return any(a, axis, keepdims)
    return ops.ReduceMax(a, axes_of(axis), keepdims=keepdims)


def min(a, axis=None, keepdims=False):
    a = anfora.as_tensor(a)
    if a.dtype == numpy.bool_:
        return all(a, axis, keepdims)
    return ops.ReduceMin(a, axes_of(axis), keepdims=keepdims)


def amax(a, axis=None, keepdims=False): return max(a, axis, keepdims)
def amin(a, axis=None, keepdims=False): return min(a, axis, keepdims)
def ptp(a, axis=None): return max(a, axis) - min(a, axis)


def any(a, axis=None, keepdims=False):
    truth = anfora.cast(anfora.cast(a, numpy.bool_), numpy.int32)
    return anfora.cast(ops.ReduceMax(truth, axes_of(axis), keepdims=keepdims), numpy.bool_)


def all(a, axis=None, keepdims=False):
    truth = anfora.cast(anfora.cast(a, numpy.bool_), numpy.int32)
    return anfora.cast(ops.ReduceMin(truth, axes_of(axis), keepdims=keepdims), numpy.bool_)


def count_nonzero(a, axis=None): return sum(anfora.cast(anfora.cast(a, numpy.bool_), numpy.int64), axis)


def argmax(a, axis=None, keepdims=False):
    if axis is None:
        return ops.ArgMax(ops.Reshape(a, (-1,)), axis=0, keepdims=False)
    return ops.ArgMax(a, axis=axis, keepdims=keepdims)


def argmin(a, axis=None, keepdims=False):
    if axis is None:
        return ops.ArgMin(ops.Reshape(a, (-1,)), axis=0, keepdims=False)
    return ops.ArgMin(a, axis=axis, keepdims=keepdims)


def cumsum(a, axis=None):
    a = of_integers(a)
    if axis is None:
        return ops.CumSum(ops.Reshape(a, (-1,)), anfora.as_tensor(0))
    return ops.CumSum(a, anfora.as_tensor(axis))


def average(a, axis=None, weights=None):
    if weights is None:
        return mean(a, axis)
    return sum(a * weights, axis) / sum(weights, axis)


# Shapes ------------------------------------------------------------------------------------------------------------

def shape(a): return a.shape
def ndim(a): return 0 if anfora.is_number(a) else a.ndim


def size(a):
    number = 1
    for n in a.shape:
        number = number * n
    return number


def reshape(a, shape): return ops.Reshape(a, anfora.shape_of(shape), allowzero=1)
def ravel(a): return ops.Reshape(a, (-1,))
def expand_dims(a, axis): return ops.Unsqueeze(a, anfora.shape_of(axis))
def squeeze(a, axis=None): return ops.Squeeze(a, axes_of(axis))
def broadcast_to(a, shape): return ops.Expand(a, anfora.shape_of(shape))
def atleast_1d(a): return reshape(a, 1) if ndim(a) == 0 else a


def transpose(a, axes=None):
    return ops.Transpose(a, perm=axes)


def matrix_transpose(x): return swapaxes(x, -1, -2)
def permute_dims(a, axes): return transpose(a, axes)


def swapaxes(a, axis1, axis2):
    perm = list(range(a.ndim))
    perm[axis1], perm[axis2] = perm[axis2], perm[axis1]
    return ops.Transpose(a, perm=perm)


def moveaxis(a, source, destination):
    source = source % a.ndim
    perm = [i for i in range(a.ndim) if i != source]
    perm.insert(destination % a.ndim, source)
    return ops.Transpose(a, perm=perm)


def concatenate(arrays, axis=0):
    return ops.Concat(*anfora.promote(*arrays), axis=axis)


def stack(arrays, axis=0):
    return ops.Concat(*[expand_dims(a, axis) for a in anfora.promote(*arrays)], axis=axis)


def hstack(arrays): return concatenate(arrays, 0 if ndim(arrays[0]) == 1 else 1)
def vstack(arrays): return concatenate([expand_dims(a, 0) if ndim(a) == 1 else a for a in arrays], 0)


def flip(a, axis=None):
    for one in (range(a.ndim) if axis is None else (axis,)):
        a = ops.Slice(a, (-1,), (-9223372036854775807,), (one,), (-1,))
    return a


def roll(a, shift, axis=None):
    rolled = ravel(a) if axis is None else a
    axis = 0 if axis is None else axis
    n = rolled.shape[axis]
    return reshape(ops.Gather(rolled, (arange(n) - shift) % n, axis=axis), a.shape)


def repeat(a, repeats, axis=None):
    if axis is None:
        a = ravel(a)
        axis = 0
    positions = arange(a.shape[axis] * repeats) // repeats
    return ops.Gather(a, positions, axis=axis)


def tile(a, reps):
    reps = reps if isinstance(reps, tuple) else (reps,)
    while ndim(a) < len(reps):
        a = expand_dims(a, 0)
    while len(reps) < ndim(a):
        reps = (1,) + reps
    return ops.Tile(a, anfora.shape_of(reps))


def take(a, indices, axis=None):
    if axis is None:
        return ops.Gather(ravel(a), indices, axis=0)
    return ops.Gather(a, indices, axis=axis)


def take_along_axis(a, indices, axis): return ops.GatherElements(a, indices, axis=axis)
def diff(a): return a[..., 1:] - a[..., :-1]


def sort(a, axis=-1):
    values, positions = ops.TopK(a, anfora.shape_of(a.shape[axis]), axis=axis, largest=0, outputs=2)
    return values


def argsort(a, axis=-1):
    values, positions = ops.TopK(a, anfora.shape_of(a.shape[axis]), axis=axis, largest=0, outputs=2)
    return positions


def pad(a, pad_width, constant_values=0):
    before = [pair[0] for pair in pad_width]
    after = [pair[1] for pair in pad_width]
    return ops.Pad(a, anfora.shape_of(before + after), constant_values)


def nonzero(a):
    found = ops.NonZero(a)
    return tuple([found[i] for i in range(a.ndim)])


# Making tensors ----------------------------------------------------------------------------------------------------

def full(shape, fill_value, dtype=None):
    value = anfora.as_tensor(fill_value) if dtype is None else anfora.cast(fill_value, dtype)
    return ops.Expand(value, anfora.shape_of(shape))


def zeros(shape, dtype=numpy.float64): return full(shape, 0, dtype)
def ones(shape, dtype=numpy.float64): return full(shape, 1, dtype)
def empty(shape, dtype=numpy.float64): return full(shape, 0, dtype)
def zeros_like(a, dtype=None): return full(a.shape, 0, a.dtype if dtype is None else dtype)
def ones_like(a, dtype=None): return full(a.shape, 1, a.dtype if dtype is None else dtype)
def empty_like(a, dtype=None): return zeros_like(a, dtype)
def full_like(a, fill_value, dtype=None): return full(a.shape, fill_value, a.dtype if dtype is None else dtype)


def arange(start, stop=None, step=1, dtype=None):
    if stop is None:
        start, stop = 0, start
    start, stop, step = anfora.promote(start, stop, step)
    made = ops.Range(start, stop, step)
    return made if dtype is None else anfora.cast(made, dtype)


def linspace(start, stop, num=50):
    return start + arange(num) * ((stop - start) / (num - 1))


def eye(N, M=None, dtype=numpy.float64):
    M = N if M is None else M
    return anfora.cast(arange(N)[:, None] == arange(M)[None, :], dtype)


def identity(n, dtype=numpy.float64): return eye(n, None, dtype)


def asarray(a, dtype=None):
    return anfora.as_tensor(a) if dtype is None else anfora.cast(a, dtype)


def array(a, dtype=None): return asarray(a, dtype)
def copy(a): return ops.Identity(a)
def tril(a, k=0): return ops.Trilu(a, anfora.as_tensor(k), upper=0)
def triu(a, k=0): return ops.Trilu(a, anfora.as_tensor(k), upper=1)


def diag(v, k=0):
    if k != 0:
        anfora.fail("numpy.diag of another diagonal than the main one is not supported")
    if v.ndim == 1:
        return where(arange(v.shape[0])[:, None] == arange(v.shape[0])[None, :], v, zeros_like(v))
    n = v.shape[0] if v.shape[0] < v.shape[1] else v.shape[1]
    return v[arange(n), arange(n)]


def trace(a): return sum(diag(a))


# Products ----------------------------------------------------------------------------------------------------------

def matmul(a, b): return a @ b


def dot(a, b):
    if ndim(a) == 0 or ndim(b) == 0:
        return a * b
    if b.ndim <= 2:
        return a @ b
    anfora.fail("numpy.dot of a tensor of more than two axes on the right is not supported: numpy.matmul or einsum say which axes are meant")


def vdot(a, b): return sum(ravel(a) * ravel(b))
def inner(a, b): return a * b if ndim(a) == 0 or ndim(b) == 0 else (sum(a * b) if a.ndim == 1 and b.ndim == 1 else a @ swapaxes(b, -1, -2))
def outer(a, b): return ravel(a)[:, None] * ravel(b)[None, :]
def einsum(subscripts, *operands): return ops.Einsum(*anfora.promote(*operands), equation=subscripts)
def tensordot(a, b, axes=2): return einsum("ij,jk->ik", reshape(a, (-1, count(b, tuple(range(axes))))), reshape(b, (count(b, tuple(range(axes))), -1)))
def kron(a, b): return reshape(a[:, None, :, None] * b[None, :, None, :], (a.shape[0] * b.shape[0], a.shape[1] * b.shape[1]))


def convolve(a, v, mode="full"):
    a, v = anfora.promote(a, v)
    n = v.shape[0]
    padding = n - 1 if mode == "full" else 0
    if mode == "same":
        anfora.fail("numpy.convolve with mode='same' is not supported")
    signal = ops.Pad(a, anfora.shape_of((padding, padding)))
    return ops.Conv(signal[None, None, :], flip(v)[None, None, :])[0, 0]

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
def pow(x, y): return x ** y
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
def expm1(x): return (ops.Exp(anfora.as_float(x)) + 1) * ops.Tanh(x / 2)  # exact near 0, too
def log(x): return ops.Log(anfora.as_float(x))
def log2(x): return ops.Log(anfora.as_float(x)) / numpy.log(2.0)
def log10(x): return ops.Log(anfora.as_float(x)) / numpy.log(10.0)
def sqrt(x): return ops.Sqrt(anfora.as_float(x))
def cbrt(x): return sign(x) * ops.Pow(ops.Abs(anfora.as_float(x)), 1 / 3)
def sin(x): return ops.Sin(anfora.as_float(x))
def cos(x): return ops.Cos(anfora.as_float(x))
def tan(x): return ops.Tan(anfora.as_float(x))
def arcsin(x): return ops.Asin(anfora.as_float(x))
def asin(x): return ops.Asin(anfora.as_float(x))
def arccos(x): return ops.Acos(anfora.as_float(x))
def acos(x): return ops.Acos(anfora.as_float(x))
def arctan(x): return ops.Atan(anfora.as_float(x))
def atan(x): return ops.Atan(anfora.as_float(x))
def sinh(x): return ops.Sinh(anfora.as_float(x))
def cosh(x): return ops.Cosh(anfora.as_float(x))
def tanh(x): return ops.Tanh(anfora.as_float(x))
def arcsinh(x): return ops.Asinh(anfora.as_float(x))
def asinh(x): return ops.Asinh(anfora.as_float(x))
def arccosh(x): return ops.Acosh(anfora.as_float(x))
def acosh(x): return ops.Acosh(anfora.as_float(x))
def arctanh(x): return ops.Atanh(anfora.as_float(x))
def atanh(x): return ops.Atanh(anfora.as_float(x))
def floor(x): return x if _is_whole(x) else ops.Floor(x)
def ceil(x): return x if _is_whole(x) else ops.Ceil(x)
def rint(x): return ops.Round(anfora.as_float(x))
def isnan(x): return ops.IsNaN(anfora.as_float(x))
def isinf(x): return ops.IsInf(anfora.as_float(x))
def isfinite(x): return ops.Not(ops.Or(isnan(x), isinf(x)))
def radians(x): return deg2rad(x)
def degrees(x): return rad2deg(x)
def sinc(x): return where(x == 0, 1.0, sin(numpy.pi * where(x == 0, 1.0, x)) / (numpy.pi * where(x == 0, 1.0, x)))
def fmax(x, y): return where(isnan(x), y, where(isnan(y), x, maximum(x, y)))
def fmin(x, y): return where(isnan(x), y, where(isnan(y), x, minimum(x, y)))
def logaddexp2(x, y): return logaddexp(x * numpy.log(2.0), y * numpy.log(2.0)) / numpy.log(2.0)
def deg2rad(x): return x * (numpy.pi / 180)
def rad2deg(x): return x * (180 / numpy.pi)


def log1p(x):
    x = anfora.as_float(x)
    small = clip(x, -0.5, 0.5)
    return where(abs(x) < 0.5, 2 * ops.Atanh(small / (2 + small)), ops.Log(1 + x))


def _is_whole(x):
    x = anfora.as_tensor(x)
    return not _is_floating(x) and x.dtype != numpy.complex64 and x.dtype != numpy.complex128


def trunc(x): return x if _is_whole(x) else copysign(ops.Floor(ops.Abs(x)), x)


def round(x, decimals=0):
    if decimals == 0:
        return x if _is_whole(x) else rint(x)
    if _is_whole(x) and decimals > 0:
        return x
    rounded = rint(x * 10.0 ** decimals) / 10.0 ** decimals
    return anfora.cast(rounded, anfora.as_tensor(x).dtype) if _is_whole(x) else rounded


def around(a, decimals=0): return round(a, decimals)


def _bits_of(x):
    """Of a float, as an integer of as many."""
    return ops.BitCast(x, to=numpy.int64 if x.dtype == numpy.float64 else numpy.int32 if x.dtype == numpy.float32 else numpy.int16)


def _float_tensors(x, y):
    x, y = anfora.promote(anfora.as_float(x), anfora.as_float(y))
    return anfora.as_tensor(x), anfora.as_tensor(y)


def signbit(x): return _bits_of(anfora.as_tensor(anfora.as_float(x))) < 0


def copysign(x, y):
    x, y = _float_tensors(x, y)
    return ops.Where(signbit(y), -ops.Abs(x), ops.Abs(x))


def nextafter(x, y):
    x, y = _float_tensors(x, y)
    bits = _bits_of(x)
    smallest = copysign(ops.BitCast(ones_like(bits), to=x.dtype), y)
    next = where(x == 0, smallest, ops.BitCast(bits + where((x < y) == (x > 0), ones_like(bits), -ones_like(bits)), to=x.dtype))
    return where(ops.Or(isnan(x), isnan(y)), x + y, where(x == y, y, next))


def atan2(y, x): return arctan2(y, x)


def arctan2(y, x):
    y, x = _float_tensors(y, x)
    rise, run = ops.Abs(y), ops.Abs(x)
    # Equal infinities and zeros have no quotient.
    without = ops.And(rise == run, ops.Or(rise == 0, isinf(rise)))
    angle = where(without, where(rise == 0, rise, numpy.pi / 4), ops.Atan(rise / run))
    angle = where(ops.Or(isnan(x), isnan(y)), x + y, angle)
    return copysign(where(signbit(x), numpy.pi - angle, angle), y)


def logaddexp(x, y):
    x, y = _float_tensors(x, y)
    larger = maximum(x, y)
    return where(x == y, (x + y) / 2 + 0.6931471805599453, larger + log1p(ops.Exp(-ops.Abs(x - y))))


def conj(x): return real(x)
def conjugate(x): return real(x)


def real(x):
    x = anfora.as_tensor(x)
    if x.dtype == numpy.complex64 or x.dtype == numpy.complex128:
        anfora.fail("parts of complex numbers are not supported")
    return x


def imag(x): return zeros_like(real(x))
def real_if_close(a): return real(a)


def angle(z, deg=False):
    z = real(anfora.as_float(z))
    return rad2deg(arctan2(zeros_like(z), z)) if deg else arctan2(zeros_like(z), z)


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
def bitwise_left_shift(x, y): return x << y
def bitwise_right_shift(x, y): return x >> y
def bitwise_invert(x): return ~x
def bitwise_not(x): return ~x
def invert(x): return ~x
def left_shift(x, y): return x << y
def right_shift(x, y): return x >> y


def where(condition, x=None, y=None):
    if x is None and y is None:
        return nonzero(condition)
    x, y = anfora.promote(x, y)
    return ops.Where(anfora.cast(condition, numpy.bool_), x, y)


def clip(a, a_min=None, a_max=None, *, min=None, max=None):
    a_min = min if a_min is None else a_min
    a_max = max if a_max is None else a_max
    if a_min is not None:
        a = maximum(a, a_min)
    if a_max is not None:
        a = minimum(a, a_max)
    return a


def hypot(x, y): return sqrt(x * x + y * y)
def isclose(a, b, rtol=1e-5, atol=1e-8): return abs(a - b) <= atol + rtol * abs(b)
def allclose(a, b, rtol=1e-5, atol=1e-8): return all(isclose(a, b, rtol, atol))


def _largest(x): return 3.4028234663852886e38 if x.dtype == numpy.float32 else 65504.0 if x.dtype == numpy.float16 else 1.7976931348623157e308


def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    if _is_whole(x):
        return x
    x = anfora.as_tensor(x)
    most, least = _largest(x) if posinf is None else posinf, -_largest(x) if neginf is None else neginf
    return where(isnan(x), nan, where(isinf(x), where(x > 0, most, least), x))


# Reductions --------------------------------------------------------------------------------------------------------

def _axes_of(axis):
    if axis is None:
        return None
    return anfora.shape_of(axis)


def _is_empty(axis): return isinstance(axis, tuple) and len(axis) == 0


def _of_integers(a):
    """What a sum or product is computed in: at least 64 bits for integers."""
    a = anfora.as_tensor(a)
    if a.dtype == numpy.bool_ or a.dtype == numpy.int32 or a.dtype == numpy.int16 or a.dtype == numpy.int8:
        return anfora.cast(a, numpy.int64)
    if a.dtype == numpy.uint32 or a.dtype == numpy.uint16 or a.dtype == numpy.uint8:
        return anfora.cast(a, numpy.uint64)
    return a


def sum(a, axis=None, dtype=None, keepdims=False):
    a = _of_integers(a) if dtype is None else anfora.cast(a, dtype)
    return a if _is_empty(axis) else ops.ReduceSum(a, _axes_of(axis), keepdims=keepdims)


def prod(a, axis=None, dtype=None, keepdims=False):
    a = _of_integers(a) if dtype is None else anfora.cast(a, dtype)
    return a if _is_empty(axis) else ops.ReduceProd(a, _axes_of(axis), keepdims=keepdims)


def mean(a, axis=None, keepdims=False):
    a = anfora.as_tensor(a)
    if a.dtype == numpy.bool_ or not _is_floating(a):
        a = anfora.cast(a, numpy.float64)
    return a if _is_empty(axis) else ops.ReduceMean(a, _axes_of(axis), keepdims=keepdims)


def _is_floating(a):
    return a.dtype == numpy.float64 or a.dtype == numpy.float32 or a.dtype == numpy.float16


def _count(a, axis):
    """How many elements a reduction over these axes takes together."""
    if axis is None:
        return size(a)
    number = 1
    for one in (axis if isinstance(axis, tuple) else (axis,)):
        number = number * a.shape[one]
    return number


def var(a, axis=None, ddof=0, keepdims=False, correction=None):
    ddof = ddof if correction is None else correction
    a = anfora.as_tensor(a)
    a = a if _is_floating(a) else anfora.cast(a, numpy.float64)
    centred = a - mean(a, axis, True)
    return sum(centred * centred, axis, None, keepdims) / (_count(a, axis) - ddof)


def std(a, axis=None, ddof=0, keepdims=False, correction=None):
    ddof = ddof if correction is None else correction
    a = anfora.as_tensor(a)
    a = a if _is_floating(a) else anfora.cast(a, numpy.float64)
    return _length(a - mean(a, axis, True), axis, keepdims) / sqrt(_count(a, axis) - ddof)


def _length(a, axis, keepdims):
    """The Euclidean norm, whose gradient at 0 is 0."""
    return abs(a) if _is_empty(axis) else ops.ReduceL2(a, _axes_of(axis), keepdims=keepdims)


def _of_32_bits(a):
    """Integers of 16 bits are no type of ONNX's reductions."""
    return anfora.cast(a, numpy.int32) if a.dtype == numpy.int16 or a.dtype == numpy.uint16 else a


def max(a, axis=None, keepdims=False):
    a = anfora.as_tensor(a)
    if a.dtype == numpy.bool_:
        return any(a, axis, keepdims)
    return a if _is_empty(axis) else anfora.cast(ops.ReduceMax(_of_32_bits(a), _axes_of(axis), keepdims=keepdims), a.dtype)


def min(a, axis=None, keepdims=False):
    a = anfora.as_tensor(a)
    if a.dtype == numpy.bool_:
        return all(a, axis, keepdims)
    return a if _is_empty(axis) else anfora.cast(ops.ReduceMin(_of_32_bits(a), _axes_of(axis), keepdims=keepdims), a.dtype)


def amax(a, axis=None, keepdims=False): return max(a, axis, keepdims)
def amin(a, axis=None, keepdims=False): return min(a, axis, keepdims)
def ptp(a, axis=None): return max(a, axis) - min(a, axis)


def any(a, axis=None, keepdims=False):
    truth = anfora.cast(anfora.cast(a, numpy.bool_), numpy.uint8)  # the largest of none is 0
    return anfora.cast(truth if _is_empty(axis) else ops.ReduceMax(truth, _axes_of(axis), keepdims=keepdims), numpy.bool_)


def all(a, axis=None, keepdims=False):
    truth = anfora.cast(anfora.cast(a, numpy.bool_), numpy.int32)
    return anfora.cast(truth if _is_empty(axis) else ops.ReduceMin(truth, _axes_of(axis), keepdims=keepdims), numpy.bool_)


def count_nonzero(a, axis=None, keepdims=False): return sum(anfora.cast(anfora.cast(a, numpy.bool_), numpy.int64), axis, None, keepdims)


def argmax(a, axis=None, keepdims=False):
    if axis is None:
        found = ops.ArgMax(ops.Reshape(a, (-1,)), axis=0, keepdims=False)
        return reshape(found, tuple([1 for _ in range(a.ndim)])) if keepdims else found
    return ops.ArgMax(a, axis=axis, keepdims=keepdims)


def argmin(a, axis=None, keepdims=False):
    if axis is None:
        found = ops.ArgMin(ops.Reshape(a, (-1,)), axis=0, keepdims=False)
        return reshape(found, tuple([1 for _ in range(a.ndim)])) if keepdims else found
    return ops.ArgMin(a, axis=axis, keepdims=keepdims)


def cumsum(a, axis=None):
    a = _of_integers(a)
    if axis is None:
        return ops.CumSum(ops.Reshape(a, (-1,)), anfora.as_tensor(0))
    return ops.CumSum(a, anfora.as_tensor(axis))


def _cumulative(a, axis, dtype):
    a = _of_integers(a) if dtype is None else anfora.cast(a, dtype)
    if axis is not None:
        return a, axis
    if ndim(a) != 1:
        anfora.fail("axis must be given where there are several")
    return a, 0


def cumulative_sum(x, axis=None, dtype=None, include_initial=False):
    x, axis = _cumulative(x, axis, dtype)
    sums = ops.CumSum(x, anfora.as_tensor(axis))
    return concatenate([zeros_like(sum(x, axis, None, True)), sums], axis) if include_initial else sums


def cumulative_prod(x, axis=None, dtype=None, include_initial=False):
    x, axis = _cumulative(x, axis, dtype)
    products = ops.CumProd(x, anfora.as_tensor(axis))
    return concatenate([ones_like(sum(x, axis, None, True)), products], axis) if include_initial else products


def cumprod(a, axis=None):
    a = _of_integers(a)
    if axis is None:
        return ops.CumProd(ops.Reshape(a, (-1,)), anfora.as_tensor(0))
    return ops.CumProd(a, anfora.as_tensor(axis))


def average(a, axis=None, weights=None):
    if weights is None:
        return mean(a, axis)
    return sum(a * weights, axis) / sum(weights, axis)


# Shapes ------------------------------------------------------------------------------------------------------------

def shape(a): return a.shape
def ndim(a): return 0 if anfora.is_number(a) else a.ndim


def size(a, axis=None):
    if axis is not None:
        return a.shape[axis]
    number = 1
    for n in a.shape:
        number = number * n
    return number


def reshape(a, shape, copy=None): return ops.Reshape(a, anfora.shape_of(shape), allowzero=1)
def ravel(a): return ops.Reshape(a, (-1,))
def expand_dims(a, axis): return ops.Unsqueeze(a, anfora.shape_of(axis))
def squeeze(a, axis=None): return ops.Squeeze(a, _axes_of(axis))
def broadcast_to(a, shape): return ops.Expand(a, anfora.shape_of(shape))
def atleast_1d(a): return reshape(a, 1) if ndim(a) == 0 else a
def atleast_2d(a): return reshape(a, (1, -1)) if ndim(a) <= 1 else a
def atleast_3d(a): return reshape(a, (1, -1, 1)) if ndim(a) <= 1 else a[:, :, None] if a.ndim == 2 else a


def transpose(a, axes=None):
    return ops.Transpose(a, perm=axes)


def matrix_transpose(x): return swapaxes(x, -1, -2)
def permute_dims(a, axes): return transpose(a, axes)


def swapaxes(a, axis1, axis2):
    perm = list(range(a.ndim))
    perm[axis1], perm[axis2] = perm[axis2], perm[axis1]
    return ops.Transpose(a, perm=perm)


def _each_of(axes): return axes if isinstance(axes, tuple) else (axes,)


def moveaxis(a, source, destination):
    sources = [one % a.ndim for one in _each_of(source)]
    destinations = [one % a.ndim for one in _each_of(destination)]
    rest = [i for i in range(a.ndim) if i not in sources]
    perm = [sources[_place_of(i, destinations)] if i in destinations else rest[i - len([d for d in destinations if d < i])] for i in range(a.ndim)]
    return ops.Transpose(a, perm=perm)


def _place_of(item, items): return [i for i in range(len(items)) if items[i] == item][0]


def unstack(x, axis=0):
    rows = moveaxis(x, axis, 0)
    return tuple([rows[i] for i in range(rows.shape[0])])


def concatenate(arrays, axis=0):
    if axis is None:
        return ops.Concat(*anfora.promote(*[ravel(a) for a in arrays]), axis=0)
    return ops.Concat(*anfora.promote(*arrays), axis=axis)


def concat(arrays, axis=0): return concatenate(arrays, axis)


def broadcast_arrays(*arrays):
    common = logical_not(arrays[0])
    for a in arrays[1:]:
        common = logical_or(common, a)
    shape = ops.Shape(common)
    return tuple([ops.Expand(a, shape) for a in arrays])


def meshgrid(*arrays, indexing="xy"):
    n = len(arrays)
    grids = []
    for i in range(n):
        axis = 1 - i if indexing == "xy" and n > 1 and i < 2 else i
        grids.append(reshape(arrays[i], tuple([-1 if k == axis else 1 for k in range(n)])))
    return list(broadcast_arrays(*grids))


def stack(arrays, axis=0):
    if not anfora.is_known(len(arrays)):
        return moveaxis(asarray(arrays), 0, axis)
    return ops.Concat(*[expand_dims(a, axis) for a in anfora.promote(*arrays)], axis=axis)


def hstack(arrays): return concatenate([atleast_1d(a) for a in arrays], 0 if ndim(arrays[0]) <= 1 else 1)
def vstack(arrays): return concatenate([atleast_2d(a) for a in arrays], 0)
def row_stack(arrays): return vstack(arrays)
def dstack(arrays): return concatenate([atleast_3d(a) for a in arrays], 2)
def column_stack(arrays): return concatenate([atleast_2d(a).T if ndim(a) <= 1 else a for a in arrays], 1)
def _r___getitem__(index): return concatenate([atleast_1d(_ranged(item)) for item in _each_of(index)], 0)
def _c___getitem__(index): return concatenate([_column(_ranged(item)) for item in _each_of(index)], -1)
def _ranged(item): return arange(item.start or 0, item.stop, item.step or 1) if isinstance(item, slice) else item
def _column(a): return expand_dims(atleast_1d(a), 1) if ndim(a) <= 1 else a
def append(arr, values, axis=None): return concatenate((asarray(arr), asarray(values)), axis)


def split(ary, indices_or_sections, axis=0):
    if isinstance(indices_or_sections, int):
        part = ary.shape[axis] // indices_or_sections
        return _parts(ary, [i * part for i in range(indices_or_sections + 1)], axis)
    return _parts(ary, [0] + [i for i in indices_or_sections] + [ary.shape[axis]], axis)


def array_split(ary, indices_or_sections, axis=0):
    if isinstance(indices_or_sections, int):
        part, rest = ary.shape[axis] // indices_or_sections, ary.shape[axis] % indices_or_sections
        return _parts(ary, [i * part + (i if i < rest else rest) for i in range(indices_or_sections + 1)], axis)
    return split(ary, indices_or_sections, axis)


def _parts(a, bounds, axis):
    return [ops.Slice(a, anfora.shape_of((bounds[i],)), anfora.shape_of((bounds[i + 1],)), (axis,)) for i in range(len(bounds) - 1)]


def hsplit(ary, indices_or_sections): return split(ary, indices_or_sections, 0 if ary.ndim == 1 else 1)
def vsplit(ary, indices_or_sections): return split(ary, indices_or_sections, 0)
def dsplit(ary, indices_or_sections): return split(ary, indices_or_sections, 2)
def flipud(m): return flip(m, 0)
def fliplr(m): return flip(m, 1)


def rot90(m, k=1, axes=(0, 1)):
    if k % 4 == 0:
        return m
    if k % 4 == 2:
        return flip(m, axes)
    return swapaxes(flip(m, axes[1]), axes[0], axes[1]) if k % 4 == 1 else flip(swapaxes(m, axes[0], axes[1]), axes[1])


def rollaxis(a, axis, start=0):
    axis = axis % a.ndim
    return moveaxis(a, axis, start - 1 if axis < start else start)


def flip(a, axis=None):
    for one in (range(a.ndim) if axis is None else _each_of(axis)):
        a = ops.Slice(a, (-1,), (-9223372036854775807,), (one,), (-1,))
    return a


def roll(a, shift, axis=None):
    rolled = ravel(a) if axis is None else a
    shifts, axes = _each_of(shift), _each_of(0 if axis is None else axis)
    for i in range(len(axes)):
        by = shifts[i if len(shifts) > 1 else 0]
        by_one = anfora.is_known(by) and -1 <= by <= 1
        start = anfora.shape_of((-by if by_one else -by % maximum(rolled.shape[axes[i]], 1),))
        rolled = ops.Concat(ops.Slice(rolled, start, (9223372036854775807,), (axes[i],)), ops.Slice(rolled, (0,), start, (axes[i],)), axis=axes[i])
    return reshape(rolled, a.shape)


def repeat(a, repeats, axis=None):
    if axis is None:
        a = ravel(a)
        axis = 0
    if anfora.is_number(repeats) or ndim(repeats) == 0:
        positions = arange(a.shape[axis] * repeats) // repeats
    else:
        ends = cumsum(ops.Expand(repeats, anfora.shape_of(a.shape[axis])))
        positions = searchsorted(ends, arange(int(ends[-1])), "right")
    return ops.Gather(a, positions, axis=axis)


def tile(a, reps):
    reps = _each_of(reps)
    a = expand_dims(a, tuple(range(len(reps) - ndim(a)))) if len(reps) > ndim(a) else a
    return ops.Tile(a, anfora.shape_of(tuple([1 for _ in range(ndim(a) - len(reps))]) + reps))


def take(a, indices, axis=None):
    if axis is None:
        return ops.Gather(ravel(a), indices, axis=0)
    return ops.Gather(a, indices, axis=axis)


def take_along_axis(a, indices, axis=-1): return ops.GatherElements(a, indices, axis=axis)


def diff(a, n=1, axis=-1, prepend=None, append=None):
    parts = [] if prepend is None else [prepend]
    parts.append(a)
    if append is not None:
        parts.append(append)
    a = moveaxis(concatenate(parts, axis) if len(parts) > 1 else a, axis, -1)
    for _ in range(n):
        a = a[..., 1:] != a[..., :-1] if a.dtype == numpy.bool_ else a[..., 1:] - a[..., :-1]
    return moveaxis(a, -1, axis)


def gradient(f, *spacing, axis=None):
    axes = tuple(range(f.ndim)) if axis is None else _each_of(axis)
    slopes = [_slope(f, spacing[i if len(spacing) > 1 else 0] if len(spacing) > 0 else 1.0, axes[i]) for i in range(len(axes))]
    return slopes[0] if len(axes) == 1 else tuple(slopes)


def _slope(f, step, axis):
    """Central differences, and one-sided ones at the ends."""
    if not anfora.is_number(step) and ndim(step) > 0:
        anfora.fail("numpy.gradient is supported with equal distances")
    f = moveaxis(f, axis, -1)
    inner = (f[..., 2:] - f[..., :-2]) / 2
    return moveaxis(concatenate((f[..., 1:2] - f[..., :1], inner, f[..., -1:] - f[..., -2:-1]), -1), -1, axis) / step


def _sorted_by(a, axis, descending):
    """The elements in order, and where they were; equal ones keep their order."""
    ordered = anfora.cast(a, numpy.uint8) if a.dtype == numpy.bool_ else a
    values, positions = ops.TopK(ordered, anfora.shape_of(a.shape[axis]), axis=axis, largest=descending, outputs=2)
    return anfora.cast(values, a.dtype), positions


def sort(a, axis=-1, descending=False, stable=True): return _sorted_by(a, axis, descending)[0]
def argsort(a, axis=-1, descending=False, stable=True): return _sorted_by(a, axis, descending)[1]


def searchsorted(a, v, side="left", sorter=None):
    a, v = anfora.promote(a if sorter is None else take(a, sorter), v)
    below = a < expand_dims(v, -1) if side == "left" else a <= expand_dims(v, -1)
    return sum(below, -1)


def isin(element, test_elements, invert=False):
    element, test_elements = anfora.promote(element, test_elements)
    found = any(expand_dims(element, -1) == ravel(test_elements), -1)
    return logical_not(found) if invert else found


def unique_all(x):
    values, indices, inverse, counts = ops.Unique(x, outputs=4)
    return values, indices, reshape(inverse, x.shape), counts


def unique_counts(x):
    values, indices, inverse, counts = ops.Unique(x, outputs=4)
    return values, counts


def unique_inverse(x):
    values, indices, inverse = ops.Unique(x, outputs=3)
    return values, reshape(inverse, x.shape)


def unique_values(x): return ops.Unique(x)


def pad(a, pad_width, mode="constant", constant_values=0):
    if mode != "constant" and mode != "edge" and mode != "reflect" and mode != "wrap":
        anfora.fail("numpy.pad is supported with mode='constant', 'edge', 'reflect' and 'wrap'")
    if anfora.is_number(pad_width):
        pairs = [(pad_width, pad_width)]
    elif anfora.is_number(pad_width[0]):
        pairs = [pad_width]
    else:
        pairs = pad_width
    pairs = [pairs[i if len(pairs) > 1 else 0] for i in range(a.ndim)]
    widths = anfora.shape_of([pair[0] for pair in pairs] + [pair[-1] for pair in pairs])
    return ops.Pad(a, widths, anfora.cast(constant_values, a.dtype)) if mode == "constant" else ops.Pad(a, widths, mode=mode)


def nonzero(a):
    found = ops.NonZero(a)
    return tuple([found[i] for i in range(a.ndim)])


# Making tensors ----------------------------------------------------------------------------------------------------

def full(shape, fill_value, dtype=None, order=None, device=None):
    value = anfora.as_tensor(fill_value) if dtype is None else anfora.cast(fill_value, dtype)
    return ops.Expand(value, anfora.shape_of(shape))


def zeros(shape, dtype=None, order=None, device=None): return full(shape, 0, numpy.float64 if dtype is None else dtype)
def ones(shape, dtype=None, order=None, device=None): return full(shape, 1, numpy.float64 if dtype is None else dtype)
def empty(shape, dtype=None, order=None, device=None): return full(shape, 0, numpy.float64 if dtype is None else dtype)


def full_like(a, fill_value, dtype=None, order=None, subok=True, shape=None, device=None):
    a = anfora.as_tensor(a)
    return full(a.shape if shape is None else shape, fill_value, a.dtype if dtype is None else dtype)


def zeros_like(a, dtype=None, order=None, subok=True, shape=None, device=None): return full_like(a, 0, dtype, None, True, shape)
def ones_like(a, dtype=None, order=None, subok=True, shape=None, device=None): return full_like(a, 1, dtype, None, True, shape)
def empty_like(a, dtype=None, order=None, subok=True, shape=None, device=None): return full_like(a, 0, dtype, None, True, shape)


def arange(start, stop=None, step=1, dtype=None, device=None):
    if stop is None:
        start, stop = 0, start
    start, stop, step = anfora.promote(start, stop, step)
    made = ops.Range(start, stop, step)
    return made if dtype is None else anfora.cast(made, dtype)


def linspace(start, stop, num=50, endpoint=True, dtype=None, device=None):
    intervals = num - 1 if endpoint else num
    step = (stop - start) / (1 if intervals == 0 else intervals)
    counter = reshape(arange(num), (-1,) + (1,) * ndim(step))
    points = start + anfora.cast(counter, numpy.float64 if anfora.is_number(step) else step.dtype) * step
    if endpoint and num > 1:
        points = where(counter == num - 1, stop, points)
    if dtype is None:
        return points
    made = zeros(1, dtype)
    return anfora.cast(floor(points) if _is_whole(made) and made.dtype != numpy.bool_ else points, dtype)


def eye(N, M=None, k=0, dtype=None, device=None):
    M = N if M is None else M
    return anfora.cast(arange(N)[:, None] == arange(M)[None, :] - k, numpy.float64 if dtype is None else dtype)


def identity(n, dtype=None): return eye(n, None, 0, dtype)


# A tensor is a value: there is nothing to copy, and `order` says nothing of it.
def asarray(a, dtype=None, order=None, copy=None):
    return anfora.as_tensor(a) if dtype is None else anfora.cast(a, dtype)


def ascontiguousarray(a, dtype=None): return atleast_1d(asarray(a, dtype))


def array(a, dtype=None, copy=True, order=None, ndmin=0):
    made = asarray(a, dtype)
    return reshape(made, (1,) * (ndmin - made.ndim) + made.shape) if ndmin > made.ndim else made


def astype(x, dtype, copy=True, device=None): return anfora.cast(x, dtype)
def copy(a, order=None): return ops.Identity(a)
def tril(a, k=0): return ops.Trilu(a, anfora.as_tensor(k), upper=0)
def triu(a, k=0): return ops.Trilu(a, anfora.as_tensor(k), upper=1)


def diag(v, k=0):
    if v.ndim == 2:
        return diagonal(v, k)
    rows, columns = (ops.Pad(v, (0, k)), v) if k >= 0 else (v, ops.Pad(v, (0, -k)))
    at = arange(rows.shape[0] if k >= 0 else columns.shape[0])
    spread = rows[:, None] if k >= 0 else columns[None, :]
    return where(at[:, None] + k == at[None, :], spread, zeros_like(spread))


def diagonal(a, offset=0, axis1=0, axis2=1):
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    below, right = (0, offset) if offset >= 0 else (-offset, 0)
    rows, columns = a.shape[-2] - below, a.shape[-1] - right
    at = arange(rows if rows < columns else columns)
    return ops.Squeeze(ops.GatherElements(ops.Gather(a, at + below, axis=-2), _expand_to(at[:, None] + right, a, at), axis=-1), (-1,))


def _expand_to(indices, a, at): return ops.Expand(indices, anfora.shape_of(tuple([a.shape[i] for i in range(a.ndim - 2)] + [at.shape[0], 1])))
def trace(a, offset=0, axis1=0, axis2=1): return sum(diagonal(a, offset, axis1, axis2), -1)


def select(condlist, choicelist, default=0):
    found = where(condlist[0], default, default)
    for i in range(len(condlist)):
        found = where(condlist[-1 - i], choicelist[-1 - i], found)
    return found


# Products ----------------------------------------------------------------------------------------------------------

def matmul(a, b): return a @ b


def dot(a, b):
    if ndim(a) == 0 or ndim(b) == 0:
        return a * b
    return a @ b if b.ndim <= 2 else tensordot(a, b, ((-1,), (-2,)))


def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    if axis is not None:
        axisa, axisb, axisc = axis, axis, axis
    a, b = anfora.promote(moveaxis(a, axisa, -1), moveaxis(b, axisb, -1))
    x, y, z = [a[..., i] * b[..., k] - a[..., k] * b[..., i] for i, k in ((1, 2), (2, 0), (0, 1))]
    return moveaxis(stack((x, y, z), -1), -1, axisc)


def vdot(a, b): return sum(ravel(a) * ravel(b))
def inner(a, b): return a * b if ndim(a) == 0 or ndim(b) == 0 else tensordot(a, b, ((-1,), (-1,)))
def outer(a, b): return ravel(a)[:, None] * ravel(b)[None, :]
def vecdot(x, y, axis=-1): return anfora.cast(sum(x * y, axis), (x * y).dtype)


def einsum(subscripts, *operands):
    if isinstance(subscripts, str):
        return ops.Einsum(*anfora.promote(*operands), equation=subscripts)
    given = (subscripts,) + operands  # each operand before the numbers of its axes, at the end those of the result
    equation = _letters(given[1])
    for i in range(3, len(given), 2):
        equation = equation + "," + _letters(given[i])
    if len(given) % 2 == 1:
        equation = equation + "->" + _letters(given[-1])
    return ops.Einsum(*anfora.promote(*[given[i] for i in range(0, len(given) - 1, 2)]), equation=equation)


def _letters(axes):
    text = ""
    for axis in axes:
        text = text + ("..." if axis is ... else "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[axis])
    return text


def tensordot(a, b, axes=2):
    if isinstance(axes, tuple):
        ours, theirs = [one % a.ndim for one in _each_of(axes[0])], [one % b.ndim for one in _each_of(axes[1])]
    else:
        ours, theirs = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    kept = [i for i in range(a.ndim) if i not in ours]
    others = [i for i in range(b.ndim) if i not in theirs]
    n = _count(a, tuple(ours))
    rows = reshape(transpose(a, kept + ours), (_count(a, tuple(kept)), n))
    columns = reshape(transpose(b, theirs + others), (n, _count(b, tuple(others))))
    return reshape(rows @ columns, tuple([a.shape[i] for i in kept] + [b.shape[i] for i in others]))


def kron(a, b):
    a, b = anfora.promote(a, b)
    a, b = anfora.as_tensor(a), anfora.as_tensor(b)
    n = a.ndim if a.ndim > b.ndim else b.ndim
    if n == 0:
        return a * b
    a, b = expand_dims(a, tuple(range(n - a.ndim))), expand_dims(b, tuple(range(n - b.ndim)))
    products = expand_dims(a, tuple(range(1, 2 * n, 2))) * expand_dims(b, tuple(range(0, 2 * n, 2)))
    return reshape(products, tuple([a.shape[i] * b.shape[i] for i in range(n)]))


def convolve(a, v, mode="full"):
    a, v = anfora.promote(a, v)
    n = v.shape[0]
    padding = n - 1 if mode == "full" else 0
    if mode == "same":
        anfora.fail("numpy.convolve with mode='same' is not supported")
    signal = ops.Pad(a, anfora.shape_of((padding, padding)))
    return ops.Conv(signal[None, None, :], flip(v)[None, None, :])[0, 0]

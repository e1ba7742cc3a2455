"""anfora.numpy beside numpy, function by function of the Python array API standard (2024.12), on random inputs of every element type."""
import warnings

import numpy as np
import pytest

import anfora
import anfora.numpy as xp

FLOAT = ["float32", "float64"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTEGER = SIGNED + UNSIGNED
BOOL = ["bool"]
REAL = INTEGER + FLOAT
ALL = BOOL + REAL

SHAPES = [(), (1,), (5,), (0,), (3, 4), (2, 0), (2, 3, 2)]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan, 1e-3]


def random(rng, dtype, shape, special=True):
    dtype = np.dtype(dtype)
    if dtype == bool:
        return np.asarray(rng.integers(0, 2, shape), bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.asarray(rng.integers(max(info.min, -20), min(info.max, 20), shape), dtype)
    values = np.asarray(rng.normal(size=shape) * 3, dtype)
    return np.where(rng.random(shape) < 0.3, rng.choice(SPECIAL, size=shape), values).astype(dtype) if special else values


SIGNLESS = 1e-12 + 1e-27  # as a tolerance: zeros may have any sign


def same(expected, got, tolerance):
    if isinstance(expected, (tuple, list)):
        assert len(expected) == len(got)
        for e, g in zip(expected, got):
            same(e, g, tolerance)
        return
    if not isinstance(expected, (np.ndarray, np.generic)):
        assert expected == got and type(expected) is type(got)
        return
    assert isinstance(got, anfora.Tensor), f"{type(got)}"
    expected, got = np.asarray(expected), np.asarray(got)
    assert expected.shape == got.shape and expected.dtype == got.dtype, f"{got.dtype}{got.shape}, numpy: {expected.dtype}{expected.shape}"
    if expected.dtype.kind == "f":
        tolerance = tolerance or (1e-5 if expected.dtype.itemsize <= 4 else 1e-13)
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
        zeros = (expected == 0) & (got == 0)
        assert tolerance == SIGNLESS or np.array_equal(np.signbit(expected[zeros]), np.signbit(got[zeros])), "signs of zeros"
    else:
        assert np.array_equal(expected, got)


# Elements: the types that the standard wants of each function; of integers divided by zero it says nothing.
UNARY = {
    "abs": REAL, "acos": FLOAT, "acosh": FLOAT, "asin": FLOAT, "asinh": FLOAT, "atan": FLOAT, "atanh": FLOAT, "bitwise_invert": BOOL + INTEGER,
    "ceil": REAL, "conj": FLOAT, "cos": FLOAT, "cosh": FLOAT, "exp": FLOAT, "expm1": FLOAT, "floor": REAL, "imag": FLOAT, "isfinite": REAL,
    "isinf": REAL, "isnan": REAL, "log": FLOAT, "log1p": FLOAT, "log2": FLOAT, "log10": FLOAT, "logical_not": BOOL, "negative": SIGNED + FLOAT,
    "positive": REAL, "real": FLOAT, "reciprocal": FLOAT, "round": REAL, "sign": REAL, "signbit": FLOAT, "sin": FLOAT, "sinh": FLOAT,
    "square": REAL, "sqrt": FLOAT, "tan": FLOAT, "tanh": FLOAT, "trunc": REAL,
}
BINARY = {
    "add": REAL, "atan2": FLOAT, "bitwise_and": BOOL + INTEGER, "bitwise_left_shift": INTEGER, "bitwise_or": BOOL + INTEGER,
    "bitwise_right_shift": INTEGER, "bitwise_xor": BOOL + INTEGER, "copysign": FLOAT, "divide": FLOAT, "equal": ALL, "floor_divide": REAL,
    "greater": REAL, "greater_equal": REAL, "hypot": FLOAT, "less": REAL, "less_equal": REAL, "logaddexp": FLOAT, "logical_and": BOOL,
    "logical_or": BOOL, "logical_xor": BOOL, "maximum": REAL, "minimum": REAL, "multiply": REAL, "nextafter": FLOAT, "not_equal": ALL,
    "pow": REAL, "remainder": REAL, "subtract": REAL,
}


@pytest.fixture
def rng(request):
    return np.random.default_rng(sum(map(ord, request.node.name)))


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize(("name", "dtype"), [(name, dtype) for name, dtypes in UNARY.items() for dtype in dtypes])
def test_unary(name, dtype, rng):
    for shape in SHAPES:
        x = random(rng, dtype, shape)
        same(getattr(np, name)(x), getattr(xp, name)(xp.asarray(x)), ROUGH.get(name))


@pytest.mark.parametrize(("name", "dtype"), [(name, dtype) for name, dtypes in BINARY.items() for dtype in dtypes])
def test_binary(name, dtype, rng):
    function, reference = getattr(xp, name), getattr(np, name)
    for shape, other in [*((shape, shape) for shape in SHAPES), ((3, 4), (4,)), ((3, 1), (4,)), ((), (2, 2)), ((2, 0), (1,))]:
        x, y = random(rng, dtype, shape), random(rng, dtype, other)
        if np.dtype(dtype).kind in "iu":
            if name == "pow" or "shift" in name:
                y = (np.abs(y) % 4).astype(dtype)
            elif name in ("floor_divide", "remainder"):
                y = np.where(y == 0, 1, y).astype(dtype)
        elif name == "floor_divide":  # by infinity is not what numpy says
            y = np.where(np.isinf(y), 2, y).astype(dtype)
        same(reference(x, y), function(xp.asarray(x), xp.asarray(y)), ROUGH.get(name))
    number = True if dtype == "bool" else 2 if dtype in INTEGER else 2.5
    if "logical" not in name:
        x = random(rng, dtype, (5,))
        same(reference(x, number), function(xp.asarray(x), number), ROUGH.get(name))


#: Squares of small numbers are smaller; a zero rest has the sign of the dividend.
ROUGH = {"hypot": 1e-6, "remainder": SIGNLESS, "floor_divide": SIGNLESS}

MIXED = [("int8", "int32"), ("uint8", "int8"), ("uint16", "int16"), ("uint32", "int32"), ("float32", "float64"), ("uint8", "uint64")]


@pytest.mark.parametrize(("a", "b"), MIXED)
def test_promotion(a, b, rng):
    x, y = random(rng, a, (4,)), random(rng, b, (4,))
    for name in ("add", "multiply", "maximum", "less", "equal"):
        same(getattr(np, name)(x, y), getattr(xp, name)(xp.asarray(x), xp.asarray(y)), None)
    assert xp.result_type(xp.asarray(x), xp.asarray(y)) == np.result_type(x, y)


# Everything else: each as a function of the namespace and an array.
AXES = [(None, (5,)), (0, (5,)), (None, (3, 4)), (0, (3, 4)), (-1, (3, 4)), ((0, 2), (2, 3, 2)), ((), (3, 2))]
ARRAY = {
    # statistics
    "sum": [(REAL, s, lambda n, x, a=a: (n.sum(x, axis=a), n.sum(x, axis=a, keepdims=True))) for a, s in AXES]
    + [(INTEGER, (3, 4), lambda n, x: n.sum(x, axis=0, dtype=n.float64)), (FLOAT, (0, 3), lambda n, x: n.sum(x, axis=0))],
    "prod": [(FLOAT, s, lambda n, x, a=a: n.prod(x, axis=a)) for a, s in AXES] + [(["int8", "uint8", "int64"], (3,), lambda n, x: n.prod(x))],
    "mean": [(FLOAT, s, lambda n, x, a=a: (n.mean(x, axis=a), n.mean(x, axis=a, keepdims=True))) for a, s in AXES],
    "max": [(REAL, s, lambda n, x, a=a: (n.max(x, axis=a), n.max(x, axis=a, keepdims=True))) for a, s in AXES],
    "min": [(REAL, s, lambda n, x, a=a: (n.min(x, axis=a), n.min(x, axis=a, keepdims=True))) for a, s in AXES],
    "var": [(FLOAT, s, lambda n, x, a=a: (n.var(x, axis=a), n.var(x, axis=a, correction=1, keepdims=True))) for a, s in AXES[:-1]],
    "std": [(FLOAT, s, lambda n, x, a=a: (n.std(x, axis=a), n.std(x, axis=a, correction=0.5))) for a, s in AXES[:-1]],
    "all": [(ALL, s, lambda n, x, a=a: (n.all(x, axis=a), n.all(x, axis=a, keepdims=True))) for a, s in AXES] + [(BOOL, (0,), lambda n, x: n.all(x))],
    "any": [(ALL, s, lambda n, x, a=a: (n.any(x, axis=a), n.any(x, axis=a, keepdims=True))) for a, s in AXES] + [(BOOL, (0,), lambda n, x: n.any(x))],
    "count_nonzero": [(ALL, s, lambda n, x, a=a: n.asarray(n.count_nonzero(x, axis=a))) for a, s in AXES],
    "cumulative_sum": [(REAL, (5,), lambda n, x: n.cumulative_sum(x)),
                       (FLOAT, (3, 4), lambda n, x: (n.cumulative_sum(x, axis=0), n.cumulative_sum(x, axis=1, include_initial=True)))],
    "cumulative_prod": [(FLOAT, (5,), lambda n, x: n.cumulative_prod(x)),
                        (FLOAT, (3, 4), lambda n, x: (n.cumulative_prod(x, axis=0), n.cumulative_prod(x, axis=1, include_initial=True)))],
    "diff": [(REAL, (6,), lambda n, x: (n.diff(x), n.diff(x, n=2))), (FLOAT, (3, 4), lambda n, x: n.diff(x, axis=0)),
             (FLOAT, (3,), lambda n, x: n.diff(x, prepend=x[:1], append=x))],
    # searching and sorting
    "argmax": [(REAL, s, lambda n, x, a=a: (n.argmax(x, axis=a), n.argmax(x, axis=a, keepdims=True))) for a, s in [(None, (5,)), (0, (3, 4)), (-1, (3, 4))]],
    "argmin": [(REAL, s, lambda n, x, a=a: n.argmin(x, axis=a)) for a, s in [(None, (5,)), (0, (3, 4)), (-1, (3, 4))]],
    "nonzero": [(ALL, (3, 4), lambda n, x: n.nonzero(x)), (BOOL, (5,), lambda n, x: n.nonzero(x))],
    "searchsorted": [(REAL, (6,), lambda n, x: (n.searchsorted(n.sort(x), x), n.searchsorted(n.sort(x), x, side="right"))),
                     (REAL, (6,), lambda n, x: n.searchsorted(x, x[2:], sorter=n.argsort(x)))],
    "where": [(ALL, (3, 4), lambda n, x: n.where(x > x[0], x, x[:1])), (FLOAT, (5,), lambda n, x: n.where(x > 0, x, 0.5))],
    "sort": [(REAL, (7,), lambda n, x: n.sort(x)), (REAL, (3, 5), lambda n, x: (n.sort(x, axis=0), n.sort(x, axis=-1))), (BOOL, (7,), lambda n, x: n.sort(x))],
    "argsort": [(REAL, (7,), lambda n, x: n.argsort(x, stable=True)), (REAL, (5, 3), lambda n, x: n.argsort(x, axis=0, stable=True))],
    # sets
    "unique_all": [(REAL, (9,), lambda n, x: tuple(n.unique_all(x))), (SIGNED, (3, 4), lambda n, x: tuple(n.unique_all(x)))],
    "unique_counts": [(REAL, (9,), lambda n, x: tuple(n.unique_counts(x)))],
    "unique_inverse": [(SIGNED, (3, 4), lambda n, x: tuple(n.unique_inverse(x)))],
    "unique_values": [(ALL, (9,), lambda n, x: n.sort(n.unique_values(x)))],
    "isin": [(REAL, (3, 4), lambda n, x: (n.isin(x, x[0]), n.isin(x, x[:, 1], invert=True)))],
    # shapes
    "broadcast_arrays": [(REAL, (3, 4), lambda n, x: tuple(n.broadcast_arrays(x, x[0], x[:, :1])))],
    "broadcast_to": [(ALL, (3, 1), lambda n, x: n.broadcast_to(x, (2, 3, 4)))],
    "concat": [(ALL, (3, 4), lambda n, x: (n.concat([x, x]), n.concat((x, x[:, :1]), axis=1), n.concat([x, x[0]], axis=None)))],
    "expand_dims": [(ALL, (3, 4), lambda n, x: (n.expand_dims(x, axis=0), n.expand_dims(x, axis=-1)))],
    "flip": [(ALL, (3, 4), lambda n, x: (n.flip(x), n.flip(x, axis=0), n.flip(x, axis=(0, -1))))],
    "moveaxis": [(ALL, (2, 3, 2), lambda n, x: (n.moveaxis(x, 0, -1), n.moveaxis(x, (0, 1), (2, 0))))],
    "permute_dims": [(ALL, (2, 3, 2), lambda n, x: n.permute_dims(x, (2, 0, 1)))],
    "repeat": [(ALL, (3, 2), lambda n, x: (n.repeat(x, 2), n.repeat(x, 3, axis=1), n.repeat(x, n.asarray([0, 2, 1]), axis=0)))],
    "reshape": [(ALL, (3, 4), lambda n, x: (n.reshape(x, (2, 6)), n.reshape(x, (-1,)), n.reshape(x[:0], (0, 5))))],
    "roll": [(ALL, (3, 4), lambda n, x: (n.roll(x, 2), n.roll(x, -1, axis=0), n.roll(x, (1, 2), axis=(0, 1))))],
    "squeeze": [(ALL, (1, 3, 1), lambda n, x: (n.squeeze(x, axis=0), n.squeeze(x, axis=(0, 2))))],
    "stack": [(ALL, (3, 4), lambda n, x: (n.stack([x, x]), n.stack((x, x), axis=-1)))],
    "tile": [(ALL, (3, 2), lambda n, x: (n.tile(x, (2,)), n.tile(x, (2, 1, 3)), n.tile(x, (1, 2))))],
    "unstack": [(ALL, (3, 2), lambda n, x: (n.unstack(x), n.unstack(x, axis=1)))],
    "meshgrid": [(REAL, (3,), lambda n, x: (list(n.meshgrid(x, x[1:])), list(n.meshgrid(x, x[1:], x, indexing="ij"))))],
    # indexing
    "take": [(ALL, (3, 4), lambda n, x: (n.take(x, n.asarray([2, 0]), axis=0), n.take(x, n.asarray([1, 1]), axis=1)))],
    "take_along_axis": [(ALL, (3, 4), lambda n, x: n.take_along_axis(x, n.argsort(x, axis=1, stable=True), axis=1))],
    # linear algebra
    "matmul": [(REAL, (3, 4), lambda n, x: (x @ x.T, n.matmul(x, x[0]), n.matmul(x[0], x[0]))), (FLOAT, (2, 3, 2), lambda n, x: x @ x.mT)],
    "matrix_transpose": [(ALL, (2, 3, 2), lambda n, x: (n.matrix_transpose(x), x.mT))],
    "tensordot": [(FLOAT, (3, 3, 3), lambda n, x: (n.tensordot(x, x, axes=1), n.tensordot(x, x), n.tensordot(x, x, axes=((0, 1), (2, 0))), n.tensordot(x, x, axes=0)))],
    "vecdot": [(REAL, (3, 4), lambda n, x: (n.vecdot(x, x), n.vecdot(x, x[:, :1] + x, axis=0)))],
    # making arrays
    "zeros_like": [(ALL, (3, 4), lambda n, x: (n.zeros_like(x), n.zeros_like(x, dtype=n.float32)))],
    "ones_like": [(ALL, (3, 4), lambda n, x: (n.ones_like(x), n.ones_like(x, dtype=n.int64)))],
    "empty_like": [(ALL, (3, 4), lambda n, x: n.zeros_like(n.empty_like(x)))],
    "full_like": [(REAL, (3, 4), lambda n, x: (n.full_like(x, 3), n.full_like(x, 2, dtype=n.float64)))],
    "tril": [(ALL, (3, 4), lambda n, x: (n.tril(x), n.tril(x, k=1), n.tril(x, k=-1)))],
    "triu": [(ALL, (3, 4), lambda n, x: (n.triu(x), n.triu(x, k=1), n.triu(x, k=-1)))],
    "astype": [(ALL, (3, 4), lambda n, x: tuple(n.astype(x, getattr(n, dtype)) for dtype in ("float64", "int32", "bool", "float32")))],
    "asarray": [(ALL, (3, 4), lambda n, x: (n.asarray(x), n.asarray(x, copy=True)))],
    "from_dlpack": [(REAL, (3, 4), lambda n, x: n.from_dlpack(x))],
    "clip": [(REAL, (7,), lambda n, x: (n.clip(x, 1, 3), n.clip(x, min=2), n.clip(x, max=x[0])))],
    "logical_not": [(BOOL, (3,), lambda n, x: n.logical_not(x))],
}
NO_ARRAY = {
    "arange": lambda n: (n.arange(5), n.arange(2, 9), n.arange(1, 10, 3), n.arange(0.5, 3), n.arange(5, dtype=n.float32), n.arange(5, 0, -2)),
    "empty": lambda n: n.zeros_like(n.empty((2, 3))),
    "eye": lambda n: (n.eye(3), n.eye(2, 4), n.eye(3, k=1), n.eye(4, 3, k=-1), n.eye(2, dtype=n.int32)),
    "full": lambda n: (n.full((2, 3), 1.5), n.full(3, 2), n.full((), True), n.full((2,), 7, dtype=n.float32)),
    "linspace": lambda n: (n.linspace(0, 1, 5), n.linspace(0, 1, 5, endpoint=False), n.linspace(2, 3, 1), n.linspace(-1.5, 2, 7, dtype=n.float32)),
    "ones": lambda n: (n.ones((2, 3)), n.ones(3, dtype=n.int64), n.ones(())),
    "zeros": lambda n: (n.zeros((2, 3)), n.zeros(3, dtype=n.bool), n.zeros((0, 2))),
    "broadcast_shapes": lambda n: n.broadcast_shapes((3, 1), (1, 4), (4,)),
    "can_cast": lambda n: (n.can_cast(n.int8, n.int16), n.can_cast(n.float64, n.float32)),
    "finfo": lambda n: (float(n.finfo(n.float32).eps), n.finfo(n.float64).bits),
    "iinfo": lambda n: (n.iinfo(n.int16).max, n.iinfo(n.uint8).bits),
    "isdtype": lambda n: (n.isdtype(n.float32, "real floating"), n.isdtype(n.int8, ("bool", "unsigned integer"))),
    "result_type": lambda n: str(n.result_type(n.int8, n.uint8)),
}


@pytest.mark.parametrize(("name", "case", "dtype"), [(name, case, dtype) for name, cases in ARRAY.items() for case in cases for dtype in case[0]],
                         ids=lambda value: value if isinstance(value, str) else "")
def test_of_array(name, case, dtype, rng):
    _, shape, function = case
    for special in (False, True):
        if special and name in ("var", "std", "prod", "cumulative_prod", "tensordot", "matmul", "vecdot", "astype", "unique_all", "unique_counts",
                                "unique_values", "argsort", "sort", "searchsorted", "take_along_axis"):
            continue
        x = random(rng, dtype, shape, special)
        same(function(np, x), function(xp, xp.asarray(x)), SIGNLESS if shape == (3, 2) else 1e-4 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("name", NO_ARRAY)
def test_of_no_array(name):
    same(NO_ARRAY[name](np), NO_ARRAY[name](xp), None)


def test_descending_order_is_stable():
    x = xp.asarray([2, 1, 2, 3, 1])
    assert xp.sort(x, descending=True).tolist() == [3, 2, 2, 1, 1] and xp.argsort(x, descending=True).tolist() == [3, 0, 2, 1, 4]


METHODS = ["__abs__", "__add__", "__and__", "__array_namespace__", "__bool__", "__complex__", "__dlpack__", "__dlpack_device__", "__eq__",
           "__float__", "__floordiv__", "__ge__", "__getitem__", "__gt__", "__index__", "__int__", "__invert__", "__le__", "__lshift__", "__lt__",
           "__matmul__", "__mod__", "__mul__", "__ne__", "__neg__", "__or__", "__pos__", "__pow__", "__rshift__", "__setitem__", "__sub__",
           "__truediv__", "__xor__", "to_device", "dtype", "device", "mT", "ndim", "shape", "size", "T"]
METHODS += [f"__{mark}{name[2:]}" for mark in "ir" for name in ("__add__", "__sub__", "__mul__", "__truediv__", "__floordiv__", "__mod__", "__pow__",
            "__matmul__", "__and__", "__or__", "__xor__", "__lshift__", "__rshift__")]


def test_the_standard_is_there():
    functions = {*UNARY, *BINARY, *ARRAY, *NO_ARRAY}
    assert len(functions) == 135
    assert [name for name in functions if not hasattr(xp, name)] == []
    assert [name for name in METHODS if not hasattr(anfora.Tensor, name)] == []
    assert [name for name in ("e", "inf", "nan", "newaxis", "pi", "bool", *REAL, "complex64", "complex128") if not hasattr(xp, name)] == []
    info = xp.__array_namespace_info__()
    assert info.default_device() in info.devices() and info.capabilities()["data-dependent shapes"] and info.dtypes(kind="bool") == {"bool": np.dtype(bool)}
    assert xp.asarray(1).__array_namespace__() is xp and xp.asarray(1).to_device("cpu").device == "cpu"


@pytest.mark.parametrize("sign", ["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>"])
def test_in_place(sign):
    x, y = np.array([[5, 7], [9, 2]]), np.array([[2, 1], [3, 1]])
    x, y = (x.astype(float), y.astype(float)) if sign == "/" else (x, y)
    tensor, expected = xp.asarray(x), x.copy()
    before = tensor
    names = {"x": expected, "y": y}
    exec(f"x {sign}= y", names)
    names_ = {"x": tensor, "y": xp.asarray(y)}
    exec(f"x {sign}= y", names_)
    same(names["x"], names_["x"], None)
    assert before is names_["x"]

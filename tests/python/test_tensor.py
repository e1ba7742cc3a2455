"""anfora.Tensor, anfora.debug: what computes at once."""
import dataclasses
import math
import pdb
import re

import numpy as np
import programs
import pytest
from test_jit import same

import anfora
import anfora.numpy as xp


def arrays(value):
    if isinstance(value, anfora.Tensor):
        return np.asarray(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(arrays, value))
    if isinstance(value, (tuple, list)):
        return type(value)(map(arrays, value))
    return {key: arrays(item) for key, item in value.items()} if isinstance(value, dict) else value


# Step by step ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", programs.CASES, ids=lambda case: case[0].__name__)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_programs_step_by_step(case):
    function, *arguments = case
    expected = function(*(a.copy() if isinstance(a, np.ndarray) else a for a in arguments))
    with anfora.debug():
        same(expected, anfora.jit(function)(*arguments))


def test_debug_stops_at_breakpoints(monkeypatch):
    seen = []

    @anfora.jit
    def f(x):
        y = np.exp(x)
        breakpoint()
        return y.sum()

    monkeypatch.setattr("sys.breakpointhook", lambda: seen.append(__import__("sys")._getframe(1).f_locals["y"]))
    with anfora.debug():
        f(np.zeros(3))
    assert isinstance(seen[0], anfora.Tensor) and np.array_equal(np.asarray(seen[0]), np.ones(3))
    assert pdb


def test_debug_leaves_what_the_caller_has():
    @anfora.jit
    def f(x):
        x = x.copy()
        x[0] = 5
        return x

    x = np.zeros(2)
    with anfora.debug():
        assert np.array_equal(f(x), [5, 0])
    assert x[0] == 0


def test_debug_steps_into_what_is_called():
    @anfora.jit
    def inner(x):
        assert isinstance(x, anfora.Tensor)
        return x * 2

    @anfora.trace
    def outer(x, pair):
        return inner(x), pair["a"] + 1

    with anfora.debug():
        doubled, more = outer(np.ones(2), {"a": np.zeros(1)})
    assert type(doubled) is np.ndarray and doubled.tolist() == [2, 2] and more.tolist() == [1]


def first_nan(x):
    y = x - x.mean()
    z = np.sqrt(y)
    return z.sum() + np.log(y)


def first_infinity(x):
    return (x / (x - 1)).sum()


def by_numpy_itself(x):
    return x + np.zeros(1) / np.zeros(1)


@pytest.mark.parametrize("function, line, message", [(first_nan, 2, "sqrt gives NaN"), (first_infinity, 1, "divide gives infinity")])
def test_the_first_nan(function, line, message):
    with pytest.raises(anfora.NonFiniteError, match=message) as caught, anfora.debug(nan=True):
        anfora.jit(function)(np.array([1.0, 2.0]))
    assert caught.value.location.startswith(f"test_tensor.py:{function.__code__.co_firstlineno + line}:")
    assert isinstance(caught.value, FloatingPointError) and "^" in caught.value.excerpt
    with anfora.debug(nan=True):  # what is not finite already is not made
        assert np.isnan(anfora.jit(lambda x: x + 1)(np.array([math.nan]))).all()
    with anfora.debug():
        anfora.jit(function)(np.array([1.0, 2.0]))


def test_the_first_nan_of_numpy():
    with pytest.raises(FloatingPointError), anfora.debug(nan=True):
        anfora.jit(by_numpy_itself)(np.ones(1))


# Tensors --------------------------------------------------------------------------------------------------------------


def test_nothing_is_compiled_twice():
    x = anfora.Tensor(np.arange(4.0))
    known = xp.add._known
    x + 1
    before = len(known)
    for i in range(5):
        x[: i + 1] + i
    assert len(known) == before


def test_static_arguments():
    x = anfora.Tensor(np.arange(6.0).reshape(2, 3))
    for axis in (0, 1, -1, None, (0, 1)):
        same(np.sum(np.asarray(x), axis=axis), arrays(xp.sum(x, axis=axis)))
    assert np.signbit(np.asarray(xp.full_like(x, -0.0))).all() and not np.signbit(np.asarray(xp.full_like(x, 0.0))).any()


INDICES = [0, -1, slice(None), slice(1, None), slice(None, None, -1), (0, 1), (slice(None), 1), (..., 0), None, (slice(0, 2), None, 2),
           [2, 0], np.array([[0, 1], [2, 2]]), (np.array([0, 1]), np.array([2, 3]))]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indices(index):
    x = np.arange(24.0).reshape(3, 4, 2)
    same(x[index], arrays(anfora.Tensor(x)[index]))
    written = anfora.Tensor(x)
    written[index] = 7.0
    expected = x.copy()
    expected[index] = 7.0
    same(expected, arrays(written))
    assert x.ravel().tolist() == list(range(24))


def test_masks_and_what_depends_on_values():
    x = anfora.Tensor(np.array([3.0, -1, 2, -5]))
    assert np.asarray(x[x > 0]).tolist() == [3, 2]
    assert [i.tolist() for i in xp.nonzero(x < 0)] == [[1, 3]]
    assert bool(x[0] > 2) and int(x[2]) == 2 and float(x.min()) == -5 and x.tolist() == [3, -1, 2, -5]
    assert [float(item) for item in x] == [3, -1, 2, -5] and len(x) == 4
    with pytest.raises(ValueError, match="ambiguous"):
        bool(x)


def test_other_libraries():
    x = anfora.Tensor(np.arange(3, dtype=np.float32))
    assert np.from_dlpack(x).dtype == np.float32 and np.asarray(x).tolist() == [0, 1, 2]
    same(np.arange(3, dtype=np.float32) * 2, anfora.jit(lambda v: v * 2)(x))
    for mixed in (np.ones(3) + x, x + np.ones(3), np.add(1, x), np.concatenate([x, np.zeros(1)]), np.where(x > 1, x, 0)):
        assert isinstance(mixed, anfora.Tensor)
    with pytest.raises(anfora.UnsupportedError, match="numpy.fromiter|numpy.interp"):
        np.interp(x, x, x)
    assert repr(x) == "Tensor([0., 1., 2.], float32)"
    assert x.__array_namespace__() is xp


def test_operators_as_functions():
    x = anfora.Tensor(np.array([[-1.0, 2.0]]))
    assert np.asarray(anfora.ops.Relu(x)).tolist() == [[0, 2]]
    assert np.asarray(anfora.ops.Transpose(x, perm=(1, 0))).shape == (2, 1)
    values, positions = anfora.ops.TopK(x, anfora.Tensor([1]), axis=1, outputs=2)
    assert values.tolist() == [[2]] and positions.tolist() == [[1]]
    with pytest.raises(anfora.NotFoundError, match="there is no operator Rleu"):
        anfora.ops.Rleu(x)


def test_errors_name_the_function():
    with pytest.raises(anfora.Error, match="matmul: the inner dimensions of 2x3 and 2x3 differ"):
        xp.matmul(xp.ones((2, 3)), xp.ones((2, 3)))
    assert not re.search("numpy.py", str(pytest.raises(anfora.Error, xp.sum, "text").value))


# Overloads ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Point:
    x: object
    y: object


@anfora.overload
def norm(x):
    return abs(x)


@norm.register("floating[?]")
def _vector(x):
    return np.sqrt((x * x).sum())


@norm.register("floating[?, ?]")
def _matrix(x, axis=0):
    return np.sqrt((x * x).sum(axis=axis))


@norm.register(tuple)
def _pair(x):
    return norm(x[0]) + norm(x[1])


@norm.register
def _point(x: Point):
    return norm((x.x, x.y))


NORMS = [(-3, 3), (-2.5, 2.5), (np.array([3.0, 4.0]), 5), (np.array([[3.0, 4.0]]), [3, 4]), ((-1, np.array([3.0, 4.0])), 6),
         (Point(-1, -2), 3), (np.array(-7), 7)]


@pytest.mark.parametrize("value, expected", NORMS, ids=str)
@pytest.mark.parametrize("how", [lambda f: f, anfora.jit, anfora.trace], ids=["python", "jit", "trace"])
def test_overload(value, expected, how):
    def f(x):
        return norm(x)

    assert np.asarray(how(f)(value)).tolist() == expected


def test_overload_of_tensors():
    assert float(norm(anfora.Tensor([3.0, 4.0]))) == 5


def test_overload_by_size():
    @anfora.overload
    def cross(x):
        return x * 0

    @cross.register("f64[3]")
    def _(x):
        return x * 3

    f = anfora.jit(lambda x: cross(x))
    assert f(np.ones(3)).tolist() == [3, 3, 3] and f(np.ones(2)).tolist() == [0, 0]

    @cross.register("f64[2]")
    def _(x):
        return x * 2

    assert f(np.ones(2)).tolist() == [2, 2]
    assert "cross.candidates has changed" in f.explain()


@anfora.overload
def typed(x: "f32[?]", y: int):
    return x


@typed.register
def _typed(x: "f64[?, ?]"):
    return x


def test_no_overload_fits():
    expected = r"no typed\(\) takes \(f64\[3\], float\); there are\n *test_tensor.py::_typed\(f64\[\?, \?\]\)\n *test_tensor.py::typed\(f32\[\?\], int\)"
    with pytest.raises(anfora.TypeMismatchError, match=expected):
        typed(np.ones(3), 1.0)
    with pytest.raises(anfora.TypeMismatchError, match=expected) as caught:
        anfora.jit(lambda x: typed(x, 1.0))(np.ones(3))
    assert caught.value.location.startswith("test_tensor.py:")
    with pytest.raises(anfora.InvalidArgumentError, match="no pattern"):
        typed.register("f32[N]")


def test_overloads_are_of_the_running_python(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""import anfora

@anfora.overload
def norm(x):
    return x

def f(x: "f32[N]"):
    return norm(x)
""")
    with pytest.raises(anfora.UnsupportedError, match="'norm' is overloaded, which only the running Python knows"):
        anfora.load(f"{program}::f")

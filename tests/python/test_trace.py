"""anfora.trace: functions that run once, and are recorded."""
import re

import numpy as np
import pytest
from test_jit import same

import anfora
import anfora.numpy as xp

# One graph of the source and of the run ------------------------------------------------------------------------------


def rng(*shape, dtype=np.float64):
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer(x, w, b):
    return np.maximum(x @ w + b, 0)


def normalize(x):
    return (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5)


def attention(q, k, v):
    scores = q @ k.T / q.shape[-1] ** 0.5
    return softmax(scores) @ v


def reshaped(x):
    return x.reshape(x.shape[0] * 2, -1).T


def halves(x):
    n = x.shape[0] // 2
    return x[:n] + x[n : 2 * n], x[..., 0]


def several(x, y):
    return {"sum": x + y, "parts": [x - y, (x * y).sum()], "size": x.shape[0] + 1}


def scaled(x, factor, offset):
    return x * factor + offset


def chosen(x):
    return np.where(x > 0, x, 0.1 * x)


def sorted_rows(x):
    return np.sort(x, axis=1)[:, ::-1]


def joined(x, y):
    return np.concatenate([x, y, x], axis=0)


def written(x):
    x = x.copy()
    x[0] = 1.0
    return x * 2


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def moments(x):
    return np.std(x, axis=1), np.cumsum(x, axis=0), np.argmax(x, axis=1)


SQUARE = rng(4, 4)
STRAIGHT = [
    (softmax, SQUARE), (layer, rng(5, 3), rng(3, 4), rng(4)), (normalize, SQUARE), (attention, SQUARE, SQUARE, SQUARE),
    (reshaped, SQUARE), (halves, SQUARE), (several, SQUARE, SQUARE), (scaled, SQUARE, 2, 0.5), (scaled, rng(3, dtype=np.float32), 2.0, 1),
    (chosen, rng(4, dtype=np.float32)), (sorted_rows, SQUARE), (joined, SQUARE, rng(2, 4)), (written, SQUARE), (gelu, SQUARE),
    (moments, SQUARE),
]


def graph(model):
    """The text without places, values numbered as they come."""
    text = re.sub(r"   # .*", "", str(model.optimize()))
    names = {}
    return re.sub(r"%\d+\b", lambda found: names.setdefault(found[0], f"%{len(names)}"), text)


@pytest.mark.parametrize("case", STRAIGHT, ids=lambda case: case[0].__name__)
def test_trace_and_source_are_one_graph(case):
    function, *arguments = case
    traced, compiled = anfora.trace(function), anfora.jit(function)
    assert graph(traced.lower(*arguments)) == graph(compiled.lower(*arguments))
    expected = function(*(a.copy() if isinstance(a, np.ndarray) else a for a in arguments))
    same(expected, traced(*arguments))


def test_places_are_those_of_the_caller():
    nodes = anfora.trace(softmax).lower(SQUARE).nodes
    first = softmax.__code__.co_firstlineno
    places = [node.location.split(":") for node in nodes]
    assert {(file, int(line)) for file, line, _ in places} == {("test_trace.py", first + 1), ("test_trace.py", first + 2)}
    by_source = anfora.jit(softmax).lower(SQUARE).nodes
    assert [(node.op, node.location) for node in nodes] == [(node.op, node.location) for node in by_source]


# What holds for a trace -----------------------------------------------------------------------------------------------


def test_sizes_are_symbols():
    f = anfora.trace(lambda x: x.sum(axis=0) / x.shape[0])
    for n in range(2, 6):
        same(np.ones(3), f(np.ones((n, 3))))
    assert f.explain().count("\n") == 0


def test_control_flow_on_sizes_is_watched():
    runs = []

    @anfora.trace
    def f(x):
        runs.append(x.shape)
        return x[:3] * 2 if x.shape[0] > 3 else x

    for n in (2, 5, 3, 7, 1):
        x = np.arange(float(n))
        same(x[:3] * 2 if n > 3 else x, f(x))
    assert len(runs) == 3  # the slice assumes a size: once more, for what that says of the types
    assert "argument 0.shape[0] > 3 has changed" in f.explain()


def test_tensors_of_a_size():
    for how in (anfora.trace, anfora.jit):
        f = how(lambda x: xp.arange(x.shape[0]) + xp.zeros(x.shape[0]) + x)
        for n in (3, 5, 2):
            same(np.arange(n) * 2.0, f(np.arange(float(n))))
        assert f.explain().count("\n") == 0


def test_sizes_that_python_needs():
    @anfora.trace
    def f(x, n):
        for i in range(n):
            x = x + i
        return x.reshape(x.shape[1] * 2, -1)

    x = np.ones((4, 2))
    same((x + 3).reshape(4, 2), f(x, 3))
    same((x + 1).reshape(4, 2), f(x, 2))
    same((np.ones((4, 3)) + 1).reshape(6, 2), f(np.ones((4, 3)), 2))
    assert f.explain().splitlines()[1].endswith("argument 1 has changed") and f.explain().count("\n") == 1


def by_sum(x):
    if x.sum() > 0:
        return x
    return -x


def as_float(x):
    return x * float(x[0])


def as_count(x):
    return [x for _ in range(np.argmax(x))]


def as_array(x):
    return np.asarray(x) + 1


def of_length_of_nonzero(x):
    if np.nonzero(x)[0].shape[0] > 2:
        return x
    return -x


@pytest.mark.parametrize("function", [by_sum, as_float, as_count, as_array, of_length_of_nonzero], ids=lambda f: f.__name__)
def test_control_flow_on_values_is_an_error(function):
    with pytest.raises(anfora.UnsupportedError, match="value.? of the run, which a trace does not know") as caught:
        anfora.trace(function)(np.ones(3))
    assert caught.value.location.startswith(f"test_trace.py:{function.__code__.co_firstlineno + 1}:")
    assert "anfora.jit" in caught.value.hint and "^" in caught.value.excerpt


def test_a_compiled_function_branches_on_values():
    inner = anfora.jit(by_sum)
    f = anfora.trace(lambda x: inner(x - 1) * 2)
    for value in (3.0, -3.0):
        same(np.abs(np.full(2, value) - 1) * 2, f(np.full(2, value)))
    assert f.explain().count("\n") == 0 and "Switch" in str(f.lower(np.ones(2)))


def test_errors_have_the_line():
    def f(x):
        y = x + 1
        return y @ xp.ones((5, 2))

    with pytest.raises(anfora.Error, match="MatMul") as caught:
        anfora.trace(f)(np.ones((3, 4)))
    assert caught.value.location.startswith(f"test_trace.py:{f.__code__.co_firstlineno + 2}:")


def test_endless_retracing_is_refused():
    f = anfora.trace(lambda n: xp.zeros(3) + int(n))
    with pytest.raises(anfora.ResourceExhaustedError, match="was traced 64 times: .*argument 0 has changed"):
        for n in range(100):
            f(n)


# What surrounds a trace -----------------------------------------------------------------------------------------------


class Net:
    def __init__(self):
        self.weights = [rng(3, 3), rng(3, 3)]
        self.scale = np.float64(2)

    @anfora.trace
    def __call__(self, x):
        yielded = (x @ w for w in self.weights)
        return sum(np.tanh(y) for y in yielded) * self.scale


def test_weights_are_inputs():
    net, x = Net(), rng(2, 3)
    expected = lambda: sum(np.tanh(x @ w) for w in net.weights) * 2  # noqa: E731
    same(expected(), net(x))
    net.weights[0][:] = 0.5  # written to, not replaced
    same(expected(), net(x))
    assert len(Net.__call__.lower(net, x).inputs) == 3


class Point:
    def __init__(self, x):
        self.x = x


def test_any_code_of_python():
    @anfora.trace
    def f(x):
        try:
            points = [Point(row) for row in x]
            assert len({id(point) for point in points}) == len(points)
        finally:
            total = sum(point.x for point in points)
        return total

    same(np.array([4.0, 6.0]), f(np.array([[1.0, 2.0], [3.0, 4.0]])))


def change(x):
    y = x
    y[0] = 1


def change_all(x):
    x += 1
    return x


@pytest.mark.parametrize("function", [change, change_all], ids=lambda f: f.__name__)
def test_what_the_caller_has_stays(function):
    line = function.__code__.co_firstlineno + (2 if function is change else 1)
    for how in (anfora.jit, anfora.trace):
        with pytest.raises(anfora.UnsupportedError, match="would change it") as caught:
            how(function)(np.ones(3))
        assert caught.value.location.startswith(f"test_trace.py:{line}:")
    with pytest.raises(anfora.UnsupportedError, match="would change it"), anfora.debug():
        anfora.jit(function)(np.ones(3))


def test_a_tensor_of_another_trace():
    kept = []

    @anfora.trace
    def leaks(x):
        kept.append(x)
        return x

    leaks(np.ones(2))
    with pytest.raises(anfora.InvalidArgumentError, match="belongs to a trace that has ended"):
        anfora.trace(lambda x: x + kept[0])(np.ones(2))
    with pytest.raises(anfora.InvalidArgumentError, match="belongs to a trace that has ended"):
        kept[0] + 1


def test_traces_within_traces():
    square = anfora.trace(lambda x: x * x)
    same(np.full(2, 10.0), anfora.trace(lambda x: square(x) + 1)(np.full(2, 3.0)))


def test_a_trace_is_a_model(tmp_path):
    f = anfora.trace(softmax)
    x = rng(2, 5)
    path = str(tmp_path / "softmax.onnx")
    f.lower(x).save(path)
    np.testing.assert_allclose(anfora.load(path).compile()(x), softmax(x))

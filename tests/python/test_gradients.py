"""anfora.stop_gradient, anfora.custom_gradient, and gradients that are taken inside of compiled functions."""
import math
import pathlib

import numpy as np
import pytest
from test_jit import same

import anfora

X = np.array([0.5, -1.0, 2.0])
LINES = pathlib.Path(__file__).read_text(encoding="utf-8").splitlines()


def every_way(function):
    """The same function run by numpy, compiled, recorded, and on tensors that compute at once."""
    yield function
    yield anfora.jit(function)
    yield anfora.trace(function)
    yield lambda *arguments: np.asarray(function(*map(anfora.Tensor, arguments)))


# Effects --------------------------------------------------------------------------------------------------------------


def checked(x, n):
    if x < 0:
        raise ValueError("x is negative")
    assert x < 10, "x is too large"
    return x ** 3


def checked_in_a_loop(x, n):
    i = 0
    while i < n:
        assert x < 100, "x grew"
        x = x * 1.1 + x * x * 0.01
        i += 1
    return x


def raised_in_a_loop(x, n):
    for i in range(n):
        if i % 3 == 2:
            continue
        if x > 60:
            raise ValueError("x is above 60")
        if x > 20:
            return x * 3
        if x < -50:
            break
        x = x * 1.2 + x * x * 0.01
    else:
        x = x * x
    return x


def checked_by_functions(x, n):
    def squared(y):
        assert y < 30, "y is too large"
        return y * y

    for i in range(n):
        x = squared(x) * 0.5 + x * 0.1 if i % 2 == 0 else checked(x * 0.5, n)
    return x


def difference(f, x, n, order=1):
    h = 1e-6 if order == 1 else 1e-4
    return (f(x + h, n) - f(x - h, n)) / (2 * h) if order == 1 else (f(x + h, n) - 2 * f(x, n) + f(x - h, n)) / h ** 2


def derivatives(f):
    """Each with the coefficients of the function's value and its first and second derivative that it gives."""
    yield anfora.grad(f), (0, 1, 0)
    yield anfora.grad(f, checkpoints=3), (0, 1, 0)
    yield lambda x, n: sum(anfora.value_and_grad(f)(x, n)), (1, 1, 0)
    yield anfora.grad(anfora.grad(f)), (0, 0, 1)
    yield lambda x, n: np.asarray(anfora.vjp(lambda x: f(x, n), x)[1](2.0)[0]), (0, 2, 0)
    yield lambda x, n: np.asarray(anfora.jvp(lambda x: f(x, n), (x,), (2.0,))[1]), (0, 2, 0)
    yield lambda x, n: np.asarray(anfora.hessian(lambda x: f(x, n))(x)), (0, 0, 1)
    yield anfora.jit(lambda x, n: anfora.grad(f)(x, n)), (0, 1, 0)
    yield anfora.jit(lambda x, n: anfora.grad(anfora.grad(f))(x, n)), (0, 0, 1)
    yield anfora.jit(lambda x, n: anfora.jvp(lambda x: f(x, n), (x,), (2.0,))[1]), (0, 2, 0)
    yield anfora.jit(lambda x, n: anfora.vjp(lambda x: f(x, n), x)[1](2.0)[0]), (0, 2, 0)


@pytest.mark.parametrize("function, held, failed, message, written", [
    (checked, [(2.0, 0)], (-1.0, 0), "x is negative", 'raise ValueError("x is negative")'),
    (checked, [(2.0, 0)], (11.0, 0), "x is too large", "assert x < 10"),
    (checked_in_a_loop, [(2.0, 5), (2.0, 0)], (90.0, 30), "x grew", "assert x < 100"),
    (raised_in_a_loop, [(2.0, 5), (2.0, 30), (-60.0, 5)], (70.0, 5), "x is above 60", 'raise ValueError("x is above 60")'),
    (checked_by_functions, [(1.0, 4)], (50.0, 4), "y is too large", "assert y < 30"),
    (checked_by_functions, [(1.0, 4)], (-7.0, 4), "x is too large", "assert x < 10"),
])
def test_gradients_of_functions_that_check(function, held, failed, message, written):
    for derivative, (value, first, second) in derivatives(function):
        for x, n in held:
            expected = value * function(x, n) + first * difference(function, x, n) + second * difference(function, x, n, order=2)
            assert derivative(x, n) == pytest.approx(expected, 1e-3 if second else 1e-6, 1e-4 if second else 1e-6)
        with pytest.raises(anfora.Error, match=message) as raised:
            derivative(*failed)
        number = [line.strip().startswith(written) for line in LINES].index(True) + 1
        assert f"test_gradients.py:{number}:" in str(raised.value)


def test_gradients_of_what_checks_twice():
    for f in (checked, checked_in_a_loop, raised_in_a_loop, checked_by_functions):
        twice = lambda x, n: f(x, n) * f(x + 1, n)  # noqa: E731
        for way in (anfora.grad(twice), anfora.jit(lambda x, n: anfora.grad(twice)(x, n))):
            assert way(1.5, 4) == pytest.approx(difference(twice, 1.5, 4), 1e-6)


def test_what_is_printed_is_printed_once(capfd):
    def printed(x, n):
        for i in range(n):
            print("turn", i)
            x = x * x
        return x

    for way in (anfora.grad(printed), anfora.grad(printed, checkpoints=2)):
        assert way(1.5, 3) == 8 * 1.5 ** 7
        assert capfd.readouterr().err.splitlines() == [f"turn: i64[] {i}" for i in range(3)]


# stop_gradient --------------------------------------------------------------------------------------------------------


def test_stop_gradient_is_the_identity():
    def f(x):
        return anfora.stop_gradient(x) * 2

    for way in every_way(f):
        same(f(X), way(X))
    tree = {"a": X, "b": (1.5, [2, None]), "c": np.arange(3)}
    assert anfora.stop_gradient(tree) is tree
    same(tree["a"], anfora.jit(lambda t: anfora.stop_gradient(t)["a"])(tree))
    assert anfora.jit(lambda x: anfora.stop_gradient((x, [2, None], {"k": x})))(1.5) == (1.5, [2, None], {"k": 1.5})


@pytest.mark.parametrize("function, slope", [
    (lambda x: (anfora.stop_gradient(x) * x).sum(), lambda x: x),
    (lambda x: (x - anfora.stop_gradient(x)).sum(), np.ones_like),                      # simplified to 0 only behind differentiation
    (lambda x: np.exp(anfora.stop_gradient(x)).sum(), np.zeros_like),
    (lambda x: (np.round(x) + x - anfora.stop_gradient(x)).sum(), np.ones_like),         # a straight-through estimator
    (lambda x: np.maximum(x, anfora.stop_gradient(x)).sum(), lambda x: np.full_like(x, 0.5)),
    (lambda x: np.where(x > 0, x, anfora.stop_gradient(x)).sum(), lambda x: (x > 0) * 1.0),
    (lambda x: (anfora.stop_gradient(x).reshape(3, 1).T.reshape(3) * x).sum(), lambda x: x),
    (lambda x: (anfora.stop_gradient({"a": [x]})["a"][0] * x).sum(), lambda x: x),
], ids=str)
def test_stop_gradient(function, slope):
    same(slope(X), anfora.grad(function)(X))
    same(slope(X), anfora.jit(lambda x: anfora.grad(function)(x))(X))
    same(slope(X), anfora.vjp(function, X)[1](1.0)[0])
    assert anfora.jvp(function, (X,), (np.ones(3),))[1] == pytest.approx(slope(X).sum())


def test_stop_gradient_of_higher_orders():
    def f(x):
        return anfora.stop_gradient(x) * x * x

    assert anfora.grad(f)(3.0) == 18.0
    assert anfora.grad(anfora.grad(f))(3.0) == 6.0
    assert anfora.jit(lambda x: anfora.grad(anfora.grad(f))(x))(3.0) == 6.0


def test_stop_gradient_in_loops():
    def f(x, n):
        total = 0.0
        for _ in range(n):
            total += (x * anfora.stop_gradient(x)).sum()
            x = x * 2 + anfora.stop_gradient(x)
        return total

    expected = sum(2.0**i * 3.0**i for i in range(6)) * X
    same(expected, anfora.grad(f)(X, 6))
    same(expected, anfora.grad(f, checkpoints=2)(X, 6))


def test_stop_gradient_leaves_nothing_behind(tmp_path):
    def f(x):
        return anfora.stop_gradient(x * 2) + scaled(x)

    model = anfora.jit(f).lower(X)
    assert {"StopGradient", "CustomGradient"} <= {node.op for node in model.nodes}
    assert [node.op for node in model.optimize().nodes] == ["Mul"]  # by 5
    model.save(str(tmp_path / "f.onnx"))
    saved = anfora.load(str(tmp_path / "f.onnx"))
    same(f(X), saved.compile()(X))
    assert {node.op for node in saved.nodes} <= {"Mul", "Add", "Identity"}


# custom_gradient ------------------------------------------------------------------------------------------------------


@anfora.custom_gradient
def scaled(x):
    return x * 3, lambda dy: dy * 5


@anfora.custom_gradient
def log1pexp(x):
    e = np.exp(x)

    def backward(dy):
        return dy * (1 - 1 / (1 + e))

    return np.log(1 + e), backward


@anfora.custom_gradient
def clipped(x, low, high):
    """Whose gradient is clipped."""
    return x, lambda dy: (np.clip(dy, low, high), None, None)


def test_custom_gradients_compute_what_they_return_first():
    for function in (scaled, log1pexp):
        for way in every_way(lambda x: function(x)):
            same(np.asarray(function(X)), np.asarray(way(X)))
    same(scaled(X), anfora.jit(scaled)(X))
    with anfora.debug():
        same(scaled(X), anfora.jit(lambda x: scaled(x))(X))


def test_custom_gradients():
    assert anfora.grad(log1pexp)(100.0) == 1.0
    assert anfora.grad(log1pexp)(1000.0) == 1.0  # where exp(x) is infinite
    same(np.full(3, 5.0), anfora.grad(lambda x: scaled(x).sum())(X))
    same(np.full(3, 5.0), anfora.jit(lambda x: anfora.grad(lambda y: scaled(y).sum())(x))(X))
    same(np.full(3, 5.0), anfora.trace(lambda x: anfora.grad(total)(x))(X))
    value, pullback = anfora.vjp(scaled, X)
    same(X * 3, value)
    same(np.array([5.0, 10.0, 15.0]), pullback(np.arange(3.0) + 1)[0])
    same(X * 10, anfora.jvp(scaled, (X,), (X * 2,))[1])
    assert anfora.grad(lambda x: clipped(x, -1.0, 0.5) * 7)(2.0) == 0.5


def total(x):
    return scaled(x).sum()


def test_custom_gradients_of_higher_orders():
    def sigmoid(x):
        return 1 / (1 + math.exp(-x))

    second = sigmoid(0.3) * (1 - sigmoid(0.3))
    assert anfora.grad(anfora.grad(log1pexp))(0.3) == pytest.approx(second)
    assert anfora.grad(anfora.grad(anfora.grad(log1pexp)))(0.3) == pytest.approx(second * (1 - 2 * sigmoid(0.3)))
    # 3x² with the rule 5 for 3: 5x + 3x, and then 5 + 5
    same(np.eye(3) * 10, anfora.hessian(lambda x: (scaled(x) * x).sum())(X))


def test_custom_gradients_in_loops_branches_and_recursion():
    def loop(x, n):
        for i in range(n):
            x = scaled(x) if i % 2 == 0 else clipped(x * 2, -1.0, 1.0)
        return x.sum()

    def recursive(x, n):
        return x if n == 0 else scaled(recursive(x, n - 1))

    same(np.full(3, 10.0), anfora.grad(loop)(X, 7))
    same(np.full(3, 10.0), anfora.grad(loop, checkpoints=2)(X, 7))
    assert anfora.grad(recursive)(1.0, 3) == 125.0 and anfora.jit(recursive)(1.0, 3) == 27.0


def test_custom_gradients_of_structures():
    @anfora.custom_gradient
    def f(p, n):
        def backward(dy):
            assert_of = dy["b"][1]
            return {"w": dy["a"] * 100, "b": dy["b"][0] * 10 if assert_of is None else dy["b"][0]}, None
        return {"a": p["w"] * n, "b": [p["b"], 3]}, backward

    def use(p, n):
        y = f(p, n)
        return (y["a"] * y["a"]).sum() + y["b"][0] * y["b"][1]

    p = {"w": X, "b": 2.0}
    same({"w": X * 600, "b": 30.0}, anfora.grad(use)(p, 3))
    assert anfora.jit(use)(p, 3) == pytest.approx(use(p, 3))


def test_custom_gradients_made_inside():
    @anfora.jit
    def f(x, w):
        @anfora.custom_gradient
        def g(v):
            return v * w, lambda dy: dy * w * w
        return anfora.grad(lambda v: g(v).sum())(x)

    same(X * X, f(np.ones(3), X))


class Layer:
    def __init__(self):
        self.scale = 3.0

    @anfora.custom_gradient
    def apply(self, x):
        return x * self.scale, lambda dy: dy * self.scale * 2


def test_custom_gradients_of_methods():
    layer = Layer()
    assert layer.apply(2.0) == 6.0 and anfora.jit(lambda x: layer.apply(x))(2.0) == 6.0
    assert anfora.grad(lambda x: layer.apply(x))(2.0) == 6.0
    assert anfora.grad(layer.apply)(2.0) == 6.0


# Gradients inside -----------------------------------------------------------------------------------------------------


def sines(x, w):
    return (np.sin(x) * w).sum()


def test_gradients_in_branches_and_loops():
    @anfora.jit
    def branch(x, w, n):
        if n > 0:
            value, slope = anfora.value_and_grad(sines, argnums=(0, 1))(x, w)
            return value + slope[0] * slope[1]
        return x

    same(sines(X, X) + np.cos(X) * X * np.sin(X), branch(X, X, 1))
    same(X, branch(X, X, 0))

    @anfora.jit
    def descend(x, rows):
        for w in rows:
            x = x - 0.1 * anfora.grad(sines)(x, w)
        return x

    rows, x = np.arange(12.0).reshape(4, 3), X
    for w in rows:
        x = x - 0.1 * np.cos(x) * w
    same(x, descend(X, rows))
    # and the gradient of that, by finite differences
    slope, h = anfora.grad(lambda x: descend(x, rows).sum())(X), 1e-6
    for i in range(3):
        step = np.eye(3)[i] * h
        assert slope[i] == pytest.approx((descend(X + step, rows).sum() - descend(X - step, rows).sum()) / (2 * h), rel=1e-6)


def test_gradients_in_nested_functions():
    @anfora.jit
    def f(x, y):
        def inner(a):
            return a * anfora.grad(lambda b: a * b * b)(y)  # 2a²y
        return anfora.grad(inner)(x)

    assert f(3.0, 5.0) == 60.0
    assert anfora.grad(f, argnums=1)(3.0, 5.0) == 12.0

    def factorial(x, n):
        return x if n == 0 else anfora.grad(lambda y: y**3)(factorial(x, n - 1))

    assert anfora.jit(factorial)(0.5, 2) == 3 * (3 * 0.5**2) ** 2


def test_gradients_by_arguments_of_what_reads_the_same_values_from_around():
    @anfora.jit
    def f(x):
        return anfora.grad(lambda y: (x * y).sum())(x)  # by y alone

    same(X, f(X))
    same(np.ones(3), anfora.grad(lambda x: f(x).sum())(X))


def test_gradients_of_what_leaves_early():
    def early(x, n):
        for _ in range(n):
            if x.sum() > 10:
                return (x * x).sum()
            x = x * 2
        return x.sum()

    f = anfora.jit(lambda x, n: anfora.grad(early)(x, n) if n > 0 else x)
    same(anfora.grad(early)(np.ones(2), 5), f(np.ones(2), 5))
    same(np.full(2, 4.0), f(np.ones(2), 2))


def test_gradients_of_what_prints_and_appends(capfd):
    @anfora.jit
    def f(x):
        log = []

        def loss(y):
            print("here")
            log.append(y * 2)
            assert y.sum() > 0, "negative"
            return (y * y).sum()
        return anfora.grad(loss)(x), log

    same((np.full(2, 2.0), [np.full(2, 2.0)]), f(np.ones(2)))
    assert "".join(capfd.readouterr()).count("here") == 1
    with pytest.raises(anfora.InvalidArgumentError, match="negative"):
        f(-np.ones(2))


def test_gradients_of_long_loops_over_a_list():
    def f(x, n):
        values, total = [x], x * 0
        for _ in range(n):
            values.append(np.sin(values[-1]) + x)
            total = total + values[-1] * values[-1]
        return total.sum()

    def by_hand(x, n):
        values = [x]
        for _ in range(n):
            values.append(np.sin(values[-1]) + x)
        slope, result = np.zeros_like(x), np.zeros_like(x)
        for before, value in zip(values[-2::-1], values[:0:-1]):
            slope = slope + 2 * value
            result, slope = result + slope, slope * np.cos(before)
        return result + slope

    np.testing.assert_allclose(anfora.grad(f)(X, 2000), by_hand(X, 2000), rtol=1e-9)


def test_gradients_with_checkpoints_inside():
    def f(x, n):
        for _ in range(n):
            x = np.sin(x)
        return x.sum()

    same(anfora.grad(f)(X, 20), anfora.jit(lambda x, n: anfora.grad(f, checkpoints=3)(x, n))(X, 20))


def test_a_gradient_in_the_surroundings_compiles_once():
    slope = anfora.grad(lambda x: x * x * x)
    f = anfora.jit(lambda x: slope(x) + log1pexp(x) - log1pexp(x))
    assert f(1.0) == 3.0 and f(2.0) == 12.0
    assert f.explain().count("\n") == 0


# Functions that a run chooses -------------------------------------------------------------------------------------------


def square(x):
    return x * x


def twice_sine(x):
    return np.sin(x) * 2


def half_exponential(x):
    return np.exp(x * 0.5)


FUNCTIONS = [square, twice_sine, half_exponential]
NAMED = dict(zip("abc", FUNCTIONS))
SLOPES = [lambda x: 2 * x, lambda x: 2 * np.cos(x), lambda x: 0.5 * np.exp(0.5 * x)]
CURVATURES = [lambda x: 2 + 0 * x, lambda x: -2 * np.sin(x), lambda x: 0.25 * np.exp(0.5 * x)]


def chosen(x, i):
    return FUNCTIONS[i](x).sum()


@pytest.mark.parametrize("i", range(3))
def test_gradients_of_functions_out_of_a_list_or_dict(i):
    at = np.array(i)
    np.testing.assert_allclose(anfora.grad(chosen)(X, at), SLOPES[i](X), rtol=1e-14)
    value, gradient = anfora.value_and_grad(chosen)(X, at)
    np.testing.assert_allclose(value, FUNCTIONS[i](X).sum(), rtol=1e-14)
    np.testing.assert_allclose(gradient, SLOPES[i](X), rtol=1e-14)
    np.testing.assert_allclose(anfora.grad(lambda x, i: anfora.grad(chosen)(x, i).sum())(X, at), CURVATURES[i](X), rtol=1e-14)
    np.testing.assert_allclose(anfora.jit(lambda x, i: anfora.grad(chosen)(x, i))(X, at), SLOPES[i](X), rtol=1e-14)
    np.testing.assert_allclose(anfora.grad(lambda x, key: NAMED[key](x))(0.7, "abc"[i]), SLOPES[i](0.7), rtol=1e-14)


@pytest.mark.parametrize("i", range(3))
def test_gradients_by_what_chosen_functions_captured(i):
    def f(x, i, w):
        return [lambda x: x * w, lambda x: x * w * w, lambda x: np.sin(x * w)][i](x)

    def with_defaults(x, i, w):
        return [lambda x, w=k * w: np.sin(x * w) for k in (1, 2, 3)][i](x)

    x, w, k = 0.7, 1.3, i + 1
    by_hand = [(w, x), (w * w, 2 * x * w), (w * np.cos(x * w), x * np.cos(x * w))][i]
    np.testing.assert_allclose(anfora.grad(f, (0, 2))(x, np.array(i), w), by_hand, rtol=1e-14)
    np.testing.assert_allclose(anfora.grad(with_defaults, (0, 2))(x, np.array(i), w), np.array([w, x]) * k * np.cos(k * x * w), rtol=1e-14)


@pytest.mark.parametrize("n", [0, 1, 4, 7])
def test_gradients_of_loops_over_chosen_functions(n):
    def by_index(x, n):
        for i in range(n):
            x = FUNCTIONS[i % 3](x)
        return x

    def by_variable(x, n):
        function = square
        for i in range(n):
            x = function(x)
            function = FUNCTIONS[(i + 1) % 3]
        return x

    def slope(x):
        result = 1.0
        for i in range(n):
            result, x = result * SLOPES[i % 3](x), FUNCTIONS[i % 3](x)
        return result

    at, x, step = np.array(n), 0.7, 1e-5
    for f in by_index, by_variable:
        np.testing.assert_allclose(anfora.grad(f)(x, at), slope(x), rtol=1e-13)
        np.testing.assert_allclose(anfora.grad(f, checkpoints=2)(x, at), slope(x), rtol=1e-13)
        np.testing.assert_allclose(anfora.grad(anfora.grad(f))(x, at), (slope(x + step) - slope(x - step)) / (2 * step), rtol=1e-5)


def test_gradients_of_an_index_out_of_range():
    with pytest.raises(anfora.InvalidArgumentError, match="the index is out of range"):
        anfora.grad(chosen)(X, np.array(3))


# Every stage on disk --------------------------------------------------------------------------------------------------


def test_save_graphs(tmp_path):
    @anfora.jit(save_graphs=tmp_path / "graphs")
    def f(x, n):
        for _ in range(n):
            x = x - (1 / 10) * anfora.grad(lambda y: (y * y).sum())(x)
        return x

    same(X * 0.8**2, f(X, 2))
    f(X[:2].reshape(1, 2), 2)
    files = [sorted(path.name for path in (tmp_path / "graphs" / number).iterdir()) for number in ("1", "2")]
    for names in files:
        assert names[:3] == ["00_written.py", "01_folded.py", "02_control_flow.txt"] and "03_import.ir" in names and "index.html" in names
    first = tmp_path / "graphs" / "1"
    assert "(1 / 10)" in (first / "00_written.py").read_text() and "0.1" in (first / "01_folded.py").read_text()
    assert "x = x - 0.1 * anfora.grad(" in (first / "02_control_flow.txt").read_text()
    last = max(name for name in files[0] if name.endswith(".ir"))
    same(X * 0.8**2, anfora.load(str(first / last)).compile()(X, np.asarray(2)))

    slope = anfora.grad(anfora.jit(lambda x: (x * x).sum(), save_graphs=str(tmp_path / "slope")))
    same(X * 2, slope(X))
    assert (tmp_path / "slope" / "1" / "00_written.py").exists()
    anfora.load(str(first / last)).compile(save_graphs=tmp_path / "again")
    assert (tmp_path / "again" / "00_import.ir").exists()


# What is wrong --------------------------------------------------------------------------------------------------------


def no_pair(x):
    @anfora.custom_gradient
    def f(v):
        return v * 2
    return f(x)


def not_two_arguments(x):
    @anfora.custom_gradient
    def f(v, w):
        return v * w, lambda dy: dy * w
    return f(x, x)


def other_shape(x):
    @anfora.custom_gradient
    def f(v):
        return v.sum(), lambda dy: dy * np.ones(7)
    return f(x)


def number_for_a_tensor(x):
    @anfora.custom_gradient
    def f(v):
        return v.sum(), lambda dy: 0.0
    return f(x)


def other_type(x):
    @anfora.custom_gradient
    def f(v):
        return v.sum(), lambda dy: np.ones(3, np.float32)
    return f(x)


def other_keys(x):
    @anfora.custom_gradient
    def f(p):
        def backward(dy):
            return {"b": dy}
        return p["a"], backward
    return f({"a": x})


def prints(x):
    @anfora.custom_gradient
    def f(v):
        print(v)
        return v, lambda dy: dy
    return f(x)


def changes(x):
    seen = []

    @anfora.custom_gradient
    def f(v):
        def backward(dy):
            seen.append(dy)
            return dy
        return v, backward
    return f(x)


def of_a_number(x):
    return anfora.custom_gradient(3)(x)


def by_what_is_around(x):
    @anfora.custom_gradient
    def f(v):
        return v * x, lambda dy: dy * x
    return anfora.grad(lambda y: f(np.ones(3)).sum() * y.sum())(x).sum() + anfora.grad(lambda y: around(y))(x).sum()


def around(y):
    @anfora.custom_gradient
    def f(v):
        return (v * y).sum(), lambda dy: dy * y
    return f(np.ones(3) * 2)


def differentiates_itself(x):
    def f(y, n):
        return (y * y).sum() if n <= 0 else anfora.grad(lambda z: f(z, n - 1))(y).sum()
    return f(x, x.shape[0])


def checkpoints_of_a_run(x):
    return anfora.grad(lambda y: y.sum(), checkpoints=x.shape[0] - 5)(x)


WRONG = [
    (no_pair, "function f has a gradient of its own, and returns f64["),
    (not_two_arguments, "a lambda returns f64[3], and the sensitivities of the arguments are (f64[3], f64[3])"),
    (other_shape, "a lambda returns f64[7], and the sensitivities of the arguments are f64[3]"),
    (number_for_a_tensor, "a lambda returns float, and the sensitivities of the arguments are f64[3]"),
    (other_type, "a lambda returns f32[3], and the sensitivities of the arguments are f64[3]"),
    (other_keys, "function backward returns {'b': f64[3]}, and the sensitivities of the arguments are {'a': f64[3]}"),
    (prints, "function f prints, asserts, or changes what others see"),
    (changes, "function backward prints, asserts, or changes what others see"),
    (of_a_number, "custom_gradient() of int"),
    (by_what_is_around, "this function has a gradient of its own by its arguments, and the result depends on what it reads from around it, too"),
    (differentiates_itself, "what is differentiated here calls a function of which it is a part"),
    (checkpoints_of_a_run, "checkpoints is int"),
]


@pytest.mark.parametrize("function, message", WRONG, ids=lambda value: getattr(value, "__name__", None))
def test_wrong_gradients(function, message):
    with pytest.raises(anfora.Error) as caught:
        anfora.jit(function)(X)
    error = caught.value
    assert error.message.startswith(message)
    file, line, column = error.location.split(":")
    assert file == "test_gradients.py" and int(line) > 0 and int(column) > 0
    assert "^" in error.excerpt and error.hint


def test_what_is_no_pair_is_told_without_compiling_too():
    @anfora.custom_gradient
    def f(x):
        return x

    with pytest.raises(anfora.TypeMismatchError, match="return two"):
        f(1.0)


# vjp, jvp, jacobian and hessian inside ----------------------------------------------------------------------------------


def layers(x, w):
    y = np.tanh(x @ w["a"])
    return {"y": y, "sum": (y * y).sum()}


def test_vjp_inside():
    random = np.random.default_rng(0)
    x, w = random.standard_normal((3, 4)), {"a": random.standard_normal((4, 2)), "n": 3}
    c = {"y": random.standard_normal((3, 2)), "sum": 2.0}
    value, pullback = anfora.vjp(layers, x, w)
    dx, dw = pullback(c)

    @anfora.jit
    def inside(x, w, c):
        value, pullback = anfora.vjp(layers, x, w)
        return value, pullback(c), pullback(c)[0] * 2

    value_inside, (dx_inside, dw_inside), twice = inside(x, w, c)
    same(value, value_inside)
    same(dx, dx_inside)
    same(dw["a"], dw_inside["a"])
    assert dw_inside["n"] is None
    same(2 * dx, twice)
    operators = [node.op for node in inside.lower(x, w, c).optimize().nodes]
    assert operators.count("Tanh") == 1 and operators.count("MatMul") <= 3


def test_jvp_inside():
    def function(x, w):
        return np.sin(x) * w, (x @ w) ** 2

    x, w, v, u = np.random.default_rng(0).standard_normal((4, 5))
    inside = anfora.jit(lambda x, w, v, u: anfora.jvp(function, (x, w), (v, u)))
    same(anfora.jvp(function, (x, w), (v, u)), inside(x, w, v, u))
    many = anfora.jit(lambda x, w, v, u, n: [anfora.jvp(function, (x, w), (v * i, u))[1][0].sum() for i in range(n)])
    same([float(anfora.jvp(function, (x, w), (v * i, u))[1][0].sum()) for i in range(4)], many(x, w, v, u, 4))


@pytest.mark.parametrize("function", [
    lambda x: np.stack((x[0] ** 2 + x[1], x[0] * x[1], x[1] ** 3)),          # by columns
    lambda x: x[:1] * x[1:],                                                 # by rows
    lambda x: np.outer(x, np.exp(x)),
    lambda x: (x ** 3).sum() * x[0],
], ids=["tall", "wide", "matrix", "number"])
def test_jacobian_inside(function):
    x = np.array([1.0, 2.0])
    same(anfora.jacobian(function)(x), anfora.jit(lambda x: anfora.jacobian(function)(x))(x))


def test_hessian_inside():
    def loss(scale, x):
        return scale * np.exp(x).sum() * (x * x).sum()

    x = np.array([0.5, -1.0, 2.0])
    same(anfora.hessian(loss, 1)(2.0, x), anfora.jit(lambda s, x: anfora.hessian(loss, 1)(s, x))(2.0, x))

    @anfora.jit
    def newton(x, steps):
        def potential(x):
            return (x ** 4).sum() / 4 + (x[0] - 2 * x[1]) ** 2 - x.sum()

        for _ in range(steps):
            x = x - np.linalg.solve(anfora.hessian(potential)(x), anfora.grad(potential)(x))
        return x, anfora.grad(potential)(x)

    assert np.abs(newton(np.array([1.0, 1.0]), 20)[1]).max() < 1e-12

"""Source, trace and gradients of one function end in the same graph, up to names and places."""
import math

import numpy as np
import pytest
from test_jit import same

import anfora

RANDOM = np.random.default_rng(0)


def rng(*shape, dtype=np.float64):
    return RANDOM.normal(size=shape).astype(dtype)


# Elementwise ----------------------------------------------------------------------------------------------------------


def square(x):
    return x * x


def polynomial(x):
    return 3 * x**3 - 2 * x**2 + x - 7


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def tanh_by_exponentials(x):
    return (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def silu(x):
    return x / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(x))


def stable_softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def commuted(x, y):
    return y * x + x * y + (y + x) * (x + y)


def mixed(x, y, z):
    return (x + y) * z + z * (y + x) - x * z


def huber(x, y):
    d = np.abs(x - y)
    return np.where(d < 1, 0.5 * d * d, d - 0.5)


def leaky(x):
    return np.where(x > 0, x, 0.1 * x)


def clipped(x):
    return np.clip(x, -1, 1) * 2


def relu(x):
    return np.maximum(x, 0)


def extremes(x, y):
    return np.maximum(x, y) - np.minimum(y, x)


def angles(x):
    return np.sin(x) ** 2 + np.cos(x) ** 2


def rooted(x):
    return np.sqrt(x * x + 1) + np.cbrt(x * x + 2)


def logs(x):
    return np.log(np.abs(x) + 1) / np.log(2.0)


def powers(x):
    return (x * x + 1) ** 1.5 + 2.0**x


def compared(x, y):
    return (x > y) & (y < 3) | (x == y)


def rounded(x):
    return np.floor(x) + np.ceil(x) * np.sign(x)


# Reductions -----------------------------------------------------------------------------------------------------------


def total(x):
    return x.sum()


def norm(x):
    return np.sqrt((x * x).sum())


def mean_square(x, y):
    return ((x - y) ** 2).mean()


def variances(x):
    return x.var(axis=0), x.std(axis=1)


def extremes_of_rows(x):
    return x.max(axis=1) - x.min(axis=1)


def product_of_rows(x):
    return x.prod(axis=1)


def log_sum_exp(x):
    m = x.max(axis=-1, keepdims=True)
    return np.log(np.exp(x - m).sum(axis=-1)) + m[..., 0]


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def plain_softmax(x):
    return np.exp(x) / np.exp(x).sum()


def squared_softmax(x):
    return (softmax(x) ** 2).sum()


def log_softmax(x):
    s = x - x.max(axis=-1, keepdims=True)
    return s - np.log(np.exp(s).sum(axis=-1, keepdims=True))


def entropy(p):
    p = p * p + 0.1
    return -(p * np.log(p)).sum(axis=-1)


def positions(x):
    return np.argmax(x, axis=1), np.argmin(x)


def any_and_all(x):
    return (x > 0).any(axis=0), (x < 3).all()


def cumulative(x):
    return np.cumsum(x, axis=1)


def weighted_cumulative(x):
    return np.cumsum(x * x, axis=0) / np.cumsum(np.ones_like(x), axis=0)


# Normalizations -------------------------------------------------------------------------------------------------------


def batch_norm(x):
    return (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5)


def layer_norm(x, scale, bias):
    m = x.mean(axis=-1, keepdims=True)
    v = ((x - m) ** 2).mean(axis=-1, keepdims=True)
    return (x - m) / np.sqrt(v + 1e-5) * scale + bias


def rms_norm(x, scale):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6) * scale


def unit_rows(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def min_max(x):
    return (x - x.min()) / (x.max() - x.min() + 1e-9)


# Products -------------------------------------------------------------------------------------------------------------


def product(x, w):
    return x @ w


def layer(x, w, b):
    return np.maximum(x @ w + b, 0)


def two_layers(x, w, b, v, c):
    return np.tanh(x @ w + b) @ v + c


def bilinear(x, w, y):
    return x @ w @ y


def gram(x):
    return x @ x.T + x.T @ x


def outer(x, y):
    return np.outer(x, y) + x[:, None] * y


def attention(q, k, v):
    return softmax(q @ k.T / q.shape[-1] ** 0.5) @ v


def heads(x, w):
    n, d = x.shape
    q = (x @ w).reshape(n, 2, -1).transpose(1, 0, 2)
    return softmax(q @ q.transpose(0, 2, 1) / math.sqrt(4.0)) @ q


def causal(q, k, v):
    scores = q @ k.T
    scores = np.where(np.tril(np.ones_like(scores)) > 0, scores, -1e9)
    return softmax(scores) @ v


def einsums(x, y):
    return np.einsum("ij,kj->ik", x, y), np.einsum("ij,ij->i", x, y)


def dotted(x, y):
    return np.dot(x, y) + np.tensordot(x, y, axes=1) + np.vdot(y, x)


def cross_entropy(x, w, target):
    logits = x @ w
    return -(log_softmax(logits) * target).sum(axis=-1).mean()


def solved(a, b):
    return np.linalg.solve(a @ a.T + np.ones_like(a), b)


# Movement -------------------------------------------------------------------------------------------------------------


def reshaped(x):
    return x.reshape(x.shape[0] * 2, -1).T


def halves(x):
    n = x.shape[0] // 2
    return x[:n] + x[n : 2 * n], x[..., 0]


def first_rows(x):
    return x[:3] * 2


def neighbours(x):
    return x[1:] - x[:-1]


def reversed_rows(x):
    return x[::-1] + x[:, ::-1]


def gathered(x, i):
    return x[i] + x[i, 0][:, None]


def picked(x):
    return x[0, 1] * x[-1, 2]


def joined(x, y):
    return np.concatenate([x, y, x], axis=0)


def stacked(x, y):
    return np.stack([x, y], axis=1)


def rolled(x):
    return np.roll(x, 1, axis=0) + x


def padded(x):
    return np.pad(x, 1)


def repeated(x):
    return np.repeat(x, 2, axis=0) + np.tile(x, (2, 1))


def sorted_rows(x):
    return np.sort(x, axis=1)[:, ::-1]


def triangles(x):
    return np.tril(x) + np.triu(x, 1) * 2


def written(x):
    x = x.copy()
    x[0] = 1.0
    return x * 2


def swapped(x):
    return np.swapaxes(x, 0, 1) + np.moveaxis(x, 0, 1)


def split(x):
    a, b = np.split(x, 2, axis=1)
    return a * b


def broadcast(x, y):
    return x + y[:, None] * np.ones_like(x[0])


def diagonal(x):
    return np.diagonal(x) + np.trace(x)


# Arguments and types --------------------------------------------------------------------------------------------------


def scaled(x, factor, offset):
    return x * factor + offset


def with_default(x, factor=2.0, *, offset=1):
    return x * factor + offset


def numbers(a, b):
    return a * b + np.sin(a) - b / 3


def several(x, y):
    return {"sum": x + y, "parts": [x - y, (x * y).sum()], "size": x.shape[0] + 1}


def nested(tree):
    (x, y), z = tree["pair"], tree["other"][0]
    return (x * y, (z + x, [y - z]))


def network(parameters, x):
    for w, b in parameters:
        x = np.tanh(x @ w + b)
    return x


def converted(x):
    return x.astype(np.float32) * np.float32(2) + 1


def half(x):
    return (x * 2).astype(np.float16) + 1


def integers(x, n):
    return x // 3 + x % n + (x << 1)


def counted(x):
    return (x > 0).sum() / x.size


def averaged(x, n):
    return x.astype(np.float64).sum() / n


def by_lambda(x):
    twice = lambda f, v: f(f(v))  # noqa: E731
    return twice(lambda v: v * v + 1, x)


def by_functions(x, y):
    def helper(a, b=2.0):
        return norm(a) * b + total(a)

    return helper(x) + helper(y, b=3.0) * mean_square(x, y)


def repeated_steps(x):  # a loop of the source, which a trace has turn by turn
    for i in range(3):
        x = x * (i + 1) + np.sin(x)
    return x


def converging(x):
    while (x * x).sum() > 1:
        x = x / 2
    return x


def step(w, x, y):
    return w - 0.1 * anfora.grad(lambda w: mean_square(x @ w, y))(w)


M, N, V, W = rng(4, 4), rng(4, 4), rng(4), rng(4)
S, T = rng(3, 4, dtype=np.float32), rng(3, 4, dtype=np.float32)
I = np.arange(12).reshape(3, 4)  # noqa: E741

# With keywords, where the last one is a dict.
DIFFERENTIABLE = [
    (square, M), (polynomial, M), (polynomial, S), (sigmoid, M), (sigmoid, S), (tanh_by_exponentials, M), (gelu, M), (gelu, S), (silu, M),
    (softplus, M), (stable_softplus, M), (commuted, M, N), (mixed, M, N, rng(4, 4)), (huber, M, N), (leaky, S), (clipped, M), (relu, S),
    (extremes, M, N), (angles, M), (rooted, M), (logs, M), (powers, M),
    (total, M), (norm, V), (norm, S), (mean_square, V, W), (mean_square, S, T), (variances, M), (extremes_of_rows, M), (product_of_rows, M),
    (log_sum_exp, M), (softmax, M), (softmax, S), (plain_softmax, V), (squared_softmax, M), (squared_softmax, V), (log_softmax, M), (entropy, M),
    (cumulative, M), (weighted_cumulative, M),
    (batch_norm, M), (layer_norm, M, V, W), (layer_norm, S, rng(4, dtype=np.float32), rng(4, dtype=np.float32)), (rms_norm, M, V), (unit_rows, M),
    (min_max, M),
    (product, rng(5, 3), rng(3, 4)), (layer, rng(5, 3), rng(3, 4), rng(4)), (layer, M, N, V), (two_layers, rng(5, 3), rng(3, 4), rng(4), rng(4, 2), rng(2)),
    (bilinear, V, M, W), (gram, M), (outer, V, rng(3)), (attention, M, N, rng(4, 4)), (attention, rng(5, 3), rng(6, 3), rng(6, 2)),
    (heads, rng(5, 6), rng(6, 8)), (causal, M, N, rng(4, 4)), (einsums, rng(3, 4), rng(5, 4)[:3]), (dotted, V, W),
    (cross_entropy, rng(5, 3), rng(3, 4), np.eye(4)[[0, 1, 2, 3, 0]]), (solved, M, V),
    (reshaped, M), (halves, M), (halves, rng(6, 3)), (first_rows, rng(5, 3)), (neighbours, rng(5, 3)), (reversed_rows, M),
    (gathered, M, np.array([0, 2, 1])), (picked, M), (joined, M, rng(2, 4)), (stacked, M, N), (rolled, M), (padded, M), (repeated, M),
    (sorted_rows, M), (triangles, M), (written, M), (swapped, M), (split, M), (broadcast, rng(4, 3), V), (diagonal, M),
    (scaled, M, 2, 0.5), (scaled, rng(3, dtype=np.float32), 2.0, 1), (with_default, M), (with_default, M, 3.0), (with_default, M, {"offset": 2.5}),
    (with_default, M, {"factor": rng(4), "offset": 2}), (numbers, 2.0, 3.0), (several, M, N), (by_lambda, V), (by_functions, M, N),
    (step, rng(3), rng(5, 3), rng(5)),
]
OTHERS = [
    (compared, M, N), (rounded, M), (positions, M), (any_and_all, M), (converted, M), (half, S), (integers, I, 5), (counted, M), (averaged, I, 3),
    (nested, {"pair": (M, N), "other": [rng(4, 4)]}, {}), (network, [(rng(3, 4), rng(4)), (rng(4, 2), rng(2))], rng(5, 3)), (numbers, 2, 3),
]
LOOPS = [(repeated_steps, M), (converging, M)]


def call_of(case):
    function, *arguments = case
    keywords = arguments.pop() if isinstance(arguments[-1], dict) else {}
    return function, arguments, keywords


def name_of(case):
    function, arguments, keywords = call_of(case)
    types = [f"{a.dtype.name}{list(a.shape)}" if isinstance(a, np.ndarray) else type(a).__name__ for a in (*arguments, *keywords.values())]
    return f"{function.__name__}-{'-'.join(types)}"


def sum_of(function):
    """A number that depends on all floats that the function returns."""
    def loss(*arguments, **keywords):
        result = function(*arguments, **keywords)
        if isinstance(result, dict):
            result = (result["sum"], *result["parts"])
        parts = result if isinstance(result, tuple) else (result,)
        return sum([(np.cos(part) * 1.5).sum() for part in parts])

    return loss


def difference(one, other):
    return one.optimize()._core.structural_difference(other.optimize()._core)


@pytest.mark.parametrize("case", DIFFERENTIABLE + OTHERS, ids=name_of)
def test_source_and_trace(case):
    function, arguments, keywords = call_of(case)
    traced, compiled = anfora.trace(function), anfora.jit(function)
    assert not difference(traced.lower(*arguments, **keywords), compiled.lower(*arguments, **keywords))
    same(compiled(*arguments, **keywords), traced(*arguments, **keywords))


@pytest.mark.parametrize("case", DIFFERENTIABLE + LOOPS, ids=name_of)
def test_gradient_outside_and_inside(case):
    function, arguments, keywords = call_of(case)
    by = tuple(i for i, a in enumerate(arguments) if isinstance(a, float) or (isinstance(a, np.ndarray) and a.dtype.kind == "f"))
    gradient = anfora.value_and_grad(sum_of(function), by)

    def calling(*arguments, **keywords):
        return gradient(*arguments, **keywords)

    outside = gradient.lower(*arguments, **keywords)
    for inside in (anfora.jit(calling), anfora.trace(calling)):
        assert not difference(outside, inside.lower(*arguments, **keywords))
        same(gradient(*arguments, **keywords), inside(*arguments, **keywords))


@pytest.mark.parametrize("function", [squared_softmax, norm, log_sum_exp, total], ids=lambda f: f.__name__)
def test_second_derivatives(function):
    second = anfora.grad(lambda x: (anfora.grad(lambda x: function(x * x).sum())(x) ** 3).sum())
    inside = anfora.jit(lambda x: second(x))
    assert not difference(second.lower(V), inside.lower(V))
    same(second(V), inside(V))


# What holds of the argument alone, and not close to it, is no fact of what is differentiated by it.
def test_values_of_an_argument_are_no_facts():
    @anfora.jit
    def slopes(x):
        zero, positive = x * 0, np.abs(x)
        return (anfora.grad(lambda z: (z * x).sum())(zero), anfora.grad(lambda z: np.maximum(z, 0).sum())(zero),
                anfora.grad(lambda z: np.abs(z).sum())(positive), anfora.grad(lambda z: (np.sqrt(z * z) * x).sum())(positive + 1))

    x = np.array([0.0, 1.0, -2.0])
    same((x, np.full(3, 0.5), np.array([0.0, 1.0, 1.0]), x), slopes(x))

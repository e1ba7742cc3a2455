"""Training: parameters updated in place, memory limits, and the memory that a step takes."""
import dataclasses

import numpy as np
import pytest

from test_jit import leaves

import anfora

RANDOM = np.random.default_rng(0)


def same(expected, got):
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


# Donation -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [anfora.jit, anfora.trace])
def test_donated_array_comes_back(compiled):
    @compiled(donate="p")
    def descend(p, g, rate):
        return p - rate * g

    p, g = np.ones((3, 4), np.float32), np.full((3, 4), 2, np.float32)
    for _ in range(3):
        assert descend(p, g, 0.25) is p
    same(np.full((3, 4), -0.5), p)
    same(np.full((3, 4), 2), g)
    given = np.ones((2, 2), np.float32)
    assert descend(p=given, g=given.copy(), rate=0.5) is given  # by name


def test_results_of_loops_lie_in_donated_arrays():
    @anfora.jit(donate=("p", "m"))
    def descend(p, m, n):
        for _ in range(n):
            m = 0.5 * m + p
            p = p - 0.25 * m
        return p, m

    def expected(p, m, n):
        for _ in range(n):
            m = 0.5 * m + p
            p = p - 0.25 * m
        return p, m

    p, m = np.ones((3, 4)), np.full((3, 4), 2.0)
    for n in (3, 0, 1, 7):
        before = expected(p.copy(), m.copy(), n)
        after = descend(p, m, n)
        assert after[0] is p and after[1] is m
        same(before[0], p)
        same(before[1], m)


def test_results_of_loops_that_are_swapped_arguments():
    @anfora.jit(donate=("p", "q"))
    def swapped(p, q, n):
        for _ in range(n):
            p, q = q, p
        return p, q

    for n in (0, 1, 2, 3):
        p, q = np.full(5, 1.0), np.full(5, 2.0)
        a, b = swapped(p, q, n)
        same((2.0, 1.0) if n % 2 else (1.0, 2.0), (a[0], b[0]))


def test_a_single_result_of_a_loop():
    @anfora.jit(donate=0)
    def doubled(p, n):
        while n > 0:
            p, n = p * 2, n - 1
        return p

    p = np.ones(6, np.float32)
    assert doubled(p, 3) is p and doubled(p, 0) is p
    same(np.full(6, 8, np.float32), p)


@pytest.mark.parametrize("donate", [0, "tree", (0,), ["tree", 1]])
def test_donated_trees(donate):
    @dataclasses.dataclass
    class Layer:
        weight: np.ndarray
        bias: np.ndarray

    @anfora.jit(donate=donate)
    def step(tree, state):
        return {"layers": [Layer(layer.weight * 2, layer.bias + 1) for layer in tree["layers"]], "count": tree["count"] + 1}, (state[0] * 0.5,)

    tree = {"layers": [Layer(np.ones((2, 3)), np.ones(3)), Layer(np.ones((3, 2)), np.ones(2))], "count": 1}
    state = (np.ones(5),)
    new, state_after = step(tree, state)
    assert new["count"] == 2 and new["layers"][1].bias is tree["layers"][1].bias
    for old, layer in zip(tree["layers"], new["layers"]):
        assert layer.weight is old.weight
        same(2, layer.weight)
    assert (state_after[0] is state[0]) == isinstance(donate, list)


@pytest.mark.parametrize("optimizer", [anfora.optimizers.SGD(0.1), anfora.optimizers.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
                                       anfora.optimizers.Adam(0.1), anfora.optimizers.Adam(0.1, weight_decay=0.01)],
                         ids=["sgd", "momentum", "adam", "adamw"])
def test_optimizers_update_in_place(optimizer):
    def loss_of(p, x):
        return (np.tanh(x @ p["w"] + p["b"]) ** 2).mean()

    def step(p, state, x):
        loss, gradients = anfora.value_and_grad(loss_of)(p, x)
        p, state = optimizer.update(p, gradients, state)
        return p, state, loss

    x = RANDOM.standard_normal((8, 5))
    first = {"w": RANDOM.standard_normal((5, 4)), "b": np.zeros(4)}
    p, q = ({k: v.copy() for k, v in first.items()} for _ in range(2))
    state_p, state_q = optimizer.init(p), optimizer.init(q)
    plain, donated = anfora.jit(step), anfora.jit(step, donate=("p", "state"))
    arrays = [v for v in q.values()]
    for _ in range(5):
        p, state_p, loss_p = plain(p, state_p, x)
        q, state_q, loss_q = donated(q, state_q, x)
        same(loss_p, loss_q)
    assert all(a is b for a, b in zip(q.values(), arrays))
    for key in p:
        same(p[key], q[key])
    before = leaves(state_q)
    assert all(a is b for a, b in zip(before, leaves(donated(q, state_q, x)[1])) if isinstance(a, np.ndarray))


def test_donated_memory_may_not_be_shared():
    step = anfora.jit(lambda p, q: (p + 1, q * 2), donate=0)
    both = np.arange(6.0)
    for p, q in ((both, both), (both, both[2:3]), (both[:4], both[3:]), (both.reshape(2, 3), both)):
        with pytest.raises(anfora.InvalidArgumentError, match="'argument 0' is donated, and shares memory with 'argument 1'"):
            step(p, q)
    same(np.arange(6.0), both)
    p, q = step(both[:3], both[3:])
    same([1, 2, 3, 3, 4, 5], both)
    twice = anfora.jit(lambda pair: pair[0] + pair[1], donate="pair")
    with pytest.raises(anfora.InvalidArgumentError, match=r"argument 0\[.\]' is donated, and shares memory with 'argument 0\[.\]'"):
        twice((both, both))


def test_donated_memory_that_is_captured():
    weight = np.ones(3)
    step = anfora.jit(lambda p: p + weight, donate=0)
    with pytest.raises(anfora.InvalidArgumentError, match="shares memory with 'weight'"):
        step(weight)


def test_donated_array_that_is_read_only():
    p = np.ones(3)
    p.flags.writeable = False
    with pytest.raises(anfora.InvalidArgumentError, match="'argument 0' is donated, and is an array that cannot be written to"):
        anfora.jit(lambda p: p + 1, donate=0)(p)


def test_donated_views_of_other_strides_are_copied():
    base = np.arange(6.0).reshape(2, 3)
    result = anfora.jit(lambda p: p * 2, donate=0)(base.T)
    same(base.T * 2, result)
    same(np.arange(6.0).reshape(2, 3), base)


def test_donated_tensor_is_gone():
    t = anfora.Tensor(np.ones(3))
    result = anfora.jit(lambda p: p + 1, donate="p")(t)
    same(2, result)
    for use in (lambda: t + 1, lambda: t.shape, lambda: np.asarray(t), lambda: repr(t), lambda: t.dtype, lambda: float(t[0])):
        with pytest.raises(anfora.InvalidArgumentError, match="donated to a compiled function"):
            use()


def test_donated_arguments_that_are_not_there():
    with pytest.raises(anfora.InvalidArgumentError, match="no argument 'weights' to donate"):
        anfora.jit(lambda p: p, donate="weights")
    with pytest.raises(anfora.InvalidArgumentError, match="no argument 3 to donate"):
        anfora.jit(lambda p: p, donate=3)


def test_donated_and_kept_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("ANFORA_CACHE", str(tmp_path))

    def step(p, g):
        return p - g

    for _ in range(2):
        p = np.ones(3)
        compiled = anfora.jit(step, donate="p")
        assert compiled(p, p.copy()) is p
    assert "kept on disk" in compiled.explain()
    assert anfora.jit(step)(p, p.copy()) is not p


def test_donated_inputs_of_a_model(tmp_path):
    model = anfora.jit(lambda p, g: p - 2 * g).lower(np.ones(3), np.ones(3))
    names = [info.name for info in model.inputs]
    run = model.compile(donate=names[:1])
    p = np.ones(3)
    assert run(p, np.ones(3)) is p
    run.save(tmp_path / "step.anf")
    assert anfora.Executable.load(tmp_path / "step.anf")(p, np.ones(3)) is p
    same(-3, p)
    with pytest.raises(anfora.InvalidArgumentError, match="no input 'x'"):
        model.compile(donate=["x"])


# Memory limits --------------------------------------------------------------------------------------------------------


def deep(weights, x):
    for w in weights:
        x = np.tanh(x @ w) + np.sin(x)
    return (x * x).mean()


def deep_step(weights, x):
    return anfora.value_and_grad(deep)(weights, x)


def test_memory_limit():
    weights = [RANDOM.standard_normal((16, 16)).astype(np.float32) / 4 for _ in range(12)]
    x = RANDOM.standard_normal((2048, 16)).astype(np.float32)
    value, gradients = anfora.jit(deep_step)(weights, x)
    layer = x.nbytes
    limit = 12 * layer
    limited = anfora.jit(deep_step, memory_limit=limit)
    value_again, gradients_again = limited(weights, x)
    same(value, value_again)
    for g, h in zip(gradients, gradients_again):
        same(g, h)
    told = limited.explain()
    assert "computed again" in told and "us by estimate" in told and "for the memory limit" in told

    unlimited = anfora.jit(deep_step).lower(weights, x).compile()
    fitting = anfora.jit(deep_step, memory_limit=limit).lower(weights, x).compile(memory_limit=limit)
    for run in (unlimited, fitting):
        run(*weights, x)
    assert fitting.memory["arena"] < unlimited.memory["arena"] / 1.5
    assert fitting.memory["arena"] <= limit

    with pytest.raises(anfora.ResourceExhaustedError, match=r"a run needs \d+ bytes by the plan, \d+ more than the memory limit of 1000"):
        anfora.jit(deep_step, memory_limit=1000)(weights, x)
    with pytest.raises(anfora.ResourceExhaustedError, match="memory limit of 1000"):
        anfora.trace(deep_step, memory_limit=1000)(weights, x)


def test_memory_limit_that_is_not_needed():
    f = anfora.jit(lambda x: np.tanh(x).sum(), memory_limit=1 << 20)
    same(np.tanh(1.0) * 3, f(np.ones(3)))
    assert "again" not in f.explain()
    same(np.tanh(1.0) * 4, f(np.ones(4)))
    assert "which the memory limit is for" in f.explain()


# Loops ----------------------------------------------------------------------------------------------------------------


def test_residuals_of_counted_loops_lie_in_tensors():
    def decay(x, n):
        for _ in range(n):
            x = np.sin(x)
        return x.sum()

    def operators(gradient, *arguments):
        return {node.op for node in gradient.lower(*arguments).optimize().nodes}

    x, n = np.full(4, 0.5), 20_000
    gradient = anfora.grad(decay)
    expected, state = np.ones(4), x
    for _ in range(n):
        expected, state = expected * np.cos(state), np.sin(state)
    np.testing.assert_allclose(gradient(x, n), expected, rtol=1e-6)
    assert not any("Sequence" in op for op in operators(gradient, x, n))
    run = gradient.lower(x, n).compile()
    run(x, np.array(n))
    assert n * x.nbytes <= run.memory["blocks"] + run.memory["arena"] + run.memory["callee_arenas"] <= 2 * n * x.nbytes
    for count in (0, -3, 1):
        np.testing.assert_allclose(gradient(x, count), np.cos(x) if count == 1 else np.ones(4))

    second = anfora.grad(lambda x, n: anfora.grad(decay)(x, n).sum())
    np.testing.assert_allclose(second(x, 1), -np.sin(x))
    assert not any("Sequence" in op for op in operators(second, x, 3))


def test_residuals_of_other_loops_lie_in_sequences():
    def until(x):
        while x.sum() > 1:
            x = x * 0.5
        return x.sum()

    def grows(x, n):
        for i in range(n):
            x = np.concatenate((x, x[:1] * i))
        return (x * x).sum()

    np.testing.assert_allclose(anfora.grad(until)(np.array([3.0, 4.0])), [0.125, 0.125])
    np.testing.assert_allclose(anfora.grad(grows)(np.array([1.0, 2.0]), 3), [2 * (1 + 1 + 4), 4])


def test_rows_written_one_by_one():
    def powers(x, n):
        rows = np.zeros((n, 2))
        for i in range(n):
            rows[i] = x ** i
        return (rows * rows).sum()

    x = np.array([0.5, 0.9])
    expected = sum(2 * i * x ** (2 * i - 1) for i in range(1, 50))
    np.testing.assert_allclose(anfora.grad(powers)(x, 50), expected)


def test_counters_are_not_kept():
    def total(x):
        s = 0.0
        for i in range(x.shape[0]):
            s += x[i] * x[i]
        return s

    x = RANDOM.standard_normal(5)
    gradient = anfora.grad(total)
    np.testing.assert_allclose(gradient(x), 2 * x)
    operators = [node.op for node in gradient.lower(x).optimize().nodes]
    assert operators.count("ScatterND") == 1 and operators.count("Switch") <= 1  # the backward loop alone

    def strided(x, first):
        s, k = 0.0, first
        while k < 9:
            s += x[k] ** 2 * k
            k += 3
        return s

    x = RANDOM.standard_normal(9)
    expected = np.zeros(9)
    expected[2:9:3] = 2 * x[2:9:3] * np.arange(2, 9, 3)
    np.testing.assert_allclose(anfora.grad(strided)(x, 2), expected)

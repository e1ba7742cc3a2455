"""Operators and kernels that are written in Python."""
import concurrent.futures

import numpy as np
import onnx
import onnx.helper
import pytest

import anfora

scaled_add = anfora.register_operator("test::ScaledAdd", "(x: T[...], y: T[...]) -> T[...]", scale=1.0)
top = anfora.register_operator("test::Top", "(x: T[N, K]) -> (T[N], i64[N])", doc="The largest of each row, and where it is.")
pairs = anfora.register_operator("test::Pairs", "(x: T[N]) -> T[floordiv(N, 2), 2]")
positive = anfora.register_operator("test::Positive", "(x: f64[N]) -> f64[?]")


@anfora.register_kernel("test::ScaledAdd")
def _scaled_add(x, y, *, scale):
    return x + np.asarray(scale, x.dtype) * y


@anfora.register_kernel("test::Top")
def _top(x):
    return x.max(axis=1), x.argmax(axis=1)


@anfora.register_kernel("test::Pairs")
def _pairs(x):
    return x[: len(x) // 2 * 2].reshape(-1, 2)


@anfora.register_kernel("test::Positive")
def _positive(x):
    return x[x > 0]


def rows_of(x, y):
    largest, where = top(scaled_add(x, y, scale=-1.0))
    return largest * 2, where + 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("how", [anfora.jit, anfora.trace, lambda f: f], ids=["jit", "trace", "tensors"])
def test_everywhere(how, dtype):
    x, y = np.arange(6).reshape(2, 3).astype(dtype), np.ones((2, 3), dtype)
    arguments = (x, y) if how in (anfora.jit, anfora.trace) else (anfora.Tensor(x), anfora.Tensor(y))
    largest, where = map(np.asarray, how(rows_of)(*arguments))
    assert largest.tolist() == [2, 8] and largest.dtype == dtype and where.tolist() == [3, 3]


def test_sizes_are_inferred():
    model = anfora.jit(lambda x: (pairs(x + 1), positive(x))).lower(np.arange(5.0))
    assert [output.type for output in model.outputs] == ["f64[floordiv(n0, 2), 2]", "f64[?]"]
    first, second = model.compile()(np.arange(5.0) - 2)
    assert first.tolist() == [[-1, 0], [1, 2]] and second.tolist() == [1, 2]


def test_in_an_onnx_model(tmp_path):
    node = onnx.helper.make_node("ScaledAdd", ["x", "y"], ["z"], domain="test", scale=0.5)
    graph = onnx.helper.make_graph(
        [node, onnx.helper.make_node("Relu", ["z"], ["out"])], "g",
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", 3]) for name in "xy"],
        [onnx.helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, None)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("test", 1)])
    loaded = anfora.load(model)
    assert loaded.outputs[0].type == "f32[N, 3]"
    small = loaded.optimize()
    x, y = np.ones((2, 3), np.float32), np.full((2, 3), -3, np.float32)
    y[0] = 4
    for each in (loaded, small, anfora.load(small.to_onnx())):
        assert each.compile()(x, y).tolist() == [[3, 3, 3], [0, 0, 0]]
    written = small.to_onnx()
    assert {(opset.domain, opset.version) for opset in written.opset_import} >= {("test", 1)}
    assert [(n.op_type, n.domain) for n in written.graph.node] == [("ScaledAdd", "test"), ("Relu", "")]


def test_a_compiled_model_in_a_file(tmp_path):
    path = str(tmp_path / "pairs.anf")
    anfora.jit(lambda x: pairs(x)).lower(np.arange(4.0)).compile().save(path)
    assert anfora.Executable.load(path)(np.arange(4.0)).tolist() == [[0, 1], [2, 3]]


def test_the_latest_kernel_holds():
    calls = []

    @anfora.register_kernel("test::ScaledAdd")
    def counting(x, y, *, scale):
        calls.append(scale)
        return _scaled_add(x, y, scale=scale)

    try:
        assert anfora.jit(lambda x: scaled_add(x, x))(np.ones(2)).tolist() == [2, 2]
        assert calls == [1.0]
    finally:
        anfora.register_kernel("test::ScaledAdd")(_scaled_add)


def test_a_kernel_of_another_operator():
    softsign = lambda: anfora.jit(lambda x: anfora.ops.Softsign(x))(np.ones(2, np.float32)).tolist()  # noqa: E731
    anfora.register_kernel("Softsign")(lambda x: x + 100)
    try:
        assert softsign() == [101, 101]
    finally:
        anfora.register_kernel("Softsign")(None)
    assert softsign() == [0.5, 0.5]


def test_many_threads():
    f = anfora.jit(lambda x: scaled_add(x, x, scale=2.0))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for n, result in enumerate(pool.map(lambda n: f(np.full(5, float(n))), range(64))):
            assert result.tolist() == [3.0 * n] * 5


def test_errors_of_kernels_are_those_of_python():
    failing = anfora.register_operator("test::Failing", "(x: T[...]) -> T[...]")
    with pytest.raises(anfora.Error, match="Failing"):
        anfora.jit(lambda x: failing(x))(np.ones(2))  # there is no kernel yet

    @anfora.register_kernel("test::Failing")
    def fails(x):
        raise KeyError("of the kernel")

    with pytest.raises(KeyError, match="of the kernel"):
        anfora.jit(lambda x: failing(x + 1))(np.ones(2))

    @anfora.register_kernel("test::Failing")
    def other_type(x):
        return x.astype(np.int8)

    with pytest.raises(anfora.InvalidArgumentError, match=r"gives i8\[2\] as result 0, which the operator declares as f64"):
        anfora.jit(lambda x: failing(x + 2))(np.ones(2))

    @anfora.register_kernel("test::Failing")
    def two(x):
        return x, x

    with pytest.raises(anfora.InvalidArgumentError, match="gives 2 results, and 1 are asked for"):
        anfora.jit(lambda x: failing(x + 3))(np.ones(2))


def test_wrong_declarations():
    for name, signature, message in [
        ("test::ScaledAdd", "(T[]) -> T[]", "there is an operator test::ScaledAdd already"),
        ("NoDomain", "(T[]) -> T[]", "no name for an operator"),
        ("test::A", "(T[N) -> T[]", "malformed"),
        ("test::A", "T[N] -> T[]", r"malformed: '\(' is missing at column 1"),
        ("test::A", "(T[N]) -> S[N]", "has a result of S, which no operand has"),
        ("test::A", "(T[N]) -> ()", "has no result"),
    ]:
        with pytest.raises(anfora.InvalidArgumentError, match=message):
            anfora.register_operator(name, signature)
    with pytest.raises(anfora.NotFoundError, match="there is no operator test::Unknown"):
        anfora.register_kernel("test::Unknown")(lambda x: x)


@pytest.mark.parametrize(("call", "message"), [
    (lambda x: scaled_add(x, x.astype(np.float32)), "f32"),
    (lambda x: scaled_add(x, np.ones((4, 5))), "should be the same|dimensions"),
    (lambda x: top(x), "operand 0 has 1 axes, not 2"),
    (lambda x: scaled_add(x, x, factor=2.0), "has no operand or attribute 'factor'"),
    (lambda x: scaled_add(x), "2 needed"),
])
def test_wrong_applications(call, message):
    with pytest.raises(anfora.Error, match=message) as caught:
        anfora.jit(call)(np.ones(3))
    assert "test_operators.py" in caught.value.location

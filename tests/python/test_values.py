"""Inputs and outputs: arrays of all layouts and element types, strings, sequences, maps, optionals."""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from models import LINEAR, compiled, parse

import anfora

X, I = np.ones((2, 3), np.float32), np.ones(3, np.int64)


class Dlpack:
    """An object that has nothing but the protocol."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("view_of", [
    lambda x: x, lambda x: x.T, lambda x: x[::2], lambda x: x[:, ::3], lambda x: x[::-1, ::-1], np.asfortranarray, lambda x: x[:0],
    lambda x: x[:, 3:4], lambda x: np.broadcast_to(x[0], (4, 10)), lambda x: x.astype(">f4"),
])
def test_memory_orders(view_of: Callable[[Any], Any]) -> None:
    executable = compiled("two (float[A, B] x) => (float[A, B] y) { y = Neg(x) }")
    view = view_of(np.arange(60, dtype=np.float32).reshape(6, 10))
    np.testing.assert_array_equal(executable(view), -view)
    if view.dtype.isnative and view.flags.writeable:
        np.testing.assert_array_equal(executable(Dlpack(view)), -view)


def test_read_only() -> None:
    executable = compiled("two (float[N] x) => (float[N] y) { y = Neg(x) }")
    x = np.ones(1000, np.float32)
    x.flags.writeable = False
    y = executable(x)
    assert y.flags.writeable
    np.testing.assert_array_equal(y, -x)
    np.testing.assert_array_equal(x, 1)


@pytest.mark.parametrize("x", [
    np.float32(3), np.array(3, np.float32), np.empty((0, 3), np.float32), 3.0, [3.0, 4.0], [[1.0], [2.0]],
], ids=repr)
def test_scalars_and_empty(x: Any) -> None:
    y = compiled("any (float[*] x) => (float[*] y) { y = Neg(x) }")(x)
    assert (y.dtype, y.shape) == (np.float32, np.shape(x))
    np.testing.assert_array_equal(y, -np.asarray(x))


def test_outputs_belong_to_the_caller() -> None:
    executable = compiled("same (float[N] x) => (float[N] y, float[N] z, float[2] c) "
                          "{ y = Identity(x)  z = Identity(x)  c = Constant<value_floats = [1.0, 2.0]>() }")
    x = np.ones(64, np.float32)
    y, z, c = executable(x)
    y[:], c[:] = 7, 7
    np.testing.assert_array_equal(x, 1)
    np.testing.assert_array_equal(z, 1)
    np.testing.assert_array_equal(executable(x)[2], [1, 2])
    again, _, _ = executable(x)
    np.testing.assert_array_equal(y, 7)
    del executable
    np.testing.assert_array_equal(again, 1)


def test_a_large_input_is_not_copied() -> None:
    executable = compiled("first (float[N] x) => (float[1] y) <int64[1] at = {0}> { y = Gather(x, at) }")
    executable(np.ones(1, np.float32))
    size = 1 << 29
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wraps: list[Any] = [lambda array: array, Dlpack]
    for wrap in wraps:
        np.testing.assert_array_equal(executable(wrap(np.zeros(size // 4, np.float32))), 0)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert grown < size // 4


def test_given_outputs_are_filled() -> None:
    executable = compiled(LINEAR)
    y = np.empty((2, 3), np.float32)
    results = executable.run([np.ones((2, 4), np.float32)], out=[y, None])
    assert results[0] is y
    np.testing.assert_array_equal(y, [[-5, 7, -5]] * 2)
    # What is not dense, and what is an input as well, is filled in the end.
    columns = np.empty((3, 2), np.float32).T
    assert executable.run([np.ones((2, 4), np.float32)], out=[columns, None])[0] is columns
    np.testing.assert_array_equal(columns, y)
    turned = compiled("turned (float[2,2] x) => (float[2,2] y) { y = Transpose(x) }")
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    turned.run([x], out=[x])
    np.testing.assert_array_equal(x, [[0, 2], [1, 3]])
    for wrong in (np.empty((3, 2), np.float32), np.empty((2, 3), np.float64)):
        with pytest.raises(ValueError):
            executable.run([np.ones((2, 4), np.float32)], out=[wrong])


@pytest.mark.parametrize("name", [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "bfloat16",
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "int4", "uint4",
])
def test_dtypes(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    model = parse("same (float[N] x) => (float[N] y) { y = Identity(x) }")
    for info in (model.graph.input[0], model.graph.output[0]):
        info.type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    executable = anfora.load(model).compile(threads=1)
    lowest = -1 if dtype.kind != "u" and not name.startswith(("uint", "bool")) else 0
    for x in (np.array([lowest, 1, 1, 0, 1]).astype(dtype), np.empty(0, dtype)):
        y = executable(x)
        assert (y.dtype, y.tolist()) == (dtype, x.tolist())


@pytest.mark.parametrize(("name", "code"), [
    ("float8_e4m3fn", 10), ("float8_e4m3fnuz", 11), ("float8_e5m2", 12), ("float8_e5m2fnuz", 13),
])
def test_narrow_floats_by_dlpack(name: str, code: int) -> None:
    """numpy exports no such elements: its tensor of bytes is given PyTorch's codes of them."""
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

    class Narrow(Dlpack):
        def __dlpack__(self, **_: Any) -> Any:
            capsule = self._array.__dlpack__()
            ctypes.c_uint8.from_address(pointer_of(capsule, b"dltensor") + 20).value = code
            return capsule

    dtype = np.dtype(getattr(ml_dtypes, name))
    model = parse("wide (float[N] x) => (float[N] y) { y = Cast<to = 1>(x) }")
    model.graph.input[0].type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    values = np.array([-2, 0.5, 1], dtype)
    np.testing.assert_array_equal(anfora.load(model).compile(threads=1)(Narrow(values.view(np.uint8))), values.tolist())


def test_narrow_integers_have_signs() -> None:
    executable = compiled("wide (int4[N] x) => (float[N] y) { y = Cast<to = 1>(x) }")
    np.testing.assert_array_equal(executable(np.array([-8, -1, 7]).astype(ml_dtypes.int4)), [-8, -1, 7])


def test_narrow_scalars() -> None:
    executable = compiled("wide (bfloat16 x) => (float y) { y = Cast<to = 1>(x) }")
    assert executable(np.array(1.5, ml_dtypes.bfloat16)) == 1.5


STRINGS = "same (string[N] x) => (string[N] y) { y = Identity(x) }"


@pytest.mark.parametrize("x", [
    ["a", "bé"], np.array(["a", "bé"]), np.array(["a", "bé"], object), np.array([], object),
    np.array(["a", "bé"], np.dtypes.StringDType()),
], ids=repr)
def test_strings(x: Any) -> None:
    y = compiled(STRINGS)(x)
    assert (y.dtype, y.tolist()) == (object, list(x))


def test_strings_of_bytes() -> None:
    assert compiled(STRINGS)(np.array([b"a", b"\xff"], object)).tolist() == ["a", "\udcff"]


@pytest.mark.parametrize("given", [[X, X[0]], (X,), [], [[1.0, 2.0], X]], ids=len)
def test_sequences(given: Any) -> None:
    executable = compiled("length (seq(float[*]) s) => (seq(float[*]) t, int64 n) { t = Identity(s)  n = SequenceLength(s) }")
    items, n = executable(given)
    assert isinstance(items, list)
    assert (len(items), n) == (len(given), len(given))
    for item, expected in zip(items, given):
        np.testing.assert_array_equal(item, np.asarray(expected))


@pytest.mark.parametrize(("type", "given"), [
    *(("seq(float[*])", given) for given in ([I], [X, I], [None], X, 3, "text", {"a": 1}, [{"a": X}], ["a"])),
    *(("optional(seq(float[*]))", given) for given in ([I], X, {"a": 1})),
    *(("map(string, float)", given) for given in ([X], X, {"a": "b"}, 3)),
], ids=str)
def test_values_of_another_type_are_refused(type: str, given: Any) -> None:
    executable = compiled(f"same ({type} s) => ({type} t) {{ t = Identity(s) }}")
    with pytest.raises(anfora.InvalidArgumentError) as caught:
        executable(given)
    assert caught.value.message


def test_the_message_lists_a_sequence() -> None:
    with pytest.raises(anfora.InvalidArgumentError, match="a sequence of 2: f32\\[2x3], i64\\[3], the model takes seq"):
        compiled("same (seq(float[*]) s) => (seq(float[*]) t) { t = Identity(s) }")([X, I])


def test_optionals() -> None:
    executable = compiled("has (optional(float[N]) o) => (bool b, optional(float[N]) p) "
                          "{ b = OptionalHasElement(o)  p = Identity(o) }")
    has, value = executable(np.ones(3, np.float32))
    assert has
    np.testing.assert_array_equal(value, np.ones(3))
    for arguments in ((None,), ()):
        has, value = executable(*arguments)
        assert not has
        assert value is None


def test_maps() -> None:
    model = parse("pick (map(string, float[N]) m) => (float[*] y) "
                  "{ y = ai.onnx.ml.DictVectorizer<string_vocabulary = [\"a\", \"b\", \"c\"]>(m) }")
    executable = anfora.load(model).compile(threads=1)
    np.testing.assert_array_equal(executable({"c": 3, "a": 1.5}), [[1.5, 0, 3]])
    np.testing.assert_array_equal(executable({}), [[0, 0, 0]])
    model = parse("zip (float[N, 2] x) => (seq(map(int64, float[N])) y) "
                  "{ y = ai.onnx.ml.ZipMap<classlabels_int64s = [5, 6]>(x) }")
    assert anfora.load(model).compile(threads=1)(np.ones((2, 2), np.float32)) == [{5: 1.0, 6: 1.0}] * 2

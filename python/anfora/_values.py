"""Values of models as Python objects, where numpy has no array for them.

A tensor of strings is an array of ``str`` objects, a sequence a list, a map a dict, an optional without a value None. Element
types that numpy lacks (bf16, fp8, four bits) are those of the package ``ml_dtypes``.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import Any

import numpy as np

from . import _runtime
from ._errors import InvalidArgumentError

# Anfora's element types by the names of ml_dtypes.
_NARROW = {
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3fn",
    "float8_e4m3fnuz": "f8e4m3fnuz",
    "float8_e5m2": "f8e5m2",
    "float8_e5m2fnuz": "f8e5m2fnuz",
    "float8_e8m0fnu": "f8e8m0",
    "float4_e2m1fn": "f4e2m1",
    "float6_e2m3fn": "f6e2m3",
    "float6_e3m2fn": "f6e3m2",
    "int4": "i4",
    "uint4": "u4",
    "int2": "i2",
    "uint2": "u2",
}
_NARROW_NAMES = {anfora: ml for ml, anfora in _NARROW.items()}

_NATIVE = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "bool": np.bool_,
    "c64": np.complex64,
    "c128": np.complex128,
}

_BY_DTYPE = {np.dtype(dtype): name for name, dtype in _NATIVE.items()}


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy element type for one of Anfora's: ``"f32"``, ``"bf16"``, ``"string"``."""
    if dtype in _NATIVE:
        return np.dtype(_NATIVE[dtype])
    if dtype == "string":
        return np.dtype(object)
    import ml_dtypes

    narrow: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _NARROW_NAMES[dtype]))
    return narrow


def has_array(type: str) -> bool:
    """Whether values of a type, such as ``"f32[N, 3]"``, are arrays to numpy itself."""
    return type.partition("[")[0] in _NATIVE


def element_type(dtype: np.dtype[Any]) -> str:
    """The inverse of :func:`numpy_dtype`.

    Raises:
        TypeError: no model has such elements.
    """
    if dtype.kind in "OUST":
        return "string"
    name = _NARROW.get(dtype.name) or _BY_DTYPE.get(dtype.newbyteorder("="))
    if not name:
        raise TypeError(f"no model has elements of {dtype}")
    return name


def to_core(value: Any, type: str = "") -> Any:
    """What the extension module takes for a value. Arrays and tensors with ``__dlpack__`` are passed as they are.

    Args:
        type: of the input, such as ``"f32[N, 3]"`` or ``"seq(f32[*])"``, which lists, dictionaries and numbers are converted
            to; empty: their own.
    """
    if isinstance(value, np.ndarray):
        if value.dtype in _BY_DTYPE:
            return value
        if value.dtype.kind in "OUST":
            return _runtime.Value.from_strings([_text(item) for item in value.ravel().tolist()], list(value.shape))
        narrow = _NARROW.get(value.dtype.name)
        if narrow:
            return _runtime.Value.from_bits(_bits(value, narrow), narrow)
        return value.astype(value.dtype.newbyteorder("="))
    if value is None or isinstance(value, _runtime.Value) or hasattr(value, "__dlpack__"):
        return value
    if type.startswith("opt("):
        return to_core(value, type[4:-1])
    if isinstance(value, dict):
        keys, values = type[4:-1].split(", ", 1) if type.startswith("map(") else ("", "")
        return _runtime.Value.from_map(_from_objects(list(value), keys), _from_objects(list(value.values()), values))
    if type.startswith("seq(") or (not type and _is_sequence(value)):
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise InvalidArgumentError(f"a {builtins.type(value).__name__} does not make {type}", hint="give a list")
        return _runtime.Value.from_items([to_core(item, type[4:-1]) for item in value])
    return _from_objects(value, type)


def is_written_in_place(array: Any, inputs: Iterable[Any]) -> bool:
    """Whether a kernel may write a result to an array: it is dense, and no input lies there."""
    if not isinstance(array, np.ndarray) or array.dtype not in _BY_DTYPE:
        return False
    if not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
        return False
    return not any(isinstance(value, np.ndarray) and np.may_share_memory(array, value) for value in inputs)


def _is_sequence(value: Any) -> bool:
    """Whether a list holds values, and not the elements of a tensor."""
    return isinstance(value, (list, tuple)) and any(
        item is None or isinstance(item, (np.ndarray, list, dict)) or hasattr(item, "__dlpack__") for item in value
    )


def _from_objects(value: Any, type: str) -> Any:
    """A tensor of Python's numbers or strings."""
    dtype = type.partition("[")[0]
    known = dtype in _NATIVE or dtype in _NARROW_NAMES or dtype == "string"
    try:
        return to_core(np.asarray(value, numpy_dtype(dtype) if known else None))
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"a {builtins.type(value).__name__} does not make {type or 'a tensor'}: {error}") from None


def _bits(value: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """The elements as unsigned integers of as many bytes. Integers are extended to bytes, which ml_dtypes does not do."""
    if dtype[0] in "iu":
        return value.astype(np.int8).view(np.uint8)
    return np.asarray(value, order="C").view(f"u{value.dtype.itemsize}")


def _text(item: Any) -> Any:
    return item if isinstance(item, (str, bytes)) else str(item)


def to_numpy(value: Any) -> Any:
    """A value of the extension module as arrays, lists, dictionaries and None."""
    if not isinstance(value, _runtime.Value):
        return value
    if value.kind == "tensor":
        if value.dtype == "string":
            array = np.empty(len(strings := value.strings()), dtype=object)
            array[:] = strings
            return array.reshape(value.shape)
        return value.bits().view(numpy_dtype(value.dtype))
    if value.kind == "map":
        return dict(zip(to_numpy(value.keys()).tolist(), to_numpy(value.values()).tolist()))
    return [to_numpy(item) for item in value.items()]

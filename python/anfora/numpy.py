"""numpy's functions on Anfora's tensors, which compute at once; also the namespace of the Python array API standard.

    import anfora.numpy as xp

    x = xp.asarray([1.0, 2.0])
    xp.sum(x * x)

Functions of tensors are those that anfora.jit compiles (src/frontend/python/library/numpy.py); what is written here is about values and
types of Python's.
"""

from __future__ import annotations

import builtins
import sys
import types
from typing import Any, NamedTuple

import numpy as _numpy

from . import _core, _modes, _tensor
from ._errors import UnsupportedError
from ._tensor import Tensor

__array_api_version__ = "2024.12"

_CONSTANTS = ("e", "pi", "inf", "nan", "newaxis")
_DTYPES = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "complex64", "complex128")


def __getattr__(name: str) -> Any:
    if name in _tensor.NUMPY:
        return _tensor.NUMPY[name]
    if name in _DTYPES:
        return _numpy.dtype(name)
    if name in ("bool", "bool_"):
        return _numpy.dtype(builtins.bool)
    if name in _CONSTANTS:
        return getattr(_numpy, name)
    raise AttributeError(f"module 'anfora.numpy' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*_tensor.NUMPY, *_CONSTANTS, *_DTYPES, *(name for name in globals() if not name.startswith("_"))])


def _module(name: str, functions: dict[str, _tensor.Function]) -> types.ModuleType:
    made = sys.modules[f"{__name__}.{name}"] = types.ModuleType(f"{__name__}.{name}")
    made.__dict__.update(functions)
    return made


linalg, fft = _module("linalg", _tensor.LINALG), _module("fft", _tensor.FFT)

# Making tensors -------------------------------------------------------------------------------------------------------


def _is_traced(value: Any) -> builtins.bool:
    if isinstance(value, (tuple, list)):
        return builtins.any(map(_is_traced, value))
    return isinstance(getattr(value, "_value", None), _core.Symbol)


def asarray(obj: Any, /, dtype: Any = None, *, device: Any = None, copy: builtins.bool | None = None) -> Any:
    """A tensor of nested lists of numbers, of an array, of a tensor."""
    _check(device)
    if _modes.current.get() is not None and _is_traced(obj):
        return _tensor.NUMPY["asarray"](obj, dtype)
    array = _tensor.arrays_of(obj)
    if not isinstance(array, _numpy.ndarray) and hasattr(array, "__dlpack__"):
        array = _numpy.from_dlpack(array)
    if copy is False and (not isinstance(array, _numpy.ndarray) or dtype not in (None, array.dtype)):
        raise ValueError("this cannot be a tensor without a copy")
    return Tensor(_numpy.array(array, dtype=dtype, copy=builtins.bool(copy) or None))


array = asarray


def from_dlpack(x: Any, /, *, device: Any = None, copy: builtins.bool | None = None) -> Tensor:
    return Tensor(_numpy.from_dlpack(x, device=_check(device), copy=copy))


def _check(device: Any) -> Any:
    if device not in (None, "cpu"):
        raise UnsupportedError(f"there is no device '{device}'", hint="tensors are on the 'cpu'")
    return device


# Types and shapes -----------------------------------------------------------------------------------------------------


def _dtype(value: Any) -> Any:
    return value.dtype if isinstance(value, Tensor) else value


def result_type(*arrays_and_dtypes: Any) -> _numpy.dtype[Any]:
    return _numpy.result_type(*map(_dtype, arrays_and_dtypes))


def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    return _numpy.can_cast(_dtype(from_), to)


def finfo(type: Any, /) -> Any:
    return _numpy.finfo(_dtype(type))


def iinfo(type: Any, /) -> Any:
    return _numpy.iinfo(_dtype(type))


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    return _numpy.isdtype(_numpy.dtype(dtype), kind)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    return _numpy.broadcast_shapes(*shapes)


# What has names -------------------------------------------------------------------------------------------------------


class UniqueAll(NamedTuple):
    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    values: Any
    inverse_indices: Any


def unique_all(x: Any, /) -> UniqueAll:
    """The distinct elements in order, where each first is, which of them each element is, and how often each occurs."""
    return UniqueAll(*_tensor.NUMPY["unique_all"](x))


def unique_counts(x: Any, /) -> UniqueCounts:
    return UniqueCounts(*_tensor.NUMPY["unique_counts"](x))


def unique_inverse(x: Any, /) -> UniqueInverse:
    return UniqueInverse(*_tensor.NUMPY["unique_inverse"](x))


class _Info:
    """What the namespace has, as the standard asks."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        return "cpu"

    def devices(self) -> list[str]:
        return ["cpu"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        names = {"real floating": "float64", "complex floating": "complex128", "integral": "int64", "indexing": "int64"}
        return {kind: _numpy.dtype(name) for kind, name in names.items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        named = {name: _numpy.dtype(name) for name in ("bool", *_DTYPES) if name != "float16"}
        return {name: dtype for name, dtype in named.items() if kind is None or isdtype(dtype, kind)}


def __array_namespace_info__() -> _Info:
    return _Info()

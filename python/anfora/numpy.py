"""numpy's functions on Anfora's tensors, which compute at once; also the namespace of the Python array API standard.

    import anfora.numpy as xp

    x = xp.asarray([1.0, 2.0])
    xp.sum(x * x)
"""

from __future__ import annotations

from typing import Any

import numpy as _numpy

from . import _tensor
from ._tensor import Tensor

_CONSTANTS = ("e", "pi", "inf", "nan", "newaxis")
_DTYPES = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "complex64", "complex128")


def __getattr__(name: str) -> Any:
    if name in _tensor.NUMPY:
        return _tensor.NUMPY[name]
    if name in _CONSTANTS or name in _DTYPES:
        return getattr(_numpy, name)
    raise AttributeError(f"module 'anfora.numpy' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*_tensor.NUMPY, *_CONSTANTS, *_DTYPES, "Tensor"])


__all__ = ["Tensor"]

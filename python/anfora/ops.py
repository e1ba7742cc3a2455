"""Every operator as a function on tensors: ``anfora.ops.Conv(x, w, strides=(2, 2))``. docs/ops.md lists them."""

from __future__ import annotations

from typing import Any

from ._tensor import Function


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    function = globals()[name] = Function("anfora.ops", name, [])
    return function

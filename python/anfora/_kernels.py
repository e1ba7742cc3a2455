"""Kernels that are written in Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _runtime
from ._values import to_core, to_numpy

# Compiled models may run a kernel after another one was registered.
_kernels: list[Callable[..., Any]] = []


def register_kernel(name: str) -> Callable[[Any], Any]:
    """Registers how an operator is computed, one's own or another: a function of arrays, with the attributes by name, that gives an
    array, or a tuple of several. The latest one holds for what is compiled from then on; after ``register_kernel(name)(None)``, Anfora's own do.
    A compiled model in a file has the name of such a kernel: register it before the file is loaded.

    Raises:
        NotFoundError: there is no such operator, where the compiler is loaded, which knows.
    """

    def register(function: Callable[..., Any] | None) -> Callable[..., Any] | None:
        if function is None:
            _runtime.register_kernel(name, None, [])
            return None

        def run(operands: tuple[Any, ...], attributes: dict[str, Any]) -> list[Any]:
            results = function(*map(to_numpy, operands), **attributes)
            return [to_core(np.ascontiguousarray(result)) for result in (results if isinstance(results, tuple) else (results,))]

        named = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
        _kernels.append(run)
        _runtime.register_kernel(name, run, named)
        return function

    return register

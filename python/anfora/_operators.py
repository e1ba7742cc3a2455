"""Operators of one's own, and kernels for them that are written in Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _core
from ._tensor import Function
from ._values import to_core, to_numpy


# Compiled models may run a kernel after another one was registered.
_kernels: list[Callable[..., Any]] = []


def register_operator(name: str, signature: str, *, doc: str = "", **attributes: Any) -> Any:
    """Declares an operator: what it is, not how it is computed. Returns a function that applies it.

        scaled_add = anfora.register_operator("my::ScaledAdd", "(x: T[...], y: T[...]) -> T[...]", scale=1.0)

        @anfora.register_kernel("my::ScaledAdd")
        def _(x, y, *, scale):
            return x + scale * y

        scaled_add(a, b, scale=2.0)

    Functions of anfora.jit and anfora.trace apply it, tensors do, and so do ONNX models: as ScaledAdd of the domain "my".

    Args:
        signature: the types of operands and results: ``"(x: T[N, K], w: f32[K]) -> (T[N], i64[])"``. An element type is one of Anfora's or a
            variable; a size a number, a variable, ``?`` (only the run tells), of a result also an expression (``2*N+1``); ``...`` in
            front is any sizes. What has one name is the same wherever it stands.
        doc: what it computes.
        attributes: with their defaults: int, float, str, lists of int or float.

    Raises:
        InvalidArgumentError: there is such an operator; the signature is malformed.
    """
    _core.register_operator(name, signature, attributes, doc)
    return Function("anfora.ops", name, [])


def register_kernel(name: str) -> Callable[[Any], Any]:
    """Registers how an operator is computed, one's own or another: a function of arrays, with the attributes by name, that gives an
    array, or a tuple of several. The latest one holds for what is compiled from then on; after ``register_kernel(name)(None)``, Anfora's own do.

    Raises:
        NotFoundError: there is no such operator.
    """

    def register(function: Callable[..., Any] | None) -> Callable[..., Any] | None:
        if function is None:
            _core.register_kernel(name, None, [])
            return None

        def run(operands: tuple[Any, ...], attributes: dict[str, Any]) -> list[Any]:
            results = function(*map(to_numpy, operands), **attributes)
            return [to_core(np.ascontiguousarray(result)) for result in (results if isinstance(results, tuple) else (results,))]

        named = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
        _kernels.append(run)
        _core.register_kernel(name, run, named)
        return function

    return register

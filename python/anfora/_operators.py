"""Operators of one's own. How they are computed: _kernels.py, whose names are checked where the compiler is loaded, as here."""

from __future__ import annotations

from typing import Any

from . import _core
from ._kernels import register_kernel
from ._tensor import Function

__all__ = ["register_kernel", "register_operator"]


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

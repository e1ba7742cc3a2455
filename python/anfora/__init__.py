"""Anfora, a graph compiler for neural networks.

    import anfora

    model = anfora.optimize("model.onnx")       # fewer nodes, the same results
    model.save("small.onnx")
    run = model.compile()
    y = run(x)

In place of ONNX Runtime: ``import anfora.onnxruntime as onnxruntime``.
"""

import importlib

from . import _core
from ._core import Cancellation, Cancelled, Difference, Explanation
from ._errors import (
    Error,
    InternalError,
    InvalidArgumentError,
    InvalidModelError,
    IoError,
    NonFiniteError,
    NotFoundError,
    ResourceExhaustedError,
    TypeMismatchError,
    UnsupportedError,
)
from ._model import Executable, Model, Node, OptimizeOptions, Verification, load, optimize
from ._report import OptimizeReport, Side, Step

__version__ = _core.version

__all__ = [
    "Cancellation",
    "Cancelled",
    "Difference",
    "Error",
    "Executable",
    "Explanation",
    "InferenceSession",
    "InternalError",
    "InvalidArgumentError",
    "InvalidModelError",
    "IoError",
    "Model",
    "Node",
    "NonFiniteError",
    "NotFoundError",
    "OptimizeOptions",
    "OptimizeReport",
    "ResourceExhaustedError",
    "Side",
    "Step",
    "Tensor",
    "TypeMismatchError",
    "UnsupportedError",
    "Verification",
    "debug",
    "grad",
    "jit",
    "load",
    "numpy",
    "ops",
    "optimize",
    "overload",
    "trace",
    "value_and_grad",
]


_ELSEWHERE = {"Tensor": "._tensor", "debug": "._debug", "overload": "._overload", "trace": "._trace"}


def __getattr__(name: str) -> object:
    if name == "InferenceSession":
        from .onnxruntime import InferenceSession

        return InferenceSession
    if name == "jit":  # imports numpy, which takes longer than all of Anfora
        from ._program import jit

        return jit
    if name in ("grad", "value_and_grad"):
        from . import _grad

        return getattr(_grad, name)
    if name in _ELSEWHERE:
        return getattr(importlib.import_module(_ELSEWHERE[name], __name__), name)
    if name in ("numpy", "ops"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'anfora' has no attribute '{name}'")

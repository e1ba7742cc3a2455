"""Anfora, a graph compiler for neural networks.

    import anfora

    model = anfora.optimize("model.onnx")       # fewer nodes, the same results
    model.save("small.onnx")
    run = model.compile()
    y = run(x)

In place of ONNX Runtime: ``import anfora.onnxruntime as onnxruntime``.
"""

from . import _core
from ._core import Cancellation, Cancelled, Difference, Explanation
from ._errors import (
    Error,
    InternalError,
    InvalidArgumentError,
    InvalidModelError,
    IoError,
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
    "NotFoundError",
    "OptimizeOptions",
    "OptimizeReport",
    "ResourceExhaustedError",
    "Side",
    "Step",
    "TypeMismatchError",
    "UnsupportedError",
    "Verification",
    "grad",
    "hessian",
    "jacobian",
    "jit",
    "jvp",
    "load",
    "optimize",
    "value_and_grad",
    "vjp",
]


def __getattr__(name: str) -> object:
    if name == "InferenceSession":
        from .onnxruntime import InferenceSession

        return InferenceSession
    if name == "jit":  # imports numpy, which takes longer than all of Anfora
        from ._program import jit

        return jit
    if name in ("grad", "hessian", "jacobian", "jvp", "value_and_grad", "vjp"):
        from . import _grad

        return getattr(_grad, name)
    raise AttributeError(f"module 'anfora' has no attribute '{name}'")

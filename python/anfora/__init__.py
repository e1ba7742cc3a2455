"""Anfora, a graph compiler for neural networks.

    import anfora

    model = anfora.optimize("model.onnx")       # fewer nodes, the same results
    model.save("small.onnx")
    run = model.compile()
    y = run(x)

In place of ONNX Runtime: ``import anfora.onnxruntime as onnxruntime``.
"""

import importlib
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:  # numpy takes longer to import than all of Anfora
    from . import numpy, ops, optimizers
    from ._debug import debug
    from ._grad import custom_gradient, grad, hessian, jacobian, jvp, stop_gradient, value_and_grad, vjp
    from ._operators import register_kernel, register_operator
    from ._overload import overload
    from ._program import jit
    from ._tensor import Tensor
    from .optimizers import tree_map
    from ._trace import trace
    from .onnxruntime import InferenceSession

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
    "custom_gradient",
    "debug",
    "grad",
    "hessian",
    "jacobian",
    "jit",
    "jvp",
    "load",
    "numpy",
    "ops",
    "optimize",
    "optimizers",
    "overload",
    "register_kernel",
    "register_operator",
    "stop_gradient",
    "trace",
    "tree_map",
    "value_and_grad",
    "vjp",
]


_LATER = {
    "InferenceSession": "onnxruntime",
    "Tensor": "_tensor",
    "custom_gradient": "_grad",
    "debug": "_debug",
    "grad": "_grad",
    "hessian": "_grad",
    "jacobian": "_grad",
    "jit": "_program",
    "jvp": "_grad",
    "overload": "_overload",
    "register_kernel": "_operators",
    "register_operator": "_operators",
    "stop_gradient": "_grad",
    "trace": "_trace",
    "tree_map": "optimizers",
    "value_and_grad": "_grad",
    "vjp": "_grad",
}


def __getattr__(name: str) -> object:
    if name in ("numpy", "ops", "optimizers"):
        return importlib.import_module(f".{name}", __name__)
    if name in _LATER:
        return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
    raise AttributeError(f"module 'anfora' has no attribute '{name}'")

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

if TYPE_CHECKING:
    from . import numpy, ops, optimizers, runtime
    from ._core import Difference, Explanation
    from ._debug import debug
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
    from ._executable import Executable
    from ._grad import custom_gradient, grad, hessian, jacobian, jvp, stop_gradient, value_and_grad, vjp
    from ._model import Model, Node, OptimizeOptions, Verification, load, optimize
    from ._operators import register_kernel, register_operator
    from ._overload import overload
    from ._program import jit
    from ._report import OptimizeReport, Side, Step
    from ._runtime import Cancellation, Cancelled
    from ._tensor import Tensor
    from ._trace import trace
    from .onnxruntime import InferenceSession
    from .optimizers import tree_map

    __version__: str

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
    "runtime",
    "stop_gradient",
    "trace",
    "tree_map",
    "value_and_grad",
    "vjp",
]


# Where names come from, once they are asked for: a process that only runs compiled models (anfora.runtime) never loads the compiler, and
# numpy takes longer to import than all of Anfora.
_MODULES = ("numpy", "ops", "optimizers", "runtime")
_NAMES = {
    "_core": ["Difference", "Explanation"],
    "_debug": ["debug"],
    "_errors": [name for name in __all__ if name.endswith("Error")],
    "_executable": ["Executable"],
    "_grad": ["custom_gradient", "grad", "hessian", "jacobian", "jvp", "stop_gradient", "value_and_grad", "vjp"],
    "_model": ["Model", "Node", "OptimizeOptions", "Verification", "load", "optimize"],
    "_operators": ["register_kernel", "register_operator"],
    "_overload": ["overload"],
    "_program": ["jit"],
    "_report": ["OptimizeReport", "Side", "Step"],
    "_runtime": ["Cancellation", "Cancelled"],
    "_tensor": ["Tensor"],
    "_trace": ["trace"],
    "onnxruntime": ["InferenceSession"],
    "optimizers": ["tree_map"],
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name == "__version__":
        value: object = importlib.import_module("._runtime", __name__).version
    elif name in _HOMES:
        value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    else:
        raise AttributeError(f"module 'anfora' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

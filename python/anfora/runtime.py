"""Compiled models, without the compiler: what a process needs that only runs them.

    from anfora import runtime

    run = runtime.load("model.anf")      # of ``anfora compile model.onnx -o model.anf``, or of Executable.save
    y = run(x)

Importing this loads neither the compiler nor LLVM. The classes are those of ``anfora`` itself.
"""

from __future__ import annotations

import os

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
from ._executable import Executable
from ._kernels import register_kernel
from ._runtime import Cancellation, Cancelled, ValueInfo

__all__ = [
    "Cancellation",
    "Cancelled",
    "Error",
    "Executable",
    "InternalError",
    "InvalidArgumentError",
    "InvalidModelError",
    "IoError",
    "NotFoundError",
    "ResourceExhaustedError",
    "TypeMismatchError",
    "UnsupportedError",
    "ValueInfo",
    "load",
    "register_kernel",
]


def load(path: str | os.PathLike[str], threads: int = 0) -> Executable:
    """Loads a compiled model: :meth:`Executable.load`."""
    return Executable.load(path, threads)

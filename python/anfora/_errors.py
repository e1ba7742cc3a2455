"""Exceptions: what went wrong, at which node, where that is in the source, and what to do about it."""

from __future__ import annotations


class Error(Exception):
    """The base of all of Anfora's exceptions.

    Attributes:
        message: what is wrong.
        node: operator and name of the node, such as ``"Conv 'layer1.conv'"``; empty when unknown.
        location: its place in the source, such as ``"model.onnx: node 17"``; empty when unknown.
        hint: what to do about it; may be empty.
        excerpt: the lines of a Python source that it is about, with carets below; may be empty.
    """

    message: str
    node: str
    location: str
    hint: str
    excerpt: str

    def __init__(self, message: str, node: str = "", location: str = "", hint: str = "", excerpt: str = "") -> None:
        text = ": ".join(part for part in (location, node, message) if part)
        if excerpt:
            text = "\n".join([text, excerpt.rstrip("\n")] + [f"  hint: {hint}"] * bool(hint))
        elif hint:
            text = f"{text} ({hint})"
        super().__init__(text)
        self.message, self.node, self.location, self.hint, self.excerpt = message, node, location, hint, excerpt

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.node, self.location, self.hint, self.excerpt)


class InvalidArgumentError(Error, ValueError):
    """A caller's value does not fit: a name, a shape, an element type, an option."""


class InvalidModelError(Error, ValueError):
    """A model file is malformed, or its graph breaks an invariant."""


class TypeMismatchError(Error, TypeError):
    """Shapes or element types in a model contradict each other."""


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not there yet."""


class NotFoundError(Error, FileNotFoundError):
    """A file or a name does not exist."""


class IoError(Error, OSError):
    """Reading or writing failed."""


class ResourceExhaustedError(Error, MemoryError):
    """Memory or a limit ran out."""


class NonFiniteError(Error, FloatingPointError):
    """NaN or infinity came of finite numbers, under ``anfora.debug(nan=True)``."""


class InternalError(Error, RuntimeError):
    """A defect of Anfora; please report it."""


# By ErrorCode (include/anfora/error.h).
_BY_CODE = (
    InvalidArgumentError,
    InvalidModelError,
    TypeMismatchError,
    UnsupportedError,
    NotFoundError,
    IoError,
    ResourceExhaustedError,
    InternalError,
)


def make(code: int, message: str, node: str, location: str, hint: str, excerpt: str) -> Error:
    return _BY_CODE[code](message, node, location, hint, excerpt)

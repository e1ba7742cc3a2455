"""anfora.debug: functions of anfora.jit and anfora.trace run step by step, in Python."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import _modes
from ._errors import NonFiniteError
from ._tensor import Tensor, arrays_of
from ._trace import error_here


def _map(function: Any, value: Any) -> Any:
    """The value with the function applied to each leaf of it."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_map(function, item) for item in value))
    if type(value) in (tuple, list):
        return type(value)(_map(function, item) for item in value)
    if type(value) is dict:
        return {key: _map(function, item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{f.name: _map(function, getattr(value, f.name)) for f in dataclasses.fields(value) if f.init})
    return function(value)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _is_finite(value: Any) -> bool:
    if isinstance(value, Tensor):
        value = value._value
    return not isinstance(value, (np.ndarray, float)) or not np.issubdtype(np.asarray(value).dtype, np.inexact) or bool(np.isfinite(value).all())


class Debugging:
    """A mode: calls compute at once, compiled functions run as Python."""

    records = False

    def __init__(self, nan: bool) -> None:
        self._nan = nan

    def apply(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        result = function.run(arguments, keywords)
        if self._nan and not all(map(_is_finite, _leaves(result))) and all(map(_is_finite, _leaves((arguments, *keywords.values())))):
            raise error_here(f"{function.__name__} gives {_what(result)} of finite values", "print its arguments here, or stop at this line in a debugger",
                             NonFiniteError)
        return result

    def call(self, compiled: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        is_inner = any(isinstance(leaf, Tensor) for leaf in _leaves((arguments, *keywords.values())))
        tensor = lambda value: Tensor(value, True) if isinstance(value, np.ndarray) else value  # noqa: E731
        positional, named = _map(tensor, (arguments, keywords))
        result = compiled.function(*positional, **named)
        return result if is_inner else _map(arrays_of, result)


def _what(result: Any) -> str:
    return "NaN" if any(np.isnan(np.asarray(leaf)).any() for leaf in _leaves(result)) else "infinity"


@contextlib.contextmanager
def debug(*, nan: bool = False) -> Iterator[None]:
    """While it lasts, functions of anfora.jit and anfora.trace run in Python, line by line, and what they compute on is tensors with values.

        with anfora.debug():
            step(x, weights)        # breakpoints work, and so do print and pdb

    Args:
        nan: the first NaN or infinity that is made of finite numbers ends it with the line.

    Raises:
        NonFiniteError
    """
    outer = _modes.current.set(Debugging(nan))
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise") if nan else contextlib.nullcontext():  # what numpy itself computes
            yield
    finally:
        _modes.current.reset(outer)

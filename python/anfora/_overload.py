"""anfora.overload: one name, and a function for each kind of arguments."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ._errors import InvalidArgumentError, TypeMismatchError
from ._program import dtype_name
from ._tensor import Number, Tensor
from ._trace import place_of

Pattern = tuple[str, ...]  # of each positional argument

_TENSOR = re.compile(r"(\w+|\?)\[(.*)\]")
_KINDS = {"floating": ("f64", "f32", "f16", "bf16"), "integer": tuple(f"{sign}{bits}" for sign in "iu" for bits in (8, 16, 32, 64))}


class Candidate(NamedTuple):
    pattern: Pattern
    function: Callable[..., Any]

    def __str__(self) -> str:
        return f"{place_of(self.function)}({', '.join(self.pattern)})"


def type_text(value: Any) -> str:
    """The type of a value as the compiler writes it: "f32[2, 3]", "int", "tuple of 2", "Point"."""
    if isinstance(value, Tensor):
        value = value._value
    if isinstance(value, Number) or hasattr(value, "text"):
        return str(getattr(value, "_value", value).type)
    if isinstance(value, (np.ndarray, np.generic)):
        return f"{dtype_name(value.dtype)}[{', '.join(map(str, value.shape))}]"
    if type(value) is tuple:
        return f"tuple of {len(value)}"
    return "None" if value is None else type(value).__name__


def matches(type_: str, pattern: str) -> bool:
    """Whether a type is one of a pattern: "f32[?, ?]", "f32[...]", "floating[...]", "?[3]", "int", "tuple", "Point", "*"."""
    if pattern == "*":
        return True
    wanted, given = _TENSOR.fullmatch(pattern), _TENSOR.fullmatch(type_)
    if not wanted or not given:
        return type_ == pattern or type_.startswith(pattern + " of ")
    if wanted[1] not in ("?", given[1]) and given[1] not in _KINDS.get(wanted[1], ()):
        return False
    if wanted[2] == "...":
        return True
    sizes, known = ([size.strip() for size in text.split(",") if size.strip()] for text in (wanted[2], given[2]))
    return len(sizes) == len(known) and all(size in ("?", known[i]) for i, size in enumerate(sizes))


def pattern_of(item: Any) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, type) and issubclass(item, (np.ndarray, Tensor)):
        return "?[...]"
    if isinstance(item, type) and issubclass(item, np.generic):
        return f"{dtype_name(item)}[...]"
    if isinstance(item, type):
        return item.__name__
    raise InvalidArgumentError(f"{item!r} is no pattern of a type", hint='give "f32[?, ?]", "floating[...]", int, tuple, a class, or "*"')


class Overload:
    """A function that is chosen by the types of its positional arguments: the last registered one that fits, else the first of all."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.candidates: tuple[Candidate, ...] = ()

    def register(self, *pattern: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Registers a function for arguments of these types, of as many arguments as are told.

        A pattern is a type as the compiler writes it, with ``?`` for any size or element type, ``...`` for any sizes, ``floating`` and
        ``integer`` for these element types; or ``int``, ``float``, ``bool``, ``tuple``, ``list``, ``dict``, a class, a dtype; ``"*"`` for any.
        """
        told = tuple(map(pattern_of, pattern))

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            self.candidates = (*self.candidates, Candidate(told, function))
            return function

        return add

    def choose(self, types: Sequence[str]) -> Callable[..., Any] | str:
        """The function for arguments of these types; where there is none, what to say."""
        for candidate in reversed(self.candidates):
            if len(types) >= len(candidate.pattern) and all(map(matches, types, candidate.pattern)):
                return candidate.function
        return self.function

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        chosen = self.choose(list(map(type_text, arguments)))
        if isinstance(chosen, str):
            raise TypeMismatchError(chosen)
        return chosen(*arguments, **keywords)

"""anfora.overload: one name, and a function for each kind of arguments."""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ._errors import InvalidArgumentError, TypeMismatchError
from ._program import dtype_name, place_of
from ._tensor import Number, Tensor

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


def matches(type_: str, pattern: str) -> bool | None:
    """Whether a type is one of a pattern; None: that depends on a size that is not known."""
    if pattern == "*":
        return True
    wanted, given = _TENSOR.fullmatch(pattern), _TENSOR.fullmatch(type_)
    if not wanted or not given:
        return type_ == pattern or type_.startswith(pattern + " of ")
    if wanted[1] not in ("?", given[1]) and given[1] not in _KINDS.get(wanted[1], ()):
        return False
    if wanted[2] == "...":
        return True
    sizes, known = _sizes(wanted[2]), _sizes(given[2])
    if len(sizes) != len(known) or any(a.isdigit() and b.isdigit() and a != b for a, b in zip(sizes, known)):
        return False
    return None if any(a != "?" and not b.isdigit() for a, b in zip(sizes, known)) else True


def _sizes(text: str) -> list[str]:
    return [size.strip() for size in text.split(",") if size.strip()]


def pattern_of(item: Any) -> str:
    if isinstance(item, str):
        item = item.strip("'\"")  # of an annotation that is kept as text
        tensor = _TENSOR.fullmatch(item)
        if not tensor or tensor[2] == "..." or all(size == "?" or size.isdigit() for size in _sizes(tensor[2])):
            return str(item)
    elif isinstance(item, type):
        if issubclass(item, (np.ndarray, Tensor)):
            return "?[...]"
        return f"{dtype_name(item)}[...]" if issubclass(item, np.generic) else item.__name__
    raise InvalidArgumentError(f"{item!r} is no pattern of a type",
                               hint='give "f32[?, 3]", "floating[...]", int, tuple, a class, a dtype, or "*" for any')


def annotated(function: Callable[..., Any]) -> Pattern:
    """The pattern that the annotations of the positional parameters are."""
    code, told = function.__code__, function.__annotations__
    required = code.co_argcount - len(function.__defaults__ or ())
    return tuple(pattern_of(told.get(name, "*")) for name in code.co_varnames[:required])


class Overload:
    """A function that is chosen by the types of its positional arguments: of those that fit, the one registered last."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._name = function.__name__
        self.candidates: tuple[Candidate, ...] = (Candidate(annotated(function), function),)

    def register(self, *pattern: Any) -> Any:
        """Adds a function for arguments of these types; without any, of those that its annotations say."""
        if len(pattern) == 1 and isinstance(pattern[0], types.FunctionType):
            return self._add(annotated(pattern[0]), pattern[0])
        return functools.partial(self._add, tuple(map(pattern_of, pattern)))

    def _add(self, pattern: Pattern, function: Callable[..., Any]) -> Callable[..., Any]:
        self.candidates = (*self.candidates, Candidate(pattern, function))
        return function

    def choose(self, given: Sequence[str]) -> Callable[..., Any] | str:
        """The function for arguments of these types; where there is none, what to say."""
        for candidate in reversed(self.candidates):
            fits = [matches(type_, wanted) for type_, wanted in zip(given, candidate.pattern)]
            if len(given) < len(candidate.pattern) or False in fits:
                continue
            if all(fits):
                chosen: Callable[..., Any] = candidate.function
                return chosen
            return f"which {self._name}() is meant depends on a size of ({', '.join(given)}), which is not known here"
        told = "\n".join(f"    {candidate}" for candidate in reversed(self.candidates))
        return f"no {self._name}() takes ({', '.join(given)}); there are\n{told}"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        chosen = self.choose([type_text(argument) for argument in arguments])
        if isinstance(chosen, str):
            raise TypeMismatchError(chosen)
        return chosen(*arguments, **keywords)


def overload(function: Callable[..., Any]) -> Overload:
    """A function that is chosen by the types of its arguments: by anfora.jit when it compiles a call, else when it is called.

        @anfora.overload
        def norm(x):
            return abs(x)

        @norm.register("floating[?]")
        def _(x):
            return numpy.sqrt((x * x).sum())

        @norm.register(tuple)
        def _(x):
            return norm(x[0]) + norm(x[1])

    A pattern is a type as Anfora writes it: an element type, ``floating``, ``integer`` or ``?``, then sizes, of which ``?`` is any and
    ``...`` any number; or ``int``, ``float``, ``bool``, ``tuple``, ``list``, ``dict``, a class, a dtype of numpy's for tensors of it, ``"*"`` for
    anything. Annotations of parameters say the same. Of candidates that fit the one registered last is taken.
    """
    return Overload(function)

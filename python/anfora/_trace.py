"""anfora.trace: a function runs once, and what it does to tensors is recorded as a graph."""

from __future__ import annotations

import linecache
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import _core, _modes
from ._errors import Error, InvalidArgumentError, ResourceExhaustedError, UnsupportedError
from ._program import Jitted, Specialization, fetch, path_text, place_of
from ._sizes import Sizes
from ._tensor import Number, Tensor, with_text

Place = tuple[str, int, int, int, int]  # file, line, column, last line, column behind it; from 1

_INSIDE = (os.path.dirname(os.path.abspath(__file__)) + os.sep, os.path.dirname(os.path.abspath(np.__file__)) + os.sep)


def place() -> Place:
    """Where the user's code is."""
    frame = sys._getframe(1)
    while frame.f_back and os.path.abspath(frame.f_code.co_filename).startswith(_INSIDE):
        frame = frame.f_back
    file, line = frame.f_code.co_filename, frame.f_lineno
    if sys.version_info >= (3, 11):
        first, last, begin, end = list(frame.f_code.co_positions())[frame.f_lasti // 2]
        if first is not None and last is not None and begin is not None and end is not None:
            return file, first, _column(file, first, begin), last, _column(file, last, end)
    return file, line, 1, line, 1


def _column(file: str, line: int, offset: int) -> int:
    return len(linecache.getline(file, line).encode()[:offset].decode(errors="replace")) + 1


def error_here(message: str, hint: str, kind: type[Error] = UnsupportedError) -> Error:
    file, line, column, last, end = place()
    text = linecache.getline(file, line).rstrip()
    indent = len(text) - len(text.lstrip())
    excerpt = f"{text.lstrip()}\n{' ' * (column - 1 - indent)}{'^' * (max(1, end - column) if last == line else 1)}"
    return kind(message, location=f"{os.path.basename(file)}:{line}:{column}", hint=hint, excerpt=excerpt)


def numbers_of(paths: list[Any], sizes: Sizes, arguments: tuple[Any, ...], keywords: dict[str, Any], function: Any) -> dict[str, Any]:
    """The sizes and numbers of inputs by the names that they have in the graph."""
    numbers: dict[str, Any] = {"floordiv": lambda a, b: a // b, "ceildiv": lambda a, b: -(-a // b), "mod": lambda a, b: a % b,
                               "min": min, "max": max, "__builtins__": {}}
    names = sizes.names() or {}
    for i, path in enumerate(paths):
        value = fetch(path, arguments, keywords, function)
        if isinstance(value, (bool, int, float)):
            numbers[f"input_{i}"] = value
        elif path[0][0] in ("argument", "keyword"):
            numbers.update(zip(names.get(path, ()), np.shape(value)))
    return numbers


class Tracing:
    """A mode: calls are recorded."""

    records = True

    def __init__(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], sizes: Sizes, assumed: _core.AssumedSizes) -> None:
        self._call = sizes, arguments, keywords, function
        are_arguments = [True]

        def wrap(symbol: _core.Symbol) -> Any:  # without self: the extension's objects are no part of Python's search for cycles
            return Number(symbol, symbol.text) if symbol.is_number else Tensor(symbol, are_arguments[0])

        self.core = _core.Tracer(wrap, place_of(function), arguments, keywords, sizes.names(), assumed)
        self.arguments = self.core.arguments
        are_arguments[0] = False
        self.seen: dict[str, Any] = {}  # what Python saw of sizes and numbers

    def apply(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        return with_text(function, arguments, self.core.call(function, arguments, keywords, place()))

    def call(self, compiled: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if isinstance(compiled, Traced):
            return compiled.function(*arguments, **keywords)
        return self.core.call(compiled, arguments, keywords, place())

    def known(self, text: str) -> Any:
        self.seen[text] = value = eval(text, numbers_of(self.core.inputs, *self._call))
        return value


def unknown_value(what: str, hint: str) -> Error:
    if isinstance(_modes.current.get(), Tracing):
        return error_here(f"{what} of the run, which a trace does not know", hint)
    return error_here("this tensor belongs to a trace that has ended", "a traced function returns what it computes; it cannot leave it elsewhere",
                      InvalidArgumentError)


def known(number: Number) -> Any:
    tracing = _modes.current.get()
    if not isinstance(tracing, Tracing) or not number.text:
        raise unknown_value(f"this {number._value.type} is a value",
                            "compute with it as it is; a function of anfora.jit may branch and loop on values")
    return tracing.known(number.text)


class TracedSpecialization(Specialization):
    """A function traced with arguments of certain kinds."""

    follows_from_source = False

    def lower(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], sizes: Sizes) -> tuple[Any, ...]:
        assumed = _core.AssumedSizes(sizes.first)
        while True:
            tracing = Tracing(function, arguments, keywords, sizes, assumed)
            positional, named = tracing.arguments
            outer = _modes.current.set(tracing)
            try:
                result = function(*positional, **named)
            finally:
                _modes.current.reset(outer)
            made: tuple[Any, ...] = tracing.core.finish(result)
            if assumed.are_settled():
                break
        self._seen = [(text, compile(text, "<size>", "eval"), value) for text, value in tracing.seen.items()]
        return made

    def holds(self, arguments: tuple[Any, ...], keywords: dict[str, Any], function: Any) -> str:
        changed = super().holds(arguments, keywords, function)
        if changed or not self._seen:
            return changed
        numbers = numbers_of(self.inputs, self.sizes, arguments, keywords, function)
        for text, code, value in self._seen:
            if eval(code, numbers) != value:
                return self._readable(text)
        return ""

    def _readable(self, text: str) -> str:
        texts = {f"input_{i}": path_text(path) for i, path in enumerate(self.inputs)}
        for path, names in reversed((self.sizes.names() or {}).items()):
            texts.update((name, f"{path_text(path)}.shape[{axis}]") for axis, name in enumerate(names))
        text = re.sub(r"\b(n|input_)\d+\b", lambda found: texts.get(found[0], found[0]), text)
        return text.removeprefix("(").removesuffix(")") if text.startswith("(") else text


_MOST_TRACES = 64  # of one function


class Traced(Jitted):
    """A function that is run once for each kind of arguments, and recorded."""

    def _specialize(self, arguments: tuple[Any, ...], keywords: dict[str, Any], sizes: Sizes) -> Specialization:
        if len(self._reasons) >= _MOST_TRACES:
            raise ResourceExhaustedError(f"{place_of(self.function)} was traced {_MOST_TRACES} times: {self._reasons[-1]}",
                                         hint="anfora.numpy.zeros(n) and the like take sizes as they are; a function of anfora.jit may branch and loop on them")
        return TracedSpecialization(self.function, arguments, keywords, sizes, self._math, self._threads, self._folder(), self._donate,
                                    self._memory_limit)


def trace(function: Callable[..., Any] | None = None, *, math: str = "real", threads: int = 0,
          save_graphs: str | os.PathLike[str] | None = None, donate: int | str | Sequence[int | str] = (),
          memory_limit: int | None = None) -> Any:
    """Runs a function once for each kind of arguments, and records what it does to tensors; that is compiled, and runs from then on.

        @anfora.trace
        def step(x, weights):
            for w in weights:                  # Python's own loop: its turns are recorded
                x = numpy.tanh(x @ w)
            return x

    Unlike anfora.jit it needs no source, and the function may be any code of Python's: classes, generators, other libraries. What it sees of
    sizes and numbers (``if x.shape[0] > 3``) is watched, and another outcome traces again; values of tensors it cannot see. What it reads
    from around it is read once; arrays among that are inputs, so that they may be written to.

    Args:
        math, threads, save_graphs, donate, memory_limit: as of anfora.jit.

    Raises:
        UnsupportedError: Python's control flow depends on the elements of a tensor; with the line.
    """
    if function is None:
        return lambda given: trace(given, math=math, threads=threads, save_graphs=save_graphs, donate=donate, memory_limit=memory_limit)
    return Traced(function, math, threads, save_graphs, donate, memory_limit)

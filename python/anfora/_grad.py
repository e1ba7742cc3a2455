"""Gradients of Python functions: the functions are lowered as for anfora.jit, and differentiated as graphs."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, Sequence

from ._errors import InvalidArgumentError, TypeMismatchError
from ._program import Jitted, Specialization, known_as
from ._sizes import Sizes

Argnums = tuple[int, ...]


def outputs_of(spec: Any) -> list[int]:
    """The outputs of a module that a result is rebuilt of, see rebuild()."""
    if spec[0] in ("array", "number"):
        return [spec[1]]
    if spec[0] == "constant":
        return []
    if spec[0] == "dict":
        return [i for _, item in spec[1] for i in outputs_of(item)]
    return [i for item in spec[-1] for i in outputs_of(item)]


def renumbered(spec: Any, numbers: dict[int, int]) -> Any:
    if spec[0] in ("array", "number"):
        return spec[0], numbers[spec[1]]
    if spec[0] == "constant":
        return spec
    if spec[0] == "dict":
        return "dict", [(key, renumbered(item, numbers)) for key, item in spec[1]]
    return (*spec[:-1], [renumbered(item, numbers) for item in spec[-1]])


def is_float(type_: str) -> bool:
    return type_.split("[")[0] in ("f64", "f32", "f16", "bf16")


class Differentiated(Specialization):
    """The values of a function, or its derivatives, as a module."""

    def __init__(self, derivatives: tuple[Argnums, ...], with_value: bool, *arguments: Any) -> None:
        self._derivatives, self._with_value = derivatives, with_value
        super().__init__(*arguments)

    def variant(self) -> tuple[Any, ...]:
        return "gradient", self._derivatives, self._with_value

    def lower(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], sizes: Sizes) -> tuple[Any, ...]:
        core, result, inputs, guards = super().lower(function, arguments, keywords, sizes)
        places = {path: i for i, path in enumerate(inputs)}
        for argnums in self._derivatives:
            outputs = core.outputs
            if result[0] not in ("array", "number") or not outputs[result[1]].type.endswith("[]") or not is_float(outputs[result[1]].type):
                returned = outputs[result[1]].type if result[0] in ("array", "number") else f"a {result[0]}"
                raise TypeMismatchError(f"what is differentiated returns {returned} and not one float", hint="sum or average it")
            value, by = result, list[int]()
            for number in argnums:
                if number >= len(arguments):
                    raise InvalidArgumentError(f"argnums has {number}, and there are {len(arguments)} positional arguments")
            parts = [self._gradient(arguments[n], (("argument", n),), places, core.inputs, len(outputs), by) for n in argnums]
            if not by:
                raise InvalidArgumentError("there is no float to differentiate by")
            core.differentiate(value[1], by)
            result = parts[0] if len(parts) == 1 else ("tuple", parts)
        if self._with_value:
            result = ("tuple", [value, result])
        kept = outputs_of(result)
        core.keep_outputs(kept)
        return core, renumbered(result, {output: i for i, output in enumerate(kept)}), inputs, guards

    def _gradient(self, value: Any, path: tuple[Any, ...], places: dict[Any, int], inputs: list[Any], first: int, by: list[int]) -> Any:
        """What has the structure of an argument; None in the place of what is no float."""
        part: Callable[[Any, Any], Any] = lambda item, step: self._gradient(item, (*path, step), places, inputs, first, by)  # noqa: E731
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return "fields", type(value), [part(getattr(value, name), ("attribute", name)) for name in value._fields]
        if isinstance(value, (tuple, list)):
            return type(value).__name__, [part(item, ("item", i)) for i, item in enumerate(value)]
        if isinstance(value, dict):
            return "dict", [(key, part(item, ("item", key))) for key, item in value.items()]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            return "fields", type(value), [part(getattr(value, name), ("attribute", name)) for name in names]
        place = places.get(path)
        if place is None or not is_float(inputs[place].type):
            return "constant", None
        by.append(place)
        return "number" if isinstance(value, float) else "array", first + len(by) - 1


class _Compiled(Jitted):
    _runs_function = False

    def __init__(self, function: Any, derivatives: tuple[Argnums, ...], with_value: bool, math: str, threads: int) -> None:
        super().__init__(function, math, threads)
        self._derivatives, self._with_value = derivatives, with_value

    def _specialize(self, arguments: tuple[Any, ...], keywords: dict[str, Any], sizes: Sizes) -> Specialization:
        return Differentiated(self._derivatives, self._with_value, self.function, arguments, keywords, sizes, self._math, self._threads)


class Gradient:
    """The derivative of a function, compiled when it is called. Not a Jitted: a function that calls it is not one that calls f."""

    _derivatives: tuple[Argnums, ...]
    _is_single: bool
    _compiled: _Compiled

    def __init__(self, function: Any, argnums: int | Sequence[int], with_value: bool) -> None:
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        inner: tuple[Argnums, ...] = ()
        if isinstance(function, Gradient):
            if function._compiled._with_value:
                raise TypeMismatchError("what is differentiated returns a value and its gradient, and not one float")
            inner, function = function._derivatives, function._compiled.function
        math, threads = "real", 0
        if isinstance(function, Jitted):
            math, threads, function = function._math, function._threads, function.function
        functools.update_wrapper(self, function)
        self._derivatives = (*inner, numbers)
        self._is_single = isinstance(argnums, int)
        self._compiled = _Compiled(function, self._derivatives, with_value, math, threads)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._compiled(*arguments, **keywords)

    def lower(self, *arguments: Any, **keywords: Any) -> Any:
        """The model that a call with these arguments runs."""
        return self._compiled.lower(*arguments, **keywords)

    def explain(self) -> str:
        """Every compilation, and why it was needed."""
        return str(self._compiled.explain())

    def described(self) -> tuple[Any, ...]:
        """What it is in a function that is compiled, see describe()."""
        return "derivative", self._compiled.function, [list(argnums) for argnums in self._derivatives], self._is_single, self._compiled._with_value


@known_as("grad")
def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Any:
    """The gradient of a function that returns one float, by some of its positional arguments.

        df = anfora.grad(lambda x: (x * x).sum())
        df(numpy.ones(3))                      # [2, 2, 2]
        anfora.grad(anfora.grad(math.sin))     # higher orders

    Args:
        function: as for anfora.jit, with branches, loops and recursion; or a function of anfora.jit or anfora.grad.
        argnums: a number, or several: then there is a tuple of gradients. Each has the structure of its argument, None for what is no float.

    Raises:
        UnsupportedError: when it is called, of an operator without a gradient, with the line.
    """
    return Gradient(function, argnums, False)


@known_as("value_and_grad")
def value_and_grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Any:
    """The same, giving what the function returns and the gradient."""
    return Gradient(function, argnums, True)

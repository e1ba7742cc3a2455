"""Gradients of Python functions: the functions are lowered as for anfora.jit, and differentiated as graphs."""

from __future__ import annotations

import dataclasses
import functools
import os
import types
from typing import Any, Callable, Sequence

import numpy

from . import _modes
from ._errors import InvalidArgumentError, TypeMismatchError, UnsupportedError
from ._program import Jitted, Specialization, called, known_as, place_of
from ._sizes import Sizes
from ._tensor import Function, Number, Tensor
from .optimizers import Tree, tree_map

Argnums = tuple[int, ...]
Path = tuple[tuple[Any, ...], ...]


def outputs_of(spec: Any) -> list[int]:
    """The outputs of a module that a result is rebuilt of."""
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


@dataclasses.dataclass(frozen=True)
class Derivative:
    """Of what a function returns by some of its arguments: "grad", of one float; "vjp", weighted by one more argument, which has the
    structure of what is returned; "jvp", along a direction, one more argument as well, a tuple of what has the structure of the arguments."""

    kind: str
    argnums: Argnums
    checkpoints: int = 0

    @property
    def has_weights(self) -> bool:
        return self.kind != "grad"


def steps_of(spec: Any, path: Path) -> list[tuple[int, Path]]:
    """The outputs that a result is rebuilt of, with the paths at which something of its structure has them."""
    if spec[0] in ("array", "number"):
        return [(spec[1], path)]
    if spec[0] == "dict":
        return [found for key, item in spec[1] for found in steps_of(item, (*path, ("item", key)))]
    if spec[0] == "fields":
        names = getattr(spec[1], "_fields", None) or [field.name for field in dataclasses.fields(spec[1])]
        return [found for name, item in zip(names, spec[2]) for found in steps_of(item, (*path, ("attribute", name)))]
    if spec[0] == "instance":
        return [found for name, item in zip(spec[3], spec[4]) for found in steps_of(item, (*path, ("attribute", name)))]
    if spec[0] in ("tuple", "list"):
        return [found for i, item in enumerate(spec[1]) for found in steps_of(item, (*path, ("item", i)))]
    return []


class Differentiated(Specialization):
    """The values of a function, or its derivatives, as a module."""

    def __init__(self, derivatives: tuple[Derivative, ...], with_value: bool, *arguments: Any) -> None:
        self._derivatives, self._with_value = derivatives, with_value
        super().__init__(*arguments)

    def variant(self) -> tuple[Any, ...]:
        return "gradient", self._derivatives, self._with_value

    def lower(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], sizes: Sizes) -> tuple[Any, ...]:
        given = arguments[:-1] if self._derivatives[-1].has_weights else arguments
        core, result, inputs, guards = super().lower(function, given, keywords, sizes)
        places = {path: i for i, path in enumerate(inputs)}
        for derivative in self._derivatives:
            value, by = result, list[int]()
            first = len(core.outputs) + (derivative.kind == "vjp")
            for number in derivative.argnums:
                if number >= len(given):
                    raise InvalidArgumentError(f"argnums has {number}, and there are {len(given)} positional arguments")
            parts = [self._gradient(given[n], (("argument", n),), places, core.inputs, first, by) for n in derivative.argnums]
            if not by:
                raise InvalidArgumentError("there is no float to differentiate by")
            if derivative.kind == "grad":
                self._require_float(core, result)
                core.differentiate(value[1], by, derivative.checkpoints)
                result = parts[0] if len(parts) == 1 else ("tuple", parts)
            else:
                weighted = [(i, path) for i, path in steps_of(value, (("argument", len(given)),)) if is_float(core.outputs[i].type)]
                outputs = [i for i, _ in weighted]
                core.add_weighted_sum(outputs)
                core.differentiate(len(core.outputs) - 1, by)
                if derivative.kind == "vjp":
                    inputs = [*inputs, *(path for _, path in weighted)]
                    result = ("tuple", parts)
                else:
                    result = self._along(core, value, outputs, len(inputs), len(by))
                    along = [path for part in derivative.argnums for path in places if path[0] == ("argument", part) and places[path] in by]
                    inputs = [*inputs, *((("argument", len(given)), ("item", derivative.argnums.index(path[0][1])), *path[1:]) for path in along)]
        if self._with_value:
            result = ("tuple", [value, result])
        kept = outputs_of(result)
        core.keep_outputs(kept)
        return core, renumbered(result, {output: i for i, output in enumerate(kept)}), inputs, guards

    def _require_float(self, core: Any, result: Any) -> None:
        type_ = core.outputs[result[1]].type if result[0] in ("array", "number") else f"a {result[0]}"
        sizes = type_.partition("[")[2].rstrip("]")
        if not is_float(type_) or not all(size in ("", "*", "1") for size in sizes.split(", ")):
            raise TypeMismatchError(f"what is differentiated returns {type_} and not one float", hint="sum or average it")
        if type_.endswith("[*]"):
            core.make_scalar(result[1])

    def _along(self, core: Any, value: Any, outputs: list[int], first: int, count: int) -> Any:
        """The derivative along a direction: the weighted gradient is linear in the weights, and what it is differentiated by them, weighted by
        the direction, is that derivative."""
        gradients = len(core.outputs) - count
        core.add_weighted_sum(list(range(gradients, gradients + count)))
        core.differentiate(gradients + count, list(range(first, first + len(outputs))))
        core.set_to_zero(first, outputs)
        numbers = {output: gradients + count + 1 + i for i, output in enumerate(outputs)}
        return renumbered(value, {i: numbers.get(i, i) for i in outputs_of(value)})

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

    def __init__(self, function: Any, derivatives: tuple[Derivative, ...], with_value: bool, math: str, threads: int,
                 save_graphs: str | os.PathLike[str] | None) -> None:
        super().__init__(function, math, threads, save_graphs)
        self._derivatives, self._with_value = derivatives, with_value

    def _specialize(self, arguments: tuple[Any, ...], keywords: dict[str, Any], sizes: Sizes) -> Specialization:
        return Differentiated(self._derivatives, self._with_value, self.function, arguments, keywords, sizes, self._math, self._threads, self._folder())


class Gradient:
    """The derivative of a function, compiled when it is called. Not a Jitted: a function that calls it is not one that calls f."""

    _derivatives: tuple[Derivative, ...]
    _is_single: bool
    _compiled: _Compiled

    def __init__(self, function: Any, argnums: int | Sequence[int], with_value: bool, kind: str = "grad",
                 checkpoints: int | None = None) -> None:
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        inner: tuple[Derivative, ...] = ()
        if isinstance(function, Gradient):
            if function._compiled._with_value:
                raise TypeMismatchError("what is differentiated returns a value and its gradient, and not one float")
            inner, function = function._derivatives, function._compiled.function
        math, threads, save_graphs = "real", 0, None
        if isinstance(function, Jitted):
            math, threads, save_graphs, function = function._math, function._threads, function._save_graphs, function.function
        functools.update_wrapper(self, function)
        if checkpoints is not None and checkpoints < 1:
            raise InvalidArgumentError(f"checkpoints is {checkpoints}, and is to be 1 at least")
        self._derivatives = (*inner, Derivative(kind, numbers, checkpoints or 0))
        self._is_single = isinstance(argnums, int)
        self._compiled = _Compiled(function, self._derivatives, with_value, math, threads, save_graphs)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        mode = _modes.current.get()
        if mode is not None and mode.records:
            return mode.call(self, arguments, keywords)
        return self._compiled(*arguments, **keywords)

    def lower(self, *arguments: Any, **keywords: Any) -> Any:
        """The model that a call with these arguments runs."""
        return self._compiled.lower(*arguments, **keywords)

    def explain(self) -> str:
        """Every compilation, and why it was needed."""
        return str(self._compiled.explain())

    def _described(self) -> tuple[Any, ...]:
        """What it is in a function that is compiled, see describe()."""
        if any(derivative.kind != "grad" for derivative in self._derivatives):
            return ("object",)
        orders = tuple((derivative.argnums, derivative.checkpoints) for derivative in self._derivatives)
        return "derivative", self._compiled.function, orders, self._is_single, self._compiled._with_value


@known_as("grad")
def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0, *, checkpoints: int | None = None) -> Any:
    """The gradient of a function that returns one float, by some of its positional arguments.

        df = anfora.grad(lambda x: (x * x).sum())
        df(numpy.ones(3))                      # [2, 2, 2]
        anfora.grad(anfora.grad(math.sin))     # higher orders

    Args:
        function: as for anfora.jit, with branches, loops and recursion; or a function of anfora.jit or anfora.grad.
        argnums: a number, or several: then there is a tuple of gradients. Each has the structure of its argument, None for what is no float.
        checkpoints: how many states of each loop are kept, from which the iterations between them are repeated; None: what each iteration
            leaves is kept, so that memory grows with their number.

    Raises:
        UnsupportedError: when it is called, of an operator without a gradient, with the line.
    """
    return Gradient(function, argnums, False, checkpoints=checkpoints)


@known_as("value_and_grad")
def value_and_grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0, *, checkpoints: int | None = None) -> Any:
    """The same, giving what the function returns and the gradient."""
    return Gradient(function, argnums, True, checkpoints=checkpoints)


_STOP_GRADIENT = Function("anfora", "stop_gradient", [])


@known_as("stop_gradient")
def stop_gradient(tree: Tree) -> Tree:
    """The same arrays and numbers, by which nothing is differentiated: constants to what reads them.

        def loss(q, target):
            return ((q - anfora.stop_gradient(target)) ** 2).sum()

    Args:
        tree: an array or number, or a tuple, list, dict or dataclass of them.
    """
    mode = _modes.current.get()
    if mode is None:
        return tree
    return tree_map(lambda leaf: _STOP_GRADIENT(leaf) if isinstance(leaf, (Tensor, Number)) else leaf, tree)


class CustomGradient:
    """A function that says its gradient itself, see custom_gradient()."""

    def __init__(self, rule: Callable[..., tuple[Any, Callable[..., Any]]]) -> None:
        functools.update_wrapper(self, rule)
        self.rule = rule

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else CustomGradient(types.MethodType(self.rule, instance))

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        mode = _modes.current.get()
        if mode is not None and mode.records:
            return mode.call(self, arguments, keywords)
        returned = self.rule(*arguments, **keywords)
        if not isinstance(returned, tuple) or len(returned) != 2 or not callable(returned[1]):
            raise TypeMismatchError(f"{place_of(self.rule)} has a gradient of its own, and returns {called(returned)}",
                                    hint="return two: what it computes, and a function of the sensitivity of that, which returns those of the arguments")
        return returned[0]

    def _described(self) -> tuple[Any, ...]:
        return "custom_gradient", self.rule


@known_as("custom_gradient")
def custom_gradient(function: Callable[..., tuple[Any, Callable[..., Any]]]) -> Any:
    """A function that says its gradient itself: it returns what it computes, and a function from the sensitivity of that to those of the arguments.

        @anfora.custom_gradient
        def log1pexp(x):
            e = numpy.exp(x)

            def backward(dy):
                return dy * (1 - 1 / (1 + e))       # finite where exp(x) is not

            return numpy.log(1 + e), backward

        anfora.grad(log1pexp)(100.0)                # 1.0

    ``backward`` gets what has the structure of the value, and returns, for one positional argument, what has the structure of that, for several a
    tuple; None stands for what has no gradient. It may use what the function computed. Gradients of higher orders differentiate both. By what the
    function reads from around it nothing is differentiated: that is to be an argument.

    Raises:
        TypeMismatchError: when it is compiled, where the function does not return two, or ``backward`` something else than the arguments are.
        UnsupportedError: when it is differentiated by what is no argument of it.
    """
    return CustomGradient(function)


@functools.lru_cache(maxsize=256)
def _derivative(kind: str, function: Callable[..., Any], argnums: Argnums) -> Gradient:
    return Gradient(function, argnums, True, kind)


@known_as("vjp")
def vjp(function: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """What the function returns, and its pullback: from sensitivities of what is returned to those of the arguments, cᵀ · J.

        y, pullback = anfora.vjp(lambda x, w: x @ w, x, w)
        dx, dw = pullback(numpy.ones_like(y))

    The sensitivities have the structure of what is returned; those of the arguments are None for what is no float. Each call of the pullback
    computes the function, too.
    """
    both = _derivative("vjp", function, tuple(range(len(primals))))
    value = function(*primals) if isinstance(function, (Jitted, Gradient)) else _value(function)(*primals)

    def pullback(sensitivities: Any) -> tuple[Any, ...]:
        gradients: tuple[Any, ...] = both(*primals, sensitivities)[1]
        return gradients

    return value, pullback


@known_as("jvp")
def jvp(function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """What the function returns, and its derivative along a direction, J · v, which has the structure of what is returned.

        y, dy = anfora.jvp(numpy.sin, (x,), (v,))       # cos(x) · v

    Forward mode, as the gradient of the pullback, which is linear.
    """
    value, tangent = _derivative("jvp", function, tuple(range(len(primals))))(*primals, tuple(tangents))
    return value, tangent


@functools.lru_cache(maxsize=256)
def _value(function: Callable[..., Any]) -> Jitted:
    return Jitted(function)


class Jacobian:
    """Runs compiled functions, several times; none itself that could be compiled into another."""

    def __init__(self, function: Callable[..., Any], argnum: int) -> None:
        if isinstance(function, Jacobian):
            raise UnsupportedError("a Jacobian of a Jacobian is not supported", hint="anfora.hessian(f) has the second derivatives of one float")
        functools.update_wrapper(self, function)
        self._function, self._argnum = function, argnum

    def __call__(self, *arguments: Any) -> Any:
        function, argnum = self._function, self._argnum
        x = numpy.asarray(arguments[argnum])
        rows = numpy.asarray((function if isinstance(function, (Jitted, Gradient)) else _value(function))(*arguments))
        kind, basis = ("vjp", rows) if rows.size <= x.size else ("jvp", x)
        along = _derivative(kind, function, (argnum,))
        parts = []
        for i in range(basis.size):
            unit = numpy.zeros(basis.size, basis.dtype)
            unit[i] = 1
            direction = unit.reshape(basis.shape)
            parts.append(along(*arguments, direction)[1][0] if kind == "vjp" else along(*arguments, (direction,))[1])
        if not parts:
            return numpy.zeros(rows.shape + x.shape, rows.dtype)
        stacked = numpy.stack(parts, 0 if kind == "vjp" else -1)
        return stacked.reshape(rows.shape + x.shape)


@known_as("jacobian")
def jacobian(function: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """The derivatives of an array that a function returns by an array, its positional argument `argnum`: of shape
    ``value.shape + argument.shape``. Row by row, by the pullback, or column by column along the axes, whichever are fewer."""
    return Jacobian(function, argnum)


@known_as("hessian")
def hessian(function: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """The second derivatives of a function that returns one float, by an array: of shape ``argument.shape + argument.shape``."""
    return Jacobian(grad(function, argnum), argnum)

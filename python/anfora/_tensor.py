"""Tensors that compute at once, by the functions that anfora.jit compiles (src/frontend/python/library).

A function of the library is compiled when it is called: once for each kind of tensors and each static argument. So it means the same
run at once, traced and compiled.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from . import _core, _modes
from ._errors import Error, InvalidArgumentError, TypeMismatchError, UnsupportedError
from ._program import Specialization
from ._sizes import AnySizes, Sizes, shapes_of
from ._values import numpy_dtype

# Functions of the library -------------------------------------------------------------------------------------------


class Static(NamedTuple):
    """A number that the compiler is to know."""

    value: bool | int | float


class Operation(Specialization):
    """One call of a function of the library, compiled."""

    follows_from_source = False

    def lower(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], sizes: Sizes) -> tuple[Any, ...]:
        tracer = _core.Tracer(lambda symbol: symbol, function.__name__, arguments, keywords, sizes.names())
        return tracer.finish(tracer.call(function, *tracer.arguments, ("", 0, 0, 0, 0)))


# Parameters whose numbers are static, as are those with a default: they say what is computed, and not on what.
_STATIC = {"axis", "axis1", "axis2", "source", "destination"}
_MOST_KNOWN = 4096  # compiled calls of one function; then they are forgotten


class Function:
    """A function of the library, by module and name: ("numpy", "exp")."""

    def __init__(self, module: str, name: str, parameters: list[tuple[str, bool]]) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = f"anfora.{module.removeprefix('anfora.')}"
        self.module = module
        self._static = [has_default or parameter in _STATIC for parameter, has_default in parameters]
        self._static_names = {parameter: is_static for (parameter, _), is_static in zip(parameters, self._static)}
        self._known: dict[Any, Operation | None] = {}

    def __repr__(self) -> str:
        return f"<function {self.__module__}.{self.__name__}>"

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        mode = _modes.current.get()
        return self.run(arguments, keywords) if mode is None else mode.apply(self, arguments, keywords)

    def run(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        operation, given, named = self._find(arguments, keywords)
        try:
            return tensors_of(operation(given, named, self))
        except Error as error:
            raise self._error(error) from None

    def _error(self, error: Error) -> Error:
        """The place and node are those of the library."""
        return type(error)(f"{self.__name__}: {error.message}", "", "", error.hint)

    def _find(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Operation, tuple[Any, ...], dict[str, Any]]:
        """Numbers are values where they can be, then known to the compiler; then sizes are, too."""
        for level in range(3):
            key: list[Any] = [level]
            known = self._static if level == 0 else [True] * len(arguments)
            given = tuple([_prepare(a, i < len(known) and known[i], level == 2, key) for i, a in enumerate(arguments)])
            named = {}
            for name, value in keywords.items():
                key.append(name)
                named[name] = _prepare(value, level > 0 or self._static_names.get(name, True), level == 2, key)
            kinds = tuple(key)
            if kinds in self._known:
                found = self._known[kinds]
                if found is None:
                    continue
                return found, given, named
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            try:
                sizes = Sizes.exactly(shapes_of(given, named)) if level == 2 else AnySizes()
                found = Operation(self, given, named, sizes, "exact", 0)
            except Error as error:
                if level == 2:
                    raise self._error(error) from None
                self._known[kinds] = None
                continue
            self._known[kinds] = found
            return found, given, named
        raise AssertionError


def _prepare(value: Any, is_static: bool, exact: bool, key: list[Any]) -> Any:
    """What an argument is to the compiler; adds to the key what its compilation depends on."""
    if isinstance(value, Tensor):
        value = value._array()
    if isinstance(value, np.ndarray):
        key.append((value.dtype, value.shape if exact else value.ndim))
        return value
    if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
        if not is_static:
            key.append(type(value))
            return value
        key.append((type(value), repr(value)))
        return Static(value)
    if isinstance(value, (tuple, list)):
        key.append((type(value), len(value)))
        return type(value)([_prepare(item, is_static, exact, key) for item in value])
    if isinstance(value, slice):
        key.append(slice)
        return slice(*(_prepare(part, is_static, exact, key) for part in (value.start, value.stop, value.step)))
    if isinstance(value, np.generic):
        key.append((value.dtype, 0))
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        return _prepare(np.from_dlpack(value), is_static, exact, key)
    key.append(value)
    return value


def tensors_of(value: Any) -> Any:
    """Arrays become tensors, in tuples and lists, too."""
    if isinstance(value, np.ndarray):
        return Tensor(value)
    if type(value) in (tuple, list):
        return type(value)(map(tensors_of, value))
    return value


def arrays_of(value: Any) -> Any:
    """The reverse."""
    if isinstance(value, Tensor) and isinstance(value._value, np.ndarray):
        return value._value
    if type(value) in (tuple, list):
        return type(value)(map(arrays_of, value))
    if type(value) is dict:
        return {key: arrays_of(item) for key, item in value.items()}
    return value


def _functions_of(file: str) -> dict[str, Function]:
    functions = {}
    for tree in json.loads(_core.library[file])["tree"]["body"]:
        if tree["_"] == "FunctionDef":
            names = [arg["arg"] for arg in tree["args"]["args"]]
            required = len(names) - len(tree["args"]["defaults"])
            functions[tree["name"]] = Function(file, tree["name"], [(name, i >= required) for i, name in enumerate(names)])
    return functions


NUMPY, LINALG, FFT = map(_functions_of, ("numpy", "numpy.linalg", "numpy.fft"))
_METHODS = _functions_of("tensor")


def of_numpy(name: str, module: str = "numpy") -> Function:
    functions = {"numpy.linalg": LINALG, "numpy.fft": FFT}.get(module, NUMPY)
    if name not in functions:
        raise UnsupportedError(f"{module}.{name} is not supported on tensors of Anfora", hint="numpy.asarray(tensor) is an array of numpy's")
    return functions[name]


def apply_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if method != "__call__" or options:
        return NotImplemented
    return of_numpy(ufunc.__name__)(*inputs)


# Tensors ------------------------------------------------------------------------------------------------------------

Operator = Callable[[Any, Any], Any]


def _binary(name: str) -> tuple[Operator, Operator]:
    function = NUMPY[name]
    return lambda self, other: function(self, other), lambda self, other: function(other, self)


class Arithmetic:
    """The operators of Python, as functions of the library."""

    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("subtract")
    __mul__, __rmul__ = _binary("multiply")
    __truediv__, __rtruediv__ = _binary("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide")
    __mod__, __rmod__ = _binary("remainder")
    __pow__, __rpow__ = _binary("power")
    __and__, __rand__ = _binary("bitwise_and")
    __or__, __ror__ = _binary("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor")
    __lshift__, __rlshift__ = _binary("left_shift")
    __rshift__, __rrshift__ = _binary("right_shift")
    __lt__, __gt__ = _binary("less")[0], _binary("greater")[0]
    __le__, __ge__ = _binary("less_equal")[0], _binary("greater_equal")[0]
    __eq__: Any = _binary("equal")[0]
    __ne__: Any = _binary("not_equal")[0]
    __hash__: Any = None

    def __neg__(self) -> Any:
        return NUMPY["negative"](self)

    def __pos__(self) -> Any:
        return NUMPY["positive"](self)

    def __abs__(self) -> Any:
        return NUMPY["absolute"](self)


_OF_VALUES = "anfora.numpy.where(condition, a, b) computes both and chooses; a function of anfora.jit may branch and loop on values"


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    def operate(self: Any, other: Any) -> Any:
        result = NUMPY[name](self, other)
        if result.dtype != self.dtype:
            result = _METHODS["astype"](result, self.dtype) if np.can_cast(result.dtype, self.dtype, "same_kind") else _cannot_hold(self, result)
        self._become(result)
        return self

    return operate


def _cannot_hold(tensor: Any, value: Any) -> Any:
    raise TypeMismatchError(f"a tensor of {tensor.dtype} cannot hold {value.dtype}", hint="x = x + y gives it another type")


_DONATED = object()  # in the place of a tensor's array


class Tensor(Arithmetic):
    """A tensor that computes at once; in a function of anfora.trace, one that records.

    numpy's functions take it, and so do the methods and operators that an array of numpy has. It implements the Python array API
    standard: its namespace is ``anfora.numpy``. What is computed is a tensor of its own, never a view.
    """

    __slots__ = ("_value", "_is_callers")

    def __init__(self, value: Any, is_callers: bool = False) -> None:
        self._value: Any = value if isinstance(value, _core.Symbol) else np.asarray(arrays_of(value))
        self._is_callers = is_callers  # an argument of a function that is traced or debugged

    def _become(self, value: Tensor) -> None:
        if self._is_callers:
            from ._trace import error_here

            raise error_here("this tensor is the caller's, and this would change it", "x = x.copy() before, and return it")
        self._value = value._value

    def _give_away(self) -> None:
        """After a call that it was donated to."""
        self._value = _DONATED

    def _array(self) -> np.ndarray[Any, Any]:
        if self._value is _DONATED:
            raise InvalidArgumentError("this tensor was donated to a compiled function, which has overwritten it",
                                       hint="use what the function returned, or donate a copy")
        if isinstance(self._value, _core.Symbol):
            from ._trace import unknown_value

            raise unknown_value(f"the elements of {self._value.type} are values", _OF_VALUES)
        array: np.ndarray[Any, Any] = self._value
        return array

    def __repr__(self) -> str:
        if isinstance(self._value, _core.Symbol):
            return f"Tensor({self._value.type})"
        body = np.array2string(self._array(), separator=", ", prefix="Tensor(")
        return f"Tensor({body}, {self._value.dtype})"

    @property
    def shape(self) -> tuple[Any, ...]:
        return self._value.shape if isinstance(self._value, np.ndarray) else tuple(NUMPY["shape"](self))

    @property
    def ndim(self) -> int:
        return self._value.ndim if isinstance(self._value, np.ndarray) else int(NUMPY["ndim"](self))

    @property
    def size(self) -> Any:
        return self._value.size if isinstance(self._value, np.ndarray) else NUMPY["size"](self)

    @property
    def dtype(self) -> np.dtype[Any]:
        return numpy_dtype(self._value.type.partition("[")[0]) if isinstance(self._value, _core.Symbol) else self._array().dtype

    @property
    def device(self) -> str:
        return "cpu"

    def to_device(self, device: str, /, *, stream: None = None) -> Tensor:
        if device != "cpu" or stream is not None:
            raise UnsupportedError(f"there is no device '{device}'", hint="tensors are on the 'cpu'")
        return self

    @property
    def T(self) -> Any:
        return _METHODS["T"](self)

    @property
    def mT(self) -> Any:
        return NUMPY["matrix_transpose"](self)

    def __matmul__(self, other: Any) -> Any:
        return NUMPY["matmul"](self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return NUMPY["matmul"](other, self)

    def __invert__(self) -> Any:
        return NUMPY["bitwise_invert"](self)

    __iadd__, __isub__, __imul__ = _in_place("add"), _in_place("subtract"), _in_place("multiply")
    __itruediv__, __ifloordiv__, __imod__ = _in_place("divide"), _in_place("floor_divide"), _in_place("remainder")
    __ipow__, __imatmul__ = _in_place("power"), _in_place("matmul")
    __iand__, __ior__, __ixor__ = _in_place("bitwise_and"), _in_place("bitwise_or"), _in_place("bitwise_xor")
    __ilshift__, __irshift__ = _in_place("left_shift"), _in_place("right_shift")

    def __getitem__(self, index: Any) -> Any:
        return _METHODS["__getitem__"](self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._become(_METHODS["__setitem__"](self, index, value))

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("a tensor without axes has no length")
        return operator.index(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self._array())

    def __int__(self) -> int:
        return int(self._array())

    def __float__(self) -> float:
        return float(self._array())

    def __complex__(self) -> complex:
        return complex(self._array())

    def __index__(self) -> int:
        return operator.index(self._array())

    def item(self) -> Any:
        return self._array().item()

    def tolist(self) -> Any:
        return self._array().tolist()

    # Other libraries

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self._array(), dtype=dtype, copy=bool(copy))

    def __dlpack__(self, **options: Any) -> Any:
        array = self._array()
        if not array.flags.writeable:  # numpy hands out none of these
            array = array.copy()
        return array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array().__dlpack_device__()

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        from . import numpy as namespace

        return namespace

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return apply_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        return of_numpy(function.__name__, function.__module__)(*arguments, **keywords)


def _method(function: Function) -> Any:
    def method(self: Any, *arguments: Any, **keywords: Any) -> Any:
        return function(self, *arguments, **keywords)

    method.__name__ = function.__name__
    method.__qualname__ = f"Tensor.{function.__name__}"
    return method


for _name, _function in _METHODS.items():
    if not hasattr(Tensor, _name):
        setattr(Tensor, _name, _method(_function))


# Numbers of a trace -------------------------------------------------------------------------------------------------

_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//", "remainder": "%", "power": "**",
          "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!="}


class Number(Arithmetic):
    """A size or number in a trace. Python may look at it (``if n > 3``, ``range(n)``) where it is one of the inputs, or computed of such
    alone; the trace then holds for what Python saw."""

    __slots__ = ("_value", "text")

    def __init__(self, symbol: _core.Symbol, text: str) -> None:
        self._value, self.text = symbol, text

    def known(self) -> Any:
        from ._trace import known

        return known(self)

    def __repr__(self) -> str:
        return f"<{self._value.type} {self.text}>" if self.text else f"<{self._value.type}>"

    def __bool__(self) -> bool:
        return bool(self.known())

    def __index__(self) -> int:
        return operator.index(self.known())

    def __int__(self) -> int:
        return int(self.known())

    def __float__(self) -> float:
        return float(self.known())

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return apply_ufunc(ufunc, method, inputs, options)

    def __hash__(self) -> int:
        return hash(self.known())

    def __round__(self, ndigits: int | None = None) -> Any:
        return round(self.known(), ndigits)


def with_text(function: Any, arguments: tuple[Any, ...], result: Any) -> Any:
    """A number that was computed of numbers of the inputs says so."""
    sign = _SIGNS.get(function.__name__)
    if not isinstance(result, Number) or result.text or not sign or len(arguments) != 2:
        return result
    parts = [argument.text if isinstance(argument, Number) else repr(argument) for argument in arguments]
    if all(parts):
        result.text = f"({parts[0]} {sign} {parts[1]})"
    return result

"""What the compiler asks about functions and values of the running Python (python/src/programs.cc)."""

from __future__ import annotations

import abc
import ast
import builtins
import contextlib
import dataclasses
import functools
import importlib.util
import inspect
import json
import linecache
import os
import re
import sys
import types
from typing import Any, Callable, Generic, NamedTuple, Protocol, Sequence, overload

import numpy as np

from . import _cache, _core, _modes
from ._errors import Error, InvalidArgumentError, UnsupportedError
from ._sizes import Sizes, Within, is_within, shapes_of

# The writer of trees is the compiler's, which runs it in a Python of its own for files.
tree_as_json: Any = types.ModuleType("anfora.tree_as_json")
exec(compile(_core.tree_as_json, "tree_as_json.py", "exec"), tree_as_json.__dict__)

_MODULES = {"numpy", "numpy.linalg", "numpy.fft", "math", "operator", "functools", "itertools", "collections", "contextlib", "anfora", "anfora.ops",
            "anfora.numpy", "anfora.numpy.linalg", "anfora.numpy.fft"}
_COLLECTIONS = {"defaultdict", "deque", "Counter", "OrderedDict", "namedtuple"}
_NAMES = {"bool": "bool", "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "complex64": "c64", "complex128": "c128"}


def dtype_name(dtype: Any) -> str:
    """"f32" of numpy's float32."""
    name = np.dtype(dtype).name
    return _NAMES.get(name) or name.replace("uint", "u").replace("int", "i")


def tensor_type(value: Any, exact: bool) -> str:
    return f"{dtype_name(value.dtype)}[{', '.join(map(str, value.shape)) if exact else ', '.join('?' * value.ndim)}]"


def known_as(name: str) -> Callable[[Any], Any]:
    """Marks a function that the compiler has one of its own for: anfora.NAME."""
    def mark(function: Any) -> Any:
        function._anfora_name = name
        return function

    return mark


def describe(value: Any) -> tuple[Any, ...]:
    """What a value is to the compiler: a kind, and what belongs to it."""
    if isinstance(value, types.FunctionType) and hasattr(value, "_anfora_name"):
        return "builtin", "anfora", value._anfora_name
    if hasattr(type(value), "_described"):  # anfora.grad(f), a function with a gradient of its own
        return tuple(value._described())
    if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
        number = "bool[]" if isinstance(value, bool) else "i64[]" if isinstance(value, int) else "f64[]"
        return "number", number, number
    if value is None or value is ... or isinstance(value, str):
        return ("constant",)
    if isinstance(value, (np.ndarray, np.generic)):
        constant = np.asarray(value) if isinstance(value, np.generic) else None
        return "tensor", tensor_type(value, False), tensor_type(value, True), constant
    if isinstance(value, Jitted):
        return describe(value.function)
    if isinstance(value, slice):
        return ("slice",)
    if type(value).__module__ in _OWN_MODULES:
        return _describe_own(value)
    if isinstance(value, tuple):
        return ("fields", list(value._fields)) if hasattr(value, "_fields") else ("tuple", list(value))
    if isinstance(value, list):
        return "list", value
    if isinstance(value, dict):
        return ("dict",)
    if isinstance(value, (set, frozenset)):
        return "set", set_items(value)
    if isinstance(value, types.ModuleType):
        return ("module", value.__name__) if value.__name__ in _MODULES else ("object",)
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return "dtype", dtype_name(value)
    if isinstance(value, np.ufunc):
        return "builtin", "numpy", value.__name__
    module = getattr(value, "__module__", None) or ""
    module = module.removeprefix("anfora.").lstrip("_")  # the functions of operator are those of _operator
    if module.split(".")[0] in ("numpy", "math", "operator", "functools", "itertools") and callable(value) and hasattr(value, "__name__"):
        return "builtin", module if module in _MODULES else module.split(".")[0], value.__name__
    if module == "collections" and getattr(value, "__name__", "") in _COLLECTIONS:
        return "builtin", module, value.__name__
    if value is contextlib.nullcontext or value is np.errstate:
        return "builtin", module, value.__name__
    if value is NotImplemented:
        return "builtin", "builtins", "NotImplemented"
    if isinstance(value, type) or inspect.isbuiltin(value):
        name = getattr(value, "__name__", "")
        if getattr(builtins, name, None) is value:
            return "builtin", "builtins", name
    function = plain_function(value)
    if function is not None:
        keywords = function.__kwdefaults__ or {}
        names = inspect.getfullargspec(function).kwonlyargs
        return ("function", json_of(function), Scope(function), list(function.__defaults__ or ()),
                [keywords.get(name, ...) for name in names], getattr(value, "__self__", None))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return "fields", [field.name for field in dataclasses.fields(value)]
    if hasattr(value, "__dlpack__"):
        return describe(np.from_dlpack(value))
    return ("object",)


def plain_function(value: Any) -> types.FunctionType | None:
    """The function that a method or a compiled function is of; None of what is no function written in Python."""
    function = getattr(value, "__func__", value)
    if isinstance(function, Jitted):
        function = function.function
    return inspect.unwrap(function) if isinstance(function, types.FunctionType) else None
_OWN_MODULES = {"anfora._tensor", "anfora._core", "anfora._overload"}


def _describe_own(value: Any) -> tuple[Any, ...]:
    """What this package makes."""
    from . import _tensor

    if isinstance(value, _core.Symbol):
        return "symbol", value
    if isinstance(value, _tensor.Static):
        return "static", value.value
    if isinstance(value, _tensor.Function):
        return "builtin", value.module, value.__name__
    if isinstance(value, (_tensor.Tensor, _tensor.Number)):
        return describe(value._value)
    return ("object",)


def is_overload(value: Any) -> bool:
    return type(value).__module__ == "anfora._overload"


def lines_of(file: str) -> list[str]:
    return [line.rstrip("\n") for line in linecache.getlines(file)]


def dtype_of(name: str) -> np.dtype[Any]:
    from ._values import numpy_dtype

    return numpy_dtype(name)


class Scope:
    """The names that a function takes from around it."""

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function
        self.globals = function.__globals__
        self.cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))

    def find(self, name: str) -> tuple[bool, Any]:
        if name in self.cells:
            try:
                return True, self.cells[name].cell_contents
            except ValueError:
                return False, None
        if name in self.globals:
            return True, self.globals[name]
        return False, None

    def module(self, name: str) -> tuple[Any, ...] | None:
        """A module, and the path to it; None: it cannot be imported."""
        try:
            full = importlib.util.resolve_name(name, self.globals.get("__package__") or "")
            return (("import", full),), importlib.import_module(full)
        except ImportError:
            return None

    def name_in_module(self, module: str, name: str) -> tuple[Any, ...] | None:
        found = self.module(module)
        if found is None:
            return None
        path, value = found
        if hasattr(value, name):
            return (*path, ("attribute", name)), getattr(value, name)
        return self.module(f"{path[0][1]}.{name}")


def attribute(value: Any, name: str) -> tuple[bool, Any]:
    try:
        return True, getattr(value, name)
    except AttributeError:
        return False, None


def set_items(value: set[Any] | frozenset[Any]) -> list[Any]:
    """In an order that is the same in every process."""
    return sorted(value, key=repr)


def structure(value: Any) -> tuple[Any, ...]:
    """What of a container is not in its items."""
    if isinstance(value, dict):
        return type(value), *value
    if isinstance(value, (set, frozenset)):
        return type(value), *set_items(value)
    return (type(value), len(value)) if isinstance(value, (tuple, list)) else (type(value),)


def fields(value: Any) -> list[str]:
    """Of a class whose instances are plain tuples with names."""
    if isinstance(value, type) and dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    return list(getattr(value, "_fields", ()))


class Member(NamedTuple):
    """What a class defines, and the path to it from the class."""

    kind: str
    path: tuple[Any, ...]
    value: Any
    setter_path: tuple[Any, ...] = ()
    setter: Any = None


_OBJECTS_OWN = (object, abc.ABC, Generic, Protocol)


def member(owner: type, name: str, after: type | None) -> Member | None:
    """What a class, or the first of its bases, has by a name; `after`: of the bases behind that one."""
    bases = owner.__mro__
    first = bases.index(after) + 1 if after in bases else 0
    place = next((i for i in range(first, len(bases)) if name in vars(bases[i])), None)
    if place is None or bases[place] in _OBJECTS_OWN or not _is_written(bases[place]):
        return None
    raw = vars(bases[place])[name]
    path = (("attribute", name),) if first == 0 else (("attribute", "__mro__"), ("item", place), ("attribute", name))
    if isinstance(raw, property):
        return Member("property", (*path, ("attribute", "fget")), raw.fget, (*path, ("attribute", "fset")), raw.fset)
    if isinstance(raw, functools.cached_property):
        return Member("cached_property", (*path, ("attribute", "func")), raw.func)
    if isinstance(raw, classmethod):
        return Member("classmethod", (*path, ("attribute", "__func__")), raw.__func__)
    if isinstance(raw, staticmethod):
        return Member("value", path, raw.__func__)
    if isinstance(raw, types.FunctionType):  # that of a dataclass is made of its fields
        return None if raw.__code__.co_filename == "<string>" else Member("method", path, raw)
    if isinstance(raw, Jitted):
        return Member("method", path, raw)
    if isinstance(raw, types.MemberDescriptorType):  # of __slots__
        return None
    if hasattr(type(raw), "__get__") and not isinstance(raw, (type, types.BuiltinFunctionType)):
        return Member("descriptor", path, type(raw).__name__)
    return Member("value", path, raw)


def _is_written(owner: type) -> bool:
    """Whether a class is written in Python."""
    return bool(owner.__flags__ & 1 << 9)


# Those that hold what they are called with, and nothing else.
_PLAIN_EXCEPTIONS = (BaseException, Exception, ArithmeticError, FloatingPointError, OverflowError, ZeroDivisionError, AssertionError,
                     BufferError, EOFError, LookupError, IndexError, KeyError, MemoryError, ReferenceError, RuntimeError,
                     NotImplementedError, RecursionError, TypeError, ValueError)


def why_no_instances(owner: type) -> str:
    """Of a class of which a compiled function can make no instances; empty: it can."""
    reason = ""
    for base in owner.__mro__:
        if base in _OBJECTS_OWN or base in _PLAIN_EXCEPTIONS:
            continue
        refused = [name for name in ("__getattr__", "__getattribute__", "__setattr__", "__delattr__") if name in vars(base)]
        if not _is_written(base):
            reason = f"derives from {base.__name__}"
        elif refused:
            reason = f"defines {refused[0]}, which a compiled function does not call"
        elif type(base) not in (type, abc.ABCMeta, type(Protocol)):
            reason = f"has the metaclass {type(base).__name__}"
    if not reason and any("__new__" in vars(base) for base in owner.__mro__ if base not in (*_OBJECTS_OWN, *_PLAIN_EXCEPTIONS)):
        reason = "defines __new__, which a compiled function does not call"
    return reason


def made(owner: Any, names: Sequence[str], values: Sequence[Any]) -> Any:
    """An instance with these attributes, for which __init__ has run in the compiled function."""
    instance: Any = owner.__new__(owner)
    for name, value in zip(names, values):
        object.__setattr__(instance, name, value)
    return instance


def type_named(name: str) -> type:
    """"int", "collections.deque"."""
    module, _, attribute = name.rpartition(".")
    found: type = getattr(importlib.import_module(module or "builtins"), attribute)
    return found


def called(value: Any) -> str:
    if inspect.isbuiltin(value) and isinstance(value.__self__, types.ModuleType):
        return f"{value.__self__.__name__}.{value.__name__}"
    return value.__name__ if isinstance(value, (type, types.ModuleType)) else type(value).__name__


def literal(text: str) -> Any:
    if text in ("nan", "inf", "-inf"):
        return float(text)
    return ... if text == "Ellipsis" else ast.literal_eval(text)


# Sources ------------------------------------------------------------------------------------------------------------


def place_of(function: Any) -> str:
    function = inspect.unwrap(getattr(function, "__func__", function))
    return f"{function.__code__.co_filename.rsplit('/', 1)[-1]}::{function.__name__}"


@functools.lru_cache(maxsize=64)
def _functions(file: str, text: str) -> dict[tuple[int, str], list[ast.FunctionDef | ast.Lambda]]:
    """The functions of a text by their first line and name."""
    found: dict[tuple[int, str], list[ast.FunctionDef | ast.Lambda]] = {}
    for node in ast.walk(ast.parse(text, file)):
        if isinstance(node, ast.FunctionDef):
            found.setdefault((min([node.lineno] + [d.lineno for d in node.decorator_list]), node.name), []).append(node)
        elif isinstance(node, ast.Lambda):
            found.setdefault((node.lineno, "<lambda>"), []).append(node)
    return found


@functools.lru_cache(maxsize=1024)
def _json_of(code: types.CodeType) -> str:
    lines = linecache.getlines(code.co_filename)
    if not lines:
        raise UnsupportedError(f"there is no source of {code.co_name}() in {code.co_filename}",
                               hint="define it in a file, a notebook, or Python's interactive mode from 3.13 on")
    text = "".join(lines)
    nodes = _functions(code.co_filename, text).get((code.co_firstlineno, code.co_name), [])
    if len(nodes) > 1 and sys.version_info >= (3, 11):  # lambdas of one line: by the columns of the code
        places = [(line, begin, last, end) for line, last, begin, end in code.co_positions()
                  if line is not None and last is not None and begin is not None and end is not None and (line, begin) != (last, end)]
        start, behind = min((p[0], p[1]) for p in places), max((p[2], p[3]) for p in places)
        lambdas = [n for n in nodes if isinstance(n, ast.Lambda) and (n.body.lineno, n.body.col_offset) <= start
                   and behind <= (n.body.end_lineno or 0, n.body.end_col_offset or 0)]
        nodes = list[Any](sorted(lambdas, key=lambda n: (n.body.lineno, n.body.col_offset))[-1:])  # the innermost
    if len(nodes) != 1:
        raise UnsupportedError(f"the source of {code.co_name}() cannot be told from others", location=f"{code.co_filename}:{code.co_firstlineno}",
                               hint="the file may have changed since it was imported; or give the function a line of its own")
    node = nodes[0]
    statement: ast.stmt = ast.copy_location(ast.Expr(node), node) if isinstance(node, ast.Lambda) else node
    if isinstance(statement, ast.FunctionDef):
        statement = ast.copy_location(ast.FunctionDef(**{**dict(ast.iter_fields(statement)), "decorator_list": []}), statement)
    written = tree_as_json.of_tree(code.co_filename.rsplit("/", 1)[-1], text, ast.Module([statement], []))
    first, last = node.lineno - 1, node.end_lineno or node.lineno
    written["lines"] = [line if first <= i < last else "" for i, line in enumerate(written["lines"][:last])]
    return json.dumps(written)


def json_of(function: types.FunctionType) -> str:
    return _json_of(function.__code__)


# Calls --------------------------------------------------------------------------------------------------------------


def fetch(path: tuple[Any, ...], arguments: tuple[Any, ...], keywords: dict[str, Any], function: Any) -> Any:
    """The value at a path, see programs.cc."""
    value: Any = None
    for step in path:
        kind = step[0]
        if kind == "argument":
            value = arguments[step[1]]
        elif kind == "value":
            value = step[1]
        elif kind == "keyword":
            value = keywords[step[1]]
        elif kind == "variable":
            value = step[1].find(step[2])[1]
        elif kind == "attribute":
            value = getattr(value, step[1], None)
        elif kind == "import":
            value = sys.modules.get(step[1]) or importlib.import_module(step[1])
        elif kind == "item":
            value = value[step[1]]
        elif kind == "function":
            value = function
        elif kind == "structure":
            value = structure(value)
        elif kind == "orders":
            value = value._described()[2:]
        elif kind == "kind":
            value = kind_of(value)
        elif kind == "sizes":
            value = sizes_of(value)
        elif kind == "within":
            value = is_within(value.shape, *step[1:])
        elif kind == "default":
            value = inspect.unwrap(value).__defaults__[step[1]]
        else:
            value = list((inspect.unwrap(value).__kwdefaults__ or {}).values())[step[1]]
    return value


class _Code:
    """An expression that is written for a specialization, and run at each call: one frame of Python in the place of one a step."""

    def __init__(self) -> None:
        self._held: list[Any] = []

    def constant(self, value: Any) -> str:
        self._held.append(value)
        return f"held_{len(self._held) - 1}"

    def function(self, parameters: str, expression: str) -> Any:
        return eval(f"lambda {parameters}: {expression}", {f"held_{i}": value for i, value in enumerate(self._held)})

    def fetched(self, path: tuple[Any, ...]) -> str:
        """What fetch() gives."""
        text = ""
        for kind, *step in path:
            if kind == "argument":
                text = f"arguments[{step[0]}]"
            elif kind == "keyword":
                text = f"keywords[{step[0]!r}]"
            elif kind == "attribute":
                text = f"getattr({text}, {step[0]!r}, None)"
            elif kind == "item":
                text = f"{text}[{self.constant(step[0])}]"
            else:
                return f"{self.constant(fetch)}({self.constant(path)}, arguments, keywords, function)"
        return text

    def rebuilt(self, spec: tuple[Any, ...]) -> str:
        """What a function returns, of the outputs of its module."""
        kind = spec[0]
        if kind == "array":
            return f"outputs[{spec[1]}]"
        if kind == "number":
            return f"outputs[{spec[1]}].item()"
        if kind == "numbers":
            return f"[item.item() for item in outputs[{spec[1]}]]"
        if kind == "constant":
            return self.constant(spec[1])
        if kind == "dict":
            return "{" + ", ".join(f"{self.constant(key)}: {self.rebuilt(item)}" for key, item in spec[1]) + "}"
        if kind == "fields":
            return f"{self.constant(spec[1])}({', '.join(map(self.rebuilt, spec[2]))})"
        if kind == "instance":
            return f"(made_{spec[1]} := {self.constant(made)}({self.constant(spec[2])}, {self.constant(spec[3])}, [{', '.join(map(self.rebuilt, spec[4]))}]))"
        if kind == "same":
            return f"made_{spec[1]}"
        items = "".join(f"{self.rebuilt(item)}, " for item in spec[1])
        return f"[{items}]" if kind == "list" else f"({items})"


def _is_among(path: tuple[Any, ...], donate: frozenset[int | str]) -> bool:
    return path[0][0] in ("argument", "keyword") and path[0][1] in donate


class Specialization:
    """A function compiled for arguments of certain kinds."""

    follows_from_source = True  # what another process compiled of it is the same

    def __init__(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], sizes: Sizes, math: str, threads: int,
                 save_graphs: str = "", donate: frozenset[int | str] = frozenset(), memory_limit: int | None = None) -> None:
        """`donate`: positions and names of arguments that a call may overwrite."""
        from ._executable import Executable
        from ._model import Model

        kinds = kind_of((arguments, keywords), _named_type), sizes.key()
        options = math, threads, self.variant(), tuple(sorted(map(str, donate))), memory_limit
        key = _cache.key_of(function, kinds, options) if self.follows_from_source and not save_graphs else ""
        self._save_graphs = save_graphs
        known = _cache.find(key, lambda path: fetch(path, arguments, keywords, function), _scope_of, threads)
        self.is_kept = known is not None  # on disk, since before
        self._model: Any = None
        if known is None:
            core, result, inputs, guards = self._lower(function, arguments, keywords, sizes)
            self._model = Model(core)
            donated = [info.name for path, info in zip(inputs, self._model.inputs) if _is_among(path, donate)]
            compiled = self._model.compile(threads=threads, math=math, save_graphs=save_graphs, donate=donated, memory_limit=memory_limit)
            known = _cache.Entry(compiled._core, result, inputs, guards)
            _cache.keep(key, known)
        self.executable = Executable(known.executable, known.executable.inputs, known.executable.outputs)
        self.result, self.inputs, self.sizes = known.result, known.inputs, sizes
        self._guards = [(path, value) for path, value in known.guards if path != (("function",),) and path[-1][0] != "within"]
        self._assumed = [Within(path) for path, _ in known.guards if path[-1][0] == "within"]
        self._donated = [i for i, path in enumerate(self.inputs) if _is_among(path, donate)]
        direct = [path[0][1] if len(path) == 1 and path[0][0] == "argument" else None for path in self.inputs]
        # Where all inputs are arguments themselves, in order, nothing has to be looked up.
        self._is_direct = direct == list(range(len(arguments))) and not keywords
        code = _Code()
        self._fetch = code.function("arguments, keywords, function", f"[{', '.join(map(code.fetched, self.inputs))}]")
        self._rebuild = code.function("outputs", code.rebuilt(self.result))
        self._run = known.executable.run if self._is_plain(arguments, keywords, function) else self.executable._run

    def _is_plain(self, arguments: tuple[Any, ...], keywords: dict[str, Any], function: Any) -> bool:
        """Whether all inputs and outputs are arrays of numpy as the extension module takes and gives them. Others of these kinds are, too."""
        from ._values import has_array

        inputs = [fetch(path, arguments, keywords, function) for path in self.inputs]
        of_numpy = all(isinstance(value, (np.ndarray, bool, int, float)) and np.asarray(value).dtype.isnative for value in inputs)
        return of_numpy and all(has_array(info.type) for info in (*self.executable.inputs, *self.executable.outputs))

    def variant(self) -> tuple[Any, ...]:
        """What is compiled of a function, other than it itself."""
        return ()

    def model(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if self._model is None:
            from ._model import Model

            self._model = Model(self._lower(function, arguments, keywords, self.sizes)[0])
        return self._model

    def _lower(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], sizes: Sizes) -> tuple[Any, ...]:
        try:
            return self.lower(function, arguments, keywords, sizes)
        except Error as error:  # of the graph, which knows places alone
            raise with_excerpt(error, error.hint) from None

    def lower(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], sizes: Sizes) -> tuple[Any, ...]:
        return _core.Model.from_function(function, arguments, keywords, sizes.names(), sizes.first, bool(self._save_graphs))

    def outside(self, shapes: dict[tuple[Any, ...], tuple[int, ...]]) -> str:
        """A size that is none of those that the function was compiled for; empty: none is."""
        for assumed in self._assumed:
            if not assumed.holds(shapes):
                return f"{path_text(assumed.path)} has {shapes[assumed.path][assumed.axis]} along axis {assumed.axis}, not {assumed}"
        return ""

    def holds(self, arguments: tuple[Any, ...], keywords: dict[str, Any], function: Any) -> str:
        """What has changed since it was compiled; empty: nothing."""
        for path, value in self._guards:
            try:
                if len(path) == 1 and path[0][0] == "variable" and path[0][1].find(path[0][2])[1] is value:  # nearly always
                    continue
                now = fetch(path, arguments, keywords, function)
            except (LookupError, AttributeError, TypeError, ImportError):
                now = None
            if now is value:
                continue
            if isinstance(value, (int, float, str, tuple, type(None))) and type(now) is type(value) and now == value:
                continue
            if isinstance(value, types.MethodType) and now == value:
                continue
            return path_text(path)
        return ""

    def __call__(self, arguments: tuple[Any, ...], keywords: dict[str, Any], function: Any) -> Any:
        inputs = arguments if self._is_direct else self._fetch(arguments, keywords, function)
        arrays = [v if type(v) is np.ndarray else np.asarray(v) for v in inputs]
        try:
            outputs = self._run(arrays)
        except Error as error:
            for path, value in zip(self.inputs, inputs):
                if type(value) is int and not -2**63 <= value < 2**63:
                    raise InvalidArgumentError(f"{path_text(path)} is {value}, which has more than 64 bits", hint="integers have 64 bits; a float may be as large") from None
            functions = [plain_function(value) for _, value in self._guards] + [plain_function(function)]
            told = ", ".join(f"{path_text(path)}: {tensor_type(a, True)}" for path, a in zip(self.inputs, arrays))
            raise with_excerpt(self._named(error), error.hint or f"the inputs were {told}", [f.__code__.co_filename for f in functions if f is not None]) from None
        for i in self._donated:
            if hasattr(inputs[i], "_give_away"):
                inputs[i]._give_away()
        return self._rebuild(outputs)

    def _named(self, error: Error) -> Error:
        """With the arguments as the function calls them in the place of the names of inputs."""
        texts = {info.name: path_text(path) for path, info in zip(self.inputs, self.executable.inputs)}
        message = re.sub(r"input '(\w+)'", lambda found: f"'{texts[found[1]]}'" if texts.get(found[1]) else found[0], error.message)
        return error if message == error.message else type(error)(message, error.node, error.location, error.hint, error.excerpt)


def with_excerpt(error: Error, hint: str, files: Sequence[str] = ()) -> Error:
    """An error that knows its place, with the line of the source: of these files, else of those read so far."""
    name, _, place = error.location.partition(":")
    line, column = (int(number) if number.isdigit() else 0 for number in (place.split(":") + ["", ""])[:2])
    file = next((file for file in (*files, *linecache.cache) if file.rsplit("/", 1)[-1] == name), None)
    if error.excerpt or file is None or not line or not column:
        return error
    text = linecache.getline(file, line).rstrip()
    indent = len(text) - len(text.lstrip())
    excerpt = f"{text[indent:]}\n{' ' * (column - 1 - indent)}^"
    return type(error)(error.message, error.node, error.location, hint, excerpt)


def path_text(path: tuple[Any, ...]) -> str:
    text = ""
    for step in path:
        if step[0] == "variable":
            text = step[2]
        elif step[0] == "attribute":
            text += f".{step[1]}"
        elif step[0] == "item":
            text += f"[{step[1]!r}]"
        elif step[0] == "import":
            text = step[1]
        elif step[0] == "value":
            text = f"a {type(step[1]).__name__}"
        elif step[0] not in ("function", "structure", "orders", "kind", "sizes", "within"):
            text += f"{step[0]} {step[1]}"
    return text


def _named_type(value: Any) -> Any:
    return type(value)


def _scope_of(value: Any) -> Scope | None:
    function = plain_function(value)
    return Scope(function) if function else None


def kind_of(value: Any, of_object: Callable[[Any], Any] = id, of_shape: Callable[[Any], Any] = len) -> Any:
    """What of an argument a specialization depends on; `of_object`: of one that is no plain data, `of_shape`: of a tensor's shape."""
    if isinstance(value, np.ndarray):
        return value.dtype, of_shape(value.shape)
    if isinstance(value, (bool, int, float)):
        return type(value)
    if isinstance(value, (tuple, list)):
        return (type(value), *[kind_of(item, of_object, of_shape) for item in value])
    if isinstance(value, dict):
        return (dict, *[(key, kind_of(item, of_object, of_shape)) for key, item in value.items()])
    if value is None or isinstance(value, str):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return (type(value), *(kind_of(getattr(value, field.name), of_object, of_shape) for field in dataclasses.fields(value)))
    if isinstance(value, np.generic):
        return value.dtype, of_shape(())
    if hasattr(value, "__dlpack__"):
        return kind_of(np.from_dlpack(value), of_object, of_shape)
    return of_object(value)


def _whole(shape: Any) -> Any:
    return shape


def sizes_of(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(map(sizes_of, value))
    if isinstance(value, dict):
        return tuple(map(sizes_of, value.values()))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(sizes_of(getattr(value, field.name)) for field in dataclasses.fields(value))
    return getattr(value, "shape", None)


def _arguments(function: Callable[..., Any], chosen: Sequence[int | str]) -> frozenset[int | str]:
    """Positions and names of the chosen arguments, both of those that have both."""
    if not chosen:
        return frozenset()
    by_name = list(inspect.signature(function).parameters.values())
    names = [p.name for p in by_name]
    takes_more = {p.kind for p in by_name} & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    found: set[int | str] = set()
    for one in chosen:
        known = one in names if isinstance(one, str) else 0 <= one < len(names)
        if not known and not takes_more:
            raise InvalidArgumentError(f"{place_of(function)} has no argument {one!r} to donate", hint=f"its arguments: {', '.join(names)}")
        found.add(one)
        if known:
            found.add(names.index(one) if isinstance(one, str) else names[one])
    return frozenset(found)


_MOST_CALLS = 1024  # of which the specialization is known without looking at sizes


class Jitted:
    """A function that is compiled when it is called, once for each kind of arguments: element types, ranks, structure.

    Numbers and sizes are values: another one compiles nothing, but for a size that was assumed to be as in the first call, since slices and
    constants of the function depend on it: then once more. What the function reads from around it is watched; tensors among it are inputs, so
    that they may change.
    """

    _runs_function = True  # what is compiled is the function, and no derivative of it

    def __init__(self, function: Callable[..., Any], math: str = "real", threads: int = 0, save_graphs: str | os.PathLike[str] | None = None,
                 donate: int | str | Sequence[int | str] = (), memory_limit: int | None = None) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._math, self._threads, self._save_graphs = math, threads, save_graphs
        self._memory_limit = memory_limit
        self._donate = _arguments(function, [donate] if isinstance(donate, (int, str)) else donate)
        self._known: dict[Any, list[Specialization]] = {}
        self._latest: dict[Any, Specialization] = {}  # by kinds with shapes
        self._reasons: list[str] = []

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        mode = _modes.current.get()
        if mode is not None and self._runs_function:
            return mode.call(self, arguments, keywords)
        return self._find(arguments, keywords)(arguments, keywords, self.function)

    def _find(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Specialization:
        call = (tuple([(value.dtype, value.shape) if type(value) is np.ndarray else kind_of(value, id, _whole) for value in arguments]),
                kind_of(keywords, id, _whole) if keywords else None)
        latest = self._latest.get(call)
        if latest is None or latest.holds(arguments, keywords, self.function):
            latest = self._find_or_make(arguments, keywords)
            if len(self._latest) >= _MOST_CALLS:
                self._latest.clear()
            self._latest[call] = latest
        return latest

    def _find_or_make(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Specialization:
        kinds, shapes, changed, outside = kind_of((arguments, keywords)), shapes_of(arguments, keywords), "", ""
        alike = self._known.setdefault(kinds, [])
        for known in alike:
            if not known.sizes.fits(shapes):
                continue
            outside = outside or known.outside(shapes)
            if not known.outside(shapes):
                changed = known.holds(arguments, keywords, self.function)
                if not changed:
                    return known
        met = next((known.sizes for known in reversed(alike) if not known.sizes.is_exact), None)
        try:
            if self._memory_limit is not None:
                made = self._specialize(arguments, keywords, Sizes.exactly(shapes))
            else:
                made = self._specialize(arguments, keywords, Sizes.alike(shapes, met, not outside))
        except Error:  # with the sizes known it may be another matter; else that error is the one to see
            if self._memory_limit is not None:
                raise
            made = self._specialize(arguments, keywords, Sizes.exactly(shapes))
        if changed:
            reason = f"{changed} has changed"
        elif outside:
            reason = f"a size that was assumed is another one: {outside}"
        elif alike:
            reason = "other sizes, which the memory limit is for" if self._memory_limit is not None else \
                "other sizes, which the function needs to know" if made.sizes.is_exact else "sizes that were equal, or 1, and are not"
        else:
            reason = "arguments of another kind" if self._reasons else "the first call"
        if made.is_kept:
            reason += ", compiled before and kept on disk"
        types_ = ", ".join(f"{path_text(path)}: {info.type}" for path, info in zip(made.inputs, made.executable.inputs))
        self._reasons.append("\n   ".join([f"({types_}): {reason}", *made.executable.notes]))
        alike.append(made)
        return made

    def _specialize(self, arguments: tuple[Any, ...], keywords: dict[str, Any], sizes: Sizes) -> Specialization:
        return Specialization(self.function, arguments, keywords, sizes, self._math, self._threads, self._folder(), self._donate,
                              self._memory_limit)

    def _folder(self) -> str:
        """For the graphs of the next compilation, numbered as explain() does."""
        return os.path.join(self._save_graphs, str(len(self._reasons) + 1)) if self._save_graphs else ""

    def lower(self, *arguments: Any, **keywords: Any) -> Any:
        """The model that a call with these arguments runs: to look at, to save as ONNX, to optimize."""
        return self._find(arguments, keywords).model(self.function, arguments, keywords)

    def explain(self) -> str:
        """Every compilation, and why it was needed."""
        return "\n".join(f"{i + 1}. {reason}" for i, reason in enumerate(self._reasons)) or "not called yet"


@overload
def jit(function: Callable[..., Any], *, math: str = ..., threads: int = ..., save_graphs: str | os.PathLike[str] | None = ...,
        donate: int | str | Sequence[int | str] = ..., memory_limit: int | None = ...) -> Any: ...


@overload
def jit(function: None = None, *, math: str = ..., threads: int = ..., save_graphs: str | os.PathLike[str] | None = ...,
        donate: int | str | Sequence[int | str] = ..., memory_limit: int | None = ...) -> Callable[[Callable[..., Any]], Any]: ...


def jit(function: Callable[..., Any] | None = None, *, math: str = "real", threads: int = 0,
        save_graphs: str | os.PathLike[str] | None = None, donate: int | str | Sequence[int | str] = (),
        memory_limit: int | None = None) -> Any:
    """Compiles a function when it is called: its control flow, closures and calls become one graph.

        @anfora.jit
        def norm(x):
            total = 0.0
            for row in x:
                total += (row * row).sum()
            return total ** 0.5

    Arguments are numpy arrays (or anything with ``__dlpack__``), numbers, and tuples, lists, dicts and dataclasses of them; what is
    returned, too. docs/language.md says what a function may hold.

    Args:
        math: what rewrites may change: "exact" (no bit), "finite" (results that are NaN or infinite), "real" (rounding, the default).
        threads: of kernels; 0: one a CPU.
        save_graphs: a folder for what becomes of the function, in it one for each compilation: 1, 2 …: the functions as they are written, folded, as
            control flow, and the graph after each pass.
        donate: arguments, by position or name, whose arrays a call may overwrite: results of as many bytes lie in them where they can, as new
            parameters in the place of old ones, and are the same arrays. An anfora.Tensor among them cannot be used afterwards. Arrays that share
            memory with another argument, or cannot be written to, are an error.
        memory_limit: bytes of intermediate values and results that there may be at a time by the plan: it is compiled for each size, and values are
            computed again until it fits, or ResourceExhaustedError says what is missing. ``explain()`` has what was done, and its cost.

    Raises:
        UnsupportedError, TypeMismatchError, InvalidModelError: of the function, with the line, when it is called.
    """
    if function is None:
        return lambda given: jit(given, math=math, threads=threads, save_graphs=save_graphs, donate=donate, memory_limit=memory_limit)
    if hasattr(function, "_derivatives"):  # anfora.grad(f) is compiled as it is
        return function
    return Jitted(function, math, threads, save_graphs, donate, memory_limit)

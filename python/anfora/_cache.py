"""Compiled functions on disk, so that another process starts without compiling.

An entry is a description (NAME.json): where its inputs are found, what its outputs become, and guards, what it holds for; and the compiled
model (HASH.anf) that the description is of, by whose hash it is called, so that no process meets the one with another's. A name begins with
the hash of all that is known before a function is looked into: its code, the kinds of its arguments, the options, this build of Anfora and
this processor. What else the function depends on (globals, functions that it calls, attributes) is in the guards, so several entries may
begin alike.

Environment: ANFORA_CACHE names the folder, else it is anfora in XDG_CACHE_HOME or ~/.cache; "off" turns the cache off.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import importlib
import json
import os
import pathlib
import sys
import tempfile
import types
from typing import Any, NamedTuple

import numpy as np

from . import _core, _runtime
from ._errors import Error

MOST_BYTES = 256 << 20  # of the folder; the entries used longest ago make room
_MOST_ALIKE = 8

Path = tuple[Any, ...]  # to a value, see programs.cc


class Entry(NamedTuple):
    executable: _runtime.Executable
    result: Any
    inputs: list[Path]
    guards: list[tuple[Path, Any]]


class _NotKept(Exception):
    """There is no form on disk for something."""


def folder() -> pathlib.Path | None:
    """None where the cache is off."""
    named = os.environ.get("ANFORA_CACHE")
    if named == "off":
        return None
    if named:
        return pathlib.Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "anfora" if os.path.isabs(base) else None


def key_of(function: Any, kinds: Any, options: tuple[Any, ...]) -> str:
    """The name that entries begin with; empty where there can be none."""
    if folder() is None:
        return ""
    try:
        known = [_runtime.artifact_origin, _build(), sys.version, token(function), token(kinds), token(options)]
    except _NotKept:
        return ""
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:32]


def find(key: str, fetch: Any, scope_of: Any, threads: int) -> Entry | None:
    """The entry whose guards hold. `fetch` gives the value at a path of this call, `scope_of` the names around a function."""
    where = folder()
    if where is None or not key:
        return None
    for name in _names(key):
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError, ImportError, _NotKept, Error):
            text = (where / f"{name}.json").read_text()
            written = json.loads(text)
            scopes: dict[int, Any] = {}
            guards = []
            tokens = _Tokens()
            for i, (steps, expected) in enumerate(written["guards"]):
                path = _path_from(steps, scopes)
                value = fetch(path)
                if _as_json(tokens.of(value)) != expected:
                    break
                if expected[0] == "function":
                    scopes[i] = scope_of(value)
                guards.append((path, value))
            else:
                result = _result_from(written["result"])
                inputs = [_path_from(steps, scopes) for steps in written["inputs"]]
                program = where / _program_name(key, text)
                executable = _runtime.Executable.load(str(program), threads)
                os.utime(where / f"{name}.json")
                os.utime(program)
                return Entry(executable, result, inputs, guards)
    return None


def keep(key: str, entry: Entry) -> None:
    """Writes an entry, where it has a form on disk and the folder can be written to."""
    where = folder()
    if where is None or not key:
        return
    with contextlib.suppress(OSError, _NotKept, Error):
        functions = {id(_plain_function(value)): i for i, (_, value) in enumerate(entry.guards) if _plain_function(value)}
        tokens = _Tokens()
        written = json.dumps({
            "guards": [[_path_to(path, functions), tokens.of(value)] for path, value in entry.guards],
            "inputs": [_path_to(path, functions) for path in entry.inputs],
            "result": _result_to(entry.result),
        })
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_room(where)
        free = [name for name in _names(key) if not (where / f"{name}.json").exists()]
        name = free[0] if free else min(_names(key), key=lambda n: (where / f"{n}.json").stat().st_mtime)
        entry.executable.save(str(where / _program_name(key, written)))
        with tempfile.NamedTemporaryFile("w", dir=where, suffix=".tmp", delete=False) as file:
            file.write(written)
        os.replace(file.name, where / f"{name}.json")


def _names(key: str) -> list[str]:
    return [f"{key}-{i}" for i in range(_MOST_ALIKE)]


def _program_name(key: str, description: str) -> str:
    return hashlib.sha256((key + description).encode()).hexdigest()[:32] + ".anf"


_has_made_room = False


def _make_room(where: pathlib.Path) -> None:
    """Once a process: where there is more than MOST_BYTES, half of it goes."""
    global _has_made_room
    if _has_made_room:
        return
    _has_made_room = True
    files = [(entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in os.scandir(where) if entry.is_file()]
    total = sum(size for _, size, _ in files)
    if total <= MOST_BYTES:
        return
    for _, size, path in sorted(files):
        if total <= MOST_BYTES // 2:
            return
        os.unlink(path)
        total -= size


def _build() -> list[int]:
    """This build of the compiler and of the runtime library."""
    files = map(os.stat, (_core.__file__, _runtime.library_file))
    return [number for status in files for number in (status.st_size, status.st_mtime_ns)]


# Values -------------------------------------------------------------------------------------------------------------


def token(value: Any) -> list[Any]:
    """What two processes have alike of a value that a function depends on."""
    function = _plain_function(value)
    if function is not None:
        return ["function", _digest(function.__code__)]
    if isinstance(value, enum.Enum):
        return ["member", *_name_of(type(value)), repr(value)]
    if value is None or value is ... or isinstance(value, (bool, int, float, str)):
        return ["value", type(value).__name__, repr(value)]
    if isinstance(value, tuple):
        return ["tuple", [token(item) for item in value]]
    if isinstance(value, types.ModuleType):
        return ["module", value.__name__]
    if isinstance(value, np.dtype):
        return ["dtype", str(value)]
    if isinstance(value, type):
        return ["type", *_name_of(value)]
    if hasattr(value, "__wrapped__"):  # it has the name of another
        raise _NotKept
    if hasattr(value, "__name__") and callable(value):
        return ["named", getattr(value, "__module__", None) or "", value.__name__]
    return ["object", type(value).__module__, type(value).__qualname__]  # what is read of it has guards of its own


class _Tokens:
    """Tokens of guards. Those of objects tell, too, which of them are one: a function may have asked that."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def of(self, value: Any) -> list[Any]:
        found = token(value)
        return [*found, self._numbers.setdefault(id(value), len(self._numbers))] if found[0] == "object" else found


def _plain_function(value: Any) -> types.FunctionType | None:
    from ._program import plain_function

    return plain_function(value)


def _digest(code: types.CodeType) -> str:
    """Of what a function does, and where it is written."""
    parts: list[Any] = [code.co_filename, code.co_name, code.co_firstlineno, code.co_flags, code.co_argcount, code.co_kwonlyargcount,
                        code.co_posonlyargcount, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_code.hex(),
                        code.co_linetable.hex()]
    for item in code.co_consts:
        if isinstance(item, types.CodeType):
            parts.append(_digest(item))
        else:
            parts.append(sorted(map(repr, item)) if isinstance(item, frozenset) else repr(item))
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _name_of(type_: type) -> tuple[str, str]:
    if "<locals>" in type_.__qualname__ or type_.__module__ == "__main__" and getattr(sys.modules["__main__"], "__file__", None) is None:
        raise _NotKept
    return type_.__module__, type_.__qualname__


def _type_named(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module) or importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


# Paths and results --------------------------------------------------------------------------------------------------


def _path_to(path: Path, functions: dict[int, int]) -> list[Any]:
    steps: list[Any] = []
    for step in path:
        if step[0] == "variable":
            number = functions.get(id(step[1].function))
            if number is None:
                raise _NotKept
            steps.append(["variable", number, step[2]])
        elif len(step) == 1 or isinstance(step[1], (int, str)) and not isinstance(step[1], bool):
            steps.append(list(step))
        else:
            raise _NotKept
    return steps


def _path_from(steps: list[Any], scopes: dict[int, Any]) -> Path:
    return tuple(("variable", scopes[step[1]], step[2]) if step[0] == "variable" else tuple(step) for step in steps)


_PLAIN = (bool, int, float, str, type(None))


def _result_to(spec: Any) -> Any:
    kind = spec[0]
    if kind in ("array", "number", "numbers"):
        return list(spec)
    if kind == "constant":
        if isinstance(spec[1], type):
            return ["type", *_name_of(spec[1])]
        if not isinstance(spec[1], _PLAIN):
            raise _NotKept
        return list(spec)
    if kind == "dict":
        if not all(isinstance(key, _PLAIN) for key, _ in spec[1]):
            raise _NotKept
        return [kind, [[key, _result_to(item)] for key, item in spec[1]]]
    if kind == "fields":
        return [kind, _name_of(spec[1]), [_result_to(item) for item in spec[2]]]
    if kind == "instance":
        return [kind, spec[1], _name_of(spec[2]), spec[3], [_result_to(item) for item in spec[4]]]
    if kind == "same":
        return list(spec)
    return [kind, [_result_to(item) for item in spec[1]]]


def _result_from(written: Any) -> Any:
    kind = written[0]
    if kind == "type":
        return "constant", _type_named(*written[1:])
    if kind == "dict":
        return kind, [(key, _result_from(item)) for key, item in written[1]]
    if kind == "fields":
        return kind, _type_named(*written[1]), [_result_from(item) for item in written[2]]
    if kind == "instance":
        return kind, written[1], _type_named(*written[2]), written[3], [_result_from(item) for item in written[4]]
    if kind in ("tuple", "list"):
        return kind, [_result_from(item) for item in written[1]]
    return tuple(written)

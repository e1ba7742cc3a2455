"""`_core.pyi` and `_runtime.pyi`, which are written by hand, are in step with the extension modules."""

from __future__ import annotations

import ast
import os
import pathlib
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

import anfora
import anfora._core
import anfora._runtime

FOLDER = pathlib.Path(anfora.__file__).parent
MODULES = (anfora._core, anfora._runtime)

#: What mypy.stubtest, which knows no nanobind, finds odd about every class and function of it.
NANOBIND = re.compile(r"metaclass differs$|__init__ is inconsistent, stub does not have \*args|is not a function$|"
                      r"stub is a staticmethod but runtime is not$")


@pytest.mark.parametrize(("module", "known"), [("anfora._core", "Model"), ("anfora._runtime", "Executable")])
def test_names_are_those_of_the_module(tmp_path: pathlib.Path, module: str, known: str) -> None:
    command = [sys.executable, "-m", "mypy.stubtest", module, "--concise", "--ignore-disjoint-bases"]
    environment = os.environ | {"PYTHONPATH": str(FOLDER.parent)}
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert f"{module}.{known}" in found.stdout, found.stderr
    assert [line for line in found.stdout.splitlines() if not NANOBIND.search(line)] == []


def stub_of(module: types.ModuleType) -> list[ast.stmt]:
    name = module.__name__.rpartition(".")[2]
    return ast.parse((FOLDER / f"{name}.pyi").read_text(encoding="utf-8")).body


def functions(body: list[ast.stmt], owner: Any) -> Iterator[tuple[ast.FunctionDef, Any]]:
    """Functions of the stub, each with that of the module."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from functions(node.body, getattr(owner, node.name))
        elif isinstance(node, ast.FunctionDef) and not isinstance(vars(owner)[node.name], property):
            yield node, getattr(owner, node.name)


def parameters(function: ast.FunctionDef) -> list[str]:
    """Their names, with = where there is a default."""
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    optional = len(names) - len(arguments.defaults)
    by_name = [f"{argument.arg}{'=' if default else ''}" for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    return names[:optional] + [f"{name}=" for name in names[optional:]] + by_name


@pytest.mark.parametrize(("said", "has"), [
    pytest.param(said, has, id=said.name)
    for module in MODULES for said, has in functions(stub_of(module), module) if hasattr(has, "__nb_signature__")
])
def test_parameters_are_those_of_the_module(said: ast.FunctionDef, has: Any) -> None:
    signature = re.sub(r"ndarray\[.*?\]", "ndarray", has.__nb_signature__[0][0])
    signature = re.sub(r"= \\\d+", "= 0", signature)  # \0 stands for the first default
    (definition,) = ast.parse(f"{signature}: ...").body
    assert isinstance(definition, ast.FunctionDef)
    assert parameters(said) == parameters(definition)

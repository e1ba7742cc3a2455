"""`_core.pyi`, which is written by hand, is in step with the extension module."""

from __future__ import annotations

import ast
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import anfora

STUB = pathlib.Path(anfora.__file__).with_name("_core.pyi")

#: What mypy.stubtest, which knows no nanobind, finds odd about every class and function of it.
NANOBIND = re.compile(r"metaclass differs$|__init__ is inconsistent, stub does not have \*args|is not a function$|"
                      r"stub is a staticmethod but runtime is not$")


def test_names_are_those_of_the_module(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "anfora._core", "--concise", "--ignore-disjoint-bases"]
    environment = os.environ | {"PYTHONPATH": str(STUB.parents[1])}
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "anfora._core.Model" in found.stdout, found.stderr
    assert [line for line in found.stdout.splitlines() if not NANOBIND.search(line)] == []


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
    for said, has in functions(ast.parse(STUB.read_text(encoding="utf-8")).body, anfora._core) if hasattr(has, "__nb_signature__")
])
def test_parameters_are_those_of_the_module(said: ast.FunctionDef, has: Any) -> None:
    signature = re.sub(r"ndarray\[.*?\]", "ndarray", has.__nb_signature__[0][0])
    signature = re.sub(r"= \\\d+", "= 0", signature)  # \0 stands for the first default
    (definition,) = ast.parse(f"{signature}: ...").body
    assert isinstance(definition, ast.FunctionDef)
    assert parameters(said) == parameters(definition)

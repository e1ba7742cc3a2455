"""Compiled functions that another process finds on disk."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = """
import dataclasses
import sys

import numpy as np

import anfora

SCALE = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
WEIGHT = np.arange(4.0)
SIZES = [1, 2, 3]


@dataclasses.dataclass
class Point:
    x: float
    y: np.ndarray


class Layer:
    def __init__(self):
        self.weight = np.ones((3, 2))

    def __call__(self, x):
        return x @ self.weight * SCALE


LAYER = Layer()


def helper(x):
    return x * SCALE


@anfora.jit
def scaled(x):
    return helper(x) @ WEIGHT[: x.size] + sum(SIZES)


@anfora.jit
def moved(point, by):
    while by < 100:
        by = by * 2
    return {"moved": Point(point.x + by, point.y * by), "n": [by, None, "text"]}


@anfora.jit
def layered(x, layer):
    return layer(x)


print(scaled(np.ones(4)))
print(moved(Point(1.0, np.ones(2)), 3))
print(layered(np.ones((2, 3)), LAYER).tolist())
print(anfora.grad(lambda x: (x * x * SCALE).sum())(np.ones(2)))
slope = anfora.value_and_grad(lambda x: x ** 3)
print(slope(2.0))
for function in (scaled, moved, layered, slope):
    print(function.explain(), file=sys.stderr)
"""


def run(folder: pathlib.Path, program: str, *arguments: str, cache: pathlib.Path | str | None = None) -> tuple[str, list[str]]:
    file = folder / "program.py"
    file.write_text(program)
    environment = {**os.environ, "ANFORA_CACHE": str(cache or folder / "cache")}
    done = subprocess.run([sys.executable, str(file), *arguments], env=environment, capture_output=True, text=True, check=True)
    explained = [line.rpartition(": ")[2] for line in done.stderr.splitlines()]
    return done.stdout, explained


KEPT, MADE = "the first call, compiled before and kept on disk", "the first call"


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path


def test_a_second_process_compiles_nothing(folder: pathlib.Path) -> None:
    first, made = run(folder, PROGRAM)
    second, kept = run(folder, PROGRAM)
    assert first == second
    assert made == [MADE] * 4 and kept == [KEPT] * 4


def test_what_a_function_depends_on(folder: pathlib.Path) -> None:
    run(folder, PROGRAM)
    other, made = run(folder, PROGRAM, "3.0")
    assert made == [MADE, KEPT, MADE, KEPT]  # what reads SCALE, of the four
    assert run(folder, PROGRAM, "3.0") == (other, [KEPT] * 4)
    # Another helper, of the same length.
    changed, made = run(folder, PROGRAM.replace("return x * SCALE", "return x + SCALE"))
    assert made == [MADE, KEPT, KEPT, KEPT]
    assert changed != run(folder, PROGRAM)[0]
    assert run(folder, PROGRAM.replace("[1, 2, 3]", "[1, 2, 4]"))[1] == [MADE, KEPT, KEPT, KEPT]
    assert run(folder, PROGRAM.replace("np.arange(4.0)", "np.arange(4, dtype=np.float32)"))[1] == [MADE, KEPT, KEPT, KEPT]


def test_sizes_that_were_assumed(folder: pathlib.Path) -> None:
    program = """
import sys
import anfora
import numpy as np

f = anfora.jit(lambda x: x[:3] * 2)
print(f(np.ones(int(sys.argv[1]))))
print(f.explain(), file=sys.stderr)
"""
    assert run(folder, program, "4") == ("[2. 2. 2.]\n", [MADE])
    assert run(folder, program, "7") == ("[2. 2. 2.]\n", [KEPT])
    assert run(folder, program, "2") == ("[2. 2.]\n", [MADE])
    assert run(folder, program, "2") == ("[2. 2.]\n", [KEPT])
    assert run(folder, program, "9") == ("[2. 2. 2.]\n", [KEPT])


def test_objects_are_told_apart(folder: pathlib.Path) -> None:
    program = """
import enum
import sys
import anfora


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Thing:
    pass


def warmer(x, colour):
    return x + 1 if colour is Colour.RED else x - 1


def alike(x, one, other):
    return x + 1 if one is other else x - 1


a, b = Thing(), Thing()
calls = [(warmer, Colour.RED), (warmer, Colour.GREEN), (alike, a, a), (alike, a, b)]
for function, *things in calls:
    compiled = anfora.jit(function)
    print(compiled(3, *things))
    print(compiled.explain(), file=sys.stderr)
"""
    assert run(folder, program) == ("4\n2\n4\n2\n", [MADE] * 4)
    assert run(folder, program) == ("4\n2\n4\n2\n", [KEPT] * 4)


def test_derivatives_are_told_apart(folder: pathlib.Path) -> None:
    program = """
import anfora

def f(x, y):
    return x * x * y

def of(g):
    return anfora.jit(lambda x, y: g(x, y))(2.0, 5.0)

print([of(anfora.grad(f, n)) for n in (0, 1)], of(anfora.value_and_grad(f)), of(anfora.grad(anfora.grad(f))))
"""
    expected = "[20.0, 4.0] (20.0, 20.0) 10.0\n"
    assert run(folder, program)[0] == run(folder, program)[0] == expected


def test_what_is_damaged_is_made_again(folder: pathlib.Path) -> None:
    expected, _ = run(folder, PROGRAM)
    for file in (folder / "cache").iterdir():
        file.write_bytes(file.read_bytes()[:100])
    assert run(folder, PROGRAM) == (expected, [MADE] * 4)
    assert run(folder, PROGRAM) == (expected, [KEPT] * 4)


def test_without_a_folder(folder: pathlib.Path) -> None:
    expected, made = run(folder, PROGRAM, cache="off")
    assert made == [MADE] * 4 and not (folder / "off").exists()
    (folder / "a file").write_text("")
    assert run(folder, PROGRAM, cache=folder / "a file") == (expected, [MADE] * 4)

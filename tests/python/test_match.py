"""`match`, in compiled functions as in CPython."""

from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from refusals import expect_refusal

import anfora

X = np.array([0.5, 1.0, 2.0])
NUMBERS = (0, 1, 2, 3, 4, 5, -4, 7, 13, 150)
Named: Any = namedtuple("Named", "u v")


@dataclass
class Pair:
    a: Any
    b: Any


class Twin(Pair):
    pass


class Scale:
    __match_args__ = ("w",)

    def __init__(self) -> None:
        self.w = 2.0


class Kinds:
    ONE, TWO = 1, 2


SCALE = Scale()


def literals(n: Any, x: Any) -> Any:
    match n:
        case 0:
            return x * 0
        case 1 | 2:
            return x * 10
        case 3 if x.sum() > 2:
            return x + 3
        case -4:
            y = x - 4
        case int(k) if k > 100:
            y = x * k
        case other:
            y = x * other
    return y


def names_of_constants(n: Any, x: Any) -> Any:
    match n:
        case Kinds.ONE:
            return x
        case Kinds.TWO:
            return x * 2
    return x * 3


def singletons(n: Any, x: Any) -> Any:
    total = x * 0
    for value in (n == 1, n, None, 1, True, 0.0):
        match value:
            case True:
                total = total + 1
            case False:
                total = total + 20
            case None:
                total = total + 300
            case 1 | 0:
                total = total + 4000
    return total


def sequences(n: Any, x: Any) -> Any:
    match [n, x, (n + 1, "a")]:
        case [0, *_]:
            return x
        case [k, y, (j, "a")]:
            return y * k + j
        case _:
            return x - 1


def names_of_choices(n: Any, x: Any) -> Any:
    match (n, n * 2):
        case (1, z) | (z, 4):
            return x * z
        case (z, w) as both:
            return x + z + w + both[0]


def lists_that_a_run_makes(n: Any, x: Any) -> Any:
    items = []
    for i in range(n):
        items.append(i * 2)
    match items:
        case []:
            return x
        case [a]:
            return x + a + 10
        case [a, b]:
            return x + a + b + 100
        case [first, *rest, last]:
            total = 0
            for r in rest:
                total += r
            return x + first + last * 1000 + total
    return x


def arrays_and_texts_are_no_sequences(n: Any, x: Any) -> Any:
    total = 0
    for value in (x, "abc", {1, 2}, {"a": 1}, 3):
        match value:
            case [*_]:
                total += 1
            case _:
                total += 10
    return x * total + n


def classes(n: Any, x: Any) -> Any:
    total = x * 0
    values = (Pair(n, x), Pair(2.5, x), Twin(n, n), Named(n, 2), SCALE, 2.5, True, "text", None, x, {"k": n, "j": 2}, [1, 2], (3,), range(4), Kinds)
    for value in values:
        match value:
            case Twin(a, b):
                total = total + a - b * 2
            case Pair(0, v):
                total = total + v
            case Pair(int(q), b=v):
                total = total + v * q
            case Pair(a=v):
                total = total + v * 7
            case Named(1, v):
                total = total + v
            case Named(u=z):
                total = total + z * 11
            case Scale(w):
                total = total + w
            case bool(t):
                total = total + t
            case float() | int():
                total = total + value
            case str():
                total = total + 0.5
            case None:
                total = total + 0.25
            case np.ndarray():
                total = total + value
            case {"k": v, **rest}:
                total = total + v + rest["j"]
            case [1, c]:
                total = total + c
            case (c,):
                total = total + c
            case [_, _, _, c]:
                total = total + c * 0.1
            case _:
                total = total + 100
    return total


def equality_of_instances(n: Any, x: Any) -> Any:
    pairs = (Pair(n, 1), Twin(n, 1), (n, 1), Named(n, 1))
    total = 0
    for i, a in enumerate(pairs):
        for k, b in enumerate(pairs):
            total = total * 2 + int(a == b) + (i if a in (b, 2) else 0) + (k if a != b else 0)
    return x * total


def in_a_loop(n: Any, x: Any) -> Any:
    s = 0
    for i in range(n):
        match i % 4:
            case 0:
                continue
            case 1:
                s += i
            case 2 if s > 20:
                break
            case k:
                s += k * 2
    return x * s


def no_case_fits(n: Any, x: Any) -> Any:
    match n, "a":
        case 5, "b":
            x = x + 1
        case m, "a" if m > 2:
            x = x * m
    return x


def in_a_generator(n: Any, x: Any) -> Any:
    def some(k: Any) -> Iterator[Any]:
        for i in range(k):
            match i % 3:
                case 0:
                    yield i
                case 1:
                    yield i * 10
                case _:
                    pass

    return x * sum(some(n))


def names_that_a_function_captures(n: Any, x: Any) -> Any:
    match (n, x):
        case (k, y):
            def g(v: Any) -> Any:
                match v:
                    case (a, b):
                        return a * b + k
                    case a:
                        return a + n

            return g((n, y)) + g(n)


def failed_cases_keep_what_they_have_bound(n: Any, x: Any) -> Any:
    k = 100
    match n:
        case k if k > 3:
            return x
        case 2:
            return x + k
    return x * k


RIGHT = [literals, names_of_constants, singletons, sequences, names_of_choices, lists_that_a_run_makes, arrays_and_texts_are_no_sequences, classes, equality_of_instances, in_a_loop,
         no_case_fits, in_a_generator, names_that_a_function_captures, failed_cases_keep_what_they_have_bound]


@pytest.mark.parametrize("function", RIGHT, ids=lambda f: f.__name__)
def test_match(function: Callable[..., Any]) -> None:
    compiled = anfora.jit(function)
    for n in NUMBERS:
        np.testing.assert_allclose(compiled(n, X), function(n, X), err_msg=str(n))


def test_gradient_of_a_match() -> None:
    gradient = anfora.grad(lambda x, n: literals(n, x).sum())
    for n, slope in ((0, 0), (2, 10), (3, 1), (-4, 1), (150, 150), (7, 7)):
        np.testing.assert_allclose(gradient(X, n), np.full(3, slope))


def ambiguous(x: Any) -> Any:
    match x:
        case 1.0:
            return x
    return x


def unknown_name(x: Any) -> Any:
    match 3:
        case nothing.name:  # type: ignore[name-defined] # noqa: F821
            return x
    return x


def no_class(x: Any) -> Any:
    match x:
        case ambiguous():  # type: ignore[misc]
            return x
    return x


def too_many_parts(x: Any) -> Any:
    match Pair(x, x):
        case Pair(a, b, c):  # type: ignore[misc]
            return a + b + c
    return x


def too_many_parts_of_a_number(x: Any) -> Any:
    match 3:
        case int(a, b):  # type: ignore[misc]
            return a + b  # type: ignore[has-type]
    return x


def value_on_some_paths(x: Any) -> Any:
    match int(x[0]):
        case 1:
            y = x
        case 2:
            y = x + 1
    return y


def two_classes(x: Any) -> Any:
    either = Pair(x, x) if x[0] > 0 else Twin(x, x)
    match either:
        case Twin():
            return x
        case Pair():
            return x * 2


def two_types(x: Any) -> Any:
    match int(x[0]):
        case 1:
            y = x
        case _:
            y = (x, x)
    return y


WRONG = [
    (ambiguous, "the truth of bool\\[3\\] is ambiguous"),
    (unknown_name, "the name 'nothing' is not defined"),
    (no_class, "function ambiguous is no class"),
    (too_many_parts, "Pair\\(\\) takes 2 patterns by position, 3 are given"),
    (too_many_parts_of_a_number, "int\\(\\) takes 1 patterns by position, 2 are given"),
    (value_on_some_paths, "'y' has no value on the path through lines"),
    (two_classes, "Pair.* on one path to here, .*Twin.* on another"),
    (two_types, "'y' is f64\\[3\\] \\(line [0-9]+\\) on one path to here, tuple of 2"),
]


@pytest.mark.parametrize("function, message", WRONG, ids=lambda value: getattr(value, "__name__", None))
def test_wrong_match(function: Callable[..., Any], message: str) -> None:
    expect_refusal(function, message, X)

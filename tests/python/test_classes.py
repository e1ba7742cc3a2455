"""Classes whose instances a compiled function makes and changes, as in CPython."""

import types
from collections.abc import Callable
from typing import Any

import class_programs
import numpy as np
import pytest
from refusals import expect_refusal

import anfora

PROGRAMS = [f for f in vars(class_programs).values() if isinstance(f, types.FunctionType)]


def plain(value: Any) -> Any:
    """Instances as their class and attributes."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(plain, value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if type(value).__module__ == class_programs.__name__:
        return type(value), plain(vars(value))
    return value


@pytest.mark.parametrize("argument", [0, 1, 5])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: getattr(f, "__name__", None))
def test_program(function: Callable[..., Any], argument: int) -> None:
    try:
        wanted = plain(function(argument))
    except Exception:
        with pytest.raises(anfora.Error):
            anfora.jit(function)(argument)
        return
    found = plain(anfora.jit(function)(argument))
    np.testing.assert_equal(np.shape(found) if isinstance(found, np.ndarray) else None, np.shape(wanted) if isinstance(wanted, np.ndarray) else None)
    compare(found, wanted)


def compare(found: Any, wanted: Any) -> None:
    if isinstance(wanted, (list, tuple)):
        assert type(found) is type(wanted) and len(found) == len(wanted)
        for a, b in zip(found, wanted):
            compare(a, b)
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key in wanted:
            compare(found[key], wanted[key])
    elif isinstance(wanted, (float, np.ndarray)):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    else:
        assert type(found) is type(wanted) and found == wanted


def test_one_instance_returned_twice() -> None:
    first, second = anfora.jit(class_programs.ret2)(2)[0]
    assert first is second and isinstance(first, class_programs.Vec)


class Weights:
    def __init__(self, w: Any) -> None:
        self.w, self.steps = w, 0

    def step(self, x: Any) -> None:
        self.w = self.w * np.tanh(x @ self.w)
        self.steps += 1

    def loss(self) -> Any:
        return (self.w * self.w).sum() + self.steps


def loss(w: Any, x: Any, n: Any) -> Any:
    weights = Weights(w)
    for _ in range(n):
        weights.step(x)
    return weights.loss()


def test_gradient() -> None:
    w, x, h = np.array([0.5, -0.3, 0.8]), np.eye(3) * 0.7 + 0.1, 1e-6
    gradient = anfora.grad(loss)(w, x, 3)
    for i in range(3):
        e = np.eye(3)[i] * h
        np.testing.assert_allclose(gradient[i], (loss(w + e, x, 3) - loss(w - e, x, 3)) / (2 * h), rtol=1e-6)


OUTSIDE = Weights(np.ones(2))


def changes_the_callers(n: Any) -> Any:
    OUTSIDE.steps = n
    return n


def changes_a_class(n: Any) -> Any:
    class_programs.Counter.step = n
    return n


def no_such_attribute(n: Any) -> Any:
    return class_programs.Counter(n).nothing


def on_one_path(n: Any) -> Any:
    c = class_programs.Counter(n)
    if n > 2:
        c.late = 5
    return c.late


def two_classes(n: Any) -> Any:
    shape = class_programs.Sq(2) if n > 2 else class_programs.Ci(3)
    return shape.area()


def may_be_two(n: Any) -> Any:
    a, b = class_programs.Counter(1), class_programs.Counter(2)
    c = a if n > 2 else b
    c.n = 5
    return a.n, b.n


def without_operator(n: Any) -> Any:
    return class_programs.Counter(n) + 1


def read_only(n: Any) -> Any:
    a = class_programs.Account(1.0)
    a.balance = n
    return a.balance


def a_class_of_its_own(n: Any) -> Any:
    class Own:
        def __init__(self) -> None:
            self.n = n

    return Own()


def holds_itself(n: Any) -> Any:
    node = class_programs.Node(n)
    node.left = node
    return node


class ReadsAll:
    def __getattr__(self, name: str) -> Any:
        return 1


def with_getattr(n: Any) -> Any:
    return ReadsAll().anything + n


@pytest.mark.parametrize("function, message", [
    (changes_the_callers, "this would change the attribute 'steps' of a Weights that the caller holds"),
    (changes_a_class, "this would change the attribute 'step' of the class Counter"),
    (no_such_attribute, "Counter has no attribute 'nothing'"),
    (on_one_path, "the attribute 'late' has a value on some of the paths"),
    (two_classes, "is Sq .*on one path to here, Ci"),
    (may_be_two, "would change a Counter that may be another variable's"),
    (without_operator, "Counter [+] int is not defined"),
    (read_only, "the property 'balance' of Account has no setter"),
    (a_class_of_its_own, "Own is a class of the compiled function"),
    (holds_itself, "Node holds itself"),
    (with_getattr, "it defines __getattr__"),
], ids=lambda value: getattr(value, "__name__", None))
def test_refused(function: Callable[..., Any], message: str) -> None:
    expect_refusal(function, message, 3)

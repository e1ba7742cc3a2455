"""Generators, in compiled functions as in CPython."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from refusals import expect_refusal

import anfora

X = np.array([0.5, -1.25, 2.0, 3.5])
N = 5


def count_down(n: Any) -> Iterator[Any]:
    while n > 0:
        yield n
        n -= 1


def two_yields(n: Any) -> Iterator[Any]:
    i = 0
    while i < n:
        yield i
        if i % 2 == 0:
            yield -i
        i += 1
    yield 1000


def squares(items: Any) -> Iterator[Any]:
    for item in items:
        yield item * item


def evens(items: Any) -> Iterator[Any]:
    for item in items:
        if item % 2 == 0:
            yield item


def fibonacci() -> Iterator[int]:
    a, b = 0, 1
    while True:
        yield a
        a, b = b, a + b


def leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, tuple):
        for part in tree:
            yield from leaves(part)
    else:
        yield tree


def over_while(x: Any, n: Any) -> Any:
    s = 0
    for k in count_down(n):
        s += k * x.sum()
    return s


def break_and_else(x: Any, n: Any) -> Any:
    s = 0.0
    for k in count_down(n):
        if k % 2:
            continue
        if k == 1:
            break
        s += k
    else:
        s += 100
    for k in count_down(n):
        if k == 2:
            break
        s += k
    else:
        s = -1.0
    return s


def returns_from_the_loop(x: Any, n: Any) -> Any:
    for k in count_down(n):
        if k * k < 10:
            return k
    return -1


def returns_from_the_generator(x: Any, n: Any) -> Any:
    def g() -> Iterator[Any]:
        for v in x:
            if v > 1:
                return
            yield v

    return sum(g())


def several_yields(x: Any, n: Any) -> Any:
    s = 0
    for v in two_yields(n):
        s = s * 3 + v
    return s


def nested(x: Any, n: Any) -> Any:
    s = 0
    for a in count_down(n):
        for b in two_yields(a):
            if b == 3:
                break
            s += a * b
        s -= 1
    return s


def chained(x: Any, n: Any) -> Any:
    s = 0
    for v in squares(evens(count_down(n))):
        s += v
    return s, sum(squares(evens(range(n)))), sum(squares(x))


def taken_apart(x: Any, n: Any) -> Any:
    def g() -> Iterator[Any]:
        yield x[0]
        yield x[1] * 2
        for i in range(3):
            yield i

    a, b, *c = g()
    return a, b, c, list(g()), tuple(g()), {k: v for k, v in zip("abc", squares(x))}


def as_a_list(x: Any, n: Any) -> Any:
    return np.array(list(count_down(n)))


def zipped(x: Any, n: Any) -> Any:
    s = 0.0
    for v, k in zip(x, count_down(n)):
        s += v * k
    for k, v in zip(count_down(n), x):
        s += v * k
    for a, b in zip(count_down(n), squares(range(n + 2))):
        s = s * 2 + a * b
    return s


def enumerated(x: Any, n: Any) -> Any:
    s = 0
    for i, a in enumerate(count_down(n)):
        s += i * a
    for i, a in enumerate(count_down(n), start=10):
        s += i * a
    return s


def asked_by_next(x: Any, n: Any) -> Any:
    g = count_down(n)
    a = next(g)
    b = next(g)
    return a * 10 + b, sum(g), next((v for v in x if v > 1), 0.0), next((v for v in x if v > 100), -7.0)


def asked_in_a_loop(x: Any, n: Any) -> Any:
    g = fibonacci()
    s = 0
    for i in range(n):
        s += next(g) * i
    first = fibonacci()
    return s, [next(first) for _ in range(6)]


def in_pairs(x: Any, n: Any) -> Any:
    it = iter(x)
    s = 0
    for a in it:
        b = next(it)
        s += a * b
    it = iter([1, 2, 3, 4, 5, 6])
    return s, [a * 10 + b for a, b in zip(it, it)]


def delegated(x: Any, n: Any) -> Any:
    def g() -> Iterator[Any]:
        yield from x
        yield from range(n)
        yield from [1, 2]

    s = 0
    for v in g():
        s = s * 1.1 + v
    return s


def recursive(x: Any, n: Any) -> Any:
    return sum(leaves(((x[0], x[1]), (x[2], (x[3], 5.0))))), list(leaves((1, (2, 3))))


def shared_variables(x: Any, n: Any) -> Any:
    total = 0

    def g() -> Iterator[Any]:
        nonlocal total
        for v in x:
            total += 1
            yield v + total

    s = 0
    for v in g():
        s += v
        total += 1
    return s, total


def late_variables(x: Any, n: Any) -> Any:
    k = 1
    later = (v * k for v in x)
    k = 3
    s = sum(later)
    for w in (v * k for v in x):
        k += 1
        s += w
    return s


def without_end(x: Any, n: Any) -> Any:
    s = 0
    for f in fibonacci():
        if f > 50:
            break
        s += f
    for i, f in zip(range(n), fibonacci()):
        s += i * f
    return s


def stops_early(x: Any, n: Any) -> Any:
    asked = 0

    def g() -> Iterator[Any]:
        nonlocal asked
        for v in x:
            asked += 1
            yield v

    found = any(v < 0 for v in g())
    return found, asked, 3 in count_down(n), 30 in count_down(n), all(v > -1 for v in x)


def functions_of_items(x: Any, n: Any) -> Any:
    return (max(v for v in x), min(count_down(n)), sorted(v * v for v in x), sorted((-v for v in (3, 1, 2)), reverse=True),
            list(map(lambda v: v * 2, x)), np.array(list(filter(lambda v: v > 0, x))))


def value_of_yield(x: Any, n: Any) -> Any:
    def g() -> Iterator[Any]:
        r = yield 1
        yield 5 if r is None else 6

    return list(g())


def mutation(x: Any, n: Any) -> Any:
    y = np.zeros(6)
    grown = []
    for i, v in enumerate(squares(x)):
        y[i] = v
        grown.append(v + 1)
    return y, np.array(grown)


def sent_values(x: Any, n: Any) -> Any:
    def totals() -> Any:
        total = 0
        while True:
            more = yield total
            total += more

    g = totals()
    next(g)
    for i in range(n):
        g.send(i)
    g.send(100)
    return x * g.send(7)


def sent_and_asked(x: Any, n: Any) -> Any:
    def g() -> Any:
        a = yield x
        b = yield a * 2 if a is not None else x
        yield b

    h = g()
    first, second = h.send(None), h.send(n)
    return first + second, next(h) is None


def after_a_break(x: Any, n: Any) -> Any:
    g = two_yields(n)
    for v in g:
        if v > 2:
            break
    return x * next(g, 77)


def asked_on_some_paths(x: Any, n: Any) -> Any:
    g, total = two_yields(n), 0
    if n > 1:
        next(g)
    if n > 2:
        next(g)
        next(g)
    for v in g:
        total = total * 3 + v
    return x * total


def asked_in_some_turns(x: Any, n: Any) -> Any:
    g, total = two_yields(n + 2), 0
    for i in range(n):
        total = total * 2 + next(g)
        if i % 3 == 0:
            total += next(g)
    return x * (total + sum(g))


def items_on_some_paths(x: Any, n: Any) -> Any:
    def g() -> Iterator[Any]:
        for v in x:
            yield v
            yield v * 2

    h = g()
    first = next(h)
    if n > 2:
        first = first + next(h)
    return first + next(h), sum(list(h))


PROGRAMS = [after_a_break, asked_on_some_paths, asked_in_some_turns, items_on_some_paths, sent_values, sent_and_asked, over_while, break_and_else, returns_from_the_loop, returns_from_the_generator, several_yields, nested, chained, taken_apart,
            as_a_list, zipped, enumerated, asked_by_next, asked_in_a_loop, in_pairs, delegated, recursive, shared_variables, late_variables,
            without_end, stops_early, functions_of_items, value_of_yield, mutation]


def assert_same(expected: Any, computed: Any) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(expected) == len(computed)
        for a, b in zip(expected, computed):
            assert_same(a, b)
    elif isinstance(expected, dict):
        assert list(expected) == list(computed)
        assert_same(list(expected.values()), list(computed.values()))
    else:
        np.testing.assert_allclose(computed, expected)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [0, 1, 2, N])
def test_generator(function: Callable[..., Any], n: int) -> None:
    if function is functions_of_items and n == 0:
        return  # min() of nothing
    if function is asked_by_next and n < 2:
        with pytest.raises(StopIteration):
            function(X, n)
        with pytest.raises(anfora.Error, match="StopIteration"):
            anfora.jit(function)(X, n)
    else:
        assert_same(function(X, n), anfora.jit(function)(X, n))


def powers(x: Any, n: Any) -> Iterator[Any]:
    p = x
    for _ in range(n):
        yield p
        p = p * x


def test_gradient() -> None:
    def loss(x: Any, n: Any) -> Any:
        s = 0.0
        for i, p in enumerate(powers(x, n)):
            s = s + (i + 1) * p.sum()
        return s

    expected = sum((i + 1) ** 2 * X**i for i in range(N))
    np.testing.assert_allclose(anfora.grad(loss)(X, N), expected)


def test_loop_stays_one() -> None:
    def f(n: Any) -> Any:
        s = 0
        for k in count_down(n):
            s += k
        return s

    assert anfora.jit(f)(1_000_000) == 500_000_500_000


def sent_too_early(x: Any) -> Any:
    return count_down(3).send(5)  # type: ignore[attr-defined]


def sent_to_another(x: Any) -> Any:
    def g() -> Any:
        yield from (x, 2, 3)

    h = g()
    next(h)
    return h.send(5)


def amid_an_expression(x: Any) -> Any:
    def g() -> Iterator[Any]:
        print((yield x))

    return sum(g())


def next_of_a_list(x: Any) -> Any:
    return next([x])  # type: ignore[call-overload]


def unknown_place(x: Any) -> Any:
    def doubled() -> Iterator[Any]:
        y = x * 2
        yield y
        yield y + 1

    g = doubled()
    if x[0] > 0:
        next(g)
    return next(g)


def one_of_two(x: Any) -> Any:
    g = count_down(3) if x[0] > 0 else count_down(4)
    return sum(g)


def too_deep(x: Any) -> Any:
    def down(n: Any) -> Iterator[Any]:
        if n > 0:
            yield n
            yield from down(n - 1)

    return sum(down(int(x[0])))


WRONG = [
    (sent_too_early, "a value is sent to a generator that has not come to a yield"),
    (sent_to_another, "send\\(\\) to a generator with a 'yield from' is not supported"),
    (amid_an_expression, "inside of an expression is not supported"),
    (next_of_a_list, "next\\(\\) of list"),
    (unknown_place, "how far a generator of doubled has come is only known when it runs"),
    (one_of_two, "is generator .* on one path to here, another generator .* on another"),
    (too_deep, "nested more than 200 deep"),
]


@pytest.mark.parametrize("function, message", WRONG, ids=lambda value: getattr(value, "__name__", None))
def test_wrong_generator(function: Callable[..., Any], message: str) -> None:
    expect_refusal(function, message, np.array([5.0, 1.0]))

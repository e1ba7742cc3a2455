"""Lists whose length, and texts which, only a run knows, in compiled functions as in CPython: what programs of textbooks do with them."""

import re
from typing import Any

import numpy as np
import pytest
from refusals import expect_refusal

import anfora


def sieve(n: int) -> Any:
    is_prime = [True] * (n + 1)
    is_prime[0] = is_prime[1] = False
    i = 2
    while i * i <= n:
        if is_prime[i]:
            for j in range(i * i, n + 1, i):
                is_prime[j] = False
        i += 1
    return sum(is_prime), is_prime


def fibonacci(n: int) -> Any:
    table = [0] * (n + 2)
    table[1] = 1
    for i in range(2, n + 1):
        table[i] = table[i - 1] + table[i - 2]
    return table[n], table[-2]


def knapsack(n: int) -> Any:
    weights, values = [1, 3, 4, 5], [1, 4, 5, 7]
    best = [0] * (n + 1)
    for i in range(4):
        for room in range(n, weights[i] - 1, -1):
            best[room] = max(best[room], best[room - weights[i]] + values[i])
    return best


def pascal(n: int) -> Any:
    row = [1]
    for _ in range(n):
        row = [1] + [row[i] + row[i + 1] for i in range(len(row) - 1)] + [1]
    return row


def breadth_first(n: int) -> Any:
    seen = [False] * n
    queue, order = [0], []
    seen[0] = True
    while queue:
        at = queue.pop(0)
        order.append(at)
        for to in ((at * 2 + 1) % n, (at * 3 + 2) % n):
            if not seen[to]:
                seen[to] = True
                queue.append(to)
    return order


def from_the_end(n: int) -> Any:
    items = [i for i in range(n)]
    items[-1] = 50
    items[-2] += 7
    items[n - 3 - n] -= 1
    items.insert(-1, 70)
    return items


def of_known_length(n: int) -> Any:
    items = [1, 2, 3, 4]
    items[n % 4] = 9
    del items[n % 3]
    return items.pop(n % 2), items


def repeated(n: int) -> Any:
    none, some, more = [7] * (n - 100), [1, 2] * n, n * [0.5]
    more[0] = n
    return none, some * 2, more, len(some), [False] * n


def joined(n: int) -> Any:
    odd = [i for i in range(n) if i % 2]
    both = odd + [100] + odd
    same = both
    both += [i * 10 for i in range(n)]
    both.extend(odd)
    known = [1.5, 2]
    known += [i / 2 for i in range(n)]
    return both, len(same), known, odd + odd


def of_tensors(x: Any) -> Any:
    rows = [x] * int(x[0])
    rows[1] = rows[0] * 2
    return np.stack(rows)


def remembered(n: int) -> Any:
    known = [-1] * (n + 1)

    def fib(k: int) -> int:
        if k < 2:
            return k
        if known[k] < 0:
            known[k] = fib(k - 1) + fib(k - 2)
        return known[k]

    return fib(n), known


def queens(n: int) -> Any:
    columns, up, down = [False] * n, [False] * (2 * n), [False] * (2 * n)

    def place(row: int) -> int:
        if row == n:
            return 1
        count = 0
        for c in range(n):
            if not columns[c] and not up[row + c] and not down[row - c + n]:
                columns[c] = up[row + c] = down[row - c + n] = True
                count += place(row + 1)
                columns[c] = up[row + c] = down[row - c + n] = False
        return count

    return place(0)


def largest_sum(n: int) -> Any:
    best, path, calls = 0, [], 0

    def go(k: int, total: int) -> None:
        nonlocal best, calls
        calls += 1
        if k == 0:
            best = max(best, total if total % 3 else 0)
            return
        path.append(k)
        go(k - 1, total + k)
        path.pop()
        go(k - 1, total)

    go(n, 0)
    return best, calls, len(path)


def each_other(n: int) -> Any:
    seen = []

    def even(k: int) -> bool:
        seen.append(k)
        return True if k == 0 else odd(k - 1)

    def odd(k: int) -> bool:
        seen.append(-k)
        return False if k == 0 else even(k - 1)

    return even(n), seen


class Calls:
    def __init__(self) -> None:
        self.count = 0


def counted(n: int) -> Any:
    calls = Calls()

    def go(k: int) -> None:
        calls.count += 1
        if k > 1:
            go(k - 1)
            go(k - 2)

    for i in range(n):
        go(i)
    return calls.count


def checked(n: int) -> int:
    def factorial(k: int) -> int:
        assert k >= 0
        return 1 if k == 0 else k * factorial(k - 1)

    return factorial(n)


def kind(n: int) -> str:
    if n < 3:
        return "small"
    if n % 2:
        return "odd"
    return "even"


def texts(n: int) -> Any:
    which = kind(n)
    prices = {"small": 1, "odd": 5, "even": 7}
    prices[which] += 10
    match which:
        case "small" | "odd":
            rest = "x"
        case _:
            rest = "y"
    label = f"{which!s}-{rest}" + "!"
    return which, prices[which], label, which == "odd", [kind(i) for i in range(n)]


def machine(n: int) -> Any:
    state, turns = "start", 0
    while state != "end":
        if state == "start":
            state = "middle"
        else:
            turns += 1
            state = "end" if turns >= n else "start"
    return turns


@pytest.mark.parametrize("function", [
    sieve, fibonacci, knapsack, pascal, breadth_first, from_the_end, of_known_length, repeated, joined, remembered, queens, largest_sum,
    each_other, counted, checked, texts, machine], ids=lambda f: f.__name__)
def test_as_in_cpython(function: Any) -> None:
    compiled = anfora.jit(function)
    for n in (6, 5, 8):
        assert compiled(n) == function(n)


def of_a_function_around(x: Any) -> Any:
    y, z = x * 2, x.copy()

    def put(value: float) -> None:
        y[0] = value
        z[1] += value

    for i in range(int(x[0])):
        put(i)
    return y, z


@pytest.mark.parametrize("function", [of_tensors, of_a_function_around])
def test_tensors(function: Any) -> None:
    x = np.array([3.0, 1.5])
    for got, expected in zip(anfora.jit(function)(x), function(x), strict=True):
        np.testing.assert_array_equal(got, expected)


def polynomial(x: float, n: int) -> float:
    powers = [1.0] * n
    for i in range(1, n):
        powers[i] = powers[i - 1] * x
    return sum(powers)


def by_recursion(x: float, n: int) -> float:
    total = 0.0

    def go(k: int, power: float) -> None:
        nonlocal total
        if k > 0:
            total += power
            go(k - 1, power * x)

    go(n, 1.0)
    return total


def by_name(x: float, n: int) -> float:
    which = "square" if n > 2 else "cube"
    return x * x if which == "square" else x * x * x


def test_gradients() -> None:
    for n, slope in ((4, 1 + 2 * 1.5 + 3 * 1.5**2), (2, 1.0)):
        assert anfora.grad(polynomial)(1.5, n) == pytest.approx(slope)
        assert anfora.grad(by_recursion)(1.5, n) == pytest.approx(slope)
    assert anfora.grad(by_name)(1.5, 3) == 3.0
    assert anfora.grad(by_name)(1.5, 1) == pytest.approx(6.75)


def test_prints_in_recursion(capfd: pytest.CaptureFixture[str]) -> None:
    @anfora.jit
    def count_down(n: int) -> int:
        def go(k: int) -> None:
            if k > 0:
                print(k)
                go(k - 1)

        go(n)
        return n

    assert count_down(3) == 3
    assert re.findall(r"\d+$", capfd.readouterr().err, re.MULTILINE) == ["3", "2", "1"]


def changes_tensor(x: Any) -> Any:
    y = x * 2

    def go(k: int) -> None:
        if k > 0:
            y[0] = k
            go(k - 1)

    go(2)
    return y


def bad_place(n: int) -> Any:
    items = [0] * n
    items[n] = 1
    return items


@pytest.mark.parametrize("function, message", [
    (changes_tensor, r"the recursive function go\(\) changes"),
    (lambda x: (0,) * int(x[0]), "how often a tuple of 1 is repeated"),
    (lambda x: [[0]] * int(x[0]), "how often a list is repeated"),
], ids=range(3))
def test_refused(function: Any, message: str) -> None:
    expect_refusal(function, message, np.array([2.0, 3.0]))


def test_error_of_the_run() -> None:
    with pytest.raises(anfora.Error, match="SequenceErase|out of range|no item"):
        anfora.jit(bad_place)(3)

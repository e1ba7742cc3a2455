"""Lists, dicts and functions of which a run decides which one a variable holds, in compiled functions as in CPython."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import expect_refusal

import anfora


def new_lists(c: Any) -> Any:
    if c > 0:
        a = [1, 2]
    else:
        a = [3, 4]
    a.append(5)
    return a


def lists_of_two_lengths(c: Any) -> Any:
    a = [1, 2] if c > 0 else [3, 4, 5]
    return sum(a), len(a)


def ints_among_floats(c: Any) -> Any:
    a: Any = []
    if c > 0:
        a = [1.5, 2]
    return sum(a) + 0.5


def new_dicts(c: Any) -> Any:
    d: Any = {"a": 1, "b": [c]} if c > 0 else {"a": 2, "b": [2 * c]}
    d["a"] += 1
    return d


def chosen_list(c: Any) -> Any:
    a, b = [1, 2], [3, 4]
    best = a if c > 0 else b
    return best[0] + len(best), a, b


def two_names(c: Any) -> Any:
    if c > 0:
        a = b = [1, 2]
    else:
        a = b = [3, 4]
    a.append(5)
    return b


def nested_lists(c: Any) -> Any:
    row = [1, 2] if c > 0 else [2, 1]
    rows = [row, row] if c > 1 else [row, [5, 6]]
    return rows


def next_row(n: Any) -> Any:
    row = [1, 2, 3]
    for i in range(n):
        new = []
        for v in row:
            new.append(v + i)
        row = new
    return row


def best_so_far(n: Any) -> Any:
    best: Any = []
    score = -1
    for i in range(n):
        if i * 3 % 7 > score:
            score = i * 3 % 7
            best = [i, score]
    return best


def swapped_lists(n: Any) -> Any:
    a, b = [0, 1], [1, 1]
    for _ in range(n):
        a, b = b, [a[0] + b[0], a[1] + b[1]]
    return a, b


def next_state(n: Any) -> Any:
    state: Any = {"a": 0, "b": [1, 2]}
    for i in range(n):
        state = {"a": state["a"] + 1, "b": [state["b"][1], state["b"][0] + i]}
    return state


def sorted_or_shifted(n: Any) -> Any:
    items = [3, 1, 2]
    while n > 0:
        items = sorted(items) if n % 2 else [v + 1 for v in items]
        n -= 1
    return items


def times(k: Any) -> Callable[[Any], Any]:
    return lambda x: x * k


def two_functions(c: Any) -> Any:
    f = np.sin if c > 0 else np.cos
    return f(0.5)


def two_lambdas(c: Any) -> Any:
    k = 2
    f: Any = (lambda x: x + k) if c > 0 else (lambda x: x * k)
    k = 5
    return f(3)


def one_text(c: Any) -> Any:
    f = times(2) if c > 0 else times(c - 5)
    return f(3)


def function_of_a_loop(c: Any) -> Any:
    f: Any = times(2)
    for i in range(6):
        if i == c:
            f = lambda x: x + 100
        elif i == c + 1:
            f = abs
    return f(-3)


def functions_in_turn(n: Any) -> Any:
    functions: Any = times(2), (lambda x: x - 1), abs
    first, second, third = functions
    for _ in range(n):
        first, second, third = second, third, first
    return first(-7), second(-7), third(-7)


def table_of_functions(c: Any) -> Any:
    table = [lambda x, y: x + y, lambda x, y: x - y, max]
    return table[c](5, 2)


def dict_of_functions(c: Any) -> Any:
    return {-1: np.sin, 1: np.cos, 2: np.tan}[c](0.5)


def defaults_of_one_text(c: Any) -> Any:
    functions: Any = [lambda x, k=k: x * k for k in (1, 2.5, c)]
    named: Any = [lambda x, *, k=k, of=(k, [k + 1]): x * k + of[0] * of[1][0] for k in (1, 2, 4)]
    return functions[c](3), named[c](3), functions[c](3, 7)


def defaults_of_two_texts(c: Any) -> Any:
    f: Any
    if c > 0:
        f = lambda x, k=np.sin(c): x * k
    else:
        f = lambda x, k=c + 7: x + k
    functions: Any = [lambda x: x]
    for k in (4, 5):
        functions.append(lambda x, k=k: x * k)
    return f(2), functions[c](3), functions[c - 1](3)


def defaults_in_turn(n: Any) -> Any:
    f: Any = lambda x, k=2: x * k
    for i in range(n):
        if i % 2:
            f = lambda x, k=i * n: x * k + i
        else:
            f = lambda x, k=n: x - k
    return f(3)


def same_function(c: Any) -> Any:
    f = abs if c > 0 else times
    return f is abs, f is times, f is not max


def recursive_or_not(c: Any) -> Any:
    def doubled(v: Any) -> Any:
        return v if v > 10 else doubled(v * 2)

    f: Any = doubled if c > 1 else (lambda v: v)
    return f(1)


def counts(c: Any) -> Any:
    d = {0: 0, 1: 0, 2: 0}
    for i in range(c + 6):
        d[i % 3] += i
    return d, d[(c + 6) % 3]


def text_of_a_list(c: Any) -> Any:
    signs = ["+", "-", "", "*"]
    x = 3
    for k in range(c + 5):
        sign = signs[k % 4]
        if sign == "+":
            x += 2
        elif sign != "-" and bool(sign):
            x *= 3
        elif not sign:
            x -= 7
    return x, signs[c + 1] in ("-", "*"), {"+": 1, "-": 2, "": 3, "*": 4}[signs[c + 1]], isinstance(signs[c], str)


def matched_text(c: Any) -> Any:
    match ["-", "+", "*"][c]:
        case "+":
            return 1
        case "*":
            return 2
    return 3


def get_by_a_number(c: Any) -> Any:
    d = {1: 10, 2: 20}
    return d.get(c, -1), c in d, d.get(c + 1, 0)


FUNCTIONS = [text_of_a_list, matched_text, get_by_a_number, new_lists, lists_of_two_lengths, ints_among_floats, new_dicts, chosen_list, two_names, nested_lists, two_functions, two_lambdas, one_text,
             function_of_a_loop, table_of_functions, dict_of_functions, defaults_of_one_text, defaults_of_two_texts, same_function, recursive_or_not, counts]
LOOPS = [next_row, best_so_far, swapped_lists, next_state, sorted_or_shifted, functions_in_turn, defaults_in_turn]


@pytest.mark.parametrize("function, argument", [(f, c) for f in FUNCTIONS for c in (-1, 1, 2)] + [(f, n) for f in LOOPS for n in (0, 1, 2, 5)],
                         ids=lambda value: getattr(value, "__name__", None))
def test_path(function: Callable[..., Any], argument: int) -> None:
    np.testing.assert_equal(anfora.jit(function)(argument), function(argument))


def changes_one_of_two(c: Any) -> Any:
    a, b = [1, 2], [3, 4]
    best = a if c > 0 else b
    best.append(7)
    return a, b


def changes_what_may_be_two(c: Any) -> Any:
    a = [1]
    b = a if c > 0 else [2]
    a.append(3)
    return b


def identity(c: Any) -> Any:
    a, b = [1], [1]
    best = a if c > 0 else b
    return best is a


def key_of_a_run(c: Any) -> Any:
    d = {(1, 0): 5}
    d[(c, 0)] = 7
    return d[(1, 0)]


def get_by_a_tuple(c: Any) -> Any:
    return {(1, 0): 5}.get((c, 0), 1)


def popped_by_a_number(c: Any) -> Any:
    d = {1: 5}
    return d.pop(c, 3), len(d)


def deleted_by_a_number(c: Any) -> Any:
    d = {1: 5}
    del d[c]
    return len(d)


@pytest.mark.parametrize("function, message", [
    (key_of_a_run, "the keys of a dict must be known"), (get_by_a_tuple, "the keys of a dict must be known"),
    (popped_by_a_number, "the keys of a dict must be known"), (deleted_by_a_number, "the keys of a dict must be known"), (changes_one_of_two, "would change a list that may be another variable's"),
    (changes_what_may_be_two, "would change a list that may be"), (identity, "whether this list is another one")], ids=lambda value: getattr(value, "__name__", None))
def test_refused_path(function: Callable[..., Any], message: str) -> None:
    expect_refusal(function, message, 1)


def test_missing_items() -> None:
    compiled = anfora.jit(table_of_functions)
    with pytest.raises(anfora.Error, match="the index is out of range"):
        compiled(3)
    compiled = anfora.jit(dict_of_functions)
    with pytest.raises(anfora.Error, match="the dict has no such key"):
        compiled(3)

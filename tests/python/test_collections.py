"""Sets, dicts and what Python's modules collections, functools and itertools have, in compiled functions as in CPython."""

import dataclasses
import functools
import itertools
import math
import numbers
import operator
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from functools import partial, reduce
from itertools import (accumulate, chain, combinations, count, cycle, dropwhile, islice, pairwise, permutations, product, repeat, starmap,
                       takewhile, zip_longest)
from typing import Any

import numpy as np
import pytest
from refusals import expect_refusal

import anfora

X = np.array([0.5, -1.25, 2.0, 3.5])
Point: Any = namedtuple("Point", "x y")


@dataclasses.dataclass
class Shape:
    side: Any


class Square(Shape):
    pass


class Pair(namedtuple("Pair", ["a", "b"])):
    def norm(self) -> Any:
        return self.a * self.a + self.b * self.b


def with_set_add(x: Any) -> Any:
    s = set()
    for i in (1, 2, 2, 3):
        s.add(i)
    s.discard(2)
    s.discard(7)
    s.update([9, 10])
    return len(s), 3 in s, 2 in s, sorted(s)


def with_set_ior(x: Any) -> Any:
    s = {1, 2}
    t = s
    s |= {3}
    s &= {1, 3, 4}
    s -= {4}
    s ^= {8}
    return sorted(s), sorted(t), len(t)


def with_set_remove(x: Any) -> Any:
    s = {1, 2, 3}
    s.remove(2)
    c = s.copy()
    c.clear()
    return sorted(s), len(c), s.union({5}) >= {1}, sorted(s.intersection([1, 7])), s.issubset({1, 3, 5}), s.isdisjoint({2}), sorted(s.difference({1})), sorted(s.symmetric_difference({1, 4}))


def with_seen(x: Any) -> Any:
    seen = set()
    out = []
    for name in ["a", "b", "a", "c"]:
        if name in seen:
            continue
        seen.add(name)
        out.append(name)
    return out


def with_dict_methods(x: Any) -> Any:
    d = {"a": x[0], "b": x[1]}
    d.setdefault("c", x[2])
    d.setdefault("a", 100.0)
    v = d.pop("b")
    w = d.pop("zzz", 3.0)
    d.update({"e": 1.0}, f=2.0)
    del d["e"]
    return d, v, w, d.get("q", 7), "a" in d, len(d), list(d), list(d.values()), [k + "!" for k, _ in d.items()]


def with_del_list(x: Any) -> Any:
    l = [1, 2, 3, 4, 5]
    del l[0]
    del l[-1:]
    y = 3
    del y
    return l


def with_del_slice(x: Any) -> Any:
    l = [1, 2, 3, 4, 5]
    l[1:3] = [7, 8, 9]
    l[0:0] = (6,)
    l[-2:] = []
    l[::2] = [10] * len(l[::2])
    l.remove(8)
    return l, l.index(1), l.count(4), l[1:][::-1]


def with_order(x: Any) -> Any:
    return [1, 2] < [1, 3], (1, 2) < (2, 0), (1, x[0]) <= (1, x[1]), (x[2], 1) > (x[2], 0), [1] < [1, 2], [1, 2] >= [1, 2], () < (1,)


def with_sort_pairs(x: Any) -> Any:
    rows = [(2, "b"), (1, "a"), (1, "c")]
    return sorted([(3, 1.0), (1, 5.0), (1, 2.0)]), max((1, 5), (1, 7)), min([(3, 0), (2, 9)])


def with_defaultdict(x: Any) -> Any:
    d = defaultdict(list)
    for i, k in enumerate(["a", "b", "a"]):
        d[k].append(x[i])
    e: Any = defaultdict(int)
    for k in "hello":
        e[k] += 1
    f: Any = defaultdict(lambda: x * 0)
    f["u"] = f["u"] + x
    return {k: sum(v) for k, v in d.items()}, dict(e), f["u"]


def with_counter(x: Any) -> Any:
    c = Counter("hello")
    c["z"] += 2
    c.update("ll")
    return c["l"], c["z"], c["missing"], dict(c), c.most_common(1), sum(c.values())


def with_deque(x: Any) -> Any:
    d: Any = deque()
    d.append(x[0])
    d.append(x[1])
    d.appendleft(x[2])
    a = d.popleft()
    b = d.pop()
    return a, b, len(d), list(d)


def with_deque_max(x: Any) -> Any:
    d: Any = deque(maxlen=2)
    for v in x:
        d.append(v)
    return sum(d)


def with_deque_queue(x: Any) -> Any:
    q = deque([0, 1, 2])
    total = 0
    while q:
        k = q.popleft()
        total += k
    return total


def with_namedtuple(x: Any) -> Any:
    p = Point(x[0], y=x[1])
    q = p._replace(x=3.0)
    a, b = q
    return p.x + p[1], q, a * b, q._asdict(), Pair(1.0, x[2]).norm()


def with_reduce(x: Any) -> Any:
    return reduce(lambda a, b: a * b, x), reduce(operator.add, [1, 2, 3], 10), functools.reduce(np.maximum, [x, x * 2, x - 1])


def with_partial(x: Any) -> Any:
    f = partial(pow, 2)
    g = partial(np.clip, a_min=0.0)
    h = functools.partial(lambda a, b, c=1: a * b + c, x[0], c=5)
    return f(3), g(x, a_max=1.0), h(2)


def with_accumulate(x: Any) -> Any:
    return list(accumulate(x)), list(accumulate([1, 2, 3], operator.mul)), list(itertools.accumulate(x, max, initial=0.0)), list(accumulate([1, 2], lambda a, b: a + b))


def with_product(x: Any) -> Any:
    return [x[i] * x[j] for i, j in product(range(2), repeat=2)], sum(a * b for a, b in product(x, [1, 2]))


def with_chain(x: Any) -> Any:
    return list(chain(x, [1, 2])), sum(chain.from_iterable([x, x])), [v for v in chain((1,), (2, 3))]


def with_pairwise(x: Any) -> Any:
    return [b - a for a, b in pairwise(x)], sum(a * b for a, b in pairwise(x))


def with_islice(x: Any) -> Any:
    return list(islice(x, 2)), list(islice(count(3), 2, 8, 2)), sum(islice(count(), 10))


def with_combi(x: Any) -> Any:
    return [x[i] - x[j] for i, j in combinations(range(4), 2)], len(list(permutations((1, 2, 3)))), list(permutations([1, 2, 3], 2))


def with_repeat_cycle(x: Any) -> Any:
    return list(repeat(2.0, 3)), [a * b for a, b in zip(x, cycle([1, -1]))], [a for a, _ in zip(x, repeat(0))]


def with_takewhile(x: Any) -> Any:
    return list(takewhile(lambda v: v < 3, [1, 2, 5, 1])), list(dropwhile(lambda v: v < 3, [1, 2, 5, 1])), sum(takewhile(lambda v: v < 1, x))


def with_starmap(x: Any) -> Any:
    return list(starmap(lambda a, b: a * b, [(1, 2), (3, 4)])), list(zip_longest([1, 2, 3], [4], fillvalue=0))


def with_count(x: Any) -> Any:
    s = 0
    for i in count(1, 2):
        if i > 9: break
        s += i
    return s


def with_dict_of_lists(x: Any) -> Any:
    d: Any = {}
    for k in ("a", "b"):
        d.setdefault(k, []).append(x[0])
        d.setdefault(k, []).append(x[1])
    return d


def with_dict_counts(x: Any) -> Any:
    d: Any = {}
    for k in "abca":
        d[k] = d.get(k, 0) + 1
    return d


def with_dict_loop(x: Any) -> Any:
    d = {"w": x, "b": 1.0}
    for k, v in d.items():
        d[k] = v * 2
    return d


def with_dict_comp_filter(x: Any) -> Any:
    d = dict(a=1, b=2)
    return {v: k for k, v in d.items()}, {k: v for k, v in d.items() if v > 1}, dict(zip("xy", x)), dict([("k", x[0])]), dict(d, c=3), {**d, "z": 1}


def with_dict_eq(x: Any) -> Any:
    return {"a": 1} == {"a": 1}, {"a": 1} == {"a": 2}, [1, 2] < [1, 3], (1, 2) < (2, 0), "a" < "b", {1, 2} == {2, 1}


def with_einsum_like(x: Any) -> Any:
    spec = "ij,jk->ik"
    lhs, rhs = spec.split("->")
    a, b = lhs.split(",")
    return len(a) + len(rhs)


def with_ordered(x: Any) -> Any:
    d = OrderedDict()
    d["b"] = 1
    d["a"] = 2
    d.move_to_end("b")
    return list(d), d.popitem()


def with_popitem(x: Any) -> Any:
    d = {"a": 1, "b": 2}
    k, v = d.popitem()
    return k, v, d


def with_list_methods(x: Any) -> Any:
    l = [3, 1, 2]
    l.extend(v for v in (7, 8))
    l += [9]
    l.insert(0, 5)
    l.sort(reverse=True)
    l.reverse()
    m = l * 2
    return l, m[::2], l[1:3], l == sorted(l), 3 in l, l.pop(0), min(l), list(reversed(l)), any(l), all(l)


def with_truth_of_lists(x: Any) -> Any:
    queue, empty, total = [0, 1, 2], [], 0  # type: ignore[var-annotated]
    while queue:
        total += queue.pop(0)
    if empty:
        total += 100
    if not queue and (empty or x[0] > 0):
        total += 10
    return total


def with_functions_of_math(x: Any) -> Any:
    return (math.prod([1, 2, 3]), math.comb(5, 2), math.perm(5, 2), math.isqrt(17), math.dist([1, 2], [3, 4]), math.isclose(1.0, 1.0 + 1e-12),
            math.isclose(1.0, 1.1), math.prod(v for v in x))


def with_texts(x: Any) -> Any:
    words = " a, b ,c".split(",")
    return (len(words), "-".join(w.strip() for w in words), "abc".upper(), "ABC".lower(), "abc".startswith("a"), "abc".endswith(("x", "c")),
            "abcabc".replace("a", "zz"), "abc".index("b"), "abc".find("z"), "a b  c ".split(), "a.b.c".split(".", 1), "12".isdigit(),
            "w_1".removeprefix("w_"), "aXbX".count("X"))


def with_tuple_made_inside(x: Any) -> Any:
    P = namedtuple("P", ["u", "v"])
    p = P(x[0], v=x[1])
    return p.u * p.v, p._replace(u=2.0).u, p.index(x[1])


def with_groups(x: Any) -> Any:
    digits = 0
    for k, g in itertools.groupby([1, 1, 2, 2, 2, 3, 1]):
        digits = digits * 10 + k * len(list(g))
    by_place = 0
    for k, g in itertools.groupby(range(int(x[3] * 3)), key=lambda i: i // 3):
        by_place = by_place * 3 + k + sum(g)
    total = 0.0
    for is_large, values in itertools.groupby(x, lambda v: v > 0.7):
        for v in values:
            total = total + v * (2 if is_large else 1)
    return digits, by_place, total, {k: len(list(g)) for k, g in itertools.groupby("aab")}


def with_groups_that_are_over(x: Any) -> Any:
    groups = list(itertools.groupby([1, 1, 2]))
    total, old = 0, None
    for k, g in itertools.groupby([1, 1, 2, 2, 2]):
        if old is not None:
            total += len(list(old)) * 100
        total += next(g)
        old = g
    return len(groups), [len(list(g)) for k, g in groups], total


PROGRAMS = [with_groups, with_groups_that_are_over, with_set_add, with_set_ior, with_set_remove, with_seen, with_dict_methods, with_del_list, with_del_slice, with_order,
            with_sort_pairs, with_defaultdict, with_counter, with_deque, with_deque_max, with_deque_queue, with_namedtuple, with_reduce,
            with_partial, with_accumulate, with_product, with_chain, with_pairwise, with_islice, with_combi, with_repeat_cycle,
            with_takewhile, with_starmap, with_count, with_dict_of_lists, with_dict_counts, with_dict_loop, with_dict_comp_filter,
            with_dict_eq, with_einsum_like, with_ordered, with_popitem, with_list_methods, with_truth_of_lists, with_functions_of_math,
            with_texts, with_tuple_made_inside]


def assert_same(expected: Any, computed: Any) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(expected) == len(computed)
        for a, b in zip(expected, computed):
            assert_same(a, b)
    elif isinstance(expected, dict):
        assert list(expected) == list(computed)
        assert_same(list(expected.values()), list(computed.values()))
    elif isinstance(expected, str):
        assert expected == computed
    else:
        np.testing.assert_allclose(computed, expected)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_program(function: Callable[..., Any]) -> None:
    assert_same(function(X), anfora.jit(function)(X))


def test_effects_of_what_returns_a_list() -> None:
    def checked(x: Any) -> Any:
        result = [x[0], {"y": x[1], 2: 3}]
        assert x[0] > 3
        return result

    with pytest.raises(anfora.Error, match="x\\[0\\] > 3"):
        anfora.jit(checked)(X)
    assert_same([4.0, {"y": 1.0, 2: 3}], anfora.jit(checked)(np.array([4.0, 1.0])))


SEEN = {1, 2}


def set_of_the_caller(x: Any) -> Any:
    SEEN.add(3)
    return x


def set_that_a_run_decides(x: Any) -> Any:
    s = {1}
    if x[0] > 0:
        s.add(2)
    return len(s) * x


def missing_in_set(x: Any) -> Any:
    s = {1}
    s.remove(2)
    return x


def item_of_set(x: Any) -> Any:
    s: Any = {1}
    return x[s[0]]


def deleted_item(x: Any) -> Any:
    d = {"a": x}
    del d["b"]
    return x


def deleted_variable(x: Any) -> Any:
    y = x
    del y
    return y


def deleted_somewhere(x: Any) -> Any:
    items = [x[0], 8, x[1]]
    items.remove(8)
    return x


WRONG = [
    (deleted_somewhere, "which item is meant must be known"),
    (set_of_the_caller, "set has no 'add' that can be compiled"),
    (set_that_a_run_decides, "set of 1 on one path to here, set of 2 on another"),
    (missing_in_set, "the set has no such item"),
    (item_of_set, "a set has no order"),
    (deleted_item, "the dict has no such key: 'b'"),
    (deleted_variable, "'y' has no value"),
]


@pytest.mark.parametrize("function, message", WRONG, ids=lambda value: getattr(value, "__name__", None))
def test_wrong_program(function: Callable[..., Any], message: str) -> None:
    expect_refusal(function, message, X)


def kinds(x: Any) -> Any:
    values = [deque([1]), Counter("aab"), OrderedDict(a=1), defaultdict(int), {1}, {}, [1], (1,), Point(x, 1), Pair(1, 2), Shape(x), Square(x), x, True, 2, 2.5,
              "a", range(3), slice(3)]
    types: Any = [deque, Counter, dict, OrderedDict, set, list, tuple, Point, Pair, Shape, Square, np.ndarray, bool, int, float, str, range, slice, object,
             numbers.Number, numbers.Integral, (list, tuple)]
    return tuple([isinstance(value, kind) for kind in types for value in values])


def test_isinstance() -> None:
    assert anfora.jit(kinds)(X) == kinds(X)


def sorted_deque(x: Any) -> Any:
    items: Any = deque()
    for i in range(len(x)):
        items.append(x[i])
    return sorted(items)[0], sorted(deque([3, 1, 2]))


def test_sorted_deque() -> None:
    assert anfora.jit(sorted_deque)(X) == sorted_deque(X)


def calls_iterate(x: Any) -> Any:
    return iterate(x)  # type: ignore[name-defined] # noqa: F821


def calls_index_of(x: Any) -> Any:
    return _index_of([1], 1) + x  # type: ignore[name-defined] # noqa: F821


@pytest.mark.parametrize("function, name", [(calls_iterate, "iterate"), (calls_index_of, "_index_of")])
def test_functions_of_the_library_are_its_own(function: Callable[..., Any], name: str) -> None:
    with pytest.raises(anfora.Error, match=f"the name '{name}' is not defined"):
        anfora.jit(function)(X)

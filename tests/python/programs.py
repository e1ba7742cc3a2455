"""Programs that compile, each with arguments: what they return in CPython with numpy is what they return compiled."""
import math

import numpy as np


def alternating(x, n):
    s = 0
    for i in range(n):
        if i % 2 == 0:
            s = s + x * i
        else:
            s = s - x
    return s


def steps(n):
    count = 0
    while n != 1:
        if count > 1000:
            return -1
        n = 3 * n + 1 if n % 2 else n // 2
        count += 1
    return count


def fact(n):
    return 1 if n <= 1 else n * fact(n - 1)


def fib(n):
    if n < 2:
        return n
    return fib(n - 1) + fib(n - 2)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def lam():
    fs = [lambda: i for i in range(3)]
    return (fs[0](), fs[1](), fs[2]())


def lam2(x):

    def add(y):
        nonlocal x
        x = x + y
        return x
    a = add(1)
    b = add(2)
    return (a, b, x)


def coll(n):
    out = []
    for i in range(n):
        out.append(i * i)
    return (len(out), out[n - 1])


def setit(x):
    y = x.copy()
    y[1] = 5
    y[2:] += 1
    return y


def early(x, limit):
    for i in range(len(x)):
        if x[i] > limit:
            return i
    return -1


def nested(n, m):
    total = 0
    for i in range(n):
        for j in range(m):
            if j > i:
                break
            if (i + j) % 3 == 0:
                continue
            total += i * j
        else:
            total += 100
    return total


def nested_return(n, m):
    for i in range(n):
        for j in range(m):
            if i * j == 12:
                return (i, j)
    return (-1, -1)


def while_true(x):
    k = 0
    while True:
        x = x / 2
        k += 1
        if x < 1:
            break
    return (k, x)


def zipped(x, y):
    s = 0.0
    for i, (a, b) in enumerate(zip(x, y)):
        s += i * a * b
    return s


def tuples(x):
    out = 0
    for k, w in ((1, 2.0), (2, 3.0), (3, x)):
        out = out + k * w
    return out


def chained(x):
    return (1 < x < 5, x if 0 < x <= 2 else -x, not x, x and 3.0, x or 4.0)


def even(n):
    return True if n == 0 else odd(n - 1)


def odd(n):
    return False if n == 0 else even(n - 1)


def power(x, n):
    if n == 0:
        return 1.0 * x ** 0
    half = power(x, n // 2)
    return half * half * (x if n % 2 else 1.0)


def compose(x):

    def twice(f):
        return lambda v: f(f(v))
    inc = lambda v: v + 1
    return twice(twice(inc))(x)


def counter():

    def make():
        count = 0

        def step(by=1):
            nonlocal count
            count += by
            return count
        return step
    a, b = (make(), make())
    a()
    a(5)
    b()
    return (a(), b())


def kw(x):

    def f(a, b=2, *rest, c=3, **more):
        return a + b * 10 + c * 100 + sum(rest) * 1000 + more.get('d', 0) * 10000
    return (f(x), f(x, 3), f(x, 3, 4, 5, c=6, d=7), f(*(x, 1), **{'c': 2}))


def lists(x):
    rows = [row * 2 for row in x]
    rows.append(x[0])
    a, *b = rows
    d = {'a': a, 'b': b[0]}
    d['c'] = b[-1]
    return (np.stack(rows), d['c'], [v.sum() for v in d.values()], len(rows))


def numbers(a, b):
    return (a // b, a % b, a / b, a ** 2, -a // b, -a % b, a << 2, a >> 1, a & b, a | b, a ^ b, ~a, abs(-a), min(a, b), max(a, b), divmod(a, b))


def floats(a, b):
    return (a // b, a % b, a / b, a ** b, -a // b, -a % b, int(a), round(a), math.floor(a), math.sqrt(a), float(int(a)))


def index(x, i):
    return (x[i], x[i, 1], x[1:3], x[::-1], x[:, None, 2], x[..., -1], x[-1], x[1:4:2, ::2], x[i:], x[[0, 2]], x[x > 3], x[:, [1, 1]], x.T[i], x[[0, 1], [1, 2]])


def update(x, i):
    x = x.copy()
    x[i] = 7
    x[0, 1] = 3
    x[:, 2] += 10
    x[1:3, 1:3] = 0
    x[x > 8] = -1
    return x


def reductions(x):
    return (x.sum(), x.sum(axis=0), x.mean(axis=1, keepdims=True), x.max(), x.std(), x.argmax(axis=1), np.cumsum(x, axis=1), x.any(), x.prod(axis=0), np.var(x, axis=0))


def promo(x, y, b):
    return (x + 1, x + 1.5, y + 1, y + 1.5, y / 2, y // 2, x * y, b + b, b * 1, b & b, np.sqrt(y), x * True, y * np.float32(2), np.where(b, x, 0), np.maximum(y, 2))


def collatz(n):
    seq = [n]
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        seq.append(n)
    return (len(seq), seq[0], seq[-1])


def dyn(x):
    s = 0.0
    while s < 10:
        for v in x:
            s += v
        if len(x) == 0:
            return s
    return s


def newton(a):
    x = a
    for _ in range(50):
        nx = (x + a / x) / 2
        if abs(nx - x) < 1e-12:
            return nx
        x = nx
    return x


def grid(n):
    return ([[i * j for j in range(3)] for i in range(2)], [i for i in range(10) if i % 3 == 0], {k: k * n for k in (1, 2)}[2])


def defaults(x, k=[1, 2], scale=2.0):
    return x * scale + k[1]


def walrus(x):
    if (y := (x * 2)) > 3:
        return y
    return y - 1


def strings(x, mode):
    kind = 'relu' if x.shape[0] == 2 else 'tanh'
    if kind == 'relu':
        return (np.maximum(x, 0), len(kind), 'el' in kind)
    return (np.tanh(x), 0, False)


def sorts(x):
    return (np.sort(x), np.argsort(x), np.flip(x), np.roll(x, 2), np.repeat(x, 2), np.tile(x, 2), np.concatenate([x, x]), np.outer(x, x), np.eye(3), np.arange(5), np.linspace(0, 1, 5), np.dot(x, x))


def bubble(x):
    x = x.copy()
    n = len(x)
    for i in range(n):
        for j in range(n - 1 - i):
            if x[j] > x[j + 1]:
                t = x[j]
                x[j] = x[j + 1]
                x[j + 1] = t
    return x


def matpow(a, n):
    r = np.eye(3)
    while n > 0:
        if n & 1:
            r = r @ a
        a = a @ a
        n >>= 1
    return r


ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)
GRID = np.arange(20, dtype=np.float32).reshape(4, 5)
FOUR = np.array([1, 2, 3, 4], np.float32)
CASES = [
    (alternating, GRID, 3), (alternating, GRID, 1),
    (steps, 7), (steps, 27), (steps, 1),
    (fact, 5), (fact, 0), (fib, 7), (even, 4), (even, 3), (power, 1.5, 5), (power, 2.0, 0),
    (softmax, GRID), (lam,), (lam2, 1.5), (coll, 4), (setit, np.arange(4.0)),
    (early, np.array([1.0, 5, 2]), 3.0), (early, np.array([1.0, 2]), 3.0), (early, np.zeros(0), 1.0),
    (nested, 6, 5), (nested, 0, 3), (nested, 3, 3), (nested_return, 6, 6), (nested_return, 2, 2),
    (while_true, 100.0), (while_true, 0.5), (zipped, FOUR, FOUR), (tuples, FOUR[:3]),
    (chained, 1.5), (chained, 3.0), (chained, 0.0), (chained, 7.0), (compose, FOUR), (counter,), (kw, 1.5), (lists, ROWS), (defaults, 1.5), (walrus, 1.0), (walrus, 2.0),
    (numbers, 7, 3), (numbers, -7, 3), (numbers, 7, -3), (floats, 7.5, 2.0), (floats, 7.25, -3.0),
    (index, GRID, 1), (index, GRID, 3), (update, GRID, 1), (update, GRID, 3), (reductions, ROWS), (reductions, ROWS - 3),
    (promo, FOUR[:3], np.array([1, -2, 7], np.int32), np.array([True, False, True])),
    (collatz, 6), (collatz, 1), (collatz, 27), (dyn, FOUR), (newton, 2.0), (newton, 9.0), (grid, 3),
    (strings, FOUR[:2] - 2, 1), (sorts, np.array([3, 1, 2, 5, 4], np.float32)),
    (bubble, np.array([3.0, 1, 2, 5, 4, 0])), (matpow, np.arange(9.0).reshape(3, 3) / 9, 5),
]

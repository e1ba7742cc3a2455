"""Programs with classes, each for a number: what they return in CPython is what they return compiled."""
import functools
import math
import numpy as np


class Counter:
    step = 1

    def __init__(self, start=0):
        self.n = start
        self.log = []

    def add(self, k=1):
        self.n += k * self.step
        self.log.append(self.n)
        return self.n

    @property
    def twice(self):
        return 2 * self.n

    @twice.setter
    def twice(self, v):
        self.n = v // 2

    @staticmethod
    def helper(a):
        return a + 1

    @classmethod
    def make(cls, n):
        return cls(n)


class Fast(Counter):
    step = 10

    def __init__(self, start=0):
        super().__init__(start + 1)
        self.extra = 5

    def add(self, k=1):
        return super().add(k) + self.extra


class Vec:

    def __init__(self, x, y):
        self.x, self.y = (x, y)

    def __add__(self, o):
        if not isinstance(o, Vec):
            return NotImplemented
        return Vec(self.x + o.x, self.y + o.y)

    def __mul__(self, k):
        return Vec(self.x * k, self.y * k)
    __rmul__ = __mul__

    def __eq__(self, o):
        return self.x == o.x and self.y == o.y

    def __lt__(self, o):
        return self.x < o.x

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return self.x if i == 0 else self.y

    def __iter__(self):
        yield self.x
        yield self.y

    def __neg__(self):
        return Vec(-self.x, -self.y)

    def __call__(self, k):
        return self.x * k + self.y

    def __bool__(self):
        return True

    def norm2(self):
        return self.x ** 2 + self.y ** 2


class SGD:

    def __init__(self, lr):
        self.lr = lr
        self.steps = 0

    def update(self, w, g):
        self.steps += 1
        return w - self.lr * g


class Linear:

    def __init__(self, w, b):
        self.w = w
        self.b = b

    def __call__(self, x):
        return x @ self.w + self.b


class Net:

    def __init__(self, w1, w2):
        self.layers = [Linear(w1, 0.0), Linear(w2, 1.0)]
        self.calls = 0

    def forward(self, x):
        for layer in self.layers:
            x = np.tanh(layer(x))
        self.calls += 1
        return x


class Stack:

    def __init__(self):
        self._items = []

    def push(self, v):
        self._items.append(v)

    def pop(self):
        return self._items.pop()

    def __len__(self):
        return len(self._items)

    def __contains__(self, v):
        return v in self._items

    def __repr__(self):
        return 'Stack!'


class Node:

    def __init__(self, value, left=None, right=None):
        self.value, self.left, self.right = (value, left, right)

    def total(self):
        s = self.value
        if self.left is not None:
            s += self.left.total()
        if self.right is not None:
            s += self.right.total()
        return s

    def depth(self):
        l = self.left.depth() if self.left else 0
        r = self.right.depth() if self.right else 0
        return 1 + max(l, r)


class Rng:

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state * 1103515245 + 12345) % 2147483648
        return self.state / 2147483648.0


class Account:
    interest = 0.1

    def __init__(self, balance=0.0):
        self.__balance = balance

    @property
    def balance(self):
        return self.__balance

    def deposit(self, a):
        if a < 0:
            raise ValueError('negative')
        self.__balance += a

    def grow(self):
        self.__balance *= 1 + self.interest


class Ver:

    def __init__(self, a, b):
        self.a, self.b = (a, b)

    def __eq__(self, o):
        return (self.a, self.b) == (o.a, o.b)

    def __lt__(self, o):
        return (self.a, self.b) < (o.a, o.b)


class Matrix:

    def __init__(self, rows):
        self.data = np.array(rows)

    def __matmul__(self, o):
        return Matrix(self.data @ o.data)

    def __setitem__(self, ij, v):
        self.data[ij] = v

    def __getitem__(self, ij):
        return self.data[ij]

    def __iadd__(self, o):
        self.data = self.data + o.data
        return self


class Shape:

    def area(self):
        raise NotImplementedError

    def describe(self):
        return self.area() * 2


class Sq(Shape):

    def __init__(self, s):
        self.s = s

    def area(self):
        return self.s ** 2


class Ci(Shape):

    def __init__(self, r):
        self.r = r

    def area(self):
        return math.pi * self.r ** 2


class Temp:

    def __init__(self, c):
        self._c = c

    @functools.cached_property
    def f(self):
        return self._c * 9 / 5 + 32


class Ctx:

    def __init__(self):
        self.depth = 0

    def __enter__(self):
        self.depth += 1
        return self

    def __exit__(self, *a):
        self.depth -= 1


class LL:

    def __init__(self):
        self.head = None
        self.size = 0

    def push(self, v):
        self.head = (v, self.head)
        self.size += 1


def simple(n):
    c = Counter()
    for i in range(n):
        c.add(i)
    return (c.n, c.twice)


def inherits(n):
    c = Fast(n)
    d = c
    d.add(3)
    return (c.n, c.add(2), c.log, c.step)


def branch(n):
    c = Counter(n)
    if n > 3:
        c.add(5)
    else:
        c.n = 100
    c.twice = c.n + 4
    return (c.n, Counter.make(7).n, Counter.helper(n), c.helper(2))


def vec(n):
    a, b = (Vec(n, 1), Vec(2, 3))
    s = a + b * 2 + 3 * b
    x, y = s
    return (s.x, s.y, len(s), s[0], a == b, a != b, a < b, a > b, (-s).x, s(2), [v for v in s], s.norm2())


def ret(n):
    v = Vec(n, 2)
    for i in range(n):
        v = v + Vec(i, 1)
    return v


def ret2(n):
    v = Vec(n, 2)
    return ([v, v], {'a': Vec(v, 1)})


def inside(n):
    k = n + 1

    class P:
        base = 3
        other = base + 1

        def __init__(self, v):
            self.v = v

        def get(self):
            return self.v * k + self.base + P.other

    class Q(P):

        def get(self):
            return super().get() + 1
    p = Q(4)
    if n > 2:
        p.v += n
    return (p.get(), isinstance(p, P), isinstance(p, Q), type(p) is Q)


def train(n):
    w = np.arange(4.0)
    opt = SGD(0.1)
    for i in range(n):
        w = opt.update(w, 2 * w)
    return (w, opt.steps, opt)


def net(n):
    m = Net(np.ones((2, 2)) * 0.1, np.ones((2, 2)) * 0.2)
    x = np.ones((1, 2))
    for i in range(n):
        x = m.forward(x)
    return (x, m.calls)


def stack(n):
    s = Stack()
    for i in range(n):
        s.push(i * i)
    t = 0
    while len(s) > 0:
        t = t * 2 + s.pop()
    return (t, len(s), bool(s), 3 in s)


def tree(n):
    t = Node(1, Node(n), Node(3, Node(4, None, Node(n))))
    return (t.total(), t.depth())


def rng(n):
    r = Rng(n)
    inside = 0
    for i in range(n * 10):
        if r.next() ** 2 + r.next() ** 2 < 1:
            inside += 1
    return (inside, r.state)


def account(n):
    a = Account(100.0)
    for i in range(n):
        a.deposit(10)
        if i % 2:
            a.grow()
    return a.balance


def account2(n):
    a = Account(5.0)
    a.deposit(n - 1)
    return a.balance


def ver(n):
    a, b = (Ver(1, n), Ver(1, 2))
    return (a < b, a > b, a == b, a != b)


def matrix(n):
    a = Matrix([[1.0, 2.0], [3.0, 4.0]])
    b = a @ a
    b[0, 1] = n
    b += a
    return (b[0, 1], b.data, a.data)


def shapes(n):
    total = 0.0
    for s in [Sq(n), Ci(2.0), Sq(3)]:
        total += s.describe()
    return total


def temp(n):
    t = Temp(n)
    return (t.f, t.f + 1)


def ctx(n):
    c = Ctx()
    with c as d:
        k = d.depth + n
    return (k, c.depth)


def ident(n):
    a = Rng(n)
    b = a
    c = Rng(n)
    b.state = 99
    return (a.state, a is b, a is c, a == c, a != b, [a, c].index(c) if n < 0 else 0)


def swap(n):
    a, b = (Rng(1), Rng(2))
    for i in range(n):
        a, b = (b, a)
        a.state += 10
    return (a.state, b.state)


def best(n):
    top = Rng(-1)
    for i in range(n):
        cand = Rng(i * 7 % 5)
        if cand.state > top.state:
            top = cand
    return top.state


def getset(n):
    r = Rng(n)
    setattr(r, 'extra', n + 1)
    return (getattr(r, 'extra'), getattr(r, 'nope', -1), hasattr(r, 'state'), hasattr(r, 'nope'), r.__class__.__name__, type(r).__name__)


def fstr(n):
    s = Stack()
    return (f'{s}', str(s))


def counters(n):
    cs = [Rng(i) for i in range(3)]
    for c in cs:
        c.state += n
    return ([c.state for c in cs], sum((c.state for c in cs)), [c.state for c in reversed(cs)])


def late(n):
    r = Rng(1)
    if n > 2:
        r.bonus = 5
    else:
        r.bonus = 7
    for i in range(n):
        r.last = i
    return r.bonus


def classdefault(n):
    a = Account()
    if n > 2:
        a.interest = 0.5
    return a.interest


def dictof(n):
    d = {'a': Rng(1), 'b': Rng(2)}
    for k in d:
        d[k].state *= n
    return (d['a'].state, d['b'].state)


def ll(n):
    l = LL()
    l.push(1)
    l.push(n)
    return (l.head[0], l.size)


def closure_attr(n):
    r = Rng(1)
    r.f = lambda x: x + n
    return r.f(3)


def nonlocal_class(n):
    total = 0
    log = []

    class Acc:

        def add(self, v):
            nonlocal total
            total += v
            log.append(v)
    a = Acc()
    for i in range(n):
        a.add(i)
    return (total, len(log))


def inner2(n):

    class V:

        def __init__(self, x):
            self.x = x

        def __add__(self, o):
            return V(self.x + o.x)

        @classmethod
        def zero(cls):
            return cls(0)

        @staticmethod
        def twice(a):
            return 2 * a

        @property
        def neg(self):
            return -self.x
    s = V.zero()
    for i in range(n):
        s = s + V(V.twice(i))
    return (s.x, s.neg)

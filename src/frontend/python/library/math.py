"""Functions of Python's module math. Numbers in, a number out."""


def exp(x): return numpy.exp(float(x))
def log(x, base=None): return numpy.log(float(x)) if base is None else numpy.log(float(x)) / numpy.log(float(base))
def log2(x): return numpy.log2(float(x))
def log10(x): return numpy.log10(float(x))
def log1p(x): return numpy.log1p(float(x))
def expm1(x): return numpy.expm1(float(x))
def sqrt(x): return numpy.sqrt(float(x))
def sin(x): return numpy.sin(float(x))
def cos(x): return numpy.cos(float(x))
def tan(x): return numpy.tan(float(x))
def asin(x): return numpy.arcsin(float(x))
def acos(x): return numpy.arccos(float(x))
def atan(x): return numpy.arctan(float(x))
def sinh(x): return numpy.sinh(float(x))
def cosh(x): return numpy.cosh(float(x))
def tanh(x): return numpy.tanh(float(x))
def pow(x, y): return float(x) ** float(y)
def fabs(x): return numpy.fabs(float(x))
def floor(x): return int(numpy.floor(float(x)))
def ceil(x): return int(numpy.ceil(float(x)))
def trunc(x): return int(float(x))
def erf(x): return ops.Erf(float(x))
def isnan(x): return numpy.isnan(float(x))
def isinf(x): return numpy.isinf(float(x))
def isfinite(x): return numpy.isfinite(float(x))
def asinh(x): return numpy.arcsinh(float(x))
def acosh(x): return numpy.arccosh(float(x))
def atanh(x): return numpy.arctanh(float(x))
def atan2(y, x): return float(numpy.arctan2(float(y), float(x)))
def copysign(x, y): return float(numpy.copysign(float(x), float(y)))
def degrees(x): return numpy.degrees(float(x))
def radians(x): return numpy.radians(float(x))
def ldexp(x, i): return float(x) * 2.0 ** i
def hypot(x, y): return numpy.sqrt(float(x) * float(x) + float(y) * float(y))


def gcd(a, b):
    a, b = abs(a), abs(b)
    while b != 0:
        a, b = b, a % b
    return a


def lcm(a, b):
    return 0 if a == 0 or b == 0 else abs(a // gcd(a, b) * b)


def factorial(n):
    product = 1
    for i in range(2, n + 1):
        product = product * i
    return product


def prod(iterable, *, start=1):
    product = start
    for item in iterable:
        product = product * item
    return product


def perm(n, k=None):
    product = 1
    for i in range(n if k is None else k):
        product = product * (n - i)
    return product


def comb(n, k):
    result = 1
    for i in range(k):
        result = result * (n - i) // (i + 1)
    return result


def isqrt(n):
    root = int(numpy.sqrt(float(n)))
    while root * root > n:
        root -= 1
    while (root + 1) * (root + 1) <= n:
        root += 1
    return root


def dist(p, q): return sqrt(sum([(a - b) * (a - b) for a, b in zip(p, q)]))


def isclose(a, b, *, rel_tol=1e-9, abs_tol=0.0):
    return a == b or (isfinite(a) and isfinite(b) and abs(a - b) <= max(rel_tol * max(abs(a), abs(b)), abs_tol))

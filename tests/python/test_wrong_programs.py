"""Wrong programs: each is one error with its line, a caret under what is wrong, and a hint."""
import re
import sys

import numpy as np
import pytest

import anfora

SCALE = 2.0
TABLE = {"a": 1}


class Counter:
    def __init__(self):
        self.w = 1.0


COUNTER = Counter()


def async_f(x):

    async def g():
        return x
    return g()


def lambda_default(x):
    return (lambda a, b: a)(x)


def match_tensor(x):
    match x:
        case 1.0:
            return x


def match_function(x):
    match x:
        case match_tensor():
            return x


def match_too_many(x):
    match 3:
        case int(a, b):
            return x * a


def match_without_value(x):
    match int(x[0]):
        case 1:
            y = x
        case 7 | 8:
            y = x + 1
    return y


def class_inside(x):

    class A(Counter, list):
        pass
    return x


def recursion_forever(x):

    def g(y):
        return g(y + 1)
    return g(x)


def wrong_axis(x):
    return x.sum(axis=3)


def wrong_reshape(x):
    return x.reshape(2, 5)


def wrong_concat(x):
    return np.concatenate([x, np.ones((2, 2))])


def wrong_where(x):
    return np.where(x > 1, x, np.ones(7))


def too_many_indices(x):
    return x[0, 0]


def text_index(x):
    return x['a']


def float_index(x):
    return x[1.5]


def call_number(x):
    return SCALE(x)


def call_tensor(x):
    return x(1)


def file_read(x):
    return open('a')


def input_call(x):
    return input()


def print_to(x):
    print(x, file=sys.stderr)
    return x


def matmul_vec(x):
    return x @ np.ones((4, 2))


def unpack_tensor(x):
    a, b = x.shape[0]
    return a


def star_twice(x):
    a, *b = 3
    return a


def dict_order(x):
    return {'a': 1} < {'b': 2}


def list_times(x):
    return [1, 2] * 1.5


def tuple_times(x):
    return (0,) * int(x[0])


def while_tensor(x):
    while x > 0:
        x = x - 1
    return x


def for_number(x):
    for i in 3:
        pass
    return x


def range_float(x):
    for i in range(2.5):
        pass
    return x


def range_zero_step(x):
    s = 0
    for i in range(0, 3, 0):
        s += i
    return s


def list_grow_types(x):
    out = []
    for i in range(int(x[0])):
        out.append((x, i)) if i else out.append(i)
    return out


def append_in_branch(x):
    out = [1]
    if x[0] > 0:
        out.append('text')
    return out


def return_types(x):
    if x[0] > 0:
        return x
    return (x, x)


def return_function(x):
    return lambda: x


def return_module(x):
    return np


def assert_text(x):
    assert x.sum() > 100, x
    return x


def nested_tensor_assign(x):
    x[0][1] = 2
    return x


def const_assign(x):
    t = (1, 2)
    t[0] = 3
    return x


def str_method(x):
    return 'abc'.frob()


def fmt(x):
    return '%d' % x[0]


def del_item(x):
    d = {'a': 1}
    del d['b']
    return x


def walrus_comp(x):
    return [(y := 1), y, z]


def np_unknown_kw(x):
    return np.sum(x, wrong=3)


def np_dtype(x):
    return x.astype('float99')


def np_many(x):
    return np.exp(x, x, x, x)


def complex_number(x):
    return x * 1j


def big(x):
    return x + 10 ** 400


def shift(x):
    return 1 << -1


def mod_zero(x):
    return 5 % 0


def int_of_text(x):
    return int('abc')


def min_empty(x):
    return min([])


def zip_strict(x):
    return sum((a for a, b in zip(x, 5)))


def enumerate_number(x):
    return [i for i, a in enumerate(7)]


def attribute_of_none(x):
    y = None
    return y.shape


def add_none(x):
    return x + None


def compare_none(x):
    return None < 1


def object_method(x):
    return COUNTER.run(x)


def object_write(x):
    COUNTER.w = x
    return x


def global_dict_write(x):
    TABLE['a'] = x
    return x


def keyword_twice(x):

    def g(a, b):
        return a
    return g(1, a=2)


def positional_only(x):

    def g(a, /):
        return a
    return g(a=x)


def nonlocal_missing(x):
    y = 1

    def g():
        return q
    return g()


def except_of_a_division(x):
    n = int(x[0])
    try:
        return x * (1 / n)
    except ZeroDivisionError:
        return x


def except_of_a_call(x):

    def g(y):
        assert y.sum() > 0
        return y
    try:
        return g(x)
    except Exception:
        return x


def except_of_unrelated_classes(x):
    try:
        if x.sum() > 0:
            raise Counter
    except ValueError:
        return x


def with_tensor(x):
    with x as y:
        return y


def with_a_file(x):
    with open('a') as file:
        return x


def with_errors_of_numpy(x):
    with np.errstate(divide='raise'):
        return x / 0


def yield_in_with(x):

    def g():
        with np.errstate(divide='ignore'):
            yield x
    return sum(g())


def einsum_bad(x):
    return np.einsum('ij,jk->ik', x, x)


def stack_mixed(x):
    return np.stack([x, x[:2]])


def bitand(x):
    return x & 1


def invert(x):
    return ~x


def separated_indices(x):
    y = x.reshape(1, 3, 1)
    return y[0, :, [0, 0]]


WRONG = [
    (separated_indices, "an integer and a tensor as indices with slices between them"),
    (async_f, 'AsyncFunctionDef is not supported in a compiled function'),
    (lambda_default, "the lambda needs a value for 'b'"),
    (match_tensor, 'the truth of bool[3] is ambiguous'),
    (match_function, 'function match_tensor is no class'),
    (match_too_many, 'int() takes 1 patterns by position, 2 are given'),
    (match_without_value, "'y' has no value on the path through line"),
    (class_inside, 'a class inside of a function derives from one class'),
    (recursion_forever, 'g() never returns: each of its paths calls itself'),
    (wrong_axis, 'ReduceSum: axis 3 is out of range for rank 1'),
    (wrong_reshape, '3 elements cannot have the shape 2x5'),
    (wrong_concat, 'Concat: ranks 1 and 2 should be the same'),
    (wrong_where, 'shapes 3 and 7 do not broadcast'),
    (too_many_indices, '2 indices for 1 axes'),
    (text_index, 'str is no index'),
    (float_index, 'float is no index'),
    (call_number, 'float cannot be called'),
    (call_tensor, 'f64[3] cannot be called'),
    (file_read, "the name 'open' is not defined"),
    (input_call, "the name 'input' is not defined"),
    (print_to, 'print() with file= is not supported'),
    (matmul_vec, 'the inner dimensions of 3 and 4x2 differ'),
    (unpack_tensor, 'int has no items'),
    (star_twice, 'int has no items'),
    (dict_order, 'dict and dict have no order'),
    (list_times, 'a list cannot be repeated float times'),
    (tuple_times, 'how often a tuple of 1 is repeated must be known to the compiler'),
    (while_tensor, 'the truth of bool[3] is ambiguous'),
    (for_number, 'int has no length'),
    (range_float, 'range() takes integers, not float'),
    (range_zero_step, 'the step of range() is 0'),
    (list_grow_types, 'a list or variable that others see is tuple of 2 on one path to here, int on another'),
    (append_in_branch, 'a list or variable that others see is list of 1 on one path to here, list of 2 on another'),
    (return_types, 'the result is f64[3] (line N) on one path to here, tuple of 2 (line N) on another'),
    (return_function, 'a lambda cannot be returned from a compiled function'),
    (return_module, 'numpy cannot be returned from a compiled function'),
    (assert_text, 'assert x.sum() > 100'),
    (nested_tensor_assign, '1 indices for 0 axes'),
    (const_assign, 'items of tuple of 2 cannot be assigned'),
    (str_method, "str has no 'frob' that can be compiled"),
    (fmt, 'str % f64[] is not defined'),
    (del_item, "the dict has no such key: 'b'"),
    (walrus_comp, "the name 'z' is not defined"),
    (np_unknown_kw, "sum() has no argument 'wrong'"),
    (np_dtype, 'str is no element type'),
    (np_many, 'exp() takes 1 arguments, 4 are given'),
    (complex_number, 'complex numbers of Python are not supported in a compiled function'),
    (big, 'an integer of 401 digits does not fit f64'),
    (shift, 'the number of bits to shift by is negative'),
    (mod_zero, 'division by zero'),
    (int_of_text, "int() of the text 'abc', which is no number"),
    (min_empty, 'min() of an empty sequence'),
    (zip_strict, 'int has no length'),
    (enumerate_number, 'int has no length'),
    (attribute_of_none, "None has no 'shape' that can be compiled"),
    (add_none, 'f64[3] + None is not defined'),
    (compare_none, 'None and int have no order'),
    (object_method, "Counter has no 'run'"),
    (object_write, 'this would change the attribute \'w\' of a Counter that the caller holds'),
    (global_dict_write, 'this would change a dict that the caller holds'),
    (keyword_twice, "g() gets 'a' twice"),
    (positional_only, "g() has no argument 'a'"),
    (nonlocal_missing, "the name 'q' is not defined"),
    (except_of_a_division, 'the ZeroDivisionError that is raised here would be caught in line'),
    (except_of_a_call, 'the AssertionError that is raised here would be caught in line'),
    (except_of_unrelated_classes, "whether 'except ValueError' takes this cannot be told"),
    (with_tensor, "f64[3] has no '__enter__' that can be compiled"),
    (with_a_file, "the name 'open' is not defined"),
    (with_errors_of_numpy, "errstate(divide=…) is not supported but for 'ignore' and 'warn'"),
    (yield_in_with, 'yield in a try or with is not supported'),
    (einsum_bad, "Einsum: operand 0 of 'ij,jk->ik' does not fit a tensor of rank 1"),
    (stack_mixed, 'cannot concatenate shapes 1x3 and 1x2 along axis 0'),
    (bitand, 'f64[3] & int is not defined'),
    (invert, '~(f64[3]) is not defined'),
]


@pytest.mark.parametrize("function, message", WRONG, ids=lambda value: getattr(value, "__name__", None))
def test_wrong_program(function, message):
    with pytest.raises(anfora.Error) as caught:
        anfora.jit(function)(np.arange(3.0) + 1)
    error = caught.value
    assert re.sub(r"\(line \d+\)", "(line N)", error.message).startswith(message)
    file, line, column = error.location.split(":")
    code = function.__code__
    last = max(number for *_, number in code.co_lines() if number)
    assert file == "test_wrong_programs.py" and code.co_firstlineno <= int(line) <= last + 2 and int(column) > 0
    assert "^" in error.excerpt and error.hint

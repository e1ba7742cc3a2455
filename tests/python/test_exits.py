"""`try`, `raise` and `with`, in compiled functions as in CPython."""

import contextlib
import math
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from refusals import expect_refusal

import anfora

X = np.array([0.5, 1.0, 2.0])
NUMBERS = (0, 1, 2, 3, 4, 5, -4, 7, 13)


class OwnError(Exception):
    pass


@dataclass
class Scale:
    by: Any
    log: Any

    def __enter__(self) -> Any:
        self.log.append(1)
        return self.by

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.log.append(2)


def contexts_without_effect(n: Any, x: Any) -> Any:
    with nullcontext(), contextlib.nullcontext(x * 2) as y, np.errstate(divide="ignore", invalid="warn"):
        if n > 3:
            return y / 0
        z = y + n
    return z


def own_context(n: Any, x: Any) -> Any:
    log: list[Any] = []
    with Scale(n, log) as k:
        with Scale(k, log) as j:
            y = x * k + j
    return y + len(log) * 10 + log[-1]


def ways_out_of_a_context(n: Any, x: Any) -> Any:
    total = 0
    for i in range(n):
        with nullcontext(i) as k:
            if k == 2:
                continue
            if k == 5:
                break
            total += k
    return x * total


def nested_finally(n: Any, x: Any) -> Any:
    counts = [0]

    def f() -> Any:
        try:
            if n > 3:
                return n * 10
            for i in range(3):
                try:
                    if i == n:
                        break
                    counts[0] += 1
                finally:
                    counts[0] += 100
        finally:
            counts[0] += 1000
        return 5

    result = f()
    return x * result + counts[0]


def all_parts(n: Any, x: Any) -> Any:
    try:
        if n < 0:
            raise ValueError("negative")
        if n == 1:
            raise KeyError
        if n == 2:
            raise RuntimeError("two")
        for i in range(n):
            if i == 6:
                raise ZeroDivisionError()
        assert n != 7, "seven"
        y = x + n
    except (ValueError, ArithmeticError) as error:  # noqa: F841
        y = x - 1
    except KeyError:
        return x * 100
    except Exception:
        y = x * 7
    else:
        y = y * 2
    finally:
        x = x + 50
    return y + x


def raised_in_a_handler(n: Any, x: Any) -> Any:
    total = 0
    try:
        try:
            if n == 0:
                raise IndexError
            if n == 1:
                raise ValueError
            total += 1
        except LookupError:
            total += 10
            raise ValueError
        finally:
            total += 100
    except ValueError:
        total += 1000
    return x * total


def value_before_finally(n: Any, x: Any) -> Any:
    y = n
    try:
        return x * y
    finally:
        y = 100


def continue_in_a_handler(n: Any, x: Any) -> Any:
    for i in range(5):
        try:
            if i == n:
                raise ValueError
        except ValueError:
            continue
        finally:
            x = x + 1
        x = x * 2
    return x


def return_in_finally(n: Any, x: Any) -> Any:
    try:
        raise OwnError
    finally:
        if n >= -100:
            return x + n  # noqa: B012


def own_class(n: Any, x: Any) -> Any:
    try:
        if n > 2:
            raise OwnError(n)
        x = x + 1
    except OwnError:
        x = x * 2
    return x


def constants_differ_between_the_ways_out(n: Any, x: Any) -> Any:
    k = 1
    try:
        if n == 3:
            k = 7
            return x * k
        k = 2
    finally:
        x = x + k
    return x * k


RIGHT = [contexts_without_effect, own_context, ways_out_of_a_context, nested_finally, all_parts, raised_in_a_handler, value_before_finally,
         continue_in_a_handler, return_in_finally, own_class, constants_differ_between_the_ways_out]


class CodedError(OwnError):
    def __init__(self, code: Any, why: str = "unknown") -> None:
        super().__init__(why)
        self.code = code

    def described(self) -> str:
        return f"coded: {self}"


def exception_as_a_value(n: Any) -> Any:
    try:
        if n > 4:
            raise ValueError("large")
        if n < 0:
            raise ValueError("negative")
        return "fine", 0, False, False
    except (ValueError, KeyError) as error:
        return f"{error}!", len(error.args), isinstance(error, ValueError), isinstance(error, LookupError)


def exception_with_a_number(n: Any) -> Any:
    total = 0
    for i in range(abs(n)):
        try:
            if i % 2:
                raise OwnError(i, "odd")
            total += 1
        except OwnError as error:
            total += error.args[0] * 10 if error.args[1] == "odd" else 100
    return total


def exception_with_attributes(n: Any) -> Any:
    log = []
    try:
        try:
            if n > 3:
                raise CodedError(n * 2)
            if n > 1:
                raise CodedError(n, "small")
            log.append(0)
        finally:
            n += 1
    except CodedError as error:
        error.code += 1
        return error.code, str(error), error.described(), error.args, n
    return 0, "", "", ("",), n


def failed_assertion(n: Any) -> Any:
    try:
        assert n > 3, "not enough"
    except AssertionError as error:
        return str(error).startswith("not enough"), len(error.args)
    return False, 0


def key_error(n: Any) -> Any:
    try:
        raise KeyError("a key" if n > 2 else "none")
    except KeyError as error:
        return error.args[0]


def exception_of_a_class_inside(n: Any) -> Any:
    class Mine(ValueError):
        pass

    kept = ValueError("kept")
    try:
        if n > 2:
            raise Mine("mine")
        return str(kept), isinstance(kept, Exception)
    except Mine as error:
        return str(error), isinstance(error, ArithmeticError)


@pytest.mark.parametrize("function", [exception_as_a_value, exception_with_a_number, exception_with_attributes, failed_assertion, key_error,
                                      exception_of_a_class_inside], ids=lambda f: f.__name__)
def test_exceptions_as_values(function: Callable[..., Any]) -> None:
    compiled = anfora.jit(function)
    for n in NUMBERS:
        assert compiled(n) == function(n)


def test_gradient_through_an_exception() -> None:
    def loss(x: Any) -> Any:
        try:
            if x > 1:
                raise CodedError(x * x)
            return x
        except CodedError as error:
            return error.code * 3

    assert anfora.grad(loss)(2.0) == 12.0
    assert anfora.grad(loss)(0.5) == 1.0


@pytest.mark.parametrize("function", RIGHT, ids=lambda f: f.__name__)
@np.errstate(divide="ignore")
def test_ways_out(function: Callable[..., Any]) -> None:
    compiled = anfora.jit(function)
    for n in NUMBERS:
        np.testing.assert_allclose(compiled(n, X), function(n, X), err_msg=str(n))


def test_gradient_of_a_try() -> None:
    gradient = anfora.grad(lambda x, n: own_class(n, x).sum())
    np.testing.assert_allclose(gradient(X, 1), np.full(3, 1.0))
    np.testing.assert_allclose(gradient(X, 3), np.full(3, 2.0))


def test_effects_on_the_way_out(capfd: pytest.CaptureFixture[str]) -> None:
    def f(n: Any) -> Any:
        try:
            if n > 1:
                return n
            print("one")
        finally:
            print("end", n)
        return n + 1

    for n in (1, 2):
        assert anfora.jit(f)(n) == n + 1 - (n > 1)
        shown = re.findall("one|end", capfd.readouterr().err)
        f(n)
        assert shown == re.findall("one|end", capfd.readouterr().out)


def test_what_nothing_catches_ends_the_run() -> None:
    def f(x: Any) -> Any:
        try:
            if x.sum() > 3:
                raise KeyError("no such key")
        except IndexError:
            x = x + 1
        return x

    np.testing.assert_allclose(anfora.jit(f)(X * 0), X * 0)
    with pytest.raises(anfora.Error, match="KeyError\\('no such key'\\)"):
        anfora.jit(f)(X)


def throws(n: Any) -> Any:
    if n > 2:
        raise ValueError
    return n


def thrown_by_a_function(n: Any, x: Any) -> Any:
    try:
        return x * throws(n)
    except ValueError:
        return x


def division_of_numbers(n: Any, x: Any) -> Any:
    try:
        return x * (1 / n)
    except ZeroDivisionError:
        return x


def root_of_a_number(n: Any, x: Any) -> Any:
    try:
        return x * math.sqrt(n)
    except ValueError:
        return x


def integer_of_a_float(n: Any, x: Any) -> Any:
    try:
        return x * int(x[0])
    except:  # noqa: E722
        return x


def classes_of_the_program(n: Any, x: Any) -> Any:
    try:
        if n > 2:
            raise OwnError
    except ValueError:
        return x
    return x + 1


def exception_passes_a_context(n: Any, x: Any) -> Any:
    with Scale(1, []):
        if n > 2:
            raise ValueError
    return x


def exceptions_of_two_classes(n: Any, x: Any) -> Any:
    try:
        if n > 2:
            raise ValueError("three")
        raise KeyError("two")
    except Exception as error:
        return x + len(error.args)


def text_of_a_number(n: Any, x: Any) -> Any:
    try:
        raise ValueError(n)
    except ValueError as error:
        return x + len(str(error))


def yield_in_a_try(n: Any, x: Any) -> Any:
    def g() -> Iterator[Any]:
        try:
            yield 1
        finally:
            pass

    return x * sum(g())


def tensor_as_a_context(n: Any, x: Any) -> Any:
    with x:
        return x


def errors_that_numpy_should_raise(n: Any, x: Any) -> Any:
    with np.errstate(all="raise"):
        return x / n


WRONG = [
    (thrown_by_a_function, "the ValueError that is raised here would be caught in line [0-9]+"),
    (division_of_numbers, "the ZeroDivisionError that is raised here would be caught"),
    (root_of_a_number, "the ValueError that is raised here would be caught"),
    (integer_of_a_float, "the ValueError that is raised here would be caught"),
    (classes_of_the_program, "whether 'except ValueError' takes this cannot be told"),
    (exception_passes_a_context, "this exception would pass the __exit__ of Scale"),
    (exceptions_of_two_classes, "'error' is ValueError .* on one path to here, KeyError"),
    (text_of_a_number, "a text that depends on values of the run"),
    (yield_in_a_try, "yield in a try or with is not supported"),
    (tensor_as_a_context, "f64\\[3\\] has no '__enter__'"),
    (errors_that_numpy_should_raise, "errstate\\(all=…\\) is not supported but for 'ignore' and 'warn'"),
]


@pytest.mark.parametrize("function, message", WRONG, ids=lambda value: getattr(value, "__name__", None))
def test_wrong_way_out(function: Callable[..., Any], message: str) -> None:
    expect_refusal(function, message, 3, X)

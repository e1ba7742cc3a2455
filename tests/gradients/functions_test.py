"""Gradients of Python functions against finite differences: branches, loops, closures, structures, higher orders."""

import math
import unittest

import anfora
import numpy as np


def square(x):
    return (x * x).sum()


def branch(x):
    if x.sum() > 0:
        y = np.sin(x)
    else:
        y = np.exp(x)
    return (y * x).sum()


def while_loop(x, n):
    i = 0
    while i < n:
        x = np.sin(x * x) + x
        i += 1
    return x.sum()


def for_loop(x, n):
    total = 0.0
    for i in range(n):
        if i % 2 == 0:
            total = total + np.sin(x[0] * i)
        else:
            x = x * 1.1
    return total + x.sum()


def nested_loops(x, n):
    for i in range(n):
        for _ in range(i):
            x = np.sin(x) + 0.1 * x
    return x.sum()


def rows(x):
    total = 0.0
    for row in x:
        total += np.sqrt(row * row + 1.0)
    return total


def left_early(x, n):
    for _ in range(n):
        x = x * 1.3
        if x.sum() > 3.0:
            break
    return (x * x).sum()


def searched(x, n):
    i = 0
    while i < n:
        i = i + 1
        if i % 3 == 0:
            continue
        x = x * 0.9999 + 0.0001
        if x > 50:
            return x * 3
        if x < -50:
            break
    else:
        x = x * 2
    return x


def until_small(x, limit):
    while (x * x).sum() > limit:
        x = x * 0.7 + 0.01 * np.sin(x)
    return x.sum()


def closure(x):
    def scaled(v):
        return v * np.tanh(x)

    return scaled(scaled(x)).sum()


def number(a, n):
    for _ in range(n):
        a = a * a if a < 1 else a + 1
    return a


def slow(a, n):
    i = 0
    while i < n:
        a = a * 0.999999 + 0.000001 * np.sin(a)
        i += 1
    return a


def loss(weights, batch):
    return ((batch @ weights["w"] + weights["b"]) ** 2).sum()


def appended(x, n):
    items = []
    for i in range(n):
        items.append(x * i)
    return sum(items)


def read_back(x, n):
    items = [x]
    for i in range(n):
        items.append(np.sin(items[i] * (i + 1)))
    return items[n // 2] * items[-1] + sum(items)


def popped(x, n):
    items = []
    for i in range(n):
        items.append(x * i)
    items.insert(1, np.cos(x))
    last = items.pop()
    return items[0] + np.sin(last) * items[1]


def scaled(v):
    return np.sin(v) * v.sum()


def neighbours(v):
    return v[:2] * v[1:]


def two_rows(v):
    return np.stack([v, np.exp(v)])


def difference(function, x, *rest, step=1e-6):
    if isinstance(x, float):
        return (function(x + step, *rest) - function(x - step, *rest)) / (2 * step)
    gradient = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        moved = np.zeros_like(x)
        moved[i] = step
        gradient[i] = (function(x + moved, *rest) - function(x - moved, *rest)) / (2 * step)
    return gradient


class Gradients(unittest.TestCase):
    def check(self, function, x, *rest):
        np.testing.assert_allclose(anfora.grad(function)(x, *rest), difference(function, x, *rest), rtol=1e-6, atol=1e-7)

    def test_control_flow(self):
        x = np.array([0.3, -0.5, 0.9])
        for function, *arguments in ((square, x), (branch, x), (branch, -x), (while_loop, x, 5), (while_loop, x, 0), (for_loop, x, 6),
                                     (nested_loops, x, 4), (rows, x), (left_early, x, 10), (closure, x), (number, 0.9, 4)):
            with self.subTest(function.__name__):
                self.check(function, *arguments)

    def test_million_iterations(self):
        self.assertAlmostEqual(anfora.grad(slow)(0.9, 1_000_000), difference(slow, 0.9, 1_000_000), 6)

    def test_loops_that_end_at_several_places(self):
        for x, n in ((1.3, 30), (51.0, 30), (-52.0, 30), (2.0, 100_000)):
            self.assertAlmostEqual(anfora.grad(searched)(x, n), difference(searched, x, n), 5)
        self.assertNotIn("func(f64", anfora.grad(searched).lower(2.0, 30).optimize()._core.text())

    def test_higher_orders(self):
        derivative = lambda v: np.sin(v) * v  # noqa: E731
        for expected in (math.sin(0.7) + 0.7 * math.cos(0.7), 2 * math.cos(0.7) - 0.7 * math.sin(0.7), -3 * math.sin(0.7) - 0.7 * math.cos(0.7)):
            derivative = anfora.grad(derivative)
            self.assertAlmostEqual(float(derivative(np.float64(0.7))), expected, 12)

    def test_checkpoints(self):
        x = np.array([0.3, -0.5, 0.9])
        for function, *arguments in ((while_loop, x, 9), (nested_loops, x, 4), (left_early, x, 10), (rows, x), (number, 0.9, 7),
                                      *((until_small, x, limit) for limit in (2.0, 1.0, 0.1, 1e-9))):
            for checkpoints in (1, 3):
                with self.subTest(function.__name__, checkpoints=checkpoints):
                    value, gradient = anfora.value_and_grad(function, checkpoints=checkpoints)(*arguments)
                    self.assertAlmostEqual(float(value), float(function(*arguments)), 12)
                    np.testing.assert_allclose(gradient, anfora.grad(function)(*arguments), rtol=1e-12)
        with self.assertRaisesRegex(anfora.InvalidArgumentError, "1 at least"):
            anfora.grad(number, checkpoints=0)

    def test_lists(self):
        for function, *arguments in ((appended, 2.0, 5), (appended, 2.0, 0), (read_back, 0.3, 5), (popped, 0.7, 4)):
            with self.subTest(function.__name__):
                self.check(function, *arguments)

    def test_second_derivatives_of_loops(self):
        for function, x, n in ((while_loop_of_number, 0.9, 3), (while_loop_of_number, 0.9, 0), (number, 0.9, 4), (read_back, 0.3, 5), (popped, 0.7, 4)):
            with self.subTest(function.__name__):
                self.assertAlmostEqual(anfora.grad(anfora.grad(function))(x, n), difference(anfora.grad(function), x, n), 5)
        self.assertAlmostEqual(anfora.grad(anfora.grad(anfora.grad(while_loop_of_number)))(0.9, 3),
                               difference(anfora.grad(anfora.grad(while_loop_of_number)), 0.9, 3), 5)

    def test_vjp_and_jvp(self):
        function = lambda x, w: (np.sin(x @ w), {"squares": (w * w).sum()})  # noqa: E731
        random = np.random.default_rng(1)
        x, w, c = random.normal(size=(3, 4)), random.normal(size=(4, 2)), random.normal(size=(3, 2))
        (value, rest), pullback = anfora.vjp(function, x, w)
        np.testing.assert_allclose(value, np.sin(x @ w))
        dx, dw = pullback((c, {"squares": 2.0}))
        np.testing.assert_allclose(dx, (c * np.cos(x @ w)) @ w.T)
        np.testing.assert_allclose(dw, x.T @ (c * np.cos(x @ w)) + 4 * w)
        v, u = random.normal(size=x.shape), random.normal(size=w.shape)
        (value, rest), (along, of_rest) = anfora.jvp(function, (x, w), (v, u))
        np.testing.assert_allclose(value, np.sin(x @ w))
        np.testing.assert_allclose(along, np.cos(x @ w) * (v @ w + x @ u))
        self.assertAlmostEqual(of_rest["squares"], (2 * w * u).sum(), 12)

    def test_jacobian_and_hessian(self):
        x = np.array([0.3, -0.5, 0.9])
        for function in (scaled, neighbours, two_rows):
            expected = np.stack([(function(x + d) - function(x - d)) / 2e-6 for d in 1e-6 * np.eye(3)], -1)
            np.testing.assert_allclose(anfora.jacobian(function)(x), expected, rtol=1e-6, atol=1e-8)
        for function, *rest in ((while_loop, 4), (for_loop, 6), (nested_loops, 4)):
            with self.subTest(function.__name__):
                gradient = anfora.grad(function)
                expected = np.stack([(gradient(x + d, *rest) - gradient(x - d, *rest)) / 2e-6 for d in 1e-6 * np.eye(3)])
                np.testing.assert_allclose(anfora.hessian(function)(x, *rest), expected, rtol=1e-5, atol=1e-7)

    def test_structures(self):
        weights, batch = {"w": np.ones((3, 2)), "b": np.ones(2)}, np.ones((4, 3))
        value, (of_weights, of_batch) = anfora.value_and_grad(loss, argnums=(0, 1))(weights, batch)
        self.assertEqual(float(value), 128)
        np.testing.assert_array_equal(of_weights["w"], np.full((3, 2), 32.0))
        np.testing.assert_array_equal(of_weights["b"], np.full(2, 32.0))
        np.testing.assert_array_equal(of_batch, np.full((4, 3), 16.0))

    def test_jit(self):
        np.testing.assert_array_equal(anfora.jit(anfora.grad(anfora.jit(square)))(np.ones(3)), np.full(3, 2.0))

    def test_one_element(self):
        x = np.array([[0.3, -0.5]])
        for function in (lambda x: np.sum(np.sin(x), keepdims=True), lambda x: np.sum(np.sin(x), axis=1)):
            np.testing.assert_allclose(anfora.grad(function)(x), np.cos(x))
            value, gradient = anfora.value_and_grad(function)(x)
            self.assertEqual(value.shape, function(x).shape)
            inside = anfora.jit(lambda x: anfora.grad(function)(x) * 2)  # noqa: B023
            np.testing.assert_allclose(inside(x), 2 * np.cos(x))

    def test_at_zero(self):
        for function in (lambda x: np.std(x), lambda x: np.linalg.norm(x)):
            np.testing.assert_array_equal(anfora.grad(function)(np.zeros(3)), np.zeros(3))

    def test_refused(self):
        with self.assertRaisesRegex(anfora.UnsupportedError, "Jacobian of a Jacobian"):
            anfora.jacobian(anfora.jacobian(lambda x: x * x))
        with self.assertRaisesRegex(anfora.TypeMismatchError, "not one float"):
            anfora.grad(lambda x: x * x)(np.ones(3))
        with self.assertRaisesRegex(anfora.InvalidArgumentError, "no float"):
            anfora.grad(lambda x: float(x) * 2.0)(3)


def while_loop_of_number(a, n):
    i = 0
    while i < n:
        a = np.sin(a) * a
        i += 1
    return a


if __name__ == "__main__":
    unittest.main()

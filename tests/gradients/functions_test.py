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

    def test_higher_orders(self):
        derivative = lambda v: np.sin(v) * v  # noqa: E731
        for expected in (math.sin(0.7) + 0.7 * math.cos(0.7), 2 * math.cos(0.7) - 0.7 * math.sin(0.7), -3 * math.sin(0.7) - 0.7 * math.cos(0.7)):
            derivative = anfora.grad(derivative)
            self.assertAlmostEqual(float(derivative(np.float64(0.7))), expected, 12)

    def test_structures(self):
        weights, batch = {"w": np.ones((3, 2)), "b": np.ones(2)}, np.ones((4, 3))
        value, (of_weights, of_batch) = anfora.value_and_grad(loss, argnums=(0, 1))(weights, batch)
        self.assertEqual(float(value), 128)
        np.testing.assert_array_equal(of_weights["w"], np.full((3, 2), 32.0))
        np.testing.assert_array_equal(of_weights["b"], np.full(2, 32.0))
        np.testing.assert_array_equal(of_batch, np.full((4, 3), 16.0))

    def test_jit(self):
        np.testing.assert_array_equal(anfora.jit(anfora.grad(anfora.jit(square)))(np.ones(3)), np.full(3, 2.0))

    def test_refused(self):
        with self.assertRaisesRegex(anfora.TypeMismatchError, "not one float"):
            anfora.grad(lambda x: x * x)(np.ones(3))
        with self.assertRaisesRegex(anfora.InvalidArgumentError, "no float"):
            anfora.grad(lambda x: float(x) * 2.0)(3)
        with self.assertRaisesRegex(anfora.UnsupportedError, "SequenceAt has no gradient"):
            anfora.grad(anfora.grad(while_loop_of_number))(0.2, 3)


def while_loop_of_number(a, n):
    i = 0
    while i < n:
        a = np.sin(a) * a
        i += 1
    return a


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""The tests of PyPI's autograd with Anfora in the place of autograd.

usage: autograd_suite.py TESTS [arguments of pytest]

TESTS is the folder `tests` of autograd's sdist. A package `autograd` of this file's own stands in for it: numpy is numpy, `check_grads`
compares anfora.vjp and anfora.jvp with central differences, of the first order. What it cannot express does not count: files that need
autograd's own machinery (tracers, primitives, vector spaces) are errors of collection, tests of nothing but complex numbers and those in
NOT_EXPRESSED are skipped.
"""
import itertools
import pathlib
import sys
import types

import numpy as np
import pytest

import anfora

STEP, TOLERANCE = 1e-5, 1e-5

NOT_EXPRESSED = {
    "test_make_diagonal": "a function that numpy does not have",
    "test_diagonal": "a function that numpy does not have",
    "test_pinv": "names of numpy.linalg that numpy does not have",
    "test_r_basic": "draws random numbers in what is differentiated",
    "test_r_double": "draws random numbers in what is differentiated",
    "test_partition": "the order within the parts is numpy's own affair",
    "test_rfftn_odd_not_implemented": "asks for an error of autograd's",
    "test_assignment_raises_error": "asks for an error of autograd's",
    "test_real_type": "complex numbers",
    "test_real_if_close_type": "complex numbers",
    "test_complex_mutating_outgrad_from_indexing": "complex numbers",
    "test_eig_real": "complex numbers",
    "test_cholesky_reparameterization_trick": "draws random numbers in what is differentiated",
}


def leaves(value):
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [np.asarray(value)]


def rebuilt(value, new):
    """What has the structure of a value, of the leaves that an iterator gives."""
    if isinstance(value, (tuple, list)):
        return type(value)(rebuilt(item, new) for item in value)
    if isinstance(value, dict):
        return {key: rebuilt(item, new) for key, item in value.items()}
    found = next(new)
    return float(found) if isinstance(value, float) else found


def inner(a, b):
    return sum(float((x * y).sum()) for x, y in zip(leaves(a), leaves(b)) if np.issubdtype(x.dtype, np.floating))


def check(function, arguments, numbers, keywords, modes):
    random = np.random.default_rng(0)
    if any(np.iscomplexobj(leaf) for leaf in leaves(list(arguments))):
        Skips.left_out += 1
        return
    arguments = [float(a) if isinstance(a, (np.floating, int)) and i in numbers else a for i, a in enumerate(arguments)]
    primals = [arguments[i] for i in numbers]

    def of(*chosen):
        given = list(arguments)
        for i, value in zip(numbers, chosen):
            given[i] = value
        return function(*given, **keywords)

    numpys = of(*primals)
    if any(np.iscomplexobj(leaf) for leaf in leaves(numpys)):
        Skips.left_out += 1
        return
    Skips.checked += 1
    value, pullback = anfora.vjp(of, *primals)
    tangents = [rebuilt(p, iter([random.standard_normal(leaf.shape) for leaf in leaves(p)])) for p in primals]

    # Vectors of a factorization have any sign: the values are compared without.
    for a, b in zip(leaves(value), leaves(numpys)):
        np.testing.assert_allclose(np.abs(a), np.abs(b), rtol=TOLERANCE, atol=TOLERANCE)

    def moved(step):
        return anfora.vjp(of, *(rebuilt(p, iter([a + step * b for a, b in zip(leaves(p), leaves(t))])) for p, t in zip(primals, tangents)))[0]

    along = [(a - b) / (2 * STEP) for a, b in zip(leaves(moved(STEP)), leaves(moved(-STEP)))]
    weights = rebuilt(value, iter([random.standard_normal(leaf.shape) for leaf in leaves(value)]))
    expected = inner(along, weights)
    if "rev" in modes:
        found = sum(inner(t, g) for t, g in zip(tangents, pullback(weights)) if g is not None)
        assert abs(found - expected) <= TOLERANCE * max(1, abs(expected)), ("vjp", found, expected)
    if "fwd" in modes:
        found = inner(anfora.jvp(of, tuple(primals), tuple(tangents))[1], weights)
        assert abs(found - expected) <= TOLERANCE * max(1, abs(expected)), ("jvp", found, expected)


def check_grads(function, argnum=0, modes=("fwd", "rev"), order=2):
    numbers = (argnum,) if isinstance(argnum, int) else tuple(argnum)
    return lambda *arguments, **keywords: check(function, arguments, numbers, keywords, modes)


def combo_check(function, *how, **options):
    def run(*lists, **keywords):
        named = [[(key, value) for value in values] for key, values in keywords.items()]
        for arguments in itertools.product(*lists):
            for chosen in itertools.product(*named):
                check_grads(function, *how, **options)(*arguments, **dict(chosen))

    return run


def scalar_close(a, b):
    return abs(a - b) < 1e-6 or abs(a - b) / abs(a + b) < 1e-6


def check_equivalent(x, y):
    for a, b in zip(leaves(x), leaves(y)):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


class Skips:
    """Skips what is not expressed, and after its run, a test of which all was left out."""

    left_out = checked = 0

    def pytest_collection_modifyitems(self, items):
        for item in items:
            if reason := NOT_EXPRESSED.get(item.name):
                item.add_marker(pytest.mark.skip(reason=reason))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        Skips.left_out = Skips.checked = 0
        yield
        if Skips.left_out and not Skips.checked:
            pytest.skip("complex numbers")


def grad(function, argnum=0):
    return anfora.grad(function, argnum)


def elementwise_grad(function, argnum=0):
    def total(*arguments, **keywords):
        return function(*arguments, **keywords).sum()

    return anfora.grad(total, argnum)


def stand_in():
    def module(name, **content):
        made = types.ModuleType(name)
        made.__dict__.update(content)
        made.__path__ = []
        sys.modules[name] = made
        return made

    module("autograd", grad=grad, value_and_grad=anfora.value_and_grad, jacobian=anfora.jacobian, hessian=anfora.hessian,
           elementwise_grad=elementwise_grad, deriv=elementwise_grad, tuple=tuple, list=list, dict=dict, isinstance=isinstance, numpy=np)
    sys.modules.update({"autograd.numpy": np, "autograd.numpy.random": np.random, "autograd.numpy.linalg": np.linalg, "autograd.numpy.fft": np.fft})
    module("autograd.test_util", check_grads=check_grads, combo_check=combo_check, scalar_close=scalar_close, check_equivalent=check_equivalent)
    module("autograd.builtins", tuple=tuple, list=list, dict=dict, isinstance=isinstance)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not pathlib.Path(sys.argv[1]).is_dir():
        sys.exit(__doc__)
    stand_in()
    tests = pathlib.Path(sys.argv[1])
    sys.path.insert(0, str(tests))
    sys.exit(pytest.main(["-q", "--continue-on-collection-errors", "-p", "no:cacheprovider", "-W", "ignore", "--rootdir", str(tests), "-c", "/dev/null",
                          "--no-header", "-rf", "--tb=line", *sys.argv[2:], str(tests)], plugins=[Skips()]))

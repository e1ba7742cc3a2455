"""Gradients against PyTorch's, on the sample inputs of its own tests (op_db).

torch_op_db.py [NAME…] [--samples N] [-v]: each operator of PyTorch that operators of ours express is written as a module (torch_table.py),
differentiated, run in f64, and compared with PyTorch's values and gradients. Needs the packages anfora and torch; without them, exits with 77.
"""

import argparse
import collections
import functools
import itertools
import sys
import tempfile
import types
import unittest
import warnings
from pathlib import Path

try:
    import anfora._core as core
    import numpy as np
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

if "expecttest" not in sys.modules:  # which only PyTorch's own tests need
    stub = types.ModuleType("expecttest")
    stub.TestCase = unittest.TestCase
    sys.modules["expecttest"] = stub
try:
    from torch.testing._internal.common_methods_invocations import op_db
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

from torch_table import AROUND, NotExpressed, TABLE, Text  # noqa: E402

TOLERANCE = 1e-6
COARSE = 1e-5  # of Resize and GridSample, whose weights are f32


def leaves_of(value):
    """Tensors of the arguments, in their order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for item in value for leaf in leaves_of(item)] if isinstance(value, (list, tuple)) else []


def expected_of(operator, arguments, keywords, leaves):
    """PyTorch's results that have a derivative, the weights of their elements, and the gradients of the weighted sum."""
    results = [r for r in leaves_of(operator(*arguments, **keywords)) if r.requires_grad]
    if any(r.dtype != torch.float64 for r in results + leaves):
        raise NotExpressed("complex numbers, or others than f64")
    generator = torch.Generator().manual_seed(1)
    weights = [torch.rand(r.shape, generator=generator, dtype=r.dtype) + 0.5 for r in results]
    total = sum((r * w).sum() for r, w in zip(results, weights))
    gradients = torch.autograd.grad(total, leaves, allow_unused=True)
    return results, weights, [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, gradients)]


def module_of(text, results, weights):
    """The module of the results and of their weighted sum."""
    terms = [f"ReduceSum(Mul({r}, {text.label(w)})){{keepdims=0}}" for r, w in zip(results, weights)]
    total = terms[0]
    for term in terms[1:]:
        total = f"Add({total}, {term})"
    body = "\n".join(text.lines)
    return f"graph @main({', '.join(text.parameters)}) {{\n{body}\n  return ({', '.join([*results, total])})\n}}\n"


def same(got, expected, tolerance):
    expected = expected.detach().numpy(force=True)
    if got.shape != expected.shape:
        return f"has the shape {got.shape} instead of {expected.shape}"
    if not np.allclose(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True):
        worst = np.nanargmax(np.abs(got - expected)) if got.size else 0
        return f"is {got.flat[worst]} instead of {expected.flat[worst]}"
    return ""


def check(function, operator, sample, folder):
    """What is wrong with the values and gradients of a sample, or nothing."""
    arguments = (sample.input, *sample.args)
    leaves = [t for t in leaves_of([arguments, sample.kwargs]) if t.requires_grad]
    results, weights, gradients = expected_of(operator, arguments, sample.kwargs, leaves)
    if not results:
        raise NotExpressed("no result has a derivative")
    with Text() as text:
        by = [text.index(leaf) for leaf in leaves]
        try:
            made = function(*arguments, **sample.kwargs)
        except (TypeError, ValueError, IndexError, RuntimeError, StopIteration) as error:
            return f"the table: {type(error).__name__}: {error}".splitlines()[0]
        made = made if isinstance(made, list) else [made]
        if len(made) != len(results):
            raise NotExpressed(f"{len(made)} of {len(results)} results")
        module = module_of(text, made, weights)
    path = Path(folder) / "sample.ir"
    path.write_text(module)
    try:
        model = core.Model.load(str(path))
        model.differentiate(len(results), by)
        outputs = model.compile(1, True, "real").run(text.values)
    except Exception as error:  # noqa: BLE001
        return f"{str(error).splitlines()[0]}\n{module}"
    tolerance = COARSE if "Resize" in module or "GridSample" in module else TOLERANCE
    for i, expected in enumerate(results):
        if wrong := same(np.asarray(outputs[i]), expected, tolerance):
            return f"the value {wrong}\n{module}"
    for i, expected in enumerate(gradients):
        if wrong := same(np.asarray(outputs[len(results) + 1 + i]), expected, tolerance):
            return f"the gradient by {text.label(leaves[i])} {wrong}\n{module}"
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--samples", type=int, default=30, help="of each operator, at most")
    parser.add_argument("-v", action="store_true", help="print the module of each failure")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    passed, failed, unmapped = collections.Counter(), collections.Counter(), 0
    open_reasons = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for info in op_db:
            name = f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name
            if options.names and name not in options.names:
                continue
            if not info.supports_autograd or torch.float64 not in info.dtypes:
                continue
            function, operator = TABLE.get(name), info.op
            if name in AROUND:
                operator = functools.partial(AROUND[name], info.op)
            if not function:
                unmapped += 1
                continue
            torch.manual_seed(0)
            seen = set()
            for sample in itertools.islice(info.sample_inputs("cpu", torch.float64, requires_grad=True), options.samples):
                try:
                    wrong = check(function, operator, sample, folder)
                except NotExpressed as reason:
                    open_reasons[f"{name}: {reason}"] += 1
                    continue
                (failed if wrong else passed)[name] += 1
                line = wrong.splitlines()[0] if wrong else ""
                if wrong and line not in seen:
                    seen.add(line)
                    print(f"{name}: {wrong if options.v else line}", flush=True)
    if options.v:
        for reason, count in sorted(open_reasons.items()):
            print(f"{reason} ({count})")
    whole = [name for name in passed if name not in failed]
    print(f"{len(set(passed) | set(failed))} operators expressed, {unmapped} not; {len(whole)} of them right on all samples")
    print(f"{sum(passed.values())} samples passed, {sum(failed.values())} failed, {sum(open_reasons.values())} not expressed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What rules promise to be equal up to rounding, in ONNX Runtime: no rewrite loses relative accuracy that was there.

usage: onnxruntime_accuracy.py build/release/tests/rules/rule_pairs [--only TEXT] [--verbose]

rule_pairs writes random instances of each rule, before and after, with its own switches for what ONNX Runtime's kernels compute less
accurately (src/frontend/onnx/implemented.cc). Both run there on arguments of all sizes, from 1e-6 to 100, and beside them the left
side in double precision. Wherever the left side is accurate, relative to its value however small, the right side must be, too. What
moves with the last bit of an argument, or is wrong right beside it, as small differences of large numbers are, is not accurate to begin
with.
Exit status 77 without onnxruntime.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, numpy_helper
    from onnx.reference import ReferenceEvaluator
except ImportError:
    sys.exit(77)

DRAWS = 24
TOLERANCE = 2e-4  # relative: what kernels of single precision reach
SMALLEST = 1e-36  # results below are denormal, or nearly
NEIGHBOURS = 24  # in which the left side's own error is measured
NOISE = 32        # of the last bit of an argument, this much counts for nothing
# Arguments at which approximations change over.
CORNERS = np.array([0.5, 1, 2, 4, 5, 8, 10, 12, 15, 17, 18, 19, 20, 30, 40, 60, 80, 86])


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def widened(path):
    """The model in double precision."""
    model = onnx.load(path)
    def widen(tensor):
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    for tensor in model.graph.initializer:
        widen(tensor)
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                widen(attribute.t)
            if node.op_type in ("Cast", "RandomNormalLike") and attribute.name in ("to", "dtype") and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE
    return ReferenceEvaluator(model)


def arguments(session, generator, positive):
    feeds = {}
    for value in session.get_inputs():
        x = 10.0 ** generator.uniform(-6, 2, value.shape)
        corners = generator.choice(CORNERS, value.shape) * generator.uniform(0.99, 1.01, value.shape)
        x = np.where(generator.random(value.shape) < 0.5, x, corners)
        x = x if positive else x * generator.choice([-1, 1], value.shape, p=[0.7, 0.3])
        feeds[value.name] = np.asarray(x, np.float32)
    return feeds


def check(before, after):
    """What is lost, in words; None: it cannot be told; an empty text: nothing."""
    first, second, truth = session_of(before), session_of(after), widened(before)
    generator = np.random.default_rng(7)
    compared = False
    for draw in range(DRAWS):
        feeds = arguments(first, generator, positive=draw % 4 == 3)
        wide = {name: np.asarray(value, np.float64) for name, value in feeds.items()}
        want = np.asarray(truth.run(None, wide)[0])
        if want.dtype != np.float64 or want.size == 0:
            return None
        noise, error = np.zeros(want.shape), np.zeros(want.shape)  # of the last bit of an argument; of the left side nearby
        for _ in range(4):
            moved = {name: np.asarray(np.nextafter(value, np.float32(generator.choice([-200, 200]))), np.float32)
                     for name, value in feeds.items()}
            there = np.asarray(truth.run(None, {name: np.asarray(value, np.float64) for name, value in moved.items()})[0])
            noise = np.fmax(noise, np.abs(there - want))
        # 1 + tanh(x) is a multiple of 2⁻²⁴ or so, which is exact now and then: its error is that around the argument.
        for _ in range(NEIGHBOURS):
            moved = {name: np.asarray(value * generator.uniform(0.99, 1.01, value.shape), np.float32)
                     for name, value in feeds.items()}
            there = np.asarray(truth.run(None, {name: np.asarray(value, np.float64) for name, value in moved.items()})[0])
            error = np.fmax(error, np.abs(np.asarray(first.run(None, moved)[0]).astype(np.float64) - there))
        was, now = (np.asarray(s.run(None, feeds)[0]).astype(np.float64) for s in (first, second))
        if was.shape != want.shape or now.shape != want.shape:
            return None
        size = np.abs(want)
        counts = np.isfinite(want) & np.isfinite(was) & (size > SMALLEST) & (size < 1e36)
        allowed = NOISE * noise + 8 * np.maximum(error, np.abs(was - want)) + TOLERANCE * size
        lost = counts & ~(np.abs(now - want) <= allowed)
        compared |= bool(counts.any())
        if lost.any():
            at = tuple(int(i) for i in np.argwhere(lost)[0])
            values = ", ".join(f"{name} {value.ravel()[:4]}" for name, value in feeds.items())
            return f"{now[at]:.6g} instead of {was[at]:.6g}, which is {want[at]:.6g} in double precision, for {values}"
    return "" if compared else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--only", default="")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    checked, failed, untold = set(), {}, set()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([options.program, folder, "--only", options.only], check=True, stdout=subprocess.DEVNULL)
        for before in sorted(pathlib.Path(folder).glob("*.before.onnx")):
            rule = before.name.split(".")[0]
            try:
                problem = check(before, before.with_name(before.name.replace(".before.", ".after.")))
            except Exception as error:  # pylint: disable=broad-except
                problem = None  # what ONNX Runtime or the reference does not run
                if options.verbose:
                    print(f"{rule}: {str(error).strip().splitlines()[0][:150]}")
            (checked if problem is not None else untold).add(rule)
            if problem:
                failed.setdefault(rule, problem)
    for rule, problem in failed.items():
        print(f"{rule}: {problem}")
    print(f"{len(checked)} rules compared, {len(untold - checked)} not; {len(failed)} lose accuracy")
    sys.exit(bool(failed) or not checked)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compare single operators with ONNX Runtime on random shapes, element types and attributes.

usage: run.py ANFORA [--count N] [--seed S] [--only OPERATOR] [--keep FOLDER]

Each generator in elementwise.py, reduction.py, movement.py, images.py, text.py, ml.py, contrib.py and searches.py makes one
application of its operator at random: ranks from 0 up, dimensions of zero, negative axes, every element type that ONNX
Runtime has a kernel for, and in every second case shapes that are known before the run. ONNX Runtime without
optimization says what the outputs are; where it has no kernel, onnx's reference implementation does; and of products of 8-bit
integers, which ONNX Runtime computes differently from processor to processor, exact.py does. All cases then go through
`anfora verify --case` at once. Prints one line a case that differs and
exits with status 1 when there is one; 77 without onnxruntime. A failing case is reproduced by its seed:
`--only Slice --seed 7 --count 50 --keep FOLDER`.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper
    from onnx.reference import ReferenceEvaluator
except ImportError:
    sys.exit(77)

import contrib
import elementwise
import images
import ml
import movement
import reduction
import searches
import text
from case import Case

onnxruntime.set_default_logger_severity(4)
OTHER_OPSETS = [helper.make_opsetid("ai.onnx.ml", 4), helper.make_opsetid("com.microsoft", 1)]


# How ONNX Runtime says that it lacks a kernel, rather than that the application is wrong.
NO_KERNEL = ("NOT_IMPLEMENTED", "Type Error", "Unexpected input data type")


class Refused(Exception):
    """No oracle computes this application: it is not counted."""


def model_of(case, static):
    node = helper.make_node(case.op, [f"x{i}" if x is not None else "" for i, x in enumerate(case.inputs)],
                            [f"y{i}" for i in range(case.outputs)], domain=case.domain, **case.attributes)
    given = {i: x for i, x in enumerate(case.inputs) if x is not None}
    inputs = [helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(x.dtype),
                                            x.shape if static else [None] * x.ndim)
              for i, x in given.items() if i not in case.constants]
    constants = [numpy_helper.from_array(given[i], f"x{i}") for i in case.constants if i in given]
    outputs = [onnx.ValueInfoProto(name=f"y{i}") for i in range(case.outputs)]
    graph = helper.make_graph([node], "differential", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset), *OTHER_OPSETS], ir_version=10)


def feeds_of(case):
    return {f"x{i}": x for i, x in enumerate(case.inputs) if x is not None and i not in case.constants}


def expected(case, model, feeds):
    if isinstance(case.oracle, Case):
        return expected(case.oracle, model_of(case.oracle, True), feeds_of(case.oracle))
    if case.oracle:
        return [case.oracle()]
    if not case.reference:
        try:
            return by_onnxruntime(model, feeds)
        except Exception as error:
            if not any(reason in str(error) for reason in NO_KERNEL):
                raise Refused(str(error)) from error
    try:
        with np.errstate(all="ignore"):
            return ReferenceEvaluator(model).run(None, feeds)
    except Exception as error:
        raise Refused(str(error)) from error


def by_onnxruntime(model, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def write(case, static, folder):
    model = model_of(case, static)
    feeds = feeds_of(case)
    results = [np.asarray(result) for result in expected(case, model, feeds)]
    for output, result in zip(model.graph.output, results):
        dtype = onnx.TensorProto.STRING if result.dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(result.dtype)
        output.CopyFrom(helper.make_tensor_value_info(output.name, dtype, [None] * result.ndim))
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    (folder / "case.json").write_text(json.dumps({"rtol": case.rtol, "atol": case.atol}))
    for prefix, values in (("input", feeds.values()), ("output", results)):
        for i, value in enumerate(values):
            (data / f"{prefix}_{i}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())


def generators():
    families = (elementwise, reduction, movement, images, text, ml, contrib, searches)
    return {name: function for family in families for name, function in family.GENERATORS.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("anfora")
    parser.add_argument("--count", type=int, default=8, help="cases of each operator")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="an operator, or the beginning of several")
    parser.add_argument("--keep", type=pathlib.Path, help="where to leave the cases")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = options.keep or pathlib.Path(temporary)
        refused, reasons = {}, {}
        for name, generator in generators().items():
            if not name.startswith(options.only):
                continue
            for number in range(options.count):
                case = generator(random.Random(f"{name}.{options.seed}.{number}"))
                try:
                    write(case, number % 2 == 1, root / f"{name}.{number}")
                except Refused as reason:
                    refused[name] = refused.get(name, 0) + 1
                    reasons[name] = str(reason)
        for name, count in refused.items():
            if count == options.count:
                print(f"{name}: no oracle for any case: {reasons[name][:200]}")
        cases = sorted(map(str, root.iterdir()))
        done = subprocess.run([options.anfora, "verify", "--case", *cases], text=True, stdout=subprocess.PIPE)
        print(done.stdout, end="")
        sys.exit(done.returncode or any(count == options.count for count in refused.values()))


if __name__ == "__main__":
    main()

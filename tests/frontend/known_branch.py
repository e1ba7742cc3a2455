#!/usr/bin/env python3
"""An If whose condition is known may have a wrong branch: models of generic code, specialized, are full of them.

Usage: known_branch.py ANFORA. Builds such models, runs, optimizes and exports them. Exits 77 (skipped) where the
module onnx is not installed.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper
except ImportError:
    print("skipped: the Python module onnx is not installed")
    sys.exit(77)

SHAPE = [2, 3]
# How the condition `c` comes about that holds for x: f32[2, 3].
CONDITIONS = {
    "constant": [helper.make_node("Constant", [], ["c"], value=helper.make_tensor("c", TensorProto.BOOL, [], [True]))],
    "rank": [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Size", ["shape"], ["rank"]),
        helper.make_node("Constant", [], ["two"], value_int=2),
        helper.make_node("Equal", ["rank", "two"], ["c"]),
    ],
    "size": [
        helper.make_node("Size", ["x"], ["size"]),
        helper.make_node("Constant", [], ["few"], value_int=100),
        helper.make_node("GreaterOrEqual", ["size", "few"], ["many"]),
        helper.make_node("Not", ["many"], ["c"]),
    ],
}


def branch(name, nodes):
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)])


def model_of(condition):
    """Relu(x), beside a branch that multiplies [2, 3] by [2, 3]."""
    right = branch("right", [helper.make_node("Relu", ["x"], ["r"])])
    wrong = branch("wrong", [helper.make_node("MatMul", ["x", "x"], ["m"]), helper.make_node("Squeeze", ["m"], ["w"])])
    choice = helper.make_node("If", ["c"], ["y"], then_branch=right, else_branch=wrong)
    info = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in "xy"}
    graph = helper.make_graph([*condition, choice], "g", [info["x"]], [info["y"]])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def main(anfora):
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(SHAPE)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        np.savez(folder / "in.npz", x=x)

        def run(*arguments):
            subprocess.run([anfora, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)

        def check_results(model):
            for more in [], ["--no-optimize"]:
                run("run", model, "--input", folder / "in.npz", "--output", folder / "out.npz", *more)
                np.testing.assert_array_equal(np.load(folder / "out.npz")["y"], np.maximum(x, 0))

        for kind, condition in CONDITIONS.items():
            source, small, same = (folder / f"{kind}{suffix}.onnx" for suffix in ("", ".small", ".same"))
            onnx.save(model_of(condition), source)
            run("opt", source, "--output", small)
            run("opt", source, "--passes", "none", "--output", same)
            for model in source, small, same:
                check_results(model)
            exported = onnx.load(small)
            onnx.checker.check_model(exported, full_check=True)
            operators = [node.op_type for node in exported.graph.node]
            assert operators == ["Relu"], f"{kind}: {operators}"
    print(f"{len(CONDITIONS)} models")


if __name__ == "__main__":
    main(sys.argv[1])

"""ONNX's operator Gradient: by intermediate tensors, of the second order, at other values.

onnx_gradient_test.py ANFORA: exits with 77 without onnx.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

try:
    import onnx
    from onnx import helper
except ImportError:
    print("skipped: there is no onnx")
    sys.exit(77)

TRAINING = "ai.onnx.preview.training"


def model():
    """h = x · x, y = the sum of sin(h · w)."""
    def gradient(inputs, outputs, **attributes):
        return helper.make_node("Gradient", inputs, outputs, domain=TRAINING, **attributes)

    nodes = [
        helper.make_node("Mul", ["x", "x"], ["h"]),
        helper.make_node("Mul", ["h", "w"], ["p"]),
        helper.make_node("Sin", ["p"], ["s"]),
        helper.make_node("ReduceSum", ["s"], ["y"], keepdims=0),
        gradient(["h", "w"], ["dh", "dw"], xs=["h", "w"], y="y"),
        gradient(["x", "w"], ["", "dww"], xs=["x", "w"], y="dw"),
        gradient(["other", "w"], ["dother"], xs=["x"], zs=["w"], y="y"),
    ]
    value = lambda name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3])  # noqa: E731
    graph = helper.make_graph(nodes, "gradients", [value(n) for n in ("x", "w", "other")], [value(n) for n in ("dh", "dw", "dww", "dother")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(TRAINING, 1)], ir_version=8)


def in_a_branch():
    """Which is an error."""
    value = lambda name, *shape: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)  # noqa: E731
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["y"]),
        helper.make_node("Gradient", ["x"], ["d"], domain=TRAINING, xs=["x"], y="y"),
    ]
    one = helper.make_graph(nodes, "one", [], [value("d", 3)])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["n"])], "other", [], [value("n", 3)])
    choice = helper.make_node("If", ["c"], ["o"], then_branch=one, else_branch=other)
    condition = helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])
    graph = helper.make_graph([choice], "branch", [value("x", 3), condition], [value("o", 3)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(TRAINING, 1)], ir_version=8)


def main():
    x, w, other = (np.array(v, np.float32) for v in ([0.5, 1, 2], [1, 0.3, -0.7], [0.1, 0.2, 0.3]))
    h = x * x
    expected = {
        "dh": np.cos(h * w) * w,
        "dw": np.cos(h * w) * h,
        "dww": -np.sin(h * w) * h * h,
        "dother": np.cos(other * other * w) * w * 2 * other,
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx.save(model(), folder / "model.onnx")
        np.savez(folder / "in.npz", x=x, w=w, other=other)
        run = [sys.argv[1], "run", folder / "model.onnx", "--input", folder / "in.npz", "--output", folder / "out.npz"]
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
        found = np.load(folder / "out.npz")
        onnx.save(in_a_branch(), folder / "branch.onnx")
        refused = subprocess.run([sys.argv[1], "info", folder / "branch.onnx"], capture_output=True, text=True)
        if "is not supported" not in refused.stderr or not refused.returncode:
            print(f"a Gradient in a branch: {refused.stderr}")
            return 1
        wrong = [key for key in expected if not np.allclose(found[key], expected[key], rtol=1e-5)]
    for key in wrong:
        print(f"{key} is {found[key]} instead of {expected[key]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

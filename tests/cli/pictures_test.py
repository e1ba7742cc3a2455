#!/usr/bin/env python3
"""Pictures: repeated layers once, large models in parts, quick whatever the size; and the index of --save-graphs shows them.

usage: ANFORA=build/release/anfora pictures_test.py [unittest arguments]
"""
import re
import shutil
import unittest

import numpy as np
from onnx import helper

from cli import Case, constant, model, tensor

HAS_DOT = shutil.which("dot") is not None


def layers(count):
    """Layers as exporters name them: a MatMul, a bias, an activation, a residual, a normalization by hand."""
    nodes, initializers, value = [], [constant("axes", np.int64([-1]))], "x"
    for i in range(count):
        scope = f"/model/layers.{i}"
        initializers += [constant(f"w{i}", np.ones((8, 8), np.float32)), constant(f"b{i}", np.ones(8, np.float32))]
        for op, inputs, name in (("MatMul", [value, f"w{i}"], "mlp/MatMul"), ("Add", [f"{scope}/mlp/MatMul", f"b{i}"], "mlp/Add"),
                                 ("Tanh", [f"{scope}/mlp/Add"], "act/Tanh"), ("Add", [value, f"{scope}/act/Tanh"], "Add"),
                                 ("ReduceL2", [f"{scope}/Add"], "norm/ReduceL2"), ("Div", [f"{scope}/Add", f"{scope}/norm/ReduceL2"], "norm/Div")):
            attributes = {"axes": [-1]} if op == "ReduceL2" else {}
            nodes.append(helper.make_node(op, inputs, [f"{scope}/{name}"], name=f"{scope}/{name}", **attributes))
        value = nodes[-1].output[0]
    nodes.append(helper.make_node("Softmax", [value], ["y"], name="head"))
    return model(nodes, [tensor("x", ["batch", 8])], [tensor("y", None)], initializers)


class Pictures(Case):
    def dot(self, *arguments):
        return self.anfora("dump", "m.onnx", "--format", "dot", *arguments).stdout

    def test_repeated_layers_once(self):
        self.save("m.onnx", layers(24))
        text = self.dot()
        self.assertIn("× 2", text)
        self.assertLess(text.count("tooltip="), 20)
        self.assertIn("layers.0/mlp", text)  # of /model/layers.0/mlp/MatMul
        self.assertNotIn("/model/layers.0/mlp", re.sub('tooltip="[^"]*"', "", text))
        self.assertGreater(self.dot("--every-node").count("tooltip="), 144)

    def test_a_hundred_thousand_nodes(self):
        rng = np.random.default_rng(1)
        ops = ["Sin", "Cos", "Tanh", "Exp", "Abs", "Neg", "Sign", "Floor"]
        nodes = [helper.make_node(ops[k], [f"h{i}"], [f"h{i + 1}"]) for i, k in enumerate(rng.integers(0, 8, 100000))]
        self.save("m.onnx", model(nodes, [tensor("h0", [4])], [tensor("h100000", None)]))
        text = self.dot()  # within the time that a test has
        self.assertLess(len(text), 40000)
        self.assertIn("part 2: ", text)
        self.assertIn("part 2.1: ", self.dot("--part", "2"))
        leaf = self.dot("--part", "2.1.1") if "part2_1_1 " in self.dot("--part", "2.1") else self.dot("--part", "2.1")
        self.assertIn("tooltip=", leaf)
        self.assertIn("part", self.anfora("dump", "m.onnx", "--format", "dot", "--part", "9999", code=3).stderr)
        if HAS_DOT:
            self.assertTrue(self.anfora("dump", "m.onnx", "--format", "svg").stdout.rstrip().endswith("</svg>"))

    def test_save_graphs_shows_pictures(self):
        self.save("m.onnx", layers(12))
        self.anfora("opt", "m.onnx", "-o", "small.onnx", "--save-graphs", "graphs", "--no-check")
        page = (self.folder / "graphs" / "index.html").read_text()
        shown = re.findall(r'<img[^>]* src="([^"]*)"', page)
        stages = len(list((self.folder / "graphs").glob("??_*.dot")))
        self.assertEqual(len(shown), stages if HAS_DOT else 0)
        for file in shown:
            self.assertIn("</svg>", (self.folder / "graphs" / file).read_text())
        if not HAS_DOT:
            self.assertIn("Graphviz", page)


if __name__ == "__main__":
    unittest.main()

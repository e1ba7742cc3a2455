#!/usr/bin/env python3
"""Which initializers are constants: opt --trainable and --freeze.

usage: ANFORA=build/release/anfora constness_test.py [unittest arguments]
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    sys.exit(77)

ANFORA = os.path.abspath(os.environ["ANFORA"])


def model(overridable=()):
    """relu(bn(conv(x, w))) with a scale behind, all of it foldable; scale and shift hold the same numbers as gamma and beta."""
    names = {"w": np.full((4, 3, 1, 1), 0.5), "gamma": np.ones(4), "beta": np.zeros(4), "mean": np.zeros(4), "var": np.ones(4),
             "scale": np.ones((4, 1, 1)), "other": np.ones((4, 1, 1))}
    initializers = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in names.items()]
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]),
             helper.make_node("BatchNormalization", ["c", "gamma", "beta", "mean", "var"], ["b"]),
             helper.make_node("Mul", ["b", "scale"], ["m"]),
             helper.make_node("Add", ["m", "other"], ["y"])]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 5, 5])]
    inputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, names[name].shape) for name in overridable]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


class Constness(unittest.TestCase):
    def optimize(self, source, *options):
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(source, pathlib.Path(folder) / "model.onnx")
            # Options before the model: they must not take it for theirs.
            result = subprocess.run([ANFORA, "opt", *options, "model.onnx", "-o", "small.onnx"], capture_output=True, text=True,
                                    cwd=folder, timeout=60)
            if result.returncode:
                return result
            self.assertIn("verified", result.stdout)
            small = onnx.load(pathlib.Path(folder) / "small.onnx")
            onnx.checker.check_model(small)
            return small.graph

    def operators(self, graph):
        return [node.op_type for node in graph.node]

    def initializers(self, graph):
        return {i.name: numpy_helper.to_array(i) for i in graph.initializer}

    def inputs(self, graph):
        return [i.name for i in graph.input]

    def test_all_are_constants(self):
        self.assertEqual(self.operators(self.optimize(model())), ["Conv"])

    def test_trainable_weights_are_left(self):
        graph = self.optimize(model(), "--trainable", "w", "--trainable", "[gb]*a")
        self.assertEqual(self.operators(graph)[:2], ["Conv", "BatchNormalization"])
        left = self.initializers(graph)
        for name, value in ("w", 0.5), ("gamma", 1), ("beta", 0):
            np.testing.assert_array_equal(left[name], np.full(left[name].shape, value))
        self.assertEqual(self.inputs(graph), ["x"])

    def test_equal_trainable_weights_stay_apart(self):
        graph = self.optimize(model(), "--trainable", "*")
        self.assertEqual(set(self.initializers(graph)), {"w", "gamma", "beta", "mean", "var", "scale", "other"})
        self.assertEqual(self.operators(graph), ["Conv", "BatchNormalization", "Mul", "Add"])

    def test_overridable_initializers(self):
        source = model(overridable=["w", "scale"])
        graph = self.optimize(source)
        self.assertEqual(self.inputs(graph), ["x", "w", "scale"])
        self.assertIn("Mul", self.operators(graph))
        graph = self.optimize(source, "--freeze")
        self.assertEqual((self.inputs(graph), self.operators(graph)), (["x"], ["Conv"]))
        graph = self.optimize(source, "--freeze=sc*")
        self.assertEqual(self.inputs(graph), ["x", "w"])
        self.assertNotIn("Mul", self.operators(graph))

    def test_trainable_and_overridable(self):
        source = model(overridable=["w"])
        self.assertEqual(self.inputs(self.optimize(source, "--trainable", "w")), ["x", "w"])
        graph = self.optimize(source, "--trainable", "w", "--freeze")
        self.assertEqual(self.inputs(graph), ["x"])
        self.assertIn("w", self.initializers(graph))

    def test_no_such_initializer(self):
        for options, message in ((("--trainable", "no*"), "there is no initializer 'no*'"),
                                 (("--freeze=w",), "there is no initializer that is an input as well 'w'")):
            result = self.optimize(model(), *options)
            self.assertEqual(result.returncode, 3)
            self.assertIn(message, result.stderr)


if __name__ == "__main__":
    unittest.main()

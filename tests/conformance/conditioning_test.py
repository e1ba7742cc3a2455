#!/usr/bin/env python3
"""conditioning.py tells models that rounding decides from those that it does not."""
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import conditioning


def model(nodes, constants=(), opset=21, size=8):
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [size])
    graph = helper.make_graph(nodes, "conditioning", [value("x")], [value("y")],
                              [numpy_helper.from_array(np.float32(number), name) for name, number in constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def noise(*arguments, **options):
    x = np.linspace(1, 2, 8, dtype=np.float32)
    return conditioning.noise(model(*arguments, **options), {"x": x})[0]


class Conditioning(unittest.TestCase):
    def test_few_roundings_move_little(self):
        nodes = [helper.make_node("Mul", ["x", "x"], ["z"]), helper.make_node("Sqrt", ["z"], ["y"])]
        self.assertGreater(noise(nodes), 0)
        self.assertLess(noise(nodes), 1e-5)

    def test_the_last_bits_of_large_logits_decide_a_softmax(self):
        constants = [("zero", 0), ("large", 1e10)]
        nodes = [helper.make_node("Mul", ["x", "zero"], ["z"]), helper.make_node("Add", ["z", "large"], ["logits"]),
                 helper.make_node("Softmax", ["logits"], ["y"], axis=0)]
        self.assertGreater(noise(nodes, constants), 0.1)

    def test_the_digits_that_are_left_by_a_difference_are_noise(self):
        nodes = [helper.make_node("Add", ["x", "large"], ["z"]), helper.make_node("Sub", ["z", "large"], ["y"])]
        self.assertGreater(noise(nodes, [("large", 1e6)]), 0.01)

    def test_operators_are_read_by_their_own_version(self):
        # Before operator set 13 a softmax is over all axes from the first on, not over the last one, which has one element here.
        nodes = [helper.make_node("Mul", ["x", "zero"], ["z"]), helper.make_node("Add", ["z", "large"], ["logits"]),
                 helper.make_node("Unsqueeze", ["logits"], ["u"], axes=[0, 2]), helper.make_node("Softmax", ["u"], ["w"]),
                 helper.make_node("Squeeze", ["w"], ["y"], axes=[0, 2])]
        self.assertGreater(noise(nodes, [("zero", 0), ("large", 1e10)], opset=9), 0.1)

    def test_it_is_the_same_each_time(self):
        nodes = [helper.make_node("Exp", ["x"], ["y"])]
        self.assertEqual(noise(nodes), noise(nodes))


if __name__ == "__main__":
    unittest.main()

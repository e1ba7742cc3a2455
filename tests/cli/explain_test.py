#!/usr/bin/env python3
"""explain --opset, --target, --why-not: what took the nodes first, and what to change.

usage: ANFORA=build/release/anfora explain_test.py [unittest arguments]
"""
import json
import unittest

import numpy as np
from onnx import helper

from cli import Case, constant, model, tensor


def gelu(opset=17):
    half, root, one = (constant(name, np.float32(value)) for name, value in (("half", 0.5), ("root", 2 ** 0.5), ("one", 1)))
    nodes = [helper.make_node("Div", ["x", "root"], ["d"], name="scale"), helper.make_node("Erf", ["d"], ["e"], name="erf"),
             helper.make_node("Add", ["e", "one"], ["a"], name="shift"), helper.make_node("Mul", ["x", "a"], ["m"], name="times"),
             helper.make_node("Mul", ["m", "half"], ["y"], name="halve")]
    return model(nodes, [tensor("x", [4, 8])], [tensor("y", [4, 8])], [half, root, one], opset=opset)


class Explain(Case):
    def setUp(self):
        super().setUp()
        self.save("gelu.onnx", gelu())

    def why_not(self, rule, *more, model="gelu.onnx"):
        return json.loads(self.anfora("explain", model, "--why-not", rule, "--json", *more).stdout)

    def test_opset_and_target(self):
        self.assertIn("5 → 5 nodes", self.anfora("explain", "gelu.onnx").stdout)
        for options in (["--opset", "20"], ["--opset", "newest"], ["--target", "onnxruntime"]):
            text = self.anfora("explain", "gelu.onnx", *options).stdout
            self.assertIn("5 → 1 nodes", text, options)
            self.assertIn("gelu-erf", text)
        self.anfora("explain", "gelu.onnx", "--opset", "99", code=3)
        self.anfora("explain", "gelu.onnx", "--target", "nowhere", code=2)

    def test_what_to_change(self):
        answer = self.why_not("gelu-erf")
        self.assertEqual(answer["fired"], 0)
        self.assertIn("--opset 20", answer["try"])
        self.assertIn("--target onnxruntime", answer["try"])
        text = self.anfora("explain", "gelu.onnx", "--why-not", "gelu-erf").stdout
        self.assertIn("try --opset 20 or --target onnxruntime", text)
        # What is told to be tried, helps.
        self.assertEqual(self.why_not("gelu-erf", "--opset", "20")["fired"], 1)
        answer = self.why_not("gelu-erf", "--opset", "20", "--math", "exact")
        self.assertEqual((answer["fired"], answer["try"]), (0, ["--math real"]))
        self.assertEqual(self.why_not("gelu-erf", "--opset", "20", "--math", "real")["try"], [])

    def test_a_promise_that_depends_on_the_type(self):
        self.write("m.ir", "graph @main(%x: f32[2]) { return Tanh(Add(%x, 0.0)) }")
        answer = self.why_not("zero-term", "--math", "exact", model="m.ir")
        self.assertEqual((answer["fired"], answer["try"]), (0, ["--math real"]))
        self.assertEqual(self.why_not("zero-term", model="m.ir")["fired"], 1)

    def test_which_rule_took_the_nodes_first(self):
        self.write("own.rules", "# x · 1 = x, under another name\nown-unit-factor: Mul(x, 1) => x  [exact]\n")
        self.write("m.ir", "graph @main(%x: f32[2]) { %b = Mul(Tanh(%x), 1.0)  return Abs(%b) }")
        answer = self.why_not("unit-factor", "--rules", "own.rules", model="m.ir")
        self.assertEqual(answer["fired"], 0)
        self.assertEqual(answer["taken_first"], [{"rule": "own-unit-factor", "nodes": ["Mul 'b' at m.ir:1"]}])
        text = self.anfora("explain", "m.ir", "--rules", "own.rules", "--why-not", "unit-factor").stdout
        self.assertIn("taken first by own-unit-factor: 1 node\n  Mul 'b'", text)
        # One that is above the root: its operand is gone before the pattern is seen.
        self.write("own.rules", "# wrong, but it shows the order\nown-tanh: Tanh(x) => x  [exact]\n\n"
                                "# not tried any more\nown-pair: Abs(Mul(Tanh(x), _)) => x  [exact]\n")
        answer = self.why_not("own-pair", "--rules", "own.rules", model="m.ir")
        self.assertEqual([entry["rule"] for entry in answer["taken_first"]], ["own-tanh"])

    def test_why_not_of_what_is_not_there(self):
        self.assertIn("no node has the operators of its pattern", self.anfora("explain", "gelu.onnx", "--why-not", "compose-transposes").stdout)
        self.assertIn("no rule matched or nearly matched nobody", self.anfora("explain", "gelu.onnx", "--node", "nobody").stdout)
        self.assertEqual(json.loads(self.anfora("explain", "gelu.onnx", "--node", "nobody", "--json").stdout)["remarks"], [])

    def test_counts_are_of_the_target(self):
        """explain --target says what opt --target writes."""
        explained = json.loads(self.anfora("explain", "gelu.onnx", "--target", "onnxruntime", "--json").stdout)
        written = json.loads(self.anfora("opt", "gelu.onnx", "-o", "small.onnx", "--target", "onnxruntime", "--json").stdout)
        self.assertEqual((explained["nodes_before"], explained["nodes_after"]), (written["nodes_before"], written["nodes_after"]))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Errors: as JSON where that is asked for, in every command; and in the terms of the model, not of what the optimizer made of it.

usage: ANFORA=build/release/anfora errors_test.py [unittest arguments]
"""
import json
import re
import unittest

import numpy as np
from onnx import helper

from cli import Case, constant, model, tensor


class Errors(Case):
    def test_json(self):
        self.write("bad.onnx", "no model")
        self.write("good.ir", "graph @main(%x: f32[2]) { return Relu(%x) }")
        for code, arguments in (
                (3, ["info", "absent.onnx"]), (3, ["info", "bad.onnx"]), (3, ["opt", "bad.onnx", "-o", "small.onnx"]),
                (3, ["run", "bad.onnx", "--random"]), (3, ["bench", "bad.onnx"]), (3, ["verify", "bad.onnx", "good.ir"]),
                (3, ["explain", "bad.onnx"]), (3, ["diff", "bad.onnx", "good.ir"]), (3, ["rules", "no-such-rule"]),
                (2, ["info"]), (2, ["opt", "good.ir", "--no-such-option"]), (2, ["inof", "good.ir"]),
                (3, ["run", "good.ir", "--input", "absent.npz"])):
            with self.subTest(arguments=arguments):
                result = self.anfora(*arguments, "--json", code=code)
                answer = json.loads(result.stdout)
                self.assertEqual(answer["exit_code"], code)
                self.assertTrue(answer["error"]["message"])
                self.assertIn(answer["error"]["message"], result.stderr)
                self.assertEqual(self.anfora(*arguments, code=code).stdout, "")

    def test_json_tells_node_and_hint(self):
        self.save("m.onnx", model([helper.make_node("MatMul", ["x", "w"], ["y"], name="project")], [tensor("x", [2, 3])], [tensor("y", None)],
                                  [constant("w", np.zeros((5, 4), np.float32))]))
        error = json.loads(self.anfora("info", "m.onnx", "--json", code=3).stdout)["error"]
        self.assertIn("project", error["node"] + error["location"])
        self.assertIn("m.onnx", error["location"])
        hint = json.loads(self.anfora("inof", "m.onnx", "--json", code=2).stdout)["error"]["hint"]
        self.assertEqual(hint, "did you mean info?")

    def test_wrong_arguments(self):
        self.write("m.ir", "graph @main(%x: f32[2]) { return Relu(Relu(%x)) }")
        for arguments, message, hint in (
                (["opt", "m.ir", "--optset", "20", "-o", "s.ir"], "opt has no option --optset", "did you mean --opset?"),
                (["run", "m.ir", "--radnom"], "run has no option --radnom", "did you mean --random?"),
                (["run", "m.ir", "--frobnicate"], "run has no option --frobnicate", "anfora run --help"),
                (["optimise", "m.ir"], "unknown command 'optimise'", ""), (["opt"], "is required", "anfora opt --help")):
            with self.subTest(arguments=arguments):
                error = self.anfora(*arguments, code=2).stderr
                self.assertIn(message, error)
                self.assertIn(hint, error)
        self.anfora("opt", "m.ir", "s.ir")  # as onnxslim and onnxsim are called
        self.assertTrue((self.folder / "s.ir").exists())

    def test_help(self):
        text = self.anfora(code=2).stdout
        commands = re.findall(r"^  ([a-z]+) {10}", text, re.MULTILINE)
        self.assertGreaterEqual(len(commands), 11)
        for command in commands:
            page = self.anfora(command, "--help").stdout
            self.assertIn("Example", page)
            for line in page.splitlines():
                self.assertLessEqual(len(line), 110, line)

    def test_shapes_are_those_of_the_model(self):
        """Two convolutions, channels last inside, whose results do not fit each other at run time."""
        rng = np.random.default_rng(0)
        weights = [constant(name, rng.standard_normal((16, 3, 3, 3)).astype(np.float32)) for name in ("wa", "wb")]
        nodes = [helper.make_node("Conv", ["a", "wa"], ["ca"], name="first", pads=[1, 1, 1, 1]),
                 helper.make_node("Relu", ["ca"], ["ra"], name="relu"),
                 helper.make_node("Conv", ["b", "wb"], ["cb"], name="second", pads=[1, 1, 1, 1]),
                 helper.make_node("Add", ["ra", "cb"], ["s"], name="sum"),
                 helper.make_node("Sigmoid", ["s"], ["y"], name="last")]
        self.save("m.onnx", model(nodes, [tensor("a", [1, 3, "ha", "wa_"]), tensor("b", [1, 3, "hb", "wb_"])], [tensor("y", None)], weights))
        np.savez(self.folder / "in.npz", a=np.zeros((1, 3, 8, 10), np.float32), b=np.zeros((1, 3, 7, 9), np.float32))
        message = self.anfora("run", "m.onnx", "--input", "in.npz", code=3).stderr
        self.assertIn("'sum'", message)
        shapes = re.findall(r"\d+(?:x|, )\d+(?:x|, )\d+(?:x|, )\d+", message)
        self.assertEqual([[int(n) for n in re.findall(r"\d+", shape)] for shape in shapes], [[1, 16, 8, 10], [1, 16, 7, 9]], message)
        self.assertEqual(message, self.anfora("run", "m.onnx", "--input", "in.npz", "--no-optimize", code=3).stderr)
        self.assertEqual(message, self.anfora("bench", "m.onnx", "--input", "in.npz", code=3).stderr)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""run --profile: a warm run, tables with headings that leave nothing out, and the same as JSON.

usage: ANFORA=build/release/anfora profile_test.py [unittest arguments]
"""
import json
import re
import unittest

import numpy as np
from onnx import helper

from cli import Case, constant, model, tensor

UNARY = ["Relu", "Sigmoid", "Tanh", "Erf", "Softplus", "Softsign", "Exp", "Neg", "Abs", "Sin", "Cos", "Atan", "Sign", "Floor", "Ceil", "Sqrt",
         "Reciprocal", "Round", "Elu", "Selu"]


class Profile(Case):
    def setUp(self):
        super().setUp()
        nodes = [helper.make_node("MatMul", ["x", "w"], ["h0"], name="project")]
        for i, op in enumerate(UNARY):
            nodes.append(helper.make_node(op, [f"h{i}"], [f"h{i + 1}"], name=f"step{i}"))
        weight = constant("w", np.ones((256, 256), np.float32))
        self.save("m.onnx", model(nodes, [tensor("x", [512, 256])], [tensor(f"h{len(UNARY)}", None)], [weight]))

    def test_tables(self):
        text = self.anfora("run", "m.onnx", "--random", "--no-optimize", "--profile", "trace.json").stdout
        self.assertRegex(text, r"one warm run: \d+\.\d+ ms, \d+\.\d+ ms of it in 21 kernel calls")
        operators, nodes = text.split("\n\n")[2:4]
        self.assertEqual(re.split(r"\s+", operators.splitlines()[0].strip()), ["operator", "kernel", "calls", "ms", "%"])
        self.assertTrue(nodes.splitlines()[0].strip().startswith("slowest nodes"))
        self.assertIn("project (m.onnx: node 0)", nodes)
        for table in (operators, nodes):
            rows = table.splitlines()[1:]
            self.assertIn("others", rows[-1])
            self.assertEqual(sum(int(row.split()[-3]) for row in rows), 21, table)
            self.assertAlmostEqual(sum(float(row.split()[-1]) for row in rows), 100, delta=1)
            self.assertEqual(len({len(row) for row in table.splitlines()}), 1, table)
        self.assertTrue(json.loads((self.folder / "trace.json").read_text())["traceEvents"])

    def test_json(self):
        answer = json.loads(self.anfora("run", "m.onnx", "--random", "--profile", "trace.json", "--json").stdout)
        self.assertEqual([(o["type"], o["shape"]) for o in answer["outputs"]], [("f32", [512, 256])])
        profile = answer["profile"]
        calls = sum(entry["calls"] for entry in profile["by_operator"])
        self.assertEqual(calls, sum(entry["calls"] for entry in profile["by_node"]))
        self.assertLessEqual(sum(entry["milliseconds"] for entry in profile["by_node"]), profile["milliseconds"])
        self.assertTrue(all(entry["node"] for entry in profile["by_node"]))

    def test_warm(self):
        """One run is in the trace, and the outputs are those of it: random operators begin at the seed."""
        self.write("noise.ir", "module { outputs = [\"y\"] } graph @main(%x: f32[4]) { return Add(%x, RandomNormalLike(%x)) }")
        for more in ([], ["--profile", "trace.json"]):
            self.anfora("run", "noise.ir", "--random", "--seed", "3", "--output", f"out{len(more)}.npz", *more)
        a, b = (np.load(self.folder / f"out{n}.npz") for n in (0, 2))
        self.assertEqual([a[k].tolist() for k in a], [b[k].tolist() for k in b])
        events = [e for e in json.loads((self.folder / "trace.json").read_text())["traceEvents"] if e["ph"] == "X"]
        self.assertEqual(sum(e["name"] == "RandomNormalLike" for e in events), 1)


if __name__ == "__main__":
    unittest.main()

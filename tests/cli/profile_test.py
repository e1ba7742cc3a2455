#!/usr/bin/env python3
"""run --profile: a warm run, tables with headings that leave nothing out, and the same as JSON; operations and bytes of calls.

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
        self.assertEqual(re.split(r"\s+", operators.splitlines()[0].strip()), ["operator", "kernel", "calls", "ms", "%", "MFLOP", "MB", "GFLOP/s", "GB/s", "roof%"])
        self.assertTrue(nodes.splitlines()[0].strip().startswith("slowest nodes"))
        self.assertIn("project (m.onnx: node 0)", nodes)
        for table in (operators, nodes):
            rows = table.splitlines()[1:]
            self.assertIn("others", rows[-1])
            self.assertEqual(sum(int(row.split()[-8]) for row in rows), 21, table)
            self.assertAlmostEqual(sum(float(row.split()[-6]) for row in rows), 100, delta=1)
            self.assertEqual(len({len(row) for row in table.splitlines()}), 1, table)
        self.assertRegex(text, r"FLOP, \d+\.\d+ MB in kernels: \d+\.\d GFLOP/s, \d+\.\d% of the roofline\n"
                               r"roofline: \d+\.\d GFLOP/s; \d+\.\d GB/s from a cache, \d+\.\d GB/s from memory\n")
        events = [e for e in json.loads((self.folder / "trace.json").read_text())["traceEvents"] if e["ph"] == "X"]
        product = next(e["args"] for e in events if e["name"] == "MatMul")
        self.assertEqual(product["flops"], 2 * 512 * 256 * 256)
        self.assertGreaterEqual(product["bytes"], 4 * (512 * 256 + 256 * 256 + 512 * 256))
        self.assertGreater(product["share_of_roofline"], 0)

    def test_json(self):
        answer = json.loads(self.anfora("run", "m.onnx", "--random", "--profile", "trace.json", "--json").stdout)
        self.assertEqual([(o["type"], o["shape"]) for o in answer["outputs"]], [("f32", [512, 256])])
        profile = answer["profile"]
        calls = sum(entry["calls"] for entry in profile["by_operator"])
        self.assertEqual(calls, sum(entry["calls"] for entry in profile["by_node"]))
        self.assertLessEqual(sum(entry["milliseconds"] for entry in profile["by_node"]), profile["milliseconds"])
        self.assertTrue(all(entry["node"] for entry in profile["by_node"]))

    def profile(self, file, *more):
        return json.loads(self.anfora("run", file, "--random", "--profile", "trace.json", "--json", *more).stdout)["profile"]

    def test_work_of_symbolic_sizes(self):
        """Sizes are those of the run, of a compiled model too."""
        self.write("product.ir", "module { outputs = [\"y\"] } graph @main(%x: f32[N, 64], %w: f32[64, 48]) { return Relu(MatMul(%x, %w)) }")
        self.anfora("compile", "product.ir", "-o", "product.anf")
        for rows in (3, 6):
            for file in ("product.ir", "product.anf"):
                profile = self.profile(file, "--dim", f"N={rows}")
                self.assertIn(profile["flops"] - 2 * rows * 64 * 48, (0, rows * 48), profile)  # an activation may go into the product
                self.assertEqual(profile["flops"], sum(entry["flops"] for entry in profile["by_operator"]))
                self.assertGreaterEqual(profile["bytes"], 4 * (rows * 64 + 64 * 48 + rows * 48))
                self.assertGreater(profile["share_of_roofline"], 0)

    def test_work_of_groups_and_movement(self):
        self.write("group.ir", "module { outputs = [\"y\"] } graph @main(%x: f32[N, 1, 64], %b: f32[8, 64]) { return Mul(Add(%x, %b), %x) }")
        profile = self.profile("group.ir", "--dim", "N=5")
        self.assertEqual(profile["flops"], 2 * 5 * 8 * 64)
        self.write("rows.ir", "module { outputs = [\"y\"] } graph @main(%x: f32[1000, 64], %i: i64[3]) { return Gather(%x, %i) }")
        np.savez(self.folder / "rows.npz", x=np.ones((1000, 64), np.float32), i=np.arange(3))
        profile = json.loads(self.anfora("run", "rows.ir", "--input", "rows.npz", "--profile", "trace.json", "--json").stdout)["profile"]
        self.assertEqual((profile["flops"], profile["bytes"]), (0, 2 * 3 * 64 * 4 + 3 * 8))  # three rows are read, not the table

    def test_work_of_loops(self):
        """Calls are summed over iterations."""
        self.write("loop.py", "def f(x: \"f32[16, 16]\", n: int):\n    for _ in range(n):\n        x = x @ x\n    return x\n")
        np.savez(self.folder / "loop.npz", x=np.eye(16, dtype=np.float32), n=np.int64(7))
        found = self.anfora("run", "loop.py::f", "--input", "loop.npz", "--profile", "trace.json", "--json")
        products = [e for e in json.loads(found.stdout)["profile"]["by_operator"] if "MatMul" in e["operator"]]
        self.assertEqual([(e["calls"], e["flops"]) for e in products], [(7, 7 * 2 * 16 ** 3)])

    def test_roofline(self):
        profile = self.profile("m.onnx")
        rates = [reading["bytes_per_second"] for reading in profile["roofline"]["reading"]]
        self.assertEqual(rates, sorted(rates, reverse=True))
        self.assertGreater(profile["roofline"]["flops_per_second"], 0)

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

#!/usr/bin/env python3
"""What reports count: nodes are those of the file, in every command; and every step that changed something is told.

usage: ANFORA=build/release/anfora report_test.py [unittest arguments]
"""
import io
import json
import re
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

from cli import Case, constant, count_nodes, model, tensor


def branching():
    """16 nodes: an If with bodies of 2 and 3, a Loop with a body of 2, two Constants, a call of a function with 2 (in the file once)."""
    then = helper.make_graph([helper.make_node("Relu", ["x"], ["t0"]), helper.make_node("Neg", ["t0"], ["t"])], "then", [], [tensor("t", None)])
    other = helper.make_graph([helper.make_node("Abs", ["x"], ["e0"]), helper.make_node("Neg", ["e0"], ["e1"]),
                               helper.make_node("Exp", ["e1"], ["e"])], "else", [], [tensor("e", None)])
    body = helper.make_graph([helper.make_node("Identity", ["c"], ["c2"]), helper.make_node("Add", ["s", "s"], ["s2"])], "body",
                             [tensor("i", [], TensorProto.INT64), tensor("c", [], TensorProto.BOOL), tensor("s", None)],
                             [tensor("c2", [], TensorProto.BOOL), tensor("s2", None)])
    twice = helper.make_function("own", "twice", ["a"], ["b"], [helper.make_node("Tanh", ["a"], ["a1"]), helper.make_node("Tanh", ["a1"], ["b"])],
                                 [helper.make_opsetid("", 17)])
    nodes = [helper.make_node("Constant", [], ["n"], value=constant("n", np.int64(40))),
             helper.make_node("Constant", [], ["one"], value=constant("one", np.float32([1]))),
             helper.make_node("Mul", ["x", "one"], ["m"]),
             helper.make_node("If", ["go"], ["u"], then_branch=then, else_branch=other, name="choose"),
             helper.make_node("Loop", ["n", "", "m"], ["v"], body=body, name="repeat"),
             helper.make_node("twice", ["u"], ["w"], domain="own"),
             helper.make_node("Add", ["v", "w"], ["y"])]
    return model(nodes, [tensor("x", [2, 3]), tensor("go", [], TensorProto.BOOL)], [tensor("y", None)], functions=[twice], domains=["own"])


class Report(Case):
    def setUp(self):
        super().setUp()
        self.model = branching()
        self.nodes = count_nodes(self.model)
        self.save("m.onnx", self.model)

    def written(self, name="small.onnx"):
        return count_nodes(onnx.load(str(self.folder / name)))

    def test_every_command_counts_the_nodes_of_the_file(self):
        self.assertEqual(self.nodes, 16)
        info = json.loads(self.anfora("info", "m.onnx", "--json").stdout)
        self.assertEqual(info["nodes"], self.nodes)
        self.assertEqual(sum(info["operator_counts"].values()), self.nodes)
        self.assertEqual((info["operator_counts"]["If"], info["operator_counts"]["Constant"], info["operator_counts"]["own::twice"]), (1, 2, 1))
        self.assertIn(f"nodes   {self.nodes} (", self.anfora("info", "m.onnx").stdout)

        report = json.loads(self.anfora("opt", "m.onnx", "-o", "small.onnx", "--json").stdout)
        self.assertEqual((report["nodes_before"], report["nodes_after"]), (self.nodes, self.written()))
        explained = json.loads(self.anfora("explain", "m.onnx", "--json").stdout)
        self.assertEqual((explained["nodes_before"], explained["nodes_after"]), (self.nodes, self.written()))
        self.assertIn(f"{self.nodes} → {self.written()} nodes", self.anfora("explain", "m.onnx").stdout)
        self.assertIn(f"{self.nodes} → {self.written()} nodes", self.anfora("diff", "m.onnx", "small.onnx", code=1).stdout)

    def test_the_table_adds_up(self):
        report = json.loads(self.anfora("opt", "m.onnx", "-o", "small.onnx", "--json").stdout)
        removed = sum(step["nodes_removed"] for step in report["passes"].values())
        self.assertEqual(report["nodes_before"] - removed, report["nodes_after"])
        lines = self.anfora("opt", "m.onnx", "-o", "small.onnx").stdout.splitlines()
        self.assertEqual(lines[0].split(), ["rewrites", "nodes", "size", "compute", "time"])
        column = lines[0].index("nodes") + len("nodes")
        changes = [re.search(r"[+−]?\d+$", line[:column]) for line in lines[2:] if line.startswith("  ")]
        total = sum(int(change.group().replace("−", "-")) for change in changes if change and change.group()[0] in "+−")
        self.assertEqual(self.nodes + total, self.written())
        self.assertTrue(lines[1].startswith("m.onnx"))
        self.assertEqual(lines[1][:column].split()[-1], str(self.nodes))

    def test_size_has_external_data(self):
        weight = constant("w", np.zeros((300, 300), np.float32))
        big = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [tensor("x", [2, 300])], [tensor("y", [2, 300])], [weight])
        onnx.save(big, str(self.folder / "big.onnx"), save_as_external_data=True, location="big.data", size_threshold=1024)
        info = json.loads(self.anfora("info", "big.onnx", "--json").stdout)
        self.assertGreater(info["bytes"], 360000)

    def test_final_steps_are_rows(self):
        """Three products of one value: horizontal fusion, which runs behind the rounds."""
        rng = np.random.default_rng(0)
        weights = [constant(f"w{i}", rng.standard_normal((64, 64)).astype(np.float32)) for i in range(3)]
        nodes = [helper.make_node("MatMul", ["x", f"w{i}"], [f"y{i}"]) for i in range(3)]
        self.save("wide.onnx", model(nodes, [tensor("x", [4, 64])], [tensor(f"y{i}", None) for i in range(3)], weights))
        report = json.loads(self.anfora("opt", "wide.onnx", "-o", "small.onnx", "--json").stdout)
        rewritten = {rule for rule, entry in report["rules"].items() if entry["fired"]}
        if any("parallel" in rule or "products" in rule for rule in rewritten):
            self.assertIn("parallel", report["passes"])
            self.assertIn("horizontal fusion", self.anfora("opt", "wide.onnx", "-o", "small.onnx").stdout)

    def test_only_rules_that_were_tried(self):
        for arguments in (["opt", "m.onnx", "-o", "small.onnx"], ["explain", "m.onnx"]):
            rules = json.loads(self.anfora(*arguments, "--json").stdout)["rules"]
            self.assertTrue(rules)
            for rule, entry in rules.items():
                self.assertGreater(entry.get("tried", entry["fired"]), 0, rule)

    def test_unknown_sizes_are_told(self):
        self.save("open.onnx", model([helper.make_node("MatMul", ["x", "w"], ["y"])], [tensor("x", ["batch", 8])], [tensor("y", None)],
                                     [constant("w", np.zeros((8, 4), np.float32))]))
        self.assertIn("64 FLOP a run, with every unknown size 1", self.anfora("info", "open.onnx").stdout)
        self.assertIn("every unknown size 1", self.anfora("opt", "open.onnx", "-o", "small.onnx").stdout)
        self.assertTrue(json.loads(self.anfora("info", "open.onnx", "--json").stdout)["flops_of_unknown_sizes_1"])
        self.assertNotIn("unknown size", self.anfora("opt", "m.onnx", "-o", "small.onnx").stdout)

    def test_standard_output(self):
        result = self.anfora("opt", "m.onnx", "-o", "-", text=False)
        written = onnx.load(io.BytesIO(result.stdout))
        self.assertIn("rewrites", result.stderr.decode())
        self.anfora("opt", "m.onnx", "-o", "small.onnx")
        self.assertEqual((self.folder / "small.onnx").read_bytes(), result.stdout)
        self.assertEqual(count_nodes(written), self.written())
        result = self.anfora("opt", "m.onnx", "-o", "-", "--json", text=False)
        self.assertEqual(json.loads(result.stderr)["output"], "-")

        result = self.anfora("run", "small.onnx", "--random", "--output", "-", text=False)
        self.assertEqual(np.load(io.BytesIO(result.stdout))["y"].shape, (2, 3))
        self.assertIn("y: f32[2, 3]", result.stderr.decode())
        self.assertIn("graph @main", self.anfora("dump", "m.onnx", "-o", "-").stdout)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["m.onnx", "small.onnx"])

    def test_no_colours_in_a_pipe(self):
        for arguments in (["info", "m.onnx"], ["opt", "m.onnx", "-o", "small.onnx"], ["explain", "m.onnx"], ["diff", "m.onnx", "small.onnx"],
                          ["rules"], ["run", "m.onnx", "--random", "--profile", "trace.json"], ["info", "absent.onnx"]):
            result = self.anfora(*arguments, code=None)
            self.assertNotIn("\033", result.stdout + result.stderr, arguments)


if __name__ == "__main__":
    unittest.main()

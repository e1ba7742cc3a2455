#!/usr/bin/env python3
"""--tune: kernels that are chosen by measuring them inside the model.

usage: ANFORA=build/release/anfora tune_test.py [unittest arguments]
"""
import json
import os
import unittest

import numpy as np
from onnx import helper

from cli import Case, constant, model, tensor


class Tune(Case):
    def setUp(self):
        super().setUp()
        nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
        weight = constant("w", np.random.default_rng(1).standard_normal((64, 48), dtype=np.float32))
        for name, rows in (("m.onnx", 16), ("open.onnx", "N")):
            self.save(name, model(nodes, [tensor("x", [rows, 64])], [tensor("y", [rows, 48])], [weight]))
        np.savez(self.folder / "in.npz", x=np.random.default_rng(2).standard_normal((16, 64), dtype=np.float32))
        self.cache = self.folder / "cache"

    def tuned(self, *arguments, code=0):
        return self.anfora(*arguments, code=code, env={**os.environ, "ANFORA_CACHE": str(self.cache)})

    def test_measured_once(self):
        results = []
        for how, notes in (("off", ""), ("fast", "1 measured in"), ("fast", "as the cache has them"), ("full", "1 measured in")):
            result = self.tuned("run", "m.onnx", "--input", "in.npz", "--output", "out.npz", "--threads", "1", "--tune", how)
            self.assertIn(notes, result.stderr)
            results.append(np.load(self.folder / "out.npz")["y"])
        for result in results[1:]:
            np.testing.assert_allclose(result, results[0], rtol=1e-5, atol=1e-5)
        files = list(self.cache.glob("tuning-*.json"))
        self.assertEqual(len(files), 1)
        lines = [json.loads(line) for line in files[0].read_text().splitlines()]
        self.assertEqual(lines[0]["anfora tuning"], 1)
        self.assertIn("1 thread", lines[0]["for"])
        self.assertTrue(lines[1]["kernel"].startswith("LoweredMatMul(f32[16x64], const f32[64x48])"), lines[1])
        self.assertIn(lines[1]["taken"], lines[1]["among"])

    def test_each_command(self):
        result = self.tuned("bench", "m.onnx", "--seconds", "0", "--json", "--tune", "fast")
        self.assertIn("1 measured in", result.stderr)
        self.assertIn("cpu_ms", json.loads(result.stdout))
        self.assertIn("as the cache has them", self.tuned("compile", "m.onnx", "-o", "m.anf", "--tune", "fast").stdout)
        self.tuned("run", "m.anf", "--input", "in.npz")

    def test_open_sizes(self):
        result = self.tuned("bench", "open.onnx", "--seconds", "0", "--dim", "N=16", "--tune", "fast")
        self.assertIn("1 kernel of sizes that only a run knows left out", result.stderr)
        result = self.tuned("bench", "open.onnx", "--seconds", "0", "--shape", "x=16,64", "--tune", "fast")
        self.assertIn("1 measured in", result.stderr)

    def test_a_damaged_cache(self):
        self.tuned("bench", "m.onnx", "--seconds", "0", "--tune", "fast")
        file, = self.cache.glob("tuning-*.json")
        file.write_text(file.read_text()[:-20])
        result = self.tuned("bench", "m.onnx", "--seconds", "0", "--tune", "fast")
        self.assertIn("is damaged, and counts as empty", result.stderr)
        self.assertIn("1 measured in", result.stderr)
        self.assertIn("as the cache has them", self.tuned("bench", "m.onnx", "--seconds", "0", "--tune", "fast").stderr)

    def test_what_is_wrong(self):
        self.assertIn("--tune", self.tuned("run", "m.onnx", "--random", "--tune", "much", code=2).stderr)
        self.tuned("compile", "m.onnx", "-o", "m.anf")
        self.assertIn("`anfora compile`", self.tuned("run", "m.anf", "--random", "--tune", "fast", code=3).stderr)
        result = self.tuned("compile", "m.onnx", "-o", "m.anf", "--tune", "fast", "--memory-limit", "1MB", code=3)
        self.assertIn("not tuned under a memory limit", result.stderr)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""anfora diff: what is different between two graphs.

usage: ANFORA=build/release/anfora diff_test.py [unittest arguments]
"""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ANFORA = os.path.abspath(os.environ["ANFORA"])

BEFORE = """
graph @main(%x: f32[2, 3]) {
  %a = Identity(%x)
  %b = Mul(%a, 2.0)
  %c = Softmax(%b){axis=-1}
  return %c
}
"""
AFTER = """
graph @main(%x: f32[2, 3]) {
  %b = Add(%x, 2.0)
  %c = Softmax(%b){axis=0}
  %d = Relu(%c)
  return %d
}
"""


class Diff(unittest.TestCase):
    def diff(self, *arguments, before=BEFORE, after=AFTER):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "before.ir").write_text(before)
            (pathlib.Path(folder) / "after.ir").write_text(after)
            return subprocess.run([ANFORA, "diff", "before.ir", "after.ir", *arguments], capture_output=True, text=True, cwd=folder,
                                  timeout=60)

    def test_changes(self):
        result = self.diff()
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("3 → 3 nodes: 0 as they were, 2 changed, 1 gone, 1 new", result.stdout)
        self.assertIn("Mul 'b' → Add 'b'", result.stdout)
        self.assertIn("attributes {} → {axis=0}", result.stdout)
        self.assertIn("- Identity 'a'", result.stdout)
        self.assertIn("+ Relu 'd'", result.stdout)

    def test_for_machines(self):
        found = json.loads(self.diff("--json").stdout)
        self.assertEqual(found["gone"], ["Identity 'a'"])
        self.assertEqual(found["new"], ["Relu 'd'"])
        self.assertEqual(found["operators"]["Add"], [0, 1])
        self.assertEqual([node["after"] for node in found["changed"]], ["Add 'b'", "Softmax 'c'"])

    def test_nothing(self):
        result = self.diff(after=BEFORE)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "3 → 3 nodes: 3 as they were, 0 changed, 0 gone, 0 new\n")

    def test_interface(self):
        result = self.diff(after=BEFORE.replace("f32[2, 3]", "f32[4, 3]"))
        self.assertIn("input gone: x: f32[2, 3]", result.stdout)
        self.assertIn("input new: x: f32[4, 3]", result.stdout)

    def test_symbols_that_inference_made(self):
        """Sizes that only node numbers name are the same in another module, where the numbers are others, and are shown as `?`."""
        before = "module { outputs = [\"y\"] } graph @main(%x: f32[n, 4]) { %a = Identity(%x)  %i = NonZero(%a)  %y = Neg(%i)  return %y }"
        after = "module { outputs = [\"y\"] } graph @main(%x: f32[n, 4]) { %i = NonZero(%x)  %y = Neg(%i)  return %y }"
        result = self.diff(before=before, after=after)
        self.assertIn("3 → 2 nodes: 1 as they were, 1 changed, 1 gone, 0 new", result.stdout)
        self.assertNotIn("output", result.stdout)
        result = self.diff(before=before, after=after.replace("Neg(%i)", "Cast(%i){to=1}"))
        self.assertIn("output gone: y: i64[2, ?]", result.stdout)
        self.assertIn("output new: y: f32[2, ?]", result.stdout)
        self.assertNotRegex(result.stdout, r"_\d+_\d+")

    def test_missing_file(self):
        result = subprocess.run([ANFORA, "diff", "no.onnx", "none.onnx"], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("no.onnx", result.stderr)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""What models are compared on: made-up inputs that fit, given ones, pinned shapes; what the comparison says.

usage: ANFORA=build/release/anfora inputs_test.py [unittest arguments]
"""
import json
import sys
import unittest

try:
    import numpy as np
    from cli import Case
except ImportError:
    sys.exit(77)

# Sizes that fit: a row has 48 elements.
ROWS = "graph @main(%x: f32[n]) { return Relu(Relu(Reshape(%x, [-1, 48]))) }"
# An integer that fits: the one that it is compared with.
RATE = "graph @main(%x: f32[6], %rate: i64[]) { return Relu(Relu(Reshape(%x, Where(Equal(%rate, 16000), [2, 3], [4, 5])))) }"
# Nothing fits but two different numbers.
FACTORS = "graph @main(%x: f32[1517], %shape: i64[2]) { return Relu(Relu(Reshape(%x, %shape))) }"
# A dimension without a name.
UNNAMED = "graph @main(%x: f32[?], %shape: i64[2]) { return Relu(Relu(Reshape(%x, Add(%shape, [37, 41])))) }"
# Shape arithmetic that goes away with the sizes.
HALVES = """
graph @main(%x: f32[batch, 4, height, width]) {
  %size = Slice(Shape(%x), [2], [4], [0])
  %half = Div(%size, [2, 2])
  %rest = Slice(Shape(%x), [0], [2], [0])
  %shape = Concat(%rest, %half, [4]){axis=0}
  return Reshape(%x, %shape)
}
"""


class Inputs(Case):
    def anfora(self, *arguments):
        return super().anfora(*arguments, code=None)

    def optimize(self, text, *options):
        self.write("model.ir", text)
        result = self.anfora("opt", "model.ir", "-o", "small.ir", "--json", *options)
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        return json.loads(result.stdout)

    def assert_refused(self, arguments, code, *messages):
        result = self.anfora(*arguments)
        self.assertEqual(result.returncode, code, result.stderr + result.stdout)
        for message in messages:
            self.assertIn(message, result.stderr)

    def test_sizes_are_searched(self):
        self.assertIn("with n=48", self.optimize(ROWS)["verdict"])
        self.assertIn("same outputs", self.anfora("verify", "model.ir", "small.ir").stdout)
        self.assertEqual(self.anfora("run", "model.ir", "--random").returncode, 0)
        self.assertEqual(self.anfora("bench", "model.ir", "--seconds", "0.01").returncode, 0)
        self.assertIn("same outputs", self.optimize(ROWS, "--dim", "n=96")["verdict"])

    def test_numbers_are_those_that_the_model_asks_for(self):
        self.assertTrue(self.optimize(RATE)["verified"])

    def test_sizes_of_several_inputs(self):
        self.assertTrue(self.optimize("graph @main(%x: f32[n, k], %y: f32[m, 7]) { return MatMul(Relu(Relu(%x)), Transpose(%y)) }")["verified"])

    def test_nothing_fits(self):
        report = self.optimize(FACTORS)
        self.assertFalse(report["verified"])
        self.assertTrue(report["verdict"].startswith("NOT VERIFIED: made-up inputs do not fit. Try "), report["verdict"])
        self.assertIn("--input in.npz", report["verdict"])
        self.assertIn("Reshape", report["reason"])
        result = self.anfora("verify", "model.ir", "small.ir")
        self.assertEqual(result.returncode, 3)
        self.assertIn("NOT VERIFIED", result.stdout)
        self.assert_refused(("run", "model.ir", "--random"), 3, "made-up inputs do not fit", "--input in.npz")

    def test_given_inputs(self):
        np.savez(self.folder / "in.npz", x=np.ones(1517, np.float32), shape=np.array([37, 41]))
        self.assertIn("same outputs", self.optimize(FACTORS, "--input", "in.npz")["verdict"])
        self.assertIn("the given inputs", self.anfora("verify", "model.ir", "small.ir", "--input", "in.npz").stdout)
        self.assertEqual(self.anfora("opt", "model.ir", "-o", "small.ir", "--check", "--input", "in.npz").returncode, 0)

    def test_given_inputs_show_a_difference(self):
        np.savez(self.folder / "in.npz", x=np.full(3, -7, np.float32))
        self.write("a.ir", "graph @main(%x: f32[3]) { return Relu(%x) }")
        self.write("b.ir", "graph @main(%x: f32[3]) { return Clip(%x, -6.0) }")
        result = self.anfora("verify", "a.ir", "b.ir", "--input", "in.npz")
        self.assertEqual(result.returncode, 1)
        self.assertIn("on the given inputs", result.stdout)

    def test_wrong_given_inputs(self):
        self.write("model.ir", FACTORS)
        np.savez(self.folder / "in.npz", y=np.ones(3, np.float32))
        for command in ("opt", "model.ir", "-o", "small.ir"), ("verify", "model.ir", "model.ir"):
            self.assert_refused((*command, "--input", "in.npz"), 3, "no input 'y'")
            self.assert_refused((*command, "--input", "absent.npz"), 3, "absent.npz")

    def test_unnamed_dimensions(self):
        self.assertTrue(self.optimize(UNNAMED, "--shape", "x=1517")["verdict"])

    def test_second_model_that_fails_differs(self):
        self.write("a.ir", "graph @main(%x: f32[n]) { return Relu(%x) }")
        self.write("b.ir", "graph @main(%x: f32[n]) { return Reshape(Relu(Reshape(%x, [-1, 5])), [-1]) }")
        result = self.anfora("verify", "a.ir", "b.ir")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("the second model fails", result.stdout)

    def test_pinned_shapes_fold(self):
        self.assertGreater(self.optimize(HALVES)["nodes_after"], 1)
        report = self.optimize(HALVES, "--shape", "x=1,4,6,8")
        self.assertEqual(report["nodes_after"], 1)
        self.assertIn("bit for bit", report["verdict"])
        text = (self.folder / "small.ir").read_text()
        self.assertIn("%x: f32[1, 4, 6, 8]", text)
        self.assertNotIn("batch", text)

    def test_pinned_batch(self):
        self.optimize(HALVES, "--batch", "3")
        self.assertIn("%x: f32[3, 4, height, width]", (self.folder / "small.ir").read_text())
        info = json.loads(self.anfora("info", "model.ir", "--json", "--batch", "3", "--dim", "height=2", "--dim", "width=4").stdout)
        self.assertEqual(info["inputs"]["x"], "f32[3, 4, 2, 4]")
        for command in ("run", "model.ir", "--random"), ("bench", "model.ir", "--seconds", "0.01"), ("verify", "model.ir", "model.ir"):
            result = self.anfora(*command, "--shape", "x=1,4,6,8")
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_pinned_symbols_are_pinned_everywhere(self):
        self.optimize("graph @main(%x: f32[n, 3], %y: f32[n, m]) { return Concat(%x, %y){axis=1} }", "--shape", "x=5,3")
        self.assertIn("%y: f32[5, m]", (self.folder / "small.ir").read_text())

    def test_wrong_pins(self):
        self.write("model.ir", "graph @main(%input: f32[n, 4], %y: f32[n]) { return (Relu(%input), %y) }")
        for shapes, code, message in (
            (("inpt=1,4",), 3, "no input 'inpt'"),
            (("input=1",), 3, "1 dimensions are given instead of 2"),
            (("input=1,3",), 3, "dimension 1 is 4, not 3"),
            (("input=1,4", "y=2"), 3, "dimension n is"),
            (("input",), 2, "NAME=SIZE"),
            (("input=1,",), 2, "NAME=SIZE"),
            (("input=1,x",), 2, "NAME=SIZE"),
            (("input=-1,4",), 2, "NAME=SIZE"),
            (("y=1", "y=1"), 2, "twice"),
        ):
            with self.subTest(shapes=shapes):
                arguments = [part for shape in shapes for part in ("--shape", shape)]
                self.assert_refused(("opt", "model.ir", "-o", "small.ir", *arguments), code, message)
                self.assertFalse((self.folder / "small.ir").exists())
        self.write("model.ir", "graph @main(%x: f32[2]) { return Relu(%x) }")
        self.assert_refused(("info", "model.ir", "--batch", "3"), 3, "first dimension")

    def test_checks_exclude_each_other(self):
        self.write("model.ir", ROWS)
        self.assert_refused(("opt", "model.ir", "-o", "small.ir", "--check", "--no-check"), 2, "--no-check")
        self.assertFalse((self.folder / "small.ir").exists())


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Effects of a run: printed in the order of their tokens, and errors of assertions.

usage: ANFORA=build/release/anfora effects_test.py [unittest arguments]
"""
import sys
import unittest

try:
    import numpy as np
    from cli import Case
except ImportError:
    sys.exit(77)

DOUBLING = """
graph @main(%x: f32[2], %n: i64[]) {
  %token = InitialState()
  %all = call @loop(0, %x, %token)
  return Depend(%all[0], %all[1])
}
graph @loop(%i, %v, %t) in @main {
  %next = Switch(Less(%i, %n), @body, @done)
  return call %next()
}
graph @body() in @loop {
  %u = Print(%t, %v){message="v"}
  return call @loop(Add(%i, 1), Mul(%v, 2.0), Assert(%u, Less(%v, 10.0)){message="it grows"})
}
graph @done() in @loop { return (%v, %t) }
"""


class Effects(Case):
    def run_doubling(self, times, code):
        self.write("model.ir", DOUBLING)
        np.savez(self.folder / "inputs.npz", x=np.array([1, 0.5], np.float32), n=np.array(times))
        return self.anfora("run", "model.ir", "--input", "inputs.npz", code=code)

    def test_order_of_prints(self):
        result = self.run_doubling(3, 0)
        printed = [line for line in result.stderr.splitlines() if line.startswith("v")]
        self.assertEqual(printed, ["v: f32[2] 1 0.5", "v: f32[2] 2 1", "v: f32[2] 4 2"])

    def test_assertion(self):
        result = self.run_doubling(9, None)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("it grows", result.stderr)
        self.assertEqual(sum(line.startswith("v") for line in result.stderr.splitlines()), 5)  # 16 is the first that is too large

    def test_no_onnx_form(self):
        self.write("model.ir", DOUBLING)
        result = self.anfora("opt", "model.ir", "-o", "small.onnx", code=None)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("has no ONNX form", result.stderr)
        self.assertFalse((self.folder / "small.onnx").exists())


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""compile: models in files that run without being compiled again.

usage: ANFORA=build/release/anfora compile_test.py [unittest arguments]
"""
import json
import os
import unittest

import numpy as np
from onnx import helper

from cli import Case, constant, model, tensor


class Compile(Case):
    def setUp(self):
        super().setUp()
        nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
        weight = constant("w", np.arange(32, dtype=np.float32).reshape(8, 4) - 15)
        self.save("m.onnx", model(nodes, [tensor("x", ["N", 8])], [tensor("y", ["N", 4])], [weight]))
        np.savez(self.folder / "in.npz", x=np.arange(24, dtype=np.float32).reshape(3, 8) - 11)

    def test_it_gives_what_the_model_gives(self):
        self.assertRegex(self.anfora("compile", "m.onnx", "-o", "m.anf").stdout, r"^m\.anf: .*B, for anfora \d")
        for name in ("m.onnx", "m.anf"):
            self.anfora("run", name, "--input", "in.npz", "--output", f"{name}.npz")
        one, other = np.load(self.folder / "m.onnx.npz")["y"], np.load(self.folder / "m.anf.npz")["y"]
        np.testing.assert_array_equal(one, other)
        self.anfora("run", "m.anf", "--random", "--dim", "N=5")
        measured = json.loads(self.anfora("bench", "m.anf", "--seconds", "0", "--json").stdout)
        self.assertAlmostEqual(measured["flops_per_second"] / (measured["flops"] / measured["median_ms"] * 1e3), 1)
        self.assertAlmostEqual(measured["share_of_peak"] * measured["peak_flops_per_second"] / measured["flops_per_second"], 1)
        self.assertIn("unchanged since it was written", self.anfora("info", "m.anf").stdout)
        self.assertEqual(json.loads(self.anfora("info", "m.anf", "--json").stdout)["inputs"], {"x": "f32[N, 8]"})

    def test_a_function(self):
        self.write("f.py", "def count(n: int):\n    i = 0\n    while i < n:\n        i += 2\n    return i\n")
        self.anfora("compile", "f.py::count", "-o", "count.anf")
        np.savez(self.folder / "n.npz", n=np.int64(7))
        self.anfora("run", "count.anf", "--input", "n.npz", "--output", "out.npz")
        self.assertEqual(int(next(iter(np.load(self.folder / "out.npz").values()))), 8)

    def test_lesser_instruction_sets(self):
        outputs = []
        for isa in ("sse2", "avx2", "avx512"):
            self.anfora("run", "m.onnx", "--random", "--dim", "N=5", "--isa", isa, "--output", f"{isa}.npz")
            outputs.append(np.load(self.folder / f"{isa}.npz")["y"])
        for output in outputs[:2]:
            np.testing.assert_allclose(output, outputs[2], rtol=1e-5, atol=1e-6)
        self.anfora("compile", "m.onnx", "-o", "sse2.anf", "--isa", "sse2")
        self.anfora("run", "sse2.anf", "--random", "--dim", "N=5", "--isa", "sse2")
        self.assertIn("sse3", self.anfora("run", "m.onnx", "--random", "--isa", "sse3", code=2).stderr)

    def test_what_a_function_becomes_on_the_way(self):
        text = "def twice(n):\n    return n * (1 + 1)\n\n\ndef count(n: int):\n    i = 0\n    while i < n:\n        i = i + twice(1)\n    return i\n"
        self.write("f.py", text)
        for command in (["compile", "f.py::count", "-o", "count.anf"], ["opt", "f.py::count", "-o", "count.ir", "--no-check"]):
            self.anfora(*command, "--save-graphs", command[0])
            files = sorted(path.name for path in (self.folder / command[0]).iterdir())
            self.assertEqual(files[:3], ["00_written.py", "01_folded.py", "02_control_flow.txt"])
            self.assertIn("03_import.ir", files)
            read = {name: (self.folder / command[0] / name).read_text() for name in files if name[0] in "0i" and not name.endswith("svg")}
            self.assertIn("# f.py:5\ndef count(n: int):\n    i = 0\n    while i < n:\n        i = i + twice(1)\n    return i\n", read["00_written.py"])
            self.assertIn("# f.py:1\ndef twice(n):\n    return n * 2\n", read["01_folded.py"])
            compile(read["01_folded.py"], "01_folded.py", "exec")
            self.assertRegex(read["02_control_flow.txt"], r"B1  7  i < n\?  +→ B2 \| B3")
            self.assertIn("graph @count.loop7(", read["03_import.ir"])
            self.assertIn('href="01_folded.py"', read["index.html"])
        last = max(name for name in files if name.endswith(".ir"))
        self.anfora("info", str(self.folder / "opt" / last))

    def test_what_is_wrong(self):
        self.anfora("compile", "m.onnx", "-o", "m.anf")
        self.assertIn("does not end in .anf", self.anfora("compile", "m.onnx", "-o", "m.bin", code=2).stderr)
        self.assertIn("run, bench and info take it", self.anfora("opt", "m.anf", "-o", "n.onnx", code=4).stderr)
        self.assertIn("`anfora compile`", self.anfora("run", "m.anf", "--random", "--shape", "x=3,8", code=3).stderr)
        np.savez(self.folder / "wrong.npz", x=np.zeros((3, 9), np.float32))
        self.assertIn("'x'", self.anfora("run", "m.anf", "--input", "wrong.npz", code=3).stderr)
        slower = {**os.environ, "ONEDNN_MAX_CPU_ISA": "SSE41"}
        self.assertIn("compile it again, on this machine", self.anfora("run", "m.anf", "--random", code=4, env=slower).stderr)
        (self.folder / "m.anf").write_bytes((self.folder / "m.anf").read_bytes()[:-1])
        self.assertIn("m.anf: the file is cut off", self.anfora("info", "m.anf", code=3).stderr)

    def test_layouts_are_counted(self):
        """Images go in and out with their channels first: two transposes, whose bytes only static sizes tell."""
        nodes = [helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4), helper.make_node("MaxPool", ["a"], ["b"], kernel_shape=[2, 2]),
                 helper.make_node("Conv", ["b", "v"], ["y"], pads=[1] * 4)]
        weights = [constant("w", np.ones((16, 32, 3, 3), np.float32)), constant("v", np.ones((16, 16, 3, 3), np.float32))]
        self.save("conv.onnx", model(nodes, [tensor("x", ["N", 32, 14, 14])], [tensor("y", None)], weights))
        for dims, size in (("N=2", 4 * 2 * (32 * 14 * 14 + 16 * 13 * 13)), (None, 0)):
            more = ["--dim", dims] if dims else []
            layouts = json.loads(self.anfora("info", "conv.onnx", "--compiled", "--json", *more).stdout)["compiled"]["layouts"]
            self.assertEqual(layouts, {"transposes": 2, "transposed_bytes": size, "transposes_of_unknown_size": 0 if dims else 2,
                                       "image_operators": 3, "channels_last": 3})
        self.anfora("compile", "conv.onnx", "-o", "conv.anf")
        for arguments in (["conv.anf"], ["conv.onnx", "--compiled"]):
            self.assertRegex(self.anfora("info", *arguments).stdout,
                             r"layouts 2 transposes, 2 of unknown size; 3 of 3 convolutions and poolings with their channels last\n")

    def test_pixels_become_tokens_without_a_copy(self):
        """What a convolution gives lies pixel by pixel already: what is left is the transpose of the image that goes in."""
        split = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Reshape", ["b", "parts"], ["c"]),
                 helper.make_node("ReduceSumSquare", ["c", "one"], ["d"], keepdims=0),
                 helper.make_node("Slice", ["d", "from", "to", "height"], ["e"]), helper.make_node("Transpose", ["e"], ["y"], perm=[0, 2, 3, 1])]
        merge = [helper.make_node("Reshape", ["a", "tokens"], ["b"]), helper.make_node("Transpose", ["b"], ["y"], perm=[0, 2, 1])]
        weights = [constant(name, np.array(values, np.int64)) for name, values in {
            "parts": [0, 2, 8, 14, 14], "one": [1], "from": [0], "to": [7], "height": [2], "tokens": [0, 16, -1]}.items()]
        weights.append(constant("w", np.ones((16, 32, 3, 3), np.float32)))
        convolution = helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4)
        for nodes in (split, merge):
            self.save("conv.onnx", model([convolution, *nodes], [tensor("x", ["N", 32, 14, 14])], [tensor("y", None)], weights))
            layouts = json.loads(self.anfora("info", "conv.onnx", "--compiled", "--json").stdout)["compiled"]["layouts"]
            self.assertEqual(layouts["transposes"], 1)


if __name__ == "__main__":
    unittest.main()

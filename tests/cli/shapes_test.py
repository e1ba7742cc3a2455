#!/usr/bin/env python3
"""Models whose declarations say too little or too much about shapes and outputs, which ONNX Runtime takes all the same:
names of dimensions that mean nothing or do not hold, declared outputs that are of other sizes, an output listed twice.

usage: ANFORA=build/release/anfora shapes_test.py [unittest arguments]
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    sys.exit(77)

ANFORA = os.path.abspath(os.environ["ANFORA"])

# Each at two places of one model; none says that those have one size.
MEANINGLESS = ("?", "", "-1", "*", "None", "none", "unknown", "UNKNOWN", "dynamic", "0", None)


def value(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs, outputs, initializers=(), **more):
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(array, name) for name, array in initializers])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, **more)


def square(rows, columns, output=("R", "C")):
    """Everything here would become simpler if x were square: Shape, Reshape to the transposed shape, Add of the transposed."""
    nodes = [helper.make_node("Shape", ["x"], ["s"]),
             helper.make_node("Gather", ["s", "swap"], ["t"]),
             helper.make_node("Reshape", ["x", "t"], ["turned"]),
             helper.make_node("Sub", ["s", "t"], ["difference"])]
    return model(nodes, [value("x", [rows, columns])], [value("turned", list(output)), value("difference", [2], TensorProto.INT64)],
                 [("swap", np.array([1, 0]))])


def pair(a, b):
    """Everything here would become simpler if both inputs had one size: Expand to the other's shape, the outer product."""
    nodes = [helper.make_node("Shape", ["b"], ["s"]), helper.make_node("Shape", ["a"], ["r"]), helper.make_node("Sub", ["s", "r"], ["d"]),
             helper.make_node("Concat", ["a", "b"], ["y"], axis=0),
             helper.make_node("Unsqueeze", ["a", "one"], ["column"]), helper.make_node("Concat", ["r", "s"], ["both"], axis=0),
             helper.make_node("Expand", ["column", "both"], ["e"]), helper.make_node("Mul", ["e", "b"], ["z"])]
    return model(nodes, [value("a", [a]), value("b", [b])],
                 [value("y", None), value("d", [1], TensorProto.INT64), value("z", None)], [("one", np.array([1]))])


A, B = np.arange(1, 4, dtype=np.float32), np.arange(4, 8, dtype=np.float32)
OF_PAIR = {"y": np.concatenate([A, B]), "d": np.array([1]), "z": np.outer(A, B)}
X = np.arange(12, dtype=np.float32).reshape(3, 4)
OF_SQUARE = {"turned": X.reshape(4, 3), "difference": np.array([-1, 1])}


class Shapes(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def anfora(self, *arguments):
        result = subprocess.run([ANFORA, *map(str, arguments)], capture_output=True, text=True, cwd=self.folder, timeout=60)
        self.assertEqual(result.returncode, 0, result)
        return result

    def save(self, source):
        path = self.folder / "model.onnx"
        path.write_bytes(source.SerializeToString())
        return path

    def run_on(self, path, inputs, want, warnings=0):
        """The outputs are as wanted, after that many lines of warning."""
        np.savez(self.folder / "in.npz", **inputs)
        for how in ([], ["--no-optimize"]):
            result = self.anfora("run", path, "--input", "in.npz", "--output", "out.npz", *how)
            self.assertEqual(len(result.stderr.splitlines()), warnings, result.stderr)
            with np.load(self.folder / "out.npz") as got:
                self.assertEqual(sorted(got.files), sorted(want))
                for name, array in want.items():
                    self.assertEqual(got[name].shape, np.shape(array), name)
                    np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-6, err_msg=name)
        return result.stderr

    def optimize(self, path, *options):
        small = self.folder / "small.onnx"
        self.anfora("opt", path, "-o", small, *options)
        onnx.checker.check_model(str(small), full_check=True)
        return small

    # Names of dimensions -----------------------------------------------------------------------------------

    def test_names_that_mean_nothing(self):
        for name in MEANINGLESS:
            with self.subTest(name):
                for source, inputs, want in ((square(name, name), {"x": X}, OF_SQUARE), (pair(name, name), {"a": A, "b": B}, OF_PAIR)):
                    path = self.save(source)
                    self.run_on(path, inputs, want)
                    self.run_on(self.optimize(path), inputs, want)

    def test_names_that_do_not_hold(self):
        for source, inputs, want in ((square("N", "N"), {"x": X}, OF_SQUARE), (pair("N", "N"), {"a": A, "b": B}, OF_PAIR)):
            warning = self.run_on(self.save(source), inputs, want, warnings=1)
            self.assertIn("'N'", warning)
            self.assertRegex(warning, "3.*4")

    def test_names_that_hold_are_used(self):
        small = onnx.load(self.optimize(self.save(square("N", "N"))))
        self.assertNotIn("Sub", [node.op_type for node in small.graph.node])
        self.run_on(self.folder / "model.onnx", {"x": np.eye(3, dtype=np.float32)}, {"turned": np.eye(3), "difference": np.zeros(2)})

    def test_default_that_contradicts(self):
        source = pair("N", "N")
        source.graph.initializer.append(numpy_helper.from_array(B, "b"))
        self.run_on(self.save(source), {"a": A}, OF_PAIR, warnings=1)

    def test_fixed_sizes_hold(self):
        np.savez(self.folder / "in.npz", x=X)
        result = subprocess.run([ANFORA, "run", self.save(square(3, 3)), "--input", "in.npz"], capture_output=True, text=True,
                                cwd=self.folder, timeout=60)
        self.assertEqual(result.returncode, 3, result)
        self.assertIn("dimension 1 must be 3", result.stderr)

    def test_declared_outputs_of_other_shapes(self):
        for declared in ([7, 7], [12], [3, 4]):
            with self.subTest(declared):
                path = self.save(square("R", "C", declared))
                warning = self.run_on(path, {"x": X}, OF_SQUARE, warnings=1)
                self.assertIn("'turned'", warning)

    def test_declared_values_of_other_shapes(self):
        source = square("R", "C")
        source.graph.value_info.extend([value("t", [5], TensorProto.INT64), value("s", ["R"], TensorProto.INT64)])
        self.run_on(self.save(source), {"x": X}, OF_SQUARE)

    # Outputs -----------------------------------------------------------------------------------------------

    def check_outputs(self, source, inputs, want):
        """The same outputs in the same order, by whichever way."""
        path, names = self.save(source), [output.name for output in source.graph.output]
        self.run_on(path, inputs, want)
        for options in ([], ["--no-check"], ["--passes", "none"], ["--opset", "newest"]):
            with self.subTest(options):
                small = self.optimize(path, *options)
                self.assertEqual([output.name for output in onnx.load(small).graph.output], names)
                self.run_on(small, inputs, want)

    def test_output_listed_twice(self):
        x, y, z = (value(name, [3]) for name in "xyz")
        relu = helper.make_node("Relu", ["x"], ["y"])
        want = {"x": A, "y": A, "z": -A}
        for outputs in ([y, y], [y, z, y], [x, y], [x, y, x, y]):
            used = {output.name for output in outputs}
            nodes = [relu] + [helper.make_node("Neg", ["y"], ["z"])] * ("z" in used)
            self.check_outputs(model(nodes, [x], outputs), {"x": A}, {name: want[name] for name in used})

    def test_equal_outputs_of_two_names(self):
        x, y, z = (value(name, [3]) for name in "xyz")
        nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Relu", ["x"], ["z"])]
        self.check_outputs(model(nodes, [x], [y, z, y, z]), {"x": -A}, {"y": 0 * A, "z": 0 * A})

    def test_constant_output_listed_twice(self):
        x, y, w = value("x", [3]), value("y", [3]), value("w", [4])
        for outputs in ([w, y, w], [w, w]):
            nodes = [helper.make_node("Relu", ["x"], ["y"])]
            want = {"w": B, "y": A}
            self.check_outputs(model(nodes, [x], outputs, [("w", B)]), {"x": A}, {o.name: want[o.name] for o in outputs})

    def test_sequence_listed_twice(self):
        s = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
        nodes = [helper.make_node("SequenceConstruct", ["x", "x"], ["s"])]
        self.check_outputs(model(nodes, [value("x", [3])], [s, s]), {"x": A}, {"s.0": A, "s.1": A})

    def test_outputs_of_bodies_listed_twice(self):
        t = value("t", [3])
        then = helper.make_graph([helper.make_node("Relu", ["x"], ["t"])], "then", [], [t, t])
        other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"]), helper.make_node("Abs", ["x"], ["f"])], "else", [],
                                  [value("e", [3]), value("f", [3])])
        branch = model([helper.make_node("If", ["c"], ["y", "z"], then_branch=then, else_branch=other)],
                       [value("x", [3]), value("c", [], TensorProto.BOOL)], [value("y", [3]), value("z", [3]), value("y", [3])])
        self.check_outputs(branch, {"x": -A, "c": np.array(True)}, {"y": 0 * A, "z": 0 * A})
        self.check_outputs(branch, {"x": -A, "c": np.array(False)}, {"y": A, "z": A})

        go, s = value("go", [], TensorProto.BOOL), value("s", [3])
        body = helper.make_graph([helper.make_node("Add", ["a", "b"], ["s"])], "body",
                                 [value("i", [], TensorProto.INT64), go, value("a", [3]), value("b", [3])], [go, s, s, s, s])
        steps = np.stack([2 * A, 4 * A, 8 * A])
        loop = model([helper.make_node("Loop", ["n", "true", "x", "x"], ["y", "z", "p", "q"], body=body)], [value("x", [3])],
                     [value("y", [3]), value("z", [3]), value("p", [3, 3]), value("q", [3, 3])],
                     [("n", np.array(3)), ("true", np.array(True))])
        self.check_outputs(loop, {"x": A}, {"y": 8 * A, "z": 8 * A, "p": steps, "q": steps})

    # Operators that exporters write more freely than ONNX has them ---------------------------------------------

    def test_stft_of_a_signal_without_components(self):
        signal = np.sin(np.arange(64, dtype=np.float32)).reshape(2, 32)
        window = np.hanning(16).astype(np.float32)
        frames = np.stack([signal[:, k:k + 16] * window for k in range(0, 17, 4)], axis=1)
        for onesided in (1, 0):
            spectrum = (np.fft.rfft if onesided else np.fft.fft)(frames)
            nodes = [helper.make_node("STFT", ["x", "step", "window"], ["y"], onesided=onesided)]
            source = model(nodes, [value("x", ["batch", "samples"])], [value("y", None)], [("step", np.array(4)), ("window", window)])
            path, want = self.save(source), {"y": np.stack([spectrum.real, spectrum.imag], axis=-1)}
            self.run_on(path, {"x": signal}, want)
            self.assertIn(f"{9 if onesided else 16}, 2]", self.anfora("info", path).stdout)
            small = self.folder / "small.onnx"
            self.anfora("opt", path, "-o", small, "--dim", "samples=40")
            self.assertEqual([node.op_type for node in onnx.load(small).graph.node], ["STFT"])
            self.run_on(small, {"x": signal}, want)


if __name__ == "__main__":
    unittest.main()

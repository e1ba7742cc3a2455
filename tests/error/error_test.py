#!/usr/bin/env python3
"""Bad input: each kind gets one clear message and a non-zero exit, and never leaves half an output behind.

usage: ANFORA=build/release/anfora error_test.py [unittest arguments]

The broken models are built here, one mutation each of a sound one, so that what is wrong is plain to see.
"""
import os
import pathlib
import random
import resource
import signal
import subprocess
import tempfile
import time
import unittest
import zipfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ANFORA = os.path.abspath(os.environ["ANFORA"])
TIME_LIMIT_S = 60


def float_input(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def model_of(nodes, inputs=None, outputs=None, initializers=(), opset=17, **more):
    """A model that is checked by nobody: x: f32[2, 3] to y unless said otherwise."""
    graph = helper.make_graph(
        nodes, "g", inputs or [float_input("x", [2, 3])], outputs or [float_input("y", None)], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9, **more)


def sound_model():
    weight = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(3, 4), "w")
    return model_of(
        [helper.make_node("MatMul", ["x", "w"], ["h"], name="project"), helper.make_node("Relu", ["h"], ["y"], name="act")],
        initializers=[weight])


class BadInput(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def save(self, model, name="model.onnx"):
        path = self.folder / name
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        return path

    def anfora(self, *arguments, **options):
        return subprocess.run([ANFORA, *map(str, arguments)], capture_output=True, text=True, errors="replace",
                              timeout=TIME_LIMIT_S, cwd=self.folder, **options)

    def assert_clear(self, result):
        """Failed as a program should: by its own decision, in at most a message and a hint, no C++ in it."""
        self.assertGreater(result.returncode, 0, f"killed by a signal, or it succeeded: {result}")
        self.assertLess(result.returncode, 128, result)
        lines = result.stderr.strip().splitlines()
        self.assertTrue(1 <= len(lines) <= 2, result.stderr)
        self.assertLess(len(result.stderr), 1000)
        for noise in ("terminate called", "what():", "std::", "Assertion", "bad_alloc"):
            self.assertNotIn(noise, result.stderr)

    def assert_refused(self, model, *words, command=("info",)):
        """The model is refused, with a message in which each of the words occurs (case aside)."""
        path = model if isinstance(model, pathlib.Path) else self.save(model)
        result = self.anfora(*command, path)
        self.assert_clear(result)
        for word in (path.name, *words):
            self.assertIn(word.lower(), result.stderr.lower())

    # Files ------------------------------------------------------------------------------------------------

    def test_no_such_file(self):
        self.assert_refused(self.folder / "absent.onnx", "no such file")

    def test_folder(self):
        (self.folder / "folder.onnx").mkdir()
        self.assert_refused(self.folder / "folder.onnx", "directory")

    def test_empty(self):
        self.assert_refused(b"", "empty")

    def test_text(self):
        self.assert_refused(b"<!DOCTYPE html><html><body>Not found</body></html>\n")

    def test_truncated_anywhere(self):
        data = sound_model().SerializeToString()
        for end in range(1, len(data)):
            with self.subTest(end=end):
                self.assert_clear(self.anfora("info", self.save(data[:end])))

    def test_corrupt_anywhere(self):
        """A flipped byte may leave a sound model; then it has to load. Otherwise the refusal has to be clear."""
        data = sound_model().SerializeToString()
        chance = random.Random(7)
        for _ in range(200):
            mutant = bytearray(data)
            for _ in range(chance.randint(1, 3)):
                mutant[chance.randrange(len(mutant))] = chance.randrange(256)
            with self.subTest(mutant=bytes(mutant).hex()):
                result = self.anfora("info", self.save(bytes(mutant)))
                if result.returncode != 0:
                    self.assert_clear(result)

    # Graphs -----------------------------------------------------------------------------------------------

    def test_cycle(self):
        nodes = [helper.make_node("Add", ["x", "b"], ["a"], name="first"), helper.make_node("Relu", ["a"], ["b"], name="second"),
                 helper.make_node("Relu", ["b"], ["y"])]
        self.assert_refused(model_of(nodes), "cycle", "first")

    def test_value_that_nobody_makes(self):
        self.assert_refused(model_of([helper.make_node("Add", ["x", "ghost"], ["y"], name="sum")]), "ghost", "sum")

    def test_output_that_nobody_makes(self):
        self.assert_refused(model_of([helper.make_node("Relu", ["x"], ["z"])]), "y")

    def test_value_made_twice(self):
        nodes = [helper.make_node("Relu", ["x"], ["y"], name="one"), helper.make_node("Neg", ["x"], ["y"], name="two")]
        self.assert_refused(model_of(nodes), "y", "two")

    def test_unequal_types(self):
        whole = numpy_helper.from_array(np.ones((2, 3), np.int64), "k")
        self.assert_refused(model_of([helper.make_node("Add", ["x", "k"], ["y"], name="sum")], initializers=[whole]), "add", "sum")

    def test_shapes_that_do_not_fit(self):
        weight = numpy_helper.from_array(np.ones((4, 5), np.float32), "w")
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="project")]
        self.assert_refused(model_of(nodes, initializers=[weight]), "matmul", "project", "3", "4")

    def test_attribute_of_the_wrong_type(self):
        self.assert_refused(model_of([helper.make_node("Softmax", ["x"], ["y"], name="soft", axis=1.5)]), "axis", "soft")

    def test_unknown_attribute(self):
        self.assert_refused(model_of([helper.make_node("Relu", ["x"], ["y"], name="act", colour=3)]), "colour", "act")

    def test_missing_input_of_a_node(self):
        self.assert_refused(model_of([helper.make_node("MatMul", ["x"], ["y"], name="project")]), "project")

    def test_unknown_operator(self):
        """Whatever can be told about the model is told; only running it is refused."""
        for domain in ("", "com.example"):
            with self.subTest(domain=domain):
                path = self.save(model_of([helper.make_node("Frobnicate", ["x"], ["y"], name="odd", domain=domain)]))
                self.assertEqual(self.anfora("info", path).returncode, 0)
                self.assert_refused(path, "Frobnicate", "odd", command=("run", "--random"))

    def test_name_of_an_attribute_that_is_no_identifier(self):
        """What an unknown operator's attributes cannot hold otherwise is kept under such names."""
        for value in (3, "text", [1.5]):
            for name in ("x#proto", "#captures"):
                with self.subTest(name=name, value=value):
                    odd = helper.make_node("Frobnicate", ["x"], ["y"], name="odd", domain="com.example", **{name: value})
                    self.assert_refused(model_of([odd]), "odd", name)

    def test_operator_set_of_the_future(self):
        model = sound_model()
        model.opset_import[0].version = 9999
        self.assert_refused(model, "9999")

    # Constants --------------------------------------------------------------------------------------------

    def with_weight(self, **fields):
        """The sound model, with fields of its weight replaced."""
        model = sound_model()
        weight = model.graph.initializer[0]
        for field, value in fields.items():
            if isinstance(value, (list, tuple)):
                del getattr(weight, field)[:]
                getattr(weight, field).extend(value)
            else:
                setattr(weight, field, value)
        return model

    def with_external_weight(self, **entries):
        model = self.with_weight(data_location=TensorProto.EXTERNAL)
        weight = model.graph.initializer[0]
        weight.ClearField("raw_data")
        for key, value in entries.items():
            weight.external_data.add(key=key, value=str(value))
        return model

    def test_too_few_bytes(self):
        self.assert_refused(self.with_weight(raw_data=bytes(44)), "w", "44", "48")

    def test_negative_dimension(self):
        self.assert_refused(self.with_weight(dims=[3, -4]), "w", "-4")

    def test_vector_for_a_scalar(self):
        bounds = numpy_helper.from_array(np.zeros(3, np.float32), "low")
        self.assert_refused(model_of([helper.make_node("Clip", ["x", "low"], ["y"])], initializers=[bounds]),
                            "input 1 is to be a scalar", "f32[3]")

    def test_vector_for_an_axis(self):
        axes = numpy_helper.from_array(np.array([0, 0]), "axes")
        for op in ("CumSum", "CumProd"):
            with self.subTest(op):
                self.assert_refused(model_of([helper.make_node(op, ["x", "axes"], ["y"])], initializers=[axes], opset=26),
                                    "input 1 is to be a scalar", "i64[2]")

    def test_negative_size_to_expand_to(self):
        shape = numpy_helper.from_array(np.array([2, -3]), "shape")
        self.assert_refused(model_of([helper.make_node("Expand", ["x", "shape"], ["y"])], initializers=[shape]), "-3")

    def test_vector_of_negative_length(self):
        ones = numpy_helper.from_array(np.array([-1]), "length")
        nodes = [helper.make_node("Expand", ["one", "length"], ["shape"]), helper.make_node("Expand", ["x", "shape"], ["y"])]
        one = numpy_helper.from_array(np.array([1]), "one")
        self.assert_refused(model_of(nodes, initializers=[ones, one]), "-1")

    def test_scores_without_classes(self):
        labels = numpy_helper.from_array(np.zeros(2, np.int64), "labels")
        self.assert_refused(model_of([helper.make_node("NegativeLogLikelihoodLoss", ["s", "labels"], ["y"])],
                                     [float_input("s", [2])], initializers=[labels]), "scores of rank 1")

    def test_absurd_dimension(self):
        self.assert_refused(self.with_weight(dims=[1 << 40, 1 << 40]), "w")

    def test_undefined_element_type(self):
        self.assert_refused(self.with_weight(data_type=77), "w", "77")

    def test_absurd_computed_shape(self):
        shape = numpy_helper.from_array(np.array([1 << 40, 1 << 40], np.int64), "s")
        nodes = [helper.make_node("ConstantOfShape", ["s"], ["y"], name="fill")]
        self.assert_refused(model_of(nodes, initializers=[shape]), "fill", command=("run", "--random"))

    def test_more_than_memory(self):
        """A size that fits an integer but no machine, known only when running."""
        nodes = [helper.make_node("ConstantOfShape", ["s"], ["y"], name="fill")]
        model = model_of(nodes, inputs=[helper.make_tensor_value_info("s", TensorProto.INT64, [2])])
        np.savez(self.folder / "in.npz", s=np.array([1 << 28, 1 << 28], np.int64))
        self.assert_refused(model, "fill", command=("run", "--input", "in.npz"))

    def test_external_data_missing(self):
        self.assert_refused(self.with_external_weight(location="gone.bin"), "gone.bin", "w")

    def test_external_data_outside_of_the_folder(self):
        secret = self.folder / "secret.bin"
        secret.write_bytes(bytes(48))
        inside = self.folder / "inside"
        inside.mkdir()
        (inside / "link.bin").symlink_to(secret)
        for location in ("../secret.bin", "a/../../secret.bin", str(secret), "link.bin"):
            with self.subTest(location=location):
                path = self.save(self.with_external_weight(location=location), "inside/model.onnx")
                self.assert_refused(path, "folder", location)

    def test_external_data_by_a_hard_link(self):
        """It may lead anywhere, and shows nothing of it. Package managers link the model and its data alike."""
        secret = self.folder / "secret.bin"
        secret.write_bytes(bytes(48))
        (self.folder / "inside").mkdir()
        (self.folder / "inside" / "data.bin").hardlink_to(secret)
        path = self.save(self.with_external_weight(location="data.bin"), "inside/model.onnx")
        self.assert_refused(path, "data.bin", "hard link")
        (self.folder / "store.onnx").hardlink_to(path)
        self.assertEqual(self.anfora("info", path).returncode, 0)

    def test_external_data_beyond_the_end(self):
        (self.folder / "data.bin").write_bytes(bytes(48))
        for entries in ({"offset": 16}, {"offset": 1 << 62}, {"offset": -8}, {"length": 1 << 62}, {"length": 20}, {"offset": "x"}):
            with self.subTest(entries=entries):
                self.assert_refused(self.with_external_weight(location="data.bin", **entries), "'w'")

    # Text -------------------------------------------------------------------------------------------------

    def text_model(self):
        self.anfora("dump", self.save(sound_model()), "-o", "model.ir")
        text = (self.folder / "model.ir").read_text()
        self.assertIn("MatMul", text)
        return text

    def test_truncated_text(self):
        text = self.text_model()
        for end in range(1, text.rindex("}"), 5):
            with self.subTest(end=end):
                (self.folder / "cut.ir").write_text(text[:end])
                self.assert_clear(self.anfora("info", "cut.ir"))

    def test_text_with_a_word_wrong(self):
        text = self.text_model()
        for old, new, word in (("MatMul", "MatMuul", "MatMuul"), ("%h", "%ghost", "%h"),
                               ("f32[2, 3]", "f99[2, 3]", "f99"), ("return", "retrun", "retrun")):
            with self.subTest(new=new):
                (self.folder / "wrong.ir").write_text(text.replace(old, new, 1))
                result = self.anfora("run", "wrong.ir", "--random")
                self.assert_clear(result)
                self.assertIn("wrong.ir", result.stderr)
                self.assertIn(word, result.stderr)

    # Control flow -----------------------------------------------------------------------------------------

    def test_control_flow_without_a_body(self):
        """All of the bodies, or one of two; in operator sets old and new."""
        for op, missing in (("If", "then_branch"), ("Loop", "body"), ("Scan", "body"), ("SequenceMap", "body")):
            for version in (7, 11, 17):
                nodes = [helper.make_node("Mul", ["x", "x"], ["h"]), helper.make_node(op, ["h"], ["y"], name="control")]
                model = model_of(nodes)
                model.opset_import[0].version = version
                with self.subTest(op=op, version=version):
                    self.assert_refused(model, "control", missing)
                    result = self.anfora("opt", self.save(model), "-o", "small.onnx")
                    self.assert_clear(result)
                    self.assertFalse((self.folder / "small.onnx").exists())
        branch = helper.make_graph([helper.make_node("Relu", ["x"], ["b"])], "branch", [], [float_input("b", None)])
        condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
        node = helper.make_node("If", ["c"], ["y"], name="control", then_branch=branch)
        self.assert_refused(model_of([node], inputs=[condition, float_input("x", [2, 3])]), "control", "else_branch")

    def test_text_operator_of_the_name_of_control_flow(self):
        (self.folder / "odd.ir").write_text(
            "graph @main(%x: f32[2, 3]) -> f32[2, 3] {\n  %1 = If(%x) : f32[2, 3]\n  return %1\n}\n")
        for opset in ("7", "newest"):
            result = self.anfora("opt", "odd.ir", "-o", "small.onnx", "--opset", opset, "--no-check")
            if result.returncode != 0:
                self.assert_clear(result)

    def scan_of(self, axis, declared):
        body = helper.make_graph(
            [helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Identity", ["t"], ["o"])], "body",
            [float_input("s", None), float_input("e", None)], [float_input("t", None), float_input("o", declared)])
        node = helper.make_node("Scan", ["a", "x"], ["", "y"], name="scan", body=body, num_scan_inputs=1,
                                scan_output_axes=[axis])
        return model_of([node], inputs=[float_input("a", [3]), float_input("x", [2, 3])])

    def test_axis_of_what_a_scan_stacks(self):
        for axis, is_good in ((-99, False), (2, False), (-3, False), (1, True), (-2, True)):
            for declared in (None, [3]):
                with self.subTest(axis=axis, declared=declared):
                    model = self.save(self.scan_of(axis, declared))
                    result = self.anfora("opt", model, "-o", "small.onnx", "--no-check")
                    self.assertEqual((self.folder / "small.onnx").exists(), is_good)
                    if is_good:
                        self.assertEqual(self.anfora("info", "small.onnx").returncode, 0)
                        (self.folder / "small.onnx").unlink()
                    else:
                        self.assert_clear(result)
                        self.assertIn(str(axis), result.stderr)
                        self.assertIn("rank 2", result.stderr)

    def test_wrong_rank_of_what_a_loop_stacks(self):
        body = helper.make_graph(
            [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Identity", ["x"], ["o"])], "body",
            [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
            [helper.make_tensor_value_info("d", TensorProto.BOOL, []), float_input("o", [2, 3])])
        trips = helper.make_node("Constant", [], ["n"], value_int=2)
        model = self.save(model_of([trips, helper.make_node("Loop", ["n", ""], ["y"], name="again", body=body)],
                                   inputs=[float_input("x", [3])]))
        result = self.anfora("opt", model, "-o", "small.onnx", "--no-check")
        self.assert_clear(result)
        self.assertIn("node 1): StackSequence 'again': the items have type f32[3], 2 axes are declared", result.stderr)

    # Stopping ---------------------------------------------------------------------------------------------

    def endless_model(self):
        body = helper.make_graph(
            [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Add", ["v", "v"], ["w"])], "body",
            [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("c", TensorProto.BOOL, []),
             float_input("v", [2, 3])], [helper.make_tensor_value_info("d", TensorProto.BOOL, []), float_input("w", [2, 3])])
        np.savez(self.folder / "in.npz", c=np.array(True), x=np.ones((2, 3), np.float32))
        return model_of([helper.make_node("Loop", ["", "c", "x"], ["y"], body=body)],
                        inputs=[helper.make_tensor_value_info("c", TensorProto.BOOL, []), float_input("x", [2, 3])])

    def test_endless_loop_and_a_signal(self):
        model = self.save(self.endless_model())
        for number, code, word in ((signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")):
            with self.subTest(signal=number):
                process = subprocess.Popen([ANFORA, "run", model, "--input", "in.npz", "--output", "out.npz"], cwd=self.folder,
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                with self.assertRaises(subprocess.TimeoutExpired):
                    process.wait(1)
                begin = time.monotonic()
                process.send_signal(number)
                _, errors = process.communicate(timeout=TIME_LIMIT_S)
                self.assertLess(time.monotonic() - begin, 5)
                self.assertEqual(process.returncode, code)
                self.assertEqual(errors, f"anfora: {word}\n")
                self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["in.npz", "model.onnx"])

    def test_time_limit(self):
        self.save(self.endless_model())
        limit = ("--timeout", "0.5")
        for arguments in (("run", "model.onnx", "--input", "in.npz", *limit), ("verify", "model.onnx", "model.onnx", "--seed", "1", *limit),
                          ("opt", "model.onnx", "-o", "small.onnx", "--check-runs", "40", *limit),
                          ("bench", "model.onnx", "--input", "in.npz", *limit),
                          ("reduce", "model.onnx", "-o", "small.onnx", "--command", "sleep 100; false {}", *limit)):
            with self.subTest(arguments=arguments):
                result = self.anfora(*arguments)
                self.assert_clear(result)
                self.assertEqual(result.returncode, 124)
                self.assertIn("0.5 s", result.stderr)
                self.assertFalse((self.folder / "small.onnx").exists())

    def test_inside_of_one_long_kernel(self):
        """Where nothing asks whether to stop, the process ends all the same."""
        nodes = [helper.make_node("NonMaxSuppression", ["b", "s", "n", "t"], ["y"])]
        model = model_of(nodes, inputs=[float_input("b", [1, 60_000, 4]), float_input("s", [1, 1, 60_000])],
                         initializers=[numpy_helper.from_array(np.array(60_000, np.int64), "n"),
                                       numpy_helper.from_array(np.array(0.99, np.float32), "t")])
        rows = np.arange(60_000, dtype=np.float32)
        boxes = np.stack([rows, rows, rows + 0.5, rows + 0.5], axis=-1)[None]
        np.savez(self.folder / "in.npz", b=boxes, s=rows[None, None])
        result = self.anfora("run", self.save(model), "--input", "in.npz", "--output", "out.npz", "--timeout", "0.2")
        self.assert_clear(result)
        self.assertEqual(result.returncode, 124)

    # Depth ------------------------------------------------------------------------------------------------

    def test_deeply_nested_branches(self):
        """Fifty thousand If nodes, one inside the other, encoded by hand: the protocol buffer runtime refuses to."""
        def field(number, payload):
            return varint(number << 3 | 2) + varint(len(payload)) + payload

        def varint(value):
            encoded = bytearray()
            while value >= 0x80:
                encoded.append(value & 0x7F | 0x80)
                value >>= 7
            return bytes([*encoded, value])

        # The closing parts first: each level wraps the one within, so the prefix lengths are added up outwards.
        graph = field(1, field(1, b"x") + field(2, b"y") + field(4, b"Relu"))
        prefixes, size = [], len(graph)
        node_rest = field(1, b"c") + field(2, b"y") + field(4, b"If")
        for _ in range(50_000):
            branch = field(1, b"then_branch") + b"\xa0\x01\x05"  # type: GRAPH
            in_attribute = varint(6 << 3 | 2) + varint(size)
            attribute_size = len(branch) + len(in_attribute) + size
            in_node = varint(5 << 3 | 2) + varint(attribute_size)
            node_size = len(node_rest) + len(in_node) + attribute_size
            in_graph = varint(1 << 3 | 2) + varint(node_size)
            prefix = in_graph + node_rest + in_node + branch + in_attribute
            prefixes.append(prefix)
            size += len(prefix)
        nested = b"".join(reversed(prefixes)) + graph
        outputs = field(12, field(1, b"y"))
        model = field(7, nested + outputs) + varint(1 << 3) + varint(9) + field(8, varint(2 << 3) + varint(17))
        self.assert_refused(model, "deep")

    def test_function_that_calls_itself(self):
        function = helper.make_function(
            "own", "F", ["a"], ["b"], [helper.make_node("F", ["a"], ["b"], domain="own", name="again")],
            [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)])
        model = model_of([helper.make_node("F", ["x"], ["y"], domain="own", name="call")], functions=[function])
        model.opset_import.append(helper.make_opsetid("own", 1))
        self.assert_refused(model, "F", command=("run", "--random"))

    def test_deeply_nested_type(self):
        model = sound_model()
        kind = model.graph.input[0].type
        for _ in range(90):  # near the most that the protocol buffer runtime writes
            outer = onnx.TypeProto()
            outer.sequence_type.elem_type.CopyFrom(kind)
            kind = outer
        model.graph.input[0].type.CopyFrom(kind)
        self.assert_clear(self.anfora("info", self.save(model)))

    # Inputs of a run --------------------------------------------------------------------------------------

    def run_with(self, **arrays):
        np.savez(self.folder / "in.npz", **arrays)
        return self.anfora("run", self.save(sound_model()), "--input", "in.npz", "--output", "out.npz")

    def assert_run_refused(self, arrays, *words):
        result = self.run_with(**arrays)
        self.assert_clear(result)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertFalse((self.folder / "out.npz").exists())

    def test_sound_run(self):
        self.assertEqual(self.run_with(x=np.ones((2, 3), np.float32)).returncode, 0)
        np.testing.assert_array_equal(np.load(self.folder / "out.npz")["y"], np.tile(np.float32([12, 15, 18, 21]), (2, 1)))

    def test_wrong_input_name(self):
        self.assert_run_refused({"z": np.ones((2, 3), np.float32)}, "z", "x")

    def test_input_missing(self):
        self.assert_run_refused({}, "x")

    def test_wrong_input_shape(self):
        self.assert_run_refused({"x": np.ones((2, 4), np.float32)}, "'x'", "f32[2x4]", "f32[2, 3]")

    def test_wrong_input_rank(self):
        self.assert_run_refused({"x": np.ones(6, np.float32)}, "x")

    def test_wrong_input_type(self):
        self.assert_run_refused({"x": np.ones((2, 3), np.float64)}, "x", "f64", "f32")

    def test_inputs_that_are_no_archive(self):
        (self.folder / "in.npz").write_bytes(b"PK\x03\x04 and then nothing")
        self.assert_clear(self.anfora("run", self.save(sound_model()), "--input", "in.npz"))

    def test_headers_that_numpy_refuses(self):
        """Each is wrong in one way; numpy refuses it as well, and the sound one is read."""
        data = np.arange(6, dtype=np.float32).tobytes()
        sound = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"

        def npy(header, version=b"\x01\x00"):
            text = header.encode()
            return b"\x93NUMPY" + version + len(text).to_bytes(2 if version[0] == 1 else 4, "little") + text + data

        self.save(sound_model())
        (self.folder / "x.npy").write_bytes(npy(sound))
        self.assertEqual(self.anfora("run", "model.onnx", "--input", "x.npy").returncode, 0)
        wrong = [npy(sound.replace(*change)) for change in (
            ("(2, 3)", "2, 3"), ("(2, 3)", "(6)"), ("(2, 3)", "(2, -3)"), ("(2, 3)", "(2, 3.0)"), ("(2, 3)", "(2 3)"), ("(2, 3)", "(2, 3"),
            ("(2, 3)", "[2, 3]"), ("(2, 3)", "(99999999999999999999,)"), ("(2, 3)", "(4294967296, 4294967296)"), ("(2, 3)", "(2, 4)"),
            ("False", "false"), ("False", "None"), ("False", ""), ("<f4", "<f4x"), ("<f4", "<f3"),
            ("<f4", "|O"), ("'<f4'", "4"), ("descr", "dtype"), ("'descr': '<f4', ", ""), ("}", ""),
            ("{", ""), ("}", "} + {}"), ("}", "'more': 1}"), ("'shape'", "shape"), (":", ""))]
        wrong += [npy(sound, b"\x04\x00"), npy(sound, b"\x00\x00"), npy(sound, b"\x01\x07"), npy(sound + " " * 20_000),
                  npy(sound)[:-1], npy(sound)[1:]]
        unsupported = [npy(sound.replace("'<f4'", descr)) for descr in ("'f'", "'>f4'", "[('a', '<f4')]")]
        for content in wrong + unsupported:
            with self.subTest(content=content[:100]):
                (self.folder / "x.npy").write_bytes(content)
                if content in wrong:
                    with self.assertRaises(Exception):
                        np.load(self.folder / "x.npy")
                result = self.anfora("run", "model.onnx", "--input", "x.npy")
                self.assert_clear(result)
                self.assertIn("x.npy", result.stderr)
                with zipfile.ZipFile(self.folder / "in.npz", "w") as archive:
                    archive.writestr("x.npy", content)
                result = self.anfora("run", "model.onnx", "--input", "in.npz")
                self.assert_clear(result)
                self.assertIn("in.npz: x", result.stderr)

    def test_files_without_an_end(self):
        """Devices and pipes, wherever a file is read. Nobody ever writes to the pipe."""
        self.save(sound_model())
        os.mkfifo(self.folder / "pipe")
        for name in ("in.npz", "in.npy", "in.pb", "in.onnx", "in.ir", "in.rules"):
            (self.folder / name).symlink_to("/dev/zero")
        for file in ("pipe", "/dev/zero", "in.npz", "in.npy", "in.pb", "in.onnx", "in.ir", "in.rules"):
            for arguments in (("info", file), ("run", "model.onnx", "--input", file), ("run", "model.onnx", "--input", f"x={file}"),
                              ("opt", "model.onnx", "-o", "small.onnx", "--rules", file), ("bench", "model.onnx", "--input", file),
                              ("rules", "--rules", file), ("diff", "model.onnx", file)):
                with self.subTest(arguments=arguments):
                    result = self.anfora(*arguments)
                    self.assert_clear(result)
                    self.assertIn("regular file", result.stderr)
        for location in ("pipe", "in.onnx"):
            path = self.save(self.with_external_weight(location=location), "apart.onnx")
            self.assert_refused(path, location)

    def test_no_inputs_are_needed(self):
        value = numpy_helper.from_array(np.ones((2, 2), np.float32))
        graph = helper.make_graph([helper.make_node("Constant", [], ["y"], value=value)], "g", [], [float_input("y", None)])
        model = self.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))
        result = self.anfora("run", model, "--output", "out.npz")
        self.assertEqual(result.returncode, 0, result.stderr)
        np.testing.assert_array_equal(np.load(self.folder / "out.npz")["y"], np.ones((2, 2)))
        self.assert_clear(self.anfora("run", self.save(sound_model())))

    def test_truncated_inputs(self):
        np.savez(self.folder / "whole.npz", x=np.ones((2, 3), np.float32))
        data = (self.folder / "whole.npz").read_bytes()
        model = self.save(sound_model())
        for end in range(0, len(data), 7):
            with self.subTest(end=end):
                (self.folder / "in.npz").write_bytes(data[:end])
                self.assert_clear(self.anfora("run", model, "--input", "in.npz"))

    # Names ------------------------------------------------------------------------------------------------

    def test_names_that_are_no_text(self):
        """Bytes that are no UTF-8, line breaks, codes of a terminal: they are told, and nothing else happens."""
        plain = model_of([helper.make_node("Relu", ["INPUT"], ["OUTPUT"], name="NODE")], inputs=[float_input("INPUT", [2, 3])],
                         outputs=[float_input("OUTPUT", None)]).SerializeToString()
        for name in (b"\xff\xfe\x80\x81\xc0", b"\x1b[31m", b"a\nb\rc", b"{}{}{", b"%s%n%", b"'\"\\/.", b"../.."):
            replaced = {word: (name * 6)[: len(word) - 1] + bytes([48 + i]) for i, word in enumerate((b"INPUT", b"OUTPUT", b"NODE"))}
            data = plain
            for word, other in replaced.items():
                data = data.replace(word, other)
            model = self.save(data)
            for arguments in (("info", model, "--json"), ("info", model), ("opt", model, "-o", "small.onnx", "--json"),
                              ("opt", model, "-o", "small.onnx", "--remarks", "remarks.json", "--save-graphs", "graphs"),
                              ("verify", model, model, "--json"), ("explain", model, "--json"), ("explain", model),
                              ("diff", model, model, "--json"), ("dump", model), ("dump", model, "-o", "model.ir"), ("info", "model.ir"),
                              ("bench", model, "--json", "--seconds", "0.01"),
                              ("run", model, "--random", "--output", "out.npz", "--profile", "trace.json")):
                with self.subTest(name=name, arguments=arguments):
                    self.assertEqual(self.anfora(*arguments).returncode, 0)
            result = self.anfora("run", model)
            self.assert_clear(result)
            wrong = self.save(data.replace(b"Relu", b"Rolu"))
            self.assert_clear(self.anfora("run", wrong, "--random"))

    # Options ----------------------------------------------------------------------------------------------

    def test_numbers_that_are_none(self):
        model = self.save(sound_model())
        commands = {
            "--threads": (("run", model, "--random"), ("bench", model, "--seconds", "0.01")),
            "--seed": (("run", model, "--random"), ("verify", model, model)),
            "--seconds": (("bench", model),),
            "--runs": (("verify", model, model),),
            "--check-runs": (("opt", model, "-o", "small.onnx"),),
            "--fuel": (("opt", model, "-o", "small.onnx"),),
            "--fold-limit": (("opt", model, "-o", "small.onnx"),),
            "--trials": (("reduce", model, "-o", "small.onnx", "--command", "false {}"),),
            "--timeout": (("info", model), ("run", model, "--random"), ("opt", model, "-o", "small.onnx"), ("verify", model, model)),
        }
        for option, all_arguments in commands.items():
            values = ["-3", "nan", "inf", "1x", "", "99999999999999999999999", "0x10", "1,5", "--"]
            values += ["99999999"] if option in ("--threads", "--seconds", "--runs", "--check-runs", "--timeout", "--trials") else []
            values += ["1.5"] if option not in ("--seconds", "--timeout") else []
            for arguments in all_arguments:
                for value in values:
                    with self.subTest(arguments=arguments, option=option, value=value):
                        result = self.anfora(*arguments, option, value)
                        self.assert_clear(result)
                        self.assertEqual(result.returncode, 2, result.stderr)
                        self.assertFalse((self.folder / "small.onnx").exists())
                good = "010" if option != "--timeout" else "60"
                if option not in ("--seconds",):
                    self.assertEqual(self.anfora(*arguments, option, good).returncode, 0)
                (self.folder / "small.onnx").unlink(missing_ok=True)

    def test_standard_streams_that_are_closed(self):
        """A closed stream is no place for what is printed, nor for the file that is opened next."""
        model = self.save(sound_model())
        before = model.read_bytes()
        for command in (("info", "absent.onnx"), ("info", model), ("run", model, "--random", "--output", "out.npz"), ("optt",)):
            for closed in ((2,), (1,), (0,), (1, 2), (0, 1, 2)):
                with self.subTest(command=command, closed=closed):
                    result = subprocess.run(
                        [ANFORA, *map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                        timeout=TIME_LIMIT_S, cwd=self.folder, preexec_fn=lambda: [os.close(stream) for stream in closed])
                    expected = {"absent.onnx": 3}.get(command[-1], 2 if command == ("optt",) else 3 if 1 in closed else 0)
                    self.assertEqual(result.returncode, expected, result.stderr)
                    self.assertEqual(model.read_bytes(), before)

    def test_little_memory_and_no_threads(self):
        """Enough or a clear message, at every size."""
        rows = numpy_helper.from_array(np.ones((600, 600), np.float32), "w")
        model = self.save(model_of([helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["s"]),
                                    helper.make_node("Transpose", ["s"], ["y"])], inputs=[float_input("x", [600, 600])],
                                   initializers=[rows]))
        ends = set()
        for megabytes in range(60, 200, 3):
            limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
            with self.subTest(megabytes=megabytes):
                if self.anfora("--version", preexec_fn=limit).returncode != 0:
                    continue  # the loader already fails, or what libraries do before the program begins
                result = self.anfora("run", model, "--random", preexec_fn=limit)
                ends.add(result.returncode)
                if result.returncode != 0:
                    self.assert_clear(result)
                    self.assertEqual(result.returncode, 3)
        self.assertIn(0, ends)

    # Outputs ----------------------------------------------------------------------------------------------

    def failing_write(self, arguments, output, **options):
        """The command fails clearly, an older output stays as it was, and nothing new lies beside it."""
        output.write_bytes(b"older")
        before = sorted(path.name for path in self.folder.rglob("*"))
        result = self.anfora(*arguments, **options)
        self.assert_clear(result)
        self.assertIn(output.name, result.stderr)
        self.assertEqual(output.read_bytes(), b"older")
        self.assertEqual(sorted(path.name for path in self.folder.rglob("*")), before)

    @staticmethod
    def disk_full():
        """No file may grow beyond 100 bytes: writing then fails as on a full disk."""
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    def test_disk_full_on_optimizing(self):
        model = self.save(sound_model())
        self.failing_write(("opt", model, "-o", "small.onnx"), self.folder / "small.onnx", preexec_fn=self.disk_full)

    def test_disk_full_on_running(self):
        model = self.save(sound_model())
        self.failing_write(("run", model, "--random", "--output", "out.npz"), self.folder / "out.npz", preexec_fn=self.disk_full)

    def test_disk_full_on_dumping(self):
        model = self.save(sound_model())
        for kind in ("ir", "dot"):
            with self.subTest(format=kind):
                output = self.folder / f"model.{kind}"
                self.failing_write(("dump", model, "--format", kind, "-o", output), output, preexec_fn=self.disk_full)

    def test_disk_full_on_profiling(self):
        model = self.save(sound_model())
        self.failing_write(("run", model, "--random", "--profile", "trace.json"), self.folder / "trace.json",
                           preexec_fn=self.disk_full)

    def test_disk_full_on_saving_graphs(self):
        model = self.save(sound_model())
        result = self.anfora("opt", model, "-o", "small.onnx", "--save-graphs", "graphs", preexec_fn=self.disk_full)
        self.assert_clear(result)
        self.assertEqual(list((self.folder / "graphs").iterdir()), [])

    def test_external_data_beside_a_full_disk(self):
        """Too much for one file: the weights go beside it, where they do not fit either."""
        model = self.save(sound_model())
        result = self.anfora("opt", model, "-o", "small.onnx", preexec_fn=self.disk_full)
        self.assert_clear(result)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["model.onnx"])

    def test_full_device_as_standard_output(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([ANFORA, "dump", self.save(sound_model())], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertGreater(result.returncode, 0)
        self.assertIn("standard output", result.stderr)

    def test_what_differs_is_not_written(self):
        """A rule that is wrong: the model that it makes is found to differ, and left only where that is asked for."""
        model = self.save(sound_model())
        (self.folder / "wrong.rules").write_text("# −x = x, which is wrong\nwrong : Relu(x) => Neg(x) [exact, ordered 'on purpose']\n")
        small = self.folder / "small.onnx"
        small.write_bytes(b"older")
        arguments = ("opt", model, "-o", "small.onnx", "--rules", "wrong.rules")
        result = self.anfora(*arguments)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("DIFFERS", result.stdout)
        self.assertIn("--keep", result.stdout)
        self.assertEqual(small.read_bytes(), b"older")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["model.onnx", "small.onnx", "wrong.rules"])
        self.assertEqual(self.anfora(*arguments, "--keep").returncode, 1)
        self.assertEqual(onnx.load(small).graph.output[0].name, "y")

    def test_nothing_that_is_read_is_overwritten(self):
        """By the file, not by its name: other spellings, links, files that do not exist yet, external data."""
        model = self.save(sound_model())
        np.savez(self.folder / "in.npz", x=np.ones((2, 3), np.float32))
        (self.folder / "link.onnx").symlink_to(model)
        (self.folder / "hard.onnx").hardlink_to(model)
        weights = self.with_external_weight(location="small.onnx.data")
        (self.folder / "small.onnx.data").write_bytes(np.arange(12, dtype=np.float32).tobytes())
        self.save(weights, "apart.onnx")
        (self.folder / "my.rules").write_text("# x = x\nrelu-again : Relu(Relu(x)) => Relu(x) [exact]\n")
        (self.folder / "sub").mkdir()
        before = {path: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}
        run = ("run", "model.onnx", "--random")
        for arguments in (
                (*run, "--output", "model.onnx"), (*run, "--output", "./sub/../model.onnx"), (*run, "--output", "link.onnx"),
                (*run, "--output", "hard.onnx"), (*run, "--profile", "model.onnx"), (*run, "--output", "new", "--profile", "new"),
                (*run, "--output", "new", "--profile", "sub/../new"),
                ("run", "model.onnx", "--input", "in.npz", "--output", "in.npz"),
                ("run", "model.onnx", "--input", "x=in.npz", "--output", "in.npz"),
                ("opt", "model.onnx", "-o", "model.onnx"), ("opt", "model.onnx", "-o", "small.onnx", "--remarks", "small.onnx"),
                ("opt", "model.onnx", "-o", "small.onnx", "--remarks", "model.onnx"),
                ("opt", "model.onnx", "-o", "my.rules", "--rules", "my.rules"), ("opt", "apart.onnx", "-o", "small.onnx"),
                ("opt", "apart.onnx", "-o", "other.onnx", "--remarks", "small.onnx.data"),
                ("dump", "model.onnx", "-o", "model.onnx"), ("dump", "model.onnx", "--format", "dot", "-o", "link.onnx"),
                ("reduce", "model.onnx", "-o", "model.onnx", "--command", "false {}")):
            with self.subTest(arguments=arguments):
                result = self.anfora(*arguments)
                self.assert_clear(result)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertEqual({path: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}, before)

    def test_devices_are_written_to(self):
        model = self.save(sound_model())
        for arguments in (("run", model, "--random", "--output", "/dev/null", "--profile", "/dev/null"),
                          ("opt", model, "-o", "/dev/null")):
            with self.subTest(arguments=arguments):
                result = self.anfora(*arguments)
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_reducing_leaves_only_the_result(self):
        model = self.save(sound_model())
        (self.folder / "trial-small.onnx").write_bytes(b"mine")
        result = self.anfora("reduce", model, "-o", "small.onnx", "--command", "false {}")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.folder / "trial-small.onnx").read_bytes(), b"mine")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["model.onnx", "small.onnx", "trial-small.onnx"])

    def test_folder_that_cannot_be_written(self):
        model = self.save(sound_model())
        for output in ("absent/small.onnx", "model.onnx/small.onnx"):
            with self.subTest(output=output):
                result = self.anfora("opt", model, "-o", output)
                self.assert_clear(result)
                self.assertIn("small.onnx", result.stderr)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["model.onnx"])


if __name__ == "__main__":
    unittest.main()

"""The package: models, reports, executables, values, errors, threads, signals."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import gc
import html.parser
import io
import os
import pathlib
import pickle
import resource
import signal
import tempfile
import threading
import time
import unittest
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import soak
from models import ENDLESS, LINEAR, chain, parse

import anfora


def compiled(text: str, **options: Any) -> anfora.Executable:
    return anfora.load(parse(text)).compile(threads=1, **options)


class Dlpack:
    """An object that has nothing but the protocol."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


class LoadTest(unittest.TestCase):
    def test_sources_are_the_same_model(self) -> None:
        proto = parse(LINEAR)
        x = np.arange(8, dtype=np.float32).reshape(2, 4)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "linear.onnx"
            onnx.save(proto, path)
            bytes_ = path.read_bytes()
            for source in (path, str(path), bytes_, bytearray(bytes_), memoryview(bytes_), proto, anfora.load(proto)):
                y, z = anfora.load(source).compile(threads=1)(x)
                np.testing.assert_array_equal(y, x @ np.array([[1, -2, 3], [-4, 5, -6], [7, -8, 9], [-10, 11, -12]]) + 1)
                np.testing.assert_array_equal(z, np.maximum(y, 0))

    def test_describes_inputs_outputs_and_nodes(self) -> None:
        model = anfora.load(parse(LINEAR))
        self.assertEqual([(i.name, i.type, i.dtype, i.shape) for i in model.inputs], [("x", "f32[N, 4]", "f32", ["N", 4])])
        self.assertEqual([(o.name, o.shape) for o in model.outputs], [("y", ["N", 3]), ("z", ["N", 3])])
        self.assertEqual([node.op for node in model.nodes], ["MatMul", "Add", "Relu"])
        self.assertEqual(model.metadata["graph_name"], "linear")

    def test_shapes_have_what_the_file_says_and_every_name_of_its_own(self) -> None:
        model = anfora.load(parse("rows (float[_rows, 4] x, int64[2] s) => (float[Rows, 4] y) { y = Reshape(x, s) }"))
        self.assertEqual(model.inputs[0].shape, ["_rows", 4])
        self.assertEqual(model.outputs[0].shape, ["Rows", 4])
        unknown = anfora.load(parse("rows (float[N] x) => (int64[*] y) { y = NonZero(x) }"))
        self.assertEqual(unknown.outputs[0].shape, [1, None])

    def test_saves(self) -> None:
        model = anfora.load(parse(LINEAR))
        with tempfile.TemporaryDirectory() as folder:
            for name in ("linear.onnx", "linear.ir"):
                model.save(os.path.join(folder, name))
                self.assertTrue(anfora.load(os.path.join(folder, name)).verify(model))
        self.assertTrue(model.verify(model.to_onnx()))
        self.assertTrue(model.verify(model.to_bytes()))


class OptimizeTest(unittest.TestCase):
    TEXT = """twice (float[N, 4] x) => (float[N, 4] y) <float zero = {0}>
    { a = Add(x, zero)  t = Transpose<perm=[1, 0]>(a)  u = Transpose<perm=[1, 0]>(t)  y = Relu(u) }"""

    def test_report_and_result(self) -> None:
        model = anfora.load(parse(self.TEXT))
        small = anfora.optimize(model)
        self.assertEqual([node.op for node in small.nodes], ["Relu"])
        self.assertEqual(len(model.nodes), 4)
        self.assertTrue(model.verify(small))
        assert small.report is not None
        self.assertEqual((small.report.before.nodes, small.report.after.nodes), (4, 1))
        self.assertIn("before", str(small.report))

    def test_report_in_a_notebook(self) -> None:
        report = anfora.optimize(parse(self.TEXT)).report
        assert report is not None
        open_tags: list[str] = []
        cells: list[str] = []

        class Parser(html.parser.HTMLParser):
            def handle_starttag(parser, tag: str, attributes: Any) -> None:
                open_tags.append(tag)
                self.assertLessEqual({name for name, _ in attributes}, {"style"})
                self.assertRegex(dict(attributes).get("style", "text-align:left"), "^text-align:(left|right)$")  # no colours

            def handle_endtag(parser, tag: str) -> None:
                self.assertEqual(open_tags.pop(), tag)

            def handle_data(parser, text: str) -> None:
                if open_tags and open_tags[-1] in ("th", "td"):
                    cells.append(text.strip())

        Parser().feed(report._repr_html_())
        self.assertEqual(open_tags, [])
        for cell in cells:
            self.assertIn(cell, str(report))
        self.assertLess(len(report._repr_html_()), 4000)

    def test_options(self) -> None:
        proto = parse(self.TEXT)
        fixed = anfora.optimize(proto, shapes={"x": [5, 4]})
        self.assertEqual(fixed.outputs[0].shape, [5, 4])
        pair = parse("pair (float[N, M] x, float[N, K] w) => (float[N, K] y) { s = ReduceSum<keepdims = 1>(x)  y = Add(s, w) }")
        half = anfora.optimize(pair, dims={"N": 5})
        self.assertEqual([i.shape for i in (*half.inputs, *half.outputs)], [[5, "M"], [5, "K"], [5, "K"]])
        newest = anfora.optimize(proto, opset="newest").to_onnx()
        self.assertGreater(newest.opset_import[0].version, 21)
        nothing = anfora.optimize(proto, passes=["dce"])
        self.assertEqual(len(nothing.nodes), 4)
        seen: list[str] = []
        anfora.optimize(proto, progress=lambda name, _: seen.append(name))
        self.assertIn("simplify", seen)

    def test_options_that_do_not_exist(self) -> None:
        proto = parse(self.TEXT)
        for options in ({"target": "abacus"}, {"passes": ["nothing"]}, {"math": "wrong"}, {"shapes": {"q": [1]}},
                        {"dims": {"Q": 1}}, {"rules": ["/no/such.rules"]}):
            kind = anfora.NotFoundError if "rules" in options else anfora.InvalidArgumentError
            with self.subTest(options), self.assertRaises(kind):
                anfora.optimize(proto, **options)

    def test_rules_of_ones_own(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "own.rules"
            path.write_text("# max(x, 0) = |x|, which is wrong\nown-relu: Relu(x) => Abs(x)  [exact, ordered 'no Relu is made']\n", encoding="utf-8")
            changed = anfora.optimize(parse(self.TEXT), rules=[path])
            self.assertEqual([node.op for node in changed.nodes], ["Abs"])
            path.write_text("own-relu: Relu(x) => Absolutely(x)  [exact]\n", encoding="utf-8")
            with self.assertRaises(anfora.Error) as caught:
                anfora.optimize(parse(self.TEXT), rules=[path])
            self.assertIn("own.rules", str(caught.exception))

    def test_explains_as_the_command_does(self) -> None:
        model = anfora.load(parse(self.TEXT))
        explanation = model.explain()
        self.assertEqual((explanation.nodes_before, explanation.nodes_after), (4, 1))
        self.assertIn("model: 4 → 1 nodes in", str(explanation))
        rules = {rule.name: rule for rule in explanation.rules}
        self.assertEqual(rules["compose-transposes"].fired, 1)
        self.assertIn("    " + rules["compose-transposes"].doc, str(explanation))
        del model, rules
        gc.collect()
        remarks = explanation.about("'u'")
        del explanation
        gc.collect()
        self.assertIn("applied", [remark.outcome for remark in remarks])
        self.assertIn("compose-transposes", [remark.rule for remark in remarks])
        self.assertIn("Transpose 'u'", str(remarks[0]))
        self.assertEqual(anfora.load(parse(self.TEXT)).explain(passes=["dce"]).rules, [])

    def test_tells_why_a_rule_does_not_fire(self) -> None:
        model = anfora.load(parse("gelu (float[N] x) => (float[N] y) <float h = {0.5}, float one = {1}, float r = {1.4142135}>"
                                  "{ d = Div(x, r)  e = Erf(d)  a = Add(e, one)  m = Mul(x, a)  y = Mul(m, h) }", opset=17))
        answer = model.why_not("gelu-erf")
        self.assertEqual((answer.rule, answer.fired), ("gelu-erf", 0))
        self.assertIn("--opset 20", answer.remedies)
        self.assertIn("try --opset 20", str(answer))
        self.assertEqual(len(model.nodes), 5)
        with self.assertRaisesRegex(anfora.NotFoundError, "compose-transposes"):
            model.why_not("compose-transpose")

    def test_tells_differences_as_the_command_does(self) -> None:
        model = anfora.load(parse(self.TEXT))
        self.assertFalse(model.diff(parse(self.TEXT)))
        difference = model.diff(model.optimize())
        self.assertTrue(difference)
        self.assertEqual(difference.gone, ["Add 'a'", "Transpose 't'", "Transpose 'u'"])
        self.assertEqual([(node.before, node.changes) for node in difference.changed],
                         [("Relu 'y'", ["operand 0: Transpose 'u' → parameter 'x'"])])
        self.assertEqual(difference.operators["Transpose"], (2, 0))
        self.assertIn("4 → 1 nodes: 0 as they were, 1 changed, 3 gone, 0 new\n", str(difference))

    def test_verify_tells_a_difference(self) -> None:
        other = parse(self.TEXT.replace("Relu(u)", "Abs(u)"))
        verification = anfora.load(parse(self.TEXT)).verify(other)
        self.assertFalse(verification)
        self.assertFalse(verification.same)
        self.assertIn("y", verification.message)


class ArrayTest(unittest.TestCase):
    def test_memory_orders(self) -> None:
        executable = compiled("two (float[A, B] x) => (float[A, B] y) { y = Neg(x) }")
        base = np.arange(60, dtype=np.float32).reshape(6, 10)
        views = [base, base.T, base[::2], base[:, ::3], base[::-1, ::-1], np.asfortranarray(base), base[:0], base[:, 3:4],
                 np.broadcast_to(base[0], (4, 10)), base.astype(">f4")]
        for view in views:
            np.testing.assert_array_equal(executable(view), -view)
            if view.dtype.isnative and view.flags.writeable:
                np.testing.assert_array_equal(executable(Dlpack(view)), -view)

    def test_read_only(self) -> None:
        executable = compiled("two (float[N] x) => (float[N] y) { y = Neg(x) }")
        x = np.ones(1000, np.float32)
        x.flags.writeable = False
        y = executable(x)
        self.assertTrue(y.flags.writeable)
        np.testing.assert_array_equal(y, -x)
        np.testing.assert_array_equal(x, 1)

    def test_scalars_and_empty(self) -> None:
        executable = compiled("any (float[*] x) => (float[*] y) { y = Neg(x) }")
        for x in (np.float32(3), np.array(3, np.float32), np.empty((0, 3), np.float32), 3.0, [3.0, 4.0], [[1.0], [2.0]]):
            y = executable(x)
            self.assertEqual((y.dtype, y.shape), (np.float32, np.shape(x)))
            np.testing.assert_array_equal(y, -np.asarray(x))

    def test_outputs_belong_to_the_caller(self) -> None:
        executable = compiled("same (float[N] x) => (float[N] y, float[N] z, float[2] c) "
                              "{ y = Identity(x)  z = Identity(x)  c = Constant<value_floats = [1.0, 2.0]>() }")
        x = np.ones(64, np.float32)
        y, z, c = executable(x)
        y[:], c[:] = 7, 7
        np.testing.assert_array_equal(x, 1)
        np.testing.assert_array_equal(z, 1)
        np.testing.assert_array_equal(executable(x)[2], [1, 2])
        again, _, _ = executable(x)
        np.testing.assert_array_equal(y, 7)
        del executable
        np.testing.assert_array_equal(again, 1)

    def test_a_large_input_is_not_copied(self) -> None:
        executable = compiled("first (float[N] x) => (float[1] y) <int64[1] at = {0}> { y = Gather(x, at) }")
        executable(np.ones(1, np.float32))
        size = 1 << 29
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        wraps: list[Any] = [lambda array: array, Dlpack]
        for wrap in wraps:
            np.testing.assert_array_equal(executable(wrap(np.zeros(size // 4, np.float32))), 0)
        grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        self.assertLess(grown, size // 4)

    def test_given_outputs_are_filled(self) -> None:
        executable = compiled(LINEAR)
        y = np.empty((2, 3), np.float32)
        results = executable.run([np.ones((2, 4), np.float32)], out=[y, None])
        self.assertIs(results[0], y)
        np.testing.assert_array_equal(y, [[-5, 7, -5]] * 2)
        # What is not dense, and what is an input as well, is filled in the end.
        columns = np.empty((3, 2), np.float32).T
        self.assertIs(executable.run([np.ones((2, 4), np.float32)], out=[columns, None])[0], columns)
        np.testing.assert_array_equal(columns, y)
        turned = compiled("turned (float[2,2] x) => (float[2,2] y) { y = Transpose(x) }")
        x = np.arange(4, dtype=np.float32).reshape(2, 2)
        turned.run([x], out=[x])
        np.testing.assert_array_equal(x, [[0, 2], [1, 3]])
        for wrong in (np.empty((3, 2), np.float32), np.empty((2, 3), np.float64)):
            with self.assertRaises(ValueError):
                executable.run([np.ones((2, 4), np.float32)], out=[wrong])

    def test_dtypes(self) -> None:
        for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
                     "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "int4", "uint4"):
            dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
            number = onnx.helper.np_dtype_to_tensor_dtype(dtype)
            model = parse("same (float[N] x) => (float[N] y) { y = Identity(x) }")
            for info in (model.graph.input[0], model.graph.output[0]):
                info.type.tensor_type.elem_type = number
            executable = anfora.load(model).compile(threads=1)
            lowest = -1 if dtype.kind != "u" and not name.startswith(("uint", "bool")) else 0
            for x in (np.array([lowest, 1, 1, 0, 1]).astype(dtype), np.empty(0, dtype)):
                y = executable(x)
                with self.subTest(name):
                    self.assertEqual((y.dtype, y.tolist()), (dtype, x.tolist()))

    def test_narrow_floats_by_dlpack(self) -> None:
        """numpy exports no such elements: its tensor of bytes is given PyTorch's codes of them."""
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

        class Narrow(Dlpack):
            def __init__(self, array: np.ndarray[Any, Any], code: int) -> None:
                super().__init__(array)
                self._code = code

            def __dlpack__(self, **_: Any) -> Any:
                capsule = self._array.__dlpack__()
                ctypes.c_uint8.from_address(pointer_of(capsule, b"dltensor") + 20).value = self._code
                return capsule

        for name, code in (("float8_e4m3fn", 10), ("float8_e4m3fnuz", 11), ("float8_e5m2", 12), ("float8_e5m2fnuz", 13)):
            dtype = np.dtype(getattr(ml_dtypes, name))
            model = parse("wide (float[N] x) => (float[N] y) { y = Cast<to = 1>(x) }")
            model.graph.input[0].type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(dtype)
            values = np.array([-2, 0.5, 1], dtype)
            narrow = Narrow(values.view(np.uint8), code)
            with self.subTest(name):
                np.testing.assert_array_equal(anfora.load(model).compile(threads=1)(narrow), [-2, 0.5, 1])

    def test_narrow_integers_have_signs(self) -> None:
        executable = compiled("wide (int4[N] x) => (float[N] y) { y = Cast<to = 1>(x) }")
        np.testing.assert_array_equal(executable(np.array([-8, -1, 7]).astype(ml_dtypes.int4)), [-8, -1, 7])

    def test_narrow_scalars(self) -> None:
        executable = compiled("wide (bfloat16 x) => (float y) { y = Cast<to = 1>(x) }")
        self.assertEqual(executable(np.array(1.5, ml_dtypes.bfloat16)), 1.5)


class ValueTest(unittest.TestCase):
    def test_strings(self) -> None:
        executable = compiled("same (string[N] x) => (string[N] y) { y = Identity(x) }")
        for x in (["a", "bé"], np.array(["a", "bé"]), np.array(["a", "bé"], object), np.array([], object),
                  np.array(["a", "bé"], np.dtypes.StringDType())):
            y = executable(x)
            self.assertEqual((y.dtype, y.tolist()), (object, list(x)))
        self.assertEqual(executable(np.array([b"a", b"\xff"], object)).tolist(), ["a", "\udcff"])

    def test_sequences(self) -> None:
        executable = compiled("length (seq(float[*]) s) => (seq(float[*]) t, int64 n) { t = Identity(s)  n = SequenceLength(s) }")
        x = np.ones((2, 3), np.float32)
        for given in ([x, x[0]], (x,), [], [[1.0, 2.0], x]):
            items, n = executable(given)
            self.assertIsInstance(items, list)
            self.assertEqual((len(items), n), (len(given), len(given)))
            for item, expected in zip(items, given):
                np.testing.assert_array_equal(item, np.asarray(expected))

    def test_sequences_of_another_type_are_refused(self) -> None:
        x, i = np.ones(3, np.float32), np.ones(3, np.int64)
        cases: list[tuple[str, list[Any]]] = [
            ("seq(float[*])", [[i], [x, i], [None], x, 3, "text", {"a": 1}, [{"a": x}], ["a"]]),
            ("optional(seq(float[*]))", [[i], x, {"a": 1}]),
            ("map(string, float)", [[x], x, {"a": "b"}, 3]),
        ]
        for type, wrong in cases:
            executable = compiled(f"same ({type} s) => ({type} t) {{ t = Identity(s) }}")
            for given in wrong:
                with self.subTest(type=type, given=given), self.assertRaises(anfora.InvalidArgumentError) as caught:
                    executable(given)
                self.assertTrue(caught.exception.message)
        with self.assertRaisesRegex(anfora.InvalidArgumentError, "a sequence of 2: f32\\[3], i64\\[3], the model takes seq"):
            compiled("same (seq(float[*]) s) => (seq(float[*]) t) { t = Identity(s) }")([x, i])

    def test_optionals(self) -> None:
        executable = compiled("has (optional(float[N]) o) => (bool b, optional(float[N]) p) "
                              "{ b = OptionalHasElement(o)  p = Identity(o) }")
        has, value = executable(np.ones(3, np.float32))
        self.assertTrue(has)
        np.testing.assert_array_equal(value, np.ones(3))
        for arguments in ((None,), ()):
            has, value = executable(*arguments)
            self.assertFalse(has)
            self.assertIsNone(value)

    def test_maps(self) -> None:
        model = parse("pick (map(string, float[N]) m) => (float[*] y) "
                      "{ y = ai.onnx.ml.DictVectorizer<string_vocabulary = [\"a\", \"b\", \"c\"]>(m) }")
        executable = anfora.load(model).compile(threads=1)
        np.testing.assert_array_equal(executable({"c": 3, "a": 1.5}), [[1.5, 0, 3]])
        np.testing.assert_array_equal(executable({}), [[0, 0, 0]])
        model = parse("zip (float[N, 2] x) => (seq(map(int64, float[N])) y) "
                      "{ y = ai.onnx.ml.ZipMap<classlabels_int64s = [5, 6]>(x) }")
        self.assertEqual(anfora.load(model).compile(threads=1)(np.ones((2, 2), np.float32)), [{5: 1.0, 6: 1.0}] * 2)


class ErrorTest(unittest.TestCase):
    def test_sources(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            broken = pathlib.Path(folder) / "broken.onnx"
            broken.write_bytes(b"no model at all")
            cases: list[tuple[Any, type[Exception]]] = [
                ("/no/such/file.onnx", anfora.NotFoundError),
                ("/no/such/file.onnx", FileNotFoundError),
                (broken, anfora.InvalidModelError),
                (b"no model at all", ValueError),
                (b"", anfora.InvalidModelError),
                (folder, anfora.IoError),
                (parse(LINEAR).SerializeToString()[:40], anfora.InvalidModelError),
                (3, TypeError),
            ]
            for source, kind in cases:
                with self.subTest(source), self.assertRaises(kind):
                    anfora.load(source)

    def test_attributes(self) -> None:
        with self.assertRaises(anfora.TypeMismatchError) as caught:
            anfora.load(parse("wrong (int64[N] x) => (float[N] y) { y = Exp(x) }"))
        self.assertEqual(caught.exception.node, "Exp 'y'")
        self.assertIn("node 0", caught.exception.location)
        self.assertIn("i64", caught.exception.message)
        executable = compiled("pick (float[N] x, int64[M] i) => (float[M] y) { y = Gather(x, i) }")
        with self.assertRaises(ValueError) as out_of_range:
            executable(np.ones(3, np.float32), np.array([7]))
        self.assertIsInstance(out_of_range.exception, anfora.InvalidArgumentError)
        self.assertEqual(getattr(out_of_range.exception, "node"), "Gather 'y'")

    def test_arguments(self) -> None:
        executable = compiled(LINEAR)
        x = np.ones((2, 4), np.float32)
        cases: list[Any] = [[], [None], [x, x], {"q": x}, {}, [x[0]], [x[:, :3]], [x.astype(np.float64)], ["text"], [object()]]
        for given in cases:
            with self.subTest(given), self.assertRaises(anfora.InvalidArgumentError):
                executable.run(given)

    def test_pickle(self) -> None:
        for kind in (anfora.Error, *anfora.Error.__subclasses__()):
            if kind.__module__ == "anfora._errors":
                error = kind("message", "node", "location", "hint")
                copied = pickle.loads(pickle.dumps(error))
                self.assertIs(type(copied), kind)
                self.assertEqual(str(copied), "location: node: message (hint)")
                self.assertEqual(vars(copied), vars(error))


class ThreadTest(unittest.TestCase):
    def test_soak(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(soak.main(3), [])

    def test_other_threads_go_on_during_a_run(self) -> None:
        executable = compiled("long (float[N, N] x) => (float[N, N] y) { a = MatMul(x, x)  b = MatMul(a, x)  y = MatMul(b, x) }")
        ticks: list[float] = []

        def tick() -> None:
            while not done.wait(0.001):
                ticks.append(time.perf_counter())

        done = threading.Event()
        thread = threading.Thread(target=tick)
        thread.start()
        executable(np.zeros((1500, 1500), np.float32))
        done.set()
        thread.join()
        self.assertGreater(len(ticks), 10)


class CancellationTest(unittest.TestCase):
    def test_from_another_thread(self) -> None:
        executable = compiled(ENDLESS)
        cancellation = anfora.Cancellation()
        threading.Timer(0.2, cancellation.cancel).start()
        begin = time.process_time()
        with self.assertRaises(anfora.Cancelled):
            executable.run([np.ones(8, np.float32)], cancellation=cancellation)
        self.assertLess(time.process_time() - begin, 1.2)
        self.assertTrue(cancellation.is_cancelled)


class InterruptTest(unittest.TestCase):
    def interrupted(self, work: Any) -> None:
        """Work ends within a second of a signal that a timer or another thread sends: of the process's time, whatever else runs."""
        def from_timer() -> None:
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, 0.3)

        def from_thread() -> None:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

        for send in (from_timer, from_thread):
            begin = time.process_time()
            send()
            with self.assertRaises(KeyboardInterrupt):
                while True:
                    work()
            self.assertLess(time.process_time() - begin, 1.3)

    def test_run(self) -> None:
        executable = compiled(ENDLESS)
        x = np.ones(8, np.float32)
        self.interrupted(lambda: executable(x))
        other = compiled(LINEAR)
        self.assertEqual(other(np.ones((1, 4), np.float32))[0].shape, (1, 3))

    def test_optimize_and_compile(self) -> None:
        model = anfora.load(chain(200_000))
        self.interrupted(model.optimize)
        self.interrupted(model.compile)
        self.assertEqual(len(model.nodes), 200_001)


class ForkTest(unittest.TestCase):
    def in_child(self, work: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's, that the process has threads
            child = os.fork()
        if child == 0:
            try:
                work()
                os._exit(0)
            except BaseException:
                os._exit(1)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                self.assertEqual(os.waitstatus_to_exitcode(status), 0)
                return
            time.sleep(0.01)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        self.fail("the child hangs")

    def test_after_import(self) -> None:
        self.in_child(lambda: anfora.load(parse(LINEAR)).compile(threads=2)(np.ones((2, 4), np.float32)))

    def test_after_runs_with_threads(self) -> None:
        executable = anfora.load(parse("long (float[N, N] x) => (float[N, N] y) { y = MatMul(x, x) }")).compile(threads=2)
        x = np.ones((300, 300), np.float32)
        executable(x)
        self.in_child(lambda: np.testing.assert_array_equal(executable(x), 300))


class Stubs(unittest.TestCase):
    def test_name_what_the_extension_module_has(self) -> None:
        """`_core.pyi`, which is written by hand, has the module's classes with their methods, and no others."""
        stub = pathlib.Path(anfora.__file__).with_name("_core.pyi")
        for node in ast.parse(stub.read_text()).body:
            if not isinstance(node, ast.ClassDef):
                continue
            said = {item.name for item in node.body if isinstance(item, ast.FunctionDef) and not item.name.startswith("_")}
            has = {name for name in vars(getattr(anfora._core, node.name)) if not name.startswith("_")}
            self.assertEqual(said, has, node.name)


if __name__ == "__main__":
    unittest.main()

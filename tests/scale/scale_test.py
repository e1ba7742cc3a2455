#!/usr/bin/env python3
"""Scale: models that are wide, deep or both go through `opt`, `run` and `info` in linear time, and nothing recurses by their size.

usage: ANFORA=build/release/anfora scale_test.py [unittest arguments]

What is quadratic takes minutes at these sizes, what recurses by size ends by a signal: the timeout is generous for what is linear.
"""
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

ANFORA = os.path.abspath(os.environ["ANFORA"])
TIME_LIMIT_S = 240
MANY = 50_000
node = helper.make_node


def value(name, shape=None, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def model_of(nodes, inputs=None, outputs=("y",), initializers=(), dtype=TensorProto.FLOAT):
    graph = helper.make_graph(nodes, "g", inputs or [value("x", [2, 3])], [value(name, None, dtype) for name in outputs],
                              list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def chain(step, count=MANY, **more):
    """x through `count` nodes: step(i, operand, result)."""
    names = ["x"] + [f"v{i}" for i in range(count - 1)] + ["y"]
    return model_of([step(i, names[i], names[i + 1]) for i in range(count)], **more)


def scaled(count=MANY):
    """Nodes r0 … of x times constants, and the constants."""
    return ([node("Mul", ["x", f"c{i}"], [f"r{i}"]) for i in range(count)],
            [constant(f"c{i}", np.float32(i + 1.5)) for i in range(count)])


class Scale(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def anfora(self, *arguments):
        result = subprocess.run([ANFORA, *map(str, arguments)], capture_output=True, text=True, errors="replace",
                                timeout=TIME_LIMIT_S, cwd=self.folder)
        self.assertEqual(result.returncode, 0, f"{arguments}: {result.stderr[-500:]}")
        return result.stdout

    def check(self, model):
        path = self.folder / "model.onnx"
        path.write_bytes(model.SerializeToString())
        self.anfora("info", path)
        self.anfora("opt", path, "-o", self.folder / "small.onnx", "--no-check")
        self.anfora("run", path, "--random")

    # Deep -------------------------------------------------------------------------------------------------

    def test_chains(self):
        one = [constant("k", np.float32(0.5))]
        for name, step, initializers in (
                ("Add of itself and x", lambda i, a, b: node("Add", [a, "x"], [b]), ()),
                ("Add of constants", lambda i, a, b: node("Add", [a, "k"], [b]), one),
                ("Add of it twice", lambda i, a, b: node("Add", [a, a], [b]), ()),
                ("several operators", lambda i, a, b: node(["Mul", "Sub", "Max", "Div"][i % 4], [a, "x"], [b]), ()),
                ("Sigmoid", lambda i, a, b: node("Sigmoid", [a], [b]), ()),
                ("Identity", lambda i, a, b: node("Identity", [a], [b]), ()),
                ("Neg", lambda i, a, b: node("Neg", [a], [b]), ()),
                ("Transpose", lambda i, a, b: node("Transpose", [a], [b], perm=[1, 0]), ()),
                ("Cast", lambda i, a, b: node("Cast", [a], [b], to=TensorProto.FLOAT if i % 2 else TensorProto.FLOAT16), ())):
            with self.subTest(name):
                self.check(chain(step, initializers=initializers))

    def test_products(self):
        self.check(chain(lambda i, a, b: node("MatMul", [a, "w"], [b]), 10_000,
                         initializers=[constant("w", np.eye(3, dtype=np.float32))]))

    def test_logic(self):
        self.check(chain(lambda i, a, b: node(["And", "Or", "Xor"][i % 3], [a, "z"], [b]), dtype=TensorProto.BOOL,
                         inputs=[value("x", [2], TensorProto.BOOL), value("z", [2], TensorProto.BOOL)]))

    def test_views_of_computed_shapes(self):
        nodes, operand = [], "x"
        for i in range(MANY // 2):
            result = "y" if i == MANY // 2 - 1 else f"v{i}"
            nodes += [node("Shape", [operand], [f"s{i}"]), node("Reshape", [operand, f"s{i}"], [result])]
            operand = result
        self.check(model_of(nodes, inputs=[value("x", ["N", "M"])]))

    def test_dimensions_that_broadcast(self):
        """Neither of N and M is known to be the larger one: each sum has a dimension of its own."""
        self.check(chain(lambda i, a, b: node("Add", [a, "z" if i % 2 == 0 else "x"], [b]), 10_000,
                         inputs=[value("x", ["N"]), value("z", ["M"])]))

    def test_branches(self):
        def step(i, operand, result):
            then, otherwise = (helper.make_graph([node(op, [operand], [f"{op}{i}"])], op, [], [value(f"{op}{i}")])
                               for op in ("Relu", "Neg"))
            return node("If", ["c"], [result], then_branch=then, else_branch=otherwise)
        # The writer nests a call an If, to a bound of its own (1000).
        self.check(chain(step, 400, inputs=[value("x", [2, 3]), value("c", [], TensorProto.BOOL)]))

    def test_sequences(self):
        nodes = [node("SequenceEmpty", [], ["s0"])]
        nodes += [node("SequenceInsert", [f"s{i}", "x"], [f"s{i + 1}"]) for i in range(5_000)]
        self.check(model_of(nodes + [node("ConcatFromSequence", ["s5000"], ["y"], axis=0)]))

    # Wide -------------------------------------------------------------------------------------------------

    def test_many_operands(self):
        for op, attributes in (("Concat", {"axis": 0}), ("Sum", {}), ("Max", {}), ("Mean", {})):
            with self.subTest(op):
                self.check(model_of([node(op, ["x"] * MANY, ["y"], **attributes)]))
                nodes, initializers = scaled()
                self.check(model_of(nodes + [node(op, [f"r{i}" for i in range(MANY)], ["y"], **attributes)],
                                    initializers=initializers))

    def test_sequence_of_many(self):
        nodes, initializers = scaled(10_000)
        self.check(model_of(nodes + [node("SequenceConstruct", [f"r{i}" for i in range(10_000)], ["s"]),
                                     node("ConcatFromSequence", ["s"], ["y"], axis=0)], initializers=initializers))

    def test_parts(self):
        parts = [f"s{i}" for i in range(10_000)]
        split = node("Split", ["x"], parts, axis=0, num_outputs=len(parts))
        inputs = [value("x", [len(parts), 3])]
        self.check(model_of([split], inputs=inputs, outputs=parts))
        self.check(model_of([split, *(node("Relu", [p], ["r" + p]) for p in parts),
                             node("Concat", ["r" + p for p in parts], ["y"], axis=0)], inputs=inputs))

    def test_einsum_of_many(self):
        self.check(model_of([node("Einsum", ["x"] * 200, ["y"], equation=",".join(["ij"] * 200) + "->ij")]))

    def test_one_value_used_by_many(self):
        nodes, initializers = scaled()
        self.check(model_of(nodes, outputs=[f"r{i}" for i in range(MANY)], initializers=initializers))
        self.check(model_of([node("Relu", ["x"], [f"r{i}"]) for i in range(MANY)], outputs=[f"r{i}" for i in range(MANY)]))

    def test_slices_of_one_value(self):
        bounds = [constant(f"i{i}", np.array([i], np.int64)) for i in range(10_001)]
        nodes = [node("Slice", ["x", f"i{i}", f"i{i + 1}"], [f"g{i}"]) for i in range(10_000)]
        self.check(model_of(nodes + [node("Sum", [f"g{i}" for i in range(10_000)], ["y"])],
                            inputs=[value("x", [10_000, 3])], initializers=bounds))

    def test_products_of_one_value(self):
        weights = [constant(f"w{i}", np.full((3, 2), i, np.float32)) for i in range(5_000)]
        nodes = [node("MatMul", ["x", f"w{i}"], [f"g{i}"]) for i in range(5_000)]
        self.check(model_of(nodes + [node("Sum", [f"g{i}" for i in range(5_000)], ["y"])], initializers=weights))

    # Drawing ----------------------------------------------------------------------------------------------

    def test_text_and_graph_of_a_deep_model(self):
        path = self.folder / "model.onnx"
        path.write_bytes(chain(lambda i, a, b: node("Add", [a, "x"], [b])).SerializeToString())
        for form in ("ir", "dot"):
            self.anfora("dump", path, "--format", form, "-o", self.folder / f"model.{form}")


if __name__ == "__main__":
    unittest.main()

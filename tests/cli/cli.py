"""What the tests of the command line share: a scratch folder, the program, and small models."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

ANFORA = os.path.abspath(os.environ["ANFORA"])


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def save(self, name, model):
        (self.folder / name).write_bytes(model.SerializeToString())

    def anfora(self, *arguments, code=0, **options):
        options = {"text": True, **options}
        result = subprocess.run([ANFORA, *arguments], capture_output=True, cwd=self.folder, timeout=120, **options)
        if code is not None:
            self.assertEqual(result.returncode, code, (arguments, result.stdout[-500:], result.stderr[-500:]))
        return result


def tensor(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def model(nodes, inputs, outputs, initializers=(), opset=17, functions=(), domains=(), name="g"):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(initializers))
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, 1) for domain in domains]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=9)


def count_nodes(model):
    """Every NodeProto: of the graph, of the bodies of control flow, of functions."""
    def count(nodes):
        inner = [g for n in nodes for a in n.attribute for g in ([a.g] if a.HasField("g") else []) + list(a.graphs)]
        return len(nodes) + sum(count(g.node) for g in inner)
    return count(model.graph.node) + sum(count(f.node) for f in model.functions)

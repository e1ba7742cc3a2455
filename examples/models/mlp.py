#!/usr/bin/env python3
"""Write mlp.onnx beside this file: two small layers, with what an exporter leaves behind and an optimizer removes."""
import pathlib

import numpy as np
import onnx
from onnx import helper, numpy_helper

N, WIDTH, CLASSES = "N", 4, 3
weights = {
    "w1": np.arange(WIDTH * WIDTH, dtype=np.float32).reshape(WIDTH, WIDTH) / 8 - 1,
    "b1": np.linspace(-1, 1, WIDTH, dtype=np.float32),
    "w2": np.arange(WIDTH * CLASSES, dtype=np.float32).reshape(WIDTH, CLASSES) / 4 - 1,
    "minus_one": np.array([-1], np.int64),
    "width": np.array([WIDTH], np.int64),
}
nodes = [
    helper.make_node("Identity", ["x"], ["same"], name="same"),
    helper.make_node("Concat", ["minus_one", "width"], ["shape"], name="shape", axis=0),
    helper.make_node("Reshape", ["same", "shape"], ["flat"], name="flatten"),
    helper.make_node("MatMul", ["flat", "w1"], ["h1"], name="fc1"),
    helper.make_node("Add", ["h1", "b1"], ["h2"], name="bias"),
    helper.make_node("Relu", ["h2"], ["h3"], name="act"),
    helper.make_node("MatMul", ["h3", "w2"], ["logits"], name="fc2"),
    helper.make_node("Softmax", ["logits"], ["y"], name="softmax", axis=-1),
]
graph = helper.make_graph(
    nodes, "mlp",
    [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [N, WIDTH])],
    [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [N, CLASSES])],
    [numpy_helper.from_array(value, name) for name, value in weights.items()])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="mlp.py")
onnx.checker.check_model(model, full_check=True)
onnx.save(model, pathlib.Path(__file__).with_suffix(".onnx"))

"""Small models for the tests."""

from __future__ import annotations

import re
from typing import Any

import onnx
import onnx.parser

import anfora


def parse(text: str, opset: int = 21, ml: int = 3) -> onnx.ModelProto:
    """A model from ONNX's text form of a graph. ``float[*]``, which that lacks, is of any rank."""
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "ai.onnx.ml" : {ml}]>\n'
    model: onnx.ModelProto = onnx.parser.parse_model(header + re.sub(r"\[\*\]", "[_any]", text))
    for info in (*model.graph.input, *model.graph.output):
        _forget_rank(info.type)
    return model


def compiled(text: str, **options: Any) -> anfora.Executable:
    """A model of that text, which runs on one thread."""
    return anfora.load(parse(text)).compile(threads=1, **options)


def _forget_rank(type: onnx.TypeProto) -> None:
    if type.HasField("sequence_type"):
        _forget_rank(type.sequence_type.elem_type)
    elif type.HasField("map_type"):
        _forget_rank(type.map_type.value_type)
    elif any(dim.dim_param == "_any" for dim in type.tensor_type.shape.dim):
        type.tensor_type.ClearField("shape")


#: y = x·w + 1, z = max(y, 0)
LINEAR = """linear (float[N, 4] x) => (float[N, 3] y, float[N, 3] z)
<float[4, 3] w = {1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12}, float one = {1}>
{ p = MatMul(x, w)  y = Add(p, one)  z = Relu(y) }"""

#: A run that nobody waits for.
ENDLESS = """endless (float[N] x) => (float[N] y) <int64 trips = {1000000000000}, bool keep = {1}>
{
  y = Loop (trips, keep, x) <body = step (int64 i, bool c, float[N] a) => (bool c2, float[N] b) {
    c2 = Identity(c)
    s = Sin(a)
    b = Add(s, a)
  }>
}"""


def chain(length: int) -> onnx.ModelProto:
    """A long chain of functions."""
    model = parse("chain (float[N] x0) => (float[N] y) { y = Identity(x0) }")
    del model.graph.node[:]
    for i in range(length):
        model.graph.node.add(op_type=("Sin", "Cos", "Tanh")[i % 3], input=[f"x{i}"], output=[f"x{i + 1}"])
    model.graph.node.add(op_type="Identity", input=[f"x{length}"], output=["y"])
    return model

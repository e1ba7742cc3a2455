"""Sessions of ONNX Runtime's interface, for the tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from models import parse

WITH_DEFAULT = """add (float[N, 3] x, float[3] w) => (float[N, 3] y, float[N, 3] z) <float[3] w = {1, 2, 3}>
{ y = Add(x, w)  z = Relu(y) }"""
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def with_default() -> bytes:
    model = parse(WITH_DEFAULT)
    if len(model.graph.input) == 1:  # the parser takes what has a value from the inputs
        model.graph.input.append(onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [3]))
    return bytes(model.SerializeToString())


def options(module: Any) -> Any:
    made = module.SessionOptions()
    made.log_severity_level = 4
    made.intra_op_num_threads = 2
    return made


def session(module: Any, model: Any) -> Any:
    return module.InferenceSession(model, options(module), providers=["CPUExecutionProvider"])


def outcome(work: Callable[[], Any]) -> str:
    """The name of the class of the exception that is raised, "" for none."""
    try:
        work()
    except Exception as error:
        return type(error).__name__
    return ""

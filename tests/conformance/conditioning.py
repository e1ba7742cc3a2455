"""How far rounding alone moves the outputs of a model: Monte Carlo arithmetic (D. S. Parker, 1997) in onnx's reference.

Every floating-point value of the model, inputs included, is multiplied element by element with a random number as near
to 1 as a few rounding errors of its type are. What an output moves by then is the model's own: no order of
summation, and so no processor, is more right than another within it. The result depends on the case alone.
"""
import numpy as np
import onnx
import onnx.version_converter
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

RUNS = 4
ERRORS = 4  # rounding errors in one value: an operator is a few roundings of a few terms each
UNIT_ROUNDOFF = {np.dtype(np.float16): 2**-11, np.dtype(np.float32): 2**-24, np.dtype(np.float64): 2**-53}


# onnx's reference implementation reads some operators of older operator sets by their newest definition.
OLDEST_OPSET, OPSET = 13, 21


def upgraded(model):
    version = next((entry.version for entry in model.opset_import if not entry.domain), OPSET)
    return onnx.version_converter.convert_version(model, OPSET) if version < OLDEST_OPSET else model


def perturbed(model, values, run):
    """The model with a random factor behind every floating-point value; `values` has one of each by name."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    constants = {tensor.name for tensor in graph.initializer}
    nodes, current = [], {}
    random = np.random.RandomState(run)

    def perturb(name):
        value = values.get(name)
        roundoff = UNIT_ROUNDOFF.get(getattr(value, "dtype", None))
        if not roundoff or name in constants:
            return
        factor, product = f"{name}.factor", f"{name}.perturbed"
        factors = 1 + ERRORS * roundoff * random.uniform(-1, 1, value.shape)
        graph.initializer.append(numpy_helper.from_array(factors.astype(value.dtype), factor))
        nodes.append(helper.make_node("Mul", [name, factor], [product]))
        current[name] = product

    for info in graph.input:
        perturb(info.name)
    for node in graph.node:
        moved = onnx.NodeProto()
        moved.CopyFrom(node)
        moved.input[:] = [current.get(name, name) for name in node.input]
        nodes.append(moved)
        for name in filter(None, node.output):
            perturb(name)
    outputs = [current.get(info.name, info.name) for info in graph.output]
    graph.ClearField("node")
    graph.node.extend(nodes)
    for info, name in zip(graph.output, outputs):
        info.name = name
    return copy


def noise(model, feeds):
    """For each output the largest distance between two of its values at one place; None where shapes depend on it."""
    model = upgraded(model)
    with np.errstate(all="ignore"):
        values = ReferenceEvaluator(model).run(None, feeds, intermediate=True)
        runs = [ReferenceEvaluator(perturbed(model, values, run)).run(None, feeds) for run in range(RUNS)]
    spreads = []
    for results in zip(*runs):
        if len({np.shape(result) for result in results}) > 1:
            spreads.append(None)
            continue
        stacked = np.stack([np.asarray(result, np.float64) for result in results])
        spreads.append(float(np.max(np.ptp(stacked, axis=0), initial=0)))
    return spreads

#!/usr/bin/env python3
"""Run a model in ONNX Runtime on inputs that suit it.

usage: reference.py find MODEL INPUTS.npz OUTPUTS.npz
       reference.py run  MODEL INPUTS.npz OUTPUTS.npz [--level none|all] [--nudge SEED]

`find` makes inputs: it tries sizes and values that models commonly take until ONNX Runtime runs without an error and gives
something other than NaN, and writes them and the outputs. `run` reads the inputs. Without --level nothing is optimized.
--nudge moves the elements of inputs and weights to a neighbouring number: how far the outputs move then is what rounding
alone may do to them. Outputs are written as `anfora run --output` does: tensors by name, items of sequences as NAME.0, NAME.1, maps as NAME.keys
and NAME.values.
"""
import argparse
import dataclasses
import itertools
import re
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

SEED = 0
# Sizes in the order in which they are tried: of images (height, width), and of everything else.
IMAGES = ((320, 320), (48, 192), (224, 224), (64, 64), (32, 100), (640, 640), (28, 28))
LENGTHS = (512, 16000, 64, 16, 76, 100, 10, 3, 2, 1)
CHANNELS = (3, 1)
LARGEST_INTEGERS = (50, 10, 2, 1)
SAMPLE_RATE = 16000
# Names that exporters give to a dimension of which they know nothing.
MEANINGLESS = re.compile(r"\W*\d*|None|unk__\d+|.*DynamicDimension.*")

DTYPES = {"float": np.float32, "double": np.float64, "float16": np.float16, "bool": np.bool_, "string": np.object_,
          **{kind + str(bits): np.dtype(kind + str(bits)).type for kind in ("int", "uint") for bits in (8, 16, 32, 64)}}


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What one attempt takes for the dimensions that the model leaves open."""
    image: tuple[int, int]
    length: int
    channels: int
    largest_integer: int
    batch: int = 1


def attempts(inputs):
    has_image = any(len(value.shape or ()) >= 4 for value in inputs)
    images, lengths = (IMAGES, LENGTHS[:3]) if has_image else (IMAGES[:1], LENGTHS)
    for integers, channels, length, image in itertools.product(LARGEST_INTEGERS, CHANNELS[:1 + has_image], lengths, images):
        yield Sizes(image, length, channels, integers)


def shape_of(value, sizes, symbols):
    """`symbols` keeps what was chosen for the names that inputs share."""
    rank, shape = len(value.shape or ()), []
    for axis, size in enumerate(value.shape or ()):
        if not isinstance(size, int) or size < 0:
            if axis == 0 and rank > 1 or axis == 1 and rank == 3 and isinstance(value.shape[0], int):  # or states of recurrent layers
                chosen = sizes.batch
            elif rank == 4:
                channels_last = value.shape[3] in CHANNELS
                chosen = sizes.channels if axis == 1 and not channels_last else sizes.image[axis - (1 if channels_last else 2)]
            else:
                chosen = sizes.length
            is_symbol = isinstance(size, str) and not MEANINGLESS.fullmatch(size)
            size = symbols.setdefault(size, chosen) if is_symbol else chosen
        shape.append(size)
    return shape


def picture(shape, random):
    """Bright shapes on a dark gradient, from -1 to 1. On noise, models for images say as good as nothing, and that by its last
    bit."""
    rows, columns = (shape[1:3] if shape[3] in CHANNELS else shape[2:4])
    y, x = np.mgrid[:rows, :columns] / np.maximum([[[rows]], [[columns]]], 1)
    image = 0.5 * (x + y) - 1
    for _ in range(12):
        top, left, height, width = random.random(4) * [1, 1, 0.4, 0.4]
        image[(top < y) & (y < top + height) & (left < x) & (x < left + width)] = random.random()
    channels = image * np.linspace(0.8, 1, 4).reshape(4, 1, 1)
    channels = np.resize(channels, (shape[3] if shape[3] in CHANNELS else shape[1], rows, columns))
    return np.broadcast_to(channels.transpose(1, 2, 0) if shape[3] in CHANNELS else channels, shape)


def values_of(value, shape, sizes, random):
    name, dtype = value.name.lower(), DTYPES[value.type.removeprefix("tensor(").removesuffix(")")]
    if dtype is np.object_:
        return np.full(shape, "an amphora")  # as .npz files have strings
    if dtype is np.bool_ or "mask" in name:
        return np.ones(shape, dtype)
    if np.issubdtype(dtype, np.floating):
        if "scale_factor" in name or "speed" in name:
            return np.ones(shape, dtype)
        if len(shape) == 4:
            return picture(shape, random).astype(dtype)
        spread = 0.1 if len(shape) < 3 else 0.5  # audio as quiet as it is recorded
        return np.asarray(random.standard_normal(shape) * spread, dtype)
    if name in ("sr", "sampling_rate", "sample_rate"):
        return np.full(shape, SAMPLE_RATE, dtype)
    if re.search(r"len(s|gths?)?$", name):
        return np.full(shape, sizes.length, dtype)
    return np.asarray(random.integers(0, sizes.largest_integer + 1, shape), dtype)


def make_inputs(inputs, sizes):
    random, symbols = np.random.default_rng(SEED), {}
    return {value.name: values_of(value, shape_of(value, sizes, symbols), sizes, random) for value in inputs}


def flatten(name, value):
    if isinstance(value, list) and value and isinstance(value[0], dict):
        for key in value[0]:
            yield f"{name}.{key}", np.array([item[key] for item in value])
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from flatten(f"{name}.{index}", item)
    elif isinstance(value, dict):
        yield f"{name}.keys", np.array(list(value.keys()))
        yield f"{name}.values", np.array(list(value.values()))
    elif value is not None:
        yield name, np.asarray(value)


def session_of(model, level):
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if level == "all" else levels.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run(session, inputs):
    names = [value.name for value in session.get_outputs()]
    results = session.run(None, inputs)
    return dict(pair for name, value in zip(names, results) for pair in flatten(name, value))


def nudged(values, random):
    """Each element moved to the next number above or below."""
    if values.dtype.kind != "f":
        return values
    directions = np.where(random.random(values.shape) < 0.5, np.inf, -np.inf).astype(values.dtype)
    return np.asarray(np.nextafter(values, directions))  # an array also without dimensions


def nudge_weights(graph, random):
    """Of more than one element: single numbers are constants of formulas."""
    tensors = list(graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                nudge_weights(attribute.g, random)
            elif node.op_type == "Constant" and attribute.name == "value":
                tensors.append(attribute.t)
    for tensor in tensors:
        values = numpy_helper.to_array(tensor)
        if values.dtype.kind == "f" and values.size > 1:
            tensor.CopyFrom(numpy_helper.from_array(nudged(values, random), tensor.name))


def says_something(outputs):
    floats = [value for value in outputs.values() if np.issubdtype(value.dtype, np.floating) and value.size]
    return all(np.isfinite(value).any() for value in floats) and any(value.size for value in outputs.values())


def find(session):
    """The first attempt that gives something; where none does, the first that runs at all."""
    fallback, error, tried = None, None, set()
    inputs = session.get_inputs()
    for sizes in attempts(inputs):
        made = make_inputs(inputs, sizes)
        key = tuple((name, value.shape, value.dtype.kind in "iu" and value.tobytes()) for name, value in made.items())
        if key in tried:
            continue
        tried.add(key)
        try:
            outputs = run(session, made)
        except Exception as problem:  # ONNX Runtime's errors have no common base
            error = error or problem
            continue
        if says_something(outputs):
            return made, outputs
        fallback = fallback or (made, outputs)
    if fallback:
        return fallback
    sys.exit(f"no inputs fit: {str(error).splitlines()[0]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("find", "run"))
    parser.add_argument("model")
    parser.add_argument("inputs")
    parser.add_argument("outputs")
    parser.add_argument("--level", choices=("none", "all"), default="none")
    parser.add_argument("--nudge", type=int, metavar="SEED")
    options = parser.parse_args()
    if options.what == "find":
        inputs, outputs = find(session_of(options.model, options.level))
        np.savez(options.inputs, **inputs)
    else:
        inputs, model = dict(np.load(options.inputs)), options.model
        if options.nudge is not None:
            random, loaded = np.random.default_rng(options.nudge), onnx.load(model)
            nudge_weights(loaded.graph, random)
            inputs = {name: nudged(values, random) for name, values in inputs.items()}
            model = loaded.SerializeToString()
        outputs = run(session_of(model, options.level), inputs)
    np.savez(options.outputs, **outputs)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Measure operators one by one beside ONNX Runtime: a slow kernel shows here before a model meets it.

usage: operators.py BUILD [--only TEXT]... [--threads N] [--seconds S] [--rounds N] [--worst N]

BUILD is the folder with the program `anfora`, such as build/release. Each case is a model of one operator, at a size as models
have it, or of a few that belong together; --only takes those whose name has TEXT in it. In a round each run time loads the
model in a process of its own and runs it for S seconds; the fastest run counts. Reported are the median ratios over the rounds,
the slowest N first, and their geometric mean; figures of all are stored in build/bench/TIME-operators.json. A result is wrong
that differs by more than 1e-4 of the largest element, 1e-3 in half precision; the exit code is 1 then. What images and weights
cost to be transposed counts, as they come and go with their channels first.
"""
import argparse
import json
import math
import pathlib
import statistics
import sys
import time

import numpy as np
import onnx
from onnx import helper, numpy_helper
from tqdm import tqdm

import run as run_bench
from run import RESULTS, ROOT, Failure

FOLDER = ROOT / "build/bench-operators"
OPSET = 21
PEER = "onnxruntime"
TOLERANCE, HALF_TOLERANCE = 1e-4, 1e-3

random = np.random.default_rng(0)


# Cases -------------------------------------------------------------------------------------------------------


def floats(*shape, scale=1.0):
    return (random.standard_normal(shape) * scale).astype(np.float32)


def positive(*shape):
    return np.abs(floats(*shape)) + np.float32(0.1)


def halves(*shape):
    return floats(*shape, scale=0.3).astype(np.float16)


def whole(*shape, high=100, dtype=np.int64):
    return random.integers(0, high, shape).astype(dtype)


def ints(*values):
    return np.array(values, dtype=np.int64)


class Cases:
    """Models by name: (model, {input: array})."""

    def __init__(self):
        self.models = {}

    def graph(self, name, nodes, inputs, constants=None):
        results = [output for node in nodes for output in node.output]
        read = {value for node in nodes for value in node.input}
        described = [helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape) for key, value in inputs.items()]
        stored = [numpy_helper.from_array(np.asarray(value), key) for key, value in (constants or {}).items()]
        outputs = [onnx.ValueInfoProto(name=value) for value in results if value not in read]
        graph = helper.make_graph(nodes, name, described, outputs, stored)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
        self.models[name] = onnx.shape_inference.infer_shapes(model, data_prop=True), inputs

    def node(self, name, op, *inputs, constants=(), outputs=1, **attributes):
        """Of one operator: inputs, then constants, of which None is left out."""
        given = {f"x{i}": value for i, value in enumerate(inputs)}
        known = {f"c{i}": value for i, value in enumerate(constants) if value is not None}
        operands = [*given, *("" if value is None else f"c{i}" for i, value in enumerate(constants))]
        self.graph(name, [helper.make_node(op, operands, [f"y{i}" for i in range(outputs)], **attributes)], given, known)

    def convolution(self, name, image, weights, op="Conv", make=floats, **attributes):
        channels = weights[0] if op == "Conv" else weights[1] * attributes.get("group", 1)
        scaled = make(*weights) / np.asarray(math.sqrt(math.prod(weights[1:])), make(1).dtype)
        self.node(name, op, make(*image), constants=(scaled, make(channels)), **attributes)


def add_convolutions(cases):
    image = cases.convolution
    image("conv 3×3 first", (1, 3, 224, 224), (32, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    image("conv 7×7 first", (1, 3, 224, 224), (64, 3, 7, 7), strides=[2, 2], pads=[3] * 4)
    image("conv patches 16", (1, 3, 224, 224), (768, 3, 16, 16), strides=[16, 16])
    image("conv 3×3", (1, 64, 56, 56), (64, 64, 3, 3), pads=[1] * 4)
    image("conv 3×3 stride 2", (1, 64, 56, 56), (128, 64, 3, 3), pads=[1] * 4, strides=[2, 2])
    image("conv 5×5", (1, 64, 28, 28), (64, 64, 5, 5), pads=[2] * 4)
    image("conv 1×7", (1, 128, 17, 17), (128, 128, 1, 7), pads=[0, 3, 0, 3])
    image("conv 1×1 stride 2", (1, 256, 56, 56), (512, 256, 1, 1), strides=[2, 2])
    image("conv 3×3 dilated", (1, 256, 28, 28), (256, 256, 3, 3), pads=[12] * 4, dilations=[12, 12])
    image("conv to 3 channels", (1, 64, 128, 128), (3, 64, 3, 3), pads=[1] * 4)
    image("conv 32 groups of 4", (1, 128, 56, 56), (128, 4, 3, 3), pads=[1] * 4, group=32)
    image("conv 16 groups of 16", (1, 256, 28, 28), (256, 16, 3, 3), pads=[1] * 4, group=16)
    image("conv 3 groups of 20", (1, 60, 56, 56), (90, 20, 3, 3), pads=[1] * 4, group=3)
    image("conv depthwise 3×3", (1, 128, 56, 56), (128, 1, 3, 3), pads=[1] * 4, group=128)
    image("conv depthwise ×2", (1, 48, 112, 112), (96, 1, 7, 7), pads=[3] * 4, strides=[2, 2], group=48)
    image("conv depthwise 31×31", (1, 64, 56, 56), (64, 1, 31, 31), pads=[15] * 4, group=64)
    image("conv 1d", (1, 512, 400), (512, 512, 3), pads=[1, 1])
    image("conv 1d of samples", (1, 1, 16000), (512, 1, 10), strides=[5])
    image("conv 1d stride 2", (1, 512, 3199), (512, 512, 3), strides=[2])
    image("conv 1d depthwise", (1, 512, 200), (512, 1, 31), group=512, pads=[15, 15])
    image("conv 1d 16 groups", (1, 768, 99), (768, 48, 128), group=16, pads=[64, 64])
    image("conv 3d", (1, 16, 16, 56, 56), (16, 16, 3, 3, 3), pads=[1] * 6)
    image("conv 3d depthwise", (1, 64, 8, 28, 28), (64, 1, 3, 3, 3), group=64, pads=[1] * 6)
    image("conv half 3×3", (1, 64, 56, 56), (64, 64, 3, 3), pads=[1] * 4, make=halves)
    image("conv transposed 2×2", (1, 128, 56, 56), (128, 64, 2, 2), op="ConvTranspose", strides=[2, 2])
    image("conv transposed 4×4", (1, 128, 28, 28), (128, 64, 4, 4), op="ConvTranspose", strides=[2, 2], pads=[1] * 4)
    image("conv transposed depthwise", (1, 64, 56, 56), (64, 1, 4, 4), op="ConvTranspose", strides=[2, 2], pads=[1] * 4, group=64)
    image("conv transposed 1d", (1, 512, 100), (512, 256, 16), op="ConvTranspose", strides=[8], pads=[4, 4])
    x = whole(1, 64, 56, 56, high=256, dtype=np.uint8)
    cases.node("conv of bytes", "ConvInteger", x, constants=[whole(64, 64, 3, 3, high=127, dtype=np.int8)], pads=[1] * 4)
    squeeze = [helper.make_node("GlobalAveragePool", ["x"], ["g"]), helper.make_node("Conv", ["g", "w"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
               helper.make_node("Conv", ["r", "v"], ["k"]), helper.make_node("Sigmoid", ["k"], ["s"]), helper.make_node("Mul", ["x", "s"], ["y"])]
    cases.graph("squeeze and excitation", squeeze, {"x": floats(1, 256, 56, 56)}, {"w": floats(16, 256, 1, 1, scale=0.1), "v": floats(256, 16, 1, 1, scale=0.1)})


def add_products(cases):
    node = cases.node
    node("matmul weights", "MatMul", floats(128, 768), constants=[floats(768, 768)])
    node("matmul weights, one row", "MatMul", floats(1, 4096), constants=[floats(4096, 4096)])
    node("matmul", "MatMul", floats(256, 512), floats(512, 256))
    node("matmul one row", "MatMul", floats(1, 4096), floats(4096, 4096))
    node("matmul one column", "MatMul", floats(2048, 512), floats(512, 1))
    node("matmul of heads", "MatMul", floats(12, 128, 64), floats(12, 64, 128))
    node("matmul of heads, one row", "MatMul", floats(12, 1, 64), floats(12, 64, 1024))
    node("matmul of many small", "MatMul", floats(1000, 8, 8), floats(1000, 8, 8))
    node("matmul double", "MatMul", floats(256, 512).astype(np.float64), floats(512, 256).astype(np.float64))
    node("matmul half", "MatMul", halves(128, 768), constants=[halves(768, 768)])
    # Weights of 7 bits: with more, sums of pairs saturate in ONNX Runtime without VNNI.
    node("matmul of bytes", "MatMulInteger", whole(128, 768, high=255, dtype=np.uint8), constants=[whole(768, 768, high=63, dtype=np.int8)])
    node("gemm transposed", "Gemm", floats(256, 512), constants=[floats(1000, 512), floats(1000)], transB=1)
    node("einsum bid,bjd->bij", "Einsum", floats(8, 128, 64), floats(8, 256, 64), equation="bid,bjd->bij")
    node("einsum abc,bcd->abd", "Einsum", floats(16, 12, 64), floats(12, 64, 96), equation="abc,bcd->abd")
    window = np.hanning(512).astype(np.float32)
    node("stft", "STFT", floats(1, 16000, 1), constants=[np.int64(160), window])
    node("dft of reals", "DFT", floats(64, 400, 1), constants=[None, np.int64(1)], onesided=1)
    node("dft", "DFT", floats(64, 1024, 2), constants=[None, np.int64(1)])
    node("dft, inverse", "DFT", floats(64, 257, 2), constants=[None, np.int64(1)], inverse=1)
    for op, gates, biases in (("LSTM", 4, 8), ("GRU", 3, 6), ("RNN", 1, 2)):
        weights = [floats(1, gates * 256, 128, scale=0.1), floats(1, gates * 256, 256, scale=0.1), floats(1, biases * 256, scale=0.1)]
        node(op.lower(), op, floats(64, 1, 128), constants=weights, hidden_size=256)


def add_poolings(cases):
    node = cases.node
    node("maxpool 3×3 stride 2", "MaxPool", floats(1, 64, 112, 112), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    node("maxpool 5×5", "MaxPool", floats(1, 256, 20, 20), kernel_shape=[5, 5], pads=[2] * 4)
    node("maxpool 3d", "MaxPool", floats(1, 32, 16, 56, 56), kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    node("maxpool of bytes", "MaxPool", whole(1, 64, 112, 112, high=255, dtype=np.uint8), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    node("averagepool 3×3", "AveragePool", floats(1, 256, 28, 28), kernel_shape=[3, 3], pads=[1] * 4)
    node("averagepool 2×2", "AveragePool", floats(1, 64, 112, 112), kernel_shape=[2, 2], strides=[2, 2])
    node("global averagepool", "GlobalAveragePool", floats(1, 64, 112, 112))
    node("global averagepool 7×7", "GlobalAveragePool", floats(1, 2048, 7, 7))
    node("global maxpool", "GlobalMaxPool", floats(1, 512, 28, 28))
    node("resize nearest", "Resize", floats(1, 128, 40, 40), constants=[None, np.array([1, 1, 2, 2], np.float32)], mode="nearest",
         coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    node("resize linear", "Resize", floats(1, 64, 56, 56), constants=[None, np.array([1, 1, 2, 2], np.float32)], mode="linear")
    node("resize cubic", "Resize", floats(1, 3, 128, 128), constants=[None, np.array([1, 1, 2, 2], np.float32)], mode="cubic")
    node("resize antialiased", "Resize", floats(1, 3, 512, 512), constants=[None, None, ints(1, 3, 224, 224)], mode="linear", antialias=1)
    node("gridsample", "GridSample", floats(1, 64, 64, 64), np.tanh(floats(1, 64, 64, 2)), mode="linear")
    corners = random.random((200, 2)).astype(np.float32) * 30
    node("roialign", "RoiAlign", floats(1, 256, 50, 50), np.concatenate([corners, corners + 10], -1), np.zeros(200, np.int64), output_height=7,
         output_width=7, sampling_ratio=2)


def add_normalizations(cases):
    node = cases.node
    node("softmax 128", "Softmax", floats(12, 128, 128))
    node("softmax 32000", "Softmax", floats(32, 32000))
    node("softmax of channels", "Softmax", floats(1, 21, 128, 128), axis=1)
    node("softmax half", "Softmax", halves(12, 128, 128))
    node("logsoftmax", "LogSoftmax", floats(32, 32000))
    node("hardmax", "Hardmax", floats(128, 1000))
    node("layernorm", "LayerNormalization", floats(128, 768), constants=[floats(768), floats(768)])
    node("groupnorm", "GroupNormalization", floats(1, 64, 64, 64), constants=[floats(64), floats(64)], num_groups=32)
    node("instancenorm", "InstanceNormalization", floats(1, 64, 128, 128), constants=[floats(64), floats(64)])
    node("batchnorm", "BatchNormalization", floats(1, 64, 112, 112), constants=[floats(64), floats(64), floats(64), positive(64)])
    node("lrn", "LRN", floats(1, 96, 54, 54), size=5)
    for op in ("Mean", "Sum", "Max", "Prod", "L2", "LogSumExp"):
        node(f"reduce {op.lower()} of rows", f"Reduce{op}", floats(1024, 768), constants=[ints(1)])
    node("reduce sum of columns", "ReduceSum", floats(4096, 768), constants=[ints(0)])
    node("reduce sum in the middle", "ReduceSum", floats(64, 256, 96), constants=[ints(1)])
    node("reduce mean of images", "ReduceMean", floats(1, 256, 56, 56), constants=[ints(2, 3)])
    node("reduce mean of channels", "ReduceMean", floats(1, 256, 56, 56), constants=[ints(1)])
    node("reduce sum of integers", "ReduceSum", whole(512, 1024), constants=[ints(1)])
    node("cumsum of rows", "CumSum", floats(256, 4096), constants=[np.int64(1)])
    node("cumsum of columns", "CumSum", floats(4096, 256), constants=[np.int64(0)])


def add_elementwise(cases):
    node, shape = cases.node, (1, 64, 112, 112)
    for op in ("Abs", "Acos", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSwish", "LeakyRelu", "Log", "Mish", "Neg", "Reciprocal", "Relu", "Round",
               "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh"):
        node(op.lower(), op, positive(*shape))
    for op in ("Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"):
        node(op.lower(), op, positive(*shape), positive(*shape))
        node(f"{op.lower()} by channel", op, positive(*shape), positive(64, 1, 1))
    for dtype in (np.float16, np.float64, np.int32, np.int64, np.int8):
        node(f"add {np.dtype(dtype).name}", "Add", whole(512, 1024, dtype=dtype), whole(512, 1024, dtype=dtype))
        node(f"max {np.dtype(dtype).name}", "Max", whole(512, 1024, dtype=dtype), whole(512, 1024, dtype=dtype))
    node("mod", "Mod", whole(256, 1000) - 50, whole(256, 1000) + 1)
    node("clip", "Clip", floats(*shape), constants=[np.float32(0), np.float32(6)])
    node("prelu", "PRelu", floats(*shape), constants=[floats(64, 1, 1)])
    node("where", "Where", floats(*shape) > 0, floats(*shape), floats(*shape))
    node("greater", "Greater", floats(*shape), floats(*shape))
    node("equal", "Equal", whole(512, 1024, high=5), whole(512, 1024, high=5))
    node("and", "And", floats(512, 1024) > 0, floats(512, 1024) > 0)
    node("not", "Not", floats(512, 1024) > 0)
    node("isnan", "IsNaN", floats(*shape))
    for name, x, to in (("bytes to float", whole(1, 3, 512, 512, high=255, dtype=np.uint8), np.float32), ("float to half", floats(*shape), np.float16),
                        ("half to float", halves(*shape), np.float32), ("float to integer", floats(*shape), np.int64)):
        node(f"cast {name}", "Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))
    node("quantize", "QuantizeLinear", floats(*shape), constants=[np.float32(0.02), np.uint8(128)])
    node("dequantize", "DequantizeLinear", whole(*shape, high=255, dtype=np.uint8), constants=[np.float32(0.02), np.uint8(128)])
    node("dynamic quantize", "DynamicQuantizeLinear", floats(128, 768), outputs=3)


def add_movements(cases):
    node = cases.node
    node("transpose to channels last", "Transpose", floats(1, 64, 112, 112), perm=[0, 2, 3, 1])
    node("transpose heads", "Transpose", floats(1, 128, 12, 64), perm=[0, 2, 1, 3])
    node("transpose matrix", "Transpose", floats(1000, 1000), perm=[1, 0])
    node("transpose reversed", "Transpose", floats(40, 50, 60, 7), perm=[3, 2, 1, 0])
    node("transpose picture", "Transpose", whole(1, 512, 512, 3, high=255, dtype=np.uint8), perm=[0, 3, 1, 2])
    node("concat channels", "Concat", floats(1, 64, 56, 56), floats(1, 192, 56, 56), axis=1)
    node("concat last", "Concat", floats(3136, 64), floats(3136, 32), axis=1)
    node("split", "Split", floats(1, 256, 56, 56), outputs=2, axis=1, num_outputs=2)
    node("slice steps", "Slice", floats(1, 64, 112, 112), constants=[ints(0, 0), ints(112, 112), ints(2, 3), ints(2, 2)])
    node("pad zeros", "Pad", floats(1, 64, 112, 112), constants=[ints(0, 0, 1, 1, 0, 0, 1, 1)])
    node("pad reflect", "Pad", floats(1, 64, 112, 112), constants=[ints(0, 0, 3, 3, 0, 0, 3, 3)], mode="reflect")
    node("depth to space", "DepthToSpace", floats(1, 256, 64, 64), blocksize=2)
    node("space to depth", "SpaceToDepth", floats(1, 64, 128, 128), blocksize=2)
    node("tile", "Tile", floats(1, 64, 32, 32), constants=[ints(1, 1, 3, 3)])
    node("expand", "Expand", floats(1, 1, 128), constants=[ints(64, 128, 128)])
    node("trilu", "Trilu", floats(12, 512, 512), upper=0)
    node("gather rows", "Gather", floats(30000, 768), whole(1, 128, high=30000))
    node("gather columns", "Gather", floats(512, 1000), whole(300, high=1000), axis=1)
    node("gather elements", "GatherElements", floats(512, 1000), whole(512, 300, high=1000), axis=1)
    node("gathernd", "GatherND", floats(100, 100, 64), whole(5000, 2))
    places = np.unique(whole(5000, 2), axis=0)
    node("scatternd", "ScatterND", floats(100, 100, 64), places, floats(len(places), 64))
    node("scatter elements", "ScatterElements", floats(512, 1000), np.stack([random.permutation(1000)[:300] for _ in range(512)]), floats(512, 300), axis=1)
    node("onehot", "OneHot", whole(128, high=1000), constants=[np.int64(1000), np.array([0, 1], np.float32)])
    node("nonzero", "NonZero", (floats(500, 500) > 1).astype(np.float32))
    node("compress", "Compress", floats(1000, 256), random.random(1000) > 0.5, axis=0)
    node("argmax of rows", "ArgMax", floats(128, 30000), axis=1)
    node("argmax of channels", "ArgMax", floats(1, 21, 224, 224), axis=1)
    node("topk 50 of 30000", "TopK", floats(16, 30000), constants=[ints(50)], outputs=2)
    node("topk all", "TopK", floats(1, 8400), constants=[ints(8400)], outputs=2)
    corners = random.random((1, 2000, 2)).astype(np.float32)
    boxes = np.concatenate([corners, corners + np.abs(floats(1, 2000, 2, scale=0.2))], -1)
    node("nonmaxsuppression", "NonMaxSuppression", boxes, random.random((1, 10, 2000)).astype(np.float32),
         constants=[ints(100), np.float32([0.5]), np.float32([0.3])])


FAMILIES = (add_convolutions, add_products, add_poolings, add_normalizations, add_elementwise, add_movements)


# Measuring ---------------------------------------------------------------------------------------------------


def deviation(anfora, model, inputs, scratch, threads):
    """The largest difference from ONNX Runtime's results, relative to the largest element of each, and what is allowed."""
    files = scratch / "anfora.npz", scratch / "peer.npz"
    run_bench.run_command(anfora, "run", model, "--input", inputs, "--output", files[0], "--threads", threads)
    python = ROOT / f"build/venv-{PEER}/bin/python"
    run_bench.run_command(python, ROOT / "bench/peer.py", PEER, model, "--input", inputs, "--output", files[1], "--threads", threads, "--seconds", 0)
    worst, allowed = 0.0, TOLERANCE
    with np.load(files[0]) as got, np.load(files[1]) as want:
        for key in want.files:
            if got[key].shape != want[key].shape or got[key].dtype != want[key].dtype:
                raise Failure(f"result {key} is {got[key].dtype}{got[key].shape}, not {want[key].dtype}{want[key].shape}")
            if want[key].dtype == np.float16:
                allowed = HALF_TOLERANCE
            got_values, want_values = got[key].astype(np.float64), want[key].astype(np.float64)
            largest = np.max(np.abs(want_values), initial=0)
            if largest > 0:
                worst = max(worst, float(np.max(np.abs(got_values - want_values)) / largest))
    return worst, allowed


def measure(name, case, anfora, options, progress):
    model, inputs = FOLDER / f"{name}.onnx", FOLDER / f"{name}.npz"
    onnx.save(case[0], model)
    np.savez(inputs, **case[1])
    result = {"rounds": []}
    try:
        result["deviation"], result["allowed"] = deviation(anfora, model, inputs, FOLDER, options.threads)
        for _ in range(options.rounds):
            result["rounds"].append({who: run_bench.measure(who, anfora, model, inputs, options)["min_ms"] for who in ("anfora", PEER)})
            progress.update()
        result["ratio"] = statistics.median(times["anfora"] / times[PEER] for times in result["rounds"])
    except Failure as failure:
        result["failed"] = str(failure)
    return result


def report(results, worst):
    measured = sorted((result["ratio"], name) for name, result in results.items() if "ratio" in result)
    rows = []
    for ratio, name in reversed(measured[-worst:]):
        result = results[name]
        times = [statistics.median(times[who] for times in result["rounds"]) for who in ("anfora", PEER)]
        rows.append([name, *(f"{1e3 * value:.0f}" for value in times), f"{ratio:.2f}", f"{result['deviation']:.0e}"])
    run_bench.print_table(["", "µs anfora", "µs ort", "ratio", "deviation"], rows)
    if measured:
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio, _ in measured))
        print(f"\n{len(measured)} cases: geometric mean {mean:.2f}, {sum(ratio <= 1 for ratio, _ in measured)} at most 1, median {measured[len(measured) // 2][0]:.2f}")
    for name, result in results.items():
        if "failed" in result:
            print(f"{name}: {result['failed']}")
    wrong = [name for name, result in results.items() if result.get("deviation", 0) > result.get("allowed", 0)]
    for name in wrong:
        print(f"{name}: wrong: deviates by {results[name]['deviation']:.1e}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", action="append", default=[], metavar="TEXT")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--worst", type=int, default=30)
    options = parser.parse_args()

    cases = Cases()
    for family in FAMILIES:
        family(cases)
    chosen = {name: case for name, case in cases.models.items() if not options.only or any(text in name for text in options.only)}
    if not chosen:
        sys.exit(f"operators: no case has {' or '.join(options.only)} in its name")
    for folder in (FOLDER, RESULTS):
        folder.mkdir(parents=True, exist_ok=True)
    with tqdm(total=len(chosen) * options.rounds, desc="measuring", leave=False) as progress:
        results = {}
        for name, case in chosen.items():
            progress.set_postfix_str(name)
            results[name] = measure(name, case, options.build.resolve() / "anfora", options, progress)
    path = RESULTS / f"{time.strftime('%Y-%m-%dT%H%M%S')}-operators.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    wrong = report(results, options.worst)
    print(f"\nstored in {path.relative_to(ROOT)}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

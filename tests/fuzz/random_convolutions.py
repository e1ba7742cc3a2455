#!/usr/bin/env python3
"""Random convolutions and poolings, of sizes known and not, by one thread and two, beside ONNX Runtime.

usage: random_convolutions.py [--count N] [--seed S] [--only NUMBER]

Windows of one to three axes with strides, dilations, groups and padding on any side, also beyond the image; few channels and many; with a bias, an addend and
an activation; poolings between pointwise convolutions, so that their channels are last; branches of both that are joined; convolutions of bytes with and without
sign between QuantizeLinear and DequantizeLinear, with a quantized residual. What differs by more than sums in another order may, or has another shape, is printed
with its number, which --only does again. Needs the package anfora, and PyPI's onnx and onnxruntime; skipped (77) without these two.
"""
import argparse
import random
import sys

import anfora
import numpy as np

try:
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    print("skipped: PyPI's onnx and onnxruntime are not installed")
    sys.exit(77)

MOST_PRODUCTS = 100_000_000
TOLERANCE = 3e-5  # of the largest element: 4 × what F(4,3) of Winograd's transforms rounds
TIES = 1e-3  # of the elements that are quantized: what another order of rounding may bring to the next step
OPSET = 20


class Case:
    """A model, and an input of it."""

    def __init__(self, seed, number):
        self.random = random.Random(f"{seed} {number}")
        self.values = np.random.default_rng([seed, number])
        self.constants = {}
        self.nodes = []
        self.step = None  # of the result, where it is quantized
        self.random.choices([self.draw_convolution, self.draw_pooling, self.draw_branches, self.draw_quantized], [5, 2, 3, 4])[0]()

    def constant(self, *shape, scale=1.0):
        name = f"c{len(self.constants)}"
        self.constants[name] = (self.values.standard_normal(shape) * scale).astype(np.float32)
        return name

    def integer(self, value):
        self.constants[f"i{value}"] = np.array([value])
        return f"i{value}"

    def add(self, op, *inputs, **attributes):
        self.nodes.append(helper.make_node(op, list(inputs), [f"y{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def draw_axes(self, sizes, windows):
        choose = self.random.choice
        rank = choose([1, 2, 2, 2, 3])
        self.sizes = [choose(sizes) for _ in range(rank)]
        return {"kernel_shape": [choose(windows) for _ in range(rank)], "strides": [choose([1, 1, 2, 3]) for _ in range(rank)]}

    def draw_convolution(self):
        choose = self.random.choice
        axes = self.draw_axes([1, 2, 3, 5, 7, 8, 13, 14, 20, 29, 40], [1, 1, 2, 3, 3, 5, 7])
        rank = len(self.sizes)
        axes["dilations"] = [choose([1, 1, 1, 2, 3]) for _ in range(rank)]
        axes["pads"] = [choose([0, 0, 1, 1, 2, 3, 5]) for _ in range(2 * rank)]
        groups = choose([1, 1, 1, 1, 2, 4])
        inputs, results = choose([1, 2, 3, 4, 7, 8, 15, 16, 17, 24, 32, 40, 64, 130, 270]), groups * choose([1, 3, 8, 16, 17, 24, 25, 32, 33, 48, 63, 64, 72, 96, 130])
        self.shape = [choose([1, 1, 2, 3]), inputs * groups, *self.sizes]
        taps = int(np.prod(axes["kernel_shape"]))
        self.products = self.shape[0] * int(np.prod(self.sizes)) * inputs * results * taps
        weights = self.constant(results, inputs, *axes["kernel_shape"], scale=(inputs * taps) ** -0.5)
        y = self.add("Conv", "x", weights, self.constant(results), group=groups, **axes)
        if self.random.random() < 0.4:  # as of a skip connection
            y = self.add("Add", y, self.add("Conv", "x", self.constant(results, inputs, *axes["kernel_shape"], scale=0.1), group=groups, **axes))
        activation = choose(["", "Relu", "Sigmoid", "HardSwish"])
        if activation:
            self.add(activation, y)

    def draw_pooling(self):
        choose = self.random.choice
        axes = self.draw_axes([1, 2, 3, 5, 7, 8, 13, 20], [1, 2, 3, 3, 5, 7])
        axes["kernel_shape"] = [min(window, size) for window, size in zip(axes["kernel_shape"], self.sizes)]
        axes["pads"] = [choose([0, 0, 1]) if window > 1 else 0 for window in axes["kernel_shape"] * 2]
        op = choose(["MaxPool", "AveragePool"])
        if op == "AveragePool":
            axes["count_include_pad"] = choose([0, 1])
        if not axes.get("count_include_pad"):
            axes["ceil_mode"] = choose([0, 0, 1])
        channels = choose([1, 3, 8, 15, 16, 31, 32, 33, 64, 70, 128, 200])
        self.shape = [choose([1, 2]), channels, *self.sizes]
        self.products = 2 * self.shape[0] * int(np.prod(self.sizes)) * channels**2
        weights = self.constant(channels, channels, *[1] * len(self.sizes), scale=channels**-0.5)
        self.add("Conv", self.add(op, self.add("Conv", "x", weights), **axes), weights)

    def draw_branches(self):
        choose = self.random.choice
        self.sizes = [choose([1, 3, 7, 8, 13, 20]) for _ in range(2)]
        channels = choose([3, 16, 24, 64])
        self.shape = [choose([1, 1, 2]), channels, *self.sizes]
        image = self.shape[0] * int(np.prod(self.sizes))
        self.products = 0

        def convolved(x, inputs, results, groups=1):
            window = choose([1, 1, 3, 3, 5])
            weights = self.constant(results, inputs // groups, window, window, scale=(inputs // groups * window**2) ** -0.5)
            self.products += image * inputs // groups * results * window**2
            y = self.add("Conv", x, weights, self.constant(results), group=groups, pads=[window // 2] * 4)
            return self.add(choose(["Relu", "Sigmoid"]), y) if self.random.random() < 0.5 else y

        first = convolved("x", channels, channels)
        parts, joined = [], 0
        for _ in range(choose([2, 2, 3, 4])):
            kind = choose(["convolution", "convolution", "two", "depthwise", "pooling", "pooling", "first", "slice"])
            results = choose([1, 8, 16, 24, 33, 64]) if kind in ("convolution", "two") else channels
            if kind == "pooling":
                parts.append(self.add(choose(["MaxPool", "AveragePool"]), first, kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
            elif kind == "first":
                parts.append(first)
            elif kind == "slice":
                results = max(channels // 2, 1)
                parts.append(self.add("Slice", first, *(self.integer(value) for value in (0, results, 1))))
            else:
                between = convolved(first, channels, channels) if kind == "two" else first
                parts.append(convolved(between, channels, results, channels if kind == "depthwise" else 1))
            joined += results
        self.random.shuffle(parts)
        y = self.add("Concat", *parts, axis=1)
        if self.random.random() < 0.3:  # somebody else reads a part
            y = self.add("Concat", y, self.add("Relu", parts[0]), axis=1)
            joined = None
        if joined and self.random.random() < 0.6:
            convolved(y, joined, choose([4, 16, 40]))
        else:
            self.add("MaxPool", y, kernel_shape=[1, 1], strides=[2, 2])

    def given(self, value):
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def quantized(self, x):
        """By a scale and a zero point of its own, and dequantized."""
        dtype = self.random.choice([np.int8, np.uint8])
        self.step = self.values.uniform(0.01, 0.1)
        least = np.iinfo(dtype).min
        scale, zero = self.given(np.float32(self.step)), self.given(dtype(self.random.choice([least, least + 10, least + 128, least + 200])))
        return self.add("DequantizeLinear", self.add("QuantizeLinear", x, scale, zero), scale, zero)

    def draw_quantized(self):
        choose = self.random.choice
        self.sizes = [choose([1, 3, 7, 8, 13, 20]) for _ in range(2)]
        inputs, is_depthwise = choose([1, 3, 8, 16, 20, 40, 64]), self.random.random() < 0.2
        results = inputs if is_depthwise else choose([1, 3, 8, 16, 24, 50, 130])
        self.shape = [choose([1, 1, 2]), inputs, *self.sizes]
        window, stride = choose([1, 1, 3, 3, 5]), choose([1, 1, 2])
        self.products = 2 * self.shape[0] * int(np.prod(self.sizes)) * inputs * results * window**2
        x = self.quantized("x")

        def convolved(groups):
            integers = self.values.integers(-127, 128, (results, inputs // groups, window, window)).astype(np.int8)
            scales = self.given(self.values.uniform(0.2, 2, results).astype(np.float32) / 127 * (inputs // groups * window**2) ** -0.5)
            weights = self.add("DequantizeLinear", self.given(integers), scales, axis=0)
            y = self.add("Conv", x, weights, self.constant(results), group=groups, pads=[window // 2] * 4, strides=[stride] * 2)
            activation = choose(["", "", "Relu", "LeakyRelu", "HardSwish"])
            return self.quantized(self.add(activation, y) if activation else y)

        y = convolved(inputs if is_depthwise else 1)
        if self.random.random() < 0.6:
            parts = [y, x if inputs == results and stride == 1 else convolved(inputs if is_depthwise else 1)]
            self.random.shuffle(parts)
            y = self.add("Add", *parts)
            self.quantized(self.add("Relu", y) if self.random.random() < 0.5 else y)

    def is_right(self, y, wanted):
        difference = np.abs(y - wanted)
        if self.step is None:
            return difference.max() <= TOLERANCE * np.abs(wanted).max()
        steps = np.rint(difference / self.step)
        return steps.max() <= 1 and np.count_nonzero(steps) <= max(2, TIES * steps.size)

    def model(self, has_open_sizes):
        dims = [f"d{i}" if has_open_sizes and i != 1 else dim for i, dim in enumerate(self.shape)]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)
        y = helper.make_tensor_value_info(self.nodes[-1].output[0], TensorProto.FLOAT, None)
        constants = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
        graph = helper.make_graph(self.nodes, "convolutions", [x], [y], constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9).SerializeToString()

    def describe(self):
        shapes = {name: list(value.shape) for name, value in self.constants.items()}
        return f"x {self.shape}, constants {shapes}\n" + "\n".join("    " + helper.printable_node(node) for node in self.nodes)


def expected(model, x):
    """None where ONNX Runtime has no such operator, or windows do not fit."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    except Exception:  # of several classes of its own
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    arguments = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    compared = differing = 0
    for number in range(arguments.count) if arguments.only is None else [arguments.only]:
        case = Case(arguments.seed, number)
        if case.products > MOST_PRODUCTS:
            continue
        x = case.values.standard_normal(case.shape).astype(np.float32)
        wanted = expected(case.model(False), x)
        if wanted is None or wanted.size == 0:
            continue
        compared += 1
        for has_open_sizes in (False, True):
            for threads in (1, 2):
                y = np.asarray(anfora.load(case.model(has_open_sizes)).compile(threads=threads).run({"x": x})[0])
                same_shape = y.shape == wanted.shape
                if same_shape and case.is_right(y, wanted):
                    continue
                differing += 1
                print(f"number {number}, {threads} threads, sizes {'open' if has_open_sizes else 'known'}: "
                      f"{np.abs(y - wanted).max() if same_shape else f'{y.shape} for {wanted.shape}'}\n  {case.describe()}")
    print(f"{compared} compared, {differing} differ")
    return 1 if differing or not compared else 0


if __name__ == "__main__":
    sys.exit(main())

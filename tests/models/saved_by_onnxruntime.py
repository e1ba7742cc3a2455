#!/usr/bin/env python3
"""Run what ONNX Runtime's optimizer saves: its own operators, fused and blocked for the CPU at hand.

usage: saved_by_onnxruntime.py ANFORA [--only SUBSTRING] [--keep FOLDER]

Random convolutional networks made here, and the small models of the collection (see check.py) where it is at hand, are
optimized at ONNX Runtime's highest level and saved. `anfora run` must give what ONNX Runtime gives for the saved file
without optimizing it again. Prints one line a model that differs and exits with status 1 when there is one; 77 without
onnxruntime.
"""
import argparse
import csv
import os
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    sys.exit(77)

from check import DEFAULT_MODELS, difference

onnxruntime.set_default_logger_severity(4)
NETWORKS = 12
TIME_LIMIT_S = 120


def session(model, level, save_to=None):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    if save_to:
        options.optimized_model_filepath = str(save_to)
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def network(rng):
    """A random network of convolutions and pools, with channels that fill blocks of 8 and 16 and that do not."""
    nodes, weights = [], []
    values = np.random.default_rng(rng.randint(0, 1 << 30))

    def constant(*dims):
        name = f"w{len(weights)}"
        scale = max(1, int(np.prod(dims[1:]))) ** -0.5
        weights.append(numpy_helper.from_array((values.standard_normal(dims) * scale).astype(np.float32), name))
        return name

    def node(op, *inputs, **attributes):
        nodes.append(helper.make_node(op, inputs, [f"v{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    x, channels, size = "x", rng.choice([1, 3, 4]), 16
    batch = rng.randint(1, 2)
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, channels, size, size])
    for _ in range(rng.randint(2, 6)):
        kind = rng.choice(["conv", "conv", "conv", "depthwise", "max", "average", "residual", "upsample"])
        if kind in ("depthwise", "residual", "upsample") and channels < 8:
            kind = "conv"
        if kind == "conv" or kind == "depthwise":
            outputs = channels if kind == "depthwise" else rng.choice([8, 12, 16, 17, 24, 32, 40])
            group = channels if kind == "depthwise" else 1
            kernel = rng.choice([1, 3])
            bias = [constant(outputs)] if rng.random() < 0.7 else []
            x = node("Conv", x, constant(outputs, channels // group, kernel, kernel), *bias, group=group,
                     pads=[kernel // 2] * 4, strides=[rng.choice([1, 1, 2])] * 2)
            channels = outputs
            activation = rng.choice([None, "Relu", "LeakyRelu", "Sigmoid", "HardSigmoid"])
            x = node(activation, x) if activation else x
        elif kind == "max":
            x = node("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[rng.choice([1, 2])] * 2)
        elif kind == "average":
            x = node("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=rng.randint(0, 1))
        elif kind == "residual":
            x = node("Add", node("Conv", x, constant(channels, channels, 3, 3), pads=[1, 1, 1, 1]), x)
            x = node("Relu", x)
        else:
            weights.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), f"w{len(weights)}"))
            x = node("Resize", x, "", weights[-1].name, mode="nearest", nearest_mode="floor",
                     coordinate_transformation_mode="asymmetric")
    if rng.random() < 0.5:
        x = node(rng.choice(["GlobalAveragePool", "GlobalMaxPool"]), x)
    graph = helper.make_graph(nodes, "network", [image], [helper.make_tensor_value_info(x, TensorProto.FLOAT, None)], weights)
    feeds = {"x": values.standard_normal((batch, image.type.tensor_type.shape.dim[1].dim_value, size, size)).astype(np.float32)}
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), feeds


def cases(folder):
    """Name, model file, feeds, and for models of the collection their stored outputs and tolerance."""
    rng = random.Random(5)
    for i in range(NETWORKS):
        model, feeds = network(rng)
        path = folder / f"network_{i}.onnx"
        onnx.save(model, path)
        yield path.stem, path, feeds, {}, 0
    small = pathlib.Path(os.environ.get("ANFORA_MODELS", DEFAULT_MODELS)) / "small"
    if not small.is_dir():
        return
    with open(small / "TOLERANCE.tsv", newline="", encoding="utf-8") as table:
        absolute = {row["model"]: float(row["atol"]) for row in csv.DictReader(table, delimiter="\t")}
    for path in sorted(small.glob("*.onnx")):
        with np.load(small / f"{path.stem}.in.npz") as inputs, np.load(small / f"{path.stem}.out.npz") as outputs:
            yield path.stem, path, dict(inputs), dict(outputs), absolute[path.stem]


def tolerance_of(want, stored, absolute):
    """As far as ONNX Runtime's optimizer itself moved the result, of quantized models by more than a rounding, rounding may again."""
    if want.dtype.kind != "f" or stored is None or stored.shape != want.shape:
        return None
    with np.errstate(invalid="ignore"):
        moved = np.nanmax(np.abs(want.astype(np.float64) - stored.astype(np.float64)), initial=0)
    return 1e-4, max(absolute, 2 * moved)


def check(anfora, name, path, feeds, stored, absolute, folder):
    """What is wrong, or None; Unsupported by ONNX Runtime itself: the reason after a question mark."""
    saved = folder / f"{name}.saved.onnx"
    levels = onnxruntime.GraphOptimizationLevel
    try:
        session(path, levels.ORT_ENABLE_ALL, saved)
        runner = session(saved, levels.ORT_DISABLE_ALL)
        expected = dict(zip([o.name for o in runner.get_outputs()], runner.run(None, feeds)))
    except Exception as error:
        return f"? {str(error).splitlines()[0][:120]}"
    given, made = folder / f"{name}.in.npz", folder / f"{name}.out.npz"
    np.savez(given, **feeds)
    result = subprocess.run([anfora, "run", saved, "--input", given, "--output", made], capture_output=True, text=True,
                            timeout=TIME_LIMIT_S)
    if result.returncode != 0:
        return result.stderr.strip()[:300]
    with np.load(made) as outputs:
        for output, want in expected.items():
            want = np.asarray(want)
            if wrong := difference(output, outputs[output], want, tolerance_of(want, stored.get(output), absolute)):
                return wrong
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("anfora")
    parser.add_argument("--only", default="", help="models whose name has this in it")
    parser.add_argument("--keep", type=pathlib.Path, help="where to leave the saved models")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        equal, left_out, wrong = 0, 0, 0
        for name, path, feeds, stored, absolute in cases(folder):
            if options.only not in name:
                continue
            finding = check(os.path.abspath(options.anfora), name, path, feeds, stored, absolute, folder)
            if finding is None:
                equal += 1
            elif finding.startswith("?"):
                left_out += 1
                print(f"{name}: ONNX Runtime itself: {finding[2:]}")
            else:
                wrong += 1
                print(f"{name}: {finding}")
        print(f"{equal} equal, {wrong} wrong, {left_out} that ONNX Runtime does not save or run")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

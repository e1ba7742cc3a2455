#!/usr/bin/env python3
"""Measure Anfora beside ONNX Runtime and OpenVINO on quantized models, in the three forms that ONNX Runtime writes:

    qdq       QuantizeLinear and DequantizeLinear around operators of f32, weights by channel
    qlinear   QLinearConv, QLinearMatMul and the like
    dynamic   MatMulInteger and ConvInteger, activations quantized as the model runs

usage: quantized.py BUILD [--only NAME]... [--rounds N] [--seconds S] [--threads N]

Models are those of bench/models.py, optimized by Anfora and then quantized by onnxruntime.quantization for their one input, into
build/bench-quantized. Reported are CPU times, as medians of rounds, and what loading takes. Results are not compared here: rounding to
integers makes large differences of small ones, in each run time; tests/codegen holds integer products to exact results.
"""
import argparse
import pathlib
import subprocess
import sys

from tqdm import tqdm

import run

FORMS = ("qdq", "qlinear", "dynamic")
NAMES = ("bert_base", "mobilenet_v3_large", "resnet50", "vit_b_16")
FOLDER = run.ROOT / "build/bench-quantized"

# Under the Python that has ONNX Runtime.
QUANTIZE = """
import sys, numpy
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic, quantize_static
model, result, inputs, form = sys.argv[1:]
class Reader(CalibrationDataReader):
    data = [dict(numpy.load(inputs))]
    def get_next(self):
        return self.data.pop() if self.data else None
if form == "dynamic":
    quantize_dynamic(model, result)
else:
    is_qdq = form == "qdq"
    quantize_static(model, result, Reader(), quant_format=QuantFormat.QDQ if is_qdq else QuantFormat.QOperator, per_channel=is_qdq)
"""


def quantize(name, anfora):
    """Writes the model's quantized forms, where they are missing."""
    source, inputs = run.MODELS / f"{name}.onnx", run.MODELS / f"{name}.in.npz"
    small = FOLDER / f"{name}.small"
    for form in FORMS:
        result = FOLDER / f"{name}.{form}.onnx"
        if result.exists():
            continue
        if not small.exists():
            run.run_command(anfora, "opt", source, "-o", small)
        python = run.ROOT / "build/venv-onnxruntime/bin/python"
        subprocess.run([python, "-W", "ignore", "-c", QUANTIZE, small, result, inputs, form], check=True, stderr=subprocess.DEVNULL)
    small.unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", action="append", help="this model (may be repeated)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    anfora = options.build.resolve() / "anfora"
    names = options.only or NAMES
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        for name in names:
            quantize(name, anfora)
    except (run.Failure, subprocess.CalledProcessError) as failure:
        sys.exit(f"bench: cannot quantize: {failure}")
    results = {}
    with tqdm(total=len(names) * len(FORMS) * options.rounds * (1 + len(run.PEERS)), desc="measuring", leave=False) as progress:
        for name in names:
            for form in FORMS:
                model, inputs = FOLDER / f"{name}.{form}.onnx", run.MODELS / f"{name}.in.npz"
                results[f"{name} {form}"] = run.measure_rounds(model, inputs, anfora, options, progress)
    run.report_models(results, "cpu_ms")


if __name__ == "__main__":
    main()

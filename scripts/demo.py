#!/usr/bin/env python3
"""A first look at Anfora: a real model imported, optimized, run, and compared with its stored output.

usage: demo.py ANFORA

The model is the ResNet-50 that PyPI's onnx carries for its own tests, together with the output that it must
give for a ramp from 0 to 1. Everything is left in build/demo to look at.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np
import onnx
from onnx import numpy_helper

FOLDER = pathlib.Path("build/demo")
LIGHT = pathlib.Path(onnx.__file__).parent / "backend/test/data/light"
# As onnx's own test of this model has it.
RELATIVE_TOLERANCE, ABSOLUTE_TOLERANCE = 1e-3, 1e-7


def prepare():
    """The model, its input and its stored output, in the demo's folder."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(LIGHT / "light_resnet50.onnx", FOLDER / "resnet50.onnx")
    graph = onnx.load(FOLDER / "resnet50.onnx").graph
    constants = {tensor.name for tensor in graph.initializer}
    (image,) = (info for info in graph.input if info.name not in constants)
    shape = [dim.dim_value for dim in image.type.tensor_type.shape.dim]
    count = int(np.prod(shape))
    ramp = (np.arange(count) / count).astype(np.float32).reshape(shape)
    np.savez(FOLDER / "in.npz", **{image.name: ramp})
    stored = onnx.TensorProto.FromString((LIGHT / "light_resnet50_output_0.pb").read_bytes())
    return graph.output[0].name, numpy_helper.to_array(stored)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    anfora = os.path.abspath(sys.argv[1])
    name, stored = prepare()
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")

    def show(*arguments):
        print(f"\n{bold}$ anfora {' '.join(arguments)}{plain}", flush=True)
        start = time.monotonic()
        if subprocess.run([anfora, *arguments], cwd=FOLDER).returncode != 0:
            sys.exit(f"demo: anfora {arguments[0]} failed")
        return time.monotonic() - start

    print(f"ResNet-50, from PyPI's onnx {onnx.__version__}; the files are in {FOLDER}")
    show("info", "resnet50.onnx")
    show("opt", "resnet50.onnx", "-o", "small.onnx")
    seconds = show("run", "small.onnx", "--input", "in.npz", "--output", "out.npz")
    show("verify", "resnet50.onnx", "small.onnx")

    with np.load(FOLDER / "out.npz") as outputs:
        result = outputs[name]
    worst = float(np.max(np.abs(result - stored)))
    if not np.allclose(result, stored, rtol=RELATIVE_TOLERANCE, atol=ABSOLUTE_TOLERANCE):
        sys.exit(f"\ndemo: output {name} differs from the stored one by up to {worst:.2g}")
    print(f"\nOutput {name}, {'x'.join(map(str, stored.shape))}: the stored one, "
          f"{f'within {worst:.1g}' if worst else 'bit for bit'} (loaded, run and written in {seconds:.1f} s)")


if __name__ == "__main__":
    main()

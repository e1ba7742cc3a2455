#!/usr/bin/env python3
"""Write the backend test suite of the installed `onnx` package as a folder a case, for `anfora verify --case`.

usage: dump.py FOLDER

    FOLDER/NAME/model.onnx
    FOLDER/NAME/case.json                                  tolerances of the case
    FOLDER/NAME/test_data_set_K/input_I.pb, output_I.pb    TensorProto, SequenceProto or OptionalProto

The suite is complete when FOLDER/VERSION names the version of onnx; then nothing is done. The "real" models
ship inside the package with one output; their input is a ramp from 0 to 1, as in onnx's own runner.
"""
import json
import pathlib
import shutil
import sys

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted", "real")
PACKAGE = pathlib.Path(onnx.__file__).parent


def as_proto(value, info):
    """The value as the protocol buffer that a file of the suite holds; some cases bring one already."""
    if isinstance(value, (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto)):
        return value
    kind = info.type.WhichOneof("value")
    if kind == "optional_type":
        return numpy_helper.from_optional(value, info.name)
    if kind == "sequence_type":
        return numpy_helper.from_list(list(value), info.name)
    if kind == "map_type":
        return numpy_helper.from_dict(value, info.name)
    return numpy_helper.from_array(np.asarray(value), info.name)


def write_values(folder, prefix, values, infos):
    folder.mkdir(parents=True, exist_ok=True)
    for index, (value, info) in enumerate(zip(values, infos)):
        (folder / f"{prefix}_{index}.pb").write_bytes(as_proto(value, info).SerializeToString())


def ramp(info):
    shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
    count = int(np.prod(shape))
    return (np.arange(count) / count).astype(np.float32).reshape(shape)


def write_packaged(case, folder):
    """A case whose model is a file of the package: a folder with its data, or a light model and its output."""
    if case.model_dir and (pathlib.Path(case.model_dir) / "model.onnx").exists():
        shutil.copytree(case.model_dir, folder, dirs_exist_ok=True)
        return
    light = PACKAGE.parent / case.url
    shutil.copyfile(light, folder / "model.onnx")
    graph = onnx.load(light).graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [info for info in graph.input if info.name not in constants]
    data = folder / "test_data_set_0"
    write_values(data, "input", [ramp(info) for info in inputs], inputs)
    shutil.copyfile(light.with_name(light.stem + "_output_0.pb"), data / "output_0.pb")


def write_case(case, folder):
    folder.mkdir()
    if case.model is None:
        write_packaged(case, folder)
    else:
        onnx.save(case.model, folder / "model.onnx")
        for index, (inputs, outputs) in enumerate(case.data_sets or []):
            data = folder / f"test_data_set_{index}"
            write_values(data, "input", inputs, case.model.graph.input)
            write_values(data, "output", outputs, case.model.graph.output)
    (folder / "case.json").write_text(json.dumps({"rtol": case.rtol, "atol": case.atol}))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    suite = pathlib.Path(sys.argv[1])
    stamp = suite / "VERSION"
    if stamp.exists() and stamp.read_text() == onnx.__version__:
        return
    shutil.rmtree(suite, ignore_errors=True)
    suite.mkdir(parents=True)
    cases = [case for kind in KINDS for case in load_model_tests(kind=kind)]
    for case in cases:
        write_case(case, suite / case.name)
    stamp.write_text(onnx.__version__)
    print(f"{len(cases)} cases of onnx {onnx.__version__} in {suite}")


if __name__ == "__main__":
    main()

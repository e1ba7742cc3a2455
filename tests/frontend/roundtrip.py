#!/usr/bin/env python3
"""Import and export every model; what comes out must be valid and compute the same in ONNX Runtime.

usage: roundtrip.py PROGRAM [FOLDER...] [--opset keep|newest|N] [--optimize] [--all-types] [--only SUBSTRING]
                    [--jobs N] [--list FILE]

PROGRAM is the test program roundtrip. A FOLDER is the conformance suite (NAME/model.onnx with
test_data_set_0/) or a model collection (small/, public/); without any, the collection that ANFORA_MODELS names,
else ../shared/models beside the project's folder. Of each model:

  - it is exported, unless Anfora refuses to read it;
  - onnx.checker's full check and strict inference accept the result if they accept the original;
  - inputs and outputs keep their names;
  - with --opset keep the main operator set keeps its version, if the original is valid in it;
  - ONNX Runtime, without optimizations, runs the result if it runs the original, and both give the same outputs.
    Where the original does not always give the same (random operators), types and shapes are compared.

Models are listed with what is wrong; a last line has the totals. Exit status 77: no folder is there, or no
onnxruntime.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import csv
import os
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77
try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import numpy_helper
except ImportError as missing:
    print(f"{missing}: skipped")
    sys.exit(SKIPPED)

DEFAULT_MODELS = pathlib.Path(__file__).resolve().parents[3] / "shared/models"
DRAWS = 50  # runs that must agree before a model counts as deterministic
CHUNK = 24  # models a task: a task starts one conversion process
# Relative and absolute tolerance by type; all others are exact.
TOLERANCE = {np.dtype(np.float64): (1e-4, 1e-5), np.dtype(np.float32): (1e-4, 1e-5), np.dtype(np.float16): (1e-2, 1e-2)}
# Outcomes that are right all the same.
EXPECTED = {
    # The experimental Crop with borders; before operator set 10 the ends of a Slice cannot be computed.
    "public/onnxruntime__onnxruntime-qnn/winml/test/collateral/models/fns-candy.onnx": "opset",
    # A LayerNormalization of two types before ONNX had the operator; ONNX Runtime computes in the narrower one.
    "public/onnxruntime__onnxruntime-qnn/onnxruntime/test/testdata/transform/fusion/skip_layer_norm_no_beta_with_cast.onnx":
        "wrong",
    # Operator set 19 has GridSample of images only; this one is of volumes, which runtimes take nevertheless.
    "public/ROCm__AMDMIGraphX/test/onnx/gridsample_volumetric_nearest_align_corners_0_test.onnx": "opset",
}
# kind: conformance, small, public, refused (by ONNX Runtime); tolerance: relative and absolute, None: by type.
Model = collections.namedtuple("Model", "name path kind tolerance", defaults=[None])


def conformance_models(folder):
    return [Model(path.parent.name, path, "conformance") for path in sorted(folder.glob("*/model.onnx"))]


def collected_models(folder):
    models = []
    small = folder / "small" / "TOLERANCE.tsv"
    if small.exists():
        with open(small, newline="") as table:
            absolute = {row["model"]: float(row["atol"]) for row in csv.DictReader(table, delimiter="\t")}
        for path in sorted(folder.glob("small/*.onnx")):
            models.append(Model(f"small/{path.name}", path, "small", (0, absolute[path.stem])))
    manifest = folder / "public" / "MANIFEST.tsv"
    if manifest.exists():
        with open(manifest, newline="") as table:
            for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE):
                kind = "public" if row["ref_saved"] == "yes" else "refused"
                models.append(Model(f"public/{row['file']}", folder / "public" / row["file"], kind))
    return models


def value_of(path, kind):
    """The value in a file; kind: the type of the input, as ONNX Runtime calls it."""
    data = path.read_bytes()
    if kind.startswith("seq("):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind.startswith("optional("):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def inputs_of(model, session):
    """The stored inputs by name."""
    if model.kind == "conformance":
        folder = model.path.parent / "test_data_set_0"
        return {value.name: value_of(folder / f"input_{i}.pb", value.type) for i, value in enumerate(session.get_inputs())}
    if model.kind == "small":
        with np.load(model.path.with_suffix(".in.npz")) as stored:
            return dict(stored)
    with np.load(model.path.with_suffix(".npz")) as stored:
        return {key[3:]: stored[key] for key in stored.files if key.startswith("in:")}


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def difference(got, want, tolerance, shapes_only):
    if isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(want):
            return "a sequence of another length"
        return next(filter(None, (difference(g, w, tolerance, shapes_only) for g, w in zip(got, want))), None)
    if isinstance(want, dict):
        if not isinstance(got, dict) or got.keys() != want.keys():
            return "a map with other keys"
        return next(filter(None, (difference(got[k], want[k], tolerance, shapes_only) for k in want)), None)
    if want is None or got is None:
        return None if want is got else "present in one only"
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype} {got.shape}, not {want.dtype} {want.shape}"
    if shapes_only:
        return None
    if want.dtype in TOLERANCE:
        relative, absolute = tolerance or TOLERANCE[want.dtype]
        same = np.allclose(got.astype(np.float64), want.astype(np.float64), rtol=relative, atol=absolute, equal_nan=True)
    else:
        same = np.array_equal(got, want)
    return None if same else "other values"


def differences(names, got, want, tolerance=None, shapes_only=False):
    found = ((name, difference(g, w, tolerance, shapes_only)) for name, g, w in zip(names, got, want))
    return next((f"output {name}: {what}" for name, what in found if what), None)


def is_random(path, names, inputs, want):
    """Whether one of many runs gives something else; two runs of a Dropout of few elements may well agree."""
    session = session_of(path)
    return any(differences(names, session.run(None, inputs), want) for _ in range(DRAWS))


def check(path):
    """What onnx's checks complain of: the full one, and inference in strict mode. It does not follow shapes as data, where onnx
    takes the elements of matrices for those of vectors."""
    try:
        onnx.checker.check_model(str(path), full_check=True)
        onnx.shape_inference.infer_shapes(onnx.load(path, load_external_data=False), check_type=True, strict_mode=True)
    except Exception as error:  # pylint: disable=broad-except
        return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return None


def names_of(model):
    with_default = {tensor.name for tensor in model.graph.initializer} if model.ir_version < 4 else set()
    inputs = [value.name for value in model.graph.input if value.name not in with_default]
    return inputs, [value.name for value in model.graph.output]


def main_opset(model):
    return next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), None)


def judge(model, exported, keeps_opset):
    """(outcome, detail) of an exported model."""
    before, after = onnx.load(model.path, load_external_data=False), onnx.load(exported, load_external_data=False)
    complaint, is_valid = check(exported), check(model.path) is None
    if complaint and is_valid:
        return "checker", complaint
    if names_of(before) != names_of(after):
        return "names", f"{names_of(after)} instead of {names_of(before)}"
    if is_valid and keeps_opset and main_opset(before) and main_opset(before) != main_opset(after):
        return "opset", f"{main_opset(after)} instead of {main_opset(before)}"
    if model.kind == "refused":
        return "checked", ""

    try:
        original = session_of(model.path)
    except Exception:  # pylint: disable=broad-except
        return "checked", ""  # not a model that ONNX Runtime runs
    inputs = inputs_of(model, original)
    try:
        want = original.run(None, inputs)
    except Exception:  # pylint: disable=broad-except
        return "checked", ""
    try:
        session = session_of(exported)
        got = session.run(None, inputs)
    except Exception as error:  # pylint: disable=broad-except
        return "refused", str(error).strip().splitlines()[0]
    names = [value.name for value in original.get_outputs()]
    problem = differences(names, got, want, model.tolerance)
    if problem and is_random(model.path, names, inputs, want):
        problem = differences(names, got, want, shapes_only=True)
    return ("wrong", problem) if problem else ("same", "")


def silence():
    """The checker and ONNX Runtime print warnings about models."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def judge_all(models, program, opset, arguments):
    results = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        converter = None
        for index, model in enumerate(models):
            if converter is None or converter.poll() is not None:
                converter = stack.enter_context(
                    subprocess.Popen([program, opset, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            exported = pathlib.Path(folder) / f"{index}.onnx"
            converter.stdin.write(f"{model.path}\t{exported}\n")
            converter.stdin.flush()
            answer = converter.stdout.readline().strip()
            stage, _, detail = answer.partition(" ")
            if stage == "ok":
                stage, detail = judge(model, exported, opset == "keep")
            elif not answer:
                stage, detail = "broken", f"the converter ended with status {converter.wait()}"
            results.append((model.name, model.kind, stage, detail))
            exported.unlink(missing_ok=True)
        if converter:
            converter.stdin.close()
    return results


def is_problem(name, kind, stage):
    if stage == "optimize":
        return kind != "refused"  # what no run can do may come to light when constants are folded
    return stage not in ("same", "checked", "import", "infer") and EXPECTED.get(name) != stage


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--opset", default="keep")
    parser.add_argument("--optimize", action="store_true", help="between import and export")
    parser.add_argument("--all-types", action="store_true", help="state the types of all values")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--list", metavar="FILE", help="write the outcome of every model to this file")
    args = parser.parse_args()
    folders = args.folders or [pathlib.Path(os.environ.get("ANFORA_MODELS") or DEFAULT_MODELS)]
    models = [model for folder in folders for model in conformance_models(folder) + collected_models(folder)]
    models = [model for model in models if args.only in model.name]
    if not models:
        print(f"no models in {', '.join(map(str, folders))}: skipped; ANFORA_MODELS names a collection")
        sys.exit(SKIPPED)

    arguments = ["optimize"] * args.optimize + ["all-types"] * args.all_types
    chunks = [models[i:i + CHUNK] for i in range(0, len(models), CHUNK)]
    results, problems = [], []
    with concurrent.futures.ProcessPoolExecutor(args.jobs, initializer=silence) as pool:
        jobs = [pool.submit(judge_all, chunk, args.program, args.opset, arguments) for chunk in chunks]
        for chunk, job in zip(chunks, jobs):
            try:
                results += job.result()
            except concurrent.futures.process.BrokenProcessPool:
                sys.exit(f"ONNX Runtime or onnx crashed on one of {', '.join(model.name for model in chunk)}")
    problems = [result for result in results if is_problem(*result[:3])]
    for name, _, stage, detail in problems:
        print(f"{name}: {stage}: {detail}")
    if args.list:
        with open(args.list, "w", newline="") as table:
            csv.writer(table, delimiter="\t").writerows(results)
    totals = collections.Counter(stage for _, _, stage, _ in results)
    print(", ".join(f"{count} {stage}" for stage, count in sorted(totals.items())) + f"; {len(problems)} problems")
    if not totals["same"] and any(kind != "refused" for _, kind, _, _ in results):
        sys.exit("ONNX Runtime ran none of the models")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()

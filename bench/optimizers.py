#!/usr/bin/env python3
"""Compare `anfora opt` with the optimizers of ONNX Runtime, onnxsim and onnxslim on models of real size.

usage: optimizers.py BUILD [--only NAME]... [--rounds N] [--seconds S] [--threads N] [MODEL.onnx]...

BUILD is the folder with the program `anfora`, such as build/release. Without models, those of build/bench-models are
taken, which bench/models.py fills, with their inputs, and those of the folder `default` in it: the same models as the exporter
optimizes them. Peers are compared by the better of the two. Every tool writes ONNX that any run time reads: ONNX Runtime at its
level "basic", the others as they are; Anfora twice, with the model's operator set and with `--opset newest`.

Counted are the nodes, those of branches and loop bodies included, Constants not; the size of the file with its external data;
the seconds of the whole command. What came out is run in ONNX Runtime, all its own optimizations on, one tool after the
other in each of N rounds: the ratio of times is taken within a round, and the difference is from the original's outputs
there, relative to the largest element. The table is for people; all figures are stored in build/bench/TIME-optimizers.json.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np
import onnx
from tqdm import tqdm

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "build/bench-models"
DEFAULT = "default/"  # in names of models: the export that the exporter optimizes
RESULTS = ROOT / "build/bench"
TIME_LIMIT_S = 900
PEERS = ("onnxruntime", "onnxsim", "onnxslim")
BASIC = """
import sys, onnxruntime
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
options.optimized_model_filepath = sys.argv[2]
options.log_severity_level = 4
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
"""


def environment(name):
    return ROOT / f"build/venv-{name}/bin"


def commands(anfora, model, out):
    """The command of each tool, and the file that it writes."""
    def to(tool):
        return out / f"{model.stem}.{tool}.onnx"
    return {
        "anfora": ([anfora, "opt", model, "-o", to("anfora"), "--no-check"], to("anfora")),
        "anfora newest": ([anfora, "opt", model, "-o", to("newest"), "--no-check", "--opset", "newest"], to("newest")),
        "onnxruntime": ([environment("onnxruntime") / "python", "-c", BASIC, model, to("onnxruntime")], to("onnxruntime")),
        "onnxsim": ([environment("onnxsim") / "onnxsim", model, to("onnxsim")], to("onnxsim")),
        "onnxslim": ([environment("onnxslim") / "onnxslim", model, to("onnxslim")], to("onnxslim")),
    }


def count_nodes(graph):
    inner = (a.g for node in graph.node for a in node.attribute if a.type == onnx.AttributeProto.GRAPH)
    return sum(node.op_type != "Constant" for node in graph.node) + sum(map(count_nodes, inner))


def external_bytes(path):
    """Of the files beside a model that its weights are in."""
    names = set()
    for tensor in onnx.load(path, load_external_data=False).graph.initializer:
        names |= {entry.value for entry in tensor.external_data if entry.key == "location"}
    return sum((path.parent / name).stat().st_size for name in names)


def describe(path):
    model = onnx.load(path, load_external_data=False)
    domains = {node.domain for node in model.graph.node} - {"", "ai.onnx"}
    result = {"nodes": count_nodes(model.graph), "bytes": path.stat().st_size + external_bytes(path), "domains": sorted(domains)}
    try:
        onnx.checker.check_model(str(path))
    except onnx.checker.ValidationError as error:
        result["invalid"] = str(error).splitlines()[0]
    return result


def run_tool(command, path):
    start = time.perf_counter()
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        return {"failed": f"still running after {TIME_LIMIT_S} s"}
    seconds = time.perf_counter() - start
    if done.returncode != 0 or not path.exists():
        return {"failed": (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]}
    return {"seconds": seconds, **describe(path)}


def run_in_onnxruntime(path, inputs, outputs, options):
    """Milliseconds of a run; the outputs are written."""
    done = subprocess.run([environment("onnxruntime") / "python", ROOT / "bench/peer.py", "onnxruntime", path, "--input", inputs,
                           "--output", outputs, "--threads", str(options.threads), "--seconds", str(options.seconds)],
                          capture_output=True, text=True, timeout=TIME_LIMIT_S)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip() or f"status {done.returncode}").splitlines()[-1])
    return json.loads(done.stdout.splitlines()[-1])["median_ms"]


def deviation(got, want):
    worst = 0.0
    with np.load(got) as a, np.load(want) as b:
        for key in b.files:
            if b[key].size and np.issubdtype(b[key].dtype, np.floating):
                worst = max(worst, float(np.max(np.abs(a[key].astype(np.float64) - b[key])) / max(np.max(np.abs(b[key])), 1e-30)))
            elif not np.array_equal(a[key], b[key]):
                worst = math.inf
    return worst


def read_once(path):
    """So that no tool waits for the disk, and the others find the file in memory."""
    for file in (path, *path.parent.glob(path.name + ".data*")):
        with open(file, "rb") as stream:
            while stream.read(1 << 24):
                pass


def measure(model, anfora, options, out):
    result = {"original": describe(model), "tools": {}}
    read_once(model)
    files = {"original": model}
    for tool, (command, path) in commands(anfora, model, out).items():
        result["tools"][tool] = run_tool(command, path)
        if "failed" not in result["tools"][tool]:
            files[tool] = path
    inputs = model.with_suffix(".in.npz")
    if inputs.exists():
        run_rounds(result, {tool: path for tool, path in files.items() if tool != "anfora newest"}, inputs, options, out)
    for path in out.iterdir():
        path.unlink()
    return result


def run_rounds(result, files, inputs, options, out):
    names = list(files)
    for index in range(options.rounds):
        first = index % len(names) if index else 0  # the original first, whose outputs the others are compared with
        for tool in names[first:] + names[:first]:
            entry = result["original"] if tool == "original" else result["tools"][tool]
            try:
                entry.setdefault("ms", []).append(run_in_onnxruntime(files[tool], inputs, out / f"{tool}.npz", options))
                entry["deviation"] = deviation(out / f"{tool}.npz", out / "original.npz")
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                entry["not run"] = str(error)


def exports(results, name):
    """All results of the model, by whichever export."""
    model = name.removeprefix(DEFAULT)
    return [results[key] for key in (model, DEFAULT + model) if key in results]


def best_peer(results, name, key):
    """The least that a peer makes of the model, by whichever export."""
    values = [result["tools"][peer][key] for result in exports(results, name) for peer in PEERS if key in result["tools"][peer]]
    return min(values) if values else None


def latency_ratio(result):
    """Anfora's model by the fastest of the peers', both in ONNX Runtime: the median over the rounds."""
    own = result["tools"]["anfora"].get("ms", [])
    peers = [result["tools"][peer]["ms"] for peer in PEERS if len(result["tools"][peer].get("ms", [])) == len(own)]
    if not own or not peers:
        return None
    return statistics.median(mine / min(times) for mine, times in zip(own, zip(*peers)))


def report(results):
    def cell(value, form="d"):
        return "–" if value is None else format(value, form)

    head = ["", "raw", "anfora", "newest", *PEERS, "÷ best", "newest ÷ best", "size", "s", "ort s", "sim s", "slim s", "ms ÷ best", "deviation"]
    rows, kept, newest = [], [], []
    for name, result in results.items():
        tools, best = result["tools"], best_peer(results, name, "nodes")
        own, new = tools["anfora"].get("nodes"), tools["anfora newest"].get("nodes")
        ratios = [n / best if n and best else None for n in (own, new)]
        kept += [ratios[0]] if ratios[0] else []
        newest += [ratios[1]] if ratios[1] else []
        size = tools["anfora"]["bytes"] / result["original"]["bytes"] if own else None
        rows.append([name, cell(result["original"]["nodes"]), cell(own), cell(new), *(cell(tools[p].get("nodes")) for p in PEERS),
                     *(cell(r, ".2f") for r in ratios), cell(size, ".3f"),
                     *(cell(tools[t].get("seconds"), ".2f") for t in ("anfora", *PEERS)),
                     cell(latency_ratio(result), ".2f"), cell(tools["anfora"].get("deviation"), ".0e")])
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        print("  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))]).rstrip())
    for name, values in (("the model's operator set", kept), ("--opset newest", newest)):
        if values:
            print(f"nodes by the best peer's, geometric mean, {name}: {math.exp(statistics.fmean(map(math.log, values))):.2f}")
    for name in results:
        by_export = [{tool: result["tools"][tool].get("nodes") for tool in ("anfora", "anfora newest")} for result in exports(results, name)]
        if not name.startswith(DEFAULT) and len(by_export) == 2 and by_export[0] != by_export[1]:
            print(f"{name}: the two exports end differently: {by_export[0]} and {by_export[1]}")
    for name, result in results.items():
        for tool, entry in result["tools"].items():
            for key in ("failed", "invalid", "not run"):
                if key in entry:
                    print(f"{name}: {tool}: {key}: {entry[key]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    parser.add_argument("--only", action="append", help="a model by name, without .onnx")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    models = options.models or sorted([*MODELS.glob("*.onnx"), *MODELS.glob(DEFAULT + "*.onnx")])
    models = [m for m in models if not options.only or m.stem in options.only]
    results = {}
    with tempfile.TemporaryDirectory(prefix="anfora-optimizers-") as folder, tqdm(models, leave=False) as progress:
        for model in progress:
            name = DEFAULT * (model.parent == MODELS / DEFAULT) + model.stem
            progress.set_postfix_str(name)
            results[name] = measure(model, options.build.resolve() / "anfora", options, pathlib.Path(folder))
    report(results)
    RESULTS.mkdir(parents=True, exist_ok=True)
    stored = RESULTS / time.strftime("%Y%m%d-%H%M%S-optimizers.json")
    stored.write_text(json.dumps(results, indent=1))
    print(f"all figures: {stored.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

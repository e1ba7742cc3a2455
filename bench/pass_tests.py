#!/usr/bin/env python3
"""Compare `anfora opt` with ONNX Runtime on the small models by which projects test their own importers, passes and fusions.

usage: pass_tests.py BUILD [--models FOLDER] [--only TEXT]... [--write FILE] [--json FILE]

BUILD is the folder with the program `anfora`, such as build/release; FOLDER, ../shared/models/public by default, has a
MANIFEST.tsv. Compared are the models that ONNX Runtime loads. It optimizes each at its levels "basic", "extended" and "all",
Anfora with `--opset newest`, and once more with `--expand` where the model has operators that are not ONNX's and that helps. The
nodes are counted: those of branches, loop bodies and functions included, Constants not.

What ONNX Runtime writes may hold operators of its own, in other domains or without a schema in ONNX's. Such a result is counted
twice: as it is, one node for each operator, and in standard operators, after `anfora opt --expand` has written what it can
in those of ONNX. A model of which Anfora leaves more nodes than the smallest result of the first kind is listed with its reason:
operators that ONNX does not have, when the smallest result of the second kind is no smaller than Anfora's, or what
docs/pass-tests-reasons.tsv says about it. `--write` writes the table, docs/pass-tests.md.
"""
import argparse
import collections
import csv
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import onnx
from tqdm import tqdm

from optimizers import count_nodes, environment

ROOT = pathlib.Path(__file__).resolve().parent.parent
REASONS = ROOT / "docs/pass-tests-reasons.tsv"
LEVELS = ("basic", "extended", "all")
TIME_LIMIT_S = 120
STANDARD_DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
# Optimizes one model after the other at every level: a line each of its input, two paths; a line each of its output, what failed.
ONNXRUNTIME = """
import sys, onnxruntime
for line in sys.stdin:
    source, target = line.rstrip("\\n").split("\\t")
    failed = []
    for name, level in zip(("basic", "extended", "all"), ("BASIC", "EXTENDED", "ALL")):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, "ORT_ENABLE_" + level)
        options.optimized_model_filepath = f"{target}.{name}.onnx"
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        try:
            onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            failed.append(name)
    print(" ".join(failed), flush=True)
"""


class OnnxRuntime:
    """A process that optimizes models, and is started anew when one of them ends it."""

    def __init__(self):
        self.process = None

    def optimize(self, model, target):
        if not self.process:
            self.process = subprocess.Popen([environment("onnxruntime") / "python", "-c", ONNXRUNTIME], text=True,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            self.process.stdin.write(f"{model}\t{target}\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self.close()
        paths = {level: pathlib.Path(f"{target}.{level}.onnx") for level in LEVELS}
        return {level: path for level, path in paths.items() if path.exists() and level not in answer.split()}

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


def graphs(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from graphs(attribute.g)


def is_standard(node):
    return node.domain in STANDARD_DOMAINS and onnx.defs.has(node.op_type, "" if node.domain == "ai.onnx" else node.domain)


def describe(path):
    """The nodes of a model, and those operators among them that ONNX does not have."""
    model = onnx.load(path, load_external_data=False)
    foreign = {node.op_type for graph in graphs(model.graph) for node in graph.node if not is_standard(node)}
    foreign -= {function.name for function in model.functions}
    return {"nodes": count_nodes(model.graph) + sum(map(count_nodes, model.functions)), "foreign": sorted(foreign)}


def optimize(anfora, model, target, *options):
    """What Anfora makes of it, or its message."""
    try:
        done = subprocess.run(list(map(str, [anfora, "opt", model, "-o", target, "--no-check", *options])), capture_output=True,
                              text=True, timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        return {"failed": f"still running after {TIME_LIMIT_S} s"}
    if done.returncode != 0:
        return {"failed": (done.stderr.strip() or f"status {done.returncode}").splitlines()[0]}
    return describe(target)


def measure(model, anfora, onnxruntime, out):
    result = {"raw": describe(model), "onnxruntime": {}, "anfora": optimize(anfora, model, out / "anfora.onnx", "--opset", "newest")}
    for level, path in onnxruntime.optimize(model, out / "onnxruntime").items():
        entry = result["onnxruntime"][level] = describe(path)
        entry["standard"] = None
        if not entry["foreign"]:
            entry["standard"] = entry["nodes"]
        elif "nodes" in (parts := optimize(anfora, path, out / "parts.onnx", "--expand", "--passes", "none")) and not parts["foreign"]:
            entry["standard"] = parts["nodes"]
    judge(result)
    if result["verdict"] in ("more", "no standard operator") and result["raw"]["foreign"]:
        expanded = optimize(anfora, model, out / "expanded.onnx", "--opset", "newest", "--expand")
        if expanded.get("nodes", math.inf) < result["anfora"]["nodes"]:
            result["anfora"] = expanded
            judge(result)
    for path in out.iterdir():
        path.unlink()
    return result


def judge(result):
    """Adds the smallest results of ONNX Runtime, and how Anfora's compares."""
    levels = list(result["onnxruntime"].values())
    if not levels:
        result["verdict"] = "no peer"
        return
    best = min(levels, key=lambda entry: entry["nodes"])
    result["best"], result["best foreign"] = best["nodes"], best["foreign"]
    result["best standard"] = min((entry["standard"] for entry in levels if entry["standard"] is not None), default=None)
    own = result["anfora"].get("nodes")
    if own is None:
        result["verdict"] = "failed"
    elif own <= best["nodes"]:
        result["verdict"] = "fewer" if own < best["nodes"] else "equal"
    elif best["foreign"] and (result["best standard"] is None or own <= result["best standard"]):
        result["verdict"] = "no standard operator"
    else:
        result["verdict"] = "more"


def read_reasons():
    return dict(line.split("\t") for line in REASONS.read_text().splitlines() if not line.startswith("#"))


def reason_of(name, result, reasons):
    said = result["anfora"].get("failed") or next((reason for part, reason in reasons.items() if part in name), "not known")
    return said.removeprefix("anfora: ").removeprefix(f"{name.rsplit('/', 1)[1]}: ").replace("|", "\\|")


def table(results, reasons):
    verdicts = collections.Counter(result["verdict"] for result in results.values())
    compared = [result for result in results.values() if result["verdict"] not in ("no peer", "failed")]
    lines = [
        "# Pass tests of other projects", "",
        "<!-- Written by bench/pass_tests.py --write. The reasons are in pass-tests-reasons.tsv. -->", "",
        "Small public models by which ONNX Runtime, MIGraphX, burn, onnx2c, polygraphy, Marabou, Vespa, tract and others test",
        "importers, passes and fusions, optimized by `anfora opt --opset newest` and by ONNX Runtime 1.31 at its levels basic,",
        "extended and all, of which the smallest result is taken. An operator of ONNX Runtime's own counts as one node on its side;",
        "Anfora writes operators of ONNX only. `bench/pass_tests.py` has the details.", "",
        "| | models | nodes, Anfora | nodes, ONNX Runtime |", "|---|--:|--:|--:|"]
    names = {"fewer": "fewer nodes than ONNX Runtime", "equal": "as many",
             "no standard operator": "more, since ONNX has no such operator; at most as many in operators of ONNX", "more": "more"}
    for verdict, name in names.items():
        chosen = [result for result in compared if result["verdict"] == verdict]
        lines.append(f"| {name} | {len(chosen)} | {sum(r['anfora']['nodes'] for r in chosen)} | {sum(r['best'] for r in chosen)} |")
    lines.append(f"| all | {len(compared)} | {sum(r['anfora']['nodes'] for r in compared)} | {sum(r['best'] for r in compared)} |")
    lines += ["", f"Not compared: {verdicts['no peer']} that ONNX Runtime does not optimize, {verdicts['failed']} that Anfora refuses."]
    lines += ["", "## More nodes", "", "In parentheses: in operators of ONNX.", "", "| model | Anfora | ONNX Runtime | reason |", "|---|--:|--:|---|"]
    for name, result in sorted(results.items()):
        if result["verdict"] != "more":
            continue
        best = str(result["best"]) if result["best standard"] in (None, result["best"]) else f"{result['best']} ({result['best standard']})"
        lines.append(f"| {name} | {result['anfora']['nodes']} | {best} | {reason_of(name, result, reasons)} |")
    lines += ["", "## Refused", "", "ONNX Runtime finds what is wrong with them, if it does, when they run.", "", "| model | message |", "|---|---|"]
    lines += [f"| {name} | {reason_of(name, result, reasons)} |" for name, result in sorted(results.items()) if result["verdict"] == "failed"]
    lines += ["", "## No standard operator", "", "Operators of ONNX Runtime's smallest result, and in how many of the models above they make the difference:", ""]
    kinds = collections.Counter(op for r in compared if r["verdict"] == "no standard operator" for op in r["best foreign"])
    lines.append(", ".join(f"{op} {count}" for op, count in sorted(kinds.items(), key=lambda item: (-item[1], item[0]))) + ".")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--models", type=pathlib.Path, default=ROOT.parent / "shared/models/public")
    parser.add_argument("--only", action="append", help="models whose path has this text in it (may be repeated)")
    parser.add_argument("--write", type=pathlib.Path, help="the file for the table")
    parser.add_argument("--json", type=pathlib.Path, help="a file for all figures")
    options = parser.parse_args()
    with open(options.models / "MANIFEST.tsv") as manifest:
        names = [row["file"] for row in csv.DictReader(manifest, delimiter="\t") if row["ort_loads"] == "yes"]
    if options.only:
        names = [name for name in names if any(text in name for text in options.only)]
    onnxruntime, results = OnnxRuntime(), {}
    with tempfile.TemporaryDirectory(prefix="anfora-pass-tests-") as folder, tqdm(names, leave=False) as progress:
        for name in progress:
            results[name] = measure(options.models / name, options.build.resolve() / "anfora", onnxruntime, pathlib.Path(folder))
    onnxruntime.close()
    reasons = read_reasons()
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    if options.write:
        options.write.write_text(table(results, reasons))
    print(collections.Counter(result["verdict"] for result in results.values()))
    for name, result in sorted(results.items()):
        if result["verdict"] in ("more", "failed"):
            print(name, result["anfora"].get("nodes", "refused"), result.get("best"), result.get("best standard"),
                  *result.get("best foreign", []), reason_of(name, result, reasons), sep="\t")


if __name__ == "__main__":
    main()

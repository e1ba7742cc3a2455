#!/usr/bin/env python3
"""Run Anfora on a collection of models with stored results.

usage: check.py ANFORA [--only SUBSTRING] [--bless]

The environment variable ANFORA_MODELS names the collection; else it is ../shared/models beside the project's folder.

MODELS/small/NAME.onnx with NAME.in.npz, NAME.out.npz (and .in2, .out2) and TOLERANCE.tsv, MODELS/public/ with
MANIFEST.tsv and NAME.npz holding in:NAME and out:NAME. Each model ends in one of these:

    passed    all outputs within tolerance, or, where no result is stored, it ran
    wrong     an output differs, is missing, or has another type or shape
    refused   a non-zero exit with one clear message
    broken    killed by a signal, out of time, or a failure without a message: never right, whatever the model

Required: nothing broken; every small model in the standard domains passed; of the public models in the standard
domains that have a stored result at least PUBLIC_SHARE passed. Models that fall short are listed in known.tsv beside
this file with the reason, and exactly those: a listed model that passes must be taken off, unless it draws random
numbers (its reason begins with "random:") and may pass by chance. --bless does that, and puts in what falls short
with the program's message as the reason. The exit status is 77 when the collection is not there, which CTest shows
as skipped.
"""
import argparse
import concurrent.futures
import csv
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx

KNOWN = pathlib.Path(__file__).with_name("known.tsv")
DEFAULT_MODELS = pathlib.Path(__file__).resolve().parents[3] / "shared/models"
TIME_LIMIT_S = 120
PUBLIC_SHARE = 0.98
STANDARD_DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
SKIPPED = 77
# Relative and absolute tolerance of an output by its type; integers and booleans are exact.
TOLERANCE = {np.dtype(np.float64): (1e-4, 1e-5), np.dtype(np.float32): (1e-4, 1e-5), np.dtype(np.float16): (1e-2, 1e-2)}
BFLOAT16_TOLERANCE = (3e-2, 3e-2)
MESSAGE = re.compile(r"^(?:anfora: )?(?:error: )?\S.*", re.MULTILINE)


def from_bfloat16(bits):
    return (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def difference(name, got, want, tolerance):
    """What is wrong with an output, or None. A type of two raw bytes is bfloat16, stored as its bits."""
    if want.dtype == np.uint16 and got.dtype.kind == "V" or got.dtype.kind == want.dtype.kind == "V":
        got, want, tolerance = from_bfloat16(got), from_bfloat16(want), tolerance or BFLOAT16_TOLERANCE
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"output {name} is {got.dtype} {got.shape}, not {want.dtype} {want.shape}"
    if got.dtype.kind not in "fc":
        equal = got == want
        return None if np.all(equal) else f"output {name}: {np.size(equal) - np.count_nonzero(equal)} of {got.size} elements differ"
    relative, absolute = tolerance or TOLERANCE[want.dtype]
    got, want = got.astype(np.float64), want.astype(np.float64)
    if np.allclose(got, want, rtol=relative, atol=absolute, equal_nan=True):
        return None
    with np.errstate(invalid="ignore"):
        excess = np.abs(got - want)
    return f"output {name}: differs by {np.nanmax(excess, initial=0):.3g}, values to {np.nanmax(np.abs(want), initial=0):.3g}"


def run(anfora, model, inputs, expected, tolerance):
    """(outcome, detail) of one model on one set of inputs; inputs None: random ones."""
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "out.npz")
        command = [anfora, "run", model, "--output", output]
        if inputs is None:
            command.append("--random")
        else:
            source = os.path.join(folder, "in.npz")
            np.savez(source, **inputs)
            command += ["--input", source]
        try:
            done = subprocess.run(command, capture_output=True, timeout=TIME_LIMIT_S, env={**os.environ, "OMP_NUM_THREADS": "1"})
        except subprocess.TimeoutExpired:
            return "broken", f"still running after {TIME_LIMIT_S} s"
        message = done.stderr.decode(errors="replace").strip()
        if done.returncode < 0 or done.returncode > 128:
            return "broken", f"killed by signal {abs(done.returncode) % 128}: {message[-200:]}"
        if done.returncode != 0:
            return ("refused", message.splitlines()[0]) if MESSAGE.search(message) else ("broken", "failed without a message")
        if expected is None:
            return "passed", ""
        with np.load(output) as results:
            for name, want in expected.items():
                if name not in results:
                    return "wrong", f"output {name} is missing"
                problem = difference(name, results[name], want, tolerance)
                if problem:
                    return "wrong", problem
    return "passed", ""


def in_standard_domains(path):
    """Whether all operators, apart from calls of the model's own functions, are of the standard domains."""
    model = onnx.load(path, load_external_data=False)
    own = {(function.domain, function.name) for function in model.functions}

    def standard(nodes):
        return all(
            (node.domain in STANDARD_DOMAINS or (node.domain, node.op_type) in own)
            and all(standard(graph.node) for attribute in node.attribute for graph in [attribute.g, *attribute.graphs])
            for node in nodes)
    return standard(model.graph.node) and all(standard(function.node) for function in model.functions)


def small_models(folder):
    """(path, inputs, expected, tolerance, whether it counts) of each stored set of inputs."""
    with open(folder / "TOLERANCE.tsv", newline="") as table:
        absolute = {row["model"]: float(row["atol"]) for row in csv.DictReader(table, delimiter="\t")}
    for path in sorted(folder.glob("*.onnx")):
        standard = in_standard_domains(path)
        for number in ("", "2"):
            inputs = path.with_suffix(f".in{number}.npz")
            if inputs.exists():
                expected = dict(np.load(path.with_suffix(f".out{number}.npz")))
                yield path, dict(np.load(inputs)), expected, (0, absolute[path.stem]), standard


def public_models(folder):
    with open(folder / "MANIFEST.tsv", newline="") as table:
        rows = list(csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE))
    for row in rows:
        path = folder / row["file"]
        if row["ref_saved"] != "yes":
            yield path, None, None, None, False
            continue
        stored = dict(np.load(path.with_suffix(".npz")))
        inputs = {key[3:]: value for key, value in stored.items() if key.startswith("in:")}
        expected = {key[4:]: value for key, value in stored.items() if key.startswith("out:")}
        yield path, inputs, expected, None, in_standard_domains(path)


def judge(anfora, root, wanted):
    """(counts by group, {model that falls short: (outcome, detail)}) of the models whose path contains `wanted`."""
    counts, short = {}, {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = []
        for group, models in (("small", small_models), ("public", public_models)):
            for path, inputs, expected, tolerance, counted in models(root / group):
                name = path.relative_to(root).as_posix()
                if wanted in name:
                    jobs.append((group, name, counted, pool.submit(run, anfora, path, inputs, expected, tolerance)))
        for group, name, counted, job in jobs:
            outcome, detail = job.result()
            key = f"{group}, {'standard domains with a stored result' if counted else 'others'}"
            counts.setdefault(key, {"passed": 0, "wrong": 0, "refused": 0, "broken": 0})[outcome] += 1
            # Where no result is stored, a clear refusal is as good as a run.
            if outcome in ("wrong", "broken") or counted and outcome != "passed":
                short[name] = (outcome, detail)
    return counts, short


def read_known():
    with open(KNOWN, newline="") as table:
        return {row["file"]: row["reason"] for row in csv.DictReader(table, delimiter="\t")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("anfora")
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="models whose path contains it")
    parser.add_argument("--bless", action="store_true", help="make known.tsv true")
    options = parser.parse_args()
    root = pathlib.Path(os.environ.get("ANFORA_MODELS") or DEFAULT_MODELS)
    if not (root / "small").is_dir():
        print(f"no models in {root}: skipped; ANFORA_MODELS names the folder")
        sys.exit(SKIPPED)
    counts, short = judge(options.anfora, root, options.only)
    if options.bless and not options.only:
        known = read_known()
        rows = [f"{name}\t{known.get(name) or ': '.join(short[name])}" for name in sorted(short) if short[name][0] != "broken"]
        KNOWN.write_text("\n".join(["file\treason", *rows]) + "\n")
    known = read_known()

    problems = [f"{name}: {outcome}: {detail}" for name, (outcome, detail) in short.items() if outcome == "broken" or name not in known]
    if not options.only:
        problems += [f"{name}: passes, but is listed in known.tsv" for name in sorted(known.keys() - short.keys())
                     if not known[name].startswith("random:")]
        public = counts["public, standard domains with a stored result"]
        if public["passed"] < PUBLIC_SHARE * sum(public.values()):
            problems.append(f"fewer than {PUBLIC_SHARE:.0%} of the public models in the standard domains pass")
    print("\n".join(problems))
    for key, tally in counts.items():
        print(f"{key}: " + ", ".join(f"{count} {outcome}" for outcome, count in tally.items()))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()

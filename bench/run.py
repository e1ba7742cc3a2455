#!/usr/bin/env python3
"""Measure Anfora beside ONNX Runtime and OpenVINO on models of real size, its compiler on graphs of a million nodes, and
what a call costs.

usage: run.py BUILD [--models FOLDER] [--only NAME]... [--rounds N] [--seconds S] [--threads N] [--cpu-time] [--skip-models] [--skip-compiler]

BUILD is the folder with the program `anfora`, such as build/release. Models come from a FOLDER that bench/models.py fills:
build/bench-models unless another is given. In a round, each run time loads the model in a process of its own and runs it for S seconds, one
after the other, each round in another order; a ratio is taken within a round, so that what slows the machine
down slows down both. Reported are medians over the rounds. A model is correct when no element differs from PyTorch's
by more than 1e-4 of the largest one. With --cpu-time, the table has the time that all threads ran, for a machine that others use, too.

The table is for people; all figures, with every round, are stored in build/bench/TIME.json.
"""
import argparse
import json
import mmap
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import numpy as np
from tqdm import tqdm

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "build/bench-models"
RESULTS = ROOT / "build/bench"
PEERS = ("onnxruntime", "openvino")
RELATIVE_TOLERANCE = 1e-4
TIME_LIMIT_S = 600
TOUCHED_BYTES = 1 << 30
HUGE_PAGE_BYTES = 1 << 21
TOWER_SIZES = (10_000, 100_000, 1_000_000)


class Failure(Exception):
    """What a run time said instead of a result."""


def run_command(*command):
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise Failure(f"still running after {TIME_LIMIT_S} s")
    if done.returncode != 0:
        raise Failure((done.stderr.strip() or f"status {done.returncode}").splitlines()[-1])
    return done.stdout


def touch_memory():
    """Make a virtual machine's host back free memory, which it may take back when it lies unused: the first touch takes 30 times as long then."""
    with mmap.mmap(-1, TOUCHED_BYTES) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for place in range(0, TOUCHED_BYTES, HUGE_PAGE_BYTES):
            memory[place] = 0


def measure(run_time, anfora, model, inputs, options):
    """One round of one run time: what `anfora bench` and peer.py print."""
    touch_memory()
    how = [model, "--input", inputs, "--threads", options.threads, "--seconds", options.seconds]
    if run_time == "anfora":
        return json.loads(run_command(anfora, "bench", *how, "--json"))
    python = ROOT / f"build/venv-{run_time}/bin/python"
    return json.loads(run_command(python, ROOT / "bench/peer.py", run_time, *how).splitlines()[-1])


def deviation(anfora, name, options):
    """The largest difference from PyTorch's outputs, relative to the largest element of each."""
    output = RESULTS / f"{name}.out.npz"
    run_command(anfora, "run", options.models / f"{name}.onnx", "--input", options.models / f"{name}.in.npz", "--output", output,
                "--threads", options.threads)
    worst = 0.0
    with np.load(output) as got, np.load(options.models / f"{name}.out.npz") as want:
        for key in want.files:
            if got[key].shape != want[key].shape:
                raise Failure(f"output {key} has shape {got[key].shape}, not {want[key].shape}")
            difference = np.max(np.abs(got[key].astype(np.float64) - want[key]))
            worst = max(worst, float(difference / np.max(np.abs(want[key]))))
    output.unlink()
    return worst if np.isfinite(worst) else float("inf")


def measure_model(name, anfora, options, progress):
    """{"deviation": …, "rounds": [{run time: figures}], "failed": {run time: message}} of one model."""
    try:
        found = {"deviation": deviation(anfora, name, options), "failed": {}}
    except Failure as failure:
        found = {"failed": {"anfora": str(failure)}}
    return measure_rounds(options.models / f"{name}.onnx", options.models / f"{name}.in.npz", anfora, options, progress, found)


def measure_rounds(model, inputs, anfora, options, progress, found=None):
    """The same of any model; `found` is what is known before: {"failed": …}."""
    result = {"failed": {}, **(found or {}), "rounds": []}
    run_times = ["anfora", *PEERS]
    for index in range(options.rounds):
        figures = {}
        for run_time in run_times[index % 3:] + run_times[:index % 3]:
            progress.set_postfix_str(f"{model.stem}, {run_time}")
            if run_time not in result["failed"]:
                try:
                    figures[run_time] = measure(run_time, anfora, model, inputs, options)
                except Failure as failure:
                    result["failed"][run_time] = str(failure)
            progress.update()
        result["rounds"].append(figures)
    return result


def median(result, run_time, key):
    values = [figures[run_time][key] for figures in result["rounds"] if key in figures.get(run_time, {})]
    return statistics.median(values) if values else None


def ratio(result, peer, key):
    """Anfora's figure by the peer's: the median of the ratios within a round."""
    values = [figures["anfora"][key] / figures[peer][key] for figures in result["rounds"] if {"anfora", peer} <= figures.keys()]
    return statistics.median(values) if values else None


def print_table(head, rows):
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    for row in [head, *rows]:
        print("  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]).rstrip())


def report_models(models, time_key):
    def cell(value, form):
        return "–" if value is None else format(value, form)

    head = ["", "deviation", *(f"{what} {who}" for what in ("ms", "load s", "MB") for who in ("anfora", "ort", "ov")), "ms ÷ ort", "ms ÷ ov"]
    rows = []
    for name, result in models.items():
        row = [name, cell(result.get("deviation"), ".0e")]
        for key, form, unit in ((time_key, ".1f", 1), ("load_s", ".2f", 1), ("peak_added_bytes", ".0f", 1e6)):
            for run_time in ("anfora", *PEERS):
                value = median(result, run_time, key)
                row.append(cell(value and value / unit, form))
        rows.append(row + [cell(ratio(result, peer, time_key), ".2f") for peer in PEERS])
    print_table(head, rows)
    for name, result in models.items():
        for run_time, message in result["failed"].items():
            print(f"{name}: {run_time}: {message}")
        if result.get("deviation", 0) > RELATIVE_TOLERANCE:
            print(f"{name}: wrong: deviates by {result['deviation']:.1e}, more than {RELATIVE_TOLERANCE:.0e}")


def measure_compiler(build):
    """Opening BERT base, and towers of simple nodes from import to export; see bench/compiler.cc."""
    program = build / "bench/compiler_bench"
    compiler = {"towers": []}
    with tqdm(TOWER_SIZES, desc="compiler", leave=False) as progress:
        for size in progress:
            progress.set_postfix_str(f"{size:,} nodes")
            compiler["towers"].append(json.loads(run_command(program, "tower", size)))
    bert = MODELS / "bert_base.onnx"
    if bert.exists():
        compiler["open_bert_base"] = json.loads(run_command(program, "open", bert))
    return compiler


def report_compiler(compiler):
    towers = compiler["towers"]
    stages = list(towers[0]["seconds"])
    rows = [[f"{tower['nodes']:,} nodes", *(f"{tower['seconds'][stage]:.2f}" for stage in stages),
             f"{sum(tower['seconds'].values()):.2f}", f"{tower['bytes_per_node']:.0f}"] for tower in towers]
    print_table(["seconds", *stages, "sum", "bytes a node"], rows)
    if "open_bert_base" in compiler:
        figures = compiler["open_bert_base"]
        print(f"\nbert_base: {figures['file_bytes'] / 1e6:.0f} MB imported and inferred in {figures['seconds']:.3f} s, "
              f"{figures['peak_added_bytes'] / figures['file_bytes']:.2f} × its size in memory")


def measure_call(build):
    """What a call costs whose kernel adds eight numbers; see bench/call_overhead.cc."""
    return json.loads(run_command(build / "bench/call_overhead", ROOT / "bench/add.ir"))


def report_call(call):
    print(f"\na call of one Add of 8 floats from C++, one thread: {call['given']:.2f} us into given outputs, "
          f"{call['new']:.2f} us with new ones")


def chosen_models(options):
    """The names that --only gives, or of all models in the folder."""
    for name in options.only or []:
        if not (options.models / f"{name}.onnx").exists():
            sys.exit(f"there is no {options.models / name}.onnx; bench/models.py makes models")
    return options.only or sorted(path.stem for path in options.models.glob("*.onnx"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--models", type=pathlib.Path, default=MODELS)
    parser.add_argument("--only", action="append", help="this model (may be repeated; default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--skip-models", action="store_true")
    parser.add_argument("--skip-compiler", action="store_true")
    options = parser.parse_args()
    build = options.build.resolve()
    names = chosen_models(options)
    RESULTS.mkdir(parents=True, exist_ok=True)
    stored = {"time": time.strftime("%Y-%m-%dT%H:%M:%S"), "machine": platform.processor() or platform.machine(), "cores": os.cpu_count(),
              "threads": options.threads, "seconds": options.seconds, "models": {}}

    try:
        if not options.skip_models:
            with tqdm(total=len(names) * options.rounds * (1 + len(PEERS)), desc="measuring", leave=False) as progress:
                for name in names:
                    stored["models"][name] = measure_model(name, build / "anfora", options, progress)
            print(f"f32, {options.threads} threads; medians of {options.rounds} rounds; ort: ONNX Runtime, ov: OpenVINO; MB: peak memory added\n")
            report_models(stored["models"], "cpu_ms" if options.cpu_time else "median_ms")
            print()
        if not options.skip_compiler:
            stored["compiler"] = measure_compiler(build)
            report_compiler(stored["compiler"])
        stored["call"] = measure_call(build)
        report_call(stored["call"])
    except Failure as failure:
        sys.exit(f"bench: {failure}")
    finally:
        path = RESULTS / f"{stored['time'].replace(':', '')}.json"
        path.write_text(json.dumps(stored, indent=1) + "\n")
    print(f"\nstored in {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

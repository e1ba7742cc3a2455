#!/usr/bin/env python3
"""Measure the latency of Anfora beside ONNX Runtime and OpenVINO in turns: for a machine whose speed changes from second to second.

usage: turns.py BUILD [--models FOLDER] [--only NAME]... [--turns N] [--milliseconds MS] [--threads N]

All three load the model, each in a process of its own, which stays. In a turn each runs it for MS milliseconds, one after the other in random order,
and one run more before that, as the others' data are in the caches. A ratio is that of the medians within a turn; reported is the median ratio over
the turns, with the middle half of them. `anfora bench` and run.py measure load and memory.

All figures are stored in build/bench/turns-TIME.json.
"""
import argparse
import contextlib
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

import run as run_bench
from tqdm import tqdm

RUN_TIMES = ("anfora", *run_bench.PEERS)


class RunTime:
    """A process that has loaded a model, and runs it when asked."""

    def __init__(self, name, build, model, inputs, threads):
        python = sys.executable if name == "anfora" else run_bench.ROOT / f"build/venv-{name}/bin/python"
        command = [python, run_bench.ROOT / "bench/peer.py", name, model, "--input", inputs, "--threads", threads, "--turns"]
        environment = {**os.environ, "PYTHONPATH": str(build / "python")} if name == "anfora" else None
        self.name = name
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=environment)

    def run(self, count):
        """Seconds of that many runs."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{count}\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise run_bench.Failure(f"{self.name}: {(self.process.stderr.read().strip() or 'no answer').splitlines()[-1]}")
        return json.loads(line)

    def close(self):
        self.process.kill()
        self.process.communicate()


def measure(model, inputs, build, options, progress):
    """Medians in seconds, a list of a number for each turn: {run time: …}."""
    with contextlib.ExitStack() as stack:
        run_times = []
        for name in RUN_TIMES:
            progress.set_postfix_str(f"{model.stem}, {name} loads")
            run_times.append(RunTime(name, build, model, inputs, options.threads))
            stack.callback(run_times[-1].close)
            run_times[-1].run(1)
        counts = {}
        for run_time in run_times:
            counts[run_time.name] = 1 + math.ceil(options.milliseconds * 1e-3 / min(run_time.run(3)))
        progress.set_postfix_str(model.stem)
        medians = {name: [] for name in RUN_TIMES}
        for _ in range(options.turns):
            for run_time in random.sample(run_times, len(run_times)):
                medians[run_time.name].append(statistics.median(run_time.run(counts[run_time.name])[1:]))
            progress.update()
        return medians


def ratios(medians):
    """Those of Anfora's turns, a list for each peer."""
    return [[own / of_peer for own, of_peer in zip(medians["anfora"], medians[peer])] for peer in run_bench.PEERS]


def report(models):
    def cell(values):
        low, middle, high = statistics.quantiles(values, n=4)
        return f"{middle:.2f} ({low:.2f}–{high:.2f})"

    rows, best = [], []
    for name, medians in models.items():
        by_peer = ratios(medians)
        best.append(max(map(statistics.median, by_peer)))
        rows.append([name, *(f"{statistics.median(medians[of]) * 1e3:.1f}" for of in RUN_TIMES), *map(cell, by_peer), f"{best[-1]:.2f}"])
    run_bench.print_table(["", "ms anfora", "ms ort", "ms ov", "÷ ort", "÷ ov", "÷ faster"], rows)
    print(f"\ngeometric mean beside the faster peer: {statistics.geometric_mean(best):.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--models", type=pathlib.Path, default=run_bench.MODELS)
    parser.add_argument("--only", action="append", help="this model (may be repeated; default: all)")
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--milliseconds", type=float, default=100)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.turns < 2:
        sys.exit("turns: --turns is less than 2")
    names = run_bench.chosen_models(options)
    stored = {"time": time.strftime("%Y-%m-%dT%H:%M:%S"), "threads": options.threads, "models": {}}
    failed = []
    with tqdm(total=len(names) * options.turns, desc="measuring", leave=False) as progress:
        for name in names:
            try:
                stored["models"][name] = measure(options.models / f"{name}.onnx", options.models / f"{name}.in.npz", options.build.resolve(), options, progress)
            except run_bench.Failure as failure:
                failed.append(f"{name}: {failure}")
    if stored["models"]:
        print(f"f32, {options.threads} threads; medians of {options.turns} turns; ratios with their quartiles; ort: ONNX Runtime, ov: OpenVINO\n")
        report(stored["models"])
    print("\n".join(failed), end="\n" if failed else "")
    run_bench.RESULTS.mkdir(parents=True, exist_ok=True)
    path = run_bench.RESULTS / f"turns-{stored['time'].replace(':', '')}.json"
    path.write_text(json.dumps(stored, indent=1) + "\n")
    print(f"\nstored in {path.relative_to(run_bench.ROOT)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

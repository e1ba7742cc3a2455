#!/usr/bin/env python3
"""How time and memory grow with the batch, the length of a sequence and the depth of a network, what a memory limit costs, and how
much a busy neighbour disturbs, beside ONNX Runtime and OpenVINO.

usage: growth.py BUILD [--only SECTION]... [--threads N] [--cpu-time] [--seconds S] [--rounds N]

BUILD is the folder with the program `anfora`. The models, with random weights, are exported to build/bench-growth once. Each table is
printed in Markdown; all figures are stored in build/bench/growth-TIME.json.
"""
import argparse
import contextlib
import functools
import json
import math
import multiprocessing
import os
import pathlib
import sys
import time
import types

import numpy as np
import torch
from tqdm import tqdm

import models
import run

FOLDER = run.ROOT / "build/bench-growth"
RUN_TIMES = ("anfora", *run.PEERS)
FIGURES = ("median_ms", "cpu_ms", "load_s", "peak_added_bytes", "arena_bytes", "arena_lower_bound")  # the last two are Anfora's
WIDTH, HEADS = 256, 4
SEQUENCE = 128


class Block(torch.nn.Module):
    """A layer of a transformer, normalized before its attention and its two products."""

    def __init__(self):
        super().__init__()
        self.before, self.between = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.joined = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2) for part in self.qkv(self.before(x)).chunk(3, dim=-1))
        weights = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS), dim=-1)
        x = x + self.joined((weights @ v).transpose(1, 2).flatten(2))
        return x + self.narrow(torch.nn.functional.gelu(self.wide(self.between(x))))


def export(name, model, inputs, axes):
    """FOLDER/NAME.onnx, with symbols for `axes` of the inputs."""
    path = FOLDER / f"{name}.onnx"
    if not path.exists():
        model.eval()
        partial = path.with_suffix(".partial")
        with torch.no_grad():
            torch.onnx.export(model, tuple(inputs.values()), str(partial), input_names=list(inputs), output_names=["result"],
                              opset_version=models.OPSET, dynamo=False, dynamic_axes={key: axes for key in inputs} if axes else None)
        os.replace(partial, path)
    return path


def transformer(depth, axes=None):
    torch.manual_seed(models.SEED)
    suffix = "_dynamic" if axes else ""
    return export(f"transformer_{depth}{suffix}", torch.nn.Sequential(*(Block() for _ in range(depth))), {"x": torch.randn(1, SEQUENCE, WIDTH)}, axes)


def resnet():
    torch.manual_seed(models.SEED)
    model, inputs, _ = models.MODELS["resnet50"]()
    models.settle(model, inputs)
    return export("resnet50_dynamic", model, inputs, {0: "batch"})


def stored_input(name, **shape):
    path = FOLDER / f"{name}.in.npz"
    np.savez(path, **{key: np.random.default_rng(0).standard_normal(dims, dtype=np.float32) for key, dims in shape.items()})
    return path


def measured(anfora, model, inputs, options):
    """{run time: {figure: median of the rounds}}; a run time that fails has no figures."""
    silent = types.SimpleNamespace(set_postfix_str=lambda text: None, update=lambda: None)
    result = run.measure_rounds(model, inputs, anfora, options, silent)
    return {who: {key: run.median(result, who, key) for key in FIGURES} for who in RUN_TIMES if run.median(result, who, "median_ms") is not None}


def by_batch(anfora, options):
    model = resnet()
    return {batch: measured(anfora, model, stored_input(f"batch_{batch}", image=(batch, 3, 224, 224)), options)
            for batch in options.progress((1, 2, 4, 8, 16, 32))}


def by_sequence(anfora, options):
    model = transformer(8, {1: "sequence"})
    return {length: measured(anfora, model, stored_input(f"sequence_{length}", x=(1, length, WIDTH)), options)
            for length in options.progress((16, 64, 256, 1024, 2048))}


def by_depth(anfora, options):
    inputs = stored_input("depth", x=(1, SEQUENCE, WIDTH))
    return {depth: measured(anfora, transformer(depth), inputs, options) for depth in options.progress((2, 8, 32, 200))}


def busy():
    while True:
        pass


@contextlib.contextmanager
def neighbour():
    """A process that keeps one CPU busy."""
    other = multiprocessing.Process(target=busy, daemon=True)
    other.start()
    try:
        yield
    finally:
        other.terminate()


def beside_neighbour(anfora, options):
    found = {}
    for name in options.progress(("resnet50", "bert_base", "mobilenet_v3_large")):
        model, inputs = run.MODELS / f"{name}.onnx", run.MODELS / f"{name}.in.npz"
        alone = measured(anfora, model, inputs, options)
        with neighbour():
            disturbed = measured(anfora, model, inputs, options)
        found[name] = {who: {**alone[who], "slowdown": disturbed[who]["median_ms"] / alone[who]["median_ms"]} for who in alone if who in disturbed}
    return found


SECTIONS = {"batch": by_batch, "sequence": by_sequence, "depth": by_depth, "neighbour": beside_neighbour}


def print_growth(section, rows, time_key):
    print(f"\n| {section} | ms | ONNX Runtime | OpenVINO | ÷ faster peer | load s | ONNX Runtime | OpenVINO | MB | ONNX Runtime | OpenVINO | arena MB | ÷ lower bound |")
    print("|---" * 13 + "|")
    for size, figures in rows.items():
        def cells(key, unit, form):
            return [format(figures[who][key] / unit, form) if who in figures else "" for who in RUN_TIMES]
        own, peers = figures["anfora"], [figures[who][time_key] for who in run.PEERS if who in figures]
        print("| " + " | ".join([str(size), *cells(time_key, 1, ".1f"), f"{own[time_key] / min(peers):.2f}", *cells("load_s", 1, ".2f"),
                                 *cells("peak_added_bytes", 1e6, ".0f"), f"{own['arena_bytes'] / 1e6:.1f}",
                                 f"{own['arena_bytes'] / max(own['arena_lower_bound'], 1):.3f}"]) + " |")


def print_neighbour(rows):
    print("\n| model | Anfora | ONNX Runtime | OpenVINO |\n|---|---|---|---|")
    for name, figures in rows.items():
        print(f"| {name} | " + " | ".join(f"{figures[who]['slowdown']:.2f}" if who in figures else "" for who in RUN_TIMES) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", action="append", choices=SECTIONS)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true", help="what all threads ran, for a machine that others use, too (not of neighbours)")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    run.RESULTS.mkdir(parents=True, exist_ok=True)
    stored = {}
    for section in options.only or SECTIONS:
        options.progress = functools.partial(tqdm, desc=section, leave=False)
        try:
            stored[section] = SECTIONS[section](options.build.resolve() / "anfora", options)
        except run.Failure as failure:
            sys.exit(f"growth: {section}: {failure}")
        if section == "neighbour":
            print_neighbour(stored[section])
        else:
            print_growth(section, stored[section], "cpu_ms" if options.cpu_time else "median_ms")
    path = run.RESULTS / f"growth-{time.strftime('%Y-%m-%dT%H%M%S')}.json"
    path.write_text(json.dumps(stored, indent=1) + "\n")
    print(f"\nstored in {path.relative_to(run.ROOT)}")


if __name__ == "__main__":
    main()

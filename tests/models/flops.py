#!/usr/bin/env python3
"""Hold `opt` to it on a collection of models: no run takes more floating point operations than before.

usage: flops.py ANFORA [--only SUBSTRING]

The environment variable ANFORA_MODELS names the collection; else it is ../shared/models beside the project's folder. Each model
is optimized with all defaults. Where its operations rise all the same, `opt` has to say so, and the model is listed in
more-flops.tsv beside this file with the reason: exactly those. Models that `opt` refuses are not counted. The exit status
is 77 when the collection is not there, which CTest shows as skipped.
"""
import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from check import DEFAULT_MODELS, SKIPPED, TIME_LIMIT_S

LISTED = pathlib.Path(__file__).with_name("more-flops.tsv")
REMARK = "more operations a run"
ROUNDING = 1e-9  # of sums of operations, which are floating point numbers
REFUSALS = (3, 4)


def optimize(anfora, model):
    """The report of `opt`; None where it refuses the model."""
    with tempfile.TemporaryDirectory() as folder:
        command = [anfora, "opt", model, "-o", os.path.join(folder, "small.onnx"), "--no-check", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_S)
    if done.returncode in REFUSALS:
        return None
    if done.returncode != 0:
        raise RuntimeError(f"{model}: exit code {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def rises(report):
    return report["flops_after"] > report["flops_before"] * (1 + ROUNDING) + 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("anfora")
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="models whose path contains it")
    options = parser.parse_args()
    root = pathlib.Path(os.environ.get("ANFORA_MODELS") or DEFAULT_MODELS)
    if not (root / "small").is_dir():
        print(f"no models in {root}: skipped; ANFORA_MODELS names the folder")
        sys.exit(SKIPPED)
    with open(LISTED, newline="") as table:
        listed = {row["file"] for row in csv.DictReader(table, delimiter="\t")}

    models = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*.onnx"))}
    models = {name: path for name, path in models.items() if options.only in name}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        reports = dict(zip(models, pool.map(lambda path: optimize(options.anfora, path), models.values())))
    reports = {name: report for name, report in reports.items() if report}
    more = {name: report for name, report in reports.items() if rises(report)}

    problems = [f"{name}: {report['flops_before']:.6g} FLOP become {report['flops_after']:.6g}"
                + ("" if REMARK in report["note"] else ", without a remark")
                for name, report in more.items() if name not in listed or REMARK not in report["note"]]
    problems += [f"{name}: does not rise, but is listed in {LISTED.name}" for name in sorted(listed - more.keys()) if name in models]
    print("\n".join(problems))
    print(f"{len(reports)} models, {len(more)} of them with more operations than before")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()

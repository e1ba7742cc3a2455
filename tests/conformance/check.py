#!/usr/bin/env python3
"""Run the conformance suite; the cases that fail must be exactly those that docs/conformance.md lists.

usage: check.py ANFORA SUITE DOCUMENT [--optimize] [--bless]

With --optimize the cases run optimized and lowered; one that is listed may pass then, since fewer roundings bring some
outputs nearer to those that are stored. A case that fails without being listed is a regression. A listed case that passes has to be taken off the
list, so that the document stays true. The document's table has a row `| case | reason |` for each.
--bless makes the table true: rows of cases that pass go, cases that fail come in with the program's message
as their reason, and the reasons of the others, which people wrote, stay.

A case that is ill-conditioned (a softmax of logits around 1e10 is decided by their last bits) has no right digits to compare:
where one differs, and is not listed, the tolerance grows by a multiple of what rounding alone makes of the outputs
(conditioning.py), which depends on the case and not on the processor.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

import conditioning

ROW = re.compile(r"^\|\s*`(test_\w+)`\s*\|\s*(\S.*?)\s*\|\n", re.MULTILINE)
COUNTS = re.compile(r"\d+ of \d+ cases pass")
FAILED = re.compile(r"^(test_\w+): (.*)", re.MULTILINE)
SUMMARY = re.compile(r"^(\d+) passed, (\d+) failed$", re.MULTILINE)
# What the project promises; the list of exceptions may not grow beyond it.
MINIMUM_PASSED = 1950
DIFFERS = re.compile(r"elements? differ")
# An output may differ by this many times what rounding alone moves it by.
NOISE_FACTOR = 3


def run_suite(anfora, suite, options):
    """(number of cases, {case that failed: message}) of all folders of the suite."""
    folders = sorted(path.parent for path in pathlib.Path(suite).glob("*/model.onnx"))
    result = subprocess.run([anfora, "verify", *options, "--case", *folders], capture_output=True, text=True)
    summary = SUMMARY.search(result.stdout)
    if not folders or not summary or sum(map(int, summary.groups())) != len(folders):
        sys.exit(f"{result.stdout[-2000:]}\n{result.stderr[-2000:]}\n"
                 f"anfora verify --case ended with status {result.returncode} without judging all {len(folders)} cases")
    failed = dict(FAILED.findall(result.stdout))
    if len(failed) != int(summary.group(2)):
        sys.exit(f"{summary.group()}, but {len(failed)} lines name a case that failed")
    return len(folders), failed


def tensors(data, prefix):
    files = sorted(data.glob(f"{prefix}_*.pb"), key=lambda file: int(file.stem.split("_")[-1]))
    return [numpy_helper.to_array(onnx.load_tensor(file)) for file in files]


def outputs(anfora, model, names, inputs, options):
    """What the program makes of the model."""
    with tempfile.TemporaryDirectory() as temporary:
        given, result = pathlib.Path(temporary) / "in.npz", pathlib.Path(temporary) / "out.npz"
        np.savez(given, **inputs)
        command = [anfora, "run", model, "--input", given, "--output", result]
        subprocess.run(command + ([] if options else ["--no-optimize"]), check=True, capture_output=True)
        with np.load(result) as archive:
            return [archive[name] for name in names]


def is_within_noise(anfora, folder, options):
    """Whether every output is as near to the stored one as the conditioning of the case allows."""
    model = onnx.load(folder / "model.onnx")
    tolerance = json.loads((folder / "case.json").read_text())
    constants = {tensor.name for tensor in model.graph.initializer}
    parameters = [info.name for info in model.graph.input if info.name not in constants]
    for data in sorted(folder.glob("test_data_set_*")):
        inputs = dict(zip(parameters, tensors(data, "input")))
        got = outputs(anfora, folder / "model.onnx", [info.name for info in model.graph.output], inputs, options)
        for mine, stored, noise in zip(got, tensors(data, "output"), conditioning.noise(model, inputs)):
            if noise is None:
                continue
            allowed = tolerance["atol"] + tolerance["rtol"] * np.abs(stored) + NOISE_FACTOR * noise
            if mine.shape != stored.shape or not np.all(np.abs(mine - stored) <= allowed):
                return False
            print(f"ill-conditioned: {folder.name}: rounding alone moves an output by {noise:.1e}")
    return True


def without_noise(anfora, suite, options, failed, listed):
    """The cases that fail, but not those that differ no more than their conditioning explains."""
    def explained(name, message):
        return name not in listed and DIFFERS.search(message) and is_within_noise(anfora, suite / name, options)
    return {name: message for name, message in failed.items() if not explained(name, message)}


def bless(document, total, failed):
    text = document.read_text()
    reasons = dict(ROW.findall(text))
    head = ROW.sub("", COUNTS.sub(f"{total - len(failed)} of {total} cases pass", text)).rstrip("\n")
    rows = [f"| `{name}` | {reasons.get(name) or failed[name].replace('|', chr(92) + '|')} |" for name in sorted(failed)]
    document.write_text("\n".join([head, *rows]) + "\n")


def main():
    optimize = "--optimize" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument not in ("--optimize", "--bless")]
    if optimize and "--bless" in sys.argv:
        sys.exit("the list is of what fails without --optimize")
    if len(arguments) != 3:
        sys.exit(__doc__)
    anfora, suite, document = arguments[0], arguments[1], pathlib.Path(arguments[2])
    options = ["--optimize"] if optimize else []
    total, failed = run_suite(anfora, suite, options)
    failed = without_noise(anfora, pathlib.Path(suite), options, failed, dict(ROW.findall(document.read_text())))
    if "--bless" in sys.argv:
        bless(document, total, failed)
    listed = dict(ROW.findall(document.read_text()))

    problems = [f"fails, and is not listed: {name}: {message}" for name, message in failed.items() if name not in listed]
    passing = [] if optimize else sorted(listed.keys() - failed.keys())
    problems += [f"passes, but is listed in {document}: {name}" for name in passing]
    if passing:
        problems.append(f"to take them off: {sys.argv[0]} {' '.join(arguments)} --bless")
    if total - len(failed) < MINIMUM_PASSED:
        problems.append(f"at least {MINIMUM_PASSED} cases must pass")
    print("\n".join(problems))
    print(f"{total - len(failed)} passed, {len(failed)} failed, {len(listed)} of them listed in {document}")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()

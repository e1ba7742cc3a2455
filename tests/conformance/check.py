#!/usr/bin/env python3
"""Run the conformance suite; the cases that fail must be exactly those that docs/conformance.md lists.

usage: check.py ANFORA SUITE DOCUMENT [--optimize] [--bless]

With --optimize the cases run optimized and lowered; one that is listed may pass then, since fewer roundings bring some
outputs nearer to those that are stored. A case that fails without being listed is a regression. A listed case that passes has to be taken off the
list, so that the document stays true. The document's table has a row `| case | reason |` for each.
--bless makes the table true: rows of cases that pass go, cases that fail come in with the program's message
as their reason, and the reasons of the others, which people wrote, stay.
"""
import pathlib
import re
import subprocess
import sys

ROW = re.compile(r"^\|\s*`(test_\w+)`\s*\|\s*(\S.*?)\s*\|\n", re.MULTILINE)
COUNTS = re.compile(r"\d+ of \d+ cases pass")
FAILED = re.compile(r"^(test_\w+): (.*)", re.MULTILINE)
SUMMARY = re.compile(r"^(\d+) passed, (\d+) failed$", re.MULTILINE)
# What the project promises; the list of exceptions may not grow beyond it.
MINIMUM_PASSED = 1950


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
    total, failed = run_suite(anfora, suite, ["--optimize"] if optimize else [])
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

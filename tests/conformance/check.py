#!/usr/bin/env python3
"""Run the conformance suite; the cases that fail must be exactly those that docs/conformance.md lists.

usage: check.py ANFORA SUITE DOCUMENT

A case that fails without being listed is a regression. A listed case that passes has to be taken off the
list, so that the document stays true. The document's table has a row `| case | reason |` for each.
"""
import pathlib
import re
import subprocess
import sys

ROW = re.compile(r"^\|\s*`(test_\w+)`\s*\|\s*\S.*\|$", re.MULTILINE)
FAILED = re.compile(r"^(?:\S*/)?(test_\w+):", re.MULTILINE)
SUMMARY = re.compile(r"^(\d+) passed, (\d+) failed$", re.MULTILINE)
# What the project promises; the list of exceptions may not grow beyond it.
MINIMUM_PASSED = 1950


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    anfora, suite, document = sys.argv[1:]
    folders = sorted(path.parent for path in pathlib.Path(suite).glob("*/model.onnx"))
    result = subprocess.run([anfora, "verify", "--case", *folders], capture_output=True, text=True)
    summary = SUMMARY.search(result.stdout)
    if not summary or sum(map(int, summary.groups())) != len(folders):
        sys.exit(f"{result.stdout[-2000:]}\n{result.stderr[-2000:]}\n"
                 f"anfora verify --case ended with status {result.returncode} without judging all {len(folders)} cases")
    passed = int(summary.group(1))
    failed = set(FAILED.findall(result.stdout))
    listed = set(ROW.findall(pathlib.Path(document).read_text()))

    problems = []
    for line in result.stdout.splitlines():
        match = FAILED.match(line)
        if match and match.group(1) not in listed:
            problems.append(f"fails, and is not listed: {line}")
    problems += [f"passes, but is listed in {document}: {name}" for name in sorted(listed - failed)]
    if passed < MINIMUM_PASSED:
        problems.append(f"{passed} cases passed; at least {MINIMUM_PASSED} must")
    print("\n".join(problems))
    print(f"{passed} passed, {len(failed)} failed, {len(listed)} listed in {document}")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Check that facts about operators stand in their declarations: no pass, rule condition, analysis or plan lists operators by name.

usage: check_operator_lists.py ANFORA ROOT

A list is a braced list of string literals, a chain of tests like x.is("Add") || x.is("Sub"), a string of names like "Add Sub", or a table
of rows that begin with a name, with four operators or more. What such a list says is a fact about operators (src/ir/operator.h): declare
it, and test the fact. Prints one line a list, exits with status 1 when there is one.
"""
import json
import pathlib
import re
import subprocess
import sys

FOLDERS = ["analysis", "rewrite", "passes", "plan", "pipeline"]
MOST = 3

STRING = r'"(\w+)"'
BRACED = re.compile(r"\{\s*" + STRING + r"(?:\s*,\s*" + STRING + r")+\s*,?\s*\}")
TEST = r"[\w.>()-]*?(?:\bis\(|\b\w+ == )" + STRING + r"\)?"
CHAIN = re.compile(TEST + r"(?:\s*\|\|\s*" + TEST + r")+")
NAMES = re.compile(r'"\w+(?: \w+)+"')
TABLE = re.compile(r"(?:\{\s*" + STRING + r'\s*,[^{}"]*\}\s*,?\s*)+')


def operators_of(program):
    listing = subprocess.run([program, "operators", "--json"], check=True, capture_output=True, text=True).stdout
    return {operator["name"] for operator in json.loads(listing)}


def lists_in(text, operators):
    """(line, operators) of each list."""
    for match in [*BRACED.finditer(text), *CHAIN.finditer(text), *NAMES.finditer(text), *TABLE.finditer(text)]:
        strings = re.findall(r'"([\w ]+)"', match.group())
        names = [name for string in strings for name in string.split() if name in operators]
        if len(names) > MOST:
            yield text.count("\n", 0, match.start()) + 1, names


def main():
    program, root = sys.argv[1], pathlib.Path(sys.argv[2])
    operators = operators_of(program)
    found = 0
    for folder in FOLDERS:
        for path in sorted((root / "src" / folder).rglob("*.[ch]*")):
            relative = path.relative_to(root).as_posix()
            for line, names in lists_in(path.read_text(encoding="utf-8"), operators):
                print(f"{relative}:{line}: a list of operators: {', '.join(names)}")
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

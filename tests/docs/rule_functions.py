#!/usr/bin/env python3
"""docs/rule-language.md has every function of the rule language, with as many arguments as it takes.

usage: rule_functions.py SOURCE
"""
import pathlib
import re
import sys

TABLES = ("about.cc", "shapes.cc", "compute.cc")  # of src/rewrite
ENTRY = re.compile(r'^ +\{"([a-z]\w*)", (\d+), (-?\d+), ', re.MULTILINE)
OPERATORS = {"negative", "in", "element"}  # which the grammar has


def declared(source):
    """name -> (least, most) arguments; -1: any number."""
    text = "".join((source / "src/rewrite" / name).read_text() for name in TABLES)
    return {name: (int(least), int(most)) for name, least, most in ENTRY.findall(text) if name not in OPERATORS}


def documented(source):
    """(name, number of arguments) of each signature in the first column of the tables."""
    text = (source / "docs/rule-language.md").read_text().split("\n## Functions\n")[1]
    for cell in re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE):
        for name, arguments in re.findall(r"`(\w+)(?:\((.*?)\))?`", cell):
            yield name, len(arguments.split(",")) if arguments else 0


def main():
    source = pathlib.Path(sys.argv[1])
    functions, rows = declared(source), list(documented(source))
    problems = [f"{name} is not documented" for name in functions if name not in dict(rows)]
    for name, count in rows:
        least, most = functions.get(name, (1, 0))
        if count < least or 0 <= most < count:
            problems.append(f"there is no function {name} of {count} arguments")
    print("\n".join(f"docs/rule-language.md: {problem}" for problem in problems) or f"{len(functions)} functions")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()

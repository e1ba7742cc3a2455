#!/usr/bin/env python3
"""Check that what folds on Python's tree is exactly what CPython folds, and that the rules of our own keep what a program does.

usage: fold_test.py FOLD_TREES [--count N] [--seed SEED]

Runs once for each Python at hand: this one, and python3.11 to python3.13 where they start.

Random expressions, and the statements of fold_cases.py, are folded by FOLD_TREES and compiled. Then every constant of the folded tree is
hidden behind a name, so that CPython has nothing left to fold; its code has to be the same, instruction for instruction on every path, as
that of the original text. What is folded too little shows, and what is folded too much. With the rules of our own (--all), text and
folded tree run with the same values: what they store, call, and raise has to be the same.
"""
import argparse
import ast
import json
import pathlib
import subprocess
import sys
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parents[1] / "src/frontend/python")]
import code_paths  # noqa: E402
import expressions  # noqa: E402
import fold_cases  # noqa: E402
import tree_as_json  # noqa: E402

INTEGER_FIELDS = {"conversion", "level", "is_async", "simple"}


def constant(value):
    if isinstance(value, str):
        return {"None": None, "True": True, "False": False, "...": ...}[value]
    (kind, content), = value.items()
    if kind == "int":
        return int(content)
    if kind == "float":
        return float.fromhex(content)
    if kind == "complex":
        return complex(float.fromhex(content[0]), float.fromhex(content[1]))
    if kind == "str":
        return "".join(map(chr, content))
    if kind == "bytes":
        return bytes.fromhex(content)
    return {"tuple": tuple, "frozenset": frozenset}[kind](map(constant, content))


def tree(value):
    """The tree of `ast` for what FOLD_TREES wrote."""
    if isinstance(value, list):
        return [tree(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = getattr(ast, value["_"])()
    for name, field in value.items():
        if name == "value" and isinstance(made, ast.Constant):
            made.value = constant(field)
        elif name != "_":
            setattr(made, name, int(field) if name in INTEGER_FIELDS else tree(field))
    return made


def fold(program, texts, *options):
    """What becomes of each text: {"tree": …, "rewrites": […], "texts": […]}."""
    lines = "".join(json.dumps(tree_as_json.source("test.py", text)) + "\n" for text in texts)
    done = subprocess.run([program, *options], input=lines, capture_output=True, text=True, check=True)
    folded = [json.loads(line) for line in done.stdout.splitlines()]
    for one in folded:
        one["tree"] = ast.fix_missing_locations(tree(one["tree"]))
    return folded


def check_same_code(program, texts):
    wrong = []
    for text, folded in zip(texts, fold(program, texts)):
        left = code_paths.left_over(folded["tree"])
        hidden, names = code_paths.hide_constants(folded["tree"])
        problem = left or code_paths.difference(
            compile(text, "test.py", "exec", optimize=0), compile(hidden, "test.py", "exec", optimize=0), names)
        if problem:
            wrong.append((text, "\n".join(folded["texts"]), problem))
    return wrong


def check_same_result(program, texts):
    wrong = []
    for text, folded in zip(texts, fold(program, texts, "--all")):
        before, after = compile(text, "test.py", "exec"), compile(folded["tree"], "test.py", "exec")
        for values in expressions.values():
            expected, found = expressions.run(before, values), expressions.run(after, values)
            if expected != found:
                wrong.append((text, "\n".join(folded["texts"]), f"{expected}\n{found}"))
                break
    return wrong


def documented():
    """The rows of the table in docs/language.md: set, rule, text, what it becomes."""
    last_set = last_rule = None
    for line in (HERE.parents[1] / "docs/language.md").read_text().splitlines():
        cells = [cell.strip().strip("`") for cell in line.split("|")[1:-1]]
        if line.startswith("|") and len(cells) == 4 and cells[0] not in ("set", "---"):
            last_set, last_rule = cells[0] or last_set, cells[1] or last_rule
            yield last_set, last_rule, cells[2], cells[3]


def check_documents(program, rows):
    wrong = []
    for (rule_set, rule, text, becomes), folded in zip(rows, fold(program, [row[2] for row in rows], "--all")):
        made = "; ".join(folded["texts"])
        applied = {tuple(rewrite[:2]) for rewrite in folded["rewrites"]}
        if made != becomes or (rule_set, rule) not in applied:
            wrong.append((text, made, f"docs/language.md has {becomes}, by {rule_set} {rule}; applied: {applied}"))
    return wrong


def report(what, count, wrong):
    version = "{}.{}".format(*sys.version_info)
    print(f"Python {version}: {count - len(wrong)} of {count} {what}")
    for text, folded, problem in wrong[:20]:
        print(f"--- {text}\n--- becomes\n{folded}\n--- {problem}\n")
    return bool(wrong)


def other_pythons():
    known = {sys.version_info[:2]}
    for name in ("python3.11", "python3.12", "python3.13"):
        try:
            asked = subprocess.run([name, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True)
        except FileNotFoundError:
            continue
        version = tuple(map(int, asked.stdout.split()))
        if asked.returncode == 0 and version not in known:
            known.add(version)
            yield name


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("fold_trees")
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only-this-python", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    failed, is_tested = False, (3, 11) <= sys.version_info[:2] <= (3, 13)
    if is_tested:
        random = expressions.texts(options.seed, options.count)
        cases = fold_cases.texts(sys.version_info)
        failed |= report("random expressions compile to the same code", len(random), check_same_code(options.fold_trees, random))
        failed |= report("statements compile to the same code", len(cases), check_same_code(options.fold_trees, cases))
        rows = list(documented())
        failed |= report("examples of docs/language.md", len(rows), check_documents(options.fold_trees, rows))
        random = expressions.texts(options.seed, options.count, is_run=True)
        failed |= report("random expressions do the same, with the rules of our own", len(random),
                         check_same_result(options.fold_trees, random))
    if not options.only_this_python:
        for python in other_pythons():
            is_tested = True
            failed |= subprocess.run([python, __file__, *sys.argv[1:], "--only-this-python"]).returncode != 0
    sys.exit(failed if is_tested else 77)


if __name__ == "__main__":
    main()

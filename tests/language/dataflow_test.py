#!/usr/bin/env python3
"""Reaching definitions, live variables and dominators of random functions, against runs of them.

usage: dataflow_test.py ANFORA [--seed S] [--count N]

A random function binds and reads a few variables under random control flow. Every condition is drawn when the function runs, so each path of
its control flow graph is taken by some run: the definitions whose values a use sees in many runs are those that reach it, no more and no
less. A value knows the place that made it. Dominators and live variables are compared with their definitions by paths.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

NAMES = "abc"
RUNS = 20_000  # at most; rare paths take many
RUNS_TO_ERROR = 200
STEPS = 60  # of one run


class Generator:
    def __init__(self, random):
        self.random = random
        self.lines = ["def f(a):"]

    def add(self, depth, text):
        self.lines.append("    " * depth + text)

    def body(self, depth, in_loop, budget):
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth, in_loop, budget)

    def statement(self, depth, in_loop, budget):
        name = self.random.choice(NAMES)
        line = len(self.lines) + 1
        kind = self.random.choice(["bind", "bind", "read", "read", "if", "while", "for", "leave", "both", "pair"] if budget > 0 else ["bind", "read"])
        if kind == "bind":
            self.add(depth, f"{name} = D({line})")
        elif kind == "read":
            self.add(depth, f"U({name}, {line})")
        elif kind == "both":
            self.add(depth, f"{name} += D({line})")
        elif kind == "pair":
            other = self.random.choice([n for n in NAMES if n != name])
            self.add(depth, f"{name}, {other} = D({line}), D({line})")
        elif kind == "if":
            self.add(depth, "if C():")
            self.body(depth + 1, in_loop, budget - 1)
            if self.random.random() < 0.5:
                self.add(depth, "else:")
                self.body(depth + 1, in_loop, budget - 1)
        elif kind in ("while", "for"):
            self.add(depth, "while C():" if kind == "while" else f"for {name} in I({line}):")
            self.body(depth + 1, True, budget - 1)
            if self.random.random() < 0.3:
                self.add(depth, "else:")
                self.body(depth + 1, in_loop, budget - 1)
        else:
            ways = ["return"] + (["break", "continue"] if in_loop else [])
            self.add(depth, "if C():")
            self.add(depth + 1, self.random.choice(ways))

    def source(self):
        if self.random.random() < 0.6:
            self.add(1, "b, c = D(2), D(2)")
        self.body(1, False, 3)
        for name in NAMES:
            self.add(1, f"U({name}, {len(self.lines) + 1})")
        self.add(1, "a = b = c = None")  # so that each is local
        return "\n".join(self.lines) + "\n"


class TooLong(Exception):
    pass


class Value:
    def __init__(self, place):
        self.place = place

    def __iadd__(self, other):
        seen.setdefault((other.place,), set()).add(self.place)
        return Value(other.place)


seen = {}


def observe(source, draw, expected, runs):
    """By line of a use, the lines of the definitions whose values it saw, or "parameter"; and the variables that were read without a value.
    Ends as soon as these are the expected ones."""
    seen.clear()
    undefined = set()
    steps = 0

    def condition():
        nonlocal steps
        steps += 1
        if steps > STEPS:
            raise TooLong
        return draw.random() < 0.5

    def items(line):
        while condition():
            yield Value(line)

    def use(value, line):
        seen.setdefault((line,), set()).add(value.place)

    scope = {"C": condition, "D": Value, "I": items, "U": use}
    exec(compile(source, "f.py", "exec"), scope)
    for _ in range(runs):
        if {line: places for (line,), places in seen.items()} == expected:
            break
        steps = 0
        try:
            scope["f"](Value("parameter"))
        except TooLong:
            pass
        except UnboundLocalError as error:
            undefined.add(str(error).split("'")[1])  # and not its line: CPython copies blocks, and their lines with them
    return {line: places for (line,), places in seen.items()}, undefined


def reachable(blocks, removed=None):
    found, pending = set(), [0]
    while pending:
        at = pending.pop()
        if at in found or at == removed:
            continue
        found.add(at)
        pending += blocks[at]["successors"]
    return found


def check(program, source, draw, path):
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    run = subprocess.run([program, "cfg", f"{path}::f", "--format", "json", "--as-written"], capture_output=True, text=True)
    if run.returncode:
        return run.stderr
    blocks = json.loads(run.stdout)["blocks"]
    static, may_be_undefined = {}, set()
    for block in blocks:
        for use in block["uses"]:
            places = {d if isinstance(d, str) else d[0] for d in use["definitions"]}
            static.setdefault(use["line"], set()).update(places)
            may_be_undefined |= {use["name"]} if "undefined" in places else set()
    # Behind an undefined read nothing runs: then what is not seen says nothing.
    observed, undefined = observe(source, draw, static, RUNS_TO_ERROR if may_be_undefined else RUNS)
    for line, places in observed.items():
        if not places <= static.get(line, set()):
            return f"line {line} saw {places}, reached by {static.get(line)}"
    if not undefined <= may_be_undefined:
        return f"{undefined} were read without a value, not only {may_be_undefined}"
    is_defined = not may_be_undefined
    if is_defined:
        for line, places in static.items():
            if places != observed.get(line):
                return f"line {line} is reached by {places}, saw {observed.get(line)} in {RUNS} runs"
    refused = subprocess.run([program, "cfg", f"{path}::f"], capture_output=True, text=True)
    if (refused.returncode == 0) != is_defined:
        return f"reads are {'all' if is_defined else 'not all'} defined, but the program says: {refused.stderr or 'nothing'}"
    for b in range(1, len(blocks)):
        strict = [d for d in range(len(blocks)) if d != b and b not in reachable(blocks, removed=d)]
        if blocks[b]["dominator"] != max(strict):  # in reverse postorder the nearest one comes last
            return f"B{b} is dominated by {strict}, and not at once by {blocks[b]['dominator']}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("anfora")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    options = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for i in range(options.count):
            draw = random.Random(options.seed * 1_000_003 + i)
            source = Generator(draw).source()
            difference = check(options.anfora, source, draw, os.path.join(folder, "f.py"))
            if difference:
                failures += 1
                print(f"program {i} of seed {options.seed}: {difference}\n{source}")
    print(f"{options.count} functions, {failures} differ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

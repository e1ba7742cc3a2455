#!/usr/bin/env python3
"""`make demo` builds the program and nothing else.

usage: check_demo.py SOURCE BUILD

What the commands of `make -n demo` build, by the graph of Ninja: no source of a test or a benchmark, and no library
but those of the layers. Skipped (77) where BUILD has another generator.
"""
import pathlib
import re
import shutil
import subprocess
import sys


def output_of(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stderr}")
    return done.stdout


def is_more_than_program(path, source, build):
    for root in (build, source):
        if path.is_relative_to(root):
            relative = path.relative_to(root)
            return relative.parts[0] in ("tests", "bench") or relative.name.startswith("libanfora.so")
    return False


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    if not (build / "build.ninja").exists() or not shutil.which("ninja") or not shutil.which("make"):
        print("no Ninja build, or no make")
        sys.exit(77)
    commands = output_of("make", "-C", source, "-n", "demo")
    builds = [line for line in commands.splitlines() if "cmake --build" in line]
    targets = [re.search(r"--target (\S+)$", line) for line in builds]
    if not builds or not all(targets):
        sys.exit(f"make demo builds more than targets by name:\n{commands}")
    inputs = output_of("ninja", "-C", build, "-t", "inputs", *(target[1] for target in targets)).splitlines()
    objects = [name for name in inputs if name.endswith(".o")]
    if not objects:
        sys.exit(f"{[target[1] for target in targets]} have no objects")
    wrong = [name for name in inputs if is_more_than_program(build / name, source, build)]
    print("\n".join(wrong) or f"{len(objects)} objects, all of the program")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

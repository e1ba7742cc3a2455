#!/usr/bin/env python3
"""What tools/new-op and tools/new-pass write compiles.

usage: check_skeletons.py SOURCE BUILD

Both run in a copy of the sources; then the compiler checks each file that they wrote or changed, with the options
that BUILD/compile_commands.json gives for a file of the same folder.
"""
import json
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

COPIED = ("src", "include", "tests/unit", "tests/file", "tools")
RUNS = (("tools/new-op", "AnforaSkeleton", "activation"), ("tools/new-pass", "anfora_skeleton", "cse"))


def compile_options(commands, folder):
    """The compiler and its options for a file of the folder, or a group of its files, without input and output."""
    def is_of_folder(file):
        if file.parent.name != "Unity":
            return file.parent == folder
        return f'#include "{folder}/' in file.read_text()
    command = next(command for command in commands if is_of_folder(pathlib.Path(command["file"])))
    words = shlex.split(command["command"])
    if "ccache" in pathlib.Path(words[0]).name:
        words.pop(0)
    at = words.index("-o")
    del words[at:at + 2]
    return words[:words.index("-c")]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    commands = json.loads((build / "compile_commands.json").read_text())
    with tempfile.TemporaryDirectory() as scratch:
        copy = pathlib.Path(scratch)
        for folder in COPIED:
            shutil.copytree(source / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
        for run in RUNS:
            done = subprocess.run([sys.executable, copy / run[0], *run[1:]], capture_output=True, text=True)
            print(done.stdout + done.stderr, end="")
            if done.returncode != 0:
                sys.exit(f"{' '.join(run)} failed")
        written = [path for folder in COPIED for path in (copy / folder).rglob("*.cc")
                   if not (source / path.relative_to(copy)).exists() or path.read_bytes() != (source / path.relative_to(copy)).read_bytes()]
        for path in written:
            options = compile_options(commands, source / path.relative_to(copy).parent)
            options = [option.replace(f"{source}/src", f"{copy}/src").replace(f"{source}/include", f"{copy}/include") for option in options]
            if subprocess.run([*options, "-fsyntax-only", path]).returncode != 0:
                sys.exit(f"{path.relative_to(copy)} does not compile")
            print(f"compiles: {path.relative_to(copy)}")
        if len(written) < 5:
            sys.exit(f"only {len(written)} files were written")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Every command and snippet of README.md and docs/ works, and prints what the page shows.

usage: check_docs.py [--bless] SOURCE BUILD [PAGE…]
  --bless   write what the commands print into the pages

Each page is tried in a scratch copy of the sources, in which build/ has the programs of BUILD. README.md beside this file says
what is done with which block. Generated pages (ops.md, passes.md, rules.md, pass-tests.md) have tests of their own.
"""
import argparse
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import snippets
from pages import Page

GENERATED = {"ops.md", "passes.md", "rules.md", "pass-tests.md"}
COPIED = ("CMakeLists.txt", "CMakePresets.json", "Makefile", "README.md", "bench", "cmake", "docs", "examples", "include", "rules",
          "scripts", "src", "tests", "tools")
# What a command starts with, in a block or in the text.
COMMAND = re.compile(r"(anfora|make|ctest|cmake|(build|tools|tests|scripts)/\S+/?\S*)( |$)")
# A word that stands for what the reader puts there: FILE, N, DIR, a,b.
PLACEHOLDER = re.compile(r"\b[A-Z][A-Z_]*\b|…|\.\.\.")
# Long searches are shortened.
SHORTENED = ((re.compile(r"--count \d+"), "--count 5"), (re.compile(r"tests/file$"), "tests/file/cse.ir"),
             (re.compile(r"tests/file/rules$"), "tests/file/rules/logic.ir"),
             (re.compile(r"conformance/test_\*"), "conformance/test_relu*"))
# These take minutes, and are tests of their own.
TOO_LONG = re.compile(r"tests/conformance/check\.py")
# Exit codes that are answers.
ANSWERS = {"diff": (0, 1), "reduce": (0, 3)}
TIMEOUT = 300


class Tree:
    """The scratch copy, and the files that the pages' examples are about."""

    def __init__(self, folder, source, build):
        self.root, self.source, self.build = folder, source, build
        for name in COPIED:
            if (source / name).is_dir():
                shutil.copytree(source / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source / name, folder / name)
        (folder / "build").mkdir()
        self.release = folder / "build/release"
        for name in (".", "tests", "tests/rules", "tests/fuzz"):
            (self.release / name).mkdir()
            for path in (build / name).iterdir():
                link = self.release / name / path.name
                if path.is_file() and not link.exists():
                    link.symlink_to(path)
        for path in (source / "build").iterdir():
            if path.name.startswith(("venv", "conformance", "deps")):
                (folder / "build" / path.name).symlink_to(path)
        models = source / "examples/models"
        for name in ("model", "a", "b"):
            shutil.copy(models / "mlp.onnx", folder / f"{name}.onnx")
        shutil.copy(models / "gpt2_small.onnx", folder)
        self.run("anfora run model.onnx --random --output in.npz")
        (folder / "in.npz").rename(folder / "out.npz")
        subprocess.run([sys.executable, "-c", "import numpy; numpy.savez('in.npz', x=numpy.ones((1, 4), numpy.float32))"],
                       cwd=folder, check=True)
        self.helps = {}

    def run(self, command):
        environment = {"PATH": f"{self.release}:/usr/local/bin:/usr/bin:/bin", "HOME": str(self.root), "LC_ALL": "C.UTF-8"}
        try:
            return subprocess.run(["bash", "-c", command], cwd=self.root, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 1, "", f"not done after {TIMEOUT} s")

    def help_of(self, command=""):
        if command not in self.helps:
            self.helps[command] = self.run(f"anfora {command} --help").stdout
        return self.helps[command]

    def commands(self):
        return re.findall(r"^  (\w+)", self.help_of().split("Subcommands:")[-1], re.MULTILINE)


def problems_of_command(tree, command):
    """Runs what can be run here; of the rest, that it exists. Yields what is wrong; returns the output."""
    for pattern, shorter in SHORTENED:
        command = pattern.sub(shorter, command)
    words = shlex.split(command)
    if words[0] == "make":
        done = tree.run(f"make -n {' '.join(words[1:])}")
    elif words[0] == "ctest":
        done = tree.run(f"ctest --test-dir {shlex.quote(str(tree.build))} -N {shlex.join(words[1:])}")
        if "Total Tests: 0" in done.stdout:
            yield "no test has such a name"
    elif words[0] == "cmake":
        done = None  # configures or installs: tests/install
    elif words[0] == "anfora":
        text = tree.help_of(words[1]) if len(words) > 1 and words[1] in tree.commands() else None
        if len(words) > 1 and text is None and not words[1].startswith("-"):
            yield f"there is no command {words[1]}"
            return
        for word in words[2:]:
            option = word.split("=")[0]
            if option.startswith("-") and not re.search(rf"(^|[\s,]){re.escape(option)}\b", text or tree.help_of(), re.MULTILINE):
                yield f"{words[1]} has no option {option}"
                return
        is_complete = len(words) > 1 and not any(PLACEHOLDER.search(word) for word in words[1:])
        needs_file = text and re.search(r"^Usage: .*\] \w", text, re.MULTILINE) and not re.search(r"Usage: .*\[name\]", text)
        done = tree.run(command) if is_complete and (not needs_file or any("." in word for word in words[2:])) else None
    elif any(PLACEHOLDER.search(word) for word in words) or len(words) == 1 or TOO_LONG.search(command):
        done = None
        for word in words:
            if re.match(r"(build/\w+|tools|tests|scripts|docs)/", word) and not PLACEHOLDER.search(word) and not any(tree.root.glob(word)):
                yield f"there is no {word}"
    else:
        done = tree.run(command)
    if done and done.returncode not in (ANSWERS.get(words[1], (0,)) if words[0] == "anfora" else (0,)):
        yield f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}"


def check_span(tree, text):
    """What is wrong with a piece of code in a sentence."""
    if COMMAND.match(text) and not text.endswith(("/", ".cc", ".h", ".py", ".md", ".ir", ".rules", ".sh", ".cmake")):
        yield from problems_of_command(tree, text)
    elif re.match(r"--?[a-z]", text):
        option = re.split(r"[ =\[]", text)[0]
        if not any(re.search(rf"(^|[\s,]){option}\b", tree.help_of(command), re.MULTILINE) for command in tree.commands()):
            yield "no command has this option"
    elif re.match(r"(src|docs|rules|tests|tools|scripts|bench|include|examples|cmake)/[\w./*-]*$", text) and not re.search(r"[A-Z]{2,}", text):
        if not any(tree.root.glob(text)):
            yield "there is no such file"


def check_block(block, tree, bless):
    kind = snippets.kind_of(block, COMMAND)
    if kind is None:
        yield f"{block.place}: nothing says how to try this block (tests/docs/README.md)"
    elif kind == "commands":
        for line in block.lines:
            if line.strip():
                for problem in problems_of_command(tree, re.split(r"\s{2,}#", line)[0]):
                    yield f"{block.place}: {line.strip()}: {problem}"
    elif kind in ("transcript", "output"):
        yield from (snippets.check_transcript if kind == "transcript" else snippets.check_output)(block, tree, bless)
    else:
        yield from snippets.CHECKS[kind](block, tree)


def check_page(page, tree, bless):
    """From the top to the bottom, since a command may need what one above it wrote."""
    for place, target in page.links():
        if not (page.path.parent / target).exists():
            yield f"{place}: there is no {target}"
    for line, piece in sorted([(block.first, block) for block in page.blocks()] + page.spans(), key=lambda item: item[0]):
        if isinstance(piece, str):
            for problem in check_span(tree, piece):
                yield f"{page.place(line)}: `{piece}`: {problem}"
        else:
            yield from check_block(piece, tree, bless)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bless", action="store_true")
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("pages", nargs="*")
    arguments = parser.parse_args()
    source, build = arguments.source.resolve(), arguments.build.resolve()
    if not (build / "build.ninja").exists() or not (source / "build/venv/bin/python").exists():
        print("needs a Ninja build and build/venv")
        sys.exit(77)
    names = arguments.pages or ["README.md"] + sorted(f"docs/{path.name}" for path in (source / "docs").glob("*.md"))
    problems = 0
    for name in names:
        if pathlib.Path(name).name in GENERATED:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            page = Page(source / name)
            for problem in check_page(page, Tree(pathlib.Path(scratch), source, build), arguments.bless):
                print(problem)
                problems += 1
            if arguments.bless:
                page.save()
            print(f"{name}: {len(page.blocks())} blocks, {len(page.spans())} pieces of code", flush=True)
    if problems:
        print(f"{problems} problems; outputs that may change: {sys.argv[0]} --bless {source} {build}")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()

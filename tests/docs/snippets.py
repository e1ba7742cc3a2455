"""How each kind of block is tried; README.md beside this file lists them."""
import difflib
import re
import subprocess

import rebuild

# What differs from run to run or from CPU to CPU: times, what rounding leaves.
VARIABLE = ((re.compile(r"\d+(\.\d+)? (s|ms|µs)\b"), "# s"),
            (re.compile(r"bit for bit|within \d\S*|\(max [^)]*\)"), "#"),
            (re.compile(r"\b\d(\.\d+)?e[-+]\d+"), "#"),
            (re.compile(r"\s+"), " "))


def kind_of(block, command):
    if block.directive:
        return block.directive.split()[0].rstrip(",")
    lines = [line for line in block.lines if line.strip()]
    if any(line.startswith("$ ") for line in lines):
        return "transcript"
    if block.language == "ir" or any(line.startswith("graph @") for line in lines):
        return "module"
    if block.language == "python":
        return "python"
    if all(command.match(line) for line in lines):
        return "commands"
    if re.search(r"^([\w-]+: .*?=>|(class|weight|guard) )", "\n".join(lines), re.MULTILINE | re.DOTALL):
        return "rules"
    return None


def normalized(line):
    for pattern, replacement in VARIABLE:
        line = pattern.sub(replacement, line)
    return line.strip()


def shows(expected, got):
    """Whether that was printed: line by line, where `…` alone stands for any lines and at an end for any text."""
    if not expected:
        return not got
    first = normalized(expected[0])
    if first == "…":
        return any(shows(expected[1:], got[i:]) for i in range(len(got) + 1))
    if not got:
        return False
    pattern = ".*".join(re.escape(part) for part in first.split("…"))
    return re.fullmatch(pattern, normalized(got[0])) is not None and shows(expected[1:], got[1:])


def without_blank_ends(lines):
    begin, end = 0, len(lines)
    while begin < end and not lines[begin].strip():
        begin += 1
    while end > begin and not lines[end - 1].strip():
        end -= 1
    return lines[begin:end]


def blessed(expected, got):
    """What was printed, as much of it as the page shows."""
    if "…" not in [line.strip() for line in expected]:
        return got
    stops = [i for i, line in enumerate(expected) if line.strip() == "…"]
    head, tail = stops[0], len(expected) - stops[-1] - 1
    return got[:head] + expected[stops[0]:stops[-1] + 1] + (got[-tail:] if tail else [])


def check_transcript(block, tree, bless):
    starts = [i for i, line in enumerate(block.lines) if line.startswith("$ ")]
    results = []
    for begin, end in zip(starts, starts[1:] + [len(block.lines)]):
        command = block.lines[begin][2:]
        if command in ("make", "make build"):
            yield from (f"{block.place}: {command}: {problem}" for problem in rebuild.rebuild(tree))
            continue
        rebuild.prepare(tree, command)
        done = tree.run(re.sub(r"^tools/", "python3 tools/", command))
        expected, got = without_blank_ends(block.lines[begin + 1:end]), without_blank_ends((done.stdout + done.stderr).splitlines())
        if not shows(expected, got):
            if bless:
                results.append((begin + 1, begin + 1 + len(expected), blessed(expected, got)))
            else:
                difference = "\n".join(difflib.unified_diff(expected, got, "the page", "the program", lineterm="", n=1))
                yield f"{block.place}: $ {command} prints something else (exit code {done.returncode}):\n{difference}"
    for begin, end, lines in reversed(results):  # so that the numbers of the lines before hold
        block.page.replace(block, begin, end, lines)


def check_output(block, tree, bless):
    """<!-- test: output COMMAND -->: the block is what that command prints, from its first line on."""
    command = block.directive.split(None, 1)[1]
    done = tree.run(command)
    got = without_blank_ends(done.stdout.splitlines())
    got = got[got.index(block.lines[0]):] if block.lines[0] in got else got
    if done.returncode == 0 and not shows(block.lines, got) and bless:
        block.page.replace(block, 0, len(block.lines), got)
    elif done.returncode != 0 or not shows(block.lines, got):
        difference = "\n".join(difflib.unified_diff(block.lines, got, "the page", "the program", lineterm="", n=0))
        yield f"{block.place}: {command} prints something else (exit code {done.returncode}):\n{difference}{done.stderr}"


def check_module(block, tree):
    """A module is read; one with `# test:` is a file test, of the pass that `<!-- test: module PASS -->` names."""
    file = tree.root / "snippet.ir"
    words = block.directive.split()
    if any(line.startswith("# test:") for line in block.lines):
        file.write_text((f"# run: {words[1]}\n\n" if len(words) > 1 else "") + block.text)
        done = tree.run(f"build/release/tests/file_tests {file}")
    else:
        file.write_text(block.text)
        done = tree.run(f"anfora dump {file}")
    if done.returncode != 0:
        yield f"{block.place}: {done.stderr}{done.stdout}"


def collapsed(text):
    return re.sub(r"\s+", " ", text).strip()


def check_rules(block, tree):
    """Rules of the tree are as they are there; others are loaded as rules of one's own."""
    known = collapsed("\n".join(path.read_text() for path in sorted((tree.root / "rules").glob("*.rules"))))
    names = re.findall(r"^([a-z][\w-]*):", block.text, re.MULTILINE)
    if names and all(f" {name}: " in known for name in names):
        for part in block.text.strip().split("\n\n"):
            if collapsed(part) not in known:
                yield f"{block.place}: another rule stands in rules/:\n{part}"
        return
    file = tree.root / "own.rules"
    file.write_text(block.text)
    done = tree.run(f"anfora rules --rules {file}")
    if done.returncode != 0:
        yield f"{block.place}: {done.stderr}"


def check_append(block, tree):
    """<!-- test: append FILE -->: the reader is told to write it there."""
    with open(tree.root / block.directive.split()[1], "a") as file:
        file.write("\n" + block.text)
    return []


def check_in(block, tree):
    """<!-- test: in FILE -->: each statement stands in that file, in this order; `…` is for what is left out."""
    source = collapsed(re.sub(r"//.*", "", (tree.source / block.directive.split()[1]).read_text()))
    at = 0
    for line in block.lines:
        for part in re.sub(r"//.*", "", line).split("…"):
            found = source.find(collapsed(part), at)
            if found < 0:
                yield f"{block.place}: {block.directive.split()[1]} does not say: {line}"
                return
            at = found + len(collapsed(part))


def check_compile(block, tree):
    """<!-- test: compile FOLDER HEADER… { … } -->: compiles in that folder; between the braces what surrounds it, as `$`."""
    _, folder, rest = block.directive.split(None, 2)
    headers, surrounding = rest.split("{", 1)
    includes = "".join(f"#include {header}\n" for header in headers.split())
    file = tree.root / folder / "snippet.cc"
    own = "".join(line + "\n" for line in block.lines if line.startswith("#include"))
    body = "\n".join(line for line in block.lines if not line.startswith("#include"))
    file.write_text(own + includes + surrounding.strip().removesuffix("}").replace("$", "\n" + body + "\n"))
    done = subprocess.run([*rebuild.compile_options(tree, folder), "-fsyntax-only", file], capture_output=True, text=True)
    if done.returncode != 0:
        yield f"{block.place}: {done.stderr}"


def check_python(block, tree):
    """Runs, with the package of the build; `x` is an input of model.onnx."""
    file = tree.root / "snippet.py"
    file.write_text(f"import sys\nsys.path.insert(0, {str(tree.build / 'python')!r})\n"
                    f"import numpy\nx = numpy.ones((5, 4), numpy.float32)\n{block.text}")
    python = tree.source / "build/venv/bin/python"
    done = tree.run(f"{python} {file}")
    if done.returncode != 0:
        yield f"{block.place}: {done.stderr}"


CHECKS = {"module": check_module, "python": check_python, "rules": check_rules, "append": check_append, "in": check_in,
          "compile": check_compile, "none": lambda block, tree: []}

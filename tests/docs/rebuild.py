"""The programs of a scratch copy, built anew from what was changed in it: compiled is that alone, all else is linked from the build."""
import json
import pathlib
import re
import shlex
import shutil
import subprocess

PROGRAMS = {"anfora_cli": "anfora", "file_tests": "tests/file_tests", "rules_test": "tests/rules/rules_test"}
PROGRAMS_OF_OPERATORS = {"anfora_cli": "anfora", "unit_tests": "tests/unit_tests"}


def prepare(tree, command):
    """The worked examples add what is in the tree already: takes it out of the copy first."""
    if command.endswith("tools/new-op Swish activation"):
        path = tree.root / "src/ops/activation.cc"
        path.write_text(re.sub(r"^  unary\(declare, \"Swish\",.*\n", "", path.read_text(), flags=re.MULTILINE))
    elif command == "tools/new-pass dce":
        for name in ("src/passes/dce.cc", "tests/file/dce.ir"):
            (tree.root / name).unlink()
        for name in ("src/passes/pass.h", "src/pipeline/pipeline.cc"):
            path = tree.root / name
            path.write_text(re.sub(r"^extern const Pass kDce;.*\n|(, )?&passes::kDce\b", "", path.read_text(), flags=re.MULTILINE))


def compile_options(tree, folder):
    """The compiler and its options for a file of that folder, or for a group of its files, without input and output."""
    commands = json.loads((tree.build / "compile_commands.json").read_text())
    wanted = tree.source / folder

    def is_of_folder(file):
        return file.parent == wanted if file.parent.name != "Unity" else f'#include "{wanted}/' in file.read_text()
    words = shlex.split(next(c["command"] for c in commands if is_of_folder(pathlib.Path(c["file"]))))
    if "ccache" in pathlib.Path(words[0]).name:
        words.pop(0)
    at = words.index("-o")
    del words[at:at + 2]
    words = words[:words.index("-c")]
    return [word.replace(f"{tree.source}/src", f"{tree.root}/src").replace(f"{tree.source}/include", f"{tree.root}/include") for word in words]


def rebuild(tree):
    """Yields what fails."""
    rules = tree.root / "build/compiled_rules.cc"
    subprocess.run([tree.build / "compile_rules", rules, *sorted((tree.root / "rules").glob("*.rules"))], check=True)
    sources = [(rules, "src/passes")]
    for path in [*(tree.root / "src").rglob("*.cc"), *(tree.root / "tests/unit").glob("*.cc")]:
        original = tree.source / path.relative_to(tree.root)
        if not original.exists() or original.read_bytes() != path.read_bytes():
            sources.append((path, path.parent.relative_to(tree.root).as_posix()))
    objects = []
    for path, folder in sources:
        objects.append(tree.root / "build" / f"{path.stem}_{len(objects)}.o")
        done = subprocess.run([*compile_options(tree, folder), "-O0", "-c", path, "-o", objects[-1]], capture_output=True, text=True)
        if done.returncode != 0:
            yield f"{path.name} does not compile:\n{done.stderr}"
            return
    has_unit_test = any(folder == "tests/unit" for _, folder in sources)
    for target, program in (PROGRAMS_OF_OPERATORS if has_unit_test else PROGRAMS).items():
        commands = subprocess.run(["ninja", "-C", tree.build, "-t", "commands", target], capture_output=True, text=True, check=True)
        command = commands.stdout.strip().splitlines()[-1]
        output = tree.release / program
        output.unlink()
        # What was compiled here comes first, and the first definition counts.
        command = re.sub(rf" -o {program} ", f" -Wl,-z,muldefs -o {output} {' '.join(map(str, objects))} ", command)
        done = subprocess.run(["bash", "-c", command], cwd=tree.build, capture_output=True, text=True)
        if done.returncode != 0:
            yield f"{program} does not link:\n{done.stderr}"
            shutil.copy(tree.build / program, output)

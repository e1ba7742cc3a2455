#!/usr/bin/env python3
"""The wheel of dist/ in an environment of its own: two programs of a few lines and the command, with no variable set.

usage: wheel.py SOURCE

Exits with 77 where dist/ has no wheel of these sources for this Python; `make wheel` builds one.
"""
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import venv

PROGRAM = """
import anfora, numpy
run = anfora.optimize(MODEL).compile()
y = run(numpy.ones((1, 4), numpy.float32))
assert y.shape == (1, 3), y.shape
assert "site-packages" in anfora.__file__, anfora.__file__
run.save("mlp.anf")
"""
RUNS_COMPILED = """
import sys, numpy
from anfora import runtime
assert runtime.load("mlp.anf")(numpy.ones((1, 4), numpy.float32)).shape == (1, 3)
assert "anfora._core" not in sys.modules
"""


def wheel_of(source):
    """The newest one that pip takes, unless the sources are newer."""
    wheels = sorted((source / "dist").glob("anfora-*.whl"), key=lambda wheel: wheel.stat().st_mtime, reverse=True)
    tags = (f"-cp3{sys.version_info.minor}-", *(f"-cp3{minor}-abi3-" for minor in range(12, sys.version_info.minor + 1)))
    for wheel in wheels:
        if any(tag in wheel.name for tag in tags):
            files = (file for folder in ("src", "python", "include", "rules") for file in (source / folder).rglob("*.*"))
            newer = [file for file in files if file.stat().st_mtime > wheel.stat().st_mtime and file.suffix != ".pyc"]
            return None if newer else wheel
    return None


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    numpy = importlib.util.find_spec("numpy")
    wheel = wheel_of(source)
    if not wheel or not numpy:
        print("skipped: dist/ has no wheel of these sources for this Python (make wheel), or there is no numpy")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        venv.create(folder, with_pip=True)
        # Nothing is downloaded: numpy is the one at hand.
        (site,) = folder.glob("lib/python*/site-packages")
        for found in pathlib.Path(numpy.origin).parents[1].glob("numpy*"):
            (site / found.name).symlink_to(found)

        def run(*command):
            print(subprocess.run(command, env={}, cwd=folder, check=True, text=True, stdout=subprocess.PIPE).stdout, end="")

        run(folder / "bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel)
        model = source / "examples/models/mlp.onnx"
        run(folder / "bin/python", "-c", PROGRAM.replace("MODEL", repr(str(model))))
        run(folder / "bin/python", "-c", RUNS_COMPILED)
        run(folder / "bin/anfora", "opt", model, "-o", "small.onnx")


if __name__ == "__main__":
    main()

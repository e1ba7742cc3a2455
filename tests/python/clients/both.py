"""Runs a client of ONNX Runtime twice, each time in a process of its own: with ONNX Runtime, and with Anfora in its place.

A client is a script with a function ``work() -> (result, seconds)``, which imports the package that it is about, and
``same(result, other) -> list[str]``, the differences. It ends with ``both.main(work, same)``.

    python tests/python/clients/rapidocr_client.py

prints the time with both and their ratio, and exits with 1 when the results differ, 77 when a package is missing.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

RUNTIMES = ("onnxruntime", "anfora.onnxruntime")
SKIPPED = 77


def main(work: Callable[[], tuple[Any, float]], same: Callable[[Any, Any], list[str]]) -> None:
    if len(sys.argv) == 3:
        _child(work, *sys.argv[1:])
        return
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for runtime in RUNTIMES:
            status = subprocess.run([sys.executable, "-W", "ignore", sys.argv[0], runtime, f"{folder}/result"]).returncode
            if status:
                sys.exit(status)
            with open(f"{folder}/result", "rb") as file:
                results.append(pickle.load(file))
    (theirs, their_seconds), (ours, our_seconds) = results
    differences = same(theirs, ours)
    print("\n".join(differences))
    print(f"onnxruntime {their_seconds:.3f} s, anfora {our_seconds:.3f} s, ratio {our_seconds / their_seconds:.2f}, "
          f"{len(differences)} differences")
    sys.exit(bool(differences))


def _child(work: Callable[[], tuple[Any, float]], runtime: str, path: str) -> None:
    try:
        if runtime == "anfora.onnxruntime":
            import anfora.onnxruntime

            sys.modules["onnxruntime"] = anfora.onnxruntime
        result = work()
    except ImportError as missing:
        print(f"skipped: {missing}")
        sys.exit(SKIPPED)
    with open(path, "wb") as file:
        pickle.dump(result, file)

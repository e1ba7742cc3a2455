"""Clients of ONNX Runtime, each run twice in a process of its own: with ONNX Runtime, and with Anfora in its place.

A client is a test module with a function ``work() -> (result, seconds)``, which imports the package that it is about. Its tests
take the fixture ``both``, and are skipped where a package is missing. With ``-rP`` they tell the times.
"""

from __future__ import annotations

import pathlib
import pickle
import subprocess
import sys
from typing import Any

import pytest


@pytest.fixture(scope="module")
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """What ``work()`` of the module gives with ONNX Runtime, and with Anfora."""
    pytest.importorskip("onnxruntime")
    folder = pathlib.Path(__file__).parent
    path = tmp_path_factory.mktemp("client") / "result"
    results, seconds = [], []
    for runtime in ("onnxruntime", "anfora.onnxruntime"):
        command = [sys.executable, "-W", "ignore", folder / "child.py", request.module.__name__, runtime, path]
        subprocess.run(command, check=True)
        result, taken = pickle.loads(path.read_bytes())
        results.append(result)
        seconds.append(taken)
    print(f"onnxruntime {seconds[0]:.3f} s, anfora {seconds[1]:.3f} s, ratio {seconds[1] / seconds[0]:.2f}")
    return results[0], results[1]

"""magika classifies the files of the source tree alike.

Scores are only printed: in f64 the model gives what Anfora gives to 3e-5, and ONNX Runtime is 1e-3 away, depending on the size of
the batch.
"""

from __future__ import annotations

import pathlib
import subprocess
import time
from importlib.util import find_spec
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not find_spec("magika"), reason="magika is not installed")

COUNT = 400
ROOT = pathlib.Path(__file__).parents[3]


def work() -> tuple[Any, float]:
    from magika import Magika

    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    files = [ROOT / name for name in listed if (ROOT / name).is_file()]
    files = files[:: max(1, len(files) // COUNT)][:COUNT]
    magika = Magika()
    magika.identify_path(files[0])
    begin = time.perf_counter()
    results = [magika.identify_path(path) for path in files]
    seconds = time.perf_counter() - begin
    return [(str(result.path), str(result.output.label), result.score) for result in results], seconds


def test_labels(both: tuple[Any, Any]) -> None:
    results, others = both
    labels = [label for _, label, _ in results]
    print(f"{len(results)} files: " + ", ".join(f"{labels.count(label)} {label}" for label in sorted(set(labels))))
    print(f"scores differ by {max(abs(a - b) for (_, _, a), (_, _, b) in zip(results, others)):.1e} at most")
    assert [(path, label) for path, label, _ in results] == [(path, label) for path, label, _ in others]

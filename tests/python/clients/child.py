"""Runs ``work()`` of a test module with ONNX Runtime, or with Anfora in its place, and stores what it gives.

    python child.py test_magika anfora.onnxruntime result.pickle
"""

from __future__ import annotations

import importlib
import pickle
import sys


def main(client: str, runtime: str, path: str) -> None:
    sys.modules["onnxruntime"] = importlib.import_module(runtime)
    result = importlib.import_module(client).work()
    with open(path, "wb") as file:
        pickle.dump(result, file)


if __name__ == "__main__":
    main(*sys.argv[1:])

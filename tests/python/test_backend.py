"""ONNX's backend test suite with anfora.backend. `anfora verify --case` runs the same cases: docs/conformance.md."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator

import pytest

# The suite copies models into this folder.
_folder = tempfile.TemporaryDirectory()
os.environ["ONNX_MODELS"] = _folder.name

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the suite's own, while it computes its cases
    onnx_test = pytest.importorskip("onnx.backend.test")
    backend = pytest.importorskip("anfora.backend")
    suite = onnx_test.BackendTest(backend, __name__)


@pytest.fixture(scope="module", autouse=True)
def folder() -> Iterator[None]:
    yield
    _folder.cleanup()


for pattern in (
    "_cuda$",
    "test_bernoulli_",  # the stored outputs are draws of the suite's own generator
    "test_dft_inverse_(opset19_)?cpu",  # the stored output has rounding noise above the tolerance where the exact value is 0
    "test_squeezenet_",  # all logits are near 1e10: their last bits decide the softmax
    "test_loop16_seq_none_",  # the suite takes len() of an element of a sequence, which has no dimensions here
):
    suite.exclude(pattern)

globals().update(suite.test_cases)

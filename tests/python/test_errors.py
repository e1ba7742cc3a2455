"""Exceptions: their classes, and what they tell."""

from __future__ import annotations

import pathlib
import pickle
from typing import Any

import numpy as np
import pytest
from models import LINEAR, compiled, parse

import anfora

X = np.ones((2, 4), np.float32)


@pytest.mark.parametrize(("source", "kind"), [
    ("/no/such/file.onnx", anfora.NotFoundError),
    ("/no/such/file.onnx", FileNotFoundError),
    (b"no model at all", ValueError),
    (b"", anfora.InvalidModelError),
    (parse(LINEAR).SerializeToString()[:40], anfora.InvalidModelError),
    (3, TypeError),
], ids=str)
def test_sources(source: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        anfora.load(source)


def test_files(tmp_path: pathlib.Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model at all")
    with pytest.raises(anfora.InvalidModelError):
        anfora.load(broken)
    with pytest.raises(anfora.IoError):
        anfora.load(tmp_path)


def test_attributes() -> None:
    with pytest.raises(anfora.TypeMismatchError) as caught:
        anfora.load(parse("wrong (int64[N] x) => (float[N] y) { y = Exp(x) }"))
    assert caught.value.node == "Exp 'y'"
    assert "node 0" in caught.value.location
    assert "i64" in caught.value.message
    executable = compiled("pick (float[N] x, int64[M] i) => (float[M] y) { y = Gather(x, i) }")
    with pytest.raises(ValueError) as out_of_range:
        executable(np.ones(3, np.float32), np.array([7]))
    assert isinstance(out_of_range.value, anfora.InvalidArgumentError)
    assert getattr(out_of_range.value, "node") == "Gather 'y'"


@pytest.mark.parametrize("given", [
    [], [None], [X, X], {"q": X}, {}, [X[0]], [X[:, :3]], [X.astype(np.float64)], ["text"], [object()],
], ids=str)
def test_arguments(given: Any) -> None:
    with pytest.raises(anfora.InvalidArgumentError):
        compiled(LINEAR).run(given)


@pytest.mark.parametrize("kind", [anfora.Error, *(k for k in anfora.Error.__subclasses__() if k.__module__ == "anfora._errors")])
def test_pickle(kind: type[anfora.Error]) -> None:
    error = kind("message", "node", "location", "hint")
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is kind
    assert str(copied) == "location: node: message (hint)"
    assert vars(copied) == vars(error)

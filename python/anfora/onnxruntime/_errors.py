"""ONNX Runtime's exceptions. They are Anfora's as well, with ``message``, ``node``, ``location`` and ``hint`` as attributes."""

from __future__ import annotations

import anfora


class Fail(anfora.Error):
    """Reading, writing or a run failed."""


class InvalidArgument(anfora.Error):
    """Names, types or shapes of inputs or outputs do not fit; an option is wrong."""


class NoSuchFile(anfora.Error):
    """There is no such file."""


class InvalidProtobuf(anfora.Error):
    """What was given is no ONNX file."""


class InvalidGraph(anfora.Error):
    """A node of the model is malformed, or its inputs have the wrong types."""


class NotImplemented(anfora.Error):
    """An operator, or something of the interface, that is not there."""


class RuntimeException(anfora.Error):
    """Memory ran out, or Anfora has a defect."""


class ModelLoadCanceled(anfora.Error):
    """``SessionOptions.set_load_cancellation_flag`` was set."""


class EPFail(anfora.Error):
    """An execution provider failed; never raised."""


_CLASSES: dict[type[anfora.Error], type[anfora.Error]] = {
    anfora.InvalidArgumentError: InvalidArgument,
    anfora.InvalidModelError: InvalidGraph,
    anfora.TypeMismatchError: InvalidGraph,
    anfora.UnsupportedError: NotImplemented,
    anfora.NotFoundError: NoSuchFile,
    anfora.IoError: Fail,
    anfora.ResourceExhaustedError: RuntimeException,
    anfora.InternalError: RuntimeException,
}


def of_load(error: anfora.Error) -> anfora.Error:
    """The exception that ONNX Runtime raises for one while a model is read."""
    kind = _CLASSES.get(type(error), type(error))
    if kind is InvalidGraph and not error.node:
        kind = InvalidProtobuf
    return kind(error.message, error.node, error.location, error.hint)


def of_run(error: anfora.Error) -> anfora.Error:
    """The same during a run, where what does not fit are the inputs."""
    kind = _CLASSES.get(type(error), type(error))
    if kind is InvalidGraph:
        kind = InvalidArgument
    return kind(error.message, error.node, error.location, error.hint)

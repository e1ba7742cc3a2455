"""Executables: compiled models, which run without the compiler."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _runtime
from ._errors import InvalidArgumentError


class Executable:
    """A model that is ready to run, by any number of threads at once.

    Call it with inputs by position or by name: numpy arrays, or anything with ``__dlpack__`` (PyTorch, JAX), which are read
    where they lie. Returns the output, or a tuple of several; they belong to the caller.

        executable = anfora.load("model.onnx").compile()
        y = executable(x)
        y = executable(image=x)
    """

    def __init__(self, core: _runtime.Executable, inputs: list[_runtime.ValueInfo], outputs: list[_runtime.ValueInfo]) -> None:
        self._core = core
        self.inputs = inputs  #: name, type and shape of each input
        self.outputs = outputs  #: of each output
        self._positions = {info.name: i for i, info in enumerate(self.inputs)}
        from . import _values  # imports numpy, which takes longer than all of Anfora

        self._to_core, self._to_numpy = _values.to_core, _values.to_numpy
        self._is_written_in_place = _values.is_written_in_place
        self._types = [info.type for info in self.inputs]

    @staticmethod
    def load(path: str | os.PathLike[str], threads: int = 0) -> Executable:
        """What `save` wrote, which runs without being compiled. Weights are mapped, packed as kernels want them.

        The file must not be changed in place while it is in use. It is code: load only what you would run.

        Args:
            threads: of kernels; 0: as it was compiled for.

        Raises:
            NotFoundError, IoError
            InvalidModelError: the file is damaged.
            UnsupportedError: it was made by another version of Anfora, or for another processor.
        """
        core = _runtime.Executable.load(os.fspath(path), threads)
        return Executable(core, core.inputs, core.outputs)

    @property
    def notes(self) -> list[str]:
        """What a memory limit came to: values that are computed again, and the time that takes by estimate."""
        return self._core.notes

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the compiled model to a file (.anf), whole or not at all. Not while a run is under way."""
        self._core.save(os.fspath(path))

    def __call__(self, *arrays: Any, threads: int = 0, seed: int | None = None, **named: Any) -> Any:
        inputs = self._in_order(arrays, named) if named else arrays
        results = self.run(inputs, threads=threads, seed=seed)
        return results[0] if len(results) == 1 else tuple(results)

    def run(
        self,
        inputs: Sequence[Any] | Mapping[str, Any],
        *,
        out: Sequence[Any] | None = None,
        threads: int = 0,
        seed: int | None = None,
        cancellation: _runtime.Cancellation | None = None,
    ) -> list[Any]:
        """The outputs as a list.

        Args:
            inputs: by position (None for one that may be left out), or by name.
            out: arrays for the outputs, of their types and shapes, which are filled and returned; None: a new one. The last
                kernel writes to a dense one that shares no memory with an input; others are filled by a copy.
            threads: of kernels; 0: as the model was compiled.
            seed: of random operators; None: they go on from the run before.
            cancellation: ends the run when another thread calls its ``cancel()``.

        Raises:
            InvalidArgumentError: names, types or shapes do not fit.
            Cancelled
        """
        if out is None:
            return self._run(inputs, threads, seed, cancellation)
        given = inputs.values() if isinstance(inputs, Mapping) else inputs
        direct = [array if self._is_written_in_place(array, given) else None for array in out]
        return _fill(out, self._run(inputs, threads, seed, cancellation, None, direct))

    def _run(
        self,
        inputs: Sequence[Any] | Mapping[str, Any],
        threads: int = 0,
        seed: int | None = None,
        cancellation: _runtime.Cancellation | None = None,
        events: list[Any] | None = None,
        out: list[Any] | None = None,
    ) -> list[Any]:
        if isinstance(inputs, Mapping):
            inputs = self._in_order((), inputs)
        if len(inputs) > len(self._types):
            raise InvalidArgumentError(f"{len(inputs)} inputs are given, the model has {len(self._types)}")
        given = list(map(self._to_core, inputs, self._types))
        results = self._core.run(given, threads, seed, cancellation, events, out)
        return [self._to_numpy(value) for value in results]

    def _in_order(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any]:
        ordered = list(arrays) + [None] * (len(self.inputs) - len(arrays))
        for name, value in named.items():
            position = self._positions.get(name)
            if position is None:
                hint = "its inputs: " + ", ".join(self._positions)
                raise InvalidArgumentError(f"the model has no input '{name}'", hint=hint)
            ordered[position] = value
        return ordered

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of intermediate values and of what kernels need while they run (arena), of other values, and of constants, for the latest sizes;
        and how many outputs lie in donated inputs."""
        return self._core.memory()


def _fill(out: Sequence[Any], results: list[Any]) -> list[Any]:
    import numpy as np

    for i, (array, result) in enumerate(zip(out, results)):
        if array is not None and array is not result:
            np.copyto(array, result, casting="no")
            results[i] = array
    return results

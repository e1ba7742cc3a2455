"""Models."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Union

from . import _core
from ._executable import Executable
from ._report import OptimizeReport, Step
from ._runtime import ValueInfo

if TYPE_CHECKING:
    import onnx
    from typing_extensions import Unpack

ModelLike = Union["Model", str, "os.PathLike[str]", bytes, bytearray, memoryview, "onnx.ModelProto"]


class Node(NamedTuple):
    """An application of an operator."""

    op: str  #: "Conv", "com.microsoft::FusedConv"
    name: str  #: its name in the source; may be empty
    type: str  #: of its result: "f32[N, 64, 56, 56]"
    location: str  #: "conv1 (model.onnx: node 3)"; empty for what rewrites made


class Verification(NamedTuple):
    """Whether two models compute the same; true in a condition when they do."""

    same: bool  #: no difference was found
    compared: bool  #: all outputs could be compared
    worst: float  #: the largest absolute difference
    worst_relative: float  #: as a share of the output's largest element
    message: str  #: what differs, or why something was not compared

    def __bool__(self) -> bool:
        return self.same and self.compared


class OptimizeOptions(TypedDict, total=False):
    """How a model is optimized; each may be left out.

    Attributes:
        opset: the operator set to write: "keep" (the default), "newest" (that the target reads), or a number.
        target: the runtime that it is for: "onnx" (any, the default), or "onnxruntime", which has operators of its own.
        math: what rewrites may change: "exact" (no bit), "finite" (results that are NaN or infinite), "real" (rounding, the default).
        shapes: sizes of inputs by name, which are fixed then.
        dims: sizes of symbolic dimensions of inputs by name, which are fixed then.
        rules: files of rules of your own, tried before the built-in ones.
        passes: only these, by name; empty: all.
        assume_finite: no value on the way is NaN or infinite.
        expand: operators of ONNX Runtime (com.microsoft) become those of ONNX.
        outline: repeated code becomes functions that are called.
        fold_limit: bytes by which a folded constant may exceed what it replaces.
    """

    opset: str | int
    target: str
    math: str
    shapes: Mapping[str, Sequence[int]]
    dims: Mapping[str, int]
    rules: Sequence[str | os.PathLike[str]]
    passes: Sequence[str]
    assume_finite: bool
    expand: bool
    outline: bool
    fold_limit: int | None


class Model:
    """A model as a graph that can be optimized, saved and compiled.

    Its weights stay in the file, which must not change meanwhile. Different threads may use different models.
    """

    def __init__(self, core: _core.Model, report: OptimizeReport | None = None) -> None:
        self._core = core
        #: What was done to the model, for one that :meth:`optimize` gave; else None.
        self.report = report

    @property
    def inputs(self) -> list[ValueInfo]:
        """Name, type and shape of each input."""
        return self._core.inputs

    @property
    def outputs(self) -> list[ValueInfo]:
        """Name, type and shape of each output."""
        return self._core.outputs

    @property
    def nodes(self) -> list[Node]:
        """The applications of operators, those of branches, bodies of loops and functions included."""
        return [Node(*node) for node in self._core.nodes()]

    @property
    def metadata(self) -> dict[str, Any]:
        """Producer, versions, operator sets and properties of the source."""
        return self._core.metadata()

    def optimize(
        self, *, progress: Callable[[str, int], object] | None = None, **options: Unpack[OptimizeOptions]
    ) -> Model:
        """An optimized copy, which has a ``report``.

        Args:
            progress: called with a pass's name and the round as each ends.
            options: see :class:`OptimizeOptions`.

        Raises:
            InvalidArgumentError, UnsupportedError
        """
        core = self._core.copy()
        told = core.optimize(_core.OptimizeOptions(**options), progress)
        steps = tuple(Step(**step) for step in told["steps"])
        return Model(core, OptimizeReport(self._core, core, steps, told["rounds"], told["seconds"]))

    def explain(self, **options: Unpack[OptimizeOptions]) -> _core.Explanation:
        """What :meth:`optimize` would do with these options, rule by rule: as ``anfora explain`` prints it, with attributes.

            print(model.explain())
            for remark in model.explain().about("conv1"):
                print(remark)
        """
        return self._core.copy().explain(_core.OptimizeOptions(**options))

    def why_not(self, rule: str, **options: Unpack[OptimizeOptions]) -> _core.WhyNot:
        """Where a rule does not fire in :meth:`optimize` with these options, and why: as ``anfora explain --why-not`` prints it.

        Raises:
            NotFoundError: there is no such rule.
        """
        return self._core.why_not(rule, _core.OptimizeOptions(**options))

    def diff(self, other: ModelLike) -> _core.Difference:
        """What is different in another model, node by node: as ``anfora diff`` prints it, with attributes.

        Nodes are compared by their names; whether the models compute the same, :meth:`verify` tells.
        """
        return self._core.diff(load(other)._core)

    def save(self, path: str | os.PathLike[str], *, opset: str | int | None = None) -> str:
        """Writes .onnx, or .ir (text); the file appears whole or not at all. Returns a note, which may be empty.

        Raises:
            IoError, UnsupportedError
        """
        return self._core.save(os.fspath(path), None if opset is None else str(opset))

    def to_onnx(self, *, opset: str | int | None = None) -> onnx.ModelProto:
        """The model as a ``ModelProto`` of the package onnx."""
        import onnx

        return onnx.load_from_string(self.to_bytes(opset=opset))

    def to_bytes(self, *, opset: str | int | None = None) -> bytes:
        """The model as the bytes of an ONNX file. At most 2 GB: larger ones are saved as files."""
        return self._core.to_onnx(None if opset is None else str(opset))

    def verify(self, other: ModelLike, *, runs: int = 1, seed: int = 0, math: str = "real") -> Verification:
        """Runs both models on made-up inputs and compares the outputs within the tolerances of their types.

        Args:
            runs: on random inputs; one on edge values follows.
            seed: of the inputs.
            math: what was promised of the other model, see :meth:`optimize`.
        """
        return Verification(**self._core.verify(load(other)._core, runs, seed, math))

    def compile(self, *, threads: int = 0, optimize: bool = True, math: str = "real",
                save_graphs: str | os.PathLike[str] | None = None, donate: Sequence[str] = (),
                memory_limit: int | None = None, tune: str = "off") -> Executable:
        """Chooses kernels, packs weights, plans memory.

        Args:
            threads: of kernels; 0: one a CPU.
            optimize: the graph first, for execution.
            math: what that may change, see :meth:`optimize`.
            save_graphs: a folder for the graph after each pass, with an index.html.
            donate: names of inputs that a run may overwrite. Outputs of as many bytes lie in them where they can: the same array is returned.
            memory_limit: bytes of intermediate values and results that there may be at a time by the plan: values are computed again until it
                fits. What that costs, ``notes`` of the executable say. The sizes of the inputs have to be known.
            tune: how much is measured to choose kernels, inside the model: "off" (a cost model decides), "fast" (two candidates for each, at
                most 5 s of runs) or "full" (all, at most two minutes of runs). What was found, ``notes`` say, and the cache folder keeps
                (``ANFORA_CACHE``, else ``~/.cache/anfora``). Another choice may round differently.

        Raises:
            ResourceExhaustedError: it does not fit, and what is missing.
        """
        core = self._core.compile(threads, optimize, math, save_graphs or "", list(donate), memory_limit, tune)
        return Executable(core, self.inputs, self.outputs)

    def __str__(self) -> str:
        return self._core.text()

    def __repr__(self) -> str:
        return f"<anfora.Model {', '.join(map(repr, self.inputs))} -> {', '.join(map(repr, self.outputs))}>"


def load(source: ModelLike) -> Model:
    """Reads a model: a path (.onnx, .ir), the bytes of an ONNX file, or an ``onnx.ModelProto``. A model is returned as it is.

    Raises:
        NotFoundError, IoError, InvalidModelError, TypeMismatchError, UnsupportedError
    """
    if isinstance(source, Model):
        return source
    if isinstance(source, (str, os.PathLike)):
        return Model(_core.Model.load(os.fspath(source)))
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
    elif hasattr(source, "SerializeToString"):
        data = source.SerializeToString()
    else:
        raise TypeError(f"a model is a path, bytes or a ModelProto, not {type(source).__name__}")
    return Model(_core.Model.from_bytes(data))


def optimize(
    model: ModelLike, *, progress: Callable[[str, int], object] | None = None, **options: Unpack[OptimizeOptions]
) -> Model:
    """An optimized copy of a model; see :meth:`Model.optimize`.

        small = anfora.optimize("model.onnx")
        print(small.report)
        small.save("small.onnx")
    """
    return load(model).optimize(progress=progress, **options)

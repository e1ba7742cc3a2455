import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ._runtime import Executable, ValueInfo

tree_as_json: str
library: dict[str, str]

def run_command_line(arguments: Sequence[str]) -> int:
    """Runs the command `anfora` with these arguments, of which the first is its name, and gives the exit code; once in a process."""

def human_bytes(bytes: int) -> str: ...
def human_flops(flops: float) -> str: ...

class ChangedNode:
    """A node that is another in another model."""

    @property
    def before(self) -> str:
        """"Gemm 'fc'" """
    @property
    def after(self) -> str: ...
    @property
    def changes(self) -> list[str]:
        """"attributes {axis=1} → {axis=2}" """

class Difference:
    """What is different between two models; prints as `anfora diff` does. False where nothing is."""

    @property
    def operators(self) -> dict[str, tuple[int, int]]:
        """How often each operator is applied, before and after."""
    @property
    def same(self) -> int:
        """How many nodes are as they were."""
    @property
    def changed(self) -> list[ChangedNode]:
        """Nodes of one name that are different."""
    @property
    def gone(self) -> list[str]:
        """Nodes that only the first model has."""
    @property
    def new(self) -> list[str]:
        """Nodes that only the second one has."""
    @property
    def interface(self) -> list[str]:
        """Changes of inputs and outputs."""
    def __bool__(self) -> bool: ...

class Remark:
    """One rewrite, or one that was not made; prints as `anfora explain --node` does."""

    @property
    def pass_(self) -> str:
        """The pass, by name."""
    @property
    def rule(self) -> str: ...
    @property
    def outcome(self) -> str:
        """'applied', 'refused' (right, but it does not pay) or 'guarded' (a condition does not hold)."""
    @property
    def node(self) -> str:
        """"Conv 'c1'" """
    @property
    def location(self) -> str:
        """Its place in the source; may be empty."""
    @property
    def message(self) -> str:
        """What became of it, or why not; may be empty."""
    @property
    def nodes(self) -> tuple[int, int]:
        """Applications that went, and that came."""

class ExplainedRule:
    """What a rule did to a model."""

    @property
    def name(self) -> str: ...
    @property
    def doc(self) -> str:
        """Its equation; empty for what is none."""
    @property
    def theme(self) -> str: ...
    @property
    def fired(self) -> int: ...
    @property
    def tried(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def nodes(self) -> tuple[int, int]:
        """Applications that went, and that came."""
    @property
    def examples(self) -> list[str]:
        """Where; the first few."""

class Explanation:
    """What optimizing does to a model; prints as `anfora explain` does."""

    @property
    def nodes_before(self) -> int: ...
    @property
    def nodes_after(self) -> int: ...
    @property
    def rounds(self) -> int: ...
    @property
    def rules(self) -> list[ExplainedRule]:
        """Those that fired, by theme."""
    @property
    def remarks(self) -> list[Remark]:
        """In the order of time."""
    def about(self, node: str) -> list[Remark]:
        """Remarks on nodes with this in their name or location."""

class Unchanged:
    """Nodes that a rule left as they are, for one reason."""

    @property
    def reason(self) -> str:
        """What its guard lacked; or the rule that took them first."""
    @property
    def nodes(self) -> list[str]: ...

class WhyNot:
    """Why a rule did not fire; prints as `anfora explain --why-not` does."""

    @property
    def rule(self) -> str: ...
    @property
    def text(self) -> str:
        """Its equation; empty for what is none."""
    @property
    def fired(self) -> int: ...
    @property
    def tried(self) -> int: ...
    @property
    def reasons(self) -> list[Unchanged]:
        """What its guard lacked."""
    @property
    def taken_first(self) -> list[Unchanged]:
        """The rules that took its nodes."""
    @property
    def remedies(self) -> list[str]:
        """Options with which it fires more often: '--opset 20'."""

class OptimizeOptions:
    def __init__(
        self,
        *,
        opset: int | str = "keep",
        target: str = "onnx",
        math: str = "real",
        assume_finite: bool = False,
        expand: bool = False,
        outline: bool = False,
        fold_limit: int | None = None,
        passes: Sequence[str] = ...,
        rules: Sequence[str | os.PathLike[str]] = ...,
        shapes: Mapping[str, Sequence[int]] = ...,
        dims: Mapping[str, int] = ...,
    ) -> None: ...

class Model:
    @staticmethod
    def load(path: str | os.PathLike[str]) -> Model: ...
    @staticmethod
    def from_bytes(bytes: bytes, folder: str | os.PathLike[str] = ...) -> Model: ...
    @staticmethod
    def from_function(
        function: Any,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        dims: dict[tuple[Any, ...], list[str]] | None,
        sizes: dict[str, int],
        keeps_stages: bool = ...,
    ) -> tuple[Model, tuple[Any, ...], list[tuple[Any, ...]], list[tuple[tuple[Any, ...], Any]]]:
        """A function lowered for these arguments; how its outputs become its result, paths to its inputs, what it holds for."""
    def copy(self) -> Model: ...
    @property
    def inputs(self) -> list[ValueInfo]: ...
    @property
    def outputs(self) -> list[ValueInfo]: ...
    def nodes(self) -> list[tuple[str, str, str, str]]: ...
    def metadata(self) -> dict[str, Any]: ...
    def optimize(
        self, options: OptimizeOptions, progress: Callable[[str, int], object] | None = None
    ) -> dict[str, Any]: ...
    def make_scalar(self, of: int) -> None: ...
    def add_weighted_sum(self, of: list[int]) -> None: ...
    def set_to_zero(self, first: int, like: list[int]) -> None: ...
    def differentiate(self, of: int, by: list[int], checkpoints: int = 0) -> None: ...
    def keep_outputs(self, kept: list[int]) -> None: ...
    def save(self, path: str | os.PathLike[str], opset: str | None = None) -> str: ...
    def to_onnx(self, opset: str | None = None) -> bytes: ...
    def size_as_onnx(self) -> tuple[int, int]: ...
    def text(self) -> str: ...
    def flops(self) -> float: ...
    def explain(self, options: OptimizeOptions) -> Explanation: ...
    def why_not(self, rule: str, options: OptimizeOptions) -> WhyNot: ...
    def diff(self, other: Model) -> Difference: ...
    def structural_difference(self, other: Model) -> str: ...
    def verify(self, other: Model, runs: int, seed: int, promise: str) -> dict[str, Any]: ...
    def compile(
        self, threads: int, optimize: bool, math: str, save_graphs: str | os.PathLike[str] = ..., donate: Sequence[str] = ...,
        memory_limit: int | None = ..., tune: str = ...
    ) -> Executable: ...

def register_operator(
    name: str, signature: str, attributes: Mapping[str, int | float | str | list[int] | list[float]], doc: str
) -> None: ...

class Symbol:
    """A value of a module that is being made."""

    @property
    def is_number(self) -> bool: ...
    @property
    def type(self) -> str:
        """"f32[n0_0, 3]", "int" """
    @property
    def text(self) -> str:
        """Of a number: what it is in sizes and numbers of the inputs, "2*n0_0+1"; else empty."""

class AssumedSizes:
    """What a function is compiled for of sizes that are symbols."""

    def __init__(self, sizes: dict[str, int]) -> None: ...
    def are_settled(self) -> bool: ...

class Tracer:
    """Records the calls of a function that runs as a model."""

    def __init__(
        self,
        wrap: Callable[[Symbol], Any],
        name: str,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        dims: dict[tuple[Any, ...], list[str]] | None,
        sizes: AssumedSizes | None = None,
    ) -> None: ...
    @property
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]: ...
    @property
    def inputs(self) -> list[tuple[Any, ...]]: ...
    def call(
        self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], place: tuple[str, int, int, int, int]
    ) -> Any: ...
    def finish(
        self, result: Any
    ) -> tuple[Model, tuple[Any, ...], list[tuple[Any, ...]], list[tuple[tuple[Any, ...], Any]]]: ...

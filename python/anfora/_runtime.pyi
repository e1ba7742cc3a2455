import os
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

version: str
artifact_origin: str
library_file: str
"""Of libanfora_runtime."""

class Cancelled(Exception):
    """A run ended because its Cancellation asked for it."""

class Cancellation:
    """Ends the runs that it was given to, from any thread."""

    def __init__(self) -> None: ...
    def cancel(self) -> None: ...
    @property
    def is_cancelled(self) -> bool: ...

class Value:
    """What has no array of its own: strings, narrow floats, sequences, maps."""

    @property
    def kind(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> list[int]: ...
    def strings(self) -> list[str]: ...
    def bits(self) -> NDArray[Any]:
        """The elements as unsigned integers of as many bytes."""
    def items(self) -> list[Any]: ...
    def keys(self) -> Any: ...
    def values(self) -> Any: ...
    @staticmethod
    def from_strings(strings: Sequence[str | bytes], shape: Sequence[int]) -> Value: ...
    @staticmethod
    def from_bits(bits: NDArray[Any], dtype: str) -> Value: ...
    @staticmethod
    def from_items(items: Sequence[Any]) -> Value: ...
    @staticmethod
    def from_map(keys: Any, values: Any) -> Value: ...

class ValueInfo:
    """An input or an output of a model."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str:
        """As people write it: 'f32[N, 128]', 'seq(f32[?])'."""
    @property
    def dtype(self) -> str:
        """Of a tensor: 'f32'; 'any', or empty for what is no tensor."""
    @property
    def shape(self) -> list[int | str | None] | None:
        """Sizes, names of sizes, and None; None where the rank is not known."""
    @property
    def is_optional(self) -> bool:
        """Whether it has a default."""

def register_kernel(
    name: str, function: Callable[[tuple[Any, ...], dict[str, Any]], list[Any]] | None, attributes: Sequence[str]
) -> None: ...

class Executable:
    @staticmethod
    def load(path: str | os.PathLike[str], threads: int) -> Executable: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...
    @property
    def inputs(self) -> list[ValueInfo]: ...
    @property
    def outputs(self) -> list[ValueInfo]: ...
    def run(
        self,
        inputs: Sequence[Any],
        threads: int = 0,
        seed: int | None = None,
        cancellation: Cancellation | None = None,
        events: list[tuple[str, str, str, str, int, int, str, str]] | None = None,
        given: list[Any] | None = None,
    ) -> list[Any]: ...
    @property
    def notes(self) -> list[str]: ...
    def memory(self) -> dict[str, int]: ...
    def missing_kernels(self) -> list[str]: ...

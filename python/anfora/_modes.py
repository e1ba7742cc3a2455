"""What running code does with functions of tensors instead of computing at once: record them (_trace.py), or watch them (_debug.py)."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol


class Mode(Protocol):
    records: bool  # the values of tensors are not known

    def apply(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A function of the library is called."""

    def call(self, compiled: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A function of anfora.jit or anfora.trace is called."""


current: ContextVar[Mode | None] = ContextVar("anfora_mode", default=None)

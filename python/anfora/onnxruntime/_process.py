"""What holds for the whole process."""

from __future__ import annotations

from typing import Any

import anfora

_PROVIDERS = ["CPUExecutionProvider"]

#: Of random operators in sessions that are made from now on; None: each its own.
seed: int | None = None


def get_version_string() -> str:
    """The version of ONNX Runtime whose interface this is. Anfora's own is ``anfora.__version__``."""
    return "1.31.1"


def get_build_info() -> str:
    return f"Anfora {anfora.__version__}, with the interface of ONNX Runtime {get_version_string()}"


def get_available_providers() -> list[str]:
    return list(_PROVIDERS)


def get_all_providers() -> list[str]:
    return list(_PROVIDERS)


def get_device() -> str:
    return "CPU"


def get_ep_devices() -> list[Any]:
    return []


def has_collective_ops() -> bool:
    return False


def set_seed(value: int) -> None:
    """Random operators of sessions that are made afterwards start with this seed."""
    global seed
    seed = value


def _accepted(*_: Any, **__: Any) -> None:
    """Changes nothing: it tunes what only ONNX Runtime has."""


set_default_logger_severity = _accepted
set_default_logger_verbosity = _accepted
set_global_thread_pool_sizes = _accepted
create_and_register_allocator = _accepted
create_and_register_allocator_v2 = _accepted
enable_telemetry_events = _accepted
disable_telemetry_events = _accepted
preload_dlls = _accepted

"""Options of sessions and of runs."""

from __future__ import annotations

import enum
import operator
from typing import Any

import anfora

from . import _process
from ._errors import InvalidArgument, NotImplemented


class _Choice(enum.IntEnum):
    __str__ = enum.Enum.__str__


class GraphOptimizationLevel(_Choice):
    """Which rewrites a session makes before it runs."""

    ORT_DISABLE_ALL = 0  #: none
    ORT_ENABLE_BASIC = 1  #: those that change no bit of a result
    ORT_ENABLE_EXTENDED = 2  #: all; results differ by rounding
    ORT_ENABLE_LAYOUT = 3  #: all
    ORT_ENABLE_ALL = 99  #: all

    @property
    def math(self) -> str:
        """What rewrites may change, as :meth:`anfora.Model.optimize` takes it."""
        return "exact" if self <= GraphOptimizationLevel.ORT_ENABLE_BASIC else "real"


class ExecutionMode(_Choice):
    """Accepted; Anfora decides by itself what runs in parallel."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(_Choice):
    """Accepted; Anfora's schedule is made for little memory."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class _Options:
    """Attributes with a default and its type. Raises AttributeError for another name, TypeError for another type."""

    _config: dict[str, str]

    def __init__(self) -> None:
        self.__dict__["_config"] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        default = getattr(type(self), name, None)
        if name.startswith("_") or not isinstance(default, (bool, int, str)):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        if isinstance(default, _Choice):
            value = type(default)(value)
        elif type(default) is int:
            value = operator.index(value)
        elif not isinstance(value, type(default)):
            raise TypeError(f"{name} is of {type(default).__name__}, not {type(value).__name__}")
        self.__dict__[name] = value

    def _add(self, key: str, value: str) -> None:
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError("keys and values are strings")
        if not key:
            raise RuntimeError("the key is empty")
        self._config[key] = value

    def _get(self, key: str) -> str:
        if key not in self._config:
            raise RuntimeError(f"{type(self).__name__} does not have configuration with key: {key}")
        return self._config[key]


class SessionOptions(_Options):
    """Options of a session, as ONNX Runtime names them.

    Those that have an effect are described; the others tune what only ONNX Runtime has, and are accepted.
    """

    intra_op_num_threads: int = 0  #: threads of kernels; 0: one a CPU
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    optimized_model_filepath: str = ""  #: where to write the optimized model; empty: nowhere
    enable_profiling: bool = False  #: record the times of loading and of runs
    profile_file_prefix: str = "onnxruntime_profile_"  #: of the file that ``end_profiling`` writes

    inter_op_num_threads: int = 0
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    execution_order: ExecutionOrder = ExecutionOrder.DEFAULT
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""

    _free_dimensions: dict[str, int]
    _providers: list[str]
    _is_cancelled: bool

    def __init__(self) -> None:
        super().__init__()
        self.__dict__.update(_free_dimensions={}, _providers=[], _is_cancelled=False)

    def add_session_config_entry(self, key: str, value: str) -> None:
        self._add(key, value)

    def get_session_config_entry(self, key: str) -> str:
        return self._get(key)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fixes a symbolic dimension of the inputs."""
        self._free_dimensions[name] = operator.index(size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Accepted: the dimension stays free, and may have that size."""

    def add_provider(self, name: str, options: dict[str, str] | None = None) -> None:
        if name not in _process.get_available_providers():
            raise InvalidArgument(f"there is no execution provider '{name}'")
        self._providers.append(name)

    def has_providers(self) -> bool:
        return bool(self._providers)

    def set_provider_selection_policy(self, policy: object) -> None:
        """Accepted: there is one provider."""

    def set_load_cancellation_flag(self, value: bool) -> None:
        """Sessions are not made while it is set."""
        self.__dict__["_is_cancelled"] = bool(value)

    def register_custom_ops_library(self, path: str) -> None:
        raise NotImplemented(f"operators of ONNX Runtime's own libraries cannot be loaded: {path}")

    def add_initializer(self, name: str, value: object) -> None:
        raise NotImplemented(f"initializer '{name}' cannot be replaced", hint="set it in the model")

    def add_external_initializers(self, names: object, values: object) -> None:
        raise NotImplemented("external initializers cannot be replaced", hint="put the files beside the model")

    def add_external_initializers_from_files_in_memory(self, names: object, buffers: object, lengths: object) -> None:
        raise NotImplemented("external data cannot be read from memory", hint="put the files beside the model")


class RunOptions(_Options):
    """Options of a run. ``terminate`` ends those under way, too, when another thread sets it; the others are accepted."""

    terminate: bool = False
    only_execute_path_to_fetches: bool = False
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""

    _cancellation: anfora.Cancellation

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["_cancellation"] = anfora.Cancellation()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "terminate" and value:
            self._cancellation.cancel()
        elif name == "terminate" and self._cancellation.is_cancelled:
            self.__dict__["_cancellation"] = anfora.Cancellation()

    def add_run_config_entry(self, key: str, value: str) -> None:
        self._add(key, value)

    def get_run_config_entry(self, key: str) -> str:
        return self._get(key)

    def add_active_adapter(self, adapter: object) -> None:
        raise NotImplemented("there are no adapters", hint="merge it into the model")

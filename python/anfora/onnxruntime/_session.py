"""Sessions."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import json
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Union

import numpy as np

import anfora

from .. import _runtime
from . import _process
from ._errors import Fail, InvalidArgument, ModelLoadCanceled, NotImplemented, of_load, of_run
from ._options import GraphOptimizationLevel, RunOptions, SessionOptions
from ._values import OrtValue, as_onnxruntime_gives, at_address, require_cpu, type_name, types_and_shapes

_TERMINATED = "Exiting due to terminate flag being set to true."

Provider = Union[str, tuple[str, dict[Any, Any]]]


@dataclasses.dataclass(frozen=True)
class NodeArg:
    """An input or an output."""

    name: str
    type: str  #: "tensor(float)", "seq(tensor(int64))", "optional(tensor(float))"
    shape: list[int | str | None]  #: sizes, names of sizes, None; empty also for what has no rank or is no tensor


@dataclasses.dataclass(frozen=True)
class ModelMetadata:
    """What a model's file says about it."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


def _checked_providers(
    providers: Sequence[Provider] | None, options: Sequence[dict[Any, Any]] | None
) -> None:
    """Warns of providers that are not there: the CPU's is used in their place."""
    if providers is None:
        return
    if not isinstance(providers, Sequence):
        raise ValueError("'providers' should be a sequence")
    if options is not None and len(options) != len(providers):
        raise ValueError("'providers' and 'provider_options' should be of the same length")
    names = [providers] if isinstance(providers, str) else [p[0] if isinstance(p, tuple) else p for p in providers]
    available = _process.get_available_providers()
    for name in names:
        if not isinstance(name, str):
            raise ValueError("'providers' values must be either strings or (string, dict) tuples")
        if name not in available:
            warnings.warn(f"Specified provider '{name}' is not in available provider names: {', '.join(available)}",
                          stacklevel=4)


class _Profile:
    """Times of a session, written in Chrome's trace event format."""

    def __init__(self, prefix: str) -> None:
        self.start_ns = time.monotonic_ns()
        now = datetime.datetime.now()
        self.path = f"{prefix}_{now:%Y-%m-%d_%H-%M-%S}_{now.microsecond // 1000:03}.json"
        self._events: list[dict[str, Any]] = []

    def add(self, name: str, begin_ns: int) -> None:
        """A step of the session that ends now."""
        self._add("Session", name, begin_ns, time.monotonic_ns() - begin_ns, {})

    def add_kernels(self, events: Iterable[tuple[str, str, str, str, int, int, str, str]]) -> None:
        """What the kernels of a run did, as :meth:`_runtime.Executable.run` tells it."""
        for op, implementation, node, location, begin_ns, duration_ns, inputs, outputs in events:
            args = {
                "op_name": op,
                "provider": "CPUExecutionProvider",
                "implementation": implementation,
                "location": location,
                "input_type_shape": types_and_shapes(inputs),
                "output_type_shape": types_and_shapes(outputs),
            }
            name = node.partition("'")[2].rstrip("'") or op
            self._add("Node", f"{name}_kernel_time", begin_ns, duration_ns, args)

    def _add(self, category: str, name: str, begin_ns: int, duration_ns: int, args: dict[str, Any]) -> None:
        times = {"ts": (begin_ns - self.start_ns) // 1000, "dur": duration_ns // 1000}
        place = {"pid": os.getpid(), "tid": threading.get_native_id()}
        self._events.append({"cat": category, "ph": "X", "name": name, **place, **times, "args": args})

    def write(self) -> None:
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(self._events, file)


class InferenceSession:
    """A model that is ready to run, with ONNX Runtime's names. Many threads may use one.

    Args:
        path_or_bytes: a file (.onnx, .ir), or what is in one; also an ``onnx.ModelProto``.
        sess_options: see :class:`SessionOptions`; later changes of it have no effect.
        providers: in the order of preference; only "CPUExecutionProvider" is there.

    Raises:
        NoSuchFile, Fail: the file cannot be read.
        InvalidProtobuf, InvalidGraph: it is no ONNX file, or its model is malformed.
        NotImplemented: an operator without a kernel.
    """

    def __init__(
        self,
        path_or_bytes: anfora._model.ModelLike,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Provider] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        _checked_providers(providers, provider_options)
        self._options = copy.deepcopy(sess_options) if sess_options else SessionOptions()
        if self._options._is_cancelled:
            raise ModelLoadCanceled("loading was cancelled by a flag in the session's options")
        if not (isinstance(path_or_bytes, (str, bytes, os.PathLike)) or hasattr(path_or_bytes, "SerializeToString")):
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        self._profile: _Profile | None = None
        self._finish_profile: Callable[[], object] | None = None
        if self._options.enable_profiling:
            self._profile = _Profile(self._options.profile_file_prefix)
            self._finish_profile = weakref.finalize(self, self._profile.write)
        self._seed = _process.seed
        # A run per CPU at a time: each takes memory for intermediate values.
        self._async_runs = threading.Semaphore(os.cpu_count() or 1)
        try:
            self._load(path_or_bytes)
        except anfora.Error as error:
            raise of_load(error) from error

    def _load(self, source: anfora._model.ModelLike) -> None:
        begin = time.monotonic_ns()
        model = _with_dimensions(anfora.load(source), self._options._free_dimensions)
        level = self._options.graph_optimization_level
        if self._options.optimized_model_filepath:
            _optimized(model, level).save(self._options.optimized_model_filepath)
        if self._profile:
            is_file = isinstance(source, (str, os.PathLike))
            self._profile.add("model_loading_uri" if is_file else "model_loading_array", begin)
            begin = time.monotonic_ns()
        self._executable = model.compile(
            threads=max(self._options.intra_op_num_threads, 0),
            optimize=level != GraphOptimizationLevel.ORT_DISABLE_ALL,
            math=level.math,
        )
        if missing := self._executable._core.missing_kernels():
            raise NotImplemented(f"there is no kernel for {', '.join(missing)}")
        if self._profile:
            self._profile.add("session_initialization", begin)

        def describe(info: _runtime.ValueInfo) -> NodeArg:
            return NodeArg(info.name, type_name(info.type), info.shape or [])

        self._inputs = [describe(info) for info in model.inputs]
        self._positions = {info.name: i for i, info in enumerate(model.inputs)}
        self._required = {info.name for info in model.inputs if not (info.is_optional or info.type.startswith("opt("))}
        self._has_default = [info.is_optional for info in model.inputs]
        self._outputs = [describe(info) for info in model.outputs]
        self._output_positions = {info.name: i for i, info in enumerate(model.outputs)}
        self._has_bits = any("float8" in output.type for output in self._outputs)
        meta = model.metadata
        self._metadata = ModelMetadata(
            meta["producer"], meta["graph_name"], meta["domain"], meta["doc"], meta["graph_doc"],
            meta["model_version"], meta["properties"],
        )

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that a run needs; optionals may still be left out."""
        return [info for info, has_default in zip(self._inputs, self._has_default) if not has_default]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The inputs that have a default."""
        return [info for info, has_default in zip(self._inputs, self._has_default) if has_default]

    def get_outputs(self) -> list[NodeArg]:
        return self._outputs

    def get_modelmeta(self) -> ModelMetadata:
        return self._metadata

    def get_session_options(self) -> SessionOptions:
        return self._options

    def get_providers(self) -> list[str]:
        return _process.get_available_providers()

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return {name: {} for name in self.get_providers()}

    def set_providers(
        self,
        providers: Sequence[Provider] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
    ) -> None:
        """Checks the names; there is one provider to choose from."""
        _checked_providers(providers, provider_options)

    def enable_fallback(self) -> None:
        """Accepted: there is no provider to fall back to."""

    def disable_fallback(self) -> None:
        """Accepted: there is no provider to fall back to."""

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None = None
    ) -> list[Any]:
        """The outputs that are named, or all where none is.

        Tensors are numpy arrays (strings: of objects; 8-bit floats: their bits as uint8; bf16 and 4-bit types: those of
        ml_dtypes), sequences lists, maps dictionaries, an optional without a value None.

        Args:
            input_feed: numpy arrays, :class:`OrtValue`, or anything with ``__dlpack__``, by the names of inputs.

        Raises:
            ValueError: an input is missing.
            InvalidArgument: a name, type or shape does not fit.
        """
        results = self._run(self._in_order(input_feed), run_options)
        if self._has_bits:
            results = [as_onnxruntime_gives(result) for result in results]
        return [results[i] for i in self._selected(output_names)] if output_names else results

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """As :meth:`run`, with values in place of arrays."""
        results = self._run(self._in_order(input_dict_ort_values), run_options)
        return [OrtValue(results[i], self._outputs[i].type) for i in self._selected(output_names)]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], object],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """As :meth:`run`, by another thread, which calls ``callback(outputs, user_data, error)``.

        Where the run fails, the outputs are empty and ``error`` is the message; else it is empty.
        """
        self._check_required(input_feed)

        def work() -> None:
            with self._async_runs:
                try:
                    results, error = self.run(output_names, input_feed, run_options), ""
                except Exception as failed:
                    results, error = [], str(failed)
            callback(results, user_data, error)

        threading.Thread(target=work, name="anfora-run-async").start()

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Runs with inputs and outputs that were bound.

        Raises:
            RuntimeError: nothing is bound, or it does not fit.
        """
        if iobinding._session is not self:
            raise ValueError("IOBinding must be used with the session that created it.")
        iobinding._run(run_options)

    def get_profiling_start_time_ns(self) -> int:
        """By ``time.monotonic_ns``; 0 without profiling."""
        return self._profile.start_ns if self._profile else 0

    def end_profiling(self) -> str:
        """Writes the times of loading, of runs and of their kernels; the file's name, or "" without profiling."""
        if not self._profile or not self._finish_profile:
            return ""
        path = self._profile.path
        self._finish_profile()
        self._profile = None
        return path

    def _check_required(self, feed: Mapping[str, Any]) -> None:
        if not self._required <= feed.keys():
            missing = [info.name for info in self._inputs if info.name in self._required - feed.keys()]
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(feed)}).")

    def _in_order(self, feed: Mapping[str, Any]) -> list[Any]:
        self._check_required(feed)
        inputs: list[Any] = [None] * len(self._inputs)
        for name, value in feed.items():
            position = self._positions.get(name)
            if position is None:
                raise InvalidArgument(f"the model has no input '{name}'", hint="its inputs: " + ", ".join(self._positions))
            inputs[position] = value._data if isinstance(value, OrtValue) else value
        return inputs

    def _selected(self, names: Sequence[str] | None) -> Sequence[int]:
        if not names:
            return range(len(self._outputs))
        if isinstance(names, str):
            raise TypeError("the names of outputs are a list of strings, not one string")
        for name in names:
            if name not in self._output_positions:
                raise InvalidArgument(f"the model has no output '{name}'",
                                      hint="its outputs: " + ", ".join(self._output_positions))
        return [self._output_positions[name] for name in names]

    def _run(self, inputs: list[Any], options: RunOptions | None) -> list[Any]:
        if options is not None:
            if not isinstance(options, RunOptions):
                raise TypeError(f"run_options is a {type(options).__name__}, not RunOptions")
            if options.terminate:
                raise Fail(_TERMINATED)
        cancellation = options._cancellation if options else None
        seed, self._seed = self._seed, None
        profile = self._profile
        events: list[Any] | None = [] if profile else None
        begin = time.monotonic_ns() if profile else 0
        try:
            return self._executable._run(inputs, 0, seed, cancellation, events)
        except anfora.Error as error:
            raise of_run(error) from error
        except anfora.Cancelled as error:
            raise Fail(_TERMINATED) from error
        finally:
            if profile:
                profile.add_kernels(events or ())
                profile.add("model_run", begin)


class IOBinding:
    """Inputs and outputs of a session's runs, set once for several: see :meth:`InferenceSession.run_with_iobinding`."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._buffers: dict[str, np.ndarray[Any, Any] | None] = {}
        self._results: list[OrtValue] = []

    def _bind_input(self, name: str, value: Any) -> None:
        if name not in self._session._positions:
            raise RuntimeError(f"the model has no input '{name}'")
        self._inputs[name] = value

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Binds an array; a later run sees what is in it then."""
        if not isinstance(arr_on_cpu, np.ndarray) and not hasattr(arr_on_cpu, "__dlpack__"):
            raise RuntimeError(f"input '{name}' is a {type(arr_on_cpu).__name__}, not an array")
        self._bind_input(name, arr_on_cpu)

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Binds memory of the caller's, dense, that must live as long as the binding."""
        require_cpu(device_type)
        self._bind_input(name, at_address(buffer_ptr, element_type, shape))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._bind_input(name, ortvalue)

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Asks for an output; with ``buffer_ptr``, in memory of the caller's, of that type and shape."""
        require_cpu(device_type)
        if buffer_ptr is None:
            self._buffers[name] = None
        elif element_type is None or shape is None:
            raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
        else:
            self._buffers[name] = at_address(buffer_ptr, element_type, shape)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Asks for an output in the memory of a tensor."""
        self._buffers[name] = ortvalue._tensor()

    def _run(self, options: RunOptions | None) -> None:
        if not self._buffers:
            raise RuntimeError("Error in execution: At least one output should be requested.")
        session = self._session
        try:
            positions = session._selected(list(self._buffers))
            results = session._run(session._in_order(self._inputs), options)
            values = [OrtValue(results[i], session._outputs[i].type) for i in positions]
            for i, (name, buffer) in enumerate(self._buffers.items()):
                if buffer is not None:
                    values[i] = _copied(name, values[i], buffer)
        except (anfora.Error, ValueError) as error:
            raise RuntimeError(f"Error in execution: {error}") from error
        self._results = values

    def get_outputs(self) -> list[OrtValue]:
        """Of the last run, in the order in which they were bound."""
        return list(self._results)

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Of the last run, as :meth:`InferenceSession.run` gives them."""
        return [as_onnxruntime_gives(value._data) for value in self._results]

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._buffers.clear()
        self._results = []

    def synchronize_inputs(self) -> None:
        """Accepted: there is no device to wait for."""

    def synchronize_outputs(self) -> None:
        """Accepted: there is no device to wait for."""


def _copied(name: str, result: OrtValue, buffer: np.ndarray[Any, Any]) -> OrtValue:
    array = result._tensor()
    if array.dtype != buffer.dtype or array.shape != buffer.shape:
        raise InvalidArgument(f"output '{name}' is {array.dtype}{list(array.shape)}, "
                              f"the memory bound for it {buffer.dtype}{list(buffer.shape)}")
    np.copyto(buffer, array)
    return OrtValue(buffer)


def _with_dimensions(model: anfora.Model, sizes: Mapping[str, int]) -> anfora.Model:
    """The model with these sizes in the place of names of dimensions; names that no input has are passed over."""
    named = {dim for info in model.inputs for dim in info.shape or () if isinstance(dim, str)}
    dims = {name: size for name, size in sizes.items() if name in named}
    return model.optimize(dims=dims, passes=["dce"], math="exact") if dims else model


def _optimized(model: anfora.Model, level: GraphOptimizationLevel) -> anfora.Model:
    """As ONNX Runtime writes models: from "extended" on with its own operators."""
    if level == GraphOptimizationLevel.ORT_DISABLE_ALL:
        return model
    is_basic = level == GraphOptimizationLevel.ORT_ENABLE_BASIC
    return model.optimize(target="onnx" if is_basic else "onnxruntime", math=level.math)

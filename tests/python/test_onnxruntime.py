"""anfora.onnxruntime alone: what works without ONNX Runtime at hand."""

from __future__ import annotations

import gc
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from models import ENDLESS, LINEAR, parse
from sessions import X, options, session, with_default

import anfora
import anfora.onnxruntime as ours
import anfora.onnxruntime.capi.onnxruntime_pybind11_state as state


@pytest.fixture
def made() -> Any:
    return session(ours, with_default())


def test_run(made: Any) -> None:
    y, z = made.run(None, {"x": X})
    np.testing.assert_array_equal(y, X + [1, 2, 3])
    np.testing.assert_array_equal(z, np.maximum(y, 0))
    np.testing.assert_array_equal(made.run(["y"], {"x": X, "w": np.zeros(3, np.float32)})[0], X)
    assert [out.tolist() for out in made.run(["z", "y"], {"x": X})] == [z.tolist(), y.tolist()]


def test_shorter_name() -> None:
    assert anfora.InferenceSession is ours.InferenceSession


def test_profile(made: Any, tmp_path: pathlib.Path) -> None:
    profiled = options(ours)
    profiled.enable_profiling = True
    profiled.profile_file_prefix = str(tmp_path / "times")
    profiling = ours.InferenceSession(with_default(), profiled)
    profiling.run(None, {"x": X})
    assert profiling.get_profiling_start_time_ns() > 0
    path = profiling.end_profiling()
    assert profiling.end_profiling() == ""
    events = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    names = [event["name"] for event in events if event["cat"] == "Session"]
    assert names == ["model_loading_array", "session_initialization", "model_run"]
    nodes = [event for event in events if event["cat"] == "Node"]
    assert nodes
    run = events[-1]
    for event in nodes:
        assert event["name"].endswith("_kernel_time")
        assert event["args"]["provider"] == "CPUExecutionProvider"
        assert run["ts"] <= event["ts"]
        assert event["ts"] + event["dur"] <= run["ts"] + run["dur"] + 1
    assert nodes[0]["args"]["op_name"] == "Add"
    assert nodes[0]["args"]["input_type_shape"] == [{"float": [2, 3]}, {"float": [3]}]
    os.remove(path)
    another = ours.InferenceSession(with_default(), profiled)
    del another
    gc.collect()
    assert len(list(tmp_path.iterdir())) == 1
    assert made.end_profiling() == ""


@pytest.mark.parametrize("level", ours.GraphOptimizationLevel)
def test_optimized_model(tmp_path: pathlib.Path, level: ours.GraphOptimizationLevel) -> None:
    saving = options(ours)
    saving.graph_optimization_level = level
    saving.optimized_model_filepath = str(tmp_path / "model.onnx")
    first = ours.InferenceSession(parse(LINEAR).SerializeToString(), saving)
    again = ours.InferenceSession(saving.optimized_model_filepath)
    x = np.ones((2, 4), np.float32)
    for mine, other in zip(first.run(None, {"x": x}), again.run(None, {"x": x})):
        np.testing.assert_array_equal(mine, other)


def test_run_async(made: Any) -> None:
    done = threading.Event()
    seen: list[Any] = []

    def callback(results: list[Any], data: Any, error: str) -> None:
        seen.append((len(results), data, error, threading.current_thread() is threading.main_thread()))
        done.set()

    made.run_async(None, {"x": X}, callback, "data")
    assert done.wait(60)
    assert seen == [(2, "data", "", False)]
    done.clear()
    made.run_async(None, {"x": X[0]}, callback, None)
    assert done.wait(60)
    assert seen[1][0] == 0
    assert "'x'" in seen[1][2]
    with pytest.raises(ValueError):
        made.run_async(None, {}, callback, None)


def test_terminate(made: Any) -> None:
    stop = ours.RunOptions()
    stop.terminate = True
    with pytest.raises(state.Fail):
        made.run(None, {"x": X}, stop)
    stop.terminate = False
    assert len(made.run(None, {"x": X}, stop)) == 2


@pytest.fixture
def endless() -> Any:
    return session(ours, parse(ENDLESS).SerializeToString())


def test_terminate_a_run_under_way(endless: Any) -> None:
    for _ in range(2):
        stop = ours.RunOptions()
        threading.Timer(0.2, setattr, (stop, "terminate", True)).start()
        begin = time.process_time()
        with pytest.raises(state.Fail, match="terminate flag"):
            endless.run(None, {"x": np.ones(4, np.float32)}, stop)
        assert time.process_time() - begin < 1.2


def test_terminate_an_asynchronous_run(endless: Any) -> None:
    errors: queue.Queue[str] = queue.Queue()
    stop = ours.RunOptions()
    endless.run_async(None, {"x": np.ones(4, np.float32)}, lambda _, __, error: errors.put(error), None, stop)
    stop.terminate = True
    assert "terminate flag" in errors.get(timeout=60)


def test_seed() -> None:
    noise = parse("noise (float[N] x) => (float[N] y) { y = RandomNormalLike(x) }").SerializeToString()
    drawn = []
    for _ in range(2):
        ours.set_seed(7)
        made = session(ours, noise)
        drawn.append([made.run(None, {"x": X[0]})[0].tolist() for _ in range(2)])
    ours._process.seed = None
    assert drawn[0] == drawn[1]
    assert drawn[0][0] != drawn[0][1]


@pytest.mark.parametrize("work", [
    lambda: options(ours).register_custom_ops_library("libops.so"),
    lambda: options(ours).add_initializer("w", None),
    lambda: ours.RunOptions().add_active_adapter(None),
    lambda: session(ours, parse("odd (float[N] x) => (float[N] y) { y = my.own.Operator(x) }")),
])
def test_what_is_not_there_says_so(work: Callable[[], Any]) -> None:
    with pytest.raises(ours.NotImplemented):
        work()


def test_devices_that_are_not_there() -> None:
    with pytest.raises(RuntimeError):
        ours.OrtValue.ortvalue_from_numpy(X, "cuda", 0)
    with pytest.warns(UserWarning):
        made = ours.InferenceSession(with_default(), providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    assert made.get_providers() == ["CPUExecutionProvider"]


def test_interrupt(endless: Any) -> None:
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(KeyboardInterrupt):
        endless.run(None, {"x": np.ones(4, np.float32)})


def test_in_the_place_of_onnxruntime() -> None:
    program = """if True:
        import sys, anfora.onnxruntime
        sys.modules["onnxruntime"] = anfora.onnxruntime
        import onnxruntime as ort
        from onnxruntime import InferenceSession, SessionOptions
        from onnxruntime.capi import _pybind_state as C
        from onnxruntime.capi.onnxruntime_inference_collection import OrtValue
        from onnxruntime.capi.onnxruntime_pybind11_state import NoSuchFile
        import onnxruntime.capi.onnxruntime_pybind11_state as state
        assert OrtValue is ort.OrtValue and C.SessionOptions is SessionOptions
        try:
            InferenceSession("/no/such/file.onnx", providers=["CPUExecutionProvider"])
        except NoSuchFile:
            pass
        try:
            InferenceSession(b"no model")
        except state.InvalidProtobuf:
            pass
    """
    subprocess.run([sys.executable, "-c", program], check=True)

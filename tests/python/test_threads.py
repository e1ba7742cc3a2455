"""Threads, cancellation, signals, forks."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import soak
from models import ENDLESS, LINEAR, chain, compiled, parse

import anfora


def test_soak() -> None:
    assert soak.main(3) == []


def test_other_threads_go_on_during_a_run() -> None:
    executable = compiled("long (float[N, N] x) => (float[N, N] y) { a = MatMul(x, x)  b = MatMul(a, x)  y = MatMul(b, x) }")
    ticks: list[float] = []

    def tick() -> None:
        while not done.wait(0.001):
            ticks.append(time.perf_counter())

    done = threading.Event()
    thread = threading.Thread(target=tick)
    thread.start()
    executable(np.zeros((1500, 1500), np.float32))
    done.set()
    thread.join()
    assert len(ticks) > 10


def test_cancelled_by_another_thread() -> None:
    executable = compiled(ENDLESS)
    cancellation = anfora.Cancellation()
    threading.Timer(0.2, cancellation.cancel).start()
    begin = time.process_time()
    with pytest.raises(anfora.Cancelled):
        executable.run([np.ones(8, np.float32)], cancellation=cancellation)
    assert time.process_time() - begin < 1.2
    assert cancellation.is_cancelled


def from_timer() -> None:
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)


def from_thread() -> None:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()


@pytest.fixture(params=[from_timer, from_thread])
def interrupted(request: pytest.FixtureRequest) -> Callable[[Callable[[], object]], None]:
    """Work ends within a second of a signal that a timer or another thread sends: of the process's time, whatever else runs."""
    def run(work: Callable[[], object]) -> None:
        begin = time.process_time()
        request.param()
        with pytest.raises(KeyboardInterrupt):
            while True:
                work()
        assert time.process_time() - begin < 1.3

    return run


def test_interrupted_run(interrupted: Callable[[Callable[[], object]], None]) -> None:
    executable = compiled(ENDLESS)
    x = np.ones(8, np.float32)
    interrupted(lambda: executable(x))
    other = compiled(LINEAR)
    assert other(np.ones((1, 4), np.float32))[0].shape == (1, 3)


def test_interrupted_optimize_and_compile(interrupted: Callable[[Callable[[], object]], None]) -> None:
    model = anfora.load(chain(200_000))
    interrupted(model.optimize)
    interrupted(model.compile)
    assert len(model.nodes) == 200_001


def in_child(work: Callable[[], object]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's, that the process has threads
        child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")


def test_fork_after_import() -> None:
    in_child(lambda: anfora.load(parse(LINEAR)).compile(threads=2)(np.ones((2, 4), np.float32)))


def test_fork_after_runs_with_threads() -> None:
    executable = anfora.load(parse("long (float[N, N] x) => (float[N, N] y) { y = MatMul(x, x) }")).compile(threads=2)
    x = np.ones((300, 300), np.float32)
    executable(x)
    in_child(lambda: np.testing.assert_array_equal(executable(x), 300))

"""Eight threads run the same executables with changing shapes: every result has the bits of a single thread's, memory stays flat.

    PYTHONPATH=build/release/python python tests/python/soak.py 600

prints runs and memory, and exits with 1 where that does not hold. The suite runs a few seconds of it.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from typing import Any

import numpy as np
from models import parse

import anfora

THREADS = 8

CONVOLUTIONS = """net (float[N, 3, H, W] x) => (float[N, 8] y)
<float[8, 3, 3, 3] w = {""" + ", ".join(f"{0.01 * (i % 17 - 8):.2f}" for i in range(216)) + """}>
{ c = Conv<pads = [1, 1, 1, 1]>(x, w)  r = Relu(c)  p = GlobalAveragePool(r)  y = Flatten(p) }"""
ATTENTION = """attention (float[N, L, D] x) => (float[N, L, D] y, int64[3] s)
{ t = Transpose<perm = [0, 2, 1]>(x)  p = MatMul(x, t)  a = Softmax(p)  y = MatMul(a, x)  s = Shape(y) }"""
LOOP = """loop (float[N] x, int64 trips) => (float[N] y) <bool keep = {1}>
{
  y = Loop (trips, keep, x) <body = step (int64 i, bool c, float[N] a) => (bool c2, float[N] b) {
    c2 = Identity(c)  s = Sin(a)  b = Add(s, a)
  }>
}"""
WORDS = """words (string[N] x, seq(float[*]) s) => (string[M] y, float[*] z)
{ y = Unique(x)  z = ConcatFromSequence<axis = 0>(s) }"""


def cases() -> list[tuple[anfora.Executable, list[Any]]]:
    """Executables, each with inputs of many sizes."""
    random = np.random.default_rng(0)

    def floats(*shape: int) -> Any:
        return random.normal(size=shape).astype(np.float32)

    sizes = range(1, 13)
    inputs: list[tuple[str, int, list[Any]]] = [
        (CONVOLUTIONS, 1, [(floats(1 + i % 3, 3, 8 + i, 30 - i),) for i in sizes]),
        (CONVOLUTIONS, 2, [(floats(1 + i % 3, 3, 20 + i, 40 - i),) for i in sizes]),
        (ATTENTION, 1, [(floats(1 + i % 2, 5 * i, 8 + i),) for i in sizes]),
        (ATTENTION, 2, [(floats(1 + i % 2, 5 * i, 8 + i),) for i in sizes]),
        (LOOP, 1, [(floats(7 * i), np.array(i)) for i in sizes]),
        (WORDS, 1, [([f"word {k % (i + 1)}" for k in range(3 * i)], [floats(i, 2), floats(2, 2)]) for i in sizes]),
    ]
    return [(anfora.load(parse(text)).compile(threads=threads), arguments) for text, threads, arguments in inputs]


def bits(result: Any) -> Any:
    results = result if isinstance(result, tuple) else (result,)
    return [array.tolist() if array.dtype == object else (array.shape, array.tobytes()) for array in results]


def resident() -> int:
    """Bytes of memory that the process has now."""
    gc.collect()
    with open("/proc/self/status", encoding="ascii") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmRSS"))


class Soak:
    def __init__(self) -> None:
        self._work = [(run, inputs) for run, all_inputs in cases() for inputs in all_inputs]
        self._expected = [bits(run(*inputs)) for run, inputs in self._work]
        self.runs = 0
        self.different: list[int] = []

    def for_seconds(self, seconds: float) -> None:
        """At least once all of the work by every thread."""
        end = time.monotonic() + seconds
        counts = [0] * THREADS

        def work(thread: int) -> None:
            i = thread * len(self._work) // THREADS
            step = (1, 5, 7, 11, 13, 17, 19, 23)[thread]  # none divides the number of cases
            while counts[thread] < len(self._work) or time.monotonic() < end:
                run, inputs = self._work[i]
                if bits(run(*inputs)) != self._expected[i]:
                    self.different.append(i)
                i = (i + step) % len(self._work)
                counts[thread] += 1

        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.runs += sum(counts)


#: What allocators keep of memory that comes and goes.
TOLERATED = 16 << 20


def main(seconds: float) -> list[str]:
    """What was wrong."""
    soak = Soak()
    soak.for_seconds(seconds / 10)
    before = resident()
    peaks = []
    for _ in range(9):
        soak.for_seconds(seconds / 10)
        peaks.append(resident())
    print(f"{soak.runs} runs by {THREADS} threads, {len(soak.different)} different; "
          f"memory {before >> 20} MB, then {', '.join(str(peak >> 20) for peak in peaks)}")
    wrong = [f"case {i} gave another result" for i in sorted(set(soak.different))]
    if max(peaks) > before + TOLERATED:
        wrong.append(f"memory grew from {before} to {max(peaks)} bytes")
    return wrong


if __name__ == "__main__":
    found = main(float(sys.argv[1]))
    print("\n".join(found))
    sys.exit(bool(found))

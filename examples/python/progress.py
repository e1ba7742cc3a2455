"""What the examples that train show while they run, and afterwards."""
from __future__ import annotations

import argparse
import sys
import time
from typing import Iterator


class Progress:
    """A bar on standard error, where that is a terminal; and the losses."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.losses: list[float] = []

    def __iter__(self) -> Iterator[int]:
        begin = time.perf_counter()
        for i in range(self.steps):
            yield i
            if sys.stderr.isatty():
                bar = "█" * (40 * (i + 1) // self.steps)
                rate = (i + 1) / (time.perf_counter() - begin)
                print(f"\r{bar:░<40} {i + 1}/{self.steps}  loss {self.losses[-1]:.3f}  {rate:.0f} steps/s", end="", file=sys.stderr)
        if sys.stderr.isatty():
            print(file=sys.stderr)


def options(description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--plot", metavar="PNG", help="a file for the curve of the loss; needs matplotlib")
    return parser.parse_args()


def plot(losses: list[float], file: str) -> None:
    from matplotlib import pyplot

    pyplot.plot(losses)
    pyplot.yscale("log")
    pyplot.xlabel("step")
    pyplot.ylabel("loss")
    pyplot.savefig(file)

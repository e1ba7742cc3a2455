"""Gradients of loops: what they keep, and with few snapshots, how often iterations are repeated.

loops_test.py ANFORA
"""

import json
import math
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

COUNTED = """module { outputs = ["y"] }
graph @main(%x: f64[], %n: i64[]) { return call @loop(0, %x, %n) }
graph @loop(%i, %v, %m) { return call Switch(Less(%i, %m), @body, @exit)() }
graph @body() in @loop { return call @loop(Add(%i, 1), Tanh(%v), %m) }
graph @exit() in @loop { return %v }
"""
# Nothing tells how often it turns.
UNKNOWN = """module { outputs = ["y"] }
graph @main(%x: f64[], %n: i64[]) { return call @loop(%n, %x) }
graph @loop(%i, %v) { return call Switch(Equal(%i, 0), @exit, @body)() }
graph @body() in @loop { return call @loop(Sub(%i, 1), Tanh(%v)) }
graph @exit() in @loop { return %v }
"""
READS = """module { outputs = ["y"] }
graph @main(%x: f64[N], %n: i64[]) { return call @loop(0, 0.0, %x, %n) }
graph @loop(%i, %s, %v, %m) { return call Switch(Less(%i, %m), @body, @exit)() }
graph @body() in @loop { return call @loop(Add(%i, 1), Add(%s, Sin(Gather(%v, %i))), %v, %m) }
graph @exit() in @loop { return %s }
""".replace("0.0", "f64[] 0.0")
LARGE = UNKNOWN.replace("%x: f64[]", "%x: f64[131072]")


def beta(snapshots, repetitions):
    return math.comb(snapshots + repetitions, snapshots)


def repetitions(iterations, snapshots):
    """The least that suffice."""
    return next(t for t in range(iterations + 1) if beta(snapshots, t) >= iterations)


def least_runs(iterations, snapshots):
    """Of an iteration before the one that is differentiated, the first ones included (Griewank and Walther)."""
    t = repetitions(iterations, snapshots)
    return t * iterations - (beta(snapshots + 1, t - 1) if t else 0)


def online_runs(iterations, snapshots):
    """The same where the number is not known before (Wang, Moin and Iaccarino): each state is stored, in the place of the last snapshot that
    is dispensable: of a lower level than one behind it."""
    stored = [(0, math.inf)]
    for position in range(1, iterations):
        level = 0
        if len(stored) > snapshots:
            dispensable = [i for i, (_, own) in enumerate(stored) if any(own < later for _, later in stored[i + 1:])]
            replaced = stored.pop(dispensable[-1] if dispensable else -1)
            level = 0 if dispensable else replaced[1] + 1
        stored.append((position, level))
    begins = [position for position, _ in stored]
    lengths = [end - begin for begin, end in zip(begins, begins[1:] + [iterations])]
    return iterations - 1 + sum(least_runs(length, max(snapshots - i, 1)) for i, length in enumerate(lengths))


def anfora(*arguments):
    done = subprocess.run([ANFORA, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())


class Loops(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_gradient(self, text, snapshots, x, n, *options):
        model = self.folder / "model.ir"
        model.write_text(text)
        np.savez(self.folder / "in.npz", x=x, n=np.array(n))
        anfora("grad", model, *(["--checkpoints", snapshots] if snapshots else []), "-o", self.folder / "gradient.ir")
        anfora("run", self.folder / "gradient.ir", "--input", self.folder / "in.npz", "--output", self.folder / "out.npz", *options)
        return np.load(self.folder / "out.npz")["x.grad"]

    def runs(self, *operators):
        """Of operators, in the last run with a profile."""
        events = json.loads((self.folder / "trace.json").read_text())["traceEvents"]
        return sum(str(event.get("name")).startswith(operators) for event in events)

    def count(self, text, snapshots, n):
        """Iterations that are repeated. Each has one Tanh going forward, and one when it is differentiated."""
        found = self.run_gradient(text, snapshots, np.array(0.3), n, "--profile", self.folder / "trace.json")
        runs = self.runs("Tanh")
        self.assertEqual(found, self.run_gradient(text, None, np.array(0.3), n))
        return runs - 2 * n

    def test_known_number(self):
        for snapshots in (1, 2, 3, 5, 30):
            for n in (1, 2, 7, 20, 41):
                with self.subTest(snapshots=snapshots, n=n):
                    self.assertEqual(self.count(COUNTED, snapshots, n), least_runs(n, snapshots) - (n - 1))

    def test_unknown_number(self):
        for snapshots in (1, 2, 4, 9, 30):
            for n in (0, 1, 2, 7, 20, 41):
                with self.subTest(snapshots=snapshots, n=n):
                    self.assertEqual(self.count(UNKNOWN, snapshots, n), online_runs(n, snapshots) - (n - 1) if n else 0)

    def test_published_counts(self):
        """As few as for a known number up to β(s, 2) iterations, and at each β(s, t) (Stumm and Walther); in between, t repetitions suffice."""
        for snapshots in (1, 2, 3, 5, 8):
            for n in range(1, 300):
                t = repetitions(n, snapshots)
                with self.subTest(snapshots=snapshots, n=n):
                    runs = online_runs(n, snapshots)
                    self.assertGreaterEqual(runs, least_runs(n, snapshots))
                    self.assertLessEqual(runs, n * max(t, 1))
                    if t <= 2 or n == beta(snapshots, t):
                        self.assertEqual(runs, least_runs(n, snapshots))
        for snapshots, n in ((3, beta(3, 2)), (3, beta(3, 3)), (4, beta(4, 3)), (10, beta(10, 2))):
            with self.subTest(snapshots=snapshots, n=n):
                self.assertEqual(self.count(UNKNOWN, snapshots, n), least_runs(n, snapshots) - (n - 1))

    def test_many_iterations(self):
        for snapshots, n in ((3, 1000), (30, 1000), (300, 30_000)):
            with self.subTest(snapshots=snapshots, n=n):
                self.assertEqual(self.run_gradient(UNKNOWN, snapshots, np.array(0.3), n), self.run_gradient(UNKNOWN, None, np.array(0.3), n))

    def test_reads_of_a_tensor(self):
        """Its sensitivity is made once, and updated by each iteration."""
        made = []
        for n in (10, 50):
            x = np.linspace(0, 1, n)
            np.testing.assert_allclose(self.run_gradient(READS, None, x, n, "--profile", self.folder / "trace.json"), np.cos(x))
            made.append(self.runs("ConstantOfShape", "Expand"))
        self.assertEqual(made[0], made[1])

    def test_memory(self):
        """Of states of a megabyte."""
        peaks = []
        for snapshots, n in ((4, 200), (4, 400), (None, 200)):
            self.run_gradient(LARGE, snapshots, np.linspace(0, 1, 131072), n)
            script = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); " \
                     "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)"
            command = [ANFORA, "run", self.folder / "gradient.ir", "--input", self.folder / "in.npz"]
            peaks.append(int(subprocess.run([sys.executable, "-c", script, *map(str, command)], capture_output=True, text=True, check=True).stdout))
        self.assertLess(peaks[1], peaks[0] + 10)
        self.assertGreater(peaks[2], peaks[0] + 150)


if __name__ == "__main__":
    ANFORA = sys.argv.pop(1)
    unittest.main()

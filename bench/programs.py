#!/usr/bin/env python3
"""Programs and their gradients in Anfora, JAX and MindSpore's graph mode: results, nodes, time to compile.

usage: programs.py [--jax PYTHON] [--mindspore PYTHON] [--only NAME]

Runs with a Python that has the package; PYTHON is one that has the peer. Each framework runs in a process of its own, the programs
one after another, after one that is not counted. A peer that cannot express a program, or fails, has a dash there.

    time     from the function to its first result, less the second call's time, in milliseconds
    nodes    applied nodes: of Anfora's optimized module, of the graph that MindSpore hands to its backend ("validate")
    longer   the time to compile for 10 times as many iterations, ÷ the time for the first number
"""
import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

REPETITIONS = 3  # of a compilation, of which the median counts


def arrays():
    """The arguments of the programs, by name."""
    random = numpy.random.default_rng(0)

    def normal(*shape):
        return (random.standard_normal(shape) / 2).astype(numpy.float32)

    x, w, b = normal(4, 8), normal(8, 8), normal(8)
    sequence = normal(12, 8)
    return {
        "dense_loop": ((x, w, b), 6), "mlp": ((x, w, b, normal(8, 3), normal(3)), None), "cross_entropy": ((x, normal(8, 5), normal(4, 5)), None),
        "layer_norm": ((x, b, normal(8)), None), "attention": ((x, w, normal(8, 8), normal(8, 8)), None), "logistic": ((x, b, normal(4)), None),
        "horner": ((b,), None), "newton": ((numpy.float32(7.0),), None), "rnn": ((sequence, w, normal(8, 8)), 12),
        "power_iteration": ((w @ w.T, b), 8), "squares": ((sequence,), 12), "outer_sum": ((b, normal(6)), 8), "until_small": ((b,), None),
        "power": ((numpy.float32(1.1),), 9), "composed": ((b,), None), "mapped": ((b,), None), "branch": ((b,), None),
        "tent_map": ((numpy.float32(0.3),), 20), "heat": ((normal(64),), 10), "gru": ((sequence, normal(8, 24), normal(8, 24)), 12),
    }


def programs(np, loops=None):
    """Functions of the arguments, and of a number of iterations where there is one. `loops`: JAX's control flow, for what it cannot take as
    it is written."""
    def softmax(x):
        e = np.exp(x - np.max(x, axis=-1, keepdims=True))
        return e / np.sum(e, axis=-1, keepdims=True)

    def mlp(x, w, b, v, c):
        return np.sum(np.tanh(np.matmul(x, w) + b) @ v + c)

    def cross_entropy(x, w, t):
        return -np.sum(np.log(softmax(np.matmul(x, w))) * t)

    def layer_norm(x, scale, bias):
        centered = x - np.mean(x, axis=-1, keepdims=True)
        return np.sum(np.tanh(centered / np.sqrt(np.mean(centered * centered, axis=-1, keepdims=True) + 1e-5) * scale + bias))

    def attention(x, q, k, v):
        scores = np.matmul(np.matmul(x, q), np.transpose(np.matmul(x, k))) / math.sqrt(8)
        return np.sum(np.matmul(softmax(scores), np.matmul(x, v)))

    def logistic(x, w, y):
        return np.sum(np.log(1 + np.exp(-y * np.matmul(x, w))))

    def horner(x):
        y = x * 0
        for c in (1.0, -0.5, 0.25, 2.0):
            y = y * x + c
        return np.sum(y)

    def composed(x):
        def twice(f):
            return lambda v: f(f(v))

        return np.sum(twice(twice(lambda v: np.sin(v) + v))(x))

    def mapped(x):
        total = 0.0
        for f in (np.sin, np.cos, np.tanh):
            total = total + np.sum(f(x) * x)
        return total

    straight = dict(mlp=mlp, cross_entropy=cross_entropy, layer_norm=layer_norm, attention=attention, logistic=logistic, horner=horner,
                    composed=composed, mapped=mapped)
    if loops:
        return {**straight, **in_jax(np, loops)}

    def dense_loop(x, w, b, n):
        i = 0
        while i < n:
            if np.sum(x) > 0:
                x = np.tanh(np.matmul(x, w) + b)
            else:
                x = np.matmul(x, w) - b
            i = i + 1
        return np.sum(x)

    def newton(a):
        y = a
        while np.abs(y * y - a) > 1e-4:
            y = (y + a / y) / 2
        return y

    def rnn(x, w, u, n):
        h = x[0] * 0
        for t in range(n):
            h = np.tanh(np.matmul(x[t], w) + np.matmul(h, u))
        return np.sum(h)

    def power_iteration(a, v, n):
        for _ in range(n):
            v = np.matmul(a, v)
            v = v / np.sqrt(np.sum(v * v))
        return np.sum(v * np.matmul(a, v))

    def squares(x, n):
        s = x[0] * 0
        for i in range(n):
            s = s + x[i] * x[i]
        return np.sum(s)

    def outer_sum(x, y, n):
        s = x[0] * 0
        for i in range(n):
            for j in range(6):
                s = s + x[i] * y[j]
        return s

    def until_small(x):
        while True:
            x = x * 0.5
            if np.sum(x * x) < 0.01:
                break
        return np.sum(x)

    def power(x, n):
        if n == 0:
            return x * 0 + 1
        return x * power(x, n - 1)

    def branch(x):
        if np.sum(x) > 0:
            return np.sum(x * x)
        return np.sum(np.abs(x))

    def tent_map(x, n):
        for _ in range(n):
            if x < 0.5:
                x = x * 1.5
            else:
                x = 1.5 - x * 1.5
        return x

    def heat(u, n):
        for _ in range(n):
            u = u + 0.1 * (np.roll(u, 1) - 2 * u + np.roll(u, -1))
        return np.sum(u * u)

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    def gru(x, w, u, n):
        h = x[0] * 0
        for t in range(n):
            a = np.matmul(x[t], w)
            c = np.matmul(h, u)
            r = sigmoid(a[:8] + c[:8])
            z = sigmoid(a[8:16] + c[8:16])
            h = (1 - z) * np.tanh(a[16:] + r * c[16:]) + z * h
        return np.sum(h)

    return dict(straight, dense_loop=dense_loop, newton=newton, rnn=rnn, power_iteration=power_iteration, squares=squares, outer_sum=outer_sum,
                until_small=until_small, power=power, branch=branch, tent_map=tent_map, heat=heat, gru=gru)


def in_jax(np, lax):
    """With JAX's control flow. Loops of a known number are scans, which it differentiates."""
    def scan(step, state, n):
        return lax.scan(lambda carried, i: (step(carried, i), None), state, np.arange(n))[0]

    def dense_loop(x, w, b, n):
        return np.sum(scan(lambda x, _: lax.cond(np.sum(x) > 0, lambda: np.tanh(x @ w + b), lambda: x @ w - b), x, n))

    def newton(a):
        return lax.while_loop(lambda y: np.abs(y * y - a) > 1e-4, lambda y: (y + a / y) / 2, a)

    def rnn(x, w, u, n):
        return np.sum(scan(lambda h, t: np.tanh(x[t] @ w + h @ u), x[0] * 0, n))

    def power_iteration(a, v, n):
        def step(v, _):
            v = a @ v
            return v / np.sqrt(np.sum(v * v))

        v = scan(step, v, n)
        return np.sum(v * (a @ v))

    def squares(x, n):
        return np.sum(scan(lambda s, i: s + x[i] * x[i], x[0] * 0, n))

    def outer_sum(x, y, n):
        return scan(lambda s, i: scan(lambda s, j: s + x[i] * y[j], s, 6), x[0] * 0, n)

    def until_small(x):
        return np.sum(lax.while_loop(lambda x: np.sum(x * x) >= 0.01, lambda x: x * 0.5, x * 0.5))

    def branch(x):
        return lax.cond(np.sum(x) > 0, lambda: np.sum(x * x), lambda: np.sum(np.abs(x)))

    def tent_map(x, n):
        return scan(lambda x, _: lax.cond(x < 0.5, lambda: x * 1.5, lambda: 1.5 - x * 1.5), x, n)

    def heat(u, n):
        return np.sum(scan(lambda u, _: u + 0.1 * (np.roll(u, 1) - 2 * u + np.roll(u, -1)), u, n) ** 2)

    def gru(x, w, u, n):
        def sigmoid(x):
            return 1 / (1 + np.exp(-x))

        def step(h, t):
            a, c = x[t] @ w, h @ u
            r, z = sigmoid(a[:8] + c[:8]), sigmoid(a[8:16] + c[8:16])
            return (1 - z) * np.tanh(a[16:] + r * c[16:]) + z * h

        return np.sum(scan(step, x[0] * 0, n))

    return dict(dense_loop=dense_loop, newton=newton, rnn=rnn, power_iteration=power_iteration, squares=squares, outer_sum=outer_sum,
                until_small=until_small, branch=branch, tent_map=tent_map, heat=heat, gru=gru)


# Frameworks: each gives what compiles a function, made anew since some know one that they have seen, and what counts its nodes


class Anfora:
    def __init__(self):
        os.environ["ANFORA_CACHE"] = "off"
        import anfora

        self.anfora, self.programs = anfora, lambda: programs(numpy)
        self.array = lambda value: value

    def compiled(self, name, is_gradient):
        function = self.programs()[name]
        return self.anfora.grad(function) if is_gradient else self.anfora.jit(function)

    def nodes(self, compiled, arguments):
        text = compiled.lower(*arguments).optimize()._core.text()
        return sum(re.match(r"\s+%\S+ = ", line) is not None for line in text.splitlines())


class Jax:
    def __init__(self):
        import jax

        self.jax, self.programs, self.array = jax, lambda: programs(jax.numpy, jax.lax), jax.numpy.asarray

    def compiled(self, name, is_gradient):
        function = self.programs()[name]
        static = (len(arrays()[name][0]),) if arrays()[name][1] is not None else ()
        made = self.jax.jit(self.jax.grad(function) if is_gradient else function, static_argnums=static)
        return lambda *arguments: self.jax.block_until_ready(made(*arguments))

    def nodes(self, compiled, arguments):
        return None


class MindSpore:
    def __init__(self):
        self.folder = tempfile.mkdtemp()
        os.environ.update(MS_DEV_SAVE_GRAPHS="1", MS_DEV_SAVE_GRAPHS_PATH=self.folder, GLOG_v="4")
        import mindspore
        import mindspore.numpy

        mindspore.set_context(mode=mindspore.GRAPH_MODE)
        self.mindspore, self.programs, self.array = mindspore, lambda: programs(mindspore.numpy), mindspore.Tensor

    def compiled(self, name, is_gradient):
        function = self.programs()[name]
        return self.mindspore.jit(self.mindspore.grad(function) if is_gradient else function)

    def nodes(self, compiled, arguments):
        files = sorted(pathlib.Path(self.folder).rglob("*validate*.ir"), key=lambda file: file.stat().st_mtime)
        return len(re.findall(r"^\s*%\d+\(", files[-1].read_text(), re.MULTILINE)) if files else None


FRAMEWORKS = {"anfora": Anfora, "jax": Jax, "mindspore": MindSpore}


def timed(call):
    begin = time.perf_counter()
    result = call()
    return result, 1e3 * (time.perf_counter() - begin)


def measure(framework, name, is_gradient):
    """{"value", "time", "longer", "nodes"}, or {"error"}."""
    given, iterations = arrays()[name]

    def compile_for(iterations):
        times = []
        for _ in range(REPETITIONS):
            compiled = framework.compiled(name, is_gradient)
            arguments = [framework.array(value) for value in given] + ([] if iterations is None else [iterations])
            value, first = timed(lambda: compiled(*arguments))
            times.append(first - timed(lambda: compiled(*arguments))[1])
        return numpy.asarray(value), statistics.median(times), compiled, arguments

    try:
        value, milliseconds, compiled, arguments = compile_for(iterations)
        row = {"value": value.tolist(), "time": milliseconds, "nodes": framework.nodes(compiled, arguments), "longer": None}
    except BaseException as error:  # what a peer throws
        return {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:150] if str(error).strip() else ''}"}
    if iterations is not None and name not in ("power", "squares", "rnn", "outer_sum", "gru"):  # those go over an array of that length
        row["longer"] = compile_for(10 * iterations)[1] / milliseconds
    return row


def work(framework_name, only):
    framework = FRAMEWORKS[framework_name]()
    measure(framework, "branch", True)  # what happens once a process
    for name in framework.programs():
        for is_gradient in (False, True):
            if only in name:
                print("row", json.dumps([name, is_gradient, measure(framework, name, is_gradient)]), flush=True)


def rows_of(framework, python, only):
    done = subprocess.run([python, __file__, "--work", framework, "--only", only], capture_output=True, text=True)
    rows = [json.loads(line[4:]) for line in done.stdout.splitlines() if line.startswith("row ")]
    if not rows:
        sys.exit(f"{framework}: {done.stderr[-500:]}")
    return {(name, is_gradient): row for name, is_gradient, row in rows}


def is_same(a, b):
    return "error" in a or "error" in b or numpy.allclose(a["value"], b["value"], rtol=2e-4, atol=2e-4)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jax", metavar="PYTHON")
    parser.add_argument("--mindspore", metavar="PYTHON")
    parser.add_argument("--only", default="", metavar="NAME")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(options.work, options.only)
    pythons = {"anfora": sys.executable, "jax": options.jax, "mindspore": options.mindspore}
    found = {name: rows_of(name, python, options.only) for name, python in pythons.items() if python}
    peers = [name for name in found if name != "anfora"]

    def cell(row, key):
        value = row.get(key) if row else None
        return "–" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)

    print(f"{'program':28}" + "".join(f"{name + ' ' + key:>16}" for name in found for key in ("ms", "nodes", "longer") if (name, key) != ("jax", "nodes")))
    different, ratios = [], {}
    for program, own in found["anfora"].items():
        line = f"{('gradient of ' if program[1] else '') + program[0]:28}"
        for name in found:
            row = found[name].get(program)
            line += "".join(f"{cell(row, key):>16}" for key in ("time", "nodes", "longer") if (name, key) != ("jax", "nodes"))
            if row and not is_same(own, row):
                different.append((program, name))
        print(line)
        for name in peers:
            row = found[name].get(program, {})
            for key in ("time", "nodes"):
                if row.get(key) and own.get(key):
                    ratios.setdefault((name, key), []).append(own[key] / row[key])
    for (name, key), values in ratios.items():
        print(f"{key} ÷ {name}'s: geometric mean {statistics.geometric_mean(values):.3f}, largest {max(values):.3f}, of {len(values)} programs")
    for name, rows in found.items():
        failed = {program: row["error"] for program, row in rows.items() if "error" in row}
        print(f"{name}: {len(rows) - len(failed)} of {len(found['anfora'])} programs")
        for program, error in failed.items():
            print(f"    {program[0]}{' (gradient)' if program[1] else ''}: {error}")
    print("different results:", different or "none")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Training steps (network, gradient, Adam) in Anfora, PyTorch and JAX: time, memory, and the losses of 100 steps.

usage: training.py [--torch PYTHON] [--jax PYTHON] [--only mlp|cnn|transformer|lstm] [--threads 2] [--cpu-time]

Runs with a Python that has the package; PYTHON is one that has the peer. Each framework runs in a process of its own, in f32, from the same
weights on the same batches. PyTorch's step is compiled (torch.compile); losses are compared with those of eager mode, in f32 and in f64:
steps enlarge rounding, so that the distance from f64 tells how much of a difference is anybody's. With --cpu-time, times are those of all
threads together, which other processes disturb least; one thread is then what compares.
"""
import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time

import numpy

STEPS, RATE = 100, 1e-3
WIDTH, HEADS, LAYERS, LENGTH, CHARACTERS = 64, 4, 2, 64, 96
TURNS, FEATURES, HIDDEN = 32, 64, 128  # of the LSTM


def weights_of(name):
    random = numpy.random.default_rng(0)

    def normal(*shape):
        inputs = shape[0] if len(shape) == 2 else math.prod(shape[1:])
        return (random.standard_normal(shape) / math.sqrt(inputs)).astype(numpy.float32)

    if name == "mlp":
        return [normal(128, 512), normal(512, 512), normal(512, 10), *(numpy.zeros(n, numpy.float32) for n in (512, 512, 10))]
    if name == "cnn":
        return [normal(16, 1, 3, 3), normal(32, 16, 3, 3), normal(32 * 7 * 7, 10), *(numpy.zeros(n, numpy.float32) for n in (16, 32, 10))]
    if name == "lstm":
        return [normal(FEATURES, 4 * HIDDEN), normal(HIDDEN, 4 * HIDDEN), normal(HIDDEN, 10), *(numpy.zeros(n, numpy.float32) for n in (4 * HIDDEN, 10))]
    weights = [normal(CHARACTERS, WIDTH), normal(LENGTH, WIDTH), normal(WIDTH, CHARACTERS)]
    for _ in range(LAYERS):
        weights += [normal(WIDTH, WIDTH) for _ in range(4)] + [normal(WIDTH, 4 * WIDTH), normal(4 * WIDTH, WIDTH)]
    return weights


def batch_of(name, step):
    random = numpy.random.default_rng(1000 + step)
    if name == "transformer":
        text = (numpy.arange(LENGTH + 1) * random.integers(1, 9, (32, 1)) + random.integers(0, CHARACTERS, (32, 1))) % CHARACTERS
        return text[:, :-1].copy(), text[:, 1:].copy()
    shape = {"mlp": (64, 128), "cnn": (64, 1, 28, 28), "lstm": (64, TURNS, FEATURES)}[name]
    x = random.standard_normal(shape).astype(numpy.float32)
    return x, (x.reshape(64, -1)[:, :10]).argmax(1)


def networks(np, conv, pool, softmax, cross_entropy, last_of_lstm):
    """The losses, in the functions of numpy and what it has not."""
    def mlp(p, x, y):
        x = np.maximum(np.matmul(x, p[0]) + p[3], 0)
        x = np.maximum(np.matmul(x, p[1]) + p[4], 0)
        return cross_entropy(np.matmul(x, p[2]) + p[5], y)

    def cnn(p, x, y):
        x = pool(np.maximum(conv(x, p[0], p[3]), 0))
        x = pool(np.maximum(conv(x, p[1], p[4]), 0))
        return cross_entropy(np.matmul(np.reshape(x, (64, 32 * 7 * 7)), p[2]) + p[5], y)

    def normalized(x):
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-6)

    def heads(x):
        return np.transpose(np.reshape(x, (32, LENGTH, HEADS, WIDTH // HEADS)), (0, 2, 1, 3))

    def transformer(p, x, y):
        later = np.triu(np.ones((LENGTH, LENGTH), dtype=np.float32), 1) * -1e9
        x = p[0][x] + p[1]
        for i in range(LAYERS):
            q, k, v, join, up, down = p[3 + 6 * i:9 + 6 * i]
            z = normalized(x)
            scores = np.matmul(heads(np.matmul(z, q)), np.transpose(heads(np.matmul(z, k)), (0, 1, 3, 2))) / math.sqrt(WIDTH // HEADS)
            z = np.matmul(softmax(scores + later), heads(np.matmul(z, v)))
            x = x + np.matmul(np.reshape(np.transpose(z, (0, 2, 1, 3)), (32, LENGTH, WIDTH)), join)
            x = x + np.matmul(np.maximum(np.matmul(normalized(x), up), 0), down)
        return cross_entropy(np.reshape(np.matmul(normalized(x), p[2]), (32 * LENGTH, CHARACTERS)), np.reshape(y, (32 * LENGTH,)))

    def lstm(p, x, y):
        return cross_entropy(np.matmul(last_of_lstm(x, p[0], p[1], p[3]), p[2]) + p[4], y)

    return dict(mlp=mlp, cnn=cnn, transformer=transformer, lstm=lstm)


class Anfora:
    def __init__(self, name, threads):
        import anfora

        def conv(x, w, b):
            return anfora.ops.Conv(x, w, b, pads=(1, 1, 1, 1))

        def pool(x):
            return anfora.ops.MaxPool(x, kernel_shape=(2, 2), strides=(2, 2))

        def softmax(x):
            return anfora.ops.Softmax(x, axis=-1)

        def cross_entropy(x, y):
            return anfora.ops.SoftmaxCrossEntropyLoss(x, y)

        def sigmoid(x):
            return 1 / (1 + numpy.exp(-x))

        def last_of_lstm(x, w, u, b):
            h = c = numpy.zeros((64, HIDDEN), dtype=numpy.float32)
            for t in range(TURNS):
                gates = numpy.matmul(x[:, t], w) + numpy.matmul(h, u) + b
                i, f, g, o = (gates[:, k * HIDDEN:(k + 1) * HIDDEN] for k in range(4))
                c = sigmoid(f) * c + sigmoid(i) * numpy.tanh(g)
                h = sigmoid(o) * numpy.tanh(c)
            return h

        loss_of = networks(numpy, conv, pool, softmax, cross_entropy, last_of_lstm)[name]
        optimizer = anfora.optimizers.Adam(RATE)

        def step(p, state, x, y):
            loss, gradients = anfora.value_and_grad(loss_of)(p, x, y)
            p, state = optimizer.update(p, gradients, state)
            return p, state, loss

        self.compiled = anfora.jit(step, threads=threads, donate=("p", "state"))
        self.p = weights_of(name)
        self.state = optimizer.init(self.p)

    def step(self, x, y):
        self.p, self.state, loss = self.compiled(self.p, self.state, x, y)
        return float(loss)


class Jax:
    def __init__(self, name, threads):
        import jax
        from jax import lax, nn
        from jax import numpy as np

        def conv(x, w, b):
            return lax.conv(x, w, (1, 1), "SAME") + b[None, :, None, None]

        def pool(x):
            return lax.reduce_window(x, -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

        def cross_entropy(x, y):
            return -np.mean(np.take_along_axis(nn.log_softmax(x), y[:, None], 1))

        def last_of_lstm(x, w, u, b):
            def turn(state, x):
                h, c = state
                i, f, g, o = np.split(x @ w + h @ u + b, 4, 1)
                c = nn.sigmoid(f) * c + nn.sigmoid(i) * np.tanh(g)
                return (nn.sigmoid(o) * np.tanh(c), c), None

            zeros = np.zeros((64, HIDDEN), np.float32)
            return lax.scan(turn, (zeros, zeros), np.swapaxes(x, 0, 1))[0][0]

        loss_of = networks(np, conv, pool, nn.softmax, cross_entropy, last_of_lstm)[name]

        def step(p, m, v, t, x, y):
            loss, g = jax.value_and_grad(loss_of)(p, x, y)
            m = [0.9 * a + 0.1 * b for a, b in zip(m, g)]
            v = [0.999 * a + 0.001 * b * b for a, b in zip(v, g)]
            root = np.sqrt(1 - 0.999**t)
            p = [a - RATE / (1 - 0.9**t) * b / (np.sqrt(c) / root + 1e-8) for a, b, c in zip(p, m, v)]
            return p, m, v, loss

        self.compiled = jax.jit(step, donate_argnums=(0, 1, 2))
        self.p = [np.asarray(w) for w in weights_of(name)]
        self.m, self.v, self.t = [w * 0 for w in self.p], [w * 0 for w in self.p], 0

    def step(self, x, y):
        self.t += 1
        self.p, self.m, self.v, loss = self.compiled(self.p, self.m, self.v, float(self.t), x, y)
        return float(loss)


class Torch:
    is_compiled, dtype = True, "float32"

    def __init__(self, name, threads):
        import torch
        from torch.nn import functional

        torch.set_num_threads(threads)

        self.dtype = getattr(torch, self.dtype)

        class Numpy:
            """numpy's functions, of PyTorch."""
            float32, matmul, sqrt, reshape, triu, ones = self.dtype, torch.matmul, torch.sqrt, torch.reshape, torch.triu, torch.ones
            transpose = staticmethod(lambda x, axes: x.permute(axes))
            mean = staticmethod(lambda x, axis, keepdims: x.mean(axis, keepdim=keepdims))
            maximum = staticmethod(lambda x, least: torch.clamp(x, min=least))

        def conv(x, w, b):
            return functional.conv2d(x, w, b, padding=1)

        def last_of_lstm(x, w, u, b):  # PyTorch's own layer
            zeros = torch.zeros(1, 64, HIDDEN, dtype=self.dtype)
            return torch.lstm(x, (zeros, zeros), [w.T, u.T, b, torch.zeros_like(b)], True, 1, 0.0, True, False, True)[1][0]

        loss_of = networks(Numpy, conv, lambda x: functional.max_pool2d(x, 2), lambda x: functional.softmax(x, -1), functional.cross_entropy,
                           last_of_lstm)[name]
        self.torch = torch
        self.loss_of = torch.compile(loss_of) if self.is_compiled else loss_of
        self.p = [torch.tensor(w, dtype=self.dtype, requires_grad=True) for w in weights_of(name)]
        self.optimizer = torch.optim.Adam(self.p, RATE, foreach=True)
        if self.is_compiled:
            self.update = torch.compile(self.optimizer.step, fullgraph=False)
        else:
            self.update = self.optimizer.step

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        x = self.torch.from_numpy(x)
        loss = self.loss_of(self.p, x.to(self.dtype) if x.is_floating_point() else x, self.torch.from_numpy(y))
        loss.backward()
        self.update()
        return float(loss.detach())


class Eager(Torch):
    is_compiled = False


class Double(Eager):
    dtype = "float64"


FRAMEWORKS = {"anfora": Anfora, "torch": Torch, "eager": Eager, "f64": Double, "jax": Jax}


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def work(framework, name, threads, clock):
    batches = [batch_of(name, i) for i in range(STEPS)]
    trainer = FRAMEWORKS[framework](name, threads)
    before = resident()
    losses = [trainer.step(*batches[0])]
    times = []
    for batch in batches[1:]:
        begin = clock()
        losses.append(trainer.step(*batch))
        times.append(1e3 * (clock() - begin))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print("row", json.dumps({"time": statistics.median(times), "losses": losses, "memory": (peak - before) / 1e6}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--torch", metavar="PYTHON")
    parser.add_argument("--jax", metavar="PYTHON")
    parser.add_argument("--only", default="", metavar="NAME")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(*options.work, options.threads, time.process_time if options.cpu_time else time.perf_counter)
    pythons = {"anfora": sys.executable, "torch": options.torch, "eager": options.torch, "f64": options.torch, "jax": options.jax}
    print(f"{'':14}{'':10}{'ms a step':>11}{'MB':>8}{'last loss':>11}{'differs from eager':>20}{'from f64':>10}  by at most")
    for name in ("mlp", "cnn", "transformer", "lstm"):
        if options.only not in name:
            continue
        rows = {}
        for framework, python in pythons.items():
            if not python:
                continue
            command = [python, __file__, "--threads", str(options.threads), *(["--cpu-time"] if options.cpu_time else []), "--work", framework, name]
            done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "ANFORA_CACHE": "off"})
            row = [line for line in done.stdout.splitlines() if line.startswith("row ")]
            if row:
                rows[framework] = json.loads(row[0][4:])
            else:
                print(f"{name:14}{framework:10}{done.stderr.strip()[-300:]}")
        for framework, row in rows.items():
            eager, exact = (max(abs(a - b) for a, b in zip(row["losses"], rows.get(other, row)["losses"])) for other in ("eager", "f64"))
            print(f"{name:14}{framework:10}{row['time']:11.3f}{row['memory']:8.0f}{row['losses'][-1]:11.5f}{eager:20.1e}{exact:10.1e}")


if __name__ == "__main__":
    main()

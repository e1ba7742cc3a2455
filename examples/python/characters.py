#!/usr/bin/env python3
"""Trains a small transformer on the text of Python's own help, character by character, and lets it write.

usage: characters.py [--steps 300] [--plot loss.png]

The whole step (network, gradient, AdamW) is one compiled function. Needs nothing but the package; --plot needs matplotlib.
"""
from __future__ import annotations

import math
import pydoc_data.topics
from typing import Any

import numpy as np

import anfora
from progress import Progress, options, plot

TEXT = "\n".join(pydoc_data.topics.topics.values())
CHARACTERS = sorted(set(TEXT))
WIDTH, HEADS, LAYERS, LENGTH = 64, 4, 2, 64


def initial(random: np.random.Generator) -> Any:
    def weights(*shape: int) -> Any:
        return (random.standard_normal(shape) / math.sqrt(shape[0])).astype(np.float32)

    layers = [{"queries": weights(WIDTH, WIDTH), "keys": weights(WIDTH, WIDTH), "values": weights(WIDTH, WIDTH), "join": weights(WIDTH, WIDTH),
               "up": weights(WIDTH, 4 * WIDTH), "down": weights(4 * WIDTH, WIDTH),
               "before_attention": np.ones(WIDTH, np.float32), "before_layer": np.ones(WIDTH, np.float32)} for _ in range(LAYERS)]
    return {"characters": weights(len(CHARACTERS), WIDTH), "positions": weights(LENGTH, WIDTH) / 4, "layers": layers,
            "last": np.ones(WIDTH, np.float32), "logits": weights(WIDTH, len(CHARACTERS))}


def normalized(x: Any, scale: Any) -> Any:
    """Root mean square normalization (Zhang and Sennrich, 2019)."""
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6) * scale


def heads(x: Any) -> Any:
    return x.reshape(x.shape[0], x.shape[1], HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)


def logits(p: Any, text: Any) -> Any:
    """f32[batch, length, characters] of i64[batch, length]"""
    batch, length = text.shape
    x = p["characters"][text] * 4 + p["positions"][:length]
    later = np.triu(np.ones((length, length), np.float32), 1) * -1e9
    for layer in p["layers"]:
        y = normalized(x, layer["before_attention"])
        q, k, v = heads(y @ layer["queries"]), heads(y @ layer["keys"]), heads(y @ layer["values"])
        scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(WIDTH // HEADS) + later
        y = anfora.ops.Softmax(scores, axis=-1) @ v
        x = x + y.transpose(0, 2, 1, 3).reshape(batch, length, WIDTH) @ layer["join"]
        y = normalized(x, layer["before_layer"]) @ layer["up"]
        x = x + np.maximum(y, 0) @ layer["down"]
    return normalized(x, p["last"]) @ p["logits"]


def loss_of(p: Any, text: Any) -> Any:
    """The mean cross entropy of each next character."""
    found = logits(p, text[:, :-1])
    return anfora.ops.SoftmaxCrossEntropyLoss(found.transpose(0, 2, 1), text[:, 1:])


optimizer = anfora.optimizers.Adam(weight_decay=0.01)


@anfora.jit(donate=("p", "state"))
def step(p: Any, state: Any, text: Any, rate: float) -> tuple[Any, Any, Any]:
    loss, gradients = anfora.value_and_grad(loss_of)(p, text)
    p, state = optimizer.update(p, gradients, state, rate)
    return p, state, loss


predict = anfora.jit(logits)


def write(p: Any, begin: str, count: int, random: np.random.Generator) -> str:
    written = [CHARACTERS.index(character) for character in begin]
    for _ in range(count):
        scores = predict(p, np.array([written[-LENGTH:]]))[0, -1].astype(np.float64)
        chances = np.exp((scores - scores.max()) / 0.8)
        written.append(int(random.choice(len(CHARACTERS), p=chances / chances.sum())))
    return "".join(CHARACTERS[i] for i in written)


def train(steps: int, batch: int = 32, seed: int = 0) -> tuple[list[float], str]:
    """The losses, and what it writes then."""
    random = np.random.default_rng(seed)
    text = np.array([CHARACTERS.index(character) for character in TEXT[:200_000]])
    p = initial(random)
    state = optimizer.init(p)
    progress = Progress(steps)
    for i in progress:
        starts = random.integers(0, len(text) - LENGTH - 1, batch)
        pieces = np.stack([text[start:start + LENGTH + 1] for start in starts])
        p, state, loss = step(p, state, pieces, anfora.optimizers.cosine(i, 3e-3, steps, warmup=steps // 20))
        progress.losses.append(float(loss))
    return progress.losses, write(p, "The ", 200, random)


if __name__ == "__main__":
    given = options(__doc__)
    found, written = train(given.steps)
    print(f"loss {found[0]:.3f} → {found[-1]:.3f}\n\n{written}")
    if given.plot:
        plot(found, given.plot)

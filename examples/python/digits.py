#!/usr/bin/env python3
"""Trains a small convolutional network on pictures of digits that it draws itself.

usage: digits.py [--steps 300] [--plot loss.png]

The whole step (network, gradient, Adam) is one compiled function. Needs nothing but the package; --plot needs matplotlib.
"""
from __future__ import annotations

from typing import Any

import numpy as np

import anfora
from progress import Progress, options, plot

SIZE = 16  # pixels
# The ten digits in 5 × 7 dots, a number a row.
DIGITS = ("0e11131519110e 040c040404040e 0e11010204081f 1f02040201110e 02060a121f0202 "
          "1f101e0101110e 0608101e11110e 1f010204080808 0e11110e11110e 0e11110f01020c").split()
GLYPHS = np.array([[[int(digit[2 * row:2 * row + 2], 16) >> (4 - column) & 1 for column in range(5)] for row in range(7)] for digit in DIGITS], np.float32)


def draw(count: int, random: np.random.Generator) -> tuple[Any, Any]:
    """Digits twice their size, moved, faded and in noise: pictures f32[count, 1, SIZE, SIZE] and labels i64[count]."""
    labels = random.integers(0, 10, count)
    pictures = 0.3 * random.standard_normal((count, 1, SIZE, SIZE)).astype(np.float32)
    for picture, label in zip(pictures, labels):
        y, x = random.integers(0, SIZE - 14 + 1), random.integers(0, SIZE - 10 + 1)
        picture[0, y:y + 14, x:x + 10] += random.uniform(0.6, 1.2) * GLYPHS[label].repeat(2, 0).repeat(2, 1)
    return pictures, labels


def initial(random: np.random.Generator) -> dict[str, Any]:
    """Weights, drawn as He et al. (2015) do."""
    shapes = {"conv1": (8, 1, 3, 3), "conv2": (16, 8, 3, 3), "dense": (16 * SIZE * SIZE // 16, 10)}
    weights: dict[str, Any] = {}
    for name, shape in shapes.items():
        inputs = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
        weights[name] = (random.standard_normal(shape) * np.sqrt(2 / inputs)).astype(np.float32)
        weights[name + "_bias"] = np.zeros(shape[-1] if len(shape) == 2 else shape[0], np.float32)
    return weights


def logits(weights: Any, pictures: Any) -> Any:
    """f32[count, 10]"""
    x = anfora.ops.Conv(pictures, weights["conv1"], weights["conv1_bias"], pads=(1, 1, 1, 1))
    x = anfora.ops.MaxPool(np.maximum(x, 0), kernel_shape=(2, 2), strides=(2, 2))
    x = anfora.ops.Conv(x, weights["conv2"], weights["conv2_bias"], pads=(1, 1, 1, 1))
    x = anfora.ops.MaxPool(np.maximum(x, 0), kernel_shape=(2, 2), strides=(2, 2))
    return x.reshape(x.shape[0], -1) @ weights["dense"] + weights["dense_bias"]


def loss_of(weights: Any, pictures: Any, labels: Any) -> Any:
    """The mean cross entropy."""
    return anfora.ops.SoftmaxCrossEntropyLoss(logits(weights, pictures), labels)


optimizer = anfora.optimizers.Adam()


@anfora.jit(donate=("weights", "state"))
def step(weights: Any, state: Any, pictures: Any, labels: Any, rate: float) -> tuple[Any, Any, Any]:
    loss, gradients = anfora.value_and_grad(loss_of)(weights, pictures, labels)
    weights, state = optimizer.update(weights, gradients, state, rate)
    return weights, state, loss


@anfora.jit
def accuracy(weights: Any, pictures: Any, labels: Any) -> Any:
    return (logits(weights, pictures).argmax(axis=1) == labels).mean()


def train(steps: int, batch: int = 64, seed: int = 0) -> tuple[list[float], float]:
    """The losses, and the share of new digits that are read right."""
    random = np.random.default_rng(seed)
    weights = initial(random)
    state = optimizer.init(weights)
    progress = Progress(steps)
    for i in progress:
        rate = anfora.optimizers.cosine(i, 3e-3, steps, warmup=steps // 20)
        weights, state, loss = step(weights, state, *draw(batch, random), rate)
        progress.losses.append(float(loss))
    return progress.losses, float(accuracy(weights, *draw(1000, random)))


if __name__ == "__main__":
    given = options(__doc__)
    found, share = train(given.steps)
    print(f"loss {found[0]:.3f} → {found[-1]:.3f}; {100 * share:.1f}% of 1,000 new digits are read right")
    if given.plot:
        plot(found, given.plot)

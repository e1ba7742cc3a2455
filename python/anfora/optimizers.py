"""Optimizers: from parameters and their gradients to better parameters.

    optimizer = anfora.optimizers.Adam(rate=1e-3)

    @anfora.jit(donate=("parameters", "state"))
    def step(parameters, state, x, y):
        loss, gradients = anfora.value_and_grad(loss_of)(parameters, x, y)
        parameters, state = optimizer.update(parameters, gradients, state)
        return parameters, state, loss

    state = optimizer.init(parameters)
    for x, y in batches:
        parameters, state, loss = step(parameters, state, x, y)

Parameters, gradients and what an optimizer keeps are tuples, lists, dicts and dataclasses of arrays, of one structure. ``update`` is written in
the language that anfora.jit compiles, and runs in CPython with numpy as well. The numbers that an optimizer is made with are constants of
the graph; ``rate`` may also be given to ``update``, for a schedule: then it is a value of the run, and another one compiles nothing.
Parameters and state that are donated are updated in place: there is one of each, not two.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Callable

import numpy as np

from ._program import known_as

Tree = Any  # arrays, and tuples, lists, dicts and dataclasses of them


@known_as("tree_map")
def tree_map(function: Callable[..., Any], *trees: Tree) -> Tree:
    """What has the structure of the trees, with ``function(a, b, …)`` in the place of the arrays at each place. Compiled, too.

    Raises:
        TypeMismatchError: when it is compiled, where the structures differ; ValueError otherwise.
    """
    first = trees[0]
    if isinstance(first, dict):
        return {key: tree_map(function, *(tree[key] for tree in trees)) for key in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(tree_map(function, *items) for items in zip(*trees, strict=True)))
    if isinstance(first, (tuple, list)):
        return type(first)(tree_map(function, *items) for items in zip(*trees, strict=True))
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        names = [field.name for field in dataclasses.fields(first)]
        return type(first)(*(tree_map(function, *(getattr(tree, name) for tree in trees)) for name in names))
    return function(*trees)


class SGD:
    """Stochastic gradient descent, with momentum (Sutskever et al., 2013, in PyTorch's form) and L2 decay where they are asked for."""

    def __init__(self, rate: float = 0.01, momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0) -> None:
        self.rate, self.momentum, self.nesterov, self.weight_decay = rate, momentum, nesterov, weight_decay

    def init(self, parameters: Tree) -> Tree:
        """What is kept from step to step: the velocities."""
        return tree_map(lambda p: p * 0, parameters) if self.momentum else ()

    def update(self, parameters: Tree, gradients: Tree, state: Tree, rate: Any = None) -> tuple[Tree, Tree]:
        step = self.rate if rate is None else rate
        if self.weight_decay:
            gradients = tree_map(lambda g, p: g + self.weight_decay * p, gradients, parameters)
        if self.momentum:
            state = tree_map(lambda v, g: self.momentum * v + g, state, gradients)
            gradients = tree_map(lambda v, g: g + self.momentum * v, state, gradients) if self.nesterov else state
        return tree_map(lambda p, g: p - step * g, parameters, gradients), state


class Adam:
    """Adam (Kingma and Ba, 2015); with ``weight_decay``, AdamW, whose decay is not part of the gradient (Loshchilov and Hutter, 2019)."""

    def __init__(self, rate: float = 1e-3, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, weight_decay: float = 0.0) -> None:
        self.rate, self.beta1, self.beta2, self.epsilon, self.weight_decay = rate, beta1, beta2, epsilon, weight_decay

    def init(self, parameters: Tree) -> Tree:
        """What is kept from step to step: running means of gradients and of their squares, and the number of steps."""
        return tree_map(lambda p: p * 0, parameters), tree_map(lambda p: p * 0, parameters), 0

    def update(self, parameters: Tree, gradients: Tree, state: Tree, rate: Any = None) -> tuple[Tree, Tree]:
        means, squares, count = state
        count = count + 1
        step = self.rate if rate is None else rate
        means = tree_map(lambda m, g: self.beta1 * m + (1 - self.beta1) * g, means, gradients)
        squares = tree_map(lambda v, g: self.beta2 * v + (1 - self.beta2) * g * g, squares, gradients)
        scale = step / (1 - self.beta1**count)
        root = math.sqrt(1 - self.beta2**count)
        if self.weight_decay:
            parameters = tree_map(lambda p: p - step * self.weight_decay * p, parameters)
        parameters = tree_map(lambda p, m, v: p - scale * m / (np.sqrt(v) / root + self.epsilon), parameters, means, squares)
        return parameters, (means, squares, count)


class LossScale:
    """Dynamic scaling of the loss for training in half precision (Micikevicius et al., 2018): gradients that would underflow do not, and a
    step whose gradients overflow is skipped.

        scale, good = loss_scale.init()
        loss, gradients = anfora.value_and_grad(lambda p: loss_of(p) * scale)(parameters)
        gradients, is_finite = loss_scale.unscale(gradients, scale)
        parameters = loss_scale.choose(is_finite, new_parameters, parameters)
        scale, good = loss_scale.next(is_finite, scale, good)
    """

    def __init__(self, first: float = 65536.0, factor: float = 2.0, patience: int = 2000) -> None:
        self.first, self.factor, self.patience = first, factor, patience

    def init(self) -> tuple[float, int]:
        return self.first, 0

    def unscale(self, gradients: Tree, scale: Any) -> tuple[Tree, Any]:
        """The gradients in f32, and whether all are finite."""
        gradients = tree_map(lambda g: g.astype(np.float32) / scale, gradients)
        flags: list[Any] = []
        tree_map(lambda g: flags.append(np.isfinite(g).all()), gradients)
        is_finite = True
        for flag in flags:
            is_finite = is_finite and bool(flag)
        return gradients, is_finite

    def choose(self, is_finite: Any, new: Tree, old: Tree) -> Tree:
        return tree_map(lambda n, o: np.where(is_finite, n, o), new, old)

    def next(self, is_finite: Any, scale: Any, good: Any) -> tuple[Any, Any]:
        """The scale of the next step: less after an overflow, more after ``patience`` steps without one."""
        if not is_finite:
            return scale / self.factor, 0
        if good + 1 >= self.patience:
            return scale * self.factor, 0
        return scale, good + 1


def cosine(step: Any, rate: float, total: int, warmup: int = 0, least: float = 0.0) -> Any:
    """A rate that rises over ``warmup`` steps, then falls along half a cosine to ``least`` (Loshchilov and Hutter, 2017)."""
    if step < warmup:
        return rate * (step + 1) / warmup
    part = min((step - warmup) / max(total - warmup, 1), 1.0)
    return least + (rate - least) * (1 + math.cos(math.pi * part)) / 2


def exponential(step: Any, rate: float, factor: float, every: int = 1) -> Any:
    """A rate that is multiplied by ``factor`` after each ``every`` steps."""
    return rate * factor ** (step // every)

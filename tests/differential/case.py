"""One application of an operator, and how generators draw what it is applied to."""
import dataclasses

import numpy as np

FLOATS = ["float32", "float64", "float16"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NUMBERS = FLOATS + INTEGERS
PLAIN = NUMBERS + ["bool", "str"]


@dataclasses.dataclass
class Case:
    op: str
    inputs: list
    attributes: dict = dataclasses.field(default_factory=dict)
    outputs: int = 1
    domain: str = ""
    constants: tuple = ()    # inputs that are initializers of the model
    reference: bool = False  # ONNX Runtime is known to be wrong here: onnx's reference implementation is the oracle
    # What says what the outputs are where ONNX Runtime and the reference both cannot: a function that computes them, or a
    # case of another operator that has the same ones.
    oracle: object = None
    opset: int = 21          # of ONNX's own operators
    rtol: float = 1e-4
    atol: float = 1e-5


def shape(rng, least=0, most=4, zero=0.08):
    """Small dimensions, now and then a zero."""
    return tuple(0 if rng.random() < zero else rng.choice([1, 2, 3, 4, 5]) for _ in range(rng.randint(least, most)))


def data(rng, dims, dtype="float32"):
    """Distinct enough values that a misplaced element shows."""
    count = int(np.prod(dims, dtype=np.int64))
    if dtype == "str":
        return np.array([f"s{rng.randint(0, 99)}" for _ in range(count)], dtype=object).reshape(dims)
    if dtype == "bool":
        return np.array([rng.random() < 0.5 for _ in range(count)], dtype=bool).reshape(dims)
    low = 0 if dtype.startswith("uint") else -50
    return np.array([rng.randint(low, 60) for _ in range(count)]).astype(dtype).reshape(dims)


def reals(rng, dims, dtype="float32", low=-2.0, high=2.0):
    count = int(np.prod(dims, dtype=np.int64))
    return np.array([rng.uniform(low, high) for _ in range(count)], dtype=dtype).reshape(dims)


def axis(rng, rank):
    return rng.randint(-rank, rank - 1)


def axes(rng, rank, least=0):
    chosen = rng.sample(range(rank), rng.randint(least, rank))
    return [a - rank if rng.random() < 0.4 else a for a in chosen]


def ints(values):
    return np.array(values, dtype=np.int64)

"""Applications of elementwise operators: broadcasting, special values, all element types."""
import numpy as np

from case import FLOATS, INTEGERS, NUMBERS, Case, reals, shape

SIGNED = [dtype for dtype in INTEGERS if dtype.startswith("i")]
UNSIGNED = [dtype for dtype in INTEGERS if dtype.startswith("u")]
SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5, 1.5, 2.5, -0.5, -2.5, 88.5, -104.0, 1e-40, 1e4, -1e4]
# Half precision is rounded once here, operation by operation there.
TOLERANCE = {"float16": (4e-3, 4e-3), "float32": (2e-6, 2e-6), "float64": (1e-7, 1e-7)}


def values(rng, dims, dtype, special=True):
    """Ordinary numbers with some special ones, or the limits of integers, among them."""
    if dtype == "bool":
        return np.array([rng.random() < 0.5 for _ in range(int(np.prod(dims)))], dtype=bool).reshape(dims)
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        drawn = [rng.choice([limits.min, limits.max]) if special and rng.random() < 0.1 else
                 rng.randint(max(limits.min, -30), 30) for _ in range(int(np.prod(dims)))]
        return np.array(drawn, dtype=dtype).reshape(dims)
    result = reals(rng, dims, dtype, -6, 6)
    for i in range(result.size):
        if special and rng.random() < 0.15:
            with np.errstate(over="ignore"):
                result.flat[i] = rng.choice(SPECIAL)
    return result


def broadcast_pair(rng):
    """Two shapes that broadcast: dimensions of one, or of neither, are 1; one may be shorter."""
    whole = shape(rng, most=5)
    both = [[1 if rng.random() < 0.25 else d for d in whole] for _ in range(2)]
    for one, other in (both, both[::-1]):
        for i, d in enumerate(whole):
            if one[i] == 1 and other[i] == 1 and rng.random() < 0.5:
                one[i] = d
    shorter = rng.randint(0, 1)
    both[shorter] = both[shorter][rng.randint(0, len(whole)):]
    return both


def tolerance(dtype):
    rtol, atol = TOLERANCE.get(dtype, (0, 0))
    return {"rtol": rtol, "atol": atol}


def unary(op, dtypes, **draw_attributes):
    def generate(rng):
        dtype = rng.choice(dtypes)
        attributes = {name: draw(rng) for name, draw in draw_attributes.items()}
        return Case(op, [values(rng, shape(rng, most=5), dtype)], attributes, **tolerance(dtype))
    return generate


def binary(op, dtypes, special=True, divisor=False, **draw_attributes):
    def generate(rng):
        dtype = rng.choice(dtypes)
        a, b = (values(rng, dims, dtype, special) for dims in broadcast_pair(rng))
        if divisor and dtype in INTEGERS:  # division by zero is undefined; the lowest number by -1 kills the oracle
            b = np.where((b == 0) | (b == np.array(-1).astype(dtype)), np.array(3, dtype), b)
        attributes = {name: draw(rng) for name, draw in draw_attributes.items()}
        return Case(op, [a, b], attributes, **tolerance(dtype))
    return generate


def variadic(op, dtypes):
    def generate(rng):
        dtype = rng.choice(dtypes)
        whole = shape(rng, least=1)
        inputs = [values(rng, [1 if rng.random() < 0.3 else d for d in whole], dtype) for _ in range(rng.randint(0, 3))]
        return Case(op, [values(rng, whole, dtype), *inputs], **tolerance(dtype))
    return generate


def clip(rng):
    dtype = rng.choice(NUMBERS)
    low, high = (np.array(v, dtype=dtype) for v in sorted(rng.sample(range(0, 20), 2)))
    # Without a bound ONNX Runtime clips infinities to the largest number.
    return Case("Clip", [values(rng, shape(rng), dtype, special=False), rng.choice([low, None]), rng.choice([high, low])],
                **tolerance(dtype))


def pow_(rng):
    base, exponent = rng.choice(["float32", "float64", "int32", "int64"]), rng.choice(["float32", "float64", "int32", "int64"])
    a, b = broadcast_pair(rng)
    x, y = np.abs(values(rng, a, base, special=False)), np.abs(values(rng, b, exponent, special=False))
    return Case("Pow", [(x % 5).astype(base), (y % 4).astype(exponent)], rtol=1e-5, atol=1e-6)


def mod(rng):
    dtype = rng.choice(NUMBERS)
    case = binary("Mod", [dtype], special=False, divisor=True)(rng)
    if dtype in FLOATS or rng.random() < 0.3:
        case.attributes["fmod"] = 1
    return case


def alpha(rng):
    return round(rng.uniform(0.1, 2), 2)


COMPARABLE = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
GENERATORS = {
    **{op: unary(op, NUMBERS) for op in ("Abs", "Sign")},
    **{op: unary(op, FLOATS + SIGNED) for op in ("Neg",)},
    **{op: unary(op, FLOATS) for op in ("Ceil", "Floor", "Round", "Sqrt", "Reciprocal", "Tanh", "Sigmoid", "IsNaN", "Exp")},
    **{op: unary(op, ["float32", "float64"]) for op in (
        "Log", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Softplus")},
    **{op: unary(op, ["float32"]) for op in ("Erf", "HardSwish", "Mish", "Softsign", "Gelu", "Selu")},
    "Not": unary("Not", ["bool"]),
    "BitwiseNot": unary("BitwiseNot", INTEGERS),
    "Relu": unary("Relu", FLOATS + SIGNED),
    "LeakyRelu": unary("LeakyRelu", ["float32", "float64"], alpha=alpha),
    "Elu": unary("Elu", ["float32", "float64"], alpha=alpha),
    "Celu": unary("Celu", ["float32"], alpha=alpha),
    "HardSigmoid": unary("HardSigmoid", ["float32"], alpha=alpha, beta=alpha),
    "ThresholdedRelu": unary("ThresholdedRelu", ["float32"], alpha=alpha),
    "Shrink": unary("Shrink", ["float32"], lambd=alpha, bias=alpha),
    "IsInf": unary("IsInf", ["float32", "float64"], detect_negative=lambda rng: rng.randint(0, 1)),
    **{op: binary(op, NUMBERS) for op in ("Add", "Sub", "Mul", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")},
    "Div": binary("Div", NUMBERS, divisor=True),
    "Equal": binary("Equal", COMPARABLE + ["bool"]),
    **{op: binary(op, ["bool"]) for op in ("And", "Or", "Xor")},
    **{op: binary(op, INTEGERS) for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")},
    "BitShift": binary("BitShift", UNSIGNED, special=False, direction=lambda rng: rng.choice(["LEFT", "RIGHT"])),
    **{op: variadic(op, ["float16", "float32", "float64", "int32", "int64", "uint32", "uint64"]) for op in ("Max", "Min")},
    **{op: variadic(op, ["float32"]) for op in ("Sum", "Mean")},
    "Mod": mod, "Pow": pow_, "Clip": clip,
}

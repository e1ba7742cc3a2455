"""Applications of reductions, softmax and normalizations."""
import numpy as np

from case import Case, axes, axis, data, ints, reals, shape

# Half precision is summed in single here.
TOLERANCE = {"float16": (1e-2, 1e-2), "float32": (1e-5, 1e-5), "float64": (1e-9, 1e-9)}
FLOATS = ["float16", "float32", "float64"]


def tolerance(dtype):
    rtol, atol = TOLERANCE.get(dtype, (0, 0))
    return {"rtol": rtol, "atol": atol}


def long_shape(rng, least=1):
    """Mostly small; now and then an axis long enough for every inner loop."""
    dims = list(shape(rng, least=least, zero=0))
    if dims and rng.random() < 0.3:
        dims[rng.randrange(len(dims))] = rng.choice([33, 70, 131])
    return tuple(dims)


def reduce(op, dtypes, low=-2.0):
    def generate(rng):
        dtype = rng.choice(dtypes)
        dims = long_shape(rng, least=0)
        x = reals(rng, dims, dtype, low) if dtype in FLOATS else data(rng, dims, dtype)
        if op == "ReduceProd":  # stays in range
            x = np.clip(x, 0.5, 1.25) if dtype in FLOATS else np.where(x % 2 == 0, x.dtype.type(1), x.dtype.type(-1))
        attributes = {"keepdims": rng.randint(0, 1), "noop_with_empty_axes": rng.randint(0, 1)}
        given = ints(axes(rng, len(dims))) if rng.random() < 0.8 else None
        # Without axes to reduce ONNX Runtime 1.31 leaves out what the kind does to each element.
        return Case(op, [x, given], attributes, reference=given is None or given.size == 0, **tolerance(dtype))
    return generate


def along_axis(op, dtypes):
    def generate(rng):
        dtype = rng.choice(dtypes)
        dims = long_shape(rng)
        return Case(op, [reals(rng, dims, dtype, -9, 9)], {"axis": axis(rng, len(dims))}, **tolerance(dtype))
    return generate


def lp_normalization(rng):
    dtype = rng.choice(["float32", "float64"])
    dims = long_shape(rng)
    return Case("LpNormalization", [reals(rng, dims, dtype)], {"axis": axis(rng, len(dims)), "p": rng.choice([1, 2])},
                **tolerance(dtype))


def layer_normalization(rng):
    dtype = rng.choice(FLOATS)
    dims = long_shape(rng)
    first = axis(rng, len(dims))
    parameters = [reals(rng, dims[first:], dtype) for _ in range(rng.randint(1, 2))]
    return Case("LayerNormalization", [reals(rng, dims, dtype), *parameters], {"axis": first, "epsilon": 0.01},
                rtol=1e-2 if dtype == "float16" else 1e-4, atol=1e-2 if dtype == "float16" else 1e-4)


def channels(rng, least=3):
    dims = (rng.randint(1, 3), rng.choice([2, 4, 6]), *(rng.randint(1, 6) for _ in range(rng.randint(least - 2, 3))))
    return dims, [reals(rng, dims[1:2]) for _ in range(3)] + [reals(rng, dims[1:2], low=0.1)]


def batch_normalization(rng):
    dims, parameters = channels(rng, least=2)
    training = rng.randint(0, 1)
    return Case("BatchNormalization", [reals(rng, dims), *parameters], {"training_mode": training},
                outputs=3 if training else 1, rtol=1e-4, atol=1e-4)


def instance_normalization(rng):
    dims, parameters = channels(rng)
    return Case("InstanceNormalization", [reals(rng, dims), *parameters[:2]], {"epsilon": 0.01}, rtol=1e-4, atol=1e-4)


def group_normalization(rng):
    dims, parameters = channels(rng)
    return Case("GroupNormalization", [reals(rng, dims), *parameters[:2]], {"num_groups": rng.choice([1, 2]), "epsilon": 0.01},
                rtol=1e-4, atol=1e-4)


def lrn(rng):
    dims = (rng.randint(1, 3), rng.randint(1, 9), rng.randint(1, 6), rng.randint(1, 6))
    return Case("LRN", [reals(rng, dims)], {"size": rng.choice([1, 3, 5, 7]), "alpha": 0.5, "bias": 1.5})


def loss(op):
    def generate(rng):
        batch, classes, rest = rng.randint(1, 4), rng.randint(2, 6), shape(rng, most=2, zero=0)
        labels = np.array([rng.randrange(classes) for _ in range(batch * int(np.prod(rest)))]).reshape(batch, *rest)
        weights = reals(rng, (classes,), low=0.5) if rng.random() < 0.5 else None
        attributes = {"reduction": rng.choice(["none", "sum", "mean"])}
        if rng.random() < 0.4 and np.any(labels != 1):
            attributes["ignore_index"] = 1
        outputs = rng.randint(1, 2) if op == "SoftmaxCrossEntropyLoss" else 1
        return Case(op, [reals(rng, (batch, classes, *rest)), labels, weights], attributes, outputs=outputs)
    return generate


def attention(rng):
    b, queries, keys, groups = rng.randint(1, 3), rng.choice([1, 3, 9, 40]), rng.choice([1, 5, 33, 70]), rng.randint(1, 2)
    heads, size, value_size = groups * rng.randint(1, 3), rng.choice([3, 8, 16, 20]), rng.choice([8, 20])
    past = rng.choice([0, 0, 7])
    is_packed = rng.random() < 0.5
    by_heads = lambda count, length, width: reals(rng, (b, length, count * width) if is_packed else (b, count, length, width))
    inputs = [by_heads(heads, queries, size), by_heads(groups, keys, size), by_heads(groups, keys, value_size)]
    attributes = {"q_num_heads": heads, "kv_num_heads": groups} if is_packed else {}
    if rng.random() < 0.4:
        attributes["is_causal"] = 1
    if rng.random() < 0.3:
        attributes["softcap"] = 2.0
    if rng.random() < 0.3:
        attributes["scale"] = 0.4
    rows = rng.choice([(), (1, 1), (b, heads), (b, 1)]) + (queries, past + keys)
    mask = rng.choice([None, "float32", "bool"])
    inputs.append(mask and (data(rng, rows, "bool") | (np.arange(past + keys) == 0) if mask == "bool" else reals(rng, rows)))
    if past:
        inputs += [reals(rng, (b, groups, past, size)), reals(rng, (b, groups, past, value_size))]
    # ONNX Runtime shows all keys to a single query, also those that come behind it.
    return Case("Attention", inputs, attributes, outputs=3 if past else 1, opset=23,
                reference=queries == 1 and "is_causal" in attributes)


NUMBERS = ["float32", "float64", "int32", "int64"]
GENERATORS = {
    **{op: reduce(op, NUMBERS) for op in ("ReduceSum", "ReduceProd", "ReduceL1")},
    "ReduceMean": reduce("ReduceMean", ["float32", "float64"]),
    **{op: reduce(op, NUMBERS + ["int8", "uint8"]) for op in ("ReduceMax", "ReduceMin")},
    **{op: reduce(op, ["float32"]) for op in ("ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")},
    "ReduceLogSum": reduce("ReduceLogSum", ["float32"], low=0.5),
    **{op: along_axis(op, FLOATS) for op in ("Softmax", "LogSoftmax")},
    "Hardmax": along_axis("Hardmax", ["float32", "float64"]),
    "LpNormalization": lp_normalization,
    "Attention": attention,
    "LayerNormalization": layer_normalization,
    "BatchNormalization": batch_normalization,
    "InstanceNormalization": instance_normalization,
    "GroupNormalization": group_normalization,
    "LRN": lrn,
    **{op: loss(op) for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")},
}

"""Operators that move, make, order and choose elements."""
import numpy as np
from onnx import numpy_helper

from case import PLAIN, Case, axes, axis, data, ints, shape


def identity(rng):
    return Case("Identity", [data(rng, shape(rng), rng.choice(PLAIN))])


def reshape(rng):
    dims = list(shape(rng, 1))
    x = data(rng, dims, rng.choice(PLAIN))
    target = dims[:]
    rng.shuffle(target)
    if len(target) > 1 and rng.random() < 0.5:
        target = [target[0] * target[1], *target[2:]]
    if 0 not in dims and rng.random() < 0.5:
        target[rng.randrange(len(target))] = -1
    if 0 not in dims and rng.random() < 0.3:  # 0: the dimension of the input, -1 for the others
        return Case("Reshape", [x, ints([0, -1])])
    return Case("Reshape", [x, ints(target)], {"allowzero": int(0 in dims)})


def transpose(rng):
    dims = shape(rng, 0, 5)
    permutation = list(range(len(dims)))
    rng.shuffle(permutation)
    return Case("Transpose", [data(rng, dims, rng.choice(PLAIN))], {"perm": permutation} if rng.random() < 0.8 and dims else {})


def squeeze(rng):
    dims = [d if rng.random() < 0.5 else 1 for d in shape(rng, 1)]
    ones = [a - len(dims) if rng.random() < 0.5 else a for a, d in enumerate(dims) if d == 1]
    inputs = [data(rng, dims, rng.choice(PLAIN))]
    if ones and rng.random() < 0.7:
        inputs.append(ints(rng.sample(ones, rng.randint(1, len(ones)))))
    return Case("Squeeze", inputs)


def unsqueeze(rng):
    dims = shape(rng, 0, 3)
    return Case("Unsqueeze", [data(rng, dims, rng.choice(PLAIN)), ints(axes(rng, len(dims) + rng.randint(1, 2), 1)[:1])])


def flatten(rng):
    dims = shape(rng, 1)
    return Case("Flatten", [data(rng, dims, rng.choice(PLAIN))], {"axis": rng.randint(-len(dims), len(dims))})


def concat(rng):
    dims = list(shape(rng, 1))
    along = axis(rng, len(dims))
    dtype = rng.choice(PLAIN)
    parts = []
    for _ in range(rng.randint(1, 4)):
        part = dims[:]
        part[along] = rng.choice([0, 1, 2, 5])
        parts.append(data(rng, part, dtype))
    return Case("Concat", parts, {"axis": along})


def split(rng):
    dims = list(shape(rng, 1))
    along = axis(rng, len(dims))
    x = data(rng, dims, rng.choice(PLAIN))
    if rng.random() < 0.5:
        parts = rng.randint(1, max(dims[along], 1))
        return Case("Split", [x], {"axis": along, "num_outputs": parts}, parts)
    cuts = sorted(rng.randint(0, dims[along]) for _ in range(rng.randint(0, 3)))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, dims[along]])]
    return Case("Split", [x, ints(sizes)], {"axis": along}, len(sizes))


def slice_(rng):
    dims = shape(rng, 1)
    chosen = axes(rng, len(dims), 1)
    big = np.iinfo(np.int64).max
    steps = [rng.choice([1, 1, 2, 3, -1, -2, 9]) for _ in chosen]
    if rng.random() < 0.3:
        steps = [1 for _ in chosen]
    starts = [rng.randint(-7, 7) for _ in chosen]
    # The farthest integers as ends, as models have them; elsewhere ONNX Runtime's arithmetic overflows.
    ends = [rng.choice([rng.randint(-7, 7), big if step > 0 else -big]) for step in steps]
    inputs = [data(rng, dims, rng.choice(PLAIN)), ints(starts), ints(ends), ints(chosen)]
    return Case("Slice", inputs if set(steps) == {1} else [*inputs, ints(steps)])


def indices(rng, dims, size, dtype=None):
    count = int(np.prod(dims, dtype=np.int64))
    return np.array([rng.randint(-size, size - 1) for _ in range(count)], dtype=dtype or rng.choice(["int32", "int64"])).reshape(dims)


def gather(rng):
    dims = shape(rng, 1, zero=0)
    along = axis(rng, len(dims))
    dtype = rng.choice(PLAIN)
    # ONNX Runtime loses strings at negative indices.
    return Case("Gather", [data(rng, dims, dtype), indices(rng, shape(rng, 0, 3), dims[along])], {"axis": along}, reference=dtype == "str")


def gather_elements(rng):
    dims = shape(rng, 1, zero=0)
    along = axis(rng, len(dims))
    chosen = [rng.randint(0, d) for d in dims]
    chosen[along] = rng.randint(0, 6)
    return Case("GatherElements", [data(rng, dims, rng.choice(PLAIN)), indices(rng, chosen, dims[along])], {"axis": along})


def tuples(rng, dims, batch, leading):
    """Indices into `dims` after `batch` dimensions, as many as a tuple has, under the leading shape."""
    size = rng.randint(1, len(dims) - batch)
    columns = [indices(rng, leading, dims[batch + i], "int64")[..., None] for i in range(size)]
    return np.concatenate(columns, -1)


def gather_nd(rng):
    dims = shape(rng, 1, zero=0)
    batch = rng.randint(0, len(dims) - 1)
    leading = dims[:batch] + shape(rng, 0 if batch else 1, 2)
    return Case("GatherND", [data(rng, dims, rng.choice(PLAIN)), tuples(rng, dims, batch, leading)], {"batch_dims": batch})


def scatter_elements(rng):
    dims = shape(rng, 1, zero=0)
    along = axis(rng, len(dims))
    reduction = rng.choice(["none", "add", "mul", "max", "min"])
    dtype = rng.choice(PLAIN if reduction == "none" else ["float32", "float64", "int32", "int64"])
    chosen = [rng.randint(0, d) for d in dims]
    if reduction == "none":  # each place once
        chosen[along] = rng.randint(0, dims[along])
        where = np.zeros(chosen, dtype=np.int64)
        for place in np.ndindex(*[c for i, c in enumerate(chosen) if i != along % len(dims)]):
            at = list(place)
            at.insert(along % len(dims), slice(None))
            where[tuple(at)] = rng.sample(range(dims[along]), chosen[along])
    else:
        where = indices(rng, chosen, dims[along])
    return Case("ScatterElements", [data(rng, dims, dtype), where, data(rng, chosen, dtype)], {"axis": along, "reduction": reduction})


def scatter_nd(rng):
    dims = shape(rng, 1, zero=0)
    reduction = rng.choice(["none", "add", "mul", "max", "min"])
    dtype = rng.choice(PLAIN if reduction == "none" else ["float32", "float64", "int32", "int64"])
    leading = (1,) if reduction == "none" else shape(rng, 1, 2)
    where = tuples(rng, dims, 0, leading)
    return Case("ScatterND", [data(rng, dims, dtype), where, data(rng, leading + dims[where.shape[-1]:], dtype)], {"reduction": reduction})


def tile(rng):
    dims = shape(rng)
    return Case("Tile", [data(rng, dims, rng.choice(PLAIN)), ints([rng.choice([0, 1, 1, 2, 3]) for _ in dims])])


def expand(rng):
    target = shape(rng)
    dims = [1 if rng.random() < 0.4 else d for d in target][rng.randint(0, len(target)):]
    asked = [d if rng.random() < 0.7 or i < len(target) - len(dims) else (1 if dims[i - len(target) + len(dims)] == d else d)
             for i, d in enumerate(target)]
    return Case("Expand", [data(rng, dims, rng.choice(PLAIN)), ints(asked)])


def pad(rng):
    mode = rng.choice(["constant", "constant", "edge", "reflect", "wrap"])
    dims = shape(rng, 1, zero=0.08 if mode == "constant" else 0)
    least = -1 if mode == "constant" else 0
    def amount(d):
        return rng.randint(least if d > 2 else 0, 3 if mode != "reflect" else max(d - 1, 0))
    x = data(rng, dims, rng.choice([t for t in PLAIN if t != "str"]))
    if rng.random() < 0.5:
        chosen = axes(rng, len(dims), 1)
        pads = [amount(dims[a]) for a in chosen] * 2
        return Case("Pad", [x, ints(pads), data(rng, (), x.dtype.name), ints(chosen)], {"mode": mode})
    return Case("Pad", [x, ints([amount(d) for d in dims] * 2)], {"mode": mode})


def depth_to_space(rng):
    block = rng.choice([1, 2, 3])
    dims = (rng.randint(0, 2), block * block * rng.randint(1, 2), rng.randint(1, 3), rng.randint(1, 3))
    return Case("DepthToSpace", [data(rng, dims, rng.choice(["float32", "float64", "uint8"]))],
                {"blocksize": block, "mode": rng.choice(["DCR", "CRD"])})


def space_to_depth(rng):
    block = rng.choice([1, 2, 3])
    dims = (rng.randint(0, 2), rng.randint(1, 3), block * rng.randint(1, 2), block * rng.randint(1, 3))
    return Case("SpaceToDepth", [data(rng, dims, rng.choice(["float32", "float64"]))], {"blocksize": block})


def reverse_sequence(rng):
    dims = shape(rng, 2, zero=0)
    batch = rng.randint(0, 1)
    lengths = [rng.randint(0, dims[1 - batch]) for _ in range(dims[batch])]
    return Case("ReverseSequence", [data(rng, dims, rng.choice(PLAIN)), ints(lengths)], {"batch_axis": batch, "time_axis": 1 - batch})


def top_k(rng):
    dims = shape(rng, 1)
    along = axis(rng, len(dims))
    x = data(rng, dims, rng.choice(["float32", "float64", "int32", "int64", "float16", "int8", "uint8"]))
    return Case("TopK", [x, ints([rng.randint(0, dims[along])])], {"axis": along, "largest": rng.randint(0, 1)}, 2)


def unique(rng):
    dims = shape(rng, 1, 3, zero=0)
    attributes = {"sorted": rng.randint(0, 1)}
    if rng.random() < 0.6:
        attributes["axis"] = axis(rng, len(dims))
    x = np.array([rng.randint(0, 2) for _ in range(int(np.prod(dims)))]).astype(rng.choice(["float32", "float64", "int64", "int8"]))
    return Case("Unique", [x.reshape(dims)], attributes, 4)


def non_zero(rng):
    x = data(rng, shape(rng, 1), rng.choice(["float32", "int32", "int64", "uint8", "bool"]))
    return Case("NonZero", [np.where(data(rng, x.shape, "bool"), x, np.zeros_like(x))])


def compress(rng):
    dims = shape(rng, 1)
    along = rng.choice([None, axis(rng, len(dims))])
    length = rng.randint(0, int(np.prod(dims)) if along is None else dims[along])
    return Case("Compress", [data(rng, dims, rng.choice(PLAIN)), data(rng, (length,), "bool")], {} if along is None else {"axis": along})


def one_hot(rng):
    dims = shape(rng, 0, 3)
    depth = rng.randint(1, 6)
    where = np.array([rng.randint(-depth - 2, depth + 1) for _ in range(int(np.prod(dims)))], dtype=np.int64).reshape(dims)
    return Case("OneHot", [where, ints([depth]), data(rng, (2,), rng.choice(["float32", "int64", "int32"]))],
                {"axis": axis(rng, len(dims) + 1)})


def where(rng):
    dims = shape(rng)
    def part(dtype):
        return data(rng, [1 if rng.random() < 0.3 else d for d in dims][rng.randint(0, len(dims)):], dtype)
    dtype = rng.choice(["float32", "float64", "int32", "int64", "uint8", "str"])
    return Case("Where", [part("bool"), part(dtype), part(dtype)])


def trilu(rng):
    dims = shape(rng, 2)
    x = data(rng, dims, rng.choice(["float32", "float64", "int64", "bool"]))
    return Case("Trilu", [x, np.array(rng.randint(-6, 6), dtype=np.int64)][:rng.randint(1, 2)], {"upper": rng.randint(0, 1)})


def eye_like(rng):
    x = data(rng, shape(rng, 2, 2), rng.choice(["float32", "float64", "int32", "int64"]))
    return Case("EyeLike", [x], {"k": rng.randint(-3, 3)} | ({"dtype": rng.choice([1, 7, 11])} if rng.random() < 0.5 else {}))


def range_(rng):
    dtype = rng.choice(["float32", "float64", "int32", "int64", "int16"])
    step = rng.choice([1, 2, 3, -1, -2, 0.5 if dtype.startswith("float") else 4])
    return Case("Range", [np.array(rng.randint(-9, 9), dtype=dtype), np.array(rng.randint(-9, 9), dtype=dtype), np.array(step, dtype=dtype)])


def cum_sum(rng):
    dims = shape(rng, 1)
    x = data(rng, dims, rng.choice(["float32", "float64", "int32", "int64"]))
    return Case("CumSum", [x, np.array(axis(rng, len(dims)), dtype=np.int32)], {"exclusive": rng.randint(0, 1), "reverse": rng.randint(0, 1)})


def constant_of_shape(rng):
    dtype = rng.choice(["float32", "int64", "bool", "uint8", "float16"])
    return Case("ConstantOfShape", [ints(shape(rng))], {"value": numpy_helper.from_array(data(rng, (1,), dtype))})


def shape_(rng):
    return Case("Shape", [data(rng, shape(rng))], {"start": rng.randint(-5, 5)} | ({"end": rng.randint(-5, 5)} if rng.random() < 0.5 else {}))


def size(rng):
    return Case("Size", [data(rng, shape(rng), rng.choice(PLAIN))])


def center_crop_pad(rng):
    dims = shape(rng, 1, zero=0)
    chosen = axes(rng, len(dims), 1)
    return Case("CenterCropPad", [data(rng, dims), ints([rng.randint(1, 7) for _ in chosen])], {"axes": chosen})


def arg_max(rng):
    dims = shape(rng, 1, zero=0)
    return Case(rng.choice(["ArgMax", "ArgMin"]), [data(rng, dims, rng.choice(["float32", "int32", "uint8", "float64"]))],
                {"axis": axis(rng, len(dims)), "keepdims": rng.randint(0, 1), "select_last_index": rng.randint(0, 1)})


GENERATORS = {
    "Identity": identity, "Reshape": reshape, "Transpose": transpose, "Squeeze": squeeze, "Unsqueeze": unsqueeze,
    "Flatten": flatten, "Concat": concat, "Split": split, "Slice": slice_, "Gather": gather,
    "GatherElements": gather_elements, "GatherND": gather_nd, "ScatterElements": scatter_elements, "ScatterND": scatter_nd,
    "Tile": tile, "Expand": expand, "Pad": pad, "DepthToSpace": depth_to_space, "SpaceToDepth": space_to_depth,
    "ReverseSequence": reverse_sequence, "TopK": top_k, "Unique": unique, "NonZero": non_zero, "Compress": compress,
    "OneHot": one_hot, "Where": where, "Trilu": trilu, "EyeLike": eye_like, "Range": range_, "CumSum": cum_sum,
    "ConstantOfShape": constant_of_shape, "Shape": shape_, "Size": size, "CenterCropPad": center_crop_pad, "ArgMax": arg_max,
}

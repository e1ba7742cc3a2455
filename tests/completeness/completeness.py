#!/usr/bin/env python3
"""How complete is the optimizer? Of random small expressions that equal a smaller one, how many come down to it.

usage: completeness.py build/release/anfora [--operators arithmetic|movement|logic] [--count 1500] [--seed 0] [--show 20]

Every expression of at most two operators over a few leaves is evaluated on random inputs; its values tell which function it is, and
the smallest expression of each function is remembered. Random expressions of three operators are looked up there. Those that equal a
smaller one, on other inputs too, are optimized, all of them in one model, each with inputs of its own. One that ends with more
operators than the smallest expression of its function is a miss. An operator that occurs twice with the same operands counts once,
what is computed of constants alone not at all.

Values agree to nine digits, on matrices of which some hold small integers: there Div and Log are not defined, so that x / x is not 1.
What is found equal is equal for real numbers, as --math real has it; NaNs have to come at the same places.
Exit status 77 without onnx and numpy.
"""
import argparse
import collections
import dataclasses
import itertools
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    sys.exit(77)

SIDE = 3  # matrices are square
MOST_ELEMENTS = 2 * SIDE * SIDE
OPSET = 18


@dataclasses.dataclass(frozen=True)
class Operator:
    """`compute` takes arrays of draws, one per axis 0, or Python numbers for constants; it gives None where it is not defined.
    `write` appends nodes to a model (class Model) and gives the name of the result."""
    name: str
    arity: int
    compute: callable
    write: callable


class Model:
    def __init__(self):
        self.nodes, self.initializers, self.inputs, self.outputs = [], {}, [], []

    def constant(self, value):
        value = np.asarray(value)
        name = f"c_{value.dtype}_{'_'.join(map(str, value.shape))}_{'_'.join(map(str, value.ravel()))}".replace("-", "m")
        self.initializers[name] = numpy_helper.from_array(value, name)
        return name

    def node(self, op, *inputs, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def input(self, name, dtype):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, [SIDE, SIDE]))
        return name

    def output(self, value, name, dtype, shape):
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, dtype, shape))

    def save(self, path):
        graph = helper.make_graph(self.nodes, "expressions", self.inputs, self.outputs, list(self.initializers.values()))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 8
        onnx.save(model, path)


# Operators ---------------------------------------------------------------------------------------------------------------

def is_matrix(a):
    return isinstance(a, np.ndarray)


def is_bool(a):
    return a.dtype == bool if is_matrix(a) else isinstance(a, bool)


def of_numbers(f):
    return lambda *a: None if any(map(is_bool, a)) else f(*a)


def of_conditions(f):
    return lambda *a: f(*a) if all(map(is_bool, a)) else None


def of_matrices(f):
    return lambda *a: f(*a) if all(map(is_matrix, a)) else None


def elementwise(name, arity, f, sort=of_numbers):
    return Operator(name, arity, sort(f), lambda m, *a: m.node(name, *a))


def unary(name, f):
    return elementwise(name, 1, f)


def binary(name, f):
    return elementwise(name, 2, f)


def integers(m, values):
    return m.constant(np.int64(values))


def reduction(name, op, axis, f):
    return Operator(name, 1, of_matrices(of_numbers(lambda a: f(a, axis=axis + 1, keepdims=True))),
                    lambda m, a: m.node(op, a, integers(m, [axis])))


def reshape(name, shape):
    def compute(a):
        return a.reshape(len(a), *shape) if a[0].size == np.prod(shape) else None
    return Operator(name, 1, of_matrices(compute), lambda m, a: m.node("Reshape", a, integers(m, shape)))


def part(name, axis, start, end, step=1):
    def compute(a):
        if a.shape[axis + 1] < SIDE:
            return None
        return np.take(a, range(a.shape[axis + 1])[start:end:step], axis + 1)
    def write(m, a):
        limit = end if end is not None else (-2**62 if step < 0 else 2**62)
        first = start if start is not None else (-1 if step < 0 else 0)
        steps = [] if step == 1 else [integers(m, [step])]
        return m.node("Slice", a, integers(m, [first]), integers(m, [limit]), integers(m, [axis]), *steps)
    return Operator(name, 1, of_matrices(compute), write)


def gather(name, axis, indices):
    def compute(a):
        return np.take(a, indices, axis + 1) if max(indices) < a.shape[axis + 1] else None
    return Operator(name, 1, of_matrices(compute), lambda m, a: m.node("Gather", a, integers(m, indices), axis=axis))


def pad(name, pads):
    def compute(a):
        return np.pad(a, [(0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    return Operator(name, 1, of_matrices(compute), lambda m, a: m.node("Pad", a, integers(m, pads)))


def half(name, axis, sizes, which):
    """One of the parts of a Split."""
    def compute(a):
        if a.shape[axis + 1] != sum(sizes):
            return None
        return np.split(a, [sizes[0]], axis + 1)[which]
    def write(m, a):
        names = [f"t{len(m.nodes)}_{i}" for i in range(len(sizes))]
        m.nodes.append(helper.make_node("Split", [a, integers(m, sizes)], names, axis=axis))
        return names[which]
    return Operator(name, 1, of_matrices(compute), write)


def expand(name, shape):
    def compute(a):
        fits = all(have in (1, want) for have, want in zip(a.shape[1:], shape)) and a.shape[1:] != shape
        return np.broadcast_to(a, (len(a), *shape)).copy() if fits else None
    return Operator(name, 1, of_matrices(compute), lambda m, a: m.node("Expand", a, integers(m, shape)))


def concat(name, axis):
    def compute(a, b):
        other = 2 - axis
        fits = a.shape[other] == b.shape[other] and a.dtype == b.dtype
        return np.concatenate([a, b], axis + 1) if fits else None
    return Operator(name, 2, of_matrices(compute), lambda m, a, b: m.node("Concat", a, b, axis=axis))


def matmul(a, b):
    return a @ b if a.shape[2] == b.shape[1] else None


def where(c, a, b):
    return np.where(c, a, b) if is_bool(c) and is_bool(a) == is_bool(b) and any(map(is_matrix, (c, a, b))) else None


def clip(low, high):
    bounds = [np.float32(b) for b in (low, high)]
    return Operator(f"Clip[{low},{high}]", 1, of_numbers(lambda a: np.clip(a, low, high)),
                    lambda m, a: m.node("Clip", a, *map(m.constant, bounds)))


TRANSPOSE = Operator("Transpose", 1, of_matrices(lambda a: a.swapaxes(1, 2)), lambda m, a: m.node("Transpose", a))
WIDE, FLAT, SQUARE = (1, SIDE * SIDE), (SIDE * SIDE, 1), (SIDE, SIDE)

OPERATORS = {
    "arithmetic": [
        unary("Neg", np.negative), unary("Abs", np.abs), unary("Relu", lambda a: np.maximum(a, 0)), unary("Exp", np.exp),
        unary("Log", np.log), unary("Sqrt", np.sqrt), unary("Reciprocal", lambda a: 1 / a), unary("Tanh", np.tanh),
        unary("Sigmoid", lambda a: 1 / (1 + np.exp(-a))), unary("Ceil", np.ceil), unary("Sign", np.sign),
        binary("Add", np.add), binary("Sub", np.subtract), binary("Mul", np.multiply), binary("Div", np.divide),
        binary("Max", np.maximum), binary("Min", np.minimum), binary("Pow", np.power),
        TRANSPOSE, reshape("Reshape9", WIDE), reshape("Reshape33", SQUARE),
        reduction("SumRows", "ReduceSum", 0, np.sum), reduction("SumColumns", "ReduceSum", 1, np.sum),
        reduction("MaxRows", "ReduceMax", 0, np.max), part("First", 0, 0, 1), part("FirstColumn", 1, 0, 1),
        Operator("MatMul", 2, of_matrices(matmul), lambda m, a, b: m.node("MatMul", a, b)),
        concat("ConcatRows", 0), concat("ConcatColumns", 1),
    ],
    "movement": [
        TRANSPOSE, reshape("Reshape9", WIDE), reshape("Reshape91", FLAT), reshape("Reshape33", SQUARE),
        part("First", 0, 0, 1), part("FirstColumn", 1, 0, 1), part("Last", 0, -1, None), part("Tail", 0, 1, None),
        part("TailColumns", 1, 1, None), part("Head", 0, 0, 2), part("FlipRows", 0, None, None, -1),
        part("FlipColumns", 1, None, None, -1), part("Even", 0, 0, None, 2),
        gather("Swap", 0, [1, 0, 2]), gather("Rotate", 0, [1, 2, 0]), gather("RotateColumns", 1, [1, 2, 0]),
        gather("Twice", 0, [0, 0]), gather("Second", 0, [1]),
        pad("PadTop", (1, 0, 0, 0)), pad("PadBottom", (0, 0, 1, 0)), pad("PadLeft", (0, 1, 0, 0)), pad("Crop", (-1, 0, 0, 0)),
        half("SplitTop", 0, (1, 2), 0), half("SplitBottom", 0, (1, 2), 1), half("SplitLeft", 1, (2, 1), 0),
        half("SplitRight", 1, (2, 1), 1), expand("Expand33", SQUARE),
        reduction("SumRows", "ReduceSum", 0, np.sum), reduction("MaxColumns", "ReduceMax", 1, np.max),
        unary("Relu", lambda a: np.maximum(a, 0)), unary("Neg", np.negative), binary("Add", np.add),
        concat("ConcatRows", 0), concat("ConcatColumns", 1),
    ],
    "logic": [
        elementwise("Not", 1, np.logical_not, of_conditions), elementwise("And", 2, np.logical_and, of_conditions),
        elementwise("Or", 2, np.logical_or, of_conditions), elementwise("Xor", 2, np.logical_xor, of_conditions),
        binary("Less", np.less), binary("LessOrEqual", np.less_equal), binary("Greater", np.greater),
        binary("GreaterOrEqual", np.greater_equal), binary("Equal", np.equal),
        Operator("Where", 3, where, lambda m, *a: m.node("Where", *a)),
        Operator("Number", 1, of_conditions(lambda a: np.where(a, 1.0, 0.0)), lambda m, a: m.node("Cast", a, to=TensorProto.FLOAT)),
        Operator("Truth", 1, of_numbers(lambda a: a != 0), lambda m, a: m.node("Cast", a, to=TensorProto.BOOL)),
        clip(0, 1), clip(-1, 1), clip(0, 2), clip(-1, 0),
        binary("Max", np.maximum), binary("Min", np.minimum), unary("Relu", lambda a: np.maximum(a, 0)),
        unary("Abs", np.abs), unary("Neg", np.negative), unary("Sign", np.sign), binary("Add", np.add), binary("Sub", np.subtract),
        binary("Mul", np.multiply),
    ],
}
MATRICES = {"arithmetic": ("x", "z"), "movement": ("x", "z"), "logic": ("x", "z", "p")}
CONSTANTS = {"arithmetic": (0.0, 1.0, 2.0, -1.0), "movement": (), "logic": (0.0, 1.0, 2.0, -1.0)}


# Expressions: a leaf, or a tuple of the operator's name and its operands ----------------------------------------------------

class Language:
    def __init__(self, name, random_numbers):
        self.operators = {op.name: op for op in OPERATORS[name]}
        self.leaves = [*MATRICES[name], *CONSTANTS[name]]
        self.matrices = MATRICES[name]
        self.known = {}
        self.draws = self.draw(random_numbers, 8)

    def draw(self, rng, count, halves=False):
        """Random matrices. Each leaf holds small integers in some of the draws, in all combinations with the others."""
        def whole():
            return rng.integers(-9, 10, SQUARE) / 2 if halves else rng.integers(-2, 4, SQUARE).astype(float)
        def numbers(leaf):
            return np.stack([whole() if i >> leaf & 1 else
                             rng.standard_normal(SQUARE) * (1, 6)[i >> len(self.matrices) & 1] for i in range(count)])
        return {name: numbers(leaf) > 0 if name == "p" else numbers(leaf) for leaf, name in enumerate(self.matrices)}

    def compute(self, e, draws, known):
        if not isinstance(e, tuple):
            return draws[e] if isinstance(e, str) else e
        if e in known:
            return known[e]
        operands = [self.compute(k, draws, known) for k in e[1:]]
        value = None
        if all(k is not None for k in operands) and any(map(is_matrix, operands)):
            with np.errstate(all="ignore"):
                try:
                    value = self.operators[e[0]].compute(*operands)
                except ValueError:  # operands do not broadcast
                    value = None
        known[e] = value
        return value

    def value(self, e):
        """On the draws, or None where the expression is not defined, too large, or a NaN everywhere."""
        v = self.compute(e, self.draws, self.known)
        if v is None or not is_matrix(v):
            return v
        useless = v[0].size > MOST_ELEMENTS or np.isnan(v).any(axis=(1, 2)).all()
        return None if useless else v

    def grow(self, deep, shallow):
        """Applications of which one operand is one of `deep`, the others of `shallow`."""
        for op in self.operators.values():
            for at in range(op.arity):
                for operand in deep:
                    for rest in itertools.product(shallow, repeat=op.arity - 1):
                        yield (op.name, *rest[:at], operand, *rest[at:])


def fingerprint(value):
    """The same for values that are equal to nine digits."""
    dtype, value = value.dtype, value.astype(float)
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log10(np.abs(value) + (value == 0)))
        digits = np.round(value / 10.0 ** exponent, 9) + 16 * exponent * (value != 0)
    digits = np.where(np.isfinite(value), digits, np.where(np.isnan(value), 12345.678, np.sign(value) * 98765.4))
    return value.shape, dtype == bool, (digits + 0.0).astype(np.float64).tobytes()


def subexpressions(e):
    return {e}.union(*map(subexpressions, e[1:])) if isinstance(e, tuple) else set()


def size(e):
    return len(subexpressions(e))


def text(e):
    return f"{e[0]}({', '.join(map(text, e[1:]))})" if isinstance(e, tuple) else str(e)


def reducible(language, count, seed):
    """Expressions of three operators with a smallest equal one: a dictionary."""
    smallest = {}
    def enter(e):
        v = language.value(e)
        if v is None:
            return False
        if is_matrix(v):
            known = smallest.get(key := fingerprint(v))
            if known is None or size(e) < size(known):
                smallest[key] = e
        return True
    for leaf in language.leaves:
        enter(leaf)
    one = [e for e in dict.fromkeys(language.grow(language.leaves, language.leaves)) if enter(e)]
    two = [e for e in dict.fromkeys(language.grow(one, language.leaves)) if enter(e)]
    two += [e for op in language.operators.values() if op.arity == 2 for e in itertools.product([op.name], one, one)
            if size(e) == 2 and enter(e)]
    print(f"{len(one)} expressions of one operator, {len(two)} of two, {len(smallest)} functions")

    fresh = [language.draw(np.random.default_rng(2), 40, halves) for halves in (False, True)]
    chooser, found = random.Random(seed), {}
    names = [name for name, op in language.operators.items() for _ in range(op.arity)]
    while len(found) < count:
        op = language.operators[chooser.choice(names)]
        operands = [chooser.choice(language.leaves + [chooser.choice(one)]) for _ in range(op.arity)]
        operands[chooser.randrange(op.arity)] = chooser.choice(two)
        e = (op.name, *operands)
        v = language.value(e)
        if e in found or v is None or not is_matrix(v) or size(e) > 4:
            continue
        small = smallest.get(fingerprint(v))
        if small is None or size(small) >= size(e):
            continue
        pairs = [[language.compute(k, draws, {}) for k in (e, small)] for draws in fresh]
        if all(np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-7, atol=1e-9, equal_nan=True) for a, b in pairs):
            found[e] = small
    return found


# The optimizer ---------------------------------------------------------------------------------------------------------------

def write(language, expressions, path):
    model = Model()
    for i, e in enumerate(expressions):
        names = {}
        def put(e):
            if e not in names:
                if isinstance(e, tuple):
                    names[e] = language.operators[e[0]].write(model, *map(put, e[1:]))
                elif isinstance(e, str):
                    names[e] = model.input(f"{e}{i}", TensorProto.BOOL if e == "p" else TensorProto.FLOAT)
                else:
                    names[e] = model.constant(np.float32(e))
            return names[e]
        v = language.value(e)
        model.output(put(e), f"y{i}", TensorProto.BOOL if v.dtype == bool else TensorProto.FLOAT, v.shape[1:])
    model.save(path)


def operators_by_output(path):
    """For each output, what it is computed by."""
    graph = onnx.load(path).graph
    maker = {name: node for node in graph.node for name in node.output}
    def count(output):
        pending, seen = [output], {}
        while pending:
            node = maker.get(pending.pop())
            if node is None or node.output[0] in seen:
                continue
            seen[node.output[0]] = node.op_type not in ("Constant", "Identity")
            pending += node.input
        return sum(seen.values())
    return {int(output.name[1:]): count(output.name) for output in graph.output}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("anfora", type=pathlib.Path)
    parser.add_argument("--operators", choices=OPERATORS, default="arithmetic")
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=20, help="so many of the misses")
    arguments = parser.parse_args()
    language = Language(arguments.operators, np.random.default_rng(1))
    smallest = reducible(language, arguments.count, arguments.seed)
    expressions = list(smallest)
    with tempfile.TemporaryDirectory() as folder:
        before, after = pathlib.Path(folder, "before.onnx"), pathlib.Path(folder, "after.onnx")
        write(language, expressions, before)
        subprocess.run([arguments.anfora, "opt", before, "-o", after, "--no-check", "--opset", "26"], check=True,
                       stdout=subprocess.DEVNULL)
        counts = operators_by_output(after)
    misses = [(e, counts[i]) for i, e in enumerate(expressions) if counts[i] > size(smallest[e])]
    for e, reached in misses[:arguments.show]:
        print(f"{text(e)} = {text(smallest[e])}: {reached} operators, not {size(smallest[e])}")
    print("misses by the outermost operator:", dict(collections.Counter(e[0] for e, _ in misses).most_common()))
    share = 1 - len(misses) / len(expressions)
    print(f"{arguments.operators}: {len(expressions) - len(misses)} of {len(expressions)} ({share:.1%})")


if __name__ == "__main__":
    main()

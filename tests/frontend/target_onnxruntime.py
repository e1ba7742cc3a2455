#!/usr/bin/env python3
"""opt --target onnxruntime: models whose composites ONNX Runtime has operators for, before and after in ONNX Runtime.

usage: target_onnxruntime.py build/release/anfora
Prints a line for each difference and exits with status 1 when there is one; 77 without onnxruntime.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import parser
except ImportError:
    sys.exit(77)

TOLERANCE = 1e-5  # of the largest element

HEADS = """
  shape = Constant<value_ints=[2, 5, 4, 8]>()
  flat = Constant<value_ints=[2, 5, 32]>()
  qs = Reshape(q, shape)
  ks = Reshape(k, shape)
  vs = Reshape(v, shape)
  qh = Transpose<perm=[0, 2, 1, 3]>(qs)
  kh = Transpose<perm=[0, 2, 3, 1]>(ks)
  vh = Transpose<perm=[0, 2, 1, 3]>(vs)
"""
END = """
  rows = Transpose<perm=[0, 2, 1, 3]>(o)
  y = Reshape(rows, flat)
"""
PACKED = "float[2, 5, 32] q, float[2, 5, 32] k, float[2, 5, 32] v"
BODY = "  factor = Constant<value_float=0.25>()\n  s = MatMul(qh, kh)\n  scaled = Mul(s, factor)\n"

# Name, operator set, inputs, nodes, the operators of com.microsoft that there are to be.
CASES = [
    ("gelu", 17, "float[2, 3, 4] x", """
        root = Constant<value_float=1.4142135>()
        one = Constant<value_float=1.0>()
        half = Constant<value_float=0.5>()
        a = Div(x, root)
        b = Erf(a)
        c = Add(b, one)
        d = Mul(x, c)
        y = Mul(d, half)""", ["Gelu"]),
    ("gelu of a sum, by tanh", 20, "float[2, 3, 4] x", """
        w = Constant<value_floats=[0.1, 0.2, 0.3, 0.4]>()
        s = Add(x, w)
        y = Gelu<approximate="tanh">(s)""", ["FastGelu"]),
    ("gelu of a sum", 20, "float[2, 3, 4] x", """
        w = Constant<value_floats=[0.1, 0.2, 0.3, 0.4]>()
        s = Add(x, w)
        y = Gelu(s)""", ["BiasGelu"]),
    ("swish", 17, "float[2, 3, 4] x", """
        g = Sigmoid(x)
        y = Mul(x, g)""", ["QuickGelu"]),
    ("normalized sum", 17, "float[2, 3, 4] x, float[2, 3, 4] z", """
        g = Constant<value_floats=[1.1, 1.2, 1.3, 1.4]>()
        s = Add(x, z)
        y = LayerNormalization<axis=-1>(s, g)""", ["SkipLayerNormalization"]),
    ("normalized sum of a broadcast", 17, "float[2, 3, 4] x, float[4] z", """
        g = Constant<value_floats=[1.1, 1.2, 1.3, 1.4]>()
        s = Add(x, z)
        y = LayerNormalization<axis=-1>(s, g)""", []),
    ("product of a transposed matrix", 17, "float[2, 3, 4] x, float[2, 5, 4] z", """
        t = Transpose<perm=[0, 2, 1]>(z)
        y = MatMul(x, t)""", ["FusedMatMul"]),
    ("convolution, sum and Relu", 17, "float[1, 2, 5, 5] x, float[1, 2, 5, 5] z", """
        w = Constant<value=float[2, 2, 1, 1] {0.5, -0.25, 0.75, 1.5}>()
        b = Constant<value_floats=[0.1, 0.2]>()
        c = Conv(x, w, b)
        s = Add(c, z)
        y = Relu(s)""", ["FusedConv"]),
    ("convolution and LeakyRelu", 17, "float[1, 2, 5, 5] x", """
        w = Constant<value=float[2, 2, 1, 1] {0.5, -0.25, 0.75, 1.5}>()
        c = Conv(x, w)
        y = LeakyRelu<alpha=0.3>(c)""", ["FusedConv"]),
    ("convolution and Clip", 17, "float[1, 2, 5, 5] x", """
        w = Constant<value=float[2, 2, 1, 1] {0.5, -0.25, 0.75, 1.5}>()
        low = Constant<value_float=0.0>()
        high = Constant<value_float=0.5>()
        c = Conv(x, w)
        y = Clip(c, low, high)""", ["FusedConv"]),
    ("attention", 17, PACKED, HEADS + BODY + "  p = Softmax<axis=-1>(scaled)\n  o = MatMul(p, vh)\n" + END, ["MultiHeadAttention"]),
    ("causal attention", 17, PACKED, HEADS + BODY + """
        ones = Constant<value=float[5, 5] {0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0}>()
        least = Constant<value_float=-3.4028235e38>()
        mask = Mul(ones, least)
        masked = Add(scaled, mask)
        p = Softmax<axis=-1>(masked)
        o = MatMul(p, vh)""" + END, ["MultiHeadAttention"]),
    ("attention with a bias", 17, PACKED, HEADS + BODY + """
        ones = Constant<value=float[1, 1, 5, 5] {0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0.5, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0}>()
        masked = Add(scaled, ones)
        p = Softmax<axis=-1>(masked)
        o = MatMul(p, vh)""" + END, ["MultiHeadAttention"]),
    ("attention of a mask that may hide all keys", 17, PACKED + ", float[2, 1, 5, 5] m", HEADS + BODY + """
        masked = Add(scaled, m)
        p = Softmax<axis=-1>(masked)
        o = MatMul(p, vh)""" + END, ["MultiHeadAttention"]),
    ("attention of a cache", 17, "float[2, 5, 32] q, float[2, 4, 6, 8] k, float[2, 4, 6, 8] v", """
        shape = Constant<value_ints=[2, 5, 4, 8]>()
        flat = Constant<value_ints=[2, 5, 32]>()
        qs = Reshape(q, shape)
        qh = Transpose<perm=[0, 2, 1, 3]>(qs)
        kh = Transpose<perm=[0, 1, 3, 2]>(k)
        s = MatMul(qh, kh)
        p = Softmax<axis=-1>(s)
        o = MatMul(p, v)""" + END, ["MultiHeadAttention"]),
    ("attention of a cache of two sizes", 17, "float[2, 5, 32] q, float[2, 4, 6, 8] k, float[2, 4, 6, 16] v", """
        shape = Constant<value_ints=[2, 5, 4, 8]>()
        flat = Constant<value_ints=[2, 5, 64]>()
        qs = Reshape(q, shape)
        qh = Transpose<perm=[0, 2, 1, 3]>(qs)
        kh = Transpose<perm=[0, 1, 3, 2]>(k)
        s = MatMul(qh, kh)
        p = Softmax<axis=-1>(s)
        o = MatMul(p, v)""" + END, ["FusedMatMul"]),
    ("attention of a mask of one row for all queries", 17, PACKED + ", float[2, 4, 1, 5] m", HEADS + BODY + """
        masked = Add(scaled, m)
        p = Softmax<axis=-1>(masked)
        o = MatMul(p, vh)""" + END, ["MultiHeadAttention"]),
    ("attention of split heads", 23, "float[2, 4, 5, 8] q, float[2, 4, 6, 8] k, float[2, 4, 6, 8] v", "y = Attention(q, k, v)", []),
    ("causal attention of split heads", 23, "float[2, 4, 5, 8] q, float[2, 4, 5, 8] k, float[2, 4, 5, 8] v",
     "y = Attention<is_causal=1>(q, k, v)", []),
    ("grouped attention", 23, "float[2, 4, 5, 8] q, float[2, 2, 5, 8] k, float[2, 2, 5, 8] v", "y = Attention(q, k, v)", []),
]


def outputs(model, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def check(anfora, folder, name, opset, inputs, nodes, expected):
    rank = 4 if "4, 5, 8]" in inputs else 3
    result = f"float[{', '.join('abcd'[:rank])}] y"
    text = f'<ir_version: 9, opset_import: ["" : {opset}]> g ({inputs}) => ({result}) {{ {nodes} }}'
    source, target = folder / "source.onnx", folder / "target.onnx"
    model = parser.parse_model(text)
    onnx.save(model, source)
    result = subprocess.run([anfora, "opt", source, "-o", target, "--target", "onnxruntime"], capture_output=True, text=True)
    if result.returncode:
        return f"{result.stdout}{result.stderr}"
    written = onnx.load(target)
    own = [node.op_type for node in written.graph.node if node.domain == "com.microsoft"]
    if own != expected:
        return f"has {own} of ONNX Runtime's operators instead of {expected}"
    if {o.domain: o.version for o in written.opset_import}.get("") != opset:
        return f"has another operator set than {opset}"
    random = np.random.default_rng(0)
    feeds = {}
    for value in model.graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        feeds[value.name] = random.standard_normal(shape).astype(np.float32)
    want, got = outputs(source, feeds)[0], outputs(target, feeds)[0]
    difference = np.abs(want - got).max() / np.abs(want).max()
    return "" if difference <= TOLERANCE else f"differs by {difference:.1e}"


def check_versions(anfora, folder):
    """A source of versions that ONNX Runtime does not read is written in those that it does; asked for another one, `opt` says so."""
    source, target = folder / "newest.onnx", folder / "written.onnx"
    model = onnx.parser.parse_model(f"""<ir_version: {onnx.IR_VERSION}, opset_import: ["": {onnx.defs.onnx_opset_version()}]>
        g (float[2, 3] x) => (float[2, 3] y) {{ y = Relu(x) }}""")
    onnx.save(model, source)
    for opset in ("keep", "newest"):
        command = [anfora, "opt", source, "-o", target, "--target", "onnxruntime", "--opset", opset]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            return f"{result.stdout}{result.stderr}"
        outputs(target, {"x": np.zeros((2, 3), np.float32)})
    command = [anfora, "opt", source, "-o", target, "--target", "onnxruntime", "--opset", str(onnx.defs.onnx_opset_version())]
    result = subprocess.run(command, capture_output=True, text=True)
    return "" if result.returncode == 3 and "does not read" in result.stderr else f"not refused: {result.stderr}"


def main():
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name, *case in CASES:
            problem = check(sys.argv[1], pathlib.Path(folder), name, *case)
            if problem:
                failed = True
                print(f"{name}: {problem}")
        if problem := check_versions(sys.argv[1], pathlib.Path(folder)):
            failed = True
            print(f"versions: {problem}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What is written is strict where what is read need not be: ranks of operands.

usage: strict_ranks.py build/release/anfora

Some readers take a scalar for a vector of one element, and the other way round; ONNX, and ONNX Runtime, do not. For each operator and each
operand of one element, a model has it in the other rank, as an input and as a constant. Anfora may refuse it. What it writes passes
onnx's strict checks, and gives in ONNX Runtime what the right rank gives. The same for loops whose bodies declare their number of
the iteration as i64[1], as tf2onnx does, which ONNX Runtime then hands over like that.
Exit status 77 without onnxruntime.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper, parser
except ImportError:
    sys.exit(77)

GENERATOR = np.random.default_rng(0)
LEVELS = (onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)


def f(*shape):
    return np.abs(GENERATOR.standard_normal(shape)).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def scalar(value, dtype=np.int64):
    return np.array(value, dtype)


# Operator, attributes, inputs of the right rank.
CASES = [
    ("Slice", {}, [f(4, 3), ints(1), ints(3), ints(0), ints(1)]),
    ("Reshape", {}, [f(2, 2), ints(4)]),
    ("Expand", {}, [f(1), ints(3)]),
    ("Tile", {}, [f(3), ints(2)]),
    ("Pad", {}, [f(3), ints(1, 1), scalar(0.5, np.float32), ints(0)]),
    ("Unsqueeze", {}, [f(3), ints(0)]),
    ("Squeeze", {}, [f(1, 3), ints(0)]),
    ("ReduceSum", {}, [f(3, 2), ints(0)]),
    ("ReduceMean", {}, [f(3, 2), ints(0)]),
    ("ReduceMax", {}, [f(3, 2), ints(0)]),
    ("ReduceL2", {}, [f(3, 2), ints(1)]),
    ("Split", {}, [f(3), ints(3)]),
    ("ConstantOfShape", {}, [ints(3)]),
    ("Range", {}, [scalar(0), scalar(5), scalar(2)]),
    ("TopK", {}, [f(5), ints(2)]),
    ("OneHot", {}, [ints(0, 1), scalar(3), f(2)]),
    ("Clip", {}, [f(3), scalar(0.1, np.float32), scalar(0.5, np.float32)]),
    ("CumSum", {}, [f(3), scalar(0)]),
    ("Trilu", {}, [f(3, 3), scalar(0)]),
    ("NonMaxSuppression", {}, [f(1, 4, 4), f(1, 1, 4), ints(2), scalar([0.5], np.float32), scalar([0.1], np.float32)]),
    ("HannWindow", {}, [scalar(5)]),
    ("DFT", {}, [f(1, 4, 1), scalar(4), scalar(1)]),
    ("STFT", {}, [f(1, 8, 1), scalar(2), f(4), scalar(4)]),
    ("CenterCropPad", {"axes": [0]}, [f(4), ints(2)]),
    ("Compress", {}, [f(1), np.array([True])]),
    ("RoiAlign", {}, [f(1, 1, 4, 4), scalar([[0, 0, 2, 3]], np.float32), ints(0)]),
    ("Resize", {}, [f(4), np.zeros(0, np.float32), scalar([2], np.float32)]),
    ("QuantizeLinear", {}, [f(3), scalar(0.1, np.float32), scalar(0, np.uint8)]),
    ("DequantizeLinear", {}, [scalar([1, 2], np.uint8), scalar(0.1, np.float32), scalar(0, np.uint8)]),
    ("BatchNormalization", {}, [f(2, 1, 3), f(1), f(1), f(1), f(1)]),
    ("InstanceNormalization", {}, [f(2, 1, 3), f(1), f(1)]),
    ("LayerNormalization", {}, [f(2, 1), f(1), f(1)]),
    ("Conv", {}, [f(1, 1, 3), f(1, 1, 1), f(1)]),
    ("ConvTranspose", {}, [f(1, 1, 3), f(1, 1, 1), f(1)]),
    ("PRelu", {}, [f(3) - 0.5, f(1)]),
    ("Where", {}, [np.array([True]), f(1), f(1)]),
    ("ReverseSequence", {}, [f(3, 1), ints(2)]),
    ("GatherND", {}, [f(3), ints(0)]),
    ("GatherElements", {}, [f(3), ints(0)]),
    ("ScatterElements", {}, [f(3), ints(0), f(1)]),
    ("RNN", {"hidden_size": 1}, [f(2, 1, 1), f(1, 1, 1), f(1, 1, 1), f(1, 2), scalar([2], np.int32)]),
]


def session_of(model, level=LEVELS[0]):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model if isinstance(model, str) else model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"])


def model_of(op, attributes, inputs, constant):
    """Operand `constant` is stored; None: all are inputs."""
    names = [f"i{k}" for k in range(len(inputs))]
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
             for k, (n, v) in enumerate(zip(names, inputs)) if k != constant]
    stored = [numpy_helper.from_array(v, n) for k, (n, v) in enumerate(zip(names, inputs)) if k == constant]
    outputs = ["y"] + (["z"] if op == "TopK" else [])
    node = helper.make_node(op, names, outputs, **attributes)
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=name) for name in outputs], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    feeds = {n: v for k, (n, v) in enumerate(zip(names, inputs)) if k != constant}
    return model, feeds


def with_types(model, values):
    """States the types of the outputs, which no inference tells of the wrong rank."""
    for info, value in zip(model.graph.output, values):
        dtype = helper.np_dtype_to_tensor_dtype(value.dtype)
        info.CopyFrom(helper.make_tensor_value_info(info.name, dtype, [None] * value.ndim))
    return model


def check_strictly(path):
    onnx.checker.check_model(path, full_check=True)
    onnx.shape_inference.infer_shapes(onnx.load(path), check_type=True, strict_mode=True, data_prop=True)


def is_strict(path):
    try:
        check_strictly(path)
        return True
    except Exception:  # pylint: disable=broad-except
        return False


class Failures:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.count = self.written = self.checked = 0

    def report(self, name, what):
        self.count += 1
        print(f"{name}: {' '.join(str(what).split())[:300]}")

    def check(self, name, model, feeds, want, may_refuse):
        self.checked += 1
        source, target = str(self.folder / "before.onnx"), str(self.folder / "after.onnx")
        onnx.save(model, source)
        result = subprocess.run([self.program, "opt", source, "-o", target, "--no-check"], capture_output=True, text=True)
        if result.returncode != 0:
            if not may_refuse or result.returncode < 0:
                self.report(name, result.stderr)
            return
        self.written += 1
        try:
            if may_refuse or is_strict(source):  # of the wrong rank none is
                check_strictly(target)
            for level in LEVELS:
                session = session_of(target, level)
                names = {value.name for value in session.get_inputs()}
                got = session.run(None, {n: v for n, v in feeds.items() if n in names})
                for g, w in zip(got, want):
                    np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)
        except Exception as error:  # pylint: disable=broad-except
            self.report(name, error)


def check_operators(failures):
    for op, attributes, inputs in CASES:
        for k, value in enumerate(inputs):
            if value.size != 1 or value.ndim > 1:
                continue
            other = list(inputs)
            other[k] = value.reshape(() if value.ndim else (1,))
            for constant in (None, k):
                right, right_feeds = model_of(op, attributes, inputs, constant)
                try:
                    typed = onnx.shape_inference.infer_shapes(right, data_prop=True)
                    want = session_of(typed).run(None, right_feeds)
                except Exception as error:  # pylint: disable=broad-except
                    failures.report(f"{op}, operand {k}", error)
                    continue
                model, feeds = model_of(op, attributes, other, constant)
                name = f"{op}, operand {k} of rank {other[k].ndim}, {'an input' if constant is None else 'a constant'}"
                failures.check(name, with_types(model, want), feeds, want, may_refuse=True)


LOOP = """<ir_version: 8, opset_import: ["" : {opset}]>
agraph (float[5, 3] x, int64 n) => (float[K, A, B] y) {{
 one = Constant<value_ints=[1]>()
 t = Constant<value=bool {{1}}>()
 y = Loop(n, t) <body = body ({declared} i, bool cin) => (bool cout, float[A, B] item) {{
   {nodes}
   cout = Identity(cin)
 }}>
}}"""
LOOPS = {
    "bounds of a Slice": ("int64[1]", "j = Add(i, one)\n item = Slice(x, i, j)"),
    "an index": ("int64[1]", "row = Gather(x, i)\n item = Relu(row)"),
    "its shape is read": ("int64[1]", "s = Shape(i)\n fs = Cast<to=1>(s)\n item = Unsqueeze(fs, one)"),
    "an axis of any length": ("int64[M]", "j = Add(one, i)\n item = Slice(x, i, j, one)\n"),
    "a scalar": ("int64", "zero = Constant<value_ints=[0]>()\n v = Unsqueeze(i, zero)\n j = Add(v, one)\n item = Slice(x, v, j)"),
}

# As tf2onnx writes TensorFlow's CropAndResize.
CROP_AND_RESIZE = """<ir_version: 8, opset_import: ["" : 17]>
agraph (float[2, 6, 7, 3] image, float[N, 4] boxes, int64[N] indices) => (float[K, A, B, C] crops) {
 one = Constant<value_ints=[1]>()
 zero = Constant<value_ints=[0]>()
 two = Constant<value_ints=[2]>()
 four = Constant<value_ints=[4]>()
 sizes = Constant<value_ints=[1, 3, 4, 4]>()
 low = Constant<value=float[1, 2] {0, 0}>()
 high = Constant<value=float[1, 2] {1, 1}>()
 none = Constant<value = float[0] {}>()
 t = Constant<value=bool {1}>()
 shape = Shape(boxes)
 count = Slice(shape, zero, one)
 all = Loop(count, t) <body = body (int64[1] i, bool cin) => (bool cout, float[A, B, C] crop) {
   next = Add(i, one)
   from = Slice(indices, i, next)
   to = Add(from, one)
   picked = Slice(image, from, to)
   first = Transpose<perm=[0, 3, 1, 2]>(picked)
   box = Slice(boxes, i, next)
   start = Slice(box, zero, two, one)
   end = Slice(box, two, four, one)
   rows = Concat<axis=1>(low, start, high, end)
   roi = Squeeze(rows, zero)
   resized = Resize<coordinate_transformation_mode="tf_crop_and_resize", mode="linear", extrapolation_value=0.5>(first, roi, none, sizes)
   crop = Squeeze(resized, zero)
   cout = Identity(cin)
 }>
 crops = Transpose<perm=[0, 2, 3, 1]>(all)
}"""


def check_loops(failures):
    boxes = np.array([[0, 0, 1, 1], [0.2, 0.1, 0.7, 0.9], [-0.3, 0.2, 1.4, 0.5]], np.float32)
    model = parser.parse_model(CROP_AND_RESIZE)
    feeds = {"image": f(2, 6, 7, 3), "boxes": boxes, "indices": ints(1, 0, 1)}
    failures.check("CropAndResize", model, feeds, session_of(model).run(None, feeds), may_refuse=False)
    for name, (declared, nodes) in LOOPS.items():
        for opset in (13, 17, 21):
            model = parser.parse_model(LOOP.format(opset=opset, declared=declared, nodes=nodes))
            feeds = {"x": f(5, 3), "n": scalar(3)}
            want = session_of(model).run(None, feeds)
            failures.check(f"Loop, {name}, operator set {opset}", model, feeds, want, may_refuse=False)


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        failures = Failures(program, pathlib.Path(folder))
        check_operators(failures)
        check_loops(failures)
    print(f"{failures.checked} models, {failures.written} written, {failures.count} failures")
    sys.exit(failures.count > 0 or failures.written == 0)


if __name__ == "__main__":
    main(sys.argv[1])

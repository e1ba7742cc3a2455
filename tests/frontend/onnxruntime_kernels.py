#!/usr/bin/env python3
"""What is written for a newer operator set than ONNX Runtime has kernels for: opt says so, and its facts are those of the runtime.

usage: onnxruntime_kernels.py build/release/anfora

Each case is written for each operator set from 21 on: where ONNX Runtime finds no implementation, the report names the operator and its
version. Of all operators that ONNX Runtime has kernels for or ONNX defines by parts, no other is without. What rewrites make
runs wherever the model ran before. Exit status 77 without onnxruntime, or where it has another version.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import onnx
    import onnxruntime
    import onnxruntime.capi.onnxruntime_pybind11_state as state
    from onnx import parser
    if not onnxruntime.__version__.startswith("1.31."):
        sys.exit(77)
except ImportError:
    sys.exit(77)

OPSETS = range(21, 29)
NEWEST = 26  # that ONNX Runtime reads
OPEN = 2**31 - 1
IMAGES = "float[1, 2, 4, 4] x"
# Operator, inputs, output, application.
CASES = {
    "Bernoulli": ("float[3] x", "float[3] y", "Bernoulli(x)"),
    "CastLike": ("float[3] x, int64[3] z", "int64[3] y", "CastLike(x, z)"),
    "GlobalLpPool": (IMAGES, "float[1, 2, 1, 1] y", "GlobalLpPool(x)"),
    "GroupNormalization": (IMAGES + ", float[2] s, float[2] b", "float[1, 2, 4, 4] y", "GroupNormalization<num_groups=1>(x, s, b)"),
    "HardSwish": ("float[3] x", "float[3] y", "HardSwish(x)"),
    "ImageDecoder": ("uint8[N] x", "uint8[A, B, C] y", "ImageDecoder(x)"),
    "MaxRoiPool": (IMAGES + ", float[1, 5] r", "float[1, 2, 2, 2] y", "MaxRoiPool<pooled_shape=[2, 2]>(x, r)"),
    "Mish": ("float[3] x", "float[3] y", "Mish(x)"),
    "Multinomial": ("float[1, 3] x", "int32[1, 1] y", "Multinomial(x)"),
    "RandomNormal": ("float[3] x", "float[3] y", None),
    "RandomNormalLike": ("float[3] x", "float[3] y", "RandomNormalLike(x)"),
    "RandomUniform": ("float[3] x", "float[3] y", None),
    "RandomUniformLike": ("float[3] x", "float[3] y", "RandomUniformLike(x)"),
    "RoiAlign": (IMAGES + ", float[1, 4] r, int64[1] i", "float[1, 2, 1, 1] y", "RoiAlign(x, r, i)"),
    "Swish": ("float[3] x", "float[3] y", "Swish(x)"),
}
# What a rewrite could make one operator of, had ONNX Runtime a kernel for the type: inputs, output, nodes.
PARTS = {
    "Elu": ("double[3] x", "double[3] y", "z = Constant<value = double {0.0}>()\no = Constant<value = double {1.0}>()\n"
            "p = Greater(x, z)\ne = Exp(x)\nm = Sub(e, o)\ny = Where(p, x, m)"),
    "LeakyRelu": ("double[3] x", "double[3] y", "k = Constant<value = double {0.1}>()\ns = Mul(x, k)\ny = Max(x, s)"),
    "Softplus": ("double[3] x", "double[3] y", "o = Constant<value = double {1.0}>()\ne = Exp(x)\ns = Add(e, o)\ny = Log(s)"),
    "Softsign": ("double[3] x", "double[3] y", "o = Constant<value = double {1.0}>()\na = Abs(x)\ns = Add(a, o)\ny = Div(x, s)"),
    "DepthToSpace": ("int32[1, 4, 3, 5] x", "int32[1, 1, 6, 10] y", "s = Constant<value = int64[6] {1, 2, 2, 1, 3, 5}>()\nr = Reshape(x, s)\n"
                     "t = Transpose<perm = [0, 3, 4, 1, 5, 2]>(r)\nu = Constant<value = int64[4] {1, 1, 6, 10}>()\ny = Reshape(t, u)"),
    "Gemm": ("int32[2, 3] x, int32[3, 4] w, int32[4] b", "int32[2, 4] y", "m = MatMul(x, w)\ny = Add(m, b)"),
    "GlobalAveragePool": ("double[1, 2, 3, 3] x", "double[1, 2, 1, 1] y", "a = Constant<value = int64[2] {2, 3}>()\ny = ReduceMean(x, a)"),
    "GlobalMaxPool": ("double[1, 2, 3, 3] x", "double[1, 2, 1, 1] y", "a = Constant<value = int64[2] {2, 3}>()\ny = ReduceMax(x, a)"),
}


def why_not_run(path):
    """An empty text: ONNX Runtime takes the model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return ""
    except Exception as error:  # pylint: disable=broad-except
        return str(error)


def model_of(inputs, output, nodes, opset):
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\nagraph ({inputs}) => ({output}) {{\n{nodes}\n}}')
    onnx.checker.check_model(model)
    return model


def node_of(op, application):
    if application:
        return f"y = {application}"
    return f"r = {op}<shape=[3]>()\ny = Add(r, x)"


def operators_without_kernel():
    """Of those that some version of has a kernel, and those that ONNX defines by parts: (operator, version) of the newest that is read."""
    kernels = {}
    for kernel in state.get_all_opkernel_def():
        if kernel.domain == "":
            kernels.setdefault(kernel.op_name, set()).add(kernel.version_range)
    missing = set()
    for name in {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}:
        try:
            schema = onnx.defs.get_schema(name, NEWEST, "")
        except Exception:  # pylint: disable=broad-except
            continue
        has_kernel = any(first == schema.since_version or last != OPEN and first <= schema.since_version <= last
                         for first, last in kernels.get(name, ()))
        if not has_kernel and not schema.deprecated and not (schema.has_function or schema.has_context_dependent_function):
            missing.add(name)
    return missing - {"Constant"}


class Check:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.failures = 0

    def fail(self, what):
        self.failures += 1
        print(what)

    def optimize(self, model, opset):
        source, target = self.folder / "before.onnx", self.folder / "after.onnx"
        onnx.save(model, source)
        result = subprocess.run([self.program, "opt", source, "-o", target, "--opset", str(opset), "--no-check", "--json"],
                                capture_output=True, text=True, check=True)
        return target, json.loads(result.stdout)["note"]

    def check_case(self, op, opset):
        inputs, output, application = CASES[op]
        schema = onnx.defs.get_schema(op, min(opset, 28), "")
        source_opset = min(opset, max(schema.since_version, 21))
        target, note = self.optimize(model_of(inputs, output, node_of(op, application), source_opset), opset)
        error = why_not_run(target)
        if opset > NEWEST:
            if not error or f"reads operator sets up to {NEWEST}" not in note:
                self.fail(f"{op} in operator set {opset}: '{note}', but {error or 'it runs'}")
            return
        is_noted = f"no CPU kernel for {op} {schema.since_version}" in note
        if "Could not find an implementation" in error and not is_noted:
            self.fail(f"{op} in operator set {opset}: '{note}', but {error}")
        if is_noted and not error and not schema.has_function:
            self.fail(f"{op} in operator set {opset}: '{note}', but it runs")
        if error and "Could not find an implementation" not in error:
            self.fail(f"{op} in operator set {opset}: {error}")


def main(program):
    with tempfile.TemporaryDirectory() as name:
        check = Check(program, pathlib.Path(name))
        for op in CASES:
            for opset in OPSETS:
                try:
                    onnx.defs.get_schema(op, opset, "")
                except Exception:  # pylint: disable=broad-except
                    continue
                check.check_case(op, opset)
        unknown = operators_without_kernel() - CASES.keys()
        if unknown:
            check.fail(f"without a kernel, and not among the cases: {', '.join(sorted(unknown))}")
        for op, parts in PARTS.items():
            for opset in range(21, NEWEST + 1):
                model = model_of(*parts, 21)
                onnx.save(model, check.folder / "parts.onnx")
                if error := why_not_run(check.folder / "parts.onnx"):
                    check.fail(f"the parts of {op}: {error}")
                target, _ = check.optimize(model, opset)
                if error := why_not_run(target):
                    check.fail(f"what becomes of the parts of {op} in operator set {opset}: {error}")
        # x · σ(x) is Swish since 24, and stays what it is where that does not run.
        for opset in OPSETS:
            target, note = check.optimize(model_of("float[3] x", "float[3] y", "s = Sigmoid(x)\ny = Mul(x, s)", 21), opset)
            if opset <= NEWEST and (error := why_not_run(target)):
                check.fail(f"x · σ(x) in operator set {opset}: '{note}', but {error}")
    print(f"onnxruntime {onnxruntime.__version__}: {len(CASES) + len(PARTS)} operators, {check.failures} failures")
    sys.exit(check.failures > 0)


if __name__ == "__main__":
    main(sys.argv[1])

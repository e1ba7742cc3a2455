#!/usr/bin/env python3
"""Code that is repeated, as functions of the model: opt writes what came as functions as such again, and with --outline also layers.

usage: outlined.py build/release/anfora

Of each model: the file is valid, ONNX Runtime gives what it gives for the original, it is not larger than with every call inlined, and
optimized again it stays what it is. Exit status 77 without onnxruntime.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnx.inliner
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    sys.exit(77)

DOMAIN = "my.layers"
WIDTH = 8
LAYERS = 6
GENERATOR = np.random.default_rng(0)


def layer_nodes(x, y, weights, prefix):
    """A layer whose parts no rule makes one: normalization of its own kind, a product, a gate, the sum with what came in."""
    w, b = weights
    n = lambda name: prefix + name
    make = helper.make_node
    return [
        make("Abs", [x], [n("abs")]),
        make("ReduceMax", [n("abs")], [n("peak")], keepdims=1),
        make("Add", [n("peak"), n("eps")], [n("scale")]),
        make("Div", [x, n("scale")], [n("unit")]),
        make("MatMul", [n("unit"), w], [n("product")]),
        make("Add", [n("product"), b], [n("sum")]),
        make("Sin", [n("sum")], [n("sin")]),
        make("Softsign", [n("sum")], [n("sign")]),
        make("Mul", [n("sin"), n("sign")], [n("gate")]),
        make("Cos", [n("gate")], [n("cos")]),
        make("Add", [n("cos"), x], [y]),
    ]


def epsilon(prefix):
    return helper.make_node("Constant", [], [prefix + "eps"], value=numpy_helper.from_array(np.float32(0.1)))


def model_of(nodes, functions=(), weights=(), opset=18, outputs=("y",)):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", WIDTH])
    ys = [helper.make_tensor_value_info(y, TensorProto.FLOAT, ["N", WIDTH]) for y in outputs]
    graph = helper.make_graph(nodes, "g", [x], ys, [numpy_helper.from_array(v, k) for k, v in weights])
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(DOMAIN, 1)] if functions else [])
    model = helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=8)
    onnx.checker.check_model(model)
    return model


def weights_of(i):
    return [(f"w{i}", GENERATOR.standard_normal((WIDTH, WIDTH)).astype(np.float32)),
            (f"b{i}", GENERATOR.standard_normal(WIDTH).astype(np.float32))]


def function_of(name, inputs, outputs, nodes, opset=18, domains=()):
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in domains]
    return helper.make_function(DOMAIN, name, inputs, outputs, nodes, imports)


def calls(name, count, with_weights=True):
    nodes, weights = [], []
    for i in range(count):
        own = weights_of(i) if with_weights else []
        weights += own
        nodes.append(helper.make_node(name, [f"x{i}" if i else "x", *(k for k, _ in own)], [f"x{i + 1}" if i + 1 < count else "y"],
                                      domain=DOMAIN, name=f"layer{i}"))
    return nodes, weights


def called_often():
    layer = function_of("Layer", ["x", "w", "b"], ["y"], [epsilon("l_"), *layer_nodes("x", "y", ("w", "b"), "l_")])
    nodes, weights = calls("Layer", LAYERS)
    return model_of(nodes, [layer], weights)


def called_by_functions():
    inner = function_of("Gate", ["x"], ["y"], [helper.make_node("Sin", ["x"], ["s"]), helper.make_node("Softsign", ["s"], ["t"]),
                                               helper.make_node("Mul", ["s", "t"], ["u"]), helper.make_node("Cos", ["u"], ["y"])])
    outer = function_of("Layer", ["x", "w", "b"], ["y"], [
        helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["q"]),
        helper.make_node("Gate", ["q"], ["g"], domain=DOMAIN), helper.make_node("Gate", ["g"], ["h"], domain=DOMAIN),
        helper.make_node("Add", ["h", "x"], ["y"])], domains=[DOMAIN])
    nodes, weights = calls("Layer", LAYERS)
    return model_of(nodes, [inner, outer], weights)


def several_results():
    nodes = [epsilon("l_"), *layer_nodes("x", "y", ("w", "b"), "l_")]
    layer = function_of("Layer", ["x", "w", "b"], ["y", "l_gate"], nodes)
    made, weights = calls("Layer", LAYERS)
    for i, node in enumerate(made):
        node.output.append(f"gate{i}")
    made.append(helper.make_node("Sum", [f"gate{i}" for i in range(LAYERS)], ["gates"]))
    return model_of(made, [layer], weights, outputs=("y", "gates"))


def small():
    twice = function_of("Twice", ["x"], ["y"], [helper.make_node("Add", ["x", "x"], ["y"])])
    nodes, _ = calls("Twice", 4, with_weights=False)
    nodes = [helper.make_node("Sin", ["x"], ["s"])] + nodes
    nodes[1].input[0] = "s"
    return model_of(nodes, [twice])


def plain_layers(opset=18):
    nodes, weights = [], []
    for i in range(LAYERS):
        own = weights_of(i)
        weights += own
        nodes += [epsilon(f"l{i}_"), *layer_nodes(f"x{i}" if i else "x", f"x{i + 1}" if i + 1 < LAYERS else "y", [k for k, _ in own],
                                                  f"l{i}_")]
    return model_of(nodes, weights=weights, opset=opset)


# Name, model, options, whether there are to be functions.
CASES = [
    ("a function that is called often", called_often(), [], True),
    ("functions that call functions", called_by_functions(), [], True),
    ("several results", several_results(), [], True),
    ("too small for a function", small(), [], False),
    ("layers", plain_layers(), [], False),
    ("layers, --outline", plain_layers(), ["--outline"], True),
    ("layers of operator set 11, --outline", plain_layers(11), ["--outline"], True),
]


def run(path, level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    x = np.linspace(-2, 2, 3 * WIDTH, dtype=np.float32).reshape(3, WIDTH)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})


def check(program, folder, name, model, options, wants_functions):
    source, target, again, plain = (folder / f"{stem}.onnx" for stem in ("source", "target", "again", "plain"))
    onnx.save(model, source)

    def optimize(before, after, *more):
        result = subprocess.run([program, "opt", before, "-o", after, *more], capture_output=True, text=True)
        if result.returncode:
            raise RuntimeError(result.stdout + result.stderr)
        return result.stdout

    report = optimize(source, target, *options)
    if "verified" not in report or "not verified" in report:
        raise RuntimeError(report)
    onnx.checker.check_model(str(target), full_check=True)
    written = onnx.load(target)
    if bool(written.functions) != wants_functions:
        raise RuntimeError(f"{len(written.functions)} functions")
    levels = onnxruntime.GraphOptimizationLevel
    want = run(source, levels.ORT_DISABLE_ALL)
    for level in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_ALL):
        for got, expected in zip(run(target, level), want):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    onnx.save(onnx.inliner.inline_local_functions(written), plain)
    if wants_functions and target.stat().st_size >= plain.stat().st_size:
        raise RuntimeError(f"{target.stat().st_size} bytes, inlined {plain.stat().st_size}")
    optimize(target, again, *options)
    if again.stat().st_size > target.stat().st_size * 1.02:
        raise RuntimeError(f"{target.stat().st_size} bytes, optimized again {again.stat().st_size}")
    domains = {function.domain for function in written.functions}
    if wants_functions and model.functions and domains != {DOMAIN}:
        raise RuntimeError(f"functions of the domains {domains}")


def main(program):
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            try:
                check(program, pathlib.Path(folder), *case)
            except Exception as error:  # pylint: disable=broad-except
                failures += 1
                print(f"{case[0]}: {error}")
    print(f"{len(CASES)} models, {failures} failures")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main(sys.argv[1])

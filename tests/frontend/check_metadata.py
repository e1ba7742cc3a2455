"""What a model says about its parts survives import, optimization, the text form and export: documentation and
properties, names of nested graphs, quantization annotations, which types are stated. What does not is told.

Usage: check_metadata.py ANFORA. Exits 77 (skipped) where the module onnx is not installed.
"""

import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    print("skipped: the Python module onnx is not installed")
    sys.exit(77)

OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("test", 1)]
FLOAT = TensorProto.FLOAT


def about(part, text, /, **properties):
    """`part` with documentation and properties."""
    part.doc_string = text
    for key, value in properties.items():
        entry = part.metadata_props.add()
        entry.key, entry.value = key, value
    return part


def value(name, shape, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def branch(name, op):
    node = about(helper.make_node(op, ["h"], ["branch_out"], name=f"{name}_node"), f"in {name}", branch=name)
    return about(helper.make_graph([node], name, [], [value("branch_out", None)]), f"the branch {name}", branch=name)


def body():
    nodes = [about(helper.make_node("Add", ["v", "w"], ["sum"], name="step"), "one step", of="loop"),
             helper.make_node("Tanh", ["sum"], ["v_next"], name="squash"),
             helper.make_node("ReduceMax", ["v_next"], ["top"], name="top", keepdims=0),
             helper.make_node("Less", ["top", "limit"], ["on"], name="on")]
    graph = helper.make_graph(
        nodes, "the body", [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("v", None)],
        [value("on", [], TensorProto.BOOL), value("v_next", None)])
    return about(graph, "what a step does", part="body")


def model():
    function = helper.make_function(
        "test", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"], name="twice_add")], OPSETS)
    about(function, "two of it", kind="function")
    nodes = [
        about(helper.make_node("MatMul", ["x", "w"], ["m"], name="fc"), "the head\nin two lines \u00e4", namespace="net/head",
              trace="File \"a.py\", line 1"),
        about(helper.make_node("Identity", ["m"], ["same"], name="nothing"), "does nothing", namespace="net/nothing"),
        about(helper.make_node("Relu", ["same"], ["h"]), "a node without a name", namespace="net/act"),
        about(helper.make_node("If", ["c"], ["chosen"], name="choice", then_branch=branch("yes", "Exp"),
                               else_branch=branch("no", "Tanh")), "a choice", namespace="net/if"),
        about(helper.make_node("Loop", ["n", "c", "chosen"], ["looped"], name="loop", body=body()), "a loop", namespace="net/loop"),
        about(helper.make_node("Twice", ["looped"], ["y"], name="call", domain="test"), "a call", namespace="net/call"),
        about(helper.make_node("Split", ["looped"], ["left", "right"], name="split", axis=1, num_outputs=2), "both halves"),
    ]
    graph = helper.make_graph(
        nodes, "net", [
            about(value("x", ["N", 4]), "pictures", unit="pixel"), value("c", [], TensorProto.BOOL),
            value("n", [], TensorProto.INT64)
        ], [about(value("y", ["N", 4]), "scores", unit="none"), value("left", ["N", 2]), value("right", ["N", 2])],
        [numpy_helper.from_array(np.full((4, 4), 0.5, np.float32), "w"), numpy_helper.from_array(np.float32(9), "limit"),
         # The graph itself does not read these.
         numpy_helper.from_array(np.float32(0.25), "h_scale"), numpy_helper.from_array(np.uint8(3), "h_zero")],
        value_info=[about(value("m", ["N", 4]), "before the activation", scale="7"),
                    about(value("h", ["N", 4]), "after it"), about(value("chosen", ["N", 4]), "the chosen one")])
    about(graph, "the whole", license="mine")
    for tensor, parameters in {"h": {"SCALE_TENSOR": "h_scale", "ZERO_POINT_TENSOR": "h_zero"}, "w": {"SCALE_TENSOR": "limit"},
                               "same": {"SCALE_TENSOR": "h_scale"}}.items():
        annotation = graph.quantization_annotation.add(tensor_name=tensor)
        for role, name in parameters.items():
            annotation.quant_parameter_tensor_names.add(key=role, value=name)
    made = helper.make_model(graph, functions=[function], opset_imports=OPSETS, ir_version=10)
    return about(made, "a model", author="me")


def said(part):
    return part.doc_string, {entry.key: entry.value for entry in part.metadata_props}


class Facts:
    """What a model says, each part by its name."""

    def __init__(self, path):
        proto = onnx.load(path)
        onnx.checker.check_model(proto, full_check=True)
        self.model, self.graph = said(proto), (proto.graph.name, said(proto.graph))
        self.values = {v.name: said(v) for v in [*proto.graph.input, *proto.graph.output, *proto.graph.value_info]}
        self.nodes, self.graphs = {}, {}
        self.functions = {f.name: said(f) for f in proto.functions}
        constants = {c.name: numpy_helper.to_array(c).item() for c in proto.graph.initializer if not c.dims}
        self.quantizations = {a.tensor_name: {p.key: (p.value, constants[p.value]) for p in a.quant_parameter_tensor_names}
                              for a in proto.graph.quantization_annotation}
        self.stated = {v.name for v in proto.graph.value_info}
        self.visit(proto.graph.node)

    def visit(self, nodes):
        for node in nodes:
            self.nodes[node.name or node.output[0]] = said(node)
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    self.graphs[f"{node.name}.{attribute.name}"] = (attribute.g.name, said(attribute.g))
                    self.visit(attribute.g.node)


def differences(want, got, missing=()):
    """What `got` says differently, except for the parts named `missing`, which must not be there."""
    wrong = []
    for kind in ("model", "graph"):
        if getattr(want, kind) != getattr(got, kind):
            wrong.append(f"{kind}: {getattr(got, kind)}")
    quantizations = {name: facts for name, facts in want.quantizations.items() if name not in missing}
    if quantizations != got.quantizations:
        wrong.append(f"quantization: {got.quantizations}")
    for kind in ("values", "nodes", "graphs", "functions"):
        before, after = getattr(want, kind), getattr(got, kind)
        for name, facts in before.items():
            if name in missing:
                if name in after:
                    wrong.append(f"{kind} {name}: is still there")
            elif facts not in (after.get(name), ("", {})):
                wrong.append(f"{kind} {name}: {after.get(name)} instead of {facts}")
        for name in after.keys() - before.keys():
            if after[name] != ("", {}):
                wrong.append(f"{kind} {name}: says {after[name]}")
    return wrong


def main():
    anfora = sys.argv[1]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "model.onnx")
        onnx.save(model(), source)
        want = Facts(source)

        def fail(text):
            nonlocal failed
            print(text)
            failed += 1

        def optimize(name, *arguments):
            """Path of the result, and what the program says."""
            path = os.path.join(folder, name)
            ran = subprocess.run([anfora, "opt", *arguments, "-o", path, "--no-check"], check=True, stdout=subprocess.PIPE, text=True)
            return path, ran.stdout

        def expect(name, *arguments, missing=()):
            path, _ = optimize(name, *arguments)
            if path.endswith(".onnx"):
                for line in differences(want, Facts(path), missing):
                    fail(f"{name}: {line}")
            return path

        expect("unchanged.onnx", source, "--passes", "none")
        text = expect("text.ir", source, "--passes", "none")
        expect("from_text.onnx", text, "--passes", "none")
        # The Identity is gone, and its operand has its name; the function is inlined.
        inlined = ("nothing", "same", "Twice", "call")
        expect("optimized.onnx", source, missing=inlined)
        text = expect("optimized.ir", source)
        expect("optimized_from_text.onnx", text, missing=inlined)

        # The types of all values: of those that have a name and are no outputs, and of more where nodes had none.
        for choice, stated in {"keep": want.stated, "none": set(), "all": {"m", "same", "h", "chosen", "looped"}}.items():
            found = Facts(optimize(f"{choice}.onnx", source, "--passes", "none", "--value-info", choice)[0]).stated
            if found != stated:
                fail(f"--value-info {choice}: {sorted(found)}")

        trained = model()
        trained.training_info.add().algorithm.name = "sgd"
        trained.configuration.add(name="pair", num_devices=2)
        onnx.save(trained, source)
        for name in ("trained.onnx", "trained.ir"):
            said_so = optimize(name, source)[1]
            for lost in ("training_info", "configuration of devices"):
                if f"left out: {lost}" not in said_so:
                    fail(f"{name}: {lost} is lost without a word")
    print(f"{len(want.nodes)} nodes, {failed} facts wrong")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()

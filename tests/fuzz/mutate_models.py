#!/usr/bin/env python3
"""Mutates what models say, not their bytes, and holds the program to its promises on each.

usage: mutate_models.py ANFORA MODELS… [--count N] [--seed S] [--keep FOLDER] [--timeout SECONDS]

MODELS are files, or folders that are searched for .onnx files; those of more than 300 kB are left out. A mutant is one of them
with one to four changes: of attributes, types, shapes, wiring, constants, versions, bodies of control flow, functions, names, external
data, quantization. It is valid protobuf always and valid ONNX now and then. `info`, `opt`, `run --random` and `verify` have to end
in time, with an exit code that --help lists but that of a defect, and with one message and one hint at most. What they must not
do is printed with the mutant's number: --only NUMBER does it again, --keep FOLDER leaves the file. Skipped (77) without onnx.
"""
import argparse
import copy
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

try:
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import AttributeProto, TensorProto, helper
except ImportError:
    print("skipped: PyPI's onnx is not installed")
    sys.exit(77)

LARGEST = 300_000
TIMED_OUT = 124
EXIT_CODES = {0, 3, 4, TIMED_OUT}  # 1: a result that optimizing changed; 2: wrong options, which none are; 70: a defect
MOST_ERROR_LINES = 2
MOST_MEMORY = 6 << 30  # a mutant may ask for any amount
GRACE_S = 20  # beyond --timeout, on a busy machine

INTEGERS = [0, 1, -1, 2, -2, 3, 7, 16, 31, 64, 255, 1 << 16, 1 << 31, -(1 << 31), (1 << 31) - 1, 1 << 40, (1 << 62), (1 << 63) - 1, -(1 << 63)]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, float("nan"), float("inf"), float("-inf"), 3.5]
STRINGS = [b"", b"x", b"SAME_UPPER", b"linear", b"\xff\xfe", b"a" * 300, b"i,j->", b"\0", b"../x", b"...", "ä→".encode(), b"%1", b"\n"]
DTYPES = list(range(0, 27)) + [99, -1]
DIMENSIONS = [0, 1, 2, 3, 5, -1, -5, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1]


def graphs_of(model):
    """Every graph: main, bodies, functions (which have no value_info or initializers in old versions)."""
    found = [model.graph]
    pending = list(model.graph.node)
    for function in model.functions:
        found.append(function)
        pending.extend(function.node)
    while pending:
        node = pending.pop()
        for attribute in node.attribute:
            for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                found.append(graph)
                pending.extend(graph.node)
    return found


def nodes_of(model):
    return [node for graph in graphs_of(model) for node in graph.node]


def initializers_of(model):
    return [t for graph in graphs_of(model) if isinstance(graph, onnx.GraphProto) for t in graph.initializer]


def value_infos_of(model):
    lists = [(g.input, g.output, g.value_info) for g in graphs_of(model) if isinstance(g, onnx.GraphProto)]
    return [info for group in lists for values in group for info in values]


def names_of(graph):
    names = [name for node in graph.node for name in node.output]
    if isinstance(graph, onnx.GraphProto):
        names += [value.name for value in graph.input] + [tensor.name for tensor in graph.initializer]
    else:
        names += list(graph.input)
    return names + [""]


class Mutator:
    """Each method of mutations() changes the model in one way; False: there is nothing to change."""

    def __init__(self, chance):
        self.chance = chance

    def pick(self, items):
        items = list(items)
        return self.chance.choice(items) if items else None

    # Nodes ----------------------------------------------------------------------------------------------------

    def rewire_input(self, model):
        graph = self.pick(g for g in graphs_of(model) if g.node)
        node = graph and self.pick(n for n in graph.node if n.input)
        if not node:
            return False
        node.input[self.chance.randrange(len(node.input))] = self.pick(names_of(graph))

    def rewire_across(self, model):
        """A name of another graph: an inner one outside, one function's in another."""
        graphs = [g for g in graphs_of(model) if g.node]
        node = self.pick(n for g in graphs for n in g.node if n.input)
        if not node:
            return False
        node.input[self.chance.randrange(len(node.input))] = self.pick(names_of(self.pick(graphs)))

    def change_inputs(self, model):
        node = self.pick(nodes_of(model))
        if not node:
            return False
        how = self.chance.randrange(4)
        if how == 0 and node.input:
            del node.input[self.chance.randrange(len(node.input))]
        elif how == 1 and node.input:
            node.input.append(self.pick(node.input))
        elif how == 2:
            node.input.extend([""] * self.chance.choice([1, 3]))
        elif node.input:
            inputs = list(node.input)
            self.chance.shuffle(inputs)
            node.input[:] = inputs

    def change_outputs(self, model):
        node = self.pick(nodes_of(model))
        if not node:
            return False
        how = self.chance.randrange(4)
        if how == 0 and node.output:
            del node.output[self.chance.randrange(len(node.output))]
        elif how == 1:
            node.output.append(f"more{self.chance.randrange(9)}")
        elif how == 2 and node.output:
            node.output[self.chance.randrange(len(node.output))] = self.pick([*node.output, "", "other"])
        else:
            node.output.extend(["", f"gap{self.chance.randrange(9)}"])

    def change_operator(self, model):
        nodes = nodes_of(model)
        node = self.pick(nodes)
        if not node:
            return False
        node.op_type = self.pick([*(n.op_type for n in nodes), "Relu", "Add", "Concat", "Reshape", "Slice", "Loop", "If", "Scan",
                                  "Gather", "Resize", "Conv", "Constant", "SequenceAt", "Optional", "Einsum", "LSTM", "Nonsense"])

    def change_domain(self, model):
        node = self.pick(nodes_of(model))
        if not node:
            return False
        node.domain = self.pick(["", "ai.onnx", "ai.onnx.ml", "com.microsoft", "anfora", "own", "ai.onnx.preview.training", "ai.onnx.preview"])

    def drop_node(self, model):
        graph = self.pick(g for g in graphs_of(model) if g.node)
        if not graph:
            return False
        del graph.node[self.chance.randrange(len(graph.node))]

    def duplicate_node(self, model):
        graph = self.pick(g for g in graphs_of(model) if g.node)
        if not graph:
            return False
        node = copy.deepcopy(self.pick(graph.node))
        if self.chance.random() < 0.7:
            renamed = {name: name + "_again" for name in node.output if name}
            node.output[:] = [renamed.get(name, name) for name in node.output]
        graph.node.append(node)
        other = self.pick(n for n in graph.node if n.input)
        if other and node.output:
            other.input[self.chance.randrange(len(other.input))] = self.pick(node.output)

    def reorder_nodes(self, model):
        graph = self.pick(g for g in graphs_of(model) if len(g.node) > 1)
        if not graph:
            return False
        nodes = [copy.deepcopy(n) for n in graph.node]
        self.chance.shuffle(nodes)
        del graph.node[:]
        graph.node.extend(nodes)

    # Attributes -----------------------------------------------------------------------------------------------

    def attribute(self, model):
        return self.pick(a for n in nodes_of(model) for a in n.attribute)

    def change_attribute_value(self, model):
        a = self.attribute(model)
        if not a:
            return False
        if a.type == AttributeProto.INT:
            a.i = self.pick(INTEGERS)
        elif a.type == AttributeProto.FLOAT:
            a.f = self.pick(FLOATS)
        elif a.type == AttributeProto.STRING:
            a.s = self.pick(STRINGS)
        elif a.type in (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS):
            values, pool = {AttributeProto.INTS: (a.ints, INTEGERS), AttributeProto.FLOATS: (a.floats, FLOATS),
                            AttributeProto.STRINGS: (a.strings, STRINGS)}[a.type]
            how = self.chance.randrange(5)
            if how == 0:
                del values[:]
            elif how == 1 and values:
                values[self.chance.randrange(len(values))] = self.pick(pool)
            elif how == 2:
                values.append(self.pick(pool))
            elif how == 3 and values:
                values.pop()
            else:
                values.extend([self.pick(pool)] * self.chance.choice([1, 2, 9, 70]))
        elif a.type == AttributeProto.TENSOR:
            self.change_tensor(a.t)
        elif a.type == AttributeProto.GRAPH:
            a.ClearField(self.pick(["g", "type"]))

    def change_attribute_type(self, model):
        a = self.attribute(model)
        if not a:
            return False
        name = a.name
        a.Clear()
        a.CopyFrom(helper.make_attribute(name, self.pick([
            self.pick(INTEGERS), self.pick(FLOATS), self.pick(STRINGS), [1, 2], [0.5], ["x"],
            helper.make_tensor("t", TensorProto.FLOAT, [1], [1.0]), helper.make_graph([], "empty", [], [])])))
        if self.chance.random() < 0.3:
            a.type = self.chance.randrange(0, 15)

    def drop_attribute(self, model):
        node = self.pick(n for n in nodes_of(model) if n.attribute)
        if not node:
            return False
        del node.attribute[self.chance.randrange(len(node.attribute))]

    def add_attribute(self, model):
        node, a = self.pick(nodes_of(model)), self.attribute(model)
        if not node:
            return False
        if a and self.chance.random() < 0.5:
            node.attribute.append(copy.deepcopy(a))
            return
        name = self.pick(["axis", "axes", "keepdims", "perm", "to", "mode", "pads", "strides", "body", "then_branch", "group", "alpha",
                          "num_scan_inputs", "scan_output_axes", "equation", "shape", "value", "dtype", "hidden_size", "direction"])
        node.attribute.append(helper.make_attribute(name, self.pick([self.pick(INTEGERS), self.pick(FLOATS), self.pick(STRINGS),
                                                                     self.chance.choices(INTEGERS, k=3)])))

    def refer_to_attribute(self, model):
        a = self.attribute(model)
        if not a:
            return False
        a.ref_attr_name = self.pick([a.name, "alpha", ""])

    # Types and shapes -----------------------------------------------------------------------------------------

    def change_element_type(self, model):
        info = self.pick(v for v in value_infos_of(model) if v.type.HasField("tensor_type"))
        if not info:
            return False
        dtype = self.pick(DTYPES)
        info.type.tensor_type.elem_type = dtype

    def change_shape(self, model):
        info = self.pick(v for v in value_infos_of(model) if v.type.HasField("tensor_type"))
        if not info:
            return False
        tensor = info.type.tensor_type
        dims = tensor.shape.dim
        how = self.chance.randrange(6)
        if how == 0:
            tensor.ClearField("shape")
        elif how == 1 and dims:
            dims[self.chance.randrange(len(dims))].dim_value = self.pick(DIMENSIONS)
        elif how == 2 and dims:
            dims[self.chance.randrange(len(dims))].dim_param = self.pick(["N", "M", "", "?", "-1", "N+1", "a b", "unk__0", "1"])
        elif how == 3:
            dims.add().dim_value = self.pick(DIMENSIONS)
        elif how == 4 and dims:
            del dims[self.chance.randrange(len(dims))]
        elif dims:
            dims[self.chance.randrange(len(dims))].Clear()

    def change_kind_of_type(self, model):
        info = self.pick(value_infos_of(model))
        if not info:
            return False
        inner = copy.deepcopy(info.type)
        how = self.chance.randrange(5)
        info.type.Clear()
        if how == 0:
            info.type.sequence_type.elem_type.CopyFrom(inner)
        elif how == 1:
            info.type.optional_type.elem_type.CopyFrom(inner)
        elif how == 2:
            info.type.map_type.key_type = self.pick(DTYPES)
            info.type.map_type.value_type.CopyFrom(inner)
        elif how == 3:
            info.type.sparse_tensor_type.elem_type = TensorProto.FLOAT
        # else: no type at all

    def change_value_name(self, model):
        info = self.pick(value_infos_of(model))
        if not info:
            return False
        info.name = self.pick([*(v.name for v in value_infos_of(model)), "", "none", "a b", "ä→", "%1", "x" * 200])

    def change_inputs_and_outputs(self, model):
        graph = self.pick(g for g in graphs_of(model) if isinstance(g, onnx.GraphProto))
        values = self.pick([graph.input, graph.output])
        how = self.chance.randrange(4)
        if how == 0 and values:
            del values[self.chance.randrange(len(values))]
        elif how == 1 and values:
            values.append(copy.deepcopy(self.pick(values)))
        elif how == 2:
            values.add().name = self.pick(names_of(graph))
        elif len(values) > 1:
            copies = [copy.deepcopy(v) for v in values]
            self.chance.shuffle(copies)
            del values[:]
            values.extend(copies)

    # Constants ------------------------------------------------------------------------------------------------

    def change_tensor(self, tensor):
        how = self.chance.randrange(9)
        if how == 0:
            tensor.dims.append(self.pick(DIMENSIONS))
        elif how == 1 and tensor.dims:
            tensor.dims[self.chance.randrange(len(tensor.dims))] = self.pick(DIMENSIONS)
        elif how == 2:
            del tensor.dims[:]
        elif how == 3:
            tensor.data_type = self.pick(DTYPES)
        elif how == 4 and tensor.raw_data:
            data = bytearray(tensor.raw_data)
            for _ in range(self.chance.randint(1, 8)):
                data[self.chance.randrange(len(data))] = self.chance.choice([0, 1, 0x7F, 0x80, 0xFF])
            tensor.raw_data = bytes(data)
        elif how == 5:
            tensor.raw_data = tensor.raw_data[: len(tensor.raw_data) // 2]
        elif how == 6 and tensor.data_type == TensorProto.INT64:
            count = max(1, len(tensor.raw_data) // 8 or len(tensor.int64_data))
            tensor.raw_data = b"".join(self.pick(INTEGERS).to_bytes(8, "little", signed=True) for _ in range(count))
            del tensor.int64_data[:]
        elif how == 7:
            tensor.ClearField("raw_data")
        else:
            tensor.float_data.append(1.0)

    def change_initializer(self, model):
        tensor = self.pick(initializers_of(model))
        if not tensor:
            return False
        self.change_tensor(tensor)

    def move_initializer(self, model):
        """To external data, of a file that may exist, and a range that may lie in it."""
        tensor = self.pick(initializers_of(model))
        if not tensor:
            return False
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        entries = {"location": self.pick(["data.bin", "../data.bin", "/etc/passwd", "", ".", "model.onnx", "/dev/zero", "a\0b"])}
        if self.chance.random() < 0.7:
            entries["offset"] = self.pick([*map(str, INTEGERS), "x"])
        if self.chance.random() < 0.7:
            entries["length"] = self.pick([*map(str, INTEGERS), ""])
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)

    def drop_or_rename_initializer(self, model):
        graph = self.pick(g for g in graphs_of(model) if isinstance(g, onnx.GraphProto) and g.initializer)
        if not graph:
            return False
        at = self.chance.randrange(len(graph.initializer))
        how = self.chance.randrange(3)
        if how == 0:
            del graph.initializer[at]
        elif how == 1:
            graph.initializer[at].name = self.pick(names_of(graph))
        else:
            graph.initializer.append(copy.deepcopy(graph.initializer[at]))

    def input_becomes_constant(self, model):
        """A small constant in place of an input: what is dynamic is static then, and is folded."""
        graph = model.graph
        value = self.pick(v for v in graph.input if v.type.HasField("tensor_type"))
        if not value:
            return False
        dims = [d.dim_value if d.HasField("dim_value") and 0 <= d.dim_value < 64 else 2 for d in value.type.tensor_type.shape.dim]
        count = 1
        for d in dims:
            count *= d
        if count > 4096:
            return False
        dtype = value.type.tensor_type.elem_type
        size = {TensorProto.FLOAT: 4, TensorProto.INT64: 8, TensorProto.INT32: 4, TensorProto.BOOL: 1, TensorProto.DOUBLE: 8,
                TensorProto.FLOAT16: 2, TensorProto.UINT8: 1, TensorProto.INT8: 1, TensorProto.BFLOAT16: 2, TensorProto.UINT64: 8}.get(dtype)
        if not size:
            return False
        data = bytes(self.chance.choice([0, 0, 1, 2, 0xFF]) if dtype != TensorProto.BOOL else self.chance.randrange(2) for _ in range(count * size))
        graph.initializer.append(TensorProto(name=value.name, data_type=dtype, dims=dims, raw_data=data))
        if self.chance.random() < 0.8:
            graph.input.remove(value)

    # The whole ------------------------------------------------------------------------------------------------

    def change_opset(self, model):
        how = self.chance.randrange(4)
        if how == 0 and model.opset_import:
            self.pick(model.opset_import).version = self.chance.choice([*range(0, 30), -1, 9999, (1 << 63) - 1])
        elif how == 1 and model.opset_import:
            del model.opset_import[self.chance.randrange(len(model.opset_import))]
        elif how == 2:
            model.opset_import.add(domain=self.pick(["", "ai.onnx", "ai.onnx.ml", "own", "com.microsoft"]), version=self.chance.randrange(0, 28))
        else:
            model.ir_version = self.pick([0, 1, 2, 3, 4, 7, 10, 99, -1])

    def change_function(self, model):
        if not model.functions:
            # Some nodes of main become a function, which is called with whatever they read.
            nodes = [copy.deepcopy(n) for n in model.graph.node[:2]]
            if not nodes:
                return False
            inputs = list(dict.fromkeys(name for n in nodes for name in n.input if name))
            outputs = list(dict.fromkeys(name for n in nodes for name in n.output if name))
            function = model.functions.add(name="F", domain="own")
            function.node.extend(nodes)
            function.input.extend(inputs)
            function.output.extend(outputs)
            function.opset_import.extend(model.opset_import)
            del model.graph.node[:2]
            model.graph.node.insert(0, helper.make_node("F", inputs, outputs, domain="own"))
            model.opset_import.add(domain="own", version=1)
            return
        function = self.pick(model.functions)
        how = self.chance.randrange(6)
        values = self.pick([function.input, function.output, function.attribute])
        if how == 0 and values:
            del values[self.chance.randrange(len(values))]
        elif how == 1:
            values.append(self.pick([*values, "fresh"]))
        elif how == 2:
            function.node.append(helper.make_node(function.name, list(function.input), ["again"], domain=function.domain))
        elif how == 3:
            del function.opset_import[:]
        elif how == 4:
            function.attribute_proto.append(helper.make_attribute("alpha", self.pick(FLOATS)))
        else:
            model.functions.append(copy.deepcopy(function))

    def change_body(self, model):
        attribute = self.pick(a for n in nodes_of(model) for a in n.attribute if a.HasField("g"))
        if not attribute:
            return False
        body = attribute.g
        how = self.chance.randrange(7)
        values = self.pick([body.input, body.output])
        if how == 0:
            attribute.g.Clear()
        elif how == 1 and values:
            del values[self.chance.randrange(len(values))]
        elif how == 2 and values:
            values.append(copy.deepcopy(self.pick(values)))
        elif how == 3:
            del body.node[:]
        elif how == 4:
            attribute.name = self.pick(["body", "then_branch", "else_branch", "x"])
        elif how == 5 and values:
            self.pick(values).name = self.pick([*names_of(body), *names_of(model.graph)])
        else:
            body.node.append(helper.make_node("Loop", ["", "", *[v.name for v in body.input][:1]], ["nested"], body=copy.deepcopy(body)))

    def wrap_in_control_flow(self, model):
        """The last node goes into both branches of an If, or into the body of a Loop over a count."""
        if not model.graph.node:
            return False
        node = model.graph.node[-1]
        outputs = [name for name in node.output if name]
        inner = copy.deepcopy(node)
        inner.output[:] = [name and name + "_in" for name in node.output]
        results = [onnx.ValueInfoProto(name=name + "_in") for name in outputs]
        if self.chance.random() < 0.5:
            branch = helper.make_graph([inner], "branch", [], results)
            wrapped = helper.make_node("If", ["chosen"], outputs, then_branch=branch, else_branch=copy.deepcopy(branch))
            model.graph.initializer.append(helper.make_tensor("chosen", TensorProto.BOOL, [], [self.chance.randrange(2)]))
        else:
            scalar = [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, [])]
            body = helper.make_graph([inner, helper.make_node("Identity", ["go"], ["on"])], "body", scalar,
                                     [helper.make_tensor_value_info("on", TensorProto.BOOL, []), *results])
            wrapped = helper.make_node("Loop", ["count", ""], outputs, body=body)
            model.graph.initializer.append(helper.make_tensor("count", TensorProto.INT64, [], [self.pick([0, 1, 3, -1, 1 << 40])]))
        del model.graph.node[-1]
        model.graph.node.append(wrapped)

    def change_names_of_nodes(self, model):
        for node in nodes_of(model):
            node.name = self.pick(["", "same", "a/b:0", "ä→", "'quoted'", "with\nnewline", "%1", "{}", "\x01"])

    def change_metadata(self, model):
        how = self.chance.randrange(3)
        if how == 0:
            model.metadata_props.add(key=self.pick(["", "a", "a"]), value="\x01")
        elif how == 1:
            model.producer_name = self.pick(["", "pytorch", "ä\n{}"])
        else:
            annotation = model.graph.quantization_annotation.add(tensor_name=self.pick(names_of(model.graph)))
            annotation.quant_parameter_tensor_names.add(key=self.pick(["SCALE_TENSOR", "ZERO_POINT_TENSOR", "x"]), value=self.pick(names_of(model.graph)))

    def mutations(self):
        often = [self.rewire_input, self.change_attribute_value, self.change_attribute_value, self.change_shape, self.change_initializer,
                 self.change_element_type, self.input_becomes_constant, self.change_operator]
        return often + [getattr(self, name) for name in sorted(vars(Mutator))
                        if not name.startswith("_") and name not in ("pick", "attribute", "change_tensor", "mutations", "mutate")]

    def mutate(self, model):
        names = []
        for _ in range(self.chance.choice([1, 1, 1, 2, 2, 3, 4])):
            mutation = self.chance.choice(self.mutations())
            try:
                if mutation(model) is not False:
                    names.append(mutation.__name__)
            except (ValueError, TypeError, OverflowError, UnicodeDecodeError):
                pass  # the value does not fit into its field
        return names


class Runner:
    def __init__(self, anfora, seconds, folder):
        self.anfora, self.seconds, self.folder = anfora, seconds, folder
        self.codes = {}
        self.last = 0  # exit code

    def wrong(self, *arguments):
        """What is wrong with how the command ended; None: nothing."""
        command = [self.anfora, *map(str, arguments), "--timeout", str(self.seconds)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder,
                                   start_new_session=True)
        try:
            output, errors = process.communicate(timeout=self.seconds + GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return "hangs"
        code, text = process.returncode, errors.decode(errors="replace").strip()
        self.last = code
        self.codes[(arguments[0], code)] = self.codes.get((arguments[0], code), 0) + 1
        if code < 0:
            return f"killed by {signal.Signals(-code).name}: {text[-300:]}"
        if code not in EXIT_CODES:
            return f"exit code {code}: {text[-600:] or output.decode(errors='replace').strip()[-600:]}"
        if code != 0 and not text and not output.strip():  # verify prints its verdict
            return f"exit code {code} without a message"
        if len(text.splitlines()) > MOST_ERROR_LINES:
            return f"{len(text.splitlines())} lines of errors: {text[:600]}"
        return None

    def is_stuck(self, arguments, small):
        """A model may run without an end; reading and optimizing it may not take long."""
        if arguments[0] == "opt":
            self.wrong(*arguments, "--no-check")
            small.unlink(missing_ok=True)
        return arguments[0] != "run" and self.last == TIMED_OUT

    def try_model(self, model):
        """Pairs of a command and what is wrong with it."""
        small = self.folder / "small.onnx"
        commands = [("info", model), ("run", model, "--random"), ("opt", model, "-o", small)]
        for arguments in commands:
            problem = self.wrong(*arguments)
            if problem is None and self.last == TIMED_OUT and self.is_stuck(arguments, small):
                problem = "takes longer than --timeout, although nothing runs"
            if problem:
                yield arguments[0], problem
        if small.exists():
            if problem := self.wrong("verify", model, small, "--runs", "1"):
                yield "verify", problem
        for path in self.folder.iterdir():
            if path != model and path.name != "data.bin":
                if path.is_dir():  # of a command that was killed
                    shutil.rmtree(path)
                else:
                    path.unlink()
                if path.name.endswith(".tmp"):
                    yield "opt", f"left {path.name}"


def sources(paths):
    files = []
    for path in map(pathlib.Path, paths):
        files += sorted(path.rglob("*.onnx")) if path.is_dir() else [path]
    return [file for file in files if file.stat().st_size <= LARGEST]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("anfora")
    options.add_argument("models", nargs="+")
    options.add_argument("--count", type=int, default=200)
    options.add_argument("--from", dest="first", type=int, default=0)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", type=int)
    options.add_argument("--keep", type=pathlib.Path)
    options.add_argument("--timeout", type=float, default=10)
    options = options.parse_args()
    files = sources(options.models)
    if not files:
        print("skipped: there are no models to mutate")
        return 77
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    problems, tried, begin = 0, 0, time.monotonic()
    numbers = [options.only] if options.only is not None else range(options.first, options.first + options.count)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "data.bin").write_bytes(bytes(range(256)) * 16)
        runner = Runner(os.path.abspath(options.anfora), options.timeout, folder)
        path = folder / "model.onnx"
        for number in numbers:
            chance = random.Random(options.seed * 1_000_003 + number)
            source = chance.choice(files)
            model = onnx.ModelProto()
            try:
                model.ParseFromString(source.read_bytes())
                names = Mutator(chance).mutate(model)
                path.write_bytes(model.SerializeToString())
            except (DecodeError, ValueError):
                continue  # a model that is broken already, or that protobuf does not write
            tried += 1
            if tried % 500 == 0:
                print(f"… {tried} in {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
            failed = False
            for command, problem in runner.try_model(path):
                failed = True
                print(f"{number} {source} {'+'.join(names)}\n  {command}: {problem}", flush=True)
            if failed:
                problems += 1
            if options.keep and (failed or options.only is not None):
                (options.keep / f"{number}.onnx").write_bytes(path.read_bytes())
    codes = ", ".join(f"{command} {code}: {count}" for (command, code), count in sorted(runner.codes.items()))
    print(f"{tried} mutants of {len(files)} models in {time.monotonic() - begin:.0f} s, {problems} with a defect\n{codes}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""Nodes of every version of every ONNX operator can be read: an attribute that a later version has not is upgraded,
not refused, and inputs that were no inputs yet are made.

Usage: check_upgrades.py ANFORA. Exits 77 (skipped) where the module onnx is not installed. What the nodes mean is
tested in tests/unit/upgrade_test.cc.
"""

import os
import subprocess
import sys
import tempfile

try:
    import onnx
    from onnx import defs, helper
except ImportError:
    print("skipped: the Python module onnx is not installed")
    sys.exit(77)

Kind = defs.OpSchema.AttrType
VALUES = {Kind.INT: 1, Kind.INTS: [0, 0], Kind.FLOAT: 1.0, Kind.FLOATS: [1.0, 1.0], Kind.STRING: "FLOAT", Kind.STRINGS: ["a", "b"]}
# What the reader and the inference say of a node that is not of the newest version's form.
NOT_UPGRADED = ("has no attribute", "wrong kind of value", "of another kind", "inputs given, at least", "is missing")
# Their nodes need graphs; tests/unit/import_control_test.cc.
CONTROL = ("If", "Loop", "Scan", "SequenceMap")
# Optional by the schema, but the operator means nothing without.
NEEDED = ("classes_strings", "kernel_shape")


def node_of(schema, extra):
    """A model with one node: the required inputs and attributes, and those attributes of `extra`."""
    single = defs.OpSchema.FormalParameterOption.Single
    inputs = [formal.name for formal in schema.inputs if formal.option == single]
    if not inputs and schema.inputs and schema.min_input > 0:
        inputs = [f"{schema.inputs[0].name}{i}" for i in range(schema.min_input)]
    outputs = [formal.name for formal in schema.outputs[: max(schema.min_output, 1)]]
    attributes = {name: VALUES[a.type] for name, a in schema.attributes.items()
                  if a.type in VALUES and (name in extra or a.required or name in NEEDED)}
    # A rank without sizes: nothing is refused because of sizes.
    element = onnx.TensorProto.INT64 if schema.domain else onnx.TensorProto.FLOAT
    values = [helper.make_tensor_value_info(name, element, None) for name in inputs]
    node = helper.make_node(schema.name, inputs, outputs, domain=schema.domain, **attributes)
    graph = helper.make_graph([node], "upgrade", values, [onnx.ValueInfoProto(name=name) for name in outputs])
    imports = [helper.make_opsetid(schema.domain, schema.since_version)]
    if schema.domain:
        imports.append(helper.make_opsetid("", defs.onnx_opset_version()))
    return helper.make_model(graph, opset_imports=imports)


def main():
    anfora = sys.argv[1]
    versions = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain in ("", "ai.onnx.ml") and schema.name not in CONTROL:
            versions.setdefault((schema.domain, schema.name), []).append(schema)
    failed, count = [], 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        for schemas in versions.values():
            schemas.sort(key=lambda schema: schema.since_version)
            newest = schemas[-1]
            for schema in schemas[:-1] if not newest.deprecated else schemas:
                gone = [name for name, attribute in schema.attributes.items()
                        if name not in newest.attributes or newest.attributes[name].type != attribute.type]
                # The attributes one by one: some exclude each other.
                for extra in [[]] + [[name] for name in gone]:
                    onnx.save(node_of(schema, extra), path)
                    done = subprocess.run([anfora, "dump", path, "-o", os.path.join(folder, "out.ir")], capture_output=True, text=True)
                    count += 1
                    if done.returncode < 0 or any(words in done.stderr for words in NOT_UPGRADED):
                        failed.append(f"{schema.name} {schema.since_version} {' '.join(extra)}: {done.stderr.strip()}")
    print("\n".join(failed))
    print(f"{count} nodes, {len(failed)} not upgraded")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()

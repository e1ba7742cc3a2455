#!/usr/bin/env python3
"""Compare the declarations of operators with the schemas in PyPI's onnx.

usage: operators.py ANFORA

Every operator of every domain must be declared at its newest version, with the same attributes and defaults and at
least the element types that the schema allows, and must have a kernel. What is different on purpose is listed here
with the reason. Prints one line a difference and exits with status 1 when there is one; 77 without onnx.
"""
import json
import re
import subprocess
import sys

try:
    import onnx
except ImportError:
    sys.exit(77)

PREVIEW = "ai.onnx.preview"
# Operators of lowered graphs, and those of ONNX Runtime, which tests/differential/declarations.py compares with its own.
OTHER_DOMAINS = ("anfora", "com.microsoft", "com.microsoft.nchwc")
# Not operators of the IR: what the importer makes of them.
IMPORTED_AS = {
    ("", "If"): "Switch and call",
    ("", "Loop"): "a tail-recursive graph",
    ("", "Scan"): "a tail-recursive graph",
    ("", "SequenceMap"): "a tail-recursive graph",
    ("", "Scatter"): "ScatterElements",
    ("", "Upsample"): "Resize",
    ("ai.onnx.preview.training", "Gradient"): "what computes the derivatives",
}
# Deprecated without a change of what they compute: declared at the version before.
SINCE = {("ai.onnx.ml", "TreeEnsembleClassifier"): 3, ("ai.onnx.ml", "TreeEnsembleRegressor"): 3}
# Attributes that the importer takes away.
EXPANDED = {
    ("", "Constant"): {"sparse_value"},
    (PREVIEW, "FlexAttention"): {"score_mod", "prob_mod"},
}
DTYPES = {"float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16", "complex64": "c64", "complex128": "c128"}


def dtype(type_string):
    """The short name of a tensor's element type; None for sequences, optionals and maps."""
    match = re.fullmatch(r"tensor\((.*)\)", type_string)
    if not match:
        return None
    return DTYPES.get(match[1]) or re.sub(r"^(u?)int(?=\d)", lambda m: (m[1] or "i"), match[1]).replace("float", "f")


def newest_schemas():
    newest = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        key = schema.domain, schema.name
        if key not in newest or newest[key].since_version < schema.since_version:
            newest[key] = schema
    return newest


def attribute_differences(key, declared, schema):
    ours = {}
    for text in declared["attributes"]:
        name, optional, kind, default = re.fullmatch(r"(\w+)(\??): (\w+)(?: = (.*))?", text, re.DOTALL).groups()
        ours[name] = bool(optional), kind, default
    wanted = set(schema.attributes) - EXPANDED.get(key, set())
    for name in sorted(wanted ^ set(ours)):
        yield f"attribute {name} is {'missing' if name in wanted else 'not in the schema'}"
    for name in sorted(wanted & set(ours)):
        attribute, (optional, kind, default) = schema.attributes[name], ours[name]
        if kind != attribute.type.name.lower().removesuffix("_proto"):
            yield f"attribute {name} is of {kind}, not {attribute.type.name}"
        if attribute.default_value.name and not kind.endswith("s"):
            value = onnx.helper.get_attribute_value(attribute.default_value)
            value = value.decode() if isinstance(value, bytes) else value
            given = json.loads(default) if default is not None and default != "-0" else default
            if default is None or (given != value if kind != "float" else abs(float(default) - value) > 1e-6):
                yield f"attribute {name} defaults to {default}, not {value}"
        elif attribute.required != (not optional and default is None) and not kind.endswith("s"):
            yield f"attribute {name} is {'required' if attribute.required else 'optional'} in the schema"


def type_differences(declared, schema):
    constraints = {c.type_param_str: {dtype(t) for t in c.allowed_type_strs} for c in schema.type_constraints}
    option = onnx.defs.OpSchema.FormalParameterOption
    for what, formals in (("input", schema.inputs), ("output", schema.outputs)):
        ours = declared[what + "s"]
        if len(ours) != len(formals):
            yield f"{len(ours)} {what}s instead of {len(formals)}"
        for formal, text in zip(formals, ours):
            name, type_name = text.split(": ")
            if ("…" in name) != (formal.option == option.Variadic):
                yield f"{what} {formal.name} is {'' if '…' in name else 'not '}variadic"
            wanted = constraints.get(formal.type_str) or {dtype(formal.type_str)}
            known = set(declared["types"].get(type_name, [type_name]))
            # An empty set stands for any type at all.
            if declared["types"].get(type_name) != [] and None not in wanted and not wanted <= known:
                yield f"{what} {formal.name} lacks {', '.join(sorted(wanted - known))}"


def differences(declared, newest):
    for key, schema in sorted(newest.items()):
        label = f"{key[0]}::{key[1]}" if key[0] else key[1]
        if key in IMPORTED_AS:
            if key in declared:
                yield f"{label}: is declared, though imported as {IMPORTED_AS[key]}"
            continue
        if key not in declared:
            yield f"{label}: is not declared"
            continue
        ours = declared[key]
        if ours["since"] != SINCE.get(key, schema.since_version):
            yield f"{label}: declared at version {ours['since']}, the newest is {schema.since_version}"
        if not ours["kernels"]:
            yield f"{label}: has no kernel"
        for difference in (*attribute_differences(key, ours, schema), *type_differences(ours, schema)):
            yield f"{label}: {difference}"
    for domain, name in sorted(set(declared) - set(newest)):
        if domain not in OTHER_DOMAINS:
            yield f"{domain}::{name}: is no operator of ONNX"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    listing = subprocess.run([sys.argv[1], "operators", "--json"], capture_output=True, check=True).stdout
    declared = {(op["domain"], op["name"]): op for op in json.loads(listing)}
    newest = newest_schemas()
    found = list(differences(declared, newest))
    print(*found, f"{len(newest)} operators of onnx {onnx.__version__}, {len(found)} differences", sep="\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

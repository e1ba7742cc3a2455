#!/usr/bin/env python3
"""Compares src/frontend/onnx/opset_history.inc with the operator schemas that PyPI's onnx ships.

    check_history.py FILE           prints the rows that differ; exit code 1 when there are any, 77 without onnx
    check_history.py FILE --write   writes the file anew, for a new release of onnx

A row is the history of one operator, read by src/frontend/onnx/opset_history.h, where the notation is explained.
"""
import sys

try:
    import onnx
    import onnx.defs
except ImportError:
    print("onnx is not installed: skipped")
    sys.exit(77)

DOMAINS = ("", "ai.onnx.ml")
HEADER = "// Written by tests/frontend/check_history.py from the schemas of onnx; see opset_history.h for the notation.\n"

NAMES = {
    "float": "f32", "uint8": "u8", "int8": "i8", "uint16": "u16", "int16": "i16", "int32": "i32", "int64": "i64",
    "string": "string", "bool": "bool", "float16": "f16", "double": "f64", "uint32": "u32", "uint64": "u64",
    "complex64": "c64", "complex128": "c128", "bfloat16": "bf16", "float8e4m3fn": "f8e4m3fn",
    "float8e4m3fnuz": "f8e4m3fnuz", "float8e5m2": "f8e5m2", "float8e5m2fnuz": "f8e5m2fnuz", "uint4": "u4",
    "int4": "i4", "float4e2m1": "f4e2m1", "float8e8m0": "f8e8m0", "uint2": "u2", "int2": "i2",
    "float6e2m3": "f6e2m3", "float6e3m2": "f6e3m2",
}
GROUPS = {
    "ints": {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"},
    "floats": {"f16", "f32", "f64"},
    "fp8": {"f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"},
    "complex": {"c64", "c128"},
}


def traits(types):
    """Element types and kinds (tensor, seq, opt) among type strings such as "seq(tensor(float))"."""
    found = set()
    for text in types:
        kind = "opt" if text.startswith("optional(") else "seq" if text.startswith("seq(") else "tensor"
        found.add(kind)
        element = text.replace("optional(", "").replace("seq(", "").replace("tensor(", "").rstrip(")")
        if element in NAMES:
            found.add(NAMES[element])
    return found


def formals(schema):
    return [("i", i, f) for i, f in enumerate(schema.inputs)] + [("o", i, f) for i, f in enumerate(schema.outputs)]


def allowed(schema):
    """(side, position) → what the formal there may be; None for one fixed type."""
    constraints = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    table = {}
    for side, position, formal in formals(schema):
        types = constraints.get(formal.type_str)
        table[side, position] = (formal.type_str if types else None, traits(types or [formal.type_str]))
    return table


def grouped(found):
    found, words = set(found), []
    for group, members in GROUPS.items():
        if members <= found:
            words.append(group)
            found -= members
    return words + sorted(found)


def count(side, schema):
    formal = schema.inputs if side == "in" else schema.outputs
    least = schema.min_input if side == "in" else schema.min_output
    variadic = bool(formal) and formal[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    return f"{side}={least}..{'' if variadic else len(formal)}"


def default(attribute):
    return attribute.default_value.SerializeToString() if attribute.default_value.name else None


def row(versions):
    """The history of one operator; `versions` is its schemas by ascending version."""
    removed = None
    if versions[-1].deprecated:
        removed = versions.pop().since_version
    newest = allowed(versions[-1])
    variables = []
    for variable, _ in newest.values():
        if variable and variable not in variables:
            variables.append(variable)
    signature = [",".join(newest[s, p][0] or "-" for s, p in newest if s == side) for side in "io"]

    events = []
    previous = None
    for schema in versions:
        words = []
        if previous is None or count("in", schema) != count("in", previous):
            words.append(count("in", schema))
        if previous is None or count("out", schema) != count("out", previous):
            words.append(count("out", schema))
        if previous:
            before, after = allowed(previous), allowed(schema)
            gains = {}
            for key, (variable, _) in newest.items():
                if variable and key in before and key in after:
                    gains.setdefault(variable, set()).update((after[key][1] - before[key][1]) & newest[key][1])
            gains = {v: grouped(g) for v, g in gains.items() if g}
            if gains and len(gains) == len(variables) and len({tuple(g) for g in gains.values()}) == 1:
                gains = {"*": next(iter(gains.values()))}
            words += [f"{v}:{','.join(g)}" for v, g in gains.items()]
            for name, attribute in sorted(schema.attributes.items()):
                if name not in previous.attributes:
                    words.append("@" + name)
                elif default(attribute) != default(previous.attributes[name]) and default(attribute) is not None:
                    words.append("=" + name)
        if schema.deprecated:
            words.append("withdrawn")
        events.append(" ".join([str(schema.since_version)] + words))
        previous = schema
    if removed:
        events.append(f"{removed} removed")
    return f"{' '.join(signature).strip() if any(signature) else ''} | {' | '.join(events)}"


def table():
    by_name = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain in DOMAINS:
            by_name.setdefault((schema.domain, schema.name), []).append(schema)
    lines = []
    for (domain, name), versions in sorted(by_name.items()):
        versions.sort(key=lambda schema: schema.since_version)
        qualified = f"{domain}::{name}" if domain else name
        lines.append(f'{{"{qualified}", "{row(versions)}"}},\n')
    return lines


def main():
    path, write = sys.argv[1], "--write" in sys.argv
    expected = [HEADER] + table()
    if write:
        with open(path, "w") as file:
            file.writelines(expected)
        return 0
    with open(path) as file:
        found = file.readlines()
    difference = sorted(set(found) ^ set(expected))
    for line in difference:
        print(("only in the file: " if line in found else "only in onnx: ") + line, end="")
    print(f"{len(expected) - 1} operators of onnx {onnx.__version__}, {len(difference)} lines differ")
    return 1 if difference else 0


if __name__ == "__main__":
    sys.exit(main())

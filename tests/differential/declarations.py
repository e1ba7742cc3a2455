#!/usr/bin/env python3
"""Compare the declarations of ONNX Runtime's operators (com.microsoft) with its own schemas.

usage: declarations.py ANFORA

As many inputs and outputs, optional where the schema says so, and the same attributes with the same defaults. Prints one line a difference and exits with status 1 when there is one; 77 without onnxruntime.
"""
import json
import re
import subprocess
import sys

try:
    import onnx
    from onnxruntime.capi import onnxruntime_pybind11_state as onnxruntime
except ImportError:
    sys.exit(77)


def attributes_of(schema):
    """By name: kind, whether it must be given, default."""
    for name, attribute in schema.attributes.items():
        default = onnx.AttributeProto.FromString(attribute._default_value)
        value = onnx.helper.get_attribute_value(default) if default.name else None
        value = value.decode() if isinstance(value, bytes) else value
        yield name, (str(attribute.type).rsplit(".", maxsplit=1)[-1].lower(), attribute.required, value)


def declared_attribute(text):
    name, optional, kind, default = re.fullmatch(r"(\w+)(\??): (\w+)(?: = (.*))?", text, re.DOTALL).groups()
    if default is not None and kind != "string":
        default = float(default)
    elif default is not None:
        default = json.loads(default)
    return name, (kind, not optional and default is None, default)


def same(ours, theirs):
    (kind, required, default), (their_kind, their_required, their_default) = ours, theirs
    if kind != their_kind or required != their_required:
        return False
    if their_default is None:  # what a kernel takes where nothing is given is not in the schema
        return True
    if kind == "float":
        return default is not None and abs(default - their_default) <= 1e-6 * abs(their_default)
    return default == their_default


def formal_differences(what, ours, theirs):
    if len(ours) != len(theirs):
        yield f"{len(ours)} {what}s instead of {len(theirs)}"
    for text, formal in zip(ours, theirs):
        name = text.split(": ")[0]
        option = str(formal.option).rsplit(".", maxsplit=1)[-1]
        if option == "Optional" and "?" not in name or ("…" in name) != (option == "Variadic"):
            yield f"{what} {formal.name} is {option.lower()} in the schema"


def differences(ours, schema):
    yield from formal_differences("input", ours["inputs"], schema.inputs)
    yield from formal_differences("output", ours["outputs"], schema.outputs)
    declared, wanted = dict(map(declared_attribute, ours["attributes"])), dict(attributes_of(schema))
    for name in sorted(set(declared) ^ set(wanted)):
        yield f"attribute {name} is {'missing' if name in wanted else 'not in the schema'}"
    for name in sorted(set(declared) & set(wanted)):
        if not same(declared[name], wanted[name]):
            yield f"attribute {name} is {declared[name]}, not {wanted[name]}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    output = subprocess.run([sys.argv[1], "operators", "--json"], check=True, stdout=subprocess.PIPE).stdout
    declared = [operator for operator in json.loads(output) if operator["domain"] == "com.microsoft"]
    schemas = {s.name: s for s in onnxruntime.get_all_operator_schema() if s.domain == "com.microsoft"}
    found = []
    for operator in declared:
        schema = schemas.get(operator["name"])
        found += [f"{operator['name']}: {text}" for text in
                  (differences(operator, schema) if schema else ["is no operator of ONNX Runtime"])]
    print("\n".join([*found, f"{len(declared)} operators, {len(found)} differences"]))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()

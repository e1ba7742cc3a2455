"""Compares src/frontend/onnx/wire.h with the protobuf descriptor that PyPI's onnx ships.

Usage: check_wire.py WIRE_H. Exits 77 (skipped) where the module onnx is not installed.
"""

import re
import sys

try:
    from onnx import onnx_data_pb2, onnx_ml_pb2
except ImportError:
    print("skipped: the Python module onnx is not installed")
    sys.exit(77)


def parse_table(path):
    """{message: {"Field": {name: number}, enum: {name: number}}} of the header; nested structs joined by a dot."""
    text = re.sub(r"//.*", "", open(path, encoding="utf-8").read())
    messages, scope = {}, []
    token = re.compile(r"(?:struct\s+(\w+)\s*\{)|(?:enum\s+(?:class\s+)?(\w+)\s*:\s*\w+\s*\{([^}]*)\}\s*;)|(\};)")
    for struct, enum, body, close in token.findall(text):
        if struct:
            scope.append(struct)
            messages[".".join(scope)] = {}
        elif enum:
            entries = re.findall(r"(\w+)\s*=\s*(\d+)", body)
            messages[".".join(scope)][enum] = {name: int(number) for name, number in entries}
        elif close:
            scope.pop()
    return messages


def descriptors():
    """{message name without the package: descriptor}, nested ones included."""
    found = {}

    def walk(descriptor, prefix):
        name = prefix + descriptor.name
        found[name] = descriptor
        for nested in descriptor.nested_types:
            walk(nested, name + ".")

    for file in (onnx_ml_pb2, onnx_data_pb2):
        for descriptor in file.DESCRIPTOR.message_types_by_name.values():
            walk(descriptor, "")
    return found


def main():
    known = descriptors()
    table = parse_table(sys.argv[1])
    wrong = []
    for message, enums in table.items():
        if message not in known:
            wrong.append(f"{message}: no such message")
            continue
        for enum, entries in enums.items():
            if enum == "Field":
                expected = {f.name: f.number for f in known[message].fields}
            else:
                expected = {v.name: v.number for v in known[message].enum_types_by_name[enum].values}
            for name in sorted(set(expected) | set(entries)):
                if expected.get(name) != entries.get(name):
                    wrong.append(f"{message}.{name}: {entries.get(name)} in the table, {expected.get(name)} in onnx.proto")
    for line in wrong:
        print(line)
    print(f"{len(table)} messages, {sum(len(e) for m in table.values() for e in m.values())} numbers, {len(wrong)} wrong")
    return 1 if wrong or not table else 0


if __name__ == "__main__":
    sys.exit(main())

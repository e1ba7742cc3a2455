"""Write the abstract syntax tree of a Python file as JSON, for the compiler (src/frontend/python/tree.h).

usage: tree_as_json.py FILE

A node is an object: "_" is its kind, "at" its place [line, column, last line, column behind it], from 1, columns in code points; the rest are
its fields. A constant is "None", "True", "False", "...", or an object of one entry: {"int": "12"}, {"float": "0x1.8p+0"},
{"complex": [real, imaginary]}, {"str": [code points]}, {"bytes": "6869"}. A syntax error is {"error": message, "line": …, "column": …}.
"""
import ast
import json
import sys


def constant(value):
    if value is None or isinstance(value, bool):
        return str(value)
    if value is ...:
        return "..."
    if isinstance(value, int):
        return {"int": hex(value)}  # decimal digits are limited to some thousand
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, complex):
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, str):
        return {"str": [ord(c) for c in value]}
    return {"bytes": value.hex()}


class Writer:
    def __init__(self, text):
        # As the parser counts them: form feeds and the like do not end a line.
        self.lines = [line.encode() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]

    def column(self, line, offset):
        return len(self.lines[line - 1][:offset].decode(errors="replace")) + 1

    def field(self, value):
        if isinstance(value, list):
            return [self.field(item) for item in value]
        return self.node(value) if isinstance(value, ast.AST) else value

    def node(self, node):
        written = {"_": type(node).__name__}
        if hasattr(node, "lineno"):
            written["at"] = [node.lineno, self.column(node.lineno, node.col_offset),
                             node.end_lineno, self.column(node.end_lineno, node.end_col_offset)]
        for name, value in ast.iter_fields(node):
            if isinstance(node, (ast.Constant, ast.MatchSingleton)) and name == "value":
                written[name] = constant(value)
            elif not (isinstance(node, ast.Constant) and name == "kind") and name != "type_comment" and value is not None:
                written[name] = self.field(value)
        return written


def of_tree(file, text, tree):
    """A tree of a text, with what messages about it need."""
    written = {"file": file, "python": sys.version_info[0] * 100 + sys.version_info[1], "lines": text.splitlines()}
    if tree is not None:
        written["tree"] = Writer(text).node(tree)
    return written


def source(file, text):
    """The tree of a text."""
    try:
        written = of_tree(file, text, ast.parse(text, file))
    except SyntaxError as error:
        written = of_tree(file, text, None)
        written["error"] = {"message": error.msg, "line": error.lineno or 1, "column": error.offset or 1}
    return written


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as opened:
        json.dump(source(sys.argv[1], opened.read()), sys.stdout)

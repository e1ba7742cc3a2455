#!/usr/bin/env python3
"""Check that the includes under src/ follow the layers, and that the files of a layer can be compiled as one.

usage: check_layers.py LAYERS ROOT

LAYERS is the table that CMake writes from the anfora_layer() calls: "name | folders | layers it may include".
ROOT is the source tree, with src/ and include/. A file may include its own layer, every layer that its layer
depends on, directly or through others, and the public headers. The public headers may include each other only.
What two files of a layer, or two unit tests, define in their unnamed namespaces has different names: with ANFORA_UNITY
they are compiled in one translation unit. Prints one line a violation and exits with status 1 when there is one.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
# What an unnamed namespace defines: a type, an alias, a function, a variable. Definitions start in the first column.
DEFINITION = re.compile(r"""(?:struct|class|union|enum(?:\ class)?)\ (?P<type>\w+)\b(?=[^;(]*(?:\{|$))|
                            using\ (?P<alias>\w+)\ =|
                            (?:[\w:<>,&*\ ]+?[\ &*])(?P<function>\w+)\(|
                            (?:[\w:<>,&*\ ]+[\ &*])(?P<variable>\w+)(?:\[\w*\])*\ ?[={]""", re.VERBOSE)
PUBLIC = "include/anfora"


def read_layers(path):
    """The layer of each folder, and for each layer the set of layers that it may include (itself too)."""
    layer_of_folder, direct = {}, {}
    for line in pathlib.Path(path).read_text().splitlines():
        name, folders, depends = (part.strip() for part in line.split("|"))
        direct[name] = depends.split(";") if depends else []
        for folder in folders.split(";"):
            layer_of_folder[folder] = name
    allowed = {}
    for name in direct:  # a layer comes after those that it depends on
        allowed[name] = {name}.union(*(allowed[other] for other in direct[name]))
    return layer_of_folder, allowed


def violations_of(source, root, layer_of_folder, allowed):
    relative = source.relative_to(root)
    is_public = relative.is_relative_to(PUBLIC)
    folder = relative.parent.relative_to("include" if is_public else "src").as_posix()
    layer = None if is_public else layer_of_folder.get(folder)
    if layer is None and not is_public:
        yield f"{relative}: src/{folder} belongs to no layer; name it in CMakeLists.txt"
        return
    for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        included = match.group(1)
        if (root / "include" / included).is_file():
            continue
        place = f"{relative}:{number}"
        if not (root / "src" / included).is_file():
            yield f'{place}: "{included}" is neither in src/ nor in include/'
        elif is_public:
            yield f'{place}: a public header may not include "{included}", which is not installed'
        else:
            other = layer_of_folder.get(pathlib.PurePath(included).parent.as_posix())
            if other not in allowed[layer]:
                yield f'{place}: layer {layer} may not include "{included}" of layer {other}'


def local_names(source):
    """The names of what only this file may use, each with its line and the number of that."""
    is_unnamed = False
    for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
        if line == "namespace {":
            is_unnamed = True
        elif line.startswith("}  // namespace"):
            is_unnamed = False
        elif not line.startswith("template") and not line[:1].isspace() and (is_unnamed or line.startswith("static ")):
            match = DEFINITION.match(line)
            if match:
                yield match[match.lastgroup], line, number


def clashes_of(sources, root, layer_of_folder):
    """Names that several files of a layer, or several unit tests, define for themselves. One alias may be in several files."""
    known = {}
    for source in sources:
        folder = source.parent.relative_to(root).as_posix()
        group = layer_of_folder.get(folder.removeprefix("src/"), folder)
        for name, line, number in local_names(source):
            other, same = known.setdefault((group, name), (source, line))
            if other != source and not (line == same and line.startswith("using ")):
                yield (f"{source.relative_to(root)}:{number}: {name} is a name of {other.relative_to(root)} too; "
                       "files of a layer may be compiled as one (ANFORA_UNITY)")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    layer_of_folder, allowed = read_layers(sys.argv[1])
    root = pathlib.Path(sys.argv[2]).resolve()
    sources = sorted(path for top in ("src", "include") for path in (root / top).rglob("*") if path.suffix in (".h", ".cc"))
    violations = [v for source in sources for v in violations_of(source, root, layer_of_folder, allowed)]
    grouped = [path for path in sources if path.suffix == ".cc"] + sorted((root / "tests/unit").glob("*.cc"))
    violations += clashes_of(grouped, root, layer_of_folder)
    print("\n".join(violations) or f"{len(sources)} files of {len(allowed)} layers follow the direction of the layers")
    sys.exit(bool(violations))


if __name__ == "__main__":
    main()

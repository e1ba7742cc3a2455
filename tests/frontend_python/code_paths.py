"""Compares code objects by what they execute on every path, and hides constants from the compiler."""
import ast
import dis
import sys

PREFIX = "__constant_"
SKIPPED = {"NOP", "CACHE", "RESUME", "EXTENDED_ARG", "PRECALL"}
UNCONDITIONAL = {"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"}


def key(value):
    """Equal for constants that are the same: 1 is not True, nor 0.0 the same as -0.0."""
    if isinstance(value, (tuple, frozenset)):
        items = [key(item) for item in value]
        return type(value).__name__, frozenset(items) if isinstance(value, frozenset) else tuple(items)
    if isinstance(value, float):
        return "float", value.hex()
    if isinstance(value, complex):
        return "complex", value.real.hex(), value.imag.hex()
    return type(value).__name__, value


class Hider(ast.NodeTransformer):
    """Replaces constants by names, where what is around them might fold.

    Not where CPython's compiler, not its optimizer, looks at a constant: `is None`, keys, defaults and annotations (of which it makes a
    tuple), a called constant, patterns. In conditions they stay too, as a jump is all that becomes of them; left_over() checks these.
    """

    def __init__(self, tree):
        self.values = {}
        self.hides_annotations = not any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)

    def visit_Constant(self, node):
        name = f"{PREFIX}{len(self.values)}__"
        self.values[name] = node.value
        return ast.Name(name, ast.Load())

    def unless_constant(self, node):
        return node if node is None or isinstance(node, ast.Constant) else self.visit(node)

    def annotation(self, node):
        return self.unless_constant(node) if self.hides_annotations else node

    def without(self, node, **fields):
        """Visits the fields but these, for which it takes what is given."""
        for name in fields:
            setattr(node, name, ast.Pass() if name != "body" else node.body[1:])
        self.generic_visit(node)
        for name, value in fields.items():
            setattr(node, name, value + node.body if name == "body" else value)
        return node

    def visit_Module(self, node):
        docstring = node.body[:1] if ast.get_docstring(node, clean=False) is not None else None
        return self.without(node, **({"body": docstring} if docstring else {}))

    visit_ClassDef = visit_Module

    def visit_FunctionDef(self, node):
        docstring = node.body[:1] if ast.get_docstring(node, clean=False) is not None else None
        return self.without(node, returns=self.annotation(node.returns), **({"body": docstring} if docstring else {}))

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_AnnAssign(self, node):
        return self.without(node, annotation=self.annotation(node.annotation))

    def visit_arguments(self, node):
        for arg in [*node.posonlyargs, *node.args, node.vararg, *node.kwonlyargs, node.kwarg]:
            if arg:
                arg.annotation = self.annotation(arg.annotation)
        node.defaults = [self.unless_constant(value) for value in node.defaults]
        node.kw_defaults = [self.unless_constant(value) for value in node.kw_defaults]
        return node

    def visit_Dict(self, node):
        node.keys = [self.unless_constant(key) for key in node.keys]
        node.values = [self.visit(value) for value in node.values]
        return node

    def visit_Call(self, node):
        return self.without(node, func=self.unless_constant(node.func))

    def visit_Compare(self, node):
        def visit(i, operand):
            is_identity = any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops[max(0, i - 1):i + 1])
            return operand if is_identity and isinstance(operand, ast.Constant) and operand.value is None else self.visit(operand)
        node.left, *node.comparators = [visit(i, operand) for i, operand in enumerate([node.left, *node.comparators])]
        return node

    def visit_BoolOp(self, node):
        node.values = [value if isinstance(value, ast.Constant) and keeps_scope(node.values[i + 1:]) else self.visit(value)
                       for i, value in enumerate(node.values)]
        return node

    def visit_UnaryOp(self, node):
        return self.generic_visit(keep_not(node))

    def condition(self, node):
        if isinstance(node, ast.UnaryOp):
            node = keep_not(node)
        if isinstance(node, ast.Constant) or is_literal_tuple(node):
            return node
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            node.operand = self.condition(node.operand)
        elif isinstance(node, ast.BoolOp):
            node.values = [self.condition(value) for value in node.values]
        elif isinstance(node, ast.IfExp):
            node.test, node.body, node.orelse = map(self.condition, (node.test, node.body, node.orelse))
        else:
            return self.visit(node)
        return node

    def with_test(self, node):
        return self.without(node, test=self.condition(node.test))

    visit_If = visit_While = visit_Assert = visit_IfExp = with_test

    def visit_comprehension(self, node):
        node.iter, node.target = self.visit(node.iter), self.visit(node.target)
        node.ifs = [self.condition(test) for test in node.ifs]
        return node

    def visit_match_case(self, node):
        return self.without(node, pattern=node.pattern, guard=node.guard and self.condition(node.guard))


def keep_not(node):
    """`not a in b`, which is there where folding has taken what was around `a in b`: as `a in b if True else None`, so that it stays.

    The conditional goes away in the code, as it did in the code of the original.
    """
    if isinstance(node.op, ast.Not) and isinstance(node.operand, ast.Compare):
        node.operand = ast.IfExp(ast.Constant(True), node.operand, ast.Constant(None))
    return node


def hide_constants(tree):
    hider = Hider(tree)
    return ast.fix_missing_locations(hider.visit(tree)), hider.values


def is_literal(node):
    return isinstance(node, ast.Constant) or is_literal_text(node)


def is_literal_text(node):
    return isinstance(node, ast.JoinedStr) and all(isinstance(value, ast.Constant) for value in node.values)


def is_literal_tuple(node):
    """With an f-string without fields: CPython makes a constant of it when it has looked at the jump behind it already."""
    return (isinstance(node, ast.Tuple) and all(is_literal(item) or is_literal_tuple(item) for item in node.elts)
            and any(map(is_literal_text, ast.walk(node))))


def keeps_scope(nodes):
    """Whether one of them binds a name or opens a scope: then it stays, though it never runs."""
    kinds = (ast.NamedExpr, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Yield, ast.YieldFrom, ast.Await,
             ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.AnnAssign,
             ast.Store, ast.Del, ast.Try, ast.With, ast.Match)
    return any(isinstance(child, kinds) for node in nodes if node for child in ast.walk(node))


def left_in_condition(node):
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return isinstance(node.operand, ast.Constant) or left_in_condition(node.operand)
    if isinstance(node, ast.IfExp):
        return any(map(left_in_condition, (node.test, node.body, node.orelse)))
    if not isinstance(node, ast.BoolOp):
        return False

    def is_left(i, value):
        if not isinstance(value, ast.Constant):
            return left_in_condition(value)
        rest = node.values[i + 1:]
        return bool(value.value) != isinstance(node.op, ast.Or) or rest and not keeps_scope(rest)
    return any(is_left(i, value) for i, value in enumerate(node.values))


def left_in(node):
    """Whether the node has what CPython folds, of that which hiding its constants does not show."""
    def is_list(iterated):
        return isinstance(iterated, ast.List) and not any(isinstance(item, ast.Starred) for item in iterated.elts)
    if isinstance(node, ast.comprehension):
        return is_list(node.iter) or any(left_in_condition(test) or isinstance(test, ast.Constant) and test.value for test in node.ifs)
    if isinstance(node, ast.For):
        return is_list(node.iter)
    if isinstance(node, ast.Compare):
        return isinstance(node.ops[-1], (ast.In, ast.NotIn)) and is_list(node.comparators[-1])
    if not isinstance(node, (ast.If, ast.While, ast.Assert, ast.IfExp)):
        return False
    if not isinstance(node.test, ast.Constant):
        return left_in_condition(node.test)
    holds = bool(node.test.value)
    if isinstance(node, ast.Assert):
        return holds and not keeps_scope([node.msg])
    if isinstance(node, ast.While) and holds:
        return bool(node.orelse) and not keeps_scope(node.orelse)
    never = node.orelse if holds else node.body
    return not keeps_scope(never if isinstance(never, list) else [never])


def left_over(tree):
    for node in ast.walk(tree):
        if left_in(node):
            return "left: " + ast.unparse(node)
    return None


def parts(instruction):
    """Python 3.13 has instructions that are two on local variables."""
    name, value = instruction.opname, instruction.argval
    if name not in ("LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"):
        return [instruction]
    middle = name.index("_FAST_") + len("_FAST")
    return [instruction._replace(opname=name[:middle], argval=value[0]), instruction._replace(opname=name[middle + 1:], argval=value[1])]


class Code:
    """The instructions of a code object, without those that do nothing, and in a normal form.

    A display of constants is one instruction, in whichever of its two ways it is written, and so are the defaults of a function. A constant that is dropped at once is none.
    """

    def __init__(self, code, names):
        self.names, self.constants = names, code.co_consts
        kept = [part for one in dis.get_instructions(code) if one.opname not in SKIPPED for part in parts(one)]
        self.places = {}
        for i, one in reversed(list(enumerate(kept))):
            self.places[one.offset] = i
        after = len(kept)
        for one in reversed(list(dis.get_instructions(code))):  # a jump to what was left out goes behind it
            after = self.places.setdefault(one.offset, after)
        self.instructions = kept
        self.displays = dict(self.find_displays())

    def constant(self, i):
        """What instruction i loads, as (value,)."""
        one = self.instructions[i]
        if one.opname == "LOAD_CONST":
            return (one.argval,)
        if isinstance(one.argval, str) and one.argval.startswith(PREFIX):
            return (self.names[one.argval],)
        return None

    def find_displays(self):
        """Of each that starts at an instruction: (what it makes, the place behind it)."""
        for i, one in enumerate(self.instructions):
            is_defaults = one.opname == "BUILD_TUPLE" and [it.opname for it in self.instructions[i + 1:i + 3]] == ["LOAD_CONST", "MAKE_FUNCTION"]
            if is_defaults and all(self.constant(k) for k in range(i - one.argval, i)):
                yield i - one.argval, (("LOAD_CONST", key(tuple(self.constant(k)[0] for k in range(i - one.argval, i)))), i + 1)
            if one.opname not in ("BUILD_LIST", "BUILD_SET"):
                continue
            name = one.opname
            if one.argval == 0 and i + 2 < len(self.instructions) and self.instructions[i + 2].opname in ("LIST_EXTEND", "SET_UPDATE"):
                constant = self.constant(i + 1)
                if constant and isinstance(constant[0], (tuple, frozenset)):
                    yield i, ((name, self.of_display(name, constant[0])), i + 3)
            elif one.argval and all(self.constant(k) for k in range(max(0, i - one.argval), i)):
                yield i - one.argval, ((name, self.of_display(name, [self.constant(k)[0] for k in range(i - one.argval, i)])), i + 1)

    @staticmethod
    def of_display(name, items):
        return key(tuple(items) if name == "BUILD_LIST" else frozenset(items))

    def settle(self, i):
        """The next instruction that does something, from place i on."""
        while True:
            if self.instructions[i].opname in UNCONDITIONAL:
                i = self.places[self.instructions[i].argval]
            elif self.is_double_negation(i):
                i = self.settle(self.behind_truth(i)) + 1
            elif self.constant(i) and i not in self.displays and self.instructions[self.settle(i + 1)].opname == "POP_TOP":
                i = self.settle(i + 1) + 1
            else:
                return i

    def behind_truth(self, i):
        """The place behind instruction i, which makes a bool, and behind those that ask for its truth."""
        behind = i + 1
        while self.instructions[self.settle(behind)].opname == "TO_BOOL":
            behind = self.settle(behind) + 1
        return behind

    def thread(self, i):
        """A jump and its target, of instruction i: of JUMP_IF_FALSE_OR_POP to a further jump that it decides, to where that leads."""
        def of(k):
            one = self.instructions[k]
            return one.opname.replace("FORWARD_", "").replace("BACKWARD_", ""), one.argval
        name, target = of(i)
        target = self.places[target]
        while name.endswith("_OR_POP"):
            truth = name.removeprefix("JUMP_IF_").removesuffix("_OR_POP")
            other = {"FALSE": "TRUE", "TRUE": "FALSE"}[truth]
            next_place = self.settle(target)
            next_name, next_target = of(next_place)
            if next_name in (f"JUMP_IF_{truth}_OR_POP", f"POP_JUMP_IF_{truth}"):
                name, target = next_name, self.places[next_target]
            elif next_name in (f"JUMP_IF_{other}_OR_POP", f"POP_JUMP_IF_{other}"):
                name, target = f"POP_JUMP_IF_{truth}", next_place + 1
            else:
                break
        return name, target

    def is_double_negation(self, i):
        """Since 3.13, `not` is of a bool, and twice of it is nothing. CPython sees it where the two are side by side."""
        is_first = sys.version_info >= (3, 13) and self.instructions[i].opname == "UNARY_NOT"
        return is_first and self.instructions[self.settle(self.behind_truth(i))].opname == "UNARY_NOT"

    def at(self, i):
        """(what it does, the code object that it loads, the places behind it); the place None: returns."""
        one = self.instructions[i]
        if i in self.displays:
            what, behind = self.displays[i]
            return what, None, [behind]
        name, value = one.opname, one.argval
        if name == "KW_NAMES":
            return (name, self.constants[one.arg]), None, [i + 1]
        if name == "RETURN_CONST":
            return ("LOAD_CONST", key(value)), None, [None]
        if name == "RETURN_VALUE":
            return ("RETURN_VALUE",), None, []
        if name in ("RAISE_VARARGS", "RERAISE"):
            return (name, value), None, []
        constant = self.constant(i)
        if constant and hasattr(constant[0], "co_code"):
            return ("LOAD_CONST", "code"), constant[0], [i + 1]
        if constant:
            return ("LOAD_CONST", key(constant[0])), None, [self.behind_truth(i) if isinstance(constant[0], bool) else i + 1]
        if name == "COMPARE_OP":  # since 3.13, the truth of its result may be a part of it
            is_truth = one.argrepr.startswith("bool(") or self.behind_truth(i) != i + 1
            return (name, one.argrepr.removeprefix("bool(").rstrip(")"), is_truth), None, [self.behind_truth(i)]
        if name in ("IS_OP", "CONTAINS_OP", "UNARY_NOT", "TO_BOOL"):
            return (name, one.arg), None, [self.behind_truth(i)]
        if one.opcode in dis.hasjrel or one.opcode in dis.hasjabs:
            name, target = self.thread(i)
            behind = [i + 1, target]
            for negative, positive in (("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE"), ("POP_JUMP_IF_NOT_NONE", "POP_JUMP_IF_NONE")):
                if name == negative:
                    return (positive,), None, behind[::-1]
            return (name,), None, behind
        return (name, value if isinstance(value, str) else one.arg), None, [i + 1]


def difference(one, other, names):
    """None, or where the two part: both run side by side, on every path."""
    a, b = Code(one, {}), Code(other, names)
    seen, open_pairs = set(), [(0, 0)]
    while open_pairs:
        pair = open_pairs.pop()
        i, j = (None if x is None else code.settle(x) for code, x in zip((a, b), pair))
        if (i, j) in seen:
            continue
        seen.add((i, j))
        (left, left_code, behind), (right, right_code, other_behind) = (
            (("RETURN_VALUE",), None, []) if x is None else code.at(x) for code, x in ((a, i), (b, j)))
        if left != right or len(behind) != len(other_behind):
            return f"{left} and {right} in {one.co_name}"
        if left_code is not None:
            inner = difference(left_code, right_code, names)
            if inner:
                return inner
        open_pairs += zip(behind, other_behind)
    return None

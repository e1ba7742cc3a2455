"""Random programs, compiled and run beside CPython with numpy.

usage: random_programs.py [--count N] [--seed S] [--keep FOLDER] [--gradients]

A program has integers, floats, tensors, texts and lists of integers, nested if, match, while, for, try and with, break, continue, early return, functions with captured
and nonlocal variables, generators, recursion, and item assignment. Results agree: integers and booleans exactly, floats to 1e-9. What is refused counts and is shown;
what differs, or fails in another way, is kept as a file.

With --gradients the derivatives of the floats and tensors by x and each element of a are compared with central differences of the program in
CPython, to 1e-4. Where differences of two widths or to both sides disagree there is a kink, a jump, or too much curvature, and where the result is
large they are rounding: those are counted apart.
"""
import argparse
import importlib.util
import pathlib
import random
import sys
import tempfile
import warnings

import numpy as np

import anfora


class Writer:
    """Writes one function f(n, x, a): an int, a float, a tensor of three."""

    def __init__(self, rng):
        self.rng, self.lines, self.depth, self.loops, self.names = rng, [], 1, 0, 0
        self.generators = []
        self.scopes = [{"int": ["n"], "float": ["x"], "tensor": ["a"], "list": [], "text": []}]

    def line(self, text):
        self.lines.append("    " * self.depth + text)

    def fresh(self, prefix):
        self.names += 1
        return f"{prefix}{self.names}"

    def some(self, kind):
        return self.rng.choice(self.scopes[-1][kind])

    # Expressions ----------------------------------------------------------------------------------------------------

    def int(self, depth=0):
        r = self.rng
        choice = r.random()
        if depth > 2 or choice < .3:
            return self.some("int") if r.random() < .7 else str(r.randint(-5, 9))
        if choice < .6:
            return f"({self.int(depth + 1)} {r.choice(['+', '-'])} {self.int(depth + 1)})"
        if choice < .7:
            return f"({self.int(depth + 1)} * {self.int(depth + 1)}) % {r.randint(2, 997)}"
        if choice < .8:
            return f"({self.int(depth + 1)} {r.choice(['//', '%'])} {r.choice([-7, -3, 2, 3, 5, 11])})"
        if choice < .85:
            return f"({self.int(depth + 1)} if {self.test(depth + 1)} else {self.int(depth + 1)})"
        if choice < .9:
            return f"{r.choice(['min', 'max'])}({self.int(depth + 1)}, {self.int(depth + 1)})"
        if choice < .94 and self.scopes[-1]["list"]:
            name = self.some("list")
            return r.choice([f"len({name})", f"int({name}[{r.choice([0, -1])}])", f"{name}[{self.int(2)} % len({name})]"])
        if choice < .97:
            return f"abs({self.int(depth + 1)})"
        return f"int({self.test(depth + 1)})"

    def small(self, depth):
        """A factor that does not make rounding large."""
        return f"({self.int(depth)} % 3)"

    def float(self, depth=0):
        r = self.rng
        choice = r.random()
        if depth > 2 or choice < .3:
            return self.some("float") if r.random() < .7 else repr(round(r.uniform(-3, 3), 2))
        if choice < .6:
            return f"({self.float(depth + 1)} {r.choice(['+', '-', '*'])} {r.choice([self.float, self.small])(depth + 1)})"
        if choice < .7:
            return f"({self.float(depth + 1)} / (abs({self.float(depth + 1)}) + 1))"
        if choice < .75:
            return f"({self.int(depth + 1)} / {r.choice([2, 3, 7])})"
        if choice < .8:
            return f"({self.float(depth + 1)} {r.choice(['//', '%'])} {r.choice([2.5, -1.5, 3])})"
        if choice < .88:
            return f"float({self.tensor(depth + 1)}.{r.choice(['sum', 'max', 'min', 'mean'])}())"
        if choice < .94:
            return f"float({self.some('tensor')}[{self.int(depth + 1)} % 3])"
        return f"(({self.float(depth + 1)}) if {self.test(depth + 1)} else ({self.float(depth + 1)}))"

    def tensor(self, depth=0):
        r = self.rng
        choice = r.random()
        if depth > 2 or choice < .35:
            return self.some("tensor")
        if choice < .65:
            return f"({self.tensor(depth + 1)} {r.choice(['+', '-', '*'])} {r.choice([self.tensor, self.float, self.small])(depth + 1)})"
        if choice < .75:
            return f"np.{r.choice(['tanh', 'sin', 'abs', 'floor', 'sign'])}({self.tensor(depth + 1)})"
        if choice < .82:
            return f"np.where({self.tensor(depth + 1)} > {self.float(depth + 1)}, {self.tensor(depth + 1)}, {self.tensor(depth + 1)})"
        if choice < .9:
            return f"np.maximum({self.tensor(depth + 1)}, {self.float(depth + 1)})"
        return f"{self.tensor(depth + 1)}[::-1]"

    def test(self, depth=0):
        r = self.rng
        choice = r.random()
        if depth < 2 and choice < .2:
            return f"({self.test(depth + 1)} {r.choice(['and', 'or'])} {self.test(depth + 1)})"
        if depth < 2 and choice < .27:
            return f"(not {self.test(depth + 1)})"
        if choice < .35:
            return f"({self.int(2)} {r.choice(['<', '<='])} {self.int(2)} < {self.int(2)})"
        if choice < .45 and self.scopes[-1]["text"]:
            return f"({self.some('text')} {r.choice(['==', '!='])} {self.text(1)})"
        kind = self.int if choice < .7 else self.float
        return f"({kind(2)} {r.choice(['<', '<=', '>', '>=', '==', '!='])} {kind(2)})"

    def text(self, depth=0):
        r = self.rng
        choice = r.random()
        if depth > 1 or choice < .5:
            return self.some("text") if self.scopes[-1]["text"] and r.random() < .6 else r.choice(['"p"', '"q"', '"pq"'])
        if choice < .8:
            return f"({self.text(depth + 1)} if {self.test(2)} else {self.text(depth + 1)})"
        return f"({self.text(2)} + {self.text(2)})"

    # Statements -----------------------------------------------------------------------------------------------------

    def tamed(self, kind, value):
        """Kept small, so that nothing overflows in loops."""
        return {"int": f"({value}) % 1009 - 500", "float": f"float(np.sin({value})) * 3", "tensor": f"np.tanh({value})"}[kind]

    def assign(self):
        r = self.rng
        kind = r.choice(["int", "float", "tensor"])
        value = self.tamed(kind, getattr(self, kind)())
        if r.random() < .5:
            self.line(f"{self.some(kind)} = {value}")
        else:
            name = self.fresh({"int": "i", "float": "x", "tensor": "a"}[kind])
            self.line(f"{name} = {value}")
            self.scopes[-1][kind].append(name)

    def statement(self):
        r = self.rng
        choice = r.random()
        if self.depth > 4 or choice < .4:
            self.assign()
        elif choice < .5:
            self.line(f"{self.some('float')} {r.choice(['+=', '-='])} {self.float(1)}")
        elif choice < .57:
            self.line(f"{self.some('int')} += {self.int(2)} % 7")
        elif choice < .62:
            name = self.fresh("a")
            self.line(f"{name} = {self.some('tensor')}.copy()")
            self.line(f"{name}[{self.int(2)} % 3] {r.choice(['=', '+='])} {self.float(2)}")
            self.scopes[-1]["tensor"].append(name)
        elif choice < .66 and self.scopes[-1]["list"]:
            self.change_list(self.some("list"))
        elif choice < .69 and self.loops == 0:
            name = self.fresh("l")
            self.line(f"{name} = " + r.choice([f"[{self.int(2)}, {self.int(2)}]", f"[{self.int(2)}] * (abs({self.int(2)}) % 4 + 1)"]))
            self.scopes[-1]["list"].append(name)
        elif choice < .705 and self.scopes[-1]["text"]:
            self.line(f"{self.some('text')} = {self.text()}")
        elif choice < .71:
            name = self.fresh("s")
            self.line(f"{name} = {self.text()}")
            self.scopes[-1]["text"].append(name)
        elif choice < .73:
            self.match()
        elif choice < .755:
            self.attempt()
        elif choice < .82:
            self.line(f"if {self.test()}:")
            self.block()
            if r.random() < .3:
                self.line(f"elif {self.test()}:")
                self.block()
            if r.random() < .6:
                self.line("else:")
                self.block()
        elif choice < .88:
            name = self.fresh("k")
            bound = r.choice([str(r.randint(0, 5)), f"{self.int(2)} % 6"])
            step = r.choice(["", "", f", {r.choice([1, 2])}"])
            self.line(f"for {name} in range({'0, ' if step else ''}{bound}{step}):")
            self.loop(name)
            if r.random() < .2:
                self.line("else:")
                self.block()
        elif choice < .91:
            name = self.fresh("v")
            self.line(f"for {name} in {r.choice([self.some('tensor'), '(1, 2, 4)'])}:")
            self.line_in(f"{self.some('float')} += float({name})")
        elif choice < .95:
            name = self.fresh("w")
            self.line(f"{name} = {r.randint(0, 5)}")
            self.line(f"while {name} > 0{r.choice(['', ' and ' + self.test(1)])}:")
            self.line_in(f"{name} -= 1")
            self.loop(None, begun=True)
        elif choice < .96 and self.depth == 1:
            self.function()
        elif choice < .965 and self.depth == 1:
            self.recursion()
        elif choice < .98 and self.depth == 1:
            self.generator()
        elif choice < .99 and self.generators:
            self.consume()
        elif self.loops and r.random() < .5:
            self.line(f"if {self.test()}:")
            self.line_in(r.choice(["break", "continue"]))
        else:
            self.line(f"if {self.test()}:")
            self.line_in(f"return {self.result()}")

    def change_list(self, name, is_own=True):
        """Where it is not the function's own, += would make it a variable of the function."""
        r = self.rng
        choice = r.random()
        if choice < .3:
            self.line(f"{name}.append({self.int(1)})")
        elif choice < .6:
            self.line(f"{name}[{self.int(2)} % len({name})] {r.choice(['=', '+='])} {self.int(2)}")
        elif choice < .75:
            self.line(f"{name}[{r.choice([0, -1])}] {r.choice(['=', '-='])} {self.int(2)}")
        elif choice < .85 and is_own:
            self.line(f"{name} += [{self.int(2)}] * (abs({self.int(2)}) % 3)")
        elif choice < .92:
            self.line(f"{name}.insert({self.int(2)} % len({name}), {self.int(2)})")
        else:
            self.line(f"{name}.extend([{self.int(2)} for _ in range({self.int(2)} % 3)])")

    def line_in(self, text):
        self.depth += 1
        self.line(text)
        self.depth -= 1

    def block(self, begun=False):
        """Names that it binds are its own, for behind it they may have no value."""
        self.scopes.append({kind: list(names) for kind, names in self.scopes[-1].items()})
        self.depth += 1
        for _ in range(self.rng.randint(1, 3)):
            self.statement()
        self.depth -= 1
        self.scopes.pop()

    def loop(self, counter, begun=False):
        self.scopes.append({kind: list(names) for kind, names in self.scopes[-1].items()})
        if counter:
            self.scopes[-1]["int"].append(counter)
        self.loops += 1
        self.block()
        self.loops -= 1
        self.scopes.pop()

    def attempt(self):
        """A try whose body may raise, a with, or both."""
        r = self.rng
        self.line("try:")
        self.block()
        error = r.choice(["ValueError", "KeyError", "Wrong"])
        handled = r.random() < .8
        if handled:
            self.line_in(f"if {self.test(1)}:")
            self.line_in(f"    raise {error}{r.choice(['', '(n)'])}")
            if r.random() < .3:
                self.line_in("with contextlib.nullcontext():")
                self.line_in(f"    {self.some('int')} += 1")
                self.line_in(f"    if {self.test(1)}:")
                self.line_in("        " + (r.choice(["break", "continue"]) if self.loops else f"raise {error}"))
            self.line(f"except {r.choice([error, {'KeyError': 'LookupError'}.get(error, error), f'(IndexError, {error})'])}:")
            self.block()
            if r.random() < .3:
                self.line("else:")
                self.block()
        if not handled or r.random() < .4:
            self.line("finally:")
            self.assignments()

    def assignments(self):
        self.scopes.append({kind: list(names) for kind, names in self.scopes[-1].items()})
        self.depth += 1
        for _ in range(self.rng.randint(1, 2)):
            self.assign()
        self.depth -= 1
        self.scopes.pop()

    def case(self, pattern, **names):
        """A case with its block, in which the pattern's names stand for more: of int, float, tensor, list."""
        self.scopes.append({kind: names_of + names.get(kind, []) for kind, names_of in self.scopes[-1].items()})
        guard = f" if {self.test(1)}" if self.rng.random() < .25 else ""
        self.depth += 1
        self.line(f"case {pattern}{guard}:")
        self.block()
        self.depth -= 1
        self.scopes.pop()

    def match(self):
        r = self.rng
        name, other, rest = self.fresh("m"), self.fresh("m"), self.fresh("l")
        kind = r.random()
        if kind < .4:
            self.line(f"match {self.int(1)} % 7:")
            self.case(str(r.randint(0, 3)))
            self.case(r.choice([f"{r.randint(1, 5)} | {r.randint(1, 5)} as {name}", f"int({name})"]), int=[name])
            if r.random() < .5:
                return self.case(name, int=[name])
        elif kind < .75 or not self.scopes[-1]["list"]:
            self.line(f"match ({self.int(2)} % 3, {self.float(2)}, {self.tensor(2)}):")
            self.case(f"({r.randint(0, 2)}, {name}, {other})", float=[name], tensor=[other])
            self.case(f"[{name}, 0.5, _] | (1 | {r.choice([0, 2])} as {name}, _, _)", int=[name])
            self.case(f"[{name}, *_, {other}]", int=[name], tensor=[other])
            self.case(f"({name}, *{rest}) as {other}", int=[name])
            self.line(f"    case {other}:")
            self.line_in(f"    {self.some('float')} += {other}[1] * {other}[0] + len({other})")
            return
        else:
            self.line(f"match {self.some('list')}:")
            self.case("[]" if r.random() < .5 else f"[{r.randint(-2, 2)}]")
            self.case(f"[{name}, {other}]", int=[name, other])
            self.case(f"[{name}, *{rest}, {other}]", int=[name, other])
        if r.random() < .4:
            self.case("_")

    def function(self):
        """A closure over an integer that it changes, and over a tensor."""
        name, count = self.fresh("g"), self.fresh("i")
        self.line(f"{count} = {self.int(1)}")
        tensor = self.some("tensor")
        self.line(f"def {name}(u, v=2):")
        self.line_in(f"nonlocal {count}")
        self.line_in(f"{count} = ({count} + u * v) % 1009")
        self.line_in(f"if u > {self.rng.randint(-3, 9)}:")
        self.line_in(f"    return {count} - v")
        self.line_in(f"return int({tensor}.sum() > 0) + u")
        self.scopes[-1]["int"].append(count)
        for _ in range(self.rng.randint(1, 2)):
            result = self.fresh("i")
            self.line(f"{result} = {name}({self.int(1)}{self.rng.choice(['', ', 5', ', v=' + self.int(2)])})")
            self.scopes[-1]["int"].append(result)

    def recursion(self):
        """A recursive function that changes an integer, and a list, outside."""
        r = self.rng
        name, count = self.fresh("g"), self.fresh("i")
        self.line(f"{count} = {self.int(1)} % 1009")
        self.line(f"def {name}(u):")
        self.line_in(f"nonlocal {count}")
        self.line_in(f"if u <= {r.randint(0, 1)}:")
        self.line_in(f"    return {self.int(2)} % 97")
        if r.random() < .7:
            self.line_in(f"{count} = ({count} * {r.choice([1, 2])} + u) % 1009")
        if self.scopes[-1]["list"] and r.random() < .7:
            self.depth += 1
            self.change_list(self.some("list"), is_own=False)
            self.depth -= 1
        self.line_in(f"return ({name}(u - 1) + {r.choice(['u', count, f'{name}(u - 2)'])}) % 97")
        self.scopes[-1]["int"].append(count)
        result = self.fresh("i")
        self.line(f"{result} = {name}({self.int(1)} % 6)")
        self.scopes[-1]["int"].append(result)

    def generator(self):
        """A generator of integers, with a variable that it changes."""
        r = self.rng
        name, count = self.fresh("g"), self.fresh("i")
        self.line(f"{count} = {self.int(1)}")
        self.line(f"def {name}(u, v=2):")
        self.scopes.append({kind: list(names) for kind, names in self.scopes[-1].items()})
        self.scopes[-1]["int"] += [count, "u", "v"]
        self.depth += 1
        self.line(f"nonlocal {count}")
        for _ in range(r.randint(1, 2)):
            loop = r.random()
            if loop < .35:
                self.line("for j in range(abs(u) % 4):")
            elif loop < .7:
                self.line("j = abs(u) % 5")
                self.line("while j > 0:")
                self.line_in("j -= 1")
            elif loop < .85 and self.generators:
                self.line(f"for j in {r.choice(self.generators)}({self.int(2)}):")
            else:
                self.line(f"if {self.test()}:")
                self.line_in("j = v")
                self.line("else:")
                self.line_in("j = u")
                self.line("if v < 9:")
            self.depth += 1
            self.scopes[-1]["int"].append("j")
            for _ in range(r.randint(1, 3)):
                kind = r.random()
                if kind < .5:
                    self.line(f"yield {self.tamed('int', self.int(1))}")
                elif kind < .65:
                    self.line(f"if {self.test(1)}:")
                    self.line_in(f"yield {self.int(2)} % 7")
                elif kind < .75:
                    self.line(f"if {self.test(1)}:")
                    self.line_in("return")
                elif kind < .85:
                    self.line(f"{count} = ({count} + j * v) % 1009")
                else:
                    self.line(f"yield from ({self.int(2)} % 5, j % 3)")
            self.line("yield j % 11")
            self.depth -= 1
            self.scopes[-1]["int"].remove("j")
        self.depth -= 1
        self.scopes.pop()
        self.scopes[-1]["int"].append(count)
        self.generators.append(name)
        self.consume()

    def consume(self):
        r = self.rng
        items = f"{r.choice(self.generators)}({self.int(1)}{r.choice(['', ', 5', ', v=' + self.int(2) + ' % 6'])})"
        name, kind = self.fresh("k"), r.random()
        if kind < .35:
            self.line(f"for {name} in {items}:")
            self.loop(name)
            if r.random() < .2:
                self.line("else:")
                self.block()
        elif kind < .45:
            self.line(f"for {name}, {name}_ in enumerate({items}):")
            self.line_in(f"{self.some('int')} += {name} * {name}_ % 13")
            self.loop(name)
        elif kind < .6:
            other = r.choice([f"range({self.int(2)} % 6)", "a", f"{r.choice(self.generators)}({self.int(2)})"])
            pair = r.choice([f"{items}, {other}", f"{other}, {items}"])
            self.line(f"for {name}, {name}_ in zip({pair}):")
            self.line_in(f"{self.some('float')} += float({name} * {name}_)")
        elif kind < .7:
            self.line(f"{name} = sum({items}) % 1009")
            self.scopes[-1]["int"].append(name)
        elif kind < .8:
            self.line(f"{name} = sum({name} * {self.int(2)} % 9 for {name} in {items} if {name} % 3 != 1) % 1009")
            self.scopes[-1]["int"].append(name)
        elif kind < .9:
            self.line(f"{name} = next({items}, {self.int(2)}) % 1009")
            self.scopes[-1]["int"].append(name)
        else:
            self.line(f"{name} = {items}")
            self.line(f"{self.some('float')} += float(next({name}, 3))")
            self.line(f"{name} = int(any({name} > {self.int(2)} for {name} in {items}))")
            self.scopes[-1]["int"].append(name)

    def result(self):
        return f"int({self.int()}), float({self.float()}), {self.tensor()} + 0.0"

    def write(self):
        self.line("a = a + 0.0")
        for _ in range(self.rng.randint(3, 8)):
            self.statement()
        self.line(f"return {self.result()}")
        return "import contextlib\n\nimport numpy as np\n\n\nclass Wrong(Exception):\n    pass\n\n\ndef f(n, x, a):\n" + "\n".join(self.lines) + "\n"


class Gradients:
    """The derivatives of a program, compiled, and as differences."""

    WEIGHTS = np.array([0.75, -1.25, 0.5])
    WIDTHS = 1e-5, 2e-6
    TOLERANCE = 1e-4

    def __init__(self, function):
        weights = self.WEIGHTS

        def loss(n, x, a):
            _, y, t = function(n, x, a)
            return y + (t * weights).sum()

        self.loss, self.gradient = loss, anfora.grad(loss, argnums=(1, 2))
        self.compared = self.left_out = 0

    def differences(self, n, x, a):
        """For x and each element of a: the derivative, or None where there is none to be had this way."""
        point = np.concatenate([[x], a])

        def at(shift):
            moved = point + shift
            return self.loss(n, float(moved[0]), moved[1:].copy())

        middle, result = at(0), []
        for direction in np.eye(len(point)):
            estimates = []
            for width in self.WIDTHS:
                above, below = at(width * direction), at(-width * direction)
                estimates += [(above - below) / (2 * width), (above - middle) / width, (middle - below) / width]
            scale = 1 + abs(estimates[0])
            exact = abs(estimates[0] - estimates[3]) < self.TOLERANCE / 4 * scale
            exact = exact and abs(middle) * np.finfo(float).eps / min(self.WIDTHS) < self.TOLERANCE / 4 * scale
            smooth = max(estimates) - min(estimates) < 100 * self.TOLERANCE * scale
            # Over steps of a floor at each width, differences agree on its mean slope.
            smooth = smooth and scale * max(self.WIDTHS) < 1
            result.append(estimates[3] if exact and smooth else None)
        return result

    def disagreement(self, n, x, a):
        """What differs, as a text; empty: nothing."""
        expected = self.differences(n, x, a)
        by_x, by_a = self.gradient(n, x, a.copy())
        got = [float(by_x), *np.asarray(by_a).tolist()]
        self.compared += sum(e is not None for e in expected)
        self.left_out += sum(e is None for e in expected)
        if all(e is None or abs(e - g) <= self.TOLERANCE * (1 + abs(e)) for e, g in zip(expected, got)):
            return ""
        return f"differences {expected}, gradient {got}"


def same(expected, got):
    for e, g in zip(expected, got):
        if isinstance(e, int):
            if type(g) is not int or e != g:
                return False
        elif np.shape(e) != np.shape(g) or not np.allclose(e, g, rtol=1e-9, atol=1e-9, equal_nan=True):
            return False
    return True


def disagreement_of_results(function, compiled, arguments):
    expected = function(*(v.copy() if isinstance(v, np.ndarray) else v for v in arguments))
    got = compiled(*arguments)
    return "" if same(expected, got) else f"{expected} and {got}"


def check(function, rng, gradients):
    """The outcome of three runs, and what there is to tell."""
    compiled = None if gradients else anfora.jit(function, threads=1)
    for _ in range(3):
        arguments = int(rng.integers(-9, 10)), float(rng.normal()), rng.normal(size=3)
        try:
            told = gradients.disagreement(*arguments) if gradients else disagreement_of_results(function, compiled, arguments)
        except (OverflowError, IndexError, ZeroDivisionError):
            continue  # CPython's own
        except anfora.UnsupportedError as error:
            return "refused", str(error)
        except anfora.Error as error:
            return "failed", str(error)
        if told:
            return "different", f"{arguments}: {told}"
    return "same", ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--gradients", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    counts = {"same": 0, "refused": 0, "different": 0, "failed": 0}
    compared = left_out = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.seed, options.seed + options.count):
            text = Writer(random.Random(number)).write()
            path = pathlib.Path(folder) / f"program{number}.py"
            path.write_text(text)
            spec = importlib.util.spec_from_file_location(path.stem, path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            gradients = Gradients(module.f) if options.gradients else None
            outcome, told = check(module.f, np.random.default_rng(number), gradients)
            if gradients:
                compared, left_out = compared + gradients.compared, left_out + gradients.left_out
            counts[outcome] += 1
            if outcome != "same":
                print(f"program {number}: {outcome}: {told}", flush=True)
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / path.name).write_text(text)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    if options.gradients:
        print(f"{compared} derivatives compared, {left_out} at kinks, jumps and large results")
    return 1 if counts["different"] + counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())

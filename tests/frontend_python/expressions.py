"""Random Python expressions, in statements, and values to run them with."""
import random

NUMBERS = ["0", "1", "2", "3", "5", "7", "-1", "10", "24", "60", "255", "127", "128", "129", "64", "0x10", "2**63", "2**64", "10**18", "True", "False",
           "0.0", "-0.0", "1.0", "0.5", "2.5", "1e308", "1e-320", "3.14", "1e16", "123456789.123", "1e22", "0j", "1j", "2.5j", "9007199254740993",
           "340282366920938463463374607431768211455"]
TEXTS = ["''", "'a'", "'abc'", "\"it's\"", "'\\n\\t\\\\'", "'\\x00\\x7f\\xe9'", "'\\u20ac\\U0001f600'", "'%s'", "'%s-%r'", "'%5s|%-5a'", "'%.2s%%'", "'%d'",
         "b''", "b'ab'", "b'\\x00\\xff\"\\''", "'x' * 64", "'abc' * 5"]
OTHERS = ["None", "...", "()", "(1, 2)", "(1, (2, 'a'), 3.0)", "__debug__", "f'a'", "f''", "(1, f'b')", "(f'b', 2)", "((f'a', 1), f'b')"]
ARITHMETIC = ["+", "-", "*", "/", "//", "%", "**", "<<", ">>", "|", "^", "&", "@"]
COMPARISONS = ["==", "!=", "<", "<=", ">", ">=", "is", "is not", "in", "not in"]
STATEMENTS = ["r = {}", "g({})", "if {}:\n    g(1)\nelse:\n    g(2)", "while {}:\n    g(1)\n    break", "assert {}, 'no'", "r = [v for v in (1, 2) if {}]",
              "for v in {}:\n    g(v)", "def h(a={}):\n    return {}\nr = h()", "r = (lambda: {})()", "{}", "if {}:\n    g(3)\nelif {}:\n    g(4)",
              "r = {{0: {}, 1: {}}}", "r = f'{{{}}}|{{{}!r:>4}}'", "'doc'\n{}"]


class Generator:
    def __init__(self, seed, is_run):
        self.random = random.Random(seed)
        # A program that is run has no operators of which a few make a number that does not fit into memory.
        self.arithmetic = [op for op in ARITHMETIC if not is_run or op not in ("**", "<<")]

    def number_text(self):
        """Mostly one of those that are known for trouble, else any."""
        if self.random.random() < 0.7:
            return self.random.choice(NUMBERS)
        bits, scale = self.random.choice([1, 3, 8, 31, 53, 60, 64, 70, 127, 300]), self.random.choice([0, 0, 1, 5, 20, 300])
        real = repr(self.random.uniform(-1, 1) * 10.0 ** self.random.randint(-scale, scale))
        return self.random.choice([str(self.random.getrandbits(bits)), real, real, f"({real}+{abs(float(real)) / 3}j)", f"{abs(float(real))}j"])

    def constant(self):
        if self.random.random() < 0.6:
            return self.number_text()
        return self.random.choice(self.random.choices([TEXTS, OTHERS], [3, 1])[0])

    def leaf(self):
        return self.random.choice("xyz") if self.random.random() < 0.2 else self.constant()

    def number(self, depth):
        """Arithmetic of numbers alone, most of which folds."""
        if depth == 0 or self.random.random() < 0.2:
            return self.number_text()
        if self.random.random() < 0.25:
            return self.random.choice(["-", "+", "~", "not "]) + f"({self.number(depth - 1)})"
        return f"({self.number(depth - 1)}) {self.random.choice(self.arithmetic[:-1])} ({self.number(depth - 1)})"

    def expression(self, depth):
        if depth == 0 or self.random.random() < 0.1:
            return self.leaf()
        sub = lambda: self.expression(depth - 1)  # noqa: E731
        choice = self.random.randrange
        form = self.random.choices(range(14), [5, 3, 2, 4, 3, 3, 2, 2, 2, 2, 1, 2, 1, 2])[0]
        if form == 0:
            return f"({sub()}) {self.random.choice(self.arithmetic)} ({sub()})"
        if form == 1:
            return self.number(depth)
        if form == 2:
            return self.random.choice(["-", "+", "~", "not "]) + f"({sub()})"
        if form == 3:
            return f" {self.random.choice(['and', 'or'])} ".join(f"({sub()})" for _ in range(2 + choice(3)))
        if form == 4:
            return f"({sub()}) if ({sub()}) else ({sub()})"
        if form == 5:
            return f"({sub()}) {self.random.choice(COMPARISONS)} ({sub()})"
        if form == 6:
            return f"not (({sub()}) {self.random.choice(COMPARISONS)} ({sub()}))"
        if form == 7:
            return f"({sub()})[{self.random.choice(['0', '1', '-1', '2', 'True', '1:', ':-1', '::-1', '0:9:2', sub()])}]"
        if form == 8:
            items = [sub() for _ in range(choice(4))]
            return "(" + "".join(f"({item}), " for item in items) + ")"
        if form == 9:
            opened, closed = self.random.choice(["[]", "{}", "()"])
            items = ", ".join(f"({sub()})" for _ in range(1 + choice(3))) + ","
            return f"({sub()}) {self.random.choice(['in', 'not in'])} {opened}{items}{closed}"
        if form == 10:
            return self.random.choice(["f'a{x!r}b{1}{2.5!s}'", "f'{y}{\"it\"!r}{None}'", "f'{(1, 2)}{b\"a\"!a}{x:>5}'", "f'{-0.0}{1e16!r:>9}'",
                                       "f'{\"\u20ac\xe9\"!a}{\"\xe9\"!r}'"])
        if form == 11:
            items = "".join(f"({sub()}), " for _ in range(choice(3)))
            return f"{self.random.choice(TEXTS[7:12])} % ({items})"
        if form == 12:
            return f"({sub()}) {self.random.choice(COMPARISONS)} ({sub()}) {self.random.choice(COMPARISONS)} ({sub()})"
        return f"g({sub()})"

    def text(self):
        statement = self.random.choice(STATEMENTS) if self.random.random() < 0.5 else "r = {}"
        if statement.startswith("r = f'"):
            fill = lambda: self.random.choice("xyz") + self.random.choice(["", " + 1", " and 1"])  # noqa: E731
        else:
            fill = lambda: "(" + (self.number(3) if self.random.random() < 0.3 else self.expression(1 + self.random.randrange(4))) + ")"  # noqa: E731
        filled = statement.format(*(fill() for _ in range(3)))
        # Calls behind it: short ends of a code object are copied to the jumps to them, where new constants may meet.
        return filled + "\ng('after')\ng('after', x)\ng('after', y)"


def is_valid(text):
    try:
        compile(text, "test.py", "exec")
        return True
    except (SyntaxError, ValueError):
        return False


def texts(seed, count, is_run=False):
    generator = Generator(seed, is_run)
    found = []
    while len(found) < count:
        text = generator.text()
        if is_valid(text):
            found.append(text)
    return found


def values():
    nan = float("nan")
    return [{"x": 1, "y": 0, "z": "abc"}, {"x": 2.5, "y": (1, 2), "z": nan}, {"x": "", "y": True, "z": -3}]


def run(code, values):
    """What a program does: its calls, what it stores, what it raises."""
    calls = []

    def g(*args):
        calls.append(repr(args))
        return args[0] if args else None

    scope = {**values, "g": g}
    try:
        exec(code, scope)
        raised = None
    except Exception as error:
        raised = type(error).__name__
    return calls, repr(scope.get("r")) if not callable(scope.get("r")) else "function", raised

#!/usr/bin/env python3
"""`anfora cfg`: blocks, propagated constants, and what it refuses, with place and hint. ANFORA names the program."""
import os
import re
import subprocess
import tempfile
import textwrap
import unittest

ANFORA = os.environ["ANFORA"]


class CfgTest(unittest.TestCase):
    maxDiff = None

    def cfg(self, text, *options, name="f", code=0):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(textwrap.dedent(text))
            run = subprocess.run([ANFORA, "cfg", f"{path}::{name}", *options], capture_output=True, text=True)
            self.assertEqual(run.returncode, code, run.stderr)
            return (run.stdout if code == 0 else run.stderr).replace(folder + os.sep, "")

    def check(self, text, blocks, *options):
        """The table of blocks; without lines and the space between columns."""
        lines = self.cfg(text, *options).split("\n\n")[1].splitlines()
        columns = [re.split(r"\s{2,}", line.strip()) for line in lines]
        self.assertEqual([" ".join(column for column in line if not column.isdigit()) for line in columns], textwrap.dedent(blocks).strip().splitlines())

    def refuse(self, text, message, code=3, name="f"):
        self.assertEqual(self.cfg(text, name=name, code=code), textwrap.dedent(message))

    def test_loop(self):
        self.check(
            """\
            def f(n):
                s = n
                while n > s:
                    s, n = s + n, n - s
                    if s > n:
                        break
                    elif s == n:
                        continue
                    n += s
                else:
                    s = -s
                return s
            """,
            """
            B0 s = n → B1
            B1 n > s? → B2 | B5
            B2 s, n = s + n, n - s
            s > n? → B6 | B3
            B3 s == n? → B1 | B4
            B4 n += s → B1
            B5 s = -s → B6
            B6 return s
            """,
        )

    def test_for_and_patterns(self):
        self.check(
            """\
            def f(x):
                for i, (a, *b) in enumerate(x):
                    g = lambda z, k=a: z + i * k
                return [g(y) for y in b if y]
            """,
            """
            B0 iter(enumerate(x)) → B1
            B1 another item? → B2 | B3
            B2 (i, (a, *b)) = next
            g = lambda z, k=a: z + i * k → B1
            B3 return [g(y) for y in b if y]
            """,
            "--as-written",
        )

    def test_match(self):
        self.check(
            """\
            def f(x):
                match x:
                    case 0 | 1 as k if k > y:
                        return k
                    case [a, *rest]:
                        x = a
                return x
            """,
            """
            B0 .subject2 = x
            case 0 | 1 as k? → B1 | B3
            B1 k of .subject2
            k > y? → B2 | B3
            B2 return k
            B3 case [a, *rest]? → B4 | B5
            B4 a, rest of .subject2
            x = a → B5
            B5 return x
            """,
            "--as-written",
        )

    def test_try_and_with(self):
        self.check(
            """\
            def f(x):
                for i in x:
                    try:
                        if i < 0:
                            raise KeyError(i)
                        with g(i) as y:
                            if y:
                                break
                    except LookupError:
                        return i + 1
                    finally:
                        print(i)
                return x
            """,
            """
            B0 iter(x) → B1
            B1 another item? → B2 | B7
            B2 i = next
            i < 0? → B3 | B4
            B3 .returned10 = i + 1
            print(i)
            return .returned10
            B4 .manager6_18 = g(i)
            y = .manager6_18.__enter__()
            y? → B5 | B6
            B5 .manager6_18.__exit__()
            print(i) → B7
            B6 .manager6_18.__exit__()
            print(i) → B1
            B7 return x
            """,
            "--as-written",
        )

    def test_what_no_path_reaches(self):
        self.check("def f(x):\n    return x\n    x = 2\n    return x\n", "B0 return x")

    def test_constants_are_propagated(self):
        self.check("def f():\n    x = 14\n    y = 7 - x / 2\n    return y * (28 / x + 2)\n", "B0 return 0.0")

    def test_branches_on_constants(self):
        self.check(
            """\
            DEBUG: Final = False
            SIZE = 1 + 2
            def f(x):
                n = SIZE
                if DEBUG:
                    n = x
                n += 1
                while True:
                    x = x + n
                    if n > 3:
                        return x
            """,
            "B0 x = x + 4\nreturn x",
        )

    def test_a_constant_on_some_paths_only(self):
        self.check(
            """\
            def f(x):
                a, b = x, x
                if x:
                    k = 1
                    c = 2
                else:
                    k = 1
                    c = 2.0
                return k, c
            """,
            """
            B0 a, b = x, x
            x? → B1 | B2
            B1 c = 2 → B3
            B2 c = 2.0 → B3
            B3 return 1, c
            """,
        )

    def test_captured_variables_stay(self):
        self.check(
            """\
            def f():
                i = 1
                g = lambda: i
                i = 2
                return g
            """,
            """
            B0 i = 1
            g = lambda: i
            i = 2
            return g
            """,
        )

    def test_undefined_on_a_path(self):
        self.refuse(
            """\
            def f(x):
                if x > 0:
                    y = 1
                elif x < -3:
                    y = 2
                return y
            """,
            """\
            anfora: program.py:6:12: 'y' has no value on the path through lines 2, 4
                return y
                       ^
              hint: give 'y' a value before line 2
            """,
        )

    def test_undefined_where_no_use_is_reached(self):
        self.check("def f(x):\n    if False:\n        return y\n    return x\n    y = 1\n", "B0 return x")

    def test_undefined_on_all_paths(self):
        self.refuse(
            "def f():\n    x = x\n    return x\n",
            """\
            anfora: program.py:2:9: 'x' is read before it has a value
                x = x
                    ^
              hint: give 'x' a value before
            """,
        )

    def test_final_twice(self):
        self.refuse(
            "from typing import Final\nN: Final = 3\nN = 4\ndef f():\n    return N\n",
            """\
            anfora: program.py:3:1: 'N' is Final since line 2, and is assigned again
                N = 4
                ^^^^^
            """,
        )

    def test_unsupported(self):
        self.refuse(
            "def f(x):\n    async def é(y): return y\n    return x\n",
            """\
            anfora: program.py:2:5: AsyncFunctionDef is not supported in a compiled function
                async def é(y): return y
                ^^^^^^^^^^^^^^^^^^^^^^^^
              hint: write it as def
            """,
            code=4,
        )

    def test_syntax_error(self):
        self.refuse(
            "def f(x):\n    return x +\n",
            """\
            anfora: program.py:2:15: invalid syntax
                return x +
                          ^
            """,
        )

    def test_no_such_function(self):
        self.refuse(
            "def g(x):\n    return x\nclass A:\n    def f(self): return 1\n",
            "anfora: program.py has no function f\n  hint: it has g, A.f\n",
        )

    def test_method(self):
        self.assertTrue(self.cfg("class A:\n    def f(self): return 1\n", name="A.f").startswith("def f(self):\n"))

    def test_no_such_file(self):
        run = subprocess.run([ANFORA, "cfg", "nowhere.py::f"], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stderr.splitlines()[0]), (3, "anfora: nowhere.py: there is no such file"))


if __name__ == "__main__":
    unittest.main()

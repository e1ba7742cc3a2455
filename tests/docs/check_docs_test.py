"""check_docs.py finds what a page gets wrong: one small page for each kind."""
import pathlib
import tempfile
import types
import unittest

import check_docs
import snippets
from pages import Page


class Tree:
    """Prints `two words` for every command, has one file and one command with one option."""

    def __init__(self, root):
        self.root = self.source = root
        (root / "src").mkdir()
        (root / "src/a.cc").write_text("int first();\n\nint second();\n")

    def run(self, command):
        return types.SimpleNamespace(returncode=1 if "fails" in command else 0, stdout="two words\nin 0.5 s\n", stderr="")

    def help_of(self, command=""):
        return "Usage: anfora opt [OPTIONS] model\n  -o,--output TEXT\n  --math TEXT\n"

    def commands(self):
        return ["opt"]


class CheckDocs(unittest.TestCase):
    def problems(self, text, bless=False):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "page.md"
            path.write_text(text)
            page = Page(path)
            found = list(check_docs.check_page(page, Tree(pathlib.Path(folder)), bless))
            page.save()
            self.after = path.read_text()
        return found

    def test_outputs(self):
        for shown in ("two words\n    in 0.5 s", "two words\n    in 17 ms", "…", "two …\n    …", "…\n    in 0.5 s"):
            self.assertEqual(self.problems(f"Look:\n\n    $ anfora opt a.onnx\n    {shown}\n"), [], shown)
        for shown in ("three words\n    in 0.5 s", "two words", "two words\n    in 0.5 s\n    more"):
            self.assertEqual(len(self.problems(f"Look:\n\n    $ anfora opt a.onnx\n    {shown}\n")), 1, shown)

    def test_blessing(self):
        self.assertEqual(self.problems("Look:\n\n    $ anfora opt a.onnx\n    three words\n\nEnd.\n", bless=True), [])
        self.assertEqual(self.after, "Look:\n\n    $ anfora opt a.onnx\n    two words\n    in 0.5 s\n\nEnd.\n")

    def test_commands(self):
        self.assertEqual(self.problems("`anfora opt a.onnx --math exact`, `--output FILE`, `src/a.cc`, [there](src/a.cc)\n"), [])
        for wrong in ("`anfora optimize a.onnx`", "`anfora opt a.onnx --maths exact`", "`--maths`", "`src/b.cc`", "[there](b.md)",
                      "`make fails`", "`anfora opt fails.onnx -o b.onnx`"):
            self.assertEqual(len(self.problems(f"See {wrong}.\n")), 1, wrong)

    def test_blocks(self):
        self.assertEqual(self.problems("<!-- test: in src/a.cc -->\n```cpp\nint first();  // this\n…\nint second();\n```\n"), [])
        self.assertEqual(len(self.problems("<!-- test: in src/a.cc -->\n```cpp\nint second();\nint first();\n```\n")), 1)
        self.assertIn("nothing says how to try", self.problems("```cpp\nint first();\n```\n")[0])
        self.assertEqual(self.problems("<!-- test: none, a drawing -->\n```\n->\n```\n"), [])

    def test_lists(self):
        page_text = "1. First,\n\n       $ anfora opt a.onnx\n       …\n\n   and on.\n"
        self.assertEqual(self.problems(page_text), [])
        self.assertEqual(self.after, page_text)

    def test_kinds(self):
        block = types.SimpleNamespace(directive="", language="", lines=["# x = x", "same: Identity(x) => x  [exact]"])
        self.assertEqual(snippets.kind_of(block, check_docs.COMMAND), "rules")


if __name__ == "__main__":
    unittest.main()

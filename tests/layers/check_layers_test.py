"""check_layers.py finds what it is there to find: one small tree for each kind of violation."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("check_layers.py")
LAYERS = "support | support | \nir | ir | support\nops | ops;ops/detail | ir\n"


class CheckIncludes(unittest.TestCase):
    def check(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "layers.txt").write_text(LAYERS)
            for name, text in {"src/support/hash.h": "", "src/ir/node.h": "", "include/anfora/error.h": "", **files}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            result = subprocess.run([sys.executable, SCRIPT, root / "layers.txt", root], capture_output=True, text=True)
            return result.returncode, result.stdout

    def test_with_the_arrows(self):
        status, _ = self.check({"src/ops/detail/a.cc": '#include "support/hash.h"\n#include "anfora/error.h"\n#include <map>\n'})
        self.assertEqual(status, 0)

    def test_against_the_arrows(self):
        status, output = self.check({"src/support/a.cc": '\n#include "ir/node.h"\n'})
        self.assertEqual(status, 1)
        self.assertIn('src/support/a.cc:2: layer support may not include "ir/node.h" of layer ir', output)

    def test_folder_without_a_layer(self):
        status, output = self.check({"src/misc/a.cc": ""})
        self.assertEqual(status, 1)
        self.assertIn("belongs to no layer", output)

    def test_public_header_on_an_internal_one(self):
        status, output = self.check({"include/anfora/a.h": '#include "ir/node.h"\n'})
        self.assertEqual(status, 1)
        self.assertIn("public header", output)

    def test_missing_header(self):
        status, output = self.check({"src/ir/a.cc": '#include "ir/nod.h"\n'})
        self.assertEqual(status, 1)
        self.assertIn("neither in src/", output)

    def test_one_name_in_two_files(self):
        definitions = ("struct Twice {};", "enum class Twice { One };", "using Twice = int;", "int Twice() { return 1; }",
                       "constexpr int Twice = 1;", "const std::vector<int> Twice[] = {};")
        for definition in definitions:
            text = f"namespace anfora {{\nnamespace {{\n\n{definition}\n\n}}  // namespace\n}}  // namespace anfora\n"
            other = text.replace("int;", "long;")
            status, output = self.check({"src/ops/a.cc": text, "src/ops/detail/b.cc": other})
            self.assertEqual(status, 1, definition)
            self.assertIn("src/ops/detail/b.cc:4: Twice is a name of src/ops/a.cc too", output)
            status, _ = self.check({"src/ops/a.cc": text, "src/ir/b.cc": text})
            self.assertEqual(status, 0, "another layer")
            status, _ = self.check({"tests/unit/a.cc": text, "tests/unit/b.cc": other})
            self.assertEqual(status, 1, "unit tests")

    def test_one_alias_in_two_files(self):
        text = "namespace {\n\nusing Ints = std::vector<int>;\n\n}  // namespace\n"
        status, output = self.check({"src/ops/a.cc": text, "src/ops/b.cc": text})
        self.assertEqual(status, 0, output)

    def test_one_name_by_turns(self):
        text = "namespace {\n\nstruct Twice;\n  int Twice = 1;\n\n}  // namespace\nint Twice();\n"
        status, output = self.check({"src/ops/a.cc": text, "src/ops/b.cc": text})
        self.assertEqual(status, 0, output)


if __name__ == "__main__":
    unittest.main()

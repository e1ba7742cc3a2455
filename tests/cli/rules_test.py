#!/usr/bin/env python3
"""Rules on the command line: opt --rules, --fuel and --remarks, rules, explain.

usage: ANFORA=build/release/anfora rules_test.py [unittest arguments]
"""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ANFORA = os.path.abspath(os.environ["ANFORA"])

MODEL = """
graph @main(%x: f32[2, 3]) {
  %a = Identity(%x)
  %b = Mul(%a, 1.0)
  %c = Relu(Relu(%b))
  %d = Abs(%c)
  return %d
}
"""

OWN_RULES = """
# Relu(Relu(x)) = Relu(x)
own-relu-twice: Relu(r:Relu(_)) => r  [exact]

# x · 1 = x, under another name
own-unit-factor: Mul(x, 1) => x  [exact]
"""


class Rules(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.write("model.ir", MODEL)

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def anfora(self, *arguments):
        return subprocess.run([ANFORA, *arguments], capture_output=True, text=True, cwd=self.folder, timeout=60)

    def optimize(self, *options):
        result = self.anfora("opt", "model.ir", "-o", "small.ir", "--json", *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def fired(self, report):
        return {name: rule["fired"] for name, rule in report.get("rules", {}).items() if rule["fired"]}

    def test_own_rules_come_first(self):
        self.write("own.rules", OWN_RULES)
        fired = self.fired(self.optimize("--rules", "own.rules"))
        self.assertEqual(fired["own-relu-twice"], 1)
        self.assertEqual(fired["own-unit-factor"], 1)
        self.assertNotIn("unit-factor", fired)
        self.assertIn("Relu(x)", self.anfora("rules", "own-relu-twice", "--rules", "own.rules").stdout)

    def test_fuel_bounds_the_rewrites(self):
        self.assertNotIn("unit-factor", self.fired(self.optimize("--fuel", "0")))
        rules = self.fired(self.optimize("--fuel", "1", "--passes", "simplify"))
        self.assertEqual(sum(rules.values()), 1)

    def test_remarks_are_json_lines(self):
        self.optimize("--remarks", "remarks.jsonl", "--passes", "simplify")
        remarks = [json.loads(line) for line in (self.folder / "remarks.jsonl").read_text().splitlines()]
        unit = [r for r in remarks if r["rule"] == "unit-factor" and r["outcome"] == "applied"]
        self.assertEqual(len(unit), 1)
        self.assertEqual((unit[0]["pass"], unit[0]["node"]), ("simplify", "Mul 'b'"))
        self.assertEqual((unit[0]["nodes_before"], unit[0]["nodes_after"]), (1, 0))
        self.assertGreater(unit[0]["flops_saved"], 0)
        self.assertEqual(unit[0]["bytes_saved"], 4 * unit[0]["flops_saved"])  # a product an element

    def test_prune_inputs(self):
        self.write("unused.ir", "graph @main(%x: f32[2], %y: f32[3], %z: f32[2]) { return Add(%x, Mul(%z, 1.0)) }")
        for option, kept in ((), True), (("--prune-inputs",), False):
            result = self.anfora("opt", "unused.ir", "-o", "small.ir", *option)
            self.assertIn("bit for bit", result.stdout, result.stderr)
            self.assertEqual("%y" in (self.folder / "small.ir").read_text(), kept)

    def test_sizes_of_made_up_inputs(self):
        self.write("model.ir", "graph @main(%x: f32[n], %y: f32[m]) { return Relu(Relu(Reshape(%x, Concat(Shape(%y), [2]){axis=0}))) }")
        self.assertIn("with m=1", self.optimize()["verdict"])
        self.assertIn("same outputs", self.optimize("--dim", "n=6", "--dim", "m=3")["verdict"])
        self.assertIn("do not fit", self.optimize("--dim", "n=5", "--dim", "m=3")["verdict"])
        for wrong, message in (("k=3", "there are m, n"), ("n", "NAME=SIZE"), ("n=-1", "NAME=SIZE")):
            result = self.anfora("opt", "model.ir", "-o", "small.ir", "--dim", wrong)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(message, result.stderr)

    def test_save_graphs(self):
        self.write("model.ir", MODEL.replace("%b", '%"b<&>"'))
        self.optimize("--save-graphs", "graphs")
        page = (self.folder / "graphs" / "index.html").read_text()
        for part in ("5 → ", "00_import", "unit-factor", "x · 1 = x", "Mul 'b&lt;&amp;&gt;'", "algebraic rules, round 1"):
            self.assertIn(part, page)
        for link in re.findall('href="([^"]*)"', page):
            self.assertTrue((self.folder / "graphs" / link).is_file(), link)
        self.assertEqual(len(re.findall("href=", page)), len(list((self.folder / "graphs").glob("??_*"))))

    def test_explain(self):
        text = self.anfora("explain", "model.ir").stdout
        for part in ("model.ir: 5 →", "no-ops", "unit-factor", "x · 1 = x", "Mul 'b'"):
            self.assertIn(part, text)
        self.assertIn("rewritten by unit-factor", self.anfora("explain", "model.ir", "--node", "'b'").stdout)

    def test_explain_why_not(self):
        text = self.anfora("explain", "model.ir", "--why-not", "absolute-of-positive").stdout
        self.assertIn("not (positive(x)): 1 node\n", text)
        self.assertIn("Abs 'd'", text)
        self.assertIn("no node has", self.anfora("explain", "model.ir", "--why-not", "compose-transposes").stdout)

    def assert_refused(self, text, place, message, hint="", code=2):
        self.write("own.rules", text)
        result = self.anfora("opt", "model.ir", "-o", "small.ir", "--rules", "own.rules")
        self.assertEqual(result.returncode, code)
        self.assertIn(place + message, result.stderr)
        self.assertIn(hint, result.stderr)
        self.assertFalse((self.folder / "small.ir").exists())

    def test_wrong_rules(self):
        for text, place, message, hint in (
            ("# a\nown: Relux(x) => x  [exact]\n", "own.rules:2:6: ", "there is no operator Relux", "did you mean Relu?"),
            ("# a\nown: Relu(x) => y  [exact]\n", "own.rules:2:17: ", "the pattern has no y", ""),
            ("# a\nown: Relu(x) => x  [exact] if ranc(x) == 2\n", "own.rules:2:31: ", "there is no function ranc", "rank"),
            ("# a\nown: Relu(x) => Relu(Neg(x))  [exact]\n", "own.rules:2:1: ", "rule own does not make the graph lighter", "ordered"),
            ("own: Relu(x) => x  [exact]\n", "own.rules:1:1: ", "rule own has no comment", "as a person would"),
            ("# a\nidentity: Relu(x) => x  [exact]\n", "own.rules:2:1: ", "there is a rule identity already", ""),
            ("# a\nown: Relu(x) => x\n", "own.rules:2:18: ", "", ""),
            ("guard flat(x): rank(y) == 1\n", "own.rules:1:21: ", "y is no parameter of the guard", ""),
            ("guard rank(x): true\n", "own.rules:1:7: ", "there is a function, guard or value rank already", ""),
            ("guard flat(x): rank(x) == 1\n# a\nown: Relu(x) => x  [exact] if flat(x, x)\n", "own.rules:3:31: ",
             "flat takes 1 arguments, not 2", ""),
            ("guard flat(x): flat(x)\n", "own.rules:1:16: ", "there is no function flat", ""),
        ):
            with self.subTest(text=text):
                self.assert_refused(text, place, message, hint)

    def test_named_guard(self):
        self.write("own.rules", "guard has_rank(x, n): n == rank(x)\n    and n >= 0\n\n"
                   "# not so, but here it is only counted\n"
                   "own-abs: Abs(x) => x  [exact] if has_rank(x, 7)\n\n# the same\n"
                   "own-relu: Relu(x) => x  [exact] if rank(x) > 0 and has_rank(x, 2)\n")
        self.anfora("opt", "model.ir", "-o", "small.ir", "--rules", "own.rules", "--remarks", "remarks.jsonl", "--no-check")
        remarks = [json.loads(line) for line in (self.folder / "remarks.jsonl").read_text().splitlines()]
        reasons = {r["rule"]: r["message"] for r in remarks if r["outcome"] != "applied" and r["rule"].startswith("own-")}
        self.assertEqual(reasons["own-abs"], "not (has_rank(x, 7))")
        self.assertTrue(any(r["rule"] == "own-relu" and r["outcome"] == "applied" for r in remarks))

    def test_rules_without_end(self):
        self.assert_refused("# a\nown: Relu(x) => Relu(Neg(Neg(x)))  [exact, ordered 'no']\n", "", "undo each other", code=3)

    def test_absent_files_and_names(self):
        self.assertEqual(self.anfora("opt", "model.ir", "-o", "small.ir", "--rules", "absent.rules").returncode, 3)
        result = self.anfora("explain", "model.ir", "--why-not", "unit-facto")
        self.assertEqual(result.returncode, 3)
        self.assertIn("did you mean unit-factor?", result.stderr)
        self.assertEqual(self.anfora("opt", "model.ir", "-o", "small.ir", "--fuel", "-1").returncode, 2)


if __name__ == "__main__":
    unittest.main()

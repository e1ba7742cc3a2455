"""Models: what they are read from, reports, rules, explanations, differences."""

from __future__ import annotations

import gc
import html.parser
import pathlib
import re
from typing import Any

import numpy as np
import onnx
import pytest
from models import LINEAR, parse

import anfora


def test_sources_are_the_same_model(tmp_path: pathlib.Path) -> None:
    proto = parse(LINEAR)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    path = tmp_path / "linear.onnx"
    onnx.save(proto, path)
    bytes_ = path.read_bytes()
    for source in (path, str(path), bytes_, bytearray(bytes_), memoryview(bytes_), proto, anfora.load(proto)):
        y, z = anfora.load(source).compile(threads=1)(x)
        np.testing.assert_array_equal(y, x @ np.array([[1, -2, 3], [-4, 5, -6], [7, -8, 9], [-10, 11, -12]]) + 1)
        np.testing.assert_array_equal(z, np.maximum(y, 0))


def test_kernels_are_chosen_by_measuring(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANFORA_CACHE", str(tmp_path / "cache"))
    model = anfora.load(parse(LINEAR.replace("N, ", "16, ")))
    x = np.arange(64, dtype=np.float32).reshape(16, 4)
    expected = model.compile(threads=1)(x)
    tuned = model.compile(threads=1, tune="full")
    for got, want in zip(tuned(x), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    assert tuned.notes[0].startswith("tuned ")
    assert "measured" not in model.compile(threads=1, tune="fast").notes[0]
    assert not model.compile(threads=1).notes
    with pytest.raises(anfora.InvalidArgumentError, match="off, fast or full"):
        model.compile(tune="much")


def test_describes_inputs_outputs_and_nodes() -> None:
    model = anfora.load(parse(LINEAR))
    assert [(i.name, i.type, i.dtype, i.shape) for i in model.inputs] == [("x", "f32[N, 4]", "f32", ["N", 4])]
    assert [(o.name, o.shape) for o in model.outputs] == [("y", ["N", 3]), ("z", ["N", 3])]
    assert [node.op for node in model.nodes] == ["MatMul", "Add", "Relu"]
    assert model.metadata["graph_name"] == "linear"


def test_shapes_have_what_the_file_says_and_every_name_of_its_own() -> None:
    model = anfora.load(parse("rows (float[_rows, 4] x, int64[2] s) => (float[Rows, 4] y) { y = Reshape(x, s) }"))
    assert model.inputs[0].shape == ["_rows", 4]
    assert model.outputs[0].shape == ["Rows", 4]
    unknown = anfora.load(parse("rows (float[N] x) => (int64[*] y) { y = NonZero(x) }"))
    assert unknown.outputs[0].shape == [1, None]


@pytest.mark.parametrize("name", ["linear.onnx", "linear.ir"])
def test_saves(tmp_path: pathlib.Path, name: str) -> None:
    model = anfora.load(parse(LINEAR))
    model.save(tmp_path / name)
    assert anfora.load(tmp_path / name).verify(model)


def test_gives_the_bytes_of_a_file() -> None:
    model = anfora.load(parse(LINEAR))
    assert model.verify(model.to_onnx())
    assert model.verify(model.to_bytes())


TURNED_TWICE = """twice (float[N, 4] x) => (float[N, 4] y) <float zero = {0}>
{ a = Add(x, zero)  t = Transpose<perm=[1, 0]>(a)  u = Transpose<perm=[1, 0]>(t)  y = Relu(u) }"""


def test_report_and_result() -> None:
    model = anfora.load(parse(TURNED_TWICE))
    small = anfora.optimize(model)
    assert [node.op for node in small.nodes] == ["Relu"]
    assert len(model.nodes) == 4
    assert model.verify(small)
    assert small.report is not None
    assert (small.report.before.nodes, small.report.after.nodes) == (4, 1)
    assert "before" in str(small.report)


def test_report_in_a_notebook() -> None:
    report = anfora.optimize(parse(TURNED_TWICE)).report
    assert report is not None
    open_tags: list[str] = []
    cells: list[str] = []

    class Parser(html.parser.HTMLParser):
        def handle_starttag(parser, tag: str, attributes: Any) -> None:
            open_tags.append(tag)
            assert {name for name, _ in attributes} <= {"style"}
            style = dict(attributes).get("style", "")
            assert re.fullmatch(r"((text-align|caption-side|padding|white-space):[a-z0-9. ]+;?)*", style)  # no colours

        def handle_endtag(parser, tag: str) -> None:
            assert open_tags.pop() == tag

        def handle_data(parser, text: str) -> None:
            if open_tags and open_tags[-1] in ("th", "td"):
                cells.append(text.strip())

    Parser().feed(report._repr_html_())
    assert open_tags == []
    for cell in cells:
        assert cell in str(report)
    assert len(report._repr_html_()) < 4000


def test_options() -> None:
    proto = parse(TURNED_TWICE)
    fixed = anfora.optimize(proto, shapes={"x": [5, 4]})
    assert fixed.outputs[0].shape == [5, 4]
    pair = parse("pair (float[N, M] x, float[N, K] w) => (float[N, K] y) { s = ReduceSum<keepdims = 1>(x)  y = Add(s, w) }")
    half = anfora.optimize(pair, dims={"N": 5})
    assert [i.shape for i in (*half.inputs, *half.outputs)] == [[5, "M"], [5, "K"], [5, "K"]]
    newest = anfora.optimize(proto, opset="newest").to_onnx()
    assert newest.opset_import[0].version > 21
    nothing = anfora.optimize(proto, passes=["dce"])
    assert len(nothing.nodes) == 4
    seen: list[str] = []
    anfora.optimize(proto, progress=lambda name, _: seen.append(name))
    assert "simplify" in seen


@pytest.mark.parametrize(("options", "kind"), [
    ({"target": "abacus"}, anfora.InvalidArgumentError),
    ({"passes": ["nothing"]}, anfora.InvalidArgumentError),
    ({"math": "wrong"}, anfora.InvalidArgumentError),
    ({"shapes": {"q": [1]}}, anfora.InvalidArgumentError),
    ({"dims": {"Q": 1}}, anfora.InvalidArgumentError),
    ({"opset": 300}, anfora.InvalidArgumentError),
    ({"opsets": 20}, TypeError),
    ({"rules": ["/no/such.rules"]}, anfora.NotFoundError),
])
def test_options_that_do_not_exist(options: dict[str, Any], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        anfora.optimize(parse(TURNED_TWICE), **options)


def test_rules_of_ones_own(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "own.rules"
    path.write_text("# max(x, 0) = |x|, which is wrong\nown-relu: Relu(x) => Abs(x)  [exact, ordered 'no Relu is made']\n",
                    encoding="utf-8")
    changed = anfora.optimize(parse(TURNED_TWICE), rules=[path])
    assert [node.op for node in changed.nodes] == ["Abs"]
    path.write_text("own-relu: Relu(x) => Absolutely(x)  [exact]\n", encoding="utf-8")
    with pytest.raises(anfora.Error, match="own.rules"):
        anfora.optimize(parse(TURNED_TWICE), rules=[path])


def test_explains_as_the_command_does() -> None:
    model = anfora.load(parse(TURNED_TWICE))
    explanation = model.explain()
    assert (explanation.nodes_before, explanation.nodes_after) == (4, 1)
    assert "model: 4 → 1 nodes in" in str(explanation)
    rules = {rule.name: rule for rule in explanation.rules}
    assert rules["compose-transposes"].fired == 1
    assert "    " + rules["compose-transposes"].doc in str(explanation)
    del model, rules
    gc.collect()
    remarks = explanation.about("'u'")
    del explanation
    gc.collect()
    assert "applied" in [remark.outcome for remark in remarks]
    assert "compose-transposes" in [remark.rule for remark in remarks]
    assert "Transpose 'u'" in str(remarks[0])
    assert anfora.load(parse(TURNED_TWICE)).explain(passes=["dce"]).rules == []


def test_tells_why_a_rule_does_not_fire() -> None:
    model = anfora.load(parse("gelu (float[N] x) => (float[N] y) <float h = {0.5}, float one = {1}, float r = {1.4142135}>"
                              "{ d = Div(x, r)  e = Erf(d)  a = Add(e, one)  m = Mul(x, a)  y = Mul(m, h) }", opset=17))
    answer = model.why_not("gelu-erf")
    assert (answer.rule, answer.fired) == ("gelu-erf", 0)
    assert "--opset 20" in answer.remedies
    assert "try --opset 20" in str(answer)
    assert len(model.nodes) == 5
    with pytest.raises(anfora.NotFoundError, match="compose-transposes"):
        model.why_not("compose-transpose")


def test_tells_differences_as_the_command_does() -> None:
    model = anfora.load(parse(TURNED_TWICE))
    assert not model.diff(parse(TURNED_TWICE))
    difference = model.diff(model.optimize())
    assert difference
    assert difference.gone == ["Add 'a'", "Transpose 't'", "Transpose 'u'"]
    changed = [(node.before, node.changes) for node in difference.changed]
    assert changed == [("Relu 'y'", ["operand 0: Transpose 'u' → parameter 'x'"])]
    assert difference.operators["Transpose"] == (2, 0)
    assert "4 → 1 nodes: 0 as they were, 1 changed, 3 gone, 0 new\n" in str(difference)


def test_verify_tells_a_difference() -> None:
    other = parse(TURNED_TWICE.replace("Relu(u)", "Abs(u)"))
    verification = anfora.load(parse(TURNED_TWICE)).verify(other)
    assert not verification
    assert not verification.same
    assert "y" in verification.message

"""anfora.onnxruntime beside ONNX Runtime, in one process: the same names, results, forms of values and classes of exceptions."""

from __future__ import annotations

import importlib
import os
import pathlib
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from models import LINEAR, parse
from sessions import X, options, outcome, session, with_default

import anfora.onnxruntime as ours

theirs = pytest.importorskip("onnxruntime")
theirs.set_default_logger_severity(4)
BOTH = (ours, theirs)


@pytest.fixture(params=BOTH, ids=lambda module: str(module.__name__))
def module(request: pytest.FixtureRequest) -> Any:
    return request.param

VALUES = """values (seq(float[*]) s, optional(float[N]) o, string[N] t, float[N, 2] x)
=> (seq(float[*]) s2, bool b, optional(float[N]) o2, string[N] t2, seq(map(int64, float)) m) {
  s2 = Identity(s)  b = OptionalHasElement(o)  o2 = Identity(o)  t2 = Identity(t)
  m = ai.onnx.ml.ZipMap<classlabels_int64s = [5, 6]>(x)
}"""


def assert_same(mine: Any, other: Any, relative: float = 1e-4, absolute: float = 1e-5) -> None:
    assert type(mine) is type(other)
    if isinstance(mine, np.ndarray):
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
        if mine.dtype.kind in "fc":
            np.testing.assert_allclose(mine, other, relative, absolute)
        else:
            np.testing.assert_array_equal(mine, other)
    elif isinstance(mine, list):
        assert len(mine) == len(other)
        for pair in zip(mine, other):
            assert_same(*pair, relative, absolute)
    elif isinstance(mine, dict):
        assert list(mine) == list(other)
        assert_same(list(mine.values()), list(other.values()), relative, absolute)
    elif isinstance(mine, float):
        assert mine == pytest.approx(other, rel=0, abs=5e-6)
    else:
        assert mine == other


def compare(model: Any, feed: dict[str, Any], absolute: float = 1e-5, as_written: bool = False) -> None:
    """``as_written``: ONNX Runtime does not optimize."""
    mine = session(ours, model)
    how = options(theirs)
    if as_written:
        how.graph_optimization_level = theirs.GraphOptimizationLevel.ORT_DISABLE_ALL
    other = theirs.InferenceSession(model, how, providers=["CPUExecutionProvider"])
    for get in ("get_inputs", "get_outputs", "get_overridable_initializers"):
        pairs = zip(getattr(mine, get)(), getattr(other, get)(), strict=True)
        for my, its in pairs:
            assert (my.name, my.type) == (its.name, its.type)
            if get == "get_inputs" and its.type.startswith("tensor"):
                assert my.shape == its.shape
    my_results, its_results = (each.run(None, feed) for each in (mine, other))
    assert_same(my_results, its_results, absolute=absolute)

MODELS = pathlib.Path(os.environ.get("ANFORA_MODELS", pathlib.Path(__file__).parents[3] / "shared/models")) / "small"


@pytest.fixture(scope="module")
def bounds() -> dict[str, float]:
    """The tolerance of each model."""
    tolerances = MODELS / "TOLERANCE.tsv"
    if not tolerances.exists():
        pytest.skip(f"there are no models at {MODELS}")
    return {line.split("\t")[0]: float(line.split("\t")[1]) for line in tolerances.read_text().splitlines()[1:]}

# ONNX Runtime's optimizer puts integer kernels in the place of what stands between DequantizeLinear and QuantizeLinear. They round


# elsewhere, which moves vit_b_16_qdq_s8 by 0.0063, beyond the bound: off the model as it is written, which Anfora computes.
@pytest.mark.parametrize("name", [
    "bert_base", "bert_base_dyn", "clip", "cond_if", "conv3d_net", "dlrm", "gcn_scatter", "gpt2_small_kv", "lstm_lm", "scan_rnn",
    "script_loop_carried_ts", "squeezenet1_1", "super_resolution", "vit_b_16", "mobilenet_v3_qdq_u8", "resnet50_qdq_s8",
    "vit_b_16_qdq_s8",
])
def test_models(name: str, bounds: dict[str, float]) -> None:
    with np.load(MODELS / f"{name}.in.npz") as inputs:
        compare(str(MODELS / f"{name}.onnx"), dict(inputs), bounds[name], as_written="_qdq_" in name)

SUITE = pathlib.Path(os.environ.get("ANFORA_CONFORMANCE", pathlib.Path(__file__).parents[2] / "build/conformance"))


@pytest.mark.skipif(not SUITE.exists(), reason=f"there is no {SUITE}: tests/conformance/dump.py writes it")
@pytest.mark.parametrize("name", [
    "ai_onnx_ml_label_encoder_string_int", "basic_conv_with_padding", "constantofshape_int_zeros", "gru_seq_length",
    "identity_sequence", "instancenorm_example", "logsoftmax_large_number", "lstm_with_peepholes", "maxpool_2d_ceil",
    "nonmaxsuppression_two_classes", "rnn_seq_length", "resize_downsample_scales_cubic", "scan9_sum", "string_concat",
    "tfidfvectorizer_tf_batch_onlybigrams_skip0", "top_k",
])
def test_cases_of_the_conformance_suite(name: str) -> None:
    folder = SUITE / f"test_{name}"
    model = onnx.load(folder / "model.onnx")
    feed: dict[str, Any] = {}
    for i, info in enumerate(model.graph.input):
        bits = (folder / "test_data_set_0" / f"input_{i}.pb").read_bytes()
        if info.type.HasField("sequence_type"):
            feed[info.name] = onnx.numpy_helper.to_list(onnx.SequenceProto.FromString(bits))
        else:
            feed[info.name] = onnx.numpy_helper.to_array(onnx.TensorProto.FromString(bits))
    compare(str(folder / "model.onnx"), feed)


@pytest.mark.parametrize(("text", "x"), [
    (LINEAR, np.ones((5, 4), np.float32)),
    ("f (float[N] x) => (float[N] y, int64[M] i) <int64[1] k = {2}> { y, i = TopK<axis = 0>(x, k) }", X.ravel()),
    ("f (float[N, 3] x) => (float[*] y, bool[*] b, double[*] d) { y = Softmax(x)  b = Greater(x, y)  d = Cast<to = 11>(x) }", X),
    ("f (float[N, 3] x) => (float16[*] h, uint8[*] u, int64[*] s) "
     "{ h = Cast<to = 10>(x)  a = Abs(x)  u = Cast<to = 2>(a)  s = Shape(x) }", X),
    ("f (float[N, 3] x) => (float8e4m3fn[*] y) { y = Cast<to = 17>(x) }", X),
    ("f (float[N] x) => (float[N] y) <bool b = {1}> { y = Where(b, x, x) }", X.ravel()),
])
def test_operators(text: str, x: Any) -> None:
    compare(parse(text).SerializeToString(), {"x": x})


@pytest.mark.parametrize("changed", [{}, {"s": [], "o": None, "t": ["a"]}, {"t": np.array(["a", "b"])}])
def test_forms_of_values(changed: dict[str, Any]) -> None:
    feed = {"s": [X, X[0]], "o": X[0], "t": np.array(["a", "bé", ""], object), "x": X[:, :2].copy()}
    compare(parse(VALUES).SerializeToString(), feed | changed)


def test_maps() -> None:
    pick = 'f (map(string, float) m) => (float[*] y) { y = ai.onnx.ml.DictVectorizer<string_vocabulary = ["a", "b"]>(m) }'
    compare(parse(pick).SerializeToString(), {"m": {"b": 2.0}})


def test_metadata() -> None:
    model = parse(LINEAR)
    model.producer_name, model.model_version, model.doc_string, model.domain = "me", 7, "what it is", "org.example"
    model.graph.doc_string = "the graph"
    onnx.helper.set_model_props(model, {"labels": "a,b"})
    mine, other = (session(module, model.SerializeToString()).get_modelmeta() for module in BOTH)
    for name in ("producer_name", "version", "description", "domain", "graph_name", "graph_description", "custom_metadata_map"):
        assert getattr(mine, name) == getattr(other, name), name


def free_dimension(module: Any, model: bytes, name: str) -> Any:
    """A session in which the dimension of that name is 2."""
    fixed = options(module)
    fixed.add_free_dimension_override_by_name(name, 2)
    return module.InferenceSession(model, fixed)


def shapes(made: Any) -> list[Any]:
    return [info.shape for info in (*made.get_inputs(), *made.get_outputs())]


def test_free_dimensions() -> None:
    mine, other = (free_dimension(module, with_default(), "N") for module in BOTH)
    assert shapes(mine) == shapes(other)
    for made in (mine, other):
        assert made.run(["y"], {"x": X})[0].shape == (2, 3)
        assert outcome(lambda: made.run(None, {"x": X[:1]})) == "InvalidArgument"


@pytest.mark.parametrize("name", ["N", "no such name"])
def test_free_dimensions_beside_unknown_ones(name: str) -> None:
    model = parse(LINEAR.replace("[N, 4]", "[N, K]")).SerializeToString()
    mine, other = (free_dimension(module, model, name) for module in BOTH)
    assert shapes(mine) == shapes(other)


@pytest.mark.parametrize("module", ["onnxruntime", "anfora.onnxruntime"])
@pytest.mark.parametrize("name", [
    "InvalidArgument", "Fail", "NoSuchFile", "InvalidProtobuf", "InvalidGraph", "NotImplemented", "RuntimeException", "EPFail",
    "ModelLoadCanceled",
])
def test_exceptions(module: str, name: str) -> None:
    assert issubclass(getattr(importlib.import_module(f"{module}.capi.onnxruntime_pybind11_state"), name), Exception)


@pytest.mark.parametrize(("source", "expected"), [
    ("/no/such/file.onnx", "NoSuchFile"),
    (b"no model at all", "InvalidProtobuf"),
    (with_default()[:60], "InvalidProtobuf"),
    (bytearray(with_default()), "TypeError"),
    (None, "TypeError"),
    (parse("wrong (int64[N] x) => (float[N] y) { y = Exp(x) }").SerializeToString(), "InvalidGraph"),
    (parse("wrong (float[N] x) => (float[N] y) { y = Relu<no = 1>(x) }").SerializeToString(), "InvalidGraph"),
], ids=str)
def test_errors_of_models(module: Any, source: Any, expected: str) -> None:
    assert outcome(lambda: session(module, source)) == expected


def test_errors_of_files(module: Any, tmp_path: pathlib.Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model at all")
    assert outcome(lambda: session(module, str(broken))) == "InvalidProtobuf"


@pytest.mark.parametrize(("names", "feed", "expected"), [
    (None, {}, "ValueError"),
    (None, {"q": X}, "ValueError"),
    (None, {"x": X, "q": X}, "InvalidArgument"),
    (None, {"x": X.astype(np.float64)}, "InvalidArgument"),
    (None, {"x": X[0]}, "InvalidArgument"),
    (None, {"x": X[:, :2]}, "InvalidArgument"),
    (["q"], {"x": X}, "InvalidArgument"),
    (["x"], {"x": X}, "InvalidArgument"),
    ("y", {"x": X}, "TypeError"),
    (None, [X], "AttributeError"),
    (None, {"x": X.tolist()}, ""),
    ([], {"x": X}, ""),
    (("y",), {"x": X[:0]}, ""),
], ids=str)
def test_errors_of_feeds(module: Any, names: Any, feed: Any, expected: str) -> None:
    assert outcome(lambda: session(module, with_default()).run(names, feed)) == expected


def test_errors_of_run_options(module: Any) -> None:
    assert outcome(lambda: session(module, with_default()).run(None, {"x": X}, 3)) == "TypeError"


def test_errors_of_kernels(module: Any) -> None:
    model = parse("f (float[N] x, int64[M] i) => (float[M] y) { y = Gather(x, i) }").SerializeToString()
    assert outcome(lambda: session(module, model).run(None, {"x": X[0], "i": np.array([9])})) == "InvalidArgument"


@pytest.mark.parametrize(("use", "expected"), [
    (lambda options: setattr(options, "intra_op_threads", 1), "AttributeError"),
    (lambda options: setattr(options, "intra_op_num_threads", "two"), "TypeError"),
    (lambda options: setattr(options, "optimized_model_filepath", pathlib.Path("x")), "TypeError"),
    (lambda options: options.get_session_config_entry("none"), "RuntimeError"),
    (lambda options: options.add_session_config_entry("key", 1), "TypeError"),
])
def test_errors_of_options(module: Any, use: Callable[[Any], Any], expected: str) -> None:
    assert outcome(lambda: use(module.SessionOptions())) == expected


def test_defaults_of_options() -> None:
    mine, other = ours.SessionOptions(), theirs.SessionOptions()
    for name in dir(other):
        if name.startswith("_") or callable(getattr(other, name)):
            continue
        default = getattr(other, name)
        if hasattr(default, "value"):
            assert (getattr(mine, name).name, int(getattr(mine, name))) == (default.name, default.value)
        else:
            assert getattr(mine, name) == default


@pytest.mark.parametrize("make", [
    lambda module: module.OrtValue.ortvalue_from_numpy(X),
    lambda module: module.OrtValue.ortvalue_from_shape_and_type([2, 3], np.int64),
    lambda module: module.OrtValue.ortvalue_from_shape_and_type([2], onnx.TensorProto.BFLOAT16),
    lambda module: module.OrtValue.ortvalue_from_numpy_with_onnx_type(np.ones(3, np.uint16), onnx.TensorProto.BFLOAT16),
    lambda module: session(module, with_default()).run_with_ort_values(["z"], {"x": module.OrtValue.ortvalue_from_numpy(X)})[0],
])
def test_facts_of_values(make: Callable[[Any], Any]) -> None:
    mine, other = make(ours), make(theirs)
    for name in ("shape", "data_type", "element_type", "is_tensor", "is_sparse_tensor", "is_tensor_sequence", "has_value",
                 "device_name", "tensor_size_in_bytes", "__dlpack_device__"):
        assert getattr(mine, name)() == getattr(other, name)(), name


def test_memory_of_values(module: Any) -> None:
    x = X.copy()
    value = module.OrtValue.ortvalue_from_numpy(x)
    assert np.shares_memory(value.numpy(), x)
    assert np.shares_memory(np.from_dlpack(value), x)
    assert value.data_ptr() == x.ctypes.data
    empty = module.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    empty.update_inplace(x)
    np.testing.assert_array_equal(empty.numpy(), x)
    assert outcome(lambda: empty.update_inplace(x[:1])) == "RuntimeError"
    assert outcome(lambda: empty.update_inplace([1])) == "TypeError"
    np.testing.assert_array_equal(np.asarray(module.OrtValue.from_dlpack(x)), x)


def test_narrow_elements_round_trip() -> None:
    same = parse("f (bfloat16[N] x) => (bfloat16[N] y) { y = Identity(x) }").SerializeToString()
    x = np.array([1.5, -2], ml_dtypes.bfloat16)
    value = ours.OrtValue.ortvalue_from_numpy_with_onnx_type(x.view(np.uint16), onnx.TensorProto.BFLOAT16)
    (result,) = session(ours, same).run_with_ort_values(None, {"x": value})
    assert (result.data_type(), result.numpy().tolist()) == ("tensor(bfloat16)", [1.5, -2])


def test_bindings(module: Any) -> None:
    made = session(module, with_default())
    expected = X + [1, 2, 3]
    binding = made.io_binding()
    assert binding.copy_outputs_to_cpu() == []
    assert outcome(lambda: made.run_with_iobinding(binding)) == "RuntimeError"
    assert outcome(lambda: binding.bind_cpu_input("q", X)) == "RuntimeError"
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    made.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], expected)
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), expected)

    binding.clear_binding_inputs()
    binding.clear_binding_outputs()
    x, z = X.copy(), np.zeros((2, 3), np.float32)
    y = module.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_output("z", "cpu", 0, np.float32, z.shape, z.ctypes.data)
    binding.bind_ortvalue_output("y", y)
    for shift in range(3):
        x[:] = X + shift
        made.run_with_iobinding(binding)
        np.testing.assert_array_equal(y.numpy(), expected + shift)
        np.testing.assert_array_equal(z, np.maximum(expected + shift, 0))
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], z)

    binding.bind_ortvalue_output("y", module.OrtValue.ortvalue_from_shape_and_type([3, 3], np.float32))
    assert outcome(lambda: made.run_with_iobinding(binding)) == "RuntimeError"
    another = session(module, with_default())
    assert outcome(lambda: another.run_with_iobinding(binding)) == "ValueError"

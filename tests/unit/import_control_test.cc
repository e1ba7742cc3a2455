// Control flow of ONNX as functions, calls and Switch: what the imported models compute.
#include <gtest/gtest.h>

#include "analysis/evaluate.h"
#include "analysis/infer.h"
#include "anfora/error.h"
#include "frontend/onnx/import.h"
#include "ir/verify.h"
#include "onnx_writer.h"
#include "ops/registry.h"
#include "run_kernel.h"

namespace anfora {
namespace {

using Ints = std::vector<int64_t>;
using FloatList = std::vector<float>;

Tensor floats(Ints shape, FloatList values) { return make_tensor<float>(std::move(shape), std::move(values)); }
Tensor number(int64_t value) { return Tensor::scalar<int64_t>(value); }
Tensor truth(bool value) { return Tensor::scalar<bool>(value); }

class ImportControl : public testing::Test {
 protected:
  std::unique_ptr<ir::Context> context = ops::make_context();
  std::unique_ptr<ir::Module> module;

  const ir::Type* any(DType dtype) { return context->unranked_type(dtype); }
  // A graph with inputs and outputs of any shape: "x" is f32, "i:i64" an integer, "c:bool" a condition.
  ModelWriter graph(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
    ModelWriter writer;
    auto declare = [&](uint32_t field, const std::string& spec) {
      size_t colon = spec.find(':');
      std::string type = colon == std::string::npos ? "f32" : spec.substr(colon + 1);
      DType dtype = type == "i64"    ? DType::I64
                    : type == "bool" ? DType::Bool
                    : type == "any"  ? DType::Undefined
                                     : DType::F32;
      writer.value(field, spec.substr(0, colon), any(dtype));
    };
    for (const std::string& input : inputs) declare(wire::GraphProto::input, input);
    for (const std::string& output : outputs) declare(wire::GraphProto::output, output);
    return writer;
  }

  std::vector<Datum> run(const ModelWriter& writer, const std::vector<Datum>& inputs) {
    std::string bytes = writer.bytes();
    module = onnx::import_onnx(*context, std::as_bytes(std::span(bytes)), nullptr);
    analysis::infer_types(*module);
    ir::verify_or_throw(*module);
    return analysis::interpret(*module, inputs);
  }
  static void expect(const Datum& datum, const Ints& shape, const FloatList& values) {
    const Tensor& tensor = datum.tensor();
    EXPECT_EQ(Ints(tensor.shape().begin(), tensor.shape().end()), shape);
    EXPECT_EQ(values_of<float>(tensor), values);
  }
};

TEST_F(ImportControl, IfTakesValuesFromAround) {
  ModelWriter then_branch = graph({}, {"a"}), else_branch = graph({}, {"b"}), main = graph({"c:bool", "x"}, {"y"});
  then_branch.node({"Neg", {"x"}, {"a"}});
  else_branch.node({"Abs", {"x"}, {"b"}});
  main.node({"If",
             {"c"},
             {"y"},
             Attributes().set_graph("then_branch", then_branch.graph).set_graph("else_branch", else_branch.graph)});
  expect(run(main, {truth(true), floats({1}, {-2})})[0], {1}, {2});
  expect(run(main, {truth(false), floats({1}, {3})})[0], {1}, {3});
}

// s = s + x for each iteration; the sums are collected.
ModelWriter sum_body(ModelWriter body, bool with_condition) {
  body.node({"Add", {"s", "x"}, {"s2"}});
  body.node({"Identity", {"s2"}, {"scan"}});
  if (with_condition) {
    body.initializer("limit", Tensor::scalar<float>(5));
    body.node({"Less", {"s2", "limit"}, {"go2"}});
  } else {
    body.node({"Identity", {"go"}, {"go2"}});
  }
  return body;
}

TEST_F(ImportControl, LoopOverACount) {
  ModelWriter body = sum_body(graph({"i:i64", "go:bool", "s"}, {"go2:bool", "s2", "scan"}), false);
  ModelWriter main = graph({"m:i64", "s0", "x"}, {"last", "all"});
  main.node({"Loop", {"m", "", "s0"}, {"last", "all"}, Attributes().set_graph("body", body.graph)});
  std::vector<Datum> y = run(main, {number(3), floats({}, {1}), floats({}, {2})});
  expect(y[0], {}, {7});
  expect(y[1], {3}, {3, 5, 7});
  y = run(main, {number(0), floats({}, {1}), floats({}, {2})});
  expect(y[0], {}, {1});
  EXPECT_EQ(y[1].tensor().size(), 0);
}

TEST_F(ImportControl, LoopWithACondition) {
  ModelWriter body = sum_body(graph({"i:i64", "go:bool", "s"}, {"go2:bool", "s2", "scan"}), true);
  ModelWriter main = graph({"go0:bool", "s0", "x"}, {"last", "all"});
  main.node({"Loop", {"", "go0", "s0"}, {"last", "all"}, Attributes().set_graph("body", body.graph)});
  std::vector<Datum> y = run(main, {truth(true), floats({}, {1}), floats({}, {2})});
  expect(y[0], {}, {5});
  expect(y[1], {2}, {3, 5});
  expect(run(main, {truth(false), floats({}, {1}), floats({}, {2})})[0], {}, {1});
}

TEST_F(ImportControl, LoopWithoutAnEndIsAnError) {
  ModelWriter body = sum_body(graph({"i:i64", "go:bool", "s"}, {"go2:bool", "s2", "scan"}), false);
  ModelWriter main = graph({"s0", "x"}, {"last"});
  main.node({"Loop", {"", "", "s0"}, {"last"}, Attributes().set_graph("body", body.graph)});
  EXPECT_THROW(run(main, {floats({}, {1}), floats({}, {2})}), Error);
}

TEST_F(ImportControl, LoopsNest) {
  ModelWriter inner = graph({"j:i64", "go:bool", "t"}, {"go2:bool", "t2"});
  inner.node({"Add", {"t", "x"}, {"t2"}});
  inner.node({"Identity", {"go"}, {"go2"}});
  ModelWriter outer = graph({"i:i64", "go:bool", "s"}, {"go2:bool", "s2"});
  outer.node({"Loop", {"m", "", "s"}, {"s2"}, Attributes().set_graph("body", inner.graph)});
  outer.node({"Identity", {"go"}, {"go2"}});
  ModelWriter main = graph({"m:i64", "s0", "x"}, {"y"});
  main.node({"Loop", {"m", "", "s0"}, {"y"}, Attributes().set_graph("body", outer.graph)});
  expect(run(main, {number(3), floats({}, {0}), floats({}, {1})})[0], {}, {9});
}

TEST_F(ImportControl, ScanAlongAxesAndBackwards) {
  ModelWriter body = graph({"s", "x"}, {"s2", "out"});
  body.node({"Add", {"s", "x"}, {"s2"}});
  body.node({"Identity", {"s2"}, {"out"}});
  Attributes attributes = Attributes().set_graph("body", body.graph).set("num_scan_inputs", 1);
  ModelWriter main = graph({"s0", "x"}, {"last", "all"});
  main.node({"Scan", {"s0", "x"}, {"last", "all"}, attributes});
  Tensor start = floats({1}, {0}), x = floats({3, 1}, {1, 2, 4});
  std::vector<Datum> y = run(main, {start, x});
  expect(y[0], {1}, {7});
  expect(y[1], {3, 1}, {1, 3, 7});

  main = graph({"s0", "x"}, {"last", "all"});
  attributes.set("scan_input_axes", Ints{-1}).set("scan_input_directions", Ints{1});
  attributes.set("scan_output_axes", Ints{1}).set("scan_output_directions", Ints{1});
  main.node({"Scan", {"s0", "x"}, {"last", "all"}, attributes});
  y = run(main, {start, floats({1, 3}, {1, 2, 4})});
  expect(y[1], {1, 3}, {7, 6, 4});
}

TEST_F(ImportControl, ScanOfABatch) {
  ModelWriter body = graph({"s", "x"}, {"s2", "out"});
  body.node({"Add", {"s", "x"}, {"s2"}});
  body.node({"Identity", {"s2"}, {"out"}});
  ModelWriter main = graph({"s0", "x"}, {"last", "all"});
  main.opset = 8;
  main.node(
      {"Scan", {"", "s0", "x"}, {"last", "all"}, Attributes().set_graph("body", body.graph).set("num_scan_inputs", 1)});
  std::vector<Datum> y = run(main, {floats({2, 1}, {0, 10}), floats({2, 2, 1}, {1, 2, 3, 4})});
  expect(y[0], {2, 1}, {3, 17});
  expect(y[1], {2, 2, 1}, {1, 3, 13, 17});
}

TEST_F(ImportControl, SequenceMap) {
  ModelWriter body = graph({"item", "x"}, {"out"});
  body.node({"Mul", {"item", "x"}, {"out"}});
  ModelWriter main = graph({"a", "b", "x"}, {"y:any"});
  main.node({"SequenceConstruct", {"a", "b"}, {"s"}});
  main.node({"SequenceMap", {"s", "x"}, {"y"}, Attributes().set_graph("body", body.graph)});
  std::vector<Datum> y = run(main, {floats({1}, {2}), floats({2}, {3, 4}), floats({}, {10})});
  ASSERT_EQ(y[0].items().size(), 2u);
  expect(y[0].items()[1], {2}, {30, 40});
}

TEST_F(ImportControl, FlexAttentionWithAModifier) {
  ModelWriter modifier = graph({"scores"}, {"out"});
  modifier.initializer("zero", Tensor::scalar<float>(0));
  modifier.node({"Mul", {"scores", "zero"}, {"out"}});  // every key counts the same
  ModelWriter main = graph({"q", "k", "v"}, {"y"});
  main.domain = "ai.onnx.preview";
  main.domain_version = 1;
  main.node({"FlexAttention",
             {"q", "k", "v"},
             {"y"},
             Attributes().set_graph("score_mod", modifier.graph),
             "ai.onnx.preview"});
  // Two heads of queries share one of keys.
  std::vector<Datum> y =
      run(main, {floats({1, 2, 1, 1}, {1, -1}), floats({1, 1, 2, 1}, {5, 7}), floats({1, 1, 2, 1}, {1, 3})});
  expect(y[0], {1, 2, 1, 1}, {2, 2});
}

TEST_F(ImportControl, GraphsMustFitTheirNodes) {
  ModelWriter body = graph({"i:i64", "go:bool"}, {"go2:bool", "s2"});
  body.node({"Identity", {"go"}, {"go2"}});
  body.node({"Identity", {"x"}, {"s2"}});
  ModelWriter main = graph({"m:i64", "x"}, {"y"});
  main.node({"Loop", {"m", "", "x"}, {"y"}, Attributes().set_graph("body", body.graph)});
  EXPECT_THROW(run(main, {number(1), floats({}, {1})}), Error);
  main = graph({"m:i64", "x"}, {"y"});
  main.node({"Loop", {"m", "", "x"}, {"y"}});
  EXPECT_THROW(run(main, {number(1), floats({}, {1})}), Error);
}

}  // namespace
}  // namespace anfora

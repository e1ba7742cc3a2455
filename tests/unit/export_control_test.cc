// Functions, Switch and tail calls become If, Loop, Scan and local functions again.
#include "export_fixture.h"

#include <protozero/pbf_writer.hpp>

namespace anfora {
namespace {

class ExportControl : public ExportTest {
 protected:
  static std::string module(const std::string& graphs, const std::string& results = "\"y\"") {
    return "module { opset \"\" = 21 outputs = [" + results + "] }\n" + graphs;
  }
};

TEST_F(ExportControl, If) {
  EXPECT_EQ(sketch(module(R"(
graph @main(%c: bool[], %x: f32[2]) {
  %f = Switch(%c, @then, @else)
  %r = call %f()
  %a = %r[0]
  return Neg(%a)
}
graph @then() in @main { %t = Relu(%x)  return (%t, %x) }
graph @else() in @main { return (%x, %x) })")),
            "(c, x) -> y\n"
            "a, If_1 = If(c)\n"
            "  then_branch: () -> t, x_1\n"
            "  t = Relu(x)\n"
            "  x_1 = Identity(x)\n"
            "  else_branch: () -> x_2, x_3\n"
            "  x_2 = Identity(x)\n"
            "  x_3 = Identity(x)\n"
            "y = Neg(a)\n");
}

TEST_F(ExportControl, BranchesWithArgumentsAndNestedChoices) {
  EXPECT_EQ(sketch(module(R"(
graph @main(%c: bool[], %d: bool[], %x: f32[2]) {
  %inner = Switch(%d, @g, @h)
  %f = Switch(%c, @g, %inner)
  return call %f(%x)
}
graph @g(%p: f32[2]) in @main { return Relu(%p) }
graph @h(%q: f32[2]) in @main { return Add(%q, %x) })")),
            "(c, d, x) -> y\n"
            "y = If(c)\n"
            "  then_branch: () -> Relu_1\n"
            "  Relu_1 = Relu(x)\n"
            "  else_branch: () -> If_1\n"
            "  If_1 = If(d)\n"
            "    then_branch: () -> Relu_2\n"
            "    Relu_2 = Relu(x)\n"
            "    else_branch: () -> Add_1\n"
            "    Add_1 = Add(x, x)\n");
}

// The shape that the importer gives to a Loop with all that a Loop has.
constexpr const char* kExportedLoop = R"(
graph @main(%n: i64[], %go: bool[], %x: f32[2], %w: f32[2]) {
  %none = SequenceEmpty(){dtype=1}
  %r = call @loop(0, %go, %x, %none)
  %a = %r[0]
  %b = %r[1]
  return (%a, %b)
}
graph @loop(%i: i64[], %g: bool[], %v: f32[2], %acc: seq(f32[2])) in @main {
  %less = Less(%i, %n)
  %c = And(%less, %g)
  %f = Switch(%c, @again, @done)
  return call %f()
}
graph @again() in @loop {
  %v1 = Add(%v, %w)
  %s = ReduceSum(%v1){keepdims=0}
  %g1 = Less(%s, 100.0)
  return call @loop(Add(%i, 1), %g1, %v1, SequenceInsert(%acc, %v1))
}
graph @done() in @loop {
  %all = anfora::StackSequence(%acc){axis=0, dtype=1, shape=[2]}
  return (%v, %all)
})";

TEST_F(ExportControl, Loop) {
  EXPECT_EQ(sketch(module(kExportedLoop, R"("a", "b")")),
            "(n, go, x, w) -> a, b\n"
            "a, b = Loop(n, go, x)\n"
            "  body: (i, g, v) -> g1, v1, v1_1\n"
            "  v1 = Add(v, w)\n"
            "  s = ReduceSum(v1){keepdims=0}\n"
            "  g1 = Less(s, constant_1)\n"
            "  v1_1 = Identity(v1)\n");
}

TEST_F(ExportControl, WhileLoop) {
  // The test is computed from what is carried: once before the loop, once at the end of its body.
  EXPECT_EQ(sketch(module(R"(
graph @main(%x: f32[]) { return call @loop(%x) }
graph @loop(%v: f32[]) {
  %c = Less(%v, 100.0)
  %f = Switch(%c, @again, @done)
  return call %f()
}
graph @again() in @loop { %v1 = Add(%v, %v)  return call @loop(%v1) }
graph @done() in @loop { return Sqrt(%v) })")),
            "(x) -> y\n"
            "c = Less(x, constant_1)\n"
            "Loop_1 = Loop(, c, x)\n"
            "  body: (input_1, input_2, v) -> c_1, v1\n"
            "  v1 = Add(v, v)\n"
            "  c_1 = Less(v1, constant_1)\n"
            "y = Sqrt(Loop_1)\n");
}

TEST_F(ExportControl, LoopThatPassesOn) {
  // Its condition and what it carries are results as they are; not the counter, and nothing twice.
  EXPECT_EQ(sketch(module(R"(
graph @main(%n: i64[], %go: bool[], %x: f32[2], %y: f32[2], %z: f32[2], %k: i64[]) {
  %r = call @loop(0, %x, %y, %z, %k)
  return %r
}
graph @loop(%i: i64[], %a: f32[2], %b: f32[2], %c: f32[2], %last: i64[]) in @main {
  %f = Switch(And(Less(%i, %n), %go), @again, @done)
  return call %f()
}
graph @again() in @loop { return call @loop(Add(%i, 1), %b, Add(%a, %b), %b, %i) }
graph @done() in @loop { return (%a, %b, %c, %last) })",
                          R"("p", "q", "r", "s")")),
            "(n, go, x, y, z, k) -> p, q, r, s\n"
            "p, q, r, s = Loop(n, go, x, y, z, k)\n"
            "  body: (i, input_1, a, b, c, last) -> input_1, b, Add_1, b_1, i_1\n"
            "  Add_1 = Add(a, b)\n"
            "  b_1 = Identity(b)\n"
            "  i_1 = Identity(i)\n");
}

TEST_F(ExportControl, Scan) {
  EXPECT_EQ(sketch(module(R"(
graph @main(%h: f32[3], %x: f32[N, 3]) {
  %shape = Shape(%x)
  %n = Gather(%shape, 0)
  %none = SequenceEmpty(){dtype=1}
  %r = call @scan(0, %h, %none)
  %a = %r[0]
  %b = %r[1]
  return (%a, %b)
}
graph @scan(%i: i64[], %v: f32[3], %acc: seq(f32[3])) in @main {
  %c = Less(%i, %n)
  %f = Switch(%c, @again, @done)
  return call %f()
}
graph @again() in @scan {
  %item = Gather(%x, %i)
  %v1 = Add(%v, %item)
  return call @scan(Add(%i, 1), %v1, SequenceInsert(%acc, %v1))
}
graph @done() in @scan {
  return (%v, anfora::StackSequence(%acc){axis=1, dtype=1, shape=[3]})
})",
                          R"("a", "b")")),
            "(h, x) -> a, b\n"
            "a, b = Scan(h, x){num_scan_inputs=1, scan_output_axes=[1]}\n"
            "  body: (v, item) -> v1, v1_1\n"
            "  v1 = Add(v, item)\n"
            "  v1_1 = Identity(v1)\n");
}

TEST_F(ExportControl, ReplacedItem) {
  EXPECT_EQ(sketch(module("graph @main(%s: seq(f32[2]), %x: f32[2], %i: i64[]) { return anfora::SequenceReplace(%s, %x, %i) }", R"("y")")),
            "(s, x, i) -> y\n"
            "SequenceLength_1 = SequenceLength(s)\n"
            "Add_1 = Add(i, SequenceLength_1)\n"
            "Less_1 = Less(i, constant_1)\n"
            "Where_1 = Where(Less_1, Add_1, i)\n"
            "SequenceErase_1 = SequenceErase(s, i)\n"
            "y = SequenceInsert(SequenceErase_1, x, Where_1)\n");
}

TEST_F(ExportControl, LocalFunctions) {
  EXPECT_EQ(sketch(module(R"(
graph @main(%x: f32[2]) {
  %1 = call @"com.example::Twice"(%x)
  return call @"com.example::Twice"(%1)
}
graph @"com.example::Twice"(%v) { %d = Add(%v, 1.0)  return Mul(%d, 2.0) })")),
            "(x) -> y\n"
            "Twice_1 = com.example::Twice(x)\n"
            "y = com.example::Twice(Twice_1)\n"
            "Twice: (v) -> Mul_1\n"
            "  constant_1 = Constant(){value=f32[] 1.0}\n"
            "  constant_2 = Constant(){value=f32[] 2.0}\n"
            "  d = Add(v, constant_1)\n"
            "  Mul_1 = Mul(d, constant_2)\n");
}

TEST_F(ExportControl, ClosuresAreInlined) {
  EXPECT_EQ(sketch(module(R"(
graph @main(%x: f32[2]) { return call @apply(@f, %x) }
graph @apply(%g, %v: f32[2]) in @main { return call %g(%v) }
graph @f(%u: f32[2]) in @main { return Add(%u, %x) })")),
            "(x) -> y\n"
            "y = Add(x, x)\n");
}

TEST_F(ExportControl, WhatOnnxCannotSay) {
  // Recursion that is not a tail call.
  std::string error = error_of(module(R"(
graph @main(%x: f32[]) { return call @tree(%x) }
graph @tree(%v: f32[]) {
  %f = Switch(Less(%v, 1.0), @leaf, @branch)
  return call %f()
}
graph @leaf() in @tree { return Relu(%v) }
graph @branch() in @tree { %h = Sub(%v, 1.0)  return Add(call @tree(%h), %v) })"));
  EXPECT_NE(error.find("graph @tree has no ONNX form"), std::string::npos) << error;
}

TEST_F(ExportControl, StackedInReverse) {
  EXPECT_EQ(sketch(module(R"(
graph @main(%s: seq(f32[2])) {
  return anfora::StackSequence(%s){axis=1, dtype=1, reverse=1}
})")),
            "(s) -> y\n"
            "ConcatFromSequence_1 = ConcatFromSequence(s){axis=1, new_axis=1}\n"
            "y = Slice(ConcatFromSequence_1, constant_1, constant_2, constant_3, constant_1)\n");
}

// The graphs of an operator that nothing is known of are kept as bytes. They refer to values by name, and to operators
// of the operator set that they came with.
TEST_F(ExportControl, GraphsOfUnknownOperators) {
  using onnx::wire::AttributeProto;
  std::string graph, attribute;
  {
    protozero::pbf_writer writer(graph), node(writer, onnx::wire::GraphProto::node);
    node.add_string(onnx::wire::NodeProto::input, "outer");
    node.add_string(onnx::wire::NodeProto::output, "inner");
    node.add_string(onnx::wire::NodeProto::op_type, "Relu");
    node.commit();
    protozero::pbf_writer whole(attribute);
    whole.add_string(AttributeProto::name, "body");
    whole.add_message(AttributeProto::g, graph);
    whole.add_enum(AttributeProto::type, static_cast<int32_t>(AttributeProto::AttributeType::GRAPH));
  }
  auto module = parse(
      "module { opset \"\" = 17 opset \"com.example\" = 1 outputs = [\"y\"] }\n"
      "graph @main(%x: f32[2]) { %outer = Neg(%x)  return %outer }");
  ir::Graph* main = module->main();
  ir::Node* outer = main->result();
  const ir::Operator& strange = *context->operator_or_unknown("com.example", "Strange");
  AttributeSet attributes{{"body" + std::string(onnx::kVerbatimSuffix), attribute},
                          {std::string(onnx::kCaptures), std::vector<std::string>{"outer"}}};
  module->set_result(main, module->apply(main, strange, {main->parameter(0), outer}, attributes));
  analysis::infer_types(*module);

  std::string bytes = bytes_of(*module, {.opset = onnx::ExportOptions::kNewest});
  EXPECT_EQ(report.opsets[""], 17);
  ASSERT_EQ(report.moved.size(), 1u);
  EXPECT_NE(report.moved[0].because.find("Strange"), std::string::npos);
  auto again = import(bytes);
  const ir::Apply* node = again->main()->result()->as_apply();
  EXPECT_EQ(node->attributes().get_string("body" + std::string(onnx::kVerbatimSuffix), ""), attribute);
  ASSERT_EQ(node->num_inputs(), 2u);
  EXPECT_TRUE(node->input(1)->as_apply()->is("Neg"));
}

TEST_F(ExportControl, DeepChainsOfCallsAreRefused) {
  std::string graphs = "graph @main(%x: f32[2]) { return call @f0(%x) }\n";
  for (int i = 0; i < 2000; ++i) {
    graphs += "graph @f" + std::to_string(i) + "(%v) { return call @f" + std::to_string(i + 1) + "(%v) }\n";
  }
  std::string error = error_of(module(graphs + "graph @f2000(%v) { return Relu(%v) }"));
  EXPECT_NE(error.find("calls are nested more than 1000 deep"), std::string::npos) << error;
}

TEST_F(ExportControl, ExponentialInliningIsRefused) {
  std::string graphs = "graph @main(%x: f32[2]) { return call @f0(%x) }\n";
  for (int i = 0; i < 30; ++i) {
    std::string next = "@f" + std::to_string(i + 1);
    graphs +=
        "graph @f" + std::to_string(i) + "(%v) in @main { %1 = call " + next + "(%v)  return call " + next + "(%1) }\n";
  }
  std::string error = error_of(module(graphs + "graph @f30(%v) in @main { return %v }"));
  EXPECT_NE(error.find("when functions are inlined"), std::string::npos) << error;
}

TEST_F(ExportControl, RoundTripIsStable) {
  auto first = parse(module(kExportedLoop, R"("a", "b")"));
  auto second = import(bytes_of(*first));
  std::string bytes = bytes_of(*second);
  auto third = import(bytes);
  EXPECT_TRUE(bytes_of(*third) == bytes);
}

}  // namespace
}  // namespace anfora

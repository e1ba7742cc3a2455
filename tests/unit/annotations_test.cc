// What the source says beside the graph: that it goes where its subject goes. Whole models: tests/frontend/check_metadata.py.
#include "ir/annotations.h"

#include <gtest/gtest.h>

#include "export_fixture.h"
#include "ir/clone.h"
#include "onnx_writer.h"

namespace anfora {
namespace {

class AnnotationsTest : public ExportTest {
 protected:
  static std::string with_doc(const std::string& node, const std::string& doc) {
    std::string bytes = node;
    protozero::pbf_writer(bytes).add_string(wire::NodeProto::doc_string, doc);
    return bytes;
  }
  // A graph named "branch" of one node, whose documentation is `doc`.
  static std::string branch(const std::string& op, const std::string& doc) {
    std::string graph;
    protozero::pbf_writer w(graph);
    w.add_message(wire::GraphProto::node, with_doc(ModelWriter::node_bytes({op, {"x"}, {"y"}}), doc));
    w.add_string(wire::GraphProto::name, "branch");
    protozero::pbf_writer output(w, wire::GraphProto::output);
    output.add_string(wire::ValueInfoProto::name, "y");
    output.commit();
    return graph;
  }
  static std::string if_node(const std::string& output, const std::string& then_op, const std::string& else_op) {
    Attributes branches;
    branches.set_graph("then_branch", branch(then_op, then_op)).set_graph("else_branch", branch(else_op, else_op));
    return ModelWriter::node_bytes({"If", {"c"}, {output}, branches});
  }
};

TEST_F(AnnotationsTest, CopiesSayTheSame) {
  std::string text = R"ir(graph @main(%x: f32[2]) -> f32[2] {
  %1 = call @f(%x) : f32[2]   # "call" ("m.onnx")
  return %1
}

graph @f(%v: f32[2]) -> f32[2] {
  %2 = Relu(%v) : f32[2]   # act (m.onnx: node 7)
  return %2
}

notes {
  input "x" { doc = "pictures" }
  node "call" ("m.onnx") { doc = "a call" }
  graph @f { name = "body" property "part" = "f" }
  node "act" ("m.onnx": node 7) { doc = "an activation" }
  quantization "x" { "SCALE_TENSOR" = f32[] 0.5 as "scale" }
}
)ir";
  auto module = parse(text);
  EXPECT_EQ(print(*module), text);
  const ir::PrintOptions sequential{.numbers = ir::PrintOptions::Numbers::Sequential};
  EXPECT_EQ(print(*clone(*module), sequential), print(*module, sequential));

  ir::Graph* f = module->find_graph("f");
  ir::Graph* copy = ir::Cloner(*module).copy(*f, nullptr, "g");
  EXPECT_EQ(copy->annotation(), f->annotation());
  const ir::Annotation* act = module->annotations().of_node(*copy->result());
  ASSERT_TRUE(act);
  EXPECT_EQ(act->doc, "an activation");
}

// Nested graphs may share their names, and nodes in them their names and positions.
TEST_F(AnnotationsTest, GraphsOfOneName) {
  ModelWriter m;
  m.value(wire::GraphProto::input, "c", context->tensor_type(DType::Bool, std::span<const int64_t>()));
  m.value(wire::GraphProto::input, *context, "x", {2});
  m.value(wire::GraphProto::output, *context, "a", {2});
  m.value(wire::GraphProto::output, *context, "b", {2});
  protozero::pbf_writer graph(m.graph);
  graph.add_message(wire::GraphProto::node, if_node("a", "Exp", "Abs"));
  graph.add_message(wire::GraphProto::node, if_node("b", "Sin", "Cos"));
  auto module = import(bytes_of(*import(m.bytes())));
  size_t count = 0;
  for (ir::Graph* g : module->graphs()) {
    if (!g->parent()) continue;
    ASSERT_TRUE(g->annotation());
    EXPECT_EQ(g->annotation()->name, "branch");
    const ir::Annotation* said = module->annotations().of_node(*g->result());
    ASSERT_TRUE(said) << print(*module);
    EXPECT_EQ(said->doc, g->result()->as_apply()->op().name);
    ++count;
  }
  EXPECT_EQ(count, 4u);
}

// The constants that an annotation names are written, once each, under names of their own; the annotation of a value
// that is gone is counted.
TEST_F(AnnotationsTest, Quantization) {
  auto module = parse(R"(
      module { outputs = ["y"] }
      graph @main(%x: f32[2]) {
        %h = Mul(%x, 0.5)
        %scale = Exp(%h)
        %y = Sub(%scale, %h)
        return %y
      }
      notes {
        quantization "h" { "SCALE_TENSOR" = f32[] 0.25 as "scale" "ZERO_POINT_TENSOR" = u8[] 3 as "zero" }
        quantization "y" { "SCALE_TENSOR" = f32[] 0.25 as "scale" }
        quantization "x" { "SCALE_TENSOR" = value "scale" }
        quantization "gone" { "SCALE_TENSOR" = f32[] 0.25 as "scale" }
        quantization "x" { "SCALE_TENSOR" = value "gone" }
      })");
  auto again = import(bytes_of(*module));
  EXPECT_EQ(report.left_out, std::vector<std::string>{"quantization_annotation of 2 values that are gone"});
  std::string text = print(*again);
  EXPECT_NE(
      text.find(
          R"(  quantization "h" { "SCALE_TENSOR" = f32[] 0.25 as "scale_1" "ZERO_POINT_TENSOR" = u8[] 3 as "zero" }
  quantization "y" { "SCALE_TENSOR" = f32[] 0.25 as "scale_1" }
  quantization "x" { "SCALE_TENSOR" = value "scale" }
}
)"),
      std::string::npos)
      << text;
}

}  // namespace
}  // namespace anfora

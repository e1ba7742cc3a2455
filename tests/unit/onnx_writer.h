// Writes ONNX models for tests.
#pragma once

#include <protozero/pbf_writer.hpp>
#include <string>
#include <vector>

#include "frontend/onnx/tensor_proto.h"
#include "frontend/onnx/type_proto.h"
#include "frontend/onnx/wire.h"
#include "support/element_types.h"

namespace anfora {

namespace wire = onnx::wire;

// Attributes of a node: its fields, serialized. The kinds are those of the values.
class Attributes {
 public:
  Attributes& set(const std::string& name, int64_t value) {
    return add(name, 2, [&](auto& w) { w.add_int64(wire::AttributeProto::i, value); });
  }
  Attributes& set(const std::string& name, int value) { return set(name, int64_t{value}); }
  Attributes& set(const std::string& name, float value) {
    return add(name, 1, [&](auto& w) { w.add_float(wire::AttributeProto::f, value); });
  }
  Attributes& set(const std::string& name, const char* value) {
    return add(name, 3, [&](auto& w) { w.add_string(wire::AttributeProto::s, value); });
  }
  Attributes& set(const std::string& name, const std::vector<int64_t>& values) {
    return add(name, 7, [&](auto& w) { w.add_packed_int64(wire::AttributeProto::ints, values.begin(), values.end()); });
  }
  Attributes& set(const std::string& name, const std::vector<float>& values) {
    return add(name, 6,
               [&](auto& w) { w.add_packed_float(wire::AttributeProto::floats, values.begin(), values.end()); });
  }
  Attributes& set(const std::string& name, const std::vector<std::string>& values) {
    return add(name, 8, [&](auto& w) {
      for (const std::string& s : values) w.add_string(wire::AttributeProto::strings, s);
    });
  }
  // `graph`: the bytes of a GraphProto.
  Attributes& set_graph(const std::string& name, const std::string& graph) {
    return add(name, 5, [&](auto& w) { w.add_message(wire::AttributeProto::g, graph); });
  }
  operator std::string() const { return bytes_; }

 private:
  template <class Write>
  Attributes& add(const std::string& name, int type, Write&& write) {
    protozero::pbf_writer node(bytes_);
    protozero::pbf_writer w(node, wire::NodeProto::attribute);
    w.add_string(wire::AttributeProto::name, name);
    w.add_int32(wire::AttributeProto::type, type);
    write(w);
    return *this;
  }
  std::string bytes_;
};

// Writes the few messages that the tests need, one call a field of the model.
struct ModelWriter {
  std::string graph;
  std::string functions;
  int64_t ir_version = 10;
  int64_t opset = 25;
  std::string domain = {};  // another domain beside the main one, with its version
  int64_t domain_version = 0;

  struct NodeSpec {
    std::string op;
    std::vector<std::string> inputs, outputs;
    std::string attributes = {};  // AttributeProto fields, serialized
    std::string domain = {};
    std::string name = {};
  };

  static std::string node_bytes(const NodeSpec& spec) {
    std::string bytes;
    protozero::pbf_writer w(bytes);
    for (const std::string& s : spec.inputs) w.add_string(wire::NodeProto::input, s);
    for (const std::string& s : spec.outputs) w.add_string(wire::NodeProto::output, s);
    if (!spec.name.empty()) w.add_string(wire::NodeProto::name, spec.name);
    w.add_string(wire::NodeProto::op_type, spec.op);
    if (!spec.domain.empty()) w.add_string(wire::NodeProto::domain, spec.domain);
    return bytes + spec.attributes;
  }
  void node(const NodeSpec& spec) {
    protozero::pbf_writer(graph).add_message(wire::GraphProto::node, node_bytes(spec));
  }
  void value(uint32_t field, const std::string& name, const ir::Type* type) {
    protozero::pbf_writer w(graph);
    protozero::pbf_writer info(w, field);
    onnx::write_value_info(info, name, type);
  }
  void value(uint32_t field, ir::Context& context, const std::string& name, std::initializer_list<int64_t> shape) {
    value(field, name, context.tensor_type(DType::F32, std::span<const int64_t>(shape.begin(), shape.size())));
  }
  void initializer(const std::string& name, const Tensor& tensor) {
    protozero::pbf_writer w(graph);
    protozero::pbf_writer t(w, wire::GraphProto::initializer);
    onnx::write_tensor(t, tensor, name);
  }
  std::string bytes() const {
    std::string model;
    protozero::pbf_writer w(model);
    w.add_int64(wire::ModelProto::ir_version, ir_version);
    {
      protozero::pbf_writer opset_writer(w, wire::ModelProto::opset_import);
      opset_writer.add_int64(wire::OperatorSetIdProto::version, opset);
    }
    if (!domain.empty()) {
      protozero::pbf_writer opset_writer(w, wire::ModelProto::opset_import);
      opset_writer.add_string(wire::OperatorSetIdProto::domain, domain);
      opset_writer.add_int64(wire::OperatorSetIdProto::version, domain_version);
    }
    w.add_message(wire::ModelProto::graph, graph);
    return model + functions;
  }
};

}  // namespace anfora

// Modules as text, exported models as text: what tests of the exporter compare.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "analysis/infer.h"
#include "anfora/error.h"
#include "frontend/onnx/export.h"
#include "frontend/onnx/import.h"
#include "frontend/onnx/importer.h"
#include "frontend/onnx/message.h"
#include "frontend/onnx/type_proto.h"
#include "frontend/onnx/wire.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ops/registry.h"
#include "support/element_types.h"

namespace anfora {

class ExportTest : public testing::Test {
 protected:
  std::unique_ptr<ir::Context> context = ops::make_context();
  onnx::ExportReport report;

  std::unique_ptr<ir::Module> parse(const std::string& text) {
    auto module = ir::parse(*context, text);
    analysis::infer_types(*module);
    return module;
  }
  std::string bytes_of(const ir::Module& module, const onnx::ExportOptions& options = {}) {
    std::string bytes;
    report = onnx::export_onnx(
        module,
        [&](std::span<const std::byte> piece) {
          bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
        },
        options);
    return bytes;
  }
  std::unique_ptr<ir::Module> import(const std::string& bytes) {
    auto module = onnx::import_onnx(*context, std::as_bytes(std::span(bytes)), nullptr);
    analysis::infer_types(*module);
    return module;
  }

  // The nodes of the exported model, a line each, nested graphs indented:
  //
  //     (x, n) -> y
  //     y = Loop(n, , x)
  //       body: (i, go, v) -> go_1, w
  //       w = Relu(v)
  //       …
  std::string sketch(const std::string& text, const onnx::ExportOptions& options = {}) {
    auto module = parse(text);
    std::string bytes = bytes_of(*module, options), lines;
    for (onnx::Message model(bytes); model.next();) {
      if (model.field() == onnx::wire::ModelProto::graph) {
        onnx::GraphFields graph;
        graph.read(model.bytes());
        add_graph(lines, graph, "");
      } else if (model.field() == onnx::wire::ModelProto::functions) {
        onnx::Function function;
        function.read(model.bytes());
        lines += std::string(function.name) + ": (" + list(function.inputs) + ") -> " + list(function.outputs) + "\n";
        for (std::string_view node : function.nodes) add_node(lines, node, "  ");
      } else {
        model.skip();
      }
    }
    return lines;
  }
  std::string error_of(const std::string& text, const onnx::ExportOptions& options = {}) {
    try {
      bytes_of(*parse(text), options);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

 private:
  template <class Names>
  static std::string list(const Names& names) {
    std::string text;
    for (size_t i = 0; i < names.size(); ++i) text.append(i ? ", " : "").append(names[i]);
    return text;
  }
  std::vector<std::string_view> names_of(const std::vector<std::string_view>& values) {
    std::vector<std::string_view> names;
    for (std::string_view value : values) names.push_back(onnx::read_value_info(*context, value).name);
    return names;
  }
  void add_graph(std::string& lines, const onnx::GraphFields& graph, const std::string& indent) {
    lines += "(" + list(names_of(graph.inputs)) + ") -> " + list(names_of(graph.outputs)) + "\n";
    for (std::string_view node : graph.nodes) add_node(lines, node, indent);
  }
  void add_node(std::string& lines, std::string_view bytes, const std::string& indent) {
    onnx::NodeFields node;
    node.read(bytes);
    lines += indent + list(node.outputs) + " = " + ir::qualified_name(node.domain, node.op_type) + "(" +
             list(node.inputs) + ")";
    std::vector<AttributeSet::Entry> values;
    std::string nested;
    for (std::string_view attribute_bytes : node.attributes) {
      onnx::FileAttribute attribute = onnx::read_attribute(*context, attribute_bytes, {});
      if (attribute.has_graph) {
        onnx::GraphFields graph;
        graph.read(attribute.graph);
        nested += indent + "  " + std::string(attribute.name) + ": ";
        add_graph(nested, graph, indent + "  ");
      } else {
        values.emplace_back(std::string(attribute.name), *attribute.value);
      }
    }
    if (!values.empty()) lines += ir::print(AttributeSet(std::move(values)));
    lines += "\n" + nested;
  }
};

}  // namespace anfora

// Small modules by hand, typed, compiled and run; every result is compared with the interpreter's.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "analysis/evaluate.h"
#include "analysis/infer.h"
#include "ops/registry.h"
#include "plan/compile.h"
#include "support/element_types.h"

namespace anfora::plan {

class PlanTest : public testing::Test {
 protected:
  using Node = ir::Node;
  using Graph = ir::Graph;

  ir::Apply* op(Graph* graph, std::string_view name, std::initializer_list<Node*> inputs, AttributeSet attributes = {},
                size_t num_outputs = 1) {
    return module.apply(graph, context->get_operator(name), inputs, attributes, num_outputs, nullptr, name);
  }
  ir::Apply* call(Graph* graph, Node* callee, std::vector<Node*> arguments = {}) {
    return module.call(graph, callee, arguments);
  }
  Node* tuple(Graph* graph, std::vector<Node*> items) { return module.make_tuple(graph, items); }
  Node* parameter(Graph* graph, DType dtype, std::vector<ir::Dim> dims, std::string_view name) {
    return module.add_parameter(graph, context->tensor_type(dtype, std::span<const ir::Dim>(dims)), name);
  }
  Node* untyped(Graph* graph, std::string_view name) { return module.add_parameter(graph, nullptr, name); }
  ir::Dim dim(int64_t value) { return context->dims().constant(value); }
  ir::Dim symbol(std::string_view name) { return context->dims().symbol(name); }
  Node* constant(std::vector<float> values) { return module.constant(Tensor::vector<float>(values)); }

  runtime::Executable finish(Node* result, CompileOptions options = {}) {
    module.set_result(main, result);
    module.set_main(main);
    size_t count = 1;
    if (result->as(ir::Primitive::MakeTuple)) count = result->as_apply()->num_inputs();
    for (size_t i = 0; i < count; ++i) module.output_names().push_back("out" + std::to_string(i));
    analysis::infer_types(module);
    return compile(module, options);
  }

  static std::vector<float> floats(const Datum& datum) {
    auto data = datum.tensor().data<float>();
    return {data.begin(), data.end()};
  }
  static Datum vector(std::vector<float> values) { return Tensor::vector<float>(values); }
  static Datum integer(int64_t value) { return Tensor::scalar<int64_t>(value); }

  // Runs twice, since the second run meets what the first one left, and compares with the interpreter.
  std::vector<Datum> run(runtime::Executable& executable, std::vector<Datum> inputs) {
    std::vector<Datum> expected = analysis::interpret(module, inputs);
    std::vector<Datum> first = executable.run(inputs), outputs = executable.run(inputs);
    EXPECT_EQ(expected.size(), outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].is_tensor()) continue;
      EXPECT_TRUE(Tensor::identical(outputs[i].tensor(), first[i].tensor())) << "output " << i << " of the second run";
      EXPECT_TRUE(Tensor::identical(outputs[i].tensor(), expected[i].tensor())) << "output " << i;
    }
    return outputs;
  }

  std::unique_ptr<ir::Context> context = ops::make_context();
  ir::Module module{*context};
  Graph* main = module.make_graph("main");
};

}  // namespace anfora::plan

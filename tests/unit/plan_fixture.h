// Small modules by hand, typed, compiled and run; every result is compared with the interpreter's.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "analysis/evaluate.h"
#include "analysis/infer.h"
#include "ops/registry.h"
#include "plan/compile.h"
#include "runtime/artifact.h"
#include "support/element_types.h"
#include "support/temporary_files.h"

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
    kernels_ = options.kernels;
    prepared_ = options.prepared;
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
    expect_same_from_file(executable, inputs, outputs);
    return outputs;
  }

  // Saved and loaded, it gives the same.
  void expect_same_from_file(const runtime::Executable& executable, const std::vector<Datum>& inputs,
                             const std::vector<Datum>& expected) const {
    const TemporaryFile file(temporary_name(std::filesystem::temp_directory_path() / "program.anf"));
    const std::filesystem::path& path = file.path();
    runtime::save_artifact(executable, path);
    const runtime::Executable loaded =
        runtime::load_artifact(path, {.check_elements = true, .kernels = kernels_, .prepared = prepared_});
    const std::vector<Datum> outputs = loaded.run(inputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].is_tensor()) continue;
      EXPECT_TRUE(Tensor::identical(outputs[i].tensor(), expected[i].tensor())) << "output " << i << " of a loaded program";
    }
  }

  std::unique_ptr<ir::Context> context = ops::make_context();
  ir::Module module{*context};
  Graph* main = module.make_graph("main");

 private:
  const kernels::KernelRegistry* kernels_ = nullptr;
  std::vector<const kernels::PreparedRegistry*> prepared_;
};

}  // namespace anfora::plan

// Builds modules in code as briefly as the text form does: for tests, and for tools that make models.
//
//     auto context = ops::make_context();
//     Module module(*context);
//     Builder main(module, "main");
//     Node* x = main.parameter("f32[N, 4]", "x");
//     Node* y = main("Relu", {main("MatMul", {x, main.tensor<float>({4, 2}, {1, 0, 0, 1, 1, 0, 0, 1})})});
//     Node* z = main("Softmax", {y}, {{"axis", 1}});
//     main.returns(z);                                      // the result; main.returns({y, z}) for several
//
// A function nested in another one is a Builder of its own, and uses the nodes of the outer one as free variables:
//
//     Builder positive = main.function("positive"), negative = main.function("negative");
//     positive.returns(positive("Sqrt", {x}));
//     negative.returns(negative("Neg", {x}));
//     Node* r = main.call(main.choose(condition, positive, negative));
//
// The module is not typed by this (analysis::infer_types does it) and not verified (ir::verify).
#pragma once

#include <initializer_list>
#include <string_view>

#include "ir/module.h"

namespace anfora::ir {

// An attribute as it is written in code: 1 and {1, 2} need no cast to 64 bits.
struct NamedAttribute {
  NamedAttribute(std::string_view name, AttributeValue value) : entry(name, std::move(value)) {}
  NamedAttribute(std::string_view name, int value) : entry(name, int64_t{value}) {}
  NamedAttribute(std::string_view name, int64_t value) : entry(name, value) {}
  NamedAttribute(std::string_view name, float value) : entry(name, value) {}
  NamedAttribute(std::string_view name, const char* value) : entry(name, std::string(value)) {}
  NamedAttribute(std::string_view name, std::initializer_list<int64_t> value)
      : entry(name, std::vector<int64_t>(value)) {}
  AttributeSet::Entry entry;
};

// An operator as a value: a function of its required operands, at the top level, that applies it. Throws InvalidModel when
// how many operands it takes is open.
Graph* make_operator_function(Module& module, const Operator& op, const AttributeSet& attributes = {});

class Builder {
 public:
  // A new function at the top level; the first one of a module becomes its main.
  Builder(Module& module, std::string_view name);
  // Goes on in a function that is there.
  explicit Builder(Graph& graph) : graph_(&graph) {}

  Module& module() const { return graph_->module(); }
  Context& context() const { return module().context(); }
  Graph* graph() const { return graph_; }
  Node* value() const { return graph_->value(); }  // the function, to pass on

  // A type as the text form has it: "f32[N, 4]", "seq(i64[])".
  Parameter* parameter(std::string_view type, std::string_view name = {});
  Builder function(std::string_view name);  // nested in this one

  template <class T>
  Value* scalar(T value) {
    return module().scalar(value);
  }
  template <class T>
  Value* vector(std::initializer_list<T> values) {
    return module().constant(Tensor::vector<T>(std::span<const T>(values.begin(), values.size())));
  }
  template <class T>
  Value* tensor(std::initializer_list<int64_t> shape, std::initializer_list<T> values) {
    return module().constant(Tensor::from<T>(std::span<const int64_t>(shape.begin(), shape.size()),
                                             std::span<const T>(values.begin(), values.size())));
  }
  Value* none() { return module().none(); }

  // An application of a declared operator, by its qualified name. Throws NotFound.
  Apply* operator()(std::string_view op, std::initializer_list<Node*> inputs,
                    std::initializer_list<NamedAttribute> attributes = {}, size_t num_outputs = 1);
  Apply* call(const Builder& function, std::initializer_list<Node*> arguments = {}) {
    return call(function.value(), arguments);
  }
  Apply* call(Node* function, std::initializer_list<Node*> arguments = {});
  Apply* choose(Node* condition, const Builder& if_true, const Builder& if_false);
  Apply* tuple(std::initializer_list<Node*> items);
  Node* item(Node* tuple, size_t index) { return module().tuple_item(graph_, tuple, index); }
  // Names a node, and returns it.
  template <class N>
  N* named(std::string_view name, N* node) {
    module().set_name(node, name);
    return node;
  }

  void returns(Node* result) { module().set_result(graph_, result); }
  void returns(std::initializer_list<Node*> results) { returns(tuple(results)); }

 private:
  Graph* graph_;
};

}  // namespace anfora::ir

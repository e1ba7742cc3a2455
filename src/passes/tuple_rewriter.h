// What passes share that put the results of one application in the place of several values at once, which no rule does (parallel.cc,
// split.cc).
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "passes/pass.h"

namespace anfora::passes {

class TupleRewriter {
 public:
  explicit TupleRewriter(PassContext& context)
      : context_(context), module_(context.module), inference_(context.inference) {}

 protected:
  // An application in the graph and at the location of `old`, typed.
  ir::Apply* apply(const ir::Apply& old, std::string_view op, std::span<ir::Node* const> inputs,
                   const AttributeSet& attributes = {}, size_t num_outputs = 1) {
    ir::Apply* made =
        module_.apply(old.graph(), module_.context().get_operator(op), inputs, attributes, num_outputs, old.location());
    inference_.infer(*made);
    return made;
  }
  ir::Apply* apply(const ir::Apply& old, std::string_view op, std::initializer_list<ir::Node*> inputs,
                   const AttributeSet& attributes = {}, size_t num_outputs = 1) {
    return apply(old, op, std::span<ir::Node* const>(inputs.begin(), inputs.size()), attributes, num_outputs);
  }
  ir::Node* integers(std::span<const int64_t> values) { return module_.constant(Tensor::vector<int64_t>(values)); }

  void replace(ir::Apply& old, ir::Node* by) {
    module_.replace(&old, by);
    module_.erase_with_dead_operands(&old);
  }
  // By one result of several.
  void replace(ir::Apply& old, ir::Apply& several, size_t i) { replace(old, item(several, i)); }
  ir::Node* item(ir::Apply& several, size_t i) {
    ir::Node* item = module_.tuple_item(several.graph(), &several, i);
    inference_.infer(*item->as_apply());
    return item;
  }

  // All values that applications may have as operands, but constants, before anything is changed: parameters and results.
  template <class Visit>
  void for_each_value(Visit&& visit) {
    std::vector<ir::Node*> values;
    for (ir::Graph* graph : module_.graphs()) {
      values.assign(graph->parameters().begin(), graph->parameters().end());
      for (ir::Apply* node = graph->first_node(); node; node = node->next_in_graph()) values.push_back(node);
      for (ir::Node* value : values) visit(*value, *graph);
    }
  }

  PassContext& context_;
  ir::Module& module_;
  analysis::Inference& inference_;
};

}  // namespace anfora::passes

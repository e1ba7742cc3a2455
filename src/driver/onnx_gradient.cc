// ONNX's Gradient, as the importer leaves it: the application of an operator to values, to the variables xs and zs of main, and to y, which is
// computed from those.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "analysis/infer.h"
#include "anfora/error.h"
#include "driver/gradient.h"
#include "ir/clone.h"
#include "ir/order.h"
#include "ir/queries.h"
#include "pipeline/pipeline.h"

namespace anfora::driver {

using namespace ir;

namespace {

std::vector<Node*> main_results(Module& module) {
  Graph& main = *module.main();
  if (!main.result()->type()->is_tuple()) return {main.result()};
  std::vector<Node*> results;
  for (size_t i = 0; i < main.result()->type()->elements().size(); ++i) {
    results.push_back(module.tuple_item(&main, main.result(), i));
    results.back()->set_type(main.result()->type()->element(i));
  }
  return results;
}

void set_main_results(Module& module, std::span<Node* const> results, bool as_tuple) {
  std::vector<const Type*> types;
  for (const Node* result : results) types.push_back(result->type());
  if (!as_tuple) return module.set_result(module.main(), results[0]);
  Apply* tuple = module.make_tuple(module.main(), results);
  tuple->set_type(module.context().tuple_type(types));
  module.set_result(module.main(), tuple);
}

// The function is computed once more of parameters in the place of its variables, and main differentiated by them; then they become the values.
void lower_gradient(Module& module, Apply& gradient) {
  Graph& main = *module.main();
  const size_t count = (gradient.num_inputs() - 1) / 2, num_by = static_cast<size_t>(gradient.attributes().get_int("count", 0));
  const bool is_tuple = main.result()->type()->is_tuple();
  const std::vector<Node*> results = main_results(module);
  Cloner cloner(module);
  for (Parameter* p : main.parameters()) cloner.bind(p, p);
  std::vector<size_t> by;
  for (size_t i = 0; i < count; ++i) {
    Parameter* variable = module.add_parameter(&main, gradient.input(i)->type());
    cloner.bind(gradient.input(count + i), variable);
    if (i < num_by) by.push_back(variable->index());
  }
  module.set_result(&main, gradient.input(2 * count));
  std::vector<Node*> with_function = results;
  with_function.push_back(cloner.splice(main, &main));
  set_main_results(module, with_function, true);
  for (std::string_view pass : {"expand", "decompose"}) pipeline::run_pass(pass, module);
  pipeline::run_pass("differentiate", module, {.gradient = {.of = results.size(), .by = by}});
  std::vector<Node*> all = main_results(module);
  const auto made = std::span(all).subspan(results.size() + 1);
  if (gradient.num_outputs() == 1) {
    module.replace(&gradient, made[0]);
  } else {
    std::vector<Apply*> items;
    for (const Use& use : gradient.uses()) items.push_back(use.user);
    for (Apply* item : items) {
      if (item->primitive() == Primitive::TupleGetItem) module.replace(item, made[static_cast<size_t>(item->attributes().require_int("index"))]);
    }
  }
  all = main_results(module);
  set_main_results(module, std::span(all).first(results.size()), is_tuple);
  for (size_t i = count; i-- > 0;) {
    Parameter* variable = main.parameters().back();
    module.replace(variable, gradient.input(i));
    module.remove_parameter(variable);
  }
  analysis::infer_types(module);
}

bool has_gradients(const Module& module) {
  for (const Graph* graph : module.graphs()) {
    for (const Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
      if (node->is("Gradient")) return true;
    }
  }
  return false;
}

}  // namespace

void lower_gradients(Module& module) {
  if (!has_gradients(module)) return;
  const auto names = module.output_names();
  const auto types = module.metadata().output_types;
  bool is_changed = false;
  for (bool again = true; std::exchange(again, false);) {
    const ModuleOrder order = topological_order(module);
    for (const GraphOrder& graph : order.graphs) {
      auto found = std::ranges::find_if(graph.nodes, [](const Apply* node) { return node->is("Gradient"); });
      if (found == graph.nodes.end()) continue;
      if (graph.graph != module.main()) {
        throw Error(ErrorCode::Unsupported, "a Gradient in a function, a branch or a loop is not supported").at_node(describe(**found));
      }
      if (!is_changed) {  // which results that are not the model's have no part in
        module.output_names().clear();
        module.metadata().output_types.clear();
      }
      is_changed = again = true;
      lower_gradient(module, **found);
      break;
    }
  }
  if (!is_changed) return;
  module.output_names() = names;
  module.metadata().output_types = types;
}

}  // namespace anfora::driver

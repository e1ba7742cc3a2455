#include "driver/gradient.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analysis/infer.h"
#include "anfora/error.h"
#include "driver/name_patterns.h"
#include "ir/clone.h"
#include "ir/order.h"
#include "ir/queries.h"
#include "pipeline/pipeline.h"

namespace anfora::driver {

using namespace ir;

namespace {

bool has_derivative(const Type* type) {
  if (!type || !type->is_tensor()) return false;
  const DType dtype = type->dtype();
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16;
}

size_t result_named(const Module& module, const std::string& name) {
  const std::vector<std::string>& names = module.output_names();
  const Type* type = module.main()->result()->type();
  const size_t count = type && type->is_tuple() ? type->elements().size() : 1;
  if (name.empty() && count == 1) return 0;
  if (name.empty()) {
    throw Error(ErrorCode::InvalidArgument, fmt::format("the model has {} outputs", count)).with_hint("say which one to differentiate");
  }
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) throw Error(ErrorCode::NotFound, fmt::format("there is no output '{}'", name));
  return static_cast<size_t>(found - names.begin());
}

std::vector<size_t> parameters_named(const Module& module, const std::vector<std::string>& by) {
  NamePatterns patterns(by);
  std::vector<size_t> found;
  for (const Parameter* p : module.main()->parameters()) {
    if (by.empty() ? has_derivative(p->type()) : patterns.matches(p->name())) found.push_back(p->index());
  }
  patterns.require_use("input or weight");
  return found;
}

std::vector<Node*> results_of(Module& module) {
  Graph& main = *module.main();
  if (!main.result()->type()->is_tuple()) return {main.result()};
  std::vector<Node*> results;
  for (size_t i = 0; i < main.result()->type()->elements().size(); ++i) {
    results.push_back(module.tuple_item(&main, main.result(), i));
    results.back()->set_type(main.result()->type()->element(i));
  }
  return results;
}

void set_results(Module& module, std::span<Node* const> results, bool as_tuple) {
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
  const std::vector<Node*> results = results_of(module);
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
  set_results(module, with_function, true);
  for (std::string_view pass : {"expand", "decompose"}) pipeline::run_pass(pass, module);
  pipeline::run_pass("differentiate", module, {.gradient = {.of = results.size(), .by = by}});
  std::vector<Node*> all = results_of(module);
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
  all = results_of(module);
  set_results(module, std::span(all).first(results.size()), is_tuple);
  for (size_t i = count; i-- > 0;) {
    Parameter* variable = main.parameters().back();
    module.replace(variable, gradient.input(i));
    module.remove_parameter(variable);
  }
  analysis::infer_types(module);
}

}  // namespace

void lower_gradients(Module& module) {
  const auto names = module.output_names();
  const auto types = module.metadata().output_types;
  bool is_changed = false;
  for (bool again = true; std::exchange(again, false);) {
    const ModuleOrder order = topological_order(module);
    for (const GraphOrder& graph : order.graphs) {
      auto found = std::ranges::find_if(graph.nodes, [](const Apply* node) { return node->is("Gradient"); });
      if (found == graph.nodes.end()) continue;
      if (graph.graph != module.main()) {
        throw Error(ErrorCode::Unsupported, "a Gradient in a function, a branch or a loop").at_node(describe(**found));
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

void differentiate(Module& module, const GradientOptions& options) {
  differentiate(module, result_named(module, options.of), parameters_named(module, options.by));
}

void differentiate(Module& module, size_t of, std::vector<size_t> by) {
  for (size_t i : by) {
    const Parameter* p = module.main()->parameter(i);
    if (has_derivative(p->type())) continue;
    throw Error(ErrorCode::InvalidArgument, fmt::format("'{}' is {}, and there are derivatives by floats only", p->name(), to_string(p->type())));
  }
  pipeline::OptimizeOptions how{.pipeline = &pipeline::kGradient};
  how.passes.gradient = {.of = of, .by = std::move(by)};
  pipeline::optimize(module, how);
}

void keep_results(Module& module, std::span<const size_t> kept) {
  Graph& main = *module.main();
  const Type* type = main.result()->type();
  const bool is_tuple = type && type->is_tuple();
  std::vector<Node*> results;
  std::vector<std::string> names;
  std::vector<const Type*> types;
  for (size_t i : kept) {
    results.push_back(is_tuple ? module.tuple_item(&main, main.result(), i) : main.result());
    if (is_tuple) results.back()->set_type(type->element(i));
    if (!module.output_names().empty()) names.push_back(module.output_names()[i]);
    types.push_back(results.back()->type());
  }
  module.output_names() = std::move(names);
  module.metadata().output_types.clear();
  Apply* tuple = module.make_tuple(&main, results);
  tuple->set_type(module.context().tuple_type(types));
  module.set_result(&main, results.size() == 1 ? results[0] : tuple);
}

}  // namespace anfora::driver

#include "driver/gradient.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "analysis/infer.h"
#include "anfora/error.h"
#include "driver/name_patterns.h"
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

}  // namespace

void differentiate(Module& module, const GradientOptions& options) {
  differentiate(module, result_named(module, options.of), parameters_named(module, options.by), options.checkpoints);
}

void differentiate(Module& module, size_t of, std::vector<size_t> by, int64_t checkpoints) {
  for (size_t i : by) {
    const Parameter* p = module.main()->parameter(i);
    if (has_derivative(p->type())) continue;
    throw Error(ErrorCode::InvalidArgument, fmt::format("'{}' is {}, and there are derivatives by floats only", p->name(), to_string(p->type())));
  }
  pipeline::OptimizeOptions how{.pipeline = &pipeline::kGradient};
  how.passes.gradient = {.of = of, .by = std::move(by), .checkpoints = checkpoints};
  pipeline::optimize(module, how);
}

static int64_t num_gradients(const Module& module) {
  int64_t count = 0;
  for (const Graph* graph : module.graphs()) {
    for (const Apply* node = graph->first_node(); node; node = node->next_in_graph()) count += node->is("Gradient");
  }
  return count;
}

// The innermost first: what is made of them is simplified before it is differentiated.
void lower_gradients(Module& module) {
  pipeline::OptimizeOptions how{.pipeline = &pipeline::kGradient};
  how.passes.gradient.of = std::nullopt;
  for (int64_t left = num_gradients(module), before = INT64_MAX; left > 0 && left < before;) {
    pipeline::optimize(module, how);
    before = std::exchange(left, num_gradients(module));
  }
}

namespace {

std::vector<Node*> results_of(Module& module) {
  Graph& main = *module.main();
  const Type* type = main.result()->type();
  if (!type || !type->is_tuple()) return {main.result()};
  std::vector<Node*> results;
  for (size_t i = 0; i < type->elements().size(); ++i) {
    results.push_back(module.tuple_item(&main, main.result(), i));
    results.back()->set_type(type->element(i));
  }
  return results;
}

void set_results(Module& module, std::span<Node* const> results) {
  std::vector<const Type*> types;
  for (const Node* result : results) types.push_back(result->type());
  Apply* tuple = module.make_tuple(module.main(), results);
  tuple->set_type(module.context().tuple_type(types));
  module.set_result(module.main(), results.size() == 1 ? results[0] : tuple);
  module.metadata().output_types.clear();
}

Apply* applied(Module& module, std::string_view op, std::initializer_list<Node*> inputs, const AttributeSet& attributes = {}) {
  Apply* node = module.apply(module.main(), module.context().get_operator(op), inputs, attributes);
  analysis::Inference(module).infer(*node);
  return node;
}

}  // namespace

void make_scalar(Module& module, size_t of) {
  std::vector<Node*> results = results_of(module);
  results[of] = applied(module, "Reshape", {results[of], module.constant(Tensor::zeros(DType::I64, Shape{0}))});
  set_results(module, results);
}

void add_weighted_sum(Module& module, std::span<const size_t> of) {
  std::vector<Node*> results = results_of(module);
  Node* sum = nullptr;
  for (size_t i : of) {
    Node* weight = module.add_parameter(module.main(), results[i]->type(), fmt::format("weight.{}", module.main()->parameters().size()));
    Node* product = applied(module, "ReduceSum", {applied(module, "Mul", {results[i], weight})}, {{"keepdims", 0}});
    sum = sum ? applied(module, "Add", {sum, product}) : product;
  }
  results.push_back(sum);
  if (!module.output_names().empty()) module.output_names().push_back(fmt::format("weighted.{}", results.size()));
  set_results(module, results);
}

void set_to_zero(Module& module, size_t first, std::span<const size_t> like) {
  const std::vector<Node*> results = results_of(module);
  for (size_t k = like.size(); k-- > 0;) {
    Parameter* p = module.main()->parameter(first + k);
    Node* zero = module.constant(Tensor::zeros(results[like[k]]->type()->dtype(), Shape{}));
    module.replace(p, applied(module, "Expand", {zero, applied(module, "Shape", {results[like[k]]})}));
    module.remove_parameter(p);
  }
}

void keep_results(Module& module, std::span<const size_t> kept) {
  const std::vector<Node*> all = results_of(module);
  std::vector<Node*> results;
  std::vector<std::string> names;
  for (size_t i : kept) {
    results.push_back(all[i]);
    if (!module.output_names().empty()) names.push_back(module.output_names()[i]);
  }
  module.output_names() = std::move(names);
  set_results(module, results);
}

}  // namespace anfora::driver

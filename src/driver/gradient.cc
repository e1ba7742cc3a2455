#include "driver/gradient.h"

#include <fmt/format.h>

#include <algorithm>

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

#include "plan/program_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>
#include <functional>

#include "analysis/evaluate.h"
#include "analysis/group_space.h"
#include "analysis/schedule.h"
#include "anfora/error.h"
#include "kernels/onednn/onednn_kernels.h"
#include "kernels/registered.h"
#include "ops/registry.h"
#include "plan/group.h"
#include "support/deferred_elements.h"
#include "support/parallel.h"
#include "support/release_elements.h"

namespace anfora::plan {

using kernels::InputDescription;
using runtime::Operand;

namespace {

InputDescription describe_input(const ir::Node& node) {
  InputDescription description;
  const ir::Value* value = node.as_value();
  if (value && value->is_none()) return description;
  description.present = true;
  if (const Tensor* tensor = constant_tensor(&node)) {
    description.dtype = tensor->dtype();
    description.shape = tensor->shape();
    description.constant = *tensor;
    return description;
  }
  const ir::Type* type = node.type();
  if (!type || !type->is_tensor()) return description;
  description.dtype = type->dtype();
  if (type->has_rank()) {
    description.shape.emplace();
    for (ir::Dim dim : type->dims()) description.shape->push_back(dim.as_constant().value_or(-1));
  }
  return description;
}

constexpr size_t kLargeWeight = size_t{1} << 20;

// What is concatenated along its last axis.
boost::unordered_flat_set<const ir::Node*> concatenated_nodes(const ir::ModuleOrder& order) {
  boost::unordered_flat_set<const ir::Node*> nodes;
  for (const ir::GraphOrder& graph : order.graphs) {
    for (const ir::Apply* node : graph.nodes) {
      const ir::Type* type = node->type();
      if (node->primitive() != ir::Primitive::Operation || node->op().qualified != "Concat" || !type || !type->is_tensor() || !type->has_rank()) continue;
      const int64_t axis = node->attributes().get_int("axis", 0), last = std::ssize(type->dims()) - 1;
      if (last < 1 || (axis != last && axis != -1)) continue;
      for (const ir::Use& use : node->operands()) nodes.insert(use.node);
    }
  }
  return nodes;
}

kernels::KernelData describe_kernel(const ir::Apply& node) {
  kernels::KernelData data{.op = std::string(node.op().qualified), .attributes = node.attributes(), .num_outputs = node.num_outputs()};
  for (const ir::Use& use : node.operands()) data.inputs.push_back(describe_input(*use.node));
  return data;
}

}  // namespace

std::vector<const kernels::PreparedRegistry*> registries(const CompileOptions& options) {
  std::vector<const kernels::PreparedRegistry*> all = options.prepared;
  std::ranges::copy(kernels::prepared_kernels(), std::back_inserter(all));
  return all;
}

std::vector<kernels::KernelData> describe_kernels(const ir::Module& module) {
  std::vector<kernels::KernelData> kernels;
  const ir::ModuleOrder order = ir::topological_order(module);
  for (const ir::GraphOrder& graph : order.graphs) {
    for (const ir::Apply* node : graph.nodes) {
      if (node->primitive() == ir::Primitive::Operation && ir::is_reached(node->type())) kernels.push_back(describe_kernel(*node));
    }
  }
  return kernels;
}

ProgramBuilder::ProgramBuilder(const ir::Module& module, ir::Module* used_up, const CompileOptions& options)
    : program(std::make_unique<runtime::Program>()),
      used_up_(used_up),
      options_(options),
      order_(ir::topological_order(module)),
      concatenated_(concatenated_nodes(order_)),
      free_variables_(order_) {
  with_threads(options_.threads, [&] { look_ahead(); });
  add_groups();
  for (const ir::GraphOrder& graph : order_.graphs) {
    function_index_.emplace(graph.graph, static_cast<uint32_t>(function_index_.size()));
  }
  for (ir::GraphOrder& graph : order_.graphs) graph.nodes = analysis::schedule(graph, free_variables_);
  if (used_up_) used_up_->erase_unused_constants();
}

// Null where it is a call.
std::unique_ptr<runtime::Kernel> ProgramBuilder::make_group_kernel(const ir::Apply& node, const ir::Graph& function) const {
  std::optional<AttributeSet> attributes = group_attributes(function);
  if (!attributes || !is_reached(node.type())) return nullptr;
  auto kernel = std::make_unique<runtime::Kernel>();
  kernel->op = node.op().qualified;
  kernel->num_outputs = node.num_outputs();
  kernel->attributes = std::move(*attributes);
  kernel->flops_per_element = flops_per_element(function);
  return kernel;
}

// Generates the kernels of groups, several at a time. Functions that are only computed by them are no part of the program.
void ProgramBuilder::add_groups() {
  if (options_.reference_only) return;
  struct Group {
    const ir::Apply* node;
    const ir::Graph* function;
    std::unique_ptr<runtime::Kernel> kernel;  // null: there is none
  };
  std::vector<Group> groups;
  for (const ir::GraphOrder& graph : order_.graphs) {
    for (const ir::Apply* node : graph.nodes) {
      if (const ir::Graph* function = analysis::function_of_group(*node)) groups.push_back({node, function, make_group_kernel(*node, *function)});
    }
  }
  with_threads(options_.threads, [&] {
    parallel_for(std::ssize(groups), 1, [&](int64_t begin, int64_t end) {
      for (Group& group : std::span(groups).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))) {
        if (group.kernel && !prepare(*group.node, 1, *group.kernel)) group.kernel = nullptr;
      }
    });
  });
  boost::unordered_flat_set<const ir::Graph*> generated, called;
  for (Group& group : groups) {
    (group.kernel ? generated : called).insert(group.function);
    if (!group.kernel) continue;
    program->kernels.push_back(std::move(group.kernel));
    groups_[group.node] = static_cast<uint32_t>(program->kernels.size() - 1);
  }
  std::erase_if(order_.graphs, [&](const ir::GraphOrder& graph) {
    return generated.contains(graph.graph) && !called.contains(graph.graph);
  });
}

std::optional<uint32_t> ProgramBuilder::group_kernel(const ir::Apply& node) const {
  auto found = groups_.find(&node);
  return found == groups_.end() ? std::nullopt : std::optional(found->second);
}

// The constants that this kernel has copies of, and that nobody else reads.
void ProgramBuilder::release_packed(const ir::Apply& node, runtime::Kernel& kernel) {
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    ir::Value* value = node.input(i)->as_value();
    if (!value || !value->is_tensor() || !kernel.prepared->has_packed(i)) continue;
    release_elements(kernel.inputs[i].constant);
    if (++packed_uses_[value] < static_cast<size_t>(std::ranges::distance(value->uses()))) continue;
    release_elements(const_cast<Tensor&>(value->tensor()));  // the module is used up
    auto operand = constants_.find(value);
    if (operand == constants_.end()) continue;
    program->constant_bytes -= value->tensor().bytes();
    program->constants[static_cast<size_t>(-1 - operand->second)] = value->tensor();
  }
}

void ProgramBuilder::settle_constants() {
  for (Datum& constant : program->constants) {
    if (constant.is_tensor()) DeferredElements::settle(constant.tensor());
  }
  for (const auto& kernel : program->kernels) {
    for (kernels::InputDescription& input : kernel->inputs) DeferredElements::settle(input.constant);
  }
}

uint32_t ProgramBuilder::function_index(const ir::Graph* graph) const { return function_index_.at(graph); }

Operand ProgramBuilder::constant(const ir::Value& value) {
  auto [place, is_new] = constants_.try_emplace(&value, 0);
  if (is_new) {
    place->second = runtime::constant_operand(program->constants.size());
    program->constants.push_back(analysis::datum_of(value));
    if (value.is_tensor() && DeferredElements::identity(value.tensor())) program->constant_bytes += value.tensor().bytes();
  }
  return place->second;
}

Operand ProgramBuilder::constant_closure(const ir::Graph* graph) {
  auto [place, is_new] = constants_.try_emplace(graph->value(), 0);
  if (is_new) {
    place->second = runtime::constant_operand(program->constants.size());
    auto closure = std::make_shared<runtime::Closure>();
    closure->function = function_index(graph);
    program->constants.push_back(Datum::function(std::move(closure)));
  }
  return place->second;
}

size_t ProgramBuilder::packable_bytes() const {
  boost::unordered_flat_set<const ir::Node*> counted;
  size_t bytes = 0;
  for (const ir::GraphOrder& graph : order_.graphs) {
    for (const ir::Apply* node : graph.nodes) {
      for (size_t i = 1; node->primitive() == ir::Primitive::Operation && i < node->num_inputs(); ++i) {
        const Tensor* tensor = constant_tensor(node->input(i));
        if (tensor && counted.insert(node->input(i)).second) bytes += tensor->bytes();
      }
    }
  }
  return bytes;
}

void ProgramBuilder::add_large_kernels() {
  std::vector<std::pair<size_t, const ir::Apply*>> large;
  for (const ir::GraphOrder& graph : order_.graphs) {
    for (const ir::Apply* node : graph.nodes) {
      if (node->primitive() != ir::Primitive::Operation) continue;
      size_t bytes = 0;
      for (const ir::Use& use : node->operands()) {
        if (const Tensor* tensor = constant_tensor(use.node)) bytes = std::max(bytes, tensor->bytes());
      }
      if (bytes >= kLargeWeight) large.emplace_back(bytes, node);
    }
  }
  std::ranges::stable_sort(large, std::greater(), &std::pair<size_t, const ir::Apply*>::first);
  for (auto [bytes, node] : large) add_kernel(*node);
}

std::unique_ptr<runtime::Kernel> ProgramBuilder::make_kernel(const ir::Apply& node) const {
  auto kernel = std::make_unique<runtime::Kernel>();
  kernel->op = node.op().qualified;
  kernel->attributes = node.attributes();
  kernel->num_outputs = node.num_outputs();
  auto is_concatenated = [&](const ir::Node* of) { return concatenated_.contains(of); };
  kernel->may_have_rows_apart = is_concatenated(&node) || std::ranges::any_of(node.operands(), is_concatenated, [](const ir::Use& use) { return use.node; });
  return kernel;
}

// Lets what kernels will ask for be made at once (CompileOptions::look_ahead).
void ProgramBuilder::look_ahead() const {
  if (!options_.look_ahead || options_.reference_only) return;
  std::vector<std::function<void()>> preparations;
  for (const ir::GraphOrder& graph : order_.graphs) {
    for (const ir::Apply* node : graph.nodes) {
      if (node->primitive() != ir::Primitive::Operation || !is_reached(node->type()) || kernels::is_registered(node->op().qualified)) continue;
      preparations.emplace_back([this, node] {
        const ir::Graph* function = analysis::function_of_group(*node);
        const std::unique_ptr<runtime::Kernel> kernel = function ? make_group_kernel(*node, *function) : make_kernel(*node);
        if (!kernel) return;
        for (const ir::Use& use : node->operands().subspan(function ? 1 : 0)) kernel->inputs.push_back(describe_input(*use.node));
        prepare(options_.prepared, *kernel);
      });
    }
  }
  options_.look_ahead(preparations);
}

uint32_t ProgramBuilder::add_kernel(const ir::Apply& node) {
  if (auto known = kernels_.find(&node); known != kernels_.end()) return known->second;
  std::unique_ptr<runtime::Kernel> kernel = make_kernel(node);
  program->draws = program->draws || node.op().effect == ir::Effect::Random;
  kernel->copies = &copies_;
  try {
    choose_kernel(node, *kernel);
  } catch (Error& error) {
    error.at_node(describe(node));
    if (node.location()) error.at_location(to_string(*node.location()));
    throw;
  }
  kernel->copies = nullptr;
  copies_.add(*kernel);
  if (used_up_ && kernel->prepared) release_packed(node, *kernel);
  program->kernels.push_back(std::move(kernel));
  return kernels_[&node] = static_cast<uint32_t>(program->kernels.size() - 1);
}

uint32_t ProgramBuilder::add_failure(std::string_view reason) {
  program->failures.emplace_back(reason);
  return static_cast<uint32_t>(program->failures.size() - 1);
}

// False where no implementation applies.
bool ProgramBuilder::prepare(const ir::Apply& node, size_t first_operand, runtime::Kernel& kernel) const {
  for (const ir::Use& use : node.operands().subspan(first_operand)) kernel.inputs.push_back(describe_input(*use.node));
  if (kernels::is_registered(kernel.op)) {
    for (const ir::AttributeDeclaration& attribute : node.op().attributes) {
      if (attribute.otherwise && !kernel.attributes.has(attribute.name))
        kernel.attributes = kernel.attributes.with(attribute.name, *attribute.otherwise);
    }
    kernel.signature = node.op().signature;
    kernel.prepared = kernels::prepare_registered(kernel);
    if (kernel.prepared) return true;
  }
  if (prepare(registries(options_), kernel)) return true;
  kernel.inputs.clear();  // a reference kernel looks at its operands
  return false;
}

// By the implementation that was chosen, where one applies, or the first that does.
bool ProgramBuilder::prepare(std::span<const kernels::PreparedRegistry* const> registries, runtime::Kernel& kernel) const {
  const std::vector<std::string> chosen = options_.choice ? options_.choice(kernel) : std::vector<std::string>();
  for (const std::string& name : chosen) {
    for (const kernels::PreparedRegistry* registry : registries) {
      kernel.prepared = registry->prepare_as(kernel, name);
      if (kernel.prepared) return true;
    }
  }
  for (const kernels::PreparedRegistry* registry : registries) {
    kernel.prepared = registry->prepare(kernel);
    if (kernel.prepared) return true;
  }
  return false;
}

void ProgramBuilder::choose_kernel(const ir::Apply& node, runtime::Kernel& kernel) const {
  // What no run computes, such as the branch that a known condition never takes, may be wrong in itself.
  if (!options_.reference_only && is_reached(node.type()) && prepare(node, 0, kernel)) return;
  kernel.reference_name = node.op().kernel;
  if (options_.kernels) kernel.reference = options_.kernels->find(kernel.reference_name);
  if (!kernel.reference) kernel.reference = ops::reference_kernel(node.op());
  kernel.implementation = kernel.reference ? "reference" : "none";
}

}  // namespace anfora::plan

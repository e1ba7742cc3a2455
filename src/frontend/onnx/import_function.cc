// Local functions: each becomes a top-level graph, each node that names it a call.
//
// A function may refer to attributes of the node that calls it, and its inputs may be omitted. Neither exists
// in the IR, so a function is specialized: one graph per set of attribute values and of given inputs. Bodies
// are read after the graphs that call them, from a list, so that long chains of functions do not recurse
// here.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/message.h"
#include "frontend/onnx/wire.h"

namespace anfora::onnx {

void Function::read(std::string_view bytes) {
  using Field = wire::FunctionProto;
  for (Message m(bytes); m.next();) {
    switch (m.field()) {
      case Field::name: name = m.bytes(); break;
      case Field::domain: domain = m.bytes(); break;
      case Field::overload: overload = m.bytes(); break;
      case Field::doc_string: doc = m.bytes(); break;
      case Field::input: inputs.push_back(m.bytes()); break;
      case Field::output: outputs.push_back(m.bytes()); break;
      case Field::attribute: attributes.push_back(m.bytes()); break;
      case Field::attribute_proto: attribute_defaults.push_back(m.bytes()); break;
      case Field::node: nodes.push_back(m.bytes()); break;
      case Field::value_info: value_infos.push_back(m.bytes()); break;
      case Field::metadata_props: properties.push_back(m.bytes()); break;
      case Field::opset_import: opsets.push_back(read_opset(m.bytes())); break;
      default: m.skip();
    }
  }
  if (domain == "ai.onnx") domain = {};
}

void Importer::index_functions() {
  for (size_t i = 0; i < functions_.size(); ++i) {
    const Function& f = functions_[i];
    if (!function_index_.emplace(std::tuple(f.domain, f.name, f.overload), i).second) {
      throw Error(ErrorCode::InvalidModel,
                  fmt::format("the function '{}' is defined twice", ir::qualified_name(f.domain, f.name)));
    }
  }
}

Function* Importer::find_function(const NodeFields& fields) {
  if (functions_.empty()) return nullptr;
  auto found = function_index_.find(std::tuple(fields.domain, fields.op_type, fields.overload));
  return found == function_index_.end() ? nullptr : &functions_[found->second];
}

ir::Node* Importer::call_function(Function& function, PendingNode& node) {
  if (!node.others.empty()) {
    throw Error(ErrorCode::Unsupported,
                fmt::format("attribute '{}': a graph cannot be given to a local function", node.others[0].name));
  }
  if (node.inputs.size() > function.inputs.size()) {
    throw Error(ErrorCode::InvalidModel, fmt::format("the function takes {} inputs, but is given {}",
                                                     function.inputs.size(), node.inputs.size()));
  }
  if (node.num_outputs > function.outputs.size()) {
    throw Error(ErrorCode::InvalidModel,
                fmt::format("the function has {} outputs, not {}", function.outputs.size(), node.num_outputs));
  }
  for (std::string_view bytes : function.attribute_defaults) {
    FileAttribute attribute = read_attribute(context(), bytes, source_);
    if (!attribute.value) {
      throw Error(ErrorCode::Unsupported,
                  fmt::format("the default of the function's attribute '{}' is no plain value", attribute.name));
    }
    if (!std::ranges::count(node.attributes, attribute.name, &AttributeSet::Entry::first)) {
      node.attributes.emplace_back(attribute.name, std::move(*attribute.value));
    }
  }
  const AttributeSet* attributes = context().attributes(AttributeSet(std::move(node.attributes)));

  std::vector<bool> given(function.inputs.size());
  Nodes arguments;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    given[i] = node.has_input(i);
    if (given[i]) arguments.push_back(node.inputs[i]);
  }
  auto [at, is_new] = instance_index_.emplace(std::tuple(&function, attributes, given), instances_.size());
  if (is_new) {
    if (instances_.size() == kMostFunctionInstances) {
      throw Error(
          ErrorCode::ResourceExhausted,
          fmt::format("local functions are called with more than {} sets of attributes", kMostFunctionInstances));
    }
    std::string name = ir::qualified_name(function.domain, function.name);
    if (!function.overload.empty()) name += fmt::format(":{}", function.overload);
    if (function.num_instances > 0) name += fmt::format("#{}", function.num_instances);
    ++function.num_instances;
    ir::Graph* graph = module_.make_graph(name);
    if (ir::Annotation annotation = read_annotation(function); !annotation.empty()) {
      graph->set_annotation(std::make_shared<const ir::Annotation>(std::move(annotation)));
    }
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i]) module_.add_parameter(graph, nullptr, function.inputs[i]);
    }
    instances_.push_back({&function, graph, attributes, std::move(given), {}});
  }
  if (is_reading_functions_) instances_[current_instance_].callees.push_back(at->second);
  ir::Apply* call = module_.call(node.emitter.graph, instances_[at->second].graph->value(), span_of(arguments));
  call->set_location(node.emitter.location);
  if (node.num_outputs == 1 && function.outputs.size() > 1) return module_.tuple_item(node.emitter.graph, call, 0);
  return call;
}

void Importer::import_function_bodies() {
  is_reading_functions_ = true;
  for (current_instance_ = 0; current_instance_ < instances_.size(); ++current_instance_) {
    // By value: reading the body may add instances.
    Function* function = instances_[current_instance_].function;
    ir::Graph* graph = instances_[current_instance_].graph;
    const std::vector<bool> given = instances_[current_instance_].given;
    Opsets opsets = function->opsets.empty() ? opsets_ : function->opsets;
    Scope scope(*this, graph, nullptr, {&opsets, instances_[current_instance_].attributes},
                fmt::format("{}: function '{}'", name_, ir::qualified_name(function->domain, function->name)));
    scope.declare_values(function->value_infos);
    size_t parameter = 0;
    for (size_t i = 0; i < given.size(); ++i) {
      scope.define(function->inputs[i],
                   given[i] ? static_cast<ir::Node*>(graph->parameter(parameter++)) : module_.none());
    }
    scope.import_nodes(function->nodes);
    std::vector<ir::Node*> results;
    for (std::string_view output : function->outputs) results.push_back(scope.resolve(output));
    if (results.empty()) {
      throw Error(ErrorCode::InvalidModel, "the function has no outputs").at_location(scope.place());
    }
    set_results(graph, results);
  }
  is_reading_functions_ = false;
}

// ONNX forbids recursion; here it would be a loop without an end. A depth-first walk with a stack of its own.
void Importer::check_recursion() const {
  enum class Mark : uint8_t { New, Active, Done };
  std::vector<Mark> marks(instances_.size(), Mark::New);
  std::vector<std::pair<size_t, size_t>> stack;  // instance, next callee
  for (size_t root = 0; root < instances_.size(); ++root) {
    if (marks[root] != Mark::New) continue;
    stack.emplace_back(root, 0);
    marks[root] = Mark::Active;
    while (!stack.empty()) {
      auto& [at, next] = stack.back();
      if (next == instances_[at].callees.size()) {
        marks[at] = Mark::Done;
        stack.pop_back();
        continue;
      }
      size_t callee = instances_[at].callees[next++];
      if (marks[callee] == Mark::Active) {
        const Function& f = *instances_[callee].function;
        throw Error(ErrorCode::InvalidModel,
                    fmt::format("the function '{}' calls itself", ir::qualified_name(f.domain, f.name)));
      }
      if (marks[callee] == Mark::New) {
        marks[callee] = Mark::Active;
        stack.emplace_back(callee, 0);
      }
    }
  }
}

}  // namespace anfora::onnx

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/message.h"
#include "frontend/onnx/opset_history.h"
#include "frontend/onnx/type_proto.h"
#include "frontend/onnx/upgrade.h"
#include "frontend/onnx/wire.h"
#include "support/cancellation.h"
#include "support/element_types.h"

namespace anfora::onnx {

ir::Apply* Emitter::emit(std::string_view op, std::span<ir::Node* const> inputs, const AttributeSet& attributes,
                         size_t num_outputs) const {
  const ir::Operator* found = importer.context().operator_or_unknown("", op);
  return importer.module().apply(graph, *found, inputs, attributes, num_outputs, location);
}

ir::Apply* Emitter::emit(std::string_view op, std::initializer_list<ir::Node*> inputs, const AttributeSet& attributes,
                         size_t num_outputs) const {
  return emit(op, std::span<ir::Node* const>(inputs.begin(), inputs.size()), attributes, num_outputs);
}

ir::Node* Emitter::ints(std::span<const int64_t> values) const {
  return importer.module().constant(Tensor::vector<int64_t>(values));
}
ir::Node* Emitter::scalar(int64_t value) const { return importer.module().scalar<int64_t>(value); }
ir::Node* Emitter::boolean(bool value) const { return importer.module().scalar<bool>(value); }

bool PendingNode::has_input(size_t i) const {
  if (i >= inputs.size()) return false;
  const ir::Value* value = inputs[i]->as_value();
  return !value || !value->is_none();
}

const FileAttribute* PendingNode::find_graph(std::string_view name) const {
  auto found = std::ranges::find(others, name, &FileAttribute::name);
  return found == others.end() || !found->has_graph ? nullptr : &*found;
}

void Importer::read_attributes(PendingNode& node) {
  for (std::string_view bytes : node.fields.attributes) {
    FileAttribute attribute = read_attribute(context(), bytes, source_);
    if (!attribute.reference.empty()) {
      const AttributeSet* given = node.scope.dialect().function_attributes;
      if (!given) {
        throw Error(ErrorCode::InvalidModel, fmt::format("attribute '{}' refers to '{}' of a function, but is in none",
                                                         attribute.name, attribute.reference));
      }
      // An attribute that the caller left out and that has no default is left out here as well.
      if (const AttributeValue* value = given->find(attribute.reference)) {
        node.attributes.emplace_back(attribute.name, *value);
      }
    } else if (attribute.value) {
      node.attributes.emplace_back(attribute.name, std::move(*attribute.value));
    } else {
      node.others.push_back(std::move(attribute));
    }
  }
  std::ranges::sort(node.attributes, {}, &AttributeSet::Entry::first);
  auto twice = std::ranges::adjacent_find(node.attributes, {}, &AttributeSet::Entry::first);
  if (twice != node.attributes.end()) {
    throw Error(ErrorCode::InvalidModel, fmt::format("attribute '{}' is given twice", twice->first));
  }
}

// Every form of Constant is a value of the module.
ir::Node* Importer::import_constant(PendingNode& node) {
  if (node.attributes.size() != 1) {
    throw Error(ErrorCode::InvalidModel, fmt::format("a Constant has one value, not {}", node.attributes.size()));
  }
  Tensor tensor = to_tensor(node.attributes[0].second);
  if (!tensor.defined()) throw Error(ErrorCode::InvalidModel, "the Constant has no tensor");
  return module_.constant(std::move(tensor), node.fields.outputs.empty() ? std::string_view() : node.fields.outputs[0]);
}

// What an unknown operator's attributes hold beyond values stays bytes, for export. The names that its graphs take from
// the graphs around them become operands behind the others, so that what they refer to stays alive.
void Importer::keep_unknown_attributes(PendingNode& node) {
  for (const auto& [name, value] : node.attributes) {
    if (name.find('#') != std::string_view::npos) {
      throw Error(ErrorCode::InvalidModel, fmt::format("the attribute '{}' has a # in its name, as no identifier has", name));
    }
  }
  std::vector<std::string> captured;
  for (const FileAttribute& attribute : node.others) {
    node.attributes.emplace_back(std::string(attribute.name) + std::string(kVerbatimSuffix),
                                 std::string(attribute.bytes));
    for (std::string_view name : free_names_of_attribute(attribute.bytes, node.scope.depth())) {
      if (std::ranges::count(captured, name)) continue;
      captured.emplace_back(name);
      node.inputs.push_back(node.scope.resolve(name));
    }
  }
  if (!captured.empty()) node.attributes.emplace_back(std::string(kCaptures), std::move(captured));
}

// A misspelt attribute would silently mean its default. A file that uses an operator from outside of its operator set
// follows no specification: what the operator does not know is left out.
static void check_attributes(PendingNode& node, const ir::Operator& op, int64_t version) {
  std::erase_if(node.attributes, [&](const AttributeSet::Entry& attribute) {
    if (op.find_attribute(attribute.first)) return false;
    const OperatorHistory* history = find_history(node.fields.domain, node.fields.op_type);
    if (history && history->at(version)) {
      throw Error(ErrorCode::InvalidModel, fmt::format("the operator has no attribute '{}'", attribute.first));
    }
    return true;
  });
}

ir::Node* Importer::import_operator(PendingNode& node) {
  int64_t version = node.version;
  if (ir::Node* done = upgrade(node)) return done;
  const ir::Operator* op = nullptr;
  if (node.domain.empty()) {
    const ir::Operator*& cached = main_operators_[node.op_type];
    if (!cached) cached = context().operator_or_unknown("", node.op_type);
    op = cached;
  } else {
    op = context().operator_or_unknown(node.domain, node.op_type);
  }
  if (op->known && !node.others.empty()) {
    throw Error(ErrorCode::InvalidModel, fmt::format("the operator has no attribute '{}' of that kind", node.others[0].name));
  }
  if (op->known) {
    check_attributes(node, *op, version);
  } else {
    keep_unknown_attributes(node);
  }
  while (!node.inputs.empty() && !node.has_input(node.inputs.size() - 1)) node.inputs.pop_back();
  std::string_view name = node.fields.outputs.empty() ? std::string_view() : node.fields.outputs[0];
  ir::Apply* apply =
      module_.apply(node.emitter.graph, *op, span_of(node.inputs), AttributeSet(std::move(node.attributes)),
                    node.num_outputs, node.emitter.location, name);
  if (!op->known) {
    boost::container::small_vector<const ir::Type*, 4> types;
    for (size_t i = 0; i < node.num_outputs; ++i) {
      const ir::Type* type =
          node.fields.outputs[i].empty() ? nullptr : node.scope.declared_type(node.fields.outputs[i]);
      types.push_back(type ? type : context().unranked_type(DType::Undefined));
    }
    apply->set_type(types.size() == 1 ? types[0] : context().tuple_type({types.data(), types.size()}));
  }
  return apply;
}

void Importer::import_node(Scope& scope, const NodeFields& fields, const ir::Location* location) {
  check_cancelled();
  size_t num_outputs = fields.num_outputs();
  if (num_outputs == 0) return;  // nothing can depend on it
  if (num_outputs > std::numeric_limits<uint16_t>::max()) {
    throw Error(ErrorCode::Unsupported, fmt::format("the node has {} outputs", num_outputs));
  }
  Emitter emitter{*this, scope.graph(), location};
  PendingNode node{fields, scope, emitter, fields.op_type, fields.domain, 0, {}, {}, {}, num_outputs};
  for (std::string_view input : fields.inputs) {
    node.inputs.push_back(input.empty() ? module_.none() : scope.resolve(input));
  }
  if (!fields.attributes.empty()) read_attributes(node);

  ir::Node* result = nullptr;
  if (Function* function = find_function(fields)) {
    result = call_function(*function, node);
  } else {
    node.version = version_in(*scope.dialect().opsets, fields.domain);
    if (fields.domain.empty()) {
      if (node.version <= 0) throw Error(ErrorCode::InvalidModel, "the model does not import the domain 'ai.onnx'");
      if (node.version > kNewestOpset) {
        throw Error(ErrorCode::Unsupported,
                    fmt::format("operator set {} is newer than the newest known one, {}", node.version, kNewestOpset));
      }
      if (fields.op_type == "Constant") result = import_constant(node);
    }
    if (!result) result = import_control(node);
    if (!result) result = import_operator(node);
  }
  if (result->is_apply() && result->name().empty()) module_.set_name(result, fields.outputs[0]);
  if (num_outputs == 1) {
    scope.define(fields.outputs[0], result);
  } else {
    scope.define_items({fields.outputs.data(), num_outputs}, result);
  }
}

std::span<const std::string_view> Importer::free_names_of_attribute(std::string_view bytes, int depth) {
  // An attribute without a graph, as nearly all are, is told by a look at its fields.
  std::vector<std::string_view> graphs;
  for (Message m(bytes); m.next();) {
    if (m.field() == wire::AttributeProto::g || m.field() == wire::AttributeProto::graphs) {
      graphs.push_back(m.bytes());
    } else {
      m.skip();
    }
  }
  if (graphs.empty()) return {};
  auto found = free_names_.find(bytes.data());
  if (found != free_names_.end()) return found->second;
  if (depth >= kDeepestGraph) {
    throw Error(ErrorCode::ResourceExhausted, fmt::format("graphs are nested more than {} deep", kDeepestGraph));
  }
  std::vector<std::string_view> free;
  boost::unordered_flat_map<std::string_view, bool> seen;  // true: defined in the graph
  NodeFields node;
  for (std::string_view graph : graphs) {
    GraphFields fields;
    fields.read(graph);
    seen.clear();
    for (std::string_view bytes_of_input : fields.inputs) seen[read_value_info(bytes_of_input).name] = true;
    for (std::string_view initializer : fields.initializers) seen[read_tensor_name(initializer)] = true;
    for (std::string_view initializer : fields.sparse_initializers) seen[read_sparse_tensor_name(initializer)] = true;
    for (std::string_view n : fields.nodes) {
      node.read(n);
      for (std::string_view output : node.outputs) seen[output] = true;
    }
    auto use = [&](std::string_view name) {
      if (!name.empty() && seen.emplace(name, false).second) free.push_back(name);
    };
    for (std::string_view n : fields.nodes) {
      node.read(n);
      for (std::string_view input : node.inputs) use(input);
      for (std::string_view attribute : node.attributes) {
        for (std::string_view name : free_names_of_attribute(attribute, depth + 1)) use(name);
      }
    }
    for (std::string_view output : fields.outputs) use(read_value_info(output).name);
  }
  return free_names_[bytes.data()] = std::move(free);
}

}  // namespace anfora::onnx

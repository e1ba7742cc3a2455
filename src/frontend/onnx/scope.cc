#include <fmt/format.h>

#include <algorithm>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/message.h"
#include "frontend/onnx/type_proto.h"
#include "frontend/onnx/wire.h"
#include "support/hash.h"

namespace anfora::onnx {

void NodeFields::read(std::string_view bytes) {
  using Field = wire::NodeProto;
  name = op_type = domain = overload = doc = {};
  inputs.clear();
  outputs.clear();
  attributes.clear();
  properties.clear();
  for (Message m(bytes); m.next();) {
    switch (m.field()) {
      case Field::input: inputs.push_back(m.bytes()); break;
      case Field::output: outputs.push_back(m.bytes()); break;
      case Field::name: name = m.bytes(); break;
      case Field::op_type: op_type = m.bytes(); break;
      case Field::attribute: attributes.push_back(m.bytes()); break;
      case Field::domain: domain = m.bytes(); break;
      case Field::overload: overload = m.bytes(); break;
      case Field::doc_string: doc = m.bytes(); break;
      case Field::metadata_props: properties.push_back(m.bytes()); break;
      default: m.skip();
    }
  }
  if (domain == "ai.onnx") domain = {};
}

size_t NodeFields::num_outputs() const {
  size_t count = outputs.size();
  while (count > 0 && outputs[count - 1].empty()) --count;
  return count;
}

std::string describe(const NodeFields& node) {
  std::string kind = ir::qualified_name(node.domain, node.op_type);
  std::string_view name = node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name;
  return name.empty() ? kind : fmt::format("{} '{}'", kind, name);
}

static uint64_t hash_of(std::string_view name) { return hash_bytes(name.data(), name.size()); }

void Scope::define(Binding binding) {
  auto [at, is_new] = index_.insert(hash_of(binding.name), bindings_.size(),
                                    [&](uint32_t i) { return bindings_[i].name == binding.name; });
  if (!is_new) {
    throw Error(ErrorCode::InvalidModel, fmt::format("the value '{}' is defined twice", binding.name));
  }
  bindings_.push_back(binding);
}

void Scope::define(std::string_view name, ir::Node* node) { define(Binding{name, node}); }

void Scope::define_items(std::span<const std::string_view> names, ir::Node* tuple) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty()) define(Binding{names[i], tuple, static_cast<int32_t>(i)});
  }
}

Scope::Binding* Scope::find_own(std::string_view name, uint64_t hash) {
  uint32_t found = index_.find(hash, [&](uint32_t i) { return bindings_[i].name == name; });
  return found == HashIndex::kNone ? nullptr : &bindings_[found];
}

void Scope::redefine(std::string_view name, ir::Node* node) { *find_own(name, hash_of(name)) = Binding{name, node}; }

bool Scope::knows(std::string_view name) {
  uint64_t hash = hash_of(name);
  for (Scope* s = this; s; s = s->parent_) {
    if (s->find_own(name, hash)) return true;
  }
  return false;
}

ir::Node* Scope::find(std::string_view name) {
  uint64_t hash = hash_of(name);
  for (Scope* s = this; s; s = s->parent_) {
    Binding* binding = s->find_own(name, hash);
    if (!binding) continue;
    if (binding->item >= 0) {
      ir::Module& module = importer_.module();
      binding->node = module.tuple_item(s->graph_, binding->node, static_cast<size_t>(binding->item));
      binding->item = -1;
      if (binding->node->name().empty()) module.set_name(binding->node, name);
    }
    return binding->node;
  }
  return nullptr;
}

ir::Node* Scope::resolve(std::string_view name) {
  ir::Node* node = find(name);
  if (!node) throw Error(ErrorCode::InvalidModel, fmt::format("nothing computes the value '{}'", name));
  return node;
}

void Scope::define_initializers(const GraphFields& fields) {
  ir::Module& module = importer_.module();
  for (bool sparse : {false, true}) {
    for (std::string_view bytes : sparse ? fields.sparse_initializers : fields.initializers) {
      std::string_view name;
      try {
        Tensor tensor = sparse ? read_sparse_tensor(bytes, importer_.source(), &name)
                               : read_tensor(bytes, importer_.source(), &name);
        if (name.empty()) throw Error(ErrorCode::InvalidModel, "an initializer has no name");
        define(name, module.constant(std::move(tensor), name));
      } catch (Error& e) {
        e.at_location(place_);
        throw;
      }
    }
  }
}

void Scope::make_trainable(const std::function<bool(std::string_view)>& is_trainable) {
  for (Binding& binding : bindings_) {
    ir::Value* value = binding.node->as_value();
    if (!value || !is_trainable(binding.name)) continue;
    binding.node = importer_.add_input(graph_, value->type(), binding.name, value);
  }
}

void Scope::declare_values(std::span<const std::string_view> value_infos, std::span<const std::string_view> outputs) {
  declared_ = {value_infos, outputs};
  for (std::string_view bytes : value_infos) {
    ValueInfo info = read_value_info(bytes);
    importer_.module().annotations().set_value(place_, info.name, read_annotation(info));
  }
}

const ir::Type* Scope::declared_type(std::string_view name) {
  if (!declared_types_) {
    declared_types_ = std::make_unique<boost::unordered_flat_map<std::string_view, const ir::Type*>>();
    for (auto infos : {declared_.first, declared_.second}) {
      for (std::string_view bytes : infos) {
        ValueInfo info = importer_.read_declared(bytes);
        if (info.type) declared_types_->emplace(info.name, info.type);
      }
    }
  }
  auto found = declared_types_->find(name);
  return found == declared_types_->end() ? nullptr : found->second;
}

void Scope::import_quantization(std::string_view bytes) {
  using Field = wire::TensorAnnotation;
  ir::Quantization quantization;
  for (Message m(bytes); m.next();) {
    switch (m.field()) {
      case Field::tensor_name: quantization.value = m.bytes(); break;
      case Field::quant_parameter_tensor_names: {
        auto [role, name] = read_entry(m.bytes());
        const Tensor* tensor = ir::constant_tensor(find(name));
        quantization.parameters.push_back({std::string(role), std::string(name), tensor ? *tensor : Tensor()});
        break;
      }
      default: m.skip();
    }
  }
  importer_.module().annotations().quantizations().push_back(std::move(quantization));
}

bool Scope::is_ready(const NodeFields& fields) {
  for (std::string_view input : fields.inputs) {
    if (!input.empty() && !knows(input)) return false;
  }
  for (std::string_view attribute : fields.attributes) {
    for (std::string_view name : importer_.free_names_of_attribute(attribute, depth_)) {
      if (!knows(name)) return false;
    }
  }
  return true;
}

void Scope::import_one(const NodeFields& fields, size_t index) {
  const ir::Location* location = importer_.module().location({.file = place_, .name = fields.name, .index = static_cast<int32_t>(index)});
  if (!fields.doc.empty() || !fields.properties.empty()) {
    importer_.module().annotations().set_node(*location, read_annotation(fields));
  }
  try {
    importer_.import_node(*this, fields, location);
  } catch (Error& e) {
    e.at_node(describe(fields)).at_location(fmt::format("{}: node {}", place_, index));
    throw;
  }
}

void Scope::import_nodes(std::span<const std::string_view> nodes) {
  bindings_.reserve(bindings_.size() + nodes.size());
  index_.reserve(bindings_.size() + nodes.size());
  // In a large graph the place of a name in the index is not in a cache: it is asked for one node ahead.
  NodeFields fields[2];  // of even and of odd nodes
  auto read = [&](size_t i) {
    if (i >= nodes.size()) return;
    fields[i % 2].read(nodes[i]);
    for (std::string_view output : fields[i % 2].outputs) index_.prefetch(hash_of(output));
  };
  read(0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    read(i + 1);
    if (!is_ready(fields[i % 2])) return import_sorted(nodes, i);
    import_one(fields[i % 2], i);
  }
}

// The nodes from `first` on in an order in which each comes after those it depends on, else as in the file: a
// depth-first walk over the dependencies, with a stack of its own.
void Scope::import_sorted(std::span<const std::string_view> nodes, size_t first) {
  boost::unordered_flat_map<std::string_view, size_t> producer;
  std::vector<std::vector<size_t>> dependencies(nodes.size());
  NodeFields fields;
  for (size_t i = first; i < nodes.size(); ++i) {
    fields.read(nodes[i]);
    for (std::string_view output : fields.outputs) {
      if (!output.empty()) producer.emplace(output, i);
    }
  }
  for (size_t i = first; i < nodes.size(); ++i) {
    fields.read(nodes[i]);
    auto depend = [&](std::string_view name) {
      if (auto found = producer.find(name); found != producer.end()) dependencies[i].push_back(found->second);
    };
    for (std::string_view input : fields.inputs) depend(input);
    for (std::string_view attribute : fields.attributes) {
      for (std::string_view name : importer_.free_names_of_attribute(attribute, depth_)) depend(name);
    }
  }

  enum class Mark : uint8_t { New, Active, Done };
  std::vector<Mark> marks(nodes.size(), Mark::New);
  struct Frame {
    size_t node, next_dependency;
  };
  std::vector<Frame> stack;
  for (size_t root = first; root < nodes.size(); ++root) {
    if (marks[root] != Mark::New) continue;
    marks[root] = Mark::Active;
    stack.push_back({root, 0});
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.next_dependency == dependencies[frame.node].size()) {
        fields.read(nodes[frame.node]);
        import_one(fields, frame.node);
        marks[frame.node] = Mark::Done;
        stack.pop_back();
        continue;
      }
      size_t dependency = dependencies[frame.node][frame.next_dependency++];
      if (marks[dependency] == Mark::Done) continue;
      if (marks[dependency] == Mark::Active) {
        constexpr size_t kMostNamed = 8;
        std::string cycle;
        auto from = std::ranges::find(stack, dependency, &Frame::node);
        for (auto at = from; at != stack.end(); ++at) {
          if (static_cast<size_t>(at - from) == kMostNamed) {
            cycle += fmt::format("… ({} nodes) -> ", stack.end() - from);
            break;
          }
          fields.read(nodes[at->node]);
          cycle += describe(fields) + " -> ";
        }
        fields.read(nodes[dependency]);
        throw Error(ErrorCode::InvalidModel,
                    fmt::format("the nodes depend on each other in a cycle: {}{}", cycle, describe(fields)))
            .at_location(fmt::format("{}: node {}", place_, dependency));
      }
      marks[dependency] = Mark::Active;
      stack.push_back({dependency, 0});
    }
  }
}

}  // namespace anfora::onnx

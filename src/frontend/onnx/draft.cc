#include "frontend/onnx/draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>

#include "support/hash.h"
#include "support/hash_index.h"

namespace anfora::onnx {
namespace {

// Names in one scope: the main graph with its subgraphs, or a local function with its.
class Names {
 public:
  void reserve(size_t count) {
    taken_.reserve(count);
    index_.reserve(count);
  }
  // Before the name is claimed, so that its place in the index is at hand then.
  void prefetch(std::string_view name) const { index_.prefetch(hash_of(name)); }
  bool claim(std::string_view name) {
    auto [at, is_new] = index_.insert(hash_of(name), taken_.size(), [&](uint32_t i) { return taken_[i] == name; });
    if (is_new) taken_.push_back(name);
    return is_new;
  }

  // `name` itself, or with the first free number behind it.
  std::string_view claim_like(Draft& draft, std::string_view name) {
    return claim(name) ? name : claim_numbered(draft, name);
  }

  std::string_view claim_numbered(Draft& draft, std::string_view name) {
    std::string numbered;
    do {
      numbered = fmt::format("{}_{}", name, ++last_number_[name]);
    } while (is_taken(numbered));
    std::string_view kept = draft.keep(numbered);
    claim(kept);
    return kept;
  }

 private:
  static uint64_t hash_of(std::string_view name) { return hash_bytes(name.data(), name.size()); }
  bool is_taken(std::string_view name) const {
    return index_.find(hash_of(name), [&](uint32_t i) { return taken_[i] == name; }) != HashIndex::kNone;
  }

  HashIndex index_;
  LargeVector<std::string_view> taken_;
  boost::unordered_flat_map<std::string_view, size_t> last_number_;
};

}  // namespace

DraftGraph* Draft::make_graph(std::string_view name, DraftGraph* parent) {
  DraftGraph& graph = graphs_.emplace_back();
  graph.name = keep(name);
  graph.parent = parent;
  return &graph;
}

DraftOperator* Draft::find_operator(std::string_view domain, std::string_view name, bool is_known) {
  DraftOperator*& op = operator_index_[{domain, name, is_known}];
  if (!op) op = &operators_.emplace_back(DraftOperator{domain, name, is_known, find_history(domain, name)});
  return op;
}

ValueId Draft::make_value(DraftGraph* graph, std::string_view name, const ir::Type* type, const ir::Node* origin) {
  values_.push_back({.name = name, .type = type, .graph = graph, .origin = origin});
  return static_cast<ValueId>(values_.size() - 1);
}

std::vector<ValueId>* Draft::alike(const Tensor& tensor) {
  constexpr size_t kMostBytes = 256;
  if (tensor.dtype() == DType::String || tensor.bytes() > kMostBytes) return nullptr;
  return &small_constants_[hash_bytes(tensor.raw(), tensor.bytes())];
}

ValueId Draft::make_constant(DraftGraph* graph, const Tensor* tensor, std::string_view name, const ir::Node* origin) {
  const ir::Type* type = context_.tensor_type(tensor->dtype(), std::span<const int64_t>(tensor->shape()));
  ValueId id = make_value(graph, name, type, origin);
  values_[id].constant = tensor;
  if (std::vector<ValueId>* ids = alike(*tensor)) ids->push_back(id);
  return id;
}

ValueId Draft::make_constant(DraftGraph* graph, Tensor tensor) {
  if (std::vector<ValueId>* ids = alike(tensor)) {
    auto known = std::ranges::find_if(*ids, [&](ValueId id) {
      return values_[id].graph == graph && Tensor::identical(*values_[id].constant, tensor);
    });
    if (known != ids->end()) return *known;
  }
  return make_constant(graph, &tensors_.emplace_back(std::move(tensor)), {});
}

ValueId Draft::place_constant(DraftGraph* graph, const ir::Value& constant) {
  if (std::vector<ValueId>* ids = alike(constant.tensor())) {
    for (ValueId id : *ids) {
      DraftValue& known = values_[id];
      if (known.graph != graph || known.origin || !Tensor::identical(*known.constant, constant.tensor())) continue;
      if (known.name.empty()) known.name = constant.name();
      known.origin = &constant;
      return id;
    }
  }
  return make_constant(graph, &constant.tensor(), constant.name(), &constant);
}

void Draft::remove_unused_nodes() {
  // Users come after what they use, and a subgraph's nodes are users at the place of the node that holds it, so
  // one walk backwards sees all uses of a value before its definition.
  std::vector<bool> used(values_.size(), false);
  auto sweep = [&](auto& sweep, DraftGraph& graph) -> void {
    for (ValueId id : graph.outputs) used[id] = true;
    auto keep = graph.nodes.end();
    for (auto node = graph.nodes.end(); node != graph.nodes.begin();) {
      --node;
      if (std::ranges::none_of(node->outputs, [&](ValueId id) { return used[id]; })) continue;
      for (ValueId id : node->inputs) used[id] = true;
      for (ValueId id : node->captures) used[id] = true;
      node->op->is_used = true;
      for (const Subgraph& subgraph : node->subgraphs) sweep(sweep, *subgraph.graph);
      if (--keep != node) *keep = *node;
    }
    graph.nodes.erase(graph.nodes.begin(), keep);
  };
  sweep(sweep, *main_);
  for (DraftGraph* function : functions_) sweep(sweep, *function);
}

std::vector<ValueId> Draft::constants_of(const DraftGraph& top) const {
  std::vector<ValueId> constants;
  boost::unordered_flat_set<ValueId> seen;
  auto add = [&](ValueId id) {
    if (values_[id].constant && seen.insert(id).second) constants.push_back(id);
  };
  for_each_graph(top, [&](const DraftGraph& graph) {
    for (const DraftNode& node : graph.nodes) {
      std::ranges::for_each(node.inputs, add);
      std::ranges::for_each(node.captures, add);
    }
    std::ranges::for_each(graph.outputs, add);
  });
  if (&top == main_) {
    for (const DraftQuantization& quantization : quantizations_) {
      for (auto [role, id] : quantization.parameters) add(id);
    }
  }
  return constants;
}

size_t Draft::add_quantizations(std::span<const ir::Quantization> quantizations) {
  if (quantizations.empty()) return 0;
  boost::unordered_flat_map<std::string_view, ValueId> by_name;
  auto add = [&](ValueId id) {
    if (id != kOmitted && !values_[id].name.empty()) by_name.emplace(values_[id].name, id);
  };
  // Where two values want one name, the first gets it.
  std::ranges::for_each(main_->inputs, add);
  std::ranges::for_each(main_->outputs, add);
  for (const DraftNode& node : main_->nodes) std::ranges::for_each(node.outputs, add);
  std::ranges::for_each(constants_of(*main_), add);

  // Annotations may share constants that the graph does not read.
  boost::unordered_flat_map<std::string_view, ValueId> added;
  auto constant = [&](const ir::Quantization::Parameter& parameter) {
    for (const auto* known : {&by_name, &added}) {
      auto found = known->find(parameter.name);
      const Tensor* tensor = found == known->end() ? nullptr : values_[found->second].constant;
      if (tensor && Tensor::identical(*tensor, parameter.tensor)) return found->second;
    }
    return added[parameter.name] = make_constant(main_, &parameter.tensor, parameter.name);
  };

  size_t num_left_out = 0;
  for (const ir::Quantization& quantization : quantizations) {
    auto value = by_name.find(quantization.value);
    bool is_left = value != by_name.end() && std::ranges::all_of(quantization.parameters, [&](const auto& parameter) {
                     return parameter.tensor.defined() || by_name.contains(parameter.name);
                   });
    if (!is_left) {
      ++num_left_out;
      continue;
    }
    DraftQuantization& kept = quantizations_.emplace_back(DraftQuantization{value->second});
    for (const ir::Quantization::Parameter& parameter : quantization.parameters) {
      kept.parameters.emplace_back(parameter.role,
                                   parameter.tensor.defined() ? constant(parameter) : by_name.at(parameter.name));
    }
  }
  return num_left_out;
}

void Draft::assign_names() {
  constexpr size_t kAhead = 8;
  std::vector<DraftGraph*> tops{main_};
  tops.insert(tops.end(), functions_.begin(), functions_.end());
  std::vector<bool> seen(values_.size(), false);  // no value is in use below two graphs at the top
  for (DraftGraph* top : tops) {
    Names value_names, node_names;
    LargeVector<ValueId> named;
    LargeVector<std::pair<ValueId, std::string_view>> unnamed;  // with what they are called after
    auto use = [&](std::span<const ValueId> ids, std::string_view kind) {
      for (ValueId id : ids) {
        if (id == kOmitted || seen[id]) continue;
        seen[id] = true;
        const DraftValue& value = values_[id];
        if (value.name.empty()) {
          unnamed.emplace_back(id, kind);
        } else if (value.pinned) {
          value_names.claim(value.name);
        } else {
          named.push_back(id);
        }
      }
    };
    named.reserve(top->nodes.size());
    node_names.reserve(top->nodes.size());
    for_each_graph(*top, [&](DraftGraph& graph) {
      use(graph.inputs, "input");
      for (size_t i = 0; i < graph.nodes.size(); ++i) {
        if (i + kAhead < graph.nodes.size()) node_names.prefetch(graph.nodes[i + kAhead].name);
        DraftNode& node = graph.nodes[i];
        use(node.inputs, "constant");
        use(node.captures, "constant");
        use(node.outputs, node.op->name);
        if (!node.name.empty()) node.name = node_names.claim_like(*this, node.name);
      }
      use(graph.outputs, "constant");
    });
    if (top == main_) {
      for (const DraftQuantization& quantization : quantizations_) {
        for (auto [role, id] : quantization.parameters) use({&id, 1}, "constant");
      }
    }

    // Pinned names are taken by now.
    value_names.reserve(named.size() + unnamed.size());
    for (size_t i = 0; i < named.size(); ++i) {
      if (i + kAhead < named.size()) value_names.prefetch(values_[named[i + kAhead]].name);
      std::string_view& name = values_[named[i]].name;
      name = value_names.claim_like(*this, name);
    }
    for (auto [id, kind] : unnamed) values_[id].name = value_names.claim_numbered(*this, kind);
  }
}

}  // namespace anfora::onnx

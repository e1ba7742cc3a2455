#include "analysis/verify_types.h"

#include <fmt/format.h>

#include "analysis/infer.h"

namespace anfora::analysis {

using namespace ir;

namespace {

// Takes the types of all nodes, and puts them back at the end of its life.
class TypeSnapshot {
 public:
  explicit TypeSnapshot(Module& module) {
    for (Graph* graph : module.graphs()) {
      save(graph->value());
      for (Parameter* p : graph->parameters()) save(p);
      for (Apply* node = graph->first_node(); node; node = node->next_in_graph()) save(node);
    }
  }
  ~TypeSnapshot() {
    for (auto [node, type] : types) node->set_type(type);
  }
  TypeSnapshot(const TypeSnapshot&) = delete;

  std::vector<std::pair<Node*, const Type*>> types;

 private:
  void save(Node* node) { types.emplace_back(node, node->type()); }
};

}  // namespace

std::vector<Violation> verify_types(Module& module) {
  std::vector<Violation> violations;
  TypeSnapshot before(module);
  try {
    infer_types(module);
  } catch (const Error& error) {
    violations.push_back({Invariant::Inferred, module.main(), nullptr, error.what()});
    return violations;
  }
  for (auto [node, type] : before.types) {
    if (!type && is_reached(node->type()) && node->is_apply()) {
      violations.push_back({Invariant::Typed, node->graph(), node, "it has no type"});
    }
    if (may_agree(type, node->type())) continue;
    violations.push_back({Invariant::Inferred, node->graph(), node,
                          fmt::format("its type is {}, inference finds {}", to_string(type), to_string(node->type()))});
  }
  return violations;
}

void verify_typed_or_throw(Module& module, ErrorCode code) {
  verify_or_throw(module, code);
  throw_if_any(verify_types(module), code);
}

}  // namespace anfora::analysis

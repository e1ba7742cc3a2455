// Makes the nodes of differentiation, typed as far as their operands are.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "analysis/infer.h"
#include "ir/module.h"

namespace anfora::passes {

std::vector<const ir::Type*> types_of(std::span<ir::Node* const> nodes);

class Builder {
 public:
  Builder(ir::Module& module, analysis::Inference& inference) : module_(module), inference_(inference) {}

  ir::Node* apply(ir::Graph* graph, std::string_view op, std::initializer_list<ir::Node*> inputs, const AttributeSet& attributes = {});
  ir::Apply* call(ir::Graph* graph, ir::Node* callee, std::span<ir::Node* const> arguments, const ir::Location* location);
  ir::Node* item(ir::Graph* graph, ir::Node* tuple, size_t i);
  ir::Node* tuple(ir::Graph* graph, std::span<ir::Node* const> items);
  // The leaf of a value (leaves.h) as a node.
  ir::Node* leaf_of(ir::Graph* graph, ir::Node* node, size_t leaf);
  // The value of a type whose leaves these are; what is left over stays in `leaves`.
  ir::Node* joined(ir::Graph* graph, const ir::Type* type, std::span<ir::Node* const>& leaves);
  // A tensor of the node's shape and type.
  ir::Node* filled_like(ir::Graph* graph, ir::Node* node, double number);
  // A value of the type to stand where nobody reads it: without elements, of the rank and of the sizes that are known.
  ir::Node* empty(ir::Graph* graph, const ir::Type* type);
  // The type of what is either a value of the type or empty().
  const ir::Type* or_empty(const ir::Type* type);
  // A sequence without items, which knows the type of what will be in it.
  ir::Node* empty_sequence(ir::Graph* graph, const ir::Type* element);
  // Closes a loop, and returns it: its header goes on, when the test is so, to a graph that calls it for the next iteration.
  ir::Graph* loop(ir::Graph* header, ir::Node* test, bool goes_on_when, ir::Graph* again, std::span<ir::Node* const> next, ir::Graph* done);
  // One that goes on as long as some iterations are left.
  ir::Graph* loop(ir::Graph* header, ir::Node* left, ir::Graph* again, std::span<ir::Node* const> next, ir::Graph* done);

 private:
  ir::Module& module_;
  analysis::Inference& inference_;
};

}  // namespace anfora::passes

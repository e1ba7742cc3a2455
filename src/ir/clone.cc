#include "ir/clone.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "anfora/error.h"
#include "ir/annotations.h"
#include "ir/order.h"

namespace anfora::ir {
namespace {

// What the result of a graph depends on, within the graph and those nested in it. Unlike topological_order(), it costs
// no more than the region has: a pass may ask for it once a graph.
class Region {
 public:
  explicit Region(const Graph& root) : root_(root) {
    enter(root);
    while (!stack_.empty()) {
      auto [node, i] = stack_.back();
      if (i == node->num_inputs()) {
        nodes.push_back(node);
        stack_.pop_back();
        continue;
      }
      ++stack_.back().next_operand;
      visit(node->input(i));
    }
  }

  std::vector<const Apply*> nodes;    // operands before users, Returns included
  std::vector<const Graph*> nested;   // outer ones first, without the root
  std::vector<Node*> free_variables;  // in the order in which the walk meets them
  std::vector<Graph*> functions;      // that are used and not in the region; the root if it refers to itself

 private:
  struct Frame {
    const Apply* node;
    size_t next_operand;
  };

  // A graph that encloses a visited one is not asked twice.
  bool contains(const Graph* graph) {
    auto [at, is_new] = contains_.try_emplace(graph, false);
    if (is_new) at->second = graph->is_inside(&root_);
    return at->second;
  }

  void enter(const Graph& graph) {
    if (graph.return_node() && seen_.insert(graph.return_node()).second) stack_.push_back({graph.return_node(), 0});
  }

  void visit(Node* node) {
    if (Graph* function = constant_function(node)) {
      if (!seen_.insert(node).second) return;
      if (function != &root_ && contains(function)) {
        nested.push_back(function);
        enter(*function);
      } else {
        functions.push_back(function);
      }
      return;
    }
    if (!node->graph() || !seen_.insert(node).second) return;
    if (!contains(node->graph())) {
      free_variables.push_back(node);
    } else if (Apply* apply = node->as_apply()) {
      stack_.push_back({apply, 0});
    }
  }

  const Graph& root_;
  std::vector<Frame> stack_;
  boost::unordered_flat_set<const Node*> seen_;
  boost::unordered_flat_map<const Graph*, bool> contains_;
};

}  // namespace

Node* Cloner::image_of(Node* node) const {
  auto found = images_.find(node);
  return found == images_.end() ? node : found->second;
}

void Cloner::copy_parameters(const Graph& graph, Graph* copy) {
  for (Parameter* parameter : graph.parameters()) {
    if (images_.contains(parameter)) continue;
    Parameter* image = module_.add_parameter(copy, parameter->type(), parameter->name());
    image->set_location(module_.inlined(parameter->location(), inlined_at_));
    images_.emplace(parameter, image);
  }
}

void Cloner::copy_nodes(const Graph& graph, Graph* copy) {
  Region region(graph);
  graphs_.emplace(&graph, copy);
  for (const Graph* nested : region.nested) {
    Graph* image = module_.make_graph(nested->name(), graphs_.at(nested->parent()));
    image->value()->set_type(nested->value()->type());
    image->set_annotation(nested->annotation());
    graphs_.emplace(nested, image);
    images_.emplace(nested->value(), image->value());
    copy_parameters(*nested, image);
  }
  for (const Apply* node : region.nodes) {
    if (node != graph.return_node()) copy_node(*node);
  }
}

void Cloner::copy_node(const Apply& node) {
  Graph* graph = graphs_.at(node.graph());
  if (node.primitive() == Primitive::Return) {
    module_.set_result(graph, image_of(node.input(0)));
    graph->return_node()->set_location(module_.inlined(node.location(), inlined_at_));
    return;
  }
  Apply* image = copy_of(module_, node, graph, operands_of(node, [&](Node* operand) { return image_of(operand); }));
  image->set_location(module_.inlined(node.location(), inlined_at_));
  images_.emplace(&node, image);
}

Operands operands_of(const Apply& node) {
  return operands_of(node, [](Node* operand) { return operand; });
}

Apply* copy_of(Module& module, const Apply& node, Graph* graph, std::span<Node* const> operands) {
  Apply* copy = module.apply_interned(graph, node.op(), operands, &node.attributes(), node.num_outputs(), node.location(), node.name());
  copy->set_type(node.type());
  return copy;
}

Apply* with_operands(Module& module, Apply& node, std::span<Node* const> operands) {
  Apply* made = copy_of(module, node, node.graph(), operands);
  module.replace(&node, made);
  module.erase(&node);
  return made;
}

Graph* Cloner::copy(const Graph& graph, Graph* parent, std::string_view name) {
  Graph* copy = module_.make_graph(name.empty() ? graph.name() : name, parent);
  copy->set_annotation(graph.annotation());
  size_t parameters = graph.parameters().size();
  copy_parameters(graph, copy);
  if (copy->parameters().size() == parameters) {
    copy->value()->set_type(graph.value()->type());
    images_.try_emplace(graph.value(), copy->value());
  }
  copy_nodes(graph, copy);
  copy_node(*graph.return_node());
  return copy;
}

Node* Cloner::splice(const Graph& graph, Graph* into) {
  copy_nodes(graph, into);
  return image_of(graph.result());
}

Node* inline_call(Module& module, Apply* call, const Graph& callee) {
  Cloner cloner(module, call->location());
  for (size_t i = 0; i < callee.parameters().size(); ++i) cloner.bind(callee.parameter(i), call->input(i + 1));
  Node* result = cloner.splice(callee, call->graph());
  // The caller's name for the value is the one that a reader of the caller knows.
  bool is_copy = result != callee.result() && callee.result()->is_apply();
  if (is_copy && !call->name().empty()) module.set_name(result, call->name());
  module.replace(call, result);
  module.erase(call);
  return result;
}

Graph* specialize(Module& module, const Graph& graph, std::span<Node* const> values) {
  Cloner cloner(module);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i]) cloner.bind(graph.parameter(i), values[i]);
  }
  return cloner.copy(graph, graph.parent());
}

Lifted lift(Module& module, const Graph& graph) {
  Region region(graph);
  bool refers_to_itself = false;
  for (const Graph* function : region.functions) {
    if (function == &graph) {
      refers_to_itself = true;
    } else if (function->parent()) {
      throw Error(ErrorCode::Unsupported, fmt::format("@{} uses @{}, which is nested in @{}", graph.name(),
                                                      function->name(), function->parent()->name()))
          .with_hint("lift that function first");
    }
  }
  // The signature first: parameters, then what is captured; a stub for the body until then.
  Graph* lifted = module.make_graph(graph.name());
  lifted->set_annotation(graph.annotation());
  Cloner cloner(module);
  std::vector<Node*> captured;
  for (Parameter* p : graph.parameters()) cloner.bind(p, module.add_parameter(lifted, p->type(), p->name()));
  for (Node* variable : region.free_variables) {
    captured.push_back(module.add_parameter(lifted, variable->type(), variable->name()));
    cloner.bind(variable, captured.back());
  }
  if (refers_to_itself) {
    Graph* again = module.make_graph(graph.name(), lifted);
    std::vector<Node*> arguments;
    for (Parameter* p : graph.parameters()) arguments.push_back(module.add_parameter(again, p->type(), p->name()));
    arguments.insert(arguments.end(), captured.begin(), captured.end());
    Apply* call = module.call(again, lifted->value(), arguments);
    call->set_type(graph.result()->type());
    module.set_result(again, call);
    cloner.bind(graph.value(), again->value());
  }
  module.set_result(lifted, cloner.splice(graph, lifted));
  return {lifted, std::move(region.free_variables)};
}

namespace {

using Ids = std::vector<std::pair<Node*, uint32_t>>;

// Copies graphs of a module into another one.
class Transfer {
 public:
  Transfer(const Module& from, Module& to) : to_(to), images_(from.next_id()) {}

  // Enclosing graphs come with those that they enclose, and used functions with their users.
  void copy(std::span<Graph* const> graphs) {
    for (const Graph* graph : graphs) copy_signature(*graph);
    for (const Graph* graph : graphs) to_.set_parent(image_of(graph), image_of(graph->parent()));
  }
  // Free variables belong to enclosing graphs, which are copied first.
  void copy_nodes(std::span<Apply* const> nodes) {
    for (const Apply* node : nodes) copy_node(*node);
  }

  Graph* image_of(const Graph* graph) const { return graphs_.at(graph); }
  // The copies with the ids of the originals.
  Ids ids() const {
    Ids ids;
    for (uint32_t id = 0; id < images_.size(); ++id) {
      if (images_[id]) ids.emplace_back(images_[id], id);
    }
    return ids;
  }

 private:
  const Location* location_of(const Location* location) {
    auto copied = [&](const Location* one) {
      auto [at, is_new] = locations_.try_emplace(one);
      if (is_new) at->second = to_.location(*one);
      return at->second;
    };
    boost::container::small_vector<const Location*, 8> chain;  // the innermost first
    for (const Location* l = location; l; l = l->inlined_at) chain.push_back(l);
    const Location* image = nullptr;
    for (; !chain.empty(); chain.pop_back()) image = to_.inlined(copied(chain.back()->before_inlining()), image);
    return image;
  }

  Node* image_of(const Node* node) {
    Node*& image = images_[node->id()];
    const Value* value = node->as_value();
    if (image || !value) return image;
    if (value->is_tensor()) {
      image = to_.constant(value->tensor(), value->name());
    } else {
      image = value->is_type() ? to_.type(value->described()) : to_.none();
    }
    return image;
  }

  void copy_signature(const Graph& graph) {
    Graph* image = to_.make_graph(graph.name());
    image->value()->set_type(graph.value()->type());
    image->set_annotation(graph.annotation());
    images_[graph.value()->id()] = image->value();
    graphs_.emplace(&graph, image);
    for (const Parameter* parameter : graph.parameters()) {
      Parameter* p = to_.add_parameter(image, parameter->type(), parameter->name());
      p->set_location(location_of(parameter->location()));
      p->set_donated(parameter->is_donated());
      if (Value* otherwise = graph.module().default_of(parameter)) to_.set_default(p, image_of(otherwise)->as_value());
      images_[parameter->id()] = p;
    }
  }

  void copy_node(const Apply& node) {
    Graph* graph = image_of(node.graph());
    const Operands inputs = operands_of(node, [&](Node* operand) { return image_of(operand); });
    Apply* made;
    if (node.primitive() == Primitive::Return) {
      to_.set_result(graph, inputs[0]);
      made = graph->return_node();
      made->set_type(node.type());
    } else {
      made = copy_of(to_, node, graph, inputs);
    }
    made->set_location(location_of(node.location()));
    images_[node.id()] = made;
  }

  Module& to_;
  std::vector<Node*> images_;  // by id
  boost::unordered_flat_map<const Graph*, Graph*> graphs_{{nullptr, nullptr}};
  boost::unordered_flat_map<const Location*, const Location*> locations_{{nullptr, nullptr}};
};

// Copies all of a module into an empty one; returns the copies with the ids of the originals.
Ids copy_module(const Module& module, Module* copy) {
  copy->metadata() = module.metadata();
  copy->annotations() = module.annotations();
  copy->output_names() = module.output_names();
  Transfer transfer(module, *copy);
  transfer.copy(module.graphs());
  copy->set_main(transfer.image_of(module.main()));
  ModuleOrder order = topological_order(module, Coverage::All);
  std::ranges::stable_sort(order.graphs, {}, [](const GraphOrder& g) { return g.graph->depth(); });
  for (const GraphOrder& graph : order.graphs) {
    transfer.copy_nodes(graph.nodes);
    transfer.copy_nodes(graph.dead);
  }
  return transfer.ids();
}

}  // namespace

Graph* import(Module& into, const Graph& function) {
  std::vector<Graph*> graphs;
  std::vector<const Graph*> pending = {&function};
  boost::unordered_flat_set<const Graph*> seen = {&function};
  while (!pending.empty()) {
    graphs.push_back(const_cast<Graph*>(pending.back()));
    pending.pop_back();
    for (const Apply* node : topological_order(*graphs.back())) {
      for (const Use& use : node->operands()) {
        const Graph* used = constant_function(use.node);
        if (used && seen.insert(used).second) pending.push_back(used);
      }
    }
  }
  std::ranges::stable_sort(graphs, {}, &Graph::depth);
  Transfer transfer(function.module(), into);
  transfer.copy(graphs);
  for (const Graph* graph : graphs) transfer.copy_nodes(topological_order(*graph));
  return transfer.image_of(&function);
}

std::unique_ptr<Module> clone(const Module& module) {
  auto copy = std::make_unique<Module>(module.context());
  copy_module(module, copy.get());
  return copy;
}

std::unique_ptr<Module> snapshot(const Module& module) {
  auto copy = std::make_unique<Module>(module.context());
  copy->renumber(copy_module(module, copy.get()));
  return copy;
}

}  // namespace anfora::ir

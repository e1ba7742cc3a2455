#include "ir/order.h"

#include <algorithm>

namespace anfora::ir {
namespace {

class Walk {
 public:
  explicit Walk(const Module& module, const Graph* within = nullptr) : within_(within) {
    order.marks.assign(module.next_id(), Mark::New);
  }

  // Enters a function: it gets its place in the order of graphs, and its body is walked as part of what is
  // being walked now.
  void enter(Graph* graph) {
    if (within_ && !graph->is_inside(within_)) return;
    index_of(graph);
    if (graph->return_node()) push(graph->return_node());
  }

  // Walks everything that `root` depends on and is not ordered yet.
  void walk(Apply* root) {
    ++root_;
    push(root);
    finish();
  }
  void walk(Graph* root) {
    ++root_;
    enter(root);
    finish();
  }

  ModuleOrder order;

 private:
  using Mark = ModuleOrder::Mark;
  // A deep graph has left the caches when the walk comes back, so a frame holds what is needed of a node then.
  struct Frame {
    Apply* node;
    uint32_t id, graph;  // the graph's index
    uint32_t next_operand, num_operands;
  };

  // The place of a graph in the order; a new one is appended.
  uint32_t index_of(Graph* graph) {
    if (graph == last_graph_) return last_index_;
    auto [at, is_new] = index_of_.emplace(graph, static_cast<uint32_t>(order.graphs.size()));
    if (is_new) {
      order.graphs.push_back({graph, {}, {}});
      order.graphs.back().nodes.reserve(graph->num_nodes());
      discovered_by_.push_back(root_);
    }
    last_graph_ = graph;
    return last_index_ = at->second;
  }

  void push(Apply* node) {
    if (node->id() >= order.marks.size() || order.marks[node->id()] != Mark::New) return;
    if (within_ && node->graph() != within_ && !node->graph()->is_inside(within_)) return;
    prefetch_before(*node);
    order.marks[node->id()] = Mark::Open;
    // A graph that is new here is that of a broken module, whose node is used from where it is not visible.
    stack_.push_back({node, node->id(), index_of(node->graph()), 0, static_cast<uint32_t>(node->num_inputs())});
  }

  void finish() {
    while (!stack_.empty()) {
      Frame& frame = stack_.back();
      if (frame.next_operand == frame.num_operands) {
        append(frame);
        stack_.pop_back();
        continue;
      }
      Apply* node = frame.node;
      size_t i = frame.next_operand++;
      Node* operand = node->input(i);
      if (!operand) continue;
      if (Apply* apply = operand->as_apply()) {
        if (apply->id() < order.marks.size() && order.marks[apply->id()] == Mark::Open)
          order.back_edges.push_back({node, i});
        push(apply);
      } else if (Graph* function = constant_function(operand)) {
        enter(function);
      }
    }
  }

  void append(const Frame& frame) {
    order.marks[frame.id] = Mark::Done;
    // What a graph's return node depends on is ordered by the walk that discovers the graph.
    GraphOrder& graph = order.graphs[frame.graph];
    bool live = discovered_by_[frame.graph] == root_ || frame.node == graph.graph->return_node();
    (live ? graph.nodes : graph.dead).push_back(frame.node);
  }

  const Graph* within_;
  LargeVector<Frame> stack_;
  boost::unordered_flat_map<const Graph*, uint32_t> index_of_;
  const Graph* last_graph_ = nullptr;  // that was looked up, and its index
  uint32_t last_index_ = 0;
  size_t root_ = 0;
  std::vector<size_t> discovered_by_;  // the root of the walk, by index of the graph
};

}  // namespace

ModuleOrder topological_order(const Module& module, Coverage coverage) {
  Walk walk(module);
  if (module.main()) walk.walk(module.main());
  if (coverage == Coverage::Live) return std::move(walk.order);

  size_t next = 0;
  auto add_dead_nodes = [&] {  // of graphs reached so far, and of those reached by doing so
    for (; next < walk.order.graphs.size(); ++next) {
      for (Apply* node = walk.order.graphs[next].graph->first_node(); node; node = node->next_in_graph())
        walk.walk(node);
    }
  };
  add_dead_nodes();
  for (Graph* graph : module.graphs()) {
    walk.walk(graph);
    add_dead_nodes();
  }
  return std::move(walk.order);
}

std::shared_ptr<const ModuleOrder> shared_order(Module& module) {
  if (!module.order_ || module.order_version_ != module.version_) {
    module.order_ = std::make_shared<const ModuleOrder>(topological_order(module));
    module.order_version_ = module.version_;
  }
  return module.order_;
}

LargeVector<Apply*> topological_order(const Graph& graph) {
  Walk walk(graph.module(), &graph);
  walk.walk(const_cast<Graph*>(&graph));
  return std::move(walk.order.graphs.front().nodes);
}

// A variable is free in the graphs that use it directly, and then, against the direction "uses the function",
// in all graphs up to its owner.
FreeVariables::FreeVariables(const ModuleOrder& order) {
  if (std::ranges::none_of(order.graphs, [](const GraphOrder& g) { return g.graph->parent(); })) return;
  boost::unordered_flat_map<const Graph*, size_t> index_of;
  for (size_t i = 0; i < order.graphs.size(); ++i) index_of.emplace(order.graphs[i].graph, i);

  std::vector<std::vector<size_t>> users(order.graphs.size());  // graphs that use graph i as a value
  std::vector<Node*> variables;
  std::vector<std::vector<size_t>> direct;  // by variable: graphs that use it themselves
  boost::unordered_flat_map<const Node*, size_t> variable_index;

  auto add = [](std::vector<size_t>& set, size_t graph) {  // graphs come one after the other
    if (set.empty() || set.back() != graph) set.push_back(graph);
  };
  auto scan = [&](Apply* node, size_t user) {
    for (const Use& use : node->operands()) {
      if (!use.node) continue;
      if (Graph* function = constant_function(use.node)) {
        if (auto found = index_of.find(function); found != index_of.end()) add(users[found->second], user);
      } else if (use.node->graph() && use.node->graph() != order.graphs[user].graph) {
        auto [at, is_new] = variable_index.emplace(use.node, variables.size());
        if (is_new) {
          variables.push_back(use.node);
          direct.emplace_back();
        }
        add(direct[at->second], user);
      }
    }
  };
  for (size_t i = 0; i < order.graphs.size(); ++i) {
    for (Apply* node : order.graphs[i].nodes) scan(node, i);
    for (Apply* node : order.graphs[i].dead) scan(node, i);
  }

  std::vector<size_t> reached_by(order.graphs.size(), 0);  // variable index + 1
  std::vector<size_t> pending;
  for (size_t v = 0; v < variables.size(); ++v) {
    auto reach = [&](size_t graph) {
      if (order.graphs[graph].graph == variables[v]->graph() || reached_by[graph] == v + 1) return;
      reached_by[graph] = v + 1;
      pending.push_back(graph);
    };
    for (size_t graph : direct[v]) reach(graph);
    while (!pending.empty()) {
      size_t graph = pending.back();
      pending.pop_back();
      variables_[order.graphs[graph].graph].push_back(variables[v]);
      for (size_t user : users[graph]) reach(user);
    }
  }
}

std::span<Node* const> FreeVariables::of(const Graph* graph) const {
  auto found = variables_.find(graph);
  return found == variables_.end() ? std::span<Node* const>() : std::span<Node* const>(found->second);
}

}  // namespace anfora::ir

#include "support/min_cut.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>

namespace anfora {

namespace {

struct FlowEdge;
using FlowTraits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using EdgeDescriptor = FlowTraits::edge_descriptor;
struct FlowNode {
  boost::default_color_type color = {};
  int64_t distance = 0;
  EdgeDescriptor predecessor = {};
};
struct FlowEdge {
  int64_t capacity = 0, residual = 0;
  EdgeDescriptor reverse = {};
};
using FlowGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, FlowNode, FlowEdge>;

}  // namespace

std::vector<bool> MinCut::solve() const {
  FlowGraph graph(num_nodes_);
  for (const Edge& edge : edges_) {
    const EdgeDescriptor there = boost::add_edge(edge.from, edge.to, graph).first;
    const EdgeDescriptor back = boost::add_edge(edge.to, edge.from, graph).first;
    graph[there] = {edge.capacity, 0, back};
    graph[back] = {0, 0, there};
  }
  boykov_kolmogorov_max_flow(graph, get(&FlowEdge::capacity, graph), get(&FlowEdge::residual, graph), get(&FlowEdge::reverse, graph),
                             get(&FlowNode::predecessor, graph), get(&FlowNode::color, graph), get(&FlowNode::distance, graph),
                             get(boost::vertex_index, graph), kSource, kSink);
  // What still reaches the sink.
  std::vector<bool> reaches(num_nodes_);
  std::vector<size_t> pending = {kSink};
  reaches[kSink] = true;
  while (!pending.empty()) {
    const size_t node = pending.back();
    pending.pop_back();
    for (auto [edge, end] = out_edges(node, graph); edge != end; ++edge) {
      const size_t from = target(*edge, graph);
      if (reaches[from] || graph[graph[*edge].reverse].residual == 0) continue;
      reaches[from] = true;
      pending.push_back(from);
    }
  }
  return reaches;
}

}  // namespace anfora

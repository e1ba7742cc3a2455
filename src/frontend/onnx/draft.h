// A draft: an ONNX model before it is written. The exporter makes it from the IR, names its values, fits its
// operators to an operator set, and then writes it.
//
// A value is a number, its name comes last: names that must be kept (inputs, outputs) go first, and values that
// fitting made superfluous take none. Constants belong to no graph; the ones in use become initializers.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "frontend/onnx/opset_history.h"
#include "ir/annotations.h"
#include "ir/module.h"
#include "support/aligned_bytes.h"
#include "support/arena.h"

namespace anfora::onnx {

struct DraftGraph;

using ValueId = uint32_t;
inline constexpr ValueId kOmitted = 0;  // an optional input or output that is not there

struct DraftValue {
  std::string_view name;             // the one to have if it is free; after naming, the final one
  const ir::Type* type = nullptr;    // null: not known
  const Tensor* constant = nullptr;  // of an initializer
  DraftGraph* graph = nullptr;       // that defines it; of a constant: the graph at the top that it was made for
  const ir::Node* origin = nullptr;
  bool pinned = false;  // an input or output of the model: the name stays as it is
};

struct Subgraph {
  std::string_view attribute;
  DraftGraph* graph;
};

// What nodes call their operator, once for all of them.
struct DraftOperator {
  std::string_view domain, name;
  bool is_known = true;                      // false: nothing is declared of it
  const OperatorHistory* history = nullptr;  // null: it has none
  bool is_used = false;                      // by a node that remove_unused_nodes() left

  // Whether nodes may have to be fitted to that version of the domain.
  bool depends_on(int64_t opset) const { return history && (history->newest() > opset || history->removed); }
};

// The spans lie in the draft's arena.
struct DraftNode {
  DraftOperator* op = nullptr;
  std::string_view name;
  const AttributeSet* attributes = nullptr;
  std::span<const ValueId> inputs, outputs;
  std::span<const ValueId> captures;  // what an unknown operator's graphs, kept as bytes, refer to by name
  std::span<const Subgraph> subgraphs;
  const ir::Apply* origin = nullptr;
};

struct DraftGraph {
  std::string_view name;
  std::string_view domain;  // of a local function
  const ir::Annotation* annotation = nullptr;
  DraftGraph* parent = nullptr;  // null: the main graph or a local function
  std::vector<ValueId> inputs, outputs;
  LargeVector<DraftNode> nodes;  // operands before users

  DraftGraph* top() {
    DraftGraph* graph = this;
    while (graph->parent) graph = graph->parent;
    return graph;
  }
};

// A quantization_annotation of the main graph.
struct DraftQuantization {
  ValueId value = kOmitted;
  std::vector<std::pair<std::string_view, ValueId>> parameters = {};  // by role
};

class Draft {
 public:
  explicit Draft(ir::Context& context) : context_(context), values_(1) {}

  ir::Context& context() const { return context_; }
  DraftGraph& main() { return *main_; }
  const DraftGraph& main() const { return *main_; }
  // Local functions, each after those that it calls.
  const std::vector<DraftGraph*>& functions() const { return functions_; }

  DraftGraph* make_graph(std::string_view name, DraftGraph* parent);
  DraftOperator* find_operator(std::string_view domain, std::string_view name, bool is_known = true);
  const std::deque<DraftOperator>& operators() const { return operators_; }
  void set_main(DraftGraph* graph) { main_ = graph; }
  void add_function(DraftGraph* graph) { functions_.push_back(graph); }

  DraftValue& value(ValueId id) { return values_[id]; }
  const DraftValue& value(ValueId id) const { return values_[id]; }
  size_t num_values() const { return values_.size(); }
  void reserve_values(size_t count) { values_.reserve(count); }
  ValueId make_value(DraftGraph* graph, std::string_view name, const ir::Type* type, const ir::Node* origin = nullptr);
  ValueId make_constant(DraftGraph* graph, const Tensor* tensor, std::string_view name,
                        const ir::Node* origin = nullptr);
  // A constant that the module need not have; a small one that is there already serves.
  ValueId make_constant(DraftGraph* graph, Tensor tensor);
  // One of the module, once; it may be what was needed without it.
  ValueId place_constant(DraftGraph* graph, const ir::Value& constant);

  std::span<const ValueId> keep(std::span<const ValueId> ids) { return arena_.copy(ids); }
  std::span<const Subgraph> keep(std::span<const Subgraph> subgraphs) { return arena_.copy(subgraphs); }
  std::string_view keep(std::string_view text) { return arena_.copy(text); }
  const AttributeSet* keep(AttributeSet attributes) { return context_.attributes(std::move(attributes)); }

  // Removes nodes none of whose outputs is used.
  void remove_unused_nodes();
  // Keeps annotations of values that are left, and the constants that they name; the number of the others.
  size_t add_quantizations(std::span<const ir::Quantization> quantizations);
  const std::vector<DraftQuantization>& quantizations() const { return quantizations_; }
  // Gives every value in use its final name, and every node that has one a name that no other node of its graph at
  // the top has.
  void assign_names();
  // Calls visit(graph) for a graph and all its subgraphs, the outer before the inner.
  template <class Graph, class Visit>
  static void for_each_graph(Graph& graph, Visit&& visit) {
    visit(graph);
    for (const DraftNode& node : graph.nodes) {
      for (const Subgraph& subgraph : node.subgraphs) for_each_graph(*subgraph.graph, visit);
    }
  }
  // Constants in use below a graph at the top, in order of their first use.
  std::vector<ValueId> constants_of(const DraftGraph& top) const;

 private:
  // Constants with these bytes; null: such are not shared.
  std::vector<ValueId>* alike(const Tensor& tensor);

  ir::Context& context_;
  Arena arena_;
  LargeVector<DraftValue> values_;  // [kOmitted] is never used
  std::deque<DraftOperator> operators_;
  boost::unordered_flat_map<std::tuple<std::string_view, std::string_view, bool>, DraftOperator*> operator_index_;
  std::deque<DraftGraph> graphs_;
  std::deque<Tensor> tensors_;
  boost::unordered_flat_map<uint64_t, std::vector<ValueId>> small_constants_;  // by the hash of their bytes
  DraftGraph* main_ = nullptr;
  std::vector<DraftGraph*> functions_;
  std::vector<DraftQuantization> quantizations_;
};

}  // namespace anfora::onnx

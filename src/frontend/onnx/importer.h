// The inside of the importer, shared by its files: import.cc (the model), scope.cc (a graph and its names),
// import_node.cc (a node), import_function.cc (local functions), import_control.cc (If, Loop, Scan, SequenceMap),
// import_attention.cc (FlexAttention), upgrade*.cc (nodes of older operator sets).
//
// A graph is read in one pass over its nodes, in the order of the file: a node is parsed, its inputs are looked up by
// name, an application is made, its outputs are entered by name. Nothing of a node is kept but the application. Only
// when a node comes before its inputs are the nodes that are left sorted. Nested graphs are read when their node
// is; a name that they do not know is looked up in the graphs around them.
#pragma once

#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analysis/infer.h"
#include "frontend/onnx/attribute_proto.h"
#include "frontend/onnx/import.h"
#include "frontend/onnx/type_proto.h"
#include "ir/module.h"
#include "support/aligned_bytes.h"
#include "support/hash_index.h"

namespace anfora::onnx {

// Graphs nest at most this deep in a file. The importer recurses on them.
inline constexpr int kDeepestGraph = 100;
// Local functions are specialized per set of attribute values; a file can ask for exponentially many.
inline constexpr size_t kMostFunctionInstances = size_t{1} << 16;
// The newest version of the main domain whose semantics the declared operators have.
inline constexpr int64_t kNewestOpset = 28;

using Nodes = boost::container::small_vector<ir::Node*, 8>;
inline std::span<ir::Node* const> span_of(const Nodes& nodes) { return {nodes.data(), nodes.size()}; }

class Scope;
class Importer;

// A NodeProto, its attributes still bytes.
struct NodeFields {
  std::string_view name, op_type, domain, overload, doc;
  boost::container::small_vector<std::string_view, 4> inputs, outputs, attributes, properties;

  void read(std::string_view bytes);
  size_t num_outputs() const;  // without the omitted ones at the end
};
std::string describe(const NodeFields& node);  // "Conv 'layer1.conv'"

// A GraphProto, its parts still bytes.
struct GraphFields {
  std::string_view name, doc;
  std::vector<std::string_view> nodes, initializers, sparse_initializers, properties, quantizations;
  std::vector<std::string_view> inputs, outputs, value_infos;  // each a ValueInfoProto

  void read(std::string_view bytes);
};

using Opsets = boost::container::small_vector<std::pair<std::string_view, int64_t>, 4>;
Opsets::value_type read_opset(std::string_view bytes);
int64_t version_in(const Opsets& opsets, std::string_view domain);  // 0 when the domain is not imported

struct Function {  // a FunctionProto
  std::string_view name, domain, overload, doc;
  std::vector<std::string_view> inputs, outputs, attributes, nodes, value_infos;
  std::vector<std::string_view> attribute_defaults;  // each an AttributeProto
  std::vector<std::string_view> properties;
  Opsets opsets;
  size_t num_instances = 0;

  void read(std::string_view bytes);
};

// What the meaning of a node depends on beside itself: the imported operator sets, and within a function the values
// of the function's attributes.
struct Dialect {
  const Opsets* opsets;
  const AttributeSet* function_attributes = nullptr;
};

// Makes helper nodes that stand for one ONNX node.
struct Emitter {
  Importer& importer;
  ir::Graph* graph;
  const ir::Location* location;

  ir::Apply* emit(std::string_view op, std::initializer_list<ir::Node*> inputs, const AttributeSet& attributes = {},
                  size_t num_outputs = 1) const;
  ir::Apply* emit(std::string_view op, std::span<ir::Node* const> inputs, const AttributeSet& attributes = {},
                  size_t num_outputs = 1) const;
  ir::Node* ints(std::span<const int64_t> values) const;  // i64[n]
  ir::Node* ints(std::initializer_list<int64_t> values) const {
    return ints(std::span<const int64_t>(values.begin(), values.size()));
  }
  ir::Node* scalar(int64_t value) const;
  ir::Node* boolean(bool value) const;
};

// An ONNX node with its operands, on its way to becoming applications.
struct PendingNode {
  const NodeFields& fields;
  Scope& scope;
  Emitter emitter;
  std::string_view op_type, domain;
  int64_t version;  // of its domain
  Nodes inputs;
  std::vector<AttributeSet::Entry> attributes;
  std::vector<FileAttribute> others;  // graphs, and kinds that have no attribute value
  size_t num_outputs;

  bool has_input(size_t i) const;
  const FileAttribute* find_graph(std::string_view name) const;
};

// Value names of one graph, and of those around it.
class Scope {
 public:
  Scope(Importer& importer, ir::Graph* graph, Scope* parent, const Dialect& dialect, std::string place)
      : importer_(importer),
        graph_(graph),
        parent_(parent),
        dialect_(dialect),
        place_(std::move(place)),
        depth_(parent ? parent->depth_ + 1 : 0) {}

  ir::Graph* graph() const { return graph_; }
  const Dialect& dialect() const { return dialect_; }
  const std::string& place() const { return place_; }  // how errors call this graph
  int depth() const { return depth_; }

  // Throws InvalidModel when the graph has the name already.
  void define(std::string_view name, ir::Node* node);
  void redefine(std::string_view name, ir::Node* node);  // one that the graph has
  // The names of a tuple's items; empty names are omitted results. Items are made when they are asked for.
  void define_items(std::span<const std::string_view> names, ir::Node* tuple);
  bool knows(std::string_view name);
  // Null when no graph around knows the name.
  ir::Node* find(std::string_view name);
  ir::Node* resolve(std::string_view name);  // throws InvalidModel

  void define_initializers(const GraphFields& fields);
  // Of the main graph: those initializers become parameters with a default.
  void make_trainable(const std::function<bool(std::string_view)>& is_trainable);
  // What the graph says about its values, each a ValueInfoProto: types, for those of unknown operators; and which it
  // declares, with their documentation.
  void declare_values(std::span<const std::string_view> value_infos, std::span<const std::string_view> outputs = {});
  const ir::Type* declared_type(std::string_view name);

  void import_nodes(std::span<const std::string_view> nodes);
  void import_quantization(std::string_view bytes);  // a TensorAnnotation

 private:
  struct Binding {
    std::string_view name;
    ir::Node* node;
    int32_t item = -1;  // of the tuple `node`; −1: the node itself
  };
  void define(Binding binding);
  Binding* find_own(std::string_view name, uint64_t hash);  // null when this graph does not know the name
  void import_one(const NodeFields& fields, size_t index);
  bool is_ready(const NodeFields& fields);
  void import_sorted(std::span<const std::string_view> nodes, size_t first);

  Importer& importer_;
  ir::Graph* graph_;
  Scope* parent_;
  Dialect dialect_;
  std::string place_;
  int depth_;
  HashIndex index_;  // of bindings_, by name
  LargeVector<Binding> bindings_;
  std::pair<std::span<const std::string_view>, std::span<const std::string_view>> declared_;
  std::unique_ptr<boost::unordered_flat_map<std::string_view, const ir::Type*>> declared_types_;
};

class Importer {
 public:
  Importer(ir::Module& module, TensorSource source, std::string name)
      : module_(module), source_(std::move(source)), name_(std::move(name)), inference_(module) {}

  void import_model(std::string_view bytes, const ImportOptions& options);

  ir::Module& module() const { return module_; }
  ir::Context& context() const { return module_.context(); }
  const TensorSource& source() const { return source_; }

  // With the types that the rest of the model may rely on: without the names of dimensions that are not believed.
  ValueInfo read_declared(std::string_view value_info) const;

  // Reads a graph into `target` with `arguments` as its inputs; its results.
  struct Results {
    std::vector<ir::Node*> nodes;
    std::vector<const ir::Type*> types;  // as declared; null where they are not
  };
  Results import_graph(const GraphFields& fields, ir::Graph* target, Scope& parent,
                       std::span<ir::Node* const> arguments);
  void set_results(ir::Graph* graph, std::span<ir::Node* const> results);
  // An input of the main graph that has a default.
  ir::Parameter* add_input(ir::Graph* graph, const ir::Type* type, std::string_view name, ir::Value* otherwise);
  // What the file says about a graph goes to the graph that export makes it of.
  static void annotate(ir::Graph* graph, const GraphFields& fields);

  void import_node(Scope& scope, const NodeFields& fields, const ir::Location* location);
  // Names that the graphs of an attribute use but do not define, in order of first use. `depth`: of the graph that the
  // attribute is in.
  std::span<const std::string_view> free_names_of_attribute(std::string_view attribute_bytes, int depth);

  // The type of a node as far as it can be told now, null when it cannot: inferred on demand, operand by operand.
  const ir::Type* known_type(ir::Node* node);
  // Forgets what known_type() inferred: inference starts afresh, with the whole module.
  void forget_types();

 private:
  friend struct Emitter;
  void import_main(std::string_view bytes, const ImportOptions& options);

  // import_function.cc
  void index_functions();
  Function* find_function(const NodeFields& fields);  // null when the node calls none
  ir::Node* call_function(Function& function, PendingNode& node);
  void import_function_bodies();
  void check_recursion() const;

  ir::Node* import_operator(PendingNode& node);
  ir::Node* import_constant(PendingNode& node);
  void read_attributes(PendingNode& node);
  void keep_unknown_attributes(PendingNode& node);

  // import_control.cc
  ir::Node* import_control(PendingNode& node);  // null when the node has no graphs, or its operator none that is known
  ir::Node* import_if(PendingNode& node);
  ir::Node* import_loop(PendingNode& node);
  ir::Node* import_scan(PendingNode& node);
  ir::Node* import_sequence_map(PendingNode& node);
  ir::Node* import_gradient(PendingNode& node);
  ir::Node* import_flex_attention(PendingNode& node);  // import_attention.cc
  const ir::Type* type_of_result(const Results& results, size_t k);
  ir::Node* finish_control(const PendingNode& node, ir::Apply* call, size_t num_results);

  struct Instance {  // a function for given attribute values and given inputs
    Function* function;
    ir::Graph* graph;
    const AttributeSet* attributes;
    std::vector<bool> given;  // by input
    std::vector<size_t> callees;
  };

  ir::Module& module_;
  TensorSource source_;
  std::string name_;
  analysis::Inference inference_;
  Opsets opsets_;
  DimNames apart_;
  std::vector<Function> functions_;
  std::map<std::tuple<std::string_view, std::string_view, std::string_view>, size_t> function_index_;
  std::vector<Instance> instances_;
  std::map<std::tuple<Function*, const AttributeSet*, std::vector<bool>>, size_t> instance_index_;
  size_t current_instance_ = 0;  // whose body is being read
  bool is_reading_functions_ = false;
  boost::unordered_flat_map<const char*, std::vector<std::string_view>> free_names_;
  boost::unordered_flat_map<std::string_view, const ir::Operator*> main_operators_;
  boost::unordered_flat_map<std::string, size_t> places_;  // of nested graphs, and how many have it
  std::vector<bool> untypable_;                            // by node id
  LargeVector<ir::Apply*> typed_nodes_;                    // by known_type()
  size_t num_controls_ = 0;
};

}  // namespace anfora::onnx

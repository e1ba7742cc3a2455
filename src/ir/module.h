// Modules and graphs: what owns nodes, and the only code that makes, rewires and erases them.
//
//     Context context;                                       // or ops::make_context()
//     Module module(context);
//     Graph* main = module.make_graph("main");
//     Node* x = module.add_parameter(main, context.tensor_type(DType::F32, {n, d}), "x");
//     Node* y = module.apply(main, context.get_operator("Relu"), {x});
//     module.set_result(main, y);
//     module.set_main(main);
#pragma once

#include <boost/container/small_vector.hpp>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/context.h"
#include "ir/node.h"
#include "support/arena.h"

namespace anfora::ir {

struct Annotation;
struct ModuleOrder;
class Annotations;

// A function: parameters and one result. It may use nodes of the graphs that enclose it (free variables).
// A graph that returns several values returns a tuple.
class Graph {
 public:
  std::string_view name() const { return name_; }
  Module& module() const { return *module_; }
  Graph* parent() const { return parent_; }     // null at the top level
  bool is_inside(const Graph* ancestor) const;  // also true for the graph itself
  int depth() const;

  std::span<Parameter* const> parameters() const { return parameters_; }
  Parameter* parameter(size_t i) const { return parameters_[i]; }
  // The Return application, null while the graph is a stub.
  Apply* return_node() const { return return_; }
  Node* result() const { return return_ ? return_->input(0) : nullptr; }

  // Applications that belong to this graph, in order of creation; dead ones included until erased.
  Apply* first_node() const { return first_; }
  size_t num_nodes() const { return num_nodes_; }
  // The constant that stands for this function where it is used; its use list is the list of call sites.
  Value* value() const { return value_; }

  // What the source calls the graph and says about it, see ir/annotations.h; null: nothing.
  const std::shared_ptr<const Annotation>& annotation() const { return annotation_; }
  void set_annotation(std::shared_ptr<const Annotation> annotation) { annotation_ = std::move(annotation); }

 private:
  friend class Module;
  std::string name_;
  Module* module_ = nullptr;
  Graph* parent_ = nullptr;
  std::vector<Parameter*> parameters_;
  Apply* return_ = nullptr;
  Apply* first_ = nullptr;
  Apply* last_ = nullptr;
  size_t num_nodes_ = 0;
  Value* value_ = nullptr;
  std::shared_ptr<const Annotation> annotation_;
};

// Hears of every change to a module.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void on_created(Node&) {}
  virtual void on_replaced(Node& /*old_node*/, Node& /*new_node*/) {}  // before the uses move
  virtual void on_operand_changed(Apply& /*user*/, size_t /*index*/) {}
  virtual void on_erased(Node&) {}  // still intact
};

// What the source said about the module, carried through to export.
struct Metadata {
  std::string producer, producer_version, domain, doc, graph_name, graph_doc;
  int64_t model_version = 0;
  int64_t ir_version = 0;
  std::map<std::string, int64_t, std::less<>> opsets;  // by domain
  std::vector<std::pair<std::string, std::string>> properties, graph_properties;
  // Types of main's results as declared; null where they are not. Export falls back on them where inference finds less.
  std::vector<const Type*> output_types;
};

class Module {
 public:
  explicit Module(Context& context);
  ~Module();
  Module(const Module&) = delete;

  Context& context() const { return context_; }
  Metadata& metadata() { return metadata_; }
  const Metadata& metadata() const { return metadata_; }
  // The same for its parts (ir/annotations.h).
  Annotations& annotations() { return *annotations_; }
  const Annotations& annotations() const { return *annotations_; }

  // Graphs ------------------------------------------------------------------------------------------
  // A stub without parameters and result. Names are made unique by a suffix.
  Graph* make_graph(std::string_view name, Graph* parent = nullptr);
  std::span<Graph* const> graphs() const { return graphs_; }  // in order of creation, main included
  Graph* find_graph(std::string_view name) const;
  Graph* main() const { return main_; }
  void set_main(Graph* graph) {
    main_ = graph;
    ++version_;
  }
  // Moves a graph below another parent (null: the top level). The verifier checks its free variables.
  void set_parent(Graph* graph, Graph* parent) {
    graph->parent_ = parent;
    ++version_;
  }
  // Names of main's results, as the source gave them; as many as main has results.
  std::vector<std::string>& output_names() { return output_names_; }
  const std::vector<std::string>& output_names() const { return output_names_; }

  // A parameter of main that may be left out has a default: an ONNX initializer that is also an input. It is
  // not a constant, since a caller may override it. Null when there is none.
  void set_default(Parameter* parameter, Value* value) { defaults_[parameter] = value; }
  Value* default_of(const Parameter* parameter) const {
    auto found = defaults_.find(parameter);
    return found == defaults_.end() ? nullptr : found->second;
  }

  // Nodes -------------------------------------------------------------------------------------------
  Parameter* add_parameter(Graph* graph, const Type* type, std::string_view name = {});
  // Removes a parameter without uses; those behind it move up. The caller adapts the call sites.
  void remove_parameter(Parameter* parameter);

  // The constant with that content; equal contents are one node. Big tensors are compared, not hashed whole.
  Value* constant(Tensor tensor, std::string_view name = {});
  template <class T>
  Value* scalar(T value);
  Value* none();
  Value* type(const Type* type);  // as a value
  Value* function(Graph* graph) { return graph->value(); }

  // An application of `op` in `graph`. `num_outputs` > 1 makes it a tuple of that many results.
  Apply* apply(Graph* graph, const Operator& op, std::span<Node* const> inputs, const AttributeSet& attributes = {},
               size_t num_outputs = 1, const Location* location = nullptr, std::string_view name = {});
  Apply* apply(Graph* graph, const Operator& op, std::initializer_list<Node*> inputs,
               const AttributeSet& attributes = {}, size_t num_outputs = 1, const Location* location = nullptr,
               std::string_view name = {}) {
    return apply(graph, op, std::span<Node* const>(inputs.begin(), inputs.size()), attributes, num_outputs, location,
                 name);
  }
  // The same with an already interned attribute set.
  Apply* apply_interned(Graph* graph, const Operator& op, std::span<Node* const> inputs, const AttributeSet* attributes,
                        size_t num_outputs = 1, const Location* location = nullptr, std::string_view name = {});

  // Short hands for the primitives; the location is that of the first operand that has one.
  Apply* call(Graph* graph, Node* callee, std::span<Node* const> arguments);
  Apply* make_switch(Graph* graph, Node* condition, Node* if_true, Node* if_false);
  Apply* make_tuple(Graph* graph, std::span<Node* const> items);
  // Item i of a tuple; of a MakeTuple, the item itself.
  Node* tuple_item(Graph* graph, Node* tuple, size_t index);
  // Sets or changes the result of a graph; several results go through make_tuple.
  void set_result(Graph* graph, Node* result);

  // A copy that lives as long as the module, texts included.
  const Location* location(const Location& location);
  // That of a node at `location` whose graph was inlined where `call` is; the same pointer for the same two. Without one
  // of the two, `location`.
  const Location* inlined(const Location* location, const Location* call);
  void set_name(Node* node, std::string_view name);

  // Changes -----------------------------------------------------------------------------------------
  void set_operand(Apply* user, size_t index, Node* node);
  // All uses of `old_node` become uses of `new_node`. The name and location of the old node are taken over
  // where the new one has none.
  void replace(Node* old_node, Node* new_node);
  // Erases an application that has no uses; its operands stay.
  void erase(Apply* node);
  // Erases it and then every operand that thereby loses its last use and is an application. Iterative.
  void erase_with_dead_operands(Apply* node);
  // Erases applications and whole graphs that use only each other, in any order.
  void erase_dead(std::span<Apply* const> nodes, std::span<Graph* const> graphs);
  void set_attributes(Apply* node, const AttributeSet& attributes);
  // Moves an application to another graph.
  void move(Apply* node, Graph* graph);

  void add_listener(Listener* listener) { listeners_.push_back(listener); }
  void remove_listener(Listener* listener) { std::erase(listeners_, listener); }

  // Gives nodes the ids that they had when the module was written as text; the others get ids that are free. Only
  // while nothing else refers to ids.
  void renumber(std::span<const std::pair<Node*, uint32_t>> ids);
  uint32_t next_id() const { return next_id_; }  // larger than every id: the size of side tables
  // Applications of operators, which a model's reader calls its nodes: no tuples, returns or calls. Dead ones included.
  size_t num_operations() const { return num_operations_; }
  // Another number after every change of nodes, operands or graphs; types, names and attributes may change without.
  uint64_t version() const { return version_; }
  size_t node_bytes() const { return nodes_.used_bytes() + texts_.used_bytes(); }
  std::span<Value* const> constants() const { return constants_; }  // tensor constants, unused ones included
  // Frees the tensors of constants that nothing uses, such as weights before something was folded into them. They may not be used
  // again; nor is any walk over constants() under way.
  void erase_unused_constants();
  // The same where enough has been made since the last time that the walk over all costs nothing beside it.
  void erase_unused_constants_at_times();
  // Keeps something (a mapped file) alive as long as the module.
  void keep_alive(std::shared_ptr<void> object) { owned_.push_back(std::move(object)); }

 private:
  struct Tables;
  template <class N>
  N* init(N* node, Graph* graph, const Type* type, std::string_view name);
  void link(Use& use, Node* node);
  void unlink(Use& use);
  void append(Graph* graph, Apply* node);
  void remove(Apply* node);
  void finish_erasing(Apply* node);

  Context& context_;
  // Names and locations lie apart: nearly every walk over the nodes does without them.
  Arena nodes_, texts_;
  Metadata metadata_;
  std::unique_ptr<Annotations> annotations_;
  std::vector<std::unique_ptr<Graph>> owned_graphs_;
  std::vector<Graph*> graphs_;
  Graph* main_ = nullptr;
  std::vector<std::string> output_names_;
  std::map<const Parameter*, Value*> defaults_;
  std::unique_ptr<Tables> tables_;
  std::vector<Value*> constants_;
  std::vector<uint64_t> fingerprints_;  // of their elements
  size_t bytes_made_ = 0;  // of constants, since the unused ones were erased
  Value* none_ = nullptr;
  std::vector<Listener*> listeners_;
  std::vector<std::shared_ptr<void>> owned_;
  uint32_t next_id_ = 0;
  size_t num_operations_ = 0;
  uint64_t version_ = 0;
  friend std::shared_ptr<const ModuleOrder> shared_order(Module&);
  std::shared_ptr<const ModuleOrder> order_;  // of version `order_version_`; null: not asked for
  uint64_t order_version_ = 0;
};

// RAII registration.
class ListenerScope {
 public:
  ListenerScope(Module& module, Listener& listener) : module_(module), listener_(listener) {
    module_.add_listener(&listener_);
  }
  ~ListenerScope() { module_.remove_listener(&listener_); }
  ListenerScope(const ListenerScope&) = delete;

 private:
  Module& module_;
  Listener& listener_;
};

}  // namespace anfora::ir

#include "support/element_types.h"

namespace anfora::ir {
template <class T>
Value* Module::scalar(T value) {
  return constant(Tensor::scalar<T>(value));
}
}  // namespace anfora::ir

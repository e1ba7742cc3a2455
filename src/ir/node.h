// Nodes. A node is a parameter of a graph, a constant value, or the application of an operator to nodes.
//
// Nodes are arena-allocated, never moved and never freed before their module. A node is created, replaced
// and erased only through its Module, which keeps the use lists and tells listeners.
//
// An application's inputs are Use records laid out behind the node; each record is also a link in the use list
// of the node it refers to:
//
//     Apply │ Use 0 │ Use 1 │ …          input(0)->uses() ∋ Use 0
#pragma once

#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>

#include "ir/operator.h"
#include "ir/type.h"
#include "support/attribute.h"

namespace anfora::ir {

class Apply;
class Graph;
class Module;
class Node;
class Parameter;
class Value;

// Where a node came from. Lies in the module's arena; shared by all nodes of one origin.
struct Location {
  std::string_view file;                 // "model.onnx", "model.py"
  std::string_view name = {};            // the name of the node there; may be empty
  int32_t index = -1;                    // its position there; −1: none
  int32_t line = 0, column = 0;          // in a text, from 1; 0: none
  const Location* inlined_at = nullptr;  // the call whose callee this node was written in, once it was inlined
  const Location* origin = nullptr;      // the location before inlining; null: this one

  const Location* before_inlining() const { return origin ? origin : this; }
};
// "fc (model.onnx: node 3)", "model.py:12:5", "fc (layer: node 3), inlined at layer0 (model.onnx: node 7)"
std::string to_string(const Location& location);

struct Use {
  Node* node = nullptr;   // what is used
  Apply* user = nullptr;  // who uses it
  Use* next = nullptr;
  Use** link = nullptr;  // the pointer that points at this record
  size_t index() const;  // which input of the user this is
};

enum class NodeKind : uint8_t { Parameter, Value, Apply };

class UseRange {
 public:
  class iterator {
   public:
    using value_type = Use;
    using difference_type = std::ptrdiff_t;
    explicit iterator(const Use* use = nullptr) : use_(use) {}
    const Use& operator*() const { return *use_; }
    const Use* operator->() const { return use_; }
    iterator& operator++() {
      use_ = use_->next;
      return *this;
    }
    iterator operator++(int) {
      iterator old = *this;
      ++*this;
      return old;
    }
    friend bool operator==(iterator, iterator) = default;

   private:
    const Use* use_;
  };
  explicit UseRange(const Use* first) : first_(first) {}
  iterator begin() const { return iterator(first_); }
  iterator end() const { return iterator(); }
  bool empty() const { return !first_; }

 private:
  const Use* first_;
};

class Node {
 public:
  NodeKind kind() const { return kind_; }
  uint32_t id() const { return id_; }         // unique in the module, never reused
  const Type* type() const { return type_; }  // null until inferred
  void set_type(const Type* type) { type_ = type; }
  Graph* graph() const { return graph_; }  // null for constants, which belong to the module
  const Location* location() const { return location_; }
  void set_location(const Location* location) { location_ = location; }
  // The name of the value in its source, for people and for export; may be empty, need not be unique.
  std::string_view name() const { return name_size_ ? std::string_view(name_, name_size_) : std::string_view(); }

  UseRange uses() const { return UseRange(first_use_); }
  bool has_uses() const { return first_use_ != nullptr; }
  bool has_one_use() const { return first_use_ && !first_use_->next; }
  bool is_erased() const { return erased_; }

  bool is_apply() const { return kind_ == NodeKind::Apply; }
  bool is_parameter() const { return kind_ == NodeKind::Parameter; }
  bool is_value() const { return kind_ == NodeKind::Value; }
  // Null when the node is of another kind.
  inline Apply* as_apply();
  inline const Apply* as_apply() const;
  inline Parameter* as_parameter();
  inline const Parameter* as_parameter() const;
  inline Value* as_value();
  inline const Value* as_value() const;
  // The application when it is of that primitive, else null.
  inline Apply* as(Primitive primitive);
  inline const Apply* as(Primitive primitive) const;

 protected:
  friend class Module;
  explicit Node(NodeKind kind) : kind_(kind) {}

  NodeKind kind_;
  bool erased_ = false;
  uint16_t num_outputs_ = 1;
  uint32_t id_ = 0;
  const Type* type_ = nullptr;
  Graph* graph_ = nullptr;
  Use* first_use_ = nullptr;
  const Location* location_ = nullptr;
  const char* name_ = nullptr;
  uint32_t name_size_ = 0;
  uint32_t num_inputs_ = 0;  // of an application; the index of a parameter
};

class Parameter : public Node {
 public:
  size_t index() const { return num_inputs_; }
  // Of main: whether the caller gives the memory of the argument away, so that a result may lie there.
  bool is_donated() const { return is_donated_; }
  void set_donated(bool is_donated) { is_donated_ = is_donated; }

 private:
  friend class Module;
  Parameter() : Node(NodeKind::Parameter) {}
  bool is_donated_ = false;
};

// A constant: a tensor, a graph as a function, a type, or None (an omitted optional input).
class Value : public Node {
 public:
  bool is_tensor() const { return tensor_ != nullptr; }
  bool is_graph() const { return function_ != nullptr; }
  bool is_none() const { return !tensor_ && !function_ && !is_type(); }
  bool is_type() const { return type_ && type_->kind() == TypeKind::Type; }
  const Tensor& tensor() const { return *tensor_; }  // only when is_tensor()
  Graph* function() const { return function_; }      // null unless is_graph()
  const Type* described() const { return type_->element(); }  // only when is_type()

 private:
  friend class Module;
  Value() : Node(NodeKind::Value) {}
  const Tensor* tensor_ = nullptr;
  Graph* function_ = nullptr;
};

class Apply : public Node {
 public:
  const Operator& op() const { return *op_; }
  Primitive primitive() const { return op_->primitive; }
  bool is(std::string_view qualified) const { return op_->qualified == qualified; }
  const AttributeSet& attributes() const { return *attributes_; }

  size_t num_inputs() const { return num_inputs_; }
  Node* input(size_t i) const { return operands()[i].node; }
  // Whether input i is there: in range and not None.
  bool has_input(size_t i) const;
  std::span<const Use> operands() const { return {reinterpret_cast<const Use*>(this + 1), num_inputs_}; }
  // The number of results. With one, the node is the result; with several, it is a tuple of them.
  size_t num_outputs() const { return num_outputs_; }

  // Nodes of a graph are linked in order of creation, which has no meaning but is deterministic.
  Apply* next_in_graph() const { return next_; }

 private:
  friend class Module;
  friend class Graph;
  friend struct Use;
  Apply() : Node(NodeKind::Apply) {}
  Use* mutable_operands() { return reinterpret_cast<Use*>(this + 1); }
  const Operator* op_ = nullptr;
  const AttributeSet* attributes_ = nullptr;
  Apply* next_ = nullptr;
  Apply* previous_ = nullptr;
};

inline size_t Use::index() const { return static_cast<size_t>(this - user->operands().data()); }
inline Apply* Node::as_apply() { return is_apply() ? static_cast<Apply*>(this) : nullptr; }
inline const Apply* Node::as_apply() const { return is_apply() ? static_cast<const Apply*>(this) : nullptr; }
inline Parameter* Node::as_parameter() { return is_parameter() ? static_cast<Parameter*>(this) : nullptr; }
inline const Parameter* Node::as_parameter() const {
  return is_parameter() ? static_cast<const Parameter*>(this) : nullptr;
}
inline Value* Node::as_value() { return is_value() ? static_cast<Value*>(this) : nullptr; }
inline const Value* Node::as_value() const { return is_value() ? static_cast<const Value*>(this) : nullptr; }
inline Apply* Node::as(Primitive primitive) {
  Apply* apply = as_apply();
  return apply && apply->primitive() == primitive ? apply : nullptr;
}
inline const Apply* Node::as(Primitive primitive) const { return const_cast<Node*>(this)->as(primitive); }

// The tensor of a constant, or null.
inline const Tensor* constant_tensor(const Node* node) {
  const Value* value = node ? node->as_value() : nullptr;
  return value && value->is_tensor() ? &value->tensor() : nullptr;
}
// The graph of a constant function, or null.
inline Graph* constant_function(const Node* node) {
  const Value* value = node ? node->as_value() : nullptr;
  return value ? value->function() : nullptr;
}

// For walks from users to operands. Operands are mostly made shortly before their users, so such a walk goes backwards
// through memory: this asks for what it will need some nodes later.
inline void prefetch_before(const Node& node) {
  constexpr uintptr_t kDistance = 1024;
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(&node) - kDistance));
}

// "Conv 'layer1.conv'": how errors and remarks call a node.
std::string describe(const Node& node);

}  // namespace anfora::ir

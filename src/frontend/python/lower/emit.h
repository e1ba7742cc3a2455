// Makes nodes of the graph at a place of the source, each typed at once, since what a line of Python means depends on the types of its
// operands: numpy's and Python's arithmetic by the operators of ONNX.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "analysis/infer.h"
#include "frontend/python/lower/object.h"
#include "frontend/python/lower/size_assumptions.h"
#include "ir/builder.h"
#include "ir/module.h"

namespace anfora::python {

class Emitter {
 public:
  explicit Emitter(ir::Module& module) : module_(module), inference_(module) {}

  ir::Module& module() const { return module_; }
  analysis::Inference& inference() { return inference_; }
  ir::Graph* graph() const { return graph_; }
  void set_graph(ir::Graph* graph) { graph_ = graph; }

  // Where the source is that is lowered. Errors and locations of nodes show it; in a function of the library, the call of that.
  struct Place {
    const Source* source = nullptr;
    const Tree* tree = nullptr;
    const Source* shown_source = nullptr;
    const Tree* shown_tree = nullptr;
  };
  const Place& place() const { return place_; }
  // What is shown follows from the rest, unless it is given.
  void set_place(Place place);
  [[noreturn]] void fail(ErrorCode code, std::string_view message, std::string_view hint = {}) const;
  const ir::Location* location();
  // Sizes that are symbols may be assumed to be what makes types simpler. Without, nothing is.
  void set_assumptions(SizeAssumptions* assumptions) { assumptions_ = assumptions; }

  // An application of a declared operator, typed. What its declaration refuses is an error at this place.
  ir::Node* apply(std::string_view op, std::span<ir::Node* const> inputs, const AttributeSet& attributes,
                  size_t num_outputs = 1);
  ir::Node* op(std::string_view op, std::initializer_list<ir::Node*> inputs,
               std::initializer_list<ir::NamedAttribute> attributes = {}, size_t num_outputs = 1);
  ir::Node* item(ir::Node* tuple, size_t index);

  ir::Node* integer(int64_t value) { return module_.scalar(value); }
  ir::Node* integers(std::span<const int64_t> values);
  ir::Node* integers(std::initializer_list<int64_t> values) {
    return integers(std::span(values.begin(), values.size()));
  }
  // Of that element type, rank 0; an error where an integer does not fit it.
  ir::Node* constant(const Constant& number, DType dtype);
  ir::Node* cast(ir::Node* node, DType dtype);

  // A number, tensor, or nested tuple of them, as a tensor. An error for what is none.
  ir::Node* tensor(const Object& object);
  ir::Node* tensor(const Object& object, DType dtype);
  // Whether it can be one: a number that is known, or a node.
  static bool is_numeric(const Object& object) { return is_known_number(object) || object.is<Array>(); }
  static bool is_number(const Object& object) {
    const auto* array = object.as<Array>();
    return is_known_number(object) || (array && array->is_number && array->node->type()->is_tensor());
  }
  // The element type that it has by itself: i64 of an int, f64 of a float.
  DType dtype(const Object& object) const;

  // Element type of an operation on both, by numpy's rules (NEP 50): numbers of Python take that of a tensor where they can.
  DType promoted(const Object& a, const Object& b) const;

  // Kinds as in the tree: Add … MatMult, Eq … GtE, USub … Not. Operands are numeric.
  Object binary(Kind op, const Object& a, const Object& b);
  Object compare(Kind op, const Object& a, const Object& b);
  Object unary(Kind op, const Object& a);
  // Whether it counts as true, as bool[]. Where it is known, a Constant.
  Object truth(const Object& object);
  ir::Node* truth_node(const Object& object) { return tensor(truth(object), DType::Bool); }

  // The size of an axis: known, or a number.
  Object size(ir::Node* tensor, int axis);
  int rank(ir::Node* tensor) const;  // an error where it is not known
  // A number that a run knows; known where inference knows its value.
  Object number(ir::Node* node);
  // A vector of i64 of sizes or positions.
  ir::Node* vector(std::span<const Object> numbers);

 private:
  std::optional<Integer> exact_integer(Kind op, const Constant& a, const Constant& b) const;
  ir::Node* computed_in(DType other, DType type, std::string_view operation, ir::Node* x, ir::Node* y);
  ir::Node* is_of_other_sign(ir::Node* rest, ir::Node* b);
  ir::Node* shift_right(ir::Node* a, ir::Node* by, std::optional<int64_t> known);
  ir::Node* floor_divide(ir::Node* a, ir::Node* b);
  ir::Node* remainder(ir::Node* a, ir::Node* b);

  ir::Module& module_;
  analysis::Inference inference_;
  ir::Graph* graph_ = nullptr;
  SizeAssumptions* assumptions_ = nullptr;
  Place place_;
  const Tree* located_ = nullptr;
  const ir::Location* location_ = nullptr;
};

// numpy's result type of two element types: an integer beside a float takes a float that holds it.
DType promoted(DType a, DType b);

}  // namespace anfora::python

// The interface between operator declarations and type inference: what an operator may ask about one of its
// applications, and what it answers.
#pragma once

#include <boost/container/small_vector.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "anfora/error.h"
#include "ir/context.h"

namespace anfora::ops {

using ir::Dim;
using ir::Type;
using Dims = boost::container::small_vector<Dim, 6>;

// Integer tensors of rank 0 or 1 with at most this many elements are tracked element by element as symbolic
// expressions, so that shape arithmetic in a model is evaluated as it is inferred.
inline constexpr size_t kMostTrackedElements = 64;

class InferenceContext {
 public:
  virtual ~InferenceContext() = default;
  InferenceContext(ir::Context& context, const ir::Operator& op, const AttributeSet& attributes)
      : context_(context), op_(op), attributes_(attributes) {}

  ir::Context& context() const { return context_; }
  const ir::Operator& op() const { return op_; }
  const AttributeSet& attributes() const { return attributes_; }
  // An attribute, with the declared default where it is absent.
  int64_t attribute_int(std::string_view name) const;
  float attribute_float(std::string_view name) const;
  std::string attribute_string(std::string_view name) const;

  virtual size_t num_inputs() const = 0;
  virtual size_t num_outputs() const = 0;
  // The type of input i; the None type when omitted or past the end. Never null.
  virtual const Type* input(size_t i) const = 0;
  // The tensor when input i is a constant, else null.
  virtual const Tensor* constant(size_t i) const = 0;
  // The elements of input i as expressions, when it is a constant or tracked tensor of integers or bools of rank 0 or 1;
  // single unknown elements are `?`. Empty when nothing is known.
  virtual std::optional<Dims> elements(size_t i) const = 0;

  virtual void set_output(size_t i, const Type* type) = 0;
  // What is known of the elements of output i (rank 0 or 1; as many as it has elements).
  virtual void set_elements(size_t i, Dims elements) = 0;
  // What a flops function reads: the inferred output types.
  virtual const Type* output(size_t i) const = 0;

  // A dimension known only at run time, the same each time this application is inferred; `index` tells
  // several of one application apart.
  virtual Dim fresh_dim(size_t index = 0) = 0;

  // Conveniences ------------------------------------------------------------------------------------
  bool has_input(size_t i) const { return i < num_inputs() && !input(i)->is_none(); }
  Dim dim(int64_t value) const { return context_.dims().constant(value); }
  Dim unknown() const { return context_.dims().unknown(); }
  // The dtype of tensor input i; Undefined when not known.
  DType dtype(size_t i) const { return input(i)->is_tensor() ? input(i)->dtype() : DType::Undefined; }
  // The rank of tensor input i if known.
  std::optional<int> rank(size_t i) const;
  std::optional<Dims> dims(size_t i) const;
  // Throws TypeMismatch where a dimension is negative.
  void set_tensor(size_t i, DType dtype, std::span<const Dim> dims);
  void set_unranked(size_t i, DType dtype) { set_output(i, context_.unranked_type(dtype)); }
  // Elements of input i as integers, when all are constant.
  std::optional<std::vector<int64_t>> constant_integers(size_t i) const;
  // The axis in [0, rank); throws TypeMismatch when it is out of range.
  int normalize_axis(int64_t axis, int rank) const;

  // Throws TypeMismatch; the engine adds node and location.
  [[noreturn]] void fail(std::string message, std::string hint = {}) const;

 private:
  ir::Context& context_;
  const ir::Operator& op_;
  const AttributeSet& attributes_;
};

}  // namespace anfora::ops

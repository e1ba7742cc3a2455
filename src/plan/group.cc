#include "plan/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>

#include "analysis/cost.h"
#include "analysis/flops.h"
#include "analysis/group_space.h"
#include "analysis/group_view.h"
#include "ir/order.h"
#include "support/element_types.h"

namespace anfora::plan {
namespace {

using namespace ir;

// For each axis of the space, whether the tensor walks along it (1) or is repeated (0).
void append_axes(const Type* tensor, const Type* space, std::vector<int64_t>& axes) {
  for (int i = 0; i < space->rank(); ++i) {
    const int at = i - (space->rank() - tensor->rank());
    axes.push_back(at >= 0 && provably_equal(tensor->dim(at), space->dim(i)) ? 1 : 0);
  }
}

std::string text_of_number(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::Bool: return tensor.data<bool>()[0] ? "true" : "false";
    case DType::I8: return fmt::format("({})", tensor.data<int8_t>()[0]);
    case DType::U8: return fmt::format("({})", tensor.data<uint8_t>()[0]);
    case DType::I32: return fmt::format("#{}i", tensor.data<int32_t>()[0]);
    case DType::I64: return fmt::format("#{}l", tensor.data<int64_t>()[0]);
    default: return fmt::format("({})", tensor.data<float>()[0]);
  }
}

class GroupWriter {
 public:
  explicit GroupWriter(const Graph& function) : function_(function) {}

  std::optional<AttributeSet> run() {
    const LargeVector<Apply*> nodes = topological_order(function_);
    boost::unordered_flat_set<const Node*> cut;  // what is read in place, and the operators that it is of
    std::vector<int64_t> views;
    for (const Parameter* parameter : function_.parameters()) {
      const Node& read = analysis::read_of(*parameter);
      if (&read != parameter) {
        const analysis::GroupView view = *analysis::group_view(read);
        cut.insert({&read, view.cut});
        views.insert(views.end(), {std::ssize(numbers_), std::ssize(view.axes)});
        for (const auto& axis : view.axes) views.insert(views.end(), {axis.from, axis.begin, axis.size});
      }
      define(read);
    }
    std::optional<analysis::GroupSpace> space;
    for (const Apply* node : nodes) {
      if (node->primitive() != Primitive::Operation || cut.contains(node)) continue;
      const auto own = analysis::group_space(*node);
      space = !own ? std::nullopt : space ? analysis::GroupSpace::joined(*space, *own) : own;
      if (!space || !add_statement(*node)) return std::nullopt;
    }
    if (!space) return std::nullopt;
    for (const Apply* node : nodes) {
      // Sums whose axis has gone are numbers of rows here, and of other axes to who reads them.
      const bool is_read = std::ranges::any_of(
          node->uses(), [](const Use& use) { return use.user->primitive() == Primitive::Operation; });
      if (is_read && !cut.contains(node) && node->type()->rank() < space->type->rank()) return std::nullopt;
    }
    std::vector<int64_t> axes, output_axes, output_ranks, output_types, outputs;
    for (const Parameter* parameter : function_.parameters()) append_axes(analysis::read_of(*parameter).type(), space->type, axes);
    const Apply* tuple = function_.result()->as(Primitive::MakeTuple);
    std::vector<const Node*> results;
    if (tuple) {
      for (const Use& use : tuple->operands()) results.push_back(use.node);
    } else {
      results.push_back(function_.result());
    }
    for (const Node* result : results) {
      auto found = numbers_.find(result);
      if (found == numbers_.end()) return std::nullopt;
      outputs.push_back(found->second);
      // Where the last axis is dropped, the result has a number for each row nevertheless.
      const bool drops_last = result->type()->rank() < space->type->rank();
      output_types.push_back(static_cast<int64_t>(result->type()->dtype()));
      output_ranks.push_back(result->type()->rank());
      if (drops_last) {
        for (int i = 0; i < space->type->rank(); ++i) output_axes.push_back(i + 1 < space->type->rank() ? 1 : 0);
      } else {
        append_axes(result->type(), space->type, output_axes);
      }
    }
    return AttributeSet({{"rank", int64_t{space->type->rank()}},
                         {"reduces", int64_t{space->reduces ? 1 : 0}},
                         {"axes", std::move(axes)},
                         {"views", std::move(views)},
                         {"statements", std::move(statements_)},
                         {"outputs", std::move(outputs)},
                         {"output_axes", std::move(output_axes)},
                         {"output_types", std::move(output_types)},
                         {"output_ranks", std::move(output_ranks)}});
  }

 private:
  void define(const Node& node) { numbers_.emplace(&node, static_cast<int64_t>(numbers_.size())); }

  bool add_statement(const Apply& node) {
    const ops::ScalarForm& form = *ops::scalar_form(node);
    std::vector<std::string> operands;
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      std::string text;
      if (const Tensor* tensor = constant_tensor(node.input(i)); tensor && ops::is_scalar_operand(form, i)) {
        if (tensor->size() != 1) return false;
        text = text_of_number(*tensor);
      } else if (node.has_input(i) && ops::is_scalar_operand(form, i)) {
        auto found = numbers_.find(node.input(i));
        if (found == numbers_.end()) return false;
        text = fmt::format("%{}", found->second);
      }
      operands.push_back(std::move(text));
    }
    statements_.push_back(ops::scalar_statement(node, form, operands));
    define(node);
    return true;
  }

  const Graph& function_;
  boost::unordered_flat_map<const Node*, int64_t> numbers_;
  std::vector<std::string> statements_;
};

}  // namespace

std::optional<AttributeSet> group_attributes(const ir::Graph& function) { return GroupWriter(function).run(); }

double flops_per_element(const ir::Graph& function) {
  Context& context = function.module().context();
  auto sized = [&](const Type* type) {
    if (!type->is_tensor() || type->is_static()) return type;
    std::vector<Dim> dims;
    for (Dim dim : type->dims()) {
      dims.push_back(dim.is_constant() ? dim : context.dims().constant(analysis::kAssumedDim));
    }
    return context.tensor_type(type->dtype(), dims);
  };
  double flops = 0, elements = 1;
  for (const Apply* node : topological_order(function)) {
    if (node->primitive() != Primitive::Operation) continue;
    const auto iterated = analysis::group_space(*node);
    if (!iterated) continue;  // reads a part of an operand in place
    std::vector<const Type*> inputs;
    for (const Use& use : node->operands()) inputs.push_back(sized(use.node->type()));
    const Type* output = sized(node->type());
    flops += analysis::flops_of(context, node->op(), node->attributes(), inputs, std::span(&output, 1));
    const Type* space = sized(iterated->type);
    double own = 1;
    for (Dim dim : space->dims()) own *= static_cast<double>(dim.constant());
    elements = std::max(elements, own);
  }
  return flops / elements;
}

}  // namespace anfora::plan

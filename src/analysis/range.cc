#include "analysis/range.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cmath>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "ops/ranges.h"
#include "support/element_types.h"
#include "support/passing_elements.h"

namespace anfora::analysis {

using namespace ir;

namespace {

// Elements of a constant that are read to find its bounds.
constexpr int64_t kMostReadElements = 1 << 16;

constexpr double kMostExact = 0x1p53;  // integers up to there are doubles

ValueRange of_constant(const Tensor& t, const Type* type) {
  if (t.size() == 0 || t.size() > kMostReadElements) return {};
  if (t.dtype() == DType::Bool) {
    auto values = t.data<bool>();
    return {std::ranges::all_of(values, std::identity()) ? 1.0 : 0.0,
            std::ranges::any_of(values, std::identity()) ? 1.0 : 0.0, false};
  }
  if ((!is_integer(t.dtype()) && !ops::holds_floats(type)) || element_bits(t.dtype()) < 8) return {};
  return dispatch<Numbers>(t.dtype(), [&]<class T>() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    ValueRange r{kInfinity, -kInfinity, false};
    const PassingElements elements(t);
    for (T element : std::span(elements.data<T>(), static_cast<size_t>(t.size()))) {
      double x = static_cast<double>(static_cast<ComputeType<T>>(element));
      r.may_be_nan = r.may_be_nan || std::isnan(x);
      if (x < r.low) r.low = x;
      if (x > r.high) r.high = x;
    }
    if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {  // more digits than a double has: bounds outside of them
      if (std::abs(r.low) >= kMostExact) r.low = std::nextafter(r.low, -kInfinity);
      if (std::abs(r.high) >= kMostExact) r.high = std::nextafter(r.high, kInfinity);
    }
    return r.low <= r.high ? r : ValueRange{};
  });
}

// What has the values of a node: of a parameter, the argument of the one application that its function has.
struct Source {
  const Node* node;
  bool varies = false;  // it is differentiated by: what holds of its values has to hold of those close to them, too
};

Source argument_of(const Node* node) {
  const Parameter* parameter = node->as_parameter();
  if (!parameter || parameter->graph() == parameter->graph()->module().main()) return {nullptr};
  const auto uses = parameter->graph()->value()->uses();
  if (uses.empty() || std::next(uses.begin()) != uses.end() || (*uses.begin()).index() != 0) return {nullptr};
  const Apply& user = *(*uses.begin()).user;
  const size_t i = parameter->index();
  if (user.primitive() == Primitive::Call) return {i + 1 < user.num_inputs() ? user.input(i + 1) : nullptr};
  if (user.primitive() != Primitive::Operation || !user.op().calls) return {nullptr};
  size_t first = 1;  // behind the functions
  while (first < user.num_inputs() && constant_function(user.input(first))) ++first;
  if (first + i >= user.num_inputs()) return {nullptr};
  return {user.input(first + i), static_cast<int64_t>(i) < user.attributes().get_int("count", 0)};
}

Source source_of(const Node* node) {
  constexpr int kMostFunctions = 64;  // around it; those that only use each other have no end
  Source source{node};
  for (int i = 0; i < kMostFunctions; ++i) {
    const Source next = argument_of(source.node);
    if (!next.node) return source;
    source = {next.node, source.varies || next.varies};
  }
  return {node};
}

// Of values close to some in a range: they are finite where those are, and no more is known.
ValueRange close_to(const ValueRange& range, const Type* type) {
  if (range.may_be_nan || !range.is_finite() || !ops::holds_floats(type)) return ops::range_of_type(type);
  return ops::finite_range(type);
}

}  // namespace

// What an operator asks about one application, at some depth below the value in question.
class RangeAnalysis::Application final : public ops::RangeContext {
 public:
  Application(RangeAnalysis& analysis, const Apply& node, int depth)
      : RangeContext(node, analysis.assumes_ordinary_), analysis_(analysis), depth_(depth) {}
  ValueRange input(size_t i) override { return analysis_.visit(node().input(i), depth_); }

 private:
  RangeAnalysis& analysis_;
  const int depth_;
};

void RangeAnalysis::visit_operands(const Node* node) {
  std::vector<std::pair<const Apply*, size_t>> stack;
  boost::unordered_flat_set<const Node*> seen;
  auto push = [&](const Node* next) {
    if (next) next = source_of(next).node;
    const Apply* apply = next ? next->as_apply() : nullptr;
    const bool computes =
        apply && (apply->primitive() == Primitive::Operation || apply->primitive() == Primitive::TupleGetItem);
    if (computes && !find(apply) && seen.insert(apply).second) stack.emplace_back(apply, 0);
  };
  push(node);
  while (!stack.empty()) {
    auto& [apply, next] = stack.back();
    if (next < apply->num_inputs()) {
      push(apply->input(next++));
      continue;
    }
    const Apply* done = apply;
    stack.pop_back();
    visit(done, 1);
  }
}

ValueRange* RangeAnalysis::find(const Node* node) {
  return node->id() < known_.size() && known_[node->id()] ? &*known_[node->id()] : nullptr;
}

ValueRange RangeAnalysis::visit(const Node* node, int depth) {
  if (!node || !node->type()) return {};
  if (const Source source = source_of(node); source.node != node) {
    const ValueRange range = visit(source.node, depth);
    return source.varies ? close_to(range, node->type()) : range;
  }
  if (const ValueRange* known = find(node)) return *known;
  ValueRange result = ops::range_of_type(node->type());
  if (const Tensor* constant = constant_tensor(node)) {
    result = of_constant(*constant, node->type());
  } else if (assumes_ordinary_ && node->is_parameter() && ops::holds_floats(node->type()) &&
             node->graph() == node->graph()->module().main()) {
    result = ops::finite_range(node->type());
  } else if (const Apply* apply = node->as_apply()) {
    if (depth == 0) return result;  // not remembered: from below it may be known
    result = of_application(*apply, depth - 1);
  }
  if (node->id() >= known_.size()) known_.resize(node->id() + known_.size() / 2 + 1);
  known_[node->id()] = result;
  return result;
}

// Whether result i has elements of operand 0; indices beside it, as TopK has them, are of another type.
static bool is_of_elements(const Operator& op, int64_t i) {
  const Formal& result = op.outputs[std::min(static_cast<size_t>(i), op.outputs.size() - 1)];
  return op.takes_elements && result.type == op.inputs[0].type;
}

ValueRange RangeAnalysis::of_application(const Apply& node, int depth) {
  if (node.primitive() == Primitive::TupleGetItem) {
    const Apply* several = node.input(0)->as_apply();
    if (!several || several->primitive() != Primitive::Operation) return ops::range_of_type(node.type());
    Application application(*this, *several, depth);
    return is_of_elements(several->op(), node.attributes().require_int("index")) ? application.input(0)
                                                                                 : application.otherwise(node.type());
  }
  if (node.primitive() != Primitive::Operation || node.num_outputs() != 1 || !node.type()->is_tensor())
    return ops::range_of_type(node.type());
  Application application(*this, node, depth);
  if (node.op().range) return node.op().range(application);
  return node.op().takes_elements ? application.input(0) : application.otherwise(node.type());
}

}  // namespace anfora::analysis

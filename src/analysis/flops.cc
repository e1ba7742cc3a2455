#include "analysis/flops.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "analysis/calls.h"
#include "ir/order.h"

namespace anfora::analysis {

using namespace ir;
using ops::Dims;

namespace {

// Types alone, as a declaration sees them.
class TypesOnly : public ops::InferenceContext {
 public:
  TypesOnly(ir::Context& context, const Operator& op, const AttributeSet& attributes, std::span<const Type* const> inputs,
            std::span<const Type* const> outputs)
      : ops::InferenceContext(context, op, attributes), inputs_(inputs), outputs_(outputs) {}

  size_t num_inputs() const override { return inputs_.size(); }
  size_t num_outputs() const override { return outputs_.size(); }
  const Type* input(size_t i) const override { return i < inputs_.size() ? inputs_[i] : context().none_type(); }
  const Type* output(size_t i) const override { return i < outputs_.size() ? outputs_[i] : context().none_type(); }
  const Tensor* constant(size_t) const override { return nullptr; }
  std::optional<Dims> elements(size_t) const override { return std::nullopt; }
  // Only inference sets anything.
  void set_output(size_t, const Type*) override {}
  void set_elements(size_t, Dims) override {}
  Dim fresh_dim(size_t) override { return unknown(); }

 private:
  std::span<const Type* const> inputs_, outputs_;
};

}  // namespace

double flops_of(ir::Context& context, const Operator& op, const AttributeSet& attributes, std::span<const Type* const> inputs,
                std::span<const Type* const> outputs) {
  return op.flops ? op.flops(TypesOnly(context, op, attributes, inputs, outputs)) : 0;
}

// An application as its declaration sees it, with sizes.
class FlopCounter::Context : public ops::InferenceContext {
 public:
  Context(FlopCounter& counter, const Apply& node)
      : InferenceContext(counter.inference_.module().context(), node.op(), node.attributes()),
        counter_(counter),
        node_(node) {}

  size_t num_inputs() const override { return node_.num_inputs(); }
  size_t num_outputs() const override { return node_.num_outputs(); }
  const Type* input(size_t i) const override {
    const Type* type = i < node_.num_inputs() ? node_.input(i)->type() : context().none_type();
    return type ? counter_.sized(type) : context().unranked_type(DType::Undefined);
  }
  const Tensor* constant(size_t i) const override {
    return i < node_.num_inputs() ? constant_tensor(node_.input(i)) : nullptr;
  }
  std::optional<Dims> elements(size_t i) const override {
    return i < node_.num_inputs() ? counter_.inference_.elements(node_.input(i)) : std::nullopt;
  }
  const Type* output(size_t i) const override {
    if (i >= node_.num_outputs()) return context().none_type();
    return counter_.sized(node_.num_outputs() == 1 ? node_.type() : node_.type()->element(i));
  }
  // Only inference sets anything.
  void set_output(size_t, const Type*) override {}
  void set_elements(size_t, Dims) override {}
  Dim fresh_dim(size_t) override { return unknown(); }

 private:
  FlopCounter& counter_;
  const Apply& node_;
};

const Type* FlopCounter::sized(const Type* type) {
  if (!type->is_tensor() || !type->has_rank() || type->is_static()) return type;
  auto [at, is_new] = sized_.try_emplace(type, type);
  if (!is_new) return at->second;
  DimTable& table = inference_.module().context().dims();
  auto value_of = [&](std::string_view symbol) -> std::optional<int64_t> { return size_of(symbol); };
  Dims dims;
  for (Dim dim : type->dims()) {
    auto size = dim.is_unknown() ? std::nullopt : evaluate(dim, value_of);
    dims.push_back(table.constant(std::max(size.value_or(otherwise_), int64_t{0})));
  }
  return at->second = inference_.module().context().tensor_type(type->dtype(), {dims.data(), dims.size()});
}

double FlopCounter::of(const Apply& node) {
  if (node.primitive() != Primitive::Operation || !node.op().flops || !is_reached(node.type())) return 0;
  return node.op().flops(Context(*this, node));
}

// graph @header(%i, …) { return call Switch(test, @again, @leave)() }, where @again ends in a call of @header; or the other way round.
struct FlopCounter::Loop {
  const Graph *header, *again, *leave;
  const Apply *choice, *back_edge;
};

std::optional<FlopCounter::Loop> FlopCounter::as_loop(const Graph& header) const {
  const Apply* last = header.return_node() ? header.result()->as(Primitive::Call) : nullptr;
  const Apply* choice = last ? last->input(0)->as(Primitive::Switch) : nullptr;
  if (!choice) return std::nullopt;
  for (size_t i : {size_t{1}, size_t{2}}) {
    const Graph *branch = constant_function(choice->input(i)), *other = constant_function(choice->input(3 - i));
    const Apply* call = branch && other && branch->return_node() ? branch->result()->as(Primitive::Call) : nullptr;
    if (call && constant_function(call->input(0)) == &header) return Loop{&header, branch, other, choice, call};
  }
  return std::nullopt;
}

std::optional<int64_t> FlopCounter::integer(const Node* node) const {
  auto elements = inference_.elements(node);
  if (!elements || elements->size() != 1 || (*elements)[0].is_unknown()) return std::nullopt;
  return evaluate((*elements)[0], [&](std::string_view symbol) -> std::optional<int64_t> { return size_of(symbol); });
}

// A count i that starts at a number, rises by another, and goes on while i < limit: perhaps and something else holds.
double FlopCounter::trips(const Loop& loop, const Apply& entry) const {
  constexpr double kMostTrips = 1 << 20;  // a limit beyond is none
  std::vector<const Node*> tests = {loop.choice->input(0)};
  auto argument = [](const Apply& call, const Parameter& p) { return call.input(static_cast<size_t>(p.index()) + 1); };
  while (!tests.empty()) {
    const Apply* test = tests.back()->as_apply();
    tests.pop_back();
    if (!test) continue;
    if (test->is("And")) {
      for (const Use& use : test->operands()) tests.push_back(use.node);
      continue;
    }
    const Parameter* count = test->is("Less") ? test->input(0)->as_parameter() : nullptr;
    if (!count || count->graph() != loop.header) continue;
    const Apply* next = argument(*loop.back_edge, *count)->as_apply();
    if (!next || !next->is("Add") || next->input(0) != count) continue;
    const Parameter* kept = test->input(1)->as_parameter();
    const bool is_argument = kept && kept->graph() == loop.header && argument(*loop.back_edge, *kept) == kept;
    auto limit = integer(is_argument ? argument(entry, *kept) : test->input(1));
    auto start = integer(argument(entry, *count)), step = integer(next->input(1));
    if (!limit || !start || !step || *step <= 0) continue;
    const double trips =
        std::ceil((static_cast<double>(*limit) - static_cast<double>(*start)) / static_cast<double>(*step));
    if (trips <= kMostTrips) return std::max(trips, 0.0);
  }
  return 1;
}

double FlopCounter::of_call(const Apply& call) const {
  const Apply* choice = call.input(0)->as(Primitive::Switch);
  const Node* taken = choice ? inference_.taken_branch(*choice) : nullptr;
  Callees callees;
  if (Graph* known = taken ? constant_function(taken) : nullptr) {
    callees = {known};
  } else {
    callees = known_callees(call);
  }
  if (callees.empty()) {
    for (Graph* graph : inference_.callees(call.input(0))) callees.push_back(graph);
  }
  auto found = [](const auto& map, const Graph* graph) {  // of what is recursive there is none yet
    auto total = map.find(graph);
    return total == map.end() ? 0 : total->second;
  };
  double most = 0;
  for (const Graph* graph : callees) {
    double total = found(totals_, graph);
    if (auto loop = totals_.contains(graph) ? as_loop(*graph) : std::nullopt) {
      const double test = found(own_, graph);
      total = trips(*loop, call) * (test + found(totals_, loop->again)) + test + found(totals_, loop->leave);
    }
    most = std::max(most, total);
  }
  return most;
}

double FlopCounter::of_module() {
  Module& module = inference_.module();
  auto order = shared_order(module);
  boost::unordered_flat_map<const Graph*, const GraphOrder*> nodes_of;
  for (const GraphOrder& graph : order->graphs) nodes_of.emplace(graph.graph, &graph);
  totals_.clear();
  own_.clear();
  for (const Graph* graph : CallOrder(*order).graphs) {  // callees first
    double own = 0, called = 0;
    auto nodes = nodes_of.find(graph);
    if (nodes == nodes_of.end()) continue;
    for (const Apply* node : nodes->second->nodes) {
      if (node->primitive() == Primitive::Call) {
        called += of_call(*node);
      } else {
        own += of(*node);
      }
    }
    own_[graph] = own;
    totals_[graph] = own + called;
  }
  auto main = totals_.find(module.main());
  return main == totals_.end() ? 0 : main->second;
}

}  // namespace anfora::analysis

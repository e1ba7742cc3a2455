#include "analysis/loops.h"

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>

#include "analysis/evaluate.h"
#include "analysis/infer.h"
#include "analysis/range.h"
#include "anfora/error.h"
#include "ir/queries.h"
#include "ops/registry.h"
#include "support/integers.h"

namespace anfora::analysis {

using namespace ir;

namespace {

// Iterations that are run to find their number. A loop of more is no small one.
constexpr size_t kMostIterations = 64;
// Elements of a value that is followed from iteration to iteration.
constexpr int64_t kMostElements = 64;
// How deep below the test and the next values the computation is followed.
constexpr int kDeepestValue = 32;

const Apply* as_operator(const Node* node, std::string_view op) {
  const Apply* apply = node ? node->as_apply() : nullptr;
  return apply && apply->is(op) ? apply : nullptr;
}

bool is_computable(const Apply& node) {
  return node.primitive() == Primitive::Operation && node.num_outputs() == 1 && node.op().effect == Effect::Pure &&
         ops::reference_kernel(node.op());
}

}  // namespace

// Structure -----------------------------------------------------------------------------------------------------------

std::optional<Loop> Loop::of(const Graph& header, const ModuleOrder& order, const CallOrder& calls) {
  if (!calls.is_recursive(&header) || !header.return_node()) return std::nullopt;
  Apply* tail = header.result()->as(Primitive::Call);
  Apply* choice = tail ? tail->input(0)->as(Primitive::Switch) : nullptr;
  if (!choice) return std::nullopt;
  const size_t component = calls.component(&header);
  auto goes_on = [&](auto&& self, const Node* function) -> bool {
    if (const Apply* inner = function->as(Primitive::Switch))
      return self(self, inner->input(1)) || self(self, inner->input(2));
    const Graph* graph = constant_function(function);
    return graph && calls.component(graph) == component;
  };
  const bool on_true = goes_on(goes_on, choice->input(1));
  if (on_true == goes_on(goes_on, choice->input(2))) return std::nullopt;
  Callers callers = callers_of(header);
  Loop loop{.header = &header,
            .tail = tail,
            .choice = choice,
            .goes_on_when = on_true,
            .all_calls_known = callers.all_known};
  for (Apply* call : callers.calls) {
    const bool is_dead = call->id() < order.marks.size() && !order.contains(*call);
    if (is_dead) continue;
    loop.all_calls_known = loop.all_calls_known && call->num_inputs() == header.parameters().size() + 1;
    (calls.component(call->graph()) == component ? loop.back_edges : loop.entries).push_back(call);
  }
  return loop;
}

Graph* Loop::body() const {
  Graph *body = constant_function(again()), *exit = this->exit();
  const bool has_form = body && exit && exit->return_node() && tail->graph() == header && tail->num_inputs() == 1 &&
                        choice->graph() == header && choice->has_one_use() && all_calls_known && back_edges.size() == 1;
  if (!has_form || body->parent() != header || !body->value()->has_one_use()) return nullptr;
  const Apply* call = back_edges[0];
  const bool ends_in_call = body->result() == call && call->graph() == body;
  return ends_in_call && constant_function(call->input(0)) == header ? body : nullptr;
}

std::vector<const Node*> conjuncts(const Node* test) {
  std::vector<const Node*> pending{test}, all;
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    if (const Apply* both = as_operator(node, "And")) {
      pending.insert(pending.end(), {both->input(1), both->input(0)});
    } else {
      all.push_back(node);
    }
  }
  return all;
}

namespace {

// A number before it was cast to a type that has all numbers of iterations that a run comes to.
const Node* without_casts(const Node* node) {
  constexpr std::array kWide{DType::I32, DType::I64, DType::F32, DType::F64};
  for (;;) {
    const Apply* apply = node->as_apply();
    if (!apply || !apply->type() || !apply->type()->is_tensor()) return node;
    const bool is_cast = apply->is("Cast") && std::ranges::count(kWide, apply->type()->dtype()) > 0;
    const bool is_view = apply->is("Squeeze") || apply->is("Unsqueeze") || apply->is("Reshape");
    if (!is_cast && !is_view) return node;
    node = apply->input(0);
  }
}

// The size of an axis, counted from the end where it is negative; none where the rank is not known.
std::optional<Dim> size_along(const Node* tensor, int64_t axis) {
  const int rank = rank_of(tensor);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return std::nullopt;
  return tensor->type()->dim(static_cast<int>(axis));
}

// An element of a shape: Shape(measured)[axis].
struct Measure {
  const Node* measured;
  int64_t axis;
};
std::optional<Measure> measure_of(const Node* node) {
  const Apply* pick = as_operator(node, "Gather");
  const auto picked = pick ? integer_of(constant_tensor(pick->input(1))) : std::nullopt;
  if (pick && !picked) return std::nullopt;
  const Apply* shape = as_operator(pick ? pick->input(0) : node, "Shape");
  if (!shape) return std::nullopt;
  const int rank = rank_of(shape->input(0));
  const AttributeSet& attributes = shape->attributes();
  if (!pick) {
    const int64_t start = attributes.get_int("start", 0);
    if (attributes.get_int("end", -1) != start + 1) return std::nullopt;
    return Measure{shape->input(0), start};
  }
  if (attributes.has("start") || attributes.has("end")) return std::nullopt;
  return Measure{shape->input(0), *picked < 0 && rank >= 0 ? *picked + rank : *picked};
}

}  // namespace

bool is_extent(const Node* node, const Node* tensor, int64_t axis, int64_t plus, const Inference* inference) {
  const auto extent = size_along(tensor, axis);
  node = without_casts(node);
  if (const auto number = integer_of(constant_tensor(node)))
    return extent && extent->is_constant() && extent->constant() + plus == *number;
  if (inference && extent) {
    const auto elements = inference->elements(node);
    if (elements && elements->size() == 1 && provably_equal((*elements)[0], *extent + plus)) return true;
  }
  if (const Apply* less = as_operator(node, "Sub")) {
    const auto number = integer_of(constant_tensor(less->input(1)));
    return number && is_extent(less->input(0), tensor, axis, plus + *number, inference);
  }
  const auto measure = plus == 0 ? measure_of(node) : std::nullopt;
  if (!measure) return false;
  if (measure->measured == tensor) return measure->axis == axis;
  const auto other = size_along(measure->measured, measure->axis);
  return extent && other && provably_equal(*extent, *other);
}

// Parameters ------------------------------------------------------------------------------------------------------------

LoopRun::LoopRun(Loop loop, std::vector<const Node*> first) : loop_(std::move(loop)), first_(std::move(first)) {
  for (const Parameter* p : loop_.header->parameters()) variables_.push_back(classify(*p));
}

LoopRun::LoopRun(const Loop& loop, const Apply& entry) : LoopRun(loop, [&] {
  std::vector<const Node*> first;
  for (const Use& use : entry.operands().subspan(1)) first.push_back(use.node);
  return first;
}()) {}

LoopRun::Variable LoopRun::classify(const Parameter& p) const {
  if (loop_.back_edges.empty() || !loop_.all_calls_known) return {};
  auto all_pass = [&](auto&& passes) {
    return std::ranges::all_of(loop_.back_edges, [&](const Apply* call) { return passes(call->input(p.index() + 1)); });
  };
  if (all_pass([&](const Node* value) { return value == &p; })) return {.kind = Variable::Kind::Invariant};
  const Node* first = first_[p.index()];
  const auto start = first ? integer_of(constant_tensor(first)) : std::nullopt;
  const auto step = increment_of(next(&p), &p);
  if (start && step && all_pass([&](const Node* value) { return increment_of(value, &p) == step; }))
    return {.kind = Variable::Kind::Counter, .start = *start, .step = *step};
  const Apply* insert = as_operator(next(&p), "SequenceInsert");
  const bool grows = as_operator(first, "SequenceEmpty") && insert && insert->input(0) == &p && !insert->has_input(2);
  if (grows && loop_.back_edges.size() == 1) return {.kind = Variable::Kind::Collected, .item = insert->input(1)};
  return {};
}

std::optional<int64_t> LoopRun::increment_of(const Node* node, const Parameter* p) {
  const Apply* add = as_operator(node, "Add");
  if (!add || (add->input(0) != p && add->input(1) != p)) return std::nullopt;
  return integer_of(constant_tensor(add->input(add->input(0) == p ? 1 : 0)));
}

bool LoopRun::is_index(const Parameter* p) const {
  const Variable& v = variable(p);
  return v.kind == Variable::Kind::Counter && v.start == 0 && v.step == 1;
}

bool LoopRun::is_invariant(const Node* node) const {
  const Parameter* p = node->as_parameter();
  if (p && p->graph() == loop_.header) return variable(p).kind == Variable::Kind::Invariant;
  return loop_.is_outside(node);
}

std::optional<LoopRun::Bound> LoopRun::bound_of(const Node* condition) const {
  const Apply* less = condition->as_apply();
  if (!less || (!less->is("Less") && !less->is("Greater"))) return std::nullopt;
  const size_t side = less->is("Less") ? 0 : 1;
  const Parameter* i = without_casts(less->input(side))->as_parameter();
  if (!i || i->graph() != loop_.header || !is_index(i)) return std::nullopt;
  return Bound{i, less->input(1 - side)};
}

std::optional<LoopRun::Bound> LoopRun::bound() const {
  if (!loop_.goes_on_when) return std::nullopt;
  const Parameter* carried = loop_.test()->as_parameter();
  if (!carried) return bound_of(loop_.test());
  const bool is_own = carried->graph() == loop_.header && loop_.back_edges.size() == 1;
  const Node* first = is_own ? first_[carried->index()] : nullptr;
  const Apply* less = first ? as_operator(next(carried), "Less") : nullptr;
  if (!less) return std::nullopt;
  Node* count = less->input(1);
  const Tensor* known = constant_tensor(first);
  const Apply* greater = as_operator(first, "Greater");
  const bool is_true = known && known->dtype() == DType::Bool && known->size() == 1 && known->data<bool>()[0];
  const bool is_asked = greater && without_casts(greater->input(0)) == without_casts(count) &&
                        RangeAnalysis().range(greater->input(1)) == ValueRange{0, 0, false};
  for (const Parameter* p : loop_.header->parameters()) {
    if (is_index(p) && without_casts(less->input(0)) == next(p) && (is_true || is_asked)) return Bound{p, count};
  }
  return std::nullopt;
}

std::optional<LoopRun::Scan> LoopRun::scan_of(const Apply& gather, const Bound& bound,
                                              const Inference* inference) const {
  if (!gather.is("Gather") || !is_invariant(gather.input(0))) return std::nullopt;
  Scan scan{gather.input(0), gather.attributes().get_int("axis", 0), gather.input(1) != bound.index};
  const int rank = rank_of(scan.tensor);
  if (scan.axis < 0) scan.axis += std::max(rank, 0);
  if (scan.axis < 0 || !is_extent(bound.count, scan.tensor, scan.axis, 0, inference)) return std::nullopt;
  if (!scan.reversed) return scan;
  const Apply* from_end = as_operator(gather.input(1), "Sub");
  if (!from_end || from_end->input(1) != bound.index) return std::nullopt;
  return is_extent(from_end->input(0), scan.tensor, scan.axis, -1, inference) ? std::optional(scan) : std::nullopt;
}

// What is known -----------------------------------------------------------------------------------------------------------

namespace {

// Values of one iteration, computed on demand.
class Iteration {
 public:
  Iteration(const Loop& loop, const boost::unordered_flat_map<const Parameter*, Tensor>& parameters) : loop_(loop) {
    for (const auto& [parameter, value] : parameters) values_.emplace(parameter, value);
  }

  // Null: not known.
  const Tensor* value(const Node* node, int depth = kDeepestValue) {
    if (const Tensor* constant = constant_tensor(node)) return constant;
    const Apply* apply = node->as_apply();
    auto [at, is_new] = values_.try_emplace(node);
    if (!is_new || !apply || depth == 0 || loop_.is_outside(apply)) return at->second ? &*at->second : nullptr;
    std::optional<Tensor> result = compute(*apply, depth - 1);  // enters others: `at` is not valid any more
    std::optional<Tensor>& entry = values_[node];
    entry = std::move(result);
    return entry ? &*entry : nullptr;
  }

  // Whether it goes on.
  std::optional<bool> goes_on() {
    const Tensor* known = value(loop_.test());
    if (!known || known->dtype() != DType::Bool || known->size() != 1) return std::nullopt;
    return known->data<bool>()[0] == loop_.goes_on_when;
  }

 private:
  std::optional<Tensor> compute(const Apply& node, int depth) {
    if (!is_computable(node)) return std::nullopt;
    boost::container::small_vector<Datum, 4> inputs;
    bool is_complete = true;
    for (const Use& use : node.operands()) {
      const Value* constant = use.node->as_value();
      if (constant && constant->is_none()) {
        inputs.emplace_back();
      } else if (const Tensor* known = value(use.node, depth)) {
        // One operand may decide.
        bool is_scalar = known->dtype() == DType::Bool && known->size() == 1;
        if (is_scalar && node.is("And") && !known->data<bool>()[0]) return *known;
        inputs.emplace_back(*known);
      } else {
        is_complete = false;
      }
    }
    if (!is_complete) return std::nullopt;
    try {
      std::vector<Datum> results = evaluate_operator(node.op(), node.attributes(), inputs, 1);
      if (!results[0].is_tensor() || results[0].tensor().size() > kMostElements) return std::nullopt;
      return results[0].tensor();
    } catch (const Error&) {
      return std::nullopt;  // the run will tell if it is ever reached
    }
  }

  const Loop& loop_;
  boost::unordered_flat_map<const Node*, std::optional<Tensor>> values_;
};

}  // namespace

KnownIterations::KnownIterations(const Loop& loop, const Apply& entry) : loop_(loop) {
  for (const Parameter* p : loop_.header->parameters()) {
    const Tensor* start = constant_tensor(entry.input(p->index() + 1));
    if (!start) continue;
    first_.emplace(p, *start);
    if (start->size() <= kMostElements) parameters_.insert(p);
  }
  auto loses_value = [&](const Parameter* p) {
    return parameters_.contains(p) && !is_known(loop_.back_edges[0]->input(p->index() + 1)) && parameters_.erase(p);
  };
  do {
    known_.clear();
  } while (std::ranges::count_if(loop_.header->parameters(), loses_value) > 0);
}

bool KnownIterations::is_known(const Node* node) { return compute_is_known(node, kDeepestValue); }

bool KnownIterations::compute_is_known(const Node* node, int depth) {
  if (const Value* value = node->as_value()) return !value->is_graph();
  if (const Parameter* parameter = node->as_parameter()) return parameters_.contains(parameter);
  const Apply* apply = node->as_apply();
  if (depth == 0 || loop_.is_outside(apply)) return false;
  auto [at, is_new] = known_.try_emplace(node, false);
  if (!is_new) return at->second;
  const bool result = is_computable(*apply) && std::ranges::all_of(apply->operands(), [&](const Use& use) {
    return compute_is_known(use.node, depth - 1);
  });
  return known_[node] = result;
}

std::optional<size_t> KnownIterations::count() const {
  Values values = first_;
  for (size_t count = 0; count <= kMostIterations; ++count) {
    Iteration iteration(loop_, values);
    const auto goes_on = iteration.goes_on();
    if (!goes_on) return std::nullopt;
    if (!*goes_on) return count;
    Values next;
    for (const Parameter* p : parameters_) {
      if (const Tensor* value = iteration.value(loop_.back_edges[0]->input(p->index() + 1))) next.emplace(p, *value);
    }
    values = std::move(next);
  }
  return std::nullopt;
}

bool KnownIterations::runs_at_all() const { return Iteration(loop_, first_).goes_on().value_or(false); }

}  // namespace anfora::analysis

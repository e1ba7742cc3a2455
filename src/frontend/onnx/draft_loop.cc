// Tail-recursive graphs to Loop and Scan.
//
// A loop of the IR tests, then goes on or leaves; one of ONNX is told whether to go on by the iteration before:
//
//     graph @loop(p…) {                                  cond = test(p₀)
//       %f = Switch(test(p), @again, @leave)             Loop(M, cond, p₀…) {
//       return call %f()                                   body(i, cond, p…):
//     }                                 ⇒                    p' = next(p)
//     graph @again() { return call @loop(next(p)…) }         → test(p'), p'…
//     graph @leave() { return result(p) }                }
//                                                        result(p_last)
//
// So the test is written twice, before the loop and at the end of its body, each time for other values of the
// parameters; what it shares with the body or the result is carried along instead of being computed twice. This
// serves for every loop. What a Loop of ONNX does by itself is taken out first, in whatever shape optimization has left it:
//   - a conjunct Less(i, M) of the test, where i counts 0, 1, 2, … and M does not change, is the trip count;
//   - a parameter that counts so, and that neither the rest of the test nor the result reads, is the number of the iteration;
//   - a parameter that is itself the rest of the test is the condition; its next value is at hand;
//   - a parameter that no iteration changes, or none reads, is not carried;
//   - a sequence that only grows by one tensor an iteration and is stacked at the end is a scan output.
//
// A loop without a condition that reads nothing but slices x[i] of fixed tensors, over their whole length, whose carried
// values keep their types, is a Scan.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "anfora/error.h"
#include "frontend/onnx/draft_builder.h"
#include "support/element_types.h"
#include "support/integers.h"

namespace anfora::onnx {

using ir::Primitive;

// Nodes of the loop's own graph that a part of the loop reads, and the graphs that it enters.
struct DraftBuilder::Reached {
  boost::unordered_flat_set<const ir::Node*> nodes;
  boost::unordered_flat_set<const ir::Graph*> graphs;
};

// The first operator set whose Scan has no batch axis, and the first whose Loop may carry nothing.
constexpr int64_t kFirstScan = 9, kFirstLoopWithoutCarried = 11;

struct DraftBuilder::LoopPlan {
  enum class Role : uint8_t { Carried, Invariant, Unused, Counter, Condition, Accumulator };
  struct Parameter {
    Role role = Role::Carried;
    const ir::Node* item = nullptr;        // of an accumulator: what an iteration appends
    std::vector<const ir::Apply*> stacks;  // of an accumulator: what stacks it at the end
    int64_t axis = 0, reverse = 0;         // of those
  };
  struct Slice {  // a fixed tensor that is read slice by slice
    const ir::Node* tensor;
    int64_t axis;
    bool reverse;
    std::vector<const ir::Apply*> gathers;
  };

  const ir::Graph* header;
  uint32_t component;
  const Bindings* initial;
  const ir::Node* test = nullptr;
  bool leaves_when_true = false;
  const ir::Node* again = nullptr;
  const ir::Node* leave = nullptr;
  Nodes branch_arguments;
  std::vector<Nodes> back_edges;  // arguments of the calls that go on; empty when they are not all known
  std::vector<Parameter> parameters;
  const ir::Node* trip_count = nullptr;
  Nodes rest;    // conjuncts of the test beside the trip count
  Nodes shared;  // values that the test and other parts read
  Reached in_test, in_body, in_exit;
  std::vector<Slice> slices;  // of a Scan

  Role role(size_t i) const { return parameters[i].role; }
  std::optional<size_t> parameter_index(const ir::Node* node) const {
    const ir::Parameter* parameter = node->as_parameter();
    if (!parameter || parameter->graph() != header) return std::nullopt;
    return parameter->index();
  }
};

namespace {

bool is_constant_integer(const ir::Node* node, int64_t expected) {
  const Tensor* t = ir::constant_tensor(node);
  return t && t->dtype() == DType::I64 && t->size() == 1 && t->data<int64_t>()[0] == expected;
}

// The other operand of op(node, constant), in either order.
bool is_increment_of(const ir::Node* node, const ir::Node* counter) {
  const ir::Apply* add = node->as_apply();
  if (!add || !add->is("Add")) return false;
  return (add->input(0) == counter && is_constant_integer(add->input(1), 1)) ||
         (add->input(1) == counter && is_constant_integer(add->input(0), 1));
}

void conjuncts(const ir::Node* test, std::vector<const ir::Node*>& all) {
  const ir::Apply* apply = test->as_apply();
  if (apply && apply->is("And")) {
    conjuncts(apply->input(0), all);
    conjuncts(apply->input(1), all);
  } else {
    all.push_back(test);
  }
}

bool same_known_type(const ir::Type* a, const ir::Type* b) {
  return a && a == b && a->is_tensor() && a->has_rank() && std::ranges::none_of(a->dims(), &ir::Dim::is_unknown);
}

// The axis counted from the front; as it is where the rank is not known.
int64_t positive_axis(const ir::Node* tensor, int64_t axis) {
  const ir::Type* type = tensor->type();
  bool is_ranked = type && type->is_tensor() && type->has_rank();
  return axis < 0 && is_ranked ? axis + type->rank() : axis;
}

}  // namespace

// Analysis -----------------------------------------------------------------------------------------

bool DraftBuilder::reaches(const ir::Node* function, uint32_t component) {
  function = resolve_function(function);
  if (const ir::Apply* choice = function->as_apply()) {
    return reaches(choice->input(1), component) || reaches(choice->input(2), component);
  }
  return state(function->as_value()->function()).component == component;
}

// What running `root` (a value or a function) reads of the header's own nodes, directly or through other graphs.
void DraftBuilder::collect(const LoopPlan& plan, const ir::Node* root, Reached& reached) {
  std::vector<const ir::Node*> pending{root};
  while (!pending.empty()) {
    const ir::Node* node = pending.back();
    pending.pop_back();
    if (const ir::Graph* graph = ir::constant_function(node)) {
      if (graph == plan.header || !reached.graphs.insert(graph).second) continue;
      for (const ir::Apply* inner : state(graph).order->nodes) {
        for (const ir::Use& use : inner->operands()) pending.push_back(use.node);
      }
    } else if (node->graph() == plan.header && reached.nodes.insert(node).second && node->is_apply()) {
      for (const ir::Use& use : node->as_apply()->operands()) pending.push_back(use.node);
    }
  }
}

bool DraftBuilder::is_invariant(const LoopPlan& plan, const ir::Node* node) const {
  if (auto index = plan.parameter_index(node)) return plan.role(*index) == LoopPlan::Role::Invariant;
  return !node->graph() || !node->graph()->is_inside(plan.header);
}

void DraftBuilder::find_exit(LoopPlan& plan) {
  const ir::Apply* last = plan.header->result()->as(Primitive::Call);
  const ir::Node* choice = last ? last->input(0) : nullptr;
  const ir::Apply* exit = choice ? choice->as(Primitive::Switch) : nullptr;
  if (!exit) refuse(plan.header, "it calls itself other than behind a test at its end");
  bool on_true = reaches(exit->input(1), plan.component), on_false = reaches(exit->input(2), plan.component);
  if (on_true && on_false) refuse(plan.header, "both outcomes of its test go on");
  plan.test = exit->input(0);
  plan.leaves_when_true = on_false;
  plan.again = exit->input(on_true ? 1 : 2);
  plan.leave = exit->input(on_true ? 2 : 1);
  for (const ir::Use& use : last->operands().subspan(1)) plan.branch_arguments.push_back(use.node);
}

// The argument lists of all calls of the header from within the loop. Left empty when a call cannot be told.
void DraftBuilder::find_back_edges(LoopPlan& plan) {
  std::vector<const ir::Node*> functions{plan.header->value()};
  while (!functions.empty()) {
    const ir::Node* function = functions.back();
    functions.pop_back();
    for (const ir::Use& use : function->uses()) {
      const ir::Apply* user = use.user;
      if (!is_live(user) || state(user->graph()).component != plan.component) continue;
      if (user->primitive() == Primitive::Call && use.index() == 0) {
        Nodes& arguments = plan.back_edges.emplace_back();
        for (const ir::Use& argument : user->operands().subspan(1)) arguments.push_back(argument.node);
      } else if (user->primitive() == Primitive::Switch) {
        functions.push_back(user);
      } else {
        plan.back_edges.clear();
        return;
      }
    }
  }
  std::erase_if(plan.back_edges, [&](const Nodes& a) { return a.size() != plan.parameters.size(); });
}

void DraftBuilder::find_invariants(LoopPlan& plan) {
  for (size_t i = 0; i < plan.parameters.size() && !plan.back_edges.empty(); ++i) {
    const ir::Node* parameter = plan.header->parameter(i);
    bool same = std::ranges::all_of(plan.back_edges, [&](const Nodes& a) { return a[i] == parameter; });
    bool unused = std::ranges::none_of(parameter->uses(), [&](const ir::Use& use) { return is_live(use.user); });
    if (same) plan.parameters[i].role = LoopPlan::Role::Invariant;
    if (unused) plan.parameters[i].role = LoopPlan::Role::Unused;
  }
}

void DraftBuilder::find_trip_count(LoopPlan& plan) {
  Nodes all;
  conjuncts(plan.test, all);
  std::optional<size_t> counter;
  auto counts = [&](size_t i) {
    const ir::Node* parameter = plan.header->parameter(i);
    const Binding start = (*plan.initial)[i];
    const ir::Node* origin = start.kind == Binding::Kind::Value ? draft_->value(start.index).origin : nullptr;
    return origin && is_constant_integer(origin, 0) && ir::constant_tensor(origin)->rank() == 0 &&
           std::ranges::all_of(plan.back_edges, [&](const Nodes& a) { return is_increment_of(a[i], parameter); });
  };
  for (const ir::Node* conjunct : all) {
    const ir::Apply* less = conjunct->as_apply();
    bool forward = less && less->is("Less"), backward = less && less->is("Greater");
    if (!counter && !plan.leaves_when_true && !plan.back_edges.empty() && (forward || backward)) {
      const ir::Node* i = less->input(forward ? 0 : 1);
      const ir::Node* bound = less->input(forward ? 1 : 0);
      auto index = plan.parameter_index(i);
      if (index && is_invariant(plan, bound) && bound->type() && bound->type()->dtype() == DType::I64) {
        if (counts(*index)) {
          counter = *index;
          plan.trip_count = bound;
          continue;
        }
      }
    }
    plan.rest.push_back(conjunct);
  }
  if (plan.leaves_when_true) plan.rest = {plan.test};
  for (const ir::Node* conjunct : plan.rest) collect(plan, conjunct, plan.in_test);
  collect(plan, plan.again, plan.in_body);
  collect(plan, plan.leave, plan.in_exit);
  for (const ir::Node* argument : plan.branch_arguments) {
    collect(plan, argument, plan.in_body);
    collect(plan, argument, plan.in_exit);
  }

  for (size_t i = 0; i < plan.parameters.size() && !counter && !plan.back_edges.empty(); ++i) {
    if (plan.role(i) == LoopPlan::Role::Carried && counts(i)) counter = i;  // a Loop counts, whatever ends it
  }
  if (counter) {
    const ir::Node* i = plan.header->parameter(*counter);
    if (!plan.in_exit.nodes.contains(i) && !plan.in_test.nodes.contains(i)) {
      plan.parameters[*counter].role = LoopPlan::Role::Counter;
    }
  }
  if (plan.rest.size() == 1 && !plan.leaves_when_true) {
    auto index = plan.parameter_index(plan.rest[0]);
    if (index && plan.role(*index) == LoopPlan::Role::Carried && !plan.in_exit.nodes.contains(plan.rest[0])) {
      plan.parameters[*index].role = LoopPlan::Role::Condition;
    }
  }
}

namespace {

// What the body gives is known here, and to whoever reads the file, where the loop is only entered at run time.
void check_stacked_axis(const ir::Apply& stack, int64_t axis, const ir::Type* item) {
  if (!item || !item->is_tensor() || !item->has_rank()) return;
  const int64_t rank = item->rank() + 1;
  if (axis >= -rank && axis < rank) return;
  Error error(ErrorCode::InvalidModel,
              fmt::format("axis {} of what the loop stacks is out of range for rank {}", axis, rank));
  error.at_node(describe(stack));
  if (stack.location()) error.at_location(to_string(*stack.location()));
  throw error;
}

}  // namespace

void DraftBuilder::find_accumulators(LoopPlan& plan) {
  if (plan.back_edges.size() != 1) return;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    if (plan.role(i) != LoopPlan::Role::Carried) continue;
    const ir::Node* parameter = plan.header->parameter(i);
    Binding start = (*plan.initial)[i];
    if (start.kind != Binding::Kind::Value || start.index == kOmitted) continue;
    const ir::Node* origin = draft_->value(start.index).origin;
    const ir::Apply* empty = origin ? origin->as_apply() : nullptr;
    const ir::Apply* insert = plan.back_edges[0][i]->as_apply();
    if (!empty || !empty->is("SequenceEmpty") || !insert || !insert->is("SequenceInsert")) continue;
    if (insert->input(0) != parameter || insert->has_input(2)) continue;

    LoopPlan::Parameter candidate{LoopPlan::Role::Accumulator, insert->input(1), {}, 0, 0};
    bool fits = true;
    for (const ir::Use& use : insert->uses()) {
      fits &= !is_live(use.user) || use.user->primitive() == Primitive::Call;
    }
    for (const ir::Use& use : parameter->uses()) {
      const ir::Apply* user = use.user;
      if (user == insert || !is_live(user)) continue;
      bool is_own = user->graph() == plan.header;
      bool at_exit = is_own ? plan.in_exit.nodes.contains(user) : plan.in_exit.graphs.contains(user->graph());
      bool elsewhere = is_own
                           ? plan.in_body.nodes.contains(user) || plan.in_test.nodes.contains(user)
                           : plan.in_body.graphs.contains(user->graph()) || plan.in_test.graphs.contains(user->graph());
      fits &= user->is("StackSequence") && at_exit && !elsewhere;
      if (!fits) break;
      fits &= candidate.stacks.empty() || &user->attributes() == &candidate.stacks[0]->attributes();
      candidate.axis = user->attributes().get_int("axis", 0);
      check_stacked_axis(*user, candidate.axis, candidate.item->type());
      candidate.reverse = user->attributes().get_int("reverse", 0);
      candidate.stacks.push_back(user);
    }
    if (fits && !candidate.stacks.empty()) plan.parameters[i] = std::move(candidate);
  }
}

// Nodes that the test computes and that the body or the result reads: where their readers first meet the test's.
void DraftBuilder::find_shared(LoopPlan& plan) {
  boost::unordered_flat_set<const ir::Node*> seen;
  auto walk = [&](const ir::Node* root) {
    std::vector<const ir::Node*> pending{root};
    boost::unordered_flat_set<const ir::Graph*> entered;
    while (!pending.empty()) {
      const ir::Node* node = pending.back();
      pending.pop_back();
      if (const ir::Graph* graph = ir::constant_function(node)) {
        if (graph == plan.header || !entered.insert(graph).second) continue;
        for (const ir::Apply* inner : state(graph).order->nodes) {
          for (const ir::Use& use : inner->operands()) pending.push_back(use.node);
        }
      } else if (node->graph() == plan.header && node->is_apply() && seen.insert(node).second) {
        if (plan.in_test.nodes.contains(node)) {
          plan.shared.push_back(node);
          continue;
        }
        for (const ir::Use& use : node->as_apply()->operands()) pending.push_back(use.node);
      }
    }
  };
  walk(plan.again);
  walk(plan.leave);
  for (const ir::Node* argument : plan.branch_arguments) walk(argument);
  std::ranges::sort(plan.shared, {}, &ir::Node::id);
}

DraftBuilder::LoopPlan DraftBuilder::plan_loop(const ir::Graph* header, const Bindings& arguments) {
  LoopPlan plan{.header = header, .component = state(header).component, .initial = &arguments};
  plan.parameters.resize(header->parameters().size());
  if (arguments.size() != plan.parameters.size()) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("graph @{} has {} parameters and is called with {} arguments",
                                                     header->name(), plan.parameters.size(), arguments.size()));
  }
  find_exit(plan);
  find_back_edges(plan);
  find_invariants(plan);
  find_trip_count(plan);
  find_accumulators(plan);
  find_shared(plan);
  if (opset_ < kFirstScan || !find_scan(plan)) {
    plan.slices.clear();
    for (LoopPlan::Parameter& parameter : plan.parameters) {
      // A Loop stacks along a new first axis only; other axes stack the sequence behind the loop.
      if (parameter.role == LoopPlan::Role::Accumulator && (parameter.axis != 0 || parameter.reverse)) {
        parameter = {};
      }
    }
  }
  return plan;
}

namespace {

// The size of a tensor along an axis; nothing where the rank is not known.
std::optional<ir::Dim> extent_of(const ir::Node* tensor, int64_t axis) {
  const ir::Type* type = tensor->type();
  if (!type || !type->is_tensor() || !type->has_rank() || axis < 0 || axis >= type->rank()) return std::nullopt;
  return type->dim(static_cast<int>(axis));
}

// Whether `count` is the length of an axis of `tensor`: by its value, or because it is computed from the shape of that
// tensor, or of another of the same size.
bool is_length_of(const ir::Node* count, const ir::Node* tensor, int64_t axis) {
  auto extent = extent_of(tensor, axis);
  if (extent && extent->is_constant() && is_constant_integer(count, extent->constant())) return true;
  auto is_extent = [&](const ir::Apply* shape, int64_t measured_axis) {
    const ir::Node* measured = shape->input(0);
    if (measured == tensor) return measured_axis == axis;
    auto other = extent_of(measured, measured_axis);
    return extent && other && provably_equal(*extent, *other);
  };
  const ir::Apply* pick = count->as_apply();
  const ir::Apply* shape = pick && pick->num_inputs() > 0 ? pick->input(0)->as_apply() : nullptr;
  if (!shape || !shape->is("Shape")) return false;
  if (pick->is("Squeeze") || pick->is("Reshape")) {
    int64_t start = shape->attributes().get_int("start", 0);
    return shape->attributes().get_int("end", -1) == start + 1 && is_extent(shape, start);
  }
  auto picked = pick->is("Gather") ? integer_of(ir::constant_tensor(pick->input(1))) : std::nullopt;
  if (!picked || shape->attributes().has("start") || shape->attributes().has("end")) return false;
  return is_extent(shape, positive_axis(shape->input(0), *picked));
}

// Whether index = length − 1 − counter.
bool is_mirrored(const ir::Node* index, const ir::Node* counter, const ir::Node* length) {
  const ir::Apply* minus = index->as_apply();
  if (!minus || !minus->is("Sub") || minus->input(1) != counter) return false;
  const Tensor* n = ir::constant_tensor(length);
  if (n && n->size() == 1 && is_constant_integer(minus->input(0), n->data<int64_t>()[0] - 1)) return true;
  const ir::Apply* last = minus->input(0)->as_apply();
  return last && last->is("Sub") && last->input(0) == length && is_constant_integer(last->input(1), 1);
}

}  // namespace

bool DraftBuilder::find_scan(LoopPlan& plan) {
  using Role = LoopPlan::Role;
  if (!plan.trip_count || !plan.rest.empty() || !plan.shared.empty()) return false;
  const ir::Node* counter = nullptr;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const ir::Node* parameter = plan.header->parameter(i);
    if (plan.role(i) == Role::Counter) counter = parameter;
    if (plan.role(i) != Role::Carried) continue;
    // A Scan does not let a carried value change its shape.
    Binding start = (*plan.initial)[i];
    if (start.kind != Binding::Kind::Value || plan.back_edges.size() != 1) return false;
    if (!same_known_type(draft_->value(start.index).type, plan.back_edges[0][i]->type())) return false;
  }
  if (!counter) return false;

  auto add_slice = [&](const ir::Apply* gather, bool reverse) {
    const ir::Node* tensor = gather->input(0);
    int64_t axis = positive_axis(tensor, gather->attributes().get_int("axis", 0));
    bool in_body = gather->graph() == plan.header
                       ? plan.in_body.nodes.contains(gather) && !plan.in_exit.nodes.contains(gather)
                       : plan.in_body.graphs.contains(gather->graph());
    if (!in_body || axis < 0 || !is_invariant(plan, tensor)) return false;
    for (LoopPlan::Slice& slice : plan.slices) {
      if (slice.tensor == tensor && slice.axis == axis && slice.reverse == reverse) {
        slice.gathers.push_back(gather);
        return true;
      }
    }
    plan.slices.push_back({tensor, axis, reverse, {gather}});
    return true;
  };
  for (const ir::Use& use : counter->uses()) {
    const ir::Apply* user = use.user;
    if (!is_live(user) || is_increment_of(user, counter)) continue;
    if (user->graph() == plan.header && (user->is("Less") || user->is("Greater"))) continue;
    if (user->is("Gather") && use.index() == 1) {
      if (!add_slice(user, false)) return false;
    } else if (is_mirrored(user, counter, plan.trip_count)) {
      for (const ir::Use& index : user->uses()) {
        if (!is_live(index.user)) continue;
        if (!index.user->is("Gather") || index.index() != 1 || !add_slice(index.user, true)) return false;
      }
    } else {
      return false;
    }
  }
  // Increments count for nothing only when the next iteration alone reads them.
  for (const ir::Use& use : counter->uses()) {
    if (!is_live(use.user) || !is_increment_of(use.user, counter)) continue;
    for (const ir::Use& next : use.user->uses()) {
      if (is_live(next.user) && next.user->primitive() != Primitive::Call) return false;
    }
  }
  if (plan.slices.empty()) return false;

  // All slices must have the trip count for their length; it is enough that one has, and the others equal that one.
  const LoopPlan::Slice* measured = nullptr;
  for (const LoopPlan::Slice& slice : plan.slices) {
    if (is_length_of(plan.trip_count, slice.tensor, slice.axis)) measured = &slice;
  }
  if (!measured) return false;
  for (const LoopPlan::Slice& slice : plan.slices) {
    if (slice.tensor == measured->tensor && slice.axis == measured->axis) continue;
    auto a = extent_of(slice.tensor, slice.axis), b = extent_of(measured->tensor, measured->axis);
    if (!a || !b || !provably_equal(*a, *b)) return false;
  }
  return true;
}

// Writing ------------------------------------------------------------------------------------------

// Binds the parameters, then the shared values, to `values`; those that have none stay unbound.
void DraftBuilder::bind_iteration(const LoopPlan& plan, const Bindings& values) {
  for (size_t i = 0; i < plan.parameters.size(); ++i) bound(plan.header->parameter(i)) = values[i];
  for (size_t i = plan.parameters.size(); i < values.size(); ++i) {
    bound(plan.shared[i - plan.parameters.size()]) = values[i];
  }
}

void DraftBuilder::declare_items(const LoopPlan& plan, std::span<const ValueId> items) {
  size_t next = 0;
  for (const LoopPlan::Parameter& parameter : plan.parameters) {
    if (parameter.role != LoopPlan::Role::Accumulator) continue;
    DraftValue& value = draft_->value(items[next++]);
    const AttributeSet& attributes = parameter.stacks[0]->attributes();
    if (!attributes.has("shape") || !value.type || !value.type->is_tensor()) continue;
    boost::container::small_vector<ir::Dim, 4> dims;
    ir::DimTable& table = module_.context().dims();
    for (int64_t size : attributes.get_ints("shape")) dims.push_back(size < 0 ? table.unknown() : table.constant(size));
    value.type = module_.context().tensor_type(value.type->dtype(), {dims.data(), dims.size()});
  }
}

// Whether to go on, for the present bindings; `otherwise` when there is no test beside the trip count.
ValueId DraftBuilder::emit_condition(const LoopPlan& plan, DraftGraph& place, ValueId otherwise) {
  if (plan.rest.empty()) return otherwise;
  ValueId condition = demand_value(plan.rest[0]);
  const ir::Type* type = plan.test->type();
  for (const ir::Node* conjunct : std::span(plan.rest).subspan(1)) {
    ValueId both[] = {condition, demand_value(conjunct)};
    condition = draft_->make_value(&place, {}, type);
    add_node(place, "And", both, {&condition, 1}, nullptr);
  }
  if (plan.leaves_when_true) {
    ValueId opposite = draft_->make_value(&place, {}, type);
    add_node(place, "Not", {&condition, 1}, {&opposite, 1}, nullptr);
    condition = opposite;
  }
  return condition;
}

// Writes the way from a branch to the next call of the header; its arguments, the items of accumulators among them.
DraftBuilder::Bindings DraftBuilder::emit_tail_call(DraftGraph& place, const ir::Node* callee, const Nodes& arguments,
                                                    const LoopPlan& plan) {
  const ir::Node* function = resolve_function(callee);
  CallLevel level(*this, plan.header);
  if (const ir::Apply* choice = function->as_apply()) {
    ValueId condition = demand_value(choice->input(0));
    static constexpr std::string_view kAttributes[] = {"then_branch", "else_branch"};
    Subgraph branches[2];
    Bindings results[2];
    std::vector<ValueId> leaves[2];
    for (int i = 0; i < 2; ++i) {
      branches[i] = {kAttributes[i], make_subgraph(ir::constant_function(choice->input(1 + i)), kAttributes[i], place)};
      results[i] = emit_tail_call(*branches[i].graph, choice->input(1 + i), arguments, plan);
      for (Binding result : results[i]) {
        if (result.kind != Binding::Kind::Unset) flatten(result, leaves[i], plan.header);
      }
      set_results(*branches[i].graph, leaves[i]);
    }
    if (leaves[0].empty()) return results[0];
    std::vector<ValueId> outputs = make_results(place, leaves[0]);
    add_control(place, "If", {&condition, 1}, outputs, branches, choice);
    const ValueId* next = outputs.data();
    for (Binding& result : results[0]) {
      if (result.kind != Binding::Kind::Unset) result = rebuild(result, next);
    }
    return results[0];
  }

  const ir::Graph* graph = function->as_value()->function();
  if (graph == plan.header) {
    Bindings next(arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      const LoopPlan::Parameter& parameter = plan.parameters[i];
      bool is_computed = parameter.role != LoopPlan::Role::Invariant && parameter.role != LoopPlan::Role::Unused &&
                         parameter.role != LoopPlan::Role::Counter;
      if (!is_computed) continue;
      next[i] = demand(parameter.item ? parameter.item : arguments[i]);
    }
    return next;
  }
  if (state(graph).component != plan.component) refuse(plan.header, "it returns from inside an iteration");
  Activation activation(*this, graph, place);
  bind_parameters(graph, demand_all(arguments));
  const ir::Apply* last = graph->result()->as(Primitive::Call);
  if (!last) refuse(plan.header, "it calls itself before its end");
  Nodes next_arguments;
  for (const ir::Use& use : last->operands().subspan(1)) next_arguments.push_back(use.node);
  return emit_tail_call(place, last->input(0), next_arguments, plan);
}

DraftBuilder::Binding DraftBuilder::emit_exit(DraftGraph& place, const LoopPlan& plan, const Bindings& finals,
                                              const ir::Apply* origin) {
  Activation activation(*this, plan.header, place);
  bind_iteration(plan, finals);
  return call(place, plan.leave, demand_all(plan.branch_arguments), origin);
}

DraftBuilder::Binding DraftBuilder::emit_loop(DraftGraph& place, const ir::Graph* header, const Bindings& arguments,
                                              const ir::Apply* origin) {
  using Role = LoopPlan::Role;
  uint32_t component = state(header).component;
  if (open_loops_.contains(component)) refuse(header, "it calls itself before its end");
  LoopPlan plan = plan_loop(header, arguments);
  bool is_scan = !plan.slices.empty();
  open_loops_.insert(component);
  ir::Context& context = draft_->context();
  const ir::Type* flag_type = context.tensor_type(DType::Bool, std::span<const int64_t>());

  // Before the loop: the test for the first values, and the values that it shares.
  size_t n = plan.parameters.size();
  Bindings start = arguments;
  ValueId trip_count = kOmitted, condition = kOmitted;
  if (plan.trip_count && !is_scan) {
    auto index = plan.parameter_index(plan.trip_count);
    Binding bound_value = index ? arguments[*index] : demand(plan.trip_count);
    if (bound_value.kind != Binding::Kind::Value) refuse(header, "its trip count is no single value");
    trip_count = bound_value.index;
  }
  {
    Activation activation(*this, header, place);
    bind_iteration(plan, start);
    condition = emit_condition(plan, place, kOmitted);
    for (const ir::Node* node : plan.shared) start.push_back(demand(node));
  }
  if (!is_scan && trip_count == kOmitted && condition == kOmitted) refuse(header, "it never ends");

  // What is carried, as single values; bindings of the same structure for the body and for after the loop.
  DraftGraph* body = make_subgraph(header, {}, place);
  std::vector<ValueId> first, finals;
  Bindings in_body(start.size()), after(start.size());
  ValueId counter = kOmitted, going_on = kOmitted;
  if (!is_scan) {
    counter = draft_->make_value(body, {}, context.tensor_type(DType::I64, std::span<const int64_t>()));
    going_on = draft_->make_value(body, {}, flag_type);
    body->inputs = {counter, going_on};
  }
  for (size_t i = 0; i < start.size(); ++i) {
    const ir::Node* node = i < n ? static_cast<const ir::Node*>(header->parameter(i)) : plan.shared[i - n];
    Role role = i < n ? plan.role(i) : Role::Carried;
    if (role == Role::Invariant) in_body[i] = after[i] = start[i];
    if (role == Role::Counter && !is_scan) {
      in_body[i] = value_binding(counter);
      draft_->value(counter).name = node->name();
    }
    if (role == Role::Condition) {
      in_body[i] = value_binding(going_on);
      draft_->value(going_on).name = node->name();
      draft_->value(going_on).type = node->type();
    }
    if (role != Role::Carried) continue;
    std::vector<ValueId> leaves, inside;
    flatten(start[i], leaves, header);
    for (ValueId leaf : leaves) {
      const ir::Type* type = leaves.size() == 1 ? node->type() : draft_->value(leaf).type;
      inside.push_back(draft_->make_value(body, leaves.size() == 1 ? node->name() : std::string_view(), type));
      finals.push_back(draft_->make_value(&place, {}, type));
    }
    const ValueId* next = inside.data();
    in_body[i] = rebuild(start[i], next);
    next = finals.data() + (finals.size() - leaves.size());
    after[i] = rebuild(start[i], next);
    first.insert(first.end(), leaves.begin(), leaves.end());
    body->inputs.insert(body->inputs.end(), inside.begin(), inside.end());
  }
  ValueId filler = kOmitted;
  if (!is_scan && first.empty() && opset_ < kFirstLoopWithoutCarried) {
    filler = draft_->make_value(body, {}, flag_type);
    body->inputs.push_back(filler);
    first.push_back(draft_->make_constant(top_, Tensor::scalar<bool>(true)));
    finals.push_back(draft_->make_value(&place, {}, flag_type));
  }
  // What is scanned comes first, then what the body has made outside.
  std::vector<ValueId> sliced;
  for (const LoopPlan::Slice& slice : plan.slices) {
    auto index = plan.parameter_index(slice.tensor);
    flatten(index ? arguments[*index] : demand(slice.tensor), sliced, header);
    const ir::Apply* gather = slice.gathers[0];
    ValueId id = draft_->make_value(body, gather->name(), gather->type(), gather);
    body->inputs.push_back(id);
    for (const ir::Apply* each : slice.gathers) replaced_[each] = id;
  }

  // The body.
  std::vector<ValueId> results, scanned;
  {
    Activation activation(*this, header, *body);
    bind_iteration(plan, in_body);
    Bindings next = emit_tail_call(*body, plan.again, plan.branch_arguments, plan);
    for (size_t i = 0; i < n; ++i) {
      if (plan.role(i) == Role::Carried) flatten(next[i], results, header);
      if (plan.role(i) == Role::Accumulator) flatten(next[i], scanned, header);
      if (plan.role(i) == Role::Invariant) next[i] = in_body[i];
    }
    if (!is_scan) {
      Activation again(*this, header, *body);
      bind_iteration(plan, next);
      // Inside, what no iteration changes holds.
      const bool may_end = !std::ranges::all_of(plan.rest, [&](const ir::Node* n) { return is_invariant(plan, n); });
      results.insert(results.begin(), may_end ? emit_condition(plan, *body, going_on) : going_on);
      for (const ir::Node* node : plan.shared) flatten(demand(node), results, header);
    }
    if (filler != kOmitted) results.push_back(filler);
    const size_t num_carried = is_scan ? 0 : results.size();
    results.insert(results.end(), scanned.begin(), scanned.end());
    set_results(*body, results, {}, num_carried);
    declare_items(plan, std::span(body->outputs).last(scanned.size()));
  }
  for (const LoopPlan::Slice& slice : plan.slices) {
    for (const ir::Apply* gather : slice.gathers) replaced_.erase(gather);
  }

  // The node itself, then the result.
  std::vector<ValueId> inputs, outputs = finals;
  if (!is_scan) inputs = {trip_count, condition};
  inputs.insert(inputs.end(), first.begin(), first.end());
  inputs.insert(inputs.end(), sliced.begin(), sliced.end());
  std::vector<int64_t> axes, directions, scan_axes, scan_directions;
  for (const LoopPlan::Slice& slice : plan.slices) {
    scan_axes.push_back(slice.axis);
    scan_directions.push_back(slice.reverse);
  }
  for (const LoopPlan::Parameter& parameter : plan.parameters) {
    if (parameter.role != Role::Accumulator) continue;
    const ir::Apply* stack = parameter.stacks[0];
    outputs.push_back(draft_->make_value(&place, stack->name(), stack->type(), stack));
    for (const ir::Apply* each : parameter.stacks) replaced_[each] = outputs.back();
    axes.push_back(parameter.axis);
    directions.push_back(parameter.reverse);
  }
  Subgraph subgraph{"body", body};
  if (!outputs.empty()) {
    DraftNode& node = add_control(place, is_scan ? "Scan" : "Loop", inputs, outputs, {&subgraph, 1}, origin);
    if (is_scan) {
      std::vector<AttributeSet::Entry> attributes{{"num_scan_inputs", static_cast<int64_t>(plan.slices.size())}};
      auto add = [&](const char* name, std::vector<int64_t> values) {
        if (std::ranges::any_of(values, [](int64_t v) { return v != 0; }))
          attributes.emplace_back(name, std::move(values));
      };
      add("scan_input_axes", scan_axes);
      add("scan_input_directions", scan_directions);
      add("scan_output_axes", axes);
      add("scan_output_directions", directions);
      node.attributes = draft_->keep(AttributeSet(std::move(attributes)));
    }
  }
  open_loops_.erase(component);
  Binding result = emit_exit(place, plan, after, origin);
  for (const LoopPlan::Parameter& parameter : plan.parameters) {
    for (const ir::Apply* each : parameter.stacks) replaced_.erase(each);
  }
  return result;
}

}  // namespace anfora::onnx

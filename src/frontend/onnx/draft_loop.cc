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

#include "analysis/loops.h"
#include "anfora/error.h"
#include "frontend/onnx/draft_builder.h"

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
  LoopPlan(const analysis::Loop& loop, const Bindings& initial, Nodes first)
      : initial(initial), run(loop, std::move(first)), header(loop.header), parameters(header->parameters().size()) {
    for (const ir::Use& use : loop.tail->operands().subspan(1)) branch_arguments.push_back(use.node);
  }

  enum class Role : uint8_t { Carried, Invariant, Unused, Counter, Condition, Accumulator };
  struct Parameter {
    Role role = Role::Carried;
    const ir::Node* item = nullptr;        // of an accumulator: what an iteration appends
    std::vector<const ir::Apply*> stacks;  // of an accumulator: what stacks it at the end
    int64_t axis = 0, reverse = 0;         // of those
  };
  struct Slice {  // what is scanned
    analysis::LoopRun::Scan scan;
    std::vector<const ir::Apply*> gathers;
  };

  const Bindings& initial;
  analysis::LoopRun run;
  const ir::Graph* header;
  Nodes branch_arguments;
  std::vector<Parameter> parameters;
  std::optional<analysis::LoopRun::Bound> bound;  // on the number of the iteration
  const ir::Node* bound_test = nullptr;           // the conjunct of the test that says it
  Nodes rest;                                     // the other conjuncts
  Nodes shared;                                   // values that the test and other parts read
  Reached in_test, in_body, in_exit;
  std::vector<Slice> slices;  // of a Scan

  const analysis::Loop& loop() const { return run.loop(); }
  Role role(size_t i) const { return parameters[i].role; }
  Role role(const ir::Parameter* p) const { return role(p->index()); }
  std::optional<size_t> parameter_index(const ir::Node* node) const {
    const ir::Parameter* parameter = node->as_parameter();
    if (!parameter || parameter->graph() != header) return std::nullopt;
    return parameter->index();
  }
};

namespace {

bool same_known_type(const ir::Type* a, const ir::Type* b) {
  return a && a == b && a->is_tensor() && a->has_rank() && std::ranges::none_of(a->dims(), &ir::Dim::is_unknown);
}

}  // namespace

// Analysis -----------------------------------------------------------------------------------------

// What running `root` (a value or a function) reads of the header's own nodes, directly or through other graphs; not behind those of
// `border`.
void DraftBuilder::collect(const LoopPlan& plan, const ir::Node* root, Reached& reached, const Reached* border) {
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
      if (border && border->nodes.contains(node)) continue;
      for (const ir::Use& use : node->as_apply()->operands()) pending.push_back(use.node);
    }
  }
}

void DraftBuilder::find_roles(LoopPlan& plan) {
  using Role = LoopPlan::Role;
  using Kind = analysis::LoopRun::Variable::Kind;
  for (const ir::Parameter* p : plan.header->parameters()) {
    const bool is_used = std::ranges::any_of(p->uses(), [&](const ir::Use& use) { return is_live(use.user); });
    Role& role = plan.parameters[p->index()].role;
    role = !is_used ? Role::Unused : plan.run.variable(p).kind == Kind::Invariant ? Role::Invariant : Role::Carried;
  }
}

void DraftBuilder::find_trip_count(LoopPlan& plan) {
  using Role = LoopPlan::Role;
  const bool goes_on_when_true = plan.loop().goes_on_when;
  auto counts = [&](const ir::Parameter* p) {
    const Tensor* start = plan.run.is_index(p) ? ir::constant_tensor(plan.run.first(p)) : nullptr;
    return start && start->dtype() == DType::I64 && start->rank() == 0;
  };
  plan.rest = goes_on_when_true ? analysis::conjuncts(plan.loop().test()) : Nodes{plan.loop().test()};
  for (const ir::Node* conjunct : plan.rest) {
    const auto bound = goes_on_when_true ? plan.run.bound_of(conjunct) : std::nullopt;
    if (!bound || !counts(bound->index) || !plan.run.is_invariant(bound->count)) continue;
    if (!bound->count->type() || bound->count->type()->dtype() != DType::I64) continue;
    plan.bound = bound, plan.bound_test = conjunct;
    std::erase(plan.rest, conjunct);
    break;
  }
  for (const ir::Node* conjunct : plan.rest) collect(plan, conjunct, plan.in_test);
  collect(plan, plan.loop().again(), plan.in_body);
  collect(plan, plan.loop().leave(), plan.in_exit);
  for (const ir::Node* argument : plan.branch_arguments) {
    collect(plan, argument, plan.in_body);
    collect(plan, argument, plan.in_exit);
  }

  const ir::Parameter* counter = plan.bound ? plan.bound->index : nullptr;
  for (const ir::Parameter* p : plan.header->parameters()) {
    if (!counter && plan.role(p) == Role::Carried && counts(p)) counter = p;  // a Loop counts, whatever ends it
  }
  if (counter && !plan.in_exit.nodes.contains(counter) && !plan.in_test.nodes.contains(counter)) {
    plan.parameters[counter->index()].role = Role::Counter;
  }
  if (plan.rest.size() == 1 && goes_on_when_true) {
    auto index = plan.parameter_index(plan.rest[0]);
    if (index && plan.role(*index) == Role::Carried && !plan.in_exit.nodes.contains(plan.rest[0])) {
      plan.parameters[*index].role = Role::Condition;
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
  for (const ir::Parameter* parameter : plan.header->parameters()) {
    const ir::Node* item = plan.run.variable(parameter).item;
    if (!item || plan.role(parameter) != LoopPlan::Role::Carried) continue;
    const ir::Node* insert = plan.run.next(parameter);
    LoopPlan::Parameter candidate{LoopPlan::Role::Accumulator, item, {}, 0, 0};
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
    if (fits && !candidate.stacks.empty()) plan.parameters[parameter->index()] = std::move(candidate);
  }
}

// Nodes that the test computes and that the body or the result reads: where their readers first meet the test's.
void DraftBuilder::find_shared(LoopPlan& plan) {
  Reached readers;
  collect(plan, plan.loop().again(), readers, &plan.in_test);
  collect(plan, plan.loop().leave(), readers, &plan.in_test);
  for (const ir::Node* argument : plan.branch_arguments) collect(plan, argument, readers, &plan.in_test);
  for (const ir::Node* node : readers.nodes) {
    if (node->is_apply() && plan.in_test.nodes.contains(node)) plan.shared.push_back(node);
  }
  std::ranges::sort(plan.shared, {}, &ir::Node::id);
}

bool DraftBuilder::find_scan(LoopPlan& plan) {
  using Role = LoopPlan::Role;
  const ir::Parameter* counter = plan.bound ? plan.bound->index : nullptr;
  if (!counter || plan.role(counter) != Role::Counter || !plan.rest.empty() || !plan.shared.empty()) return false;
  const std::vector<ir::Apply*>& back_edges = plan.loop().back_edges;
  for (const ir::Parameter* p : plan.header->parameters()) {
    if (plan.role(p) != Role::Carried) continue;
    // A Scan does not let a carried value change its shape.
    const Binding start = plan.initial[p->index()];
    if (start.kind != Binding::Kind::Value || back_edges.size() != 1) return false;
    if (!same_known_type(draft_->value(start.index).type, plan.run.next(p)->type())) return false;
  }

  auto add_slice = [&](const ir::Apply* gather) {
    const auto scan = plan.run.scan_of(*gather, *plan.bound);
    bool in_body = gather->graph() == plan.header
                       ? plan.in_body.nodes.contains(gather) && !plan.in_exit.nodes.contains(gather)
                       : plan.in_body.graphs.contains(gather->graph());
    if (!scan || !in_body) return false;
    auto same = std::ranges::find(plan.slices, *scan, &LoopPlan::Slice::scan);
    if (same == plan.slices.end()) same = plan.slices.insert(same, {*scan, {}});
    same->gathers.push_back(gather);
    return true;
  };
  auto all_users = [&](const ir::Apply* node, auto&& is_fine) {
    auto is_dead_or_fine = [&](const ir::Use& use) { return !is_live(use.user) || is_fine(use.user); };
    return std::ranges::all_of(node->uses(), is_dead_or_fine);
  };
  // The counter of the next iteration, which nothing else reads.
  auto is_next = [&](const ir::Apply* node) {
    auto is_back_edge = [&](const ir::Apply* user) { return std::ranges::count(back_edges, user) > 0; };
    auto passes = [&](const ir::Apply* call) { return call->input(counter->index() + 1) == node; };
    return std::ranges::any_of(back_edges, passes) && all_users(node, is_back_edge);
  };
  for (const ir::Use& use : counter->uses()) {
    const ir::Apply* user = use.user;
    if (!is_live(user) || user == plan.bound_test || is_next(user)) continue;
    if (user->is("Sub") ? !all_users(user, add_slice) : !add_slice(user)) return false;
  }
  return !plan.slices.empty();
}

DraftBuilder::LoopPlan DraftBuilder::plan_loop(const ir::Graph* header, const Bindings& arguments) {
  if (arguments.size() != header->parameters().size()) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("graph @{} has {} parameters and is called with {} arguments",
                                                     header->name(), header->parameters().size(), arguments.size()));
  }
  const auto loop = analysis::Loop::of(*header, order_, calls_);
  if (!loop) refuse(header, "it calls itself other than behind one test at its end");
  Nodes first;
  for (Binding start : arguments) {
    const bool is_value = start.kind == Binding::Kind::Value && start.index != kOmitted;
    first.push_back(is_value ? draft_->value(start.index).origin : nullptr);
  }
  LoopPlan plan(*loop, arguments, std::move(first));
  find_roles(plan);
  find_trip_count(plan);
  find_accumulators(plan);
  find_shared(plan);
  if (opset_ < kFirstScan || !find_scan(plan)) {
    plan.slices.clear();
    for (LoopPlan::Parameter& parameter : plan.parameters) {
      // A Loop stacks along a new first axis only; other axes stack the sequence behind the loop.
      if (parameter.role == LoopPlan::Role::Accumulator && (parameter.axis != 0 || parameter.reverse)) parameter = {};
    }
  }
  return plan;
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
    // What cannot be computed has no type, and is stacked by no iteration.
    const DType dtype = value.type && value.type->is_tensor() ? value.type->dtype() : static_cast<DType>(attributes.get_int("dtype", 0));
    if (!attributes.has("shape") || dtype == DType::Undefined) continue;
    boost::container::small_vector<ir::Dim, 4> dims;
    ir::DimTable& table = module_.context().dims();
    for (int64_t size : attributes.get_ints("shape")) dims.push_back(size < 0 ? table.unknown() : table.constant(size));
    value.type = module_.context().tensor_type(dtype, {dims.data(), dims.size()});
  }
}

// Whether to go on, for the present bindings; `otherwise` when there is no test beside the trip count.
ValueId DraftBuilder::emit_condition(const LoopPlan& plan, DraftGraph& place, ValueId otherwise) {
  if (plan.rest.empty()) return otherwise;
  ValueId condition = demand_value(plan.rest[0]);
  const ir::Type* type = plan.loop().test()->type();
  for (const ir::Node* conjunct : std::span(plan.rest).subspan(1)) {
    ValueId both[] = {condition, demand_value(conjunct)};
    condition = draft_->make_value(&place, {}, type);
    add_node(place, "And", both, {&condition, 1}, nullptr);
  }
  if (!plan.loop().goes_on_when) {
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
  if (calls_.component(graph) != calls_.component(plan.header)) {
    refuse(plan.header, "it returns from inside an iteration");
  }
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
  return call(place, plan.loop().leave(), demand_all(plan.branch_arguments), origin);
}

DraftBuilder::Binding DraftBuilder::emit_loop(DraftGraph& place, const ir::Graph* header, const Bindings& arguments,
                                              const ir::Apply* origin) {
  using Role = LoopPlan::Role;
  const size_t component = calls_.component(header);
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
  if (plan.bound && !is_scan) {
    auto index = plan.parameter_index(plan.bound->count);
    Binding bound_value = index ? arguments[*index] : demand(plan.bound->count);
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
    auto index = plan.parameter_index(slice.scan.tensor);
    flatten(index ? arguments[*index] : demand(slice.scan.tensor), sliced, header);
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
    Bindings next = emit_tail_call(*body, plan.loop().again(), plan.branch_arguments, plan);
    for (size_t i = 0; i < n; ++i) {
      if (plan.role(i) == Role::Carried) flatten(next[i], results, header);
      if (plan.role(i) == Role::Accumulator) flatten(next[i], scanned, header);
      if (plan.role(i) == Role::Invariant) next[i] = in_body[i];
    }
    if (!is_scan) {
      Activation again(*this, header, *body);
      bind_iteration(plan, next);
      // Inside, what no iteration changes holds.
      const bool may_end = !std::ranges::all_of(plan.rest, [&](const ir::Node* n) { return plan.run.is_invariant(n); });
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
    scan_axes.push_back(slice.scan.axis);
    scan_directions.push_back(slice.scan.reversed);
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

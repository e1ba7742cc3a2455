// Reverse-mode differentiation: main gets, behind its results, the sensitivities of one of them by main's parameters. The result is code of
// the same IR, to be optimized, differentiated again, run or exported. After B. Pearlmutter and J. Siskind, "Reverse-mode AD in a functional
// framework: Lambda the ultimate backpropagator", 2008, and M. Innes, "Don't unroll adjoint: differentiating SSA-form programs", 2018.
//
// Every function that a call differentiates through becomes two. The forward one returns, beside its result, the residuals: what the other one
// reads of it. The backward one takes them and the sensitivities of the results, and returns those of the arguments:
//
//     graph @f(%x, %w) {                    graph @f.forward(%x, %w) {             graph @f.backward(%x, %w, %p, %dy) {
//       %p = MatMul(%x, %w)                   %p = MatMul(%x, %w)                    %dp = Mul(%dy, Sub(1, Mul(Tanh(%p), Tanh(%p))))
//       return Tanh(%p)                       return (Tanh(%p), %p)                  return (MatMul(%dp, wᵀ), MatMul(xᵀ, %dp))
//     }                                     }                                      }
//
// The backward function is made as one nested in the forward one, over whose nodes it is then lifted (ir/clone.h): the free variables are the
// residuals. Where a call chooses between functions, all return the residuals of all, with empty tensors for those of the others.
//
// A recursive function has residuals of any depth. Its forward function returns the backward one as it is, a closure, which holds the closures
// of the calls inside. A loop needs none: a function that tests, and then calls itself at the end of its body, stays one. Going forward it
// pushes what an iteration's backward function reads onto sequences; a second loop reads them in reverse. What the iterations have in common
// is kept once.
//
//     graph @loop(%v) {                     graph @loop.forward(%v, %n, %s) {                graph @loop.backward(%n, %s, %dv) {
//       test → loop(step(%v))                 test → loop.forward(v', n + 1, push(s, r))        n > 0 → loop.backward(n − 1, s,
//       else → leave(%v)                      else → (%v, %n, %s)                                                 step.backward(s[n − 1], dv))
//     }                                     }  with (v', r) = step.forward(v)                else → dv
//                                                                                            }
//
// Within a body one walk backwards visits the nodes, users first. What does not depend on a parameter that is differentiated by has no
// sensitivity, nor has what the result does not depend on: functions are made for each set of arguments and results that matter at a call. The
// gradient of an operator is a function of ops/gradients.h. Linear in the size of what is made.
//
// Functions are lambda-lifted first, so that a call hands over all that its function reads.
#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <map>
#include <tuple>
#include <vector>

#include "analysis/calls.h"
#include "anfora/error.h"
#include "ir/clone.h"
#include "ir/library.h"
#include "ir/order.h"
#include "ir/queries.h"
#include "ops/gradients.h"
#include "passes/leaves.h"
#include "passes/loop_form.h"
#include "passes/pass.h"
#include "passes/replacement.h"
#include "rewrite/instantiate.h"

namespace anfora::passes {

extern const Pass kDifferentiate, kLambdaLift;

namespace {

using namespace ir;

[[noreturn]] void refuse_gradient(const Apply& node, std::string why, std::string hint = {}) {
  Error error(ErrorCode::Unsupported, std::move(why));
  error.at_node(describe(node));
  if (node.location()) error.at_location(to_string(*node.location()));
  if (!hint.empty()) error.with_hint(std::move(hint));
  throw error;
}

bool has_no_derivative(const Node* node) { return node->as_value() && node->as_value()->is_none(); }

class Differentiation {
 public:
  explicit Differentiation(PassContext& context)
      : context_(context),
        module_(context.module),
        rewriter_(module_, context.inference),
        library_(module_.context(), ops::gradient_files(), Library::Of::Gradients),
        calls_(topological_order(module_)) {}

  void run() {
    Graph& main = *module_.main();
    std::vector<Node*> results;
    const bool is_tuple = main.result()->type()->is_tuple();
    const size_t num_results = is_tuple ? main.result()->type()->elements().size() : 1;
    for (size_t i = 0; i < num_results; ++i) results.push_back(is_tuple ? item(&main, main.result(), i) : main.result());
    const size_t of = context_.options.gradient.of;
    if (!is_float_tensor(results[of]->type())) {
      throw Error(ErrorCode::InvalidArgument, fmt::format("the result is {}, and only floats have derivatives", to_string(results[of]->type())));
    }
    std::vector<size_t> by;
    for (const Parameter* p : main.parameters()) {
      if (is_float_tensor(p->type())) by.push_back(p->index());
    }
    if (context_.options.gradient.by) by = *context_.options.gradient.by;

    Body body{&main, &main};
    for (size_t i : by) body.varied.insert(main.parameter(i));
    // The walk over main replaces calls by what is made of them; the tuple keeps track.
    Apply* kept = module_.make_tuple(&main, results);
    kept->set_type(module_.context().tuple_type(types_of(results)));
    module_.set_result(&main, kept);
    prepare(body);
    if (body.varied.contains(kept->input(of))) add(body, kept->input(of), 0, filled_like(&main, kept->input(of), 1));
    walk(body);
    std::vector<Node*> all;
    for (const Use& use : kept->operands()) all.push_back(use.node);
    auto& names = module_.output_names();
    auto& declared = module_.metadata().output_types;
    for (size_t i : by) {
      Parameter* p = main.parameter(i);
      all.push_back(sensitivity_or_zero(body, p, 0));
      if (!names.empty()) names.push_back(name_of_gradient(names, *p));
      if (!declared.empty()) declared.push_back(nullptr);
    }
    Apply* result = module_.make_tuple(&main, all);
    result->set_type(module_.context().tuple_type(types_of(all)));
    module_.set_result(&main, result);
    context_.remarks.applied(kDifferentiate.name, kDifferentiate.name, *main.value(), fmt::format("by {} parameters", by.size()));
  }

 private:
  using Mask = std::vector<bool>;
  // A leaf of an argument or of a result.
  struct Leaf {
    size_t value, leaf;
    bool operator==(const Leaf&) const = default;
  };

  // A function while it is differentiated: where its nodes are, and where the sensitivities are computed.
  struct Body {
    Graph *forward, *backward;
    boost::unordered_flat_set<const Node*> varied = {};                                  // depend on what is differentiated by
    boost::unordered_flat_map<const Node*, std::vector<Node*>> sensitivities = {};       // by leaf; null: none, or zero
  };

  // Functions that a call chooses between, made for the arguments and the leaves of the result that matter.
  struct Pair {
    std::vector<Graph*> forward, backward;  // by callee; closures: the backward ones are results of the forward ones
    bool is_closure = false;
    std::vector<const Type*> residuals = {};
    Mask reads = {};                        // which arguments the backward functions take part in
    std::vector<Leaf> results = {};         // what they return: sensitivities of these
  };

  // x.grad; x.grad.grad where that is one of the model's results.
  static std::string name_of_gradient(std::span<const std::string> taken, const Parameter& p) {
    std::string name = fmt::format("{}.grad", p.name());
    while (std::ranges::count(taken, name)) name += ".grad";
    return name;
  }

  // Nodes ----------------------------------------------------------------------------------------------------------------

  static std::vector<const Type*> types_of(std::span<Node* const> nodes) {
    std::vector<const Type*> types;
    for (const Node* node : nodes) types.push_back(node->type());
    return types;
  }

  Node* apply(Graph* graph, std::string_view op, std::initializer_list<Node*> inputs, const AttributeSet& attributes = {}) {
    Apply* node = module_.apply(graph, module_.context().get_operator(op), inputs, attributes);
    context_.inference.infer(*node);
    return node;
  }
  Node* item(Graph* graph, Node* tuple, size_t i) {
    Node* made = module_.tuple_item(graph, tuple, i);
    const Type* type = tuple->type();
    if (!made->type() && type && type->is_tuple()) made->set_type(type->element(i));
    return made;
  }
  Node* tuple(Graph* graph, std::span<Node* const> items) {
    Apply* made = module_.make_tuple(graph, items);
    const auto types = types_of(items);
    if (!std::ranges::count(types, nullptr)) made->set_type(module_.context().tuple_type(types));
    return made;
  }
  // The leaf of a value as a node.
  Node* leaf_of(Graph* graph, Node* node, size_t leaf) {
    while (node->type() && node->type()->is_tuple()) {
      size_t i = 0;
      while (i + 1 < node->type()->elements().size() && offset_of(node->type(), i + 1) <= leaf) ++i;
      leaf -= offset_of(node->type(), i);
      node = item(graph, node, i);
    }
    return node;
  }
  // The value of a type whose leaves these are.
  Node* joined(Graph* graph, const Type* type, std::span<Node* const>& leaves) {
    if (!type || !type->is_tuple()) {
      Node* first = leaves.front();
      leaves = leaves.subspan(1);
      return first;
    }
    std::vector<Node*> items;
    for (const Type* element : type->elements()) items.push_back(joined(graph, element, leaves));
    return tuple(graph, items);
  }
  Node* filled_like(Graph* graph, Node* node, double number) {
    constexpr int64_t kOne[] = {1};
    const Tensor value = rewrite::scalar_of(node->type()->dtype(), number)->reshaped(kOne);
    return apply(graph, "ConstantOfShape", {apply(graph, "Shape", {node})}, {{"value", value}});
  }

  Apply* call(Graph* graph, Node* callee, std::span<Node* const> arguments, const Location* location) {
    Apply* made = module_.call(graph, callee, arguments);
    made->set_location(location);
    return made;
  }

  // Sensitivities --------------------------------------------------------------------------------------------------------

  void add(Body& body, Node* node, size_t leaf, Node* sensitivity) {
    if (!sensitivity || has_no_derivative(sensitivity) || !body.varied.contains(node)) return;
    auto& leaves = body.sensitivities[node];
    if (leaves.empty()) leaves.resize(leaf_types(node->type()).size());
    leaves[leaf] = leaves[leaf] ? apply(body.backward, "Add", {leaves[leaf], sensitivity}) : sensitivity;
  }
  Node* sensitivity(const Body& body, const Node* node, size_t leaf) const {
    auto found = body.sensitivities.find(node);
    return found == body.sensitivities.end() ? nullptr : found->second[leaf];
  }
  Node* sensitivity_or_zero(Body& body, Node* node, size_t leaf) {
    if (Node* known = sensitivity(body, node, leaf)) return known;
    return filled_like(body.backward, leaf_of(body.forward, node, leaf), 0);
  }

  // What depends on what is differentiated by ----------------------------------------------------------------------------

  // Whether the gradient gives a sensitivity of an operand. Where there is none, the walk will say so.
  bool has_derivative(const Apply& node, size_t operand) const {
    const Graph* function = library_.find(node.op());
    if (!function || library_.meaning(node.op())) return true;
    const Node* result = function->result();
    if (const Apply* items = result->as(Primitive::MakeTuple)) result = items->input(std::min(operand, items->num_inputs() - 1));
    return !has_no_derivative(result);
  }
  bool depends(const Body& body, const Apply& node) const {
    if (!holds_floats(node.type())) return false;
    for (const Use& use : node.operands()) {
      if (!body.varied.contains(use.node)) continue;
      if (node.primitive() != Primitive::Operation || has_derivative(node, use.index())) return true;
    }
    return false;
  }

  // Finds what varies. Before, operators are replaced whose gradient is that of others: by what they mean, and of any number of operands by
  // those of two.
  void prepare(Body& body) {
    for (bool is_changed = true; is_changed;) {
      is_changed = false;
      for (Apply* node : topological_order(*body.forward)) {
        if (!depends(body, *node)) continue;
        if (node->primitive() == Primitive::Operation && simplify(*node)) {
          is_changed = true;
        } else {
          body.varied.insert(node);
        }
      }
    }
  }

  bool simplify(Apply& node) {
    const Graph* function = library_.find(node.op());
    if (!function) return false;
    const auto& inputs = node.op().inputs;
    Node* simpler = nullptr;
    if (library_.meaning(node.op())) {
      simpler = meaning_of(node, *function);
    } else if (inputs.back().arity == Formal::Arity::Variadic && inputs.size() == 1 && node.num_inputs() != 2) {
      simpler = node.input(0);
      for (size_t i = 1; i < node.num_inputs(); ++i) {
        Node* operands[] = {simpler, node.input(i)};
        Apply* made = module_.apply_interned(node.graph(), node.op(), operands, &node.attributes(), 1, node.location());
        context_.inference.infer(*made);
        simpler = made;
      }
    }
    if (!simpler) return false;
    module_.replace(&node, simpler);
    module_.erase(&node);
    return true;
  }

  Node* meaning_of(Apply& node, const Graph& function) {
    rewriter_.set_root(node);
    try {
      rewrite::Instance instance(library_, rewriter_, function, node.attributes());
      std::vector<Node*> results(node.num_outputs());
      for (size_t i = 0; i < results.size(); ++i) results[i] = is_result_used(node, i) ? instance.result(i) : module_.none();
      return results.size() == 1 ? results[0] : rewriter_.tuple(results);
    } catch (const rewrite::Refusal& refusal) {
      refuse_gradient(node, fmt::format("{} has no gradient here: {}", node.op().qualified, refusal.why));
    }
  }

  // The walk -------------------------------------------------------------------------------------------------------------

  void walk(Body& body) {
    const auto order = topological_order(*body.forward);
    for (size_t i = order.size(); i-- > 0;) {
      if (!order[i]->is_erased()) visit(body, *order[i]);
    }
  }

  void visit(Body& body, Apply& node) {
    auto found = body.sensitivities.find(&node);
    if (found == body.sensitivities.end()) return;
    const std::vector<Node*> leaves = found->second;
    switch (node.primitive()) {
      case Primitive::MakeTuple:
        for (size_t i = 0; i < node.num_inputs(); ++i) {
          const size_t offset = offset_of(node.type(), i), count = leaf_types(node.input(i)->type()).size();
          for (size_t k = 0; k < count; ++k) add(body, node.input(i), k, leaves[offset + k]);
        }
        return;
      case Primitive::TupleGetItem: {
        const size_t offset = offset_of(node.input(0)->type(), static_cast<size_t>(node.attributes().require_int("index")));
        for (size_t k = 0; k < leaves.size(); ++k) add(body, node.input(0), offset + k, leaves[k]);
        return;
      }
      case Primitive::Call: return visit_call(body, node, leaves);
      case Primitive::Operation: return visit_operation(body, node, leaves);
      default: return;
    }
  }

  void visit_operation(Body& body, Apply& node, std::span<Node* const> leaves) {
    const Graph* function = library_.find(node.op());
    if (!function) refuse_gradient(node, fmt::format("{} has no gradient", node.op().qualified), "docs/ops.md lists what has one");
    const Operator& op = node.op();
    // The gradient takes the place of a copy of the node in the backward graph, whose operands it reads.
    std::vector<Node*> arguments;
    for (const Use& use : node.operands()) arguments.push_back(use.node);
    Apply* place = module_.apply_interned(body.backward, op, arguments, &node.attributes(), node.num_outputs(), node.location());
    place->set_type(node.type());
    const size_t num_operands = function->parameters().size() - 2 * op.outputs.size();
    arguments.resize(num_operands, module_.none());
    add_results(body, node, leaves, arguments);
    rewriter_.set_root(*place);
    try {
      rewrite::Instance gradient(rewriter_, *function, arguments);
      for (size_t i = 0; i < std::min(num_operands, node.num_inputs()); ++i) {
        if (!body.varied.contains(node.input(i)) || !has_derivative(node, i)) continue;
        add(body, node.input(i), 0, num_operands == 1 ? gradient.value() : gradient.item(i));
      }
    } catch (const rewrite::Refusal& refusal) {
      refuse_gradient(node, fmt::format("{} has no gradient here: {}", op.qualified, refusal.why));
    }
    module_.erase(place);
  }

  // The results of an operator, then the sensitivities.
  void add_results(Body& body, Apply& node, std::span<Node* const> leaves, std::vector<Node*>& arguments) {
    const auto& outputs = node.op().outputs;
    if (outputs.back().arity == Formal::Arity::Variadic) {
      std::vector<Node*> all;
      for (size_t i = 0; i < leaves.size(); ++i) {
        all.push_back(leaves[i] ? leaves[i] : filled_like(body.backward, leaf_of(body.backward, &node, i), 0));
      }
      arguments.push_back(&node);
      arguments.push_back(leaves.size() == 1 ? all[0] : tuple(body.backward, all));
      return;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      const bool is_there = i < node.num_outputs();
      arguments.push_back(!is_there ? module_.none() : node.num_outputs() == 1 ? &node : item(body.backward, &node, i));
    }
    for (size_t i = 0; i < outputs.size(); ++i) arguments.push_back(i < leaves.size() && leaves[i] ? leaves[i] : module_.none());
  }

  // Calls ----------------------------------------------------------------------------------------------------------------

  void visit_call(Body& body, Apply& node, std::span<Node* const> leaves) {
    const analysis::Callees callees = analysis::known_callees(node);
    if (callees.empty()) {
      refuse_gradient(node, "the functions that are called here are not known before the run");
    }
    if (auto loop = loop_of(callees, calls_)) return visit_loop(body, node, *loop, leaves);
    Mask active;
    for (size_t i = 1; i < node.num_inputs(); ++i) active.push_back(body.varied.contains(node.input(i)));
    Mask matters;
    std::vector<Node*> sensitivities;
    for (Node* leaf : leaves) {
      matters.push_back(leaf != nullptr);
      if (leaf) sensitivities.push_back(leaf);
    }
    const Pair& pair = pair_of({callees.begin(), callees.end()}, active, matters, false);
    const Forward forward = call_forward(node, pair);
    Node* backward = forward.closure;
    std::vector<Node*> arguments;
    if (!pair.is_closure) {
      backward = chosen(body.backward, node, pair.backward);
      for (size_t i = 1; i < node.num_inputs(); ++i) arguments.push_back(node.input(i));
      arguments.insert(arguments.end(), forward.residuals.begin(), forward.residuals.end());
    }
    arguments.insert(arguments.end(), sensitivities.begin(), sensitivities.end());
    Apply* returned = call(body.backward, backward, arguments, node.location());
    returned->set_type(type_of_results(pair, node));
    for (size_t k = 0; k < pair.results.size(); ++k) {
      add(body, node.input(pair.results[k].value + 1), pair.results[k].leaf, item(body.backward, returned, k));
    }
    module_.replace(&node, forward.result);
    module_.erase(&node);
  }

  const Type* type_of_results(const Pair& pair, const Apply& node) {
    std::vector<const Type*> types;
    for (Leaf leaf : pair.results) types.push_back(leaf_types(node.input(leaf.value + 1)->type())[leaf.leaf]);
    return module_.context().tuple_type(types);
  }

  // One of the functions, as the call chooses.
  Node* chosen(Graph* graph, const Apply& node, std::span<Graph* const> functions) {
    if (functions.size() == 1) return functions[0]->value();
    return module_.make_switch(graph, node.input(0)->as_apply()->input(0), functions[0]->value(), functions[1]->value());
  }

  struct Forward {
    Node *result, *closure;
    std::vector<Node*> residuals;
  };
  // The call with the forward functions in place of its own.
  Forward call_forward(const Apply& node, const Pair& pair) {
    Graph* graph = node.graph();
    std::vector<Node*> arguments;
    for (size_t i = 1; i < node.num_inputs(); ++i) arguments.push_back(node.input(i));
    Apply* made = call(graph, chosen(graph, node, pair.forward), arguments, node.location());
    Forward forward{.result = module_.tuple_item(graph, made, 0), .closure = nullptr, .residuals = {}};
    forward.result->set_type(node.type());
    if (pair.is_closure) forward.closure = module_.tuple_item(graph, made, 1);
    for (size_t i = 0; i < pair.residuals.size(); ++i) {
      forward.residuals.push_back(module_.tuple_item(graph, made, i + 1));
      forward.residuals.back()->set_type(pair.residuals[i]);
    }
    return forward;
  }

  // Functions ------------------------------------------------------------------------------------------------------------

  using Key = std::tuple<std::vector<Graph*>, Mask, Mask, bool>;

  // `is_complete`: sensitivities of all arguments that matter are returned, zeros where there are none.
  const Pair& pair_of(std::vector<Graph*> callees, const Mask& active, const Mask& matters, bool is_complete) {
    auto [entry, is_new] = pairs_.try_emplace(Key{callees, active, matters, is_complete});
    Pair& pair = entry->second;
    if (is_new) make_pair(pair, callees, active, matters, is_complete);
    return pair;
  }

  void make_pair(Pair& pair, std::span<Graph* const> callees, const Mask& active, const Mask& matters, bool is_complete) {
    pair.is_closure = std::ranges::any_of(callees, [&](const Graph* g) { return calls_.is_recursive(g); });
    for (const Graph* callee : callees) {
      Graph* forward = module_.make_graph(fmt::format("{}.forward", callee->name()));
      for (const Parameter* p : callee->parameters()) module_.add_parameter(forward, p->type(), p->name());
      pair.forward.push_back(forward);
    }
    if (pair.is_closure || is_complete) pair.results = leaves_of(*callees[0], active);
    std::vector<Body> bodies;
    for (size_t i = 0; i < callees.size(); ++i) bodies.push_back(differentiated(*callees[i], pair.forward[i], active, matters));
    if (!pair.is_closure && !is_complete) {
      for (Leaf leaf : leaves_of(*callees[0], active)) {
        const bool is_there = std::ranges::any_of(bodies, [&](const Body& b) { return sensitivity(b, b.forward->parameter(leaf.value), leaf.leaf); });
        if (is_there) pair.results.push_back(leaf);
      }
    }
    for (Body& body : bodies) {
      std::vector<Node*> results;
      for (Leaf leaf : pair.results) results.push_back(sensitivity_or_zero(body, body.forward->parameter(leaf.value), leaf.leaf));
      module_.set_result(body.backward, tuple(body.backward, results));
    }
    if (!pair.is_closure) lift_backward(pair, bodies);
    if (pair.is_closure) {
      for (Body& body : bodies) {
        Node* items[] = {body.forward->result(), body.backward->value()};
        module_.set_result(body.forward, module_.make_tuple(body.forward, items));
        pair.backward.push_back(body.backward);
      }
    }
  }

  static std::vector<Leaf> leaves_of(const Graph& function, const Mask& active) {
    std::vector<Leaf> leaves;
    for (const Parameter* p : function.parameters()) {
      const auto types = leaf_types(p->type());
      for (size_t k = 0; active[p->index()] && k < types.size(); ++k) {
        if (is_float_tensor(types[k])) leaves.push_back({p->index(), k});
      }
    }
    return leaves;
  }

  // A copy of the function with its backward function nested in it, whose result is still to be set.
  Body differentiated(const Graph& function, Graph* forward, const Mask& active, const Mask& matters) {
    Cloner cloner(module_);
    for (Parameter* p : function.parameters()) cloner.bind(p, forward->parameter(p->index()));
    module_.set_result(forward, cloner.splice(function, forward));
    Body body{forward, module_.make_graph(fmt::format("{}.backward", function.name()), forward)};
    for (size_t i = 0; i < active.size(); ++i) {
      if (active[i]) body.varied.insert(forward->parameter(i));
    }
    prepare(body);
    const auto types = leaf_types(forward->result()->type());
    for (size_t k = 0; k < matters.size(); ++k) {
      if (matters[k]) add(body, forward->result(), k, module_.add_parameter(body.backward, types[k]));
    }
    walk(body);
    return body;
  }

  // Takes the backward functions out of the forward ones, which return the residuals; makes closures of them where a residual is a function
  // that another alternative has nothing in the place of.
  void lift_backward(Pair& pair, std::span<Body> bodies) {
    struct Slot {
      Node* node;  // whose leaves are residuals from this on
      size_t first;
    };
    std::vector<std::vector<Slot>> slots(bodies.size());
    std::vector<Lifted> lifted;
    pair.reads.resize(bodies[0].forward->parameters().size());
    std::vector<size_t> owner;
    for (size_t b = 0; b < bodies.size(); ++b) {
      lifted.push_back(lift(module_, *bodies[b].backward));
      for (Node* node : lifted[b].captured) {
        if (const Parameter* p = node->as_parameter()) {
          pair.reads[p->index()] = true;
          continue;
        }
        slots[b].push_back({node, pair.residuals.size()});
        add_leaves(node->type(), pair.residuals);
        owner.resize(pair.residuals.size(), b);
      }
    }
    if (bodies.size() > 1 && std::ranges::any_of(pair.residuals, [](const Type* t) { return !t || t->holds_functions(); })) {
      pair.residuals.clear();
      pair.is_closure = true;
      return;
    }
    for (size_t b = 0; b < bodies.size(); ++b) {
      Graph* forward = bodies[b].forward;
      std::vector<Node*> results = {forward->result()};
      for (size_t i = 0; i < pair.residuals.size(); ++i) results.push_back(owner[i] == b ? nullptr : empty(forward, pair.residuals[i]));
      for (const Slot& slot : slots[b]) {
        const size_t count = leaf_types(slot.node->type()).size();
        for (size_t k = 0; k < count; ++k) results[1 + slot.first + k] = leaf_of(forward, slot.node, k);
      }
      module_.set_result(forward, tuple(forward, results));

      Graph* backward = module_.make_graph(bodies[b].backward->name());
      std::vector<Node*> given, arguments, residuals;
      for (const Parameter* p : forward->parameters()) given.push_back(module_.add_parameter(backward, p->type(), p->name()));
      for (const Type* type : pair.residuals) residuals.push_back(module_.add_parameter(backward, type));
      for (const Parameter* p : bodies[b].backward->parameters()) arguments.push_back(module_.add_parameter(backward, p->type()));
      auto slot = slots[b].begin();
      for (Node* node : lifted[b].captured) {
        if (const Parameter* p = node->as_parameter()) {
          arguments.push_back(given[p->index()]);
        } else {
          std::span<Node* const> leaves = std::span<Node* const>(residuals).subspan(slot->first);
          arguments.push_back(joined(backward, node->type(), leaves));
          ++slot;
        }
      }
      Apply* body = call(backward, lifted[b].graph->value(), arguments, nullptr);
      body->set_type(lifted[b].graph->result()->type());
      module_.set_result(backward, body);
      pair.backward.push_back(backward);
    }
  }

  // A value of the type to stand where nobody reads it: without elements, of the rank and of the sizes that are known.
  Node* empty(Graph* graph, const Type* type) {
    if (type->kind() == TypeKind::Sequence) return empty_sequence(graph, type->element());
    if (!type->is_tensor() || type->dtype() == DType::Undefined) return module_.none();
    Shape shape;
    if (type->has_rank()) {
      for (Dim dim : type->dims()) shape.push_back(dim.as_constant().value_or(0));
      if (element_count(shape) > kMostPlaceholder) shape[0] = 0;
    }
    return module_.constant(Tensor::zeros(type->dtype(), shape));
  }
  // Elements of a constant that stands for a residual of another branch.
  static constexpr int64_t kMostPlaceholder = 64;

  // A sequence without items, which knows the type of what will be in it.
  Node* empty_sequence(Graph* graph, const Type* element) {
    return apply(graph, "SequenceErase", {apply(graph, "SequenceConstruct", {empty(graph, element)})});
  }

  // Loops ----------------------------------------------------------------------------------------------------------------

  // The header of a loop in another graph, up to its test and what it hands on to the branches.
  struct Header {
    Node* test;
    std::vector<Node*> handed_on;
  };
  Header copy_header(const LoopForm& loop, Graph* into) {
    Cloner cloner(module_);
    for (Parameter* p : loop.header->parameters()) cloner.bind(p, into->parameter(p->index()));
    Apply* tail = cloner.splice(*loop.header, into)->as_apply();
    Header header{tail->input(0)->as_apply()->input(0), {}};
    for (size_t i = 1; i < tail->num_inputs(); ++i) header.handed_on.push_back(tail->input(i));
    return header;
  }
  // A function of the loop's parameters: the header and then one of the branches; of the body, what it hands on to the next iteration.
  Graph* header_and(const LoopForm& loop, Graph* branch, std::string_view name) {
    Graph* made = module_.make_graph(fmt::format("{}.{}", loop.header->name(), name));
    for (const Parameter* p : loop.header->parameters()) module_.add_parameter(made, p->type(), p->name());
    const Header header = copy_header(loop, made);
    Cloner cloner(module_);
    for (Parameter* p : branch->parameters()) cloner.bind(p, header.handed_on[p->index()]);
    Node* result = cloner.splice(*branch, made);
    if (branch == loop.body) {
      std::vector<Node*> next;
      for (const Use& use : result->as_apply()->operands().subspan(1)) next.push_back(use.node);
      result = tuple(made, next);
    }
    module_.set_result(made, result);
    return made;
  }

  // The parameters that vary once those given do.
  Mask varying(Graph* step, Mask active) {
    for (bool grows = true; grows;) {
      grows = false;
      Body body{step, step};
      for (size_t i = 0; i < active.size(); ++i) {
        if (active[i]) body.varied.insert(step->parameter(i));
      }
      for (const Apply* node : topological_order(*step)) {
        if (depends(body, *node)) body.varied.insert(node);
      }
      const Apply* next = step->result()->as_apply();
      for (size_t i = 0; i < active.size(); ++i) {
        if (active[i] || !body.varied.contains(next->input(i)) || !holds_floats(step->parameter(i)->type())) continue;
        active[i] = grows = true;
      }
    }
    return active;
  }

  void visit_loop(Body& body, Apply& node, const LoopForm& loop, std::span<Node* const> sensitivities) {
    Graph* step = header_and(loop, loop.body, "step");
    Graph* leave = header_and(loop, loop.exit, "leave");
    Mask entering;
    for (size_t i = 1; i < node.num_inputs(); ++i) entering.push_back(body.varied.contains(node.input(i)));
    const Mask active = varying(step, entering);
    const std::vector<Leaf> leaves = leaves_of(*step, active);
    Mask matters;
    for (const Parameter* p : step->parameters()) {
      for (const Type* type : leaf_types(p->type())) matters.push_back(active[p->index()] && is_float_tensor(type));
    }
    const Pair& pair = pair_of({step}, active, matters, true);

    // What an iteration reads: of the arguments those that change, and the residuals.
    const size_t n = step->parameters().size();
    Mask is_pushed(n);
    for (size_t i = 0; i < n; ++i) is_pushed[i] = pair.reads[i] && step->result()->as_apply()->input(i) != step->parameter(i);

    // Forward.
    Graph* graph = body.forward;
    Graph* forward = make_forward_loop(loop, pair, is_pushed);
    std::vector<Node*> arguments;
    for (const Use& use : node.operands().subspan(1)) arguments.push_back(use.node);
    arguments.push_back(module_.scalar<int64_t>(0));
    std::vector<const Type*> last;  // what the loop ends with
    for (const Parameter* p : forward->parameters()) last.push_back(p->type());
    for (size_t i = n + 1; i < last.size(); ++i) arguments.push_back(empty_sequence(graph, last[i]->element()));
    Apply* ended = call(graph, forward->value(), arguments, node.location());
    ended->set_type(module_.context().tuple_type(last));
    std::vector<Node*> ends;
    for (size_t i = 0; i < last.size(); ++i) ends.push_back(item(graph, ended, i));

    // What follows the loop is a call like any other.
    for (size_t i = 0; i < n; ++i) {
      if (active[i]) body.varied.insert(ends[i]);
    }
    Apply* left = call(graph, leave->value(), std::span(ends).first(n), node.location());
    left->set_type(node.type());
    body.varied.insert(left);
    module_.replace(&node, left);
    visit_call(body, *left, sensitivities);

    // Backward.
    Graph* backward = make_backward_loop(*step, pair, is_pushed, std::span(last).subspan(n + 1), leaves);
    std::vector<Node*> given = {ends[n]};
    given.insert(given.end(), ends.begin() + static_cast<std::ptrdiff_t>(n) + 1, ends.end());
    for (size_t i = 0; i < n; ++i) {
      if (pair.reads[i] && !is_pushed[i]) given.push_back(node.input(i + 1));
    }
    for (Leaf leaf : leaves) given.push_back(sensitivity_or_zero(body, ends[leaf.value], leaf.leaf));
    Apply* returned = call(body.backward, backward->value(), given, node.location());
    returned->set_type(type_of_results(pair, node));
    for (size_t k = 0; k < leaves.size(); ++k) {
      add(body, node.input(leaves[k].value + 1), leaves[k].leaf, item(body.backward, returned, k));
    }
    module_.erase(&node);
  }

  // Parameters: those of the loop, the number of iterations, and the sequences. Returns all of them at the end.
  Graph* make_forward_loop(const LoopForm& loop, const Pair& pair, const Mask& is_pushed) {
    Graph* made = module_.make_graph(fmt::format("{}.forward", loop.header->name()));
    auto sequence = [&](const Type* type) { module_.add_parameter(made, module_.context().sequence_type(type)); };
    const size_t n = loop.header->parameters().size();
    for (const Parameter* p : loop.header->parameters()) module_.add_parameter(made, p->type(), p->name());
    Parameter* count = module_.add_parameter(made, module_.context().tensor_type(DType::I64, Shape()), "iterations");
    for (size_t i = 0; i < n; ++i) {
      if (is_pushed[i]) sequence(loop.header->parameter(i)->type());
    }
    for (const Type* type : pair.residuals) sequence(type);
    const Header header = copy_header(loop, made);
    Graph* again = module_.make_graph(fmt::format("{}.again", made->name()), made);
    Graph* done = module_.make_graph(fmt::format("{}.done", made->name()), made);

    std::vector<Node*> own(made->parameters().begin(), made->parameters().end());
    module_.set_result(done, tuple(done, own));

    Apply* stepped = call(again, pair.forward[0]->value(), std::span(own).first(n), nullptr);
    std::vector<Node*> next, pushed;
    Node* state = module_.tuple_item(again, stepped, 0);
    for (size_t i = 0; i < n; ++i) next.push_back(module_.tuple_item(again, state, i));
    next.push_back(apply(again, "Add", {count, module_.scalar<int64_t>(1)}));
    for (size_t i = 0; i < n; ++i) {
      if (is_pushed[i]) pushed.push_back(own[i]);
    }
    for (size_t i = 0; i < pair.residuals.size(); ++i) pushed.push_back(module_.tuple_item(again, stepped, i + 1));
    for (Node* item : pushed) {
      const Operator& insert = module_.context().get_operator("SequenceInsert");
      next.push_back(module_.apply(again, insert, {own[next.size()], item}));
    }
    module_.set_result(again, module_.call(again, made->value(), next));
    Node *yes = again->value(), *no = done->value();
    if (!loop.goes_on_when) std::swap(yes, no);
    module_.set_result(made, module_.call(made, module_.make_switch(made, header.test, yes, no), {}));
    return made;
  }

  // Parameters: the number of iterations that are left, the sequences, what the iterations have in common, and the sensitivities, which it
  // returns at the end.
  Graph* make_backward_loop(const Graph& step, const Pair& pair, const Mask& is_pushed, std::span<const Type* const> sequences,
                            std::span<const Leaf> leaves) {
    Graph* made = module_.make_graph(fmt::format("{}.backward", step.name()));
    std::vector<Node*> shared(step.parameters().size(), module_.none());
    Parameter* left = module_.add_parameter(made, module_.context().tensor_type(DType::I64, Shape()), "iterations");
    for (const Type* type : sequences) module_.add_parameter(made, type);
    for (const Parameter* p : step.parameters()) {
      if (pair.reads[p->index()] && !is_pushed[p->index()]) shared[p->index()] = module_.add_parameter(made, p->type(), p->name());
    }
    const size_t first = made->parameters().size();
    for (Leaf leaf : leaves) module_.add_parameter(made, leaf_types(step.parameter(leaf.value)->type())[leaf.leaf]);
    const std::vector<Node*> own(made->parameters().begin(), made->parameters().end());
    Graph* again = module_.make_graph(fmt::format("{}.again", made->name()), made);
    Graph* done = module_.make_graph(fmt::format("{}.done", made->name()), made);
    module_.set_result(done, tuple(done, std::span(own).subspan(first)));

    Node* index = apply(again, "Sub", {left, module_.scalar<int64_t>(1)});
    std::vector<Node*> popped;
    for (size_t i = 0; i < sequences.size(); ++i) {
      popped.push_back(apply(again, "SequenceAt", {own[i + 1], index}));
    }
    std::vector<Node*> arguments = shared;
    size_t at = 0;
    for (size_t i = 0; i < is_pushed.size(); ++i) {
      if (is_pushed[i]) arguments[i] = popped[at++];
    }
    arguments.insert(arguments.end(), popped.begin() + static_cast<std::ptrdiff_t>(at), popped.end());
    arguments.insert(arguments.end(), own.begin() + static_cast<std::ptrdiff_t>(first), own.end());
    Apply* stepped = call(again, pair.backward[0]->value(), arguments, nullptr);
    std::vector<Node*> next(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(first));
    next[0] = index;
    for (size_t k = 0; k < leaves.size(); ++k) next.push_back(module_.tuple_item(again, stepped, k));
    module_.set_result(again, module_.call(again, made->value(), next));
    Node* goes_on = apply(made, "Greater", {left, module_.scalar<int64_t>(0)});
    module_.set_result(made, module_.call(made, module_.make_switch(made, goes_on, again->value(), done->value()), {}));
    return made;
  }

  PassContext& context_;
  Module& module_;
  rewrite::Rewriter rewriter_;
  const Library library_;
  const analysis::CallOrder calls_;
  std::map<Key, Pair> pairs_;
};

// What was made on the way, and functions that others were made of.
void erase_unused(Module& module) {
  const ModuleOrder live = topological_order(module), all = topological_order(module, Coverage::All);
  std::vector<Apply*> nodes;
  std::vector<Graph*> graphs;
  for (const GraphOrder& graph : all.graphs) {
    if (!std::ranges::count(live.graphs, graph.graph, &GraphOrder::graph)) graphs.push_back(graph.graph);
    for (const auto* list : {&graph.nodes, &graph.dead}) {
      std::ranges::copy_if(*list, std::back_inserter(nodes), [&](const Apply* node) { return !live.contains(*node); });
    }
  }
  module.erase_dead(nodes, graphs);
}

size_t run_differentiate(PassContext& context) {
  if (kLambdaLift.run(context) > 0) context.inference.run();
  Differentiation(context).run();
  erase_unused(context.module);
  context.inference.run();
  return 1;
}

}  // namespace

const Pass kDifferentiate{"differentiate", "differentiation", "gradients of main's result by its parameters", run_differentiate};

}  // namespace anfora::passes

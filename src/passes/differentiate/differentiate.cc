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
// pushes what an iteration's backward function reads onto sequences; a second loop pops it. What the iterations have in common is kept once.
//
//     graph @loop(%v) {                     graph @loop.forward(%v, %n, %s) {                graph @loop.backward(%n, %s, %dv) {
//       test → loop(step(%v))                 test → loop.forward(v', n + 1, push(s, r))        n > 0 → loop.backward(n − 1, pop(s),
//       else → leave(%v)                      else → (%v, %n, %s)                                                 step.backward(top(s), dv))
//     }                                     }  with (v', r) = step.forward(v)                else → dv
//                                                                                            }
//
// Within a body one walk backwards visits the nodes, users first. What does not depend on a parameter that is differentiated by has no
// sensitivity, nor has what the result does not depend on: functions are made for each set of arguments and results that matter at a call. The
// gradient of an operator is a function of ops/gradients.h. Linear in the size of what is made.
//
// Functions are lambda-lifted first, so that a call hands over all that its function reads.
//
// A Gradient, which a program takes of a function of its own, becomes the body of that function with the gradients behind its results, as main
// has them: so there are no residuals, and the same is made as where the function is main. The innermost come first, so that what is
// differentiated is ordinary code.
#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>

#include "anfora/error.h"
#include "ir/order.h"
#include "ir/queries.h"
#include "ops/gradients.h"
#include "passes/differentiate/differentiation.h"

namespace anfora::passes {

using namespace ir;

extern const Pass kDifferentiate, kLambdaLift;

namespace reverse {

namespace {

// x.grad; x.grad.grad where that is one of the model's results.
std::string name_of_gradient(std::span<const std::string> taken, const Parameter& p) {
  std::string name = fmt::format("{}.grad", p.name());
  while (std::ranges::count(taken, name)) name += ".grad";
  return name;
}

}  // namespace

Differentiation::Differentiation(PassContext& context, int64_t checkpoints)
    : context_(context),
      checkpoints_(checkpoints),
      module_(context.module),
      build_(module_, context.inference),
      rewriter_(module_, context.inference),
      library_(module_.context(), ops::gradient_files(), Library::Of::Gradients),
      calls_(topological_order(module_)) {}

std::vector<Node*> Differentiation::with_gradients(Graph& graph, size_t of, std::span<const size_t> by) {
  std::vector<Node*> results;
  const bool is_tuple = graph.result()->type()->is_tuple();
  const size_t num_results = is_tuple ? graph.result()->type()->elements().size() : 1;
  for (size_t i = 0; i < num_results; ++i) results.push_back(is_tuple ? build_.item(&graph, graph.result(), i) : graph.result());
  if (!is_float_tensor(results[of]->type())) {
    throw Error(ErrorCode::InvalidArgument, fmt::format("the result is {}, and only floats have derivatives", to_string(results[of]->type())));
  }
  Body body{&graph, &graph};
  for (size_t i : by) body.varied.insert(graph.parameter(i));
  // The walk replaces calls by what is made of them; the tuple keeps track.
  Apply* kept = module_.make_tuple(&graph, results);
  kept->set_type(module_.context().tuple_type(types_of(results)));
  module_.set_result(&graph, kept);
  prepare(body);
  if (body.varied.contains(kept->input(of))) add(body, kept->input(of), 0, build_.filled_like(&graph, kept->input(of), 1));
  walk(body);
  std::vector<Node*> all;
  for (const Use& use : kept->operands()) all.push_back(use.node);
  // What happens before the result, such as an Assert, happens before its gradients.
  std::vector<Node*> tokens;
  for (const Apply* node : topological_order(graph)) {
    if (node->is("Depend") && body.sensitivities.contains(node) && !std::ranges::count(tokens, node->input(1))) tokens.push_back(node->input(1));
  }
  for (size_t i : by) {
    all.push_back(sensitivity_or_zero(body, graph.parameter(i), 0));
    for (Node* token : tokens) all.back() = build_.apply(&graph, "Depend", {all.back(), token});
  }
  return all;
}

void Differentiation::run(size_t of) {
  Graph& main = *module_.main();
  std::vector<size_t> by;
  for (const Parameter* p : main.parameters()) {
    if (is_float_tensor(p->type())) by.push_back(p->index());
  }
  if (context_.options.gradient.by) by = *context_.options.gradient.by;
  const std::vector<Node*> all = with_gradients(main, of, by);
  auto& names = module_.output_names();
  auto& declared = module_.metadata().output_types;
  for (size_t i : by) {
    if (!names.empty()) names.push_back(name_of_gradient(names, *main.parameter(i)));
    if (!declared.empty()) declared.push_back(nullptr);
  }
  Apply* result = module_.make_tuple(&main, all);
  result->set_type(module_.context().tuple_type(types_of(all)));
  module_.set_result(&main, result);
  context_.remarks.applied(kDifferentiate.name, kDifferentiate.name, *main.value(), fmt::format("by {} parameters", by.size()));
}

}  // namespace reverse

namespace {

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

// Those whose functions have none in them: how many there are, and one of them.
struct Innermost {
  Apply* gradient = nullptr;
  size_t count = 0;
};
Innermost innermost_gradients(Module& module) {
  const ModuleOrder order = topological_order(module);
  const analysis::CallOrder calls(order);
  boost::unordered_flat_set<const Graph*> have_some;  // in them, or in what they use
  Innermost found;
  for (const Graph* graph : calls.graphs) {
    const auto body = std::ranges::find(order.graphs, graph, &GraphOrder::graph);
    bool has_some = false;
    for (Apply* node : body->nodes) {
      const bool is_outer = std::ranges::any_of(
          node->operands(), [&](const Use& use) { return constant_function(use.node) && have_some.contains(constant_function(use.node)); });
      has_some = has_some || is_outer || node->is("Gradient");
      if (!node->is("Gradient")) continue;
      if (calls.component(constant_function(node->input(0))) == calls.component(graph)) {
        reverse::refuse_gradient(*node, "a function that differentiates itself has no gradient",
                                 "give the recursive function the derivative as an argument");
      }
      if (is_outer) continue;
      if (!found.gradient) found.gradient = node;
      ++found.count;
    }
    if (has_some) have_some.insert(graph);
  }
  return found;
}

size_t run_differentiate(PassContext& context) {
  size_t changes = 0;
  auto lift = [&] {
    if (kLambdaLift.run(context) > 0) context.inference.run();
  };
  auto clean = [&] {
    erase_unused(context.module);
    context.inference.run();
    ++changes;
  };
  lift();
  const PassOptions::Gradient& options = context.options.gradient;
  // Those around them wait for the next run, until what is made here is simplified; if it is main's turn, for nothing.
  Innermost innermost = innermost_gradients(context.module);
  for (size_t left = innermost.count; innermost.gradient && (left > 0 || options.of); left -= left > 0) {
    Apply& gradient = *innermost.gradient;
    reverse::Differentiation(context, gradient.attributes().get_int("checkpoints", 0)).replace(gradient);
    clean();
    lift();
    innermost = innermost_gradients(context.module);
  }
  if (options.of) {
    reverse::Differentiation(context, options.checkpoints).run(*options.of);
    clean();
  }
  return changes;
}

}  // namespace

const Pass kDifferentiate{"differentiate", "differentiation", "gradients of main's result by its parameters", run_differentiate};

}  // namespace anfora::passes

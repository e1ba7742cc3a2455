#include "analysis/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <iterator>
#include <memory>

#include "anfora/error.h"
#include "ops/registry.h"
#include "support/cancellation.h"

namespace anfora::analysis {

using namespace ir;

std::vector<Datum> evaluate_operator(const Operator& op, const AttributeSet& attributes, std::span<const Datum> inputs,
                                     size_t num_outputs, std::mt19937_64* random) {
  check_cancelled();
  kernels::KernelFunction kernel = ops::reference_kernel(op);
  if (!kernel) {
    throw Error(ErrorCode::Unsupported, fmt::format("there is no kernel for {}", op.qualified));
  }
  boost::container::small_vector<const Datum*, 8> pointers;
  for (const Datum& d : inputs) pointers.push_back(&d);
  std::vector<Datum> outputs(num_outputs);
  kernels::KernelContext context(attributes, {pointers.data(), pointers.size()}, outputs, {}, random);
  kernel(context);
  return outputs;
}

namespace {

// Calls that are not tail calls nest on the C++ stack.
constexpr int kMostNestedCalls = 2000;

// One invocation of a graph: the values computed so far, and the invocation of the enclosing graph.
//
// A closure refers to the invocation that it was made in, which holds the closure in turn: handles that count would keep
// each other. So invocations belong to the interpreter, which knows when one is over: nothing but what leaves it, its
// result or the arguments of its tail call, can still refer to it, and only by a function.
struct Invocation {
  const Graph* graph;
  Invocation* outer;
  boost::unordered_flat_map<const Node*, Datum> values;
};

struct Closure : Datum::Function {
  Closure(Graph* graph, Invocation* scope) : graph(graph), scope(scope) {}
  Graph* graph;
  Invocation* scope;  // of the graph's parent; null at the top level
};

bool holds_function(const Datum& datum) {
  if (datum.kind() == Datum::Kind::Function) return true;
  return datum.kind() == Datum::Kind::Tuple && std::ranges::any_of(datum.items(), holds_function);
}

class Interpreter {
 public:
  Interpreter(uint64_t seed, const Observer& observe) : random_(seed), observe_(observe) {}

  Datum invoke(Graph* graph, Invocation* scope, std::vector<Datum> arguments) {
    if (++depth_ > kMostNestedCalls) {
      throw Error(ErrorCode::ResourceExhausted, fmt::format("recursion deeper than {} calls", kMostNestedCalls));
    }
    std::vector<std::unique_ptr<Invocation>> frames;  // this one, and those of its tail calls, while they are needed
    bool passes_functions = false;                    // a later one may call into any earlier one then
    for (;;) {
      Invocation* frame = frames.emplace_back(new Invocation{graph, scope, {}}).get();
      for (size_t i = 0; i < arguments.size(); ++i) {
        if (observe_) observe_(*graph->parameter(i), arguments[i]);
        frame->values[graph->parameter(i)] = std::move(arguments[i]);
      }
      Node* result = graph->result();
      const Apply* tail = result->as(Primitive::Call);
      if (!tail) {
        Datum value = evaluate(frame, result);
        if (holds_function(value)) std::ranges::move(frames, std::back_inserter(kept_));
        --depth_;
        return value;
      }
      auto closure = std::static_pointer_cast<Closure>(evaluate(frame, tail->input(0)).as_function());
      arguments.clear();
      for (size_t i = 1; i < tail->num_inputs(); ++i) arguments.push_back(evaluate(frame, tail->input(i)));
      graph = closure->graph;
      scope = closure->scope;
      passes_functions = passes_functions || std::ranges::any_of(arguments, holds_function);
      if (passes_functions) continue;
      std::erase_if(frames, [&](const std::unique_ptr<Invocation>& f) { return !encloses(*f, scope); });
    }
  }

 private:
  static bool encloses(const Invocation& frame, const Invocation* scope) {
    while (scope && scope != &frame) scope = scope->outer;
    return scope != nullptr;
  }

  static Invocation* scope_of(Invocation* from, const Graph* graph) {
    for (Invocation* scope = from; scope; scope = scope->outer) {
      if (scope->graph == graph) return scope;
    }
    throw Error(ErrorCode::Internal, fmt::format("a value of @{} is used outside of it", graph->name()));
  }

  // The value of a node as seen from an invocation; null when it is not computed yet.
  const Datum* lookup(Invocation* frame, Node* node) {
    if (const Value* value = node->as_value()) {
      auto [at, first] = constants_.try_emplace(node);
      if (value->is_graph()) {
        Graph* graph = value->function();
        Invocation* scope = graph->parent() ? scope_of(frame, graph->parent()) : nullptr;
        at->second = Datum::function(std::make_shared<Closure>(graph, scope));
      } else if (first) {
        at->second = datum_of(*value);
      }
      return &at->second;
    }
    Invocation* scope = scope_of(frame, node->graph());
    auto found = scope->values.find(node);
    return found == scope->values.end() ? nullptr : &found->second;
  }

  Datum evaluate(Invocation* frame, Node* root) {
    boost::container::small_vector<Node*, 16> stack{root};
    while (!stack.empty()) {
      Node* node = stack.back();
      if (lookup(frame, node)) {
        stack.pop_back();
        continue;
      }
      size_t before = stack.size();
      for (const Use& use : node->as_apply()->operands()) {
        if (!lookup(frame, use.node)) stack.push_back(use.node);
      }
      if (stack.size() > before) continue;
      Datum value = compute(frame, *node->as_apply());
      if (observe_) observe_(*node, value);
      scope_of(frame, node->graph())->values[node] = std::move(value);
      stack.pop_back();
    }
    return *lookup(frame, root);
  }

  Datum compute(Invocation* frame, const Apply& node) {
    std::vector<Datum> inputs;
    for (const Use& use : node.operands()) inputs.push_back(*lookup(frame, use.node));
    switch (node.primitive()) {
      case Primitive::Return: return inputs[0];
      case Primitive::MakeTuple: return Datum::tuple(std::move(inputs));
      case Primitive::TupleGetItem:
        return inputs[0].items().at(static_cast<size_t>(node.attributes().require_int("index")));
      case Primitive::Switch: {
        const Tensor& condition = inputs[0].tensor();
        if (condition.dtype() != DType::Bool || condition.size() != 1) {
          throw Error(ErrorCode::TypeMismatch, "the condition is not one boolean").at_node(describe(node));
        }
        return condition.data<bool>()[0] ? inputs[1] : inputs[2];
      }
      case Primitive::Call: {
        auto closure = std::static_pointer_cast<Closure>(inputs[0].as_function());
        inputs.erase(inputs.begin());
        return invoke(closure->graph, closure->scope, std::move(inputs));
      }
      case Primitive::Operation:
        if (node.op().calls) return first_results(node, std::move(inputs));
        break;
    }
    try {
      std::vector<Datum> outputs =
          evaluate_operator(node.op(), node.attributes(), inputs, node.num_outputs(), &random_);
      return outputs.size() == 1 ? std::move(outputs[0]) : Datum::tuple(std::move(outputs));
    } catch (Error& error) {
      error.at_node(describe(node));
      if (node.location()) error.at_location(to_string(*node.location()));
      throw;
    }
  }

  // Of an operator that calls, which only differentiation takes for more than a call.
  Datum first_results(const Apply& node, std::vector<Datum> inputs) {
    auto closure = std::static_pointer_cast<Closure>(inputs[0].as_function());
    auto is_argument = [](const Datum& datum) { return datum.kind() != Datum::Kind::Function; };
    inputs.erase(inputs.begin(), std::ranges::find_if(inputs, is_argument));
    Datum results = invoke(closure->graph, closure->scope, std::move(inputs));
    if (results.kind() != Datum::Kind::Tuple) return results;
    if (results.items().size() < node.num_outputs()) {
      throw Error(ErrorCode::Unsupported, fmt::format("there is no kernel for {}", node.op().qualified));
    }
    if (node.num_outputs() == 1) return results.items()[0];
    return Datum::tuple({results.items().begin(), results.items().begin() + static_cast<std::ptrdiff_t>(node.num_outputs())});
  }

  std::mt19937_64 random_;
  const Observer& observe_;
  boost::unordered_flat_map<const Node*, Datum> constants_;
  std::vector<std::unique_ptr<Invocation>> kept_;  // over, but functions that came out of them may be called
  int depth_ = 0;
};

}  // namespace

Datum datum_of(const ir::Value& constant) {
  if (constant.is_tensor()) return constant.tensor();
  if (!constant.is_type() || !constant.described()->is_tensor()) return Datum();
  return Tensor::zeros(constant.described()->dtype(), Shape{0});
}

std::vector<Datum> interpret(const Module& module, std::span<const Datum> inputs, uint64_t seed,
                             const Observer& observe) {
  Graph* main = module.main();
  if (inputs.size() != main->parameters().size()) {
    throw Error(ErrorCode::InvalidArgument,
                fmt::format("{} inputs are given, the model has {}", inputs.size(), main->parameters().size()));
  }
  std::vector<Datum> arguments(inputs.begin(), inputs.end());
  for (size_t i = 0; i < arguments.size(); ++i) {
    Value* otherwise = module.default_of(main->parameter(i));
    if (arguments[i].is_none() && otherwise) arguments[i] = otherwise->tensor();
  }
  Datum result = Interpreter(seed, observe).invoke(main, nullptr, std::move(arguments));
  if (module.output_names().size() == 1 && result.kind() != Datum::Kind::Tuple) return {result};
  return result.kind() == Datum::Kind::Tuple ? result.items() : std::vector<Datum>{result};
}

}  // namespace anfora::analysis

// Control flow: If, Loop, Scan and SequenceMap as functions, calls and Switch.
//
//     If    %f = Switch(%cond, @then, @else); %r = call %f()
//
//     Loop  graph @loop(%i, %go, %v…, %acc…) {           values carried around, one sequence per collected result
//             %f = Switch(And(Less(%i, %M), %go), @loop.body, @loop.done)
//             return call %f()
//           }
//           graph @loop.body() in @loop { …; return call @loop(%i + 1, %go', %v'…, SequenceInsert(%acc, %scan)…) }
//           graph @loop.done() in @loop { return (%v…, StackSequence(%acc)…) }
//           call @loop(0, %cond, %v0…, SequenceEmpty()…)
//
// Scan and SequenceMap are the same loop over the length of what they scan; their bodies pick item %i. The graphs have
// no parameters for what they take from the graphs around them: those are free variables, as in ONNX.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/onnx/import_loop.h"
#include "frontend/onnx/type_proto.h"
#include "ir/clone.h"
#include "support/element_types.h"

namespace anfora::onnx {
namespace {

std::vector<int64_t> ints_attribute(const PendingNode& node, std::string_view name, size_t count) {
  auto found = std::ranges::find(node.attributes, name, &AttributeSet::Entry::first);
  if (found == node.attributes.end()) return std::vector<int64_t>(count, 0);
  auto* values = std::get_if<std::vector<int64_t>>(&found->second);
  if (!values || values->size() != count) {
    throw Error(ErrorCode::InvalidModel, fmt::format("the attribute '{}' does not hold {} integers", name, count));
  }
  return *values;
}

bool is_true(const ir::Node* node) {
  const Tensor* tensor = ir::constant_tensor(node);
  return tensor && tensor->dtype() == DType::Bool && tensor->size() == 1 && tensor->data<bool>()[0];
}

ir::Node* empty_sequence(const Emitter& emit, const Collected& collected) {
  DType dtype = collected.type && collected.type->is_tensor() ? collected.type->dtype() : DType::Undefined;
  return emit.emit("SequenceEmpty", {}, {{"dtype", static_cast<int64_t>(dtype)}});
}

ir::Node* stack(const Emitter& emit, ir::Node* sequence, const Collected& collected) {
  AttributeSet attributes{{"axis", collected.axis}, {"reverse", int64_t{collected.reverse}}};
  if (const ir::Type* type = collected.type; type && type->is_tensor()) {
    if (type->dtype() != DType::Undefined) attributes = attributes.with("dtype", static_cast<int64_t>(type->dtype()));
    if (type->has_rank()) {
      std::vector<int64_t> shape;
      for (ir::Dim dim : type->dims()) shape.push_back(dim.as_constant().value_or(-1));
      attributes = attributes.with("shape", std::move(shape));
    }
  }
  return emit.emit("StackSequence", {sequence}, attributes);
}

// Whether a graph declares an input as a tensor with axes. Loop counts by a scalar, but exporters declare i64[1], and feed it to
// what wants a vector: ONNX Runtime then hands over one.
bool is_declared_vector(ir::Context& context, const GraphFields& fields, size_t input) {
  if (input >= fields.inputs.size()) return false;
  const ir::Type* type = read_value_info(context, fields.inputs[input]).type;
  return type && type->is_tensor() && type->has_rank() && type->rank() > 0;
}

// The size of an axis as an i64 scalar.
ir::Node* size_of_axis(const Emitter& emit, ir::Node* tensor, int64_t axis) {
  return emit.emit("Gather", {emit.emit("Shape", {tensor}), emit.scalar(axis)});
}

}  // namespace

const FileAttribute& require_graph(const PendingNode& node, std::string_view name) {
  const FileAttribute* attribute = node.find_graph(name);
  if (!attribute) throw Error(ErrorCode::InvalidModel, fmt::format("the attribute '{}' is missing", name));
  return *attribute;
}

ir::Apply* build_loop(const LoopSpec& spec) {
  Importer& importer = spec.outer.importer;
  ir::Module& module = importer.module();
  ir::Graph* loop = module.make_graph(spec.name, spec.outer.graph);
  ir::Graph* body = module.make_graph(spec.name + ".body", loop);
  ir::Graph* done = module.make_graph(spec.name + ".done", loop);
  if (spec.fields) Importer::annotate(loop, *spec.fields);
  Emitter in_loop{importer, loop, spec.outer.location}, in_body{importer, body, spec.outer.location},
      in_done{importer, done, spec.outer.location};

  ir::Node* i = module.add_parameter(loop, nullptr);
  ir::Node* go = module.add_parameter(loop, nullptr);
  std::vector<ir::Node*> values;
  for (size_t v = 0; v < spec.initial.size(); ++v) values.push_back(module.add_parameter(loop, nullptr));
  Iteration iteration = spec.body(in_body, i, go, values);

  // Loops over a count carry a condition that is always true: such a one is not tested.
  bool stays_true = !iteration.go || is_true(iteration.go) || iteration.go == go;
  bool starts_true = !spec.condition || is_true(spec.condition);
  bool tests_condition = !(stays_true && starts_true);
  if (!tests_condition && !spec.trip_count) {
    throw Error(ErrorCode::InvalidModel, "the loop has neither a trip count nor a condition that ends it");
  }

  std::vector<ir::Node*> initial{in_loop.scalar(0), spec.condition ? spec.condition : in_loop.boolean(true)};
  initial.insert(initial.end(), spec.initial.begin(), spec.initial.end());
  std::vector<ir::Node*> next{in_body.emit("Add", {i, in_body.scalar(1)}),
                              iteration.go ? iteration.go : in_body.boolean(true)};
  next.insert(next.end(), iteration.values.begin(), iteration.values.end());
  std::vector<ir::Node*> results = values;
  for (const Collected& collected : iteration.collected) {
    ir::Node* sequence = module.add_parameter(loop, nullptr, collected.value->name());
    initial.push_back(empty_sequence(spec.outer, collected));
    next.push_back(in_body.emit("SequenceInsert", {sequence, collected.value}));
    results.push_back(spec.stack_collected ? stack(in_done, sequence, collected) : sequence);
  }
  auto call = [&](const Emitter& at, std::span<ir::Node* const> arguments) {
    ir::Apply* made = module.call(at.graph, loop->value(), arguments);
    made->set_location(at.location);
    return made;
  };
  module.set_result(body, call(in_body, next));
  importer.set_results(done, results);

  ir::Node* test = nullptr;
  if (spec.trip_count) test = in_loop.emit("Less", {i, spec.trip_count});
  if (tests_condition) test = test ? in_loop.emit("And", {test, go}) : go;
  ir::Apply* choice = module.make_switch(loop, test, body->value(), done->value());
  choice->set_location(spec.outer.location);
  ir::Apply* chosen = module.call(loop, choice, {});
  chosen->set_location(spec.outer.location);
  module.set_result(loop, chosen);
  return call(spec.outer, initial);
}

ir::Node* Importer::import_if(PendingNode& node) {
  if (!node.has_input(0)) throw Error(ErrorCode::InvalidModel, "the condition is missing");
  std::string prefix = fmt::format("if{}", num_controls_++);
  ir::Graph* branches[2];
  size_t num_results[2];
  for (int b = 0; b < 2; ++b) {
    GraphFields fields;
    fields.read(require_graph(node, b == 0 ? "then_branch" : "else_branch").graph);
    branches[b] = module_.make_graph(prefix + (b == 0 ? ".then" : ".else"), node.emitter.graph);
    annotate(branches[b], fields);
    std::vector<ir::Node*> results = import_graph(fields, branches[b], node.scope, {}).nodes;
    if (results.empty()) throw Error(ErrorCode::InvalidModel, "a branch has no outputs");
    num_results[b] = results.size();
    set_results(branches[b], results);
  }
  if (num_results[0] != num_results[1]) {
    throw Error(ErrorCode::InvalidModel,
                fmt::format("the branches have {} and {} outputs", num_results[0], num_results[1]));
  }
  ir::Apply* choice =
      module_.make_switch(node.emitter.graph, node.inputs[0], branches[0]->value(), branches[1]->value());
  choice->set_location(node.emitter.location);
  return finish_control(node, module_.call(node.emitter.graph, choice, {}), num_results[0]);
}

ir::Node* Importer::import_loop(PendingNode& node) {
  GraphFields fields;
  fields.read(require_graph(node, "body").graph);
  while (node.inputs.size() < 2) node.inputs.push_back(module_.none());
  size_t num_values = node.inputs.size() - 2;
  if (fields.outputs.size() < 1 + num_values) {
    throw Error(ErrorCode::InvalidModel, fmt::format("the body has {} outputs for {} carried values and a condition",
                                                     fields.outputs.size(), num_values));
  }
  LoopSpec spec{node.emitter, fmt::format("loop{}", num_controls_++), &fields};
  if (node.has_input(0)) spec.trip_count = node.inputs[0];
  if (node.has_input(1)) spec.condition = node.inputs[1];
  spec.initial.assign(node.inputs.begin() + 2, node.inputs.end());
  spec.body = [&](const Emitter& body, ir::Node* i, ir::Node* go, std::span<ir::Node* const> values) {
    const bool counts_by_vector = is_declared_vector(context(), fields, 0);
    std::vector<ir::Node*> arguments{counts_by_vector ? body.emit("Unsqueeze", {i, body.ints({0})}) : i, go};
    arguments.insert(arguments.end(), values.begin(), values.end());
    Results results = import_graph(fields, body.graph, node.scope, arguments);
    Iteration iteration;
    iteration.go = results.nodes[0];
    while (iteration.go->is_apply() && iteration.go->as_apply()->is("Identity") &&
           iteration.go->as_apply()->has_input(0)) {
      iteration.go = iteration.go->as_apply()->input(0);
    }
    iteration.values.assign(results.nodes.begin() + 1, results.nodes.begin() + 1 + static_cast<ptrdiff_t>(num_values));
    for (size_t k = 1 + num_values; k < results.nodes.size(); ++k) {
      iteration.collected.push_back({results.nodes[k], type_of_result(results, k)});
    }
    return iteration;
  };
  return finish_control(node, build_loop(spec), fields.outputs.size() - 1);
}

// Before version 9, states and scanned values have a batch axis in front of everything, and each member of the
// batch is scanned by itself: a loop around the scan.
ir::Node* Importer::import_scan(PendingNode& node) {
  GraphFields fields;
  fields.read(require_graph(node, "body").graph);
  bool is_batched = node.version < 9;
  auto count = std::ranges::find(node.attributes, "num_scan_inputs", &AttributeSet::Entry::first);
  int64_t* given = count == node.attributes.end() ? nullptr : std::get_if<int64_t>(&count->second);
  if (is_batched) {
    if (node.has_input(0)) throw Error(ErrorCode::Unsupported, "sequence_lens of Scan in version 8");
    if (!node.inputs.empty()) node.inputs.erase(node.inputs.begin());
  }
  size_t num_inputs = node.inputs.size();
  if (!given || *given < 1 || static_cast<uint64_t>(*given) > num_inputs) {
    throw Error(ErrorCode::InvalidModel, "num_scan_inputs does not fit the inputs");
  }
  size_t num_scanned = static_cast<size_t>(*given), num_states = num_inputs - num_scanned;
  if (fields.outputs.size() < num_states) {
    throw Error(ErrorCode::InvalidModel,
                fmt::format("the body has {} outputs for {} states", fields.outputs.size(), num_states));
  }
  size_t num_collected = fields.outputs.size() - num_states;
  for (size_t i = 0; i < num_inputs; ++i) {
    if (!node.has_input(i)) throw Error(ErrorCode::InvalidModel, "a state or a scanned input is missing");
  }
  std::vector<int64_t> axes = ints_attribute(node, "scan_input_axes", num_scanned);
  std::vector<int64_t> directions =
      ints_attribute(node, is_batched ? "directions" : "scan_input_directions", num_scanned);
  std::vector<int64_t> output_axes = ints_attribute(node, "scan_output_axes", num_collected);
  std::vector<int64_t> output_directions = ints_attribute(node, "scan_output_directions", num_collected);

  // The scan of given states and sequences.
  auto scan = [&](const Emitter& at, std::span<ir::Node* const> inputs, std::vector<const ir::Type*>* types) {
    std::span<ir::Node* const> scanned = inputs.subspan(num_states);
    LoopSpec spec{at, fmt::format("scan{}", num_controls_++), &fields};
    spec.trip_count = size_of_axis(at, scanned[0], axes[0]);
    spec.initial.assign(inputs.begin(), inputs.begin() + static_cast<ptrdiff_t>(num_states));
    spec.body = [&](const Emitter& body, ir::Node* i, ir::Node*, std::span<ir::Node* const> states) {
      std::vector<ir::Node*> arguments(states.begin(), states.end());
      ir::Node* from_the_end = nullptr;
      for (size_t s = 0; s < num_scanned; ++s) {
        if (directions[s] != 0 && !from_the_end) {
          from_the_end = body.emit("Sub", {body.emit("Sub", {spec.trip_count, body.scalar(1)}), i});
        }
        arguments.push_back(
            body.emit("Gather", {scanned[s], directions[s] != 0 ? from_the_end : i}, {{"axis", axes[s]}}));
      }
      Results results = import_graph(fields, body.graph, node.scope, arguments);
      Iteration iteration;
      iteration.values.assign(results.nodes.begin(), results.nodes.begin() + static_cast<ptrdiff_t>(num_states));
      for (size_t k = 0; k < num_collected; ++k) {
        const ir::Type* type = type_of_result(results, num_states + k);
        iteration.collected.push_back({results.nodes[num_states + k], type, output_axes[k], output_directions[k] != 0});
      }
      if (types) {
        for (size_t k = 0; k < results.nodes.size(); ++k) types->push_back(type_of_result(results, k));
      }
      return iteration;
    };
    return build_loop(spec);
  };
  size_t num_results = num_states + num_collected;
  if (!is_batched) return finish_control(node, scan(node.emitter, span_of(node.inputs), nullptr), num_results);

  LoopSpec batch{node.emitter, fmt::format("batch{}", num_controls_++)};
  batch.trip_count = size_of_axis(node.emitter, node.inputs[0], 0);
  batch.body = [&](const Emitter& body, ir::Node* b, ir::Node*, std::span<ir::Node* const>) {
    std::vector<ir::Node*> members;
    for (ir::Node* input : node.inputs) members.push_back(body.emit("Gather", {input, b}));
    std::vector<const ir::Type*> types;
    ir::Apply* call = scan(body, members, &types);
    Iteration iteration;
    for (size_t k = 0; k < num_results; ++k) {
      // What the scan collects has an axis more than the result of its body.
      const ir::Type* type = k < num_states ? types[k] : nullptr;
      if (k >= num_states && types[k] && types[k]->is_tensor()) type = context().unranked_type(types[k]->dtype());
      iteration.collected.push_back({num_results == 1 ? call : module_.tuple_item(body.graph, call, k), type});
    }
    return iteration;
  };
  return finish_control(node, build_loop(batch), num_results);
}

ir::Node* Importer::import_sequence_map(PendingNode& node) {
  GraphFields fields;
  fields.read(require_graph(node, "body").graph);
  if (!node.has_input(0)) throw Error(ErrorCode::InvalidModel, "the sequence is missing");
  LoopSpec spec{node.emitter, fmt::format("map{}", num_controls_++), &fields};
  spec.trip_count = node.emitter.emit("SequenceLength", {node.inputs[0]});
  spec.stack_collected = false;
  spec.body = [&](const Emitter& body, ir::Node* i, ir::Node*, std::span<ir::Node* const>) {
    std::vector<ir::Node*> arguments;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      // The first is a sequence; of the others, tensors are the same for all items.
      bool is_sequence = k == 0;
      if (!is_sequence) {
        const ir::Type* type = known_type(node.inputs[k]);
        if (!type && !node.fields.inputs[k].empty()) type = node.scope.declared_type(node.fields.inputs[k]);
        if (!type) {
          throw Error(ErrorCode::Unsupported,
                      fmt::format("it cannot be told whether '{}' is a sequence", node.fields.inputs[k]))
              .with_hint("declare the type of the value in the graph's value_info");
        }
        is_sequence = type->kind() == ir::TypeKind::Sequence;
      }
      arguments.push_back(is_sequence ? body.emit("SequenceAt", {node.inputs[k], i}) : node.inputs[k]);
    }
    Results results = import_graph(fields, body.graph, node.scope, arguments);
    Iteration iteration;
    for (size_t k = 0; k < results.nodes.size(); ++k) {
      iteration.collected.push_back({results.nodes[k], type_of_result(results, k)});
    }
    return iteration;
  };
  return finish_control(node, build_loop(spec), fields.outputs.size());
}

const ir::Type* Importer::type_of_result(const Results& results, size_t k) {
  const ir::Type* declared = results.types[k];
  if (declared && (!declared->is_tensor() || declared->dtype() != DType::Undefined)) return declared;
  const ir::Type* known = known_type(results.nodes[k]);
  return known ? known : declared;
}

// The value that the node's outputs are read from: a tuple when the node has several.
ir::Node* Importer::finish_control(const PendingNode& node, ir::Apply* call, size_t num_results) {
  if (num_results == 0) throw Error(ErrorCode::InvalidModel, "the graph of the node has no outputs");
  if (node.num_outputs > num_results) {
    throw Error(ErrorCode::InvalidModel,
                fmt::format("the node has {} outputs, its graph {}", node.num_outputs, num_results));
  }
  call->set_location(node.emitter.location);
  if (node.num_outputs == 1 && num_results > 1) return module_.tuple_item(node.emitter.graph, call, 0);
  return call;
}

// The function is a copy of what computes `y`, of parameters in the place of the tensors that `xs` and `zs` name; the operands are their values.
ir::Node* Importer::import_gradient(PendingNode& node) {
  const AttributeSet attributes(std::move(node.attributes));
  std::vector<std::string> names = attributes.get_strings("xs");
  const auto count = static_cast<int64_t>(names.size());
  const std::vector<std::string> others = attributes.get_strings("zs");
  names.insert(names.end(), others.begin(), others.end());
  if (names.size() != node.inputs.size() || node.num_outputs > static_cast<size_t>(count)) {
    throw Error(ErrorCode::InvalidModel, fmt::format("{} inputs and {} outputs for {} tensors in xs and {} in zs", node.inputs.size(),
                                                     node.num_outputs, count, others.size()));
  }
  ir::Graph* graph = node.emitter.graph;
  ir::Graph* function = module_.make_graph("gradient", graph);
  ir::Cloner cloner(module_);
  for (ir::Parameter* p : graph->parameters()) cloner.bind(p, p);
  for (const std::string& name : names) {
    const ir::Node* variable = node.scope.resolve(name);
    if (variable->graph() && variable->graph() != graph) {
      throw Error(ErrorCode::Unsupported, fmt::format("a Gradient by '{}', which is computed outside of the graph that the node is in, is not supported", name));
    }
    cloner.bind(variable, module_.add_parameter(function, nullptr, name));
  }
  module_.set_result(graph, node.scope.resolve(attributes.get_string("y", "")));  // until the graph is complete
  module_.set_result(function, cloner.splice(*graph, function));
  const ir::Lifted lifted = ir::lift(module_, *function);

  std::vector<ir::Node*> operands = {lifted.graph->value()};
  operands.insert(operands.end(), node.inputs.begin(), node.inputs.end());
  operands.insert(operands.end(), lifted.captured.begin(), lifted.captured.end());
  constexpr size_t kValue = 1;  // the results begin with that of the function
  ir::Apply* gradient = module_.apply(graph, context().get_operator("Gradient"), operands, {{"count", count}},
                                      kValue + static_cast<size_t>(count), node.emitter.location,
                                      node.fields.outputs.empty() ? std::string_view() : node.fields.outputs[0]);
  std::vector<ir::Node*> results;
  for (size_t i = 0; i < node.num_outputs; ++i) results.push_back(module_.tuple_item(graph, gradient, kValue + i));
  return results.size() == 1 ? results[0] : module_.make_tuple(graph, results);
}

ir::Node* Importer::import_control(PendingNode& node) {
  if (node.domain == "ai.onnx.preview.training") return node.op_type == "Gradient" ? import_gradient(node) : nullptr;
  if (node.domain == "ai.onnx.preview") {
    return node.op_type == "FlexAttention" && !node.others.empty() ? import_flex_attention(node) : nullptr;
  }
  if (!node.domain.empty()) return nullptr;
  if (node.op_type == "If") return import_if(node);
  if (node.op_type == "Loop") return import_loop(node);
  if (node.op_type == "Scan") return import_scan(node);
  if (node.op_type == "SequenceMap") return import_sequence_map(node);
  return nullptr;
}

}  // namespace anfora::onnx

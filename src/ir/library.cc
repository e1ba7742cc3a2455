#include "ir/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "anfora/error.h"
#include "ir/parse.h"

namespace anfora::ir {

namespace {

// How many parameters a gradient has: two operands where their number is open.
size_t parameters_of_gradient(const Operator& op) {
  const bool is_variadic = !op.inputs.empty() && op.inputs.back().arity == Formal::Arity::Variadic;
  return op.inputs.size() + (is_variadic ? 1 : 0) + 2 * op.outputs.size();
}

}  // namespace

Library::Library(Context& context, std::span<const File> files, Of of) {
  constexpr std::string_view kShared = "shared.ir";
  auto shared = std::ranges::find(files, kShared, &File::name);
  for (const File& file : files) {
    // Behind the file's own text, so that lines are counted right.
    std::string text(file.text);
    if (shared != files.end() && file.name != kShared) text += shared->text;
    const auto& module = modules_.emplace_back(parse(context, text, {.file = file.name, .locate = true}));
    for (const Graph* graph : module->graphs()) {
      const Operator* op = context.find_operator(module->metadata().domain, graph->name());
      if (!op || graph->parent()) continue;
      const size_t count = graph->parameters().size();
      const size_t of_gradient = parameters_of_gradient(*op);
      if (op->inputs.size() != count && !(of == Of::Gradients && (count == of_gradient || count == of_gradient + 1))) {
        throw Error(ErrorCode::InvalidModel, fmt::format("@{} has {} parameters, the operator {} inputs", graph->name(),
                                                         graph->parameters().size(), op->inputs.size()))
            .at_location(std::string(file.name));
      }
      functions_.emplace(op, graph);
    }
  }
}

const Graph* Library::meaning(const Operator& op) const {
  const Graph* function = find(op);
  return function && function->parameters().size() == op.inputs.size() ? function : nullptr;
}

bool Library::is_update(const Operator& op, const Graph& gradient) {
  return gradient.parameters().size() == parameters_of_gradient(op) + 1;
}

const Graph* Library::find(std::string_view name) const {
  for (const auto& module : modules_) {
    if (const Graph* graph = module->find_graph(name)) return graph;
  }
  return nullptr;
}

const Graph* Library::find(const Operator& op) const {
  auto found = functions_.find(&op);
  return found == functions_.end() ? nullptr : found->second;
}

}  // namespace anfora::ir

#include "frontend/python/lower/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "anfora/error.h"
#include "frontend/python/lower/builtins.h"
#include "frontend/python/lower/lowering.h"
#include "frontend/python/propagate.h"
#include "ir/builder.h"

namespace anfora::python {
namespace {

class FileGlobals : public Globals, public std::enable_shared_from_this<FileGlobals> {
 public:
  explicit FileGlobals(Source& source) : source_(source), constants_(module_constants(source)) {}

  std::optional<Object> find(const std::string& name) const override {
    if (auto constant = constants_.find(name); constant != constants_.end()) return make_constant(constant->second);
    for (const Tree* statement : source_.root->list("body")) {
      if (statement->is(Kind::FunctionDef) && statement->text("name") == name) {
        for (const Tree* decorator : statement->list("decorator_list")) {
          if (unparse(*decorator).ends_with("overload")) {
            throw source_
                .error(ErrorCode::Unsupported, *statement, fmt::format("'{}' is overloaded, which only the running Python knows", name))
                .with_hint("anfora.jit compiles what calls it; call one of its functions here");
          }
        }
        return decorated_function(source_, *statement, shared_from_this());
      }
      const bool is_import = statement->is(Kind::Import), is_from = statement->is(Kind::ImportFrom);
      if (!is_import && !is_from) continue;
      for (const Tree* alias : statement->list("names")) {
        if (bound_name(*alias) != name) continue;
        const std::string& imported = alias->text("name");
        const std::string module = is_from ? imported_module(*statement) : alias->text("asname").empty() ? name : imported;
        auto found = is_from ? import(module, imported) : import(module);
        if (!found)
          throw source_.error(ErrorCode::Unsupported, *statement,
                              fmt::format("{} cannot be compiled", is_from ? module + "." + imported : module));
        return found;
      }
    }
    return std::nullopt;
  }
  std::optional<Object> import(const std::string& module) const override { return find_module(module); }
  std::optional<Object> import(const std::string& module, const std::string& name) const override {
    return find_in_module(module, name);
  }

 private:
  Source& source_;
  std::map<std::string, Constant> constants_;
};

// What lowering gave up: functions whose types had to be widened, and what nothing uses.
void erase_unused(ir::Module& module) {
  std::unordered_set<const ir::Node*> used;
  std::vector<const ir::Node*> worklist{module.main()->value()};
  while (!worklist.empty()) {
    const ir::Node* node = worklist.back();
    worklist.pop_back();
    if (!used.insert(node).second) continue;
    if (const ir::Graph* function = constant_function(node)) worklist.push_back(function->return_node());
    if (const ir::Apply* apply = node->as_apply()) {
      for (const ir::Use& use : apply->operands()) worklist.push_back(use.node);
    }
  }
  std::vector<ir::Graph*> graphs;
  std::vector<ir::Apply*> nodes;
  for (ir::Graph* graph : module.graphs()) {
    if (!used.contains(graph->value())) {
      graphs.push_back(graph);
      continue;
    }
    for (ir::Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
      if (!used.contains(node)) nodes.push_back(node);
    }
  }
  module.erase_dead(nodes, graphs);
}

}  // namespace

std::shared_ptr<const Globals> globals_of(Source& source) { return std::make_shared<const FileGlobals>(source); }

Object decorated_function(Source& source, const Tree& function, std::shared_ptr<const Globals> globals) {
  Object made = function_object(source, function, std::move(globals));
  for (const Tree* decorator : function.list("decorator_list")) {
    if (unparse(*decorator).ends_with("custom_gradient")) return {CustomGradient{std::make_shared<const Object>(std::move(made))}};
  }
  return made;
}

Object function_object(Source& source, const Tree& function, std::shared_ptr<const Globals> globals) {
  Closure closure;
  closure.source = &source;
  closure.function = &function;
  closure.globals = std::move(globals);
  return {std::make_shared<const Closure>(std::move(closure))};
}

std::vector<ArgumentType> annotated_arguments(const Source& source, const Tree& function) {
  std::vector<ArgumentType> types;
  const Tree& list = *function.child("args");
  size_t required = list.list("posonlyargs").size() + list.list("args").size() - list.list("defaults").size();
  for (std::string_view field : {"posonlyargs", "args"}) {
    for (const Tree* arg : list.list(field)) {
      const bool has_default = required == 0;
      if (!has_default) --required;
      const Tree* annotation = arg->child("annotation");
      const std::string name = arg->text("arg");
      if (annotation && annotation->is(Kind::Constant) && annotation->constant.is<std::u32string>()) {
        types.push_back({name, utf8(annotation->constant.as<std::u32string>())});
      } else if (annotation && annotation->is(Kind::Name) &&
                 (annotation->text("id") == "int" || annotation->text("id") == "bool" ||
                  annotation->text("id") == "float")) {
        const std::string& id = annotation->text("id");
        types.push_back({name, id == "int" ? "i64[]" : id == "bool" ? "bool[]" : "f64[]", true});
      } else if (has_default && !annotation) {
        return types;
      } else {
        throw source.error(ErrorCode::InvalidModel, *arg, fmt::format("the type of '{}' is not known", name))
            .with_hint(fmt::format("annotate it: {}: \"f32[N, 4]\", or int, float, bool", name));
      }
    }
  }
  return types;
}

void set_results(Lowering& lowering, std::span<ir::Node* const> nodes) {
  ir::Module& module = lowering.emitter().module();
  ir::Graph* last = lowering.emitter().graph();
  module.set_result(last, nodes.size() == 1 ? nodes[0] : module.make_tuple(last, nodes));
  erase_unused(module);
  for (size_t i = 0; i < nodes.size(); ++i)
    module.output_names().push_back(nodes.size() == 1 ? "output" : fmt::format("output_{}", i));
}

namespace {

SourceStages stages_of(const Lowering& lowering) {
  SourceStages stages;
  for (const Cfg* cfg : lowering.functions()) {
    const Position& at = cfg->function->position;
    const std::string place = fmt::format("# {}:{}\n", cfg->source->file, at.line);
    stages.written += place;
    for (int line = at.line; line <= std::max(at.line, at.end_line); ++line) {
      if (static_cast<size_t>(line) <= cfg->source->lines.size()) stages.written += cfg->source->lines[static_cast<size_t>(line) - 1] + "\n";
    }
    stages.folded += place + unparse_whole(*cfg->function);
    stages.control_flow += place + print(*cfg);
    for (std::string* text : {&stages.written, &stages.folded, &stages.control_flow}) *text += "\n";
  }
  return stages;
}

}  // namespace

void lower_function(ir::Module& module, const Object& function, FunctionCall& call, SourceStages* stages) {
  const Closure& closure = *written_function(function);
  const Tree& tree = *closure.function;
  ir::Builder main(module, tree.is(Kind::Lambda) ? "main" : tree.text("name"));
  Lowering lowering(module);
  Emitter& emit = lowering.emitter();
  lowering.begin(main.graph());
  emit.set_place({closure.source, &tree});
  std::vector<ir::Node*> nodes;
  try {
    const Object result = lowering.after_effects(lowering.call(function, call.arguments(lowering, main)));
    emit.set_place({closure.source, &tree});
    nodes = call.results(lowering, result);
  } catch (const Lowering::Unreached&) {
    throw closure.source->error(ErrorCode::InvalidModel, tree, fmt::format("{} never returns", main.graph()->name()))
        .with_hint("a path that returns a value is needed");
  }
  set_results(lowering, nodes);
  if (stages) *stages = stages_of(lowering);
}

namespace {

class TypedCall : public FunctionCall {
 public:
  TypedCall(const Closure& closure, std::span<const ArgumentType> types) : closure_(closure), types_(types) {}

  Arguments arguments(Lowering&, ir::Builder& main) override {
    Arguments given;
    for (const ArgumentType& argument : types_) {
      given.positional.push_back({Array{main.parameter(argument.type, argument.name), argument.is_number}});
    }
    return given;
  }
  std::vector<ir::Node*> results(Lowering& lowering, const Object& result) override {
    std::vector<ir::Node*> nodes;
    lowering.flatten(result, nodes);
    if (nodes.empty()) {
      throw closure_.source
          ->error(ErrorCode::InvalidModel, *closure_.function, "the function returns nothing that is computed")
          .with_hint("return a tensor or number");
    }
    return nodes;
  }

 private:
  const Closure& closure_;
  std::span<const ArgumentType> types_;
};

}  // namespace

void lower_function(ir::Module& module, const Object& function, std::span<const ArgumentType> arguments, SourceStages* stages) {
  TypedCall call(*written_function(function), arguments);
  lower_function(module, function, call, stages);
}

}  // namespace anfora::python

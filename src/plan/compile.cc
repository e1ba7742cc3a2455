#include "plan/compile.h"

#include "anfora/error.h"
#include "ir/readable.h"
#include "plan/emit.h"
#include "plan/lower.h"
#include "plan/program_builder.h"
#include "support/lasting_memory.h"
#include "support/parallel.h"
#include "support/passing_elements.h"

namespace anfora::plan {
namespace {

runtime::Structure structure_of(const ir::Type* type) {
  using Kind = runtime::Structure::Kind;
  auto of = [](const ir::Type* element) { return std::make_shared<const runtime::Structure>(structure_of(element)); };
  if (!type) return {};
  switch (type->kind()) {
    case ir::TypeKind::Tensor: return {.kind = Kind::Tensor, .dtype = type->dtype()};
    case ir::TypeKind::Sequence: return {.kind = Kind::Sequence, .element = of(type->element())};
    case ir::TypeKind::Optional: return {.kind = Kind::Optional, .element = of(type->element())};
    case ir::TypeKind::Map:
      return {.kind = Kind::Map, .dtype = type->element(0)->dtype(), .element = of(type->element(1))};
    default: return {};
  }
}

runtime::ValueSpec describe_value(std::string name, const ir::Type* type, FunctionSymbols& symbols) {
  runtime::ValueSpec spec;
  spec.name = std::move(name);
  spec.type = type ? ir::readable(type) : "any[*]";
  spec.is_tensor = !type || type->is_tensor();
  spec.structure = structure_of(type);
  if (!type || !type->is_tensor()) return spec;
  spec.dtype = type->dtype();
  if (type->has_rank()) {
    spec.dims.emplace();
    for (ir::Dim dim : type->dims()) {
      spec.dims->push_back(symbols.lower(dim));
      const bool has_name = dim.is_symbol() && !ir::is_generated(dim.symbol_name());
      spec.sizes.emplace_back(has_name ? dim.symbol_name() : "");
    }
  }
  return spec;
}

runtime::Signature signature_of(const ir::Module& module, FunctionSymbols& symbols) {
  runtime::Signature signature;
  for (const ir::Parameter* parameter : module.main()->parameters()) {
    signature.inputs.push_back(describe_value(std::string(parameter->name()), parameter->type(), symbols));
    signature.inputs.back().is_donated = parameter->is_donated();
    if (const ir::Value* value = module.default_of(parameter)) {
      signature.inputs.back().otherwise = value->is_tensor() ? Datum(value->tensor()) : Datum();
    }
  }
  for (size_t s = 0; s < symbols.sources().size(); ++s) {
    const runtime::SymbolSource& source = symbols.sources()[s];
    signature.symbols.push_back({symbols.names()[s], source.argument, source.axis, source.scale, source.offset});
  }
  const ir::Node* result = module.main()->result();
  const auto& names = module.output_names();
  if (names.size() == 1 || (names.empty() && !(result->type() && result->type()->is_tuple()))) {
    signature.outputs.push_back(describe_value(names.empty() ? "" : names[0], result->type(), symbols));
  } else {
    size_t count = names.empty() ? result->type()->elements().size() : names.size();
    for (size_t i = 0; i < count; ++i) {
      bool known = result->type() && result->type()->is_tuple();
      signature.outputs.push_back(
          describe_value(i < names.size() ? names[i] : "", known ? result->type()->element(i) : nullptr, symbols));
    }
  }
  return signature;
}

runtime::Executable compile(const ir::Module& module, ir::Module* used_up, const CompileOptions& options) {
  if (!module.main() || !module.main()->result()) {
    throw Error(ErrorCode::InvalidArgument, "a module without a complete main function cannot be compiled");
  }
  ProgramBuilder builder(module, used_up, options);
  if (!builder.order().back_edges.empty()) {
    throw Error(ErrorCode::InvalidModel, "the graph has a cycle")
        .at_node(describe(*builder.order().back_edges[0].user));
  }
  std::vector<runtime::Function>& functions = builder.program->functions;
  builder.program->main = builder.function_index(module.main());

  std::vector<Draft> drafts;
  with_threads(options.threads, [&] {  // kernels are prepared for as many as they will run on
    {
      const PassingElements::Reuse reuse;
      const LastingMemory packed(builder.packable_bytes());
      builder.add_large_kernels();
      for (const ir::GraphOrder& graph : builder.order().graphs) drafts.push_back(lower(graph, builder));
    }
    builder.settle_constants();
  });
  auto arguments_of = [](const Draft& draft) { return std::span(draft.value_types).first(draft.num_arguments); };
  // The main function first: the others ask it for symbols.
  FunctionSymbols main_symbols(arguments_of(drafts[builder.program->main]), nullptr);
  runtime::Signature signature = signature_of(module, main_symbols);
  const analysis::CallOrder calls(builder.order());
  const RetainedArguments retained(drafts);
  for (uint32_t f = 0; f < drafts.size(); ++f) {
    FunctionSymbols own_symbols(arguments_of(drafts[f]), &main_symbols);
    const bool is_main = f == builder.program->main;
    const Donation donation = is_main ? plan_donation(drafts[f], retained) : Donation();
    functions.push_back(emit(
        drafts[f], plan_memory(drafts[f], is_main ? main_symbols : own_symbols, calls, retained, donation, *builder.program), builder));
    if (!is_main) functions.back().symbols = own_symbols.sources();
  }
  functions[builder.program->main].symbols = main_symbols.sources();
  return runtime::Executable(std::move(builder.program), std::move(signature), options.threads);
}

}  // namespace

runtime::Executable compile(const ir::Module& module, const CompileOptions& options) {
  return compile(module, nullptr, options);
}
runtime::Executable compile(ir::Module&& module, const CompileOptions& options) {
  return compile(module, &module, options);
}

}  // namespace anfora::plan

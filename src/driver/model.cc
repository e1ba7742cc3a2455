#include "driver/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "anfora/error.h"
#include "codegen/generated_kernels.h"
#include "driver/evaluate.h"
#include "driver/flops.h"
#include "driver/gradient.h"
#include "driver/kernels.h"
#include "driver/python_source.h"
#include "driver/tuner.h"
#include "frontend/onnx/export.h"
#include "frontend/onnx/import.h"
#include "frontend/onnx/lower_search.h"
#include "frontend/onnx/opset_history.h"
#include "ir/annotations.h"
#include "ir/clone.h"
#include "ir/text_file.h"
#include "ir/verify.h"
#include "kernels/generated/isa.h"
#include "ops/registry.h"
#include "pipeline/expand.h"
#include "pipeline/pipeline.h"
#include "plan/compile.h"
#include "support/mapped_file.h"
#include "support/nearest.h"
#include "support/release_elements.h"

namespace anfora::driver {

LoadedModel load_model(const ModelSource& source, std::function<bool(std::string_view)> is_trainable,
                       std::set<std::string, std::less<>> apart) {
  LoadedModel model;
  model.context = ops::make_context();
  try {
    onnx::ImportOptions options{.is_trainable = std::move(is_trainable), .apart = std::move(apart)};
    if (!source.is_file()) {
      options.name = source.name();
      options.data_directory = source.path;
      model.module = onnx::import_onnx(*model.context, *source.bytes, source.owner, options);
    } else if (source.is_text()) {
      model.module = ir::read_text_file(*model.context, source.path);
    } else if (is_compiled(source.path)) {
      throw Error(ErrorCode::Unsupported, "this model is compiled, and no graph any more")
          .with_hint("run, bench and info take it; other commands want what it was made of");
    } else if (source.is_python()) {
      model = load_python_function(std::move(model.context), source.path);
    } else {
      model.module = onnx::import_onnx(*model.context, source.path, options);
    }
    ir::verify_or_throw(*model.module, ErrorCode::InvalidModel);
    analysis::infer_types(*model.module);
    lower_gradients(*model.module);
  } catch (Error& error) {
    error.at_location(source.name());
    throw;
  }
  return model;
}

namespace {

int64_t parse_opset(const std::string& text) {
  if (text == "keep") return onnx::ExportOptions::kKeep;
  if (text == "newest") return onnx::ExportOptions::kNewest;
  int64_t number = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size() || number < 1 || number > onnx::newest_opset("")) {
    throw Error(ErrorCode::InvalidArgument, fmt::format("'{}' is not an operator set", text))
        .with_hint(fmt::format("keep, newest, or a number from 1 to {}", onnx::newest_opset("")));
  }
  return number;
}

onnx::ExportOptions::ValueInfo parse_value_info(const std::string& text) {
  using ValueInfo = onnx::ExportOptions::ValueInfo;
  if (text == "keep") return ValueInfo::Keep;
  if (text == "all") return ValueInfo::All;
  if (text == "none") return ValueInfo::None;
  throw Error(ErrorCode::InvalidArgument, fmt::format("'{}' is not a choice of values whose types are written", text))
      .with_hint("keep, all or none");
}

}  // namespace

std::function<bool(const ir::Apply&)> expressible(const ir::Module& module, const SaveOptions& options) {
  return onnx::expressible(module, {.opset = parse_opset(options.opset), .reader = options.target->reads});
}

pipeline::OptimizeOptions optimizing_for(const ir::Module& module, const SaveOptions& options) {
  return {.pipeline = options.target->pipeline,
          .passes = {.has_operator = expressible(module, options), .is_accurate = options.target->is_accurate}};
}

namespace {

void add_note(std::string& notes, const std::string& text) { notes.append(notes.empty() ? "" : "; ").append(text); }

onnx::ExportOptions export_options(const SaveOptions& options) {
  return {.opset = parse_opset(options.opset),
          .reader = options.target->reads,
          .value_info = parse_value_info(options.value_info),
          .is_weight = options.is_weight};
}

SaveReport report_of(const onnx::ExportReport& exported) {
  SaveReport report{.bytes = static_cast<int64_t>(exported.model_bytes + exported.data_bytes), .nodes = exported.nodes};
  for (const auto& moved : exported.moved) {
    add_note(report.note, fmt::format("operator set {} instead of {}{}: {} needs it", moved.to, moved.from,
                                      moved.domain.empty() ? "" : " of " + moved.domain, moved.because));
  }
  for (const std::string& what : exported.left_out) add_note(report.note, "left out: " + what);
  for (const std::string& what : exported.caveats) add_note(report.note, what);
  return report;
}

// The module without what only differentiation reads, of which ONNX has nothing.
class ForOnnx {
 public:
  explicit ForOnnx(const ir::Module& module) : module_(&module) {
    if (!pipeline::has_custom_gradients(module)) return;
    copy_ = ir::clone(module);
    pipeline::forget_gradients(*copy_);
    module_ = copy_.get();
  }
  const ir::Module& module() const { return *module_; }

 private:
  const ir::Module* module_;
  std::unique_ptr<ir::Module> copy_;
};

}  // namespace

SaveReport save_model(const ir::Module& module, const std::filesystem::path& path, const SaveOptions& options) {
  if (path.extension() != ".ir")
    return report_of(onnx::export_onnx(ForOnnx(module).module(), path, export_options(options)));
  SaveReport report{.bytes = static_cast<int64_t>(ir::write_text_file(module, path)), .nodes = module.num_operations()};
  for (const std::string& what : module.annotations().left_out()) add_note(report.note, "left out: " + what);
  return report;
}

SaveReport write_onnx(const ir::Module& module, const onnx::ByteSink& sink, const SaveOptions& options) {
  return report_of(onnx::export_onnx(ForOnnx(module).module(), sink, export_options(options)));
}

SaveReport describe_saved(const ir::Module& module, const SaveOptions& options) {
  return report_of(onnx::describe_export(ForOnnx(module).module(), export_options(options)));
}

bool has_expansions(const ir::Module& module) { return onnx::has_searches(module) || pipeline::has_expansions(module); }

void expand(ir::Module& module) {
  onnx::lower_searches(module);
  pipeline::expand(module);
}

namespace {

void donate(ir::Module& module, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::vector<std::string> known;
    ir::Parameter* found = nullptr;
    for (ir::Parameter* parameter : module.main()->parameters()) {
      if (parameter->name() == name) found = parameter;
      known.emplace_back(parameter->name());
    }
    if (!found) throw unknown_name("input", name, known);
    found->set_donated(true);
  }
}

void require_known_sizes(const ir::Module& module) {
  for (const ir::Parameter* parameter : module.main()->parameters()) {
    const ir::Type* type = parameter->type();
    if (!type || !type->is_tensor()) continue;
    const bool is_known =
        type->has_rank() && std::ranges::all_of(type->dims(), [](ir::Dim dim) { return dim.is_constant(); });
    if (is_known) continue;
    throw Error(ErrorCode::InvalidArgument, fmt::format("a memory limit is of known sizes, and input '{}' is {}",
                                                        parameter->name(), to_string(type)))
        .with_hint("fix them: --shape, --dim");
  }
}

// Of what stands for several operators: see codegen::pays_here(). Under a memory limit nothing is generated.
bool is_worth_making(const ir::Apply& node, bool generates) {
  if (!generates && codegen::has_only_generated_code(node.op().name)) return false;
  std::vector<int64_t> weights;
  const ir::Type* type = node.num_inputs() > 1 && node.has_input(1) ? node.input(1)->type() : nullptr;
  const ir::Type* first = node.num_inputs() > 1 && node.has_input(0) ? node.input(0)->type() : nullptr;
  if (node.is("LoweredMatMul") && type && first && type->is_tensor() && first->is_tensor() && type->dtype() != first->dtype())
    return generates && codegen::reads_weights(type->dtype());
  if (!generates) return true;
  if (type && type->is_tensor() && type->has_rank()) {
    for (const ir::Dim& dim : type->dims()) weights.push_back(dim.is_constant() ? dim.constant() : -1);
  }
  return codegen::pays_here(node.op().name, node.attributes(), weights);
}

int convolution_lanes() {
  const kernels::generated::IsaDescription& isa = kernels::generated::describe(kernels::generated::best_isa());
  return isa.has_fma ? isa.lanes : 1;
}

void prepare(ir::Module& module, const CompileOptions& options) {
  donate(module, options.donate);
  onnx::lower_searches(module);
  if (!options.optimize) {
    pipeline::expand(module);
    return;
  }
  if (options.memory_limit) require_known_sizes(module);
  const pipeline::OptimizeReport report = pipeline::optimize(
      module, {.pipeline = &pipeline::kExecute,
               .passes = {.math = options.math,
                          .reads_weights = options.memory_limit ? nullptr : codegen::reads_weights,
                          .evaluate = fast_evaluator(),
                          .has_operator = [generates = !options.memory_limit](const ir::Apply& node) { return is_worth_making(node, generates); },
                          .memory_limit = options.memory_limit,
                          .vector_lanes = convolution_lanes()},
               .save_graphs = options.save_graphs,
               .stages_before = options.stages_before,
               .keep_remarks = options.memory_limit && options.on_note});
  for (const rewrite::Remark& remark : report.remarks.all()) {
    if (remark.pass == "rematerialize") options.on_note(fmt::format("{}: {}", remark.node, remark.message));
  }
  drop_mapped_pages();
}

CompileOptions with_stages(CompileOptions options, const LoadedModel& model) {
  if (options.stages_before.empty()) options.stages_before = model.stages;
  return options;
}

// For a module that is optimized.
plan::CompileOptions plan_options(const ir::Module& module, const CompileOptions& options) {
  plan::CompileOptions how{.threads = options.threads, .prepared = generating_kernels(), .look_ahead = codegen::compile_ahead};
  if (options.tune == Tune::Off) return how;
  how.choice = tune_kernels(module, how, {.tune = options.tune, .inputs = options.tune_inputs, .on_note = options.on_note});
  return how;
}

}  // namespace

namespace {

// Bytes of the arena, with workspaces as far as they are known, and of results that lie elsewhere.
int64_t planned_bytes(const runtime::Executable& executable) {
  const runtime::MemoryReport memory = executable.memory();
  int64_t bytes = memory.arena_bytes + memory.callee_arena_bytes;
  const auto outputs = executable.outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (executable.donated_input(i) || !outputs[i].dims) continue;
    auto size = static_cast<int64_t>(element_bytes(outputs[i].dtype));
    for (const runtime::SizeExpression& dim : *outputs[i].dims) size *= dim.evaluate({}).value_or(0);
    bytes += size;
  }
  return bytes;
}

// What lies between values of an arena counts, too: where that is too much, the values have to fit into less.
runtime::Executable compile_within_limit(const ir::Module& module, CompileOptions options) {
  constexpr int kMostTries = 4;
  if (options.tune != Tune::Off)
    throw Error(ErrorCode::InvalidArgument, "kernels are not tuned under a memory limit").with_hint("choose one of the two");
  const int64_t limit = *options.memory_limit;
  std::vector<std::string> notes;
  const std::function<void(const std::string&)> on_note = options.on_note;
  if (on_note) options.on_note = [&](const std::string& note) { notes.push_back(note); };
  int64_t bytes = 0;  // by the last plan
  for (int tries = 0; tries < kMostTries; ++tries) {
    notes.clear();
    std::unique_ptr<ir::Module> copy = ir::clone(module);
    try {
      prepare(*copy, options);
    } catch (const Error& error) {
      if (tries == 0 || error.code() != ErrorCode::ResourceExhausted) throw;
      break;
    }
    runtime::Executable executable = plan::compile(std::move(*copy), {.threads = options.threads});
    bytes = planned_bytes(executable);
    if (bytes <= limit) {
      for (const std::string& note : notes) on_note(note);
      return executable;
    }
    *options.memory_limit -= bytes - limit;
  }
  throw Error(ErrorCode::ResourceExhausted,
              fmt::format("the values of a run fit into the memory limit of {} bytes, but lie in {}", limit, bytes))
      .with_hint("a limit that is a little higher may be kept");
}

}  // namespace

runtime::Executable compile_model(LoadedModel& model, const CompileOptions& options) {
  if (options.memory_limit) return compile_within_limit(*model.module, with_stages(options, model));
  prepare(*model.module, with_stages(options, model));
  return plan::compile(*model.module, plan_options(*model.module, options));
}

runtime::Executable compile_model(LoadedModel&& model, const CompileOptions& options) {
  std::optional<LoadedModel> used_up = std::move(model);
  runtime::Executable executable = compile_module(std::move(*used_up->module), with_stages(options, *used_up));
  used_up.reset();
  release_free_memory();
  return executable;
}

runtime::Executable compile_module(ir::Module&& module, const CompileOptions& options) {
  if (options.memory_limit) return compile_within_limit(module, options);
  prepare(module, options);
  const plan::CompileOptions how = plan_options(module, options);
  return plan::compile(std::move(module), how);
}

runtime::Executable compile_as_is(const ir::Module& module, const plan::CompileOptions& options) {
  if (!has_expansions(module)) return plan::compile(module, options);
  std::unique_ptr<ir::Module> expanded = clone(module);
  analysis::infer_types(*expanded);
  expand(*expanded);
  return plan::compile(std::move(*expanded), options);
}

FileSummary summarize_file(const ir::Module& module, const std::filesystem::path& path) {
  onnx::Contents contents;
  if (ModelSource(path).is_onnx()) {
    contents = onnx::read_contents(path);
  } else {
    for (const ir::Graph* graph : module.graphs()) {
      for (const ir::Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
        if (node->primitive() == ir::Primitive::Operation) ++contents.nodes[node->op().qualified];
      }
    }
  }
  FileSummary summary;
  summary.operator_counts.assign(contents.nodes.begin(), contents.nodes.end());
  std::ranges::stable_sort(summary.operator_counts, std::greater(), &std::pair<std::string, size_t>::second);
  for (const auto& [op, count] : summary.operator_counts) summary.nodes += count;
  auto add_size = [&](const std::filesystem::path& file) {
    std::error_code unknown;
    const uintmax_t size = std::filesystem::file_size(file, unknown);
    if (!unknown) summary.bytes += static_cast<int64_t>(size);
  };
  add_size(path.native().substr(0, ModelSource(path).is_python() ? path.native().rfind("::") : std::string::npos));
  for (const std::string& name : contents.data_files) add_size(path.parent_path() / name);
  return summary;
}

namespace {

bool is_unknown(const ir::Type* type) { return type && type->is_tensor() && !type->is_static(); }

// Of what an operator reads or makes.
bool has_unknown_size(const ir::Apply& node) {
  return is_unknown(node.type()) ||
         std::ranges::any_of(node.operands(), [](const ir::Use& use) { return is_unknown(use.node->type()); });
}

}  // namespace

ModelSummary summarize(ir::Module& module) {
  ModelSummary summary;
  analysis::Inference inference(module);
  inference.run();
  std::set<const ir::Node*> constants;
  for (const ir::Graph* graph : module.graphs()) {
    for (ir::Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
      for (const ir::Use& use : node->operands()) {
        const Tensor* tensor = constant_tensor(use.node);
        if (!tensor || !constants.insert(use.node).second) continue;
        summary.parameters += tensor->size();
        summary.parameter_bytes += static_cast<int64_t>(tensor->bytes());
      }
      if (node->primitive() != ir::Primitive::Operation) continue;
      summary.has_unknown_sizes = summary.has_unknown_sizes || (inference.flops(*node) > 0 && has_unknown_size(*node));
    }
  }
  std::set<std::string> symbols;
  for (const ir::Parameter* p : module.main()->parameters()) {
    if (!p->type()->is_tensor()) continue;
    for (ir::Dim d : p->type()->dims()) ir::for_each_symbol(d, [&](ir::Dim s) { symbols.emplace(s.symbol_name()); });
  }
  summary.symbols.assign(symbols.begin(), symbols.end());
  summary.flops = count_flops(module);
  return summary;
}

}  // namespace anfora::driver

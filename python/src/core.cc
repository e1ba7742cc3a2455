// anfora._core: models as Python sees them. What a person calls is in the Python files of this folder.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <mutex>
#include <string>
#include <utility>
#include <variant>

#include "analysis/infer.h"
#include "anfora/error.h"
#include "cli/command_line.h"
#include "driver/agreement.h"
#include "driver/diff.h"
#include "driver/explain.h"
#include "driver/flops.h"
#include "driver/gradient.h"
#include "driver/interface.h"
#include "driver/optimize.h"
#include "driver/session.h"
#include "driver/why_not.h"
#include "executable.h"
#include "frontend/python/lower/library.h"
#include "frontend/python/parser.h"
#include "ir/clone.h"
#include "ir/isomorphic.h"
#include "ir/print.h"
#include "ir/readable.h"
#include "ir/verify.h"
#include "operators.h"
#include "ops/registry.h"
#include "programs.h"
#include "reports.h"
#include "support/release_elements.h"

namespace anfora::bindings {
namespace {

// What models that came from one share: types and names are interned in the context, by one thread at a time.
struct Shared {
  explicit Shared(bool is_large) : is_large(is_large) {}
  ~Shared() {
    context.reset();
    if (is_large) release_free_memory();
  }

  const bool is_large;  // read from a file; functions of Python may be many, and small
  std::unique_ptr<ir::Context> context;
  std::mutex mutex;
};

nb::object shape_of(const ir::Type* type) {
  if (!type || !type->is_tensor() || !type->has_rank()) return nb::none();
  nb::list shape;
  for (ir::Dim dim : type->dims()) {
    if (dim.is_constant()) {
      shape.append(dim.constant());
    } else if (dim.is_symbol() && !ir::is_generated(dim.symbol_name())) {
      shape.append(std::string(dim.symbol_name()));
    } else {
      shape.append(nb::none());
    }
  }
  return shape;
}

ValueInfo describe(std::string name, const ir::Type* type) {
  ValueInfo info{.name = std::move(name), .type = ir::readable(type), .shape = shape_of(type)};
  if (type && type->is_tensor()) {
    info.dtype = type->dtype() == DType::Undefined ? "any" : std::string(anfora::name(type->dtype()));
  }
  return info;
}

class Model {
 public:
  explicit Model(driver::ModelSource source) : shared_(std::make_shared<Shared>(source.is_onnx())), source_(std::move(source)) {
    Working working;
    driver::LoadedModel loaded = driver::load_model(source_);
    shared_->context = std::move(loaded.context);
    module_ = std::move(loaded.module);
  }

  explicit Model(Program&& program)
      : shared_(std::make_shared<Shared>(false)), source_(std::filesystem::path(program.name)) {
    shared_->context = std::move(program.model.context);
    module_ = std::move(program.model.module);
    stages_ = std::move(program.model.stages);
    ir::verify_or_throw(*module_, ErrorCode::Internal);
    analysis::infer_types(*module_);
    driver::lower_gradients(*module_);
  }

  static Model from_bytes(nb::bytes bytes, const std::filesystem::path& folder) {
    std::shared_ptr<void> owner(new nb::bytes(bytes), [](void* held) {
      nb::gil_scoped_acquire gil;
      delete static_cast<nb::bytes*>(held);
    });
    driver::ModelSource source({static_cast<const std::byte*>(bytes.data()), bytes.size()}, std::move(owner));
    source.path = folder;
    return Model(std::move(source));
  }

  Model copy() const {
    std::lock_guard lock(shared_->mutex);
    return Model(*this, ir::clone(*module_));
  }

  std::vector<ValueInfo> inputs() const {
    std::vector<ValueInfo> infos;
    for (const auto& [name, type] : driver::inputs_of(*module_)) infos.push_back(describe(name, type));
    for (size_t i = 0; i < infos.size(); ++i) {
      infos[i].is_optional = module_->default_of(module_->main()->parameters()[i]) != nullptr;
    }
    return infos;
  }
  std::vector<ValueInfo> outputs() const {
    driver::NamedTypes outputs;
    {
      Working working;
      std::lock_guard lock(shared_->mutex);
      outputs = driver::outputs_of(*module_);
    }
    std::vector<ValueInfo> infos;
    for (const auto& [name, type] : outputs) infos.push_back(describe(name, type));
    return infos;
  }

  // Applications in the main graph and in those nested in it: (operator, name, types of results).
  nb::list nodes() const {
    nb::list list;
    for (const ir::Graph* graph : module_->graphs()) {
      for (const ir::Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
        if (node->primitive() != ir::Primitive::Operation) continue;
        const std::string_view name = node->location() ? node->location()->name : node->name();
        list.append(nb::make_tuple(node->op().qualified, std::string(name), ir::readable(node->type()),
                                   node->location() ? to_string(*node->location()) : ""));
      }
    }
    return list;
  }

  nb::dict metadata() const {
    const ir::Metadata& all = module_->metadata();
    nb::dict properties, opsets, result;
    for (const auto& [key, value] : all.properties) properties[key.c_str()] = value;
    for (const auto& [domain, version] : all.opsets) opsets[domain.c_str()] = version;
    result["producer"] = all.producer;
    result["producer_version"] = all.producer_version;
    result["domain"] = all.domain;
    result["doc"] = all.doc;
    result["graph_name"] = all.graph_name;
    result["graph_doc"] = all.graph_doc;
    result["model_version"] = all.model_version;
    result["ir_version"] = all.ir_version;
    result["properties"] = properties;
    result["opsets"] = opsets;
    return result;
  }

  // What the passes did, as a dictionary.
  void differentiate(size_t of, std::vector<size_t> by, int64_t checkpoints) {
    Working working;
    std::lock_guard lock(shared_->mutex);
    driver::differentiate(*module_, of, std::move(by), checkpoints);
  }
  void make_scalar(size_t of) {
    std::lock_guard lock(shared_->mutex);
    driver::make_scalar(*module_, of);
  }
  void add_weighted_sum(const std::vector<size_t>& of) {
    std::lock_guard lock(shared_->mutex);
    driver::add_weighted_sum(*module_, of);
  }
  void set_to_zero(size_t first, const std::vector<size_t>& like) {
    std::lock_guard lock(shared_->mutex);
    driver::set_to_zero(*module_, first, like);
  }
  void keep_outputs(const std::vector<size_t>& kept) {
    std::lock_guard lock(shared_->mutex);
    driver::keep_results(*module_, kept);
  }

  nb::dict optimize(const driver::OptimizeOptions& options, const nb::object& progress) {
    std::function<void(std::string_view, size_t)> on_stage;
    if (!progress.is_none()) {
      on_stage = [&](std::string_view pass, size_t round) {
        nb::gil_scoped_acquire gil;
        progress(std::string(pass), round);
      };
    }
    const auto start = std::chrono::steady_clock::now();
    pipeline::OptimizeReport report;
    {
      Working working;
      std::lock_guard lock(shared_->mutex);
      report = driver::optimize(*module_, options, on_stage);
      optimized_.push_back(options);
    }
    nb::list steps;
    for (const pipeline::PassReport& pass : report.passes) {
      if (pass.changes == 0 && pass.nodes_removed == 0) continue;
      nb::dict step;
      step["name"] = std::string(pass.name);
      step["title"] = std::string(pass.doc);
      step["doc"] = std::string(pass.note);
      step["rewrites"] = pass.changes;
      step["nodes_removed"] = pass.nodes_removed;
      step["seconds"] = pass.seconds;
      steps.append(step);
    }
    nb::dict result;
    result["nodes_before"] = report.nodes_before;
    result["nodes_after"] = report.nodes_after;
    result["rounds"] = report.rounds;
    result["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    result["steps"] = steps;
    return result;
  }

  // What the writer had to say; may be empty.
  std::string save(const std::filesystem::path& path, const std::optional<std::string>& opset) const {
    Working working;
    std::lock_guard lock(shared_->mutex);
    return driver::save_model(*module_, path, save_options(opset)).note;
  }
  nb::bytes to_onnx(const std::optional<std::string>& opset) const {
    std::string bytes;
    {
      Working working;
      std::lock_guard lock(shared_->mutex);
      driver::write_onnx(
          *module_,
          [&](std::span<const std::byte> piece) {
            bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
          },
          save_options(opset));
    }
    return nb::bytes(bytes.data(), bytes.size());
  }
  // (nodes, bytes) of the ONNX file that save() would write.
  std::pair<size_t, int64_t> size_as_onnx() const {
    Working working;
    std::lock_guard lock(shared_->mutex);
    const driver::SaveReport report = driver::describe_saved(*module_, save_options());
    return {report.nodes, report.bytes};
  }
  std::string text() const { return ir::print(*module_); }
  double flops() {
    Working working;
    std::lock_guard lock(shared_->mutex);
    return driver::count_flops(*module_);
  }

  // Optimizes the module.
  driver::Explanation explain(const driver::OptimizeOptions& options) {
    Working working;
    std::lock_guard lock(shared_->mutex);
    return driver::explain(*module_, options);
  }

  driver::WhyNot why_not(const std::string& rule, const driver::OptimizeOptions& options) const {
    Working working;
    std::lock_guard lock(shared_->mutex);
    return driver::why_not(*module_, options, rule);
  }

  driver::Difference diff(const Model& other) const {
    Working working;
    const Locked locked(*this, other);
    return driver::diff(*module_, *other.module_);
  }

  // The first one, up to names; empty: there is none.
  std::string structural_difference(const Model& other) const {
    const Locked locked(*this, other);
    return ir::difference(*module_, *other.module_, {.interface = false});
  }

  nb::dict verify(const Model& other, int runs, uint64_t seed, const std::string& promise) const {
    driver::Agreement agreement;
    {
      Working working;
      const Locked locked(*this, other);
      runtime::Executable a = driver::compile_as_is(*module_), b = driver::compile_as_is(*other.module_);
      agreement = driver::check_agreement(*module_, a, *other.module_, b,
                                          {.runs = runs, .seed = seed, .promise = rewrite::promise_named(promise)});
    }
    nb::dict result;
    result["same"] = agreement.same;
    result["compared"] = agreement.is_compared();
    result["worst"] = agreement.worst;
    result["worst_relative"] = agreement.worst_relative;
    result["message"] = agreement.same ? agreement.not_compared : agreement.message;
    return result;
  }

  std::unique_ptr<driver::Session> compile(int threads, bool optimize, const std::string& math,
                                           const std::filesystem::path& save_graphs,
                                           const std::vector<std::string>& donate, std::optional<int64_t> memory_limit,
                                           const std::string& tune, std::vector<std::string>& notes) const {
    Working working;
    std::lock_guard lock(shared_->mutex);
    auto prepare = [optimized = optimized_](ir::Module& module) {
      for (const driver::OptimizeOptions& options : optimized) driver::optimize(module, options);
    };
    return std::make_unique<driver::Session>(
        std::move(*ir::clone(*module_)), source_, prepare,
        driver::CompileOptions{.threads = threads,
                               .optimize = optimize,
                               .math = rewrite::promise_named(math),
                               .save_graphs = save_graphs,
                               .stages_before = stages_,
                               .donate = donate,
                               .memory_limit = memory_limit,
                               .tune = driver::tune_named(tune),
                               .on_note = [&notes](const std::string& note) { notes.push_back(note); }});
  }

 private:
  // Two models, which may share what is locked.
  struct Locked {
    Locked(const Model& a, const Model& b)
        : one(a.shared_->mutex, std::defer_lock), other(b.shared_->mutex, std::defer_lock) {
      a.shared_ == b.shared_ ? one.lock() : std::lock(one, other);
    }
    std::unique_lock<std::mutex> one, other;
  };

  Model(const Model& original, std::unique_ptr<ir::Module> module)
      : shared_(original.shared_),
        module_(std::move(module)),
        source_(original.source_),
        optimized_(original.optimized_),
        stages_(original.stages_) {}

  driver::SaveOptions save_options(const std::optional<std::string>& opset = std::nullopt) const {
    driver::SaveOptions options;
    if (!optimized_.empty()) options = driver::save_options(optimized_.back());
    if (opset) options.opset = *opset;
    return options;
  }

  std::shared_ptr<Shared> shared_;
  std::unique_ptr<ir::Module> module_;  // of the shared context
  driver::ModelSource source_;
  std::vector<driver::OptimizeOptions> optimized_;  // what was done to the module since it was read
  std::vector<pipeline::TextStage> stages_;         // what it was before
};

void init_options(driver::OptimizeOptions* self, const std::variant<int64_t, std::string>& opset,
                  const std::string& target, const std::string& math, bool assume_finite, bool expand, bool outline,
                  std::optional<int64_t> fold_limit, std::vector<std::string> passes,
                  std::vector<std::filesystem::path> rules, const std::map<std::string, std::vector<int64_t>>& shapes,
                  const std::map<std::string, int64_t>& dims) {
  driver::Pins pins;
  for (const auto& [input, shape] : shapes) pins.shapes.emplace(input, Shape(shape.begin(), shape.end()));
  const int64_t* number = std::get_if<int64_t>(&opset);
  new (self) driver::OptimizeOptions{.target = target,
                                     .opset = number ? std::to_string(*number) : std::get<std::string>(opset),
                                     .math = rewrite::promise_named(math),
                                     .assume_finite = assume_finite,
                                     .expand = expand,
                                     .outline = outline,
                                     .fold_limit = fold_limit,
                                     .passes = std::move(passes),
                                     .rules = std::move(rules),
                                     .pins = std::move(pins),
                                     .dims = {dims.begin(), dims.end()}};
}

// (model, how its outputs become the result, paths to its inputs, what it holds for)
nb::tuple parts_of(Program program) {
  nb::object result = program.result, inputs = program.inputs, guards = program.guards;
  return nb::make_tuple(nb::cast(Model(std::move(program))), result, inputs, guards);
}

// The command ends by itself on a signal, and does not hold the interpreter.
int run_command_line(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  nb::gil_scoped_release released;
  return cli::run_command_line(static_cast<int>(arguments.size()), pointers.data());
}

}  // namespace

NB_MODULE(_core, module) {
  nb::module_::import_("anfora._runtime");  // values, executables and exceptions
  bind_reports(module);
  bind_operators(module);
  module.def("run_command_line", run_command_line, nb::arg("arguments"));
  nb::dict library;
  for (const python::LibraryTree& tree : python::library_trees())
    library[std::string(tree.name.substr(0, tree.name.rfind(".py"))).c_str()] = std::string(tree.text);
  module.attr("library") = library;
  module.attr("tree_as_json") = std::string(python::parser_files()[0].text);

  const driver::OptimizeOptions defaults;
  nb::class_<driver::OptimizeOptions>(module, "OptimizeOptions")
      .def("__init__", init_options, nb::kw_only(), nb::arg("opset") = defaults.opset,
           nb::arg("target") = defaults.target, nb::arg("math") = std::string(to_string(defaults.math)),
           nb::arg("assume_finite") = defaults.assume_finite, nb::arg("expand") = defaults.expand,
           nb::arg("outline") = defaults.outline, nb::arg("fold_limit").none() = defaults.fold_limit,
           nb::arg("passes") = defaults.passes, nb::arg("rules") = defaults.rules,
           nb::arg("shapes") = std::map<std::string, std::vector<int64_t>>(),
           nb::arg("dims") = std::map<std::string, int64_t>());

  nb::class_<Model>(module, "Model")
      .def_static(
          "load", [](const std::filesystem::path& path) { return Model(path); }, nb::arg("path"))
      .def_static("from_bytes", &Model::from_bytes, nb::arg("bytes"), nb::arg("folder") = std::filesystem::path())
      .def_static(
          "from_function",
          [](nb::object function, nb::tuple arguments, nb::dict keywords, nb::object dims, nb::dict sizes, bool keeps_stages) {
            return parts_of(lower_program(std::move(function), std::move(arguments), std::move(keywords), std::move(dims),
                                          std::move(sizes), keeps_stages));
          },
          nb::arg("function"), nb::arg("arguments"), nb::arg("keywords"), nb::arg("dims").none(), nb::arg("sizes"),
          nb::arg("keeps_stages") = false)
      .def("copy", &Model::copy)
      .def_prop_ro("inputs", &Model::inputs)
      .def_prop_ro("outputs", &Model::outputs)
      .def("nodes", &Model::nodes)
      .def("metadata", &Model::metadata)
      .def("optimize", &Model::optimize, nb::arg("options"), nb::arg("progress").none() = nb::none())
      .def("make_scalar", &Model::make_scalar, nb::arg("of"))
      .def("add_weighted_sum", &Model::add_weighted_sum, nb::arg("of"))
      .def("set_to_zero", &Model::set_to_zero, nb::arg("first"), nb::arg("like"))
      .def("differentiate", &Model::differentiate, nb::arg("of"), nb::arg("by"), nb::arg("checkpoints") = 0)
      .def("keep_outputs", &Model::keep_outputs, nb::arg("kept"))
      .def("save", &Model::save, nb::arg("path"), nb::arg("opset").none() = nb::none())
      .def("to_onnx", &Model::to_onnx, nb::arg("opset").none() = nb::none())
      .def("size_as_onnx", &Model::size_as_onnx)
      .def("text", &Model::text)
      .def("flops", &Model::flops)
      .def("explain", &Model::explain, nb::arg("options"), nb::keep_alive<0, 1>())
      .def("why_not", &Model::why_not, nb::arg("rule"), nb::arg("options"))
      .def("diff", &Model::diff, nb::arg("other"))
      .def("structural_difference", &Model::structural_difference, nb::arg("other"))
      .def("verify", &Model::verify, nb::arg("other"), nb::arg("runs"), nb::arg("seed"), nb::arg("promise"))
      .def(
          "compile",
          [](const Model& model, int threads, bool optimize, const std::string& math,
             const std::filesystem::path& save_graphs, const std::vector<std::string>& donate,
             std::optional<int64_t> memory_limit, const std::string& tune) {
            std::vector<std::string> notes;
            auto session = model.compile(threads, optimize, math, save_graphs, donate, memory_limit, tune, notes);
            return Executable(std::move(session), std::move(notes));
          },
          nb::arg("threads"), nb::arg("optimize"), nb::arg("math"), nb::arg("save_graphs") = std::filesystem::path(),
          nb::arg("donate") = std::vector<std::string>(), nb::arg("memory_limit").none() = nb::none(),
          nb::arg("tune") = "off");

  bind_symbols(module);
  nb::class_<Tracer>(module, "Tracer", "Records the calls of a function that runs as a model.")
      .def(nb::init<nb::object, const std::string&, nb::tuple, nb::dict, nb::object, AssumedSizes*>(), nb::arg("wrap"),
           nb::arg("name"), nb::arg("arguments"), nb::arg("keywords"), nb::arg("dims").none(),
           nb::arg("sizes").none() = nb::none(), nb::keep_alive<1, 7>())
      .def_prop_ro("arguments", &Tracer::arguments)
      .def_prop_ro("inputs", &Tracer::inputs)
      .def("call", &Tracer::call, nb::arg("function"), nb::arg("arguments"), nb::arg("keywords"), nb::arg("place"))
      .def(
          "finish", [](Tracer& tracer, nb::object result) { return parts_of(tracer.finish(std::move(result))); },
          nb::arg("result").none());
}

}  // namespace anfora::bindings

// What the command line and the bindings do with models: load, optimize, compile, save, check.
#pragma once

#include <concepts>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driver/compare.h"
#include "driver/target.h"
#include "driver/tuning_cache.h"
#include "frontend/onnx/contents.h"
#include "frontend/onnx/export.h"
#include "ir/module.h"
#include "pipeline/pipeline.h"
#include "plan/compile.h"
#include "runtime/executable.h"

namespace anfora::driver {

// A module with the context it lives in.
struct LoadedModel {
  std::unique_ptr<ir::Context> context;
  std::unique_ptr<ir::Module> module;
  std::vector<pipeline::TextStage> stages = {};  // what it was before, of a function of Python
};

// Whether a file holds a compiled model (runtime/artifact.h), by its extension.
inline bool is_compiled(const std::filesystem::path& path) { return path.extension() == ".anf"; }

// Where a model is read from: a file, or memory.
struct ModelSource {
  template <class Path>
    requires std::convertible_to<Path, std::filesystem::path>
  ModelSource(Path&& file) : path(std::forward<Path>(file)) {}
  // An ONNX model in memory, which `owner` keeps alive.
  ModelSource(std::span<const std::byte> memory, std::shared_ptr<void> memory_owner)
      : bytes(memory), owner(std::move(memory_owner)) {}

  bool is_file() const { return !bytes; }
  bool is_text() const { return path.extension() == ".ir"; }
  bool is_python() const {  // "file.py::function"
    const std::string file = path.native().substr(0, path.native().rfind("::"));
    return file.ends_with(".py") || (file != path.native() && file.ends_with(".json"));
  }
  bool is_onnx() const { return !is_text() && !is_python() && !is_compiled(path); }
  std::string name() const { return is_file() ? path.filename().string() : "model"; }  // in messages

  std::filesystem::path path;  // of the file; of a model in memory, the folder of its external data
  std::optional<std::span<const std::byte>> bytes;  // of a model in memory
  std::shared_ptr<void> owner;
};

// Reads a model (.onnx; .ir: the text form; FILE.py::FUNCTION: a Python function), verifies it and infers its types. The initializers that `is_trainable` tells
// become parameters with a default (ImportOptions), and the names of dimensions in `apart` are not believed; the text form
// has such parameters itself, and only names that hold.
LoadedModel load_model(const ModelSource& source, std::function<bool(std::string_view)> is_trainable = nullptr,
                       std::set<std::string, std::less<>> apart = {});

struct SaveReport {
  int64_t bytes = 0;  // of the file and its external data
  size_t nodes = 0;   // see FileSummary
  std::string note;   // what the caller should know: that the operator set had to be raised, what is left out
};
struct SaveOptions {
  const Target* target = &any_runtime();
  std::string opset = "keep";       // "keep", "newest" (as far as the target reads it) or a number
  std::string value_info = "keep";  // the types of which values between nodes: "keep", "all" or "none"
  // Which parameters with a default are no inputs in ONNX, see ExportOptions.
  std::function<bool(std::string_view)> is_weight = nullptr;
};
// Whether the file that save_model() would write with these options has an operator as it is applied: what the optimizer
// is to know (PassOptions::has_operator).
std::function<bool(const ir::Apply&)> expressible(const ir::Module& module, const SaveOptions& options = {});
// How a module is optimized that is to be saved with these options.
pipeline::OptimizeOptions optimizing_for(const ir::Module& module, const SaveOptions& options = {});
// Writes ONNX, or the text form for .ir.
SaveReport save_model(const ir::Module& module, const std::filesystem::path& path, const SaveOptions& options = {});
// The same for bytes of ONNX in memory, which come piece by piece.
SaveReport write_onnx(const ir::Module& module, const onnx::ByteSink& sink, const SaveOptions& options = {});
// The same report of a file that is not written: as ONNX.
SaveReport describe_saved(const ir::Module& module, const SaveOptions& options = {});

struct CompileOptions {
  int threads = 0;       // 0: all
  bool optimize = true;  // the graph passes first; nothing is stored, so that folding has no size limit
  // The weakest promise that they may make; with less than `Real`, half precision is rounded after every operator.
  rewrite::Promise math = rewrite::Promise::Real;
  std::filesystem::path save_graphs = {};  // see pipeline::OptimizeOptions
  std::vector<pipeline::TextStage> stages_before = {};
  // Inputs whose memory the caller gives away, by name: a run may overwrite them, and return results in them.
  std::vector<std::string> donate = {};
  // The bytes of intermediate values and results that there may be at a time by the plan, without what kernels need for themselves: values
  // are computed again until it fits, or ResourceExhausted is thrown. The sizes of the inputs have to be known.
  std::optional<int64_t> memory_limit = {};
  // How much is measured to choose kernels (driver/tuner.h), and the inputs to run with meanwhile; none: made up. Not with a memory limit.
  Tune tune = Tune::Off;
  std::optional<std::vector<Datum>> tune_inputs = {};
  // Told what these came to.
  std::function<void(const std::string&)> on_note = {};
};
runtime::Executable compile_model(LoadedModel& model, const CompileOptions& options = {});
// The same, and consumes the model: takes less memory.
runtime::Executable compile_model(LoadedModel&& model, const CompileOptions& options = {});
// Before a module runs: what has no kernel becomes what it stands for.
void expand(ir::Module& module);
bool has_expansions(const ir::Module& module);
// The same for a module alone, which is consumed.
runtime::Executable compile_module(ir::Module&& module, const CompileOptions& options = {});
// A module as it is, for comparisons; what has no kernel but an expansion is expanded.
runtime::Executable compile_as_is(const ir::Module& module, const plan::CompileOptions& options = {});

// A model as its file has it.
struct FileSummary {
  size_t nodes = 0;                                             // onnx::NodeCounts
  std::vector<std::pair<std::string, size_t>> operator_counts;  // of them, the most frequent first
  int64_t bytes = 0;                                            // with external data
};
// `module` is what was read from the file: the text form has the same nodes.
FileSummary summarize_file(const ir::Module& module, const std::filesystem::path& path);

struct ModelSummary {
  int64_t parameters = 0;  // elements of constants
  int64_t parameter_bytes = 0;
  double flops = 0;                  // of one run, with every unknown size 1; bodies of loops count once
  bool has_unknown_sizes = false;    // in what the flops are counted of
  std::vector<std::string> symbols;  // of the inputs' shapes
};
ModelSummary summarize(ir::Module& module);

}  // namespace anfora::driver

// Reads an ONNX model into a module.
//
//     auto context = ops::make_context();
//     std::unique_ptr<ir::Module> module = onnx::import_onnx(*context, "model.onnx");
//
// What comes out: operators of the newest operator set only (older nodes are upgraded), control flow as
// functions, calls and Switch, weights as views on the mapped file, which the module keeps open. Types are
// those of main's parameters and of unknown operators' results; analysis::infer_types() finds the rest.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"

namespace anfora::onnx {

struct ImportOptions {
  // What errors and locations call the model. Empty: the name of the file.
  std::string name;
  // Where external data lies. Empty: in the model's folder; for a model in memory, nowhere.
  std::filesystem::path data_directory;
  // Asked of each initializer of the main graph that is no input: whether it is to be a parameter with a default, behind the
  // inputs, instead of a constant. Nothing is computed from it then, and equal ones stay apart. Null: none.
  std::function<bool(std::string_view)> is_trainable;
  // Names of dimensions that are not believed: wherever one occurs, it is a dimension of its own.
  std::set<std::string, std::less<>> apart = {};
};

// Throws Error: NotFound and Io about the file, InvalidModel where it breaks the format, Unsupported where it is valid
// but more than Anfora knows. The error names the node and its place in the file.
std::unique_ptr<ir::Module> import_onnx(ir::Context& context, const std::filesystem::path& path,
                                        const ImportOptions& options = {});

// From memory. `owner` keeps the bytes alive as long as the module's tensors refer to them; null: tensors are copied.
std::unique_ptr<ir::Module> import_onnx(ir::Context& context, std::span<const std::byte> bytes,
                                        std::shared_ptr<void> owner, const ImportOptions& options = {});

// The types that the model declares for its outputs, null where it declares none: what stored values of them
// are read as.
std::vector<const ir::Type*> declared_output_types(ir::Context& context, const std::filesystem::path& path);

}  // namespace anfora::onnx

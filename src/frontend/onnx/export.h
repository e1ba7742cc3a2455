// Writing a module as an ONNX model.
//
//     ExportReport report = export_onnx(module, "small.onnx");
//
// The module must be typed (analysis::infer_types). Names of inputs and outputs are kept, names of nodes and
// values where the node survives; what has no name gets one from its operator and a number. Two exports of equal
// modules are equal byte for byte. Dead nodes are not written.
//
// Control flow is turned back: a call of a Switch is an If, a tail-recursive graph a Loop or Scan, a call of a
// top-level graph a local function. What has no ONNX form (recursion that is not a tail call, functions as values)
// throws Unsupported and names the graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/onnx/wire.h"
#include "ir/module.h"

namespace anfora::onnx {

struct ExportOptions {
  // The operator set of the main domain: `kKeep` is that of the module's source, `kNewest` the newest that Anfora
  // knows (28, that of PyPI's onnx 1.23), any other number that one. Nodes that it cannot express raise it, see
  // ExportReport.
  static constexpr int64_t kKeep = 0;
  static constexpr int64_t kNewest = -1;
  int64_t opset = kKeep;

  // The newest operator set of the main domain, and the newest IR version, that the reader of the file takes: `kKeep` and `kNewest` end
  // there. 0: any.
  struct Reader {
    int64_t opset = 0, ir_version = 0;
    std::string_view name = "";
  };
  Reader reader;

  // Of which values between the nodes the file states the types: of those of which the source did, of all, or of none.
  // What a reader cannot infer, results of unknown operators, is stated always; results of the branches of an If,
  // which may be nonsense where a branch is never taken, by their element type only.
  enum class ValueInfo { Keep, All, None };
  ValueInfo value_info = ValueInfo::Keep;

  // Weights beside the model, in NAME.onnx.data: by default only in a model larger than `largest_file`.
  enum class ExternalData { WhenNeeded, Always, Never };
  ExternalData external_data = ExternalData::WhenNeeded;
  uint64_t largest_file = kLargestWritten;

  // Of each parameter of main that has a default: whether it is a weight, written as an initializer and not as an input as
  // well. Null: none is.
  std::function<bool(std::string_view)> is_weight;
};

struct ExportReport {
  int64_t ir_version = 0;
  std::map<std::string, int64_t, std::less<>> opsets;  // by domain
  // An operator set that could not be the one asked for.
  struct Moved {
    std::string domain;
    int64_t from = 0, to = 0;
    std::string because;  // "Gelu 'encoder.act'": the first node that asked-for version cannot express
  };
  std::vector<Moved> moved;
  std::vector<std::string> left_out;  // what the source has and the file has not, in words
  std::vector<std::string> caveats;   // what ONNX Runtime will not run, in words
  size_t nodes = 0;                   // those of subgraphs and functions included
  uint64_t model_bytes = 0, data_bytes = 0;
};

// For optimizers: whether the operator sets that export_onnx would choose have an application of an operator, so that
// it would be written as it is, and whether it would run.
std::function<bool(const ir::Apply&)> expressible(const ir::Module& module, const ExportOptions& options = {});

// Writes the file (and NAME.onnx.data) whole or not at all. Throws Unsupported, Io, ResourceExhausted.
ExportReport export_onnx(const ir::Module& module, const std::filesystem::path& path,
                         const ExportOptions& options = {});

// The same to a consumer of bytes, which gets the model piece by piece; external data is not possible.
using ByteSink = std::function<void(std::span<const std::byte>)>;
ExportReport export_onnx(const ir::Module& module, const ByteSink& sink, const ExportOptions& options = {});

// What would be written, without writing it.
ExportReport describe_export(const ir::Module& module, const ExportOptions& options = {});

}  // namespace anfora::onnx

// Imports and exports models, many in one process; roundtrip.py compares what comes out with what went in.
//
// usage: roundtrip [keep|newest|N] [optimize] [all-types]
//
// The operator set; optimize between import and export; state the types of all values.
//
// Reads lines "IN<tab>OUT" from the standard input and answers each with one line:
//
//     ok OPSET NODES MOVED        the main operator set written, the number of nodes, "from>to NODE" or nothing
//     STAGE message               import, infer, optimize or export refused
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <span>
#include <string>

#include "analysis/infer.h"
#include "driver/gradient.h"
#include "anfora/error.h"
#include "frontend/onnx/export.h"
#include "frontend/onnx/implemented.h"
#include "frontend/onnx/import.h"
#include "ops/registry.h"
#include "pipeline/pipeline.h"

namespace {

using namespace anfora;

int64_t number(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw Error(ErrorCode::InvalidArgument, fmt::format("'{}' is no number", text));
  }
  return value;
}

std::string on_one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

std::string convert(const std::string& from, const std::string& to, const onnx::ExportOptions& options, bool optimize) {
  const char* stage = "import";
  try {
    auto context = ops::make_context();
    auto module = onnx::import_onnx(*context, from);
    stage = "infer";
    analysis::infer_types(*module);
    driver::lower_gradients(*module);
    if (optimize) {
      stage = "optimize";
      pipeline::optimize(
          *module, {.passes = {.has_operator = onnx::expressible(*module, options), .is_accurate = onnx::is_accurate}});
    }
    stage = "export";
    onnx::ExportReport report = onnx::export_onnx(*module, to, options);
    std::string moved;
    for (const auto& move : report.moved) {
      moved +=
          fmt::format(" {}{}{}>{} {}", move.domain, move.domain.empty() ? "" : ":", move.from, move.to, move.because);
    }
    return fmt::format("ok {} {}{}", report.opsets[""], report.nodes, moved);
  } catch (const Error& error) {
    return fmt::format("{} {}", stage, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  onnx::ExportOptions options;
  try {
    std::string_view opset = argc > 1 ? argv[1] : "keep";
    if (opset == "newest") {
      options.opset = onnx::ExportOptions::kNewest;
    } else if (opset != "keep") {
      options.opset = number(opset);
    }
  } catch (const Error& error) {
    fmt::print(stderr, "roundtrip: {}\n", error.what());
    return 2;
  }
  bool optimize = false;
  for (std::string_view argument : std::span(argv, static_cast<size_t>(argc)).subspan(std::min(argc, 2))) {
    optimize = optimize || argument == "optimize";
    if (argument == "all-types") options.value_info = onnx::ExportOptions::ValueInfo::All;
  }
  for (std::string line; std::getline(std::cin, line);) {
    size_t tab = line.find('\t');
    if (tab == std::string::npos) continue;
    fmt::print("{}\n", on_one_line(convert(line.substr(0, tab), line.substr(tab + 1), options, optimize)));
    std::fflush(stdout);
  }
  return 0;
}

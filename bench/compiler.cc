// Times of the compiler itself, as JSON for bench/run.py.
//
//     compiler_bench tower NODES     a generated model of that many nodes from import to export, stage by stage
//     compiler_bench open FILE       import and inference of a model: time, and the memory that they add
//
// The tower is a chain of storeys of eight nodes. Folding and merging find one node each in every storey, and the chain
// is as deep as can be, so that whatever recurses or is not linear in the depth shows:
//
//     b = Relu(a)
//     c = Relu(a)         equal to b
//     d = Add(b, c)
//     k = Neg(1)          constant
//     e = Mul(d, k)
//     f = Abs(e)
//     g = Sigmoid(f)
//     h = Tanh(g)         the next a
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "anfora/error.h"
#include "frontend/onnx/export.h"
#include "frontend/onnx/import.h"
#include "ir/verify.h"
#include "ops/registry.h"
#include "passes/pass.h"
#include "pipeline/pipelines.h"
#include "support/resident_memory.h"

namespace {

using namespace anfora;
using Json = nlohmann::ordered_json;  // stages in the order in which they ran

constexpr size_t kNodesInStorey = 8;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

size_t parse_count(std::string_view text) {
  size_t count = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < kNodesInStorey) {
    throw Error(ErrorCode::InvalidArgument,
                fmt::format("a number of nodes from {} on is expected, not '{}'", kNodesInStorey, text));
  }
  return count;
}

void write_tower(const std::filesystem::path& path, size_t nodes) {
  auto context = ops::make_context();
  ir::Module module(*context);
  ir::Graph* main = module.make_graph("main");
  module.set_main(main);
  module.output_names() = {"y"};
  const ir::Dim dims[] = {context->dims().symbol("N"), context->dims().constant(16)};
  ir::Node* x = module.add_parameter(main, context->tensor_type(DType::F32, dims), "x");
  ir::Node* one = module.scalar(1.0f);
  auto apply = [&](const char* op, std::initializer_list<ir::Node*> inputs) {
    return module.apply(main, context->get_operator(op), inputs);
  };
  for (size_t i = 0; i < nodes / kNodesInStorey; ++i) {
    ir::Node* sum = apply("Add", {apply("Relu", {x}), apply("Relu", {x})});
    ir::Node* product = apply("Mul", {sum, apply("Neg", {one})});
    x = apply("Tanh", {apply("Sigmoid", {apply("Abs", {product})})});
  }
  module.set_result(main, x);
  analysis::infer_types(module);
  onnx::export_onnx(module, path);
}

// A folder that goes when the program ends.
class Scratch {
 public:
  Scratch() : path_(std::filesystem::temp_directory_path() / fmt::format("anfora-bench-{}", getpid())) {
    std::filesystem::create_directory(path_);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

Json tower(size_t nodes) {
  Scratch scratch;
  write_tower(scratch / "tower.onnx", nodes);
  Json result = {
      {"nodes", nodes / kNodesInStorey * kNodesInStorey}, {"seconds", Json::object()}, {"changes", Json::object()}};
  auto timed = [&](std::string_view stage, auto&& work) {
    double start = now();
    work();
    result["seconds"][stage] = now() - start;
  };

  auto context = ops::make_context();
  std::unique_ptr<ir::Module> module;
  timed("import", [&] { module = onnx::import_onnx(*context, scratch / "tower.onnx"); });
  timed("verify", [&] { ir::verify_or_throw(*module); });
  result["bytes_per_node"] = static_cast<double>(module->node_bytes()) / static_cast<double>(nodes);
  rewrite::Remarks remarks;
  passes::PassOptions options;
  passes::PassContext passes(*module, remarks, options);
  timed("infer", [&] { passes.inference.run(); });
  for (std::string_view pass : {"fold", "cse", "dce"}) {
    timed(pass, [&] { result["changes"][pass] = pipeline::get_pass(pass).run(passes); });
  }
  timed("export", [&] { onnx::export_onnx(*module, scratch / "result.onnx"); });
  return result;
}

Json open(const std::filesystem::path& path) {
  reset_peak_resident_bytes();
  int64_t before = resident_bytes();
  double start = now();
  auto context = ops::make_context();
  std::unique_ptr<ir::Module> module = onnx::import_onnx(*context, path);
  analysis::infer_types(*module);
  double seconds = now() - start;
  return {{"seconds", seconds},
          {"file_bytes", std::filesystem::file_size(path)},
          {"peak_added_bytes", peak_resident_bytes() - before}};
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view what = argc == 3 ? argv[1] : "";
  try {
    if (what == "tower") {
      fmt::print("{}\n", tower(parse_count(argv[2])).dump());
    } else if (what == "open") {
      fmt::print("{}\n", open(argv[2]).dump());
    } else {
      fmt::print(stderr, "usage: compiler_bench tower NODES | open FILE\n");
      return 2;
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "compiler_bench: {}\n", error.what());
    return 1;
  }
}

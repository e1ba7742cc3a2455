#include "pipeline/save_graphs.h"

#include <fmt/format.h>

#include <system_error>

#include "anfora/error.h"
#include "ir/dot.h"
#include "ir/print.h"
#include "ir/text_file.h"
#include "support/atomic_file.h"

namespace anfora::pipeline {
namespace {

void write(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace

GraphSaver::GraphSaver(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code failed;
  std::filesystem::create_directories(folder_, failed);
  if (failed) throw Error(ErrorCode::Io, fmt::format("the folder '{}': {}", folder_.string(), failed.message()));
}

void GraphSaver::save(const ir::Module& module, std::string_view stage) {
  std::string name = fmt::format("{:02}_{}", next_++, stage);
  write(folder_ / (name + ".ir"), ir::print(module, {.sidecar = &constants_}));
  write(folder_ / (name + ".dot"), ir::to_dot(module));
}

void GraphSaver::finish() {
  if (!constants_.empty()) ir::write_sidecar(constants_, folder_ / ir::kSharedConstants);
}

}  // namespace anfora::pipeline

#include "cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <system_error>

#include "anfora/error.h"
#include "cli/command.h"
#include "pipeline/draw.h"
#include "support/atomic_file.h"
#include "support/mapped_file.h"

namespace anfora::cli {

Output::Output(const std::string& path, std::string_view extension)
    : is_standard_(path == kStandardOutput), file_(path) {
  if (!is_standard_) return;
  if (isatty(STDOUT_FILENO)) {
    throw UsageError{Error(ErrorCode::InvalidArgument, "the output is binary, and standard output a terminal")
                         .with_hint("name a file, or write to a pipe: -o - | …")};
  }
  std::string name = (std::filesystem::temp_directory_path() / "anfora-XXXXXX").string();
  if (!mkdtemp(name.data())) {
    throw Error(ErrorCode::Io, fmt::format("the folder '{}': {}", name, std::generic_category().message(errno)));
  }
  folder_ = TemporaryFile(name);
  file_ = folder_.path() / fmt::format("output{}", extension);
}

void Output::finish() {
  if (!is_standard_) return;
  if (std::filesystem::exists(file_.string() + ".data")) {
    throw Error(ErrorCode::InvalidArgument, "the model is too large for one file, and standard output is one")
        .with_hint("-o FILE writes external data beside it");
  }
  const auto file = MappedFile::open(file_);
  if (std::fwrite(file->text().data(), 1, file->size(), stdout) != file->size()) {
    throw std::system_error(errno, std::generic_category());  // as fmt::print does
  }
}

void write_text(const std::string& path, const std::string& text) {
  if (path.empty() || path == kStandardOutput) return fmt::print("{}", text);
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::string draw(const std::string& dot) {
  std::optional<std::string> svg = pipeline::draw_svg(dot);
  if (!svg) {
    throw Error(ErrorCode::NotFound, "drawing needs Graphviz' program `dot`, which failed or is not installed")
        .with_hint("--format dot writes its input");
  }
  return *svg;
}

}  // namespace anfora::cli

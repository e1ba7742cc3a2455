#include "pipeline/draw.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "support/atomic_file.h"
#include "support/temporary_files.h"

namespace anfora::pipeline {

// dot reads a file, since a pipe to and from it could block.
std::optional<std::string> draw_svg(const std::string& dot) {
  const TemporaryFile source(temporary_name(std::filesystem::temp_directory_path() / "anfora.dot"));
  {
    AtomicFile file(source.path());
    file.write(dot);
    file.commit();
  }
  std::string svg;
  FILE* pipe = popen(fmt::format("dot -Tsvg '{}' 2> /dev/null", source.path().string()).c_str(), "r");
  char buffer[1 << 16];
  for (size_t n; pipe && (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) svg.append(buffer, n);
  const int status = pipe ? pclose(pipe) : -1;
  if (status != 0) return std::nullopt;
  return svg;
}

}  // namespace anfora::pipeline

#include "driver/python_source.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "anfora/error.h"
#include "frontend/python/parser.h"
#include "support/atomic_file.h"
#include "support/mapped_file.h"
#include "support/temporary_files.h"

namespace anfora::driver {
namespace {

std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string tree_as_json(const std::filesystem::path& file) {
  const TemporaryFile script(temporary_name(std::filesystem::temp_directory_path() / "anfora.py"));
  {
    AtomicFile written(script.path());
    written.write(python::parser_files()[0].text);
    written.commit();
  }
  const char* chosen = std::getenv("ANFORA_PYTHON");
  const std::string program = chosen && *chosen ? chosen : "python3";
  const std::string command =
      fmt::format("{} {} {}", shell_quoted(program), shell_quoted(script.path().string()), shell_quoted(file.string()));
  std::string json;
  FILE* pipe = popen(command.c_str(), "r");
  char buffer[1 << 16];
  for (size_t n; pipe && (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) json.append(buffer, n);
  if (const int status = pipe ? pclose(pipe) : -1; status != 0) {
    throw Error(ErrorCode::NotFound, fmt::format("reading Python needs the program `{}`, which failed or is not installed", program))
        .with_hint("ANFORA_PYTHON names another one");
  }
  return json;
}

}  // namespace

python::Source load_python(const std::filesystem::path& file) {
  const auto mapped = MappedFile::open(file);  // says what is wrong with it
  if (file.extension() != ".json") return python::read_source(tree_as_json(file));
  return python::read_source(mapped->text());
}

}  // namespace anfora::driver

#include "driver/python_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstdlib>

#include "anfora/error.h"
#include "frontend/python/lower/program.h"
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
    throw Error(ErrorCode::NotFound,
                fmt::format("reading Python needs the program `{}`, which failed or is not installed", program))
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

const python::Tree& find_function(const python::Source& source, std::string_view path) {
  if (const python::Tree* found = source.find_definition(path)) return *found;
  std::vector<std::string> names;
  auto collect = [&](auto& self, const python::Tree& scope, const std::string& prefix) -> void {
    for (const python::Tree* statement : scope.list("body")) {
      const std::string name = prefix + statement->text("name");
      if (statement->is(python::Kind::FunctionDef)) names.push_back(name);
      if (statement->is(python::Kind::ClassDef)) self(self, *statement, name + ".");
    }
  };
  collect(collect, *source.root, "");
  Error error(ErrorCode::NotFound, path.empty() ? fmt::format("which function of {}?", source.file)
                                                : fmt::format("{} has no function {}", source.file, path));
  throw error.with_hint(names.empty() ? "it has none" : fmt::format("it has {}", fmt::join(names, ", ")));
}

std::vector<pipeline::TextStage> text_stages(const python::SourceStages& stages) {
  return {{"written", "the functions as they are written", "py", stages.written},
          {"folded", "constants folded and propagated", "py", stages.folded},
          {"control_flow", "control flow graphs, with what reaches where", "txt", stages.control_flow}};
}

LoadedModel load_python_function(std::unique_ptr<ir::Context> context, const std::filesystem::path& file_and_name) {
  const std::string& text = file_and_name.native();
  const size_t colons = text.rfind("::");
  python::Source source = load_python(text.substr(0, colons));
  const python::Tree& function = find_function(source, colons == std::string::npos ? "" : text.substr(colons + 2));
  LoadedModel model{.context = std::move(context), .module = nullptr};
  model.module = std::make_unique<ir::Module>(*model.context);
  python::SourceStages stages;
  const python::Object object = python::decorated_function(source, function, python::globals_of(source));
  python::lower_function(*model.module, object, python::annotated_arguments(source, function), &stages);
  model.stages = text_stages(stages);
  return model;
}

}  // namespace anfora::driver

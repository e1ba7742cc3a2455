// Python files, parsed by a Python that is installed.
#pragma once

#include <filesystem>

#include "driver/model.h"
#include "frontend/python/lower/program.h"
#include "frontend/python/tree.h"

namespace anfora::driver {

// The tree of a .py file, as the `python3` on the path sees it, or the program that the environment variable ANFORA_PYTHON names; or
// the tree in a .json file, as frontend/python/tree_as_json.py writes it. Throws NotFound where there is no such file or no Python,
// InvalidModel for a syntax error.
python::Source load_python(const std::filesystem::path& file);

// The function that "FILE.py::NAME" means, as a module; its arguments are those that its annotations say.
LoadedModel load_python_function(std::unique_ptr<ir::Context> context, const std::filesystem::path& file_and_name);

// What was made of the functions on the way, for --save-graphs.
std::vector<pipeline::TextStage> text_stages(const python::SourceStages& stages);

// The function of a source at a path of names, "forward" or "Net.forward". Throws NotFound, with those that there are.
const python::Tree& find_function(const python::Source& source, std::string_view path);

}  // namespace anfora::driver

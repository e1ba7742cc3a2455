// Python files, parsed by a Python that is installed.
#pragma once

#include <filesystem>

#include "frontend/python/tree.h"
#include "ir/module.h"

namespace anfora::driver {

// The tree of a .py file, as the `python3` on the path sees it, or the program that the environment variable ANFORA_PYTHON names; or
// the tree in a .json file, as frontend/python/tree_as_json.py writes it. Throws NotFound where there is no such file or no Python,
// InvalidModel for a syntax error.
python::Source load_python(const std::filesystem::path& file);

// The function that "FILE.py::NAME" means, as a module; its arguments are those that its annotations say.
std::unique_ptr<ir::Module> load_python_function(ir::Context& context, const std::filesystem::path& file_and_name);

// The function of a source at a path of names, "forward" or "Net.forward". Throws NotFound, with those that there are.
const python::Tree& find_function(const python::Source& source, std::string_view path);

}  // namespace anfora::driver

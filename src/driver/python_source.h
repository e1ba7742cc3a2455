// Python files, parsed by a Python that is installed.
#pragma once

#include <filesystem>

#include "frontend/python/tree.h"

namespace anfora::driver {

// The tree of a .py file, as the `python3` on the path sees it, or the program that the environment variable ANFORA_PYTHON names; or
// the tree in a .json file, as frontend/python/tree_as_json.py writes it. Throws NotFound where there is no such file or no Python,
// InvalidModel for a syntax error.
python::Source load_python(const std::filesystem::path& file);

}  // namespace anfora::driver

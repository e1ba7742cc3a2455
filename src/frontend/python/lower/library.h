// The functions of numpy, math and Python that are written in Python (library/*.py), as trees.
#pragma once

#include <span>
#include <string_view>

namespace anfora::python {

struct LibraryTree {
  std::string_view name, text;  // "numpy", and its tree as tree_as_json.py writes it
};
std::span<const LibraryTree> library_trees();

}  // namespace anfora::python

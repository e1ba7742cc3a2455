// The Python side of reading Python: a script that writes the tree of a file as JSON (tree_as_json.py).
#pragma once

#include <span>
#include <string_view>

namespace anfora::python {

struct ParserFile {
  std::string_view name, text;
};
std::span<const ParserFile> parser_files();

}  // namespace anfora::python

// Pictures by Graphviz' program `dot`, where it is installed.
#pragma once

#include <optional>
#include <string>

namespace anfora::pipeline {

// SVG of a graph in dot's language. None where the program failed or is not installed.
std::optional<std::string> draw_svg(const std::string& dot);

}  // namespace anfora::pipeline

// What stands in the boxes of a picture (ir/dot.h).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ir/outline.h"

namespace anfora::ir {

struct DotOptions;

// In quotes. `line_end` is the letter behind the backslash for a line break: n centres the line, l begins it at the left.
std::string dot_quoted(std::string_view text, char line_end = 'n');
// Without what is in the middle where it is long.
std::string dot_shortened(const std::string& text, size_t most);
std::string_view dot_colour(const Apply& node);

std::string dot_label(const Apply& node, const DotOptions& options);
std::string dot_label(const Parameter& parameter, const DotOptions& options);
// "part 3", what it holds most, and where it lies by the names of its nodes.
std::string dot_label(const OutlineItem& part);
// For the reader who points at a box: its name and location in full.
std::string dot_tooltip(const Apply& node);

}  // namespace anfora::ir

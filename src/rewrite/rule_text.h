// The text of a rule file as statements: a statement begins a line, and the lines after it that begin with a blank belong to it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace anfora::rewrite {

// Moves `at` to the next statement and returns the lines of comment directly above it, joined.
std::string skip_comments(std::string_view text, size_t& at);
// Behind the statement that begins at `at`.
size_t end_of_statement(std::string_view text, size_t at);
// With one blank for each run of blanks and line ends.
std::string on_one_line(std::string_view text);

}  // namespace anfora::rewrite

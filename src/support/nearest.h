// The name that a person probably meant, for hints in errors.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "anfora/error.h"

namespace anfora {

// The candidate of the smallest edit distance (insertions, deletions, substitutions) from `name`; empty when all
// differ in more than about a third of their letters. The first wins a tie.
std::string_view nearest_name(std::string_view name, std::span<const std::string> candidates);

// "the model has no input 'imgae'", with the name that was meant or all that there are. `what`: "input", "output".
Error unknown_name(std::string_view what, std::string_view name, std::span<const std::string> names);

}  // namespace anfora

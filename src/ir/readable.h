// Types as people read them, in reports and pictures.
#pragma once

#include <string>
#include <string_view>

#include "ir/type.h"

namespace anfora::ir {

// As to_string() writes it, but `?` for sizes that only the optimizer's own symbols (_495_100) name, and "no type" for null.
// Such symbols are called after node numbers: the same size has another one in another module.
std::string readable(const Type* type);

// Whether a symbol is one of them.
bool is_generated(std::string_view symbol);

}  // namespace anfora::ir

// What Python's operators make of constants. Empty where Python raises an error, and where CPython leaves the work to the running
// program, because the result would be large.
#pragma once

#include <optional>

#include "frontend/python/tree.h"

namespace anfora::python {

// CPython's bounds on the constants that folding makes (Python/ast_opt.c).
constexpr unsigned kMaxFoldedBits = 128;      // of an integer from *, ** or <<
constexpr size_t kMaxFoldedText = 4096;       // characters or bytes from *
constexpr size_t kMaxFoldedItems = 256;       // of a tuple from *
constexpr size_t kMaxFoldedAllItems = 1024;   // the same, with those of the tuples in it

// Invert, Not, UAdd, USub.
std::optional<Constant> unary(Kind op, const Constant& operand);
// Add to FloorDiv. `text % values` is none of them: see percent_format.h.
std::optional<Constant> binary(Kind op, const Constant& left, const Constant& right);
// Eq to NotIn. Empty too where it takes the identity of an object that is not unique, as `1 is 1` does.
std::optional<bool> compare(Kind op, const Constant& left, const Constant& right);
// value[index], of an index that is no slice.
std::optional<Constant> subscript(const Constant& value, const Constant& index);
// value[lower:upper:step]; None for what is left out.
std::optional<Constant> slice(const Constant& value, const Constant& lower, const Constant& upper, const Constant& step);

}  // namespace anfora::python

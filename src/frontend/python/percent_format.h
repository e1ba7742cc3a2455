// `text % (a, b)` as an f-string: CPython folds it where the fields are all %s, %r or %a.
#pragma once

#include <optional>

#include "frontend/python/tree.h"

namespace anfora::python {

// The values of a JoinedStr: texts, and each item as a field. Empty where the text has other fields, or not as many as there are items.
std::optional<Tree::Trees> percent_format(Source& source, const Tree& text, const Tree::Trees& items);

}  // namespace anfora::python

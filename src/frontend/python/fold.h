// Constant folding on the tree: what the Python of the source folds, exactly, and behind it rules of our own. docs/language.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/python/tree.h"

namespace anfora::python {

enum class FoldSet {
  CPython,  // what CPython itself folds, and no more: the folded tree compiles to the same code
  Anfora,   // with comparisons, f-strings, slices, and all that these make constant
};

struct FoldRewrite {
  FoldSet set;  // that it takes
  std::string_view rule;
  Position position;
  std::string before, after;  // a statement with a body: its head
};

struct FoldReport {
  std::vector<FoldRewrite> rewrites;  // in the order in which they were made

  size_t count(std::string_view rule) const;
};

// Folds the tree in place, and returns the number of rewrites.
size_t fold(Source& source, FoldReport* report = nullptr, FoldSet set = FoldSet::Anfora);

}  // namespace anfora::python

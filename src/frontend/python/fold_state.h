// What the parts of constant folding share; for fold.h.
#pragma once

#include "frontend/python/fold.h"

namespace anfora::python {

struct FoldState {
  Source& source;
  FoldSet set;
  FoldReport* report;
  bool has_text_annotations;  // from __future__ import annotations: they are texts, which nothing folds
  size_t rewrites = 0;

  // One more rewrite: of the tree at that place to a tree that is equal to the other.
  void replace(std::string_view rule, Tree& at, const Tree& by);
  void record(std::string_view rule, const Tree& at, std::string before, std::string after);

  // For a report.
  std::string text(const Tree& tree) const { return report ? unparse(tree) : ""; }

  // Whether that field is an annotation that is a text.
  bool is_text(std::string_view field) const { return has_text_annotations && (field == "annotation" || field == "returns"); }

  template <class Visit>
  static void for_each_tree(Tree::Field& field, Visit&& visit) {
    if (Tree** one = std::get_if<Tree*>(&field); one && *one) visit(**one);
    if (auto* many = std::get_if<Tree::Trees>(&field)) {
      for (Tree* item : *many) {
        if (item) visit(*item);
      }
    }
  }
};

// The expressions, from the leaves up: fold_expressions.cc.
void fold_expressions(FoldState& state);
// What a constant condition decides: fold_conditions.cc.
void fold_conditions(FoldState& state);

// Whether a tree that never runs can go away without a trace. A name that it binds is local to the function, though it is never bound; a
// yield makes a generator; a function or comprehension may share variables. Kinds that are known by name alone may do any of this.
bool is_droppable(const Tree& tree);
// A text as the first statement of a module, class or function.
bool is_docstring(const Tree& statement);

}  // namespace anfora::python

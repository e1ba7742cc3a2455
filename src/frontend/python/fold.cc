// Three steps. CPython folds expressions on the tree, from the leaves up, and then, on the code made of it, what constant conditions
// decide. It goes no further: `(1 and 2) + 3` has become `2 + 3` when nobody looks at sums any more. The third step is ours, and does both
// again, with more rules, until nothing changes. It ends: a rewrite makes the tree smaller, or makes a tuple of a list, or an f-string of
// a `%`.
#include "frontend/python/fold.h"

#include <algorithm>

#include "frontend/python/fold_state.h"

namespace anfora::python {
namespace {

bool imports_annotations(const Tree& module) {
  return std::ranges::any_of(module.list("body"), [](const Tree* statement) {
    return statement->is(Kind::ImportFrom) && statement->text("module") == "__future__" &&
           std::ranges::any_of(statement->list("names"), [](const Tree* alias) { return alias->text("name") == "annotations"; });
  });
}

}  // namespace

size_t FoldReport::count(std::string_view rule) const { return static_cast<size_t>(std::ranges::count(rewrites, rule, &FoldRewrite::rule)); }

void FoldState::record(std::string_view rule, const Tree& at, std::string before, std::string after) {
  ++rewrites;
  if (report) report->rewrites.push_back({set, rule, at.position, std::move(before), std::move(after)});
}

void FoldState::replace(std::string_view rule, Tree& at, const Tree& by) {
  std::string before = text(at);
  Tree copy = by;  // which may be a part of what it replaces
  copy.position = at.position;
  at = std::move(copy);
  record(rule, at, std::move(before), text(at));
}

bool is_docstring(const Tree& statement) {
  const Tree* value = statement.is(Kind::Expr) ? statement.child("value") : nullptr;
  return value && value->is(Kind::Constant) && value->constant.is<std::u32string>();
}

size_t fold(Source& source, FoldReport* report, FoldSet set) {
  FoldState state{source, FoldSet::CPython, report, imports_annotations(*source.root)};
  fold_expressions(state);
  fold_conditions(state);
  if (set == FoldSet::Anfora) {
    state.set = set;
    for (size_t before = state.rewrites + 1; before != state.rewrites;) {
      before = state.rewrites;
      fold_expressions(state);
      fold_conditions(state);
    }
  }
  return state.rewrites;
}

}  // namespace anfora::python

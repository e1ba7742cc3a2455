// What constant conditions decide: and, or, not, if, while, assert, the filters of comprehensions; and statements that are constants.
//
// CPython does this on the code, where a test of a constant is a jump that is taken or not. A place is a condition where only jumps follow
// from it: the tests of if, while, assert, and in them the operands of not, and, or. There, all constants go away that the rest does not
// depend on: `if x and 1` is `if x`. Elsewhere the result is a value, and `x and 1` stays. What folding itself makes constant decides
// nothing further in a value, as no pass over the code comes back to it.
#include <algorithm>

#include "frontend/python/fold_state.h"

namespace anfora::python {
namespace {

bool all_droppable(const Tree::Trees& trees) {
  return std::ranges::all_of(trees, [](const Tree* t) { return !t || is_droppable(*t); });
}

class ConditionFolder {
 public:
  explicit ConditionFolder(FoldState& state) : state_(state) {}

  void statements(Tree::Trees& list, bool may_have_docstring) {
    Tree::Trees kept;
    for (size_t i = 0; i < list.size(); ++i) {
      if (i == 0 && may_have_docstring && is_docstring(*list[0])) {
        kept.push_back(list[0]);
      } else {
        statement(*list[i], kept);
      }
    }
    list = std::move(kept);
  }

  void value(Tree& t) {
    switch (t.kind) {
      case Kind::BoolOp:
        if (fold_operands(t, false)) return value(t);
        break;
      case Kind::IfExp:
        condition(*t.child("test"));
        if (choose(t)) return value(t);
        return visit_fields(t, "test");
      case Kind::Tuple:
        if (is_literal_tuple(t)) return state_.replace("literal-tuple", t, *state_.source.make_constant(tuple_of_literals(t), t.position));
        break;
      case Kind::JoinedStr:
        if (auto text = literal(t)) return state_.replace("literal", t, *state_.source.make_constant(std::move(*text), t.position));
        break;
      case Kind::UnaryOp: fold_truth_of_literal(t); break;
      case Kind::comprehension: fold_filters(t); return visit_fields(t, "ifs");
      default: break;
    }
    visit_fields(t);
  }

 private:
  using Literal = std::optional<Constant>;

  // A tree that is one instruction that loads a constant: also an f-string without fields.
  Literal literal(const Tree& t) const {
    if (t.is(Kind::Constant)) return t.constant;
    if (!t.is(Kind::JoinedStr)) return {};
    const Tree::Trees& values = t.list("values");
    constexpr int kEmptyTextIsConstant = 313;  // before, '' is built of no parts
    if (values.empty()) return state_.source.version >= kEmptyTextIsConstant ? Literal(Constant{std::u32string()}) : std::nullopt;
    return values.size() == 1 && values[0]->is(Kind::Constant) ? Literal(values[0]->constant) : std::nullopt;
  }

  // CPython looks for the instructions that load the items right before the one that makes the tuple. A tuple that was made so before
  // leaves gaps behind, and so may only come first.
  bool is_literal_tuple(const Tree& t) const {
    const Tree::Trees& items = t.list("elts");
    if (!t.is(Kind::Tuple) || items.empty() || !t.child("ctx")->is(Kind::Load)) return false;
    return (literal(*items[0]) || is_literal_tuple(*items[0])) &&
           std::all_of(items.begin() + 1, items.end(), [&](const Tree* item) { return literal(*item).has_value(); });
  }
  Constant tuple_of_literals(const Tree& t) const {
    Tuple tuple;
    for (const Tree* item : t.list("elts")) tuple.items.push_back(item->is(Kind::Tuple) ? tuple_of_literals(*item) : *literal(*item));
    return {std::move(tuple)};
  }

  // 0 and x is 0, 1 and x is x. True where it has changed.
  bool fold_operands(Tree& t, bool is_condition) {
    const bool decisive = t.child("op")->is(Kind::Or);  // the truth that ends the evaluation
    const Tree::Trees operands = t.list("values");
    Tree::Trees kept;
    for (size_t i = 0; i < operands.size(); ++i) {
      const Literal known = literal(*operands[i]);
      const bool is_last = i + 1 == operands.size();
      if (known && truth(*known) != decisive && (!is_last || is_condition)) continue;
      kept.push_back(operands[i]);
      if (known && truth(*known) == decisive && all_droppable({operands.begin() + static_cast<std::ptrdiff_t>(i) + 1, operands.end()})) break;
    }
    if (kept == operands) return false;
    const std::string_view rule = decisive ? "or" : "and";
    if (kept.empty()) {
      state_.replace(rule, t, *state_.source.make_constant({!decisive}, t.position));
    } else if (kept.size() == 1) {
      state_.replace(rule, t, *kept[0]);
    } else {
      Tree* shorter = state_.source.make(Kind::BoolOp, t.position);
      shorter->fields = {{"op", t.child("op")}, {"values", std::move(kept)}};
      state_.replace(rule, t, *shorter);
    }
    return true;
  }

  // a if 1 else b
  bool choose(Tree& t) {
    const Literal test = literal(*t.child("test"));
    if (!test) return false;
    const Tree *taken = t.child(truth(*test) ? "body" : "orelse"), *other = t.child(truth(*test) ? "orelse" : "body");
    if (!is_droppable(*other)) return false;
    state_.replace("if-expression", t, *taken);
    return true;
  }

  // An expression of which only the truth counts.
  void condition(Tree& t) {
    switch (t.kind) {
      case Kind::UnaryOp: {
        if (!t.child("op")->is(Kind::Not)) return value(t);
        Tree& operand = *t.child("operand");
        condition(operand);
        if (const Literal known = literal(operand)) return state_.replace("not", t, *state_.source.make_constant({!truth(*known)}, t.position));
        if (state_.set == FoldSet::Anfora) fold_negation(t, operand);
        return;
      }
      case Kind::BoolOp:
        for (Tree* operand : t.list("values")) condition(*operand);
        fold_operands(t, true);
        return;
      case Kind::IfExp:
        condition(*t.child("test"));
        if (choose(t)) return condition(t);
        condition(*t.child("body"));
        condition(*t.child("orelse"));
        return;
      default:
        // CPython makes the tuple when it has looked at the jump behind it already.
        if (!is_literal_tuple(t)) value(t);
        return;
    }
  }

  // not not x, and not a == b. In a value, neither: `not not x` is a bool, and of tensors `a != b` is a tensor where `not a == b` is a bool
  // or an error. In a condition, both are right for all of Python's own types, also of a NaN, which is != to everything; of a class that
  // defines == and != without the one being the negation of the other, they are not.
  void fold_negation(Tree& t, Tree& operand) {
    if (operand.is(Kind::UnaryOp) && operand.child("op")->is(Kind::Not)) return state_.replace("not-not", t, *operand.child("operand"));
    if (!operand.is(Kind::Compare) || operand.list("ops").size() != 1) return;
    const Kind op = operand.list("ops")[0]->kind;
    if (op != Kind::Eq && op != Kind::NotEq) return;
    Tree* negated = state_.source.make(Kind::Compare, t.position);
    negated->fields = operand.fields;
    *negated->find("ops") = Tree::Trees{state_.source.make(op == Kind::Eq ? Kind::NotEq : Kind::Eq, {})};
    state_.replace("not-equal", t, *negated);
  }

  // Since 3.13, `not` has an instruction for the truth of its operand, of which a constant goes away: not f'a' is not True.
  void fold_truth_of_literal(Tree& t) {
    constexpr int kHasInstruction = 313;
    Tree& operand = *t.child("operand");
    if (state_.source.version < kHasInstruction || !t.child("op")->is(Kind::Not) || !operand.is(Kind::JoinedStr)) return;
    if (const Literal known = literal(operand)) state_.replace("literal", operand, *state_.source.make_constant({truth(*known)}, operand.position));
  }

  // [x for x in y if 1]
  void fold_filters(Tree& t) {
    Tree::Trees kept;
    for (Tree* filter : t.list("ifs")) {
      condition(*filter);
      const Literal known = literal(*filter);
      if (known && truth(*known)) {
        state_.record("filter", *filter, state_.text(*filter), "");
      } else {
        kept.push_back(filter);
      }
    }
    *t.find("ifs") = std::move(kept);
  }

  // Appends what becomes of a statement.
  void statement(Tree& s, Tree::Trees& kept) {
    Literal test;
    if (s.is_any({Kind::If, Kind::While, Kind::Assert})) {
      condition(*s.child("test"));
      test = literal(*s.child("test"));
    }
    const bool holds = test && truth(*test);
    auto is_gone = [&](std::string_view rule, const Tree::Trees& taken, const Tree::Trees& others) {
      if (!all_droppable(others)) return false;
      state_.record(rule, s, state_.text(s), taken.empty() ? "" : state_.text(*taken[0]));
      for (Tree* t : taken) statement(*t, kept);
      return true;
    };
    if (s.is(Kind::If) && test && is_gone("if", s.list(holds ? "body" : "orelse"), s.list(holds ? "orelse" : "body"))) return;
    if (s.is(Kind::While) && test && !holds && is_gone("while", s.list("orelse"), s.list("body"))) return;
    if (s.is(Kind::Assert) && holds && is_gone("assert", {}, {s.child("msg")})) return;
    if (s.is(Kind::While) && holds && !s.list("orelse").empty() && all_droppable(s.list("orelse"))) {
      state_.record("while", s, "else:", "");
      *s.find("orelse") = Tree::Trees();
    }
    visit_fields(s, s.is_any({Kind::If, Kind::While, Kind::Assert}) ? "test" : "");
    if (s.is(Kind::Expr) && literal(*s.child("value")) && is_gone("statement", {}, {})) return;
    kept.push_back(&s);
  }

  void visit_fields(Tree& t, std::string_view but = "") {
    for (auto& [name, field] : t.fields) {
      if (name == but || state_.is_text(name)) continue;
      auto* list = std::get_if<Tree::Trees>(&field);
      if (list && (name == "body" || name == "orelse" || name == "finalbody")) {
        const bool has_docstring = t.is_any({Kind::Module, Kind::FunctionDef, Kind::ClassDef}) || t.name == "AsyncFunctionDef";
        const bool was_empty = list->empty();
        statements(*list, has_docstring && name == "body");
        if (list->empty() && !was_empty && name != "orelse") list->push_back(state_.source.make(Kind::Pass, t.position));
      } else if (name == "guard" && std::get_if<Tree*>(&field)) {
        condition(*std::get<Tree*>(field));
      } else {
        FoldState::for_each_tree(field, [&](Tree& child) { value(child); });
      }
    }
  }

  FoldState& state_;
};

}  // namespace

bool is_droppable(const Tree& t) {
  if (t.is_any({Kind::Other, Kind::Store, Kind::Del, Kind::FunctionDef, Kind::ClassDef, Kind::Lambda, Kind::ListComp, Kind::SetComp, Kind::DictComp,
                Kind::GeneratorExp, Kind::Yield, Kind::YieldFrom, Kind::Import, Kind::ImportFrom, Kind::Global, Kind::Nonlocal, Kind::AnnAssign, Kind::NamedExpr, Kind::Match, Kind::Try, Kind::With})) {
    return false;
  }
  bool result = true;
  for_each_child(t, [&](const Tree& child) { result = result && is_droppable(child); });
  return result;
}

void fold_conditions(FoldState& state) { ConditionFolder(state).value(*state.source.root); }

}  // namespace anfora::python

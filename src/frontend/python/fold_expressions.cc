// The rules for expressions, and the walk that applies them from the leaves up.
#include <algorithm>
#include <ranges>

#include "frontend/python/fold_state.h"
#include "frontend/python/operators.h"
#include "frontend/python/percent_format.h"

namespace anfora::python {
namespace {

const Constant* constant_of(const Tree* tree) { return tree && tree->is(Kind::Constant) ? &tree->constant : nullptr; }
bool is_loaded(const Tree& tree) { return tree.child("ctx") && tree.child("ctx")->is(Kind::Load); }

Tree* make_if(Source& source, const Tree& at, std::optional<Constant> value) {
  return value ? source.make_constant(std::move(*value), at.position) : nullptr;
}

std::optional<std::vector<Constant>> constants(const Tree::Trees& items) {
  std::vector<Constant> values;
  for (const Tree* item : items) {
    const Constant* value = constant_of(item);
    if (!value) return {};
    values.push_back(*value);
  }
  return values;
}

// -1
Tree* fold_unary(Source& source, const Tree& t) {
  const Constant* operand = constant_of(t.child("operand"));
  return operand ? make_if(source, t, unary(t.child("op")->kind, *operand)) : nullptr;
}

// not a in b. Not of == and <: these are methods that an object may define each for itself, and sets and NaN are not ordered.
Tree* fold_not_in(Source& source, const Tree& t) {
  const Tree* compare = t.child("operand");
  if (!t.child("op")->is(Kind::Not) || !compare->is(Kind::Compare) || compare->list("ops").size() != 1) return nullptr;
  static constexpr std::pair<Kind, Kind> kNegated[] = {
      {Kind::Is, Kind::IsNot}, {Kind::IsNot, Kind::Is}, {Kind::In, Kind::NotIn}, {Kind::NotIn, Kind::In}};
  const auto* found = std::ranges::find(kNegated, compare->list("ops")[0]->kind, &std::pair<Kind, Kind>::first);
  if (found == std::end(kNegated)) return nullptr;
  Tree* negated = source.make(Kind::Compare, t.position);
  negated->fields = compare->fields;
  *negated->find("ops") = Tree::Trees{source.make(found->second, {})};
  return negated;
}

// 24 * 60 * 60
Tree* fold_arithmetic(Source& source, const Tree& t) {
  const Constant *left = constant_of(t.child("left")), *right = constant_of(t.child("right"));
  return left && right ? make_if(source, t, binary(t.child("op")->kind, *left, *right)) : nullptr;
}

Tree* as_f_string(Source& source, const Tree& t, const Tree::Trees& items) {
  const Constant* text = constant_of(t.child("left"));
  if (!t.child("op")->is(Kind::Mod) || !text || !text->is<std::u32string>()) return nullptr;
  auto values = percent_format(source, *t.child("left"), items);
  if (!values) return nullptr;
  Tree* joined = source.make(Kind::JoinedStr, t.position);
  joined->fields = {{"values", std::move(*values)}};
  return joined;
}

// '%s-%r' % (x, y)
Tree* fold_percent(Source& source, const Tree& t) {
  const Tree* right = t.child("right");
  const bool is_plain = right->is(Kind::Tuple) && std::ranges::none_of(right->list("elts"), [](const Tree* e) { return e->is(Kind::Starred); });
  return is_plain ? as_f_string(source, t, right->list("elts")) : nullptr;
}

// '%s-%r' % (1, 2)
Tree* fold_percent_of_constants(Source& source, const Tree& t) {
  const Constant* values = constant_of(t.child("right"));
  if (!values) return nullptr;
  Tree::Trees items;
  for (const Constant& item : values->is<Tuple>() ? values->as<Tuple>().items : std::vector{*values}) {
    items.push_back(source.make_constant(item, t.position));
  }
  return as_f_string(source, t, items);
}

// 'abc'[0]
Tree* fold_subscript(Source& source, const Tree& t) {
  const Constant *value = constant_of(t.child("value")), *index = constant_of(t.child("slice"));
  return value && index && is_loaded(t) ? make_if(source, t, subscript(*value, *index)) : nullptr;
}

// 'abc'[1:]
Tree* fold_slice(Source& source, const Tree& t) {
  const Constant* value = constant_of(t.child("value"));
  const Tree* range = t.child("slice");
  if (!value || !range->is(Kind::Slice) || !is_loaded(t)) return nullptr;
  static const Constant kLeftOut;
  std::vector<const Constant*> bounds;
  for (const char* field : {"lower", "upper", "step"}) {
    bounds.push_back(range->child(field) ? constant_of(range->child(field)) : &kLeftOut);
    if (!bounds.back()) return nullptr;
  }
  return make_if(source, t, slice(*value, *bounds[0], *bounds[1], *bounds[2]));
}

// (1, 2)
Tree* fold_tuple(Source& source, const Tree& t) {
  auto items = is_loaded(t) ? constants(t.list("elts")) : std::nullopt;
  return items ? source.make_constant({Tuple{std::move(*items)}}, t.position) : nullptr;
}

Tree* fold_debug(Source& source, const Tree& t) {
  return t.text("id") == "__debug__" && is_loaded(t) ? source.make_constant({true}, t.position) : nullptr;
}

// x in [a, 2]: nobody else sees the list.
Tree* fold_iterated_list(Source& source, const Tree& t) {
  const Tree::Trees& items = t.list("elts");
  if (std::ranges::any_of(items, [](const Tree* item) { return item->is(Kind::Starred); })) return nullptr;
  if (auto values = constants(items)) return source.make_constant({Tuple{std::move(*values)}}, t.position);
  Tree* tuple = source.make(Kind::Tuple, t.position);
  tuple->fields = t.fields;
  return tuple;
}

// x in {1, 2}
Tree* fold_iterated_set(Source& source, const Tree& t) {
  auto items = constants(t.list("elts"));
  return items ? source.make_constant({frozen_set(*items)}, t.position) : nullptr;
}

// 1 < 2 < 3
Tree* fold_comparison(Source& source, const Tree& t) {
  const Constant* left = constant_of(t.child("left"));
  for (size_t i = 0; i < t.list("ops").size(); ++i) {
    const Constant* right = constant_of(t.list("comparators")[i]);
    const auto result = left && right ? compare(t.list("ops")[i]->kind, *left, *right) : std::nullopt;
    if (!result) return nullptr;
    if (!*result) {  // the rest is not evaluated
      return std::ranges::all_of(t.list("comparators") | std::views::drop(i), [](const Tree* c) { return is_droppable(*c); })
                 ? source.make_constant({false}, t.position) : nullptr;
    }
    left = right;
  }
  return source.make_constant({true}, t.position);
}

// The text of a field of an f-string. Empty where it is not constant, where it has a format, where Python refuses to write so large an
// integer, and where it depends on which characters that version of Python knows.
std::optional<std::u32string> field_text(const Tree& field) {
  constexpr unsigned kMaxBits = 14'000;  // some 4,300 digits
  const Constant* value = constant_of(field.child("value"));
  if (!value || field.child("format_spec")) return {};
  if (value->is<Integer>() && value->as<Integer>() != 0 && msb(Integer(abs(value->as<Integer>()))) > kMaxBits) return {};
  const std::string& conversion = field.text("conversion");
  const bool is_repr = conversion == "114", is_ascii = conversion == "97";
  const std::string text = is_ascii ? ascii(*value) : is_repr ? repr(*value) : str(*value);
  const bool is_text_itself = value->is<std::u32string>() && !is_repr && !is_ascii;
  if (!is_text_itself && !is_ascii && (text.find("\\u") != std::string::npos || text.find("\\U") != std::string::npos)) return {};
  return is_text_itself ? value->as<std::u32string>() : code_points(text);
}

// f'{1}-{x}'
Tree* fold_f_string(Source& source, const Tree& t) {
  Tree::Trees values;
  bool is_changed = t.list("values").size() < 2;
  std::u32string text;
  auto flush = [&] {
    if (!text.empty()) values.push_back(source.make_constant({std::exchange(text, {})}, t.position));
  };
  for (Tree* value : t.list("values")) {
    const Constant* literal = constant_of(value);
    const auto constant = literal ? std::optional(literal->as<std::u32string>())
                          : value->is(Kind::FormattedValue) ? field_text(*value) : std::nullopt;
    is_changed |= constant && !literal;
    if (constant) {
      text += *constant;
    } else {
      flush();
      values.push_back(value);
    }
  }
  if (values.empty()) return source.make_constant({std::move(text)}, t.position);
  flush();
  if (!is_changed || values == t.list("values")) return nullptr;
  Tree* joined = source.make(Kind::JoinedStr, t.position);
  joined->fields = {{"values", std::move(values)}};
  return joined;
}

enum class Place {
  Any,
  Iterated,  // what a for runs over, and the right side of a last `in`
};

struct Rule {
  std::string_view name;
  FoldSet set;  // the least that has it
  Place place;
  Kind kind;
  Tree* (*fold)(Source&, const Tree&);  // null: not this one
};

constexpr Rule kRules[] = {
    {"unary", FoldSet::CPython, Place::Any, Kind::UnaryOp, fold_unary},
    {"not-in", FoldSet::CPython, Place::Any, Kind::UnaryOp, fold_not_in},
    {"arithmetic", FoldSet::CPython, Place::Any, Kind::BinOp, fold_arithmetic},
    {"percent", FoldSet::CPython, Place::Any, Kind::BinOp, fold_percent},
    {"subscript", FoldSet::CPython, Place::Any, Kind::Subscript, fold_subscript},
    {"tuple", FoldSet::CPython, Place::Any, Kind::Tuple, fold_tuple},
    {"debug", FoldSet::CPython, Place::Any, Kind::Name, fold_debug},
    {"iterated-list", FoldSet::CPython, Place::Iterated, Kind::List, fold_iterated_list},
    {"iterated-set", FoldSet::CPython, Place::Iterated, Kind::Set, fold_iterated_set},
    {"comparison", FoldSet::Anfora, Place::Any, Kind::Compare, fold_comparison},
    {"f-string", FoldSet::Anfora, Place::Any, Kind::JoinedStr, fold_f_string},
    {"percent-of-constants", FoldSet::Anfora, Place::Any, Kind::BinOp, fold_percent_of_constants},
    {"slice", FoldSet::Anfora, Place::Any, Kind::Subscript, fold_slice},
};

class ExpressionFolder {
 public:
  explicit ExpressionFolder(FoldState& state) : state_(state) {}

  void walk(Tree& t) {
    const Tree::Trees& body = t.list("body");
    const bool has_docstring = !body.empty() && is_docstring(*body[0]);
    for (auto& [name, field] : t.fields) {
      if (!state_.is_text(name)) FoldState::for_each_tree(field, [&](Tree& child) { walk(child); });
    }
    if (!has_docstring && !body.empty() && is_docstring(*body[0])) keep_from_being_docstring(*body[0]);
    if (t.is_any({Kind::For, Kind::comprehension})) apply(*t.child("iter"), Place::Iterated);
    if (t.is(Kind::Compare) && t.list("ops").back()->is_any({Kind::In, Kind::NotIn})) apply(*t.list("comparators").back(), Place::Iterated);
    apply(t, Place::Any);
  }

 private:
  void apply(Tree& t, Place place) {
    for (bool is_changed = true; is_changed;) {
      is_changed = std::ranges::any_of(kRules, [&](const Rule& rule) {
        if (rule.kind != t.kind || rule.place != place || rule.set > state_.set) return false;
        const Tree* folded = rule.fold(state_.source, t);
        if (folded) state_.replace(rule.name, t, *folded);
        return folded != nullptr;
      });
    }
  }

  // 'a' + 'b' as a first statement is no docstring; CPython makes it an f-string without fields.
  void keep_from_being_docstring(Tree& statement) {
    Tree* text = state_.source.make(Kind::JoinedStr, statement.position);
    text->fields = {{"values", Tree::Trees{statement.child("value")}}};
    *statement.find("value") = text;
  }

  FoldState& state_;
};

}  // namespace

void fold_expressions(FoldState& state) { ExpressionFolder(state).walk(*state.source.root); }

}  // namespace anfora::python

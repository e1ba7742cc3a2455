// Trees as Python would write them. Parentheses only where precedence asks for them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "frontend/python/scope.h"
#include "frontend/python/tree.h"

namespace anfora::python {
namespace {

// From the loosest to the tightest; an operand of a looser one than its place is put in parentheses.
enum class Precedence { Lowest, Named, Condition, Disjunction, Conjunction, Negation, Comparison, Or, Xor, And, Shift, Sum, Term, Factor, Power, Atom };

using P = Precedence;

struct OperatorText {
  Kind kind;
  std::string_view text;
  Precedence precedence;
};
constexpr OperatorText kOperators[] = {
    {Kind::Or, "or", P::Disjunction},   {Kind::And, "and", P::Conjunction}, {Kind::BitOr, "|", P::Or},    {Kind::BitXor, "^", P::Xor},
    {Kind::BitAnd, "&", P::And},        {Kind::LShift, "<<", P::Shift},     {Kind::RShift, ">>", P::Shift}, {Kind::Add, "+", P::Sum},
    {Kind::Sub, "-", P::Sum},           {Kind::Mult, "*", P::Term},         {Kind::MatMult, "@", P::Term}, {Kind::Div, "/", P::Term},
    {Kind::FloorDiv, "//", P::Term},    {Kind::Mod, "%", P::Term},          {Kind::Pow, "**", P::Power},  {Kind::Not, "not ", P::Negation},
    {Kind::Invert, "~", P::Factor},     {Kind::UAdd, "+", P::Factor},       {Kind::USub, "-", P::Factor}, {Kind::Eq, "==", P::Comparison},
    {Kind::NotEq, "!=", P::Comparison}, {Kind::Lt, "<", P::Comparison},     {Kind::LtE, "<=", P::Comparison}, {Kind::Gt, ">", P::Comparison},
    {Kind::GtE, ">=", P::Comparison},   {Kind::Is, "is", P::Comparison},    {Kind::IsNot, "is not", P::Comparison},
    {Kind::In, "in", P::Comparison},    {Kind::NotIn, "not in", P::Comparison},
};

const OperatorText& operator_text(Kind kind) {
  auto found = std::ranges::find(kOperators, kind, &OperatorText::kind);
  if (found == std::end(kOperators)) throw Error(ErrorCode::InvalidModel, "the tree has an operator that Python has not");
  return *found;
}

Kind kind_or_other(const Tree* op) { return op ? op->kind : Kind::Other; }

Precedence tighter(Precedence p) { return static_cast<Precedence>(static_cast<int>(p) + 1); }

class Unparser {
 public:
  std::string expression(const Tree* tree, Precedence place = P::Lowest) {
    if (!tree) return "";
    auto [text, precedence] = written(*tree);
    return precedence < place ? "(" + text + ")" : text;
  }

  std::string statement(const Tree& s) {
    auto e = [&](std::string_view field) { return expression(s.child(field)); };
    switch (s.kind) {
      case Kind::FunctionDef: return fmt::format("def {}({}):", s.text("name"), parameters(s.child("args")));
      case Kind::ClassDef: return fmt::format("class {}:", s.text("name"));
      case Kind::Return: return s.child("value") ? "return " + bare_tuple(*s.child("value")) : "return";
      case Kind::Delete: return "del " + joined(s.list("targets"));
      case Kind::Assign: {
        std::string text;
        for (const Tree* target : s.list("targets")) text += bare_tuple(*target) + " = ";
        return text + bare_tuple(*s.child("value"));
      }
      case Kind::AugAssign:
        return fmt::format("{} {}= {}", e("target"), operator_text(kind_or_other(s.child("op"))).text, bare_tuple(*s.child("value")));
      case Kind::AnnAssign: {
        std::string text = fmt::format("{}: {}", e("target"), e("annotation"));
        return s.child("value") ? text + " = " + bare_tuple(*s.child("value")) : text;
      }
      case Kind::For: return fmt::format("for {} in {}:", bare_tuple(*s.child("target")), bare_tuple(*s.child("iter")));
      case Kind::While: return fmt::format("while {}:", e("test"));
      case Kind::If: return fmt::format("if {}:", e("test"));
      case Kind::Raise: return s.child("exc") ? "raise " + e("exc") : "raise";
      case Kind::Assert: return "assert " + e("test") + (s.child("msg") ? ", " + e("msg") : "");
      case Kind::Global: return fmt::format("global {}", fmt::join(s.texts("names"), ", "));
      case Kind::Nonlocal: return fmt::format("nonlocal {}", fmt::join(s.texts("names"), ", "));
      case Kind::Import: return "import " + aliases(s);
      case Kind::ImportFrom: return fmt::format("from {} import {}", imported_module(s), aliases(s));
      case Kind::Expr: return s.child("value")->is(Kind::Yield) ? yielded(*s.child("value")) : bare_tuple(*s.child("value"));
      case Kind::Pass: return "pass";
      case Kind::Break: return "break";
      case Kind::Continue: return "continue";
      case Kind::Match: return fmt::format("match {}:", bare_tuple(*(s.child("entry") ? s.child("entry")->child("value") : s.child("subject"))));
      case Kind::match_case: {
        const Tree* pattern = s.child("test") ? s.child("test")->child("pattern") : s.child("pattern");
        return fmt::format("case {}{}{}:", expression(pattern), s.child("guard") ? " if " : "", e("guard"));
      }
      case Kind::Region: return fmt::format("region {}:", s.text("label"));
      case Kind::Leave: return fmt::format("leave {}", s.text("label"));
      case Kind::Guarded:
      case Kind::Try: return "try:";
      case Kind::With: return "with …:";
      case Kind::MatchTest: return "case " + e("pattern");
      case Kind::MatchBind: {
        std::vector<std::string> names;
        for_each_binding(s, [&](const Tree& name) { names.push_back(bound_name(name)); });
        return fmt::format("{} of {}", fmt::join(names, ", "), e("subject"));
      }
      default: return expression(&s);
    }
  }

 private:
  struct Written {
    std::string text;
    Precedence precedence = P::Atom;
  };

  std::string joined(const Tree::Trees& items) {
    std::string text;
    for (const Tree* item : items) text += (text.empty() ? "" : ", ") + expression(item, P::Condition);
    return text;
  }

  static std::string aliases(const Tree& import) {
    std::string text;
    for (const Tree* alias : import.list("names")) {
      text += (text.empty() ? "" : ", ") + alias->text("name");
      if (!alias->text("asname").empty()) text += " as " + alias->text("asname");
    }
    return text;
  }

  std::string yielded(const Tree& yield) { return yield.child("value") ? "yield " + bare_tuple(*yield.child("value")) : "yield"; }

  std::string bare_tuple(const Tree& tree) {
    if (!tree.is(Kind::Tuple) || tree.list("elts").empty()) return expression(&tree);
    return joined(tree.list("elts")) + (tree.list("elts").size() == 1 ? "," : "");
  }

  std::string parameters(const Tree* arguments) {
    if (!arguments) return "";
    std::vector<std::string> texts;
    auto with_default = [&](const Tree* arg, const Tree* value) {
      texts.push_back(value ? arg->text("arg") + "=" + expression(value, P::Condition) : arg->text("arg"));
    };
    const Tree::Trees &first = arguments->list("posonlyargs"), &usual = arguments->list("args"),
                      &defaults = arguments->list("defaults"), &named = arguments->list("kwonlyargs"),
                      &named_defaults = arguments->list("kw_defaults");
    const size_t all = first.size() + usual.size();
    for (size_t i = 0; i < all; ++i) {
      const size_t without = all - defaults.size();
      with_default(i < first.size() ? first[i] : usual[i - first.size()], i < without ? nullptr : defaults[i - without]);
      if (i + 1 == first.size()) texts.emplace_back("/");
    }
    if (const Tree* rest = arguments->child("vararg")) texts.push_back("*" + rest->text("arg"));
    if (!named.empty() && !arguments->child("vararg")) texts.emplace_back("*");
    for (size_t i = 0; i < named.size(); ++i) with_default(named[i], i < named_defaults.size() ? named_defaults[i] : nullptr);
    if (const Tree* rest = arguments->child("kwarg")) texts.push_back("**" + rest->text("arg"));
    return fmt::format("{}", fmt::join(texts, ", "));
  }

  std::string comprehension(const Tree& tree, std::string_view open, const std::string& element, std::string_view close) {
    std::string text = fmt::format("{}{}", open, element);
    for (const Tree* part : tree.list("generators")) {
      text += fmt::format(" for {} in {}", bare_tuple(*part->child("target")), expression(part->child("iter"), P::Disjunction));
      for (const Tree* test : part->list("ifs")) text += " if " + expression(test, P::Disjunction);
    }
    return text.append(close);
  }

  // What is infinite or no number has no literal.
  static std::string number(std::string text) {
    auto replace = [&](std::string_view name, std::string_view by) {
      for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + by.size())) text.replace(at, name.size(), by);
    };
    replace("inf", "1e309");
    replace("nan", "(1e309 - 1e309)");
    return text;
  }

  // Between the quotes.
  std::string f_string(const Tree& joined) {
    std::string text;
    for (const Tree* value : joined.list("values")) {
      if (!value->is(Kind::FormattedValue)) {
        text += literal(*value);
        continue;
      }
      const std::string inner = expression(value->child("value"), tighter(P::Condition));
      const int conversion = std::atoi(value->text("conversion").c_str());
      text += fmt::format("{{{}{}{}", inner.starts_with('{') ? " " : "", inner, conversion > 0 ? fmt::format("!{}", static_cast<char>(conversion)) : "");
      if (const Tree* spec = value->child("format_spec")) text += ":" + (spec->is(Kind::JoinedStr) ? f_string(*spec) : literal(*spec));
      text += '}';
    }
    return text;
  }
  std::string literal(const Tree& value) {
    std::string text;
    for (char c : repr(value.constant)) text.append(c == '{' || c == '}' ? 2 : 1, c);
    return text.substr(1, text.size() - 2);  // without its quotes
  }

  Written written(const Tree& t) {
    auto e = [&](std::string_view field, Precedence place = P::Lowest) { return expression(t.child(field), place); };
    switch (t.kind) {
      case Kind::Name: return {t.text("id")};
      case Kind::Constant: {
        const bool is_number = t.constant.is<Integer>() || t.constant.is<double>() || t.constant.is<std::complex<double>>();
        const std::string text = is_number ? number(repr(t.constant)) : repr(t.constant);
        return {text, is_number && text.starts_with('-') ? P::Factor : P::Atom};
      }
      case Kind::BinOp: {
        const OperatorText& op = operator_text(kind_or_other(t.child("op")));
        const bool to_right = op.precedence == P::Power;
        return {fmt::format("{} {} {}", e("left", to_right ? tighter(op.precedence) : op.precedence), op.text,
                            e("right", to_right ? P::Factor : tighter(op.precedence))),
                op.precedence};
      }
      case Kind::UnaryOp: {
        const OperatorText& op = operator_text(kind_or_other(t.child("op")));
        return {fmt::format("{}{}", op.text, e("operand", op.precedence)), op.precedence};
      }
      case Kind::BoolOp: {
        const OperatorText& op = operator_text(kind_or_other(t.child("op")));
        std::string text;
        for (const Tree* value : t.list("values")) {
          if (!text.empty()) text += fmt::format(" {} ", op.text);
          text += expression(value, tighter(op.precedence));
        }
        return {text, op.precedence};
      }
      case Kind::Compare: {
        std::string text = e("left", P::Or);
        for (size_t i = 0; i < t.list("ops").size(); ++i) {
          text += fmt::format(" {} {}", operator_text(kind_or_other(t.list("ops")[i])).text, expression(t.list("comparators")[i], P::Or));
        }
        return {text, P::Comparison};
      }
      case Kind::IfExp: return {fmt::format("{} if {} else {}", e("body", P::Disjunction), e("test", P::Disjunction), e("orelse", P::Condition)), P::Condition};
      case Kind::NamedExpr: return {fmt::format("{} := {}", e("target"), e("value", P::Condition)), P::Named};
      case Kind::Lambda: {
        const std::string names = parameters(t.child("args"));
        return {fmt::format("lambda{}{}: {}", names.empty() ? "" : " ", names, e("body", P::Condition)), P::Condition};
      }
      case Kind::Call: {
        std::string text = joined(t.list("args"));
        for (const Tree* keyword : t.list("keywords")) {
          if (!text.empty()) text += ", ";
          const std::string& name = keyword->text("arg");
          text += (name.empty() ? "**" : name + "=") + expression(keyword->child("value"), P::Condition);
        }
        return {fmt::format("{}({})", e("func", P::Atom), text)};
      }
      case Kind::Attribute: {
        const Tree* value = t.child("value");
        const bool is_integer = value && value->is(Kind::Constant) && value->constant.is<Integer>();
        return {fmt::format("{}{}.{}", e("value", P::Atom), is_integer ? " " : "", t.text("attr"))};
      }
      case Kind::Subscript: return {fmt::format("{}[{}]", e("value", P::Atom), t.child("slice") ? bare_tuple(*t.child("slice")) : "")};
      case Kind::Slice: return {fmt::format("{}:{}{}{}", e("lower"), e("upper"), t.child("step") ? ":" : "", e("step"))};
      case Kind::Starred: return {"*" + e("value", P::Or)};
      case Kind::Tuple: return {fmt::format("({}{})", joined(t.list("elts")), t.list("elts").size() == 1 ? "," : "")};
      case Kind::List: return {fmt::format("[{}]", joined(t.list("elts")))};
      case Kind::Set: return {fmt::format("{{{}}}", joined(t.list("elts")))};
      case Kind::Dict: {
        std::string text;
        for (size_t i = 0; i < t.list("keys").size(); ++i) {
          const Tree* key = t.list("keys")[i];
          text += (text.empty() ? "" : ", ") + (key ? expression(key, P::Condition) + ": " : "**") + expression(t.list("values")[i], P::Condition);
        }
        return {fmt::format("{{{}}}", text)};
      }
      case Kind::Yield: return {fmt::format("({})", yielded(t))};
      case Kind::YieldFrom: return {fmt::format("(yield from {})", e("value", P::Condition))};
      case Kind::ListComp: return {comprehension(t, "[", e("elt", P::Condition), "]")};
      case Kind::SetComp: return {comprehension(t, "{", e("elt", P::Condition), "}")};
      case Kind::GeneratorExp: return {comprehension(t, "(", e("elt", P::Condition), ")")};
      case Kind::DictComp: return {comprehension(t, "{", e("key", P::Condition) + ": " + e("value", P::Condition), "}")};
      case Kind::ContextEnter: return {e("manager") + ".__enter__()"};
      case Kind::ContextExit: return {e("manager") + ".__exit__()"};
      case Kind::MatchValue: return {e("value")};
      case Kind::MatchSingleton: return {repr(t.constant)};
      case Kind::MatchSequence: return {fmt::format("[{}]", joined(t.list("patterns")))};
      case Kind::MatchStar: return {"*" + (t.text("name").empty() ? "_" : t.text("name"))};
      case Kind::MatchMapping: {
        std::string text;
        for (size_t i = 0; i < t.list("keys").size(); ++i) {
          text += fmt::format("{}{}: {}", i > 0 ? ", " : "", expression(t.list("keys")[i]), expression(t.list("patterns")[i]));
        }
        if (!t.text("rest").empty()) text += fmt::format("{}**{}", text.empty() ? "" : ", ", t.text("rest"));
        return {fmt::format("{{{}}}", text)};
      }
      case Kind::MatchClass: {
        std::string text = joined(t.list("patterns"));
        for (size_t i = 0; i < t.list("kwd_patterns").size(); ++i) {
          text += fmt::format("{}{}={}", text.empty() ? "" : ", ", t.texts("kwd_attrs")[i], expression(t.list("kwd_patterns")[i]));
        }
        return {fmt::format("{}({})", e("cls"), text)};
      }
      case Kind::MatchAs: {
        const std::string name = t.text("name").empty() ? "_" : t.text("name");
        if (!t.child("pattern")) return {name};
        return {fmt::format("{} as {}", e("pattern", P::Or), name), P::Lowest};
      }
      case Kind::MatchOr: {
        std::string text;
        for (const Tree* choice : t.list("patterns")) text += (text.empty() ? "" : " | ") + expression(choice, P::Xor);
        return {text, P::Or};
      }
      case Kind::JoinedStr: {
        const std::string text = f_string(t);
        return {fmt::format("f{0}{1}{0}", text.find('\'') == std::string::npos ? '\'' : '"', text)};
      }
      default: return {fmt::format("<{}>", t.name)};
    }
  }
};

}  // namespace

std::string unparse(const Tree& tree) { return Unparser().statement(tree); }

std::string unparse_whole(const Tree& tree, const std::string& indent) {
  std::string text = indent + unparse(tree) + "\n";
  if (tree.is(Kind::Lambda)) return text;
  const std::string inside = indent + "    ";
  for (const Tree* part : tree.list("cases")) text += unparse_whole(*part, inside);
  for (const Tree* statement : tree.list("body")) text += unparse_whole(*statement, inside);
  if (tree.list("orelse").empty()) return text;
  text += indent + "else:\n";
  for (const Tree* statement : tree.list("orelse")) text += unparse_whole(*statement, inside);
  return text;
}

std::string_view symbol_of(Kind op) { return operator_text(op).text; }

}  // namespace anfora::python

// Python's abstract syntax tree as data. Python's own `ast` is the parser: tree_as_json.py writes what it finds as JSON, which
// read_source() reads. Kinds and fields are those of the module `ast`, in its order:
//
//     x + 1        BinOp: left (Name: id "x"), op (Add), right (Constant)
#pragma once

#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "anfora/error.h"
#include "frontend/python/constant.h"

namespace anfora::python {

// What the compiler looks at; every other kind is Other, and known by its name alone. MatchTest and MatchBind are its own: whether a value has
// the form that a pattern says, and binding the pattern's names to its parts (cfg.cc); and so are those from Region to ContextExit (exits.h).
#define ANFORA_PYTHON_KINDS(X)                                                                                         \
  X(Module) X(FunctionDef) X(ClassDef) X(Return) X(Delete) X(Assign) X(AugAssign) X(AnnAssign) X(For) X(While) X(If)   \
  X(Raise) X(Assert) X(Import) X(ImportFrom) X(Global) X(Nonlocal) X(Expr) X(Pass) X(Break) X(Continue)                \
  X(BoolOp) X(NamedExpr) X(BinOp) X(UnaryOp) X(Lambda) X(IfExp) X(Dict) X(Set) X(ListComp) X(SetComp) X(DictComp)      \
  X(GeneratorExp) X(Yield) X(YieldFrom) X(Compare) X(Call) X(FormattedValue) X(JoinedStr) X(Constant) X(Attribute) X(Subscript) X(Starred)   \
  X(Name) X(List) X(Tuple) X(Slice)                                                                                    \
  X(Try) X(With) X(Region) X(Leave) X(Guarded) X(ContextEnter) X(ContextExit)                                          \
  X(Match) X(match_case) X(MatchTest) X(MatchBind)                                                                     \
  X(MatchValue) X(MatchSingleton) X(MatchSequence) X(MatchMapping) X(MatchClass) X(MatchStar) X(MatchAs) X(MatchOr)    \
  X(And) X(Or) X(Add) X(Sub) X(Mult) X(MatMult) X(Div) X(Mod) X(Pow) X(LShift) X(RShift) X(BitOr) X(BitXor) X(BitAnd)  \
  X(FloorDiv) X(Invert) X(Not) X(UAdd) X(USub) X(Eq) X(NotEq) X(Lt) X(LtE) X(Gt) X(GtE) X(Is) X(IsNot) X(In) X(NotIn)  \
  X(Load) X(Store) X(Del) X(comprehension) X(arguments) X(arg) X(keyword) X(alias)

enum class Kind : uint8_t {
#define ANFORA_PYTHON_KIND(name) name,
  ANFORA_PYTHON_KINDS(ANFORA_PYTHON_KIND)
#undef ANFORA_PYTHON_KIND
  Other,
};

struct Position {
  int line = 0, column = 0;  // from 1; columns count code points; 0: the kind has none
  int end_line = 0, end_column = 0;
};

struct Tree {
  using Trees = std::vector<Tree*>;  // null: left out, as the key of {**x}
  using Field = std::variant<std::monostate, Tree*, Trees, std::string, std::vector<std::string>>;

  Kind kind = Kind::Other;
  std::string name;  // of the kind
  Position position;
  std::vector<std::pair<std::string, Field>> fields;
  python::Constant constant;  // of a Constant, a MatchSingleton

  bool is(Kind k) const { return kind == k; }
  bool is_any(std::initializer_list<Kind> kinds) const;
  // The field of that name. A field that the kind has not, or that is left out, is null, empty, or "".
  Tree* child(std::string_view field) const;
  const Trees& list(std::string_view field) const;
  const std::string& text(std::string_view field) const;
  const std::vector<std::string>& texts(std::string_view field) const;
  Field* find(std::string_view field);
  const Field* find(std::string_view field) const;
};

// A text, and its tree. Trees live as long as it.
class Source {
 public:
  std::string file;
  std::vector<std::string> lines;
  int version = 0;  // of Python: 311 is 3.11
  bool is_library = false;  // a part of the compiler: errors in it are of who calls
  Tree* root = nullptr;  // a Module
  std::shared_ptr<const std::map<std::string, Constant>> constants;  // of the module, once they are known (propagate.h)

  Tree* make(Kind kind, const Position& position);
  // A Constant.
  Tree* make_constant(Constant value, const Position& position);
  // The definition at a path of names: "model.Net.forward" has two classes above it. Null where there is none.
  Tree* find_definition(std::string_view path) const;

  // An error at a place: "model.py:12:5", the line, and a caret under what it is about.
  Error error(ErrorCode code, const Tree& at, std::string_view message) const;

 private:
  std::deque<Tree> trees_;
};

std::string_view name_of(Kind kind);

// What tree_as_json.py wrote. Throws InvalidModel where it is no such text.
Source read_source(std::string_view json);

// As Python would write the statement or expression, in one line; of a statement with a body, its head.
std::string unparse(const Tree& tree);
// The module of "from … import": "numpy.linalg", "..siblings".
std::string imported_module(const Tree& import);
// A function, or another statement, with what is inside of it; each line begins with `indent`.
std::string unparse_whole(const Tree& tree, const std::string& indent = "");
// An operator as it is written: "**", "not in".
std::string_view symbol_of(Kind op);

// Calls visit(child) for each tree that is a field, in order.
template <class Visit>
void for_each_child(const Tree& tree, Visit&& visit) {
  for (const auto& [name, field] : tree.fields) {
    if (Tree* const* one = std::get_if<Tree*>(&field); one && *one) visit(**one);
    if (const auto* many = std::get_if<Tree::Trees>(&field)) {
      for (Tree* item : *many) {
        if (item) visit(*item);
      }
    }
  }
}

// Calls visit(statements) for each body of a statement: of if and else, of each case.
template <class Visit>
void for_each_body(const Tree& statement, Visit&& visit) {
  for (std::string_view list : {"body", "orelse", "finalbody"}) visit(statement.list(list));
  for (std::string_view parts : {"handlers", "cases"}) {
    for (const Tree* part : statement.list(parts)) visit(part->list("body"));
  }
}

}  // namespace anfora::python

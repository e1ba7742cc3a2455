// Names and scopes, as Python's symbol table has them: a name that a function binds anywhere is local to all of it.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "frontend/python/tree.h"

namespace anfora::python {

struct Scope {
  std::vector<std::string> parameters;  // in order; of "*rest" and "**named" the names
  std::vector<std::string> locals;      // the parameters, then what is bound, in order of the text
  std::set<std::string> globals, nonlocals;  // as declared
  std::set<std::string> captured;            // locals that a function inside reads or rebinds
  std::set<std::string> rebound;             // those of them that one declares nonlocal
  bool is_generator = false;                 // it yields

  bool is_local(std::string_view name) const;
};

// Of a FunctionDef or Lambda. Throws InvalidModel where declarations contradict each other.
Scope scope_of(const Source& source, const Tree& function);

// Calls visit(tree) for a function's statements and the expressions in them, but for what functions inside hold.
void for_each_own(const Tree& function, const std::function<void(const Tree&)>& visit);

using Visit = std::function<void(const Tree& name)>;
// The names that an expression, or a statement without its body, reads in the scope it stands in: not the targets of a
// comprehension, but what a function inside takes from here, once where the function is made.
void for_each_use(const Tree& tree, const Visit& visit);
// What binds names there, also by :=: a Name, the FunctionDef or ClassDef of that name, the alias of an import, the pattern.
void for_each_binding(const Tree& tree, const Visit& visit);
// The name that it binds: of "import a.b" it is a.
std::string bound_name(const Tree& binding);

}  // namespace anfora::python

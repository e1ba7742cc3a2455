#include "frontend/python/scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace anfora::python {
namespace {

bool is_function(const Tree& tree) { return tree.is_any({Kind::FunctionDef, Kind::Lambda}); }
bool is_comprehension(const Tree& tree) {
  return tree.is_any({Kind::ListComp, Kind::SetComp, Kind::DictComp, Kind::GeneratorExp});
}

template <class F>
void for_each_parameter(const Tree& function, F&& f) {
  const Tree* arguments = function.child("args");
  if (!arguments) return;
  for (std::string_view list : {"posonlyargs", "args", "kwonlyargs"}) {
    for (const Tree* arg : arguments->list(list)) f(*arg);
  }
  for (std::string_view one : {"vararg", "kwarg"}) {
    if (const Tree* arg = arguments->child(one)) f(*arg);
  }
}

// Calls f for the statements of a body, and of the bodies in them, but not of functions and classes.
template <class F>
void for_each_statement(const Tree::Trees& body, F&& f) {
  for (const Tree* statement : body) {
    if (!statement) continue;
    f(*statement);
    if (statement->is_any({Kind::FunctionDef, Kind::ClassDef})) continue;
    for_each_body(*statement, [&](const Tree::Trees& inside) { for_each_statement(inside, f); });
    for (const Tree* part : statement->list("cases")) f(*part);  // its pattern binds names
  }
}

void visit_later_parts(const Tree& generator, const Visit& visit);

// The names that a function, or a generator expression behind its first iterable, takes from the scopes around it.
std::vector<const Tree*> free_names(const Tree& function) {
  std::set<std::string> bound, declared;
  std::vector<const Tree*> used;
  if (function.is(Kind::GeneratorExp)) {
    visit_later_parts(function, [&](const Tree& name) { used.push_back(&name); });
    return used;
  }
  for_each_parameter(function, [&](const Tree& arg) { bound.insert(arg.text("arg")); });
  auto use = [&](const Tree& name) { used.push_back(&name); };
  if (function.is(Kind::Lambda)) {
    for_each_use(*function.child("body"), use);
  } else {
    for_each_statement(function.list("body"), [&](const Tree& statement) {
      for (const std::string& name : statement.texts("names")) {
        if (statement.is_any({Kind::Global, Kind::Nonlocal})) declared.insert(name);
      }
      for_each_binding(statement, [&](const Tree& name) {
        bound.insert(bound_name(name));
      });
      for_each_use(statement, use);
    });
  }
  std::erase_if(used, [&](const Tree* name) {
    const std::string& id = name->text("id");
    return bound.contains(id) && !declared.contains(id);
  });
  return used;
}

// What the head of a statement holds: its expressions, and not its body.
template <class F>
void for_each_part(const Tree& tree, F&& f) {
  for (const auto& [field, value] : tree.fields) {
    if (field == "body" && !tree.is_any({Kind::IfExp, Kind::Lambda})) continue;
    if ((field == "orelse" && !tree.is(Kind::IfExp)) || field == "finalbody" || field == "handlers" || field == "cases") continue;
    if (Tree* const* one = std::get_if<Tree*>(&value); one && *one) f(**one);
    if (const auto* many = std::get_if<Tree::Trees>(&value)) {
      for (const Tree* item : *many) {
        if (item) f(*item);
      }
    }
  }
}

// A comprehension is a scope of its own, but its first iterable is evaluated outside of it.
void visit_later_parts(const Tree& tree, const Visit& visit) {
  std::set<std::string> targets;
  for (const Tree* part : tree.list("generators")) {
    for_each_binding(*part->child("target"), [&](const Tree& name) { targets.insert(name.text("id")); });
  }
  auto outside = [&](const Tree& name) {
    if (!targets.contains(name.text("id"))) visit(name);
  };
  bool is_first = true;
  for (const Tree* part : tree.list("generators")) {
    if (!is_first) for_each_use(*part->child("iter"), outside);
    for (const Tree* test : part->list("ifs")) for_each_use(*test, outside);
    is_first = false;
  }
  for (std::string_view field : {"elt", "key", "value"}) {
    if (const Tree* element = tree.child(field)) for_each_use(*element, outside);
  }
}

void visit_comprehension(const Tree& tree, const Visit& visit) {
  for_each_use(*tree.list("generators")[0]->child("iter"), visit);
  visit_later_parts(tree, visit);
}

// The body of a class sees the names that it has bound before; the functions in it do not.
void visit_class(const Tree& tree, const Visit& visit) {
  for_each_part(tree, [&](const Tree& part) { for_each_use(part, visit); });
  std::set<std::string> bound;
  auto outside = [&](const Tree& name) {
    if (!bound.contains(name.text("id"))) visit(name);
  };
  for (const Tree* statement : tree.list("body")) {
    statement->is(Kind::FunctionDef) ? for_each_use(*statement, visit) : for_each_use(*statement, outside);
    for_each_binding(*statement, [&](const Tree& name) { bound.insert(bound_name(name)); });
  }
}

// The variables that have one value as long as the function runs.
std::set<std::string> bound_once(const Tree& function) {
  std::map<std::string, int> times;
  for_each_parameter(function, [&](const Tree& arg) { ++times[arg.text("arg")]; });
  std::function<void(const Tree::Trees&, int)> visit = [&](const Tree::Trees& body, int turns) {
    for (const Tree* statement : body) {
      if (!statement) continue;
      const int inside = statement->is_any({Kind::For, Kind::While}) ? 2 : turns;
      for_each_binding(*statement, [&](const Tree& name) { times[bound_name(name)] += inside; });
      if (statement->is_any({Kind::FunctionDef, Kind::ClassDef})) continue;
      for_each_body(*statement, [&](const Tree::Trees& statements) { visit(statements, inside); });
      for (const Tree* part : statement->list("cases"))
        for_each_binding(*part, [&](const Tree& name) { times[bound_name(name)] += inside; });
    }
  };
  visit(function.list("body"), 1);
  std::set<std::string> once;
  for (const auto& [name, count] : times) {
    if (count == 1) once.insert(name);
  }
  return once;
}

}  // namespace

void for_each_own(const Tree& function, const std::function<void(const Tree&)>& visit) {
  std::function<void(const Tree&)> enter = [&](const Tree& tree) {
    visit(tree);
    if (!is_function(tree) && !tree.is(Kind::ClassDef)) for_each_child(tree, enter);
  };
  for (const Tree* statement : function.list("body")) enter(*statement);
}

bool Scope::is_local(std::string_view name) const { return std::ranges::count(locals, name) > 0; }

void for_each_use(const Tree& tree, const Visit& visit) {
  if (tree.is(Kind::Name)) {
    if (tree.child("ctx") && tree.child("ctx")->is(Kind::Load)) visit(tree);
    return;
  }
  if (is_comprehension(tree)) return visit_comprehension(tree, visit);
  if (is_function(tree)) {
    const Tree* arguments = tree.child("args");
    for (std::string_view list : {"defaults", "kw_defaults"}) {
      for (const Tree* value : arguments->list(list)) {
        if (value) for_each_use(*value, visit);
      }
    }
    for (const Tree* decorator : tree.list("decorator_list")) for_each_use(*decorator, visit);
    for (const Tree* name : free_names(tree)) visit(*name);
    return;
  }
  if (tree.is(Kind::ClassDef)) return visit_class(tree, visit);
  if (tree.is(Kind::AugAssign) && tree.child("target")->is(Kind::Name)) visit(*tree.child("target"));  // it is read first
  if (tree.is(Kind::AnnAssign)) {  // what annotates a local is not evaluated
    for (std::string_view field : {"value", "target"}) {
      if (const Tree* part = tree.child(field)) for_each_use(*part, visit);
    }
    return;
  }
  for_each_part(tree, [&](const Tree& part) { for_each_use(part, visit); });
}

void for_each_binding(const Tree& tree, const Visit& visit) {
  if (tree.is(Kind::Name)) {
    if (tree.child("ctx") && tree.child("ctx")->is_any({Kind::Store, Kind::Del})) visit(tree);
    return;
  }
  if (tree.is_any({Kind::FunctionDef, Kind::ClassDef, Kind::alias})) return visit(tree);
  if (tree.is_any({Kind::Lambda, Kind::MatchTest})) return;
  if (tree.is_any({Kind::MatchAs, Kind::MatchStar, Kind::MatchMapping}) && !bound_name(tree).empty()) visit(tree);
  if (is_comprehension(tree)) {  // := binds outside of it
    std::set<std::string> targets;
    for (const Tree* part : tree.list("generators")) {
      for_each_binding(*part->child("target"), [&](const Tree& name) { targets.insert(name.text("id")); });
    }
    for_each_part(tree, [&](const Tree& part) {
      if (part.is(Kind::comprehension)) return;
      for_each_binding(part, [&](const Tree& name) {
        if (!targets.contains(name.text("id"))) visit(name);
      });
    });
    return;
  }
  for_each_part(tree, [&](const Tree& part) { for_each_binding(part, visit); });
}

std::string bound_name(const Tree& binding) {
  if (binding.is(Kind::Name)) return binding.text("id");
  if (binding.is(Kind::MatchMapping)) return binding.text("rest");
  if (!binding.is(Kind::alias)) return binding.text("name");
  const std::string &name = binding.text("name"), &other = binding.text("asname");
  return other.empty() ? name.substr(0, name.find('.')) : other;
}

Scope scope_of(const Source& source, const Tree& function) {
  Scope scope;
  auto add = [&](const std::string& name) {
    if (!scope.is_local(name) && !scope.globals.contains(name) && !scope.nonlocals.contains(name)) scope.locals.push_back(name);
  };
  for_each_parameter(function, [&](const Tree& arg) {
    scope.parameters.push_back(arg.text("arg"));
    add(arg.text("arg"));
  });
  const Tree::Trees& body = function.list("body");  // a lambda has an expression, and no list
  for_each_statement(body, [&](const Tree& statement) {
    if (!statement.is_any({Kind::Global, Kind::Nonlocal})) return;
    for (const std::string& name : statement.texts("names")) {
      if (scope.is_local(name)) {
        throw source.error(ErrorCode::InvalidModel, statement,
                           fmt::format("'{}' is a parameter and declared {}", name, statement.is(Kind::Global) ? "global" : "nonlocal"));
      }
      (statement.is(Kind::Global) ? scope.globals : scope.nonlocals).insert(name);
    }
  });
  for_each_statement(body, [&](const Tree& statement) {
    for_each_binding(statement, [&](const Tree& name) { add(bound_name(name)); });
  });

  for_each_own(function, [&](const Tree& tree) {
    scope.is_generator = scope.is_generator || tree.is_any({Kind::Yield, Kind::YieldFrom});
  });

  // What functions inside take, at any depth. Of a variable that keeps its value, a generator expression has a copy.
  const std::set<std::string> constant = bound_once(function);
  std::function<void(const Tree&)> find_functions = [&](const Tree& tree) {
    if (is_function(tree)) {
      for (const Tree* name : free_names(tree)) {
        if (scope.is_local(name->text("id"))) scope.captured.insert(name->text("id"));
      }
      for_each_statement(tree.list("body"), [&](const Tree& statement) {
        if (!statement.is(Kind::Nonlocal)) return;
        for (const std::string& name : statement.texts("names")) {
          if (!scope.is_local(name)) continue;
          scope.captured.insert(name);
          scope.rebound.insert(name);
        }
      });
    }
    if (tree.is(Kind::GeneratorExp)) {
      for (const Tree* name : free_names(tree)) {
        const std::string& id = name->text("id");
        if (scope.is_local(id) && !constant.contains(id)) scope.captured.insert(id);
      }
    }
    for_each_child(tree, find_functions);
  };
  for_each_child(function, find_functions);
  return scope;
}

}  // namespace anfora::python

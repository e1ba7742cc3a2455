#include "frontend/python/scope.h"

#include <fmt/format.h>

#include <algorithm>

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
    for (std::string_view list : {"body", "orelse", "finalbody"}) for_each_statement(statement->list(list), f);
    for (const Tree* handler : statement->list("handlers")) for_each_statement(handler->list("body"), f);
  }
}

// The names that a function takes from the scopes around it.
std::vector<const Tree*> free_names(const Tree& function) {
  std::set<std::string> bound, declared;
  std::vector<const Tree*> used;
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
    if ((field == "orelse" && !tree.is(Kind::IfExp)) || field == "finalbody" || field == "handlers") continue;
    if (Tree* const* one = std::get_if<Tree*>(&value); one && *one) f(**one);
    if (const auto* many = std::get_if<Tree::Trees>(&value)) {
      for (const Tree* item : *many) {
        if (item) f(*item);
      }
    }
  }
}

// A comprehension is a scope of its own, but its first iterable is evaluated outside of it.
void visit_comprehension(const Tree& tree, const Visit& visit) {
  std::set<std::string> targets;
  for (const Tree* part : tree.list("generators")) {
    for_each_binding(*part->child("target"), [&](const Tree& name) { targets.insert(name.text("id")); });
  }
  auto outside = [&](const Tree& name) {
    if (!targets.contains(name.text("id"))) visit(name);
  };
  bool is_first = true;
  for (const Tree* part : tree.list("generators")) {
    for_each_use(*part->child("iter"), is_first ? visit : Visit(outside));
    for (const Tree* test : part->list("ifs")) for_each_use(*test, outside);
    is_first = false;
  }
  for (std::string_view field : {"elt", "key", "value"}) {
    if (const Tree* element = tree.child(field)) for_each_use(*element, outside);
  }
}

}  // namespace

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
  if (tree.is(Kind::Lambda)) return;
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

  // What functions inside take, at any depth.
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
    for_each_child(tree, find_functions);
  };
  for_each_child(function, find_functions);
  return scope;
}

}  // namespace anfora::python

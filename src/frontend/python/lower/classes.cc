// Instances and classes. An instance is a cell: two names for it see each other's changes, and where paths meet or a loop turns, its
// attributes are joined as the items of lists are. What its class defines is known to the compiler, so that a method is found while the
// program is lowered, and leaves no trace.
#include "frontend/python/lower/classes.h"

#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "frontend/python/exits.h"
#include "frontend/python/lower/activation.h"
#include "frontend/python/lower/builtins.h"

namespace anfora::python {

namespace {

constexpr const char* kOwnClass = "__class__";  // the name by which a method finds the class that it is written in

Object with_self(const Object& function, Object self) {
  Closure bound = *function.closure();
  bound.bound.emplace_back("self", std::make_shared<const Object>(std::move(self)));
  return {std::make_shared<const Closure>(std::move(bound))};
}

}  // namespace

std::optional<Object> ProgramClass::attribute(const std::string& name) const {
  if (name == "__name__" || name == "__qualname__") return make_text(name_);
  const std::optional<Member> found = member(name, nullptr);
  if (!found) return std::nullopt;
  if (found->kind == Member::Kind::Value || found->kind == Member::Kind::Method) return found->object;
  if (found->kind == Member::Kind::ClassMethod) return with_self(found->object, {shared_from_this()});
  throw Error(ErrorCode::Unsupported, fmt::format("the property {}.{} is of instances", name_, name)).with_hint("ask an instance for it");
}

bool ProgramClass::is_a(const Live& type) const { return type.identity() == this || (base_ && base_->is_a(type)); }
bool ProgramClass::is_a(std::string_view type) const { return (is_python_ && name_ == type) || (base_ && base_->is_a(type)); }

std::optional<Member> ProgramClass::member(const std::string& name, const Live* after) const {
  if (!after) {
    const auto own = std::ranges::find(members, name, [](const auto& entry) { return entry.first; });
    if (own != members.end()) return own->second;
  }
  return base_ ? base_->member(name, after && after->identity() == this ? nullptr : after) : std::nullopt;
}

void ProgramClass::require_instances() const {
  for (const std::string_view refused : kRefusedMethods) {
    if (std::ranges::count(members, refused, [](const auto& entry) { return std::string_view(entry.first); }) > 0) {
      throw Error(ErrorCode::Unsupported, fmt::format("{} defines {}, which a compiled function does not call", name_, refused))
          .with_hint("attributes are assigned in __init__, and found by their names");
    }
  }
  if (base_) base_->require_instances();
}

// An exception of Python's own by name; null: there is none.
std::shared_ptr<const Live> Lowering::exception_class(const std::string& name) {
  const auto base = base_of_exception(name);
  if (!base) return nullptr;
  std::shared_ptr<const ProgramClass>& made = exceptions_[name];
  if (made) return made;
  const auto type = std::make_shared<ProgramClass>(name, base->empty() ? nullptr : exception_class(*base), true);
  auto define = [&](const char* method, const char* function) {
    type->members.emplace_back(method, Member{.kind = Member::Kind::Method, .object = *find_in_library("builtins", function)});
  };
  if (base->empty()) define("__init__", "_init_exception"), define("__str__", "_text_of_exception");
  if (name == "KeyError") define("__str__", "_text_of_key_error");
  return made = type;
}

// What the class of an object defines by a name, or a base of it behind `after`. Of what derives from an exception, also what Python defines.
std::optional<Member> Lowering::member_of(const Live& type, const std::string& name, const Live* after) {
  auto found = at_place([&] { return type.member(name, after); });
  if (found || !type.is_a("BaseException")) return found;
  return exception_class(type.is_a("KeyError") ? "KeyError" : "BaseException")->member(name);
}

Object Lowering::instantiate(const std::shared_ptr<const Live>& type, Arguments arguments) {
  at_place([&] { type->require_instances(); });
  const Object instance = make_cell(Cell::Kind::Instance, make_tuple({}, {}, type), type);
  if (type->is_a("BaseException")) put_attribute(*instance.instance(), "args", make_tuple(arguments.positional));
  if (const auto init = special(instance, "__init__")) {
    const Object result = call(*init, std::move(arguments));
    if (!result.is_none())
      emit_.fail(ErrorCode::TypeMismatch, fmt::format("__init__() of {} returns a value", type->describe()), "it returns None");
  } else if (!arguments.positional.empty() || !arguments.named.empty()) {
    emit_.fail(ErrorCode::InvalidArgument, fmt::format("{}() takes no arguments", type->describe()), "define __init__(self, …)");
  }
  return instance;
}

// What an object gets by a name that its class defines.
Object Lowering::bound(const Member& member, const std::string& name, const Object& self, const std::shared_ptr<const Live>& type) {
  switch (member.kind) {
    case Member::Kind::Value: return member.object;
    case Member::Kind::Method:
      if (self.live() && self.live()->identity() == type->identity()) return member.object;  // of the class itself
      if (!member.object.closure())
        emit_.fail(ErrorCode::Unsupported, fmt::format("{} as a method is not supported", describe(member.object)), "call it in a method");
      return with_self(member.object, self);
    case Member::Kind::ClassMethod: return with_self(member.object, {type});
    case Member::Kind::Property: return call(member.object, {.positional = {self}, .named = {}});
    case Member::Kind::CachedProperty: {
      Object value = call(member.object, {.positional = {self}, .named = {}});
      if (self.instance()) put_attribute(*self.instance(), name, value);
      return value;
    }
  }
  return member.object;
}

// A method such as __len__, bound; empty: its class defines none.
std::optional<Object> Lowering::special(const Object& object, const std::string& name) {
  const std::shared_ptr<const Live> type = written_class(object);
  const auto member = type ? member_of(*type, name) : std::nullopt;
  if (!member || member->kind != Member::Kind::Method) return std::nullopt;
  return bound(*member, name, object, type);
}

std::optional<Object> Lowering::find_attribute_of(const Object& object, const std::string& name) {
  if (const auto* super = object.as<Super>()) {
    const auto* live = std::get_if<std::shared_ptr<const Live>>(&super->self->value);
    std::shared_ptr<const Live> type = written_class(*super->self);
    if (!type && live) type = *live;
    const auto member = member_of(*type, name, super->type.get());
    if (member) return bound(*member, name, *super->self, type);
    if (name == "__init__") return Object{Method{super->self, name}};
    return std::nullopt;
  }
  const std::shared_ptr<const Live> type = written_class(object);
  if (!type) return std::nullopt;
  if (name == kOwnClass) return Object{type};
  if (object.live()) return std::nullopt;  // the running Python answers
  const auto member = member_of(*type, name);
  if (member && member->kind == Member::Kind::Property) return bound(*member, name, object, type);
  if (const Cell* instance = object.instance()) {
    if (const Object* own = find_attribute(*content(*instance).tuple(), name)) {
      if (is_no_value(*own)) {
        emit_.fail(ErrorCode::InvalidModel, fmt::format("the attribute '{}' has a value on some of the paths to here, and none on others", name),
                   "give it one in __init__");
      }
      return *own;
    }
  }
  return member ? std::optional(bound(*member, name, object, type)) : std::nullopt;
}

void Lowering::put_attribute(const Cell& instance, const std::string& name, Object value) {
  Items attributes = *content(instance).tuple();
  const auto found = std::ranges::find(attributes.names, name);
  if (found == attributes.names.end()) {
    attributes.names.push_back(name);
    attributes.items.push_back(std::move(value));
  } else {
    attributes.items[static_cast<size_t>(found - attributes.names.begin())] = std::move(value);
  }
  here_.store[instance.id] = {std::make_shared<const Items>(std::move(attributes))};
}

void Lowering::set_attribute(const Object& object, const std::string& name, Object value) {
  const Cell* instance = object.instance();
  if (!instance) {
    const Live* live = object.live();
    const bool is_class = live && !live->type();
    emit_.fail(ErrorCode::Unsupported,
               is_class ? fmt::format("this would change the attribute '{}' of the class {}", name, live->describe())
               : live   ? fmt::format("this would change the attribute '{}' of a {} that the caller holds", name, live->describe())
                        : fmt::format("the attribute '{}' of {} cannot be assigned", name, describe(object)),
               is_class ? "assign it to an instance, or return the value"
               : live   ? "return the new value, and assign it outside"
                        : "instances of classes that the program makes can be changed; of others, make a new one");
  }
  const auto member = at_place([&] { return instance->type->member(name); });
  if (member && member->kind == Member::Kind::Property) {
    if (!member->setter) {
      emit_.fail(ErrorCode::InvalidArgument, fmt::format("the property '{}' of {} has no setter", name, describe(object)),
                 fmt::format("define one: @{}.setter", name));
    }
    call(*member->setter, {.positional = {object, std::move(value)}, .named = {}});
    return;
  }
  require_own(*instance);
  put_attribute(*instance, name, std::move(value));
}

void Lowering::remove_attribute(const Object& object, const std::string& name) {
  const Cell* instance = object.instance();
  if (!instance || !find_attribute(*content(*instance).tuple(), name))
    emit_.fail(ErrorCode::InvalidArgument, fmt::format("{} has no attribute '{}' to delete", describe(object), name));
  require_own(*instance);
  Items attributes = *content(*instance).tuple();
  const auto at = std::ranges::find(attributes.names, name) - attributes.names.begin();
  attributes.names.erase(attributes.names.begin() + at);
  attributes.items.erase(attributes.items.begin() + at);
  here_.store[instance->id] = {std::make_shared<const Items>(std::move(attributes))};
}

// super(), super(C, self)
Object Lowering::super(const std::vector<Object>& given) {
  auto refuse = [&] { emit_.fail(ErrorCode::InvalidModel, "super() is of methods", "call it in a method, with no argument"); };
  std::optional<Object> type, self;
  if (given.size() == 2) {
    type = given[0], self = given[1];
  } else if (given.empty() && activation_ && !activation_->cfg.scope.parameters.empty()) {
    const Closure& method = activation_->closure;
    const auto captured = method.captured.find(kOwnClass);
    type = captured != method.captured.end() ? std::optional(content(captured->second)) : method.globals->find(kOwnClass);
    self = here_.locals[0].object;
    if (const auto* variable = self ? self->as<Cell>() : nullptr; variable && variable->kind == Cell::Kind::Variable) self = content(*variable);
  }
  const auto* live = type ? std::get_if<std::shared_ptr<const Live>>(&type->value) : nullptr;
  if (!live || !self || (!written_class(*self) && !self->live())) refuse();
  return {Super{*live, std::make_shared<const Object>(std::move(*self))}};
}

// The class statement ------------------------------------------------------------------------------------------------

Object Lowering::make_class(const Tree& s) {
  auto refuse = [&](const Tree& at, std::string_view message, std::string_view hint) {
    emit_.set_place({activation_->closure.source, &at});
    emit_.fail(ErrorCode::Unsupported, message, hint);
  };
  if (!s.list("decorator_list").empty()) refuse(*s.list("decorator_list")[0], "a decorator of a class inside of a function is not supported", "define the class outside of the function");
  if (!s.list("keywords").empty()) refuse(*s.list("keywords")[0], "arguments of a class are not supported", "derive it from one class");
  if (s.list("bases").size() > 1) refuse(*s.list("bases")[1], "a class inside of a function derives from one class", "define it outside of the function");
  std::shared_ptr<const Live> base;
  if (!s.list("bases").empty()) {
    const Object given = evaluate(*s.list("bases")[0]);
    const auto* live = std::get_if<std::shared_ptr<const Live>>(&given.value);
    const auto* builtin = given.as<Builtin>();
    if (live && !(*live)->type()) {
      base = *live;
    } else if (!builtin || builtin->name != "object") {
      refuse(*s.list("bases")[0], fmt::format("a class that derives from {} is not supported", describe(given)), "hold it as an attribute");
    }
  }
  const auto made = std::make_shared<ProgramClass>(s.text("name"), base);
  const Object own_class = make_cell(Cell::Kind::Variable, Object{std::shared_ptr<const Live>(made)});
  const ClassBody body{activation_, &made->members};
  const ClassBody* outer = std::exchange(class_body_, &body);
  auto define = [&](const std::string& name, Member member) {
    std::erase_if(made->members, [&](const auto& entry) { return entry.first == name; });
    made->members.emplace_back(name, std::move(member));
  };
  for (const Tree* statement : s.list("body")) {
    emit_.set_place({activation_->closure.source, statement});
    switch (statement->kind) {
      case Kind::FunctionDef: define(statement->text("name"), method(*statement, *own_class.as<Cell>(), made->members)); break;
      case Kind::Assign: {
        const Object value = evaluate(*statement->child("value"));
        for (const Tree* target : statement->list("targets")) {
          if (!target->is(Kind::Name)) refuse(*target, "an attribute of a class is a name here", "assign one name at a time");
          define(target->text("id"), {.object = value});
        }
        break;
      }
      case Kind::AnnAssign:
        if (const Tree* value = statement->child("value")) define(statement->child("target")->text("id"), {.object = evaluate(*value)});
        break;
      case Kind::Pass: break;
      case Kind::Expr:
        if (statement->child("value")->is(Kind::Constant)) break;
        [[fallthrough]];
      default: refuse(*statement, fmt::format("{} in the body of a class is not supported", statement->name), "a class inside of a function holds methods and names");
    }
  }
  class_body_ = outer;
  return {std::shared_ptr<const Live>(made)};
}

// A function in the body of a class, by its decorators.
Member Lowering::method(const Tree& function, const Cell& own_class, const std::vector<std::pair<std::string, Member>>& members) {
  Closure closure = *undecorated(function).closure();
  closure.captured[kOwnClass] = own_class;
  Member made{.kind = Member::Kind::Method, .object = {std::make_shared<const Closure>(std::move(closure))}};
  const Tree::Trees& decorators = function.list("decorator_list");
  for (auto d = decorators.rbegin(); d != decorators.rend(); ++d) {
    const std::string text = unparse(**d);
    if (text == "property") {
      made.kind = Member::Kind::Property;
    } else if (text == "cached_property" || text == "functools.cached_property") {
      made.kind = Member::Kind::CachedProperty;
    } else if (text == "staticmethod") {
      made.kind = Member::Kind::Value;
    } else if (text == "classmethod") {
      made.kind = Member::Kind::ClassMethod;
    } else if (const auto property = std::ranges::find(members, text.substr(0, text.find('.')), [](const auto& entry) { return entry.first; });
               text.ends_with(".setter") && property != members.end()) {
      Member with_setter = property->second;
      with_setter.setter = std::move(made.object);
      made = std::move(with_setter);
    } else {
      made.object = call(evaluate(**d), {.positional = {std::move(made.object)}, .named = {}});
    }
  }
  return made;
}

}  // namespace anfora::python

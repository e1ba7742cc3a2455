#include "programs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <utility>

#include "anfora/error.h"
#include "frontend/python/lower/builtins.h"
#include "frontend/python/lower/program.h"
#include "ops/registry.h"

namespace anfora::bindings {
namespace {

using python::Object;

nb::object tools() { return nb::module_::import_("anfora._program"); }

// Where an object was found, from a root on: ("argument", 0), ("global", {…}, "w"), then ("attribute", "bias"), ("item", 3) …
using Path = nb::tuple;

class Importer;

class LiveObject : public python::Live {
 public:
  LiveObject(Importer& importer, nb::object object, Path path)
      : importer_(importer), object_(std::move(object)), path_(std::move(path)) {}

  std::string describe() const override { return nb::cast<std::string>(tools().attr("called")(object_)); }
  std::optional<Object> attribute(const std::string& name) const override;
  std::vector<std::string> fields() const override {
    return nb::cast<std::vector<std::string>>(tools().attr("fields")(object_));
  }

  nb::handle object() const { return object_; }

 private:
  Importer& importer_;
  nb::object object_;
  Path path_;
};

class LiveGlobals : public python::Globals {
 public:
  LiveGlobals(Importer& importer, nb::object scope, Path path)
      : importer_(importer), scope_(std::move(scope)), path_(std::move(path)) {}
  std::optional<Object> find(const std::string& name) const override;

 private:
  Importer& importer_;
  nb::object scope_;
  Path path_;
};

// Makes objects of the compiler of those of Python.
class Importer : public python::FunctionCall {
 public:
  Importer(Program& program, nb::tuple arguments, nb::dict keywords, nb::dict dims)
      : program_(program),
        arguments_(std::move(arguments)),
        keywords_(std::move(keywords)),
        dims_(std::move(dims)) {}

  // Of a value: as an argument, numbers are inputs; else constants, which guards watch.
  Object import(nb::object value, Path path, bool is_argument) {
    const nb::tuple told = nb::cast<nb::tuple>(tools().attr("describe")(value));
    const std::string kind = nb::cast<std::string>(told[0]);
    auto part = [&](const char* how, nb::handle key) { return Path(path + nb::make_tuple(nb::make_tuple(how, key))); };
    if (kind == "tensor") {
      if (!is_argument) guard_tensor(path, value);
      return callers({python::Array{input(told, path), false}});
    }
    if (kind == "number" && is_argument) return {python::Array{input(told, path), true}};
    if (kind == "tuple" || kind == "list") {
      std::vector<Object> items;
      size_t i = 0;
      for (nb::handle item : nb::cast<nb::list>(told[1]))
        items.push_back(import(nb::borrow(item), part("item", nb::int_(i++)), is_argument));
      if (!is_argument) guard_structure(path, value);
      if (kind == "list" && is_argument) return callers(lowering_->new_list(std::move(items)));
      return python::make_tuple(std::move(items));
    }
    if (kind == "dict") {
      std::vector<Object> pairs;
      for (auto [key, item] : nb::cast<nb::dict>(value)) {
        pairs.push_back(key_of(key));
        pairs.push_back(import(nb::borrow(item), part("item", key), is_argument));
      }
      if (!is_argument) guard_structure(path, value);
      return callers(lowering_->new_dict(std::move(pairs)));
    }
    if (kind == "fields") {
      std::vector<Object> items;
      auto names = nb::cast<std::vector<std::string>>(told[1]);
      for (const std::string& name : names) {
        nb::str key(name.c_str());
        items.push_back(import(nb::getattr(value, key), part("attribute", key), is_argument));
      }
      if (!is_argument) guard_structure(path, value);
      nb::object type = nb::borrow(value.type());
      return python::make_tuple(std::move(items), std::move(names), live(std::move(type), path));
    }
    if (kind == "function") return function(value, told, path);
    if (kind == "derivative") return derivative(told, path);
    guard(path, value);
    if (kind == "number" || kind == "constant") return constant(value);
    if (kind == "module") {
      if (auto found = python::find_module(nb::cast<std::string>(told[1]))) return *found;
    }
    if (kind == "builtin") {
      const auto module = nb::cast<std::string>(told[1]), name = nb::cast<std::string>(told[2]);
      if (auto found = module == "builtins" ? python::find_builtin(name) : python::find_in_module(module, name))
        return *found;
      throw Error(ErrorCode::Unsupported, fmt::format("{}.{} cannot be compiled", module, name));
    }
    if (kind == "dtype") return {python::DTypeObject{*dtype_from_name(nb::cast<std::string>(told[1]))}};
    return {std::shared_ptr<const python::Live>(live(std::move(value), path))};
  }

  python::Arguments arguments(python::Lowering& lowering, ir::Builder& main) override {
    lowering_ = &lowering, main_ = &main;
    python::Arguments given;
    size_t i = 0;
    for (nb::handle argument : arguments_)
      given.positional.push_back(import(nb::borrow(argument), root("argument", nb::int_(i++)), true));
    for (auto [name, argument] : keywords_) {
      given.named.emplace_back(nb::cast<std::string>(name), import(nb::borrow(argument), root("keyword", name), true));
    }
    return given;
  }

  std::vector<ir::Node*> results(python::Lowering& lowering, const Object& result) override {
    std::vector<ir::Node*> nodes;
    program_.result = export_(lowering, result, nodes);
    if (nodes.empty()) nodes.push_back(lowering.emitter().module().scalar(true));  // a module returns something
    return nodes;
  }

  Object import_function(nb::object value) {
    const nb::tuple told = nb::cast<nb::tuple>(tools().attr("describe")(value));
    if (nb::cast<std::string>(told[0]) != "function")
      throw Error(ErrorCode::InvalidArgument, "this is no function that is written in Python");
    return function(value, told, nb::make_tuple(nb::make_tuple("function")));
  }

 private:
  static Path root(const char* kind, nb::handle key) { return nb::make_tuple(nb::make_tuple(kind, key)); }
  std::shared_ptr<LiveObject> live(nb::object object, const Path& path) {
    return std::make_shared<LiveObject>(*this, std::move(object), path);
  }
  void guard(const Path& path, const nb::object& value) { program_.guards.append(nb::make_tuple(path, value)); }

  // ("derivative", function, positions by order, whether the last gradient is by one, whether its value comes along)
  Object derivative(const nb::tuple& told, const Path& path) {
    Object made = import(nb::borrow(told[1]), path, false);
    const auto orders = nb::cast<std::vector<std::vector<size_t>>>(told[2]);
    for (size_t i = 0; i < orders.size(); ++i) {
      const bool is_last = i + 1 == orders.size();
      made = {python::Derivative{std::make_shared<const Object>(std::move(made)), orders[i],
                                 is_last ? nb::cast<bool>(told[3]) : orders[i].size() == 1, is_last && nb::cast<bool>(told[4])}};
    }
    return made;
  }
  Object callers(Object object) {
    lowering_->set_callers(object);
    return object;
  }
  // What a container is made of; its items have guards of their own.
  void guard_structure(const Path& path, const nb::object& value) {
    guard(Path(path + nb::make_tuple(nb::make_tuple("structure"))), tools().attr("structure")(value));
  }
  // A tensor that is no argument is an input, of its type.
  void guard_tensor(const Path& path, const nb::object& value) {
    guard(Path(path + nb::make_tuple(nb::make_tuple("kind"))), tools().attr("kind_of")(value));
    guard(Path(path + nb::make_tuple(nb::make_tuple("sizes"))), tools().attr("sizes_of")(value));
  }
  static Object key_of(nb::handle key) {
    const std::string kind = nb::cast<std::string>(tools().attr("describe")(key)[nb::int_(0)]);
    if (kind == "number" || kind == "constant") return constant(key);
    throw Error(ErrorCode::Unsupported, fmt::format("a dict with a {} as a key cannot be compiled",
                                                    nb::cast<std::string>(tools().attr("called")(key))))
        .with_hint("use texts and numbers as keys");
  }

  ir::Node* input(const nb::tuple& told, const Path& path) {
    std::string type = nb::cast<std::string>(nb::str(nb::handle(told[2])));
    const size_t index = program_.inputs.size();
    if (dims_.contains(path)) {
      const auto dims = nb::cast<std::vector<std::string>>(dims_[path]);
      type = fmt::format("{}[{}]", type.substr(0, type.find('[')), fmt::join(dims, ", "));
    }
    program_.inputs.append(path);
    return main_->parameter(type, fmt::format("input_{}", index));
  }

  Object function(const nb::object& value, const nb::tuple& told, const Path& path) {
    // ("function", tree as JSON, scope, defaults, defaults by name, self or None)
    auto [known, is_new] = functions_.try_emplace(value.ptr());
    if (is_new) {
      known->second = read_function(value, told, path);
      kept_.append(value);
    }
    return known->second;
  }

  Object read_function(const nb::object& value, const nb::tuple& told, const Path& path) {
    guard(path, value);
    auto source = std::make_shared<python::Source>(python::read_source(nb::cast<std::string>(told[1])));
    python::Tree* tree = source->root->list("body")[0];
    if (tree->is(python::Kind::Expr)) tree = tree->child("value");
    sources_.push_back(source);
    python::Closure closure;
    closure.source = source.get();
    closure.function = tree;
    closure.globals = std::make_shared<LiveGlobals>(*this, nb::borrow(told[2]), path);
    for (auto [field, parts] : {std::pair{3, &closure.defaults}, std::pair{4, &closure.keyword_defaults}}) {
      python::Items items;
      size_t i = 0;
      for (nb::handle item : nb::cast<nb::list>(told[field])) {
        const Path at =
            Path(path + nb::make_tuple(nb::make_tuple(field == 3 ? "default" : "keyword default", nb::int_(i++))));
        items.items.push_back(import(nb::borrow(item), at, false));
      }
      *parts = std::make_shared<const python::Items>(std::move(items));
    }
    if (!told[5].is_none()) {
      nb::object self = nb::borrow(told[5]);
      closure.bound.emplace_back(
          "self", std::make_shared<const Object>(
                      import(self, Path(path + nb::make_tuple(nb::make_tuple("attribute", "__self__"))), false)));
    }
    return {std::make_shared<const python::Closure>(std::move(closure))};
  }

  static Object constant(nb::handle value) {
    using python::Constant;
    PyObject* object = value.ptr();
    if (object == Py_None) return {Constant{python::NoneValue()}};
    if (object == Py_Ellipsis) return {Constant{python::EllipsisValue()}};
    if (PyBool_Check(object)) return {Constant{object == Py_True}};
    if (PyLong_Check(object)) return {Constant{python::Integer(nb::cast<std::string>(nb::str(value)))}};
    if (PyFloat_Check(object)) return {Constant{PyFloat_AsDouble(object)}};
    return python::make_text(nb::cast<std::string>(value));
  }

  // ("array", i), ("number", i), ("numbers", i), ("constant", value), ("tuple" | "list", [items]), ("dict", [(key, item)]), ("fields", class, [items])
  nb::object export_(python::Lowering& lowering, const Object& object, std::vector<ir::Node*>& nodes) {
    if (const auto* cell = object.as<python::Cell>()) {
      const Object held = lowering.content(*cell);
      const bool is_dict = cell->kind == python::Cell::Kind::Dict;
      if (!held.tuple()) return export_(lowering, held, nodes);
      nb::list parts;
      const auto& items = held.tuple()->items;
      for (size_t i = 0; i < items.size(); ++i) {
        if (!is_dict) {
          parts.append(export_(lowering, items[i], nodes));
        } else if (i % 2 == 1) {
          parts.append(nb::make_tuple(export_(lowering, items[i - 1], nodes)[1], export_(lowering, items[i], nodes)));
        }
      }
      return nb::make_tuple(is_dict ? "dict" : "list", parts);
    }
    if (const python::Items* tuple = object.tuple()) {
      nb::list parts;
      for (const Object& item : tuple->items) parts.append(export_(lowering, item, nodes));
      if (const auto* type = dynamic_cast<const LiveObject*>(tuple->type.get()))
        return nb::make_tuple("fields", type->object(), parts);
      return nb::make_tuple("tuple", parts);
    }
    if (const auto* array = object.as<python::Array>()) {
      nodes.push_back(array->node);
      const bool is_sequence = !array->node->type()->is_tensor();
      return nb::make_tuple(!array->is_number ? "array" : is_sequence ? "numbers" : "number", nodes.size() - 1);
    }
    if (const auto* live = dynamic_cast<const LiveObject*>(object.live()))
      return nb::make_tuple("constant", live->object());
    if (const auto* known = object.as<python::Constant>())
      return nb::make_tuple("constant", tools().attr("literal")(python::repr(*known)));
    lowering.emitter().fail(ErrorCode::Unsupported,
                            fmt::format("{} cannot be returned from a compiled function", python::describe(object)),
                            "return tensors, numbers, texts, and tuples, lists and dicts of them");
  }

  Program& program_;
  nb::tuple arguments_;
  nb::dict keywords_;
  nb::dict dims_;  // names of the dimensions of tensors, by path; others have the sizes that they have now
  ir::Builder* main_ = nullptr;
  python::Lowering* lowering_ = nullptr;
  std::vector<std::shared_ptr<python::Source>> sources_;
  std::map<PyObject*, Object> functions_;  // each is one, wherever it is found
  nb::list kept_;
};

std::optional<Object> LiveObject::attribute(const std::string& name) const {
  const nb::tuple found = nb::cast<nb::tuple>(tools().attr("attribute")(object_, name));
  if (!nb::cast<bool>(found[0])) return std::nullopt;
  return importer_.import(nb::borrow(found[1]), Path(path_ + nb::make_tuple(nb::make_tuple("attribute", name))), false);
}

std::optional<Object> LiveGlobals::find(const std::string& name) const {
  const nb::tuple found = nb::cast<nb::tuple>(scope_.attr("find")(name));
  if (!nb::cast<bool>(found[0])) return std::nullopt;
  return importer_.import(nb::borrow(found[1]), nb::make_tuple(nb::make_tuple("variable", scope_, name)), false);
}

}  // namespace

Program lower_program(nb::object function, nb::tuple arguments, nb::dict keywords, nb::dict dims) {
  Program program;
  program.model.context = ops::make_context();
  program.model.module = std::make_unique<ir::Module>(*program.model.context);
  program.name = nb::cast<std::string>(tools().attr("place_of")(function));
  Importer importer(program, std::move(arguments), std::move(keywords), std::move(dims));
  const Object object = importer.import_function(std::move(function));
  python::lower_function(*program.model.module, object, importer);
  return program;
}

}  // namespace anfora::bindings

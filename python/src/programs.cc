#include "programs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "anfora/error.h"
#include "driver/python_source.h"
#include "frontend/python/lower/builtins.h"
#include "frontend/python/lower/program.h"
#include "ir/readable.h"
#include "ops/registry.h"
#include "values.h"

namespace anfora::bindings {
namespace {

using python::Object;

nb::object tools() { return nb::module_::import_("anfora._program"); }

// Where an object was found, from a root on: ("argument", 0), ("variable", scope, "w"), ("value", object) for one that a trace came
// across, then ("attribute", "bias"), ("item", 3) …
using Path = nb::tuple;

nb::tuple step(const char* how, nb::handle key) { return nb::make_tuple(how, key); }
bool is_step(nb::handle step, const char* how) { return nb::cast<std::string>(step[0]) == how; }
Path value_path(nb::handle value) { return nb::make_tuple(step("value", value)); }
bool is_of_value(const Path& path) { return is_step(path[0], "value"); }

// A value of a module that is being made, as Python holds it.
struct Symbol {
  Object object;
  uint64_t program;        // the object is of that one
  std::string type, text;  // text of a number: what it is in sizes and numbers of the inputs, "2*n0_0+1"; else empty
  bool is_number = false;
};

class Importer;

class LiveObject : public python::Live {
 public:
  LiveObject(Importer& importer, nb::object object, Path path)
      : importer_(importer), object_(std::move(object)), path_(std::move(path)) {}

  std::string describe() const override { return nb::cast<std::string>(tools().attr("called")(object_)); }
  std::optional<Object> attribute(const std::string& name) const override;
  std::optional<Object> overload(std::span<const std::string> types) const override;
  std::vector<std::string> fields() const override {
    return nb::cast<std::vector<std::string>>(tools().attr("fields")(object_));
  }
  bool is_a(const python::Live& type) const override;
  bool is_a(std::string_view type) const override { return is_instance_of(type_named(type)); }
  bool is_base_of(std::string_view type) const override {
    return PyType_Check(object_.ptr()) && is_true(PyObject_IsSubclass(type_named(type).ptr(), object_.ptr()));
  }
  const void* identity() const override { return object_.ptr(); }
  bool is_equal_by_identity() const override {
    const bool is_type = PyType_Check(object_.ptr());
    return is_type || Py_TYPE(object_.ptr())->tp_richcompare == PyBaseObject_Type.tp_richcompare;
  }

  std::shared_ptr<const python::Live> type() const override;
  std::optional<python::Member> member(const std::string& name, const python::Live* after) const override;
  void require_instances() const override;

  nb::handle object() const { return object_; }

 private:
  static nb::object type_named(std::string_view name) { return tools().attr("type_named")(nb::str(name.data(), name.size())); }
  static bool is_true(int answer) {
    if (answer < 0) throw nb::python_error();
    return answer > 0;
  }
  bool is_instance_of(nb::handle type) const {
    if (!PyType_Check(type.ptr())) return false;
    return is_true(PyType_Check(object_.ptr()) ? PyObject_IsSubclass(object_.ptr(), type.ptr())
                                               : PyObject_IsInstance(object_.ptr(), type.ptr()));
  }

  Importer& importer_;
  nb::object object_;
  Path path_;
};

bool LiveObject::is_a(const python::Live& type) const {
  const auto* live = dynamic_cast<const LiveObject*>(&type);
  return live && is_instance_of(live->object_);
}

class LiveGlobals : public python::Globals {
 public:
  LiveGlobals(Importer& importer, nb::object scope, Path path)
      : importer_(importer), scope_(std::move(scope)), path_(std::move(path)) {}
  std::optional<Object> find(const std::string& name) const override;
  std::optional<Object> import(const std::string& module) const override { return import_at(scope_.attr("module")(module)); }
  std::optional<Object> import(const std::string& module, const std::string& name) const override {
    return import_at(scope_.attr("name_in_module")(module, name));
  }

 private:
  // Of (its path, value); None where there is nothing.
  std::optional<Object> import_at(const nb::object& found) const;

  Importer& importer_;
  nb::object scope_;
  Path path_;
};

// Makes objects of the compiler of those of Python.
class Importer : public python::FunctionCall {
 public:
  Importer(Program& program, nb::tuple arguments, nb::dict keywords, nb::object dims)
      : program_(program), arguments_(std::move(arguments)), keywords_(std::move(keywords)), dims_(std::move(dims)) {}

  // What is known of sizes, and what else is assumed while the function is lowered.
  void assume(AssumedSizes& sizes) { sizes_ = &sizes; }

  void guard_sizes() {
    if (!sizes_) return;
    for (const auto& [name, range] : sizes_->known()) {
      for (auto [path, names] : nb::cast<nb::dict>(dims_)) {
        const auto of_axes = nb::cast<std::vector<std::string>>(names);
        const auto found = std::ranges::find(of_axes, name);
        if (found == of_axes.end()) continue;
        const nb::object most = range.high < ir::Range::kHighest ? nb::object(nb::int_(range.high)) : nb::none();
        const nb::tuple within = nb::make_tuple("within", found - of_axes.begin(), range.low, most);
        program_.guards.append(nb::make_tuple(Path(nb::cast<Path>(path) + nb::make_tuple(within)), true));
        break;
      }
    }
  }

  // Of a value: as an argument, numbers are inputs; else constants, which guards watch.
  Object import(nb::object value, Path path, bool is_argument) {
    const nb::tuple told = nb::cast<nb::tuple>(tools().attr("describe")(value));
    const std::string kind = nb::cast<std::string>(told[0]);
    auto part = [&](const char* how, nb::handle key) { return Path(path + nb::make_tuple(step(how, key))); };
    if (kind == "symbol") {
      const auto& symbol = nb::cast<const Symbol&>(told[1]);
      if (symbol.program == program_.id) return symbol.object;
      throw Error(ErrorCode::InvalidArgument, "this tensor belongs to a trace that has ended")
          .with_hint("a traced function returns what it computes; it cannot leave it elsewhere");
    }
    if (kind == "static") return import(nb::borrow(told[1]), value_path(told[1]), false);
    if (kind == "slice") {
      python::Items parts;
      for (const char* name : {"start", "stop", "step"})
        parts.items.push_back(import(nb::getattr(value, name), part("attribute", nb::str(name)), is_argument));
      return {python::SliceObject{std::make_shared<const python::Items>(std::move(parts))}};
    }
    if (kind == "tensor" && is_of_value(path)) return {python::Array{value_node(value, told, path)}};
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
      if (!is_argument && !is_of_value(path)) guard_structure(path, value);
      if (kind == "list" && is_argument) return callers(lowering_->new_list(std::move(items)));
      if (kind == "list" && is_of_value(path)) return lowering_->new_list(std::move(items));
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
    if (kind == "set") {
      guard_structure(path, value);
      return lowering_->make_set(set_items(nb::cast<nb::list>(told[1])));
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
    if (kind == "custom_gradient") {
      Object rule = import(nb::borrow(told[1]), Path(path + nb::make_tuple(step("attribute", nb::str("rule")))), false);
      return {python::CustomGradient{std::make_shared<const Object>(std::move(rule))}};
    }
    guard(path, value);
    if (kind == "number" || kind == "constant") return constant(value);
    if (kind == "module") {
      if (auto found = python::find_module(nb::cast<std::string>(told[1]))) return *found;
    }
    if (kind == "builtin") {
      const auto module = nb::cast<std::string>(told[1]), name = nb::cast<std::string>(told[2]);
      if (auto found = module == "builtins" ? python::find_builtin(name)
                       : module == "tensor" ? python::find_tensor_method(name)
                                            : python::find_in_module(module, name))
        return *found;
      throw Error(ErrorCode::Unsupported, fmt::format("{}.{} cannot be compiled", module, name))
          .with_hint("docs/language.md lists what can; call it before, and pass what it gives");
    }
    if (kind == "dtype") return {python::DTypeObject{*dtype_from_name(nb::cast<std::string>(told[1]))}};
    return {std::shared_ptr<const python::Live>(live(std::move(value), path))};
  }

  python::Arguments arguments(python::Lowering& lowering, ir::Builder& main) override {
    lowering_ = &lowering, main_ = &main;
    if (sizes_) lowering.emitter().set_assumptions(&sizes_->assumptions());
    for (const auto& [closure, told, path] : std::exchange(awaited_, {})) import_defaults(*closure, told, path);
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

  nb::object positional(size_t i) const { return arguments_[i]; }
  nb::object named(const std::string& name) const { return keywords_[name.c_str()]; }

  // The program holds for this attribute of an object.
  void watch(const nb::object& object, const Path& path, const char* attribute) {
    guard(Path(path + nb::make_tuple(step("attribute", nb::str(attribute)))), object.attr(attribute));
  }

  Object import_function(nb::object value) {
    const nb::tuple told = nb::cast<nb::tuple>(tools().attr("describe")(value));
    const Path path = nb::make_tuple(nb::make_tuple("function"));
    if (nb::cast<std::string>(told[0]) == "custom_gradient") return import(value, path, false);
    if (nb::cast<std::string>(told[0]) != "function")
      throw Error(ErrorCode::InvalidArgument, "this is no function that is written in Python");
    return function(value, told, path);
  }

 private:
  static Path root(const char* kind, nb::handle key) { return nb::make_tuple(nb::make_tuple(kind, key)); }
  std::shared_ptr<LiveObject> live(nb::object object, const Path& path) {
    return std::make_shared<LiveObject>(*this, std::move(object), path);
  }
  void guard(const Path& path, const nb::object& value) {
    // What a trace came across is as it was, but for attributes, which compiled functions read.
    if (!is_of_value(path) || is_step(path[path.size() - 1], "attribute"))
      program_.guards.append(nb::make_tuple(path, value));
  }

  // ("derivative", function, (positions, checkpoints) by order, whether the last gradient is by one, whether its value comes along)
  Object derivative(const nb::tuple& told, const Path& path) {
    guard(Path(path + nb::make_tuple(nb::make_tuple("orders"))), nb::make_tuple(told[2], told[3], told[4]));
    const Path function(path + nb::make_tuple(step("attribute", nb::str("_compiled")), step("attribute", nb::str("function"))));
    Object made = import(nb::borrow(told[1]), function, false);
    const auto orders = nb::cast<std::vector<std::pair<std::vector<size_t>, int64_t>>>(told[2]);
    for (size_t i = 0; i < orders.size(); ++i) {
      const auto& [by, checkpoints] = orders[i];
      const bool is_last = i + 1 == orders.size();
      made = {python::Derivative{std::make_shared<const Object>(std::move(made)), by,
                                 is_last ? nb::cast<bool>(told[3]) : by.size() == 1, is_last && nb::cast<bool>(told[4]),
                                 checkpoints}};
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
    if (!dims_.is_none()) guard(Path(path + nb::make_tuple(nb::make_tuple("sizes"))), tools().attr("sizes_of")(value));
  }
  static Object key_of(nb::handle key, std::string_view container = "dict") {
    const std::string kind = nb::cast<std::string>(tools().attr("describe")(key)[nb::int_(0)]);
    if (kind == "number" || kind == "constant") return constant(key);
    const auto called = nb::cast<std::string>(tools().attr("called")(key));
    throw Error(ErrorCode::Unsupported, fmt::format("a {} with a {} as a key cannot be compiled", container, called))
        .with_hint("use texts and numbers as keys");
  }
  // Of a set, also of one that is an argument: constants, which a guard watches.
  static std::vector<Object> set_items(const nb::list& values) {
    std::vector<Object> items;
    for (nb::handle value : values) items.push_back(key_of(value, "set"));
    return items;
  }

  ir::Node* input(const nb::tuple& told, const Path& path) {
    std::string type = nb::cast<std::string>(nb::str(nb::handle(told[2])));
    const size_t index = program_.inputs.size();
    if (dims_.is_none()) {
      type = nb::cast<std::string>(nb::str(nb::handle(told[1])));
      for (size_t at = type.find('?'), axis = 0; at != std::string::npos; at = type.find('?', at), ++axis)
        type.replace(at, 1, fmt::format("n{}_{}", index, axis));
    } else if (!is_of_value(path) && nb::cast<nb::dict>(dims_).contains(path)) {
      auto dims = nb::cast<std::vector<std::string>>(nb::handle(dims_)[path]);
      for (std::string& dim : dims) set_range(dim);
      type = fmt::format("{}[{}]", type.substr(0, type.find('[')), fmt::join(dims, ", "));
    }
    if (const std::string element = type.substr(0, type.find('[')); !dtype_from_name(element)) {
      throw Error(ErrorCode::Unsupported, fmt::format("tensors of {} cannot be compiled", element))
          .with_hint("those of booleans, integers, floats and complex numbers can");
    }
    program_.inputs.append(path);
    return main_->parameter(type, fmt::format("input_{}", index));
  }

  // The symbol has the range from here on. A single size is that.
  void set_range(std::string& dim) {
    if (!sizes_) return;
    const auto found = sizes_->known().find(dim);
    if (found == sizes_->known().end()) return;
    const ir::Range range = found->second;
    if (range.low == range.high) {
      dim = std::to_string(range.low);
    } else {
      lowering_->emitter().module().context().dims().symbol(dim, range);
    }
  }

  // A tensor that a trace came across: an input, for it may be written to later; a number of numpy's is a constant.
  ir::Node* value_node(const nb::object& value, const nb::tuple& told, const Path& path) {
    ir::Node*& known = values_[value.ptr()];
    if (!known) {
      known = told[3].is_none() ? input(told, path)
                                : lowering_->emitter().module().constant(to_datum(told[3], "").tensor().clone());
      kept_.append(value);
    }
    return known;
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
    auto closure = std::make_shared<python::Closure>();
    closure->source = source.get();
    closure->function = tree;
    closure->globals = std::make_shared<LiveGlobals>(*this, nb::borrow(told[2]), path);
    if (main_) {
      import_defaults(*closure, told, path);
    } else {
      awaited_.emplace_back(closure, told, path);
    }
    return {std::shared_ptr<const python::Closure>(std::move(closure))};
  }

  // Of the function that is called first these are known before there is a graph; tensors among them are parameters of that.
  void import_defaults(python::Closure& closure, const nb::tuple& told, const Path& path) {
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
  }

  static Object constant(nb::handle value) {
    using python::Constant;
    PyObject* object = value.ptr();
    if (object == Py_None) return {Constant{python::NoneValue()}};
    if (object == Py_Ellipsis) return {Constant{python::EllipsisValue()}};
    if (PyBool_Check(object)) return {Constant{object == Py_True}};
    if (PyLong_Check(object)) return {Constant{python::Integer(nb::cast<std::string>(nb::str(nb::int_(value))))}};  // also of an enumeration
    if (PyFloat_Check(object)) return {Constant{PyFloat_AsDouble(object)}};
    return python::make_text(nb::cast<std::string>(value));
  }

  // ("array", i), ("number", i), ("numbers", i), ("constant", value), ("tuple" | "list", [items]), ("dict", [(key, item)]), ("fields", class, [items])
  nb::object export_(python::Lowering& lowering, const Object& object, std::vector<ir::Node*>& nodes) {
    if (const python::Cell* instance = object.instance()) return export_instance(lowering, *instance, nodes);
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
      const ir::Type* item = is_sequence ? array->node->type()->element() : array->node->type();
      const bool is_text = item->is_tensor() && item->dtype() == DType::String && item->has_rank() && item->rank() == 0;
      return nb::make_tuple(!array->is_number && !is_text ? "array" : is_sequence ? "numbers" : "number", nodes.size() - 1);
    }
    if (const auto* live = dynamic_cast<const LiveObject*>(object.live()))
      return nb::make_tuple("constant", live->object());
    if (const auto* known = object.as<python::Constant>())
      return nb::make_tuple("constant", tools().attr("literal")(python::repr(*known)));
    lowering.emitter().fail(ErrorCode::Unsupported,
                            fmt::format("{} cannot be returned from a compiled function", python::describe(object)),
                            "return tensors, numbers, texts, and tuples, lists and dicts of them");
  }

  // ("instance", number, class, names, [items]); the same one again is ("same", number).
  nb::object export_instance(python::Lowering& lowering, const python::Cell& instance, std::vector<ir::Node*>& nodes) {
    const auto [number, is_new] = exported_.try_emplace(instance.id, Exported{exported_.size(), false});
    auto refuse = [&](std::string_view what, std::string_view hint) {
      lowering.emitter().fail(ErrorCode::Unsupported, fmt::format("{} {}", instance.type->describe(), what), hint);
    };
    if (!is_new && !number->second.is_whole) refuse("holds itself, and cannot be returned from a compiled function", "return its parts");
    if (!is_new) return nb::make_tuple("same", number->second.number);
    const auto* type = dynamic_cast<const LiveObject*>(instance.type.get());
    if (!type) refuse("is a class of the compiled function, and its instances cannot be returned", "define the class outside, or return the attributes");
    const Object attributes = lowering.content(instance);
    nb::list names, parts;
    for (size_t i = 0; i < attributes.tuple()->items.size(); ++i) {
      const std::string& name = attributes.tuple()->names[i];
      if (python::is_no_value(attributes.tuple()->items[i]))
        refuse(fmt::format("has the attribute '{}' on some paths alone, and cannot be returned", name), "give it a value in __init__");
      names.append(name);
      parts.append(export_(lowering, attributes.tuple()->items[i], nodes));
    }
    exported_.at(instance.id).is_whole = true;
    return nb::make_tuple("instance", number->second.number, type->object(), names, parts);
  }

  struct Exported {
    size_t number;
    bool is_whole;
  };
  std::map<size_t, Exported> exported_;  // instances, by cell
  Program& program_;
  nb::tuple arguments_;
  nb::dict keywords_;
  nb::object dims_;  // see lower_program()
  AssumedSizes* sizes_ = nullptr;
  ir::Builder* main_ = nullptr;
  std::vector<std::tuple<std::shared_ptr<python::Closure>, nb::tuple, Path>> awaited_;
  python::Lowering* lowering_ = nullptr;
  std::vector<std::shared_ptr<python::Source>> sources_;
  std::map<PyObject*, Object> functions_;  // each is one, wherever it is found
  std::map<PyObject*, ir::Node*> values_;  // likewise
  nb::list kept_;
};

std::optional<Object> LiveObject::attribute(const std::string& name) const {
  const nb::tuple found = nb::cast<nb::tuple>(tools().attr("attribute")(object_, name));
  if (!nb::cast<bool>(found[0])) return std::nullopt;
  return importer_.import(nb::borrow(found[1]), Path(path_ + nb::make_tuple(nb::make_tuple("attribute", name))), false);
}

std::shared_ptr<const python::Live> LiveObject::type() const {
  if (PyType_Check(object_.ptr())) return nullptr;
  return std::make_shared<LiveObject>(importer_, nb::borrow(object_.type()), Path(path_ + nb::make_tuple(step("attribute", nb::str("__class__")))));
}

std::optional<python::Member> LiveObject::member(const std::string& name, const python::Live* after) const {
  if (!PyType_Check(object_.ptr())) return std::nullopt;
  const auto* behind = dynamic_cast<const LiveObject*>(after);
  const nb::object found = tools().attr("member")(object_, name, behind ? nb::object(behind->object_) : nb::none());
  if (found.is_none()) return std::nullopt;
  auto part = [&](const char* steps, const char* value) {
    return importer_.import(nb::object(found.attr(value)), Path(path_ + nb::cast<nb::tuple>(found.attr(steps))), false);
  };
  using Kind = python::Member::Kind;
  const auto kind = nb::cast<std::string>(found.attr("kind"));
  if (kind == "descriptor") {
    throw Error(ErrorCode::Unsupported, fmt::format("{}.{} is a {}, which is not supported", describe(), name, nb::cast<std::string>(found.attr("value"))))
        .with_hint("methods, properties and plain values are");
  }
  python::Member made{.kind = kind == "method"            ? Kind::Method
                              : kind == "classmethod"     ? Kind::ClassMethod
                              : kind == "property"        ? Kind::Property
                              : kind == "cached_property" ? Kind::CachedProperty
                                                          : Kind::Value,
                      .object = part("path", "value")};
  if (!found.attr("setter").is_none()) made.setter = part("setter_path", "setter");
  return made;
}

void LiveObject::require_instances() const {
  if (const auto reason = nb::cast<std::string>(tools().attr("why_no_instances")(object_)); !reason.empty()) {
    throw Error(ErrorCode::Unsupported, fmt::format("{} cannot be called in a compiled function: it {}", describe(), reason))
        .with_hint("make the instance before, and pass it");
  }
}

std::optional<Object> LiveObject::overload(std::span<const std::string> types) const {
  if (!nb::cast<bool>(tools().attr("is_overload")(object_))) return std::nullopt;
  importer_.watch(object_, path_, "candidates");
  nb::object chosen = object_.attr("choose")(std::vector<std::string>(types.begin(), types.end()));
  if (nb::isinstance<nb::str>(chosen)) throw Error(ErrorCode::TypeMismatch, nb::cast<std::string>(chosen));
  return importer_.import(chosen, value_path(chosen), false);
}

std::optional<Object> LiveGlobals::find(const std::string& name) const {
  const nb::tuple found = nb::cast<nb::tuple>(scope_.attr("find")(name));
  if (!nb::cast<bool>(found[0])) return std::nullopt;
  return importer_.import(nb::borrow(found[1]), nb::make_tuple(nb::make_tuple("variable", scope_, name)), false);
}

std::optional<Object> LiveGlobals::import_at(const nb::object& found) const {
  if (found.is_none()) return std::nullopt;
  return importer_.import(nb::borrow(found[1]), nb::cast<nb::tuple>(nb::handle(found[0])), false);
}

Program empty_program() {
  static std::atomic<uint64_t> next_id = 1;
  Program program;
  program.id = next_id++;
  program.model.context = ops::make_context();
  program.model.module = std::make_unique<ir::Module>(*program.model.context);
  return program;
}

}  // namespace

AssumedSizes::AssumedSizes(const nb::dict& sizes) {
  for (auto [name, size] : sizes) now_.emplace(nb::cast<std::string>(name), nb::cast<int64_t>(size));
  assumptions_.emplace(now_);
}

bool AssumedSizes::are_settled() {
  const bool is_settled = assumptions_->ranges().empty();
  for (const auto& [name, range] : assumptions_->ranges()) known_.insert_or_assign(name, range);
  assumptions_.emplace(now_);
  return is_settled;
}

Program lower_program(nb::object function, nb::tuple arguments, nb::dict keywords, nb::object dims, nb::dict sizes, bool keeps_stages) {
  AssumedSizes assumed(sizes);
  for (;;) {
    Program program = empty_program();
    program.name = nb::cast<std::string>(tools().attr("place_of")(function));
    Importer importer(program, arguments, keywords, dims);
    importer.assume(assumed);
    const Object object = importer.import_function(function);
    python::SourceStages stages;
    python::lower_function(*program.model.module, object, importer, keeps_stages ? &stages : nullptr);
    if (!assumed.are_settled()) continue;
    importer.guard_sizes();
    if (keeps_stages) program.model.stages = driver::text_stages(stages);
    return program;
  }
}

// Tracing ------------------------------------------------------------------------------------------------------------

namespace {

// What a number is in sizes of the inputs; empty where it is another one.
std::string size_text(const analysis::Inference& inference, const ir::Node* node) {
  if (node->as_parameter()) return std::string(node->name());
  const auto elements = inference.elements(node);
  if (!elements || elements->size() != 1 || (*elements)[0].is_unknown()) return "";
  bool is_known = true;
  for_each_symbol((*elements)[0],
                  [&](ir::Dim symbol) { is_known = is_known && !ir::is_generated(symbol.symbol_name()); });
  return is_known ? to_string((*elements)[0]) : "";
}

}  // namespace

struct Tracer::State {
  State(nb::object wrap, std::string name, nb::tuple arguments, nb::dict keywords, nb::object dims, AssumedSizes* sizes)
      : wrap(std::move(wrap)),
        program(named(std::move(name))),
        main(*program.model.module, graph_name(program.name)),
        lowering(*program.model.module),
        importer(program, std::move(arguments), std::move(keywords), std::move(dims)) {
    if (sizes) importer.assume(*sizes);
    lowering.begin(main.graph());
    set_place(nb::make_tuple("", 0, 0, 0, 0));
    given = importer.arguments(lowering, main);
  }

  // Of "file.py::f".
  static std::string graph_name(const std::string& program) {
    const std::string name = program.substr(program.rfind(':') + 1);
    return name.starts_with('<') ? "main" : name;
  }
  static Program named(std::string name) {
    Program program = empty_program();
    program.name = std::move(name);
    return program;
  }

  void set_place(const nb::tuple& place) {
    const auto file = nb::cast<std::string>(place[0]);
    auto [source, is_new] = sources.try_emplace(file);
    if (is_new) {
      source->second = std::make_unique<python::Source>();
      source->second->file = file.substr(file.rfind('/') + 1);
      source->second->lines = nb::cast<std::vector<std::string>>(tools().attr("lines_of")(file));
    }
    auto at = [&](size_t i) { return nb::cast<int>(place[i]); };
    const auto* tree = source->second->make(python::Kind::Other, {at(1), at(2), at(3), at(4)});
    lowering.emitter().set_place({source->second.get(), tree});
  }

  Object import(nb::handle value) { return importer.import(nb::borrow(value), value_path(value), false); }

  // An object as a value of Python; `given`: where it is an argument, what the caller gave.
  nb::object value(const Object& object, nb::object given = {}) {
    if (const auto* array = object.as<python::Array>()) {
      return wrap(nb::cast(Symbol{object, program.id, python::describe(object),
                                  array->is_number ? size_text(lowering.emitter().inference(), array->node) : "",
                                  array->is_number}));
    }
    if (object.instance())
      lowering.emitter().fail(ErrorCode::Unsupported, fmt::format("an instance of {} cannot leave a traced function", python::describe(object)),
                              "return its attributes");
    const auto* cell = object.as<python::Cell>();
    if (const Object held = cell ? lowering.content(*cell) : object; const python::Items* items = held.tuple()) {
      if (cell && cell->kind == python::Cell::Kind::Dict) {
        nb::dict dict;
        for (size_t i = 0; i + 1 < items->items.size(); i += 2) {
          nb::object key = value(items->items[i]);
          dict[key] = value(items->items[i + 1], given.is_valid() ? nb::object(given[key]) : given);
        }
        return dict;
      }
      nb::list values;
      for (size_t i = 0; i < items->items.size(); ++i) {
        const bool is_named = i < items->names.size();
        nb::object part = !given.is_valid() ? given
                          : is_named        ? nb::getattr(given, items->names[i].c_str())
                                            : nb::object(given[i]);
        values.append(value(items->items[i], std::move(part)));
      }
      if (cell) return values;
      const auto* type = dynamic_cast<const LiveObject*>(items->type.get());
      return type ? type->object()(*nb::tuple(values)) : nb::tuple(values);
    } else if (cell) {
      return value(held);
    }
    if (const auto* known = object.as<python::Constant>()) return tools().attr("literal")(python::repr(*known));
    if (const auto* live = dynamic_cast<const LiveObject*>(object.live())) return nb::borrow(live->object());
    if (const auto* type = object.as<python::DTypeObject>())
      return tools().attr("dtype_of")(std::string(anfora::name(type->dtype)));
    if (const auto* slice = object.as<python::SliceObject>()) {
      const std::vector<Object>& parts = slice->parts->items;
      return nb::module_::import_("builtins").attr("slice")(value(parts[0]), value(parts[1]), value(parts[2]));
    }
    if (given.is_valid()) return given;
    lowering.emitter().fail(ErrorCode::Unsupported,
                            fmt::format("{} cannot leave a compiled function", python::describe(object)));
  }

  nb::object wrap;
  Program program;
  ir::Builder main;
  python::Lowering lowering;
  Importer importer;
  python::Arguments given;
  std::map<std::string, std::unique_ptr<python::Source>> sources;
};

Tracer::Tracer(nb::object wrap, const std::string& name, nb::tuple arguments, nb::dict keywords, nb::object dims, AssumedSizes* sizes)
    : state_(std::make_unique<State>(std::move(wrap), name, std::move(arguments), std::move(keywords), std::move(dims), sizes)) {}
Tracer::~Tracer() = default;

nb::tuple Tracer::arguments() {
  nb::list positional;
  nb::dict named;
  for (size_t i = 0; i < state_->given.positional.size(); ++i)
    positional.append(state_->value(state_->given.positional[i], state_->importer.positional(i)));
  for (const auto& [name, object] : state_->given.named)
    named[name.c_str()] = state_->value(object, state_->importer.named(name));
  return nb::make_tuple(nb::tuple(positional), named);
}

nb::list Tracer::inputs() const { return state_->program.inputs; }

nb::object Tracer::call(nb::object function, nb::tuple arguments, nb::dict keywords, nb::tuple place) {
  state_->set_place(place);
  const Object callee = state_->import(function);
  python::Arguments given;
  for (nb::handle argument : arguments) given.positional.push_back(state_->import(argument));
  for (auto [name, argument] : keywords)
    given.named.emplace_back(nb::cast<std::string>(name), state_->import(argument));
  try {
    return state_->value(state_->lowering.call(callee, std::move(given)));
  } catch (const python::Lowering::Unreached&) {
    state_->lowering.emitter().fail(ErrorCode::InvalidModel, "this call never returns");
  }
}

Program Tracer::finish(nb::object result) {
  python::Lowering& lowering = state_->lowering;
  const Object object = lowering.after_effects(state_->import(result));
  python::set_results(lowering, state_->importer.results(lowering, object));
  state_->importer.guard_sizes();
  return std::move(state_->program);
}

void bind_symbols(nb::module_& module) {
  nb::class_<AssumedSizes>(module, "AssumedSizes", "What a function is compiled for of sizes that are symbols.")
      .def(nb::init<const nb::dict&>(), nb::arg("sizes"))
      .def("are_settled", &AssumedSizes::are_settled);
  nb::class_<Symbol>(module, "Symbol", "A value of a module that is being made.")
      .def_ro("is_number", &Symbol::is_number)
      .def_ro("type", &Symbol::type)
      .def_ro("text", &Symbol::text);
}

}  // namespace anfora::bindings

// Modules and names that the compiler knows, and the files of the library.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>

#include "frontend/python/lower/builtins.h"
#include "frontend/python/lower/library.h"

namespace anfora::python {

namespace {

// A file of the library, read when it is first asked for.
class LibraryModule : public Globals, public std::enable_shared_from_this<LibraryModule> {
 public:
  explicit LibraryModule(std::string_view json) : source_(read_source(json)) { source_.is_library = true; }

  std::optional<Object> find(const std::string& name) const override {
    if (name == "ops") return find_module("anfora.ops");
    if (name == "numpy" || name == "anfora" || name == "collections") return find_module(name);
    const Tree* function = source_.find_definition(name);
    if (!function) return std::nullopt;
    Closure closure;
    closure.source = const_cast<Source*>(&source_);
    closure.function = function;
    closure.globals = shared_from_this();
    return Object{std::make_shared<const Closure>(std::move(closure))};
  }
  std::optional<Object> import(const std::string& module) const override { return find_module(module); }
  std::optional<Object> import(const std::string& module, const std::string& name) const override {
    return find_in_module(module, name, Asks::Library);
  }

 private:
  Source source_;
};

}  // namespace

std::optional<Object> find_in_library(std::string_view file, const std::string& name) {
  // Lowering rewrites trees as it goes: each thread has its own.
  thread_local std::map<std::string, std::shared_ptr<const LibraryModule>, std::less<>> modules;
  auto known = modules.find(file);
  if (known == modules.end()) {
    auto text = std::ranges::find(library_trees(), fmt::format("{}.py.json", file), &LibraryTree::name);
    if (text == library_trees().end()) return std::nullopt;
    known = modules.emplace(file, std::make_shared<const LibraryModule>(text->text)).first;
  }
  return known->second->find(name);
}

namespace {

constexpr std::string_view kFunctions[] = {"len",   "range", "zip",     "enumerate", "reversed", "int",
                                           "float", "bool",  "tuple",   "list",      "dict",     "isinstance",
                                           "print", "str",   "getattr", "object",    "slice",    "hasattr",
                                           "set",   "type",  "frozenset", "iter",     "next",     "super",
                                           "setattr", "NotImplemented"};
constexpr std::string_view kModules[] = {"numpy",  "math",      "anfora",       "anfora.ops", "numpy.linalg",
                                         "typing", "functools", "operator", "numpy.fft", "itertools", "collections", "contextlib"};
constexpr std::string_view kCollections[] = {"namedtuple", "deque", "defaultdict", "OrderedDict", "Counter"};
// `numpy.r_[index]` is _r___getitem__(index) of the library.
std::string getitem_of(const std::string& object) { return fmt::format("_{}__getitem__", object); }
constexpr std::string_view kTransformations[] = {"grad", "value_and_grad", "tree_map", "stop_gradient", "custom_gradient"};
// What the library is written with.
constexpr std::string_view kIntrinsics[] = {"promote",   "as_float", "cast", "as_tensor",   "shape_of",
                                            "is_number", "ops",      "fail", "result_float", "is_known", "unordered",
                                            "is_generator"};

// The library's own functions, which no program sees.
bool is_private(std::string_view name) { return name.starts_with('_'); }

}  // namespace

std::optional<Object> find_builtin(const std::string& name) {
  if (std::ranges::count(kFunctions, name)) return Object{Builtin{name}};
  return is_private(name) ? std::nullopt : find_in_library("builtins", name);
}

std::optional<Object> find_module(const std::string& name) {
  if (name.starts_with("anfora.numpy")) return find_module(name.substr(std::string_view("anfora.").size()));
  if (!std::ranges::count(kModules, name)) return std::nullopt;
  return Object{Builtin{name}};
}

std::optional<Object> find_in_module(const std::string& module, const std::string& name, Asks asks) {
  if (module == "anfora.ops") return Object{Builtin{"anfora.ops." + name}};
  if (module == "collections" && std::ranges::count(kCollections, name)) return Object{Builtin{"collections." + name}};
  if (module == "anfora" && (std::ranges::count(kTransformations, name) || (asks == Asks::Library && std::ranges::count(kIntrinsics, name))))
    return Object{Builtin{"anfora." + name}};
  if (module == "contextlib" && name == "nullcontext") return Object{Builtin{"contextlib.nullcontext"}};
  const std::string inner = module + "." + name;
  if (auto found = find_module(inner)) return found;
  if (module == "numpy" || module == "math") {
    static const std::map<std::string, double> kNumbers = {{"pi", std::numbers::pi},
                                                           {"e", std::numbers::e},
                                                           {"inf", std::numeric_limits<double>::infinity()},
                                                           {"nan", std::nan("")},
                                                           {"tau", 2 * std::numbers::pi}};
    if (auto number = kNumbers.find(name); number != kNumbers.end()) return Object{Constant{number->second}};
  }
  if (module == "numpy") {
    static const std::map<std::string, DType> kTypes = {
        {"float64", DType::F64},   {"float32", DType::F32},    {"float16", DType::F16}, {"int64", DType::I64},
        {"int32", DType::I32},     {"int16", DType::I16},      {"int8", DType::I8},     {"uint64", DType::U64},
        {"uint32", DType::U32},    {"uint16", DType::U16},     {"uint8", DType::U8},    {"bool_", DType::Bool},
        {"double", DType::F64},    {"single", DType::F32},     {"half", DType::F16},    {"intp", DType::I64},
        {"complex64", DType::C64}, {"complex128", DType::C128}};
    if (auto type = kTypes.find(name); type != kTypes.end()) return Object{DTypeObject{type->second}};
    if (name == "newaxis") return Object{Constant{NoneValue()}};
    if (name == "errstate") return Object{Builtin{"numpy.errstate"}};
    if (name == "ndarray") return Object{Builtin{"numpy.ndarray"}};
  }
  if (find_in_library(module, getitem_of(name))) return Object{Builtin{inner}};
  return asks == Asks::Program && is_private(name) ? std::nullopt : find_in_library(module, name);
}

std::optional<Object> find_subscript(const std::string& object) {
  const size_t dot = object.rfind('.');
  return dot == std::string::npos ? std::nullopt : find_in_library(object.substr(0, dot), getitem_of(object.substr(dot + 1)));
}

std::optional<Object> find_tensor_method(const std::string& name) { return find_in_library("tensor", name); }

}  // namespace anfora::python

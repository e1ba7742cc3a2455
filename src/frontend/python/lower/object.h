// What a name of a Python program stands for while the program becomes a graph. Tensors, and numbers that only a run knows, are nodes.
// All else, the structure of tuples and lists, functions, modules, texts, is known to the compiler and leaves no trace in the graph.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "frontend/python/tree.h"
#include "ir/node.h"

namespace anfora::python {

struct Object;
class Globals;

// A tensor; or a number of Python, a tensor of rank 0 of i64, f64 or bool that takes the element type of what it is computed with. Also a
// list whose length a run decides: a sequence of these.
struct Array {
  ir::Node* node = nullptr;
  bool is_number = false;  // of a sequence: its items are
  friend bool operator==(const Array&, const Array&) = default;
};
struct Member;
// An object of the Python that runs the compiler: an instance, a class. Its attributes are looked up when the program asks for them. Also a
// class that the program itself defines.
class Live {
 public:
  virtual ~Live() = default;
  virtual std::string describe() const = 0;
  // Empty where it has none of that name. Throws Unsupported for what cannot be compiled.
  virtual std::optional<Object> attribute(const std::string& name) const = 0;
  // Of an overloaded function, the one for arguments of these types, as describe() writes them; empty for what is no such function.
  // Throws TypeMismatch where none fits.
  virtual std::optional<Object> overload(std::span<const std::string> types) const = 0;
  // Of a class whose instances are tuples with names, the names; else none.
  virtual std::vector<std::string> fields() const = 0;
  // Of a class, whether it is that one or derives from it; of another object, whether its class does. Types of Python by name: "tuple".
  virtual bool is_a(const Live& type) const = 0;
  virtual bool is_a(std::string_view type) const = 0;
  // Of a class, whether instances of that type of Python are instances of it: numbers.Number is a base of "int".
  virtual bool is_base_of(std::string_view type) const = 0;
  // The same of two that are one object.
  virtual const void* identity() const = 0;
  // Whether == says the same: its class does not define it otherwise.
  virtual bool is_equal_by_identity() const = 0;
  // Of an instance, its class; null: it is a class itself, or its class is not written in Python.
  virtual std::shared_ptr<const Live> type() const { return nullptr; }
  // Of a class, what it or the first base that has it defines by that name; `after`: of the bases behind that one. Empty where no class that
  // is written in Python does. Throws Unsupported.
  virtual std::optional<Member> member(const std::string& name, const Live* after = nullptr) const;
  // Throws Unsupported, saying why, where instances of the class cannot be made in a compiled function.
  virtual void require_instances() const;
};
struct Items {  // of a tuple
  std::vector<Object> items;
  std::vector<std::string> names;    // of a tuple with names for its items, those …
  std::shared_ptr<const Live> type;  // … and its class
};
// A place that may be written to while others look at it: a list, a dict, a set, a variable that a function inside captures. Its content
// is part of the state at each point of the program.
struct Cell {
  enum class Kind : uint8_t { Variable, List, Dict, Set, Instance };
  Kind kind = Kind::Variable;
  size_t id = 0;
  std::shared_ptr<const Live> type = nullptr;  // of an Instance: its class. Its content are its attributes, by name
  friend bool operator==(const Cell& a, const Cell& b) { return a.kind == b.kind && a.id == b.id; }
};
// The content of a set, or a frozenset. Items may be equal where only a run knows whether they are.
struct SetObject {
  std::shared_ptr<const Items> items;
  bool is_distinct = true;  // all are known to differ
};
struct SliceObject {
  std::shared_ptr<const Items> parts;  // start, stop, step
};
// What a `for` goes over: range(start, stop, step), zip(…), enumerate(…, start), reversed(…).
struct Iterable {
  enum class Kind : uint8_t { Range, Zip, Enumerate, Reversed };
  Kind kind;
  std::shared_ptr<const Items> parts;
};
// A function of the program with what it captured.
struct Closure {
  Source* source = nullptr;
  const Tree* function = nullptr;  // FunctionDef or Lambda
  std::shared_ptr<const Globals> globals;
  std::map<std::string, Cell> captured;
  std::shared_ptr<const Items> defaults, keyword_defaults;
  std::vector<std::pair<std::string, std::shared_ptr<const Object>>> bound;  // arguments in front, as `self`
};
// A module or function that the compiler knows: "numpy", "numpy.exp", "len", "anfora.ops.Conv".
struct Builtin {
  std::string name;
};
// x.sum before it is called.
struct Method {
  std::shared_ptr<const Object> self;
  std::string name;
};
// super() in a method: the attributes of `self` that the bases behind a class of it define.
struct Super {
  std::shared_ptr<const Live> type;
  std::shared_ptr<const Object> self;
};
// What a function that yields returned. Where it stands is part of the state, as the content of a cell is.
struct Generator {
  size_t id = 0;
  friend bool operator==(const Generator&, const Generator&) = default;
};
// The content: a generator that stands before a block of its function, with the variables that live there. Where a run decides which of several
// blocks that is, `which` is its number.
struct Suspended {
  static constexpr int kFinished = -1, kUnknown = -2, kSeveral = -3;  // as the block; unknown: it cannot be asked for items
  std::shared_ptr<const Closure> closure;
  int block = 0;
  std::vector<std::optional<Object>> variables;
  std::vector<Suspended> several;
  std::shared_ptr<const Object> which;
};
// One of several functions, as a run decides. Each function has a number in a program.
struct Choice {
  std::vector<int64_t> numbers;            // ascending
  std::shared_ptr<const Items> functions;  // of these numbers
  std::shared_ptr<const Object> which;     // the number of the one that it is
};
struct DTypeObject {
  DType dtype;
};
// anfora.grad(f) before it is called.
struct Derivative {
  std::shared_ptr<const Object> function;
  std::vector<size_t> by;  // positions of arguments
  bool is_single = true;   // the gradient by one, not a tuple
  bool has_value = false;  // a tuple of what f returns and that
  int64_t checkpoints = 0;
};
// A function of the program that returns what it computes, and a function of the sensitivity of that, which gives those of the arguments.
struct CustomGradient {
  std::shared_ptr<const Object> function;
};

struct Object {
  using Value = std::variant<Constant, Array, std::shared_ptr<const Items>, Cell, SliceObject, Iterable,
                             std::shared_ptr<const Closure>, Builtin, Method, DTypeObject, Derivative,
                             CustomGradient, std::shared_ptr<const Live>, SetObject, Generator,
                             std::shared_ptr<const Suspended>, std::shared_ptr<const Choice>, Super>;
  Value value;

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(value);
  }
  template <class T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
  const Items* tuple() const {
    const auto* items = std::get_if<std::shared_ptr<const Items>>(&value);
    return items ? items->get() : nullptr;
  }
  const Live* live() const {
    const auto* live = std::get_if<std::shared_ptr<const Live>>(&value);
    return live ? live->get() : nullptr;
  }
  const Closure* closure() const {
    const auto* closure = std::get_if<std::shared_ptr<const Closure>>(&value);
    return closure ? closure->get() : nullptr;
  }
  const Suspended* suspended() const {
    const auto* suspended = std::get_if<std::shared_ptr<const Suspended>>(&value);
    return suspended ? suspended->get() : nullptr;
  }
  const Choice* choice() const {
    const auto* choice = std::get_if<std::shared_ptr<const Choice>>(&value);
    return choice ? choice->get() : nullptr;
  }
  // The constant of that kind, or null.
  template <class T>
  const T* constant() const {
    const auto* constant = std::get_if<Constant>(&value);
    return constant ? std::get_if<T>(&constant->value) : nullptr;
  }
  bool is_none() const { return constant<NoneValue>() != nullptr; }
  // An instance of a class that is written in Python, which the program made; or null.
  const Cell* instance() const {
    const auto* cell = std::get_if<Cell>(&value);
    return cell && cell->kind == Cell::Kind::Instance ? cell : nullptr;
  }
};

// What a class defines, and how an instance takes it: as it is; bound to the instance, or to its class; by a call of a getter, each time or
// once.
struct Member {
  enum class Kind : uint8_t { Value, Method, ClassMethod, Property, CachedProperty };
  Kind kind = Kind::Value;
  Object object;
  std::optional<Object> setter = std::nullopt;
};

// The class of an instance, where that is written in Python; else null.
std::shared_ptr<const Live> written_class(const Object& object);
// Of an instance's attributes, the one of that name; null: there is none.
const Object* find_attribute(const Items& attributes, std::string_view name);
// What an attribute is that has a value on some of the paths to here, and none on others.
Object no_value();
bool is_no_value(const Object& object);

// Whether a run may decide that it is this function and not another.
bool is_function(const Object& object);

// Of a tuple, named or not, null; of an instance of another class, what is the same for all of that class. These are never equal to tuples.
const void* class_of(const Items& items);

Object make_tuple(std::vector<Object> items, std::vector<std::string> names = {},
                  std::shared_ptr<const Live> type = nullptr);
Object make_integer(int64_t value);
Object make_text(std::string_view utf8);
// A constant; a tuple of constants becomes a tuple of objects.
Object make_constant(const Constant& constant);

// The function that is written in the program: of a closure, and of what is made of one; null: it is none.
const Closure* written_function(const Object& object);

// The text of a str, in UTF-8; empty where it is none.
std::optional<std::string> text_of(const Object& object);
// Whether it is a str: one that the compiler knows, or one that a run chooses.
bool is_text(const Object& object);
// An int, or True or False as 1 and 0, where it fits 64 bits.
std::optional<int64_t> integer_of(const Object& object);
// Whether a run decides nothing of it.
bool is_known(const Object& object);
// Whether it is a number that the compiler knows: bool, int or float.
bool is_known_number(const Object& object);

// What to write in the place of what has none.
inline constexpr std::string_view kItems = "tensors, tuples, lists, dicts, texts and ranges have items";

// "f32[N, 3]", "int", "tuple of 2", "function f": as messages call it.
std::string describe(const Object& object);

// Values of names that a function does not bind itself.
class Globals {
 public:
  virtual ~Globals() = default;
  // Empty where nothing has that name. Throws Unsupported for what cannot be compiled.
  virtual std::optional<Object> find(const std::string& name) const = 0;
  // A module by the name that `import` gives it, with dots in front where it is relative; or what has that name in it. Empty, or throws,
  // as find().
  virtual std::optional<Object> import(const std::string& module) const = 0;
  virtual std::optional<Object> import(const std::string& module, const std::string& name) const = 0;
};

}  // namespace anfora::python

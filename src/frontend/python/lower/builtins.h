// What Python, numpy and math bring along: names of the compiler itself, and functions that are written in Python (library/*.py) and
// lowered as those of the program.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "frontend/python/lower/object.h"

namespace anfora::python {

// `len`, `range`, `int` …
std::optional<Object> find_builtin(const std::string& name);
// A module by the name that `import` gives it: "numpy", "math", "anfora", "anfora.ops".
std::optional<Object> find_module(const std::string& name);
// The library sees names that no program does: what it is written with, and its functions whose names begin with an underscore.
enum class Asks : uint8_t { Program, Library };
// numpy.exp, math.pi, anfora.ops.Conv. Empty where the module has no such name.
std::optional<Object> find_in_module(const std::string& module, const std::string& name, Asks asks = Asks::Program);
// A function of a file of the library.
std::optional<Object> find_in_library(std::string_view file, const std::string& name);
// The function of the library that gives items of what is no tensor: numpy.r_[index].
std::optional<Object> find_subscript(const std::string& object);
// The function of the library that a method of a tensor is: x.sum(axis=0) is sum(x, axis=0).
std::optional<Object> find_tensor_method(const std::string& name);

}  // namespace anfora::python

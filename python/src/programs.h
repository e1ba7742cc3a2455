// Functions of the Python that is running, as modules.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "driver/model.h"
#include "frontend/python/lower/size_assumptions.h"

namespace anfora::bindings {

namespace nb = nanobind;

struct Program {
  driver::LoadedModel model;
  uint64_t id = 0;
  std::string name;   // "file.py::function"
  nb::object result;  // how outputs become what the function returns, see anfora/_program.py
  nb::list inputs;    // paths to the inputs: arguments, and tensors that the function reads from elsewhere
  nb::list guards;    // (path, object): what the module holds for
};

// What a function is compiled for of sizes that are symbols, by their names. It is lowered, or traced, again until that assumes no more: so the
// types of its arguments say what was assumed, from the start.
class AssumedSizes {
 public:
  // `sizes`: what they are in the call at hand.
  explicit AssumedSizes(const nb::dict& sizes);
  // What was assumed before, and what is assumed now.
  const python::SizeAssumptions::Ranges& known() const { return known_; }
  python::SizeAssumptions& assumptions() { return *assumptions_; }
  // Whether nothing was assumed now; what was is known from here on.
  bool are_settled();

 private:
  std::map<std::string, int64_t, std::less<>> now_;
  python::SizeAssumptions::Ranges known_;
  std::optional<python::SizeAssumptions> assumptions_;
};

// Lowers a function for arguments of these types. `dims`: names or sizes of the dimensions of tensors, a list by the path of each; those of
// others are what they are now, which guards watch. None: each dimension has a name of its own, n0_1 of input 0's axis 1.
// `sizes`: by the names of dimensions, what they are now, by which sizes may be assumed to lie in a range that the guards watch:
// (path, "within", axis, least, most). `keeps_stages`: what was made on the way is in the model, see pipeline::TextStage.
Program lower_program(nb::object function, nb::tuple arguments, nb::dict keywords, nb::object dims, nb::dict sizes, bool keeps_stages);

// Records calls, made one after another by a Python function that runs, as a module. Values of the module are Symbols, which `wrap`
// makes the values of Python that the function works with.
class Tracer {
 public:
  // `sizes`: outlives it; null: nothing is assumed.
  Tracer(nb::object wrap, const std::string& name, nb::tuple arguments, nb::dict keywords, nb::object dims, AssumedSizes* sizes);
  ~Tracer();
  nb::tuple arguments();    // (positional, by name)
  nb::list inputs() const;  // paths to the inputs so far
  // `place`: (file, line, column, last line, column behind it).
  nb::object call(nb::object function, nb::tuple arguments, nb::dict keywords, nb::tuple place);
  Program finish(nb::object result);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

void bind_symbols(nb::module_& module);


}  // namespace anfora::bindings
